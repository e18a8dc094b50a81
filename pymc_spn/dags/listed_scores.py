"""Scores that were computed elsewhere: a listing by child and parents, read into tables over candidate parents."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pymc_spn.dags.candidates import bits_of, require
from pymc_spn.dags.constraints import Constraints, read_constraints
from pymc_spn.dags.score_sizes import check_names
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name, by_name


def read_listed(
    scores: Mapping[str, Mapping[tuple[str, ...] | frozenset[str], float]], required: Any, forbidden: Any, tiers: Any
) -> tuple[tuple[str, ...], list[list[int]], list[np.ndarray], Constraints]:
    """Names, candidate parents of each variable, the tables of their subsets, and what is known.

    Raises
    ------
    TypeError, ValueError
        As `LocalScores.from_table`.
    """
    scores = by_name("scores", scores)
    names = tuple(scores)
    check_names(names)
    unnamed = [name for name in names if not isinstance(name, str)]
    if unnamed:
        raise TypeError(f"scores: variables must be named by strings, got {quoted(unnamed[0])}")
    constraints = read_constraints(names, required, forbidden, tiers)
    position = {name: i for i, name in enumerate(names)}
    chosen, tables = [], []
    for i, name in enumerate(names):
        listed: dict[int, float] = {}
        for given, value in scores[name].items():
            parents = [as_name(p) for p in given] if isinstance(given, list | tuple | set | frozenset) else given
            if isinstance(parents, str) or not isinstance(parents, Iterable):
                raise TypeError(f"scores of {name!r}: parents must be a tuple or frozenset, got {quoted(parents)}")
            unknown = [p for p in parents if p not in position or p == name]
            if unknown:
                raise ValueError(
                    f"scores of {name!r}: {unknown[0]!r} cannot be a parent; variables: {quoted(list(names))}"
                )
            if not isinstance(value, int | float | np.number) or np.isnan(value) or value == np.inf:
                raise ValueError(
                    f"scores of {name!r} given {quoted(tuple(parents))} must be finite or -inf, got {quoted(value)}"
                )
            mask = sum(1 << position[p] for p in set(parents))
            if mask in listed or len(set(parents)) < len(tuple(parents)):
                raise ValueError(
                    f"scores of {name!r} name a parent or a set of parents twice: {quoted(tuple(parents))}"
                )
            listed[mask] = float(value)
        used = 0
        for mask in listed:
            used |= mask
        candidates = bits_of(used & constraints.allowed[i] | constraints.required[i])
        if len(candidates) > 26:
            raise ValueError(f"scores of {name!r} name {len(candidates)} parents, more than 26")
        out = np.full(1 << len(candidates), -np.inf)
        for m in range(out.size):
            mask = sum(1 << c for k, c in enumerate(candidates) if m >> k & 1)
            out[m] = listed.get(mask, -np.inf)
        require(out, candidates, constraints.required[i])
        chosen.append(candidates)
        tables.append(out)
    return names, chosen, tables, constraints
