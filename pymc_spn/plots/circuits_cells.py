"""Map of the cells of a table: which are extreme given the others of their row."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import pandas_frame

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

SMALLEST = 1e-6  # p-values below it have its colour


def plot_cells(
    cells: "xr.DataArray",
    data: pd.DataFrame | None = None,
    n_rows: int = 20,
    ax: "Axes | None" = None,
    annotate: bool = True,
) -> "Axes":
    """Draw the rows with the smallest p-values of cells; darker is more extreme.

    The row with the smallest one is on top.

    Parameters
    ----------
    cells : DataArray
        What ``SPNPosterior.cell_p_value`` returns, (row, column).
    data : DataFrame, optional
        The rows themselves, in the same order: their values are then written into the cells, else the p-values.
    n_rows : int
        Number of rows that are drawn, at most.
    ax : matplotlib Axes, optional
    annotate : bool
        Whether to write into the cells.

    Returns
    -------
    Axes
        Cells without a p-value are grey.

    Raises
    ------
    ValueError
        If `cells` are not over row and column, `data` has other rows or lacks a column, or `n_rows` is below 1.

    Examples
    --------
    >>> ax = ps.plots.plot_cells(post.cell_p_value(df), df)
    """
    if getattr(cells, "dims", None) != ("row", "column"):
        raise ValueError("cells must be what SPNPosterior.cell_p_value returns, over row and column")
    if isinstance(n_rows, bool) or not isinstance(n_rows, int | np.integer) or n_rows < 1:
        raise ValueError(f"n_rows must be an integer of at least 1, got {quoted(n_rows)}")
    names, p = cells["column"].values.tolist(), cells.values
    data = pandas_frame(data)
    if data is not None:
        lacking = [name for name in names if name not in data.columns.map(str)]
        if len(data) != len(p) or lacking:
            raise ValueError(
                f"data must have the {len(p)} rows and the columns of cells; {len(data)} rows, no {quoted(lacking)}"
            )
    smallest = np.where(np.isnan(p), 1.0, p).min(axis=1, initial=1.0)
    order = np.argsort(smallest, kind="stable")[:n_rows]
    with np.errstate(divide="ignore"):
        shown = np.minimum(-np.log10(p[order]), -np.log10(SMALLEST))
    if ax is None:
        width = max(8, *(len(str(name)) for name in names)) * 0.09 + 0.2
        _, ax = plt.subplots(figsize=(1.8 + width * len(names), 1.4 + 0.27 * len(order)), layout="constrained")
    colours = plt.get_cmap("Reds").with_extremes(bad="0.9")
    image = ax.imshow(shown, cmap=colours, vmin=0.0, vmax=-np.log10(SMALLEST), aspect="auto")
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(order)), [str(label) for label in cells["row"].values[order]])
    ax.set(ylabel="row")
    bar = ax.figure.colorbar(image, ax=ax, label="p-value given the rest of the row")
    bar.set_ticks([0, 1, 2, 3, 4, 5, 6], labels=["1", "0.1", "0.01", "1e-3", "1e-4", "1e-5", "≤ 1e-6"])
    if annotate:
        for i, row in enumerate(order):
            for j, name in enumerate(names):
                if not np.isnan(p[row, j]):
                    text = (
                        f"{p[row, j]:.2g}"
                        if data is None
                        else _as_text(data.iloc[row, data.columns.map(str).get_loc(name)])
                    )
                    ax.text(
                        j, i, text, ha="center", va="center", fontsize="small", color="w" if shown[i, j] > 3.5 else "k"
                    )
    return ax


def _as_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
