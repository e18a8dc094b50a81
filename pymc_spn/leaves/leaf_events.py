"""Log probabilities of closed intervals under leaves with explicit parameters, by name of the family.

Every difference of two distribution functions is taken in the tail that holds the interval, in logs, so that far tails
and narrow intervals keep their digits.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_family import LeafFamily


def log_interval(family: str, parameters: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high) of leaves, both ends included.

    Parameters
    ----------
    family : str
        Name in `EXPLICIT`.
    parameters : (..., p) float64, or (..., 1) objects of SciPy's distributions
    low, high : float64
        Broadcast against the leading shape of the parameters; ``low > high`` is the empty interval.

    Returns
    -------
    (...) float64
        In nats, ``-inf`` where the interval has no mass.
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    empty = ~(low <= high)
    start, stop = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    leaf = EXPLICIT[family]
    own = parameters if leaf.holds_objects else np.asarray(parameters, dtype=np.float64)
    # squares and logarithms of the farthest numbers, where a density has nothing left
    with np.errstate(all="ignore") if leaf.is_density else nullcontext():
        return np.where(empty, -np.inf, leaf.log_interval(own, start, stop))


def support_of(family: str, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest values (n,) that leaves take, infinite where there is none.

    Parameters
    ----------
    family : str
        In `EXPLICIT`.
    parameters : (n, p) float64, or (n, 1) objects of SciPy's distributions
    """
    return EXPLICIT[family].support(parameters)


def log_box(
    family: LeafFamily, parameters: np.ndarray, points: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Log density of cells at a point together with the log probability that the other cells are within intervals.

    One interval is asked of the law of its column given the points, several of the leaf or of their law.

    Parameters
    ----------
    family : LeafFamily
    parameters : (1, P) array
    points, low, high : (n, d) float64
        NaN where a cell is at no point; infinite ends where it may be anything. Both ends included; a point outside
        of its interval is impossible.

    Returns
    -------
    (n,) float64
        In nats.

    Raises
    ------
    ValueError
        If the family does not know the law of several columns given others.
    """
    seen = ~np.isnan(points)
    asked = ~seen & ((low > -np.inf) | (high < np.inf))
    with np.errstate(invalid="ignore"):
        inside = np.where(seen, (points >= low) & (points <= high), low <= high).all(axis=1)
    out = np.where(inside, family.log_density_of_rows(parameters, points), -np.inf)
    for pattern in np.unique(np.hstack([seen, asked]), axis=0):
        columns = np.flatnonzero(pattern[seen.shape[1] :])
        at = np.flatnonzero((np.hstack([seen, asked]) == pattern).all(axis=1) & (out > -np.inf))
        if at.size == 0 or columns.size == 0:
            continue
        ends = low[at], high[at]
        if columns.size == 1:
            law, own = family.column_of_rows(parameters, points[at], int(columns[0]))
            out[at] += log_interval(law.name, own, *(end[:, columns[0]] for end in ends))
        elif not seen[at[0]].any():
            out[at] += family.log_probability_of_boxes(parameters, *ends)
        else:
            several, own = family.columns_of_rows(parameters, points[at], columns.tolist())
            out[at] += several.log_probability_of_boxes(own, *(end[:, columns] for end in ends))
    return out
