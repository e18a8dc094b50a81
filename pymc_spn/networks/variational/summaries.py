"""Which summaries stand for the products of an active tree: one pooled leaf for each column, see `path_kernels`."""

from typing import NamedTuple

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL


class PooledLeaves(NamedTuple):
    """What `ActiveTree` says of leaves, of the summaries' leaves."""

    leaf_place: np.ndarray
    leaf_entry: np.ndarray
    leaf_family: np.ndarray
    level_ptr: np.ndarray
    cell_variance: np.ndarray  # (P,)


class Summaries(NamedTuple):
    """Pooled leaves of all products.

    Those of product e stand at ``begin[e]`` and behind, one for each column of its region, ordered as in the region.
    """

    begin: np.ndarray  # (E,) -1 of leaves
    place_begin: np.ndarray  # (R+1,) places of the columns of region r: places[place_begin[r]:place_begin[r+1]]
    places: np.ndarray
    position: np.ndarray  # like places: which column of the region above each column of region r is
    leaves: PooledLeaves


def no_summaries(tree):
    """Summaries of nothing, for assignments without a search."""
    nothing = np.zeros(0, np.int64)
    pooled = PooledLeaves(nothing, nothing, nothing, np.zeros(1, np.int64), tree.cell_variance)
    return Summaries(nothing, nothing, nothing, nothing, pooled)


def summaries_of(tree, structure, palette, statistics):
    """The summaries of a tree. Of a palette of several entries they take the one with most rows."""
    rows = np.bincount(tree.leaf_entry, statistics.edge_count[tree.leaf >= 0], palette.family.size)
    entry = np.array(
        [a + np.argmax(rows[a:b]) for a, b in zip(palette.entry_ptr[:-1], palette.entry_ptr[1:], strict=True)]
    )
    place_of_column = np.searchsorted(structure.leaf_column, np.arange(palette.n_levels.size))
    columns = [structure.order[a:b] for a, b in zip(structure.begin, structure.end, strict=True)]
    width = np.where(tree.place >= 0, 0, [c.size for c in columns])[tree.region_of_edge]
    of_leaf = np.concatenate([columns[r] for r in tree.region_of_edge[tree.leaf < 0]] or [np.zeros(0, np.int64)])
    leaf_entry = entry[of_leaf]
    leaf_family = palette.family[leaf_entry]
    levels = np.where(leaf_family == CATEGORICAL, palette.n_levels[of_leaf], 0)
    begins = np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.int64)
    return Summaries(
        begin=np.where(tree.leaf < 0, np.cumsum(width) - width, -1),
        place_begin=begins,
        places=np.concatenate([place_of_column[c] for c in columns]),
        position=structure.positions_in_parent(),
        leaves=PooledLeaves(
            place_of_column[of_leaf],
            leaf_entry,
            leaf_family,
            np.concatenate([[0], np.cumsum(levels)]).astype(np.int64),
            tree.cell_variance,
        ),
    )
