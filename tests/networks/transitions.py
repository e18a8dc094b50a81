"""Independent transitions of a sampler from enumerated states of the posterior: what they end in must follow it, too.

Each start is a state drawn from the exact posterior. A kernel that keeps the posterior leaves the ends distributed as
the starts are. Ends are independent, so the chi-square test is exact but for its own approximation.
"""

import numpy as np
from scipy import stats

from tests.networks.tiny import palette_and_priors, region_tree
from tests.reference import canonical, digits_from_state, weighted_states

SWEEPS = 2  # of a transition: a mistake shifts the ends further the more of them there are


def explicit_sampler(kind, problem):
    """A sampler of the whole network of a reference problem."""
    compiled, priors = palette_and_priors(problem)
    sampler = kind(region_tree(problem), compiled, np.ascontiguousarray(problem.X, np.float64))
    sampler.set_priors(np.array([problem.alpha_inner, problem.alpha_leaf]), priors)
    return sampler


def ends_of(problem, sampler, draws, sweeps=SWEEPS, seed=1):
    """Which states (draws,) transitions end in, and the exact probabilities of all."""
    rng = np.random.default_rng(seed)
    states, weights, _ = weighted_states(problem)
    starts = [np.ascontiguousarray(digits_from_state(problem, state), np.int32) for state in states]
    number = {canonical(digits, problem): i for i, digits in enumerate(starts)}
    seen, ends = {}, np.empty(draws, np.int64)
    for i, start in enumerate(rng.choice(len(states), draws, p=weights / weights.sum())):
        sampler.set_digits(starts[start])
        for _ in range(sweeps):
            sampler.sweep(rng)
        digits = sampler.digits()
        key = digits.tobytes()
        if key not in seen:
            seen[key] = number[canonical(digits, problem)]
        ends[i] = seen[key]
    return ends, weights / weights.sum()


def z_of_counts(ends, weights):
    """Chi-square statistic of counts as a standard normal score; states of fewer than five expected ends are one."""
    expected, counts = weights * len(ends), np.bincount(ends, minlength=weights.size)
    few = expected < 5.0
    pairs = [(counts[~few], expected[~few]), ([counts[few].sum()], [expected[few].sum()])]
    counts, expected = (np.concatenate(part) for part in zip(*(pairs if few.any() else pairs[:1]), strict=True))
    if expected[-1] < 5.0:
        counts, expected = (np.append(v[:-2], v[-2:].sum()) for v in (counts, expected))
    if expected.size == 1:
        return 0.0
    return float(stats.norm.isf(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), expected.size - 1)))


def z_of_transitions(problem, sampler, draws, **options):
    """`z_of_counts` of the ends of transitions."""
    return z_of_counts(*ends_of(problem, sampler, draws, **options))
