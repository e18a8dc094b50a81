"""Modular priors over parent sets, in logs and not normalised, and an edge penalty that the table itself decides."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.dags.prefix_lattice import SOON, sums_soon
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    from pymc_spn.steps.model_inputs import NumberOrVariable


@dataclass(frozen=True)
class EdgePenalty:
    """Prior of parent sets in which each edge costs `penalty` nats.

    p(parents) is proportional to exp(-penalty * number of parents).

    Parameters
    ----------
    penalty : float or scalar tensor
        A tensor only in `dag_log_evidence`, where it may be learned.

    Examples
    --------
    >>> sparse = ps.LocalScores.from_data(numbers, prior=ps.dags.EdgePenalty(3.0))
    """

    penalty: "NumberOrVariable"


@dataclass(frozen=True, eq=False, repr=False)
class EdgeLogOdds:
    """Prior of parent sets in which each edge has log odds of its own.

    They are added to the score of every parent set that holds the edge.

    Parameters
    ----------
    log_odds : DataFrame
        Rows are parents, columns children, by name; all variables in both, finite off the diagonal. The diagonal is
        not read.

    Examples
    --------
    >>> odds = pd.DataFrame(-1.0, index=numbers.columns, columns=numbers.columns)
    >>> hints = ps.LocalScores.from_data(numbers, prior=ps.dags.EdgeLogOdds(odds))
    """

    log_odds: pd.DataFrame

    def __repr__(self) -> str:
        return f"EdgeLogOdds({len(self.log_odds)} variables)"


def prior_terms(prior: Any, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, str]:
    """Log prior by number of parents (d,), by edge (child, parent) (d, d), and the prior's name."""
    d = len(names)
    by_size, by_edge = np.zeros(d), np.zeros((d, d))
    if isinstance(prior, str) and prior == "fair":
        by_size = np.array([-math.log(math.comb(d - 1, n)) for n in range(d)])
        return by_size, by_edge, "fair"
    if isinstance(prior, str) and prior == "uniform":
        return by_size, by_edge, "uniform"
    if isinstance(prior, EdgePenalty):
        penalty = prior.penalty
        if not is_real(penalty) or not math.isfinite(penalty):
            raise ValueError(f"prior: EdgePenalty needs a finite number of nats, got {quoted(penalty)}")
        return -float(penalty) * np.arange(d), by_edge, f"edge penalty {float(penalty):g}"
    if isinstance(prior, EdgeLogOdds):
        return by_size, _edge_terms(prior.log_odds, names), "log odds of edges"
    raise ValueError(
        f"prior must be 'fair', 'uniform', 'learned', an EdgePenalty or an EdgeLogOdds, got {quoted(prior)}"
    )


def _edge_terms(log_odds: Any, names: tuple[str, ...]) -> np.ndarray:
    if not isinstance(log_odds, pd.DataFrame):
        kind = f"{type(log_odds).__module__.partition('.')[0]}.{type(log_odds).__name__}"
        raise TypeError(
            f"prior: EdgeLogOdds needs a pandas DataFrame (parents, children), whose rows have names; got {kind}"
        )
    for axis, labels in (("rows", log_odds.index), ("columns", log_odds.columns)):
        if sorted(map(str, labels)) != sorted(names):
            raise ValueError(
                f"prior: the {axis} of EdgeLogOdds must be the variables {quoted(list(names))}, got "
                f"{quoted(list(labels))}"
            )
    frame = log_odds.set_axis(log_odds.index.map(str), axis=0).set_axis(log_odds.columns.map(str), axis=1)
    terms = frame.loc[list(names), list(names)].to_numpy(np.float64).T.copy()
    np.fill_diagonal(terms, 0.0)
    bad = np.argwhere(~np.isfinite(terms))
    if bad.size:
        child, parent = bad[0]
        raise ValueError(
            f"prior: log odds of {names[parent]!r} -> {names[child]!r} must be finite, got {terms[child, parent]}; "
            "use forbidden= or required= for certainty"
        )
    return terms


LEARNED = "learned"  # as `prior=`
PLACES = 9  # of a grid from one end to the other
PRECISION = 1e-3  # nats of the penalty
_STEPS = PLACES + 15  # evaluations, about, for a progress bar


def is_learned(prior: Any) -> bool:
    """Whether the edge penalty is to be learned."""
    return isinstance(prior, str) and prior == LEARNED


def refuse_unlearnable(must_precede: np.ndarray) -> None:
    """Refuse a penalty whose evidence cannot be summed over all orders in minutes.

    Raises
    ------
    ValueError
        It says what to do.
    """
    if not sums_soon(must_precede):
        raise ValueError(
            f"prior = {quoted(LEARNED)} sums over all orders for each of some {_STEPS} penalties: it takes at most "
            f"{SOON} variables, or more with tiers that leave few orders, got {len(must_precede)}. Learn the penalty "
            "from some of the columns, and give it to all as prior=ps.dags.EdgePenalty(nats)"
        )


def learned_penalty(scores: ParentSetScores, progressbar: bool) -> float:
    """The learned edge penalty, of scores that have no prior but what knowledge rules out.

    Under a penalty of kappa nats each of the M pairs of variables is an edge with probability pi = 1 / (1 +
    exp(kappa)), given the order. The penalty is the mode of its posterior if pi is uniform: the largest log evidence
    plus log pi (1 - pi). Without knowledge, the expected number E of edges then fulfils pi = (E + 1) / (M + 2), so that
    the penalty is at most log(M + 1) nats either way.

    Parameters
    ----------
    scores : ParentSetScores
    progressbar : bool
        Show a bar once it has taken a second.
    """
    from scipy.optimize import minimize_scalar

    from pymc_spn.dags.passes import Support

    orders, sizes = Support.of_all(scores), sizes_of_sets(scores.n_candidates)
    with ProgressBar("Learning the edge penalty", _STEPS, progressbar) as bar:

        def loss(penalty: float) -> float:
            bar.advance()
            odds = np.logaddexp(0.0, penalty) + np.logaddexp(0.0, -penalty)  # -log pi (1 - pi)
            return float(odds - log_evidence(orders, penalty * sizes))

        most = np.log(scores.d * (scores.d - 1) / 2 + 1)
        grid = np.linspace(-most, most, PLACES)
        best = grid[int(np.argmin([loss(penalty) for penalty in grid]))]
        step = 2 * most / (PLACES - 1)
        found = minimize_scalar(loss, bounds=(best - step, best + step), options={"xatol": PRECISION})
    return float(found.x)


def log_evidence(orders: Any, cost: np.ndarray) -> float:
    """Log p(data | penalty), nats: both sums run over all pairs of an order and a graph, the second without the data.

    Parameters
    ----------
    orders : Support
        With scores that have no prior but what knowledge rules out.
    cost : (n_sets,) float64
        Minus the log prior of every parent set, flat.
    """
    logs = orders.scores.log_scores
    without_data = np.where(np.isneginf(logs), -np.inf, 0.0)
    return float(orders.passes_at(logs - cost).log_total - orders.passes_at(without_data - cost).log_total)


def sizes_of_sets(n_candidates: np.ndarray) -> np.ndarray:
    """(n_sets,) float64, flat: how many parents each set has."""
    parts = [np.bitwise_count(np.arange(1 << int(k), dtype=np.uint32)) for k in n_candidates]
    return np.concatenate(parts).astype(np.float64)
