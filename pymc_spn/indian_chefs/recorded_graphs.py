"""What a DataTree holds of graphs of unknown size: their names, in which form, and what was fixed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.indian_chefs.process import GRAPH, SCHEMA, GraphSchema
from pymc_spn.tables.tree_files import chosen_name

if TYPE_CHECKING:
    import xarray as xr


def graph_names(idata: "xr.DataTree") -> list[str]:
    """Names of the graphs of unknown size whose draws a DataTree holds, unpacked or not."""
    constants, stats = idata.children.get("constant_data"), idata.children.get("sample_stats")
    if constants is None or stats is None:
        return []
    found = [str(v).removesuffix(SCHEMA) for v in constants.data_vars if str(v).endswith(SCHEMA)]
    return [n for n in found if n + GRAPH in stats.data_vars or is_unpacked(idata, n)]


def is_unpacked(idata: "xr.DataTree", name: str) -> bool:
    """Whether a graph stands in a DataTree as labelled arrays."""
    group = idata.children.get(name)
    return group is not None and "reputations" in group.data_vars


def name_of_graph(idata: "xr.DataTree", name: str | None) -> str:
    """The graph that is meant: the only one, or one of that name."""
    return chosen_name(graph_names(idata), name, idata, "graphs", "no draws of a ps.IndianChefsProcess")


def graphs_of_prior(
    idata: "xr.DataTree", name: str | None
) -> tuple[GraphSchema, np.ndarray, Any, dict[str, np.ndarray]]:
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


def without_record(stats: "xr.Dataset", variable: str) -> "xr.Dataset":
    """Sampler statistics without one raw record and the dimension that is its own."""
    dims = [d for d in stats[variable].dims if d not in ("chain", "draw")]
    return stats.drop_vars(variable).drop_dims(dims, errors="ignore")


def fixed_later(idata: "xr.DataTree", variable: str) -> float | None:
    """The number at which `pm.do` or `pm.observe` fixed a variable of the model."""
    for group in ("constant_data", "observed_data"):
        if group in idata.children and variable in idata[group].data_vars:
            return float(idata[group].dataset[variable])
    return None
