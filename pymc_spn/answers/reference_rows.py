"""Rows of the posterior predictive as the table would record them, and how given rows compare with their densities."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc

from pymc_spn.answers.sums import log_mixture
from pymc_spn.laws.law import Law
from pymc_spn.numerics.asked_numbers import check_prob, checked_count
from pymc_spn.numerics.memory_limits import refuse_count
from pymc_spn.numerics.quoted_values import quoted

TIES = 1e-10  # relative: log densities as near as that are equal


class Comparison(NamedTuple):
    """Given rows next to rows drawn from the predictive with the same cells observed."""

    p_value: np.ndarray  # (M,)
    threshold: np.ndarray  # (M,) log density, nats
    threshold_error: np.ndarray  # (M,) standard error of the threshold, nats


def check_comparison(n: Any, level: Any, argument: str = "n") -> None:
    """Refuse a number of rows to compare with, or a level that so few rows cannot tell."""
    count = checked_count(argument, n, least=1)
    check_prob(level, "level")
    least = 1.0 / (count + 1)
    if level < least * (1.0 - 1e-12):
        raise ValueError(
            f"level must be at least 1 / ({argument} + 1), with {argument}={n} {least:.3g}, got {quoted(level)}"
        )


def compare_rows(
    law: Law,
    log_density: np.ndarray,
    observed: np.ndarray,
    n: int,
    level: float,
    rng: np.random.Generator,
) -> Comparison:
    """Where rows stand among `n` rows of the predictive, by their log density.

    Parameters
    ----------
    law : Law
    log_density : (M,) float64
        Of the rows.
    observed : (M, D) bool
        Which of the columns the rows have.
    n : int
    level : float
        At least 1 / (n + 1).
    rng : Generator
        The same rows are drawn from the same state, whatever is compared with them.
    """
    refuse_count("n", n, 16.0 * len(law.columns), "fewer rows are enough to compare with")
    drawn = on_grid_rows(law, law.draw(n, rng))
    k = min(int(np.floor(level * (n + 1) * (1.0 + 1e-12))), n)  # a level of 0.01 and 999 rows are meant to be 10
    # Maritz and Jarrett (1978): how a bootstrap would spread the k-th smallest over all
    chance = np.diff(betainc(k, n - k + 1, np.arange(n + 1) / n))
    out = Comparison(*(np.empty(len(log_density)) for _ in Comparison._fields))
    for rows, columns in _patterns(observed):
        reference = np.sort(log_mixture(law, np.where(columns, drawn, np.nan), cells=True))
        reference -= TIES * (1.0 + np.abs(reference))
        count = np.searchsorted(reference, log_density[rows], side="right")
        out.p_value[rows] = (count + 1.0) / (n + 1.0)
        out.threshold[rows] = reference[k - 1]
        out.threshold_error[rows] = np.sqrt(chance @ (reference - chance @ reference) ** 2)
    return out


def _patterns(observed: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of the rows that have the same cells, and which of the columns (K,) these are."""
    if len(observed) == 0:
        return
    patterns, number = np.unique(observed, axis=0, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(number.ravel(), minlength=len(patterns)))
    for columns, rows in zip(patterns, np.split(order, ends[:-1]), strict=True):
        yield rows, columns


def on_grid_rows(law: Law, rows: np.ndarray, drawn: np.ndarray | bool = True) -> np.ndarray:
    """The rows (M, D) as the table records them, where their cells were drawn: densities on their recording grid.

    Recorded values stand where leaves have their peaks, exact ones beside them: as such they would be less dense
    throughout. A value stays exact where the grid has none in its place: where rounding would leave the evidence, or
    bring a positive value to 0.
    """
    for d, width in enumerate(law.resolution):
        if width == 0.0 or not law.has_density[d]:
            continue
        moved = rows.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            moved[:, d] = np.round((rows[:, d] - law.grid_points[d]) / width) * width + law.grid_points[d] + 0.0
        if law.columns[d].kind == "count":  # all that is below 1/2
            moved[:, d] = np.maximum(moved[:, d], 0.0)
        moved = np.where(drawn, moved, rows)
        allowed = np.isfinite(moved[:, d]) & law.possible(moved)
        if any(part.grows_at_zero[d] for part in law.parts):
            allowed &= moved[:, d] > 0.0
        allowed &= (moved[:, d] >= 0.0) | (rows[:, d] < 0.0)
        rows = np.where(allowed[:, None], moved, rows)
    return rows
