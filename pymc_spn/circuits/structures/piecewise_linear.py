"""`piecewise_linear`: a density of one column that is linear between knots, as a mixture of triangular leaves."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pymc_spn.circuits.evaluation.parameters import WEIGHT_TOLERANCE
from pymc_spn.circuits.structures.circuit import LEAF, SUM, Circuit
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column


def piecewise_linear(
    knots: npt.ArrayLike, densities: npt.ArrayLike, *, column: str | Column = "x", normalise: bool = False
) -> ParameterisedCircuit:
    """Density with given values at knots, linear between these and 0 outside, as a circuit over one column.

    Exactly a sum of triangular leaves, one for each knot k_i where the density f_i is positive. A leaf goes from the
    knot before to the knot after, with its mode at the knot, so that all others are 0 there. Its weight is
    f_i (k_{i+1} - k_{i-1}) / 2; the first and the last leaf have one side each. All questions to circuits take it, and
    all algorithms that take given leaves.

    Parameters
    ----------
    knots : (n,) float
        In the units of the column, at least two, each above the one before.
    densities : (n,) float
        Per unit of the column, not negative. The density jumps where the first or the last is not 0.
    column : str or Column
        The circuit's only one.
    normalise : bool
        Divide the densities by their integral. Without, it must be 1, to within the 1e-6 that weights of a sum may be
        off.

    Returns
    -------
    ParameterisedCircuit
        With `circuit`, a sum over the leaves, `log_weights` and `leaf_parameters`. In a larger circuit the rows of
        ``leaf_parameters["triangular"]`` serve several sums: `fit_em` keeps them and finds each sum's weights, which
        fits piecewise linear densities on these knots.

    Raises
    ------
    TypeError
        If knots or densities are not numbers.
    ValueError
        If they differ in length, are fewer than two, or not finite. If knots do not increase, densities are negative or
        all 0, or their integral is not 1 (it is named).

    Examples
    --------
    >>> ramp = ps.circuits.piecewise_linear([0.0, 1.0], [0.0, 2.0])
    >>> ramp.probability({"x": (None, 0.5)}).item()
    0.25
    """
    k, f = _numbers("knots", knots), _numbers("densities", densities)
    if k.size < 2:
        raise ValueError(f"knots must hold at least two numbers, got {k.size}")
    if f.size != k.size:
        raise ValueError(f"densities must have one number for each of the {k.size} knots, got {f.size}")
    if np.any(k[1:] <= k[:-1]):
        i = int(np.argmax(k[1:] <= k[:-1])) + 1
        raise ValueError(f"knots must increase strictly, got {k[i]:g} at place {i}, after {k[i - 1]:g}")
    if np.any(f < 0.0):
        i = int(np.argmax(f < 0.0))
        raise ValueError(f"densities must not be negative, got {f[i]:g} at place {i}, knot {k[i]:g}")
    if not f.any():
        raise ValueError("densities must not all be 0")
    lower, upper = np.append(k[0], k[:-1]), np.append(k[1:], k[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.where(f > 0.0, 0.5 * f * (upper - lower), 0.0)
        integral = float(mass.sum())
    if not 0.0 < integral < np.inf:
        raise ValueError(f"densities must have a positive finite integral, got {integral:g}")
    if not normalise and abs(integral - 1.0) > WEIGHT_TOLERANCE:
        raise ValueError(
            f"densities must integrate to 1 between the knots, got {integral:.8g}; normalise=True divides by it"
        )
    some = mass > 0.0
    n = int(np.count_nonzero(some))
    circuit = Circuit(
        kind=np.array([SUM, *[LEAF] * n], np.int8),
        child_ptr=np.array([0, *[n] * (n + 1)]),
        children=np.arange(1, n + 1),
        leaf_column=np.array([-1, *[0] * n]),
        leaf_family=np.array([-1, *[0] * n]),
        families=("triangular",),
        columns=(column,),
    )
    log_weights = np.log(mass[some]) - (np.log(integral) if normalise else 0.0)
    return ParameterisedCircuit(circuit, log_weights, {"triangular": np.column_stack([lower, k, upper])[some]})


def _numbers(name: str, given: Any) -> np.ndarray:
    """A list of finite numbers as (n,) float64."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a list of numbers, got {quoted(given)}") from error
    if found.ndim != 1:
        raise ValueError(f"{name} must be a list of numbers, got an array of shape {found.shape}")
    if not np.all(np.isfinite(found)):
        i = int(np.argmax(~np.isfinite(found)))
        raise ValueError(f"{name} must be finite, got {found[i]} at place {i}")
    return found
