"""How far partitions of rows are from their average."""

import numpy as np
from scipy import sparse


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
    that each two clusters of two partitions have in common, at S² N: with n_ab of them, both partitions have all pairs
    of sum n_ab² rows together, and the loss is a sum of such sums.
    """
    n_draws, n_rows = labels.shape
    if n_rows <= n_draws:
        average = np.zeros((n_rows, n_rows))
        for w, label in zip(weight, labels, strict=True):
            average += w * (label[:, None] == label[None, :])
        return np.array([np.sum(((x[:, None] == x[None, :]) - average) ** 2) for x in labels])
    code = np.stack([np.unique(label, return_inverse=True)[1] for label in labels])
    sizes = code.max(axis=1) + 1
    first = np.cumsum(sizes) - sizes
    rows = np.repeat(np.arange(n_rows), n_draws)
    members = sparse.csr_array((np.ones(rows.size), ((code + first[:, None]).T.ravel(), rows)), (sizes.sum(), n_rows))
    together = np.empty((n_draws, n_draws))  # pairs that both partitions have together
    for s in range(n_draws):
        common = (members[first[s] : first[s] + sizes[s]] @ members.T).toarray()
        together[s] = np.add.reduceat(np.square(common).sum(axis=0), first)
    with_average = together @ weight
    return np.maximum(np.diag(together) - 2.0 * with_average + weight @ with_average, 0.0)
