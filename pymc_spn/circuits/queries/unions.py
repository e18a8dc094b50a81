"""Unions of events by inclusion and exclusion: any of several events, a column within any of several intervals."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

LARGEST_UNION = 10_000  # intersections that are evaluated


def alternatives(argument: str, event: Any) -> list[Any]:
    """The events of which one must hold: those of a list, or the only one.

    Raises
    ------
    TypeError
        If something in the list is no mapping.
    ValueError
        If the list is empty.
    """
    if not isinstance(event, Sequence) or isinstance(event, str):
        return [event]
    for k, one in enumerate(event):
        if not isinstance(one, Mapping):
            raise TypeError(f"{argument}: a list holds events, each a mapping of column names, number {k} is {one!r}")
    if not event:
        raise ValueError(f"{argument}: the list of events is empty")
    return list(event)


def without_lists(argument: str, event: Any) -> Iterator[Any]:
    """Events that together say the same, with one interval where a column had a list of them.

    Raises
    ------
    TypeError
        If a list holds something else than intervals.
    ValueError
        If a list is empty or the events are more than `LARGEST_UNION`.
    """
    lists = {name: what for name, what in event.items() if isinstance(what, list)} if isinstance(event, Mapping) else {}
    for name, what in lists.items():
        if not what:
            raise ValueError(f"{argument}: the list of intervals of column {name!r} is empty")
        for part in what:
            if not isinstance(part, tuple):
                raise TypeError(f"{argument}: a list holds intervals (low, high), column {name!r} has {part!r}")
    n = math.prod(len(what) for what in lists.values())
    if n > LARGEST_UNION:
        raise ValueError(f"{argument}: lists of intervals of {list(lists)} make {n} events, at most {LARGEST_UNION}")
    for parts in product(*lists.values()):
        yield {**event, **dict(zip(lists, parts, strict=True))} if lists else event


def signed_intersections[What](
    argument: str, events: Sequence[What], intersect: Callable[[What, What], What | None]
) -> list[tuple[float, What]]:
    """All intersections of one or more events that are not empty: +1 for an odd number of events, -1 for an even one.

    The sum of their probabilities with these signs is that of the union. Its relative error is at most rounding times
    their number, since none exceeds the union.

    Parameters
    ----------
    argument : str
        Name of the argument, for messages.
    events : sequence
    intersect : callable
        Both of two events, None where they exclude each other.
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


def log_union(signs: Sequence[float], logs: np.ndarray) -> np.ndarray:
    """Log probability of a union (n,) from those of the signed intersections (k, n)."""
    if len(signs) == 1:
        return logs[0]
    total, sign = logsumexp(logs, axis=0, b=np.array(signs)[:, None], return_sign=True)
    return np.where(sign > 0, total, -np.inf)  # nothing is left but rounding where events have no probability
