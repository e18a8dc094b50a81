"""Leaves that are frozen distributions of SciPy, for families without a formula in a kernel.

SciPy works out their log densities at the cells of a table, and the kernels read these as columns of their own, one for
each such leaf (`evaluation.completion.Parameterised`). What needs more of a leaf than that, its distribution function,
its first two moments and random values (modes, products of leaves, derivatives), does not take them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.tail_probabilities import log_difference
from pymc_spn.numerics.halving import smallest_reaching
from pymc_spn.numerics.quoted_values import quoted

CONTINUOUS, DISCRETE = "scipy_continuous", "scipy_discrete"
SCIPY = (CONTINUOUS, DISCRETE)
FEW = 1_000  # whole numbers whose masses are added
ROUNDING = 1e-7  # by which the share below a quantile of SciPy's may be off
EXAMPLE = {CONTINUOUS: "stats.gamma(2.0)", DISCRETE: "stats.skellam(2.0, 1.0)"}


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
        f"{EXAMPLE[CONTINUOUS]}; got {quoted(distribution)}"
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
    """First row that is no distribution of the family, and the rule that it breaks; see `UnivariateFamily.check`."""

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
    if item.dist.name == "vonmises":
        return "must not hold a density on a circle, which has no end: take stats.vonmises_line"
    try:
        ends = np.array(item.support(), np.float64)
    except TypeError:
        return "parameters of each distribution must be numbers"
    if ends.ndim != 1:
        return "each distribution must be of one number, without arrays among its parameters"
    if np.isnan(ends).any():
        return "parameters of each distribution must be valid"
    if family == DISCRETE and not hasattr(item.dist, "log_mass_between"):
        listed = np.ravel(getattr(item.dist, "xk", ends[:0]))
        places = np.concatenate([ends[np.isfinite(ends)], [item.ppf(0.5)], listed])
        if np.any(places != np.floor(places)):
            return "discrete distributions must have their masses on whole numbers"
    return None


def log_density_at(distribution: Any, x: np.ndarray) -> np.ndarray:
    """Log density or mass of one distribution at values (n,), NaN at NaN.

    A value that is infinite, or at which the density is, does not belong to the leaf: ``-inf``, as at the end of
    ``stats.gamma(0.5)``.

    Raises
    ------
    ValueError
        If SciPy gives NaN at a value.
    """
    out = np.where(np.isnan(x), np.nan, -np.inf)
    known = np.isfinite(x)
    name = "logpdf" if _is_of(CONTINUOUS, distribution) else "logpmf"
    logs = _answers(distribution, name, x[known])
    out[known] = np.where(np.isposinf(logs), -np.inf, logs)
    return out


def log_interval_of(distribution: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log P(low <= X <= high) of one distribution, by the distribution function on the side that holds the interval.

    Of up to `FEW` whole numbers by the sum of their masses, as differences lose digits.

    Raises
    ------
    ValueError
        If SciPy gives NaN at an end.
    """
    truncated = getattr(distribution.dist, "log_mass_between", None)  # `queries.truncated_leaves`
    if truncated is not None:
        return truncated(low, high)
    if _is_of(CONTINUOUS, distribution):
        return _by_tails(distribution, low, high)
    first, last = np.ceil(low), np.floor(high)
    out, few = np.full(low.shape, -np.inf), _are_few(first, last)
    if np.any(few):
        out[few] = logsumexp(_log_masses(distribution, first[few], last[few]), axis=1)
    out[~few] = _by_tails(distribution, first[~few] - 1.0, last[~few])
    return out


def _by_tails(distribution: Any, low: np.ndarray, high: np.ndarray, strict: bool = True) -> np.ndarray:
    """log P(low < X <= high); where SciPy gives NaN as at infinity, unless it is to be an error."""
    cdf, sf = (partial(_log_tail, distribution, name, strict=strict) for name in ("logcdf", "logsf"))
    is_low = cdf(low) < np.log(0.5)
    larger, smaller = np.where(is_low, cdf(high), sf(low)), np.where(is_low, cdf(low), sf(high))
    return np.where(larger > smaller, log_difference(larger, np.minimum(larger, smaller)), -np.inf)


def _are_few(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # infinite ends
        return last - first < FEW


def _log_masses(distribution: Any, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Logs (n, K) of the masses of whole numbers from first to last (n,), ``-inf`` behind them; K is at least 1."""
    values = first[:, None] + np.arange(max(float(np.max(last - first)), 0.0) + 1.0)
    inside = values <= last[:, None]
    out = np.full(values.shape, -np.inf)
    out[inside] = _answers(distribution, "logpmf", values[inside])
    return out


def draw_interval_of(distribution: Any, low: np.ndarray, high: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Quantiles (n,) at u of one distribution within intervals that have some probability."""
    draw = _draw_number if _is_of(CONTINUOUS, distribution) else _draw_whole_number
    return np.clip(draw(distribution, low, high, u), low, high)  # rounding may lead past an end


def _draw_number(distribution: Any, low: np.ndarray, high: np.ndarray, u: np.ndarray) -> np.ndarray:
    """SciPy's quantile, and by halving where the share below it is not u: in tails many are coarse or infinite."""
    out = _quantiles(distribution, low, high, u)
    known = np.where(np.isfinite(out), np.clip(out, low, high), low)
    off = np.exp(_by_tails(distribution, low, known) - _by_tails(distribution, low, high)) - u
    again = np.flatnonzero(~np.isfinite(out) | (np.abs(off) > ROUNDING))
    out[again] = _draw_by_halving(distribution, low[again], high[again], u[again], is_whole=False)
    return out


def _draw_whole_number(distribution: Any, low: np.ndarray, high: np.ndarray, u: np.ndarray) -> np.ndarray:
    """By the masses of the first numbers of the interval, beyond them and where there is no first one by halving."""
    lowest, highest = distribution.support()
    low, high = np.maximum(np.ceil(low), lowest), np.minimum(np.floor(high), highest)
    out, again = np.empty(u.shape), np.isneginf(low)
    near = np.flatnonzero(~again)
    if near.size:
        first, last = low[near], high[near]
        logs = _log_masses(distribution, first, np.minimum(last, first + FEW))
        up_to = np.exp(logs - log_interval_of(distribution, first, last)[:, None]).cumsum(axis=1)
        out[near] = np.minimum(first + (u[near, None] >= up_to).sum(axis=1), last)
        again[near] = (u[near] >= up_to[:, -1]) & ~_are_few(first, last)
    out[again] = _draw_by_halving(distribution, low[again] - 1.0, high[again], u[again], is_whole=True)
    return out


def _draw_by_halving(distribution: Any, low: np.ndarray, high: np.ndarray, u: np.ndarray, is_whole: bool) -> np.ndarray:
    """Smallest value (n,) up to which the share u lies of what lies above ``low``."""
    if u.size == 0:
        return u
    target = _by_tails(distribution, low, high) + np.log(np.maximum(u, np.finfo(np.float64).tiny))

    def is_short(x: np.ndarray) -> np.ndarray:
        return _by_tails(distribution, low, np.floor(x) if is_whole else x, strict=False) < target

    reach = high
    if is_whole:  # no farther than is needed, as some of SciPy's distribution functions add up all masses
        reach, width = np.where(np.isneginf(low), high, np.minimum(low + FEW, high)), float(FEW)
        while np.any(short := is_short(reach) & (reach < high)):
            width *= 2.0
            reach = np.where(short, np.minimum(low + width, high), reach)
    return smallest_reaching(is_short, np.nextafter(low, -np.inf), reach)


def _quantiles(distribution: Any, low: np.ndarray, high: np.ndarray, u: np.ndarray) -> np.ndarray:
    """SciPy's own quantiles (n,) at shares u of intervals, NaN where it fails."""
    out = np.full(u.shape, np.nan)
    is_low = _log_tail(distribution, "logcdf", low) < np.log(0.5)
    for name, inverse, at in (("logcdf", "ppf", is_low), ("logsf", "isf", ~is_low)):
        ends = [np.exp(_log_tail(distribution, name, end[at])) for end in (low, high)]
        with suppress(RuntimeError, ValueError, OverflowError, FloatingPointError), np.errstate(all="ignore"):
            out[at] = getattr(distribution, inverse)(ends[0] + u[at] * (ends[1] - ends[0]))
    return out


def _log_tail(distribution: Any, name: str, x: np.ndarray, strict: bool = True) -> np.ndarray:
    """Logs of the distribution function or of its complement (n,), also at infinity, where some of SciPy's are NaN."""
    out = np.where((x > 0.0) == (name == "logcdf"), 0.0, -np.inf)
    inside = np.isfinite(x)
    found = _answers(distribution, name, x[inside], strict)
    out[inside] = np.where(np.isnan(found), out[inside], found)
    return out


def _answers(distribution: Any, name: str, x: np.ndarray, strict: bool = True) -> np.ndarray:
    """What a method of SciPy's gives at values (n,), none of them NaN if that is to be an error."""
    if x.size == 0:
        return np.zeros(0)
    values, place = np.unique(x, return_inverse=True)  # rows often share the ends of an event, and SciPy may be slow
    with np.errstate(all="ignore"):
        out = np.asarray(getattr(distribution, name)(values), np.float64)[place]
    if strict and np.any(np.isnan(out)):
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


def scipy_draw_within(p: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A value (n,) of each distribution (n, 1) within an interval, as exact as SciPy's distribution functions."""
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


def _ends(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array([leaf.support() for leaf in p[:, 0]], np.float64).reshape(-1, 2).T
    return low, high


SCIPY_LEAVES = tuple(
    UnivariateFamily(
        name=family,
        n_parameters=1,
        is_density=family == CONTINUOUS,
        log_density=lambda p, x: of_each(log_density_at, p, x),
        check=problem_of(family),
        mean=lambda p: of_each(_mean, p),
        variance=lambda p: of_each(_variance, p),
        mode=_no_mode,
        draw=_draw,
        log_interval=lambda p, low, high: of_each(log_interval_of, p, low, high),
        holds_objects=True,
        ends=_ends,
    )
    for family in SCIPY
)
