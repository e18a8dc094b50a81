"""scikit-learn transformer that completes tables: `SPNImputer`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.interop.circuit_estimators import NetworkEstimator
from pymc_spn.interop.estimator_inputs import (
    one_of,
    output_kind,
    read_rows,
    read_training_rows,
    seed_of,
    training_table,
)
from pymc_spn.interop.scikit_learn import OneToOneFeatureMixin, TransformerMixin
from pymc_spn.networks.network_tables import JointLeaves
from pymc_spn.tables import Table
from pymc_spn.tables.frame_kinds import frame_of_kind, pandas_frame
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, Palettes, Resolution, Rounded, TableLike
from pymc_spn.tables.unseen_levels import known_levels

STRATEGIES = ("mean", "draw")


class SPNImputer(OneToOneFeatureMixin, TransformerMixin, NetworkEstimator):
    """Missing cells filled in given the observed cells of their row, by a Bayesian sum-product network.

    One completed table serves steps that cannot do without; it is too sure of itself where its cells are analysed as if
    they had been seen. For that take several draws, ``posterior_.impute(X, n=20)``, or a model that keeps the cells
    unknown.

    Parameters
    ----------
    strategy : {"mean", "draw"}
        The conditional mean of numbers and the most probable level, each cell by itself; or one draw of all missing
        cells of a row together.
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

    def __init__(
        self,
        *,
        strategy: str = "mean",
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
        super().__init__(
            structure=structure,
            method=method,
            kinds=kinds,
            unseen=unseen,
            leaves=leaves,
            resolution=resolution,
            rounded=rounded,
            joint_leaves=joint_leaves,
            max_children=max_children,
            restarts=restarts,
            max_steps=max_steps,
            draws=draws,
            tune=tune,
            chains=chains,
            n_jobs=n_jobs,
            random_state=random_state,
            progressbar=progressbar,
        )
        self.strategy = strategy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: TableLike, y: npt.ArrayLike | None = None) -> "SPNImputer":
        """Learn the network.

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
            Data that `Table.from_frame` refuses, parameters out of range.
        """
        one_of("strategy", self.strategy, STRATEGIES)
        rows = read_training_rows(self, X)
        self._learn(training_table(self, rows))
        return self

    def transform(self, X: TableLike) -> Any:
        """The rows with their missing cells filled in; observed cells are unchanged.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers

        Returns
        -------
        DataFrame or (N, D) array
            What was given, or what ``set_output`` asks for, with its dtypes, frames with their index and names. Means
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
