"""Leaves as the evaluation sees them: a few forms in an input that is read from a column once.

Log density of a leaf = form(u) + base(x). The input u is the value, its log or its log odds; the base holds what all
leaves of a reading share (-log x!, the Jacobian of the log) and is hugely negative where the value is impossible.
"""

import math

import numpy as np

from pymc_spn.leaves.family_codes import (
    BERNOULLI,
    BETA,
    BETA_BINOMIAL,
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    GEOMETRIC,
    HYPERGEOMETRIC,
    LAPLACE,
    LOG_NORMAL,
    LOG_STUDENT_T,
    LOMAX,
    NEGATIVE_BINOMIAL,
    POISSON,
    SCIPY_CONTINUOUS,
    SCIPY_DISCRETE,
    STUDENT_T,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.numerics.elementary import digamma, fast_exp, fast_log, fast_log1p, half_step_log_gamma
from pymc_spn.numerics.gamma_ratios import log_rising, stirling_rest
from pymc_spn.numerics.kernel_options import inner_kernel

IMPOSSIBLE = -1e300
LARGE_SHAPE = 1e6  # of gamma and beta leaves, whose densities are deviances from there on
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

# forms
QUADRATIC, LINEAR, SWITCH, TABLE, STUDENT, POWER, RISING, RISING_RATIO, ABSOLUTE, BOX, EXPONENT, FALLING = range(12)
MATCHING, URN, TENT, SIGMOIDS, EXTREME = 12, 13, 14, 15, 16
N_FORMS = 17
# readings: input, base
REAL, LOGARITHM, NOT_NEGATIVE, FACTORIAL, COUNT, LEVEL, LOG_ODDS = range(7)

FORM = np.array(
    [
        QUADRATIC, QUADRATIC, LINEAR, LINEAR, LINEAR, SWITCH, TABLE, STUDENT, STUDENT, POWER, RISING, RISING_RATIO,
        ABSOLUTE, BOX, EXPONENT, FALLING, MATCHING, URN, TENT, SIGMOIDS, EXTREME, LINEAR, LINEAR,
    ]
)  # fmt: skip
READING = np.array(
    [
        REAL, LOGARITHM, NOT_NEGATIVE, FACTORIAL, COUNT, LEVEL, LEVEL, REAL, LOGARITHM, NOT_NEGATIVE, FACTORIAL, COUNT,
        REAL, REAL, LOGARITHM, FACTORIAL, FACTORIAL, FACTORIAL, REAL, LOG_ODDS, LOGARITHM, REAL, REAL,
    ]
)  # fmt: skip


@inner_kernel
def read_values(values, first, input_column, input_reading, u, base, present):
    """Inputs of a block of rows.

    Parameters
    ----------
    values : (N, D) float64
        NaN where missing.
    first : int
        Row of the table that is the first of the block; rows beyond the table read as missing.
    input_column, input_reading : (I,) int64
    u, base, present : (I, B) float64
        Out. `present` is 0 where the cell is missing, and u and base are then 0.
    """
    n = min(values.shape[0] - first, u.shape[1])
    for k in range(input_column.size):
        d = input_column[k]
        reading = input_reading[k]
        for i in range(n, u.shape[1]):
            u[k, i] = 0.0
            base[k, i] = 0.0
            present[k, i] = 0.0
        for i in range(n):
            x = values[first + i, d]
            seen = 0.0 if math.isnan(x) else 1.0
            x = x if seen == 1.0 else 0.0
            y, b = x, 0.0
            if (reading != REAL or abs(x) == math.inf) and seen == 1.0:
                y, b = read_value(x, reading)
            u[k, i] = y
            base[k, i] = b
            present[k, i] = seen


@inner_kernel
def read_value(x, reading):
    """(u, base) of one value; an impossible one gets a harmless u."""
    if reading == REAL:
        return (x, 0.0) if abs(x) < math.inf else (0.0, IMPOSSIBLE)
    if reading == NOT_NEGATIVE:
        return (x, 0.0) if x >= 0.0 else (0.0, IMPOSSIBLE)
    if reading == LOGARITHM:
        if x > 0.0 and x < math.inf:
            y = math.log(x)
            return y, -y
        return 0.0, IMPOSSIBLE
    if reading == LOG_ODDS:
        if x > 0.0 and x < 1.0:
            y, z = math.log(x), math.log1p(-x)
            return y - z, -(y + z)
        return 0.0, IMPOSSIBLE
    if x < 0.0 or x != np.floor(x) or x == math.inf:
        return 0.0, IMPOSSIBLE
    if reading == FACTORIAL:
        return x, -math.lgamma(x + 1.0)
    return x, 0.0


@inner_kernel
def leaf_coefficients(family, theta, width, out):
    """Coefficients of one leaf from its parameters: (lead, a, b, c) with a meaning for each form."""
    if family == GAUSSIAN or family == LOG_NORMAL:
        out[0] = -fast_log(theta[1]) - HALF_LOG_2PI
        out[1] = theta[0]
        out[2] = math.sqrt(0.5) / theta[1]
    elif family == EXPONENTIAL:
        out[0] = fast_log(theta[0])
        out[1] = -theta[0]
    elif family == POISSON:
        out[0] = -theta[0]
        out[1] = fast_log(theta[0])
    elif family == GEOMETRIC:
        out[0] = fast_log(theta[0])
        out[1] = math.log1p(-theta[0])
    elif family == BERNOULLI:
        out[0] = log_or_impossible(1.0 - theta[0])
        out[1] = log_or_impossible(theta[0])
    elif family == CATEGORICAL:
        out[0] = float(width)
    elif family == STUDENT_T or family == LOG_STUDENT_T:
        dof = theta[2]
        out[0] = half_step_log_gamma(0.5 * dof) - 0.5 * math.log(math.pi * dof) - math.log(theta[1])
        out[1] = theta[0]
        out[2] = 1.0 / (theta[1] * math.sqrt(dof))
        out[3] = 0.5 * (dof + 1.0)
    elif family == LOMAX:
        out[0] = math.log(theta[0] / theta[1])
        out[1] = 0.0
        out[2] = 1.0 / theta[1]
        out[3] = theta[0] + 1.0
    elif family == NEGATIVE_BINOMIAL:
        out[0] = -theta[0] * math.log1p(1.0 / theta[1]) - math.lgamma(theta[0])
        out[1] = -math.log1p(theta[1])
        out[2] = theta[0]
    elif family == LAPLACE:
        out[0] = -math.log(2.0 * theta[1])
        out[1] = theta[0]
        out[2] = 1.0 / theta[1]
    elif family == UNIFORM:
        out[0] = -math.log(theta[1] - theta[0])
        out[1] = theta[0]
        out[2] = theta[1]
    elif family == GAMMA:
        out[1] = theta[0]
        out[2] = theta[1]
        if theta[0] > LARGE_SHAPE:
            out[0] = 0.5 * math.log(theta[0]) - HALF_LOG_2PI - stirling_rest(theta[0])
            out[2] = math.log(theta[0] / theta[1])  # where the density of the log is largest
        else:
            out[0] = theta[0] * math.log(theta[1]) - math.lgamma(theta[0])
    elif family == BINOMIAL:
        out[0] = math.lgamma(theta[0] + 1.0) + theta[0] * math.log1p(-theta[1])
        out[1] = math.log(theta[1]) - math.log1p(-theta[1])
        out[2] = theta[0]
    elif family == HYPERGEOMETRIC:
        successes, draws = theta[1], theta[2]
        failures, others = theta[0] - successes, theta[0] - draws
        both = math.lgamma(successes + 1.0) + math.lgamma(failures + 1.0)
        out[0] = both + math.lgamma(draws + 1.0) + math.lgamma(others + 1.0) - math.lgamma(theta[0] + 1.0)
        out[1] = successes
        out[2] = draws
        out[3] = failures - draws
    elif family == BETA_BINOMIAL:
        both = theta[1] + theta[2]
        norm = math.lgamma(both) - math.lgamma(both + theta[0]) - math.lgamma(theta[1]) - math.lgamma(theta[2])
        out[0] = math.lgamma(theta[0] + 1.0) + norm
        out[1] = theta[1]
        out[2] = theta[2] + theta[0]
        out[3] = theta[0]
    elif family == TRIANGULAR:
        out[0] = math.log(2.0 / (theta[2] - theta[0]))
        out[1] = theta[0]
        out[2] = theta[1]
        out[3] = theta[2]
    elif family == BETA:
        both = theta[0] + theta[1]
        out[1] = theta[0]
        out[2] = theta[1]
        if both > LARGE_SHAPE:
            rests = stirling_rest(both) - stirling_rest(theta[0]) - stirling_rest(theta[1])
            out[0] = 0.5 * math.log(theta[0] * (theta[1] / both)) - HALF_LOG_2PI + rests
            out[3] = sigmoids(theta[0], theta[1], math.log(theta[0]) - math.log(theta[1]))
        else:
            out[0] = math.lgamma(both) - math.lgamma(theta[0]) - math.lgamma(theta[1])
    elif family == WEIBULL:
        out[0] = math.log(theta[0])
        out[1] = math.log(theta[1])
        out[2] = theta[0]
    elif family == SCIPY_CONTINUOUS or family == SCIPY_DISCRETE:
        out[1] = 1.0  # the input is the log density
    else:
        out[0] = math.log(theta[0]) + log_rising(theta[1], theta[0])
        out[1] = theta[1]
        out[2] = theta[0] + 1.0


@inner_kernel
def log_or_impossible(p):
    return math.log(p) if p > 0.0 else IMPOSSIBLE


@inner_kernel
def sigmoids(a, b, u):
    """a log x + b log(1 - x), where u are the log odds of x."""
    nearer = a * u if u < 0.0 else -b * u
    return nearer - (a + b) * fast_log1p(fast_exp(-abs(u)))


@inner_kernel
def beyond_linear(t):
    """exp(t) - 1 - t."""
    return math.expm1(t) - t if t < 690.0 else -IMPOSSIBLE


@inner_kernel
def form_at(form, lead, a, b, c, table, u):
    """Form of one leaf at one input; ``table`` holds the log probabilities of a leaf on levels."""
    if form == QUADRATIC:
        t = (u - a) * b
        return lead - t * t
    if form == LINEAR:
        return lead + a * u
    if form == SWITCH:
        return lead if u == 0.0 else a if u == 1.0 else IMPOSSIBLE
    if form == TABLE:
        return table[int(u)] if u < lead else IMPOSSIBLE
    if form == STUDENT:
        t = (u - a) * b
        return lead - c * fast_log1p(t * t) if abs(t) < 1e150 else IMPOSSIBLE
    if form == POWER:
        t = u * b
        return lead - c * fast_log1p(t) if t < 1e300 else IMPOSSIBLE
    if form == RISING:
        return lead + a * u + math.lgamma(b + u)
    if form == ABSOLUTE:
        return lead - abs(u - a) * b
    if form == BOX:
        return lead if a <= u and u <= b else IMPOSSIBLE
    if form == EXPONENT:
        return lead + a * u - b * fast_exp(u) if a <= LARGE_SHAPE else lead - a * beyond_linear(u - b)
    if form == FALLING:
        return lead + a * u - math.lgamma(b - u + 1.0) if u <= b else IMPOSSIBLE
    if form == MATCHING:
        if u > a or u > b or u < -c:
            return IMPOSSIBLE
        return lead - math.lgamma(a - u + 1.0) - math.lgamma(b - u + 1.0) - math.lgamma(c + u + 1.0)
    if form == URN:
        return lead + math.lgamma(a + u) + math.lgamma(b - u) - math.lgamma(c - u + 1.0) if u <= c else IMPOSSIBLE
    if form == TENT:
        share = 1.0 if u == b else (u - a) / (b - a) if u < b else (c - u) / (c - b)
        if share <= 0.0:
            return IMPOSSIBLE
        return lead + (fast_log(share) if share > 1e-300 else math.log(share))
    if form == EXTREME:
        t = (u - a) * b
        return lead + t - fast_exp(t) if t < 690.0 else IMPOSSIBLE  # the density is 0
    if form == SIGMOIDS:
        if a + b > LARGE_SHAPE:
            t = u - math.log(a / b)  # from where the density of the log odds is largest
            if abs(t) < 0.5:
                return lead + a * t - (a + b) * math.log1p(a / (a + b) * math.expm1(t))
        return lead + (sigmoids(a, b, u) - c)
    return lead - log_rising(a + u, b)


@inner_kernel
def add_parameter_gradient(family, theta, width, u, x, flow, out):
    """Add flow x derivative of the leaf's log density in its parameters; x is the value itself."""
    if family == GAUSSIAN or family == LOG_NORMAL:
        z = (u - theta[0]) / theta[1]
        out[0] += flow * z / theta[1]
        out[1] += flow * (z * z - 1.0) / theta[1]
    elif family == EXPONENTIAL:
        out[0] += flow * (1.0 / theta[0] - u)
    elif family == POISSON:
        out[0] += flow * (u / theta[0] - 1.0)
    elif family == GEOMETRIC:
        out[0] += flow * (1.0 / theta[0] - u / (1.0 - theta[0]))
    elif family == BERNOULLI:
        out[0] += flow / theta[0] if u == 1.0 else -flow / (1.0 - theta[0])
    elif family == CATEGORICAL:
        if u < width:
            out[int(u)] += flow / theta[int(u)]
    elif family == STUDENT_T or family == LOG_STUDENT_T:
        scale, dof = theta[1], theta[2]
        z = (u - theta[0]) / scale
        w = (dof + 1.0) / (dof + z * z)
        out[0] += flow * w * z / scale
        out[1] += flow * (w * z * z - 1.0) / scale
        part = digamma(0.5 * dof + 0.5) - digamma(0.5 * dof) - 1.0 / dof
        out[2] += flow * 0.5 * (part - math.log1p(z * z / dof) + w * z * z / dof)
    elif family == LOMAX:
        alpha, beta = theta[0], theta[1]
        out[0] += flow * (1.0 / alpha - math.log1p(u / beta))
        out[1] += flow * ((alpha + 1.0) * u / (beta * (beta + u)) - 1.0 / beta)
    elif family == NEGATIVE_BINOMIAL:
        alpha, beta = theta[0], theta[1]
        out[0] += flow * (digamma(alpha + u) - digamma(alpha) - math.log1p(1.0 / beta))
        out[1] += flow * (alpha / (beta * (beta + 1.0)) - u / (beta + 1.0))
    elif family == LAPLACE:
        away = (u - theta[0]) / theta[1]
        out[0] += flow * np.sign(away) / theta[1]
        out[1] += flow * (abs(away) - 1.0) / theta[1]
    elif family == UNIFORM:
        inside = 1.0 if theta[0] <= u and u <= theta[1] else 0.0
        out[0] += flow * inside / (theta[1] - theta[0])
        out[1] -= flow * inside / (theta[1] - theta[0])
    elif family == GAMMA:
        out[0] += flow * (math.log(theta[1]) - digamma(theta[0]) + u)
        out[1] += flow * (theta[0] / theta[1] - x)
    elif family == BINOMIAL:
        if u <= theta[0]:  # the number of trials as if it were continuous
            out[0] += flow * (digamma(theta[0] + 1.0) - digamma(theta[0] - u + 1.0) + math.log1p(-theta[1]))
            out[1] += flow * (u / theta[1] - (theta[0] - u) / (1.0 - theta[1]))
    elif family == HYPERGEOMETRIC:
        population, successes, draws = theta[0], theta[1], theta[2]
        rest = population - successes - draws + u  # failures that are not drawn
        if u <= successes and u <= draws and rest >= 0.0:  # all three as if they were continuous
            failures = digamma(population - successes + 1.0)
            others = digamma(population - draws + 1.0)
            left = digamma(rest + 1.0)
            out[0] += flow * (failures + others - left - digamma(population + 1.0))
            out[1] += flow * (digamma(successes + 1.0) - failures - digamma(successes - u + 1.0) + left)
            out[2] += flow * (digamma(draws + 1.0) - others - digamma(draws - u + 1.0) + left)
    elif family == BETA_BINOMIAL:
        if u <= theta[0]:  # the number of trials as if it were continuous
            n, alpha, beta = theta[0], theta[1], theta[2]
            total, after = digamma(alpha + beta) - digamma(alpha + beta + n), digamma(beta + n - u)
            out[0] += flow * (digamma(n + 1.0) - digamma(n - u + 1.0) + after - digamma(alpha + beta + n))
            out[1] += flow * (total + digamma(alpha + u) - digamma(alpha))
            out[2] += flow * (total + after - digamma(beta))
    elif family == TRIANGULAR:
        lower, mode, upper = theta[0], theta[1], theta[2]
        inside = flow if lower <= u and u <= upper else 0.0
        out[0] += inside / (upper - lower)
        out[2] -= inside / (upper - lower)
        if inside != 0.0 and lower < u < mode:  # at the mode the derivative in it jumps, from one sign to the other
            out[0] -= flow * (mode - u) / ((u - lower) * (mode - lower))
            out[1] -= flow / (mode - lower)
        elif inside != 0.0 and mode < u < upper:
            out[1] += flow / (upper - mode)
            out[2] += flow * (u - mode) / ((upper - u) * (upper - mode))
    elif family == BETA:
        small = -math.log1p(math.exp(-abs(u)))  # log of the larger of x and 1 - x
        total = digamma(theta[0] + theta[1])
        out[0] += flow * (min(u, 0.0) + small - digamma(theta[0]) + total)
        out[1] += flow * (min(-u, 0.0) + small - digamma(theta[1]) + total)
    elif family == WEIBULL:
        away = u - math.log(theta[1])
        if theta[0] * away < 690.0:
            beyond = math.expm1(theta[0] * away)
            out[0] += flow * (1.0 / theta[0] - away * beyond)
            out[1] += flow * theta[0] / theta[1] * beyond
    else:
        alpha, beta = theta[0], theta[1]
        total = digamma(alpha + beta) - digamma(alpha + beta + 1.0 + u)
        out[0] += flow * (1.0 / alpha + total)
        out[1] += flow * (total + digamma(beta + u) - digamma(beta))


@inner_kernel
def value_derivative(family, theta, u, x):
    """Derivative of the leaf's log density in the value x; 0 for masses."""
    if family == GAUSSIAN:
        return (theta[0] - u) / (theta[1] * theta[1])
    if family == LOG_NORMAL:
        return ((theta[0] - u) / (theta[1] * theta[1]) - 1.0) / x
    if family == EXPONENTIAL:
        return -theta[0]
    if family == STUDENT_T or family == LOG_STUDENT_T:
        z = (u - theta[0]) / theta[1]
        slope = -(theta[2] + 1.0) * z / (theta[2] + z * z) / theta[1]
        return slope if family == STUDENT_T else (slope - 1.0) / x
    if family == LOMAX:
        return -(theta[0] + 1.0) / (theta[1] + u)
    if family == LAPLACE:
        return np.sign(theta[0] - u) / theta[1]
    if family == GAMMA:
        return (theta[0] - 1.0) / x - theta[1]
    if family == TRIANGULAR:
        if theta[0] < u < theta[1]:
            return 1.0 / (u - theta[0])
        return -1.0 / (theta[2] - u) if theta[1] < u < theta[2] else 0.0
    if family == WEIBULL and x > 0.0 and theta[0] * (u - math.log(theta[1])) < 690.0:
        return -(1.0 + theta[0] * math.expm1(theta[0] * (u - math.log(theta[1])))) / x
    if family == BETA and 0.0 < x < 1.0:
        return (theta[0] - 1.0) / x - (theta[1] - 1.0) / (1.0 - x)
    return 0.0
