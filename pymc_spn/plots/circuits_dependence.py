"""Heat map of the mutual information of all pairs of columns, with its uncertainty over draws or with clusters."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform

from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

TREE_HEIGHT = 0.18  # of the dendrogram, relative to the heat map


def plot_dependence(
    dependence: "xr.Dataset", ax: "Axes | None" = None, annotate: bool = True, cluster: bool = False
) -> "Axes":
    """Draw the mutual information of all pairs of columns as a heat map.

    By default the mean is above the diagonal and the width of its interval below, with the columns in the order of the
    table. With ``cluster=True`` the mean is on both sides, columns that depend on each other stand side by side, and
    a dendrogram on top shows which groups they form.

    Parameters
    ----------
    dependence : Dataset
        What ``SPNPosterior.dependence`` returns.
    ax : matplotlib Axes, optional
    annotate : bool
        Whether to write the numbers into the cells.
    cluster : bool
        Whether to order the columns by hierarchical clustering. It is average linkage with the distance 1 - sqrt(1 -
        exp(-2 I)) of two columns with mutual information I (in nats). That is one minus the correlation that a pair of
        normal columns of this mutual information has. The distance 0 means that one column determines the other, 1 that
        they are independent.

    Returns
    -------
    Axes
        Of the heat map. With ``cluster=True`` the dendrogram is its only child, ``ax.child_axes[0]``.

    Raises
    ------
    ValueError
        If `dependence` lacks what ``SPNPosterior.dependence`` puts into it.
    TypeError
        If `cluster` is neither True nor False.

    Examples
    --------
    >>> ax = ps.plots.plot_dependence(post.dependence(max_draws=5), cluster=True)

    References
    ----------
    Linfoot, E. H. (1957), An informational measure of correlation, doi:10.1016/S0019-9958(57)90116-X, for the
    distance.
    """
    for name in ("mutual_information", "hdi"):
        if name not in dependence:
            raise ValueError(f"dependence must be what SPNPosterior.dependence returns, it has no {name!r}")
    if not isinstance(cluster, bool | np.bool_):
        raise TypeError(f"cluster must be True or False, got {quoted(cluster)}")
    names = dependence["column"].values.tolist()
    shown = dependence["mutual_information"].values
    tree = _clusters(shown) if cluster else None
    if tree is None:
        width = dependence["hdi"].diff("bound").squeeze("bound").values
        shown = np.where(np.triu(np.ones(shown.shape, bool), 1), shown, width)
        prob = dependence["hdi"].attrs.get("prob", 0.94)
        title = f"Mutual information: mean (above),\nwidth of the {100 * prob:g} % interval (below)"
    else:
        order = tree["leaves"]
        names, shown = [names[d] for d in order], shown[np.ix_(order, order)]
        title = "Mean mutual information, columns by clusters"
    if ax is None:
        side, longest = 1.5 + 0.65 * len(names), max(len(str(name)) for name in names)  # longest in letters
        height = side * (1.0 if tree is None else 1.0 + 0.7 * TREE_HEIGHT) + 0.06 * longest
        _, ax = plt.subplots(figsize=(side + 0.6 + 0.08 * longest, height), layout="constrained")
    image = ax.imshow(shown, cmap="viridis", vmin=0.0)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    (ax if tree is None else _draw_tree(ax, tree)).set_title(title, fontsize="medium")
    ax.figure.colorbar(image, ax=ax, label="nats", shrink=0.8)
    if annotate:
        middle = 0.5 * float(np.nanmax(shown))
        for i in range(len(names)):
            for j in range(len(names)):
                if i != j:
                    colour = "white" if shown[i, j] < middle else "black"
                    ax.text(j, i, f"{shown[i, j]:.2f}", ha="center", va="center", color=colour, fontsize="small")
    return ax


def _clusters(information: np.ndarray) -> dict[str, Any]:
    """Dendrogram of columns from their mutual informations (D, D) in nats; pairs without one count as independent."""
    known = np.where(np.isnan(information), 0.0, np.maximum(information, 0.0))
    distance = 1.0 - np.sqrt(-np.expm1(-2.0 * known))
    np.fill_diagonal(distance, 0.0)
    found: dict[str, Any] = dendrogram(
        linkage(squareform(distance, checks=False), "average", optimal_ordering=True), no_plot=True
    )
    return found


def _draw_tree(ax: "Axes", tree: dict[str, Any]) -> "Axes":
    """The dendrogram on top of a heat map, each leaf over its column."""
    top = ax.inset_axes((0.0, 1.01, 1.0, TREE_HEIGHT))
    for x, y in zip(tree["icoord"], tree["dcoord"], strict=True):
        top.plot((np.array(x) - 5.0) / 10.0, y, color="0.3", linewidth=1.0)  # SciPy puts leaves at 5, 15, ...
    top.set_xlim(ax.get_xlim())
    top.set_ylim(0.0, 1.05)
    top.set_xticks([])
    top.set_yticks([0.0, 1.0])
    top.set_ylabel("distance", fontsize="small")
    top.tick_params(labelsize="small")
    for side in ("top", "right", "bottom"):
        top.spines[side].set_visible(False)
    return top
