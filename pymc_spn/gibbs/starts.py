"""Starting assignments by recursive k-means."""

import numpy as np

from pymc_spn.gibbs.joint_leaves import joint_regions
from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.family_codes import CATEGORICAL, GAUSSIAN
from pymc_spn.leaves.kernel_forms import LOGARITHM
from pymc_spn.numerics.k_means import join_points, k_means

N_CLUSTERS = 4  # children that an infinite node starts with at most
MIN_ROWS = 8  # smaller groups are not split
ROUNDS = 10  # of k-means
RARE = 0.25  # of the rows of a mean cluster: levels with less are rare
MAX_DEPTH = 1  # deeper sum nodes start with one child: finer starts occupy ten times the nodes, and sweeps must undo it


def kmeans_digits(structure, compiled, coded, rng, is_open):
    """Digits (N, R) from recursive k-means: rows of the upper sum nodes are clustered on the node's columns.

    Coded columns are put on unit scale, levels count as indicators, missing cells stand at the mean. Where products
    split differently, the clusters of a node go through the splits in turn. Where leaves over several columns are open
    ((R,) bool), all clusters are such leaves.
    """
    entries = np.ones(structure.n_regions, np.int64)
    entries[structure.leaf_region] = np.diff(compiled.entry_ptr)[structure.leaf_column]
    # a palette of P entries starts on its first entry: children of a cluster are labels 0, P, 2P, ...
    finite = structure.n_children > 0
    copies = np.where(finite, np.maximum(structure.n_children // entries, 1), N_CLUSTERS)
    copies[structure.depth > MAX_DEPTH] = 1
    digits = zeros_apart(structure, compiled, coded, cluster_regions(structure, compiled, coded, copies, entries, rng))
    digits = among_kinds(structure, compiled, digits)
    below = np.zeros(structure.n_regions, np.bool_)
    for r in np.flatnonzero(joint_regions(structure, compiled.is_joint) & is_open):
        if not below[r]:
            n_kinds = structure.n_splits[r] + 1
            digits[:, r] = np.where(digits[:, r] < 0, -1, (digits[:, r] // n_kinds) * n_kinds + n_kinds - 1)
            below[r + 1 : structure.subtree_end[r]] = True
    digits[:, below] = -1
    return digits


def among_kinds(structure, compiled, digits):
    """Digits (N, R) of products where a leaf over all columns is one kind of children more, changed in place."""
    for r in np.flatnonzero(joint_regions(structure, compiled.is_joint)):
        label, split = np.divmod(digits[:, r], structure.n_splits[r])
        digits[:, r] = np.where(digits[:, r] < 0, -1, label * (structure.n_splits[r] + 1) + split)
    return digits


def entries_of_zeros(structure, compiled):
    """Entry (R,) within its palette that is centred at 0 among others, -1 of regions without."""
    out = np.full(structure.n_regions, -1)
    for r, d in zip(structure.leaf_region, structure.leaf_column, strict=True):
        own = slice(compiled.entry_ptr[d], compiled.entry_ptr[d + 1])
        if compiled.is_density[d] and own.stop - own.start > 1:
            at_zero = (compiled.constants[own, 0] == -compiled.offset[d]) & (compiled.family[own] == GAUSSIAN)
            out[r] = np.argmax(at_zero) if at_zero.any() else -1
    return out


def zeros_apart(structure, compiled, coded, digits):
    """Digits (N, R) with the rows that are 0 in a column on a leaf of the entry for zeros, if there is one."""
    entries = entries_of_zeros(structure, compiled)
    for r, d in zip(structure.leaf_region, structure.leaf_column, strict=True):
        if entries[r] >= 0 and (structure.n_children[r] == 0 or structure.n_children[r] > entries[r]):
            is_zero = np.abs(coded[:, d] + compiled.offset[d]) <= 1e-9 * (1.0 + abs(compiled.offset[d]))
            digits[:, r] = np.where(is_zero & (digits[:, r] >= 0), entries[r], digits[:, r])
    return digits


def cluster_regions(structure, compiled, coded, n_clusters, stride, rng, min_rows=MIN_ROWS, room=0):
    """Digits (N, R) from recursive k-means with so many clusters (R,) of a region's rows, labelled 0, stride, ...

    Groups of less than `min_rows` rows are not split. Up to `room` clusters more at the top are of rare levels' rows.
    """
    missing = np.isnan(coded)
    wholly = [missing[:, structure.order[a:b]].all(1) for a, b in zip(structure.begin, structure.end, strict=True)]
    digits = np.full((len(coded), structure.n_regions), -1, np.int32)
    tree = structure.parent, structure.split, structure.n_splits, structure.begin, structure.end
    points = _points(structure, compiled, coded)
    rare = rows_of_rare_levels(compiled, coded, n_clusters[0]) if room > 0 else []
    split_rows(rng, *tree, np.array(wholly), n_clusters, min_rows, stride, points, digits, rare, room)
    return digits


def rows_of_rare_levels(compiled, coded, n_clusters):
    """Rows of each level that k-means with so many clusters will not find, the rarest first: enough to learn from."""
    found, limit = [], RARE * len(coded) / n_clusters
    for d in np.flatnonzero(compiled.n_levels):
        levels, sizes = np.unique(coded[:, d], return_counts=True)  # a gap is equal to no level
        own = levels[(sizes >= MIN_ROWS) & (sizes < limit)]
        found += [np.flatnonzero(coded[:, d] == level) for level in own]
    return sorted((rows for rows in found if rows.size), key=len)


def _points(structure, compiled, coded):
    """Columns in region order as k-means sees them."""
    columns = []
    for d in structure.order:
        x = coded[:, d]
        seen = ~np.isnan(x)
        if compiled.family[compiled.entry_ptr[d]] == CATEGORICAL:
            counts = np.bincount(x[seen].astype(np.int64), minlength=compiled.n_levels[d])
            columns.append((np.where(seen, x, compiled.n_levels[d]), counts / max(seen.sum(), 1), 1.0))
            continue
        families = compiled.family[compiled.entry_ptr[d] : compiled.entry_ptr[d + 1]]
        if np.isin(families, families_with(LOGARITHM)).any():
            x = np.log(x + compiled.offset[d])
        spread = x[seen].std() if seen.any() else 0.0
        centre = x[seen].mean() if seen.any() else 0.0
        columns.append((np.where(seen, (x - centre) / (spread if spread > 0 else 1.0), 0.0), np.empty(0), 1.0))
    return join_points(columns)


def split_rows(
    rng, parent, split, n_splits, first, last, missing, n_clusters, min_rows, stride, points, digits, rare, room
):  # fmt: skip
    """Split the rows of every sum node by k-means, from the root down, where rare levels have clusters of their own."""
    n_rows, n_regions = digits.shape
    edge = np.zeros((n_regions, n_rows), np.int64)
    for r in range(n_regions):
        group = edge[parent[r]] if r > 0 else np.zeros(n_rows, np.int64)
        is_reached = ~missing[r]
        if r > 0:
            above = digits[:, parent[r]]
            is_reached &= above >= 0
            if n_splits[parent[r]] > 1:
                is_reached &= above % n_splits[parent[r]] == split[r]
        rows = np.flatnonzero(is_reached)
        rows = rows[np.argsort(group[rows], kind="stable")]
        _, begin, sizes = np.unique(group[rows], return_index=True, return_counts=True)
        labels = np.zeros(rows.size, np.int64)
        for start, size in zip(begin, sizes, strict=True):
            k = min(int(n_clusters[r]), int(size) // 2)
            if size >= min_rows and k > 1:
                members = rows[start : start + size]
                labels[start : start + size] = k_means(rng, points, members, first[r], last[r], k, ROUNDS)
        used = 0
        for members in rare if r == 0 else []:
            k = min(N_CLUSTERS, max(members.size // (2 * MIN_ROWS), 1), room - used)
            if k > 0:
                own = k_means(rng, points, members, first[0], last[0], k, ROUNDS)
                labels[np.searchsorted(rows, members)] = n_clusters[0] + used + own
                used += k
        digits[rows, r] = labels * stride[r]
        edge[r, rows] = np.repeat(np.arange(sizes.size), sizes) * n_clusters[r] + labels
