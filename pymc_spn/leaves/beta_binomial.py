"""Beta-binomial leaves: binomial ones whose probability of success is integrated out."""

import math

import numpy as np

from pymc_spn.leaves.binomial import (
    LARGEST_TRIALS,
    TRIALS_RULE,
    BetaTrials,
    Binomial,
    are_trials,
)
from pymc_spn.leaves.conjugate_pieces import BETA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.interval_moments import from_factorial
from pymc_spn.leaves.kernel_forms import FACTORIAL, IMPOSSIBLE, URN
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.gamma_ratios import log_rising, log_rising_from
from pymc_spn.numerics.kernel_options import bare_inner_kernel

HELD = 4_000_000  # masses held at a time (32 MB)


def beta_trials(p: np.ndarray) -> BetaTrials:
    """Posterior whose predictive is the beta-binomial (number of trials, alpha, beta)."""
    return BetaTrials(p[..., 1], p[..., 2], p[..., 0])


def counts_within(params: BetaTrials, low: float, high: float) -> np.ndarray:
    """Counts (n,) of an interval that some leaf allows."""
    first = max(math.ceil(low), 0) if low > -math.inf else 0
    return np.arange(float(first), math.floor(min(high, params.trials.max(initial=0.0))) + 1.0)


def _about_whole(params: BetaTrials, centre: np.ndarray, order: int) -> np.ndarray:
    """Factorial moments m (m - 1) .. a (a + 1) .. / ((a + b) (a + b + 1) ..)."""
    alpha, beta, trials = params
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        share = (alpha + k - 1.0) / (alpha + beta + k - 1.0)
        factorial[:, k] = factorial[:, k - 1] * np.maximum(trials - k + 1.0, 0.0) * share
    return from_factorial(factorial, -centre)


def about_within(params: BetaTrials, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of binomial leaves, ``centre`` (n,); 0 without mass there."""
    if low <= 0.0 and high >= params.trials.max(initial=0.0):
        return _about_whole(params, centre, order)
    x = counts_within(params, low, high)
    logs = Binomial.predictive_log_density(BetaTrials(*(v[:, None] for v in params)), x)
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    mass = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    total = mass.sum(axis=1, keepdims=True)
    mass = mass / np.where(total > 0.0, total, 1.0)
    away = x - centre[:, None]
    return np.stack([np.ones(centre.size), *((mass * away**k).sum(axis=1) for k in range(1, order + 1))], axis=1)


def moments_within(params: BetaTrials, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    mean = about_within(params, low, high, np.zeros(params.alpha.shape), 1)[:, 1]
    return mean, about_within(params, low, high, mean, 2)[:, 2]


def _coefficients(theta, width, out):
    both = theta[1] + theta[2]
    norm = math.lgamma(both) - math.lgamma(both + theta[0]) - math.lgamma(theta[1]) - math.lgamma(theta[2])
    out[0] = math.lgamma(theta[0] + 1.0) + norm
    out[1] = theta[1]
    out[2] = theta[2] + theta[0]
    out[3] = theta[0]


def _form(lead, a, b, c, table, u):
    return lead + math.lgamma(a + u) + math.lgamma(b - u) - math.lgamma(c - u + 1.0) if u <= c else IMPOSSIBLE


def _add_gradient(theta, width, u, x, flow, out):
    if u <= theta[0]:  # the number of trials as if it were continuous
        n, alpha, beta = theta[0], theta[1], theta[2]
        total, after = digamma(alpha + beta) - digamma(alpha + beta + n), digamma(beta + n - u)
        out[0] += flow * (digamma(n + 1.0) - digamma(n - u + 1.0) + after - digamma(alpha + beta + n))
        out[1] += flow * (total + digamma(alpha + u) - digamma(alpha))
        out[2] += flow * (total + after - digamma(beta))


def _draw_one(rng, theta):
    log_odds = log_gamma_draw(rng, theta[1]) - log_gamma_draw(rng, theta[2])
    return float(rng.binomial(int(theta[0]), 1.0 / (1.0 + math.exp(-log_odds))))


def _are_valid(theta):
    if not (theta[0] <= LARGEST_TRIALS and theta[0] == np.floor(theta[0])):
        return False
    return 0.0 < theta[0] and 0.0 < theta[1] < math.inf and 0.0 < theta[2] < math.inf


def _reach(p: np.ndarray) -> tuple[float, float]:
    """Leaves with two peaks are largest at both ends."""
    two = p[(p[:, 0] < 1.0) & (p[:, 1] < 1.0)]
    return (0.0, float(two[:, 2].max())) if len(two) else (np.inf, -np.inf)


def _draw_within(params: BetaTrials, low: float, high: float, u: np.ndarray) -> np.ndarray:
    """Smallest count up to which the interval holds a share u of its mass, by the masses of its few counts."""
    x = counts_within(params, low, high)
    out = np.full(u.size, max(math.ceil(low), 0.0) if low > -math.inf else 0.0)
    step = max(1, HELD // max(x.size, 1))
    for i in range(0, u.size if x.size else 0, step):
        part = slice(i, i + step)
        logs = Binomial.predictive_log_density(BetaTrials(*(v[part, None] for v in params)), x)
        cumulative = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        out[part] = x[(u[part, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
    return out


def _raw_moments(params: BetaTrials, centre: float, order: int) -> np.ndarray:
    return about_within(params, 0.0, np.inf, np.full(params.alpha.size, centre), order)


@bare_inner_kernel
def log_beta_binomial(x, rest, a, b, constant):
    """Log mass of x successes and ``rest`` failures; the constant is log trials! less the rising factorial of a + b."""
    choose = constant - math.lgamma(x + 1.0) - math.lgamma(rest + 1.0)
    return choose + log_rising(a, x) + log_rising(b, rest)


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    """The variance of the entry is its number of trials."""
    a = 1.0 / scale
    return a * mean / variance, a * (variance - mean) / variance, variance, 0.0


def _conjugate_posterior(n, s1, s2, p0, p1, p2, p3):
    return p0 + s1, p1 + n * p2 - s1, p2, 0.0


def _add(s1, s2, sign, u, offset, cell, trials):
    x = u + offset
    s2 += sign * math.lgamma(x + 1.0)
    return s1 + sign * x, s2 + sign * (math.lgamma(trials - x + 1.0) - math.lgamma(trials + 1.0))


def _predictive(p0, p1, p2, p3, half_step, cell):
    return math.lgamma(p2 + 1.0) - log_rising(p0 + p1, p2), 0.0, p0, 0.0, p1


def _log_predictive(u, offset, log_scale, power, centre, curvature, slope, trials):
    x = u + offset
    rest = trials - x
    if rest < 0.0:
        return IMPOSSIBLE
    return log_beta_binomial(x, rest, centre, slope, log_scale)


def _log_density_of(u, offset, p0, p1, p2, p3, half_step, cell):
    x = u + offset
    return log_beta_binomial(x, p2 - x, p0, p1, math.lgamma(p2 + 1.0) - log_rising(p0 + p1, p2))


def _add_log_marginal(log_p, n, s1, s2, p0, p1, p2, p3, first, second):
    log_p += log_rising_from(p0, s1, first) + log_rising_from(p1, n * p2 - s1, second) - s2
    return log_p - log_rising(p0 + p1, n * p2)


def _add_slopes(out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log):
    both = p0 + p1
    by_both = digamma(both) - digamma(both + n * p2)
    by_alpha = digamma(p0 + s1) - first + by_both
    by_beta = digamma(p1 + (n * p2 - s1)) - second + by_both
    out[0] -= (by_alpha * p0 + by_beta * p1) / leaf_scale


def _expected(p0, p1, p2, p3, cell):
    """Without a square the centre is free for the number of trials."""
    return p2 * (digamma(p1) - digamma(p0 + p1)), p2, 0.0, digamma(p1) - digamma(p0)


def _log_base(x, centre):
    return math.lgamma(centre + 1.0) - math.lgamma(centre - x + 1.0)


@bare_inner_kernel
def draw_successes(rng, trials, log_odds):
    """Binomial variate by the waiting times between the rarer outcomes: some trials min(p, 1 - p) + 1 steps."""
    rare = math.exp(-abs(log_odds))
    rate = math.log1p(rare)  # - log(1 - p) of the rarer outcome: its odds are `rare`
    found = 0.0
    at = np.floor(rng.standard_exponential() / rate) + 1.0 if rate > 0.0 else math.inf
    while at <= trials:
        found += 1.0
        at += np.floor(rng.standard_exponential() / rate) + 1.0
    return found if log_odds < 0.0 else trials - found


def _draw_predictive(rng, p0, p1, p2, p3, offset):
    success = log_gamma_draw(rng, p0)
    failure = log_gamma_draw(rng, p1)
    return draw_successes(rng, p2, success - failure) - offset


def _simulate(rng: np.random.Generator, prior: np.ndarray, offset: float, n: int) -> np.ndarray:
    p = Binomial.draw_parameters(BetaTrials(*prior[:3]), rng)[1]
    return rng.binomial(int(prior[2]), p, n) - offset


CONJUGATE = Conjugate(
    reading=FACTORIAL,
    prior_form=BETA_PRIOR,
    prior=_prior,
    posterior=_conjugate_posterior,
    add=_add,
    predictive=_predictive,
    log_predictive=_log_predictive,
    log_density=_log_density_of,
    add_log_marginal=_add_log_marginal,
    add_slopes=_add_slopes,
    expected=_expected,
    log_base=_log_base,
    draw=_draw_predictive,
    simulate=_simulate,
)
PREDICTIVE = Predictive(
    prior=Binomial,
    leaves="beta_binomial",
    conjugate=CONJUGATE,
    posterior=lambda parameters: BetaTrials(*parameters[:, :3].T),
    leaf_rows=lambda params: np.stack([params.trials, params.alpha, params.beta], axis=1),
    moments=_raw_moments,
    bulk=lambda params: (Binomial.predictive_mean(params), np.sqrt(Binomial.predictive_variance(params))),
    lowest=0.0,
    highest=lambda params: float(params.trials.max()),
    moments_within=moments_within,
    about_within=about_within,
    draw_within=_draw_within,
    has_masses=True,
)
BETA_BINOMIAL = UnivariateFamily(
    name="beta_binomial",
    n_parameters=3,
    is_density=False,
    log_density=lambda p, x: Binomial.predictive_log_density(beta_trials(p), x),
    check=checked_rows(
        "number of trials, alpha, beta",
        f"number of trials must be a whole number {TRIALS_RULE}, alpha and beta positive and finite",
        lambda p: are_trials(p[:, 0]) & (p[:, 1:] > 0).all(axis=1),
    ),
    mean=lambda p: Binomial.predictive_mean(beta_trials(p)),
    variance=lambda p: Binomial.predictive_variance(beta_trials(p)),
    mode=lambda p: Binomial.predictive_mode(beta_trials(p)),
    draw=lambda p, rng: Binomial.predictive_draw(beta_trials(p), rng),
    log_interval=lambda p, low, high: Binomial.predictive_log_interval(beta_trials(p), low, high),
    lowest=0.0,
    ends=lambda p: (np.zeros(len(p)), p[:, 0]),
    moments_within=lambda p, low, high: moments_within(beta_trials(p), low, high),
    kernels=Kernels(URN, FACTORIAL, _form, _coefficients, _add_gradient, _draw_one, _are_valid),
    predictive=PREDICTIVE,
)
