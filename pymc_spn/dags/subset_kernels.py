"""Sums over all orders by dynamic programming over all 2^d prefixes, in linear space.

Weights are scaled by variable so that the whole candidate set is worth one. A prefix whose share underflows is then
worth less than exp(-700) of the best completion; the caller checks that the total is far above that, or turns to log
space.
"""

import math

from pymc_spn.dags.bit_kernels import subset_index
from pymc_spn.dags.zeta_kernels import fold, superset_sums
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import kernel

_BITS = 6  # prefixes that differ only in the lowest bits are worked on together


@kernel
def forward(weights, factors, out):
    """Sum over the orders of each prefix; every variable has all others as candidates.

    Parameters
    ----------
    weights : (d, 2^(d-1)) float64
        Scaled sums over parent sets inside a prefix, indexed by the prefix without the variable.
    factors : (d,) float64
        Multiply the weights of each variable.
    out : (2^d,) float64
        Out; entry 0 is 1.

    References
    ----------
    Koivisto and Sood (2004), JMLR 5:549-573, section 4.
    """
    d = weights.shape[0]
    low = min(_BITS, d)
    size = 1 << low
    out[:] = 0.0
    out[0] = 1.0
    for high in range(0, out.size, size):
        for i in range(low, d):
            bit = 1 << i
            if high & bit:
                source = high ^ bit
                index = (source & (bit - 1)) | ((source >> (i + 1)) << i)
                row = weights[i]
                factor = factors[i]
                for s in range(size):
                    out[high + s] += factor * out[source + s] * row[index + s]
        for s in range(1, size):
            total = out[high + s]
            for i in range(low):
                if (s >> i) & 1:
                    source = high + s - (1 << i)
                    index = (source & ((1 << i) - 1)) | ((source >> (i + 1)) << i)
                    total += factors[i] * out[source] * weights[i, index]
            out[high + s] = total


@kernel
def backward(weights, factors, out):
    """Sum over the ways to complete each prefix.

    Parameters
    ----------
    weights, factors : (d, 2^(d-1)), (d,) float64
    out : (2^d,) float64
        Out; the last entry is 1.
    """
    d = weights.shape[0]
    low = min(_BITS, d)
    size = 1 << low
    out[:] = 0.0
    out[out.size - 1] = 1.0
    for block in range(out.size // size):
        high = out.size - size * (block + 1)
        for i in range(low, d):
            bit = 1 << i
            if not high & bit:
                index = (high & (bit - 1)) | ((high >> (i + 1)) << i)
                row = weights[i]
                factor = factors[i]
                for s in range(size):
                    out[high + s] += factor * out[high + bit + s] * row[index + s]
        for back in range(size):
            s = size - 1 - back
            value = out[high + s]
            here = high + s
            for i in range(low):
                if not (s >> i) & 1:
                    index = (here & ((1 << i) - 1)) | ((here >> (i + 1)) << i)
                    value += factors[i] * out[here + (1 << i)] * weights[i, index]
            out[here] = value


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
    bit = 1 << i
    for start in range(0, out.size, bit):
        prefix = 2 * start
        for s in range(bit):
            out[start + s] = prefixes[prefix + s] * completions[prefix + bit + s]
    superset_sums(out)
    for m in range(out.size):
        x = log_scores[m] - log_unit
        out[m] = out[m] * fast_exp(x) if x > -708.0 else 0.0


@kernel
def inclusion(probabilities, scratch, out):
    """Probability that each candidate is in the set, by folding the table one bit at a time.

    Parameters
    ----------
    probabilities : (2^k,) float64
    scratch : (2^(k-1),) float64
    out : (k,) float64
        Out.
    """
    half = probabilities.size // 2
    if half:
        scratch[:half] = probabilities[:half]
        out[out.size - 1] = fold(scratch[:half], probabilities[half:])
    for back in range(1, out.size):
        half //= 2
        out[out.size - 1 - back] = fold(scratch[:half], scratch[half : 2 * half])


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
