"""scikit-learn estimators above `fit_tree`: `BayesianTreeClassifier` and `BayesianTreeRegressor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.interop.estimator_inputs import (
    PosteriorEstimator,
    one_of,
    read_classes,
    read_response,
    read_rows,
    read_training_rows,
    seed_of,
    training_table,
)
from pymc_spn.interop.scikit_learn import ClassifierMixin, RegressorMixin
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, TableLike
from pymc_spn.tables.unseen_levels import UNSEEN
from pymc_spn.trees.fit import fit_tree
from pymc_spn.trees.leaves import ClassLeaves, CountLeaves, NormalLeaves, ResponseFamily

NUMBER_FAMILIES = ("real", "counts")


@dataclass(kw_only=True, eq=False, repr=False)
class TreeEstimator(PosteriorEstimator):
    """Decision trees grown by particles; the estimators add the response."""

    particles: int = 100
    islands: int = 4
    weights: str = "evidence"
    alpha_s: float = 0.95
    beta_s: float = 0.5
    max_depth: int | None = None
    min_size: int = 2
    categorical: str | Mapping[str, str] = "onehot"
    kinds: Kinds | None = None
    unseen: str = "error"
    n_jobs: int | None = None
    random_state: EstimatorSeed | None = None
    progressbar: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _grow(self, rows: pd.DataFrame, y: npt.ArrayLike, family: ResponseFamily) -> None:
        """Set ``posterior_``."""
        one_of("unseen", self.unseen, UNSEEN)
        self.posterior_ = fit_tree(
            training_table(self, rows),
            y,
            family,
            **self._options("particles", "islands", "weights", "alpha_s", "beta_s", "max_depth", "min_size"),
            **self._options("categorical", "n_jobs", "progressbar"),
            random_seed=seed_of(self.random_state),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianTreeClassifier(ClassifierMixin, TreeEstimator):
    """Classifier by a posterior over decision trees.

    It calls `fit_tree` and fits into scikit-learn's pipelines. Frames are read as `Table.from_frame` reads them:
    strings and categories are levels, ordered categories are cut in their order. NaN is missing: each split learns to
    which side missing values go. Arrays hold numbers.

    Parameters
    ----------
    alpha : float
        Total mass of the Dirichlet prior of a leaf's class probabilities, as in `ClassLeaves`.
    particles, islands : int
        Number of particles of all islands together, and of islands, which are independent runs.
    weights : {"evidence", "equal", "stacking"}
        Weights of the islands. "evidence" weights them by their evidences, as the theory has it. "equal" and "stacking"
        predict better on large tables, where `fit_tree` warns that the evidences are unreliable.
    alpha_s, beta_s, max_depth, min_size
        Prior of the tree, as in `fit_tree`.
    categorical : {"onehot", "subset"} or dict
        Splits of unordered levels: one against the rest, or any subset (up to 12 levels).
    kinds : dict, optional
        Kinds of columns other than the usual ones, as in `Table.from_frame`.
    unseen : {"error", "missing"}
        What to do, at prediction, with levels that the training rows do not have.
    n_jobs : int, optional
        Threads for the islands, as in `parallel_config`: None uses all processors. The result does not depend on it.
    random_state : int, RandomState, Generator or None
        An integer is the ``random_seed`` of `fit_tree`. A generator is asked for one integer in each `fit`.
    progressbar : bool

    Attributes
    ----------
    posterior_ : TreePosterior
    classes_ : (K,) array
        Sorted.
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Examples
    --------
    >>> model = ps.sklearn.BayesianTreeClassifier(random_state=1).fit(full[["age"]], full["job"])
    >>> model.predict(pd.DataFrame({"age": [60.0]}))
    array(['clerk'], dtype=object)
    """

    alpha: float = 5.0

    def fit(self, X: TableLike, y: npt.ArrayLike | None) -> "BayesianTreeClassifier":
        """Grow the trees and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : (N,) array_like
            Classes: str, integers, bools, or floats that are whole; none missing.

        Returns
        -------
        BayesianTreeClassifier
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` or `fit_tree` refuses the data, there are fewer than two classes, or a parameter is
            out of range.

        Warns
        -----
        UserWarning
            As `fit_tree`.
        """
        y = read_response(self, y)
        rows = read_training_rows(self, X)
        self.classes_, codes = read_classes(self, y, rows)
        self._grow(rows, self.classes_[codes], ClassLeaves(alpha=self.alpha, levels=tuple(self.classes_.tolist())))
        return self

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Predict the probabilities of the classes, (N, K) float64.

        This is ``posterior_.predict_proba``, in the order of ``classes_``.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        """
        rows = read_rows(self, X)
        return self.posterior_.predict_proba(rows, unseen=self.unseen).values

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the most probable class of each row, (N,).

        Among equally probable classes, it is the first."""
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianTreeRegressor(RegressorMixin, TreeEstimator):
    """Regressor by a posterior over decision trees.

    It calls `fit_tree` and fits into scikit-learn's pipelines.

    Parameters
    ----------
    family : {"real", "counts"}, NormalLeaves or CountLeaves
        Distribution of the response in a leaf.
    particles, islands, weights, alpha_s, beta_s, max_depth, min_size, categorical, kinds, unseen, n_jobs, \
random_state, progressbar
        As in `BayesianTreeClassifier`.

    Attributes
    ----------
    posterior_ : TreePosterior
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Examples
    --------
    >>> model = ps.sklearn.BayesianTreeRegressor(random_state=1).fit(X, y)
    >>> model.predict(X.head(2)).round(-1)
    array([50., 40.])
    """

    family: ResponseFamily = "real"

    def fit(self, X: TableLike, y: npt.ArrayLike | None) -> "BayesianTreeRegressor":
        """Grow the trees and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : (N,) array_like of numbers
            At least two; finite, and whole and at least 0 for counts.

        Returns
        -------
        BayesianTreeRegressor
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` or `fit_tree` refuses the data, or a parameter is out of range.

        Warns
        -----
        UserWarning
            As `fit_tree`.
        """
        if not isinstance(self.family, NormalLeaves | CountLeaves):
            if not isinstance(self.family, str) or self.family not in NUMBER_FAMILIES:
                raise ValueError(
                    f"family must be one of {list(NUMBER_FAMILIES)}, ps.leaves.NormalLeaves(...) or "
                    f"ps.leaves.CountLeaves(...), got {quoted(self.family)}"
                )
        y = read_response(self, y, y_numeric=True)
        rows = read_training_rows(self, X)
        if len(rows) < 2:
            raise ValueError(f"X must have at least two rows, got {len(rows)}: a regression on 1 sample has no spread")
        self._grow(rows, y, self.family)
        return self

    def predict(self, X: TableLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of each row, and on request the standard deviation.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        return_std : bool
            Whether to return ``posterior_.predict_sd``, too.

        Returns
        -------
        (N,) array, or two of them
            Mean, and standard deviation of the response (not of the mean).
        """
        rows = read_rows(self, X)
        mean = self.posterior_.predict(rows, unseen=self.unseen).values
        return (mean, self.posterior_.predict_sd(rows, unseen=self.unseen).values) if return_std else mean

    def predict_quantile(self, X: TableLike, q: npt.ArrayLike) -> np.ndarray:
        """Predict quantiles of the response of each row.

        This is ``posterior_.predict_quantile``.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        q : float or sequence of float
            Between 0 and 1.

        Returns
        -------
        (N,) array, or (N, Q) for several levels
        """
        rows = read_rows(self, X)
        return self.posterior_.predict_quantile(rows, q, unseen=self.unseen, progressbar=self.progressbar).values
