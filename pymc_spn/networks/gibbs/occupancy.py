"""Bookkeeping of the occupied edges: create and drop edges, attach and detach data, rebuild, digits."""

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.gibbs.family_kernels import is_located
from pymc_spn.networks.gibbs.leaf_kernels import add_value, refresh_leaf
from pymc_spn.networks.gibbs.network import EMPTY_LEAF
from pymc_spn.numerics.elementary import half_step_log_gamma
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel, kernel

FRESH = -2  # in a proposal: FRESH - p is an edge not occupied yet, whose split or palette entry is number p
MISSING = -1  # in a state: the row's tree does not reach the region, or all its cells there are missing


@bare_kernel
def set_hyperparameters(net, inner_mass, leaf_mass, prior):
    """Install concentrations and leaf priors and refresh everything that depends on them.

    Parameters
    ----------
    net : Network
    inner_mass, leaf_mass : float
        Total mass of a sum node over several columns and over one column.
    prior : (E, 4) float64
        Prior parameters of every palette entry of the columns, in coded units.
    """
    same = True
    for e in range(net.prior.shape[0]):
        own = prior[net.entry_source[e]]
        same &= net.prior[e, 2] == own[2]
        for k in range(4):
            net.prior[e, k] = own[k]
    for c in range(net.place_ptr.size - 1):
        d = net.place_ptr[c]
        if not same or net.half_step[c, 0] == 0.0:
            for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
                if is_located(net.entry_family[e]):
                    for n in range(net.half_step.shape[1]):
                        net.half_step[c, n] = half_step_log_gamma(net.prior[e, 2] + 0.5 * n)
                    break
    for d in range(net.entry_ptr.size - 1):
        first = net.entry_ptr[d]
        last = net.entry_ptr[d + 1]
        for e in range(first, last):
            net.entry_mass[e] = leaf_mass / (last - first)
            copies = net.entry_copies[e]
            net.entry_share[e] = net.entry_mass[e] / copies if copies > 0 else 0.0
    for r in range(net.parent.size):
        net.mass[r] = leaf_mass if net.column[r] >= 0 else inner_mass
        net.share[r] = inner_mass / net.width[r] if net.width[r] > 0 and net.column[r] < 0 else 0.0
        refresh_region(net, r)


@bare_kernel
def refresh_region(net, r):
    """Recompute edge weights and leaf predictives of a region, prior slots included."""
    d = net.column[r]
    begin = net.begin[r]
    for i in range(begin, begin + net.top[r]):
        if d < 0:
            net.weight[i] = net.edge_count[i] + net.share[r] if net.edge_count[i] > 0 else 0.0
            continue
        net.weight[i] = net.edge_count[i] + net.entry_share[net.entry[i]] if net.edge_count[i] > 0 else 0.0
        is_used = net.edge_count[i] > 0 or i < begin + n_prior_slots(net, d)
        if net.entry_family[net.entry[i]] != CATEGORICAL and is_used:
            refresh_leaf(net, d, i, net.edge_count[i])


@bare_kernel
def n_prior_slots(net, d):
    return net.entry_ptr[d + 1] - net.entry_ptr[d]


@bare_inner_kernel
def reaches(net, r, slot):
    """Whether an edge of the parent region, occupied or fresh, leads to region ``r``."""
    above = net.parent[r]
    if net.n_splits[above] == 1:
        return True
    return (net.edge_split[net.begin[above] + slot] if slot >= 0 else FRESH - slot) == net.split[r]


@bare_inner_kernel
def free_mass(net, r, node):
    """Mass of the unoccupied children of a sum node over several columns; ``node`` is local."""
    if net.width[r] == 0:
        return net.mass[r]
    return net.share[r] * (net.width[r] - net.node_edges[net.node_begin[r] + node])


@bare_inner_kernel
def free_entry_mass(net, d, e, node):
    """Mass of the unoccupied leaves of palette entry ``e`` (global) at a univariate sum node."""
    copies = net.entry_copies[e]
    if copies == 0:
        return net.entry_mass[e]
    n_entries = n_prior_slots(net, d)
    taken = net.occupied[net.occupied_begin[d] + node * n_entries + e - net.entry_ptr[d]]
    return net.entry_share[e] * (copies - taken)


@bare_inner_kernel
def draw_split(rng, net, r, node, alone):
    """Split of a fresh product: uniform over the unoccupied children of the node, or over splits at infinite width.

    ``node`` is local, below zero for an unoccupied node; ``alone`` is an edge that counts as unoccupied, else FRESH.
    """
    n_splits = net.n_splits[r]
    if n_splits == 1:
        return 0
    if net.width[r] == 0:
        return int(rng.random() * n_splits)
    k = net.node_begin[r] + node
    free = net.width[r]
    if node >= 0:
        free += (alone != FRESH) - net.node_edges[k]
    u = rng.random() * free
    chosen = 0
    for s in range(n_splits):
        free = (net.width[r] - s - 1) // n_splits + 1
        slot = net.node_first[k] if node >= 0 else -1
        while slot >= 0:
            free -= net.edge_split[net.begin[r] + slot] == s and slot != alone
            slot = net.following[net.begin[r] + slot]
        if free > 0:
            chosen = s
            u -= free
            if u < 0.0:
                break
    return chosen


@bare_inner_kernel
def new_edge(net, r, node, option):
    """Occupy a fresh edge of a sum node; returns its slot, local to the region. The caller counts the datum.

    ``option`` is the number of the edge's split, or of its palette entry within the place.
    """
    begin = net.begin[r]
    if net.n_free[r] > 0:
        net.n_free[r] -= 1
        slot = net.free[begin + net.n_free[r]]
    else:
        slot = net.top[r]
        net.top[r] += 1
    if net.n_free[r] == 0 and net.top[r] == net.capacity[r]:
        net.full[0] = True
    i = begin + slot
    k = net.node_begin[r] + node
    net.edge_count[i] = 0
    net.node[i] = node
    net.preceding[i] = -1
    net.following[i] = net.node_first[k]
    if net.node_first[k] >= 0:
        net.preceding[begin + net.node_first[k]] = slot
    net.node_first[k] = slot
    net.node_edges[k] += 1
    d = net.column[r]
    if d >= 0:
        entry = net.entry_ptr[d] + option
        net.entry[i] = entry
        net.s1[i] = 0.0
        net.s2[i] = 0.0
        net.weight[i] = net.entry_share[entry]
        net.occupied[net.occupied_begin[d] + node * n_prior_slots(net, d) + option] += 1
    else:
        net.edge_split[i] = option
        net.weight[i] = net.share[r]
    return slot


@bare_inner_kernel
def drop_edge(net, r, slot):
    """Free an edge that lost its last datum."""
    begin = net.begin[r]
    i = begin + slot
    k = net.node_begin[r] + net.node[i]
    if net.preceding[i] >= 0:
        net.following[begin + net.preceding[i]] = net.following[i]
    else:
        net.node_first[k] = net.following[i]
    if net.following[i] >= 0:
        net.preceding[begin + net.following[i]] = net.preceding[i]
    net.node_edges[k] -= 1
    net.weight[i] = 0.0
    net.free[begin + net.n_free[r]] = slot
    net.n_free[r] += 1
    d = net.column[r]
    if d >= 0:
        e = net.entry[i]
        net.occupied[net.occupied_begin[d] + net.node[i] * n_prior_slots(net, d) + e - net.entry_ptr[d]] -= 1
        net.log_scale[i] = EMPTY_LEAF
        net.power[i] = 0.0
        net.centre[i] = 0.0
        net.curvature[i] = 0.0
        net.slope[i] = 0.0


@bare_kernel
def mark_missing(net, y):
    """Note which regions are wholly missing in a coded row."""
    for r in range(net.parent.size - 1, -1, -1):
        d = net.column[r]
        if d >= 0:
            net.missing[r] = np.isnan(y[d])
        else:
            every = True
            for j in range(net.part_ptr[r], net.part_ptr[r + 1]):
                every &= net.missing[net.parts[j]]
            net.missing[r] = every


@bare_kernel
def detach(net, y, slots):
    """Take a row out of the network; its leaves are saved so that `attach` can restore them bit by bit."""
    for r in range(slots.size):
        slot = slots[r]
        if slot < 0:
            continue
        i = net.begin[r] + slot
        net.edge_count[i] -= 1
        net.weight[i] -= 1.0
        net.node_count[net.node_begin[r] + net.node[i]] -= 1
        d = net.column[r]
        if d >= 0:
            n = net.edge_count[i]
            if n > 0 and net.entry_family[net.entry[i]] != CATEGORICAL:
                keep = net.saved[d]
                keep[0] = net.s1[i]
                keep[1] = net.s2[i]
                keep[2] = net.log_scale[i]
                keep[3] = net.power[i]
                keep[4] = net.centre[i]
                keep[5] = net.curvature[i]
                keep[6] = net.slope[i]
                add_value(net, d, i, n, y[d], -1.0)
                refresh_leaf(net, d, i, n)
            else:
                add_value(net, d, i, n, y[d], -1.0)
        if net.edge_count[i] == 0:
            drop_edge(net, r, slot)


@bare_kernel
def attach(net, y, slots):
    """Put a row on the given edges, all of which exist."""
    for r in range(slots.size):
        slot = slots[r]
        if slot < 0:
            continue
        i = net.begin[r] + slot
        net.edge_count[i] += 1
        net.weight[i] += 1.0
        net.node_count[net.node_begin[r] + net.node[i]] += 1
        d = net.column[r]
        if d < 0:
            continue
        if net.entry_family[net.entry[i]] == CATEGORICAL:
            add_value(net, d, i, net.edge_count[i], y[d], 1.0)
        elif slot == net.old[r] and net.edge_count[i] > 1:
            keep = net.saved[d]
            net.s1[i] = keep[0]
            net.s2[i] = keep[1]
            net.log_scale[i] = keep[2]
            net.power[i] = keep[3]
            net.centre[i] = keep[4]
            net.curvature[i] = keep[5]
            net.slope[i] = keep[6]
        else:
            add_value(net, d, i, net.edge_count[i], y[d], 1.0)
            refresh_leaf(net, d, i, net.edge_count[i])


@bare_kernel
def clear(net):
    """Empty every region; prior slots are put back."""
    net.full[0] = False
    net.level_count[:] = 0.0
    net.occupied[:] = 0
    net.node_count[:] = 0
    net.node_first[:] = -1
    net.node_edges[:] = 0
    net.edge_count[:] = 0
    net.weight[:] = 0.0
    net.node[:] = 0
    net.log_scale[:] = EMPTY_LEAF
    net.power[:] = 0.0
    net.centre[:] = 0.0
    net.curvature[:] = 0.0
    net.slope[:] = 0.0
    net.s1[:] = 0.0
    net.s2[:] = 0.0
    for r in range(net.parent.size):
        net.n_free[r] = 0
        net.top[r] = 0
        d = net.column[r]
        if d >= 0:
            for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
                net.entry[net.begin[r] + net.top[r]] = e
                net.top[r] += 1


@bare_kernel
def rebuild(net, y, labels, options, slots):
    """Rebuild every list and statistic from assignments; removes holes and rounding.

    Parameters
    ----------
    net : Network
        Emptied and filled again; hyperparameters are kept.
    y : (N, P) float64
        Coded table.
    labels : (N, R) int32
        Any labels such that two rows at one sum node share a child if and only if they share the label.
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
    for n in range(y.shape[0]):
        mark_missing(net, y[n])
        for r in range(slots.shape[1]):
            node = slots[n, net.parent[r]] if r > 0 else 0
            if net.missing[r] or node < 0 or (r > 0 and not reaches(net, r, node)):
                slots[n, r] = MISSING
                continue
            d = net.column[r]
            slot = find_edge(net, r, node, labels[n, r])
            if slot < 0:
                if net.top[r] == net.capacity[r]:
                    return False
                slot = new_edge(net, r, node, options[n, r])
                net.label[net.begin[r] + slot] = labels[n, r]
            slots[n, r] = slot
            i = net.begin[r] + slot
            net.edge_count[i] += 1
            net.node_count[net.node_begin[r] + node] += 1
            if d >= 0:
                add_value(net, d, i, net.edge_count[i], y[n, d], 1.0)
    for r in range(net.parent.size):
        refresh_region(net, r)
    return True


@bare_inner_kernel
def find_edge(net, r, node, label):
    """Edge of a sum node that carries a label, -1 if there is none."""
    slot = net.node_first[net.node_begin[r] + node]
    while slot >= 0 and net.label[net.begin[r] + slot] != label:
        slot = net.following[net.begin[r] + slot]
    return slot


@kernel
def write_digits(net, slots, digits):
    """Digits of every row: children of a sum node numbered by first appearance.

    The digit modulo the number of splits is the split; of leaves, modulo the size of the palette, the palette entry.

    Parameters
    ----------
    net : Network
    slots : (N, R) int32
    digits : (N, R) int32
        Out; -1 where a region is wholly missing or not reached.
    """
    number = np.full(net.edge_count.size, -1, np.int32)
    used = np.zeros((net.node_count.size, net.n_splits.max()), np.int32)
    copies = np.zeros(net.occupied.size, np.int32)
    for n in range(slots.shape[0]):
        for r in range(slots.shape[1]):
            slot = slots[n, r]
            if slot < 0:
                digits[n, r] = MISSING
                continue
            i = net.begin[r] + slot
            if number[i] < 0:
                d = net.column[r]
                if d < 0:
                    k = net.node_begin[r] + net.node[i]
                    s = net.edge_split[i]
                    number[i] = used[k, s] * net.n_splits[r] + s
                    used[k, s] += 1
                else:
                    n_entries = n_prior_slots(net, d)
                    e = net.entry[i] - net.entry_ptr[d]
                    k = net.occupied_begin[d] + net.node[i] * n_entries + e
                    number[i] = copies[k] * n_entries + e
                    copies[k] += 1
            digits[n, r] = number[i]


@bare_kernel
def write_options(net, slots, options):
    """Split of every row's product and palette entry of its leaf, within the region; 0 where there is none."""
    for n in range(slots.shape[0]):
        for r in range(slots.shape[1]):
            options[n, r] = 0
            if slots[n, r] >= 0:
                i = net.begin[r] + slots[n, r]
                d = net.column[r]
                options[n, r] = net.entry[i] - net.entry_ptr[d] if d >= 0 else net.edge_split[i]
