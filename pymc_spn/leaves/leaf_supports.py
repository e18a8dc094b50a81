"""Smallest and largest values that leaves with given parameters take."""

from collections.abc import Callable

import numpy as np

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.scipy_leaves import SCIPY

End = Callable[[np.ndarray], np.ndarray]
ENDS: dict[str, tuple[End, End]] = {  # of parameters (n, p), where they are not those of the whole family
    "uniform": (lambda p: p[:, 0], lambda p: p[:, 1]),
    "triangular": (lambda p: p[:, 0], lambda p: p[:, 2]),
    "binomial": (lambda p: np.zeros(len(p)), lambda p: p[:, 0]),
    "beta_binomial": (lambda p: np.zeros(len(p)), lambda p: p[:, 0]),
    "hypergeometric": (
        lambda p: np.maximum(p[:, 1] + p[:, 2] - p[:, 0], 0.0),
        lambda p: np.minimum(p[:, 1], p[:, 2]),
    ),
    "bernoulli": (lambda p: (p[:, 0] >= 1.0).astype(np.float64), lambda p: (p[:, 0] > 0.0).astype(np.float64)),
    "categorical": (
        lambda p: np.argmax(p > 0.0, axis=1).astype(np.float64),
        lambda p: p.shape[1] - 1.0 - np.argmax(p[:, ::-1] > 0.0, axis=1),
    ),
}


def support_of(family: str, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends (n,) of the values that leaves take, infinite where there is none.

    Parameters
    ----------
    family : str
        In `EXPLICIT`.
    parameters : (n, p) float64, or (n, 1) objects of SciPy's distributions
    """
    if family in SCIPY:
        low, high = np.array([leaf.support() for leaf in parameters[:, 0]], np.float64).reshape(-1, 2).T
        return low, high
    if family in ENDS:
        first, last = ENDS[family]
        return first(parameters), last(parameters)
    n = len(parameters)
    return np.full(n, EXPLICIT[family].lowest), np.full(n, EXPLICIT[family].highest)
