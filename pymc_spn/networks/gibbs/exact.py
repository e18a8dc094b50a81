"""Kernel E: a collapsed Gibbs draw of each row's induced tree, without rejection.

Given the other rows, the distribution of one row's induced tree is itself a sum-product network with weights
(count + share) / (count + mass) and the leaves' predictives, so one bottom-up pass and one top-down draw are exact.
Unoccupied children of a sum node are all worth the product of the prior predictives of its columns, so the pass visits
occupied edges only and infinitely many children cost the same as finitely many.
"""

import math

from pymc_spn.networks.gibbs.leaf_kernels import evaluate_leaves
from pymc_spn.networks.gibbs.occupancy import (
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
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel

# A root value above this has lost at most 1e-28 of itself to underflow; rows below it are drawn in log space.
SAFE = 1e-280


@bare_kernel
def exact_sweep(rng, net, y, slots, first):
    """Redraw the induced tree of every row from its exact collapsed conditional.

    Parameters
    ----------
    rng : numpy.random.Generator
    net : Network
    y : (N, P) float64
    slots : (N, R) int32
        State, changed in place.
    first : int
        Row to begin with.

    Returns
    -------
    next_row : int
        N when the sweep is complete, else the row at which a region ran full: enlarge and go on from there.
    moved : int
        Rows whose leaves changed.
    """
    moved = 0
    for n in range(first, y.shape[0]):
        if net.full[0]:
            return n, moved
        moved += redraw_row(rng, net, y[n], slots[n])
    return y.shape[0], moved


@bare_inner_kernel
def redraw_row(rng, net, y, slots):
    """One exact draw; returns whether the row left any of its edges."""
    mark_missing(net, y)
    if net.missing[0]:
        return False
    for r in range(slots.size):
        net.old[r] = slots[r]
    detach(net, y, slots)
    evaluate_leaves(net, y)
    evaluate_regions(net)
    if net.node_value[0] > SAFE:
        draw_subtree(rng, net, slots, 0, False)
    else:
        evaluate_regions_by_logs(net)
        draw_subtree(rng, net, slots, 0, True)
    attach(net, y, slots)
    changed = False
    for r in range(slots.size):
        changed |= slots[r] != net.old[r]
    return changed


@bare_kernel
def evaluate_regions(net):
    """Values of all occupied sum nodes for the current row, from its leaf values; the root's is ``node_value[0]``."""
    for r in range(net.parent.size - 1, -1, -1):
        if net.missing[r]:
            continue
        d = net.column[r]
        if d < 0:
            multiply_parts(net, r)
        begin = net.begin[r] + (n_prior_slots(net, d) if d >= 0 else 0)
        end = net.begin[r] + net.top[r]
        nodes = net.node_begin[r]
        last = nodes + (net.top[net.parent[r]] if r > 0 else 1)
        totals = net.node_value[nodes:last]
        totals[:] = 0.0
        add_edges(net.node[begin:end], net.weight[begin:end], net.value[begin:end], totals)
        finish_nodes(net, r, totals, net.node_count[nodes:last], net.node_edges[nodes:last])


@bare_inner_kernel
def add_edges(node, weight, value, totals):
    for i in range(node.size):
        totals[node[i]] += weight[i] * value[i]


@bare_inner_kernel
def multiply_parts(net, r):
    """Value of each edge of a region: the product over its parts of the sum nodes below; likewise when unoccupied.

    An unoccupied product is worth the same whatever its split: the prior predictive of each of its columns.
    """
    top = net.top[r]
    value = net.value[net.begin[r] : net.begin[r] + top]
    if net.n_splits[r] > 1:
        multiply_parts_of_splits(net, r, value, net.edge_split[net.begin[r] : net.begin[r] + top])
        return
    empty = 1.0
    untouched = True
    for j in range(net.part_ptr[r], net.part_ptr[r + 1]):
        q = net.parts[j]
        if net.missing[q]:
            continue
        below = net.node_value[net.node_begin[q] : net.node_begin[q] + top]
        empty *= net.empty_value[q]
        if untouched:
            for e in range(top):
                value[e] = below[e]
            untouched = False
        else:
            for e in range(top):
                value[e] *= below[e]
    net.empty_value[r] = empty


@bare_inner_kernel
def multiply_parts_of_splits(net, r, value, edge_split):
    """`multiply_parts` where the parts of an edge are those of its split."""
    empty = 1.0
    value[:] = 1.0
    for j in range(net.part_ptr[r], net.part_ptr[r + 1]):
        q = net.parts[j]
        if net.missing[q]:
            continue
        below = net.node_value[net.node_begin[q] : net.node_begin[q] + value.size]
        empty *= net.empty_value[q] if net.split[q] == 0 else 1.0
        for e in range(value.size):
            value[e] *= below[e] if edge_split[e] == net.split[q] else 1.0
    net.empty_value[r] = empty


@bare_inner_kernel
def finish_nodes(net, r, totals, counts, n_edges):
    """Add the unoccupied children of each sum node and divide by its total mass."""
    mass = net.mass[r]
    d = net.column[r]
    if d < 0:
        empty = net.empty_value[r]
        divide_by_mass(totals, counts, n_edges, net.width[r], net.share[r] * empty, mass * empty, mass)
        return
    first = net.entry_ptr[d]
    last = net.entry_ptr[d + 1]
    begin = net.begin[r] - first
    if last - first == 1:
        empty = net.value[begin + first]
        net.empty_value[r] = empty
        divide_by_mass(totals, counts, n_edges, net.width[r], net.entry_share[first] * empty, mass * empty, mass)
        return
    empty = 0.0
    for e in range(first, last):
        empty += net.entry_mass[e] * net.value[begin + e]
    net.empty_value[r] = empty / mass
    for k in range(totals.size):
        total = totals[k]
        for e in range(first, last):
            total += free_entry_mass(net, d, e, k) * net.value[begin + e]
        totals[k] = total / (counts[k] + mass)


@bare_inner_kernel
def divide_by_mass(totals, counts, n_edges, width, fresh_child, all_fresh, mass):
    """Values of sum nodes whose unoccupied children are alike: finitely many (``width``) or, at width 0, infinitely."""
    if width == 0:
        for k in range(totals.size):
            totals[k] = (totals[k] + all_fresh) / (counts[k] + mass)
    else:
        for k in range(totals.size):
            totals[k] = (totals[k] + (width - n_edges[k]) * fresh_child) / (counts[k] + mass)


@bare_kernel
def evaluate_regions_by_logs(net):
    """`evaluate_regions` with logs in ``value``, ``node_value`` and ``empty_value``: slower, cannot underflow."""
    for r in range(net.parent.size - 1, -1, -1):
        if net.missing[r]:
            continue
        begin = net.begin[r]
        nodes = net.node_begin[r]
        n_nodes = net.top[net.parent[r]] if r > 0 else 1
        d = net.column[r]
        empty = 0.0
        if d >= 0:
            empty = -math.inf
            for i in range(begin, begin + net.top[r]):
                net.value[i] = net.log_value[i]
            for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
                prior_slot = begin + e - net.entry_ptr[d]
                empty = log_add(empty, math.log(net.entry_mass[e] / net.mass[r]) + net.value[prior_slot])
        else:
            for i in range(begin, begin + net.top[r]):
                net.value[i] = 0.0
            for j in range(net.part_ptr[r], net.part_ptr[r + 1]):
                q = net.parts[j]
                if not net.missing[q]:
                    empty += net.empty_value[q] if net.split[q] == 0 else 0.0
                    for e in range(net.top[r]):
                        net.value[begin + e] += net.node_value[net.node_begin[q] + e] if reaches(net, q, e) else 0.0
        net.empty_value[r] = empty
        for k in range(n_nodes):
            total = -math.inf
            slot = net.node_first[nodes + k]
            while slot >= 0:
                total = log_add(total, math.log(net.weight[begin + slot]) + net.value[begin + slot])
                slot = net.following[begin + slot]
            if d < 0:
                free = free_mass(net, r, k)
                if free > 0.0:
                    total = log_add(total, math.log(free) + empty)
            else:
                for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
                    free = free_entry_mass(net, d, e, k)
                    if free > 0.0:
                        total = log_add(total, math.log(free) + net.value[begin + e - net.entry_ptr[d]])
            net.node_value[nodes + k] = total - math.log(net.node_count[nodes + k] + net.mass[r])


@bare_inner_kernel
def log_add(a, b):
    if a < b:
        a, b = b, a
    return a + math.log1p(math.exp(b - a)) if b > -math.inf else a


@bare_kernel
def draw_subtree(rng, net, slots, top_region, logs):
    """Draw the induced tree below a region, given the values there; fresh edges are created on the way.

    ``logs`` says whether values are logs (`evaluate_regions_by_logs`). The sum node of ``top_region`` is that below
    the edge in ``slots`` at the parent region.
    """
    following = top_region
    for r in range(top_region, net.subtree_end[top_region]):
        if r < following:
            continue
        node = slots[net.parent[r]] if r > 0 else 0
        following = r + 1
        if net.missing[r] or (r > 0 and not reaches(net, r, node)):
            following = net.subtree_end[r]
            slots[r:following] = MISSING
            continue
        begin = net.begin[r]
        k = net.node_begin[r] + node
        chosen = -1
        last = -1
        if net.node_edges[k] > 0:
            u = rng.random() * (net.node_count[k] + net.mass[r])
            if not logs:
                u *= net.node_value[k]
            slot = net.node_first[k]
            while slot >= 0:
                last = slot
                v = net.value[begin + slot]
                u -= net.weight[begin + slot] * (math.exp(v - net.node_value[k]) if logs else v)
                if u < 0.0:
                    chosen = slot
                    break
                slot = net.following[begin + slot]
        if chosen < 0:
            if net.column[r] >= 0:
                option = draw_entry(rng, net, net.column[r], node, logs)
            else:
                option = draw_split(rng, net, r, node, FRESH) if free_mass(net, r, node) > 0.0 else FRESH
            # with every child occupied, rounding may still leave a rest of u: it belongs to the last child
            chosen = last if option == FRESH else new_edge(net, r, node, option)
        slots[r] = chosen


@bare_inner_kernel
def draw_entry(rng, net, d, node, logs):
    """Palette entry (within the place) of a fresh leaf by free mass and prior predictive; FRESH if none is free."""
    first = net.entry_ptr[d]
    last = net.entry_ptr[d + 1]
    if last - first == 1:
        return 0 if free_entry_mass(net, d, first, node) > 0.0 else FRESH
    begin = net.begin[net.leaf_region[d]] - first
    largest = -math.inf
    for e in range(first, last):
        largest = max(largest, net.value[begin + e])
    total = 0.0
    for e in range(first, last):
        v = net.value[begin + e]
        total += free_entry_mass(net, d, e, node) * (math.exp(v - largest) if logs else v)
    u = rng.random() * total
    chosen = FRESH
    for e in range(first, last):
        free = free_entry_mass(net, d, e, node)
        if free > 0.0:
            chosen = e - first
            v = net.value[begin + e]
            u -= free * (math.exp(v - largest) if logs else v)
            if u < 0.0:
                break
    return chosen
