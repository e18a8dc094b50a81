"""Leaves over several columns in the statistics vector of a state, and what they add to the log joint."""

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.leaves.normal_inverse_wishart import log_evidence, solve, triangle_size
from pymc_spn.numerics.kernel_options import inner_kernel


def joint_numbers(edges, joints, slots, regions):
    """How many of these edges are leaves over several columns, and the numbers of each: a list of arrays."""
    is_joint = edges.split[slots] == joints.split[regions]
    numbers = []
    for i, r in zip(slots[is_joint].tolist(), regions[is_joint].tolist(), strict=True):
        columns = joints.column[joints.column_ptr[r] : joints.column_ptr[r + 1]]
        d, slot = columns.size, i - edges.begin[r]
        t = d * (d + 1) // 2
        sums, products = joints.sums_begin[r] + slot * d, joints.products_begin[r] + slot * t
        numbers += [
            [d, edges.n_data[i]],
            columns,
            joints.sums[sums : sums + d],
            joints.products[products : products + t],
        ]
    return len(numbers) // 4, numbers


@inner_kernel
def log_of_joint_leaves(state, n_columns, constants, covariance_scale, slopes):
    """Log evidence of the leaves over several columns, and its derivatives in their scales (D,) if they are wanted.

    Parameters
    ----------
    state : (n,) float64
        The vector that `statistics.pack_statistics` wrote.
    n_columns : int
    constants : (D, 3) float64
        Mean, variance and floor of the prior variance.
    covariance_scale : (D,) float64
    slopes : (D,) float64
        Out, or empty.
    """
    slopes[:] = 0.0
    n_leaves = int(state[6])
    if n_leaves == 0:
        return 0.0
    at = 7 + n_columns + 1 + 2 * int(state[1]) + 3 * int(state[2]) + 5 * int(state[3]) + int(state[4])
    psi0 = np.empty(n_columns)
    z = np.empty(n_columns)
    triangle = np.empty(triangle_size(n_columns))
    log_p = 0.0
    for _ in range(n_leaves):
        d = int(state[at])
        n = state[at + 1]
        columns = state[at + 2 : at + 2 + d]
        sums = state[at + 2 + d : at + 2 + 2 * d]
        t = triangle_size(d)
        products = state[at + 2 + 2 * d : at + 2 + 2 * d + t]
        at += 2 + 2 * d + t
        for j in range(d):
            c = int(columns[j])
            psi0[j] = max(covariance_scale[c] * constants[c, 1], constants[c, 2]) * (EXCESS - 1.0)
        factor = triangle[:t]
        log_p += log_evidence(d, n, PRECISION_RATIO, d + EXCESS, sums, products, psi0[:d], factor)
        if slopes.size == 0:
            continue
        for j in range(d):
            c = int(columns[j])
            if covariance_scale[c] * constants[c, 1] <= constants[c, 2]:
                continue
            z[:d] = 0.0
            z[j] = 1.0
            inverse = solve(d, d, factor, z)
            by_psi = 0.5 * (d + EXCESS) / psi0[j] - 0.5 * (d + EXCESS + n) * inverse
            slopes[c] += by_psi * constants[c, 1] * (EXCESS - 1.0)
    return log_p
