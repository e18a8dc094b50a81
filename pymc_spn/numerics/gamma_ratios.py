"""Ratios of gamma functions and masses of counts in kernels, without differences of logs of factorials.

``lgamma`` of a sum of counts is larger than the log mass of one of them by the number of rows and by a logarithm. Of
twenty thousand counts of a thousand million the difference of two keeps no digit after the point.
"""

import math

import numpy as np

from pymc_spn.numerics.elementary import fast_log, fast_log1p
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel

STIRLING_FROM = 16  # the terms that are left out of the series are below 1e-15
NEAR_NONE = -0.99  # a relative change below which what is left has lost digits
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _rest(z):
    return math.lgamma(z) - (z - 0.5) * math.log(z) + z - HALF_LOG_2PI


_REST_OF_COUNTS = np.array([0.0, *(_rest(float(k)) for k in range(1, STIRLING_FROM))])  # that at 0 is not read


@bare_kernel
def stirling_rest(z):
    """lgamma(z) - (z - 1/2) log z + z - log(2 pi) / 2 for z > 0 (DLMF 5.11.1)."""
    if z < STIRLING_FROM:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - HALF_LOG_2PI
    i = 1.0 / z
    y = i * i
    return i * (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188))))


@bare_inner_kernel
def log_rising_from(a, m, at_a):
    """`log_rising` where the caller has ``at_a``, lgamma(a); it is read where a is below `STIRLING_FROM`."""
    if a < STIRLING_FROM:
        return math.lgamma(a + m) - at_a
    grown = (a + m - 0.5) * fast_log1p(m / a) - m + m * fast_log(a)
    return grown + stirling_rest(a + m) - stirling_rest(a)


@bare_inner_kernel
def log_rising(a, m):
    """lgamma(a + m) - lgamma(a) for a > 0, m >= 0.

    The error is one of m log a, however large a is. At a = 1e30, which NUTS may try, the plain difference is wrong by
    1e16, and a chain that meets such a value takes it for a mode and never leaves.
    """
    return log_rising_from(a, m, math.lgamma(a) if a < STIRLING_FROM else 0.0)


@bare_inner_kernel
def log_counts(total, n, a, b, rest):
    """Log of the integral of rate^total exp(-n rate) under a gamma (a, b), over that integrand at rate = total / n.

    The largest terms are of the size of n deviances of total / n from a / b, and not of total log total.

    Parameters
    ----------
    total, n : float
        Positive.
    a, b : float
        Shape and rate.
    rest : float
        `stirling_rest` of a.
    """
    share = 1.0 / (b + n)
    away = (a * n - total * b) * share
    by_prior, by_data = -away / a, away / total  # relative changes of a and of total to their means given both
    log_prior = fast_log1p(by_prior) if by_prior > NEAR_NONE else math.log((a + total) * share * (b / a))
    log_data = fast_log1p(by_data) if by_data > NEAR_NONE else math.log((a + total) * share * (n / total))
    deviances = a * log_prior + total * log_data
    return deviances - 0.5 * fast_log1p(total / a) + stirling_rest(a + total) - rest


@bare_inner_kernel
def log_negative_binomial(x, a, b, rest):
    """Log mass of a Poisson count x whose rate is gamma (a, b); ``rest`` is `stirling_rest` of a."""
    if x == 0.0:
        return -a * math.log1p(1.0 / b)
    own = _REST_OF_COUNTS[int(x)] if x < STIRLING_FROM else stirling_rest(x)
    return log_counts(x, 1.0, a, b, rest) - 0.5 * fast_log(x) - HALF_LOG_2PI - own
