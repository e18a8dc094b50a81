"""Sums over all orders by dynamic programming over all 2^d prefixes, in linear space.

Weights are scaled by variable so that the whole candidate set is worth one. A prefix whose share underflows is then
worth less than exp(-700) of the best completion; the caller checks that the total is far above that, or turns to log
space.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import subset_index
from pymc_spn.dags.zeta_kernels import fold, sums_inside
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.lanes import LANES, add, flip, lane_sum, load, mul, multiply_add, splat, store, widen

_LANE_BITS = 3  # bits inside a group of eight prefixes
_BLOCK = 64  # groups: 4 kilobytes of prefixes, whose sums stay in the first-level cache while the tables stream by
LEAST = 7  # variables from which on prefixes are worked on in groups of groups


@inner_kernel
def _without(number, bit):
    """A number without one of its bits (given by its place), those above it moved down."""
    return (number & ((1 << bit) - 1)) | ((number >> (bit + 1)) << bit)


@inner_kernel
def _add_products(out, at, source, row, index, factor, n):
    """Add to `n` groups of sums the groups from `source` times their weights."""
    f = splat(factor)
    for g in range(n):
        weight = mul(load(row, index + g), f)
        store(out, at + g, multiply_add(weight, load(out, source + g), load(out, at + g)))


@inner_kernel
def _complete(value, w0, w1, w2):
    """Sums over the three bits inside a group: after three rounds every lane is complete."""
    total = value
    for _ in range(3):
        terms = multiply_add(w2, flip(total, 2), mul(w1, flip(total, 1)))
        total = add(value, multiply_add(w0, flip(total, 0), terms))
    return total


@kernel
def greedy_factors(slots, offsets, sums, precede, out):
    """Inverse sums along an order that takes next the variable that loses least against all its candidates.

    Parameters
    ----------
    slots, offsets : arrays of `LocalScores`
    sums : (offsets[-1],) float64
        In any unit by variable.
    precede : (d, d) bool
        `LocalScores.must_precede`.
    out : (d,) float64
        Out.
    """
    d = out.size
    inside, missing = np.zeros(d, np.int64), np.zeros(d, np.int64)
    for i in range(d):
        for j in range(d):
            missing[i] += precede[i, j]
    for _ in range(d):
        best = -1.0
        chosen = -1
        for i in range(d):
            if missing[i] == 0:
                share = sums[offsets[i] + inside[i]] / sums[offsets[i + 1] - 1]
                if share > best:
                    best = share
                    chosen = i
        out[chosen] = 1.0 / (max(best, 1e-250) * sums[offsets[chosen + 1] - 1])
        missing[chosen] = -1  # placed
        for i in range(d):
            if precede[i, chosen]:
                missing[i] -= 1
            if slots[i, chosen] >= 0:
                inside[i] |= 1 << slots[i, chosen]


@kernel
def sums_over_orders(weights, factors, out, backward):
    """Sum over the orders of each prefix, or over the ways to complete each; all others are candidates of a variable.

    Parameters
    ----------
    weights : (d, 2^(d-1)) float64
        Sums over parent sets inside a prefix, indexed by the prefix without the variable; d is at least `LEAST`.
    factors : (d,) float64
        Multiply the weights of each variable.
    out : (2^d,) float64
        Out; entry 0 is 1, or backward the last.
    backward : bool

    References
    ----------
    Koivisto and Sood (2004), JMLR 5:549-573, section 4.
    """
    d = factors.size
    n = out.size // LANES
    block = min(n, _BLOCK)
    f0, f1, f2, f3 = splat(factors[0]), splat(factors[1]), splat(factors[2]), splat(factors[_LANE_BITS])
    for place in range(0, n, block):
        start = n - block - place if backward else place
        out[start * LANES : (start + block) * LANES] = 0.0
        if place == 0:
            out[out.size - 1 if backward else 0] = 1.0
        for b in range(d - _LANE_BITS):
            bit = 1 << b  # in groups
            if bit >= block and (start & bit != 0) != backward:
                i = b + _LANE_BITS
                _add_products(out, start, start ^ bit, weights[i], _without(start, b), factors[i], block)
        for step in range(0, block, 2):
            pair = start + (block - 2 - step if backward else step)
            low, high = load(out, pair), load(out, pair + 1)
            for b in range(1, d - _LANE_BITS):
                bit = 1 << b
                if bit >= block:
                    break
                if (pair & bit != 0) != backward:
                    source, i = pair ^ bit, b + _LANE_BITS
                    row, index, f = weights[i], _without(pair, b), splat(factors[i])
                    low = multiply_add(mul(load(row, index), f), load(out, source), low)
                    high = multiply_add(mul(load(row, index + 1), f), load(out, source + 1), high)
            half = pair // 2
            w0, w1, w2 = (
                mul(load(weights[0], half), f0),
                mul(load(weights[1], half), f1),
                mul(load(weights[2], half), f2),
            )
            weight = mul(load(weights[_LANE_BITS], half), f3)
            if backward:
                high = _complete(high, widen(w0, 1, 0, 0), widen(w1, 1, 1, 0), widen(w2, 1, 2, 0))
                low = multiply_add(weight, high, low)
                low = _complete(low, widen(w0, 0, 0, 0), widen(w1, 0, 1, 0), widen(w2, 0, 2, 0))
            else:
                low = _complete(low, widen(w0, 0, 0, 1), widen(w1, 0, 1, 1), widen(w2, 0, 2, 1))
                high = multiply_add(weight, low, high)
                high = _complete(high, widen(w0, 1, 0, 1), widen(w1, 1, 1, 1), widen(w2, 1, 2, 1))
            store(out, pair, low)
            store(out, pair + 1, high)


@kernel
def parent_set_posterior(i, prefixes, completions, log_scores, log_unit, out):
    """Posterior of all parent sets of one variable.

    Parameters
    ----------
    i : int
    prefixes, completions : (2^d,) float64
        From `sums_over_orders`.
    log_scores : (2^(d-1),) float64
    log_unit : float
        Log of what one unit of `prefixes` times `completions` stands for, without the variable's own score.
    out : (2^(d-1),) float64
        Out: probabilities.
    """
    _products(i, prefixes, completions, out)
    sums_inside(out, True)
    for m in range(out.size):
        x = log_scores[m] - log_unit
        out[m] = out[m] * fast_exp(x) if x > -708.0 else 0.0


@inner_kernel
def _products(i, prefixes, completions, out):
    """Sums to each prefix without variable i, times those from the prefix with it."""
    bit = 1 << i
    if i < _LANE_BITS:
        for m in range(out.size):
            s = (m & (bit - 1)) | ((m >> i) << (i + 1))
            out[m] = prefixes[s] * completions[s | bit]
        return
    b = i - _LANE_BITS
    bit = 1 << b  # in groups
    for g in range(out.size // LANES):
        s = (g & (bit - 1)) | ((g >> b) << (b + 1))
        store(out, g, mul(load(prefixes, s), load(completions, s + bit)))


@inner_kernel
def _fold_inclusion(table, out):
    """`inclusion` by folding a table, which is lost, one bit at a time."""
    half = table.size
    for back in range(out.size):
        half //= 2
        out[out.size - 1 - back] = fold(table[:half], table[half : 2 * half])


@kernel
def inclusion(probabilities, out):
    """Probability that each candidate is in the set.

    Parameters
    ----------
    probabilities : (2^k,) float64
    out : (k,) float64
        Out.
    """
    low = 3 + _LANE_BITS + _LANE_BITS
    if out.size <= low:
        _fold_inclusion(probabilities.copy(), out)
        return
    within, across = np.zeros(1 << low), np.empty(1 << (out.size - low))
    n = within.size // LANES
    for b in range(across.size):
        total = splat(0.0)
        for g in range(n):
            value = load(probabilities, b * n + g)
            total = add(total, value)
            store(within, g, add(load(within, g), value))
        across[b] = lane_sum(total)
    _fold_inclusion(within, out[:low])
    _fold_inclusion(across, out[low:])


@kernel
def sums_over_orders_restricted(lookup, offsets, weights, factors, out, backward):
    """As `sums_over_orders`, where variables have few candidates, or there are few variables.

    Parameters
    ----------
    lookup : (d, n_bytes, 256) int32
    offsets : (d + 1,) int64
    weights, factors : (offsets[-1],), (d,) float64
    out : (2^d,) float64
        Out.
    backward : bool
    """
    full = out.size - 1
    out[full if backward else 0] = 1.0
    for step in range(1, out.size):
        s = full - step if backward else step
        total = 0.0
        for i in range(factors.size):
            bit = 1 << i
            if (s & bit != 0) != backward:
                total += factors[i] * out[s ^ bit] * weights[offsets[i] + subset_index(lookup, i, s)]
        out[s] = total


@kernel
def parent_set_posterior_restricted(i, lookup, prefixes, completions, log_scores, log_unit, out):
    """As `parent_set_posterior`, where the variable has few candidates."""
    bit = 1 << i
    out[:] = 0.0
    for s in range(prefixes.size):
        if not s & bit:
            out[subset_index(lookup, i, s)] += prefixes[s] * completions[s | bit]
    sums_inside(out, True)
    for m in range(out.size):
        x = log_scores[m] - log_unit
        out[m] *= math.exp(x)
