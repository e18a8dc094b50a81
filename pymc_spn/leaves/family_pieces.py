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
    whole_moments: Any = None
    moments_within: Any = None
    about_within: Any = None
    draw_within: Any = None
    has_masses: bool = False
    lowest: float = -np.inf
    highest: Any = None
