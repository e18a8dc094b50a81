"""Products of two leaves' densities or masses that are, once normalised, leaves again."""

from collections.abc import Callable

import numpy as np

from pymc_spn.leaves.leaf_inner_products import as_gamma

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def leaf_products(family: str, p: np.ndarray, other: str, q: np.ndarray) -> tuple[str, np.ndarray] | None:
    """Family and parameters of normalised products, pair by pair.

    Parameters
    ----------
    family, other : str
        Names in `EXPLICIT`.
    p, q : (n, k) and (n, l) float64
        Their parameters, one pair a row, with inner products that are positive and finite.

    Returns
    -------
    (str, (n, m) float64), or None
        None if the products are no leaves of a known family.
    """
    if (family, other) in _PRODUCTS:
        result, multiply = _PRODUCTS[family, other]
        return result, multiply(p, q)
    if (other, family) in _PRODUCTS:
        result, multiply = _PRODUCTS[other, family]
        return result, multiply(q, p)
    return None


def _gaussian(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    total = np.hypot(p[:, 1], q[:, 1])
    share = np.square(p[:, 1] / total)
    return np.column_stack([p[:, 0] + share * (q[:, 0] - p[:, 0]), p[:, 1] / total * q[:, 1]])


def _log_normal(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """As of the logs, moved down by the variance: of two factors 1/x the density of x keeps one."""
    of_logs = _gaussian(p, q)
    return np.column_stack([of_logs[:, 0] - np.square(of_logs[:, 1]), of_logs[:, 1]])


def _gamma(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.column_stack([p[:, 0] + q[:, 0] - 1.0, p[:, 1] + q[:, 1]])


def _beta(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return p + q - 1.0


def _categorical(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    out = np.zeros((len(p), max(p.shape[1], q.shape[1])))
    common = min(p.shape[1], q.shape[1])
    with np.errstate(divide="ignore"):
        logs = np.log(p[:, :common]) + np.log(q[:, :common])
    mass = np.exp(logs - logs.max(axis=1, keepdims=True))
    out[:, :common] = mass / mass.sum(axis=1, keepdims=True)
    return out


def _levels(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - p, p])


def _uniform(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.column_stack([np.maximum(p[:, 0], q[:, 0]), np.minimum(p[:, 1], q[:, 1])])


_PRODUCTS: dict[tuple[str, str], tuple[str, Product]] = {
    ("gaussian", "gaussian"): ("gaussian", _gaussian),
    ("log_normal", "log_normal"): ("log_normal", _log_normal),
    ("exponential", "exponential"): ("exponential", lambda p, q: p + q),
    ("gamma", "gamma"): ("gamma", _gamma),
    ("gamma", "exponential"): ("gamma", lambda p, q: _gamma(p, as_gamma(q))),
    ("beta", "beta"): ("beta", _beta),
    ("uniform", "uniform"): ("uniform", _uniform),
    ("geometric", "geometric"): ("geometric", lambda p, q: p + q - p * q),
    ("bernoulli", "bernoulli"): ("bernoulli", lambda p, q: _categorical(_levels(p), _levels(q))[:, 1:]),
    ("bernoulli", "categorical"): ("categorical", lambda p, q: _categorical(_levels(p), q)),
    ("categorical", "categorical"): ("categorical", _categorical),
}
