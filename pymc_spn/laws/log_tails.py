"""What the far tails of leaves over the logs of values hold: masses too small to see, at distances that are not."""

import numpy as np
from scipy.special import gammaln, ndtr, stdtr


def mean_log_beyond(
    parameters: tuple[np.ndarray, np.ndarray, np.ndarray],
    within: tuple[float, float],
    log_total: np.ndarray,
    ends: tuple[float, float],
) -> np.ndarray:
    """E[abs(log X); X < ends[0] or X > ends[1]] (n,) of leaves whose log is Student t, or a bound from above.

    Infinite for one degree of freedom or fewer, where a tail is not cut off.

    Parameters
    ----------
    parameters : three (n,) arrays
        Centre, scale and degrees of freedom of the logs, infinite for Gaussian ones.
    within : two floats
        Interval to which the leaves are cut.
    log_total : (n,) float64
        Log probabilities of this interval.
    ends : two floats
    """
    centre, scale, freedom = parameters
    with np.errstate(divide="ignore"):
        (low, high), (first, last) = (np.log(np.maximum(pair, 0.0)) for pair in (within, ends))
    total = np.zeros(np.shape(centre))
    for sign, end, cut in ((1.0, last, high), (-1.0, -first, -low)):  # the lower tail is the upper one of 1 / X
        if end >= cut:
            continue
        z = (end - sign * centre) / scale
        if np.isfinite(cut):
            mass = _beyond(z, freedom) - _beyond((cut - sign * centre) / scale, freedom)
            total += np.maximum(mass, 0.0) * max(abs(end), abs(cut))
        else:
            total += scale * _mean_beyond(z, freedom) + np.abs(centre) * _beyond(z, freedom)
    return total * np.exp(-np.where(np.isfinite(log_total), log_total, 0.0))


def _beyond(z: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """P(T > z) of Student t, of a Gaussian where the degrees of freedom are infinite."""
    return np.where(np.isfinite(freedom), stdtr(np.where(np.isfinite(freedom), freedom, 1.0), -z), ndtr(-z))


def _mean_beyond(z: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """E[abs(T); T > z]: the density times (v + z^2) / (v - 1), times 1 for a Gaussian."""
    is_student = np.isfinite(freedom)
    v = np.where(is_student & (freedom > 1.0), freedom, 2.0)

    def upper(z: np.ndarray) -> np.ndarray:
        log_scale = gammaln(0.5 * (v + 1.0)) - gammaln(0.5 * v) - 0.5 * np.log(np.pi * v)
        logs = log_scale - 0.5 * (v - 1.0) * np.log1p(np.square(z) / v)
        student = np.exp(logs) * v / (v - 1.0)
        return np.where(is_student, student, np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi))

    found = np.where(z >= 0.0, upper(z), 2.0 * upper(np.zeros_like(z)) - upper(z))
    return np.where(freedom <= 1.0, np.inf, found)
