"""Leaves with their parameters integrated out, in the units of the data: event probabilities, moments, draws.

The families do the mathematics; here stands which leaf has which family, and what an event (an interval or a
set of values) does to it.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.families import PREDICTIVES, Categorical, DirichletLevels
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.interval_moments import weighted_moments
from pymc_spn.leaves.intervals import EXCLUDED, Interval, Likelihood
from pymc_spn.leaves.leaf_peaks import ColumnRange, largest_within

TOLERANCE = 1e-8  # relative, of moments under an interval


class Leaves(NamedTuple):
    """Posteriors of some leaves of one column, in the units of the data.

    Parameters
    ----------
    family : (n,) int
        Family codes of `network`.
    parameters : (n, p) float64
        Gaussian and log-normal (mu, rho, a, b), Exponential, Poisson and Geometric (alpha, beta, ., .),
        Binomial (alpha, beta, trials, .), levels (alpha_1 .. alpha_K).
    """

    family: np.ndarray
    parameters: np.ndarray

    def some(self, which: np.ndarray) -> "Leaves":
        """Some of them."""
        return Leaves(self.family[which], self.parameters[which])


def by_family(leaves: Leaves) -> Any:
    """(code, which leaves, their posterior) for each family that occurs."""
    for code in np.unique(leaves.family).tolist():
        which = leaves.family == code
        yield code, which, PREDICTIVES[code].posterior(leaves.parameters[which])


def log_masses(code: int, params: Any, x: np.ndarray) -> np.ndarray:
    """Log masses (n, X) of values under leaves of one family, -inf where these are densities."""
    if code == CATEGORICAL:
        return Categorical.predictive_log_density(DirichletLevels(params.alpha[:, None]), x)
    if PREDICTIVES[code].has_masses:
        return PREDICTIVES[code].prior.predictive_log_density(type(params)(*(v[:, None] for v in params)), x)
    return np.full((params[0].size, x.size), -np.inf)


def relative_masses(logs: np.ndarray) -> np.ndarray:
    """Masses (n, X) as parts of the largest one of each leaf, which alone may be too small for a number; 0 for none."""
    largest = logs.max(axis=1, keepdims=True, initial=-np.inf)
    return np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))


def log_event(leaves: Leaves, event: Any) -> np.ndarray:
    """Log probability (n,) of an `Interval`, a `Likelihood` or a set of coded values in each leaf; very low for 0."""
    out = np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        if isinstance(event, Interval):
            out[which] = PREDICTIVES[code].prior.predictive_log_interval(params, event.low, event.high)
            continue
        x, log_weight = event if isinstance(event, Likelihood) else (sorted(event), 0.0)
        logs = log_masses(code, params, np.array(x, dtype=np.float64)) + log_weight
        with np.errstate(divide="ignore"):
            out[which] = logs.max(axis=1, initial=EXCLUDED) + np.log(relative_masses(logs).sum(axis=1))
    return np.maximum(out, EXCLUDED)


def leaf_moments(leaves: Leaves, event: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of each leaf's predictive, given that the value lies in the event.

    Levels count by their codes. Leaves that exclude the event get 0. A Student t of one degree of freedom or
    fewer has no mean: its centre, the principal value, stands for it.
    """
    mean, variance = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        if code == CATEGORICAL:
            p = Categorical.predictive_probabilities(params)
            if event is not None:
                p = p * np.isin(np.arange(p.shape[1]), list(event))
            mean[which], variance[which] = weighted_moments(np.arange(p.shape[1], dtype=np.float64), p)
        elif event is None:
            predictive = PREDICTIVES[code]
            prior, whole = predictive.prior, predictive.whole_moments
            own = (prior.predictive_mean(params), prior.predictive_variance(params)) if whole is None else whole(params)
            mean[which], spread = own
            variance[which] = np.where(np.isnan(spread), np.inf, spread)
        elif not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            mean[which], variance[which] = weighted_moments(x, relative_masses(log_masses(code, params, x)))
        else:
            mean[which], variance[which] = PREDICTIVES[code].moments_within(params, *event)
    return mean, variance


def draw_in_event(leaves: Leaves, event: Any, rng: np.random.Generator) -> np.ndarray:
    """One value (n,) from each leaf's predictive, given that it lies in the event."""
    out = np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        u = rng.random(np.count_nonzero(which))
        if not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            if code == CATEGORICAL:
                weight = Categorical.predictive_probabilities(params)[:, x.astype(np.int64)]
            elif PREDICTIVES[code].has_masses:
                weight = relative_masses(log_masses(code, params, x))
            else:
                weight = np.ones((u.size, x.size))  # never chosen: a set has no mass under a density
            cumulative = np.cumsum(weight, axis=1)
            out[which] = x[(u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
        else:
            out[which] = PREDICTIVES[code].draw_within(params, *event, u)
    return out


def largest_of_predictives(leaves: Leaves, within: ColumnRange) -> tuple[np.ndarray, np.ndarray]:
    """Where predictives (n,) of one column are largest, and their log densities there."""
    values = within.values
    x, logs = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        part, n = PREDICTIVES[code], int(which.sum())
        if code == CATEGORICAL:
            p = np.log(Categorical.predictive_probabilities(params))
            tried = np.arange(p.shape[1]) if values is None else np.array(values, np.int64)
            x[which] = tried[p[:, tried].argmax(axis=1)]
            logs[which] = p[:, tried].max(axis=1)
            continue
        rows, family = part.leaf_rows(params), EXPLICIT.get(part.leaves)
        mode = np.round(rows[:, 0]) if family is None else family.mode(rows)
        highest = np.inf if part.highest is None or family is None or family.ends is None else family.ends(rows)[1]
        shaped = type(params)(*(np.asarray(v)[:, None] for v in params))
        density = partial(part.prior.predictive_log_density, shaped)
        x[which], logs[which] = largest_within(density, mode, np.full(n, part.lowest), highest, within)
    return x, logs
