"""Prior scales of leaves over several columns: what they are, and their log posterior given the assignments."""

import math

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS
from pymc_spn.numerics.elementary import larger
from pymc_spn.numerics.kernel_options import copied_kernel


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
