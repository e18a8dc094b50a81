"""Mutual information of two events: of whether the one and whether the other holds."""

from typing import Any, NoReturn

import numpy as np


def shares_of_cells(first: Any, second: Any, both: Any) -> np.ndarray:
    """Probabilities (4, ..) of both events, of each alone and of neither, from those of each and of both together."""
    first, second, both = (np.asarray(p, np.float64) for p in (first, second, both))
    return np.maximum(np.stack([both, first - both, second - both, 1.0 - first - second + both]), 0.0)


def log_ratios(cells: np.ndarray) -> np.ndarray:
    """Logs (4,) of each cell's probability over the product of its margins, 0 where it has none."""
    table = cells.reshape(2, 2) / cells.sum()  # second event in columns: both, first alone; second alone, neither
    away = np.array([[1.0, -1.0], [-1.0, 1.0]]) * (table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0])
    with np.errstate(divide="ignore", invalid="ignore"):  # each cell is the product of its margins and this
        ratio = np.log1p(np.maximum(away / (table.sum(axis=1, keepdims=True) * table.sum(axis=0)), -1.0))
    return np.where(table > 0.0, ratio, 0.0).ravel()


def information_of_cells(cells: np.ndarray) -> float:
    """Mutual information in nats from the probabilities (4,) of `shares_of_cells`."""
    return max(float(cells @ log_ratios(cells) / cells.sum()), 0.0)


def refuse_density(argument: str, column: str, point: float) -> NoReturn:
    """Refuse an event at a point that has a density, and so probability zero."""
    raise ValueError(
        f"{argument}: column {column!r} cannot be at a point, {point:g}, where it has a density; give an interval"
    )


def refuse_likelihoods(argument: str, column: str) -> NoReturn:
    """Refuse soft evidence in the place of an event."""
    raise ValueError(f"{argument}: column {column!r} has likelihoods, which are not an event; give a set")
