"""Tables from the prior of leaves over several columns."""

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO


def fill_joint_leaves(rng, sampler, table):
    """Draw the coded cells (N, D) of rows in leaves over several columns, whose parameters come from their prior."""
    from scipy.stats import invwishart  # takes a second to load, and tables from the prior are rare

    net, joints = sampler.net, sampler.net.joints
    for r in np.flatnonzero(joints.split >= 0):
        own = slice(joints.column_ptr[r], joints.column_ptr[r + 1])
        columns, d = joints.column[own], joints.column_ptr[r + 1] - joints.column_ptr[r]
        slots = sampler.slots[:, r]
        for slot in np.unique(slots[slots >= 0]):
            if net.edges.split[net.edges.begin[r] + slot] != joints.split[r]:
                continue
            rows = np.flatnonzero(slots == slot)
            covariance = invwishart(d + EXCESS, np.diag(joints.psi0[own])).rvs(random_state=rng)
            factor = np.linalg.cholesky(covariance)
            mean = joints.centre[own] + factor @ rng.standard_normal(d) / np.sqrt(PRECISION_RATIO)
            table[np.ix_(rows, columns)] = mean + rng.standard_normal((rows.size, d)) @ factor.T
