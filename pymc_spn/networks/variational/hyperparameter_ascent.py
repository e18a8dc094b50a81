"""Point estimates of hyperparameters: each moves to a higher value of the bound plus its log prior, others fixed.

They stay within `SPREADS` standard deviations of their prior's centre, in logs (of a shape, of its excess over 1). The
bound alone has no maximum where a leaf holds equal values only. With the shape a0 of a Gaussian leaf its b0 goes to
zero, and the density to infinity.
"""

import math

import numpy as np

from pymc_spn.gibbs.hyperparameters import (
    CONCENTRATION,
    COVARIANCE_SCALE,
    GAMMA,
    LEAF_SCALE,
    LEAF_SHAPE,
    PRECISION_RATIO,
    from_line,
    log_prior_on_line,
    to_line,
)
from pymc_spn.gibbs.joint_leaves import EXCESS
from pymc_spn.gibbs.joint_scales import log_of_scale
from pymc_spn.gibbs.statistics import HEAD, LEAF, leaf_priors, log_column
from pymc_spn.networks.variational.joint_kernels import hold_leaves_of_column, row_scratch, set_scale_of_column
from pymc_spn.networks.variational.weight_kernels import log_weight_integral
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

REACH, STEPS = 1.0, 12  # golden section over log x +- REACH: the last interval is 0.006 wide
SPREADS = 4.0
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def leaf_vector(tree, statistics, n_columns):
    """Statistics of the leaves in the layout of `pack_statistics`, without sum nodes, for `log_column`."""
    n_leaves = tree.leaf_family.size
    column = tree.column_of_place[tree.leaf_place]
    order = np.argsort(column, kind="stable")
    out = np.zeros(HEAD + n_columns + 1 + LEAF * n_leaves + int(tree.level_ptr[-1]))
    out[3], out[4] = n_leaves, tree.level_ptr[-1]
    out[HEAD : HEAD + n_columns + 1] = np.searchsorted(column[order], np.arange(n_columns + 1))
    first = HEAD + n_columns + 1
    cells = first + LEAF * n_leaves
    block = out[first:cells].reshape(n_leaves, LEAF)
    block[:, 0] = tree.leaf_entry[order]
    block[:, 1] = statistics.edge_count[tree.leaf >= 0][order]
    block[:, 2] = statistics.s1[order]
    block[:, 3] = statistics.s2[order]
    block[:, 4] = cells + tree.level_ptr[order]
    out[cells:] = statistics.levels
    return out


@kernel
def log_leaf_integrals(state, palette, leaf_scale, leaf_shape, precision_ratio):
    """Sum over columns of the log marginal likelihood of the leaves, in nats and coded units."""
    total = 0.0
    given, leaves = read_only_view(state), leaf_priors(palette)
    for d in range(leaf_scale.size):
        total += log_column(given, d, leaves, leaf_scale[d], leaf_shape[d], precision_ratio[d])
    return total


@kernel
def log_integral_of_each_leaf(state, palette, leaf_scale, leaf_shape, precision_ratio, out):
    """What each leaf (L,) adds to `log_leaf_integrals`, in the order of the vector."""
    own = state.copy()
    given, leaves = read_only_view(own), leaf_priors(palette)
    for d in range(leaf_scale.size):
        for i in range(int(state[HEAD + d]), int(state[HEAD + d + 1])):
            own[HEAD + d] = i
            own[HEAD + d + 1] = i + 1
            out[i] = log_column(given, d, leaves, leaf_scale[d], leaf_shape[d], precision_ratio[d])


@inner_kernel
def log_range(prior):
    """Ends of the interval of its line to which a hyperparameter is confined."""
    centre = prior[1]
    spread = SPREADS * prior[2]
    if int(prior[0]) == GAMMA:
        centre = math.log(prior[1] / prior[2])
        spread = SPREADS / math.sqrt(prior[1])
    return centre - spread, centre + spread


@inner_kernel
def log_normal_constant(family, a, b):
    """What `log_prior_on_line` leaves out."""
    if family == GAMMA:
        return a * math.log(b) - math.lgamma(a)
    return -math.log(b) - 0.5 * math.log(2.0 * math.pi)


@inner_kernel
def log_target(tree, count, state, palette, group, d, v, values, mass, prior, held):
    """What depends on one hyperparameter, at v on its line: the bound's term, and its log prior.

    ``values`` (3,) are the column's leaf scale, shape and precision ratio. For a covariance scale psi0 before the move,
    the variance and the floor of the column, and ``held`` (n, 3) is of the leaves that have it (`log_of_scale`).
    """
    x = from_line(v, int(prior[0]))
    if group == COVARIANCE_SCALE:
        return log_of_scale(v, values[0], held, len(held), values[1], values[2], prior[1], prior[2])
    log_p = log_prior_on_line(v, int(prior[0]), prior[1], prior[2])
    if group == CONCENTRATION:
        old = mass[d]
        mass[d] = x
        log_p += log_weight_integral(tree, count, mass, d)
        mass[d] = old
        return log_p
    scale = x if group == LEAF_SCALE else values[0]
    shape = x if group == LEAF_SHAPE else values[1]
    ratio = x if group == PRECISION_RATIO else values[2]
    return log_p + log_column(state, d, palette, scale, shape, ratio)


@inner_kernel
def climb(tree, count, state, palette, group, d, v, values, mass, prior, held):
    """The best of v and the end of a golden section search round it."""
    lowest, highest = log_range(prior)
    low = max(v - REACH, lowest)
    high = min(v + REACH, highest)
    left = high - GOLDEN * (high - low)
    right = low + GOLDEN * (high - low)
    at_left = log_target(tree, count, state, palette, group, d, left, values, mass, prior, held)
    at_right = log_target(tree, count, state, palette, group, d, right, values, mass, prior, held)
    for _ in range(STEPS):
        if at_left > at_right:
            high = right
            right = left
            at_right = at_left
            left = high - GOLDEN * (high - low)
            at_left = log_target(tree, count, state, palette, group, d, left, values, mass, prior, held)
        else:
            low = left
            left = right
            at_left = at_right
            right = low + GOLDEN * (high - low)
            at_right = log_target(tree, count, state, palette, group, d, right, values, mass, prior, held)
    best = left if at_left > at_right else right
    now = log_target(tree, count, state, palette, group, d, v, values, mass, prior, held)
    is_better = max(at_left, at_right) > now
    return best if is_better else v


@kernel
def climb_hyperparameters(
    tree, count, state, palette, joints, learned, priors, mass, leaf_scale, leaf_shape, precision_ratio,
    covariance_scale,
):  # fmt: skip
    """Move every learned hyperparameter uphill, in place, and return the log prior of all learned ones on their lines.

    Parameters
    ----------
    tree : ActiveTree
    count : (E,) float64
    state : (n,) float64
        From `leaf_vector`.
    palette : CompiledPalette
    joints : ExpectedJoints or None
        Whose prior scales are moved, too.
    learned : (5, max(2, D)) bool
    priors : (5, 3) float64
        Family code and two parameters for each group.
    mass : (2,) float64
    leaf_scale, leaf_shape, precision_ratio, covariance_scale : (D,) float64
    """
    log_p = 0.0
    values = np.empty(3)
    none = np.empty((0, 3))
    given, leaves = read_only_view(state), leaf_priors(palette)
    for which in range(2):
        p = priors[CONCENTRATION]
        if learned[CONCENTRATION, which]:
            v = to_line(mass[which], int(p[0]))
            v = climb(tree, count, given, leaves, CONCENTRATION, which, v, values, mass, p, none)
            mass[which] = from_line(v, int(p[0]))
            log_p += log_prior_on_line(v, int(p[0]), p[1], p[2]) + log_normal_constant(int(p[0]), p[1], p[2])
    for d in range(leaf_scale.size):
        values[0] = leaf_scale[d]
        values[1] = leaf_shape[d]
        values[2] = precision_ratio[d]
        for group in range(LEAF_SCALE, PRECISION_RATIO + 1):
            if learned[group, d]:
                p = priors[group]
                v = to_line(values[group - 1], int(p[0]))
                v = climb(tree, count, given, leaves, group, d, v, values, mass, p, none)
                values[group - 1] = from_line(v, int(p[0]))
                log_p += log_prior_on_line(v, int(p[0]), p[1], p[2]) + log_normal_constant(int(p[0]), p[1], p[2])
        leaf_scale[d] = values[0]
        leaf_shape[d] = values[1]
        precision_ratio[d] = values[2]
    if joints is not None:
        p = priors[COVARIANCE_SCALE]
        held = np.empty((joints.region.size, 3))
        scratch = row_scratch(joints)
        for d in range(covariance_scale.size):
            if not learned[COVARIANCE_SCALE, d]:
                continue
            values[1] = palette.joint_constants[d, 1]
            values[2] = palette.joint_constants[d, 2]
            values[0] = max(covariance_scale[d] * values[1], values[2]) * (EXCESS - 1.0)
            n_held = hold_leaves_of_column(joints, d, scratch, held)
            v = to_line(covariance_scale[d], int(p[0]))
            v = climb(tree, count, given, leaves, COVARIANCE_SCALE, d, v, values, mass, p, held[:n_held])
            covariance_scale[d] = from_line(v, int(p[0]))
            log_p += log_prior_on_line(v, int(p[0]), p[1], p[2]) + log_normal_constant(int(p[0]), p[1], p[2])
            set_scale_of_column(joints, d, max(covariance_scale[d] * values[1], values[2]) * (EXCESS - 1.0))
    return log_p
