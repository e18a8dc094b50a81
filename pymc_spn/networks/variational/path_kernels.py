"""Soft assignments of rows to the few edges that carry weight: search, one pass up and one down, statistics.

Given expected log weights and expected log leaf densities, the best distribution of a row's tree is a sum-product
network itself. A pass upwards in logs gives the share that each child has in its sum node, a pass downwards the
probability that the row's tree uses the edge. Every row keeps a list of edges of its own and its distribution puts no
mass on any other, which bounds the log evidence from below all the same. So the cost of a row goes with its list.

A search widens the lists. At a sum node over several columns it takes the children whose *summary* suits the row best:
per column one leaf that pools the statistics of all leaves below. Of univariate nodes it takes all children.
"""

import numpy as np

from pymc_spn.gibbs.family_kernels import (
    expected_of,
    has_base,
    is_located,
    is_of_logs,
    log_base_of,
    posterior_of,
    takes_factorials,
)
from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.leaves.family_codes import CATEGORICAL, GAUSSIAN
from pymc_spn.networks.variational.joint_kernels import add_to_joint, pool_of_joint, row_scratch, value_in_joint
from pymc_spn.numerics.elementary import digamma, fast_exp, fast_log
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel


@kernel
def expect_leaves(tree, count, s1, s2, levels, prior, constants, coefficient, level_log):
    """Expected log density of every leaf under its parameters' conjugate posterior.

    Parameters
    ----------
    tree : ActiveTree
    count, s1, s2 : (L,) float64
        Rows in each leaf, and its sums.
    levels : (level_ptr[-1],) float64
    prior : (entries, 4) float64
        Prior parameters of the palette entries of the columns.
    constants : (entries, 4 + K) float64
        Of `CompiledPalette`.
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
            factors = constants[tree.leaf_entry[i], 4:]
            first = tree.level_ptr[i]
            for k in range(first, tree.level_ptr[i + 1]):
                level_log[k] = digamma(p[0] * factors[k - first] + levels[k]) - total
            continue
        p0, p1, p2, p3 = posterior_of(family, n, s1[i], s2[i], p[0], p[1], p[2], p[3])
        c, m, v, w = expected_of(family, p0, p1, p2, p3, tree.cell_variance[tree.leaf_place[i]])
        coefficient[i, 0], coefficient[i, 1], coefficient[i, 2], coefficient[i, 3] = c, m, v, w


@kernel
def pool_leaves(tree, summaries, joints, count, s1, s2, levels, pool_count, pool_s1, pool_s2, pool_levels):
    """Statistics of the leaves of each summary: for a product and a column those of all leaves of the column below.

    Of a palette of several entries only leaves of the summary's entry count.
    """
    pool_count[:] = 0.0
    pool_s1[:] = 0.0
    pool_s2[:] = 0.0
    pool_levels[:] = 0.0
    for r in range(tree.parent.size - 1, -1, -1):
        if tree.place[r] >= 0:
            continue
        first = tree.edge_begin[r]
        for e in range(first, tree.edge_begin[r + 1]):
            to = summaries.begin[e]
            if joints is not None and tree.joint[e] >= 0:
                for c in range(summaries.place_begin[r + 1] - summaries.place_begin[r]):
                    d = tree.column_of_place[summaries.places[summaries.place_begin[r] + c]]
                    j = np.searchsorted(tree.columns[tree.column_ptr[r] : tree.column_ptr[r + 1]], d)
                    is_held = summaries.leaves.leaf_family[to + c] == GAUSSIAN
                    pool_of_joint(joints, tree.joint[e], j, to + c, is_held, pool_count, pool_s1, pool_s2)
            for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                q = tree.parts[j]
                if tree.split[q] != tree.option[e]:
                    continue
                k = tree.node_begin[q] + e - first
                at = summaries.place_begin[q]
                width = summaries.place_begin[q + 1] - at
                for f in range(tree.node_ptr[k], tree.node_ptr[k + 1]):
                    for c in range(width):
                        out = to + summaries.position[at + c]
                        i = tree.leaf[f]
                        if i < 0:
                            i = summaries.begin[f] + c
                            pool_count[out] += pool_count[i]
                            pool_s1[out] += pool_s1[i]
                            pool_s2[out] += pool_s2[i]
                            cells = summaries.leaves.level_ptr[out]
                            cell = summaries.leaves.level_ptr[i]
                            for level in range(summaries.leaves.level_ptr[out + 1] - cells):
                                pool_levels[cells + level] += pool_levels[cell + level]
                        elif tree.leaf_entry[i] == summaries.leaves.leaf_entry[out]:
                            pool_count[out] += count[f]
                            pool_s1[out] += s1[i]
                            pool_s2[out] += s2[i]
                            cells = summaries.leaves.level_ptr[out]
                            cell = tree.level_ptr[i]
                            for level in range(summaries.leaves.level_ptr[out + 1] - cells):
                                pool_levels[cells + level] += levels[cell + level]


@kernel
def assign_rows(
    tree, summaries, joints, y, base_logs, logs, search, old_ptr, old_edges, new_ptr, new_edges, count, s1, s2, levels,
    sums, products, totals,
):  # fmt: skip
    """Best distribution of every row's induced tree on its list of edges: expected statistics, new list.

    Parameters
    ----------
    tree : ActiveTree
    summaries : Summaries
    joints : ExpectedJoints or None
    y : (N, P) float64
        Coded table with a column for each place, NaN where missing.
    base_logs : (N, P) float64
        log x! in places with counts, log(y + offset) where there are log-normal leaves.
    logs : Logs
    search : ListSearch
    old_ptr, old_edges
        Lists of the rows: ``old_edges[old_ptr[n]:old_ptr[n + 1]]``, ascending.
    new_ptr, new_edges
        Out: the lists without edges that hold too little, of the first rows.
    count, s1, s2, levels, sums, products
        `Statistics`; the rows' are added.
    totals : (2,) float64
        The entropy of the trees and of missing cells in leaves over several columns and the log of the network's
        values, in nats, summed over the rows, are added.

    Returns
    -------
    int
        Rows done: less than N where ``new_edges`` ran full.
    """
    n_edges, n_nodes = tree.option.size, tree.node_ptr.size - 1
    edges = np.empty(n_edges, np.int32)
    is_new = np.empty(n_edges, np.bool_)
    value = np.empty(n_edges)
    weight = np.empty(n_edges)
    node_value = np.empty(n_nodes)
    loss = np.empty(n_nodes)  # of a node: expected log share of its children, minus the entropy
    seen = np.empty(tree.parent.size, np.bool_)
    begin = np.zeros(tree.parent.size + 1, np.int64)
    unchecked = np.zeros(1, np.int64)
    scratch = None if joints is None else row_scratch(joints)
    done = 0
    for n in range(y.shape[0]):
        row = y[n]
        bases = base_logs[n]
        mark_seen(tree, row, seen)
        old = old_edges[old_ptr[n] : old_ptr[n + 1]]
        m = list_edges(
            tree, summaries, joints, logs, search, row, bases, seen, old, begin, edges, is_new, value, scratch
        )
        if done + m > new_edges.size or must_stop_after(32 * m, unchecked):
            return n
        if m > 0:
            pass_upwards(
                tree, joints, logs, search, row, bases, seen, m, edges, is_new, value, weight, node_value, loss, scratch
            )
            totals[1] += node_value[0]
            totals[0] += pass_downwards(
                tree, joints, logs, row, bases, m, edges, value, node_value, loss, count, s1, s2, levels, sums,
                products, scratch,
            )  # fmt: skip
            for t in range(m):
                if value[t] > 0.0:
                    new_edges[done] = edges[t]
                    done += 1
        new_ptr[n + 1] = done
    return y.shape[0]


@bare_called_kernel
def mark_seen(tree, row, seen):
    """Whether the row has a cell in each region."""
    for r in range(tree.parent.size - 1, -1, -1):
        d = tree.place[r]
        seen[r] = d >= 0 and not np.isnan(row[d])
        for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
            seen[r] |= seen[tree.parts[j]]


@bare_called_kernel
def list_edges(tree, summaries, joints, logs, search, row, bases, seen, old, begin, edges, is_new, score, scratch):
    """Edges on which the row's distribution may put mass, ascending; returns their number.

    Of a region that the row sees, every node that is reached gets its old edges. A search adds others. A node without
    old edges gets some from a search, and otherwise all.
    """
    m = 0
    o = 0
    for r in range(tree.parent.size):
        begin[r] = m
        if not seen[r]:
            continue
        if r == 0:
            m, o = list_children(
                tree, summaries, joints, logs, search, row, bases, old, o, 0, 0, edges, is_new, score, m, scratch
            )
            continue
        above = tree.parent[r]
        first = tree.edge_begin[above]
        stop = begin[above + 1]
        for t in range(begin[above], stop):
            if tree.option[edges[t]] == tree.split[r]:
                k = tree.node_begin[r] + edges[t] - first
                m, o = list_children(
                    tree, summaries, joints, logs, search, row, bases, old, o, r, k, edges, is_new, score, m, scratch
                )
    begin[tree.parent.size] = m
    return m


@bare_called_kernel
def list_children(
    tree, summaries, joints, logs, search, row, bases, old, o, r, k, edges, is_new, score, m, scratch
):  # fmt: skip
    """Append the edges of a node to the first m; returns the number now, and the next of the old edges."""
    low = tree.node_ptr[k]
    high = tree.node_ptr[k + 1]
    while o < old.size and old[o] < low:
        o += 1
    n_old = 0
    while o + n_old < old.size and old[o + n_old] < high:
        n_old += 1
    n_others = high - low - n_old
    n_more = search.breadth
    if n_old == 0:
        n_more = search.descent if search.breadth > 0 else n_others
    n_more = min(n_more, n_others)
    takes_all = n_more == n_others or (n_more > 0 and tree.place[r] >= 0)
    if n_more > 0 and not takes_all:
        score_children(tree, summaries, joints, logs, row, bases, r, low, high, score, scratch)
        for i in range(n_old):
            score[old[o + i] - low] = -np.inf
        for _ in range(n_more):
            best = -1
            for i in range(high - low):
                if score[i] > (score[best] if best >= 0 else -np.inf):
                    best = i
            if best >= 0:
                score[best] = np.nan  # which marks it as taken
    for e in range(low, high):
        is_old = o < old.size and old[o] == e
        if is_old or takes_all or (n_more > 0 and np.isnan(score[e - low])):
            edges[m] = e
            is_new[m] = not is_old
            m += 1
        o += is_old
    return m, o


@bare_called_kernel
def score_children(tree, summaries, joints, logs, row, bases, r, low, high, score, scratch):
    """How well the children low..high suit the row, in nats: products by their summaries."""
    first = summaries.place_begin[r]
    n_columns = summaries.place_begin[r + 1] - first
    for e in range(low, high):
        total = logs.weight[e]
        if joints is not None and tree.joint[e] >= 0:
            score[e - low] = total + value_in_joint(joints, tree.joint[e], row, scratch)
            continue
        for c in range(n_columns):
            d = summaries.places[first + c]
            if not np.isnan(row[d]):
                i = summaries.begin[e] + c
                total += leaf_value(
                    summaries.leaves, i, row[d], bases[d], tree.offset[d], logs.pool_coefficient[i], logs.pool_level
                )
        score[e - low] = total


@bare_called_kernel
def leaf_value(leaves, i, y, base_log, offset, c, level_log):
    """Expected log density of a leaf at a value."""
    family = leaves.leaf_family[i]
    if family == CATEGORICAL:
        return level_log[leaves.level_ptr[i] + int(y)]
    if is_of_logs(family):
        t = base_log - c[1]
        return c[0] - c[2] * t * t - base_log
    if is_located(family):
        t = y - c[1]
        return c[0] - c[2] * t * t
    out = c[0] - c[3] * (y + offset)
    if takes_factorials(family):
        out -= base_log
    if has_base(family):
        out += log_base_of(family, y + offset, c[1])
    return out


@bare_called_kernel
def pass_upwards(
    tree, joints, logs, search, row, bases, seen, m, edges, is_new, value, weight, node_value, loss, scratch
):  # fmt: skip
    """Log values of the nodes of a list; ``value`` (m,) ends as each edge's share of its node."""
    end = m
    while end > 0:
        k = tree.node_of_edge[edges[end - 1]]
        r = tree.region_of_edge[edges[end - 1]]
        d = tree.place[r]
        begin = end
        largest = 2.0 * EMPTY_LEAF
        while begin > 0 and tree.node_of_edge[edges[begin - 1]] == k:
            begin -= 1
            e = edges[begin]
            v = logs.weight[e]
            if d >= 0:
                i = tree.leaf[e]
                v += leaf_value(tree, i, row[d], bases[d], tree.offset[d], logs.coefficient[i], logs.level)
            else:
                if joints is not None and tree.joint[e] >= 0:
                    v += value_in_joint(joints, tree.joint[e], row, scratch)
                for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                    q = tree.parts[j]
                    if tree.split[q] == tree.option[e] and seen[q]:
                        below = tree.node_begin[q] + e - tree.edge_begin[r]
                        is_bare = tree.node_ptr[below + 1] == tree.node_ptr[below]
                        v += EMPTY_LEAF if is_bare else node_value[below]
            value[begin] = v
            largest = max(largest, v)
        node_value[k] = largest
        loss[k] = 0.0
        if end == begin + 1:
            value[begin] = 1.0
        else:
            total = 0.0
            for t in range(begin, end):
                weight[t] = fast_exp(value[t] - largest)
                total += weight[t]
            enter = search.enter * total
            leave = search.leave * total
            total = 0.0
            mean = 0.0
            for t in range(begin, end):
                if weight[t] > (enter if is_new[t] else leave) or value[t] == largest:
                    total += weight[t]
                    mean += weight[t] * (value[t] - largest)
                else:
                    weight[t] = 0.0
            log_total = fast_log(total)
            node_value[k] = largest + log_total
            loss[k] = mean / total - log_total
            for t in range(begin, end):
                value[t] = weight[t] / total
        end = begin


@bare_called_kernel
def pass_downwards(
    tree, joints, logs, row, bases, m, edges, value, node_flow, loss, count, s1, s2, levels, sums, products, scratch
):  # fmt: skip
    """Add a row's flows to the statistics; ``value`` (m,) ends as the flows.

    Returns the entropy of its tree and of its missing cells in leaves over several columns.
    """
    entropy = 0.0
    node_flow[0] = 1.0
    last = -1
    for t in range(m):
        e = edges[t]
        k = tree.node_of_edge[e]
        r = tree.region_of_edge[e]
        d = tree.place[r]
        if k != last:
            entropy -= node_flow[k] * loss[k]
            last = k
        flow = node_flow[k] * value[t]
        value[t] = flow
        if flow > 0.0:
            count[e] += flow
            if d >= 0:
                i = tree.leaf[e]
                add_leaf_statistics(
                    tree, i, row[d], bases[d], tree.offset[d], logs.coefficient[i], flow, s1, s2, levels
                )
            elif joints is not None and tree.joint[e] >= 0:
                entropy += flow * add_to_joint(joints, tree.joint[e], row, flow, scratch, sums, products)
        if d < 0:
            for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                q = tree.parts[j]
                if tree.split[q] == tree.option[e]:
                    node_flow[tree.node_begin[q] + e - tree.edge_begin[r]] = flow
    return entropy


@bare_called_kernel
def add_leaf_statistics(tree, i, y, base_log, offset, c, flow, s1, s2, levels):
    """Add a value with a weight to the sums of a leaf."""
    family = tree.leaf_family[i]
    if family == CATEGORICAL:
        levels[tree.level_ptr[i] + int(y)] += flow
    elif is_of_logs(family):
        s1[i] += flow * base_log
        s2[i] += flow * base_log * base_log
    elif is_located(family):
        s1[i] += flow * y
        s2[i] += flow * (y * y + tree.cell_variance[tree.leaf_place[i]])
    else:
        s1[i] += flow * (y + offset)
        if takes_factorials(family):
            s2[i] += flow * base_log
        if has_base(family):
            s2[i] -= flow * log_base_of(family, y + offset, c[1])
