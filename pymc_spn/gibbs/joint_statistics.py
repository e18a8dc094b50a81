"""Leaves over several columns in the statistics vector of a state: their prior scales, and the log joint of both."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, statistics_of
from pymc_spn.leaves.normal_inverse_wishart import inverse_at, log_evidence, triangle_size
from pymc_spn.numerics.elementary import larger
from pymc_spn.numerics.kernel_options import bare_called_kernel, copied_kernel


def joint_scales(constants, joint_scale):
    """(D,) diagonal of psi0: the prior variance of each column, never below that of its recording grid."""
    return np.maximum(joint_scale * constants[:, 1], constants[:, 2]) * (EXCESS - 1.0)


@copied_kernel
def log_of_scale(w, psi, held, n_held, variance, floor, centre, width):
    """Log posterior of a column's scale at exp(w): ``held`` (n, 3) has v0, v and the column's 1 / Psi of each leaf.

    A change of one diagonal element changes the determinant of Psi by a factor of 1 + change (1 / Psi), so that each
    leaf is factored once for each column.
    """
    now = larger(math.exp(w) * variance, floor) * (EXCESS - 1.0)
    z = (w - centre) / width
    log_p = -0.5 * z * z
    for i in range(n_held):
        log_p += 0.5 * held[i, 0] * math.log(now / psi) - 0.5 * held[i, 1] * math.log1p((now - psi) * held[i, 2])
    return log_p


def joint_numbers(net, slots, regions):
    """How many of these edges are leaves over several columns, and the numbers of each: a list of arrays."""
    edges, joints = net.edges, net.joints
    is_joint = edges.split[slots] == joints.split[regions]
    numbers = []
    for i, r in zip(slots[is_joint].tolist(), regions[is_joint].tolist(), strict=True):
        columns = joints.column[joints.column_ptr[r] : joints.column_ptr[r + 1]]
        sums, products = (own[i - edges.begin[r]] for own in statistics_of(net, r)[1:])
        numbers += [[columns.size, edges.n_data[i]], columns, sums, products]
    return len(numbers) // 4, numbers


@copied_kernel
def first_joint(state, n_columns):
    """Where the first leaf over several columns begins in the vector that `statistics.pack_statistics` wrote."""
    return 7 + n_columns + 1 + 2 * int(state[1]) + 3 * int(state[2]) + 5 * int(state[3]) + int(state[4])


@copied_kernel
def read_scales(state, at, constants, covariance_scale, psi0):
    """Diagonal (d,) of psi0 of the leaf that begins there."""
    for j in range(int(state[at])):
        c = int(state[at + 2 + j])
        psi0[j] = larger(covariance_scale[c] * constants[c, 1], constants[c, 2]) * (EXCESS - 1.0)


@bare_called_kernel
def log_of_joint_leaf(state, at, psi0, triangle):
    """Log evidence of the leaf that begins there; ``triangle`` is scratch and has the factor of its posterior then."""
    d = int(state[at])
    sums = state[at + 2 + d : at + 2 + 2 * d]
    products = state[at + 2 + 2 * d : at + 2 + 2 * d + triangle_size(d)]
    return log_evidence(d, state[at + 1], PRECISION_RATIO, d + EXCESS, sums, products, psi0, triangle)


@copied_kernel
def after_joint(state, at):
    """Where the next leaf over several columns begins."""
    d = int(state[at])
    return at + 2 + 2 * d + triangle_size(d)


@register_jitable
def joint_scratch(n_columns):
    """Scratch (2 D + triangle,) of the kernels below: psi0, one more vector, a triangle."""
    return np.empty(2 * n_columns + n_columns * (n_columns + 1) // 2)


@bare_called_kernel
def log_of_joint_leaves(state, n_columns, constants, covariance_scale, scratch):
    """Log evidence of the leaves over several columns.

    Parameters
    ----------
    state : (n,) float64
    n_columns : int
    constants : (D, 3) float64
        Mean, variance and floor of the prior variance.
    covariance_scale : (D,) float64
    scratch
        From `joint_scratch`.
    """
    at = first_joint(state, n_columns)
    log_p = 0.0
    for _ in range(int(state[6])):
        read_scales(state, at, constants, covariance_scale, scratch)
        log_p += log_of_joint_leaf(state, at, scratch, scratch[2 * n_columns :])
        at = after_joint(state, at)
    return log_p


@bare_called_kernel
def slopes_of_joint_leaves(state, n_columns, constants, covariance_scale, scratch, slopes):
    """Derivatives (D,) of `log_of_joint_leaves` in the scales."""
    slopes[:] = 0.0
    at = first_joint(state, n_columns)
    z = scratch[n_columns:]
    triangle = scratch[2 * n_columns :]
    for _ in range(int(state[6])):
        read_scales(state, at, constants, covariance_scale, scratch)
        log_of_joint_leaf(state, at, scratch, triangle)
        d = int(state[at])
        for j in range(d):
            c = int(state[at + 2 + j])
            if covariance_scale[c] * constants[c, 1] > constants[c, 2]:
                v = d + EXCESS + state[at + 1]
                by_psi = 0.5 * (d + EXCESS) / scratch[j] - 0.5 * v * inverse_at(d, j, triangle, z)
                slopes[c] += by_psi * constants[c, 1] * (EXCESS - 1.0)
        at = after_joint(state, at)


@bare_called_kernel
def hold_joint_leaves(state, n_columns, c, constants, covariance_scale, scratch, held):
    """Write (n, 3) what `log_of_scale` takes of the leaves that have a column; returns their number."""
    at = first_joint(state, n_columns)
    triangle = scratch[2 * n_columns :]
    n_held = 0
    for _ in range(int(state[6])):
        d = int(state[at])
        for j in range(d):
            if int(state[at + 2 + j]) == c:
                read_scales(state, at, constants, covariance_scale, scratch)
                log_of_joint_leaf(state, at, scratch, triangle)
                held[n_held, 0] = d + EXCESS
                held[n_held, 1] = d + EXCESS + state[at + 1]
                held[n_held, 2] = inverse_at(d, j, triangle, scratch[n_columns:])
                n_held += 1
        at = after_joint(state, at)
    return n_held
