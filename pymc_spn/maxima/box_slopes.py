"""Ranges of the first two derivatives of leaves over intervals, in closed form, as bounds over boxes need them."""

import math

import numpy as np

from pymc_spn.leaves.family_codes import (
    BETA,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    LAPLACE,
    LOG_NORMAL,
    LOG_STUDENT_T,
    LOMAX,
    STUDENT_T,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.maxima.box_leaves import is_one_sided, log_leaf, log_student_turn
from pymc_spn.numerics.kernel_options import inner_kernel, inner_kernel_by_constants, kernel


@inner_kernel_by_constants
def slopes(kind, a, b, c, x):
    """First and second derivative of a continuous leaf over its value, at x."""
    if kind == GAUSSIAN:
        t = (x - a) / b
        return -t / b, (t * t - 1.0) / (b * b)
    if kind == STUDENT_T:
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
    if kind == BETA:
        g = a / x - b / (1.0 - x)
        return g, g * g - a / (x * x) - b / ((1.0 - x) * (1.0 - x))
    if kind == WEIBULL:
        g = (a - 1.0 - a * (x / b) ** a) / x
        return g, g * g - (a - 1.0) * (1.0 + a * (x / b) ** a) / (x * x)
    if kind == GAMMA:
        g = a / x - b
        return g, g * g - a / (x * x)
    if kind == LOG_STUDENT_T:
        z = (math.log(x) - a) / b
        g = -(c + 1.0) * z / (b * (c + z * z))
        h = -(c + 1.0) * (c - z * z) / (b * b * (c + z * z) * (c + z * z))
        return (g - 1.0) / x, ((g - 1.0) * (g - 2.0) + h) / (x * x)
    y = 1.0 + (math.log(x) - a) / (b * b)
    return -y / x, (y * y + y - 1.0 / (b * b)) / (x * x)


@inner_kernel_by_constants
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
    if kind == TRIANGULAR:
        triangular_ranges(p, low, high, shift, out)
        return
    if kind == BETA:
        beta_ranges(p, low, high, shift, out)
        return
    if kind == WEIBULL:
        weibull_ranges(p, low, high, shift, out)
        return
    out[0] = out[2] = math.inf
    out[1] = out[3] = -math.inf
    widen(kind, p, low, low, high, shift, out)
    widen(kind, p, high, low, high, shift, out)
    if low == high:
        return
    if kind == GAUSSIAN:
        for c in (-math.sqrt(3.0), -1.0, 0.0, 1.0, math.sqrt(3.0)):
            widen(kind, p, p[0] + c * p[1], low, high, shift, out)
    elif kind == STUDENT_T:
        a = math.sqrt(p[2] / (p[2] + 2.0))
        for c in (-math.sqrt(3.0), -1.0, 0.0, 1.0, math.sqrt(3.0)):
            widen(kind, p, p[0] + c * a * p[1], low, high, shift, out)
    elif kind == GAMMA:
        if low <= 0.0 and 0.0 < p[0] < 2.0:
            out[0] = out[2] = -math.inf  # a derivative has a pole at 0
            out[1] = out[3] = math.inf
            return
        gamma_ranges(p, low, high, shift, out)
    elif kind == LOG_STUDENT_T:
        log_student_ranges(p, low, high, shift, out)
    elif kind == LOG_NORMAL:
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
def beta_ranges(p, low, high, shift, out):
    """`derivative_ranges` of a beta leaf f = c x^k (1 - x)^l: the first in closed form, the second by its factors.

    With s = k + l the second derivative is c x^(k - 2) (1 - x)^(l - 2) times the parabola s (s - 1) x^2 - 2 k (s - 1) x
    + k (k - 1); the factor before it has at most one turn, at (k - 2) / (s - 4).
    """
    k = p[0]
    m = p[1]
    if high <= 0.0 or low >= 1.0:
        return
    if (low <= 0.0 and k < 2.0) or (high >= 1.0 and m < 2.0):
        out[0] = out[2] = -math.inf  # a derivative has a pole or a jump at an end
        out[1] = out[3] = math.inf
        return
    s = k + m
    start = max(low, 0.0)
    stop = min(high, 1.0)
    parabola_start = (s * (s - 1.0) * start - 2.0 * k * (s - 1.0)) * start + k * (k - 1.0)
    parabola_stop = (s * (s - 1.0) * stop - 2.0 * k * (s - 1.0)) * stop + k * (k - 1.0)
    parabola_low = min(parabola_start, parabola_stop)
    parabola_high = max(parabola_start, parabola_stop)
    turn = k / s
    if start < turn < stop:
        at = k * (k - 1.0) - k * k * (s - 1.0) / s
        parabola_low = min(parabola_low, at)
        parabola_high = max(parabola_high, at)
    factor_low = min(beta_factor(p, start, shift), beta_factor(p, stop, shift))
    factor_high = max(beta_factor(p, start, shift), beta_factor(p, stop, shift))
    turn = (k - 2.0) / (s - 4.0) if s != 4.0 else -1.0
    if start < turn < stop:
        factor_low = min(factor_low, beta_factor(p, turn, shift))
        factor_high = max(factor_high, beta_factor(p, turn, shift))
    out[2], out[3] = times(factor_low, factor_high, parabola_low, parabola_high)
    is_outside = low <= 0.0 or high >= 1.0  # where the derivatives are 0, as at these ends
    out[0] = 0.0 if is_outside else math.inf
    out[1] = 0.0 if is_outside else -math.inf
    if is_outside:
        out[2] = min(out[2], 0.0)
        out[3] = max(out[3], 0.0)
    for x in (start, stop):
        if 0.0 < x < 1.0:
            widen_first(BETA, p, x, start, stop, shift, out)
    if low == high:
        return
    root = k * k * (s - 1.0) * (s - 1.0) - s * (s - 1.0) * k * (k - 1.0)
    if s != 1.0 and root >= 0.0:
        for sign in (-1.0, 1.0):
            x = (k * (s - 1.0) + sign * math.sqrt(root)) / (s * (s - 1.0))
            if 0.0 < x < 1.0:
                widen_first(BETA, p, x, start, stop, shift, out)


@inner_kernel
def weibull_ranges(p, low, high, shift, out):
    """`derivative_ranges` of a Weibull leaf f over low >= 0: the first in closed form, the second by its factors.

    With k the shape and s = (x / scale)^k the first derivative is f (k - 1 - k s) / x, the second f / x^2, which turns
    at k s = k - 3, times the parabola k^2 s^2 - 3 k (k - 1) s + (k - 1) (k - 2).
    """
    k = p[0]
    if low <= 0.0 and k < 3.0:
        out[0] = out[2] = -math.inf  # a derivative has a pole or a jump at 0
        out[1] = out[3] = math.inf
        return
    s_low = min((low / p[1]) ** k, 1e100)  # far beyond where f is 0
    s_high = min((high / p[1]) ** k, 1e100)
    at_low = k * s_low * (k * s_low - 3.0 * (k - 1.0)) + (k - 1.0) * (k - 2.0)
    at_high = k * s_high * (k * s_high - 3.0 * (k - 1.0)) + (k - 1.0) * (k - 2.0)
    parabola_low = min(at_low, at_high)
    parabola_high = max(at_low, at_high)
    if s_low < 1.5 * (k - 1.0) / k < s_high:
        parabola_low = (k - 1.0) * (k - 2.0) - 2.25 * (k - 1.0) * (k - 1.0)
    factor_low = min(weibull_factor(p, low, shift), weibull_factor(p, high, shift))
    factor_high = max(weibull_factor(p, low, shift), weibull_factor(p, high, shift))
    if s_low < 1.0 - 3.0 / k < s_high:
        factor_high = weibull_factor(p, p[1] * (1.0 - 3.0 / k) ** (1.0 / k), shift)
    out[2], out[3] = times(factor_low, factor_high, parabola_low, parabola_high)
    out[0] = 0.0 if low <= 0.0 else math.inf
    out[1] = 0.0 if low <= 0.0 else -math.inf
    if low > 0.0:
        widen_first(WEIBULL, p, low, low, high, shift, out)
    if high > 0.0:
        widen_first(WEIBULL, p, high, low, high, shift, out)
    if low == high:
        return
    for sign in (-1.0, 1.0):
        s = (3.0 * (k - 1.0) + sign * math.sqrt((k - 1.0) * (5.0 * k - 1.0))) / (2.0 * k)
        if s > 0.0:
            widen_first(WEIBULL, p, p[1] * s ** (1.0 / k), low, high, shift, out)


@inner_kernel
def weibull_factor(p, x, shift):
    """f / x^2 for `weibull_ranges`; at 0 only where its power is not negative."""
    if x <= 0.0:
        return math.exp(p[2] - 3.0 * math.log(p[1]) - shift) if p[0] == 3.0 else 0.0
    return math.exp(log_leaf(WEIBULL, p[0], p[1], p[2], p[3], x) - 2.0 * math.log(x) - shift)


@inner_kernel_by_constants
def widen_first(kind, p, x, low, high, shift, out):
    """`widen` the range of the first derivative alone."""
    if low <= x <= high:
        v = math.exp(log_leaf(kind, p[0], p[1], p[2], p[3], x) - shift)
        first = v * slopes(kind, p[0], p[1], p[2], x)[0] if v > 0.0 else 0.0  # the slope may be infinite there
        out[0] = min(out[0], first)
        out[1] = max(out[1], first)


@inner_kernel
def beta_factor(p, x, shift):
    """c x^(k - 2) (1 - x)^(l - 2) for `beta_ranges`; at an end only where its power is not negative."""
    if 0.0 < x < 1.0:
        return math.exp(log_leaf(BETA, p[0], p[1], p[2], p[3], x) - 2.0 * (math.log(x) + math.log1p(-x)) - shift)
    if p[0 if x <= 0.0 else 1] != 2.0:
        return 0.0
    s = p[0] + p[1]
    return math.exp(p[2] - p[0] * math.log(p[0] / s) - p[1] * math.log(p[1] / s) - shift)


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
def triangular_ranges(p, low, high, shift, out):
    """`derivative_ranges` of a triangular leaf: slopes of the pieces that the interval meets, infinite at jumps.

    At kinks inside the first derivative rises (the ends) or falls (the mode) at once; at an end of the interval only
    what is inside counts.
    """
    lower = p[0]
    mode = p[1]
    upper = p[2]
    top = math.exp(p[3] - shift)
    if low == high:
        slope = top / (mode - lower) if lower < low < mode else 0.0
        slope = -top / (upper - mode) if mode < low < upper else slope
        out[0] = out[1] = slope
        return
    if (lower == mode and low < lower <= high) or (upper == mode and low <= upper < high):
        out[0] = out[2] = -math.inf
        out[1] = out[3] = math.inf
        return
    is_outside = low < lower or upper < high
    rises = low < mode and lower < high and lower < mode
    falls = low < upper and mode < high and mode < upper
    out[0] = -top / (upper - mode) if falls else 0.0 if is_outside else top / (mode - lower)
    out[1] = top / (mode - lower) if rises else 0.0 if is_outside else -top / (upper - mode)
    out[2] = -math.inf if low < mode < high else 0.0
    out[3] = math.inf if low < lower < high or low < upper < high else 0.0


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
    at_low = log_leaf(LOG_STUDENT_T, m, s, v, p[3], low)
    at_high = log_leaf(LOG_STUDENT_T, m, s, v, p[3], high)
    least = min(at_low, at_high)
    most = max(at_low, at_high)
    for sign in (-1.0, 1.0):
        x = math.exp(m + s * log_student_turn(s, v, sign))
        if low < x < high:
            at = log_leaf(LOG_STUDENT_T, m, s, v, p[3], x)
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
