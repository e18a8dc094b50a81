"""Where the search over boxes begins: modes and jumps of the leaves, and boxes that hold a maximum."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.family_pieces import Boxes
from pymc_spn.maxima.box_leaves import BOXES, PackedCircuit, modes_of


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
    """Boxes that hold a maximum: hulls of the leaves' modes within what is allowed, cut at support edges."""
    n_columns = is_discrete.size
    modes, p = modes_of(packed), packed.parameter
    boxes: list[Any] = [(np.zeros(n_columns), np.zeros(n_columns))]
    for d in range(n_columns):
        here = packed.column == d
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
            families = list(_leaves_of(packed, d))
            for family, own in families:
                if family.reach is not None:
                    ends = family.reach(own)
                    low, high = min(low, ends[0]), max(high, ends[1])
            if is_discrete[d]:
                low, high = np.floor(low), np.ceil(high)
            cells = []
            for start, stop in allowed.get(d, [(-np.inf, np.inf)]):
                a, b = max(min(low, stop), start), min(max(high, start), stop)
                one_sided = any(family.is_one_sided and family.ranges is not None for family, _ in families)
                cells += [(a, 0.0), (0.0, b)] if one_sided and a < 0.0 <= b else [(a, b)]
        boxes = [(with_column(low, d, cell[0]), with_column(high, d, cell[1])) for low, high in boxes for cell in cells]
    return boxes


def with_column(values: np.ndarray, d: int, value: float) -> np.ndarray:
    """A copy with another value in one column."""
    out = values.copy()
    out[d] = value
    return out
