"""scikit-learn estimator of numbers above the Bayesian sum-product network: `SPNRegressor`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.interop.circuit_estimators import NetworkEstimator
from pymc_spn.interop.estimator_inputs import check_response, one_of, read_response, read_training_rows
from pymc_spn.interop.scikit_learn import RegressorMixin
from pymc_spn.networks.network_tables import JointLeaves
from pymc_spn.tables import Column, Table
from pymc_spn.tables.coding import guessed_kind
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, Palettes, Resolution, Rounded, TableLike

KINDS = ("real", "positive", "integer", "count", "ordinal")


class SPNRegressor(RegressorMixin, NetworkEstimator):
    """Numbers and their predictive distributions, by exact conditioning in a network over features and target.

    It models the joint distribution, so that features unknown at prediction (NaN) are summed out, intervals may be as
    skewed as the data, and ``posterior_`` answers in every direction. Where all features are known and nothing but
    the mean is asked, a model of the target alone often predicts better.

    Parameters
    ----------
    target_kind : {"auto", "real", "positive", "integer", "count", "ordinal"}
        Of the target's column, as in `Table.from_frame`, whatever the dtype of `y`; counts are whole numbers of at
        least 0. By default ordinal if the values are few whole numbers that repeat, by the rule for columns, else real.
    structure, method, kinds, unseen, leaves, resolution, rounded, joint_leaves, max_children, restarts, max_steps, \
draws, tune, chains, n_jobs, random_state, progressbar
        As in `SPNDensity`; a structure of your own is over the features and the column ``target_``. `leaves` and
        `resolution` may name that column, too.

    Attributes
    ----------
    target_ : str
        Name of the target's column in ``posterior_``: "y", with underscores behind it where a feature is called so.
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

    def __init__(
        self,
        *,
        target_kind: str = "auto",
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
        self.target_kind = target_kind
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

    def fit(self, X: TableLike, y: npt.ArrayLike | None) -> "SPNRegressor":
        """Learn the network.

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
            Data that `Table.from_frame` refuses, parameters out of range.
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

    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        """Posterior predictive mean, and on request the standard deviation.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        return_std : bool
            Whether ``posterior_.predict_sd`` is wanted too.

        Returns
        -------
        (N,) array, or two of them
            Mean, and standard deviation of the target (not of the mean).
        """
        rows = self._rows(X)
        mean = self.posterior_.predict(rows, self.target_).values
        return (mean, self.posterior_.predict_sd(rows, self.target_).values) if return_std else mean

    def predict_quantile(self, X: TableLike, q: npt.ArrayLike) -> np.ndarray:
        """Quantiles of the posterior predictive: ``posterior_.predict_quantile``.

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
