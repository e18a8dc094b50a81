"""Rows of an ascent that are not in memory: in blocks of a scratch folder, with their lists of edges."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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
from pymc_spn.numerics.threads import for_each

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
    """

    def __init__(
        self, folder: str | Path, structure: Any, compiled: Any, advance: Callable[[int], None] = lambda rows: None
    ) -> None:
        self.folder, self.structure, self.compiled, self.advance = Path(folder), structure, compiled, advance
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

    def piece(self, block: tuple[int, str], number: np.ndarray | None, tree: ActiveTree) -> AssignedRows:
        """The rows of a block with their lists, as a piece in memory."""
        which, lists = block
        values = np.load(self.folder / f"rows{which}.npy")
        base = base_logs(self.structure, self.compiled, values)
        placed = place_columns(self.structure, code_values(self.compiled, values))
        ptr, edges = np.zeros(len(values) + 1, np.int64), np.zeros(0, np.int32)
        if lists:
            with (self.folder / lists).open("rb") as file:
                ptr[1:] = np.cumsum(np.load(file))
                edges = np.load(file).astype(np.int32)
        if number is not None and lists:
            ptr, edges = renumbered(ptr, edges, number)
        return AssignedRows(placed, base, ptr, edges, no_statistics(tree), 0.0, 0.0)

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
        for group in groups:
            totals: list[Any] = [no_statistics(tree), 0.0, 0.0]
            blocks = []
            for begin in range(0, len(group.blocks), PIECES):
                for done in self._assigned_blocks(tree, summaries, logs, group, begin, search):
                    blocks.append(done[0])
                    totals[0] = Statistics(*(a + b for a, b in zip(totals[0], done[1], strict=True)))
                    totals[1:] = totals[1] + done[2], totals[2] + done[3]
            out.append(RowGroup(tuple(blocks), *totals))
        return out

    def _assigned_blocks(
        self, tree: ActiveTree, summaries: Summaries, logs: Logs, group: RowGroup, begin: int, search: ListSearch
    ) -> list[tuple[tuple[int, str], Statistics, float, float]]:
        """Blocks, each with its new lists, statistics, entropy and log value; the next `PIECES` of a group."""
        blocks = group.blocks[begin : begin + PIECES]
        files = [f"lists{self._n_written + i}.npy" for i in range(len(blocks))]
        self._n_written += len(blocks)
        self._files.update(files)
        out: list[Any] = [None] * len(blocks)
        small = np.uint16 if tree.option.size <= FEW_EDGES else np.int32

        def assign(i: int) -> None:
            done = assigned_piece(tree, summaries, logs, self.piece(blocks[i], group.number, tree), search)
            with (self.folder / files[i]).open("wb") as file:
                np.save(file, np.diff(done.ptr).astype(np.int32))
                np.save(file, done.edges.astype(small))
            out[i] = (blocks[i][0], files[i]), done.statistics, done.entropy, done.log_value
            self.advance(len(done.values))

        for_each(assign, range(len(blocks)), len(blocks) > 1)
        return out

    def settle(self, groups: list[RowGroup]) -> None:
        """Delete all lists but those of these groups."""
        own = {lists for group in groups for _, lists in group.blocks}
        for file in self._files - own:
            (self.folder / file).unlink(missing_ok=True)
        self._files &= own
