"""Joint chains over graph, network and data: forward draws, and sweeps that alternate with new data (Geweke 2004)."""

import math
from functools import cache

import arviz as az
import numpy as np
from numba import njit

from pymc_spn.indian_chefs.activation_kernels import fill_residuals
from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_sweep import accept_or_undo_in_network, propose_in_network
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior, fill_gram
from tests.indian_chefs.prior_chains import z_of_changes

STATISTICS = (
    "n_nodes",
    "n_edges",
    "orphans",
    "max_children",
    "sum_theta",
    "bias_0",
    "bias_0_squared",
    "log_precision_0",
    "weights_squared",
    "hidden_output",
    "hidden_output_squared",
    "log_hidden_precision",
    "data_residual",
)


@njit(cache=True)
def draw_network(rng, state, graph_prior, network, prior, children, gammas):
    """Graph, parameters, activations and data from the prior; False if the graph has no room."""
    if not draw_graph(rng, state, graph_prior, children):
        return False
    n = state.count[0]
    for i in range(n):
        network.biases[i] = rng.standard_normal() / math.sqrt(prior.bias_precision)
        network.precisions[i] = gammas[int(rng.random() * gammas.size)]
        for k in range(n):
            network.weights[k, i] = 0.0
            if state.parents[k, i]:
                network.weights[k, i] = rng.standard_normal() / math.sqrt(prior.weight_precision)
    draw_activations(rng, state, network, 0)
    return True


@njit(cache=True)
def draw_activations(rng, state, network, only_observed):
    """Activations of all nodes given graph and parameters, or of observed nodes alone (which then have no children)."""
    n, n_observed = state.count[0], state.fixed.size
    for place in range(n - 1, -1, -1):
        i = state.order[place]
        if only_observed and i >= n_observed:
            continue
        for j in range(network.activations.shape[1]):
            mean = network.biases[i]
            for k in range(n):
                if state.parents[k, i]:
                    mean += network.weights[k, i] * network.outputs[k, j]
            a = mean + rng.standard_normal() / math.sqrt(network.precisions[i])
            network.activations[i, j] = a
            network.outputs[i, j] = 1.0 / (1.0 + math.exp(-min(max(a, -700.0), 700.0)))
    fill_residuals(n, network)


@njit(cache=True)
def measure(state, network, out):
    n, n_observed = state.count[0], state.fixed.size
    edges = orphans = top = 0
    theta = squares = u = uu = rho = 0.0
    for k in range(n):
        edges += state.n_children[k]
        top = max(top, state.n_children[k])
        if k >= n_observed:
            orphans += state.n_parents[k] == 0
            theta += state.reputations[k]
            u += network.outputs[k, 0]
            uu += network.outputs[k, 0] * network.outputs[k, 1]
            rho += math.tanh(0.3 * math.log(network.precisions[k]))
        for i in range(n):
            if state.parents[k, i]:
                squares += network.weights[k, i] ** 2 - 1.0
    out[0], out[1], out[2], out[3], out[4] = n, edges, orphans, top, theta
    out[5] = network.biases[0]
    out[6] = network.biases[0] ** 2
    out[7] = math.tanh(0.3 * math.log(network.precisions[0]))
    out[8] = squares
    out[9], out[10], out[11] = u, uu, rho
    out[12] = math.tanh(network.activations[0, 0]) * math.tanh(network.activations[1, 0])


@njit(cache=True)
def forward_chain(rng, state, graph_prior, network, prior, children, gammas, out):
    """Independent draws; graphs without room are drawn again."""
    for t in range(out.shape[0]):
        while not draw_network(rng, state, graph_prior, network, prior, children, gammas):
            pass
        measure(state, network, out[t])


@njit(cache=True)
def around_moves(rng, move, steps, is_halved, state, graph_prior, network, prior, work, tally, gammas, out):
    """Statistics (n, 2, 13) of independent draws before and after so many moves of the graph, weights summed out."""
    for row in out:
        while not draw_network(rng, state, graph_prior, network, prior, work.graph.children, gammas):
            pass
        measure(state, network, row[0])
        fill_gram(work.gram, state.count[0], network.activations, network.outputs, work.heat)
        for _ in range(steps):
            log_ratio, unit, line = propose_in_network(rng, move, state, graph_prior, network, prior, work, tally)
            if is_halved:
                log_ratio *= 0.5
            accept_or_undo_in_network(rng, log_ratio, unit, line, state, network, work, tally)
        measure(state, network, row[1])


GAMMAS = np.random.default_rng(9).gamma(0.5, 2.0, 200_000)
GRAPH_PRIOR = make_prior(1.0, 1.0, 1.0)


def empty_chain(*settings):
    """Over four rows of two observed nodes at reputation 0, with room for 24."""
    return NetworkChain(np.zeros((4, 2)), np.zeros(2), np.ones(2, bool), 24, None, *settings)


def z_of_move(move, is_halved=False, n=8_000):
    """z of the mean changes of what a move of the graph leaves current; halved log ratios are a planted mistake."""
    c, out = empty_chain(), np.zeros((n, 2, len(STATISTICS)))
    parts = c.state, GRAPH_PRIOR, c.network, NetworkPrior(), c.work, c.tally, GAMMAS, out
    around_moves(np.random.default_rng(1), move, 4, is_halved, *parts)
    kept = [s for s, name in enumerate(STATISTICS) if name not in ("bias_0", "bias_0_squared", "weights_squared")]
    return z_of_changes(out[..., kept])


@cache
def forward_draws(n, seed):
    """Statistics (n, 13) of independent draws; chains with and without a mistake are held against the same."""
    c, forward = empty_chain(), np.zeros((n, len(STATISTICS)))
    parts = c.state, GRAPH_PRIOR, c.network, NetworkPrior(), np.zeros(24, np.uint8), GAMMAS
    forward_chain(np.random.default_rng(seed), *parts, forward)
    return forward


def z_of_sweeps(make_chain, n_sweeps, seed, spoil=None, graph_prior=GRAPH_PRIOR):
    """z-scores of chains of a `NetworkChain` against forward draws; observed cells are redrawn after each sweep.

    Parameters
    ----------
    make_chain : callable
        As `empty_chain`.
    spoil : callable, optional
        What plants a mistake in a chain.
    graph_prior : GraphPrior, optional
        Of the sweeps, where it is not that of the forward draws.
    """
    children = np.zeros(24, np.uint8)
    draws = np.zeros((4, n_sweeps, len(STATISTICS)))
    for s in range(4):
        c, rng = make_chain(), np.random.default_rng((seed, s))
        if spoil is not None:
            spoil(c)
        draw_network(rng, c.state, GRAPH_PRIOR, c.network, NetworkPrior(), children, GAMMAS)
        for t in range(n_sweeps):
            c.sweep(rng, graph_prior)
            measure(c.state, c.network, draws[s, t])
            held = c.network.activations[:2].copy()
            draw_activations(rng, c.state, c.network, 1)
            c.set_data(np.where(c.is_gap, held.T, c.network.activations[:2].T))
    return z_scores(forward_draws(60_000, seed), draws)


def z_scores(forward, chains):
    """Differences of means in standard errors, and the effective sizes of the chains' statistics; 1 if constant."""
    varies = chains.std((0, 1)) > 0
    data = az.from_dict({"posterior": {f"s{s}": chains[..., s] for s in np.flatnonzero(varies)}})
    sizes = az.ess(data, method="mean")
    ess = np.array([float(sizes[f"s{s}"]) if v else 1.0 for s, v in enumerate(varies)])
    variance = forward.var(0) / len(forward) + chains.var((0, 1)) / ess
    return (chains.mean((0, 1)) - forward.mean(0)) / np.sqrt(np.where(varies, variance, 1.0)), ess


def residual_error(chain):
    """Largest difference of the residuals that a chain keeps from newly computed ones."""
    net, n = chain.network, chain.n_nodes
    fresh = net._replace(residuals=np.zeros_like(net.residuals))
    fill_residuals(n, fresh)
    return float(np.abs(fresh.residuals[:n] - net.residuals[:n]).max())
