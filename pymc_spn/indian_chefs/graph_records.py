"""Graphs and belief networks in a result: their records, graphs of prior draws, and graphs lent to a model."""

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_spn.indian_chefs.belief_network_schema import NETWORK_SCHEMA, PARAMETERS, BeliefNetworkSchema
from pymc_spn.indian_chefs.draw_checks import check_packed
from pymc_spn.indian_chefs.process import CHEFS, GRAPH, SCHEMA, GraphSchema, node_labels
from pymc_spn.records.structure_records import Field, Recorded, StructureRecord
from pymc_spn.tables.fingerprints import refuse_other_data
from pymc_spn.tables.stored_arrays import refuse
from pymc_spn.tables.tree_files import chosen_name, reading

if TYPE_CHECKING:
    import pymc as pm

NODES = "node", "parent", "child"


class GraphRecord(StructureRecord):
    """Observed nodes come first, then hidden ones by their rank, a label within one draw.

    Reputations are NaN where there is no node.
    """

    kinds, made_by = "graphs", "ps.IndianChefsProcess"
    suffix, raw, raw_dtypes, mark = SCHEMA, GRAPH, "f", "n_nodes"
    schema = GraphSchema
    posterior = "pymc_spn.indian_chefs.graph_draws:GraphDraws"

    def fields(self, schema: GraphSchema) -> dict[str, Field]:
        """Numbers of nodes, edges and reputations."""
        return {
            "n_nodes": Field((), np.int64, len(schema.observed_nodes), schema.max_nodes),
            "graphs": Field(("parent", "child"), bool, 0, 1),
            "reputations": Field(("node",), np.float64, 0.0, 1.0, gaps=True),
        }

    def labels(self, schema: GraphSchema) -> dict[str, Any]:
        """Names of observed nodes, and numbers of hidden ones."""
        return dict.fromkeys(NODES, schema.node_labels)

    def attrs(self, schema: GraphSchema) -> dict[str, Any]:
        """The prior."""
        return {"prior": CHEFS}

    def is_unpacked(self, idata: xr.DataTree, name: str) -> bool:
        """Whether the group has reputations, which groups of trees lack."""
        return super().is_unpacked(idata, name) and "reputations" in idata[name].data_vars

    def arrays(self, idata: xr.DataTree, schema: GraphSchema, raw: np.ndarray) -> dict[str, np.ndarray]:
        """Parts of packed graphs (chain, draw, 1 + K + K W)."""
        return arrays_of_packed(schema, raw)

    def compared(self, recorded: Recorded) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
        """Numbers of nodes and edges and the sum of the hidden reputations, of all draws."""
        stats, arrays = recorded.statistics(), recorded.arrays
        hidden = np.nansum(arrays["reputations"][..., len(recorded.schema.observed_nodes) :], axis=-1)
        numbers = {"n_nodes": arrays["n_nodes"], "n_edges": arrays["graphs"].sum(axis=(2, 3))}
        numbers["hidden_reputation"] = hidden
        return [(what, found, stats[what].values) for what, found in numbers.items() if what in stats]


class NetworkRecord(StructureRecord):
    """Weights are 0 where there is no edge; biases and precisions are NaN where there is no node.

    The graph of a network is unpacked with it.
    """

    kinds, made_by = "belief networks", "ps.NLGBN, ps.LinearGaussianNetwork or ps.SigmoidBeliefNetwork"
    suffix, raw, raw_dtypes, mark = NETWORK_SCHEMA, PARAMETERS, "f", "weights"
    schema = BeliefNetworkSchema
    posterior = "pymc_spn.indian_chefs.belief_network_posterior:BeliefNetworkPosterior"

    def fields(self, schema: BeliefNetworkSchema) -> dict[str, Field]:
        """Weights, biases and precisions, as small as they are recorded."""
        node = Field(("node",), np.float32, gaps=True)
        return {"weights": Field(("parent", "child"), np.float32), "biases": node, "precisions": node}

    def labels(self, schema: BeliefNetworkSchema) -> dict[str, Any]:
        """Names of observed nodes, and numbers of hidden ones."""
        return dict.fromkeys(NODES, node_labels(schema.columns, schema.max_nodes))

    def attrs(self, schema: BeliefNetworkSchema) -> dict[str, Any]:
        """The kind of network."""
        return {"kind": schema.kind}

    def parts(self, idata: xr.DataTree, name: str) -> list[str]:
        """The graph."""
        return [self.read_schema(idata, name).graph]

    def arrays(self, idata: xr.DataTree, schema: BeliefNetworkSchema, raw: np.ndarray) -> dict[str, np.ndarray]:
        """Parts of parameters (chain, draw, (K + 2) K)."""
        room = schema.max_nodes
        if raw.shape[2:] != ((room + 2) * room,):
            refuse(f"the parameters of {schema.name!r}", f"hold {(room + 2) * room} numbers a draw", raw.shape[2:])
        table = raw.reshape(*raw.shape[:2], room + 2, room)
        is_node = table[..., room + 1, :] > 0.0
        biases, precisions = (np.where(is_node, table[..., room + i, :], np.float32(np.nan)) for i in (0, 1))
        return {"weights": table[..., :room, :], "biases": biases, "precisions": precisions}

    def unpack(self, idata: xr.DataTree, name: str | None = None) -> xr.DataTree:
        """The result with a network and its graph as labelled arrays."""
        name = self.chosen(idata, name)
        return super().unpack(GRAPHS.unpack(idata, self.read_schema(idata, name).graph), name)

    def read(self, idata: xr.DataTree, name: str | None = None) -> Recorded:
        """All draws of one network, whose table is still that of the fit."""
        recorded = super().read(idata, name)
        observed, schema = table_of_network(recorded), recorded.schema
        if observed is not None:
            place = f"variable {schema.name!r} of observed_data"
            if observed.ndim != 2:
                refuse(place, "be a table of rows and columns", observed.dims)
            values = observed.values
            values = values if values.shape[-1] == len(schema.columns) else values.T
            refuse_other_data(place, schema.data, schema.columns, values)
        return recorded


GRAPHS, NETWORKS = GraphRecord(), NetworkRecord()


def table_of_network(recorded: Recorded) -> xr.DataArray | None:
    """The table that a network was drawn given, where the result has it."""
    observed, name = recorded.tree.children.get("observed_data"), recorded.schema.name
    return observed.dataset[name] if observed is not None and name in observed.data_vars else None


def arrays_of_packed(schema: GraphSchema, packed: np.ndarray) -> dict[str, np.ndarray]:
    """The fields of packed graphs (chain, draw, 1 + K + K W); ValueError if they are none."""
    from pymc_spn.indian_chefs.packed_graphs import BITS, packed_length, unpack_arrays

    check_packed(packed, packed_length(schema.max_nodes), BITS, schema.max_nodes)
    counts, places, parents = unpack_arrays(packed, schema.max_nodes)
    return {"n_nodes": counts, "graphs": parents, "reputations": places}


def graphs_of_prior(idata: xr.DataTree, name: str | None) -> tuple[GraphSchema, np.ndarray, Any, dict[str, np.ndarray]]:
    """Schema, packed graphs (chain, draw, packed), labels of chains and draws, and hyperparameters of prior draws."""
    constants, drawn = idata.children.get("constant_data"), idata.children.get("prior_predictive")
    found = []
    if constants is not None and drawn is not None:
        found = [str(v).removesuffix(SCHEMA) for v in constants.data_vars if str(v).endswith(SCHEMA)]
        found = [one for one in found if one in drawn.data_vars]
    name = chosen_name(found, name, idata, "graphs", "no ps.IndianChefsProcess in the group prior_predictive")
    schema = GraphSchema.from_vector(idata["constant_data"].dataset[name + SCHEMA].values)
    packed = idata["prior_predictive"].dataset[name].transpose("chain", "draw", ...)
    labels, numbers = (packed["chain"].values, packed["draw"].values), {}
    for argument, source in schema.hyperparameters.items():
        if "fixed" in source:
            numbers[argument] = np.full(packed.shape[:2], source["fixed"])
        elif "prior" in idata.children and source["variable"] in idata["prior"].data_vars:
            numbers[argument] = idata["prior"].dataset[source["variable"]].transpose("chain", "draw").values
    return schema, packed.values, labels, numbers


def load_graphs(idata: "xr.DataTree | str | PathLike[str]", model: "pm.Model | None" = None) -> None:
    """Lend the recorded graphs to the model, so that it evaluates stored draws.

    ``pm.sample_posterior_predictive(idata)`` and ``pm.compute_log_likelihood(idata)`` then find the graph of every
    draw, also of a result that was reloaded in another process. A belief network's own variable stays closed: its
    hidden units are not recorded, and `BeliefNetworkPosterior` answers for it.

    Parameters
    ----------
    idata : DataTree or path
        Result of ``pm.sample``.
    model : Model, optional
        The model in whose context this is called.

    Raises
    ------
    ValueError
        If there is no graph, the model lacks it or has another room, or the posterior group lacks ``<name>_log_joint``.
        Also if two draws with different graphs have the same log joint, since a draw is recognised by it. That has
        probability zero unless graphs can differ without differing in a reputation, as those on levels alone can.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     drawn = pm.sample(**few)
    ...     ps.indian_chefs.load_graphs(drawn)  # from here the model can evaluate the stored draws
    """
    import pymc as pm

    from pymc_spn.indian_chefs.packed_graphs import pack_arrays

    model = pm.modelcontext(model)
    with reading(idata) as idata:
        for recorded, tickets in GRAPHS.with_log_joints(idata):
            name = recorded.schema.name
            if name not in model.named_vars:
                raise ValueError(f"the model has no graph {name!r}, whose draws idata holds")
            shared = model[name].owner.op.dist_params(model[name].owner)[-1]
            packed = pack_arrays(*(recorded.arrays[key] for key in ("n_nodes", "reputations", "graphs")))
            if shared.get_value(borrow=True).shape[1] != packed.shape[-1] + 1:
                raise ValueError(
                    f"{name!r} of the model must have max_nodes = {recorded.schema.max_nodes}, as idata has"
                )
            rows = np.unique(np.concatenate([tickets[..., None], packed], axis=-1).reshape(tickets.size, -1), axis=0)
            same = np.flatnonzero(rows[1:, 0] == rows[:-1, 0])
            if same.size:
                raise ValueError(
                    f"{name!r} has different graphs with the same log joint, {rows[same[0], 0]:g}, so that stored "
                    "draws cannot be told apart; ps.GraphDraws.from_idata(idata) holds them"
                )
            shared.set_value(rows)
