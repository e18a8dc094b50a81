"""One law of a column for each of many rows where its leaves are Student t's: by kernels, rows over threads."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.laws.student_mixture_kernels import (
    AROUND,
    N_SCRATCH,
    SIZES,
    StudentLeaves,
    distribution_functions_of_rows,
    fill_grid,
    quantiles_of_rows,
)
from pymc_spn.leaves.family_codes import GAUSSIAN, LOG_NORMAL
from pymc_spn.leaves.gaussian import STUDENT_T, student_rows
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.student_lanes import n_terms
from pymc_spn.numerics.threads import for_each, n_threads, parts_of_rows

SPREAD = np.array([-3.0, -1.5, -0.7, 0.0, 0.7, 1.5, 3.0])  # points of a leaf that shape the grid, in its widths
ALONE = 20_000  # leaves that one thread evaluates before another one has started
GRID_VALUES, GRID_SIZES = 8_000_000, (16, 32)  # values held of all leaves (32 MB), points of a grid


class StudentLaws(NamedTuple):
    """Student t's (n,), of values or of their logs.

    Parameters
    ----------
    location, scale, freedom : (n,) float64
    of_logs : bool
    """

    location: np.ndarray
    scale: np.ndarray
    freedom: np.ndarray
    of_logs: bool

    def is_same(self, other: "StudentLaws") -> bool:
        """Whether the laws are the same."""
        pairs = zip(self[:3], other[:3], strict=True)
        return self.of_logs == other.of_logs and all(np.array_equal(one, two) for one, two in pairs)

    def some(self, at: np.ndarray) -> "StudentLaws":
        """Some of the laws."""
        return StudentLaws(self.location[at], self.scale[at], self.freedom[at], self.of_logs)

    @property
    def lowest(self) -> float:
        """End of the support."""
        return 0.0 if self.of_logs else -np.inf


def students_of(leaves: Leaves, event: Any) -> StudentLaws | None:
    """Predictives as Student t's of values or of their logs, if all are and nothing else is known of the column."""
    code = int(leaves.family[0]) if leaves.family.size else GAUSSIAN
    if event is not None or code not in (GAUSSIAN, LOG_NORMAL) or np.any(leaves.family != code):
        return None
    location, scale, freedom = student_rows(leaves.parameters).T
    return StudentLaws(location, scale, freedom, code == LOG_NORMAL)


class StudentMixtures:
    """Mixtures of leaves with weights of each row's own: of the leaves of a column under all circuits, or of own ones.

    Parameters
    ----------
    laws : StudentLaws
        The leaves (n,) of all circuits.
    circuit : (n,) int64
        Circuit of each leaf.
    n_circuits : int
    row : (n,) int64, optional
        Row of each leaf, where each is in one row alone, else all are in all rows.
    n_rows : int
        With ``row``.
    """

    def __init__(
        self, laws: StudentLaws, circuit: np.ndarray, n_circuits: int, row: np.ndarray | None = None, n_rows: int = 0
    ) -> None:
        self.laws, self.n_circuits = laws, n_circuits
        order = np.lexsort((laws.freedom,) if row is None else (laws.freedom, row))
        self._leaves = student_leaves(laws.some(order), circuit[order], order)
        if row is not None:
            self._begin = np.searchsorted(row[order], np.arange(n_rows + 1))
            self._n_scratch, self._grid = int(np.diff(self._begin).max(initial=0)), np.empty((0, 0), np.float32)
            return
        self._begin, self._n_scratch = np.zeros(0, np.int64), circuit.size
        n_points = int(np.clip(GRID_VALUES // circuit.size, *GRID_SIZES)) // LANES * LANES
        spread = laws.location + laws.scale * SPREAD[:, None]
        self._points = np.quantile(spread, np.linspace(0.0, 1.0, n_points))
        self._grid = np.empty((circuit.size, n_points), np.float32)

        def fill(part: slice) -> None:
            own = StudentLeaves(*(v[part] for v in self._leaves))
            fill_grid(own, self._points, np.empty(n_points), self._grid[part])

        for_each(fill, parts_of_rows(circuit.size, 1_000), circuit.size > ALONE)

    def quantile(
        self, shares: np.ndarray, weight: np.ndarray, most: float, q: np.ndarray, rest: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles (M, Q) of rows, densities (M, Q), and what each draw has below (S, M, Q).

        Leaves have weights (M, n) in their draws, or each in its row (1, n). These have (S, M) in rows, and levels are
        strictly between 0 and 1; see `quantiles_of_rows`.
        """
        x, density = np.empty((2, weight.shape[1], q.size))

        def ask(part: slice, given: tuple[Any, ...], scratch: np.ndarray, below: np.ndarray) -> None:
            points = np.empty(AROUND.size) if self._begin.size else self._points
            quantiles_of_rows(*given, most, q, rest, points, self._grid, scratch, x[part], density[part], below)

        below = self._over_rows(ask, shares, weight, q.size)
        if self.laws.of_logs:
            with np.errstate(over="ignore"):
                return np.exp(x), density * np.exp(-x), below
        return x, density, below

    def below(self, shares: np.ndarray, weight: np.ndarray, most: float, x: np.ndarray) -> np.ndarray:
        """What each draw adds (S, M, Q) to the distribution functions of rows at points (M, Q) of their own."""
        if self.laws.of_logs:
            with np.errstate(divide="ignore"):
                x = np.log(np.maximum(x, 0.0))

        def ask(part: slice, given: tuple[Any, ...], scratch: np.ndarray, below: np.ndarray) -> None:
            distribution_functions_of_rows(*given, most, x[part], scratch, below)

        return self._over_rows(ask, shares, weight, x.shape[1])

    def _over_rows(
        self, ask: Callable[[slice, Any, np.ndarray, np.ndarray], None], shares: np.ndarray, weight: np.ndarray, n: int
    ) -> np.ndarray:
        """What each draw has below (S, M, n), which a function fills in for some rows."""
        n_rows, own = weight.shape[1], np.ascontiguousarray(weight.T)
        below = np.empty((n_rows, n, self.n_circuits))

        def of_part(part: slice) -> None:
            begin = self._begin[part.start : part.stop + 1]
            given = self._leaves, shares if begin.size else shares[part], own[part], begin
            ask(part, given, np.zeros((N_SCRATCH, max(self._n_scratch + LANES, SIZES))), below[part])

        parts = parts_of_rows(n_rows, -(-n_rows // (4 * n_threads())))
        for_each(of_part, parts, shares.size * max(n, 1) > ALONE)
        return below.transpose(2, 0, 1)


def student_leaves(laws: StudentLaws, circuit: np.ndarray, number: np.ndarray) -> StudentLeaves:
    """Leaves for kernels, in the order that they have."""
    location, scale, freedom, _ = laws
    log_scale = STUDENT_T.log_density(np.stack(laws[:3], axis=1), location)
    root, power = 1.0 / (scale * np.sqrt(freedom)), 0.5 * (freedom + 1.0)
    return StudentLeaves(location, root, log_scale / np.log(2.0), power, number, circuit, n_terms(freedom))
