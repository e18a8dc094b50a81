"""Flows: the distribution of every row's induced tree, as expected counts on edges and leaves.

Given expected log weights and expected log leaf densities, the best distribution of a row's tree is a sum-product
network itself. One pass upwards in logs gives the share that each child has in its sum node, one pass downwards the
probability that the row's tree uses the edge. Rows go in blocks and stand side by side, so every loop is over the
rows of a block.
"""

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.gibbs.family_kernels import (
    expected_of,
    has_base,
    is_located,
    is_of_logs,
    log_base_of,
    posterior_of,
    takes_factorials,
)
from pymc_spn.networks.gibbs.network import EMPTY_LEAF
from pymc_spn.numerics.elementary import digamma, fast_exp, fast_log
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

BLOCK = 64  # rows: a block of a thousand edges then takes half a megabyte
NEGLIGIBLE = 1e-30  # shares below this are 0, far below rounding: flows through several nodes must not be subnormal


@kernel
def expect_leaves(tree, count, s1, s2, levels, prior, coefficient, level_log):
    """Expected log density of every leaf under its parameters' conjugate posterior.

    Parameters
    ----------
    tree : ActiveTree
    count, s1, s2 : (L,) float64
        Rows in each leaf, and its sums.
    levels : (level_ptr[-1],) float64
    prior : (entries, 4) float64
        Prior parameters of the palette entries of the columns.
    coefficient : (L, 4) float64
        Out: (c, m, v, w), the log density of y is ``c - v (y - m)^2 - w (y + offset)`` plus the log base measure,
        with log(y + offset) for y where leaves are of logs, see `leaves.conjugate_pieces`.
    level_log : (level_ptr[-1],) float64
        Out: expected log probability of each level.
    """
    for i in range(tree.leaf_family.size):
        p = prior[tree.leaf_entry[i]]
        family = tree.leaf_family[i]
        n = count[i]
        if family == CATEGORICAL:
            coefficient[i] = 0.0
            total = digamma(p[1] + n)
            for k in range(tree.level_ptr[i], tree.level_ptr[i + 1]):
                level_log[k] = digamma(p[0] + levels[k]) - total
            continue
        p0, p1, p2, p3 = posterior_of(family, n, s1[i], s2[i], p[0], p[1], p[2], p[3])
        c, m, v, w = expected_of(family, p0, p1, p2, p3, tree.cell_variance[tree.leaf_place[i]])
        coefficient[i, 0], coefficient[i, 1], coefficient[i, 2], coefficient[i, 3] = c, m, v, w


@kernel
def assign_softly(tree, y, base_logs, log_weight, coefficient, level_log, count, s1, s2, levels):
    """Best distribution of every row's induced tree: its expected statistics, and its entropy.

    Parameters
    ----------
    tree : ActiveTree
    y : (N, P) float64
        Coded table with a column for each place, NaN where missing.
    base_logs : (N, P) float64
        log x! in places with counts, log(y + offset) where there are log-normal leaves.
    log_weight : (E,) float64
        Expected log weight of every edge.
    coefficient, level_log
        From `expect_leaves`.
    count, s1, s2, levels
        Out: `Statistics`.

    Returns
    -------
    entropy : float
        Of the trees of all rows, in nats.
    log_value : float
        Sum over rows of the log of the network's value.
    """
    n_edges = tree.option.size
    n_nodes = tree.node_ptr.size - 1
    value = np.empty((n_edges, BLOCK))
    node_value = np.empty((n_nodes, BLOCK))
    loss = np.empty((n_nodes, BLOCK))  # of a node: expected log share of its children, minus the entropy
    seen = np.empty((tree.parent.size, BLOCK))
    block = np.empty((y.shape[1], BLOCK))
    logs = np.empty((y.shape[1], BLOCK))
    count[:] = 0.0
    s1[:] = 0.0
    s2[:] = 0.0
    levels[:] = 0.0
    entropy = 0.0
    log_value = 0.0
    unchecked = np.zeros(1, np.int64)
    for start in range(0, y.shape[0], BLOCK):
        if must_stop_after(4 * BLOCK * n_edges, unchecked):
            return entropy, log_value
        m = min(BLOCK, y.shape[0] - start)
        load_rows(tree, y[start : start + m], base_logs[start : start + m], block, logs, seen)
        pass_upwards(tree, block, logs, seen, m, log_weight, coefficient, level_log, value, node_value, loss)
        log_value += node_value[0, :m].sum()
        entropy += pass_downwards(
            tree, block, logs, seen, m, coefficient, value, node_value, loss, count, s1, s2, levels
        )
    return entropy, log_value


@inner_kernel
def load_rows(tree, y, base_logs, block, logs, seen):
    """Transpose a block of rows; ``seen`` (R, B) is 1 where a row has a cell in the region. Missing cells become 0."""
    m = y.shape[0]
    for d in range(y.shape[1]):
        for b in range(m):
            block[d, b] = 0.0 if np.isnan(y[b, d]) else y[b, d]
            logs[d, b] = base_logs[b, d]
    for r in range(tree.parent.size - 1, -1, -1):
        d = tree.place[r]
        for b in range(m):
            seen[r, b] = 0.0
            if d >= 0 and not np.isnan(y[b, d]):
                seen[r, b] = 1.0
        for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
            q = tree.parts[j]
            for b in range(m):
                seen[r, b] = max(seen[r, b], seen[q, b])


@inner_kernel
def pass_upwards(tree, block, logs, seen, m, log_weight, coefficient, level_log, value, node_value, loss):
    """Log values of all sum nodes; ``value`` ends as each edge's share of its node. Regions not seen are worth 1."""
    for r in range(tree.parent.size - 1, -1, -1):
        first = tree.edge_begin[r]
        for e in range(first, tree.edge_begin[r + 1]):
            out = value[e, :m]
            i = tree.leaf[e]
            if i >= 0:
                d = tree.place[r]
                leaf_values(tree, i, block[d, :m], logs[d, :m], coefficient[i], level_log, tree.offset[d], out)
                continue
            out[:] = 0.0
            for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                q = tree.parts[j]
                if tree.split[q] == tree.option[e]:
                    add_to(node_value[tree.node_begin[q] + e - first, :m], out)
        for k in range(tree.node_begin[r], tree.node_begin[r + 1]):
            begin = tree.node_ptr[k]
            end = tree.node_ptr[k + 1]
            total = node_value[k, :m]
            if end == begin:
                total[:] = EMPTY_LEAF
            elif end == begin + 1:
                single_child(value[begin, :m], log_weight[begin], total)
                loss[k, :m] = 0.0
            else:
                largest = loss[k, :m]
                largest[:] = 2.0 * EMPTY_LEAF
                total[:] = 0.0
                for e in range(begin, end):
                    raise_to(value[e, :m], log_weight[e], largest)
                for e in range(begin, end):
                    add_exponentials(value[e, :m], largest, total)
                log_of_sum(largest, total)
                loss[k, :m] = 0.0
                for e in range(begin, end):
                    shares(value[e, :m], total, loss[k, :m])
            total *= seen[r, :m]


@inner_kernel
def leaf_values(tree, i, y, base_logs, c, level_log, offset, out):
    """Expected log density of one leaf at the rows of a block."""
    if tree.leaf_family[i] == CATEGORICAL:
        first = tree.level_ptr[i]
        for b in range(out.size):
            out[b] = level_log[first + int(y[b])]
        return
    c0 = c[0]
    c1 = c[1]
    c2 = c[2]
    c3 = c[3]
    family = tree.leaf_family[i]
    if is_of_logs(family):
        for b in range(out.size):
            t = base_logs[b] - c1
            out[b] = c0 - c2 * t * t - base_logs[b]
    elif is_located(family):
        for b in range(out.size):
            t = y[b] - c1
            out[b] = c0 - c2 * t * t
    else:
        for b in range(out.size):
            out[b] = c0 - c3 * (y[b] + offset)
        if takes_factorials(family):
            for b in range(out.size):
                out[b] -= base_logs[b]
        if has_base(family):
            for b in range(out.size):
                out[b] += log_base_of(family, y[b] + offset, c1)


@inner_kernel
def add_to(x, out):
    for b in range(out.size):
        out[b] += x[b]


@inner_kernel
def single_child(value, log_weight, total):
    for b in range(total.size):
        total[b] = value[b] + log_weight
        value[b] = 1.0


@inner_kernel
def raise_to(value, log_weight, largest):
    for b in range(largest.size):
        value[b] += log_weight
        largest[b] = max(largest[b], value[b])


@inner_kernel
def add_exponentials(value, largest, total):
    for b in range(total.size):
        total[b] += fast_exp(value[b] - largest[b])


@inner_kernel
def log_of_sum(largest, total):
    for b in range(total.size):
        total[b] = largest[b] + fast_log(total[b])


@inner_kernel
def shares(value, total, loss):
    for b in range(total.size):
        log_share = value[b] - total[b]
        share = fast_exp(log_share)
        share = share if share > NEGLIGIBLE else 0.0
        loss[b] += share * max(log_share, -100.0)
        value[b] = share


@inner_kernel
def pass_downwards(tree, block, logs, seen, m, coefficient, value, node_flow, loss, count, s1, s2, levels):
    """Add the flows of a block of rows to the statistics; returns the entropy of their trees."""
    entropy = 0.0
    node_flow[0, :m] = 1.0
    for r in range(tree.parent.size):
        first = tree.edge_begin[r]
        d = tree.place[r]
        for k in range(tree.node_begin[r], tree.node_begin[r + 1]):
            begin = tree.node_ptr[k]
            end = tree.node_ptr[k + 1]
            if end == begin:
                continue
            flow = node_flow[k, :m]
            flow *= seen[r, :m]
            if end > begin + 1:
                entropy -= dot(flow, loss[k, :m])
            for e in range(begin, end):
                share = value[e, :m]
                share *= flow
                count[e] += total_of(share)
                if d >= 0:
                    i = tree.leaf[e]
                    add_leaf_statistics(
                        tree, i, block[d, :m], logs[d, :m], coefficient[i], tree.offset[d], share, s1, s2, levels
                    )
                    continue
                for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                    q = tree.parts[j]
                    if tree.split[q] == tree.option[e]:
                        node_flow[tree.node_begin[q] + e - first, :m] = share
    return entropy


@inner_kernel
def add_leaf_statistics(tree, i, y, base_logs, c, offset, flow, s1, s2, levels):
    family = tree.leaf_family[i]
    if family == CATEGORICAL:
        first = tree.level_ptr[i]
        for b in range(flow.size):
            levels[first + int(y[b])] += flow[b]
    elif is_of_logs(family):
        s1[i] += dot(flow, base_logs)
        s2[i] += second_moment(flow, base_logs)
    elif is_located(family):
        s1[i] += dot(flow, y)
        s2[i] += second_moment(flow, y)
        cell = tree.cell_variance[tree.leaf_place[i]]
        if cell > 0.0:
            s2[i] += cell * total_of(flow)
    else:
        s1[i] += dot(flow, y) + offset * total_of(flow)
        if takes_factorials(family):
            s2[i] += dot(flow, base_logs)
        if has_base(family):
            for b in range(flow.size):
                s2[i] -= flow[b] * log_base_of(family, y[b] + offset, c[1])


@inner_kernel
def total_of(x):
    """Sum in eight strands, which become vector lanes."""
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    whole = x.size - x.size % 8
    for b in range(0, whole, 8):
        a0 += x[b]
        a1 += x[b + 1]
        a2 += x[b + 2]
        a3 += x[b + 3]
        a4 += x[b + 4]
        a5 += x[b + 5]
        a6 += x[b + 6]
        a7 += x[b + 7]
    for b in range(whole, x.size):
        a0 += x[b]
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@inner_kernel
def dot(x, y):
    """Inner product in eight strands."""
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    whole = x.size - x.size % 8
    for b in range(0, whole, 8):
        a0 += x[b] * y[b]
        a1 += x[b + 1] * y[b + 1]
        a2 += x[b + 2] * y[b + 2]
        a3 += x[b + 3] * y[b + 3]
        a4 += x[b + 4] * y[b + 4]
        a5 += x[b + 5] * y[b + 5]
        a6 += x[b + 6] * y[b + 6]
        a7 += x[b + 7] * y[b + 7]
    for b in range(whole, x.size):
        a0 += x[b] * y[b]
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@inner_kernel
def second_moment(flow, y):
    """Sum of flow y^2 in four strands."""
    a0 = a1 = a2 = a3 = 0.0
    whole = y.size - y.size % 4
    for b in range(0, whole, 4):
        a0 += flow[b] * y[b] * y[b]
        a1 += flow[b + 1] * y[b + 1] * y[b + 1]
        a2 += flow[b + 2] * y[b + 2] * y[b + 2]
        a3 += flow[b + 3] * y[b + 3] * y[b + 3]
    for b in range(whole, y.size):
        a0 += flow[b] * y[b] * y[b]
    return (a0 + a1) + (a2 + a3)
