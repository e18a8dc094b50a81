"""Circuits whose nodes are shared: random and tensorised ones, and hidden Chow-Liu trees."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import networkx as nx
import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.dependence import MEASURES
from pymc_spn.leaves.explicit_leaves import EXPLICIT, is_over
from pymc_spn.leaves.validation import checked_columns, column_name
from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column, Table, read_table
from pymc_spn.tables.column import LEVEL_KINDS, by_name
from pymc_spn.tables.inputs import Palettes, TableLike

MAX_EDGES = 10_000_000  # beyond, the arrays of one block of rows fill the memory
FAMILY_OF_KIND = {
    "real": "gaussian", "positive": "log_normal", "count": "poisson", "binary": "bernoulli",
    "categorical": "categorical", "ordinal": "categorical", "integer": "gaussian",
}  # fmt: skip


def rat_spn(
    columns: Iterable[str | int | Column],
    leaves: Palettes | Mapping[str | tuple[str, ...], object] | None = None,
    *,
    depth: int = 2,
    repetitions: int = 4,
    n_sums: int = 4,
    n_leaves: int = 4,
    random_seed: int | np.random.Generator | None = None,
) -> Circuit:
    """Random and tensorised sum-product network: random halves of the columns, all nodes of the two halves crossed.

    The columns are divided at random into two halves as equal as possible, `depth` times in turn, and this
    `repetitions` times over. Regions with the same columns are one. A region that is not divided has `n_leaves`
    products of one leaf a column (single columns: leaves). Every other region has `n_sums` sums, and the whole has one
    sum. Each sum weights all pairs of nodes of every division of its region.

    Parameters
    ----------
    columns : sequence of str or Column
        The columns, for instance ``table.columns``.
    leaves : mapping of str to str or sequence, optional
        For each column a family or several, at most `n_leaves`, taken in turn. By default by kind: Gaussian for real,
        log-normal for positive columns, Poisson for counts, Bernoulli and Categorical for levels. A tuple of columns
        has families over several columns, in this order; these columns stay together and count as one.
    depth, repetitions, n_sums, n_leaves : int
        D, R, S and I of the paper.
    random_seed : int, Generator or None
        Of the divisions.

    Returns
    -------
    Circuit
        Its nodes have several parents. `fit_em` finds its parameters, `CircuitDensity` takes it into a model.

    Raises
    ------
    ValueError
        For arguments out of range, columns without leaves, and more than `MAX_EDGES` edges.

    Examples
    --------
    >>> families = {"x": "gaussian", "y": "gaussian"}
    >>> circuit = ps.circuits.rat_spn(["x", "y"], families, depth=1, repetitions=2, n_sums=2, n_leaves=2, random_seed=1)
    >>> circuit.names
    ('x', 'y')

    References
    ----------
    Peharz, Vergari, Stelzner, Molina, Trapp, Shao, Kersting and Ghahramani (2019), Random sum-product networks: a
    simple and effective approach to probabilistic deep learning, UAI, Algorithms 1 and 2.
    """
    columns = checked_columns(columns)
    for name, value, least in (
        ("depth", depth, 0), ("repetitions", repetitions, 1), ("n_sums", n_sums, 1), ("n_leaves", n_leaves, 1),
    ):  # fmt: skip
        check_at_least(name, value, least)
        if name != "depth" and value > MAX_EDGES:
            raise ValueError(f"{name} = {value:,} makes a circuit of more than {MAX_EDGES:,} edges; take fewer")
    units, palettes = leaf_units(columns, leaves, "n_leaves", n_leaves)
    rng = np.random.default_rng(random_seed)
    whole = frozenset(range(len(units)))
    divisions: _Divisions = {}
    for _ in range(repetitions):
        _divide(whole, depth, rng, divisions)
    grown = Growing(columns, palettes, units)
    tops: dict[frozenset[int], list[int]] = {}
    for region in sorted(divisions, key=len):  # halves before what they are halves of
        pairs = [pair for left, right in divisions[region] for pair in product(tops[left], tops[right])]
        if pairs:
            found = grown.sums([grown.add(PRODUCT, pair) for pair in pairs], 1 if region == whole else n_sums)
        else:
            found = [grown.factorised(region, i) for i in range(n_leaves)]
            if region == whole:
                found = grown.sums(found, 1)
        tops[region] = found
    return grown.circuit()


def hidden_chow_liu_tree(
    data: TableLike,
    n_states: int,
    leaves: Palettes | None = None,
    *,
    dependence: str = "mutual_information",
    kinds: Mapping[str, str] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> Circuit:
    """A tree of hidden variables, one for each column, along the pairs of columns that depend most on each other.

    The tree is the spanning tree of largest total dependence (Chow and Liu's, with mutual information). Every column
    gets a hidden variable with `n_states` states and a leaf for each state; the circuit sums the hidden variables out
    along the tree, from its centre. `n_states` sums of `n_states` edges stand on each edge of the tree.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow, Table, dict or array
        What ``ps.SPN(observed=)`` takes; only the tree is learned from it.
    n_states : int
    leaves : mapping of str to str or sequence, optional
        As in `rat_spn`.
    dependence : {"mutual_information", "rdc"}
        As in `learn_tree`; missing cells are left out pair by pair.
    kinds : dict, optional
        As in `Table.from_frame`.
    random_seed : int, Generator or None
        Of the random features of "rdc".

    Returns
    -------
    Circuit

    Raises
    ------
    ValueError
        For arguments out of range, columns without leaves, data that `Table.from_frame` refuses, and more than
        `MAX_EDGES` edges.

    Examples
    --------
    >>> circuit = ps.circuits.hidden_chow_liu_tree(rows, n_states=2, random_seed=1)
    >>> ps.fit_em(circuit, rows, random_seed=1).mean().dims
    ('column',)

    References
    ----------
    Liu and Van den Broeck (2021), Tractable regularization of probabilistic circuits, NeurIPS, section 6. Chow and Liu
    (1968), doi:10.1109/TIT.1968.1054142, for the tree.
    """
    check_at_least("n_states", n_states, 1)
    if n_states > MAX_EDGES:
        raise ValueError(f"n_states = {n_states:,} makes a circuit of more than {MAX_EDGES:,} edges; take fewer")
    if not isinstance(dependence, str) or dependence not in MEASURES:
        raise ValueError(f"dependence must be one of {sorted(MEASURES)}, got {quoted(dependence)}")
    table = read_table(data, kinds)
    palettes = leaf_palettes(table.columns, leaves, "n_states", n_states)
    parent = tree_of_dependence(table, dependence, np.random.default_rng(random_seed))
    grown = Growing(table.columns, palettes)
    grow_states(grown, parent, [n_states] * len(table.columns))
    return grown.circuit()


def tree_of_dependence(table: Table, dependence: str, rng: np.random.Generator) -> dict[int, int | None]:
    """Parent of each column in the spanning tree of largest total dependence, None at its centre; children first."""
    is_level = np.array([c.kind in LEVEL_KINDS for c in table.columns])
    strength = MEASURES[dependence](table.values, is_level, rng)
    tree = nx.maximum_spanning_tree(nx.from_numpy_array(strength + 1.0))  # 0 would be no edge
    centre = min(nx.center(tree))
    parent = {child: d for d, child in nx.bfs_edges(tree, centre)}
    return {d: parent.get(d) for d in [*reversed(parent), centre]}


def grow_states(grown: "Growing", parent: Mapping[int, int | None], n_states: Sequence[int]) -> dict[int, list[int]]:
    """Nodes of a tree of variables with states: each sum weighs the states of a variable given one of its parent's.

    Parameters
    ----------
    grown : Growing
    parent : mapping of int to int or None
        As `tree_of_dependence` gives it.
    n_states : sequence of int
        Of each variable; state k has the k-th leaf of the column.

    Returns
    -------
    dict of int to list of int
        Sums of each variable, one for each state of its parent; the root has one.
    """
    below: dict[int, list[list[int]]] = {d: [] for d in parent}  # for each part of the tree under d, its sums
    sums = {}
    for d, above in parent.items():
        states = []
        for k in range(n_states[d]):
            leaf = grown.leaf(d, k)
            states.append(grown.add(PRODUCT, [leaf, *(part[k] for part in below[d])]) if below[d] else leaf)
        sums[d] = grown.sums(states, 1 if above is None else n_states[above])
        if above is not None:
            below[above].append(sums[d])
    return sums


_Divisions = dict[frozenset[int], set[tuple[frozenset[int], frozenset[int]]]]


def _divide(region: frozenset[int], depth: int, rng: np.random.Generator, divisions: _Divisions) -> None:
    """Add one random recursive division of a region to all divisions so far."""
    known = divisions.setdefault(region, set())
    if depth == 0 or len(region) == 1:
        return
    order = rng.permutation(sorted(region)).tolist()
    middle = (len(order) + 1) // 2
    halves = frozenset(order[:middle]), frozenset(order[middle:])
    if halves not in known and halves[::-1] not in known:
        known.add(halves)
    for half in halves:
        _divide(half, depth - 1, rng, divisions)


class Growing:
    """Nodes from the leaves up, each after its children; turned round at the end, so that the root is node 0."""

    def __init__(
        self, columns: Sequence[Any], palettes: list[list[str]], units: Sequence[tuple[int, ...]] | None = None
    ) -> None:
        """Units are what leaves are over, each with its families: by default single columns."""
        self.columns, self.palettes = tuple(columns), palettes
        self.units = [(d,) for d in range(len(self.columns))] if units is None else list(units)
        self.families = tuple(dict.fromkeys(family for palette in palettes for family in palette))
        self.kind: list[int] = []
        self.below: list[Sequence[int]] = []
        self.leaf_columns: list[tuple[int, ...]] = []
        self.family: list[int] = []
        self.n_edges = 0

    def add(self, kind: int, below: Sequence[int], columns: tuple[int, ...] = (-1,), family: int = -1) -> int:
        """Number of a new node."""
        self.n_edges += len(below)
        if self.n_edges > MAX_EDGES:
            raise ValueError(
                f"the circuit has more than {MAX_EDGES:,} edges; take fewer nodes in a region or fewer divisions"
            )
        self.kind.append(kind)
        self.below.append(below)
        self.leaf_columns.append(columns)
        self.family.append(family)
        return len(self.kind) - 1

    def leaf(self, unit: int, i: int) -> int:
        """The i-th leaf of a unit, of the families in turn."""
        palette = self.palettes[unit]
        return self.add(LEAF, (), self.units[unit], self.families.index(palette[i % len(palette)]))

    def sums(self, below: Sequence[int], n: int) -> list[int]:
        """Sums over the same nodes."""
        return [self.add(SUM, below) for _ in range(n)]

    def factorised(self, region: Iterable[int], i: int) -> int:
        """The i-th leaves of all units of a region as one node."""
        found = [self.leaf(d, i) for d in sorted(region)]
        return found[0] if len(found) == 1 else self.add(PRODUCT, found)

    def circuit(self) -> Circuit:
        """The circuit whose root is the last node."""
        last = len(self.kind) - 1
        degree = [len(below) for below in reversed(self.below)]
        return Circuit(
            kind=np.array(self.kind[::-1], np.int8),
            child_ptr=np.cumsum([0, *degree]),
            children=last - np.array([c for below in reversed(self.below) for c in reversed(below)], np.int64),
            leaf_column=np.array([columns[0] for columns in reversed(self.leaf_columns)], np.int64),
            leaf_family=np.array(self.family[::-1], np.int64),
            families=self.families,
            columns=self.columns,
            further_columns={last - v: own[1:] for v, own in enumerate(self.leaf_columns) if len(own) > 1},
        )


def leaf_units(
    columns: Sequence[Any], leaves: Mapping[Any, Any] | None, argument: str, room: int
) -> tuple[list[tuple[int, ...]], list[list[str]]]:
    """Columns of each unit that leaves are over, in the order of the first of them, and their families."""
    groups = [key for key in leaves if isinstance(key, tuple)] if isinstance(leaves, Mapping) else []
    if leaves is None or not groups:
        return [(d,) for d in range(len(columns))], leaf_palettes(columns, leaves, argument, room)
    names = [column_name(c) for c in columns]
    taken: dict[str, object] = {str(key): key for key in leaves if not isinstance(key, tuple)}
    found: dict[tuple[int, ...], list[str]] = {}
    for key in groups:
        for name in key:
            if name not in names or name in taken:
                what = "stand in one place" if name in taken else f"be among {quoted(names)}"
                raise ValueError(f"leaves: columns must {what}, got {quoted(name)} in {quoted(key)}")
            taken[name] = key
        given = [leaves[key]] if isinstance(leaves[key], str) else leaves[key]
        if not isinstance(given, list | tuple) or not 0 < len(given) <= room:
            raise ValueError(f"leaves must name 1 to {argument}={room} families for {quoted(key)}, got {quoted(given)}")
        for family in given:
            if not is_over(family, len(key)):
                raise ValueError(f"leaves must name families over {len(key)} columns for {key}, got {quoted(family)}")
        found[tuple(names.index(name) for name in key)] = list(given)
    alone = [d for d, name in enumerate(names) if name not in taken or taken[name] == name]
    single = {key: own for key, own in leaves.items() if not isinstance(key, tuple)}
    palettes = leaf_palettes([columns[d] for d in alone], single, argument, room)
    found |= {(d,): palette for d, palette in zip(alone, palettes, strict=True)}
    units = sorted(found, key=min)
    return units, [found[unit] for unit in units]


def leaf_palettes(
    columns: Sequence[Any], leaves: Mapping[str, Any] | None, argument: str | None = None, room: float = np.inf
) -> list[list[str]]:
    """Families of each column, at most as many as it has leaves in a region, which `argument` says."""
    names = [column_name(c) for c in columns]
    if leaves is None:
        for column in columns:
            if not isinstance(column, Column):
                raise ValueError(f"leaves must be given where columns are names only, as {column!r} is")
        return [[FAMILY_OF_KIND[c.kind]] for c in columns]
    if not isinstance(leaves, Mapping):
        raise TypeError(f"leaves must be a mapping from columns to families, got {quoted(leaves)}")
    leaves = by_name("leaves", leaves)
    for name in leaves:
        if name not in names:
            raise ValueError(f"leaves: {name!r} is not a column; the columns are {quoted(names)}")
    palettes = []
    for name in names:
        if name not in leaves:
            raise ValueError(f"leaves must name families for every column, {name!r} is missing")
        given = [leaves[name]] if isinstance(leaves[name], str) else leaves[name]
        if not isinstance(given, list | tuple) or not all(isinstance(family, str) for family in given):
            raise TypeError(
                f"leaves must name a family or a list of them for every column, got {quoted(given)} for {name!r}"
            )
        for family in given:
            if family not in EXPLICIT:
                raise ValueError(
                    f"leaves must name families among {tuple(EXPLICIT)}, got {quoted(family)} for {name!r}"
                )
        if not 0 < len(given) <= room:
            most = "" if argument is None else f" and at most {argument}={room}"
            raise ValueError(
                f"leaves must name at least one family for every column{most}, got {len(given)} for {name!r}"
            )
        palettes.append(list(given))
    return palettes


def check_at_least(name: str, value: Any, least: int) -> None:
    """Check that a number is an integer of at least this."""
    if not is_int(value) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {quoted(value)}")
