"""Recorded graphs of unknown size: their parts as labelled arrays, and answers that no relabelling changes."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.indian_chefs.draw_checks import check_graphs, check_packed, check_scalar
from pymc_spn.indian_chefs.process import CHEFS, FORMAT, GRAPH, SCHEMA, GraphSchema
from pymc_spn.indian_chefs.recorded_graphs import (
    fixed_later,
    graphs_of_prior,
    is_unpacked,
    name_of_graph,
    without_record,
)
from pymc_spn.numerics.chain_mixing import Mixing
from pymc_spn.numerics.effective_sizes import mean_errors
from pymc_spn.numerics.graph_pictures import svg_of_edges
from pymc_spn.numerics.html_repr import LATER, Facts, Listed, NotebookRepr
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables.column import list_of_columns
from pymc_spn.tables.fingerprints import FINGERPRINT, UNPACKED, fingerprint, fingerprints, model_digest_of
from pymc_spn.tables.inputs import Seed
from pymc_spn.tables.saved_files import save_tree
from pymc_spn.tables.stored_arrays import checked
from pymc_spn.tables.tree_files import draws_of_record, read_record, reading

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import xarray as xr

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
class GraphDraws(NotebookRepr):
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

    schema: GraphSchema
    counts: np.ndarray
    places: np.ndarray
    parents: np.ndarray
    scalars: "xr.Dataset"
    hyperparameters: dict[str, np.ndarray]
    chains: np.ndarray
    draws: np.ndarray
    model_digest: int = 0

    def __post_init__(self) -> None:
        check_graphs(self.counts, self.places, self.parents, len(self.schema.observed_nodes), self.schema.max_nodes)
        for argument, values in self.hyperparameters.items():
            checked(argument, values, self.counts.shape, 0.0)

    @classmethod
    def from_idata(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> "GraphDraws":
        """Read the graphs from what ``pm.sample`` returned, or from a file that it was saved to.

        Parameters
        ----------
        idata : DataTree or path
        name : str, optional
            The graph's name in the model, where there are several.

        Returns
        -------
        GraphDraws

        Raises
        ------
        ValueError
            If there is no graph, several and no name is given, or draws are missing from the tree.

        Warns
        -----
        UserWarning
            If births were refused because a graph was full.
        ConvergenceWarning
            If R-hat of the log joint is above 1.1 or its effective size below 50, over 100 draws of two chains or more.

        Examples
        --------
        >>> ps.GraphDraws.from_idata(chefs).n_nodes().dims
        ('chain', 'draw')
        """
        draws = cls._read(idata, name)
        draws._warn_of_chains(draws.schema.name)
        return draws

    @classmethod
    def from_prior(cls, idata: "xr.DataTree", name: str | None = None) -> "GraphDraws":
        """Read the graphs that ``pm.sample_prior_predictive`` drew: the same questions, asked of the prior.

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
        import xarray as xr

        from pymc_spn.indian_chefs.packed_graphs import BITS, packed_length, unpack_arrays

        schema, packed, labels, numbers = graphs_of_prior(idata, name)
        check_packed(packed, packed_length(schema.max_nodes), BITS, schema.max_nodes)
        return cls(schema, *unpack_arrays(packed, schema.max_nodes), xr.Dataset(), numbers, *labels)

    @classmethod
    def _read(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None) -> "GraphDraws":
        with reading(idata) as idata:
            name = name_of_graph(idata, name)
            schema = GraphSchema.from_vector(idata["constant_data"].dataset[name + SCHEMA].values)
            group = unpack_reputed_graphs(idata, name)[name].dataset
            digest = model_digest_of(fingerprints(group, UNPACKED), f"the group {name!r}", schema.to_vector())
            read_record(group["graphs"], "biu")
            arrays = [
                group[part].transpose("chain", "draw", *dims).values
                for part, dims in (("n_nodes", ()), ("reputations", ("node",)), ("graphs", ("parent", "child")))
            ]
            stats = idata["sample_stats"].to_dataset()
            raw = name + GRAPH, name + FINGERPRINT
            mine = [str(v) for v in stats.data_vars if str(v).startswith(f"{name}_") and v not in raw]
            for variable in mine:
                check_scalar(draws_of_record(stats[variable], group["chain"].values, group["draw"].values))
            scalars = stats[mine].rename({v: v.removeprefix(f"{name}_") for v in mine})
            refused = int(scalars["births_refused"].sum()) if "births_refused" in scalars else 0
            if refused:
                warnings.warn(
                    f"{name}: {refused:,} births were refused, since there was room for max_nodes = {schema.max_nodes} "
                    "nodes; the draws are those given no more nodes. Raise max_nodes",
                    UserWarning,
                    skip_file_prefixes=OWN_FILES,
                )
            numbers = {}
            for argument, source in schema.hyperparameters.items():
                if "fixed" in source:
                    numbers[argument] = np.full(arrays[0].shape, source["fixed"])
                elif (fixed := fixed_later(idata, source["variable"])) is not None:
                    numbers[argument] = np.full(arrays[0].shape, fixed)
                elif "posterior" in idata.children and source["variable"] in idata["posterior"].data_vars:
                    values = idata["posterior"].dataset[source["variable"]]
                    numbers[argument] = draws_of_record(values, group["chain"].values, group["draw"].values).values
            counts, places, parents = arrays
            labels = group["chain"].values, group["draw"].values
            return cls(schema, counts.astype(np.int64), places, parents.astype(bool), scalars, numbers, *labels, digest)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the draws to one netCDF file, which `ps.load` and `from_idata` read.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced.

        Examples
        --------
        >>> graphs.save(folder / "graphs.nc")
        >>> ps.load(folder / "graphs.nc").n_nodes().equals(graphs.n_nodes())
        True
        """
        import xarray as xr

        name = self.schema.name
        labels = {"chain": self.chains, "draw": self.draws}
        schema = xr.Dataset({name + SCHEMA: (f"{name}{SCHEMA}_dim_0", self.schema.to_vector())})
        numbers = {
            source["variable"]: (("chain", "draw"), self.hyperparameters[argument])
            for argument, source in self.schema.hyperparameters.items()
            if "variable" in source and argument in self.hyperparameters
        }
        parts = {
            "/": xr.Dataset(attrs={SAVED: FORMAT}),
            "/posterior": xr.Dataset(numbers, labels),
            "/sample_stats": self.scalars.rename({v: f"{name}_{v}" for v in self.scalars.data_vars}),
            "/constant_data": schema,
            f"/{name}": self.to_group(),
        }
        save_tree(xr.DataTree.from_dict(parts), path)

    def _facts(self) -> Facts:
        n, m = self.counts.shape
        facts = {"observed": f"{len(self.schema.observed_nodes)} observed nodes", "draws": f"{n} chains of {m} draws"}
        return Facts("GraphDraws", facts | {LATER: str(self._mixing or "")})

    def _listed(self) -> Listed:
        return list_of_columns(self.schema.observed_nodes)

    def _picture(self) -> str:
        d = len(self.schema.observed_nodes)
        return svg_of_edges(self.schema.observed_nodes, self.parents[..., :d, :d].mean(axis=(0, 1)))

    @property
    def _log_joint(self) -> "xr.DataArray | None":
        """(chain, draw) log density of the graph and of the terms that depend on it."""
        if not {"log_prior", "log_likelihood"} <= set(self.scalars.data_vars):
            return None
        return (self.scalars["log_prior"] + self.scalars["log_likelihood"]).transpose("chain", "draw")

    @cached_property
    def _mixing(self) -> Mixing | None:
        joint = self._log_joint
        return None if joint is None else Mixing.of(joint.values)

    def _warn_of_chains(self, name: str) -> None:
        if self._mixing is not None:
            self._mixing.warn(name)

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

    def graphs(self) -> "xr.DataArray":
        """(chain, draw, parent, child) bool over padded nodes: observed ones, then hidden ones by their rank.

        Examples
        --------
        >>> graphs.graphs().dims
        ('chain', 'draw', 'parent', 'child')
        """
        return self._labelled(self.parents, "graphs", "parent", "child")

    def reputations(self) -> "xr.DataArray":
        """(chain, draw, node) float64, NaN where there is no node.

        Examples
        --------
        >>> graphs.reputations().dims
        ('chain', 'draw', 'node')
        """
        return self._labelled(self.places, "reputations", "node")

    def n_nodes(self) -> "xr.DataArray":
        """(chain, draw) int64.

        Examples
        --------
        >>> int(graphs.n_nodes().min()) >= 2
        True
        """
        return self._labelled(self.counts, "n_nodes")

    def node_count_probabilities(self) -> "xr.DataArray":
        """(n_nodes,) posterior probability of each number of nodes, ``attrs["mcse"]`` the largest standard error.

        Examples
        --------
        >>> float(graphs.node_count_probabilities().sum().round(6))
        1.0
        """
        values = np.arange(len(self.schema.observed_nodes), self.schema.max_nodes + 1)
        return self._probabilities(self.counts[..., None] == values, "node_count_probabilities", {"n_nodes": values})

    def edge_probabilities(self) -> "xr.DataArray":
        """(parent, child) posterior probability of an edge between two observed nodes.

        What observed nodes share through hidden ones is no such edge. Where observed nodes are no parents, as is usual
        in belief networks, all of these are 0: ask `common_ancestor_probabilities`. ``attrs["links"]`` says so.

        Examples
        --------
        >>> graphs.edge_probabilities().dims
        ('parent', 'child')
        """
        d = len(self.schema.observed_nodes)
        names = list(self.schema.observed_nodes)
        edges = self.parents[..., :d, :d]
        found = self._probabilities(edges, "edge_probabilities", {"parent": names, "child": names})
        return found.assign_attrs(links="direct; those through hidden nodes are in common_ancestor_probabilities")

    def path_probabilities(self) -> "xr.DataArray":
        """(ancestor, descendant) posterior probability of a directed path between two observed nodes.

        Examples
        --------
        >>> graphs.path_probabilities().dims
        ('ancestor', 'descendant')
        """
        d = len(self.schema.observed_nodes)
        names = list(self.schema.observed_nodes)
        paths = self._paths[..., :d, :d] > 0.0
        return self._probabilities(paths, "path_probabilities", {"ancestor": names, "descendant": names})

    def common_ancestor_probabilities(self) -> "xr.DataArray":
        """(node, other) posterior probability that two observed nodes descend from one hidden node.

        Examples
        --------
        >>> graphs.common_ancestor_probabilities().dims
        ('node', 'other')
        """
        d = len(self.schema.observed_nodes)
        names = list(self.schema.observed_nodes)
        below = self._paths[..., d:, :d]
        shared = np.swapaxes(below, -1, -2) @ below > 0.0
        return self._probabilities(shared, "common_ancestor_probabilities", {"node": names, "other": names})

    def popularities(self, random_seed: Seed | None = None) -> "xr.DataArray":
        """Outgoing connection probabilities of the nodes, one draw for each graph.

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
        return self._labelled(np.where(active, values, np.nan), "popularities", "node")

    def summary(self) -> "pd.DataFrame":
        """ArviZ's summary of the scalar functions of the graph.

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
        import xarray as xr

        held = [s for s in SCALARS if s in self.scalars]
        tree = xr.DataTree.from_dict({"posterior": self.scalars[held].astype(np.float64)})
        with np.errstate(divide="ignore", invalid="ignore"):  # of those that never vary
            return az.summary(tree)

    def to_networkx(self, chain: int = 0, draw: int = 0) -> "nx.DiGraph":
        """One draw, with ``reputation`` and ``observed`` as attributes of the nodes.

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

    def to_group(self) -> "xr.Dataset":
        """Graphs as a group for a DataTree: ``idata[name] = draws.to_group()``.

        Examples
        --------
        >>> graphs.to_group()["n_nodes"].dims
        ('chain', 'draw')
        """
        import xarray as xr

        parts = {str(p.name): p for p in (self.n_nodes(), self.graphs(), self.reputations())}
        mark = np.full(self.counts.shape, fingerprint(self.model_digest, self.schema.to_vector()))
        parts[UNPACKED] = self._labelled(mark, UNPACKED)
        return xr.Dataset(parts, attrs={"prior": CHEFS})

    def _probabilities(self, events: np.ndarray, name: str, coords: dict[str, Any]) -> "xr.DataArray":
        """Averages over draws, with their largest Monte Carlo standard error."""
        import xarray as xr

        out = xr.DataArray(events.mean(axis=(0, 1)), coords, tuple(coords), name)
        return out.assign_attrs(exactness="monte-carlo", mcse=largest_mcse(events), prior=CHEFS)

    def _labelled(self, values: np.ndarray, name: str, *dims: str) -> "xr.DataArray":
        import xarray as xr

        labels = self.schema.node_labels
        coords = {"chain": self.chains, "draw": self.draws} | {d: labels for d in dims}
        return xr.DataArray(values, coords, ("chain", "draw", *dims), name, {"prior": CHEFS})


def largest_mcse(events: np.ndarray) -> float:
    """Largest Monte Carlo standard error of means over (chain, draw): 0 where nothing varies, NaN below four draws."""
    flat = events.reshape(*events.shape[:2], -1)
    varies = np.flatnonzero((flat != flat[:1, :1]).any(axis=(0, 1)))
    if flat.shape[1] < 4:
        return float("nan")
    return float(np.nanmax(mean_errors(flat[..., varies]), initial=0.0))


def unpack_reputed_graphs(idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
    """A tree with the graphs of an `IndianChefsProcess` as labelled arrays.

    Parameters
    ----------
    idata : DataTree
        Result of ``pm.sample``; not changed.
    name : str, optional
        The graph's name in the model, where there are several.

    Returns
    -------
    DataTree
        With the group ``<name>`` in place of the raw record: ``n_nodes`` (chain, draw), ``graphs`` (chain, draw,
        parent, child) bool and ``reputations`` (chain, draw, node), NaN where there is no node. Observed nodes come
        first, then hidden ones by their rank, a label within one draw.

    Raises
    ------
    ValueError
        If the tree holds no such draws, or several and no name is given.
    """
    import xarray as xr

    from pymc_spn.indian_chefs.packed_graphs import BITS, packed_length, unpack_arrays

    name = name_of_graph(idata, name)
    out = idata.copy()
    if is_unpacked(idata, name):
        return out
    schema = GraphSchema.from_vector(idata["constant_data"].dataset[name + SCHEMA].values)
    stats = idata["sample_stats"].to_dataset()
    record = read_record(stats[name + GRAPH], "f")
    labels = [
        np.asarray(record[c].values) if c in record.coords else np.arange(record.sizes[c]) for c in ("chain", "draw")
    ]
    marks = fingerprints(stats, name + FINGERPRINT)
    digest = model_digest_of(marks, f"{name!r} of sample_stats", schema.to_vector())
    check_packed(record.values, packed_length(schema.max_nodes), BITS, schema.max_nodes)
    arrays = unpack_arrays(record.values, schema.max_nodes)
    out["sample_stats"] = xr.DataTree(without_record(stats, name + GRAPH).drop_vars(name + FINGERPRINT))
    draws = GraphDraws(schema, *arrays, xr.Dataset(), {}, labels[0], labels[1], digest)
    out[name] = xr.DataTree(draws.to_group())
    return out
