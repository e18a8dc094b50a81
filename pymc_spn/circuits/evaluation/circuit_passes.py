"""The passes over a circuit, a block of rows at a time: values of all nodes up, flows down, or a tree drawn at random.

They run in linear space with each column's leaves divided by the largest of them. Every induced tree has one leaf for
each column, so this multiplies the root by a known factor. A block in which some root comes out too small for that
runs again in logs, which lose no row.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT, SUM
from pymc_spn.circuits.evaluation.leaf_forms import form_at, leaf_coefficients, read_values
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, LARGEST_SQUARE, LINEAR, POWER, QUADRATIC, STUDENT, TABLE
from pymc_spn.numerics.elementary import exp_or_zero, fast_exp, fast_log
from pymc_spn.numerics.kernel_options import (
    bare_called_kernel,
    bare_inner_kernel,
    bare_inner_reduction,
    inner_kernel,
    kernel,
)
from pymc_spn.numerics.lane_functions import choose, log2_of_1_plus, power_of_2, sub
from pymc_spn.numerics.lanes import LANES, add, lane_sum, larger, load, mul, multiply_add, splat, store, unless_below
from pymc_spn.numerics.read_only_views import read_only_view

NOWHERE = 0.5 * IMPOSSIBLE
LOG_2 = math.log(2.0)
SMALLEST = 1e-265  # a root above it has lost less than 1e-25 of itself below each node of an induced tree
TINY = 1e-290  # leaves and products below it are 0; their weighted sums would take the processor many times as long
LOG_TINY = math.log(TINY)
LOG2_E = 1.0 / math.log(2.0)


class Block(NamedTuple):
    """What the passes over a block of B rows work with: made once, filled again by `values_of_block`."""

    coefficients: np.ndarray  # (5, L) of the leaves
    table: np.ndarray  # (P,) logs of level probabilities
    weight: np.ndarray  # (n_sum_edges,) weights, not their logs
    u: np.ndarray  # (I, B) inputs of the leaves
    base: np.ndarray  # (I, B)
    present: np.ndarray  # (I, B)
    nodes: np.ndarray  # (V, B) values of all nodes: linear, up to a factor for each column and row, or logs
    flat: np.ndarray  # (V B,) the same array
    shift: np.ndarray  # (D, B) log of that factor
    blank: np.ndarray  # (V,) whether nothing is known below a node, whose value is then 1
    scratch: np.ndarray  # (4, B)
    roots: np.ndarray  # (B,) log densities, hugely negative where a row is impossible


@inner_kernel
def make_block(layout, weight, coefficients, table, size):
    """Arrays for blocks of ``size`` rows, a multiple of eight."""
    n_inputs = layout.input_column.size
    flat = np.empty(layout.kind.size * size)
    return Block(
        coefficients,
        table,
        weight,
        np.empty((n_inputs, size)),
        np.empty((n_inputs, size)),
        np.empty((n_inputs, size)),
        flat.reshape((layout.kind.size, size)),
        flat,
        np.empty((layout.column_ptr.size - 1, size)),
        np.zeros(layout.kind.size, np.bool_),
        np.empty((4, size)),
        np.empty(size),
    )


@inner_kernel
def values_of_block(layout, log_weights, block, table_rows, first):
    """Values of all nodes for the rows from ``first`` on of a table (N, D); those beyond it read as missing.

    Returns
    -------
    bool
        Whether the values are in linear space.
    """
    read_values(table_rows, first, layout.input_column, layout.input_reading, block.u, block.base, block.present)
    linear_values(layout, block)
    if is_safe(block.roots):
        return True
    log_values(layout, log_weights, block)
    return False


@bare_called_kernel
def linear_values(layout, block):
    """Values of all nodes for rows that are read; roots are NaN where linear space has lost a row."""
    flat, shift, roots, root = block.flat, block.shift, block.roots, block.nodes[0]
    n = roots.size // LANES
    find_blank(layout, block)
    for d in range(shift.shape[0]):
        leaves, top = layout.by_column[layout.column_ptr[d] : layout.column_ptr[d + 1]], shift[d]
        if leaves.size > 0 and block.blank[layout.node_of_leaf[leaves[0]]]:
            top[:] = 0.0
            continue
        leaf_logs(layout, leaves, block.coefficients, block.table, block.u, block.base, block.present, block.nodes)
        for g in range(n):
            store(top, g, splat(-math.inf if leaves.size > 0 else 0.0))
        for k in leaves:
            for g in range(n):
                store(top, g, larger(load(flat, layout.node_of_leaf[k] * n + g), load(top, g)))
        for k in leaves:
            row = layout.node_of_leaf[k] * n
            for g in range(n):
                store(flat, row + g, exponential(sub(load(flat, row + g), load(top, g))))
    pass_up(layout, block.weight, block.blank, flat, n)
    for i in range(roots.size):
        roots[i] = math.log(root[i]) if root[i] >= SMALLEST else math.nan
    for d in range(shift.shape[0]):
        add_row(shift[d], roots)


@inner_kernel
def log_values(layout, log_weights, block):
    """As `linear_values`, in logs."""
    leaves = layout.by_column
    block.blank[:] = False
    leaf_logs(layout, leaves, block.coefficients, block.table, block.u, block.base, block.present, block.nodes)
    sum_and_multiply(layout, log_weights, block.nodes, block.scratch[0], block.scratch[1])
    for i in range(block.roots.size):  # assigning the row at once compiles Numba's text of an error for a second
        block.roots[i] = block.nodes[0, i]


@bare_called_kernel
def find_blank(layout, block):
    """Find the nodes below which nothing is known in any row of a block, and give those their value.

    Their leaves stand in columns of which no leaf says anything.
    """
    blank = block.blank
    for d in range(block.shift.shape[0]):
        leaves, says_nothing = layout.by_column[layout.column_ptr[d] : layout.column_ptr[d + 1]], True
        for k in leaves:
            if says_nothing:
                says_nothing = is_silent(layout, block, k)
        for k in leaves:
            set_blank(block, layout.node_of_leaf[k], says_nothing)
    for v in range(blank.size - 1, -1, -1):
        if layout.kind[v] != LEAF:
            e, end = layout.child_ptr[v], layout.child_ptr[v + 1]
            while e < end and blank[layout.children[e]]:
                e += 1
            set_blank(block, v, e == end)


@bare_called_kernel
def is_silent(layout, block, k):
    """Whether the log of a leaf is 0 in all rows of a block."""
    if block.coefficients[4, k] != 0.0:
        return False
    if layout.leaf_form[k] == LINEAR and block.coefficients[0, k] == 0.0 and block.coefficients[1, k] == 0.0:
        return True
    present = block.present[layout.leaf_input[k]]
    for i in range(present.size):
        if present[i] != 0.0:
            return False
    return True


@bare_called_kernel
def set_blank(block, v, is_blank):
    """Set whether nothing is known below a node; its values are 1 from then on."""
    if is_blank and not block.blank[v]:
        block.nodes[v, :] = 1.0
    block.blank[v] = is_blank


@bare_inner_kernel
def exponential(x):
    """exp of eight logs of at most 0; 0 below `LOG_TINY` and of NaN.

    A leaf that excludes a value is 0, so that no flow reaches it: one of 1e-308, small as it is, would be multiplied by
    moments that may be larger than its inverse. So are all leaves of a column that logs of ``-inf`` have.
    """
    return choose(splat(LOG_TINY), x, power_of_2(mul(x, splat(LOG2_E))), splat(0.0))


@bare_called_kernel
def pass_up(layout, weight, blank, flat, n):
    """Values of sums and products from those of the leaves, which are in place, for n groups of eight rows."""
    for v in range(layout.kind.size - 1, -1, -1):
        if blank[v]:
            continue
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            for g in range(n):
                value = load(flat, layout.children[begin] * n + g)
                for e in range(begin + 1, end):
                    value = unless_below(mul(value, load(flat, layout.children[e] * n + g)), splat(TINY))
                store(flat, v * n + g, value)
        elif layout.kind[v] == SUM:
            first = layout.edge_weight[begin] - begin
            g = 0
            while g + 3 < n:  # four sums at a time, so that none waits for the one before
                a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
                for e in range(begin, end):
                    w, child = splat(weight[first + e]), layout.children[e] * n + g
                    a = multiply_add(w, load(flat, child), a)
                    b = multiply_add(w, load(flat, child + 1), b)
                    c = multiply_add(w, load(flat, child + 2), c)
                    d = multiply_add(w, load(flat, child + 3), d)
                store(flat, v * n + g, a)
                store(flat, v * n + g + 1, b)
                store(flat, v * n + g + 2, c)
                store(flat, v * n + g + 3, d)
                g += 4
            for h in range(g, n):
                value = splat(0.0)
                for e in range(begin, end):
                    value = multiply_add(splat(weight[first + e]), load(flat, layout.children[e] * n + h), value)
                store(flat, v * n + h, value)


@inner_kernel
def is_safe(roots):
    """Whether linear space has lost no row."""
    for i in range(roots.size):
        if math.isnan(roots[i]):
            return False
    return True


@kernel
def log_densities_of_rows(layout, log_weights, weight, coefficients, table, values, size, out):
    """Log densities (N,) of all rows, ``size`` of them at a time, a multiple of eight."""
    block = make_block(layout, weight, coefficients, table, size)
    for first in range(0, values.shape[0], size):
        values_of_block(layout, log_weights, block, values, first)
        for i in range(min(size, values.shape[0] - first)):
            out[first + i] = block.roots[i] if block.roots[i] > NOWHERE else -math.inf


@kernel
def node_logs_of_row(layout, log_weights, weight, coefficients, table, values):
    """Logs (V,) of all nodes for the one row of a table."""
    block = make_block(layout, weight, coefficients, table, LANES)
    read_values(values, 0, layout.input_column, layout.input_reading, block.u, block.base, block.present)
    log_values(layout, log_weights, block)
    return block.nodes[:, 0].copy()


@inner_kernel
def pass_block(layout, log_weights, block, table_rows, first, cotangent, flow, edge_flow, out):
    """Values up and flows down for the rows from ``first`` on; log densities go into ``out`` (N,), see `send_flows`.

    The flow at the root is the row's cotangent; 0 for a row of density zero, which so adds nothing. Returns the number
    of rows, and whether the values are in linear space.
    """
    n = min(flow.shape[1], table_rows.shape[0] - first)
    is_linear = values_of_block(layout, log_weights, block, table_rows, first)
    flow[:] = 0.0
    for i in range(n):
        is_possible = block.roots[i] > NOWHERE
        out[first + i] = block.roots[i] if is_possible else -math.inf
        flow[0, i] = cotangent[first + i] if is_possible else 0.0
    send_flows(layout, log_weights, block, is_linear, flow, edge_flow)
    return n, is_linear


@bare_inner_kernel
def send_flows(layout, log_weights, block, is_linear, flow, edge_flow):
    """Flows (V, B) of all nodes from the root's, which is in place; the others hold 0 before.

    A node's flow is the derivative of the log density in its own log value. With a flow of 1 at the root it is the
    probability that the row's induced tree goes through it. Flows along the edges of sums, added up over the rows, are
    added to ``edge_flow`` (n_sum_edges,).
    """
    weight, values, rate = block.weight, block.nodes, block.scratch[0]
    for v in range(layout.kind.size):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            for e in range(begin, end):
                add_row(flow[v], flow[layout.children[e]])
        elif layout.kind[v] == SUM:
            if is_linear:
                divide_rows(flow[v], values[v], rate)
            for e in range(begin, end):
                c, w = layout.children[e], layout.edge_weight[e]
                if is_linear:
                    edge_flow[w] += pass_share(weight[w], values[c], rate, flow[c])
                else:
                    edge_flow[w] += pass_share_of_logs(
                        max(log_weights[w], IMPOSSIBLE), values[c], values[v], flow[v], flow[c]
                    )


@bare_inner_kernel
def divide_rows(a, b, out):
    """Their ratio; 0 where a node has lost its value to underflow, and with it its flow."""
    for i in range(out.size):
        out[i] = a[i] / b[i] if b[i] > 0.0 else 0.0


@bare_inner_kernel
def pass_share(weight, child, rate, below):
    """Add the child's part of the parent's flow to its own; returns the sum over the rows."""
    total = splat(0.0)
    for g in range(rate.size // LANES):
        share = mul(load(child, g), load(rate, g))
        total = add(total, share)
        store(below, g, multiply_add(splat(weight), share, load(below, g)))
    return weight * lane_sum(total)


@bare_inner_kernel  # no reduction, for the sake of `exp_or_zero`; see `kernel_options`
def pass_share_of_logs(log_weight, child, parent, flow, below):
    """As `pass_share`, from values in logs."""
    total = 0.0
    for i in range(flow.size):
        share = flow[i] * exp_or_zero(log_weight + child[i] - parent[i])
        below[i] += share
        total += share
    return total


@bare_inner_reduction
def weighted_moments(centre, scale, u, present, flow):
    """Sums over the rows of weights, and of them times z and z squared, z = (u - centre) scale; without missing cells.

    Rows beyond the table have no flow.
    """
    mass, total, squares = 0.0, 0.0, 0.0
    for i in range(flow.size):
        weight = flow[i] * present[i]
        z = (u[i] - centre) * scale
        mass += weight
        total += weight * z
        squares += weight * z * z
    return mass, total, squares


# ---- leaves, and inner nodes in logs


@kernel
def node_coefficients(layout, theta, family_begin, family_width):
    """(5, L) coefficients of the leaves in node order, and logs of `theta` where it holds level probabilities."""
    out = np.zeros((5, layout.leaf_row.size))
    table = np.zeros(theta.size)
    fill_coefficients(layout, theta, family_begin, family_width, np.zeros(4), out, table)
    return out, table


@bare_inner_kernel
def fill_coefficients(layout, theta, family_begin, family_width, one, out, table):
    """As `node_coefficients`, in place; ``one`` (4,) is scratch."""
    for k in range(layout.leaf_row.size):
        f = layout.leaf_family[k]
        width = family_width[f]
        begin = family_begin[f] + layout.leaf_row[k] * width
        for i in range(4):
            one[i] = 0.0
        leaf_coefficients(layout.leaf_code[k], theta[begin : begin + width], width, one)
        for i in range(4):
            out[i, k] = one[i]
        if layout.leaf_form[k] == TABLE:
            out[1, k] = begin
            for v in range(begin, begin + width):
                table[v] = math.log(theta[v]) if theta[v] > 0.0 else IMPOSSIBLE


@bare_called_kernel
def leaf_logs(layout, leaves, coefficients, table, u, base, present, out):
    """Log densities (V, B) of some leaves; where a cell is missing, the last coefficient: 0, or what else is known."""
    for k in leaves:
        j, form = layout.leaf_input[k], layout.leaf_form[k]
        lead, a, b, c = coefficients[0, k], coefficients[1, k], coefficients[2, k], coefficients[3, k]
        row = out[layout.node_of_leaf[k]]
        if form == QUADRATIC or form == STUDENT or form == LINEAR or form == POWER:
            for g in range(row.size // LANES):
                x = load(u[j], g)
                t = mul(sub(x, splat(a)), splat(b))
                square = mul(x, splat(b)) if form == POWER else mul(t, t)
                if form == LINEAR:
                    log = multiply_add(splat(a), x, splat(lead))
                elif form == QUADRATIC:
                    log = sub(splat(lead), square)
                else:
                    log = sub(splat(lead), mul(splat(c * LOG_2), log2_of_1_plus(square)))
                    log = choose(square, splat(LARGEST_SQUARE), log, splat(IMPOSSIBLE))
                store(row, g, add(mul(load(present[j], g), log), load(base[j], g)))
        elif form == TABLE:
            own = table[int(a) :]
            for i in range(row.size):
                row[i] = own[int(u[j, i])] if u[j, i] < lead else IMPOSSIBLE
            for i in range(row.size):
                row[i] = row[i] * present[j, i] + base[j, i]
        else:
            for i in range(row.size):
                inside = form_at(form, lead, a, b, c, table, u[j, i]) if present[j, i] != 0.0 else 0.0
                row[i] = inside + base[j, i]
        absent = coefficients[4, k]
        if absent != 0.0:
            for i in range(row.size):
                row[i] += (1.0 - present[j, i]) * absent


@kernel
def sum_and_multiply(layout, log_weights, values, top, mass):
    """Inner nodes' logs (V, B) from the leaves'."""
    for v in range(layout.kind.size - 1, -1, -1):
        if layout.kind[v] == PRODUCT:
            values[v, :] = 0.0
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                add_row(values[layout.children[e]], values[v])
        elif layout.kind[v] != LEAF:
            add_up_logs(layout, log_weights, v, values, top, mass)


@inner_kernel
def add_up_logs(layout, log_weights, v, values, top, mass):
    """Logs of one sum from its children's."""
    row, begin, end = values[v], layout.child_ptr[v], layout.child_ptr[v + 1]
    top[:] = IMPOSSIBLE
    for e in range(begin, end):
        raise_row(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], top)
    mass[:] = 0.0
    for e in range(begin, end):
        add_exponentials(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], top, mass)
    for i in range(row.size):
        row[i] = top[i] + fast_log(mass[i])


@inner_kernel
def add_row(v, out):
    for i in range(out.size):
        out[i] += v[i]


@inner_kernel
def raise_row(log_weight, v, top):
    for i in range(top.size):
        top[i] = max(top[i], log_weight + v[i])


@inner_kernel
def add_exponentials(log_weight, v, top, mass):
    for i in range(mass.size):
        mass[i] += fast_exp(log_weight + v[i] - top[i])


# ---- shares and trees


@kernel
def shares_of_rows(layout, log_weights, weight, coefficients, table, values, asked, block, shares, out):
    """Probabilities of nodes given what is observed of rows, 0 in rows of density 0.

    Parameters
    ----------
    asked : (n,) int64
        The nodes.
    block : int
        Rows at a time.
    shares : (N, n) float64
        Out.
    out : (N,) float64
        Out: log densities of what is observed.
    """
    at = make_block(layout, weight, coefficients, table, block)
    flow, edge_flow = np.empty((layout.kind.size, block)), np.empty(log_weights.size)
    ones = read_only_view(np.ones(values.shape[0]))
    for first in range(0, values.shape[0], block):
        n, _ = pass_block(layout, log_weights, at, values, first, ones, flow, edge_flow, out)
        for j in range(asked.size):
            row = flow[asked[j]]
            for i in range(n):
                shares[first + i, j] = row[i]


@kernel
def draw_leaves(rng, layout, log_weights, weight, coefficients, table, values, block, leaf, out):
    """Leaf of each column (N, D) on an induced tree of each row, drawn given the observed cells.

    Parameters
    ----------
    block : int
        Rows at a time.
    leaf : (N, D) int64
        Out: leaf numbers in node order; not set for rows of density zero.
    out : (N,) float64
        Out: log density of what is observed.
    """
    at = make_block(layout, weight, coefficients, table, block)
    stack = np.empty(layout.kind.size, np.int64)
    for first in range(0, values.shape[0], block):
        n = min(block, values.shape[0] - first)
        is_linear = values_of_block(layout, log_weights, at, values, first)
        for i in range(n):
            out[first + i] = at.roots[i] if at.roots[i] > NOWHERE else -math.inf
            if at.roots[i] > NOWHERE:
                descend_at_random(
                    rng, layout, log_weights, at.weight, at.nodes, is_linear, i, stack, leaf[first + i]
                )  # fmt: skip


@kernel
def draw_leaves_of_logs(rng, layout, log_weights, logs, leaf):
    """Leaf of each column (N, D) on induced trees drawn by the same logs (V, 1) of all nodes."""
    stack = np.empty(layout.kind.size, np.int64)
    for n in range(leaf.shape[0]):
        descend_at_random(rng, layout, log_weights, log_weights, logs, False, 0, stack, leaf[n])


@inner_kernel
def descend_at_random(rng, layout, log_weights, weight, nodes, is_linear, i, stack, leaf):
    """Leaves (D,) of the tree that is drawn for row i of a block: at each sum a child by its share in the value.

    Nodes (V, B) hold values, in which ``weight`` are the edges' weights, or their logs.
    """
    stack[0], depth = 0, 1
    while depth > 0:
        depth -= 1
        v = stack[depth]
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == LEAF:
            k = layout.leaf_of_node[v]
            leaf[layout.leaf_column[k]] = k
        elif layout.kind[v] == PRODUCT:
            for e in range(begin, end):
                stack[depth] = layout.children[e]
                depth += 1
        else:
            chosen, left = end - 1, rng.random()
            if is_linear:
                left *= nodes[v, i]
            for e in range(begin, end):
                if is_linear:
                    share = weight[layout.edge_weight[e]] * nodes[layout.children[e], i]
                else:
                    log_weight = max(log_weights[layout.edge_weight[e]], IMPOSSIBLE)
                    share = math.exp(log_weight + nodes[layout.children[e], i] - nodes[v, i])
                if share > 0.0:
                    chosen = e  # rounding may leave the last possible child's share too small
                    left -= share
                    if left < 0.0:
                        break
            stack[depth] = layout.children[chosen]
            depth += 1
