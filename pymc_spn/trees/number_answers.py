"""How a response that is a number is spread at new rows: standard deviations, quantiles, distribution functions."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pymc_spn.numerics.asked_numbers import checked_levels
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees.features import check_same_rows
from pymc_spn.trees.predictive_quantiles import predictive_cdf, predictive_quantiles
from pymc_spn.trees.predictives import average, class_payload, moment_payload

if TYPE_CHECKING:
    import xarray as xr

ROUNDING = 1e-12  # of sums of probabilities of classes
QUANTILE_TOLERANCE = 1e-12  # of the spread of a row's law: rounding of its distribution function


class NumberAnswers:
    """Queries of `TreePosterior` about a response that is a number: real, a count, or classes of whole numbers."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def predict_sd(self, X: TableLike, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """Standard deviation of the posterior predictive of a response that is a number.

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
            If the response is of classes that are not whole numbers.

        Examples
        --------
        >>> trees.predict_sd(X.head(2)).dims
        ('row',)
        """
        numbers = self._numbers("predict_sd")
        values, labels = self._rows(X, unseen)
        if numbers is not None:
            shares, p, own = self._of_classes(values, soft)
            mean = p @ numbers
            away = (numbers - mean[:, None]) ** 2
            sd = np.sqrt((p * away).sum(axis=1))
            with np.errstate(invalid="ignore", divide="ignore"):
                error = np.where(sd > 0.0, 0.5 * ((own - shares * p) * away).sum(axis=2) / sd, 0.0)
            return self._labelled(sd, ("row",), {"row": labels}, error)
        payload = moment_payload(self._draws, float(self._draws.y.mean()))
        mean = average(self._draws, self._weights, values, soft, payload[:, :1].copy())[:, 0]
        # about the mean of each row: a difference of mean squares about one origin would cancel
        shares, parts = self._by_group(lambda w: average(self._draws, w, values, soft, payload, mean)[:, 0])
        variance = parts.sum(0)
        sd = np.sqrt(variance)
        with np.errstate(invalid="ignore"):  # an infinite one has no error
            away = 0.5 * (parts - shares[:, None] * variance) / sd
        return self._labelled(sd, ("row",), {"row": labels}, away)

    def predict_quantile(
        self, X: TableLike, q: npt.ArrayLike, *, soft: bool = True, unseen: str = "error", progressbar: bool = True
    ) -> "xr.DataArray":
        """Quantiles of the posterior predictive of a response that is a number: predictive intervals.

        The smallest y with P(response <= y) >= q, of the average over the draws.

        Parameters
        ----------
        X, soft, unseen
            As for `predict_proba`.
        q : float or sequence of float
            Between 0 and 1.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (row,), or (row, quantile) for several levels, in the units of the response; exact for counts and classes,
            numerical for a real response. At 0 and 1 the ends of the support. ``attrs["mcse_chain"]`` is the largest
            standard error from the spread between chains or islands (delta method), of a real response.

        Raises
        ------
        TypeError, ValueError
            If the response is of classes that are not whole numbers, or q is not within 0 and 1.

        Examples
        --------
        >>> trees.predict_quantile(X.head(2), [0.05, 0.95]).dims
        ('row', 'quantile')
        """
        numbers = self._numbers("predict_quantile")
        asked = checked_levels(q)
        levels = np.atleast_1d(asked)
        values, labels = self._rows(X, unseen)
        if numbers is not None:
            below = np.cumsum(self._of_classes(values, soft)[1], axis=1)
            below[:, -1] = 1.0
            found = numbers[(below[:, :, None] < levels * (1.0 - ROUNDING)).sum(axis=1)]
            answer = self._labelled(found, ("row", "quantile"), {"row": labels, "quantile": levels}, np.zeros((1, 1)))
            answer.attrs.pop("mcse_chain", None)
            return answer if asked.ndim else answer.isel(quantile=0)
        with counted("Searching quantiles", progressbar):
            found, away = predictive_quantiles(self._draws, self._group_weights(), values, soft, levels)
        coords = {"row": labels, "quantile": levels}
        answer = self._labelled(found, ("row", "quantile"), coords, away[..., (levels > 0.0) & (levels < 1.0)])
        if self._draws.family["family"] == "counts":
            answer.attrs.pop("mcse_chain", None)  # a quantile of counts moves in steps
        else:
            answer.attrs |= self._mark("numerical") | {"tolerance": QUANTILE_TOLERANCE}
        return answer if asked.ndim else answer.isel(quantile=0)

    def predict_cdf(
        self, X: TableLike, y: npt.ArrayLike, *, soft: bool = True, unseen: str = "error"
    ) -> "xr.DataArray":
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
            If the response is of classes that are not whole numbers, or `y` has another length, gaps or no row.

        Examples
        --------
        >>> trees.predict_cdf(X.head(2), y.head(2)).dims
        ('row',)
        """
        numbers = self._numbers("predict_cdf")
        values, labels = self._rows(X, unseen)
        if numbers is not None:
            asked = np.asarray(y, np.float64)
            check_same_rows(X, y, len(values), len(asked))
            shares, p, own = self._of_classes(values, soft)
            inside = numbers <= asked[:, None]
            found = np.where(inside.all(axis=1), 1.0, (p * inside).sum(axis=1))
            return self._labelled(found, ("row",), {"row": labels}, ((own - shares * p) * inside).sum(axis=2))
        coded, _ = self._draws.leaf_family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        parts = predictive_cdf(self._draws, self._group_weights(), values, soft, coded)
        found, shares = parts.sum(axis=0), np.array([w.sum() for w in self._group_weights()])
        return self._labelled(found, ("row",), {"row": labels}, parts - shares[:, None] * found)

    def _numbers(self, query: str) -> np.ndarray | None:
        """The classes (K,) as numbers, ascending; None for a real or count response."""
        if self._draws.family["family"] not in ("classes", "binary"):
            return None
        if not all(isinstance(level, int | float) and not isinstance(level, bool) for level in self.classes):
            raise ValueError(f"{query} is for responses that are numbers; use predict_proba")
        return np.array(self.classes, np.float64)

    def _of_classes(self, values: np.ndarray, soft: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shares (G, 1, 1) of chains or islands, probabilities (m, K) of the classes, and each one's part of these."""
        payload = class_payload(self._draws)
        shares, parts = self._by_group(lambda w: average(self._draws, w, values, soft, payload))
        return shares[:, None, None], parts.sum(axis=0), parts
