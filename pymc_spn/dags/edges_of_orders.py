"""Exact probabilities of edges given orders, and matrices of what is known by candidate."""

import numpy as np

from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.numerics.threads import for_each, parts_of_rows

AT_A_TIME = 100  # orders that a thread takes


def edges_given_orders(scores: ParentSetScores, log_sums: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Exact probability of every edge given each order.

    Parameters
    ----------
    scores : ParentSetScores
    log_sums : (scores.log_scores.size,) float64
        As `LocalScores.log_sums`, perhaps under evidence.
    orders : (n, d) int64
        Variables from first to last.

    Returns
    -------
    (n, d, K) float64
        By child and place among its candidates; `pair_matrix` brings the last two into (parent, child).
    """
    from pymc_spn.dags.order_mcmc_kernels import edges_given_order

    out = np.empty((len(orders), *scores.candidates.shape))

    def ask(some: slice) -> None:
        edges_given_order(orders[some], scores.candidates, scores.slots, scores.offsets, log_sums, out[some])

    for_each(ask, parts_of_rows(len(orders), AT_A_TIME))
    return out


def pair_matrix(scores: ParentSetScores, by_candidate: np.ndarray) -> np.ndarray:
    """(..., d, d) parents by children, zero where there is no candidate, from (..., d, K) by child and candidate."""
    child, place = np.nonzero(scores.candidates >= 0)
    out = np.zeros((*by_candidate.shape[:-2], scores.d, scores.d), by_candidate.dtype)
    out[..., scores.candidates[child, place], child] = by_candidate[..., child, place]
    return out
