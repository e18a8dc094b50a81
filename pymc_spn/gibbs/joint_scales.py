"""Prior scales of leaves over several columns: what they are, and their slice updates given the assignments."""

import math

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, is_joint_edge, refresh_joint, refresh_joints
from pymc_spn.leaves.normal_inverse_wishart import solve, triangle_size
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel


def joint_scales(constants, joint_scale):
    """(D,) diagonal of psi0: the prior variance of each column, never below that of its recording grid."""
    return np.maximum(joint_scale * constants[:, 1], constants[:, 2]) * (EXCESS - 1.0)


@bare_called_kernel
def log_of_scale(w, psi, held, n_held, variance, floor, centre, width):
    """Log posterior of a column's scale at exp(w): ``held`` (n, 3) has v0, v and the column's 1 / Psi of each leaf."""
    now = max(math.exp(w) * variance, floor) * (EXCESS - 1.0)
    z = (w - centre) / width
    log_p = -0.5 * z * z
    for i in range(n_held):
        log_p += 0.5 * held[i, 0] * math.log(now / psi) - 0.5 * held[i, 1] * math.log1p((now - psi) * held[i, 2])
    return log_p


@kernel
def update_joint_scales(rng, edges, joints, constants, owned, centre, width, joint_scale):
    """Slice updates of the scales (D,) of the owned columns given the assignments, one after the other, in place.

    A change of one diagonal element changes the determinant of Psi by a factor of 1 + change (1 / Psi), so that each
    leaf is factored once for each column.
    """
    n_leaves = 0
    for r in range(joints.split.size):
        n_leaves += edges.top[r] if joints.split[r] >= 0 else 0
    held = np.empty((n_leaves, 3))
    for c in range(joint_scale.size):
        if not owned[c]:
            continue
        variance = constants[c, 1]
        floor = constants[c, 2]
        psi = max(joint_scale[c] * variance, floor) * (EXCESS - 1.0)
        n_held = 0
        for r in range(joints.split.size):
            if joints.split[r] < 0:
                continue
            first = joints.column_ptr[r]
            d = joints.column_ptr[r + 1] - first
            t = triangle_size(d)
            at = -1
            for j in range(d):
                if joints.column[first + j] == c:
                    at = j
            if at < 0:
                continue
            for slot in range(edges.top[r]):
                n = edges.n_data[edges.begin[r] + slot]
                if n == 0 or not is_joint_edge(edges, joints, r, slot):
                    continue
                refresh_joint(joints, r, slot, n)
                from_factor = joints.products_begin[r] + slot * t
                joints.scratch.z[:d] = 0.0
                joints.scratch.z[at] = 1.0
                held[n_held, 0] = d + EXCESS
                held[n_held, 1] = d + EXCESS + n
                held[n_held, 2] = solve(d, d, joints.factor[from_factor : from_factor + t], joints.scratch.z)
                n_held += 1
        w = math.log(joint_scale[c])
        level = log_of_scale(w, psi, held, n_held, variance, floor, centre, width) - rng.standard_exponential()
        low = w - rng.random()
        high = low + 1.0
        while log_of_scale(low, psi, held, n_held, variance, floor, centre, width) > level:
            low -= 1.0
        while log_of_scale(high, psi, held, n_held, variance, floor, centre, width) > level:
            high += 1.0
        while True:
            new = low + rng.random() * (high - low)
            if log_of_scale(new, psi, held, n_held, variance, floor, centre, width) >= level:
                break
            if new < w:
                low = new
            else:
                high = new
        joint_scale[c] = math.exp(new)
        psi = max(joint_scale[c] * variance, floor) * (EXCESS - 1.0)
        for k in range(joints.column.size):
            if joints.column[k] == c:
                joints.psi0[k] = psi
    refresh_joints(edges, joints)
