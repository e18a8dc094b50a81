"""Weights of the sum nodes: their variational posterior, its expectations and its normalising constant.

At finite width it is a Dirichlet with masses ``share + count``. At infinite width the prior is a Dirichlet process,
in the stick-breaking form of Blei and Jordan (2006). Child k of a node takes the share v_k of what the children before
it left, and v_k is Beta(1 + count_k, concentration + counts after k). The children stand by falling counts. Of two
neighbours with counts a and b and T rows behind them, a first is better by the factor (concentration + a + T) /
(concentration + b + T). Sticks behind the last active child keep their prior, so nothing is truncated but the
assignments (Kurihara, Welling and Teh 2007). Each active child of an infinite node also draws its option (split or
palette entry), uniformly.
"""

import math

import numpy as np

from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def child_share(tree, r, option, mass):
    """Dirichlet mass of a child of a finite sum node: products share alike, and so do the copies of an entry."""
    width = tree.width[r]
    if tree.place[r] < 0:
        return mass / width
    n_entries = tree.n_options[r]
    copies = (width - option - 1) // n_entries + 1
    return mass / n_entries / copies


@kernel
def by_falling_count(count):
    """Positions (n,) of the children by falling counts, the earlier first where they are equal."""
    order = np.arange(count.size)
    for i in range(1, count.size):
        moved = order[i]
        j = i
        while j > 0 and count[order[j - 1]] < count[moved]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = moved
    return order


@kernel
def expect_weights(tree, count, mass, log_weight):
    """Expected log weights (E,) of all edges under q(weights) given expected counts.

    Parameters
    ----------
    tree : ActiveTree
    count : (E,) float64
    mass : (2,) float64
        Concentration of sum nodes over several columns and over one.
    log_weight : (E,) float64
        Out.
    """
    for r in range(tree.parent.size):
        alpha = mass[1 if tree.place[r] >= 0 else 0]
        for k in range(tree.node_begin[r], tree.node_begin[r + 1]):
            begin = tree.node_ptr[k]
            end = tree.node_ptr[k + 1]
            rest = count[begin:end].sum()
            if tree.width[r] > 0:
                total = digamma(alpha + rest)
                for e in range(begin, end):
                    log_weight[e] = digamma(child_share(tree, r, tree.option[e], alpha) + count[e]) - total
                continue
            left = 0.0
            for e in by_falling_count(count[begin:end]):
                n = count[begin + e]
                rest = max(rest - n, 0.0)
                total = digamma(1.0 + alpha + n + rest)
                log_weight[begin + e] = left + digamma(1.0 + n) - total
                left += digamma(alpha + rest) - total


@kernel
def mean_weights(tree, count, mass, weight, remainder):
    """Expected weights (E,) of all edges and of the rest of every sum node (V,)."""
    for r in range(tree.parent.size):
        alpha = mass[1 if tree.place[r] >= 0 else 0]
        for k in range(tree.node_begin[r], tree.node_begin[r + 1]):
            begin = tree.node_ptr[k]
            end = tree.node_ptr[k + 1]
            rest = count[begin:end].sum()
            if tree.width[r] > 0:
                total = alpha + rest
                used = 0.0
                for e in range(begin, end):
                    share = child_share(tree, r, tree.option[e], alpha)
                    weight[e] = (share + count[e]) / total
                    used += share
                free = alpha - used
                remainder[k] = free / total if free > 1e-12 * alpha else 0.0
                continue
            left = 1.0
            for e in by_falling_count(count[begin:end]):
                n = count[begin + e]
                rest = max(rest - n, 0.0)
                weight[begin + e] = left * (1.0 + n) / (1.0 + alpha + n + rest)
                left *= (alpha + rest) / (1.0 + alpha + n + rest)
            remainder[k] = left


@kernel
def log_weight_integral(tree, count, mass, which):
    """Log of the integral of prod_e w_e^count_e over the prior of one class of weights, ordered as in q, in nats.

    ``which`` is 0 for sum nodes over several columns, 1 for univariate ones.
    """
    log_p = 0.0
    for r in range(tree.parent.size):
        if (tree.place[r] >= 0) == (which == 1):
            for k in range(tree.node_begin[r], tree.node_begin[r + 1]):
                log_p += log_integral_of_node(tree, r, k, count, mass[which])
    return log_p


@kernel
def log_integral_of_node(tree, r, k, count, alpha):
    """What node k of region r adds to `log_weight_integral`."""
    begin = tree.node_ptr[k]
    end = tree.node_ptr[k + 1]
    if tree.width[r] > 0:
        log_p = math.lgamma(alpha) - math.lgamma(alpha + count[begin:end].sum())
        for e in range(begin, end):
            share = child_share(tree, r, tree.option[e], alpha)
            log_p += math.lgamma(share + count[e]) - math.lgamma(share)
        return log_p
    return log_stick_integral(count[begin:end], alpha, tree.n_options[r])


@kernel
def log_stick_integral(count, alpha, n_options):
    """`log_integral_of_node` at infinite width."""
    rest = count.sum()
    log_p = 0.0
    for e in by_falling_count(count):
        n = count[e]
        rest = max(rest - n, 0.0)
        log_p += math.lgamma(1.0 + n) + math.lgamma(alpha + rest) - math.lgamma(1.0 + alpha + n + rest)
    return log_p + count.size * math.log(alpha / n_options)


@kernel
def rest_of_entries(tree, r, alpha, remainder, out):
    """Share (nodes, entries) of the unoccupied leaves of each palette entry in the nodes of a univariate region.

    ``remainder`` (nodes,) is what `mean_weights` leaves to all of them.
    """
    n_entries = tree.n_options[r]
    free = np.empty(n_entries)
    for node in range(remainder.size):
        k = tree.node_begin[r] + node
        for s in range(n_entries):
            free[s] = alpha / n_entries
        if tree.width[r] > 0:
            for e in range(tree.node_ptr[k], tree.node_ptr[k + 1]):
                free[tree.option[e]] -= child_share(tree, r, tree.option[e], alpha)
            for s in range(n_entries):
                free[s] = free[s] if free[s] > 1e-12 * alpha else 0.0
        total = free.sum()
        for s in range(n_entries):
            out[node, s] = remainder[node] * free[s] / total if total > 0.0 else 0.0
