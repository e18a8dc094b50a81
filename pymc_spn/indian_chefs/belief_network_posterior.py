"""`BeliefNetworkPosterior`: new rows, densities and graphs of the belief networks that were drawn."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_spn.indian_chefs.belief_network_schema import NETWORK_SCHEMA, NONLINEAR, BeliefNetworkSchema
from pymc_spn.indian_chefs.draw_checks import check_parameters
from pymc_spn.indian_chefs.graph_draws import GraphDraws
from pymc_spn.indian_chefs.graph_records import GRAPHS, NETWORKS, table_of_network
from pymc_spn.indian_chefs.network_draws import ancestral_order, draw_nodes
from pymc_spn.indian_chefs.network_questions import ASKING, Known, RowQuestions
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.chain_mixing import Mixing, Questions, diagnosis
from pymc_spn.numerics.html_repr import LATER, Facts
from pymc_spn.numerics.marks import GIVEN_DRAWS, SIMULATION, limited
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.records.posterior_of_draws import PosteriorOfDraws
from pymc_spn.records.structure_records import Recorded
from pymc_spn.tables.frame_kinds import frame_of_kind, labelled_frame_of_kind
from pymc_spn.tables.inputs import Seed, TableLike

SAVED = "belief_network_posterior"  # attribute that holds the format of a saved object
FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class BeliefNetworkPosterior(RowQuestions, PosteriorOfDraws):
    """Draws of a belief network and its graph, made by `from_idata`.

    Of a nonlinear Gaussian network they are a `NLGBNPosterior`.

    Parameters
    ----------
    schema : BeliefNetworkSchema
    parameters : (chain, draw, (K + 2) K) float32
        Weights, biases and precisions as recorded.
    graphs : GraphDraws
        The graphs, with their own questions.
    table : DataArray, optional
        The training table.
    log_data : (chain, draw) DataArray, optional
        Log density of the training table given each network, hidden nodes integrated out, in nats; by a pool of each
        draw's own, exact for linear networks. None where it was not recorded: for sigmoid networks, and where an
        observed node was a parent.
    model_digest : int
        Of the data and constants of the model.

    Notes
    -----
    Hidden nodes have no identity from draw to draw, so nothing is ever averaged over them. Densities are integrals over
    the hidden nodes, estimated from ancestral draws and marked monte-carlo; those of linear networks are exact.

    Examples
    --------
    >>> network = ps.BeliefNetworkPosterior.from_idata(chefs)
    >>> network.sample(3, random_seed=1).shape
    (3, 2)
    """

    record = NETWORKS

    schema: BeliefNetworkSchema
    parameters: np.ndarray
    graphs: GraphDraws
    table: xr.DataArray | None = None
    log_data: xr.DataArray | None = None
    model_digest: int = 0

    @classmethod
    def _of(cls, recorded: Recorded) -> Self:
        schema = recorded.schema
        family: Any = cls
        if schema.kind == NONLINEAR and cls is BeliefNetworkPosterior:
            family = NLGBNPosterior
        elif schema.kind != NONLINEAR and issubclass(cls, NLGBNPosterior):
            raise ValueError(f"{schema.name!r} is a {schema.kind} network; read it by ps.BeliefNetworkPosterior")
        graphs = GraphDraws._of(GRAPHS.read(recorded.tree, schema.graph))
        weights, *rest = (recorded.arrays[key] for key in ("weights", "biases", "precisions"))
        parameters = np.nan_to_num(np.concatenate([weights, *(part[..., None, :] for part in rest)], axis=2), nan=0.0)
        parameters = parameters.reshape(*weights.shape[:2], -1)
        check_parameters(parameters, graphs, len(schema.columns), schema.max_nodes)
        logs = recorded.statistics().get("log_density")
        logs = None if logs is None or not np.isfinite(logs).all() else logs
        return family(schema, parameters, graphs, table_of_network(recorded), logs, recorded.model_digest)

    def _saved(self) -> xr.DataTree:
        name, tree = self.schema.name, self.graphs._saved()
        tree.attrs = {SAVED: FORMAT}
        schema = (f"{name}{NETWORK_SCHEMA}_dim_0", self.schema.to_vector())
        tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign({name + NETWORK_SCHEMA: schema}))
        arrays = NETWORKS.arrays(tree, self.schema, self.parameters)
        tree[name] = xr.DataTree(self.record.marked(self, arrays))
        if self.log_data is not None:
            stats = tree["sample_stats"].to_dataset().assign({f"{name}_log_density": self.log_data})
            tree["sample_stats"] = xr.DataTree(stats)
        if self.table is not None:
            tree["observed_data"] = xr.DataTree(xr.Dataset({name: self.table}))
        return tree

    @property
    def _labels(self) -> dict[str, np.ndarray]:
        return {"chain": self.graphs.chains, "draw": self.graphs.draws}

    def _facts(self) -> Facts:
        n, m, _ = self.parameters.shape
        facts = {"network": self.schema.kind, "observed": f"{len(self.schema.columns)} observed nodes"}
        facts |= {"draws": f"{n} chains of {m} draws", LATER: str(self._mixing or "")}
        return Facts(type(self).__name__, facts)

    def _picture(self) -> str:
        return self.graphs._picture()

    @cached_property
    def _mixing(self) -> Mixing | None:
        if self.log_data is None:
            return self.graphs._mixing
        return Mixing.of(self.log_data.values, "log density of the data")

    def diagnose(
        self,
        questions: Questions | None = None,
        X: TableLike | None = None,
        *,
        n_pool: int = 2000,
        max_draws: int = 400,
        random_seed: Seed | None = None,
        progressbar: bool = True,
    ) -> pd.DataFrame:
        """Tabulate R-hat and effective size of log density, log joint and questions.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives an array with the dimensions ``chain`` and ``draw``, such as ``{"nodes":
            lambda post: post.graphs.n_nodes()}``.
        X : DataFrame of pandas, polars or pyarrow, or (rows, D) array, optional
            Rows whose log density is asked for too.
        n_pool, max_draws, random_seed
            As in `log_density`. The noise of the pools is in the log densities, and makes chains look more alike.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat``, NaN where they are not defined.

        Raises
        ------
        TypeError, ValueError
            If `questions` is not a mapping to functions, an answer does not have one value for each draw, or as in
            `log_density`.

        Examples
        --------
        >>> list(network.diagnose(n_pool=100, max_draws=10, random_seed=1).columns)
        ['mean', 'sd', 'ess_bulk', 'r_hat']
        """
        own = {} if self.log_data is None else {"log density of the data": self.log_data}
        own |= PosteriorOfDraws._own_numbers(self.graphs)
        with counted(ASKING, progressbar):
            if X is not None:
                logs = self.log_density(X, n_pool=n_pool, max_draws=max_draws, per_draw=True, random_seed=random_seed)
                own |= {"log_density, mean of rows": logs.mean("row"), "log_density": logs}
            found = diagnosis(self, questions, own)
        return labelled_frame_of_kind(found, self._frame, "quantity")

    # ---- data

    def sample(
        self,
        n: int = 1000,
        given: Known = None,
        random_seed: Seed | None = None,
        *,
        n_pool: int = 2000,
        progressbar: bool = True,
    ) -> Any:
        """Draw new rows, in the units of the training data.

        Each row comes from a draw of its own, taken at random from all chains; with `given`, from up to a thousand.

        Parameters
        ----------
        n : int
            Rows, at least 1.
        given : mapping or text, optional
            What the columns are known to be, as in `log_density`. The other cells are then drawn as by `impute`, and
            each network counts by the density of what is known.
        random_seed : int, Generator or None
        n_pool : int
            As in `impute`; where nothing is given, no pool is needed.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the training data were
            (n, D) float64, the columns of the training data. In pandas, ``attrs`` hold the marks of an answer.

        Raises
        ------
        TypeError, ValueError
            If `n` is not an integer of at least 1, or `given` is refused as in `log_density`.

        Examples
        --------
        >>> network.sample(3, random_seed=1).shape
        (3, 2)
        """
        names = list(self.schema.columns)
        checked_count("n", n, 1, 32.0 + 16.0 * len(names))
        if given is not None:
            frame, _ = self._rows(pd.DataFrame([[np.nan] * len(names)], columns=names), given)
            rows, attrs = self._completed("given", frame, n, random_seed, n_pool, 1000, progressbar)
            out = pd.DataFrame(rows[:, 0], columns=names)
            out.attrs = attrs
            return frame_of_kind(out, self.schema.frame)
        rng = np.random.default_rng(random_seed)
        n_chains, n_draws, _ = self.parameters.shape
        chains, draws = rng.integers(0, n_chains, n), rng.integers(0, n_draws, n)
        cells = np.empty((n, len(names)))
        with counted(ASKING, progressbar):
            for c, t in each(np.unique(np.column_stack([chains, draws]), axis=0)):
                rows = np.flatnonzero((chains == c) & (draws == t))
                network = self._network(c, t)
                order = ancestral_order(network.weights)
                nodes = draw_nodes(rng, network.kind, order, *network[1:], len(rows))
                cells[rows] = nodes[: len(names)].T
        frame = pd.DataFrame(cells, columns=names)
        frame = frame if self.schema.scaling is None else self.schema.scaling.inverse(frame)
        frame.attrs = {"exactness": limited(SIMULATION, GIVEN_DRAWS)}
        return frame_of_kind(frame, self.schema.frame)


class NLGBNPosterior(BeliefNetworkPosterior):
    """Draws of a nonlinear Gaussian belief network, a `BeliefNetworkPosterior`.

    Examples
    --------
    >>> type(ps.NLGBNPosterior.from_idata(chefs)).__name__
    'NLGBNPosterior'
    """
