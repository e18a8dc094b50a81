"""`CircuitDensity`: a circuit with explicit parameters as a variable of a PyMC model."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.distributions.shape_utils import convert_dims, rv_size_is_none
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.elliptical_parts import draw_wide_row, elliptical_families, with_parts
from pymc_spn.circuits.evaluation.packed_layout import draw_row, pack
from pymc_spn.circuits.evaluation.parameters import (
    check_names,
    checked_family,
    checked_weights,
    refuse_distributions,
)
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.coded_rows import coded_rows
from pymc_spn.densities.circuit_ops import rows_of_circuit
from pymc_spn.densities.conditional_circuits import ConditionalCircuitRV, GivenCells, common_labels, given_cells
from pymc_spn.densities.free_rows import RealColumns, bounded_columns, refuse_masses, typical_row
from pymc_spn.densities.parameters_of_rows import (
    check_n_rows,
    checked_numbers,
    flat_leaf_parameters,
    of_rows_or_all,
    without_batch,
)
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.model_inputs import NumbersOrVariable
from pymc_spn.tables import Table
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
        own = pt.vector("theta", shape=theta.type.shape[-1:])
        point = vectorize_graph(typical_row(rv.owner.op.circuit, own), {own: theta})
        return point if rv_size_is_none(size) else pt.broadcast_to(point, (*size, point.shape[-1]))


@_logprob.register(CircuitDensityRV)
def _(op, values, rng, size, packed, log_weights, theta, **kwargs):
    (value,) = values
    core = of_rows_or_all(log_weights), of_rows_or_all(theta)
    logs = rows_of_circuit(op.circuit)(without_batch(packed), value.reshape((-1, value.shape[-1])), *core)
    return logs.reshape(value.shape[:-1])


def CircuitDensity(
    name: str,
    circuit: Circuit,
    log_weights: NumbersOrVariable,
    leaf_parameters: Mapping[str, NumbersOrVariable],
    observed: TableLike | TensorVariable | None = None,
    *,
    given: TableLike | None = None,
    total_size: int | None = None,
    dims: Dims | None = None,
    shape: tuple[int, ...] | None = None,
) -> TensorVariable:
    """A circuit with given or random parameters as the distribution of rows.

    With ``observed`` each row is an independent draw and missing cells are summed out; without, the variable is one
    row (or ``shape`` of them) and the circuit is its prior. The log density is differentiable in log weights, leaf
    parameters and, without ``observed``, in the row itself, so NUTS samples all of them. Leaves may be over several
    columns (Gaussian or Student t); gaps in them are integrated out. With rows drawn by ``pm.Minibatch`` and their
    number in all as ``total_size``, ``pm.fit`` follows stochastic gradients.

    Weights, and parameters of each family, may be each row's own: functions of its covariates, linear ones or networks
    written in PyTensor. The circuit is then the conditional density of a row given these. Such a parameter has a
    dimension of rows in front; what has none is shared by all rows.

    With ``given``, cells of some columns, the variable is the other columns, the targets, given these. Its log density
    is that of the whole row less that of the given cells. Parameters are then learned for predictions of the targets
    (discriminative learning); the distribution of the given columns is left open.

    Parameters
    ----------
    name : str
    circuit : Circuit
    log_weights : (n_sum_edges,) or (N, n_sum_edges) array or tensor
        Normalised within each sum; see `dirichlet_log_weights` for a prior.
    leaf_parameters : dict of str to (n_leaves_of_family, p) or (N, n_leaves_of_family, p) array or tensor
        See `ParameterisedCircuit` for the parameters of each family. Numbers are checked at once. If a tensor takes
        values outside its bounds, or weights do not add up to 1, the log density is ``-inf``. That is so for all rows,
        or for one row alone if the parameters are its own.
    observed : DataFrame of pandas, polars or pyarrow, Table, (N, D) array or tensor, optional
        NaN is missing. A tensor (``pm.Data``, ``pm.Minibatch``, a shared variable) holds levels as codes, as
        `Table.values` does; its rows are not checked, and a value that a column cannot take has density zero. With
        `given` these are the targets alone, in the circuit's order, and a row without any has log density 0.
    given : DataFrame of pandas, polars or pyarrow, Table or dict, optional
        Cells of some columns of the circuit, whose rows are those of the variable. A dict has a column's name and its
        cells (N,), or a tuple of names and their cells (N, n). Cells are arrays or tensors, which hold levels as codes.
        So ``pm.set_data`` exchanges what ``pm.Data`` has, and ``pm.Minibatch`` draws them with the rows observed. NaN
        is missing and summed out.
    total_size : int, optional
        Number of rows of the whole table where `observed` is a random batch of it; the log density of the batch
        counts for that many rows.
    dims : str or tuple of str, optional
        Of the variable; by default those of a ``pm.Data`` that has them, else ``(name_row, name_column)`` where it
        is observed or has `given`, and ``(..., name_column)`` elsewhere. Rows are numbered where their parameters or
        `given` may change their number with ``pm.set_data``, and named as in `observed` or `given` otherwise.
    shape : tuple of int, optional
        Of a variable that is not observed, ending in D.

    Returns
    -------
    TensorVariable
        (N, D) where it is observed or rows have parameters of their own, else (D,) or `shape`, float64, levels in
        codes. Its log density has one term for each row, in nats. Random draws have as many rows as there are
        parameters, so that covariates alone need be exchanged for predictions. With `given` it is (N, n_targets), and
        rows whose given cells have density zero have a log density of ``-inf``. Draws are exact given the cells of
        their row. They have the rows of `given`, so you need to exchange only these.

    Raises
    ------
    ValueError, TypeError
        For parameters of wrong shape or value, or for another number of rows (at run time, if the graph does not know
        it before). For rows that do not fit the columns, and a variable that is not observed and has a column without a
        density. For `shape` together with `observed` or `given`, or one that does not end in D. For `total_size`
        without `observed`, or not a whole number of at least 1. For `given` of no column, of all, of one that the
        circuit does not have, or of one twice. For other rows than those of `observed`, by their number (as for
        parameters) or their labels, and for a draw given cells of density zero. A coordinate of `dims` that has the
        columns in another order than the circuit.

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
    known = None if given is None else given_cells(circuit, given)
    targets = tuple(range(len(circuit.columns))) if known is None else known.targets
    n_columns = len(targets)
    n_rows: dict[str, int | None] = {} if known is None else dict(known.n_rows)
    if shape is not None and not (observed is None and known is None):
        raise ValueError(
            f"shape must not be given where {'observed' if known is None else 'given'} is: the data have it"
        )
    if observed is not None:
        values, index = _observed_rows(circuit, observed, known)
        n_rows["observed"] = values.type.shape[0]
    elif shape is not None:
        shape = tuple(np.atleast_1d(shape).tolist())
        if not shape or shape[-1] != n_columns:
            raise ValueError(f"shape must end in the number of columns, {n_columns}, got {shape}")
        n_rows["shape"] = shape[0] if isinstance(shape[0], int) else None
    check_n_rows(n_rows)
    packed, weights, theta = packed_inputs(circuit, log_weights, leaf_parameters, n_rows)
    # what rows have for themselves
    own = next((p for p in (weights, theta) if p.type.ndim == 2), None) if known is None else known.rows
    if observed is not None:
        rows = values if own is None else own  # so that draws given other covariates have the rows of these
        index = index if own is None or own.type.shape[0] is not None else None
        size: Any = (rows.shape[0],)
    else:
        refuse_masses(circuit, targets)
        if shape is None:
            shape = (n_columns,) if own is None else (own.shape[0], n_columns)
        if own is not None and len(shape) != 2:
            raise ValueError(f"shape must be (rows, {n_columns}) where rows have parameters of their own, got {shape}")
        size = shape[:-1] or None
    _check_total_size(total_size, observed)
    rng = pt.random.shared_rng(seed=None)
    if known is None:
        _, rv = CircuitDensityRV(circuit=circuit)(packed, weights, theta, size=size, rng=rng, return_next_rng=True)
    else:
        inputs = packed, weights, theta, known.rows, np.array(targets), pt.arange(known.rows.shape[0])
        _, rv = ConditionalCircuitRV(circuit=circuit)(*inputs, size=size, rng=rng, return_next_rng=True)
    names = [circuit.names[d] for d in targets]
    if observed is not None:
        dims = dims or model.named_vars_to_dims.get(values.name)
    refuse_columns_in_another_order(dims, model.coords, names)
    if observed is not None:
        dims = dims or own_dims(model, model.name_for(name), names, rows.shape[0], index)
        return model.register_rv(rv, name, observed=values, total_size=total_size, dims=dims)
    if dims is None and known is not None:
        index = known.index if known.rows.type.shape[0] is not None else None
        dims = own_dims(model, model.name_for(name), names, known.rows.shape[0], index)
    elif dims is None and shape is not None:
        full = model.name_for(name)
        lead = [own_dimension(model, f"{full}_dim_{k}", None, n) for k, n in enumerate(shape[:-1])]
        dims = *lead, own_dimension(model, f"{full}_column", names)
    positive, shares = bounded_columns(circuit, targets)
    is_bounded = positive.size + shares.size > 0
    transform: Any = {"default_transform": RealColumns(positive, shares)} if is_bounded else {}
    return model.register_rv(rv, name, dims=dims, **transform)


def _observed_rows(circuit: Circuit, observed: Any, known: GivenCells | None = None) -> tuple[Any, Any]:
    """Rows as a tensor (N, D), and their labels, None where they may change; of the targets where others are known."""
    observed = _value(observed)
    targets = None if known is None else known.targets
    if not isinstance(observed, Variable):
        values, index = coded_rows(circuit, observed, targets)
        if known is not None and known.index is not None:
            is_labelled = isinstance(observed, pd.DataFrame | Table)
            index = common_labels({"given": known.index, "observed": index if is_labelled else None})
        return pytensor.shared(values, shape=values.shape), index  # a constant would lose its NaN to imputation
    shape = observed.type.shape
    n_columns = len(circuit.columns if targets is None else targets)
    if len(shape) != 2 or shape[1] not in (None, n_columns):
        raise ValueError(f"observed must have shape (rows, {n_columns}), got {shape}")
    return observed, None if known is None else known.index


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
    """Log weights with a Dirichlet prior at every sum, for `CircuitDensity` inside a `pm.Model`.

    Parameters
    ----------
    circuit : Circuit
    alpha : float or (n_sum_edges,) array
        Dirichlet parameter of each edge.
    name : str
        Of the `pm.Dirichlet` that is added to the model. Where sums differ in their number of children, there is one
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


def packed_inputs(
    circuit: Circuit,
    log_weights: Any,
    leaf_parameters: Mapping[str, Any],
    n_rows: Mapping[str, int | None] | None = None,
) -> tuple[Any, Any, Any]:
    """Packed layout, log weights and flat leaf parameters; numbers are checked now, tensors by the kernel.

    With ``n_rows``, the lengths of what has rows already, None where not known yet, parameters may be each row's own:
    weights are then (N, n_sum_edges), leaf parameters (N, P).
    """
    may_have_rows = n_rows is not None
    _check_circuit(circuit, may_have_rows)
    given = {name: _value(leaf_parameters[name]) for name in check_names(circuit, leaf_parameters)}
    for name, v in given.items():
        if isinstance(v, Variable):
            _check_tensor(circuit, name, v, may_have_rows)
        else:
            given[name] = checked_numbers(partial(checked_family, circuit, name), v, 3 if may_have_rows else None)
    width = np.array([given[f].type.shape[-1] if f in given else 0 for f in circuit.families], np.int64)
    leaves = np.array([circuit.leaves_of(f).size if f in given else 0 for f in circuit.families])
    begin = np.cumsum(leaves * width) - leaves * width
    weights = _value(log_weights)
    if isinstance(weights, Variable):
        _check_weight_tensor(circuit, weights, may_have_rows)
    else:
        weights = checked_numbers(partial(checked_weights, circuit), weights, 2 if may_have_rows else None)
    own = {f"leaf_parameters[{f!r}]": v.type.shape[0] for f, v in given.items() if v.type.ndim == 3}
    if weights.type.ndim == 2:
        own["log_weights"] = weights.type.shape[0]
    if own:
        check_n_rows({**(n_rows or {}), **own})
    theta = flat_leaf_parameters([given[f] for f in circuit.families if f in given]).astype("float64")
    layout = pack(compile_circuit(circuit).layout, len(circuit.columns), begin, width)
    packed = pt.as_tensor_variable(with_parts(layout, circuit, begin, width))
    return packed, weights, theta


def _check_circuit(circuit: Any, may_be_wide: bool = True) -> None:
    """Refuse leaves without a formula; Gaussian and Student t leaves over several columns are let in on request."""
    if not isinstance(circuit, Circuit):
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}")
    what = "the circuit of a CircuitDensity" if may_be_wide else "a circuit that is squared"
    refuse_distributions(circuit, what, allowed=elliptical_families(circuit) if may_be_wide else ())


def _value(x: Any) -> Any:
    """The number behind a constant, or the tensor."""
    return x.data if isinstance(x, Constant) else x


def _check_tensor(circuit: Circuit, name: str, v: Any, may_have_rows: bool) -> None:
    n = circuit.leaves_of(name).size
    shape = v.type.shape
    core = shape[1:] if may_have_rows and len(shape) == 3 else shape
    n_parameters: Any = LEAF_FAMILIES[name].n_parameters  # type: ignore[attr-defined]
    width = n_parameters or (core[-1] if core else None)
    if len(core) != 2 or core[0] not in (None, n) or core[1] is None or core[1] != width:
        wanted = f"{n}, {n_parameters or 'number of levels'}"
        raise ValueError(
            f"leaf_parameters[{name!r}] must have shape ({wanted}){f' or (rows, {wanted})' if may_have_rows else ''}, "
            f"known when the model is built; got {shape}"
        )


def _check_weight_tensor(circuit: Circuit, v: Any, may_have_rows: bool) -> None:
    n, shape = circuit.n_sum_edges, v.type.shape
    if len(shape) not in ((1, 2) if may_have_rows else (1,)) or shape[-1] not in (None, n):
        raise ValueError(
            f"log_weights must have shape ({n},){f' or (rows, {n})' if may_have_rows else ''}, got {shape}"
        )
