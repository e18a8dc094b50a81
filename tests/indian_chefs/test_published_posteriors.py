"""The published moves where a graph is a posterior: terms of a model, and belief networks."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_spn as ps
from pymc_spn.indian_chefs.graph_moves import ORPHANS, SINGLETONS
from pymc_spn.indian_chefs.network_sweep import EDGES
from tests import sampled_runs
from tests.indian_chefs.small_graphs import graph, ring


def edges_and_reputations(g):
    """A term of each part of a graph that the published moves change."""
    edges = pt.cast(g.parents.sum(), "float64")
    # twice the sum of reputations of parents over edges
    return -0.5 * (edges - 4.0) ** 2 + 2.0 * (g.reputations[:, None] * g.parents).sum()


def weighed_forward_draws(n=20_000):
    """Means of nodes, edges and hidden reputations under the posterior, by weights of exact draws, and their errors."""
    found = ps.indian_chefs.sample_indian_chefs(1.0, 1.0, 1.0, n_observed=2, draws=n, random_seed=5)
    parents, theta = found["parents"].values, np.nan_to_num(found["reputations"].values)
    edges = parents.sum((1, 2))
    log_weight = -0.5 * (edges - 4.0) ** 2 + 2.0 * (theta[:, :, None] * parents).sum((1, 2))
    weight = np.exp(log_weight - log_weight.max()) * (found["n_active"].values <= 10)
    weight /= weight.sum()
    values = np.column_stack([found["n_active"].values, edges, theta.sum(1)]).astype(float)
    mean = weight @ values
    return mean, np.sqrt((weight[:, None] ** 2 * (values - mean) ** 2).sum(0)), values.mean(0)


def test_terms_of_a_model_weigh_published_moves():
    """Nodes, edges and reputations; the power is that the prior's means are far off."""
    with pm.Model() as model:
        g = graph()
        pm.Potential("term", edges_and_reputations(g))
        step = ps.steps.IndianChefsStep(moves="published", repeats=4)
    idata = sampled_runs.draw(model, 800, 50, step=[step])
    mean, error, prior = weighed_forward_draws()
    stats = idata["sample_stats"]
    for j, name in enumerate(("g_n_nodes", "g_n_edges", "g_hidden_reputation")):
        values = stats[name].values.astype(float)
        ess = float(np.asarray(az.ess(values, method="mean")))
        assert ess > 60
        spread = np.hypot(error[j], values.std() / np.sqrt(ess))
        assert abs(values.mean() - mean[j]) < 4 * spread
        assert abs(prior[j] - mean[j]) > 6 * spread


def test_a_network_is_sampled_by_the_published_moves():
    X = ring()
    with pm.Model() as model:
        gamma = pm.Gamma("gamma", 2, 2)
        ps.NLGBN("data", graph(gamma=gamma), observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
        step = ps.steps.NLGBNStep(moves="published", births=6)
    idata = sampled_runs.draw(model, 60, 20, chains=1, step=[step])
    tally = step.chain.tally
    assert (tally[2 * ORPHANS : 2 * ORPHANS + 2] == 0).all() and tally[2 * SINGLETONS, 1] > 0
    assert tally[EDGES, 0] == 6 * 80
    assert np.ptp(idata["sample_stats"]["g_n_nodes"].values) > 0
    assert np.isfinite(ps.NLGBNPosterior.from_idata(idata).log_density(X[:3], random_seed=1)).all()


def test_other_names_and_atoms_are_refused():
    with pm.Model():
        ps.NLGBN("data", graph(base={"uniform": 0.5, 1.0: 0.5}), observed=ring() * 0.3 + 0.5)
        with pytest.raises(ValueError, match='moves must be "all" where the base measure has atoms'):
            ps.steps.NLGBNStep(moves="published")
        with pytest.raises(ValueError, match=r"moves must be one of \['all', 'published'\]; got 'none'"):
            ps.steps.NLGBNStep(moves="none")
