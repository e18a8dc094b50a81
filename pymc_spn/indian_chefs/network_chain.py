"""Chains over belief networks: starts, sweeps, and their state in canonical order."""

from typing import Any

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import (
    BeliefNetwork,
    activation_work,
    empty_network,
    fill_residuals,
    redraw_unit,
    walk_unit,
)
from pymc_spn.indian_chefs.belief_network_schema import LINEAR, NONLINEAR, SIGMOID
from pymc_spn.indian_chefs.graph_moves import MOVE_NAMES, counts_of_moves
from pymc_spn.indian_chefs.graph_state import GraphState, new_state, put_graph
from pymc_spn.indian_chefs.network_draws import draw_parameters, expit, fill_nodes
from pymc_spn.indian_chefs.network_rows import OneNetwork, log_means
from pymc_spn.indian_chefs.network_sweep import (
    EXCHANGED,
    REDRAWN,
    SweepPlan,
    exact_sweep,
    network_log_joint,
    network_tally,
    nonlinear_sweep,
    pass_of_exchanges,
    pooled_log_density,
    sweep_plan,
    sweep_work,
)
from pymc_spn.indian_chefs.packed_graphs import canonical_slots
from pymc_spn.indian_chefs.pool_kernels import empty_pool
from pymc_spn.indian_chefs.prior_density import GraphPrior, log_density
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.warm_up import LayeredStart


def filled_at_random(rng: np.random.Generator, data: np.ndarray) -> np.ndarray:
    """A copy of a table (N, D) whose gaps hold other values of their column: where a chain starts."""
    out = data.copy()
    for column in out.T:
        gaps = np.isnan(column)
        if gaps.any():
            column[gaps] = rng.choice(column[~gaps], gaps.sum())
    return out


class Gaps:
    """The missing cells of one chain's table.

    Parameters
    ----------
    is_gap : (N, D) bool
    n_strata : int
        Candidates of a cell whose node has children.
    """

    def __init__(self, is_gap: np.ndarray, n_strata: int) -> None:
        self.is_gap = is_gap
        self.rows = {d: np.flatnonzero(gaps) for d, gaps in enumerate(is_gap.T) if gaps.any()}
        self.work = {d: activation_work(len(rows), n_strata) for d, rows in self.rows.items()}

    def redraw(self, rng: np.random.Generator, n_nodes: int, network: BeliefNetwork, heat: np.ndarray) -> None:
        """Draw all missing cells given everything else.

        A cell of a node without children has the normal distribution of its node, an exact draw. With children it gets
        the resampling and the random walk of hidden units, in the rows that lack it.

        Parameters
        ----------
        rng : Generator
        n_nodes : int
        network : BeliefNetwork
            In and out; residuals current.
        heat : (K,) float64
            Powers of the nodes' likelihoods, by which cells count too.
        """
        for d, rows in self.rows.items():
            rho = heat[d] * network.precisions[d]
            if network.parents[d, :n_nodes].any():
                # a network of these rows alone, in which the node is as hidden as others
                parts = [np.ascontiguousarray(part[:, rows]) for part in network[4:]]
                precisions = network.precisions.copy()
                precisions[d] = rho
                some = BeliefNetwork(*network[:3], precisions, *parts)
                redraw_unit(rng, d, n_nodes, some, heat, self.work[d])
                walk_unit(rng, d, n_nodes, some, heat, self.work[d])
                for whole, part in zip(network[4:], some[4:], strict=True):
                    whole[:, rows] = part
                continue
            noise = rng.standard_normal(len(rows)) / np.sqrt(rho)
            a = network.activations[d, rows] - network.residuals[d, rows] + noise
            network.activations[d, rows], network.residuals[d, rows] = a, noise
            network.outputs[d, rows] = expit(a)


class BeliefNetworkChain:
    """Graph, parameters and hidden values of one chain; what all kinds of network share.

    Parameters
    ----------
    data : (N, D) float64
        Values of the observed nodes: activations (logits) in a nonlinear network.
    state : GraphState
        The graph, changed in place from here on.
    prior : NetworkPrior
    n_strata, n_pool : int
        Candidates of an activation; draws of a pool.
    """

    kind = ""

    def __init__(
        self, data: np.ndarray, state: GraphState, prior: NetworkPrior, n_strata: int = 1, n_pool: int = 1
    ) -> None:
        self.state, self.prior, self.n_observed = state, prior, data.shape[1]
        self.network = empty_network(state.parents, len(data), self.kind == LINEAR)
        self.work = sweep_work(state, len(data), n_strata, n_pool)
        self.tally = network_tally()
        self.set_data(data)

    def set_data(self, data: np.ndarray) -> None:
        """Other values of the observed nodes, (N, D)."""
        d, net = self.n_observed, self.network
        self.data = np.array(data, np.float64)
        if self.kind != SIGMOID:
            net.activations[:d] = data.T
        net.outputs[:d] = expit(data.T) if self.kind == NONLINEAR else data.T
        fill_residuals(self.n_nodes, net)

    def draw_start(self, rng: np.random.Generator) -> None:
        """Parameters and hidden values from their prior given the graph."""
        n, net = self.n_nodes, self.network
        drawn = draw_parameters(rng, self.kind, self.prior, self.state.parents[:n, :n].astype(bool))
        net.weights[:] = 0.0
        net.weights[:n, :n], net.biases[:n] = drawn[:2]
        # a start with values beyond all data would leave nothing of the digits of their children
        net.precisions[:n] = np.maximum(drawn[2], 1e-2)
        order = np.argsort(-self.state.reputations[:n], kind="stable")
        hidden, numbers = order[order >= self.n_observed], (net.weights[:n], net.biases, net.precisions)
        fill_nodes(rng, self.kind, hidden, *numbers, net.activations, net.outputs[:n])
        fill_residuals(n, net)

    def put_graph(self, parents: np.ndarray, reputations: np.ndarray) -> None:
        """Take over a graph, without weights."""
        put_graph(self.state, parents, reputations)
        self.network.weights[:] = 0.0

    def set_heat(self, power: float) -> None:
        """Power of the likelihood of the observed nodes; 1 for the posterior."""
        self.work.heat[: self.n_observed] = power

    def counts(self) -> np.ndarray:
        """Copy of the tally, for `rates_since`."""
        return self.tally.copy()

    def rates_since(self, before: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
        """Accepted shares of each move since then, and the tally since then."""
        tally = self.tally - before
        moves = counts_of_moves(tally)
        share = (moves[:, 1] / np.maximum(moves[:, 0], 1)).tolist()
        rates = dict(zip(MOVE_NAMES, share, strict=True)) | {"heat": float(self.work.heat[0])}
        for name, row in (("moved", REDRAWN), ("exchanged", EXCHANGED)):
            rates[name] = float(tally[row, 1] / max(tally[row, 0], 1))
        return rates, tally

    def log_network(self) -> float:
        """Log density of parameters, hidden values and data (as activations) given the graph, in nats."""
        return float(network_log_joint(self.state, self.kind == SIGMOID, self.network, self.prior))

    def log_joint(self, graph_prior: GraphPrior) -> float:
        """Log density of graph, parameters, hidden values and data (as activations), in nats."""
        return float(log_density(self.state, graph_prior)) + self.log_network()

    @property
    def n_nodes(self) -> int:
        """K+, observed nodes included."""
        return int(self.state.count[0])

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of parents, reputations, weights, biases and precisions in canonical order, without padding."""
        order = canonical_slots(self.state)
        both = np.ix_(order, order)
        net = self.network
        return {
            "parents": net.parents[both],
            "reputations": self.state.reputations[order],
            "weights": net.weights[both] * net.parents[both],
            "biases": net.biases[order],
            "precisions": net.precisions[order],
        }


class NetworkChain(BeliefNetworkChain):
    """Nonlinear Gaussian network.

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
    """

    kind = NONLINEAR

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
    ):
        state = new_state(np.asarray(reputations, np.float64), np.asarray(fixed, bool), max_nodes)
        super().__init__(data, state, prior or NetworkPrior(), n_strata, n_pool)
        self.plan, self.sweeps = plan or sweep_plan(), 0
        self.is_gap = np.zeros(data.shape, bool) if is_gap is None else is_gap
        self.gaps = Gaps(self.is_gap, n_strata) if self.is_gap.any() else None

    def start_at(self, rng: np.random.Generator, graph: GraphState) -> None:
        """Take over a graph; parameters and hidden units are drawn from their prior, observed nodes suit their data."""
        n, d, net = int(graph.count[0]), self.n_observed, self.network
        self.put_graph(graph.parents[:n, :n], graph.reputations[:n])
        self.draw_start(rng)
        net.biases[:d] = self.data.mean(0) - (net.weights[:n, :d].T @ net.outputs[:n]).mean(1)
        net.precisions[:d] = 1.0 / np.maximum(self.data.var(0), 1e-3)
        fill_residuals(n, net)

    def start_from(self, rng: np.random.Generator, start: LayeredStart, n_pool: int = 20_000) -> None:
        """Take over a start; hidden activations are drawn by one exchange with a large pool."""
        n, d = len(start.parents), self.n_observed
        room = self.state.order.size
        if n > room:
            raise ValueError(f"max_nodes must be at least the start's {n} nodes, got {room}")
        self.put_graph(start.parents, start.reputations)
        net = self.network
        net.weights[:n, :n], net.biases[:n], net.precisions[:n] = start.weights, start.biases, start.precisions
        net.activations[d:n] = 0.0
        net.outputs[d:n] = 0.5
        fill_residuals(n, net)
        for _ in range(2):  # the second pass starts from likely values
            pass_of_exchanges(rng, self.state, net, empty_pool(room, d, n_pool), self.work)

    def sweep(self, rng: np.random.Generator, graph_prior: GraphPrior) -> None:
        """One sweep."""
        shared = self.network, self.prior, self.plan, self.sweeps, self.work, self.tally
        nonlinear_sweep(rng, self.state, graph_prior, *shared)
        if self.gaps is not None:
            self.gaps.redraw(rng, self.n_nodes, self.network, self.work.heat)
        self.sweeps += 1

    def log_data(self, rng: np.random.Generator) -> float:
        """Log density of the observed activations given graph and parameters, by a pool; NaN where it has none."""
        return float(pooled_log_density(rng, self.state, self.network, self.is_gap, self.work))


class LinearChain(BeliefNetworkChain):
    """Linear Gaussian network: hidden values are drawn exactly, and integrated out of births and deaths.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the parameters and hidden values of the start.
    data, state, prior
        As of `BeliefNetworkChain`.
    births : int
        Births or deaths in a sweep.
    """

    kind = LINEAR

    def __init__(
        self, rng: np.random.Generator, data: np.ndarray, state: GraphState, prior: NetworkPrior, births: int
    ) -> None:
        super().__init__(data, state, prior)
        self.births = births
        self.draw_start(rng)

    def sweep(self, rng: np.random.Generator, graph_prior: GraphPrior) -> None:
        """One sweep."""
        shared = self.network, self.prior, self.births, self.work, self.tally
        exact_sweep(rng, self.kind == LINEAR, self.state, graph_prior, *shared)

    def log_data(self, rng: np.random.Generator) -> float:
        """Log density of the observed values given graph and parameters, in nats; exact."""
        found: Any = self.parameters()
        network = OneNetwork(LINEAR, found["weights"], found["biases"], found["precisions"])
        return float(log_means(rng, network, self.network.outputs[: self.n_observed].T, None, 1).every.sum())


class SigmoidChain(LinearChain):
    """Sigmoid network: two-point conditionals, births with the node summed out, elliptical slices of weights."""

    kind = SIGMOID
