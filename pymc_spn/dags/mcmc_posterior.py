"""Graphs drawn by `DagOrder` or `DagPartition`: edge probabilities, their effective draws and R-hat."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_spn.dags.labelled_answers import consensus_of_edges, table_of_edges
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.prefix_lattice import whole_set
from pymc_spn.dags.schema import PARENTS, SCHEMA, DagSchema, summary_of_scores
from pymc_spn.numerics.chain_mixing import Mixing, r_hat_and_size
from pymc_spn.numerics.graph_pictures import svg_of_edges
from pymc_spn.numerics.html_repr import LATER, Facts, Listed
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.records.posterior_of_draws import PosteriorOfDraws, errors_of_means
from pymc_spn.records.structure_records import Field, Recorded, StructureRecord, label_of
from pymc_spn.tables.column import list_of_columns
from pymc_spn.tables.stored_arrays import refuse
from pymc_spn.tables.tree_files import draws_of_record, read_record

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pymc_spn.dags.dag import DAG

SCORE = "_log_score"  # statistic of the steps
SAVED = "dag_draws"  # attribute that marks a file of `DagDraws.save`


class DagRecord(StructureRecord):
    """Graphs, and the places (order or blocks of an ordered partition) that they were drawn given."""

    kinds, made_by = "sampled graphs", "ps.DagOrder or ps.DagPartition"
    suffix, raw, raw_dtypes, mark = SCHEMA, PARENTS, "iu", "graphs"
    schema = DagSchema
    posterior = "pymc_spn.dags.mcmc_posterior:DagDraws"

    def fields(self, schema: DagSchema) -> dict[str, Field]:
        """Edges, places, and the log score of these."""
        return {
            "graphs": Field(("parent", "child"), bool, 0, 1),
            schema.state: Field(("variable",), np.int64, 0, len(schema.variables) - 1),
            "log_score": Field((), np.float64, is_optional=True),
        }

    def labels(self, schema: DagSchema) -> dict[str, Any]:
        """Names of the variables."""
        return dict.fromkeys(("parent", "child", "variable"), schema.variables)

    def attrs(self, schema: DagSchema) -> dict[str, Any]:
        """Which of the two posteriors over graphs it is."""
        return {"target": schema.target}

    def arrays(self, idata: "xr.DataTree", schema: DagSchema, raw: np.ndarray) -> dict[str, np.ndarray]:
        """Graphs of sets of parents (chain, draw, d) as bits; the rest stands next to them."""
        stats, posterior = idata["sample_stats"].dataset, idata.children.get("posterior")
        if posterior is None or schema.name not in posterior.data_vars:
            raise ValueError(f"the tree lacks {schema.name!r} in its group 'posterior'")
        labels = [label_of(stats[schema.name + PARENTS], d) for d in ("chain", "draw")]
        found = {
            "graphs": edges_of_sets(schema, raw.astype(np.int64)),
            schema.state: draws_of_record(posterior.dataset[schema.name], *labels).values,
        }
        if schema.name + SCORE in stats:
            found["log_score"] = read_record(stats[schema.name + SCORE], "f").values
        return found

    def compared(self, recorded: Recorded) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
        """Numbers of edges, of all draws."""
        n_edges = recorded.arrays["graphs"].sum(axis=(2, 3))
        return [("n_edges", n_edges, recorded.of_posterior(f"{recorded.schema.name}_n_edges"))]


def edges_of_sets(schema: DagSchema, parents: np.ndarray) -> np.ndarray:
    """(..., parent, child) bool of parents (..., d) int64 of each variable as bits; ValueError if there are others."""
    d = len(schema.variables)
    if parents.shape[-1] != d or (parents & ~np.int64(whole_set(d))).any():
        refuse(f"{schema.name!r}: the drawn graphs", f"be sets of {d} variables for each", parents.shape)
    return (parents[..., None, :] >> np.arange(d)[:, None] & 1).astype(bool)


DAGS = DagRecord()


@dataclass(frozen=True, eq=False, repr=False)
class DagDraws(PosteriorOfDraws):
    """Draws of graphs from a posterior; made by `from_idata`.

    Parameters
    ----------
    schema : DagSchema
    edges : (chain, draw, parent, child) bool
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

    record = DAGS

    schema: DagSchema
    edges: np.ndarray
    state: np.ndarray
    chains: np.ndarray
    draws: np.ndarray
    log_score: np.ndarray | None = None
    model_digest: int = 0

    def __post_init__(self) -> None:
        d, place = len(self.schema.variables), f"{self.schema.name!r}"
        if self.schema.state == "order" and (np.sort(self.state, axis=-1) != np.arange(d)).any():
            refuse(f"{place}: order", f"be an order of {d} variables in each draw", "another")
        if (self.edges & (self.state[..., :, None] >= self.state[..., None, :])).any():
            refuse(f"{place}: the drawn graphs", f"have their edges by the {self.schema.state} of each draw", "others")

    @classmethod
    def _of(cls, recorded: Recorded) -> Self:
        schema, arrays = recorded.schema, recorded.arrays
        parts = arrays["graphs"], arrays[schema.state], recorded.chains, recorded.draws
        return cls(schema, *parts, arrays.get("log_score"), recorded.model_digest)

    def _saved(self) -> "xr.DataTree":
        import xarray as xr

        name = self.schema.name
        schema = xr.Dataset({name + SCHEMA: (f"{name}{SCHEMA}_dim_0", self.schema.to_vector())})
        parts = {"/": xr.Dataset(attrs={SAVED: DagSchema.form}), "/constant_data": schema, f"/{name}": self.to_group()}
        return xr.DataTree.from_dict(parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables.

        Examples
        --------
        >>> dag_draws.names
        ('age', 'income', 'debt')
        """
        return self.schema.variables

    def _facts(self) -> Facts:
        n, m, d = self.state.shape
        facts = {"variables": f"{d} variables", "draws": f"{n} chains of {m} draws", "target": self.schema.target}
        return Facts("DagDraws", facts | {LATER: str(self._mixing or "")})

    def _listed(self) -> Listed:
        return list_of_columns(self.names)

    def _picture(self) -> str:
        return svg_of_edges(self.names, self.edges.mean(axis=(0, 1)))

    @cached_property
    def _mixing(self) -> Mixing | None:
        return None if self.log_score is None else Mixing.of(self.log_score, "log score")

    def _own_numbers(self) -> "dict[str, xr.DataArray]":
        found = {} if self.log_score is None else {"log_score": self.log_score}
        found["n_edges"] = self.edges.sum(axis=(2, 3))
        return {name: self._of_draws(name, values, {}) for name, values in found.items()}

    def graphs(self) -> "xr.DataArray":
        """Return the drawn graphs as bool (chain, draw, parent, child).

        Examples
        --------
        >>> dag_draws.graphs().sizes["draw"]
        50
        """
        return self._of_edges("graphs", self.edges, True)

    def edge_probabilities(self, scores: LocalScores | None = None, per_draw: bool = False) -> "xr.DataArray":
        """Calculate the posterior probability of every edge.

        Parameters
        ----------
        scores : LocalScores, optional
            Those of the model. Averages the exact probabilities given each order in place of the drawn edges: less
            noise. Draws of `DagOrder` only.
        per_draw : bool
            Whether the answer is that of each draw, (chain, draw, parent, child).

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
        return self._of_edges("edge_probabilities", self._edge_draws(scores), per_draw)

    def edge_diagnostics(self, scores: LocalScores | None = None) -> "xr.Dataset":
        """Tabulate probability, standard error, effective size and R-hat of every edge.

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
        probability, errors = draws.mean(axis=(0, 1)), errors_of_means(draws)
        d = len(self.names)
        r_hat, size = r_hat_and_size(draws.reshape(*draws.shape[:2], -1).astype(np.float64))
        found = {"mcse": errors, "ess": size.reshape(d, d), "r_hat": r_hat.reshape(d, d)}
        coords = {"parent": list(self.names), "child": list(self.names)}
        values = {"probability": probability, **found}
        return xr.Dataset(
            {name: (("parent", "child"), v) for name, v in values.items()},
            coords=coords,
            attrs={"exactness": "monte-carlo", **self._limits},
        )

    def edge_table(self, least: float = 0.0, scores: LocalScores | None = None) -> "pd.DataFrame":
        """Return edges and their probabilities as a table, most probable first.

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
        draws = self._edge_draws(scores)
        return table_of_edges(self.names, draws.mean(axis=(0, 1)), errors_of_means(draws), least, self.schema.frame)

    def consensus(self, threshold: float = 0.5, scores: LocalScores | None = None) -> "DAG":
        """Return one graph: the edges above a threshold, without cycles.

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
        from pymc_spn.dags.parent_set_scores import edges_given_orders, pair_matrix, places_of_orders

        if scores is None:
            return self.edges
        self.check_scores(scores)
        places = places_of_orders(scores, np.argsort(self.state, axis=-1).reshape(-1, len(self.names)))
        edges = pair_matrix(scores, edges_given_orders(scores, scores.log_sums, places))
        return edges.reshape(self.edges.shape)

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
        """Return graphs and state as a group for a DataTree.

        Add it to a result by ``idata[name] = draws.to_group()``.

        Examples
        --------
        >>> list(dag_draws.to_group())
        ['graphs', 'partition', 'log_score', 'fingerprint']
        """
        arrays = {"graphs": self.edges, self.schema.state: self.state, "log_score": self.log_score}
        return self.record.marked(self, {name: array for name, array in arrays.items() if array is not None})

    @property
    def _limits(self) -> dict[str, Any]:
        restricted = f"restricted for {', '.join(self.schema.restricted)}" if self.schema.restricted else "all"
        return {"target": self.schema.target, "candidates": restricted}

    def _of_edges(self, name: str, draws: np.ndarray, per_draw: bool) -> "xr.DataArray":
        names = list(self.names)
        return self._average(name, draws, {"parent": names, "child": names}, per_draw, **self._limits)
