"""Circuits that are trees as the region trees that samplers take."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, Circuit
from pymc_spn.circuits.structures.circuit_graph import KIND_NAMES
from pymc_spn.circuits.structures.regions import RegionTree, region_tree_of
from pymc_spn.leaves.families import FAMILIES
from pymc_spn.leaves.validation import column_name
from pymc_spn.tables.column import by_name


@dataclass(frozen=True, eq=False)
class _SumKind:
    """A kind of sum node: all below it, whatever the numbers of the nodes."""

    columns: tuple[int, ...]
    n_children: int
    splits: tuple[tuple["_SumKind", ...], ...]


def tree_and_leaves(structure: Any, leaves: Mapping[str, Any] | None) -> tuple[RegionTree, dict[str, Any] | None]:
    """What a learner is to use for its ``structure`` and ``leaves`` arguments.

    Parameters
    ----------
    structure : RegionTree or Circuit
        A circuit must be a tree, see `tree_of_circuit`.
    leaves : mapping of str to palette entries, or None
        Columns that it names keep what it says; the others take the families of a circuit's leaves.

    Raises
    ------
    TypeError
        If the structure is neither.
    ValueError
        If a circuit is no such tree, or its leaves are no palette.
    """
    leaves = by_name("leaves", leaves)
    if isinstance(structure, RegionTree):
        return structure, None if leaves is None else dict(leaves)
    if not isinstance(structure, Circuit):
        raise TypeError(
            f"structure must be a RegionTree such as ps.circuits.complete_tree(columns), or a Circuit that is a tree; "
            f"got {type(structure).__name__}"
        )
    return tree_of_circuit(structure), _palettes(structure, leaves or {})


def tree_of_circuit(circuit: Circuit) -> RegionTree:
    """The region tree whose explicit form the circuit is: the same sums, products and leaves.

    Sum nodes above equal trees become copies in one region, so `RegionTree.circuit` and back gives the same tree.
    Products of their own kind become splits of their region, repeated until each child has its own.

    Parameters
    ----------
    circuit : Circuit
        Every node has one parent, and the children of sums over one column are leaves. A product or leaf in the place
        of a sum counts as a sum of one child, a sum below another sum as a product of one part.

    Raises
    ------
    ValueError
        If it is no such tree; the message names the node.
    """
    return region_tree_of(circuit.columns, _root_region(circuit))


def _root_region(circuit: Circuit) -> _SumKind:
    """The kind of the root, by kinds of nodes from the leaves up; equal kinds are one object."""
    shared = np.flatnonzero(np.bincount(circuit.children, minlength=circuit.n_nodes) > 1)
    if shared.size:
        raise ValueError(
            f"structure must be a tree, and node {shared[0]} of the circuit has several parents: "
            f"circuits with shared nodes go into a model by CircuitDensity"
        )
    for leaf in circuit.further_columns:
        raise ValueError(f"structure must have univariate leaves, leaf {leaf} is over {circuit.scope(leaf)}")
    known: dict[tuple[Any, ...], _SumKind] = {}
    kinds: dict[int, _SumKind] = {}
    parts: dict[int, tuple[_SumKind, ...]] = {}  # of products, as children of a sum

    def kind(columns: tuple[int, ...], n_children: int, splits: list[tuple[_SumKind, ...]]) -> _SumKind:
        key = (columns, n_children, tuple(tuple(map(id, parts)) for parts in splits))
        return known.setdefault(key, _SumKind(columns, n_children, tuple(splits)))

    for node in range(circuit.n_nodes - 1, -1, -1):  # children have larger numbers
        below = circuit.children_of(node).tolist()
        if circuit.kind[node] == LEAF:
            kinds[node] = kind((int(circuit.leaf_column[node]),), 1, [])
        elif circuit.kind[node] == PRODUCT:
            parts[node] = tuple(sorted((kinds[c] for c in below), key=lambda part: min(part.columns)))
            kinds[node] = kind(_columns(parts[node]), 1, [parts[node]]) if len(below) > 1 else parts[node][0]
        elif np.all(circuit.kind[below] == LEAF):
            kinds[node] = kind(kinds[below[0]].columns, len(below), [])
        elif len(kinds[below[0]].columns) == 1:
            inner = next(c for c in below if circuit.kind[c] != LEAF)
            raise ValueError(
                f"structure: the children of sum {node} of the circuit, over one column, must be leaves, "
                f"got the {KIND_NAMES[circuit.kind[inner]]} {inner}"
            )
        else:
            splits = _splits([parts.get(c, (kinds[c],)) for c in below])
            single = len(splits) == len(splits[0]) == 1
            kinds[node] = splits[0][0] if single else kind(_columns(splits[0]), len(below), splits)
    return kinds[0]


def _splits(below: list[tuple[_SumKind, ...]]) -> list[tuple[_SumKind, ...]]:
    """Splits of a sum node from the parts of its children: child c uses split ``c % A``, so each serves as many."""
    counts = Counter(below)
    times = gcd(*counts.values())
    if len(counts) == 1 and len(below[0]) == 1:
        times = 1  # a split that stands alone has several parts, so one of a single part is repeated
    return [parts for parts, n in counts.items() for _ in range(n // times)]


def _columns(parts: tuple[_SumKind, ...]) -> tuple[int, ...]:
    return tuple(d for part in parts for d in part.columns)


def _palettes(circuit: Circuit, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Palette entries of the columns, by the families of their leaves; the given ones count instead."""
    found: dict[str, Any] = {}
    for d, column in enumerate(circuit.columns):
        name = column_name(column)
        if name in leaves:
            continue
        numbers = circuit.leaf_family[circuit.leaf_column == d]
        families = [circuit.families[f] for f in dict.fromkeys(numbers.tolist())]
        strange = [f for f in families if f not in FAMILIES]
        if strange:
            raise ValueError(
                f"leaves[{name!r}] must be given: the circuit's leaves of this column are {strange[0]!r}, "
                f"a family without a conjugate prior"
            )
        _check_dealt(circuit, d, name, families)
        found[name] = [FAMILIES[f]() for f in families]
    return {**found, **leaves}


def _check_dealt(circuit: Circuit, column: int, name: str, families: list[str]) -> None:
    """The entries of a palette are dealt in turn to the children of each sum node, the first ones may be one more."""
    parent = np.zeros(circuit.n_nodes, np.int64)
    parent[circuit.children] = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
    siblings: dict[int, list[str]] = {}
    for leaf in np.flatnonzero(circuit.leaf_column == column):
        siblings.setdefault(int(parent[leaf]), []).append(circuit.families[circuit.leaf_family[leaf]])
    for node, found in siblings.items():
        if Counter(found) != Counter(np.resize(families, max(len(found), len(families))).tolist()):
            raise ValueError(
                f"leaves[{name!r}] must be given: below node {node} the circuit has the leaves {found} of this column. "
                f"leaves= gives its families, here {families}, in turn to the children of each sum node"
            )
