"""Belief networks under the cascading buffets: the chain's density, and Geweke's joint test of its sweep."""

import numpy as np
import pytest
from scipy.special import gammaln

import pymc_spn as ps
from pymc_spn.indian_chefs.cascading_kernels import cascade_prior
from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_sweep import COLLAPSED, GUIDED, PRIOR, SweepPlan
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.warm_up import layered_parents
from tests.indian_chefs.joint_chains import STATISTICS, draw_activations, measure, z_scores

ROOM = 24
PLAN = SweepPlan(guided=1, prior=1, collapsed=1, splits=0, swaps=0, twins=0, rooted=0, exchange_every=1)
FAMILIES = {"cascading": ps.indian_chefs.CascadingIBP, "extended": ps.indian_chefs.ExtendedCascadingIBP}


def new_chain():
    """Four data of two observed nodes."""
    return NetworkChain(np.zeros((4, 2)), np.zeros(2), np.ones(2, bool), ROOM, NetworkPrior(), PLAN, 4, 5)


def graphs(family, n, seed, mass=0.45, concentration=1.0):
    """Parents and layers of draws with room in a chain: its law is the prior given no more units."""
    draws = family(mass, concentration, 2).sample(n, random_seed=seed)
    for s, k in enumerate(draws.n_active.values):
        if k <= ROOM:
            yield draws.parents.values[s, :k, :k], draws.layers.values[s, :k]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_density_of_marked_units_is_that_of_classes_times_their_arrangements(family):
    prior = family((0.8, 0.5), (2.0, 0.7), 2)
    chain, kernel_prior = new_chain(), cascade_prior(prior)
    sizes = set()
    for parents, layers in graphs(family, 60, 0, (0.8, 0.5), (2.0, 0.7)):
        chain.put_graph(parents, layers / (1.0 + layers))
        _, alike = np.unique(np.column_stack([parents[2:], layers[2:]]), axis=0, return_counts=True)
        expected = prior.log_density(parents, layers) + gammaln(alike + 1.0).sum()
        assert chain.log_graph(kernel_prior) == pytest.approx(expected, rel=1e-12)
        assert (chain.layers[: len(layers)] == layers).all()
        sizes.add(len(layers))
    assert max(sizes) > 4


def test_graphs_that_a_buffet_cannot_make_are_refused():
    chain = new_chain()
    chain.put_graph(layered_parents(2, 2, 1), np.array([0.0, 0.0, 0.5, 0.5, 0.9]))
    adjacent, extended = (cascade_prior(f(0.6, 1.0, 2)) for f in FAMILIES.values())
    assert np.isfinite(chain.log_graph(extended))
    assert chain.log_graph(adjacent) == -np.inf
    with pytest.raises(ValueError, match="all children of a unit in one layer"):
        chain.sweep(np.random.default_rng(0), adjacent)
    chain.put_graph(layered_parents(2, 2, 1, passes_layers=False), np.array([0.0, 0.0, 0.5, 0.5, 0.9]))
    assert np.isfinite(chain.log_graph(adjacent))


def joint_test(family, n_sweeps, n_forward, seed, mass=0.45, heat=1.0):
    """z-scores of sweeps that alternate with new data against draws from the prior, effective sizes, the tally."""
    rng, order, chain = np.random.default_rng(seed), np.zeros(ROOM, np.int64), new_chain()
    net = chain.network
    drawn = list(graphs(family, n_forward, seed))
    forward = np.zeros((len(drawn), len(STATISTICS)))
    for s, (parents, layers) in enumerate(drawn):
        n = len(layers)
        chain.put_graph(parents, layers / (1.0 + layers))
        net.weights[:n, :n] = parents * rng.standard_normal((n, n))
        net.biases[:n] = rng.standard_normal(n)
        net.precisions[:n] = rng.gamma(0.5, 2.0, n)
        draw_activations(rng, chain.state, net, order, 0)
        measure(chain.state, net, forward[s])
    draws, tally = np.zeros((4, n_sweeps, len(STATISTICS))), 0
    prior = cascade_prior(family(mass, 1.0, 2))
    for c in range(4):
        chain = new_chain()
        chain.set_heat(heat)
        for t in range(n_sweeps):
            chain.sweep(rng, prior)
            measure(chain.state, chain.network, draws[c, t])
            draw_activations(rng, chain.state, chain.network, order, 1)
        tally = tally + chain.tally
    return *z_scores(forward, draws.reshape(-1, len(STATISTICS))), tally


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_joint_distribution_of_the_sweep(family):
    """Power: the planted mistake below, at the same length."""
    z, ess, tally = joint_test(family, 2_000, 5_000, seed=2)
    assert np.abs(z).max() < 4
    assert ess[0] > 200
    assert min(tally[row, 1] for row in (GUIDED, PRIOR, COLLAPSED)) > 100


def test_joint_distribution_sees_a_planted_mistake():
    """The mass of the buffets too large, and the likelihood at half its power: two sets of statistics."""
    z, _, _ = joint_test(ps.indian_chefs.ExtendedCascadingIBP, 2_000, 5_000, seed=2, mass=0.8, heat=0.5)
    of = dict(zip(STATISTICS, np.abs(z), strict=True))
    assert max(of[name] for name in ("n_nodes", "n_edges", "orphans", "max_children", "sum_theta")) > 6
    assert of["log_precision_0"] > 6
    assert np.abs(z).max() > 6


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_joint_distribution_of_the_sweep_in_the_long_form(family):
    z, ess, _ = joint_test(family, 30_000, 60_000, seed=5)
    assert ess[0] > 1000
    assert np.abs(z).max() < 4
