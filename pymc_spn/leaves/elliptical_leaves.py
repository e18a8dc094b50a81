"""Leaves over several columns whose density depends on one quadratic form: what Gaussian and Student t leaves share.

Rows are grouped by their gaps. A Cholesky factor of the scale matrix, with the observed columns first, holds three
things. These are the factor of what is observed, the regression of the other columns on it, and the factor of their
Schur complement. So one factor for each leaf and set of gaps answers densities, conditionals and draws.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from pymc_spn.leaves import elliptical_boxes
from pymc_spn.leaves.leaf_family import LeafFamily, UnivariateFamily


class GivenSeen(NamedTuple):
    """Rows (m,) with the same gaps, and their r other columns given the observed ones.

    Parameters
    ----------
    at : (m,) int64
    seen, rest : int64
        Columns that are observed, and the r others.
    dof : (m,) float64
        Degrees of freedom of the leaves, ``inf`` of Gaussian ones.
    half_log : (m,) float64
        Half the log determinant of the scale of the observed columns.
    square : (m,) float64
        Quadratic form of the observed cells.
    location : (m, r) float64
    leaf : (m,) int64
        Which factor is a row's.
    factor : (L, r, r) float64
        Of the Schur complement of the scale matrix.
    """

    at: np.ndarray
    seen: np.ndarray
    rest: np.ndarray
    dof: np.ndarray
    half_log: np.ndarray
    square: np.ndarray
    location: np.ndarray
    leaf: np.ndarray
    factor: np.ndarray


class EllipticalFamily(LeafFamily):
    """Leaves with a location (d,) and a scale matrix (d, d), row by row, at the end of their parameters.

    Parameters
    ----------
    n_columns : int
        0 for the family over any number of columns.
    """

    base: ClassVar[str]
    first_names: ClassVar[tuple[str, ...]] = ()
    scale_name: ClassVar[str]
    univariate: ClassVar[UnivariateFamily]
    box_tolerance = elliptical_boxes.TOLERANCE

    def __init__(self, n_columns: int = 0) -> None:
        self.n_columns = n_columns
        self.name = f"{self.base}[{n_columns}]" if n_columns else self.base

    def over(self, n_columns: int) -> "EllipticalFamily":
        """See `LeafFamily`.

        Raises
        ------
        ValueError
            If there are fewer than two columns.
        """
        if n_columns < 2:
            rule = f"{self.base} leaves are over two columns or more"
            raise ValueError(f"{rule}, got {n_columns}; over one take {self.univariate.name}")
        return type(self)(n_columns)

    @property
    def n_parameters(self) -> int:
        """Of one leaf."""
        return len(self.first_names) + self.n_columns * (1 + self.n_columns)

    @property
    def column_families(self) -> tuple[UnivariateFamily, ...]:
        return (self.univariate,) * self.n_columns

    # ---- what the families differ in

    @abstractmethod
    def dof_of(self, parameters: np.ndarray) -> np.ndarray:
        """Degrees of freedom (n,), ``inf`` of Gaussian leaves."""

    @abstractmethod
    def log_radial(self, dof: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
        """Log density of k columns from their quadratic form, less half the log determinant of their scale."""

    @abstractmethod
    def growth(self, dof: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
        """Factor by which the Schur complement grows, given k columns with that quadratic form."""

    @abstractmethod
    def radius(self, dof: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws by which standard normal ones are multiplied."""

    @abstractmethod
    def leaves_of(self, dof: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Rows of parameters of the family over the columns of ``location`` (n, k)."""

    @abstractmethod
    def column_leaves(self, dof: np.ndarray, location: np.ndarray, width: np.ndarray) -> np.ndarray:
        """Rows of parameters of the univariate family."""

    # ---- parameters

    def location_and_scale(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Locations (n, d) and scale matrices (n, d, d)."""
        d, first = self.n_columns, len(self.first_names)
        return parameters[:, first : first + d], parameters[:, first + d :].reshape(-1, d, d)

    def problem(self, parameters: np.ndarray) -> tuple[int, str] | None:
        d, first = self.n_columns, len(self.first_names)
        if parameters.shape[1] != self.n_parameters:
            own = ", ".join((*self.first_names, f"location ({d},)", f"{self.scale_name} ({d}, {d}) row by row"))
            return 0, f"rows must be ({own})"
        checks = (
            (~np.isfinite(parameters).all(axis=1), "parameters must be finite"),
            ((parameters[:, :first] <= 0.0).any(axis=1), f"{' and '.join(self.first_names)} must be positive"),
        )
        for wrong, rule in checks:
            if wrong.any():
                return int(np.argmax(wrong)), rule
        wrong = ~are_positive_definite(self.location_and_scale(parameters)[1])
        if wrong.any():
            return int(np.argmax(wrong)), f"{self.scale_name} must be symmetric and positive definite"
        return None

    # ---- answers

    def given_seen(
        self, parameters: np.ndarray, rows: np.ndarray, columns: Sequence[int] | None = None
    ) -> Iterator[GivenSeen]:
        """Groups of rows with the same gaps.

        Parameters
        ----------
        columns : sequence of int, optional
            Those that are asked for, observed or not; without it those that are missing.
        """
        leaves, number = distinct_leaves(parameters, len(rows))
        location, scale = self.location_and_scale(leaves)
        dof = self.dof_of(leaves)
        seen_cells = ~np.isnan(rows)
        if columns is not None:
            seen_cells[:, list(columns)] = False
        for at in groups_of(seen_cells):
            seen = np.flatnonzero(seen_cells[at[0]])
            rest = np.flatnonzero(~seen_cells[at[0]]) if columns is None else np.array(columns, np.int64)
            used, leaf = np.unique(number[at], return_inverse=True)
            order, k = np.concatenate([seen, rest]), seen.size
            factor = np.linalg.cholesky(scale[np.ix_(used, order, order)])
            own = location[used]
            with np.errstate(over="ignore", invalid="ignore"):  # so far away nothing is left
                z = solve_lower(factor[:, :k, :k], leaf, (rows[np.ix_(at, seen)] - own[:, seen][leaf]).T)
                square = np.nan_to_num(np.square(z).sum(axis=0), nan=np.inf, posinf=np.inf)
                shift = times_rows(factor[:, k:, :k], leaf, z)
            half_log = np.log(np.diagonal(factor, axis1=1, axis2=2)[:, :k]).sum(axis=1)
            place = own[:, rest][leaf] + shift.T
            below = factor[:, k:, k:]
            yield GivenSeen(at, seen, rest, dof[used][leaf], half_log[leaf], square, place, leaf, below)

    def log_density_of_rows(self, parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
        out = np.zeros(len(rows))
        for group in self.given_seen(parameters, rows):
            if group.seen.size:
                out[group.at] = self.log_radial(group.dof, group.square, group.seen.size) - group.half_log
        return out

    def column_of_rows(
        self, parameters: np.ndarray, rows: np.ndarray, column: int
    ) -> tuple[UnivariateFamily, np.ndarray]:
        own: list[np.ndarray] = [np.empty(len(rows)) for _ in range(3)]
        for group in self.given_seen(parameters, rows, [column]):
            k = group.seen.size
            width = group.factor[group.leaf, 0, 0] * np.sqrt(self.growth(group.dof, group.square, k))
            for array, part in zip(own, (group.dof + k, group.location[:, 0], width), strict=True):
                array[group.at] = part
        return self.univariate, self.column_leaves(*own)

    def columns_of_rows(
        self, parameters: np.ndarray, rows: np.ndarray, columns: Sequence[int]
    ) -> tuple[LeafFamily, np.ndarray]:
        r = len(columns)
        if r == 1:
            return self.column_of_rows(parameters, rows, columns[0])
        dof, location, scale = np.empty(len(rows)), np.empty((len(rows), r)), np.empty((len(rows), r, r))
        for group in self.given_seen(parameters, rows, columns):
            k = group.seen.size
            dof[group.at], location[group.at] = group.dof + k, group.location
            rest = group.factor @ np.swapaxes(group.factor, 1, 2)
            scale[group.at] = rest[group.leaf] * self.growth(group.dof, group.square, k)[:, None, None]
        return self.over(r), self.leaves_of(dof, location, scale)

    def draw_missing(self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows with their missing cells drawn together given the observed ones."""
        rows = np.array(rows, np.float64)
        for group in self.given_seen(parameters, rows):
            k, r = group.seen.size, group.rest.size
            if r == 0:
                continue
            normal = times_rows(group.factor, group.leaf, rng.standard_normal((r, group.at.size)))
            width = np.sqrt(self.growth(group.dof, group.square, k)) * self.radius(group.dof + k, rng)
            rows[np.ix_(group.at, group.rest)] = group.location + (width * normal).T
        return rows

    def log_probability_of_boxes(self, parameters: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """See `LeafFamily`: one interval by the univariate family, several numerical to `box_tolerance`."""
        shape = (len(low), parameters.shape[-1])
        parameters = np.broadcast_to(parameters, shape)
        location, scale = self.location_and_scale(parameters)
        dof = self.dof_of(parameters)
        out = np.where((low <= high).all(axis=1), 0.0, -np.inf)
        bounded = (low > -np.inf) | (high < np.inf)
        for at in groups_of(bounded):
            at = at[out[at] == 0.0]
            asked = np.flatnonzero(bounded[at[0]]) if at.size else np.zeros(0, np.int64)
            if asked.size == 1:
                (j,) = asked
                own = self.column_leaves(dof[at], location[at, j], np.sqrt(scale[at, j, j]))
                with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                    out[at] = self.univariate.log_interval(own, low[at, j], high[at, j])
            elif asked.size:
                centre = location[np.ix_(at, asked)]
                first, last = (end[np.ix_(at, asked)] - centre for end in (low, high))
                own_dof = None if np.isinf(dof[at]).all() else dof[at]
                out[at] = elliptical_boxes.log_probability(own_dof, first, last, scale[np.ix_(at, asked, asked)])
        return out


def are_positive_definite(scale: np.ndarray) -> np.ndarray:
    """Whether matrices (n, d, d) are symmetric, and so far from singular that each order of columns can be factored.

    Demmel's bound on the smallest eigenvalue of the matrix with a unit diagonal: Higham (2002), Accuracy and Stability
    of Numerical Algorithms, doi:10.1137/1.9780898718027, theorem 10.7.
    """
    d = scale.shape[1]
    variance = np.diagonal(scale, axis1=1, axis2=2)
    right = (variance > 0.0).all(axis=1)
    sd = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    correlation = scale / sd[:, :, None] / sd[:, None]
    right &= (np.abs(correlation - np.swapaxes(correlation, 1, 2)) < 1e-9).all(axis=(1, 2))
    right[right] = np.linalg.eigvalsh(correlation[right])[:, 0] > d * (d + 1.0) * np.finfo(np.float64).eps
    return right


def distinct_leaves(parameters: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of parameters without repetitions of the one before, and the number in them of each of n rows."""
    if len(parameters) == 1 or parameters.strides[0] == 0:
        return parameters[:1], np.zeros(n, np.int64)
    is_new = np.ones(n, bool)
    is_new[1:] = (parameters[1:] != parameters[:-1]).any(axis=1)
    return parameters[is_new], np.cumsum(is_new) - 1


def groups_of(flags: np.ndarray) -> list[np.ndarray]:
    """Indices of the rows (n, d) that have the same flags, in ascending order within each group."""
    order, begin = order_by_flags(flags)
    return [order[first:last] for first, last in pairwise(begin.tolist())]


def order_by_flags(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order (n,) in which rows (n, d) with the same flags stand together, and where each group begins and the end.

    The first flag counts the most, and rows without it come first.
    """
    bits = np.packbits(flags, axis=1)
    words = np.zeros((len(flags), 8 * max(1, -(-bits.shape[1] // 8))), np.uint8)
    words[:, : bits.shape[1]] = bits
    keys = words.view(">u8")
    order = np.lexsort(keys.T[::-1])
    is_new = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    return order, np.concatenate([[0], np.flatnonzero(is_new) + 1, [len(flags)][: len(flags)]]).astype(np.int64)


def solve_lower(factor: np.ndarray, leaf: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve lower triangular systems for columns ``right`` (k, m), each with the factor (k, k) of its leaf."""
    out = np.array(right)
    for j in range(len(out)):
        out[j] -= times_rows(factor[:, j : j + 1, :j], leaf, out[:j])[0]
        out[j] /= factor[leaf, j, j]
    return out


def times_rows(matrix: np.ndarray, leaf: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products (r, m) of the matrices (L, r, k) of leaves with columns ``right`` (k, m)."""
    if len(matrix) == 1:
        return matrix[0] @ right
    return np.einsum("mrk,km->rm", matrix[leaf], right)
