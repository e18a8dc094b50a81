"""Simulated tables for ArviZ: their distribution is the predictive of each draw, and ArviZ's functions take them."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from tests.hand_made_records import sampled_tree

pytestmark = pytest.mark.usefixtures("integrated")

DRAWS = 300


@pytest.fixture(scope="module")
def idata():
    return sampled_tree("missing", draws=DRAWS)


@pytest.fixture(scope="module")
def post(idata):
    return ps.SPNPosterior.from_idata(idata)


def test_each_draw_simulates_from_its_own_predictive(post):
    drawn = post.posterior_predictive(random_seed=1)["x"]
    n_rows = post._states.record.table.shape[0]
    assert drawn.dims == ("chain", "draw", "x_row", "x_column") and drawn.shape == (2, DRAWS, n_rows, 3)
    assert drawn["x_row"].values.tolist() == post._states.record.rows.tolist()
    assert drawn["x_column"].values.tolist() == ["x0", "x1", "x2"] and drawn.attrs["exactness"] == "exact simulation"
    of_draws = post.probability({"x1": 1}, per_draw=True).values.ravel()
    found = drawn.sel(x_column="x1").values.reshape(2 * DRAWS, n_rows)

    def far(chances):
        """Standardised: five standard errors of a mean of independent cells."""
        off = (found.mean(axis=1) - chances) * chances  # weighed by the chances: seen if draws were exchanged
        sd = np.sqrt((chances**2 * of_draws * (1 - of_draws) / n_rows).sum())
        return abs(off.sum()) / sd

    assert far(of_draws) < 5.0
    assert far(1.0 - of_draws) > 5.0  # the level that is not asked for
    np.testing.assert_array_equal(drawn, post.posterior_predictive(random_seed=1)["x"])
    assert not np.array_equal(drawn, post.posterior_predictive(random_seed=2)["x"])


def test_arviz_draws_its_checks(idata, post):
    idata = idata.copy()
    idata["posterior_predictive"] = post.posterior_predictive(random_seed=1)
    az.plot_ppc_dist(idata, coords={"x_column": "x2"}, backend="none")
    check = post.predictive_check("x2", random_seed=1)
    table = post._states.record.table
    seen = ~np.isnan(table[:, 2])
    np.testing.assert_array_equal(check["observed_data/x2"], table[seen, 2])
    np.testing.assert_array_equal(check["posterior_predictive/x2"], idata["posterior_predictive/x"][..., seen, 2])
    az.plot_ppc_dist(check, backend="none")
    az.plot_loo_pit(check, backend="none")
    idata["log_likelihood"] = post.log_likelihood()
    compared = az.compare({"one": az.loo(idata), "again": az.loo(idata)})
    assert set(compared.index) == {"one", "again"}


def test_only_of_the_posterior_as_sampled(post):
    for asked in (post.condition({"x1": 1}), post.marginal(["x0"])):
        with pytest.raises(ValueError, match="posterior_predictive needs the posterior as sampled"):
            asked.posterior_predictive()
    with pytest.raises(ValueError, match="column"):
        post.predictive_check("other")


def test_pairs_of_rows_in_the_prior_predictive_of_the_infinite_network():
    """Two rows agree in both columns by way of one child of the root, or by chance in each of two.

    Two binary columns, masses c of the root and u of a sum over one column, Dirichlet mass m of each level.
    """
    c, u, m, draws = 2.0, 1.5, 0.2, 2_000  # of 1,000 the nearest wrong value is 5.4 standard deviations away
    frame = pd.DataFrame({"a": [0, 1, 0], "b": [1, 1, np.nan]}).astype({"b": "Int64"})
    even = dict.fromkeys(["a", "b"], ps.leaves.Bernoulli(probabilities=[0.5, 0.5]))
    options = {"leaf_scale": 1.0 / m, "leaves": even, "kinds": {"a": "binary", "b": "binary"}}
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(["a", "b"]), observed=frame, concentration=[c, u], **options)
        idata = pm.sample_prior_predictive(draws, random_seed=1)
    drawn = idata["prior_predictive/x"]
    assert drawn.dims == ("chain", "draw", "x_row", "x_column") and drawn["x_column"].values.tolist() == ["a", "b"]
    assert np.isnan(drawn.values[0, :, 2, 1]).all()  # as in the table
    one, two = drawn.values[0, :, 0], drawn.values[0, :, 1]
    found = (one == two).all(axis=1).mean()
    leaf = (m + 1.0) / (2.0 * m + 1.0)
    column = (leaf + 0.5 * u) / (1.0 + u)
    want = (column**2 + 0.25 * c) / (1.0 + c)
    sd = np.sqrt(want * (1.0 - want) / draws)
    assert abs(found - want) < 5.0 * sd
    for wrong in (column**2, ((leaf + 0.5 * c) / (1.0 + c)) ** 2, (leaf**2 + 0.25 * c) / (1.0 + c)):
        assert abs(found - wrong) > 5.0 * sd  # one component alone; columns on their own; one leaf in each column
    np.testing.assert_allclose(one.mean(axis=0), 0.5, atol=5.0 * np.sqrt(0.25 / draws))
    with pytest.warns(UserWarning, match="look binary"):  # after which ArviZ draws them
        az.plot_ppc_dist(idata, group="prior_predictive", coords={"x_column": "a"}, num_samples=10, backend="none")
