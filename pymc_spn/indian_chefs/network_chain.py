"""One chain over a nonlinear Gaussian belief network: starts, sweeps, and its state in canonical order."""

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import empty_network
from pymc_spn.indian_chefs.graph_state import GraphState, new_state, refresh
from pymc_spn.indian_chefs.network_gaps import Gaps
from pymc_spn.indian_chefs.network_sweep import (
    GROWTH,
    REFUSED,
    TALLY_NAMES,
    SweepPlan,
    network_log_joint,
    new_tally,
    pass_of_exchanges,
    pooled_log_density,
    published_network_sweep,
    refresh_network,
    sweep,
    sweep_work,
)
from pymc_spn.indian_chefs.packed_graphs import canonical_slots
from pymc_spn.indian_chefs.pool_kernels import empty_pool
from pymc_spn.indian_chefs.prior_density import GraphPrior, log_density
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.warm_up import LayeredStart


class NetworkChain:
    """Graph, parameters and hidden activations of one chain.

    Parameters
    ----------
    data : (N, D) float64
        Activations (logits) of the observed nodes, any number in gaps.
    reputations : (D,) float64
        Of the observed nodes.
    fixed : (D,) bool
        Whether they stay.
    max_nodes : int
    prior : NetworkPrior, optional
    plan : SweepPlan, optional
    n_strata, n_pool : int
        Candidates of an activation; draws of a pool.
    is_gap : (N, D) bool, optional
        Cells of `data` that are missing, which sweeps draw.
    published : int
        Where positive, sweeps make the published moves of the graph, each so many times.
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
        is_gap: np.ndarray | None = None,
        published: int = 0,
    ):
        n, d = data.shape
        self.prior, self.plan = prior or NetworkPrior(), plan or SweepPlan()
        self.max_nodes, self.n_observed = max_nodes, d
        self.state = new_state(np.asarray(reputations, np.float64), np.asarray(fixed, bool), max_nodes)
        self.network = empty_network(self.state.parents, n)
        self.work = sweep_work(max_nodes, d, n, n_strata, n_pool)
        self.tally = new_tally()
        self.is_gap = np.zeros((n, d), bool) if is_gap is None else is_gap
        self.gaps = Gaps(self.is_gap, n_strata) if self.is_gap.any() else None
        self.sweeps, self.published = 0, published
        self.set_data(data)

    def set_data(self, data: np.ndarray) -> None:
        """Other activations of the observed nodes, (N, D)."""
        d = self.n_observed
        self.data = np.array(data, np.float64)
        self.network.activations[:d] = data.T
        self.network.outputs[:d] = 1.0 / (1.0 + np.exp(-np.clip(data.T, -700.0, 700.0)))
        refresh_network(self.state, self.network)

    def start_at(self, rng: np.random.Generator, graph: GraphState) -> None:
        """Take over a graph; parameters and hidden units are drawn from their prior, observed nodes suit their data."""
        n, d, net = int(graph.count[0]), self.n_observed, self.network
        self.put_graph(graph.parents[:n, :n], graph.reputations[:n])
        rates = self.prior.precision_rate
        net.weights[:n, :n] = graph.parents[:n, :n] * rng.normal(0.0, self.prior.weight_precision**-0.5, (n, n))
        net.biases[:n] = rng.normal(0.0, self.prior.bias_precision**-0.5, n)
        net.precisions[:n] = np.maximum(rng.gamma(self.prior.precision_shape, 1.0 / rates, n), 1e-2)
        for i in np.argsort(-graph.reputations[:n], kind="stable"):
            if i < d:
                continue
            mean = net.biases[i] + net.weights[:n, i] @ net.outputs[:n]
            net.activations[i] = mean + rng.standard_normal(len(self.data)) * net.precisions[i] ** -0.5
            net.outputs[i] = 1.0 / (1.0 + np.exp(-np.clip(net.activations[i], -700.0, 700.0)))
        net.biases[:d] = self.data.mean(0) - (net.weights[:n, :d].T @ net.outputs[:n]).mean(1)
        net.precisions[:d] = 1.0 / np.maximum(self.data.var(0), 1e-3)
        refresh_network(self.state, net)

    def start_from(self, rng: np.random.Generator, start: LayeredStart, n_pool: int = 20_000) -> None:
        """Take over a start; hidden activations are drawn by one exchange with a large pool."""
        n, d = len(start.parents), self.n_observed
        if n > self.max_nodes:
            raise ValueError(f"max_nodes must be at least the start's {n} nodes, got {self.max_nodes}")
        self.put_graph(start.parents, start.reputations)
        net = self.network
        net.weights[:n, :n], net.biases[:n], net.precisions[:n] = start.weights, start.biases, start.precisions
        net.activations[d:n] = 0.0
        net.outputs[d:n] = 0.5
        refresh_network(self.state, net)
        for size in (n_pool, n_pool):  # the second pass starts from likely values
            pool = empty_pool(self.max_nodes, d, size)
            pass_of_exchanges(rng, self.state, net, pool, self.work)

    def put_graph(self, parents, reputations):
        n = len(parents)
        self.state.parents[:] = 0
        self.state.parents[:n, :n] = parents
        self.state.reputations[:n] = reputations
        self.state.count[0] = n
        refresh(self.state)
        self.network.weights[:] = 0.0

    def sweep(self, rng: np.random.Generator, graph_prior: GraphPrior, plan: SweepPlan | None = None) -> None:
        """One sweep.

        Parameters
        ----------
        rng : Generator
        graph_prior : GraphPrior
        plan : SweepPlan, optional
        """
        shared = self.network, self.prior, plan or self.plan, self.sweeps, self.work
        if self.published:
            published_network_sweep(rng, self.state, graph_prior, *shared, self.published, self.tally)
        else:
            sweep(rng, self.state, graph_prior, *shared, self.tally)
        if self.gaps is not None:
            self.gaps.redraw(rng, self.n_nodes, self.network, self.work.heat)
        self.sweeps += 1

    def set_heat(self, power: float) -> None:
        """Power of the likelihood of the observed nodes; 1 for the posterior."""
        self.work.heat[: self.n_observed] = power

    def counts(self) -> np.ndarray:
        """Copy of the tally, for `rates_since`."""
        return self.tally.copy()

    def rates_since(self, before: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
        """Accepted shares of each move since then, and births tried, accepted and refused as row 0 of (5, 3)."""
        tally = self.tally - before
        share = dict(zip(TALLY_NAMES, (tally[:, 1] / np.maximum(tally[:, 0], 1)).tolist(), strict=True))
        births = np.zeros((5, 3), np.int64)
        births[0] = *tally[GROWTH], tally[REFUSED, 0]
        rates = {k: share[k] for k in ("exchanged", "guided", "collapsed", "split", "swap", "twins", "rooted")}
        heat = float(self.work.heat[0])
        return rates | {"moved": share["redrawn"], "prior_births": share["prior"], "heat": heat}, births

    def log_network(self) -> float:
        """Log density of parameters, hidden units and data (as activations) given the graph, in nats."""
        return float(network_log_joint(self.state, self.network, self.prior))

    def log_data(self, rng: np.random.Generator) -> float:
        """Log density of the observed activations given graph and parameters, by a pool; NaN where it has none."""
        return float(pooled_log_density(rng, self.state, self.network, self.is_gap, self.work.pool, self.work))

    @property
    def n_nodes(self) -> int:
        """K+, observed nodes included."""
        return int(self.state.count[0])

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.state.parents[: self.n_nodes, : self.n_nodes].sum())

    def log_joint(self, graph_prior: GraphPrior) -> float:
        """Log density of graph, parameters, hidden activations and data (as activations), in nats."""
        return float(log_density(self.state, graph_prior)) + self.log_network()

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of parents, reputations, weights, biases and precisions in canonical order, without padding."""
        order = canonical_slots(self.state)
        both = np.ix_(order, order)
        net = self.network
        return {
            "parents": net.parents[both].copy(),
            "reputations": self.state.reputations[order].copy(),
            "weights": net.weights[both] * net.parents[both],
            "biases": net.biases[order].copy(),
            "precisions": net.precisions[order].copy(),
        }
