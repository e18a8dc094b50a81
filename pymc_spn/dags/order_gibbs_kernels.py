"""Gibbs sampling of orders by relocation: a variable is taken out and put back at one of all d places.

The full conditional over the places needs only the weights of the variable and of those it passes, two lookups a place.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import subset_index
from pymc_spn.dags.order_mcmc_kernels import order_log_weight
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def relocate(rng, order, v, lookup, offsets, log_sums, must_precede, log_place, base=0):
    """Redraw the place of the variable at position v of an order.

    Parameters
    ----------
    rng : numpy.random.Generator
    order : (d,) int64
        In and out.
    v : int
        Position of the variable to be moved.
    lookup, offsets, log_sums : arrays of `LocalScores`
    must_precede : (d,) int64
        Places that break it have probability zero.
    log_place : (d,) float64
        Scratch space.
    base : int
        Variables, as bits, that stand before the order's; the order then holds d others.
    """
    d = order.size
    x = order[v]
    for p in range(v, d - 1):
        order[p] = order[p + 1]
    # place p: x stands before order[p]; walking right, order[p] moves in front of x
    bit = 1 << x
    before = base
    total = 0.0
    top = -math.inf
    for p in range(d):
        log_place[p] = total + log_sums[offsets[x] + subset_index(lookup, x, before)]
        if must_precede[x] & ~before:
            log_place[p] = -math.inf
        top = max(top, log_place[p])
        if p == d - 1:
            break
        y = order[p]
        if (must_precede[y] >> x) & 1:
            for q in range(p + 1, d):
                log_place[q] = -math.inf
            break
        # y stands behind x up to place p and before it from place p + 1
        with_x = log_sums[offsets[y] + subset_index(lookup, y, before | bit)]
        without = log_sums[offsets[y] + subset_index(lookup, y, before)]
        if with_x > -math.inf:  # else y has no parent set at any place of x: the start is impossible, let it go on
            total += without - with_x
        before |= 1 << y
    mass = 0.0
    for p in range(d):
        log_place[p] = math.exp(log_place[p] - top) if top > -math.inf else 0.0
        mass += log_place[p]
    left = rng.random() * mass
    place = v
    for p in range(d):
        if log_place[p] > 0.0:
            place = p
            left -= log_place[p]
            if left < 0.0:
                break
    for p in range(d - 1, place, -1):
        order[p] = order[p - 1]
    order[place] = x


@kernel
def sweep(rng, order, lookup, offsets, log_sums, must_precede, log_place, base):
    """d relocations at random positions."""
    for _ in range(order.size):
        relocate(rng, order, rng.integers(0, order.size), lookup, offsets, log_sums, must_precede, log_place, base)


@kernel
def random_order(rng, must_precede, out):
    """A random order that keeps what must precede; not uniform among them."""
    d = out.size
    placed = 0
    for p in range(d):
        n = 0
        for i in range(d):
            if not (placed >> i) & 1 and must_precede[i] & ~placed == 0:
                n += 1
        k = rng.integers(0, n)
        for i in range(d):
            if not (placed >> i) & 1 and must_precede[i] & ~placed == 0:
                if k == 0:
                    out[p] = i
                    placed |= 1 << i
                    break
                k -= 1


@kernel
def independent_orders(rng, n_sweeps, lookup, offsets, log_sums, must_precede, out):
    """Orders from chains of their own, each from a random start.

    Parameters
    ----------
    n_sweeps : int
        Sweeps of d relocations for each order.
    out : (n, d) int64
        Out.
    """
    log_place = np.empty(out.shape[1])
    unchecked = np.zeros(1, np.int64)
    for s in range(out.shape[0]):
        if must_stop_after(100 * n_sweeps * log_place.size**2, unchecked):
            return
        random_order(rng, must_precede, out[s])
        for _ in range(n_sweeps):
            sweep(rng, out[s], lookup, offsets, log_sums, must_precede, log_place, 0)


@kernel
def chain_of_orders(rng, start, thin, lookup, offsets, log_sums, must_precede, out):
    """States of one chain, every `thin` sweeps."""
    log_place = np.empty(out.shape[1])
    unchecked = np.zeros(1, np.int64)
    for s in range(out.shape[0]):
        if must_stop_after(100 * thin * log_place.size**2, unchecked):
            return
        for _ in range(thin):
            sweep(rng, start, lookup, offsets, log_sums, must_precede, log_place, 0)
        out[s] = start


@kernel
def tempered_orders(rng, states, powers, thin, lookup, offsets, log_sums, must_precede, out):
    """States of the first of several replicas, whose weights are powers of the orders', every `thin` rounds.

    In a round each replica is swept once, and neighbours exchange their orders by Metropolis' rule.

    Parameters
    ----------
    rng : numpy.random.Generator
    states : (R, d) int64
        An order for each replica, in and out.
    powers : (R,) float64
        Falling from one.
    thin : int
    log_sums : (R, size) float64
        Those of `LocalScores`, times each power.
    out : (n, d) int64
        Out.

    References
    ----------
    Hukushima and Nemoto (1996), doi:10.1143/JPSJ.65.1604.
    """
    n_replicas, d = states.shape
    log_place, weights = np.empty(d), np.empty(n_replicas)
    unchecked = np.zeros(1, np.int64)
    for s in range(out.shape[0]):
        for k in range(thin):
            if must_stop_after(100 * n_replicas * d * d, unchecked):
                return
            for r in range(n_replicas):
                sweep(rng, states[r], lookup, offsets, log_sums[r], must_precede, log_place, 0)
                weights[r] = order_log_weight(states[r], lookup, offsets, log_sums[0], must_precede)
            for r in range((s * thin + k) % 2, n_replicas - 1, 2):
                gain = (powers[r] - powers[r + 1]) * (weights[r + 1] - weights[r])
                if gain >= 0.0 or rng.random() < math.exp(gain):
                    for p in range(d):
                        states[r, p], states[r + 1, p] = states[r + 1, p], states[r, p]
                    weights[r], weights[r + 1] = weights[r + 1], weights[r]
        out[s] = states[0]
