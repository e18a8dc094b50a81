"""From labels and gaps to codes: what the rows of evidence say about the variables of a graph."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.tables.frame_kinds import column_array, pandas_frame, shared_columns


@dataclass(frozen=True)
class Evidence:
    """Coded evidence.

    Parameters
    ----------
    codes : (n_rows or 0, n_variables) int32
        -1 where unobserved; no rows when nothing is observed.
    soft : (n_rows, 1 or 0, n_states) float64
        Log evidence over the states of all variables.
    rows : pandas Index or None
        None for a single row asked without a row dimension.
    """

    codes: np.ndarray
    soft: np.ndarray
    rows: Any

    @property
    def n_rows(self) -> int:
        """Number of rows, 1 without a row dimension."""
        return 1 if self.rows is None else len(self.rows)

    def row_name(self, row: int) -> str:
        """How messages name a row."""
        return "the evidence" if self.rows is None else f"row {self.rows[row]!r}"


def code_evidence(fg: Any, given: Any, soft_evidence: Any, state_start: np.ndarray) -> Evidence:
    """Code ``given`` and ``soft_evidence`` of `JunctionTree.infer`, about the variables of the graph `fg`.

    Raises
    ------
    ValueError
        If a name is not a variable, a value is not a state, a length does not fit, or soft evidence is NaN or +inf.
    """
    columns, rows = _columns(given)
    if rows is not None:  # a condition has no others, rows may
        columns = {name: columns[name] for name in shared_columns(list(columns), fg.names, "given")}
    if soft_evidence is not None and not isinstance(soft_evidence, Mapping):
        raise TypeError(f"soft_evidence must be a mapping of names to arrays, got {type(soft_evidence).__name__}")
    soft = {} if soft_evidence is None else {k: np.asarray(v, dtype=np.float64) for k, v in soft_evidence.items()}
    for name, table in soft.items():
        (v,) = fg.numbers((name,))
        k = int(fg.card[v])
        if table.ndim not in (1, 2) or table.shape[-1] != k:
            raise ValueError(f"soft_evidence[{name!r}] must have shape ({k},) or (rows, {k}), got {table.shape}")
        if table.ndim == 2:
            if rows is None and not columns:
                rows = pd.RangeIndex(len(table))
            if rows is None or len(table) != len(rows):
                n = 1 if rows is None else len(rows)
                raise ValueError(f"soft_evidence[{name!r}] must have as many rows as given, {n}, got {len(table)}")
        wrong = np.isnan(table) | (table == np.inf)
        if np.any(wrong):
            place = tuple(np.argwhere(wrong)[0].tolist())
            where = f"row {place[0]}, " if table.ndim == 2 else ""
            raise ValueError(
                f"soft_evidence[{name!r}] must be finite or -inf, got {table[place]} at {where}"
                f"state {fg.states[v][place[-1]]!r}"
            )
    n_rows = 1 if rows is None else len(rows)
    codes = np.empty((0, len(fg.names)), dtype=np.int32)
    if columns:
        codes = np.full((n_rows, len(fg.names)), -1, dtype=np.int32)
        for name, values in columns.items():
            (v,) = fg.numbers((name,))
            codes[:, v] = code_values(values, fg.states[v], name, rows)
    logs = np.zeros((0, int(state_start[-1])))
    if soft:
        logs = np.zeros((n_rows if any(t.ndim == 2 for t in soft.values()) else 1, int(state_start[-1])))
        for name, table in soft.items():
            v = fg.number[name]
            logs[:, state_start[v] : state_start[v + 1]] = table
    return Evidence(codes, logs, rows)


def _columns(given: Any) -> tuple[dict[str, Any], Any]:
    given = pandas_frame(given, "given")
    if given is None:
        return {}, None
    if isinstance(given, pd.Series):
        given = given.to_dict()
    if isinstance(given, Mapping):
        given = {name: column_array(x) for name, x in given.items()}
        scalar = [name for name, x in given.items() if np.ndim(x) == 0 or isinstance(x, str)]
        if len(scalar) == len(given):
            return {name: [x.item() if hasattr(x, "item") else x] for name, x in given.items()}, None
        if scalar:
            raise ValueError(f"given must hold scalars only or columns only, but {scalar[0]!r} is a scalar")
        lengths = {name: len(x) for name, x in given.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"given must have columns of equal length, got {lengths}")
        index = next((x.index for x in given.values() if isinstance(x, pd.Series)), None)
        given = pd.DataFrame(
            {name: x if isinstance(x, pd.Series) else pd.Series(x, index=index) for name, x in given.items()}
        )
        if len(given) != next(iter(lengths.values())):
            raise ValueError(f"given must have Series of equal index labels, together they have {len(given)} rows")
    if not isinstance(given, pd.DataFrame):
        raise TypeError(f"given must be a DataFrame, a mapping of names to states, or None, got {type(given).__name__}")
    twice = given.columns[given.columns.duplicated()]
    if len(twice):
        raise ValueError(f"given must have distinct columns, {twice[0]!r} occurs twice")
    if not len(given):
        raise ValueError("given must have at least one row, got none")
    return {name: given[name] for name in given.columns}, given.index


def code_values(values: Any, states: tuple[Any, ...], name: str, rows: Any = None) -> np.ndarray:
    """(n,) int32 codes of labels, -1 for NaN, None, pd.NA and what is masked."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None where masked
    if isinstance(states[0], bool | int) and not isinstance(values, list):
        array = values.to_numpy() if isinstance(values, pd.Series) else np.asarray(values)
        if array.dtype.kind in "fiu" and states == tuple(range(len(states))):
            return _code_counts(array, len(states), name, states, rows)
    labels = values.tolist() if isinstance(values, pd.Series) else list(values)
    code = {label: i for i, label in enumerate(states)}
    codes = np.array([code.get(x, -1) if isinstance(x, Hashable) else -1 for x in labels], dtype=np.int32)
    strange = codes < 0
    if np.any(strange):
        missing = pd.isna(pd.Series(labels, dtype=object)).to_numpy()
        _refuse_unknown(strange & ~missing, labels, name, states, rows)
    return codes


def _code_counts(array: np.ndarray, n_states: int, name: str, states: tuple[Any, ...], rows: Any) -> np.ndarray:
    missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
    codes = np.where(missing, -1, array)
    whole = codes.astype(np.int32, copy=False) if np.all(np.abs(codes) < 2**31) else np.full(array.shape, -2)
    _refuse_unknown(~missing & ((whole != codes) | (codes < 0) | (codes >= n_states)), array, name, states, rows)
    return whole.astype(np.int32)


def _refuse_unknown(wrong: np.ndarray, values: Any, name: str, states: tuple[Any, ...], rows: Any) -> None:
    if np.any(wrong):
        i = int(np.argmax(wrong))
        value = values[i].item() if isinstance(values[i], np.generic) else values[i]
        at = "" if rows is None else f" in row {rows[i]!r}"
        raise ValueError(f"given[{name!r}] must be a state of the variable{at}: {value!r} is none of {states!r}")
