"""What the user knows of the graph: required and forbidden edges, tiers. Sets are the bits of an int."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name


@dataclass(frozen=True)
class Constraints:
    """Edges and orders that knowledge allows.

    Parameters
    ----------
    allowed, required : tuple of int
        By child: parents that are possible, and parents that it must have; bit j stands for variable j.
    must_precede : tuple of int
        By variable: variables that stand before it in every order, transitively closed.
    """

    allowed: tuple[int, ...]
    required: tuple[int, ...]
    must_precede: tuple[int, ...]


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


def read_constraints(names: Sequence[str], required: Any, forbidden: Any, tiers: Any, n_given: int = 0) -> Constraints:
    """Check and join the user's knowledge. The first `n_given` variables stand first, as they are, without parents.

    Raises
    ------
    ValueError
        If a name is unknown, the tiers hold a variable twice, or the order of a given variable is asked for. If an edge
        is required and forbidden at once, or required edges form a cycle or run against the tiers.
    """
    d = len(names)
    everything = (1 << d) - 1
    allowed = [everything & ~(1 << i) for i in range(d)]
    must, precede = [0] * d, [0] * d
    level = _tier_numbers(names, tiers)
    for i in range(d):
        for j in range(d):
            if min(level[i], level[j]) < 0:
                continue
            if level[j] > level[i]:
                allowed[i] &= ~(1 << j)
            elif level[j] < level[i]:
                precede[i] |= 1 << j
    for i in range(d):
        precede[i] |= (1 << min(i, n_given)) - 1
        if i < n_given:
            allowed[i] = 0
            if level[i] >= 0:
                raise ValueError(f"tiers must hold only variables of the present, got {names[i]!r}")
    banned = set(edge_list(names, forbidden, "forbidden"))
    for parent, child in banned:
        allowed[child] &= ~(1 << parent)
    for parent, child in edge_list(names, required, "required"):
        words = f"{names[parent]!r} -> {names[child]!r}"
        if (parent, child) in banned:
            raise ValueError(f"{words} is required and forbidden at once")
        if child < n_given:
            raise ValueError(f"required {words}: nothing causes {names[child]!r}, which is earlier than the present")
        if level[parent] > level[child] >= 0:
            raise ValueError(
                f"required {words} runs against the tiers: {names[parent]!r} is in tier {level[parent]}, "
                f"{names[child]!r} in tier {level[child]}"
            )
        must[child] |= 1 << parent
    before = _closure(names, must, precede)
    for i in range(d):  # a variable that i must precede cannot be its parent
        for j in range(d):
            if before[j] >> i & 1:
                allowed[i] &= ~(1 << j)
    return Constraints(tuple(allowed), tuple(must), tuple(before))


def _closure(names: Sequence[str], must: list[int], precede: list[int]) -> list[int]:
    d = len(names)
    before = [a | b for a, b in zip(must, precede, strict=True)]
    for k in range(d):
        for i in range(d):
            if before[i] >> k & 1:
                before[i] |= before[k]
    on_cycle = [names[i] for i in range(d) if before[i] >> i & 1]
    if on_cycle:
        raise ValueError(f"required edges, with the tiers, form a cycle through {on_cycle}")
    return before


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
