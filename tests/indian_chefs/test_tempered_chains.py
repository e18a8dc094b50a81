"""Parallel tempering of belief networks: its cold chain against a plain one, refusals."""

import arviz as az
import numpy as np
import pytest

from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_sweep import SweepPlan
from pymc_spn.indian_chefs.prior_density import make_prior, rate_integral
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.tempered_chains import TemperedChains
from tests.indian_chefs.joint_chains import STATISTICS, measure

DATA = np.tile([[2.0, -1.0], [2.2, -1.3], [-2.0, 1.1], [-2.1, 1.2]], (2, 1))
ICP = make_prior(1.0, 1.0, 1.0)
PLAN = SweepPlan(guided=1, prior=1, collapsed=2, splits=2, swaps=1, twins=1, rooted=2, exchange_every=1)
FIXED = [s for s, name in enumerate(STATISTICS) if name != "data_residual"]  # the data do not move


def new_chains(n):
    """Chains at the graph of the observed nodes alone."""
    return [NetworkChain(DATA, np.zeros(2), np.ones(2, bool), 24, NetworkPrior(), PLAN, 4, 5) for _ in range(n)]


def trace(powers, n_sweeps, seed, is_blind=False, draws_gamma=False):
    """Statistics of the cold chain, (4 runs, sweeps, ...); gamma has the prior Gamma(2, 1) or is 1."""
    draws = np.zeros((4, n_sweeps, len(STATISTICS)))
    for s in range(4):
        rng = np.random.default_rng((seed, s))
        chains, prior = TemperedChains(new_chains(len(powers)), powers), ICP
        if is_blind:
            chains.log_likelihood = lambda chain: 0.0
        for t in range(n_sweeps):
            chains.sweep(rng, prior)
            if draws_gamma:
                hidden = chains.cold.n_nodes - 2
                prior = ICP._replace(gamma=rng.gamma(2.0 + hidden) / (1.0 + rate_integral(chains.state, prior)))
            measure(chains.cold.state, chains.cold.network, draws[s, t])
        assert len(powers) == 1 or is_blind or 0.02 * n_sweeps < chains.accepted.sum() < 0.98 * n_sweeps
    return draws[..., FIXED]


def effective_sizes(draws):
    data = az.from_dict({"posterior": {str(s): draws[..., s] for s in range(draws.shape[-1])}})
    found = az.ess(data, method="mean")
    return np.array([float(found[str(s)]) for s in range(draws.shape[-1])])


def compare(n_sweeps, powers, seed, is_blind=False, draws_gamma=False):
    """z-scores of a plain and a tempered run, and the smaller effective size of the number of nodes."""
    plain = trace((1.0,), n_sweeps, seed, draws_gamma=draws_gamma)
    runs = plain, trace(powers, n_sweeps, seed + 1, is_blind, draws_gamma)
    sizes = [effective_sizes(r) for r in runs]
    variance = sum(r.var((0, 1)) / size for r, size in zip(runs, sizes, strict=True))
    return (runs[1].mean((0, 1)) - runs[0].mean((0, 1))) / np.sqrt(variance), min(size[0] for size in sizes)


def test_cold_chain_has_the_law_of_a_plain_one():
    """Power: the planted mistake below, at the same length."""
    z, ess = compare(800, (1.0, 0.75), seed=1)
    assert ess > 200
    assert np.abs(z).max() < 4


def test_exchanges_that_do_not_look_at_the_likelihood_are_seen():
    z, _ = compare(800, (1.0, 0.1), seed=1, is_blind=True)
    assert np.abs(z).max() > 6


@pytest.mark.full
@pytest.mark.parametrize("draws_gamma", [False, True])
def test_cold_chain_has_the_law_of_a_plain_one_in_the_long_form(draws_gamma):
    """Hot chains whose gamma is that of the cold one put the number of nodes off by 9 standard errors."""
    z, ess = compare(20_000, (1.0, 0.6, 0.3), seed=7, draws_gamma=draws_gamma)
    assert ess > 1000
    assert np.abs(z).max() < 4


class Decisions:
    """Draws that an exchange asks for: the first pair, and a threshold."""

    def __init__(self, threshold):
        self.threshold = threshold

    def integers(self, n):
        return 0

    def standard_exponential(self):
        return -self.threshold


def test_an_exchange_has_the_ratio_of_the_densities_and_hot_chains_keep_their_hyperparameters():
    chains, powers = TemperedChains(new_chains(2), (1.0, 0.6)), (1.0, 0.6)
    rng, other = np.random.default_rng(4), ICP._replace(alpha=0.7, gamma=3.0, phi=2.0)
    for _ in range(30):
        chains.sweep(rng, ICP)
    asked = []

    def held(chain):
        return lambda rng, prior: asked.append((chain, prior))

    for chain in chains.chains:
        chain.sweep = held(chain)

    def log_target(chain, prior, power):
        """Of the state of a chain under another's law."""
        return chain.log_joint(prior) - (1.0 - power) * TemperedChains.log_likelihood(chain)

    (cold, hot), laws = chains.chains, ((other, 1.0), (ICP, 0.6))
    assert cold.n_nodes != hot.n_nodes
    ratio = (
        log_target(hot, *laws[0]) + log_target(cold, *laws[1]) - log_target(cold, *laws[0]) - log_target(hot, *laws[1])
    )
    chains.sweep(Decisions(ratio + 1e-8), other)
    assert chains.chains == [cold, hot] and asked == [(cold, other), (hot, ICP)]
    chains.sweep(Decisions(ratio - 1e-8), other)
    assert chains.chains == [hot, cold]
    np.testing.assert_array_equal([c.work.heat[0] for c in chains.chains], powers)
    chains.reference = None
    for gamma in (1.0, 8.0):
        chains.follow(ICP._replace(gamma=gamma))
    assert chains.reference.gamma == pytest.approx(4.0) and chains.reference.alpha == ICP.alpha


@pytest.mark.parametrize("powers", [(1.0,), (0.9, 0.5), (1.0, 1.0), (1.0, 0.0)])
def test_powers_must_descend_from_one(powers):
    with pytest.raises(ValueError, match="powers must"):
        TemperedChains(new_chains(2), powers)
