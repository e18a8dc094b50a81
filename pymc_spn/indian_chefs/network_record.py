"""Belief networks of ``pm.sample`` in a DataTree: finding them, reading them, and parameters as labelled arrays."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.indian_chefs.belief_network_schema import NETWORK_SCHEMA, PARAMETERS, BeliefNetworkSchema
from pymc_spn.indian_chefs.graph_draws import unpack_reputed_graphs
from pymc_spn.indian_chefs.process import SCHEMA as GRAPH_SCHEMA
from pymc_spn.indian_chefs.process import GraphSchema
from pymc_spn.indian_chefs.recorded_graphs import without_record
from pymc_spn.tables.fingerprints import FINGERPRINT, UNPACKED, fingerprints, model_digest_of, refuse_other_data
from pymc_spn.tables.stored_arrays import refuse
from pymc_spn.tables.tree_files import chosen_name, read_record

if TYPE_CHECKING:
    import xarray as xr

WEIGHTS = "weights", "biases", "precisions"


def belief_network_names(idata: "xr.DataTree") -> list[str]:
    """Names of the belief networks whose draws a DataTree holds, unpacked or not."""
    constants, stats = idata.children.get("constant_data"), idata.children.get("sample_stats")
    if constants is None or stats is None:
        return []
    found = [str(v).removesuffix(NETWORK_SCHEMA) for v in constants.data_vars if str(v).endswith(NETWORK_SCHEMA)]
    return [n for n in found if n + PARAMETERS in stats.data_vars or _is_unpacked(idata, n)]


def find_network(idata: "xr.DataTree", name: str | None) -> BeliefNetworkSchema:
    """The schema of the network that was asked for, or of the only one.

    Raises
    ------
    ValueError
        If there is none, several and no name is given, or none of that name.
    """
    nothing = f"no belief network: no variable <name>{NETWORK_SCHEMA} with draws <name>{PARAMETERS}"
    name = chosen_name(belief_network_names(idata), name, idata, "belief networks", nothing)
    return BeliefNetworkSchema.from_vector(idata["constant_data"].dataset[name + NETWORK_SCHEMA].values)


def network_records(idata: "xr.DataTree", schema: BeliefNetworkSchema) -> np.ndarray:
    """(chain, draw, (K + 2) K) float32: parameters in the layout of `pack_parameters`."""
    name = schema.name
    is_unpacked = _is_unpacked(idata, name)
    draws, variable = (name, UNPACKED) if is_unpacked else ("sample_stats", name + FINGERPRINT)
    place = f"the group {name!r}" if is_unpacked else f"{name!r} of sample_stats"
    model_digest_of(fingerprints(idata[draws].dataset, variable), place, schema.to_vector())
    observed = idata.children.get("observed_data")
    if observed is not None and name in observed.data_vars:
        values = observed.dataset[name].values
        if values.ndim != 2:
            refuse(f"variable {name!r} of observed_data", "be a table of rows and columns", observed.dataset[name].dims)
        values = values if values.shape[-1] == len(schema.columns) else values.T
        refuse_other_data(f"variable {name!r} of observed_data", schema.data, schema.columns, values)
    if not is_unpacked:
        record = idata["sample_stats"].dataset[name + PARAMETERS]
        return read_record(record, "f").values.astype(np.float32, copy=False)
    group = idata[name].dataset
    weights = group["weights"].transpose("chain", "draw", "parent", "child").values
    rest = [group[part].transpose("chain", "draw", "node").values[..., None, :] for part in WEIGHTS[1:]]
    table = np.concatenate([weights, *rest], axis=-2)
    return np.nan_to_num(table, nan=0.0).reshape(*table.shape[:2], -1).astype(np.float32)


def unpack_belief_network(idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
    """A tree with the parameters of a belief network, and its graphs, as labelled arrays.

    Parameters
    ----------
    idata : DataTree
        Result of ``pm.sample``; not changed.
    name : str, optional
        The observed variable's name in the model, where there are several.

    Returns
    -------
    DataTree
        With the group ``<name>`` in place of the raw record. It holds ``weights`` (chain, draw, parent, child) float32,
        0 where there is no edge; ``biases`` and ``precisions`` (chain, draw, node) float32, NaN where there is no node.
        The graphs stand in the group of the graph's name.

    Raises
    ------
    ValueError
        If there is no belief network, or several and no name is given.
    """
    import xarray as xr

    schema = find_network(idata, name)
    out = unpack_reputed_graphs(idata, schema.graph)
    if _is_unpacked(idata, schema.name):
        return out
    stats = out["sample_stats"].to_dataset()
    table = network_records(idata, schema)
    room = schema.max_nodes
    table = table.reshape(*table.shape[:2], room + 2, room)
    graphs = out[schema.graph].dataset
    nodes = GraphSchema.from_vector(idata["constant_data"].dataset[schema.graph + GRAPH_SCHEMA].values).node_labels
    is_node = table[..., room + 1, :] > 0.0
    group = xr.Dataset(
        {
            "weights": (("chain", "draw", "parent", "child"), table[..., :room, :]),
            "biases": (("chain", "draw", "node"), np.where(is_node, table[..., room, :], np.float32(np.nan))),
            "precisions": (("chain", "draw", "node"), np.where(is_node, table[..., room + 1, :], np.float32(np.nan))),
        },
        coords={c: graphs[c].values for c in ("chain", "draw")} | dict.fromkeys(("parent", "child", "node"), nodes),
        attrs={"kind": schema.kind},
    )
    group[UNPACKED] = (("chain", "draw"), stats[schema.name + FINGERPRINT].transpose("chain", "draw").values)
    left = without_record(stats, schema.name + PARAMETERS)
    out["sample_stats"] = xr.DataTree(left.drop_vars(schema.name + FINGERPRINT))
    out[schema.name] = xr.DataTree(group)
    return out


def graph_of_network(idata: "xr.DataTree", name: str) -> list[str]:
    """Names of the structures that a network brings along: its graph."""
    return [find_network(idata, name).graph]


def _is_unpacked(idata: "xr.DataTree", name: str) -> bool:
    group = idata.children.get(name)
    return group is not None and "precisions" in group.data_vars
