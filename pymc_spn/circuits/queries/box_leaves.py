"""Leaves over intervals: ranges in closed form of their values in logs, and of the first two derivatives.

A *tape* lists the nodes of a circuit, children before parents: sums, products and leaves, which are univariate
densities or masses. `box_kernels` passes what is found here up to the root.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel, inner_kernel, kernel

SUM, PRODUCT, CONSTANT, NORMAL, STUDENT, EXPONENTIAL, LOMAX, LOGNORMAL, POISSON, NEGATIVE_BINOMIAL, LEVELS = range(11)
LOG_STUDENT, BETA_GEOMETRIC, LAPLACE, UNIFORM, GAMMA, BINOMIAL, HYPERGEOMETRIC, BETA_BINOMIAL = range(11, 19)
NOTHING = -1e300


class Tape(NamedTuple):
    """Nodes of a circuit with its parameters, children before parents; the last node is the root.

    Parameters
    ----------
    kind : (n,) int8
        SUM, PRODUCT or the kind of a leaf.
    pointer : (n + 1,) int64
        Children of node i: ``child[pointer[i]:pointer[i + 1]]``.
    child : (e,) int64
    log_weight : (e,) float64
        Of edges below sums, 0 below products.
    column : (n,) int64
        Column of a leaf, else -1; -1 for a CONSTANT, too.
    parameter : (n, 4) float64
        CONSTANT (log value, ., ., .); NORMAL (mean, sd, log scale, .); STUDENT (centre, scale, degrees of
        freedom, log scale); EXPONENTIAL (rate, ., ., log rate); LOMAX (alpha, beta, ., log scale); LOGNORMAL
        (mean and sd of the log, log scale, .); LOG_STUDENT (centre and scale of the log, degrees of freedom, log
        scale), which grows without bound near 0; POISSON (log rate, rate, mode, .); NEGATIVE_BINOMIAL (alpha,
        log p, log (1 - p), mode); BETA_GEOMETRIC (alpha, beta, log constant, .); LAPLACE (location, scale, ., log
        scale); UNIFORM (low, high, ., log density), zero elsewhere; GAMMA (shape - 1, rate, log constant, mode), of
        a shape of at least 1; BINOMIAL (trials, log odds, log constant, mode); HYPERGEOMETRIC (successes, draws,
        failures - draws, log constant); BETA_BINOMIAL (alpha, beta, trials, log constant); LEVELS (first entry in
        `level`, number of levels, ., .).
    level : (m,) float64
        Log probabilities of the levels of all LEVELS leaves.
    """

    kind: np.ndarray
    pointer: np.ndarray
    child: np.ndarray
    log_weight: np.ndarray
    column: np.ndarray
    parameter: np.ndarray
    level: np.ndarray


@inner_kernel
def log_leaf(kind, a, b, c, e, x):
    """Log density or mass at x of a leaf with parameters (a, b, c, e); neither CONSTANT nor LEVELS."""
    if kind == NORMAL:
        t = (x - a) / b
        return c - 0.5 * t * t
    if kind == STUDENT:
        t = (x - a) / b
        return e - 0.5 * (c + 1.0) * math.log1p(t * t / c)
    if kind == LAPLACE:
        return e - abs(x - a) / b
    if kind == UNIFORM:
        return e if a <= x <= b else NOTHING
    if x < 0.0:
        return NOTHING
    if kind == GAMMA:
        return c + a * math.log(x) - b * x if x > 0.0 else (c if a == 0.0 else NOTHING)
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
    if kind == LOGNORMAL:
        if x <= 0.0:
            return NOTHING
        y = math.log(x)
        t = (y - a) / b
        return c - 0.5 * t * t - y
    if kind == LOG_STUDENT:
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
    if tape.kind[i] == LEVELS:
        return tape.level[int(p[0]) + int(x)] if x < p[1] else NOTHING
    return log_leaf(tape.kind[i], p[0], p[1], p[2], p[3], x)


@bare_inner_kernel
def is_one_sided(kind):
    """Whether a leaf has no density below 0."""
    return not (kind == NORMAL or kind == STUDENT or kind == LAPLACE or kind == UNIFORM or kind == CONSTANT)


@bare_inner_kernel
def leaf_mode(tape, i):
    """Where leaf i is largest; not for LEVELS."""
    kind = tape.kind[i]
    p = tape.parameter[i]
    if kind == NORMAL or kind == STUDENT or kind == LAPLACE:
        return p[0]
    if kind == UNIFORM:
        return 0.5 * (p[0] + p[1])
    if kind == GAMMA or kind == BINOMIAL:
        return p[3]
    if kind == HYPERGEOMETRIC:
        return math.floor((p[0] + 1.0) * (p[1] + 1.0) / (p[0] + p[1] + p[2] + 2.0))
    if kind == LOGNORMAL:
        return math.exp(p[0] - p[1] * p[1])
    if kind == LOG_STUDENT:
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

    Each leaf is unimodal but LEVELS, LOG_STUDENT, which falls from infinity at 0 before it rises to its mode, and
    BETA_BINOMIAL, which may be largest at both ends.
    """
    kind = tape.kind[i]
    if kind == LEVELS:
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
    at_high = leaf_log(tape, i, high)
    mode = leaf_mode(tape, i)
    if kind == LOG_STUDENT:
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


@inner_kernel
def slopes(kind, a, b, c, x):
    """First and second derivative of a continuous leaf over its value, at x."""
    if kind == NORMAL:
        t = (x - a) / b
        return -t / b, (t * t - 1.0) / (b * b)
    if kind == STUDENT:
        t = (x - a) / b
        u = 1.0 + t * t / c
        q = (c + 1.0) / c
        return -q * t / (u * b), q * ((c + 2.0) * t * t / c - 1.0) / (u * u * b * b)
    if kind == EXPONENTIAL:
        return -a, a * a
    if kind == LAPLACE:
        return np.sign(a - x) / b, 1.0 / (b * b)
    if kind == UNIFORM:
        return 0.0, 0.0
    if kind == LOMAX:
        s = 1.0 / (b + x)
        return -(a + 1.0) * s, (a + 1.0) * (a + 2.0) * s * s
    if x <= 0.0:
        return 0.0, 0.0
    if kind == GAMMA:
        g = a / x - b
        return g, g * g - a / (x * x)
    if kind == LOG_STUDENT:
        z = (math.log(x) - a) / b
        g = -(c + 1.0) * z / (b * (c + z * z))
        h = -(c + 1.0) * (c - z * z) / (b * b * (c + z * z) * (c + z * z))
        return (g - 1.0) / x, ((g - 1.0) * (g - 2.0) + h) / (x * x)
    y = 1.0 + (math.log(x) - a) / (b * b)
    return -y / x, (y * y + y - 1.0 / (b * b)) / (x * x)


@inner_kernel
def widen(kind, p, x, low, high, shift, out):
    """Widen the ranges of first and second derivative by their values at x, if x lies inside."""
    if low <= x <= high:
        v = math.exp(log_leaf(kind, p[0], p[1], p[2], p[3], x) - shift)
        first, second = slopes(kind, p[0], p[1], p[2], x)
        out[0] = min(out[0], v * first)
        out[1] = max(out[1], v * first)
        out[2] = min(out[2], v * second)
        out[3] = max(out[3], v * second)


@kernel
def derivative_ranges(kind, p, low, high, shift, out):
    """Ranges (4,) of first and second derivative of a continuous leaf with parameters p (4,), scaled by exp(-shift).

    Extremes of a derivative lie at the ends or where the next derivative vanishes, in closed form.
    """
    out[:] = 0.0
    if low < 0.0 and is_one_sided(kind):
        return
    if kind == LAPLACE:
        laplace_ranges(p, low, high, shift, out)
        return
    if kind == UNIFORM:
        if low <= p[1] and high >= p[0] and not (low >= p[0] and high <= p[1]):
            out[0] = out[2] = -math.inf  # it jumps
            out[1] = out[3] = math.inf
        return
    out[0] = out[2] = math.inf
    out[1] = out[3] = -math.inf
    widen(kind, p, low, low, high, shift, out)
    widen(kind, p, high, low, high, shift, out)
    if low == high:
        return
    if kind == NORMAL:
        for c in (-math.sqrt(3.0), -1.0, 0.0, 1.0, math.sqrt(3.0)):
            widen(kind, p, p[0] + c * p[1], low, high, shift, out)
    elif kind == STUDENT:
        a = math.sqrt(p[2] / (p[2] + 2.0))
        for c in (-math.sqrt(3.0), -1.0, 0.0, 1.0, math.sqrt(3.0)):
            widen(kind, p, p[0] + c * a * p[1], low, high, shift, out)
    elif kind == GAMMA:
        if low <= 0.0 and 0.0 < p[0] < 2.0:
            out[0] = out[2] = -math.inf  # a derivative has a pole at 0
            out[1] = out[3] = math.inf
            return
        gamma_ranges(p, low, high, shift, out)
    elif kind == LOG_STUDENT:
        log_student_ranges(p, low, high, shift, out)
    elif kind == LOGNORMAL:
        inverse = 1.0 / (p[1] * p[1])
        root = math.sqrt(1.0 + 4.0 * inverse)
        for c in (0.5 * (-1.0 - root), 0.5 * (-1.0 + root)):
            widen(kind, p, math.exp(p[0] + (c - 1.0) * p[1] * p[1]), low, high, shift, out)
        # of the second derivative: value / x^2 is unimodal, its factor a parabola
        if low <= 0.0:
            out[2] = -math.inf
            out[3] = math.inf
            return
        top = math.exp(min(max(math.log(low), p[0] - 3.0 * p[1] * p[1]), math.log(high)))
        most = math.exp(log_leaf(kind, p[0], p[1], p[2], p[3], top) - shift) / (top * top)
        ends = (1.0 + (math.log(low) - p[0]) * inverse, 1.0 + (math.log(high) - p[0]) * inverse)
        largest = max(ends[0] * ends[0] + ends[0], ends[1] * ends[1] + ends[1]) - inverse
        vertex = min(max(-0.5, ends[0]), ends[1])
        smallest = vertex * vertex + vertex - inverse
        out[2] = min(smallest, 0.0) * most
        out[3] = max(largest, 0.0) * most


@inner_kernel
def gamma_ranges(p, low, high, shift, out):
    """`derivative_ranges` of a gamma leaf: widen by where the second and the third derivative vanish.

    With k = shape - 1 and w = k - rate x these are w^2 = k and w^3 - 3 k w + 2 k = 0.
    """
    k = p[0]
    for sign in (-1.0, 1.0):
        widen(GAMMA, p, (k + sign * math.sqrt(k)) / p[1], low, high, shift, out)
    if k >= 1.0:
        angle = math.acos(-1.0 / math.sqrt(k)) / 3.0
        for turn in range(3):
            w = 2.0 * math.sqrt(k) * math.cos(angle - 2.0 * math.pi * turn / 3.0)
            widen(GAMMA, p, (k - w) / p[1], low, high, shift, out)
    elif k > 0.0:
        root = math.sqrt(k * k * (1.0 - k))
        w = np.cbrt(-k + root) + np.cbrt(-k - root)
        widen(GAMMA, p, (k - w) / p[1], low, high, shift, out)


@inner_kernel
def laplace_ranges(p, low, high, shift, out):
    """`derivative_ranges` of a Laplace leaf; the first derivative falls at the kink, where an end is one-sided."""
    at_low = math.exp(p[3] - abs(low - p[0]) / p[1] - shift)
    at_high = math.exp(p[3] - abs(high - p[0]) / p[1] - shift)
    top = math.exp(p[3] - shift) if low <= p[0] <= high else max(at_low, at_high)
    if low == high:
        out[0] = out[1] = at_low * np.sign(p[0] - low) / p[1]
    elif high <= p[0]:
        out[0] = at_low / p[1]
        out[1] = at_high / p[1]
    elif low >= p[0]:
        out[0] = -at_low / p[1]
        out[1] = -at_high / p[1]
    else:
        out[0] = -top / p[1]
        out[1] = top / p[1]
    out[2] = -math.inf if low < p[0] < high else min(at_low, at_high) / (p[1] * p[1])
    out[3] = top / (p[1] * p[1])


@inner_kernel
def log_student_ranges(p, low, high, shift, out):
    """`derivative_ranges` of a log-Student leaf over low > 0, by interval arithmetic on its factors.

    With g and h the derivatives of the log density of u = log x they are f (g - 1) / x and
    f ((g - 1) (g - 2) + h) / x^2.
    """
    m = p[0]
    s = p[1]
    v = p[2]
    z0 = (math.log(low) - m) / s if low > 0.0 else -math.inf
    z1 = (math.log(high) - m) / s
    if low <= 0.0:
        out[0] = out[2] = -math.inf
        out[1] = out[3] = math.inf
        return
    g0 = -(v + 1.0) * z0 / (s * (v + z0 * z0))
    g1 = -(v + 1.0) * z1 / (s * (v + z1 * z1))
    g_low = min(g0, g1)
    g_high = max(g0, g1)
    h0 = -(v + 1.0) * (v - z0 * z0) / (s * s * (v + z0 * z0) ** 2)
    h1 = -(v + 1.0) * (v - z1 * z1) / (s * s * (v + z1 * z1) ** 2)
    h_low = min(h0, h1)
    h_high = max(h0, h1)
    for sign in (-1.0, 1.0):
        if z0 < sign * math.sqrt(v) < z1:
            g_low = min(g_low, -sign * (v + 1.0) / (2.0 * s * math.sqrt(v)))
            g_high = max(g_high, -sign * (v + 1.0) / (2.0 * s * math.sqrt(v)))
        if z0 < sign * math.sqrt(3.0 * v) < z1:
            h_high = max(h_high, (v + 1.0) / (8.0 * s * s * v))
    if z0 < 0.0 < z1:
        h_low = min(h_low, -(v + 1.0) / (s * s * v))
    at_low = log_leaf(LOG_STUDENT, m, s, v, p[3], low)
    at_high = log_leaf(LOG_STUDENT, m, s, v, p[3], high)
    least = min(at_low, at_high)
    most = max(at_low, at_high)
    for sign in (-1.0, 1.0):
        x = math.exp(m + s * log_student_turn(s, v, sign))
        if low < x < high:
            at = log_leaf(LOG_STUDENT, m, s, v, p[3], x)
            least = min(least, at)
            most = max(most, at)
    f_low = math.exp(least - shift)
    f_high = math.exp(most - shift)
    a, b = times(f_low / high, f_high / low, g_low - 1.0, g_high - 1.0)
    out[0] = a
    out[1] = b
    # (g - 1) (g - 2) is a parabola with its vertex at 3/2
    ends = ((g_low - 1.0) * (g_low - 2.0), (g_high - 1.0) * (g_high - 2.0))
    q_low = -0.25 if g_low < 1.5 < g_high else min(ends[0], ends[1])
    a, b = times(f_low / (high * high), f_high / (low * low), q_low + h_low, max(ends[0], ends[1]) + h_high)
    out[2] = a
    out[3] = b


@inner_kernel
def times(a_low, a_high, b_low, b_high):
    """Product of two intervals."""
    if (a_low == 0.0 and a_high == 0.0) or (b_low == 0.0 and b_high == 0.0):
        return 0.0, 0.0
    if a_low >= 0.0 and b_low >= 0.0:
        return a_low * b_low, a_high * b_high
    p = a_low * b_low
    q = a_low * b_high
    r = a_high * b_low
    s = a_high * b_high
    return min(min(p, q), min(r, s)), max(max(p, q), max(r, s))
