"""Leaves over several columns, some of which are known to lie in intervals.

The density of the points and the probability of one interval are in closed form, that of several intervals is by a
fixed quasi-Monte-Carlo rule. What follows for other columns is an average over nodes: points of the intervals, with
weights. Intervals are those of a condition, the same for all rows, or the cells of a recorded row (`RoundedCells`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_spn.events.events import Interval
from pymc_spn.leaves.elliptical_boxes import N_SHIFTS, lattice, nodes_within, step
from pymc_spn.leaves.elliptical_leaves import groups_of
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.networks.records.joint_cell_rows import draw_in_cells, means_in_cells
from pymc_spn.networks.records.joint_left_out import log_masses_left_out
from pymc_spn.networks.records.joint_predictives import (
    JointColumn,
    JointLeaves,
    JointPredictives,
    RowsByGaps,
    as_gaussian_leaves,
    log_densities,
    students_given,
)
from pymc_spn.networks.records.rounded_cells import RoundedCells

MOST_PAIRS = 200_000  # of leaves and rows at a time
ONE = 48, 384, 3072  # nodes of one interval: the next rule serves columns that follow closely from its own
SEVERAL = 512, 4096, 32768  # nodes of several, also where the shifts of a rule do not agree
CLOSE = 2.0, 16.0  # a column's scale as a multiple of that given the columns of intervals, up to which a rule serves
NODES_AGREE = 5e-3  # error of a mean in standard deviations: probabilities are off by less than half of that
MOST_NUMBERS = 1 << 25  # of nodes at a time: a finer rule that needs more is not tried
GAUSS = tuple((0.5 * (nodes + 1.0), weights) for nodes, weights in map(np.polynomial.legendre.leggauss, ONE[:2]))
TOLERANCES = (0.0, 2e-4, 2e-3)  # of averages over nodes of no interval, one, several; tests compare with probabilities


def known_in(columns: np.ndarray, events: Mapping[int, Any]) -> list[int]:
    """Places of the columns of a leaf that are known to lie in an interval."""
    return [j for j, d in enumerate(columns.tolist()) if isinstance(events.get(d), Interval)]


def logs_of_leaves(
    found: JointPredictives,
    compiled: Any,
    values: np.ndarray,
    events: Mapping[int, Any],
    by_gaps: RowsByGaps | None = None,
) -> np.ndarray:
    """Log values (n, M) of leaves over several columns for rows (M, D) together with intervals, in coded units.

    ``by_gaps`` are the same rows of the leaves' columns, if they are known. They may have cells, which count by
    their mass; intervals are then given their middles, which are in the rows.
    """
    places, rows = known_in(found.columns, events), values[:, found.columns]
    by_gaps = RowsByGaps.of(rows) if by_gaps is None else by_gaps
    out = log_densities(found, by_gaps) + by_gaps.sums_over_points(np.log(compiled.scale[found.columns]))
    if not places:
        return out
    lacking = np.isnan(rows[:, places])
    for at in groups_of(lacking):  # an interval says nothing more of a column of which the row has a point
        own = [j for j, is_lacking in zip(places, lacking[at[0]], strict=True) if is_lacking]
        ends = np.array([events[int(found.columns[j])] for j in own]).reshape(-1, 2)
        if own:
            out[:, at] += _log_of_intervals(found, rows[at], own, ends)
    return out


def logs_left_out(found: JointPredictives, compiled: Any, logs: np.ndarray, rows: RowsByGaps) -> np.ndarray:
    """Log values (n d, M) of n leaves for rows without each of their d columns, from the `logs_of_leaves` of all."""
    n, d = logs.shape[0], found.columns.size
    log_scale, out = np.log(compiled.scale[found.columns]), np.empty((n, d, logs.shape[1]))
    of_points = rows.sums_over_points(np.eye(d) * log_scale)
    whole = of_points.sum(axis=0)
    leaves = found.parameters, found.log_ratio
    log_masses_left_out(*leaves, rows.rows, rows.width, rows.order, rows.begin, logs - whole, out)
    out += whole - of_points
    return out.reshape(n * d, -1)


def _log_of_intervals(found: JointPredictives, rows: np.ndarray, places: list[int], ends: np.ndarray) -> np.ndarray:
    """Log probabilities (n, M) of intervals (k, 2) of some columns in leaves, given the points of rows (M, d)."""
    out = np.empty((found.slots.size, len(rows)))
    n, size = len(rows), max(1, MOST_PAIRS // len(rows))
    for first in range(0, len(out), size):
        part = np.arange(first, min(first + size, len(out)))
        leaf, of_rows = np.repeat(part, n), np.tile(rows, (part.size, 1))
        low, high = (np.broadcast_to(end, (len(leaf), len(places))) for end in ends.T)
        if len(places) == 1:
            law, given = found.family.univariate, students_given(found.parameters, leaf, of_rows, places[0])
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                logs = law.log_interval(given, low[:, 0], high[:, 0])
        else:
            law, given = found.family.columns_of_rows(found.parameters[leaf], of_rows, places)
            logs = law.log_probability_of_boxes(given, low, high)
        out[part] = logs.reshape(part.size, n)
    return out


def nodes_of(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, rule: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with some columns at nodes of their intervals, and weights of the nodes.

    Parameters
    ----------
    family : EllipticalFamily
    parameters : (n, P) float64
    rows : (n, d) float64
        The points, which stay also in columns of intervals; NaN elsewhere.
    places : list of int
        Columns (k,) of the intervals.
    ends : (k, 2) float64
    rule : int
        The coarsest that will do, of `ONE` or `SEVERAL`. Of several intervals a finer one is taken where shifts of the
        lattice do not agree.

    Returns
    -------
    rows : (n, G, d) float64
    weights : (n, G) float64
        They add up to 1.
    """
    if len(places) == 1:
        return _nodes_of_one(family, parameters, rows, places[0], ends[0], rule)
    while True:
        out, logs = _nodes_of_several(family, parameters, rows, places, ends, rule)
        top = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - top)
        mass = weights.sum(axis=1, keepdims=True)
        weights /= mass
        rule += 1
        if rule == len(SEVERAL) or rows.size * SEVERAL[rule] > MOST_NUMBERS:
            return out, weights
        log_mass = (top + np.log(mass))[:, 0]
        share = np.exp(log_mass - log_mass.max(initial=-1e300))  # 0 where a box has no probability
        if _shifts_agree(out[:, :, places], weights, share):
            return out, weights


def _shifts_agree(x: np.ndarray, weights: np.ndarray, share: np.ndarray) -> bool:
    """Whether the shifts of a lattice give columns (n, G, k) the same means, by the shares (n,) that laws may have."""
    away = x - np.einsum("ng,ngk->nk", weights, x)[:, None]
    sd = np.sqrt(np.einsum("ng,ngk->nk", weights, np.square(away)))
    each = weights[:, :, None] * away
    error = np.sqrt(np.square(each.reshape(len(x), N_SHIFTS, -1, x.shape[2]).sum(axis=2)).sum(axis=1))
    return bool((error * share[:, None] <= NODES_AGREE * sd).all())


def _nodes_of_several(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, rule: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows at the nodes of several intervals, and log probabilities (n, G) of the nodes, times their number."""
    n, n_nodes = len(rows), SEVERAL[rule]
    points = lattice(n_nodes // N_SHIFTS, len(places))
    out = np.repeat(rows[:, None], n_nodes, axis=1)
    logs = np.zeros((n, n_nodes))
    shape = n * n_nodes
    for i, j in enumerate(places):
        if i == 0:  # the rows have all nodes in common
            own = np.repeat(family.column_of_rows(parameters, rows, j)[1], n_nodes, axis=0)
        else:
            own = family.column_of_rows(np.repeat(parameters, n_nodes, axis=0), out.reshape(shape, -1), j)[1]
        location, scale, dof = own.T
        low, high = ((end - location) / scale for end in ends[i])
        log_p, z = step(dof, low, high, np.tile(points[i], n))
        is_point = ~np.isnan(rows[:, j, None])
        out[:, :, j] = np.where(is_point, rows[:, j, None], (location + scale * z).reshape(n, -1))
        logs += np.where(is_point, 0.0, log_p.reshape(n, -1))
    return out, logs


def _nodes_of_one(
    family: Any, parameters: np.ndarray, rows: np.ndarray, j: int, ends: np.ndarray, rule: int
) -> tuple[np.ndarray, np.ndarray]:
    """`nodes_of` one interval: by Gauss rules, or of like probability."""
    n_nodes = ONE[rule]
    location, scale, dof = family.column_of_rows(parameters, rows, j)[1].T
    low, high = ((end - location) / scale for end in ends)
    if rule < len(GAUSS):
        z, weights = nodes_within(dof, low, high, *GAUSS[rule])
    else:
        middles = (np.arange(n_nodes) + 0.5) / n_nodes
        freedom, first, last = (np.repeat(x, n_nodes) for x in (dof, low, high))
        found = step(freedom, first, last, np.tile(middles, len(rows)))[1]
        assert found is not None
        z, weights = found.reshape(len(rows), n_nodes), np.full((len(rows), n_nodes), 1.0 / n_nodes)
    out = np.repeat(rows[:, None], n_nodes, axis=1)
    out[:, :, j] = np.where(np.isnan(rows[:, j, None]), location[:, None] + scale[:, None] * z, rows[:, j, None])
    return out, weights


def column_given(
    column: JointColumn,
    d: int,
    leaf: np.ndarray,
    row: np.ndarray,
    values: np.ndarray,
    events: Mapping[int, Any],
    ends: np.ndarray | None = None,
) -> tuple[Leaves, np.ndarray]:
    """Laws of a column in leaves (P,) given other cells of rows (P,) and intervals: mixtures of G leaves each.

    Rows are those of ``values`` (M, D). Where recorded values stand for cells, ``ends`` (2, M, D) are the ends of
    these, NaN elsewhere, and the values are their middles. Each cell then counts by mean and variance of its exact
    value given the other cells' middles.

    Returns
    -------
    leaves : Leaves
        (P G,), one pair after the other; without the interval of the column itself.
    weights : (P, G) float64
    """
    own = events.get(d)
    rest = {c: event for c, event in events.items() if c != d}
    known = [known_in(columns, rest) for columns, *_ in column.regions]
    kinds, parts = column.kind[leaf], []
    for k, (columns, place, family, parameters) in enumerate(column.regions):
        of_values = values[:, columns]
        of_values[:, place] = np.nan
        gaps = np.isnan(of_values) @ 0.5 ** np.arange(columns.size)
        at = np.flatnonzero(kinds == k)
        if np.ptp(gaps) > 0.0 or np.any(np.diff(leaf[at]) < 0):  # of one leaf and one set of gaps there is one factor
            at = at[np.lexsort((gaps[row[at]], leaf[at]))]
        of_rows, number, spread = np.ascontiguousarray(of_values[row[at]]), column.number[leaf[at]], np.zeros(at.size)
        if ends is not None and not np.isnan(ends[0][:, columns]).all():
            low, high = (np.ascontiguousarray(end[:, columns][row[at]]) for end in ends)
            means_in_cells(parameters, number, of_rows, low, high, place, spread)
        nodes, weight = of_rows[:, None], np.ones((at.size, 1))
        if known[k]:
            of_events = np.array([rest[int(columns[j])] for j in known[k]])
            rule = _rule_of(parameters, number, of_rows, place, known[k], columns.size)
            nodes, weight = nodes_of(family, parameters[number], of_rows, known[k], of_events, rule)
        n = weight.shape[1]
        each = students_given(parameters, np.repeat(number, n), nodes.reshape(-1, columns.size), place)
        if isinstance(own, Interval) and n > 1:
            location, scale, dof = each.T
            inside = step(dof, (own.low - location) / scale, (own.high - location) / scale, None)[0].reshape(-1, n)
            weight = weight * np.exp(inside - inside.max(axis=1, keepdims=True))
            weight = weight / weight.sum(axis=1, keepdims=True)
        each = each.reshape(-1, n, 3)
        each[:, :, 1] = np.hypot(each[:, :, 1], np.sqrt(spread)[:, None])
        parts.append((at, each, weight))
    n_nodes = max((weight.shape[1] for _, _, weight in parts), default=1)
    students, weights = np.ones((leaf.size, n_nodes, 3)), np.zeros((leaf.size, n_nodes))
    students[:, :, 0] = 0.0
    for at, each, weight in parts:
        students[at, : weight.shape[1]], weights[at, : weight.shape[1]] = each, weight
    return as_gaussian_leaves(students.reshape(-1, 3)), weights


def _rule_of(
    parameters: np.ndarray, number: np.ndarray, rows: np.ndarray, place: int, places: list[int], d: int
) -> int:
    """The coarsest rule for intervals that leaves no gaps in the law of a column which follows from their columns.

    Given a node a column has a scale of its own; where it is small, a mixture over few nodes is a row of spikes.
    """
    if not number.size:
        return 0
    alone, given = rows.copy(), rows.copy()
    centre = parameters[number, 1 : 1 + d]
    given[:, places] = np.where(np.isnan(given[:, places]), centre[:, places], given[:, places])
    wide, narrow = (students_given(parameters, number, x, place)[:, 1] for x in (alone, given))
    rule = int(np.searchsorted(CLOSE, (wide / narrow).max()))
    sizes = ONE if len(places) == 1 else SEVERAL
    while rule and rows.size * sizes[rule] > MOST_NUMBERS:
        rule -= 1
    return rule


def moments_of_leaves(found: Any, values: np.ndarray, events: Mapping[int, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Means (n, d) and covariances (n, d, d) of leaves given points (d,) and intervals."""
    n, d = found.slots.size, values.size
    rows, weights = np.tile(values, (n, 1, 1)), np.ones((n, 1))
    places = known_in(found.columns, events)
    if places:
        ends = np.array([events[int(found.columns[j])] for j in places])
        rows, weights = nodes_of(found.family, found.parameters, rows[:, 0], places, ends)
    n_nodes = weights.shape[1]
    lacking = np.flatnonzero(np.isnan(rows[0, 0])).tolist() if n else []
    within = np.zeros((n, n_nodes, d, d))
    if lacking:
        own = np.repeat(found.parameters, n_nodes, axis=0)
        law, given = found.family.columns_of_rows(own, rows.reshape(n * n_nodes, d), lacking)
        mean, cov = law.moments_of_rows(given)
        rows[:, :, lacking] = mean.reshape(n, n_nodes, len(lacking))
        within[np.ix_(range(n), range(n_nodes), lacking, lacking)] = cov.reshape(n, n_nodes, *cov.shape[1:])
    centre = np.einsum("ng,ngd->nd", weights, rows)
    away = rows - centre[:, None]
    return centre, np.einsum("ng,ngab->nab", weights, within + away[..., :, None] * away[..., None, :])


def draw_with_events(
    leaves: JointLeaves,
    draw: np.ndarray,
    part: np.ndarray,
    row: np.ndarray,
    values: np.ndarray,
    events: Mapping[int, Any],
    rng: np.random.Generator,
    cells: RoundedCells | None = None,
) -> np.ndarray:
    """Draw rows (n, D) in their leaves over several columns given points and intervals; NaN in other cells.

    Parameters
    ----------
    leaves : JointLeaves
    draw : (n,) int64
        Of the chain, for each row.
    part : (n, D) int64
        Which part of the draw's leaves each cell has, below 0 where it has none; see `DrawCircuit`.
    row : (n,) int64
        Among those of ``values`` (M, D) and of the cells that recorded values stand for.
    """
    out = np.full(part.shape, np.nan)
    first = np.zeros(int(draw.max(initial=0)) + 1, np.int64)  # part of the region in each draw
    for r in leaves.regions:
        found = leaves.of(r)
        columns, count = found.columns, np.diff(found.begin)[: first.size]
        leaf = (part[:, columns[0]] - first[draw]) // columns.size
        first += count * columns.size
        which = np.flatnonzero((leaf >= 0) & (leaf < count[draw]))
        leaf = found.begin[draw[which]] + leaf[which]
        order, places = np.argsort(leaf, kind="stable"), known_in(columns, events)
        of_events = np.array([events[int(columns[j])] for j in places])
        size = max(1, MOST_NUMBERS // (8 * found.parameters.shape[1]))
        for start in range(0, order.size, size):
            some = order[start : start + size]
            at, parameters = which[some], found.parameters[leaf[some]]
            rows = values[np.ix_(row[at], columns)]
            if cells is not None:
                own = cells.of_rows(row[at])
                low, high = own.ends_of_columns[:, :, columns]
                rows = draw_in_cells(found.family, parameters, own.middles[:, columns], low, high, rng)
            if places:
                rows = draw_in_boxes(found.family, parameters, rows, places, of_events, rng)
            out[np.ix_(at, columns)] = found.family.draw_missing(parameters, rows, rng)
    return out


def draw_in_boxes(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) with the columns of intervals drawn in them, given the points.

    One column after the other is drawn in its interval, and all of them are kept with the probability that those behind
    the first one are there. What is kept has the law within the box.
    """
    out, left = np.array(rows), np.arange(len(rows))
    while left.size:
        tried, logs = np.array(rows[left]), np.zeros(left.size)
        for i, j in enumerate(places):
            location, scale, dof = family.column_of_rows(parameters[left], tried, j)[1].T
            low, high = ((end - location) / scale for end in ends[i])
            log_p, z = step(dof, low, high, rng.random(left.size))
            is_point = ~np.isnan(rows[left, j])
            tried[:, j] = np.where(is_point, rows[left, j], location + scale * z)
            logs += np.where(is_point, 0.0, log_p) if i else 0.0
        kept = np.log(rng.random(left.size)) < logs
        out[left[kept]] = tried[kept]
        left = left[~kept]
    return out
