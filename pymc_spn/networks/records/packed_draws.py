"""Recorded draws as circuits: the occupied part of several draws' networks in common flat arrays, for blocks of rows.

Given a draw, the predictive is a circuit with weights (count + share) / (count + mass) and the leaves' predictives;
what is not occupied is one more child of each sum node. Weights are stored divided, and leaves column by column, one
draw after the other, as `ColumnLeaves` has them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.gibbs.occupancy import free_entry_mass, free_mass, n_prior_slots
from pymc_spn.numerics.kernel_options import bare_kernel


class PackedDraws(NamedTuple):
    """Circuits of S draws of one network of R regions, D columns at P places and E palette entries.

    Fields that `Network` has, too, mean the same, for leaves of all draws: kernels of single leaves take either.
    """

    # what all draws have in common
    parent: np.ndarray
    part_ptr: np.ndarray
    parts: np.ndarray
    split: np.ndarray
    n_splits: np.ndarray
    column: np.ndarray
    leaf_region: np.ndarray
    source: np.ndarray
    place_ptr: np.ndarray
    entry_ptr: np.ndarray
    entry_family: np.ndarray
    column_kind: np.ndarray
    offset: np.ndarray
    cell_variance: np.ndarray
    prior: np.ndarray  # (E, 4) of the first draw: of leaves with trials their number, which is a constant
    # what kernels of single leaves read of those with levels: empty, see `level_mass`
    begin: np.ndarray
    capacity: np.ndarray
    level_begin: np.ndarray
    level_count: np.ndarray
    edge_count: np.ndarray
    # sizes
    top: np.ndarray  # (S, R) slots of each region, which are the nodes of the regions below
    leaf_first: np.ndarray  # (S, P) first leaf of each place
    edge_first: np.ndarray  # (S, R) first edge; of a univariate region they are the leaves behind the prior ones
    rest_first: np.ndarray  # (S, R) first of `rest`
    level_first: np.ndarray  # (S, P) first of `level_mass`
    # leaves
    entry: np.ndarray  # palette entry
    log_scale: np.ndarray
    power: np.ndarray
    centre: np.ndarray
    curvature: np.ndarray
    slope: np.ndarray
    level_mass: np.ndarray  # of level k in leaf i at a place: level_mass[level_first + k top + i]
    # sum nodes
    node: np.ndarray  # of each edge, within its region
    weight: np.ndarray  # of each edge in its node
    edge_split: np.ndarray
    rest: np.ndarray  # of each node, the weight of its unoccupied children, in a univariate region of each entry's
    fresh: np.ndarray  # (S, E) weights of the entries in an unoccupied node of the place

    @property
    def n_draws(self) -> int:
        """Draws in here."""
        return len(self.top)


_COMMON = PackedDraws._fields[:15]
_NUMBERS = "log_scale", "power", "centre", "curvature", "slope"  # of leaves


def packed(nets: Sequence[Any]) -> PackedDraws:
    """Circuits of networks of the same structure and palette.

    Parameters
    ----------
    nets : sequence of Network
        One at least.
    """
    first = nets[0]
    top = np.array([net.top for net in nets])
    n_entries = np.diff(first.entry_ptr)
    region = first.leaf_region
    n_nodes = np.where(first.parent >= 0, top[:, first.parent], 1)
    n_edges, n_rest = top.copy(), n_nodes.copy()
    n_edges[:, region] -= n_entries
    n_rest[:, region] *= n_entries
    n_leaves = top[:, region]
    # column by column, and in each draw by draw
    by_column = np.argsort(np.tile(first.source, len(nets)), kind="stable")
    leaf_first = np.empty(n_leaves.size, np.int64)
    leaf_first[by_column] = _starts(n_leaves.ravel()[by_column])
    sizes = n_edges, n_rest, first.n_levels * n_leaves
    edge_first, rest_first, level_first = (_starts(size.ravel()).reshape(size.shape) for size in sizes)
    total_edges, total_rest, total_levels = (int(size.sum()) for size in sizes)
    nothing, n_all = np.zeros(0, np.int64), int(n_leaves.sum())
    out = PackedDraws(
        **{name: getattr(first, name) for name in _COMMON},
        begin=nothing,
        capacity=nothing,
        level_begin=nothing,
        level_count=np.zeros(0),
        edge_count=np.zeros(0, np.int32),
        top=top,
        leaf_first=leaf_first.reshape(n_leaves.shape),
        edge_first=edge_first,
        rest_first=rest_first,
        level_first=level_first,
        entry=np.zeros(n_all, np.int32),
        **{name: np.zeros(n_all) for name in _NUMBERS},
        level_mass=np.zeros(total_levels),
        node=np.zeros(total_edges, np.int32),
        weight=np.zeros(total_edges),
        edge_split=np.zeros(total_edges if np.any(first.n_splits > 1) else 0, np.int32),
        rest=np.zeros(total_rest),
        fresh=np.zeros((len(nets), first.entry_family.size)),
    )
    for s, net in enumerate(nets):
        pack(net, s, out)
    return out


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


@bare_kernel
def pack(net, s, out):
    """Write the network of draw ``s`` to its place in `PackedDraws`."""
    for r in range(net.parent.size):
        d = net.column[r]
        begin = net.begin[r]
        top = net.top[r]
        first = 0
        if d >= 0:
            first = n_prior_slots(net, d)
            pack_leaves(net, s, d, begin, top, out)
        edge = out.edge_first[s, r]
        for i in range(begin + first, begin + top):
            k = net.node_begin[r] + net.node[i]
            out.node[edge] = net.node[i]
            out.weight[edge] = net.weight[i] / (net.node_count[k] + net.mass[r])
            if out.edge_split.size > 0:
                out.edge_split[edge] = net.edge_split[i]
            edge += 1
        rest = out.rest_first[s, r]
        for k in range(net.top[net.parent[r]] if r > 0 else 1):
            total = net.node_count[net.node_begin[r] + k] + net.mass[r]
            if d < 0:
                out.rest[rest] = free_mass(net, r, k) / total
                rest += 1
                continue
            for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
                out.rest[rest] = free_entry_mass(net, d, e, k) / total
                rest += 1


@bare_kernel
def pack_leaves(net, s, d, begin, top, out):
    """Write the leaves of one place."""
    first = out.leaf_first[s, d]
    for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
        out.fresh[s, e] = net.entry_mass[e] / net.mass[net.leaf_region[d]]
    for i in range(top):
        slot = begin + i
        entry = net.entry[slot]
        out.entry[first + i] = entry
        out.log_scale[first + i] = net.log_scale[slot]
        out.power[first + i] = net.power[slot]
        out.centre[first + i] = net.centre[slot]
        out.curvature[first + i] = net.curvature[slot]
        out.slope[first + i] = net.slope[slot]
        if net.entry_family[entry] == CATEGORICAL:
            total = net.edge_count[slot] + net.prior[entry, 1]
            for level in range(net.n_levels[d]):
                count = net.level_count[net.level_begin[d] + level * net.capacity[net.leaf_region[d]] + i]
                out.level_mass[out.level_first[s, d] + level * top + i] = (count + net.prior[entry, 0]) / total
