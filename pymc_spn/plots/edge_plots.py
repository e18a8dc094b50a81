"""Heat map of edge probabilities."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.dags.dag import DAG

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def plot_edge_probabilities(
    edges: "xr.DataArray", ax: "Axes | None" = None, truth: DAG | None = None, title: str | None = None
) -> "Axes":
    """Draw edge probabilities as a heat map, parents in rows, children in columns.

    Parameters
    ----------
    edges : DataArray
        (parent, child), as from `OrderSPN.edge_probabilities`, or some of its rows and columns.
    ax : matplotlib axes, optional
    truth : DAG, optional
        Its edges are framed, where both ends are shown.
    title : str, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    TypeError
        If `edges` is not a DataArray.
    ValueError
        If `edges` has other dimensions.

    Examples
    --------
    >>> ax = ps.plots.plot_edge_probabilities(dags.edge_probabilities())
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    if not hasattr(edges, "dims"):
        raise TypeError(f"edges must be a DataArray with the names of its nodes; got {type(edges).__name__}")
    if set(edges.dims) != {"parent", "child"}:
        raise ValueError(f"edges must have the dimensions parent and child, got {edges.dims}")
    edges = edges.transpose("parent", "child")
    parents, children = list(edges.parent.values), list(edges.child.values)
    if ax is None:
        beside, below = (max(len(str(name)) for name in names) for names in (parents, children))  # letters
        size = 1.7 + 0.55 * len(children) + 0.08 * beside, 0.8 + 0.5 * len(parents) + 0.06 * below
        _, ax = plt.subplots(figsize=size, layout="constrained")
    values = np.where(np.equal.outer(edges.parent.values, edges.child.values), np.nan, edges.values)
    picture = ax.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0)
    ax.set_xticks(range(len(children)), children, rotation=45, ha="right")
    ax.set_yticks(range(len(parents)), parents)
    ax.set_xlabel("child")
    ax.set_ylabel("parent")
    ax.figure.colorbar(picture, ax=ax, label="probability of the edge", shrink=0.85)
    if truth is not None:
        for parent, child in truth.edges:
            if parent in parents and child in children:
                corner = children.index(child) - 0.5, parents.index(parent) - 0.5
                ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#d64545", linewidth=1.8))
    if title:
        ax.set_title(title)
    return ax
