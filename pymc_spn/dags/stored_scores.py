"""Local scores as arrays and fields of a file, and back."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.constraints import closure
from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.dags.local_scores import MOST_SCORED, LocalScores
from pymc_spn.dags.prefix_lattice import whole_set
from pymc_spn.dags.schema import SCORES
from pymc_spn.dags.scores import GaussianMoments
from pymc_spn.records.stored_schema import bytes_of_text
from pymc_spn.steps.kept_data import keep_data
from pymc_spn.tables.stored_arrays import checked, checked_kind, json_of, refuse

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
MOST_CANDIDATES = 30  # of a variable: parent sets are numbered by int32
MOST_KEPT = 4_000_000  # numbers that results of pm.sample keep of scores


def parts_of_scores(scores: LocalScores) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays of scores with their dimensions, and all else as fields of a JSON text."""
    data: dict[str, Any] = {
        "candidates": (("variable", "candidate"), scores.candidates),
        "n_candidates": (("variable",), scores.n_candidates),
        "log_scores": (("parent_set",), scores.log_scores),
        "must_precede": (("variable", "before"), scores.must_precede.astype(np.int8)),
    }
    if scores.gaussian is not None:
        moments = scores.gaussian
        shared = all(np.array_equal(moments.matrices[0], m) for m in moments.matrices[1:])
        data["scale_matrices"] = (("matrix", "row", "column"), moments.matrices[:1] if shared else moments.matrices)
        data["n_rows"] = (("variable",), moments.n_rows)
    counts = scores.counts
    if counts is not None:
        data["codes"], data["weights"] = (("row", "variable"), counts.codes), (("variable", "row"), counts.weights)
    if scores.outside is not None:
        data["outside"] = (("parent", "child"), scores.outside)
    if counts is not None and counts.numeric.size:
        data["cell"], data["numeric"] = (("case",), counts.cell), (("number",), counts.numeric)
        data["numbers"], data["is_set"] = (("case", "number"), counts.numbers), (("case", "number"), counts.is_set)
        data["units"] = (("unit", "number"), np.stack([counts.centres, counts.units]))
        data["normal_wishart"] = (("constant",), [counts.alpha_mu, counts.alpha_w, counts.prior_scale])
    fields: dict[str, Any] = {
        "format": FORMAT,
        "names": list(scores.names),
        "restricted": list(scores.restricted),
        "score": scores.score,
        "prior": scores.prior,
        "frame": scores.frame,
        "alpha_w": None if scores.gaussian is None else scores.gaussian.alpha_w,
        "ess": None if counts is None else counts.ess,
        "levels": None if counts is None else [list(levels) for levels in counts.levels],
    }
    return data, fields


def keep_scores(model: Any, name: str, scores: LocalScores) -> None:
    """Keep the scores of a `DagOrder` with its results, from which `kept_scores` reads them, unless they are large."""
    data, fields = parts_of_scores(scores)
    if sum(np.size(values) for _, values in data.values()) <= MOST_KEPT:
        arrays = {key: np.asarray(values) for key, (_, values) in data.items()} | {
            "fields": bytes_of_text(json.dumps(fields))
        }
        for key, values in arrays.items():
            keep_data(model, f"{name}{SCORES}{key}", values, described=True)


def kept_scores(idata: "xr.DataTree", name: str) -> LocalScores:
    """The scores that results of ``pm.sample`` keep of a `DagOrder`.

    Raises
    ------
    ValueError
        If they keep none.
    """
    stored = {str(key): values.values for key, values in idata["constant_data"].data_vars.items()}
    prefix = name + SCORES
    arrays = {key.removeprefix(prefix): values for key, values in stored.items() if key.startswith(prefix)}
    if "fields" not in arrays:
        raise ValueError(
            f"scores must be given: the results do not keep those of {name!r}, which are too large, or an earlier "
            "version wrote them"
        )
    return scores_of_parts(arrays, json_of(arrays.pop("fields"), f"{prefix}fields"))


def scores_of_parts(arrays: dict[str, np.ndarray], fields: dict[str, Any]) -> LocalScores:
    """Scores from what `parts_of_scores` made of them, checked."""
    if fields["format"] > FORMAT:
        raise ValueError(f"the OrderSPN has format {fields['format']}, this version reads up to {FORMAT}")
    names = tuple(fields["names"])
    if not 1 <= len(names) <= MOST_SCORED or len(set(names)) < len(names) or {type(n) for n in names} != {str}:
        refuse("the names of the variables", f"be 1 to {MOST_SCORED} distinct strings", names)
    if not isinstance(fields["score"], str) or not isinstance(fields["prior"], str):
        refuse("score and prior", "be named by strings", (fields["score"], fields["prior"]))
    restricted = tuple(fields["restricted"])
    if not set(restricted) <= set(names):
        refuse("the restricted variables", f"be among {list(names)}", restricted)
    moments = None if fields["alpha_w"] is None else _moments(len(names), arrays, fields["alpha_w"])
    candidates, n_candidates, log_scores, must_precede = _tables(len(names), arrays)
    return LocalScores(
        names,
        candidates,
        n_candidates,
        log_scores,
        must_precede,
        restricted,
        fields["score"],
        fields["prior"],
        moments,
        None if fields.get("levels") is None else _counts(len(names), arrays, fields),
        checked("outside", arrays["outside"], (len(names),) * 2, 0.0, 1.0, gaps=True) if "outside" in arrays else None,
        checked_kind(fields.get("frame")),
    )


def _tables(d: int, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Candidates, their numbers, log scores and what must precede, as kernels may look them up."""
    candidates = checked("candidates", arrays["candidates"], (d, None), -1, d - 1, whole=True)
    n = checked("n_candidates", arrays["n_candidates"], (d,), 0, min(candidates.shape[1], MOST_CANDIDATES), whole=True)
    for i, row in enumerate(candidates):
        own = row[: n[i]]
        if (own < 0).any() or (own == i).any() or (np.diff(own) < 1).any() or (row[n[i] :] != -1).any():
            refuse(
                f"candidates of variable {i}", f"be {n[i]} other variables in ascending order, then -1", row.tolist()
            )
    log_scores = np.asarray(arrays["log_scores"])
    size = sum(1 << int(k) for k in n)
    if log_scores.dtype.kind != "f" or log_scores.shape != (size,) or not (log_scores < np.inf).all():
        refuse("log_scores", f"be {size} numbers or -inf", f"shape {log_scores.shape} of dtype {log_scores.dtype}")
    must = checked("must_precede", arrays["must_precede"], (d, d), 0, 1, whole=True).astype(bool)
    if must.diagonal().any() or (closure(must) != must).any():
        refuse("must_precede", "be an order, transitively closed", "another matrix")
    return candidates, n, log_scores, must


def _moments(d: int, arrays: dict[str, np.ndarray], alpha_w: Any) -> GaussianMoments:
    """Moments of a BGe score."""
    matrices = checked("scale_matrices", arrays["scale_matrices"], (None, d, d))
    if len(matrices) not in (1, d):
        refuse("scale_matrices", f"be one or {d}", len(matrices))
    n_rows = checked("n_rows", arrays["n_rows"], (d,), 0, whole=True)
    weight = float(checked("alpha_w", alpha_w, (), 0.0))
    return GaussianMoments(np.broadcast_to(matrices, (d, d, d)), n_rows, weight)


def _counts(d: int, arrays: dict[str, np.ndarray], fields: dict[str, Any]) -> LevelCounts:
    """Rows of a BDeu or conditional Gaussian score."""
    levels = fields["levels"]
    if not isinstance(levels, list) or len(levels) != d or not all(isinstance(own, list) and own for own in levels):
        refuse("the levels", f"be {d} lists", levels)
    codes = checked("codes", arrays["codes"], (None, d), 0, whole=True)
    if (codes >= [len(own) for own in levels]).any():
        refuse("codes", "be below the number of levels", codes.max(axis=0, initial=0).tolist())
    weights = checked("weights", arrays["weights"], (d, len(codes)), 0, whole=True)
    ess = float(checked("ess", fields["ess"], (), 0.0))
    own = codes, weights, tuple(map(tuple, levels)), ess
    if "numbers" not in arrays:
        return LevelCounts(*own)
    cell = checked("cell", arrays["cell"], (None,), 0, len(codes) - 1, whole=True)
    numeric = checked("numeric", arrays["numeric"], (None,), 0, d - 1, whole=True)
    if (np.diff(numeric) < 1).any() or any(len(levels[i]) != 1 for i in numeric):
        refuse("numeric", "be ascending variables without levels", numeric.tolist())
    numbers = checked("numbers", arrays["numbers"], (cell.size, numeric.size))
    is_set = checked("is_set", arrays["is_set"].astype(np.int64), numbers.shape, 0, 1, whole=True).astype(bool)
    centres, units = checked("units", arrays["units"], (2, numeric.size))
    alpha_mu, alpha_w, t = checked("normal_wishart", arrays["normal_wishart"], (3,), 0.0).tolist()
    if not (units > 0.0).all() or min(alpha_mu, alpha_w - numeric.size + 1, t) <= 0.0:
        refuse("units and normal_wishart", f"be positive, alpha_w above {numeric.size - 1}", (alpha_mu, alpha_w, t))
    return LevelCounts(*own, cell, numeric, numbers, is_set, centres, units, alpha_mu, alpha_w, t)


def bit_sets(place: str, values: Any, d: int) -> np.ndarray:
    """Sets of variables as bits (n,) int64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        refuse(place, "be integers in one dimension", f"the dtype {array.dtype} and {array.ndim} dimensions")
    sets = array.astype(np.int64)
    if (sets & ~np.int64(whole_set(d))).any():
        refuse(place, f"be sets of {d} variables, as bits", sets[np.argmax(sets & ~np.int64(whole_set(d)) != 0)])
    return sets
