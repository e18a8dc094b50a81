"""Log weights of orders and ordered partitions as PyTensor operations."""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_spn.dags.order_mcmc_kernels import positions_log_weight
from pymc_spn.dags.partition_mcmc_graphs import blocks_log_weight
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_njit, register_funcify_default_op_cache_key
from pymc_spn.steps.tickets import FlatLogDensity

NO_GRADIENT = (
    "ps.DagOrder, ps.DagPartition: orders and partitions are discrete, only pm.sample moves them; a method that "
    "differentiates the log density (pm.find_MAP, pm.fit, pm.NUTS for everything) does not apply; the most probable "
    "graph comes from ps.OrderSPN"
)
NOT_WRITTEN = (
    "ps.DagOrder, ps.DagPartition: the log score is not that of the order or partition; only the step that pm.sample "
    "picks by itself draws a graph and writes its score, so pm.sample_smc and other steps do not apply"
)


class _LogWeight(Op):
    """Log weight of a state (d,), and the arrays of its kernel."""

    __props__ = ()

    def make_node(self, *inputs):
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.dscalar()])

    def infer_shape(self, node, shapes):
        return [()]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(self.kernel(*inputs))


class OrderLogWeight(_LogWeight):
    """Log weight of the positions (d,) of an order, and the arrays of `positions_log_weight`."""

    kernel = staticmethod(positions_log_weight)


class PartitionLogWeight(_LogWeight):
    """Log weight of the block numbers (d,) of an ordered partition, and the arrays of `blocks_log_weight`."""

    kernel = staticmethod(blocks_log_weight)


flat_log_weight = FlatLogDensity(NO_GRADIENT)  # of what a step writes


@register_funcify_default_op_cache_key(OrderLogWeight)
@register_funcify_default_op_cache_key(PartitionLogWeight)
def _(op, node, **kwargs):
    kernel = op.kernel

    @numba_njit
    def log_weight(*inputs):
        return np.asarray(kernel(*inputs))

    return log_weight, source_version()
