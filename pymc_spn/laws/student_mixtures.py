"""One law of a column for each of many rows where its leaves are Student t's: by kernels, rows over threads."""

from collections.abc import Callable

import numpy as np

from pymc_spn.laws.student_mixture_kernels import (
    N_SCRATCH,
    SIZES,
    StudentLeaves,
    distribution_functions_of_rows,
    fill_grid,
    quantiles_of_rows,
)
from pymc_spn.leaves.families import Gaussian, NormalGamma
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.student_lanes import n_terms
from pymc_spn.numerics.threads import for_each, n_threads

SPREAD = np.array([-3.0, -1.5, -0.7, 0.0, 0.7, 1.5, 3.0])  # points of a leaf that shape the grid, in its widths
ALONE = 20_000  # leaves that one thread evaluates before another one has started
GRID_VALUES, GRID_SIZES = 8_000_000, (16, 32)  # values held of all leaves (32 MB), points of a grid


class StudentMixtures:
    """Mixtures of the leaves of a column under all draws, with weights of each row's own.

    Parameters
    ----------
    params : NormalGamma
        Of the leaves of all draws (n,).
    draw : (n,) int64
        Draw of each leaf.
    """

    def __init__(self, params: NormalGamma, draw: np.ndarray) -> None:
        root = 1.0 / np.sqrt(2.0 * params.b * (1.0 + 1.0 / params.rho))
        log_scale = Gaussian.predictive_log_density(params, params.mu)
        order = np.argsort(params.a, kind="stable")
        terms = n_terms(2.0 * params.a[order])
        arrays = (
            *(v[order] for v in (params.mu, root, log_scale / np.log(2.0), params.a + 0.5)),
            order,
            draw[order],
            terms,
        )
        self.leaves = StudentLeaves(*arrays)
        self.n_draws = int(draw.max()) + 1
        width = Gaussian.predictive_scale(params)
        n_points = int(np.clip(GRID_VALUES // draw.size, *GRID_SIZES)) // LANES * LANES
        self._points = np.quantile(params.mu + width * SPREAD[:, None], np.linspace(0.0, 1.0, n_points))
        self._grid = np.empty((draw.size, n_points), np.float32)

        def fill(part: slice) -> None:
            fill_grid(
                StudentLeaves(*(v[part] for v in self.leaves)), self._points, np.empty(n_points), self._grid[part]
            )

        for_each(fill, _parts(draw.size, 1_000), draw.size > ALONE)

    def quantile(
        self, shares: np.ndarray, weight: np.ndarray, most: float, q: np.ndarray, rest: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles (M, Q) of rows, densities (M, Q), and what each draw has below (S, M, Q).

        Leaves have weights (M, n) in their draws, these (S, M) in rows, and levels are strictly between 0 and 1; see
        `quantiles_of_rows`.
        """
        own = weight / self.n_draws
        x, density = np.empty((2, len(shares), q.size))
        below = np.empty((len(shares), q.size, self.n_draws))

        def ask(part: slice) -> None:
            made = x[part], density[part], below[part]
            grid = self._points, self._grid, self._scratch()
            quantiles_of_rows(self.leaves, shares[part], own[:, part], most, q, rest, *grid, *made)

        self._over_rows(ask, shares, q.size)
        return x, density, below.transpose(2, 0, 1)

    def below(self, shares: np.ndarray, weight: np.ndarray, most: float, x: np.ndarray) -> np.ndarray:
        """What each draw adds (S, M, Q) to the distribution functions of rows at points (M, Q) of their own."""
        own, below = weight / self.n_draws, np.empty((*x.shape, self.n_draws))

        def ask(part: slice) -> None:
            scratch = self._scratch()
            distribution_functions_of_rows(self.leaves, shares[part], own[:, part], most, x[part], scratch, below[part])

        self._over_rows(ask, shares, x.shape[1])
        return below.transpose(2, 0, 1)

    def _scratch(self) -> np.ndarray:
        return np.zeros((N_SCRATCH, max(self.leaves.centre.size + LANES, SIZES)))

    def _over_rows(self, ask: Callable[[slice], None], shares: np.ndarray, n_points: int) -> None:
        several = shares.size * max(n_points, 1) > ALONE
        for_each(ask, _parts(len(shares), -(-len(shares) // (4 * n_threads()))), several)


def _parts(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, max(size, 1))]
