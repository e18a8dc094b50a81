"""Questions about many rows under all draws, by kernels over blocks: draws in pieces, these over threads."""

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.networks.records.block_flows import log_densities_left_out_of_blocks, shares_of_blocks
from pymc_spn.networks.records.block_kernels import BlockRows, block_scratch, log_densities_of_blocks
from pymc_spn.networks.records.blocked_rows import blocked_rows
from pymc_spn.networks.records.joint_events import logs_left_out, logs_of_leaves
from pymc_spn.networks.records.joint_predictives import JointColumn, JointPredictives, RowsByGaps
from pymc_spn.networks.records.packed_draws import PackedDraws, packed
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.networks.records.share_kernels import column_shares, regions_of
from pymc_spn.numerics.answer_steps import current_bar
from pymc_spn.numerics.threads import for_each

DRAWS = 64  # of a piece
ROWS = 2_048  # of a piece
ROWS_OF_JOINTS = 512  # of a piece where leaves are over several columns, whose values are held
KEPT_BYTES = 256_000_000  # packed draws beyond these are packed at every question
ALONE = 400_000  # values of leaves that one thread evaluates before another one has started


class Piece(NamedTuple):
    """Some draws, and some rows for them."""

    draws: slice
    rows: slice
    pack: PackedDraws
    known: BlockRows

    @property
    def n_rows(self) -> int:
        """Rows that were asked for; the kernels see a multiple of eight."""
        return self.rows.stop - self.rows.start

    @property
    def shape(self) -> tuple[int, int]:
        """Draws, and rows as the kernels see them."""
        return self.pack.n_draws, self.known.y.shape[1]


class LeafQuestion(NamedTuple):
    """Rows in which a column's leaves are asked for.

    Parameters
    ----------
    values : (M, D) float64
        NaN where there is no point.
    events : dict of int to event
    cells : RoundedCells or None
        Of the same rows.
    column : int
    begin : (S + 1,) int64
        First leaf of each draw.
    laws : (n, K) float64
        Numbers that the leaves of all draws have.
    """

    values: np.ndarray
    events: dict[int, Any]
    cells: RoundedCells | None
    column: int
    begin: np.ndarray
    laws: np.ndarray


class DrawBlocks:
    """Packed draws of recorded states, and what the kernels say of rows.

    Parameters
    ----------
    states : RecordedStates
    """

    def __init__(self, states: Any) -> None:
        self._states = states
        self._size = DRAWS
        self._lock = Lock()  # for what is below
        self._kept: dict[int, PackedDraws] = {}
        self._bytes = 0

    def log_densities(self, values: np.ndarray, events: dict[int, Any], cells: RoundedCells | None) -> np.ndarray:
        """Log predictives (S, M) of rows (M, D) in coded units; NaN of those that must be asked one by one."""
        out = np.empty((self._states.n_draws, len(values)))

        def ask(piece: Piece) -> None:
            found = np.empty(piece.shape)
            log_densities_of_blocks(piece.pack, piece.known, block_scratch(piece.pack, piece.known), found)
            out[piece.draws, piece.rows] = found[:, : piece.n_rows]

        self._ask(ask, values, events, cells, out)
        return out

    def log_densities_left_out(
        self, values: np.ndarray, events: dict[int, Any], cells: RoundedCells | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same, and (S, M, D) without what is known of each column."""
        out = np.empty((self._states.n_draws, len(values)))
        without = np.empty((*out.shape, values.shape[1]))

        def ask(piece: Piece) -> None:
            found, rest = np.empty(piece.shape), np.empty((*piece.shape, values.shape[1]))
            wanted = np.zeros(piece.pack.tree.parent.size, np.bool_)
            scratch = block_scratch(piece.pack, piece.known)
            log_densities_left_out_of_blocks(piece.pack, piece.known, scratch, wanted, found, rest)
            out[piece.draws, piece.rows] = found[:, : piece.n_rows]
            without[piece.draws, piece.rows] = rest[:, : piece.n_rows]

        self._ask(ask, values, events, cells, out, True)
        known = ~np.isnan(values)
        known[:, list(events)] = True
        without[:, known.sum(axis=1, keepdims=True) - known == 0] = 0.0
        return out, without

    def shares(self, asked: "LeafQuestion") -> tuple[np.ndarray, np.ndarray]:
        """Log predictives (S, M) in coded units, and probabilities (M, n) of the leaves of all draws."""
        shares = np.empty((len(asked.values), asked.laws.shape[0]))
        logs, _ = self._of_leaves(asked, False, shares)
        for s, which, share in self._one_by_one(asked, logs):
            shares[which, asked.begin[s] : asked.begin[s + 1]] = share
        return logs, shares

    def joint_shares(self, asked: "LeafQuestion", column: JointColumn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `shares`, and probabilities (M, m) of the leaves over several columns; logs NaN where none are valid."""
        shares = np.empty((len(asked.values), asked.laws.shape[0]))
        several = np.zeros((len(asked.values), column.circuit.size))
        logs, _ = self._of_leaves(asked, False, shares, column, several)
        return logs, shares, several

    def averages(self, asked: "LeafQuestion", variance: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Log predictives (S, M) in coded units, and averages (S, M, K) over the leaves of each draw.

        With ``variance`` the last one of (S, M, K + 1) is that of the first number over the leaves.
        """
        logs, found = self._of_leaves(asked, variance, np.empty((0, 0)))
        for s, which, share in self._one_by_one(asked, logs):
            laws = asked.laws[asked.begin[s] : asked.begin[s + 1]]
            found[s, which, : laws.shape[1]] = share @ laws
            if variance:
                away = laws[:, 0] - found[s, which, :1]
                found[s, which, -1] = (share * away**2).sum(axis=1)
        return logs, found

    def _of_leaves(
        self,
        asked: "LeafQuestion",
        variance: bool,
        shares: np.ndarray,
        column: JointColumn | None = None,
        several: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the kernels say of a column's leaves; shares (M, n) are written unless they are of no rows."""
        values, width = asked.values, asked.laws.shape[1] + variance
        logs = np.empty((self._states.n_draws, len(values)))
        averages = np.empty((*logs.shape, width))
        several = np.empty((0, 0)) if several is None else several
        wanted = np.zeros(self._states.structure.n_regions, np.bool_)
        wanted[regions_of(self._states.structure, asked.column)] = True

        def ask(piece: Piece) -> None:
            found, mean = np.empty(piece.shape), np.empty((*piece.shape, width))
            leaves = slice(asked.begin[piece.draws.start], asked.begin[piece.draws.stop])
            laws = np.ascontiguousarray(asked.laws[leaves])
            each = shares[piece.rows] if shares.size else shares
            of_joints = several[piece.rows] if several.size else several
            place = np.zeros(0, np.int64) if column is None else self._places(piece.draws, asked.column, column)
            scratch = block_scratch(piece.pack, piece.known)
            shares_of_blocks(
                piece.pack,
                piece.known,
                scratch,
                asked.column,
                wanted,
                laws,
                found,
                mean,
                each,
                leaves.start,
                of_joints,
                place,
            )
            logs[piece.draws, piece.rows] = found[:, : piece.n_rows]
            averages[piece.draws, piece.rows] = mean[:, : piece.n_rows]

        self._ask(ask, values, asked.events, asked.cells, logs)
        return logs, averages

    def _one_by_one(self, asked: "LeafQuestion", logs: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Rows (k,) of each draw whose logs are NaN, and their probabilities (k, n) of leaves; the logs are written."""
        path = regions_of(self._states.structure, asked.column)
        for s in np.flatnonzero(np.isnan(logs).any(axis=1)).tolist():
            which, net = np.flatnonzero(np.isnan(logs[s])), self._states.network(s)
            given = self._states.event_logs(s, net, asked.events)
            log, share = np.empty(which.size), np.zeros((which.size, asked.begin[s + 1] - asked.begin[s]))
            if asked.cells is None:
                column_shares(
                    *net, self._states.coded_rows(asked.values[which]), *given, path, log, share, share[:, :0]
                )
            else:
                cells = asked.cells.of_rows(which)
                cells.shares(
                    net, self._states.known_of_cells(net, cells, given, asked.events), path, log, share, share[:, :0]
                )
            logs[s, which] = log
            yield s, which, share

    def _ask(
        self,
        ask: Callable[[Piece], None],
        values: np.ndarray,
        events: dict[int, Any],
        cells: RoundedCells | None,
        logs: np.ndarray,
        left_out: bool = False,
    ) -> None:
        """Ask all pieces; then mark in the logs (S, M) rows that the kernels cannot take, and those without a cell.

        Leaves over several columns are known without each of their columns if they are to be ``left_out``, without
        events of them.
        """
        n_rows, size = len(values), ROWS_OF_JOINTS if self._states.has_joints else ROWS
        coded = self._states.schema.code(values) if cells is None else cells.coded
        excluded = np.zeros(n_rows, np.bool_)

        def pieces() -> Iterator[Piece]:
            known: dict[int, BlockRows] = {}
            for draws, pack in self.packs():
                ends, event_log = self.event_logs(draws, pack, events)
                for start in range(0, n_rows, size):
                    part = slice(start, min(start + size, n_rows))
                    if start not in known:
                        known[start], excluded[part] = blocked_rows(pack, coded, events, cells, part)
                    yield Piece(draws, part, pack, known[start]._replace(event_ptr=ends, event_log=event_log))

        gaps: dict[tuple[int, int], RowsByGaps] = {}
        middles, widths = (values, None) if cells is None else (cells.middles, cells.widths)

        def ask_with_joints(piece: Piece) -> None:
            joints, rows = self.joints(piece.draws), middles[piece.rows]
            sizes = np.repeat([own.columns.size for _, own in joints], [own.slots.size for _, own in joints])
            joint_log, first = np.zeros((sizes.size, piece.shape[1])), 0
            begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            without = np.zeros((begin[-1] if left_out else 0, piece.shape[1]))
            for r, own in joints:
                key, last = (r, piece.rows.start), first + own.slots.size
                if key not in gaps:  # the same whoever stores it
                    width = None if widths is None else widths[np.ix_(np.r_[piece.rows], own.columns)]
                    gaps[key] = RowsByGaps.of(rows[:, own.columns], width)
                found = logs_of_leaves(own, self._states.compiled, rows, events, gaps[key])
                joint_log[first:last, : piece.n_rows] = found
                if left_out:
                    of_leaves = logs_left_out(own, self._states.compiled, found, gaps[key])
                    without[begin[first] : begin[last], : piece.n_rows] = of_leaves
                first = last
            known = piece.known._replace(joint_log=joint_log, joint_without=without, joint_first=begin[:-1])
            ask(piece._replace(known=known))

        n_leaves = self._states.n_draws * self._states.structure.leaf_region.size * n_rows
        current_bar().expect(-(-self._states.n_draws // self._size) * -(-n_rows // size))
        for_each(ask_with_joints if self._states.has_joints else ask, pieces(), n_leaves > ALONE)
        logs[:, excluded] = np.nan
        nothing = np.isnan(values).all(axis=1)
        if not events:
            logs[:, nothing] = 0.0

    def packs(self) -> Iterator[tuple[slice, PackedDraws]]:
        """All draws, packed in pieces, kept while there is room."""
        n_draws = self._states.n_draws
        for start in range(0, n_draws, self._size):
            stop = min(start + self._size, n_draws)
            pack = self._kept.get(start)
            if pack is None:
                with self._lock:
                    pack = self._kept.get(start)
                    if pack is None:
                        nets = [self._states._shared_network(s) for s in range(start, stop)]
                        pack = packed(nets, self.joints(slice(start, stop)))
                        if self._bytes < KEPT_BYTES:
                            self._kept[start] = pack
                            self._bytes += pack.nbytes
            yield slice(start, stop), pack

    def joints(self, draws: slice) -> list[tuple[int, JointPredictives]]:
        """Regions with leaves over several columns, and these leaves of some draws."""
        leaves = self._states.joint_leaves
        return [(r, leaves.of(r).of_networks(draws.start, draws.stop)) for r in leaves.regions]

    def _places(self, draws: slice, d: int, column: JointColumn) -> np.ndarray:
        """Which of a column's leaves over several columns each one of packed draws is, -1 of others."""
        leaves, first, begin = self._states.joint_leaves, 0, []
        path = regions_of(self._states.structure, d).tolist()
        for r in leaves.regions:
            own = leaves.of(r).begin
            if r in path:
                begin.append(first - int(own[draws.start]))
            first += int(own[draws.stop] - own[draws.start])
        at = np.arange(column.begin[draws.start], column.begin[draws.stop])
        out = np.full(first, -1)
        out[np.array(begin, np.int64)[column.kind[at]] + column.number[at]] = at
        return out

    def event_logs(self, draws: slice, pack: PackedDraws, events: dict[int, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Log probabilities of events in the leaves of packed draws, column by column, and where each column ends."""
        n_columns = pack.palette.place_ptr.size - 1
        found = [np.zeros(0)] * n_columns
        for c, event in events.items():
            each = []
            for s in range(draws.start, draws.stop):
                leaves, k = self._states.column_leaves(s, self._states._shared_network(s))
                leaves.slots(k, c)
                each.append(leaves.log_event(k, c, event))
            found[c] = np.concatenate(each)
        return np.concatenate([[0], np.cumsum([v.size for v in found])]).astype(np.int64), np.concatenate(found)
