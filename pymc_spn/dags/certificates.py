"""How much of the posterior a support holds, by orders drawn without it."""

import math
from typing import Any

import numpy as np

from pymc_spn.dags.lattice_search import gibbs_orders
from pymc_spn.dags.local_scores import LocalScores


def coverage(post: Any, n: int, random_seed: Any, sweeps: int, progressbar: bool) -> tuple[float, float]:
    """Share of independent Gibbs orders inside the support, and its standard error."""
    post._refuse_evidence("coverage")
    rng = np.random.default_rng(random_seed)
    inside = int(post._holds(gibbs_orders(post.scores, n, rng, sweeps, progressbar)).sum())
    smoothed = (inside + 0.5) / (n + 1) if inside in (0, n) else inside / n
    return inside / n, math.sqrt(smoothed * (1 - smoothed) / n)


def order_edge_probabilities(scores: LocalScores, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edge probabilities averaged over order draws, exact given each order, and their standard errors."""
    from pymc_spn.dags.draw_kernels import order_edge_probabilities as average

    out = np.empty((2, scores.d, scores.d))
    average(
        np.ascontiguousarray(orders, np.int64),
        scores.lookup,
        scores.candidates,
        scores.offsets,
        scores.n_candidates,
        scores.log_sums,
        out,
    )
    variance = np.maximum(out[1] - out[0] ** 2, 0.0)
    return out[0], np.sqrt(variance / len(orders))
