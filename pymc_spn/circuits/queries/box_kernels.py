"""Bounds of a circuit over boxes: largest values in logs, and ranges of value, gradient and Hessian.

A *tape* lists the nodes of a circuit, children before parents: sums, products and leaves, which are univariate
densities or masses with closed-form ranges over an interval. A box has one closed interval for each column; a column
of counts or levels has integer ends. Every function bounds from above whatever the circuit: the value of a sum is
positive and linear in its children, and a product's children share no column.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel, inner_kernel, kernel

SUM, PRODUCT, CONSTANT, NORMAL, STUDENT, EXPONENTIAL, LOMAX, LOGNORMAL, POISSON, NEGATIVE_BINOMIAL, LEVELS = range(11)
LOG_STUDENT, BETA_GEOMETRIC = 11, 12
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
        log p, log (1 - p), mode); BETA_GEOMETRIC (alpha, beta, log constant, .); LEVELS (first entry in `level`,
        number of levels, ., .).
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
    if x < 0.0:
        return NOTHING
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
def leaf_mode(tape, i):
    """Where leaf i is largest; not for LEVELS."""
    kind = tape.kind[i]
    p = tape.parameter[i]
    if kind == NORMAL or kind == STUDENT:
        return p[0]
    if kind == LOGNORMAL:
        return math.exp(p[0] - p[1] * p[1])
    if kind == LOG_STUDENT:
        return math.exp(p[0] + p[1] * log_student_turn(p[1], p[2], 1.0))
    if kind == POISSON:
        return p[2]
    return p[3] if kind == NEGATIVE_BINOMIAL else 0.0


@kernel
def log_student_turn(scale, freedom, sign):
    """z of the local maximum (sign 1) or minimum (-1) of a log-Student density, u = centre + scale z; else 0."""
    root = (freedom + 1.0) ** 2 - 4.0 * scale * scale * freedom
    return (sign * math.sqrt(root) - (freedom + 1.0)) / (2.0 * scale) if root > 0.0 else 0.0


@bare_kernel
def leaf_log_range(tape, i, low, high):
    """Smallest and largest log value of leaf i over [low, high].

    Each leaf is unimodal but LEVELS and LOG_STUDENT, which falls from infinity at 0 before it rises to its mode.
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
    if low < 0.0 and kind != NORMAL and kind != STUDENT and kind != CONSTANT:
        return NOTHING, NOTHING
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
    if kind == LOMAX:
        s = 1.0 / (b + x)
        return -(a + 1.0) * s, (a + 1.0) * (a + 2.0) * s * s
    if x <= 0.0:
        return 0.0, 0.0
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
    if low < 0.0 and kind != NORMAL and kind != STUDENT:
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


@kernel
def log_bounds(tape, low, high):
    """Upper bound (B,) of the log value over each box (B, D); the log value itself where the box is a point."""
    out = np.empty(low.shape[0])
    value = np.empty(tape.kind.size)
    for b in range(low.shape[0]):
        for i in range(tape.kind.size):
            first = tape.pointer[i]
            last = tape.pointer[i + 1]
            if tape.kind[i] == SUM:
                top = NOTHING
                for e in range(first, last):
                    top = max(top, value[tape.child[e]] + tape.log_weight[e])
                total = 0.0
                for e in range(first, last):
                    gap = value[tape.child[e]] + tape.log_weight[e] - top
                    if gap > -40.0:
                        total += math.exp(gap)
                    else:
                        total += 5e-18  # more than exp(-40): still a bound
                value[i] = top + math.log(total) if top > 0.5 * NOTHING else NOTHING
            elif tape.kind[i] == PRODUCT:
                total = 0.0
                for e in range(first, last):
                    total += value[tape.child[e]]
                value[i] = max(total, NOTHING)
            else:
                d = tape.column[i]
                value[i] = leaf_log_range(tape, i, low[b, d], high[b, d])[1] if d >= 0 else tape.parameter[i, 0]
        out[b] = value[tape.kind.size - 1]
    return out


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


@inner_kernel
def multiply(low, high, other_low, other_high, k, new_low, new_high):
    """Value, gradient and Hessian ranges (1 + k + k(k+1)/2,) of a product of two nodes without common columns."""
    new_low[0], new_high[0] = times(low[0], high[0], other_low[0], other_high[0])
    for i in range(k):
        p, q = times(low[1 + i], high[1 + i], other_low[0], other_high[0])
        r, s = times(low[0], high[0], other_low[1 + i], other_high[1 + i])
        new_low[1 + i] = p + r
        new_high[1 + i] = q + s
    at = 1 + k
    for i in range(k):
        for j in range(i, k):
            p, q = times(low[at], high[at], other_low[0], other_high[0])
            r, s = times(low[0], high[0], other_low[at], other_high[at])
            t, u = times(low[1 + i], high[1 + i], other_low[1 + j], other_high[1 + j])
            v, w = times(low[1 + j], high[1 + j], other_low[1 + i], other_high[1 + i])
            new_low[at] = p + r + (t + v if i != j else 0.0)
            new_high[at] = q + s + (u + w if i != j else 0.0)
            at += 1
    for a in range(at):
        low[a] = new_low[a]
        high[a] = new_high[a]


@kernel
def taylor_ranges(tape, low, high, position, shift):
    """Ranges over boxes of the circuit's value, gradient and Hessian.

    Parameters
    ----------
    tape : Tape
    low, high : (B, D) float64
    position : (D,) int64
        Number 0 .. k - 1 of each column that is differentiated, -1 for the others.
    shift : (B, D) float64
        Leaves of column d are scaled by exp(-shift), so that values neither overflow nor vanish.

    Returns
    -------
    lower, upper : (B, 1 + k + k(k+1)/2) float64
        Value, gradient, upper triangle of the Hessian by rows.
    """
    k = 0
    for d in range(position.size):
        k = max(k, position[d] + 1)
    m = 1 + k + k * (k + 1) // 2
    n = tape.kind.size
    lower = np.empty((low.shape[0], m))
    upper = np.empty((low.shape[0], m))
    node_low = np.zeros((n, m))
    node_high = np.zeros((n, m))
    new_low = np.zeros(m)
    new_high = np.zeros(m)
    ranges = np.zeros(4)
    for b in range(low.shape[0]):
        for i in range(n):
            own_low = node_low[i]
            own_high = node_high[i]
            own_low[:] = 0.0
            own_high[:] = 0.0
            first = tape.pointer[i]
            last = tape.pointer[i + 1]
            if tape.kind[i] == SUM:
                for e in range(first, last):
                    w = math.exp(tape.log_weight[e])
                    c = tape.child[e]
                    for a in range(m):
                        own_low[a] += w * node_low[c, a]
                        own_high[a] += w * node_high[c, a]
            elif tape.kind[i] == PRODUCT:
                own_low[:] = node_low[tape.child[first]]
                own_high[:] = node_high[tape.child[first]]
                for e in range(first + 1, last):
                    c = tape.child[e]
                    multiply(own_low, own_high, node_low[c], node_high[c], k, new_low, new_high)
            else:
                d = tape.column[i]
                if d < 0:
                    own_low[0] = own_high[0] = math.exp(tape.parameter[i, 0])
                    continue
                least, most = leaf_log_range(tape, i, low[b, d], high[b, d])
                own_low[0] = math.exp(least - shift[b, d])
                own_high[0] = math.exp(most - shift[b, d])
                j = position[d]
                if j >= 0:
                    derivative_ranges(tape.kind[i], tape.parameter[i], low[b, d], high[b, d], shift[b, d], ranges)
                    own_low[1 + j] = ranges[0]
                    own_high[1 + j] = ranges[1]
                    at = 1 + k + j * k - j * (j - 1) // 2
                    own_low[at] = ranges[2]
                    own_high[at] = ranges[3]
        lower[b] = node_low[n - 1]
        upper[b] = node_high[n - 1]
    return lower, upper


@kernel
def leaf_shifts(tape, low, high):
    """Largest log value (B, D) of each column's leaves over each box."""
    out = np.full(low.shape, NOTHING)
    for b in range(low.shape[0]):
        for i in range(tape.kind.size):
            d = tape.column[i]
            if d >= 0:
                out[b, d] = max(out[b, d], leaf_log_range(tape, i, low[b, d], high[b, d])[1])
    return np.maximum(out, -1e4)
