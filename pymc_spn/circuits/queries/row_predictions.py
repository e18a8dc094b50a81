"""A column's levels or mean given the other cells of each row, under a posterior or disjoint parts of one."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.laws.column_laws import regions_of
from pymc_spn.circuits.leaves.families import Categorical, DirichletLevels
from pymc_spn.circuits.records.draw_averages import chain_error, effective_draws, relative_weights, weighted
from pymc_spn.circuits.records.leaf_predictives import TOLERANCE, Interval, leaf_moments
from pymc_spn.tables import row_labels

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.circuits.queries.column_answers import ColumnAnswers

BLOCK_VALUES = 2_000_000  # values of leaves of all draws held at a time (16 MB)


def level_probabilities(parts: "Sequence[ColumnAnswers]", df: Any, target: str, per_draw: bool) -> "xr.DataArray":
    """The answer of `SPNPosterior.predict_proba`, given that the evidence of one of the parts holds.

    Parameters
    ----------
    parts : sequence of ColumnAnswers
        One posterior given events of which no two hold at once.
    df, target, per_draw
        As for `SPNPosterior.predict_proba`.
    """
    d = parts[0]._column_number("target", target)
    column = parts[0]._schema.columns[d]
    if column.levels is None:
        raise ValueError(f"target must be binary or categorical, {target!r} is {column.kind}; use predict")
    return _predicted(parts, "predict_proba", df, d, _leaf_levels, {"level": list(column.levels)}, per_draw)


def predictions(parts: "Sequence[ColumnAnswers]", df: Any, target: str) -> "xr.DataArray":
    """The answer of `SPNPosterior.predict`, given that the evidence of one of the parts holds."""
    first = parts[0]
    d = first._column_number("target", target)
    column = first._schema.columns[d]
    if column.levels is not None:
        proba = level_probabilities(parts, df, target, False)
        best = proba.values.argmax(axis=1)
        each = np.arange(best.size), best
        marks = dict(proba.attrs)
        marks |= {k: v[each] for k, v in marks.items() if k == "mcse_chain"} | {"probability": proba.values[each]}
        return first._labelled("predict", np.array(column.levels)[best], {"row": proba["row"].values}, False, **marks)

    attrs: dict[str, Any] = {}
    if any(isinstance(part._evidence.get(d), Interval) for part in parts):
        attrs = {"exactness": "numerical", "tolerance": TOLERANCE}
    tails = next((tails for part in parts if (tails := part._heavy_tails([d], part._evidence))), None)
    if tails:
        attrs["principal_value"] = tails
    found = _predicted(parts, "predict", df, d, _leaf_means, {}, False, **attrs)
    if np.isinf(found.values).any():
        found.attrs["infinite_mean"] = [target]
    return found


def _leaf_levels(leaves: Any, event: Any) -> np.ndarray:
    """Probabilities (n, K) of the levels under each leaf given an event."""
    p = Categorical.predictive_probabilities(DirichletLevels(leaves.parameters))
    if isinstance(event, frozenset):
        p = p * np.isin(np.arange(p.shape[1]), list(event))
        p = p / p.sum(axis=1, keepdims=True)
    return p


def _leaf_means(leaves: Any, event: Any) -> np.ndarray:
    """Mean (n,) of each leaf given an event."""
    return leaf_moments(leaves, event)[0]


def _predicted(
    parts: "Sequence[ColumnAnswers]",
    name: str,
    df: Any,
    d: int,
    of_leaves: Callable[[Any, Any], np.ndarray],
    coords: dict[str, Any],
    per_draw: bool,
    **attrs: Any,
) -> "xr.DataArray":
    """Average over leaves, parts and draws of a number (or of several) that each leaf of a column has."""
    first = parts[0]
    states, draw_weights = first._states, first._log_weights
    read = [part._rows_without(df, d) for part in parts]
    index = read[0][2]
    leaves = [states.leaves(s, d) for s in range(states.n_draws)]
    laws = [[of_leaves(one, part._evidence.get(d)) for one in leaves] for part in parts]
    shape = laws[0][0].shape[1:]  # () of means, (K,) of levels
    step = max(1, BLOCK_VALUES // (states.n_draws * math.prod(shape) * len(parts)))
    per = [np.zeros((states.n_draws, 0, *shape))]
    answer, ess, errors = [np.zeros((0, *shape))], [np.zeros(0)], []
    for start in range(0, len(index), step):
        rows = slice(start, start + step)
        each = [
            _under_draws(part, values[rows], possible[rows], d, law)
            for part, (values, possible, _), law in zip(parts, read, laws, strict=True)
        ]
        logs, found = each[0] if len(each) == 1 else _joined(each)
        impossible = ~np.isfinite(logs.max(axis=0))
        if impossible.any():
            m = start + int(np.argmax(impossible))
            place = f"row {index[m : m + 1].tolist()[0]!r}"
            if len(parts) > 1:
                raise ValueError(f"{place}: the union that the posterior is conditioned on excludes it")
            first._refuse_row(place, read[0][0][m])
        if per_draw:
            per.append(found)
            continue
        logs = logs + draw_weights[:, None]  # change of units: the same for all draws
        weight = relative_weights(logs)
        mean = weighted(weight, found).mean(axis=0)
        answer.append(mean)
        ess.append(effective_draws(logs))
        with np.errstate(invalid="ignore"):
            errors.append(chain_error(weighted(weight, found - mean), first._n_chains))
    coords = {"row": row_labels(index), **coords}
    attrs = first._cell_mark() | attrs
    if per_draw:
        return first._labelled(name, np.concatenate(per, axis=1), coords, True, **attrs)
    attrs |= {**first._joined_errors(errors, len(index), step), "ess_draws": np.concatenate(ess)}
    return first._labelled(name, np.concatenate(answer), coords, False, **attrs)


def _under_draws(
    part: "ColumnAnswers", values: np.ndarray, possible: np.ndarray, d: int, law: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Log density (S, M) of rows with the evidence, and the average (S, M, ...) over the leaves of a column."""
    states = part._states
    path = regions_of(states.structure, d)
    shares = part._shares(values, path)
    logs = np.empty((states.n_draws, len(values)))
    found = np.empty((states.n_draws, len(values), *law[0].shape[1:]))
    for s in range(states.n_draws):
        share = np.zeros((len(values), law[s].shape[0]))
        shares(s, states.network(s), logs[s], share)
        found[s] = _average(share, law[s])
    return np.where(possible, logs, -np.inf), found


def _average(share: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Average (M, ...) over leaves, infinite where one that is has a share (M, n)."""
    heavy = np.isinf(law)
    return np.where(share @ heavy > 0.0, np.inf, share @ np.where(heavy, 0.0, law))


def _joined(each: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and averages of parts as those of their union: parts count by their densities."""
    logs = np.stack([one for one, _ in each])
    whole = np.logaddexp.reduce(logs, axis=0)
    share = np.exp(logs - np.where(np.isfinite(whole), whole, 0.0))
    total = np.zeros(each[0][1].shape)
    for weight, (_, found) in zip(share, each, strict=True):
        total += weighted(weight, found)
    return whole, total
