"""Every move's log ratio against the full density, and against its own reverse on the same pair of states."""

import numpy as np
import pytest

from pymc_spn.indian_chefs import orphan_moves, split_moves
from pymc_spn.indian_chefs.graph_state import delete_node, insert_node, is_orphan, place_node, refresh, set_edge
from pymc_spn.indian_chefs.orphan_moves import orphan_log_gain, propose_orphan, propose_orphan_death
from pymc_spn.indian_chefs.prior_density import (
    base_mass,
    digamma_gap,
    edge_log_odds,
    insertion_log_ratio,
    log_base,
    log_density,
    node_factor,
)
from pymc_spn.indian_chefs.reputation_moves import propose_reputation
from pymc_spn.indian_chefs.rooted_moves import insert_rooted, is_removable, propose_rooted, propose_rooted_death
from tests.indian_chefs.small_graphs import LEVELS, MIXED_BASE, copy, many_states

BASES = pytest.mark.parametrize("base", [None, MIXED_BASE, LEVELS], ids=["uniform", "mixed", "levels"])


def same(a, b):
    n = a.count[0]
    assert n == b.count[0]
    for name in ("parents", "reputations", "n_children", "n_parents", "n_below"):
        x, y = getattr(a, name), getattr(b, name)
        np.testing.assert_array_equal(x[:n, :n] if x.ndim == 2 else x[:n], y[:n, :n] if y.ndim == 2 else y[:n])


@BASES
def test_orphan_birth_has_the_ratio_of_the_densities_and_undoes_its_death(base):
    children = np.zeros(40, np.uint8)
    seen = 0
    for prior, state, rng in many_states(200, seed=5, base=base):
        theta, log_ratio = propose_orphan(rng, state, prior, children)
        if log_ratio == -np.inf:
            continue
        seen += 1
        before = copy(state)
        n, m = (state.reputations[: state.count[0]] < theta).sum(), children[: state.count[0]].sum()
        assert 1 <= m <= n
        k = insert_node(state, theta, children)
        log_q = node_factor(prior, False, n, m) - np.log(prior.alpha * prior.gamma)
        log_q += log_base(prior, theta) - np.log(digamma_gap(n, prior.alpha))
        orphans = sum(is_orphan(state, x) for x in range(state.count[0]))
        expected = log_density(state, prior) - log_density(before, prior) - log_q - np.log(orphans)
        assert log_ratio == pytest.approx(expected, abs=1e-10)
        death = np.log(orphans) - orphan_log_gain(state, prior, theta, n, k)
        assert death == pytest.approx(-log_ratio, abs=1e-10)
        for _ in range(60):
            chosen, drawn = propose_orphan_death(rng, state, prior)
            if chosen == k:
                assert drawn == pytest.approx(-log_ratio, abs=1e-10)
        delete_node(state, k)
        same(state, before)
    assert seen > 100


@BASES
def test_birth_with_parents_has_the_ratio_of_the_densities_and_undoes_its_death(base):
    children, parents = np.zeros((2, 40), np.uint8)
    seen = rooted = 0
    for prior, state, rng in many_states(200, seed=12, base=base):
        before = copy(state)
        theta, log_ratio = propose_rooted(rng, state, prior, children, parents)
        same(state, before)
        if log_ratio == -np.inf:
            continue
        seen += 1
        size = state.count[0]
        n, m = (state.reputations[:size] < theta).sum(), children[:size].sum()
        log_q = node_factor(prior, False, n, m) - np.log(prior.alpha * prior.gamma)
        log_q += log_base(prior, theta) - np.log(digamma_gap(n, prior.alpha))
        for x in np.flatnonzero(state.reputations[:size] > theta):
            shift = prior.phi if x < state.fixed.size else 0.0
            p = (state.n_children[x] + shift) / (prior.alpha + state.n_below[x] + shift)
            log_q += np.log(p if parents[x] else 1.0 - p)
        h = insert_rooted(state, theta, children, parents)
        rooted += state.n_parents[h] > 0
        removable = sum(is_removable(state, x) for x in range(size + 1))
        expected = log_density(state, prior) - log_density(before, prior) - log_q - np.log(removable)
        assert log_ratio == pytest.approx(expected, abs=1e-10)
        found = copy(state)
        for _ in range(60):
            chosen, drawn = propose_rooted_death(rng, state, prior, parents)
            if chosen == h:
                assert drawn == pytest.approx(-log_ratio, abs=1e-10)
        same(state, found)
        delete_node(state, h)
        same(state, before)
    assert seen > 100
    assert base == LEVELS or rooted > 30


@BASES
def test_split_has_the_ratio_of_the_densities_and_undoes_its_merge(base):
    children = np.zeros(40, np.uint8)
    seen = 0
    for prior, state, rng in many_states(200, seed=6, base=base):
        before = copy(state)
        edges = int(state.parents.sum())
        k, i, theta, log_ratio = split_moves.propose_split(rng, state, prior, children)
        same(state, before)
        if log_ratio == -np.inf:
            continue
        seen += 1
        h = split_moves.apply_split(state, k, i, theta, children)
        assert state.parents[k, h] and state.parents[h, i] and not state.parents[k, i]
        links = sum(split_moves.is_link(state, x) for x in range(state.count[0]))
        mass = base_mass(prior, state.reputations[i], state.reputations[k])
        expected = log_density(state, prior) - log_density(before, prior) - log_base(prior, theta)
        expected += np.log(edges * mass / links)
        assert log_ratio == pytest.approx(expected, abs=1e-10)
        for _ in range(60):
            chosen, drawn = split_moves.propose_merge(rng, state, prior)
            if chosen == h:
                assert drawn == pytest.approx(-log_ratio, abs=1e-10)
        split_moves.apply_merge(state, h)
        same(state, before)
    assert seen > 60


@BASES
def test_swap_has_the_ratio_of_the_densities_and_is_its_own_reverse(base):
    seen = turned = 0
    for prior, state, rng in many_states(300, seed=7, base=base):
        before = copy(state)
        low, high, log_ratio = split_moves.propose_swap(rng, state, prior)
        if log_ratio == -np.inf:
            continue
        seen += 1
        turned += state.parents[high, low]
        split_moves.apply_swap(state, low, high)
        assert log_ratio == pytest.approx(log_density(state, prior) - log_density(before, prior), abs=1e-10)
        again = copy(state)
        refresh(again)
        same(state, again)
        split_moves.apply_swap(state, high, low)
        same(state, before)
    assert seen > 30
    assert base == LEVELS or turned > 5


@BASES
def test_edge_odds_are_those_of_the_density(base):
    for prior, state, _ in many_states(24, seed=8, base=base):
        for k in range(state.count[0]):
            for i in range(state.count[0]):
                values = []
                held = state.parents[k, i]
                log_odds = edge_log_odds(state, prior, k, i)
                for value in (1, 0):
                    set_edge(state, k, i, value)
                    values.append(log_density(state, prior))
                set_edge(state, k, i, held)
                assert log_odds == pytest.approx(values[0] - values[1], abs=1e-10)


def test_published_birth_and_death_in_lebesgue_form():
    """Interval x (n_i + 1) K / ((K + 1)(K_i + 1)), and its reverse."""
    children = np.zeros(40, np.uint8)
    seen = 0
    for prior, state, rng in many_states(200, seed=9):
        theta, log_ratio = orphan_moves.propose_singleton(rng, state, prior, children)
        if log_ratio == -np.inf:
            continue
        seen += 1
        before = copy(state)
        n = before.count[0]
        (i,) = np.flatnonzero(children[:n])
        cuts = np.sort([0.0, 1.0, *before.reputations[:n]])
        length = cuts[cuts > theta].min() - cuts[cuts < theta].max()
        above = (before.reputations[:n] > before.reputations[i]).sum()
        k = insert_node(state, theta, children)
        single = [
            x for x in range(n + 1) if is_orphan(state, x) and state.n_children[x] == 1 and state.parents[x, i] == 1
        ]
        expected = log_density(state, prior) - log_density(before, prior)
        expected += np.log(length * (above + 1) * n / ((n + 1) * len(single)))
        assert log_ratio == pytest.approx(expected, abs=1e-10)
        for _ in range(100):
            chosen, drawn = orphan_moves.propose_singleton_death(rng, state, prior)
            if chosen == k:
                assert drawn == pytest.approx(-log_ratio, abs=1e-10)
    assert seen > 100


def test_insertion_ratio_does_not_see_the_node_it_leaves_out():
    for prior, state, rng in many_states(60, seed=10, base=MIXED_BASE):
        children = np.zeros(40, np.uint8)
        theta, log_ratio = propose_orphan(rng, state, prior, children)
        if log_ratio == -np.inf:
            continue
        before = insertion_log_ratio(state, prior, theta, -1)
        k = insert_node(state, theta, children)
        assert insertion_log_ratio(state, prior, theta, k) == pytest.approx(before, abs=1e-12)


def test_published_reputation_move_has_the_ratio_of_the_densities():
    for prior, state, rng in many_states(60, seed=11):
        i = int(rng.integers(state.count[0]))
        before = log_density(state, prior)
        theta, log_ratio = propose_reputation(rng, state, prior, i)
        if i < state.fixed.size and state.fixed[i]:
            assert log_ratio == -np.inf
            continue
        place_node(state, i, theta)
        assert log_ratio == pytest.approx(log_density(state, prior) - before, abs=1e-10)
