"""Pieces of a family for single parts of the package, and those that several families share."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.conjugate_pieces import Conjugate

LARGEST_SIZE = 1.7976931348623157e308  # of leaves whose draws may round to infinity
NARROW = 0.25  # standard deviations below which an interval is integrated rather than taken as a difference


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
