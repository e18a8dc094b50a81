"""Predictives of blocks of rows under recorded draws: eight rows in a vector, some of these for each leaf in turn.

A block is small enough that the values of all sum nodes of a draw stay in the cache. Values are those of
`predictive_kernels.evaluate_row`, where each column is shifted by its largest leaf value, but shifts are in bits. Rows
whose value underflows are left to it.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.exact import SAFE
from pymc_spn.gibbs.family_kernels import is_of_logs
from pymc_spn.gibbs.network import EMPTY_LEAF, LOGS
from pymc_spn.networks.records.block_children import (
    ABSENT,
    BY_TABLE,
    LOG_2,
    evaluate_child,
    product_of_parts,
    product_of_unoccupied,
    raise_shifts,
    shift_of_joints,
)
from pymc_spn.networks.records.leaf_tables import LOG2_E, fill_table, leaf_end
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.elementary import fast_log
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel
from pymc_spn.numerics.lane_functions import log2_of_1_plus, power_of_2, sub
from pymc_spn.numerics.lanes import LANES, add, larger, load, mul, multiply_add, splat, store

BLOCK = 8  # groups of eight rows


@array_group
class BlockRows(NamedTuple):
    """What is known of M rows, a multiple of eight, as the kernels read it.

    Parameters
    ----------
    mode : (D,) int64
    y, log_x : (D, M) float64
        Coded values and, in columns with log-normal leaves, their logs, where the mode is BY_VALUE.
    code : (D, M) int32
        By table: which entry of the column's table. By value: 0, or -1 where missing and -2 where an event is known.
    has_gaps : (D,) bool
        Whether a column by value has other codes than 0.
    kind : (D,) int64
        POINTS or INTERVALS.
    value_ptr : (D + 1,) int64
    low, high : (V,) float64
        The values of the tables in coded units; points have them alike. A table has two entries more, one of the event
        and one of nothing known.
    event_ptr : (D + 1,) int64
    event_log : (n,) float64
        Log probability of the column's event in each leaf of all draws; of columns without an event nothing.
    joint_log : (J, M) float64
        Log values of the leaves over several columns of all draws, in coded units.
    joint_without : (n, M) float64
        The same without each of their columns, where that is asked for, else of no columns.
    joint_first : (J,) int64
        Where the columns of each of these leaves begin in it.
    """

    mode: np.ndarray
    y: np.ndarray
    log_x: np.ndarray
    code: np.ndarray
    has_gaps: np.ndarray
    kind: np.ndarray
    value_ptr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    event_ptr: np.ndarray
    event_log: np.ndarray
    joint_log: np.ndarray
    joint_without: np.ndarray
    joint_first: np.ndarray


@array_group
class BlockScratch(NamedTuple):
    """What the kernels write into; groups of eight rows of a block stand side by side."""

    node_at: np.ndarray  # (R,) where the sum nodes of each region begin
    node_value: np.ndarray
    flow: np.ndarray  # coefficients of the sum nodes: partial derivatives of the root
    empty_value: np.ndarray  # of an unoccupied sum node of each region
    empty_flow: np.ndarray
    missing: np.ndarray  # (R,) whether nothing is known of a region in the whole block
    leaf: np.ndarray  # values of the leaves of a column
    kept: np.ndarray  # the same of the column that is asked for
    shift: np.ndarray  # of the rows, in bits
    column_shift: np.ndarray  # of each column
    highest: np.ndarray
    table: np.ndarray  # of each column by table: leaves, and within them values
    table_shift: np.ndarray
    table_at: np.ndarray  # (D,) where each begins
    share: np.ndarray  # of the leaves of the column that is asked for
    child: np.ndarray  # value of one child of a region that has leaves over several columns in it or below
    joint_shift: np.ndarray  # of the columns of such leaves together, in bits


def block_scratch(pack, rows):
    """Scratch for rows of draws."""
    n_groups = min(BLOCK, rows.y.shape[1] // LANES)
    n_nodes = np.where(pack.tree.parent >= 0, pack.top[:, pack.tree.parent], 1).sum(axis=1).max(initial=1)
    leaves = np.add.reduceat(pack.top[:, pack.tree.leaf_region], pack.palette.place_ptr[:-1], axis=1)
    widths = np.diff(rows.value_ptr) + 2
    block = n_groups * LANES
    n_regions, n_columns = pack.tree.parent.size, rows.mode.size
    most, by_table = int(leaves.max(initial=1)), rows.mode == BY_TABLE
    return BlockScratch(
        np.zeros(n_regions, np.int64),
        *(np.zeros(int(n_nodes) * block) for _ in range(2)),
        *(np.zeros(n_regions * block) for _ in range(2)),
        np.zeros(n_regions, np.bool_),
        *(np.zeros(most * block) for _ in range(2)),
        np.zeros(block),
        np.zeros(n_columns * block),
        np.zeros(block),
        np.zeros(int((leaves * widths)[:, by_table].sum(axis=1).max(initial=1))),
        np.zeros(int(widths[by_table].sum())),
        np.zeros(n_columns, np.int64),
        np.zeros(most * block),
        *(np.zeros(block) for _ in range(2)),
    )


@bare_kernel
def log_densities_of_blocks(pack, rows, scratch, out):
    """Log predictives (S, M) of rows in coded units; NaN where values underflow."""
    n_groups = rows.y.shape[1] // LANES
    for s in range(out.shape[0]):
        prepare_draw(pack, s, rows, scratch)
        for group in range(0, n_groups, BLOCK):
            n = min(BLOCK, n_groups - group)
            evaluate_block(pack, s, rows, group, n, -1, scratch)
            write_logs(pack, scratch, n, out[s, group * LANES : (group + n) * LANES])


@bare_called_kernel
def write_logs(pack, scratch, n, out):
    """Logs of the root's values with the shifts."""
    if scratch.missing[0]:
        out[:] = 0.0
        return
    root = scratch.node_value[: n * LANES]
    for j in range(n * LANES):
        out[j] = fast_log(root[j]) + scratch.shift[j] * LOG_2
    for j in range(n * LANES):
        if not (root[j] > SAFE and root[j] < math.inf):
            out[j] = math.nan
        elif out[j] <= 0.1 * EMPTY_LEAF:
            out[j] = -math.inf


@bare_called_kernel
def prepare_draw(pack, s, rows, scratch):
    """Places of the sum nodes of a draw, and its tables of leaf values."""
    at = 0
    for r in range(pack.tree.parent.size):
        scratch.node_at[r] = at
        at += pack.top[s, pack.tree.parent[r]] if r > 0 else 1
    table_at = 0
    shift_at = 0
    for c in range(rows.mode.size):
        if rows.mode[c] != BY_TABLE:
            continue
        scratch.table_at[c] = table_at
        base = pack.leaf_first[s, pack.palette.place_ptr[c]]
        n_leaves = leaf_end(pack, s, c) - base
        width = rows.value_ptr[c + 1] - rows.value_ptr[c] + 2
        table = scratch.table[table_at : table_at + n_leaves * width]
        fill_table(pack, s, rows, c, base, width, table, scratch.table_shift[shift_at : shift_at + width])
        table_at += n_leaves * width
        shift_at += width


@bare_called_kernel
def evaluate_block(pack, s, rows, group, n, keep, scratch):
    """Values of all sum nodes for n groups of rows from a group on; of column ``keep`` those of the leaves are kept."""
    for g in range(n):
        store(scratch.shift, g, splat(0.0))
    shift_at = 0
    for c in range(rows.mode.size):
        absent = rows.mode[c] == ABSENT
        for d in range(pack.palette.place_ptr[c], pack.palette.place_ptr[c + 1]):
            scratch.missing[pack.tree.leaf_region[d]] = absent
        if absent:
            continue
        base = pack.leaf_first[s, pack.palette.place_ptr[c]]
        n_leaves = leaf_end(pack, s, c) - base
        leaf = scratch.kept if c == keep else scratch.leaf
        if rows.mode[c] == BY_TABLE:
            width = rows.value_ptr[c + 1] - rows.value_ptr[c] + 2
            code = rows.code[c, group * LANES : (group + n) * LANES]
            table = scratch.table[scratch.table_at[c] : scratch.table_at[c] + n_leaves * width]
            look_up(table, width, code, scratch.table_shift[shift_at : shift_at + width], leaf, scratch.highest)
            shift_at += width
        else:
            evaluate_leaves_of_block(pack, s, rows, c, base, n_leaves, group, n, leaf, scratch)
        for g in range(n):
            store(scratch.column_shift, c * n + g, load(scratch.highest, g))
            store(scratch.shift, g, add(load(scratch.shift, g), load(scratch.highest, g)))
        for d in range(pack.palette.place_ptr[c], pack.palette.place_ptr[c + 1]):
            add_leaves(pack, s, d, pack.leaf_first[s, d] - base, n, leaf, scratch)
    raise_shifts(pack, s, rows, group, n, keep, scratch)
    for r in range(pack.tree.parent.size - 1, -1, -1):
        if pack.tree.column[r] < 0:
            every = True
            for j in range(pack.tree.part_ptr[r], pack.tree.part_ptr[r + 1]):
                every &= scratch.missing[pack.tree.parts[j]]
            scratch.missing[r] = every
            if not every and pack.tree.n_prior[r] > 0:
                add_kinds(pack, s, r, rows, group, n, scratch)
            elif not every:
                add_products(pack, s, r, n, scratch)


@bare_called_kernel
def look_up(table, width, code, table_shift, leaf, shift):
    """Leaf values from a table, and what they were divided by."""
    for j in range(code.size):
        shift[j] = table_shift[code[j]]
    for i in range(table.size // width):
        own = table[i * width : (i + 1) * width]
        values = leaf[i * code.size : (i + 1) * code.size]
        for j in range(code.size):
            values[j] = own[code[j]]


@bare_called_kernel
def evaluate_leaves_of_block(pack, s, rows, c, base, n_leaves, group, n, leaf, scratch):
    """Values of a column's densities, divided by the largest of each row."""
    d = pack.palette.place_ptr[c]
    block = n * LANES
    y = rows.y[c, group * LANES : group * LANES + block]
    log_x = rows.log_x[c, group * LANES : group * LANES + block]
    code = rows.code[c, group * LANES : group * LANES + block]
    has_logs = pack.palette.column_kind[d] == LOGS
    event = rows.event_ptr[c] + base - pack.leaf_first[0, d]
    for g in range(n):
        store(scratch.highest, g, splat(EMPTY_LEAF))
    for i in range(n_leaves):
        k = base + i
        log_scale = splat(pack.leaves.log_scale[k] * LOG2_E)
        power = splat(-pack.leaves.power[k])
        centre = splat(pack.leaves.centre[k])
        curvature = splat(pack.leaves.curvature[k])
        in_logs = has_logs and is_of_logs(pack.palette.family[pack.leaves.entry[k]])
        if pack.leaves.slope[k] != 0.0:
            slope = splat(pack.leaves.slope[k])
            offset = splat(pack.palette.offset[d])
            for g in range(n):
                x = load(y, g)
                t = sub(x, centre)
                argument = multiply_add(mul(t, t), curvature, mul(add(x, offset), slope))
                store(leaf, i * n + g, multiply_add(power, log2_of_1_plus(argument), log_scale))
        elif in_logs:
            for g in range(n):
                u = load(log_x, g)
                t = sub(u, centre)
                value = multiply_add(power, log2_of_1_plus(mul(mul(t, t), curvature)), log_scale)
                store(leaf, i * n + g, multiply_add(u, splat(-LOG2_E), value))
        else:
            for g in range(n):
                t = sub(load(y, g), centre)
                store(leaf, i * n + g, multiply_add(power, log2_of_1_plus(mul(mul(t, t), curvature)), log_scale))
        if rows.has_gaps[c]:
            for j in range(block):
                if code[j] == -1:
                    leaf[i * block + j] = 0.0
                elif code[j] == -2:
                    leaf[i * block + j] = rows.event_log[event + i] * LOG2_E
        for g in range(n):
            store(scratch.highest, g, larger(load(leaf, i * n + g), load(scratch.highest, g)))
    for i in range(n_leaves):
        for g in range(n):
            store(leaf, i * n + g, power_of_2(sub(load(leaf, i * n + g), load(scratch.highest, g))))


@bare_called_kernel
def add_leaves(pack, s, d, at, n, leaf, scratch):
    """Values of the sum nodes at a place, and of an unoccupied one."""
    r = pack.tree.leaf_region[d]
    first = pack.palette.entry_ptr[d]
    n_entries = pack.palette.entry_ptr[d + 1] - first
    nodes = scratch.node_at[r]
    rest = pack.rest_first[s, r]
    for g in range(n):
        store(scratch.empty_value, r * n + g, mul(splat(pack.fresh[s, first]), load(leaf, at * n + g)))
    for e in range(1, n_entries):
        weight = splat(pack.fresh[s, first + e])
        for g in range(n):
            before = load(scratch.empty_value, r * n + g)
            store(scratch.empty_value, r * n + g, multiply_add(weight, load(leaf, (at + e) * n + g), before))
    for k in range(pack.top[s, pack.tree.parent[r]] if r > 0 else 1):
        weight = splat(pack.rest[rest + k * n_entries])
        for g in range(n):
            store(scratch.node_value, (nodes + k) * n + g, mul(weight, load(leaf, at * n + g)))
        for e in range(1, n_entries):
            weight = splat(pack.rest[rest + k * n_entries + e])
            for g in range(n):
                i = (nodes + k) * n + g
                total = multiply_add(weight, load(leaf, (at + e) * n + g), load(scratch.node_value, i))
                store(scratch.node_value, i, total)
    edge = pack.edge_first[s, r] - n_entries
    for i in range(n_entries, pack.top[s, r]):
        weight = splat(pack.weight[edge + i])
        node = nodes + pack.node[edge + i]
        for g in range(n):
            total = multiply_add(weight, load(leaf, (at + i) * n + g), load(scratch.node_value, node * n + g))
            store(scratch.node_value, node * n + g, total)


@bare_called_kernel
def add_products(pack, s, r, n, scratch):
    """Values of the sum nodes of a region over several columns, and of an unoccupied one."""
    nodes = scratch.node_at[r]
    rest = pack.rest_first[s, r]
    edge = pack.edge_first[s, r]
    one = -1
    other = -1
    n_parts = 0
    for j in range(pack.tree.part_ptr[r], pack.tree.part_ptr[r + 1]):
        if not scratch.missing[pack.tree.parts[j]]:
            other = one
            one = pack.tree.parts[j]
            n_parts += 1
    for g in range(n):
        store(scratch.empty_value, r * n + g, product_of_unoccupied(pack, r, -1, n, g, scratch))
    for k in range(pack.top[s, pack.tree.parent[r]] if r > 0 else 1):
        weight = splat(pack.rest[rest + k])
        for g in range(n):
            store(scratch.node_value, (nodes + k) * n + g, mul(weight, load(scratch.empty_value, r * n + g)))
    usual = pack.tree.n_splits[r] == 1 and n_parts <= 2
    at_one = scratch.node_at[one] * n
    at_other = scratch.node_at[max(other, 0)] * n
    for e in range(pack.top[s, r]):
        weight = splat(pack.weight[edge + e])
        node = (nodes + pack.node[edge + e]) * n
        for g in range(n):
            if not usual:
                value = product_of_parts(pack, r, edge, e, -1, n, g, scratch)
            elif n_parts == 2:
                value = mul(
                    load(scratch.node_value, at_one + e * n + g), load(scratch.node_value, at_other + e * n + g)
                )
            else:
                value = load(scratch.node_value, at_one + e * n + g)
            store(scratch.node_value, node + g, multiply_add(weight, value, load(scratch.node_value, node + g)))


@bare_called_kernel
def add_kinds(pack, s, r, rows, group, n, scratch):
    """`add_products` of a region with leaves over several columns in it or below, see `exact.multiply_kinds`."""
    nodes = scratch.node_at[r]
    rest = pack.rest_first[s, r]
    edge = pack.edge_first[s, r]
    n_kinds = pack.tree.n_prior[r]
    shift_of_joints(pack, r, rows, n, scratch)
    for g in range(n):
        store(scratch.empty_value, r * n + g, splat(0.0))
    for e in range(n_kinds):
        evaluate_child(pack, r, edge, e, rows, group, n, scratch)
        for g in range(n):
            total = multiply_add(splat(1.0 / n_kinds), load(scratch.child, g), load(scratch.empty_value, r * n + g))
            store(scratch.empty_value, r * n + g, total)
    for k in range(pack.top[s, pack.tree.parent[r]] if r > 0 else 1):
        weight = splat(pack.rest[rest + k])
        for g in range(n):
            store(scratch.node_value, (nodes + k) * n + g, mul(weight, load(scratch.empty_value, r * n + g)))
    for e in range(n_kinds, pack.top[s, r]):
        evaluate_child(pack, r, edge, e, rows, group, n, scratch)
        weight = splat(pack.weight[edge + e])
        node = (nodes + pack.node[edge + e]) * n
        for g in range(n):
            total = multiply_add(weight, load(scratch.child, g), load(scratch.node_value, node + g))
            store(scratch.node_value, node + g, total)
