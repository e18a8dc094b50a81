"""The exact recursion for one feature: row sets are intervals of distinct values."""

import math

import numpy as np

from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.trees.leaf_kernels import leaf_log_marginal


@kernel
def fill_intervals(values, size, statistics, leaf, alpha_s, beta_s, min_size, log_z, log_best):
    """Log evidence and log of the best tree's joint density of every interval at every depth.

    Parameters
    ----------
    values : (G,) float64
        Distinct values, ascending.
    size : (G + 1,) int64
        Rows below each distinct value, cumulated.
    statistics : (G + 1, s) float64
        Cumulated likewise.
    log_z, log_best : (L, G, G + 1) float64
        Overwritten for ``i < j`` at depth d: the values i..j-1. With L = 1 depth does not matter (beta_s = 0 and no
        largest depth); else nodes at depth L - 1 are leaves, or have a single value.
    """
    n_levels, n_values = log_z.shape[0], values.size
    own = np.empty((n_values, n_values + 1))
    held = np.empty(statistics.shape[1])
    for i in range(n_values):
        for j in range(i + 1, n_values + 1):
            for k in range(held.size):
                held[k] = statistics[j, k] - statistics[i, k]
            own[i, j] = leaf_log_marginal(leaf, size[j] - size[i], held)
    term = np.empty(n_values)
    for level in range(n_levels - 1, -1, -1):
        below = level if n_levels == 1 else level + 1
        p = alpha_s * (1.0 + level) ** (-beta_s)
        for length in range(1, n_values + 1):
            for i in range(n_values - length + 1):
                j = i + length
                last = n_levels > 1 and level == n_levels - 1
                if length == 1 or last or size[j] - size[i] < min_size:
                    log_z[level, i, j] = own[i, j]
                    log_best[level, i, j] = own[i, j]
                    continue
                span = values[j - 1] - values[i]
                stop = math.log(1.0 - p) + own[i, j]
                top, best = stop, stop
                for c in range(i + 1, j):
                    mass = math.log(p * (values[c] - values[c - 1]) / span)
                    term[c] = mass + log_z[below, i, c] + log_z[below, c, j]
                    top = max(top, term[c])
                    best = max(best, mass + log_best[below, i, c] + log_best[below, c, j])
                total = math.exp(stop - top)
                for c in range(i + 1, j):
                    total += math.exp(term[c] - top)
                log_z[level, i, j] = top + math.log(total)
                log_best[level, i, j] = best
