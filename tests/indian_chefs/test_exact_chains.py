"""Linear Gaussian and sigmoid networks: births against brute force, and joint tests of their sweeps."""

from functools import cache

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

from pymc_spn.indian_chefs.activation_kernels import fill_residuals
from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import new_state
from pymc_spn.indian_chefs.network_chain import LinearChain, SigmoidChain
from pymc_spn.indian_chefs.network_draws import draw_nodes
from pymc_spn.indian_chefs.network_sweep import linear_gain, sigmoid_gain
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from tests.indian_chefs.joint_chains import z_scores

GRAPH_PRIOR, PRIOR, ROOM, ROWS = make_prior(1.0, 1.0, 1.0), NetworkPrior(0.8, 1.2, 1.5, 1.0), 20, 4


def new_chain(kind, rng):
    state = new_state(np.zeros(2), np.ones(2, bool), ROOM)
    while not draw_graph(rng, state, GRAPH_PRIOR, np.zeros(ROOM, np.uint8)):
        pass
    return kind(rng, np.zeros((ROWS, 2)), state, PRIOR, 10)


def new_data(chain, rng):
    """Data of the observed nodes given all else: at reputation 0 they have no children."""
    net = chain.network
    fill_residuals(chain.n_nodes, net)
    means = (net.activations[:2] - net.residuals[:2]).T
    if isinstance(chain, SigmoidChain):
        chain.set_data((rng.random((ROWS, 2)) < expit(means)).astype(float))
    else:
        chain.set_data(means + rng.standard_normal((ROWS, 2)) * net.precisions[:2] ** -0.5)


def measure(chain):
    n, net = chain.n_nodes, chain.network
    w = net.weights[:n, :n][chain.state.parents[:n, :n] == 1]
    hidden = net.outputs[2:n]
    return [
        n,
        len(w),
        (chain.state.n_parents[2:n] == 0).sum(),
        net.biases[0],
        net.biases[0] ** 2,
        (w**2 - 1.25).sum(),
        np.tanh(w).sum(),
        np.tanh(hidden[:, 0]).sum(),
        np.tanh(hidden[:, 0] * hidden[:, 1]).sum(),
        np.log(net.precisions[:n]).sum(),
        np.tanh(net.outputs[0, 0] * net.outputs[1, 0]),
        np.tanh(net.outputs[0, 0] * net.outputs[0, 1]),
    ]


@cache
def forward_draws(kind, n, seed):
    """Statistics (n, 12) of independent draws; chains with and without a planted mistake are held against the same."""
    rng = np.random.default_rng(seed)
    forward = []
    for _ in range(n):
        c = new_chain(kind, rng)
        new_data(c, rng)
        forward.append(measure(c))
    return np.array(forward, float)


def joint_z(kind, n_sweeps, seed, n_forward, graph_prior=GRAPH_PRIOR):
    forward = forward_draws(kind, n_forward, seed)
    chains = []
    for s in range(4):
        rng = np.random.default_rng((seed, s))
        c = new_chain(kind, rng)
        rows = []
        for _ in range(n_sweeps):
            new_data(c, rng)
            c.sweep(rng, graph_prior)
            rows.append(measure(c))
        chains.append(rows)
    return z_scores(forward, np.array(chains, float))


@pytest.mark.parametrize("kind", [LinearChain, SigmoidChain])
def test_joint_distribution(kind):
    """Power: a prior of the graph with half as many hidden nodes again, at half the length."""
    z, ess = joint_z(kind, 1_200, 1, 4_000)
    assert np.abs(z).max() < 4 and ess[0] > 100
    z, _ = joint_z(kind, 600, 1, 4_000, make_prior(1.0, 1.6, 1.0))
    assert np.abs(z).max() > 6


def with_a_root(kind, rng):
    """A chain with three rows of one root above both observed nodes, whose values are at 0."""
    data = rng.normal(size=(5, 2)) if kind is LinearChain else (rng.random((5, 2)) < 0.5).astype(float)
    chain = kind(rng, data, new_state(np.zeros(2), np.ones(2, bool), 4), PRIOR, 1)
    parents = np.zeros((3, 3), np.uint8)
    parents[2, :2] = 1
    chain.put_graph(parents, np.array([0.0, 0.0, 0.5]))
    net = chain.network
    net.weights[2, :2], net.biases[:3], net.precisions[:3] = (0.7, -1.3), (0.2, -0.1, 0.4), (0.5, 1.1, 0.9)
    net.activations[2] = net.outputs[2] = 0.0
    fill_residuals(3, net)
    return chain, net.weights[2, :2], net.activations[:2] - net.residuals[:2]


def test_linear_birth_integrates_the_node_out():
    chain, weights, means = with_a_root(LinearChain, np.random.default_rng(0))
    net, values = chain.network, chain.network.outputs[:2].copy()
    gain = linear_gain(2, 3, net.parents, net, np.ones(4), np.zeros(5))
    noise = np.diag(1 / net.precisions[:2])
    cov = noise + np.outer(weights, weights) / net.precisions[2]
    want = 0.0
    for r in (values - means).T:
        want += multivariate_normal.logpdf(r - weights * net.biases[2], np.zeros(2), cov)
        want -= multivariate_normal.logpdf(r, np.zeros(2), noise)
    assert gain == pytest.approx(want, abs=1e-10)
    net.outputs[2] = np.random.default_rng(1).normal(size=5)  # whatever its values are
    fill_residuals(3, net)
    assert linear_gain(2, 3, net.parents, net, np.ones(4), np.zeros(5)) == pytest.approx(want, abs=1e-10)


def test_sigmoid_birth_sums_the_node_out():
    chain, weights, logits = with_a_root(SigmoidChain, np.random.default_rng(1))
    net, values = chain.network, chain.network.outputs[:2]
    gain = sigmoid_gain(2, 3, net.parents, net, np.zeros(5))
    want = 0.0
    for x, logit in zip(values.T, logits.T, strict=True):
        law = [np.prod(np.where(x == 1, expit(logit + weights * h), expit(-logit - weights * h))) for h in (0, 1)]
        want += np.log(expit(-0.4) * law[0] + expit(0.4) * law[1]) - np.log(law[0])
    assert gain == pytest.approx(want, abs=1e-10)


def test_ancestral_values_have_the_law_of_the_network():
    rng = np.random.default_rng(2)
    weights = np.array([[0.0, 0.0], [1.5, 0.0]])
    x = draw_nodes(rng, "sigmoid", np.array([1, 0]), weights, np.array([-0.5, 0.3]), np.ones(2), 40_000)
    p1 = expit(0.3)
    want = p1 * expit(1.0) + (1 - p1) * expit(-0.5)
    assert abs(x[0].mean() - want) < 5 * 0.5 / 200
