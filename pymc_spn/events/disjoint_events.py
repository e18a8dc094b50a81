"""A union of events as disjoint events."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_spn.events.events import Event, Events, both_or_none
from pymc_spn.leaves.intervals import Interval
from pymc_spn.tables import Column
from pymc_spn.tables.column import WHOLE_KINDS

MOST_PARTS = 1_000


def disjoint_events(
    argument: str, events: Sequence[Events], columns: Sequence[Column], is_density: Any
) -> list[Events]:
    """Events that exclude each other and together say what these say: each without those before it.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    events : sequence of Events
        Intervals and sets, by column number; no points and no likelihoods.
    columns : sequence of Column
    is_density : (D,) bool
        Columns in which single values have probability zero: they are cut between neighbouring floating-point numbers,
        other counts between neighbouring integers.

    Raises
    ------
    ValueError
        If they are more than `MOST_PARTS`.
    """
    return each_without_those_before(argument, events, lambda a, b: _without(a, b, columns, is_density))


def each_without_those_before[E](argument: str, events: Sequence[E], without: Callable[[E, E], list[E]]) -> list[E]:
    """Parts of events that exclude each other, by ``without`` of two of them: disjoint parts of one outside the other.

    Raises
    ------
    ValueError
        If they are more than `MOST_PARTS`.
    """
    found: list[E] = []
    for k, event in enumerate(events):
        rest = [event]
        for before in events[:k]:
            rest = [part for one in rest for part in without(one, before)]
            if len(found) + len(rest) > MOST_PARTS:
                raise ValueError(f"{argument}: the events make more than {MOST_PARTS} parts; give fewer at once")
        found += rest
    return found


def _without(event: Events, other: Events, columns: Sequence[Column], is_density: Any) -> list[Events]:
    """Disjoint parts of an event in which another does not hold: one column after the other is outside of it."""
    parts, rest = [], event
    for d, what in other.items():
        for outside in complement(what, columns[d], is_density[d]):
            part = both_or_none(rest, {d: outside})
            if part is not None:
                parts.append(part)
        inside = both_or_none(rest, {d: what})
        if inside is None:
            return parts
        rest = inside
    return parts


def complement(event: Event, column: Column, is_density: bool) -> list[Event]:
    """Disjoint events that hold where this one does not."""
    if isinstance(event, frozenset) and column.levels is not None:
        others = frozenset(range(len(column.levels))) - event
        return [frozenset(float(x) for x in others)] if others else []
    whole = column.kind in WHOLE_KINDS and not is_density
    if isinstance(event, frozenset):
        ends = [-1.0 if column.kind == "count" else -math.inf, *sorted(event), math.inf]
        gaps = [(a + 1.0, b - 1.0) for a, b in pairwise(ends)]
        return [Interval(a, b) for a, b in gaps if a <= b]
    assert isinstance(event, Interval)
    parts: list[Event] = []
    if event.low > -math.inf:
        parts.append(Interval(-math.inf, math.ceil(event.low) - 1.0 if whole else np.nextafter(event.low, -math.inf)))
    if event.high < math.inf:
        parts.append(Interval(math.floor(event.high) + 1.0 if whole else np.nextafter(event.high, math.inf), math.inf))
    return parts
