"""Region trees: which columns are split where, and how many children each sum node has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.leaves.validation import checked_columns, column_name, read_only
from pymc_spn.circuits.structures.tree_arguments import children_by_depth, column_order, is_int

if TYPE_CHECKING:
    from pymc_spn.circuits.structures.circuit import Circuit

JSON_FORMAT = "region_tree/1"


@dataclass(frozen=True, eq=False, repr=False)
class RegionTree:
    """A recursive split of the columns, shared by all products of a region.

    A region is a set of columns. Every sum node of a region with several columns has products as
    children, and every such product splits the region alike, into its parts; a sum node of a region
    with one column (a univariate region) has leaves as children. The sum nodes of one region are thus
    exchangeable copies, and the tree of regions, small and independent of the width, is all there is
    to say. Build one with `complete_tree` or `skewed_tree`.

    Regions are numbered in depth-first preorder: a part has a larger number than its region, and the
    subtree of region ``r`` is the contiguous range ``r .. subtree_end[r] - 1``.

    Parameters
    ----------
    columns : sequence of str or Column
        The D columns, with distinct names.
    order : (D,) int64
        The columns in the order in which regions slice them, a permutation of 0..D-1.
    begin, end : (R,) int64
        Region ``r`` holds the columns ``order[begin[r]:end[r]]``.
    parent : (R,) int64
        Region of which this one is a part, -1 at the root (region 0).
    n_children : (R,) int64
        Children of each sum node of the region, 0 for infinitely many.

    Attributes
    ----------
    part_ptr, parts : (R + 1,) and (R - 1,) int64
        The parts of region ``r`` are ``parts[part_ptr[r]:part_ptr[r + 1]]``, in column order.
    depth : (R,) int64
        Splits above the region, 0 at the root.
    leaf_region : (D,) int64
        The univariate region of each column.
    subtree_end : (R,) int64
        One past the last region of the subtree.

    Raises
    ------
    ValueError
        If the arrays do not describe a recursive split in preorder.
    """

    columns: tuple[Any, ...]
    order: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    parent: np.ndarray
    n_children: np.ndarray
    part_ptr: np.ndarray = field(init=False)
    parts: np.ndarray = field(init=False)
    depth: np.ndarray = field(init=False)
    leaf_region: np.ndarray = field(init=False)
    subtree_end: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("columns", checked_columns(self.columns))
        for name in ("order", "begin", "end", "parent", "n_children"):
            put(name, read_only(name, getattr(self, name)))
        n_columns, n_regions = len(self.columns), self.parent.size
        for name in ("begin", "end", "n_children"):
            if getattr(self, name).size != n_regions:
                raise ValueError(
                    f"{name} must have one entry per region ({n_regions}, from parent), got {getattr(self, name).size}"
                )
        if not np.array_equal(np.sort(self.order), np.arange(n_columns)):
            raise ValueError(f"order must be a permutation of 0..{n_columns - 1}, got {self.order.tolist()}")
        if n_regions == 0 or self.parent[0] != -1:
            raise ValueError("parent must start with the root, parent[0] = -1")
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
        self._check_splits()
        depth = np.zeros(n_regions, dtype=np.int64)
        subtree_end = region_ids + 1
        for r in range(1, n_regions):
            depth[r] = depth[self.parent[r]] + 1
        for r in range(n_regions - 1, 0, -1):
            above = self.parent[r]
            subtree_end[above] = max(subtree_end[above], subtree_end[r])
        leaf_region = np.empty(n_columns, dtype=np.int64)
        univariate = np.flatnonzero(self.size == 1)
        leaf_region[self.order[self.begin[univariate]]] = univariate
        put("depth", read_only("depth", depth))
        put("subtree_end", read_only("subtree_end", subtree_end))
        put("leaf_region", read_only("leaf_region", leaf_region))

    def _check_splits(self) -> None:
        """Parts must partition their region, left to right, and regions be numbered in preorder."""
        expected, stack = 0, [0]
        while stack:
            r = stack.pop()
            if r != expected:
                raise ValueError(f"regions must be in depth-first preorder, got region {r} where {expected} was due")
            expected += 1
            parts = self.parts[self.part_ptr[r] : self.part_ptr[r + 1]]
            size = self.end[r] - self.begin[r]
            if size < 1:
                raise ValueError(f"region {r} must hold at least one column, got {self.begin[r]}:{self.end[r]}")
            if parts.size != 0 if size == 1 else parts.size < 2:
                rule = "no parts" if size == 1 else "two parts or more"
                raise ValueError(f"region {r} holds {size} columns and must have {rule}, got {parts.size}")
            if parts.size:
                edges = np.append(self.begin[parts], self.end[r])
                if edges[0] != self.begin[r] or not np.array_equal(edges[1:], self.end[parts]):
                    raise ValueError(
                        f"parts {parts.tolist()} of region {r} must partition its columns from left to right"
                    )
            stack.extend(parts[::-1].tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return RegionTree, (self.columns, self.order, self.begin, self.end, self.parent, self.n_children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegionTree):
            return NotImplemented
        return self.columns == other.columns and all(
            np.array_equal(getattr(self, a), getattr(other, a))
            for a in ("order", "begin", "end", "parent", "n_children")
        )

    def __hash__(self) -> int:
        return hash((self.names, self.order.tobytes(), self.begin.tobytes(), self.n_children.tobytes()))

    def __repr__(self) -> str:
        width = sorted({int(c) for c in self.n_children})
        shown = ", ".join("infinite" if c == 0 else str(c) for c in width)
        return f"RegionTree({len(self.columns)} columns, {self.n_regions} regions, n_children {shown})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column_name(c) for c in self.columns)

    @property
    def n_regions(self) -> int:
        """Number of regions, which is the number of sum nodes of one induced tree (2D-1 for halves)."""
        return self.parent.size

    @property
    def size(self) -> np.ndarray:
        """(R,) int64, columns per region."""
        return self.end - self.begin

    @property
    def height(self) -> int:
        """Levels of nodes from the root to the deepest leaf, both included (the paper's Table 2)."""
        return 2 * int(self.depth.max()) + 2

    def scope(self, region: int) -> tuple[str, ...]:
        """Names of the columns of a region, in the order of `columns`."""
        if not 0 <= region < self.n_regions:
            raise ValueError(f"region must be within 0..{self.n_regions - 1}, got {region}")
        names = self.names
        return tuple(names[d] for d in sorted(self.order[self.begin[region] : self.end[region]].tolist()))

    # -- exact counts of the explicit tree; Python integers, which do not overflow ------------------

    def width(self, palette_sizes: Mapping[str, int] | None) -> list[int]:
        """Children of each sum node by region, at least the palette in univariate regions."""
        if np.any(self.n_children == 0):
            r = int(np.argmax(self.n_children == 0))
            raise ValueError(
                f"nodes can only be counted for finite n_children, region {r} has infinitely many children"
            )
        width = [int(c) for c in self.n_children]
        if palette_sizes is not None:
            self.check_names("palette_sizes", palette_sizes)
            for d, name in enumerate(self.names):
                r = int(self.leaf_region[d])
                width[r] = max(width[r], int(palette_sizes[name]))
        return width

    def check_names(self, argument: str, mapping: Mapping[str, Any]) -> None:
        """Refuse a mapping whose keys are not exactly the names of the columns."""
        missing = [n for n in self.names if n not in mapping]
        unknown = [n for n in mapping if n not in self.names]
        if missing:
            raise ValueError(f"{argument} must have an entry for every column, got none for {missing[0]!r}")
        if unknown:
            raise ValueError(f"{argument} has an entry for {unknown[0]!r}, which is not a column")

    def copies(self, width: Sequence[int]) -> list[int]:
        """Sum nodes of each region: the width of all ancestors multiplied."""
        copies = [1] * self.n_regions
        for r in range(1, self.n_regions):
            above = int(self.parent[r])
            copies[r] = copies[above] * width[above]
        return copies

    def n_sum_nodes(self) -> int:
        """Sum nodes of the explicit tree (the paper's S)."""
        return sum(self.copies(self.width(None)))

    def n_product_nodes(self) -> int:
        """Product nodes of the explicit tree (the paper's P)."""
        width = self.width(None)
        return sum(n * c for n, c, m in zip(self.copies(width), width, self.size, strict=True) if m > 1)

    def n_leaves(self, palette_sizes: Mapping[str, int] | None = None) -> int:
        """Leaves of the explicit tree (the paper's L).

        Parameters
        ----------
        palette_sizes : mapping of str to int, optional
            Palette entries of each column: a univariate sum node has at least that many children.
        """
        width = self.width(palette_sizes)
        return sum(n * c for n, c, m in zip(self.copies(width), width, self.size, strict=True) if m == 1)

    def n_nodes(self, palette_sizes: Mapping[str, int] | None = None) -> int:
        """All nodes of the explicit tree (the paper's V = S + P + L); `palette_sizes` as in `n_leaves`."""
        return self.n_sum_nodes() + self.n_product_nodes() + self.n_leaves(palette_sizes)

    def n_induced_trees(self, palette_sizes: Mapping[str, int] | None = None) -> int:
        """Ways to choose one child at every sum node reached; `palette_sizes` as in `n_leaves`."""
        result = 1
        for c in self.width(palette_sizes):
            result *= c
        return result

    # -- other forms --------------------------------------------------------------------------------

    def circuit(self, leaves: Mapping[str, Sequence[Any]], max_nodes: int = 1_000_000) -> "Circuit":
        """The explicit tree with every copy of every node.

        Nodes are numbered region by region: the sum nodes of a region, then their children. Child
        ``c`` of copy ``i`` of a sum node leads to copy ``i * C + c`` of each part.

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
        """
        from pymc_spn.circuits.structures.explicit_tree import explicit_circuit

        return explicit_circuit(self, leaves, max_nodes)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; columns that are `Column` objects carry their schema."""
        return {
            "format": JSON_FORMAT,
            "columns": [c if isinstance(c, str) else c.to_json() for c in self.columns],
            **{a: getattr(self, a).tolist() for a in ("order", "begin", "end", "parent", "n_children")},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RegionTree":
        """The tree that `to_json` wrote.

        Raises
        ------
        ValueError
            If the format is another one, or the arrays are not a region tree.
        """
        if data.get("format") != JSON_FORMAT:
            raise ValueError(f"data must have format {JSON_FORMAT!r}, got {data.get('format')!r}")
        columns: list[Any] = list(data["columns"])
        if not all(isinstance(c, str) for c in columns):
            from pymc_spn.tables import Column

            columns = [c if isinstance(c, str) else Column.from_json(c) for c in columns]
        arrays = {a: np.array(data[a], dtype=np.int64) for a in ("order", "begin", "end", "parent", "n_children")}
        return cls(columns=tuple(columns), **arrays)


def complete_tree(
    columns: Iterable[Any],
    n_children: int | str | Sequence[int | str] = "infinite",
    n_parts: int = 2,
    split: str | Sequence[str] = "order",
    repetitions: int = 1,
    random_seed: int | np.random.Generator | None = None,
) -> RegionTree:
    """Split the columns recursively into parts as equal as possible.

    Parameters
    ----------
    columns : sequence of str or Column
        The columns, for instance ``table.columns``.
    n_children : int, sequence or "infinite"
        Children of a sum node (the paper's C_s): one number, one per depth of the region tree (root
        first), or ``"infinite"``, where sum nodes are Chinese restaurants and the width is learned.
    n_parts : int
        Children of a product (the paper's C_p). A region of m columns has ``min(n_parts, m)`` parts,
        larger ones first.
    split : "order", "random" or sequence of str
        The order of columns that is cut into parts: as given, a random permutation, or these names.
    repetitions : int
        Only 1 is available in this version.
    random_seed : int, Generator or None
        Seed of ``split="random"``.

    Returns
    -------
    RegionTree

    References
    ----------
    Yokoi and Sato (2024), Table 2 (complete tree) and Table 9.
    """
    return _build_tree(_even_sizes, columns, n_children, n_parts, split, repetitions, random_seed)


def skewed_tree(
    columns: Iterable[Any],
    n_children: int | str | Sequence[int | str] = "infinite",
    n_parts: int = 2,
    split: str | Sequence[str] = "order",
    repetitions: int = 1,
    random_seed: int | np.random.Generator | None = None,
) -> RegionTree:
    """Split ``n_parts - 1`` single columns off at every product and leave the rest for the next one.

    The other extreme of the paper's Table 2: the deepest tree. Parameters as in `complete_tree`.

    Returns
    -------
    RegionTree
    """
    return _build_tree(_peeled_sizes, columns, n_children, n_parts, split, repetitions, random_seed)


def _even_sizes(m: int, n_parts: int) -> list[int]:
    k = min(n_parts, m)
    return [m // k + (i < m % k) for i in range(k)]


def _peeled_sizes(m: int, n_parts: int) -> list[int]:
    k = min(n_parts, m)
    return [1] * (k - 1) + [m - k + 1]


def _build_tree(
    part_sizes: Callable[[int, int], list[int]],
    columns: Iterable[Any],
    n_children: Any,
    n_parts: Any,
    split: Any,
    repetitions: Any,
    random_seed: Any,
) -> RegionTree:
    columns = checked_columns(columns)
    if not is_int(n_parts) or n_parts < 2:
        raise ValueError(f"n_parts must be an integer of at least 2, got {n_parts!r}")
    if not is_int(repetitions) or repetitions != 1:
        raise ValueError(f"only repetitions=1 is available in this version, got {repetitions!r}")
    order = column_order(tuple(column_name(c) for c in columns), split, random_seed)
    begin: list[int] = []
    end: list[int] = []
    parent: list[int] = []
    depth: list[int] = []
    stack = [(0, len(columns), -1, 0)]
    while stack:  # a loop, since a skewed tree is as deep as it has columns
        low, high, above, level = stack.pop()
        region = len(begin)
        for listed, value in ((begin, low), (end, high), (parent, above), (depth, level)):
            listed.append(value)
        if high - low > 1:
            cuts = low + np.concatenate([[0], np.cumsum(part_sizes(high - low, n_parts))])
            parts = [(int(a), int(b), region, level + 1) for a, b in pairwise(cuts)]
            stack.extend(reversed(parts))
    by_depth = children_by_depth(n_children, 1 + max(depth))
    return RegionTree(
        columns=columns,
        order=order,
        begin=np.array(begin),
        end=np.array(end),
        parent=np.array(parent),
        n_children=by_depth[np.array(depth)],
    )
