"""The mass of a Student t over a cell, and draws within it.

The mass goes by Gauss panels. They start where the density in the cell is largest, and are as short as the density is
steep. So far tails and leaves much narrower than the cell keep their digits.
"""

import math

import numpy as np

from pymc_spn.numerics.elementary import fast_exp, fast_log1p
from pymc_spn.numerics.kernel_options import bare_inner_kernel

_X8, _W8 = np.polynomial.legendre.leggauss(8)
_X4, _W4 = np.polynomial.legendre.leggauss(4)
NODES, WEIGHTS = 0.5 * (_X8 + 1.0), 0.5 * _W8
FEW_NODES, FEW_WEIGHTS = 0.5 * (_X4 + 1.0), 0.5 * _W4
FLAT = 0.1  # nats by which the density changes in a cell at most for four nodes to do: an error of 1e-13
TRIES = 8  # of rejection, before the distribution function is inverted
HALVINGS = 60


@bare_inner_kernel
def log_slope(z, power):
    """How fast the log of (1 + z^2)^-power changes near z: by its derivative, and by curvature where that is small."""
    return math.sqrt(2.0 * power / (1.0 + z * z)) + 2.0 * power * z / (1.0 + z * z)


@bare_inner_kernel
def tail_integral(a, length, power):
    """Integral of (1 + z^2)^-power over a length from a >= 0 on, divided by the integrand at a."""
    base = fast_log1p(a * a)
    steepness = log_slope(a, power)
    total = 0.0
    if length * steepness < FLAT:
        for k in range(4):
            x = a + length * FEW_NODES[k]
            total += FEW_WEIGHTS[k] * fast_exp(-power * (fast_log1p(x * x) - base))
        return total * length
    z = a
    left = length
    while left > 0.0:
        h = min(1.5 / log_slope(z, power), left)
        part = 0.0
        for k in range(8):
            x = z + h * NODES[k]
            part += WEIGHTS[k] * fast_exp(-power * (fast_log1p(x * x) - base))
        total += h * part
        z += h
        left -= h
        if part * z < 1e-17 * total or h < 1e-15 * z:
            break
    return total


@bare_inner_kernel
def log_student_integral(low, high, length, power):
    """Log integral of (1 + z^2)^-power from low to high; far out ``length`` has digits that their difference lacks."""
    if low >= 0.0:
        return math.log(tail_integral(low, length, power)) - power * math.log1p(low * low)
    if high <= 0.0:
        return math.log(tail_integral(-high, length, power)) - power * math.log1p(high * high)
    return math.log(tail_integral(0.0, high, power) + tail_integral(0.0, -low, power))


@bare_inner_kernel
def draw_student(rng, low, high, power):
    """A draw from a density proportional to (1 + z^2)^-power between low and high.

    By rejection, from the whole density where the cell holds most of it, else from the uniform one; which one does not
    depend on the draws. Cells in steep tails go by inversion.
    """
    nearest = min(max(0.0, low), high)
    base = fast_log1p(nearest * nearest)
    wide = (high - low) * math.sqrt(2.0 * power) > 2.0 and nearest == 0.0
    for _ in range(TRIES):
        if wide:
            z = rng.standard_normal() / math.sqrt(2.0 * rng.standard_gamma(power - 0.5))
            if low <= z <= high:
                return z
        else:
            z = low + (high - low) * rng.random()
            if rng.random() < fast_exp(-power * (fast_log1p(z * z) - base)):
                return z
    mirrored = high <= 0.0
    start = -high if mirrored else low
    stop = -low if mirrored else high
    target = math.log(1.0 - rng.random()) + log_student_integral(start, stop, stop - start, power)
    a = start
    b = stop
    for _ in range(HALVINGS):
        z = 0.5 * (a + b)
        if z > start and log_student_integral(start, z, z - start, power) < target:
            a = z
        else:
            b = z
    z = 0.5 * (a + b)
    return -z if mirrored else z
