"""Where the search over boxes begins: modes and jumps of the leaves, and boxes that hold a maximum."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.family_pieces import Boxes
from pymc_spn.maxima.box_ellipses import ellipses_of
from pymc_spn.maxima.box_kernels import log_bounds
from pymc_spn.maxima.box_leaves import BOXES, PackedCircuit, modes_of

NARROWER = 8  # halvings of how far beyond the modes a box must reach


def jumps_of(packed: PackedCircuit, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Where leaves of a column jump up and where down: ends that belong to them."""
    up, down = [np.zeros(0)], [np.zeros(0)]
    for boxes, p in _leaves_of(packed, d):
        if boxes.jumps is not None:
            rises, falls = boxes.jumps(p)
            up.append(rises)
            down.append(falls)
    return np.unique(np.concatenate(up)), np.unique(np.concatenate(down))


def kinks_of(packed: PackedCircuit, d: int) -> np.ndarray:
    """Where leaves of a column have kinks at which their slope falls: only there may the sum have a largest value."""
    found = [boxes.bends(p) for boxes, p in _leaves_of(packed, d) if boxes.bends is not None]
    return np.concatenate([np.zeros(0), *found])


def _leaves_of(packed: PackedCircuit, d: int) -> Iterator[tuple[Boxes, np.ndarray]]:
    """Families of the leaves of a column, and their parameters (n, 4)."""
    here = packed.column == d
    for code in np.unique(packed.kind[here]).tolist():
        if code in BOXES:
            yield BOXES[code], packed.parameter[here & (packed.kind == code)]


def first_boxes(
    packed: PackedCircuit, allowed: dict[int, list[tuple[float, float]]], is_discrete: np.ndarray
) -> list[Any]:
    """Boxes that hold a maximum: hulls of the leaves' modes within what is allowed, cut at support edges.

    Columns of leaves over several columns may be largest beyond all modes: they have all that is allowed.
    """
    n_columns = is_discrete.size
    modes, p = modes_of(packed), packed.parameter
    boxes: list[Any] = [(np.zeros(n_columns), np.zeros(n_columns))]
    for d in range(n_columns):
        here = packed.column == d
        families = list(_leaves_of(packed, d))
        one_sided = any(family.is_one_sided and family.ranges is not None for family, _ in families)
        if np.any(packed.several == d):
            cells = allowed.get(d, [(-np.inf, np.inf)])
            if one_sided:
                cells = [part for a, b in cells for part in ([(a, 0.0), (0.0, b)] if a < 0.0 <= b else [(a, b)])]
            boxes = _each_within(boxes, d, cells)
            continue
        if not here.any():
            continue
        levels = here & (packed.kind == CATEGORICAL)
        highest = float(p[levels, 1].max() - 1.0) if levels.any() else 0.0
        if levels.sum() == here.sum():
            cells = allowed.get(d, [(0.0, highest)])
        else:
            others = modes[here & ~levels]
            low, high = float(others.min()), float(others.max())
            if levels.any():  # beside counts: any of them may be the largest
                low, high = min(low, 0.0), max(high, highest)
            for family, own in families:
                if family.reach is not None:
                    ends = family.reach(own)
                    low, high = min(low, ends[0]), max(high, ends[1])
            if is_discrete[d]:
                low, high = np.floor(low), np.ceil(high)
            cells = []
            for start, stop in allowed.get(d, [(-np.inf, np.inf)]):
                a, b = max(min(low, stop), start), min(max(high, start), stop)
                cells += [(a, 0.0), (0.0, b)] if one_sided and a < 0.0 <= b else [(a, b)]
        boxes = _each_within(boxes, d, cells)
    return boxes


def _each_within(boxes: list[Any], d: int, cells: list[tuple[float, float]]) -> list[Any]:
    return [(with_column(low, d, a), with_column(high, d, b)) for low, high in boxes for a, b in cells]


def asked_columns(packed: PackedCircuit) -> np.ndarray:
    """Columns that leaves hold."""
    return np.unique(np.concatenate([packed.column[packed.column >= 0], packed.several]))


def modes_in(packed: PackedCircuit, d: int) -> np.ndarray:
    """Where leaves of a column are largest, those over several columns among them."""
    modes = modes_of(packed)
    column, location, _ = ellipses_of(packed)
    return np.unique(np.concatenate([modes[(packed.column == d) & ~np.isnan(modes)], location[column == d]]))


def close_boxes(packed: PackedCircuit, low: np.ndarray, high: np.ndarray, best: float) -> None:
    """Draw infinite ends of boxes (B, D) in, in place, to where no point beyond them reaches a log value."""
    column, location, scale = ellipses_of(packed)
    for b in range(len(low)):
        for d in np.unique(column[np.isinf(low[b, column]) | np.isinf(high[b, column])]).tolist():
            first = max(float(location[column == d].min()), low[b, d])
            last = min(float(location[column == d].max()), high[b, d])
            step = float(scale[column == d].max())
            for end, start, sign in ((high[b], max(first, last), 1.0), (low[b], min(first, last), -1.0)):
                if np.isinf(end[d]):
                    end[d] = start + sign * _reach(packed, low[b], high[b], d, start, sign * step, best) * step


def _reach(
    packed: PackedCircuit, low: np.ndarray, high: np.ndarray, d: int, start: float, step: float, best: float
) -> float:
    """How many steps from a start a box must reach in column d."""

    def is_enough(n: float) -> bool:
        first, last = low.copy(), high.copy()
        (first if step > 0.0 else last)[d] = start + n * step
        return bool(log_bounds(packed, first[None], last[None])[0] < best)

    n = 1.0
    while not is_enough(n) and np.isfinite(start + 2.0 * n * step):
        n *= 2.0
    least, width = 0.5 * n, 0.25 * n
    for _ in range(NARROWER):
        if not is_enough(least + width):
            least += width
        width *= 0.5
    return least + 2.0 * width


def with_column(values: np.ndarray, d: int, value: float) -> np.ndarray:
    """A copy with another value in one column."""
    out = values.copy()
    out[d] = value
    return out
