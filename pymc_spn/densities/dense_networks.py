"""Fully connected networks with priors, and the weights and leaf parameters of a circuit as outputs of one."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.evaluation.parameters import families_in_use, refuse_distributions
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.coded_rows import coded_rows
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.family_pieces import Symbols
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.model_inputs import NumbersOrVariable
from pymc_spn.tables import Column
from pymc_spn.tables.inputs import TableLike

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"tanh": pt.tanh, "relu": lambda x: pt.maximum(x, 0.0), "sin": pt.sin}


def dense_network(
    name: str,
    inputs: NumbersOrVariable,
    n_outputs: int,
    hidden: Sequence[int] = (16,),
    *,
    activation: str | Callable[[TensorVariable], TensorVariable] = "tanh",
    sigma: float | Variable = 1.0,
) -> TensorVariable:
    """Fully connected network with normal priors, in a PyMC model.

    For functions of covariates, and of the hidden variables of an `IntegralCircuit`. Inputs, and what outputs stand
    for, should be of the size of one.

    Parameters
    ----------
    name : str
        Beginning of the names of its variables: ``name_weights_0`` (n_inputs, n_units) and ``name_biases_0``
        (n_units,) of the first layer, and so on.
    inputs : (N, n_inputs) array or tensor
        Of a tensor the number of inputs must be known: that of a ``pm.Data`` is, others tell it by
        ``pt.specify_shape(inputs, (None, n_inputs))``.
    n_outputs : int
    hidden : sequence of int
        Units of each hidden layer; none at all for linear functions.
    activation : {"tanh", "relu", "sin"} or callable
        Of the hidden units; a callable takes and returns a tensor.
    sigma : float or TensorVariable
        Standard deviation of biases, and of weights times the square root of the number of inputs of their layer. So
        outputs stay as large when layers get wider (Neal 1996, section 2.1).

    Returns
    -------
    TensorVariable
        (N, n_outputs) float64.

    Raises
    ------
    TypeError, ValueError
        Outside of a model, and if an argument has another type, shape or value.

    Notes
    -----
    Units of a layer can change places without changing the function, so posteriors have many modes; diagnose outputs
    and densities, not weights. Weights start at draws from their priors (``initval="prior"``), as units that begin
    alike would stay alike.

    Examples
    --------
    >>> with pm.Model():
    ...     out = ps.circuits.dense_network("net", rows.to_numpy(), n_outputs=3, hidden=(8,))
    >>> out.ndim
    2

    References
    ----------
    Neal, R. M. (1996). Bayesian learning for neural networks. Springer.
    """
    pm.modelcontext(None)
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {quoted(name)}")
    inputs = inputs if isinstance(inputs, Variable) else np.asarray(inputs, np.float64)
    sizes = [_n_inputs(inputs), *_checked_sizes("hidden", hidden), *_checked_sizes("n_outputs", [n_outputs])]
    if not callable(activation) and activation not in ACTIVATIONS:
        raise ValueError(f"activation must be among {tuple(ACTIVATIONS)} or a function, got {quoted(activation)}")
    act = activation if callable(activation) else ACTIVATIONS[activation]
    if not isinstance(sigma, Variable):
        if not 0.0 < sigma < np.inf:
            raise ValueError(f"sigma must be positive and finite, got {quoted(sigma)}")
        sigma = np.float64(sigma)  # PyTensor takes the log of a Python float in single precision
    out = pt.as_tensor_variable(inputs)
    for i, (n, m) in enumerate(pairwise(sizes)):
        weights = pm.Normal(f"{name}_weights_{i}", 0.0, sigma / np.sqrt(n), shape=(n, m), initval="prior")
        biases = pm.Normal(f"{name}_biases_{i}", 0.0, sigma, shape=m, initval="prior")
        out = (act(out) if i > 0 else out) @ weights + biases
    return out


def _checked_sizes(argument: str, sizes: Any) -> list[int]:
    for size in sizes:
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{argument} must hold whole numbers of at least 1, got {quoted(size)}")
    return [int(size) for size in sizes]


def _n_inputs(inputs: Any) -> int:
    if inputs.ndim != 2:
        raise ValueError(f"inputs must have shape (rows, n_inputs), got {inputs.ndim} dimensions")
    if not isinstance(inputs, Variable):
        if not np.all(np.isfinite(inputs)):
            row, column = np.argwhere(~np.isfinite(inputs))[0].tolist()
            raise ValueError(f"inputs must be finite, got {inputs[row, column]} at row {row}, column {column}")
        return inputs.shape[1]
    known = inputs.get_value(borrow=True).shape[1] if hasattr(inputs, "get_value") else inputs.type.shape[1]
    if known is None:
        raise ValueError("inputs must have a known number of columns: pt.specify_shape(inputs, (None, n_inputs))")
    return int(known)


class Typical(NamedTuple):
    """What values of the leaves' columns are like, (n_leaves,) each; where nothing is known, 0, 1, 1 and 1/2."""

    centre: Any
    spread: Any
    size: Any
    share: Any


def _link(family: str) -> Symbols | None:
    """What makes parameters of a family from outputs; with outputs of 0 a leaf has the typical location or mean."""
    symbols = EXPLICIT[family].symbols
    return symbols if symbols is not None and symbols.link is not None else None


def network_parameters(
    name: str,
    circuit: Circuit,
    covariates: NumbersOrVariable,
    *,
    observed: TableLike | None = None,
    hidden: Sequence[int] = (16,),
    activation: str | Callable[[TensorVariable], TensorVariable] = "tanh",
    sigma: float | Variable = 1.0,
    leaf_parameters: Mapping[str, NumbersOrVariable] | None = None,
) -> dict[str, Any]:
    """Weights and leaf parameters of a circuit, each row's own, as outputs of one network of covariates.

    ``ps.CircuitDensity("rows", circuit, **ps.circuits.network_parameters("net", circuit, x), observed=y)`` is the
    density of rows given covariates, as in a mixture density network (Bishop 1994), over the columns of a circuit.

    Parameters
    ----------
    name, hidden, activation, sigma
        As of `dense_network`.
    circuit : Circuit
    covariates : (N, n_inputs) array or tensor
        Of the size of one. With ``pm.Data`` they are exchanged for predictions, with ``pm.Minibatch`` drawn.
    observed : DataFrame of pandas, polars or pyarrow, Table or (N, D) array, optional
        All rows, whose columns tell where leaves are when outputs are 0: Gaussian, Laplace and Student leaves at the
        mean with the standard deviation of the column. Leaves of logs are at those of its logs, others at its mean,
        levels at their shares. Cells that a leaf cannot take do not count. Without it columns are taken to have mean 0
        and deviation 1 (sizes and counts mean 1, all levels equal shares).
    leaf_parameters : dict of str to array or tensor, optional
        Of families whose parameters do not come from the network, as of `CircuitDensity`: with all others shared by
        all rows, say, or of families that have no link.

    Returns
    -------
    dict
        ``log_weights`` (N, n_sum_edges), normalised within each sum by a softmax, and ``leaf_parameters``, of each
        family (N, n_leaves_of_family, p). Scales, rates and sizes are exponentials of outputs, probabilities come from
        a logit, those of levels from a softmax.

    Raises
    ------
    TypeError, ValueError
        As `dense_network`. For rows that do not fit the circuit, and Categorical leaves over columns that do not tell
        their levels. For a family that is unknown, or one without a link (uniform, triangular, binomial,
        hypergeometric, beta-binomial) that `leaf_parameters` does not hold.

    Examples
    --------
    >>> covariates = rng.normal(size=(100, 2))
    >>> with pm.Model():
    ...     parameters = ps.circuits.network_parameters("net", law.circuit, covariates, observed=rows)
    ...     x = ps.CircuitDensity("x", law.circuit, **parameters, observed=rows)

    References
    ----------
    Bishop, C. M. (1994). Mixture density networks. Aston University, NCRG/94/004.
    Shao, X. et al. (2022). Conditional sum-product networks. Int. J. Approximate Reasoning 140.
    """
    if not isinstance(circuit, Circuit):
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}")
    refuse_distributions(circuit, "network_parameters")
    families, given = families_in_use(circuit), dict(leaf_parameters or {})
    for family in given:
        if family not in families:
            raise ValueError(f"leaf_parameters must be of families among {tuple(families)}, got {quoted(family)}")
    own = [family for family in families if family not in given]
    for family in own:
        if _link(family) is None and family != "categorical":
            raise ValueError(f"leaf_parameters must hold the family {family!r}, which has no link to a network")
    values = None if observed is None else coded_rows(circuit, observed)[0]
    shares = _level_shares(circuit, values) if "categorical" in own else np.zeros((0, 0))
    degree = np.bincount(circuit.edge_sum, minlength=circuit.n_nodes)[circuit.edge_sum]
    n_leaves = {family: circuit.leaves_of(family).size for family in own}
    links = {family: _link(family) for family in own}
    n_each = {f: n_leaves[f] * (shares.shape[1] if link is None else link.n_outputs) for f, link in links.items()}
    n_weights = int(np.count_nonzero(degree > 1))
    n_outputs = n_weights + sum(n_each.values())
    if n_outputs == 0:
        raise ValueError("leaf_parameters must leave something to the network: there are no weights either")
    outputs = dense_network(name, covariates, n_outputs, hidden, activation=activation, sigma=sigma)
    found, first = {}, n_weights
    for family in own:
        part = outputs[:, first : first + n_each[family]].reshape((outputs.shape[0], n_leaves[family], -1))
        first += n_each[family]
        symbols = links[family]
        if symbols is None:
            with np.errstate(divide="ignore"):
                found[family] = pt.special.softmax(part + np.log(shares), axis=2)
        else:
            outputs_of = [part[:, :, i] for i in range(symbols.n_outputs)]
            found[family] = pt.stack(symbols.link(pt, outputs_of, _typical(circuit, family, values)), axis=2)
    weights = _normalised(outputs[:, :n_weights], degree)
    return {"log_weights": weights, "leaf_parameters": {f: given[f] if f in given else found[f] for f in families}}


def _normalised(outputs: Any, degree: np.ndarray) -> Any:
    """Log weights (N, n_sum_edges) from outputs (N, n) of the edges of sums with several children."""
    n_rows, free = outputs.shape[0], degree[degree > 1]
    out = pt.zeros((n_rows, degree.size))
    for k in np.unique(free).tolist():
        logs = pt.special.log_softmax(outputs[:, np.flatnonzero(free == k)].reshape((n_rows, -1, k)), axis=2)
        if degree.size == free.size and np.all(free == k):
            return logs.reshape((n_rows, degree.size))
        out = pt.set_subtensor(out[:, np.flatnonzero(degree == k)], logs.reshape((n_rows, -1)))
    return out


def _typical(circuit: Circuit, family: str, values: np.ndarray | None) -> Typical:
    """Of each leaf of a family, what its column is like."""
    leaf, columns = EXPLICIT[family], circuit.leaf_column[circuit.leaves_of(family)]
    symbols = leaf.symbols
    out = np.tile([[0.0], [1.0], [1.0], [0.5]], columns.size)
    if values is None:
        return Typical(*out)
    for d in np.unique(columns):
        x = values[:, d]
        x = x[np.isfinite(x)]
        if leaf.is_of_logs or symbols is None or not symbols.is_located:
            x = x[x > 0.0] if leaf.is_of_logs else x[x >= 0.0]
        if x.size == 0:
            continue
        x = np.log(x) if leaf.is_of_logs else x
        spread, mean = x.std(), x.mean()
        total = float(np.clip(x, 0.0, 1.0).sum())  # of shares
        size = mean if mean > 0.0 else 1.0 / (x.size + 1.0)  # zeros alone: as if one more value made it 1
        found = mean, spread if spread > 0.0 else 1.0, size, (total + 0.5) / (x.size + 1.0)
        out[:, columns == d] = np.array(found)[:, None]
    return Typical(*out)


def _level_shares(circuit: Circuit, values: np.ndarray | None) -> np.ndarray:
    """Shares (n_leaves, K) of the levels in the columns of Categorical leaves, none of them 0; 0 beyond a column's."""
    columns = circuit.leaf_column[circuit.leaves_of("categorical")]
    n_levels = {}
    for d in np.unique(columns).tolist():
        column = circuit.columns[d]
        if not isinstance(column, Column) or column.levels is None:
            raise ValueError(
                f"circuit must tell the levels of column {circuit.names[d]!r} for its categorical leaves (ps.Column), "
                "or leaf_parameters must hold this family"
            )
        n_levels[d] = len(column.levels)
    out = np.zeros((columns.size, max(n_levels.values())))
    for d, n in n_levels.items():
        codes = np.zeros(0) if values is None else values[:, d][np.isfinite(values[:, d])]
        counts = np.bincount(codes.astype(np.int64), minlength=n)[:n] + 1.0 / n
        out[columns == d, :n] = counts / counts.sum()
    return out
