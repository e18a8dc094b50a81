"""Palette entries of families whose prior is built round the mean of the column alone."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pymc_spn.leaves.palette_entry import PaletteEntry

LARGEST_COUNT = 1e11  # of which log masses are off by 1e-4 nats; they are sums of terms k log k


@dataclass(frozen=True)
class MeanEntry(PaletteEntry):
    """What such entries hold.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built round; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    mean: float | None = None
    relative_scale: float = 1.0
    positive: ClassVar[tuple[str, ...]] = ("mean", "relative_scale")

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """With the mean of the column; of one of zeros alone as if one more row had had a one."""
        if self.mean is not None:
            return self
        mean = float(observed.mean()) if observed.size else 1.0
        return replace(self, mean=mean if mean > 0.0 else 1.0 / (observed.size + 1.0))

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """With the mean of the sample."""
        return replace(self, mean=None).completed(sample, grid)

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """The mean."""
        assert self.mean is not None
        return self.mean / scale, 0.0, 0.0


@dataclass(frozen=True)
class CountEntry(MeanEntry):
    """The same for counts."""

    kinds: ClassVar[tuple[str, ...]] = ("count",)

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Counts whose log masses lose digits."""
        largest = np.max(values, where=~np.isnan(values), initial=0.0)
        if largest > LARGEST_COUNT:
            raise ValueError(
                f"observed: counts must be at most {LARGEST_COUNT:g} under {type(self).__name__} leaves, whose log "
                f"masses lose digits beyond; column {name!r} has {largest:.0f}. Declare it integer, or leave an "
                "identifier out"
            )
