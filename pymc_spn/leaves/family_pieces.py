"""Pieces of a family for single parts of the package, and those that several families share."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.conjugate_pieces import Conjugate
from pymc_spn.leaves.leaf_statistics import is_count

SMALLEST_SIZE, LARGEST_SIZE = 5e-324, 1.7976931348623157e308  # of leaves whose draws may round to 0 or infinity
NARROW = 0.25  # standard deviations below which an interval is integrated rather than taken as a difference
MOST_STEPS, NEWTON_END = 100, 1e-12  # of shapes that are found by Newton's method


class Kernels(NamedTuple):
    """Pieces of compiled functions: their bodies become branches of functions that `leaf_dispatch.by_family` makes.

    They have the arguments that stand here, may call inner kernels and hold no functions of their own. A family without
    them is worked out by NumPy, and the kernels of circuits read the logs as columns.

    Parameters
    ----------
    form, reading : int
        How a log density is worked out from coefficients and an input, and how that is read from a value, see
        `kernel_forms`.
    value : function (lead, a, b, c, table, u)
        The form; ``table`` holds log probabilities of a leaf on levels.
    coefficients : function (theta, width, out)
        Sets ``out`` (4,), that is lead, a, b, c, from the parameters theta (width,).
    add_gradient : function (theta, width, u, x, flow, out)
        Adds to ``out`` (width,) flow times the derivative of the log density in the parameters, at the value x, read
        as u.
    draw : function (rng, theta)
        One random value.
    are_valid : function (theta)
        Whether parameters (p,) are those of a leaf.
    value_slope : function (theta, u, x), optional
        Derivative of the log density in x; of masses there is none.
    """

    form: int
    reading: int
    value: Any
    coefficients: Any
    add_gradient: Any
    draw: Any
    are_valid: Any
    value_slope: Any = None


class Boxes(NamedTuple):
    """Pieces of the search for a most probable row, whose leaves have four parameters of their own.

    Parameters
    ----------
    row : callable (p)
        The four from the parameters (p,) of a leaf.
    log_value : function (a, b, c, e, x)
        Log density or mass, `IMPOSSIBLE` where there is none.
    mode : function (p)
        Where the leaf with parameters p (4,) is largest.
    is_one_sided : bool
        Whether there is nothing below 0, and the edge belongs to the leaf.
    turns : function (p), optional
        Two places beside which the density or mass rises on one side and falls on the other, or a mass begins or ends;
        without it there is the mode alone.
    ranges : function (p, low, high, shift, out), optional
        Smallest and largest first and second derivative between low and high, times exp(-shift); of densities.
    pull : function (p, x, share), optional
        Force and stiffness of a step of minorise-maximise, see `ascent_kernels.climb`; of densities.
    jumps : callable (p), optional
        Places where leaves (n, 4) jump up, and where down, at ends that belong to them.
    bends : callable (p), optional
        Places where their slope falls at once.
    reach : callable (p), optional
        Lowest and highest place, beside the modes, that leaves (n, 4) may be largest at.
    """

    row: Any
    log_value: Any
    mode: Any
    is_one_sided: bool = False
    turns: Any = None
    ranges: Any = None
    pull: Any = None
    jumps: Any = None
    bends: Any = None
    reach: Any = None


class Fit(NamedTuple):
    """Pieces of expectation maximisation: which leaf is best for rows and for a prior of some rows more.

    The averages of a column are two numbers, mean and variance of its values unless the family says otherwise.

    Parameters
    ----------
    can_take : callable (x)
        Which values (n,) leaves can take; NaN is none.
    averages : callable (u, kept)
        The two of such values, with the parameter that is kept.
    leaves : callable (mean, variance)
        Parameters (n, p) with these averages, each (n,).
    said : str
        How a message calls the averages.
    best : callable (own, moments, rows, mean, variance), optional
        Averages of largest posterior density given expected statistics (3, n), the leaves with which these were taken,
        and averages of the prior's rows.
    statistics : callable (x, own), optional
        The three moments of values of one leaf, see `expected_statistics`.
    of_rows : callable (x, weight, rows, mean, variance), optional
        In their place, for families that need all rows: the leaf (p,) that is best for ascending values with weights,
        or None if nothing tells.
    log_prior : callable (own, mean, variance)
        Expected log density of an observation of the prior under each leaf (n,).
    near : callable (cell, usable, mean, variance)
        Leaves (n, p) between averages of the column and cells, where these can be taken.
    kept : str
        What the first parameter is, of families that keep it as it is given.
    is_bounded_by_kept : bool
        Whether no value exceeds it.
    """

    can_take: Any
    averages: Any
    leaves: Any
    log_prior: Any
    near: Any
    best: Any = None
    statistics: Any = None
    of_rows: Any = None
    said: str = "mean {:g} and variance {:g}"
    kept: str = ""
    is_bounded_by_kept: bool = False


class Symbols(NamedTuple):
    """The family in PyTensor.

    Parameters
    ----------
    is_located : bool
        Whether the first parameter is any number.
    location : callable (tensors, p), optional
        Where leaves (n, p) lie, as a start for a sampler; without it the first parameter.
    n_outputs, link : int and callable (tensors, outputs, typical), optional
        Parameters from outputs of a network, see `dense_networks`.
    product : callable (tensors, p, q), optional
        Log inner products (n,) and parameters (n, p) of normalised products, where these are leaves of the family.
    bounds : tuple of (low, high)
        Open interval of each parameter; of levels one for all, closed.
    """

    is_located: bool = False
    location: Any = None
    n_outputs: int = 0
    link: Any = None
    product: Any = None
    bounds: tuple[tuple[float, float], ...] = ()


class Predictive(NamedTuple):
    """A family of the sampler with its parameters integrated out, from posteriors: named tuples of arrays (n,).

    Parameters
    ----------
    prior : class
        The palette entry, which knows density, distribution function and draws of the predictive.
    leaves : str
        Family of these leaves in circuits.
    posterior : callable (parameters)
        The named tuple from rows (n, p) of `leaf_predictives.Leaves`.
    in_units : callable (parameters, centre, scale), optional
        Such rows in the units of the data from those of the sampler's values, which are coded as (x - centre) / scale.
    leaf_rows : callable (params)
        Their parameters (n, p).
    moments : callable (params, centre, order)
        E[(X - centre)^k] (n, order + 1), infinite or NaN where it does not exist.
    box_rows : callable (params), optional
        Parameters (n, 4) of the same leaves in the search for a most probable row.
    whole_moments : callable (params), optional
        Mean and variance (n,), with the centre for a mean that does not exist; without it those of the prior.
    moments_within : callable (params, low, high), optional
        Mean and variance (n,) within an interval.
    about_within : callable (params, low, high, centre, order), optional
        As `moments` within an interval, about a centre (n,); without it by sums of masses.
    draw_within : callable (params, low, high, u), optional
        Quantiles (n,) at u of what lies within an interval.
    conjugate : Conjugate, optional
        Pieces for the kernels of samplers; rounded leaves are Gaussian ones there.
    bulk : callable (params)
        A point in the bulk of each leaf and a width (n,) of the bulk, finite for every tail.
    has_masses : bool
        Whether values have masses.
    lowest : float
        Smallest value.
    highest : callable (params), optional
        Largest value of all leaves, where they have one.
    """

    prior: Any
    leaves: str
    posterior: Any
    leaf_rows: Any
    moments: Any
    bulk: Any
    conjugate: Conjugate | None = None
    in_units: Any = None
    box_rows: Any = None
    whole_moments: Any = None
    moments_within: Any = None
    about_within: Any = None
    draw_within: Any = None
    has_masses: bool = False
    lowest: float = -np.inf
    highest: Any = None


def finite(x: np.ndarray) -> np.ndarray:
    """Which values are numbers."""
    return np.isfinite(x)


def positive(x: np.ndarray) -> np.ndarray:
    """Which values are positive numbers."""
    return np.isfinite(x) & (x > 0)


def counts(x: np.ndarray) -> np.ndarray:
    """Which values are counts."""
    return is_count(x)


def mean_alone(own: np.ndarray, moments: np.ndarray, rows: float, mean: np.ndarray, variance: np.ndarray) -> Any:
    """`Fit.best` of leaves that are known by their mean."""
    n, total, _ = moments
    n = np.where(n + rows > 0.0, n + rows, 1.0)
    return (total + rows * mean) / n, variance


def sum_alone(x: np.ndarray, own: np.ndarray) -> tuple[float, float, float]:
    """`Fit.statistics` of leaves that are known by their mean."""
    return x.size, x.sum(), 0.0


def located_link(tensors: Any, outputs: Any, typical: Any) -> tuple[Any, ...]:
    """`Symbols.link` of a location and a scale."""
    return typical.centre + typical.spread * outputs[0], typical.spread * tensors.exp(outputs[1])


def near_mean(leaves: Any) -> Any:
    """`Fit.near` of leaves with a mean: half way between the column's and the cell."""

    def near(cell: np.ndarray, usable: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return leaves(np.where(usable, 0.5 * (mean + cell), mean), variance)

    return near


def mean_and_variance(u: np.ndarray, kept: float) -> tuple[Any, Any]:
    """`Fit.averages` of most families."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is refused by the caller
        return u.mean(), u.var() if np.ptp(u) > 0.0 else 0.0  # rounding would make a scale
