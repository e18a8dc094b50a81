"""Log gamma and what is made of it in sixty decimals: references where float64 leaves no digits."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

PRECISION = 60


def bernoulli_numbers(n):
    known = [Fraction(1)]
    for m in range(1, n + 1):
        known.append(-sum(math.comb(m + 1, k) * known[k] for k in range(m)) / (m + 1))
    return known


BERNOULLI = bernoulli_numbers(30)


def log_gamma(x):
    """log Gamma(x) less log(2 pi) / 2, which ratios do not need: recurrence to 40, then thirty terms of Stirling."""
    product = Decimal(1)
    while x < 40:
        product *= x
        x += 1
    series = sum(
        Decimal(b.numerator) / (Decimal(b.denominator) * k * (k - 1) * x ** (k - 1))
        for k, b in enumerate(BERNOULLI)
        if k >= 2
    )
    return (x - Decimal("0.5")) * x.ln() - x + series - product.ln()


def log_rising(a, m):
    """log Gamma(a + m) - log Gamma(a)."""
    return log_gamma(a + m) - log_gamma(a)


def log_factorial(x):
    """log x!"""
    return log_rising(Decimal(1), x)


def in_decimals(function, *arguments):
    """Values (n,) of a function of decimals at floats, which are converted exactly."""
    with localcontext() as context:
        context.prec = PRECISION
        columns = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in arguments))
        found = [float(function(*map(Decimal, map(float, row)))) for row in zip(*map(np.ravel, columns), strict=True)]
    return np.reshape(found, columns[0].shape)


# Log masses of leaves.


def poisson(x, rate):
    return x * rate.ln() - rate - log_factorial(x)


def negative_binomial(x, a, b):
    return log_rising(a, x) - log_factorial(x) + a * (b / (b + 1)).ln() - x * (b + 1).ln()


def beta_geometric(x, a, b):
    return log_rising(b, x) - log_rising(a + b, x + 1) + a.ln()


def beta_binomial(x, trials, a, b):
    choose = log_factorial(trials) - log_factorial(x) - log_factorial(trials - x)
    return choose + log_rising(a, x) + log_rising(b, trials - x) - log_rising(a + b, trials)
