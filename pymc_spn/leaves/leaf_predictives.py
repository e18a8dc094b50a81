"""Leaves with their parameters integrated out, in the units of the data: event probabilities, moments, draws.

The families do the mathematics; here stands which leaf has which family, and what an event (an interval or a
set of values) does to it.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.interval_moments import weighted_moments
from pymc_spn.leaves.intervals import EXCLUDED, Interval, Likelihood
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_peaks import ColumnRange, largest_of_leaves

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

    def some(self, which: np.ndarray | slice) -> "Leaves":
        """Some of them."""
        return Leaves(self.family[which], self.parameters[which])


def by_family(leaves: Leaves) -> Any:
    """(family, which leaves, their parameters (n, p)) for each family that occurs."""
    for code in np.unique(leaves.family).tolist():
        which, part = leaves.family == code, PREDICTIVES[code]
        yield part.leaves, which, part.leaf_rows(leaves.parameters[which])


def log_masses(family: UnivariateFamily, p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log masses (n, X) of values under leaves of one family, -inf where these are densities."""
    return np.full((len(p), x.size), -np.inf) if family.is_density else family.log_density(p[:, None], x)


def relative_masses(logs: np.ndarray) -> np.ndarray:
    """Masses (n, X) as parts of the largest one of each leaf, which alone may be too small for a number; 0 for none."""
    largest = logs.max(axis=1, keepdims=True, initial=-np.inf)
    return np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))


def log_event(leaves: Leaves, event: Any) -> np.ndarray:
    """Log probability (n,) of an `Interval`, a `Likelihood` or a set of coded values in each leaf; very low for 0."""
    out = np.empty(leaves.family.size)
    for family, which, p in by_family(leaves):
        if isinstance(event, Interval):
            out[which] = family.log_interval(p, event.low, event.high)
            continue
        x, log_weight = event if isinstance(event, Likelihood) else (sorted(event), 0.0)
        logs = log_masses(family, p, np.array(x, dtype=np.float64)) + log_weight
        with np.errstate(divide="ignore"):
            out[which] = logs.max(axis=1, initial=EXCLUDED) + np.log(relative_masses(logs).sum(axis=1))
    return np.maximum(out, EXCLUDED)


def leaf_moments(leaves: Leaves, event: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of each leaf's predictive, given that the value lies in the event.

    Levels count by their codes. Leaves that exclude the event get 0. A Student t of one degree of freedom or
    fewer has no mean: its centre, the principal value, stands for it.
    """
    mean, variance = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for family, which, p in by_family(leaves):
        if event is None:
            own, spread = family.moments(p)
            mean[which] = np.where(np.isnan(own), family.bulk(p)[0], own)
            variance[which] = np.where(np.isnan(spread), np.inf, spread)
        elif not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            mean[which], variance[which] = weighted_moments(x, relative_masses(log_masses(family, p, x)))
        else:
            mean[which], variance[which] = family.moments_within(p, *event)
    return mean, variance


def draw_in_event(leaves: Leaves, event: Any, rng: np.random.Generator) -> np.ndarray:
    """One value (n,) from each leaf's predictive, given that it lies in the event."""
    out = np.empty(leaves.family.size)
    for family, which, p in by_family(leaves):
        u = rng.random(len(p))
        if isinstance(event, Interval):
            out[which] = family.value_within(p, *event, u)
            continue
        x = np.array(sorted(event), dtype=np.float64)
        # a set has no mass under a density, which is never chosen
        weight = np.ones((u.size, x.size)) if family.is_density else relative_masses(log_masses(family, p, x))
        cumulative = np.cumsum(weight, axis=1)
        out[which] = x[(u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
    return out


def largest_of_predictives(leaves: Leaves, within: ColumnRange) -> tuple[np.ndarray, np.ndarray]:
    """Where predictives (n,) of one column are largest, and their log densities there."""
    x, logs = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for family, which, p in by_family(leaves):
        x[which], logs[which] = largest_of_leaves(family, p, within)
    return x, logs
