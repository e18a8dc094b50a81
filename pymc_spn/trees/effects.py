"""What the features do: inclusion, importance by submodels, partial dependence, individual curves."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name
from pymc_spn.trees.predictives import average, class_payload, log_predictive_density, moment_payload

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.trees.draws import TreeDraws

UNSEEN_SIDE = -1


def inclusion(draws: "TreeDraws", weights: np.ndarray) -> "xr.DataArray":
    """Probability of use and expected share of the splits, by feature."""
    import xarray as xr

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


def importance(
    draws: "TreeDraws", weights: np.ndarray, values: np.ndarray, y: np.ndarray, max_features: int | None
) -> pd.DataFrame:
    """Greedy forward selection by the mean log predictive of the submodel that sees the features chosen so far."""
    names = draws.features.names
    if max_features is not None and (not isinstance(max_features, int | np.integer) or max_features < 1):
        raise ValueError(f"max_features must be an integer of at least 1, got {quoted(max_features)}")
    n_steps = len(names) if max_features is None else min(max_features, len(names))
    blind = _forget_sides(draws)
    hidden = np.full_like(values, np.nan)

    def score(shown):
        return float(log_predictive_density(blind, weights, shown, True, y).mean())

    chosen: list[int] = []
    rows = [("(none)", score(hidden))]
    for _ in each(range(n_steps)):
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


def _with_feature(values, d, coded):
    """The rows with one feature set to each value of a grid in turn."""
    for x in each(coded):
        changed = values.copy()
        changed[:, d] = x
        yield changed


def _labelled(draws, curves, first, feature, labels):
    """Curves (first, value), for classes (first, value, level), from an array with an axis for the payload."""
    import xarray as xr

    dims, coords = [first, dimension_of(feature)], {dimension_of(feature): labels}
    if draws.levels is None:
        return xr.DataArray(curves[..., 0], coords, dims)
    return xr.DataArray(curves, coords | {"level": draws.levels}, [*dims, "level"])


def partial_dependence(
    draws: "TreeDraws", weights: np.ndarray, feature: str, grid: Any, values: np.ndarray, per_draw: bool
) -> "xr.DataArray":
    """(value,) or (value, level), with (tree,) in front per draw."""
    d, coded, labels = grid_of(draws, feature, grid)
    payload = _payload(draws)
    if per_draw:
        size = draws.n_trees * (draws.n_trees + len(coded) * payload.shape[1])
        what = f"per_draw=True with {draws.n_trees:,} trees and {len(coded):,} values"
        refuse_memory(what, 8.0 * size, "give a shorter grid, or ask fewer trees")
    sets = np.eye(draws.n_trees) if per_draw else weights[None]
    out = np.empty((len(sets), len(coded), payload.shape[1]))
    for g, changed in enumerate(_with_feature(values, d, coded)):
        for t, w in enumerate(sets):
            out[t, g] = average(draws, w, changed, True, payload).mean(0)
    answer = _labelled(draws, out, "tree", feature, labels)
    return answer if per_draw else answer.isel(tree=0)


def individual_curves(
    draws: "TreeDraws", weights: np.ndarray, feature: str, grid: Any, values: np.ndarray
) -> "xr.DataArray":
    """(row, value) or (row, value, level)."""
    d, coded, labels = grid_of(draws, feature, grid)
    payload = _payload(draws)
    size = len(values) * len(coded) * payload.shape[1]
    what = f"ice of {len(values):,} rows at {len(coded):,} values"
    refuse_memory(what, 8.0 * size, "give fewer rows, or a shorter grid")
    out = np.empty((len(values), len(coded), payload.shape[1]))
    for g, changed in enumerate(_with_feature(values, d, coded)):
        out[:, g] = average(draws, weights, changed, True, payload)
    return _labelled(draws, out, "row", feature, labels)
