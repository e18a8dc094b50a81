"""What the user knows of the graph: required and forbidden edges, tiers, cells that an experimenter set."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.column import as_name
from pymc_spn.tables.frame_kinds import frame_kind, pandas_frame


@dataclass(frozen=True, eq=False)
class Constraints:
    """Edges and orders that knowledge allows.

    Parameters
    ----------
    allowed, required : (d, d) bool
        Row i: parents of variable i that are possible, and those that it must have.
    must_precede : (d, d) bool
        Row i: variables that stand before it in every order, transitively closed.
    """

    allowed: np.ndarray
    required: np.ndarray
    must_precede: np.ndarray


def position_of(names: Sequence[str], name: Any, place: str) -> int:
    """Number of a variable; refused with the place where an unknown name stands."""
    asked = as_name(name)
    if asked not in names:
        raise ValueError(f"{place} names {name!r}, which is not a variable; the variables are {quoted(list(names))}")
    return list(names).index(asked)


def edge_list(names: Sequence[str], edges: Any, argument: str) -> list[tuple[int, int]]:
    """(parent, child) numbers of a sequence of pairs of names."""
    if edges is None:
        return []
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise TypeError(f"{argument} must be a sequence of (parent, child) pairs, got {quoted(edges)}")
    found = []
    for place, edge in enumerate(edges):
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise ValueError(f"{argument}[{place}] must be a (parent, child) pair, got {quoted(edge)}")
        parent, child = (position_of(names, name, f"{argument}[{place}]") for name in edge)
        if parent == child:
            raise ValueError(f"{argument}[{place}] is an edge from {edge[0]!r} to itself")
        found.append((parent, child))
    return found


def read_constraints(names: Sequence[str], required: Any, forbidden: Any, tiers: Any) -> Constraints:
    """Check and join the user's knowledge.

    Raises
    ------
    ValueError
        If a name is unknown, the tiers hold a variable twice, or an edge is required and forbidden at once. If required
        edges form a cycle or run against the tiers.
    """
    d, level = len(names), _tier_numbers(names, tiers)
    both = np.minimum.outer(level, level) >= 0
    precede = both & np.greater.outer(level, level)
    allowed = ~np.eye(d, dtype=bool) & ~(both & np.less.outer(level, level))
    banned = set(edge_list(names, forbidden, "forbidden"))
    for parent, child in banned:
        allowed[child, parent] = False
    must = np.zeros((d, d), bool)
    for parent, child in edge_list(names, required, "required"):
        words = f"{names[parent]!r} -> {names[child]!r}"
        if (parent, child) in banned:
            raise ValueError(f"{words} is required and forbidden at once")
        if level[parent] > level[child] >= 0:
            raise ValueError(
                f"required {words} runs against the tiers: {names[parent]!r} is in tier {level[parent]}, "
                f"{names[child]!r} in tier {level[child]}"
            )
        must[child, parent] = True
    before = closure(must | precede)
    if before.diagonal().any():
        on_cycle = [names[i] for i in np.flatnonzero(before.diagonal()).tolist()]
        raise ValueError(f"required edges, with the tiers, form a cycle through {on_cycle}")
    return Constraints(allowed & ~before.T, must, before)  # a variable that another must precede is no parent of it


def closure(before: np.ndarray) -> np.ndarray:
    """(d, d) bool: what stands before each variable (row) directly or through others."""
    found = before.copy()
    for k in range(len(found)):
        found[found[:, k]] |= found[k]
    return found


def _tier_numbers(names: Sequence[str], tiers: Any) -> np.ndarray:
    """(d,) int64: the tier of each variable, -1 for those in none."""
    level = np.full(len(names), -1)
    if tiers is None:
        return level
    if isinstance(tiers, str) or not isinstance(tiers, Sequence):
        raise TypeError(f"tiers must be a sequence of lists of names, earliest first, got {quoted(tiers)}")
    place: dict[str, int] = {}
    for number, tier in enumerate(tiers):
        if isinstance(tier, str) or not isinstance(tier, Iterable):
            raise ValueError(f"tiers[{number}] must be a list of names, got {quoted(tier)}")
        for name in tier:
            i = position_of(names, name, f"tiers[{number}]")
            name = names[i]
            if name in place:
                raise ValueError(
                    f"tiers must hold a variable once, got {quoted(name)} in tiers {place[name]} and {number}"
                )
            place[name] = number
            level[i] = number
    return level


def intervened_cells(mask: Any, table: Table) -> np.ndarray:
    """(N, d) bool: cells that the experimenter set."""
    shape = table.values.shape
    if mask is None:
        return np.zeros(shape, bool)
    own, mask = frame_kind(mask), pandas_frame(mask, "interventions")
    if isinstance(mask, pd.DataFrame):
        unknown = sorted(set(map(str, mask.columns)) ^ set(table.names))
        if unknown:
            raise ValueError(f"interventions: its columns must be those of the data; {unknown[0]!r} is in one only")
        if own is None and not mask.index.equals(table.index):
            raise ValueError("interventions: its rows must be those of the data, with the same index in the same order")
        mask = mask.set_axis(mask.columns.map(str), axis=1)[list(table.names)]
        if not mask.isna().any(axis=None):  # nullable truth values as their base
            mask = mask.astype({c: bool for c, dtype in mask.dtypes.items() if dtype == "boolean"})
        mask = mask.to_numpy()
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != shape:
        raise ValueError(
            f"interventions must be bool of shape {shape} (rows, variables), got {array.dtype} of shape {array.shape}"
        )
    return array
