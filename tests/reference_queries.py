"""Exact predictive of a tiny problem and queries to it: all states averaged, quadrature in the leaves.

An event of one column is None (anything), a number (a point: density or mass), ``(low, high)`` (closed, None
is unbounded) or a set of values of a discrete column.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import stats
from scipy.integrate import quad

from tests.reference import Problem, Region, State, log_marginal, weighted_states

DENSITIES = ("gaussian", "log_normal", "exponential")
FAR = 4_000  # the count up to which masses of rounded leaves are summed one by one
Event = None | float | tuple | set | frozenset


# ---- 1. predictive densities
LeafValue = Callable[[int, int, tuple[int, ...]], np.ndarray]


def network_value(problem: Problem, state: State, leaf_value: LeafValue) -> np.ndarray:
    """Value of the collapsed network of one state, from ``leaf_value(column, entry, rows in the leaf)``.

    Every child is visited, also the empty ones; the new child of an infinite node stands for them all.
    """

    def node_value(region: Region, rows: tuple[int, ...]):
        rows = tuple(n for n in rows if region.index in state[n])
        width, alpha = problem.n_children(region), problem.alpha(region)
        on_label = defaultdict(tuple)
        for n in rows:
            on_label[state[n][region.index]] += (n,)
        if width == math.inf:
            children = [(len(block), label, block) for label, block in on_label.items()]
            n_entries = problem.n_options(region)
            children += [(alpha / n_entries, entry, ()) for entry in range(n_entries)]
        else:
            children = [(len(on_label[c]) + problem.child_mass(region, c), c, on_label[c]) for c in range(width)]
        return sum(mass * child_value(region, label, block) for mass, label, block in children) / (len(rows) + alpha)

    def child_value(region: Region, label: int, rows: tuple[int, ...]):
        if region.column is not None:
            return leaf_value(region.column, label % problem.n_options(region), rows)
        parts = region.splits[label % len(region.splits)]
        return math.prod(node_value(problem.region_list[part], rows) for part in parts)

    return node_value(problem.region_list[0], tuple(range(len(state))))


def posterior_value(problem: Problem, leaf_value: LeafValue) -> np.ndarray:
    """Posterior average of `network_value` over all states."""
    states, weights, _ = weighted_states(problem)
    possible = [(w, state) for w, state in zip(weights, states, strict=True) if w > 0]
    return sum(w * network_value(problem, state, leaf_value) for w, state in possible)


def leaf_densities(problem: Problem, new_rows: np.ndarray) -> LeafValue:
    """Leaf predictives of new rows (M, D); a missing cell is worth 1."""

    @cache
    def leaf_value(column: int, entry: int, rows: tuple[int, ...]) -> np.ndarray:
        family, prior = asked_leaf(problem, column, entry)
        held = problem.X[list(rows), column]
        values, where = np.unique(new_rows[:, column], return_inverse=True)
        log_held = log_marginal(
            "gaussian" if family == "rounded" else family, prior, held
        )  # as `log_leaf_predictive`, what is held worked out once
        if family == "rounded":
            return np.array([1.0 if np.isnan(x) else cell_mass(prior, held, x) for x in values])[where]
        logs = [0.0 if np.isnan(x) else log_marginal(family, prior, [*held, x]) - log_held for x in values]
        return np.exp(logs)[where]

    return leaf_value


def asked_leaf(problem: Problem, column: int, entry: int) -> tuple[str, dict]:
    """Family and prior of a leaf; a Gaussian one among leaves with masses is called "rounded", of counts."""
    family, prior = problem.palettes[column][entry]
    among_masses = any(other not in DENSITIES for other, _ in problem.palettes[column])
    return ("rounded" if family == "gaussian" and among_masses else family), prior


def student_of(prior: dict, held: np.ndarray):
    """Predictive of a Gaussian leaf that holds some values."""
    held = np.asarray(held, dtype=float)
    mu0, rho0, a0, b0, n = *(prior[k] for k in ("mu0", "rho0", "a0", "b0")), len(held)
    rho, a, mean = rho0 + n, a0 + n / 2, held.mean() if n else mu0
    b = b0 + (((held - mean) ** 2).sum() + rho0 * n / rho * (mean - mu0) ** 2 + n * prior.get("cell", 0.0)) / 2
    return stats.t(2 * a, (rho0 * mu0 + n * mean) / rho, math.sqrt((rho + 1) / rho * b / a))


def cell_mass(prior: dict, held: np.ndarray, x: float) -> float:
    """Mass of a count in a rounded leaf: of its unit cell, and of 0 all that is below 1/2."""
    t = student_of(prior, held)
    return float(t.cdf(x + 0.5) - (t.cdf(x - 0.5) if x > 0 else 0.0))


def log_predictive(problem: Problem, state: State, new_rows: np.ndarray) -> np.ndarray:
    """(M,) log p(new row | X, state) of each new row by itself, all parameters integrated out."""
    densities = network_value(problem, state, leaf_densities(problem, np.asarray(new_rows, dtype=float)))
    with np.errstate(divide="ignore"):  # an impossible row has log density -inf
        return np.log(densities)


def log_posterior_predictive(problem: Problem, new_rows: np.ndarray) -> np.ndarray:
    """(M,) log p(new row | X) of each new row by itself, all states averaged."""
    densities = posterior_value(problem, leaf_densities(problem, np.asarray(new_rows, dtype=float)))
    with np.errstate(divide="ignore"):
        return np.log(densities)


# ---- 2. events and moments
def leaf_integral(family: str, prior: dict, held: np.ndarray, event: Event, power: int) -> float:
    """Integral (or sum) over the event of x**power times the predictive of a leaf which holds some values.

    A Gaussian leaf among leaves with masses is called "rounded": each count has the mass of its unit cell.
    """
    if family == "rounded":
        if event is None or isinstance(event, tuple):
            low, high = (None, None) if event is None else event
            first = 0 if low is None else max(math.ceil(low), 0)
            last = FAR if high is None else math.floor(high)
            t, counts = student_of(prior, held), np.arange(first, last + 1)
            below = np.where(counts > 0, t.cdf(counts - 0.5), 0.0)
            found = float(((t.cdf(counts + 0.5) - below) * counts.astype(float) ** power).sum())
            if high is not None:
                return found
            if power == 0:
                return found + t.sf(FAR + 0.5)
            # far out the mean over a cell of the square of its count is larger by 1/12 than that of the square
            more = 1.0 / 12.0 if power == 2 else 0.0
            tail = quad(lambda u: (1.0 / u**power + more) * t.pdf(1.0 / u) / u**2, 0.0, 1.0 / (FAR + 0.5))[0]
            return found + tail
        return sum(
            cell_mass(prior, held, k) * float(k) ** power
            for k in np.ravel(list(event) if isinstance(event, set | frozenset) else event)
        )

    log_held = log_marginal(family, prior, held)

    def density(x):
        return math.exp(log_marginal(family, prior, [*held, x]) - log_held)

    if isinstance(event, set | frozenset):
        if family in DENSITIES:
            raise ValueError("a set of values has probability zero in a continuous leaf")
        return sum(density(x) * x**power for x in event)
    if event is not None and not isinstance(event, tuple):
        return density(event) * float(event) ** power
    low, high = (-math.inf, math.inf) if event is None else event
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if family in DENSITIES:
        return integrate(family, prior, held, low, high, lambda x: density(x) * x**power)
    if family in ("poisson", "geometric"):
        last = high if high < math.inf else last_count(density)
    elif family == "binomial":
        last = min(high, prior["trials"])
    else:
        last = min(high, len(prior["alpha"]) - 1)
    return sum(density(x) * x**power for x in range(math.ceil(max(0, low)), math.floor(last) + 1))


def integrate(family: str, prior: dict, held: np.ndarray, low: float, high: float, function) -> float:
    """Quadrature in units of the prior's scale, cut at a point inside the bulk."""
    if family == "gaussian":
        centre = (prior["rho0"] * prior["mu0"] + held.sum()) / (prior["rho0"] + len(held))
        scale = math.sqrt(prior["b0"] / prior["a0"])
    elif family == "log_normal":  # in logs
        held = np.log(held)
        centre = (prior["rho0"] * prior["mu0"] + held.sum()) / (prior["rho0"] + len(held))
        scale = math.sqrt(prior["b0"] / prior["a0"])
        low, high = (math.log(v) if v > 0 else -math.inf for v in (low, high))
        in_data, function = function, lambda u: in_data(math.exp(u)) * math.exp(u) if u < 700.0 else 0.0
    else:
        low, centre, scale = max(low, 0.0), prior["beta"] / prior["alpha"], prior["beta"] / prior["alpha"]
    if low >= high:
        return 0.0
    cuts = [low, centre, high] if low < centre < high else [low, high]
    ends = [(cut - centre) / scale for cut in cuts]
    return sum(
        scale * quad(lambda u: function(centre + scale * u), a, b, epsabs=1e-12, epsrel=1e-9, limit=200)[0]
        for a, b in itertools.pairwise(ends)
    )


def last_count(density) -> int:
    """A count beyond which the mass and its first two moments do not matter."""
    x, mass = 0, density(0)
    while mass < 0.5 or density(x) * x**2 > 1e-15:
        x += 1
        mass += density(x)
    return x


def expectation(problem: Problem, events: dict[int, Event], powers: dict[int, int] | None = None) -> float:
    """Posterior predictive integral over the events of the product of x_d ** powers[d]."""
    return float(expectations(problem, events, [powers or {}])[0])


def expectations(problem: Problem, events: dict[int, Event], powers: list[dict[int, int]]) -> np.ndarray:
    """As `expectation` for several products of powers (Q,): one pass over the states, each integral once."""

    @cache
    def leaf_value(column, entry, rows):
        family, prior = asked_leaf(problem, column, entry)
        held = problem.X[list(rows), column]
        asked = [one.get(column, 0) for one in powers]
        value = {
            k: leaf_integral(family, prior, held, events.get(column), k) if column in events or k else 1.0
            for k in set(asked)
        }
        return np.array([value[k] for k in asked])

    return posterior_value(problem, leaf_value)


def probability(problem: Problem, event: dict[int, Event], given: dict[int, Event] | None = None) -> float:
    """p(event | given) of a new row: a probability, or a density in columns that are points."""
    given = given or {}
    if set(event) & set(given):
        raise ValueError("event and given share a column")
    return expectation(problem, event | given) / (expectation(problem, given) if given else 1.0)


def mean(problem: Problem, given: dict[int, Event] | None = None) -> np.ndarray:
    """(D,) posterior predictive mean of a new row; leaves need a finite mean."""
    return moments(problem, given)[0]


def covariance(problem: Problem, given: dict[int, Event] | None = None) -> np.ndarray:
    """(D, D) posterior predictive covariance of a new row; leaves need a finite variance."""
    return moments(problem, given, second=True)[1]


def moments(
    problem: Problem, given: dict[int, Event] | None = None, second: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D,) and, if asked, covariance (D, D) of a new row."""
    columns = range(len(problem.palettes))
    pairs = [(d, e) for d in columns for e in columns] if second else []
    powers = [{}, *({d: 1} for d in columns), *({d: 2} if d == e else {d: 1, e: 1} for d, e in pairs)]
    total, *found = expectations(problem, given or {}, powers)
    centre = np.array(found[: len(columns)]) / total
    square = np.array(found[len(columns) :]) / total
    return centre, square.reshape(len(columns), -1) - np.outer(centre, centre) if second else square
