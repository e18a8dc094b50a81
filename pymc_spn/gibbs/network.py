"""The occupied part of a Bayesian sum-product network, in flat arrays.

Every region of the region tree keeps a list of *slots*, one for each occupied edge (child of a sum node). A datum
reaches one sum node in each region, so its state is one slot number for each region. The sum node of region ``r``
below slot ``e`` of the parent region is unique. Nodes therefore need no numbers of their own: node ``e`` of region
``r`` is the one below edge ``e`` of region ``parent[r]`` (node 0 at the root). Memory goes with occupied edges, never
with the full tree.

The first slots of a univariate region, one for each palette entry, are *prior slots*. These leaves never hold data and
are worth the prior predictive, which is the value of every unoccupied leaf. A region with leaves over several columns,
its own or below it, has prior slots too, one for each kind of its children. The sum nodes below them never hold data.

Where products split differently, a column stands in several univariate regions. The kernels take each of these *places*
for a column of its own. They see a table of P columns in which columns are repeated (`spread`), and a row reaches one
place of each column it has. Regions that its tree does not reach are -1 in its state, as missing ones are.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import Joints, build_joints, has_joints_below, n_kinds, set_psi0
from pymc_spn.leaves.intervals import EXCLUDED
from pymc_spn.numerics.array_groups import array_group

# How the leaves of a column are evaluated. LOGS: densities, some of the log. CELLS, COUNT_CELLS: whole numbers in
# networks that answer questions, where Gaussian leaves have masses of unit cells, and a count of 0 all that is below.
VECTOR, LEVELS, GENERAL, LOGS, CELLS, COUNT_CELLS = range(6)
LARGEST_LOG = 690.0  # of a value that is drawn: beyond it stands for what would overflow
EMPTY_LEAF = EXCLUDED  # log value of a slot that is not in use


@array_group
class TreeArrays(NamedTuple):
    """The region tree; no kernel changes it."""

    parent: np.ndarray  # (R,) parent region, -1 at the root
    part_ptr: np.ndarray  # (R+1,)
    parts: np.ndarray  # child regions of region r: parts[part_ptr[r]:part_ptr[r+1]]
    subtree_end: np.ndarray  # (R,) regions below r are r+1 .. subtree_end[r]-1
    split: np.ndarray  # (R,) split of the parent region to which the region belongs
    n_splits: np.ndarray  # (R,) splits of the region
    column: np.ndarray  # (R,) place of a univariate region, else -1
    leaf_region: np.ndarray  # (P,) region of the place
    size: np.ndarray  # (R,) number of columns
    width: np.ndarray  # (R,) children of a sum node, 0 for infinitely many
    n_prior: np.ndarray  # (R,) prior slots: palette entries, or kinds of children


@array_group
class PaletteArrays(NamedTuple):
    """Which leaves each place may have. Only the priors change, with the hyperparameters."""

    source: np.ndarray  # (P,) column at the place, ascending
    place_ptr: np.ndarray  # (D+1,) places of column c: place_ptr[c]:place_ptr[c+1]
    entry_ptr: np.ndarray  # (P+1,) palette entries of place d: entry_ptr[d]:entry_ptr[d+1]
    entry_source: np.ndarray  # (E,) the entry's number in the palette of the columns
    family: np.ndarray  # (E,) number in `leaves.family_codes`
    copies: np.ndarray  # (E,) leaves of a finite sum node that belong to the entry, 0 for infinitely many
    column_kind: np.ndarray  # (P,) VECTOR, LEVELS, GENERAL, LOGS, CELLS or COUNT_CELLS
    n_levels: np.ndarray  # (P,) levels of a discrete column, else 0
    offset: np.ndarray  # (P,) centre / scale: coded value + offset = x / scale, what all but Gaussian leaves see
    cell_variance: np.ndarray  # (P,) of a value within its cell, as Gaussian leaves of whole numbers see it; else 0
    prior: np.ndarray  # (E, 4) normal-gamma (mu0, rho0, a0, b0); gamma, beta (alpha, beta); levels (mean alpha,
    #                    sum of alpha); of a binomial entry (alpha, beta, trials, 0)
    level_factor: np.ndarray  # (E', K) alpha of level k under entry e: prior[e, 0] level_factor[entry_source[e], k]
    half_step: np.ndarray  # (D, N+2) lgamma(a0 + n/2 + 1/2) - lgamma(a0 + n/2), columns with a normal-gamma prior


@array_group
class MassArrays(NamedTuple):
    """Prior masses of sum nodes and of their children: the concentrations."""

    total: np.ndarray  # (R,) of a sum node
    share: np.ndarray  # (R,) of one child of a finite inner node, 0 for an infinite one
    entry: np.ndarray  # (E,) of all the entry's copies in a sum node
    entry_share: np.ndarray  # (E,) of one copy, 0 in an infinite node


@array_group
class EdgeArrays(NamedTuple):
    """Slots, one for each occupied edge: the list of each region, and of each sum node within it."""

    begin: np.ndarray  # (R,) first slot of the region; univariate regions come first
    capacity: np.ndarray  # (R,)
    top: np.ndarray  # (R,) slots in use or freed are begin .. begin+top-1
    n_free: np.ndarray  # (R,)
    free: np.ndarray  # (M,) stacks of freed slots, numbers local to the region
    full: np.ndarray  # (1,) a region has no free slot left: grow before the next datum
    n_data: np.ndarray  # (M,) data on the edge
    weight: np.ndarray  # (M,) n_data + share on occupied edges, 0 elsewhere
    label: np.ndarray  # (M,) what the edge was called in the assignments that `rebuild` read
    split: np.ndarray  # (M,) split of the edge's product
    node: np.ndarray  # (M,) the edge's sum node, local number
    following: np.ndarray  # (M,) next edge of the same sum node, local number, -1 at the end
    preceding: np.ndarray  # (M,)


@array_group
class NodeArrays(NamedTuple):
    """Sum nodes, region by region."""

    begin: np.ndarray  # (R,) first node of the region
    n_data: np.ndarray  # data that reach the node
    first: np.ndarray  # first edge of the node, -1 if it has none
    n_edges: np.ndarray  # number of occupied edges
    occupied_begin: np.ndarray  # (P,)
    occupied: np.ndarray  # copies of entry e in node k of a place: occupied[occupied_begin[d] + k n_entries + e]


@array_group
class LeafArrays(NamedTuple):
    """Statistics and predictives of the leaves, which stand in the slots of univariate regions."""

    begin: np.ndarray  # (P,) first slot of the place
    capacity: np.ndarray  # (P,) slots of the place
    entry: np.ndarray  # (L,) palette entry
    n_data: np.ndarray  # (L,) data in the leaf: the beginning of `EdgeArrays.n_data`, the same memory
    s1: np.ndarray  # (L,) sum of the coded values, of a log-normal leaf of their logs
    s2: np.ndarray  # (L,) sum of their squares and cell variances; of counts minus that of log base measures (-log x!)
    log_scale: np.ndarray  # (L,) predictive of a continuous leaf: exp(log_scale - power log1p(t)),
    power: np.ndarray  # (L,)                t = (y - centre)^2 curvature + (y + offset) slope
    centre: np.ndarray  # (L,)
    curvature: np.ndarray  # (L,)
    slope: np.ndarray  # (L,) of counts the five hold what `log_predictive` needs of their family
    level_begin: np.ndarray  # (P,) counts of level k in slot i: level_count[level_begin[d] + k capacity[d] + i]
    level_count: np.ndarray


@array_group
class ScratchArrays(NamedTuple):
    """What the kernels work out for the current datum."""

    edge_value: np.ndarray  # (M,) value of the edge's child
    node_value: np.ndarray  # (V,)
    empty_value: np.ndarray  # (R,) value of an unoccupied sum node
    column_shift: np.ndarray  # (D,) largest log value of a leaf of the column
    log_value: np.ndarray  # (L,) log predictive
    scaled: np.ndarray  # (L,) the same minus the column's shift
    missing: np.ndarray  # (R,) whether the region is wholly missing
    saved: np.ndarray  # (P, 7) statistics of the datum's old leaf, to be restored bit by bit
    old: np.ndarray  # (R,) slots of the datum before the move
    new: np.ndarray  # (R,) and after


class Network(NamedTuple):
    """Structure, hyperparameters, occupied edges, leaf statistics and scratch space of one network.

    There are R regions, D columns at P places (P = D unless products split differently) and E palette entries of all
    places. L slots are those of univariate regions, M are all slots, and V counts sum nodes. A kernel takes the groups
    that it reads or writes, in this order: its signature says what it may touch.
    """

    tree: TreeArrays
    palette: PaletteArrays
    masses: MassArrays
    edges: EdgeArrays
    nodes: NodeArrays
    leaves: LeafArrays
    scratch: ScratchArrays
    joints: Joints | None = None  # leaves over several columns; None where no region has them

    @property
    def of_columns(self):
        """The groups without leaves over several columns, for kernels of networks that have none."""
        return self[:7]


def build_network(structure, compiled, n_rows, capacity=None):
    """Empty network for a region tree.

    Parameters
    ----------
    structure : RegionTree
    compiled : CompiledPalette
        Families, kinds and offsets of the columns (``palette.py``).
    n_rows : int
        Rows that the network will hold at most; the size of the table over leaf counts.
    capacity : (R,) int64, optional
        Slots for each region, prior slots included.
    """
    n_regions, n_places, n_columns = structure.parent.size, structure.leaf_region.size, len(structure.columns)
    column = np.full(n_regions, -1, np.int64)
    column[structure.leaf_region] = np.arange(n_places)
    n_entries = np.diff(compiled.entry_ptr)[structure.leaf_column]
    width = structure.n_children.copy()
    finite_leaf = (column >= 0) & (width > 0)
    width[finite_leaf] = np.maximum(width[finite_leaf], n_entries[column[finite_leaf]])
    kinds, n_prior = n_kinds(structure, compiled), prior_slots(structure, compiled)
    if capacity is None:
        capacity = n_prior + 8
    palette = build_palette(compiled, structure.leaf_column, width[structure.leaf_region], n_rows)
    n_palette = palette.family.size
    edges = _edges(structure, column, np.array(capacity, np.int64))
    nodes = _nodes(structure, edges.capacity, n_entries)
    leaves = _leaves(structure, edges, palette.n_levels)
    return Network(
        TreeArrays(
            parent=structure.parent,
            part_ptr=structure.part_ptr,
            parts=structure.parts,
            subtree_end=structure.subtree_end,
            split=structure.split,
            n_splits=np.where(column >= 0, structure.n_splits, kinds),
            column=column,
            leaf_region=structure.leaf_region,
            size=structure.end - structure.begin,
            width=width,
            n_prior=n_prior,
        ),
        palette,
        MassArrays(np.zeros(n_regions), np.zeros(n_regions), np.zeros(n_palette), np.zeros(n_palette)),
        edges,
        nodes,
        leaves,
        build_scratch(edges.n_data.size, nodes.n_data.size, leaves.entry.size, n_regions, n_places, n_columns),
        build_joints(structure, compiled, edges.capacity),
    )


def prior_slots(structure, compiled):
    """Prior slots (R,): palette entries, kinds of children where leaves over several columns are in it or below."""
    has = has_joints_below(structure, compiled.is_joint)
    has[structure.leaf_region] = True
    return np.where(has, n_kinds(structure, compiled), 0)


def build_palette(compiled, leaf_column, leaf_width, n_rows):
    """Palette of all places, with priors yet to be set.

    Parameters
    ----------
    compiled : CompiledPalette
        Of the D columns.
    leaf_column : (P,) int64
        Column at each place, ascending.
    leaf_width : (P,) int64
        Children of a sum node there, 0 for infinitely many.
    n_rows : int
        The largest leaf count that `half_step` has room for.
    """
    n_columns, level_factor = compiled.n_levels.size, np.ascontiguousarray(compiled.constants[:, 4:])
    compiled, entry_source = spread(compiled, leaf_column)
    return PaletteArrays(
        source=leaf_column,
        place_ptr=np.searchsorted(leaf_column, np.arange(n_columns + 1)),
        entry_ptr=compiled.entry_ptr,
        entry_source=entry_source,
        family=compiled.family,
        copies=_copies(compiled, leaf_width),
        column_kind=compiled.column_kind,
        n_levels=compiled.n_levels,
        offset=compiled.offset,
        cell_variance=compiled.cell_variance,
        prior=np.zeros((compiled.family.size, 4)),
        level_factor=level_factor,
        half_step=np.zeros((n_columns, n_rows + 2)),
    )


def build_scratch(n_slots, n_nodes, n_leaves, n_regions, n_places, n_columns):
    """Scratch space with this much room."""
    return ScratchArrays(
        edge_value=np.zeros(n_slots),
        node_value=np.zeros(n_nodes),
        empty_value=np.zeros(n_regions),
        column_shift=np.zeros(n_columns),
        log_value=np.zeros(n_leaves),
        scaled=np.zeros(n_leaves),
        missing=np.zeros(n_regions, np.bool_),
        saved=np.zeros((n_places, 7)),
        old=np.zeros(n_regions, np.int32),
        new=np.zeros(n_regions, np.int32),
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


def resized(network, structure, compiled, capacity):
    """Empty network with other capacities and the same hyperparameters."""
    n_rows = network.palette.half_step.shape[1] - 2
    other = build_network(structure, compiled, n_rows, capacity)
    priors = {name: getattr(network.palette, name) for name in ("prior", "half_step")}
    if network.joints is not None:
        set_psi0(other.joints, network.joints.psi0)
        other.joints.is_open[:] = network.joints.is_open
    return other._replace(palette=other.palette._replace(**priors), masses=network.masses)


def grown(net, structure, compiled, capacity):
    """The same network with more room: every edge keeps its slot."""
    other, room = resized(net, structure, compiled, capacity), net.edges.capacity
    nodes = np.where(structure.parent >= 0, room[structure.parent], 1)
    blocks = [
        ("edges", "begin", room, "free n_data weight label split node following preceding"),
        ("nodes", "begin", nodes, "n_data first n_edges"),
        ("nodes", "occupied_begin", nodes[structure.leaf_region] * np.diff(net.palette.entry_ptr), "occupied"),
        ("leaves", "begin", room[structure.leaf_region], "entry s1 s2 log_scale power centre curvature slope"),
    ]
    if net.joints is not None:
        size = np.diff(net.joints.column_ptr)
        blocks += [
            ("joints", "sums_begin", room * size, "sums"),
            ("joints", "products_begin", room * size * (size + 1) // 2, "products factor"),
            ("joints", "slot_begin", np.where(size > 0, room, 0), "log_scale n_rows"),
        ]
    for group, begin, sizes, names in blocks:
        old, new = getattr(net, group), getattr(other, group)
        pairs = [(getattr(old, name), getattr(new, name)) for name in names.split()]
        move_blocks(getattr(old, begin), getattr(new, begin), sizes, pairs)
    for d in range(structure.leaf_region.size):
        level_counts(other, d)[:, : net.leaves.capacity[d]] = level_counts(net, d)
    other.edges.top[:] = net.edges.top
    other.edges.n_free[:] = net.edges.n_free
    return other


def move_blocks(begins, new_begins, sizes, pairs):
    """Copy a block of each region from where it began in arrays to where it begins in others."""
    for old, new, size in zip(begins, new_begins, sizes, strict=True):
        for source, target in pairs:
            target[new : new + size] = source[old : old + size]


def level_counts(net, d):
    """Counts (levels, slots) of the leaves at a place, a view."""
    n_levels, leaves = net.palette.n_levels[d], net.leaves
    first = leaves.level_begin[d] + leaves.begin[d]
    return leaves.level_count[first : first + n_levels * leaves.capacity[d]].reshape(n_levels, leaves.capacity[d])


def region_of_slots(edges):
    """(M,) the region of each slot."""
    order = np.argsort(edges.begin)
    return np.repeat(order, edges.capacity[order])


def options_of_slots(net):
    """(M,) split of each edge's product, or palette entry of its leaf within the place."""
    leaves, out = net.leaves, net.edges.split.copy()
    out[: leaves.entry.size] = leaves.entry - np.repeat(net.palette.entry_ptr[:-1], leaves.capacity)
    return out


def own_groups(net):
    """The groups and arrays that differ from draw to draw, without scratch; priors stand for what depends on them."""
    groups = ("masses", "edges", "nodes", "leaves")
    own = {"palette": ("prior",), **{group: getattr(net, group)._fields for group in groups}}
    return own if net.joints is None else own | {"joints": net.joints._fields[:-1]}  # the last one is scratch


def own_bytes(net):
    """Bytes of a network that another one with the same structure and palette does not share."""
    return sum(getattr(getattr(net, group), f).nbytes for group, fields in own_groups(net).items() for f in fields)


def copied(net):
    """A network with arrays of its own, except for those that do not differ from draw to draw, and for the scratch."""
    copies = {}
    for group, fields in own_groups(net).items():
        arrays = getattr(net, group)
        copies[group] = arrays._replace(**{f: getattr(arrays, f).copy() for f in fields})
    n_data = copies["edges"].n_data[: net.leaves.n_data.size]
    return net._replace(**copies | {"leaves": copies["leaves"]._replace(n_data=n_data)})


def enlarged_capacity(network):
    """Twice the room in every region that is nearly full."""
    tight = network.edges.top - network.edges.n_free + 2 >= network.edges.capacity
    return np.where(tight, 2 * network.edges.capacity, network.edges.capacity)


def tight_capacity(network):
    """Room for the edges in use and a quarter more: gaps between regions cost time, since leaves are one long loop."""
    used = network.edges.top - network.edges.n_free
    return used + np.maximum(4, used // 4)


def _copies(palette, leaf_width):
    """Copies of each entry among the children of a univariate node: labels cycle through the entries."""
    copies = np.zeros(palette.family.size, np.int64)
    for d, width in enumerate(leaf_width):
        first, last = palette.entry_ptr[d], palette.entry_ptr[d + 1]
        if width > 0:
            copies[first:last] = [len(range(e, width, last - first)) for e in range(last - first)]
    return copies


def _edges(structure, column, capacity):
    n_regions, n_slots = column.size, int(capacity.sum())
    layout = np.concatenate([structure.leaf_region, np.flatnonzero(column < 0)])
    begin = np.empty(n_regions, np.int64)
    begin[layout] = np.cumsum(capacity[layout]) - capacity[layout]
    numbers = ("free", "n_data", "label", "split", "node", "following", "preceding")
    return EdgeArrays(
        begin=begin,
        capacity=capacity,
        top=np.zeros(n_regions, np.int64),
        n_free=np.zeros(n_regions, np.int64),
        full=np.zeros(1, np.bool_),
        weight=np.zeros(n_slots),
        **{name: np.zeros(n_slots, np.int32) for name in numbers},
    )


def _nodes(structure, capacity, n_entries):
    size = np.where(structure.parent >= 0, capacity[structure.parent], 1)
    n_nodes = int(size.sum())
    occupied = size[structure.leaf_region] * n_entries
    return NodeArrays(
        begin=np.cumsum(size) - size,
        n_data=np.zeros(n_nodes, np.int32),
        first=np.full(n_nodes, -1, np.int32),
        n_edges=np.zeros(n_nodes, np.int32),
        occupied_begin=np.cumsum(occupied) - occupied,
        occupied=np.zeros(int(occupied.sum()), np.int32),
    )


def _leaves(structure, edges, n_levels):
    begin, capacity = edges.begin[structure.leaf_region], edges.capacity[structure.leaf_region]
    n_leaves = int(capacity.sum())
    return empty_leaves(begin, capacity, n_levels, np.zeros(n_leaves, np.int32), edges.n_data[:n_leaves])


def empty_leaves(begin, capacity, n_levels, entry, n_data):
    """Leaves without data.

    Parameters
    ----------
    begin, capacity, n_levels : (P,) int64
    entry, n_data : (L,) int32
    """
    cells = n_levels * capacity
    numbers = ("s1", "s2", "power", "centre", "curvature", "slope")
    return LeafArrays(
        begin=begin,
        capacity=capacity,
        entry=entry,
        n_data=n_data,
        log_scale=np.full(entry.size, EMPTY_LEAF),
        level_begin=np.cumsum(cells) - cells - begin,
        level_count=np.zeros(int(cells.sum())),
        **{name: np.zeros(entry.size) for name in numbers},
    )
