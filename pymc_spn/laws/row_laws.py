"""The law of one column in each of many rows: leaves of all circuits, mixed by weights of each row's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_spn.laws.column_quantiles import LARGEST_COUNT
from pymc_spn.numerics.halving import reach_levels, smallest_whole_reaching
from pymc_spn.numerics.row_mixtures import RowMixtures

GRID_VALUES, GRID_SIZES = 2_000_000, (8, 192)  # values held of all leaves (16 MB), points of a grid
WHOLE_POINTS = 600  # points of a grid that holds every whole number
SPREAD = np.array([-3.0, -1.5, -0.7, 0.0, 0.7, 1.5, 3.0])  # points of a leaf that shape the grid, in its widths
Point = tuple[np.ndarray, np.ndarray, np.ndarray]  # where, value, slope


class LeafLaws(Protocol):
    """n leaves of one column, given what is known of it; points are (X,) for all leaves or (n, X) of their own."""

    @property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses."""

    def leaf_cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (n, X)."""

    def leaf_log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density or mass (n, X)."""

    def leaf_within(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """P(low <= X <= high) (n, X) between ends (n, X): far tails keep their digits."""

    def leaf_bulk(self) -> tuple[np.ndarray, np.ndarray]:
        """A point in the bulk of each leaf and a width (n,) of the bulk, finite for every tail."""

    def leaf_support(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value (n,) that each leaf allows."""


@dataclass(frozen=True)
class WeightedLeaves:
    """Leaves that are known to satisfy one event, with weights in each row.

    Parameters
    ----------
    leaves : LeavesOfColumn
    rows : (M,) int64
        Number of each row, by which the leaves know it.
    pairs : RowMixtures
        Its components are the leaves.
    """

    leaves: Any
    rows: np.ndarray
    pairs: RowMixtures

    @cached_property
    def _each(self) -> tuple[LeafLaws, RowMixtures]:
        """The laws of pairs by themselves, and their mixtures: some pairs are mixtures of several laws."""
        row, leaf, weight, n_rows = self.pairs
        law, share = self.leaves.of_pairs(self.rows[row], leaf)
        n = share.shape[1]
        if n == 1:
            return law, self.pairs
        weight = (weight[:, None] * share).ravel()
        return law, RowMixtures(np.repeat(row, n), np.repeat(leaf, n), weight, n_rows)

    @property
    def law(self) -> LeafLaws:
        """The law of each pair of a row and a leaf."""
        return self._each[0]

    @property
    def mixtures(self) -> RowMixtures:
        """Of these laws."""
        return self._each[1]

    def of_rows(self, kept: np.ndarray) -> "WeightedLeaves":
        """The same in some rows (k,)."""
        return WeightedLeaves(self.leaves, self.rows[kept], self.pairs.of_rows(kept))


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
        return RowLaws(tuple(part.of_rows(kept) for part in self.parts), kept.size)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (M, Q) at points (M, Q) of each row's own."""
        return self._sum(lambda law, own: law.leaf_cdf(own), x)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (M, Q) at points (M, Q) of each row's own."""
        return self._sum(lambda law, own: np.exp(law.leaf_log_density(own)), x)

    def _sum(self, of_leaves: Callable[[LeafLaws, np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        total = np.zeros(x.shape)
        for part in self.parts:
            total += part.mixtures.sums(of_leaves(part.law, x[part.mixtures.row]))
        return total

    @property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses."""
        return all(part.law.is_discrete for part in self.parts)

    def quantile(self, q: np.ndarray, within: "Brackets", rest: float) -> np.ndarray:
        """Quantiles (M, Q) of each row: the smallest x with P(X <= x) >= q, for levels strictly between 0 and 1.

        The search may leave a share ``rest`` of the smaller tail.
        """
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
            rest,
        )
        # where no leaf has anything the distribution function is flat: the smallest x is then the end of one below
        ends = np.unique(np.concatenate([part.law.leaf_support()[1] for part in self.parts]))
        ends = ends[np.isfinite(ends)]
        while ends.size:
            place = np.searchsorted(ends, x) - 1
            at = np.where(place >= 0, ends[place], x)
            reached = (at < x) & (self.cdf(at) >= q)
            if not reached.any():
                break
            x = np.where(reached, at, x)
        return x

    def _counts(self, q: np.ndarray, within: "Brackets", least: np.ndarray) -> np.ndarray:
        """Quantiles of counts; an end of a bracket that is infinite is looked for."""
        far = np.ceil(2.0 * max(within.length, 1.0))
        if (within.high - within.low == 1.0).all():
            return within.high
        low = np.maximum(np.where(np.isinf(within.low), -far, within.low), least)
        high = np.where(np.isinf(within.high), far, within.high)
        return smallest_whole_reaching(lambda x: self.cdf(x) < q, low, high, least, LARGEST_COUNT)

    def wide_brackets(self, q: np.ndarray) -> "Brackets":
        """Brackets without ends, where leaves differ from row to row: searches begin in the bulk of each row."""
        centre, spread = np.zeros((2, self.n_rows))
        for part in self.parts:
            middle, width = part.law.leaf_bulk()
            centre += part.mixtures.sums(middle[:, None])[:, 0]
            spread += part.mixtures.sums(width[:, None])[:, 0]
        start = np.round(centre) if self.is_discrete else centre
        ends = np.full((self.n_rows, q.size), np.inf)
        length = float(np.abs(centre).max(initial=0.0) + spread.max(initial=0.0))
        return Brackets(-ends, ends, np.tile(start[:, None], q.size), length)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value (M,) that some leaf of a row allows."""
        low, high = np.full(self.n_rows, np.inf), np.full(self.n_rows, -np.inf)
        for part in self.parts:
            least, most = part.law.leaf_support()
            np.minimum.at(low, part.mixtures.row, least)
            np.maximum.at(high, part.mixtures.row, most)
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
    laws : sequence of LeafLaws
        The same leaves (n,), given what the column is known to satisfy under each of J parts.
    """

    def __init__(self, laws: Sequence[LeafLaws]) -> None:
        found = [law.leaf_bulk() for law in laws]
        centre, width = (np.concatenate(values) for values in zip(*found, strict=True))
        size = int(np.clip(GRID_VALUES // max(centre.size, 1), *GRID_SIZES))
        usual = np.quantile(centre + width * SPREAD[:, None], np.linspace(0.0, 1.0, size))
        reach = max(float(np.ptp(usual)), float(width.max()), float(np.finfo(np.float64).tiny))
        beyond = reach * 10.0 ** np.arange(1, 4)
        points = np.concatenate([usual[0] - beyond[::-1], usual, usual[-1] + beyond])
        self.is_discrete = all(law.is_discrete for law in laws)
        if self.is_discrete:
            points = np.round(points)
            whole = np.arange(points[beyond.size], points[-beyond.size - 1] + 1.0)
            if whole.size <= WHOLE_POINTS and whole.size * centre.size <= 4 * GRID_VALUES:
                points = np.concatenate([points, whole])  # a bracket between neighbours is the answer
        self.points = np.unique(points)
        self.cdf = [law.leaf_cdf(self.points) for law in laws]
        if not self.is_discrete:
            self.density = [np.exp(law.leaf_log_density(self.points)) for law in laws]

    def brackets(self, shares: Sequence[np.ndarray], q: np.ndarray) -> Brackets:
        """Where quantiles of rows with weights (M, n) of the leaves of each part are."""
        x = self.points
        value = np.sum([share @ cdf for share, cdf in zip(shares, self.cdf, strict=True)], axis=0)
        after = (value[:, :, None] < q).sum(axis=1)  # number of the first point that reaches the level
        low = np.where(after > 0, x[np.maximum(after - 1, 0)], -np.inf)
        high = np.where(after < x.size, x[np.minimum(after, x.size - 1)], np.inf)
        start = np.where(np.isinf(low), x[0], np.where(np.isinf(high), x[-1], low))
        if not self.is_discrete:
            slope = np.sum([share @ density for share, density in zip(shares, self.density, strict=True)], axis=0)
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
