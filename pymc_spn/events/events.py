"""What a user may know or ask of a row: points, intervals and sets, read by the schema of the columns."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from pymc_spn.leaves.intervals import Interval, Likelihood
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column
from pymc_spn.tables.coding import encode
from pymc_spn.tables.column import by_name
from pymc_spn.tables.frame_kinds import column_array

RULES = {
    "real": "real, of finite numbers",
    "positive": "positive, of finite numbers of at least 0",
    "integer": "integer, of whole numbers",
    "count": "count, of whole numbers of at least 0",
}
ARRAYS = (np.ndarray, pd.Series, pd.Index, pd.api.extensions.ExtensionArray)
SEVERAL = tuple | set | frozenset | pd.Interval | slice  # what says more of a column than a value
Event = float | Interval | Likelihood | frozenset
Events = dict[int, Event]


def plain_event(event: Any, by_row: bool = False) -> Any:
    """What pandas would take in place of sets and intervals as these; everything else as it is.

    Of one column: values in a list or array, as for ``isin``, a `pandas.Interval` and a slice of labels. With `by_row`
    an array has something for each row, and a DataFrame is a mapping of such arrays.
    """
    if isinstance(event, Mapping | pd.Series) or (by_row and isinstance(event, pd.DataFrame)):
        return {name: _plain(what, by_row) for name, what in event.items()}
    return [plain_event(one, by_row) for one in event] if isinstance(event, list | tuple) else event


def _plain(what: Any, by_row: bool) -> Any:
    what = column_array(what)
    if isinstance(what, pd.Interval):
        ends = (what.left, what.closed_left, math.inf), (what.right, what.closed_right, -math.inf)
        return tuple(end if closed else math.nextafter(end, inner) for end, closed, inner in ends)
    if isinstance(what, slice) and what.step is None:
        return what.start, what.stop
    if isinstance(what, list) or (isinstance(what, ARRAYS) and not by_row):
        parts = [_plain(part, by_row) for part in what]
        is_set = bool(parts) and all(np.ndim(part) == 0 and isinstance(part, Hashable) for part in parts)
        return set(parts) if is_set else parts
    return what


def read_events(
    argument: str,
    given: Mapping[str, Any] | None,
    columns: Sequence[Column],
    kept: Sequence[int],
    is_density: Any,
    soft: bool = False,
) -> Events:
    """Events by column number, values coded as in `Table.values`.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    given : mapping of column name to scalar, (low, high) or set, or None
        None says nothing, as an end of an interval it is unbounded. Other missing values (NaN, pd.NA) say nothing in
        what is given, which may be a row with gaps; what is asked, and an event of a union, cannot have them.
    columns : sequence of Column
    kept : sequence of int
        Columns that may be named.
    is_density : (D,) bool
        Columns in which single values have probability zero.
    soft : bool
        Whether mappings from values to likelihoods are read as well.

    Raises
    ------
    TypeError, ValueError
        If a column is unknown, or what is said of it cannot be read.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument} must map column names to a value, (low, high) or a set, got {quoted(given)}")
    number = {columns[d].name: d for d in kept}
    events: Events = {}
    for name, what in by_name(argument, given).items():
        if name not in number:
            raise ValueError(f"{argument} names column {name!r}; the columns are {quoted(list(number))}")
        d = number[name]
        if soft and isinstance(what, Mapping):
            events[d] = _read_likelihood(argument, columns[d], what, bool(is_density[d]))
            continue
        event = _read(argument, columns[d], what, bool(is_density[d]))
        if event is not None:
            events[d] = event
    return events


def _read(argument: str, column: Column, what: Any, is_density: bool) -> Event | None:
    what = _plain(what, by_row=True)
    if isinstance(what, list) and column.levels is not None and column.holds_numbers:
        return _either(argument, column, what)
    if isinstance(what, set | frozenset):
        if is_density:
            raise ValueError(
                f"{argument}: column {column.name!r} is continuous, a set of values has probability zero; "
                "give an interval (low, high)"
            )
        if not what:
            raise ValueError(f"{argument}: the set of column {column.name!r} is empty")
        codes = frozenset(code_of(argument, column, value) for value in what)
        return _unless_all(column, codes)
    if isinstance(what, tuple):
        if len(what) != 2:
            raise ValueError(f"{argument}: an interval is (low, high), column {column.name!r} has {quoted(what)}")
        if not column.holds_numbers:
            raise ValueError(
                f"{argument}: column {column.name!r} is {column.kind}, give a set of levels, not {quoted(what)}"
            )
        low, high = (end_of(argument, column, v, what) for v in what)
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        if not low <= high:
            raise ValueError(f"{argument}: low must not exceed high, column {column.name!r} has {quoted(what)}")
        if column.levels is not None:  # the levels within are what an interval says of it
            return _unless_all(column, frozenset(float(k) for k, x in enumerate(column.levels) if low <= x <= high))
        return None if low == -math.inf and high == math.inf else Interval(low, high)
    if not np.isscalar(what) and what is not None and what is not pd.NA:
        raise TypeError(
            f"{argument}: column {column.name!r} must have a value, (low, high) or a set, got {quoted(what)}"
        )
    if pd.isna(what):
        if argument == "given" or what is None:
            return None
        raise ValueError(f"{argument}: column {column.name!r} has the missing value {what!r}; leave the column out")
    return code_of(argument, column, what)


def _unless_all(column: Column, codes: frozenset[float]) -> frozenset[float] | None:
    """A set of codes, None where it holds all levels of a column."""
    return None if column.levels is not None and len(codes) == len(column.levels) else codes


def _either(argument: str, column: Column, parts: list[Any]) -> frozenset[float] | None:
    """The levels of a column of numbers within any of several intervals."""
    read = [_read(argument, column, part, False) for part in checked_intervals(argument, column.name, parts)]
    if any(codes is None for codes in read):
        return None
    return _unless_all(column, frozenset().union(*(codes for codes in read if isinstance(codes, frozenset))))


def checked_intervals(argument: str, column: str, parts: list[Any]) -> list[tuple[Any, ...]]:
    """What a list for a column holds, refused where it is empty or holds something else than intervals."""
    if not parts:
        raise ValueError(f"{argument}: the list of intervals of column {column!r} is empty")
    for part in parts:
        if not isinstance(part, tuple) or any(np.ndim(x) for x in part):
            raise TypeError(
                f"{argument}: a list holds intervals (low, high) of numbers, column {column!r} has {quoted(part)}"
            )
    return parts


def end_of(argument: str, column: Column, end: Any, interval: Any) -> float | None:
    """One end of an interval as a number, None where it is unbounded.

    Raises
    ------
    TypeError
        If it is not a number: text, a truth value, a date, a missing value of pandas, something of several numbers.
    ValueError
        If it is NaN.
    """
    if end is None:
        return None
    place = f"{argument}: ends of an interval are numbers or None, column {column.name!r} has {quoted(interval)}"
    # scalars of NumPy, and what holds a single number without dimensions, such as an answer
    kind = getattr(getattr(end, "dtype", None), "kind", "f")
    if isinstance(end, bool | str | bytes | Sequence) or kind not in "iuf" or np.ndim(end) > 0:
        raise TypeError(place)
    try:
        number = float(end)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(place) from error
    if math.isnan(number):
        raise ValueError(f"{place}: NaN is neither")
    return number


def code_of(argument: str, column: Column, value: Any) -> float:
    """Code of one value of a column.

    Raises
    ------
    TypeError, ValueError
        If the column cannot have it, or it is missing.
    """
    try:
        code = float(encode(pd.Series([value]), column)[0])
    except (TypeError, ValueError) as error:
        rule = f"the levels are {quoted(list(column.levels))}" if column.levels else f"it is {RULES[column.kind]}"
        raise type(error)(f"{argument}: column {column.name!r} cannot be {quoted(value)}; {rule}") from error
    if math.isnan(code):
        raise ValueError(f"{argument}: column {column.name!r} has the missing value {quoted(value)} among its values")
    return code


def refuse_point(argument: str, column: str, point: float) -> NoReturn:
    """Refuse a point with a density in one of several events."""
    raise ValueError(
        f"{argument}: in a union of events, column {column!r} cannot be at a point, {point:g}, where it has a density; "
        "give an interval"
    )


def _read_likelihood(argument: str, column: Column, what: Mapping[Any, Any], is_density: bool) -> Likelihood:
    place = f"{argument}: column {column.name!r}"
    if is_density:
        raise ValueError(f"{place} is continuous, likelihoods are for levels and counts")
    for value, weight in what.items():
        if not is_real(weight) or not 0.0 <= float(weight) < math.inf:
            raise ValueError(f"{place} must have likelihoods that are finite and at least 0, {value!r} has {weight!r}")
    found = sorted((code_of(argument, column, x), math.log(w)) for x, w in what.items() if w > 0.0)
    if not found:
        raise ValueError(f"{place} has no value with a positive likelihood")
    return Likelihood(*zip(*found, strict=True))


def intersect(first: Events, second: Events) -> tuple[Events, int | None]:
    """Both at once, and a column in which they exclude each other (or None)."""
    both = dict(first)
    for d, event in second.items():
        if d in both:
            joined = _intersect(both[d], event)
            if joined is None:
                return {}, d
            event = joined
        both[d] = event
    return both, None


def both_or_none(first: Events, second: Events) -> Events | None:
    """Both at once, None where they exclude each other."""
    both, clash = intersect(first, second)
    return both if clash is None else None


def _intersect(a: Event, b: Event) -> Event | None:
    if isinstance(a, Likelihood) and isinstance(b, Likelihood):
        return a.times(b)
    if isinstance(a, Likelihood):
        return a.within(lambda x: holds(b, x))
    if isinstance(b, Likelihood):
        return b.within(lambda x: holds(a, x))
    if isinstance(a, Interval) and isinstance(b, Interval):
        low, high = max(a.low, b.low), min(a.high, b.high)
        return Interval(low, high) if low <= high else None
    if isinstance(a, frozenset) or isinstance(b, frozenset):
        if not isinstance(a, frozenset):
            a, b = b, a
        assert isinstance(a, frozenset)
        inside = frozenset(x for x in a if holds(b, x))
        if isinstance(b, float):
            return b if inside else None
        return inside or None
    point, other = (a, b) if isinstance(a, float) else (b, a)
    return point if holds(other, point) else None


def holds(event: Event, x: Any) -> Any:
    """Whether values satisfy the event; NaN does."""
    x = np.asarray(x)
    if isinstance(event, Interval):
        return ~((x < event.low) | (x > event.high))
    if isinstance(event, float):
        return np.isnan(x) | (x == event)
    return np.isnan(x) | np.isin(x, event.values if isinstance(event, Likelihood) else list(event))


def points_of(events: Events) -> dict[int, float]:
    """The columns at a point."""
    return {d: e for d, e in events.items() if isinstance(e, float)}


def spread_of(events: Events) -> Events:
    """The columns in an interval or a set."""
    return {d: e for d, e in events.items() if not isinstance(e, float)}


def describe(column: Column, event: Event) -> str:
    """The event in the words of the user."""
    levels = column.levels
    if isinstance(event, Interval):
        return f"within ({event.low:g}, {event.high:g})"
    if isinstance(event, Likelihood):
        weighed = zip(*event, strict=True)
        return "with likelihoods " + ", ".join(
            f"{levels[int(x)] if levels else x!r}: {math.exp(w):g}" for x, w in weighed
        )
    if isinstance(event, frozenset):
        return f"among {quoted(sorted(levels[int(x)] if levels else x for x in event))}"
    return repr(levels[int(event)] if levels else event)


def events_to_json(events: Events) -> dict[str, Any]:
    """A dict of JSON values."""
    return {
        str(d): {"interval": list(e)}
        if isinstance(e, Interval)
        else {"set": sorted(e)}
        if isinstance(e, frozenset)
        else {"point": e}
        for d, e in events.items()
    }


def events_from_json(data: Mapping[str, Any]) -> Events:
    """What `events_to_json` wrote."""
    events: Events = {}
    for d, e in data.items():
        if "interval" in e:
            events[int(d)] = Interval(*e["interval"])
        else:
            events[int(d)] = frozenset(e["set"]) if "set" in e else float(e["point"])
    return events
