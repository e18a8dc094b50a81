"""Leaves that are frozen distributions of SciPy, for families of which no kernel has a formula.

SciPy works out their log densities at the cells of a table, and the kernels read these as columns of their own, one for
each such leaf (`evaluation.completion.Parameterised`). What needs more of a leaf than that, its distribution function,
its first two moments and random values (modes, products of leaves, derivatives), does not take them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pymc_spn.circuits.leaves.plain_leaves import ExplicitLeaf
from pymc_spn.circuits.leaves.tail_probabilities import UNDERFLOW, log_difference
from pymc_spn.numerics.halving import smallest_reaching

CONTINUOUS, DISCRETE = "scipy_continuous", "scipy_discrete"
SCIPY = (CONTINUOUS, DISCRETE)
EXAMPLE = {CONTINUOUS: "stats.skewnorm(4.0)", DISCRETE: "stats.skellam(2.0, 1.0)"}


def family_of(distribution: Any) -> str:
    """Name of the family of a frozen distribution.

    Raises
    ------
    TypeError
        If it is none.
    """
    for family in SCIPY:
        if _is_of(family, distribution):
            return family
    raise TypeError(
        "distribution must be the name of a family or a frozen distribution of scipy.stats, such as "
        f"{EXAMPLE[CONTINUOUS]}; got {distribution!r}"
    )


def _is_of(family: str, distribution: Any) -> bool:
    from scipy import stats  # slow to import, and whoever has a distribution has imported it

    generator = stats.rv_continuous if family == CONTINUOUS else stats.rv_discrete
    return isinstance(getattr(distribution, "dist", None), generator)


def as_rows(family: str, given: Any) -> np.ndarray:
    """Distributions as (n, 1) objects, in the place of rows of parameters.

    Raises
    ------
    TypeError
        If they are no sequence of distributions.
    """
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise TypeError(
            f"leaf_parameters[{family!r}] must be a sequence of distributions, got {type(given).__name__}; for example "
            f"[{EXAMPLE[family]}]"
        )
    items = given[:, 0] if isinstance(given, np.ndarray) and given.ndim == 2 and given.shape[1] == 1 else given
    out = np.empty((len(items), 1), object)
    for row, item in enumerate(items):
        out[row, 0] = item
    return out


def problem_of(family: str) -> Callable[[np.ndarray], tuple[int, str] | None]:
    """First row that is no distribution of the family, and the rule that it breaks; see `ExplicitLeaf.problem`."""

    def problem(parameters: np.ndarray) -> tuple[int, str] | None:
        for row, item in enumerate(parameters[:, 0]):
            rule = _broken_rule(family, item)
            if rule is not None:
                return row, rule
        return None

    return problem


def _broken_rule(family: str, item: Any) -> str | None:
    if not _is_of(family, item):
        kind = family.removeprefix("scipy_")
        return f"must hold frozen {kind} distributions of scipy.stats, such as {EXAMPLE[family]}"
    ends = np.array(item.support(), np.float64)
    if ends.ndim != 1:
        return "each distribution must be of one number, without arrays among its parameters"
    if np.isnan(ends).any():
        return "parameters of each distribution must be valid"
    if family == DISCRETE:
        listed = np.ravel(getattr(item.dist, "xk", ends[:0]))
        places = np.concatenate([ends[np.isfinite(ends)], [item.ppf(0.5)], listed])
        if np.any(places != np.floor(places)):
            return "discrete distributions must have their masses on whole numbers"
    return None


def log_density_at(distribution: Any, x: np.ndarray) -> np.ndarray:
    """Log density or mass of one distribution at values (n,), NaN at NaN.

    A value at which the density is infinite does not belong to the leaf: ``-inf``, as at the ends of Gamma and Beta
    leaves.

    Raises
    ------
    ValueError
        If SciPy gives NaN at a value.
    """
    out = np.full(x.shape, np.nan)
    known = ~np.isnan(x)
    name = "logpdf" if _is_of(CONTINUOUS, distribution) else "logpmf"
    logs = _answers(distribution, name, x[known])
    out[known] = np.where(np.isposinf(logs), -np.inf, logs)
    return out


def log_interval_of(distribution: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log P(low <= X <= high) of one distribution, by the distribution function on the side that holds the interval.

    Raises
    ------
    ValueError
        If SciPy gives NaN at an end.
    """
    if _is_of(DISCRETE, distribution):
        low, high = np.ceil(low) - 1.0, np.floor(high)
    is_low = _log_tail(distribution, "logcdf", low) < np.log(0.5)
    lower = _log_tail(distribution, "logcdf", high), _log_tail(distribution, "logcdf", low)
    upper = _log_tail(distribution, "logsf", low), _log_tail(distribution, "logsf", high)
    larger, smaller = (np.where(is_low, a, b) for a, b in zip(lower, upper, strict=True))
    return np.where(larger > smaller, log_difference(larger, np.minimum(larger, smaller)), -np.inf)


def draw_interval_of(distribution: Any, low: np.ndarray, high: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Quantiles (n,) at u of one distribution within intervals that have some probability.

    On the side that holds the interval; by halving, in logs, where probabilities there underflow.
    """
    below = low
    if _is_of(DISCRETE, distribution):
        low, high = np.ceil(low), np.floor(high)
        below = low - 1.0
    is_low = _log_tail(distribution, "logcdf", below) < np.log(0.5)
    out = np.empty(u.shape)
    for name, inverse, at in (("logcdf", "ppf", is_low), ("logsf", "isf", ~is_low)):
        ends = [np.exp(_log_tail(distribution, name, end[at])) for end in (below, high)]
        out[at] = _answers(distribution, inverse, ends[0] + u[at] * (ends[1] - ends[0]))
    logs = log_interval_of(distribution, low, high)
    lost = np.exp(logs) < UNDERFLOW
    if np.any(lost):
        start, target = low[lost], logs[lost] + np.log1p(-u[lost])
        out[lost] = smallest_reaching(
            lambda x: log_interval_of(distribution, start, x) < target, np.nextafter(start, -np.inf), high[lost]
        )
    return np.clip(out, low, high)  # rounding may lead past an end


def _log_tail(distribution: Any, name: str, x: np.ndarray) -> np.ndarray:
    """Logs of the distribution function or of its complement (n,), also at infinity, where some of SciPy's are NaN."""
    out = np.where((x > 0.0) == (name == "logcdf"), 0.0, -np.inf)
    inside = np.isfinite(x)
    out[inside] = _answers(distribution, name, x[inside])
    return out


def _answers(distribution: Any, name: str, x: np.ndarray) -> np.ndarray:
    """What a method of SciPy's gives at values (n,), none of them NaN."""
    if x.size == 0:
        return np.zeros(0)
    with np.errstate(all="ignore"):
        out = np.asarray(getattr(distribution, name)(x), np.float64)
    if np.any(np.isnan(out)):
        value = x[int(np.argmax(np.isnan(out)))]
        raise ValueError(f"SciPy's {distribution.dist.name} distribution has {name} NaN at {value}")
    return out


def distinct_items(own: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[Any, np.ndarray]]:
    """Each distribution among objects that broadcast to a shape, and where in the shape it stands."""
    items = {id(item): item for item in own.ravel()}
    number = np.broadcast_to(np.array([id(item) for item in own.ravel()], np.int64).reshape(own.shape), shape)
    for key, item in items.items():
        yield item, number == key


def of_each(answer: Callable[..., Any], p: np.ndarray, *arguments: Any) -> np.ndarray:
    """``answer`` of each distribution (..., 1) at arguments that broadcast against its leading shape."""
    shape = np.broadcast_shapes(p.shape[:-1], *(np.shape(a) for a in arguments))
    arguments = tuple(np.broadcast_to(np.asarray(a, np.float64), shape) for a in arguments)
    out = np.empty(shape)
    for item, at in distinct_items(p[..., 0], shape):
        out[at] = answer(item, *(a[at] for a in arguments))
    return out


def scipy_log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """As `leaf_events.log_interval`, of distributions (..., 1)."""
    return of_each(log_interval_of, p, low, high)


def scipy_draw_within(p: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A value (n,) of each distribution (n, 1) within an interval, as exact as SciPy's quantiles."""
    return of_each(draw_interval_of, p, low, high, rng.random(len(p)))


def _mean(distribution: Any) -> Any:
    with np.errstate(all="ignore"):
        return distribution.mean()


def _variance(distribution: Any) -> Any:
    with np.errstate(all="ignore"):
        return distribution.var()


def _no_mode(p: np.ndarray) -> np.ndarray:
    return np.full(p.shape[:-1], np.nan)


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    out = np.empty(p.shape[:-1])
    for item, at in distinct_items(p[..., 0], out.shape):
        out[at] = item.rvs(size=int(at.sum()), random_state=rng)
    return out


SCIPY_LEAVES = {
    family: ExplicitLeaf(
        family == CONTINUOUS,
        lambda p, x: of_each(log_density_at, p, x),
        problem_of(family),
        lambda p: of_each(_mean, p),
        lambda p: of_each(_variance, p),
        _no_mode,
        _draw,
    )
    for family in SCIPY
}
