"""scikit-learn estimator that finds unusual rows: `SPNOutlierDetector`."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pymc_spn.answers.reference_rows import check_comparison
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.interop.circuit_estimators import NetworkEstimator
from pymc_spn.interop.estimator_inputs import one_of, read_training_rows, seed_of, training_table
from pymc_spn.interop.scikit_learn import OutlierMixin
from pymc_spn.networks.network_tables import JointLeaves
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, Palettes, Resolution, Rounded, TableLike

SCORES = ("density", "cells")
LARGEST_CONTAMINATION = 0.5


class SPNOutlierDetector(OutlierMixin, NetworkEstimator):
    """Rows that a Bayesian sum-product network finds improbable, whatever cells they lack.

    A row is scored as a whole or by its most extreme cell given the others. As a whole, its log density is compared
    with those of rows that the network draws with the same cells observed. Log densities alone are no scale for rows
    with gaps, since every observed cell has its share in them.

    Parameters
    ----------
    by : {"density", "cells"}
        "density": the log density less the `level` quantile of those drawn, as `SPNPosterior.predictive_p_value` has
        it. It is the stronger one where many cells are a little odd together. "cells": the log of the smallest
        `SPNPosterior.cell_p_value` times the number of observed cells (Bonferroni). It is the stronger one where one
        cell is wrong. The same holds where columns repeat single values, at which densities are what the grid makes of
        them.
    contamination : "auto" or float
        "auto": rows are outliers at the `level`, which is the share of false alarms among rows like those of training,
        of "cells" at most. A number within 0 and 0.5: that share of the training rows are outliers, and new rows that
        score as low.
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
        Score below which a row is an outlier, in nats; with ``contamination="auto"`` 0 for "density" and the log of
        the level for "cells".
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

    def __init__(
        self,
        *,
        by: str = "density",
        contamination: float | str = "auto",
        level: float = 0.01,
        n_reference: int = 1000,
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
        self.by = by
        self.contamination = contamination
        self.level = level
        self.n_reference = n_reference

    def fit(self, X: TableLike, y: npt.ArrayLike | None = None) -> "SPNOutlierDetector":
        """Learn the network.

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
            Data that `Table.from_frame` refuses, parameters out of range.
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
        """Scores of the rows, (N,) float64, in nats: higher is more usual.

        -inf for a row that is impossible. By "cells" it is also -inf for a row with a p-value too small for a number,
        some 1e-308. A row without an observed cell is not odd.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            NaN is unknown and summed out.
        """
        return self._scores(Table.from_frame(self._rows(X), schema=self.posterior_.columns))

    def decision_function(self, X: TableLike) -> np.ndarray:
        """`score_samples` less ``offset_``, (N,) float64, in nats: negative for outliers.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: TableLike) -> np.ndarray:
        """-1 for outliers, 1 for the others, (N,) int64.

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
