"""Kernels of the belief network against brute force: evidence, activations, births, exchanges with the pool."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import gamma, multivariate_normal, norm

from pymc_spn.indian_chefs import pool_kernels as pools
from pymc_spn.indian_chefs import regression_kernels as regressions
from pymc_spn.indian_chefs.activation_kernels import activation_work, fill_residuals, move_unit, redraw_unit, walk_unit
from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from tests.indian_chefs.joint_chains import residual_error

PRIOR = NetworkPrior(0.8, 1.7, 0.9, 0.6)


def random_chain(rng, n_data=6, n_hidden=3, max_nodes=8):
    """Two observed nodes, hidden ones in a dense graph with random parameters and activations."""
    chain = NetworkChain(rng.normal(size=(n_data, 2)), np.zeros(2), np.ones(2, bool), max_nodes, PRIOR)
    n = 2 + n_hidden
    theta = np.r_[0.0, 0.0, np.sort(rng.random(n_hidden))]
    parents = (theta[:, None] > theta[None, :]) & (rng.random((n, n)) < 0.8)
    parents[2:, 0] = True
    chain.put_graph(parents.astype(np.uint8), theta)
    net = chain.network
    net.weights[:n, :n] = np.where(parents, rng.normal(size=(n, n)), 0.0)
    net.biases[:n] = rng.normal(size=n)
    net.precisions[:n] = rng.gamma(2.0, 1.0, n)
    net.activations[2:n] = rng.normal(size=(n_hidden, n_data))
    net.outputs[2:n] = expit(net.activations[2:n])
    fill_residuals(chain.n_nodes, net)
    return chain


def gram_of(chain, heat=None):
    gram = regressions.empty_gram(chain.state.order.size)
    heat = np.ones(chain.state.order.size) if heat is None else heat
    regressions.fill_gram(gram, chain.n_nodes, chain.network.activations, chain.network.outputs, heat)
    return gram


def evidence(chain, node, gram, heat=1.0):
    work = regressions.regression_work(chain.state.order.size)
    p = regressions.choose_regressors(chain.network.parents, chain.n_nodes, node, work)
    rho = chain.network.precisions[node]
    return regressions.log_evidence(gram, node, p, rho, heat, PRIOR, work), p, work


def design(chain, node):
    parents = np.flatnonzero(chain.network.parents[: chain.n_nodes, node])
    return np.column_stack([np.ones(chain.network.outputs.shape[1]), chain.network.outputs[parents].T]), parents


@pytest.mark.parametrize("seed", range(4))
def test_collapsed_evidence_against_the_density_of_all_data(seed):
    chain = random_chain(np.random.default_rng(seed), n_data=7, n_hidden=1 + seed)
    gram = gram_of(chain)
    for node in range(chain.n_nodes):
        x, _ = design(chain, node)
        scale = np.diag(1.0 / np.r_[PRIOR.bias_precision, np.full(x.shape[1] - 1, PRIOR.weight_precision)])
        cov = x @ scale @ x.T + np.eye(7) / chain.network.precisions[node]
        brute = multivariate_normal.logpdf(chain.network.activations[node], np.zeros(7), cov)
        assert abs(evidence(chain, node, gram)[0] - brute) < 1e-8


def test_tempered_evidence_counts_each_datum_in_part():
    """Power 2 of the likelihood is that of all data twice."""
    rng = np.random.default_rng(0)
    chain = random_chain(rng, n_data=5)
    twice = NetworkChain(np.tile(chain.network.activations[:2].T, (2, 1)), np.zeros(2), np.ones(2, bool), 8, PRIOR)
    twice.put_graph(chain.network.parents[:5, :5], chain.state.reputations[:5])
    twice.network.precisions[:] = chain.network.precisions
    for rows in ("activations", "outputs"):
        getattr(twice.network, rows)[:] = np.tile(getattr(chain.network, rows), 2)
    heat = np.full(8, 2.0)
    for node in range(5):
        one = evidence(chain, node, gram_of(chain, heat), 2.0)[0]
        assert one == pytest.approx(evidence(twice, node, gram_of(twice))[0], abs=1e-9)


def test_coefficients_have_the_conjugate_moments():
    rng = np.random.default_rng(1)
    chain = random_chain(rng)
    gram = gram_of(chain)
    _, p, work = evidence(chain, 0, gram)
    x, _ = design(chain, 0)
    rho = chain.network.precisions[0]
    precision = rho * x.T @ x + np.diag(np.r_[PRIOR.bias_precision, np.full(p - 1, PRIOR.weight_precision)])
    cov = np.linalg.inv(precision)
    mean = cov @ (rho * x.T @ chain.network.activations[0])
    draws = np.empty((40_000, p))
    for t in range(len(draws)):
        regressions.draw_coefficients(rng, gram, 0, p, rho, 1.0, PRIOR, work)
        draws[t] = work.coefficients[:p]
    se = np.sqrt(np.diag(cov) / len(draws))
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * se)
    # the standard error of a variance is var sqrt(2/n)
    np.testing.assert_allclose(draws.var(0), np.diag(cov), rtol=5 * np.sqrt(2 / len(draws)))
    square = regressions.residual_square(gram, 0, p, work)
    r = chain.network.activations[0] - x @ work.coefficients[:p]
    assert square == pytest.approx(r @ r)


def test_precision_has_the_gamma_conditional():
    rng = np.random.default_rng(2)
    draws = np.array([regressions.draw_precision(rng, 5.0, 3.0, PRIOR) for _ in range(40_000)])
    law = gamma(PRIOR.precision_shape + 2.5, scale=1.0 / (PRIOR.precision_rate + 1.5))
    assert abs(draws.mean() - law.mean()) < 5 * law.std() / 200
    assert draws.std() == pytest.approx(law.std(), rel=0.03)  # kurtosis 6/3.4: standard error below 0.6 %


def two_node_chain(data):
    """One observed node with one hidden parent."""
    chain = NetworkChain(data[:, None], np.zeros(1), np.ones(1, bool), 3, PRIOR)
    parents = np.zeros((2, 2), np.uint8)
    parents[1, 0] = 1
    chain.put_graph(parents, np.array([0.0, 0.5]))
    net = chain.network
    net.weights[1, 0], net.biases[:2], net.precisions[:2] = 4.0, (-2.0, 0.3), (1.5, 0.2)
    net.outputs[1] = 0.5
    fill_residuals(chain.n_nodes, net)
    return chain


def hidden_posterior(chain):
    """Means and variances of the output of the hidden unit in each datum, by quadrature."""
    net = chain.network
    a = np.linspace(-15, 15, 20_001)
    moments = []
    for value in net.activations[0]:
        w = norm.pdf(a, net.biases[1], net.precisions[1] ** -0.5)
        w = w * norm.pdf(value, net.biases[0] + net.weights[1, 0] * expit(a), net.precisions[0] ** -0.5)
        mean = (w * expit(a)).sum() / w.sum()
        moments.append((mean, (w * expit(a) ** 2).sum() / w.sum() - mean**2))
    return np.array(moments).T


@pytest.mark.parametrize("move", ["redraw", "redraw and walk", "exchange"])
def test_activations_reach_the_exact_conditional(move):
    data = np.repeat([-3.0, -1.0, 0.5, 2.0], 500)
    rng = np.random.default_rng(3)
    chain = two_node_chain(data)
    work, pool = activation_work(len(data), 16), pools.empty_pool(3, 1, 700)  # one pass brings 700 new vectors
    heat, datum = np.ones(3), np.zeros(1)
    net = chain.network
    kept = []
    for t in range(60):
        if move == "exchange":
            for _ in range(4):
                pools.fill_pool(rng, chain.state, net, pool)
                pools.exchange(rng, 1, 2, net, heat, pool, datum)
                fill_residuals(chain.n_nodes, net)
        else:
            redraw_unit(rng, 1, 2, net, heat, work)
            if move != "redraw":
                walk_unit(rng, 1, 2, net, heat, work)
        assert residual_error(chain) < 1e-9
        if t >= 40:
            kept.append(net.outputs[1].copy())
    groups = np.array(kept).reshape(20, 4, 500)
    mean, variance = hidden_posterior(chain)
    each = groups.mean(0)  # a datum's average; those of different data are (for a pool, nearly) independent
    z = (each.mean(1) - mean[::500]) / (each.std(1) / np.sqrt(500))
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(groups.var((0, 2)), variance[::500], rtol=0.15)


def test_a_pool_that_is_not_given_the_old_vector_back_is_wrong():
    """What the exchange must not do: copy from the pool. Two data then share a vector, which is never so otherwise."""
    data = np.array([-3.0, 2.0, 2.0])
    rng = np.random.default_rng(4)
    chain = two_node_chain(data)
    net, pool = chain.network, pools.empty_pool(3, 1, 2)
    net.activations[1], net.outputs[1] = (0.1, 0.2, 0.3), expit(np.array([0.1, 0.2, 0.3]))
    fill_residuals(chain.n_nodes, net)
    for _ in range(200):
        pools.fill_pool(rng, chain.state, net, pool)
        before = np.sort(np.r_[net.activations[1], pool.activations[1]])
        pools.exchange(rng, 1, 2, net, np.ones(3), pool, np.zeros(1))
        fill_residuals(chain.n_nodes, net)
        np.testing.assert_array_equal(np.sort(np.r_[net.activations[1], pool.activations[1]]), before)


def test_gram_rows_of_new_and_moved_slots():
    rng = np.random.default_rng(8)
    chain = random_chain(rng)
    n, heat = chain.n_nodes, np.ones(8)
    full = gram_of(chain)
    partial = regressions.empty_gram(8)
    regressions.fill_gram(partial, n - 1, chain.network.activations, chain.network.outputs, heat)
    regressions.add_to_gram(n - 1, chain.network, heat, partial)
    for a, b in zip(full, partial, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    move_unit(n - 1, 2, n, chain.network)
    regressions.move_gram(n, n - 1, 2, partial)
    moved = regressions.empty_gram(8)
    regressions.fill_gram(moved, n - 1, chain.network.activations, chain.network.outputs, heat)
    np.testing.assert_allclose(partial.outputs[:n, :n], moved.outputs[:n, :n], atol=1e-12)
    np.testing.assert_allclose(partial.crosses[:n, : n - 1], moved.crosses[:n, : n - 1], atol=1e-12)
    np.testing.assert_allclose(partial.squares[: n - 1], moved.squares[: n - 1], atol=1e-12)
