"""Log probabilities of closed intervals under leaves with explicit parameters, by name of the family.

Every difference of two distribution functions is taken in the tail that holds the interval, in logs, so that far tails
and narrow intervals keep their digits.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np

from pymc_spn.leaves.explicit_leaves import EXPLICIT


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
    leaf = EXPLICIT[family]
    if leaf.ends is not None:
        return leaf.ends(parameters)
    return np.full(len(parameters), leaf.lowest), np.full(len(parameters), leaf.highest)
