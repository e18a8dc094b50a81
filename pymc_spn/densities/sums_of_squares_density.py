"""`SumOfSquaresDensity`: a sum of squares of circuits, with random parameters, as a variable of a PyMC model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import convert_dims
from pymc.logprob.abstract import _logprob
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Variable
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.algebra.sums_of_squares import check_components, checked_coefficients, known_columns
from pymc_spn.circuits.evaluation.signed_draws import draw_row_of_squares
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.parameterised import operand
from pymc_spn.densities.circuit_density import _observed_rows, _value
from pymc_spn.densities.symbolic_squares import SymbolicSquares
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.model_inputs import NumbersOrVariable
from pymc_spn.tables.dimensions import own_dims, refuse_columns_in_another_order
from pymc_spn.tables.inputs import Dims, TableLike


class SumOfSquaresRV(RandomVariable):
    """Rows of a sum of squares, given coefficients, circuits and, for draws alone, the products of their pairs.

    Inputs: coefficients (j, k), layouts of the circuits (c) and their parameters (p), weights of the products (m),
    their layouts (s) and their parameters (q), as `draw_row_of_squares` takes them. ``form`` describes them.
    """

    name, dtype = "sum_of_squares", "float64"
    signature = "(j,k),(c),(p),(m),(s),(q)->(d)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "form")
    _print_name = ("SumOfSquaresDensity", "\\operatorname{SumOfSquaresDensity}")

    def __init__(self, form=None, **kwargs):
        self.form = form
        super().__init__(**kwargs)

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return (pt.constant(self.form.n_columns, dtype="int64"),)

    @classmethod
    def rng_fn(cls, rng, *inputs_and_size):
        *inputs, size = inputs_and_size
        core = [2] + 5 * [1]
        batch = np.broadcast_shapes(*(a.shape[: a.ndim - n] for a, n in zip(inputs, core, strict=True)))
        size = batch if size is None else tuple(size)
        wide = [np.broadcast_to(a, (*size, *a.shape[a.ndim - n :])) for a, n in zip(inputs, core, strict=True)]
        out = [draw_row_of_squares(rng, *(np.ascontiguousarray(a[i]) for a in wide)) for i in np.ndindex(*size)]
        return np.array(out).reshape(*size, -1)


@numba_core_rv_funcify.register(SumOfSquaresRV)
def _(op, node):
    @numba_njit
    def row_of_squares(rng, coefficients, circuits, theta, signed, products, theta_of_products):
        return draw_row_of_squares(
            rng,
            np.ascontiguousarray(coefficients),
            np.ascontiguousarray(circuits),
            np.ascontiguousarray(theta),
            np.ascontiguousarray(signed),
            np.ascontiguousarray(products),
            np.ascontiguousarray(theta_of_products),
        )

    return row_of_squares, source_version()


@_logprob.register(SumOfSquaresRV)
def _(op, values, *inputs, **kwargs):
    (value,) = values
    coefficients, theta = (x.squeeze(axis=tuple(range(x.type.ndim - n))) for x, n in ((inputs[-6], 2), (inputs[-4], 1)))
    rows = value.reshape((-1, value.shape[-1]))
    return op.form.log_density(rows, coefficients, theta).reshape(value.shape[:-1])


def SumOfSquaresDensity(
    name: str,
    components: Sequence[tuple[Circuit, NumbersOrVariable, Mapping[str, NumbersOrVariable]]],
    coefficients: NumbersOrVariable,
    observed: TableLike,
    *,
    dims: Dims | None = None,
) -> TensorVariable:
    """A sum of squares of circuits, with given or random parameters, as the distribution of rows.

    With circuits p_1, .., p_K the density is proportional to the sum over j of (c_j1 p_1(x) + .. + c_jK p_K(x))^2, with
    coefficients of either sign. See `SumOfSquares`, which takes the same arguments as numbers. The log density and its
    normaliser are exact and differentiable in coefficients, log weights and leaf parameters, so that NUTS samples them
    and ``pm.find_MAP`` finds a mode.

    The density does not change with the scale of the coefficients, the sign of a row and the order of rows; a prior
    settles the scale alone. Give coefficients an ``initval`` that is not 0: there nothing is left, and the log density
    is ``-inf``.

    Parameters
    ----------
    name : str
    components : sequence of (circuit, log_weights, leaf_parameters)
        Of each circuit its parameters as `CircuitDensity` takes them, arrays or tensors; or an object that has them,
        such as a `CircuitFit`. The columns are the same in the same order. In each column leaves are of one family
        among Gaussian, log-normal, exponential, gamma, beta, geometric, Bernoulli and categorical, and each pair of
        circuits divides columns alike (see `log_inner_product`).
    coefficients : (n_squares, n_components) or (n_components,) array or tensor
        One row for each square.
    observed : DataFrame of pandas, polars or pyarrow, Table or (N, D) array
        NaN is missing and summed out, through the products of pairs of circuits: where terms of opposite signs cancel
        in them, their rounding counts.
    dims : str or tuple of str, optional
        Of the variable; by default ``(name_row, name_column)``.

    Returns
    -------
    TensorVariable
        (N, D) float64, levels in codes. Its log density has one term for each row, in nats. It is ``-inf`` if
        parameters are out of their bounds, coefficients cancel each other everywhere except for rounding (see
        `SumOfSquares`), or the square of a gamma density has no integral.

    Raises
    ------
    ValueError, TypeError
        For parameters or coefficients of wrong shape or value, and rows that do not fit the columns. For circuits that
        differ in columns, divide them crosswise, or have leaves of other families or of several in one column. For a
        coordinate of `dims` that has the columns in another order than the circuits.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> with pm.Model():
    ...     minus = pm.HalfNormal("minus")
    ...     x = ps.circuits.SumOfSquaresDensity("x", [low, high], pt.stack([1.0, -minus]), observed=rows)

    References
    ----------
    Loconte, Sladek, Mengel, Trapp, Solin, Gillis and Vergari (2024), Subtractive mixture models via squaring:
    representation and learning, ICLR. Loconte, Mengel and Vergari (2025), Sum of squares circuits, AAAI.
    """
    model = pm.modelcontext(None)
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {quoted(name)}")
    if isinstance(components, str) or not isinstance(components, Sequence):
        raise TypeError(f"components must be a sequence of circuits with parameters, got {quoted(components)}")
    if isinstance(_value(observed), Variable) or observed is None:
        raise TypeError(f"observed must be a DataFrame, a Table or an array of rows, got {quoted(observed)}")
    operands = [operand(f"components[{k}]", given) for k, given in enumerate(components)]
    circuits = [circuit for circuit, _, _ in operands]
    check_components(circuits)
    known = next(c for c in circuits if c.columns == known_columns(circuits))  # strings need the codes of their levels
    values, index = _observed_rows(known, observed)
    form, theta = SymbolicSquares.of(operands, bool(np.isnan(values.get_value()).any()))
    weights = _coefficients(coefficients, len(operands))
    op = SumOfSquaresRV(form=form)
    rng = pt.random.shared_rng(seed=None)
    inputs = form.inputs(weights, theta)
    _, rv = op(*inputs, size=(values.shape[0],), rng=rng, return_next_rng=True)
    dims = convert_dims(dims)
    refuse_columns_in_another_order(dims, model.coords, known.names)
    dims = dims or own_dims(model, model.name_for(name), known.names, values.shape[0], index)
    return model.register_rv(rv, name, observed=values, dims=dims)


def _coefficients(given: Any, n_components: int) -> Any:
    """Coefficients (squares, components) as a tensor, the largest of size 1; numbers are checked now."""
    given = _value(given)
    if not isinstance(given, Variable):
        rows = given if isinstance(given, list | tuple) else []
        if any(isinstance(x, Variable) for row in rows for x in (row if isinstance(row, list | tuple) else [row])):
            raise TypeError(
                f"coefficients must be one array or one tensor, see pytensor.tensor.stack, got {quoted(given)}"
            )
        numbers = checked_coefficients(given, n_components)
        return pt.as_tensor_variable(numbers / np.abs(numbers).max())
    tensor: Any = pt.as_tensor_variable(given)
    shape = given.get_value(borrow=True).shape if isinstance(given, SharedVariable) else tensor.type.shape
    if len(shape) not in (1, 2) or shape[-1] not in (None, n_components) or shape[0] == 0:
        raise ValueError(f"coefficients must have shape ({n_components},) or (squares, {n_components}), got {shape}")
    if not tensor.type.dtype.startswith(("float", "int", "uint")):
        raise TypeError(f"coefficients must be a tensor of real numbers, got {tensor.type.dtype}")
    tensor = (tensor[None] if tensor.type.ndim == 1 else tensor).astype("float64")
    tensor = pt.specify_shape(tensor, (None, n_components))  # what is not known yet, and data that change
    largest = disconnected_grad(pt.abs(tensor).max())  # the density does not change with the scale
    return tensor / pt.switch(largest > 0.0, largest, 1.0)
