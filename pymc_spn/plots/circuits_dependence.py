"""Heat map of the mutual information of all pairs of columns, with its uncertainty over draws."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def plot_dependence(dependence: "xr.Dataset", ax: "Axes | None" = None, annotate: bool = True) -> Any:
    """Mean mutual information above the diagonal, width of its interval below.

    Parameters
    ----------
    dependence : Dataset
        What ``SPNPosterior.dependence`` returns.
    ax : matplotlib Axes, optional
    annotate : bool
        Whether to write the numbers into the cells.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If `dependence` lacks what ``SPNPosterior.dependence`` puts into it.
    """
    for name in ("mutual_information", "hdi"):
        if name not in dependence:
            raise ValueError(f"dependence must be what SPNPosterior.dependence returns, it has no {name!r}")
    names = dependence["column"].values.tolist()
    mean = dependence["mutual_information"].values
    width = dependence["hdi"].diff("bound").squeeze("bound").values
    upper = np.triu(np.ones(mean.shape, bool), 1)
    shown = np.where(upper, mean, width)
    if ax is None:
        side, longest = 1.5 + 0.65 * len(names), max(len(str(name)) for name in names)  # longest in letters
        _, ax = plt.subplots(figsize=(side + 0.6 + 0.08 * longest, side + 0.06 * longest), layout="constrained")
    image = ax.imshow(shown, cmap="viridis", vmin=0.0)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    prob = dependence["hdi"].attrs.get("prob", 0.94)
    ax.set_title(
        f"Mutual information: mean (above),\nwidth of the {100 * prob:g} % interval (below)", fontsize="medium"
    )
    ax.figure.colorbar(image, ax=ax, label="nats", shrink=0.8)
    if annotate:
        middle = 0.5 * float(np.nanmax(shown))
        for i in range(len(names)):
            for j in range(len(names)):
                if i != j:
                    colour = "white" if shown[i, j] < middle else "black"
                    ax.text(j, i, f"{shown[i, j]:.2f}", ha="center", va="center", color=colour, fontsize="small")
    return ax
