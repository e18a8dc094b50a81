"""Sets of at most 64 variables as the bits of an int64, and subsets of a variable's candidate parents as indices.

Sets of more variables have no bits here: what works by `slots_of` takes any number.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pymc_spn.numerics.kernel_options import inner_kernel


@intrinsic
def popcount(typingctx, x):
    """Number of set bits of an int64."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def lowest_bit(typingctx, x):
    """Position of the lowest set bit of an int64 that is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@inner_kernel
def subset_index(lookup, i, prefix):
    """Index, among the subsets of i's candidates, of those candidates that a prefix holds.

    Parameters
    ----------
    lookup : (d, n_bytes, 256) int32
        From `index_lookup`.
    i : int
    prefix : int64
        Bit j set means that variable j is in the prefix.
    """
    index = 0
    for byte in range(lookup.shape[1]):
        index |= lookup[i, byte, (prefix >> (8 * byte)) & 255]
    return index


@inner_kernel
def members_of(variables):
    """Numbers of the variables of a set, ascending."""
    out = np.empty(popcount(variables), np.int64)
    for k in range(out.size):
        out[k] = lowest_bit(variables)
        variables &= variables - 1
    return out


def index_lookup(candidates, n_candidates):
    """Table behind `subset_index`: what each byte of a prefix contributes to each variable's subset index.

    Parameters
    ----------
    candidates : (d, K) int64
        Row i: candidate parents of variable i in ascending order.
    n_candidates : (d,) int64

    Returns
    -------
    (d, n_bytes, 256) int32
    """
    d = n_candidates.size
    lookup = np.zeros((d, (d + 7) // 8, 256), np.int32)
    holds = np.arange(256, dtype=np.int32) >> np.arange(8, dtype=np.int32)[:, None] & 1  # bit, byte
    for k in range(n_candidates.max()):
        children = np.flatnonzero(n_candidates > k)
        parents = candidates[children, k]
        lookup[children, parents >> 3] |= holds[parents & 7] << np.int32(k)
    return lookup


def slots_of(candidates):
    """Bit of each variable in the subset indices of each.

    Parameters
    ----------
    candidates : (d, K) int64
        As in `index_lookup`.

    Returns
    -------
    (d, d) int8
        At [i, j]: k where ``candidates[i, k]`` is j; -1 where j is not a candidate of i.
    """
    out = np.full((len(candidates),) * 2, -1, np.int8)
    child, place = np.nonzero(candidates >= 0)
    out[child, candidates[child, place]] = place
    return out
