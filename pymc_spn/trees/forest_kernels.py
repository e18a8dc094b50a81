"""Many trees at once: the training rows of every node, and weighted routes of new rows."""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.trees.leaf_kernels import NORMAL, gather_statistics
from pymc_spn.trees.split_kernels import CUT, ONE_HOT, goes_left


class FlatTrees(NamedTuple):
    """Nodes of several trees one after the other.

    ``begin`` (T+1,) where each tree starts; ``feature`` (-1 leaf), ``side``, ``left``, ``right`` (n,), children as
    absolute places; ``low``, ``high`` (n,) values of the gap, or level and masks; ``size`` (n,) training rows.
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
def fill_nodes(x, response, decisions, begin, size, range_share, statistics):
    """Sizes, statistics and log prior masses of all nodes, from the training rows.

    Parameters
    ----------
    decisions : (n, 4) int32
    begin : (T + 1,) int64
    size : (n,) int64, overwritten
    range_share : (n, 2) float64, overwritten
        Log prior mass of the node's split given that it splits (0 for leaves), and 1 where the node could be split
        by its rows alone (0 where all its features are constant).
    statistics : (n, s) float64, overwritten
    """
    n_rows, n_features = x.codes.shape[1], x.codes.shape[0]
    rows, other = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    for t in range(begin.size - 1):
        n_nodes = begin[t + 1] - begin[t]
        first = np.zeros(n_nodes, np.int64)
        size[begin[t]] = n_rows
        for i in range(n_rows):
            rows[i] = i
        child = 1
        for h in range(n_nodes):
            node = begin[t] + h
            n, a = size[node], first[h]
            gather_statistics(response, rows, a, n, statistics[node])
            weight, log_mass = 0.0, 0.0
            feature = decisions[node, 0]
            for d in range(n_features):
                low, high, missing = np.int32(2147483647), np.int32(-1), 0
                levels = 0
                code = x.codes[d]
                for i in range(a, a + n):
                    c = code[rows[i]]
                    if c < 0:
                        missing += 1
                    else:
                        low = min(low, c)
                        high = max(high, c)
                        if x.kind[d] != CUT:
                            levels |= 1 << c
                if high > low:
                    weight += x.weight[d]
                if d == feature:
                    if missing:
                        log_mass += np.log(0.5)
                    if x.kind[d] == CUT:
                        v = x.values[x.begin[d] : x.begin[d + 1]]
                        log_mass += np.log((v[decisions[node, 2]] - v[decisions[node, 1]]) / (v[high] - v[low]))
                    else:
                        n_levels = 0
                        while levels > 0:
                            n_levels += levels & 1
                            levels >>= 1
                        n_options = n_levels if x.kind[d] == ONE_HOT else (1 << n_levels) - 2
                        log_mass -= np.log(float(n_options))
            range_share[node, 1] = 1.0 if weight > 0.0 else 0.0
            if feature >= 0:
                log_mass += np.log(x.weight[feature] / weight)
                for i in range(a, a + n):
                    other[i] = rows[i]
                n_left = _partition_between(x, other, rows, a, n, feature, decisions[node, 1], decisions[node, 3])
                first[child], first[child + 1] = a, a + n_left
                size[begin[t] + child], size[begin[t] + child + 1] = n_left, n - n_left
                child += 2
            range_share[node, 0] = log_mass


@kernel
def _partition_between(x, source, out, begin, n, feature, low, side):
    """Left rows to the front of the node's place in ``out``, right rows behind them, both in order."""
    code, kind = x.codes[feature], x.kind[feature]
    a = begin
    for i in range(begin, begin + n):
        if goes_left(kind, code[source[i]], low, side):
            out[a] = source[i]
            a += 1
    n_left = a - begin
    for i in range(begin, begin + n):
        if not goes_left(kind, code[source[i]], low, side):
            out[a] = source[i]
            a += 1
    return n_left


@kernel
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
    """Posterior predictive density or mass of ``y`` in a leaf.

    ``terms`` (4,) holds degrees of freedom, location, scale and log constant of a Student t, or shape and rate of the
    gamma distribution behind a count.
    """
    if family == NORMAL:
        z = (y - terms[1]) / terms[2]
        return math.exp(terms[3] - 0.5 * (terms[0] + 1.0) * math.log1p(z * z / terms[0]))
    a, b = terms[0], terms[1]
    log_p = math.lgamma(a + y) - math.lgamma(a) - math.lgamma(y + 1.0)
    return math.exp(log_p + a * math.log(b / (b + 1.0)) - y * math.log(b + 1.0))


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
    y : (m,) or (0,) float64
    out : (m, p) or (m, 1) float64, overwritten
    """
    stack = np.empty(4096, np.int64)
    share = np.empty(4096)
    out[:] = 0.0
    n_payload = payload.shape[1]
    for t in range(weights.size):
        if weights[t] == 0.0:
            continue
        for i in range(values.shape[0]):
            top = 1
            stack[0], share[0] = trees.begin[t], weights[t]
            while top > 0:
                top -= 1
                node, w = stack[top], share[top]
                while trees.feature[node] >= 0:
                    p = share_left(trees, node, values[i, trees.feature[node]], soft)
                    if p == 1.0:
                        node = trees.left[node]
                    elif p == 0.0:
                        node = trees.right[node]
                    else:
                        if top == stack.size:
                            stack = np.concatenate((stack, np.empty_like(stack)))
                            share = np.concatenate((share, np.empty_like(share)))
                        stack[top], share[top] = trees.right[node], w * (1.0 - p)
                        top += 1
                        w *= p
                        node = trees.left[node]
                if y.size:
                    out[i, 0] += w * leaf_density(family, payload[node], y[i])
                else:
                    for k in range(n_payload):
                        out[i, k] += w * payload[node, k]


@kernel
def leaf_of_rows(trees, tree, values, out):
    """Leaf (absolute place) of each row in one tree by hard cuts at the gap's middle; larger branch where missing."""
    for i in range(values.shape[0]):
        node = trees.begin[tree]
        while trees.feature[node] >= 0:
            p = share_left(trees, node, values[i, trees.feature[node]], False)
            node = trees.left[node] if p >= 0.5 else trees.right[node]
        out[i] = node
