"""Joint tests of the whole sweep: alternating with new data it must leave the prior of everything unchanged.

Geweke (2004), doi:10.1198/016214504000001132. Hyperparameters are those of a light tail; with room for 24 nodes the
prior's mass beyond is below one draw in 100,000.
"""

import numpy as np
import pytest

from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_sweep import GUIDED, PRIOR, ROOTED, TWINS, SweepPlan
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from tests.indian_chefs.joint_chains import STATISTICS, forward_chain, joint_chain, z_scores

NOTHING = SweepPlan(guided=0, prior=0, collapsed=0, splits=0, swaps=0, twins=0, rooted=0, exchange_every=0)
PLANS = {
    "guided": NOTHING._replace(guided=2),
    "prior": NOTHING._replace(prior=2),
    "collapsed": NOTHING._replace(collapsed=2),
    "collapsed and twins": NOTHING._replace(collapsed=1, twins=3),
    "rooted": NOTHING._replace(rooted=2),
    "all moves": SweepPlan(guided=1, prior=1, collapsed=1, splits=2, swaps=2, twins=1, rooted=1, exchange_every=1),
}
GAMMAS = np.random.default_rng(9).gamma(0.5, 2.0, 200_000)


def run(plan, n_sweeps, seed, free=False, heat=1.0, n_forward=100_000, n_chains=4, network_prior=None):
    """z-scores and effective sizes; four data of two observed nodes."""
    graph_prior = make_prior(1.0, 1.0, 1.0)
    theta, fixed = (np.array([0.3, 0.5]), np.zeros(2, bool)) if free else (np.zeros(2), np.ones(2, bool))

    def chain():
        return NetworkChain(np.zeros((4, 2)), theta, fixed, 24, network_prior or NetworkPrior(), plan, 4, 5)

    children, order = np.zeros(24, np.uint8), np.zeros(24, np.int64)
    forward = np.zeros((n_forward, len(STATISTICS)))
    c = chain()
    forward_chain(
        np.random.default_rng(seed), c.state, graph_prior, c.network, NetworkPrior(), children, order, GAMMAS, forward
    )
    draws, tally = np.zeros((n_chains, n_sweeps, len(STATISTICS))), 0
    for s in range(n_chains):
        c = chain()
        c.work.heat[:2] = heat
        joint_chain(
            np.random.default_rng((seed, s)),
            c.state,
            graph_prior,
            c.network,
            c.prior,
            plan,
            c.work,
            c.tally,
            children,
            order,
            GAMMAS,
            0 if free else 1,
            draws[s],
        )
        tally = tally + c.tally
    return *z_scores(forward, draws.reshape(-1, len(STATISTICS)), n_chains), tally


def test_joint_distribution_of_the_whole_sweep():
    """Power: the planted mistake below, at the same length."""
    z, ess, tally = run(PLANS["all moves"], 3_000, seed=3)
    assert np.abs(z).max() < 4
    assert ess[0] > 500
    assert tally[GUIDED, 1] > 500 and tally[PRIOR, 1] > 500 and tally[TWINS, 1] > 50 and tally[ROOTED, 1] > 500


@pytest.mark.parametrize("mistake", ["likelihood of observed nodes at half its power", "rate of precisions"])
def test_joint_distribution_sees_a_planted_mistake(mistake):
    heat, prior = (0.5, None) if mistake.startswith("likelihood") else (1.0, NetworkPrior(precision_rate=0.75))
    z, _, _ = run(PLANS["all moves"], 3_000, seed=3, heat=heat, network_prior=prior)
    assert np.abs(z).max() > 6


@pytest.mark.full
@pytest.mark.parametrize("kind", list(PLANS))
@pytest.mark.parametrize("free", [False, True], ids=["observed at 0", "observed free"])
def test_joint_distribution_of_each_birth_kind(kind, free):
    """New data given all else where observed nodes have no children, new activations of all nodes otherwise."""
    z, ess, _ = run(PLANS[kind], 20_000, seed=5, free=free, n_forward=200_000)
    assert ess[0] > 1000, "no verdict: the chain of K+ is too short"
    assert np.abs(z).max() < 4
