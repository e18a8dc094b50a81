"""Greedy elimination order (min-fill) of an interaction graph, and the cliques that it makes.

Each elimination joins the neighbours of a variable. Among the variables whose clique fits the table limit, the next
one adds the fewest edges, then has the smallest clique table, then comes first in declared order. A variable with more
neighbours than the limit allows binary axes cannot be next, so its fill is never computed: hubs cost nothing until
their neighbours are gone.
"""

import heapq

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def _live(v, start, length, pool, dead):
    """Drop eliminated neighbours from the list of v; return how many are left."""
    kept = 0
    for i in range(start[v], start[v] + length[v]):
        if not dead[pool[i]]:
            pool[start[v] + kept] = pool[i]
            kept += 1
    length[v] = kept
    return kept


@inner_kernel
def _adjacent(a, b, start, length, pool):
    if length[b] < length[a]:
        a, b = b, a
    for i in range(start[a], start[a] + length[a]):
        if pool[i] == b:
            return True
    return False


@inner_kernel
def _fill(v, start, length, pool, dead):
    """Edges that eliminating v would add."""
    n = _live(v, start, length, pool, dead)
    missing = 0
    for i in range(start[v], start[v] + n):
        for j in range(i + 1, start[v] + n):
            if not _adjacent(pool[i], pool[j], start, length, pool):
                missing += 1
    return missing


@inner_kernel
def _append(v, u, start, length, room, pool, end):
    """Add u to the list of v, moved to the end of the pool when full; return pool and its end."""
    if length[v] == room[v]:
        larger = 2 * room[v] + 4
        if end + larger > pool.size:
            grown = np.empty(2 * pool.size + larger, np.int64)
            grown[:end] = pool[:end]
            pool = grown
        pool[end : end + length[v]] = pool[start[v] : start[v] + length[v]].copy()
        start[v], room[v] = end, larger
        end += larger
    pool[start[v] + length[v]] = u
    length[v] += 1
    return pool, end


@kernel
def eliminate(adjacency_ptr, adjacency, log_card, log_limit, max_degree):
    """Min-fill order with the clique of every step.

    Parameters
    ----------
    adjacency_ptr, adjacency : (n + 1,) and (2 n_edges,) int64
        Neighbours of each variable.
    log_card : (n,) float64
        log2 of the state counts.
    log_limit : float
        log2 of the largest clique table.
    max_degree : int
        Variables with more neighbours wait.

    Returns
    -------
    order : (n,) int64
        Variables as eliminated; shorter than n where no remaining variable fits the limit.
    later_ptr, later : int64
        Neighbours of each eliminated variable at its elimination, in the order of `order`.
    blocking : (k,) int64
        The remaining variable with the smallest clique and its neighbours; empty on success.
    """
    n = log_card.size
    start = adjacency_ptr[:-1].copy()
    length = adjacency_ptr[1:] - adjacency_ptr[:-1]
    room = length.copy()
    pool = adjacency.copy()
    end = pool.size
    dead = np.zeros(n, np.bool_)
    stamp = np.zeros(n, np.int64)
    degree = length.copy()
    heap = [(0.0, 0.0, 0, -1) for _ in range(0)]
    for v in range(n):
        if degree[v] <= max_degree:
            size = log_card[v]
            for i in range(start[v], start[v] + length[v]):
                size += log_card[pool[i]]
            heap.append((float(_fill(v, start, length, pool, dead)), size, v, 0))
    heapq.heapify(heap)
    order = np.empty(n, np.int64)
    later_ptr = np.zeros(n + 1, np.int64)
    later = np.empty(max(16, adjacency.size), np.int64)
    queued = np.full(n, -1)
    n_done = 0
    while heap:
        fill, size, v, version = heapq.heappop(heap)
        if dead[v] or version != stamp[v] or size > log_limit + 1e-9:
            continue
        k = _live(v, start, length, pool, dead)
        clique = pool[start[v] : start[v] + k].copy()
        order[n_done] = v
        begin = later_ptr[n_done]
        if begin + k > later.size:
            grown = np.empty(2 * later.size + k, np.int64)
            grown[:begin] = later[:begin]
            later = grown
        later[begin : begin + k] = clique
        n_done += 1
        later_ptr[n_done] = begin + k
        dead[v] = True
        touched = [v for _ in range(0)]
        for u in clique:
            degree[u] -= 1
            queued[u] = n_done
            touched.append(u)
            if length[u] > 2 * degree[u] + 8:
                _live(u, start, length, pool, dead)
        if fill > 0:
            for i in range(k):
                for j in range(i + 1, k):
                    a, b = clique[i], clique[j]
                    if _adjacent(a, b, start, length, pool):
                        continue
                    pool, end = _append(a, b, start, length, room, pool, end)
                    pool, end = _append(b, a, start, length, room, pool, end)
                    degree[a] += 1
                    degree[b] += 1
                    if length[b] < length[a]:
                        a, b = b, a
                    for p in range(start[a], start[a] + length[a]):  # their fill shrinks by this edge
                        w = pool[p]
                        if not dead[w] and queued[w] != n_done and degree[w] <= max_degree:
                            if _adjacent(w, b, start, length, pool):
                                queued[w] = n_done
                                touched.append(w)
        for u in touched:
            stamp[u] += 1
            if degree[u] <= max_degree:
                fill_u = _fill(u, start, length, pool, dead)
                size = log_card[u]
                for i in range(start[u], start[u] + length[u]):
                    size += log_card[pool[i]]
                heapq.heappush(heap, (float(fill_u), size, u, stamp[u]))
    if n_done == n:
        return order, later_ptr, later[: later_ptr[n]].copy(), np.empty(0, np.int64)
    smallest, best = np.inf, -1
    for v in range(n):
        if not dead[v]:
            size = log_card[v]
            for i in range(start[v], start[v] + length[v]):
                if not dead[pool[i]]:
                    size += log_card[pool[i]]
            if size < smallest:
                smallest, best = size, v
    k = _live(best, start, length, pool, dead)
    blocking = np.empty(k + 1, np.int64)
    blocking[0] = best
    blocking[1:] = pool[start[best] : start[best] + k]
    return order[:n_done].copy(), later_ptr[: n_done + 1].copy(), later[: later_ptr[n_done]].copy(), blocking


@kernel
def join_cliques(order, later_ptr, later):
    """Maximal cliques of an elimination and their tree, children before parents.

    Returns
    -------
    clique_of : (n,) int64
        The clique in which each variable is eliminated ("owned").
    position : (n,) int64
        Place of each variable in `order`.
    parent : (n_cliques,) int64
        -1 at roots; otherwise larger than the clique's own number.
    separator_step : (n_cliques,) int64
        The step of `order` whose `later` set is the clique's separator.
    """
    n = order.size
    position = np.empty(n, np.int64)
    for i in range(n):
        position[order[i]] = i
    heir = np.full(n, -1)  # by step: the next step whose variable is the first of this step's later set
    donor = np.full(n, -1)
    for i in range(n):
        first = n
        for k in range(later_ptr[i], later_ptr[i + 1]):
            first = min(first, position[later[k]])
        if first < n:
            heir[i] = first
            size = later_ptr[i + 1] - later_ptr[i]
            if donor[first] < 0 or size > later_ptr[donor[first] + 1] - later_ptr[donor[first]]:
                donor[first] = i
    head = np.empty(n, np.int64)
    last = np.full(n, -1)
    for i in range(n):
        d = donor[i]
        inherits = d >= 0 and later_ptr[d + 1] - later_ptr[d] == later_ptr[i + 1] - later_ptr[i] + 1
        head[i] = head[d] if inherits else i
        last[head[i]] = i
    number = np.full(n, -1)
    n_cliques = 0
    for i in range(n):  # by last step, so that a clique precedes its parent
        if last[head[i]] == i:
            number[head[i]] = n_cliques
            n_cliques += 1
    clique_of = np.empty(n, np.int64)
    parent = np.full(n_cliques, -1)
    separator_step = np.empty(n_cliques, np.int64)
    for i in range(n):
        c = number[head[i]]
        clique_of[order[i]] = c
        if last[head[i]] == i:
            separator_step[c] = i
            if heir[i] >= 0:
                parent[c] = number[head[heir[i]]]
    return clique_of, position, parent, separator_step
