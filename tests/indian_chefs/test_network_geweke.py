"""Joint tests of whole sweeps: alternating with new data they must leave the prior of everything unchanged.

Geweke (2004), doi:10.1198/016214504000001132. Hyperparameters are those of a light tail; with room for 24 nodes the
prior's mass beyond is below one draw in 100,000.
"""

import numpy as np
import pytest

from pymc_spn.indian_chefs.graph_moves import MOVE_NAMES
from pymc_spn.indian_chefs.network_sweep import sweep_plan
from pymc_spn.indian_chefs.prior_density import make_prior
from tests.indian_chefs.joint_chains import GRAPH_PRIOR, empty_chain, z_of_move, z_of_sweeps

PLAN = sweep_plan(2, exchange_every=1)
IS_GAP = np.array([[True, False], [False, True], [False, False], [False, False]])


@pytest.mark.parametrize("move", range(len(MOVE_NAMES)), ids=MOVE_NAMES)
def test_a_move_of_the_graph_leaves_the_joint_distribution_unchanged(move):
    assert np.abs(z_of_move(move)).max() < 4.5
    if MOVE_NAMES[move] not in ("swaps", "relocations"):  # with observed nodes at 0 these seldom change an edge
        assert np.abs(z_of_move(move, is_halved=True)).max() > 6.0


def at_half_its_power(c):
    c.set_heat(0.5)


def without_noise(c):
    """Missing cells at their means."""
    redraw = c.gaps.redraw

    class Still:
        def __init__(self, rng):
            self.rng = rng

        def standard_normal(self, n):
            return 1e-3 * self.rng.standard_normal(n)

    c.gaps.redraw = lambda rng, *parts: redraw(Still(rng), *parts)


KINDS = {  # a chain, and a mistake: in the chain, or another prior of the graph
    "all moves": (lambda: empty_chain(PLAN, 4, 5), at_half_its_power, GRAPH_PRIOR),
    "with gaps": (lambda: empty_chain(PLAN, 4, 5, IS_GAP), without_noise, GRAPH_PRIOR),
    "published moves": (lambda: empty_chain(sweep_plan(8, True), 4, 5), None, make_prior(1.0, 1.5, 1.0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_joint_distribution(kind):
    """Of cells that are there, which alone are redrawn. Power: the mistake, at the same length."""
    make, spoil, other_prior = KINDS[kind]
    z, ess = z_of_sweeps(make, 1_500, seed=3)
    assert np.abs(z).max() < 4 and ess[0] > 200
    z, _ = z_of_sweeps(make, 1_500, seed=3, spoil=spoil, graph_prior=other_prior)
    assert np.abs(z).max() > 6
