"""Starting assignments: recursive k-means, or a draw from the prior."""

import numpy as np

from pymc_spn.circuits.gibbs.induced_tree import propose_tree
from pymc_spn.circuits.gibbs.network import DISCRETE, LOG_NORMAL
from pymc_spn.circuits.gibbs.occupancy import FRESH, attach, mark_missing, new_edge
from pymc_spn.numerics.kernel_options import bare_kernel, inner_kernel, kernel

N_CLUSTERS = 4  # children that an infinite node starts with at most
MIN_ROWS = 8  # smaller groups are not split
MAX_DEPTH = 1  # deeper sum nodes start with one child: finer starts occupy ten times the nodes, and sweeps must undo it


def kmeans_digits(structure, compiled, coded, rng):
    """Digits (N, R) from recursive k-means: rows of the upper sum nodes are clustered on the node's columns.

    Coded columns are put on unit scale, levels become indicators, missing cells stand at the mean. Where products
    split differently, the clusters of a node go through the splits in turn.
    """
    features, feature_ptr = _features(structure, compiled, coded)
    entries = np.ones(structure.n_regions, np.int64)
    entries[structure.leaf_region] = np.diff(compiled.entry_ptr)[structure.leaf_column]
    # a palette of P entries starts on its first entry: children of a cluster are labels 0, P, 2P, ...
    finite = structure.n_children > 0
    copies = np.where(finite, np.maximum(structure.n_children // entries, 1), N_CLUSTERS)
    copies[structure.depth > MAX_DEPTH] = 1
    digits = np.full((len(coded), structure.n_regions), -1, np.int32)
    missing = np.isnan(coded)
    cluster_regions(
        rng,
        structure.parent,
        structure.split,
        structure.n_splits,
        feature_ptr[structure.begin],
        feature_ptr[structure.end],
        np.array(
            [missing[:, structure.order[a:b]].all(1) for a, b in zip(structure.begin, structure.end, strict=True)]
        ),
        copies,
        entries,
        features,
        digits,
    )
    return digits


def _features(structure, compiled, coded):
    """Feature matrix with the columns in region order, and where each column's features begin."""
    blocks = []
    for d in structure.order:
        x = coded[:, d]
        seen = ~np.isnan(x)
        if (compiled.family[compiled.entry_ptr[d] : compiled.entry_ptr[d + 1]] == LOG_NORMAL).any():
            x = np.log(x + compiled.offset[d])
        if compiled.family[compiled.entry_ptr[d]] == DISCRETE:
            block = (x[:, None] == np.arange(compiled.n_levels[d])).astype(np.float64)
            block -= block[seen].mean(0) if seen.any() else 0.0
        else:
            spread = x[seen].std() if seen.any() else 0.0
            centre = x[seen].mean() if seen.any() else 0.0
            block = ((x - centre) / (spread if spread > 0 else 1.0))[:, None]
        block[~seen] = 0.0
        blocks.append(block)
    pointer = np.concatenate([[0], np.cumsum([b.shape[1] for b in blocks])])
    return np.ascontiguousarray(np.hstack(blocks)), pointer


@kernel
def cluster_regions(rng, parent, split, n_splits, first, last, missing, n_clusters, stride, features, digits):
    """Split the rows of every sum node by k-means, from the root down."""
    n_rows, n_regions = digits.shape
    edge = np.zeros((n_regions, n_rows), np.int64)
    for r in range(n_regions):
        group = edge[parent[r]] if r > 0 else np.zeros(n_rows, np.int64)
        is_reached = ~missing[r]
        if r > 0 and n_splits[parent[r]] > 1:
            is_reached &= digits[:, parent[r]] % n_splits[parent[r]] == split[r]
        if r > 0:
            is_reached &= digits[:, parent[r]] >= 0
        rows = np.flatnonzero(is_reached)
        rows = rows[np.argsort(group[rows], kind="mergesort")]
        begin = 0
        fresh = 0  # first unused edge number of the region
        while begin < rows.size:
            end = begin + 1
            while end < rows.size and group[rows[end]] == group[rows[begin]]:
                end += 1
            members = rows[begin:end]
            labels = kmeans(rng, features, members, first[r], last[r], n_clusters[r])
            for i in range(members.size):
                digits[members[i], r] = labels[i] * stride[r]
                edge[r, members[i]] = fresh + labels[i]
            fresh += n_clusters[r]
            begin = end


@inner_kernel
def kmeans(rng, features, rows, first, last, k):
    """Labels of Lloyd's algorithm from a k-means++ start, ten rounds at most; empty clusters are left empty."""
    n = rows.size
    labels = np.zeros(n, np.int64)
    k = min(k, n // 2)
    if n < MIN_ROWS or k < 2:
        return labels
    width = last - first
    centres = np.empty((k, width))
    nearest = np.full(n, np.inf)
    for c in range(k):
        pick = rng.integers(0, n)
        if c > 0:
            total = nearest.sum()
            if total <= 0.0:
                return labels
            u = rng.random() * total
            for i in range(n):
                u -= nearest[i]
                if u < 0.0:
                    pick = i
                    break
        for j in range(width):
            centres[c, j] = features[rows[pick], first + j]
        for i in range(n):
            distance = 0.0
            for j in range(width):
                t = features[rows[i], first + j] - centres[c, j]
                distance += t * t
            if distance < nearest[i]:
                nearest[i] = distance
                labels[i] = c
    sizes = np.empty(k)
    for _ in range(10):
        centres[:] = 0.0
        sizes[:] = 0.0
        for i in range(n):
            sizes[labels[i]] += 1.0
            for j in range(width):
                centres[labels[i], j] += features[rows[i], first + j]
        for c in range(k):
            if sizes[c] > 0.0:
                centres[c] /= sizes[c]
        changed = False
        for i in range(n):
            best = np.inf
            chosen = labels[i]
            for c in range(k):
                if sizes[c] == 0.0:
                    continue
                distance = 0.0
                for j in range(width):
                    t = features[rows[i], first + j] - centres[c, j]
                    distance += t * t
                if distance < best:
                    best = distance
                    chosen = c
            changed |= chosen != labels[i]
            labels[i] = chosen
        if not changed:
            break
    return labels


@bare_kernel
def prior_sweep(rng, net, y, slots, first):
    """Seat the rows one after another by the prior alone; returns the row at which a region ran full, or N."""
    for n in range(first, y.shape[0]):
        if net.full[0]:
            return n
        mark_missing(net, y[n])
        for r in range(slots.shape[1]):
            net.old[r] = FRESH
        propose_tree(rng, net, net.old, net.new)
        for r in range(slots.shape[1]):
            slot = net.new[r]
            if slot <= FRESH:
                slot = new_edge(net, r, slots[n, net.parent[r]] if r > 0 else 0, FRESH - slot)
            slots[n, r] = slot
        attach(net, y[n], slots[n])
    return y.shape[0]
