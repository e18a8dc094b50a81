"""Moments of rounded Gaussian leaves: masses of cells summed over whole numbers by discrete Gauss panels."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from pymc_spn.leaves.gaussian import (
    log_interval_of_width,
    student_log_density,
    student_log_interval,
    student_raw_moments,
)
from pymc_spn.leaves.interval_moments import about

POINTS = 10  # of a panel; so many whole numbers or fewer are summed one by one
TABLED = 64  # panels of up to so many whole numbers have their nodes in a table, longer ones by a polynomial
DEGREE = 7  # of that polynomial in 1 / n^2, 1e-15 from n = 64 on
LEFT_OUT = 1e-15  # of a sum, relative
AT_A_TIME = 4_000  # leaves; their masses take 5 MB
WIDE = 4.0  # scale from which on the characteristic function at 2 pi is below 1e-14 (of two degrees of freedom)
LONG = 1e6  # panels of so many whole numbers are integrals in a tail
FAR = 1e15  # times the width of a leaf: from there on its density is a power
EVEN_CELL, PLAIN_CELL = ((0.5 * x, 0.5 * w) for x, w in map(np.polynomial.legendre.leggauss, (3, 6)))
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(POINTS)
TAIL_NODES, TAIL_WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


class Rays(NamedTuple):
    """Whole numbers at distances 1, 2, .. from a first one, away from the centre of a leaf.

    Parameters
    ----------
    start : (n,) float64
        From the centre of the leaf to the first number, which is the nearest: -1/2 or more.
    dof, scale : (n,) float64
        Of the leaf's Student t.
    log_first, log_density : (n,) float64
        Log mass of the cell of the first number, and log density there.
    size : (n,) float64
        How many numbers; may be infinite.
    highest : (n,) float64
        Highest order of a moment that exists.
    """

    start: np.ndarray
    dof: np.ndarray
    scale: np.ndarray
    log_first: np.ndarray
    log_density: np.ndarray
    size: np.ndarray
    highest: np.ndarray

    @property
    def width(self) -> np.ndarray:
        """Distance over which the density varies as a power."""
        return self.scale * np.sqrt(self.dof)

    def at(self, which: np.ndarray) -> "Rays":
        """Some of them."""
        return Rays(*(v[which] for v in self))


def rounded_moments(p: np.ndarray, low: float, high: float, is_count: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of the whole numbers between low and high; as `rounded_about`."""
    origin, own = _own_moments(p, low, high, 2, is_count)
    mean = own[:, 1]
    with np.errstate(invalid="ignore"):
        variance = np.where(np.isfinite(own[:, 2]), own[:, 2] - np.square(mean), np.inf)
        return np.where(own[:, 0] > 0.0, origin + mean, 0.0), variance


def rounded_about(p: np.ndarray, low: float, high: float, centre: np.ndarray, order: int, is_count: bool) -> np.ndarray:
    """E[(K - centre)^k | low <= K <= high] (n, order + 1) of rounded leaves, ``centre`` (n,).

    Parameters
    ----------
    is_count : bool
        Whether all that is below 1/2 counts as 0.

    Returns
    -------
    (n, order + 1) float64
        0 of leaves that have nothing there. Where a moment does not exist, infinite with the sign of the end; NaN of
        odd order between two infinite ends.
    """
    origin, own = _own_moments(p, low, high, order, is_count)
    with np.errstate(invalid="ignore"):
        out = about(own, origin - centre)
    infinite = ~np.isfinite(own)
    out[infinite] = own[infinite]
    return np.where(own[:, :1] > 0.0, out, 0.0)


def _own_moments(p: np.ndarray, low: float, high: float, order: int, is_count: bool) -> tuple[np.ndarray, np.ndarray]:
    """A whole number (n,) of each leaf, the interval's nearest to the centre, and moments (n, order + 1) about it."""
    origin, own = np.array(p[:, 0]), np.zeros((len(p), order + 1))
    whole = math.isinf(low) and math.isinf(high) and not is_count
    wide = whole & (p[:, 1] >= WIDE) & (p[:, 2] >= 2.0)
    own[wide] = _with_uniform(student_raw_moments(p[wide], p[wide, 0], order))
    rest = np.flatnonzero(~wide)
    for i in range(0, rest.size, AT_A_TIME):
        part = rest[i : i + AT_A_TIME]
        origin[part], own[part] = _of_block(p[part], low, high, order, is_count)
    return origin, own


def _with_uniform(own: np.ndarray) -> np.ndarray:
    """Central moments (n, K + 1) of a sum with an independent number that is uniform between -1/2 and 1/2.

    Its density at a whole number is the mass of the cell, and the sum over whole numbers its integral except for the
    characteristic function at multiples of 2 pi.
    """
    out = np.zeros(own.shape)
    for k in range(own.shape[1]):
        for i in range(0, k + 1, 2):
            out[:, k] += math.comb(k, i) * own[:, k - i] * 0.5**i / (i + 1.0)
    return out


def _of_block(p: np.ndarray, low: float, high: float, order: int, is_count: bool) -> tuple[np.ndarray, np.ndarray]:
    with_zero = is_count and low <= 0.0 <= high
    first, last = (float(max(np.ceil(low), 1.0)) if is_count else float(np.ceil(low))), float(np.floor(high))
    location, scale, dof = p.T
    if last < first:
        own = np.zeros((dof.size, order + 1))
        own[:, 0] = float(with_zero)
        return np.zeros(dof.size), own
    origin = np.clip(np.round(location), first, last)
    beyond = origin - location
    log_first = _log_cell(dof, scale, beyond)
    bounded = math.isfinite(first) and math.isfinite(last)
    highest = np.full(dof.size, float(order)) if bounded else np.clip(np.ceil(dof) - 1.0, 0.0, order)
    log_density = student_log_density(p, origin)
    sides = [(beyond, last - origin), (-beyond, origin - first)]
    rays = [Rays(start, dof, scale, log_first, log_density, size, highest) for start, size in sides]
    total = _sums(Rays(*map(np.concatenate, zip(*rays, strict=True))), order).reshape(2, dof.size, order + 1)
    signs = (-1.0) ** np.arange(order + 1)
    own = total[0] + signs * total[1]
    own[:, 0] += 1.0
    possible = ~np.isneginf(log_first)
    own = np.where(possible[:, None], own, 0.0)
    if with_zero:
        with np.errstate(divide="ignore"):
            log_zero = student_log_interval(p, -np.inf, 0.5)
        top = np.maximum(log_zero, log_first)
        top = np.where(np.isneginf(top), 0.0, top)
        own *= np.exp(log_first - top)[:, None]
        at_zero = log_zero > log_first  # so that the rest is not lost beside it
        own[at_zero] = about(own[at_zero], origin[at_zero])
        origin[at_zero] = 0.0
        own += np.exp(log_zero - top)[:, None] * (-origin[:, None]) ** np.arange(order + 1)
    own /= np.where(own[:, :1] > 0.0, own[:, :1], 1.0)
    if not bounded:
        above, below = math.isinf(last), math.isinf(first)
        for k in range(1, order + 1):
            infinite = math.inf if k % 2 == 0 or not below else (math.nan if above else -math.inf)
            own[(dof <= k) & (own[:, 0] > 0.0), k] = infinite
    return origin, own


def _log_cell(dof: np.ndarray, scale: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Log mass of unit cells round points at distance z from the centres."""
    leaf = np.stack(np.broadcast_arrays(0.0, scale, dof), axis=-1)
    return log_interval_of_width(leaf, z - 0.5, z + 0.5, 1.0)


def _sums(rays: Rays, order: int) -> np.ndarray:
    """Sums (n, order + 1) of distance^k times the mass of the cell, relative to that of the first number."""
    total = np.zeros((rays.start.size, order + 1))
    done = np.zeros(rays.start.size)  # numbers of a ray that are in the sum
    powers = np.arange(order + 1)
    active = np.flatnonzero((rays.size >= 1.0) & ~np.isneginf(rays.log_first))
    while active.size:
        now, before = rays.at(active), done[active]
        left = now.size - before
        away = np.maximum(now.start + before + 1.0, 0.0)
        size = np.hypot(now.width, away)
        slope, bend = (now.dof + 1.0) / size * (away / size), (now.dof + 1.0) / size / size
        with np.errstate(divide="ignore"):
            smooth = np.minimum(np.minimum(size, 4.0 / slope), 2.0 / np.sqrt(bend))
        n = np.minimum(np.maximum(np.floor(smooth), POINTS), left)
        steps, weight = _panel(n)
        in_tail = (smooth > LONG) & (away > 2.0 * now.width)
        if in_tail.any():
            steps[in_tail], weight[in_tail], n[in_tail] = _tail_panel(now.at(in_tail), before[in_tail], left[in_tail])
        at = (before + 1.0)[:, None] + steps
        mass = np.empty(steps.shape)
        plain = (slope < 1.0) & (bend < 0.25) & (size > 3.0)
        even = plain & (slope < 0.03) & (bend < 1e-3)
        for which, rule in ((even, EVEN_CELL), (plain & ~even, PLAIN_CELL)):
            mass[which] = _quick_masses(now.at(which), at[which], rule)
        slow = now.at(~plain)
        logs = _log_cell(slow.dof[:, None], slow.scale[:, None], slow.start[:, None] + at[~plain])
        mass[~plain] = np.exp(logs - slow.log_first[:, None])
        total[active] += _power_sums(mass * weight, at, order)
        done[active] = end = before + n
        # what is left falls as an exponential or as a power
        far = now.start + end
        edge = mass[np.arange(n.size), np.minimum(n, POINTS).astype(np.int64) - 1]
        decay = now.dof[:, None] - powers
        with np.errstate(divide="ignore"):
            length = (far + now.width / far * now.width)[:, None] / np.where(decay > 0.0, decay, 0.0)
        rest = np.where(edge[:, None] > 0.0, edge[:, None] * end[:, None] ** powers * length, 0.0)
        known = total[active] + (powers == 0)
        enough = ((rest <= LEFT_OUT * known) | (powers > now.highest[:, None])).all(axis=1) | (end >= now.size)
        power_law = ~enough & (end >= FAR * _reach(now))
        if power_law.any():
            total[active[power_law]] += _power_tail(now.at(power_law), end[power_law], order)
        active = active[~enough & ~power_law]
    return total


def _reach(rays: Rays) -> np.ndarray:
    """Distance (n,) far beyond which the density falls as a power of the distance from the first number, too."""
    return rays.width + rays.start + 1.0


def _power_sums(mass: np.ndarray, at: np.ndarray, order: int) -> np.ndarray:
    out = np.empty((len(mass), order + 1))
    for k in range(order + 1):
        out[:, k] = mass.sum(axis=1)
        mass = mass * at
    return out


def _tail_panel(rays: Rays, before: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes and weights (n, POINTS) of an integral over the next numbers, in logs, and how many these are.

    Each panel is as long as those before, since the tail has fallen as much.
    """
    x = rays.start + before + 0.5
    span = np.minimum(0.7, 4.0 / (rays.dof + 1.0)) + np.log(x / np.maximum(_reach(rays), LONG)).clip(0.0, 6.0)
    span = np.minimum(span, 4.0 / np.maximum(rays.highest - rays.dof, 0.1))  # of moments that grow
    n = np.minimum(np.round(x * np.expm1(span)), left)
    span = np.log1p(n / x)
    inner = span[:, None] * TAIL_NODES
    return x[:, None] * np.expm1(inner) - 0.5, (x * span)[:, None] * np.exp(inner) * TAIL_WEIGHTS, n


def _power_tail(rays: Rays, end: np.ndarray, order: int) -> np.ndarray:
    """Integrals (n, order + 1) of distance^k times density from ``end`` on, where it is a power; 0 of those without."""
    edge = _quick_masses(rays, end[:, None], EVEN_CELL)
    fall = np.arange(order + 1) - rays.dof[:, None]
    out = edge * end[:, None] ** np.arange(order + 1) * end[:, None]
    with np.errstate(over="ignore"):
        span = np.log(rays.size / end)[:, None]
        within = np.where(fall == 0.0, span, np.expm1(fall * span) / np.where(fall == 0.0, 1.0, fall))
        return np.where(np.arange(order + 1) <= rays.highest[:, None], out * within, 0.0)


def _quick_masses(rays: Rays, at: np.ndarray, rule: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Masses of cells over which the density hardly bends, by Gauss points in each, relative to the first number's."""
    nodes, weights = rule
    z, unit = rays.start[:, None, None], np.hypot(rays.width, rays.start)[:, None, None]
    y = at[:, :, None] + nodes
    rise = y / unit * ((2.0 * z + y) / unit)
    logs = (rays.log_density - rays.log_first)[:, None, None] - 0.5 * (rays.dof[:, None, None] + 1.0) * np.log1p(rise)
    return np.exp(logs) @ weights


def _panel(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (m, POINTS) for sums over the whole numbers 0 .. n - 1, exact for polynomials."""
    nodes, weights, node_fit, weight_fit = _rules()
    which = np.minimum(n, TABLED).astype(np.int64)
    out, weight = nodes[which], weights[which]
    long = n > TABLED
    m = n[long, None]
    u = (TABLED / m) ** 2
    out[long] = 0.5 * (m - 1.0) + m * np.polynomial.polynomial.polyval(u[:, 0], node_fit, tensor=True).T
    weight[long] = m * np.polynomial.polynomial.polyval(u[:, 0], weight_fit, tensor=True).T
    return out, weight


@cache
def _rules() -> tuple[np.ndarray, ...]:
    """Nodes and weights (TABLED + 1, POINTS), and the polynomials of longer panels in (TABLED / n)^2."""
    nodes, weights = np.zeros((2, TABLED + 1, POINTS))
    for n in range(1, TABLED + 1):
        nodes[n], weights[n] = _rule(float(n))
    u = 0.5 + 0.5 * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    pairs = [_rule(float(TABLED / np.sqrt(v))) for v in u]
    powers = np.vander(u, increasing=True)
    node_fit = np.linalg.solve(
        powers,
        [(x - 0.5 * (TABLED / np.sqrt(v) - 1)) / (TABLED / np.sqrt(v)) for (x, _), v in zip(pairs, u, strict=True)],
    )
    weight_fit = np.linalg.solve(powers, [w / (TABLED / np.sqrt(v)) for (_, w), v in zip(pairs, u, strict=True)])
    return nodes, weights, node_fit, weight_fit


def _rule(n: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights (POINTS,) of the discrete Chebyshev polynomials on 0 .. n - 1 (DLMF 18.22, N = n - 1).

    By the eigenvalues of the matrix of their recurrence (Golub and Welsch 1969); up to POINTS numbers by these.
    """
    if n <= POINTS:
        return np.arange(float(POINTS)), (np.arange(POINTS) < n).astype(np.float64)
    k = np.arange(1.0, POINTS)
    off = np.sqrt(k**2 * (n**2 - k**2) / (4.0 * (4.0 * k**2 - 1.0)))
    values, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    values = 0.5 * (values - values[::-1])  # they are symmetric
    return values + 0.5 * (n - 1.0), n * vectors[0] ** 2
