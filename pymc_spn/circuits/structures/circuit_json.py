"""Explicit circuits as JSON values and back, exactly: integers, names, and ends of supports."""

import math
import sys
from collections.abc import Mapping
from typing import Any

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column

JSON_FORMAT = "circuit/1"
ARRAYS = ("kind", "child_ptr", "children", "leaf_column", "leaf_family")
NAMES = ("columns", "families", *ARRAYS, "leaf_support", "further_columns")


def circuit_to_json(circuit: Any) -> dict[str, Any]:
    """See `Circuit.to_json`. An interval becomes a list of its ends, infinite ones as "inf" and "-inf"."""
    supports = circuit.leaf_support
    return {
        "format": JSON_FORMAT,
        "columns": [c if isinstance(c, str) else c.to_json() for c in circuit.columns],
        "families": list(circuit.families),
        **{a: getattr(circuit, a).tolist() for a in ARRAYS},
        "leaf_support": supports
        and [[x if math.isfinite(x) else str(x) for x in s] if isinstance(s, tuple) else s for s in supports],
        "further_columns": [[node, *columns] for node, columns in circuit.further_columns.items()],
    }


def fields_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `Circuit`, see `Circuit.from_json`."""
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be the mapping that to_json returned, got {type(data).__name__}")
    if data.get("format") != JSON_FORMAT:
        raise ValueError(f"data must have format {JSON_FORMAT!r}, got {data.get('format')!r}")
    if set(data) != {"format", *NAMES}:
        raise ValueError(f"data must have {list(NAMES)}, got {sorted(map(str, set(data) - {'format'}))}")
    fields = {name: data[name] for name in NAMES}
    for name, value in fields.items():
        if not isinstance(value, list) and not (name == "leaf_support" and value is None):
            raise TypeError(f"{name} must be a list, got {quoted(value)}")
    _check("columns", fields["columns"], lambda c: isinstance(c, str | Mapping), "names or schemas of columns")
    _check("families", fields["families"], lambda f: isinstance(f, str), "names")
    for name in ARRAYS:
        _check(name, fields[name], lambda x: type(x) is int, "integers")
    _check("further_columns", fields["further_columns"], _are_integers, "lists of a node and its further columns")
    fields["further_columns"] = {node: columns for node, *columns in fields["further_columns"]}
    fields["columns"] = tuple(c if isinstance(c, str) else Column.from_json(c) for c in fields["columns"])
    if fields["leaf_support"] is not None:
        _check("leaf_support", fields["leaf_support"], _is_support, "a mask of levels, two ends or null for each leaf")
        fields["leaf_support"] = [tuple(map(float, s)) if isinstance(s, list) else s for s in fields["leaf_support"]]
    return fields


def _check(name: str, values: list[Any], is_valid: Any, what: str) -> None:
    for i, value in enumerate(values):
        if not is_valid(value):
            raise ValueError(f"{name} must hold {what}, got {quoted(value)} at place {i}")


def is_number(value: Any) -> bool:
    """Whether JSON gave a number that a float can hold."""
    return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(type(x) is int for x in value)


def _is_support(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and all(x in ("inf", "-inf") if isinstance(x, str) else is_number(x) for x in value)
    return value is None or type(value) is int
