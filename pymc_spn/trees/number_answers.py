"""How a real or count response is spread at new rows: standard deviations, quantiles, distribution functions."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.numerics.asked_numbers import checked_levels
from pymc_spn.trees.features import check_same_rows
from pymc_spn.trees.predictive_quantiles import predictive_cdf, predictive_quantiles
from pymc_spn.trees.predictives import average, moment_payload

if TYPE_CHECKING:
    import xarray as xr

QUANTILE_TOLERANCE = 1e-12  # of the spread of a row's law: rounding of its distribution function


class NumberAnswers:
    """Queries of `TreePosterior` about a response that is a number."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def predict_sd(self, X: Any, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """Standard deviation of the posterior predictive of a real or count response.

        Parameters
        ----------
        X, soft, unseen
            As for `predict_proba`.

        Returns
        -------
        DataArray
            (row,) float64, in the units of the response: of a new value, not of the mean. ``attrs["mcse_chain"]`` is
            the largest standard error from the spread between chains or islands (delta method).

        Raises
        ------
        ValueError
            If the response is of classes.
        """
        self._refuse_classes("predict_sd")
        values, labels = self._rows(X, unseen)
        payload = moment_payload(self._draws, float(self._draws.y.mean()))
        mean = average(self._draws, self._weights, values, soft, payload[:, :1].copy())[:, 0]
        # about the mean of each row: a difference of mean squares about one origin would cancel
        shares, parts = self._by_group(lambda w: average(self._draws, w, values, soft, payload, mean)[:, 0])
        variance = parts.sum(0)
        sd = np.sqrt(variance)
        with np.errstate(invalid="ignore"):  # an infinite one has no error
            away = 0.5 * (parts - shares[:, None] * variance) / sd
        return self._labelled(sd, ("row",), {"row": labels}, away)

    def predict_quantile(self, X: Any, q: Any, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """Quantiles of the posterior predictive of a real or count response: predictive intervals.

        The smallest y with P(response <= y) >= q, of the average over the draws.

        Parameters
        ----------
        X, soft, unseen
            As for `predict_proba`.
        q : float or sequence of float
            Between 0 and 1.

        Returns
        -------
        DataArray
            (row,), or (row, quantile) for several levels, in the units of the response; exact for counts, numerical for
            a real response. At 0 and 1 the ends of the support. ``attrs["mcse_chain"]`` is the largest standard error
            from the spread between chains or islands (delta method), of a real response.

        Raises
        ------
        TypeError, ValueError
            If the response is of classes, or q is not within 0 and 1.
        """
        self._refuse_classes("predict_quantile")
        asked = checked_levels(q)
        levels = np.atleast_1d(asked)
        values, labels = self._rows(X, unseen)
        found, away = predictive_quantiles(self._draws, self._group_weights(), values, soft, levels)
        coords = {"row": labels, "quantile": levels}
        answer = self._labelled(found, ("row", "quantile"), coords, away[..., (levels > 0.0) & (levels < 1.0)])
        if self._draws.family["family"] == "counts":
            answer.attrs.pop("mcse_chain", None)  # a quantile of counts moves in steps
        else:
            answer.attrs |= self._mark("numerical") | {"tolerance": QUANTILE_TOLERANCE}
        return answer if asked.ndim else answer.isel(quantile=0)

    def predict_cdf(self, X: Any, y: Any, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """P(response <= y) at new rows: probability integral transforms of a real or count response.

        Over rows that were not learned from they are uniform where the predictive distribution of a real response is
        right.

        Parameters
        ----------
        X, soft, unseen
            As for `predict_proba`.
        y : (N,) array_like
            A response for each row.

        Returns
        -------
        DataArray
            (row,) float64, of the average over the draws; exact. ``attrs["mcse_chain"]`` is the largest standard error
            from the spread between chains or islands.

        Raises
        ------
        TypeError, ValueError
            If the response is of classes, or `y` has another length, gaps or no row.
        """
        self._refuse_classes("predict_cdf")
        values, labels = self._rows(X, unseen)
        coded, _ = self._draws.leaf_family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        parts = predictive_cdf(self._draws, self._group_weights(), values, soft, coded)
        found, shares = parts.sum(axis=0), np.array([w.sum() for w in self._group_weights()])
        return self._labelled(found, ("row",), {"row": labels}, parts - shares[:, None] * found)

    def _refuse_classes(self, query: str) -> None:
        if self._draws.family["family"] in ("classes", "binary"):
            raise ValueError(f"{query} is for real and count responses; use predict_proba")
