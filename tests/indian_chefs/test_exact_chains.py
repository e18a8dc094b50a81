"""Linear Gaussian and sigmoid networks: births against brute force, and joint tests of their sweeps."""

from functools import cache

import arviz as az
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

from pymc_spn.indian_chefs import exact_kernels as kernels
from pymc_spn.indian_chefs.exact_chains import LinearChain, SigmoidChain
from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import new_state
from pymc_spn.indian_chefs.network_draws import draw_nodes
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior

GRAPH_PRIOR, PRIOR, ROOM, ROWS = make_prior(1.0, 1.0, 1.0), NetworkPrior(0.8, 1.2, 1.5, 1.0), 20, 4


def new_chain(kind, rng):
    state = new_state(np.zeros(2), np.ones(2, bool), ROOM)
    while not draw_graph(rng, state, GRAPH_PRIOR, np.zeros(ROOM, np.uint8)):
        pass
    return kind(rng, np.zeros((ROWS, 2)), state, PRIOR, 10)


def new_data(chain, rng):
    """Data of the observed nodes given all else: at reputation 0 they have no children."""
    n = int(chain.state.count[0])
    chain.refresh()
    if isinstance(chain, SigmoidChain):
        chain.set_data((rng.random((ROWS, 2)) < expit(chain.means[:2].T)).astype(float))
    else:
        chain.set_data(chain.means[:2].T + rng.standard_normal((ROWS, 2)) * chain.precisions[:2] ** -0.5)
    return n


def measure(chain):
    n = int(chain.state.count[0])
    w = chain.weights[:n, :n][chain.state.parents[:n, :n] == 1]
    hidden = chain.values[2:n]
    return [
        n,
        len(w),
        (chain.state.n_parents[2:n] == 0).sum(),
        chain.biases[0],
        chain.biases[0] ** 2,
        (w**2 - 1.25).sum(),
        np.tanh(w).sum(),
        np.tanh(hidden[:, 0]).sum(),
        np.tanh(hidden[:, 0] * hidden[:, 1]).sum(),
        np.log(chain.precisions[:n]).sum(),
        np.tanh(chain.values[0, 0] * chain.values[1, 0]),
        np.tanh(chain.values[0, 0] * chain.values[0, 1]),
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


def joint_z(kind, n_sweeps, seed, n_forward, spoil=None):
    forward = forward_draws(kind, n_forward, seed)
    chains = []
    for s in range(4):
        rng = np.random.default_rng((seed, s))
        c = new_chain(kind, rng)
        if spoil:
            spoil(c)
        rows = []
        for _ in range(n_sweeps):
            new_data(c, rng)
            c.sweep(rng, GRAPH_PRIOR)
            rows.append(measure(c))
        chains.append(rows)
    chains = np.array(chains, float)
    names = [f"s{i}" for i in range(chains.shape[2])]
    data = az.from_dict({"posterior": {name: chains[..., i] for i, name in enumerate(names)}})
    varies = chains.std((0, 1)) > 0
    found = az.ess(data, method="mean")
    ess = np.array([float(found[n]) if v else 1.0 for n, v in zip(names, varies, strict=True)])
    variance = forward.var(0) / len(forward) + chains.var((0, 1)) / ess
    z = (chains.mean((0, 1)) - forward.mean(0)) / np.sqrt(np.where(varies, variance, 1.0))
    return z, ess


def with_a_constant_in_births(chain):
    gain = chain._gain
    chain._gain = lambda *a: gain(*a) + 0.25 * ROWS


@pytest.mark.parametrize("kind", [LinearChain, SigmoidChain])
def test_joint_distribution(kind):
    """Power: a constant missing in births, at half the length."""
    z, ess = joint_z(kind, 1_200, 1, 4_000)
    assert np.abs(z).max() < 4 and ess[0] > 100
    z, _ = joint_z(kind, 450, 1, 4_000, with_a_constant_in_births)
    assert np.abs(z).max() > 6


def test_linear_birth_integrates_the_node_out():
    rng = np.random.default_rng(0)
    values, means = rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    weights, precisions = np.array([0.7, 0.0, -1.3]), np.array([0.5, 2.0, 1.1])
    bias, rho = 0.4, 0.9
    gain = kernels.linear_birth_gain(
        rng, 3, bias, rho, weights, precisions, values, means, np.zeros(5), np.zeros(5), False
    )
    joined = [0, 2]
    noise = np.diag(1 / precisions[joined])
    cov = noise + np.outer(weights[joined], weights[joined]) / rho
    want = 0.0
    for j in range(5):
        r = (values - means)[joined, j]
        want += multivariate_normal.logpdf(r - weights[joined] * bias, np.zeros(2), cov)
        want -= multivariate_normal.logpdf(r, np.zeros(2), noise)
    assert gain == pytest.approx(want, abs=1e-10)


def test_sigmoid_birth_sums_the_node_out():
    rng = np.random.default_rng(1)
    values, logits = (rng.random((3, 5)) < 0.5).astype(float), rng.normal(size=(3, 5))
    weights, bias = np.array([0.7, 0.0, -1.3]), 0.4
    gain = kernels.sigmoid_birth_gain(rng, 3, bias, weights, values, logits, np.zeros(5), False)
    want = 0.0
    for j in range(5):
        law = [
            np.prod(np.where(values[:, j] == 1, expit(logits[:, j] + weights * x), expit(-logits[:, j] - weights * x)))
            for x in (0, 1)
        ]
        want += np.log((1 - expit(bias)) * law[0] + expit(bias) * law[1]) - np.log(law[0])
    assert gain == pytest.approx(want, abs=1e-10)


def test_ancestral_values_have_the_law_of_the_network():
    rng = np.random.default_rng(2)
    weights = np.array([[0.0, 0.0], [1.5, 0.0]])
    x = draw_nodes(rng, "sigmoid", np.array([1, 0]), weights, np.array([-0.5, 0.3]), np.ones(2), 40_000)
    p1 = expit(0.3)
    want = p1 * expit(1.0) + (1 - p1) * expit(-0.5)
    assert abs(x[0].mean() - want) < 5 * 0.5 / 200
