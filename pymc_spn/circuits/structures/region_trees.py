"""Region trees by rule: complete and skewed, with one split for all products, several, or one for each."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.circuits.structures.tree_arguments import children_by_depth, column_order
from pymc_spn.leaves.validation import checked_columns, column_name
from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column

MAX_REGIONS = 100_000  # regions beyond this take seconds to check and do not mix anyway


def complete_tree(
    columns: Iterable[str | int | Column],
    n_children: int | str | Sequence[int | str] = "infinite",
    n_parts: int = 2,
    split: str | Sequence[str] = "order",
    repetitions: int = 1,
    random_seed: int | np.random.Generator | None = None,
) -> RegionTree:
    """Split the columns recursively into parts as equal as possible.

    Parameters
    ----------
    columns : sequence of str, int or Column
        The columns, for instance ``table.columns``. Integers, here and wherever a column is named, become text,
        as in `Table.from_frame`.
    n_children : int, sequence or "infinite"
        Children of a sum node (the paper's C_s): one number, one per depth of the region tree (root first), or
        ``"infinite"``. In the last case sum nodes are Chinese restaurants and the width is learned.
    n_parts : int
        Children of a product (the paper's C_p). A region of m columns has ``min(n_parts, m)`` parts,
        larger ones first.
    split : "order", "random", "per_product" or sequence of str
        The order of columns that is cut into parts: as given, a random permutation, or these names. Or a random
        permutation for every product, which gives every sum node its own region and needs finite `n_children`.
    repetitions : int
        R > 1 puts one sum node with R children above R trees with different splits: the first as `split`
        says, the others over random permutations of the columns.
    random_seed : int, Generator or None
        Seed of the random permutations.

    Returns
    -------
    RegionTree

    Raises
    ------
    ValueError
        If an argument is out of range, ``split="per_product"`` has infinite `n_children` or too many sum nodes
        (`MAX_REGIONS`), or a single column has `repetitions`.

    Examples
    --------
    >>> ps.circuits.complete_tree(["a", "b", "c", "d"], n_children=2).n_regions
    7

    References
    ----------
    Yokoi and Sato (2024), Table 2 (complete tree) and Table 9.
    """
    return _build_tree(_even_sizes, columns, n_children, n_parts, split, repetitions, random_seed)


def skewed_tree(
    columns: Iterable[str | int | Column],
    n_children: int | str | Sequence[int | str] = "infinite",
    n_parts: int = 2,
    split: str | Sequence[str] = "order",
    repetitions: int = 1,
    random_seed: int | np.random.Generator | None = None,
) -> RegionTree:
    """Split single columns off at every product, which gives the deepest tree.

    Every product splits off ``n_parts - 1`` single columns and leaves the rest for the next one. This is the other
    extreme of the paper's Table 2. Parameters are those of `complete_tree`.

    Returns
    -------
    RegionTree

    Examples
    --------
    >>> ps.circuits.skewed_tree(["a", "b", "c", "d"], n_children=2).n_regions
    7
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
    names = tuple(column_name(c) for c in columns)
    if not is_int(n_parts) or n_parts < 2:
        raise ValueError(f"n_parts must be an integer of at least 2, got {quoted(n_parts)}")
    if not is_int(repetitions) or repetitions < 1:
        raise ValueError(f"repetitions must be an integer of at least 1, got {quoted(repetitions)}")
    if repetitions > 1 and len(columns) < 2:
        raise ValueError(f"repetitions must be 1 for a single column, which has nothing to split, got {repetitions}")
    if repetitions > MAX_REGIONS:
        raise ValueError(f"repetitions = {repetitions:,} makes more than {MAX_REGIONS:,} sum nodes; take fewer")
    rng = np.random.default_rng(random_seed)
    own_splits = isinstance(split, str) and split == "per_product"
    first = rng.permutation(len(names)) if own_splits else column_order(names, split, rng)
    depths = _n_depths(part_sizes, len(columns), n_parts)
    grown = _RegionArrays(
        part_sizes, int(n_parts), children_by_depth(n_children, depths), first, rng if own_splits else None
    )
    if repetitions == 1:
        grown.add_tree(0, len(columns), -1, 0)
    else:
        grown.add_region(0, len(columns), -1, 0, int(repetitions))
        for i in range(repetitions):
            begin = 0 if i == 0 else grown.append(rng.permutation(len(names)))
            grown.add_tree(begin, begin + len(columns), 0, i)
    return RegionTree(
        columns=columns,
        order=np.concatenate(grown.order),
        **{name: np.array(values) for name, values in grown.arrays.items()},
    )


def _n_depths(part_sizes: Callable[[int, int], list[int]], m: int, n_parts: int) -> int:
    """Depths of a tree over m columns: the largest part leads to its deepest region."""
    depths = 1
    while m > 1:
        m = max(part_sizes(m, n_parts))
        depths += 1
    return depths


class _RegionArrays:
    """Arrays of a region tree that is being built, region by region in preorder."""

    def __init__(
        self,
        part_sizes: Callable[[int, int], list[int]],
        n_parts: int,
        width: np.ndarray,
        order: np.ndarray,
        rng: np.random.Generator | None,
    ) -> None:
        self.part_sizes, self.n_parts, self.width, self.rng = part_sizes, n_parts, width, rng
        self.order, self.starts = [order], [0]
        self.arrays: dict[str, list[int]] = {a: [] for a in ("begin", "end", "parent", "n_children", "split")}
        if rng is not None and np.any(width == 0):
            raise ValueError(
                "split='per_product' gives each product a split of its own and needs finite n_children, got 'infinite'"
            )

    def append(self, order: np.ndarray) -> int:
        """Where regions that slice another order of the columns begin."""
        self.starts.append(self.starts[-1] + self.order[-1].size)
        self.order.append(order)
        return self.starts[-1]

    def add_region(self, begin: int, end: int, parent: int, split: int, n_children: int) -> int:
        """Number of a new region."""
        region = len(self.arrays["begin"])
        if region == MAX_REGIONS:
            raise ValueError(
                f"the tree has more than {MAX_REGIONS:,} sum nodes: take fewer repetitions, "
                "or with split='per_product' fewer children"
            )
        values = (begin, end, parent, n_children, split)
        for listed, value in zip(self.arrays.values(), values, strict=True):
            listed.append(value)
        return region

    def add_tree(self, begin: int, end: int, parent: int, split: int) -> None:
        """A region and all below it; a loop, since a skewed tree is as deep as it has columns."""
        stack = [(begin, end, parent, split, 0)]
        while stack:
            low, high, above, number, depth = stack.pop()
            width = int(self.width[depth])
            region = self.add_region(low, high, above, number, width)
            if high - low == 1:
                continue
            sizes = np.array(self.part_sizes(high - low, self.n_parts))
            starts = [low]
            if self.rng is not None and sizes.max() > 1:  # parts of one column each can be chosen in one way only
                piece = bisect_right(self.starts, low) - 1
                held = self.order[piece][low - self.starts[piece] : high - self.starts[piece]]
                starts = [self.append(self.rng.permutation(held)) for _ in range(width)]
            parts = [
                (int(a), int(b), region, s, depth + 1)
                for s, start in enumerate(starts)
                for a, b in pairwise(start + np.concatenate([[0], np.cumsum(sizes)]))
            ]
            stack.extend(reversed(parts))
