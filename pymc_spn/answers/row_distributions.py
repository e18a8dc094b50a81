"""How a number is spread given the other cells of each row: standard deviations, quantiles, distribution functions."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.answers.asked_rows import AskedRows
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.row_laws import REST, LeafGrid, RowLaws, WeightedLeaves
from pymc_spn.laws.student_mixtures import StudentMixtures
from pymc_spn.leaves.families import NormalGamma
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.numerics.asked_numbers import checked_levels, checked_points
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.row_mixtures import RowMixtures
from pymc_spn.tables import Table, row_labels
from pymc_spn.tables.column import NOMINAL_KINDS
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.unseen_levels import known_levels

if TYPE_CHECKING:
    import xarray as xr

NEGLIGIBLE = 1e-10  # of the smaller tail: the weight of the leaves that are left out of a row's quantiles
SMALLEST_TAIL = np.array([1e-9])  # of distribution functions: leaves are left out that add less than 1e-19
ROW_TOLERANCE = 1e-9  # of the spread of a row's law, of its quantiles: what these leaves could move


def predict_sd(self: AskedLaw, df: TableLike, target: str, *, unseen: str = "error") -> "xr.DataArray":
    """Standard deviation of a numeric column given the other columns of each row.

    Of a new value, not of its mean: within the leaves, between them, and between the draws.

    Parameters
    ----------
    df : DataFrame, mapping or array
        As in `predict_proba`.
    target : str
    unseen : {"error", "missing"}
        As in `predict_proba`.

    Returns
    -------
    DataArray
        (row,) float64, in the units of the column; exact, numerical where the column is known to be in an interval.
        Where tails are too heavy for a variance it is infinite, and ``infinite_variance`` names the column.

    Raises
    ------
    ValueError
        If the target is unknown or has levels, the rows are not those of the other columns, or the posterior's
        condition excludes one. Rows whose density is zero have NaN and a warning.
    """
    d = _number_asked(self, target)
    asked = AskedRows.of_table(self, known_levels(df, self.columns, unseen), d)
    n_draws = len(asked.leaves)
    laws = [_moments(asked, event) for event in asked.events]
    answer, errors = [np.zeros(0)], []
    for rows in asked.blocks(3 * n_draws * len(laws)):
        found, weight, share_of_part = asked.averages(rows, laws, variance=True)
        mean, variance = found[..., 0], found[..., 1] + found[..., 2]
        weight = share_of_part * weight  # of mean 1 over the draws, added up over the parts
        with np.errstate(invalid="ignore"):
            centre = weighted(weight, mean).sum(axis=0).mean(axis=0)
            second = weighted(weight, np.where(np.isinf(variance), np.inf, variance + (mean - centre) ** 2))
            sd = np.sqrt(second.sum(axis=0).mean(axis=0))
            # by the delta method; the centre is where the second moment is the least, and adds nothing
            influence = (second - weight * sd**2).sum(axis=0) / (2.0 * sd)
        answer.append(sd)
        errors.append(self._error(np.where(sd == 0.0, 0.0, influence)))
    values = asked.answered(answer)
    attrs, tolerance = self._cell_mark(), self._law.moment_tolerance([d])
    if tolerance:
        attrs |= {"exactness": "numerical", "tolerance": tolerance}
    if np.isinf(values).any():
        attrs["infinite_variance"] = [target]
    coords = {"row": row_labels(asked.index)}
    return self._labelled("predict_sd", values, coords, False, **attrs, **asked.marks(errors))


def predict_quantile(
    self: AskedLaw, df: TableLike, target: str, q: npt.ArrayLike, *, unseen: str = "error"
) -> "xr.DataArray":
    """Quantiles of a numeric column given the other columns of each row: predictive intervals.

    The smallest x with P(target <= x given the row) >= q, of the average over the draws.

    Parameters
    ----------
    df : DataFrame, mapping or array
        As in `predict_proba`.
    target : str
    q : float or sequence of float
        Between 0 and 1.
    unseen : {"error", "missing"}
        As in `predict_proba`.

    Returns
    -------
    DataArray
        (row,), or (row, quantile) for several levels, in the units of the column; exact for counts, for densities
        numerical, by Newton's method within brackets. At 0 and 1 the ends of the support.

    Raises
    ------
    TypeError, ValueError
        If q is not within 0 and 1; else as `predict_sd`.
    """
    levels, d = checked_levels(q), _number_asked(self, target)
    asked = AskedRows.of_table(self, known_levels(df, self.columns, unseen), d)
    _refuse_many("q", np.size(levels), asked)
    of_draws = LeavesOfDraws(asked)
    q = np.atleast_1d(levels).astype(np.float64)
    has_masses = not self._law.is_density[d]
    quantiles = of_draws.quantiles(q, with_error=not has_masses)
    answer, errors = [np.zeros((0, q.size))], []
    for rows in of_draws.blocks(1 if of_draws.students else q.size):
        shares = of_draws.shares(rows)
        weight = shares.weight
        x, density, below = quantiles(shares)
        answer.append(x + self.columns[d].origin)
        if not has_masses:
            with np.errstate(divide="ignore", invalid="ignore"):  # by the delta method
                influence = (len(weight) * below - weight[:, :, None] * q) / density
            errors.append(self._error(influence))
    attrs: dict[str, Any] = {"column": target, **self._cell_mark()}
    if not has_masses:
        attrs |= {"exactness": "numerical", "tolerance": ROW_TOLERANCE}
    marks = asked.marks(errors)
    if has_masses:
        marks["mcse_chain_note"] = "no mcse_chain: a quantile of whole numbers moves in steps"
        marks.pop("mcse_chain", None)
    coords: dict[str, Any] = {"row": row_labels(asked.index), "quantile": q}
    found = self._labelled("predict_quantile", asked.answered(answer), coords, False, **attrs, **marks)
    if levels.ndim:
        return found
    if "mcse_chain" in found.attrs:
        found.attrs["mcse_chain"] = found.attrs["mcse_chain"][:, 0]
    return found.isel(quantile=0)


def predict_cdf(
    self: AskedLaw, df: TableLike, target: str, x: npt.ArrayLike | None = None, *, unseen: str = "error"
) -> "xr.DataArray":
    """P(target <= x) given the other columns of each row: its predictive distribution function.

    Parameters
    ----------
    df : DataFrame, mapping or array
        As in `predict_proba`.
    target : str
        A numeric column.
    x : float or sequence of float, optional
        The same points for all rows. None takes the target's own cell of each row: probability integral
        transforms, which are uniform over rows where the predictive distribution of a continuous column is right.
    unseen : {"error", "missing"}
        As in `predict_proba`.

    Returns
    -------
    DataArray
        (row,), or (row, x) for several points, of the average over the draws; exact, with ``rounded=True``
        numerical. NaN where the row's own cell is missing.

    Raises
    ------
    TypeError, ValueError
        If x is no number, or None and the target is not among the columns; else as `predict_sd`.
    """
    at, d = None if x is None else checked_points(x), _number_asked(self, target)
    df = known_levels(df, self.columns, unseen)
    asked = AskedRows.of_table(self, df, d)
    _refuse_many("x", 1 if at is None else np.size(at), asked)
    if at is None:
        points = Table.from_frame(df, schema=self.columns).values[:, [d]]
    else:
        points = np.tile(np.atleast_1d(at) - self.columns[d].origin, (len(asked.index), 1))
    answer, error = _distribution_functions(asked, points)
    if at is None or at.ndim == 0:
        answer, error = answer[:, 0], {k: v[:, 0] if k == "mcse_chain" else v for k, v in error.items()}
        coords: dict[str, Any] = {"row": row_labels(asked.index)}
    else:
        coords = {"row": row_labels(asked.index), "x": at}
    return self._labelled("predict_cdf", answer, coords, False, column=target, **self._cell_mark(), **error)


def _refuse_many(argument: str, n: int, asked: AskedRows) -> None:
    """Refuse a table of answers, of n for each row, that would not fit into memory."""
    n_rows = len(asked.index)
    refuse_memory(f"{argument} of {n:,} numbers for {n_rows:,} rows", 32.0 * n * n_rows, "give fewer of either")


def _distribution_functions(asked: AskedRows, x: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """P(X <= x) (M, Q) at points (M, Q) of each row's own, NaN where they are, and the attributes of an average."""
    of_draws = LeavesOfDraws(asked)
    answer, errors = [np.zeros((0, x.shape[1]))], []
    for rows in of_draws.blocks(x.shape[1]):
        shares = of_draws.shares(rows)
        weight = shares.weight
        missing = np.isnan(x[rows])
        below = of_draws.below(shares, np.where(missing, 0.0, x[rows]))
        below[:, missing] = np.nan
        answer.append(below.sum(axis=0))
        influence = len(weight) * below - weight[:, :, None] * answer[-1]
        errors.append(asked.error(influence))
    return asked.answered(answer), asked.marks(errors)


def _number_asked(self: AskedLaw, target: str) -> int:
    """Number of a column whose values are numbers, and not labels."""
    d = self._number("target", target)
    column = self.columns[d]
    if column.kind in NOMINAL_KINDS:
        raise ValueError(f"target must be numeric, {target!r} is {column.kind}; use predict_proba")
    return d


def _moments(asked: AskedRows, event: Any) -> np.ndarray:
    """Mean and variance (n, 2) of the leaves of all draws; of infinite ones the variance is."""
    each = [asked.leaf_moments(s, event) for s in range(len(asked.leaves))]
    mean, variance = (np.concatenate(values) for values in zip(*each, strict=True))
    return np.stack([np.where(np.isinf(mean), 0.0, mean), np.where(np.isinf(mean), np.inf, variance)], axis=1)


class RowShares(NamedTuple):
    """What the leaves of a column are worth in each of M rows.

    Parameters
    ----------
    shares : (J, M, n) float64
        Probabilities of the leaves in their draws, under each part.
    weight : (S, M) float64
        Of the draws, of mean 1; 0 in impossible rows.
    share_of_part : (J, S, M) float64
    """

    shares: np.ndarray
    weight: np.ndarray
    share_of_part: np.ndarray

    def of_rows(self, kept: np.ndarray) -> "RowShares":
        """The same of some rows (k,)."""
        return RowShares(self.shares[:, kept], self.weight[:, kept], self.share_of_part[:, :, kept])


class LeavesOfDraws:
    """Leaves of a column under all draws side by side, and what they are worth in each of some rows."""

    def __init__(self, asked: AskedRows) -> None:
        self.asked = asked
        families, parameters = ([getattr(one, field) for one in asked.leaves] for field in Leaves._fields)
        self.leaves = Leaves(np.concatenate(families), np.concatenate(parameters))
        self.events = asked.events
        self.begin = np.cumsum(asked.n_leaves) - asked.n_leaves
        self.draw = np.repeat(np.arange(asked.n_leaves.size), asked.n_leaves)

    def blocks(self, n_points: int) -> Iterator[slice]:
        """Blocks of rows of which so many values for each leaf are held."""
        return self.asked.blocks(self.draw.size * len(self.events) * max(n_points, 1))

    def shares(self, rows: slice) -> RowShares:
        """What the leaves are worth in some rows."""
        return RowShares(*self.asked.shares(rows))

    def of_all(self, shares: RowShares) -> np.ndarray:
        """Weights (J, M, n) of the leaves under each part, which add up to 1 in a row."""
        of_draws = shares.share_of_part * shares.weight / self.begin.size
        found = shares.shares * of_draws[:, self.draw].transpose(0, 2, 1)
        found[0, ~(found.sum(axis=(0, 2)) > 0.0)] = 1.0 / self.draw.size  # impossible rows: some law, not answered
        return found

    def laws(self, shares: RowShares, q: np.ndarray) -> RowLaws:
        """Laws of rows without the leaves that count for nothing.

        What is left out of a row is `NEGLIGIBLE` of the smallest tail that is asked for.
        """
        weights, parts = self.of_all(shares), list[WeightedLeaves]()
        least = self._negligible(q) / (self.draw.size * len(self.events))
        for weight, event in zip(weights, self.events, strict=True):
            row, leaf = np.nonzero((weight >= least) & (weight > 0.0))
            if row.size:  # else all rows are outside of this part
                mixtures = RowMixtures(row, leaf, weight[row, leaf], weight.shape[0])
                parts.append(WeightedLeaves(self.leaves, event, mixtures))
        return RowLaws(tuple(parts), weights.shape[1])

    @cached_property
    def students(self) -> StudentMixtures | None:
        """The leaves for kernels that take Student t's alone; others and events are seldom, and slower."""
        if self.events != [None] or not (self.leaves.family == GAUSSIAN).all():
            return None
        return StudentMixtures(NormalGamma(*self.leaves.parameters.T), self.draw)

    def quantiles(
        self, q: np.ndarray, with_error: bool
    ) -> Callable[[RowShares], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """A function that gives the quantiles (M, Q) of rows with what `shares` returns.

        With them, if errors are wanted, densities (M, Q) and what each draw has below (S, M, Q).
        """
        inner, students = (q > 0.0) & (q < 1.0), self.students
        if students is None:
            grid = LeafGrid(self.leaves, self.events)

            def by_laws(shares: RowShares) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
                laws = self.laws(shares, q[inner])
                least, most = laws.support()
                x = np.where(q <= 0.0, least[:, None], most[:, None])
                x[:, inner] = laws.quantile(q[inner], grid.brackets(self.of_all(shares), q[inner]))
                return (x, laws.density(x), self._below(laws, x)) if with_error else (x, x, x)

            return by_laws

        def by_kernels(shares: RowShares) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            shape = shares.weight.shape[1], q.size
            x = np.tile(np.where(q <= 0.0, -np.inf, np.inf), (shape[0], 1))
            density, below = np.zeros(shape), np.zeros((self.begin.size, *shape))
            found = students.quantile(shares.shares[0], shares.weight, self._negligible(q[inner]), q[inner], REST)
            x[:, inner], density[:, inner], below[:, :, inner] = found
            return x, density, below

        return by_kernels

    @staticmethod
    def _negligible(q: np.ndarray) -> float:
        """Weight that the leaves of a row have together that may be left out."""
        return NEGLIGIBLE * float(np.minimum(q, 1.0 - q).min(initial=0.5))

    def below(self, shares: RowShares, x: np.ndarray) -> np.ndarray:
        """What each draw adds (S, M, Q) to P(X <= x) at points (M, Q) of rows with what `shares` returns."""
        if self.students is not None:
            return self.students.below(shares.shares[0], shares.weight, self._negligible(SMALLEST_TAIL), x)
        return self._below(self.laws(shares, SMALLEST_TAIL), x)

    def _below(self, laws: RowLaws, x: np.ndarray) -> np.ndarray:
        """What each draw adds (S, M, Q) to P(X <= x) at points (M, Q) of each row's own."""
        return self._added(laws, lambda law, row: law.leaf_cdf(x[row]), x.shape)

    def within(self, laws: RowLaws, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What each draw adds (S, M, Q) to P(low <= X <= high), digits of far tails too; slower than `below`."""
        return self._added(laws, lambda law, row: law.leaf_within(low[row], high[row]), low.shape)

    def _added(
        self, laws: RowLaws, of_leaves: Callable[[ColumnLaw, np.ndarray], np.ndarray], shape: tuple[int, ...]
    ) -> np.ndarray:
        n_draws, (n_rows, n_points) = self.begin.size, shape
        total = np.zeros((n_points, n_draws * n_rows))
        for part in laws.parts:
            row, leaf, share, _ = part.mixtures
            place, values = self.draw[leaf] * n_rows + row, of_leaves(part.law, row)
            for k in range(n_points):
                total[k] += np.bincount(place, share * values[:, k], minlength=n_draws * n_rows)
        return total.T.reshape(n_draws, n_rows, n_points)
