"""Events that are given as text, as pandas writes them: read into intervals, sets and points of single columns.

Comparisons ``< <= > >= == !=``, also chained, and ``in`` and ``not in`` a list of values. ``and or not``, or ``& | ~``
with every comparison in parentheses. Columns by name, in backticks if that is not an identifier (a backtick in it is
doubled); one of True and False is also a condition by itself. Numbers, strings, True and False. One side of a
comparison is an expression in one column, the other a constant. Expressions are made of numbers, ``+ - * / **``, abs,
sqrt, exp, log, log10 and log2; the column stands in one once, or it is a polynomial.

Values are those of NumPy: what is undefined is NaN, which compares as false, so that ``log(x) < 0`` does not hold below
0 and its negation does. Single points of a continuous column have probability zero: ``x != 3`` always holds, and
``x == 3`` asks for a density, as ``{"x": 3}``. Ends are exact up to rounding; counts are tried at the integers there.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_spn.events.disjoint_events import MOST_PARTS, complement, disjoint_events
from pymc_spn.events.event_expressions import WHOLE, Intervals, Source, poles, preimage, value_of
from pymc_spn.events.events import Event, Events, both_or_none, code_of, plain_event, refuse_point
from pymc_spn.leaves.intervals import Interval
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column

QUOTES = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`((?:[^`]|``)+)`""")
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
REVERSED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
MOST_CHARACTERS = 20_000
MOST_TERMS = 2_000  # comparisons and values of lists
FOREIGN = {"&&": "and", "||": "or"}  # what other languages write
TERMS = re.compile(r"[<>]=?|[=!]=|,|\bin\b")
FEW = 4  # integers between the ends of an interval up to which each is looked at
Boxes = list[Events]


def events_of_text(argument: str, text: str, columns: Sequence[Column], is_density: Any) -> list[dict[str, Any]]:
    """Disjoint events in the form of mappings; one of them holds where the text does.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    text : str
        Such as ``"x**2 < 4 and (job == 'nurse' or not 20 <= age < 30)"``; see the module for the grammar.
    columns : sequence of Column
        Columns that may be named.
    is_density : sequence of bool
        For each whether single values have probability zero.

    Returns
    -------
    list of dict
        Empty where the text holds for no values, unless it is given.

    Raises
    ------
    ValueError
        If the text has more than 20,000 characters or 2,000 comparisons, or makes more than 1,000 parts. If it cannot
        be read or solved, names an unknown column or level, or compares several columns. If it gives a point of a
        continuous column together with other events, or is given and never holds.
    """
    try:
        reader = _EventParser(argument, text, columns, is_density)
        boxes = reader.region(reader.tree)
    except RecursionError as error:
        raise ValueError(f"{argument}: the text of {len(text)} characters is nested too deeply") from error
    if not boxes and argument == "given":
        raise ValueError(f"given: {quoted(text)} holds for no values")
    for box in boxes if len(boxes) > 1 else ():
        for d, event in box.items():
            if isinstance(event, float) and is_density[d]:
                refuse_point(argument, columns[d].name, event)
    return [{columns[d].name: _as_user(columns[d], event) for d, event in box.items()} for box in boxes]


def as_events(argument: str, event: Any, columns: Sequence[Column], is_density: Any) -> Any:
    """Text as the mapping that says the same, or the list of mappings; everything else as `plain_event`."""
    if not isinstance(event, str):
        return plain_event(event)
    found = events_of_text(argument, event, columns, is_density)
    return found[0] if len(found) == 1 else found


def as_event(argument: str, event: Any, columns: Sequence[Column], is_density: Any) -> Any:
    """As `as_events` where no union is taken."""
    found = as_events(argument, event, columns, is_density)
    if isinstance(event, str) and isinstance(found, list):
        raise ValueError(
            f"{argument}: {quoted(event)} is a union of {len(found)} events, and here a single one is taken; "
            "condition on it first: post.condition(...) answers the same questions"
        )
    return found


def _as_user(column: Column, event: Event) -> Any:
    """An event of one column as a user gives it."""
    if isinstance(event, Interval):
        return tuple(None if math.isinf(x) else float(x) for x in event)
    if isinstance(event, frozenset):
        return {column.levels[int(x)] if column.levels else x for x in event}
    assert isinstance(event, float)
    return column.levels[int(event)] if column.levels else event


def _refuse_length(argument: str, text: str) -> None:
    """Refuse a text that is too long, or compares too much, before it is parsed."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"{argument}: the text has {len(text):,} characters, at most {MOST_CHARACTERS:,} are read; give sets of "
            "levels and lists of intervals by column, {'column': {'level', ...}}"
        )
    n_terms = len(TERMS.findall(QUOTES.sub("", text)))
    if n_terms > MOST_TERMS:
        raise ValueError(
            f"{argument}: the text has {n_terms:,} comparisons and values of lists, at most {MOST_TERMS:,} are read; "
            "ask for less at once"
        )


def _as_identifier(found: re.Match[str]) -> str:
    """A string as it is, a name in backticks as an identifier of the same length, so that places stay."""
    return found[0] if found[2] is None else "_" * len(found[0].encode())


class _EventParser:
    """One text and the columns that it may name; regions are lists of events that exclude each other."""

    def __init__(self, argument: str, text: str, columns: Sequence[Column], is_density: Any) -> None:
        self.argument, self.columns = argument, columns
        self.is_density = [bool(v) for v in is_density]
        self.number = {c.name: d for d, c in enumerate(columns)}
        _refuse_length(argument, text)
        text = re.sub(f"{QUOTES.pattern}|\\s", lambda m: m[0] if m[2] else re.sub(r"\s", " ", m[0]), text).strip()
        readable = QUOTES.sub(_as_identifier, text)
        self.source = Source(argument, text)
        try:
            self.tree = ast.parse(readable, mode="eval").body
        except (SyntaxError, ValueError, MemoryError) as error:
            what = f"{error.msg} at position {(error.offset or 1) - 1}" if isinstance(error, SyntaxError) else error
            if foreign := re.search(r"&&|\|\|", QUOTES.sub(lambda found: " " * len(found[0]), text)):
                what = f"write {FOREIGN[foreign[0]]} in place of {foreign[0]} at position {foreign.start()}"
            raise ValueError(f"{argument}: {quoted(text)} cannot be read: {what}") from error

    def region(self, node: ast.expr, negated: bool = False) -> Boxes:
        """Where a condition holds, or where it does not; negations go down to the comparisons."""
        match node:
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                return self.region(node.operand, not negated)
            case ast.BoolOp():
                parts = [self.region(part, negated) for part in node.values]
                return self.combined(parts, isinstance(node.op, ast.And) != negated)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                parts = [self.region(part, negated) for part in (node.left, node.right)]
                return self.combined(parts, isinstance(node.op, ast.BitAnd) != negated)
            case ast.Compare():
                sides = pairwise([node.left, *node.comparators])
                parts = [self.comparison(node, *two, op, negated) for two, op in zip(sides, node.ops, strict=True)]
                return self.combined(parts, not negated)
            case ast.Name() if set(self.columns[self.column(node)].levels or ()) == {False, True}:
                d = self.column(node)
                return self.points(d, frozenset({code_of(self.argument, self.columns[d], True)}), negated)
        rule = "a condition is a comparison, or conditions joined by and, or, not"
        if isinstance(node, ast.Name):
            self.column(node)
            rule += f", as in '{node.id} < 1'; questions about one column are asked of marginal('{node.id}')"
        self.source.refuse(node, rule)

    def combined(self, parts: list[Boxes], all_hold: bool) -> Boxes:
        """Where all of several conditions hold, or any of them does."""
        if not all_hold:
            return self.either([box for part in parts for box in part])
        boxes: Boxes = [{}]
        for part in parts:
            boxes = [both for a in boxes for b in part if (both := both_or_none(a, b)) is not None]
            if len(boxes) > MOST_PARTS:
                raise ValueError(f"{self.argument}: the text makes more than {MOST_PARTS} parts; ask for less at once")
        return boxes

    def either(self, boxes: Boxes) -> Boxes:
        """Events, one of which must hold, made to exclude each other unless points of densities are among them."""
        if any(isinstance(e, float) and self.is_density[d] for box in boxes for d, e in box.items()):
            return boxes
        boxes = [{d: frozenset({e}) if isinstance(e, float) else e for d, e in box.items()} for box in boxes]
        alone: dict[int, list[Event]] = {}
        for box in boxes:
            if len(box) == 1:
                ((d, event),) = box.items()
                alone.setdefault(d, []).append(event)
        joined = [box for d, events in alone.items() for box in self.united(d, events)]
        together = joined + [box for box in boxes if len(box) != 1]
        if {} in together:
            return [{}]
        if (
            len(alone) == 1
            and len(joined) == len(together) <= MOST_PARTS
            and all(isinstance(e, Interval) for box in joined for e in box.values())
        ):
            return together
        return disjoint_events(self.argument, together, self.columns, self.is_density)

    def united(self, d: int, events: list[Event]) -> Boxes:
        """Events of one column, one of which must hold, joined where they meet."""
        values = frozenset(x for e in events if isinstance(e, frozenset) for x in e)
        intervals: Intervals = []
        for low, high in sorted(tuple(e) for e in events if isinstance(e, Interval)):
            if intervals and low <= self.beyond(d, intervals[-1][1]):
                intervals[-1] = (intervals[-1][0], max(intervals[-1][1], high))
            else:
                intervals.append((low, high))
        if intervals == WHOLE or len(values) == len(self.columns[d].levels or (None,) * (len(values) + 1)):
            return [{}]
        boxes: Boxes = [{d: Interval(*ends)} for ends in intervals]
        return [*boxes, {d: values}] if values else boxes

    def beyond(self, d: int, x: float) -> float:
        """Number up to which no more than a point of a continuous column lies between it and x."""
        return float(np.nextafter(np.nextafter(x, np.inf), np.inf)) if self.is_density[d] else x + 1.0

    def column(self, node: ast.Name) -> int:
        """Number of the column that a name stands for."""
        name = self.source.name_of(node)
        if name not in self.number:
            self.source.refuse(node, f"there is no column {quoted(name)}, the columns are {quoted(list(self.number))}")
        return self.number[name]

    def comparison(self, whole: ast.expr, left: ast.expr, right: ast.expr, op: ast.cmpop, negated: bool) -> Boxes:
        """Where one comparison holds, or does not."""
        if isinstance(op, ast.In | ast.NotIn):
            return self.membership(whole, left, right, negated != isinstance(op, ast.NotIn))
        if type(op) not in COMPARISONS:
            self.source.refuse(whole, "comparisons are < <= > >= == != in and not in")
        if any(isinstance(n, ast.BitAnd | ast.BitOr) for side in (left, right) for n in ast.walk(side)):
            self.source.refuse(whole, "& and | bind before comparisons, each of which needs parentheses")
        named = {self.column(name): self.source.name_of(name) for name in self.source.columns_in(left, right)}
        if len(named) != 1:
            rule = (
                f"columns {sorted(named.values())} are compared with each other" if named else "no column is compared"
            )
            self.source.refuse(whole, f"{rule}: an event restricts single columns, to intervals or sets of values")
        (d,) = named
        if not self.source.columns_in(left):
            left, right, op = right, left, REVERSED.get(type(op), type(op))()
        elif self.source.columns_in(right):
            left = ast.copy_location(ast.BinOp(left, ast.Sub(), right), whole)
            right = ast.copy_location(ast.Constant(0.0), whole)
        if isinstance(op, ast.Eq | ast.NotEq):
            outside = negated != isinstance(op, ast.NotEq)
            if isinstance(left, ast.Name):
                code = code_of(self.argument, self.columns[d], self.literal(right))
                return self.points(d, frozenset({code}), outside) if outside else [{d: code}]
            return self.solved(whole, d, left, right, ast.Eq, outside)
        return self.solved(whole, d, left, right, type(op), negated)

    def membership(self, whole: ast.expr, left: ast.expr, right: ast.expr, outside: bool) -> Boxes:
        """Where a column is among values, or is not."""
        if not isinstance(left, ast.Name) or not isinstance(right, ast.List | ast.Tuple | ast.Set):
            self.source.refuse(whole, "in is for a column by itself and a list of values")
        d = self.column(left)
        column = self.columns[d]
        if self.is_density[d]:
            self.source.refuse(whole, f"column {column.name!r} is continuous, a set of values has probability zero")
        codes = frozenset(code_of(self.argument, column, self.literal(value)) for value in right.elts)
        return self.points(d, codes, outside)

    def literal(self, node: ast.expr) -> Any:
        """A constant: a level, or a number."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bool | int | float):
            return node.value
        return float(value_of(self.source, node))

    def points(self, d: int, codes: frozenset[float], outside: bool) -> Boxes:
        """Where a column has one of some values, or none of them."""
        if outside and self.is_density[d]:
            return [{}]
        if not codes:
            return [{}] if outside else []
        if outside:
            return [{d: event} for event in complement(codes, self.columns[d], False)]
        return self.united(d, [codes])

    def solved(
        self, whole: ast.expr, d: int, left: ast.expr, right: ast.expr, op: type[ast.cmpop], negated: bool
    ) -> Boxes:
        """Where an expression in a column compares with a constant, or does not."""
        column, levels, compare = self.columns[d], self.columns[d].levels, COMPARISONS[op]
        if levels is not None and isinstance(levels[0], str):
            if not column.dtype.endswith(" ordered") or not isinstance(left, ast.Name):
                rule = "are compared by == != in and not in; < and > are for ordered categories"
                self.source.refuse(whole, f"levels of column {column.name!r} {rule}")
            true = compare(np.arange(len(levels)), code_of(self.argument, column, self.literal(right))) != negated
            return self.points(d, frozenset(np.flatnonzero(true).astype(float).tolist()), outside=False)
        value_of(self.source, left, 1.0)  # refuses what is no expression
        end = float(value_of(self.source, right))
        if math.isnan(end):
            self.source.refuse(right, "the constant is not a number")

        def holds(x: Any) -> Any:
            return compare(value_of(self.source, left, x), end)

        if levels is not None:
            true = np.flatnonzero(holds(np.array(levels, dtype=np.float64)) != negated)
            return self.points(d, frozenset(float(code) for code in true), outside=False)
        if op is ast.Eq and self.is_density[d]:
            if negated:
                return [{}]
            rule = f"column {column.name!r} is continuous, and a point of an expression in it has no density here"
            self.source.refuse(whole, f"{rule}; compare the column itself, or give an interval")
        inside = {ast.Eq: (end, end), ast.Lt: (-np.inf, end), ast.LtE: (-np.inf, end)}.get(op, (end, np.inf))
        pieces = preimage(self.source, left, [inside])
        if not self.is_density[d]:
            pieces = pieces + poles(self.source, left)
        settle = _in_floats if self.is_density[d] else _in_integers
        found = [ends for piece in pieces for ends in settle(*piece, holds) if _holds_within(*ends, holds)]
        if column.kind == "count" and not self.is_density[d]:
            found = [(low if low > 0.0 else -np.inf, high) for low, high in found if high >= 0.0]
        boxes = self.united(d, [Interval(*ends) for ends in found])
        if not negated:
            return boxes
        outside = [complement(box[d], column, self.is_density[d]) if box else [] for box in boxes]
        return self.combined([[{d: event} for event in events] for events in outside], all_hold=True)


def _in_integers(low: float, high: float, holds: Callable[[Any], Any]) -> Intervals:
    """Integers within an interval, up to rounding, at which a comparison holds."""
    first, last = np.ceil(low) - 1.0, np.floor(high) + 1.0
    if last - first <= FEW:
        return [(x, x) for x in np.arange(first, last + 1.0).tolist() if holds(x)]
    steps = np.array([2.0, 1.0, 0.0])
    low = _outermost(first + steps, holds, first + 3.0)
    high = _outermost(last - steps, holds, last - 3.0)
    return [(low, high)] if low <= high else []


def _in_floats(low: float, high: float, holds: Callable[[Any], Any]) -> Intervals:
    """An interval with the ends at which a comparison still holds; none for a single number."""
    if low == high:
        return []
    ends = []
    for end, inner in ((low, math.inf), (high, -math.inf)):
        near = [end]
        for _ in range(2):
            near = [math.nextafter(near[0], inner), *near, math.nextafter(near[-1], -inner)]
        ends.append(end if math.isinf(end) else _outermost(near, holds, end))
    return [(ends[0], ends[1]) if ends[0] <= ends[1] else (low, high)]


def _holds_within(low: float, high: float, holds: Callable[[Any], Any]) -> bool:
    """Whether a comparison holds in an interval and not just at its ends, which a constant may be at all along."""
    if math.isinf(low) and math.isinf(high):
        points = [1.0, -1.0, 0.0]
    elif math.isinf(low) or math.isinf(high):
        end, away = (low, 1.0) if math.isinf(high) else (high, -1.0)
        points = [end + away * max(1.0, abs(end)), end]
    else:
        points = [0.5 * low + 0.5 * high, low, high]
    return any(bool(holds(np.float64(x))) for x in points)


def _outermost(candidates: Any, holds: Callable[[Any], Any], otherwise: float) -> float:
    """Last of several numbers, from the inside out, up to which a comparison holds."""
    found = otherwise
    for x in candidates:
        if not holds(x):
            break
        found = float(x)
    return found
