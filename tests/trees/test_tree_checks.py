"""ArviZ's predictive checks and comparisons of a decision tree in a model, and the names in its results."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps

RNG = np.random.default_rng(0)
X = pd.DataFrame({"left": RNG.normal(size=40), "right": RNG.normal(size=40)})
Y = np.where(X["left"] > 0.0, 3.0, 0.0) + RNG.normal(size=40)


@pytest.fixture(scope="module")
def run():
    with pm.Model(coords={"case": [f"case {i}" for i in range(40)]}):
        tree = ps.DecisionTree("t", X)
        ps.TreeResponse("y", tree, family="real", observed=Y, dims="case")
        idata = pm.sample(250, tune=50, chains=2, cores=1, random_seed=1, progressbar=False)
        prior = pm.sample_prior_predictive(20, random_seed=1)
        ps.trees.load_trees(idata)
        after = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    return idata, prior, after


def test_rows_have_their_names(run):
    idata, prior, after = run
    for values in (idata["observed_data/y"], prior["prior_predictive/y"], after["posterior_predictive/y"]):
        assert values["case"].values.tolist() == [f"case {i}" for i in range(40)]


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # chains are short
def test_arviz_checks_and_compares_trees(run):
    idata, prior, after = run
    idata = idata.copy()
    idata["posterior_predictive"], idata["prior_predictive"] = after["posterior_predictive"], prior["prior_predictive"]
    logs = (
        ps.TreePosterior.from_idata(idata)
        .log_likelihood()
        .rename(row="case")
        .assign_coords(idata["observed_data"].coords)
    )
    idata["log_likelihood"] = xr.DataTree(logs.to_dataset(name="y"))
    az.plot_ppc_dist(idata, backend="none")
    az.plot_ppc_dist(idata, group="prior_predictive", num_samples=10, backend="none")
    az.plot_loo_pit(idata, backend="none")
    assert set(az.compare({"one": az.loo(idata), "again": az.loo(idata)}).index) == {"one", "again"}
    # what is simulated follows the trees: far means on both sides of the step, none where the sides are exchanged
    drawn = idata["posterior_predictive/y"].mean(("chain", "draw")).values
    above = (X["left"] > 0.0).to_numpy()
    step = drawn[above].mean() - drawn[~above].mean()
    assert abs(step - (Y[above].mean() - Y[~above].mean())) < 1.0 and abs(step) > 1.5
