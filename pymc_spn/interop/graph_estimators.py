"""scikit-learn estimator above the posterior over graphs: `OrderDAG`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.order_spn import ENGINES, DagPosterior
from pymc_spn.dags.scores import BDeu, BGe, ConditionalGaussian
from pymc_spn.dags.structure_prior import EdgeLogOdds, EdgePenalty
from pymc_spn.interop.estimator_inputs import PosteriorEstimator, one_of, read_training_rows, seed_of, training_table
from pymc_spn.tables.inputs import EstimatorSeed, Kinds, TableLike


@dataclass(kw_only=True, eq=False, repr=False)
class OrderDAG(PosteriorEstimator):
    """Estimator of the directed acyclic graphs behind a table.

    It fits into scikit-learn's pipelines and keeps the posterior over graphs in ``posterior_``.

    Parameters
    ----------
    method : {"auto", "exact", "orders"}
        The engine of `DagPosterior.from_scores`: a sum over all orders, or a sample of them. The choice "auto" sums
        up to 22 columns, or more with informative tiers, and samples beyond.
    local_score : BGe, BDeu, ConditionalGaussian or callable, optional
        As ``score`` of `LocalScores.from_data`: by default BDeu if all columns are binary or categorical, else BGe.
    prior, max_candidates, max_indegree, required, forbidden, tiers
        Knowledge, as in `LocalScores.from_data`. The columns of an array are called ``x0``, ``x1``, ...
    kinds : dict, optional
        Kinds of columns other than the usual ones, as in `Table.from_frame`.
    standardize : bool
        Score numeric columns in units of their standard deviations.
    random_state : int, RandomState, Generator or None
        For sampled orders; the exact method draws nothing.
    progressbar : bool

    Attributes
    ----------
    posterior_ : DagPosterior
        Its ``scores`` hold the table of local scores.
    edge_probabilities_ : (D, D) float64 array
        Posterior probability of the edge from row (parent) to column (child).
    n_features_in_ : int
    feature_names_in_ : (D,) array of str
        Where the rows were a frame with such names.

    Notes
    -----
    Missing cells are refused: complete the table first, for instance with the ``impute`` of an SPN posterior, or
    average over several completed tables with `pymc_spn.dags.ImputedDagPosterior`.

    Examples
    --------
    >>> found = ps.sklearn.OrderDAG(random_state=1).fit(numbers)
    >>> found.posterior_.engine
    'exact'
    """

    method: str = "auto"
    local_score: BGe | BDeu | ConditionalGaussian | Callable[[str, tuple[str, ...]], float] | None = None
    prior: str | EdgePenalty | EdgeLogOdds = "fair"
    max_candidates: int | None = None
    max_indegree: int | None = None
    required: Iterable[tuple[str, str]] | None = None
    forbidden: Iterable[tuple[str, str]] | None = None
    tiers: Sequence[Sequence[str]] | None = None
    kinds: Kinds | None = None
    standardize: bool = False
    random_state: EstimatorSeed | None = None
    progressbar: bool = False

    def fit(
        self, X: TableLike, y: npt.ArrayLike | None = None, *, interventions: TableLike | None = None
    ) -> "OrderDAG":
        """Score the parent sets and calculate the posterior over graphs.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
            No missing cells; at most 1,000 columns.
        y : ignored
        interventions : (N, D) bool DataFrame or array, optional
            True where the experimenter set the cell, as in `LocalScores.from_data`.

        Returns
        -------
        OrderDAG
            Itself.

        Raises
        ------
        ValueError, TypeError
            If `LocalScores.from_data` refuses the data, or a parameter is out of range.

        Warns
        -----
        UserWarning
            As `LocalScores.from_data`, and as `DagPosterior.from_scores`.
        """
        one_of("method", self.method, ENGINES)
        rows = read_training_rows(self, X)
        scores = LocalScores.from_data(
            training_table(self, rows),
            score=self.local_score,
            interventions=interventions,
            **self._options("prior", "max_candidates", "max_indegree", "required", "forbidden", "tiers"),
            **self._options("standardize", "progressbar"),
        )
        seed, bar = seed_of(self.random_state), self.progressbar
        self.posterior_ = DagPosterior.from_scores(scores, self.method, random_seed=seed, progressbar=bar)
        self.edge_probabilities_ = self.posterior_.edge_probabilities(progressbar=bar).values
        return self
