"""Means and covariances of one recorded state's predictive, by one pass over the occupied nodes."""

import math

import numpy as np

from pymc_spn.gibbs.joint_leaves import is_joint_edge
from pymc_spn.gibbs.occupancy import FRESH, free_entry_mass, free_mass, reaches
from pymc_spn.networks.records.predictive_kernels import prior_slot_mass, relative_value
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel


@kernel
def moments(
    tree,
    palette,
    masses,
    edges,
    nodes,
    scratch,
    joints,
    begin,
    size,
    order,
    position,
    logs,
    leaf_mean,
    leaf_variance,
    joint_mean,
    joint_covariance,
    with_covariance,
):
    """Mean and covariance of a row given what `evaluate_row` has seen of it.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, scratch, joints
        Groups of a `Network`, as `evaluate_row` left it.
    begin, size, order
        Of the region tree.
    position : int64
        From `RegionTree.positions_in_parent`.
    logs : bool
        What `evaluate_row` returned.
    leaf_mean, leaf_variance : (L,) float64
        Of each leaf slot given its column's point or event.
    joint_mean : (L,) float64
        Of the leaves over several columns, slot by slot as their sums, in the order of the region's columns.
    joint_covariance : (L D,) float64
        Likewise, D numbers for each of these; only those of the region's columns are used; empty if not wanted.
    with_covariance : bool

    Returns
    -------
    mean : (D,) float64
    covariance : (D, D) float64
        Empty if not wanted. By the law of total covariance at every sum node: nothing cancels.
    """
    n_regions = tree.parent.size
    n_columns = size[0]
    position_at = np.cumsum(size) - size
    n_nodes = np.ones(n_regions, np.int64)
    for r in range(1, n_regions):
        n_nodes[r] = edges.top[tree.parent[r]]
    mean_at = np.cumsum(n_nodes * size) - n_nodes * size
    node_mean = np.zeros((n_nodes * size).sum())
    second = n_nodes * size * size if with_covariance else np.zeros(n_regions, np.int64)
    cov_at = np.cumsum(second) - second
    node_cov = np.zeros(second.sum())
    empty_mean = np.zeros(n_columns)
    empty_variance = np.zeros(n_columns)
    edge_mean = np.zeros(n_columns)  # by position in the region, like all moments of nodes
    for r in range(n_regions - 1, -1, -1):
        d = tree.column[r]
        m = size[r]
        first = begin[r]
        slots = edges.begin[r]
        if d >= 0:
            empty_leaf_moments(
                palette,
                masses,
                edges,
                nodes,
                scratch,
                r,
                d,
                logs,
                leaf_mean,
                leaf_variance,
                empty_mean,
                empty_variance,
                order[first],
            )
        for node in range(n_nodes[r]):
            k = nodes.begin[r] + node
            total = nodes.n_data[k] + masses.total[r]
            if not scratch.missing[r] and not logs:
                total *= scratch.node_value[k]
            mean = node_mean[mean_at[r] + node * m : mean_at[r] + (node + 1) * m]
            for sweep in range(2 if with_covariance else 1):
                cov = node_cov[cov_at[r] + node * m * m : cov_at[r] + (node + 1) * m * m]
                slot = nodes.first[k]
                while slot >= 0:
                    i = slots + slot
                    share = edges.weight[i] * relative_value(scratch, r, i, k, logs) / total
                    if d >= 0:
                        if share == 0.0:
                            pass  # its mean may be infinite
                        elif sweep == 0:
                            mean[0] += share * leaf_mean[i]
                        else:
                            cov[0] += share * (leaf_variance[i] + (leaf_mean[i] - mean[0]) ** 2)
                    else:
                        add_child(
                            tree, edges, joints, size, position, position_at, mean_at, cov_at, node_mean, node_cov,
                            joint_mean, joint_covariance, r, slot, sweep, share, edge_mean, mean, cov,
                        )  # fmt: skip
                    slot = edges.following[i]
                if d >= 0:
                    for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
                        i = slots + e - palette.entry_ptr[d]
                        share = (
                            free_entry_mass(palette, masses, nodes, d, e, node)
                            * relative_value(scratch, r, i, k, logs)
                            / total
                        )
                        if share == 0.0:
                            pass  # its mean may be infinite
                        elif sweep == 0:
                            mean[0] += share * leaf_mean[i]
                        else:
                            cov[0] += share * (leaf_variance[i] + (leaf_mean[i] - mean[0]) ** 2)
                else:
                    share = free_mass(tree, masses, nodes, r, node) / total
                    if not scratch.missing[r]:
                        value = scratch.empty_value[r]
                        share *= math.exp(value - scratch.node_value[k]) if logs else value
                    for s in range(tree.n_prior[r]):
                        part = 1.0
                        if not scratch.missing[r]:
                            value = scratch.edge_value[slots + s]
                            part = math.exp(value - scratch.empty_value[r]) if logs else value / scratch.empty_value[r]
                        add_child(
                            tree, edges, joints, size, position, position_at, mean_at, cov_at, node_mean, node_cov,
                            joint_mean, joint_covariance, r, s, sweep, share * part / tree.n_prior[r], edge_mean, mean,
                            cov,
                        )  # fmt: skip
                    if tree.n_prior[r] > 0:
                        continue
                    for a in range(m):
                        edge_mean[a] = empty_mean[order[first + a]]
                        if sweep == 1 and share > 0.0:
                            cov[a * m + a] += share * empty_variance[order[first + a]]
                    add_share(sweep, share, edge_mean, mean, cov)
    mean = np.empty(n_columns)
    for a in range(n_columns):
        mean[order[a]] = node_mean[mean_at[0] + a]
    side = n_columns if with_covariance else 0
    covariance = np.empty((side, side))
    for a in range(side):
        for b in range(side):
            covariance[order[a], order[b]] = node_cov[cov_at[0] + a * side + b]
    return mean, covariance


@bare_called_kernel
def add_child(
    tree, edges, joints, size, position, position_at, mean_at, cov_at, node_mean, node_cov, joint_mean,
    joint_covariance, r, slot, sweep, share, edge_mean, mean, cov,
):  # fmt: skip
    """Add what a child of a sum node over several columns has: a product, or a leaf over all of them."""
    m = size[r]
    if joints is not None and is_joint_edge(edges, joints, r, slot):
        first = joints.sums_begin[r] + slot * m
        if share > 0.0:
            for a in range(m):
                edge_mean[a] = joint_mean[first + a]
            if sweep == 1:
                square = joint_covariance[first * size[0] : (first + m) * size[0]]  # of D numbers a column
                for a in range(m):
                    for b in range(m):
                        cov[a * m + b] += share * square[a * size[0] + b]
        add_share(sweep, share, edge_mean, mean, cov)
        return
    for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
        q = tree.parts[j]
        mq = size[q]
        if not reaches(tree, edges, q, slot):
            continue
        at = position[position_at[q] : position_at[q] + mq]
        for a in range(mq):
            edge_mean[at[a]] = node_mean[mean_at[q] + slot * mq + a]
            if sweep == 1 and share > 0.0:
                for b in range(mq):
                    below = node_cov[cov_at[q] + (slot * mq + a) * mq + b]
                    cov[at[a] * m + at[b]] += share * below
    add_share(sweep, share, edge_mean, mean, cov)


@bare_called_kernel
def add_share(sweep, share, edge_mean, mean, cov):
    """First sweep: add an edge's mean; second: its spread round the mean of the node."""
    m = mean.size
    if share == 0.0:
        return
    if sweep == 0:
        for a in range(m):
            mean[a] += share * edge_mean[a]
    else:
        for a in range(m):
            for b in range(m):
                cov[a * m + b] += share * (edge_mean[a] - mean[a]) * (edge_mean[b] - mean[b])


@bare_called_kernel
def empty_leaf_moments(
    palette, masses, edges, nodes, scratch, r, d, logs, leaf_mean, leaf_variance, empty_mean, empty_variance, at
):
    """Mean and variance of an unoccupied univariate node, a mixture of the prior predictives."""
    first = palette.entry_ptr[d]
    last = palette.entry_ptr[d + 1]
    total = 0.0
    for e in range(first, last):
        total += prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, FRESH, logs)
    mean = 0.0
    for e in range(first, last):
        share = prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, FRESH, logs) / total
        if share > 0.0:
            mean += share * leaf_mean[edges.begin[r] + e - first]
    variance = 0.0
    for e in range(first, last):
        share = prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, FRESH, logs) / total
        i = edges.begin[r] + e - first
        if share > 0.0:
            variance += share * (leaf_variance[i] + (leaf_mean[i] - mean) ** 2)
    empty_mean[at] = mean
    empty_variance[at] = variance
