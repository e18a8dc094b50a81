"""The states of a record as networks, rebuilt and kept while memory lasts; passes over all of them."""

import zlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np

from pymc_spn.gibbs.network import copied, own_bytes, tight_capacity
from pymc_spn.gibbs.palette import asked_palette, log_jacobian, taken_centres
from pymc_spn.gibbs.sampler import Sampler, place_columns
from pymc_spn.laws.law import Marks
from pymc_spn.leaves import elliptical_cells
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.networks.records import rounded_cells
from pymc_spn.networks.records.column_leaves import ColumnLeaves
from pymc_spn.networks.records.draw_blocks import Asked, DrawBlocks
from pymc_spn.networks.records.drawn_parameters import draw_parameters
from pymc_spn.networks.records.multivariate_leaves import JointLeaves, RowsByGaps, logs_without_rows
from pymc_spn.networks.records.predictive_kernels import leave_one_out
from pymc_spn.networks.records.record import LOG_JOINT, Record
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.networks.records.run_weights import FoundOfRuns, found_of_runs
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.numerics.draw_averages import even_choice
from pymc_spn.numerics.marks import GIVEN_DRAWS
from pymc_spn.records.structure_records import refuse_other_order

KEPT_BYTES = 256_000_000  # networks beyond this are rebuilt at every query


class RecordedStates:
    """Networks of the draws of a record, for questions from any number of threads.

    Networks are built one at a time under a lock and do not change afterwards; `network` adds a thread's own scratch.

    Parameters
    ----------
    record : Record
    whole : RecordedStates, optional
        All draws, where these are some of them; see `some`.
    is_drawn : bool
        Whether weights and leaf parameters are drawn given each state, always the same ones, and not integrated out.
    """

    whole: "RecordedStates | None" = None
    is_drawn = False

    def __init__(self, record: Record, whole: "RecordedStates | None" = None, is_drawn: bool = False) -> None:
        self.record, self.schema, self.whole, self.is_drawn = record, record.schema, whole, is_drawn
        self.structure, self.compiled = self.schema.structure, self.schema.compiled
        self.coded = self.schema.code(record.table)
        n_rows, n_regions = record.digits.shape[2:]
        self.digits = record.digits.reshape(-1, n_rows, n_regions)
        self.hyperparameters = [
            np.ascontiguousarray(record.hyperparameters[k]).reshape(len(self.digits), -1) for k in HYPERPARAMETERS
        ]
        drawn = record.variables.get(f"{self.schema.name}_missing") if self.schema.missing == "draw" else None
        self.cells = None if drawn is None else drawn.reshape(len(self.digits), -1)
        self.rounded = RoundedCells(self.schema, record.table) if self.schema.rounded else None
        self._keep_nothing()

    def _keep_nothing(self) -> None:
        self.joint_leaves = JointLeaves(self.network, self.n_draws, self.structure, self.compiled)
        self.blocks = DrawBlocks(self)
        self._lock = RLock()  # for what is below
        self._builder: Sampler | None = None
        self._kept: dict[int, Any] = {}
        self._leaves: tuple[ColumnLeaves, dict[int, int]] | None = None  # and the place of each draw in them
        self._bytes = 0

    def __reduce__(self) -> Any:
        return type(self), (self.record, self.whole, self.is_drawn)  # what is kept for the next query is made again

    def some(self, n: int) -> "RecordedStates":
        """The states of n draws of each chain, taken evenly, and of one of each run at least: they stand for all."""
        length = len(self.record.draws)
        if n >= length:
            return self
        kept, record = even_choice(length, n), self.record
        if any(np.setdiff1d(own, own[kept]).size for own in record.runs):
            kept = np.union1d(kept, [np.flatnonzero(own == r)[0] for own in record.runs for r in np.unique(own)])
        chosen = replace(
            record,
            digits=record.digits[:, kept],
            draws=record.draws[kept],
            hyperparameters={k: v[:, kept] for k, v in record.hyperparameters.items()},
            variables={k: v[:, kept] for k, v in record.variables.items()},
            exact=None if record.exact is None else record.exact[:, kept],
            filled=None if record.filled is None else record.filled[:, kept],
            runs=record.runs[:, kept],
            log_weights=None,
        )
        return RecordedStates(chosen, self, self.is_drawn)

    @cached_property
    def drawn(self) -> "RecordedStates":
        """The same states with weights and leaf parameters drawn given each."""
        return self if self.is_drawn else RecordedStates(self.record, self.whole and self.whole.drawn, True)

    @property
    def marks(self) -> Marks:
        """What answers say of where the draws come from."""
        chains, draws = self.record.chains, self.record.draws
        n, n_all = len(draws), len(draws if self.whole is None else self.whole.record.draws)
        learner = f"mcmc: {len(chains)} chains of {n_all} recorded draws"
        used = None if self.whole is None else f"{len(chains) * n:,} of {len(chains) * n_all:,}"
        return Marks(GIVEN_DRAWS, learner, chains, draws, True, "under every draw", used)

    @property
    def n_draws(self) -> int:
        """Recorded draws of all chains."""
        return len(self.digits)

    def load(self, s: int, sampler: Sampler | None = None) -> Sampler:
        """Sampler with the state of draw s, to be asked and not to be run; the same bits whatever was loaded before.

        Parameters
        ----------
        s : int
        sampler : Sampler, optional
            One that `load` returned, to be used again. By default it is a new one.
        """
        if sampler is None:
            sampler = Sampler(self.structure, asked_palette(self.compiled), self.coded)
        if self.rounded is not None and self.record.exact is not None:
            n_rows, n_columns = self.rounded.low.shape
            codes = self.record.exact.reshape(-1, n_rows, n_columns)[s]
            sampler.set_table(self.rounded.exact(codes, self.completed(s)))
        elif self.cells is not None:
            sampler.coded = self.coded_rows(self.completed(s))
        if self.record.filled is not None:
            sampler.set_filled(self.record.filled.reshape(self.n_draws, -1)[s])
        sampler.set_hyperparameters(*(h[s] for h in self.hyperparameters))
        sampler.set_digits(self.digits[s])
        # capacities depend on earlier draws, and with them which leaves share a vector instruction
        sampler._resize(tight_capacity(sampler.net))
        sampler.place(np.ascontiguousarray(self.digits[s], np.int32))
        return sampler

    def completed(self, s: int) -> np.ndarray:
        """The table (N, D) of draw s: with the missing cells that were drawn, if they were."""
        if self.cells is None:
            return self.record.table
        table = self.record.table.copy()
        table[np.isnan(table)] = self.cells[s]
        return table

    def check_order(self) -> None:
        """Refuse draws that stand in another order than their labels, by numbers of the first of each chain."""
        record, schema = self.record, self.schema
        firsts = range(0, self.n_draws, len(record.draws)) if record.first_numbers else ()
        states = np.array([self.load(s).statistics()[:4] for s in firsts]).reshape(-1, 4)
        for what, place in (("occupied_nodes", 1), ("occupied_leaves", 3)):
            if what in record.first_numbers:
                refuse_other_order(record, what, states[:, place, None], record.first_numbers[what])
        sources = [(kind, source.get("variable")) for kind, source in schema.hyperparameters.items()]
        # a variable of the model may have been moved after the log joint was recorded
        if LOG_JOINT not in record.first_numbers or any(v not in (None, f"{schema.name}_{k}") for k, v in sources):
            return
        logs = states[:, 0] + [log_jacobian(self.compiled, self.completed(s)) for s in firsts]
        # multivariate leaves of columns that follow closely enlarge the rounding of sums and of filled cells
        tolerance = 1e-2 if self.schema.joint_columns.size else 1e-5
        refuse_other_order(record, "log joint", logs[:, None], record.first_numbers[LOG_JOINT], tolerance)

    def network(self, s: int) -> Any:
        """Network of draw s, not to be changed and without scratch; kept while there is room."""
        net = self._kept.get(s)
        if net is not None:
            return net
        with self._lock:
            net = self._kept.get(s)
            if net is None:
                net = self._build(s)._replace(scratch=None)
                if self._bytes < KEPT_BYTES:
                    self._bytes += own_bytes(net)
                    self._kept[s] = net
            return net

    def _build(self, s: int) -> Any:
        """Network of draw s in arrays of its own."""
        self._builder = self.load(s, self._builder)
        net = copied(self._builder.net)
        if self.is_drawn:
            chain, draw = divmod(s, len(self.record.draws))
            labels = zlib.crc32(f"{self.record.chains[chain]} {self.record.draws[draw]}".encode())
            rng = np.random.default_rng([zlib.crc32(self.digits[s].tobytes()), labels])
            net = draw_parameters(net, self.structure, self._builder.compiled, self.taken, rng)
        return net

    def rows_on_entries(self, d: int) -> np.ndarray:
        """Training rows (S, n) whose leaf of a column has each entry of its palette; missing cells have no leaf.

        Of a column that is in leaves over several columns, the rows in these follow in one column more.
        """
        n_entries = len(self.schema.palette[d])
        places = self.structure.leaf_region[self.structure.leaf_column == d]  # a row reaches one of them
        entry = self.digits[:, :, places].max(axis=2).astype(np.int64)  # (S, N), -1 where missing or in such a leaf
        own = [((entry % n_entries == e) & (entry >= 0)).sum(axis=1) for e in range(n_entries)]
        if d in self.schema.joint_columns:
            own.append(((entry < 0) & ~np.isnan(self.record.table[:, d])).sum(axis=1))
        return np.stack(own, axis=1)

    def children_with_rows(self, net: Any) -> slice:
        """Slots of the top sum node that hold training rows."""
        return slice(int(net.tree.n_prior[0]), int(net.edges.top[0]))

    def all_leaves(self, d: int) -> tuple[Leaves, np.ndarray]:
        """Leaves (n,) of a column under all draws, and (S + 1,) the first of each draw."""
        of_draws = (self.column_leaves(s, self.network(s)) for s in range(self.n_draws))
        each = [columns.leaves(k, d) for columns, k in of_draws]
        begin = np.concatenate([[0], np.cumsum([one.family.size for one in each])]).astype(np.int64)
        return Leaves(*map(np.concatenate, zip(*each, strict=True))), begin

    def leaf_moments(self, s: int, d: int, event: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of each leaf of a column under draw s, given an event of it or None."""
        columns, k = self.column_leaves(s, self.network(s))
        return columns.moments(k, d, event)

    def column_leaves(self, s: int, net: Any) -> tuple[ColumnLeaves, int]:
        """Leaves of networks, that of draw s among them, and its place; of all draws as far as they are kept."""
        if s not in self._kept:
            return ColumnLeaves([net], self.compiled), 0
        with self._lock:
            if self._leaves is None:
                for other in range(self.n_draws):
                    if self._bytes < KEPT_BYTES:
                        self.network(other)
                kept = sorted(self._kept)  # the same order whatever was asked first
                nets = [self._kept[other] for other in kept]
                self._leaves = ColumnLeaves(nets, self.compiled), {other: k for k, other in enumerate(kept)}
            leaves, place = self._leaves
        return leaves, place[s]

    @property
    def cell_tolerance(self) -> float:
        """Of the densities of rows with cells; several cells in one leaf over several columns have no closed form."""
        several = np.isin(self.schema.rounded_columns, self.schema.joint_columns).sum() > 1
        return elliptical_cells.TOLERANCE if several else rounded_cells.TOLERANCE

    @property
    def has_joints(self) -> bool:
        """Whether leaves may be over several columns."""
        return self.schema.joint_columns.size > 0

    def coded_rows(self, values: np.ndarray) -> np.ndarray:
        """Rows (M, D) in the sampler's units, a column for each place (M, P)."""
        return place_columns(self.structure, self.schema.code(values))

    def log_jacobian(self, values: np.ndarray) -> np.ndarray:
        """Log density (M,) of the coding of each row's points."""
        return self.schema.log_jacobians(values).sum(axis=1)

    def cells_of(self, values: np.ndarray, exact: Iterable[int], events: dict[int, Any]) -> RoundedCells | None:
        """What recorded rows (M, D) stand for; None where every value stands for itself. See `RoundedCells`."""
        if self.rounded is None:
            return None
        cells = RoundedCells(self.schema, values, exact, events)
        return cells if cells.columns.size else None

    def log_densities(
        self, values: np.ndarray, events: dict[int, Any], cells: RoundedCells | None = None
    ) -> np.ndarray:
        """Log predictive (S, M) of rows (M, D) with NaN where there is no point, together with events.

        With ``cells`` of the same rows, a value of a rounded column counts by log(mass / width).
        """
        out = self.blocks.log_densities(Asked(values, events, cells))
        out += self.log_jacobian(values) if cells is None else cells.log_jacobians.sum(axis=1)
        return out

    def log_densities_left_out(
        self, values: np.ndarray, events: dict[int, Any], cells: RoundedCells | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `log_densities`, and (S, M, D) without what is known of each column, event or point."""
        out, without = self.blocks.log_densities_left_out(Asked(values, events, cells))
        own = self.schema.log_jacobians(values) if cells is None else cells.log_jacobians
        out += own.sum(axis=1)
        without += own @ (1.0 - np.eye(own.shape[1]))
        return out, without

    @cached_property
    def taken(self) -> np.ndarray:
        """Palette entries (E,) whose centre was taken from their column."""
        return taken_centres(self.schema.columns, self.record.table, self.schema.palette, self.schema.resolution)

    @cached_property
    def found_of_runs(self) -> FoundOfRuns | None:
        """What the runs of the chains say of training rows left out."""
        return found_of_runs(self)

    def leave_one_out(self, draws: np.ndarray | None = None, rows: np.ndarray | None = None) -> np.ndarray:
        """Log predictive (S, N) of training rows given all others under draws; missing cells summed out.

        By default of all rows and under all draws.
        """
        draws = np.arange(self.n_draws) if draws is None else draws
        own = np.arange(len(self.coded)) if rows is None else rows
        out = np.empty((draws.size, own.size))
        sampler = Sampler(self.structure, asked_palette(self.compiled), self.coded)
        cells = None if self.rounded is None else self.rounded.of_rows(own)
        asked = place_columns(self.structure, self.coded)[own] if cells is None else cells.seen
        ends = None if cells is None else cells.at_places
        by_gaps: dict[int, RowsByGaps] = {}
        of_rows = None if cells is None else (cells.middles, cells.widths, by_gaps)
        jacobian = self.log_jacobian(self.record.table[own]) if cells is None else cells.log_jacobians.sum(axis=1)
        for s, logs in zip(draws.tolist(), out, strict=True):
            self.load(s, sampler)
            net, tables = sampler.net, (sampler.coded, sampler.filled, sampler.slots, sampler.options)
            y, filled, *seats = (table[own] for table in tables)
            of_joints = None
            if of_rows is not None and self.has_joints:
                of_joints = logs_without_rows(net, self.compiled, *of_rows, filled, seats[0])
            leave_one_out(*net, y, filled, asked, *seats, ends, of_joints, logs)
        return out + jacobian

    def moments(
        self, row: np.ndarray, events: dict[int, Any], wanted: Any, covariance: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (S, D) and, if asked, covariances (S, D, D) given points (D,) and events; 0 if not wanted.

        Ordinal columns count by their numbers, not their codes.
        """
        origin = np.array([column.origin for column in self.schema.columns], np.float64)
        counted = np.isin(np.arange(row.size), list(wanted))

        def leaf_moments(s: int, d: int) -> tuple[np.ndarray, np.ndarray]:
            mean, variance = self.leaf_moments(s, d, events.get(d))
            return mean + origin[d], variance

        means, covariances = self.blocks.moments(Asked(row[None], events), counted, leaf_moments, covariance)
        known = counted & ~np.isnan(row)
        means[:, known] = (row + origin)[known]
        means[:, ~counted] = 0.0
        if covariance:
            covariances[:, ~counted] = 0.0
            covariances[:, :, ~counted] = 0.0
        return means, covariances
