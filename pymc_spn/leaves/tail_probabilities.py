"""Special functions in logs, careful where the plain difference or the plain value would be lost."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaln, gammaln

STIRLING_FROM = 20.0
UNDERFLOW = 1e-280
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
NODES, LOG_NODE_WEIGHTS = 0.5 * (_NODES + 1.0), np.log(0.5 * _WEIGHTS)  # on (0, 1)


def log_gamma_ratio(a: Any, m: Any) -> np.ndarray:
    """``log Gamma(a + m) - log Gamma(a)`` for a > 0, m >= 0, without cancellation at large a.

    The difference of Stirling series from a = 20 on, where the terms left out are below 1e-14.
    """
    a, m = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(m, dtype=np.float64))
    large, small = np.maximum(a, STIRLING_FROM), np.minimum(a, STIRLING_FROM)
    series = m * np.log(large) + (large + m - 0.5) * np.log1p(m / large) - m
    series = series + stirling_rest(large + m) - stirling_rest(large)
    return np.where(a >= STIRLING_FROM, series, gammaln(small + m) - gammaln(small))


def log_beta_ratio(a: Any, b: Any, m: Any) -> np.ndarray:
    """``log B(a, b + m) - log B(a, b)`` for a, b > 0 and finite m >= 0, without terms that grow as m log m.

    It is log Gamma(b + m) / Gamma(b) less the same at a + b, and the same with a and m exchanged. Of the two, the one
    with the smaller factors is used. Large b leave with a logarithm of 1 + m / b.
    """
    a, b, m = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (a, b, m)))
    small = np.minimum(m, a)
    by_m = log_gamma_ratio(b, small) - log_gamma_ratio(a + b, small)
    by_a = log_gamma_ratio(b, a) - log_gamma_ratio(b + m, a)
    large = np.maximum(b, STIRLING_FROM)
    by_log = _beyond_log(large, a) - _beyond_log(large + m, a) - a * np.log1p(m / large)
    return np.where(m <= a, by_m, np.where(b >= STIRLING_FROM, by_log, by_a))


def _beyond_log(a: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Stirling's log Gamma(a + m) - log Gamma(a) without m log a and -m, which do not differ or stand elsewhere."""
    return (a + m - 0.5) * np.log1p(m / a) + stirling_rest(a + m) - stirling_rest(a)


def stirling_rest(x: np.ndarray) -> np.ndarray:
    """log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 of x from `STIRLING_FROM` on."""
    y = np.square(1.0 / x)  # not of x, whose square may be too large
    return (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y / 1188)))) / x


def log_betainc(a: Any, b: Any, x: Any, log_x: Any, log_complement: Any, upper: bool = False) -> np.ndarray:
    """Log of the incomplete beta function I_x(a, b), or of 1 - I_x(a, b), also where it underflows.

    Parameters
    ----------
    a, b, x : array
        As for `scipy.special.betainc`.
    log_x, log_complement : array
        ``log x`` and ``log (1 - x)``, which the caller knows better than from x.
    upper : bool
        The complement instead.
    """
    a, b, x, log_x, log_complement = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (a, b, x, log_x, log_complement))
    )
    plain = betaincc(a, b, x) if upper else betainc(a, b, x)
    with np.errstate(divide="ignore"):
        result = np.log(plain)
    lost = (plain < UNDERFLOW) & np.isfinite(log_x) & np.isfinite(log_complement)
    if np.any(lost):
        result = np.array(result)
        args = (b, a, log_complement, log_x) if upper else (a, b, log_x, log_complement)
        result[lost] = _log_continued_fraction(*(v[lost] for v in args))
    return result


def _log_continued_fraction(a: np.ndarray, b: np.ndarray, log_x: np.ndarray, log_complement: np.ndarray) -> np.ndarray:
    """I_x(a, b) by its continued fraction (DLMF 8.17.22, Lentz), quick where the value is tiny."""
    x = np.exp(log_x)
    tiny = 1e-300
    c = np.ones_like(x)
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
    fraction = d
    for k in range(1, 10_000):
        even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        factor = np.ones_like(x)
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
            c = 1.0 + term / c
            c = np.where(np.abs(c) < tiny, tiny, c)
            factor = c * d
            fraction = fraction * factor
        if np.all(np.abs(factor - 1.0) < 1e-15):
            break
    return a * log_x + b * log_complement - np.log(a) - betaln(a, b) + np.log(fraction)


def log_narrow_integral(
    log_density: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, width: np.ndarray
) -> Any:
    """Log of a density's integral over intervals that are narrow beside its curvature, by eight Gauss points.

    `width` is high - low before ends were shifted, scaled or taken to logarithms, which rounds them apart or together.
    """
    inner = [w + log_density(low + t * (high - low)) for t, w in zip(NODES, LOG_NODE_WEIGHTS, strict=True)]
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(width, 0.0)) + np.logaddexp.reduce(inner, axis=0)


def log_width(low: np.ndarray, high: np.ndarray) -> Any:
    """log high - log low for 0 <= low <= high, to all digits also where the logarithms are the same number."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.log1p((high - low) / low)


def log_difference(larger: Any, smaller: Any) -> np.ndarray:
    """``log(exp(larger) - exp(smaller))``, ``-inf`` where nothing is left."""
    larger, smaller = np.broadcast_arrays(np.asarray(larger, dtype=np.float64), np.asarray(smaller, dtype=np.float64))
    nothing = np.isneginf(larger)
    gap = np.minimum(np.where(nothing, 0.0, smaller) - np.where(nothing, 0.0, larger), 0.0)
    with np.errstate(divide="ignore"):  # equal values leave -inf
        rest = np.where(gap > -np.log(2.0), np.log(-np.expm1(gap)), np.log1p(-np.exp(gap)))
    return np.where(nothing, -np.inf, np.where(nothing, 0.0, larger) + rest)


def counts_between(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and last count of an interval, and whether there is none."""
    first, last = np.maximum(np.ceil(low), 0.0), np.floor(high)
    empty = ~(last >= first) | np.isinf(first)
    return np.where(empty, 0.0, first), np.where(empty, 0.0, last), empty
