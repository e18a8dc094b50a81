"""Random rows of an explicit circuit given an event: an induced tree given it, then each cell within its part."""

from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.circuit_passes import draw_leaves_of_logs
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.wide_leaves import chosen_leaves, family_of_leaf
from pymc_spn.circuits.laws.circuit_events import (
    Box,
    ColumnEvent,
    ColumnEvents,
    boxes_of_leaf,
    contains,
    event_logs,
)
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_box, log_interval
from pymc_spn.leaves.leaf_family import LeafFamily
from pymc_spn.leaves.scipy_leaves import scipy_draw_within
from pymc_spn.numerics.halving import smallest_reaching
from pymc_spn.numerics.read_only_views import read_only_view

LEAST_KEPT = -12.0  # log of the share of rows below which drawing within several intervals takes too long


def draw_within(given: Parameterised, n: int, event: ColumnEvents, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, D) given one event."""
    circuit, layout = given.circuit, given.layout
    leaf = np.empty((n, len(circuit.columns)), np.int64)
    logs = given.node_logs(*event_logs(given, event, slice(0, 1)))
    draw_leaves_of_logs(rng, layout, read_only_view(given.log_weights), read_only_view(logs[:, None]), leaf)
    out = np.empty(leaf.shape)
    for d in range(leaf.shape[1]):
        for f, name in enumerate(circuit.families):
            at = np.flatnonzero(layout.leaf_family[leaf[:, d]] == f)
            if at.size and name in EXPLICIT:
                own = given.parameters[name][layout.leaf_row[leaf[at, d]]]
                out[at, d] = _draw_cells(name, own, event.get(d), rng)
    for node, rows in chosen_leaves(given, given.wide, leaf):
        out[np.ix_(rows, circuit.columns_of(node))] = _draw_rows(given, node, event, rows.size, rng)
    return out


def _draw_rows(given: Parameterised, node: int, event: ColumnEvents, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, d) of a leaf over several columns given their events."""
    family, own = family_of_leaf(given, node)
    boxes = boxes_of_leaf(given.circuit.columns_of(node), event, 1)
    logs = np.array([log_weight + log_box(family, own, *box)[0] for log_weight, box in boxes])
    out = np.empty((n, family.n_columns))
    chosen = _choose(np.tile(logs, (n, 1)), rng)
    for k in np.unique(chosen):
        at = np.flatnonzero(chosen == k)
        out[at] = _draw_in_box(family, np.broadcast_to(own, (at.size, own.shape[1])), boxes[k][1], rng)
    return out


def _draw_in_box(family: LeafFamily, own: np.ndarray, box: Box, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, d) of leaves given points and intervals, one column after the other.

    A column is drawn within its interval given those before it, and the row is kept with the probability that it is:
    together exact. The first column needs no such chance; the least probable one is the first.
    """
    points, low, high = box
    asked = np.flatnonzero(np.isnan(points[0]) & ((low[0] > -np.inf) | (high[0] < np.inf)))

    def law(at: np.ndarray, rows: np.ndarray, j: int) -> tuple[str, np.ndarray, np.ndarray]:
        column, of_column = family.column_of_rows(own[at], rows, j)
        return column.name, of_column, log_interval(column.name, of_column, low[0, j], high[0, j])

    first = np.zeros(1, np.int64)
    logs = [float(law(first, points, int(j))[2][0]) for j in asked]
    asked = asked[np.argsort(logs)]
    if asked.size > 1:
        log_kept = float((log_box(family, own[:1], *box) - family.log_density_of_rows(own[:1], points))[0])
        if log_kept - min(logs) < LEAST_KEPT:
            raise ValueError(
                f"given: a {family.name} leaf has too little within intervals of several of its columns to draw from, "
                f"{np.exp(log_kept):.3g}"
            )
    out, waiting = np.repeat(points, len(own), axis=0), np.arange(len(own))
    while waiting.size and asked.size:
        rows, is_kept = np.repeat(points, waiting.size, axis=0), np.ones(waiting.size, np.bool_)
        for j in asked.tolist():
            name, of_column, log_mass_within = law(waiting, rows, j)
            is_kept &= (j == asked[0]) | (np.log(rng.random(waiting.size)) < log_mass_within)
            within = ColumnEvent(np.array([np.nan]), [(low[:, j], high[:, j])])
            some = np.flatnonzero(is_kept)
            rows[some, j] = _draw_cells(name, of_column[some], within, rng)
        out[waiting[is_kept]] = rows[is_kept]
        waiting = waiting[~is_kept]
    return family.draw_missing(own, out, rng)


def _draw_cells(name: str, own: np.ndarray, event: ColumnEvent | None, rng: np.random.Generator) -> np.ndarray:
    """A value (n,) from each leaf of a family, parameters (n, p), given its column's event."""
    if event is None or (event.intervals is None and event.likelihood is None and np.isnan(event.point[0])):
        return EXPLICIT[name].draw(own, rng)
    if not np.isnan(event.point[0]):
        return np.full(len(own), event.point[0])
    if event.likelihood is not None:
        values, log_weights = (np.asarray(part, np.float64) for part in event.likelihood)
        inside = contains(event, values)
        logs = EXPLICIT[name].log_density(own[:, None], values) + np.where(inside, log_weights, -np.inf)
        return values[_choose(logs, rng)]
    assert event.intervals is not None
    ends = np.array([[low[0], high[0]] for low, high in event.intervals])
    logs = np.stack([log_interval(name, own, low, high) for low, high in ends], axis=1)
    chosen = _choose(logs, rng)
    low, high = ends[chosen].T
    if EXPLICIT[name].holds_objects:
        return scipy_draw_within(own, low, high, rng)
    out = np.full(len(own), np.inf)
    while np.any(again := ~np.isfinite(out)):  # where rounding leaves less than the whole within all finite numbers
        p, start, target = own[again], low[again], logs[again, chosen[again]] + np.log1p(-rng.random(again.sum()))

        def is_short(x: np.ndarray, p: Any = p, start: Any = start, target: Any = target) -> np.ndarray:
            return log_interval(name, p, start, x) < target

        out[again] = smallest_reaching(is_short, np.nextafter(start, -np.inf), high[again])
    return out


def _choose(logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A place (n,) in each row of logs (n, K), by its share."""
    up_to = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    last = logs.shape[1] - 1 - np.argmax(logs[:, ::-1] > -np.inf, axis=1)  # what rounding leaves goes to it
    return np.minimum((rng.random(len(logs))[:, None] * up_to[:, -1:] >= up_to).sum(axis=1), last)
