"""The free variable that a sampled structure always has: it carries what its step wrote, and has a flat density."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable


class FlatLogDensity(Op):
    """Zero, but connected: PyMC refuses a continuous variable that the log density does not use.

    A step owns the variable, so only what would move all variables at once asks for the derivative, and is told so.

    Parameters
    ----------
    no_gradient : str
        What it is told.
    """

    __props__ = ("no_gradient",)

    def __init__(self, no_gradient: str):
        self.no_gradient = no_gradient

    def make_node(self, value):
        return Apply(self, [pt.as_tensor_variable(value)], [pt.dscalar()])

    def infer_shape(self, node, shapes):
        return [()]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(0.0)

    def pullback(self, inputs, outputs, cotangents):
        raise NotImplementedError(self.no_gradient)


@register_funcify_default_op_cache_key(FlatLogDensity)
def _(op, node, **kwargs):
    @numba_njit
    def flat_log_density(value):
        return np.asarray(0.0)

    return flat_log_density, 1


class LogJointTicket(RandomVariable):
    """Carries the log joint of the step's last draw; 0 until the first."""

    signature, dtype = "()->()", "float64"
    __props__: Any = ("name", "signature", "dtype", "inplace", "no_gradient")
    _print_name = ("LogJoint", "\\operatorname{LogJoint}")

    def __init__(self, name: str = "log_joint", no_gradient: str = "", **kwargs: Any):
        self.no_gradient = no_gradient
        super().__init__(name=name, **kwargs)

    def rng_fn(self, rng, zero, size):
        return np.zeros(() if size is None else size)


@numba_core_rv_funcify.register(LogJointTicket)
def _(op, node):
    @numba_njit
    def ticket(rng, zero):
        return 0.0

    return ticket, 1


@_logprob.register(LogJointTicket)
def _(op, values, rng, size, zero, **kwargs):
    return FlatLogDensity(op.no_gradient)(values[0])


class Ticket(Distribution):
    """Flat: the step alone writes it. A family has its own, with its name and message."""

    rv_op = LogJointTicket()

    @classmethod
    def dist(cls, **kwargs):
        return super().dist([pt.constant(0.0)], **kwargs)

    def support_point(rv, size, zero):
        return pt.zeros(())
