"""The tree of a Markov chain: linked nodes, each with a segment of the rows, and rules that hold anywhere."""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel
from pymc_spn.trees.leaf_kernels import gather_statistics, leaf_log_marginal
from pymc_spn.trees.split_kernels import CUT, ONE_HOT

# integer columns of a node
FEATURE, SIDE, LEFT, RIGHT, PARENT, DEPTH, BEGIN, SIZE, FREE, CHOICE = range(10)
# real columns: cut point, log marginal as a leaf, log density of its rule
CUT_POINT, OWN, RULE = range(3)
DEAD = -2  # as feature


class LinkedNodes(NamedTuple):
    """Nodes and the permutation of rows in which every node owns a segment."""

    node: np.ndarray
    real: np.ndarray
    rows: np.ndarray
    used: np.ndarray


@inner_kernel
def _rule_goes_left(x, feature, cut, choice, side, row):
    code = x.codes[feature, row]
    if code < 0:
        return side == 0
    kind = x.kind[feature]
    if kind == CUT:
        return x.values[x.begin[feature] + code] <= cut
    if kind == ONE_HOT:
        return code == choice
    return (choice >> code) & 1 == 1


@inner_kernel
def _feature_range(x, d, rows, begin, n):
    """Lowest and highest code among the rows, and the levels present as bits."""
    low, high, bits = np.int32(2147483647), np.int32(-1), 0
    code, cut = x.codes[d], x.kind[d] == CUT
    for i in range(begin, begin + n):
        c = code[rows[i]]
        if c >= 0:
            low = min(low, c)
            high = max(high, c)
            if not cut:
                bits |= 1 << c
    return low, high, bits


@inner_kernel
def usable_weight(x, rows, begin, n):
    total = 0.0
    for d in range(x.codes.shape[0]):
        first = -1
        code = x.codes[d]
        if x.weight[d] > 0.0:
            for i in range(begin, begin + n):
                c = code[rows[i]]
                if c >= 0:
                    if first < 0:
                        first = c
                    elif c != first:
                        total += x.weight[d]
                        break
    return total


@inner_kernel
def _popcount(bits):
    n = 0
    while bits > 0:
        n += bits & 1
        bits >>= 1
    return n


@inner_kernel
def rule_log_density(x, rows, begin, n, feature, cut, choice):
    """Log prior density of a rule at these rows, given that they are split; -inf where it separates nothing."""
    low, high, bits = _feature_range(x, feature, rows, begin, n)
    if high <= low:
        return -np.inf
    weight = usable_weight(x, rows, begin, n)
    value = math.log(0.5 * x.weight[feature] / weight)
    kind = x.kind[feature]
    if kind == CUT:
        a, b = x.values[x.begin[feature] + low], x.values[x.begin[feature] + high]
        return value - math.log(b - a) if a <= cut < b else -np.inf
    present = _popcount(bits)
    if kind == ONE_HOT:
        return value - math.log(float(present)) if (bits >> choice) & 1 else -np.inf
    if choice & bits == 0 or choice & bits == bits:
        return -np.inf
    n_levels = x.begin[feature + 1] - x.begin[feature]
    return value - math.log((1 << present) - 2.0) - (n_levels - present) * math.log(2.0)


@inner_kernel
def draw_rule(rng, x, rows, begin, n):
    """A rule from its prior: feature, cut, choice, side."""
    u = rng.random() * usable_weight(x, rows, begin, n)
    feature, bits = -1, 0
    low, high = np.int32(0), np.int32(0)
    for d in range(x.codes.shape[0]):
        if x.weight[d] > 0.0:
            a, b, c = _feature_range(x, d, rows, begin, n)
            if b > a:
                feature, low, high, bits = d, a, b, c
                u -= x.weight[d]
                if u < 0.0:
                    break
    side = 0 if rng.random() < 0.5 else 1
    kind = x.kind[feature]
    if kind == CUT:
        a, b = x.values[x.begin[feature] + low], x.values[x.begin[feature] + high]
        return feature, a + rng.random() * (b - a), 0, side
    if kind == ONE_HOT:
        pick = int(rng.random() * _popcount(bits))
        level = 0
        while True:
            if (bits >> level) & 1:
                if pick == 0:
                    return feature, 0.0, level, side
                pick -= 1
            level += 1
    n_levels = x.begin[feature + 1] - x.begin[feature]
    while True:
        choice = int(rng.random() * (1 << n_levels))
        if choice & bits != 0 and choice & bits != bits:
            return feature, 0.0, choice, side


@inner_kernel
def set_rows(x, response, leaf, rules, chain, i, begin, n, held):
    """Gives node ``i`` its rows and what follows from them."""
    node = chain.node[i]
    node[BEGIN], node[SIZE] = begin, n
    gather_statistics(response, chain.rows, begin, n, held)
    chain.real[i, OWN] = leaf_log_marginal(leaf, n, held)
    free = n >= max(rules.min_size, 2) and (rules.max_depth < 0 or node[DEPTH] < rules.max_depth)
    node[FREE] = 1 if free and usable_weight(x, chain.rows, begin, n) > 0.0 else 0


@inner_kernel
def sort_children(x, chain, i, spare):
    """Orders the segment of node ``i`` by its rule; returns the size of the left part."""
    node = chain.node[i]
    begin, n = node[BEGIN], node[SIZE]
    a, b = begin, 0
    for r in range(begin, begin + n):
        row = chain.rows[r]
        if _rule_goes_left(x, node[FEATURE], chain.real[i, CUT_POINT], node[CHOICE], node[SIDE], row):
            chain.rows[a] = row
            a += 1
        else:
            spare[b] = row
            b += 1
    for r in range(b):
        chain.rows[a + r] = spare[r]
    return a - begin


@inner_kernel
def refill(x, response, leaf, rules, chain, top, spare, held, stack):
    """Distributes the rows of ``top`` over its subtree; returns whether every rule there separates its rows."""
    stack[0] = top
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        i = stack[n_stack]
        node = chain.node[i]
        if node[FEATURE] < 0:
            continue
        if node[FREE] == 0:
            return False
        chain.real[i, RULE] = rule_log_density(
            x, chain.rows, node[BEGIN], node[SIZE], node[FEATURE], chain.real[i, CUT_POINT], node[CHOICE]
        )
        if chain.real[i, RULE] == -np.inf:
            return False
        n_left = sort_children(x, chain, i, spare)
        set_rows(x, response, leaf, rules, chain, node[LEFT], node[BEGIN], n_left, held)
        set_rows(x, response, leaf, rules, chain, node[RIGHT], node[BEGIN] + n_left, node[SIZE] - n_left, held)
        stack[n_stack], stack[n_stack + 1] = node[LEFT], node[RIGHT]
        n_stack += 2
    return True


@inner_kernel
def set_rule(chain, i, feature, cut, choice, side):
    chain.node[i, FEATURE], chain.node[i, CHOICE], chain.node[i, SIDE] = feature, choice, side
    chain.real[i, CUT_POINT] = cut


@inner_kernel
def load_chain(rng, x, response, leaf, rules, chain, decisions, spare, held, stack):
    """Nodes from decisions, with what the rows do not determine drawn from its conditional."""
    chain.node[0, DEPTH], chain.node[0, PARENT] = 0, -1
    chain.used[0] = len(decisions)
    child = 1
    for i in range(len(decisions)):
        feature, low, high, side = decisions[i, 0], decisions[i, 1], decisions[i, 2], decisions[i, 3]
        chain.node[i, FEATURE] = feature
        if feature < 0:
            continue
        cut, choice = 0.0, 0
        kind = x.kind[feature]
        if kind == CUT:
            a, b = x.values[x.begin[feature] + low], x.values[x.begin[feature] + high]
            cut = a + rng.random() * (b - a)
        elif kind == ONE_HOT:
            choice = low
        else:
            n_levels = x.begin[feature + 1] - x.begin[feature]
            absent = ((1 << n_levels) - 1) & ~high
            choice = low | (int(rng.random() * (1 << n_levels)) & absent)
        coin = 0 if rng.random() < 0.5 else 1
        set_rule(chain, i, feature, cut, choice, side if side >= 0 else coin)
        for which in range(2):
            chain.node[i, LEFT + which] = child
            chain.node[child, PARENT] = i
            chain.node[child, DEPTH] = chain.node[i, DEPTH] + 1
            child += 1
    set_rows(x, response, leaf, rules, chain, 0, 0, x.codes.shape[1], held)
    refill(x, response, leaf, rules, chain, 0, spare, held, stack)


@inner_kernel
def unload_chain(x, chain):
    """Decisions of the live nodes in breadth-first order, and the log likelihood."""
    queue = np.empty(chain.used[0], np.int64)
    queue[0] = 0
    n = 1
    out = np.zeros((chain.used[0], 4), np.int32)
    log_likelihood = 0.0
    h = 0
    while h < n:
        node = chain.node[queue[h]]
        out[h, 0], out[h, 3] = -1, -1
        feature = node[FEATURE]
        if feature < 0:
            log_likelihood += chain.real[queue[h], OWN]
        else:
            out[h, 0] = feature
            n_missing, bits = 0, 0
            low, high = -1, 2147483647
            for r in range(node[BEGIN], node[BEGIN] + node[SIZE]):
                c = x.codes[feature, chain.rows[r]]
                if c < 0:
                    n_missing += 1
                elif x.kind[feature] != CUT:
                    bits |= 1 << c
                elif x.values[x.begin[feature] + c] <= chain.real[queue[h], CUT_POINT]:
                    low = max(low, c)
                else:
                    high = min(high, c)
            if x.kind[feature] == CUT:
                out[h, 1], out[h, 2] = low, high
            elif x.kind[feature] == ONE_HOT:
                out[h, 1] = node[CHOICE]
            else:
                out[h, 1], out[h, 2] = node[CHOICE] & bits, bits
            if n_missing:
                out[h, 3] = node[SIDE]
            queue[n], queue[n + 1] = node[LEFT], node[RIGHT]
            n += 2
        h += 1
    return out[:n].copy(), log_likelihood
