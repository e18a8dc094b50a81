"""Integrals of the product of a beta leaf's density and that of another family, over the log odds of the value."""

import numpy as np
from scipy.special import betaln

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_integrals import (
    BLOCK,
    EPSILON,
    HALVINGS,
    LEAST_ERROR,
    Bend,
    features_of,
    integrate_pieces,
    places_round,
)


def log_share_integrals(family: str, p: np.ndarray, other: str, q: np.ndarray) -> tuple[np.ndarray, float]:
    """Log of the integral of a beta density times another density, pair by pair, as in `log_integrals`.

    Over log odds a beta density has exponential tails whatever its parameters, and one peak at the log odds of its
    mean; poles at 0 and 1 are gone.

    Parameters
    ----------
    family : str
        Name in `EXPLICIT`, of beta leaves.
    p : (n, 2) float64
    other : str
        Name in `EXPLICIT`, with a density on other values.
    q : (n, l) float64

    Returns
    -------
    (n,) float64 and float
        In nats, ``-inf`` where supports do not meet, and the largest relative error.
    """
    ends = np.tile([-np.inf, np.inf], (len(p), 1))
    meets = np.ones(len(p), np.bool_)
    ends_of = EXPLICIT[other].ends
    if ends_of is not None:
        low, high = ends_of(q)
        meets = (low < 1.0) & (high > 0.0)
        ends = _log_odds(np.clip(np.column_stack([low, high]), 0.0, 1.0))
    out, worst = np.full(len(p), -np.inf), LEAST_ERROR
    which = np.flatnonzero(meets)
    for start in range(0, which.size, BLOCK):
        part = which[start : start + BLOCK]
        out[part], error = _integrate(p[part], other, q[part], ends[part])
        worst = max(worst, error)
    return out, worst


def _integrate(p: np.ndarray, other: str, q: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, float]:
    own = Bend(np.log(p[:, :1]) - np.log(p[:, 1:]), np.sqrt((1.0 / p).sum(axis=1, keepdims=True)))
    features = [own, _in_log_odds(other, q)]
    centre = np.clip(np.concatenate([f.centre for f in features], axis=1), ends[:, :1], ends[:, 1:])
    width = np.concatenate([f.width for f in features], axis=1)
    grid = places_round(centre, width)
    if EXPLICIT[other].ends is not None:  # the product may be large next to an end alone
        length = ends[:, 1:] - ends[:, :1]
        steps = np.concatenate([-HALVINGS, HALVINGS]) * np.where(np.isfinite(length), length, 1.0)
        kinks = [np.where(np.isfinite(k), k, 0.0)[:, None] + steps for k in (*ends.T, features[1].centre[:, 0])]
        grid = np.column_stack([grid, *kinks])
    grid = np.sort(np.clip(grid, ends[:, :1], ends[:, 1:]), axis=1)

    def log_product(y: np.ndarray, pair: np.ndarray) -> np.ndarray:
        a, b, theta = p[pair, 0], p[pair, 1], q[pair]
        log_x = -np.logaddexp(0.0, -y)
        rest = -b * np.logaddexp(0.0, y) - betaln(a, b)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            of_log = EXPLICIT[other].of_log
            if of_log is not None:  # the powers of x in one, that they do not cancel far out
                return (a - 1.0) * log_x + rest + of_log(theta, log_x)
            return a * log_x + rest + EXPLICIT[other].log_density(theta, np.exp(log_x))

    out, error, (peak, top, unit) = integrate_pieces(log_product, ends, centre, width, grid)
    terms = np.abs(betaln(*p.T)) + p[:, 0] * np.logaddexp(0.0, -peak) + p[:, 1] * np.logaddexp(0.0, peak)
    error += EPSILON * (terms + (np.abs(peak) + 1.0) / unit + np.abs(top))
    x = np.exp(-np.logaddexp(0.0, -peak))
    with np.errstate(invalid="ignore", divide="ignore"):  # a rounded value costs the more, the steeper a leaf is there
        at, beside = (EXPLICIT[other].log_density(q, v) for v in (x, x + np.spacing(x)))
        error += 2.0 * np.nan_to_num(np.abs(beside - at), posinf=0.0)  # infinite at an end of its support alone
    return out, float(error[np.isfinite(out)].max(initial=0.0))


def _log_odds(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(x) - np.log1p(-x)


def _in_log_odds(family: str, q: np.ndarray) -> Bend:
    """Where another density changes, in log odds; beyond 0 and 1 where its slope at that end makes itself felt.

    That is where the value is as far from the end as the density takes to fall by a factor of e.
    """
    if EXPLICIT[family].of_log is not None:
        of_log = features_of(family, q, True)
        inside = of_log.centre < 0.0
        x = np.exp(np.where(inside, of_log.centre, -1.0))
        return Bend(
            np.where(inside, _log_odds(x), 0.0), np.where(inside, np.minimum(of_log.width / (1.0 - x), 1.0), 1.0)
        )
    place, width = features_of(family, q, False)
    inside = (place > 0.0) & (place < 1.0)
    x = np.where(inside, place, 0.5)
    away = np.maximum(np.where(place >= 1.0, place - 1.0, -place), 1e-300)
    fall = np.log(np.clip(np.minimum(width, width / away * width), 1e-300, 0.5))
    beyond = np.where(place >= 1.0, -fall, fall)
    return Bend(np.where(inside, _log_odds(x), beyond), np.where(inside, np.minimum(width / (x * (1.0 - x)), 1.0), 1.0))
