"""Inner products of leaves: the integral, or sum, of the product of two densities or masses of one column."""

from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, gammaln, i0e, log_ndtr

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_integrals import log_integrals, log_sums
from pymc_spn.leaves.real_families import LOG_2PI
from pymc_spn.leaves.share_integrals import log_share_integrals
from pymc_spn.leaves.tail_probabilities import STIRLING_FROM, log_beta

POWERS = ("gamma", "weibull", "beta")  # whose densities are like x^(first parameter - 1) at 0
LEVELS = ("bernoulli", "categorical")
Pairwise = Callable[[np.ndarray, np.ndarray], np.ndarray]


def log_inner_products(family: str, p: np.ndarray, other: str, q: np.ndarray) -> tuple[np.ndarray, float]:
    """Log of the integral (sum over values) of the product of two leaves, for all pairs.

    In closed form for two Gaussian, log-normal, gamma or exponential, beta, Laplace, uniform or triangular leaves,
    Gaussian with exponential ones, uniform ones with any density, two geometric or Poisson leaves, geometric ones with
    Poisson, binomial and negative binomial ones, and leaves with finitely many values; others by quadrature, or by sums
    until the rest is below the rounding.

    Parameters
    ----------
    family, other : str
        Names in `EXPLICIT`, both of densities or both of masses.
    p, q : (n, k) and (m, l) float64
        Parameters.

    Returns
    -------
    (n, m) float64 and float
        In nats, ``-inf`` where the supports do not meet and ``inf`` where the integral does not converge; and the
        largest relative error, 0 in closed form.
    """
    if (other, family) in _CLOSED and (family, other) not in _CLOSED:
        logs, error = log_inner_products(other, q, family, p)
        return logs.T, error
    left, right = p[:, None, :], q[None, :, :]
    if (family, other) in _CLOSED:
        return _CLOSED[family, other](left, right), 0.0
    if family == "uniform":
        return log_interval(other, right, left[..., 0], left[..., 1]) - np.log(left[..., 1] - left[..., 0]), 0.0
    if other == "uniform":
        return log_interval(family, left, right[..., 0], right[..., 1]) - np.log(right[..., 1] - right[..., 0]), 0.0
    row, column = (i.ravel() for i in np.indices((len(p), len(q))))
    if EXPLICIT[family].is_density:
        logs = np.full(row.size, np.inf)
        finite = ~_diverges(family, p[row], other, q[column])
        pairs = p[row[finite]], q[column[finite]]
        if family == "beta":
            logs[finite], error = log_share_integrals(pairs[0], other, pairs[1])
        elif other == "beta":
            logs[finite], error = log_share_integrals(pairs[1], family, pairs[0])
        else:
            logs[finite], error = log_integrals(family, pairs[0], other, pairs[1])
    else:
        n_values = min(_n_values(family, p), _n_values(other, q))
        logs, error = log_sums(
            family, p[row], other, q[column], None if np.isinf(n_values) else int(n_values)
        )  # fmt: skip
    return logs.reshape(len(p), len(q)), error


def _n_values(family: str, p: np.ndarray) -> float:
    """How many values, from 0 on, leaves may take."""
    if family in LEVELS:
        return 2.0 if family == "bernoulli" else p.shape[1]
    return float(p[:, 0].max()) + 1.0 if family == "binomial" else np.inf


def _diverges(family: str, p: np.ndarray, other: str, q: np.ndarray) -> np.ndarray:
    """Pairs whose densities both grow too quickly towards 0.

    Log-Student t like 1 / (x |log x|^(v + 1)), gamma and beta like x^(first parameter - 1).
    """
    if "log_student_t" in (family, other):
        rest, theirs = (other, q) if family == "log_student_t" else (family, p)
        if rest in POWERS:
            return theirs[:, 0] < 1.0
        return np.full(len(p), rest == "log_student_t")
    if family in POWERS and other in POWERS:
        return p[:, 0] + q[:, 0] <= 1.0
    return np.zeros(len(p), np.bool_)


def _gaussian(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    sd = np.hypot(p[..., 1], q[..., 1])
    return -0.5 * np.square((p[..., 0] - q[..., 0]) / sd) - np.log(sd) - 0.5 * LOG_2PI


def _log_normal(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The Gaussian one of the logs, times the mean of 1/x under the product of those."""
    share = np.square(p[..., 1] / np.hypot(p[..., 1], q[..., 1]))
    mean = p[..., 0] + share * (q[..., 0] - p[..., 0])
    return _gaussian(p, q) - mean + 0.5 * share * np.square(q[..., 1])


def _gamma(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b, shape = p[..., 0], q[..., 0], p[..., 0] + q[..., 0] - 1.0
    converges = shape > 0.0
    shape = np.where(converges, shape, 1.0)
    total = p[..., 1] + q[..., 1]
    logs = a * np.log(p[..., 1] / total) + b * np.log(q[..., 1] / total) + np.log(total)
    logs = logs + gammaln(shape) - gammaln(a) - gammaln(b)
    with np.errstate(over="ignore"):
        x = shape / total
    large = (np.maximum(a, b) >= STIRLING_FROM) & np.isfinite(x)
    logs = np.where(large, _at_a_point("gamma", p, q, np.stack([shape, total], axis=-1), np.where(large, x, 1.0)), logs)
    return np.where(converges, logs, np.inf)


def _at_a_point(family: str, p: np.ndarray, q: np.ndarray, both: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log inner product of two leaves whose product is a leaf with parameters `both`, from the densities at x.

    At every x the two densities are the inner product times the third. Leaves know their log densities to all digits
    where shapes are large, of which the logs of gamma functions keep none.
    """
    log_density = EXPLICIT[family].log_density
    return log_density(p, x) + log_density(q, x) - log_density(both, x)


def as_gamma(rate: np.ndarray) -> np.ndarray:
    """Exponential leaves (..., 1) as gamma leaves of shape 1."""
    return np.concatenate([np.ones_like(rate), rate], axis=-1)


def _gaussian_exponential(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    mean, sd, rate = p[..., 0], p[..., 1], q[..., 0]
    z = mean / sd - rate * sd
    below = np.minimum(z, 0.0)  # there the normal distribution function by its ratio to the density
    far = np.log(0.5 * erfcx(-below / np.sqrt(2.0))) - 0.5 * np.square(mean / sd)
    near = -rate * mean + 0.5 * np.square(rate * sd) + log_ndtr(np.maximum(z, 0.0))
    return np.log(rate) + np.where(z < 0.0, far, near)


def _beta(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    alpha, beta = p[..., 0] + q[..., 0] - 1.0, p[..., 1] + q[..., 1] - 1.0
    finite = (alpha > 0.0) & (beta > 0.0)
    alpha, beta = np.where(finite, alpha, 1.0), np.where(finite, beta, 1.0)
    logs = log_beta(alpha, beta) - log_beta(p[..., 0], p[..., 1]) - log_beta(q[..., 0], q[..., 1])
    # the smaller one first, so that their share is not rounded to 1
    turned = (alpha > beta)[..., None]
    p, q, both = (np.where(turned, r[..., ::-1], r) for r in (p, q, np.stack([alpha, beta], axis=-1)))
    large = np.maximum(p.min(axis=-1), q.min(axis=-1)) >= STIRLING_FROM
    x = np.where(large, both[..., 0] / (alpha + beta), 0.5)
    return np.where(finite, np.where(large, _at_a_point("beta", p, q, both, x), logs), np.inf)


def _laplace(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    distance = np.abs(p[..., 0] - q[..., 0])
    slow, fast = 1.0 / np.maximum(p[..., 1], q[..., 1]), 1.0 / np.minimum(p[..., 1], q[..., 1])
    gap = fast - slow  # 0 at equal scales, where the quotient is the distance
    between = np.where(gap > 0.0, -np.expm1(-gap * distance) / np.where(gap > 0.0, gap, 1.0), distance)
    return np.log(slow * fast / (2.0 * (slow + fast))) - slow * distance + np.log1p(slow * between)


def _uniform(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    length = np.minimum(p[..., 1], q[..., 1]) - np.maximum(p[..., 0], q[..., 0])
    with np.errstate(divide="ignore"):
        common = np.log(np.maximum(length, 0.0))
    return common - np.log(p[..., 1] - p[..., 0]) - np.log(q[..., 1] - q[..., 0])


def _triangular(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Piece by piece between all ends and modes: the integral of a product of two linear functions from their ends.

    With values f, g at the start and F, G at the stop of a length l it is l (2 f g + f G + F g + 2 F G) / 6. Nothing
    is subtracted but parameters from parameters.
    """
    shape = (*np.broadcast_shapes(p.shape[:-1], q.shape[:-1]), 3)
    p, q = np.broadcast_to(p, shape), np.broadcast_to(q, shape)
    first, last = np.maximum(p[..., :1], q[..., :1]), np.minimum(p[..., 2:], q[..., 2:])
    cuts = np.sort(np.clip(np.concatenate([p, q], axis=-1), first, np.maximum(first, last)), axis=-1)
    start, stop = cuts[..., :-1], cuts[..., 1:]
    (f, big_f), (g, big_g) = (_log_heights(r, start, stop) for r in (p, q))
    terms = [np.log(2.0) + f + g, f + big_g, big_f + g, np.log(2.0) + big_f + big_g]
    with np.errstate(divide="ignore"):
        logs = np.log((stop - start) / 6.0) + np.logaddexp.reduce(terms, axis=0)
    return np.logaddexp.reduce(logs, axis=-1)


def _log_heights(p: np.ndarray, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density at the start and the stop of pieces (..., n) within the support, each on one side of the mode."""
    lower, mode, upper = (p[..., i, None] for i in range(3))
    rises = (stop <= mode) & (lower < mode)
    span = np.where(rises, mode - lower, np.where(upper > mode, upper - mode, 1.0))
    top = np.log(2.0 / (upper - lower))
    with np.errstate(divide="ignore"):  # pieces of no length may lie outside
        at_start, at_stop = (
            np.log(np.maximum(np.where(rises, x - lower, upper - x), 0.0) / span) for x in (start, stop)
        )
    return top + at_start, top + at_stop


def _geometric(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = p[..., 0], q[..., 0]
    return np.log(a) + np.log(b) - np.log(a + b - a * b)


def _poisson(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = p[..., 0], q[..., 0]
    return np.log(i0e(2.0 * np.sqrt(a) * np.sqrt(b))) - np.square(np.sqrt(a) - np.sqrt(b))


# with a geometric leaf: p times the other's probability generating function at 1 - p
_CLOSED: dict[tuple[str, str], Pairwise] = {
    ("gaussian", "gaussian"): _gaussian,
    ("log_normal", "log_normal"): _log_normal,
    ("gamma", "gamma"): _gamma,
    ("gamma", "exponential"): lambda p, q: _gamma(p, as_gamma(q)),
    ("exponential", "exponential"): lambda p, q: _gamma(as_gamma(p), as_gamma(q)),
    ("gaussian", "exponential"): _gaussian_exponential,
    ("beta", "beta"): _beta,
    ("laplace", "laplace"): _laplace,
    ("uniform", "uniform"): _uniform,
    ("triangular", "triangular"): _triangular,
    ("geometric", "geometric"): _geometric,
    ("geometric", "poisson"): lambda p, q: np.log(p[..., 0]) - p[..., 0] * q[..., 0],
    ("geometric", "binomial"): lambda p, q: np.log(p[..., 0]) + q[..., 0] * np.log1p(-q[..., 1] * p[..., 0]),
    ("geometric", "negative_binomial"): lambda p, q: np.log(p[..., 0]) - q[..., 0] * np.log1p(p[..., 0] / q[..., 1]),
    ("poisson", "poisson"): _poisson,
}
