"""Leaves as the evaluation sees them: values as `kernel_forms` reads them, and functions with a branch for each family.

The branches stand in the files of the families. A family without kernels is read as what NumPy works out, its logs.
"""

import math

import numpy as np

from pymc_spn.leaves.explicit_leaves import KERNELS
from pymc_spn.leaves.family_codes import NAMES, TABULATED
from pymc_spn.leaves.kernel_forms import (
    FACTORIAL,
    IMPOSSIBLE,
    LINEAR,
    LOGARITHM,
    NOT_NEGATIVE,
    REAL,
)
from pymc_spn.leaves.leaf_dispatch import by_family
from pymc_spn.numerics.kernel_options import inner_kernel

FORM, READING = np.full(len(NAMES), LINEAR), np.full(len(NAMES), REAL)  # by family
for _code, _kernels in KERNELS.items():
    FORM[_code], READING[_code] = _kernels.form, _kernels.reading


@inner_kernel
def read_values(values, first, input_column, input_reading, u, base, present):
    """Inputs of a block of rows.

    Parameters
    ----------
    values : (N, D) float64
        NaN where missing.
    first : int
        Row of the table that is the first of the block; rows beyond the table read as missing.
    input_column, input_reading : (I,) int64
    u, base, present : (I, B) float64
        Out. `present` is 0 where the cell is missing, and u and base are then 0.
    """
    n = min(values.shape[0] - first, u.shape[1])
    for k in range(input_column.size):
        d = input_column[k]
        reading = input_reading[k]
        for i in range(n, u.shape[1]):
            u[k, i] = 0.0
            base[k, i] = 0.0
            present[k, i] = 0.0
        for i in range(n):
            x = values[first + i, d]
            seen = 0.0 if math.isnan(x) else 1.0
            x = x if seen == 1.0 else 0.0
            y, b = x, 0.0
            if (reading != REAL or abs(x) == math.inf) and seen == 1.0:
                y, b = read_value(x, reading)
            u[k, i] = y
            base[k, i] = b
            present[k, i] = seen


@inner_kernel
def read_value(x, reading):
    """(u, base) of one value; an impossible one gets a harmless u."""
    if reading == REAL:
        return (x, 0.0) if abs(x) < math.inf else (0.0, IMPOSSIBLE)
    if reading == NOT_NEGATIVE:
        return (x, 0.0) if x >= 0.0 else (0.0, IMPOSSIBLE)
    if reading == LOGARITHM:
        if x > 0.0 and x < math.inf:
            y = math.log(x)
            return y, -y
        return 0.0, IMPOSSIBLE
    if x < 0.0 or x != np.floor(x) or x == math.inf:
        return 0.0, IMPOSSIBLE
    if reading == FACTORIAL:
        return x, -math.lgamma(x + 1.0)
    return x, 0.0


def _coefficients_of_logs(theta, width, out):
    out[1] = 1.0


def _without_slope(theta, u, x):
    return 0.0


def _slope_of_logs(theta, u, x):
    return 1.0


def _without_gradient(theta, width, u, x, flow, out):
    return


def _piece(name):
    """A piece of every family that has it, by code."""
    return [(code, getattr(kernels, name)) for code, kernels in KERNELS.items() if getattr(kernels, name) is not None]


# coefficients (lead, a, b, c) of one leaf from its parameters, in `out`
leaf_coefficients = by_family(
    "leaf_coefficients", "family", [*_piece("coefficients"), (TABULATED, _coefficients_of_logs)], inner_kernel, __file__
)
# form of one leaf at one input
form_at = by_family(
    "form_at",
    "form",
    sorted({kernels.form: kernels.value for kernels in KERNELS.values()}.items()),
    inner_kernel,
    __file__,
)
# flow times the derivative of a leaf's log density in its parameters, added to `out`
add_parameter_gradient = by_family(
    "add_parameter_gradient", "family", _piece("add_gradient"), inner_kernel, __file__, otherwise=_without_gradient
)
# derivative of a leaf's log density in what it reads; 0 for masses
value_derivative = by_family(
    "value_derivative",
    "family",
    [*_piece("value_slope"), (TABULATED, _slope_of_logs)],
    inner_kernel,
    __file__,
    otherwise=_without_slope,
)
