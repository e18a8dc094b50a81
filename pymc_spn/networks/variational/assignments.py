"""Soft assignments of all rows: lists of edges, kept in pieces that threads assign side by side."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.statistics import entry_priors
from pymc_spn.networks.variational.active_tree import ActiveTree, Statistics, no_statistics, statistics_of_kept
from pymc_spn.networks.variational.joint_kernels import ExpectedJoints, expected_joints
from pymc_spn.networks.variational.path_kernels import assign_rows, expect_leaves, pool_leaves
from pymc_spn.networks.variational.summaries import Summaries, no_summaries
from pymc_spn.networks.variational.weights import expect_weights
from pymc_spn.numerics.threads import for_each

KEYS = 4  # regions by which rows are sorted
FIRST_LISTS = 64  # edges a row for which there is room where rows have no lists yet
PIECES, ROWS = 16, 512  # pieces of a table at most, rows of one at least: never chosen from the number of threads


class ListSearch(NamedTuple):
    """Which edges a row's list gains and loses in one assignment.

    At a sum node a row tries ``breadth`` children outside its list. One enters whose share is above ``enter``, and one
    that is on the list leaves it once its share is not above ``leave``.
    """

    breadth: int
    descent: int
    enter: float
    leave: float


class Logs(NamedTuple):
    """Expected log weights and log leaf densities under q(weights, parameters)."""

    weight: np.ndarray  # (E,)
    coefficient: np.ndarray  # (L, 4)
    level: np.ndarray  # (level_ptr[-1],)
    pool_coefficient: np.ndarray  # the same of the summaries' leaves
    pool_level: np.ndarray
    joints: ExpectedJoints | None = None


class AssignedRows(NamedTuple):
    """Some rows: their cells, their lists of edges, and what these add to the statistics and to the bound."""

    values: np.ndarray  # (n, P)
    base_logs: np.ndarray  # (n, P)
    ptr: np.ndarray  # (n+1,)
    edges: np.ndarray  # (ptr[-1],) int32
    statistics: Statistics
    entropy: float
    log_value: float


def total_of(pieces: list[Any]) -> Statistics:
    """Statistics of all rows."""
    return Statistics(*(np.sum(x, axis=0) for x in zip(*(p.statistics for p in pieces), strict=True)))


def pieces_of(
    tree: ActiveTree,
    values: np.ndarray,
    base_logs: np.ndarray,
    paths: np.ndarray,
    compiled: Any,
    hyper: tuple,
) -> list[AssignedRows]:
    """The table in pieces, each row wholly on one edge of every region, paths (N, R), -1 where it has none."""
    zeros = no_statistics(tree)
    summaries = no_summaries(tree)
    logs = expected_logs(tree, zeros, summaries, compiled, hyper)  # families with a base measure take a constant of it
    n_pieces = min(max(len(values) // ROWS, 1), PIECES)
    pieces = []
    for number in range(n_pieces):
        rows = np.arange(number, len(values), n_pieces)
        rows = rows[
            np.lexsort(paths[rows, KEYS::-1].T)
        ]  # alike rows one after the other find what they need in the cache
        has = paths[rows] >= 0
        ptr = np.concatenate([[0], np.cumsum(has.sum(1))])
        pieces.append(AssignedRows(values[rows], base_logs[rows], ptr, paths[rows][has], zeros, 0.0, 0.0))
    return assigned(tree, summaries, logs, pieces, ListSearch(0, 0, 0.0, 0.0))


def kept(tree: ActiveTree, pieces: list[AssignedRows], number: np.ndarray) -> list[AssignedRows]:
    """The pieces without the edges of the tree that have no new number."""
    out = []
    for piece in pieces:
        ptr, edges = renumbered(piece.ptr, piece.edges, number)
        out.append(piece._replace(ptr=ptr, edges=edges, statistics=statistics_of_kept(tree, piece.statistics, number)))
    return out


def renumbered(ptr: np.ndarray, edges: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lists of edges under new numbers, without those that have none."""
    new = number[edges]
    has = new >= 0
    return np.concatenate([[0], np.cumsum(has)])[ptr], new[has]


def expected_logs(tree: ActiveTree, statistics: Statistics, summaries: Summaries, compiled: Any, hyper: tuple) -> Logs:
    """What assignments need to know of the weights and parameters that fit the statistics."""
    concentration, *leaf_hyperparameters, covariance_scale = hyper
    prior = entry_priors(compiled, *leaf_hyperparameters)
    weight = expect_weights(tree, statistics.edge_count, concentration)
    of_leaves = tree.leaf_family.size, int(tree.level_ptr[-1])
    coefficient, level = np.empty((of_leaves[0], 4)), np.empty(of_leaves[1])
    of_entries = prior, compiled.constants
    expect_leaves(tree, statistics.edge_count[tree.leaf >= 0], *statistics[1:4], *of_entries, coefficient, level)
    joints = expected_joints(tree, statistics, compiled, covariance_scale)
    pooled = summaries.leaves
    n_pools, n_cells = pooled.leaf_family.size, int(pooled.level_ptr[-1])
    pool = np.empty(n_pools), np.empty(n_pools), np.empty(n_pools), np.empty(n_cells)
    pool_coefficient, pool_level = np.empty((n_pools, 4)), np.empty(n_cells)
    if n_pools:
        pool_leaves(tree, summaries, joints, *statistics[:4], *pool)
    expect_leaves(pooled, *pool, *of_entries, pool_coefficient, pool_level)
    return Logs(weight, coefficient, level, pool_coefficient, pool_level, joints)


def assigned(
    tree: ActiveTree, summaries: Summaries, logs: Logs, pieces: list[AssignedRows], search: ListSearch
) -> list[AssignedRows]:
    """Best assignments of the rows of some pieces."""
    out: list[Any] = [None] * len(pieces)

    def assign(which: int) -> None:
        out[which] = assigned_piece(tree, summaries, logs, pieces[which], search)

    for_each(assign, range(len(pieces)), len(pieces) > 1)
    return out


def assigned_piece(
    tree: ActiveTree, summaries: Summaries, logs: Logs, piece: AssignedRows, search: ListSearch
) -> AssignedRows:
    """Best assignments of the rows of a piece."""
    joints, logs = logs.joints, logs._replace(joints=None)
    size, done = 2 * piece.edges.size + 64, -1
    if piece.edges.size == 0:
        size = FIRST_LISTS * len(piece.values) + 64
    while done < len(piece.values):
        ptr, edges, totals = np.zeros_like(piece.ptr), np.empty(size, np.int32), np.zeros(2)
        statistics = no_statistics(tree)
        done = assign_rows(
            tree, summaries, joints, piece.values, piece.base_logs, logs, search, piece.ptr, piece.edges, ptr, edges,
            *statistics, totals,
        )  # fmt: skip
        size *= 2
    return piece._replace(
        ptr=ptr, edges=edges[: ptr[-1]].copy(), statistics=statistics, entropy=totals[0], log_value=totals[1]
    )


class RowsInMemory:
    """Where the pieces of an ascent are: here in the pieces themselves. See `PartitionedRows` for the other place."""

    kept = staticmethod(kept)
    assigned = staticmethod(assigned)

    @staticmethod
    def settle(pieces: list[Any]) -> None:
        """Forget what is of no later use than to these pieces: here nothing."""
