"""The log evidence of a table over all graphs as a PyTensor operation, differentiable in hyperparameters."""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_spn.dags.evidence_kernels import bdeu_evidence, bge_evidence
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_njit, register_funcify_default_op_cache_key

_KERNELS = {"BGe": bge_evidence, "BDeu": bdeu_evidence}


class DagLogEvidence(Op):
    """Log evidence and its gradient (2,) from (score parameter, edge penalty) and eleven constants.

    The constants are the arguments of the kernel between the parameters and the gradient. The gradient has no
    derivative of its own.
    """

    __props__ = ("score",)

    def __init__(self, score):
        self.score = score

    def make_node(self, parameters, *constants):
        inputs = [pt.as_tensor_variable(x) for x in (parameters, *constants)]
        return Apply(self, inputs, [pt.dscalar(), pt.dvector()])

    def infer_shape(self, node, shapes):
        return [(), (2,)]

    def perform(self, node, inputs, output_storage):
        parameters, *constants, normaliser = inputs
        gradient = np.empty(2)
        value = _KERNELS[self.score](parameters, *map(read_only_view, constants), float(normaliser), gradient)
        output_storage[0][0], output_storage[1][0] = np.asarray(value), gradient

    def connection_pattern(self, node):
        return [[True, True]] + [[False, False]] * (len(node.inputs) - 1)

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] * outputs[1], *(disconnected_type() for _ in inputs[1:])]


@register_funcify_default_op_cache_key(DagLogEvidence)
def _(op, node, **kwargs):
    evidence = _KERNELS[op.score]

    @numba_njit
    def dag_log_evidence_numba(parameters, a, b, c, candidates, n, lookup, offsets, precede, prior, sizes, normaliser):
        gradient = np.empty(2)
        value = evidence(
            parameters, a, b, c, candidates, n, lookup, offsets, precede, prior, sizes, normaliser.item(), gradient
        )
        return np.asarray(value), gradient

    return dag_log_evidence_numba, source_version()
