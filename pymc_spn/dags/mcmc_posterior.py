"""Graphs drawn by `DagOrder` or `DagPartition`: edge probabilities, their effective draws and R-hat."""

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.edge_summaries import consensus_of_edges, table_of_edges
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.prefix_lattice import whole_set
from pymc_spn.dags.schema import (
    FORMAT,
    PARENTS,
    SCHEMA,
    DagSchema,
    find_schema,
    is_unpacked,
    summary_of_scores,
)
from pymc_spn.numerics.chain_mixing import Mixing, r_hat_and_size
from pymc_spn.numerics.effective_sizes import mean_errors
from pymc_spn.numerics.graph_pictures import svg_of_edges
from pymc_spn.numerics.html_repr import LATER, Facts, Listed, NotebookRepr
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import list_of_columns
from pymc_spn.tables.fingerprints import FINGERPRINT, UNPACKED, fingerprint, fingerprints, model_digest_of
from pymc_spn.tables.saved_files import save_tree
from pymc_spn.tables.stored_arrays import checked, refuse
from pymc_spn.tables.tree_files import draws_of_record, read_record, reading

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pymc_spn.dags.dag import DAG

DIMS = "chain", "draw", "parent", "child"


SCORE = "_log_score"  # statistic of the steps
SAVED = "dag_draws"  # attribute that marks a file of `DagDraws.save`


def unpack_graphs(idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
    """A tree with the graphs of a `DagOrder` or `DagPartition` as labelled arrays.

    Parameters
    ----------
    idata : DataTree
        Result of ``pm.sample``; not changed.
    name : str, optional
        The variable's name in the model, where there are several.

    Returns
    -------
    DataTree
        With the group ``<name>`` in place of the raw record: ``graphs`` (chain, draw, parent, child) bool, and
        ``order`` or ``partition`` (chain, draw, variable), the places that they were drawn given.

    Raises
    ------
    ValueError
        If the tree holds no such draws, or several and no name is given.
    """
    import xarray as xr

    schema = find_schema(idata, name)
    tree = idata.copy()
    if is_unpacked(idata, schema.name):
        return tree
    for group, variable in (("sample_stats", schema.name + PARENTS), ("posterior", schema.name)):
        if group not in idata.children or variable not in idata[group].data_vars:
            raise ValueError(f"the tree lacks {variable!r} in its group {group!r}")
    stats = idata["sample_stats"].to_dataset()
    parents = read_record(stats[schema.name + PARENTS], "iu")
    labels = [
        np.asarray(parents[c].values) if c in parents.coords else np.arange(parents.sizes[c]) for c in ("chain", "draw")
    ]
    state = draws_of_record(idata["posterior"].dataset[schema.name], *labels)
    has_score = schema.name + SCORE in stats
    score = read_record(stats[schema.name + SCORE], "f").values if has_score else None
    marks = fingerprints(stats, schema.name + FINGERPRINT)
    digest = model_digest_of(marks, f"{schema.name!r} of sample_stats", schema.to_vector())
    numbers = parents.values.astype(np.int64), state.values.astype(np.int64)
    draws = DagDraws(schema, *numbers, labels[0], labels[1], score, digest)
    left = stats.drop_vars([schema.name + PARENTS, schema.name + FINGERPRINT])
    left = left.drop_dims(str(parents.dims[2]), errors="ignore")
    tree["sample_stats"] = xr.DataTree(left)
    tree[schema.name] = xr.DataTree(draws.to_group())
    return tree


@dataclass(frozen=True, eq=False, repr=False)
class DagDraws(NotebookRepr):
    """Draws of graphs from a posterior; made by `from_idata`.

    Parameters
    ----------
    schema : DagSchema
    parents : (chain, draw, d) int64
        Parents of each variable as bits.
    state : (chain, draw, d) int64
        Positions in an order, or block numbers of an ordered partition.
    chains, draws : (n_chains,) and (n_draws,)
        Labels.
    log_score : (chain, draw) float64, optional
        Log weight of each order or partition, its graphs summed out.
    model_digest : int
        Of the data and constants of the model.

    Examples
    --------
    >>> with pm.Model():
    ...     g = ps.DagPartition("graph", scores)
    ...     draws = ps.DagDraws.from_idata(pm.sample(**few))
    >>> draws.edge_probabilities().dims
    ('parent', 'child')
    """

    schema: DagSchema
    parents: np.ndarray
    state: np.ndarray
    chains: np.ndarray
    draws: np.ndarray
    log_score: np.ndarray | None = None
    model_digest: int = 0

    def __post_init__(self) -> None:
        d, place = len(self.schema.variables), f"{self.schema.name!r}"
        shape = len(self.chains), len(self.draws), d
        if self.parents.shape != shape or (self.parents & ~np.int64(whole_set(d))).any():
            refuse(f"{place}: the drawn graphs", f"have sets of {d} variables for each, {shape}", self.parents.shape)
        state = checked(f"{place}: {self.schema.state}", self.state, shape, 0, d - 1, whole=True)
        if self.schema.state == "order" and (np.sort(state, axis=-1) != np.arange(d)).any():
            refuse(f"{place}: order", f"be an order of {d} variables in each draw", "another")
        if (self._graphs & (state[..., :, None] >= state[..., None, :])).any():
            refuse(f"{place}: the drawn graphs", f"have their edges by the {self.schema.state} of each draw", "others")

    @classmethod
    def from_idata(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> "DagDraws":
        """Read the draws from what ``pm.sample`` returned, or from a file that it was saved to.

        Parameters
        ----------
        idata : DataTree or path
        name : str, optional
            The variable's name in the model, where there are several.

        Raises
        ------
        ValueError
            If the tree holds no such draws, or several and no name is given.

        Warns
        -----
        ConvergenceWarning
            If R-hat of the log score is above 1.1 or its effective size below 50, over 100 draws of two chains or more.

        Examples
        --------
        >>> ps.DagDraws.from_idata(dag_idata).names
        ('age', 'income', 'debt')
        """
        with reading(idata) as idata:
            schema = find_schema(idata, name)
            group = unpack_graphs(idata, schema.name)[schema.name].dataset
            marks = fingerprints(group, UNPACKED)
            digest = model_digest_of(marks, f"the group {schema.name!r}", schema.to_vector())
            drawn = read_record(group["graphs"], "biu")
            bits = np.left_shift(np.uint64(1), np.arange(len(schema.variables), dtype=np.uint64))
            graphs = drawn.transpose(*DIMS).values.astype(bool)
            checked(f"the graphs of {schema.name!r}", graphs, (None, None, bits.size, bits.size))
            parents = (graphs * bits[:, None]).sum(axis=2, dtype=np.uint64).view(np.int64)
            state = group[schema.state].transpose("chain", "draw", "variable").values.astype(np.int64)
            score = group["log_score"].transpose("chain", "draw").values if "log_score" in group else None
            post = cls(schema, parents, state, group["chain"].values, group["draw"].values, score, digest)
        if post._mixing is not None:
            post._mixing.warn(schema.name)
        return post

    def save(self, path: str | PathLike[str]) -> None:
        """Write the draws to one netCDF file, which `ps.load` and `from_idata` read.

        Examples
        --------
        >>> dag_draws.save(folder / "draws.nc")
        >>> ps.load(folder / "draws.nc").names
        ('age', 'income', 'debt')
        """
        import xarray as xr

        name = self.schema.name
        schema = xr.Dataset({name + SCHEMA: (f"{name}{SCHEMA}_dim_0", self.schema.to_vector())})
        parts = {"/": xr.Dataset(attrs={SAVED: FORMAT}), "/constant_data": schema, f"/{name}": self.to_group()}
        save_tree(xr.DataTree.from_dict(parts), path)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables.

        Examples
        --------
        >>> dag_draws.names
        ('age', 'income', 'debt')
        """
        return self.schema.variables

    def _facts(self) -> Facts:
        n, m, d = self.parents.shape
        facts = {"variables": f"{d} variables", "draws": f"{n} chains of {m} draws", "target": self.schema.target}
        return Facts("DagDraws", facts | {LATER: str(self._mixing or "")})

    def _listed(self) -> Listed:
        return list_of_columns(self.names)

    def _picture(self) -> str:
        return svg_of_edges(self.names, self._graphs.mean(axis=(0, 1)))

    @cached_property
    def _mixing(self) -> Mixing | None:
        return None if self.log_score is None else Mixing.of(self.log_score, "log score")

    @cached_property
    def _graphs(self) -> np.ndarray:
        return (self.parents[..., None, :] >> np.arange(len(self.names))[:, None] & 1).astype(bool)

    def graphs(self) -> "xr.DataArray":
        """(chain, draw, parent, child) bool: the drawn graphs.

        Examples
        --------
        >>> dag_draws.graphs().sizes["draw"]
        50
        """
        return self._labelled(self._graphs, "graphs", exactness="monte-carlo")

    def edge_probabilities(self, scores: LocalScores | None = None) -> "xr.DataArray":
        """Posterior probability of every edge.

        Parameters
        ----------
        scores : LocalScores, optional
            Those of the model. Averages the exact probabilities given each order in place of the drawn edges: less
            noise. Draws of `DagOrder` only.

        Returns
        -------
        (parent, child) DataArray
            ``attrs["mcse"]`` is the largest Monte Carlo standard error of an edge, NaN below four draws;
            `edge_diagnostics` has all.

        Examples
        --------
        >>> edges = dag_draws.edge_probabilities()
        >>> bool(edges.sel(parent="income", child="debt") + edges.sel(parent="debt", child="income") > 0.99)
        True
        """
        import xarray as xr

        probability, errors = self._edge_errors(self._edge_draws(scores))
        worst = float(np.nanmax(errors)) if np.isfinite(errors).any() else 0.0
        if self.draws.size < 4:
            worst = float("nan")
        names = list(self.names)
        marks = {"exactness": "monte-carlo", "target": self.schema.target, "candidates": self._candidates}
        coords = {"parent": names, "child": names}
        return xr.DataArray(probability, coords, list(coords), "edge_probabilities", marks | {"mcse": worst})

    def edge_diagnostics(self, scores: LocalScores | None = None) -> "xr.Dataset":
        """Probability, Monte Carlo standard error, bulk effective draws and R-hat of every edge.

        Parameters
        ----------
        scores : LocalScores, optional
            As in `edge_probabilities`.

        Returns
        -------
        Dataset (parent, child)
            ``mcse``, ``ess`` and ``r_hat`` are NaN for an edge that is in no draw or in all: its error is not known.

        Examples
        --------
        >>> list(dag_draws.edge_diagnostics().data_vars)
        ['probability', 'mcse', 'ess', 'r_hat']
        """
        import xarray as xr

        draws = self._edge_draws(scores)
        probability, errors = self._edge_errors(draws)
        d = len(self.names)
        r_hat, size = r_hat_and_size(draws.reshape(*draws.shape[:2], -1).astype(np.float64))
        found = {"mcse": errors, "ess": size.reshape(d, d), "r_hat": r_hat.reshape(d, d)}
        coords = {"parent": list(self.names), "child": list(self.names)}
        values = {"probability": probability, **found}
        return xr.Dataset(
            {name: (("parent", "child"), v) for name, v in values.items()},
            coords=coords,
            attrs={"exactness": "monte-carlo", "target": self.schema.target, "candidates": self._candidates},
        )

    def edge_table(self, least: float = 0.0, scores: LocalScores | None = None) -> "pd.DataFrame":
        """Edges and their probabilities as a table, most probable first.

        Parameters
        ----------
        least : float
            Edges of smaller probability are left out.
        scores : LocalScores, optional
            As in `edge_probabilities`.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the data were
            Columns as those of `OrderSPN.edge_table`. ``mcse`` is NaN for an edge that is in no draw or in all.

        Raises
        ------
        ValueError
            If `least` is not a number from 0 to 1; as for `edge_probabilities`.

        Examples
        --------
        >>> dag_draws.edge_table(least=0.5).columns.tolist()
        ['parent', 'child', 'probability', 'mcse', 'reversed']
        """
        return table_of_edges(self.names, *self._edge_errors(self._edge_draws(scores)), least, self.schema.frame)

    def consensus(self, threshold: float = 0.5, scores: LocalScores | None = None) -> "DAG":
        """One graph: the edges above a threshold, without those that would close a cycle.

        Parameters
        ----------
        threshold : float
            As in `OrderSPN.consensus`.
        scores : LocalScores, optional
            As in `edge_probabilities`.

        Returns
        -------
        DAG

        Raises
        ------
        ValueError
            If `threshold` is not a number from 0 to 1; as for `edge_probabilities`.

        Examples
        --------
        >>> dag_draws.consensus(0.2).names
        ('age', 'income', 'debt')
        """
        return consensus_of_edges(self.names, self._edge_draws(scores).mean(axis=(0, 1)), threshold)

    def _edge_draws(self, scores: LocalScores | None) -> np.ndarray:
        """(chain, draw, parent, child) whether each edge is drawn, or its probability given the drawn order."""
        return self._graphs if scores is None else self.edges_given_order(scores).values

    def _edge_errors(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (parent, child) of what `_edge_draws` gives, and its error: NaN where it does not vary."""
        errors = np.full(draws.shape[2:], np.nan)
        varies = (draws != draws[:1, :1]).any(axis=(0, 1))
        if draws.shape[1] > 3:
            errors[varies] = mean_errors(draws[:, :, varies])
        return draws.mean(axis=(0, 1)), errors

    def edges_given_order(self, scores: LocalScores) -> "xr.DataArray":
        """(chain, draw, parent, child) float64: exact probability of every edge given each drawn order.

        Examples
        --------
        >>> dag_draws_of_orders = ps.DagDraws.from_idata(order_idata)
        >>> dag_draws_of_orders.edges_given_order(scores).dims
        ('chain', 'draw', 'parent', 'child')
        """
        from pymc_spn.dags.parent_set_scores import edges_given_orders, pair_matrix

        self.check_scores(scores)
        n, m, d = self.state.shape
        orders = np.argsort(self.state.reshape(n * m, d), axis=1)
        out = pair_matrix(scores, edges_given_orders(scores, scores.log_sums, orders))
        return self._labelled(out.reshape(n, m, d, d), "edges_given_order", exactness="monte-carlo")

    def check_scores(self, scores: LocalScores) -> None:
        """Check that the draws are orders, and that these are the scores of their model.

        Examples
        --------
        >>> ps.DagDraws.from_idata(order_idata).check_scores(scores)  # raises ValueError if they are others
        """
        if self.schema.state != "order":
            raise ValueError("scores: only draws of ps.DagOrder have an order to condition on")
        if not isinstance(scores, LocalScores) or scores.names != self.names:
            raise ValueError(f"scores must be the LocalScores of the model, with variables {quoted(list(self.names))}")
        if not np.allclose(summary_of_scores(scores), self.schema.scores, rtol=1e-6, atol=1e-9):
            raise ValueError(
                "scores must be the LocalScores of the model, and their values are others: these are scores of other "
                "data, or of another score, prior or choice of candidates"
            )

    def to_group(self) -> "xr.Dataset":
        """Graphs and state as a group for a DataTree: ``idata[name] = draws.to_group()``.

        Examples
        --------
        >>> list(dag_draws.to_group())
        ['graphs', 'partition', 'fingerprint', 'log_score']
        """
        import xarray as xr

        state = xr.DataArray(
            self.state,
            {"chain": self.chains, "draw": self.draws, "variable": list(self.names)},
            ("chain", "draw", "variable"),
        )
        mark = np.full(self.parents.shape[:2], fingerprint(self.model_digest, self.schema.to_vector()))
        parts = {"graphs": self.graphs(), self.schema.state: state, UNPACKED: (("chain", "draw"), mark)}
        if self.log_score is not None:
            parts["log_score"] = state.isel(variable=0, drop=True).copy(data=self.log_score)
        return xr.Dataset(parts, attrs={"target": self.schema.target})

    @property
    def _candidates(self) -> str:
        return f"restricted for {', '.join(self.schema.restricted)}" if self.schema.restricted else "all"

    def _labelled(self, values: np.ndarray, name: str, **attrs: Any) -> "xr.DataArray":
        import xarray as xr

        labels = list(self.names)
        coords = {"chain": self.chains, "draw": self.draws, "parent": labels, "child": labels}
        return xr.DataArray(
            values, coords, DIMS, name, attrs | {"target": self.schema.target, "candidates": self._candidates}
        )
