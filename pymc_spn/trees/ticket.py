"""The free variable that a tree always has: it carries the log joint of the step's last draw."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

NO_GRADIENT = (
    "ps.DecisionTree: only pm.sample moves the tree; a method that differentiates the log density in all variables "
    "(pm.find_MAP, pm.fit, pm.NUTS for everything) would hold it at one arbitrary state"
)


class TreeTicket(RandomVariable):
    """0 until the first draw."""

    name, signature, dtype = "tree_log_joint", "()->()", "float64"
    _print_name = ("TreeLogJoint", "\\operatorname{TreeLogJoint}")

    @classmethod
    def rng_fn(cls, rng, zero, size):
        return np.zeros(() if size is None else size)


@numba_core_rv_funcify.register(TreeTicket)
def _(op, node):
    @numba_njit
    def ticket(rng, zero):
        return 0.0

    return ticket, 1


class FlatTicket(Distribution):
    """Flat: the step alone writes it."""

    rv_op = TreeTicket()

    @classmethod
    def dist(cls, **kwargs):
        return super().dist([pt.constant(0.0)], **kwargs)

    def support_point(rv, size, zero):
        return pt.zeros(())

    def logp(value, zero):
        return flat_tree_density(value)


class FlatTreeDensity(Op):
    """Zero, but connected: PyMC refuses a continuous variable that the log density does not use."""

    __props__ = ()

    def make_node(self, value):
        return Apply(self, [pt.as_tensor_variable(value)], [pt.dscalar()])

    def infer_shape(self, node, shapes):
        return [()]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(0.0)

    def pullback(self, inputs, outputs, cotangents):
        raise NotImplementedError(NO_GRADIENT)


flat_tree_density = FlatTreeDensity()


@register_funcify_default_op_cache_key(FlatTreeDensity)
def _(op, node, **kwargs):
    @numba_njit
    def flat_tree_density_numba(value):
        return np.asarray(0.0)

    return flat_tree_density_numba, 1
