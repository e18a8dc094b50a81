"""Ends of the uniform leaves of a column, by coordinate ascent on the likelihood itself."""

from collections.abc import Iterator

import numpy as np

LEAST_GAIN = 1e-9  # nats; smaller ones are rounding of sums over the rows


def best_ends(x: np.ndarray, flow: np.ndarray, rest: np.ndarray, ends: np.ndarray, rows: float) -> np.ndarray:
    """Ends (K, 2) at which the log posterior density is at least as large, one leaf after the other.

    Every induced tree has one leaf of the column, so the density of row n is linear in these leaves. Up to a factor of
    the row's own it is ``rest[n] + sum_k flow[k, n] r / l_k`` over the leaves k, of lengths l_k, that hold x[n]. Its
    log has no lower bound by responsibilities that lets go of a row. So steps of expectation maximisation do not move
    ends past values. But as a function of one leaf's ends it is known in full. Its maxima have values as ends,
    since between values it grows when the leaf shrinks; only values are tried, and where the leaf begins.

    The prior of a length is ``rows`` times -log l - r / l, the log of an inverse gamma density with mode r, the
    column's length. It falls without bound as l goes to 0, faster than the likelihood of any rows grows, and agrees
    with a single leaf that holds the whole column. (The conjugate prior, a bilateral Pareto density of the ends, has
    each leaf hold an interval of its own. Rows with the average statistics of the column would make every leaf as long
    as the column.)

    Parameters
    ----------
    x : (n,) float64
        Known values of the column, ascending.
    flow : (K, n) float64
        Probability that a value is from each uniform leaf if these were as long as the column, r.
    rest : (n,) float64
        The same of all other leaves of the column together.
    ends : (K, 2) float64
        Where the leaves begin; under them every row has a positive density.
    rows : float
        Observations that the prior is worth.

    References
    ----------
    Liu and Rubin (1994), The ECME algorithm: a simple extension of EM and ECM with faster monotone convergence,
    Biometrika 81(4). DeGroot (1970), Optimal statistical decisions, chapter 9, for the conjugate prior.
    """
    r, (low, high) = x[-1] - x[0], ends.T.copy()
    values = np.unique(np.concatenate([x, low, high]))
    scaled = flow * r

    def density(k: int) -> np.ndarray:
        """Of leaf k alone."""
        return np.where((x >= low[k]) & (x <= high[k]), scaled[k] / (high[k] - low[k]), 0.0)

    for k in range(len(ends)):
        others = rest + sum((density(j) for j in range(len(ends)) if j != k), start=np.zeros(x.size))
        with np.errstate(divide="ignore"):
            log_others = np.log(others)

        def objective(
            a: float, b: float, own: np.ndarray = scaled[k], others: np.ndarray = others, logs: np.ndarray = log_others
        ) -> float:
            first, last, length = np.searchsorted(x, a), np.searchsorted(x, b, side="right"), b - a
            inside = np.log(others[first:last] + own[first:last] / length).sum()
            return float(inside + logs[:first].sum() + logs[last:].sum() - rows * (np.log(length) + r / length))

        found = objective(low[k], high[k])
        while True:
            near = _neighbours(int(np.searchsorted(values, low[k])), int(np.searchsorted(values, high[k])), values.size)
            with np.errstate(divide="ignore"):
                tried = [(objective(values[i], values[j]), i, j) for i, j in near]
            best, i, j = max(tried, default=(-np.inf, 0, 0))
            if not best > found + LEAST_GAIN:
                break
            found, low[k], high[k] = best, values[i], values[j]
    return np.column_stack([low, high])


def _neighbours(i: int, j: int, n: int) -> Iterator[tuple[int, int]]:
    """Pairs of places below n, one or both of them 1, 2, 4, .. away from (i, j), the first below the second."""
    for power in range(n.bit_length()):
        for step in (-(1 << power), 1 << power):
            for first, last in ((i + step, j), (i, j + step), (i + step, j + step)):
                if 0 <= first < last < n:
                    yield first, last
