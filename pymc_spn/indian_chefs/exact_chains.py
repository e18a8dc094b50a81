"""Chains over linear Gaussian and sigmoid belief networks: sweeps, and their state in canonical order."""

import math
from typing import Any

import numpy as np

from pymc_spn.indian_chefs import exact_kernels as kernels
from pymc_spn.indian_chefs.activation_kernels import BeliefNetwork
from pymc_spn.indian_chefs.belief_network_schema import LINEAR, SIGMOID
from pymc_spn.indian_chefs.collapsed_moves import draw_collapsed_edges, graph_move_work
from pymc_spn.indian_chefs.graph_state import GraphState, delete_node, insert_node
from pymc_spn.indian_chefs.network_draws import draw_nodes, draw_parameters
from pymc_spn.indian_chefs.network_rows import OneNetwork, log_means
from pymc_spn.indian_chefs.orphan_moves import propose_orphan, propose_orphan_death
from pymc_spn.indian_chefs.packed_graphs import canonical_slots
from pymc_spn.indian_chefs.regression_kernels import (
    NetworkPrior,
    draw_node_parameters,
    draw_precision,
    fill_gram,
)
from pymc_spn.indian_chefs.sweeps import draw_reputations, random_order


class _ExactChain:
    """What both kinds share.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the parameters and hidden values of the start from their prior given the graph.
    data : (N, D) float64
    state : GraphState
        The graph, changed in place from here on.
    prior : NetworkPrior
    births : int
        Births or deaths in a sweep.
    """

    kind = ""

    def __init__(
        self, rng: np.random.Generator, data: np.ndarray, state: GraphState, prior: NetworkPrior, births: int
    ) -> None:
        k, n, d = state.order.size, int(state.count[0]), data.shape[1]
        self.state, self.prior, self.births, self.n_observed = state, prior, births, d
        self.weights, self.biases, self.precisions = np.zeros((k, k)), np.zeros(k), np.ones(k)
        self.values, self.means = np.zeros((k, len(data))), np.zeros((k, len(data)))
        drawn = draw_parameters(rng, self.kind, prior, state.parents[:n, :n].astype(bool))
        # a start with values beyond all data would leave nothing of the digits of their children
        drawn = *drawn[:2], np.maximum(drawn[2], 1e-2)
        self.weights[:n, :n], self.biases[:n], self.precisions[:n] = drawn
        order = np.argsort(-state.reputations[:n], kind="stable")
        self.values[:n] = draw_nodes(rng, self.kind, order, *drawn, len(data))
        self.scratch, self.newborn = np.zeros((4, len(data))), np.zeros(k)
        self.children = np.zeros(k, np.uint8)
        self.tally = np.zeros(4, np.int64)  # births or deaths tried, accepted; births tried, refused
        self.accepted_births = 0
        self.set_data(data)

    def set_data(self, data: np.ndarray) -> None:
        """Other values of the observed nodes, (N, D)."""
        self.values[: self.n_observed] = data.T
        self.refresh()

    def refresh(self) -> None:
        """Means (or logits) of all nodes from scratch."""
        n = int(self.state.count[0])
        kernels.fill_means(n, self.state.parents, self.weights, self.biases, self.values, self.means)

    def _birth_or_death(self, rng, graph_prior):
        state, n = self.state, int(self.state.count[0])
        is_birth = rng.random() < 0.5
        self.tally[0] += 1
        if is_birth:
            self.tally[2] += 1
            self.tally[3] += n == state.order.size
            theta, log_ratio = propose_orphan(rng, state, graph_prior, self.children)
            if log_ratio == -math.inf:
                return
            bias = rng.normal(0.0, self.prior.bias_precision**-0.5)
            rho = 1.0 if self.kind == SIGMOID else draw_precision(rng, 0.0, 0.0, self.prior)
            weights = np.zeros(len(self.newborn))
            drawn = rng.normal(0.0, self.prior.weight_precision**-0.5, n)
            weights[:n] = np.where(self.children[:n] == 1, drawn, 0.0)
            log_ratio += self._gain(rng, n, bias, rho, weights, self.values, self.means, True)
            if log_ratio > -rng.standard_exponential():
                insert_node(state, theta, self.children)
                self.biases[n], self.precisions[n], self.values[n] = bias, rho, self.scratch[1]
                self.weights[:, n] = 0.0
                self.weights[n] = weights
                self.refresh()
                self.tally[1] += 1
                self.accepted_births += 1
            return
        unit, log_ratio = propose_orphan_death(rng, state, graph_prior)
        if unit < 0:
            return
        weights = self.weights[unit].copy()
        # the network without the unit: no child hears of it, and its own values are no datum
        means = self.means - weights[:, None] * self.values[unit]
        log_ratio -= self._gain(rng, n, self.biases[unit], self.precisions[unit], weights, self.values, means, False)
        if log_ratio > -rng.standard_exponential():
            delete_node(state, unit)
            kernels.move_last_slot(n, unit, self.weights, self.biases, self.precisions, self.values)
            self.refresh()
            self.tally[1] += 1

    def _gain(self, rng, n, bias, rho, weights, values, means, is_draw):
        raise NotImplementedError

    # ---- what a step reads

    def set_heat(self, power: float) -> None:
        """Only 1: nothing is tempered."""

    def counts(self) -> np.ndarray:
        """Copy of the tally, for `rates_since`."""
        return np.append(self.tally, self.accepted_births)

    def rates_since(self, before: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
        """Accepted share of births and deaths, and births tried, accepted and refused as row 0 of (5, 3)."""
        tried, accepted, births, refused, accepted_births = self.counts() - before
        table = np.zeros((5, 3), np.int64)
        table[0] = births, accepted_births, refused
        return {"births": float(accepted / max(tried, 1))}, table

    def parameters(self) -> dict[str, np.ndarray]:
        """Weights, biases and precisions in canonical order, without padding."""
        order = canonical_slots(self.state)
        both = np.ix_(order, order)
        return {
            "weights": self.weights[both] * self.state.parents[both],
            "biases": self.biases[order],
            "precisions": self.precisions[order],
        }


class LinearChain(_ExactChain):
    """Linear Gaussian network: collapsed edges, conjugate parameters, exact draws of hidden values and births."""

    kind = LINEAR

    def __init__(self, rng, data, state, prior, births):
        super().__init__(rng, data, state, prior, births)
        k = state.order.size
        self.work = graph_move_work(k, len(data))
        self.heat = np.ones(k)
        # regressors are the values themselves
        self.network = BeliefNetwork(
            state.parents, self.weights, self.biases, self.precisions, self.values, self.values, self.means
        )

    def sweep(self, rng: np.random.Generator, graph_prior: Any) -> None:
        """One sweep, exact for the joint posterior."""
        state = self.state
        n = int(state.count[0])
        fill_gram(self.work.gram, n, self.values, self.values, self.heat)
        draw_collapsed_edges(rng, state, graph_prior, self.network, self.heat, self.prior, self.work)
        for i in range(n):
            draw_node_parameters(
                rng,
                self.work.gram,
                n,
                i,
                state.parents,
                self.weights,
                self.biases,
                self.precisions,
                self.heat,
                self.prior,
                self.work.regression,
            )
        self.refresh()
        for _ in range(self.births):
            self._birth_or_death(rng, graph_prior)
        n = int(state.count[0])
        for node in self.n_observed + random_order(rng, n - self.n_observed):  # not by slots, see `random_order`
            kernels.redraw_linear_node(
                rng, n, node, self.weights, self.precisions, self.values, self.means, self.scratch[0]
            )
        draw_reputations(rng, self.state, graph_prior)

    def _gain(self, rng, n, bias, rho, weights, values, means, is_draw):
        return kernels.linear_birth_gain(
            rng, n, bias, rho, weights, self.precisions, values, means, self.scratch[0], self.scratch[1], is_draw
        )

    def log_data(self, rng: np.random.Generator) -> float:
        """Log density of the observed values given graph and parameters, in nats; exact."""
        found = self.parameters()
        network = OneNetwork(LINEAR, found["weights"], found["biases"], found["precisions"])
        return float(log_means(rng, network, self.values[: self.n_observed].T, None, 1).every.sum())

    def log_network(self) -> float:
        """Log density of parameters, hidden values and data given the graph, in nats."""
        n = int(self.state.count[0])
        arrays = self.weights, self.biases, self.precisions, self.values, self.means
        return float(kernels.linear_log_joint(n, self.state.parents, *arrays, self.prior))


class SigmoidChain(_ExactChain):
    """Sigmoid network: two-point conditionals, births with the node summed out, elliptical slices of weights."""

    kind = SIGMOID

    def sweep(self, rng: np.random.Generator, graph_prior: Any) -> None:
        """One sweep, exact for the joint posterior."""
        state, n = self.state, int(self.state.count[0])
        sds = self.prior.weight_precision**-0.5, self.prior.bias_precision**-0.5
        self.precisions[:] = 1.0
        kernels.draw_sigmoid_edges(
            rng, state, graph_prior, self.weights, self.values, self.means, sds[0], self.scratch[0]
        )
        trial = np.zeros((2, n + 1))
        for node in range(n):
            kernels.slice_sigmoid_weights(
                rng,
                n,
                node,
                state.parents,
                self.weights,
                self.biases,
                self.values,
                self.means,
                *sds,
                self.scratch[2:],
                trial,
            )
        self.refresh()
        for _ in range(self.births):
            self._birth_or_death(rng, graph_prior)
        n = int(state.count[0])
        for node in self.n_observed + random_order(rng, n - self.n_observed):  # not by slots, see `random_order`
            kernels.redraw_sigmoid_node(
                rng, n, node, state.parents, self.weights, self.values, self.means, self.scratch[0]
            )
        draw_reputations(rng, self.state, graph_prior)

    def _gain(self, rng, n, bias, rho, weights, values, means, is_draw):
        return kernels.sigmoid_birth_gain(rng, n, bias, weights, values, means, self.scratch[1], is_draw)

    def log_network(self) -> float:
        """Log probability of parameters, hidden values and data given the graph, in nats."""
        n = int(self.state.count[0])
        arrays = self.weights, self.biases, self.values, self.means
        return float(kernels.sigmoid_log_joint(n, self.state.parents, *arrays, self.prior))
