"""Leaves from expected statistics: the maximisation step, in closed form but for gamma, beta and Weibull leaves.

The prior of a leaf is conjugate: ``rows`` observations more, with the average statistics of the leaf's column (levels:
of the column and one row that is spread over all of them, so that none is impossible). That keeps scales and rates
within bounds, since without it the likelihood of a Gaussian leaf has none. Observations of a Laplace leaf's prior lie
at the column's median, but as far again from every place as the column's values do on average from there. The prior of
a Weibull leaf is one of its shape. Numbers of trials, the first parameters of negative binomial leaves, uniform,
triangular and hypergeometric leaves and distributions of SciPy are given and stay; the ends of uniform ones can be
learned (`fit_ends`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma, xlogy

from pymc_spn.circuits.evaluation.leaf_forms import HALF_LOG_2PI
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.scipy_leaves import SCIPY
from pymc_spn.leaves.validation import column_name
from pymc_spn.tables import Column

FITTED = (
    "gaussian", "log_normal", "laplace", "exponential", "gamma", "beta", "weibull", "poisson", "geometric", "binomial",
    "negative_binomial", "bernoulli", "categorical",
)  # fmt: skip
KEPT = ("uniform", "triangular", "hypergeometric", *SCIPY)  # as they are given
IN_PART = {"binomial": "the numbers of trials", "negative_binomial": "alpha"}  # of which the first parameter is kept
BY_ROWS = ("laplace", "weibull")  # for which all rows are needed
GIVEN = (*IN_PART, *KEPT)  # with parameters that rows do not tell
WITH_A_SCALE = ("gaussian", "log_normal")
ON_LEVELS = ("bernoulli", "categorical")
AVERAGES = {
    "gamma": "mean {:g} and mean log {:g}",
    "beta": "mean log {:g} and mean log of the rest to 1 {:g}",
    "laplace": "median {:g} and mean distance {:g} from it",
    "weibull": "best shape {:g} and scale {:g}",
    "uniform": "least value {:g} and largest value {:g}",
    "binomial": "mean {:g} of {:g} trials",
    "negative_binomial": "mean {:g} under alpha {:g}",
}
LEAST_GAP, MOST_STEPS, NEWTON_END = 1e-13, 100, 1e-12  # of beta and Weibull shapes
EQUAL = 1e-14  # spread of logs that is rounding
MAX_LEVELS = 100_000  # of a column without a schema; each leaf holds a number for each


class Pooled(NamedTuple):
    """Average statistics of the columns of one family's leaves, a row for each leaf.

    Parameters
    ----------
    mean, variance : (n,) float64
        Of the values, for log-normal leaves of their logs. For gamma leaves mean of the values and of their logs, for
        beta leaves means of the logs of x and of 1 - x, for Weibull leaves shape and scale of largest density, for
        Laplace leaves median and mean distance from it, for uniform ones least and largest value, for those of
        `IN_PART` mean and what is kept.
    levels : (n, K) float64
        Shares of the levels; K = 0 but for categorical leaves.
    """

    mean: np.ndarray
    variance: np.ndarray
    levels: np.ndarray


def pool(
    circuit: Any, values: np.ndarray, kept: Mapping[str, np.ndarray] | None = None, learn_ends: bool = False
) -> dict[str, Pooled]:
    """Average statistics by fitted family, over the cells that it can take; `kept` by leaves of those in `IN_PART`.

    Uniform leaves are among these families where their ends are learned.

    Raises
    ------
    ValueError
        If a family is not among `FITTED` or `KEPT`, a column has no value that its leaves can take, or the average is
        no leaf: a constant column under a scale, counts that are all 0.
    """
    pooled = {}
    for family in circuit.families:
        leaves = circuit.leaves_of(family)
        with_ends = family == "uniform" and learn_ends
        if leaves.size == 0 or (family in KEPT and not with_ends):
            continue
        if family not in FITTED and not with_ends:
            raise ValueError(f"circuit has {family} leaves; expectation maximisation takes {', '.join(FITTED + KEPT)}")
        own = (kept or {}).get(family, np.full(leaves.size, np.inf))
        kinds = list(zip(circuit.leaf_column[leaves].tolist(), own.tolist(), strict=True))
        found = {(d, n): _of_column(circuit, family, d, values[:, d], n) for d, n in dict.fromkeys(kinds)}
        levels = np.zeros((leaves.size, max(f.levels.size for f in found.values())))
        for row, kind in zip(levels, kinds, strict=True):
            row[: found[kind].levels.size] = found[kind].levels
        mean, variance = (np.array([getattr(found[kind], m) for kind in kinds]) for m in ("mean", "variance"))
        pooled[family] = Pooled(mean, variance, levels)
    return pooled


def _of_column(circuit: Any, family: str, d: int, x: np.ndarray, kept: float) -> Pooled:
    """Average statistics of one column under a family, with the parameter that is kept; without the axis of leaves."""
    u = x[possible(family, x) & (x <= (kept if family == "binomial" else np.inf))]
    if u.size == 0:
        raise ValueError(f"observed: column {circuit.names[d]!r} has no value that its {family} leaves can take")
    if family in ON_LEVELS:
        n_levels = 2 if family == "bernoulli" else _n_levels(circuit.columns[d], u)
        shares = (np.bincount(u.astype(np.int64), minlength=n_levels) + 1.0 / n_levels) / (u.size + 1.0)
        none = np.array(np.nan)
        return Pooled(shares[1], none, np.empty(0)) if family == "bernoulli" else Pooled(none, none, shares)
    if family == "gamma":
        mean, variance = u.mean(), np.log(u).mean() if np.ptp(u) > 0.0 else np.log(u.mean())
    elif family == "beta":
        mean, variance = np.log(u).mean(), np.log1p(-u).mean()
    elif family == "weibull":
        mean, variance = (np.float64(v) for v in weibull_leaf(np.log(u), np.ones(u.size)))
    elif family == "laplace":
        mean = np.median(u)
        variance = np.abs(u - mean).mean()
    elif family == "uniform":
        mean, variance = u.min(), u.max()
    elif family in IN_PART:
        mean, variance = u.mean(), kept
    else:
        u = np.log(u) if family == "log_normal" else u
        with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is refused below
            mean, variance = u.mean(), u.var() if np.ptp(u) > 0.0 else 0.0  # rounding would make a scale
    problem = EXPLICIT[family].problem(of_mean(family, np.atleast_1d(mean), np.atleast_1d(variance)))
    if problem is not None:
        averages = AVERAGES.get(family, "mean {:g} and variance {:g}")
        raise ValueError(
            f"observed: column {circuit.names[d]!r} has {averages.format(mean, variance)}, from which no {family} leaf "
            f"can be made: {problem[1]}"
        )
    return Pooled(np.asarray(mean), np.asarray(variance), np.empty(0))


def possible(family: str, x: np.ndarray) -> np.ndarray:
    """Whether leaves of a family can take each value; NaN is none."""
    known = np.isfinite(x)
    if family in ("gaussian", "laplace", "uniform"):
        return known
    if family == "beta":
        return known & (x > 0) & (x < 1)
    if family in ("log_normal", "gamma", "weibull", "exponential"):
        return known & (x >= 0 if family == "exponential" else x > 0)
    return known & (x >= 0) & (x == np.floor(x)) & (x <= (1 if family == "bernoulli" else np.inf))


def _n_levels(column: Any, codes: np.ndarray) -> int:
    """Levels of a column: the declared ones, or up to the highest code."""
    if isinstance(column, Column) and column.levels is not None:
        return len(column.levels)
    if codes.max() >= MAX_LEVELS:
        raise ValueError(
            f"observed: column {column_name(column)!r} has categorical leaves and must hold codes of levels below "
            f"{MAX_LEVELS}, got {codes.max():g}"
        )
    return int(codes.max()) + 1


def of_mean(family: str, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Leaf parameters (n, p) with these averages, see `Pooled`; variances matter where there is a scale."""
    if family in ("laplace", "uniform", "weibull"):
        return np.column_stack([mean, variance])
    if family == "binomial":
        return np.column_stack([variance, mean / variance])
    with np.errstate(divide="ignore", invalid="ignore"):
        if family == "negative_binomial":
            return np.column_stack([variance, variance / mean])
        if family == "gamma":
            shape = gamma_shape(np.log(mean) - variance)
            return np.column_stack([shape, shape / mean])
        if family == "beta":
            return beta_shapes(mean, variance)
        if family in WITH_A_SCALE:
            return np.column_stack([mean, np.sqrt(variance)])
        if family == "exponential":
            return (1.0 / mean)[:, None]
        if family == "geometric":
            return (1.0 / (1.0 + mean))[:, None]
        return mean[:, None]  # poisson, bernoulli


def gamma_shape(gap: np.ndarray) -> np.ndarray:
    """Shape (n,) at which the log of the mean exceeds the mean log by ``gap``; infinite where the gap is 0.

    Newton's method in 1 / shape (Minka 2002, Estimating a Gamma distribution), at rounding after five steps.
    """
    s = np.where(gap > 0.0, gap, 1.0)
    shape = (3.0 - s + np.sqrt(np.square(s - 3.0) + 24.0 * s)) / (12.0 * s)
    for _ in range(6):
        error = np.log(shape) - digamma(shape) - s
        shape = 1.0 / (1.0 / shape + error / (np.square(shape) * (1.0 / shape - polygamma(1, shape))))
    return np.where(gap > 0.0, shape, np.inf)


def beta_shapes(mean_log: np.ndarray, mean_log_rest: np.ndarray) -> np.ndarray:
    """Alpha and beta (n, 2) of largest density for these means (n,) of the logs of x and of 1 - x; else infinite.

    Newton's method (Minka 2000, Estimating a Dirichlet distribution) on a concave function, with no parameter divided
    by more than ten in a step. The geometric means of x and 1 - x add up to less than 1, by half the inverse of alpha +
    beta where that is large; below 1e-13 there is nothing but rounding.
    """
    means = np.stack([mean_log, mean_log_rest])
    gap = 1.0 - np.exp(means).sum(axis=0)
    varies = gap > LEAST_GAP
    means = np.where(varies, means, np.log(0.25))
    shapes = 0.5 + 0.5 * np.exp(means) / (1.0 - np.exp(means).sum(axis=0))
    for _ in range(MOST_STEPS):
        total = shapes.sum(axis=0)
        slope = means - digamma(shapes) + digamma(total)
        inverse, shared = 1.0 / polygamma(1, shapes), polygamma(1, total)
        step = inverse * (slope + shared * (inverse * slope).sum(axis=0) / (1.0 - shared * inverse.sum(axis=0)))
        new = np.maximum(shapes + step, 0.1 * shapes)
        moved, shapes = np.abs(new / shapes - 1.0).max(initial=0.0), new
        if moved < NEWTON_END:
            break
    return np.where(varies, shapes, np.inf).T


def updated(
    family: str, own: np.ndarray, moments: np.ndarray, level_flow: np.ndarray, pooled: Pooled, rows: float
) -> np.ndarray:
    """Leaf parameters (n, p) of largest posterior density given the expected statistics.

    Parameters
    ----------
    family : str
        Among `FITTED`, not among `BY_ROWS`, for which see `laplace_leaf` and `weibull_leaf`.
    own : (n, p) float64
        Parameters with which the statistics were taken; kept by leaves without any row, real or of the prior.
    moments : (3, n) float64
        As in `expected_statistics`.
    level_flow : (n, K) float64
        As in `expected_statistics`; of categorical leaves.
    pooled : Pooled
    rows : float
        Observations that the prior is worth.
    """
    if family == "categorical":
        total = level_flow + rows * pooled.levels
        n = total.sum(axis=1, keepdims=True)
        return np.where(n > 0, total / np.where(n > 0, n, 1.0), own)
    mass, total, squares = moments
    n = mass + rows
    some = n > 0
    n = np.where(some, n, 1.0)
    variance = np.zeros(mass.size)
    if family in WITH_A_SCALE:
        mean, sd = own.T
        shift = (sd * total + rows * (pooled.mean - mean)) / n  # of the mean, from the one that z was taken about
        spread = sd * sd * squares - 2.0 * shift * sd * total + mass * shift * shift
        variance = (spread + rows * (pooled.variance + np.square(pooled.mean - mean - shift))) / n
        average = mean + shift
    elif family == "gamma":
        average, variance = (squares + rows * pooled.mean) / n, (total + rows * pooled.variance) / n
    elif family == "beta":
        average, variance = (total + rows * pooled.mean) / n, (squares + rows * pooled.variance) / n
    elif family in IN_PART:
        average, variance = (total + rows * pooled.mean) / n, pooled.variance
    else:
        average = (total + rows * pooled.mean) / n
    return np.where(some[:, None], of_mean(family, average, variance), own)


def laplace_leaf(x: np.ndarray, weight: np.ndarray, distance: float) -> tuple[float, float]:
    """Location and scale of largest posterior density: the weighted median and the mean distance from it.

    Parameters
    ----------
    x : (n,) float64
        Ascending: the cells, and the median at which the observations of the prior lie.
    weight : (n,) float64
        Expected uses of the cells, and the number of observations that the prior is worth.
    distance : float
        That these are farther away, in total.
    """
    below = np.cumsum(weight)
    location = x[np.searchsorted(below, 0.5 * below[-1])]
    return location, (float(weight @ np.abs(x - location)) + distance) / below[-1]


def weibull_leaf(y: np.ndarray, weight: np.ndarray, rows: float = 0.0, usual: float = 1.0) -> tuple[float, float]:
    """Shape and scale of largest posterior density for logs (n,) of values with weights (n,), some of them positive.

    The prior is that of a shape alone, ``rows (log k - k / usual)``, a gamma density with its mode at `usual`, the
    shape that fits the whole column. A value's density is at most k / (e x), so that keeps the objective bounded.
    Observations of the column, as of other families, would bind scales that are smaller than its own: their hazards are
    powers.

    The shape is where the mean of y under weights times exp(k y) exceeds that under the weights by 1 / k (Cohen 1965,
    Maximum likelihood estimation in the Weibull distribution, Technometrics 7), here by (1 + r) / k - r / usual with r
    the rows of the prior for each of the data. The difference rises in k; Newton's steps change k by a factor of at
    most five. Without prior equal values have an infinite shape.
    """
    y, weight = y[weight > 0.0], weight[weight > 0.0]
    total = float(weight.sum())
    top = y.max()
    away = y - top
    mean = float(weight @ away) / total
    spread = np.sqrt(float(weight @ np.square(away - mean)) / total)
    if rows == 0.0 and not spread > EQUAL * max(1.0, abs(top)):
        return np.inf, float(np.exp(top))
    of_logs = spread * np.sqrt(6.0) / np.pi  # 1 / k if it is that of a Gumbel variable
    shape = (total + rows) / (rows / usual + total * of_logs)
    for _ in range(MOST_STEPS):
        tilted = weight * np.exp(shape * away)
        tilted_mean = float(tilted @ away) / float(tilted.sum())
        tilted_variance = float(tilted @ np.square(away - tilted_mean)) / float(tilted.sum())
        excess = total * (tilted_mean - mean) - (total + rows) / shape + rows / usual
        new = shape - excess / (total * tilted_variance + (total + rows) / shape**2)
        new = min(max(new, 0.2 * shape), 5.0 * shape)
        moved, shape = abs(new / shape - 1.0), new
        if moved < NEWTON_END:
            break
    return shape, float(np.exp(top + np.log(float(weight @ np.exp(shape * away)) / total) / shape))


def recentred(moments: np.ndarray, own: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Moments (3, n) of leaves with a scale, taken about their parameters ``own``, about those that are ``new``."""
    mass, total, squares = moments
    ratio, shift = own[:, 1] / new[:, 1], (own[:, 0] - new[:, 0]) / new[:, 1]
    return np.array(
        [mass, ratio * total + shift * mass, ratio * (ratio * squares + 2.0 * shift * total) + shift * shift * mass]
    )


def log_prior(family: str, own: np.ndarray, pooled: Pooled) -> float:
    """Expected log density, in nats, of one observation of the prior under each leaf, summed over the leaves.

    Without what the leaves of a column share, and what stays: log x! of counts, binomial coefficients, and the Jacobian
    of the log.
    """
    if family == "categorical":
        return float(xlogy(pooled.levels, own).sum())
    if family in WITH_A_SCALE:
        mean, sd = own.T
        z2 = (pooled.variance + np.square(pooled.mean - mean)) / np.square(sd)
        return float((-np.log(sd) - HALF_LOG_2PI - 0.5 * z2).sum())
    theta, mean = own[:, 0], pooled.mean
    if family == "laplace":
        return float((-np.log(2.0 * own[:, 1]) - (pooled.variance + np.abs(theta - mean)) / own[:, 1]).sum())
    if family == "weibull":  # see `weibull_leaf`
        return float((np.log(theta) - theta / mean).sum())
    if family == "uniform":  # an observation of density exp(-column's length / length) / length, see `best_ends`
        length = own[:, 1] - theta
        return float((-np.log(length) - (pooled.variance - mean) / length).sum())
    if family == "binomial":
        success = own[:, 1]
        return float((mean * np.log(success) + (theta - mean) * np.log1p(-success)).sum())
    if family == "negative_binomial":
        rate = own[:, 1]
        return float((-theta * np.log1p(1.0 / rate) - mean * np.log1p(rate)).sum())
    if family == "gamma":
        rate = own[:, 1]
        return float((theta * np.log(rate) - gammaln(theta) + (theta - 1.0) * pooled.variance - rate * mean).sum())
    if family == "beta":
        beta = own[:, 1]
        return float(((theta - 1.0) * mean + (beta - 1.0) * pooled.variance - betaln(theta, beta)).sum())
    if family == "exponential":
        return float((np.log(theta) - theta * mean).sum())
    if family == "poisson":
        return float((mean * np.log(theta) - theta).sum())
    if family == "geometric":
        return float((np.log(theta) + mean * np.log1p(-theta)).sum())
    return float((xlogy(mean, theta) + xlogy(1.0 - mean, 1.0 - theta)).sum())
