"""`DagOrder` and `DagPartition`: posteriors over graphs as free variables of a PyMC model."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.dags.dag import refuse_wide
from pymc_spn.dags.local_scores import LocalScores, check_scores
from pymc_spn.dags.ops import (
    NO_FORWARD_DRAWS,
    NOT_WRITTEN,
    DagLogWeight,
    flat_log_weight,
)
from pymc_spn.dags.schema import DagSchema, digest_of_candidates, summary_of_scores
from pymc_spn.dags.stored_scores import keep_scores
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import keep_data
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify
from pymc_spn.tables.dimensions import own_dimension


class _WrittenByStep(RandomVariable):
    """What the step of a graph writes; forward samplers are refused."""

    dtype = "int64"

    @property
    def _print_name(self):
        return self.name, f"\\operatorname{{{self.name}}}"

    def rng_fn(self, rng, start, *arrays):
        return start if self.ndim_supp else np.zeros((), self.dtype)  # for pictures of models, which ask for its shape


class OrderRV(_WrittenByStep):
    """Position of each variable in an order."""

    name, signature = "DagOrder", "(d),(d,d),(o),(s),(d,d)->(d)"


class PartitionRV(_WrittenByStep):
    """Block number of each variable in an ordered partition."""

    name, signature = "DagPartition", "(d),(d,b,c),(o),(s),(s),(s)->(d)"


class OrderLogScoreRV(_WrittenByStep):
    """Log weight of an order."""

    name, signature, dtype = "DagLogScore", "(d),(d,d),(o),(s),(d,d)->()", "float64"


class PartitionLogScoreRV(_WrittenByStep):
    """Log weight of an ordered partition."""

    name, signature, dtype = "DagLogScore", "(d),(d,b,c),(o),(s),(s),(s)->()", "float64"


class EdgeCountRV(_WrittenByStep):
    """Number of edges of a graph drawn given the state."""

    name, signature = "DagEdgeCount", "(d)->()"


@numba_core_rv_funcify.register(_WrittenByStep)
def _(op, node):
    raise RuntimeError(NO_FORWARD_DRAWS)  # on a NotImplementedError PyTensor would go on in Python, and warn of it


class _Written(Distribution):
    @classmethod
    def dist(cls, *parameters, **kwargs):
        return super().dist(list(parameters), **kwargs)


def _start(rv, size, start, *arrays):
    return start


def _zero(rv, size, *parameters):
    return pt.zeros((), dtype=rv.dtype)


def _log_weight(log_weight):
    return lambda value, start, *arrays: log_weight(value, *arrays)


def _flat_at(log_weight):
    """Flat, but only at what the step writes and at the 0 of the start: other samplers would walk off."""

    def logp(value, state, *arrays):
        expected = log_weight(state, *arrays)
        near = pt.abs(value - expected) <= 1e-6 + 1e-9 * pt.abs(expected)
        return CheckAndRaise(RuntimeError, NOT_WRITTEN)(flat_log_weight(value), pt.or_(pt.eq(value, 0.0), near))

    return logp


class _Order(_Written):  # PyMC reads support point and density from the class itself, not its bases
    rv_op, support_point, logp = OrderRV(), _start, _log_weight(DagLogWeight("order"))


class _Partition(_Written):
    rv_op, support_point, logp = PartitionRV(), _start, _log_weight(DagLogWeight("partition"))


class _OrderLogScore(_Written):
    rv_op, support_point, logp = OrderLogScoreRV(), _zero, _flat_at(DagLogWeight("order"))


class _PartitionLogScore(_Written):
    rv_op, support_point, logp = PartitionLogScoreRV(), _zero, _flat_at(DagLogWeight("partition"))


class _EdgeCount(_Written):
    rv_op, support_point, logp = EdgeCountRV(), _zero, lambda value, state: flat_log_weight(value)


FAMILIES = {"order": (_Order, _OrderLogScore), "partition": (_Partition, _PartitionLogScore)}


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
    arrays = [scores.slots, scores.offsets, scores.log_sums, scores.must_precede]
    return _register(name, scores, "order", chain.resting_state(), arrays)


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
    return _register(name, scores, "partition", chain.resting_state(), arrays)


def _chain(what: str, make: Any, scores: Any) -> Any:
    check_scores(scores)
    refuse_wide(what, scores.d)
    if scores.d < 2:
        raise ValueError(f"scores must have at least two variables; got {quoted(list(scores.names))}")
    return make(scores)


def _register(name: str, scores: LocalScores, state: str, start: np.ndarray, arrays: list) -> Any:
    model = pm.modelcontext(None)
    full = model.name_for(name)  # a model inside a model puts its own name before it
    dims = own_dimension(model, f"{full}_variable", list(scores.names))
    of_state = [
        pytensor.shared(np.array(a), name=f"{full}_{k}", shape=a.shape, borrow=True) for k, a in enumerate(arrays)
    ]
    family, log_score = FAMILIES[state]
    rv: Any = family(name, pt.constant(start), *of_state, dims=dims)
    beside = log_score(f"{name}_log_score", rv, *of_state), _EdgeCount(f"{name}_n_edges", rv)
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
