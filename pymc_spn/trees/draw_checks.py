"""Whether stored trees, with the data that they were drawn given, are what kernels may walk through."""

from typing import Any

import numpy as np

from pymc_spn.tables.stored_arrays import checked, refuse
from pymc_spn.trees.features import MAX_SUBSET_LEVELS, SPLITS, Features
from pymc_spn.trees.leaves import FAMILIES
from pymc_spn.trees.split_kernels import CUT, MAX_LEVELS, ONE_HOT, SUBSET
from pymc_spn.trees.tree import splits_before

MOST_LEVELS = {"onehot": MAX_LEVELS, "subset": MAX_SUBSET_LEVELS}
INT32 = np.iinfo(np.int32)


def checked_features(columns: Any, values: Any, splits: Any, weights: Any) -> Features:
    """The training table, all of it of its columns.

    Parameters
    ----------
    columns : tuple of Column
    values : (N, D) array
    splits : tuple of str
    weights : (D,) array

    Raises
    ------
    ValueError
        If a cell is infinite or not the code of a level, or a column cannot be split in the way that is stated. If
        there is no row or no column.
    """
    table = checked("the table of features", values, (None, len(columns)), gaps=True)
    if 0 in table.shape:
        refuse("the table of features", "hold at least one row and one column", table.shape)
    if len(splits) != len(columns):
        refuse("splits", f"have an entry for each of {len(columns)} columns", len(splits))
    for d, (column, split) in enumerate(zip(columns, splits, strict=True)):
        n_levels = None if column.levels is None else len(column.levels)
        if split not in SPLITS or (split != "cut" and not 0 < (n_levels or 0) <= MOST_LEVELS[split]):
            refuse(f"the split of column {column.name!r}", f"be one of {list(SPLITS)} that suits its levels", split)
        if n_levels is not None:
            checked(f"column {column.name!r}", table[:, d], (None,), 0, n_levels - 1, whole=True, gaps=True)
    shares = checked("split_weights", weights, (len(columns),), 0.0)
    if not 0.0 < shares.sum() < np.inf:
        refuse("split_weights", "have a positive and finite sum", shares.sum())
    return Features(columns, table, tuple(splits), shares)


def checked_response(family: Any, y: Any, n_rows: int) -> np.ndarray:
    """The training response (N,), values of its family.

    Raises
    ------
    ValueError
        If there is no such family, or a value is none of its own.
    """
    if not isinstance(family, dict) or family.get("family") not in FAMILIES:
        refuse("the family of the leaves", f"be one of {list(FAMILIES)}", family)
    name, levels, high = family["family"], family.get("levels"), np.inf
    if name == "classes":
        if not isinstance(levels, list | tuple) or not levels or len({repr(v) for v in levels}) < len(levels):
            refuse("the classes", "be distinct and at least one", levels)
        if not all(isinstance(v, str | bool | int | float) for v in levels):
            refuse("the classes", "be strings, numbers or True and False", levels)
        high = len(levels) - 1
    elif name == "binary":
        high = 1.0
    numbers = family.get("numbers")
    if not isinstance(numbers, dict) or not set(numbers) <= set(FAMILIES[name].parameters):
        refuse("the numbers of the family", f"be among {FAMILIES[name].parameters}", numbers)
    low = -np.inf if name == "real" else 0.0
    checked("the response", y, (n_rows,), low, high, whole=name != "real")
    return np.asarray(y, np.float64)


def checked_parameters(family: dict, values: Any, n_trees: int) -> np.ndarray:
    """Parameters (T, p) of the leaf family, positive and finite, except for a mean."""
    names = FAMILIES[family["family"]].parameters
    numbers = checked("the parameters of the leaves", values, (n_trees, len(names)))
    for k, name in enumerate(names):
        if name != "mu0":
            checked(f"parameter {name!r} of the leaves", numbers[:, k], (None,), np.finfo(np.float64).tiny)
    return numbers


def checked_nodes(features: Features, decisions: Any, begin: Any) -> tuple[np.ndarray, np.ndarray]:
    """Decisions (n, 4) int32 and beginnings (T + 1,) int64 of trees that stand breadth first, one after the other.

    Raises
    ------
    ValueError
        If a tree has no nodes, lacks a child, or holds one that no split leads to. If a split has no feature, or its
        ends are not ranks or levels of that feature.
    """
    place = "the decisions of the trees"
    d = checked(place, decisions, (None, 4), INT32.min, INT32.max, whole=True)
    starts = checked("the beginnings of the trees", begin, (None,), 0, len(d), whole=True)
    if starts.size < 2 or starts[0] != 0 or starts[-1] != len(d) or (np.diff(starts) < 1).any():
        refuse("the beginnings of the trees", f"rise from 0 to the number of nodes, {len(d)}", starts.tolist())
    checked(f"{place}: features", d[:, 0], (None,), -1, len(features.columns) - 1, whole=True)
    is_split = d[:, 0] >= 0
    tree = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    local = np.arange(len(d)) - starts[tree]
    # whether the split whose child it is stands behind it, or nowhere
    wrong = splits_before(d, starts) < (local + 1) // 2
    n_splits = np.bincount(tree, is_split).astype(np.int64)
    wrong_size = np.diff(starts) != 1 + 2 * n_splits
    if wrong_size.any() or wrong.any():
        t = int(np.argmax(wrong_size)) if wrong_size.any() else int(tree[np.argmax(wrong)])
        rule = "hold two children for each split, breadth first, and no other node but the root"
        refuse(f"{place}: tree {t}", rule, f"{starts[t + 1] - starts[t]} nodes of which {n_splits[t]} are splits")
    kind = np.array([SPLITS[s] for s in features.splits])
    n_values = np.array([len(v) for v in features.distinct])
    feature, low, high, side = d[is_split].T
    own, most = kind[feature], n_values[feature]
    fits = (side >= -1) & (side <= 1) & (low >= 0) & (features.weights[feature] > 0.0)
    fits &= np.where(own == CUT, (low < high) & (high < most), True)
    fits &= np.where(own == ONE_HOT, low < most, True)
    masks = np.left_shift(1, np.where(own == SUBSET, most, 0))
    fits &= np.where(own == SUBSET, (low < masks) & (high >= 0) & (high < masks), True)
    if not fits.all():
        at = int(np.argmin(fits))
        refuse(
            f"{place}: a split by column {features.names[feature[at]]!r}",
            f"lie between two ranks or levels below {most[at]}, with side -1, 0 or 1",
            f"low {low[at]}, high {high[at]}, side {side[at]} at node {np.flatnonzero(is_split)[at]}",
        )
    return d.astype(np.int32), starts


def checked_rules(rules: Any, n_trees: int) -> np.ndarray:
    """alpha_s and beta_s (T, 2) of the trees' prior."""
    numbers = checked("the rules of the trees", rules, (n_trees, 2), 0.0)
    checked("alpha_s of the trees", numbers[:, 0], (n_trees,), 0.0, 1.0)
    return numbers


def checked_limit(name: str, value: Any, least: int) -> int:
    """A whole number of at least so many."""
    return int(checked(name, value, (), least, INT32.max, whole=True))
