"""Ascent on a log density of rows from many starts: one column after the other, and by quasi-Newton steps.

Only log densities are asked for, of the rows of all starts at once. Derivatives are differences.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.maxima.row_boxes import RowBox

STEPS = np.array([1.0, 0.5, 0.2, 0.05, 0.01, 1e-3, 2.0, 5.0])  # parts of a quasi-Newton step that are tried
LEAST, TARGET, MOST = 1e-8, 1e-6, 1e-3  # nats by which the density should change over the step of a difference
HALVINGS = 12  # times that such a step is chosen anew
ROUNDS = 30  # of both kinds of steps
NEWTON_STEPS = 200
NEAR_COUNTS = np.arange(-8.0, 9.0)
GAIN = 1e-10  # nats: an ascent ends where less is to be had
Ask = Generator[np.ndarray, np.ndarray, Any]  # yields rows and is sent their log densities


class Peak(NamedTuple):
    """Where an ascent ended.

    Parameters
    ----------
    row : (D,) float64
    log_density : float
    step : (D,) float64
        Steps of differences in the columns.
    bend : (C, C) float64 or None
        Less the Hessian in the continuous columns that may move, as far as the steps tell.
    """

    row: np.ndarray
    log_density: float
    step: np.ndarray
    bend: np.ndarray | None


def climb(
    log_density: Callable[[np.ndarray], np.ndarray],
    starts: Sequence[Peak],
    box: RowBox,
    places: Sequence[np.ndarray],
) -> list[Peak]:
    """Local maxima above some starts.

    Parameters
    ----------
    log_density : callable
        Log densities (n,) of rows (n, D), ``-inf`` where there is none.
    starts : sequence of Peak
        Rows within the box.
    box : RowBox
    places : sequence of (k,) float64
        Values of each column that are tried in it besides.
    """
    ascents = [_ascent(start, box, places) for start in starts]
    asked = [next(ascent) for ascent in ascents]
    out: list[Any] = [None] * len(starts)
    left = list(range(len(starts)))
    while left:
        logs = log_density(np.concatenate([asked[k] for k in left]))
        logs = np.where(np.isfinite(logs), logs, -np.inf)
        ends = np.cumsum([len(asked[k]) for k in left])
        for k, own in zip(list(left), np.split(logs, ends[:-1]), strict=True):
            try:
                asked[k] = ascents[k].send(own)
            except StopIteration as end:
                out[k] = end.value
                left.remove(k)
    return out


def _ascent(start: Peak, box: RowBox, places: Sequence[np.ndarray]) -> Ask:
    """One ascent; without a density at its start it ends there."""
    row, step, bend = start.row.copy(), start.step.copy(), start.bend
    free = np.flatnonzero(~box.is_discrete & (box.high > box.low))
    value = float((yield row[None])[0])
    for _ in range(ROUNDS if value > -np.inf else 0):
        before = value
        row, value = yield from _by_columns(row, value, box, places)
        if free.size:
            row, value, step[free], bend = yield from _by_newton(row, value, free, box, step[free], bend)
        if value - before < GAIN * max(1.0, abs(value)):
            break
    return Peak(row, value, step, bend)


def _by_columns(row: np.ndarray, value: float, box: RowBox, places: Sequence[np.ndarray]) -> Ask:
    """The best change of one column at a time, until none helps."""
    for _ in range(4 * row.size):
        changes = [(d, x) for d in range(row.size) for x in _values_to_try(row[d], d, box, places[d]) if x != row[d]]
        if not changes:
            break
        rows = np.repeat(row[None], len(changes), axis=0)
        rows[np.arange(len(changes)), [d for d, _ in changes]] = [x for _, x in changes]
        logs = yield rows
        best = int(np.argmax(logs))
        if not logs[best] > value:
            break
        row, value = rows[best], float(logs[best])
    return row, value


def _values_to_try(now: float, d: int, box: RowBox, places: np.ndarray) -> np.ndarray:
    values = box.values[d]
    near = now + NEAR_COUNTS if box.is_discrete[d] else np.zeros(0)
    if values is not None:
        return values if values.size <= 4 * NEAR_COUNTS.size else values[np.isin(values, [*near, *places])]
    tried = np.unique(np.concatenate([near, places]))
    return tried[(tried >= box.low[d]) & (tried <= box.high[d])]


def _by_newton(
    row: np.ndarray, value: float, free: np.ndarray, box: RowBox, step: np.ndarray, bend: np.ndarray | None
) -> Ask:
    """Quasi-Newton ascent (BFGS) in the continuous columns, within the box."""
    low, high = box.low[free], box.high[free]
    last: Any = None
    is_fresh = False
    for _ in range(NEWTON_STEPS):
        slope, curvature, is_held, is_top, step = yield from _slopes(row, value, free, low, high, step)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if bend is None:
                scale = np.maximum(-curvature, np.abs(slope) / (1e3 * step))
                bend, is_fresh = np.diag(np.clip(np.nan_to_num(scale, nan=1.0), 1e-200, 1e200)), True
            elif last is not None:
                bend = _updated(bend, row[free] - last[0], last[1] - slope)
            last = row[free].copy(), slope
            improved = False
            for held in (is_held, is_held | is_top):  # at a kink the others may go on
                some = np.flatnonzero(~held & (slope != 0.0))
                move = np.zeros(free.size)
                move[some] = _solved(bend[np.ix_(some, some)], slope[some])
                gain = 0.5 * float(move @ slope)
                if not gain > 0.01 * GAIN * max(1.0, abs(value)) or not np.isfinite(gain):
                    continue
                rows = np.repeat(row[None], STEPS.size, axis=0)
                rows[:, free] = np.clip(row[free] + STEPS[:, None] * move, low, high)
                logs = yield rows
                best = int(np.argmax(logs))
                improved = bool(logs[best] > value)
                if improved:
                    row, gained, value = rows[best], float(logs[best]) - value, float(logs[best])
                    break
        if improved:
            is_fresh = False
            if gained < 0.01 * GAIN * max(1.0, abs(value)):
                break
        elif is_fresh:
            break
        else:
            bend, last = None, None
    return row, value, step, bend


def _slopes(
    row: np.ndarray, value: float, free: np.ndarray, low: np.ndarray, high: np.ndarray, step: np.ndarray
) -> Ask:
    """Slopes and curvatures (C,) by differences, which columns are held by an end, which fall to both sides; steps."""
    n, at = free.size, row[free]
    scale = max(1.0, 1e-4 * abs(value))
    for _ in range(HALVINGS):
        below, above = np.maximum(at - step, low), np.minimum(at + step, high)
        rows = np.repeat(row[None], 2 * n, axis=0)
        rows[np.arange(n), free], rows[np.arange(n, 2 * n), free] = below, above
        down, up = np.split((yield rows), 2)
        changes = np.abs(np.stack([down, up]) - value)
        size = np.where(np.isfinite(changes), changes, 0.0).max(axis=0)
        is_lost = ~np.isfinite(changes).any(axis=0)
        wrong = is_lost | (size > MOST * scale) | (size < LEAST * scale)
        if not wrong.any():
            break
        factor = np.clip(np.sqrt(TARGET * scale / np.maximum(size, 1e-300)), 1e-6, 1e2)
        new = step * np.where(is_lost, 1e-3, np.where(wrong, factor, 1.0))
        step = np.clip(new, 4e-16 * np.abs(at) + 1e-300, 1e300)
    left, right = at - below, above - at
    no_down, no_up = np.isinf(down) | (left == 0.0), np.isinf(up) | (right == 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        falls, rises = (value - down) / left, (up - value) / right
        slope = np.where(no_down, rises, np.where(no_up, falls, (falls * right + rises * left) / (left + right)))
        curvature = np.where(no_down | no_up, 0.0, 2.0 * (rises - falls) / (left + right))
    slope = np.where((no_down & no_up) | ~np.isfinite(slope), 0.0, slope)
    is_held = (no_down & (slope < 0.0)) | (no_up & (slope > 0.0))
    return slope, np.nan_to_num(curvature, posinf=0.0, neginf=0.0), is_held, (down < value) & (up < value), step


def _updated(bend: np.ndarray, moved: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The BFGS update of a Hessian, left out where it would not stay positive definite."""
    push, own = bend @ moved, float(moved @ change)
    if not own > 1e-10 * float(moved @ push) or not np.isfinite(own) or not own > 0.0:
        return bend
    return bend + np.outer(change, change) / own - np.outer(push, push) / float(moved @ push)


def _solved(bend: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The step (k,) to the top of a quadratic; by the diagonal alone where rounding spoils the rest."""
    diagonal = np.sqrt(np.diagonal(bend))
    try:
        factor = np.linalg.cholesky(bend / diagonal[:, None] / diagonal)
        return np.linalg.solve(factor.T, np.linalg.solve(factor, slope / diagonal)) / diagonal
    except np.linalg.LinAlgError:
        return slope / diagonal**2
