"""Each move leaves the prior unchanged, from exact draws; planted mistakes do not."""

import numpy as np
import pytest

from pymc_spn.indian_chefs.graph_state import insert_node
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.rest_moves import RestMoves
from pymc_spn.indian_chefs.sweeps import new_tally
from tests.indian_chefs.prior_chains import MISTAKES, MOVES, after_moves, record_chain, z_scores
from tests.indian_chefs.small_graphs import CONFIGURATIONS, LEVELS, MIXED_BASE, observed

# The short form sees every planted mistake below at |z| > 6 where a correct move stays below 4.5.
# Slots taken in turn, a fault of sweeps and not of moves, show at -8 with five times as many.
SHORT, MEDIUM = 12_000, 60_000
STEPS = 12
PRIORS = [make_prior(1.0, 1.5, 1.0), make_prior(0.4, 1.5, 2.0)]


def worst(reputations, prior, move, n, seed, steps=STEPS):
    exact = after_moves(reputations, prior, 0, 0, 2 * n, seed)
    return np.abs(z_scores(after_moves(reputations, prior, move, steps, n, seed + 1), exact)).max()


@pytest.mark.parametrize("name", MOVES)
def test_a_move_leaves_the_prior_unchanged(name):
    for s, (prior, reputations) in enumerate(
        zip([*PRIORS, *PRIORS], [CONFIGURATIONS[c] for c in sorted(CONFIGURATIONS)], strict=True)
    ):
        assert worst(reputations, prior, MOVES.index(name), SHORT, 10 * s) < 4.5


def test_a_sweep_leaves_the_prior_unchanged_where_slots_in_turn_do_not():
    assert worst(CONFIGURATIONS["inputs_and_output"], PRIORS[0], MOVES.index("all_moves"), MEDIUM, 5) < 4.5


@pytest.mark.parametrize("base", [MIXED_BASE, LEVELS], ids=["mixed", "levels"])
def test_moves_leave_a_prior_with_atoms_unchanged(base):
    prior = make_prior(1.0, 1.5, 1.0, base)
    for name in ("edges", "reputations", "orphans", "splits", "swaps", "all_moves"):
        for reputations in (CONFIGURATIONS["one_below"], CONFIGURATIONS["two_free"]):
            assert worst(reputations, prior, MOVES.index(name), SHORT, 5) < 4.5


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_seen(name):
    if name == "slots_in_turn":
        assert worst(CONFIGURATIONS["inputs_and_output"], PRIORS[0], 100 + MISTAKES.index(name), MEDIUM, 5) > 6.0
        return
    reputations = CONFIGURATIONS["one_below"]
    if name in ("uniform_reputations", "orphans_not_counted", "edges_not_counted"):
        reputations = CONFIGURATIONS["three_below"]
    assert worst(reputations, PRIORS[0], 100 + MISTAKES.index(name), SHORT, 7) > 6.0


def chain(reputations, prior, move, records, thin, seed, max_nodes=64):
    out = np.empty((records, 8))
    scratch = np.zeros(max_nodes, np.uint8), np.zeros((5, 3), np.int64)
    record_chain(np.random.default_rng(seed), observed(reputations, max_nodes), prior, *scratch, move, thin, out)
    return out


def chain_z(reputations, move, records, seed):
    """Batch-means z of one chain against independent exact draws: it also shows that the moves reach every graph."""
    drawn = chain(reputations, PRIORS[0], MOVES.index(move), records, 5, seed)
    exact = after_moves(reputations, PRIORS[0], 0, 0, records // 2, seed)
    batches = drawn.reshape(100, -1, 8).mean(1)
    se = np.sqrt(batches.var(0, ddof=1) / 100 + exact.var(0) / len(exact))
    return np.abs(drawn.mean(0) - exact.mean(0))[se > 0] / se[se > 0]


def test_a_chain_from_the_empty_graph_returns_the_prior():
    for s, reputations in enumerate(CONFIGURATIONS.values()):
        assert chain_z(reputations, "all_moves", 20_000, s).max() < 4.5


def test_a_full_state_is_never_left_upwards():
    """With room for three nodes the chain is that of the prior given K+ <= 3, and says what it refused."""
    from pymc_spn.indian_chefs.node_law import node_count_pmf

    prior, room = PRIORS[0], 3
    out = np.empty((60_000, 8))
    children, tally = np.zeros(room, np.uint8), np.zeros((5, 3), np.int64)
    record_chain(np.random.default_rng(1), observed([0.0], room), prior, children, tally, 7, 2, out)
    law = node_count_pmf(1.0, 1.5, 1, room).values[1:]
    frequencies = np.bincount(out[:, 0].astype(int), minlength=4)[1:] / len(out)
    np.testing.assert_allclose(frequencies, law / law.sum(), atol=0.012)  # five standard errors at ESS 40,000
    assert tally[0, 2] > 1000


def test_parents_that_other_terms_join_are_tried_in_random_order():
    """By slots, the law of a term of one edge into a node of two was off by 20 standard errors in 2 million sweeps."""
    first = set()
    for seed in range(20):
        state = observed([0.0, 0.0])
        for theta in (0.2, 0.4, 0.6):
            insert_node(state, theta, np.ones(40, np.uint8) * (np.arange(40) < 2))
        start, tried = state.parents.copy(), []

        def log_rest(state, tried=tried, start=start):
            tried.append(np.argwhere((state.parents != start)[:, :2])[:, 0].tolist())
            return -100.0 * len(tried)  # nothing is accepted

        RestMoves(state, log_rest, 0).sweep(np.random.default_rng(seed), PRIORS[0], 1, new_tally())
        first.add(next(changed[0] for changed in tried if changed))
    assert first == {2, 3, 4}
