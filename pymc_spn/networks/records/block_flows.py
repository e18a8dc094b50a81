"""From the root down in blocks of rows: what each sum node is worth to the root, and so the shares of leaves.

The predictive is linear in the values of the sum nodes over one column. Their coefficients, the partial derivatives of
the root, give both the probability of each leaf given the row and the predictive without what is known of the column.
"""

import math

from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.networks.records.block_children import (
    ABSENT,
    LOG_2,
    evaluate_child,
    product_of_parts,
    product_of_unoccupied,
    shift_of_joints,
    value_of_joint,
)
from pymc_spn.networks.records.block_kernels import BLOCK, evaluate_block, prepare_draw, write_logs
from pymc_spn.numerics.elementary import fast_log
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel
from pymc_spn.numerics.lane_functions import sub
from pymc_spn.numerics.lanes import LANES, add, load, mul, multiply_add, ratio, splat, store


@bare_kernel
def shares_of_blocks(
    pack, rows, scratch, column, wanted, laws, log_density, averages, shares, first_leaf, several, place
):
    """Log predictives of rows, and the probabilities of the leaves of one column or averages over these.

    Parameters
    ----------
    pack : PackedDraws
    rows : BlockRows
    scratch : BlockScratch
    column : int
    wanted : (R,) bool
        The regions that hold the column.
    laws : (n, K) float64
        Numbers that each leaf of the column has, of all draws, to be averaged.
    log_density : (S, M) float64
        Out: as in `log_densities_of_blocks`. Where they are NaN, the rest is not valid.
    averages : (S, M, K) or (S, M, K + 1) float64
        Out; the last one more is the variance of the first number over the leaves.
    shares : (M, n) float64
        Out, or of no rows; leaves of other draws may stand before and behind.
    first_leaf : int
        Where those of the first draw stand.
    several : (M, m) float64
        Out, or of no rows: probabilities of the leaves over several columns that hold the column.
    place : (J,) int64
        Which of them each leaf of the packed draws is, -1 of others.
    """
    n_groups = rows.y.shape[1] // LANES
    for s in range(pack.top.shape[0]):
        prepare_draw(pack, s, rows, scratch)
        for group in range(0, n_groups, BLOCK):
            n = min(BLOCK, n_groups - group)
            here = slice(group * LANES, (group + n) * LANES)
            evaluate_block(pack, s, rows, group, n, column, scratch)
            write_logs(pack, scratch, n, log_density[s, here])
            spread_flow(pack, s, n, wanted, scratch)
            known = rows.mode[column] != ABSENT
            own = shares[here]  # fewer rows than those of the block, or none
            share_among_leaves(pack, s, column, known, n, laws, averages[s, here], own, first_leaf, scratch)
            if several.shape[0] > 0:
                share_among_joints(pack, s, wanted, rows, group, n, several[here], place, scratch)


@bare_kernel
def log_densities_left_out_of_blocks(pack, rows, scratch, wanted, log_density, without):
    """Log predictives (S, M) of rows, whole and (S, M, D) without what is known of each column.

    Of columns about which nothing is known in a block, both are the same.
    """
    n_groups = rows.y.shape[1] // LANES
    for s in range(pack.top.shape[0]):
        prepare_draw(pack, s, rows, scratch)
        for group in range(0, n_groups, BLOCK):
            n = min(BLOCK, n_groups - group)
            here = slice(group * LANES, (group + n) * LANES)
            evaluate_block(pack, s, rows, group, n, -1, scratch)
            write_logs(pack, scratch, n, log_density[s, here])
            for r in range(wanted.size):
                wanted[r] = not scratch.missing[r]
            spread_flow(pack, s, n, wanted, scratch)
            write_left_out(pack, s, rows, group, n, log_density[s, here], without[s, here], scratch)


@bare_called_kernel
def spread_flow(pack, s, n, wanted, scratch):
    """Coefficients of the sum nodes of some regions, with all that are above them."""
    if wanted[0]:
        for g in range(n):
            store(scratch.flow, g, splat(1.0))
            store(scratch.empty_flow, g, splat(0.0))
    for r in range(pack.tree.parent.size):
        if pack.tree.column[r] >= 0 or not wanted[r]:
            continue
        nodes = scratch.node_at[r] * n
        edge = pack.edge_first[s, r]
        rest = pack.rest_first[s, r]
        for k in range(pack.top[s, pack.tree.parent[r]] if r > 0 else 1):
            weight = splat(pack.rest[rest + k])
            for g in range(n):
                flow = multiply_add(weight, load(scratch.flow, nodes + k * n + g), load(scratch.empty_flow, r * n + g))
                store(scratch.empty_flow, r * n + g, flow)
        n_kinds = pack.tree.n_prior[r]  # their prior children stand for unoccupied ones
        for j in range(pack.tree.part_ptr[r], pack.tree.part_ptr[r + 1]):
            q = pack.tree.parts[j]
            if not wanted[q]:
                continue
            first = pack.tree.split[q] == 0 and n_kinds == 0
            for g in range(n):
                others = product_of_unoccupied(pack, r, q, n, g, scratch)
                flow = mul(load(scratch.empty_flow, r * n + g), others) if first else splat(0.0)
                store(scratch.empty_flow, q * n + g, flow)
            other = -1
            usual = pack.tree.n_splits[r] == 1
            for i in range(pack.tree.part_ptr[r], pack.tree.part_ptr[r + 1]):
                if pack.tree.parts[i] != q and not scratch.missing[pack.tree.parts[i]]:
                    usual &= other < 0
                    other = pack.tree.parts[i]
            below = scratch.node_at[q] * n
            at_other = scratch.node_at[max(other, 0)] * n
            for e in range(pack.top[s, r]):
                here = pack.tree.n_splits[r] == 1 or pack.edge_split[edge + e] == pack.tree.split[q]
                weight = splat(pack.weight[edge + e] if here else 0.0)
                node = nodes + pack.node[edge + e] * n
                if e < n_kinds:
                    weight = splat(1.0 / n_kinds if here else 0.0)
                for g in range(n):
                    flow = mul(weight, flow_of_edge(e, n_kinds, r * n + g, node + g, scratch))
                    if not usual:
                        flow = mul(flow, product_of_parts(pack, r, edge, e, q, n, g, scratch))
                    elif other >= 0:
                        flow = mul(flow, load(scratch.node_value, at_other + e * n + g))
                    store(scratch.flow, below + e * n + g, flow)


@bare_called_kernel
def flow_of_edge(e, n_kinds, empty, node, scratch):
    """Coefficient of the node below edge e of a component, of an empty copy where e is one of its kinds."""
    return load(scratch.empty_flow, empty) if e < n_kinds else load(scratch.flow, node)


@bare_called_kernel
def share_among_leaves(pack, s, column, known, n, laws, averages, shares, first_leaf, scratch):
    """Probabilities of the leaves of a column in the rows of a block, and averages with these weights."""
    block = n * LANES
    base = pack.leaf_first[s, pack.palette.place_ptr[column]]
    before = base - pack.leaf_first[0, pack.palette.place_ptr[column]]
    n_leaves = 0
    for d in range(pack.palette.place_ptr[column], pack.palette.place_ptr[column + 1]):
        at = pack.leaf_first[s, d] - base
        share_at_place(pack, s, d, known, at, n, scratch)
        n_leaves = at + pack.top[s, pack.tree.leaf_region[d]]
    for first in range(0, n_leaves if shares.shape[0] > 0 else 0, LANES):  # by lines of the cache
        last = min(first + LANES, n_leaves)
        for j in range(shares.shape[0]):
            for i in range(first, last):
                shares[j, first_leaf + before + i] = scratch.share[i * block + j]
    total = scratch.highest
    for k in range(averages.shape[1]):
        for g in range(n):
            store(total, g, splat(0.0))
        for i in range(n_leaves):
            law = laws[before + i, k if k < laws.shape[1] else 0]
            if k < laws.shape[1]:
                for g in range(n):
                    store(total, g, multiply_add(load(scratch.share, i * n + g), splat(law), load(total, g)))
            else:
                for g in range(n):
                    away = sub(splat(law), load(scratch.shift, g))
                    store(total, g, multiply_add(load(scratch.share, i * n + g), mul(away, away), load(total, g)))
        if k == 0:
            for g in range(n):
                store(scratch.shift, g, load(total, g))
        for j in range(block):
            averages[j, k] = total[j]


@bare_called_kernel
def share_among_joints(pack, s, wanted, rows, group, n, several, place, scratch):
    """Probabilities of the leaves over several columns of some regions in the rows of a block."""
    for r in range(pack.tree.parent.size):
        if not wanted[r] or pack.joint_ptr[r + 1] == pack.joint_ptr[r]:
            continue
        edge = pack.edge_first[s, r]
        nodes = scratch.node_at[r] * n
        n_kinds = pack.tree.n_prior[r]
        shift_of_joints(pack, r, rows, n, scratch)
        for e in range(pack.top[s, r]):
            joint = pack.edge_joint[edge + e]
            if joint < 0:
                continue
            evaluate_child(pack, r, edge, e, rows, group, n, scratch)
            weight = splat(1.0 / n_kinds if e < n_kinds else pack.weight[edge + e])
            node = nodes + pack.node[edge + e] * n
            for g in range(n):
                flow = mul(weight, flow_of_edge(e, n_kinds, r * n + g, node + g, scratch))
                flow = mul(flow, load(scratch.child, g))
                if not scratch.missing[0]:
                    flow = ratio(flow, load(scratch.node_value, g))
                store(scratch.child, g, flow)
            for j in range(several.shape[0]):
                several[j, place[joint]] = scratch.child[j]


@bare_called_kernel
def share_at_place(pack, s, d, known, at, n, scratch):
    """Probabilities of the leaves at a place in the rows of a block."""
    r = pack.tree.leaf_region[d]
    nodes = scratch.node_at[r] * n
    n_entries = pack.palette.entry_ptr[d + 1] - pack.palette.entry_ptr[d]
    edge = pack.edge_first[s, r] - n_entries
    rest = pack.rest_first[s, r]
    for i in range(pack.top[s, r]):
        for g in range(n):
            if i < n_entries:
                fresh = splat(pack.fresh[s, pack.palette.entry_ptr[d] + i])
                flow = mul(fresh, load(scratch.empty_flow, r * n + g))
                for k in range(pack.top[s, pack.tree.parent[r]] if r > 0 else 1):
                    weight = splat(pack.rest[rest + k * n_entries + i])
                    flow = multiply_add(weight, load(scratch.flow, nodes + k * n + g), flow)
            else:
                node = nodes + pack.node[edge + i] * n
                flow = mul(splat(pack.weight[edge + i]), load(scratch.flow, node + g))
            if known:
                flow = mul(flow, load(scratch.kept, (at + i) * n + g))
            if not scratch.missing[0]:
                flow = ratio(flow, load(scratch.node_value, g))
            store(scratch.share, (at + i) * n + g, flow)


@bare_called_kernel
def write_left_out(pack, s, rows, group, n, log_density, without, scratch):
    """Log predictives of rows without what is known of each column, from the coefficients of its sum nodes."""
    block = n * LANES
    mode = rows.mode
    # the shifts of the columns before and behind, since a difference would lose digits to a cell far out
    others = scratch.highest
    others[:block] = 0.0
    for c in range(mode.size):
        own = scratch.column_shift[c * block : (c + 1) * block]
        for j in range(block):
            without[j, c] = others[j]
            others[j] += own[j] if mode[c] != ABSENT else 0.0
    others[:block] = 0.0
    for c in range(mode.size - 1, -1, -1):
        own = scratch.column_shift[c * block : (c + 1) * block]
        if mode[c] == ABSENT:
            for j in range(block):
                without[j, c] = log_density[j]
            continue
        add_coefficients(pack, s, c, n, scratch)
        if rows.joint_without.shape[0] > 0:
            add_joints_left_out(pack, s, c, rows, group, n, scratch)
        for j in range(block):
            if not scratch.share[j] < math.inf:
                log_density[j] = math.nan  # such rows are asked one by one
            log = fast_log(scratch.share[j]) + (without[j, c] + others[j]) * LOG_2
            without[j, c] = log if log > 0.1 * EMPTY_LEAF else -math.inf
            others[j] += own[j]


@bare_called_kernel
def add_coefficients(pack, s, c, n, scratch):
    """Sum of the coefficients of a column's sum nodes, at all its places."""
    for g in range(n):
        store(scratch.share, g, splat(0.0))
    for d in range(pack.palette.place_ptr[c], pack.palette.place_ptr[c + 1]):
        r = pack.tree.leaf_region[d]
        nodes = scratch.node_at[r] * n
        for g in range(n):
            total = add(load(scratch.share, g), load(scratch.empty_flow, r * n + g))
            for k in range(pack.top[s, pack.tree.parent[r]] if r > 0 else 1):
                total = add(total, load(scratch.flow, nodes + k * n + g))
            store(scratch.share, g, total)


@bare_called_kernel
def add_joints_left_out(pack, s, c, rows, group, n, scratch):
    """Add the leaves over several columns that hold a column, without it, to the sum of its coefficients."""
    block = n * LANES
    own_shift = scratch.column_shift[c * block : (c + 1) * block]
    for r in range(pack.tree.parent.size):
        place = -1
        for j in range(pack.joint_ptr[r], pack.joint_ptr[r + 1]):
            if pack.joint_column[j] == c:
                place = j - pack.joint_ptr[r]
        if place < 0:
            continue
        edge = pack.edge_first[s, r]
        nodes = scratch.node_at[r] * n
        n_kinds = pack.tree.n_prior[r]
        shift_of_joints(pack, r, rows, n, scratch)
        for j in range(block):
            scratch.joint_shift[j] -= own_shift[j]
        for e in range(pack.top[s, r]):
            joint = pack.edge_joint[edge + e]
            if joint < 0:
                continue
            value_of_joint(
                rows.joint_without[rows.joint_first[joint] + place, group * LANES : (group + n) * LANES], n, scratch
            )
            weight = splat(1.0 / n_kinds if e < n_kinds else pack.weight[edge + e])
            node = nodes + pack.node[edge + e] * n
            for g in range(n):
                flow = mul(weight, flow_of_edge(e, n_kinds, r * n + g, node + g, scratch))
                total = multiply_add(flow, load(scratch.child, g), load(scratch.share, g))
                store(scratch.share, g, total)
