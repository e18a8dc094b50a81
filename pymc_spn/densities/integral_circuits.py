"""`integral_circuit`: a circuit whose hidden variables are continuous, as quadrature makes an ordinary one of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable
from scipy.special import log_softmax

from pymc_spn.circuits.evaluation.parameters import check_names, checked_family, refuse_distributions
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.circuit_builders import (
    FAMILY_OF_KIND,
    MAX_EDGES,
    Growing,
    grow_states,
    leaf_palettes,
    tree_of_dependence,
)
from pymc_spn.circuits.structures.dependence import MEASURES
from pymc_spn.leaves.validation import checked_columns, column_name
from pymc_spn.numerics.asked_numbers import is_int, is_real
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import read_table
from pymc_spn.tables.column import as_name, by_name
from pymc_spn.tables.inputs import TableLike

RULES = ("legendre", "trapezoid")


@dataclass(frozen=True, eq=False, repr=False)
class IntegralCircuit:
    """Columns with continuous hidden variables, and the circuit that a quadrature rule makes of them.

    Either each column d has a hidden variable Z_d of its own and these form a tree,

        p(x) = ∫ p(z_root) Π_edges p(z_d | z_parent(d)) Π_d p(x_d | z_d) dz,

    or all columns share one, p(x) = ∫ p(z) Π_d p(x_d | z) dz. Each integral is replaced by a sum over the points of one
    rule. So each hidden variable has `n_points` states. A sum of the circuit weights them by weight of the point times
    density, divided by their total. The circuit is therefore a distribution whatever the rule, and densities need
    not be normalised. Its distance from the integral is a numerical error: ask the same of
    ``dataclasses.replace(this, n_points=2 * n)``, and of a wider interval where the densities go on beyond the ends.

    Parameters
    ----------
    columns : tuple of str or Column
    leaves : mapping of str to str, or None
        Family of each column; None where the columns have kinds, for the family of each kind.
    parent : mapping of str to str or None, or None
        Parent of each column's hidden variable, None at the root of the tree. None for the mapping: one hidden
        variable for all columns.
    n_points : int
        Of the rule, at least 2.
    rule : {"trapezoid", "legendre"}
        As in `integral_circuit`.
    interval : tuple of float
        Lowest and highest value of the hidden variables.

    Attributes
    ----------
    circuit : Circuit
    points, point_weights : (n_points,) float64
        Values of the hidden variables, ascending, and the weights of the rule, which add up to the length of the
        interval.
    edges : tuple of (str, str)
        Parent and column of each edge of the tree, from the root down; empty where one variable is shared.

    Raises
    ------
    ValueError, TypeError
        As `integral_circuit`.

    Examples
    --------
    >>> found = ps.circuits.IntegralCircuit(("x", "y"), {"x": "gaussian", "y": "gaussian"}, None, n_points=8)
    >>> found.log_weights(lambda z: -0.5 * z**2).shape
    (8,)
    """

    columns: tuple[Any, ...]
    leaves: Mapping[str, str] | None
    parent: Mapping[str, str | None] | None
    n_points: int = 32
    rule: str = "trapezoid"
    interval: tuple[float, float] = (-6.0, 6.0)
    circuit: Circuit = field(init=False)
    points: np.ndarray = field(init=False)
    point_weights: np.ndarray = field(init=False)
    edges: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("columns", checked_columns(self.columns))
        names = [column_name(c) for c in self.columns]
        _check_one_family(self.leaves)
        palettes = leaf_palettes(self.columns, self.leaves, "families of a column", 1)
        put("leaves", {name: family for name, (family,) in zip(names, palettes, strict=True)})
        if not is_int(self.n_points) or self.n_points < 2:
            raise ValueError(f"n_points must be an integer of at least 2, got {quoted(self.n_points)}")
        put("n_points", int(self.n_points))
        n_sum_edges = self.n_points
        if self.parent is None:
            put("edges", ())
        else:
            put("edges", _edges_from_root(self.parent, names))
            put("parent", {name: as_name(above) for name, above in by_name("parent", self.parent).items()})
            n_sum_edges += len(self.edges) * self.n_points**2
        if n_sum_edges > MAX_EDGES:
            raise ValueError(
                f"n_points={self.n_points} makes {n_sum_edges:,} edges below sums, more than {MAX_EDGES:,}"
            )
        put("interval", _checked_interval(self.interval))
        points, weights = _quadrature(self.rule, self.n_points, self.interval)
        points.setflags(write=False)
        weights.setflags(write=False)
        put("points", points)
        put("point_weights", weights)
        grown = Growing(self.columns, palettes)
        if self.parent is None:
            grown.sums([grown.factorised(range(len(names)), k) for k in range(self.n_points)], 1)
        else:
            # `Growing` turns its nodes round: grown from the last edge to the first and the root, the sums stand in
            # the order of `edges`, those of one edge and the children of each in the order of `points`.
            above = {names.index(d): names.index(p) for p, d in reversed(self.edges)}
            root = (set(range(len(names))) - above.keys()).pop()
            grow_states(grown, {**above, root: None}, [self.n_points] * len(names))
        put("circuit", grown.circuit())
        refuse_distributions(self.circuit, "an integral circuit")

    def __repr__(self) -> str:
        hidden = "one hidden variable" if self.parent is None else f"a tree of {len(self.columns)} hidden variables"
        return (
            f"IntegralCircuit({len(self.columns)} columns, {hidden}, {self.n_points} points by {self.rule!r} "
            f"on {self.interval})"
        )

    def log_weights(
        self,
        root_log_density: Callable[..., TensorVariable],
        log_density: Callable[..., TensorVariable] | None = None,
    ) -> Any:
        """Log weights of the circuit: of all sums, each normalised.

        Parameters
        ----------
        root_log_density : callable
            ``root_log_density(z)``, log density in nats of the root, or of the shared variable, at z (n_points,); it
            returns what broadcasts to that shape. It may leave out constants.
        log_density : callable, optional
            ``log_density(z, z_parent, edge)``, log density of a hidden variable given its parent's value, where there
            is a tree. z (1, 1, n_points) and z_parent (1, n_points, 1) are values, edge (n_edges, 1, 1) int64 numbers
            in `edges`, so that ``correlation[edge]`` takes each edge's own parameter. It returns what broadcasts to
            (n_edges, n_points, n_points) and may leave out factors that do not depend on z.

        Returns
        -------
        (n_sum_edges,) float64, or TensorVariable
            A tensor if a function returns one.

        Raises
        ------
        TypeError
            If a function is none, is missing or is not wanted, or returns no numbers.
        ValueError
            If it returns another shape, NaN or infinity, or density 0 at all points. Numbers are checked at once;
            where a tensor does so, the density of `CircuitDensity` is ``-inf``.

        Examples
        --------
        >>> families = {"x": "gaussian", "y": "gaussian"}
        >>> chain = ps.circuits.IntegralCircuit(("x", "y"), families, {"x": None, "y": "x"}, n_points=8)
        >>> weights = chain.log_weights(lambda z: -0.5 * z**2, lambda z, z_parent, edge: -0.5 * (z - z_parent) ** 2)
        >>> weights.shape  # 8 states of the root, and 8 times 8 of the edge
        (72,)
        """
        n, n_edges = self.n_points, len(self.edges)
        own = np.log(self.point_weights)
        found = [_normalised("root_log_density", _called("root_log_density", root_log_density, self.points), own, (n,))]
        if n_edges:
            given = self.points.reshape(1, 1, n), self.points.reshape(1, n, 1), np.arange(n_edges).reshape(-1, 1, 1)
            found.append(
                _normalised("log_density", _called("log_density", log_density, *given), own, (n_edges, n, n)).ravel()
            )
        elif log_density is not None:
            raise TypeError("log_density must not be given where no hidden variable has a parent")
        return pt.concatenate(found) if any(isinstance(f, Variable) for f in found) else np.concatenate(found)

    def leaf_parameters(self, functions: Mapping[str, Callable[..., TensorVariable]]) -> dict[str, Any]:
        """Leaf parameters of the circuit.

        Parameters
        ----------
        functions : mapping of str to callable
            For each family ``function(z, column)``, the parameters of its leaves given their hidden values. z
            (n_leaves_of_family,) are values, column (n_leaves_of_family,) int64 positions in `columns`, so that
            ``slope[column]`` takes each column's own parameter (of a vector over the columns of one family alone:
            ``slope[np.searchsorted(positions, column)]``). It returns a tuple with one entry for each parameter in the
            table of `ParameterisedCircuit`, such as (mean, sd) for "gaussian". Each entry broadcasts to
            (n_leaves_of_family,). A family with one parameter needs no tuple. One array (n_leaves_of_family, p) with
            all parameters will also do.

        Returns
        -------
        dict of str to (n_leaves_of_family, p) float64 or TensorVariable
            A tensor where the function returns one.

        Raises
        ------
        TypeError
            If `functions` is not a mapping, or holds or returns something else.
        ValueError
            If a family is missing or unknown, or a function returns another shape or parameters out of bounds; numbers
            are checked at once, the values of tensors by `CircuitDensity`.

        Examples
        --------
        >>> pair = ps.circuits.IntegralCircuit(("x", "y"), {"x": "gaussian", "y": "gaussian"}, None, n_points=8)
        >>> found = pair.leaf_parameters({"gaussian": lambda z, column: (z, 1.0)})
        >>> found["gaussian"].shape
        (16, 2)
        """
        used = check_names(self.circuit, functions, "functions")
        return {family: self._family(family, functions[family]) for family in used}

    def _family(self, family: str, function: Callable[..., Any]) -> Any:
        column = self.circuit.leaf_column[self.circuit.leaves_of(family)]
        z = np.empty(column.size)
        for d in np.unique(column):  # the leaves of a column follow its points
            z[column == d] = self.points
        name = f"functions[{family!r}]"
        out = _called(name, function, z, column, several=True)
        if isinstance(out, tuple):
            if not out:
                raise ValueError(f"{name} must return a leaf's parameters, got an empty tuple")
            parts = [_broadcast(f"{name}, parameter {i}", part, (z.size,)) for i, part in enumerate(out)]
            tensors = any(isinstance(part, Variable) for part in parts)
            out = pt.stack(parts, axis=1) if tensors else np.stack(parts, axis=1)
        elif out.ndim < 2:
            out = _broadcast(name, out, (z.size,))[:, None]
        elif out.ndim > 2 or (out.type.shape if isinstance(out, Variable) else out.shape)[0] not in (None, z.size):
            raise ValueError(f"{name} must return shape ({z.size}, p), got {_shape(out)}")
        return out if isinstance(out, Variable) else checked_family(self.circuit, family, out)


def integral_circuit(
    data: TableLike,
    n_points: int = 32,
    leaves: Mapping[str, str] | None = None,
    *,
    tree: str | Mapping[str, str | None] = "chow_liu",
    rule: str = "trapezoid",
    interval: tuple[float, float] = (-6.0, 6.0),
    dependence: str = "mutual_information",
    kinds: Mapping[str, str] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> IntegralCircuit:
    """Circuit with continuous hidden variables: a tree of them, one for each column, or one for all columns.

    The densities of the hidden variables and the parameters of the leaves given their values are functions, written in
    PyTensor or NumPy. They may have as few parameters as you like. Put priors on these, and
    `IntegralCircuit.log_weights` and `IntegralCircuit.leaf_parameters` into a `CircuitDensity`. NUTS samples them. The
    circuit is that of `hidden_chow_liu_tree` with as many states as there are points.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow, Table, dict or array
        What ``ps.SPN(observed=)`` takes; only the columns, and for "chow_liu" the tree, are learned from it.
    n_points : int
        Points for each hidden variable, at least 2.
    leaves : mapping of str to str, optional
        One family for each column; by default by kind, as in `rat_spn`.
    tree : {"chow_liu", "star"} or mapping of str to str or None
        "chow_liu": the tree of largest total dependence, from its centre. A mapping gives the parent of each column,
        None for the root. "star": no tree but one hidden variable for all columns, as in a model of one factor.
    rule : {"trapezoid", "legendre"}
        Both converge geometrically if all functions are smooth. "trapezoid" (equal steps, half a weight at the ends) is
        for densities that vanish at the ends of the interval, with about half the points of the other. "legendre"
        (Gauss's) is also for those that do not, such as a uniform one. For a normal density of standard deviation s,
        the error of the trapezoidal rule with step h is 2 exp(-2 (πs/h)²) of its value. That is 5e-9 at h = s, 0.01 at
        h = 2 s.
        What counts is the narrowest density of a hidden variable *given its neighbours and its cell*, with a Gaussian
        leaf at most sd / slope wide.
    interval : tuple of float
        Lowest and highest value of all hidden variables. Wide enough for their densities and for the rows: beyond it
        nothing is integrated.
    dependence : {"mutual_information", "rdc"}
        As in `learn_tree`, for "chow_liu"; missing cells are left out pair by pair.
    kinds : dict, optional
        As in `Table.from_frame`.
    random_seed : int, Generator or None
        Of the random features of "rdc".

    Returns
    -------
    IntegralCircuit

    Raises
    ------
    ValueError
        For arguments out of range, columns without leaves, unknown families, and an interval too narrow for different
        points. For a mapping that is not a tree, data that `Table.from_frame` refuses, and more than `MAX_EDGES` edges.
    TypeError
        For leaves that are not a mapping or do not name one family for each column, and data of another type.

    Examples
    --------
    >>> found = ps.circuits.integral_circuit(rows, n_points=8, random_seed=1)
    >>> found.circuit.n_sum
    9

    References
    ----------
    Gala, de Campos, Peharz, Vergari and Quaeghebeur (2024), Probabilistic integral circuits, AISTATS. Gala, de Campos,
    Vergari and Quaeghebeur (2024), Scaling continuous latent variable models as probabilistic integral circuits,
    NeurIPS. Trefethen and Weideman (2014), doi:10.1137/130932132, for the trapezoidal rule.
    """
    if not isinstance(dependence, str) or dependence not in MEASURES:
        raise ValueError(f"dependence must be one of {sorted(MEASURES)}, got {quoted(dependence)}")
    if not isinstance(tree, Mapping) and not (isinstance(tree, str) and tree in ("chow_liu", "star")):
        raise ValueError(f"tree must be 'chow_liu', 'star' or a mapping from columns to parents, got {quoted(tree)}")
    table = read_table(data, kinds)
    if leaves is None:
        leaves = {c.name: FAMILY_OF_KIND[c.kind] for c in table.columns}
    parent: Mapping[str, str | None] | None = None
    if isinstance(tree, Mapping):
        parent = dict(tree)
    elif tree == "chow_liu":
        names = [c.name for c in table.columns]
        found = tree_of_dependence(table, dependence, np.random.default_rng(random_seed))
        parent = {names[d]: None if above is None else names[above] for d, above in found.items()}
    return IntegralCircuit(table.columns, leaves, parent, n_points, rule, interval)


def _quadrature(rule: Any, n_points: int, interval: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Points (n,), ascending, and weights (n,) of a rule on an interval."""
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(f"rule must be one of {list(RULES)}, got {quoted(rule)}")
    low, high = interval
    if rule == "legendre":
        points, weights = np.polynomial.legendre.leggauss(n_points)
        points, weights = 0.5 * (low + high) + 0.5 * (high - low) * points, 0.5 * (high - low) * weights
    else:
        points, weights = np.linspace(low, high, n_points), np.full(n_points, (high - low) / (n_points - 1))
        weights[[0, -1]] *= 0.5
    if not (np.all(np.diff(points) > 0.0) and np.all(weights > 0.0)):
        raise ValueError(f"interval must be wide enough for n_points={n_points} different points, got {interval}")
    return points, weights


def _checked_interval(interval: Any) -> tuple[float, float]:
    ends = list(interval) if isinstance(interval, Sequence | np.ndarray) and np.ndim(interval) == 1 else []
    if len(ends) != 2 or not all(map(is_real, ends)):
        raise ValueError(f"interval must be two numbers (low, high), got {quoted(interval)}")
    low, high = float(ends[0]), float(ends[1])
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"interval must be two finite numbers (low, high) with low < high, got {quoted(interval)}")
    if not np.isfinite(high - low):
        raise ValueError(f"interval must have a finite length, got {quoted(interval)}")
    return low, high


def _check_one_family(leaves: Any) -> None:
    """Beside what `leaf_palettes` checks: a hidden value has one leaf for each column, so one family."""
    for name, family in leaves.items() if isinstance(leaves, Mapping) else ():
        if not isinstance(family, str):
            raise TypeError(f"leaves must name one family for every column, got {quoted(family)} for {name!r}")


def _edges_from_root(parent: Any, names: list[str]) -> tuple[tuple[str, str], ...]:
    """(parent, column) of each edge of a tree, breadth first; children in the order of the columns."""
    if not isinstance(parent, Mapping):
        raise TypeError(f"tree must be a mapping from columns to parents, got {quoted(parent)}")
    parent = {name: as_name(above) for name, above in by_name("tree", parent).items()}
    for name in names:
        if name not in parent:
            raise ValueError(f"tree must name a parent, or None, for every column, {name!r} is missing")
    for name, above in parent.items():
        if name not in names:
            raise ValueError(f"tree: {name!r} is not a column; the columns are {quoted(names)}")
        if above is not None and (not isinstance(above, str) or above not in names):
            raise ValueError(f"tree must name columns as parents, got {quoted(above)} for {name!r}")
    roots = [name for name in names if parent[name] is None]
    if len(roots) != 1:
        raise ValueError(f"tree must have one root, a column whose parent is None, got {roots}")
    edges: list[tuple[str, str]] = []
    reached = roots
    for above in reached:  # grows while it is read
        below = [name for name in names if parent[name] == above]
        reached += below
        edges += [(above, name) for name in below]
    if len(reached) < len(names):
        left = [name for name in names if name not in reached]
        raise ValueError(
            f"tree must lead from every column to the root {roots[0]!r}, {left} are on a cycle or below it"
        )
    return tuple(edges)


def _called(name: str, function: Any, *given: np.ndarray, several: bool = False) -> Any:
    """What a user's function returns: a tensor, an array, or, if `several`, a tuple of these."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {quoted(function)}")
    for array in given:
        array.setflags(write=False)
    out = function(*given)
    return tuple(_numbers(name, part) for part in out) if several and isinstance(out, tuple) else _numbers(name, out)


def _numbers(name: str, out: Any) -> Any:
    if isinstance(out, Variable):
        return pt.as_tensor_variable(out)
    try:
        array = np.asarray(out)
    except ValueError as error:  # rows of different lengths
        raise TypeError(f"{name} must return an array of numbers or a tensor: {error}") from None
    # no None, text or answers of yes and no; a list of tensors is an array of objects
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must return an array of numbers or a tensor, got {quoted(out)}")
    return array.astype(np.float64)


def _shape(x: Any) -> tuple[int | None, ...]:
    return x.type.shape if isinstance(x, Variable) else x.shape


def _broadcast(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    """The array or tensor in a shape; a length that a tensor does not know yet is held when it is computed."""
    own = _shape(x)
    fits = len(own) <= len(shape) and all(
        k in (None, 1, n) for k, n in zip(own, shape[len(shape) - len(own) :], strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must return what broadcasts to shape {shape}, got {own}")
    return x + np.zeros(shape)


def _normalised(name: str, logs: Any, log_weights: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Log of weight times density, in `shape`, with total 1 along the last axis."""
    logs = _broadcast(name, logs, shape)
    if isinstance(logs, Variable):
        return pt.special.log_softmax(logs + log_weights, axis=-1)
    wrong = np.isnan(logs) | np.isposinf(logs)
    if np.any(wrong):
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name} must return numbers below infinity, got {logs[at]} at {_place(at)}")
    empty = np.isneginf(logs).all(axis=-1)
    if np.any(empty):
        at = tuple(int(i) for i in np.argwhere(empty)[0])
        raise ValueError(f"{name} must be finite at some point, got -inf at all points{' of ' * bool(at)}{_place(at)}")
    return log_softmax(logs + log_weights, axis=-1)


def _place(at: tuple[int, ...]) -> str:
    """Where an entry (point,) of the root's logs or (edge, point of the parent, point) of the edges' stands."""
    names = ("point",) if len(at) == 1 else ("edge", "point of the parent", "point")
    return ", ".join(f"{name} {i}" for name, i in zip(names, at, strict=False))
