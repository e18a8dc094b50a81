"""`DagOrder` and `DagPartition`: posteriors over graphs as free variables of a PyMC model."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba import objmode
from pymc.distributions.distribution import Distribution
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.dags.dag import refuse_wide
from pymc_spn.dags.local_scores import LocalScores, check_scores
from pymc_spn.dags.mcmc_ops import NOT_WRITTEN, OrderLogWeight, PartitionLogWeight, flat_log_weight
from pymc_spn.dags.schema import DagSchema, digest_of_candidates, summary_of_scores
from pymc_spn.dags.stored_scores import keep_scores
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import keep_data
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.tables.dimensions import own_dimension


class _ForwardDrawn(RandomVariable):
    """A random variable whose draws are those of one function of its state and of arrays that follow from scores."""

    dtype = "int64"

    @classmethod
    def rng_fn(cls, rng, *parameters_and_size):
        *parameters, size = parameters_and_size
        if size is None or tuple(size) == ():
            return np.asarray(cls.draw_one(rng, *parameters), cls.dtype)
        draws = np.array([cls.draw_one(rng, *parameters) for _ in range(int(np.prod(size)))], cls.dtype)
        return draws.reshape(*size, *draws.shape[1:])

    @classmethod
    def draw_one(cls, rng, state, *arrays):
        """One draw; the kernels get their tables as a sampler hands them over."""
        from pymc_spn.numerics.read_only_views import read_only_view

        return cls.draw(rng, state, *map(read_only_view, arrays))


class OrderRV(_ForwardDrawn):
    """Position of each variable in an order."""

    name, signature = "DagOrder", "(d),(d,b,c),(o),(s),(d)->(d)"
    _print_name = ("DagOrder", "\\operatorname{DagOrder}")

    @staticmethod
    def draw(rng, start, *arrays):
        from pymc_spn.dags.forward_draws import draw_positions

        return draw_positions(rng, *arrays)


class PartitionRV(_ForwardDrawn):
    """Block number of each variable in an ordered partition."""

    name, signature = "DagPartition", "(d),(d,b,c),(o),(s),(s),(s)->(d)"
    _print_name = ("DagPartition", "\\operatorname{DagPartition}")

    @staticmethod
    def draw(rng, start, *arrays):
        from pymc_spn.dags.forward_draws import draw_blocks

        return draw_blocks(rng, *arrays)


class OrderLogScoreRV(_ForwardDrawn):
    """Log weight of an order; when sampling, the step writes it."""

    name, signature, dtype = "DagLogScore", "(d),(d,b,c),(o),(s),(d)->()", "float64"
    _print_name = ("DagLogScore", "\\operatorname{DagLogScore}")

    @staticmethod
    def draw(rng, positions, *arrays):
        from pymc_spn.dags.order_mcmc_kernels import positions_log_weight

        return positions_log_weight(positions, *arrays)


class PartitionLogScoreRV(_ForwardDrawn):
    """Log weight of an ordered partition; when sampling, the step writes it."""

    name, signature, dtype = "DagLogScore", "(d),(d,b,c),(o),(s),(s),(s)->()", "float64"
    _print_name = ("DagLogScore", "\\operatorname{DagLogScore}")

    @staticmethod
    def draw(rng, blocks, *arrays):
        from pymc_spn.dags.partition_mcmc_graphs import blocks_log_weight

        return blocks_log_weight(blocks, *arrays)


class OrderEdgeCountRV(_ForwardDrawn):
    """Number of edges of a graph drawn given an order; when sampling, the step writes it."""

    name, signature = "DagEdgeCount", "(d),(d,k),(d,b,c),(o),(s),(s),(s)->()"
    _print_name = ("DagEdgeCount", "\\operatorname{DagEdgeCount}")

    @staticmethod
    def draw(rng, positions, *arrays):
        from pymc_spn.dags.order_mcmc_kernels import draw_parents_of_order

        parents = np.zeros(positions.size, np.int64)
        draw_parents_of_order(rng, np.argsort(positions), *arrays, parents, 0)
        return n_edges(parents)


class PartitionEdgeCountRV(_ForwardDrawn):
    """Number of edges of a graph drawn given an ordered partition; when sampling, the step writes it."""

    name, signature = "DagEdgeCount", "(d),(d,k),(d,b,c),(o),(s),(s),(s)->()"
    _print_name = ("DagEdgeCount", "\\operatorname{DagEdgeCount}")

    @staticmethod
    def draw(rng, blocks, *arrays):
        from pymc_spn.dags.partition_mcmc_graphs import draw_parents, parts_of_blocks

        parts, parents = np.zeros(blocks.size + 1, np.int64), np.zeros(blocks.size, np.int64)
        draw_parents(rng, parts, parts_of_blocks(blocks, parts), *arrays, parents)
        return n_edges(parents)


def n_edges(parents: np.ndarray) -> int:
    """Number of edges of a graph whose parent sets are bits."""
    return int(np.bitwise_count(parents.view(np.uint64)).sum(dtype=np.int64))


# Forward draws are rare, and their sums are made and remembered in Python; Numba wants the type of a result in writing.
@numba_core_rv_funcify.register(OrderRV)
def _(op, node):
    draw = op.draw_one

    @numba_njit
    def positions(rng, start, lookup, offsets, log_sums, must_precede):
        with objmode(out="int64[::1]"):
            out = draw(rng, start, lookup, offsets, log_sums, must_precede)
        return out

    return positions, None


@numba_core_rv_funcify.register(PartitionRV)
def _(op, node):
    draw = op.draw_one

    @numba_njit
    def blocks(rng, start, lookup, offsets, log_sums, ranked, log_scores):
        with objmode(out="int64[::1]"):
            out = draw(rng, start, lookup, offsets, log_sums, ranked, log_scores)
        return out

    return blocks, None


@numba_core_rv_funcify.register(OrderLogScoreRV)
def _(op, node):
    draw = op.draw_one

    @numba_njit
    def log_score(rng, positions, lookup, offsets, log_sums, must_precede):
        with objmode(out="float64"):
            out = draw(rng, positions, lookup, offsets, log_sums, must_precede)
        return out

    return log_score, None


@numba_core_rv_funcify.register(PartitionLogScoreRV)
def _(op, node):
    draw = op.draw_one

    @numba_njit
    def log_score(rng, blocks, lookup, offsets, log_sums, ranked, log_scores):
        with objmode(out="float64"):
            out = draw(rng, blocks, lookup, offsets, log_sums, ranked, log_scores)
        return out

    return log_score, None


@numba_core_rv_funcify.register(OrderEdgeCountRV)
@numba_core_rv_funcify.register(PartitionEdgeCountRV)
def _(op, node):
    draw = op.draw_one

    @numba_njit
    def edge_count(rng, state, candidates, lookup, offsets, log_sums, ranked, log_scores):
        with objmode(out="int64"):
            out = draw(rng, state, candidates, lookup, offsets, log_sums, ranked, log_scores)
        return out

    return edge_count, None


class _Order(Distribution):
    rv_op = OrderRV()

    @classmethod
    def dist(cls, *parameters, **kwargs):
        return super().dist(list(parameters), **kwargs)

    def support_point(rv, size, start, *arrays):
        return start

    def logp(value, start, *arrays):
        return OrderLogWeight()(value, *arrays)


class _Partition(Distribution):
    rv_op = PartitionRV()

    @classmethod
    def dist(cls, *parameters, **kwargs):
        return super().dist(list(parameters), **kwargs)

    def support_point(rv, size, start, *arrays):
        return start

    def logp(value, start, *arrays):
        return PartitionLogWeight()(value, *arrays)


class _WrittenByStep(Distribution):
    """A quantity of the state: drawn given the state, written by the step, and without a say in the density."""

    @classmethod
    def dist(cls, *parameters, **kwargs):
        return super().dist(list(parameters), **kwargs)


def _zero(rv, size, *parameters):
    return pt.zeros((), dtype=rv.dtype)


def _flat(value, *parameters):
    return flat_log_weight(value)


def _flat_at(log_weight):
    """Flat, but only at what the step writes and at the 0 of the start: other samplers would walk off."""

    def logp(value, state, *arrays):
        expected = log_weight(state, *arrays)
        near = pt.abs(value - expected) <= 1e-6 + 1e-9 * pt.abs(expected)
        return CheckAndRaise(RuntimeError, NOT_WRITTEN)(flat_log_weight(value), pt.or_(pt.eq(value, 0.0), near))

    return logp


class _OrderLogScore(_WrittenByStep):  # PyMC reads support point and density from the class itself, not its bases
    rv_op, support_point, logp = OrderLogScoreRV(), _zero, _flat_at(OrderLogWeight())


class _PartitionLogScore(_WrittenByStep):
    rv_op, support_point, logp = PartitionLogScoreRV(), _zero, _flat_at(PartitionLogWeight())


class _OrderEdgeCount(_WrittenByStep):
    rv_op, support_point, logp = OrderEdgeCountRV(), _zero, _flat


class _PartitionEdgeCount(_WrittenByStep):
    rv_op, support_point, logp = PartitionEdgeCountRV(), _zero, _flat


FAMILIES = {  # by state: the state, its log score, the number of edges
    "order": (_Order, _OrderLogScore, _OrderEdgeCount),
    "partition": (_Partition, _PartitionLogScore, _PartitionEdgeCount),
}


def DagOrder(name: str, scores: LocalScores) -> TensorVariable:
    """Order-modular posterior over orders and graphs, as a variable of a model.

    p(order, graph) is proportional to the graph's score.

    The variable is the position of each column in the order; parent sets are summed out. `DagOrderStep`, which
    ``pm.sample`` picks by itself, moves it by relocation Gibbs and draws a graph from its exact conditional given the
    order; `DagDraws` answers questions about the graphs. A graph is weighted by its number of linear extensions;
    `DagPartition` has no such weights.

    Parameters
    ----------
    name : str
        Also the prefix of all that it adds to the model.
    scores : LocalScores

    Returns
    -------
    TensorVariable
        (d,) int64 positions. The model also gets ``<name>_log_score``, the order's log weight in nats, and
        ``<name>_n_edges``, the number of edges of the drawn graph.

    Raises
    ------
    TypeError, ValueError
        If `scores` are not `LocalScores` of at least two variables, or no graph is possible.

    Examples
    --------
    >>> with pm.Model():
    ...     g = ps.DagOrder("graph", scores)
    ...     order_idata = pm.sample(**few)
    >>> ps.DagPosterior.from_idata(order_idata).engine
    'orders'

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095, section 4.
    """
    from pymc_spn.dags.mcmc_chain import OrderChain

    chain = _chain("ps.DagOrder", OrderChain, scores)
    arrays = [scores.lookup, scores.offsets, scores.log_sums, scores.precede_sets]
    return _register(name, scores, "order", chain.resting_state(), arrays, chain.ranked)


def DagPartition(name: str, scores: LocalScores) -> TensorVariable:
    """Structure-modular posterior over graphs, as a variable of a model.

    p(graph) is proportional to the graph's score, without a bias by orders.

    The variable is the level of each column: 0 without parents, else one more than the highest level of a parent. Every
    graph has exactly one such ordered partition; the graphs of a partition are summed out. `DagPartitionStep`, which
    ``pm.sample`` picks by itself, redraws one column's place among all blocks and new blocks from its full conditional.
    It exchanges columns of different blocks, and draws a graph given the partition.

    Parameters
    ----------
    name : str
        Also the prefix of all that it adds to the model.
    scores : LocalScores
        Tiers and required edges act through the parent sets; the space has no order of its own.

    Returns
    -------
    TensorVariable
        (d,) int64 block numbers. The model also gets ``<name>_log_score``, the partition's log weight in nats, and
        ``<name>_n_edges``, the number of edges of the drawn graph.

    Raises
    ------
    TypeError, ValueError
        If `scores` are not `LocalScores` of at least two variables, or no graph is possible.

    Examples
    --------
    >>> with pm.Model():
    ...     g = ps.DagPartition("graph", scores)
    ...     dag_idata = pm.sample(**few)
    >>> ps.DagDraws.from_idata(dag_idata).names
    ('age', 'income', 'debt')

    References
    ----------
    Kuipers and Moffa (2017), doi:10.1080/01621459.2015.1133426; the space is theirs, the moves are not.
    """
    from pymc_spn.dags.mcmc_chain import PartitionChain

    chain = _chain("ps.DagPartition", PartitionChain, scores)
    arrays = [scores.lookup, scores.offsets, scores.log_sums, chain.ranked, scores.log_scores]
    return _register(name, scores, "partition", chain.resting_state(), arrays, chain.ranked)


def _chain(what: str, make: Any, scores: Any) -> Any:
    check_scores(scores)
    refuse_wide(what, scores.d)
    if scores.d < 2:
        raise ValueError(f"scores must have at least two variables; got {quoted(list(scores.names))}")
    return make(scores)


def _register(name: str, scores: LocalScores, state: str, start: np.ndarray, arrays: list, ranked: np.ndarray) -> Any:
    model = pm.modelcontext(None)
    full = model.name_for(name)  # a model inside a model puts its own name before it
    dims = own_dimension(model, f"{full}_variable", list(scores.names))
    every = {id(a): a for a in (*arrays, scores.candidates, ranked, scores.log_scores)}
    shared = {
        key: pytensor.shared(np.array(a), name=f"{full}_{k}", shape=a.shape) for k, (key, a) in enumerate(every.items())
    }
    of_state = [shared[id(a)] for a in arrays]
    of_graph = [
        shared[id(a)]
        for a in (scores.candidates, scores.lookup, scores.offsets, scores.log_sums, ranked, scores.log_scores)
    ]
    family, log_score, edge_count = FAMILIES[state]
    rv: Any = family(name, pt.constant(start), *of_state, dims=dims)
    beside = log_score(f"{name}_log_score", rv, *of_state), edge_count(f"{name}_n_edges", rv, *of_graph)
    variables: Any = rv, *beside
    for variable in variables:
        variable.tag.dag_owner, variable.tag.dag_kind = full, f"dag_{state}"
    rv.tag.dag_scores = scores
    schema = DagSchema(
        full,
        state,
        scores.names,
        scores.score,
        scores.prior,
        scores.restricted,
        digest_of_candidates(scores),
        summary_of_scores(scores),
        scores.frame,
    )
    keep_data(model, f"{name}_schema", schema.to_vector())
    if state == "order":
        keep_scores(model, name, scores)
    return rv
