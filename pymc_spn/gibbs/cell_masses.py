"""Leaves under rounding: the predictive mass of a cell, and exact draws from a predictive within a cell.

A cell is the interval that a recorded value stands for. A leaf with masses holds the whole number in the middle of its
cell.
"""

import math

from pymc_spn.gibbs.family_kernels import (
    draw_in_cell_of,
    has_cells,
    has_whole_numbers,
    is_of_logs,
    log_cell_of,
    log_whole_number_of,
)
from pymc_spn.gibbs.leaf_kernels import log_predictive
from pymc_spn.gibbs.network import COUNT_CELLS, EMPTY_LEAF
from pymc_spn.numerics.kernel_options import bare_called_kernel


@bare_called_kernel
def log_cell(palette, leaves, d, slot, low, high):
    """Log predictive mass of the cell (low, high), in coded units, in a leaf of numbers."""
    family = palette.family[leaves.entry[slot]]
    if not has_cells(family):  # masses
        return log_predictive(palette, leaves, d, slot, 0.5 * (low + high))
    offset = palette.offset[d]
    if is_of_logs(family):
        low = math.log(low + offset)
        high = math.log(high + offset)
    log_mass = log_cell_of(
        family,
        low,
        high,
        offset,
        leaves.log_scale[slot],
        leaves.power[slot],
        leaves.centre[slot],
        leaves.curvature[slot],
        leaves.slope[slot],
    )
    return max(log_mass, EMPTY_LEAF)


@bare_called_kernel
def log_whole_number(palette, leaves, d, slot, y):
    """Log predictive mass of a whole number, coded less a whole number, where Gaussian leaves have unit cells."""
    family = palette.family[leaves.entry[slot]]
    if not has_whole_numbers(family):
        return log_predictive(palette, leaves, d, slot, y)
    is_first = palette.column_kind[d] == COUNT_CELLS and y + palette.offset[d] < 0.5
    log_mass = log_whole_number_of(
        family, y, is_first, leaves.log_scale[slot], leaves.power[slot], leaves.centre[slot], leaves.curvature[slot]
    )
    return max(log_mass, EMPTY_LEAF)


@bare_called_kernel
def draw_in_cell(rng, palette, leaves, d, slot, low, high):
    """An exact draw from the predictive of a leaf of numbers, given that it lies in the cell; coded units."""
    family = palette.family[leaves.entry[slot]]
    if not has_cells(family):  # masses
        return 0.5 * (low + high)
    offset = palette.offset[d]
    first = low
    last = high
    if is_of_logs(family):
        first = math.log(low + offset)
        last = math.log(high + offset)
    x = draw_in_cell_of(
        family,
        rng,
        first,
        last,
        offset,
        leaves.power[slot],
        leaves.centre[slot],
        leaves.curvature[slot],
        leaves.slope[slot],
    )
    if is_of_logs(family):
        x = math.exp(x) - offset
    return min(max(x, low), high)
