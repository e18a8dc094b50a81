"""The most probable completion of a row, with an upper bound on what any completion can reach."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised, best_found, refuse_leaves_without_a_mode
from pymc_spn.circuits.evaluation.parameters import refuse_distributions
from pymc_spn.circuits.laws.circuit_events import (
    ColumnEvent,
    ColumnEvents,
    as_column_event,
    columns_of,
    intersect,
    log_mass,
    masses_of,
)
from pymc_spn.circuits.laws.packed_circuits import packed_from_circuit
from pymc_spn.events.event_text import as_event
from pymc_spn.events.events import Events, Interval, points_of, read_events, spread_of
from pymc_spn.maxima.box_leaves import NOTHING
from pymc_spn.maxima.box_search import BoxResult, search
from pymc_spn.maxima.most_probable import (
    LEAST_POSITIVE,
    TOLERANCE,
    MostProbable,
    allowed_values,
    box_limit,
    checked_limits,
    marked_row,
)
from pymc_spn.tables import decode

BULK = 1e-3  # quantile of a column with log-normal leaves below which its density is not searched
LEAST_LOG, MOST_LOG = -700.0, 700.0  # logs between which a positive column's quantile is sought
QUANTILE_GRID, QUANTILE_PASSES = 65, 8  # 1400 / 64^8 is below rounding


def most_probable(
    circuit: Any,
    log_weights: np.ndarray,
    leaf_parameters: Mapping[str, np.ndarray],
    given: Mapping[str, object] | str | None = None,
    tolerance: float = TOLERANCE,
    max_boxes: int | None = None,
) -> MostProbable:
    """The most probable completion of a row under an explicit circuit, certified where the search finishes.

    As `Circuit.mpe`, which takes rows of codes, for one row in the units of the data with intervals and sets. All
    families of leaves are taken, also the predictives in `SPNPosterior.as_circuit`. The density of a column with
    log-Student t leaves grows without bound towards 0, on next to no mass: values below the quantile at 0.001 of what
    it has above 0 are left out, unless an interval that begins above 0 is given for the column.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
        As for `Circuit.log_density`.
    leaf_parameters : mapping of str to (n_leaves_of_family, p) float64
    given : mapping of column name to value, (low, high) or set, or str, optional
        Text as for `SPNPosterior.probability`. Where the circuit's columns are names only, values are numbers, levels
        their codes.
    tolerance : float
        Gap in nats at which the search is done.
    max_boxes : int, optional
        By default within 500 and 100,000, fewer for larger circuits.

    Returns
    -------
    MostProbable

    Raises
    ------
    TypeError
        If `given` is no mapping, or holds something else than the above.
    ValueError
        If weights or leaf parameters are not valid, `given` names an unknown column, leaves nothing to complete or has
        density zero, `tolerance` is not positive and finite, or `max_boxes` is below 1.

    References
    ----------
    Centred forms and boxes without an interior maximum: Moore, R. E., Kearfott, R. B. and Cloud, M. J. (2009).
    Introduction to interval analysis. SIAM.
    """
    tolerance, max_boxes = checked_limits(tolerance, max_boxes)
    columns = columns_of(circuit)
    refuse_distributions(circuit, "mpe: a circuit")
    parameterised = Parameterised(circuit, log_weights, leaf_parameters)
    discrete = masses_of(circuit)
    event = as_event("given", given, columns, ~discrete)
    known = read_events("given", event, columns, range(len(columns)), ~discrete)
    points = points_of(known)
    if len(points) == len(columns):
        raise ValueError("given: every column is given at a value, there is nothing to complete")
    row = np.full(len(columns), np.nan)
    row[list(points)] = list(points.values())
    inside = _above_spikes(parameterised, known)
    found = _search_row(parameterised, row, inside, tolerance, max_boxes)
    if found.log_density <= 0.5 * NOTHING:
        raise ValueError(f"given: {dict(event or {})} has density zero under the circuit")
    log_known = float(parameterised.log_density(row[None])[0]) if points else 0.0
    value = np.where(np.isnan(row), found.x, row)
    return _answer(found, log_known, value, columns, tolerance, {})


def most_probable_rows(
    given: Parameterised, values: Any, search_on: bool, tolerance: float, max_boxes: int | None
) -> MostProbable:
    """See `Circuit.mpe`."""
    tolerance, max_boxes = checked_limits(tolerance, max_boxes)
    circuit = given.circuit
    refuse_distributions(circuit, "mpe: a circuit")
    values = given.values(values)
    best, log_density, upper_bound = best_found(given, values, tolerance)
    log_known = given.log_density(values)
    n_boxes = np.zeros(len(values), np.int64)
    spiked, discrete = spiked_columns(circuit), masses_of(circuit)
    missing = np.isnan(values)
    lowest = np.full(len(circuit.columns), -np.inf)
    for d, cells in allowed_values({}, discrete, columns_of(circuit)).items():
        lowest[d] = cells[0][0]
    possible = np.maximum(
        np.where(discrete, np.round(best), best), lowest
    )  # Gaussian leaves of positive columns, counts
    moved = np.flatnonzero((missing & (possible != best)).any(axis=1))
    best = np.where(missing, possible, values)
    log_density[moved] = given.log_density(best[moved])
    unsettled = upper_bound - log_density > tolerance
    for n in np.flatnonzero(unsettled & search_on).tolist():
        row, has_spike = values[n], bool(missing[n, spiked].any())
        inside = _above_spikes(given, {d: float(x) for d, x in enumerate(row) if not np.isnan(x)})
        start = None if has_spike else best[n]
        found = _search_row(given, row, inside, tolerance, max_boxes, start)
        n_boxes[n] = found.n_boxes
        if has_spike or found.log_density > log_density[n]:
            best[n], log_density[n] = np.where(np.isnan(row), found.x, row), found.log_density
        upper_bound[n] = max(min(upper_bound[n], found.upper_bound), log_density[n])
    return MostProbable(
        best, log_density - log_known, upper_bound - log_known, upper_bound - log_density <= tolerance, n_boxes
    )


def best_row(
    given: Parameterised, row: np.ndarray, known: Events, tolerance: float, max_boxes: int | None
) -> BoxResult:
    """The densest completion of a row (D,) within events, points of the row among them."""
    refuse_distributions(given.circuit, "mpe: a circuit")
    return _search_row(given, row, _above_spikes(given, known), tolerance, max_boxes)


def _search_row(
    given: Parameterised,
    row: np.ndarray,
    inside: Events,
    tolerance: float,
    max_boxes: int | None,
    start: np.ndarray | None = None,
) -> BoxResult:
    """Box search over the missing cells of one row within events."""
    circuit = given.circuit
    points = {d: float(x) for d, x in enumerate(row) if not np.isnan(x)}
    refuse_leaves_without_a_mode(given, np.isnan(row))
    packed = packed_from_circuit(circuit, given.log_weights, given.parameters, points)
    discrete = masses_of(circuit)
    allowed = allowed_values(inside, discrete, columns_of(circuit))
    allowed = {d: cells for d, cells in allowed.items() if d not in points}
    return search(packed, allowed, discrete, tolerance, box_limit(max_boxes, packed.kind.size), start=start)


def spiked_columns(circuit: Any) -> np.ndarray:
    """(D,) bool, columns with leaves whose density grows without bound towards 0."""
    out = np.zeros(len(circuit.columns), np.bool_)
    if "log_student_t" in circuit.families:
        out[circuit.leaf_column[circuit.leaves_of("log_student_t")]] = True
    return out


def _above_spikes(given: Parameterised, known: Events) -> Events:
    """The events that are no points, and for columns with spikes at 0 also that their values are in the bulk."""
    inside = spread_of(known)
    for d in np.flatnonzero(spiked_columns(given.circuit)).tolist():
        event: Any = inside.get(d, Interval(0.0, np.inf))
        if isinstance(known.get(d), float) or not isinstance(event, Interval) or event.low >= LEAST_POSITIVE:
            continue
        events = {c: as_column_event(e) for c, e in known.items()}
        inside[d] = Interval(_quantile(given, events, d, BULK), event.high)
    return inside


def _quantile(given: Parameterised, known: ColumnEvents, d: int, p: float) -> float:
    """The p-quantile of what a column has above 0 given what is known, by narrowing a grid over its logs."""
    positive = ColumnEvent(np.full(1, np.nan), [(np.zeros(1), np.full(1, np.inf))])
    base = log_mass(given, intersect(known, {d: positive}))
    low, high = LEAST_LOG, MOST_LOG
    for _ in range(QUANTILE_PASSES):
        grid = np.linspace(low, high, QUANTILE_GRID)
        below = ColumnEvent(np.full(grid.size, np.nan), [(np.zeros(grid.size), np.exp(grid))])
        logs = log_mass(given, intersect(known, {d: below}), grid.size) - base
        at = min(max(int(np.searchsorted(logs >= np.log(p), True)), 1), grid.size - 1)
        low, high = grid[at - 1], grid[at]
    return float(np.exp(0.5 * (low + high)))


def _answer(
    found: BoxResult, log_known: float, row: np.ndarray, columns: Any, tolerance: float, attrs: dict[str, Any]
) -> MostProbable:
    value, gap = decode(row[None], columns), found.upper_bound - found.log_density
    return marked_row(value, found.log_density - log_known, gap, found.n_boxes, tolerance, attrs)
