"""Log likelihoods of rows and of tables under recorded networks, against quadrature; leave-one-out by ArviZ."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import expit, logsumexp
from scipy.stats import norm

import pymc_spn as ps
from tests import sampled_runs
from tests.indian_chefs.small_graphs import graph, ring

pytestmark = pytest.mark.filterwarnings(
    "ignore:.* births were refused:UserWarning"
)  # there is room for one hidden node

Z = np.linspace(-9.0, 9.0, 3601)  # standard deviations of the hidden activation
MASS = norm.logpdf(Z) + np.log(Z[1] - Z[0])
NLGBN, LINEAR = "nonlinear", "linear"


def table():
    X = ring(25)
    X.loc[3, "y"] = np.nan
    return X


def sampled(kind):
    """At most one hidden node, over which quadrature is exact to rounding."""
    X = table()
    with pm.Model() as model:
        g = graph(max_nodes=3)
        if kind == NLGBN:
            ps.NLGBN("data", g, observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
        else:
            ps.LinearGaussianNetwork("data", g, observed=X.fillna(0.0))
    return sampled_runs.draw(model, 40, 40)


@pytest.fixture(scope="module")
def runs():
    return {kind: sampled(kind) for kind in (NLGBN, LINEAR)}


def by_quadrature(idata, n_pool):
    """(chain, draw, row) log densities of the rows, and the standard errors that pools of that size have."""
    X = table()
    scaling = ps.indian_chefs.UnitScaling.from_data(X)
    unit = scaling.transform(X).to_numpy()
    a, slope = np.log(unit) - np.log1p(-unit), np.log(scaling.slope) - np.log(unit * (1 - unit))
    network = ps.unpack(idata)["data"].dataset
    shape = network["biases"].shape[:2]
    out, error = np.zeros((*shape, len(X))), np.zeros((*shape, len(X)))
    for c, t in np.ndindex(*shape):
        w, b, rho = (network[k].values[c, t].astype(float) for k in ("weights", "biases", "precisions"))
        hidden = expit(b[2] + Z / np.sqrt(rho[2])) if np.isfinite(b[2]) else np.zeros(len(Z))
        log_row = np.zeros((len(X), len(Z)))
        for d in (0, 1):
            term = norm.logpdf(a[:, d, None], b[d] + w[2, d] * hidden, rho[d] ** -0.5) + slope[:, d, None]
            log_row += np.where(np.isnan(a[:, d, None]), 0.0, term)
        out[c, t] = logsumexp(MASS + log_row, axis=1)
        second = logsumexp(MASS + 2.0 * log_row, axis=1)
        error[c, t] = np.sqrt(np.maximum(np.expm1(second - 2.0 * out[c, t]), 0.0) / n_pool)
    return out, error


def test_log_likelihood_of_rows_and_of_the_table(runs):
    """Both of each recorded draw; the table's own pool has 1,000 draws, whose errors add up at most."""
    idata = runs[NLGBN]
    assert set(np.unique(idata["sample_stats"]["g_n_nodes"])) == {2, 3}
    post = ps.NLGBNPosterior.from_idata(idata)
    group = post.log_likelihood(random_seed=1)
    assert list(group.data_vars) == ["data"] and group["data"].dims == ("chain", "draw", "data_row")
    exact, error = by_quadrature(idata, 2000)
    # in single precision parameters have seven digits, and a row some twenty nats
    assert (np.abs(group["data"] - exact) < 5 * error + 1e-4).all()
    assert group["data"].attrs["exactness"] == "monte-carlo" and "mcse" in group["data"].attrs
    exact, error = by_quadrature(idata, 1000)
    bound = 5 * error.sum(-1) + 1e-3
    assert (np.abs(post.log_data - exact.sum(-1)) < bound).all()
    # mistakes that this sees: the map to the unit interval forgotten, the gap taken for a value
    forgotten = 24 * np.log(post.schema.scaling.slope).sum()
    assert (np.abs(post.log_data - forgotten - exact.sum(-1)) > bound).all()
    filled = table().fillna(-1.05)
    wrong = post.log_likelihood(filled, random_seed=1)["data"].sum("data_row")
    assert (np.abs(wrong - exact.sum(-1)) > bound).mean() > 0.5


def test_linear_networks_are_exact(runs):
    post = ps.BeliefNetworkPosterior.from_idata(runs[LINEAR])
    group = post.log_likelihood()
    assert group["data"].attrs == {"exactness": "exact"}
    np.testing.assert_allclose(group["data"].sum("data_row"), post.log_data, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")  # of eighty draws
def test_arviz_leaves_one_out_and_compares(runs, tmp_path):
    idatas = {}
    for kind, idata in runs.items():
        post = ps.BeliefNetworkPosterior.from_idata(idata)
        post.save(tmp_path / "post.nc")
        group = ps.load(tmp_path / "post.nc").log_likelihood(random_seed=2)  # training rows are saved
        xr.testing.assert_identical(group.to_dataset(), post.log_likelihood(random_seed=2).to_dataset())
        idatas[kind] = idata.copy()
        idatas[kind]["log_likelihood"] = group
        loo = az.loo(idatas[kind])
        logs = group["data"].values.reshape(-1, group.sizes["data_row"])
        plain = -(logsumexp(-logs, axis=0) - np.log(len(logs))).sum()  # the importance estimate without smoothing
        assert loo.elpd == pytest.approx(plain, abs=1.0)
    table = az.compare(idatas)
    assert set(table.index) == set(runs)


def test_rows_without_a_cell_are_no_data(runs):
    post = ps.NLGBNPosterior.from_idata(runs[NLGBN])
    X = table()
    X.loc[7] = np.nan
    group = post.log_likelihood(X, n_pool=50)
    assert 7 not in group["data_row"] and group.sizes["data_row"] == 24
    X = X.set_axis([f"r{i}" for i in range(len(X))])
    assert post.log_likelihood(X, n_pool=50)["data_row"].values[0] == "r0"


def test_training_rows_that_are_not_there(runs):
    idata = runs[NLGBN].copy()
    del idata["observed_data"]
    with pytest.raises(ValueError, match="X must be given: the results do not hold the training rows, 'data'"):
        ps.NLGBNPosterior.from_idata(idata).log_likelihood()


def test_pymc_does_not_evaluate_stored_draws(runs):
    X = table()
    with pm.Model() as model:
        ps.NLGBN("data", graph(), observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
    with pytest.raises(ValueError, match=r"add post\.log_likelihood\(\) of the network's posterior object"):
        sampled_runs.draw(model, 2, 2, idata_kwargs={"log_likelihood": True})


def test_observed_parents_leave_the_log_joint():
    """One pool cannot serve all rows where an observed node is a parent: nothing is recorded then."""
    X = ring(20)
    with pm.Model() as model:
        g = graph(reputations=None, start=(np.array([[0, 1], [0, 0]]), np.array([0.6, 0.2])))
        ps.NLGBN("data", g, observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
    idata = sampled_runs.draw(model, 30, 0, chains=1)
    found = idata["sample_stats"]["data_log_density"]
    assert found.isnull().any()
    post = ps.NLGBNPosterior.from_idata(idata)
    assert post.log_data is None and "log joint" in repr(post)
    assert np.isfinite(post.log_likelihood(n_pool=50)["data"]).all()
