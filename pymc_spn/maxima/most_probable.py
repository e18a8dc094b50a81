"""The most probable completion of a row, with an upper bound on what any completion can reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.evaluation.completion import Parameterised, best_found, refuse_leaves_without_a_mode
from pymc_spn.circuits.evaluation.parameters import refuse_distributions
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.events.circuit_events import (
    ColumnEvent,
    ColumnEvents,
    as_column_event,
    columns_of,
    intersect,
    log_mass,
    masses_of,
)
from pymc_spn.events.event_text import as_event
from pymc_spn.events.events import Events, Interval, points_of, read_events, spread_of
from pymc_spn.maxima.box_leaves import NOTHING
from pymc_spn.maxima.box_search import BoxResult, search
from pymc_spn.maxima.tapes import tape_of_circuit
from pymc_spn.numerics.marks import limited, scope_of
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import decode

TOLERANCE = 1e-6  # nats
BULK = 1e-3  # quantile of a column with log-normal leaves below which its density is not searched
LEAST_POSITIVE = float(np.finfo(np.float64).tiny)  # an interval that begins below it begins at 0
LEAST_LOG, MOST_LOG = -700.0, 700.0  # logs between which a positive column's quantile is sought
QUANTILE_GRID, QUANTILE_PASSES = 65, 8  # 1400 / 64^8 is below rounding
FEWEST_BOXES, MOST_BOXES = 500, 100_000
NODE_BOXES = 50_000_000  # nodes times boxes
NO_AVERAGE = {"mcse_chain_note": "no mcse_chain: a maximum is no average"}


@dataclass(frozen=True, eq=False)
class MostProbable:
    """Rows of high density and bounds that no completion exceeds.

    `SPNPosterior.mpe` and `most_probable` complete one row in the units of the data: a DataFrame of one row, labelled
    scalars, a bool and an int. `Circuit.mpe` completes many in codes: arrays over rows.

    Parameters
    ----------
    value : DataFrame of one row, or (n_rows, D) float64
        Columns as in the data, or levels as codes.
    log_density : DataArray scalar, or (n_rows,) float64
        Log density (log mass in discrete columns) of the completion given what is known, in nats.
    upper_bound : DataArray scalar, or (n_rows,) float64
        No completion has a larger one.
    certified : bool, or (n_rows,) bool
        Whether the two differ by at most the tolerance, so that the row is a most probable one.
    n_boxes : int, or (n_rows,) int64
        Boxes that the search looked at; 0 where it was not needed.
    """

    value: Any
    log_density: Any
    upper_bound: Any
    certified: Any
    n_boxes: Any


def most_probable(
    circuit: Circuit,
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
    tape = tape_of_circuit(circuit, given.log_weights, given.parameters, points)
    discrete = masses_of(circuit)
    allowed = allowed_values(inside, discrete, columns_of(circuit))
    allowed = {d: cells for d, cells in allowed.items() if d not in points}
    return search(tape, allowed, discrete, tolerance, box_limit(max_boxes, tape.kind.size), start=start)


def spiked_columns(circuit: Circuit) -> np.ndarray:
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


def checked_limits(tolerance: Any, max_boxes: Any) -> tuple[float, int | None]:
    if not (isinstance(tolerance, int | float) and 0 < tolerance < np.inf):
        raise ValueError(f"tolerance must be positive and finite, got {quoted(tolerance)}")
    if max_boxes is not None and (
        isinstance(max_boxes, bool) or not isinstance(max_boxes, int | np.integer) or max_boxes < 1
    ):
        raise ValueError(f"max_boxes must be an integer of at least 1, got {quoted(max_boxes)}")
    return float(tolerance), None if max_boxes is None else int(max_boxes)


def box_limit(max_boxes: int | None, n_nodes: int) -> int:
    return min(MOST_BOXES, max(FEWEST_BOXES, NODE_BOXES // n_nodes)) if max_boxes is None else int(max_boxes)


def allowed_values(inside: Events, discrete: np.ndarray, columns: Any) -> dict[int, list[tuple[float, float]]]:
    """Closed intervals of each restricted column, with integer ends where it is discrete.

    Values that a column's kind excludes are no completions, though a Gaussian leaf may give them mass.
    """
    least = {"positive": LEAST_POSITIVE, "count": 0.0}
    out = {d: [(least[c.kind], np.inf)] for d, c in enumerate(columns) if c.kind in least}
    for d, event in inside.items():
        if isinstance(event, Interval):
            low, high = (np.ceil(event.low), np.floor(event.high)) if discrete[d] else event
            out[d] = [(max(float(low), least.get(columns[d].kind, -np.inf)), float(high))]
            continue
        assert isinstance(event, frozenset)
        runs: list[tuple[float, float]] = []
        for x in sorted(event):
            if runs and x == runs[-1][1] + 1.0:
                runs[-1] = (runs[-1][0], x)
            else:
                runs.append((x, x))
        out[d] = runs
    return out


def _answer(
    found: BoxResult, log_known: float, row: np.ndarray, columns: Any, tolerance: float, attrs: dict[str, Any]
) -> MostProbable:
    value, gap = decode(row[None], columns), found.upper_bound - found.log_density
    return marked_row(value, found.log_density - log_known, gap, found.n_boxes, tolerance, attrs)


def marked_row(
    value: pd.DataFrame, log_density: float, gap: float, n_boxes: int, tolerance: float, attrs: dict[str, Any]
) -> MostProbable:
    """A row, its log density in nats and how far that may be from the largest one, labelled and marked."""
    import xarray as xr

    certified = bool(gap <= tolerance)
    scope, error = scope_of(attrs.get("exactness", "")), {"tolerance": tolerance} if certified else {"gap": gap}
    mark = attrs | {"exactness": limited("numerical" if certified else "bound", scope)} | error
    value.attrs = dict(mark)
    return MostProbable(
        value,
        xr.DataArray(log_density, name="log_density", attrs=mark),
        xr.DataArray(log_density + gap, name="upper_bound", attrs=mark | {"exactness": limited("bound", scope)}),
        certified,
        n_boxes,
    )
