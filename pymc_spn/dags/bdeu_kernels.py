"""The BDeu score of every set of candidate parents, by refining the groups of rows that agree on the parents."""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit
from pymc_spn.numerics import gamma_ratios
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

_FEW = 12  # rising factorials of up to so many factors are multiplied out,
_LARGE = 1e24  # if their product is a number


@inner_kernel
def log_rising(x, n):
    """lgamma(x + n) - lgamma(x) for x > 0 and a whole n."""
    if n <= _FEW and x < _LARGE:
        product = 1.0
        for m in range(n):
            product *= x + m
        return math.log(product)
    return gamma_ratios.log_rising(x, n)


@inner_kernel
def rising_slope(x, n):
    """Derivative of `log_rising` in x."""
    if n <= _FEW:
        total = 0.0
        for m in range(n):
            total += 1.0 / (x + m)
        return total
    if x < gamma_ratios.STIRLING_FROM:
        return digamma(x + n) - digamma(x)
    return math.log1p(n / x) + _digamma_rest(x) - _digamma_rest(x + n)


@inner_kernel
def _digamma_rest(x):
    """log(x) - digamma(x) for large x (DLMF 5.11.2)."""
    i = 1.0 / x
    y = i * i
    return 0.5 * i + y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))


@inner_kernel
def refine(group, n_groups, codes, n_levels, stamp, refined):
    """Number of groups after splitting each by one more variable; `refined` gets the new labels."""
    for s in range(n_groups * n_levels):
        stamp[s] = -1
    n = 0
    for row in range(group.size):
        cell = group[row] * n_levels + codes[row]
        if stamp[cell] < 0:
            stamp[cell] = n
            n += 1
        refined[row] = stamp[cell]
    return n


@inner_kernel
def family_score(group, n_groups, n_configurations, codes, weight, n_levels, ess, counts):
    """BDeu score and its derivative in ess, for rows grouped by the values of the parents.

    Parameters
    ----------
    group : (N,) int64
        Group of each distinct row, 0..n_groups-1.
    n_groups : int
    n_configurations : float
        Product of the parents' numbers of levels.
    codes : (N,) int64
        Levels of the child.
    weight : (N,) int64
        How often each distinct row occurs.
    n_levels : int
    ess : float
        Equivalent sample size.
    counts : (>= n_groups * (n_levels + 1),) int64
        Scratch space.

    References
    ----------
    Heckerman, Geiger and Chickering (1995), doi:10.1007/BF00994016, equation 28 with equal prior counts.
    """
    for s in range(n_groups * (n_levels + 1)):
        counts[s] = 0
    for row in range(group.size):
        cell = group[row] * (n_levels + 1)
        counts[cell] += weight[row]
        counts[cell + 1 + codes[row]] += weight[row]
    by_group = ess / n_configurations
    by_cell = by_group / n_levels
    score = 0.0
    slope = 0.0
    for g in range(n_groups):
        cell = g * (n_levels + 1)
        score -= log_rising(by_group, counts[cell])
        slope -= rising_slope(by_group, counts[cell]) / n_configurations
        for k in range(n_levels):
            n = counts[cell + 1 + k]
            if n:
                score += log_rising(by_cell, n)
                slope += rising_slope(by_cell, n) / (n_configurations * n_levels)
    return score, slope


@kernel
def family_table(codes, weight, n_levels, child, base, candidates, ess, out, slopes):
    """BDeu scores of one variable over all subsets of its candidates, each joined with the base.

    Parameters
    ----------
    codes : (d, N) int64
        Levels of the distinct rows, one variable a row.
    weight : (N,) int64
    n_levels : (d,) int64
    child : int
    base, candidates : (b,) and (k,) int64
        Variables; disjoint.
    ess : float
    out, slopes : (2^k,) float64
        Out: log marginal likelihoods and their derivatives in ess.
    """
    n_rows = weight.size
    k = candidates.size
    widest = 1
    for j in range(codes.shape[0]):
        widest = max(widest, n_levels[j])
    group = np.zeros((k + 1, n_rows), np.int64)
    held = np.full(k + 1, k)
    n_groups = np.ones(k + 1, np.int64)
    configurations = np.ones(k + 1)
    stamp = np.empty((n_rows + 1) * widest, np.int64)
    counts = np.empty((n_rows + 1) * (widest + 1), np.int64)
    spare = np.zeros(n_rows, np.int64)
    for j in base:
        n_groups[:] = refine(group[k], n_groups[k], codes[j], n_levels[j], stamp, spare)
        group[k] = spare
        configurations[:] = configurations[k] * n_levels[j]
    unchecked = np.zeros(1, np.int64)
    for m in range(1 << k):
        if must_stop_after(20 * n_rows, unchecked):
            return
        where = k
        if m:
            b = lowest_bit(m)
            source = held[b + 1]
            j = candidates[b]
            n = refine(group[source], n_groups[b + 1], codes[j], n_levels[j], stamp, group[b])
            product = configurations[b + 1] * n_levels[j]
            for level in range(b + 1):
                held[level] = b
                n_groups[level] = n
                configurations[level] = product
            where = b
        out[m], slopes[m] = family_score(
            group[where], n_groups[0], configurations[0], codes[child], weight, n_levels[child], ess, counts
        )
