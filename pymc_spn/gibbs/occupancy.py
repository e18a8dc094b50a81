"""Bookkeeping of the occupied edges: create and drop edges, attach and detach data, rebuild, digits."""

import math

import numpy as np

from pymc_spn.gibbs.joint_leaves import add_rows, refresh_joints
from pymc_spn.gibbs.leaf_kernels import add_value, install_priors, refresh_leaf, refresh_leaves
from pymc_spn.gibbs.network import EMPTY_LEAF, options_of_slots, region_of_slots
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_inner_kernel, bare_kernel, copied_kernel

FRESH = -2  # in a proposal: FRESH - p is an edge not occupied yet, whose split or palette entry is number p
MISSING = -1  # in a state: the row's tree does not reach the region, or all its cells there are missing


def set_hyperparameters(net, concentration, prior):
    """Install concentrations and leaf priors and refresh everything that depends on them.

    Parameters
    ----------
    net : Network
    concentration : (2,) float64
        Total mass of a sum node over several columns and over one column.
    prior : (E, 4) float64
        Prior parameters of every palette entry of the columns, in coded units.
    """
    tree, palette, masses = net.tree, net.palette, net.masses
    install_priors(palette, prior)
    n_entries = np.diff(palette.entry_ptr)
    masses.entry[:] = concentration[1] / np.repeat(n_entries, n_entries)
    masses.entry_share[:] = np.where(palette.copies > 0, masses.entry / np.maximum(palette.copies, 1), 0.0)
    masses.total[:] = np.where(tree.column >= 0, concentration[1], concentration[0])
    is_finite = (tree.width > 0) & (tree.column < 0)
    masses.share[:] = np.where(is_finite, concentration[0] / np.maximum(tree.width, 1), 0.0)
    refresh(net)


def refresh(net):
    """Recompute edge weights and all predictives from counts and sums, those of prior slots included."""
    tree, edges, leaves = net.tree, net.edges, net.leaves
    share = net.masses.share[region_of_slots(edges)]
    share[: leaves.entry.size] = net.masses.entry_share[leaves.entry]
    edges.weight[:] = np.where(edges.n_data > 0, edges.n_data + share, 0.0)
    is_used = leaves.n_data > 0
    is_used[prior_slots_of(edges, tree.n_prior[tree.leaf_region], tree.leaf_region)] = True
    refresh_leaves(net.palette, leaves, is_used)
    if net.joints is not None:
        refresh_joints(edges, net.joints)


def prior_slots_of(edges, n_prior, regions):
    """Prior slots of regions, one after the other."""
    first = np.cumsum(n_prior) - n_prior
    return np.repeat(edges.begin[regions] - first, n_prior) + np.arange(n_prior.sum())


@copied_kernel
def n_prior_slots(palette, d):
    return palette.entry_ptr[d + 1] - palette.entry_ptr[d]


@copied_kernel
def reaches(tree, edges, r, slot):
    """Whether an edge of the parent region, occupied or fresh, leads to region ``r``."""
    above = tree.parent[r]
    if tree.n_splits[above] == 1:
        return True
    return (edges.split[edges.begin[above] + slot] if slot >= 0 else FRESH - slot) == tree.split[r]


@copied_kernel
def free_mass(tree, masses, nodes, r, node):
    """Mass of the unoccupied children of a sum node over several columns; ``node`` is local."""
    if tree.width[r] == 0:
        return masses.total[r]
    return masses.share[r] * (tree.width[r] - nodes.n_edges[nodes.begin[r] + node])


@copied_kernel
def free_entry_mass(palette, masses, nodes, d, e, node):
    """Mass of the unoccupied leaves of palette entry ``e`` (global) at a univariate sum node."""
    copies = palette.copies[e]
    if copies == 0:
        return masses.entry[e]
    n_entries = n_prior_slots(palette, d)
    taken = nodes.occupied[nodes.occupied_begin[d] + node * n_entries + e - palette.entry_ptr[d]]
    return masses.entry_share[e] * (copies - taken)


@bare_called_kernel
def draw_split(rng, tree, edges, nodes, r, node):
    """Split of a fresh product: uniform over the unoccupied children of the node, or over splits at infinite width.

    ``node`` is local, below zero for an unoccupied node.
    """
    n_splits = tree.n_splits[r]
    if n_splits == 1:
        return 0
    if tree.width[r] == 0:
        return int(rng.random() * n_splits)
    k = nodes.begin[r] + node
    free = tree.width[r]
    if node >= 0:
        free -= nodes.n_edges[k]
    u = rng.random() * free
    chosen = 0
    for s in range(n_splits):
        free = (tree.width[r] - s - 1) // n_splits + 1
        slot = nodes.first[k] if node >= 0 else -1
        while slot >= 0:
            free -= edges.split[edges.begin[r] + slot] == s
            slot = edges.following[edges.begin[r] + slot]
        if free > 0:
            chosen = s
            u -= free
            if u < 0.0:
                break
    return chosen


@bare_called_kernel
def new_edge(tree, palette, masses, edges, nodes, leaves, r, node, option):
    """Occupy a fresh edge of a sum node; returns its slot, local to the region. The caller counts the datum.

    ``option`` is the number of the edge's split, or of its palette entry within the place.
    """
    begin = edges.begin[r]
    if edges.n_free[r] > 0:
        edges.n_free[r] -= 1
        slot = edges.free[begin + edges.n_free[r]]
    else:
        slot = edges.top[r]
        edges.top[r] += 1
    if edges.n_free[r] == 0 and edges.top[r] == edges.capacity[r]:
        edges.full[0] = True
    i = begin + slot
    k = nodes.begin[r] + node
    edges.n_data[i] = 0
    edges.node[i] = node
    edges.preceding[i] = -1
    edges.following[i] = nodes.first[k]
    if nodes.first[k] >= 0:
        edges.preceding[begin + nodes.first[k]] = slot
    nodes.first[k] = slot
    nodes.n_edges[k] += 1
    d = tree.column[r]
    if d >= 0:
        entry = palette.entry_ptr[d] + option
        leaves.entry[i] = entry
        leaves.s1[i] = 0.0
        leaves.s2[i] = 0.0
        edges.weight[i] = masses.entry_share[entry]
        nodes.occupied[nodes.occupied_begin[d] + node * n_prior_slots(palette, d) + option] += 1
    else:
        edges.split[i] = option
        edges.weight[i] = masses.share[r]
    return slot


@bare_called_kernel
def drop_edge(tree, palette, edges, nodes, leaves, r, slot):
    """Free an edge that lost its last datum."""
    begin = edges.begin[r]
    i = begin + slot
    k = nodes.begin[r] + edges.node[i]
    if edges.preceding[i] >= 0:
        edges.following[begin + edges.preceding[i]] = edges.following[i]
    else:
        nodes.first[k] = edges.following[i]
    if edges.following[i] >= 0:
        edges.preceding[begin + edges.following[i]] = edges.preceding[i]
    nodes.n_edges[k] -= 1
    edges.weight[i] = 0.0
    edges.free[begin + edges.n_free[r]] = slot
    edges.n_free[r] += 1
    d = tree.column[r]
    if d >= 0:
        e = leaves.entry[i]
        nodes.occupied[
            nodes.occupied_begin[d] + edges.node[i] * n_prior_slots(palette, d) + e - palette.entry_ptr[d]
        ] -= 1
        leaves.log_scale[i] = EMPTY_LEAF
        leaves.power[i] = 0.0
        leaves.centre[i] = 0.0
        leaves.curvature[i] = 0.0
        leaves.slope[i] = 0.0


@bare_called_kernel
def make_again(tree, palette, masses, edges, nodes, leaves, slots, options):
    """Occupy the edges again that a row left empty: freed last in their regions, they are those that come back.

    ``options`` (R,) are the splits and palette entries of the row's edges.
    """
    for r in range(slots.size):
        if slots[r] >= 0 and edges.n_data[edges.begin[r] + slots[r]] == 0:
            node = slots[tree.parent[r]] if r > 0 else 0
            new_edge(tree, palette, masses, edges, nodes, leaves, r, node, options[r])


@bare_inner_kernel
def mark_missing(tree, scratch, y):
    """Note which regions are wholly missing in a coded row."""
    for r in range(tree.parent.size - 1, -1, -1):
        d = tree.column[r]
        if d >= 0:
            scratch.missing[r] = math.isnan(y[d])
        else:
            every = True
            for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                every &= scratch.missing[tree.parts[j]]
            scratch.missing[r] = every


@bare_called_kernel
def detach(tree, palette, edges, nodes, leaves, scratch, y, slots):
    """Take a row out of the network; its leaves are saved so that `attach` can restore them bit by bit."""
    for r in range(slots.size):
        slot = slots[r]
        if slot < 0:
            continue
        i = edges.begin[r] + slot
        edges.n_data[i] -= 1
        edges.weight[i] -= 1.0
        nodes.n_data[nodes.begin[r] + edges.node[i]] -= 1
        d = tree.column[r]
        if d >= 0:
            n = edges.n_data[i]
            if n > 0 and palette.family[leaves.entry[i]] != CATEGORICAL:
                keep = scratch.saved[d]
                keep[0] = leaves.s1[i]
                keep[1] = leaves.s2[i]
                keep[2] = leaves.log_scale[i]
                keep[3] = leaves.power[i]
                keep[4] = leaves.centre[i]
                keep[5] = leaves.curvature[i]
                keep[6] = leaves.slope[i]
                add_value(palette, leaves, d, i, n, y[d], -1.0)
                refresh_leaf(palette, leaves, d, i, n)
            else:
                add_value(palette, leaves, d, i, n, y[d], -1.0)
        if edges.n_data[i] == 0:
            drop_edge(tree, palette, edges, nodes, leaves, r, slot)


@copied_kernel
def count_row(edges, nodes, slots):
    """Count one row more on the given edges."""
    for r in range(slots.size):
        if slots[r] >= 0:
            i = edges.begin[r] + slots[r]
            edges.n_data[i] += 1
            edges.weight[i] += 1.0
            nodes.n_data[nodes.begin[r] + edges.node[i]] += 1


@bare_called_kernel
def attach(tree, palette, edges, nodes, leaves, scratch, y, slots):
    """Put a row on the given edges, all of which exist."""
    count_row(edges, nodes, slots)
    for d in range(tree.leaf_region.size):
        r = tree.leaf_region[d]
        slot = slots[r]
        if slot < 0:
            continue
        i = edges.begin[r] + slot
        if palette.family[leaves.entry[i]] == CATEGORICAL:
            add_value(palette, leaves, d, i, edges.n_data[i], y[d], 1.0)
        elif slot == scratch.old[r] and edges.n_data[i] > 1:
            keep = scratch.saved[d]
            leaves.s1[i] = keep[0]
            leaves.s2[i] = keep[1]
            leaves.log_scale[i] = keep[2]
            leaves.power[i] = keep[3]
            leaves.centre[i] = keep[4]
            leaves.curvature[i] = keep[5]
            leaves.slope[i] = keep[6]
        else:
            add_value(palette, leaves, d, i, edges.n_data[i], y[d], 1.0)
            refresh_leaf(palette, leaves, d, i, edges.n_data[i])


def clear(net):
    """Empty every region; prior slots are put back."""
    tree, edges, nodes, leaves = net.tree, net.edges, net.nodes, net.leaves
    for values in (edges.full, edges.n_free, edges.n_data, edges.weight, edges.node, nodes.n_data, nodes.n_edges):
        values[:] = 0
    for values in (nodes.occupied, leaves.level_count, leaves.s1, leaves.s2):
        values[:] = 0
    nodes.first[:] = -1
    for values in (leaves.power, leaves.centre, leaves.curvature, leaves.slope):
        values[:] = 0.0
    leaves.log_scale[:] = EMPTY_LEAF
    edges.top[:] = tree.n_prior
    regions = np.arange(tree.parent.size)
    option = np.arange(tree.n_prior.sum()) - np.repeat(np.cumsum(tree.n_prior) - tree.n_prior, tree.n_prior)
    edges.split[prior_slots_of(edges, tree.n_prior, regions)] = option
    n_entries = tree.n_prior[tree.leaf_region]
    leaves.entry[prior_slots_of(edges, n_entries, tree.leaf_region)] = np.arange(n_entries.sum())
    if net.joints is not None:
        net.joints.sums[:] = 0.0
        net.joints.products[:] = 0.0


def rebuild(net, y, filled, labels, options, slots):
    """Rebuild every list and statistic from assignments; removes holes and rounding.

    Parameters
    ----------
    net : Network
        Emptied and filled again; hyperparameters are kept.
    y : (N, P) float64
        Coded table.
    filled : (N, D) float64
        The same with each column once, and with the cells that were drawn in leaves over several columns.
    labels : (N, R) int32
        Any labels such that two rows at one sum node share a child if and only if they share the label. Rows with -1
        are not in the network.
    options : (N, R) int32
        Split of each row's product, palette entry of its leaf; ignored where missing or not reached.
    slots : (N, R) int32
        Out: the slots, numbered by first appearance; -1 where a region is wholly missing or not reached.

    Returns
    -------
    bool
        False when a region is too small: enlarge the network and call again.
    """
    clear(net)
    if not place_rows(*net.of_columns, y, labels, options, slots):
        return False
    if net.joints is not None:
        add_rows(net.edges, net.joints, filled, slots)
    refresh(net)
    return True


@bare_kernel
def place_rows(tree, palette, masses, edges, nodes, leaves, scratch, y, labels, options, slots):
    """Put rows on edges by their labels, without predictives; returns whether there was room, see `rebuild`."""
    for n in range(y.shape[0]):
        mark_missing(tree, scratch, y[n])
        for r in range(slots.shape[1]):
            node = slots[n, tree.parent[r]] if r > 0 else 0
            off_tree = node < 0 or (r > 0 and not reaches(tree, edges, r, node))
            if labels[n, r] == MISSING or scratch.missing[r] or off_tree:
                slots[n, r] = MISSING
                continue
            d = tree.column[r]
            slot = find_edge(edges, nodes, r, node, labels[n, r])
            if slot < 0:
                if edges.top[r] == edges.capacity[r]:
                    return False
                slot = new_edge(tree, palette, masses, edges, nodes, leaves, r, node, options[n, r])
                edges.label[edges.begin[r] + slot] = labels[n, r]
            slots[n, r] = slot
            i = edges.begin[r] + slot
            edges.n_data[i] += 1
            nodes.n_data[nodes.begin[r] + node] += 1
            if d >= 0:
                add_value(palette, leaves, d, i, edges.n_data[i], y[n, d], 1.0)
    return True


@copied_kernel
def find_edge(edges, nodes, r, node, label):
    """Edge of a sum node that carries a label, -1 if there is none."""
    slot = nodes.first[nodes.begin[r] + node]
    while slot >= 0 and edges.label[edges.begin[r] + slot] != label:
        slot = edges.following[edges.begin[r] + slot]
    return slot


def options_of_rows(net, slots):
    """Split (N, R) of every row's product and palette entry of its leaf, within the region; 0 where there is none."""
    return np.where(slots >= 0, options_of_slots(net)[net.edges.begin + np.maximum(slots, 0)], 0)


def digits_of_rows(net, slots):
    """Digits (N, R) of every row: children of a sum node numbered by first appearance.

    The digit modulo the number of splits is the split; of leaves, modulo the size of the palette, the palette entry.
    Digits are -1 where a region is wholly missing or not reached.
    """
    tree, edges = net.tree, net.edges
    is_reached = slots >= 0
    at = (edges.begin + slots)[is_reached]
    first = np.full(edges.n_data.size, -1)
    first[at[::-1]] = np.arange(at.size)[::-1]  # of equal indices the last one is written
    edge = np.flatnonzero(first >= 0)
    edge = edge[np.argsort(first[edge])]
    region, option = region_of_slots(edges)[edge], options_of_slots(net)[edge]
    n_options = np.where(tree.column >= 0, np.diff(net.palette.entry_ptr)[tree.column], tree.n_splits)
    kind = (net.nodes.begin[region] + edges.node[edge]) * n_options.max() + option
    order = np.argsort(kind, kind="stable")
    count = np.arange(edge.size)
    is_first = np.diff(kind[order], prepend=-1) != 0
    count -= np.maximum.accumulate(np.where(is_first, count, 0))
    number = first  # whose other entries nobody reads
    number[edge[order]] = count * n_options[region[order]] + option[order]
    digits = np.full(slots.shape, MISSING, np.int32)
    digits[is_reached] = number[at]
    return digits
