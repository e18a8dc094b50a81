"""Log density and parts of a packed graph as PyTensor operations."""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_spn.indian_chefs.packed_graphs import packed_log_density, row_of_ticket, unpack_parts
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_njit, register_funcify_default_op_cache_key

STALE = (
    "ps.IndianChefsProcess: the graph is that of the running chain, and cannot be read from stored "
    "draws (nor recorded by pm.Deterministic when chains run in processes of their own); "
    "ps.GraphDraws.from_idata(idata) holds the graphs of stored draws. For the table of a belief network (ps.NLGBN and "
    "its relatives) ask "
    "ps.BeliefNetworkPosterior.from_idata(idata), which has sample(n) and log_density(X); for other terms of the model "
    "ps.indian_chefs.load_graphs(idata) lends it the graphs"
)
NO_GRADIENT = (
    "ps.IndianChefsProcess: only pm.sample moves the graph; a method that differentiates the log "
    "density in all variables (pm.find_MAP, pm.fit, pm.NUTS for everything) would hold it at one arbitrary state; "
    "sample, and take the draw with the highest <name>_log_joint"
)


class GraphLogDensity(Op):
    """Log density of a packed graph, and its gradient in one pass.

    Inputs: packed graph, reputations (D,), alpha, gamma, phi, uniform mass, levels (L,), masses (L,). Outputs: log
    density and derivatives (3,) by alpha, gamma and phi.
    """

    __props__ = ("room",)

    def __init__(self, room):
        self.room = room

    def make_node(self, *inputs):
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.dscalar(), pt.dvector()])

    def infer_shape(self, node, shapes):
        return [(), (3,)]

    def perform(self, node, inputs, output_storage):
        packed, reputations, *numbers, levels, masses = inputs
        gradient = np.empty(3)
        numbers = [float(x) for x in numbers]
        arrays = read_only_view(levels), read_only_view(masses)
        value = packed_log_density(packed, reputations, *numbers, *arrays, self.room, gradient)
        output_storage[0][0], output_storage[1][0] = np.asarray(value), gradient

    def connection_pattern(self, node):
        return [[2 <= i <= 4] * 2 for i in range(8)]

    def pullback(self, inputs, outputs, cotangents):
        g = cotangents[0] * outputs[1]
        return [g[i - 2] if 2 <= i <= 4 else disconnected_type() for i in range(8)]


@register_funcify_default_op_cache_key(GraphLogDensity)
def _(op, node, **kwargs):
    room = op.room

    @numba_njit
    def graph_log_density(packed, reputations, alpha, gamma, phi, uniform, levels, masses):
        gradient = np.empty(3)
        # constants of the graph may have 32 bits
        a, g = np.float64(alpha.item()), np.float64(gamma.item())
        p, u = np.float64(phi.item()), np.float64(uniform.item())
        by_level = read_only_view(levels), read_only_view(masses)
        value = packed_log_density(packed, reputations, a, g, p, u, *by_level, room, gradient)
        return np.asarray(value), gradient

    return graph_log_density, source_version()


class CurrentGraph(Op):
    """The packed graph of the running chain, for whatever else of the model depends on it.

    Inputs: ticket, drawn graph, state (R, 1 + P): a ticket and a packed graph in each row, one row in a chain, more
    where stored draws were lent. A ticket of 0 is that of forward draws and of the first log density, and stands for
    the drawn graph; any other must be in the state.
    """

    __props__ = ()

    def make_node(self, ticket, drawn, state):
        inputs = [pt.as_tensor_variable(x) for x in (ticket, drawn, state)]
        return Apply(self, inputs, [inputs[1].type()])

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def perform(self, node, inputs, output_storage):
        ticket, drawn, state = inputs
        row = row_of_ticket(float(ticket), state)
        if ticket != 0.0 and row < 0:
            raise RuntimeError(STALE)
        output_storage[0][0] = drawn.copy() if ticket == 0.0 else state[row, 1:].copy()

    def connection_pattern(self, node):
        return [[False]] * 3

    def pullback(self, inputs, outputs, cotangents):
        return [disconnected_type() for _ in range(3)]


current_graph = CurrentGraph()


@register_funcify_default_op_cache_key(CurrentGraph)
def _(op, node, **kwargs):
    @numba_njit
    def current_graph_numba(ticket, drawn, state):
        if ticket.item() == 0.0:
            return drawn.copy()
        row = row_of_ticket(ticket.item(), state)
        if row < 0:
            raise RuntimeError(STALE)
        return state[row, 1:].copy()

    return current_graph_numba, source_version()


class GraphParts(Op):
    """Number of nodes, reputations (K,) and parents (K, K) int8 of a packed graph."""

    __props__ = ("room",)

    def __init__(self, room):
        self.room = room

    def make_node(self, packed):
        n, k = pt.scalar(dtype="int64"), self.room
        outputs = [n, pt.TensorType("float64", (k,))(), pt.TensorType("int8", (k, k))()]
        return Apply(self, [pt.as_tensor_variable(packed)], outputs)

    def infer_shape(self, node, shapes):
        return [(), (self.room,), (self.room, self.room)]

    def perform(self, node, inputs, output_storage):
        n, theta, parents = unpack_parts(inputs[0], self.room)
        for storage, value in zip(output_storage, (np.asarray(n, np.int64), theta, parents), strict=True):
            storage[0] = value

    def connection_pattern(self, node):
        return [[False, False, False]]

    def pullback(self, inputs, outputs, cotangents):
        return [disconnected_type()]


@register_funcify_default_op_cache_key(GraphParts)
def _(op, node, **kwargs):
    room = op.room

    @numba_njit
    def graph_parts(packed):
        n, theta, parents = unpack_parts(packed, room)
        return np.asarray(np.int64(n)), theta, parents

    return graph_parts, source_version()
