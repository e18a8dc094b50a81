"""Integrals of the product of two leaves' densities, and sums of that of two masses, where there is no closed form.

Both are taken over many pairs of leaves at once and in logs, with the relative error that is left.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import tanhsinh
from scipy.special import logsumexp

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval

RELATIVE = 1e-13  # estimated error at which the quadrature of a piece stops
LEAST_LEVEL = 5  # halvings of the step before that; after three, estimates of 1e-13 stood beside errors of 1e-7
EPSILON = 2.0**-52
LEAST_ERROR = 1e-11  # that is claimed: estimates may be too small, compared values differ by less than a tenth of this
BLOCK = 1024  # pairs at a time
DOUBLINGS = 2.0 ** np.arange(-1, 25)  # distances from a leaf's centre, in its widths, where the largest value is sought
HALVINGS = 2.0 ** -np.arange(54)  # the same from where a triangular leaf has kinks, in its own
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
SHRINKS = 40  # golden sections: by a factor of 4e-9, the root of the rounding at a smooth maximum
COUNTS = 256  # at a time
MOST_COUNTS = 2**17
SPARE = np.log(2.0**-53)  # of the sum, what terms left out may be worth
WORST_REST = 1e-4
LogProduct = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Bend(NamedTuple):
    """Where a density changes: (n, k) places, in x or in log x, and how far around each it does so."""

    centre: np.ndarray
    width: np.ndarray


def log_integrals(family: str, p: np.ndarray, other: str, q: np.ndarray) -> tuple[np.ndarray, float]:
    """Log of the integral of the product of two densities, pair by pair.

    The variable is x, or log x where one of the two has positive values only. Pieces end at the leaves' centres, at
    the largest value of the product and at infinity, or where a triangular leaf ends. Each is integrated by the double
    exponential rule. The product is divided by its largest value, so that leaves far apart lose nothing. Beside a
    narrow triangular leaf the variable is the distance from its mode.

    Parameters
    ----------
    family, other : str
        Names in `EXPLICIT`, with densities.
    p, q : (n, k) and (n, l) float64
        Their parameters, one pair a row.

    Returns
    -------
    (n,) float64 and float
        In nats, ``-inf`` where supports do not meet, and the largest relative error, at least 1e-11. The error is what
        the rule estimates, and what rounding may take from narrow leaves far from 0 and from gamma leaves of large
        shape.

    References
    ----------
    Takahasi and Mori (1974), Double exponential formulas for numerical integration, Publ. RIMS 9.
    """
    carrier = next((f for f in EXPLICIT if f in (family, other) and EXPLICIT[f].of_log is not None), None)
    if carrier == other or EXPLICIT[family].ends is not None:
        family, p, other, q = other, q, family, p
    in_logs, meets = np.full(len(p), carrier is not None), np.ones(len(p), np.bool_)
    ends = np.tile([-np.inf, np.inf], (len(p), 1))
    ends_of = EXPLICIT[other].ends
    if ends_of is not None:
        ends = np.column_stack(ends_of(q))
        meets = ~in_logs | (ends[:, 1] > 0.0)
        in_logs &= ends[:, 0] < 0.5 * ends[:, 1]  # else logs would take digits from it
    out, worst = np.full(len(p), -np.inf), LEAST_ERROR
    for logs in (False, True):
        which = np.flatnonzero(meets & (in_logs == logs))
        for start in range(0, which.size, BLOCK):
            part = which[start : start + BLOCK]
            out[part], error = _integrate(family, p[part], other, q[part], ends[part], logs)
            worst = max(worst, error)
    return out, worst


def _integrate(
    family: str, p: np.ndarray, other: str, q: np.ndarray, ends: np.ndarray, in_logs: bool
) -> tuple[np.ndarray, float]:
    """`log_integrals` from end to end (n, 2) of the values, over these or over their logs."""
    if in_logs:
        with np.errstate(divide="ignore"):
            ends = np.log(np.maximum(ends, 0.0))
    origin, one, two = np.zeros(len(p)), EXPLICIT[family], EXPLICIT[other]
    features = [features_of(f, v, in_logs) for f, v in ((family, p), (other, q))]
    if two.ends is not None and not in_logs:
        origin = two.mode(q)
        features = [_of_values(features[0], ends) if one.of_log is not None else features[0], features[1]]
        features = [Bend(f.centre - origin[:, None], f.width) for f in features]
        ends, q = ends - origin[:, None], q - origin[:, None]
    centre = np.clip(np.concatenate([f.centre for f in features], axis=1), ends[:, :1], ends[:, 1:])
    width = np.concatenate([f.width for f in features], axis=1)
    grid = places_round(centre, width)
    if two.ends is not None:  # the product may be large next to an end alone
        kinks = np.column_stack([np.where(np.isinf(ends[:, :1]), ends[:, 1:], ends), features[1].centre])
        steps = np.concatenate([-HALVINGS, HALVINGS]) * features[1].width[:, :, None]
        grid = np.column_stack([grid, (kinks[:, :, None] + steps).reshape(len(p), -1)])
    grid = np.sort(np.clip(grid, ends[:, :1], ends[:, 1:]), axis=1)

    def log_product(x: np.ndarray, pair: np.ndarray) -> np.ndarray:
        a, b = p[pair], q[pair]
        with np.errstate(over="ignore", divide="ignore"):
            if not in_logs:
                return one.log_density(a, origin[pair] + x) + two.log_density(b, x)
            assert one.of_log is not None
            return one.of_log(a, x) + (two.log_density(b, np.exp(x)) if two.at_log is None else two.at_log(b, x))

    out, error, (peak, top, unit) = integrate_pieces(log_product, ends, centre, width, grid)
    for leaf, r in ((one, p), (two, q)):
        error += leaf.rounding(r, peak, in_logs) if leaf.rounding is not None else 0.0
    error += EPSILON * ((np.abs(peak) + in_logs) / unit + np.abs(top) + np.abs(origin) / features[0].width.min(axis=1))
    if not in_logs:  # in the tail of a leaf by more than in its centre
        x = origin + peak
        with np.errstate(invalid="ignore", divide="ignore"):
            at, beside = (one.log_density(p, y) for y in (x, x + np.spacing(np.abs(x))))
            error += 2.0 * np.nan_to_num(np.abs(beside - at), posinf=0.0)  # infinite at an end of its support alone
    return out, float(error[np.isfinite(out)].max(initial=0.0))


def integrate_pieces(
    log_product: LogProduct, ends: np.ndarray, centre: np.ndarray, width: np.ndarray, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Logs of integrals of many products, each in pieces that end at its centres and its largest value.

    Parameters
    ----------
    log_product : callable
        Of places and numbers of pairs, which broadcast, in nats.
    ends : (n, 2) float64
    centre, width : (n, k) float64
        As in `Bend`.
    grid : (n, m) float64
        Ascending places among which the largest value is sought.

    Returns
    -------
    out, error : (n,) float64
        Logs, and what the rule estimates as relative errors; ``-inf`` and any number where the product is 0.
    peak, top, unit : (n,) float64
        Where the product is largest, its log there, and the length in which the rule counts.
    """
    peak, top = _largest(log_product, grid)
    out = top.copy()
    top[np.isneginf(top)] = 0.0  # nothing is left in logs
    unit = width.min(axis=1)  # in which tails have lengths near 1
    inner = (np.sort(np.column_stack([centre, peak]), axis=1) - peak[:, None]) / unit[:, None]
    outer = (ends - peak[:, None]) / unit[:, None]
    cuts = np.column_stack([outer[:, 0], inner, outer[:, 1]])
    every = np.arange(len(ends))[:, None]

    def scaled(u: np.ndarray, pair: np.ndarray) -> np.ndarray:
        pair = pair.astype(np.int64)
        return np.exp(log_product(peak[pair] + unit[pair] * u, pair) - top[pair])

    with np.errstate(invalid="ignore", over="ignore"):  # at the ends, which have no weight
        found = tanhsinh(
            scaled, cuts[:, :-1], cuts[:, 1:], args=(every,), rtol=RELATIVE, minlevel=LEAST_LEVEL, maxlevel=12
        )
    total = found.integral.sum(axis=1)
    error = np.where(np.isfinite(found.error), found.error, 0.0).sum(axis=1)
    some = total > 0.0
    out[some] = top[some] + np.log(unit[some]) + np.log(total[some])
    error[some] /= total[some]
    return out, error, (peak, top, unit)


def places_round(centre: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Places (n, k) round the centres, in no order."""
    steps = np.concatenate([-DOUBLINGS, [0.0], DOUBLINGS])
    return (centre[:, :, None] + width[:, :, None] * steps).reshape(len(centre), -1)


def _largest(log_product: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where (n,) the product is largest, and its log there: best of a sorted grid (n, k), then golden sections."""
    every = np.arange(len(x))
    logs = log_product(x, every[:, None])
    best = np.argmax(logs, axis=1)
    low, high = x[every, np.maximum(best - 1, 0)], x[every, np.minimum(best + 1, x.shape[1] - 1)]
    peak, top = x[every, best], logs[every, best]
    for _ in range(SHRINKS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        at_left, at_right = log_product(left, every), log_product(right, every)
        rises = at_right > at_left
        low, high = np.where(rises, left, low), np.where(rises, high, right)
        for at, value in ((left, at_left), (right, at_right)):
            peak, top = np.where(value > top, at, peak), np.maximum(value, top)
    return peak, top


def features_of(family: str, p: np.ndarray, in_logs: bool) -> Bend:
    leaf = EXPLICIT[family]
    if leaf.features is not None:
        return Bend(*leaf.features(p, in_logs))
    first, second = p[:, :1], p[:, 1:2]
    if not in_logs:
        return Bend(first, second)
    above = first > 0.0  # a mean below 0 leaves a tail that falls over the scale
    place = np.where(above, first, second)
    return Bend(
        np.log(np.column_stack([place, second])),
        np.column_stack([np.where(above, np.minimum(second / place, 1.0), 1.0), np.ones_like(second)]),
    )


def _of_values(of_logs: Bend, ends: np.ndarray) -> Bend:
    """A feature of the values from that of their logs, within positive ends (n, 2)."""
    centre = np.exp(np.clip(of_logs.centre, *np.log(ends.T)[:, :, None]))
    return Bend(centre, centre * np.minimum(of_logs.width, 1.0))


def log_sums(family: str, p: np.ndarray, other: str, q: np.ndarray, n_values: int | None) -> tuple[np.ndarray, float]:
    """Log of the sum over 0, 1, .. of the product of two masses, pair by pair.

    Parameters
    ----------
    family, other : str
        Names in `EXPLICIT`, with masses.
    p, q : (n, k) and (n, l) float64
        Their parameters, one pair a row.
    n_values : int, optional
        Values at which both may have mass. If there are infinitely many, a pair's sum ends where the rest is below the
        rounding of the sum. The rest is at most the largest mass of one leaf there times the probability of the other,
        either way round.

    Returns
    -------
    (n,) float64 and float
        In nats, and the largest relative error: a bound on the rest, 0 where it is below the rounding.

    Raises
    ------
    ValueError
        If the rest is not below 1e-4 of the sum after 131,072 values.
    """
    out, worst = np.full(len(p), -np.inf), 0.0
    waiting, first = np.arange(len(p)), 0
    while waiting.size and (n_values is None or first < n_values):
        last = first + COUNTS if n_values is None else min(first + COUNTS, n_values)
        a, b = p[waiting], q[waiting]
        k = np.arange(first, last, dtype=np.float64)
        terms = EXPLICIT[family].log_density(a[:, None], k) + EXPLICIT[other].log_density(b[:, None], k)
        out[waiting] = np.logaddexp(out[waiting], logsumexp(terms, axis=1))
        first = last
        if n_values is None and first.bit_count() == 1:  # 256, 512, 1024, ..
            rest = _log_rest(family, a, other, b, float(first)) - out[waiting]
            if first >= MOST_COUNTS:
                worst = float(np.exp(rest.max()))
                break
            waiting = waiting[~(rest <= SPARE)]
    if worst > WORST_REST:
        raise ValueError(f"{family} and {other} leaves spread over more than {MOST_COUNTS:,} counts")
    return out, worst


def _log_rest(family: str, p: np.ndarray, other: str, q: np.ndarray, start: float) -> np.ndarray:
    """Upper bound (n,) on the log of the sum from `start` on: masses fall beyond modes, or are at most the rest."""

    def bound(f: str, a: np.ndarray, g: str, b: np.ndarray) -> np.ndarray:
        if not EXPLICIT[f].has_one_peak:  # may rise again towards its last count
            largest = log_interval(f, a, start, np.inf)
        else:
            largest = EXPLICIT[f].log_density(a, np.maximum(EXPLICIT[f].mode(a), start))
        return largest + log_interval(g, b, start, np.inf)

    return np.minimum(bound(family, p, other, q), bound(other, q, family, p))
