"""Probabilities of events under an explicit circuit: intervals, unions, sets and points, also one for each row."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_spn.circuits.evaluation.circuit_passes import NOWHERE
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.wide_leaves import family_of_leaf
from pymc_spn.events.events import ARRAYS, SEVERAL, Event, Interval, end_of, plain_event, read_events, refuse_point
from pymc_spn.events.unions import (
    alternatives,
    both_unions,
    log_union,
    read_intervals,
    signed_intersections,
)
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.intervals import Likelihood
from pymc_spn.leaves.leaf_events import log_box, log_interval
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column
from pymc_spn.tables.coding import encode
from pymc_spn.tables.column import NOMINAL_KINDS, by_name

ROWS = 256  # at a time; the values of all nodes are held
Ends = tuple[np.ndarray, np.ndarray]
Box = tuple[np.ndarray, np.ndarray, np.ndarray]  # points, lower ends, upper ends


class ColumnEvent(NamedTuple):
    """What is asked of one column, in one row (n = 1) or in n of them.

    Parameters
    ----------
    point : (n,) float64
        Value, NaN where the row is at none.
    intervals : list of (low, high), or None
        Disjoint closed intervals with ends (n,), one of which must hold; None for no restriction.
    likelihood : Likelihood, optional
        Weights of the values, in addition to the rest.
    """

    point: np.ndarray
    intervals: list[Ends] | None
    likelihood: Likelihood | None = None


ColumnEvents = dict[int, ColumnEvent]


def columns_of(circuit: Any) -> tuple[Column, ...]:
    """Schema of the columns; one that is a name only holds numbers, levels as their codes."""
    return tuple(c if isinstance(c, Column) else Column(c, "real", None, "float64") for c in circuit.columns)


def masses_of(circuit: Any) -> np.ndarray:
    """(D,) bool, columns in which single values have probability: some leaf is a mass."""
    return _columns_with(circuit, is_density=False)


def densities_of(circuit: Any) -> np.ndarray:
    """(D,) bool, columns in which some leaf is a density."""
    return _columns_with(circuit, is_density=True)


def _columns_with(circuit: Any, is_density: bool) -> np.ndarray:
    out = np.zeros(len(circuit.columns), np.bool_)
    leaves = circuit.leaves
    for f, name in enumerate(circuit.families):
        own = leaves[circuit.leaf_family[leaves] == f]
        for place, family in enumerate(LEAF_FAMILIES[name].column_families):
            if family.is_density == is_density:
                out[circuit.leaf_column[own] if place == 0 else [circuit.columns_of(v)[place] for v in own]] = True
    return out


def log_probability(given: Parameterised, event: Any, known: Any) -> float | np.ndarray:
    """Log probability of an event given another, see `ParameterisedCircuit.log_probability_of_rows`."""
    known = plain_event(known, by_row=True)
    joint, base, is_single = log_joint_and_base(given, event, known)
    if known:
        refuse_impossible_evidence(known, base, is_single)
        joint = joint - base
    return float(joint[0]) if is_single else joint


def log_joint_and_base(given: Parameterised, event: Any, known: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    """Log probabilities (n,) of both events together and of the second, and whether no array asks for several rows."""
    if event is None:
        raise TypeError("event must map column names to a value, (low, high), a list of intervals or a set, got None")
    asked, asked_rows = read_union(given.circuit, "event", event)
    evidence, known_rows = read_union(given.circuit, "given", {} if known is None else known)
    if len(asked_rows | known_rows) > 1:
        raise ValueError(f"event and given must have arrays of one length, got {sorted(asked_rows | known_rows)}")
    n_rows = next(iter(asked_rows | known_rows), None)
    n = 1 if n_rows is None else n_rows
    joint = log_union(((sign, log_mass(given, e, n)) for sign, e in both_unions(asked, evidence, intersect)), (n,))
    base = np.zeros(n)
    if known:
        base = log_union(((sign, log_mass(given, e, n)) for sign, e in evidence), (n,))
    return joint, base, n_rows is None


def refuse_impossible_evidence(known: Any, base: np.ndarray, is_single: bool) -> None:
    """Name what is known, and the first row in which its probability (n,) is 0."""
    if np.any(np.isneginf(base)):
        at = "" if is_single else f" in row {int(np.argmax(np.isneginf(base)))}"
        shown = dict(known) if isinstance(known, Mapping) else known if isinstance(known, str) else list(known)
        raise ValueError(f"given: {shown!r} has density zero under the circuit{at}")


def log_mass(given: Parameterised, events: ColumnEvents, n: int = 1) -> np.ndarray:
    """Log probability (n,) of events, density in the columns that are at a point.

    A leaf has the mass of its column's event, and the circuit multiplies and adds as it does for densities. A leaf's
    distribution is that of its column alone, and columns are independent below a product.
    """
    out = np.empty(n)
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        out[rows] = given.log_values(*event_logs(given, events, rows))
    return out


def event_logs(given: Parameterised, events: ColumnEvents, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Logs (K, n_rows) of the leaves of asked columns, and (L,) the row of each leaf of the layout there, or -1.

    The first part of a leaf over several columns has the log of the leaf, the others 0.
    """
    circuit, layout, n_rows = given.circuit, given.layout, rows.stop - rows.start
    asked = np.flatnonzero(np.isin(layout.leaf_column, list(events)) & (given.wide.number < 0))
    wide = [w for w, columns in enumerate(given.wide.columns) if not events.keys().isdisjoint(columns.tolist())]
    place = np.full(layout.leaf_column.size, -1)
    place[asked] = np.arange(asked.size)
    place[given.wide.first[wide]] = asked.size + np.arange(len(wide))
    logs = np.empty((asked.size + len(wide), n_rows))
    for f, name in enumerate(circuit.families):
        for d, event in events.items() if name in EXPLICIT else ():
            which = np.flatnonzero((layout.leaf_family == f) & (layout.leaf_column == d))
            if which.size:
                own = given.parameters[name][layout.leaf_row[which]]
                logs[place[which]] = _leaf_logs(name, own, _of_rows(event, rows), n_rows)
    for k, w in enumerate(wide):
        logs[asked.size + k] = _log_of_wide(given, int(given.wide.nodes[w]), events, rows)
    return np.maximum(logs, 2.0 * NOWHERE), place


def _of_rows(event: ColumnEvent, rows: slice) -> ColumnEvent:
    """Part of an event; what is the same in all rows (n = 1) stays."""

    def part(x: np.ndarray) -> np.ndarray:
        return x if x.size == 1 else x[rows]

    intervals = None if event.intervals is None else [(part(low), part(high)) for low, high in event.intervals]
    return ColumnEvent(part(event.point), intervals, event.likelihood)


def _log_of_wide(given: Parameterised, node: int, events: ColumnEvents, rows: slice) -> np.ndarray:
    """(n,) log mass, or density at points, of a leaf over several columns under their events."""
    family, own = family_of_leaf(given, node)
    some = {d: _of_rows(event, rows) for d, event in events.items()}
    boxes = boxes_of_leaf(given.circuit.columns_of(node), some, rows.stop - rows.start)
    return np.logaddexp.reduce([log_weight + log_box(family, own, *box) for log_weight, box in boxes])


def boxes_of_leaf(columns: Sequence[int], events: ColumnEvents, n: int) -> list[tuple[float, Box]]:
    """Disjoint parts of the event of a leaf's columns, each with a log weight, 0 except for likelihoods.

    Of each part the points, lower and upper ends (n, d), as in `leaf_events.log_box`.
    """
    found = []
    for choice in product(*(_alternatives(events.get(d), n) for d in columns)):
        weights, cells = zip(*choice, strict=True)
        points, low, high = (np.stack(ends, axis=1) for ends in zip(*cells, strict=True))
        found.append((float(sum(weights)), (points, low, high)))
    return found


def _alternatives(event: ColumnEvent | None, n: int) -> list[tuple[float, Box]]:
    """Disjoint parts of one column's event: log weight, and point, lower and upper end (n,)."""
    nothing, end = np.full(n, np.nan), np.full(n, np.inf)
    if event is None:
        return [(0.0, (nothing, -end, end))]
    point = np.broadcast_to(event.point, n)
    if event.likelihood is None:
        intervals = [(-end, end)] if event.intervals is None else event.intervals
        if np.all(~np.isnan(point)):
            inside = contains(event, point)
            return [(0.0, (point, np.where(inside, -np.inf, np.inf), np.where(inside, np.inf, -np.inf)))]
        return [(0.0, (point, np.broadcast_to(low, n), np.broadcast_to(high, n))) for low, high in intervals]
    found = []
    for value, log_weight in zip(*event.likelihood, strict=True):
        inside = contains(event, np.full(n, value)) & (np.isnan(point) | (point == value))
        found.append((float(log_weight), (np.full(n, value), np.where(inside, -np.inf, np.inf), end)))
    return found


def _leaf_logs(name: str, parameters: np.ndarray, event: ColumnEvent, n: int) -> np.ndarray:
    """(L, n) log mass, or density at a point, of the leaves of one family under one column's event."""
    p, x = parameters[:, None, :], np.broadcast_to(event.point, (1, n))
    logs = np.zeros((len(parameters), n))
    if event.likelihood is not None:
        logs[:] = -np.inf
        for value, log_weight in zip(*event.likelihood, strict=True):
            inside = contains(event, np.full((1, n), value)) & (np.isnan(x) | (x == value))
            mass = EXPLICIT[name].log_density(p, np.full((1, 1), value)) + log_weight
            logs = np.logaddexp(logs, np.where(inside, mass, -np.inf))
        return logs
    if event.intervals is not None:
        logs[:] = -np.inf
        for low, high in event.intervals:
            logs = np.logaddexp(logs, log_interval(name, p, low[None], high[None]))
    at_point = ~np.isnan(x)
    if np.any(at_point):
        inside = contains(event, x)
        density = EXPLICIT[name].log_density(p, np.where(at_point, x, 0.0))
        logs = np.where(at_point, np.where(inside, density, -np.inf), logs)
    return logs


def contains(event: ColumnEvent, x: np.ndarray) -> np.ndarray:
    """Whether values are within the intervals of an event, where it has some."""
    if event.intervals is None:
        return np.ones(x.shape, np.bool_)
    return np.any([(x >= low) & (x <= high) for low, high in event.intervals], axis=0)


def intersect(first: ColumnEvents, second: ColumnEvents) -> ColumnEvents:
    """Both at once; where they exclude each other an empty interval is left."""
    both = dict(first)
    for d, b in second.items():
        a = both.get(d)
        if a is None:
            both[d] = b
            continue
        intervals = a.intervals if b.intervals is None else b.intervals
        if a.intervals is not None and b.intervals is not None:
            pairs = [(np.maximum(u[0], v[0]), np.minimum(u[1], v[1])) for u in a.intervals for v in b.intervals]
            # disjoint as both lists are; one is kept where all are empty
            intervals = [pair for pair in pairs if np.any(pair[0] <= pair[1])] or pairs[:1]
        x, y = np.broadcast_arrays(a.point, b.point)
        point = np.where(np.isnan(x), y, x)
        clash = ~np.isnan(x) & ~np.isnan(y) & (x != y)
        if np.any(clash):
            ends = (np.where(clash, np.inf, -np.inf), np.where(clash, -np.inf, np.inf))
            whole = intervals if intervals is not None else [(np.array([-np.inf]), np.array([np.inf]))]
            intervals = [(np.maximum(low, ends[0]), np.minimum(high, ends[1])) for low, high in whole]
        likelihood = a.likelihood or b.likelihood
        if a.likelihood is not None and b.likelihood is not None:
            likelihood = a.likelihood.times(b.likelihood)
            if likelihood is None:
                intervals = [(np.array([np.inf]), np.array([-np.inf]))]
        both[d] = ColumnEvent(point, intervals, likelihood)
    return both


def as_column_event(event: Event) -> ColumnEvent:
    """One event of `read_events` in the form used here."""
    if isinstance(event, float):
        return ColumnEvent(np.array([event]), None)
    if isinstance(event, Likelihood):
        return ColumnEvent(np.array([np.nan]), None, event)
    parts = [event] if isinstance(event, Interval) else [Interval(x, x) for x in sorted(event)]
    return ColumnEvent(np.array([np.nan]), [(np.array([e.low]), np.array([e.high])) for e in parts])


def read_union(circuit: Any, argument: str, event: Any) -> tuple[list[tuple[float, ColumnEvents]], set[int]]:
    """Events whose probabilities with signs add up to that of the union; lengths of the arrays."""
    events, rows = read_alternatives(circuit, argument, event)

    def both(first: ColumnEvents, second: ColumnEvents) -> ColumnEvents | None:
        joined = intersect(first, second)
        return None if any(is_empty(e) for e in joined.values()) else joined

    return signed_intersections(argument, events, both), rows


def read_alternatives(circuit: Any, argument: str, event: Any) -> tuple[list[ColumnEvents], set[int]]:
    """The events, one of which must hold, and lengths of the arrays."""
    several = alternatives(argument, event, columns_of(circuit), ~masses_of(circuit), by_row=True)
    read = {place: _read(circuit, place, one, soft=len(several) == 1) for place, one in several.items()}
    for place, (events, _) in read.items() if len(several) > 1 else ():
        for d, what in events.items():
            is_point = ~np.isnan(what.point)
            if np.any(is_point) and densities_of(circuit)[d]:
                refuse_point(place, columns_of(circuit)[d].name, float(what.point[is_point][0]))
    rows: set[int] = set().union(*(rows for _, rows in read.values()))
    return [e for e, _ in read.values()], rows


def is_empty(event: ColumnEvent) -> bool:
    """Whether no value is within the intervals of an event, in no row."""
    return event.intervals is not None and all(np.all(low > high) for low, high in event.intervals)


def _read(circuit: Any, argument: str, what: Mapping[str, Any] | None, soft: bool) -> tuple[ColumnEvents, set[int]]:
    """Events by column number, beside what `read_events` takes also unions and arrays; lengths of the arrays."""
    if what is not None and not isinstance(what, Mapping):
        raise TypeError(f"{argument} must map column names to a value, (low, high) or a set, got {quoted(what)}")
    columns, is_density = columns_of(circuit), ~masses_of(circuit)
    number = {c.name: d for d, c in enumerate(columns)}
    plain: dict[str, Any] = {}
    out: ColumnEvents = {}
    rows: set[int] = set()
    for name, value in by_name(argument, what or {}).items():
        if name not in number:
            raise ValueError(f"{argument} names column {name!r}; the columns are {quoted(list(number))}")
        d = number[name]
        if isinstance(value, list) and (columns[d].levels is None or not columns[d].holds_numbers):
            out[d] = _union(argument, columns[d], value, bool(is_density[d]))
        elif isinstance(value, tuple) and len(value) == 2 and any(np.ndim(v) for v in value):
            out[d] = _interval_of_rows(argument, columns[d], value)
            rows.add(out[d].point.size)
        elif isinstance(value, ARRAYS) and np.ndim(value) > 0:
            if np.ndim(value) != 1:
                raise ValueError(f"{argument}: values of column {name!r} must be one for each row, got {value.shape}")
            out[d] = _event_of_cells(circuit, argument, d, pd.Series(value))
            rows.add(out[d].point.size)
        else:
            plain[name] = value
    events = read_events(argument, plain, columns, range(len(columns)), is_density, soft)
    for d, event in events.items():
        if isinstance(event, Likelihood) and densities_of(circuit)[d]:
            raise ValueError(
                f"{argument}: column {columns[d].name!r} is continuous, likelihoods are for levels and counts"
            )
    return out | {d: as_column_event(e) for d, e in events.items()}, rows


def _union(argument: str, column: Column, parts: list[Any], is_density: bool) -> ColumnEvent:
    def ends(part: Any) -> Any:
        return read_events(argument, {column.name: part}, [column], [0], [is_density]).get(0)

    joined = read_intervals(argument, column.name, parts, ends)
    return ColumnEvent(np.array([np.nan]), [(np.array([low]), np.array([high])) for low, high in joined])


def _event_of_cells(circuit: Any, argument: str, d: int, cells: pd.Series) -> ColumnEvent:
    """What each row says of a column: a value, an interval, a set or several intervals; nothing where it is missing."""
    column = columns_of(circuit)[d]
    if cells.dtype.kind != "O" or not any(isinstance(cell, list | SEVERAL) for cell in cells):
        try:
            return ColumnEvent(encode(cells, column), None)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}: {error}") from error
    points, parts = np.full(len(cells), np.nan), []
    for row, cell in enumerate(cells):
        is_missing = pd.api.types.is_scalar(cell) and pd.isna(cell)
        event = {} if is_missing else plain_event({column.name: cell}, by_row=True)
        told, _ = _read(circuit, f"{argument} in row {row}", event, soft=False)
        (points[row],), own, _ = told.get(d, ColumnEvent(np.array([np.nan]), None))
        parts.append([(-np.inf, np.inf)] if own is None else [(low.item(), high.item()) for low, high in own])
    nothing = (np.inf, -np.inf)  # where others have more intervals
    padded = np.array([[*own, *[nothing] * (max(map(len, parts)) - len(own))] for own in parts])
    return ColumnEvent(points, [(ends[:, 0], ends[:, 1]) for ends in np.moveaxis(padded, 1, 0)])


def _interval_of_rows(argument: str, column: Column, ends: tuple[Any, Any]) -> ColumnEvent:
    if column.kind in NOMINAL_KINDS:
        raise ValueError(f"{argument}: column {column.name!r} is {column.kind}, intervals need numbers")
    bounds = []
    for value, default in zip(ends, (-np.inf, np.inf), strict=True):
        if value is None or np.ndim(value) == 0:
            end = end_of(argument, column, value, ends)
            bound = np.array([default if end is None else end])
        else:
            bound = _ends_of_rows(argument, column, value)
        if bound.ndim != 1:
            raise ValueError(f"{argument}: ends of column {column.name!r} must be one for each row, got {bound.shape}")
        bounds.append(bound)
    if len({b.size for b in bounds} - {1}) > 1:
        raise ValueError(
            f"{argument}: column {column.name!r} has {bounds[0].size} lower and {bounds[1].size} upper ends"
        )
    low, high = np.broadcast_arrays(*bounds)
    low, high = low - column.origin, high - column.origin  # leaves have codes
    wrong = ~(low <= high)
    if np.any(wrong):
        n = int(np.argmax(wrong))
        raise ValueError(
            f"{argument}: low must not exceed high, column {column.name!r} has "
            f"{(float(low[n]) + column.origin, float(high[n]) + column.origin)} in row {n}"
        )
    return ColumnEvent(np.full(low.size, np.nan), [(low, high)])


def _ends_of_rows(argument: str, column: Column, values: Any) -> np.ndarray:
    """One end of each row's interval; text and truth values are refused, which NumPy would turn into numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "iufO":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass  # refused below
    raise TypeError(f"{argument}: ends of an interval are numbers or None, column {column.name!r} has {quoted(values)}")
