"""The law of one column of an explicit circuit in the terms of `ColumnOfLaw`."""

import numpy as np

from pymc_spn.circuits.laws.circuit_parts import Part
from pymc_spn.circuits.laws.column_mixtures import ColumnMixture
from pymc_spn.laws.column_grids import Grid
from pymc_spn.leaves.explicit_leaves import EXPLICIT

FINE = 1e-9  # error of the grid of one column


class CircuitColumn:
    """One column under one circuit (S = 1).

    Parameters
    ----------
    part : Part
        Of one column.
    """

    def __init__(self, part: Part) -> None:
        self.part, self.mixture = part, ColumnMixture(part)
        self._grids: dict[float, tuple[Grid, Grid, float]] = {}

    @property
    def is_discrete(self) -> bool:
        """See `ColumnOfLaw`."""
        return not self.mixture.is_density

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """See `ColumnOfLaw`."""
        return self.mixture.cdf(x)[None]

    def density(self, x: np.ndarray) -> np.ndarray:
        """See `ColumnOfLaw`."""
        return np.exp(self.mixture.log_density(x))[None]

    def mixed(self, weights: np.ndarray) -> "CircuitColumn":
        """See `ColumnOfLaw`."""
        return self

    def of_circuits(self, kept: np.ndarray) -> "CircuitColumn":
        """See `ColumnOfLaw`."""
        return self

    def bracket(self) -> tuple[float, float]:
        """See `ColumnOfLaw`."""
        low, middle, high = self.mixture.quantile(np.array([0.01, 0.5, 0.99]))
        return float(middle), float(high - low)

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """See `ColumnOfLaw`; at 0 and 1 the ends of the support."""
        low, high = zip(*(leaves.support for leaves in self.mixture.leaves), strict=True)
        ends = min(float(one.min()) for one in low), max(float(one.max()) for one in high)
        return np.where(q <= 0.0, ends[0], np.where(q >= 1.0, ends[1], self.mixture.quantile(q)))

    def raw_moments(self, about: float, order: int) -> np.ndarray:
        """See `ColumnOfLaw`; up to the second.

        Raises
        ------
        ValueError
            If the order is above 2.
        """
        if order > 2:
            raise ValueError(f"order must be 1 or 2 for a circuit with explicit leaves, got {order}")
        circuit, total = self.part.circuit, np.zeros(order + 1)
        for family in circuit.families:
            parameters, share = self.part.leaf_parameters[family], self.mixture.shares[circuit.leaves_of(family)]
            mean, variance = EXPLICIT[family].mean(parameters), EXPLICIT[family].variance(parameters)
            away = mean - about
            moments = np.stack([np.ones(share.size), away, variance + away**2])[: order + 1]
            with np.errstate(invalid="ignore"):
                total += np.where(share > 0.0, share * moments, 0.0).sum(axis=1)
        return total[None]

    def grids(self, error: float) -> tuple[Grid, Grid, float]:
        """See `ColumnMixture.grids`."""
        if error not in self._grids:
            self._grids[error] = self.mixture.grids(error)
        return self._grids[error]
