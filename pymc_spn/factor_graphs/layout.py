"""Index maps of a junction tree: which table entry meets which message entry, in flat arrays.

A clique's axes are ordered by descending place in the elimination order. The separator with the parent, whose variables
are eliminated later, therefore comes first. So a table is a matrix (separator states, own states), and the message to
the parent is its row sum. A message from a child meets the table by dropping axes.
"""

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def clique_variables(clique_of, position, order, separator_step, later_ptr, later):
    """Variables of each clique, separator first, both parts by descending place in the order.

    Returns
    -------
    ptr : (n_cliques + 1,) int64
    variables : int64
    n_separator : (n_cliques,) int64
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
    for v in order:  # own variables from the back: the earliest eliminated is the fastest axis
        c = clique_of[v]
        filled[c] -= 1
        variables[filled[c]] = v
    for c in range(n_cliques):
        step = separator_step[c]
        place = np.sort(-position[later[later_ptr[step] : later_ptr[step + 1]]])
        for k in range(n_separator[c]):
            variables[ptr[c] + k] = order[-place[k]]
    return ptr, variables, n_separator


@inner_kernel
def _fill_map(cards, strides, out):
    """Sum of digit times stride for every entry of a table with these axes, last axis fastest."""
    digits = np.zeros(cards.size, np.int64)
    at = 0
    for e in range(out.size):
        out[e] = at
        for k in range(cards.size - 1, -1, -1):
            digits[k] += 1
            at += strides[k]
            if digits[k] < cards[k]:
                break
            at -= digits[k] * strides[k]
            digits[k] = 0


@kernel
def own_strides(ptr, variables, n_separator, card):
    """Stride of each variable within the own part of the clique that owns it."""
    stride = np.empty(card.size, np.int64)
    for c in range(n_separator.size):
        step = 1
        for k in range(ptr[c + 1] - 1, ptr[c] + n_separator[c] - 1, -1):
            stride[variables[k]] = step
            step *= card[variables[k]]
    return stride


@kernel
def child_maps(children, parent, ptr, variables, n_separator, card, n_rows, n_cols, is_mixed, map_ptr):
    """For each child, the separator entry that meets each entry of its parent.

    Over all entries where the separator reaches into the parent's own separator (``is_mixed``), else over the parent's
    own states. ``map_ptr`` is indexed by place in ``children``.
    """
    out = np.empty(map_ptr[-1], np.int32)
    slot = np.full(card.size, -1)
    for i in range(children.size):
        d = children[i]
        c = parent[d]
        step = 1
        for k in range(ptr[d] + n_separator[d] - 1, ptr[d] - 1, -1):
            slot[variables[k]] = step
            step *= card[variables[k]]
        begin = ptr[c] if is_mixed[d] else ptr[c] + n_separator[c]
        n = ptr[c + 1] - begin
        cards = np.empty(n, np.int64)
        strides = np.zeros(n, np.int64)
        for k in range(n):
            v = variables[begin + k]
            cards[k] = card[v]
            if slot[v] >= 0:
                strides[k] = slot[v]
        _fill_map(cards, strides, out[map_ptr[i] : map_ptr[i + 1]])
        for k in range(ptr[d], ptr[d] + n_separator[d]):
            slot[variables[k]] = -1
    return out


@kernel
def mixed_children(parent, ptr, variables, n_separator, clique_of):
    """Whether a child's separator holds a variable that its parent does not own."""
    mixed = np.zeros(parent.size, np.bool_)
    for d in range(parent.size):
        for k in range(ptr[d], ptr[d] + n_separator[d]):
            if clique_of[variables[k]] != parent[d]:
                mixed[d] = True
    return mixed


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


@kernel
def factor_maps(leaders, ptr, variables, card, factor_ptr, factors, scope_ptr, scope, term_ptr, map_ptr):
    """For each factor of each table's leading clique, the factor entry that meets each clique entry.

    ``term_ptr`` runs over tables, ``map_ptr`` over their factors.
    """
    out = np.empty(map_ptr[-1], np.int32)
    stride = np.zeros(card.size, np.int64)
    for t in range(leaders.size):
        c = leaders[t]
        cards = card[variables[ptr[c] : ptr[c + 1]]]
        for i in range(factor_ptr[c], factor_ptr[c + 1]):
            f = factors[i]
            step = 1
            for k in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
                stride[scope[k]] = step
                step *= card[scope[k]]
            term = term_ptr[t] + i - factor_ptr[c]
            _fill_map(cards, stride[variables[ptr[c] : ptr[c + 1]]], out[map_ptr[term] : map_ptr[term + 1]])
            for k in range(scope_ptr[f], scope_ptr[f + 1]):
                stride[scope[k]] = 0
    return out
