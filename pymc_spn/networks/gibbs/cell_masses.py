"""Leaves under rounding: the predictive mass of a cell, and exact draws from a predictive within a cell.

A cell is the interval that a recorded value stands for. A leaf with masses holds the whole number in the middle of its
cell.
"""

import math

from pymc_spn.leaves.family_codes import BINOMIAL, EXPONENTIAL, GAUSSIAN, GEOMETRIC, LOG_NORMAL, POISSON
from pymc_spn.leaves.student_cells import draw_student, log_student_integral
from pymc_spn.networks.gibbs.leaf_kernels import log_predictive
from pymc_spn.networks.gibbs.network import COUNT_CELLS, EMPTY_LEAF
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel


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
