"""One chain of the collapsed sampler without PyMC: state, sweeps, growth of the network, statistics, digits."""

import numpy as np

from pymc_spn.gibbs.component_kinds import LEFT, build_move
from pymc_spn.gibbs.joint_leaves import add_rows, n_kinds, refresh_joints, set_psi0
from pymc_spn.gibbs.joint_statistics import joint_scales
from pymc_spn.gibbs.network import (
    build_network,
    enlarged_capacity,
    grown,
    move_blocks,
    resized,
    tight_capacity,
)
from pymc_spn.gibbs.occupancy import (
    MISSING,
    digits_of_rows,
    options_of_rows,
    rebuild,
    set_hyperparameters,
)
from pymc_spn.gibbs.redraw import MOVES, PRIOR, SWEEP, redraw_rows
from pymc_spn.gibbs.statistics import entry_priors, log_joint, pack_statistics

ROWS_AT_A_TIME = 512  # Ctrl-C is seen between two calls of a kernel
COMPONENT_MOVES = 32  # a sweep
MOST_ROWS = 4_000  # of a move
COMPACT_EVERY = 16  # sweeps; a rebuild costs a tenth of a sweep and removes rounding drift


def place_columns(structure, coded):
    """The table (M, D) with a column for each place (M, P): columns repeat where products split differently."""
    if structure.leaf_column.size == coded.shape[1]:
        return coded
    return np.ascontiguousarray(coded[:, structure.leaf_column])


class Sampler:
    """Assignments of a table to a region tree, and the moves that redraw them.

    Parameters
    ----------
    structure : RegionTree
    compiled : CompiledPalette
    coded : (N, D) float64
        Table in the units of the palette, NaN where missing; kept with a column for each place (`network`).
    jacobian : float
        Log density of the coded table relative to the original one (`palette.log_jacobian`), in nats.
    """

    def __init__(self, structure, compiled, coded, jacobian=0.0):
        self.structure, self.compiled, self.jacobian = structure, compiled, jacobian
        self.coded = place_columns(structure, coded)
        self.table = self.filled = coded
        self.reset()
        self.slots = np.full((len(coded), structure.n_regions), -1, np.int32)
        self.options = np.zeros_like(self.slots)
        self.hyperparameters = None
        self.moves = None
        self.cells = None, None  # `DistinctCells` and `LeafParameters` where columns are recorded in cells

    def reset(self):
        """Forget everything: drawn cells, and the sizes of the arrays, which decide when edges are renumbered."""
        self.n_sweeps = 0
        self.net = build_network(self.structure, self.compiled, len(self.coded))
        if self.net.joints is not None:
            self.filled = np.where(np.isnan(self.table), self.compiled.joint_constants[:, 0], self.table)

    def open_joints(self, is_open):
        """Say in which regions (R,) new leaves over several columns may come."""
        self.net.joints.is_open[:] = is_open
        self.moves = None

    def set_hyperparameters(self, concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale=None):
        """Install concentrations (2,) and the leaf hyperparameters (D,) each; without covariance scales they are 1."""
        if covariance_scale is None:
            covariance_scale = np.ones(leaf_scale.size)
        self.hyperparameters = (concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale)
        joints = self.net.joints
        if joints is not None:
            set_psi0(joints, joint_scales(self.compiled.joint_constants, covariance_scale)[joints.column])
        self.set_priors(concentration, entry_priors(self.compiled, leaf_scale, leaf_shape, precision_ratio))

    def set_priors(self, concentration, prior):
        """Install concentrations (2,) and the prior parameters (E, 4) of every palette entry, in coded units."""
        set_hyperparameters(self.net, concentration, prior)

    def set_digits(self, digits):
        """Start from digits (N, R): modulo the number of splits or of palette entries, they say which one is meant."""
        n_options = n_kinds(self.structure, self.compiled)
        self.options[:] = 0
        several = n_options > 1
        self.options[:, several] = np.maximum(digits[:, several], 0) % n_options[several]
        self._rebuild(np.ascontiguousarray(digits, np.int32))

    def draw_prior(self, rng):
        """Seat all rows by the prior alone (Polya urn): the data are not looked at, except for their gaps."""
        self.set_digits(np.full(self.slots.shape, MISSING, np.int32))
        self.redraw(rng, PRIOR, 0)

    def seat(self, rng, digits):
        """Start from digits (n, R) of the first rows; the others follow, each drawn given all before it."""
        labels = np.full(self.slots.shape, MISSING, np.int32)
        labels[: len(digits)] = digits
        self.set_digits(labels)
        self.redraw(rng, SWEEP, len(digits))

    def compact(self):
        """Renumber the edges, remove holes and recompute all statistics from the data, which ends rounding drift."""
        self.options[:] = options_of_rows(self.net, self.slots)
        self._rebuild(self.slots.copy())

    def set_table(self, placed):
        """Install a coded table (N, P) before the assignments to it; its drawn missing cells stay."""
        self.coded = placed
        if self.net.joints is not None:
            self.table = np.ascontiguousarray(placed[:, self.net.palette.place_ptr[:-1]])
            self.filled = np.where(np.isnan(self.table), self.filled, self.table)

    def rebuild_joints(self):
        """Statistics of leaves over several columns from the assignments and the completed rows."""
        if self.net.joints is not None:
            self.net.joints.sums[:] = 0.0
            self.net.joints.products[:] = 0.0
            add_rows(self.net.edges, self.net.joints, self.filled, self.slots)
            refresh_joints(self.net.edges, self.net.joints)

    @property
    def filled_at(self):
        """Which cells are drawn where their row is in a leaf over several columns."""
        return np.isnan(self.table) & np.isin(np.arange(self.table.shape[1]), self.net.joints.column)

    def set_filled_rows(self, filled):
        """Install completed rows (N, D) before their table and the assignments."""
        if self.net.joints is not None:
            self.filled = np.array(filled)

    def set_filled(self, cells):
        """Install the cells (m,) of `filled_at`, row by row."""
        self.filled[self.filled_at] = cells

    def _rebuild(self, labels):
        while not self.place(labels) or self.net.edges.full[0]:
            self._resize(enlarged_capacity(self.net))
        tight = tight_capacity(self.net)
        if self.net.edges.capacity.sum() > 2 * tight.sum():
            self._resize(tight)
            self.place(labels)

    def place(self, labels):
        """Rebuild the network from labels (N, R) and the present options; returns whether it had room."""
        return rebuild(self.net, self.coded, self.filled, labels, self.options, self.slots)

    def _resize(self, capacity):
        self.net = resized(self.net, self.structure, self.compiled, capacity)

    def begin_sweep(self):
        """Count a sweep, and compact the state from time to time."""
        if self.n_sweeps % COMPACT_EVERY == 0:
            self.compact()
        self.n_sweeps += 1

    def move_components(self, rng):
        """Moves of whole components, where leaves are over several columns; they seat an average row thrice at most."""
        if self.net.joints is None:
            return
        self._fit_move()
        self.moves.at[LEFT] = COMPONENT_MOVES
        while self.redraw_some(rng, MOVES, 0, len(self.coded))[0] < len(self.coded):
            edges = self.net.edges
            self.net = grown(self.net, self.structure, self.compiled, enlarged_capacity(self.net))
            number = np.zeros(self.net.edges.n_data.size, self.slots.dtype)
            move_blocks(edges.begin, self.net.edges.begin, edges.capacity, [(self.moves.number, number)])
            self.moves = self.moves._replace(number=number)

    def _fit_move(self):
        """Make room for a move in the present network."""
        if self.moves is None:
            budget = len(self.coded) / COMPONENT_MOVES
            tables = self.slots, self.coded, self.table
            self.moves = build_move(self.net.tree, self.net.joints, *tables, MOST_ROWS, budget)
        if self.moves.number.size != self.net.edges.n_data.size:
            self.moves = self.moves._replace(number=np.zeros(self.net.edges.n_data.size, self.slots.dtype))

    def redraw_some(self, rng, task, first, last):
        """`redraw_rows` of the table."""
        if self.net.joints is not None and self.moves is None:
            self._fit_move()
        tables = self.coded, self.table, self.filled, self.slots
        return redraw_rows(rng, *self.net, self.moves, *self.cells, *tables, task, first, last)

    def sweep(self, rng):
        """One sweep over all rows.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        float
            Fraction of rows that moved.
        """
        self.begin_sweep()
        moved = self.redraw(rng, SWEEP, 0)
        self.move_components(rng)
        return moved / max(len(self.coded), 1)

    def redraw(self, rng, task, row):
        """Redraw the rows from one on by a task of `gibbs.redraw`; returns how many moved."""
        moved = 0
        while row < len(self.coded):
            end = min(row + ROWS_AT_A_TIME, len(self.coded))
            row, changed = self.redraw_some(rng, task, row, end)
            moved += changed
            if row < end:
                self.compact()  # a region ran full: make room and go on
        return moved

    def digits(self, dtype=np.int32):
        """Digits (N, R) of the state: children of a sum node are numbered by first appearance."""
        return digits_of_rows(self.net, self.slots).astype(dtype, copy=False)

    def statistics(self):
        """Statistics vector; its ticket is the log joint at the current hyperparameters."""
        state = pack_statistics(self.net, self.jacobian)
        state[0] = log_joint(state, self.compiled, *self.hyperparameters)
        return state
