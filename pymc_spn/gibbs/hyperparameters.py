"""Updates of the hyperparameters given the assignments: closed-form marginals, one coordinate at a time.

A chain draws each by slice sampling. A variational fit, whose statistics are expected ones, moves each uphill.
"""

import math

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS
from pymc_spn.gibbs.joint_statistics import hold_joint_leaves, joint_scratch, log_of_scale
from pymc_spn.gibbs.statistics import leaf_priors, log_assignments, log_column
from pymc_spn.numerics.elementary import larger
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, copied_kernel
from pymc_spn.numerics.read_only_views import read_only_view

GAMMA, LOG_NORMAL, LOG_NORMAL_ABOVE_ONE = 0, 1, 2  # of the last, what a hyperparameter exceeds 1 by is log-normal
CONCENTRATION, LEAF_SCALE, LEAF_SHAPE, PRECISION_RATIO, COVARIANCE_SCALE = range(5)
# of an uphill move: a golden section over log x +- REACH, whose last interval is 0.006 wide, within SPREADS standard
# deviations of the prior's centre, in logs (of a shape, of its excess over 1)
REACH, STEPS, SPREADS = 1.0, 12, 4.0
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


@copied_kernel
def to_line(x, family):
    """Where a hyperparameter x is on the line on which it moves: its log, or that of its excess over 1."""
    return math.log(x - 1.0) if family == LOG_NORMAL_ABOVE_ONE else math.log(x)


@copied_kernel
def from_line(v, family):
    """The hyperparameter at v, see `to_line`."""
    return 1.0 + math.exp(v) if family == LOG_NORMAL_ABOVE_ONE else math.exp(v)


@copied_kernel
def log_prior_on_line(v, family, a, b):
    """Log density of v = log x, up to a constant, for x ~ Gamma(a, rate b) or LogNormal(a, b), x the excess or all."""
    if family == GAMMA:
        return a * v - b * math.exp(v)
    z = (v - a) / b
    return -0.5 * z * z


@bare_called_kernel
def log_target(state, palette, group, d, v, values, prior, held):
    """Log posterior of one hyperparameter on its line given the assignments, up to a constant.

    It is -inf where no double stands for the hyperparameter. Slices get there where the statistics are still those of
    a bad start, thousands of nats below the posterior's peak: most of the line is then above their level.

    ``values`` (3,) are the column's leaf scale, shape and precision ratio; that at v replaces the one under update. For
    a covariance scale they are psi0 before the update, variance and floor, and ``held`` (n, 3) is of the leaves that
    have the column (`log_of_scale`).
    """
    if group == COVARIANCE_SCALE:
        return log_of_scale(v, values[0], held, len(held), values[1], values[2], prior[1], prior[2])
    log_p = log_prior_on_line(v, int(prior[0]), prior[1], prior[2])
    x = from_line(v, int(prior[0]))
    if math.isinf(to_line(x, int(prior[0]))):  # x rounds to 1, 0 or infinity, from where no slice comes back
        return -math.inf
    if group == CONCENTRATION:
        return log_p + log_assignments(state, palette.n_levels.size, d, x)
    scale = x if group == LEAF_SCALE else values[0]
    shape = x if group == LEAF_SHAPE else values[1]
    ratio = x if group == PRECISION_RATIO else values[2]
    return log_p + log_column(state, d, palette, scale, shape, ratio)


@bare_called_kernel
def climb(state, palette, group, d, v, values, prior, held):
    """The best of v and the end of a golden section search round it."""
    centre = prior[1]
    spread = SPREADS * prior[2]
    if int(prior[0]) == GAMMA:
        centre = math.log(prior[1] / prior[2])
        spread = SPREADS / math.sqrt(prior[1])
    low = max(v - REACH, centre - spread)
    high = min(v + REACH, centre + spread)
    left = high - GOLDEN * (high - low)
    right = low + GOLDEN * (high - low)
    at_left = log_target(state, palette, group, d, left, values, prior, held)
    at_right = log_target(state, palette, group, d, right, values, prior, held)
    for _ in range(STEPS):
        if at_left > at_right:
            high = right
            right = left
            at_right = at_left
            left = high - GOLDEN * (high - low)
            at_left = log_target(state, palette, group, d, left, values, prior, held)
        else:
            low = left
            left = right
            at_left = at_right
            right = low + GOLDEN * (high - low)
            at_right = log_target(state, palette, group, d, right, values, prior, held)
    is_better = max(at_left, at_right) > log_target(state, palette, group, d, v, values, prior, held)
    return (left if at_left > at_right else right) if is_better else v


@bare_called_kernel
def updated(rng, state, palette, group, d, x, values, prior, held):
    """One slice-sampling update of a hyperparameter on its line: stepping out by 1, then shrinking (Neal 2003).

    Without ``rng``, where it is higher.
    """
    v = to_line(x, int(prior[0]))
    if rng is None:
        return from_line(climb(state, palette, group, d, v, values, prior, held), int(prior[0]))
    level = log_target(state, palette, group, d, v, values, prior, held) - rng.standard_exponential()
    if not math.isfinite(level):  # all points are above it or none: stepping out or shrinking would not end
        raise FloatingPointError("the log posterior of a hyperparameter of the network is not a finite number")
    low = v - rng.random()
    high = low + 1.0
    while log_target(state, palette, group, d, low, values, prior, held) > level:
        low -= 1.0
    while log_target(state, palette, group, d, high, values, prior, held) > level:
        high += 1.0
    while True:
        w = low + rng.random() * (high - low)
        if log_target(state, palette, group, d, w, values, prior, held) >= level:
            return from_line(w, int(prior[0]))
        if w < v:
            low = w
        else:
            high = w


def update_hyperparameters(rng, state, palette, owned, priors, hyperparameters):
    """Redraw every hyperparameter that the step owns, in place.

    Parameters
    ----------
    rng : numpy.random.Generator or None
        None moves each uphill instead.
    state : (n,) float64
        From `pack_statistics`.
    palette : CompiledPalette
    owned : (5, max(2, D)) bool
        Which entries of the five vectors are ours to move; four without leaves over several columns.
    priors : (5, 3) float64
        Family code and two parameters for each group.
    hyperparameters : sequence of five vectors
        Concentration (2,), leaf scale, leaf shape, precision ratio and covariance scale (D,).
    """
    scratch = joint_scratch(len(hyperparameters[1])), np.empty(3), np.empty((int(state[6]), 3))
    update_each(rng, read_only_view(state), leaf_priors(palette), owned, priors, *hyperparameters, *scratch)


@bare_kernel
def update_each(
    rng, state, palette, owned, priors, concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale,
    scratch, values, held,
):  # fmt: skip
    """`update_hyperparameters`, with read-only inputs and scratch."""
    for which in range(2):
        if owned[CONCENTRATION, which]:
            concentration[which] = updated(
                rng, state, palette, CONCENTRATION, which, concentration[which], values, priors[CONCENTRATION], held
            )
    constants = palette.joint_constants
    for d in range(leaf_scale.size):
        values[0] = leaf_scale[d]
        values[1] = leaf_shape[d]
        values[2] = precision_ratio[d]
        for group in range(LEAF_SCALE, PRECISION_RATIO + 1):
            if owned[group, d]:
                x = values[group - 1]
                values[group - 1] = updated(rng, state, palette, group, d, x, values, priors[group], held)
        leaf_scale[d] = values[0]
        leaf_shape[d] = values[1]
        precision_ratio[d] = values[2]
    if len(owned) > COVARIANCE_SCALE:
        prior = priors[COVARIANCE_SCALE]
        for d in range(leaf_scale.size):
            if owned[COVARIANCE_SCALE, d]:
                values[0] = larger(covariance_scale[d] * constants[d, 1], constants[d, 2]) * (EXCESS - 1.0)
                values[1] = constants[d, 1]
                values[2] = constants[d, 2]
                n_held = hold_joint_leaves(state, leaf_scale.size, d, constants, covariance_scale, scratch, held)
                x = covariance_scale[d]
                covariance_scale[d] = updated(rng, state, palette, COVARIANCE_SCALE, d, x, values, prior, held[:n_held])
