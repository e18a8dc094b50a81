"""Sweeps over trees and exact values of columns in cells (`recorded_cells`), at little more than the cost of others.

The exact values of some columns are given while the rows move: there a sweep is an ordinary one. Those of the others
are integrated out: parameters of their leaves are drawn first, given which a leaf is worth the mass of a cell
(`gibbs.integrated_cells`). Then all exact values are drawn within their cells, given parameters of their leaves. Each
step is a draw from a conditional of one joint distribution of trees, parameters and exact values; parameters are drawn
from theirs when they are wanted, and then forgotten.

Where leaves are narrower than cells, given values would hold their rows. Each stands close to the others of its leaf
and far from those of another leaf in the same cell. Such columns are integrated, all others are given. Columns that are
in leaves over several columns are given always.
"""

import math

import numpy as np

from pymc_spn.gibbs.family_kernels import draw_in_cell_given_of, has_cells, is_located, is_of_logs
from pymc_spn.gibbs.integrated_cells import (
    DistinctCells,
    LeafParameters,
    draw_leaf,
    draw_parameters,
    on_lattice,
    with_value,
)
from pymc_spn.gibbs.leaf_kernels import refresh_leaf
from pymc_spn.gibbs.redraw import SWEEP
from pymc_spn.gibbs.sampler import ROWS_AT_A_TIME, Sampler
from pymc_spn.networks.records.joint_values import draw_exact_in_joints
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

NARROW = 1.0  # cell widths, below which the standard deviation of a leaf makes it narrow
FEW_NARROW = 0.05  # of a column's rows are in narrow leaves at most where exact values are given
REPEATED = 4  # rows of a cell on average, below which values are given: the table of masses would cost too much
VALUES_AT_A_TIME = 8192  # rows whose exact values are drawn between two looks for Ctrl-C


@bare_called_kernel
def forget_values(rng, tree, palette, edges, leaves, distinct, given):
    """Parameters of the leaves of the columns that are not integrated, and sums of all leaves without their values."""
    for k in range(distinct.columns.size):
        c = distinct.columns[k]
        is_integrated = False
        for j in given.integrated:
            is_integrated |= j == k
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                if edges.n_data[i] > 0 and has_cells(palette.family[leaves.entry[i]]):
                    if not is_integrated:
                        draw_leaf(rng, palette, leaves, given, i, edges.n_data[i], leaves.s1[i], leaves.s2[i])
                    leaves.s1[i] = 0.0
                    leaves.s2[i] = 0.0


@bare_kernel
def draw_exact_values(rng, tree, palette, edges, leaves, y, slots, first, last, distinct, given):
    """Exact values of rows first .. last-1 within their cells given the parameters of their leaves.

    With the first row the sums of all leaves begin again, with the last one predictives follow.
    """
    if first == 0:
        forget_values(rng, tree, palette, edges, leaves, distinct, given)
    for n in range(first, last):
        for k in range(distinct.columns.size):
            v = distinct.which[n, k]
            if v < 0:
                continue
            low = distinct.low[v]
            high = distinct.high[v]
            c = distinct.columns[k]
            for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                r = tree.leaf_region[d]
                if slots[n, r] < 0:
                    continue
                i = edges.begin[r] + slots[n, r]
                family = palette.family[leaves.entry[i]]
                offset = palette.offset[d]
                x = low + 0.5 * (high - low)
                if has_cells(family):
                    first_end = math.log(low + offset) if is_of_logs(family) else low
                    last_end = math.log(high + offset) if is_of_logs(family) else high
                    x = draw_in_cell_given_of(family, rng, first_end, last_end, offset, given.first[i], given.second[i])
                    x = math.exp(x) - offset if is_of_logs(family) else x
                    x = on_lattice(x, low, high, distinct.offset[k])
                    leaves.s1[i], leaves.s2[i] = with_value(palette, leaves, d, i, leaves.s1[i], leaves.s2[i], x)
                for place in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                    y[n, place] = x
                break
    if last == slots.shape[0]:
        refresh_columns(tree, palette, edges, leaves, distinct.columns)


@bare_called_kernel
def refresh_columns(tree, palette, edges, leaves, columns):
    """Predictives of all leaves with data in some columns (K,), from their sums."""
    for c in columns:
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                if edges.n_data[i] > 0:
                    refresh_leaf(palette, leaves, d, i, edges.n_data[i])


@bare_kernel
def count_narrow(tree, palette, edges, leaves, slots, distinct, out):
    """Rows (K,) of each rounded column whose leaf is narrower than their cell."""
    out[:] = 0
    for k in range(distinct.columns.size):
        c = distinct.columns[k]
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            offset = palette.offset[d]
            for n in range(slots.shape[0]):
                v = distinct.which[n, k]
                if slots[n, r] < 0 or v < 0:
                    continue
                i = edges.begin[r] + slots[n, r]
                family = palette.family[leaves.entry[i]]
                if not has_cells(family):
                    continue
                width = distinct.high[v] - distinct.low[v]
                if is_of_logs(family):
                    width = math.log((distinct.high[v] + offset) / (distinct.low[v] + offset))
                if is_located(family):
                    width = width * math.sqrt(2.0 * leaves.power[i] * leaves.curvature[i])
                else:
                    width = width * leaves.power[i] * leaves.slope[i]
                out[k] += width * NARROW > 1.0


class RoundedSweeps:
    """Sweeps of a chain over trees and exact values.

    Parameters
    ----------
    cells : RoundedCells
        Of the table that the chain samples.
    kernel : str
        That of the chain. Kernels other than "exact" are given all exact values.

    Attributes
    ----------
    integrated : (K,) bool
        Rounded columns whose exact values are integrated out while rows move; all until `plan` has seen a state.
    """

    def __init__(self, cells: RoundedCells, kernel: str = "exact") -> None:
        self.cells = cells
        self.may_integrate = kernel == "exact"
        self.has_masses = ~cells.schema.compiled.is_density[cells.columns]
        self.in_joints = np.isin(cells.columns, cells.schema.joint_columns)
        self.integrated = self.has_masses | (self.may_integrate & ~self.in_joints)
        self.places = [np.flatnonzero(cells.structure.leaf_column == d).tolist() for d in cells.columns]
        which = np.full(cells.low.shape, -1, np.int32)
        ends: list[np.ndarray] = [np.empty((0, 2))]
        for k in range(cells.columns.size):
            held = np.flatnonzero(~np.isnan(cells.low[:, k]))
            pairs = np.stack([cells.low[held, k], cells.high[held, k]], axis=1)
            found, inverse = np.unique(pairs, axis=0, return_inverse=True)
            which[held, k] = inverse.ravel() + sum(map(len, ends))
            ends.append(found)
        low, high = np.ascontiguousarray(np.concatenate(ends).T)
        begin = np.cumsum([len(pairs) for pairs in ends])
        self.distinct = DistinctCells(cells.columns, cells.offset, begin, low, high, which)
        nothing, no_columns = np.empty(0), np.empty(0, np.int64)
        self.none_integrated = self.distinct, LeafParameters(nothing, nothing, no_columns, no_columns, nothing)

    @property
    def moving(self) -> np.ndarray:
        """Places of the rounded columns."""
        return np.flatnonzero(np.isin(self.cells.structure.leaf_column, self.cells.columns))

    def plan(self, sampler: Sampler) -> None:
        """Choose the columns to integrate, from counts of the present state.

        A count beside leaves with masses always is: in one kind of leaf its exact value is a point, in the other not.
        """
        if not self.may_integrate:
            return
        narrow = np.empty(self.integrated.size, np.int64)
        net = sampler.net
        count_narrow(net.tree, net.palette, net.edges, net.leaves, sampler.slots, self.distinct, narrow)
        n_rows = (self.distinct.which >= 0).sum(axis=0)
        repeat = n_rows >= REPEATED * np.diff(self.distinct.begin)
        self.integrated = self.has_masses | (repeat & (narrow > FEW_NARROW * n_rows) & ~self.in_joints)

    def sweep(self, rng: np.random.Generator, sampler: Sampler) -> float:
        """Redraw tree and exact values of every row; returns the fraction of rows that moved."""
        if self.integrated.any():
            return self._integrating_sweep(rng, sampler)
        sampler.cells = self.none_integrated
        moved = sampler.sweep(rng)
        self.draw_exact(rng, sampler)
        return moved

    def draw_exact(self, rng: np.random.Generator, sampler: Sampler) -> None:
        """Redraw the exact values given the trees."""
        self._draw_exact(rng, sampler, self._parameters(sampler))

    def _integrating_sweep(self, rng: np.random.Generator, sampler: Sampler) -> float:
        sampler.begin_sweep()
        n, row, moved = len(sampler.coded), 0, 0
        while row < n:
            net, given = sampler.net, self._parameters(sampler)
            draw_parameters(rng, net.tree, net.palette, net.edges, net.leaves, self.distinct, given)
            sampler.cells = self.distinct, given
            try:
                while row < n and not net.edges.full[0]:
                    row, changed = sampler.redraw_some(rng, SWEEP, row, min(row + ROWS_AT_A_TIME, n))
                    moved += changed
            finally:
                sampler.cells = self.none_integrated
            # parameters belong to slots: before these are renumbered, values are drawn from which others can be drawn
            self._draw_exact(rng, sampler, given)
            if net.edges.full[0]:
                sampler.compact()
        sampler.move_components(rng)
        return moved / max(n, 1)

    def _parameters(self, sampler: Sampler) -> LeafParameters:
        """Room for the parameters of a network's leaves."""
        leaves = sampler.net.leaves
        n_leaves, n_places = leaves.entry.size, leaves.begin.size
        table_begin, size = np.zeros(n_places, np.int64), 0
        integrated = np.flatnonzero(self.integrated)
        for k in integrated:
            for d in self.places[k]:
                table_begin[d] = size - leaves.begin[d]
                size += int(leaves.capacity[d] * (self.distinct.begin[k + 1] - self.distinct.begin[k]))
        return LeafParameters(np.empty(n_leaves), np.empty(n_leaves), integrated, table_begin, np.empty(size))

    def _draw_exact(self, rng: np.random.Generator, sampler: Sampler, given: LeafParameters) -> None:
        """Exact values of all rounded columns, given the trees."""
        net, n = sampler.net, len(sampler.coded)
        groups = net.tree, net.palette, net.edges, net.leaves
        for first in range(0, n, VALUES_AT_A_TIME):
            rows = sampler.coded, sampler.slots, first, min(first + VALUES_AT_A_TIME, n)
            draw_exact_values(rng, *groups, *rows, self.distinct, given)
        if net.joints is not None:
            sampler.set_table(sampler.coded)
            table = sampler.coded, sampler.table, sampler.filled, sampler.slots
            draw_exact_in_joints(rng, net.palette, net.edges, net.joints, *table, self.distinct)
            sampler.rebuild_joints()
