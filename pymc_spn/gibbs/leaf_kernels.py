"""Conjugate leaves in the sampler: statistics and collapsed predictive, one leaf or all leaves of a row.

A continuous leaf is kept as five numbers with which its log predictive density is ``log_scale - power * log1p((y -
centre)**2 * curvature + (y + offset) * slope)``. This single formula vectorises over slots. It holds the Student t of a
Gaussian leaf (slope 0) and the Lomax of an Exponential one (curvature 0). A log-normal leaf is a Gaussian one at u =
log(y + offset), less the Jacobian u.

A whole number stands for its cell. Its log likelihood under a Gaussian leaf is the mean log density over the cell,
log N(y) - precision * cell_variance / 2. It is conjugate, since it adds cell_variance to the sum of squares. It is
never above the log mass of the cell, so that no leaf earns from numbers that repeat. In the predictive it is a factor.
Questions take the mass of the cell under the same posterior instead (`cell_masses.log_whole_number`). The formulas of a
family stand in its file (`leaves.conjugate_pieces`). Source: Yokoi and Sato (2024), Table 8.
"""

import math

import numpy as np

from pymc_spn.gibbs.family_kernels import (
    add_to_sums,
    is_located,
    is_of_logs,
    is_real,
    log_density_at,
    log_predictive_of,
    posterior_of,
    predictive_of,
)
from pymc_spn.gibbs.network import CELLS, EMPTY_LEAF, LEVELS, LOGS, VECTOR
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.elementary import fast_exp, fast_log1p, half_step_log_gamma, larger
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_inner_kernel, bare_kernel, copied_kernel


def install_priors(palette, prior):
    """Copy the priors (E, 4) of the columns' entries to all places; `refresh_leaves` then works out what follows."""
    new = prior[palette.entry_source]
    has_moved = palette.prior[:, 2] != new[:, 2]
    palette.half_step[
        palette.source[np.repeat(np.arange(palette.source.size), np.diff(palette.entry_ptr))][has_moved]
    ] = 0.0
    palette.prior[:] = new


@bare_inner_kernel
def refresh_leaf(palette, leaves, d, slot, n):
    """Predictive of a continuous or count leaf from its statistics; ``slot`` is global, ``n`` its number of data."""
    e = leaves.entry[slot]
    family = palette.family[e]
    prior = palette.prior[e]
    p0, p1, p2, p3 = posterior_of(
        family, float(n), leaves.s1[slot], leaves.s2[slot], prior[0], prior[1], prior[2], prior[3]
    )
    cell = palette.cell_variance[d] if palette.column_kind[d] < CELLS else 0.0
    found = predictive_of(family, p0, p1, p2, p3, palette.half_step[palette.source[d], n], cell)
    leaves.log_scale[slot], leaves.power[slot], leaves.centre[slot], leaves.curvature[slot], leaves.slope[slot] = found


@bare_kernel
def refresh_leaves(palette, leaves, is_used):
    """Tables of half steps where they are empty, and predictives of all leaves that are in use (L,)."""
    for c in range(palette.place_ptr.size - 1):
        d = palette.place_ptr[c]
        if palette.half_step[c, 0] == 0.0:
            for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
                if is_located(palette.family[e]):
                    for n in range(palette.half_step.shape[1]):
                        palette.half_step[c, n] = half_step_log_gamma(palette.prior[e, 2] + 0.5 * n)
                    break
    for d in range(leaves.begin.size):
        for i in range(leaves.begin[d], leaves.begin[d] + leaves.capacity[d]):
            if is_used[i] and palette.family[leaves.entry[i]] != CATEGORICAL:
                refresh_leaf(palette, leaves, d, i, leaves.n_data[i])


@bare_inner_kernel
def add_value(palette, leaves, d, slot, n, y, sign):
    """Add (sign 1) or remove (sign -1) a value; ``n`` counts the data after it. Does not refresh the predictive."""
    e = leaves.entry[slot]
    family = palette.family[e]
    if family == CATEGORICAL:
        leaves.level_count[leaves.level_begin[d] + int(y) * leaves.capacity[d] + slot] += sign
    elif n == 0:
        leaves.s1[slot] = 0.0  # an empty leaf is exactly empty: no rounding is left behind
        leaves.s2[slot] = 0.0
    else:
        offset = palette.offset[d]
        u = math.log(y + offset) if is_of_logs(family) else y
        leaves.s1[slot], leaves.s2[slot] = add_to_sums(
            family, leaves.s1[slot], leaves.s2[slot], sign, u, offset, palette.cell_variance[d], palette.prior[e, 2]
        )


@copied_kernel
def level_mass(palette, e, level):
    """Mass of a level under the prior of an entry."""
    return palette.prior[e, 0] * palette.level_factor[palette.entry_source[e], level]


@bare_inner_kernel
def log_predictive(palette, leaves, d, slot, y):
    """Log predictive of one leaf of any family at a coded value."""
    e = leaves.entry[slot]
    family = palette.family[e]
    log_scale = leaves.log_scale[slot]
    if is_real(family):  # the usual case reads four numbers and asks nothing
        return log_predictive_of(
            family, y, 0.0, log_scale, leaves.power[slot], leaves.centre[slot], leaves.curvature[slot], 0.0, 0.0
        )
    if family == CATEGORICAL:
        k = leaves.level_count[leaves.level_begin[d] + int(y) * leaves.capacity[d] + slot]
        return math.log((k + level_mass(palette, e, int(y))) / (leaves.n_data[slot] + palette.prior[e, 1]))
    if log_scale == EMPTY_LEAF:
        return EMPTY_LEAF  # freed, with parameters of 0, of which gamma functions are infinite
    offset = palette.offset[d]
    u = y
    if is_of_logs(family):
        if y + offset <= 0.0:
            return EMPTY_LEAF
        u = math.log(y + offset)
    found = log_predictive_of(
        family,
        u,
        offset,
        log_scale,
        leaves.power[slot],
        leaves.centre[slot],
        leaves.curvature[slot],
        leaves.slope[slot],
        palette.prior[e, 2],
    )
    return found - u if is_of_logs(family) else found


@bare_called_kernel
def log_predictive_without(palette, leaves, d, slot, y):
    """Log predictive of a leaf at a value that it holds, as if the value were taken out; nothing is changed."""
    e = leaves.entry[slot]
    family = palette.family[e]
    prior = palette.prior[e]
    n = leaves.n_data[slot] - 1
    if n == 0:
        return log_predictive(palette, leaves, d, leaves.begin[d] + e - palette.entry_ptr[d], y)
    if family == CATEGORICAL:
        k = leaves.level_count[leaves.level_begin[d] + int(y) * leaves.capacity[d] + slot] - 1.0
        return math.log((k + level_mass(palette, e, int(y))) / (n + prior[1]))
    offset = palette.offset[d]
    u = math.log(y + offset) if is_of_logs(family) else y
    x = u if is_located(family) else u + offset
    cell = palette.cell_variance[d]
    p0, p1, p2, p3 = posterior_of(
        family, float(n), leaves.s1[slot] - x, leaves.s2[slot] - x * x - cell, prior[0], prior[1], prior[2], prior[3]
    )
    found = log_density_at(family, u, offset, p0, p1, p2, p3, palette.half_step[palette.source[d], n], cell)
    return found - u if is_of_logs(family) else found


@copied_kernel
def evaluate_leaves(tree, palette, edges, leaves, scratch, y):
    """Leaf values of one row: ``value`` in linear space, ``log_value`` in logs, and the sum of the shifts.

    Each column is shifted by its largest leaf value, wherever it stands in the tree. Every induced tree has exactly one
    leaf for each column, so the shifts multiply the root by a known constant.

    Parameters
    ----------
    tree, palette, edges, leaves, scratch
        Groups of a `Network`.
    y : (P,) float64
        Coded row, NaN where missing.

    Returns
    -------
    float
        Sum of the shifts of the observed columns, in nats.
    """
    evaluate_leaf_logs(tree, palette, edges, leaves, scratch, y)
    return shift_leaves(tree, palette, edges, scratch)


@bare_called_kernel
def evaluate_leaf_logs(tree, palette, edges, leaves, scratch, y):
    """The logs alone, in ``log_value``; of levels the probabilities, in ``edge_value``."""
    in_logs = False
    for d in range(y.size):
        r = tree.leaf_region[d]
        if scratch.missing[r] or palette.column_kind[d] != VECTOR:
            in_logs |= palette.column_kind[d] == LOGS
            continue
        begin = edges.begin[r]
        end = begin + edges.top[r]
        # slices start at zero: only then does LLVM know that no index is negative, and vectorises
        argument_of(
            y[d],
            palette.offset[d],
            leaves.centre[begin:end],
            leaves.curvature[begin:end],
            leaves.slope[begin:end],
            scratch.scaled[begin:end],
        )
    if in_logs:
        arguments_in_logs(tree, palette, edges, leaves, scratch, y)
    first = -1  # slots of neighbouring columns in one loop, with the few that are not in use
    last = 0
    for d in range(y.size + 1):
        r = tree.leaf_region[d] if d < y.size else 0
        if scratch.missing[r] and d < y.size:
            continue
        if d < y.size and (palette.column_kind[d] == VECTOR or palette.column_kind[d] == LOGS):
            first = edges.begin[r] if first < 0 else first
            last = edges.begin[r] + edges.top[r]
        elif first >= 0:
            log_density_of(
                leaves.log_scale[first:last],
                leaves.power[first:last],
                scratch.scaled[first:last],
                scratch.log_value[first:last],
            )
            first = -1
    for d in range(y.size):
        r = tree.leaf_region[d]
        if scratch.missing[r]:
            continue
        begin = edges.begin[r]
        end = begin + edges.top[r]
        kind = palette.column_kind[d]
        if kind == LEVELS:
            row = leaves.level_begin[d] + int(y[d]) * leaves.capacity[d]
            alpha = level_mass(palette, palette.entry_ptr[d], int(y[d]))
            total = palette.prior[palette.entry_ptr[d], 1]
            count = leaves.level_count[row + begin : row + end]
            shares_of_level(count, leaves.n_data[begin:end], alpha, total, scratch.edge_value[begin:end])
        elif kind != VECTOR:
            if kind == LOGS:
                subtract_logs(palette, leaves, scratch, d, y[d], begin, end)
            else:
                for i in range(begin, end):
                    scratch.log_value[i] = log_predictive(palette, leaves, d, i, y[d])


@copied_kernel
def shares_of_level(count, n, alpha, total, out):
    for i in range(out.size):
        out[i] = (count[i] + alpha) / (n[i] + total)


@bare_called_kernel
def logs_of_levels(tree, palette, edges, leaves, scratch, y):
    """What `evaluate_leaf_logs` leaves out: the logs of levels, which nothing has lost to underflow."""
    for d in range(y.size):
        r = tree.leaf_region[d]
        if palette.column_kind[d] == LEVELS and not scratch.missing[r] and y[d] == y[d]:
            for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                scratch.log_value[i] = log_predictive(palette, leaves, d, i, y[d])


@bare_called_kernel
def shift_leaves(tree, palette, edges, scratch):
    """Leaf values of the observed columns from their logs; returns the sum of the shifts."""
    shift = 0.0
    first = -1
    last = 0
    n_columns = palette.place_ptr.size - 1
    for c in range(n_columns + 1):
        d = palette.place_ptr[c] if c < n_columns else 0
        r = tree.leaf_region[d]
        if c < n_columns and scratch.missing[r]:
            scratch.column_shift[c] = 0.0
            continue
        if c < n_columns and palette.column_kind[d] != LEVELS:
            scratch.column_shift[c] = shift_column(tree, palette, edges, scratch, c)
            first = edges.begin[r] if first < 0 else first
            r = tree.leaf_region[palette.place_ptr[c + 1] - 1]
            last = edges.begin[r] + edges.top[r]
        elif first >= 0:  # the slots of neighbouring columns in one loop
            exponentiate(scratch.scaled[first:last], scratch.edge_value[first:last])
            first = -1
        if c < n_columns:
            if palette.column_kind[d] == LEVELS:
                scratch.column_shift[c] = scale_levels(tree, palette, edges, scratch, c)
            shift += scratch.column_shift[c]
    return shift


@copied_kernel
def scale_levels(tree, palette, edges, scratch, c):
    """Divide the probabilities of a level by the largest of them; returns its log."""
    largest = 0.0
    for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
        begin = edges.begin[tree.leaf_region[d]]
        largest = larger(largest, largest_share(scratch.edge_value[begin : begin + edges.top[tree.leaf_region[d]]]))
    inverse = 1.0 / largest
    for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
        begin = edges.begin[tree.leaf_region[d]]
        scale(scratch.edge_value[begin : begin + edges.top[tree.leaf_region[d]]], inverse)
    return math.log(largest)


@copied_kernel
def largest_share(share):
    largest = 0.0
    for i in range(share.size):
        largest = larger(largest, share[i])
    return largest


@copied_kernel
def scale(share, factor):
    for i in range(share.size):
        share[i] *= factor


@copied_kernel
def shift_column(tree, palette, edges, scratch, c):
    """Subtract the largest leaf value of a column from all of them, at all its places."""
    largest = largest_of_column(tree, palette, edges, scratch, c)
    for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
        begin = edges.begin[tree.leaf_region[d]]
        end = begin + edges.top[tree.leaf_region[d]]
        subtract(scratch.log_value[begin:end], largest, scratch.scaled[begin:end])
    return largest


@bare_inner_kernel
def largest_of_column(tree, palette, edges, scratch, c):
    """Largest leaf value of a column, at all its places: its shift."""
    largest = EMPTY_LEAF
    for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
        begin = edges.begin[tree.leaf_region[d]]
        end = begin + edges.top[tree.leaf_region[d]]
        largest = larger(largest, largest_of(scratch.log_value[begin:end]))
    return largest


@bare_inner_kernel
def arguments_in_logs(tree, palette, edges, leaves, scratch, y):
    """`argument_of` in the columns that have leaves of logs."""
    for d in range(y.size):
        r = tree.leaf_region[d]
        if scratch.missing[r] or palette.column_kind[d] != LOGS:
            continue
        x = y[d] + palette.offset[d]
        u = math.log(x)
        for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
            if is_of_logs(palette.family[leaves.entry[i]]):
                t = u - leaves.centre[i]
                scratch.scaled[i] = t * t * leaves.curvature[i]
            else:
                t = y[d] - leaves.centre[i]
                scratch.scaled[i] = t * t * leaves.curvature[i] + x * leaves.slope[i]


@copied_kernel
def subtract_logs(palette, leaves, scratch, d, y, begin, end):
    """The Jacobian of the leaves of logs of a column."""
    u = math.log(y + palette.offset[d])
    for i in range(begin, end):
        if is_of_logs(palette.family[leaves.entry[i]]):
            scratch.log_value[i] -= u


@copied_kernel
def argument_of(x, offset, centre, curvature, slope, out):
    for i in range(out.size):
        t = x - centre[i]
        out[i] = t * t * curvature[i] + (x + offset) * slope[i]


@copied_kernel
def log_density_of(log_scale, power, argument, out):
    for i in range(out.size):
        out[i] = log_scale[i] - power[i] * fast_log1p(argument[i])


@copied_kernel
def largest_of(log_value):
    largest = EMPTY_LEAF
    for i in range(log_value.size):
        largest = larger(largest, log_value[i])
    return largest


@copied_kernel
def subtract(log_value, largest, out):
    for i in range(out.size):
        out[i] = log_value[i] - largest


@copied_kernel
def exponentiate(x, out):
    for i in range(out.size):
        out[i] = fast_exp(x[i])
