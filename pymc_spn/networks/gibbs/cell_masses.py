"""Leaves under rounding: the predictive mass of a cell, and exact draws from a predictive within a cell.

A cell is the interval that a recorded value stands for. A leaf with masses holds the whole number in the middle of its
cell.
"""

import math

from pymc_spn.networks.gibbs.family_kernels import (
    draw_in_cell_of,
    has_cells,
    has_whole_numbers,
    is_of_logs,
    log_cell_of,
    log_whole_number_of,
)
from pymc_spn.networks.gibbs.leaf_kernels import log_predictive
from pymc_spn.networks.gibbs.network import COUNT_CELLS, EMPTY_LEAF
from pymc_spn.numerics.kernel_options import bare_kernel


@bare_kernel
def log_cell(net, d, slot, low, high):
    """Log predictive mass of the cell (low, high), in coded units, in a leaf of numbers."""
    family = net.entry_family[net.entry[slot]]
    if not has_cells(family):  # masses
        return log_predictive(net, d, slot, 0.5 * (low + high))
    offset = net.offset[d]
    if is_of_logs(family):
        low = math.log(low + offset)
        high = math.log(high + offset)
    log_mass = log_cell_of(
        family,
        low,
        high,
        offset,
        net.log_scale[slot],
        net.power[slot],
        net.centre[slot],
        net.curvature[slot],
        net.slope[slot],
    )
    return max(log_mass, EMPTY_LEAF)


@bare_kernel
def log_whole_number(net, d, slot, y):
    """Log predictive mass of a whole number, coded less a whole number, where Gaussian leaves have unit cells."""
    family = net.entry_family[net.entry[slot]]
    if not has_whole_numbers(family):
        return log_predictive(net, d, slot, y)
    is_first = net.column_kind[d] == COUNT_CELLS and y + net.offset[d] < 0.5
    log_mass = log_whole_number_of(
        family, y, is_first, net.log_scale[slot], net.power[slot], net.centre[slot], net.curvature[slot]
    )
    return max(log_mass, EMPTY_LEAF)


@bare_kernel
def draw_in_cell(rng, net, d, slot, low, high):
    """An exact draw from the predictive of a leaf of numbers, given that it lies in the cell; coded units."""
    family = net.entry_family[net.entry[slot]]
    if not has_cells(family):  # masses
        return 0.5 * (low + high)
    offset = net.offset[d]
    first = low
    last = high
    if is_of_logs(family):
        first = math.log(low + offset)
        last = math.log(high + offset)
    x = draw_in_cell_of(
        family, rng, first, last, offset, net.power[slot], net.centre[slot], net.curvature[slot], net.slope[slot]
    )
    if is_of_logs(family):
        x = math.exp(x) - offset
    return min(max(x, low), high)
