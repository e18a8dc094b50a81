"""Recorded graphs of unknown size: their parts as labelled arrays, and answers that no relabelling changes."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import xarray as xr

from pymc_spn.indian_chefs.draw_checks import check_graphs
from pymc_spn.indian_chefs.graph_records import GRAPHS, arrays_of_packed, graphs_of_prior
from pymc_spn.indian_chefs.process import CHEFS, SCHEMA, GraphSchema
from pymc_spn.numerics.graph_pictures import svg_of_edges
from pymc_spn.numerics.html_repr import LATER, Facts, Listed
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.records.posterior_of_draws import PosteriorOfDraws
from pymc_spn.records.structure_records import Recorded
from pymc_spn.tables.column import list_of_columns
from pymc_spn.tables.inputs import Seed
from pymc_spn.tables.stored_arrays import checked

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

SAVED = "graph_draws"  # attribute that marks a file of `GraphDraws.save`
SCALARS = (
    "n_nodes",
    "n_edges",
    "depth",
    "width",
    "n_orphans",
    "max_out_degree",
    "hidden_reputation",
    "log_prior",
    "log_likelihood",
)


@dataclass(frozen=True, eq=False, repr=False)
class GraphDraws(PosteriorOfDraws):
    """Draws of a graph of unknown size; made by `from_idata`.

    Parameters
    ----------
    schema : GraphSchema
    counts : (chain, draw) int64
        Nodes.
    places : (chain, draw, K) float64
        Reputations, NaN where there is no node.
    parents : (chain, draw, K, K) bool
        At [k, i] whether node k is a parent of i; observed nodes first, then hidden ones by their rank.
    scalars : Dataset
        Sampler statistics of the graph, without its name before theirs.
    hyperparameters : dict of (chain, draw) float64
    chains, draws : (n_chains,) and (n_draws,)
        Labels.
    model_digest : int
        Of the data and constants of the model.

    Notes
    -----
    Hidden nodes have no identity from draw to draw: their rank by reputation is a label, not a name. Answers are
    therefore about observed nodes and about functions of whole graphs.

    Examples
    --------
    >>> graphs = ps.GraphDraws.from_idata(chefs)
    >>> graphs.node_count_probabilities().dims
    ('n_nodes',)
    """

    record = GRAPHS

    schema: GraphSchema
    counts: np.ndarray
    places: np.ndarray
    parents: np.ndarray
    scalars: xr.Dataset
    hyperparameters: dict[str, np.ndarray]
    chains: np.ndarray
    draws: np.ndarray
    model_digest: int = 0

    def __post_init__(self) -> None:
        check_graphs(self.counts, self.places, self.parents, len(self.schema.observed_nodes), self.schema.max_nodes)
        for argument, values in self.hyperparameters.items():
            checked(argument, values, self.counts.shape, 0.0)

    @classmethod
    def from_prior(cls, idata: xr.DataTree, name: str | None = None) -> "GraphDraws":
        """Read the graphs that ``pm.sample_prior_predictive`` drew.

        Parameters
        ----------
        idata : DataTree
            With the groups ``prior_predictive`` and ``constant_data``.
        name : str, optional
            The graph's name in the model, where there are several.

        Returns
        -------
        GraphDraws

        Raises
        ------
        ValueError
            If it holds no graph drawn from the prior, or several and no name is given.

        Examples
        --------
        >>> with pm.Model():
        ...     graph = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=["a", "b"])
        ...     drawn = pm.sample_prior_predictive(5, random_seed=1)
        >>> ps.GraphDraws.from_prior(drawn).edge_probabilities().dims
        ('parent', 'child')
        """
        schema, packed, labels, numbers = graphs_of_prior(idata, name)
        counts, parents, places = arrays_of_packed(schema, packed).values()
        numbers_of_graphs = {"n_nodes": counts, "n_edges": parents.sum((-2, -1))}
        scalars = {k: (("chain", "draw"), v) for k, v in numbers_of_graphs.items()}
        coords = dict(zip(("chain", "draw"), labels, strict=True))
        return cls(schema, counts, places, parents, xr.Dataset(scalars, coords), numbers, *labels)

    @classmethod
    def _of(cls, recorded: Recorded) -> Self:
        schema, scalars = recorded.schema, recorded.statistics()
        refused = int(scalars["births_refused"].sum()) if "births_refused" in scalars else 0
        if refused:
            warnings.warn(
                f"{schema.name}: {refused:,} births were refused, because a graph may have max_nodes = "
                f"{schema.max_nodes} nodes. Draws are from the posterior given at most so many. Raise max_nodes",
                UserWarning,
                skip_file_prefixes=OWN_FILES,
            )
        found = {argument: recorded.numbers_of(source) for argument, source in schema.hyperparameters.items()}
        numbers = {argument: values for argument, values in found.items() if values is not None}
        counts, parents, places = recorded.arrays.values()
        labels = recorded.chains, recorded.draws, recorded.model_digest
        return cls(schema, counts, places, parents, scalars, numbers, *labels)

    def _saved(self) -> xr.DataTree:
        name = self.schema.name
        labels = {"chain": self.chains, "draw": self.draws}
        schema = xr.Dataset({name + SCHEMA: (f"{name}{SCHEMA}_dim_0", self.schema.to_vector())})
        numbers = {
            source["variable"]: (("chain", "draw"), self.hyperparameters[argument])
            for argument, source in self.schema.hyperparameters.items()
            if "variable" in source and argument in self.hyperparameters
        }
        parts = {
            "/": xr.Dataset(attrs={SAVED: GraphSchema.form}),
            "/posterior": xr.Dataset(numbers, labels),
            "/sample_stats": self.scalars.rename({v: f"{name}_{v}" for v in self.scalars.data_vars}),
            "/constant_data": schema,
            f"/{name}": self.record.marked(
                self, {"n_nodes": self.counts, "graphs": self.parents, "reputations": self.places}
            ),
        }
        return xr.DataTree.from_dict(parts)

    def _facts(self) -> Facts:
        n, m = self.counts.shape
        facts = {"observed": f"{len(self.schema.observed_nodes)} observed nodes", "draws": f"{n} chains of {m} draws"}
        return Facts("GraphDraws", facts | {LATER: str(self._mixing or "")})

    def _listed(self) -> Listed:
        return list_of_columns(self.schema.observed_nodes)

    def _picture(self) -> str:
        d = len(self.schema.observed_nodes)
        return svg_of_edges(self.schema.observed_nodes, self.parents[..., :d, :d].mean(axis=(0, 1)))

    @cached_property
    def _log_joint(self) -> np.ndarray | None:
        """(chain, draw) log density of the graph and of the terms that depend on it."""
        if not {"log_prior", "log_likelihood"} <= set(self.scalars.data_vars):
            return None
        return (self.scalars["log_prior"] + self.scalars["log_likelihood"]).transpose("chain", "draw").values

    def _own_numbers(self) -> "dict[str, xr.DataArray]":
        return super()._own_numbers() | {name: self.scalars[name] for name in SCALARS if name in self.scalars}

    @cached_property
    def _paths(self) -> np.ndarray:
        """(chain, draw, node, node) 0 or 1: whether a directed path leads from one node to another; without padding."""
        n = int(self.counts.max())
        reached = self.parents[..., :n, :n].astype(np.float32)  # products of matrices count the ways of joining paths
        length = 1
        while length < n:
            reached = np.minimum(reached + reached @ reached, np.float32(1.0))
            length *= 2
        return reached

    def graphs(self) -> xr.DataArray:
        """Return (chain, draw, parent, child) bool: observed nodes, then hidden ones.

        Hidden nodes stand by their rank, and graphs are padded to the largest.

        Examples
        --------
        >>> graphs.graphs().dims
        ('chain', 'draw', 'parent', 'child')
        """
        return self._of_nodes("graphs", self.parents, "parent", "child")

    def reputations(self) -> xr.DataArray:
        """Return the reputations (chain, draw, node), NaN where there is no node.

        Examples
        --------
        >>> graphs.reputations().dims
        ('chain', 'draw', 'node')
        """
        return self._of_nodes("reputations", self.places, "node")

    def n_nodes(self) -> xr.DataArray:
        """(chain, draw) int64.

        Examples
        --------
        >>> int(graphs.n_nodes().min()) >= 2
        True
        """
        return self._of_nodes("n_nodes", self.counts)

    def node_count_probabilities(self, per_draw: bool = False) -> xr.DataArray:
        """Calculate the posterior probability of each number of nodes.

        ``attrs["mcse"]`` is the largest standard error.

        Parameters
        ----------
        per_draw : bool
            Whether the answer is that of each draw, with the dimensions chain and draw in front.

        Examples
        --------
        >>> float(graphs.node_count_probabilities().sum().round(6))
        1.0
        """
        values = np.arange(len(self.schema.observed_nodes), self.schema.max_nodes + 1)
        events = self.counts[..., None] == values
        return self._average("node_count_probabilities", events, {"n_nodes": values}, per_draw, prior=CHEFS)

    def edge_probabilities(self, per_draw: bool = False) -> xr.DataArray:
        """Calculate (parent, child) probabilities of edges between observed nodes.

        What observed nodes share through hidden ones is no such edge. Where observed nodes are no parents, as is usual
        in belief networks, all of these are 0: ask `common_ancestor_probabilities`. ``attrs["links"]`` says so.

        Parameters
        ----------
        per_draw : bool
            Whether the answer is that of each draw, with the dimensions chain and draw in front.

        Examples
        --------
        >>> graphs.edge_probabilities().dims
        ('parent', 'child')
        """
        d = len(self.schema.observed_nodes)
        found = self._of_pairs("edge_probabilities", self.parents[..., :d, :d], ("parent", "child"), per_draw)
        return found.assign_attrs(links="direct; those through hidden nodes are in common_ancestor_probabilities")

    def common_ancestor_probabilities(self, per_draw: bool = False) -> xr.DataArray:
        """Calculate (node, other) probabilities that two nodes share a hidden ancestor.

        Parameters
        ----------
        per_draw : bool
            Whether the answer is that of each draw, with the dimensions chain and draw in front.

        Examples
        --------
        >>> graphs.common_ancestor_probabilities().dims
        ('node', 'other')
        """
        d = len(self.schema.observed_nodes)
        below = self._paths[..., d:, :d]
        shared = np.swapaxes(below, -1, -2) @ below > 0.0
        return self._of_pairs("common_ancestor_probabilities", shared, ("node", "other"), per_draw)

    def popularities(self, random_seed: Seed | None = None) -> xr.DataArray:
        """Draw outgoing connection probabilities of the nodes, once for each graph.

        Beta(m, alpha + a - m) for hidden nodes, Beta(phi + m, alpha + a - m) for observed ones.

        Parameters
        ----------
        random_seed : int, Generator or None

        Returns
        -------
        (chain, draw, node) DataArray
            NaN where there is no node.

        Raises
        ------
        ValueError
            If the draws of a hyperparameter are missing.

        Examples
        --------
        >>> graphs.popularities(random_seed=1).dims
        ('chain', 'draw', 'node')
        """
        lacking = [a for a in ("alpha", "phi") if a not in self.hyperparameters]
        if lacking:
            raise ValueError(f"the posterior group lacks the draws of {lacking[0]}; sample with it among var_names")
        rng = np.random.default_rng(random_seed)
        counts, theta, parents = self.counts, self.places, self.parents
        m = parents.sum(-1)
        with np.errstate(invalid="ignore"):
            below = (theta[..., None, :] < theta[..., :, None]).sum(-1)
        alpha, phi = (self.hyperparameters[a][..., None] for a in ("alpha", "phi"))
        is_observed = np.arange(self.schema.max_nodes) < len(self.schema.observed_nodes)
        active = np.arange(self.schema.max_nodes) < counts[..., None]
        shape = np.where(active, m + np.where(is_observed, phi, 0.0), 1.0)
        values = rng.beta(shape, np.where(active, alpha + below - m, 1.0))
        return self._of_nodes("popularities", np.where(active, values, np.nan), "node")

    def summary(self) -> "pd.DataFrame":
        """Summarise the scalar functions of the graph as ArviZ does.

        Returns
        -------
        DataFrame
            A row for each function; those that never vary have no R-hat.

        Examples
        --------
        >>> graphs.summary().index.tolist()[:2]
        ['n_nodes', 'n_edges']
        """
        import arviz as az

        held = [s for s in SCALARS if s in self.scalars]
        tree = xr.DataTree.from_dict({"posterior": self.scalars[held].astype(np.float64)})
        with np.errstate(divide="ignore", invalid="ignore"):  # of those that never vary
            return az.summary(tree)

    def to_networkx(self, chain: int = 0, draw: int = 0) -> "nx.DiGraph":
        """Convert one draw to a graph of networkx, with attributes of the nodes.

        Parameters
        ----------
        chain, draw : int
            Places, not labels.

        Returns
        -------
        networkx.DiGraph
            Nodes by their names, ``hidden_1`` and so on by their rank; edges from parents to children.

        Examples
        --------
        >>> graphs.to_networkx(chain=0, draw=0).nodes["age"]["observed"]
        True
        """
        import networkx as nx

        counts, theta, parents = (p[chain, draw] for p in (self.counts, self.places, self.parents))
        labels = self.schema.node_labels[: int(counts)]
        graph = nx.DiGraph()
        for i, label in enumerate(labels):
            graph.add_node(label, reputation=float(theta[i]), observed=i < len(self.schema.observed_nodes))
        graph.add_edges_from((labels[k], labels[i]) for k, i in np.argwhere(parents))
        return graph

    def _of_pairs(self, name: str, events: np.ndarray, dims: tuple[str, str], per_draw: bool) -> xr.DataArray:
        """Events (chain, draw, D, D) of pairs of observed nodes, or their averages."""
        coords = {dim: list(self.schema.observed_nodes) for dim in dims}
        return self._average(name, events, coords, per_draw, prior=CHEFS)

    def _of_nodes(self, name: str, values: np.ndarray, *dims: str) -> xr.DataArray:
        """Numbers (chain, draw, ...) of padded nodes."""
        return self._of_draws(name, values, dict.fromkeys(dims, self.schema.node_labels), prior=CHEFS)
