"""`DagPosterior`: a posterior over graphs from a table, exact where it can be, else by sampled orders."""

import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from pymc_spn.dags.labelled_answers import Seed, count
from pymc_spn.dags.leaf_tables import BaseTables, LeafTables
from pymc_spn.dags.local_scores import Knowledge, LocalScores, Score, StructurePrior, check_scores
from pymc_spn.dags.mcmc_posterior import DagDraws
from pymc_spn.dags.order_paths import OrderPaths
from pymc_spn.dags.order_sample import draw_orders, mixing_of
from pymc_spn.dags.order_spn import OrderSPN
from pymc_spn.dags.prefix_lattice import sums_soon
from pymc_spn.dags.stored_scores import kept_scores
from pymc_spn.numerics.cluster_clients import check_client
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import ConvergenceWarning
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import distributed
    import xarray as xr

    from pymc_spn.tables.inputs import TableLike

ENGINES = "auto", "exact", "orders"


class DagPosterior(OrderSPN):
    """Posterior over graphs of a table, exact or an average over sampled orders.

    Made by `from_data`, `from_scores` or `from_idata`. Whatever the engine, it is an `OrderSPN` and answers the same
    questions. With sampled orders each answer is exact given each order and averaged over the orders. Its mark is then
    "exact given the draws". ``attrs["mcse"]`` is its Monte Carlo standard error, from the spread between stretches of
    the chains. A condition weights the orders. If fewer than a tenth of them would count, new ones are drawn.

    The target is order-modular: each pair of an order and a graph that fits it counts once.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pymc_spn as ps
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200)
    >>> df = pd.DataFrame({"a": a, "b": a + rng.normal(size=200), "c": rng.normal(size=200)})
    >>> post = ps.DagPosterior.from_data(df)
    >>> post.engine
    'exact'
    >>> edges = post.edge_probabilities()
    >>> bool(edges.sel(parent="a", child="b") + edges.sel(parent="b", child="a") > 0.99)
    True

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095; Koivisto and Sood (2004), JMLR 5:549-573.
    """

    # ---- making

    @classmethod
    def from_data(
        cls,
        data: "TableLike",
        score: Score | None = None,
        prior: StructurePrior = "fair",
        engine: str = "auto",
        chains: int = 4,
        draws: int = 500,
        random_seed: Seed = None,
        max_candidates: int | None = None,
        lags: int = 0,
        progressbar: bool = True,
        client: "distributed.Client | None" = None,
        **knowledge: Unpack[Knowledge],
    ) -> Self:
        """Score the parent sets of a table, and make the posterior.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            Rows are observations. No missing cells.
        score, prior
            As in `LocalScores.from_data`: by default BDeu if all columns have levels, else BGe.
        engine : {"auto", "exact", "orders"}
            "exact" sums over all orders, "orders" samples them. "auto" is exact up to 22 variables, or more if tiers
            leave few orders. Beyond, it samples.
        chains, draws, random_seed
            As in `from_scores`.
        max_candidates : int, optional
            As in `LocalScores.from_data`: by default all others up to 19 variables, and those that matter beyond.
        lags : int
            For a time series: how many earlier rows may be causes of a row, as in `LocalScores.from_data`.
        progressbar : bool
            Show bars once something has taken a second.
        client : distributed.Client, optional
            As in `from_scores`.
        **knowledge
            ``required``, ``forbidden``, ``tiers``, ``interventions``, ``max_indegree``, ``kinds``, ``standardize``,
            ``regular`` and ``max_gigabytes`` of `LocalScores.from_data`.

        Returns
        -------
        DagPosterior

        Raises
        ------
        TypeError, ValueError
            As `LocalScores.from_data` and `from_scores`.

        Warns
        -----
        ConvergenceWarning, CoverageWarning
            As `from_scores` and `LocalScores.from_data`.

        Examples
        --------
        >>> ps.DagPosterior.from_data(numbers, forbidden=[("debt", "age")]).engine
        'exact'
        """
        check_engine(engine)
        check_client(client)
        count("lags", lags, 0)
        scores = LocalScores.from_data(
            data, score, prior, max_candidates, lags=lags, progressbar=progressbar, **knowledge
        )
        return cls.from_scores(scores, engine, chains, draws, random_seed, progressbar, client)

    @classmethod
    def from_scores(
        cls,
        scores: LocalScores,
        engine: str = "auto",
        chains: int = 4,
        draws: int = 500,
        random_seed: Seed = None,
        progressbar: bool = True,
        client: "distributed.Client | None" = None,
    ) -> Self:
        """Make the posterior of given local scores.

        Parameters
        ----------
        scores : LocalScores
        engine : {"auto", "exact", "orders"}
            See `from_data`.
        chains, draws : int
            Markov chains over orders from random starts, and the orders that are kept of each. Rounds follow each other
            until R-hat of the edges is at most 1.02, five at most. The third and later ones use replica exchange. The
            orders are those of the last round.
        random_seed : int, Generator or None
            The same seed gives the same bits, on any number of threads.
        progressbar : bool
        client : distributed.Client, optional
            The chains over orders run on the workers of this cluster, with the same bits. Nothing else does.

        Returns
        -------
        DagPosterior

        Raises
        ------
        TypeError, ValueError
            If an argument is not as above, or no graph is possible; for "exact" if it would need more than 8 GB.

        Warns
        -----
        ConvergenceWarning
            If R-hat of an edge is above 1.1, with 100 draws of two chains or more: the chains have not converged. One
            chain has no R-hat.

        Examples
        --------
        >>> ps.DagPosterior.from_scores(scores).engine
        'exact'
        """
        check_engine(engine)
        check_scores(scores)
        check_client(client)
        n_chains, n_draws = count("chains", chains), count("draws", draws, 4)
        if engine == "exact" or (engine == "auto" and sums_soon(scores.must_precede)):
            post: Any = cls.exact(scores, progressbar=progressbar)
            return post
        rng, tables = np.random.default_rng(random_seed), BaseTables(scores)
        none = (0,) * scores.d
        found = draw_orders(LeafTables(tables, none, none), n_chains, n_draws, rng, progressbar, client)
        post = cls(scores, OrderPaths.of(*found), "orders", None, tables)
        post._seed = int(rng.integers(2**63))
        return post._warned()

    @classmethod
    def from_idata(
        cls, idata: "xr.DataTree | str | PathLike[str]", scores: LocalScores | None = None, name: str | None = None
    ) -> Self:
        """Read the orders that ``pm.sample`` drew of a `DagOrder`.

        Parameters
        ----------
        idata : DataTree or path
            Result of ``pm.sample``.
        scores : LocalScores, optional
            Those of the model. Needed only if they hold more than 4,000,000 numbers, which results do not keep.
        name : str, optional
            The variable's name in the model, where there are several.

        Returns
        -------
        DagPosterior

        Raises
        ------
        ValueError
            If the tree holds no orders, the scores are not those of the model, or must be given.

        Warns
        -----
        ConvergenceWarning
            If R-hat of an edge is above 1.1.

        Examples
        --------
        >>> ps.DagPosterior.from_idata(order_idata).engine
        'orders'
        """
        with reading(idata) as tree:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # R-hat of the edges is warned of below
                drawn = DagDraws.from_idata(tree, name)
            scores = kept_scores(tree, drawn.schema.name) if scores is None else scores
        drawn.check_scores(scores)
        tables, none = BaseTables(scores), (0,) * scores.d
        orders = np.argsort(drawn.state, axis=-1)
        log_weights, mixing = mixing_of(LeafTables(tables, none, none), orders)
        return cls(scores, OrderPaths.of(orders, log_weights, mixing), "orders", None, tables)._warned()

    # ---- what it is

    @property
    def engine(self) -> str:
        """Which engine answers: "exact", "orders" or "regular".

        Examples
        --------
        >>> dags.engine
        'exact'
        """
        return self.kind

    @property
    def effective_orders(self) -> float:
        """Effective number of sampled orders.

        That of their log weights along the chains, times the share that counts. Infinite for the other engines.

        Examples
        --------
        >>> sampled = ps.DagPosterior.from_idata(order_idata)
        >>> float(sampled.effective_orders) > 1
        True
        """
        return self._n_effective

    @property
    def r_hat(self) -> float:
        """Largest R-hat of edges and of the log weight; NaN for other engines.

        Edges with a probability between .01 and .99 count.

        Examples
        --------
        >>> sampled = ps.DagPosterior.from_idata(order_idata)
        >>> float(sampled.r_hat) > 0.9
        True
        """
        return np.nan if self._paths is None else self._paths.r_hat

    @property
    def _limits(self) -> dict[str, Any]:
        return super()._limits | {"engine": self.engine}


def check_engine(engine: Any) -> None:
    """Check that this is the name of an engine."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {quoted(engine)}")
