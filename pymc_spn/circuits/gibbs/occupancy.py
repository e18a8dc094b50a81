"""Bookkeeping of the occupied edges: create and drop edges, attach and detach data, rebuild, digits."""

import numpy as np

from pymc_spn.circuits.gibbs.leaf_kernels import add_value, refresh_leaf
from pymc_spn.circuits.gibbs.network import DISCRETE, EMPTY_LEAF, GAUSSIAN
from pymc_spn.numerics.elementary import half_step_log_gamma
from pymc_spn.numerics.kernel_options import bare_kernel, kernel

FRESH = -2  # in a proposal: an edge that is not occupied yet
MISSING = -1  # in a state: the region is wholly missing for this row


@bare_kernel
def set_hyperparameters(net, inner_mass, leaf_mass, prior):
    """Install concentrations and leaf priors and refresh everything that depends on them.

    Parameters
    ----------
    net : Network
    inner_mass, leaf_mass : float
        Total mass of a sum node over several columns and over one column.
    prior : (E, 4) float64
        Prior parameters of every palette entry, in coded units.
    """
    same = True
    for e in range(prior.shape[0]):
        same &= net.prior[e, 2] == prior[e, 2]
        for k in range(4):
            net.prior[e, k] = prior[e, k]
    for d in range(net.entry_ptr.size - 1):
        first = net.entry_ptr[d]
        last = net.entry_ptr[d + 1]
        if not same or net.half_step[d, 0] == 0.0:
            for e in range(first, last):
                if net.entry_family[e] == GAUSSIAN:
                    for n in range(net.half_step.shape[1]):
                        net.half_step[d, n] = half_step_log_gamma(prior[e, 2] + 0.5 * n)
                    break
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
        if net.entry_family[net.entry[i]] != DISCRETE and (net.edge_count[i] > 0 or i < begin + n_prior_slots(net, d)):
            refresh_leaf(net, d, i, net.edge_count[i])


@bare_kernel
def n_prior_slots(net, d):
    return net.entry_ptr[d + 1] - net.entry_ptr[d]


@bare_kernel
def free_mass(net, r, node):
    """Mass of the unoccupied children of a sum node over several columns; ``node`` is local."""
    if net.width[r] == 0:
        return net.mass[r]
    return net.share[r] * (net.width[r] - net.node_edges[net.node_begin[r] + node])


@bare_kernel
def free_entry_mass(net, d, e, node):
    """Mass of the unoccupied leaves of palette entry ``e`` (global) at a univariate sum node."""
    copies = net.entry_copies[e]
    if copies == 0:
        return net.entry_mass[e]
    n_entries = n_prior_slots(net, d)
    taken = net.occupied[net.occupied_begin[d] + node * n_entries + e - net.entry_ptr[d]]
    return net.entry_share[e] * (copies - taken)


@bare_kernel
def new_edge(net, r, node, entry):
    """Occupy a fresh edge of a sum node; returns its slot, local to the region. The caller counts the datum."""
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
        net.entry[i] = entry
        net.s1[i] = 0.0
        net.s2[i] = 0.0
        net.weight[i] = net.entry_share[entry]
        net.occupied[net.occupied_begin[d] + node * n_prior_slots(net, d) + entry - net.entry_ptr[d]] += 1
    else:
        net.weight[i] = net.share[r]
    return slot


@bare_kernel
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
            if n > 0 and net.entry_family[net.entry[i]] != DISCRETE:
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
        if net.entry_family[net.entry[i]] == DISCRETE:
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
def rebuild(net, y, labels, entries, slots):
    """Rebuild every list and statistic from assignments; removes holes and rounding.

    Parameters
    ----------
    net : Network
        Emptied and filled again; hyperparameters are kept.
    y : (N, D) float64
        Coded table.
    labels : (N, R) int32
        Any labels such that two rows at one sum node share a child if and only if they share the label.
    entries : (N, D) int32
        Palette entry of each row's leaf, local to the column; ignored where missing.
    slots : (N, R) int32
        Out: the slots, numbered by first appearance; -1 where a region is wholly missing.

    Returns
    -------
    bool
        False when a region is too small: enlarge the network and call again.
    """
    clear(net)
    for n in range(y.shape[0]):
        mark_missing(net, y[n])
        for r in range(slots.shape[1]):
            if net.missing[r]:
                slots[n, r] = MISSING
                continue
            node = slots[n, net.parent[r]] if net.parent[r] >= 0 else 0
            d = net.column[r]
            slot = find_edge(net, r, node, labels[n, r])
            if slot < 0:
                if net.top[r] == net.capacity[r]:
                    return False
                slot = new_edge(net, r, node, net.entry_ptr[d] + entries[n, d] if d >= 0 else 0)
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


@bare_kernel
def find_edge(net, r, node, label):
    """Edge of a sum node that carries a label, -1 if there is none."""
    slot = net.node_first[net.node_begin[r] + node]
    while slot >= 0 and net.label[net.begin[r] + slot] != label:
        slot = net.following[net.begin[r] + slot]
    return slot


@kernel
def write_digits(net, slots, digits):
    """Digits of every row: children of a sum node numbered by first appearance, leaves as copy * P + palette entry.

    Parameters
    ----------
    net : Network
    slots : (N, R) int32
    digits : (N, R) integer
        Out; -1 where a region is wholly missing.
    """
    number = np.full(net.edge_count.size, -1, np.int32)
    used = np.zeros(net.node_count.size, np.int32)
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
                    number[i] = used[k]
                    used[k] += 1
                else:
                    n_entries = n_prior_slots(net, d)
                    e = net.entry[i] - net.entry_ptr[d]
                    k = net.occupied_begin[d] + net.node[i] * n_entries + e
                    number[i] = copies[k] * n_entries + e
                    copies[k] += 1
            digits[n, r] = number[i]


@bare_kernel
def write_entries(net, slots, entries):
    """Palette entry of every row's leaf, local to the column; 0 where missing."""
    for n in range(slots.shape[0]):
        for d in range(entries.shape[1]):
            r = net.leaf_region[d]
            slot = slots[n, r]
            entries[n, d] = net.entry[net.begin[r] + slot] - net.entry_ptr[d] if slot >= 0 else 0
