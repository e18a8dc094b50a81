"""What a posterior answers about single columns: distribution functions, quantiles, moments, families."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.known_cases import Cases, KnownCases
from pymc_spn.events.events import points_of, spread_of
from pymc_spn.laws.column_laws import (
    QUANTILE_TOLERANCE,
    ColumnLaw,
    JoinedLaw,
)
from pymc_spn.laws.raw_moments import raw_moments
from pymc_spn.networks.records import share_kernels
from pymc_spn.networks.records.draw_averages import chain_error, relative_weights, weighted, weighted_mean
from pymc_spn.networks.records.leaf_predictives import TOLERANCE, Interval
from pymc_spn.numerics.asked_numbers import checked_levels, checked_points
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name

if TYPE_CHECKING:
    import xarray as xr

LARGEST_ORDER = 8


class ColumnAnswers(KnownCases):
    """Queries about one column given what is known of a row."""

    def cdf(
        self, column: str, x: Any, given: Mapping[str, Any] | str | None = None, per_draw: bool = False
    ) -> "xr.DataArray":
        """P(column <= x given what is known) at one or several values.

        Parameters
        ----------
        column : str
            A numeric column; binary ones count as 0 and 1, ordinal ones as their numbers.
        x : float or sequence of float
        given : mapping or str, optional
        per_draw : bool
            Whether each draw's own conditional is wanted, unweighted.

        Returns
        -------
        DataArray
            Over ``x``, with (chain, draw) in front where `per_draw`; exact.
        """
        points = checked_points(x)
        return self._cdf(*self._law(column, given), column, points, per_draw)

    def quantile(
        self, q: Any, column: str, given: Mapping[str, Any] | str | None = None, per_draw: bool = False
    ) -> "xr.DataArray":
        """Quantiles of a column given what is known: the smallest x with P(column <= x) >= q.

        Parameters
        ----------
        q : float or sequence of float
            Between 0 and 1.
        column : str
        given, per_draw
            As in `cdf`.

        Returns
        -------
        DataArray
            Over ``quantile``, or (chain, draw, quantile), in the units of the column; found by brackets: numerical for
            densities, exact for counts. At 0 and 1 the ends of the support.

        Raises
        ------
        TypeError, ValueError
            If q is not within 0 and 1, the column is unknown, given at a value or has levels without an order, or what
            is given has probability zero.
        """
        levels = checked_levels(q)
        return self._quantile(*self._law(column, given), column, levels, per_draw)

    def moment(
        self,
        order: int,
        given: Mapping[str, Any] | str | None = None,
        central: bool = False,
        per_draw: bool = False,
    ) -> "xr.DataArray":
        """E[X^order] of the numeric columns, or about the mean of the same law.

        Infinite or NaN where the tails are too heavy (Gaussian leaves: order at least twice the learned leaf
        shape); the columns are named in ``attrs["no_moment"]``. `cov` has the joint second moments.

        Parameters
        ----------
        order : int
            Within 1 and 8.
        given : mapping or str, optional
        central : bool
            Whether moments about the mean are wanted.
        per_draw : bool
            Whether each draw's own are wanted.

        Returns
        -------
        DataArray
            (column,) or (chain, draw, column), in the units of the column to that power.

        Raises
        ------
        TypeError, ValueError
            If the order is another, no column is numeric, or what is given has probability zero.
        """
        return self._moments(self._cases(given), checked_order(order), central, per_draw)

    def _moments(self, known: Cases, order: int, central: bool, per_draw: bool) -> "xr.DataArray":
        """See `moment`."""
        numbers = self._numeric_columns("moments")
        names = [self._schema.columns[d].name for d in numbers]
        weight = self._weights_of(known)
        per = np.empty((self._states.n_draws, len(numbers)))
        answer, influence = np.empty(len(numbers)), np.empty(per.shape)
        for i, d in enumerate(numbers):
            per[:, i], answer[i], influence[:, i] = self._moment_of(d, known, order, central, weight)
        attrs: dict[str, Any] = {"order": order, "central": int(central)}
        if any(isinstance(case.get(d), Interval) for case in known for d in numbers):
            attrs |= {"exactness": "numerical", "tolerance": TOLERANCE}
        if per_draw:
            return self._labelled("moment", per, {"column": names}, True, **attrs)
        heavy = [n for n, v in zip(names, answer, strict=True) if not np.isfinite(v)]
        if heavy:
            attrs["no_moment"] = heavy
        with np.errstate(invalid="ignore"):
            error = chain_error(influence, self._n_chains)
        return self._labelled("moment", answer, {"column": names}, False, **attrs, **self._case_mark(known), **error)

    def _moment_of(
        self, d: int, known: Cases, order: int, central: bool, weight: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """Each draw's moment (S,), that of the mixture, and each draw's weighted contribution to it."""
        if d in points_of(known[0]):
            x = known[0][d]
            assert isinstance(x, float)
            number = x + self._origin(d)
            value = np.full(weight.size, 0.0 if central else number**order)
            return value, float(value[0]), np.zeros(weight.size)
        law, shares = self._law_of_cases(d, known), self._shares_of_cases(known)
        laws = law.laws if isinstance(law, JoinedLaw) else (law,)

        def moments_about(x: float) -> np.ndarray:
            """Each draw's moments (S, order + 1) about a point, those of the cases weighed by their probabilities."""
            each = (one.per_draw(raw_moments(one.leaves, x, order, one.event)) for one in laws)
            return sum((weighted(p, m) for p, m in zip(shares, each, strict=True)), np.zeros(()))

        about = law.bracket()[0] if central else -self._origin(d)
        with np.errstate(invalid="ignore"):
            moments = moments_about(about)
            mixed = weighted_mean(weight, moments)
            if not central:
                per, answer = moments[:, order], mixed[order]
                return per, float(answer), weighted(weight, per - answer)
            at_mean = moments_about(about + float(mixed[1]))
            answer = float(weighted_mean(weight, at_mean[:, order]))
            # the mean moves with the draws, too
            slope = order * weighted_mean(weight, at_mean[:, order - 1]) if order > 1 else 1.0
            influence = weighted(weight, at_mean[:, order] - answer - slope * at_mean[:, 1])
            per = np.array([_about_mean(m, order) for m in moments])
        return per, answer, influence

    def leaf_types(self, column: str, by_entry: bool = False) -> "xr.DataArray":
        """Share of the training rows whose leaf has each family, for every draw.

        Rows in which the column is missing do not count. The families are those of the column's palette;
        where they are several entries of one family, their shares add up. In a variational fit it is the expected
        share, which is one number.

        Parameters
        ----------
        column : str
        by_entry : bool
            Whether each palette entry counts by itself, for instance two Gaussians of different scale.

        Returns
        -------
        DataArray
            (chain, draw, family), or (chain, draw, entry) with ``family`` and ``relative_scale`` of each entry beside
            it; exact, its spread over draws is the posterior.
        """
        d = self._column_number("column", column)
        entries = self._schema.palette[d]
        families = list(dict.fromkeys(e.family for e in entries))
        rows = self._states.rows_on_entries(d)
        if not rows.any():
            raise ValueError(f"column {column!r} is missing in every training row: no row has a leaf")
        if by_entry:
            coords: dict[str, Any] = {"entry": np.arange(len(entries))}
            coords["family"] = ("entry", [e.family for e in entries])
            coords["relative_scale"] = ("entry", [e.relative_scale for e in entries])
            share = rows / rows.sum(axis=1, keepdims=True)
            return self._labelled(
                "leaf_types", share, {"entry": coords.pop("entry")}, True, column=column
            ).assign_coords(coords)
        code = np.array([families.index(e.family) for e in entries])
        share = np.stack([rows[:, code == f].sum(axis=1) for f in range(len(families))], axis=1)
        share = share / share.sum(axis=1, keepdims=True)
        return self._labelled("leaf_types", share, {"family": families}, True, column=column)

    # ---- below the surface

    def _column_number(self, argument: str, name: Any, numeric: bool = False) -> int:
        """Number of a column that the answers are about."""
        number, asked = {c.name: d for d, c in zip(self._kept, self._left, strict=True)}, as_name(name)
        if not isinstance(asked, str) or asked not in number:
            raise ValueError(f"{argument} must name one of the columns {quoted(list(number))}, got {quoted(name)}")
        d = number[asked]
        if numeric and self._schema.columns[d].kind == "categorical":
            raise ValueError(f"{argument} must be numeric, {name!r} is categorical: its levels have no order")
        return d

    def _origin(self, column: int | str) -> float:
        """What the codes of a column lack of its numbers."""
        if isinstance(column, int | np.integer):
            return self._schema.columns[column].origin
        return next(c.origin for c in self._left if c.name == as_name(column))

    def _numeric_columns(self, what: str) -> list[int]:
        numbers = [d for d in self._kept if self._schema.columns[d].kind != "categorical"]
        if not numbers:
            raise ValueError(
                f"{what} need a numeric column; all columns are categorical: {[c.name for c in self._left]}"
            )
        return numbers

    def _law(
        self, column: Any, given: Mapping[str, Any] | str | None
    ) -> tuple[ColumnLaw | JoinedLaw, np.ndarray, dict[str, Any]]:
        """Law of a column; log probability (S,) of what is known under each draw, and the mark of such weights."""
        d = self._column_number("column", column, numeric=True)
        known = self._cases(given)
        return self._law_of(d, known), self._log_of_cases(known), self._case_mark(known)

    def _law_of(self, d: int, known: Cases) -> ColumnLaw | JoinedLaw:
        if d in points_of(known[0]):
            name = self._schema.columns[d].name
            raise ValueError(f"column {name!r} is given at a value: it has no distribution left")
        return self._law_of_cases(d, known)

    def _cdf(
        self,
        law: ColumnLaw | JoinedLaw,
        logs: np.ndarray,
        mark: dict[str, Any],
        column: str,
        points: np.ndarray,
        per_draw: bool,
    ) -> "xr.DataArray":
        """The answer of `cdf` from what `_law` returns."""
        scalar = points.ndim == 0
        values, coords = law.cdf(np.atleast_1d(points) - self._origin(column)), {"x": np.atleast_1d(points)}
        if per_draw:
            return self._shaped("cdf", values, coords, True, scalar, column=column)
        weight = relative_weights(logs + self._log_weights)
        answer = np.average(values, axis=0, weights=weight)
        influence = weight[:, None] * (values - answer)
        error = chain_error(influence[:, 0] if scalar else influence, self._n_chains)
        return self._shaped("cdf", answer, coords, False, scalar, column=column, **mark, **error)

    def _quantile(
        self,
        law: ColumnLaw | JoinedLaw,
        logs: np.ndarray,
        mark: dict[str, Any],
        column: str,
        level: np.ndarray,
        per_draw: bool,
    ) -> "xr.DataArray":
        """The answer of `quantile` from what `_law` returns."""
        levels, scalar = np.atleast_1d(level), level.ndim == 0
        is_count = law.is_discrete
        exactness = {} if is_count else {"exactness": "numerical", "tolerance": QUANTILE_TOLERANCE}
        attrs: dict[str, Any] = {"column": column, **exactness}
        coords = {"quantile": level}
        if per_draw:
            each = np.array([law.of_draws(np.array([s])).quantile(levels) for s in range(self._states.n_draws)])
            return self._shaped("quantile", each + self._origin(column), coords, True, scalar, **attrs)
        weight = relative_weights(logs + self._log_weights)
        mixed = law.mixed(weight)
        answer = mixed.quantile(levels)
        attrs |= mark
        finite = np.isfinite(answer)
        if not is_count and (finite.any() or not answer.size):  # delta method: the error of the cdf over the density
            influence = weight[:, None] * (law.cdf(answer[finite]) - levels[finite])
            error = chain_error(influence, self._n_chains)
            if "mcse_chain" in error:
                errors = np.full(answer.shape, np.nan)
                errors[finite] = error["mcse_chain"] / mixed.density(answer[finite])[0]
                error["mcse_chain"] = float(errors[0]) if scalar else errors
            attrs |= error
        else:
            attrs["mcse_chain_note"] = (
                "no mcse_chain: a quantile of whole numbers moves in steps, one at infinity not at all"
            )
        return self._shaped("quantile", answer + self._origin(column), coords, False, scalar, **attrs)

    def _shaped(
        self, name: str, values: Any, coords: Any, per_draw: bool, scalar: bool, **attrs: Any
    ) -> "xr.DataArray":
        """As `_labelled`, the only coordinate dropped where one value was asked for."""
        if not scalar:
            return self._labelled(name, values, coords, per_draw, **attrs)
        answer = self._labelled(name, np.asarray(values)[..., 0], {}, per_draw, **attrs)
        return answer.assign_coords({k: np.ravel(v)[0] for k, v in coords.items()})

    def _shares(self, values: np.ndarray, regions: np.ndarray) -> Any:
        """A function that writes log density and `column_shares` of a user's rows under the network of a draw."""
        cells, events, states = self._cells(values), spread_of(self._evidence), self._states
        coded = states.coded_rows(values)

        def ask(s: int, net: Any, log: np.ndarray, out: np.ndarray) -> None:
            given = states.event_logs(s, net, events)
            if cells is None:
                share_kernels.column_shares(net, coded, *given, regions, log, out)
            else:
                cells.shares(net, given, regions, log, out)

        return ask


def _about_mean(raw: np.ndarray, order: int) -> float:
    """Central moment from moments (order + 1,) about any point."""
    from math import comb

    with np.errstate(invalid="ignore"):
        return float(sum(comb(order, j) * raw[j] * (-raw[1]) ** (order - j) for j in range(order + 1)))


def names_of(argument: str, given: Any) -> list[Any]:
    """Names in a list of them, or a single one; events are not dropped for their columns' names."""
    if isinstance(as_name(given), str):
        return [as_name(given)]
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a list of names, got {quoted(given)}; what is known goes into given=")
    return [as_name(label) for label in given]


def checked_order(order: Any) -> int:
    """Order of a moment."""
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"order must be an integer within 1 and {LARGEST_ORDER}, got {quoted(order)}")
    return int(order)
