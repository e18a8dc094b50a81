"""What the schema of a column depends on, read from parts of its rows and added up."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from pymc_spn.numerics.quoted_values import some
from pymc_spn.tables import coding
from pymc_spn.tables.column import LEVEL_KINDS, Column
from pymc_spn.tables.number_facts import NumberFacts

MOST_LEVELS = 100_000  # of text in a table that is read in partitions: each level costs memory in every leaf


class ColumnFacts(NamedTuple):
    """Facts of one column in some rows; ``levels`` are those of text and categories that occur, in their order."""

    family: str  # as `family_of` says, "missing" of a part without values
    dtype: str
    is_object: bool
    n_present: int
    numbers: NumberFacts | None
    levels: dict[Any, None] | None

    @classmethod
    def of(cls, series: pd.Series, name: str, kind: str | None = None) -> "ColumnFacts":
        """Facts of a series; infinite numbers are refused with their row."""
        family, is_object = coding.family_of(series, name), pdt.is_object_dtype(series.dtype)
        numbers, levels, n_present = None, None, int(series.notna().sum())
        if family in ("bool", "int", "float"):
            values = coding.numbers_of(series, name)
            coding.raise_at(series, name, np.isinf(values), "needs finite values (missing is NaN)")
            numbers = NumberFacts.of(values, kind == "categorical")
        elif family == "category":
            levels = dict.fromkeys(coding.category_levels(series.cat.categories, name))
        elif family == "string":
            levels = dict.fromkeys(str(level) for level in series.dropna().unique())
        return cls(family or "missing", coding.dtype_name(series), is_object, n_present, numbers, levels)

    def merged(self, other: "ColumnFacts", name: str, kind: str | None = None) -> "ColumnFacts":
        """Facts of both parts.

        Raises
        ------
        TypeError
            If they have different dtypes.
        ValueError
            If they have too many levels, or ordered categories that differ.
        """
        if "missing" in (self.family, other.family):
            return other if self.family == "missing" else self
        dtype = _common_dtype(self.dtype, other.dtype)
        if self.family != other.family or dtype is None:
            raise TypeError(f"column {name!r} is {other.dtype}, and {self.dtype} before: give all partitions one dtype")
        numbers, levels = self.numbers, self.levels
        if numbers is not None and other.numbers is not None:
            numbers = numbers.merged(other.numbers, kind == "categorical")
        if levels is not None and other.levels is not None and levels.keys() != other.levels.keys():
            if dtype.endswith(" ordered"):
                raise ValueError(
                    f"column {name!r} has the ordered categories {some(tuple(other.levels))}, and "
                    f"{some(tuple(levels))} before: give all partitions the same"
                )
            levels = levels | other.levels
            if len(levels) > MOST_LEVELS:
                raise ValueError(
                    f"column {name!r} has more than {MOST_LEVELS:,} levels: names or identifiers say nothing of other "
                    "rows; drop the column, or convert numbers that are text"
                )
        is_object = self.is_object or other.is_object
        return ColumnFacts(self.family, dtype, is_object, self.n_present + other.n_present, numbers, levels)

    def column(self, name: str, kind: str | None) -> Column:
        """The schema that the facts lead to, as `infer_column` finds it from all rows."""
        if self.n_present == 0:
            raise ValueError(f"column {name!r}: all values are missing; drop the column")
        kind = coding.kind_of(kind, self.family, self.numbers, True, name, self.dtype)
        numbers, named = self.numbers, None
        if numbers is not None and self.family != "bool" and kind in LEVEL_KINDS:
            if kind == "binary":
                if not {numbers.low, numbers.high} <= {0.0, 1.0} or not numbers.is_whole:
                    raise ValueError(f"column {name!r}: {coding.BINARY_RULE}, got {numbers.low:g} to {numbers.high:g}")
            elif numbers.values is None and not (kind == "ordinal" and numbers.is_whole):
                raise ValueError(f"column {name!r}: kind {kind!r} needs whole numbers, and has fractions")
        if self.levels is not None:
            named = tuple(self.levels) if self.family == "category" else tuple(sorted(self.levels))
        levels = coding.levels_of(kind, self.family, named, numbers, name)
        return Column(name, kind, levels, "boolean" if self.family == "bool" and self.is_object else self.dtype)


class TableFacts:
    """Facts of all columns in the rows read so far."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds, self.n_rows = kinds, 0
        self.columns: dict[str, ColumnFacts] = {}

    def add(self, frame: pd.DataFrame) -> None:
        """Add the rows of a frame, whose columns are those of the frames before."""
        if self.columns and list(self.columns) != list(frame.columns):
            raise ValueError(
                f"its columns are {some(list(frame.columns))}, and {some(list(self.columns))} before: give all "
                "partitions the same"
            )
        for name, cells in frame.items():
            kind = self.kinds.get(name)
            facts = ColumnFacts.of(cells, name, kind)
            self.columns[name] = self.columns[name].merged(facts, name, kind) if name in self.columns else facts
        self.n_rows += len(frame)

    def schema(self) -> tuple[Column, ...]:
        """Columns as all rows decide them."""
        return tuple(facts.column(name, self.kinds.get(name)) for name, facts in self.columns.items())


def _common_dtype(a: str, b: str) -> str | None:
    """The dtype of both, a nullable one where parts without gaps have the plain one; None where there is none."""
    if a == b:
        return a
    plain = sorted((a, b), key=str.islower)  # "Int64" before "int64"
    if plain[0].lower() == plain[1] or {a, b} == {"bool", "boolean"}:
        return "boolean" if "boolean" in (a, b) else plain[0]
    if {a, b} in ({"bool", "object"}, {"boolean", "object"}):
        return "boolean"
    return None
