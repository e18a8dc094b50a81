"""Pieces of a family for single parts of the package, and those that several families share."""

from typing import Any, NamedTuple

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
    """A family of the sampler with its parameters integrated out.

    Parameters
    ----------
    entry : class
        The palette entry.
    leaves : UnivariateFamily
        Of these leaves, which circuits may hold, too.
    leaf_rows : callable (posteriors)
        Their parameters (n, p) from rows (n, 4) of `leaf_predictives.Leaves`.
    draw_parameters : callable (posteriors, generator)
        Parameters (n, p) of leaves of the entry's own family, one for each posterior.
    conjugate : Conjugate, optional
        Pieces for the kernels of samplers; rounded leaves are Gaussian ones there.
    in_units : callable (posteriors, centre, scale), optional
        Such rows in the units of the data from those of the sampler's values, which are coded as (x - centre) / scale.
    """

    entry: Any
    leaves: Any
    leaf_rows: Any
    draw_parameters: Any
    conjugate: Conjugate | None = None
    in_units: Any = None

    @property
    def has_masses(self) -> bool:
        """Whether values have masses."""
        return not self.leaves.is_density

    @property
    def lowest(self) -> float:
        """End of the support that holds for all leaves."""
        return float(self.leaves.lowest)
