"""`TreePosterior`: what weighted decision trees say about new rows, about features and about themselves."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import checked_count, checked_levels, is_int, is_real
from pymc_spn.numerics.chain_mixing import Questions, diagnosis
from pymc_spn.numerics.html_repr import LATER, Facts, Listed
from pymc_spn.numerics.marks import GIVEN_DRAWS, error_of_log, limited
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.records.posterior_of_draws import ASKING, PosteriorOfDraws
from pymc_spn.records.structure_records import Recorded
from pymc_spn.tables import describe_columns, row_labels
from pymc_spn.tables.column import list_of_columns
from pymc_spn.tables.frame_kinds import frame_of_kind, labelled_frame_of_kind
from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees import effects
from pymc_spn.trees.draws import GROUP, TreeDraws
from pymc_spn.trees.features import TREE_BYTES, check_same_rows, code_rows
from pymc_spn.trees.leaf_summaries import leaf_frame, tree_rules
from pymc_spn.trees.predictive_quantiles import predictive_cdf, predictive_quantiles
from pymc_spn.trees.predictives import (
    average,
    class_payload,
    log_leave_one_out,
    log_predictive_density,
    moment_payload,
)
from pymc_spn.trees.record import TREES, trees_of_record
from pymc_spn.trees.schema import TICKET
from pymc_spn.trees.tree import Tree

ROUNDING = 1e-12  # of sums of probabilities of classes
QUANTILE_TOLERANCE = 1e-12  # of the spread of a row's law: rounding of its distribution function


class TreePosterior(PosteriorOfDraws):
    """Posterior over decision trees: weighted draws with their training data. Made by `fit_tree` or `from_idata`.

    Answers about new rows average the leaves' posterior predictives over the draws. Cuts are uniform in the gap
    between two training values, and ``soft=True`` averages over that too, exactly. A missing value follows the side
    that the split learned, or both branches by their shares of the training rows.

    Examples
    --------
    >>> trees = ps.fit_tree(X, y, random_seed=1)
    >>> trees.predict(pd.DataFrame({"age": [30.0, 60.0], "job": ["nurse", "clerk"]})).round(-1).values
    array([40., 50.])
    """

    record = TREES

    def __init__(self, draws: TreeDraws) -> None:
        if not isinstance(draws, TreeDraws):
            raise TypeError(
                f"TreePosterior needs drawn trees, got {type(draws).__name__}. Make it by "
                "ps.TreePosterior.from_idata(idata) or ps.fit_tree(X, y)"
            )
        self._draws = draws
        self._weights = draws.weights / draws.weights.sum()

    # ---- origin and storage

    @classmethod
    def _of(cls, recorded: Recorded) -> Self:
        post = cls(trees_of_record(recorded))
        joint = recorded.of_posterior(recorded.schema.name + TICKET)
        if joint is not None:  # as it was recorded, without a look at the training rows
            post.__dict__["_log_joint"] = joint
        return post

    def _saved(self) -> xr.DataTree:
        return self._draws.to_tree()

    @classmethod
    def _of_tree(cls, tree: xr.DataTree, name: str | None = None) -> Self:
        return cls(TreeDraws.from_tree(tree)) if GROUP in tree.children else super()._of_tree(tree, name)

    def _facts(self) -> Facts:
        d = self._draws
        groups = "chains" if d.of_chains else "islands"
        facts = {"trees": f"{d.n_trees} trees in {len(np.unique(d.group))} {groups}", "rows": f"{len(d.y)} rows"}
        facts["leaves"] = type(d.family).__name__
        facts["features"] = f"{len(d.features.names)} features ({describe_columns(d.features.columns)})"
        return Facts("TreePosterior", facts | {LATER: str(self._mixing or "")})

    def _listed(self) -> Listed:
        features = self._draws.features
        return list_of_columns(features.columns, np.isnan(features.values).sum(axis=0))

    # ---- the run

    @property
    def weights(self) -> xr.DataArray:
        """(tree,) weights in use; coordinates ``group`` (island or chain) and ``number``.

        Examples
        --------
        >>> float(trees.weights.sum().round(6))
        1.0
        """
        coords = {"group": ("tree", self._draws.group), "number": ("tree", self._draws.draw)}
        return xr.DataArray(self._weights, dims="tree", coords=coords, name="weight")

    @property
    def log_evidence_islands(self) -> xr.DataArray:
        """(island,) log of the unbiased estimates of the evidence, in nats.

        Examples
        --------
        >>> trees.log_evidence_islands.dims
        ('island',)
        """
        return xr.DataArray(np.atleast_1d(self._evidences()), dims="island", attrs={"exactness": "monte-carlo"})

    @property
    def log_evidence(self) -> xr.DataArray:
        """Log of the mean of the islands' evidences, in nats; exact for ``exact=True``.

        Its error is `log_evidence_se`. If the islands differ by nats, the evidence is an underestimate.

        Examples
        --------
        >>> float(trees.log_evidence) < 0
        True
        """
        values = self._evidences()
        if values.ndim == 0:
            return xr.DataArray(values, attrs={"exactness": "exact"})
        top, sizes = values.max(), np.unique(self._draws.group, return_counts=True)[1]
        value = top + np.log(np.average(np.exp(values - top), weights=sizes))
        se = self.log_evidence_se
        note = {"mcse_note": se.attrs["note"]} if "note" in se.attrs else {}
        return xr.DataArray(value, attrs={"exactness": "monte-carlo", "mcse": float(se), **note})

    @property
    def log_evidence_se(self) -> xr.DataArray:
        """Standard error of `log_evidence` from the islands (delta method); 0 where that is exact.

        NaN, with the reason in ``attrs["note"]``, for one island and where it would exceed one half. It cannot exceed 1
        whatever the islands say, and comes near that if one of them outweighs the others: it is then no measure of the
        error. At one half fewer than four islands count; of two, one is three times as large as the other.

        ``attrs["spread"]`` is the standard deviation of the islands' log evidences. A standard error bounds the error
        from below: islands can miss the same trees and agree (the tutorial's last example).

        Examples
        --------
        >>> float(trees.log_evidence_se) < 1.0
        True
        """
        values = self._evidences()
        if values.ndim == 0:
            return xr.DataArray(0.0, attrs={"exactness": "exact", "spread": 0.0})
        relative = np.exp(values - values.max())
        n = len(values)
        attrs: dict[str, Any] = {"exactness": "monte-carlo", "spread": float("nan")}
        if n == 1:
            return xr.DataArray(np.nan, attrs=attrs | {"note": "no standard error: there is one island"})
        attrs["spread"] = float(values.std(ddof=1))
        effective = relative.sum() ** 2 / (relative**2).sum()
        error = error_of_log(
            float(relative.std(ddof=1) / np.sqrt(n) / relative.mean()),
            f"{effective:.1f} of {n} islands, whose log evidences differ by up to {np.ptp(values):.1f} nats",
        )
        note = {"note": error["mcse_note"]} if "mcse_note" in error else {}
        return xr.DataArray(error["mcse"], attrs=attrs | note)

    def _evidences(self) -> np.ndarray:
        if self._draws.log_evidence is None:
            raise ValueError(
                "the draws of pm.sample estimate no evidence; use ps.fit_tree or ps.trees.exact_tree_evidence"
            )
        return self._draws.log_evidence

    # ---- predictions

    @property
    def classes(self) -> list[Any]:
        """Levels of the response.

        Examples
        --------
        >>> jobs = ps.fit_tree(X[["age"]], X["job"], random_seed=1)
        >>> jobs.classes
        ['clerk', 'nurse']
        """
        levels = self._draws.levels
        if levels is None:
            raise ValueError(f"classes: the response is of family {self._draws.family.family!r}, not of classes")
        return levels

    def predict_proba(
        self, X: TableLike, *, soft: bool = True, per_draw: bool = False, unseen: str = "error"
    ) -> xr.DataArray:
        """Predict the probabilities of the classes at new rows.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            Columns of the training table.
        soft : bool
            Average over the place of each cut in its gap; else cuts are at the middle.
        per_draw : bool
            One answer for each tree, (tree, row, level).
        unseen : {"error", "missing"}
            What to do with levels that the training table does not have.

        Returns
        -------
        DataArray
            (row, level); exact given the draws. ``attrs["mcse_chain"]`` is the largest standard error from the spread
            between chains or islands.

        Raises
        ------
        TypeError, ValueError
            If the response is of numbers, or the rows are refused by the schema of the training table.

        Examples
        --------
        >>> jobs = ps.fit_tree(X[["age"]], X["job"], random_seed=1)
        >>> jobs.predict_proba(pd.DataFrame({"age": [60.0]})).sel(level="clerk").item() > 0.7
        True
        """
        return self._answer(X, class_payload(self._draws), ("level", self.classes), soft, per_draw, unseen)

    def predict(self, X: TableLike, *, soft: bool = True, unseen: str = "error") -> xr.DataArray:
        """Predict the most probable class, or the mean, at new rows.

        Parameters
        ----------
        X, soft, unseen
            As for `predict_proba`.

        Returns
        -------
        DataArray
            (row,): labels, of equally probable ones the first; or float64 in the units of the response.
            ``attrs["mcse_chain"]`` is the largest standard error, of the probabilities or of these means, from the
            spread between chains or islands.

        Examples
        --------
        >>> ages = pd.DataFrame({"age": [30.0, 60.0], "job": ["nurse", "clerk"]})
        >>> trees.predict(ages).round(-1).values
        array([40., 50.])
        """
        if self._draws.levels is not None:
            p = self.predict_proba(X, soft=soft, unseen=unseen)
            return p.isel({"level": 0}, drop=True).copy(data=np.asarray(self.classes)[p.values.argmax(1)])
        # the mean alone: `mcse_chain` is the largest of what is averaged
        mean = moment_payload(self._draws)[:, :1].copy()
        return self._answer(X, mean, ("moment", ["mean"]), soft, False, unseen).sel(moment="mean", drop=True)

    def log_predictive(
        self, X: TableLike, y: npt.ArrayLike, *, soft: bool = True, unseen: str = "error"
    ) -> xr.DataArray:
        """Calculate the log posterior predictive density or probability of ``y``.

        Parameters
        ----------
        X, soft, unseen
            As for `predict_proba`.
        y : (N,) array_like
            A response for each row, such as those of the training table.

        Returns
        -------
        DataArray
            (row,) float64, in nats; densities are per unit of the response. ``attrs["mcse_chain"]`` is the largest
            standard error from the spread between chains or islands (delta method).

        Raises
        ------
        TypeError, ValueError
            If `y` has another length, gaps, or a class that the training response did not have.

        Examples
        --------
        >>> trees.log_predictive(X.head(2), y.head(2)).dims
        ('row',)
        """
        values, labels = self._rows(X, unseen)
        coded, _ = self._draws.family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        shares, parts = self._by_group(lambda w: log_predictive_density(self._draws, w, values, soft, coded))
        top = parts.max(0)
        relative = np.exp(parts - np.where(top > -np.inf, top, 0.0))
        density = np.where(top > -np.inf, relative.sum(0), 1.0)
        away = relative / density - shares[:, None]
        return self._labelled(np.log(density) + top, ("row",), {"row": labels}, away)

    def log_likelihood(self, *, progressbar: bool = True) -> xr.DataArray:
        """Calculate leave-one-out log predictives of the training rows for ``az.loo``.

        Parameters
        ----------
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (chain, draw, row) float64, in nats. ``xr.DataTree(values.to_dataset(name="y"))`` is the group
            ``idata["log_likelihood"]``, "y" the name of the response.

        Raises
        ------
        ValueError
            For weighted trees of `fit_tree`.

        Examples
        --------
        >>> sampled = ps.TreePosterior.from_idata(tree_idata)
        >>> sampled.log_likelihood().dims
        ('chain', 'draw', 'row')
        """
        d = self._draws
        if d.of_islands:
            raise ValueError("log_likelihood needs the unweighted draws of pm.sample, not the particles of fit_tree")
        chains = pd.unique(d.group)  # in the order in which the draws stand
        with counted(ASKING, progressbar):
            values = np.array([log_leave_one_out(d, t) for t in each(range(d.n_trees))])
        values = values.reshape(len(chains), -1, len(d.y))
        coords = {"chain": chains, "draw": d.draw[d.group == chains[0]]}
        return xr.DataArray(values, dims=("chain", "draw", "row"), coords=coords, attrs={"exactness": "exact"})

    def _rows(self, X: Any, unseen: str) -> tuple[np.ndarray, Any]:
        values = code_rows(self._draws.features.columns, X, unseen)
        index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(len(values))
        return values, row_labels(index)

    def _answer(self, X: Any, payload: Any, extra: Any, soft: bool, per_draw: bool, unseen: str) -> Any:
        d = self._draws
        values, labels = self._rows(X, unseen)
        dims, coords = ("row", extra[0]), {"row": labels, extra[0]: extra[1]}
        if per_draw:
            size = d.n_trees * (d.n_trees + 2 * len(values) * payload.shape[1])
            what = f"per_draw=True with {d.n_trees:,} trees and {len(values):,} rows"
            refuse_memory(what, 8.0 * size, "ask for fewer rows at once")
            one = np.eye(d.n_trees)
            stacked = np.stack([average(d, one[t], values, soft, payload) for t in range(d.n_trees)])
            return xr.DataArray(stacked, dims=("tree", *dims), coords=coords, attrs={"exactness": "exact"})
        shares, parts = self._by_group(lambda w: average(d, w, values, soft, payload))
        total = parts.sum(0)
        return self._labelled(total, dims, coords, parts - shares[:, None, None] * total)

    @staticmethod
    def _mark(mark: str = "exact") -> dict[str, Any]:
        """The mark of an answer from all trees; the answer of one tree is not given the draws."""
        return {"exactness": limited(mark, GIVEN_DRAWS)}

    def _by_group(self, part: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(G,) weight of each chain or island, of those that have any, and the parts of an average by their trees."""
        weights = self._group_weights()
        return np.array([w.sum() for w in weights]), np.stack([part(w) for w in weights])

    def _group_weights(self) -> list[np.ndarray]:
        """Weights (T,) of the trees of each chain or island that has any, 0 for the others."""
        groups = np.unique(self._draws.group)
        weights = [np.where(self._draws.group == g, self._weights, 0.0) for g in groups]
        return [w for w in weights if w.any()]

    def _labelled(self, values: np.ndarray, dims: Any, coords: Any, away: np.ndarray) -> Any:
        """An answer with its largest chain error; ``away``: each group's share times what it alone answers differently,
        to first order."""
        attrs: dict[str, Any] = self._mark()
        n = len(np.unique(self._draws.group))
        if n > 1:
            unit = max(float(np.abs(away).max(initial=0.0)), np.finfo(float).tiny)  # squares may be no floats
            error = unit * np.sqrt(((away / unit) ** 2).sum(0) * n / (n - 1))
            attrs["mcse_chain"] = float(error.max(initial=0.0))
        return xr.DataArray(values, dims=dims, coords=coords, attrs=attrs)

    def predict_sd(self, X: TableLike, *, soft: bool = True, unseen: str = "error") -> xr.DataArray:
        """Calculate the predictive standard deviation of a numeric response.

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
        payload = moment_payload(self._draws, float(self._draws.y.mean() if numbers is None else numbers.mean()))
        mean = average(self._draws, self._weights, values, soft, payload[:, :1].copy())[:, 0]
        # about the mean of each row: a difference of mean squares about one origin would cancel
        shares, parts = self._by_group(lambda w: average(self._draws, w, values, soft, payload, mean)[:, 0])
        variance = parts.sum(0)
        sd = np.sqrt(variance)
        with np.errstate(invalid="ignore", divide="ignore"):  # an infinite one has no error, and one of 0 none either
            away = np.where(sd > 0.0, 0.5 * (parts - shares[:, None] * variance) / sd, 0.0)
        return self._labelled(sd, ("row",), {"row": labels}, away)

    def predict_quantile(
        self, X: TableLike, q: npt.ArrayLike, *, soft: bool = True, unseen: str = "error", progressbar: bool = True
    ) -> xr.DataArray:
        """Calculate predictive quantiles of a numeric response at new rows.

        The smallest y with P(response <= y) >= q, of the average over the draws. Normal leaves know no bounds: of a
        response that is never negative, quantiles can be. Those of its log, by ``np.exp``, cannot.

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
        if self._draws.family.family == "counts":
            answer.attrs.pop("mcse_chain", None)  # a quantile of counts moves in steps
        else:
            answer.attrs |= self._mark("numerical") | {"tolerance": QUANTILE_TOLERANCE}
        return answer if asked.ndim else answer.isel(quantile=0)

    def predict_cdf(self, X: TableLike, y: npt.ArrayLike, *, soft: bool = True, unseen: str = "error") -> xr.DataArray:
        """Calculate P(response <= y) at new rows, of a real or count response.

        Over new rows they are uniform if the predictive distribution of a real response is right.

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
        coded, _ = self._draws.family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        parts = predictive_cdf(self._draws, self._group_weights(), values, soft, coded)
        found, shares = parts.sum(axis=0), np.array([w.sum() for w in self._group_weights()])
        return self._labelled(found, ("row",), {"row": labels}, parts - shares[:, None] * found)

    def _numbers(self, query: str) -> np.ndarray | None:
        """The classes (K,) as numbers, ascending; None for a real or count response."""
        if self._draws.levels is None:
            return None
        if not all(is_real(level) for level in self.classes):
            raise ValueError(f"{query} is for responses that are numbers; use predict_proba")
        return np.array(self.classes, np.float64)

    def _of_classes(self, values: np.ndarray, soft: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shares (G, 1, 1) of chains or islands, probabilities (m, K) of the classes, and each one's part of these."""
        payload = class_payload(self._draws)
        shares, parts = self._by_group(lambda w: average(self._draws, w, values, soft, payload))
        return shares[:, None, None], parts.sum(axis=0), parts

    def variable_inclusion(self) -> xr.DataArray:
        """Calculate how probably each feature is used, and its share of the splits.

        Returns
        -------
        DataArray
            (statistic, feature) float64, the statistics being ``probability`` and ``share``.

        Examples
        --------
        >>> trees.variable_inclusion().sel(statistic="probability", feature="age").item() > 0.99
        True
        """
        return effects.inclusion(self._draws, self._weights).assign_attrs(self._mark())

    def variable_importance(
        self,
        X: TableLike | None = None,
        y: npt.ArrayLike | None = None,
        *,
        progressbar: bool = True,
    ) -> pd.DataFrame:
        """Rank features by the log predictive of submodels that see ever more of them.

        If a split asks for a feature that a submodel does not see, the submodel takes both branches, by their shares of
        the training rows.

        Parameters
        ----------
        X, y : optional
            Rows and responses to score, both or neither; by default the training rows.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the features were
            ``feature``, first "(none)"; ``log_predictive``, the mean over rows in nats; ``gain`` over the step before.

        Raises
        ------
        ValueError
            If only one of `X` and `y` is given.

        Examples
        --------
        >>> trees.variable_importance()["feature"].tolist()
        ['(none)', 'age', 'job']
        """
        values, coded = self._scored(X, y)
        with counted("Adding features", progressbar):
            frame = effects.importance(self._draws, self._weights, values, coded)
        frame.attrs |= self._mark()
        return frame_of_kind(frame, self._draws.features.frame)

    def partial_dependence(
        self,
        feature: str,
        grid: npt.ArrayLike | None = None,
        X: TableLike | None = None,
        *,
        per_draw: bool = False,
        progressbar: bool = True,
    ) -> xr.DataArray:
        """Average predictions over rows, with one feature set to each value of a grid.

        Parameters
        ----------
        feature : str
            The answer's dimension; one called ``row``, ``tree`` or ``level`` has it as ``row_value`` and so on.
        grid : sequence, optional
            20 quantiles or all levels by default.
        X : optional
            Rows to average over, by default the training rows.
        per_draw : bool
            One curve for each tree: the posterior of the curve.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (feature,), for classes (feature, level), with ``per_draw`` a dimension ``tree`` in front; float64.

        Raises
        ------
        ValueError
            If there is no such feature, `grid` holds what it cannot be, or `X` has no rows.

        Examples
        --------
        >>> trees.partial_dependence("age", grid=[30.0, 60.0]).round(-1).values
        array([40., 50.])
        """
        values = self._draws.features.values if X is None else self._rows(X, "error")[0]
        if not len(values):
            raise ValueError("X must have at least one row to average over, it has none")
        with counted("Setting a feature", progressbar):
            sets = np.eye(self._draws.n_trees) if per_draw else self._weights[None]
            answer = effects.curves(self._draws, sets, feature, grid, values)
        if per_draw:
            return answer.assign_attrs(exactness="exact")
        return answer.isel(tree=0).assign_attrs(self._mark())

    def ice(
        self, feature: str, grid: npt.ArrayLike | None = None, X: TableLike | None = None, progressbar: bool = True
    ) -> xr.DataArray:
        """Calculate individual conditional expectations: the curve of every row.

        Parameters
        ----------
        feature, grid, X
            As for `partial_dependence`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (row, feature), for classes (row, feature, level); float64.

        Examples
        --------
        >>> trees.ice("age", grid=[30.0, 60.0]).dims
        ('row', 'age')
        """
        values = self._draws.features.values if X is None else self._rows(X, "error")[0]
        with counted("Setting a feature", progressbar):
            curves = effects.curves(self._draws, self._weights[None], feature, grid, values, of_rows=True)
        return curves.assign_attrs(self._mark())

    def _scored(self, X: Any, y: Any) -> Any:
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together, or neither")
        if X is None:
            return self._draws.features.values, self._draws.y
        values, (coded, _) = self._rows(X, "error")[0], self._draws.family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        return values, coded

    def sample_trees(self, n: int, random_seed: int | np.random.Generator | None = None) -> list[Tree]:
        """Draw trees by their weights, with replacement.

        Parameters
        ----------
        n : int
            At least 0.
        random_seed : int or Generator, optional

        Returns
        -------
        list of Tree

        Raises
        ------
        ValueError
            If `n` is not an integer of at least 0.

        Examples
        --------
        >>> len(trees.sample_trees(3, random_seed=1))
        3
        """
        checked_count("n", n, 0, TREE_BYTES)
        rng = np.random.default_rng(random_seed)
        return [self._draws.tree(t) for t in rng.choice(self._draws.n_trees, n, p=self._weights)]

    def most_probable(self) -> int:
        """Return the number of the drawn tree with the largest log joint density.

        Examples
        --------
        >>> trees.rules(trees.most_probable()).splitlines()[0]
        'all rows [79]'
        """
        return int(np.argmax(self._draws.log_joint))

    def tree(self, number: int) -> Tree:
        """Return one of the drawn trees.

        Parameters
        ----------
        number : int
            From 0, in the order of `weights`.

        Returns
        -------
        Tree

        Raises
        ------
        ValueError
            If there is no such number.

        Examples
        --------
        >>> trees.tree(0).decisions.shape[1]
        4
        """
        if not is_int(number) or not 0 <= number < self._draws.n_trees:
            raise ValueError(f"number must be an integer in 0..{self._draws.n_trees - 1}, got {quoted(number)}")
        return self._draws.tree(number)

    def rules(self, number: int | None = None) -> str:
        """Write one tree as text, with rows of each node and predictions of leaves.

        Parameters
        ----------
        number : int, optional
            The most probable tree by default.

        Returns
        -------
        str

        Examples
        --------
        >>> trees.rules().splitlines()[0]
        'all rows [79]'
        """
        return tree_rules(self._draws, self._number(number))

    def leaf_posterior(self, number: int | None = None, mass: float = 0.9) -> pd.DataFrame:
        """Describe each leaf of one tree: rule, rows, posterior of its parameters.

        Parameters
        ----------
        number : int, optional
            The most probable tree by default.
        mass : float
            Of the central credible intervals.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the features were
            A row for each leaf, by its node's number: ``rule`` as text, ``rows`` of the training table, and the
            posterior mean of each parameter with the ends of its interval. The parameters are the probabilities of the
            classes, mean and sd, or the rate.

        Raises
        ------
        ValueError
            If there is no such tree, or `mass` lies outside (0, 1).

        Examples
        --------
        >>> trees.leaf_posterior().columns.tolist()
        ['rule', 'rows', 'mean', 'mean low', 'mean high', 'sd', 'sd low', 'sd high']
        """
        if not 0.0 < mass < 1.0:
            raise ValueError(f"mass must lie in (0, 1), got {quoted(mass)}")
        found = leaf_frame(self._draws, self._number(number), mass)
        return labelled_frame_of_kind(found, self._draws.features.frame, "node")

    def _number(self, number: int | None) -> int:
        if number is None:
            return self.most_probable()
        self.tree(number)
        return number

    @property
    def log_joint(self) -> xr.DataArray:
        """(tree,) log prior of each tree plus the log marginal likelihood of its leaves, in nats.

        Examples
        --------
        >>> trees.log_joint.dims
        ('tree',)
        """
        return xr.DataArray(self._draws.log_joint, dims="tree", attrs={"exactness": "exact"})

    @cached_property
    def _log_joint(self) -> np.ndarray | None:
        """(chain, draw) log joint; None for trees that are not from chains."""
        if not self._draws.of_chains:
            return None
        return self._draws.log_joint.reshape(len(np.unique(self._draws.group)), -1)

    @property
    def _frame(self) -> str | None:
        return self._draws.features.frame

    @property
    def _name(self) -> str:
        return self._draws.name

    def diagnose(
        self,
        questions: Questions | None = None,
        X: TableLike | None = None,
        y: npt.ArrayLike | None = None,
        max_rows: int = 20,
        progressbar: bool = True,
    ) -> pd.DataFrame:
        """Tabulate R-hat and effective size of log joint, rows and any questions.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives one value for each tree (dimension ``tree``) or for each draw of each
            chain, as in ``{"P(yes)": lambda post: post.predict_proba(new, per_draw=True).sel({"level": "yes"})}``. With
            other dimensions each of their labels has a row.
        X, y : optional
            Rows and responses for the log predictive, both or neither; by default the training rows.
        max_rows : int
            Rows that are shown, taken evenly. The mean over all rows is always there.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the features were
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat`` over the draws of all chains, NaN where
            they are not defined.

        Raises
        ------
        TypeError, ValueError
            If the trees are not from ``pm.sample``, or only one of `X` and `y` is given. If `questions` is not a
            mapping to functions, or an answer does not have one value for each tree.

        Examples
        --------
        >>> ps.TreePosterior.from_idata(tree_idata).diagnose().columns.tolist()
        ['mean', 'sd', 'ess_bulk', 'r_hat']
        """
        checked_count("max_rows", max_rows, 0)
        values, coded = self._scored(X, y)
        rows = range(len(coded)) if not isinstance(X, pd.DataFrame) else X.index.tolist()
        with counted(ASKING, progressbar):
            found = diagnosis_of_trees(self, questions, values, coded, rows, max_rows)
        return labelled_frame_of_kind(found, self._frame, "quantity")


def diagnosis_of_trees(
    post: Any, questions: Questions | None, values: np.ndarray, y: np.ndarray, rows: Any, max_rows: int
) -> pd.DataFrame:
    """The table of `TreePosterior.diagnose`; values, responses and labels are those of the rows."""
    draws = post._draws
    if not draws.of_chains:
        raise ValueError(
            "diagnose compares the chains of pm.sample, and these trees are from none; the islands of fit_tree are "
            "compared by log_evidence_islands and log_evidence_se"
        )
    chains = np.unique(draws.group)
    shape = len(chains), draws.n_trees // len(chains)
    one = np.eye(draws.n_trees)
    each_tree = [log_predictive_density(draws, one[t], values, True, y) for t in each(range(draws.n_trees))]
    values = np.array(each_tree).reshape(*shape, len(y))
    logs = xr.DataArray(values, {"row": list(rows)}, dims=("chain", "draw", "row"))
    own = {"log_joint": xr.DataArray(draws.log_joint.reshape(shape), dims=("chain", "draw"))}
    if len(y):
        shown = np.unique(np.linspace(0, len(y) - 1, min(max_rows, len(y))).round().astype(int))
        own |= {"log_predictive, mean of rows": logs.mean("row"), "log_predictive": logs.isel(row=shown)}

    def by_chain(answer: Any) -> Any:
        if "tree" not in getattr(answer, "dims", ()) or answer.sizes["tree"] != draws.n_trees:
            return answer
        answer = answer.transpose("tree", ...)
        coords = {d: answer[d].values for d in answer.dims[1:]}
        return xr.DataArray(
            answer.values.reshape(*shape, *answer.shape[1:]), coords, ("chain", "draw", *answer.dims[1:])
        )

    return diagnosis(post, questions, own, by_chain)
