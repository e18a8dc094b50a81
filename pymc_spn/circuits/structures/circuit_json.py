"""Explicit circuits as JSON values and back, exactly: integers and names."""

import sys
from collections.abc import Mapping
from typing import Any

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column

JSON_FORMAT = "circuit/1"
ARRAYS = ("kind", "child_ptr", "children", "leaf_column", "leaf_family")
NAMES = ("columns", "families", *ARRAYS, "further_columns")


def circuit_to_json(circuit: Any) -> dict[str, Any]:
    """See `Circuit.to_json`."""
    return {
        "format": JSON_FORMAT,
        "columns": [c if isinstance(c, str) else c.to_json() for c in circuit.columns],
        "families": list(circuit.families),
        **{a: getattr(circuit, a).tolist() for a in ARRAYS},
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
        if not isinstance(value, list):
            raise TypeError(f"{name} must be a list, got {quoted(value)}")
    _check("columns", fields["columns"], lambda c: isinstance(c, str | Mapping), "names or schemas of columns")
    _check("families", fields["families"], lambda f: isinstance(f, str), "names")
    for name in ARRAYS:
        _check(name, fields[name], lambda x: type(x) is int, "integers")
    _check("further_columns", fields["further_columns"], _are_integers, "lists of a node and its further columns")
    fields["further_columns"] = {node: columns for node, *columns in fields["further_columns"]}
    fields["columns"] = tuple(c if isinstance(c, str) else Column.from_json(c) for c in fields["columns"])
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
