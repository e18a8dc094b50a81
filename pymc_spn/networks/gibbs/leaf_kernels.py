"""Conjugate leaves in the sampler: statistics and collapsed predictive, one leaf or all leaves of a row.

A continuous leaf is kept as five numbers with which its log predictive density is
``log_scale - power * log1p((y - centre)**2 * curvature + (y + offset) * slope)``: the Student t of a Gaussian leaf
(slope 0) and the Lomax of an Exponential one (curvature 0) in a single formula that vectorises over slots. A log-normal
leaf is a Gaussian one at u = log(y + offset), less the Jacobian u.

A whole number stands for its cell. Its log likelihood under a Gaussian leaf is the mean log density over the cell,
log N(y) - precision * cell_variance / 2: conjugate, since it adds cell_variance to the sum of squares, and never above
the log mass of the cell, so that no leaf earns from numbers that repeat. In the predictive it is a factor. Questions
take the mass of the cell under the same posterior instead (`cell_masses.log_whole_number`).
The formulas of a family stand in its file (`leaves.conjugate_pieces`). Source: Yokoi and Sato (2024), Table 8.
"""

import math

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.gibbs.family_kernels import (
    add_to_sums,
    is_located,
    is_of_logs,
    is_real,
    log_density_at,
    log_predictive_of,
    posterior_of,
    predictive_of,
)
from pymc_spn.networks.gibbs.network import CELLS, EMPTY_LEAF, LEVELS, LOGS, VECTOR
from pymc_spn.numerics.elementary import fast_exp, fast_log, fast_log1p
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel


@bare_kernel
def refresh_leaf(net, d, slot, n):
    """Predictive of a continuous or count leaf from its statistics; ``slot`` is global, ``n`` its number of data."""
    e = net.entry[slot]
    family = net.entry_family[e]
    prior = net.prior[e]
    p0, p1, p2, p3 = posterior_of(family, float(n), net.s1[slot], net.s2[slot], prior[0], prior[1], prior[2], prior[3])
    cell = net.cell_variance[d] if net.column_kind[d] < CELLS else 0.0
    found = predictive_of(family, p0, p1, p2, p3, net.half_step[net.source[d], n], cell)
    net.log_scale[slot], net.power[slot], net.centre[slot], net.curvature[slot], net.slope[slot] = found


@bare_inner_kernel
def add_value(net, d, slot, n, y, sign):
    """Add (sign 1) or remove (sign -1) a value; ``n`` counts the data after it. Does not refresh the predictive."""
    e = net.entry[slot]
    family = net.entry_family[e]
    if family == CATEGORICAL:
        r = net.leaf_region[d]
        local = slot - net.begin[r]
        net.level_count[net.level_begin[d] + int(y) * net.capacity[r] + local] += sign
    elif n == 0:
        net.s1[slot] = 0.0  # an empty leaf is exactly empty: no rounding is left behind
        net.s2[slot] = 0.0
    else:
        offset = net.offset[d]
        u = math.log(y + offset) if is_of_logs(family) else y
        net.s1[slot], net.s2[slot] = add_to_sums(
            family, net.s1[slot], net.s2[slot], sign, u, offset, net.cell_variance[d], net.prior[e, 2]
        )


@bare_kernel
def log_predictive(net, d, slot, y):
    """Log predictive of one leaf of any family at a coded value."""
    e = net.entry[slot]
    family = net.entry_family[e]
    if family == CATEGORICAL:
        r = net.leaf_region[d]
        local = slot - net.begin[r]
        k = net.level_count[net.level_begin[d] + int(y) * net.capacity[r] + local]
        return math.log((k + net.prior[e, 0]) / (net.edge_count[slot] + net.prior[e, 1]))
    offset = net.offset[d]
    u = y
    if not is_real(family):
        if net.log_scale[slot] == EMPTY_LEAF:
            return EMPTY_LEAF  # freed, with parameters of 0, of which gamma functions are infinite
        if is_of_logs(family):
            if y + offset <= 0.0:
                return EMPTY_LEAF
            u = math.log(y + offset)
    found = log_predictive_of(
        family,
        u,
        offset,
        net.log_scale[slot],
        net.power[slot],
        net.centre[slot],
        net.curvature[slot],
        net.slope[slot],
        net.prior[e, 2],
    )
    return found - u if is_of_logs(family) else found


@bare_kernel
def log_predictive_without(net, d, slot, y):
    """Log predictive of a leaf at a value that it holds, as if the value were taken out; nothing is changed."""
    e = net.entry[slot]
    family = net.entry_family[e]
    prior = net.prior[e]
    n = net.edge_count[slot] - 1
    if n == 0:
        return log_predictive(net, d, net.begin[net.leaf_region[d]] + e - net.entry_ptr[d], y)
    if family == CATEGORICAL:
        r = net.leaf_region[d]
        k = net.level_count[net.level_begin[d] + int(y) * net.capacity[r] + slot - net.begin[r]] - 1.0
        return math.log((k + prior[0]) / (n + prior[1]))
    offset = net.offset[d]
    u = math.log(y + offset) if is_of_logs(family) else y
    x = u if is_located(family) else u + offset
    cell = net.cell_variance[d]
    p0, p1, p2, p3 = posterior_of(
        family, float(n), net.s1[slot] - x, net.s2[slot] - x * x - cell, prior[0], prior[1], prior[2], prior[3]
    )
    found = log_density_at(family, u, offset, p0, p1, p2, p3, net.half_step[net.source[d], n], cell)
    return found - u if is_of_logs(family) else found


@bare_kernel
def evaluate_leaves(net, y):
    """Leaf values of one row: ``value`` in linear space, ``log_value`` in logs, and the sum of the shifts.

    Each column is shifted by its largest leaf value, wherever it stands in the tree; every induced tree has exactly one
    leaf for each column, so the shifts multiply the root by a known constant.

    Parameters
    ----------
    net : Network
    y : (P,) float64
        Coded row, NaN where missing.

    Returns
    -------
    float
        Sum of the shifts of the observed columns, in nats.
    """
    last = 0
    in_logs = False
    for d in range(y.size):
        r = net.leaf_region[d]
        if net.missing[r] or net.column_kind[d] != VECTOR:
            in_logs |= net.column_kind[d] == LOGS
            continue
        begin = net.begin[r]
        end = begin + net.top[r]
        last = max(last, end)
        # slices start at zero: only then does LLVM know that no index is negative, and vectorises
        argument_of(
            y[d],
            net.offset[d],
            net.centre[begin:end],
            net.curvature[begin:end],
            net.slope[begin:end],
            net.scaled[begin:end],
        )
    if in_logs:
        last = max(last, arguments_in_logs(net, y))
    log_density_of(net.log_scale[:last], net.power[:last], net.scaled[:last], net.log_value[:last])
    shift = 0.0
    for d in range(y.size):
        r = net.leaf_region[d]
        if net.missing[r]:
            continue
        begin = net.begin[r]
        end = begin + net.top[r]
        kind = net.column_kind[d]
        if kind == LEVELS:
            row = net.level_begin[d] + int(y[d]) * net.capacity[r] - begin
            alpha = net.prior[net.entry_ptr[d], 0]
            total = net.prior[net.entry_ptr[d], 1]
            for i in range(begin, end):
                net.log_value[i] = fast_log((net.level_count[row + i] + alpha) / (net.edge_count[i] + total))
        elif kind != VECTOR:
            if kind == LOGS:
                subtract_logs(net, d, y[d], begin, end)
            else:
                for i in range(begin, end):
                    net.log_value[i] = log_predictive(net, d, i, y[d])
        last = max(last, end)
    for c in range(net.place_ptr.size - 1):
        if not net.missing[net.leaf_region[net.place_ptr[c]]]:
            shift += shift_column(net, c)
    exponentiate(net.scaled[:last], net.value[:last])
    return shift


@bare_inner_kernel
def shift_column(net, c):
    """Subtract the largest leaf value of a column from all of them, at all its places."""
    largest = largest_of_column(net, c)
    for d in range(net.place_ptr[c], net.place_ptr[c + 1]):
        begin = net.begin[net.leaf_region[d]]
        end = begin + net.top[net.leaf_region[d]]
        subtract(net.log_value[begin:end], largest, net.scaled[begin:end])
    return largest


@bare_inner_kernel
def largest_of_column(net, c):
    """Largest leaf value of a column, at all its places: its shift."""
    largest = EMPTY_LEAF
    for d in range(net.place_ptr[c], net.place_ptr[c + 1]):
        begin = net.begin[net.leaf_region[d]]
        end = begin + net.top[net.leaf_region[d]]
        largest = max(largest, largest_of(net.log_value[begin:end]))
    return largest


@bare_inner_kernel
def arguments_in_logs(net, y):
    """`argument_of` in the columns that have leaves of logs; returns the end of their slots."""
    last = 0
    for d in range(y.size):
        r = net.leaf_region[d]
        if net.missing[r] or net.column_kind[d] != LOGS:
            continue
        x = y[d] + net.offset[d]
        u = math.log(x)
        last = max(last, net.begin[r] + net.top[r])
        for i in range(net.begin[r], net.begin[r] + net.top[r]):
            if is_of_logs(net.entry_family[net.entry[i]]):
                t = u - net.centre[i]
                net.scaled[i] = t * t * net.curvature[i]
            else:
                t = y[d] - net.centre[i]
                net.scaled[i] = t * t * net.curvature[i] + x * net.slope[i]
    return last


@bare_inner_kernel
def subtract_logs(net, d, y, begin, end):
    """The Jacobian of the leaves of logs of a column."""
    u = math.log(y + net.offset[d])
    for i in range(begin, end):
        if is_of_logs(net.entry_family[net.entry[i]]):
            net.log_value[i] -= u


@bare_kernel
def argument_of(x, offset, centre, curvature, slope, out):
    for i in range(out.size):
        t = x - centre[i]
        out[i] = t * t * curvature[i] + (x + offset) * slope[i]


@bare_kernel
def log_density_of(log_scale, power, argument, out):
    for i in range(out.size):
        out[i] = log_scale[i] - power[i] * fast_log1p(argument[i])


@bare_inner_kernel
def largest_of(log_value):
    largest = EMPTY_LEAF
    for i in range(log_value.size):
        largest = max(largest, log_value[i])
    return largest


@bare_inner_kernel
def subtract(log_value, largest, out):
    for i in range(out.size):
        out[i] = log_value[i] - largest


@bare_kernel
def exponentiate(x, out):
    for i in range(out.size):
        out[i] = fast_exp(x[i])
