"""Region trees: which columns are split where, and how many children each sum node has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.leaves.validation import checked_columns, column_name, read_only
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr
from pymc_spn.tables.column import list_of_columns

if TYPE_CHECKING:
    from pymc_spn.circuits.structures.circuit import Circuit

JSON_FORMAT = "region_tree/1"
ARRAYS = ("order", "begin", "end", "parent", "n_children", "split")


@dataclass(frozen=True, eq=False, repr=False)
class RegionTree(NotebookRepr):
    """Tree of regions: a recursive split of the columns.

    All products of a region share a split, or some of them do.

    A region is a set of columns at one place of the tree. The sum nodes of a region with several columns have products
    as children. Each product splits the region into parts, which are regions again. A sum node of a region with one
    column (a univariate region) has leaves as children. The sum nodes of one region are exchangeable copies. So the
    tree of regions describes the network fully, and it does not grow with the width.

    Usually all products of a region have the same split. A region may also have A *splits*, each with its own parts.
    Then child c of a sum node uses split ``c % A``, and a new child of an infinite node draws its split uniformly. With
    as many splits as children every product has its own split; a split may also have a single part, which is another
    tree over the same columns. Build a tree with `complete_tree`, `skewed_tree` or `learn_tree`.

    Regions are numbered in depth-first preorder: a part has a larger number than its region, and the
    subtree of region ``r`` is the contiguous range ``r .. subtree_end[r] - 1``.

    Parameters
    ----------
    columns : sequence of str or Column
        The D columns, with distinct names.
    order : (M,) int64
        The columns as regions slice them: a permutation of 0..D-1, and behind it the columns as other splits
        order them.
    begin, end : (R,) int64
        Region ``r`` holds the columns ``order[begin[r]:end[r]]``.
    parent : (R,) int64
        Region that this one is a part of, -1 at the root (region 0).
    n_children : (R,) int64
        Children of each sum node of the region, 0 for infinitely many.
    split : (R,) int64, optional
        Split of its parent to which the region belongs, 0, 1, ...; by default 0: all products split alike.

    Attributes
    ----------
    part_ptr, parts : (R + 1,) and (R - 1,) int64
        The parts of region ``r`` are ``parts[part_ptr[r]:part_ptr[r + 1]]``, those of its first split first.
    n_splits : (R,) int64
        Splits of the region; 1 where all products split alike, and in univariate regions.
    depth : (R,) int64
        Splits above the region, 0 at the root.
    leaf_region, leaf_column : (P,) int64
        The univariate regions and their columns, sorted by column. Without alternative splits each column has
        one, P = D, and ``leaf_region[d]`` is the univariate region of column d.
    subtree_end : (R,) int64
        One past the last region of the subtree.

    Raises
    ------
    ValueError
        If the arrays do not describe a recursive split in preorder.

    Examples
    --------
    >>> structure = ps.circuits.complete_tree(["a", "b", "c"], n_children=2)
    >>> structure.n_regions
    5
    """

    columns: tuple[Any, ...]
    order: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    parent: np.ndarray
    n_children: np.ndarray
    split: Any = None
    part_ptr: np.ndarray = field(init=False)
    parts: np.ndarray = field(init=False)
    n_splits: np.ndarray = field(init=False)
    depth: np.ndarray = field(init=False)
    leaf_region: np.ndarray = field(init=False)
    leaf_column: np.ndarray = field(init=False)
    subtree_end: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("columns", checked_columns(self.columns))
        if self.split is None:
            put("split", np.zeros(np.size(self.parent), np.int64))
        for name in ARRAYS:
            put(name, read_only(name, getattr(self, name)))
        n_columns, n_regions = len(self.columns), self.parent.size
        for name in ("begin", "end", "n_children", "split"):
            if getattr(self, name).size != n_regions:
                raise ValueError(
                    f"{name} must have one entry per region ({n_regions}, from parent), got {getattr(self, name).size}"
                )
        if not np.array_equal(np.sort(self.order[:n_columns]), np.arange(n_columns)):
            start = "" if self.order.size <= n_columns else f"start with {n_columns} columns that "
            raise ValueError(f"order must {start}be a permutation of 0..{n_columns - 1}, got {self.order.tolist()}")
        if self.order.min() < 0 or self.order.max() >= n_columns:
            raise ValueError(f"order must hold columns 0..{n_columns - 1}, got {self.order.tolist()}")
        if n_regions == 0 or self.parent[0] != -1 or self.split[0] != 0:
            raise ValueError("parent and split must start with the root, parent[0] = -1 and split[0] = 0")
        if self.begin[0] != 0 or self.end[0] != n_columns:
            raise ValueError(f"the root region must hold all {n_columns} columns, got {self.begin[0]}:{self.end[0]}")
        if np.any(self.n_children < 0):
            r = int(np.argmax(self.n_children < 0))
            raise ValueError(
                f"n_children must be at least 1, or 0 for infinite, got {self.n_children[r]} at region {r}"
            )
        region_ids = np.arange(n_regions)
        late = (self.parent[1:] < 0) | (self.parent[1:] >= region_ids[1:])
        if np.any(late):
            r = int(np.argmax(late)) + 1
            raise ValueError(f"parent of region {r} must be an earlier region, got {self.parent[r]}")
        counts = np.bincount(self.parent[1:], minlength=n_regions)
        put("part_ptr", read_only("part_ptr", np.concatenate([[0], np.cumsum(counts)])))
        put("parts", read_only("parts", 1 + np.argsort(self.parent[1:], kind="stable")))
        put("n_splits", read_only("n_splits", self._checked_splits()))
        depth = np.zeros(n_regions, dtype=np.int64)
        subtree_end = region_ids + 1
        for r in range(1, n_regions):
            depth[r] = depth[self.parent[r]] + 1
        for r in range(n_regions - 1, 0, -1):
            above = self.parent[r]
            subtree_end[above] = max(subtree_end[above], subtree_end[r])
        univariate = np.flatnonzero(counts == 0)
        leaf_column = self.order[self.begin[univariate]]
        by_column = np.argsort(leaf_column, kind="stable")
        put("depth", read_only("depth", depth))
        put("subtree_end", read_only("subtree_end", subtree_end))
        put("leaf_region", read_only("leaf_region", univariate[by_column]))
        put("leaf_column", read_only("leaf_column", leaf_column[by_column]))

    def _checked_splits(self) -> np.ndarray:
        """Splits (R,) of each region. The parts of each must partition it, and regions be numbered in preorder."""
        expected, stack = 0, [0]
        n_splits = np.ones(self.parent.size, np.int64)
        while stack:
            r = stack.pop()
            if r != expected:
                raise ValueError(f"regions must be in depth-first preorder, got region {r} where {expected} was due")
            expected += 1
            size = self.end[r] - self.begin[r]
            if size < 1 or self.begin[r] < 0 or self.end[r] > self.order.size:
                raise ValueError(f"region {r} must hold at least one column, got {self.begin[r]}:{self.end[r]}")
            parts = self.parts[self.part_ptr[r] : self.part_ptr[r + 1]]
            if parts.size:
                n_splits[r] = self._checked_parts(r, parts)
            elif size > 1:
                raise ValueError(f"region {r} holds {size} columns and must have two parts or more, got 0")
            stack.extend(parts[::-1].tolist())
        return n_splits

    def _checked_parts(self, r: int, parts: np.ndarray) -> int:
        """Number of splits of a region, each of which partitions its columns."""
        numbers = self.split[parts]
        n_splits = int(numbers[-1]) + 1
        if numbers[0] != 0 or not np.isin(np.diff(numbers), (0, 1)).all():
            raise ValueError(
                f"parts {parts.tolist()} of region {r} must be numbered by splits 0, 1, ... in ascending order, "
                f"got split {numbers.tolist()}"
            )
        if 0 < self.n_children[r] < n_splits:
            raise ValueError(
                f"n_children of region {r} must be at least its {n_splits} splits, or 0, got {self.n_children[r]}"
            )
        own = np.sort(self.order[self.begin[r] : self.end[r]])
        for s in range(n_splits):
            group = parts[numbers == s]
            if own.size == 1 or group.size < (2 if n_splits == 1 else 1):
                rule = "no parts" if own.size == 1 else "two parts or more"
                raise ValueError(f"region {r} holds {own.size} columns and must have {rule}, got {group.size}")
            held = [self.order[self.begin[q] : self.end[q]] for q in group]
            if not np.array_equal(np.sort(np.concatenate(held)), own):
                raise ValueError(f"parts {group.tolist()} of region {r} must partition its columns")
        return n_splits

    def __reduce__(self) -> tuple[Any, ...]:
        return RegionTree, (self.columns, *(getattr(self, a) for a in ARRAYS))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegionTree):
            return NotImplemented
        return self.columns == other.columns and all(
            np.array_equal(getattr(self, a), getattr(other, a)) for a in ARRAYS
        )

    def __hash__(self) -> int:
        return hash((self.names, self.order.tobytes(), self.begin.tobytes(), self.n_children.tobytes()))

    def _facts(self) -> Facts:
        width = sorted({int(c) for c in self.n_children})
        shown = ", ".join("infinite" if c == 0 else str(c) for c in width)
        splits = f"up to {self.n_splits.max()} splits a region" if self.n_splits.max() > 1 else ""
        facts = {"columns": f"{len(self.columns)} columns", "regions": f"{self.n_regions} regions"}
        return Facts("RegionTree", facts | {"width": f"n_children {shown}", "splits": splits})

    def _listed(self) -> Listed:
        return list_of_columns(self.columns)

    def n_options(self, n_entries: np.ndarray) -> np.ndarray:
        """Kinds (R,) of the children of a region's sum nodes: splits, or palette entries, of columns n_entries (D,).

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_options(np.array([1, 3]))
        array([1, 1, 3])
        """
        out = self.n_splits.copy()
        out[self.leaf_region] = n_entries[self.leaf_column]
        return out

    def positions_in_parent(self) -> np.ndarray:
        """Position of each column of each region within its parent region, all regions one after another.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).positions_in_parent()
        array([0, 0, 0, 1])
        """
        held = [self.order[a:b] for a, b in zip(self.begin, self.end, strict=True)]
        place = np.zeros(len(self.columns), np.int64)
        positions = [place[held[0]]]
        for r in range(1, len(held)):
            above = held[self.parent[r]]
            place[above] = np.arange(above.size)
            positions.append(place[held[r]])
        return np.concatenate(positions)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).names
        ('a', 'b')
        """
        return tuple(column_name(c) for c in self.columns)

    @property
    def n_regions(self) -> int:
        """Number of regions; without alternative splits the sum nodes of one induced tree (2D-1 for halves).

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_regions
        3
        """
        return self.parent.size

    @property
    def size(self) -> np.ndarray:
        """(R,) int64, columns per region.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).size
        array([2, 1, 1])
        """
        return self.end - self.begin

    def height(self) -> int:
        """Levels of nodes from the root to the deepest leaf, both included (the paper's Table 2).

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).height()
        4
        """
        return 2 * int(self.depth.max()) + 2

    def scope(self, region: int) -> tuple[str, ...]:
        """Names of the columns of a region, in the order of `columns`.

        Parameters
        ----------
        region : int
            Number of the region, 0 for the root.

        Returns
        -------
        tuple of str

        Raises
        ------
        ValueError
            If there is no such region.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).scope(0)
        ('a', 'b')
        """
        if not 0 <= region < self.n_regions:
            raise ValueError(f"region must be within 0..{self.n_regions - 1}, got {region}")
        names = self.names
        return tuple(names[d] for d in sorted(self.order[self.begin[region] : self.end[region]].tolist()))

    # -- exact counts of the explicit tree; Python integers, which do not overflow ------------------

    def width(self, palette_sizes: Mapping[str, int] | None) -> list[int]:
        """Children of each sum node by region, at least the palette in univariate regions.

        Parameters
        ----------
        palette_sizes : mapping of str to int, or None
            Palette entries of each column; None for one each.

        Returns
        -------
        list of int
            One for each region.

        Raises
        ------
        ValueError
            If some region has infinitely many children, or `palette_sizes` does not name exactly the columns.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).width({"a": 1, "b": 3})
        [2, 2, 3]
        """
        if np.any(self.n_children == 0):
            r = int(np.argmax(self.n_children == 0))
            raise ValueError(
                f"nodes can only be counted for finite n_children, region {r} has infinitely many children"
            )
        width = [int(c) for c in self.n_children]
        if palette_sizes is not None:
            self.check_names("palette_sizes", palette_sizes)
            for r, d in zip(self.leaf_region.tolist(), self.leaf_column.tolist(), strict=True):
                width[r] = max(width[r], int(palette_sizes[self.names[d]]))
        return width

    def check_names(self, argument: str, mapping: Mapping[str, object]) -> None:
        """Check that the keys of a mapping are exactly the names of the columns.

        Examples
        --------
        >>> pair = ps.circuits.complete_tree(["a", "b"], n_children=2)
        >>> pair.check_names("leaves", {"a": "gaussian", "b": "gaussian"})  # raises ValueError if one is missing
        """
        missing = [n for n in self.names if n not in mapping]
        unknown = [n for n in mapping if n not in self.names]
        if missing:
            raise ValueError(f"{argument} must have an entry for every column, got none for {missing[0]!r}")
        if unknown:
            raise ValueError(f"{argument} has an entry for {unknown[0]!r}, which is not a column")

    def copies(self, width: Sequence[int]) -> list[int]:
        """Count the sum nodes of each region: one below each edge of the parent region that uses its split.

        Examples
        --------
        >>> pair = ps.circuits.complete_tree(["a", "b"], n_children=2)
        >>> pair.copies(pair.width(None))
        [1, 2, 2]
        """
        copies = [1] * self.n_regions
        for r in range(1, self.n_regions):
            copies[r] = copies[self.parent[r]] * self.edges_to(r, width)
        return copies

    def edges_to(self, region: int, width: Sequence[int]) -> int:
        """Count the children of a sum node of the parent region that use the region's split.

        Examples
        --------
        >>> pair = ps.circuits.complete_tree(["a", "b"], n_children=2)
        >>> pair.edges_to(1, pair.width(None))
        2
        """
        above = int(self.parent[region])
        return len(range(int(self.split[region]), width[above], int(self.n_splits[above])))

    def n_sum_nodes(self) -> int:
        """Sum nodes of the explicit tree (the paper's S).

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_sum_nodes()
        5
        """
        return sum(self.copies(self.width(None)))

    def n_product_nodes(self) -> int:
        """Product nodes of the explicit tree (the paper's P).

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_product_nodes()
        2
        """
        width = self.width(None)
        return sum(n * c for n, c, p in zip(self.copies(width), width, np.diff(self.part_ptr), strict=True) if p)

    def n_leaves(self, palette_sizes: Mapping[str, int] | None = None) -> int:
        """Count the leaves of the explicit tree (the paper's L).

        Parameters
        ----------
        palette_sizes : mapping of str to int, optional
            Palette entries of each column: a univariate sum node has at least that many children.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_leaves()
        8
        """
        width = self.width(palette_sizes)
        return sum(n * c for n, c, p in zip(self.copies(width), width, np.diff(self.part_ptr), strict=True) if not p)

    def n_nodes(self, palette_sizes: Mapping[str, int] | None = None) -> int:
        """All nodes of the explicit tree (the paper's V = S + P + L); `palette_sizes` as in `n_leaves`.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_nodes()
        15
        """
        return self.n_sum_nodes() + self.n_product_nodes() + self.n_leaves(palette_sizes)

    def n_induced_trees(self, palette_sizes: Mapping[str, int] | None = None) -> int:
        """Ways to choose one child at every sum node reached; `palette_sizes` as in `n_leaves`.

        Examples
        --------
        >>> ps.circuits.complete_tree(["a", "b"], n_children=2).n_induced_trees()
        8
        """
        width = self.width(palette_sizes)
        below = [1] * self.n_regions
        for r in range(self.n_regions - 1, -1, -1):
            parts = self.parts[self.part_ptr[r] : self.part_ptr[r + 1]].tolist()
            if not parts:
                below[r] = width[r]
                continue
            products = [1] * int(self.n_splits[r])
            for q in parts:
                products[self.split[q]] *= below[q]
            below[r] = sum(n * len(range(s, width[r], len(products))) for s, n in enumerate(products))
        return below[0]

    # -- other forms --------------------------------------------------------------------------------

    def circuit(self, leaves: Mapping[str, Sequence[object]], max_nodes: int = 1_000_000) -> "Circuit":
        """The explicit tree with every copy of every node.

        Nodes are numbered region by region: the sum nodes of a region, then their children. Child ``c`` of copy ``i``
        of a sum node leads to copy ``i * C + c`` of each part. Among A splits, it leads to copy ``i * m + c // A`` of
        the parts of split ``c % A``, which m children use.

        Parameters
        ----------
        leaves : mapping of str to sequence
            For each column its palette: family names (``"gaussian"``) or entries (`Gaussian()`). A
            univariate sum node has ``max(n_children, len(palette))`` leaves, the entries cycled.
        max_nodes : int
            A tree with more nodes is refused.

        Raises
        ------
        ValueError
            If `n_children` is infinite somewhere, a palette is missing or empty, or the tree is too large.

        Examples
        --------
        >>> structure = ps.circuits.complete_tree(["a", "b"], n_children=2)
        >>> structure.circuit({"a": "gaussian", "b": "gaussian"})
        Circuit(2 columns, 5 sums, 2 products, 8 leaves, 14 edges)
        """
        from pymc_spn.circuits.structures.explicit_tree import explicit_circuit

        return explicit_circuit(self, leaves, max_nodes)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; columns that are `Column` objects carry their schema.

        Examples
        --------
        >>> structure = ps.circuits.complete_tree(["a", "b"], n_children=2)
        >>> ps.circuits.RegionTree.from_json(structure.to_json()).names
        ('a', 'b')
        """
        return {
            "format": JSON_FORMAT,
            "columns": [c if isinstance(c, str) else c.to_json() for c in self.columns],
            **{a: getattr(self, a).tolist() for a in ARRAYS},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "RegionTree":
        """The tree that `to_json` wrote.

        Raises
        ------
        ValueError
            If the format is another one, or the arrays are not a region tree.

        Examples
        --------
        >>> structure = ps.circuits.complete_tree(["a", "b"], n_children=2)
        >>> ps.circuits.RegionTree.from_json(structure.to_json()).names
        ('a', 'b')
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"data must be the mapping that to_json returned, got {type(data).__name__}")
        if data.get("format") != JSON_FORMAT:
            raise ValueError(f"data must have format {JSON_FORMAT!r}, got {data.get('format')!r}")
        if set(data) | {"split"} != {"format", "columns", *ARRAYS} or not isinstance(data["columns"], list):
            raise ValueError(f"data must have a list of columns and {list(ARRAYS)}, got {sorted(map(str, data))}")
        columns = data["columns"]
        if not all(isinstance(c, str) for c in columns):
            from pymc_spn.tables import Column

            columns = [c if isinstance(c, str) else Column.from_json(c) for c in columns]
        arrays: dict[str, Any] = {a: data[a] for a in ARRAYS if a in data}
        return cls(columns=tuple(columns), **arrays)


def region_tree_of(columns: Sequence[Any], root: Any) -> RegionTree:
    """The region tree of nested regions: each has ``columns``, ``n_children`` and ``splits``, of each split its parts.

    The columns of a region stand in the order of its first split.
    """
    order = list(root.columns)
    arrays: dict[str, list[int]] = {name: [] for name in ("begin", "end", "parent", "n_children", "split")}
    stack = [(root, 0, -1, 0)]
    while stack:  # preorder; a loop, since a skewed tree is as deep as it has columns
        region, begin, parent, number = stack.pop()
        here = len(arrays["begin"])
        row = (begin, begin + len(region.columns), parent, region.n_children, number)
        for listed, value in zip(arrays.values(), row, strict=True):
            listed.append(value)
        below = []
        for s, parts in enumerate(region.splits):
            start = begin if s == 0 else len(order)
            if s > 0:
                order += [d for part in parts for d in part.columns]
            for part in parts:
                below.append((part, start, here, s))
                start += len(part.columns)
        stack.extend(reversed(below))
    found = {name: np.array(listed) for name, listed in arrays.items()}
    return RegionTree(columns=tuple(columns), order=np.array(order), **found)
