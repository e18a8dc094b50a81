"""Nodes and splits that particles share, and the rows that they hold."""

from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel
from pymc_spn.trees.leaf_kernels import gather_statistics, leaf_log_marginal
from pymc_spn.trees.split_kernels import split_rows, usable_features

# columns of the node table
BEGIN, SIZE, DEPTH, STATE, REFS, SPLITS, PENDING = range(7)
UNKNOWN, FORCED, OPEN = 0, 1, 2
# columns of the split table
FEATURE, LOW, HIGH, SIDE, LEFT, RIGHT, NEXT = range(7)
OWN, WEIGHT, NORMALISER = 0, 1, 2  # columns of `number`: leaf log marginal, weight of usable features, log C
N_NODES, N_SPLITS, N_PENDING, N_ROWS = 0, 1, 2, 3  # places of `size`


class NodePool(NamedTuple):
    """Nodes and splits; arrays grow by copying, so functions that append return a new pool."""

    node: np.ndarray
    number: np.ndarray
    statistics: np.ndarray
    usable: np.ndarray
    split: np.ndarray
    gain: np.ndarray
    pending: np.ndarray
    rows: np.ndarray
    size: np.ndarray


@inner_kernel
def _room(a, used):
    """The array, or a copy of twice its length if all of it is used."""
    if used < a.shape[0]:
        return a
    out = np.empty((2 * used, a.shape[1]), a.dtype)
    out[:used] = a
    return out


@inner_kernel
def with_room(pool, rows):
    """The pool with these rows, and room for one more node, split and pending decision."""
    n_nodes, n_splits = pool.size[N_NODES], pool.size[N_SPLITS]
    return NodePool(
        _room(pool.node, n_nodes),
        _room(pool.number, n_nodes),
        _room(pool.statistics, n_nodes),
        _room(pool.usable, n_nodes),
        _room(pool.split, n_splits),
        _room(pool.gain, n_splits),
        _room(pool.pending, pool.size[N_PENDING]),
        rows,
        pool.size,
    )


@inner_kernel
def room_for_rows(pool, n):
    """Makes room for ``n`` more rows: rows of nodes nobody waits for are dropped, then the space is doubled."""
    used = pool.size[N_ROWS]
    if used + n <= pool.rows.size:
        return pool
    at = 0
    for i in range(pool.size[N_NODES]):
        node = pool.node[i]
        if node[REFS] > 0:
            begin = node[BEGIN]
            for j in range(node[SIZE]):
                pool.rows[at + j] = pool.rows[begin + j]
            node[BEGIN] = at
            at += node[SIZE]
        else:
            node[BEGIN] = -1
    pool.size[N_ROWS] = at
    if 2 * (at + n) <= pool.rows.size:
        return pool
    rows = np.empty(2 * (2 * pool.rows.size + n), np.int32)
    rows[:at] = pool.rows[:at]
    return with_room(pool, rows)


@inner_kernel
def add_node(pool, leaf, response, begin, n, depth):
    """Registers the rows as a node; returns pool and index."""
    i = pool.size[N_NODES]
    if i == pool.node.shape[0]:
        pool = with_room(pool, pool.rows)
    pool.size[N_NODES] = i + 1
    node = pool.node[i]
    node[BEGIN], node[SIZE], node[DEPTH] = begin, n, depth
    node[STATE], node[REFS], node[SPLITS], node[PENDING] = UNKNOWN, 0, -1, -1
    gather_statistics(response, pool.rows, begin, n, pool.statistics[i])
    pool.number[i, OWN] = leaf_log_marginal(leaf, n, pool.statistics[i])
    pool.number[i, NORMALISER] = np.nan
    return pool, i


@inner_kernel
def find_split(pool, i, feature, low, high, side):
    """The split of node ``i`` with these terms, made if it is new; returns pool and index."""
    s = pool.node[i, SPLITS]
    while s >= 0:
        t = pool.split[s]
        if t[FEATURE] == feature and t[LOW] == low and t[HIGH] == high and t[SIDE] == side:
            return pool, s
        s = t[NEXT]
    s = pool.size[N_SPLITS]
    if s == pool.split.shape[0]:
        pool = with_room(pool, pool.rows)
    pool.size[N_SPLITS] = s + 1
    t = pool.split[s]
    t[FEATURE], t[LOW], t[HIGH], t[SIDE] = feature, low, high, side
    t[LEFT], t[RIGHT], t[NEXT] = -1, -1, pool.node[i, SPLITS]
    pool.node[i, SPLITS] = s
    return pool, s


@inner_kernel
def make_children(pool, x, response, leaf, i, s):
    """Builds the children of split ``s`` of node ``i`` unless they exist and still have their rows."""
    if pool.split[s, LEFT] >= 0:
        if pool.node[pool.split[s, LEFT], BEGIN] >= 0 and pool.node[pool.split[s, RIGHT], BEGIN] >= 0:
            return pool
    n = pool.node[i, SIZE]
    pool = room_for_rows(pool, n)
    begin, depth = pool.node[i, BEGIN], pool.node[i, DEPTH]
    at = pool.size[N_ROWS]
    feature, low, side = pool.split[s, FEATURE], pool.split[s, LOW], pool.split[s, SIDE]
    n_left = split_rows(x, pool.rows, begin, n, feature, low, side, pool.rows, at)
    pool.size[N_ROWS] = at + n
    pool, a = add_node(pool, leaf, response, at, n_left, depth + 1)
    pool, b = add_node(pool, leaf, response, at + n_left, n - n_left, depth + 1)
    pool.split[s, LEFT], pool.split[s, RIGHT] = a, b
    pool.gain[s, 0] = pool.number[a, OWN] + pool.number[b, OWN] - pool.number[i, OWN]
    return pool


@inner_kernel
def is_forced(pool, x, rules, i):
    """Whether node ``i`` is a leaf with probability one; found once."""
    node = pool.node[i]
    if node[STATE] == UNKNOWN:
        node[STATE] = FORCED
        n = node[SIZE]
        if n >= max(rules.min_size, 2) and (rules.max_depth < 0 or node[DEPTH] < rules.max_depth):
            weight = usable_features(x, pool.rows, node[BEGIN], n, pool.usable[i])
            pool.number[i, WEIGHT] = weight
            if weight > 0.0:
                node[STATE] = OPEN
    return node[STATE] == FORCED
