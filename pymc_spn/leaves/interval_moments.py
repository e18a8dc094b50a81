"""Moments of leaves within an interval: what their families share, Gauss panels and sums of powers."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

NEGLIGIBLE = -45.0  # log of a mass relative to the largest one
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
PANELS = 24
NARROW = 0.25  # of an interval beside the distance over which the density varies as a power


def weighted_moments(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of points under weights (n, points); 0 where all weights are."""
    total = weight.sum(axis=1)
    p = weight / np.where(total > 0, total, 1.0)[:, None]
    mean = (p * x).sum(axis=1)
    return mean, ((np.sqrt(p) * (x - mean[:, None])) ** 2).sum(axis=1)  # squares alone may be too large


class Points(NamedTuple):
    """Quadrature of n leaves within an interval.

    Parameters
    ----------
    origin : (n,) float64
    away, weight : (n, points) float64
        Distances from the origin, and weights up to a factor.
    power : (n,) float64
        Of the tail: where an end is infinite moments of this order and above are.
    """

    origin: np.ndarray
    away: np.ndarray
    weight: np.ndarray
    power: np.ndarray


def by_points(points: Callable[[np.ndarray, float, float, int], Points], lowest: float = -math.inf) -> dict[str, Any]:
    """``moments_within`` and ``about_within`` of a family, from points of its leaves (n, p) between two ends.

    Parameters
    ----------
    points : callable (parameters, low, high, order)
        Good for moments up to the order.
    lowest : float
        End of the support; leaves that have nothing in the interval get 0.
    """

    def moments_within(p: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        low = max(low, lowest)
        if high < low:
            return np.zeros(len(p)), np.zeros(len(p))
        origin, away, weight, power = points(p, low, high, 2)
        mean, variance = weighted_moments(away, weight)
        if math.isinf(low) or math.isinf(high):
            mean = np.where(power > 1.0, mean, math.nan if low == -high else math.copysign(math.inf, high))
            variance = np.where(power > 2.0, variance, np.inf)
        return origin + mean, variance

    def about_within(p: np.ndarray, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
        low = max(low, lowest)
        if high < low:
            return np.zeros((len(p), order + 1))
        origin, away, weight, power = points(p, low, high, order)
        return powers_of((origin - centre)[:, None] + away, weight, order, power, low, high)

    return {"moments_within": moments_within, "about_within": about_within}


def powers_of(
    away: np.ndarray, weight: np.ndarray, order: int, power: np.ndarray, low: float, high: float
) -> np.ndarray:
    """Averages (n, order + 1) of powers of distances (n, points); infinite from the power of the tail on."""
    total = weight.sum(axis=1, keepdims=True)
    p = weight / np.where(total > 0.0, total, 1.0)
    out = np.stack([(p * away**k).sum(axis=1) for k in range(order + 1)], axis=1)
    if math.isinf(low) or math.isinf(high):
        for k in range(1, order + 1):
            out[power <= k, k] = math.inf if math.isinf(high) else (-1.0) ** k * math.inf
    return out


def graded_points(low, high, power, fall, order):
    """Points and weights (n, points) for moments of e^w under a density exp(-power fall(w)) between low and high.

    Gauss-Legendre panels on both sides of the point nearest to 0, graded towards it, as far as finite moments reach.
    """
    highest = np.clip(np.ceil(power) - 1.0, 0.0, order)
    decay = np.maximum(power - highest, 0.1)
    furthest = 680.0 / max(order, 2)  # moments of what is further are no numbers
    reach = np.minimum(np.arccosh(np.exp(np.minimum(45.0 / decay, furthest))), furthest)
    nearest = np.clip(0.0, low, high)
    ends = np.maximum(low, nearest - reach) - nearest, np.minimum(high, nearest + reach) - nearest
    away, spacing = cubic_panels(*ends)
    w = nearest[:, None] + away
    logs = -power[:, None] * fall(w)
    return w, np.exp(logs - logs.max(axis=1, keepdims=True)) * spacing


def cubic_panels(below: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points and weights (n, points) from 0 down to ``below`` and up to ``above``, graded towards 0."""
    s = ((np.arange(PANELS)[:, None] + 0.5 * (NODES + 1.0)) / PANELS).ravel()
    points = np.concatenate([end[:, None] * s**3 for end in (below, above)], axis=1)
    spacing = np.concatenate([np.abs(end)[:, None] * s**2 for end in (below, above)], axis=1)
    return points, spacing * np.tile(WEIGHTS, 2 * PANELS)


def about(own: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Moments about another centre from moments (n, K + 1) about one's own; shift (n,) = own - other."""
    out = np.zeros_like(own)
    for k in range(own.shape[1]):
        for j in range(k + 1):
            out[:, k] += math.comb(k, j) * own[:, j] * shift ** (k - j)
    return out


def from_factorial(factorial: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Moments (n, K + 1) about -shift from factorial moments, by Stirling numbers."""
    order = factorial.shape[1] - 1
    stirling = np.zeros((order + 1, order + 1))
    stirling[0, 0] = 1.0
    for n in range(1, order + 1):
        for k in range(1, n + 1):
            stirling[n, k] = stirling[n - 1, k - 1] + k * stirling[n - 1, k]
    return about(factorial @ stirling.T, shift)
