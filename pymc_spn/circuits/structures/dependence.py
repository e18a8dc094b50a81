"""Pairwise dependence of the columns of a table, for choosing where to split them."""

from typing import Any

import numpy as np

MAX_ROWS = 1_000  # of which `strength_of_pairs` estimates
BINS = 8  # of a numeric column, by ranks
FEATURES, SCALE = 10, 1.0 / 6.0  # random sinusoids of a column and the inverse of their width (Lopez-Paz et al.)
RIDGE = 1e-6  # relative: directions of less spread are rounding


def mutual_information(values: np.ndarray, is_level: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mutual information in nats of all pairs of columns, less its bias where they are independent.

    Numeric columns are binned by ranks, the plug-in estimate is reduced by (K - 1)(L - 1) / 2n (Miller and Madow 1955)
    and set to 0 below. Rows with a gap in either column are left out of a pair.

    Parameters
    ----------
    values : (N, D) float64
        Levels as integers, NaN where missing.
    is_level : (D,) bool
    rng : numpy.random.Generator
        Not used.

    Returns
    -------
    (D, D) float64
    """
    codes = np.stack([_codes(x, level) for x, level in zip(values.T, is_level, strict=True)], axis=1)
    return _pairs(codes, _binned_information)


def randomized_dependence(values: np.ndarray, is_level: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Randomised dependence coefficient of all pairs of columns, between 0 and 1.

    The largest canonical correlation of random sinusoids of the columns' ranks; levels enter as indicators.
    Arguments and result as in `mutual_information`; missing cells are left out pair by pair.

    References
    ----------
    Lopez-Paz, Hennig and Schoelkopf (2013), The randomized dependence coefficient, arXiv:1304.7717, section 3.
    """
    features = [_features(x, level, rng) for x, level in zip(values.T, is_level, strict=True)]
    gaps = np.isnan(values)
    whole = [None if gap.any() else _whitened(f) for f, gap in zip(features, gaps.T, strict=True)]
    n_columns = values.shape[1]
    out = np.zeros((n_columns, n_columns))
    for d in range(n_columns):
        for e in range(d):
            a, b = whole[d], whole[e]
            if a is None or b is None:
                both = ~(gaps[:, d] | gaps[:, e])
                a, b = _whitened(features[d][both]), _whitened(features[e][both])
            out[d, e] = out[e, d] = np.clip(np.linalg.norm(a.T @ b, 2), 0.0, 1.0) if a.size and b.size else 0.0
    return out


MEASURES: dict[str, Any] = {"mutual_information": mutual_information, "rdc": randomized_dependence}


def strength_of_pairs(
    values: np.ndarray, is_level: np.ndarray, columns: Any, rows: np.ndarray, measure: Any, rng: np.random.Generator
) -> np.ndarray:
    """Dependence (k, k) of some columns in some rows, of `MAX_ROWS` rows drawn if there are more.

    Parameters
    ----------
    values : (N, D) float64
    is_level : (D,) bool
    columns : (k,) int64
    rows : (n,) int64
    measure : callable
        One of `MEASURES`.
    rng : numpy.random.Generator
    """
    if rows.size > MAX_ROWS:
        rows = rng.choice(rows, MAX_ROWS, replace=False)
    return measure(values[np.ix_(rows, columns)], is_level[columns], rng)


def _codes(x: np.ndarray, is_level: bool) -> np.ndarray:
    """Levels as they are, numbers by which of `BINS` groups of equal size they belong to; -1 where missing."""
    codes = np.full(x.size, -1, np.int64)
    seen = ~np.isnan(x)
    if is_level or not seen.any():
        codes[seen] = x[seen].astype(np.int64)
        return codes
    inner = np.unique(np.quantile(x[seen], np.arange(1, BINS) / BINS))
    codes[seen] = np.searchsorted(inner, x[seen], side="right")
    return codes


def _pairs(codes: np.ndarray, measure: Any) -> np.ndarray:
    n_columns = codes.shape[1]
    out = np.zeros((n_columns, n_columns))
    for d in range(n_columns):
        for e in range(d):
            both = (codes[:, d] >= 0) & (codes[:, e] >= 0)
            out[d, e] = out[e, d] = measure(codes[both, d], codes[both, e])
    return out


def _binned_information(a: np.ndarray, b: np.ndarray) -> float:
    if a.size == 0:
        return 0.0
    counts = np.bincount(a * (b.max() + 1) + b, minlength=(a.max() + 1) * (b.max() + 1)).reshape(a.max() + 1, -1)
    joint = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0] / a.size
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    some = joint > 0
    plug_in = float((joint[some] * np.log(joint[some] / expected[some])).sum())
    return max(plug_in - (joint.shape[0] - 1) * (joint.shape[1] - 1) / (2.0 * a.size), 0.0)


def _features(x: np.ndarray, is_level: bool, rng: np.random.Generator) -> np.ndarray:
    """(N, k) indicators of levels, or random sinusoids of the ranks; rows with a gap hold 0."""
    seen = ~np.isnan(x)
    if is_level:
        return (x[:, None] == np.unique(x[seen])[1:]).astype(np.float64)  # the first level is the others' absence
    rank = np.zeros(x.size)
    order = np.sort(x[seen])
    rank[seen] = np.searchsorted(order, x[seen], side="right") / max(order.size, 1)
    weight, phase = rng.normal(0.0, 1.0 / SCALE, FEATURES), rng.normal(0.0, 1.0 / SCALE, FEATURES)
    return np.where(seen[:, None], np.sin(rank[:, None] * weight + phase), 0.0)


def _whitened(x: np.ndarray) -> np.ndarray:
    """Orthonormal directions (n, k) of the centred features; none where they are constant."""
    x = x - x.mean(axis=0) if len(x) else x
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, s > max(RIDGE * s.max(initial=0.0), 1e-12)]
