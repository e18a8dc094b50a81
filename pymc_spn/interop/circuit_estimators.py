"""scikit-learn estimators above the Bayesian sum-product network: `SPNDensity` and `SPNClassifier`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.interop.estimator_inputs import (
    one_of,
    read_classes,
    read_response,
    read_rows,
    read_training_rows,
    seed_of,
    training_table,
)
from pymc_spn.interop.posterior_estimator import PosteriorEstimator
from pymc_spn.interop.scikit_learn import ClassifierMixin, DensityMixin, check_is_fitted
from pymc_spn.networks.distributions import SPN
from pymc_spn.networks.learners import fit_variational
from pymc_spn.networks.network_tables import JointLeaves
from pymc_spn.networks.posterior import SPNPosterior
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.threads import n_threads, parallel_config
from pymc_spn.tables import Column, Table
from pymc_spn.tables.frame_kinds import frame_of_kind, pandas_frame
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, Palettes, Resolution, Rounded, TableLike
from pymc_spn.tables.unseen_levels import UNSEEN, known_levels

METHODS = ("variational", "sampling")
STRUCTURES = ("learned", "complete")
TARGET = "y"  # name of the target's column, with underscores behind it where a feature has that name


class NetworkEstimator(PosteriorEstimator):
    """A network learned from a table by one of two methods; see `SPNDensity` for the parameters."""

    def __init__(
        self,
        *,
        structure: str | RegionTree | Callable[[Table], RegionTree] = "learned",
        method: str = "variational",
        kinds: Kinds | None = None,
        unseen: str = "error",
        leaves: Palettes | None = None,
        resolution: Resolution = "auto",
        rounded: Rounded = "auto",
        joint_leaves: JointLeaves | None = "auto",
        max_children: int = 8,
        restarts: int | None = None,
        max_steps: int | None = None,
        draws: int = 500,
        tune: int = 500,
        chains: int = 4,
        n_jobs: int | None = None,
        random_state: EstimatorSeed | None = None,
        progressbar: bool = False,
    ) -> None:
        self.structure = structure
        self.method = method
        self.kinds = kinds
        self.unseen = unseen
        self.leaves = leaves
        self.resolution = resolution
        self.rounded = rounded
        self.joint_leaves = joint_leaves
        self.max_children = max_children
        self.restarts = restarts
        self.max_steps = max_steps
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progressbar = progressbar

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
                leaves=self.leaves,
                resolution=self.resolution,
                rounded=self.rounded,
                joint_leaves=self.joint_leaves,
                max_children=self.max_children,
                restarts=self.restarts,
                max_steps=self.max_steps,
                random_seed=seed,
                progressbar=self.progressbar,
            )
            return
        with pm.Model(model=None):  # of its own, also where fit is called inside another model
            SPN(
                "x",
                structure,
                observed=table,
                leaves=self.leaves,
                resolution=self.resolution,
                rounded=self.rounded,
                joint_leaves=self.joint_leaves,
            )
            self.idata_ = pm.sample(
                self.draws,
                tune=self.tune,
                chains=self.chains,
                cores=n_threads(),
                random_seed=seed,
                progressbar=self.progressbar,
            )
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
    """Density of mixed tables with gaps, by a Bayesian sum-product network, for scikit-learn's pipelines.

    A frame is read as `Table.from_frame` reads it. Columns of floats are real. Columns of integers are binary,
    ordinal, integer or counts by their values. Strings and categories are levels. NaN, None and ``pd.NA`` are
    missing. Arrays hold numbers. Missing cells are summed out, in learning as in scoring.

    Parameters
    ----------
    structure : {"learned", "complete"}, RegionTree or callable
        Splits learned from the training rows as in `SPN`, `complete_tree` over the columns in their order, or a tree
        of your own. A callable makes a tree from the training `Table`, such as ``lambda table:
        ps.circuits.complete_tree(table.columns, 4)``. A tree over columns with kinds decides them, whatever `kinds`
        says.
    method : {"variational", "sampling"}
        `fit_variational`: seconds, one mode, no uncertainty of the assignments. Or ``pm.sample`` of a model that holds
        one `SPN`, with the step method that it picks.
    kinds : dict, optional
        Kinds of columns other than the usual ones, as in `Table.from_frame`.
    unseen : {"error", "missing"}
        What to do, at prediction, with levels that the training rows do not have.
    leaves : dict, optional
        Palettes by column name, as in `SPN`.
    resolution : "auto", float or dict
        Recording grids of numbers, as in `SPN`.
    rounded : "auto", bool or list of str
        Columns whose values stand for the cells of their grid, as in `SPN`: by default those in which values repeat on
        it. Scores count such a cell by log(mass / width).
    joint_leaves : "auto", MultivariateGaussian or None
        Leaves over several columns of numbers, as in `SPN`.
    max_children, restarts, max_steps : int, the last two optional
        Of the variational method, as in `fit_variational`.
    draws, tune, chains : int
        Of sampling, as in ``pm.sample``.
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
        """Learn the network.

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
            Data that `Table.from_frame` refuses, parameters out of range.
        """
        rows = read_training_rows(self, X)
        self._learn(training_table(self, rows))
        return self

    def score_samples(self, X: TableLike) -> np.ndarray:
        """Log density of each row, (N,) float64, in nats: ``posterior_.log_density``.

        Densities are in the units of the data; a row without an observed cell has log density 0.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        """
        rows = self._rows(X)
        return self.posterior_.log_density(rows).values

    def score(self, X: TableLike, y: npt.ArrayLike | None = None) -> float:
        """Mean log density of the rows, in nats a row.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        y : ignored
        """
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: EstimatorSeed | None = None) -> Any:
        """Rows drawn from the posterior predictive.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState, Generator or None
            None takes the estimator's own, so that two calls of an estimator with an integer draw the same rows.

        Returns
        -------
        DataFrame or (n_samples, D) array
            What the training rows were, with their names and dtypes.
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
    """Classes by exact conditioning in a network over the features and the class together.

    It models the joint distribution, so that features unknown at prediction (NaN) are summed out, and
    ``posterior_`` answers in every direction. Where all features are known and nothing but the class is asked, a
    model of the class alone often predicts better.

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
        Name of the classes' column in ``posterior_``: "y", with underscores behind it where a feature is called so.
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
        """Learn the network.

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
            Data that `Table.from_frame` refuses, fewer than two classes, parameters out of range.
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
        """Probabilities of the classes, (N, K) float64 in the order of ``classes_``: ``posterior_.predict_proba``.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        """
        rows = self._rows(X)
        return self.posterior_.predict_proba(rows, self.target_).values

    def predict(self, X: TableLike) -> np.ndarray:
        """The most probable class of each row, (N,); of equally probable ones the first.

        Rows whose density is zero, which a warning names, get the class that is most probable without looking at them.
        """
        proba = self.predict_proba(X)
        unknown = np.isnan(proba).any(axis=1)
        if unknown.any():
            nothing = np.full((1, self.n_features_in_), np.nan)
            proba[unknown] = self.posterior_.predict_proba(nothing, self.target_).values
        return self.classes_[proba.argmax(axis=1)]
