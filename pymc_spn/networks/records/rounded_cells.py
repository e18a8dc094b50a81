"""Columns in cells (`recorded_cells`): sweeps over trees and exact values together, densities of cells.

A recorded value of a rounded column stands for the cell of width d round it. The exact value in the cell is part of
the state. In a sweep each row is taken out of the network. Its tree is drawn with its exact values integrated out (a
leaf is worth the mass of the cell). Then its exact values are drawn from the predictives of the leaves that it got,
within their cells. Together this is a draw from the joint conditional of both. Exact values are kept on a lattice of
65,536 points a cell, so that the record of a draw, two bytes a value, gives the state back. Counts with Gaussian leaves
next to leaves with masses are rounded too. Under the latter the exact value is the count, in the middle of its cell, a
point of a lattice.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.cell_masses import log_cell, log_whole_number
from pymc_spn.gibbs.integrated_cells import LATTICE
from pymc_spn.gibbs.joint_leaves import copy_row, is_joint_edge, move_joints
from pymc_spn.gibbs.network import CELLS, EMPTY_LEAF
from pymc_spn.gibbs.occupancy import attach, detach, make_again, n_prior_slots
from pymc_spn.gibbs.sampler import Sampler, place_columns
from pymc_spn.leaves.intervals import Interval
from pymc_spn.networks.records.joint_cells import weigh_joint_cells
from pymc_spn.networks.records.predictive_kernels import evaluate_row
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

TOLERANCE = 1e-9  # relative, of the mass of a cell


@array_group
class CellArrays(NamedTuple):
    """Rows whose rounded columns are cells, as kernels read them; coded units."""

    columns: np.ndarray  # (K,) the rounded columns
    offset: np.ndarray  # (K,) where the first point of the lattice is, in lattice steps from the low end of a cell
    low: np.ndarray  # (N, K) ends of the cells, NaN where missing
    high: np.ndarray  # (N, K)
    middle: np.ndarray  # (N, D) points, and middles of cells
    width: np.ndarray  # (N, D) of cells; 0 of points and where missing


@array_group
class KnownCells(NamedTuple):
    """What leaves are worth at the cells of one row, all of it scratch."""

    is_cell: np.ndarray  # (P,) bool
    log_mass: np.ndarray  # (L,) of each leaf
    of_joints: np.ndarray  # (J,) log value of the whole row in leaves over several columns
    width: np.ndarray  # (d,) scratch of `joint_cells`
    away: np.ndarray  # (d,)
    inverse: np.ndarray  # (d,)
    pull: np.ndarray  # (d,)
    inverses: np.ndarray  # diagonals of the inverse of Psi, laid out as ``Joints.sums``; NaN where not known


@bare_called_kernel
def weigh_cells(tree, palette, edges, leaves, joints, cells, n, known):
    """Log mass of each cell of a row in every leaf slot."""
    known.of_joints[:] = 0.0  # of leaves of which the row has no column
    if joints is not None:
        weigh_joint_cells(edges, joints, cells, n, known)
    known.is_cell[:] = False
    for k in range(cells.columns.size):
        low = cells.low[n, k]
        high = cells.high[n, k]
        if np.isnan(low):
            continue
        for d in range(palette.place_ptr[cells.columns[k]], palette.place_ptr[cells.columns[k] + 1]):
            known.is_cell[d] = True
            r = tree.leaf_region[d]
            first = edges.begin[r] + n_prior_slots(palette, d)
            for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                held = i < first or edges.weight[i] > 0.0  # in a fit by no row
                if not held:
                    known.log_mass[i] = EMPTY_LEAF
                elif palette.column_kind[d] >= CELLS:
                    known.log_mass[i] = log_whole_number(palette, leaves, d, i, 0.5 * (low + high))
                else:
                    known.log_mass[i] = log_cell(palette, leaves, d, i, low, high)


@bare_called_kernel
def forget_inverses(edges, joints, slots, known):
    """Of the leaves over several columns that a row enters or leaves."""
    for r in range(slots.size):
        if slots[r] >= 0 and is_joint_edge(edges, joints, r, slots[r]):
            known.inverses[joints.sums_begin[r] + slots[r] * (joints.column_ptr[r + 1] - joints.column_ptr[r])] = np.nan


@bare_kernel
def leave_one_out(
    tree, palette, masses, edges, nodes, leaves, scratch, joints, y, filled, asked, slots, options, cells, known, out
):
    """Log predictive of each training row given the others: it is taken out, evaluated and put back.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch, joints
        Groups of a `Network` that holds the rows; the same afterwards.
    y : (N, P) float64
    filled : (N, D) float64
        The rows with the cells that are drawn in leaves over several columns.
    asked : (N, P) float64
        What is evaluated: the rows, or some of their cells.
    slots : (N, R) int32
        Empty for rows that are none of the network's.
    options : (N, R) int32
        Split of each row's product, palette entry of its leaf.
    cells : CellArrays
        Of the rows, where columns are in cells; else None, as ``known`` is.
    known : KnownCells
    out : (N,) float64
    """
    for n in range(out.size):
        if slots.shape[0] > 0:
            row = slots[n]
            for r in range(row.size):
                scratch.old[r] = row[r]
            if joints is not None:
                copy_row(filled[n], joints.scratch.row)
                move_joints(edges, joints, row, -1.0)
                if known is not None:
                    forget_inverses(edges, joints, row, known)
            detach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        if known is not None:
            weigh_cells(tree, palette, edges, leaves, joints, cells, n, known)
        out[n] = evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, asked[n], joints, known)[0]
        if slots.shape[0] > 0:
            row = slots[n]
            make_again(tree, palette, masses, edges, nodes, leaves, row, options[n])
            attach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
            if joints is not None:
                copy_row(filled[n], joints.scratch.row)
                move_joints(edges, joints, row, 1.0)
                if known is not None:
                    forget_inverses(edges, joints, row, known)


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

    def arrays(self) -> CellArrays:
        """For kernels."""
        middle, width = self.coded.copy(), np.zeros(self.coded.shape)
        middle[:, self.columns] = 0.5 * (self.low + self.high)
        width[:, self.columns] = np.nan_to_num(self.high - self.low)
        return CellArrays(self.columns, self.offset, self.low, self.high, middle, width)

    def known(self, net: Any) -> KnownCells:
        """Room for the cells of one row of a network."""
        n_places, n_leaves, joints = self.seen.shape[1], net.leaves.entry.size, net.joints
        n_slots, d, n_sums = 0, 0, 0
        if joints is not None:
            n_slots, d, n_sums = joints.log_scale.size, joints.scratch.x.size, joints.sums.size
        of_row = np.zeros(n_places, np.bool_), np.zeros(n_leaves), np.zeros(n_slots)
        width, away, inverse, pull = np.zeros((4, d))
        return KnownCells(*of_row, width, away, inverse, pull, np.full(n_sums, np.nan))

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
