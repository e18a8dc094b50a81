"""Beam search over prefixes: level by level, keep those that promise most weight.

The promise of a prefix is the weight of its orders among what was kept times an estimate of its completions. That
estimate is what an earlier lattice knows, or the weight of completing it along reference orders.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import subset_index
from pymc_spn.dags.graph_kernels import find_slot
from pymc_spn.dags.zeta_kernels import log_add
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def completion(prefix, references, lookup, offsets, log_sums):
    """Log weight of completing a prefix along each reference order, summed over the references."""
    d = references.shape[1]
    best = -math.inf
    for r in range(references.shape[0]):
        held = prefix
        total = 0.0
        for p in range(d):
            i = references[r, p]
            if not (held >> i) & 1:
                total += log_sums[offsets[i] + subset_index(lookup, i, held)]
                held |= 1 << i
        best = log_add(best, total)
    return best


@kernel
def remember(masks, values, keys, kept):
    """Fill an open-addressing table (size a power of two, zeroed) with non-empty prefixes and a value each."""
    for t in range(masks.size):
        if masks[t] != 0:
            slot = find_slot(keys, masks[t])
            keys[slot] = masks[t]
            kept[slot] = values[t]


@kernel
def beam_level(
    level,
    width,
    held,
    sums,
    references,
    lookup,
    offsets,
    log_sums,
    must_precede,
    known_keys,
    known_values,
    keys,
    values,
):
    """Prefixes one variable longer, at most `width`, and the log weights of the kept orders to each.

    Parameters
    ----------
    level : int
        Variables in each prefix so far.
    width : int
    held, sums : (n,) int64 and float64
        Prefixes of the level, and log weights of the kept orders to them.
    references : (r, d) int64
        Orders.
    lookup, offsets, log_sums, must_precede : arrays of `LocalScores`
    known_keys, known_values : (2^k,) int64 and float64
        Table of `remember` with log weights of completions.
    keys, values : (2^k,) int64 and float64
        Scratch, at least ``2 n (d - level)`` entries each.

    Returns
    -------
    held, sums : arrays
        Empty if no variable can stand next.
    """
    d = references.shape[1]
    knows = False
    for slot in range(known_keys.size):
        knows = knows or known_keys[slot] != 0
    keys[:] = 0
    found = np.empty(held.size * (d - level), np.int64)  # slots in use
    n = 0
    unchecked = np.zeros(1, np.int64)
    for s in range(held.size):
        if must_stop_after(50 * d, unchecked):
            return held[:0], sums[:0]
        prefix = held[s]
        for i in range(d):
            if (prefix >> i) & 1 or must_precede[i] & ~prefix:
                continue
            weight = log_sums[offsets[i] + subset_index(lookup, i, prefix)]
            if weight == -math.inf:
                continue
            larger = prefix | (1 << i)
            slot = find_slot(keys, larger)
            if keys[slot] == 0:
                keys[slot] = larger
                values[slot] = sums[s] + weight
                found[n] = slot
                n += 1
            else:
                values[slot] = log_add(values[slot], sums[s] + weight)
    if n == 0:
        return held[:0], sums[:0]
    kept = n
    chosen = np.empty(n, np.bool_)
    chosen[:] = True
    if n > width:
        promise = np.empty(n)
        for k in range(n):
            if must_stop_after(20 * references.size, unchecked):
                return held[:0], sums[:0]
            prefix = keys[found[k]]
            slot = find_slot(known_keys, prefix)
            if known_keys[slot] == prefix:
                promise[k] = values[found[k]] + known_values[slot]
            else:
                ahead = completion(prefix, references, lookup, offsets, log_sums)
                for i in range(d if knows else 0):
                    if (prefix >> i) & 1:
                        continue
                    larger = prefix | (1 << i)
                    slot = find_slot(known_keys, larger)
                    if known_keys[slot] == larger:
                        weight = log_sums[offsets[i] + subset_index(lookup, i, prefix)]
                        ahead = log_add(ahead, weight + known_values[slot])
                promise[k] = values[found[k]] + ahead
        bar = np.partition(promise, n - width)[n - width]
        kept = 0
        for k in range(n):
            chosen[k] = promise[k] >= bar and kept < width
            if chosen[k]:
                kept += 1
    larger_held = np.empty(kept, np.int64)
    larger_sums = np.empty(kept)
    m = 0
    for k in range(n):
        if chosen[k]:
            larger_held[m] = keys[found[k]]
            larger_sums[m] = values[found[k]]
            m += 1
    return larger_held, larger_sums
