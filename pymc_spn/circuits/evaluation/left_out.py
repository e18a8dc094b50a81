"""Log densities of rows without what is known of each column, for all columns at once.

The density is linear in the leaves of a column, whose coefficients are the partial derivatives of the root. Where
nothing is known of the column each leaf is worth 1. So the density without it is the sum of its leaves' coefficients.
This takes one pass up and one down, where leaving out column by column takes a pass up for each.
"""

import math

from pymc_spn.circuits.evaluation.circuit_layout import PRODUCT, SUM
from pymc_spn.circuits.evaluation.circuit_passes import (
    NOWHERE,
    SMALLEST,
    log_values,
    make_block,
    values_of_block,
)
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel
from pymc_spn.numerics.lanes import LANES, load, mul, multiply_add, splat, store


@kernel
def log_densities_left_out(
    layout, log_weights, weight, coefficients, table, values, part_node, part_column, part_logs, size, out, without
):
    """Log densities (N,) of all rows, and (N, D) without what is known of each column.

    Parameters
    ----------
    part_node, part_column : (K,) int64
        Of the last K leaves, which are parts of leaves over several columns: the node of that leaf, the part's column.
    part_logs : (K, N) float64
        Logs of the whole leaf without the part's column.
    size : int
        Rows at a time, a multiple of eight.
    """
    at = make_block(layout, weight, coefficients, table, size)
    slope = at.nodes.copy()
    n_alone = layout.leaf_column.size - part_node.size
    for first in range(0, values.shape[0], size):
        n = min(size, values.shape[0] - first)
        is_linear = values_of_block(layout, log_weights, at, values, first)
        parts = part_node, part_column, part_logs[:, first : first + n]
        rows = without[first : first + n]
        if is_linear:
            linear_slopes(layout, weight, n_alone, at.nodes.reshape(-1), slope.reshape(-1), size // LANES)
            is_linear = write_left_out(layout, n_alone, slope, at.shift, *parts, at.scratch, rows)
            if not is_linear:  # without a cell far out a leaf may be worth e^1000 of all others
                log_values(layout, log_weights, at)
        if not is_linear:
            log_slopes(layout, log_weights, n_alone, at.nodes, slope)
            write_left_out_of_logs(layout, n_alone, slope, *parts, rows)
        for i in range(n):
            out[first + i] = at.roots[i] if at.roots[i] > NOWHERE else -math.inf


@bare_called_kernel
def linear_slopes(layout, weight, n_alone, nodes, slope, n):
    """Partial derivatives of the root in the values of all nodes but parts, for n groups of eight rows."""
    slope[:] = 0.0
    slope[: n * LANES] = 1.0
    for v in range(layout.kind.size):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == SUM:
            for e in range(begin, end):
                w, child = splat(weight[layout.edge_weight[e]]), layout.children[e] * n
                for g in range(n):
                    store(slope, child + g, multiply_add(w, load(slope, v * n + g), load(slope, child + g)))
        elif layout.kind[v] == PRODUCT and layout.leaf_of_node[layout.children[begin]] < n_alone:
            for e in range(begin, end):
                child = layout.children[e] * n
                for g in range(n):
                    own = load(slope, v * n + g)
                    for f in range(begin, end):
                        if f != e:
                            own = mul(own, load(nodes, layout.children[f] * n + g))
                    store(slope, child + g, multiply_add(own, splat(1.0), load(slope, child + g)))


@bare_called_kernel
def write_left_out(layout, n_alone, slope, shift, part_node, part_column, part_logs, scratch, without):
    """Logs of the sums of the coefficients with the shifts of the other columns; whether all are within range.

    Shifts before and behind a column are added up, since a difference would lose digits to a cell far out.
    """
    total, others = scratch[0], scratch[1]
    n, n_columns = without.shape
    others[:] = 0.0
    for c in range(n_columns):
        for i in range(n):
            without[i, c] = others[i]
            others[i] += shift[c, i]
    others[:] = 0.0
    for c in range(n_columns - 1, -1, -1):
        total[:] = 0.0
        for j in range(layout.column_ptr[c], layout.column_ptr[c + 1]):
            if layout.by_column[j] < n_alone:
                own = slope[layout.node_of_leaf[layout.by_column[j]]]
                for i in range(n):
                    total[i] += own[i]
        for q in range(part_node.size):
            if part_column[q] == c:
                for i in range(n):
                    log = part_logs[q, i]
                    p = q
                    while p > 0 and part_node[p - 1] == part_node[q]:
                        p -= 1
                    while p < part_node.size and part_node[p] == part_node[q]:
                        if p != q:
                            log -= shift[part_column[p], i]
                        p += 1
                    total[i] += slope[part_node[q], i] * math.exp(min(log, 710.0))
        for i in range(n):
            if not (total[i] >= SMALLEST and total[i] < math.inf):
                return False
            without[i, c] += math.log(total[i]) + others[i]
            others[i] += shift[c, i]
    return True


@bare_called_kernel
def log_add(a, b):
    """log(exp(a) + exp(b)); logs below `NOWHERE` are those of 0."""
    top = max(a, b)
    return top + math.log1p(math.exp(min(a, b) - top)) if top > NOWHERE else top


@bare_called_kernel
def log_slopes(layout, log_weights, n_alone, nodes, slope):
    """Logs of what `linear_slopes` gives, from values in logs."""
    slope[:] = -math.inf
    slope[0, :] = 0.0
    for v in range(layout.kind.size):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT and layout.leaf_of_node[layout.children[begin]] >= n_alone:
            continue
        for e in range(begin, end):
            child = layout.children[e]
            for i in range(slope.shape[1]):
                own = slope[v, i]
                if layout.kind[v] == SUM:
                    own += log_weights[layout.edge_weight[e]]
                else:
                    for f in range(begin, end):
                        if f != e:
                            own += nodes[layout.children[f], i]
                slope[child, i] = log_add(slope[child, i], own)


@bare_called_kernel
def write_left_out_of_logs(layout, n_alone, slope, part_node, part_column, part_logs, without):
    """As `write_left_out`, from coefficients in logs."""
    n, n_columns = without.shape
    for c in range(n_columns):
        for i in range(n):
            total = -math.inf
            for j in range(layout.column_ptr[c], layout.column_ptr[c + 1]):
                if layout.by_column[j] < n_alone:
                    total = log_add(total, slope[layout.node_of_leaf[layout.by_column[j]], i])
            for q in range(part_node.size):
                if part_column[q] == c:
                    total = log_add(total, slope[part_node[q], i] + part_logs[q, i])
            without[i, c] = total if total > NOWHERE else -math.inf
