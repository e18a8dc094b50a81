"""Features of a decision tree: columns of a table as ranks, and which kind of split each allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from warnings import warn

import numpy as np
import pandas as pd

from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables import Column, Table, read_table
from pymc_spn.tables.column import by_name
from pymc_spn.trees.split_kernels import CUT, MAX_LEVELS, ONE_HOT, SUBSET, FeatureCodes, Options, Rules, make_options

SPLITS = {"cut": CUT, "onehot": ONE_HOT, "subset": SUBSET}
MAX_SUBSET_LEVELS = 12  # 4,094 subsets
TREE_BYTES = 500.0  # a drawn tree with its arrays, at least
SMALLEST_SPREAD = 1e-300  # shares of a range of less have no inverse


@dataclass(frozen=True, eq=False)
class Features:
    """A table of features, ready to be split.

    Parameters
    ----------
    columns : tuple of Column
    values : (N, D) float64
        Numbers, levels as codes, NaN where missing.
    splits : tuple of str
        "cut", "onehot" or "subset" for each column.
    weights : (D,) float64
        Prior weight of each feature among those that can be split.
    """

    columns: tuple[Column, ...]
    values: np.ndarray
    splits: tuple[str, ...]
    weights: np.ndarray

    @property
    def names(self) -> list[str]:
        """Column names."""
        return [c.name for c in self.columns]

    @property
    def frame(self) -> str | None:
        """What kind of table the features were, None for pandas."""
        return self.columns[0].frame

    @cached_property
    def distinct(self) -> list[np.ndarray]:
        """Values behind the ranks of each column: its distinct numbers, or all codes of its levels."""
        found = []
        for d, column in enumerate(self.columns):
            x = self.values[:, d]
            if column.levels is not None:
                found.append(np.arange(float(len(column.levels))))
            else:
                found.append(np.unique(x[~np.isnan(x)]))
        return found

    @cached_property
    def codes(self) -> FeatureCodes:
        """Compiled form."""
        n_rows, n_columns = self.values.shape
        codes = np.full((n_columns, n_rows), -1, np.int32)
        for d, distinct in enumerate(self.distinct):
            seen = ~np.isnan(self.values[:, d])
            codes[d, seen] = np.searchsorted(distinct, self.values[seen, d])
        begin = np.concatenate([[0], np.cumsum([len(v) for v in self.distinct])])
        flat = np.concatenate(self.distinct) if self.distinct else np.empty(0)
        kind = np.array([SPLITS[s] for s in self.splits], np.int64)
        return FeatureCodes(codes, kind, flat, begin.astype(np.int64), np.asarray(self.weights, np.float64))

    def scratch(self, n_statistics: int) -> Options:
        """Scratch for the kernels, large enough for the root."""
        n_options = 0
        for d, split in enumerate(self.splits):
            n = len(self.distinct[d])
            each = {"cut": n, "onehot": n, "subset": 2**n}[split]
            n_options += each * (2 if np.isnan(self.values[:, d]).any() else 1)
        return make_options(len(self.values), max(n_options, 1), n_statistics)


def check_same_rows(X: Any, y: Any, n_rows: int, n_responses: int) -> None:
    """Refuse features and a response of different rows.

    Raises
    ------
    ValueError
        If their numbers differ, or the labels of two pandas objects do: rows would be put together that do not belong
        together.
    """
    if n_rows != n_responses:
        raise ValueError(f"X and y must have the same length, X has {n_rows} rows and y {n_responses}")
    check_same_labels(row_labels_of(X), y)


def row_labels_of(X: Any) -> pd.Index | None:
    """Row labels of features that have some."""
    return X.index if isinstance(X, pd.DataFrame | Table) else None


def check_same_labels(labels: pd.Index | None, y: Any) -> None:
    """Refuse a response whose row labels are others than those of the features, where both have some."""
    if labels is None or not isinstance(y, pd.DataFrame | pd.Series) or labels.equals(y.index):
        return
    n = next((n for n, (a, b) in enumerate(zip(labels, y.index, strict=True)) if a != b), None)
    if n is not None:
        raise ValueError(
            f"y must have the row labels of X, got {quoted(y.index[n])} for {labels[n]!r} at position {n}; say "
            "y.loc[X.index], or y.to_numpy() if rows go together as they stand"
        )


def make_features(
    data: Any, categorical: Any = "onehot", split_weights: Any = None, *, missing: str = "branch", kinds: Any = None
) -> Features:
    """Features from a frame, an array or a table; see `fit_tree` for the arguments."""
    table = read_table(data, kinds, ordinals=False)  # cut in their order, so that other numbers may follow
    values = table.values
    if missing not in ("branch", "error"):
        raise ValueError(f'missing must be "branch" or "error", got {quoted(missing)}')
    gaps = np.argwhere(np.isnan(values))
    if missing == "error" and len(gaps):
        i, d = gaps[0]
        raise ValueError(
            f'X must not hold missing values with missing="error"; column {table.names[d]!r}, row {table.index[i]!r} is'
        )
    categorical, split_weights = by_name("categorical", categorical), by_name("split_weights", split_weights)
    splits = tuple(_split_of(c, categorical) for c in table.columns)
    _check_named("categorical", categorical, table.names)
    for d, (column, split) in enumerate(zip(table.columns, splits, strict=True)):
        limit = {"cut": None, "onehot": MAX_LEVELS, "subset": MAX_SUBSET_LEVELS}[split]
        if limit is not None and len(column.levels or ()) > limit:
            raise ValueError(
                f'column {column.name!r}: "{split}" splits take up to {limit} levels, got {len(column.levels or ())}; '
                "merge rare levels, or make the column an ordered category"
            )
        if np.isinf(values[:, d]).any():
            raise ValueError(
                f"column {column.name!r}: X must be finite, row {np.argmax(np.isinf(values[:, d]))} is not"
            )
        with np.errstate(over="ignore"):
            spread = np.ptp(values[~np.isnan(values[:, d]), d]) if len(values) else 0.0
        if not (spread == 0.0 or SMALLEST_SPREAD < spread < np.inf):
            raise ValueError(
                f"column {column.name!r}: the range of its values is {spread}, no normal float; rescale it"
            )
    weights = _weights(split_weights, table.names)
    features = Features(tuple(table.columns), np.array(values), splits, weights)
    constant = [c for d, c in enumerate(features.names) if len(np.unique(values[~np.isnan(values[:, d]), d])) < 2]
    if constant:
        warn(
            f"X: constant columns {quoted(constant)} can never be split; leave them out",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return features


def code_rows(columns: tuple[Column, ...], data: Any, unseen: str = "error") -> np.ndarray:
    """New rows as floats, by the columns of the training table.

    Parameters
    ----------
    columns : tuple of Column
    data : DataFrame, mapping, array or Table
    unseen : {"error", "missing"}
        What to do with a level that the training table does not have.
    """
    values = Table.from_frame(data, schema=columns, unseen=unseen).values
    bad = np.argwhere(np.isinf(values))
    if len(bad):
        raise ValueError(f"column {columns[bad[0][1]].name!r}: X must be finite, row {bad[0][0]} is not")
    return np.array(values)


def make_rules(alpha_s: Any, beta_s: Any, max_depth: int | None, min_size: int) -> Rules:
    """Compiled prior of the tree, checked."""
    check_rules(alpha_s, beta_s, max_depth, min_size)
    return Rules(float(alpha_s), float(beta_s), -1 if max_depth is None else int(max_depth), int(min_size))


def check_rules(alpha_s: Any, beta_s: Any, max_depth: Any, min_size: Any) -> None:
    """Refuses numbers outside their range; variables pass."""
    number = int | float | np.number
    for name, value in (("alpha_s", alpha_s), ("beta_s", beta_s)):
        if not isinstance(value, number) and not hasattr(value, "type"):
            raise TypeError(f"{name} must be a number or a variable of a model, got {quoted(value)}")
    if isinstance(alpha_s, number) and not 0.0 < alpha_s < 1.0:
        raise ValueError(
            f"alpha_s must lie in (0, 1): it is the probability that the root splits; got {quoted(alpha_s)}"
        )
    if isinstance(beta_s, number) and not (np.isfinite(beta_s) and beta_s >= 0.0):
        raise ValueError(f"beta_s must be at least 0 and finite, got {quoted(beta_s)}")
    if max_depth is not None and not (is_int(max_depth) and max_depth >= 0):
        raise ValueError(f"max_depth must be None or an integer of at least 0, got {quoted(max_depth)}")
    if not (is_int(min_size) and min_size >= 1):
        raise ValueError(f"min_size must be an integer of at least 1, got {quoted(min_size)}")


def _split_of(column: Column, categorical: Any) -> str:
    if column.kind != "categorical" or column.dtype.endswith(" ordered"):
        return "cut"
    split = categorical.get(column.name, "onehot") if isinstance(categorical, Mapping) else categorical
    if not isinstance(split, str) or split not in ("onehot", "subset"):
        raise ValueError(f'categorical must be "onehot", "subset" or a dict of them by column, got {quoted(split)}')
    return split


def _check_named(argument: str, given: Any, names: tuple[str, ...]) -> None:
    if isinstance(given, Mapping):
        unknown = [k for k in given if k not in names]
        if unknown:
            raise ValueError(
                f"{argument} names unknown columns {quoted(unknown)}; the columns are {quoted(list(names))}"
            )


def _weights(given: Any, names: tuple[str, ...]) -> np.ndarray:
    if given is None:
        return np.ones(len(names))
    _check_named("split_weights", given, names)
    if isinstance(given, Mapping):
        given = [given.get(name, 1.0) for name in names]
    weights = np.asarray(given, np.float64)
    if weights.shape != (len(names),):
        raise ValueError(f"split_weights must hold one number for each of {len(names)} columns, got {weights.shape}")
    bad = ~(np.isfinite(weights) & (weights >= 0.0))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"split_weights must be finite and at least 0; {names[i]!r} has {weights[i]}")
    if not weights.sum() > 0.0:
        raise ValueError("split_weights must have a positive sum, all are 0")
    return weights
