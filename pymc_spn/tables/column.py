"""What a table remembers of a column: name, kind, levels, original dtype."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_spn.numerics.html_repr import Listed, elided
from pymc_spn.numerics.quoted_values import quoted, refuse_unkept

KINDS = ("real", "positive", "integer", "count", "ordinal", "binary", "categorical")
NOMINAL_KINDS = ("binary", "categorical")  # of an ordinal column the levels are numbers, of these labels
DENSITY_KINDS = ("real", "positive")
LEVEL_KINDS = ("ordinal", *NOMINAL_KINDS)
FRAMES = ("polars", "pyarrow")  # kinds of tables beside those of pandas
WHOLE_KINDS = ("integer", "count")  # whole numbers, each with a mass of its own


@dataclass(frozen=True, repr=False)
class Column:
    """Schema of one column.

    Parameters
    ----------
    name : str
    kind : {"real", "positive", "integer", "count", "ordinal", "binary", "categorical"}
    levels : tuple of str, int, float or bool, or None
        The values that codes 0..K-1 stand for; exactly two for ``binary``, consecutive integers for ``ordinal``, None
        for other numbers.
    dtype : str
        The dtype that decoding restores, as pandas prints it (``"int64"``, ``"boolean"``, ``"str"``); for categories
        ``"category[<dtype of the levels>]"``, followed by ``" ordered"`` where the order means something.
    indicates : str, optional
        Name of the column whose gaps this one marks: True where that column has no value. `Table.from_frame` fills it
        in from the gaps.
    frame : {"polars", "pyarrow"}, optional
        Library of the table from which the column was read, if not pandas: rows drawn by a posterior are such tables,
        too. Columns that differ only in this are equal.

    Raises
    ------
    TypeError
        If the name or a level has the wrong type, or levels mix types.
    ValueError
        If the kind is unknown, or the levels do not fit the kind. If the name or a level holds a NUL or half of a
        surrogate pair, which no file keeps.

    Examples
    --------
    >>> ps.Column("job", "categorical", ("clerk", "nurse"), "str").levels
    ('clerk', 'nurse')
    """

    name: str
    kind: str
    levels: tuple[Any, ...] | None
    dtype: str
    indicates: str | None = None
    frame: str | None = field(default=None, compare=False)

    @property
    def holds_numbers(self) -> bool:
        """Whether its values can lie in an interval: numbers, or flags 0 and 1.

        Examples
        --------
        >>> ps.Column("job", "categorical", ("clerk", "nurse"), "str").holds_numbers
        False
        """
        return self.kind not in NOMINAL_KINDS or (
            self.kind == "binary" and all(type(level) in (int, float) for level in self.levels or ())
        )

    def __repr__(self) -> str:
        levels = elided([repr(level) for level in self.levels or ()])
        held = {"name": repr(self.name), "kind": repr(self.kind), "dtype": repr(self.dtype)}
        held |= {"levels": f"({levels})"} if self.levels else {}
        held |= {"indicates": repr(self.indicates)} if self.indicates else {}
        return f"Column({', '.join(f'{field}={value}' for field, value in held.items())})"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"a column's name must be a str, got {quoted(self.name)}")
        refuse_unkept(f"column {self.name!r}: its name", self.name)
        if not isinstance(self.dtype, str):
            raise TypeError(f"column {self.name!r}: dtype must be a str, got {quoted(self.dtype)}")
        check_kind(self.kind, self.name)
        if self.frame is not None and self.frame not in FRAMES:
            raise ValueError(f"column {self.name!r}: frame must be one of {FRAMES} or None, got {quoted(self.frame)}")
        is_flag = self.levels == (False, True) and all(isinstance(level, bool) for level in self.levels)
        if self.indicates is not None and not (is_flag and isinstance(self.indicates, str)):
            raise ValueError(
                f"column {self.name!r}: indicates must be the name of a column, and the levels False and True, got "
                f"{quoted(self.indicates)} and {quoted(self.levels)}"
            )
        if self.kind not in LEVEL_KINDS:
            if self.levels is not None:
                raise ValueError(f"column {self.name!r}: kind {self.kind!r} has no levels, got {quoted(self.levels)}")
            return
        if not isinstance(self.levels, tuple):
            raise TypeError(
                f"column {self.name!r}: kind {self.kind!r} needs a tuple of levels, got {quoted(self.levels)}"
            )
        types = {type(level) for level in self.levels}
        if len(types) > 1 or not types <= {str, int, float, bool}:
            raise TypeError(
                f"column {self.name!r}: levels must be all str, all int, all float or all bool, got "
                f"{quoted(self.levels)}"
            )
        for level in self.levels:
            refuse_unkept(f"column {self.name!r}: its level {quoted(level)}", level)
        if float in types and not all(math.isfinite(level) for level in self.levels):
            raise ValueError(f"column {self.name!r}: levels must be finite, got {quoted(self.levels)}")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"column {self.name!r}: levels must differ, got {quoted(self.levels)}")
        if self.kind == "binary" and len(self.levels) != 2:
            raise ValueError(f"column {self.name!r}: kind 'binary' needs exactly two levels, got {quoted(self.levels)}")
        if self.kind == "ordinal" and not (
            types == {int} and self.levels == tuple(range(self.levels[0], self.levels[0] + len(self.levels)))
        ):
            raise ValueError(
                f"column {self.name!r}: kind 'ordinal' needs consecutive integers, got {quoted(self.levels)}"
            )

    @property
    def origin(self) -> float:
        """Number to add to a code to get its value.

        It is the smallest level of an ordinal column, else 0.

        Examples
        --------
        >>> ps.Column("stars", "ordinal", (1, 2, 3), "int64").origin
        1.0
        """
        return float(self.levels[0]) if self.kind == "ordinal" and self.levels else 0.0

    def to_json(self) -> dict[str, object]:
        """Return a dict that ``json.dumps`` accepts and `from_json` reads.

        Examples
        --------
        >>> column = ps.Column("job", "categorical", ("clerk", "nurse"), "str")
        >>> ps.Column.from_json(column.to_json()) == column
        True
        """
        levels = None if self.levels is None else list(self.levels)
        fields: dict[str, object] = {"name": self.name, "kind": self.kind, "levels": levels, "dtype": self.dtype}
        more = {"indicates": self.indicates, "frame": self.frame}
        return fields | {key: value for key, value in more.items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Column":
        """Rebuild a column from the dict of `to_json`; levels keep their types.

        Examples
        --------
        >>> column = ps.Column("job", "categorical", ("clerk", "nurse"), "str")
        >>> ps.Column.from_json(column.to_json()).levels
        ('clerk', 'nurse')
        """
        needed = {"name", "kind", "levels", "dtype"}
        if not isinstance(fields, Mapping) or set(fields) - {"indicates", "frame"} != needed:
            raise ValueError(f"a column needs name, kind, levels and dtype, got {quoted(fields)}")
        if not isinstance(fields["levels"], list | tuple | None):
            raise TypeError(f"column {fields['name']!r}: levels must be a list or null, got {quoted(fields['levels'])}")
        levels = None if fields["levels"] is None else tuple(fields["levels"])
        return cls(
            fields["name"], fields["kind"], levels, fields["dtype"], fields.get("indicates"), fields.get("frame")
        )


def as_name(label: Any) -> Any:
    """The name that stands for a label of a column: an integer is its digits, as in `Table.from_frame`."""
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return str(label)
    return label


def by_name(argument: str, mapping: Any) -> Any:
    """What a mapping says of columns, by their names; other things are returned as they are.

    Raises
    ------
    ValueError
        If it has an integer and its digits.
    """
    if not isinstance(mapping, Mapping):
        return mapping
    named = {as_name(label): what for label, what in mapping.items()}
    if len(named) < len(mapping):
        twice = next(name for name in named if [as_name(label) for label in mapping].count(name) > 1)
        raise ValueError(f"{argument} names column {twice!r} twice, by a number and by text")
    return named


def check_kind(kind: object, name: str) -> None:
    """Refuse a kind that is not one of `KINDS`."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"column {name!r}: unknown kind {kind!r}; the kinds are {', '.join(KINDS)}")


def list_of_columns(columns: Sequence[Column | str], gaps: Iterable[int] | None = None) -> Listed:
    """Columns as a notebook shows them: kinds, levels and, where the rows are known, missing cells.

    Parameters
    ----------
    columns : sequence of Column or str
        Names alone have no kind.
    gaps : iterable of int, optional
        Missing cells of each.
    """
    rows = []
    for column in columns:
        if isinstance(column, str):
            rows.append([column, "", ""])
            continue
        levels = [str(level) for level in column.levels or ()]
        rows.append([column.name, column.kind, elided(levels)])
    if gaps is not None:
        rows = [[*row, f"{n:,}"] for row, n in zip(rows, gaps, strict=True)]
    head = ("column", "kind", "levels") + (() if gaps is None else ("missing",))
    return Listed(f"{len(rows)} columns", head, rows)
