"""What the clusters of the top sum node have in common."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import pandas_frame

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def plot_cluster_profile(
    data: pd.DataFrame, clusters: "xr.DataArray | np.ndarray", ax: "Axes | None" = None, max_clusters: int = 8
) -> Any:
    """Mean of each column in each cluster, in standard deviations from the mean of the column.

    Levels enter one by one, by their share. The clusters are those of one draw, to look at: another draw may
    split or merge them.

    Parameters
    ----------
    data : DataFrame
        The training table.
    clusters : DataArray or (N,) array of int
        What ``SPNPosterior.top_clusters`` returns.
    ax : matplotlib Axes, optional
    max_clusters : int
        Clusters that are drawn, the largest ones.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If `clusters` does not label the rows of `data`, a column holds no value, or no cluster is asked for.

    Examples
    --------
    >>> ax = ps.plots.plot_cluster_profile(df, post.top_clusters())
    """
    data, labels = pandas_frame(data), np.asarray(clusters)
    if labels.shape != (len(data),):
        raise ValueError(f"clusters must label the {len(data)} rows of data, got shape {labels.shape}")
    if max_clusters < 1:
        raise ValueError(f"max_clusters must be at least 1, got {quoted(max_clusters)}")
    columns = {}
    for name in data.columns:
        column = data[name]
        if column.isna().all():
            raise ValueError(f"data must have a value in every column; {name!r} has none")
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            columns[str(name)] = pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
            continue
        for level in sorted(column.dropna().unique().tolist(), key=str):
            missing = column.isna().to_numpy()
            columns[f"{name} = {level}"] = np.where(
                missing, np.nan, (column == level).to_numpy(dtype=bool, na_value=False)
            )
    table = np.array(list(columns.values())).T
    spread = np.nanstd(table, axis=0)
    standard = (table - np.nanmean(table, axis=0)) / np.where(spread > 0, spread, 1.0)
    shown = [k for k in range(labels.max() + 1) if (labels == k).any()][:max_clusters]
    profile = np.array([_means(standard[labels == k]) for k in shown])
    if ax is None:
        longest = max(map(len, columns))  # in letters
        size = (2.5 + 0.55 * len(columns) + 0.03 * longest, 1.3 + 0.45 * len(shown) + 0.06 * longest)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    limit = max(1.0, float(np.nanmax(np.abs(profile))))
    image = ax.imshow(profile, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    ax.set_xticks(range(len(columns)), list(columns), rotation=45, ha="right")
    ax.set_yticks(range(len(shown)), [f"{k} ({(labels == k).sum()} rows)" for k in shown])
    ax.set_ylabel("cluster")
    ax.figure.colorbar(image, ax=ax, label="mean (sd of the column)")
    return ax


def _means(rows: np.ndarray) -> np.ndarray:
    """Column means without gaps, NaN where a cluster has no value."""
    seen = ~np.isnan(rows)
    count = seen.sum(axis=0)
    return np.where(count > 0, np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
