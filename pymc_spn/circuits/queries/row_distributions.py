"""How a number is spread given the other cells of each row: standard deviations and quantiles."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.laws.row_laws import LeafGrid, RowLaws, WeightedLeaves
from pymc_spn.circuits.queries.asked_rows import AskedRows
from pymc_spn.circuits.records.draw_averages import chain_error, weighted
from pymc_spn.circuits.records.leaf_predictives import TOLERANCE, Interval, Leaves, leaf_moments
from pymc_spn.numerics.row_mixtures import RowMixtures
from pymc_spn.tables import row_labels

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.circuits.queries.prediction_answers import PredictionAnswers

NEGLIGIBLE = 1e-10  # of the smaller tail: the weight of the leaves that are left out of a row's quantiles
ROW_TOLERANCE = 1e-9  # of the spread of a row's law, of its quantiles: what these leaves could move


def standard_deviations(parts: "Sequence[PredictionAnswers]", df: Any, target: str) -> "xr.DataArray":
    """The answer of `SPNPosterior.predict_sd`, given that the evidence of one of the parts holds.

    Parameters
    ----------
    parts : sequence of PredictionAnswers
        One posterior given events of which no two hold at once.
    df, target
        As for `SPNPosterior.predict_sd`.
    """
    first = parts[0]
    d = _number_asked(first, target)
    asked = AskedRows(parts, df, d)
    n_draws = len(asked.leaves)
    laws = [[leaf_moments(leaves, part._evidence.get(d)) for leaves in asked.leaves] for part in parts]
    answer, errors = [np.zeros(0)], []
    for rows in asked.blocks(max(2 * n_draws * len(parts), int(asked.n_leaves.max(initial=0)))):
        mean, variance = np.empty((2, len(parts), n_draws, rows.stop - rows.start))

        def note(j: int, s: int, share: np.ndarray, mean: np.ndarray = mean, variance: np.ndarray = variance) -> None:
            mean[j, s], variance[j, s] = _mixed_moments(share, *laws[j][s])

        weight, share_of_part = asked.weigh(rows, note)
        weight = share_of_part * weight  # of mean 1 over the draws, added up over the parts
        with np.errstate(invalid="ignore"):
            centre = weighted(weight, mean).sum(axis=0).mean(axis=0)
            second = weighted(weight, np.where(np.isinf(variance), np.inf, variance + (mean - centre) ** 2))
            sd = np.sqrt(second.sum(axis=0).mean(axis=0))
            # by the delta method; the centre is where the second moment is the least, and adds nothing
            influence = (second - weight * sd**2).sum(axis=0) / (2.0 * sd)
        answer.append(sd)
        errors.append(chain_error(np.where(sd == 0.0, 0.0, influence), first._n_chains))
    values = np.concatenate(answer)
    attrs: dict[str, Any] = first._cell_mark()
    if any(isinstance(part._evidence.get(d), Interval) for part in parts):
        attrs |= {"exactness": "numerical", "tolerance": TOLERANCE}
    if np.isinf(values).any():
        attrs["infinite_variance"] = [target]
    coords = {"row": row_labels(asked.index)}
    return first._labelled("predict_sd", values, coords, False, **attrs, **asked.marks(errors))


def row_quantiles(parts: "Sequence[PredictionAnswers]", df: Any, target: str, levels: np.ndarray) -> "xr.DataArray":
    """The answer of `SPNPosterior.predict_quantile` at levels () or (Q,); see `standard_deviations`."""
    first = parts[0]
    d = _number_asked(first, target)
    asked = AskedRows(parts, df, d)
    leaves = Leaves(
        np.concatenate([one.family for one in asked.leaves]), np.concatenate([one.parameters for one in asked.leaves])
    )
    events = [part._evidence.get(d) for part in parts]
    grid = LeafGrid(leaves, events)
    begin = np.cumsum(asked.n_leaves) - asked.n_leaves
    draw = np.repeat(np.arange(asked.n_leaves.size), asked.n_leaves)
    q = np.atleast_1d(levels).astype(np.float64)
    inner = (q > 0.0) & (q < 1.0)
    is_count = first._schema.columns[d].kind == "count"
    answer, errors = [np.zeros((0, q.size))], []
    for rows in asked.blocks(draw.size * len(parts) * max(q.size, 1)):
        shares = np.zeros((len(parts), rows.stop - rows.start, draw.size))

        def note(j: int, s: int, share: np.ndarray, shares: np.ndarray = shares) -> None:
            shares[j, :, begin[s] : begin[s] + share.shape[1]] = share

        weight, share_of_part = asked.weigh(rows, note)
        shares *= (share_of_part * weight)[:, draw].transpose(0, 2, 1) / asked.n_leaves.size
        laws = _laws_of_rows(shares, leaves, events, q[inner])
        least, most = laws.support()
        x = np.where(q <= 0.0, least[:, None], most[:, None])
        x[:, inner] = laws.quantile(q[inner], grid.brackets(shares, q[inner]))
        answer.append(x)
        if not is_count:
            errors.append(chain_error(_influence(laws, draw, weight, q, x), first._n_chains))
    attrs: dict[str, Any] = {"column": target, **first._cell_mark()}
    if not is_count:
        attrs |= {"exactness": "numerical", "tolerance": ROW_TOLERANCE}
    marks = asked.marks(errors)
    if is_count:
        marks["mcse_chain_note"] = "no mcse_chain: a quantile of counts moves in steps"
        marks.pop("mcse_chain")
    coords: dict[str, Any] = {"row": row_labels(asked.index), "quantile": q}
    found = first._labelled("predict_quantile", np.concatenate(answer), coords, False, **attrs, **marks)
    if levels.ndim:
        return found
    if "mcse_chain" in found.attrs:
        found.attrs["mcse_chain"] = found.attrs["mcse_chain"][:, 0]
    return found.isel(quantile=0)


def _number_asked(first: "PredictionAnswers", target: str) -> int:
    """Number of a column whose values are numbers, and not levels."""
    d = first._column_number("target", target)
    column = first._schema.columns[d]
    if column.levels is not None:
        raise ValueError(f"target must be numeric, {target!r} is {column.kind}; use predict_proba")
    return d


def _mixed_moments(share: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (M,) of mixtures with weights (M, n) of leaves (n,); infinite where a leaf that counts is."""
    heavy = np.isinf(mean) | np.isinf(variance)
    finite_mean, finite_variance = np.where(np.isinf(mean), 0.0, mean), np.where(heavy, 0.0, variance)
    centre = share @ finite_mean
    away = (finite_mean - centre[:, None]) ** 2
    spread = share @ finite_variance + (share * away).sum(axis=1)
    is_heavy = share @ heavy > 0.0
    return centre, np.where(is_heavy, np.inf, spread)


def _laws_of_rows(shares: np.ndarray, leaves: Leaves, events: list[Any], q: np.ndarray) -> RowLaws:
    """Laws by weights (J, M, n) of leaves under parts, without those that count for nothing.

    What is left out of a row is `NEGLIGIBLE` of the smallest tail that is asked for.
    """
    n_rows = shares.shape[1]
    most = NEGLIGIBLE * float(np.minimum(q, 1.0 - q).min(initial=0.5))
    ascending = np.sort(shares.transpose(1, 0, 2).reshape(n_rows, math.prod(shares.shape[::2])), axis=1)
    n_out = (np.cumsum(ascending, axis=1) <= most).sum(axis=1)
    least = np.take_along_axis(ascending, np.minimum(n_out, ascending.shape[1] - 1)[:, None], axis=1)
    parts = []
    for share, event in zip(shares, events, strict=True):
        row, leaf = np.nonzero((share >= least) & (share > 0.0))
        if row.size:  # else all rows are outside of this part
            parts.append(WeightedLeaves(leaves, event, RowMixtures(row, leaf, share[row, leaf], n_rows)))
    return RowLaws(tuple(parts), n_rows)


def _influence(laws: RowLaws, draw: np.ndarray, weight: np.ndarray, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Contributions (S, M, Q) of draws to quantiles, by the delta method: those to the cdf over the density."""
    n_draws, n_rows = weight.shape
    below = np.zeros((n_draws * n_rows, q.size))
    for part in laws.parts:
        row, leaf, share, _ = part.mixtures
        np.add.at(below, draw[leaf] * n_rows + row, share[:, None] * part.law.leaf_cdf(x[row]))
    below = n_draws * below.reshape(n_draws, n_rows, q.size) - weight[:, :, None] * q
    with np.errstate(divide="ignore", invalid="ignore"):
        return below / laws.density(x)
