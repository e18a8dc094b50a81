"""Recorded draws as circuits: the occupied part of several draws' networks in common flat arrays, for blocks of rows.

Given a draw, the predictive is a circuit with weights (count + share) / (count + mass) and the leaves' predictives;
what is not occupied is one more child of each sum node. Weights are stored divided, and leaves column by column, one
draw after the other, as `ColumnLeaves` has them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.leaf_kernels import level_mass
from pymc_spn.gibbs.network import LeafArrays, PaletteArrays, TreeArrays, empty_leaves
from pymc_spn.gibbs.occupancy import free_entry_mass, free_mass, n_prior_slots
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel


@array_group
class PackedDraws(NamedTuple):
    """Circuits of S draws of one network of R regions, D columns at P places and E palette entries."""

    # what all draws have in common, as in `Network`
    tree: TreeArrays
    palette: PaletteArrays  # with the priors of the first draw: kernels read trials in them, which are constants
    # sizes
    top: np.ndarray  # (S, R) slots of each region, which are the nodes of the regions below
    leaf_first: np.ndarray  # (S, P) first leaf of each place
    edge_first: np.ndarray  # (S, R) first edge; of a univariate region they are the leaves behind the prior ones
    rest_first: np.ndarray  # (S, R) first of `rest`
    level_first: np.ndarray  # (S, P) first of `level_mass`
    # leaves
    leaves: LeafArrays  # predictives for kernels of single leaves, without statistics; those with levels: `level_mass`
    level_mass: np.ndarray  # of level k in leaf i at a place: level_mass[level_first + k top + i]
    # sum nodes
    node: np.ndarray  # of each edge, within its region
    weight: np.ndarray  # of each edge in its node
    edge_split: np.ndarray
    rest: np.ndarray  # of each node, the weight of its unoccupied children, in a univariate region of each entry's
    fresh: np.ndarray  # (S, E) weights of the entries in an unoccupied node of the place
    # leaves over several columns
    joint_ptr: np.ndarray  # (R + 1,) columns of each region that has such leaves: joint_column[joint_ptr[r]:]
    joint_column: np.ndarray
    edge_joint: np.ndarray  # number of the leaf of each edge, -1 of products; of no edges without such leaves

    @property
    def n_draws(self) -> int:
        """Draws in here."""
        return len(self.top)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are not shared with the networks."""
        own = (
            *self.leaves,
            *(getattr(self, name) for name in self._fields if name not in ("tree", "palette", "leaves")),
        )
        return sum(array.nbytes for array in own)


def packed(nets: Sequence[Any], joints: Sequence[tuple[int, Any]] = ()) -> PackedDraws:
    """Circuits of networks of the same structure and palette.

    Parameters
    ----------
    nets : sequence of Network
        One at least.
    joints : sequence of (int, JointPredictives)
        Regions that have leaves over several columns, and these leaves, which are numbered in this order.
    """
    first = nets[0]
    top = np.array([net.edges.top for net in nets])
    tree, palette = first.tree, first.palette
    n_entries, region = np.diff(palette.entry_ptr), tree.leaf_region
    n_nodes = np.where(tree.parent >= 0, top[:, tree.parent], 1)
    n_edges, n_rest = top.copy(), n_nodes.copy()
    n_edges[:, region] -= n_entries
    n_rest[:, region] *= n_entries
    n_leaves = top[:, region]
    # column by column, and in each draw by draw
    by_column = np.argsort(np.tile(palette.source, len(nets)), kind="stable")
    leaf_first = np.empty(n_leaves.size, np.int64)
    leaf_first[by_column] = _starts(n_leaves.ravel()[by_column])
    sizes = n_edges, n_rest, palette.n_levels * n_leaves
    edge_first, rest_first, level_first = (_starts(size.ravel()).reshape(size.shape) for size in sizes)
    total_edges, total_rest, total_levels = (int(size.sum()) for size in sizes)
    nothing, n_all = np.zeros(0, np.int64), int(n_leaves.sum())
    leaves = empty_leaves(nothing, nothing, nothing, np.zeros(n_all, np.int32), np.zeros(0, np.int32))
    out = PackedDraws(
        tree=tree,
        palette=palette,
        top=top,
        leaf_first=leaf_first.reshape(n_leaves.shape),
        edge_first=edge_first,
        rest_first=rest_first,
        level_first=level_first,
        leaves=leaves._replace(s1=np.zeros(0), s2=np.zeros(0)),
        level_mass=np.zeros(total_levels),
        node=np.zeros(total_edges, np.int32),
        weight=np.zeros(total_edges),
        edge_split=np.zeros(total_edges if np.any(tree.n_splits > 1) else 0, np.int32),
        rest=np.zeros(total_rest),
        fresh=np.zeros((len(nets), palette.family.size)),
        joint_ptr=np.zeros(top.shape[1] + 1, np.int64) if first.joints is None else first.joints.column_ptr,
        joint_column=np.zeros(0, np.int64) if first.joints is None else first.joints.column,
        edge_joint=np.full(0 if first.joints is None else total_edges, -1, np.int32),
    )
    for s, net in enumerate(nets):
        pack(net.tree, net.palette, net.masses, net.edges, net.nodes, net.leaves, s, out)
    n_joints = 0
    for r, found in joints:
        out.edge_joint[edge_first[found.circuit, r] + found.slots] = n_joints + np.arange(found.slots.size)
        n_joints += found.slots.size
    return out


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


@bare_kernel
def pack(tree, palette, masses, edges, nodes, leaves, s, out):
    """Write the network of draw ``s`` to its place in `PackedDraws`."""
    for r in range(tree.parent.size):
        d = tree.column[r]
        begin = edges.begin[r]
        top = edges.top[r]
        first = 0
        if d >= 0:
            first = n_prior_slots(palette, d)
            pack_leaves(tree, palette, masses, leaves, s, d, begin, top, out)
        edge = out.edge_first[s, r]
        for i in range(begin + first, begin + top):
            k = nodes.begin[r] + edges.node[i]
            out.node[edge] = edges.node[i]
            out.weight[edge] = edges.weight[i] / (nodes.n_data[k] + masses.total[r])
            if out.edge_split.size > 0:
                out.edge_split[edge] = edges.split[i]
            edge += 1
        rest = out.rest_first[s, r]
        for k in range(edges.top[tree.parent[r]] if r > 0 else 1):
            total = nodes.n_data[nodes.begin[r] + k] + masses.total[r]
            if d < 0:
                out.rest[rest] = free_mass(tree, masses, nodes, r, k) / total
                rest += 1
                continue
            for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
                out.rest[rest] = free_entry_mass(palette, masses, nodes, d, e, k) / total
                rest += 1


@bare_called_kernel
def pack_leaves(tree, palette, masses, leaves, s, d, begin, top, out):
    """Write the leaves of one place."""
    first = out.leaf_first[s, d]
    for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
        out.fresh[s, e] = masses.entry[e] / masses.total[tree.leaf_region[d]]
    for i in range(top):
        slot = begin + i
        entry = leaves.entry[slot]
        out.leaves.entry[first + i] = entry
        out.leaves.log_scale[first + i] = leaves.log_scale[slot]
        out.leaves.power[first + i] = leaves.power[slot]
        out.leaves.centre[first + i] = leaves.centre[slot]
        out.leaves.curvature[first + i] = leaves.curvature[slot]
        out.leaves.slope[first + i] = leaves.slope[slot]
        if palette.family[entry] == CATEGORICAL:
            total = leaves.n_data[slot] + palette.prior[entry, 1]
            for level in range(palette.n_levels[d]):
                count = leaves.level_count[leaves.level_begin[d] + level * leaves.capacity[d] + slot]
                alpha = level_mass(palette, entry, level)
                out.level_mass[out.level_first[s, d] + level * top + i] = (count + alpha) / total
