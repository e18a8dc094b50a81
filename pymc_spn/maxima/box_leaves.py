"""Leaves over intervals: ranges of their values in logs and of their first two derivatives.

A *packed* lists the nodes of a circuit, children before parents: sums, products and leaves. Leaves are univariate
densities or masses, whose branches stand in the files of the families, or elliptical ones over several columns
(`box_ellipses`). `box_kernels` passes what is found here up to the root.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.leaves import explicit_leaves
from pymc_spn.leaves.family_codes import CATEGORICAL, ROUNDED_COUNT, ROUNDED_GAUSSIAN
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE
from pymc_spn.leaves.leaf_dispatch import by_family
from pymc_spn.leaves.rounded_gaussian import COUNT_BOXES, ROUNDED_BOXES
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel, inner_kernel, kernel

# other leaves have the number of their family, levels that of categorical ones
SUM, PRODUCT, CONSTANT, ELLIPTICAL = -1, -2, -3, -4
NOTHING = IMPOSSIBLE
BOXES = explicit_leaves.BOXES | {ROUNDED_GAUSSIAN: ROUNDED_BOXES, ROUNDED_COUNT: COUNT_BOXES}


def _piece(name):
    """A piece of every family that has it, by code."""
    return [(code, getattr(boxes, name)) for code, boxes in BOXES.items() if getattr(boxes, name) is not None]


def _no_pull(p, x, share):
    return 0.0, 0.0


def _no_range(p, low, high, shift, out):
    return


def _no_turns(p):
    return math.nan, math.nan


def _yes():
    return True


def _no():
    return False


# log density or mass at x of a leaf with parameters (a, b, c, e); neither CONSTANT nor CATEGORICAL
log_leaf = by_family("log_leaf", "kind", _piece("log_value"), inner_kernel, __file__)
# where a leaf with parameters p is largest; not for CATEGORICAL
mode_of = by_family("mode_of", "kind", _piece("mode"), inner_kernel, __file__)
# two places where a leaf with parameters p may be largest or smallest inside an interval
turns_of = by_family("turns_of", "kind", _piece("turns"), inner_kernel, __file__, otherwise=_no_turns)
has_turns = by_family(
    "has_turns", "kind", [(code, _yes) for code, _ in _piece("turns")], inner_kernel, __file__, otherwise=_no
)
ranges_of = by_family("ranges_of", "kind", _piece("ranges"), inner_kernel, __file__, otherwise=_no_range)
# force and stiffness of a step of minorise-maximise, see `ascent_kernels.climb`
pull_of = by_family("pull_of", "kind", _piece("pull"), bare_inner_kernel, __file__, otherwise=_no_pull)
# whether a leaf has no density below 0
is_one_sided = by_family(
    "is_one_sided",
    "kind",
    [(code, _yes) for code, boxes in BOXES.items() if boxes.is_one_sided],
    inner_kernel,
    __file__,
    otherwise=_no,
)


class PackedCircuit(NamedTuple):
    """Nodes of a circuit with its parameters, children before parents; the last node is the root.

    Parameters
    ----------
    kind : (n,) int8
        SUM, PRODUCT, ELLIPTICAL or, of another leaf, the number of its family; that of all leaves on levels is
        CATEGORICAL.
    pointer : (n + 1,) int64
        Children of node i: ``child[pointer[i]:pointer[i + 1]]``.
    child : (e,) int64
    log_weight : (e,) float64
        Of edges below sums, 0 below products.
    column : (n,) int64
        Column of a leaf, else -1; -1 for a CONSTANT and an ELLIPTICAL leaf, too.
    parameter : (n, 4) float64
        CONSTANT (log value, ., ., .); leaves as `Boxes.row` of their family has them. CATEGORICAL (first entry in
        `level`, number of levels, ., .). ELLIPTICAL (first entry in `shape`, first entry in `several`, number of
        columns d, log density at the location).
    level : (m,) float64
        Log probabilities of the levels of all CATEGORICAL leaves.
    several : (c,) int64
        Columns of all ELLIPTICAL leaves.
    shape : (w,) float64
        Of each ELLIPTICAL leaf: degrees of freedom, location (d,), diagonal of the scale matrix (d,), diagonal of its
        inverse (d,). Then column by column (d, d) the inverse of its Cholesky factor.
    """

    kind: np.ndarray
    pointer: np.ndarray
    child: np.ndarray
    log_weight: np.ndarray
    column: np.ndarray
    parameter: np.ndarray
    level: np.ndarray
    several: np.ndarray
    shape: np.ndarray


@bare_inner_kernel
def leaf_log(packed, i, x):
    """Log density or mass of leaf i at x."""
    p = packed.parameter[i]
    if packed.kind[i] == CONSTANT:
        return p[0]
    if packed.kind[i] == CATEGORICAL:
        return packed.level[int(p[0]) + int(x)] if x < p[1] else NOTHING
    return log_leaf(packed.kind[i], p[0], p[1], p[2], p[3], x)


@bare_inner_kernel
def leaf_mode(packed, i):
    """Where leaf i is largest; not for CATEGORICAL."""
    return mode_of(packed.kind[i], packed.parameter[i])


@bare_kernel
def leaf_log_range(packed, i, low, high):
    """Smallest and largest log value of leaf i over [low, high]."""
    kind = packed.kind[i]
    if kind == CATEGORICAL:
        least = math.inf
        most = NOTHING
        for k in range(int(low), int(high) + 1):
            v = leaf_log(packed, i, float(k))
            least = min(least, v)
            most = max(most, v)
        return least, most
    # the edge of a one-sided support belongs to the box on its right
    if low < 0.0 and is_one_sided(kind):
        return NOTHING, NOTHING
    at_low = leaf_log(packed, i, low)
    if low == high:
        return at_low, at_low
    at_high = leaf_log(packed, i, high)
    least = min(at_low, at_high)
    most = max(at_low, at_high)
    turn = leaf_mode(packed, i)
    other = turn
    if has_turns(kind):
        turn, other = turns_of(kind, packed.parameter[i])
    for k in range(1 if other == turn else 2):
        x = turn if k == 0 else other
        if low < x < high:
            at_turn = leaf_log(packed, i, x)
            least = min(least, at_turn)
            most = max(most, at_turn)
    return least, most


@kernel
def modes_of(packed):
    """Mode (n,) of every leaf, NaN off the leaves and for levels."""
    out = np.full(packed.kind.size, np.nan)
    for i in range(out.size):
        if packed.kind[i] >= 0 and packed.kind[i] != CATEGORICAL:
            out[i] = leaf_mode(packed, i)
    return out


@kernel
def derivative_ranges(kind, p, low, high, shift, out):
    """Ranges (4,) of first and second derivative of a continuous leaf with parameters p (4,), scaled by exp(-shift)."""
    out[:] = 0.0
    if not (low < 0.0 and is_one_sided(kind)):
        ranges_of(kind, p, low, high, shift, out)
