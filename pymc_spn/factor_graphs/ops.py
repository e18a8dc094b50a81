"""Log partition functions and joint draws of a factor graph as PyTensor operations.

The plan's arrays are inputs and not part of an operation: compiled code is the same for every graph.
"""

from typing import Any

import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.graph.traversal import ancestors

from pymc_spn.factor_graphs.packed_plan import draw_states, evaluate, pack_plan
from pymc_spn.factor_graphs.plan import PlanArrays
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_njit, register_funcify_default_op_cache_key

N_ARRAYS = 2
NO_SECOND_DERIVATIVE = (
    "second derivatives of a factor graph's log partition function are not offered; samplers and optimisers that need "
    "only the gradient work"
)


def plan_inputs(arrays: PlanArrays) -> list[Any]:
    """The plan as constants of a graph."""
    return [pt.constant(a) for a in pack_plan(arrays)]


class LogPartition(Op):
    """log Z of every row of evidence.

    Inputs: log potentials (n_potentials,), codes (k, n_variables) int32, log evidence (k, n_states), a vector whose
    length is the number of rows, and the plan. Either the codes or the log evidence may have no rows. Output:
    (n_rows,).
    """

    __props__ = ()

    def make_node(self, potentials, codes, soft, rows, *plan):
        inputs = [pt.as_tensor_variable(x) for x in (potentials, codes, soft, rows, *plan)]
        return Apply(self, inputs, [pt.TensorType("float64", shape=(inputs[3].type.shape[0],))()])

    def infer_shape(self, node, shapes):
        return [(shapes[3][0],)]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = evaluate(*map(read_only_view, inputs), False)[0]

    def connection_pattern(self, node):
        return [[True], [False], [True]] + [[False]] * (1 + N_ARRAYS)

    def pullback(self, inputs, outputs, cotangents):
        potentials, codes, soft, _, *plan = inputs
        _, for_potentials, for_soft = log_partition_gradient(potentials, codes, soft, cotangents[0], *plan)
        return [for_potentials, disconnected_type(), for_soft] + [disconnected_type() for _ in range(1 + N_ARRAYS)]


class LogPartitionGradient(Op):
    """log Z of every row, and the gradient of its sum weighted by the fourth input (n_rows,).

    The gradient with respect to log potentials is the expected use of each entry, that with respect to log evidence the
    marginals. Both take one pass down after the pass up that log Z needs. Inputs as for `LogPartition`.
    """

    __props__ = ()

    def make_node(self, potentials, codes, soft, weights, *plan):
        inputs = [pt.as_tensor_variable(x) for x in (potentials, codes, soft, weights, *plan)]
        n = inputs[3].type.shape[0]
        outputs = [pt.TensorType("float64", shape=s)() for s in ((n,), inputs[0].type.shape, inputs[2].type.shape)]
        return Apply(self, inputs, outputs)

    def infer_shape(self, node, shapes):
        return [(shapes[3][0],), shapes[0], shapes[2]]

    def perform(self, node, inputs, output_storage):
        for storage, value in zip(output_storage, evaluate(*map(read_only_view, inputs), True), strict=True):
            storage[0] = value

    def connection_pattern(self, node):
        return [[True] * 3, [False] * 3, [True] * 3, [True] * 3] + [[False] * 3] * N_ARRAYS

    def pullback(self, inputs, outputs, cotangents):
        raise NotImplementedError(NO_SECOND_DERIVATIVE)


class FieldDraws(Op):
    """Joint draws without evidence, as codes: each clique's states are decided by one uniform number.

    Inputs: log potentials, uniforms (n_draws, n_cliques), and the plan. Output: (n_draws, n_variables) int64.
    """

    __props__ = ()

    def make_node(self, potentials, uniforms, *plan):
        inputs = [pt.as_tensor_variable(x) for x in (potentials, uniforms, *plan)]
        return Apply(self, inputs, [pt.TensorType("int64", shape=(inputs[1].type.shape[0], None))()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = draw_states(*inputs)

    def connection_pattern(self, node):
        return [[False]] * (2 + N_ARRAYS)

    def pullback(self, inputs, outputs, cotangents):
        return [disconnected_type() for _ in inputs]


log_partition: Any = LogPartition()
log_partition_gradient: Any = LogPartitionGradient()
field_draws: Any = FieldDraws()


@register_funcify_default_op_cache_key(LogPartition)
def _(op, node, **kwargs):
    @numba_njit
    def log_partition_numba(potentials, codes, soft, rows, plan, maps):
        return evaluate(potentials, codes, soft, rows, plan, maps, False)[0]

    return log_partition_numba, source_version()


@register_funcify_default_op_cache_key(LogPartitionGradient)
def _(op, node, **kwargs):
    @numba_njit
    def log_partition_gradient_numba(potentials, codes, soft, weights, plan, maps):
        return evaluate(potentials, codes, soft, weights, plan, maps, True)

    return log_partition_gradient_numba, source_version()


@register_funcify_default_op_cache_key(FieldDraws)
def _(op, node, **kwargs):
    @numba_njit
    def field_draws_numba(potentials, uniforms, plan, maps):
        return draw_states(potentials, uniforms, plan, maps)

    return field_draws_numba, source_version()


class _FuseWithGradient(GraphRewriter):
    """Read log Z off the gradient's pass where both are wanted, unless the gradient's weights depend on log Z."""

    def apply(self, fgraph):
        values = [n for n in fgraph.apply_nodes if isinstance(n.op, LogPartition)]
        for gradient in [n for n in fgraph.apply_nodes if isinstance(n.op, LogPartitionGradient)]:
            above = None
            for value in values:
                same = value.inputs[:3] + value.inputs[4:] == gradient.inputs[:3] + gradient.inputs[4:]
                if not same or not fgraph.clients.get(value.outputs[0]):
                    continue
                above = set(ancestors([gradient.inputs[3]])) if above is None else above
                if value.outputs[0] not in above:
                    fgraph.replace_validate(value.outputs[0], gradient.outputs[0], reason="fuse_log_partition")


# after the last merge (49), so that equal inputs are the same variable; before anything works in place (49.5)
optdb.register("fuse_log_partition", _FuseWithGradient(), "fast_run", position=49.2)
