"""Forms of leaves for kernels: log density = form(u) + base(x) with an input u that is read from a value once.

The input is the value or its log. The base holds what all leaves of a reading share (-log x!, the
Jacobian of the log) and is hugely negative where the value is impossible. A form has coefficients (lead, a, b, c).
Forms that several families have stand here, as do other pieces that they share; those of one family stand in its file.
"""

import math

from pymc_spn.numerics.elementary import fast_log1p
from pymc_spn.numerics.kernel_options import inner_kernel

IMPOSSIBLE = -1e300
LARGEST_SQUARE = 1e307  # of standardised values
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

# forms
QUADRATIC, LINEAR, SWITCH, TABLE, STUDENT, POWER, RISING, RISING_RATIO, FALLING, URN = range(10)
N_FORMS = 10
# readings: input, base
REAL, LOGARITHM, NOT_NEGATIVE, FACTORIAL, COUNT, LEVEL = range(6)


@inner_kernel
def log_or_impossible(p):
    return math.log(p) if p > 0.0 else IMPOSSIBLE


def quadratic(lead, a, b, c, table, u):
    t = (u - a) * b
    return lead - t * t


def linear(lead, a, b, c, table, u):
    return lead + a * u


def student(lead, a, b, c, table, u):
    t = (u - a) * b
    return lead - c * fast_log1p(t * t) if t * t < LARGEST_SQUARE else IMPOSSIBLE


# parameters that are those of leaves


def all_positive(theta):
    for x in theta:
        if not 0.0 < x < math.inf:
            return False
    return True


def located(theta):
    """A first parameter that is any number, and others that are positive."""
    if not abs(theta[0]) < math.inf:
        return False
    for x in theta[1:]:
        if not 0.0 < x < math.inf:
            return False
    return True
