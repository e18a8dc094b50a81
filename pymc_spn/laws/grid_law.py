"""Entropy and divergence of one column of a law: levels and counts summed, numbers by Gauss points.

A grid is placed by the mixture of a few circuits and refined until an answer stays.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pymc_spn.events.events import Event
from pymc_spn.events.unions import ends_of
from pymc_spn.laws.column_grids import FEW_PANELS, GRID_DRAWS, MISPLACED, NO_MASS, Grid, beyond_grid, grid_of
from pymc_spn.laws.law import ColumnOfLaw, Integral, Law
from pymc_spn.numerics.draw_averages import relative_weights

MOST_PANELS = 96
CONVERGED = 1e-6  # nats by which halving the panels may change an answer


class GridLaw(Law):
    """A law whose integrals are taken on grids that all circuits share."""

    def entropy_of_column(self, d: int) -> Integral:
        """See `Law`."""
        influence, grid = np.zeros(0), None
        column, weight = self.column(d), relative_weights(self.log_weights)

        def ask(on: Grid) -> float:
            nonlocal influence, grid
            grid = on
            each = column.density(grid.x)
            p = weight @ each / weight.sum()
            surprise = -np.log(np.where(p > 0.0, p, 1.0)) * grid.weight
            value = float(p @ surprise)
            influence = weight * (each @ surprise - value)
            return value

        value, change = _refined(self, d, column, ask)
        assert grid is not None
        return Integral(value, change + _beyond(self, column, grid), influence)

    def divergence_of_column(self, d: int, other: Law, e: int) -> tuple[Integral, np.ndarray]:
        """See `Law`."""
        influences = np.zeros(0), np.zeros(0)
        last: Grid | None = None
        columns = self.column(d), other.column(e)
        weights = relative_weights(self.log_weights), relative_weights(other.log_weights)

        def ask(grid: Grid) -> float:
            nonlocal influences, last
            last = grid
            each, theirs = (column.density(grid.x) for column in columns)
            p, q = weights[0] @ each / weights[0].sum(), weights[1] @ theirs / weights[1].sum()
            inside = (p > 0.0) & ((q > 0.0) | (grid.weight * p > NO_MASS))
            if np.any(q[inside] <= 0.0):
                influences = np.full(weights[0].size, np.inf), np.zeros(weights[1].size)
                return np.inf
            # mass of the other beyond the grid is not scaled away: it is part of the divergence
            ratio, slope = np.zeros(p.size), np.zeros(p.size)
            ratio[inside] = np.log(p[inside] / q[inside]) * grid.weight[inside]
            slope[inside] = p[inside] / q[inside] * grid.weight[inside]
            value = max(float(p @ ratio), 0.0)
            influences = weights[0] * (each @ ratio - value), weights[1] * (1.0 - theirs @ slope)
            return value

        beside: list[Event | None] = []
        if len(self.parts) + len(other.parts) > 2:
            beside = [part.known(e) for part in other.parts if part.known(e) is not None]
        value, change = _refined(self, d, columns[0], ask, beside)
        assert last is not None
        tolerance = 0.0 if np.isinf(value) else change + _beyond(self, columns[0], last, is_ratio=True)
        return Integral(value, tolerance, influences[0]), influences[1]


def _grid(
    law: Law, d: int, whole: ColumnOfLaw, n_panels: int, tail_panels: int, beside: Sequence[Event | None]
) -> Grid:
    """Grid of a column, placed by the mixture of a few circuits.

    Panels end where one of several events does, those ``beside`` among them.
    """
    weight = relative_weights(law.log_weights)
    ranked = np.argsort(-weight, kind="stable")[: max(GRID_DRAWS, weight.size // 2)]
    few = np.sort(ranked[np.unique(np.linspace(0, ranked.size - 1, GRID_DRAWS).astype(np.int64))])
    of_few, column = whole.mixed(np.where(np.isin(np.arange(weight.size), few), weight, 0.0)), law.columns[d]
    several = [*(part.known(d) for part in law.parts), *beside]
    jumps = [x for event in several for x in ends_of(event)] if len(several) > 1 else []
    n_levels = len(column.levels or ())
    return grid_of(of_few, column.name, n_levels, bool(law.is_density[d]), n_panels, tail_panels, jumps)


def _refined(
    law: Law, d: int, column: ColumnOfLaw, ask: Callable[[Grid], float], beside: Sequence[Event | None] = ()
) -> tuple[float, float]:
    """An answer on finer and finer grids until it stays, and its last change with what the panels may misplace."""
    n_panels = FEW_PANELS
    value = ask(_grid(law, d, column, n_panels, 1, beside))
    if law.columns[d].levels is not None or not law.is_density[d]:  # summed
        return value, 0.0
    while True:
        n_panels *= 2
        finer = ask(_grid(law, d, column, n_panels, n_panels // FEW_PANELS, beside))
        change = 0.0 if finer == value else abs(finer - value)  # both may be infinite
        value = finer
        if change < CONVERGED or n_panels >= MOST_PANELS:
            return value, change + MISPLACED


def _beyond(law: Law, column: ColumnOfLaw, grid: Grid, is_ratio: bool = False) -> float:
    """`beyond_grid` of the column under all circuits together."""
    mixed = column.mixed(relative_weights(law.log_weights))
    of_logs = mixed.mean_log_beyond if mixed.has_logs and not is_ratio else None
    return beyond_grid(lambda x: mixed.cdf(x)[0], grid, of_logs)
