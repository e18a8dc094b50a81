"""A column's levels or mean given the other cells of each row, under a posterior or disjoint parts of one."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.asked_rows import AskedRows
from pymc_spn.leaves.families import Categorical, DirichletLevels
from pymc_spn.networks.records.draw_averages import chain_error, weighted
from pymc_spn.networks.records.leaf_predictives import TOLERANCE, Interval, leaf_moments
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.tables import row_labels
from pymc_spn.tables.column import NOMINAL_KINDS

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.answers.prediction_answers import PredictionAnswers


def level_probabilities(parts: "Sequence[PredictionAnswers]", df: Any, target: str, per_draw: bool) -> "xr.DataArray":
    """The answer of `SPNPosterior.predict_proba`, given that the evidence of one of the parts holds.

    Parameters
    ----------
    parts : sequence of PredictionAnswers
        One posterior given events of which no two hold at once.
    df, target, per_draw
        As for `SPNPosterior.predict_proba`.
    """
    d = parts[0]._column_number("target", target)
    column = parts[0]._schema.columns[d]
    if column.levels is None:
        raise ValueError(f"target must be binary, categorical or ordinal, {target!r} is {column.kind}; use predict")
    return _predicted(parts, "predict_proba", df, d, leaf_levels, {"level": list(column.levels)}, per_draw)


def predictions(parts: "Sequence[PredictionAnswers]", df: Any, target: str) -> "xr.DataArray":
    """The answer of `SPNPosterior.predict`, given that the evidence of one of the parts holds."""
    first = parts[0]
    d = first._column_number("target", target)
    column = first._schema.columns[d]
    if column.kind in NOMINAL_KINDS:
        proba = level_probabilities(parts, df, target, False)
        best, known = proba.values.argmax(axis=1), ~np.isnan(proba.values).any(axis=1)
        each = np.arange(best.size), best
        marks = dict(proba.attrs)
        marks |= {k: v[each] for k, v in marks.items() if k == "mcse_chain"} | {"probability": proba.values[each]}
        labels = np.array(column.levels)[best]
        if not known.all():
            labels = labels.astype(object)
            labels[~known] = None
        return first._labelled("predict", labels, {"row": proba["row"].values}, False, **marks)

    attrs: dict[str, Any] = {}
    if any(isinstance(part._evidence.get(d), Interval) for part in parts):
        attrs = {"exactness": "numerical", "tolerance": TOLERANCE}
    tails = next((tails for part in parts if (tails := part._heavy_tails([d], part._evidence))), None)
    if tails:
        attrs["principal_value"] = tails

    def leaf_means(leaves: Any, event: Any) -> np.ndarray:
        return leaf_moments(leaves, event)[0] + column.origin

    found = _predicted(parts, "predict", df, d, leaf_means, {}, False, **attrs)
    if np.isinf(found.values).any():
        found.attrs["infinite_mean"] = [target]
    return found


def leaf_levels(leaves: Any, event: Any) -> np.ndarray:
    """Probabilities (n, K) of the levels under each leaf given an event."""
    p = Categorical.predictive_probabilities(DirichletLevels(leaves.parameters))
    if isinstance(event, frozenset):
        p = p * np.isin(np.arange(p.shape[1]), list(event))
        p = p / p.sum(axis=1, keepdims=True)
    return p


def _predicted(
    parts: "Sequence[PredictionAnswers]",
    name: str,
    df: Any,
    d: int,
    of_leaves: Callable[[Any, Any], np.ndarray],
    coords: dict[str, Any],
    per_draw: bool,
    **attrs: Any,
) -> "xr.DataArray":
    """Average over leaves, parts and draws of a number (or of several) that each leaf of a column has."""
    first, asked = parts[0], AskedRows.of_table(parts, df, d)
    laws = [[of_leaves(one, part._evidence.get(d)) for one in asked.leaves] for part in parts]
    shape = laws[0][0].shape[1:]  # () of means, (K,) of levels
    n_draws = len(asked.leaves)
    if per_draw:
        what = f"per_draw=True with {len(asked.index):,} rows and {n_draws:,} draws"
        refuse_memory(what, 16.0 * math.prod(shape) * n_draws * len(asked.index), "ask for fewer rows at once")
    per = [np.zeros((n_draws, 0, *shape))]
    answer, errors = [np.zeros((0, *shape))], []
    for rows in asked.blocks(n_draws * math.prod(shape) * len(parts)):
        found = np.empty((len(parts), n_draws, rows.stop - rows.start, *shape))

        def note(j: int, s: int, share: np.ndarray, found: np.ndarray = found) -> None:
            found[j, s] = _average(share, laws[j][s])

        weight, share_of_part = asked.weigh(rows, note)
        joined = found[0] if len(parts) == 1 else np.sum(list(map(weighted, share_of_part, found)), axis=0)
        if per_draw:
            per.append(joined)
            continue
        mean = weighted(weight, joined).mean(axis=0)
        answer.append(mean)
        with np.errstate(invalid="ignore"):
            errors.append(chain_error(weighted(weight, joined - mean), first._n_chains))
    coords = {"row": row_labels(asked.index), **coords}
    attrs = first._cell_mark() | attrs
    if per_draw:
        return first._labelled(name, asked.answered(per, axis=1), coords, True, **attrs)
    return first._labelled(name, asked.answered(answer), coords, False, **attrs, **asked.marks(errors))


def _average(share: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Average (M, ...) over leaves, infinite where one that is has a share (M, n)."""
    heavy = np.isinf(law)
    return np.where(share @ heavy > 0.0, np.inf, share @ np.where(heavy, 0.0, law))
