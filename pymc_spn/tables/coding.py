"""One column between pandas and coded floats: which kind it is, encoding, decoding.

`infer_column` looks at a series once. `encode` is the only way to codes, for the first table and at prediction alike,
so that both refuse the same things in the same words.
"""

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from pymc_spn.numerics.quoted_values import quoted, some
from pymc_spn.tables.column import LEVEL_KINDS, WHOLE_KINDS, Column, check_kind
from pymc_spn.tables.number_facts import EXACT_LIMIT, MOST_ORDINAL, NumberFacts

MOST_LEVELS = 100_000  # of text in a table that is read in partitions: each level costs memory in every leaf
IDENTIFIERS = re.compile(r"(^|[^a-z])(id|plz|post_?code|postal_?code|zip(_?code)?)$", re.IGNORECASE)  # names of columns
FEW_LEVELS = 20  # text of up to so many levels is taken for categories however few rows there are
# Whole numbers are read as ordinal if they span few values, of which at least half occur, and repeat. Twelve holds the
# scales 0..10 and the months. The largest of a sample of counts seldom occurs three times, so that most counts stay
# counts; and levels at the ends that occur three times are seldom all missing from a part of the rows.
MOST_GUESSED, ROWS_A_LEVEL, ROWS_AT_ENDS = 12, 5, 3
DISPERSION_ERRORS = 3.0  # standard errors by which a variance must be below the mean for numbers to be no counts

# what a series holds, whatever stores it -> kinds it may take, the default first (numbers: see guessed_kind)
FAMILY_KINDS = {
    "bool": ("binary", "categorical"),
    "int": ("count", "integer", "ordinal", "real", "positive", "binary", "categorical"),
    "float": ("real", "positive", "integer", "count", "ordinal", "binary", "categorical"),
    "string": ("categorical", "binary"),
    "category": ("categorical", "binary"),
}

BINARY_RULE = "kind 'binary' needs bool, 0 and 1 or exactly two levels"
HINTS = {
    "datetime": "convert to a number, e.g. days since a date: (x - x.min()).dt.days",
    "period": "convert with x.dt.to_timestamp(), then to a number, e.g. days since a date: (x - x.min()).dt.days",
    "timedelta": "convert to a number, e.g. x.dt.total_seconds()",
    "complex": "split it into a real and an imaginary column",
    "bytes": "convert with x.str.decode('utf-8')",
    "other": "convert with astype, e.g. astype(float) or astype(str)",
}


def infer_column(series, name, kind=None, own_dtype=True):
    """Column schema of a series, from its dtype and values or with the kind that the user asks for.

    ``own_dtype`` says whether the dtype was chosen for this column; that of a 2-D array is one for all columns.
    """
    facts = ColumnFacts.of(series, name, kind)
    if kind in LEVEL_KINDS and facts.numbers is not None and facts.family != "bool":  # with the row that breaks a rule
        numbers = numbers_of(series, name)
        if kind == "binary":
            raise_at(series, name, ~np.isnan(numbers) & (numbers != 0) & (numbers != 1), BINARY_RULE)
        else:
            check_numbers(series, name, numbers, whole=True, rule=f"kind {kind!r}")
    return facts.column(name, kind, own_dtype)


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
        """Facts of a series."""
        family, is_object = family_of(series, name), pdt.is_object_dtype(series.dtype)
        numbers, levels, n_present = None, None, int(series.notna().sum())
        if family in ("bool", "int", "float"):
            numbers = NumberFacts.of(numbers_of(series, name), kind == "categorical")
        elif family == "category":
            levels = dict.fromkeys(category_levels(series.cat.categories, name))
        elif family == "string":
            levels = dict.fromkeys(str(level) for level in series.dropna().unique())
        return cls(family or "missing", dtype_name(series), is_object, n_present, numbers, levels)

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

    def column(self, name: str, kind: str | None, own_dtype: bool = True) -> Column:
        """The schema that the facts lead to; see `infer_column`."""
        if self.n_present == 0:
            raise ValueError(f"column {name!r}: all values are missing; drop the column")
        kind = kind_of(kind, self.family, self.numbers, own_dtype, name, self.dtype)
        numbers, named = self.numbers, None
        if numbers is not None and self.family != "bool" and kind in LEVEL_KINDS:
            if kind == "binary":
                if not {numbers.low, numbers.high} <= {0.0, 1.0} or not numbers.is_whole:
                    raise ValueError(f"column {name!r}: {BINARY_RULE}, got {numbers.low:g} to {numbers.high:g}")
            elif numbers.values is None and not (kind == "ordinal" and numbers.is_whole):
                raise ValueError(f"column {name!r}: kind {kind!r} needs whole numbers, and has fractions")
        if self.levels is not None:
            named = tuple(self.levels) if self.family == "category" else tuple(sorted(self.levels))
        levels = levels_of(kind, self.family, named, numbers, name)
        # bools with None are objects in pandas, and decode to its own bools with gaps
        return Column(name, kind, levels, "boolean" if self.family == "bool" and self.is_object else self.dtype)


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


def kind_of(kind, family, facts, own_dtype, name, dtype):
    """The kind that is asked for, checked, or the kind that dtype and values say."""
    if kind is None:
        kind = FAMILY_KINDS[family][0]
        if family == "int" or (family == "float" and own_dtype):
            kind = kind_of_numbers(facts, family == "int")
    check_kind(kind, name)
    if kind not in FAMILY_KINDS[family]:
        raise TypeError(
            f"column {name!r}: kind {kind!r} needs numbers, got dtype {dtype}; "
            f"convert with astype, or choose from {', '.join(FAMILY_KINDS[family])}"
        )
    return kind


def levels_of(kind, family, named, facts, name):
    """Levels of a column, None if its kind has none; ``named`` are those of text and categories."""
    if kind not in LEVEL_KINDS:
        return None
    if named is not None:
        levels = named
    elif family == "bool":
        levels = (False, True)
    elif kind == "binary":
        levels = (0, 1)
    elif kind == "ordinal":
        low, high = int(facts.low), int(facts.high)
        if high - low >= MOST_ORDINAL:
            raise ValueError(
                f"column {name!r}: kind 'ordinal' takes up to {MOST_ORDINAL} levels, got {low} to {high}; "
                "use 'integer' or 'count'"
            )
        levels = tuple(range(low, high + 1))
    else:
        levels = tuple(int(level) for level in facts.values)
    if kind == "binary" and len(levels) != 2:
        raise ValueError(f"column {name!r}: kind 'binary' needs exactly two levels, got {len(levels)}: {some(levels)}")
    return levels


def guessed_kind(numbers, is_int):
    """Kind of a column of numbers (N,), NaN where missing, that its own values do not refute."""
    return kind_of_numbers(NumberFacts.of(numbers), is_int)


def kind_of_numbers(facts, is_int):
    """Kind that the facts of a column of numbers do not refute.

    Floats are read as whole numbers only if these are so few that they are binary or ordinal. pandas stores integers
    with gaps as floats, and others may follow that are not whole.
    """
    if not is_int and not facts.is_whole:
        return "real"
    low, high = facts.low, facts.high
    varies = high > low
    if {low, high} <= {0.0, 1.0} and (is_int or varies):
        return "binary"
    span = high - low + 1.0
    if varies and span <= min(MOST_GUESSED, facts.n / ROWS_A_LEVEL) and span <= 2.0 * facts.values.size:
        if min(facts.rows[0], facts.rows[-1]) >= ROWS_AT_ENDS:
            return "ordinal"
    if not is_int:
        return "real"
    # mixtures of Poisson leaves have a variance of at least their mean, of which that of N counts is known to this
    limit = facts.mean * (1.0 - DISPERSION_ERRORS * math.sqrt(2.0 / facts.n))
    return "integer" if low < 0.0 or facts.variance < limit else "count"


def is_nearly_unique(series, column):
    """Whether text looks like names or identifiers: more levels than half of the cells."""
    if column.levels is None or not isinstance(column.levels[0], str) or isinstance(series.dtype, pd.CategoricalDtype):
        return False
    return series.nunique() > max(FEW_LEVELS, series.notna().sum() / 2)


def is_identifier(series, column):
    """Whether whole numbers look like identifiers: by the column's name, or since none of many occurs twice.

    Of n values with the standard deviation s some n^2 / (4 sqrt(pi) s) pairs are equal if their density is smooth, and
    that none is where ten are expected has a probability below 1e-4. Years may follow one another. Integers with gaps
    are floats in pandas, and count by the name.
    """
    is_float = column.kind == "real" and pdt.is_float_dtype(series.dtype) and series.hasnans
    if not is_float and not (column.kind in WHOLE_KINDS and pdt.is_integer_dtype(series.dtype)):
        return False
    present = series[series.notna()].to_numpy(np.float64)
    n, distinct = present.size, np.unique(present).size
    if distinct <= FEW_LEVELS or is_float or IDENTIFIERS.search(column.name):
        is_whole = not is_float or (np.floor(present) == present).all()
        return bool(distinct > FEW_LEVELS and is_whole and IDENTIFIERS.search(column.name))
    are_years = present.min() >= 1500.0 and present.max() <= 2200.0
    return distinct == n and not are_years and n * (n - 1.0) / (4.0 * math.sqrt(math.pi) * present.std()) >= 10.0


def encode(series, column):
    """Code a series by a known column: (N,) float64, levels as 0..K-1, NaN where missing."""
    name = column.name
    family = family_of(series, name)
    if column.kind not in LEVEL_KINDS:
        if family not in ("int", "float"):
            if series.isna().all():
                return np.full(len(series), np.nan)
            raise TypeError(
                f"column {name!r}: kind {column.kind!r} needs numbers, got dtype {dtype_name(series)}; "
                "convert with astype(float)"
            )
        numbers = numbers_of(series, name)
        rule = f"kind {column.kind!r}"
        check_numbers(series, name, numbers, whole=column.kind in WHOLE_KINDS, rule=rule)
        if column.kind == "count":
            raise_at(series, name, numbers < 0, f"{rule} needs values >= 0")
        if column.kind == "positive":
            raise_at(series, name, numbers < 0, f"{rule} needs values >= 0")
        return numbers
    coded = level_codes(series, column)
    known, hint = f"known levels: {some(column.levels)}", ""
    if column.kind == "ordinal":
        known = f"known levels: {column.levels[0]} to {column.levels[-1]}"
        hint = f"; learn with kinds={{{name!r}: 'count'}} or 'integer' to allow other whole numbers"
    raise_at(series, name, coded < 0, f"unseen level ({known}{hint})")
    return coded


def level_codes(series, column):
    """Code of each level (N,) float64, NaN where it is missing, -1 where the column has no such level."""
    if family_of(series, column.name) == "category":
        codes, found = series.cat.codes.to_numpy(), series.cat.categories
    else:
        codes, found = pd.factorize(series)
        found = pd.Index(found)
    positions = np.append(level_positions(found, column.levels), -1)  # code -1, missing, reads the last
    coded = positions[codes].astype(np.float64)
    coded[codes < 0] = np.nan
    return coded


def unseen_cells(series, column):
    """(N,) bool: cells with a level that the column does not have, of the type that its levels have.

    Numbers in a column of text, or the other way round, are no levels that a table might have had: coding refuses them.
    """
    coded = level_codes(series, column)
    values = series.cat.categories if isinstance(series.dtype, pd.CategoricalDtype) else series[series.notna()]
    is_text = pdt.infer_dtype(values, skipna=False) == "string"
    return (coded < 0) & (is_text == isinstance(column.levels[0], str))


def decode(coded, column, index):
    """Series with the column's own dtype from (N,) coded floats; NaN becomes missing."""
    coded = np.asarray(coded, dtype=np.float64)
    missing = np.isnan(coded)
    if column.kind not in LEVEL_KINDS:
        return pd.Series(number_array(coded, column.dtype), index=index, name=column.name)
    n_levels = len(column.levels)
    bad = ~missing & ~((coded >= 0) & (coded < n_levels) & (np.floor(coded) == coded))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"column {column.name!r}, row at position {row}: a code must be a whole number in "
            f"0..{n_levels - 1}, got {coded[row]}"
        )
    codes = np.where(missing, -1, coded).astype(np.int64)
    if column.dtype.startswith("category["):
        inner, _, order = column.dtype.removeprefix("category[").rpartition("]")  # inner: perhaps "int64[pyarrow]"
        categories = pd.Index(list(column.levels), dtype=named_dtype(inner))
        array = pd.Categorical.from_codes(codes, categories=categories, ordered=order == " ordered")
    elif isinstance(column.levels[0], str):
        words = np.array([*column.levels, np.nan], dtype=object)[codes]  # code -1 reads the last: NaN
        return pd.Series(words, index=index, name=column.name, dtype=named_dtype(column.dtype))
    else:
        array = number_array(np.array([*column.levels, np.nan], dtype=np.float64)[codes], column.dtype)
    return pd.Series(array, index=index, name=column.name)


def family_of(series, name):
    """What a series holds: bool, int, float, string, category or (object dtype only) missing."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if isinstance(dtype, pd.StringDtype):
        return "string"
    if str(dtype) == "null[pyarrow]":
        return "missing"
    if not isinstance(dtype, pd.SparseDtype):
        if pdt.is_bool_dtype(dtype):
            return "bool"
        if pdt.is_integer_dtype(dtype):
            return "int"
        if pdt.is_float_dtype(dtype):
            if dtype.itemsize > 8:
                raise TypeError(f"column {name!r}: dtype {dtype} is refused; convert with astype(float)")
            return "float"
        if pdt.is_object_dtype(dtype):
            return object_family(series, name)
        if pdt.is_string_dtype(dtype):  # Arrow strings
            return "string"
    if isinstance(dtype, pd.PeriodDtype):
        hint = HINTS["period"]
    elif pdt.is_datetime64_any_dtype(dtype):
        hint = HINTS["datetime"]
    elif getattr(dtype, "kind", None) == "m":  # timedelta64 and Arrow durations
        hint = HINTS["timedelta"]
    elif pdt.is_complex_dtype(dtype):
        hint = HINTS["complex"]
    elif isinstance(dtype, pd.SparseDtype):
        hint = "convert with x.sparse.to_dense()"
    else:
        hint = HINTS["other"]
    raise TypeError(f"column {name!r}: dtype {dtype} is refused; {hint}")


def object_family(series, name):
    """Family of an object column; anything but str (bool, for a known column) is refused."""
    present = series[series.notna()]
    inferred = pdt.infer_dtype(present, skipna=False)
    if inferred == "empty":
        return "missing"
    if inferred == "string":
        return "string"
    if inferred == "boolean":
        return "bool"
    types = present.map(type)
    first, others = types.iloc[0], types[(types != types.iloc[0]).to_numpy()]
    bad = series.notna()
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal"):
        rule = "object column of numbers: convert with astype(float) or infer_objects()"
    elif len(others):
        bad &= series.map(type) == others.iloc[0]
        rule = (
            f"object column mixes {first.__name__} and {others.iloc[0].__name__}: "
            "convert with astype(str) or astype(float)"
        )
    else:
        stem = "datetime" if inferred == "date" else inferred.removesuffix("64")
        hint = HINTS.get(stem, HINTS["other"])
        if stem in ("datetime", "period", "timedelta"):  # .dt and differences need a dtype first
            hint = f"make it x = {'pd.to_datetime(x)' if inferred == 'date' else 'x.infer_objects()'}, then {hint}"
        rule = f"object column of {first.__name__}: {hint}"
    raise_at(series, name, bad, rule, TypeError)


def category_levels(categories, name):
    """Levels in category order, as plain Python values."""
    numeric = pdt.is_numeric_dtype(categories.dtype) and not pdt.is_complex_dtype(categories.dtype)
    if not numeric and pdt.infer_dtype(categories, skipna=False) != "string":
        raise TypeError(
            f"column {name!r}: categories must be all str or all numbers, got {some(tuple(categories))}; "
            "convert with x.cat.rename_categories(str)"
        )
    if pdt.is_integer_dtype(categories.dtype):
        numbers_of(categories.to_series(), name)  # refuses levels that float64 cannot tell apart
    return tuple(str(level) if isinstance(level, str) else level for level in categories.tolist())


def level_positions(found, levels):
    """Position of each value among the levels, -1 where it is none of them: (len(found),) int64."""
    if isinstance(levels[0], str):
        if len(found) and pdt.infer_dtype(found, skipna=False) == "string":
            return pd.Index(levels, dtype=object).get_indexer(found.astype(object))
    elif pdt.is_numeric_dtype(found.dtype) or pdt.infer_dtype(found, skipna=False) == "boolean":
        numbers = found.to_numpy(dtype=np.float64)
        return pd.Index(np.array(levels, dtype=np.float64)).get_indexer(numbers)
    return np.full(len(found), -1)


def numbers_of(series, name):
    """Numbers as (N,) float64, NaN where missing; whole numbers that float64 rounds are refused."""
    numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
    if pdt.is_integer_dtype(series.dtype):
        raise_at(
            series,
            name,
            np.abs(numbers) >= EXACT_LIMIT,
            "integers must lie within +-(2**53 - 1) to be exact in float64; for labels use astype(str)",
        )
    return numbers


def check_numbers(series, name, numbers, whole, rule):
    """Refuse infinite and, if asked, fractional numbers."""
    raise_at(series, name, np.isinf(numbers), f"{rule} needs finite values (missing is NaN)")
    if whole:
        bad = ~np.isnan(numbers) & (np.floor(numbers) != numbers)
        raise_at(series, name, bad, f"{rule} needs whole numbers")


def raise_at(series, name, bad, rule, error=ValueError):
    """Raise for the first row where `bad`, with its label, position and value; else do nothing."""
    bad = np.asarray(bad)
    if not bad.any():
        return
    row = int(np.argmax(bad))
    (label,), (value,) = series.index[row : row + 1].tolist(), series.iloc[row : row + 1].tolist()
    raise error(f"column {name!r}, row {label!r} (position {row}): {rule}, got {quoted(value)}")


def number_array(numbers, dtype_text):
    """Array of the named dtype, or of the narrowest one that holds what is there.

    Missing bools and integers need the nullable dtype; an integer column with fractions (a draw from a Gaussian leaf)
    becomes float64, one beyond the dtype's range int64.
    """
    dtype = pdt.pandas_dtype(dtype_text)
    missing = np.isnan(numbers)
    nullable = not isinstance(dtype, np.dtype)
    if pdt.is_float_dtype(dtype):
        if np.abs(numbers[~missing]).max(initial=0.0) > np.finfo(f"f{dtype.itemsize}").max:
            dtype = pd.Float64Dtype() if nullable else np.dtype(np.float64)
        return pd.array(numbers, dtype=dtype) if nullable else numbers.astype(dtype)
    if pdt.is_bool_dtype(dtype):
        if missing.any() or nullable:
            dtype = dtype if nullable else pd.BooleanDtype()
            return pd.Series(numbers).astype("boolean").astype(dtype).array
        return numbers.astype(np.bool_)
    low, high = numbers[~missing].min(initial=0.0), numbers[~missing].max(initial=0.0)
    if (np.floor(numbers[~missing]) != numbers[~missing]).any() or max(-low, high) >= 2.0**63:
        return pd.array(numbers, dtype="Float64") if nullable else numbers.copy()
    stem, size = "uint" if pdt.is_unsigned_integer_dtype(dtype) else "int", 8 * dtype.itemsize
    limits = np.iinfo(f"{stem}{size}")
    if low < limits.min or high > limits.max:
        stem, size, dtype = "int", 64, pd.Int64Dtype() if nullable else np.dtype(np.int64)
    if missing.any() and not nullable:
        nullable, dtype = True, f"{stem.replace('i', 'I').replace('u', 'U')}{size}"
    return pd.Series(numbers).astype(dtype).array if nullable else numbers.astype(dtype)


def dtype_name(series):
    """The dtype as `Column.dtype` keeps it."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category[{dtype.categories.dtype}]{' ordered' if dtype.ordered else ''}"
    return str(dtype)


def named_dtype(text):
    """The dtype of a name that `dtype_name` gave; pandas reads that of Arrow strings as its own string dtype."""
    if text == "string[pyarrow]":  # no other dtype has this name: that of pandas' strings in Arrow storage is "string"
        import pyarrow as pa

        return pd.ArrowDtype(pa.string())
    return pdt.pandas_dtype(text)
