"""Log densities of all pairs of columns at once: one pass up, in which a node holds each column and each pair below it.

A pair may have its cells from two rows: the column that comes first from one, the other from the other row.
"""

import math

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT
from pymc_spn.circuits.evaluation.circuit_passes import LOG_2, TINY, exponential, leaf_logs, make_block
from pymc_spn.circuits.evaluation.leaf_forms import read_values
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, LARGEST_SQUARE
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_inner_kernel, kernel
from pymc_spn.numerics.lane_functions import choose, log2_of_1_plus, sub
from pymc_spn.numerics.lanes import LANES, larger, load, mul, multiply_add, splat, store, unless_below


@kernel
def log_densities_of_pairs(
    layout,
    weight,
    coefficients,
    table,
    base,
    rows,
    scope_ptr,
    scope_column,
    pair_ptr,
    real_input,
    wide_first,
    wide,
    size,
    first_out,
    second_out,
    out,
):
    """Log densities of single columns in two rows, and of pairs of columns in both.

    Parameters
    ----------
    weight : (n_sum_edges,) float64
        Given what else is known.
    base : (L,) float64
        Log probability of what else is known of a leaf's column.
    rows : (2 M, C) float64
        Row m is the first, row M + m the second. All asked columns have values.
    scope_ptr, scope_column : (V + 1,) and (A,) int64
        The asked columns below each node, in their order.
    pair_ptr : (V + 1,) int64
        Where the pairs of these begin.
    real_input : (D,) int64
        Input of each column as it stands.
    wide_first : (V,) int64
        Of leaves over several columns the first of their pairs in ``wide``, -1 of other nodes. Their parts have a form
        for the column by itself.
    wide : (Q, 7) float64
        Student t's of two columns: locations, factors of the scale matrix, power and log density at the location.
    size : int
        Rows at a time, a multiple of eight.
    first_out, second_out : (M, A_0) float64
        Out: of the columns below the root.
    out : (M, P) float64
        Out: of their pairs.
    """
    n_rows, n = rows.shape[0] // 2, size // LANES
    one = make_block(layout, weight, coefficients, table, size)
    two = make_block(layout, weight, coefficients, table, size)
    first, second = np.empty(scope_column.size * size), np.empty(scope_column.size * size)
    pairs = np.empty(pair_ptr[-1] * size)
    child, place = np.empty(real_input.size, np.int64), np.empty(real_input.size, np.int64)
    columns = scope_column[: scope_ptr[1]]
    for start in range(0, n_rows, size):
        leaf_values(layout, one, base, rows[:n_rows], start, scope_ptr, first)
        leaf_values(layout, two, base, rows[n_rows:], start, scope_ptr, second)
        for v in range(layout.kind.size - 1, -1, -1):
            own, n_own = scope_ptr[v], scope_ptr[v + 1] - scope_ptr[v]
            if n_own == 0 or layout.kind[v] == LEAF:
                continue
            if layout.kind[v] == PRODUCT:
                find_children(layout, v, scope_ptr, scope_column, child, place)
                for i in range(n_own):
                    at = scope_ptr[child[i]] + place[i]
                    copy_groups(first, at * n, own * n + i * n, n)
                    copy_groups(second, at * n, own * n + i * n, n)
                if wide_first[v] >= 0:
                    of_leaf, own_columns = wide[wide_first[v] :], scope_column[own : own + n_own]
                    densities_of_wide(one, two, of_leaf, own_columns, real_input, pairs, pair_ptr[v], n)
                else:
                    pairs_of_product(first, second, pairs, scope_ptr, pair_ptr, v, child, place, n)
            else:
                for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                    c, w, is_first = layout.children[e], weight[layout.edge_weight[e]], e == layout.child_ptr[v]
                    add_groups(first, w, scope_ptr[c] * n, own * n, n_own * n, is_first)
                    add_groups(second, w, scope_ptr[c] * n, own * n, n_own * n, is_first)
                    n_pairs = pair_ptr[v + 1] - pair_ptr[v]
                    add_groups(pairs, w, pair_ptr[c] * n, pair_ptr[v] * n, n_pairs * n, is_first)
        for m in range(min(size, n_rows - start)):
            q = 0
            for i in range(columns.size):
                shift = one.shift[columns[i], m]
                first_out[start + m, i] = log_or_none(first[i * size + m]) + shift
                second_out[start + m, i] = log_or_none(second[i * size + m]) + two.shift[columns[i], m]
                for j in range(i + 1, columns.size):
                    out[start + m, q] = log_or_none(pairs[q * size + m]) + shift + two.shift[columns[j], m]
                    q += 1


@bare_inner_kernel
def log_or_none(x):
    """Log of a value that may be 0."""
    return math.log(x) if x > 0.0 else -math.inf


@bare_called_kernel
def leaf_values(layout, block, base, rows, start, scope_ptr, out):
    """Values of the leaves in asked columns, each column's divided by the largest of them; logs of these are kept."""
    read_values(rows, start, layout.input_column, layout.input_reading, block.u, block.base, block.present)
    n = block.roots.size // LANES
    for d in range(block.shift.shape[0]):
        leaves, top = layout.by_column[layout.column_ptr[d] : layout.column_ptr[d + 1]], block.shift[d]
        v = layout.node_of_leaf[leaves[0]] if leaves.size > 0 else 0
        if leaves.size == 0 or scope_ptr[v + 1] == scope_ptr[v]:
            continue
        leaf_logs(layout, leaves, block.coefficients, block.table, block.u, block.base, block.present, block.nodes)
        for g in range(n):
            store(top, g, splat(-math.inf))
        for k in leaves:
            v = layout.node_of_leaf[k]
            for g in range(n):
                log = sub(load(block.flat, v * n + g), splat(base[k]))
                store(block.flat, v * n + g, log)
                store(top, g, larger(log, load(top, g)))
        for k in leaves:
            v = layout.node_of_leaf[k]
            for g in range(n):
                log = sub(load(block.flat, v * n + g), load(top, g))
                store(out, scope_ptr[v] * n + g, exponential(log))


@bare_called_kernel
def find_children(layout, v, scope_ptr, scope_column, child, place):
    """The child of a product below which each of its asked columns is, and the column's place among those there."""
    own = scope_ptr[v]
    for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
        c, i = layout.children[e], 0
        for j in range(scope_ptr[c], scope_ptr[c + 1]):
            while scope_column[own + i] < scope_column[j]:
                i += 1
            child[i], place[i] = c, j - scope_ptr[c]


@bare_called_kernel
def pairs_of_product(first, second, pairs, scope_ptr, pair_ptr, v, child, place, n):
    """Pairs below a product: below one child as that has them, else products of two columns."""
    n_own, q = scope_ptr[v + 1] - scope_ptr[v], pair_ptr[v]
    for i in range(n_own):
        for j in range(i + 1, n_own):
            if child[i] == child[j]:
                size, a = scope_ptr[child[i] + 1] - scope_ptr[child[i]], place[i]
                at = pair_ptr[child[i]] + a * size - a * (a + 1) // 2 + place[j] - a - 1
                copy_groups(pairs, at * n, q * n, n)
            else:
                at, other = scope_ptr[child[i]] + place[i], scope_ptr[child[j]] + place[j]
                for g in range(n):
                    value = mul(load(first, at * n + g), load(second, other * n + g))
                    store(pairs, q * n + g, unless_below(value, splat(TINY)))
            q += 1


@bare_called_kernel
def densities_of_wide(one, two, wide, columns, real_input, pairs, begin, n):
    """Pairs of the columns of a leaf over several: Student t's."""
    q = 0
    for i in range(columns.size):
        x, top = one.u[real_input[columns[i]]], one.shift[columns[i]]
        for j in range(i + 1, columns.size):
            y, other = two.u[real_input[columns[j]]], two.shift[columns[j]]
            of_pair = wide[q]
            for g in range(n):
                a = mul(sub(load(x, g), splat(of_pair[0])), splat(of_pair[2]))
                b = sub(sub(load(y, g), splat(of_pair[1])), mul(splat(of_pair[3]), a))
                b = mul(b, splat(of_pair[4]))
                square = multiply_add(a, a, mul(b, b))
                log = sub(splat(of_pair[6]), mul(splat(of_pair[5] * LOG_2), log2_of_1_plus(square)))
                log = choose(square, splat(LARGEST_SQUARE), log, splat(IMPOSSIBLE))
                log = sub(sub(log, load(top, g)), load(other, g))
                store(pairs, (begin + q) * n + g, exponential(log))
            q += 1


@bare_inner_kernel
def copy_groups(values, source, target, n):
    for g in range(n):
        store(values, target + g, load(values, source + g))


@bare_inner_kernel
def add_groups(values, weight, source, target, n, is_first):
    """Add weighted groups of eight values to others of the same array, or put them there."""
    w = splat(weight)
    if is_first:
        for g in range(n):
            store(values, target + g, mul(w, load(values, source + g)))
    else:
        for g in range(n):
            store(values, target + g, multiply_add(w, load(values, source + g), load(values, target + g)))
