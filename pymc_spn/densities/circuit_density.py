"""`CircuitDensity`: a circuit with explicit parameters as a variable of a PyMC model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.distributions.shape_utils import convert_dims, rv_size_is_none
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.evaluation.elliptical_parts import draw_wide_row, elliptical_families, with_parts
from pymc_spn.circuits.evaluation.packed_layout import draw_row, pack
from pymc_spn.circuits.evaluation.parameters import (
    check_names,
    checked_family,
    checked_weights,
    refuse_distributions,
)
from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.coded_rows import coded_rows
from pymc_spn.densities.circuit_ops import rows_of_circuit
from pymc_spn.densities.free_rows import LogColumns, positive_columns, refuse_masses, typical_row
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.model_inputs import NumbersOrVariable
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.tables.dimensions import own_dimension, own_dims, refuse_columns_in_another_order
from pymc_spn.tables.inputs import Dims, TableLike


class CircuitDensityRV(RandomVariable):
    """Rows of a circuit given its packed layout, log weights and leaf parameters; ``circuit`` describes it."""

    name, dtype = "circuit_density", "float64"
    signature = "(s),(e),(p)->(d)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "circuit")
    _print_name = ("CircuitDensity", "\\operatorname{CircuitDensity}")

    def __init__(self, circuit=None, **kwargs):
        self.circuit = circuit
        super().__init__(**kwargs)

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return (pt.constant(len(self.circuit.columns), dtype="int64"),)

    @property
    def draw(self):
        return draw_wide_row if self.circuit.further_columns else draw_row

    def rng_fn(self, rng, packed, log_weights, theta, size):
        batch = np.broadcast_shapes(packed.shape[:-1], log_weights.shape[:-1], theta.shape[:-1])
        size = batch if size is None else tuple(size)
        out = np.empty((*size, int(packed.flat[0])))
        inputs = [np.broadcast_to(a, (*size, a.shape[-1])) for a in (packed, log_weights, theta)]
        for i in np.ndindex(*size):
            out[i] = self.draw(rng, *(a[i] for a in inputs))
        return out


@numba_core_rv_funcify.register(CircuitDensityRV)
def _(op, node):
    draw = op.draw

    @numba_njit
    def circuit_row(rng, packed, log_weights, theta):
        return draw(rng, packed, log_weights, theta)

    return circuit_row, 2 * source_version() + bool(op.circuit.further_columns)


class _CircuitDensityDistribution(Distribution):
    """Registers where `CircuitDensityRV` starts; variables are made by `CircuitDensity`."""

    rv_type = CircuitDensityRV

    def support_point(rv, size, packed, log_weights, theta):
        point = typical_row(rv.owner.op.circuit, _without_batch(theta))
        return point if rv_size_is_none(size) else pt.broadcast_to(point, (*size, point.shape[-1]))


@_logprob.register(CircuitDensityRV)
def _(op, values, rng, size, packed, log_weights, theta, **kwargs):
    (value,) = values
    rows = value.reshape((-1, value.shape[-1]))
    logs = rows_of_circuit(op.circuit)(_without_batch(packed), rows, _without_batch(log_weights), _without_batch(theta))
    return logs.reshape(value.shape[:-1])


def _without_batch(parameter):
    """An input of a variable without its batch dimensions of 1."""
    return parameter.squeeze(axis=tuple(range(parameter.type.ndim - 1)))


def CircuitDensity(
    name: str,
    circuit: Circuit,
    log_weights: NumbersOrVariable,
    leaf_parameters: Mapping[str, NumbersOrVariable],
    observed: TableLike | TensorVariable | None = None,
    *,
    total_size: int | None = None,
    dims: Dims | None = None,
    shape: tuple[int, ...] | None = None,
) -> TensorVariable:
    """Distribution of rows under a circuit with given or random parameters.

    With ``observed`` each row is an independent draw and missing cells are summed out. Without, the variable is one
    row (or ``shape`` of them) and the circuit is its prior. The log density is differentiable in log weights, leaf
    parameters and, without ``observed``, in the row itself, so NUTS samples all of them. Leaves may be over several
    columns (Gaussian or Student t); gaps in them are integrated out. With rows from ``pm.Minibatch`` and their
    total number as ``total_size``, ``pm.fit`` follows stochastic gradients.

    Parameters
    ----------
    name : str
    circuit : Circuit
    log_weights : (n_sum_edges,) array or tensor
        Normalised within each sum; see `dirichlet_log_weights` for a prior.
    leaf_parameters : dict of str to (n_leaves_of_family, p) array or tensor
        See `Circuit` for the parameters of each family. Numbers are checked at once. If a tensor takes values outside
        its bounds, or weights do not add up to 1, the log density is ``-inf``.
    observed : DataFrame of pandas, polars or pyarrow, Table, (N, D) array or tensor, optional
        NaN is missing. A tensor (``pm.Data``, ``pm.Minibatch``, a shared variable) holds levels as codes, as
        `Table.values` does; its rows are not checked, and a value that a column cannot take has density zero.
    total_size : int, optional
        Number of rows of the whole table if `observed` is a random batch of it. The log density of the batch then
        counts for that many rows.
    dims : str or tuple of str, optional
        Dimensions of the variable. By default those of a ``pm.Data`` that has them. Otherwise an observed variable has
        ``(name_row, name_column)``, with the row labels of the data, and any other ``(..., name_column)``.
    shape : tuple of int, optional
        Shape of a variable that is not observed, ending in D.

    Returns
    -------
    TensorVariable
        (N, D) where it is observed, else (D,) or `shape`, float64, levels in codes. Its log density has one term for
        each row, in nats.

    Raises
    ------
    ValueError, TypeError
        If parameters have a wrong shape or value. If rows do not fit the columns, or a variable that is not observed
        has a column without a density. If `shape` is given together with `observed`, or does not end in D. If
        `total_size` is given without `observed`, or is not a whole number of at least 1. If a coordinate of `dims` has
        the columns in another order than the circuit.

    Examples
    --------
    >>> with pm.Model():
    ...     log_weights = ps.circuits.dirichlet_log_weights(law.circuit)
    ...     x = ps.CircuitDensity("x", law.circuit, log_weights, law.leaf_parameters, observed=rows)
    >>> x.ndim
    2

    References
    ----------
    Poon, H. and Domingos, P. (2011). Sum-product networks: a new deep architecture. UAI: value and derivatives by one
    pass up and one down. Darwiche, A. (2003). A differential approach to inference in Bayesian networks. JACM 50.
    """
    model = pm.modelcontext(None)
    dims = convert_dims(dims)  # PyMC's register_rv reads a string by its letters
    _check_circuit(circuit)
    n_columns = len(circuit.columns)
    if shape is not None and observed is not None:
        raise ValueError("shape must not be given where observed is: the data have it")
    if observed is not None:
        values, index = _observed_rows(circuit, observed)
    elif shape is not None:
        shape = tuple(np.atleast_1d(shape).tolist())
        if not shape or shape[-1] != n_columns:
            raise ValueError(f"shape must end in the number of columns, {n_columns}, got {shape}")
    packed, weights, theta = _packed_inputs(circuit, log_weights, leaf_parameters)
    size: Any = None
    if observed is not None:
        size = (values.shape[0],)
    else:
        refuse_masses(circuit)
        shape = (n_columns,) if shape is None else shape
        size = shape[:-1] or None
    _check_total_size(total_size, observed)
    rng = pt.random.shared_rng(seed=None)
    _, rv = CircuitDensityRV(circuit=circuit)(packed, weights, theta, size=size, rng=rng, return_next_rng=True)
    if observed is not None:
        dims = dims or model.named_vars_to_dims.get(values.name)
    refuse_columns_in_another_order(dims, model.coords, circuit.names)
    if observed is not None:
        dims = dims or own_dims(model, model.name_for(name), circuit.names, values.shape[0], index)
        return model.register_rv(rv, name, observed=values, total_size=total_size, dims=dims)
    if dims is None and shape is not None:
        full = model.name_for(name)
        lead = [own_dimension(model, f"{full}_dim_{k}", None, n) for k, n in enumerate(shape[:-1])]
        dims = *lead, own_dimension(model, f"{full}_column", circuit.names)
    positive = positive_columns(circuit)
    transform: Any = {"default_transform": LogColumns(positive)} if positive.size else {}
    return model.register_rv(rv, name, dims=dims, **transform)


def _observed_rows(circuit: Circuit, observed: Any) -> tuple[Any, Any]:
    """Rows as a tensor (N, D), and their labels, None where they may change."""
    observed = _value(observed)
    if not isinstance(observed, Variable):
        values, index = coded_rows(circuit, observed)
        return pytensor.shared(values, shape=values.shape), index  # a constant would lose its NaN to imputation
    shape = observed.type.shape
    if len(shape) != 2 or shape[1] not in (None, len(circuit.columns)):
        raise ValueError(f"observed must have shape (rows, {len(circuit.columns)}), got {shape}")
    return observed, None


def _check_total_size(total_size: Any, observed: Any) -> None:
    if total_size is None:
        return
    if observed is None:
        raise ValueError("total_size must be given only where observed is: it is the number of rows of the whole table")
    if not isinstance(total_size, int | np.integer) or isinstance(total_size, bool) or total_size < 1:
        raise ValueError(f"total_size must be a whole number of at least 1, got {quoted(total_size)}")


def dirichlet_log_weights(
    circuit: Circuit, alpha: float | npt.NDArray[np.floating] = 1.0, name: str = "weights"
) -> TensorVariable:
    """Return log weights with a Dirichlet prior at every sum of a circuit.

    Parameters
    ----------
    circuit : Circuit
    alpha : float or (n_sum_edges,) array
        Dirichlet parameter of each edge.
    name : str
        Name of the `pm.Dirichlet` that is added to the model. If sums differ in their number of children, there is one
        for each number: ``name_2``, ``name_3`` and so on. Its dimensions are ``name_sum``, the numbers of the sums
        among the nodes, and ``name_child``.

    Returns
    -------
    TensorVariable
        (n_sum_edges,) log weights in the order of `edge_sum`.

    Raises
    ------
    ValueError
        If `alpha` has another shape, or is not positive and finite.

    Examples
    --------
    >>> with pm.Model():
    ...     log_weights = ps.circuits.dirichlet_log_weights(law.circuit, 1.0)
    ...     x = ps.CircuitDensity("x", law.circuit, log_weights, law.leaf_parameters, observed=rows)
    """
    model = pm.modelcontext(None)
    alpha = np.asarray(alpha, np.float64)
    if alpha.shape not in ((), (circuit.n_sum_edges,)):
        raise ValueError(f"alpha must be one number or have shape ({circuit.n_sum_edges},), got {alpha.shape}")
    if not np.all((alpha > 0) & np.isfinite(alpha)):
        raise ValueError(f"alpha must be positive and finite, got {alpha[~((alpha > 0) & np.isfinite(alpha))].flat[0]}")
    alpha = np.broadcast_to(alpha, (circuit.n_sum_edges,))
    degree = np.bincount(circuit.edge_sum, minlength=circuit.n_nodes)[circuit.edge_sum]
    log_weights = pt.zeros(circuit.n_sum_edges)
    sizes = [int(k) for k in np.unique(degree) if k > 1]
    for k in sizes:
        edges = np.flatnonzero(degree == k).reshape(-1, k)
        own = name if len(sizes) == 1 else f"{name}_{k}"
        sums = own_dimension(model, f"{model.name_for(own)}_sum", circuit.edge_sum[edges[:, 0]].tolist())
        child = own_dimension(model, f"{model.name_for(own)}_child", None, k)
        weights = pm.Dirichlet(own, alpha[edges], shape=edges.shape, dims=(sums, child))
        log_weights = pt.set_subtensor(log_weights[edges], pt.log(weights))
    return log_weights


def _packed_inputs(circuit: Circuit, log_weights: Any, leaf_parameters: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Packed layout, log weights and flat leaf parameters; numbers are checked now, tensors by the kernel."""
    given = {name: _value(leaf_parameters[name]) for name in check_names(circuit, leaf_parameters)}
    for name, v in given.items():
        if isinstance(v, Variable):
            _check_tensor(circuit, name, v)
        else:
            given[name] = pt.as_tensor_variable(checked_family(circuit, name, _numbers(v)))
    width = np.array([given[f].type.shape[-1] if f in given else 0 for f in circuit.families], np.int64)
    leaves = np.array([circuit.leaves_of(f).size if f in given else 0 for f in circuit.families])
    begin = np.cumsum(leaves * width) - leaves * width
    weights = _value(log_weights)
    if isinstance(weights, Variable):
        n, shape = circuit.n_sum_edges, weights.type.shape
        if len(shape) != 1 or shape[0] not in (None, n):
            raise ValueError(f"log_weights must have shape ({n},), got {shape}")
    else:
        weights = pt.as_tensor_variable(checked_weights(circuit, _numbers(weights)))
    theta = pt.concatenate([given[f].ravel() for f in circuit.families if f in given]).astype("float64")
    layout = pack(layout_of(circuit)[0], len(circuit.columns), begin, width)
    packed = pt.as_tensor_variable(with_parts(layout, circuit, begin, width))
    return packed, weights, theta


def _check_circuit(circuit: Any) -> None:
    """Refuse leaves without a formula; Gaussian and Student t leaves over several columns have one."""
    if not isinstance(circuit, Circuit):
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}")
    refuse_distributions(circuit, "the circuit of a CircuitDensity", allowed=elliptical_families(circuit))


def _numbers(x: Any) -> Any:
    """The array of a frame, which would be read by its columns."""
    return x.to_numpy() if hasattr(x, "to_numpy") else x


def _value(x: Any) -> Any:
    """The number behind a constant, or the tensor."""
    return x.data if isinstance(x, Constant) else x


def _check_tensor(circuit: Circuit, name: str, v: Any) -> None:
    n, shape = circuit.leaves_of(name).size, v.type.shape
    n_parameters: Any = LEAF_FAMILIES[name].n_parameters  # type: ignore[attr-defined]
    width = n_parameters or (shape[-1] if shape else None)
    if len(shape) != 2 or shape[0] not in (None, n) or shape[1] is None or shape[1] != width:
        raise ValueError(
            f"leaf_parameters[{name!r}] must have shape ({n}, {n_parameters or 'number of levels'}), "
            f"known when the model is built; got {shape}"
        )
