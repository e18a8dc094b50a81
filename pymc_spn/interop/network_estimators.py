"""scikit-learn estimators above the Bayesian sum-product network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm

from pymc_spn.answers.reference_rows import check_comparison
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.interop.estimator_inputs import (
    PosteriorEstimator,
    check_response,
    one_of,
    output_kind,
    read_classes,
    read_response,
    read_rows,
    read_training_rows,
    seed_of,
    training_table,
)
from pymc_spn.interop.scikit_learn import (
    ClassifierMixin,
    DensityMixin,
    OneToOneFeatureMixin,
    OutlierMixin,
    RegressorMixin,
    TransformerMixin,
    check_is_fitted,
)
from pymc_spn.networks.distributions import SPN
from pymc_spn.networks.learners import fit_variational
from pymc_spn.networks.network_tables import JointLeaves
from pymc_spn.networks.posterior import SPNPosterior
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.threads import n_threads, parallel_config
from pymc_spn.tables import Column, Table
from pymc_spn.tables.coding import guessed_kind
from pymc_spn.tables.frame_kinds import frame_of_kind, pandas_frame
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, LeafFamilies, Resolution, Rounded, TableLike
from pymc_spn.tables.unseen_levels import UNSEEN, known_levels

METHODS = ("variational", "sampling")
STRUCTURES = ("learned", "complete")
LEAVES = ("leaves", "resolution", "rounded", "joint_leaves")  # what the learners of both methods are told of leaves
TARGET = "y"  # name of the target's column, with underscores behind it where a feature has that name


@dataclass(kw_only=True, eq=False, repr=False)  # whose __init__ scikit-learn reads
class NetworkEstimator(PosteriorEstimator):
    """A network learned from a table by one of two methods; see `SPNDensity` for the parameters."""

    structure: str | RegionTree | Callable[[Table], RegionTree] = "learned"
    method: str = "variational"
    kinds: Kinds | None = None
    unseen: str = "error"
    leaves: LeafFamilies | None = None
    resolution: Resolution = "auto"
    rounded: Rounded = "auto"
    joint_leaves: JointLeaves | None = "auto"
    max_children: int = 8
    restarts: int | None = None
    max_steps: int | None = None
    draws: int = 500
    tune: int = 500
    chains: int = 4
    n_jobs: int | None = None
    random_state: EstimatorSeed | None = None
    progressbar: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _learn(self, table: Table) -> None:
        """Set ``posterior_`` and ``idata_``."""
        with parallel_config(self.n_jobs):
            self._learn_by_method(table)

    def _learn_by_method(self, table: Table) -> None:
        one_of("method", self.method, METHODS)
        one_of("unseen", self.unseen, UNSEEN)
        seed = seed_of(self.random_state)
        structure = self._structure(table)
        if self.method == "variational":
            self.idata_ = None
            self.posterior_ = fit_variational(
                table,
                structure,
                **self._options(*LEAVES, "max_children", "restarts", "max_steps", "progressbar"),
                random_seed=seed,
            )
            return
        with pm.Model(model=None):  # of its own, also where fit is called inside another model
            SPN("x", structure, observed=table, **self._options(*LEAVES))
            options = self._options("draws", "tune", "chains", "progressbar")
            self.idata_ = pm.sample(**options, cores=n_threads(), random_seed=seed)
        self.posterior_ = SPNPosterior.from_idata(self.idata_)

    def _learn_with(self, rows: pd.DataFrame, y: Any, kind: str | None = None) -> None:
        """Set ``target_``, and learn the rows together with a target, of the usual kind or another."""
        features = training_table(self, rows)
        self.target_ = TARGET
        while self.target_ in features.names:
            self.target_ += "_"
        target = Table.from_frame(pd.DataFrame({self.target_: y}), None if kind is None else {self.target_: kind})
        values = np.hstack([features.values, target.values])
        self._learn(Table((*features.columns, *target.columns), values, features.index))

    def _rows(self, X: Any) -> pd.DataFrame:
        """New rows, unseen levels missing where that is asked for."""
        rows = read_rows(self, X)
        return known_levels(rows, self.posterior_.columns, self.unseen)

    def _structure(self, table: Table) -> RegionTree | None:
        made = self.structure
        if callable(made):
            made = made(table)
            if not isinstance(made, RegionTree):
                raise TypeError(f"structure must return a RegionTree if it is callable, it returned {made!r}")
        if isinstance(made, RegionTree):
            return made
        if not isinstance(made, str) or made not in STRUCTURES:
            raise ValueError(
                f"structure must be one of {list(STRUCTURES)}, a RegionTree, or a callable from a Table to one; "
                f"got {quoted(made)}"
            )
        return complete_tree(table.columns) if made == "complete" else None


class SPNDensity(DensityMixin, NetworkEstimator):
    """Density estimator for mixed tables with gaps.

    It learns a Bayesian sum-product network and fits into scikit-learn's pipelines. A frame is read as
    `Table.from_frame` reads it. Columns of floats are real. Columns of integers are binary, ordinal, integer or counts
    by their values. Strings and categories are levels. NaN, None and ``pd.NA`` are missing. Arrays hold numbers.
    Missing cells are summed out, in learning as in scoring.

    Parameters
    ----------
    structure : {"learned", "complete"}, RegionTree or callable
        Splits learned from the training rows as in `SPN`, `complete_tree` over the columns in their order, or a tree
        of your own. A callable makes a tree from the training `Table`, such as ``lambda table:
        ps.circuits.complete_tree(table.columns, 4)``. A tree over columns with kinds decides them, whatever `kinds`
        says.
    method : {"variational", "sampling"}
        "variational" is `fit_variational`: seconds, one mode, no uncertainty of the assignments. "sampling" is
        ``pm.sample`` of a model that holds one `SPN`, with the step method that it picks.
    kinds : dict, optional
        Kinds of columns other than the usual ones, as in `Table.from_frame`.
    unseen : {"error", "missing"}
        What to do, at prediction, with levels that the training rows do not have.
    leaves : dict, optional
        Leaf families by column name, as in `SPN`.
    resolution : "auto", float or dict
        Recording grids of numbers, as in `SPN`.
    rounded : "auto", bool or list of str
        Columns whose values are rounded to a grid, as in `SPN`: by default those in which values repeat on it.
        Scores count such a value by log(mass of its interval / width).
    joint_leaves : "auto", MultivariateGaussian or None
        Multivariate leaves of numeric columns, as in `SPN`.
    max_children, restarts, max_steps : int, the last two optional
        For the variational method, as in `fit_variational`.
    draws, tune, chains : int
        For sampling, as in ``pm.sample``.
    n_jobs : int, optional
        Threads of variational Bayes and processes of sampling, as in `parallel_config`: None uses all processors. The
        result does not depend on it.
    random_state : int, RandomState, Generator or None
        An integer is the ``random_seed`` of the learner, so that its results are those of calls by hand. A
        generator is asked for one integer in each `fit`.
    progressbar : bool
        Show the learner's progress.

    Attributes
    ----------
    posterior_ : VariationalPosterior or SPNPosterior
        Answers every question, not only those of an estimator.
    idata_ : DataTree or None
        What ``pm.sample`` returned, to be diagnosed with ArviZ; None for the variational method.
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Notes
    -----
    A level that the training rows do not hold is an error at prediction, or missing with ``unseen="missing"``. In
    cross-validation a rare level can be absent from a part of the rows: a column of dtype category keeps its levels all
    the same.

    Examples
    --------
    >>> model = ps.sklearn.SPNDensity(random_state=1).fit(df)
    >>> model.score_samples(df).shape
    (80,)
    """

    def fit(self, X: TableLike, y: npt.ArrayLike | None = None) -> "SPNDensity":
        """Learn the network and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : ignored

        Returns
        -------
        SPNDensity
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` refuses the data, or a parameter is out of range.
        """
        rows = read_training_rows(self, X)
        self._learn(training_table(self, rows))
        return self

    def score_samples(self, X: TableLike) -> np.ndarray:
        """Calculate the log density of each row, (N,) float64, in nats.

        This is ``posterior_.log_density``.

        Densities are in the units of the data; a row without an observed cell has log density 0.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        """
        rows = self._rows(X)
        return self.posterior_.log_density(rows).values

    def score(self, X: TableLike, y: npt.ArrayLike | None = None) -> float:
        """Calculate the mean log density of the rows, in nats per row.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        y : ignored
        """
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: EstimatorSeed | None = None) -> Any:
        """Draw rows from the posterior predictive.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState, Generator or None
            None takes the estimator's own, so that two calls of an estimator with an integer draw the same rows.

        Returns
        -------
        DataFrame or (n_samples, D) array
            The type of the training rows, with their names and dtypes.
        """
        check_is_fitted(self)
        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be an integer of at least 1, got {quoted(n_samples)}")
        seed = seed_of(self.random_state if random_state is None else random_state)
        drawn = self.posterior_.sample(int(n_samples), random_seed=seed)
        drawn = pandas_frame(drawn)[[str(label) for label in self._columns]]
        if self._from_array:
            return drawn.to_numpy()
        return frame_of_kind(drawn.set_axis(self._columns, axis="columns"), self._frame)


class SPNClassifier(ClassifierMixin, NetworkEstimator):
    """Classifier by exact conditioning in a network over features and class.

    It models the joint distribution. So it sums out features that are unknown at prediction (NaN), and ``posterior_``
    answers in every direction. If all features are known and you only ask for the class, a model of the class alone
    often predicts better.

    Parameters
    ----------
    structure, method, kinds, unseen, leaves, resolution, rounded, joint_leaves, max_children, restarts, max_steps, \
draws, tune, chains, n_jobs, random_state, progressbar
        As in `SPNDensity`; a structure of your own is over the features and the column ``target_``.

    Attributes
    ----------
    classes_ : (K,) array
        Sorted.
    target_ : str
        Name of the classes' column in ``posterior_``: "y", followed by underscores if a feature has this name.
    posterior_ : VariationalPosterior or SPNPosterior
        Of features and class.
    idata_ : DataTree or None
        As in `SPNDensity`.
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Examples
    --------
    >>> model = ps.sklearn.SPNClassifier(random_state=1).fit(df[["age", "income"]], df["job"])
    >>> model.predict(pd.DataFrame({"age": [60.0], "income": [50.0]}))
    array(['clerk'], dtype=object)
    """

    def fit(self, X: TableLike, y: npt.ArrayLike | None) -> "SPNClassifier":
        """Learn the network and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : (N,) array_like
            Classes: str, integers, bools, or floats that are whole; none missing.

        Returns
        -------
        SPNClassifier
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` refuses the data, there are fewer than two classes, or a parameter is out of range.
        """
        y = read_response(self, y)
        rows = read_training_rows(self, X)
        self.classes_, codes = read_classes(self, y, rows)
        self._learn_with(rows, pd.Categorical.from_codes(codes, categories=self.classes_))
        return self

    def _structure(self, table: Table) -> RegionTree | None:
        made, classes = super()._structure(table), tuple(self.classes_.tolist())
        own = () if made is None else made.columns  # those of a tree of one's own decide how the table is coded
        for column in own:
            if isinstance(column, Column) and column.name == self.target_ and column.levels != classes:
                raise ValueError(
                    f"structure must have the classes {classes} as levels of {self.target_!r}, in this order; "
                    f"it has {column.levels}"
                )
        return made

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Predict the probabilities of the classes, (N, K) float64.

        This is ``posterior_.predict_proba``, in the order of ``classes_``.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        """
        rows = self._rows(X)
        return self.posterior_.predict_proba(rows, self.target_).values

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the most probable class of each row, (N,).

        Among equally probable classes, it is the first. Rows whose density is zero, which a warning names, get the
        class that is most probable before any feature is known.
        """
        proba = self.predict_proba(X)
        unknown = np.isnan(proba).any(axis=1)
        if unknown.any():
            nothing = np.full((1, self.n_features_in_), np.nan)
            proba[unknown] = self.posterior_.predict_proba(nothing, self.target_).values
        return self.classes_[proba.argmax(axis=1)]


KINDS = ("real", "positive", "integer", "count", "ordinal")


@dataclass(kw_only=True, eq=False, repr=False)
class SPNRegressor(RegressorMixin, NetworkEstimator):
    """Regressor by exact conditioning in a network over features and target.

    It models the joint distribution. So it sums out features that are unknown at prediction (NaN), intervals may be as
    skewed as the data, and ``posterior_`` answers in every direction. If all features are known and you only ask for
    the mean, a model of the target alone often predicts better.

    Parameters
    ----------
    target_kind : {"auto", "real", "positive", "integer", "count", "ordinal"}
        Kind of the target's column, as in `Table.from_frame`, whatever the dtype of `y`. Counts are whole numbers of at
        least 0. By default ordinal if the values are few whole numbers that repeat, by the rule for columns, else real.
    structure, method, kinds, unseen, leaves, resolution, rounded, joint_leaves, max_children, restarts, max_steps, \
draws, tune, chains, n_jobs, random_state, progressbar
        As in `SPNDensity`; a structure of your own is over the features and the column ``target_``. `leaves` and
        `resolution` may name that column, too.

    Attributes
    ----------
    target_ : str
        Name of the target's column in ``posterior_``: "y", followed by underscores if a feature has this name.
    posterior_ : VariationalPosterior or SPNPosterior
        Of features and target.
    idata_ : DataTree or None
        As in `SPNDensity`.
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Examples
    --------
    >>> model = ps.sklearn.SPNRegressor(random_state=1).fit(df[["age", "job"]], df["income"])
    >>> model.predict(pd.DataFrame({"age": [60.0], "job": ["clerk"]})).round(-1)
    array([50.])
    """

    target_kind: str = "auto"

    def fit(self, X: TableLike, y: npt.ArrayLike | None) -> "SPNRegressor":
        """Learn the network and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : (N,) array_like of numbers
            None missing.

        Returns
        -------
        SPNRegressor
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` refuses the data, or a parameter is out of range.
        """
        one_of("target_kind", self.target_kind, ("auto", *KINDS))
        y = read_response(self, y, y_numeric=True)
        rows = read_training_rows(self, X)
        check_response(y, rows)
        kind = self.target_kind
        if kind == "auto":
            guessed = guessed_kind(np.asarray(y, np.float64), False)  # the same for integers and floats
            kind = "real" if guessed == "real" else "ordinal"
        self._learn_with(rows, y if kind in ("integer", "count", "ordinal") else np.asarray(y, np.float64), kind)
        return self

    def _structure(self, table: Table) -> RegionTree | None:
        made = super()._structure(table)
        own = () if made is None else made.columns  # those of a tree of one's own decide how the table is coded
        for column in own:
            allowed = KINDS if self.target_kind == "auto" else (self.target_kind,)
            if isinstance(column, Column) and column.name == self.target_ and column.kind not in allowed:
                raise ValueError(
                    f"structure must have {self.target_!r} of the kind {' or '.join(map(repr, allowed))}, as "
                    f"target_kind says; it is {column.kind!r} there"
                )
        return made

    def predict(self, X: TableLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of each row, and on request the standard deviation.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        return_std : bool
            Whether to return ``posterior_.predict_sd``, too.

        Returns
        -------
        (N,) array, or two of them
            Mean, and standard deviation of the target (not of the mean).
        """
        rows = self._rows(X)
        mean = self.posterior_.predict(rows, self.target_).values
        return (mean, self.posterior_.predict_sd(rows, self.target_).values) if return_std else mean

    def predict_quantile(self, X: TableLike, q: npt.ArrayLike) -> np.ndarray:
        """Predict quantiles of the target of each row.

        This is ``posterior_.predict_quantile``.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        q : float or sequence of float
            Between 0 and 1.

        Returns
        -------
        (N,) array, or (N, Q) for several levels
        """
        rows = self._rows(X)
        return self.posterior_.predict_quantile(rows, self.target_, q).values


STRATEGIES = ("mean", "draw")


@dataclass(kw_only=True, eq=False, repr=False)
class SPNImputer(OneToOneFeatureMixin, TransformerMixin, NetworkEstimator):
    """Imputer of missing cells, given the observed cells of their row.

    It learns a Bayesian sum-product network. One completed table serves steps that need one. If you analyse its cells
    as if they had been observed, the results are too certain. Instead take several draws, ``posterior_.impute(X,
    n=20)``, or a model that keeps the cells unknown.

    Parameters
    ----------
    strategy : {"mean", "draw"}
        "mean" fills in the conditional mean of numbers and the most probable level, each cell by itself. "draw" draws
        all missing cells of a row together.
    structure, method, kinds, unseen, leaves, resolution, rounded, joint_leaves, max_children, restarts, max_steps, \
draws, tune, chains, n_jobs, random_state, progressbar
        As in `SPNDensity`. With ``strategy="draw"`` an integer `random_state` gives the same cells in every call.

    Attributes
    ----------
    posterior_ : VariationalPosterior or SPNPosterior
    idata_ : DataTree or None
        As in `SPNDensity`.
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Examples
    --------
    >>> ps.sklearn.SPNImputer(random_state=1).fit_transform(df[["age", "income"]]).shape
    (80, 2)
    """

    strategy: str = "mean"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: TableLike, y: npt.ArrayLike | None = None) -> "SPNImputer":
        """Learn the network and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : ignored

        Returns
        -------
        SPNImputer
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` refuses the data, or a parameter is out of range.
        """
        one_of("strategy", self.strategy, STRATEGIES)
        rows = read_training_rows(self, X)
        self._learn(training_table(self, rows))
        return self

    def transform(self, X: TableLike) -> Any:
        """Return the rows with their missing cells filled in.

        Observed cells are unchanged.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers

        Returns
        -------
        DataFrame or (N, D) array
            The type of `X`, or what ``set_output`` asks for, with its dtypes, frames with their index and names. Means
            of integers are floats. Arrays of integers and bools become float64, and categories that a batch lacks are
            added. A level that the training rows did not have stays where it is observed; with ``unseen="missing"`` it
            says nothing of other cells.
        """
        rows = read_rows(self, X)
        known = known_levels(rows, self.posterior_.columns, self.unseen)
        if self.strategy == "draw":
            seed = seed_of(self.random_state)
            completed = self.posterior_.impute(known, n=1, random_seed=seed).set_axis(rows.columns, axis="columns")
            completed = _with_observed(completed, rows, known)
        else:
            completed = self._with_means(rows, known)
        if isinstance(pandas_frame(X), pd.DataFrame):
            return frame_of_kind(completed, output_kind(self, X))
        dtype = rows.dtypes.iloc[0]
        return completed.to_numpy(dtype=dtype if dtype.kind == "f" else np.float64)

    def _with_means(self, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
        """Column by column, since each predicts from the observed cells and not from what was filled in."""
        completed = {}
        for position, column in enumerate(rows.columns):
            cells = rows.iloc[:, position]
            missing = cells.isna().to_numpy()
            if missing.any():
                found = self.posterior_.predict(known[missing], str(column)).values
                if pd.api.types.is_integer_dtype(cells.dtype) and found.dtype.kind == "f":
                    cells = cells.astype("Float64")
                elif isinstance(cells.dtype, np.dtype) and cells.dtype.kind == "f":
                    found = found.astype(cells.dtype)  # pandas sets no longer float in a narrow column
                cells = _with_categories(cells, found).copy()
                cells[missing] = found
            completed[column] = cells
        return pd.DataFrame(completed, index=rows.index)


def _with_categories(cells: pd.Series, values: Any) -> pd.Series:
    """A column of categories that has those of some values, too: a batch may hold fewer than were learned."""
    if not isinstance(cells.dtype, pd.CategoricalDtype):
        return cells
    found = pd.Series(values).dropna().unique()  # a row that is impossible has no level
    lacking = [value for value in found if value not in cells.cat.categories]
    return cells.cat.add_categories(lacking) if lacking else cells


def _with_observed(completed: pd.DataFrame, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Completed rows in which observed cells that the network does not know are what they were."""
    for column in rows.columns:
        unknown = (rows[column].notna() & known[column].isna()).to_numpy()
        if unknown.any():
            cells = _with_categories(completed[column], rows[column][unknown].to_numpy()).copy()
            cells[unknown] = rows[column][unknown].to_numpy()
            completed[column] = cells
    return completed


SCORES = ("density", "cells")
LARGEST_CONTAMINATION = 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class SPNOutlierDetector(OutlierMixin, NetworkEstimator):
    """Detector of improbable rows, whichever cells they lack.

    It learns a Bayesian sum-product network. A row is scored as a whole or by its most extreme cell given the others.
    As a whole, its log density is compared with those of rows that the network draws with the same cells observed. Log
    densities alone are no scale for rows with gaps, since every observed cell has its share in them.

    Parameters
    ----------
    by : {"density", "cells"}
        "density": the log density minus the `level` quantile of the drawn rows, as in
        `SPNPosterior.predictive_p_value`. It detects more if many cells are a little odd together. "cells": the log of
        the smallest `SPNPosterior.cell_p_value` times the number of observed cells (Bonferroni). It detects more if one
        cell is wrong. It also does if columns repeat single values, where densities depend on the grid.
    contamination : "auto" or float
        "auto": rows are outliers at the `level`. This is the share of false alarms among rows like the training rows;
        for "cells" the share is at most this. A number between 0 and 0.5: this share of the training rows are outliers,
        and so are new rows that score as low.
    level : float
        Share of the network's own rows that would be outliers, for "density" at least 1 / (n_reference + 1).
    n_reference : int
        Number of rows that the network draws for comparison; not used by "cells".
    structure, method, kinds, unseen, leaves, resolution, rounded, joint_leaves, max_children, restarts, max_steps, \
draws, tune, chains, n_jobs, random_state, progressbar
        As in `SPNDensity`. Rows for comparison are drawn with the seed of `fit`, so that two calls agree.

    Attributes
    ----------
    offset_ : float
        Score below which a row is an outlier, in nats. With ``contamination="auto"`` it is 0 for "density" and the log
        of the level for "cells".
    posterior_ : VariationalPosterior or SPNPosterior
        Its `anomaly` says in which cells a row is odd, its `predictive_p_value` how odd it is.
    idata_ : DataTree or None
        As in `SPNDensity`.
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the training rows were a frame with such names.

    Examples
    --------
    >>> model = ps.sklearn.SPNOutlierDetector(random_state=1).fit(df)
    >>> model.predict(df.head(2)).shape
    (2,)
    """

    by: str = "density"
    contamination: float | str = "auto"
    level: float = 0.01
    n_reference: int = 1000

    def fit(self, X: TableLike, y: npt.ArrayLike | None = None) -> "SPNOutlierDetector":
        """Learn the network and return the estimator.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is missing.
        y : ignored

        Returns
        -------
        SPNOutlierDetector
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `Table.from_frame` refuses the data, or a parameter is out of range.
        """
        one_of("by", self.by, SCORES)
        share = self._share()
        if self.by == "density":
            check_comparison(self.n_reference, self.level, "n_reference")
        else:
            check_prob(self.level, "level")
        rows = read_training_rows(self, X)
        table = training_table(self, rows)
        self._learn(table)
        seed = seed_of(self.random_state)
        self._reference_seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        self.offset_ = float(np.log(self.level)) if self.by == "cells" else 0.0
        if share is not None:
            self.offset_ = float(np.percentile(self._scores(table), 100.0 * share))
        return self

    def score_samples(self, X: TableLike) -> np.ndarray:
        """Score the rows, (N,) float64, in nats: higher is more usual.

        The score of an impossible row is -inf. With "cells" it is also -inf if a p-value is too small for a float,
        about 1e-308. A row without an observed cell is not odd.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        """
        return self._scores(Table.from_frame(self._rows(X), schema=self.posterior_.columns))

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Calculate `score_samples` minus ``offset_``, (N,) float64, in nats.

        It is negative for outliers.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: TableLike) -> np.ndarray:
        """Return -1 for outliers and 1 for other rows, (N,) int64.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def _share(self) -> float | None:
        """The share of training rows that are outliers, None where the model's own rows decide."""
        given = self.contamination
        rule = f"contamination must be 'auto' or a number above 0 and up to {LARGEST_CONTAMINATION}"
        if isinstance(given, str) and given == "auto":
            return None
        if isinstance(given, bool) or not isinstance(given, int | float | np.number):
            raise TypeError(f"{rule}, got {quoted(given)}")
        if not 0.0 < given <= LARGEST_CONTAMINATION:
            raise ValueError(f"{rule}, got {quoted(given)}")
        return float(given)

    def _scores(self, rows: Table) -> np.ndarray:
        if self.by == "cells":
            p, n_cells = self.posterior_.cell_p_value(rows).values, (~np.isnan(rows.values)).sum(axis=1)
            p = np.where(np.isnan(p).all(axis=1, keepdims=True), 0.0, p)  # several impossible cells leave none with one
            smallest = np.where(np.isnan(p), 1.0, p).min(axis=1)
            with np.errstate(divide="ignore"):
                return np.log(np.where(n_cells == 0, 1.0, n_cells * smallest))
        found = self.posterior_.predictive_p_value(
            rows, n=self.n_reference, level=self.level, random_seed=self._reference_seed
        )
        return found["log_density"].values - found["threshold"].values
