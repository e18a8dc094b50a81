"""Log weights of orders and ordered partitions, and the log evidence of a table, as PyTensor operations."""

from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from numba import objmode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_spn.dags.order_mcmc_kernels import positions_log_weight
from pymc_spn.dags.partition_mcmc_graphs import blocks_log_weight
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_funcify, numba_njit, register_funcify_default_op_cache_key
from pymc_spn.steps.tickets import FlatLogDensity

NO_GRADIENT = (
    "ps.DagOrder, ps.DagPartition: orders and partitions are discrete, only pm.sample moves them; a method that "
    "differentiates the log density (pm.find_MAP, pm.fit, pm.NUTS for everything) does not apply; the most probable "
    "graph comes from ps.OrderSPN"
)
NO_FORWARD_DRAWS = (
    "ps.DagOrder, ps.DagPartition: only the step that pm.sample picks by itself draws them, so pm.draw, "
    "pm.sample_prior_predictive and pm.sample_smc do not apply; independent draws of orders and graphs are "
    "ps.DagPosterior.from_scores(scores).sample(draws)"
)
NOT_WRITTEN = (
    "ps.DagOrder, ps.DagPartition: the log score is not that of the order or partition; only the step that pm.sample "
    "picks by itself draws a graph and writes its score, so pm.sample_smc and other steps do not apply"
)


class DagLogWeight(Op):
    """Log weight of the positions (d,) of an order, or the block numbers of a partition, and its kernel's arrays."""

    __props__ = ("state",)
    kernels: ClassVar[dict[str, Any]] = {"order": positions_log_weight, "partition": blocks_log_weight}

    def __init__(self, state):
        self.state = state

    def make_node(self, *inputs):
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.dscalar()])

    def infer_shape(self, node, shapes):
        return [()]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(self.kernels[self.state](*inputs))


flat_log_weight = FlatLogDensity(NO_GRADIENT)  # of what a step writes


@register_funcify_default_op_cache_key(DagLogWeight)
def _(op, node, **kwargs):
    kernel = op.kernels[op.state]

    @numba_njit
    def log_weight(*inputs):
        return np.asarray(kernel(*inputs))

    return log_weight, source_version()


class DagLogEvidence(Op):
    """Log evidence and its gradient (2,) from (score parameter, edge penalty).

    Parameters
    ----------
    evidence : GraphEvidence
        The function that does it. The gradient has no derivative of its own.
    """

    __props__ = ("evidence",)

    def __init__(self, evidence):
        self.evidence = evidence

    def make_node(self, parameters):
        return Apply(self, [pt.as_tensor_variable(parameters)], [pt.dscalar(), pt.dvector()])

    def infer_shape(self, node, shapes):
        return [(), (2,)]

    def perform(self, node, inputs, output_storage):
        value, gradient = self.evidence(*inputs)
        output_storage[0][0], output_storage[1][0] = np.asarray(value), gradient

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] * outputs[1]]


@numba_funcify.register(DagLogEvidence)
def _(op, node, **kwargs):
    evidence = op.evidence

    @numba_njit
    def dag_log_evidence(parameters):
        with objmode(value="float64", gradient="float64[::1]"):
            value, gradient = evidence(parameters)
        return np.asarray(value), gradient

    return dag_log_evidence
