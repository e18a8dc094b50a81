"""Kernel C: the paper's top-down proposal restricted to the induced tree.

Sum nodes outside a row's induced tree integrate out, so proposing the 2D - 1 digits of the tree alone leaves the same
posterior invariant as the published algorithm with all S states. Acceptance is Yokoi and Sato (2024), equation 13, with
the row taken out of the leaves of both trees.
"""

import math

from pymc_spn.circuits.gibbs.leaf_kernels import log_predictive, log_predictive_without
from pymc_spn.circuits.gibbs.occupancy import (
    FRESH,
    MISSING,
    attach,
    detach,
    free_entry_mass,
    free_mass,
    mark_missing,
    n_prior_slots,
    new_edge,
)
from pymc_spn.numerics.kernel_options import bare_kernel


@bare_kernel
def induced_tree_sweep(rng, net, y, slots, first, entries):
    """One independence proposal for the whole induced tree of every row; arguments and result as `exact_sweep`.

    ``moved`` counts accepted proposals that changed an edge; ``entries`` (D,) int64 is scratch space.
    """
    moved = 0
    for n in range(first, y.shape[0]):
        if net.full[0]:
            return n, moved
        mark_missing(net, y[n])
        if net.missing[0]:
            continue
        old = slots[n]
        propose_tree(rng, net, old, net.new, entries)
        log_ratio = 0.0
        for d in range(y.shape[1]):
            r = net.leaf_region[d]
            if net.missing[r] or net.new[r] == old[r]:
                continue
            begin = net.begin[r]
            slot = net.new[r] if net.new[r] != FRESH else entries[d] - net.entry_ptr[d]
            log_ratio += log_predictive(net, d, begin + slot, y[n, d])
            log_ratio -= log_predictive_without(net, d, begin + old[r], y[n, d])
        if log_ratio < 0.0 and rng.random() >= math.exp(log_ratio):
            continue
        moved += move_row(net, y[n], old, net.new, entries)
    return y.shape[0], moved


@bare_kernel
def propose_tree(rng, net, old, new, entries):
    """Draw an induced tree from the assignments of the other rows; the row's own counts are left out on the fly.

    An edge that only this row occupies counts as unoccupied.
    """
    for r in range(old.size):
        if net.missing[r]:
            new[r] = MISSING
            continue
        above = net.parent[r]
        d = net.column[r]
        new[r] = FRESH
        if above >= 0 and new[above] == FRESH:
            if d >= 0:
                entries[d] = propose_entry(rng, net, d, -1, FRESH)
            continue
        node = new[above] if above >= 0 else 0
        begin = net.begin[r]
        own = old[r] if above < 0 or new[above] == old[above] else FRESH
        k = net.node_begin[r] + node
        u = rng.random() * (net.node_count[k] + net.mass[r] - (own != FRESH))
        slot = net.node_first[k]
        last = FRESH
        while slot >= 0:
            i = begin + slot
            weight = net.weight[i]
            if slot == own:
                weight = weight - 1.0 if net.edge_count[i] > 1 else 0.0
            if weight > 0.0:
                last = slot
            u -= weight
            if u < 0.0:
                new[r] = slot
                break
            slot = net.following[i]
        if new[r] != FRESH:
            continue
        alone = own if own != FRESH and net.edge_count[begin + own] == 1 else FRESH
        if d >= 0:
            entries[d] = propose_entry(rng, net, d, node, alone)
            if entries[d] == FRESH:
                new[r] = last
        elif alone == FRESH and free_mass(net, r, node) == 0.0:
            new[r] = last


@bare_kernel
def propose_entry(rng, net, d, node, alone):
    """Palette entry of a fresh leaf by free mass; ``node`` -1 is a fresh sum node, ``alone`` an edge about to free."""
    first = net.entry_ptr[d]
    begin = net.begin[net.leaf_region[d]]
    total = 0.0
    for e in range(first, net.entry_ptr[d + 1]):
        total += proposed_entry_mass(net, d, e, node, begin, alone)
    if total <= 0.0:
        return FRESH
    if n_prior_slots(net, d) == 1:
        return first
    u = rng.random() * total
    chosen = FRESH
    for e in range(first, net.entry_ptr[d + 1]):
        free = proposed_entry_mass(net, d, e, node, begin, alone)
        if free > 0.0:
            chosen = e
            u -= free
            if u < 0.0:
                break
    return chosen


@bare_kernel
def proposed_entry_mass(net, d, e, node, begin, alone):
    if node < 0:
        return net.entry_mass[e]
    free = free_entry_mass(net, d, e, node)
    if alone != FRESH and net.entry[begin + alone] == e:
        free += net.entry_share[e]
    return free


@bare_kernel
def move_row(net, y, slots, new, entries):
    """Carry out an accepted proposal; returns whether any edge changed."""
    changed = False
    for r in range(slots.size):
        net.old[r] = slots[r]
        changed |= slots[r] != new[r]
    if not changed:
        return False
    detach(net, y, slots)
    for r in range(slots.size):
        slot = new[r]
        if slot == FRESH:
            node = slots[net.parent[r]] if r > 0 else 0
            slot = new_edge(net, r, node, entries[net.column[r]] if net.column[r] >= 0 else 0)
        slots[r] = slot
    attach(net, y, slots)
    return True
