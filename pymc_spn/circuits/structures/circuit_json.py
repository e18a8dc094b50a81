"""Explicit circuits as JSON values and back, exactly: integers, names, and ends of supports."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.tables import Column

if TYPE_CHECKING:
    from pymc_spn.circuits.structures.circuit import Circuit

JSON_FORMAT = "circuit/1"
ARRAYS = ("kind", "child_ptr", "children", "leaf_column", "leaf_family")


def circuit_to_json(circuit: "Circuit") -> dict[str, Any]:
    """See `Circuit.to_json`. An interval becomes a list of its ends, with None for an infinite one."""
    supports = circuit.leaf_support
    return {
        "format": JSON_FORMAT,
        "columns": [c if isinstance(c, str) else c.to_json() for c in circuit.columns],
        "families": list(circuit.families),
        **{a: getattr(circuit, a).tolist() for a in ARRAYS},
        "leaf_support": supports
        and [[x if math.isfinite(x) else None for x in s] if isinstance(s, tuple) else s for s in supports],
    }


def fields_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `Circuit`, see `Circuit.from_json`."""
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be the mapping that to_json returned, got {type(data).__name__}")
    if data.get("format") != JSON_FORMAT:
        raise ValueError(f"data must have format {JSON_FORMAT!r}, got {data.get('format')!r}")
    names = {"columns", "families", *ARRAYS, "leaf_support"}
    if set(data) != {"format", *names}:
        raise ValueError(f"data must have {sorted(names)}, got {sorted(set(data) - {'format'})}")
    fields = {name: data[name] for name in names}
    fields |= {a: np.array(data[a]) if data[a] else np.empty(0, np.int64) for a in ARRAYS}
    fields["columns"] = tuple(c if isinstance(c, str) else Column.from_json(c) for c in fields["columns"])
    if fields["leaf_support"] is not None:
        fields["leaf_support"] = [_interval(s) if isinstance(s, list) else s for s in fields["leaf_support"]]
    return fields


def _interval(ends: list[float | None]) -> tuple[float, ...]:
    return tuple(default if x is None else x for x, default in zip(ends, (-math.inf, math.inf), strict=True))
