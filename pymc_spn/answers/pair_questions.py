"""How columns depend on each other: mutual information of every pair, with its uncertainty over the circuits."""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_spn.answers.asked_law import AskedLaw, Given
from pymc_spn.answers.sums import MOST_STATES, simulated, states_of
from pymc_spn.laws.law import Law
from pymc_spn.numerics.asked_numbers import check_prob, checked_count
from pymc_spn.numerics.draw_averages import log_average, relative_weights, shortest_interval
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import xarray as xr

SIMULATED_PAIRS = 1_000
BLOCK_VALUES = 4_000_000  # log densities under circuits held at a time (32 MB)
CLOSE = 1e-3  # log ratio below which r log r - r + 1 is the first terms of its series


class Informations(NamedTuple):
    """Simulated mutual informations of P pairs of columns, in nats.

    Parameters
    ----------
    of_circuits, errors_of_circuits : (S, P) float64
        Under each circuit, NaN where what is known cannot be, and standard errors of simulation.
    errors : (P,) float64
        Standard errors of the weighted means over circuits.
    """

    of_circuits: np.ndarray
    errors_of_circuits: np.ndarray
    errors: np.ndarray


def dependence(
    self: AskedLaw,
    given: Given = None,
    prob: float = 0.94,
    threshold: float = 0.01,
    per_draw: bool = False,
    max_draws: int | None = 200,
    progressbar: bool = True,
    n: int = SIMULATED_PAIRS,
    random_seed: int | np.random.Generator | None = None,
) -> "xr.Dataset | xr.DataArray":
    """Calculate the mutual information of every pair of columns.

    Parameters
    ----------
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    prob : float
        Mass of the highest density interval.
    threshold : float
        Threshold of ``p_dependent``, in nats.
    per_draw : bool
        Whether to return a table for each draw; all draws are then used.
    max_draws : int or None
        Number of draws to use, evenly spaced; None for all.
    progressbar : bool
        Whether to show a progress bar if the answer takes long.
    n : int
        Number of simulated rows, and of pairs of cells from different rows; at least 2. All draws and pairs of
        columns use the same ones. Pairs of columns with levels need none.
    random_seed : int, Generator or None
        Seed of these rows.

    Returns
    -------
    Dataset
        ``mutual_information`` (column, other), the mean over draws, each with its weights and leaf parameters drawn;
        ``hdi`` (column, other, bound); ``p_dependent`` (column, other), the probability that it exceeds the threshold.
        The diagonal is NaN: a continuous column has infinite information about itself. Marked exact where all columns
        have levels, else monte-carlo: ``mcse`` (column, other) is the standard error of simulation, 0 for pairs with
        levels.

    Examples
    --------
    >>> list(post.dependence(max_draws=5).data_vars)
    ['mutual_information', 'hdi', 'p_dependent']
    """
    self = self._each_draw(per_draw)
    import xarray as xr

    check_prob(prob)
    if not threshold >= 0.0:
        raise ValueError(f"threshold must be at least 0, got {quoted(threshold)}")
    if max_draws is not None and not per_draw:
        self = self._fewer_draws(checked_count("max_draws", max_draws, least=1))
    self = self._drawn
    law = self._known(given).law
    if len(law.columns) < 2:
        raise ValueError("dependence needs at least two columns that are not known")
    side, n_circuits = len(law.columns), law.n_circuits
    refuse_memory(
        f"dependence of {side:,} columns in {n_circuits:,} draws",
        16.0 * n_circuits * side * (side - 1) + 40.0 * side**2,
        "ask post.marginal([...]) of some columns, or lower max_draws",
    )
    pairs = list(combinations(range(side), 2))
    levels = [len(column.levels or ()) for column in law.columns]
    is_exact = np.array([0 < levels[a] * levels[b] <= MOST_STATES for a, b in pairs])
    tables, errors = np.empty((n_circuits, len(pairs))), np.zeros(len(pairs))
    errors_of_draws = np.zeros(tables.shape)
    with counted("Comparing pairs of columns", progressbar):
        for k in np.flatnonzero(is_exact):
            tables[:, k] = informations_of_levels(law, *pairs[k])
        if not is_exact.all():
            some = np.flatnonzero(~is_exact)
            found = simulated_informations(law, [pairs[k] for k in some], checked_count("n", n, least=2), random_seed)
            tables[:, some], errors_of_draws[:, some], errors[some] = found
    names = [column.name for column in law.columns]
    coords = {"column": names, "other": names}
    attrs: dict[str, Any] = {"exactness": "exact" if is_exact.all() else "monte-carlo"}
    if per_draw:
        if not is_exact.all():
            attrs["mcse"] = self._by_chain(_both_ways(errors_of_draws, side, 0.0))
        return self._labelled("mutual_information", _both_ways(tables, side, np.nan), coords, True, **attrs)
    weight = relative_weights(law.log_weights)
    weight = weight / weight.sum()
    possible = weight > 0.0
    mean = weight[possible] @ tables[possible]
    bounds = np.array([shortest_interval(each, weight[possible], prob) for each in tables[possible].T])
    above = weight[possible] @ (tables[possible] > threshold)
    labels = {**coords, "bound": ["lower", "upper"]}
    error = self._error(n_circuits * weight[:, None] * np.nan_to_num(tables - mean))
    if "mcse_chain" in error:
        error["mcse_chain"] = _both_ways(error["mcse_chain"], side, 0.0)
    mean, above = _both_ways(mean, side, np.nan), _both_ways(above, side, np.nan)
    bounds = np.moveaxis(_both_ways(bounds.T, side, np.nan), 0, 2)
    attrs = self._attrs(**attrs, **self._weight_mark(law), n_draws=n_circuits, **error)
    disagree = {k: v for k, v in attrs.items() if not k.startswith("mcse_chain")}
    disagree = self._attrs(**disagree, mcse_chain_note="no mcse_chain: it is that of mutual_information")
    if not is_exact.all():
        attrs["mcse"] = _both_ways(errors, side, 0.0)
        disagree["mcse_note"] = "no mcse: it is that of mutual_information"
    return xr.Dataset(
        {
            "mutual_information": (("column", "other"), mean, attrs),
            "hdi": (("column", "other", "bound"), bounds, {**disagree, "prob": prob}),
            "p_dependent": (("column", "other"), above, {**disagree, "threshold": threshold}),
        },
        labels,
        {k: attrs[k] for k in ("exactness", "learner") if k in attrs},
    )


def informations_of_levels(law: Law, a: int, b: int) -> np.ndarray:
    """Mutual information (S,) in nats of two columns with levels under each circuit; NaN where there is none."""
    each = states_of(law, [a, b]).each
    total = each.sum(axis=1)
    joint = (each / np.where(total > 0.0, total, np.nan)[:, None]).reshape(-1, *_shape(law, a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(joint / (joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)))
        return np.maximum(np.where(joint == 0.0, 0.0, joint * ratio).sum(axis=(1, 2)), 0.0)


def _shape(law: Law, a: int, b: int) -> tuple[int, int]:
    return len(law.columns[a].levels or ()), len(law.columns[b].levels or ())


def simulated_informations(law: Law, pairs: Sequence[tuple[int, int]], n: int, random_seed: Any) -> Informations:
    """Mutual informations of pairs of columns under each circuit, from rows of the mixture over circuits.

    With r the ratio of a circuit's joint density p and the product q of its margins, the information is the integral of
    q (r log r - r + 1), which is never negative, and small where r is near 1. Half of the points are pairs of cells of
    one simulated row, half of different rows. Each is weighed by its density among all of them.

    Parameters
    ----------
    law : Law
    pairs : sequence of (int, int)
        Columns.
    n : int
        Rows, and pairs of cells of different rows.
    random_seed : int, Generator or None
    """
    rng = np.random.default_rng(random_seed)
    columns = sorted({d for pair in pairs for d in pair})
    log_weights = law.log_weights - log_average(law.log_weights, np.zeros(law.n_circuits))
    of_columns, used = law.of(columns), np.flatnonzero(log_weights > -np.inf)
    both, one, two = (simulated(of_columns, n, rng) for _ in range(3))
    a, b = np.searchsorted(columns, np.array(pairs).reshape(-1, 2)).T
    number = a * len(columns) - a * (a + 1) // 2 + b - a - 1  # among all pairs of these columns
    log_weights = log_weights[used]
    weight = np.exp(log_weights)
    # halves; sums of terms and of their squares, under each circuit and of the mean over these
    sums, means = np.zeros((2, 2, used.size, len(pairs))), np.zeros((2, 2, len(pairs)))
    pairs_of = of_columns.log_density_of_pairs(used)
    step = max(1, BLOCK_VALUES // (used.size * len(columns) ** 2))
    for half, (rows, others) in enumerate(((both, both), (one, two))):
        for start in range(0, n, step):
            found = pairs_of(rows[start : start + step], others[start : start + step])
            joint, apart = found.both[:, :, number], found.first[:, :, a] + found.second[:, :, b]
            mixed_one, mixed_two = (log_average(log_weights, logs) for logs in found[:2])
            proposal = np.logaddexp(log_average(log_weights, joint), mixed_one[:, a] + mixed_two[:, b]) - np.log(2.0)
            terms = _terms(joint, apart, proposal)
            averages = np.tensordot(weight, terms, 1)
            sums[half] += terms.sum(axis=1), np.square(terms).sum(axis=1)
            means[half] += averages.sum(axis=0), np.square(averages).sum(axis=0)
    out, errors = np.full((2, law.n_circuits, len(pairs)), [[[np.nan]], [[0.0]]])
    out[used], errors[used] = 0.5 * sums[:, 0].sum(axis=0) / n, _errors(sums, n)
    return Informations(out, errors, _errors(means, n))


def _terms(joint: np.ndarray, apart: np.ndarray, proposal: np.ndarray) -> np.ndarray:
    """q (r log r - r + 1) over the density of the points (S, n, P); 0 where rounding has moved a point to an end."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = joint - apart
        p, q = np.exp(joint - proposal), np.exp(apart - proposal)
        terms = np.where(p > 0.0, p * ratio, 0.0) - p + q
        terms = np.where(np.abs(ratio) < CLOSE, q * np.square(ratio) * (0.5 + ratio / 6.0), terms)
    return np.where(np.isfinite(proposal) & np.isfinite(terms), np.maximum(terms, 0.0), 0.0)


def _errors(sums: np.ndarray, n: int) -> np.ndarray:
    """Standard errors of the mean of two halves of n terms, from sums (2, 2, ..) of these and of their squares."""
    variance = np.maximum(sums[:, 1] - np.square(sums[:, 0]) / n, 0.0) / (n - 1.0)
    return 0.5 * np.sqrt(variance.sum(axis=0) / n)


def _both_ways(pairs: np.ndarray, side: int, diagonal: float) -> np.ndarray:
    """Tables (..., D, D) of what is known of all pairs (..., D (D - 1) / 2)."""
    table = np.full((*pairs.shape[:-1], side, side), diagonal)
    first, second = np.triu_indices(side, 1)
    table[..., first, second] = table[..., second, first] = pairs
    return table
