"""Bounds of a circuit by one concave quadratic, and the ellipsoid to which they confine what is dense enough.

Where every leaf is bounded by itself, each may be largest at a point of its own. Here all of them share the point.
Over a box the log of a Gaussian or Student t leaf is at most a constant less a multiple of its square. A sum of nodes
is at most a sum of chords of exponentials of their logs, the log of a sum at most its tangent. So the log value of the
root is at most K - Q(x), with a convex quadratic Q. Where it exceeds a value already found, x lies in an ellipsoid
about the point at which Q is least. That narrows the box and the ranges of the squares, and with these the chords
become tighter.

Tuy (2016), Convex Analysis and Global Optimization, doi:10.1007/978-3-319-31484-6, on such relaxations.
"""

import math

import numpy as np

from pymc_spn.leaves.family_codes import GAUSSIAN, STUDENT_T
from pymc_spn.maxima.ascent_kernels import descend, upward
from pymc_spn.maxima.box_ellipses import (
    SCRATCH,
    column_begin,
    inverse_entry,
    largest_square,
    least_square,
    log_of_square,
    pull_of_square,
    slope_of_square,
    square_at,
)
from pymc_spn.maxima.box_leaves import CONSTANT, ELLIPTICAL, NOTHING, PRODUCT, SUM, leaf_log_range
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

ENOUGH = 0.7  # what a round must leave of the gap at most, for another one
FLAT = 1e-9  # logs whose range is below it have a tangent in place of a chord
SLACK = 1.0 + 1e-9  # of lengths, for rounding
LEAST_REFERENCE = 1e-2  # of the largest value of a sum, at which its log has the tangent
COUNTS = 1e-10  # nats that the range of a leaf's square must be worth to be narrowed


@kernel
def quadratic_bound(packed, low, high, is_discrete, x, best, n_rounds):
    """Upper bound of the log value over a box (D,), which shrinks in place to what may exceed the value ``best``.

    Parameters
    ----------
    packed : PackedCircuit
    low, high : (D,) float64
        Finite.
    is_discrete : (D,) bool
        Columns whose ends stay.
    x : (D,) float64
        A point of large value, inside the box or not.
    best : float
        Outside what is left of the box the log value is below it.
    n_rounds : int
    """
    n, n_columns = packed.kind.size, low.size
    least, most, here = np.empty(n), np.empty(n), np.empty(n)
    square_low, square_high = np.zeros(n), np.full(n, np.inf)
    constant, slope = np.zeros(n), np.zeros(n)  # a leaf's log is at most constant - slope * square
    of_log, of_value = np.empty(n), np.empty(n)
    scratch = np.empty((SCRATCH, n_columns))
    number = np.full(n_columns, -1)
    columns = np.empty(n_columns, np.int64)
    point = np.empty(n_columns)
    for d in range(n_columns):
        point[d] = min(max(x[d], low[d]), high[d])
    bound = reach = np.inf
    for _ in range(n_rounds):
        ranges_of_nodes(packed, low, high, square_low, square_high, least, most, constant, slope, scratch)
        if most[n - 1] <= best:
            return best
        upward(packed, point, here, scratch)
        k_total = coefficients_of_leaves(packed, least, most, here, constant, best, of_log, of_value)
        n_free = 0
        for d in range(n_columns):
            number[d] = -1
            if high[d] > low[d]:
                number[d] = n_free
                columns[n_free] = d
                n_free += 1
        form = np.zeros((n_free, n_free))
        force = np.zeros(n_columns)
        base = quadratic_of_leaves(packed, of_log, slope, point, number, form, force, scratch)
        gradient = force.copy()
        reference = point.copy()
        whole = form.copy()
        descend(columns[:n_free], form, force, np.zeros(n_columns), low, high, point)
        value = base
        for a in range(n_free):
            away = point[columns[a]] - reference[columns[a]]
            value -= 2.0 * gradient[columns[a]] * away
            for b in range(n_free):
                value += away * whole[a, b] * (point[columns[b]] - reference[columns[b]])
        for a in range(n_free):
            d = columns[a]
            value += min(-2.0 * force[d] * (low[d] - point[d]), -2.0 * force[d] * (high[d] - point[d]))
        new = k_total - value - best
        bound = min(bound, most[n - 1])
        if new == new:  # not where something overflowed
            bound = min(bound, new + best)
        if bound <= best:
            return best
        if not new < ENOUGH * reach:
            return bound
        reach = new
        if not narrow(
            packed, whole, columns[:n_free], number, point, reach, is_discrete, of_log, slope, square_low, square_high,
            low, high, scratch,
        ):  # fmt: skip
            return bound
        for d in range(n_columns):
            if low[d] > high[d]:
                return best
            point[d] = min(max(point[d], low[d]), high[d])
    return bound


@inner_kernel
def ranges_of_nodes(packed, low, high, square_low, square_high, least, most, constant, slope, scratch):
    """Smallest and largest log value of all nodes, and the lines in their squares that bound the leaves' logs."""
    for i in range(packed.kind.size):
        first, last, kind = packed.pointer[i], packed.pointer[i + 1], packed.kind[i]
        if kind == SUM:
            least[i] = log_sum(packed, least, first, last)
            most[i] = log_sum(packed, most, first, last)
        elif kind == PRODUCT:
            least[i] = most[i] = 0.0
            for e in range(first, last):
                least[i] += least[packed.child[e]]
                most[i] += most[packed.child[e]]
            least[i], most[i] = max(least[i], NOTHING), max(most[i], NOTHING)
        elif kind == ELLIPTICAL:
            square_low[i] = max(square_low[i], least_square(packed, i, low, high, scratch))
            square_high[i] = max(min(square_high[i], largest_square(packed, i, low, high)), square_low[i])
            least[i] = log_of_square(packed, i, square_high[i])
            most[i] = log_of_square(packed, i, square_low[i])
            steepest = 0.5 * pull_of_square(packed, i, square_low[i])
            constant[i], slope[i] = line(square_low[i], square_high[i], least[i], most[i], steepest)
        elif kind == CONSTANT:
            least[i] = most[i] = constant[i] = packed.parameter[i, 0]
        else:
            d = packed.column[i]
            least[i], most[i] = leaf_log_range(packed, i, low[d], high[d])
            constant[i] = most[i]
            slope[i] = 0.0
            if kind == GAUSSIAN or kind == STUDENT_T:
                centre, width = packed.parameter[i, 0], packed.parameter[i, 1]
                a, b = (low[d] - centre) / width, (high[d] - centre) / width
                square_low[i] = 0.0 if a <= 0.0 <= b else min(a * a, b * b)
                square_high[i] = max(a * a, b * b)
                dof = packed.parameter[i, 2]
                steepest = 0.5 if kind == GAUSSIAN else 0.5 * (dof + 1.0) / (dof + square_low[i])
                constant[i], slope[i] = line(square_low[i], square_high[i], least[i], most[i], steepest)


@inner_kernel
def log_sum(packed, value, first, last):
    top = NOTHING
    for e in range(first, last):
        top = max(top, value[packed.child[e]] + packed.log_weight[e])
    if top <= 0.5 * NOTHING:
        return NOTHING
    total = 0.0
    for e in range(first, last):
        total += math.exp(value[packed.child[e]] + packed.log_weight[e] - top)
    return top + math.log(total)


@inner_kernel
def line(square_low, square_high, least, most, steepest):
    """Constant and slope of a line above a falling convex function of a square: its chord, or a tangent."""
    width = square_high - square_low
    slope = (most - least) / width if width > FLAT * (1.0 + square_low) else steepest
    if not 0.0 <= slope < math.inf:
        return most, 0.0
    return most + slope * square_low, slope


@inner_kernel
def coefficients_of_leaves(packed, least, most, here, constant, best, of_log, of_value):
    """Sets what each leaf's log counts in a bound of the root's log, and returns the constant K.

    What is passed down counts in a node's log, or in its value over the largest one: sums below sums need no tangent.
    """
    n = packed.kind.size
    of_log[:] = 0.0
    of_value[:] = 0.0
    of_log[n - 1] = 1.0
    total = 0.0
    for i in range(n - 1, -1, -1):
        if of_log[i] == 0.0 and of_value[i] == 0.0:
            continue
        first, last = packed.pointer[i], packed.pointer[i + 1]
        if packed.kind[i] == SUM:
            if of_log[i] > 0.0:
                at = max(here[i] - most[i], best - most[i]) if i == n - 1 else here[i] - most[i]
                reference = max(math.exp(min(at, 0.0)), LEAST_REFERENCE)
                total += of_log[i] * (most[i] + math.log(reference) - 1.0)
                of_value[i] += of_log[i] / reference
            for e in range(first, last):
                c = packed.child[e]
                share = of_value[i] * math.exp(packed.log_weight[e] + most[c] - most[i])
                if share == 0.0:
                    continue
                if packed.kind[c] == SUM:
                    of_value[c] += share
                    continue
                width = most[c] - least[c]
                chord = -math.expm1(-width) / width if width > FLAT else 1.0
                total += share * (1.0 - chord * most[c])
                of_log[c] += share * chord
        elif packed.kind[i] == PRODUCT:
            for e in range(first, last):
                of_log[packed.child[e]] += of_log[i]
        else:
            total += of_log[i] * constant[i]
    return total


@inner_kernel
def quadratic_of_leaves(packed, of_log, slope, point, number, form, force, scratch):
    """Add form (k, k) and force (D,), half the gradient, of the weighed squares at a point, and return their sum."""
    total = 0.0
    for i in range(packed.kind.size):
        weight = of_log[i] * slope[i]
        if weight == 0.0 or packed.kind[i] == SUM or packed.kind[i] == PRODUCT:
            continue
        if packed.kind[i] != ELLIPTICAL:
            d = packed.column[i]
            width = packed.parameter[i, 1]
            away = (point[d] - packed.parameter[i, 0]) / width
            total += weight * away * away
            if number[d] >= 0:
                force[d] -= weight * away / width
                form[number[d], number[d]] += weight / (width * width)
            continue
        total += weight * square_at(packed, i, point, scratch)
        own, size = int(packed.parameter[i, 1]), int(packed.parameter[i, 2])
        for j in range(size):
            c = packed.several[own + j]
            if number[c] < 0:
                continue
            force[c] -= weight * slope_of_square(packed, i, j, scratch[1])
            for m in range(j + 1):
                other = number[packed.several[own + m]]
                if other >= 0:
                    entry = weight * inverse_entry(packed, i, j, m)
                    form[number[c], other] += entry
                    if m < j:
                        form[other, number[c]] += entry
    return total


@inner_kernel
def narrow(
    packed, form, columns, number, centre, reach, is_discrete, of_log, slope, square_low, square_high, low, high,
    scratch,
):  # fmt: skip
    """Narrow a box and the squares' ranges to the ellipsoid ``(x - centre)' form (x - centre) <= reach``, in place.

    Columns that the form does not hold stay as they are. Returns False where it is singular in others.
    """
    k = columns.size
    # the inverse of the Cholesky factor: x - centre = inverse' v with |v|^2 at most the reach
    factor = np.zeros((k, k))
    inverse = np.zeros((k, k))
    for a in range(k):
        for b in range(a + 1):
            total = form[a, b]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            if a != b:
                factor[a, b] = total / factor[b, b]
            elif form[a, a] == 0.0:  # its whole row is 0
                factor[a, a] = 1.0
            elif total > 1e-10 * form[a, a]:
                factor[a, a] = math.sqrt(total)
            else:
                return False
    for a in range(k):
        inverse[a, a] = 1.0 / factor[a, a]
        for b in range(a):
            total = 0.0
            for c in range(b, a):
                total -= factor[a, c] * inverse[c, b]
            inverse[a, b] = total / factor[a, a]
    length = math.sqrt(reach) * SLACK
    for a in range(k):
        d = columns[a]
        if is_discrete[d] or form[a, a] == 0.0:
            continue
        total = 0.0
        for b in range(a, k):
            total += inverse[b, a] * inverse[b, a]
        half = length * math.sqrt(total)
        low[d] = max(low[d], centre[d] - half)
        high[d] = min(high[d], centre[d] + half)
    turned = np.empty((low.size, k))
    product = np.empty((low.size, low.size))
    other = np.empty((low.size, low.size))
    for i in range(packed.kind.size):
        if packed.kind[i] != ELLIPTICAL:
            continue
        if not of_log[i] * slope[i] * (square_high[i] - square_low[i]) > COUNTS:
            continue
        here = math.sqrt(square_at(packed, i, centre, scratch))
        own, size = int(packed.parameter[i, 1]), int(packed.parameter[i, 2])
        is_held = True
        for j in range(size):
            a = number[packed.several[own + j]]
            is_held &= a < 0 or form[a, a] > 0.0
        if not is_held:
            continue
        for r in range(size):  # the factor of the leaf in the ellipsoid's coordinates
            for b in range(k):
                turned[r, b] = 0.0
            for j in range(r + 1):
                a = number[packed.several[own + j]]
                if a < 0:
                    continue
                entry = packed.shape[column_begin(packed, i, j) + r]
                for b in range(a + 1, k):
                    turned[r, b] += entry * inverse[b, a]
                turned[r, a] += entry * inverse[a, a]
        for r in range(size):
            for s in range(r + 1):
                total = 0.0
                for b in range(k):
                    total += turned[r, b] * turned[s, b]
                product[r, s] = product[s, r] = total
        # the largest eigenvalue is at most the eighth root of the trace of the eighth power
        for r in range(size):
            for s in range(r + 1):
                total = 0.0
                for b in range(size):
                    total += product[r, b] * product[b, s]
                other[r, s] = other[s, r] = total
        trace = 0.0
        for r in range(size):
            for s in range(size):
                total = 0.0
                for b in range(size):
                    total += other[r, b] * other[b, s]
                trace += total * total
        wide = length * math.sqrt(trace**0.125) * SLACK
        square_low[i] = max(square_low[i], max(here - wide, 0.0) ** 2)
        square_high[i] = min(square_high[i], (here + wide) ** 2)
    return True
