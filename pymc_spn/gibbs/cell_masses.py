"""Leaves under rounding: the mass of a cell, exact draws within it, and sweeps that integrate exact values out.

A cell is the interval that a recorded value stands for. A leaf with masses holds the whole number in the middle of its
cell. Rows may move while exact values of some rounded columns are integrated out (`records.rounded_cells`): given
parameters of all leaves of such a column, a leaf is worth the mass of the row's cell under its own. These masses stand
in a table with a row for each different cell of the column, where they are worked out when they are first wanted.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.family_kernels import (
    add_to_sums,
    draw_in_cell_of,
    draw_parameters_of,
    has_cells,
    has_whole_numbers,
    is_of_logs,
    log_cell_given_of,
    log_cell_of,
    log_whole_number_of,
    posterior_of,
)
from pymc_spn.gibbs.leaf_kernels import evaluate_leaf_logs, log_predictive, shift_leaves
from pymc_spn.gibbs.network import CELLS, COUNT_CELLS, EMPTY_LEAF
from pymc_spn.gibbs.occupancy import n_prior_slots
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

LATTICE = 65536  # points in a cell; as codes they are unsigned integers of two bytes


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
def log_of_value(palette, leaves, d, slot, is_cell, low, high):
    """Log of what a leaf is worth at a value in coded units, which is a cell or has both ends alike."""
    if leaves.log_scale[slot] == EMPTY_LEAF and palette.family[leaves.entry[slot]] != CATEGORICAL:
        return EMPTY_LEAF
    if palette.column_kind[d] >= CELLS:
        return log_whole_number(palette, leaves, d, slot, 0.5 * (low + high))
    if is_cell:
        return log_cell(palette, leaves, d, slot, low, high)
    return log_predictive(palette, leaves, d, slot, low)


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


class DistinctCells(NamedTuple):
    """The different cells of the rounded columns, in coded units; V of them in all columns."""

    columns: np.ndarray  # (K,) the columns
    offset: np.ndarray  # (K,) as in `CellArrays`
    begin: np.ndarray  # (K+1,) cells of column k: begin[k]:begin[k+1]
    low: np.ndarray  # (V,) their ends
    high: np.ndarray  # (V,)
    which: np.ndarray  # (N, K) int32 cell of each row, -1 where missing


class LeafParameters(NamedTuple):
    """Drawn parameters of leaves, and what the cells of integrated columns are worth under them."""

    first: np.ndarray  # (L,) mean or rate
    second: np.ndarray  # (L,) root of the precision, else 0
    integrated: np.ndarray  # (k,) which of the K columns are integrated
    table_begin: np.ndarray  # (P,) of cell v of a column in slot i: table_begin[d] + v capacity[d] + i
    table: np.ndarray  # log masses, NaN where not known


@bare_called_kernel
def draw_leaf(rng, palette, leaves, given, i, n, s1, s2):
    """Parameters of a leaf from its posterior."""
    e = leaves.entry[i]
    family = palette.family[e]
    prior = palette.prior[e]
    p0, p1, p2, p3 = posterior_of(family, float(n), s1, s2, prior[0], prior[1], prior[2], prior[3])
    given.first[i], given.second[i] = draw_parameters_of(family, rng, p0, p1, p2, p3)


@bare_called_kernel
def log_mass_of_cell(palette, leaves, d, i, low, high, given, is_prior):
    """Log mass of a cell under the drawn parameters of a leaf, the prior predictive, or of a count in its middle."""
    family = palette.family[leaves.entry[i]]
    if is_prior or not has_cells(family):
        return log_cell(palette, leaves, d, i, low, high)
    offset = palette.offset[d]
    if is_of_logs(family):
        low = math.log(low + offset)
        high = math.log(high + offset)
    return max(log_cell_given_of(family, low, high, offset, given.first[i], given.second[i]), EMPTY_LEAF)


@bare_called_kernel
def fill_slot(leaves, distinct, given, k, d, i, log_mass):
    """Write one number for the masses of all cells in a slot."""
    at = given.table_begin[d] + i
    for _ in range(distinct.begin[k], distinct.begin[k + 1]):
        given.table[at] = log_mass
        at += leaves.capacity[d]


@bare_kernel
def draw_parameters(rng, tree, palette, edges, leaves, distinct, given):
    """Parameters of all leaves of the integrated columns, under which no mass is known yet."""
    given.table[:] = np.nan
    for k in given.integrated:
        c = distinct.columns[k]
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            for i in range(edges.begin[r] + n_prior_slots(palette, d), edges.begin[r] + edges.top[r]):
                if edges.n_data[i] == 0:
                    fill_slot(leaves, distinct, given, k, d, i, EMPTY_LEAF)
                elif has_cells(palette.family[leaves.entry[i]]):
                    draw_leaf(rng, palette, leaves, given, i, edges.n_data[i], leaves.s1[i], leaves.s2[i])


@bare_called_kernel
def evaluate_leaves_in_cells(tree, palette, edges, leaves, scratch, distinct, given, cells, y):
    """`evaluate_leaves` of a row, of whose integrated columns leaves are worth the mass of the cell."""
    mark_integrated(tree, palette, scratch, distinct, given, cells, True)
    evaluate_leaf_logs(tree, palette, edges, leaves, scratch, y)
    mark_integrated(tree, palette, scratch, distinct, given, cells, False)
    look_cells_up(tree, palette, edges, leaves, scratch, distinct, given, cells)
    return shift_leaves(tree, palette, edges, scratch)


@bare_called_kernel
def mark_integrated(tree, palette, scratch, distinct, given, cells, missing):
    """Hide the integrated columns of a row from `evaluate_leaf_logs`, or show them again."""
    for k in given.integrated:
        if cells[k] >= 0:
            c = distinct.columns[k]
            for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                scratch.missing[tree.leaf_region[d]] = missing


@bare_called_kernel
def look_cells_up(tree, palette, edges, leaves, scratch, distinct, given, cells):
    """Logs of leaf values of a row's integrated columns."""
    for k in given.integrated:
        v = cells[k]
        if v < 0:
            continue
        c = distinct.columns[k]
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            begin = edges.begin[tree.leaf_region[d]]
            end = begin + edges.top[tree.leaf_region[d]]
            at = given.table_begin[d] + (v - distinct.begin[k]) * leaves.capacity[d]
            known = copy_known(given.table[at + begin : at + end], scratch.log_value[begin:end])
            if known == end - begin:
                continue
            for i in range(begin, end):
                if np.isnan(scratch.log_value[i]):
                    is_prior = i < begin + n_prior_slots(palette, d)
                    log_mass = log_mass_of_cell(
                        palette, leaves, d, i, distinct.low[v], distinct.high[v], given, is_prior
                    )
                    scratch.log_value[i] = log_mass
                    if has_cells(palette.family[leaves.entry[i]]):  # others change with every row
                        given.table[at + i] = log_mass


@bare_called_kernel
def copy_known(log_mass, out):
    """Copy, and count the numbers."""
    known = 0
    for i in range(out.size):
        out[i] = log_mass[i]
        known += log_mass[i] == log_mass[i]
    return known


@bare_called_kernel
def leave_leaves(tree, palette, edges, leaves, scratch, distinct, given, cells):
    """Integrated columns: leaves that a row left empty are worth nothing."""
    for k in given.integrated:
        if cells[k] < 0:
            continue
        c = distinct.columns[k]
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            if scratch.old[r] >= 0 and edges.n_data[edges.begin[r] + scratch.old[r]] == 0:
                fill_slot(leaves, distinct, given, k, d, edges.begin[r] + scratch.old[r], EMPTY_LEAF)


@bare_called_kernel
def enter_leaves(rng, tree, palette, edges, leaves, distinct, given, cells, row, y):
    """Exact value and parameters for each leaf that a row opens: from the prior, given that it is in the cell.

    A leaf with masses is always given the middle of the cell, which is the recorded value.
    """
    for k in given.integrated:
        if cells[k] < 0:
            continue
        c = distinct.columns[k]
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            if row[r] < 0:
                continue
            i = edges.begin[r] + row[r]
            e = leaves.entry[i]
            is_new = edges.n_data[i] == 0
            is_cell = has_cells(palette.family[e])
            if is_new:
                fill_slot(leaves, distinct, given, k, d, i, np.nan)
            elif is_cell:
                continue
            low = distinct.low[cells[k]]
            high = distinct.high[cells[k]]
            x = low + 0.5 * (high - low)
            if is_cell:
                x = draw_in_cell(rng, palette, leaves, d, edges.begin[r] + e - palette.entry_ptr[d], low, high)
                x = on_lattice(x, low, high, distinct.offset[k])
                s1, s2 = with_value(palette, leaves, d, i, 0.0, 0.0, x)
                draw_leaf(rng, palette, leaves, given, i, 1, s1, s2)
            for place in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                y[place] = x


@bare_called_kernel
def on_lattice(x, low, high, offset):
    """The point of the lattice of a cell that stands for a value within it."""
    code = min(max(math.floor((x - low) / (high - low) * LATTICE), 0.0), LATTICE - 1.0)
    return low + (code + offset) / LATTICE * (high - low)


@bare_called_kernel
def with_value(palette, leaves, d, i, s1, s2, x):
    """Sums of a leaf with a value put in."""
    e = leaves.entry[i]
    family = palette.family[e]
    offset = palette.offset[d]
    u = math.log(x + offset) if is_of_logs(family) else x
    return add_to_sums(family, s1, s2, 1.0, u, offset, 0.0, palette.prior[e, 2])
