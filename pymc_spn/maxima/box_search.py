"""The largest density of a circuit, with a certificate: best-first search over boxes.

A box is kept while its upper bound exceeds the best density found by more than the tolerance. Several bounds from above
are taken over a box, and the least counts. The first is leaf maxima passed up. If leaves are over several columns,
there is a concave quadratic (`quadratic_bounds`). Next comes a centred form with the ranges of gradient and Hessian. If
the range of the Hessian shows that the density is concave, the last is a tangent plane at a point near the best one. A
box in which some derivative keeps its sign holds no interior maximum. Boxes are split at modes of leaves, later in the
middle.
"""

import heapq
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.maxima import ascent_kernels, box_kernels
from pymc_spn.maxima.box_leaves import PackedCircuit
from pymc_spn.maxima.box_starts import (
    asked_columns,
    close_boxes,
    first_boxes,
    jumps_of,
    kinks_of,
    modes_in,
    with_column,
)
from pymc_spn.maxima.quadratic_bounds import quadratic_bound
from pymc_spn.numerics.answer_steps import current_bar

STARTS = 32
BATCH = 64
NEAR = 3.0  # nats above the best density below which derivatives are worth their cost
MOST_DERIVATIVES = 6  # columns whose Hessian is bounded
ROUNDS = 12  # of bounds by quadratics, each of which narrows the box for the next one
SELDOM, RARELY = 16, 8  # where fewer than one in 16 of such bounds helps, one box in 8 is asked for one
ROUNDING = 1e-11  # added to every bound, in nats


@dataclass(frozen=True)
class BoxResult:
    """Where the density is largest, as far as is known.

    Parameters
    ----------
    x : (D,) float64
    log_density, upper_bound : float
    n_boxes : int
        Boxes that were bounded.
    """

    x: np.ndarray
    log_density: float
    upper_bound: float
    n_boxes: int


def search(
    packed: PackedCircuit,
    allowed: dict[int, list[tuple[float, float]]],
    is_discrete: np.ndarray,
    tolerance: float,
    max_boxes: int,
    max_derivatives: int = MOST_DERIVATIVES,
    start: np.ndarray | None = None,
) -> BoxResult:
    """Largest log value of a packed circuit.

    Parameters
    ----------
    packed : PackedCircuit
    allowed : dict of int to list of (low, high)
        Closed intervals that a column is restricted to; of counts and levels with integer ends.
    is_discrete : (D,) bool
    tolerance : float
        In nats.
    max_boxes : int
    max_derivatives : int
        Most columns for which derivatives are bounded.
    start : (D,) float64, optional
        An allowed point that is known to be good.
    """
    return _Search(packed, allowed, is_discrete, tolerance, max_boxes, max_derivatives).run(start)


class _Search:
    def __init__(
        self,
        packed: PackedCircuit,
        allowed: Any,
        is_discrete: np.ndarray,
        tolerance: float,
        max_boxes: int,
        max_derivatives: int,
    ) -> None:
        self.packed, self.is_discrete = packed, is_discrete
        self.tolerance, self.max_boxes = tolerance, max_boxes
        n_columns = is_discrete.size
        boxes = first_boxes(packed, allowed, is_discrete)
        self.low, self.high = np.array([b[0] for b in boxes]), np.array([b[1] for b in boxes])
        self.rises, self.falls = zip(*(jumps_of(packed, d) for d in range(n_columns)), strict=True)
        self.find_ends()
        spread = (self.high > self.low).any(axis=0) & ~is_discrete
        self.position = np.full(n_columns, -1, np.int64)
        if np.count_nonzero(spread) <= max_derivatives:
            self.position[spread] = np.arange(np.count_nonzero(spread))
        self.moving = np.flatnonzero(self.position >= 0)
        self.modes = [modes_in(packed, d) for d in range(n_columns)]
        for d in np.flatnonzero(is_discrete):  # densities may stand beside masses on a unit grid
            self.modes[d] = np.unique(np.concatenate([np.floor(self.modes[d]), np.ceil(self.modes[d])]))
        self.best, self.x = -np.inf, self.low[0]
        self.settled = -np.inf  # largest bound of a box that was given up
        self.n_boxes = 0
        self.n_open = self.n_tried = self.n_helped = 0  # boxes for a bound by a quadratic
        self.order = itertools.count()  # ties in the heap
        self.bar = current_bar()

    def run(self, start: np.ndarray | None = None) -> BoxResult:
        starts = [
            ascent_kernels.best_trees(self.packed, low, high, STARTS)
            for low, high in zip(self.low[:STARTS], self.high[:STARTS], strict=True)
        ]
        points = np.concatenate(starts)
        points[:, self.is_discrete] = np.round(points[:, self.is_discrete])
        points = points[~np.isnan(points[:, self.used()]).any(axis=1)] if self.used().size else self.low[:1]
        points = np.where(np.isnan(points), 0.0, points)
        self.improve(points, 200)
        if start is not None:
            self.offer(start, float(box_kernels.log_bounds(self.packed, start[None], start[None])[0]))
        if not np.isfinite([self.low, self.high]).all():
            close_boxes(self.packed, self.low, self.high, self.best)
            whole = self.is_discrete
            self.low[:, whole], self.high[:, whole] = np.floor(self.low[:, whole]), np.ceil(self.high[:, whole])
            self.find_ends()
        heap: list[Any] = []
        self.bar.expect(self.max_boxes)
        self.add(heap, self.low, self.high)
        while heap and self.n_boxes < self.max_boxes:
            batch: list[Any] = []
            while heap and len(batch) < BATCH:
                bound, _, low, high, steep = heapq.heappop(heap)
                if -bound <= self.best + self.tolerance:
                    self.settled = max(self.settled, -bound)
                    continue
                batch.append((low, high, steep))
            if batch:
                self.split(heap, batch)
        rest = max((-b[0] for b in heap), default=-np.inf)
        return BoxResult(self.x, self.best, max(self.best, self.settled, rest), self.n_boxes)

    def find_ends(self) -> None:
        """Ends of the first boxes, and places at which the density may have a largest value although it rises."""
        columns = range(self.is_discrete.size)
        self.ends = [np.unique(np.concatenate([self.low[:, d], self.high[:, d]])) for d in columns]
        self.corners = [self.corners_of(d) for d in columns]

    def corners_of(self, d: int) -> np.ndarray:
        """Places at which the density of a column may have a largest value although it rises to one side."""
        rises, falls = self.rises[d], self.falls[d]
        jumps = (rises, np.nextafter(rises, -np.inf), falls, np.nextafter(falls, np.inf))
        return np.unique(np.concatenate([self.ends[d], kinks_of(self.packed, d), *jumps]))

    def used(self) -> np.ndarray:
        return asked_columns(self.packed)

    # ---- points

    def improve(self, points: np.ndarray, n_steps: int) -> None:
        """Climb from some points and keep the best."""
        values = box_kernels.log_bounds(self.packed, points, points)
        points = np.unique(points[np.argsort(-values)[:STARTS]], axis=0)
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        climbed = ascent_kernels.climb(self.packed, points, low, high, ~self.is_discrete, n_steps)
        climbed = np.array([self.step_discrete(p) for p in climbed])
        climbed = ascent_kernels.climb(self.packed, climbed, low, high, ~self.is_discrete, n_steps)
        points = np.concatenate([climbed, points])  # a climb may fall off the end of a uniform leaf
        values = box_kernels.log_bounds(self.packed, points, points)
        self.offer(points[int(np.argmax(values))], float(values.max()))

    def step_discrete(self, x: np.ndarray) -> np.ndarray:
        """Coordinate ascent over counts and levels."""
        discrete = [d for d in self.used() if self.is_discrete[d]]
        for _ in range(20):
            before = x
            for d in discrete:
                values = self.alternatives(int(d), x[d])
                tried = np.repeat(x[None], values.size, axis=0)
                tried[:, d] = values
                x = tried[int(np.argmax(box_kernels.log_bounds(self.packed, tried, tried)))]
            if np.array_equal(x, before):
                break
        return x

    def alternatives(self, d: int, now: float) -> np.ndarray:
        near: Any = np.unique(np.concatenate([[now], now + np.arange(-8.0, 9.0), self.modes[d]]))
        inside = np.zeros(near.size, np.bool_)
        for low, high in zip(self.low[:, d], self.high[:, d], strict=True):
            inside |= (near >= low) & (near <= high)
        return near[inside]

    def offer(self, x: np.ndarray, value: float) -> None:
        """Take a point if it is better, and polish it by Newton steps."""
        if value <= self.best:
            return
        self.x, self.best = x, value
        for _ in range(20):
            if not self.moving.size:
                return
            _, gradient, hessian = self.point_derivatives(self.x[None])
            inside = self.moving[np.array([self.strictly_inside(int(d)) for d in self.moving])]
            k = self.position[inside]
            try:
                step = -np.linalg.solve(hessian[0][np.ix_(k, k)], gradient[0][k])
            except np.linalg.LinAlgError:
                return
            if not np.all(np.isfinite(step)):
                return
            tried = self.x.copy()
            tried[inside] += step
            tried = np.clip(tried, self.low.min(axis=0), self.high.max(axis=0))
            value = float(box_kernels.log_bounds(self.packed, tried[None], tried[None])[0])
            if not value > self.best:
                return
            self.x, self.best = tried, value

    def strictly_inside(self, d: int) -> bool:
        return bool(self.ends[d][0] < self.x[d] < self.ends[d][-1])

    def point_derivatives(self, points: np.ndarray, shift: np.ndarray | None = None) -> Any:
        """Value (B,), gradient (B, k) and Hessian (B, k, k) at points, scaled by exp(-shift)."""
        if shift is None:
            shift = box_kernels.leaf_shifts(self.packed, points, points)
        lower, _ = box_kernels.taylor_ranges(self.packed, points, points, self.position, shift)
        return self.unpacked(lower)

    def unpacked(self, flat: np.ndarray) -> Any:
        k = self.moving.size
        hessian = np.zeros((len(flat), k, k))
        rows, columns = np.triu_indices(k)
        hessian[:, rows, columns] = hessian[:, columns, rows] = flat[:, 1 + k :]
        return flat[:, 0], flat[:, 1 : 1 + k], hessian

    # ---- boxes

    def add(self, heap: list[Any], low: np.ndarray, high: np.ndarray) -> None:
        """Bound new boxes and keep those that may hold something better."""
        self.n_boxes += len(low)
        self.bar.advance(len(low))
        bound = box_kernels.log_bounds(self.packed, low, high) + ROUNDING
        steep = np.full(low.shape, np.nan)
        open_box = bound > self.best + self.tolerance
        if self.packed.several.size:
            low, high = low.copy(), high.copy()
            for i in np.flatnonzero(open_box & (high > low).any(axis=1)).tolist():
                bound[i] = min(bound[i], self.by_quadratic(low[i], high[i], bound[i]))
            open_box = bound > self.best + self.tolerance
        single = (low == high)[:, self.is_discrete].all(axis=1)
        near: Any = np.flatnonzero(open_box & single & (bound < self.best + NEAR)) if self.moving.size else []
        if len(near):
            low, high = low.copy(), high.copy()
            bound[near], steep[near] = self.refined(low, high, near, bound[near])
        for i in range(len(low)):
            if bound[i] > self.best + self.tolerance:
                heapq.heappush(heap, (-bound[i], next(self.order), low[i], high[i], steep[i]))
            else:
                self.settled = max(self.settled, bound[i])

    def by_quadratic(self, low: np.ndarray, high: np.ndarray, bound: float) -> float:
        """Bound of one box by a quadratic, which may narrow it in place; asked less often where it seldom helps."""
        self.n_open += 1
        if self.n_tried > 64 + SELDOM * self.n_helped and self.n_open % RARELY:
            return bound
        self.n_tried += 1
        width = float((high - low).sum())
        found = quadratic_bound(self.packed, low, high, self.is_discrete, self.x, self.best, ROUNDS) + ROUNDING
        self.n_helped += found < bound or float((high - low).sum()) < width
        return found

    def refined(self, low: np.ndarray, high: np.ndarray, near: Any, bound: np.ndarray) -> Any:
        """Bounds by derivatives, and how much each column may change the log value; may shrink boxes to a face."""
        packed, moving = self.packed, self.moving
        a, b = low[near], high[near]
        shift = box_kernels.leaf_shifts(packed, a, b)
        used = self.used()
        total = shift[:, used].sum(axis=1)
        lower, upper = box_kernels.taylor_ranges(packed, a, b, self.position, shift)
        _, g_low, h_low = self.unpacked(lower)
        _, g_high, h_high = self.unpacked(upper)
        # a derivative of one sign: the largest value is at a face, and beyond it unless that is an end
        dead = np.zeros(len(a), np.bool_)
        for k, d in enumerate(moving.tolist()):
            wide = b[:, d] > a[:, d]
            rising, falling = wide & (g_low[:, k] > 0.0), wide & (g_high[:, k] < 0.0)
            dead |= rising & ~np.isin(b[:, d], self.corners[d]) | falling & ~np.isin(a[:, d], self.corners[d])
            a[rising, d] = b[rising, d]
            b[falling, d] = a[falling, d]
        low[near], high[near] = a, b
        radius = 0.5 * (b - a)[:, moving]
        centre = 0.5 * (a + b)
        with np.errstate(invalid="ignore", over="ignore"):
            value, gradient, _ = self.point_derivatives(centre, shift)
            change = np.maximum(np.abs(g_low), np.abs(g_high)) * radius
            first = value + np.where(radius > 0, change, 0.0).sum(axis=1)
            largest = np.maximum(np.abs(h_low), np.abs(h_high))
            diagonal = np.arange(moving.size)
            largest[:, diagonal, diagonal] = np.maximum(h_high[:, diagonal, diagonal], 0.0)
            pairs = largest * radius[:, :, None] * radius[:, None, :]
            second = value + (np.abs(gradient) * radius).sum(axis=1)
            second = second + 0.5 * np.where(radius[:, :, None] * radius[:, None, :] > 0, pairs, 0.0).sum(axis=(1, 2))
            least = np.fmin(first, second)
            concave = self.concave(h_low, h_high, radius)
            for i in np.flatnonzero(concave).tolist():
                least[i] = min(least[i], self.tangent_bound(a[i], b[i], shift[i], centre[i]))
            logs = np.log(np.maximum(least, 1e-300)) + total + ROUNDING
            steep = np.zeros(a.shape)
            steep[:, moving] = np.where(radius > 0, np.where(np.isinf(change), np.nan, change), 0.0)
        logs = np.where(np.isnan(logs), np.inf, logs)
        top = float(np.max(value)) if len(value) else 0.0
        if top > 0:
            best = int(np.argmax(np.log(np.maximum(value, 1e-300)) + total))
            found = float(box_kernels.log_bounds(packed, centre[best : best + 1], centre[best : best + 1])[0])
            if found > self.best:
                self.improve(centre[best : best + 1], 50)
        return np.where(dead, -np.inf, np.minimum(bound, logs)), steep

    def concave(self, h_low: np.ndarray, h_high: np.ndarray, radius: np.ndarray) -> np.ndarray:
        """Whether every matrix in the range of the Hessian is negative definite in the directions that are open."""
        k = h_low.shape[1]
        middle, spread = 0.5 * (h_low + h_high), 0.5 * (h_high - h_low)
        closed = radius <= 0.0
        fine = np.isfinite(h_low).all(axis=(1, 2)) & np.isfinite(h_high).all(axis=(1, 2))
        diagonal = np.arange(k)
        fine &= ((h_high[:, diagonal, diagonal] < 0.0) | closed).all(axis=1)
        out = np.zeros(len(radius), np.bool_)
        for i in np.flatnonzero(fine):
            which = np.flatnonzero(~closed[i])
            if not which.size:
                out[i] = True
                continue
            scale = 1.0 / np.sqrt(-middle[i][which, which])
            scaled = middle[i][np.ix_(which, which)] * scale[:, None] * scale[None, :]
            rest = spread[i][np.ix_(which, which)] * scale[:, None] * scale[None, :]
            out[i] = np.linalg.eigvalsh(scaled)[-1] + np.linalg.norm(rest) < -1e-12
        return out

    def tangent_bound(self, low: np.ndarray, high: np.ndarray, shift: np.ndarray, centre: np.ndarray) -> float:
        """Upper bound by tangent planes of a concave density: at the best point clipped, then along Newton steps.

        Points stay inside: at a face leaves may have kinks, and their slopes within the box are those that count.
        """
        moving = self.moving
        least_x, most_x = np.nextafter(low, high), np.nextafter(high, low)
        x = np.clip(self.x, least_x, most_x)
        least = np.inf
        for step in range(6):
            value, gradient, hessian = self.point_derivatives(x[None], shift[None])
            reach = np.maximum(gradient[0] * (low - x)[moving], gradient[0] * (high - x)[moving])
            least = min(least, float(value[0] + np.maximum(reach, 0.0).sum()))
            if reach.max(initial=0.0) <= 1e-9 * value[0]:
                break
            falls, rises = gradient[0] < 0.0, gradient[0] > 0.0
            held = (x[moving] <= least_x[moving]) & falls | (x[moving] >= most_x[moving]) & rises
            free = np.flatnonzero(~held)
            if not free.size or step == 5:
                break
            try:
                move = -np.linalg.solve(hessian[0][np.ix_(free, free)], gradient[0][free])
            except np.linalg.LinAlgError:
                break
            x = x.copy()
            x[moving[free]] += move
            x = np.clip(x, least_x, most_x)
        return least

    def split(self, heap: list[Any], batch: list[Any]) -> None:
        """Halve boxes along the column that matters most; the most promising is tried at three points."""
        tried = np.array([batch[0][0], batch[0][1], 0.5 * (batch[0][0] + batch[0][1])])
        tried[2, self.is_discrete] = np.floor(tried[2, self.is_discrete])
        values = box_kernels.log_bounds(self.packed, tried, tried)
        if values.max() > self.best:
            self.improve(tried[[int(np.argmax(values))]], 50)
        low, high = np.array([b[0] for b in batch]), np.array([b[1] for b in batch])
        steep = np.array([b[2] for b in batch])
        unknown = np.flatnonzero(np.isnan(steep).any(axis=1))
        if unknown.size:
            steep[unknown] = self.by_trial(low[unknown], high[unknown])
        steep = np.where(high > low, steep, -np.inf)
        new_low, new_high = [], []
        for i in range(len(batch)):
            d = int(np.argmax(steep[i]))
            if not high[i, d] > low[i, d]:
                value = float(box_kernels.log_bounds(self.packed, low[i : i + 1], high[i : i + 1])[0])
                self.offer(low[i], value)  # a point
                self.settled = max(self.settled, value)
                continue
            cut = self.cut(d, low[i, d], high[i, d])
            if cut is None:  # the ends are neighbours in floating point
                bound = float(box_kernels.log_bounds(self.packed, low[i : i + 1], high[i : i + 1])[0])
                self.settled = max(self.settled, bound)
                continue
            new_low += [low[i], with_column(low[i], d, cut[1])]
            new_high += [with_column(high[i], d, cut[0]), high[i]]
        if new_low:
            self.add(heap, np.array(new_low), np.array(new_high))

    def by_trial(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """How much (B, D) the bound falls when a column is held at its middle."""
        middle = 0.5 * (low + high)
        middle[:, self.is_discrete] = np.floor(middle[:, self.is_discrete])
        return box_kernels.falls_at_points(self.packed, low, high, middle)

    def cut(self, d: int, low: float, high: float) -> tuple[float, float] | None:
        """Where the left part ends and the right one begins: at a jump, at a mode near the middle, or in the middle."""
        middle = 0.5 * (low + high)
        if self.is_discrete[d]:
            return float(np.floor(middle)), float(np.floor(middle)) + 1.0
        rises, falls = self.rises[d], self.falls[d]
        jumps = np.concatenate([rises[(low < rises) & (rises <= high)], falls[(low <= falls) & (falls < high)]])
        if jumps.size:  # between neighbours in floating point, so that every number is on one side
            jump = float(jumps[np.argmin(np.abs(jumps - middle))])
            if low < jump and jump in rises:
                return float(np.nextafter(jump, -np.inf)), jump
            return jump, float(np.nextafter(jump, np.inf))
        modes = self.modes[d]
        if modes.size:
            mode = float(modes[np.argmin(np.abs(modes - middle))])
            if abs(mode - middle) < 0.3 * (high - low):
                middle = mode
        return (middle, middle) if low < middle < high else None
