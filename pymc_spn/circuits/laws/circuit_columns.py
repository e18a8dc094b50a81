"""The law of one column of an explicit circuit in the terms of `ColumnOfLaw`."""

import numpy as np

from pymc_spn.circuits.laws.circuit_parts import Part
from pymc_spn.circuits.laws.column_mixtures import ColumnMixture
from pymc_spn.laws.column_grids import NO_MASS, Grid, beyond_grid
from pymc_spn.laws.law import ColumnOfLaw, Integral
from pymc_spn.leaves.explicit_leaves import EXPLICIT

FINE = 1e-9  # error of the grid of one column
MOST_LOST = 1e-4  # mass of which a grid may lose track before nothing is promised any more
LEAST = 1e-12  # mass of a point that counts where a tolerance is made


class CircuitColumn:
    """One column under one circuit (S = 1).

    Parameters
    ----------
    part : Part
        Of one column.
    """

    def __init__(self, part: Part) -> None:
        self.part, self.mixture = part, ColumnMixture(part)

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

    def bracket(self) -> tuple[float, float]:
        """See `ColumnOfLaw`."""
        low, middle, high = self.mixture.quantile(np.array([0.01, 0.5, 0.99]))
        return float(middle), float(high - low)

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """See `ColumnOfLaw`; at 0 and 1 the ends of the support."""
        low, high = zip(*(leaves.support for leaves in self.mixture.leaves), strict=True)
        ends = min(float(one.min()) for one in low), max(float(one.max()) for one in high)
        return np.where(q <= 0.0, ends[0], np.where(q >= 1.0, ends[1], self.mixture.quantile(q)))

    def quantiles_of_circuits(self, q: np.ndarray) -> np.ndarray:
        """See `ColumnOfLaw`."""
        return self.quantile(q)[None]

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

    def entropy(self) -> Integral:
        """Entropy by quadrature or sums."""
        column = self.mixture
        coarse, fine, lost = column.grids(FINE)
        values = []
        for grid in (coarse, fine) if fine is not coarse else (fine,):
            logs, mass = _masses(column, grid)
            values.append(-float(mass @ np.where(mass > 0.0, logs, 0.0)))
        return Integral(values[-1], abs(values[-1] - values[0]) + _allowance(column, fine, lost))

    def divergence(self, second: ColumnOfLaw) -> Integral:
        """Divergence of another column from this one; infinite where the other excludes what this has."""
        if not isinstance(second, CircuitColumn):
            raise TypeError("other must be a circuit with parameters: take as_circuit() of a posterior")
        column, other = self.mixture, second.mixture
        if other.excludes(column):
            return Integral(np.inf, 0.0)
        both = column.beside(other) if column.is_density and other.is_density else column
        coarse, fine, lost = both.grids(FINE, far=True)
        values = []
        for grid in (coarse, fine) if fine is not coarse else (fine,):
            (log_p, mass), log_q = _masses(column, grid), other.log_density(grid.x)
            inside = mass > NO_MASS
            if np.any(log_q[inside] == -np.inf):
                return Integral(np.inf, 0.0)
            # mass of the other beyond the grid is not scaled away: it is part of the divergence
            values.append(float(mass[inside] @ (log_p[inside] - log_q[inside])))
        tolerance = abs(values[-1] - values[0])
        if column.is_density:
            tolerance += _allowance(column, fine, 2.0 * lost, is_ratio=True)
            tolerance += 20.0 * lost * float(mass[inside] @ np.abs(log_p[inside] - log_q[inside]))
        elif fine.ends is not None:
            steepest = float(np.abs(log_p[inside] - log_q[inside]).max(initial=0.0))
            tolerance += beyond_grid(column.cdf, fine) * (1.0 + steepest)
        return Integral(max(values[-1], 0.0), tolerance)


def _masses(column: ColumnMixture, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Log densities at the points of a grid, and the masses that the points stand for."""
    logs = column.log_density(grid.x)
    with np.errstate(divide="ignore"):
        return logs, np.exp(logs + np.log(grid.weight))


def _allowance(column: ColumnMixture, grid: Grid, lost: float, is_ratio: bool = False) -> float:
    """Nats that the mass beyond a grid, and what it loses within, may add to an entropy."""
    if grid.ends is None:
        return 0.0
    beyond = beyond_grid(column.cdf, grid, column.mean_log_beyond if column.has_logs and not is_ratio else None)
    if lost > MOST_LOST:
        return np.inf
    logs, mass = _masses(column, grid)
    deepest = float(np.abs(logs[mass > LEAST]).max(initial=0.0))
    return beyond + (lost * (1.0 + abs(float(np.log(lost))) + deepest) if lost > 0.0 else 0.0)
