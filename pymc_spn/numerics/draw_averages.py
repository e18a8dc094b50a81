"""Averages over the draws of the chains: weights, logs of means, and their Monte Carlo standard errors."""

from typing import Any

import numpy as np

from pymc_spn.numerics.effective_sizes import effective_sizes
from pymc_spn.numerics.threads import for_each

BLOCK_VALUES = 100_000  # values whose errors are taken at a time, which stay in the cache

NOT_DEFINED = {"mcse_chain_note": "no mcse_chain: per-draw values are infinite or their ESS is not defined"}


def log_average(log_weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """log sum_s exp(log_weights_s + logs_s) along the first axis; ``-inf`` where every term is."""
    shaped = logs + log_weights.reshape((-1,) + (1,) * (logs.ndim - 1))
    top = shaped.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(shaped - shift).sum(axis=0))


def relative_weights(logs: np.ndarray) -> np.ndarray:
    """exp(logs) along the first axis, scaled to the mean 1; 0 where every term is."""
    top = logs.max(axis=0)
    w = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    mean = w.mean(axis=0)
    return w / np.where(mean > 0, mean, 1.0)


def weighted(weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weights (S,) or (S, M) times values (S, ...) or (S, M, ...); 0 where the weight is, whatever the value."""
    shaped = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
    with np.errstate(invalid="ignore"):  # 0 times an infinite moment, which does not count
        return np.where(shaped > 0.0, shaped * values, 0.0)


def weighted_mean(weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean (...) of values (S, ...) with weights (S,) over those that have some."""
    return weighted(weight, values).sum(axis=0) / weight.sum()


def fewer_draws(log_weights: np.ndarray, n: int) -> np.ndarray:
    """Log weights (S,) of at most n draws that stand for all, ``-inf`` of the others.

    Draws of equal weight are taken evenly. Others are taken evenly along their cumulative weights, and count as often
    as they are met: of chains that count for nothing there are then none.
    """
    size = log_weights.size
    if n >= size:
        return log_weights
    if log_weights.min() == log_weights.max():
        used = np.unique(np.linspace(0, size - 1, n).round().astype(np.int64))
        return np.where(np.isin(np.arange(size), used), log_weights, -np.inf)
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    met = np.searchsorted(cumulative, (np.arange(n) + 0.5) / n * cumulative[-1], side="right")
    with np.errstate(divide="ignore"):
        return np.log(np.bincount(np.minimum(met, size - 1), minlength=size))


def choose_draws(log_weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (n, M) of the chain for each row, in proportion to exp(log_weights) (S, M)."""
    chosen = np.empty((n, log_weights.shape[1]), np.int64)
    for m in range(log_weights.shape[1]):
        cumulative = np.cumsum(np.exp(log_weights[:, m] - log_weights[:, m].max()))
        u = rng.random(n) * cumulative[-1]
        chosen[:, m] = np.minimum(np.searchsorted(cumulative, u, side="right"), len(cumulative) - 1)
    return chosen


def even_choice(length: int, n: int) -> np.ndarray:
    """Numbers (n,) of n of the draws 0 .. length - 1 of a chain, evenly spaced, the first and the last among them."""
    return np.linspace(0, length - 1, min(max(n, 1), length)).round().astype(np.int64)


def effective_draws(logs: np.ndarray) -> np.ndarray:
    """(sum w)^2 / sum w^2 of weights exp(logs) along the first axis."""
    w = relative_weights(logs)
    return w.sum(axis=0) ** 2 / np.maximum((w**2).sum(axis=0), np.finfo(float).tiny)


def chain_error(influence: np.ndarray, n_chains: int) -> dict[str, Any]:
    """Standard error of the mean of per-draw values (S, ...) by ArviZ's ESS, as attributes of an answer.

    NaN where values are infinite or NaN, or their ESS is not defined; where all are, a note in its place.
    """
    n_draws = len(influence) // n_chains
    if n_draws < 4:
        return {"mcse_chain_note": f"no mcse_chain: {n_draws} draws a chain, 4 are needed"}
    if influence.size == 0:  # nothing was asked, and each of no answers has its error
        return {"mcse_chain": np.zeros(influence.shape[1:])}
    flat = influence.reshape(len(influence), -1)
    error = np.empty(flat.shape[1])
    step = max(1, BLOCK_VALUES // len(influence))
    parts = [slice(start, start + step) for start in range(0, error.size, step)]

    def find(part: slice) -> None:
        error[part] = _errors(flat[:, part], n_chains)

    for_each(find, parts, len(parts) > 1)
    if np.isnan(error).all():
        return dict(NOT_DEFINED)
    return {"mcse_chain": float(error[0]) if influence.ndim == 1 else error.reshape(influence.shape[1:])}


def attrs_of_finite(values: Any, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes of answers in which those that are NaN or infinite, as of impossible rows, have no error."""
    error, values = attrs.get("mcse_chain"), np.asarray(values)
    if error is None or values.dtype.kind != "f" or np.shape(error) != values.shape:
        return attrs
    finite = np.isfinite(values)
    if finite.all():
        return attrs
    if finite.any():
        return attrs | {"mcse_chain": np.where(finite, error, np.nan)}
    return {k: v for k, v in attrs.items() if k != "mcse_chain"} | NOT_DEFINED


def _errors(influence: np.ndarray, n_chains: int) -> np.ndarray:
    """Standard errors (M,) of means of per-draw values (S, M), NaN where they are not defined."""
    finite = np.isfinite(influence).all(axis=0)
    values = np.where(finite, influence, 0.0)
    spread = values.std(axis=0, ddof=1)
    ess = effective_sizes(values.reshape(n_chains, -1, values.shape[1]))
    # values that are constant up to rounding have no error, whatever their ESS
    constant = ~(spread > 1e-14 * np.abs(values).max(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(constant, 0.0, spread / np.sqrt(ess))
    return np.where(finite & np.isfinite(error), error, np.nan)


def shortest_interval(values: np.ndarray, weight: np.ndarray, prob: float) -> tuple[float, float]:
    """Shortest interval that holds a share of weighted values."""
    if np.isnan(values).any():
        return np.nan, np.nan
    order = np.argsort(values)
    x, w = values[order], np.cumsum(weight[order])
    before = np.concatenate([[0.0], w[:-1]])
    last = np.searchsorted(w, np.minimum(before + prob * w[-1], w[-1]) - 1e-12)
    fits = before + prob * w[-1] <= w[-1] + 1e-12
    starts = np.flatnonzero(fits)
    best = starts[np.argmin(x[last[starts]] - x[starts])]
    return float(x[best]), float(x[last[best]])


def stack(densities: np.ndarray, gap: float = 1e-4) -> np.ndarray:
    """Weights (K,) that maximise the sum of the logs of the weighted densities and of the weights, by EM.

    The logs of the weights are a Dirichlet prior, one row more for each predictive. Without it, predictives that agree
    get any weights. The problem is concave.

    Parameters
    ----------
    densities : (N, K) float64
        Of each row by each of K predictives that have not seen it; each row may have a scale of its own.
    gap : float
        Largest relative change of a weight in the last step.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive distributions,
    doi:10.1214/17-BA1091, equation (4) with the logarithmic score.
    """
    relative = densities / densities.max(1, keepdims=True)
    shares = np.full(densities.shape[1], 1.0 / densities.shape[1])
    for _ in range(20_000):
        rows = shares * ((1.0 / (relative @ shares)) @ relative) + 1.0
        new = rows / rows.sum()
        if np.abs(new / shares - 1.0).max() < gap:
            break
        shares = new
    return shares
