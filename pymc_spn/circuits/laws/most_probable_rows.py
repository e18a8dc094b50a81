"""The most probable completion of a row, with an upper bound on what any completion can reach."""

from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised, best_found
from pymc_spn.circuits.evaluation.parameters import families_in_use, names_of_leaf
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
from pymc_spn.events.events import Events, Interval, spread_of
from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.maxima.box_search import BoxResult, search
from pymc_spn.maxima.most_probable import (
    LEAST_POSITIVE,
    allowed_values,
    box_limit,
)

BULK = 1e-3  # quantile of a column with log-normal leaves below which its density is not searched
LEAST_LOG, MOST_LOG = -700.0, 700.0  # logs between which a positive column's quantile is sought
QUANTILE_GRID, QUANTILE_PASSES = 65, 8  # 1400 / 64^8 is below rounding


def best_row(
    given: Parameterised, row: np.ndarray, known: Events, tolerance: float, max_boxes: int | None
) -> BoxResult:
    """The densest completion of a row (D,) within events, points of the row among them.

    A first answer comes from the best tree, climbed from; where the largest values of the leaves do not certify it,
    a best-first search over boxes goes on. Within intervals and sets the search begins at once. The density of a
    log-Student t grows without bound towards 0, where it has almost no mass. So values below the quantile at 0.001 of
    what the column has above 0, given what is known, are left out.

    References
    ----------
    Centred forms and boxes without an interior maximum: Moore, R. E., Kearfott, R. B. and Cloud, M. J. (2009).
    Introduction to interval analysis. SIAM.
    """
    lacking = without_bounds(given)
    if lacking:
        raise ValueError(lacking)
    inside = _above_spikes(given, known)
    if inside or given.circuit.further_columns:
        return _search_row(given, row, inside, tolerance, max_boxes)
    first = _first_answer(given, row, tolerance)
    if first.upper_bound - first.log_density <= tolerance:
        return first
    found = _search_row(given, row, inside, tolerance, max_boxes, first.x)
    best = found if found.log_density > first.log_density else first
    upper_bound = max(min(first.upper_bound, found.upper_bound), best.log_density)
    return BoxResult(best.x, best.log_density, upper_bound, found.n_boxes)


def without_bounds(given: Parameterised) -> str:
    """Why a circuit has no most probable row that a search finds, by its first leaf without bounds; empty if it has."""
    for name in families_in_use(given.circuit):
        family = LEAF_FAMILIES[name]
        if isinstance(family, EllipticalFamily) or family.kernels is not None:
            continue
        leaf, own = given.circuit.leaves_of(name)[0], given.parameters[name][0]
        law = f"{name} leaf ({own[0].dist.name})" if LEAF_FAMILIES[name].holds_objects else f"{name} leaf"
        names = names_of_leaf(given.circuit, leaf)
        return (
            f"mpe: the search needs bounds of every leaf over intervals, which the {law} of {names} does not have; "
            "condition on values of such columns, or sum them out by marginal, and ask mpe of that"
        )
    return ""


def _first_answer(given: Parameterised, row: np.ndarray, tolerance: float) -> BoxResult:
    """A completion of a row by climbing, at values that its columns may have, and a bound from the leaves' largest."""
    best, log_density, upper_bound = (found[0] for found in best_found(given, row[None], tolerance))
    discrete = masses_of(given.circuit)
    possible = np.where(discrete, np.round(best), best)  # of Gaussian leaves of positive columns and counts
    for d, cells in allowed_values({}, discrete, columns_of(given.circuit)).items():
        possible[d] = max(possible[d], cells[0][0])
    possible = np.where(np.isnan(row), possible, row)
    if np.any(possible != best):
        log_density = given.log_density(possible[None])[0]
    return BoxResult(possible, float(log_density), float(upper_bound), 0)


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
