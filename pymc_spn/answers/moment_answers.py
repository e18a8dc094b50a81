"""Means and covariances of a posterior's columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.events.events import Events, spread_of
from pymc_spn.laws.conditioned_draws import ConditionedDraws
from pymc_spn.networks.records.draw_averages import chain_error, relative_weights, weighted, weighted_mean
from pymc_spn.networks.records.leaf_predictives import TOLERANCE, Interval

if TYPE_CHECKING:
    import xarray as xr

BLOCK_VALUES = 1_000_000  # per-draw covariances averaged at a time (8 MB)


class MomentAnswers(ConditionedDraws):
    """First and second moments of the numeric columns."""

    def mean(self, given: Mapping[str, Any] | str | None = None, per_draw: bool = False) -> "xr.DataArray":
        """Mean of the numeric columns, binary ones as 0 and 1, ordinal ones as their numbers.

        Categorical columns are left out and named in ``attrs["left_out"]``. Where the learned leaf shape of a
        column is 1/2 or less in some draw that has a weight, its tails are too heavy for a mean: unoccupied leaves
        then count with their centre, and the column is named in ``attrs["principal_value"]``. Columns with log-normal
        leaves have an infinite mean unless a condition bounds them, and are named in ``attrs["infinite_mean"]``.

        Parameters
        ----------
        given : mapping or str, optional
            A condition, as in `SPNPosterior`; a column given at a value has this as its mean.
        per_draw : bool
            Whether each draw's own mean is wanted instead of that of their mixture.

        Returns
        -------
        DataArray
            (column,) or (chain, draw, column) float64, in the units of the data.

        Raises
        ------
        ValueError
            If all columns are categorical, or `given` is impossible under every draw.
        """
        known, numbers, attrs = self._moment_query(given, per_draw)
        means, _ = self._states.moments(self._row(known), spread_of(known), numbers, False)
        means = means[:, numbers]
        columns = {"column": [self._schema.columns[d].name for d in numbers]}
        if per_draw:
            return self._labelled("mean", means, columns, True, **attrs)
        weight = relative_weights(self._log_of(known) + self._log_weights)
        answer = weighted_mean(weight, means)
        infinite = np.isinf(answer)
        if infinite.any():
            attrs["infinite_mean"] = [c for c, off in zip(columns["column"], infinite, strict=True) if off]
        finite = np.where(infinite, 0.0, means)
        error = chain_error(weighted(weight, finite - np.where(infinite, 0.0, answer)), self._n_chains)
        return self._labelled("mean", answer, columns, False, **attrs, **self._draw_weights(known), **error)

    def cov(self, given: Mapping[str, Any] | str | None = None, per_draw: bool = False) -> "xr.DataArray":
        """Covariance of the numeric columns, binary ones as 0 and 1: law of total covariance over draws.

        A variance is infinite where the tails are too heavy (Gaussian leaf shape of 1 or less in some draw);
        such columns are named in ``attrs["infinite_variance"]``. A condition that bounds the column, such as
        ``given={"a": (0, 10)}``, makes it finite. Where a column's mean is infinite (log-normal leaves) its
        covariances do not exist and are NaN.

        Parameters
        ----------
        given : mapping or str, optional
            A condition, as in `SPNPosterior`; a column given at a value does not vary.
        per_draw : bool
            Whether each draw's own covariance is wanted instead of that of their mixture.

        Returns
        -------
        DataArray
            (column, other) or (chain, draw, column, other) float64, in products of the units of the data. Categorical
            columns are left out and named in ``attrs["left_out"]``.

        Raises
        ------
        ValueError
            If all columns are categorical, or `given` is impossible under every draw.
        """
        known, numbers, attrs = self._moment_query(given, per_draw)
        means, covariances = self._states.moments(self._row(known), spread_of(known), numbers, True)
        names = [self._schema.columns[d].name for d in numbers]
        columns = {"column": names, "other": names}
        if per_draw:
            return self._labelled("cov", covariances[:, numbers][:, :, numbers], columns, True, **attrs)
        weight = relative_weights(self._log_of(known) + self._log_weights)
        with np.errstate(invalid="ignore"):
            centred = means - weighted_mean(weight, means)
        first, second = np.triu_indices(len(numbers))
        of = np.array(numbers)
        found, errors = np.empty(first.size), []
        step = max(1, BLOCK_VALUES // weight.size)
        for start in range(0, first.size, step):  # of many columns the draws' own tables are memory enough
            a, b = of[first[start : start + step]], of[second[start : start + step]]
            with np.errstate(invalid="ignore"):
                each = covariances[:, a, b] + centred[:, a] * centred[:, b]
                found[start : start + step] = mean = weighted_mean(weight, each)
                errors.append(chain_error(weighted(weight, each - mean), self._n_chains))
        error = self._joined_errors(errors, first.size, step)
        if "mcse_chain" in error:
            error["mcse_chain"] = _symmetric(error["mcse_chain"], len(numbers))
        answer = _symmetric(found, len(numbers))
        infinite = [n for n, v in zip(names, np.diag(answer), strict=True) if not np.isfinite(v)]
        if infinite:
            attrs["infinite_variance"] = infinite
        return self._labelled("cov", answer, columns, False, **attrs, **self._draw_weights(known), **error)

    def _moment_query(
        self, given: Mapping[str, Any] | str | None, per_draw: bool
    ) -> tuple[Events, list[int], dict[str, Any]]:
        known = self._given(given)
        numbers = [d for d in self._kept if self._schema.columns[d].kind != "categorical"]
        left_out = [c.name for c in self._left if c.kind == "categorical"]
        if not numbers:
            raise ValueError(f"moments need a numeric column; all columns are categorical: {left_out}")
        attrs: dict[str, Any] = {"left_out": left_out} if left_out else {}
        tails = self._heavy_tails(numbers, known, per_draw)
        if tails:
            attrs["principal_value"] = tails
        if any(isinstance(known.get(d), Interval) for d in numbers):
            attrs |= {"exactness": "numerical", "tolerance": TOLERANCE}
        return known, numbers, attrs


def _symmetric(triangle: np.ndarray, side: int) -> np.ndarray:
    """Table (D, D) from its upper triangle, the diagonal with it."""
    table = np.empty((side, side))
    first, second = np.triu_indices(side)
    table[first, second] = table[second, first] = triangle
    return table
