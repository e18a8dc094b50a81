"""The law of one column in each of many rows: leaves of all draws, mixed by weights of each row's own."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.laws.column_laws import ColumnLaw, leaf_centres
from pymc_spn.laws.column_quantiles import LARGEST_COUNT
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.numerics.bracketed_newton import reach_levels
from pymc_spn.numerics.halving import smallest_whole_reaching
from pymc_spn.numerics.row_mixtures import RowMixtures

REST = 1e-11  # of the smaller tail: what the search of a quantile may leave
GRID_VALUES, GRID_SIZES = 2_000_000, (8, 192)  # values held of all leaves (16 MB), points of a grid
WHOLE_POINTS = 600  # points of a grid that holds every whole number
SPREAD = np.array([-3.0, -1.5, -0.7, 0.0, 0.7, 1.5, 3.0])  # points of a leaf that shape the grid, in its widths
Point = tuple[np.ndarray, np.ndarray, np.ndarray]  # where, value, slope


class WeightedLeaves(NamedTuple):
    """Leaves that are known to satisfy one event, with weights in each row.

    Parameters
    ----------
    leaves : Leaves
    event : Interval, frozenset or None
    mixtures : RowMixtures
        Its components are the leaves.
    """

    leaves: Leaves
    event: Any
    mixtures: RowMixtures

    @property
    def law(self) -> ColumnLaw:
        """The leaf of each pair by itself."""
        which = self.mixtures.component
        own = Leaves(self.leaves.family[which], self.leaves.parameters[which])
        return ColumnLaw(own, self.mixtures.weight, np.zeros(1, np.int64), self.event)


class RowLaws(NamedTuple):
    """One law of a column for each of M rows.

    Parameters
    ----------
    parts : tuple of WeightedLeaves
        By what the column is known to satisfy; the weights of a row add up to 1 over all of them.
    n_rows : int
    """

    parts: tuple[WeightedLeaves, ...]
    n_rows: int

    def of_rows(self, kept: np.ndarray) -> "RowLaws":
        """The laws of some rows (k,), ascending."""
        if kept.size == self.n_rows:
            return self
        return RowLaws(tuple(p._replace(mixtures=p.mixtures.of_rows(kept)) for p in self.parts), kept.size)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (M, Q) at points (M, Q) of each row's own."""
        return self._sum(lambda law, own: law.leaf_cdf(own), x)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (M, Q) at points (M, Q) of each row's own."""
        return self._sum(lambda law, own: np.exp(law.leaf_log_density(own)), x)

    def _sum(self, of_leaves: Callable[[ColumnLaw, np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        total = np.zeros(x.shape)
        for part in self.parts:
            total += part.mixtures.sums(of_leaves(part.law, x[part.mixtures.row]))
        return total

    @property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses."""
        return all(part.law.is_discrete for part in self.parts)

    def quantile(self, q: np.ndarray, within: "Brackets") -> np.ndarray:
        """Quantiles (M, Q) of each row: the smallest x with P(X <= x) >= q, for levels strictly between 0 and 1."""
        first, last = (ends[:, None] for ends in self.support())
        if self.is_discrete:
            return np.clip(self._counts(q, within, first - 1.0), np.ceil(first), np.floor(last))
        # a leaf has no mass at the ends of its support, so the search may begin outside of it
        outside = np.nextafter(first, -np.inf)
        low, high = (np.clip(ends, outside, last) for ends in (within.low, within.high))
        held: dict[int, RowLaws] = {}

        def some(rows: np.ndarray) -> RowLaws:
            if rows.size not in held:  # rows only ever leave the search
                held.clear()
                held[rows.size] = self.of_rows(rows)
            return held[rows.size]

        x = reach_levels(
            lambda rows, at: some(rows).cdf(at),
            lambda rows, at: some(rows).density(at),
            q,
            low,
            high,
            np.clip(within.start, np.nextafter(outside, np.inf), last),
            np.full(self.n_rows, within.length),
            REST,
        )
        # between intervals the distribution function is flat: the end of the one before is then the smallest x
        for end in {float(end) for part in self.parts for end in part.law.ends}:
            reached = self.cdf(np.full((self.n_rows, 1), end)) >= q
            x = np.where(reached, np.minimum(x, end), x)
        return x

    def _counts(self, q: np.ndarray, within: "Brackets", least: np.ndarray) -> np.ndarray:
        """Quantiles of counts; an end of a bracket that is infinite is looked for."""
        far = np.ceil(2.0 * max(within.length, 1.0))
        if (within.high - within.low == 1.0).all():
            return within.high
        low = np.maximum(np.where(np.isinf(within.low), -far, within.low), least)
        high = np.where(np.isinf(within.high), far, within.high)
        return smallest_whole_reaching(lambda x: self.cdf(x) < q, low, high, least, LARGEST_COUNT)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value (M,) that some leaf of a row allows."""
        low, high = np.full(self.n_rows, np.inf), np.full(self.n_rows, -np.inf)
        for part in self.parts:
            own, rows = part.law.support(), np.unique(part.mixtures.row)
            low[rows], high[rows] = np.minimum(low[rows], own[0]), np.maximum(high[rows], own[1])
        return low, high


class Brackets(NamedTuple):
    """Where quantiles are: P(X <= low) < q <= P(X <= high).

    Parameters
    ----------
    low, high : (M, Q) float64
        Infinite beyond the grid that they are from; whole numbers for counts.
    start : (M, Q) float64
        Finite, between them; for densities close to the quantile.
    length : float
        From 0 to the far end of the grid.
    """

    low: np.ndarray
    high: np.ndarray
    start: np.ndarray
    length: float


class LeafGrid:
    """Distribution functions of all leaves at common points, from which those of rows are products of matrices.

    Parameters
    ----------
    leaves : Leaves
        Of all draws (n,).
    events : sequence
        What the column is known to satisfy, under each of J parts.
    """

    def __init__(self, leaves: Leaves, events: Sequence[Any]) -> None:
        laws = [ColumnLaw(leaves, np.ones(leaves.family.size), np.zeros(1, np.int64), event) for event in events]
        centre, width = leaf_centres(leaves)
        size = int(np.clip(GRID_VALUES // max(leaves.family.size, 1), *GRID_SIZES))
        usual = np.quantile(centre + width * SPREAD[:, None], np.linspace(0.0, 1.0, size))
        reach = max(float(np.ptp(usual)), float(width.max()), float(np.finfo(np.float64).tiny))
        beyond = reach * 10.0 ** np.arange(1, 4)
        points = np.concatenate([usual[0] - beyond[::-1], usual, usual[-1] + beyond])
        self.is_discrete = all(law.is_discrete for law in laws)
        if self.is_discrete:
            points = np.round(points)
            whole = np.arange(points[beyond.size], points[-beyond.size - 1] + 1.0)
            if whole.size <= WHOLE_POINTS and whole.size * leaves.family.size <= 4 * GRID_VALUES:
                points = np.concatenate([points, whole])  # a bracket between neighbours is the answer
        self.points = np.unique(points)
        self.cdf = np.stack([law.leaf_cdf(self.points) for law in laws])
        if not self.is_discrete:
            self.density = np.stack([np.exp(law.leaf_log_density(self.points)) for law in laws])

    def brackets(self, shares: np.ndarray, q: np.ndarray) -> Brackets:
        """Where quantiles of rows with weights (J, M, n) of the leaves are."""
        x = self.points
        value = np.einsum("jmn,jng->mg", shares, self.cdf, optimize=True)
        after = (value[:, :, None] < q).sum(axis=1)  # number of the first point that reaches the level
        low = np.where(after > 0, x[np.maximum(after - 1, 0)], -np.inf)
        high = np.where(after < x.size, x[np.minimum(after, x.size - 1)], np.inf)
        start = np.where(np.isinf(low), x[0], np.where(np.isinf(high), x[-1], low))
        if not self.is_discrete:
            slope = np.einsum("jmn,jng->mg", shares, self.density, optimize=True)
            i, j = np.clip(after - 1, 0, x.size - 1), np.clip(after, 0, x.size - 1)
            own = np.arange(len(value))[:, None]
            found = _inverse(q, (x[i], value[own, i], slope[own, i]), (x[j], value[own, j], slope[own, j]))
            start = np.where((found > low) & (found < high) & (i < j), found, start)
        return Brackets(low, high, start, float(np.abs(x).max()))


def _inverse(q: np.ndarray, left: Point, right: Point) -> np.ndarray:
    """Where a function reaches q, by the cubic through two points and slopes of its inverse; NaN where it has none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = right[1] - left[1]
        t = (q - left[1]) / rise
        one, two = rise / left[2], rise / right[2]
        curved = left[0] * (1.0 + 2.0 * t) * (1.0 - t) ** 2 + right[0] * t**2 * (3.0 - 2.0 * t)
        return curved + one * t * (1.0 - t) ** 2 - two * t**2 * (1.0 - t)
