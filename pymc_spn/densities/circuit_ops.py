"""Row-wise log density of an explicit circuit as PyTensor operations, value and gradient in one pass."""

import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.rewriting.basic import register_specialize

from pymc_spn.circuits.evaluation.elliptical_parts import wide_rows_and_gradient_of, wide_rows_of
from pymc_spn.circuits.evaluation.packed_layout import rows_and_gradient_of, rows_of
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_njit, register_funcify_default_op_cache_key


class CircuitRows(Op):
    """Log density of each row.

    Inputs: packed layout (s,) int64, values (N, D), log weights (E,), leaf parameters (P,). The gradient is another
    operation, which also gives the rows; where both are wanted, a rewrite leaves that one alone.

    Parameters
    ----------
    is_wide : bool
        Whether the layout has leaves over several columns (`elliptical_parts.with_parts`); other circuits then compile
        nothing for these.
    """

    __props__ = ("is_wide",)

    def __init__(self, is_wide=False):
        self.is_wide = is_wide
        self.given = wide_rows_of if is_wide else rows_of

    def make_node(self, *inputs):
        inputs = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, inputs, [pt.TensorType("float64", shape=(inputs[1].type.shape[0],))()])

    def infer_shape(self, node, shapes):
        return [(shapes[1][0],)]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = self.given(*inputs)

    def connection_pattern(self, node):
        return [[False], [True], [True], [True]]

    def pullback(self, inputs, outputs, cotangents):
        _, grad_weights, grad_theta, grad_values = CircuitRowsAndGradient(self.is_wide)(*inputs, cotangents[0])
        return [disconnected_type(), grad_values, grad_weights, grad_theta]


class CircuitRowsAndGradient(Op):
    """Rows, and the gradient of their sum weighted by a cotangent (N,), the last input.

    Outputs: rows (N,), gradients in log weights, leaf parameters and values, each of its input's shape.
    """

    __props__ = ("is_wide",)

    def __init__(self, is_wide=False):
        self.is_wide = is_wide
        self.given = wide_rows_and_gradient_of if is_wide else rows_and_gradient_of

    def make_node(self, *inputs):
        packed, values, log_weights, theta, cotangent = (pt.as_tensor_variable(x) for x in inputs)
        rows = pt.TensorType("float64", shape=(values.type.shape[0],))()
        outputs = [rows, log_weights.type(), theta.type(), values.type()]
        return Apply(self, [packed, values, log_weights, theta, cotangent], outputs)

    def infer_shape(self, node, shapes):
        return [(shapes[1][0],), shapes[2], shapes[3], shapes[1]]

    def perform(self, node, inputs, output_storage):
        found = self.given(*inputs)
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = value


def rows_of_circuit(circuit):
    """The operation for a circuit's rows, by whether it has leaves over several columns."""
    return CircuitRows(bool(circuit.further_columns))


@register_specialize
@node_rewriter([CircuitRowsAndGradient])
def rows_from_the_gradient_pass(fgraph, node):
    """Take the rows from the operation that works them out anyway, unless its cotangent depends on them."""
    for client, _ in fgraph.clients[node.inputs[1]]:
        if not isinstance(client.op, CircuitRows) or list(client.inputs) != list(node.inputs[:4]):
            continue
        if client.outputs[0] not in set(ancestors([node.inputs[4]])):
            return {client.outputs[0]: node.outputs[0]}
    return False


@register_funcify_default_op_cache_key(CircuitRows)
def _(op, node, **kwargs):
    given = op.given

    @numba_njit
    def circuit_rows_numba(packed, values, log_weights, theta):
        return given(packed, values, log_weights, theta)

    return circuit_rows_numba, source_version()


@register_funcify_default_op_cache_key(CircuitRowsAndGradient)
def _(op, node, **kwargs):
    given = op.given

    @numba_njit
    def circuit_rows_and_gradient_numba(packed, values, log_weights, theta, cotangent):
        return given(packed, values, log_weights, theta, cotangent)

    return circuit_rows_and_gradient_numba, source_version()
