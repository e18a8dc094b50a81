"""The occupied part of a Bayesian sum-product network, in flat arrays.

Every region of the region tree keeps a list of *slots*, one for each occupied edge (child of a sum node). A datum
reaches one sum node in each region, so its state is one slot number for each region. The sum node of region ``r``
below slot ``e`` of the parent region is unique; nodes therefore need no numbers of their own: node ``e`` of region
``r`` is the one below edge ``e`` of region ``parent[r]`` (node 0 at the root). Memory goes with occupied edges, never
with the full tree.

The first slots of a univariate region, one for each palette entry, are *prior slots*: leaves that never hold data and
are worth the prior predictive, which is the value of every unoccupied leaf.

Where products split differently, a column stands in several univariate regions. The kernels take each of these *places*
for a column of its own: they see a table of P columns in which columns are repeated (`spread`), and a row reaches one
place of each column it has. Regions that its tree does not reach are -1 in its state, as missing ones are.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.leaves.intervals import EXCLUDED

# How the leaves of a column are evaluated. LOGS: densities, some of the log. CELLS, COUNT_CELLS: whole numbers in
# networks that answer questions, where Gaussian leaves have masses of unit cells, and a count of 0 all that is below.
VECTOR, LEVELS, GENERAL, LOGS, CELLS, COUNT_CELLS = range(6)
LARGEST_LOG = 690.0  # of a value that is drawn: beyond it stands for what would overflow
EMPTY_LEAF = EXCLUDED  # log value of a slot that is not in use


class Network(NamedTuple):
    """Structure, hyperparameters, occupied edges, leaf statistics and scratch space of one network.

    R regions, D columns at P places (P = D unless products split differently), E palette entries of all places, L slots
    of univariate regions, M slots in all.
    """

    # structure
    parent: np.ndarray  # (R,) parent region, -1 at the root
    part_ptr: np.ndarray  # (R+1,)
    parts: np.ndarray  # child regions of region r: parts[part_ptr[r]:part_ptr[r+1]]
    subtree_end: np.ndarray  # (R,) regions below r are r+1 .. subtree_end[r]-1
    split: np.ndarray  # (R,) split of the parent region to which the region belongs
    n_splits: np.ndarray  # (R,) splits of the region
    column: np.ndarray  # (R,) place of a univariate region, else -1
    leaf_region: np.ndarray  # (P,) region of the place
    source: np.ndarray  # (P,) column at the place, ascending
    place_ptr: np.ndarray  # (D+1,) places of column c: place_ptr[c]:place_ptr[c+1]
    size: np.ndarray  # (R,) number of columns
    width: np.ndarray  # (R,) children of a sum node, 0 for infinitely many
    # palette
    entry_ptr: np.ndarray  # (P+1,) palette entries of place d: entry_ptr[d]:entry_ptr[d+1]
    entry_source: np.ndarray  # (E,) the entry's number in the palette of the columns
    entry_family: np.ndarray  # (E,) number in `leaves.family_codes`
    entry_copies: np.ndarray  # (E,) leaves of a finite sum node that belong to the entry, 0 for infinitely many
    column_kind: np.ndarray  # (P,) VECTOR, LEVELS, GENERAL, LOGS, CELLS or COUNT_CELLS
    n_levels: np.ndarray  # (P,) levels of a discrete column, else 0
    offset: np.ndarray  # (P,) centre / scale: coded value + offset = x / scale, what all but Gaussian leaves see
    cell_variance: np.ndarray  # (P,) of a value within its cell, as Gaussian leaves of whole numbers see it; else 0
    # hyperparameters
    mass: np.ndarray  # (R,) concentration: total mass of a sum node
    share: np.ndarray  # (R,) mass of one child of a finite inner node, 0 for an infinite one
    entry_mass: np.ndarray  # (E,) total mass of the entry's copies in a sum node
    entry_share: np.ndarray  # (E,) mass of one copy, 0 in an infinite node
    prior: np.ndarray  # (E, 4) normal-gamma (mu0, rho0, a0, b0); gamma, beta (alpha, beta); levels (alpha_k, K alpha_k)
    #                    of a binomial entry (alpha, beta, trials, 0)
    half_step: np.ndarray  # (D, N+2) lgamma(a0 + n/2 + 1/2) - lgamma(a0 + n/2), columns with a normal-gamma prior
    # slots
    begin: np.ndarray  # (R,) first slot of the region; univariate regions come first
    capacity: np.ndarray  # (R,)
    top: np.ndarray  # (R,) slots in use or freed are begin .. begin+top-1
    n_free: np.ndarray  # (R,)
    free: np.ndarray  # (M,) stacks of freed slots, numbers local to the region
    edge_count: np.ndarray  # (M,) data on the edge
    weight: np.ndarray  # (M,) count + share on occupied edges, 0 elsewhere
    label: np.ndarray  # (M,) what the edge was called in the assignments that `rebuild` read
    edge_split: np.ndarray  # (M,) split of the edge's product
    node: np.ndarray  # (M,) the edge's sum node, local number
    following: np.ndarray  # (M,) next edge of the same sum node, local number, -1 at the end
    preceding: np.ndarray  # (M,)
    value: np.ndarray  # (M,) value of the edge's child for the current datum
    # sum nodes
    node_begin: np.ndarray  # (R,)
    node_count: np.ndarray  # data that reach the node
    node_first: np.ndarray  # first edge of the node, -1 if it has none
    node_edges: np.ndarray  # number of occupied edges
    node_value: np.ndarray
    occupied_begin: (
        np.ndarray
    )  # (P,) occupied copies of entry e in node k of a place: occupied[begin + k n_entries + e]
    occupied: np.ndarray
    # leaves
    entry: np.ndarray  # (L,) palette entry
    s1: np.ndarray  # (L,) sum of the coded values, of a log-normal leaf of their logs
    s2: np.ndarray  # (L,) sum of their squares and cell variances; of counts minus that of log base measures (-log x!)
    log_scale: np.ndarray  # (L,) predictive of a continuous leaf: exp(log_scale - power log1p(t)),
    power: np.ndarray  # (L,)                t = (y - centre)^2 curvature + (y + offset) slope
    centre: np.ndarray  # (L,)
    curvature: np.ndarray  # (L,)
    slope: np.ndarray  # (L,) of counts the five hold what `log_predictive` needs of their family
    level_begin: np.ndarray  # (P,) counts of level k in slot e: level_count[level_begin[d] + k capacity + e]
    level_count: np.ndarray
    log_value: np.ndarray  # (L,) log predictive of the current datum
    scaled: np.ndarray  # (L,) the same minus the column's shift
    # per datum
    empty_value: np.ndarray  # (R,) value of an unoccupied sum node for the current datum
    missing: np.ndarray  # (R,) whether the region is wholly missing
    saved: np.ndarray  # (P, 7) statistics of the datum's old leaf, to be restored bit by bit
    old: np.ndarray  # (R,) slots of the datum before the move
    new: np.ndarray  # (R,) and after
    full: np.ndarray  # (1,) a region has no free slot left: grow before the next datum


_FLOAT_SLOTS = ("weight", "value")
_INT_SLOTS = ("free", "edge_count", "label", "edge_split", "node", "following", "preceding")
_LEAF_SLOTS = ("s1", "s2", "log_scale", "power", "centre", "curvature", "slope", "log_value", "scaled")


def build_network(structure, palette, n_rows, capacity=None):
    """Empty network for a region tree.

    Parameters
    ----------
    structure : RegionTree
    palette : CompiledPalette
        Families, copies, kinds and offsets of the columns (``palette.py``).
    n_rows : int
        Rows that the network will hold at most; the size of the table over leaf counts.
    capacity : (R,) int64, optional
        Slots for each region, prior slots included.
    """
    n_regions, n_columns, n_places = structure.parent.size, len(structure.columns), structure.leaf_region.size
    palette, entry_source = spread(palette, structure.leaf_column)
    column = np.full(n_regions, -1, np.int64)
    column[structure.leaf_region] = np.arange(n_places)
    n_entries = np.diff(palette.entry_ptr)
    width = structure.n_children.copy()
    finite_leaf = (column >= 0) & (width > 0)
    width[finite_leaf] = np.maximum(width[finite_leaf], n_entries[column[finite_leaf]])
    if capacity is None:
        capacity = np.where(column >= 0, n_entries[column], 0) + 8
    n_palette = palette.family.size
    return Network(
        parent=structure.parent,
        part_ptr=structure.part_ptr,
        parts=structure.parts,
        subtree_end=structure.subtree_end,
        split=structure.split,
        n_splits=structure.n_splits,
        column=column,
        leaf_region=structure.leaf_region,
        source=structure.leaf_column,
        place_ptr=np.searchsorted(structure.leaf_column, np.arange(n_columns + 1)),
        size=structure.end - structure.begin,
        width=width,
        entry_ptr=palette.entry_ptr,
        entry_source=entry_source,
        entry_family=palette.family,
        entry_copies=_copies(palette, width[structure.leaf_region]),
        column_kind=palette.column_kind,
        n_levels=palette.n_levels,
        offset=palette.offset,
        cell_variance=palette.cell_variance,
        mass=np.zeros(n_regions),
        share=np.zeros(n_regions),
        entry_mass=np.zeros(n_palette),
        entry_share=np.zeros(n_palette),
        prior=np.zeros((n_palette, 4)),
        half_step=np.zeros((n_columns, n_rows + 2)),
        empty_value=np.zeros(n_regions),
        missing=np.zeros(n_regions, np.bool_),
        saved=np.zeros((n_places, 7)),
        old=np.zeros(n_regions, np.int32),
        new=np.zeros(n_regions, np.int32),
        full=np.zeros(1, np.bool_),
        **_slot_arrays(structure, column, np.asarray(capacity, np.int64), palette),
    )


def spread(palette, leaf_column):
    """Palette with the entries of each column repeated at all its places, and (E,) which entry each came from.

    Parameters
    ----------
    palette : CompiledPalette
        Of the D columns.
    leaf_column : (P,) int64
        Column at each place, ascending.
    """
    if leaf_column.size == palette.n_levels.size:
        return palette, np.arange(palette.family.size)
    pieces = [np.arange(palette.entry_ptr[d], palette.entry_ptr[d + 1]) for d in leaf_column]
    source = np.concatenate(pieces)
    by_place = ("column_kind", "n_levels", "centre", "scale", "offset", "is_density", "cell_variance", "is_count")
    return palette._replace(
        entry_ptr=np.concatenate([[0], np.cumsum([p.size for p in pieces])]).astype(np.int64),
        family=palette.family[source],
        constants=palette.constants[source],
        **{name: getattr(palette, name)[leaf_column] for name in by_place},
    ), source


def resized(network, structure, palette, capacity):
    """Empty network with other capacities and the same hyperparameters."""
    n_rows = network.half_step.shape[1] - 2
    keep = ("mass", "share", "entry_mass", "entry_share", "prior", "half_step")
    other = build_network(structure, palette, n_rows, capacity)
    return other._replace(**{name: getattr(network, name) for name in keep})


def enlarged_capacity(network):
    """Twice the room in every region that is nearly full."""
    tight = network.top - network.n_free + 2 >= network.capacity
    return np.where(tight, 2 * network.capacity, network.capacity)


def tight_capacity(network):
    """Room for the edges in use and a quarter more: gaps between regions cost time, since leaves are one long loop."""
    used = network.top - network.n_free
    return used + np.maximum(4, used // 4)


def _copies(palette, leaf_width):
    """Copies of each entry among the children of a univariate node: labels cycle through the entries."""
    copies = np.zeros(palette.family.size, np.int64)
    for d, width in enumerate(leaf_width):
        first, last = palette.entry_ptr[d], palette.entry_ptr[d + 1]
        if width > 0:
            copies[first:last] = [len(range(e, width, last - first)) for e in range(last - first)]
    return copies


def _slot_arrays(structure, column, capacity, palette):
    n_regions = column.size
    layout = np.concatenate([structure.leaf_region, np.flatnonzero(column < 0)])
    begin = np.empty(n_regions, np.int64)
    begin[layout] = np.cumsum(capacity[layout]) - capacity[layout]
    n_slots = int(capacity.sum())
    leaf_capacity = capacity[structure.leaf_region]
    n_leaves = int(leaf_capacity.sum())
    nodes = np.where(structure.parent >= 0, capacity[structure.parent], 1)
    n_nodes = int(nodes.sum())
    occupied = nodes[structure.leaf_region] * np.diff(palette.entry_ptr)
    level_cells = palette.n_levels * leaf_capacity
    arrays = {name: np.zeros(n_slots) for name in _FLOAT_SLOTS}
    arrays |= {name: np.zeros(n_slots, np.int32) for name in _INT_SLOTS}
    arrays |= {name: np.zeros(n_leaves) for name in _LEAF_SLOTS}
    arrays["log_scale"][:] = EMPTY_LEAF
    return arrays | {
        "begin": begin,
        "capacity": np.ascontiguousarray(capacity),
        "top": np.zeros(n_regions, np.int64),
        "n_free": np.zeros(n_regions, np.int64),
        "node_begin": np.cumsum(nodes) - nodes,
        "node_count": np.zeros(n_nodes, np.int32),
        "node_first": np.full(n_nodes, -1, np.int32),
        "node_edges": np.zeros(n_nodes, np.int32),
        "node_value": np.zeros(n_nodes),
        "occupied_begin": np.cumsum(occupied) - occupied,
        "occupied": np.zeros(int(occupied.sum()), np.int32),
        "entry": np.zeros(n_leaves, np.int32),
        "level_begin": np.cumsum(level_cells) - level_cells,
        "level_count": np.zeros(int(level_cells.sum())),
    }
