"""Leaf families of a tree as compiled functions: marginal likelihood of a leaf from additive statistics.

Statistics of a leaf: (K,) counts for classes (a binary response is two classes with unequal masses); for real values
the sums of y and y^2 of the centred response. For counts they are the sums of y and log y!. The number of rows goes
with them.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel

CLASSES, NORMAL, COUNTS = 0, 1, 2
SPREAD = 3  # no family: in `forest_kernels.average_leaves`, squares about a centre


class ConjugatePrior(NamedTuple):
    """One leaf family with its constants tabulated over the number of rows.

    ``step`` (k, N+1) holds log(a_k + n), ``mass`` (k, N+1) lgamma(a_k + n) - lgamma(a_k), with k = 1 where all classes
    have equal mass. ``total`` (N+1,) holds what depends on the number of rows alone, and ``constants`` are the family's
    own.
    """

    family: int
    step: np.ndarray
    mass: np.ndarray
    total: np.ndarray
    constants: np.ndarray


class Response(NamedTuple):
    """The response by row: ``label`` for classes; ``first`` and ``second``, the summands of the statistics, else."""

    label: np.ndarray
    first: np.ndarray
    second: np.ndarray
    n_statistics: int


@kernel
def leaf_log_marginal(leaf, n, statistics):
    """Log marginal likelihood of one leaf, in nats.

    Parameters
    ----------
    leaf : ConjugatePrior
    n : int
        Rows in the leaf.
    statistics : (s,) float64
    """
    if leaf.family == CLASSES:
        value = -leaf.total[n]
        distinct = leaf.mass.shape[0] > 1
        for k in range(statistics.size):
            value += leaf.mass[k if distinct else 0, int(statistics[k])]
        return value
    return moments_log_marginal(leaf, n, statistics[0], statistics[1])


@inner_kernel
def moments_log_marginal(leaf, n, first, second):
    """The same for families of two sums."""
    if n == 0:
        return 0.0
    c = leaf.constants
    if leaf.family == NORMAL:
        mean = first / n
        scatter = max(second - first * mean, 0.0)
        b = c[3] + 0.5 * scatter + 0.5 * c[1] * n * (mean - c[0]) ** 2 / (c[1] + n)
        return leaf.total[n] - (c[2] + 0.5 * n) * math.log(b)
    return leaf.total[0] + math.lgamma(c[0] + first) - (c[0] + first) * leaf.step[0, n] - second


@kernel
def gather_statistics(response, rows, begin, n, out):
    """Sufficient statistics of the rows ``rows[begin : begin + n]`` into ``out``."""
    out[:] = 0.0
    if response.label.size:
        for i in range(begin, begin + n):
            out[response.label[rows[i]]] += 1.0
    else:
        for i in range(begin, begin + n):
            out[0] += response.first[rows[i]]
            out[1] += response.second[rows[i]]


@inner_kernel
def draw_index(rng, weights, n):
    """Index below ``n`` with probability proportional to the weights."""
    total = 0.0
    for i in range(n):
        total += weights[i]
    u = rng.random() * total
    last = 0
    for i in range(n):
        if weights[i] > 0.0:
            last = i
            u -= weights[i]
            if u < 0.0:
                return i
    return last
