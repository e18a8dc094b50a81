"""Unions of events by inclusion and exclusion: any of several events, a column within any of several intervals."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse.csgraph import connected_components

from pymc_spn.events.event_text import events_of_text
from pymc_spn.events.events import Events, Interval, both_or_none, checked_intervals, plain_event
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column

LARGEST_UNION = 10_000  # intersections that are evaluated


def alternatives(
    argument: str, event: Any, columns: Sequence[Column], is_density: Any, by_row: bool = False
) -> dict[str, Any]:
    """The events, one of which must hold, by the name that messages give them: those of a list or text, or the only
    one.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    event : mapping, sequence of mappings, or str
    columns : sequence of Column
        Columns that text may name.
    is_density : sequence of bool
        For each whether single values have probability zero.
    by_row : bool
        Whether arrays have something for each row, and are no sets.

    Returns
    -------
    dict
        Empty for text that holds for no values.

    Raises
    ------
    TypeError
        If something in the list is not a mapping.
    ValueError
        If the list is empty, or text cannot be read.
    """
    if isinstance(event, str):
        found = events_of_text(argument, event, columns, is_density)
        return {argument: found[0]} if len(found) == 1 else {f"{argument}[{k}]": one for k, one in enumerate(found)}
    event = plain_event(event, by_row)
    if not isinstance(event, Sequence):
        return {argument: event}
    if len(event) > LARGEST_UNION:
        raise ValueError(f"{argument}: a list holds at most {LARGEST_UNION:,} events, got {len(event):,}")
    for k, one in enumerate(event):
        if not isinstance(one, Mapping):
            raise TypeError(
                f"{argument}: a list holds events, each a mapping of column names, number {k} is {quoted(one)}"
            )
    if not event:
        raise ValueError(f"{argument}: the list of events is empty")
    return {f"{argument}[{k}]": one for k, one in enumerate(event)}


def read_intervals(
    argument: str, column: str, parts: list[Any], read: Callable[[Any], tuple[float, float] | None]
) -> list[tuple[float, float]]:
    """Disjoint closed intervals that a list for a column holds, those that meet joined.

    Parameters
    ----------
    argument, column : str
        For messages.
    parts : list
    read : callable
        Ends of one part; None where it is no restriction.

    Raises
    ------
    TypeError
        If the list holds something else than intervals.
    ValueError
        If it is empty.
    """
    ends = [read(part) for part in checked_intervals(argument, column, parts)]
    return join_intervals((-math.inf, math.inf) if e is None else e for e in ends)


def join_intervals(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Disjoint closed intervals in their order: those that meet are one."""
    joined: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def signed_intersections[What](
    argument: str, events: Sequence[What], intersect: Callable[[What, What], What | None]
) -> list[tuple[float, What]]:
    """All intersections of one or more events that are not empty: +1 for an odd number of events, -1 for an even one.

    The sum of their probabilities with these signs is that of the union. Its relative error is at most that of one
    of them times their number, since none exceeds the union.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    events : sequence
    intersect : callable
        Both of two events, None where they exclude each other.

    Raises
    ------
    ValueError
        If they are more than `LARGEST_UNION`.
    """
    found: list[tuple[float, What]] = []
    for event in events:
        here = [(1.0, event)]
        for sign, other in found:
            both = intersect(other, event)
            if both is not None:
                here.append((-sign, both))
        found += here
        if len(found) > LARGEST_UNION:
            raise ValueError(f"{argument}: the events overlap in more than {LARGEST_UNION} ways; ask for fewer at once")
    return found


def both_unions[What](
    asked: Sequence[tuple[float, What]],
    known: Sequence[tuple[float, What]],
    intersect: Callable[[What, What], What | None],
) -> Iterator[tuple[float, What]]:
    """Signed events whose probabilities add up to that of both of two unions: indicators are multiplied out.

    Raises
    ------
    ValueError
        If they are more than `LARGEST_UNION`.
    """
    n_found = 0
    for sign, first in asked:
        for other, second in known:
            both = intersect(first, second)
            if both is not None:
                n_found += 1
                if n_found > LARGEST_UNION:
                    raise ValueError(
                        f"event and given overlap in more than {LARGEST_UNION} ways; ask for fewer at once"
                    )
                yield sign * other, both


def log_union(parts: Iterable[tuple[float, np.ndarray]], shape: tuple[int, ...]) -> np.ndarray:
    """Log probability of a union from signs and logs of the intersections, one after the other; -inf for none."""
    top, total = np.full(shape, -np.inf), np.zeros(shape)
    for sign, logs in parts:
        higher = np.maximum(top, logs)
        shift = np.where(np.isneginf(higher), 0.0, higher)
        total = total * np.exp(top - shift) + sign * np.exp(logs - shift)
        top = higher
    possible = total > 0.0  # nothing is left but rounding where events have no probability
    return np.where(possible, np.log(np.where(possible, total, 1.0)) + top, -np.inf)


def is_single_event(given: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether what is given is one event that needs no union: a mapping without lists of intervals."""
    return isinstance(given, Mapping) and not any(isinstance(what, list) for what in given.values())


def ends_of(event: Any) -> list[float]:
    """Finite ends of an interval; none of another event."""
    return [x for x in event if math.isfinite(x)] if isinstance(event, Interval) else []


def groups_that_meet(events: Sequence[Events]) -> np.ndarray:
    """Number (J,) of the group of events that each belongs to: rows of different groups differ."""
    meet = [[both_or_none(a, b) is not None for b in events] for a in events]
    return connected_components(np.array(meet), directed=False)[1]
