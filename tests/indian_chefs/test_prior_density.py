"""The log density against integrals, hand values, its own gradient; and the law of the number of nodes."""

import numpy as np
import pytest
from scipy.integrate import quad

from pymc_spn.indian_chefs.graph_state import insert_node, is_admissible, refresh, set_edge
from pymc_spn.indian_chefs.prior_density import log_density, log_density_gradient, make_prior
from tests import reference_indian_chefs as reference
from tests.indian_chefs.small_graphs import CONFIGURATIONS, LEVELS, MIXED_BASE, copy, many_states, observed


def arrays(state):
    n = state.count[0]
    return state.parents[:n, :n].astype(bool), state.reputations[:n], state.fixed.size


@pytest.mark.parametrize("base", [None, MIXED_BASE, LEVELS], ids=["uniform", "mixed", "levels"])
def test_log_density_equals_that_of_beta_integrals(base):
    for prior, state, _ in many_states(120, seed=1, base=base):
        numbers = prior.alpha, prior.gamma, prior.phi
        expected = reference.log_density(*arrays(state), *numbers, state.fixed.astype(bool), base)
        assert np.isfinite(expected)
        assert log_density(state, prior) == pytest.approx(expected, rel=1e-12, abs=1e-10)


def test_one_observed_node_alone_is_worth_minus_gamma():
    for alpha in (0.3, 1.0, 5.0):
        assert log_density(observed([0.0]), make_prior(alpha, 1.7, 2.0)) == pytest.approx(-1.7)


def test_the_chance_of_one_hidden_node_is_the_integral_of_the_density():
    prior = make_prior(1.0, 1.5, 1.0)

    def density(theta):
        state = observed([0.0])
        insert_node(state, theta, np.ones(40, np.uint8))
        return np.exp(log_density(state, prior))

    assert quad(density, 0.0, 1.0)[0] == pytest.approx(0.235462, abs=1e-6)


def test_the_model_with_K_candidates_tends_to_the_density_at_rate_one_over_K():
    seen = 0
    for prior, state, _ in many_states(24, seed=2):
        if not state.fixed.all():
            continue
        numbers = prior.alpha, prior.gamma, prior.phi
        limit = log_density(state, prior)
        errors = [reference.log_density_finite(*arrays(state), *numbers, K) - limit for K in (1e4, 1e5, 1e6)]
        if abs(errors[1]) > 1e-6:  # with one observed node and gamma = 2 the term in 1/K vanishes
            seen += 1
            np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 10.0, rtol=0.03)
    assert seen > 10


def test_gradient_equals_differences():
    for base in (None, MIXED_BASE):
        for prior, state, _ in many_states(24, seed=3, base=base):
            gradient = np.empty(3)
            log_density_gradient(state, prior, gradient)
            for j, name in enumerate(("alpha", "gamma", "phi")):
                h = 1e-5
                up, down = (prior._replace(**{name: getattr(prior, name) + s}) for s in (h, -h))
                difference = (log_density(state, up) - log_density(state, down)) / (2 * h)
                assert gradient[j] == pytest.approx(difference, rel=1e-6, abs=1e-6)


def test_what_breaks_the_order_or_has_no_child_is_impossible():
    prior = make_prior(1.0, 1.0, 1.0)
    state = observed([0.0, 0.0])
    set_edge(state, 0, 1, 1)
    assert log_density(state, prior) == -np.inf
    state = observed([0.0])
    insert_node(state, 0.5, np.zeros(40, np.uint8))
    assert log_density(state, prior) == -np.inf


def test_the_state_after_changes_equals_that_from_scratch():
    for base in (None, MIXED_BASE):
        for _, state, _ in many_states(60, seed=4, base=base):
            again = copy(state)
            refresh(again)
            n = state.count[0]
            for name in ("n_children", "n_parents", "n_below"):
                np.testing.assert_array_equal(getattr(state, name)[:n], getattr(again, name)[:n])
            assert (np.diff(state.reputations[state.order[:n]]) >= 0).all()
            assert is_admissible(state)


def test_configurations_cover_fixed_and_free():
    assert {np.isnan(r).any() for r in CONFIGURATIONS.values()} == {True, False}
