"""Kernel E: a collapsed Gibbs draw of each row's induced tree, without rejection.

Given the other rows, the distribution of one row's induced tree is itself a sum-product network with weights
(count + share) / (count + mass) and the leaves' predictives. So one bottom-up pass and one top-down draw are exact.
Unoccupied children of a sum node are all worth the product of the prior predictives of its columns. So the pass visits
occupied edges only and infinitely many children cost the same as finitely many.
"""

import math

from pymc_spn.gibbs.joint_leaves import is_joint_edge
from pymc_spn.gibbs.occupancy import (
    FRESH,
    MISSING,
    draw_split,
    free_entry_mass,
    free_mass,
    new_edge,
    reaches,
)
from pymc_spn.numerics.elementary import larger
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_inner_kernel, copied_kernel

# A root value above this has lost at most 1e-28 of itself to underflow; rows below it are drawn in log space.
SAFE = 1e-280


@bare_called_kernel
def evaluate_regions(tree, palette, masses, edges, nodes, scratch, joints=None, top=0):
    """Values of all occupied sum nodes for the current row, from its leaf values; the root's is ``node_value[0]``.

    ``joints`` are those of a network that has leaves over several columns, `joint_leaves`.
    """
    for r in range(tree.subtree_end[top] - 1, top - 1, -1):
        if scratch.missing[r]:
            continue
        d = tree.column[r]
        if d < 0:
            if joints is not None and tree.n_prior[r] > 0:
                multiply_kinds(tree, edges, nodes, joints, scratch, r)
            else:
                multiply_parts(tree, edges, nodes, scratch, r)
        begin = edges.begin[r] + tree.n_prior[r]
        end = edges.begin[r] + edges.top[r]
        first = nodes.begin[r]
        last = first + (edges.top[tree.parent[r]] if r > 0 else 1)
        totals = scratch.node_value[first:last]
        totals[:] = 0.0
        add_edges(edges.node[begin:end], edges.weight[begin:end], scratch.edge_value[begin:end], totals)
        finish_nodes(
            tree, palette, masses, edges, nodes, scratch, r, totals, nodes.n_data[first:last], nodes.n_edges[first:last]
        )


@copied_kernel
def add_edges(node, weight, value, totals):
    for i in range(node.size):
        totals[node[i]] += weight[i] * value[i]


@bare_inner_kernel
def multiply_parts(tree, edges, nodes, scratch, r):
    """Value of each edge of a region: the product over its parts of the sum nodes below; likewise when unoccupied.

    An unoccupied product is worth the same whatever its split: the prior predictive of each of its columns.
    """
    top = edges.top[r]
    value = scratch.edge_value[edges.begin[r] : edges.begin[r] + top]
    if tree.n_splits[r] > 1:
        multiply_parts_of_splits(tree, nodes, scratch, r, value, edges.split[edges.begin[r] : edges.begin[r] + top])
        return
    empty = 1.0
    untouched = True
    for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
        q = tree.parts[j]
        if scratch.missing[q]:
            continue
        below = scratch.node_value[nodes.begin[q] : nodes.begin[q] + top]
        empty *= scratch.empty_value[q]
        if untouched:
            for e in range(top):
                value[e] = below[e]
            untouched = False
        else:
            for e in range(top):
                value[e] *= below[e]
    scratch.empty_value[r] = empty


@bare_called_kernel
def multiply_parts_of_splits(tree, nodes, scratch, r, value, edge_split):
    """`multiply_parts` where the parts of an edge are those of its split."""
    empty = 1.0
    value[:] = 1.0
    for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
        q = tree.parts[j]
        if scratch.missing[q]:
            continue
        below = scratch.node_value[nodes.begin[q] : nodes.begin[q] + value.size]
        empty *= scratch.empty_value[q] if tree.split[q] == 0 else 1.0
        for e in range(value.size):
            value[e] *= below[e] if edge_split[e] == tree.split[q] else 1.0
    scratch.empty_value[r] = empty


@bare_inner_kernel
def multiply_kinds(tree, edges, nodes, joints, scratch, r):
    """Values of the edges of a region with leaves over several columns in it or below: of products and of such leaves.

    Unoccupied children of different kinds are not alike then: an unoccupied one is worth their mean.
    """
    begin = edges.begin[r]
    top = edges.top[r]
    value = scratch.edge_value[begin : begin + top]
    value[:] = 1.0
    for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
        q = tree.parts[j]
        if scratch.missing[q]:
            continue
        below = scratch.node_value[nodes.begin[q] : nodes.begin[q] + top]
        for e in range(top):
            if edges.split[begin + e] == tree.split[q]:
                value[e] *= below[e]
    if joints.split[r] >= 0:
        for e in range(top):
            if is_joint_edge(edges, joints, r, e):
                value[e] = math.exp(joints.scratch.log_value[joints.slot_begin[r] + e] - joints.scratch.shift[r])
    total = 0.0
    for s in range(tree.n_prior[r]):
        total += value[s]
    scratch.empty_value[r] = total / tree.n_prior[r]


@bare_called_kernel
def draw_kind(rng, tree, edges, scratch, r, logs):
    """Number of the kind of a new child, in proportion to the values of unoccupied children."""
    n_kinds = tree.n_prior[r]
    value = scratch.edge_value[edges.begin[r] : edges.begin[r] + n_kinds]
    if scratch.missing[r]:
        return int(rng.random() * n_kinds)
    u = rng.random() * n_kinds
    chosen = 0
    for s in range(n_kinds):
        share = math.exp(value[s] - scratch.empty_value[r]) if logs else value[s] / scratch.empty_value[r]
        if share > 0.0:
            chosen = s
            u -= share
            if u < 0.0:
                break
    return chosen


@bare_inner_kernel
def finish_nodes(tree, palette, masses, edges, nodes, scratch, r, totals, counts, n_edges):
    """Add the unoccupied children of each sum node and divide by its total mass."""
    mass = masses.total[r]
    d = tree.column[r]
    if d < 0:
        empty = scratch.empty_value[r]
        divide_by_mass(totals, counts, n_edges, tree.width[r], masses.share[r] * empty, mass * empty, mass)
        return
    first = palette.entry_ptr[d]
    last = palette.entry_ptr[d + 1]
    begin = edges.begin[r] - first
    if last - first == 1:
        empty = scratch.edge_value[begin + first]
        scratch.empty_value[r] = empty
        divide_by_mass(totals, counts, n_edges, tree.width[r], masses.entry_share[first] * empty, mass * empty, mass)
        return
    empty = 0.0
    for e in range(first, last):
        empty += masses.entry[e] * scratch.edge_value[begin + e]
    scratch.empty_value[r] = empty / mass
    for k in range(totals.size):
        total = totals[k]
        for e in range(first, last):
            total += free_entry_mass(palette, masses, nodes, d, e, k) * scratch.edge_value[begin + e]
        totals[k] = total / (counts[k] + mass)


@copied_kernel
def divide_by_mass(totals, counts, n_edges, width, fresh_child, all_fresh, mass):
    """Values of sum nodes whose unoccupied children are alike: finitely many (``width``) or, at width 0, infinitely."""
    if width == 0:
        for k in range(totals.size):
            totals[k] = (totals[k] + all_fresh) / (counts[k] + mass)
    else:
        for k in range(totals.size):
            totals[k] = (totals[k] + (width - n_edges[k]) * fresh_child) / (counts[k] + mass)


@bare_called_kernel
def evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints=None, top=0):
    """`evaluate_regions` with logs in ``value``, ``node_value`` and ``empty_value``: slower, cannot underflow."""
    for r in range(tree.subtree_end[top] - 1, top - 1, -1):
        if scratch.missing[r]:
            continue
        begin = edges.begin[r]
        first = nodes.begin[r]
        n_nodes = edges.top[tree.parent[r]] if r > 0 else 1
        d = tree.column[r]
        empty = 0.0
        if d >= 0:
            empty = -math.inf
            for i in range(begin, begin + edges.top[r]):
                scratch.edge_value[i] = scratch.log_value[i]
            for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
                prior_slot = begin + e - palette.entry_ptr[d]
                empty = log_add(empty, math.log(masses.entry[e] / masses.total[r]) + scratch.edge_value[prior_slot])
        else:
            for i in range(begin, begin + edges.top[r]):
                scratch.edge_value[i] = 0.0
            for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                q = tree.parts[j]
                if not scratch.missing[q]:
                    empty += scratch.empty_value[q] if tree.split[q] == 0 else 0.0
                    for e in range(edges.top[r]):
                        scratch.edge_value[begin + e] += (
                            scratch.node_value[nodes.begin[q] + e] if reaches(tree, edges, q, e) else 0.0
                        )
            if joints is not None and tree.n_prior[r] > 0:
                for e in range(edges.top[r]):
                    if is_joint_edge(edges, joints, r, e):
                        scratch.edge_value[begin + e] = joints.scratch.log_value[joints.slot_begin[r] + e]
                empty = -math.inf
                for s in range(tree.n_prior[r]):
                    empty = log_add(empty, scratch.edge_value[begin + s])
                empty -= math.log(float(tree.n_prior[r]))
        scratch.empty_value[r] = empty
        for k in range(n_nodes):
            total = -math.inf
            slot = nodes.first[first + k]
            while slot >= 0:
                total = log_add(total, math.log(edges.weight[begin + slot]) + scratch.edge_value[begin + slot])
                slot = edges.following[begin + slot]
            if d < 0:
                free = free_mass(tree, masses, nodes, r, k)
                if free > 0.0:
                    total = log_add(total, math.log(free) + empty)
            else:
                for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
                    free = free_entry_mass(palette, masses, nodes, d, e, k)
                    if free > 0.0:
                        total = log_add(total, math.log(free) + scratch.edge_value[begin + e - palette.entry_ptr[d]])
            scratch.node_value[first + k] = total - math.log(nodes.n_data[first + k] + masses.total[r])


@copied_kernel
def log_add(a, b):
    if a < b:
        a, b = b, a
    return a + math.log1p(math.exp(b - a)) if b > -math.inf else a


@bare_called_kernel
def draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, slots, top_region, logs, joints=None):
    """Draw the induced tree below a region, given the values there; fresh edges are created on the way.

    ``logs`` says whether values are logs (`evaluate_regions_by_logs`). The sum node of ``top_region`` is that below
    the edge in ``slots`` at the parent region.
    """
    following = top_region
    for r in range(top_region, tree.subtree_end[top_region]):
        if r < following:
            continue
        node = slots[tree.parent[r]] if r > 0 else 0
        following = r + 1
        if scratch.missing[r] or (r > 0 and not reaches(tree, edges, r, node)):
            following = tree.subtree_end[r]
            slots[r:following] = MISSING
            continue
        begin = edges.begin[r]
        k = nodes.begin[r] + node
        chosen = -1
        last = -1
        if nodes.n_edges[k] > 0:
            u = rng.random() * (nodes.n_data[k] + masses.total[r])
            if not logs:
                u *= scratch.node_value[k]
            slot = nodes.first[k]
            while slot >= 0:
                last = slot
                v = scratch.edge_value[begin + slot]
                u -= edges.weight[begin + slot] * (math.exp(v - scratch.node_value[k]) if logs else v)
                if u < 0.0:
                    chosen = slot
                    break
                slot = edges.following[begin + slot]
        if chosen < 0:
            if tree.column[r] >= 0:
                option = draw_entry(rng, tree, palette, masses, edges, nodes, scratch, tree.column[r], node, logs)
            elif joints is not None and tree.n_prior[r] > 0:
                option = draw_kind(rng, tree, edges, scratch, r, logs)
            else:
                option = (
                    draw_split(rng, tree, edges, nodes, r, node)
                    if free_mass(tree, masses, nodes, r, node) > 0.0
                    else FRESH
                )
            # with every child occupied, rounding may still leave a rest of u: it belongs to the last child
            chosen = last if option == FRESH else new_edge(tree, palette, masses, edges, nodes, leaves, r, node, option)
        slots[r] = chosen


@bare_called_kernel
def draw_entry(rng, tree, palette, masses, edges, nodes, scratch, d, node, logs):
    """Palette entry (within the place) of a fresh leaf by free mass and prior predictive; FRESH if none is free."""
    first = palette.entry_ptr[d]
    last = palette.entry_ptr[d + 1]
    if last - first == 1:
        return 0 if free_entry_mass(palette, masses, nodes, d, first, node) > 0.0 else FRESH
    begin = edges.begin[tree.leaf_region[d]] - first
    largest = -math.inf
    for e in range(first, last):
        largest = larger(largest, scratch.edge_value[begin + e])
    total = 0.0
    for e in range(first, last):
        v = scratch.edge_value[begin + e]
        total += free_entry_mass(palette, masses, nodes, d, e, node) * (math.exp(v - largest) if logs else v)
    u = rng.random() * total
    chosen = FRESH
    for e in range(first, last):
        free = free_entry_mass(palette, masses, nodes, d, e, node)
        if free > 0.0:
            chosen = e - first
            v = scratch.edge_value[begin + e]
            u -= free * (math.exp(v - largest) if logs else v)
            if u < 0.0:
                break
    return chosen
