"""What the features do: inclusion, importance by submodels, partial dependence, individual curves."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name
from pymc_spn.trees.predictives import average, class_payload, log_predictive_density, moment_payload

if TYPE_CHECKING:
    from pymc_spn.trees.draws import TreeDraws

UNSEEN_SIDE = -1


def inclusion(draws: "TreeDraws", weights: np.ndarray) -> xr.DataArray:
    """Probability of use and expected share of the splits, by feature."""
    names = draws.features.names
    split = draws.decisions[:, 0] >= 0
    counts = np.zeros((draws.n_trees, len(names)))
    np.add.at(counts, (draws.tree_of_node[split], draws.decisions[split, 0]), 1.0)
    total = counts.sum(1, keepdims=True)
    share = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0.0)
    values = np.stack([weights @ (counts > 0.0), weights @ share])
    return xr.DataArray(
        values,
        dims=("statistic", "feature"),
        coords={"statistic": ["probability", "share"], "feature": names},
    )


def importance(draws: "TreeDraws", weights: np.ndarray, values: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    """Greedy forward selection by the mean log predictive of the submodel that sees the features chosen so far."""
    names = draws.features.names
    blind = _forget_sides(draws)
    hidden = np.full_like(values, np.nan)

    def score(shown):
        return float(log_predictive_density(blind, weights, shown, True, y).mean())

    chosen: list[int] = []
    rows = [("(none)", score(hidden))]
    for _ in each(range(len(names))):
        best, best_score = -1, -np.inf
        for d in range(len(names)):
            if d not in chosen:
                shown = hidden.copy()
                shown[:, d] = values[:, d]
                s = score(shown)
                if s > best_score:
                    best, best_score = d, s
        chosen.append(best)
        hidden[:, best] = values[:, best]
        rows.append((names[best], best_score))
    frame = pd.DataFrame(rows, columns=["feature", "log_predictive"])
    frame["gain"] = frame["log_predictive"].diff()
    return frame


def _forget_sides(draws):
    """The same trees, in which a hidden feature takes both branches whatever was learned of missing values."""
    from dataclasses import replace

    blind = replace(draws)
    blind.__dict__["nodes"] = draws.nodes
    blind.__dict__["flat"] = draws.flat._replace(side=np.full_like(draws.flat.side, UNSEEN_SIDE))
    return blind


def dimension_of(feature: str) -> str:
    """Name of a feature's dimension, apart from those of rows, trees and levels."""
    return f"{feature}_value" if feature in ("row", "tree", "level") else as_name(feature)


def grid_of(draws: "TreeDraws", feature: str, grid: Any) -> tuple[int, np.ndarray, list]:
    """Column number, coded grid and its labels."""
    names = draws.features.names
    if not isinstance(feature, Hashable) or as_name(feature) not in names:
        raise ValueError(f"feature must be one of {quoted(names)}, got {quoted(feature)}")
    d = names.index(as_name(feature))
    column = draws.features.columns[d]
    if column.levels is not None:
        labels = list(column.levels) if grid is None else list(grid)
        unknown = [v for v in labels if v not in column.levels]
        if unknown:
            raise ValueError(
                f"grid holds {quoted(unknown)}, which {feature!r} does not have; levels {quoted(list(column.levels))}"
            )
        return d, np.array([float(column.levels.index(v)) for v in labels]), labels
    if grid is None:
        seen = draws.features.values[:, d]
        coded = np.unique(np.quantile(seen[~np.isnan(seen)], np.linspace(0.02, 0.98, 20)))
    else:
        try:
            coded = np.asarray(grid, np.float64)
        except (TypeError, ValueError):
            coded = np.empty(0)
    if coded.ndim != 1 or coded.size == 0 or not np.isfinite(coded).all():
        raise ValueError(f"grid must be a sequence of finite numbers, got {quoted(grid)}")
    return d, coded, coded.tolist()


def _payload(draws):
    return moment_payload(draws)[:, :1].copy() if draws.levels is None else class_payload(draws)


def curves(
    draws: "TreeDraws", sets: np.ndarray, feature: str, grid: Any, values: np.ndarray, of_rows: bool = False
) -> xr.DataArray:
    """Predictions with a feature set to each value of a grid, under several sets of weights of the trees.

    Parameters
    ----------
    sets : (G, T) float64
    of_rows : bool
        Of each row, by the only set of weights; else their mean over the rows.

    Returns
    -------
    DataArray
        (row, value), or (tree, value) with a place for each set; for classes with the dimension level behind.
    """
    d, coded, labels = grid_of(draws, feature, grid)
    payload = _payload(draws)
    n, what, fewer = len(sets), f"per_draw=True with {len(sets):,} trees and", "trees"
    if of_rows:
        n, what, fewer = len(values), f"ice of {len(values):,} rows at", "rows"
    size = sets.size + n * len(coded) * payload.shape[1]
    refuse_memory(f"{what} {len(coded):,} values", 8.0 * size, f"give a shorter grid, or ask fewer {fewer}")
    out = np.empty((n, len(coded), payload.shape[1]))
    for g, x in enumerate(each(coded)):
        changed = values.copy()
        changed[:, d] = x
        for t, weights in enumerate(sets):
            found = average(draws, weights, changed, True, payload)
            out[slice(None) if of_rows else t, g] = found if of_rows else found.mean(0)
    dims = ["row" if of_rows else "tree", dimension_of(feature)]
    coords = {dims[1]: labels}
    if draws.levels is None:
        return xr.DataArray(out[..., 0], coords, dims)
    return xr.DataArray(out, coords | {"level": draws.levels}, [*dims, "level"])
