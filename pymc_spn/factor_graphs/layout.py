"""Index maps of a junction tree: which table entry meets which message entry, in flat arrays.

A clique's axes are ordered by descending place in the elimination order. The separator with the parent, whose variables
are eliminated later, therefore comes first. So a table is a matrix (separator states, own states), and the message to
the parent is its row sum. A message from a child meets the table by dropping axes.
"""

import numpy as np

from pymc_spn.numerics.kernel_options import kernel


@kernel
def clique_variables(clique_of, position, order, separator_step, later_ptr, later, card):
    """Variables of each clique, separator first, both parts by descending place in the order.

    Returns
    -------
    ptr : (n_cliques + 1,) int64
    variables : int64
    n_separator : (n_cliques,) int64
    own_stride : (n_variables,) int64
        Of each variable within the own part of the clique that owns it.
    n_own : (n_cliques,) int64
        States of the own part.
    """
    n_cliques = separator_step.size
    n_separator = np.empty(n_cliques, np.int64)
    count = np.zeros(n_cliques + 1, np.int64)
    for c in range(n_cliques):
        step = separator_step[c]
        n_separator[c] = later_ptr[step + 1] - later_ptr[step]
        count[c + 1] = n_separator[c]
    for v in order:
        count[clique_of[v] + 1] += 1
    ptr = np.cumsum(count)
    variables = np.empty(ptr[-1], np.int64)
    filled = ptr[1:].copy()
    own_stride, n_own = np.empty(card.size, np.int64), np.ones(n_cliques, np.int64)
    for v in order:  # own variables from the back: the earliest eliminated is the fastest axis
        c = clique_of[v]
        filled[c] -= 1
        variables[filled[c]] = v
        own_stride[v] = n_own[c]
        n_own[c] *= card[v]
    for c in range(n_cliques):
        step = separator_step[c]
        place = np.sort(-position[later[later_ptr[step] : later_ptr[step + 1]]])
        for k in range(n_separator[c]):
            variables[ptr[c] + k] = order[-place[k]]
    return ptr, variables, n_separator, own_stride, n_own


@kernel
def axis_maps(begin, end, first, last, variables, scope, card, map_ptr):
    """For each of several tables, the entry of another one that meets each of its own.

    Parameters
    ----------
    begin, end : (n_maps,) int64
        Where the axes of a table stand in ``variables``.
    first, last : (n_maps,) int64
        Where those of the other stand in ``scope``; it may lack axes of the table.
    map_ptr : (n_maps + 1,) int64
        Where each map begins in the result.
    """
    out = np.empty(map_ptr[-1], np.int32)
    stride = np.zeros(card.size, np.int64)
    width = np.max(end - begin) if begin.size else 0
    cards, strides, digits = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64)
    for i in range(begin.size):
        step = 1
        for k in range(last[i] - 1, first[i] - 1, -1):
            stride[scope[k]] = step
            step *= card[scope[k]]
        n = end[i] - begin[i]
        for k in range(n):
            v = variables[begin[i] + k]
            cards[k], strides[k], digits[k] = card[v], stride[v], 0
        at = 0  # sum of digit times stride, the last axis fastest
        for e in range(map_ptr[i], map_ptr[i + 1]):
            out[e] = at
            for k in range(n - 1, -1, -1):
                digits[k] += 1
                at += strides[k]
                if digits[k] < cards[k]:
                    break
                at -= digits[k] * strides[k]
                digits[k] = 0
        for k in range(first[i], last[i]):
            stride[scope[k]] = 0
    return out


@kernel
def table_signatures(ptr, variables, n_separator, card, factor_ptr, factors, scope_ptr, scope, offset):
    """What a clique's table depends on, as integers: cards, then offset and axes of each factor; with a hash."""
    n_cliques = ptr.size - 1
    size = np.zeros(n_cliques + 1, np.int64)
    for c in range(n_cliques):
        size[c + 1] = 1 + ptr[c + 1] - ptr[c]
        for i in range(factor_ptr[c], factor_ptr[c + 1]):
            f = factors[i]
            size[c + 1] += 2 + scope_ptr[f + 1] - scope_ptr[f]
    sig_ptr = np.cumsum(size)
    sig = np.empty(sig_ptr[-1], np.int64)
    place = np.full(card.size, -1)
    hashes = np.empty(n_cliques, np.uint64)
    for c in range(n_cliques):
        at = sig_ptr[c]
        sig[at] = n_separator[c]
        at += 1
        for k in range(ptr[c], ptr[c + 1]):
            place[variables[k]] = k - ptr[c]
            sig[at] = card[variables[k]]
            at += 1
        for i in range(factor_ptr[c], factor_ptr[c + 1]):
            f = factors[i]
            sig[at] = -1
            sig[at + 1] = offset[f]
            at += 2
            for k in range(scope_ptr[f], scope_ptr[f + 1]):
                sig[at] = place[scope[k]]
                at += 1
        h = np.uint64(14695981039346656037)
        for k in range(sig_ptr[c], sig_ptr[c + 1]):
            h = (h ^ np.uint64(sig[k])) * np.uint64(1099511628211)
            h ^= h >> np.uint64(29)
        hashes[c] = h
    return sig_ptr, sig, hashes


@kernel
def share_tables(sig_ptr, sig, hashes, by_hash):
    """First clique with an equal signature, for every clique; ``by_hash`` sorts the hashes stably."""
    first = np.arange(hashes.size)
    leader = -1
    for i in range(hashes.size):
        c = by_hash[i]
        if leader >= 0 and hashes[leader] == hashes[c]:
            n = sig_ptr[c + 1] - sig_ptr[c]
            same = n == sig_ptr[leader + 1] - sig_ptr[leader]
            if same:
                for k in range(n):
                    if sig[sig_ptr[c] + k] != sig[sig_ptr[leader] + k]:
                        same = False
                        break
            if same:
                first[c] = leader
                continue
        leader = c
    return first
