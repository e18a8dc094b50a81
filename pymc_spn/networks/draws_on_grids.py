"""One recorded draw on grids of columns, as integrals over mixtures of draws ask for it."""

from collections.abc import Sequence

import numpy as np

from pymc_spn.laws.column_grids import Grid
from pymc_spn.networks.records.draw_bounds import divergence_bound, entropy_bounds
from pymc_spn.networks.records.draw_laws import DrawLaws


class DrawOnGrids:
    """One draw on grids of the columns of a law.

    Parameters
    ----------
    laws : DrawLaws
    kept : tuple of int
        The column of the network that each is.
    """

    def __init__(self, laws: DrawLaws, kept: tuple[int, ...]) -> None:
        self.laws, self.kept = laws, kept

    def masses(self, d: int, grid: Grid) -> np.ndarray:
        """See `CircuitOnGrids`."""
        return self.laws.masses(self.kept[d], grid)

    def single(self, d: int, on_d: np.ndarray) -> np.ndarray:
        """See `CircuitOnGrids`."""
        return self.laws.single(self.kept[d], on_d)

    def pair(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> np.ndarray:
        """See `CircuitOnGrids`."""
        return self.laws.pair(self.kept[a], self.kept[b], on_a, on_b)

    def factors(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `CircuitOnGrids`."""
        return self.laws.factors(self.kept[a], self.kept[b], on_a, on_b)

    def entropy_bounds(self, grids: dict[int, Grid]) -> tuple[float, float]:
        """See `CircuitOnGrids`."""
        return entropy_bounds(self.laws, {self.kept[d]: grid for d, grid in grids.items()})

    def divergence_bound(self, other: "DrawOnGrids", columns: Sequence[int]) -> float:
        """Upper bound in nats of the divergence of the same draw's law from this one, over some columns."""
        return divergence_bound(self.laws, other.laws, {self.kept[d] for d in columns})
