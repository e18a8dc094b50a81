"""How much of the posterior a support holds, by orders drawn without it."""

import math
import warnings
from typing import Any, Protocol

import numpy as np

from pymc_spn.dags.edges_of_orders import edges_given_orders, pair_matrix
from pymc_spn.dags.lattice_search import gibbs_orders
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.order_gibbs_kernels import chain_of_orders
from pymc_spn.numerics.trust_warnings import CoverageWarning

CHAINS, SETTLE, STATES, THIN = 40, 48, 5, 4  # of the Gibbs orders that measure every support


def coverage(post: Any, n: int, random_seed: Any, sweeps: int, progressbar: bool) -> tuple[float, float]:
    """Share of independent Gibbs orders inside the support, and its standard error."""
    post._refuse_evidence("coverage")
    rng = np.random.default_rng(random_seed)
    # an order is inside if all its prefixes are; the draws have the posterior's law, so each counts the same
    inside = int(post._holds(gibbs_orders(post.scores, n, rng, sweeps, progressbar)).sum())
    smoothed = (inside + 0.5) / (n + 1) if inside in (0, n) else inside / n
    return inside / n, math.sqrt(smoothed * (1 - smoothed) / n)


class Supported(Protocol):
    """A posterior on a support of orders, as `OrderSPN`."""

    scores: LocalScores
    kind: str
    _measured: tuple[float, float] | None

    def _holds(self, orders: np.ndarray) -> np.ndarray: ...


def measure[P: Supported](post: P, rng: np.random.Generator) -> P:
    """The posterior with the coverage of its support, and a warning where that is below one half.

    For a fifth of the time of as many independent orders: chains of their own, some states of each. The error is that
    between chains, at least that of independent orders, and never zero.
    """
    scores, orders = post.scores, np.empty((CHAINS, STATES, post.scores.d), np.int64)
    for chain, start in zip(orders, gibbs_orders(scores, CHAINS, rng, SETTLE), strict=True):
        arrays = scores.slots, scores.offsets, scores.log_sums, scores.must_precede
        chain_of_orders(rng, start, THIN, *arrays, chain)
    inside = post._holds(orders.reshape(-1, scores.d)).reshape(CHAINS, STATES).mean(axis=1)
    share = float(inside.mean())
    smoothed = (CHAINS * share + 0.5) / (CHAINS + 1) if share in (0.0, 1.0) else share
    n = CHAINS if share in (0.0, 1.0) else CHAINS * STATES
    error = max(float(inside.std(ddof=1)) / math.sqrt(CHAINS), math.sqrt(smoothed * (1.0 - smoothed) / n))
    post._measured = share, error
    if share < 0.5:
        more = "raise max_prefixes (time grows in proportion)" if post.kind == "lattice" else "use OrderSPN.fit"
        warnings.warn(
            f"the support of this OrderSPN holds {share:.3f} ± {error:.3f} of the posterior over orders. Its answers "
            f"can be far from the posterior's, and too certain: {more}, or use ps.DagOrder and pm.sample, which can "
            "reach all orders",
            CoverageWarning,
            stacklevel=3,
        )
    return post


def order_edge_probabilities(scores: LocalScores, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edge probabilities averaged over order draws, exact given each order, and their standard errors."""
    edges = edges_given_orders(scores, scores.log_sums, orders)
    return pair_matrix(scores, edges.mean(axis=0)), pair_matrix(scores, edges.std(axis=0)) / math.sqrt(len(orders))
