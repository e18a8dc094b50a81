"""Leaves over several columns: the columns behind the first one, by node."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from pymc_spn.numerics.quoted_values import quoted

LEAF = 2


def checked_further_columns(circuit: Any, given: Any) -> Mapping[int, tuple[int, ...]]:
    """Columns as tuples of ints by node, ascending; of a circuit whose arrays are checked."""
    if not isinstance(given, Mapping):
        raise TypeError(f"further_columns must be a mapping from nodes to columns, got {quoted(given)}")
    found: dict[int, tuple[int, ...]] = {}
    for node, columns in given.items():
        if not _is_int(node) or not 0 <= node < circuit.n_nodes or circuit.kind[node] != LEAF:
            raise ValueError(f"further_columns must be given for leaves, got {quoted(node)}")
        if not isinstance(columns, Sequence | np.ndarray) or len(columns) == 0 or not all(map(_is_int, columns)):
            raise TypeError(f"further_columns[{node}] must hold numbers of columns, got {quoted(columns)}")
        own = tuple(map(int, columns))
        if min(own) < 0 or max(own) >= len(circuit.columns):
            raise ValueError(f"further_columns[{node}] must be in 0..{len(circuit.columns) - 1}, got {own}")
        if len({int(circuit.leaf_column[node]), *own}) <= len(own):
            raise ValueError(
                f"further_columns[{node}] must be distinct and other than leaf_column[{node}], "
                f"{circuit.leaf_column[node]}, got {own}"
            )
        found[int(node)] = own
    return MappingProxyType(dict(sorted(found.items())))


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
