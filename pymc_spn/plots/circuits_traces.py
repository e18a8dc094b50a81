"""Traces of the log joint, from one or several starts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt

from pymc_spn.tables.fingerprints import BY_LISTS
from pymc_spn.tables.tree_files import with_sample_dimensions

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def plot_log_joint(
    results: "xr.DataTree | Mapping[str, xr.DataTree]", name: str | None = None, ax: "Axes | None" = None
) -> Any:
    """Log p(data, assignments given hyperparameters) of every chain, coloured by start.

    Parameters
    ----------
    results : DataTree or mapping of label to DataTree
        What ``pm.sample`` returned; several results, such as those of different starts, by label.
    name : str, optional
        The network's name in the model, where there are several.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
        R-hat of all chains together stands in the title.

    Raises
    ------
    ValueError
        If there is no result, or one holds no draws or lacks the dimension of chains or draws. If one holds several
        networks and `name` is not given or not among them.

    Examples
    --------
    >>> ax = ps.plots.plot_log_joint(idata)
    """
    import arviz as az
    import xarray as xr

    trees = dict(results) if isinstance(results, Mapping) and not hasattr(results, "children") else {"": results}
    traces = {label: _trace(tree, name) for label, tree in trees.items()}
    if not traces:
        raise ValueError("results must hold at least one result of pm.sample, got none")
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for i, (label, trace) in enumerate(traces.items()):
        for c in range(trace.sizes["chain"]):
            ax.plot(
                trace["draw"],
                trace[c],
                color=f"C{i}",
                lw=0.8,
                marker="." if trace.sizes["draw"] == 1 else None,
                alpha=0.7,
                label=label if c == 0 and label else None,
            )
    ax.set_xlabel("draw")
    ax.set_ylabel("log joint (nats)")
    shortest = min(t.sizes["draw"] for t in traces.values())
    every = xr.concat([t.isel(draw=slice(-shortest, None)).drop_vars("draw") for t in traces.values()], dim="chain")
    every = every.assign_coords(chain=range(every.sizes["chain"]))
    if every.sizes["chain"] > 1 and shortest >= 4:
        rhat = float(az.rhat(xr.Dataset({"log_joint": every}))["log_joint"])
        ax.set_title(f"R-hat of {every.sizes['chain']} chains: {rhat:.2f}", fontsize="medium")
    if any(traces):
        ax.legend(fontsize="small", title="start")
    return ax


def _trace(tree: Any, name: str | None) -> Any:
    if "posterior" not in getattr(tree, "children", ()):
        raise ValueError(
            f"results must be what pm.sample returned, with a group 'posterior'; got {type(tree).__name__}"
        )
    found = [str(v) for v in tree["posterior"].data_vars if str(v).endswith("_log_joint")]
    wanted = found if name is None else [v for v in found if v == f"{name}_log_joint"]
    if len(wanted) != 1:
        raise ValueError(
            f"results must hold one network, or name= one of {[v.removesuffix('_log_joint') for v in found]}"
        )
    trace = with_sample_dimensions(tree)["posterior"][wanted[0]]
    for dim in ("chain", "draw"):
        if dim not in trace.dims:
            raise ValueError(f"results must have the dimension {dim!r}: {BY_LISTS}")
    return trace.transpose("chain", "draw")
