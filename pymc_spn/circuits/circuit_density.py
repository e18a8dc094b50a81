"""`CircuitDensity`: a circuit with explicit parameters as a variable of a PyMC model."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.logprob.transforms import Transform
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.circuit_ops import circuit_rows
from pymc_spn.circuits.coded_rows import coded_rows
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.packed_layout import draw_row, pack
from pymc_spn.circuits.evaluation.parameters import (
    check_names,
    checked_family,
    checked_weights,
    refuse_distributions,
)
from pymc_spn.circuits.leaves.explicit_leaves import EXPLICIT
from pymc_spn.circuits.ops import source_version
from pymc_spn.circuits.parameters_of_rows import check_n_rows, checked_numbers, flat_leaf_parameters
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.tables import row_labels

WIDTH = {
    "gaussian": 2, "log_normal": 2, "exponential": 1, "poisson": 1, "geometric": 1, "bernoulli": 1, "student_t": 3,
    "log_student_t": 3, "lomax": 2, "negative_binomial": 2, "beta_geometric": 2,
    "laplace": 2, "gamma": 2, "uniform": 2, "binomial": 2, "hypergeometric": 3, "beta_binomial": 3,
    "triangular": 3, "beta": 2, "weibull": 2,
}  # fmt: skip


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

    @classmethod
    def rng_fn(cls, rng, packed, log_weights, theta, size):
        batch = np.broadcast_shapes(packed.shape[:-1], log_weights.shape[:-1], theta.shape[:-1])
        size = batch if size is None else tuple(size)
        out = np.empty((*size, int(packed.flat[0])))
        inputs = [np.broadcast_to(a, (*size, a.shape[-1])) for a in (packed, log_weights, theta)]
        for i in np.ndindex(*size):
            out[i] = draw_row(rng, *(a[i] for a in inputs))
        return out


@numba_core_rv_funcify.register(CircuitDensityRV)
def _(op, node):
    @numba_njit
    def circuit_row(rng, packed, log_weights, theta):
        return draw_row(rng, packed, log_weights, theta)

    return circuit_row, source_version()


class RealColumns(Transform):
    """Logs of the columns that are at least 0, log odds of those from 0 to 1; the others stay as they are."""

    def __init__(self, positive, shares):
        self.positive, self.shares = np.asarray(positive, np.int64), np.asarray(shares, np.int64)
        self.name = "real_columns" if self.shares.size else "log_columns"

    def forward(self, value, *inputs):
        at = value[..., self.positive]
        value = pt.set_subtensor(at, pt.log(at))
        at = value[..., self.shares]
        return pt.set_subtensor(at, pt.log(at) - pt.log1p(-at))

    def backward(self, value, *inputs):
        at = value[..., self.positive]
        value = pt.set_subtensor(at, pt.exp(at))
        at = value[..., self.shares]
        return pt.set_subtensor(at, pt.sigmoid(at))

    def log_jac_det(self, value, *inputs):
        at = value[..., self.shares]
        of_shares = -pt.softplus(at) - pt.softplus(-at)
        return value[..., self.positive].sum(axis=-1) + of_shares.sum(axis=-1)


class _CircuitDensityDistribution(Distribution):
    """Registers the log density of `CircuitDensityRV`; variables are made by `CircuitDensity`."""

    rv_type = CircuitDensityRV

    def support_point(rv, size, packed, log_weights, theta):
        own = pt.vector("theta", shape=theta.type.shape[-1:])
        point = vectorize_graph(_typical_row(rv.owner.op.circuit, own), {own: theta})
        return point if rv_size_is_none(size) else pt.broadcast_to(point, (*size, point.shape[-1]))

    def logp(value, packed, log_weights, theta):
        core = [p if _has_rows(p) else p.squeeze(axis=tuple(range(p.type.ndim - 1))) for p in (log_weights, theta)]
        rows = value.reshape((-1, value.shape[-1]))
        logs = circuit_rows(packed.squeeze(axis=tuple(range(packed.type.ndim - 1))), rows, *core)
        return logs.reshape(value.shape[:-1])


def _has_rows(parameter: Any) -> bool:
    """Whether an input of the variable has values of each row's own; those of all rows have batch dimensions of 1."""
    return not all(parameter.type.broadcastable[:-1])


def CircuitDensity(
    name: str,
    circuit: Circuit,
    log_weights: Any,
    leaf_parameters: Mapping[str, Any],
    observed: Any = None,
    *,
    total_size: int | None = None,
    dims: Any = None,
    shape: Any = None,
) -> TensorVariable:
    """A circuit with given or random parameters as the distribution of rows.

    With ``observed`` each row is an independent draw and missing cells are summed out; without, the variable is one
    row (or ``shape`` of them) and the circuit is its prior. The log density is differentiable in log weights, leaf
    parameters and, without ``observed``, in the row itself, so NUTS samples all of them. With rows drawn by
    ``pm.Minibatch`` and their number in all as ``total_size``, ``pm.fit`` follows stochastic gradients.

    Weights, and parameters of each family, may be each row's own: functions of its covariates, linear ones or networks
    written in PyTensor. The circuit is then the conditional density of a row given these. Such a parameter has a
    dimension of rows in front; what has none is shared by all rows.

    Parameters
    ----------
    name : str
    circuit : Circuit
    log_weights : (n_sum_edges,) or (N, n_sum_edges) array or tensor
        Normalised within each sum; see `Circuit.dirichlet` for a prior.
    leaf_parameters : dict of str to (n_leaves_of_family, p) or (N, n_leaves_of_family, p) array or tensor
        See `CircuitQueries` for the parameters of each family. Numbers are checked at once; where a tensor takes
        values outside its bounds, or weights do not add up to 1, the log density is ``-inf``: of all rows, or of the
        row alone where they are its own.
    observed : DataFrame, Table, (N, D) array or tensor, optional
        NaN is missing. A tensor (``pm.Data``, ``pm.Minibatch``, a shared variable) holds levels as codes, as
        `Table.values` does; its rows are not checked, and a value that a column cannot take has density zero.
    total_size : int, optional
        Number of rows of the whole table where `observed` is a random batch of it; the log density of the batch
        counts for that many rows.
    dims : tuple of str, optional
        Of the variable; by default those of a ``pm.Data`` that has them, else ``(name_row, name_column)`` where it
        is observed, ``(name_column,)`` where it is one row. Rows are numbered where their parameters may change their
        number with ``pm.set_data``, and named as in `observed` otherwise.
    shape : tuple of int, optional
        Of a variable that is not observed, ending in D.

    Returns
    -------
    TensorVariable
        (N, D) where it is observed or rows have parameters of their own, else (D,) or `shape`, float64, levels in
        codes. Its log density has one term for each row, in nats. Random draws have as many rows as there are
        parameters, so that covariates alone need be exchanged for predictions.

    Raises
    ------
    ValueError, TypeError
        Parameters of wrong shape or value, or for another number of rows (when it is run, where the graph does not
        know it before); rows that do not fit the columns; a variable that is not observed and has
        a column without a density; `shape` beside `observed`, or one that does not end in D; `total_size` without
        `observed`, or not a whole number of at least 1.

    References
    ----------
    Poon, H. and Domingos, P. (2011). Sum-product networks: a new deep architecture. UAI: value and derivatives by one
    pass up and one down. Darwiche, A. (2003). A differential approach to inference in Bayesian networks. JACM 50.
    """
    model = pm.modelcontext(None)
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    _check_circuit(circuit)
    op = CircuitDensityRV(circuit=circuit)
    n_columns = len(circuit.columns)
    n_rows: dict[str, int | None] = {}
    if observed is not None:
        if shape is not None:
            raise ValueError("shape must not be given where observed is: the data have it")
        values, index = _observed_rows(circuit, observed)
        n_rows["observed"] = values.type.shape[0]
    elif shape is not None:
        shape = tuple(np.atleast_1d(shape).tolist())
        if not shape or shape[-1] != n_columns:
            raise ValueError(f"shape must end in the number of columns, {n_columns}, got {shape}")
        n_rows["shape"] = shape[0] if isinstance(shape[0], int) else None
    packed, weights, theta = packed_inputs(circuit, log_weights, leaf_parameters, n_rows)
    own = next((p for p in (weights, theta) if p.type.ndim == 2), None)  # which rows have for themselves
    if observed is not None:
        rows = values if own is None else own  # so that draws given other covariates have the rows of these
        index = index if own is None or own.type.shape[0] is not None else None
        size: Any = (rows.shape[0],)
    else:
        _refuse_masses(circuit)
        if shape is None:
            shape = (n_columns,) if own is None else (own.shape[0], n_columns)
        if own is not None and len(shape) != 2:
            raise ValueError(f"shape must be (rows, {n_columns}) where rows have parameters of their own, got {shape}")
        size = shape[:-1] or None
    _check_total_size(total_size, observed)
    rng = pt.random.shared_rng(seed=None)
    _, rv = op(packed, weights, theta, size=size, rng=rng, return_next_rng=True)
    if observed is not None:
        dims = dims or model.named_vars_to_dims.get(values.name) or _own_dims(model, name, circuit, rows, index)
        return model.register_rv(rv, name, observed=values, total_size=total_size, dims=dims)
    if dims is None and len(shape) == 1:
        dims = _own_dims(model, name, circuit)
    positive, shares = _bounded_columns(circuit)
    is_bounded = positive.size + shares.size > 0
    transform: Any = {"default_transform": RealColumns(positive, shares)} if is_bounded else {}
    return model.register_rv(rv, name, dims=dims, **transform)


def _observed_rows(circuit: Circuit, observed: Any) -> tuple[Any, Any]:
    """Rows as a tensor (N, D), and their labels; None where they may change."""
    observed = _value(observed)
    if not isinstance(observed, Variable):
        values, index = coded_rows(circuit, observed)
        return pytensor.shared(values, shape=values.shape), index  # a constant would lose its NaN to imputation
    shape = observed.type.shape
    if len(shape) != 2 or shape[1] not in (None, len(circuit.columns)):
        raise ValueError(f"observed must have shape (rows, {len(circuit.columns)}), got {shape}")
    return observed, None


def _own_dims(model: pm.Model, name: str, circuit: Circuit, values: Any = None, index: Any = None) -> tuple[str, ...]:
    """Names of the dimensions, registered with their labels."""
    full = model.name_for(name)
    model.add_coord(f"{full}_column", list(circuit.names))
    if values is None:
        return (f"{full}_column",)
    model.add_coord(f"{full}_row", None if index is None else list(row_labels(index)), length=values.shape[0])
    return f"{full}_row", f"{full}_column"


def _check_total_size(total_size: Any, observed: Any) -> None:
    if total_size is None:
        return
    if observed is None:
        raise ValueError("total_size must be given only where observed is: it is the number of rows of the whole table")
    if not isinstance(total_size, int | np.integer) or isinstance(total_size, bool) or total_size < 1:
        raise ValueError(f"total_size must be a whole number of at least 1, got {total_size!r}")


def dirichlet_log_weights(circuit: Any, alpha: Any, name: str) -> TensorVariable:
    """See `Circuit.dirichlet`."""
    pm.modelcontext(None)
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
        weights = pm.Dirichlet(name if len(sizes) == 1 else f"{name}_{k}", alpha[edges])
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
    _check_circuit(circuit)
    may_have_rows = n_rows is not None
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
    packed = pt.as_tensor_variable(pack(compile_circuit(circuit).layout, len(circuit.columns), begin, width))
    return packed, weights, theta


def _check_circuit(circuit: Any) -> None:
    if not isinstance(circuit, Circuit):
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}")
    refuse_distributions(circuit, "the circuit of a CircuitDensity")


def _value(x: Any) -> Any:
    """The number behind a constant, or the tensor."""
    return x.data if isinstance(x, Constant) else x


def _check_tensor(circuit: Circuit, name: str, v: Any, may_have_rows: bool) -> None:
    n = circuit.leaves_of(name).size
    shape = v.type.shape
    core = shape[1:] if may_have_rows and len(shape) == 3 else shape
    width = WIDTH.get(name, core[-1] if core else None)
    if len(core) != 2 or core[0] not in (None, n) or core[1] is None or core[1] != width:
        wanted = f"{n}, {WIDTH.get(name, 'number of levels')}"
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


def _refuse_masses(circuit: Circuit) -> None:
    for leaf in circuit.leaves:
        family = circuit.families[circuit.leaf_family[leaf]]
        if not EXPLICIT[family].is_density:
            raise ValueError(
                f"a CircuitDensity that is not observed needs densities in all columns, "
                f"{circuit.names[circuit.leaf_column[leaf]]!r} has a {family} leaf"
            )


def _bounded_columns(circuit: Circuit) -> tuple[np.ndarray, np.ndarray]:
    """Columns all of whose leaves live on values of at least 0, and of these apart those with values up to 1."""
    low, high = np.full(len(circuit.columns), np.inf), np.full(len(circuit.columns), -np.inf)
    for leaf in circuit.leaves:
        d, family = circuit.leaf_column[leaf], EXPLICIT[circuit.families[circuit.leaf_family[leaf]]]
        low[d], high[d] = min(low[d], family.lowest), max(high[d], family.highest)
    return np.flatnonzero((low == 0.0) & (high > 1.0)), np.flatnonzero((low == 0.0) & (high == 1.0))


def _typical_row(circuit: Circuit, theta: Any) -> Any:
    """Mean over each column's leaves of their location, as a start for a sampler."""
    layout = compile_circuit(circuit).layout
    total = pt.zeros(len(circuit.columns))
    first = 0
    for f, name in enumerate(circuit.families):
        at = layout.leaf_family == f
        n = int(np.count_nonzero(at))
        if n == 0:
            continue
        width = WIDTH.get(name) or (theta.shape[0] - first) // n
        own = theta[first : first + n * width].reshape((n, width))
        location = own[:, 0]
        if name in ("log_normal", "log_student_t"):
            location = pt.exp(location)
        elif name == "exponential":
            location = 1.0 / location
        elif name == "lomax":
            location = own[:, 1] / location
        elif name == "weibull":
            location = own[:, 1]
        elif name == "gamma":
            location = location / own[:, 1]
        elif name == "beta":
            location = location / own.sum(axis=1)
        elif name in ("uniform", "triangular"):
            location = own.mean(axis=1)
        total = pt.inc_subtensor(total[layout.leaf_column[at]], location)
        first += n * width
    return total / np.bincount(layout.leaf_column, minlength=len(circuit.columns))
