"""`TreePosterior`: what weighted decision trees say about new rows, about features and about themselves."""

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.tables import row_labels
from pymc_spn.tables.tree_files import read_results, read_tree
from pymc_spn.trees import agreement, effects
from pymc_spn.trees.draws import GROUP, TreeDraws
from pymc_spn.trees.features import check_same_rows
from pymc_spn.trees.leaf_summaries import leaf_frame, tree_rules
from pymc_spn.trees.predictives import (
    average,
    class_payload,
    log_leave_one_out,
    log_predictive_density,
    moment_payload,
)
from pymc_spn.trees.tree import Tree

if TYPE_CHECKING:
    import xarray as xr


class TreePosterior:
    """Posterior over decision trees: weighted draws with their training data. Made by `fit_tree` or `from_idata`.

    Answers about new rows average the leaves' posterior predictives over the draws. Cuts are uniform in the gap
    between two training values, and ``soft=True`` averages over that too, exactly. A missing value follows the side
    that the split learned, or both branches by their shares of the training rows.
    """

    def __init__(self, draws: TreeDraws, shares: np.ndarray | None = None):
        self._draws = draws
        weights = draws.weights
        if shares is not None:
            groups, place = np.unique(draws.group, return_inverse=True)
            weights = weights * len(groups) * shares[place]
        self._weights = weights / weights.sum()

    # ---- origin and storage

    @classmethod
    def from_idata(cls, idata: Any, name: str | None = None) -> "TreePosterior":
        """Posterior of a tree sampled by ``pm.sample``.

        Parameters
        ----------
        idata : DataTree, or path of a netCDF file
        name : str, optional
            Name of the `DecisionTree`, where there are several.
        """
        from pymc_spn.trees.record import read_draws

        return cls(read_draws(read_results(idata), name))

    def save(self, path: "str | PathLike[str]") -> None:
        """Write everything to one netCDF file."""
        tree = self._draws.to_tree()
        tree[GROUP].attrs["weights_in_use"] = self._weights.tolist()
        tree.to_netcdf(path, engine="h5netcdf")

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "TreePosterior":
        """Read what `save` wrote."""
        tree = read_tree(path)
        if GROUP not in tree.children:
            raise ValueError(f"{path}: no trees; a file of TreePosterior.save has the group {GROUP!r}")
        post = cls(TreeDraws.from_tree(tree))
        post._weights = np.atleast_1d(np.asarray(tree[GROUP].attrs["weights_in_use"], np.float64))
        return post

    def __repr__(self) -> str:
        d = self._draws
        return (
            f"TreePosterior({d.n_trees} trees in {len(np.unique(d.group))} chains or islands, {len(d.y)} rows, "
            f"{len(d.features.names)} features, {d.family['family']} leaves)"
        )

    # ---- the run

    @property
    def weights(self) -> "xr.DataArray":
        """(tree,) weights in use; coordinates ``group`` (island or chain) and ``number``."""
        import xarray as xr

        coords = {"group": ("tree", self._draws.group), "number": ("tree", self._draws.draw)}
        return xr.DataArray(self._weights, dims="tree", coords=coords, name="weight")

    @property
    def log_evidence_islands(self) -> "xr.DataArray":
        """(island,) log of the unbiased estimates of the evidence, in nats."""
        import xarray as xr

        return xr.DataArray(self._evidences(), dims="island", attrs={"exactness": "monte-carlo"})

    @property
    def log_evidence(self) -> "xr.DataArray":
        """Log of the mean of the islands' evidences, in nats; exact for ``exact=True``.

        Its error is `log_evidence_se`; where the islands differ by nats, it is an underestimate and says so by that.
        """
        import xarray as xr

        if "exact_log_evidence" in self._draws.notes:
            return xr.DataArray(self._draws.notes["exact_log_evidence"], attrs={"exactness": "exact"})
        values = self._evidences()
        sizes = np.asarray(self._draws.notes["island_particles"], np.float64)
        top = values.max()
        value = top + np.log(np.average(np.exp(values - top), weights=sizes))
        return xr.DataArray(value, attrs={"exactness": "monte-carlo", "mcse": float(self.log_evidence_se)})

    @property
    def log_evidence_se(self) -> "xr.DataArray":
        """Standard error of `log_evidence` from the islands (delta method); NaN for one island, 0 where exact.

        ``attrs["spread"]`` is the standard deviation of the islands' log evidences. It bounds the error from below:
        islands can miss the same trees and agree (the tutorial's last example); above one nat the delta method is void.
        """
        import xarray as xr

        if "exact_log_evidence" in self._draws.notes:
            return xr.DataArray(0.0, attrs={"exactness": "exact", "spread": 0.0})
        values = self._evidences()
        relative = np.exp(values - values.max())
        n = len(values)
        se = float(relative.std(ddof=1) / np.sqrt(n) / relative.mean()) if n > 1 else np.nan
        spread = float(values.std(ddof=1)) if n > 1 else np.nan
        return xr.DataArray(se, attrs={"exactness": "monte-carlo", "spread": spread})

    @property
    def ess_particles(self) -> "xr.DataArray":
        """Effective number of the weighted trees, 1 / sum of squared weights."""
        import xarray as xr

        return xr.DataArray(float(1.0 / (self._weights**2).sum()), attrs={"exactness": "exact"})

    def _evidences(self) -> np.ndarray:
        if "log_evidence" not in self._draws.notes:
            raise ValueError("the draws of pm.sample estimate no evidence; use ps.fit_tree or ps.exact_tree_evidence")
        return np.asarray(self._draws.notes["log_evidence"], np.float64)

    @property
    def counters(self) -> dict[str, int]:
        """Tables built, nodes expanded, stages and resampling steps of `fit_tree`."""
        names = ("tables", "expansions", "stages", "resampling_steps")
        return dict(zip(names, self._draws.notes["counters"], strict=True))

    # ---- predictions

    @property
    def classes(self) -> list:
        """Levels of the response."""
        family = self._draws.family
        if family["family"] == "binary":
            return [0, 1]
        if family["family"] != "classes":
            raise ValueError(f"classes: the response is of family {family['family']!r}, not of classes")
        return list(family["levels"])

    def predict_proba(
        self, X: Any, *, soft: bool = True, per_draw: bool = False, unseen: str = "error"
    ) -> "xr.DataArray":
        """Probabilities of the classes at new rows.

        Parameters
        ----------
        X : DataFrame, mapping, array or Table
            Columns of the training table.
        soft : bool
            Average over the place of each cut in its gap; else cuts are at the middle.
        per_draw : bool
            One answer for each tree, (tree, row, class).
        unseen : {"error", "missing"}
            What becomes of levels that the training table did not have.

        Returns
        -------
        DataArray
            (row, class); exact given the draws. ``attrs["mcse_chain"]`` is the largest standard error from the spread
            between chains or islands.
        """
        return self._answer(X, class_payload(self._draws), ("class", self.classes), soft, per_draw, unseen)

    def predict(self, X: Any, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """Most probable class, or the predictive mean, at new rows; arguments as for `predict_proba`."""
        if self._draws.family["family"] in ("classes", "binary"):
            p = self.predict_proba(X, soft=soft, unseen=unseen)
            out = p.isel({"class": 0}, drop=True).copy(data=np.asarray(self.classes)[p.values.argmax(1)])
            out.attrs = {"exactness": "exact"}
            return out
        # the mean alone: `mcse_chain` is the largest of what is averaged
        mean = moment_payload(self._draws)[:, :1].copy()
        return self._answer(X, mean, ("moment", ["mean"]), soft, False, unseen).sel(moment="mean", drop=True)

    def predict_sd(self, X: Any, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """Standard deviation of the posterior predictive of a real or count response."""
        if self._draws.family["family"] in ("classes", "binary"):
            raise ValueError("predict_sd is for real and count responses; use predict_proba")
        payload = moment_payload(self._draws, float(self._draws.y.mean()))
        moments = self._answer(X, payload, ("moment", ["mean", "square"]), soft, False, unseen)
        mean, square = moments.sel(moment="mean", drop=True), moments.sel(moment="square", drop=True)
        out = mean.copy(data=np.sqrt(square.values - mean.values**2))
        out.attrs = {"exactness": "exact"}
        return out

    def log_predictive(self, X: Any, y: Any, *, soft: bool = True, unseen: str = "error") -> "xr.DataArray":
        """(row,) log of the posterior predictive density or probability of ``y``, averaged over the draws."""
        import xarray as xr

        values, labels = self._rows(X, unseen)
        coded, _ = self._draws.leaf_family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        found = log_predictive_density(self._draws, self._weights, values, soft, coded)
        return xr.DataArray(found, dims="row", coords={"row": labels}, attrs={"exactness": "exact"})

    def log_likelihood(self) -> "xr.DataArray":
        """(chain, draw, row) log predictive of each training row without that row, the tree given: for ``az.loo``.

        Raises
        ------
        ValueError
            For weighted trees of `fit_tree`.
        """
        import xarray as xr

        d = self._draws
        if "log_evidence" in d.notes:
            raise ValueError("log_likelihood needs the unweighted draws of pm.sample, not the particles of fit_tree")
        chains = pd.unique(d.group)  # in the order in which the draws stand
        values = np.array([log_leave_one_out(d, t) for t in range(d.n_trees)]).reshape(len(chains), -1, len(d.y))
        coords = {"chain": chains, "draw": d.draw[d.group == chains[0]]}
        return xr.DataArray(values, dims=("chain", "draw", "row"), coords=coords, attrs={"exactness": "exact"})

    def _rows(self, X: Any, unseen: str) -> tuple[np.ndarray, Any]:
        values = self._draws.features.code(X, unseen)
        index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(len(values))
        return values, row_labels(index)

    def _answer(self, X: Any, payload: Any, extra: Any, soft: bool, per_draw: bool, unseen: str) -> Any:
        import xarray as xr

        d = self._draws
        values, labels = self._rows(X, unseen)
        dims, coords = ("row", extra[0]), {"row": labels, extra[0]: extra[1]}
        if per_draw:
            one = np.eye(d.n_trees)
            stacked = np.stack([average(d, one[t], values, soft, payload) for t in range(d.n_trees)])
            return xr.DataArray(stacked, dims=("tree", *dims), coords=coords, attrs={"exactness": "exact"})
        groups = np.unique(d.group)
        means, shares = [], []
        for g in groups:
            w = np.where(d.group == g, self._weights, 0.0)
            shares.append(w.sum())
            means.append(average(d, w, values, soft, payload))
        attrs: dict[str, Any] = {"exactness": "exact"}
        total = np.sum(means, axis=0)
        if len(groups) > 1:
            share = np.array(shares)[:, None, None]
            with np.errstate(invalid="ignore", divide="ignore"):
                each = np.where(share > 0.0, np.array(means) / np.where(share > 0.0, share, 1.0), total)
            error = np.sqrt((share**2 * (each - total) ** 2).sum(0) * len(groups) / (len(groups) - 1))
            attrs["mcse_chain"] = float(error.max(initial=0.0)) if np.isfinite(error).all() else np.nan
        return xr.DataArray(total, dims=dims, coords=coords, attrs=attrs)

    # ---- the trees themselves

    def sample_trees(self, n: int, random_seed: int | np.random.Generator | None = None) -> list[Tree]:
        """Trees drawn by their weights."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be an integer of at least 0, got {n!r}")
        rng = np.random.default_rng(random_seed)
        return [self._draws.tree(t) for t in rng.choice(self._draws.n_trees, n, p=self._weights)]

    def most_probable(self) -> int:
        """Number of the drawn tree with the largest log joint density."""
        return int(np.argmax(self._draws.log_joint))

    def tree(self, number: int) -> Tree:
        """One of the drawn trees."""
        is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not is_whole or not 0 <= number < self._draws.n_trees:
            raise ValueError(f"number must be an integer in 0..{self._draws.n_trees - 1}, got {number!r}")
        return self._draws.tree(number)

    def rules(self, number: int | None = None) -> str:
        """One tree as indented text with counts; the most probable by default."""
        return tree_rules(self._draws, self._number(number))

    def leaf_posterior(self, number: int | None = None, mass: float = 0.9) -> pd.DataFrame:
        """Each leaf of one tree: its rule, rows, and the posterior of its parameters.

        Parameters
        ----------
        number : int, optional
            The most probable tree by default.
        mass : float
            Of the central credible intervals.
        """
        if not 0.0 < mass < 1.0:
            raise ValueError(f"mass must lie in (0, 1), got {mass!r}")
        return leaf_frame(self._draws, self._number(number), mass)

    def _number(self, number: int | None) -> int:
        if number is None:
            return self.most_probable()
        self.tree(number)
        return number

    @property
    def log_joint(self) -> "xr.DataArray":
        """(tree,) log prior of each tree plus the log marginal likelihood of its leaves, in nats."""
        import xarray as xr

        return xr.DataArray(self._draws.log_joint, dims="tree", attrs={"exactness": "exact"})

    # ---- features

    def variable_inclusion(self) -> "xr.DataArray":
        """(statistic, feature): probability that a feature is used, and its expected share of the splits."""
        return effects.inclusion(self._draws, self._weights)

    def variable_importance(self, X: Any = None, y: Any = None, *, max_features: int | None = None) -> pd.DataFrame:
        """Mean log predictive of submodels that see one more feature at each step, chosen greedily.

        A submodel takes both branches, by their shares of the training rows, where a split asks a feature that it does
        not see. Parameters are the rows to score, by default the training rows.
        """
        values, coded = self._scored(X, y)
        return effects.importance(self._draws, self._weights, values, coded, max_features)

    def partial_dependence(
        self, feature: str, grid: Any = None, X: Any = None, *, per_draw: bool = False
    ) -> "xr.DataArray":
        """Mean prediction over rows with one feature set to each value of a grid.

        Parameters
        ----------
        feature : str
            The answer's dimension; one called ``row``, ``tree`` or ``class`` has it as ``row_value`` and so on.
        grid : sequence, optional
            20 quantiles or all levels by default.
        X : optional
            Rows to average over, by default the training rows.
        per_draw : bool
            One curve for each tree: the posterior of the curve.
        """
        values = self._draws.features.values if X is None else self._rows(X, "error")[0]
        if not len(values):
            raise ValueError("X must have at least one row to average over, it has none")
        return effects.partial_dependence(self._draws, self._weights, feature, grid, values, per_draw)

    def ice(self, feature: str, grid: Any = None, X: Any = None) -> "xr.DataArray":
        """Individual conditional expectations: the curve of every row; arguments as for `partial_dependence`."""
        values = self._draws.features.values if X is None else self._rows(X, "error")[0]
        return effects.individual_curves(self._draws, self._weights, feature, grid, values)

    def _scored(self, X: Any, y: Any) -> Any:
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together, or neither")
        if X is None:
            return self._draws.features.values, self._draws.y
        values, (coded, _) = self._rows(X, "error")[0], self._draws.leaf_family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        return values, coded

    # ---- convergence

    def tree_distance(self, numbers: Any = None, n_pairs: int = 2000, random_seed: Any = 0) -> "xr.DataArray":
        """(tree, tree) share of row pairs that one tree joins in a leaf and the other separates (one minus Rand)."""
        return agreement.distances(self._draws, numbers, n_pairs, np.random.default_rng(random_seed))

    def rhat(self, X: Any = None, y: Any = None) -> "xr.DataArray":
        """R-hat of log joint, number of leaves, depth, mean log predictive, and of the distance to a reference tree."""
        values, coded = self._scored(X, y)
        return agreement.rhat(self._draws, values, coded)
