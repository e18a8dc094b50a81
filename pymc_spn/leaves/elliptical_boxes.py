"""Probabilities of boxes over several columns of Gaussian and Student t leaves, by a fixed quasi-Monte-Carlo rule.

The probability is that of the first column's interval times that of the second's given the first, and so on. Each
factor is an interval of a univariate distribution. The points of a lattice draw the columns before it within their
intervals. The column with the smallest probability comes next, given means of those before it, so that small
probabilities keep their digits and points agree. Genz (1992), doi:10.1080/10618600.1992.10477010; Gibson, Glasbey and
Elston (1994), for the order; Genz and Bretz (2002), doi:10.1198/106186002394, for the Student t. Here its conditionals
take the place of a drawn scale. The points are the same in every call. Over two columns Gauss rules do, unless the
second column follows so closely from the first that they do not agree.
"""

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from pymc_spn.leaves.gaussian import GAUSSIAN, STUDENT_T
from pymc_spn.leaves.tail_probabilities import UNDERFLOW
from pymc_spn.numerics.threads import for_each

TOLERANCE = 1e-4  # of a probability; tests compare it with quadrature
N_SHIFTS = 8
N_POINTS = (64, 512, 4096, 32768)  # of each shift; the next rule serves boxes of which the shifts do not agree
AGREE, SHARE = 2e-5, 1e-3  # standard error over the shifts, and as a share of the probability
BLOCK = 1 << 16  # numbers of one array
FAR = 1e-100  # a tail of less probability counts as being at its beginning
N_NODES, RULES_AGREE = (24, 48, 96, 192, 384), 1e-6  # of rules for two columns, and log probabilities of two rules
COUNTS = 30.0  # nats below its largest in an interval, at which a density still counts
FARTHEST = 600.0  # log of a distance in widths
LOG_2 = np.log(2.0)
CANCELS = 1e-3  # the share of a tail below which the difference of two tails loses digits


def lattice(n: int, d: int) -> np.ndarray:
    """Points (d, N_SHIFTS n) of the unit cube: shifted multiples of roots of primes, folded so that 0 and 1 agree."""
    candidates = np.arange(2, 16 + int(d * (np.log(d + 3.0) + 2.0)))
    primes = candidates[[all(p % q for q in range(2, int(p**0.5) + 1)) for p in candidates]][:d]
    steps = np.sqrt(primes.astype(np.float64)) if d > 1 else np.full(1, 1.0 / n)
    shifts = np.random.default_rng(0).random((d, N_SHIFTS, 1))
    points = (shifts + steps[:, None, None] * np.arange(n)) % 1.0
    return np.abs(2.0 * points.reshape(d, -1) - 1.0)


def log_interval(dof: np.ndarray | None, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Log probability of intervals of the standard Student t, or of the normal distribution without ``dof``."""
    zero, one = np.zeros(low.shape), np.ones(low.shape)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if dof is None:
            return GAUSSIAN.log_interval(np.stack([zero, one], axis=-1), low, high)
        return STUDENT_T.log_interval(np.stack([zero, one, zero + dof], axis=-1), low, high)


def step(
    dof: np.ndarray | None, low: np.ndarray, high: np.ndarray, u: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Log probability of intervals, and the u-quantiles within them if ``u`` is given."""
    mirrored = low > -high  # work in the lower tail, where distribution functions keep their digits
    near, far = np.where(mirrored, -low, high), np.where(mirrored, -high, low)
    above, below = (ndtr(z) if dof is None else stdtr(dof, z) for z in (near, far))
    mass = above - below
    lost = (mass < CANCELS * above) | (above < UNDERFLOW)
    with np.errstate(divide="ignore"):
        logs = np.log(mass)
    if np.any(lost):
        own = None if dof is None else np.broadcast_to(dof, lost.shape)[lost]
        logs[lost] = log_interval(own, low[lost], high[lost])
    if u is None:
        return logs, None
    p = below + np.where(mirrored, 1.0 - u, u) * mass
    z = np.clip(ndtri(p) if dof is None else stdtrit(dof, p), far, near)
    z = np.where(above < FAR, near, z)
    return logs, np.where(mirrored, -z, z)


def nodes_within(
    dof: np.ndarray | None, low: np.ndarray, high: np.ndarray, points: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of standard Student t's, or of the normal distribution without ``dof``, within intervals.

    In the variable v of z = sqrt(dof) sinh(v / sqrt(dof)) the density falls off as that of a normal distribution. So a
    Gauss rule over the part of the interval that counts is enough for averages of smooth functions.

    Parameters
    ----------
    dof : (n,) float64 or None
    low, high : (n,) float64
        They may be infinite.
    points, weights : (G,) float64
        Of a rule for the unit interval.

    Returns
    -------
    z, weights : (n, G) float64
        The weights add up to 1.
    """
    root = np.ones(low.shape) if dof is None else np.sqrt(dof)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of infinite ends
        first, last = (end if dof is None else root * np.arcsinh(end / root) for end in (low, high))
        nearest = np.clip(0.0, first, last)
        if dof is None:
            reach = np.sqrt(np.square(nearest) + 2.0 * COUNTS)
        else:
            above = np.minimum(_log_cosh(nearest / root) + COUNTS / dof, FARTHEST)
            reach = root * (above + np.log1p(np.sqrt(-np.expm1(-2.0 * above))))  # arcosh of exp(above)
        first, last = np.maximum(first, -reach), np.minimum(last, reach)
    v = first[:, None] + (last - first)[:, None] * points
    if dof is None:
        logs, z = -0.5 * np.square(v), v
    else:
        logs, z = -dof[:, None] * _log_cosh(v / root[:, None]), root[:, None] * np.sinh(v / root[:, None])
    share = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
    return z, share / share.sum(axis=1, keepdims=True)


def _log_cosh(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    return size + np.log1p(np.exp(-2.0 * size)) - LOG_2


def log_probability(dof: np.ndarray | None, low: np.ndarray, high: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Log probability (n,) of boxes around location 0.

    Parameters
    ----------
    dof : (n,) float64 or None
        Degrees of freedom; None for Gaussian leaves.
    low, high : (n, k) float64
        Less the location; low < high.
    scale : (n, k, k) float64
    """
    sd = np.sqrt(np.diagonal(scale, axis1=1, axis2=2))
    low, high = low / sd, high / sd
    scale = scale / (sd[:, :, None] * sd[:, None])
    order = _least_probable_first(low, high, scale)
    low, high = (np.take_along_axis(a, order, axis=1) for a in (low, high))
    row = np.arange(len(low))[:, None, None]
    factor = np.linalg.cholesky(scale[row, order[:, :, None], order[:, None]])
    out, left = np.empty(len(low)), np.arange(len(low))
    if low.shape[1] == 2:
        left = _of_two(dof, low, high, factor, out)
    for n in N_POINTS:
        if left.size == 0:
            break
        points = lattice(n, low.shape[1] - 1)
        size = max(BLOCK // points.size, 1)
        parts = np.split(left, range(size, left.size, size))
        unsure = [left[:0]] * len(parts)

        def ask(i: int, n: int = n, points: np.ndarray = points, parts: list = parts, unsure: list = unsure) -> None:
            at = parts[i]
            own = None if dof is None else dof[at]
            logs = over_points(own, low[at], high[at], factor[at], points).reshape(at.size, N_SHIFTS, n)
            logs = np.logaddexp.reduce(logs, axis=2) - np.log(n)
            out[at] = np.logaddexp.reduce(logs, axis=1) - np.log(N_SHIFTS)
            p = np.exp(out[at])
            error = np.exp(logs - np.where(p > 0.0, out[at], 0.0)[:, None]).std(axis=1) / np.sqrt(N_SHIFTS)
            unsure[i] = at[error * p > np.minimum(AGREE, SHARE * p)]

        for_each(ask, range(len(parts)), len(parts) > 1)
        left = np.concatenate(unsure)
    return out


def _least_probable_first(low: np.ndarray, high: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Order (n, k) of columns with unit scales: the next one is the least probable given those before at their means.

    By normal distributions: the order decides on the error and not on the answer.
    """
    n, k = low.shape
    row, order = np.arange(n), np.empty((n, k), np.int64)
    factor, mean = np.zeros((n, k, k)), np.zeros((n, k))  # rows in the order of the columns, as they come
    for j in range(k):
        own = np.sqrt(np.maximum(1.0 - np.square(factor[:, :, :j]).sum(axis=2), np.finfo(np.float64).eps))
        centre = np.einsum("nia,na->ni", factor[:, :, :j], mean[:, :j])
        first, last = ((end - centre) / own for end in (low, high))
        logs = log_interval(None, first, last)
        logs[row[:, None], order[:, :j]] = np.inf
        order[:, j] = chosen = logs.argmin(axis=1)
        between = np.einsum("nia,na->ni", factor[:, :, :j], factor[row, chosen, :j])
        factor[:, :, j] = (scale[row, chosen] - between) / own[row, chosen, None]
        first, last = first[row, chosen], last[row, chosen]
        away = (np.exp(-0.5 * np.square(first)) - np.exp(-0.5 * np.square(last))) / np.sqrt(2.0 * np.pi)
        away /= np.maximum(np.exp(logs[row, chosen]), np.finfo(np.float64).tiny)
        mean[:, j] = np.clip(away, first, last)
    return order


def _of_two(
    dof: np.ndarray | None, low: np.ndarray, high: np.ndarray, factor: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Write log probabilities of boxes over two columns by Gauss rules; returns those for which no two rules agree."""
    left, before = np.arange(len(low)), np.full(len(low), np.nan)
    for n in N_NODES:
        points, weights = np.polynomial.legendre.leggauss(n)
        unsure = [left[:0]]
        for at in np.split(left, range(BLOCK // (4 * n), left.size, BLOCK // (4 * n))):
            own = None if dof is None else dof[at]
            z, share = nodes_within(own, low[at, 0], high[at, 0], 0.5 * (points + 1.0), weights)
            freedom, width = None, np.ones((at.size, 1))
            if own is not None:
                freedom = own[:, None] + 1.0
                width = np.sqrt((own[:, None] + np.square(z)) / freedom)
            centre, scale = factor[at, 1, 0, None] * z, factor[at, 1, 1, None] * width
            first, last = ((end[at, 1, None] - centre) / scale for end in (low, high))
            logs = step(freedom, first, last, None)[0]
            with np.errstate(divide="ignore", invalid="ignore"):  # of boxes without a probability
                inner = np.logaddexp.reduce(logs + np.log(share), axis=1)
                out[at] = log_interval(own, low[at, 0], high[at, 0]) + inner
                unsure.append(at[~(np.abs(inner - before[at]) < RULES_AGREE)])
            before[at] = inner
        left = np.concatenate(unsure)
        if left.size == 0:
            break
    return left


def over_points(
    dof: np.ndarray | None, low: np.ndarray, high: np.ndarray, factor: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Logs (n, points) of the products of conditional probabilities, given the factor (n, k, k) of the scale."""
    n, k = low.shape
    logs, square = np.zeros((n, points.shape[1])), np.zeros((n, points.shape[1]))
    drawn = np.zeros((k - 1, n, points.shape[1]))
    for j in range(k):
        centre = np.einsum("ni,inp->np", factor[:, j, :j], drawn[:j])
        own, width = None, np.ones((n, 1))
        if dof is not None:
            own = dof[:, None] + j
            width = np.sqrt((dof[:, None] + square) / own)
        first, last = ((end[:, j, None] - centre) / (factor[:, j, j, None] * width) for end in (low, high))
        log_p, z = step(own, first, last, points[j] if j < k - 1 else None)
        logs += log_p
        if z is not None:
            drawn[j] = width * z
            square += np.square(drawn[j])
    return logs
