"""Leaves over intervals: ranges in closed form of their values in logs; of the first two derivatives in `box_slopes`.

A *tape* lists the nodes of a circuit, children before parents: sums, products and leaves, which are univariate
densities or masses. `box_kernels` passes what is found here up to the root.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.leaves.family_codes import (
    BETA,
    BETA_BINOMIAL,
    BETA_GEOMETRIC,
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    HYPERGEOMETRIC,
    LAPLACE,
    LOG_NORMAL,
    LOG_STUDENT_T,
    LOMAX,
    NEGATIVE_BINOMIAL,
    POISSON,
    ROUNDED_COUNT,
    ROUNDED_GAUSSIAN,
    STUDENT_T,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.networks.gibbs.cell_masses import log_student_integral
from pymc_spn.numerics.kernel_options import (
    bare_inner_kernel,
    bare_kernel,
    inner_kernel_by_constants,
    kernel,
)

SUM, PRODUCT, CONSTANT = -1, -2, -3  # leaves have the number of their family, levels that of categorical ones
NOTHING = -1e300


class Tape(NamedTuple):
    """Nodes of a circuit with its parameters, children before parents; the last node is the root.

    Parameters
    ----------
    kind : (n,) int8
        SUM, PRODUCT or, of a leaf, the number of its family; that of all leaves on levels is CATEGORICAL.
    pointer : (n + 1,) int64
        Children of node i: ``child[pointer[i]:pointer[i + 1]]``.
    child : (e,) int64
    log_weight : (e,) float64
        Of edges below sums, 0 below products.
    column : (n,) int64
        Column of a leaf, else -1; -1 for a CONSTANT, too.
    parameter : (n, 4) float64
        CONSTANT (log value, ., ., .); GAUSSIAN (mean, sd, log scale, .); STUDENT_T (centre, scale, degrees of freedom,
        log scale); EXPONENTIAL (rate, ., ., log rate); LOMAX (alpha, beta, ., log scale); LOG_NORMAL (mean and sd of
        the log, log scale, .); LOG_STUDENT_T (centre and scale of the log, degrees of freedom, log scale), which grows
        without bound near 0; POISSON (log rate, rate, mode, .); NEGATIVE_BINOMIAL (alpha, log p, log (1 - p), mode);
        BETA_GEOMETRIC (alpha, beta, log constant, .); LAPLACE (location, scale, ., log scale); UNIFORM (low, high, .,
        log density), zero elsewhere; GAMMA (shape - 1, rate, log density at the mode, mode), of a shape of at least 1;
        BINOMIAL (trials, log odds, log constant, mode); HYPERGEOMETRIC (successes, draws, failures - draws, log
        constant); BETA_BINOMIAL (alpha, beta, trials, log constant); TRIANGULAR (lower, mode, upper, log density at the
        mode); BETA (alpha - 1, beta - 1, log density at the mode, mode), both above 0; WEIBULL (shape, scale, log
        shape, mode), of a shape above 1; ROUNDED_GAUSSIAN and ROUNDED_COUNT as STUDENT_T, of which whole numbers have
        the masses of their unit cells, and a count of 0 that of all below 1/2; CATEGORICAL (first entry in `level`,
        number of levels, ., .).
    level : (m,) float64
        Log probabilities of the levels of all CATEGORICAL leaves.
    """

    kind: np.ndarray
    pointer: np.ndarray
    child: np.ndarray
    log_weight: np.ndarray
    column: np.ndarray
    parameter: np.ndarray
    level: np.ndarray


@inner_kernel_by_constants
def log_leaf(kind, a, b, c, e, x):
    """Log density or mass at x of a leaf with parameters (a, b, c, e); neither CONSTANT nor CATEGORICAL."""
    if kind == GAUSSIAN:
        t = (x - a) / b
        return c - 0.5 * t * t
    if kind == STUDENT_T:
        t = (x - a) / b
        return e - 0.5 * (c + 1.0) * math.log1p(t * t / c)
    if kind == LAPLACE:
        return e - abs(x - a) / b
    if kind == UNIFORM:
        return e if a <= x <= b else NOTHING
    if kind == TRIANGULAR:
        share = 1.0 if x == b else (x - a) / (b - a) if x < b else (c - x) / (c - b)
        return e + math.log(share) if share > 0.0 else NOTHING
    if kind == BETA:
        if not 0.0 < x < 1.0:
            return NOTHING
        m = a / (a + b)
        rest = b / (a + b)
        away = x - m if x < 0.5 else rest - (1.0 - x)
        if abs(away) < 0.5 * min(m, rest):  # large terms that nearly cancel: what is left of each after the first order
            return c + a * (math.log1p(away / m) - away / m) + b * (math.log1p(-away / rest) + away / rest)
        return c + a * (math.log(x) - math.log(m)) + b * (math.log1p(-x) - math.log(rest))
    if kind == ROUNDED_GAUSSIAN or (kind == ROUNDED_COUNT and x >= 0.0):
        unit = b * math.sqrt(c)
        is_first = kind == ROUNDED_COUNT and x < 0.5
        low = -math.inf if is_first else (x - 0.5 - a) / unit
        length = math.inf if is_first else 1.0 / unit
        return e + math.log(unit) + log_student_integral(low, (x + 0.5 - a) / unit, length, 0.5 * (c + 1.0))
    if x < 0.0:
        return NOTHING
    if kind == WEIBULL:
        t = a * math.log(x / b) if x > 0.0 else 700.0
        return c + t - math.exp(t) - math.log(x) if t < 700.0 else NOTHING
    if kind == GAMMA:
        if a == 0.0:
            return c - b * x
        if x <= 0.0:
            return NOTHING
        u = (x - e) / e
        return c + (a * (math.log1p(u) - u) if abs(u) < 0.5 else a * (math.log(x) - math.log(e)) - b * (x - e))
    if kind == BINOMIAL:
        return c + b * x - math.lgamma(x + 1.0) - math.lgamma(a - x + 1.0) if x <= a else NOTHING
    if kind == HYPERGEOMETRIC:
        if x > a or x > b or x < -c:
            return NOTHING
        return e - math.lgamma(x + 1.0) - math.lgamma(a - x + 1.0) - math.lgamma(b - x + 1.0) - math.lgamma(c + x + 1.0)
    if kind == BETA_BINOMIAL:
        if x > c:
            return NOTHING
        both = math.lgamma(a + x) + math.lgamma(b + c - x)
        return e + both - math.lgamma(x + 1.0) - math.lgamma(c - x + 1.0)
    if kind == EXPONENTIAL:
        return e - a * x
    if kind == LOMAX:
        return e - (a + 1.0) * math.log1p(x / b)
    if kind == LOG_NORMAL:
        if x <= 0.0:
            return NOTHING
        y = math.log(x)
        t = (y - a) / b
        return c - 0.5 * t * t - y
    if kind == LOG_STUDENT_T:
        if x <= 0.0:
            return NOTHING
        y = math.log(x)
        t = (y - a) / b
        return e - 0.5 * (c + 1.0) * math.log1p(t * t / c) - y
    if kind == POISSON:
        return x * a - b - math.lgamma(x + 1.0)
    if kind == BETA_GEOMETRIC:
        return c + math.lgamma(b + x) - math.lgamma(a + b + x + 1.0)
    return math.lgamma(a + x) - math.lgamma(a) - math.lgamma(x + 1.0) + a * b + x * c


@bare_inner_kernel
def leaf_log(tape, i, x):
    """Log density or mass of leaf i at x."""
    p = tape.parameter[i]
    if tape.kind[i] == CONSTANT:
        return p[0]
    if tape.kind[i] == CATEGORICAL:
        return tape.level[int(p[0]) + int(x)] if x < p[1] else NOTHING
    return log_leaf(tape.kind[i], p[0], p[1], p[2], p[3], x)


@bare_inner_kernel
def is_one_sided(kind):
    """Whether a leaf has no density below 0."""
    if kind == UNIFORM or kind == TRIANGULAR or kind == BETA:
        return False
    if kind == GAUSSIAN or kind == STUDENT_T or kind == ROUNDED_GAUSSIAN or kind == LAPLACE:
        return False
    return kind != CONSTANT


@bare_inner_kernel
def leaf_mode(tape, i):
    """Where leaf i is largest; not for CATEGORICAL."""
    kind = tape.kind[i]
    p = tape.parameter[i]
    if kind == GAUSSIAN or kind == STUDENT_T or kind == LAPLACE:
        return p[0]
    if kind == ROUNDED_GAUSSIAN or kind == ROUNDED_COUNT:
        return max(np.round(p[0]), 0.0) if kind == ROUNDED_COUNT else np.round(p[0])
    if kind == UNIFORM:
        return 0.5 * (p[0] + p[1])
    if kind == TRIANGULAR:
        return p[1]
    if kind == GAMMA or kind == WEIBULL or kind == BETA or kind == BINOMIAL:
        return p[3]
    if kind == HYPERGEOMETRIC:
        return math.floor((p[0] + 1.0) * (p[1] + 1.0) / (p[0] + p[1] + p[2] + 2.0))
    if kind == LOG_NORMAL:
        return math.exp(p[0] - p[1] * p[1])
    if kind == LOG_STUDENT_T:
        return math.exp(p[0] + p[1] * log_student_turn(p[1], p[2], 1.0))
    if kind == POISSON:
        return p[2]
    if kind == BETA_BINOMIAL:
        return beta_binomial_mode(p[0], p[1], p[2])
    return p[3] if kind == NEGATIVE_BINOMIAL else 0.0


@kernel
def log_student_turn(scale, freedom, sign):
    """z of the local maximum (sign 1) or minimum (-1) of a log-Student density, u = centre + scale z; else 0."""
    root = (freedom + 1.0) ** 2 - 4.0 * scale * scale * freedom
    return (sign * math.sqrt(root) - (freedom + 1.0)) / (2.0 * scale) if root > 0.0 else 0.0


@kernel
def beta_binomial_mode(alpha, beta, trials):
    """Smallest count of largest mass: see `Binomial.predictive_mode`."""
    if alpha + beta > 2.0:
        turn = (trials * (alpha - 1.0) - (beta - 1.0)) / (alpha + beta - 2.0)
        return min(max(np.ceil(turn), 0.0), trials)
    return trials if alpha > beta else 0.0


@bare_inner_kernel
def beta_binomial_range(tape, i, low, high):
    """`leaf_log_range` of a beta-binomial leaf over low < high.

    P(x + 1) >= P(x) if and only if x (alpha + beta - 2) <= trials (alpha - 1) - (beta - 1): beside the ends of the
    counts that are possible, the mode is largest or, where alpha + beta < 2, the turn least.
    """
    p = tape.parameter[i]
    last = min(high, p[2])
    if last < low:
        return NOTHING, NOTHING
    least = min(leaf_log(tape, i, low), leaf_log(tape, i, last))
    most = max(leaf_log(tape, i, low), leaf_log(tape, i, last))
    rest = p[0] + p[1] - 2.0
    turn = np.ceil((p[2] * (p[0] - 1.0) - (p[1] - 1.0)) / rest) if rest != 0.0 else low
    if low < turn < last:
        at = leaf_log(tape, i, turn)
        least = min(least, at)
        most = max(most, at)
    return (least if high <= p[2] else NOTHING), most


@bare_kernel
def leaf_log_range(tape, i, low, high):
    """Smallest and largest log value of leaf i over [low, high].

    Each leaf is unimodal but CATEGORICAL, LOG_STUDENT_T, which falls from infinity at 0 before it rises to its mode,
    BETA_BINOMIAL, which may be largest at both ends, and ROUNDED_COUNT, whose 0 has the mass of all below.
    """
    kind = tape.kind[i]
    if kind == CATEGORICAL:
        least = math.inf
        most = NOTHING
        for k in range(int(low), int(high) + 1):
            v = leaf_log(tape, i, float(k))
            least = min(least, v)
            most = max(most, v)
        return least, most
    # the edge of a one-sided support belongs to the box on its right
    if low < 0.0 and is_one_sided(kind):
        return NOTHING, NOTHING
    if kind == UNIFORM:
        p = tape.parameter[i]
        meets = low <= p[1] and high >= p[0]
        return (p[3] if low >= p[0] and high <= p[1] else NOTHING), (p[3] if meets else NOTHING)
    at_low = leaf_log(tape, i, low)
    if low == high:
        return at_low, at_low
    if kind == ROUNDED_COUNT and low == 0.0:
        least, most = leaf_log_range(tape, i, 1.0, high)
        return min(at_low, least), max(at_low, most)
    at_high = leaf_log(tape, i, high)
    mode = leaf_mode(tape, i)
    if kind == LOG_STUDENT_T:
        p = tape.parameter[i]
        turn = math.exp(p[0] + p[1] * log_student_turn(p[1], p[2], -1.0))
        least = min(at_low, at_high)
        if low < turn < high:
            least = min(least, leaf_log(tape, i, turn))
        most = max(at_low, at_high)
        return least, (max(most, leaf_log(tape, i, mode)) if low < mode < high else most)
    if kind == BETA_BINOMIAL:
        return beta_binomial_range(tape, i, low, high)
    most = leaf_log(tape, i, mode) if low < mode < high else max(at_low, at_high)
    return min(at_low, at_high), most
