"""How extreme each cell of a row is given the others: tail probabilities of its conditional law."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.asked_rows import AskedRows
from pymc_spn.answers.row_distributions import SMALLEST_TAIL, LeavesOfDraws
from pymc_spn.answers.row_predictions import leaf_levels
from pymc_spn.networks.records.draw_averages import chain_error, weighted
from pymc_spn.tables.column import NOMINAL_KINDS

if TYPE_CHECKING:
    from pymc_spn.answers.prediction_answers import PredictionAnswers

Tails = tuple[np.ndarray, np.ndarray]  # (M,), and what each draw contributes (S, M)
FAR = 1e-6  # tails below it are summed anew: as what is left of 1, or without small leaves, they have lost digits
FARTHEST_TAIL = np.array([1e-290])  # of those: leaves are left out that add less than 1e-300
TIES = 1e-10  # relative: probabilities of levels as near as that are equal


def cell_tails(post: "PredictionAnswers", values: np.ndarray, index: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """p-values (M,) of the cells of one column and their standard errors over draws, NaN where there are none.

    Parameters
    ----------
    post : PredictionAnswers
    values : (M, D) float64
        Rows in which the column is observed.
    index : Index
    d : int
        Number of the column.
    """
    own = values[:, d]
    rest = values.copy()
    rest[:, d] = np.nan
    asked = AskedRows([post], [(rest, post._possible(rest))], index, d, refuse=False)
    find = _of_levels if post._schema.columns[d].kind in NOMINAL_KINDS else _of_numbers
    answer, error = [np.zeros(0)], [np.zeros(0)]
    for tail, influence in find(post, asked, own):
        answer.append(tail)
        error.append(np.broadcast_to(chain_error(influence, post._n_chains).get("mcse_chain", np.nan), tail.shape))
    nothing = asked.is_impossible  # given what cannot be, a cell has no law
    return np.where(nothing, np.nan, np.concatenate(answer)), np.where(nothing, np.nan, np.concatenate(error))


def _of_numbers(post: "PredictionAnswers", asked: AskedRows, own: np.ndarray) -> Iterator[Tails]:
    """Twice the smaller of P(X <= x) and P(X >= x), of values as they are recorded."""
    d, schema = asked.column, post._schema
    half = 0.5 * schema.resolution[d] if schema.compiled.is_density[d] else 0.0
    ends = [own + half, own - half]
    if not schema.compiled.is_density[d]:  # counts; a column of counts may have Gaussian leaves alone, though
        ends = [own, own - 1.0]
    elif half == 0.0:
        ends = ends[:1]
    x, of_draws = np.stack(ends, axis=1), LeavesOfDraws(asked)
    for rows in of_draws.blocks(len(ends)):
        shares, weight = of_draws.shares(rows)
        below = of_draws.below(of_draws.laws(shares, SMALLEST_TAIL), x[rows])
        lower, upper = below[:, :, 0], weight / len(weight) - below[:, :, -1]
        of_lower, of_upper = lower.sum(axis=0), np.maximum(upper.sum(axis=0), 0.0)
        is_lower = of_lower <= of_upper
        side = np.where(is_lower, lower, upper)
        far = np.flatnonzero(np.minimum(of_lower, of_upper) < FAR)
        if far.size:
            at, down = own[rows][far], is_lower[far]
            low, high = np.where(down, -np.inf, at - half)[:, None], np.where(down, at + half, np.inf)[:, None]
            side[:, far] = of_draws.within(of_draws.laws(shares[:, far], FARTHEST_TAIL), low, high)[:, :, 0]
        smaller = side.sum(axis=0)
        influence = 2.0 * (len(weight) * side - weight * smaller)
        yield np.minimum(2.0 * smaller, 1.0), np.where(2.0 * smaller < 1.0, influence, 0.0)


def _of_levels(post: "PredictionAnswers", asked: AskedRows, own: np.ndarray) -> Iterator[Tails]:
    """Probability of all levels that are no more probable than the one that is there."""
    event, n_draws = post._evidence.get(asked.column), len(asked.leaves)
    laws = [leaf_levels(one, event) for one in asked.leaves]
    for rows in asked.blocks(n_draws * laws[0].shape[1]):
        per = np.empty((n_draws, rows.stop - rows.start, laws[0].shape[1]))

        def note(j: int, s: int, share: np.ndarray, per: np.ndarray = per) -> None:
            per[s] = share @ laws[s]

        weight, _ = asked.weigh(rows, note)
        mean = weighted(weight, per).mean(axis=0)
        held = np.take_along_axis(mean, own[rows].astype(np.int64)[:, None], axis=1)
        is_tail = mean <= held * (1.0 + TIES)
        tail = (mean * is_tail).sum(axis=1)
        yield np.minimum(tail, 1.0), weighted(weight, (per * is_tail).sum(axis=2) - tail)
