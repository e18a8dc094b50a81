"""`leaf`, `mixture_of` and `product_of`: circuits with parameters made of circuits with parameters.

Any circuit so becomes a part of another, below a sum or next to others below a product. The parts are copied as they
are; nothing about them is estimated again.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.parameters import WEIGHT_TOLERANCE, checked_family
from pymc_spn.circuits.laws.circuit_events import masses_of
from pymc_spn.circuits.laws.joined_circuits import Part, joined
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.parameterised import CircuitLike, ParameterisedCircuit, checked_operand
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES, is_over
from pymc_spn.leaves.family_codes import IN_CIRCUITS
from pymc_spn.leaves.scipy_leaves import family_of
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column


def leaf(
    column: str | Column | tuple[str | Column, ...], distribution: object, parameters: Sequence[float] | None = None
) -> ParameterisedCircuit:
    """Build a circuit of one leaf, for `mixture_of` and `product_of`.

    ``ps.circuits.leaf("x", "gaussian", (0.0, 2.0))``, or with any univariate distribution of SciPy
    ``ps.circuits.leaf("x", stats.skewnorm(4.0))``.

    Parameters
    ----------
    column : str or Column, or tuple of them
        Several for a multivariate family, in its order.
    distribution : str or frozen distribution of `scipy.stats`
        Name of a family, see the table of `Circuit`. A distribution makes a leaf of the family ``scipy_continuous`` or
        ``scipy_discrete``. If there is a family of the same shape, its name is faster and answers more.
    parameters : sequence of float, optional
        Parameters of the family; none for a distribution.

    Returns
    -------
    ParameterisedCircuit

    Raises
    ------
    TypeError
        If the distribution is neither, or parameters are not numbers.
    ValueError
        If the family is unknown, its parameters are missing or not valid, or parameters are given together with a
        distribution.

    Examples
    --------
    >>> ps.circuits.leaf("x", "gaussian", (0.0, 2.0)).probability({"x": (0.0, None)}).item()
    0.5
    """
    if isinstance(distribution, str):
        family = distribution
        n_columns = len(column) if isinstance(column, tuple) else 1
        if not is_over(family, n_columns) or LEAF_FAMILIES[family].holds_objects:
            names = (f"{f}[{n_columns}]" if is_over(f"{f}[{n_columns}]", n_columns) else f for f in IN_CIRCUITS)
            known = tuple(f for f in names if is_over(f, n_columns) and not LEAF_FAMILIES[f].holds_objects)
            raise ValueError(
                f"distribution must be among {known} or a distribution of scipy.stats, got {quoted(family)}"
            )
        if parameters is None:
            raise ValueError(f"parameters must be given for a {family} leaf")
        if isinstance(parameters, str | Mapping | Set):
            raise TypeError(f"parameters must be a sequence of numbers in their order, got {quoted(parameters)}")
        own: Any = [list(parameters)] if isinstance(parameters, Iterable) else parameters
    else:
        family, own = family_of(distribution), [distribution]
        if parameters is not None:
            raise ValueError(
                f"parameters must be left out if a distribution of scipy.stats is given, got {quoted(parameters)}"
            )
    columns = column if isinstance(column, tuple) else (column,)
    nodes = {"kind": [LEAF], "child_ptr": [0, 0], "children": [], "leaf_column": [0], "leaf_family": [0]}
    arrays: Any = {key: np.array(value, np.int64) for key, value in nodes.items()}
    further = {0: range(1, len(columns))} if len(columns) > 1 else {}
    circuit = Circuit(**arrays, families=(family,), columns=columns, further_columns=further)
    return ParameterisedCircuit(circuit, np.zeros(0), {family: checked_family(circuit, family, own)})


def mixture_of(
    circuits: Iterable[CircuitLike], weights: Sequence[float] | np.ndarray | None = None
) -> ParameterisedCircuit:
    """Build the mixture of circuits over the same columns.

    It is one sum above them: its density is the weighted sum of theirs.

    Parameters
    ----------
    circuits : sequence of circuits with parameters, or tuples
        What `Circuit.with_parameters`, `leaf` or `as_circuit` returns. A tuple holds circuit, log_weights and
        leaf_parameters. Their columns are the same, in any order; the mixture has those of the first. A column has
        densities in all of them or masses in all. The levels of text are those in its table. If you learn the circuits
        from parts of the rows, make such columns categorical before you divide the rows.
    weights : (n_circuits,) array_like, optional
        Positive, adding up to 1 (within 1e-6, as for the weights of every sum). By default equal.

    Returns
    -------
    ParameterisedCircuit

    Raises
    ------
    TypeError
        If something among the circuits is not a circuit with parameters.
    ValueError
        If there is no circuit, or columns or their kinds or levels differ. If a column has densities in one and masses
        in another, parameters are not valid, or weights are not as above.

    Examples
    --------
    >>> ps.circuits.mixture_of([low, high], [0.75, 0.25]).mean().values
    array([1., 1.])
    """
    parts = _checked_parts(circuits)
    columns = _shared_columns([part.circuit for part in parts])
    return ParameterisedCircuit(*joined(SUM, parts, columns, _log_shares(weights, len(parts))))


def product_of(circuits: Iterable[CircuitLike]) -> ParameterisedCircuit:
    """Build the product of circuits over disjoint columns.

    Parameters
    ----------
    circuits : sequence of circuits with parameters, or tuples
        As for `mixture_of`, but no column occurs in two of them. The columns of the product are theirs, one circuit
        after the other.

    Returns
    -------
    ParameterisedCircuit

    Raises
    ------
    TypeError
        If something among the circuits is not a circuit with parameters.
    ValueError
        If there is no circuit, two of them have a column in common, or parameters are not valid.

    Examples
    --------
    >>> coins = [ps.circuits.leaf(name, "bernoulli", (0.5,)) for name in ("a", "b")]
    >>> ps.circuits.product_of(coins).probability({"a": 1, "b": 1}).item()
    0.25
    """
    parts = _checked_parts(circuits)
    place: dict[str, int] = {}
    for k, part in enumerate(parts):
        for name in part.circuit.names:
            if name in place:
                raise ValueError(
                    f"circuits must have disjoint columns, {name!r} is in circuits[{place[name]}] and circuits[{k}]"
                )
        place |= dict.fromkeys(part.circuit.names, k)
    columns = tuple(column for part in parts for column in part.circuit.columns)
    return ParameterisedCircuit(*joined(PRODUCT, parts, columns, np.zeros(0)))


def _checked_parts(circuits: Any) -> list[Part]:
    """Circuits with checked parameters, an error naming the place of the bad one."""
    # sets have no order, mappings would give their keys
    alone = isinstance(circuits, ParameterisedCircuit | Circuit | Mapping | Set)
    if alone or not isinstance(circuits, Iterable):
        raise TypeError(f"circuits must be a sequence of circuits with parameters, got {type(circuits).__name__}")
    parts = [Part(*checked_operand(f"circuits[{k}]", given)) for k, given in enumerate(circuits)]
    if not parts:
        raise ValueError("circuits must hold at least one circuit, got none")
    return parts


def _shared_columns(circuits: list[Circuit]) -> tuple[Any, ...]:
    """Columns in the order of the first circuit, with a schema where some circuit has one."""
    columns = dict(zip(circuits[0].names, circuits[0].columns, strict=True))
    known_at = dict.fromkeys(columns, 0)  # the circuit of which a column's schema is
    mass = dict(zip(columns, masses_of(circuits[0]).tolist(), strict=True))
    for k, circuit in enumerate(circuits):
        alone = [(name, 0, k) for name in columns if name not in circuit.names]
        alone += [(name, k, 0) for name in circuit.names if name not in columns]
        if alone:
            name, at, other = alone[0]
            raise ValueError(
                f"circuits must have the same columns, {name!r} is in circuits[{at}] and not in circuits[{other}]"
            )
        for name, column, is_mass in zip(circuit.names, circuit.columns, masses_of(circuit).tolist(), strict=True):
            own = columns[name]
            if not isinstance(own, Column):
                columns[name], known_at[name] = column, k
            elif isinstance(column, Column) and (own.kind, own.levels) != (column.kind, column.levels):
                raise ValueError(
                    f"column {name!r} must be of the same kind and levels in all circuits, got {own.kind} {own.levels} "
                    f"in circuits[{known_at[name]}] and {column.kind} {column.levels} in circuits[{k}]"
                )
            if mass[name] != is_mass:
                with_masses, with_densities = (k, 0) if is_mass else (0, k)
                raise ValueError(
                    f"column {name!r} must have densities in all circuits or masses in all, got masses in "
                    f"circuits[{with_masses}] and densities in circuits[{with_densities}]"
                )
    return tuple(columns.values())


def _log_shares(weights: Any, n: int) -> np.ndarray:
    """Log weights (n,) of the parts of a mixture."""
    if weights is None:
        return np.full(n, -np.log(n))
    one_by_one = isinstance(weights, Iterable) and not isinstance(weights, str | bytes | Mapping | Set)
    given = list(weights) if one_by_one and np.ndim(weights) > 0 else None
    if given is None or len(given) != n:
        raise ValueError(f"weights must hold a number for each of the {n} circuits, got {quoted(weights)}")
    for k, weight in enumerate(given):
        if not is_real(weight) or not 0.0 < float(weight) < np.inf:
            raise ValueError(f"weights must be positive finite numbers, got {quoted(weight)} at place {k}")
    shares = np.array(given, np.float64)
    if abs(shares.sum() - 1.0) > WEIGHT_TOLERANCE:
        raise ValueError(f"weights must add up to 1, got {shares.tolist()}, which add up to {shares.sum():g}")
    return np.log(shares)
