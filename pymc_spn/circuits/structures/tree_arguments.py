"""What the arguments of `complete_tree` and `skewed_tree` mean, and which are refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name


def column_order(names: tuple[str, ...], split: Any, random_seed: Any) -> np.ndarray:
    """(D,) permutation that `split` stands for."""
    if isinstance(split, str):
        if split == "order":
            return np.arange(len(names))
        if split == "random":
            return np.random.default_rng(random_seed).permutation(len(names))
        raise ValueError(
            f"split must be 'order', 'random', 'per_product' or a sequence of column names, got {quoted(split)}"
        )
    listed = [as_name(label) for label in split]
    position = {name: d for d, name in enumerate(names)}
    for i, name in enumerate(listed):
        if name not in position:
            raise ValueError(
                f"split must list the columns by name, got {quoted(name)} at position {i}, which is not a column"
            )
        if name in listed[:i]:
            raise ValueError(
                f"split must list every column once, got {quoted(name)} at positions {listed.index(name)} and {i}"
            )
    missing = [name for name in names if name not in listed]
    if missing:
        raise ValueError(f"split must list every column once, {missing[0]!r} is missing")
    return np.array([position[name] for name in listed])


def children_by_depth(n_children: Any, n_depths: int) -> np.ndarray:
    """(n_depths,) int64 widths that `n_children` stands for, 0 for infinite."""
    if isinstance(n_children, str) or is_int(n_children):
        return np.full(n_depths, one_width(n_children, ""))
    if not isinstance(n_children, Sequence | np.ndarray):
        one_width(n_children, "")
    widths = list(n_children)
    if len(widths) != n_depths:
        raise ValueError(f"n_children must have one entry per depth of the region tree ({n_depths}), got {len(widths)}")
    return np.array([one_width(c, f" at depth {i}") for i, c in enumerate(widths)])


def one_width(value: Any, place: str) -> int:
    """Width that a number or "infinite" stands for, 0 for infinite; ``place`` ends the message of a refusal."""
    if isinstance(value, str) and value == "infinite":
        return 0
    if not is_int(value) or not 1 <= value < 2**31:
        raise ValueError(
            f"n_children must be an integer of at least 1, one per depth, or 'infinite', got {quoted(value)}{place}"
        )
    return int(value)
