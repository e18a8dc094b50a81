"""Pairwise dependence of the columns of a table, for choosing where to split them."""

from typing import Any

import numpy as np

MAX_ROWS = 1_000  # of which `strength_of_pairs` estimates
BINS = 8  # of a numeric column, by ranks
CELLS = 4_000_000  # counts of pairs of codes that are held at once
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
    return _information_of_pairs(codes)


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


def _indicators(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, T) float64, one column for each code that a column of codes (N, D) has, and (D,) where each begins."""
    held = [np.unique(column[column >= 0]) for column in codes.T]
    held = [own if own.size else np.zeros(1, np.int64) for own in held]
    blocks = [column[:, None] == own for column, own in zip(codes.T, held, strict=True)]
    begin = np.cumsum([0, *(own.size for own in held[:-1])])
    return np.concatenate(blocks, axis=1).astype(np.float64), begin


def _times_log(counts: np.ndarray) -> np.ndarray:
    return counts * np.log(np.maximum(counts, 1.0))


def _information_of_pairs(codes: np.ndarray) -> np.ndarray:
    """(D, D) from the counts of all pairs of codes, which are the products of their indicators; -1 is missing."""
    indicators, begin = _indicators(codes)
    n_columns, n_codes = begin.size, indicators.shape[1]
    end = np.append(begin[1:], n_codes)
    joint, own, n_own, n_rows = (np.zeros((n_columns, n_columns)) for _ in range(4))
    first = 0
    while first < n_columns:
        last = max(int(np.searchsorted(end - begin[first], CELLS // n_codes, side="right")), first + 1)
        counts = indicators[:, begin[first] : end[last - 1]].T @ indicators
        groups, some = begin[first:last] - begin[first], slice(first, last)
        margin = np.add.reduceat(counts, begin, axis=1)  # of a code where the other column is seen
        joint[some] = np.add.reduceat(np.add.reduceat(_times_log(counts), begin, axis=1), groups, axis=0)
        own[some] = np.add.reduceat(_times_log(margin), groups, axis=0)
        n_own[some] = np.add.reduceat((margin > 0.0).astype(np.float64), groups, axis=0)
        n_rows[some] = np.add.reduceat(margin, groups, axis=0)
        first = last
    n = np.maximum(n_rows, 1.0)
    information = (joint - own - own.T) / n + np.log(n) - (n_own - 1.0) * (n_own.T - 1.0) / (2.0 * n)
    information[n_rows == 0.0] = 0.0
    np.fill_diagonal(information, 0.0)
    return np.maximum(np.tril(information) + np.tril(information, -1).T, 0.0)


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
