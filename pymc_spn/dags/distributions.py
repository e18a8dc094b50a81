"""`DagOrder` and `DagPartition`: posteriors over graphs as free variables of a PyMC model."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.mcmc_ops import FlatLogWeight, OrderLogWeight, PartitionLogWeight
from pymc_spn.dags.schema import DagSchema

NO_FORWARD_DRAWS = (
    "ps.DagOrder, ps.DagPartition: the distribution is a posterior given the scores, drawn by pm.sample; "
    "independent draws of graphs come from ps.OrderSPN.exact(scores).sample(n)"
)


class _PosteriorVariable(RandomVariable):
    """A random variable without forward draws."""

    dtype = "int64"

    @classmethod
    def rng_fn(cls, rng, *parameters):
        raise NotImplementedError(NO_FORWARD_DRAWS)


class OrderRV(_PosteriorVariable):
    """Position of each variable in an order."""

    name, signature = "dag_order", "(d),(d,b,c),(o),(s),(d)->(d)"
    _print_name = ("DagOrder", "\\operatorname{DagOrder}")


class PartitionRV(_PosteriorVariable):
    """Block number of each variable in an ordered partition."""

    name, signature = "dag_partition", "(d),(d,b,c),(o),(s),(s),(s)->(d)"
    _print_name = ("DagPartition", "\\operatorname{DagPartition}")


class LogScoreRV(_PosteriorVariable):
    """Log weight of the state, written by the step."""

    name, signature, dtype = "dag_log_score", "()->()", "float64"
    _print_name = ("DagLogScore", "\\operatorname{DagLogScore}")


class EdgeCountRV(_PosteriorVariable):
    """Number of edges of the drawn graph, written by the step."""

    name, signature = "dag_n_edges", "()->()"
    _print_name = ("DagEdgeCount", "\\operatorname{DagEdgeCount}")


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


class _LogScore(Distribution):
    rv_op = LogScoreRV()

    @classmethod
    def dist(cls, **kwargs):
        return super().dist([pt.constant(0.0)], **kwargs)

    def support_point(rv, size, zero):
        return pt.zeros(())

    def logp(value, zero):
        return FlatLogWeight()(value)


class _EdgeCount(Distribution):
    rv_op = EdgeCountRV()

    @classmethod
    def dist(cls, **kwargs):
        return super().dist([pt.constant(0, dtype="int64")], **kwargs)

    def support_point(rv, size, zero):
        return pt.zeros((), dtype="int64")

    def logp(value, zero):
        return FlatLogWeight()(value)


def DagOrder(name: str, scores: LocalScores) -> TensorVariable:
    """Posterior over orders and graphs, order-modular: p(order, graph) proportional to the graph's score.

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

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095, section 4.
    """
    from pymc_spn.dags.mcmc_chain import OrderChain

    chain = _chain(OrderChain, scores)
    arrays = [scores.lookup, scores.offsets, scores.log_sums, scores.must_precede]
    return _register(_Order, name, scores, "order", chain.resting_state(), arrays)


def DagPartition(name: str, scores: LocalScores) -> TensorVariable:
    """Posterior over graphs without order bias, structure-modular: p(graph) proportional to the graph's score.

    The variable is the level of each column: 0 without parents, else one more than the highest level of a parent. Every
    graph has exactly one such ordered partition; the graphs of a partition are summed out. `DagPartitionStep`, which
    ``pm.sample`` picks by itself, redraws one column's place among all blocks and new blocks from its full conditional,
    exchanges columns of different blocks, and draws a graph given the partition.

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

    References
    ----------
    Kuipers and Moffa (2017), doi:10.1080/01621459.2015.1133426; the space is theirs, the moves are not.
    """
    from pymc_spn.dags.mcmc_chain import PartitionChain

    chain = _chain(PartitionChain, scores)
    arrays = [scores.lookup, scores.offsets, scores.log_sums, chain.ranked, scores.log_scores]
    return _register(_Partition, name, scores, "partition", chain.resting_state(), arrays)


def _chain(make: Any, scores: Any) -> Any:
    if not isinstance(scores, LocalScores):
        raise TypeError(f"scores must be a LocalScores; got {type(scores).__name__}")
    if scores.d < 2:
        raise ValueError(f"scores must have at least two variables; got {list(scores.names)}")
    return make(scores)


def _register(family: Any, name: str, scores: LocalScores, state: str, start: np.ndarray, arrays: list) -> Any:
    model = pm.modelcontext(None)
    full = model.name_for(name)  # a model inside a model puts its own name before it
    model.add_coord(f"{full}_variable", list(scores.names))
    shared = [pytensor.shared(np.array(a), name=f"{full}_{k}", shape=a.shape) for k, a in enumerate(arrays)]
    rv = family(name, pt.constant(start), *shared, dims=f"{full}_variable")
    for variable in (rv, _LogScore(f"{name}_log_score"), _EdgeCount(f"{name}_n_edges")):
        variable.tag.dag_owner, variable.tag.dag_kind = full, f"dag_{state}"
    rv.tag.dag_scores = scores
    schema = DagSchema(full, state, scores.names, scores.score, scores.prior, scores.restricted)
    pm.Data(f"{name}_schema", schema.to_vector())
    return rv
