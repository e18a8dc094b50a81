"""Palette entries of families whose prior is built round the mean of the column alone."""

from dataclasses import dataclass

import numpy.typing as npt

from pymc_spn.leaves.leaf_statistics import LeafConstants, is_count, observed_values, require_positive, require_where


@dataclass(frozen=True)
class MeanEntry:
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

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.mean is not None:
            require_positive(name, "mean", self.mean)
        require_positive(name, "relative_scale", self.relative_scale)


@dataclass(frozen=True)
class CountEntry(MeanEntry):
    """The same for counts."""

    def constants(self, values: npt.ArrayLike, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean of the observed values where the entry does not give it.

        A column of zeros alone counts as half an event in all its rows, since the prior needs a mean.
        """
        mean = self.mean
        if mean is None:
            name = type(self).__name__
            x = observed_values(name, values)
            require_where(name, "counts", x, is_count(x))
            mean = max(float(x.sum()), 0.5) / x.size
        return LeafConstants(mean=mean, resolution=resolution)
