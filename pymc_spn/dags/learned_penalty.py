"""An edge penalty that the table itself decides: the one under which it is most probable."""

from dataclasses import replace
from typing import Any

import numpy as np

from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.dags.prefix_lattice import SOON, exact_lattice, sums_soon
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted

LEARNED = "learned"  # as `prior=`
PLACES = 9  # of a grid from one end to the other
PRECISION = 1e-3  # nats of the penalty
_STEPS = PLACES + 15  # evaluations, about, for a progress bar
_LARGEST_TABLES = 8.0  # gigabytes


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

    sizes = _sizes(scores)
    prior = np.where(np.isneginf(scores.log_scores), -np.inf, 0.0)
    with ProgressBar("Learning the edge penalty", _STEPS, progressbar) as bar:

        def loss(penalty: float) -> float:
            bar.advance()
            odds = np.logaddexp(0.0, penalty) + np.logaddexp(0.0, -penalty)  # -log pi (1 - pi)
            return float(odds - log_evidence(scores, scores.log_scores, prior, penalty * sizes))

        most = np.log(scores.d * (scores.d - 1) / 2 + 1)
        grid = np.linspace(-most, most, PLACES)
        best = grid[int(np.argmin([loss(penalty) for penalty in grid]))]
        step = 2 * most / (PLACES - 1)
        found = minimize_scalar(loss, bounds=(best - step, best + step), options={"xatol": PRECISION})
    return float(found.x)


def log_evidence(scores: ParentSetScores, log_likelihoods: np.ndarray, log_prior: np.ndarray, cost: np.ndarray) -> Any:
    """Log p(data | penalty), nats: both sums run over all pairs of an order and a graph, the second without the data.

    Parameters
    ----------
    scores : ParentSetScores
        Whose candidates and knowledge are meant.
    log_likelihoods, log_prior, cost : (n_sets,) float64
        Of every parent set, flat. The prior is log_prior - cost.
    """
    return _log_total(scores, log_likelihoods + log_prior - cost) - _log_total(scores, log_prior - cost)


def _log_total(scores: ParentSetScores, log_scores: np.ndarray) -> float:
    """Log of the summed weight of all pairs of an order and a graph."""
    from pymc_spn.dags.leaf_tables import BaseTables, LeafTables
    from pymc_spn.dags.passes import FullPasses, passes_of
    from pymc_spn.dags.prefix_lattice import PrefixLattice

    weighed, none = replace(scores, log_scores=log_scores), (0,) * scores.d
    tables, lattice = LeafTables(BaseTables(weighed), none, none), exact_lattice(scores, _LARGEST_TABLES)
    if lattice is None:
        passes = FullPasses(tables)
        if passes.exact:
            return passes.log_total
        lattice = PrefixLattice.all_prefixes(scores.d)
    return passes_of(weighed, lattice, tables).log_total


def _sizes(scores: ParentSetScores) -> np.ndarray:
    """(n_sets,) float64: how many parents each set has."""
    parts = [np.bitwise_count(np.arange(1 << int(k), dtype=np.uint32)) for k in scores.n_candidates]
    return np.concatenate(parts).astype(np.float64)
