"""Rows of an ascent that are not in memory: in blocks of a scratch folder, with their lists of edges."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from pymc_spn.gibbs.palette import code_values
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.networks.variational.active_tree import ActiveTree, Statistics, no_statistics, statistics_of_kept
from pymc_spn.networks.variational.assignments import (
    PIECES,
    AssignedRows,
    ListSearch,
    Logs,
    assigned_piece,
    renumbered,
)
from pymc_spn.networks.variational.coordinate_ascent import base_logs
from pymc_spn.networks.variational.summaries import Summaries
from pymc_spn.numerics.cluster_clients import worked_out

BLOCK = 2**14  # rows that are in memory at a time, for each thread
FEW_EDGES = 2**16  # lists of smaller trees take two bytes an edge


class RowGroup(NamedTuple):
    """Rows whose statistics are kept together: what a piece is in memory.

    ``number`` says how edges in the stored lists are to be renumbered, None where they are not.
    """

    blocks: tuple[tuple[int, str], ...]  # number of each block and the file of its lists, "" where it has none
    statistics: Statistics
    entropy: float
    log_value: float
    number: np.ndarray | None = None


class Shared(NamedTuple):
    """What all blocks of an assignment need to know."""

    structure: Any
    compiled: Any
    tree: ActiveTree
    summaries: Summaries
    logs: Logs
    search: ListSearch


class BlockTask(NamedTuple):
    """A block of rows, the file of its lists and that of its new ones in the same folder; `number` as in `RowGroup`."""

    folder: Path
    block: int
    lists: str
    new_lists: str
    number: np.ndarray | None

    def piece(self, structure: Any, compiled: Any, tree: ActiveTree) -> AssignedRows:
        """The rows of the block with their lists, as a piece in memory."""
        values = np.load(self.folder / f"rows{self.block}.npy")
        base = base_logs(structure, compiled, values)
        placed = place_columns(structure, code_values(compiled, values))
        ptr, edges = np.zeros(len(values) + 1, np.int64), np.zeros(0, np.int32)
        if self.lists:
            with (self.folder / self.lists).open("rb") as file:
                ptr[1:] = np.cumsum(np.load(file))
                edges = np.load(file).astype(np.int32)
        if self.number is not None and self.lists:
            ptr, edges = renumbered(ptr, edges, self.number)
        return AssignedRows(placed, base, ptr, edges, no_statistics(tree), 0.0, 0.0)


class AssignedBlock(NamedTuple):
    """What an assignment leaves of a block beside the file of its lists."""

    block: tuple[int, str]
    statistics: Statistics
    entropy: float
    log_value: float


def assigned_block(task: BlockTask, shared: Shared) -> AssignedBlock:
    """Best assignments of the rows of a block; their lists are in a file once this returns, and never in part."""
    structure, compiled, tree, summaries, logs, search = shared
    done = assigned_piece(tree, summaries, logs, task.piece(structure, compiled, tree), search)
    unfinished = task.folder / f"{task.new_lists}.{uuid4().hex}"  # a worker that was given up may write, too
    with unfinished.open("wb") as file:
        np.save(file, np.diff(done.ptr).astype(np.int32))
        np.save(file, done.edges.astype(np.uint16 if tree.option.size <= FEW_EDGES else np.int32))
    unfinished.replace(task.folder / task.new_lists)
    return AssignedBlock((task.block, task.new_lists), done.statistics, done.entropy, done.log_value)


class PartitionedRows:
    """Blocks of rows in a folder, and assignments of them.

    A step writes new lists and leaves the old ones, since it may be taken back; `settle` deletes what is left over.

    Parameters
    ----------
    folder : path
        For files of this object alone.
    structure : RegionTree
    compiled : CompiledPalette
        Of fits: values in cells are spread (`with_spread_values`).
    advance : callable
        Told of the number of rows after each block.
    client : distributed.Client, optional
        Whose workers assign blocks; they see the folder.
    """

    def __init__(
        self,
        folder: str | Path,
        structure: Any,
        compiled: Any,
        advance: Callable[[int], None] = lambda rows: None,
        client: Any = None,
    ) -> None:
        self.folder, self.structure, self.compiled, self.advance = Path(folder), structure, compiled, advance
        self.client = client
        self.sizes: list[int] = []
        self.observed = np.zeros(len(structure.columns), np.int64)
        self._waiting: list[np.ndarray] = []
        self._files: set[str] = set()
        self._n_written = 0

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return sum(self.sizes)

    def add(self, values: np.ndarray) -> None:
        """Store rows (n, D) in the units of the table."""
        self.observed += (~np.isnan(values)).sum(axis=0)
        self._waiting.append(values)
        if sum(map(len, self._waiting)) >= BLOCK:
            self._write(BLOCK)

    def end(self) -> None:
        """Store the last rows; none may follow."""
        self._write(1)

    def _write(self, least: int) -> None:
        rows = np.concatenate(self._waiting) if self._waiting else np.zeros((0, self.observed.size))
        while len(rows) >= least:
            np.save(self.folder / f"rows{len(self.sizes)}.npy", rows[:BLOCK])
            self.sizes.append(len(rows[:BLOCK]))
            rows = rows[BLOCK:]
        self._waiting = [rows.copy()]

    def without_lists(self, blocks: np.ndarray, tree: ActiveTree) -> RowGroup:
        """Some blocks as a group of rows that have no assignments yet."""
        return RowGroup(tuple((int(b), "") for b in blocks), no_statistics(tree), 0.0, 0.0)

    def kept(self, tree: ActiveTree, groups: list[RowGroup], number: np.ndarray) -> list[RowGroup]:
        """The groups without the edges of the tree that have no new number."""
        out = []
        for group in groups:
            now = number if group.number is None else np.where(group.number >= 0, number[group.number], -1)
            statistics = statistics_of_kept(tree, group.statistics, number)
            out.append(group._replace(statistics=statistics, number=now.astype(np.int32)))
        return out

    def assigned(
        self, tree: ActiveTree, summaries: Summaries, logs: Logs, groups: list[RowGroup], search: ListSearch
    ) -> list[RowGroup]:
        """Best assignments of the rows of some groups."""
        out = []
        shared = Shared(self.structure, self.compiled, tree, summaries, logs, search)
        for group in groups:
            statistics, entropy, log_value = no_statistics(tree), 0.0, 0.0
            blocks = []
            for done in self._assigned_blocks(group.blocks, group.number, shared):
                blocks.append(done.block)
                statistics = Statistics(*(a + b for a, b in zip(statistics, done.statistics, strict=True)))
                entropy, log_value = entropy + done.entropy, log_value + done.log_value
            out.append(RowGroup(tuple(blocks), statistics, entropy, log_value))
        return out

    def _assigned_blocks(self, blocks: tuple, number: Any, shared: Shared) -> Iterator[AssignedBlock]:
        """Blocks with their new lists, in their order: by threads, or by the workers of a cluster."""
        files = [f"lists{self._n_written + i}.npy" for i in range(len(blocks))]
        self._n_written += len(blocks)
        self._files.update(files)
        tasks = [
            BlockTask(self.folder, block, lists, file, number)
            for (block, lists), file in zip(blocks, files, strict=True)
        ]
        return worked_out(
            self.client,
            assigned_block,
            tasks,
            shared,
            advance=lambda task: self.advance(self.sizes[task.block]),
            at_once=PIECES,
        )

    def settle(self, groups: list[RowGroup]) -> None:
        """Delete all lists but those of these groups."""
        own = {lists for group in groups for _, lists in group.blocks}
        for file in self._files - own:
            (self.folder / file).unlink(missing_ok=True)
        self._files &= own
