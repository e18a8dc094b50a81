"""Questions about columns of numbers: distribution functions, quantiles, means, covariances, higher moments."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pymc_spn.answers.asked_law import AskedLaw, Given, Known, joined_errors, of_each_draw, relative
from pymc_spn.laws.column_laws import QUANTILE_TOLERANCE
from pymc_spn.laws.law import ColumnOfLaw
from pymc_spn.laws.raw_moments import about_mean
from pymc_spn.numerics.asked_numbers import check_order, checked_levels, checked_points
from pymc_spn.numerics.draw_averages import weighted, weighted_mean
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import xarray as xr

LARGEST_ORDER = 8
BLOCK_VALUES = 1_000_000  # per-draw covariances averaged at a time (8 MB)


@of_each_draw
def cdf(
    self: AskedLaw,
    x: npt.ArrayLike,
    column: str,
    given: Given = None,
    per_draw: bool = False,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate P(column <= x) at one or several values, given what is known.

    Parameters
    ----------
    x : float or sequence of float
    column : str
        A numeric column; binary ones count as 0 and 1, ordinal ones as their numbers.
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    per_draw : bool
        Whether to return each draw's own conditional, unweighted.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (x,), or (chain, draw, x) with `per_draw`; exact.

    Raises
    ------
    TypeError, ValueError
        If x are not numbers, the column is unknown, given at a value or has levels without an order, or what is given
        has probability zero.

    Examples
    --------
    >>> post.cdf([45.0], "age").round(1).values
    array([0.5])
    """
    check_order("cdf", x, column)
    points, known = checked_points(x), self._known(given)
    d = self._numeric("column", column, known)
    scalar, at = points.ndim == 0, np.atleast_1d(points)
    values, coords = known.law.column(d).cdf(known.law.through_zero(d, at - known.law.columns[d].origin)), {"x": at}
    if per_draw:
        return self._shaped("cdf", values, coords, True, scalar, column=column)
    weight = relative(known.law)
    answer = np.average(values, axis=0, weights=weight)
    influence = weight[:, None] * (values - answer)
    error = self._error(influence[:, 0] if scalar else influence)
    mark = self._weight_mark(known.law)
    return self._shaped("cdf", answer, coords, False, scalar, column=column, **mark, **error)


@of_each_draw
def quantile(
    self: AskedLaw,
    q: npt.ArrayLike,
    column: str,
    given: Given = None,
    per_draw: bool = False,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate quantiles of a column: the smallest x with P(column <= x) >= q.

    Parameters
    ----------
    q : float or sequence of float
        Between 0 and 1.
    column : str
    given, per_draw
        As in `cdf`.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (quantile,) or (chain, draw, quantile), in the units of the column. Exact for counts; numerical for densities,
        by bracketing. At 0 and 1, the ends of the support.

    Raises
    ------
    TypeError, ValueError
        If q is not within 0 and 1, or `given` has probability zero. If the column is unknown, given at a value, or has
        levels without an order.

    Examples
    --------
    >>> post.quantile([0.1, 0.9], "income", given={"age": 60.0}).dims
    ('quantile',)
    """
    check_order("quantile", q, column)
    level, known = checked_levels(q), self._known(given)
    law, d = known.law, self._numeric("column", column, known)
    of_column, origin = law.column(d), law.columns[d].origin
    levels, scalar = np.atleast_1d(level), level.ndim == 0
    is_count = of_column.is_discrete
    exactness = {} if is_count else {"exactness": "numerical", "tolerance": QUANTILE_TOLERANCE}
    attrs: dict[str, Any] = {"column": column, **exactness}
    coords = {"quantile": level}
    if per_draw:
        each = of_column.quantiles_of_circuits(levels)
        return self._shaped("quantile", law.at_zero(d, each) + origin, coords, True, scalar, **attrs)
    weight = relative(law)
    mixed = of_column.mixed(weight)
    answer = mixed.quantile(levels)
    attrs |= self._weight_mark(law)
    finite = np.isfinite(answer)
    if not is_count and (finite.any() or not answer.size):  # delta method: the error of the cdf over the density
        error = self._error(weight[:, None] * (of_column.cdf(answer[finite]) - levels[finite]))
        if "mcse_chain" in error:
            errors = np.full(answer.shape, np.nan)
            errors[finite] = error["mcse_chain"] / mixed.density(answer[finite])[0]
            error["mcse_chain"] = float(errors[0]) if scalar else errors
        attrs |= error
    else:
        attrs["mcse_chain_note"] = (
            "no mcse_chain: a quantile of whole numbers moves in steps, one at infinity not at all"
        )
    return self._shaped("quantile", law.at_zero(d, answer) + origin, coords, False, scalar, **attrs)


def median(
    self: AskedLaw, column: str, given: Given = None, per_draw: bool = False, *, interval: float | None = None
) -> "xr.DataArray":
    """Calculate the median of a column: `quantile` at 0.5.

    Arguments, marks and errors are those of `quantile`.

    Examples
    --------
    >>> post.median("income", given={"age": 60.0}).dims
    ()
    """
    return quantile(self, 0.5, column, given, per_draw, interval=interval).rename("median")


@of_each_draw
def mean(
    self: AskedLaw, given: Given = None, per_draw: bool = False, *, interval: float | None = None
) -> "xr.DataArray":
    """Calculate the mean of the numeric columns, binary ones as 0 and 1.

    Ordinal columns count as their numbers. Categorical ones are left out and named in ``attrs["left_out"]``. If the
    learned leaf shape of a column is 1/2 or less in some draw that has a weight, its tails are too heavy for a mean.
    Unoccupied leaves then count with their centre, and ``attrs["principal_value"]`` names the column. Columns with
    log-normal leaves have an infinite mean unless a condition bounds them, and are named in ``attrs["infinite_mean"]``.

    Parameters
    ----------
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`; a column given at a value has this value as its mean.
    per_draw : bool
        Whether to return each draw's own mean instead of the mean of their mixture.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (column,) or (chain, draw, column) float64, in the units of the data.

    Raises
    ------
    ValueError
        If all columns are categorical, or `given` is impossible under every draw.

    Examples
    --------
    >>> post.mean(given={"age": 60.0}).sel(column="income").round(-1).item()
    50.0
    """
    known, moments = self._known(given), _ColumnsWithMoments(self)
    means, _, attrs = moments.find(known, False, per_draw)
    columns = {"column": moments.names}
    if per_draw:
        return self._labelled("mean", means, columns, True, **attrs)
    weight = relative(known.law)
    answer = weighted_mean(weight, means)
    infinite = np.isinf(answer)
    if infinite.any():
        attrs["infinite_mean"] = [c for c, off in zip(moments.names, infinite, strict=True) if off]
    finite = np.where(infinite, 0.0, means)
    error = self._error(weighted(weight, finite - np.where(infinite, 0.0, answer)))
    return self._labelled("mean", answer, columns, False, **attrs, **self._weight_mark(known.law), **error)


@of_each_draw
def cov(
    self: AskedLaw, given: Given = None, per_draw: bool = False, *, interval: float | None = None
) -> "xr.DataArray":
    """Calculate the covariance of the numeric columns, binary ones as 0 and 1.

    It follows from the law of total covariance over draws. A variance is infinite where the tails are too heavy
    (Gaussian leaf shape of 1 or less in some draw); such columns are named in ``attrs["infinite_variance"]``. A
    condition that bounds the column, such as ``given={"a": (0, 10)}``, makes it finite. Where a column's mean is
    infinite (log-normal leaves) its covariances do not exist and are NaN.

    Parameters
    ----------
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`; a column given at a value does not vary.
    per_draw : bool
        Whether to return each draw's own covariance instead of that of their mixture.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (column, other) or (chain, draw, column, other) float64, in products of the units of the data. Categorical
        columns are left out and named in ``attrs["left_out"]``.

    Raises
    ------
    ValueError
        If all columns are categorical, or `given` is impossible under every draw.

    Examples
    --------
    >>> post.cov().sel(column="age", other="income").item() > 0
    True
    """
    known, moments = self._known(given), _ColumnsWithMoments(self)
    means, covariances, attrs = moments.find(known, True, per_draw)
    names = moments.names
    columns = {"column": names, "other": names}
    if per_draw:
        return self._labelled("cov", covariances, columns, True, **attrs)
    weight = relative(known.law)
    with np.errstate(invalid="ignore"):
        centred = means - weighted_mean(weight, means)
    first, second = np.triu_indices(len(names))
    found, errors = np.empty(first.size), []
    step = max(1, BLOCK_VALUES // weight.size)
    for start in range(0, first.size, step):  # of many columns the draws' own tables are memory enough
        a, b = first[start : start + step], second[start : start + step]
        with np.errstate(invalid="ignore"):
            each = covariances[:, a, b] + centred[:, a] * centred[:, b]
            found[start : start + step] = average = weighted_mean(weight, each)
            errors.append(self._error(weighted(weight, each - average)))
    error = joined_errors(errors, first.size, step)
    if "mcse_chain" in error:
        error["mcse_chain"] = _symmetric(error["mcse_chain"], len(names))
    answer = _symmetric(found, len(names))
    infinite = [n for n, v in zip(names, np.diag(answer), strict=True) if not np.isfinite(v)]
    if infinite:
        attrs["infinite_variance"] = infinite
    return self._labelled("cov", answer, columns, False, **attrs, **self._weight_mark(known.law), **error)


@of_each_draw
def std(
    self: AskedLaw, given: Given = None, per_draw: bool = False, *, interval: float | None = None
) -> "xr.DataArray":
    """Calculate the standard deviation of the numeric columns (column,).

    Parameters are those of `mean`; ``mcse_chain`` is that of the variance by the delta method.

    Examples
    --------
    >>> post.std().sel(column="age").item() > 10
    True
    """
    found = moment(self, 2, given, True, per_draw)
    root = found.copy(data=np.sqrt(found.values)).rename("std")
    attrs = {k: v for k, v in found.attrs.items() if k not in ("order", "central")}
    if "mcse_chain" in attrs:
        with np.errstate(divide="ignore", invalid="ignore"):
            attrs["mcse_chain"] = attrs["mcse_chain"] / (2.0 * root.values)
    root.attrs = attrs
    return root


@of_each_draw
def corr(
    self: AskedLaw, given: Given = None, per_draw: bool = False, *, interval: float | None = None
) -> "xr.DataArray":
    """Calculate the Pearson correlation of the numeric columns (column, other).

    It is NaN where a variance is 0 or infinite. Parameters are those of `cov`, which has the standard errors.
    `dependence` also measures dependence that is not linear.

    Examples
    --------
    >>> post.corr().sel(column="age", other="income").item() > 0
    True
    """
    found = cov(self, given, per_draw)
    sd = np.sqrt(np.einsum("...ii->...i", found.values))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = found.copy(data=found.values / (sd[..., :, None] * sd[..., None, :])).rename("corr")
    found.attrs = {k: v for k, v in found.attrs.items() if k != "mcse_chain"}
    return found


@of_each_draw
def moment(
    self: AskedLaw,
    order: int,
    given: Given = None,
    central: bool = False,
    per_draw: bool = False,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate E[X^order] of the numeric columns, about 0 or about the mean.

    A moment is infinite or NaN if the tails are too heavy (Gaussian leaves: order at least twice the learned leaf
    shape). These columns are named in ``attrs["no_moment"]``. `cov` has the joint second moments.

    Parameters
    ----------
    order : int
        Within 1 and 8.
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    central : bool
        Whether to take moments about the mean.
    per_draw : bool
        Whether to return each draw's own moments.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (column,) or (chain, draw, column), in the units of the column to that power.

    Raises
    ------
    TypeError, ValueError
        If the order is out of range, no column is numeric, or what is given has probability zero.

    Examples
    --------
    >>> post.moment(2, central=True).sel(column="age").item() > 100
    True
    """
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"order must be an integer within 1 and {LARGEST_ORDER}, got {quoted(order)}")
    order, known, moments = int(order), self._known(given), _ColumnsWithMoments(self)
    law, names = known.law, moments.names
    weight = relative(law)
    per = np.empty((law.n_circuits, len(names)))
    answer, influence = np.empty(len(names)), np.empty(per.shape)
    number = {c.name: d for d, c in enumerate(law.columns)}
    for i, (name, origin) in enumerate(zip(names, moments.origins, strict=True)):
        if name in known.points:
            value = known.points[name] + origin
            per[:, i], influence[:, i] = 0.0 if central else value**order, 0.0
            answer[i] = per[0, i]
        else:
            found = _moment_of(law.column(number[name]), origin, order, central, weight)
            per[:, i], answer[i], influence[:, i] = found
    attrs: dict[str, Any] = {"order": order, "central": int(central), **moments.tolerance(known)}
    if per_draw:
        return self._labelled("moment", per, {"column": names}, True, **attrs)
    heavy = [n for n, v in zip(names, answer, strict=True) if not np.isfinite(v)]
    if heavy:
        attrs["no_moment"] = heavy
    with np.errstate(invalid="ignore"):
        error = self._error(influence)
    return self._labelled("moment", answer, {"column": names}, False, **attrs, **self._weight_mark(law), **error)


def _moment_of(
    law: ColumnOfLaw, origin: float, order: int, central: bool, weight: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """Each draw's moment (S,), that of the mixture, and each draw's weighted contribution to it."""
    about = law.bracket()[0] if central else -origin
    with np.errstate(invalid="ignore"):
        moments = law.raw_moments(about, order)
        mixed = weighted_mean(weight, moments)
        if not central:
            per, answer = moments[:, order], mixed[order]
            return per, float(answer), weighted(weight, per - answer)
        at_mean = law.raw_moments(about + float(mixed[1]), order)
        answer = float(weighted_mean(weight, at_mean[:, order]))
        # the mean moves with the draws, too
        slope = order * weighted_mean(weight, at_mean[:, order - 1]) if order > 1 else 1.0
        influence = weighted(weight, at_mean[:, order] - answer - slope * at_mean[:, 1])
        per = np.array([about_mean(m, order) for m in moments])
    return per, answer, influence


class _ColumnsWithMoments:
    """The columns that have moments, those given at a value among them."""

    def __init__(self, asked: AskedLaw) -> None:
        numbers = [c for c in asked._schema if c.kind != "categorical"]
        self.left_out = [c.name for c in asked.columns if c.kind == "categorical"]
        if not numbers:
            raise ValueError(f"moments need a numeric column; all columns are categorical: {self.left_out}")
        self.names, self.origins = [c.name for c in numbers], [c.origin for c in numbers]

    def places(self, known: Known) -> tuple[list[int], list[int]]:
        """Which of the columns are at no value, and their numbers in the law."""
        number = {c.name: d for d, c in enumerate(known.law.columns)}
        free = [i for i, name in enumerate(self.names) if name in number]
        return free, [number[self.names[i]] for i in free]

    def tolerance(self, known: Known) -> dict[str, Any]:
        """The mark of moments that are by quadrature."""
        tolerance = known.law.moment_tolerance(self.places(known)[1])
        return {"exactness": "numerical", "tolerance": tolerance} if tolerance else {}

    def find(self, known: Known, covariance: bool, per_draw: bool) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Means (S, k) and covariances (S, k, k) of the columns under each draw, and the attributes of both."""
        free, numbers = self.places(known)
        n = known.law.n_circuits, len(self.names)
        values = [known.points.get(name, 0.0) + x for name, x in zip(self.names, self.origins, strict=True)]
        means = np.tile(values, (n[0], 1))
        covariances = np.zeros((n[0], 0, 0))
        if free:
            means[:, free], covariances = known.law.moments(numbers, covariance)
        if covariance and len(free) < n[1]:
            found, covariances = covariances, np.zeros((*n, n[1]))
            if free:
                covariances[:, np.array(free)[:, None], free] = found
        attrs: dict[str, Any] = {"left_out": self.left_out} if self.left_out else {}
        centred = known.law.centred(numbers, per_draw)
        if centred:
            attrs["principal_value"] = centred
        return means, covariances, attrs | self.tolerance(known)


def _symmetric(triangle: np.ndarray, side: int) -> np.ndarray:
    """Table (D, D) from its upper triangle, the diagonal with it."""
    table = np.empty((side, side))
    first, second = np.triu_indices(side)
    table[first, second] = table[second, first] = triangle
    return table
