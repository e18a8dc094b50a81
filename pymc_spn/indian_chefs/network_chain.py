"""One chain over a nonlinear Gaussian belief network: starts, sweeps, and its state in canonical order."""

from typing import Any

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import fill_residuals
from pymc_spn.indian_chefs.graph_state import new_state, refresh
from pymc_spn.indian_chefs.network import empty_network
from pymc_spn.indian_chefs.network_sweep import (
    SweepPlan,
    network_log_joint,
    new_tally,
    pass_of_exchanges,
    refresh_network,
    sweep,
    sweep_work,
)
from pymc_spn.indian_chefs.pool_kernels import empty_pool
from pymc_spn.indian_chefs.prior_density import log_density
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.warm_up import LayeredStart


class NetworkChain:
    """Graph, parameters and hidden activations of one chain.

    Parameters
    ----------
    data : (N, D) float64
        Activations (logits) of the observed nodes.
    reputations : (D,) float64
        Of the observed nodes.
    fixed : (D,) bool
        Whether they stay.
    max_nodes : int
    prior : NetworkPrior, optional
    plan : SweepPlan, optional
    n_strata, n_pool : int
        Candidates of an activation; draws of a pool.
    """

    def __init__(
        self,
        data: np.ndarray,
        reputations: np.ndarray,
        fixed: np.ndarray,
        max_nodes: int,
        prior: NetworkPrior | None = None,
        plan: SweepPlan | None = None,
        n_strata: int = 16,
        n_pool: int = 1000,
    ):
        n, d = data.shape
        self.prior, self.plan = prior or NetworkPrior(), plan or SweepPlan()
        self.max_nodes, self.n_observed = max_nodes, d
        self.state = new_state(np.asarray(reputations, np.float64), np.asarray(fixed, bool), max_nodes)
        self.network = empty_network(self.state.parents, n)
        self.work = sweep_work(max_nodes, d, n, n_strata, n_pool)
        self.tally = new_tally()
        self.sweeps = 0
        self.set_data(data)

    def set_data(self, data: np.ndarray) -> None:
        """Other activations of the observed nodes, (N, D)."""
        d = self.n_observed
        self.network.activations[:d] = data.T
        self.network.outputs[:d] = 1.0 / (1.0 + np.exp(-data.T))
        refresh_network(self.state, self.network)

    def start_empty(self) -> None:
        """Observed nodes without parents, at the mean and variance of their data."""
        a = self.network.activations[: self.n_observed]
        self._put_graph(np.zeros((self.n_observed,) * 2, np.uint8), self.state.reputations[: self.n_observed].copy())
        self.network.biases[: self.n_observed] = a.mean(1)
        self.network.precisions[: self.n_observed] = 1.0 / np.maximum(a.var(1), 1e-3)
        refresh_network(self.state, self.network)

    def start_from(self, rng: np.random.Generator, start: LayeredStart, n_pool: int = 20_000) -> None:
        """Take over a start; hidden activations are drawn by one exchange with a large pool."""
        n, d = len(start.parents), self.n_observed
        if n > self.max_nodes:
            raise ValueError(f"max_nodes must be at least the start's {n} nodes, got {self.max_nodes}")
        self._put_graph(start.parents, start.reputations)
        net = self.network
        net.weights[:n, :n], net.biases[:n], net.precisions[:n] = start.weights, start.biases, start.precisions
        net.activations[d:n] = 0.0
        net.outputs[d:n] = 0.5
        refresh_network(self.state, net)
        for size in (n_pool, n_pool):  # the second pass starts from likely values
            pool = empty_pool(self.max_nodes, d, size)
            pass_of_exchanges(rng, self.state, net, pool, self.work)

    def _put_graph(self, parents, reputations):
        n = len(parents)
        self.state.parents[:] = 0
        self.state.parents[:n, :n] = parents
        self.state.reputations[:n] = reputations
        self.state.count[0] = n
        refresh(self.state)
        self.network.weights[:] = 0.0

    def sweep(self, rng: np.random.Generator, graph_prior: Any, plan: SweepPlan | None = None) -> None:
        """One sweep."""
        sweep(
            rng,
            self.state,
            graph_prior,
            self.network,
            self.prior,
            plan or self.plan,
            self.sweeps,
            self.work,
            self.tally,
        )
        self.sweeps += 1

    @property
    def n_nodes(self) -> int:
        """K+, observed nodes included."""
        return int(self.state.count[0])

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.state.parents[: self.n_nodes, : self.n_nodes].sum())

    def log_joint(self, graph_prior: Any) -> float:
        """Log density of graph, parameters, hidden activations and data (as activations), in nats."""
        return float(log_density(self.state, graph_prior)) + float(
            network_log_joint(self.state, self.network, self.prior)
        )

    def canonical_order(self) -> np.ndarray:
        """(n,) slots: observed nodes as given, then hidden ones by ascending reputation."""
        hidden = np.arange(self.n_observed, self.n_nodes)
        ranked = hidden[np.argsort(self.state.reputations[hidden], kind="stable")]
        return np.concatenate([np.arange(self.n_observed), ranked])

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of parents, reputations, weights, biases and precisions in canonical order, without padding."""
        order = self.canonical_order()
        both = np.ix_(order, order)
        net = self.network
        return {
            "parents": net.parents[both].copy(),
            "reputations": self.state.reputations[order].copy(),
            "weights": net.weights[both] * net.parents[both],
            "biases": net.biases[order].copy(),
            "precisions": net.precisions[order].copy(),
        }

    def residual_error(self) -> float:
        """Largest difference of the residuals that are kept from those computed anew."""
        net, n = self.network, self.n_nodes
        fresh = np.zeros_like(net.residuals)
        fill_residuals(n, net.parents, net.weights, net.biases, net.activations, net.outputs, fresh)
        return float(np.abs(fresh[:n] - net.residuals[:n]).max())
