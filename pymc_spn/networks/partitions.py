"""How often rows are together in partitions, and how far partitions are from their average."""

import numpy as np

TILE_VALUES = 250_000  # clusters that a kernel compares with one row after the other (1 MB)


def average_togetherness(labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weight (N, N) of the partitions that have two rows in one cluster.

    Parameters
    ----------
    labels : (S, N) int
        Of the cluster of each row in each partition.
    weight : (S,) float64
        Of the partitions.
    """
    from pymc_spn.networks.partition_kernels import add_togetherness

    n_draws, n_rows = labels.shape
    own = np.ascontiguousarray(labels.T, np.int32)
    together = np.zeros((n_rows, n_rows))
    step = max(1, TILE_VALUES // max(n_draws, 1))
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        others = np.ascontiguousarray(labels[:, start:stop], np.int32)
        add_togetherness(own[:stop], others, weight, together[:stop, start:stop])
        together[start:stop, :start] = together[:start, start:stop].T
    return together


def togetherness_with(labels: np.ndarray, others: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The same (M, N) of the rows of ``labels`` (S, M) with those of ``others`` (S, N)."""
    from pymc_spn.networks.partition_kernels import add_togetherness

    own = np.ascontiguousarray(labels.T, np.int32)
    together = np.zeros((labels.shape[1], others.shape[1]))
    step = max(1, TILE_VALUES // max(len(labels), 1))
    for start in range(0, others.shape[1], step):
        tile = np.ascontiguousarray(others[:, start : start + step], np.int32)
        add_togetherness(own, tile, weight, together[:, start : start + step])
    return together


def losses_of_partitions(labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sums (S,) over pairs of rows of the squared difference between being together and how often they are (Dahl 2006).

    Parameters
    ----------
    labels : (S, N) int
        Of the cluster of each row in each partition.
    weight : (S,) float64
        Of the partitions in the average; they add up to 1.

    Notes
    -----
    From a matrix over pairs of rows where these are fewer than the partitions, at a cost of S N². Else from the rows
    that each two clusters of two partitions have in common, at S² N. With n_ab of them, both partitions have all pairs
    of sum n_ab² rows together. The loss is a sum of such sums.
    """
    from pymc_spn.networks.partition_kernels import pairs_in_common

    n_draws, n_rows = labels.shape
    if n_rows <= n_draws:
        average = average_togetherness(labels, weight)
        return np.array([np.sum(((x[:, None] == x[None, :]) - average) ** 2) for x in labels])
    code = np.stack([np.unique(label, return_inverse=True)[1] for label in labels]).astype(np.int32)
    common = np.empty((n_draws, n_draws))
    order = np.argsort(code, axis=1, kind="stable").astype(np.int32)
    pairs_in_common(code, order, np.zeros(n_rows, np.int64), common)
    with_average = common @ weight
    return np.maximum(np.diag(common) - 2.0 * with_average + weight @ with_average, 0.0)
