"""What every entry of a column's palette tells the samplers: which columns it is for, and its constants there."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from pymc_spn.leaves.family_codes import CODE
from pymc_spn.leaves.leaf_statistics import require_finite, require_positive, variance_of

LARGEST_COUNT = 1e11  # of which log masses are off by 1e-4 nats; they are sums of terms k log k


class PaletteEntry:
    """Base of the families' frozen dataclasses."""

    family: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]  # of columns whose leaves it may be
    largest: float = np.inf  # largest value that its leaves can take
    relative_scale: float
    finite: ClassVar[tuple[str, ...]] = ()  # numbers that are given, or None
    positive: ClassVar[tuple[str, ...]] = ("relative_scale",)

    def __post_init__(self) -> None:
        for names, check in ((self.finite, require_finite), (self.positive, require_positive)):
            for name in names:
                if getattr(self, name) is not None:
                    check(type(self).__name__, name, getattr(self, name))

    @property
    def code(self) -> int:
        """Number of the family in `family_codes`, by which samplers know its leaves."""
        return CODE[self.family]

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Refuse a column that has the right kind but values its leaves cannot hold.

        Values are (N,), NaN where missing."""

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """Return the entry with each `None` estimated from the observed values.

        There are n values of the column, possibly none. The grid is that on which they were recorded, 0 for none.
        """
        return self

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """Return the entry with its constants fitted to a sample.

        They maximise the marginal likelihood of the sample, given the prior's shape. The floor of a variance is
        relative to the variance of all observed values.
        """
        return self

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Return the constants of a completed entry for `Conjugate.prior`.

        They are mean, variance and floor of the variance in coded units, in which a value x is (x - centre) / scale.
        """
        return 0.0, 0.0, 0.0


@dataclass(frozen=True)
class MeanEntry(PaletteEntry):
    """What such entries hold.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built around; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    mean: float | None = None
    relative_scale: float = 1.0
    positive: ClassVar[tuple[str, ...]] = ("mean", "relative_scale")

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """Return the entry with the mean of the column.

        If all values are zero, the mean is as if one more row had a one.
        """
        if self.mean is not None:
            return self
        mean = float(observed.mean()) if observed.size else 1.0
        return replace(self, mean=mean if mean > 0.0 else 1.0 / (observed.size + 1.0))

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """Return the entry with the mean of the sample."""
        return replace(self, mean=None).completed(sample, grid)

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Return the mean in coded units."""
        assert self.mean is not None
        return self.mean / scale, 0.0, 0.0


@dataclass(frozen=True)
class CountEntry(MeanEntry):
    """The same for counts."""

    kinds: ClassVar[tuple[str, ...]] = ("count",)

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Refuse counts so large that their log masses lose digits."""
        largest = np.max(values, where=~np.isnan(values), initial=0.0)
        if largest > LARGEST_COUNT:
            raise ValueError(
                f"observed: counts must be at most {LARGEST_COUNT:g} under {type(self).__name__} leaves, whose log "
                f"masses lose digits beyond; column {name!r} has {largest:.0f}. Declare it integer, or leave an "
                "identifier out"
            )


def sample_variance(sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> float:
    """Variance of the sample, at least that of the floor and of the grid."""
    spread = variance_of(observed)
    lowest = max(floor * spread, grid**2 / 12.0)
    if lowest == 0.0:  # a constant column without grid
        lowest = floor * max(float(observed[0]) ** 2, 1.0)
    return max(float(sample.var()), lowest)


def constant_variance(observed: Any, grid: float) -> float:
    """Prior variance for a column without spread: its grid, else a hundredth of its size, else one."""
    level = abs(float(observed[0])) if observed.size else 0.0
    return grid**2 if grid > 0.0 else (0.01 * level) ** 2 if level > 0.0 else 1.0
