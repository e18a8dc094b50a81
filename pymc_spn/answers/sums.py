"""Sums over the combinations of levels of a law, and over rows that are simulated from it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_spn.answers.asked_law import relative
from pymc_spn.laws.law import Law
from pymc_spn.numerics.draw_averages import log_average, relative_weights

MOST_STATES = 20_000  # combinations of levels that are enumerated
BLOCK_VALUES = 20_000_000  # per-circuit log densities held at a time (160 MB)


class CombinationProbabilities(NamedTuple):
    """Probabilities of all combinations of levels.

    Parameters
    ----------
    p : (M,) float64
        Of the mixture.
    each : (S, M) float64
        Of each circuit.
    weight : (S,) float64
        Of the circuits, of mean 1.
    """

    p: np.ndarray
    each: np.ndarray
    weight: np.ndarray


def n_states(law: Law) -> int:
    """Combinations of levels, or more than are enumerated where a column is a number."""
    n = 1
    for column in law.columns:
        n *= MOST_STATES + 1 if column.levels is None else len(column.levels)
    return n


def states_of(law: Law, columns: Sequence[int], sizes: Sequence[int] | None = None) -> CombinationProbabilities:
    """All combinations of levels of the columns, in this order, or of so many first counts of each."""
    if sizes is None:
        sizes = [len(law.columns[d].levels or ()) for d in columns]
    codes = np.meshgrid(*(np.arange(float(k)) for k in sizes), indexing="ij")
    levels = np.stack(codes, axis=-1).reshape(-1, len(columns))
    rows = np.full((len(levels), len(law.columns)), np.nan)
    rows[:, list(columns)] = levels
    each = np.exp(law.log_density(rows))
    if n_states(law) <= MOST_STATES:  # all that there are
        total = each.sum(axis=1, keepdims=True)
        each = each / np.where(total > 0.0, total, 1.0)
    weight = relative(law)
    return CombinationProbabilities(weight @ each / weight.sum(), each, weight)


def log_mixture(law: Law, rows: np.ndarray, cells: bool = False) -> np.ndarray:
    """Log density (M,) of the mixture over circuits at rows (M, D), see `Law.log_density`."""
    out = np.empty(len(rows))
    step = max(1, BLOCK_VALUES // law.n_circuits)
    for start in range(0, len(rows), step):
        out[start : start + step] = log_average(law.log_weights, law.log_density(rows[start : start + step], cells))
    return out - log_average(law.log_weights, np.zeros(law.n_circuits))


def with_columns(rows: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Rows (M, D) that hold only some columns."""
    out = np.full(rows.shape, np.nan)
    out[:, list(columns)] = rows[:, list(columns)]
    return out


def simulated(law: Law, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, D) from the mixture; of counts none below 0, where Gaussian leaves beside masses have some."""
    rows = law.draw(n, rng)
    counts = np.array([column.kind == "count" for column in law.columns])
    rows[:, counts] = np.maximum(rows[:, counts], 0.0)
    return rows


def influence(law: Law, rows: np.ndarray, f: np.ndarray) -> np.ndarray:
    """What each circuit (S,) adds to the mean of f (M,) over rows simulated from the mixture, about that mean.

    The mean of f under one circuit is that over the same rows weighted by its density over the mixture's.
    """
    return _shares(law, rows, f - f.mean())


def shares_of_circuits(law: Law, rows: np.ndarray) -> np.ndarray:
    """Each circuit's (S,) weight times its density over the mixture's, averaged over rows of another law, about 1."""
    return _shares(law, rows, np.ones(len(rows))) - relative(law)


def _shares(law: Law, rows: np.ndarray, f: np.ndarray) -> np.ndarray:
    total = np.zeros(law.n_circuits)
    step = max(1, BLOCK_VALUES // total.size)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        # with the circuit's weight: its density among the circuits' together
        total += relative_weights(law.log_density(rows[part]) + law.log_weights[:, None]) @ f[part]
    return total / len(rows)
