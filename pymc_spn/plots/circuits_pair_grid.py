"""Pair plots: draws from the posterior predictive against the data."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name
from pymc_spn.tables.frame_kinds import pandas_frame

MOST_LABELS = 8  # of levels on one axis of these small drawings


def plot_pairs(
    data: pd.DataFrame,
    drawn: pd.DataFrame,
    columns: Sequence[str] | None = None,
    axes: "np.ndarray | None" = None,
    max_rows: int = 500,
) -> np.ndarray:
    """Draw scatter plots of every pair of columns, with data and draws.

    Parameters
    ----------
    data, drawn : DataFrame
        The table, and ``SPNPosterior.sample(n)``. Rows with a gap in a pair are left out of it.
    columns : sequence of str, optional
        By default all, at most six. Levels, those of `data` and of `drawn`, are drawn at their numbers, jittered; where
        there are many, some are labelled.
    axes : (k, k) array of matplotlib Axes, optional
    max_rows : int
        Rows of each that are drawn as points, the first ones.

    Returns
    -------
    (k, k) array of Axes

    Raises
    ------
    TypeError
        If one of the tables is not a frame.
    ValueError
        If `columns` names none, or one that `data` or `drawn` lacks or that holds nothing in `data`, or `axes` has
        another shape.

    Examples
    --------
    >>> axes = ps.plots.plot_pairs(df, post.sample(100, random_seed=1))
    """
    data, drawn = pandas_frame(data), pandas_frame(drawn, "drawn")
    for argument, table in (("data", data), ("drawn", drawn)):
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"{argument} must be a DataFrame; got {type(table).__name__}")
    data, drawn = data.rename(columns=as_name), drawn.rename(columns=as_name)
    if isinstance(columns, str) or (columns is not None and not len(columns)):
        raise ValueError(f"columns must be a sequence of names, got {quoted(columns)}")
    names = list(data.columns[:6]) if columns is None else [as_name(label) for label in columns]
    for name in names:
        if name not in data or name not in drawn:
            raise ValueError(f"columns names {name!r}, which data and drawn must both have")
        if data[name].isna().all():
            raise ValueError(f"data must have a value in every column that is drawn; {name!r} has none")
    k = len(names)
    if axes is None:
        _, axes = plt.subplots(k, k, figsize=(1.9 * k + 0.6, 1.9 * k + 0.6), squeeze=False, layout="constrained")
    axes = np.asarray(axes)
    if axes.shape != (k, k):
        raise ValueError(f"axes must have shape ({k}, {k}), got {axes.shape}")
    levels = {n: _levels(data[n], drawn[n]) for n in names}
    rng = np.random.default_rng(0)  # of the jitter
    for i, below in enumerate(names):
        for j, across in enumerate(names):
            ax = axes[i, j]
            if j > i:
                ax.set_visible(False)
                continue
            for frame, label, colour in ((data, "data", "C0"), (drawn, "draws", "C1")):
                x, y = (_numbers(frame[n], levels[n]) for n in (across, below))
                if i == j:
                    _distribution(ax, x, data[across], levels[across], label, colour)
                    continue
                seen = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))[:max_rows]
                jitter = [0.12 * rng.normal(size=seen.size) if levels[n] else 0.0 for n in (across, below)]
                ax.plot(
                    x[seen] + jitter[0], y[seen] + jitter[1], ".", color=colour, alpha=0.35, markersize=3, label=label
                )
            _limits(ax, data[across], levels[across], i != j and data[below], levels[below])
            _ticks(ax, levels[across], None if i == j else levels[below])
            ax.set_xlabel(across if i == k - 1 else "")
            ax.set_ylabel(("share" if levels[below] else "density") if i == j else below if j == 0 else "")
    axes[0, 0].legend(fontsize="small")
    return axes


def _levels(column: pd.Series, drawn: pd.Series) -> list[Any]:
    """Levels of a column that holds no numbers, also those that only draws have, else an empty list."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return []
    found = drawn.dropna().unique().tolist()
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = column.cat.categories.tolist()
        return levels + sorted(set(found) - set(levels))
    return sorted({*column.dropna().unique().tolist(), *found})


def _numbers(column: pd.Series, levels: list[Any]) -> np.ndarray:
    if not levels:
        return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    return column.map({v: i for i, v in enumerate(levels)}).to_numpy(dtype=float, na_value=np.nan)


def _distribution(ax: Any, x: np.ndarray, column: pd.Series, levels: list[Any], label: str, colour: str) -> None:
    x = x[~np.isnan(x)]
    if levels:
        shift = -0.2 if label == "data" else 0.2
        share = np.bincount(x.astype(int), minlength=len(levels)) / max(x.size, 1)
        ax.bar(np.arange(len(levels)) + shift, share, 0.4, color=colour, label=label)
        return
    low, high = _range(column)
    # shares of all values, also of those outside: heights are then densities
    weights = np.full(x.size, 25.0 / ((high - low) * max(x.size, 1)))
    bins = np.linspace(low, high, 26)
    ax.hist(x, bins=bins, weights=weights, histtype="step", color=colour, label=label)


def _range(column: pd.Series) -> tuple[float, float]:
    """Central 99 % of a numeric column and a fifth of that on both sides."""
    low, high = np.nanquantile(_numbers(column, []), [0.005, 0.995])
    margin = 0.2 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def _limits(ax: Any, across: pd.Series, levels_across: list[Any], below: Any, levels_below: list[Any]) -> None:
    """Nearly the range of the data and some more; outliers and draws from heavy tails may lie outside."""
    for column, levels, put in ((across, levels_across, ax.set_xlim), (below, levels_below, ax.set_ylim)):
        if column is False:
            continue
        if levels:
            put(-0.6, len(levels) - 0.4)
            continue
        put(*_range(column))


def _ticks(ax: Any, across: list[Any], below: list[Any] | None) -> None:
    if across:
        every = -(-len(across) // MOST_LABELS)
        ax.set_xticks(range(0, len(across), every), [str(v) for v in across[::every]], rotation=45, ha="right")
    if below:
        every = -(-len(below) // MOST_LABELS)
        ax.set_yticks(range(0, len(below), every), [str(v) for v in below[::every]])
