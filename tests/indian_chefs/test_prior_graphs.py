"""Graphs that `pm.sample_prior_predictive` drew answer as posterior draws do, with the law of the process."""

import numpy as np
import pymc as pm
import pytest

import pymc_spn as ps

DRAWS = 600


@pytest.fixture(scope="module")
def prior():
    with pm.Model():
        alpha = pm.Gamma("alpha", 50.0, 50.0)
        numbers = {"alpha": alpha, "gamma": 1.0, "phi": 1.0, "reputations": [0.0, 0.3]}
        ps.IndianChefsProcess("g", observed_nodes=("a", "b"), max_nodes=16, **numbers)
        return pm.sample_prior_predictive(DRAWS, random_seed=1)


def test_draws_of_the_prior_have_the_law_of_the_process(prior):
    draws = ps.GraphDraws.from_prior(prior)
    assert repr(draws).startswith("GraphDraws(2 observed nodes, 1 chains of 600 draws")
    np.testing.assert_array_equal(draws.hyperparameters["alpha"], prior["prior/alpha"])
    found = draws.node_count_probabilities()

    def far(gamma):
        """Largest distance from the exact law in standard errors of independent draws."""
        law = ps.indian_chefs.node_count_pmf(1.0, gamma, 2, 16, [0.0, 0.3]).sel(n_nodes=found["n_nodes"])
        law = law / law.sum()
        usual = law.values > 0.02
        return float((np.abs(found - law) / np.sqrt(law * (1 - law) / DRAWS)).values[usual].max())

    assert far(1.0) < 5.0  # alpha varies round 1 by 0.14, which moves the law little
    assert far(1.4) > 5.0
    edges = draws.edge_probabilities()
    assert edges.sel(parent="a", child="a") == 0.0 and float(edges.sel(parent="b", child="a")) >= 0.0
    means = [draws.counts.mean(), draws.parents.sum((-2, -1)).mean()]
    assert draws.summary()["mean"].astype(float).to_dict() == pytest.approx(
        dict(zip(["n_nodes", "n_edges"], means, strict=True)), rel=0.01
    )


def test_what_holds_no_prior_graph_is_refused(prior):
    with pytest.raises(ValueError, match="prior_predictive"):
        ps.GraphDraws.from_prior(prior.filter(lambda node: node.name != "prior_predictive"))
    with pytest.raises(ValueError, match="'h'"):
        ps.GraphDraws.from_prior(prior, "h")
