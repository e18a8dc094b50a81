"""Weights and leaf parameters of a circuit: checked, and laid out flat for the kernels."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.scipy_leaves import as_rows
from pymc_spn.numerics.quoted_values import quoted

WEIGHT_TOLERANCE = 1e-6  # how far the weights of a sum may be from adding up to 1
SUM = 0


class FlatParameters(NamedTuple):
    """Leaf parameters of all families in one vector: row r of family f is ``theta[begin[f] + r width[f]:][:width[f]]``.

    Families stand in the order of the circuit's `families`; one without leaves, or of SciPy's, has width 0.
    """

    theta: np.ndarray
    begin: np.ndarray
    width: np.ndarray


def checked_values(circuit: Any, values: Any) -> np.ndarray:
    """Rows as (n, D) float64; those of a DataFrame are matched by the names of its columns, others by position."""
    if hasattr(values, "columns"):  # pandas is not imported here: kernels stand in the modules above
        return frame_values(circuit.columns, values)
    values = array_values(values)
    if values.ndim != 2 or values.shape[1] != len(circuit.columns):
        raise ValueError(f"values must have shape (rows, {len(circuit.columns)}), got {values.shape}")
    return np.ascontiguousarray(values)


def array_values(values: Any, argument: str = "values") -> np.ndarray:
    """An array of numbers as float64; NaN where it is masked, as what stands below a mask is no observation.

    Raises
    ------
    TypeError
        For what NumPy would turn into numbers without a word: text, datetimes and time differences; and for complex
        numbers.
    """
    try:
        cells = np.asanyarray(values)
        if cells.dtype.kind == "c":
            raise TypeError("complex numbers have no place on a line")
        if cells.dtype.kind in "Mm":
            days = "(x - x.min()) / np.timedelta64(1, 'D')" if cells.dtype.kind == "M" else "x / np.timedelta64(1, 'D')"
            raise TypeError(f"dtype {cells.dtype} is not numeric; convert it, for example to days: {days}")
        if cells.dtype.kind in "US" or (cells.dtype.kind == "O" and any(isinstance(x, str) for x in cells.flat)):
            raise TypeError("text is not numeric; convert it, for example with astype(float)")
        if isinstance(cells, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(cells.astype(np.float64), np.nan))
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument} must be rows of numbers, got {type(values).__name__}: {error}") from None


def frame_values(columns: Sequence[Any], frame: Any, argument: str = "values") -> np.ndarray:
    """Coded rows (n, D) of a DataFrame in the order of a circuit's columns; levels by the schema of a column.

    Parameters
    ----------
    columns : sequence of str or Column
    frame : DataFrame
    argument : str
        What messages call the rows.
    """
    names = [column if isinstance(column, str) else column.name for column in columns]
    if not hasattr(frame, "iloc"):
        raise TypeError(
            f"{argument} must be an array or a pandas DataFrame, got {type(frame).__module__}.{type(frame).__name__}; "
            "of a ps.Table give its values, others convert with to_pandas()"
        )
    given = [str(label) for label in frame.columns]
    twice = [name for position, name in enumerate(given) if name in given[:position]]
    if twice:
        raise ValueError(f"{argument} must have distinct columns, {twice[0]!r} occurs twice")
    missing, unknown = [n for n in names if n not in given], [n for n in given if n not in names]
    if missing or unknown:
        raise ValueError(
            f"{argument} must have the circuit's columns {quoted(names)}; "
            f"missing {quoted(missing)}, unknown {quoted(unknown)}"
        )
    out = np.empty((len(frame), len(names)))
    for d, name in enumerate(names):
        cells, levels = frame.iloc[:, given.index(name)], getattr(columns[d], "levels", None)
        if levels is not None:
            out[:, d] = _codes(name, cells, levels, argument)
        elif cells.dtype.kind in "biuf":
            out[:, d] = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        elif cells.isna().all():
            out[:, d] = np.nan
        elif cells.dtype == object and all(isinstance(x, Real | np.bool_) for x in cells[cells.notna()]):
            out[:, d] = [np.nan if gap else float(x) for x, gap in zip(cells, cells.isna(), strict=True)]
        else:
            raise TypeError(
                f"{argument}: column {name!r} must hold numbers, got dtype {cells.dtype}; levels that the circuit does "
                "not know are given as codes"
            )
    return out


def _codes(name: str, cells: Any, levels: tuple[Any, ...], argument: str) -> np.ndarray:
    """Codes (n,) of a column's cells, a pandas Series, by its levels; NaN where a cell is missing."""
    code = {level: float(k) for k, level in enumerate(levels)}
    out = np.full(len(cells), np.nan)
    for n, (cell, is_missing) in enumerate(zip(cells.tolist(), cells.isna().tolist(), strict=True)):
        if is_missing:
            continue
        if cell not in code:
            raise ValueError(
                f"{argument}: column {name!r} must hold its levels {quoted(list(levels))}, got {quoted(cell)} in row "
                f"{cells.index[n]!r}; rows of codes are given as an array"
            )
        out[n] = code[cell]
    return out


def checked_weights(circuit: Any, log_weights: Any) -> np.ndarray:
    """Log weights as (n_sum_edges,) float64; refused unless each sum's weights add up to 1."""
    log_weights = _numbers("log_weights", log_weights)
    if log_weights.shape != (circuit.n_sum_edges,):
        raise ValueError(f"log_weights must have shape ({circuit.n_sum_edges},), got {log_weights.shape}")
    log_weights = np.ascontiguousarray(log_weights)
    wrong = np.isnan(log_weights) | (log_weights > WEIGHT_TOLERANCE)
    if np.any(wrong):
        e = int(np.argmax(wrong))
        raise ValueError(
            f"log_weights must be at most 0, got {log_weights[e]} at entry {e}, of sum {circuit.edge_sum[e]}"
        )
    total = np.bincount(circuit.edge_sum, weights=np.exp(log_weights), minlength=circuit.n_nodes)
    wrong = (circuit.kind == SUM) & (np.abs(total - 1.0) > WEIGHT_TOLERANCE)
    if np.any(wrong):
        s = int(np.argmax(wrong))
        raise ValueError(f"weights of each sum must add up to 1, got {total[s]} at sum {s}")
    return log_weights


def _numbers(argument: str, given: Any) -> np.ndarray:
    """As float64, an error naming the argument."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument} must hold numbers, got {type(given).__name__}: {error}") from None


def families_in_use(circuit: Any) -> list[str]:
    """Families that some leaf has."""
    return [f for i, f in enumerate(circuit.families) if np.any(circuit.leaf_family == i)]


def refuse_distributions(circuit: Any, what: str, allowed: Sequence[str] = ()) -> None:
    """Refuse leaves without kernels where they would have to be known by a formula; not families that are allowed."""
    for name in families_in_use(circuit):
        if name in allowed:
            continue
        if LEAF_FAMILIES[name].kernels is None:
            leaf = circuit.leaves_of(name)[0]
            raise ValueError(f"{what} must have no {name} leaves; leaf {leaf} of {names_of_leaf(circuit, leaf)} is one")


def names_of_leaf(circuit: Any, leaf: int) -> str:
    """Names of a leaf's columns, for messages."""
    return " and ".join(repr(circuit.names[d]) for d in circuit.columns_of(leaf))


def check_names(circuit: Any, given: Mapping[str, Any]) -> list[str]:
    """Families in use, if the mapping has an entry for each of them and for no other."""
    if not isinstance(given, Mapping):
        raise TypeError(f"leaf_parameters must be a mapping from families, got {quoted(given)}")
    used = families_in_use(circuit)
    for name in given:
        if name not in circuit.families:
            raise ValueError(f"leaf_parameters must be given for {tuple(used)}, got {quoted(name)}")
    for name in used:
        if name not in given:
            raise ValueError(f"leaf_parameters must be given for {tuple(used)}, {name!r} is missing")
    return used


def checked_parameters(circuit: Any, leaf_parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Leaf parameters (n, p) by family; the family, row, leaf and column of a bad one are named."""
    names = check_names(circuit, leaf_parameters)
    return {name: checked_family(circuit, name, leaf_parameters[name]) for name in names}


def checked_family(circuit: Any, name: str, given: Any) -> np.ndarray:
    """Leaf parameters (n, p) of one family; distributions of SciPy as (n, 1) objects."""
    family = LEAF_FAMILIES[name]
    holds_objects = family.holds_objects
    given = as_rows(name, given) if holds_objects else _numbers(f"leaf_parameters[{name!r}]", given)
    leaves = circuit.leaves_of(name)
    if given.ndim != 2 or given.shape[0] != leaves.size:
        raise ValueError(f"leaf_parameters[{name!r}] must have shape ({leaves.size}, p), got {given.shape}")
    if family.n_columns > 1 or circuit.further_columns:
        for leaf in leaves.tolist():
            if len(circuit.columns_of(leaf)) != family.n_columns:
                raise ValueError(
                    f"{name} leaves are over {family.n_columns} columns, leaf {leaf} is over "
                    f"{names_of_leaf(circuit, leaf)}"
                )
    problem = family.problem(given)
    if problem is not None:
        row, rule = problem
        raise ValueError(
            f"leaf_parameters[{name!r}]: {rule}, got {_shown(given[row])} at row {row}, "
            f"leaf {leaves[row]} of {names_of_leaf(circuit, leaves[row])}"
        )
    return given


def _shown(row: np.ndarray) -> str:
    """A row of parameters, or a distribution by its name and arguments."""
    dist = getattr(row[0], "dist", None)
    if dist is None:
        return repr(row.tolist())
    arguments = [repr(a) for a in row[0].args] + [f"{name}={value!r}" for name, value in row[0].kwds.items()]
    return f"{getattr(dist, 'name', type(dist).__name__)}({', '.join(arguments)})"


def flatten(circuit: Any, parameters: Mapping[str, np.ndarray]) -> FlatParameters:
    """One vector of all checked leaf parameters that are numbers."""
    none = np.zeros((0, 0))
    own = [none if LEAF_FAMILIES[f].holds_objects else parameters.get(f, none) for f in circuit.families]
    size = np.array([rows.size for rows in own], np.int64)
    width = np.array([rows.shape[1] for rows in own], np.int64)
    return FlatParameters(np.concatenate([rows.ravel() for rows in own]), np.cumsum(size) - size, width)
