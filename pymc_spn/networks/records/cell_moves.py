"""Moves of missing cells that other parts of a model use: proposed by the network, accepted on the rest of the model.

The state is the completed table with its assignments. A row with gaps is taken out of the network. Then an induced tree
and the cells are drawn from the network's conditional given the row's observed cells and all other rows (`anew`). Or
the cells alone are drawn from the predictives of the row's own leaves. Both are exact conditionals of the network, so
what remains of the Metropolis-Hastings ratio is the rest of the model, and whether cells of columns without negative
values are not below 0, as in all answers. The first kind jumps between clusters, the
second is accepted more often where the rest of the model says much about the cells; sweeps take turns.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.gibbs.exact import SAFE, draw_subtree, evaluate_regions, evaluate_regions_by_logs
from pymc_spn.gibbs.leaf_kernels import evaluate_leaves
from pymc_spn.gibbs.occupancy import FRESH, attach, detach, drop_edge, make_again, mark_missing
from pymc_spn.leaves.families import CONJUGATES, PREDICTIVES
from pymc_spn.networks.records.predictive_kernels import draw_value
from pymc_spn.numerics.kernel_options import bare_kernel

TINY, LARGEST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


@bare_kernel
def propose_cells(
    rng, tree, palette, masses, edges, nodes, leaves, scratch, y, seen, slots, anew, options, values, family
):
    """Take a row out of the network and draw its missing cells; its tree, drawn or kept, is left in ``scratch.new``.

    Parameters
    ----------
    rng : numpy.random.Generator
    tree, palette, masses, edges, nodes, leaves, scratch
        Groups of a `Network`.
    y : (P,) float64
        Coded row as completed, and ``seen`` the same with NaN in the gaps.
    seen : (P,) float64
    slots : (R,) int32
        The row's edges.
    anew : bool
        Whether a tree is drawn too, or the row's own is kept.
    options : (R,) int32
        Out: split or palette entry of each of the row's edges, for those that have to be made again.
    values, family : (D,) float64, (D,) int64
        Out, in the gaps: what `draw_value` drew, and the family of the leaf.
    """
    for r in range(slots.size):
        scratch.old[r] = slots[r]
        scratch.new[r] = slots[r]
        if slots[r] >= 0:
            i = edges.begin[r] + slots[r]
            d = tree.column[r]
            options[r] = leaves.entry[i] - palette.entry_ptr[d] if d >= 0 else edges.split[i]
    detach(tree, palette, edges, nodes, leaves, scratch, y, slots)
    if anew:
        mark_missing(tree, scratch, seen)
        evaluate_leaves(tree, palette, edges, leaves, scratch, seen)
        for d in range(seen.size):
            r = tree.leaf_region[d]
            if scratch.missing[r]:  # every leaf is worth the same, so that the tree goes on by its prior
                scratch.edge_value[edges.begin[r] : edges.begin[r] + edges.top[r]] = 1.0
                scratch.log_value[edges.begin[r] : edges.begin[r] + edges.top[r]] = 0.0
        scratch.missing[:] = False
        evaluate_regions(tree, palette, masses, edges, nodes, scratch)
        logs = not scratch.node_value[0] > SAFE
        if logs:
            evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch)
        draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, scratch.new, 0, logs)
    else:
        make_again(tree, palette, masses, edges, nodes, leaves, slots, options)
    for d in range(seen.size):
        r = tree.leaf_region[d]
        if scratch.new[r] >= 0 and np.isnan(seen[d]):
            slot = edges.begin[r] + scratch.new[r]
            values[palette.source[d]] = draw_value(rng, palette, leaves, d, slot)
            family[palette.source[d]] = palette.family[leaves.entry[slot]]


@bare_kernel
def settle_row(tree, palette, masses, edges, nodes, leaves, scratch, y, seen, slots, accepted, options):
    """Put a row back: on the tree in ``scratch.new`` with its new cells if these are accepted, else on its old one."""
    if accepted:
        for r in range(slots.size):
            slots[r] = scratch.new[r]
        for d in range(seen.size):
            if np.isnan(seen[d]):
                scratch.old[tree.leaf_region[d]] = FRESH  # its statistics are not those that were saved
    else:
        for r in range(slots.size - 1, -1, -1):
            if scratch.new[r] >= 0 and edges.n_data[edges.begin[r] + scratch.new[r]] == 0:
                drop_edge(tree, palette, edges, nodes, leaves, r, scratch.new[r])
        make_again(tree, palette, masses, edges, nodes, leaves, slots, options)
    attach(tree, palette, edges, nodes, leaves, scratch, y, slots)


class CellMoves:
    """Moves of the missing cells of one table.

    Parameters
    ----------
    schema : NetworkSchema
    rows, columns : (m,) int64
        Places of the missing cells, row by row.
    """

    def __init__(self, schema: Any, rows: np.ndarray, columns: np.ndarray) -> None:
        self.rows, self.columns = rows, columns
        self.centre, self.scale, self.lowest = schema.compiled.centre, schema.compiled.scale, schema.lowest[columns]
        self.places = [np.flatnonzero(schema.structure.leaf_column == d) for d in range(len(schema.columns))]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        self.cells = [slice(a, b) for a, b in zip(starts, [*starts[1:], rows.size], strict=True)]
        self.options = np.zeros(schema.structure.n_regions, np.int32)
        self.values = np.zeros(len(schema.columns))
        self.family = np.zeros(len(schema.columns), np.int64)
        self.n_sweeps = 0

    def sweep(
        self,
        rng: np.random.Generator,
        sampler: Any,
        missing: np.ndarray,
        log_rest: Callable[[np.ndarray], float] | None,
    ) -> tuple[np.ndarray, float]:
        """One move for every row with gaps.

        Parameters
        ----------
        rng : numpy.random.Generator
        sampler : Sampler
            Holds the completed table and its assignments; both are changed.
        missing : (m,) float64
            The cells, in the units of the data.
        log_rest : callable, optional
            Log density of the rest of the model at given cells; None where nothing else uses them.

        Returns
        -------
        missing : (m,) float64
            A new array.
        accepted : float
            Fraction of the rows whose proposal was accepted.
        """
        missing = missing.copy()
        log_now = log_rest(missing) if log_rest else 0.0
        anew = log_rest is None or self.n_sweeps % 2 == 0
        self.n_sweeps += 1
        accepted = 0
        for cells in self.cells:
            n = self.rows[cells.start]
            if sampler.net.edges.full[0]:
                sampler.compact()
            y, slots = sampler.coded[n], sampler.slots[n]
            seen = y.copy()
            for d in self.columns[cells]:
                seen[self.places[d]] = np.nan
            drawn = (self.options, self.values, self.family)
            propose_cells(rng, *sampler.net.of_columns, y, seen, slots, anew, *drawn)
            proposed = missing.copy()
            proposed[cells] = self._in_data_units(rng, self.columns[cells])
            take = bool(np.all(proposed[cells] >= self.lowest[cells]))
            if take:
                log_new = log_rest(proposed) if log_rest else 0.0
                take = log_new >= log_now or math.log(1.0 - rng.random()) < log_new - log_now
            if take:
                missing, log_now = proposed, log_new
                self._write(y, cells, missing)
                accepted += 1
            settle_row(*sampler.net.of_columns, y, seen, slots, take, self.options)
        return missing, accepted / max(len(self.cells), 1)

    def _in_data_units(self, rng: np.random.Generator, columns: np.ndarray) -> np.ndarray:
        drawn = self.values[columns]
        x = drawn * self.scale[columns] + self.centre[columns]
        for k, code in enumerate(self.family[columns].tolist()):
            finish, predictive = CONJUGATES[code].finish, PREDICTIVES[code]
            if finish is not None:
                x[k] = finish(rng, drawn[k])
            elif predictive.has_masses:
                x[k] = round(x[k])
            elif predictive.lowest == 0.0:
                x[k] = min(max(x[k], TINY), LARGEST)  # what rounding takes from a value near 0
        return x

    def _write(self, y: np.ndarray, cells: slice, missing: np.ndarray) -> None:
        """Cells into a coded row: coded from what is recorded, so that a record gives the same bits."""
        for k in range(cells.start, cells.stop):
            d = self.columns[k]
            y[self.places[d]] = (missing[k] - self.centre[d]) / self.scale[d]
