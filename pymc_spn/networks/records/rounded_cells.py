"""Rounded columns (``rounded=True``): sweeps over trees and exact values together, densities of cells.

A recorded value of a rounded column stands for the cell of width d round it. The exact value in the cell is part of
the state. In a sweep each row is taken out of the network, its tree is drawn with its exact values integrated out (a
leaf is worth the mass of the cell), and then its exact values from the predictives of the leaves that it got, within
their cells: a draw from the joint conditional of both. Exact values are kept on a lattice of 65,536 points a cell, so
that the record of a draw, two bytes a value, gives the state back. Counts with Gaussian leaves beside leaves with
masses are rounded too: under the latter the exact value is the count, in the middle of its cell, a point of a lattice.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import numpy as np

from pymc_spn.leaves.intervals import Interval
from pymc_spn.networks.gibbs.cell_masses import draw_in_cell, log_cell, log_whole_number
from pymc_spn.networks.gibbs.exact import draw_subtree
from pymc_spn.networks.gibbs.network import CELLS, EMPTY_LEAF
from pymc_spn.networks.gibbs.occupancy import FRESH, attach, detach, n_prior_slots, new_edge
from pymc_spn.networks.gibbs.sampler import COMPACT_EVERY, Sampler, place_columns
from pymc_spn.networks.records.left_out_kernels import leave_out_cells, left_out_scratch
from pymc_spn.networks.records.predictive_kernels import draw_rows, evaluate_row
from pymc_spn.networks.records.share_kernels import column_shares
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel, kernel

LATTICE = 65536  # points in a cell; as codes they are unsigned integers of two bytes
TOLERANCE = 1e-9  # relative, of the mass of a cell


@bare_inner_kernel
def weigh_cells(net, columns, low, high, event, event_log):
    """Log mass of each cell of a row in every leaf slot; NaN ends mark columns without a cell.

    ``event`` (P,) and ``event_log`` (L,) as in `evaluate_row`; those of other columns are kept.
    """
    for k in range(columns.size):
        if np.isnan(low[k]):
            continue
        for d in range(net.place_ptr[columns[k]], net.place_ptr[columns[k] + 1]):
            event[d] = True
            r = net.leaf_region[d]
            first = net.begin[r] + n_prior_slots(net, d)
            for i in range(net.begin[r], net.begin[r] + net.top[r]):
                held = i < first or net.edge_count[i] > 0
                if not held:
                    event_log[i] = EMPTY_LEAF
                elif net.column_kind[d] >= CELLS:
                    event_log[i] = log_whole_number(net, d, i, 0.5 * (low[k] + high[k]))
                else:
                    event_log[i] = log_cell(net, d, i, low[k], high[k])


@bare_kernel
def rounded_sweep(rng, net, y, seen, slots, first, columns, offset, low, high, event, event_log):
    """Redraw tree and exact values of every row.

    Parameters
    ----------
    rng : numpy.random.Generator
    net : Network
    y : (N, P) float64
        Coded table with the exact values, changed in place.
    seen : (N, P) float64
        The same with NaN in all rounded columns.
    slots : (N, R) int32
        State, changed in place.
    first : int
        Row to begin with.
    columns : (K,) int64
        The rounded columns.
    offset : (K,) float64
        Where the first point of the lattice is, in lattice steps from the low end of a cell.
    low, high : (N, K) float64
        Ends of the cells in coded units, NaN where missing.
    event, event_log
        Scratch: (P,) bool, (L,) float64.

    Returns
    -------
    next_row : int
        N when the sweep is complete, else the row at which a region ran full.
    moved : int
        Rows whose leaves changed.
    """
    moved = 0
    for n in range(first, y.shape[0]):
        if net.full[0]:
            return n, moved
        row = slots[n]
        for r in range(row.size):
            net.old[r] = row[r]
        detach(net, y[n], row)
        event[:] = False
        weigh_cells(net, columns, low[n], high[n], event, event_log)
        logs = evaluate_row(net, seen[n], event, event_log)[1]
        if net.missing[0]:
            continue
        draw_subtree(rng, net, row, 0, logs)
        changed = False
        for r in range(row.size):
            changed |= row[r] != net.old[r]
        moved += changed
        for k in range(columns.size):
            if np.isnan(low[n, k]):
                continue
            x = 0.0
            for d in range(net.place_ptr[columns[k]], net.place_ptr[columns[k] + 1]):
                r = net.leaf_region[d]
                net.old[r] = FRESH  # its statistics are not those that were saved
                if row[r] < 0:
                    continue
                i = net.begin[r] + row[r]
                if net.edge_count[i] == 0:  # a new leaf: what it predicts is the prior
                    i = net.begin[r] + net.entry[i] - net.entry_ptr[d]
                x = draw_in_cell(rng, net, d, i, low[n, k], high[n, k])
            width = high[n, k] - low[n, k]
            code = min(np.floor((x - low[n, k]) / width * LATTICE), LATTICE - 1.0)
            x = low[n, k] + (code + offset[k]) / LATTICE * width
            for d in range(net.place_ptr[columns[k]], net.place_ptr[columns[k] + 1]):
                y[n, d] = x
        attach(net, y[n], row)
    return y.shape[0], moved


@bare_kernel
def log_density_of_cells(net, y, seen, columns, low, high, given, given_log, slots, options, event, event_log, out):
    """Log predictive (M,) of coded rows (M, P) whose rounded columns are cells (M, K); see `evaluate_row`.

    ``given`` and ``given_log`` are the events that hold for all rows; cells come before them. Where the rows are those
    of the network (``slots`` (M, R), else of no rows) each is taken out, evaluated and put back, as in
    `predictive_kernels.leave_one_out`; ``y`` (M, P) has their exact values then.
    """
    for n in range(seen.shape[0]):
        if slots.shape[0] > 0:
            for r in range(slots.shape[1]):
                net.old[r] = slots[n, r]
            detach(net, y[n], slots[n])
        for d in range(event.size):
            event[d] = given[d]
        for i in range(event_log.size):
            event_log[i] = given_log[i]
        weigh_cells(net, columns, low[n], high[n], event, event_log)
        out[n] = evaluate_row(net, seen[n], event, event_log)[0]
        if slots.shape[0] > 0:
            row = slots[n]
            for r in range(row.size):
                if row[r] >= 0 and net.edge_count[net.begin[r] + row[r]] == 0:
                    node = row[net.parent[r]] if r > 0 else 0
                    row[r] = new_edge(net, r, node, options[n, r])
            attach(net, y[n], row)


@kernel
def shares_of_cells(net, seen, columns, low, high, given, given_log, regions, event, event_log, log_density, out):
    """As `column_shares`, of coded rows (M, P) whose rounded columns are cells (M, K)."""
    for n in range(seen.shape[0]):
        event[:] = given
        event_log[:] = given_log
        weigh_cells(net, columns, low[n], high[n], event, event_log)
        column_shares(net, seen[n : n + 1], event, event_log, regions, log_density[n : n + 1], out[n : n + 1])


@bare_kernel
def draw_rows_of_cells(rng, net, seen, columns, low, high, which, given, given_log, event, event_log, values, leaves):
    """As `draw_rows`, of coded rows (M, P) whose rounded columns are cells (M, K); nothing is drawn within them."""
    start = 0
    while start < which.size:
        n = which[start]
        stop = start + 1
        while stop < which.size and which[stop] == n:
            stop += 1
        for d in range(event.size):
            event[d] = given[d]
        for i in range(event_log.size):
            event_log[i] = given_log[i]
        weigh_cells(net, columns, low[n], high[n], event, event_log)
        draw_rows(rng, net, seen, which[start:stop], event, event_log, values[start:stop], leaves[start:stop])
        start = stop


@bare_kernel
def leave_out_cells_of_rows(net, seen, columns, low, high, given, given_log, event, event_log, scratch, out, without):
    """As `log_densities_left_out`, of coded rows (M, P) whose rounded columns are cells (M, K)."""
    for n in range(seen.shape[0]):
        for d in range(event.size):
            event[d] = given[d]
        for i in range(event_log.size):
            event_log[i] = given_log[i]
        weigh_cells(net, columns, low[n], high[n], event, event_log)
        out[n] = leave_out_cells(net, seen[n], event, event_log, scratch, without[n])


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
        Intervals in which columns are known to lie. A cell is what it has in common with them; its density stays mass
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
        self.columns = np.setdiff1d(schema.rounded_columns, np.array(list(exact), np.int64))
        compiled, width = schema.compiled, schema.cell_widths[self.columns]
        x = values[:, self.columns]
        low, high = x - 0.5 * width, x + 0.5 * width
        self.possible = np.ones(len(values), np.bool_)
        for k, d in enumerate(self.columns):
            if schema.columns[d].kind == "positive":
                low[:, k] = np.maximum(low[:, k], 1e-6 * width[k])
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
        for name in ("possible", "low", "high", "coded", "seen", "log_jacobians"):
            setattr(found, name, np.ascontiguousarray(getattr(self, name)[which]))
        found.ends = self.ends[0][which], self.ends[1][which]
        return found

    def exact(self, codes: np.ndarray | None = None) -> np.ndarray:
        """Coded table (N, P) with the exact values at lattice points (N, K), by default in the middle of the cells."""
        codes = np.full(self.low.shape, LATTICE // 2) if codes is None else codes
        out = self.coded.copy()
        out[:, self.columns] = self.low + (codes + self.offset) / LATTICE * (self.high - self.low)
        return np.ascontiguousarray(place_columns(self.structure, out))

    def codes(self, sampler: Sampler) -> np.ndarray:
        """Lattice points (N, K) uint16 of the exact values in a sampler's table, 0 where missing."""
        first = [int(np.flatnonzero(self.structure.leaf_column == d)[0]) for d in self.columns]
        share = (sampler.coded[:, first] - self.low) / (self.high - self.low)
        return np.nan_to_num(np.floor(share * LATTICE)).astype(np.uint16)

    def sweep(self, rng: np.random.Generator, sampler: Sampler) -> float:
        """Redraw tree and exact values of every row; returns the fraction of rows that moved."""
        if sampler.n_sweeps % COMPACT_EVERY == 0:
            sampler.compact()
        sampler.n_sweeps += 1
        row = moved = 0
        while True:
            scratch = np.zeros(self.seen.shape[1], np.bool_), np.zeros(sampler.net.entry.size)
            state = (sampler.coded, self.seen, sampler.slots)
            cells = (self.columns, self.offset, self.low, self.high)
            row, changed = rounded_sweep(rng, sampler.net, *state, row, *cells, *scratch)
            moved += changed
            if row == len(self.seen):
                return moved / max(row, 1)
            sampler.compact()

    def shares(
        self, net: Any, given: tuple[np.ndarray, np.ndarray], regions: np.ndarray, log: np.ndarray, out: np.ndarray
    ) -> None:
        """`column_shares` of the rows, together with events."""
        shares_of_cells(net, self.seen, *self._cells(), *given, regions, *self._scratch(net), log, out)

    def draw(
        self,
        rng: np.random.Generator,
        net: Any,
        which: np.ndarray,
        given: tuple[np.ndarray, np.ndarray],
        values: np.ndarray,
        leaves: np.ndarray,
    ) -> None:
        """`draw_rows` that complete the rows, together with events."""
        draw_rows_of_cells(rng, net, self.seen, *self._cells(), which, *given, *self._scratch(net), values, leaves)

    def log_densities(self, net: Any, given: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Log density (N,) of the rows under a network, of cells mass over width, together with events."""
        nothing = np.zeros((0, 0), np.int32)
        return self._evaluate(net, self.seen, *given, nothing, nothing)

    def log_densities_left_out(
        self, net: Any, given: tuple[np.ndarray, np.ndarray], out: np.ndarray, without: np.ndarray
    ) -> None:
        """`left_out_kernels.log_densities_left_out` of the rows, together with events; both without the Jacobians."""
        scratch = self._scratch(net)
        leave_out_cells_of_rows(net, self.seen, *self._cells(), *given, *scratch, left_out_scratch(net), out, without)

    def leave_one_out(self, sampler: Sampler) -> np.ndarray:
        """Log predictive (N,) of each row of a sampler given the others; its exact values are integrated out."""
        net = sampler.net
        nothing = np.zeros(self.seen.shape[1], np.bool_), np.zeros(net.entry.size)
        return self._evaluate(net, sampler.coded, *nothing, sampler.slots, sampler.options)

    def _evaluate(self, net, y, given, given_log, slots, options):
        out = np.empty(len(self.seen))
        more = given, given_log, slots, options, *self._scratch(net)
        log_density_of_cells(net, y, self.seen, *self._cells(), *more, out)
        return out + self.log_jacobians.sum(axis=1)

    def _cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.columns, self.low, self.high

    def _scratch(self, net: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.seen.shape[1], np.bool_), np.zeros(net.entry.size)
