"""How the columns of a table were read, in a line: what the front doors report and posteriors show."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.tables.coding import EXACT_LIMIT, guessed_kind
from pymc_spn.tables.column import Column, as_name
from pymc_spn.tables.table import Table, ordinals_as_integers

MOST_NAMES = 6  # of one kind in a line
_log = logging.getLogger("pymc")  # shown and silenced as what pm.sample reports


def read_table(
    data: Any, kinds: Mapping[str, str] | None = None, name: str | None = None, ordinals: bool = True
) -> Table:
    """Code data by `Table.from_frame`, and report once how columns were read whose values decided the kind.

    Parameters
    ----------
    data : DataFrame, mapping, array or Table
    kinds : mapping, optional
        As in `Table.from_frame`.
    name : str, optional
        Of the variable, for the report.
    ordinals : bool
        Whether ordinal columns stay so; else they are integers, whatever `kinds` says.
    """
    table = Table.from_frame(data, kinds)
    if not ordinals:
        table = ordinals_as_integers(table)
    if isinstance(data, Table) and not kinds:
        return table
    given = {as_name(label) for label in kinds or {}}
    for column, x in zip(table.columns, table.values.T, strict=True) if hasattr(data, "columns") else ():
        x = x[~np.isnan(x)]
        if column.kind == "real" and column.name not in given and 0 < x.size < len(table.values) and is_whole(x):
            kind = guessed_kind(x, True)
            why = f". {column.name!r} holds whole numbers and gaps, and was read as real"
            _log.info(_read_as(table.columns, name, column.name, kind, why))
            return table
    report_guesses(table.columns, kinds, name)
    return table


def report_guesses(columns: Sequence[Column], kinds: Mapping[str, str] | None, name: str | None) -> None:
    """Report how columns were read if values decided the kind of any that `kinds` does not name."""
    given = {as_name(label) for label in kinds or {}}
    guessed = [c for c in columns if is_guessed(c) and c.name not in given]
    if guessed:
        odd = next((c for c in guessed if c.kind != "binary"), guessed[0])
        to = "categorical" if odd.kind == "ordinal" else "real"
        _log.info(_read_as(columns, name, odd.name, to))


def _read_as(columns: Sequence[Column], name: str | None, odd: str, to: str, why: str = "") -> str:
    about = "Columns" if name is None else f"Columns of {name!r}"
    return f"{about}: {describe_columns(columns)}{why}. Change with kinds={{{odd!r}: {to!r}}}"


def is_whole(numbers: np.ndarray) -> bool:
    """Whether all of some numbers are whole, and small enough for that to mean something."""
    return bool(((np.abs(numbers) < EXACT_LIMIT) & (np.floor(numbers) == numbers)).all())


def is_guessed(column: Column) -> bool:
    """Whether values, and not the dtype alone, decided the kind of a column: it holds whole numbers."""
    numbers = column.levels is None or (isinstance(column.levels[0], int) and not isinstance(column.levels[0], bool))
    return numbers and column.kind in ("integer", "count", "ordinal", "binary") and "category" not in column.dtype


def describe_columns(columns: Sequence[Column]) -> str:
    """Names by kind, such as ``survived binary; rating ordinal 1..5; year integer``; long lists are cut."""
    by_kind: dict[str, list[str]] = {}
    for c in columns:
        levels = c.levels or ()
        kind = f"ordinal {levels[0]}..{levels[-1]}" if c.kind == "ordinal" else c.kind
        by_kind.setdefault(kind, []).append(c.name)
    parts = []
    for kind, names in by_kind.items():
        shown = ", ".join(names[:MOST_NAMES])
        parts.append(f"{shown}{f', ... ({len(names)})' if len(names) > MOST_NAMES else ''} {kind}")
    shown = "; ".join(parts[:MOST_NAMES])
    return shown if len(parts) <= MOST_NAMES else f"{shown}; ... ({len(columns)} columns)"
