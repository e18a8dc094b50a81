"""Gibbs sampling of orders by relocation: a variable is taken out and put back at one of all d places.

The full conditional over the places needs only the weights of the variable and of those that it is a candidate parent
of. What stands before each variable is carried along as a subset index, so that a set of any size costs the same.
"""

import math

import numpy as np

from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

NOTHING = 50.0  # nats below the best place, from where a place has no weight beside it in floating point


@inner_kernel
def add_before(order, slots, inside):
    """Add, to the subset index of each variable of an order, those of the order that stand before it.

    Parameters
    ----------
    order : (d,) int64
    slots : (D, D) int8
        From `LocalScores`.
    inside : (D,) int64
        In and out.
    """
    for p in range(1, order.size):
        i = order[p]
        for q in range(p):
            k = slots[i, order[q]]
            if k >= 0:
                inside[i] |= 1 << k


@inner_kernel
def weight_inside(order, inside, offsets, log_sums):
    """Log weight of an order with parent sets summed out."""
    total = 0.0
    for i in order:
        total += log_sums[offsets[i] + inside[i]]
    return total


@inner_kernel
def take_out(order, v, slots, inside):
    """Move the variable at position v to the end, as if nothing stood behind it; its subset index is left empty of d.

    Parameters
    ----------
    order : (d,) int64
        In and out.
    v : int
    slots, inside
        As in `add_before`; in and out.
    """
    d = order.size
    x = order[v]
    for p in range(v):
        k = slots[x, order[p]]
        if k >= 0:
            inside[x] &= ~(1 << k)
    for p in range(v, d - 1):
        y = order[p + 1]
        order[p] = y
        k = slots[y, x]
        if k >= 0:
            inside[y] &= ~(1 << k)
    order[d - 1] = x


@inner_kernel
def put_back(order, place, slots, inside):
    """Move the last variable of an order, which `take_out` has made ready, to a place."""
    d = order.size
    x = order[d - 1]
    for p in range(place):
        k = slots[x, order[p]]
        if k >= 0:
            inside[x] |= 1 << k
    for p in range(d - 1, place, -1):
        y = order[p - 1]
        order[p] = y
        k = slots[y, x]
        if k >= 0:
            inside[y] |= 1 << k
    order[place] = x


@inner_kernel
def weigh_places(order, slots, offsets, tables, precede, log_place, inside):
    """Log weight, up to a constant, of each place of the last variable, which `take_out` has made ready.

    Parameters
    ----------
    order, slots, inside
        As in `add_before`.
    offsets : (D + 1,) int64
    tables : (offsets[-1],) float64
        Weight of each variable by the subset index of what stands before it: log sums, or maxima.
    precede : (D, D) bool
        ``precede[i, j]``: j stands before i in every order. Places that break it have no weight.
    log_place : (d,) float64
        Out.

    Returns
    -------
    float
        The largest.
    """
    d = order.size
    x = order[d - 1]
    index = inside[x]
    total = 0.0
    first, end = 0, d
    for p in range(d):
        log_place[p] = total + tables[offsets[x] + index]
        if p == d - 1:
            break
        y = order[p]
        if precede[y, x]:
            end = p + 1
            break
        if precede[x, y]:
            first = p + 1
        k = slots[y, x]
        if k >= 0:  # y stands behind x up to place p and before it from place p + 1
            with_x = tables[offsets[y] + (inside[y] | (1 << k))]
            if with_x > -math.inf:  # else y has no parent set at any place of x: the start is impossible, let it go on
                total += tables[offsets[y] + inside[y]] - with_x
        k = slots[x, y]
        if k >= 0:
            index |= 1 << k
    top = -math.inf
    for p in range(d):
        if p < first or p >= end:
            log_place[p] = -math.inf
        top = max(top, log_place[p])
    return top


@inner_kernel
def relocate(rng, order, v, slots, offsets, log_sums, precede, log_place, inside):
    """Redraw the place of the variable at position v of an order.

    Parameters
    ----------
    rng : numpy.random.Generator
    order : (d,) int64
        In and out.
    v : int
        Position of the variable to be moved.
    slots, offsets, log_sums, precede, log_place, inside
        As in `weigh_places`.
    """
    d = order.size
    take_out(order, v, slots, inside)
    top = weigh_places(order, slots, offsets, log_sums, precede, log_place, inside)
    mass = 0.0
    for p in range(d):
        log_place[p] = math.exp(log_place[p] - top) if log_place[p] > top - NOTHING else 0.0
        mass += log_place[p]
    left = rng.random() * mass
    place = v
    for p in range(d):
        if log_place[p] > 0.0:
            place = p
            left -= log_place[p]
            if left < 0.0:
                break
    put_back(order, place, slots, inside)


@kernel
def sweep(rng, order, slots, offsets, log_sums, precede, log_place, inside):
    """d relocations at random positions."""
    for _ in range(order.size):
        relocate(rng, order, rng.integers(0, order.size), slots, offsets, log_sums, precede, log_place, inside)


@kernel
def random_order(rng, members, precede, out):
    """A random order of some variables, given ascending, that keeps what must precede; not uniform among them."""
    missing = np.zeros(precede.shape[0], np.int64)
    for i in members:
        for j in members:
            missing[i] += precede[i, j]
    for p in range(members.size):
        n = 0
        for i in members:
            if missing[i] == 0:
                n += 1
        k = rng.integers(0, n)
        for i in members:
            if missing[i] == 0:
                if k == 0:
                    out[p] = i
                    missing[i] = -1  # placed
                    for j in members:
                        if precede[j, i]:
                            missing[j] -= 1
                    break
                k -= 1


@kernel
def chain_of_orders(rng, states, powers, thin, slots, offsets, log_sums, precede, out):
    """States of a chain, every `thin` rounds: of the first of replicas whose weights are powers of the orders'.

    In a round each replica is swept once, and neighbours exchange their orders by Metropolis' rule. A chain without
    replicas has one power.

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
    inside = np.zeros((n_replicas, d), np.int64)
    for r in range(n_replicas):
        add_before(states[r], slots, inside[r])
    unchecked = np.zeros(1, np.int64)
    for s in range(out.shape[0]):
        for k in range(thin):
            if must_stop_after(100 * n_replicas * d * d, unchecked):
                return
            for r in range(n_replicas):
                sweep(rng, states[r], slots, offsets, log_sums[r], precede, log_place, inside[r])
                weights[r] = weight_inside(states[r], inside[r], offsets, log_sums[0])
            for r in range((s * thin + k) % 2, n_replicas - 1, 2):
                gain = (powers[r] - powers[r + 1]) * (weights[r + 1] - weights[r])
                if gain >= 0.0 or rng.random() < math.exp(gain):
                    for p in range(d):
                        states[r, p], states[r + 1, p] = states[r + 1, p], states[r, p]
                        inside[r, p], inside[r + 1, p] = inside[r + 1, p], inside[r, p]
                    weights[r], weights[r + 1] = weights[r + 1], weights[r]
        out[s] = states[0]


@kernel
def climb(order, slots, offsets, maxima, precede):
    """Put each variable in turn at its best place until none moves; returns the log weight that is reached.

    Parameters
    ----------
    order : (d,) int64
        In and out.
    maxima : (offsets[-1],) float64
        Largest log score of each variable over all subsets of each of its sets.
    """
    d = order.size
    log_place, inside = np.empty(d), np.zeros(d, np.int64)
    add_before(order, slots, inside)
    best = weight_inside(order, inside, offsets, maxima)
    unchecked = np.zeros(1, np.int64)
    moved = True
    while moved:
        moved = False
        for x in range(d):
            if must_stop_after(20 * d, unchecked):
                return best
            v = 0
            while order[v] != x:
                v += 1
            take_out(order, v, slots, inside)
            top = weigh_places(order, slots, offsets, maxima, precede, log_place, inside)
            place = v
            if top > log_place[v]:
                place = 0
                while log_place[place] < top:
                    place += 1
            put_back(order, place, slots, inside)
            value = weight_inside(order, inside, offsets, maxima)
            if value > best + 1e-9:
                best = value
                moved = True
    return best
