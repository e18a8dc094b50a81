"""Leaves under rounding: the predictive mass of a cell, and exact draws from a predictive within a cell.

A cell is the interval that a recorded value stands for. The mass of a Student t over it goes by Gauss panels that
start where the density in the cell is largest and are as short as the density is steep, so that far tails and leaves
much narrower than the cell keep their digits. A leaf with masses holds the whole number in the middle of its cell.
"""

import math

import numpy as np

from pymc_spn.leaves.family_codes import BINOMIAL, EXPONENTIAL, GAUSSIAN, GEOMETRIC, LOG_NORMAL, POISSON
from pymc_spn.networks.gibbs.leaf_kernels import log_predictive
from pymc_spn.networks.gibbs.network import COUNT_CELLS, EMPTY_LEAF
from pymc_spn.numerics.elementary import fast_exp, fast_log1p
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel

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
def has_masses(family):
    """Whether a leaf that may stand beside Gaussian ones has masses on whole numbers."""
    return family == POISSON or family == GEOMETRIC or family == BINOMIAL


@bare_kernel
def log_cell(net, d, slot, low, high):
    """Log predictive mass of the cell (low, high), in coded units, in a leaf of numbers."""
    family = net.entry_family[net.entry[slot]]
    if has_masses(family):
        return log_predictive(net, d, slot, 0.5 * (low + high))
    if family == EXPONENTIAL:
        alpha = net.power[slot] - 1.0
        start = math.log1p(max(low + net.offset[d], 0.0) * net.slope[slot])
        stop = math.log1p(max(high + net.offset[d], 0.0) * net.slope[slot])
        return -alpha * start + math.log(-math.expm1(-alpha * (stop - start))) if stop > start else EMPTY_LEAF
    if family == LOG_NORMAL:
        low = math.log(low + net.offset[d])
        high = math.log(high + net.offset[d])
    root = math.sqrt(net.curvature[slot])
    z_low = (low - net.centre[slot]) * root
    z_high = (high - net.centre[slot]) * root
    log_integral = log_student_integral(z_low, z_high, (high - low) * root, net.power[slot])
    log_mass = net.log_scale[slot] - math.log(root) + log_integral
    return max(min(log_mass, 0.0), EMPTY_LEAF)


@bare_kernel
def log_whole_number(net, d, slot, y):
    """Log predictive mass of a whole number, coded less a whole number, where Gaussian leaves have unit cells."""
    if net.entry_family[net.entry[slot]] != GAUSSIAN:
        return log_predictive(net, d, slot, y)
    is_first = net.column_kind[d] == COUNT_CELLS and y + net.offset[d] < 0.5
    root = math.sqrt(net.curvature[slot])
    low = -math.inf if is_first else (y - 0.5 - net.centre[slot]) * root
    length = math.inf if is_first else root
    log_integral = log_student_integral(low, (y + 0.5 - net.centre[slot]) * root, length, net.power[slot])
    return max(min(net.log_scale[slot] - math.log(root) + log_integral, 0.0), EMPTY_LEAF)


@bare_kernel
def draw_in_cell(rng, net, d, slot, low, high):
    """An exact draw from the predictive of a leaf of numbers, given that it lies in the cell; coded units."""
    family = net.entry_family[net.entry[slot]]
    if has_masses(family):
        return 0.5 * (low + high)
    offset = net.offset[d]
    if family == EXPONENTIAL:
        alpha = net.power[slot] - 1.0
        beta = 1.0 / net.slope[slot]
        start = math.log1p(max(low + offset, 0.0) / beta)
        stop = math.log1p((high + offset) / beta)
        w = start - math.log1p(rng.random() * math.expm1(-alpha * (stop - start))) / alpha
        return min(max(beta * math.expm1(w) - offset, low), high)
    root = math.sqrt(net.curvature[slot])
    power = net.power[slot]
    a = low
    b = high
    if family == LOG_NORMAL:
        a = math.log(low + offset)
        b = math.log(high + offset)
    z = draw_student(rng, (a - net.centre[slot]) * root, (b - net.centre[slot]) * root, power)
    x = net.centre[slot] + z / root
    if family == LOG_NORMAL:
        x = math.exp(x) - offset
    return min(max(x, low), high)


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
