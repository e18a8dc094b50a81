"""Every move of the lists: its log ratio, and that it leaves the prior unchanged, which planted mistakes do not."""

import numpy as np
import pytest
from scipy.special import gammaln

from pymc_spn.indian_chefs.graph_moves import MOVE_NAMES, ORPHANS, PUBLISHED_MOVES, move_work, new_tally, propose
from pymc_spn.indian_chefs.graph_state import insert_node, refresh, set_edge
from pymc_spn.indian_chefs.node_law import node_count_pmf
from pymc_spn.indian_chefs.prior_density import edge_odds, log_base, log_density, log_density_ratio, make_prior
from pymc_spn.indian_chefs.rest_moves import sweep_graph
from tests.indian_chefs.prior_chains import (
    BY_SLOTS,
    FOR_ATOMS,
    HALVED,
    LITERAL_SINGLETONS,
    MOVES,
    NODES_COUNTED,
    RIGHT,
    after_moves,
    exact_draws,
    record_chain,
    z_of_changes,
)
from tests.indian_chefs.small_graphs import CONFIGURATIONS, LEVELS, MIXED_BASE, copy, many_states, observed

PRIORS = [make_prior(1.0, 1.5, 1.0), make_prior(0.4, 1.5, 2.0)]
BASES = {"uniform": None, "mixed": MIXED_BASE, "levels": LEVELS}
CASES = [(m, b) for m in range(len(MOVE_NAMES)) for b in BASES if b == "uniform" or m not in PUBLISHED_MOVES]


def same(a, b):
    """Whether two states hold one graph in the same slots."""
    n = a.count[0]
    if n != b.count[0] or not np.array_equal(a.parents[:n, :n], b.parents[:n, :n]):
        return False
    return all(np.array_equal(getattr(a, k)[:n], getattr(b, k)[:n]) for k in ("reputations", "n_children", "n_below"))


def log_factor(state, prior, h):
    """What `log_density_ratio` leaves out of a node that is born: its own factor and its base density."""
    a, m = state.n_below[h], state.n_children[h]
    own = gammaln(m) + gammaln(prior.alpha + a - m) - gammaln(prior.alpha + a)
    return own + log_base(prior, state.reputations[h])


@pytest.mark.parametrize(("move", "base"), CASES, ids=[f"{MOVE_NAMES[m]}-{b}" for m, b in CASES])
def test_ratios_are_those_of_the_densities_and_of_the_reverse(move, base):
    seen = 0
    for prior, state, rng in many_states(200, seed=5 + move, base=BASES[base]):
        before, work, tally = copy(state), move_work(state), new_tally()
        log_ratio, unit, row = propose(rng, move, state, prior, work, tally)
        assert same(work.held, before) and tally[row, 0] == 1 == tally[:, 0].sum()
        grown = state.count[0] - before.count[0]
        if log_ratio == -np.inf or grown < 0:
            continue
        seen += 1
        fresh = copy(state)
        refresh(fresh)
        assert same(fresh, state)
        change = log_density(state, prior) - log_density(before, prior)
        if not grown:
            assert log_ratio == pytest.approx(change, abs=1e-10)
            continue
        assert log_density_ratio(state, before, -1, prior) + log_factor(state, prior, unit) == pytest.approx(change)
        after = copy(state)
        for _ in range(100):
            reverse, unit, _ = propose(rng, move, state, prior, work, tally)
            if state.count[0] == before.count[0] and same(state, before):
                assert reverse == pytest.approx(-log_ratio, abs=1e-10)
                break
            state = copy(after)
    assert seen > (10 if base == "levels" else 30)


@pytest.mark.parametrize("base", BASES)
def test_edge_odds_are_those_of_the_density(base):
    for prior, state, _ in many_states(24, seed=8, base=BASES[base]):
        for k in range(state.count[0]):
            for i in range(state.count[0]):
                held = state.parents[k, i]
                odds = edge_odds(state, prior, k, i)
                values = []
                for value in (1, 0):
                    set_edge(state, k, i, value)
                    values.append(log_density(state, prior))
                set_edge(state, k, i, held)
                with np.errstate(divide="ignore"):
                    assert np.log(odds) == pytest.approx(values[0] - values[1], abs=1e-10)


def worst(reputations, prior, move, n=12_000, mistake=RIGHT, steps=4):
    """Largest z of the changes of eight statistics."""
    return np.abs(z_of_changes(after_moves(reputations, prior, move, steps, n, 1, mistake=mistake))).max()


@pytest.mark.parametrize("name", MOVES)
def test_a_move_leaves_the_prior_unchanged(name):
    move, priors = MOVES.index(name), list(PRIORS)
    if name in FOR_ATOMS:
        priors += [make_prior(1.0, 1.5, 1.0, base) for base in (MIXED_BASE, LEVELS)]
    for prior in priors:
        for reputations in CONFIGURATIONS.values():
            assert worst(reputations, prior, move) < 4.5


@pytest.mark.parametrize("move", range(len(MOVE_NAMES)), ids=MOVE_NAMES)
def test_a_planted_mistake_in_the_ratio_is_seen(move):
    found = [worst(reputations, PRIORS[0], move, mistake=HALVED) for reputations in CONFIGURATIONS.values()]
    assert max(found) > 6.0
    if move == MOVE_NAMES.index("singletons"):  # the factor 1 / K! of the published density, left out or counted twice
        assert worst([0.0], PRIORS[0], move, mistake=NODES_COUNTED) > 6.0


def test_planted_mistakes_in_passes_over_the_nodes_are_seen():
    reputations = CONFIGURATIONS["inputs_and_output"]
    assert worst(reputations, PRIORS[0], LITERAL_SINGLETONS) > 6.0
    assert worst(reputations, PRIORS[0], BY_SLOTS, 60_000, steps=12) > 6.0
    assert worst(reputations, PRIORS[0], MOVES.index("all_moves"), 60_000, steps=12) < 4.5


def chain_z(reputations, records, seed):
    """Batch-means z of one chain against independent exact draws: it also shows that the moves reach every graph."""
    drawn = np.empty((records, 8))
    parts = observed(reputations, 64), PRIORS[0], new_tally(), MOVES.index("all_moves"), 5
    record_chain(np.random.default_rng(seed), *parts, drawn)
    exact = exact_draws(reputations, PRIORS[0], records // 2, seed)
    batches = drawn.reshape(100, -1, 8).mean(1)
    se = np.sqrt(batches.var(0, ddof=1) / 100 + exact.var(0) / len(exact))
    return np.abs(drawn.mean(0) - exact.mean(0))[se > 0] / se[se > 0]


def test_a_chain_from_the_empty_graph_returns_the_prior():
    for s, reputations in enumerate(CONFIGURATIONS.values()):
        assert chain_z(reputations, 20_000, s).max() < 4.5


def test_a_full_state_is_never_left_upwards():
    """With room for three nodes the chain is that of the prior given K+ <= 3, and says what it refused."""
    out, tally = np.empty((60_000, 8)), new_tally()
    parts = observed([0.0], 3), PRIORS[0], tally, MOVES.index("all_moves"), 2
    record_chain(np.random.default_rng(1), *parts, out)
    law = node_count_pmf(1.0, 1.5, 1, 3).values[1:]
    frequencies = np.bincount(out[:, 0].astype(int), minlength=4)[1:] / len(out)
    np.testing.assert_allclose(frequencies, law / law.sum(), atol=0.012)  # five standard errors at ESS 40,000
    assert tally[2 * ORPHANS, 2] > 1000


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

        sweep_graph(np.random.default_rng(seed), state, PRIORS[0], log_rest, "all", 1, 0, new_tally())
        first.add(next(changed[0] for changed in tried if changed))
    assert first == {2, 3, 4}
