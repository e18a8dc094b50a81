"""Many trees at once: the training rows of every node, and weighted routes of new rows."""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.trees.leaf_kernels import NORMAL, SPREAD, gather_statistics
from pymc_spn.trees.split_kernels import CUT, ONE_HOT, code_range, is_usable, split_rows


class FlatTrees(NamedTuple):
    """Nodes of several trees one after the other.

    ``begin`` (T+1,) is where each tree starts. ``feature`` (-1 for a leaf), ``side``, ``left`` and ``right`` (n,)
    describe the nodes, with children as absolute places. ``low`` and ``high`` (n,) are the values of the gap, or level
    and masks. ``size`` (n,) counts training rows.
    """

    begin: np.ndarray
    feature: np.ndarray
    side: np.ndarray
    left: np.ndarray
    right: np.ndarray
    low: np.ndarray
    high: np.ndarray
    size: np.ndarray
    kind: np.ndarray


@kernel
def fill_nodes(x, response, decisions, begin, size, statistics, log_mass, can_split):
    """What the training rows say about all nodes: statistics, or prior masses of the splits, or both.

    Parameters
    ----------
    decisions : (n, 4) int32
    begin : (T + 1,) int64
    size : (n,) int64, overwritten
    statistics : (n, s) or (0, s) float64, overwritten
    log_mass : (n,) or (0,) float64, overwritten
        Log prior mass of a split given that its node splits; 0 for leaves.
    can_split : (n,) or (0,) bool, overwritten
        Whether some feature has two distinct values.
    """
    n_rows = x.codes.shape[1]
    rows, other = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    for t in range(begin.size - 1):
        first = np.zeros(begin[t + 1] - begin[t], np.int64)
        size[begin[t]] = n_rows
        for i in range(n_rows):
            rows[i] = i
        child = 1
        for h in range(first.size):
            node = begin[t] + h
            n, a = size[node], first[h]
            feature, low, side = decisions[node, 0], decisions[node, 1], decisions[node, 3]
            if statistics.shape[0]:
                gather_statistics(response, rows, a, n, statistics[node])
            if log_mass.size:
                log_mass[node], can_split[node] = _split_mass(x, rows, a, n, decisions[node])
            if feature >= 0:
                n_left = split_rows(x, rows, a, n, feature, low, side, other, a)
                rows[a : a + n] = other[a : a + n]
                first[child], first[child + 1] = a, a + n_left
                size[begin[t] + child], size[begin[t] + child + 1] = n_left, n - n_left
                child += 2


@inner_kernel
def _split_mass(x, rows, begin, n, decision):
    """Log prior mass of a decision given that the node splits, and whether it can; a leaf has 0."""
    feature, weight = decision[0], 0.0
    for d in range(x.codes.shape[0]):
        if x.weight[d] > 0.0 and is_usable(x.codes[d], rows, begin, n):
            weight += x.weight[d]
            if feature < 0:
                break  # a leaf asks only whether
    if feature < 0:
        return 0.0, weight > 0.0
    return math.log(x.weight[feature] / weight) + _option_mass(x, rows, begin, n, decision), weight > 0.0


@inner_kernel
def _option_mass(x, rows, begin, n, decision):
    """Log prior mass of gap, level or subset, and of the side of missing values, given the feature."""
    d = decision[0]
    code = x.codes[d]
    n_missing, low, high = code_range(code, rows, begin, n)
    value = math.log(0.5) if n_missing else 0.0
    if x.kind[d] == CUT:
        v = x.values[x.begin[d] : x.begin[d + 1]]
        return value + math.log((v[decision[2]] - v[decision[1]]) / (v[high] - v[low]))
    n_levels, levels = 0, 0
    for i in range(begin, begin + n):
        if code[rows[i]] >= 0:
            levels |= 1 << code[rows[i]]
    while levels > 0:
        n_levels += levels & 1
        levels >>= 1
    return value - math.log(float(n_levels if x.kind[d] == ONE_HOT else (1 << n_levels) - 2))


@inner_kernel
def share_left(trees, node, value, soft):
    """Probability that a row with this value of the node's feature goes left.

    A point inside the gap of a cut goes left with the probability that the cut, uniform on the gap, exceeds it. A
    missing value, or a level that the node never saw, takes both branches by their shares of the rows, unless the split
    says where missing values go.
    """
    share = trees.size[trees.left[node]] / trees.size[node]
    kind = trees.kind[trees.feature[node]]
    if np.isnan(value):
        if trees.side[node] >= 0:
            return 1.0 - trees.side[node]
        return share
    low, high = trees.low[node], trees.high[node]
    if kind == CUT:
        if value <= low:
            return 1.0
        if value >= high:
            return 0.0
        if soft:
            return (high - value) / (high - low)
        return 1.0 if value <= 0.5 * (low + high) else 0.0
    if kind == ONE_HOT:
        return 1.0 if value == low else 0.0
    bit = 1 << int(value)
    if int(high) & bit == 0:
        return share
    return 1.0 if int(low) & bit else 0.0


@kernel
def leaf_density(family, terms, y):
    """Posterior predictive density or mass of ``y`` in a leaf; for `SPREAD` the mean square of a new value about ``y``.

    ``terms`` (4,) holds degrees of freedom, location, scale and log constant of a Student t, or shape and rate of the
    gamma distribution behind a count. For `SPREAD` it holds (2,) mean and variance of a new value.
    """
    if family == SPREAD:
        return terms[1] + (terms[0] - y) ** 2
    if family == NORMAL:
        z = (y - terms[1]) / terms[2]
        return math.exp(terms[3] - 0.5 * (terms[0] + 1.0) * math.log1p(z * z / terms[0]))
    a, b = terms[0], terms[1]
    log_p = math.lgamma(a + y) - math.lgamma(a) - math.lgamma(y + 1.0)
    return math.exp(log_p + a * math.log(b / (b + 1.0)) - y * math.log(b + 1.0))


@inner_kernel
def room_for_branches(trees):
    """Stacks for `next_leaf`: of each node on the way down one branch waits at most."""
    most = 1
    for t in range(trees.begin.size - 1):
        most = max(most, trees.begin[t + 1] - trees.begin[t])
    return np.empty(most, np.int64), np.empty(most)


@inner_kernel
def next_leaf(trees, row, soft, stack, share, top):
    """Leaf below the last branch that waits, the row's share of it, and how many branches wait then."""
    top -= 1
    node, w = stack[top], share[top]
    while trees.feature[node] >= 0:
        p = share_left(trees, node, row[trees.feature[node]], soft)
        if p == 1.0:
            node = trees.left[node]
        elif p == 0.0:
            node = trees.right[node]
        else:
            stack[top], share[top] = trees.right[node], w * (1.0 - p)
            top += 1
            w *= p
            node = trees.left[node]
    return node, w, top


@kernel
def average_leaves(trees, weights, values, soft, payload, family, y, out):
    """Average over the trees and the branches of each row of what its leaves say.

    Parameters
    ----------
    trees : FlatTrees
    weights : (T,) float64
    values : (m, D) float64
    soft : bool
        Average over the place of each cut in its gap, in place of its middle.
    payload : (n, p) float64
        Of each node: averaged itself where ``y`` has no rows, else the terms of `leaf_density`.
    family : int
        Of the leaves, or `SPREAD`.
    y : (m,) or (0,) float64
    out : (m, p) or (m, 1) float64, overwritten
    """
    stack, share = room_for_branches(trees)
    out[:] = 0.0
    n_payload = payload.shape[1]
    for t in range(weights.size):
        if weights[t] == 0.0:
            continue
        for i in range(values.shape[0]):
            top = 1
            stack[0], share[0] = trees.begin[t], weights[t]
            while top > 0:
                node, w, top = next_leaf(trees, values[i], soft, stack, share, top)
                if y.size:
                    out[i, 0] += w * leaf_density(family, payload[node], y[i])
                else:
                    for k in range(n_payload):
                        out[i, k] += w * payload[node, k]


@kernel
def shares_of_leaves(trees, weights, values, soft, row, leaf, share):
    """Leaves that rows reach, with their shares; returns their number, and writes as many as there is room for.

    Parameters
    ----------
    trees, weights, values, soft
        As for `average_leaves`.
    row, leaf : (P,) int64, overwritten
        Rows ascending; leaves as places.
    share : (P,) float64, overwritten
    """
    stack, waiting = room_for_branches(trees)
    n = 0
    for i in range(values.shape[0]):
        for t in range(weights.size):
            if weights[t] == 0.0:
                continue
            top = 1
            stack[0], waiting[0] = trees.begin[t], weights[t]
            while top > 0:
                node, w, top = next_leaf(trees, values[i], soft, stack, waiting, top)
                if n < row.size:
                    row[n], leaf[n], share[n] = i, node, w
                n += 1
    return n


@kernel
def leaf_of_rows(trees, tree, values, out):
    """Leaf (absolute place) of each row in one tree by hard cuts at the gap's middle; larger branch where missing."""
    for i in range(values.shape[0]):
        node = trees.begin[tree]
        while trees.feature[node] >= 0:
            p = share_left(trees, node, values[i, trees.feature[node]], False)
            node = trees.left[node] if p >= 0.5 else trees.right[node]
        out[i] = node
