"""Sums over all orders by dynamic programming over all 2^d prefixes, in linear space.

Weights are scaled by variable so that the whole candidate set is worth one. A prefix whose share underflows is then
worth less than exp(-700) of the best completion; the caller checks that the total is far above that, or turns to log
space.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import subset_index
from pymc_spn.dags.zeta_kernels import FIRST_LEVEL, SECOND_LEVEL, SMALL, first_level, fold, higher_bits, superset_sums
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.lanes import LANES, add, flip, lane_sum, load, mul, multiply_add, narrow, splat, store, widen

_LANE_BITS = 3  # bits inside a group of eight prefixes
_BLOCK = 64  # groups: 4 kilobytes of prefixes, whose sums stay in the first-level cache while the tables stream by
_LEAST = 5  # variables from which on prefixes are worked on in pairs of groups


@inner_kernel
def _without(number, bit):
    """A number without one of its bits (given by its place), those above it moved down."""
    return (number & ((1 << bit) - 1)) | ((number >> (bit + 1)) << bit)


@inner_kernel
def _small_forward(weights, factors, out):
    out[0] = 1.0
    for s in range(1, out.size):
        total = 0.0
        for i in range(factors.size):
            if (s >> i) & 1:
                total += factors[i] * weights[i, _without(s, i)] * out[s ^ (1 << i)]
        out[s] = total


@inner_kernel
def _small_backward(weights, factors, out):
    out[out.size - 1] = 1.0
    for back in range(1, out.size):
        s = out.size - 1 - back
        total = 0.0
        for i in range(factors.size):
            if not (s >> i) & 1:
                total += factors[i] * weights[i, _without(s, i)] * out[s | (1 << i)]
        out[s] = total


@inner_kernel
def _add_products(out, at, source, row, index, factor, n):
    """Add to `n` groups of sums the groups from `source` times their weights."""
    f = splat(factor)
    for g in range(n):
        weight = mul(load(row, index + g), f)
        store(out, at + g, multiply_add(weight, load(out, source + g), load(out, at + g)))


@inner_kernel
def _inner_terms(value, w0, w1, w2):
    """One round of the sums over the three bits inside a group; after three rounds every lane is complete."""
    terms = multiply_add(w2, flip(value, 2), mul(w1, flip(value, 1)))
    return multiply_add(w0, flip(value, 0), terms)


@kernel
def forward(weights, factors, out):
    """Sum over the orders of each prefix; every variable has all others as candidates.

    Parameters
    ----------
    weights : (d, 2^(d-1)) float64
        Sums over parent sets inside a prefix, indexed by the prefix without the variable.
    factors : (d,) float64
        Multiply the weights of each variable.
    out : (2^d,) float64
        Out; entry 0 is 1.

    References
    ----------
    Koivisto and Sood (2004), JMLR 5:549-573, section 4.
    """
    d = factors.size
    if d < _LEAST:
        _small_forward(weights, factors, out)
        return
    n = out.size // LANES
    block = min(n, _BLOCK)
    f0, f1, f2 = splat(factors[0]), splat(factors[1]), splat(factors[2])
    for start in range(0, n, block):
        out[start * LANES : (start + block) * LANES] = 0.0
        if start == 0:
            out[0] = 1.0
        for b in range(d - _LANE_BITS):
            bit = 1 << b  # in groups
            if bit >= block and start & bit:
                source, i = start ^ bit, b + _LANE_BITS
                _add_products(out, start, source, weights[i], _without(source, b), factors[i], block)
        for pair in range(start, start + block, 2):
            low, high = load(out, pair), load(out, pair + 1)
            for b in range(1, d - _LANE_BITS):
                bit = 1 << b
                if bit >= block:
                    break
                if pair & bit:
                    source, i = pair ^ bit, b + _LANE_BITS
                    row, index, f = weights[i], _without(source, b), splat(factors[i])
                    low = multiply_add(mul(load(row, index), f), load(out, source), low)
                    high = multiply_add(mul(load(row, index + 1), f), load(out, source + 1), high)
            half = pair // 2
            w0, w1, w2 = (
                mul(load(weights[0], half), f0),
                mul(load(weights[1], half), f1),
                mul(load(weights[2], half), f2),
            )
            a0, a1, a2 = widen(w0, 0, 0, 1), widen(w1, 0, 1, 1), widen(w2, 0, 2, 1)
            value = add(low, _inner_terms(low, a0, a1, a2))
            value = add(low, _inner_terms(value, a0, a1, a2))
            low = add(low, _inner_terms(value, a0, a1, a2))
            store(out, pair, low)
            weight = mul(load(weights[_LANE_BITS], half), splat(factors[_LANE_BITS]))
            high = multiply_add(weight, low, high)
            a0, a1, a2 = widen(w0, 1, 0, 1), widen(w1, 1, 1, 1), widen(w2, 1, 2, 1)
            value = add(high, _inner_terms(high, a0, a1, a2))
            value = add(high, _inner_terms(value, a0, a1, a2))
            store(out, pair + 1, add(high, _inner_terms(value, a0, a1, a2)))


@kernel
def backward(weights, factors, out):
    """Sum over the ways to complete each prefix.

    Parameters
    ----------
    weights, factors : (d, 2^(d-1)), (d,) float64
    out : (2^d,) float64
        Out; the last entry is 1.
    """
    d = factors.size
    if d < _LEAST:
        _small_backward(weights, factors, out)
        return
    n = out.size // LANES
    block = min(n, _BLOCK)
    f0, f1, f2 = splat(factors[0]), splat(factors[1]), splat(factors[2])
    for back in range(0, n, block):
        start = n - block - back
        out[start * LANES : (start + block) * LANES] = 0.0
        if back == 0:
            out[out.size - 1] = 1.0
        for b in range(d - _LANE_BITS):
            bit = 1 << b
            if bit >= block and not start & bit:
                i = b + _LANE_BITS
                _add_products(out, start, start ^ bit, weights[i], _without(start, b), factors[i], block)
        for step in range(0, block, 2):
            pair = start + block - 2 - step
            low, high = load(out, pair), load(out, pair + 1)
            for b in range(1, d - _LANE_BITS):
                bit = 1 << b
                if bit >= block:
                    break
                if not pair & bit:
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
            a0, a1, a2 = widen(w0, 1, 0, 0), widen(w1, 1, 1, 0), widen(w2, 1, 2, 0)
            value = add(high, _inner_terms(high, a0, a1, a2))
            value = add(high, _inner_terms(value, a0, a1, a2))
            high = add(high, _inner_terms(value, a0, a1, a2))
            store(out, pair + 1, high)
            weight = mul(load(weights[_LANE_BITS], half), splat(factors[_LANE_BITS]))
            low = multiply_add(weight, high, low)
            a0, a1, a2 = widen(w0, 0, 0, 0), widen(w1, 0, 1, 0), widen(w2, 0, 2, 0)
            value = add(low, _inner_terms(low, a0, a1, a2))
            value = add(low, _inner_terms(value, a0, a1, a2))
            store(out, pair, add(low, _inner_terms(value, a0, a1, a2)))


@kernel
def parent_set_posterior(i, prefixes, completions, log_scores, log_unit, out):
    """Posterior of all parent sets of one variable.

    Parameters
    ----------
    i : int
    prefixes, completions : (2^d,) float64
        From `forward` and `backward`.
    log_scores : (2^(d-1),) float64
    log_unit : float
        Log of what one unit of `prefixes` times `completions` stands for, without the variable's own score.
    out : (2^(d-1),) float64
        Out: probabilities.
    """
    if out.size < SMALL:
        _products(i, prefixes, completions, out)
        superset_sums(out)
    else:
        _product_sums(i, prefixes, completions, out)
    for m in range(out.size):
        x = log_scores[m] - log_unit
        out[m] = out[m] * fast_exp(x) if x > -708.0 else 0.0


@inner_kernel
def _products(i, prefixes, completions, out):
    """Sums to each prefix without variable i, times those from the prefix with it."""
    bit = 1 << i
    for start in range(0, out.size, bit):
        for s in range(bit):
            out[start + s] = prefixes[2 * start + s] * completions[2 * start + bit + s]


@inner_kernel
def _grouped_products(i, prefixes, completions, out, start, stop):
    """`_products` for the groups from `start` to `stop`."""
    if i >= _LANE_BITS:
        b = i - _LANE_BITS
        bit = 1 << b
        for g in range(start, stop):
            s = (g & (bit - 1)) | ((g >> b) << (b + 1))
            store(out, g, mul(load(prefixes, s), load(completions, s + bit)))
        return
    for g in range(start, stop):
        p, q = load(prefixes, 2 * g), load(prefixes, 2 * g + 1)
        r, s = load(completions, 2 * g), load(completions, 2 * g + 1)
        if i == 0:
            store(out, g, mul(narrow(p, q, 0, 0), narrow(r, s, 0, 1)))
        elif i == 1:
            store(out, g, mul(narrow(p, q, 1, 0), narrow(r, s, 1, 1)))
        else:
            store(out, g, mul(narrow(p, q, 2, 0), narrow(r, s, 2, 1)))


@inner_kernel
def _product_sums(i, prefixes, completions, out):
    """Sums over supersets of `_products`, which are taken block by block."""
    n = out.size // LANES
    first, second = min(n, FIRST_LEVEL), min(n, SECOND_LEVEL)
    for start in range(0, n, second):
        for low in range(start, start + second, first):
            _grouped_products(i, prefixes, completions, out, low, low + first)
            first_level(out, low, low + first, True)
        higher_bits(out, start, start + second, first, True)
    higher_bits(out, 0, n, second, True)


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
def forward_restricted(lookup, offsets, weights, factors, out):
    """As `forward`, where variables have few candidates.

    Parameters
    ----------
    lookup : (d, n_bytes, 256) int32
    offsets : (d + 1,) int64
    weights, factors : (offsets[-1],), (d,) float64
    out : (2^d,) float64
        Out.
    """
    d = offsets.size - 1
    out[0] = 1.0
    for s in range(1, out.size):
        total = 0.0
        for i in range(d):
            if (s >> i) & 1:
                source = s ^ (1 << i)
                total += factors[i] * out[source] * weights[offsets[i] + subset_index(lookup, i, source)]
        out[s] = total


@kernel
def backward_restricted(lookup, offsets, weights, factors, out):
    """As `backward`, where variables have few candidates."""
    d = offsets.size - 1
    full = out.size - 1
    out[full] = 1.0
    for back in range(1, out.size):
        s = full - back
        value = 0.0
        for i in range(d):
            if not (s >> i) & 1:
                value += factors[i] * out[s | (1 << i)] * weights[offsets[i] + subset_index(lookup, i, s)]
        out[s] = value


@kernel
def parent_set_posterior_restricted(i, lookup, prefixes, completions, log_scores, log_unit, out):
    """As `parent_set_posterior`, where the variable has few candidates."""
    bit = 1 << i
    out[:] = 0.0
    for s in range(prefixes.size):
        if not s & bit:
            out[subset_index(lookup, i, s)] += prefixes[s] * completions[s | bit]
    superset_sums(out)
    for m in range(out.size):
        x = log_scores[m] - log_unit
        out[m] *= math.exp(x)
