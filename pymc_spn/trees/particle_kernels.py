"""Top-down particle filtering of decision trees: Algorithm 1, and its conditional form for particle Gibbs.

Particles share their nodes. A node is (row set, depth) as reached by one chain of splits; a particle is the list of its
nodes and decisions in breadth-first order. The table of a node's options is built once. As many independent decisions
are drawn from it as particles have the node in their queue, and each particle that arrives there takes one. Decisions
at a node are independent of everything but the node, so drawing them early changes no distribution. Rows of nodes that
no particle waits for are reclaimed.
"""

import math

import numpy as np

from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.trees.leaf_kernels import draw_index
from pymc_spn.trees.node_pool import (
    BEGIN,
    DEPTH,
    LEFT,
    N_PENDING,
    N_ROWS,
    NORMALISER,
    OWN,
    PENDING,
    REFS,
    SIZE,
    WEIGHT,
    NodePool,
    add_node,
    find_split,
    is_forced,
    make_children,
    with_room,
)
from pymc_spn.trees.resampling import draw_offspring, effective_size
from pymc_spn.trees.split_kernels import (
    CUT,
    ONE_HOT,
    all_options,
    choose_option,
    code_range,
    sort_rows,
    split_probability,
    weigh_options,
)

PRIOR, OPTIMAL, EMPIRICAL = 0, 1, 2
NODE, LAYER = 0, 1

_STOP = -1
OPERATIONS_OF_A_CELL = 20  # sorted, and every cut weighed
# counters
TABLES, EXPANSIONS, STAGES, RESAMPLED = range(4)


@inner_kernel
def _draw_table(rng, pool, x, response, leaf, rules, i, n_draws, options, counters):
    """Builds the table of node ``i`` for the optimal proposal and stores ``n_draws`` decisions."""
    node = pool.node[i]
    n_options = all_options(
        x,
        response,
        leaf,
        pool.rows,
        node[BEGIN],
        node[SIZE],
        pool.statistics[i],
        pool.number[i, OWN],
        pool.usable[i],
        pool.number[i, WEIGHT],
        options,
    )
    log_c, stop, total = weigh_options(options, n_options, split_probability(rules, node[DEPTH]))
    pool.number[i, NORMALISER] = log_c
    counters[TABLES] += 1
    for _ in range(n_draws):
        s = _STOP
        if rng.random() * (stop + total) >= stop:
            o = choose_option(options, n_options, rng.random())
            d = options.decision[o]
            pool, s = find_split(pool, i, d[0], d[1], d[2], d[3])
        p = pool.size[N_PENDING]
        if p == pool.pending.shape[0]:
            pool = with_room(pool, pool.rows)
        pool.size[N_PENDING] = p + 1
        pool.pending[p, 0], pool.pending[p, 1] = s, pool.node[i, PENDING]
        pool.node[i, PENDING] = p
    return pool


@inner_kernel
def _draw_rule(rng, pool, x, i, empirical, options):
    """A split of node ``i`` from the prior, its gap uniform where ``empirical``.

    Returns feature, low, high, side and the log of prior mass over proposal mass.
    """
    node = pool.node[i]
    begin, n = node[BEGIN], node[SIZE]
    u = rng.random() * pool.number[i, WEIGHT]
    feature = 0
    for d in range(x.codes.shape[0]):
        if pool.usable[i, d]:
            feature = d
            u -= x.weight[d]
            if u < 0.0:
                break
    code = x.codes[feature]
    rows = pool.rows
    n_missing, lowest, highest = code_range(code, rows, begin, n)
    side = -1
    if n_missing:
        side = 0 if rng.random() < 0.5 else 1
    if x.kind[feature] == CUT and not empirical:
        values = x.values[x.begin[feature] : x.begin[feature + 1]]
        cut = values[lowest] + rng.random() * (values[highest] - values[lowest])
        low, high = lowest, highest
        for r in range(begin, begin + n):
            c = code[rows[r]]
            if c >= 0:
                if values[c] <= cut and c < highest:
                    low = max(low, c)
                else:
                    high = min(high, c)
        return feature, low, high, side, 0.0
    m = sort_rows(code, rows, begin, n, options)
    key = options.key
    n_distinct = _n_distinct(key, m)
    if x.kind[feature] == CUT:
        g = int(rng.random() * (n_distinct - 1))
        for r in range(1, m):
            if key[r] != key[r - 1]:
                if g == 0:
                    low, high = key[r - 1], key[r]
                    return feature, low, high, side, _log_gap_ratio(x, feature, key, m, low, high)
                g -= 1
    chosen = int(rng.random() * n_distinct)
    subset = 1 + int(rng.random() * ((1 << min(n_distinct, 30)) - 2))
    low, present, a = 0, 0, 0
    for r in range(m):
        if r == 0 or key[r] != key[r - 1]:
            if x.kind[feature] == ONE_HOT:
                if a == chosen:
                    return feature, key[r], np.int32(0), side, 0.0
            else:
                present |= 1 << key[r]
                if (subset >> a) & 1:
                    low |= 1 << key[r]
            a += 1
    return feature, np.int32(low), np.int32(present), side, 0.0


@inner_kernel
def _n_distinct(key, m):
    n_distinct = 1
    for r in range(1, m):
        n_distinct += key[r] != key[r - 1]
    return n_distinct


@inner_kernel
def _log_gap_ratio(x, feature, key, m, low, high):
    """Log of prior mass over proposal mass of a gap, from the sorted codes of a node's rows."""
    values = x.values[x.begin[feature] : x.begin[feature + 1]]
    return math.log((_n_distinct(key, m) - 1) * (values[high] - values[low]) / (values[key[m - 1]] - values[key[0]]))


@inner_kernel
def _retained_ratio(pool, x, i, feature, low, high, options):
    """The same ratio for a split that is given."""
    if x.kind[feature] != CUT:
        return 0.0
    m = sort_rows(x.codes[feature], pool.rows, pool.node[i, BEGIN], pool.node[i, SIZE], options)
    return _log_gap_ratio(x, feature, options.key, m, low, high)


@inner_kernel
def _decide(rng, pool, x, response, leaf, rules, proposal, i, retained, options, counters):
    """Decision of one particle at node ``i``: split index or stop, and the increment of its log weight.

    ``retained`` (4,) holds the decision to replay, its first entry -2 where there is none.
    """
    counters[EXPANSIONS] += 1
    given = retained[0] > -2
    if proposal == OPTIMAL:
        if pool.node[i, PENDING] < 0 and not (given and not math.isnan(pool.number[i, NORMALISER])):
            n_draws = pool.node[i, REFS] - (1 if given else 0)
            pool = _draw_table(rng, pool, x, response, leaf, rules, i, n_draws, options, counters)
        log_c = pool.number[i, NORMALISER]
        if not given:
            p = pool.node[i, PENDING]
            pool.node[i, PENDING] = pool.pending[p, 1]
            s = pool.pending[p, 0]
        elif retained[0] < 0:
            s = _STOP
        else:
            pool, s = find_split(pool, i, retained[0], retained[1], retained[2], retained[3])
        if s >= 0:
            pool = make_children(pool, x, response, leaf, i, s)
        return pool, s, log_c
    if given:
        if retained[0] < 0:
            return pool, _STOP, 0.0
        pool, s = find_split(pool, i, retained[0], retained[1], retained[2], retained[3])
        ratio = 0.0
        if proposal == EMPIRICAL:
            ratio = _retained_ratio(pool, x, i, retained[0], retained[1], retained[2], options)
    else:
        if rng.random() >= split_probability(rules, pool.node[i, DEPTH]):
            return pool, _STOP, 0.0
        feature, low, high, side, ratio = _draw_rule(rng, pool, x, i, proposal == EMPIRICAL, options)
        pool, s = find_split(pool, i, feature, low, high, side)
    pool = make_children(pool, x, response, leaf, i, s)
    return pool, s, pool.gain[s, 0] + ratio


@kernel
def run_particles(
    rng, x, response, leaf, rules, n_particles, proposal, expansion, scheme, threshold, retained, options, counters
):
    """One run of Algorithm 1, or of its conditional form where ``retained`` has rows.

    Parameters
    ----------
    rng : Generator
    x, response, leaf, rules : FeatureCodes, Response, LeafPrior, Rules
    n_particles : int
    proposal, expansion, scheme : int
        PRIOR, OPTIMAL, EMPIRICAL; NODE, LAYER; see `resampling`.
    threshold : float
        Resample where the effective number of particles falls below this share of them.
    retained : (t, 4) int32
        Decisions of the tree that particle 0 replays, in breadth-first order; no rows for plain filtering.
    options : Options
    counters : (4,) int64
        Increased: tables, expansions, stages, resampling steps.

    Returns
    -------
    log_weight : (n_particles,) float64
    decisions : (n, 4) int32
        Feature (-1 leaf), low, high, side of all nodes of all particles, breadth first, one particle after the other.
    begin : (n_particles + 1,) int64
        Where each particle's nodes begin.
    """
    n_rows, n_features = x.codes.shape[1], x.codes.shape[0]
    pool = NodePool(
        np.empty((256, 7), np.int64),
        np.empty((256, 3)),
        np.empty((256, response.n_statistics)),
        np.empty((256, n_features), np.int8),
        np.empty((256, 7), np.int64),
        np.empty((256, 1)),
        np.empty((256, 2), np.int64),
        np.empty(8 * n_rows, np.int32),
        np.zeros(4, np.int64),
    )
    pool.rows[:n_rows] = np.arange(n_rows)
    pool.size[N_ROWS] = n_rows
    pool, root = add_node(pool, leaf, response, 0, n_rows, 0)
    pool.node[root, REFS] = n_particles
    width = 64
    queue = np.empty((n_particles, width), np.int32)
    choice = np.empty((n_particles, width), np.int32)
    queue[:, 0] = root
    head, tail = np.zeros(n_particles, np.int64), np.ones(n_particles, np.int64)
    log_weight = np.full(n_particles, pool.number[root, OWN])
    conditional = retained.shape[0] > 0
    nothing = np.full(4, -2, np.int32)
    unchecked = np.zeros(1, np.int64)
    while True:
        n_open = 0
        if tail.max() + 2 * (tail - head).max() + 2 > width:
            width = 2 * (tail.max() + 2 * (tail - head).max() + 2)
            old_queue, old_choice = queue, choice
            queue = np.empty((n_particles, width), np.int32)
            choice = np.empty((n_particles, width), np.int32)
            queue[:, : old_queue.shape[1]] = old_queue
            choice[:, : old_choice.shape[1]] = old_choice
        decided = 0
        for m in range(n_particles):
            end = tail[m]  # a layer is what is open now
            expanded = 0
            while head[m] < tail[m]:
                h = head[m]
                i = queue[m, h]
                if is_forced(pool, x, rules, i):
                    choice[m, h] = _STOP
                    pool.node[i, REFS] -= 1
                    head[m] = h + 1
                    continue
                if h >= end or (expansion == NODE and expanded):
                    break
                given = retained[h] if conditional and m == 0 else nothing
                pool, s, increment = _decide(rng, pool, x, response, leaf, rules, proposal, i, given, options, counters)
                log_weight[m] += increment
                choice[m, h] = s
                pool.node[i, REFS] -= 1
                head[m] = h + 1
                if must_stop_after(OPERATIONS_OF_A_CELL * pool.node[i, SIZE] * n_features, unchecked):
                    return log_weight, np.empty((0, 4), np.int32), np.zeros(n_particles + 1, np.int64)
                if s >= 0:
                    for child in range(2):
                        c = pool.split[s, LEFT + child]
                        queue[m, tail[m]] = c
                        pool.node[c, REFS] += 1
                        tail[m] += 1
                expanded += 1
            decided += expanded
            n_open += head[m] < tail[m]
        counters[STAGES] += decided > 0
        if n_open == 0:
            break
        if effective_size(log_weight) < threshold * n_particles:
            counters[RESAMPLED] += 1
            _resample(rng, log_weight, scheme, conditional, pool, queue, choice, head, tail)
    begin = np.zeros(n_particles + 1, np.int64)
    for m in range(n_particles):
        begin[m + 1] = begin[m] + tail[m]
    decisions = np.empty((begin[-1], 4), np.int32)
    for m in range(n_particles):
        for h in range(tail[m]):
            s = choice[m, h]
            out = decisions[begin[m] + h]
            out[0], out[1], out[2], out[3] = -1, 0, 0, -1
            if s >= 0:
                for c in range(4):
                    out[c] = pool.split[s, c]
    return log_weight, decisions, begin


@inner_kernel
def _resample(rng, log_weight, scheme, conditional, pool, queue, choice, head, tail):
    """Offspring in place: survivors keep their slot, the others' slots go to further offspring."""
    n = log_weight.size
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    log_mean = top + math.log(weight.sum() / n)
    offspring = draw_offspring(rng, weight, scheme, conditional)
    free = 0
    for m in range(n):
        while offspring[m] > 1:
            while offspring[free] > 0:
                free += 1
            for h in range(head[free], tail[free]):
                pool.node[queue[free, h], REFS] -= 1
            queue[free, : tail[m]] = queue[m, : tail[m]]
            choice[free, : tail[m]] = choice[m, : tail[m]]
            head[free], tail[free] = head[m], tail[m]
            for h in range(head[m], tail[m]):
                pool.node[queue[m, h], REFS] += 1
            offspring[m] -= 1
            offspring[free] = 1
    log_weight[:] = log_mean


@kernel
def pick_particle(rng, log_weight):
    """Index of a particle drawn by its weight."""
    return draw_index(rng, np.exp(log_weight - log_weight.max()), log_weight.size)
