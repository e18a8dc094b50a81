"""Sampled orders as the support of an order posterior: paths side by side, each with one over its weight."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.dags import order_mcmc_kernels
from pymc_spn.dags.prefix_lattice import PrefixLattice

if TYPE_CHECKING:
    from pymc_spn.dags.parent_set_scores import ParentSetScores

PARTS = 5  # of each chain, whose spread gives standard errors


@dataclass(frozen=True, eq=False, repr=False)
class OrderPaths(PrefixLattice):
    """Orders from Markov chains as a lattice in which each is a path of its own; the same prefix occurs often.

    A path has the weight of its order under the evidence over that under the evidence that it was drawn with. The sums
    of the lattice are then those of weighted draws, and given each order they are exact.

    Parameters
    ----------
    orders : (chain, draw, d) int64
        Variables from first to last.
    log_starts : (chain * draw,) float64
        Log of what each path is multiplied by.
    r_hat : float
        The largest of the edges.
    size : float
        Effective number of orders, by their log weights.
    log_unit_error : float
        Standard error of the log weight of all paths together, nats.
    """

    orders: np.ndarray  # (chain, draw, d) int64
    log_starts: np.ndarray
    r_hat: float
    size: float
    log_unit_error: float = 0.0

    @classmethod
    def of(
        cls,
        orders: np.ndarray,
        log_weights: np.ndarray,
        mixing: tuple[float, float],
        log_unit: float = 0.0,
        log_unit_error: float = 0.0,
    ) -> "OrderPaths":
        """Paths of orders (chain, draw, d) with the log weights (chain * draw,) that they were drawn by.

        All paths together have the log weight `log_unit`.
        """
        d = orders.shape[-1]
        flat = orders.reshape(-1, d)
        n, inner = len(flat), len(flat) * (d - 1)
        places = np.arange(inner).reshape(n, d - 1)
        source = np.where(np.arange(d - 1) > 0, places, 0)
        ends = places[:, -1] + 1 if d > 1 else np.zeros(n, np.int64)
        ptr = np.concatenate([[0], np.arange(inner + 1), [inner + n]]).astype(np.int64)
        return cls(
            d,
            np.empty(0, np.int64),  # prefixes are known by their orders
            ptr,
            np.concatenate([source.ravel(), ends]).astype(np.int32),
            np.concatenate([flat[:, :-1].ravel(), flat[:, -1]]).astype(np.int16),
            orders,
            log_unit - np.log(n) - log_weights,
            *mixing,
            log_unit_error,
        )

    def indices(self, scores: "ParentSetScores") -> np.ndarray:
        orders = self.orders.reshape(-1, self.d)
        found = np.empty(orders.shape, np.int32)
        order_mcmc_kernels.indices_of_orders(orders, scores.slots, found)
        return np.concatenate([found[:, :-1].ravel(), found[:, -1]])

    def before(self, edge: np.ndarray) -> np.ndarray:
        out = np.empty((self.d, self.d))
        orders = self.orders.reshape(-1, self.d)
        order_mcmc_kernels.before_in_orders(orders, np.ascontiguousarray(edge[-len(orders) :]), out)
        return out

    @property
    def log_factors(self) -> np.ndarray:
        """(e,) log of what each edge's weight is multiplied by: that of its path, at its last edge."""
        out = np.zeros(self.n_edges)
        out[-self.log_starts.size :] = self.log_starts
        return out

    def parts(self) -> "list[OrderPaths]":
        """Stretches of the chains, each as the sample of a posterior."""
        found = []
        n_chains, n_draws, _ = self.orders.shape
        starts = self.log_starts.reshape(n_chains, n_draws) + np.log(n_chains * n_draws)
        for chain in range(n_chains):
            for part in np.array_split(np.arange(n_draws), min(PARTS, n_draws)):
                own = self.orders[chain : chain + 1, part]
                found.append(self.of(own, -starts[chain, part], (self.r_hat, self.size)))
        return found

    def __repr__(self) -> str:
        n_chains, n_draws, _ = self.orders.shape
        return f"OrderPaths({n_chains} chains of {n_draws:,} orders of {self.d} variables)"
