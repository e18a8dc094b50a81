"""Columns in cells (`recorded_cells`): sweeps over trees and exact values together, densities of cells.

A recorded value of a rounded column stands for the cell of width d round it. The exact value in the cell is part of
the state. Exact values are kept on a lattice of 65,536 points a cell, so that the record of a draw, two bytes a value,
gives the state back. Counts with Gaussian leaves next to leaves with masses are rounded too. Under the latter the exact
value is the count, in the middle of its cell, a point of a lattice.

The exact values of some columns are given while the rows move: there a sweep is an ordinary one. Those of the others
are integrated out: parameters of their leaves are drawn first, given which a leaf is worth the mass of a cell
(`gibbs.cell_masses`). Then all exact values are drawn within their cells, given parameters of their leaves. Each
step is a draw from a conditional of one joint distribution of trees, parameters and exact values; parameters are drawn
from theirs when they are wanted, and then forgotten.

Where leaves are narrower than cells, given values would hold their rows. Each stands close to the others of its leaf
and far from those of another leaf in the same cell. Such columns are integrated, all others are given. Columns that are
in leaves over several columns are given always.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import numpy as np

from pymc_spn.gibbs.cell_masses import (
    LATTICE,
    DistinctCells,
    LeafParameters,
    draw_leaf,
    draw_parameters,
    on_lattice,
    with_value,
)
from pymc_spn.gibbs.family_kernels import draw_in_cell_given_of, has_cells, is_located, is_of_logs
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, statistics_of
from pymc_spn.gibbs.leaf_kernels import refresh_leaf
from pymc_spn.gibbs.redraw import SWEEP
from pymc_spn.gibbs.sampler import ROWS_AT_A_TIME, Sampler, place_columns
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_gaussian import drawn_means_and_roots
from pymc_spn.leaves.normal_cells import draw_normal
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

TOLERANCE = 1e-9  # relative, of the mass of a cell
NARROW = 1.0  # cell widths, below which the standard deviation of a leaf makes it narrow
FEW_NARROW = 0.05  # of a column's rows are in narrow leaves at most where exact values are given
REPEATED = 4  # rows of a cell on average, below which values are given: the table of masses would cost too much
VALUES_AT_A_TIME = 8192  # rows whose exact values are drawn between two looks for Ctrl-C


class RoundedCells:
    """Cells of a table's rounded columns, in the sampler's units.

    Parameters
    ----------
    schema : NetworkSchema
    values : (N, D) float64
        Recorded values, NaN where missing.
    exact : iterable of int
        Rounded columns whose values are exact nevertheless, such as points that a condition gives.
    events : mapping of int to event
        Intervals in which columns are known to lie. A cell is what it has in common with them. Its density stays mass
        over the whole width, so that the masses of all cells add up to 1 given the interval. A count is within an event
        or not, and its cell remains whole.
    """

    def __init__(
        self,
        schema: Any,
        values: np.ndarray,
        exact: Iterable[int] = (),
        events: Mapping[int, Any] | None = None,
    ) -> None:
        self.schema, self.values = schema, values
        self.columns = np.setdiff1d(schema.rounded_columns, np.array(list(exact), np.int64))
        compiled, width = schema.compiled, schema.cell_widths[self.columns]
        x = values[:, self.columns]
        low, high = x - 0.5 * width, x + 0.5 * width
        self.possible = np.ones(len(values), np.bool_)
        for k, d in enumerate(self.columns):
            if schema.columns[d].kind == "positive" and int(d) not in schema.cut_at_zero:
                low[:, k] = np.maximum(low[:, k], 1e-6 * width[k])
            elif schema.cut_at_zero.get(int(d)) == 0.0:
                low[:, k] = np.maximum(low[:, k], 0.0)
            inside = None if events is None else events.get(int(d))
            if isinstance(inside, Interval) and compiled.is_density[d]:
                apart = (np.minimum(high[:, k], inside.high) <= np.maximum(low[:, k], inside.low)) & ~np.isnan(x[:, k])
                self.possible &= ~apart
                low[:, k] = np.where(apart, low[:, k], np.maximum(low[:, k], inside.low))
                high[:, k] = np.where(apart, high[:, k], np.minimum(high[:, k], inside.high))
        self.ends = low, high
        centre, scale = compiled.centre[self.columns], compiled.scale[self.columns]
        self.low = np.ascontiguousarray((low - centre) / scale)
        self.high = np.ascontiguousarray((high - centre) / scale)
        self.coded = schema.code(values)
        self.structure = schema.structure
        seen = self.coded.copy()
        seen[:, self.columns] = np.nan
        self.seen = np.ascontiguousarray(place_columns(self.structure, seen))
        self.log_jacobians = schema.log_jacobians(values)
        # of a cell the density is mass over width, and no change of units is left in it
        self.log_jacobians[:, self.columns] = np.where(np.isnan(x), 0.0, -np.log(width))
        self.offset = np.where(compiled.is_density[self.columns], 0.5, 0.0)  # the middle of the cell of a count counts

    def of_rows(self, which: np.ndarray) -> "RoundedCells":
        """The cells of some rows (k,)."""
        found = copy(self)
        for name in ("values", "possible", "low", "high", "coded", "seen", "log_jacobians"):
            setattr(found, name, np.ascontiguousarray(getattr(self, name)[which]))
        found.ends = self.ends[0][which], self.ends[1][which]
        return found

    def exact(self, codes: np.ndarray | None = None, values: np.ndarray | None = None) -> np.ndarray:
        """Coded table (N, P) with the exact values at lattice points (N, K), by default in the middle of the cells.

        Other columns are those of ``values`` (N, D), by default of the recorded table.
        """
        codes = np.full(self.low.shape, LATTICE // 2) if codes is None else codes
        out = self.coded.copy() if values is None else self.schema.code(values)
        out[:, self.columns] = self.low + (codes + self.offset) / LATTICE * (self.high - self.low)
        return np.ascontiguousarray(place_columns(self.structure, out))

    def codes(self, sampler: Sampler) -> np.ndarray:
        """Lattice points (N, K) uint16 of the exact values in a sampler's table, 0 where missing."""
        first = [int(np.flatnonzero(self.structure.leaf_column == d)[0]) for d in self.columns]
        share = (sampler.coded[:, first] - self.low) / (self.high - self.low)
        return np.nan_to_num(np.floor(share * LATTICE)).astype(np.uint16)

    @property
    def at_places(self) -> np.ndarray:
        """Ends (N, 2, P) of the cells for kernels, a column for each place; NaN in other columns and where missing."""
        ends = np.full((len(self.values), 2, self.values.shape[1]), np.nan)
        ends[:, 0, self.columns], ends[:, 1, self.columns] = self.low, self.high
        return np.ascontiguousarray(ends[:, :, self.structure.leaf_column])

    @property
    def ends_of_columns(self) -> np.ndarray:
        """Ends (2, N, D) of the cells in the units of the data, NaN in other columns and where missing."""
        out = np.full((2, *self.values.shape), np.nan)
        out[:, :, self.columns] = self.ends
        return out

    @property
    def widths(self) -> np.ndarray:
        """Widths (N, D) of the cells in the units of the data, 0 of points and where missing."""
        out = np.zeros(self.values.shape)
        out[:, self.columns] = np.nan_to_num(self.ends[1] - self.ends[0])
        return out

    @property
    def middles(self) -> np.ndarray:
        """The rows (N, D) in the units of the data, with the middles of their cells."""
        out = self.values.copy()
        out[:, self.columns] = 0.5 * (self.ends[0] + self.ends[1])
        return out


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


@bare_kernel
def draw_normals(rng, low, high, offset, mean, root, out):
    """Exact values (n,) in cells, of normals with these means and roots of the precision."""
    for i in range(out.size):
        out[i] = on_lattice(draw_normal(rng, low[i], high[i], mean[i], root[i]), low[i], high[i], offset)


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
            for r in np.flatnonzero(net.joints.split >= 0).tolist():
                self._draw_exact_in_joints(rng, sampler, r)
            sampler.rebuild_joints()

    def _draw_exact_in_joints(self, rng: np.random.Generator, sampler: Sampler, r: int) -> None:
        """Exact values of rows in leaves over all columns of a region, given parameters drawn from their posterior.

        One column after the other is drawn given the rest of the row: a normal within the cell. Sums of the leaves are
        not touched.
        """
        net, joints, slots = sampler.net, sampler.net.joints, sampler.slots[:, r]
        own = slice(*joints.column_ptr[r : r + 2])
        columns, psi0, split = joints.column[own], joints.psi0[own], net.edges.split[net.edges.begin[r] :]
        rows = np.flatnonzero((slots >= 0) & (split[np.maximum(slots, 0)] == joints.split[r]))
        used, leaf = np.unique(slots[rows], return_inverse=True)
        if not used.size:
            return
        n, sums, products = (held[used] for held in statistics_of(net, r))
        prior = psi0, PRECISION_RATIO, columns.size + EXCESS, joints.centre[own]
        posterior = NormalInverseWishart.after(n, sums, products, *prior)
        mean, root = drawn_means_and_roots(posterior, rng)
        inverse = np.linalg.inv(root)
        precision = np.swapaxes(inverse, 1, 2) @ inverse
        pull = sampler.filled[np.ix_(rows, columns)] - mean[leaf]
        for k in range(used.size):
            pull[leaf == k] = pull[leaf == k] @ precision[k]
        for j, d in enumerate(columns.tolist()):
            for k in np.flatnonzero(self.distinct.columns == d).tolist():
                v = self.distinct.which[rows, k]
                held = np.flatnonzero(v >= 0)
                at, of_leaf, cell = rows[held], leaf[held], v[held]
                now, width = sampler.filled[at, d], precision[of_leaf, j, j]
                x, where = np.empty(at.size), now - pull[held, j] / width
                ends = self.distinct.low[cell], self.distinct.high[cell], self.distinct.offset[k]
                draw_normals(rng, *ends, where, np.sqrt(width), x)
                pull[held] += precision[of_leaf, j] * (x - now)[:, None]
                sampler.filled[at, d] = sampler.table[at, d] = x
                sampler.coded[np.ix_(at, self.places[k])] = x[:, None]
