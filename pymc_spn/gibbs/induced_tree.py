"""Kernel C: the paper's top-down proposal restricted to the induced tree.

Sum nodes outside a row's induced tree integrate out. So it is enough to propose the 2D - 1 digits of the tree: this
leaves the same posterior invariant as the published algorithm with all S states. Acceptance is Yokoi and Sato (2024),
equation 13, with the row taken out of the leaves of both trees.
"""

import math

from pymc_spn.gibbs.leaf_kernels import log_predictive, log_predictive_without
from pymc_spn.gibbs.occupancy import (
    FRESH,
    MISSING,
    attach,
    detach,
    draw_split,
    free_entry_mass,
    free_mass,
    mark_missing,
    n_prior_slots,
    new_edge,
    reaches,
)
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel


@bare_kernel
def induced_tree_sweep(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, first):
    """One independence proposal for the whole induced tree of every row; arguments and result as `exact_sweep`.

    ``moved`` counts accepted proposals that changed an edge.
    """
    moved = 0
    for n in range(first, y.shape[0]):
        if edges.full[0]:
            return n, moved
        mark_missing(tree, scratch, y[n])
        if scratch.missing[0]:
            continue
        old = slots[n]
        propose_tree(rng, tree, palette, masses, edges, nodes, leaves, scratch, old, scratch.new)
        log_ratio = 0.0
        for d in range(y.shape[1]):
            r = tree.leaf_region[d]
            if scratch.new[r] == old[r]:
                continue
            begin = edges.begin[r]
            if scratch.new[r] != MISSING:
                slot = (
                    scratch.new[r] if scratch.new[r] >= 0 else FRESH - scratch.new[r]
                )  # a fresh leaf is worth its prior slot
                log_ratio += log_predictive(palette, leaves, d, begin + slot, y[n, d])
            if old[r] != MISSING:
                log_ratio -= log_predictive_without(palette, leaves, d, begin + old[r], y[n, d])
        if log_ratio < 0.0 and rng.random() >= math.exp(log_ratio):
            continue
        moved += move_row(tree, palette, masses, edges, nodes, leaves, scratch, y[n], old, scratch.new)
    return y.shape[0], moved


@bare_called_kernel
def propose_tree(rng, tree, palette, masses, edges, nodes, leaves, scratch, old, new):
    """Draw an induced tree from the assignments of the other rows; the row's own counts are left out on the fly.

    An edge that only this row occupies counts as unoccupied.
    """
    following = 0
    for r in range(old.size):
        if r < following:
            continue
        above = tree.parent[r]
        following = r + 1
        if scratch.missing[r] or (r > 0 and not reaches(tree, edges, r, new[above])):
            following = tree.subtree_end[r]
            new[r:following] = MISSING
            continue
        d = tree.column[r]
        new[r] = FRESH
        if r > 0 and new[above] <= FRESH:
            new[r] -= (
                propose_entry(rng, tree, palette, masses, edges, nodes, leaves, d, -1, FRESH)
                if d >= 0
                else draw_split(rng, tree, edges, nodes, r, -1, FRESH)
            )
            continue
        node = new[above] if r > 0 else 0
        begin = edges.begin[r]
        own = old[r] if r == 0 or new[above] == old[above] else FRESH
        k = nodes.begin[r] + node
        u = rng.random() * (nodes.n_data[k] + masses.total[r] - (own != FRESH))
        slot = nodes.first[k]
        last = FRESH
        while slot >= 0:
            i = begin + slot
            weight = edges.weight[i]
            if slot == own:
                weight = weight - 1.0 if edges.n_data[i] > 1 else 0.0
            if weight > 0.0:
                last = slot
            u -= weight
            if u < 0.0:
                new[r] = slot
                break
            slot = edges.following[i]
        if new[r] != FRESH:
            continue
        alone = own if own != FRESH and edges.n_data[begin + own] == 1 else FRESH
        if d >= 0:
            entry = propose_entry(rng, tree, palette, masses, edges, nodes, leaves, d, node, alone)
            new[r] = FRESH - entry if entry != FRESH else last
        elif alone == FRESH and free_mass(tree, masses, nodes, r, node) == 0.0:
            new[r] = last
        else:
            new[r] = FRESH - draw_split(rng, tree, edges, nodes, r, node, alone)


@bare_called_kernel
def propose_entry(rng, tree, palette, masses, edges, nodes, leaves, d, node, alone):
    """Palette entry (within the place) of a fresh leaf by free mass, FRESH if none is free.

    ``node`` -1 is a fresh sum node, ``alone`` an edge about to be freed.
    """
    first = palette.entry_ptr[d]
    begin = edges.begin[tree.leaf_region[d]]
    total = 0.0
    for e in range(first, palette.entry_ptr[d + 1]):
        total += proposed_entry_mass(palette, masses, nodes, leaves, d, e, node, begin, alone)
    if total <= 0.0:
        return FRESH
    if n_prior_slots(palette, d) == 1:
        return 0
    u = rng.random() * total
    chosen = FRESH
    for e in range(first, palette.entry_ptr[d + 1]):
        free = proposed_entry_mass(palette, masses, nodes, leaves, d, e, node, begin, alone)
        if free > 0.0:
            chosen = e - first
            u -= free
            if u < 0.0:
                break
    return chosen


@bare_called_kernel
def proposed_entry_mass(palette, masses, nodes, leaves, d, e, node, begin, alone):
    if node < 0:
        return masses.entry[e]
    free = free_entry_mass(palette, masses, nodes, d, e, node)
    if alone != FRESH and leaves.entry[begin + alone] == e:
        free += masses.entry_share[e]
    return free


@bare_called_kernel
def move_row(tree, palette, masses, edges, nodes, leaves, scratch, y, slots, new):
    """Carry out an accepted proposal; returns whether any edge changed."""
    changed = False
    for r in range(slots.size):
        scratch.old[r] = slots[r]
        changed |= slots[r] != new[r]
    if not changed:
        return False
    detach(tree, palette, edges, nodes, leaves, scratch, y, slots)
    for r in range(slots.size):
        slot = new[r]
        if slot <= FRESH:
            slot = new_edge(
                tree, palette, masses, edges, nodes, leaves, r, slots[tree.parent[r]] if r > 0 else 0, FRESH - slot
            )
        slots[r] = slot
    attach(tree, palette, edges, nodes, leaves, scratch, y, slots)
    return True
