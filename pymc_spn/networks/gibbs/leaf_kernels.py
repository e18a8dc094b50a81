"""Conjugate leaves in the sampler: statistics and collapsed predictive, one leaf or all leaves of a row.

A continuous leaf is kept as five numbers with which its log predictive density is
``log_scale - power * log1p((y - centre)**2 * curvature + (y + offset) * slope)``: the Student t of a Gaussian leaf
(slope 0) and the Lomax of an Exponential one (curvature 0) in a single formula that vectorises over slots. A log-normal
leaf is a Gaussian one at u = log(y + offset), less the Jacobian u.

A whole number stands for its cell. Its log likelihood under a Gaussian leaf is the mean log density over the cell,
log N(y) - precision * cell_variance / 2: conjugate, since it adds cell_variance to the sum of squares, and never above
the log mass of the cell, so that no leaf earns from numbers that repeat. In the predictive it is a factor. Questions
take the mass of the cell under the same posterior instead (`cell_masses.log_whole_number`).
Formulas: Yokoi and Sato (2024), Table 8, with the Student scale^2 = (1 + 1/rho_N) b_N / a_N.
"""

import math

from pymc_spn.leaves.family_codes import BINOMIAL, CATEGORICAL, EXPONENTIAL, GAUSSIAN, GEOMETRIC, LOG_NORMAL, POISSON
from pymc_spn.networks.gibbs.network import CELLS, EMPTY_LEAF, LEVELS, LOGS, VECTOR
from pymc_spn.numerics.elementary import fast_exp, fast_log, fast_log1p
from pymc_spn.numerics.gamma_ratios import log_negative_binomial, log_rising, stirling_rest
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel

LOG_PI = math.log(math.pi)
FEW_EVENTS = 1e5  # log gammas of up to so many are differences without losing 1e-9, in half the time


@bare_kernel
def gaussian_posterior(n, s1, s2, mu0, rho0, a0, b0):
    """Normal-gamma posterior (mean, rho, a, b) from n values with sum s1 and sum of squares s2."""
    rho = rho0 + n
    shifted = s1 - n * mu0  # sum of y - mu0: the form without cancellation when y is centred near mu0
    spread = s2 - 2.0 * mu0 * s1 + n * mu0 * mu0 - shifted * shifted / rho
    return mu0 + shifted / rho, rho, a0 + 0.5 * n, b0 + 0.5 * max(spread, 0.0)


@bare_inner_kernel
def log_beta_binomial(x, rest, a, b, constant):
    """Log mass of x successes and ``rest`` failures; the constant is log trials! less the rising factorial of a + b."""
    choose = constant - math.lgamma(x + 1.0) - math.lgamma(rest + 1.0)
    return choose + log_rising(a, x) + log_rising(b, rest)


@bare_kernel
def refresh_leaf(net, d, slot, n):
    """Predictive of a continuous or count leaf from its statistics; ``slot`` is global, ``n`` its number of data."""
    e = net.entry[slot]
    family = net.entry_family[e]
    prior = net.prior[e]
    if family == GAUSSIAN or family == LOG_NORMAL:
        mean, rho, a, b = gaussian_posterior(n, net.s1[slot], net.s2[slot], prior[0], prior[1], prior[2], prior[3])
        width = 2.0 * b * (rho + 1.0) / rho
        net.log_scale[slot] = net.half_step[net.source[d], n] - 0.5 * (LOG_PI + fast_log(width))
        net.power[slot] = a + 0.5
        net.centre[slot] = mean
        if net.cell_variance[d] > 0.0 and net.column_kind[d] < CELLS:
            growth = 0.5 * net.cell_variance[d] / b
            net.log_scale[slot] -= (a + 0.5) * math.log1p(growth)
            width *= 1.0 + growth
        net.curvature[slot] = 1.0 / width
        net.slope[slot] = 0.0
    elif family == EXPONENTIAL:
        a = prior[0] + n
        b = prior[1] + net.s1[slot]
        net.log_scale[slot] = fast_log(a / b)
        net.power[slot] = a + 1.0
        net.centre[slot] = 0.0
        net.curvature[slot] = 0.0
        net.slope[slot] = 1.0 / b
    elif family == POISSON:
        a = prior[0] + net.s1[slot]
        b = prior[1] + n
        net.centre[slot] = a
        net.power[slot] = b
        net.curvature[slot] = stirling_rest(a)
        net.slope[slot] = -fast_log(b + 1.0)
        net.log_scale[slot] = -a * math.log1p(1.0 / b) - math.lgamma(a)
    elif family == GEOMETRIC:
        a = prior[0] + n
        b = prior[1] + net.s1[slot]
        net.centre[slot] = b
        net.slope[slot] = a + 1.0
        net.log_scale[slot] = math.log(a) + log_rising(b, a)
    elif family == BINOMIAL:
        a = prior[0] + net.s1[slot]
        b = prior[1] + n * prior[2] - net.s1[slot]
        net.centre[slot] = a
        net.slope[slot] = b
        net.log_scale[slot] = math.lgamma(prior[2] + 1.0) - log_rising(a + b, prior[2])


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
    elif family == GAUSSIAN:
        net.s1[slot] += sign * y
        net.s2[slot] += sign * (y * y + net.cell_variance[d])
    elif family == EXPONENTIAL or family == GEOMETRIC:
        net.s1[slot] += sign * (y + net.offset[d])
    elif family == LOG_NORMAL:
        u = math.log(y + net.offset[d])
        net.s1[slot] += sign * u
        net.s2[slot] += sign * u * u
    else:
        x = y + net.offset[d]
        net.s1[slot] += sign * x
        net.s2[slot] += sign * math.lgamma(x + 1.0)
        if family == BINOMIAL:
            trials = net.prior[e, 2]
            net.s2[slot] += sign * (math.lgamma(trials - x + 1.0) - math.lgamma(trials + 1.0))


@bare_kernel
def log_predictive(net, d, slot, y):
    """Log predictive of one leaf of any family at a coded value."""
    e = net.entry[slot]
    family = net.entry_family[e]
    if family == GAUSSIAN:
        t = y - net.centre[slot]
        return net.log_scale[slot] - net.power[slot] * fast_log1p(t * t * net.curvature[slot])
    if family == CATEGORICAL:
        r = net.leaf_region[d]
        local = slot - net.begin[r]
        k = net.level_count[net.level_begin[d] + int(y) * net.capacity[r] + local]
        return math.log((k + net.prior[e, 0]) / (net.edge_count[slot] + net.prior[e, 1]))
    if net.log_scale[slot] == EMPTY_LEAF:
        return EMPTY_LEAF  # freed, with parameters of 0, of which gamma functions are infinite
    if family == POISSON:
        a = net.centre[slot]
        x = y + net.offset[d]
        if a + x < FEW_EVENTS:
            return net.log_scale[slot] + math.lgamma(a + x) - math.lgamma(x + 1.0) + x * net.slope[slot]
        return log_negative_binomial(x, a, net.power[slot], net.curvature[slot])
    if family == GEOMETRIC:
        return net.log_scale[slot] - log_rising(net.centre[slot] + y + net.offset[d], net.slope[slot])
    if family == BINOMIAL:
        x = y + net.offset[d]
        rest = net.prior[e, 2] - x
        if rest < 0.0:
            return EMPTY_LEAF
        return log_beta_binomial(x, rest, net.centre[slot], net.slope[slot], net.log_scale[slot])
    if family == LOG_NORMAL:
        if y + net.offset[d] <= 0.0:
            return EMPTY_LEAF
        u = math.log(y + net.offset[d])
        t = u - net.centre[slot]
        return net.log_scale[slot] - net.power[slot] * fast_log1p(t * t * net.curvature[slot]) - u
    if y + net.offset[d] < 0.0:
        return EMPTY_LEAF
    return net.log_scale[slot] - net.power[slot] * fast_log1p((y + net.offset[d]) * net.slope[slot])


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
    if family == GAUSSIAN or family == LOG_NORMAL:
        jacobian = 0.0
        if family == LOG_NORMAL:
            y = math.log(y + net.offset[d])
            jacobian = -y
        cell = net.cell_variance[d]
        mean, rho, a, b = gaussian_posterior(
            n, net.s1[slot] - y, net.s2[slot] - y * y - cell, prior[0], prior[1], prior[2], prior[3]
        )
        width = 2.0 * b * (rho + 1.0) / rho
        t = y - mean
        return (
            net.half_step[net.source[d], n]
            - 0.5 * (LOG_PI + fast_log(width))
            - (a + 0.5) * fast_log1p(t * t / width + 0.5 * cell / b)
            + jacobian
        )
    x = y + net.offset[d]
    if family == GEOMETRIC:
        a = prior[0] + n
        b = prior[1] + net.s1[slot] - x
        return math.log(a) + log_rising(b, a) - log_rising(b + x, a + 1.0)
    if family == BINOMIAL:
        rest = prior[2] - x
        a = prior[0] + net.s1[slot] - x
        b = prior[1] + n * prior[2] - net.s1[slot] + x
        return log_beta_binomial(x, rest, a, b, math.lgamma(prior[2] + 1.0) - log_rising(a + b, prior[2]))
    if family == EXPONENTIAL:
        a = prior[0] + n
        b = prior[1] + net.s1[slot] - x
        return math.log(a / b) - (a + 1.0) * fast_log1p(x / b)
    a = prior[0] + net.s1[slot] - x
    b = prior[1] + n
    return log_negative_binomial(x, a, b, stirling_rest(a))


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
    """`argument_of` in the columns that have log-normal leaves; returns the end of their slots."""
    last = 0
    for d in range(y.size):
        r = net.leaf_region[d]
        if net.missing[r] or net.column_kind[d] != LOGS:
            continue
        x = y[d] + net.offset[d]
        u = math.log(x)
        last = max(last, net.begin[r] + net.top[r])
        for i in range(net.begin[r], net.begin[r] + net.top[r]):
            if net.entry_family[net.entry[i]] == LOG_NORMAL:
                t = u - net.centre[i]
                net.scaled[i] = t * t * net.curvature[i]
            else:
                t = y[d] - net.centre[i]
                net.scaled[i] = t * t * net.curvature[i] + x * net.slope[i]
    return last


@bare_inner_kernel
def subtract_logs(net, d, y, begin, end):
    """The Jacobian of the log-normal leaves of a column."""
    u = math.log(y + net.offset[d])
    for i in range(begin, end):
        if net.entry_family[net.entry[i]] == LOG_NORMAL:
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
