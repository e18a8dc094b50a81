"""One law of a column for each of many rows where its leaves are Student t's: by kernels, rows over threads."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.laws.student_mixture_kernels import (
    N_SCRATCH,
    SIZES,
    StudentLeaves,
    distribution_functions_of_own_leaves,
    distribution_functions_of_rows,
    fill_grid,
    quantiles_of_rows,
    quantiles_of_rows_with_own_leaves,
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


class OwnStudents:
    """Mixtures of leaves (P,). Each leaf is of one row, and has the weight ``share`` in it.

    Parameters
    ----------
    laws : StudentLaws
    row, circuit : (P,) int64
    share : (P,) float64
    shape : tuple of int
        Circuits S and rows M.
    """

    def __init__(
        self, laws: StudentLaws, row: np.ndarray, share: np.ndarray, circuit: np.ndarray, shape: tuple[int, int]
    ) -> None:
        order = np.lexsort((laws.freedom, row))
        self.shape, self._of_logs = shape, laws.of_logs
        self._begin = np.searchsorted(row[order], np.arange(shape[1] + 1))
        self._leaves = student_leaves(laws.some(order), circuit[order])
        self._share = np.ascontiguousarray(share[order])

    def quantile(self, q: np.ndarray, rest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `StudentMixtures.quantile`."""
        x, density = np.empty((2, self.shape[1], q.size))

        def ask(part: slice, of_rows: tuple[Any, ...], below: np.ndarray) -> None:
            made = x[part], density[part], below[part]
            quantiles_of_rows_with_own_leaves(*of_rows, q, rest, self._scratch(), *made)

        below = self._over_rows(ask, q.size)
        if self._of_logs:
            x, density = _of_values(x, density)
        return x, density, below

    def below(self, x: np.ndarray) -> np.ndarray:
        """As `StudentMixtures.below`."""
        x = _of_logs(x) if self._of_logs else x

        def ask(part: slice, of_rows: tuple[Any, ...], below: np.ndarray) -> None:
            distribution_functions_of_own_leaves(*of_rows, x[part], self._scratch(), below[part])

        return self._over_rows(ask, x.shape[1])

    def _over_rows(self, ask: Callable[[slice, tuple[Any, ...], np.ndarray], None], n_points: int) -> np.ndarray:
        n_circuits, n_rows = self.shape
        below = np.empty((n_rows, n_points, n_circuits))

        def of_part(part: slice) -> None:
            ask(part, (self._leaves, self._share, self._begin[part.start : part.stop + 1]), below)

        several = self._share.size * max(n_points, 1) > ALONE
        for_each(of_part, parts_of_rows(n_rows, -(-n_rows // (4 * n_threads()))), several)
        return below.transpose(2, 0, 1)

    def _scratch(self) -> np.ndarray:
        return np.zeros((N_SCRATCH, int(np.diff(self._begin).max(initial=0)) + 2 * LANES))


def student_leaves(laws: StudentLaws, circuit: np.ndarray) -> StudentLeaves:
    """Leaves for kernels, in the order that they have."""
    location, scale, freedom, _ = laws
    log_scale = STUDENT_T.log_density(np.stack(laws[:3], axis=1), location)
    root, power = 1.0 / (scale * np.sqrt(freedom)), 0.5 * (freedom + 1.0)
    number = np.arange(location.size)
    return StudentLeaves(location, root, log_scale / np.log(2.0), power, number, circuit, n_terms(freedom))


def _of_logs(x: np.ndarray) -> np.ndarray:
    """Logs of values, which are positive."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(x, 0.0))


def _of_values(x: np.ndarray, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and their densities from those of logs."""
    with np.errstate(over="ignore"):
        return np.exp(x), density * np.exp(-x)


class StudentMixtures:
    """Mixtures of the leaves of a column under all circuits, with weights of each row's own.

    Parameters
    ----------
    laws : StudentLaws
        The leaves of all circuits (n,).
    circuit : (n,) int64
        Circuit of each leaf.
    """

    def __init__(self, laws: StudentLaws, circuit: np.ndarray) -> None:
        self.laws, draw = laws, circuit
        location, scale, freedom, _ = laws
        order = np.argsort(freedom, kind="stable")
        self.leaves = student_leaves(laws.some(order), draw[order])._replace(number=order)
        self.n_draws = int(draw.max()) + 1
        n_points = int(np.clip(GRID_VALUES // draw.size, *GRID_SIZES)) // LANES * LANES
        self._points = np.quantile(location + scale * SPREAD[:, None], np.linspace(0.0, 1.0, n_points))
        self._grid = np.empty((draw.size, n_points), np.float32)

        def fill(part: slice) -> None:
            fill_grid(
                StudentLeaves(*(v[part] for v in self.leaves)), self._points, np.empty(n_points), self._grid[part]
            )

        for_each(fill, parts_of_rows(draw.size, 1_000), draw.size > ALONE)

    def quantile(
        self, shares: np.ndarray, weight: np.ndarray, most: float, q: np.ndarray, rest: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles (M, Q) of rows, densities (M, Q), and what each draw has below (S, M, Q).

        Leaves have weights (M, n) in their draws, these (S, M) in rows, and levels are strictly between 0 and 1; see
        `quantiles_of_rows`.
        """
        own = np.ascontiguousarray((weight / self.n_draws).T)
        x, density = np.empty((2, len(shares), q.size))
        below = np.empty((len(shares), q.size, self.n_draws))

        def ask(part: slice) -> None:
            made = x[part], density[part], below[part]
            grid = self._points, self._grid, self._scratch()
            quantiles_of_rows(self.leaves, shares[part], own[part], most, q, rest, *grid, *made)

        self._over_rows(ask, shares, q.size)
        if self.laws.of_logs:
            x, density = _of_values(x, density)
        return x, density, below.transpose(2, 0, 1)

    def below(self, shares: np.ndarray, weight: np.ndarray, most: float, x: np.ndarray) -> np.ndarray:
        """What each draw adds (S, M, Q) to the distribution functions of rows at points (M, Q) of their own."""
        own, below = np.ascontiguousarray((weight / self.n_draws).T), np.empty((*x.shape, self.n_draws))
        if self.laws.of_logs:
            x = _of_logs(x)

        def ask(part: slice) -> None:
            scratch = self._scratch()
            distribution_functions_of_rows(self.leaves, shares[part], own[part], most, x[part], scratch, below[part])

        self._over_rows(ask, shares, x.shape[1])
        return below.transpose(2, 0, 1)

    def _scratch(self) -> np.ndarray:
        return np.zeros((N_SCRATCH, max(self.leaves.centre.size + LANES, SIZES)))

    def _over_rows(self, ask: Callable[[slice], None], shares: np.ndarray, n_points: int) -> None:
        several = shares.size * max(n_points, 1) > ALONE
        for_each(ask, parts_of_rows(len(shares), -(-len(shares) // (4 * n_threads()))), several)
