"""Markov chain over trees by grow, prune, change and swap, leaves integrated out (Chipman, George and McCulloch).

A rule that moves to another node meets other rows, where a gap between adjacent values means nothing. The chain
therefore runs on rules that hold anywhere: cuts are numbers, every rule sends missing values somewhere, and every level
of a subset rule has a side. What a node's rows cannot tell apart is drawn afresh from its conditional at the start of a
sweep and dropped at the end. So the marginal target is the posterior over trees of this package.
"""

import math

import numpy as np

from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.trees.linked_nodes import (
    BEGIN,
    CHOICE,
    CUT_POINT,
    DEAD,
    DEPTH,
    FEATURE,
    FREE,
    LEFT,
    OWN,
    PARENT,
    RIGHT,
    RULE,
    SIDE,
    SIZE,
    LinkedNodes,
    draw_rule,
    load_chain,
    refill,
    rule_log_density,
    set_rows,
    set_rule,
    sort_children,
    unload_chain,
)
from pymc_spn.trees.split_kernels import split_probability

GROW, PRUNE, CHANGE, SWAP = 0, 1, 2, 3


@inner_kernel
def _log_density(rules, chain, top, power, stack):
    """Log prior density of the subtree, and the likelihood of its leaves to a power."""
    total = 0.0
    stack[0] = top
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        i = stack[n_stack]
        node = chain.node[i]
        p = split_probability(rules, node[DEPTH])
        if node[FEATURE] >= 0:
            total += math.log(p) + chain.real[i, RULE]
            stack[n_stack], stack[n_stack + 1] = node[LEFT], node[RIGHT]
            n_stack += 2
        else:
            total += power * chain.real[i, OWN]
            if node[FREE]:
                total += math.log(1.0 - p)
    return total


@inner_kernel
def _is_prunable(chain, i):
    node = chain.node[i]
    if node[FEATURE] < 0:
        return False
    return chain.node[node[LEFT], FEATURE] == -1 and chain.node[node[RIGHT], FEATURE] == -1


@inner_kernel
def _is_candidate(chain, i, move):
    feature = chain.node[i, FEATURE]
    if move == GROW:
        return feature == -1 and chain.node[i, FREE] == 1
    if move == PRUNE:
        return feature >= 0 and _is_prunable(chain, i)
    if move == CHANGE:
        return feature >= 0
    return feature >= 0 and chain.node[i, PARENT] >= 0


@inner_kernel
def _candidates(chain, move):
    n = 0
    for i in range(chain.used[0]):
        n += _is_candidate(chain, i, move)
    return n


@inner_kernel
def _pick(rng, chain, move, n):
    k = int(rng.random() * n)
    for i in range(chain.used[0]):
        if _is_candidate(chain, i, move):
            if k == 0:
                return i
            k -= 1
    return -1


@inner_kernel
def _attach(chain, i):
    """Two dead nodes become the children of ``i``; -1 if there is no room."""
    node = chain.node[i]
    for which in range(2):
        c = 0
        while c < chain.used[0] and chain.node[c, FEATURE] != DEAD:
            c += 1
        if c == chain.used[0]:
            chain.used[0] += 1
        chain.node[c, FEATURE] = -1
        chain.node[c, PARENT] = i
        chain.node[c, DEPTH] = node[DEPTH] + 1
        chain.node[c, LEFT], chain.node[c, RIGHT] = -1, -1
        node[LEFT + which] = c


@inner_kernel
def _grow_move(rng, x, response, leaf, rules, power, chain, spare, held):
    n_free = _candidates(chain, GROW)
    if n_free == 0:
        return False
    i = _pick(rng, chain, GROW, n_free)
    begin, n = chain.node[i, BEGIN], chain.node[i, SIZE]
    feature, cut, choice, side = draw_rule(rng, x, chain.rows, begin, n)
    set_rule(chain, i, feature, cut, choice, side)
    _attach(chain, i)
    left, right = chain.node[i, LEFT], chain.node[i, RIGHT]
    n_left = sort_children(x, chain, i, spare)
    set_rows(x, response, leaf, rules, chain, left, begin, n_left, held)
    set_rows(x, response, leaf, rules, chain, right, begin + n_left, n - n_left, held)
    ratio = _split_ratio(rules, power, chain, i)
    ratio += math.log(float(n_free)) - math.log(float(_candidates(chain, PRUNE)))
    if math.log(rng.random()) < ratio:
        chain.real[i, RULE] = rule_log_density(x, chain.rows, begin, n, feature, cut, choice)
        return True
    chain.node[left, FEATURE], chain.node[right, FEATURE] = DEAD, DEAD
    chain.node[i, FEATURE] = -1
    return False


@inner_kernel
def _split_ratio(rules, power, chain, i):
    """Log density with node ``i`` split into two leaves, over that without; the rule's prior density left out."""
    depth = chain.node[i, DEPTH]
    left, right = chain.node[i, LEFT], chain.node[i, RIGHT]
    p, below = split_probability(rules, depth), split_probability(rules, depth + 1)
    value = math.log(p) - math.log(1.0 - p)
    value += (chain.node[left, FREE] + chain.node[right, FREE]) * math.log(1.0 - below)
    return value + power * (chain.real[left, OWN] + chain.real[right, OWN] - chain.real[i, OWN])


@inner_kernel
def _prune_move(rng, rules, power, chain):
    n_prunable = _candidates(chain, PRUNE)
    if n_prunable == 0:
        return False
    i = _pick(rng, chain, PRUNE, n_prunable)
    left, right = chain.node[i, LEFT], chain.node[i, RIGHT]
    n_free = _candidates(chain, GROW) - chain.node[left, FREE] - chain.node[right, FREE] + 1
    ratio = -_split_ratio(rules, power, chain, i) + math.log(float(n_prunable)) - math.log(float(n_free))
    if math.log(rng.random()) < ratio:
        chain.node[left, FEATURE], chain.node[right, FEATURE] = DEAD, DEAD
        chain.node[i, FEATURE] = -1
        chain.node[i, LEFT], chain.node[i, RIGHT] = -1, -1
        return True
    return False


@inner_kernel
def _swap_rules(chain, a, b):
    for c in (FEATURE, CHOICE, SIDE):
        chain.node[a, c], chain.node[b, c] = chain.node[b, c], chain.node[a, c]
    chain.real[a, CUT_POINT], chain.real[b, CUT_POINT] = chain.real[b, CUT_POINT], chain.real[a, CUT_POINT]


@inner_kernel
def _rule_move(rng, x, response, leaf, rules, power, chain, move, spare, held, stack, old):
    """Change one rule, drawn from its prior, or swap the rules of a node and its parent."""
    n = _candidates(chain, move)
    if n == 0:
        return False
    i = _pick(rng, chain, move, n)
    top = i if move == CHANGE else chain.node[i, PARENT]
    count = chain.used[0]
    before = _log_density(rules, chain, top, power, stack)
    begin, size = chain.node[top, BEGIN], chain.node[top, SIZE]
    old.node[:count], old.real[:count] = chain.node[:count], chain.real[:count]
    old.rows[begin : begin + size] = chain.rows[begin : begin + size]
    proposal = 0.0
    if move == CHANGE:
        feature, cut, choice, side = draw_rule(rng, x, chain.rows, begin, size)
        set_rule(chain, i, feature, cut, choice, side)
        proposal = chain.real[i, RULE]  # density of the old rule, that of the new one is taken off below
    else:
        _swap_rules(chain, top, i)
    if refill(x, response, leaf, rules, chain, top, spare, held, stack):
        ratio = _log_density(rules, chain, top, power, stack) - before
        if move == CHANGE:
            ratio += proposal - chain.real[i, RULE]
        if math.log(rng.random()) < ratio:
            return True
    chain.node[:count], chain.real[:count] = old.node[:count], old.real[:count]
    chain.rows[begin : begin + size] = old.rows[begin : begin + size]
    return False


@kernel
def chipman_sweep(rng, x, response, leaf, rules, decisions, n_moves, power):
    """Moves of the chain from one tree to the next.

    Parameters
    ----------
    rng : Generator
    x, response, leaf, rules : FeatureCodes, Response, LeafPrior, Rules
    decisions : (n, 4) int32
        The tree, as in `tree.Tree`.
    n_moves : int
        Each is a grow, prune, change or swap with equal probability.
    power : float
        Of the likelihood: 1 for the posterior, 0 for the prior.

    Returns
    -------
    decisions : (n, 4) int32
    tried, accepted : (4,) int64
        By move: grow, prune, change, swap.
    log_likelihood : float
        Of the tree returned, to the power one.

    References
    ----------
    Chipman, George and McCulloch (1998), Bayesian CART model search, section 5.1, doi:10.2307/2669832.
    """
    n_rows = x.codes.shape[1]
    room = len(decisions) + 2 * n_moves + 2
    chain = LinkedNodes(
        np.full((room, 10), -1, np.int64),
        np.zeros((room, 3)),
        np.arange(n_rows).astype(np.int32),
        np.zeros(1, np.int64),
    )
    old = LinkedNodes(
        np.empty((room, 10), np.int64), np.empty((room, 3)), np.empty(n_rows, np.int32), np.zeros(1, np.int64)
    )
    spare, held, stack = np.empty(n_rows, np.int32), np.empty(response.n_statistics), np.empty(room + 2, np.int64)
    load_chain(rng, x, response, leaf, rules, chain, decisions, spare, held, stack)
    tried, accepted = np.zeros(4, np.int64), np.zeros(4, np.int64)
    unchecked = np.zeros(1, np.int64)
    for _ in range(n_moves):
        move = int(rng.random() * 4.0)
        tried[move] += 1
        if move == GROW:
            done = _grow_move(rng, x, response, leaf, rules, power, chain, spare, held)
        elif move == PRUNE:
            done = _prune_move(rng, rules, power, chain)
        else:
            done = _rule_move(rng, x, response, leaf, rules, power, chain, move, spare, held, stack, old)
        if must_stop_after(n_rows * x.codes.shape[0], unchecked):
            break
        accepted[move] += done
    out, log_likelihood = unload_chain(x, chain)
    return out, tried, accepted, log_likelihood
