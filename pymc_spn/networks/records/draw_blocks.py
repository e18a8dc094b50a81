"""Questions about rows under all draws, by passes over their circuits: draws and rows in pieces, these over threads."""

from collections.abc import Callable, Iterator
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_passes import draw_leaves, log_densities_of_rows, shares_of_rows
from pymc_spn.circuits.evaluation.left_out import log_densities_left_out
from pymc_spn.circuits.evaluation.row_moments import moments_of_rows
from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.networks.records.draw_circuit import DrawCircuit, KnownRows, circuit_of, known_rows, leaf_arrays
from pymc_spn.networks.records.multivariate_leaves import (
    JointColumn,
    RowsByGaps,
    known_in,
    logs_left_out,
    logs_of_leaves,
    moments_of_leaves,
)
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.numerics.answer_steps import current_bar
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.threads import for_each

DRAWS = 64  # of a piece
ROWS = 2_048  # of a piece
ROWS_OF_JOINTS = 512  # of a piece where leaves are over several columns, whose values are held
KEPT_BYTES = 256_000_000  # circuits beyond these are made at every question
ALONE = 400_000  # values of leaves that one thread evaluates before another one has started
BLOCK = 8 * LANES  # rows of a pass, whose values stay in the cache


class Asked(NamedTuple):
    """Rows (M, D) in the units of the data, events that count where a row has no point, and cells of the same rows."""

    values: np.ndarray
    events: dict[int, Any]
    cells: RoundedCells | None = None


class Inputs(NamedTuple):
    """What a pass over one draw's circuit reads of some rows."""

    layout: Any
    log_weights: np.ndarray
    weight: np.ndarray
    coefficients: np.ndarray
    table: np.ndarray  # of leaves
    values: np.ndarray  # (M, C), behind the columns the logs of leaves over several


class Piece(NamedTuple):
    """One draw, some rows, and what a pass reads of them."""

    s: int
    rows: slice
    circuit: DrawCircuit
    inputs: Inputs
    without: np.ndarray  # (K, M) logs of leaves over several columns without the column of each part, where asked


class DrawBlocks:
    """Circuits of recorded states, and what the passes say of rows.

    Parameters
    ----------
    states : RecordedStates
    """

    def __init__(self, states: Any) -> None:
        self.states = states
        self._lock = Lock()  # for what is below
        self._kept: dict[int, DrawCircuit] = {}
        self._bytes = 0

    def circuit(self, s: int) -> DrawCircuit:
        """Circuit of a draw, kept while there is room."""
        found = self._kept.get(s)
        if found is None:
            found = circuit_of(self.states.network(s), self._joint_slots(s))
            with self._lock:
                if s not in self._kept and self._bytes < KEPT_BYTES:
                    self._kept[s] = found
                    self._bytes += found.nbytes
        return found

    def _joint_slots(self, s: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Regions with leaves over several columns, these columns, and the slots of a draw that have such leaves."""
        each = [(r, self.states.joint_leaves.of(r)) for r in self.states.joint_leaves.regions]
        return [(r, own.columns, own.slots[own.begin[s] : own.begin[s + 1]]) for r, own in each]

    def log_densities(self, asked: Asked) -> np.ndarray:
        """Log predictives (S, M) of rows in coded units."""
        out = np.empty((self.states.n_draws, len(asked.values)))

        def ask(piece: Piece) -> None:
            log_densities_of_rows(*piece.inputs, block_of(piece), out[piece.s, piece.rows])

        self.ask(ask, asked)
        return mended(out, asked)

    def log_densities_left_out(self, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
        """The same, and (S, M, D) without what is known of each column."""
        out = np.empty((self.states.n_draws, len(asked.values)))
        without = np.empty((*out.shape, asked.values.shape[1]))

        def ask(piece: Piece) -> None:
            at = piece.s, piece.rows
            of_parts = piece.circuit.part_node, piece.circuit.part_column, piece.without
            log_densities_left_out(*piece.inputs, *of_parts, block_of(piece), out[at], without[at])

        self.ask(ask, asked, left_out=True)
        known = ~np.isnan(asked.values)
        known[:, list(asked.events)] = True
        without[:, known.sum(axis=1, keepdims=True) - known == 0] = 0.0
        return mended(out, asked), np.where(without > 0.1 * EMPTY_LEAF, without, -np.inf)

    def shares(
        self, asked: Asked, d: int, begin: np.ndarray, column: JointColumn | None = None
    ) -> tuple[np.ndarray, ...]:
        """Log predictives (S, M) in coded units, and probabilities (M, n) of the leaves of a column in all draws.

        ``begin`` (S + 1,) has the first leaf of each draw. With ``column`` also those (M, m) of the leaves over several
        columns that hold it.
        """
        logs = np.empty((self.states.n_draws, len(asked.values)))
        shares = np.empty((len(asked.values), int(begin[-1])))
        of_several = np.empty((len(asked.values), 0 if column is None else int(column.begin[-1])))

        def ask(piece: Piece) -> None:
            s, found = piece.s, shares_in(piece, d, logs)
            n = begin[s + 1] - begin[s]
            shares[piece.rows, begin[s] : begin[s + 1]] = found[:, :n]
            if column is not None:
                of_several[piece.rows, column.begin[s] : column.begin[s + 1]] = found[:, n:]

        self.ask(ask, asked)
        logs = mended(logs, asked)
        return (logs, shares) if column is None else (logs, shares, of_several)

    def averages(
        self, asked: Asked, d: int, begin: np.ndarray, laws: np.ndarray, variance: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log predictives (S, M) in coded units, and averages (S, M, K) of numbers (n, K) of the leaves of each draw.

        With ``variance`` the last one of (S, M, K + 1) is that of the first number over the leaves.
        """
        logs = np.empty((self.states.n_draws, len(asked.values)))
        out = np.empty((*logs.shape, laws.shape[1] + variance))

        def ask(piece: Piece) -> None:
            own = laws[begin[piece.s] : begin[piece.s + 1]]
            share = shares_in(piece, d, logs)[:, : len(own)]
            mean = out[piece.s, piece.rows, : own.shape[1]]
            for k, number in enumerate(own.T):  # each row by itself: products of BLAS round with the rows beside it
                mean[:, k] = (share * number).sum(axis=1)
            if variance:
                out[piece.s, piece.rows, -1] = (share * (own[:, 0] - mean[:, :1]) ** 2).sum(axis=1)

        self.ask(ask, asked)
        return mended(logs, asked), out

    def child_shares(self, s: int, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
        """Log predictives (M,) under one draw, and probabilities (M, K + 1) of the root's children by their slots.

        Those of all unoccupied children together are the last.
        """
        logs = np.empty((1, len(asked.values)))
        circuit = self.circuit(s)
        children = circuit.children[0] if circuit.children[0].size else circuit.layout.node_of_leaf
        shares = np.zeros((len(asked.values), children.size))
        nodes = np.flatnonzero(children >= 0)

        def ask(piece: Piece) -> None:
            found = np.empty((piece.rows.stop - piece.rows.start, nodes.size))
            shares_of_rows(*piece.inputs, children[nodes], block_of(piece), found, logs[0, piece.rows])
            shares[piece.rows, nodes] = found

        self.ask(ask, asked, draws=range(s, s + 1))
        return mended(logs, asked)[0], shares

    def draw_leaves(self, s: int, asked: Asked, rng: np.random.Generator) -> np.ndarray:
        """Leaf (M, D) of each column on a tree of the draw's circuit, drawn for each row; its number in the circuit."""
        leaf = np.zeros(asked.values.shape, np.int64)

        def ask(piece: Piece) -> None:
            out = np.empty(piece.rows.stop - piece.rows.start)
            draw_leaves(rng, *piece.inputs, block_of(piece), leaf[piece.rows], out)

        self.ask(ask, asked, draws=range(s, s + 1), in_turn=True)
        return leaf

    def moments(
        self, asked: Asked, wanted: np.ndarray, leaf_moments: Callable[[int, int], Any], covariance: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (S, D) and covariances (S, D, D) of the wanted (D,) columns in which one row has no point.

        ``leaf_moments`` gives means and variances of the leaves of a column under a draw.
        """
        n_columns, n_draws = wanted.size, self.states.n_draws
        means = np.empty((n_draws, n_columns))
        covariances = np.empty((n_draws, n_columns, n_columns) if covariance else (n_draws, 0, 0))
        leaves, row = self.states.joint_leaves, asked.values[0]
        of_joints = {
            r: moments_of_leaves(leaves.of(r), row[leaves.of(r).columns], asked.events) for r in leaves.regions
        }
        scopes = self.scopes(wanted)

        def ask(piece: Piece) -> None:
            s, circuit = piece.s, piece.circuit
            n_leaves = circuit.layout.leaf_column.size
            leaf_mean, leaf_variance = np.zeros((2, n_leaves))
            for d in np.flatnonzero(wanted & np.isnan(row)).tolist():
                own = slice(circuit.first_leaf[d], circuit.first_leaf[d + 1])
                leaf_mean[own], leaf_variance[own] = leaf_moments(s, d)
            nodes, scope_column = scopes(circuit)
            scope_ptr = np.searchsorted(nodes, np.arange(circuit.layout.kind.size + 1))
            of_parts = self._moments_of_parts(s, circuit, of_joints, covariance)
            square = covariances[s : s + 1] if covariance else np.empty((0, 0, 0))
            moments_of_rows(
                *piece.inputs, scope_ptr, scope_column, leaf_mean, leaf_variance, *of_parts, wanted, covariance, LANES,
                means[s : s + 1], square, np.empty(1),
            )  # fmt: skip

        self.ask(ask, asked)
        return means, covariances

    def scopes(self, wanted: np.ndarray) -> Callable[[DrawCircuit], tuple[np.ndarray, np.ndarray]]:
        """A function that gives pairs of a circuit's node and a wanted column below it, in this order."""
        tree = self.states.structure
        of_region = [np.sort(tree.order[a:b]) for a, b in zip(tree.begin, tree.end, strict=True)]
        of_region = [own[wanted[own]] for own in of_region]

        def scopes(circuit: DrawCircuit) -> tuple[np.ndarray, np.ndarray]:
            region = np.concatenate([circuit.region, np.full(circuit.layout.leaf_column.size, -1)])
            size = np.array([own.size for own in of_region] + [0])[region]
            columns = np.concatenate([of_region[r] for r in circuit.region.tolist()])
            leaves = np.flatnonzero(wanted[circuit.layout.leaf_column])
            nodes = np.concatenate([np.repeat(np.arange(region.size), size), circuit.layout.node_of_leaf[leaves]])
            return nodes, np.concatenate([columns, circuit.layout.leaf_column[leaves]])

        return scopes

    def _moments_of_parts(
        self, s: int, circuit: DrawCircuit, of_joints: dict[int, Any], covariance: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`wide_leaves.PartMoments` of the leaves over several columns of a draw."""
        means, nodes, pairs, covs = [np.zeros(0)], circuit.part_node, [np.zeros((0, 3), np.int64)], [np.zeros(0)]
        first = 0
        for r, (mean, cov) in of_joints.items():
            found = self.states.joint_leaves.of(r)
            own, columns = slice(int(found.begin[s]), int(found.begin[s + 1])), found.columns
            means.append(mean[own].ravel())
            n, size = own.stop - own.start, columns.size
            if covariance:
                i, j = np.triu_indices(size)
                a, b = np.minimum(columns[i], columns[j]), np.maximum(columns[i], columns[j])
                leaf = np.repeat(nodes[first : first + n * size : size], i.size)
                pairs.append(np.column_stack([leaf, np.tile(a, n), np.tile(b, n)]))
                covs.append(cov[own][:, i, j].ravel())
            first += n * size
        return np.concatenate(means)[:, None], np.concatenate(pairs), np.concatenate(covs)[:, None]

    def ask(
        self,
        ask: Callable[[Piece], None],
        asked: Asked,
        left_out: bool = False,
        draws: range | None = None,
        in_turn: bool = False,
    ) -> None:
        """Ask all pieces, by default of all draws; all rows ``in_turn`` if the order counts.

        Leaves over several columns are known without each of their columns if they are to be ``left_out``, without
        events of them.
        """
        states, values = self.states, asked.values
        n_rows, size = len(values), ROWS_OF_JOINTS if states.has_joints else ROWS
        draws = range(states.n_draws) if draws is None else draws
        coded = states.schema.code(values) if asked.cells is None else asked.cells.coded
        palette = states.network(draws.start).palette
        groups = [range(i, min(i + DRAWS, draws.stop)) for i in range(draws.start, draws.stop, DRAWS)]
        size = max(n_rows, 1) if in_turn else size
        parts = [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]

        def pieces() -> Iterator[tuple[range, slice, KnownRows]]:
            known: dict[int, KnownRows] = {}
            for group in groups:
                for part in parts:
                    if part.start not in known:
                        known[part.start] = known_rows(palette, coded, asked.cells, part)
                    yield group, part, known[part.start]

        def ask_group(piece: tuple[range, slice, KnownRows]) -> None:
            group, rows, known = piece
            logs, without = self._logs_of_joints(group, rows, asked, left_out)
            for s in group:
                ask(self._piece(s, rows, known, asked.events, logs[s - group.start], without[s - group.start]))

        n_leaves = len(draws) * states.structure.leaf_region.size * n_rows
        if in_turn:
            for piece in pieces():
                ask_group(piece)
            return
        current_bar().expect(len(groups) * len(parts))
        for_each(ask_group, pieces(), n_leaves > ALONE)

    def _piece(
        self, s: int, rows: slice, known: KnownRows, events: dict[int, Any], logs: np.ndarray, without: np.ndarray
    ) -> Piece:
        net, circuit = self.states.network(s), self.circuit(s)
        of_events = {}
        if events:
            leaves, k = self.states.column_leaves(s, net)
            of_events = {d: leaves.log_event(k, d, event) for d, event in events.items()}
        layout, coefficients, table = leaf_arrays(net, circuit, known, of_events)
        values = np.column_stack([known.table, logs.T]) if len(logs) else known.table
        weights = circuit.log_weights, circuit.weight
        return Piece(s, rows, circuit, Inputs(layout, *weights, coefficients, table, read_only_view(values)), without)

    def _logs_of_joints(
        self, draws: range, rows: slice, asked: Asked, left_out: bool
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Of each draw the logs (W, M) of leaves over several columns, and those (K, M) without each of their columns.

        NaN where nothing is known of its columns in any row.
        """
        compiled, cells = self.states.compiled, asked.cells
        values, widths = asked.values[rows], None
        if cells is not None:
            values, widths = cells.middles[rows], cells.widths[rows]
        size, counts = self.states.joint_leaves.counts
        counts = counts[:, draws.start : draws.stop]
        logs = np.full((counts.sum(), len(values)), np.nan)
        without = np.zeros(((counts * size[:, None]).sum() if left_out else 0, len(values)))
        seen = ~np.isnan(values).all(axis=0)
        seen[known_in(np.arange(seen.size), asked.events)] = True
        regions = self.states.joint_leaves.regions if seen.any() else []
        of_leaves = in_draws(counts)
        of_parts = in_draws(counts * size[:, None]) if left_out else repeat(None)
        for r, at, at_parts in zip(regions, of_leaves, of_parts, strict=False):
            own = self.states.joint_leaves.of(r)
            if not seen[own.columns].any():
                continue
            some = own.of_networks(draws.start, draws.stop)
            by_gaps = RowsByGaps.of(values[:, own.columns], None if widths is None else widths[:, own.columns])
            if left_out:  # no events of these columns
                logs[at], without[at_parts] = logs_left_out(some, compiled, by_gaps)
            else:
                logs[at] = logs_of_leaves(some, compiled, values, asked.events, by_gaps)
        ends, n_parts = np.cumsum(counts.sum(axis=0))[:-1], np.cumsum(size @ counts)[:-1]
        return np.split(logs, ends), np.split(without, n_parts) if left_out else [without] * len(draws)


def in_draws(counts: np.ndarray) -> Iterator[np.ndarray]:
    """Places of each region's members where all stand draw by draw, in each by regions; of their counts (R, S)."""
    first = (np.cumsum(counts.T) - counts.T.ravel()).reshape(counts.T.shape).T
    for at, n in zip(first, counts, strict=True):
        yield np.repeat(at - (np.cumsum(n) - n), n) + np.arange(n.sum())


def block_of(piece: Piece) -> int:
    """Rows of one pass: a multiple of eight."""
    n_rows = piece.rows.stop - piece.rows.start
    return min(BLOCK, -(-n_rows // LANES) * LANES)


def shares_in(piece: Piece, d: int, logs: np.ndarray) -> np.ndarray:
    """Probabilities (M, n) of the leaves of a column, those over several behind its own; logs (S, M) are written."""
    nodes = piece.circuit.layout.node_of_leaf[piece.circuit.leaves_of(d)]
    found = np.empty((piece.rows.stop - piece.rows.start, nodes.size))
    shares_of_rows(*piece.inputs, nodes, block_of(piece), found, logs[piece.s, piece.rows])
    return found


def mended(logs: np.ndarray, asked: Asked) -> np.ndarray:
    """Logs (S, M) with nothing but 0 where nothing is known, and ``-inf`` where no leaf holds a row."""
    logs[logs <= 0.1 * EMPTY_LEAF] = -np.inf
    if not asked.events:
        logs[:, np.isnan(asked.values).all(axis=1)] = 0.0
    return logs
