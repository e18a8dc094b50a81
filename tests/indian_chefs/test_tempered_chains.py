"""Parallel tempering of belief networks: its cold chain against a plain one, refusals."""

import arviz as az
import numpy as np
import pytest

from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_sweep import SweepPlan
from pymc_spn.indian_chefs.prior_density import make_prior
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


def trace(powers, n_sweeps, seed, is_blind=False):
    """Statistics of the cold chain, (4 runs, sweeps, ...)."""
    draws = np.zeros((4, n_sweeps, len(STATISTICS)))
    for s in range(4):
        rng = np.random.default_rng((seed, s))
        chains = TemperedChains(new_chains(len(powers)), powers)
        if is_blind:
            chains._log_likelihood = lambda chain: 0.0
        for t in range(n_sweeps):
            chains.sweep(rng, ICP)
            measure(chains.cold.state, chains.cold.network, draws[s, t])
        assert len(powers) == 1 or is_blind or 0.02 * n_sweeps < chains.accepted.sum() < 0.98 * n_sweeps
    return draws[..., FIXED]


def effective_sizes(draws):
    data = az.from_dict({"posterior": {str(s): draws[..., s] for s in range(draws.shape[-1])}})
    found = az.ess(data, method="mean")
    return np.array([float(found[str(s)]) for s in range(draws.shape[-1])])


def compare(n_sweeps, powers, seed, is_blind=False):
    """z-scores of a plain and a tempered run, and the smaller effective size of the number of nodes."""
    runs = trace((1.0,), n_sweeps, seed), trace(powers, n_sweeps, seed + 1, is_blind)
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
def test_cold_chain_has_the_law_of_a_plain_one_in_the_long_form():
    z, ess = compare(20_000, (1.0, 0.6, 0.3), seed=7)
    assert ess > 1000
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("powers", [(1.0,), (0.9, 0.5), (1.0, 1.0), (1.0, 0.0)])
def test_powers_must_descend_from_one(powers):
    with pytest.raises(ValueError, match="powers must"):
        TemperedChains(new_chains(2), powers)
