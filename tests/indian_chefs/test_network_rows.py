"""Rows with gaps and conditions: belief networks against quadrature, enumeration and closed forms."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm

import pymc_spn as ps
from pymc_spn.indian_chefs.network_chain import Gaps, NetworkChain
from tests import sampled_runs
from tests.indian_chefs.handmade_networks import handmade, of_networks
from tests.indian_chefs.joint_chains import residual_error
from tests.indian_chefs.small_graphs import graph, ring

NONLINEAR, LINEAR, SIGMOID = "nonlinear gaussian", "linear gaussian", "sigmoid"
GRID = np.linspace(-12.0, 12.0, 1201)  # of an activation, in steps of 0.02
STEP = GRID[1] - GRID[0]


def network(shift=0.0):
    """One hidden node above x and y: weights, biases, precisions."""
    weights = np.zeros((3, 3))
    weights[2, :2] = 3.0 + shift, -2.5
    return weights, [-1.0 + shift, 0.5, 0.2], [4.0, 2.0, 0.5]


def log_joint(cells, parameters):
    """Log density of rows of one hidden node above x and y, which have no edge, by quadrature over its activation."""
    weights, biases, rho = (np.asarray(p, float) for p in parameters)
    total = norm.logpdf(GRID, biases[2], rho[2] ** -0.5) + np.log(STEP) + np.zeros((len(cells), 1))
    for d in (0, 1):
        x = cells[:, d, None]
        at = norm.logpdf(np.log(x / (1 - x)), biases[d] + weights[2, d] * expit(GRID), rho[d] ** -0.5)
        total = total + np.where(np.isnan(x), 0.0, at - np.log(x * (1 - x)))
    return logsumexp(total, axis=1)


ROWS = np.array([[0.2, 0.7], [0.8, 0.4], [0.55, 0.1]])
ONE = [[network()]]
TWO = [[network()], [network(1.5)]]  # as chains, which weigh rows differently


def gapped(column):
    rows = ROWS.copy()
    rows[:, column] = np.nan
    return rows


def of_networks_log(cells, chains):
    each = np.array([log_joint(cells, network) for chain in chains for network in chain])
    return logsumexp(each, axis=0) - np.log(len(each))


@pytest.mark.parametrize("chains", [ONE, TWO], ids=["one network", "two networks"])
def test_gaps_are_summed_out_and_what_is_given_weighs_networks(chains):
    post = of_networks(chains, NONLINEAR)
    X = pd.DataFrame(ROWS, columns=["x", "y"], index=["a", "b", "c"])
    for column in (0, 1):
        found = post.log_density(gapped(column), n_pool=20_000, random_seed=1)
        assert np.abs(found - of_networks_log(gapped(column), chains)).max() < 5 * found.attrs["mcse"]
    want = of_networks_log(ROWS, chains) - of_networks_log(gapped(1), chains)
    found = post.log_density(X, given=X[["x"]], n_pool=20_000, random_seed=2)
    assert found["row"].values.tolist() == ["a", "b", "c"]
    assert found.attrs["exactness"] == "monte-carlo given the draws"
    assert np.abs(found - want).max() < 5 * found.attrs["mcse"] < 0.1
    same = post.log_density(X[["y"]], given={"x": ROWS[:, 0]}, n_pool=20_000, random_seed=2)
    np.testing.assert_array_equal(found, same)
    each = post.log_density(X, given=X[["x"]], n_pool=20_000, per_draw=True, random_seed=3)
    alone = [log_joint(ROWS, chain[0]) - log_joint(gapped(1), chain[0]) for chain in chains]
    assert np.abs(each[:, 0] - alone).max() < 5 * each.attrs["mcse"]
    if len(chains) > 1:  # the mistake that this test is for: networks that count alike, whatever is given
        wrong = logsumexp(alone, axis=0) - np.log(2)
        assert np.abs(found - wrong).max() > 10 * found.attrs["mcse"]
        assert found.attrs["mcse_chain"] > 0.01


def test_the_error_of_a_condition_is_that_of_repeated_pools():
    """Spread of 200 answers; an estimate of it is good to a tenth (two standard errors)."""
    post = of_networks(TWO, NONLINEAR)
    for given in (None, {"x": 0.2}):
        found = [post.log_density(ROWS[:1], given, n_pool=500, random_seed=s) for s in range(200)]
        claimed = np.mean([f.attrs["mcse"] for f in found])
        assert claimed == pytest.approx(np.std([f.item() for f in found]), rel=0.2)
    means = [post.predict(gapped(1)[:1], "y", n_pool=500, random_seed=s) for s in range(200)]
    claimed = np.mean([m.attrs["mcse"] for m in means])
    assert claimed == pytest.approx(np.std([m.item() for m in means]), rel=0.2)


def conditional_of_y(chains):
    """(rows, grid) density of y given x, on a grid of y."""
    y = (np.arange(400) + 0.5) / 400
    out = []
    for x in ROWS[:, 0]:
        cells = np.column_stack([np.full(400, x), y])
        out.append(np.exp(of_networks_log(cells, chains)))
    out = np.array(out)
    return y, out / out.sum(1, keepdims=True)


@pytest.mark.parametrize("chains", [ONE, TWO], ids=["one network", "two networks"])
def test_predictions_and_completions_have_the_conditional_law(chains):
    post = of_networks(chains, NONLINEAR)
    y, law = conditional_of_y(chains)
    mean = law @ y
    found = post.predict(gapped(1), "y", n_pool=20_000, random_seed=1)
    assert (np.abs(found - mean) < 5 * found.attrs["mcse"]).all() and (found.attrs["mcse"] < 0.01).all()
    same = post.predict(pd.DataFrame(ROWS[:, :1], columns=["x"]), "y", n_pool=20_000, random_seed=1)
    np.testing.assert_array_equal(found, same)
    tables = post.impute(gapped(1), 4_000, random_seed=2, n_pool=20_000)
    drawn = np.array([t.to_numpy() for t in tables])
    np.testing.assert_array_equal(drawn[0, :, 0], ROWS[:, 0])
    for power in (1, 2):
        values = drawn[:, :, 1] ** power
        # 4,000 completions choose among a pool, whose own error stands beside theirs
        error = values.std(0) * np.sqrt(1 / 4_000 + 1 / tables[0].attrs["draws_after_weighting"])
        assert (np.abs(values.mean(0) - law @ y**power) < 5 * error).all()
    given = post.sample(4_000, {"x": ROWS[0, 0]}, random_seed=3, n_pool=20_000)
    assert (given["x"] == ROWS[0, 0]).all()
    error = given["y"].std() * np.sqrt(1 / 4_000 + 1 / given.attrs["draws_after_weighting"])
    assert abs(given["y"].mean() - mean[0]) < 5 * error
    # the mistake that these tests are for: the marginal of y, without the row
    assert abs(post.sample(4_000, random_seed=3)["y"].mean() - mean[0]) > 10 * error


def test_observed_nodes_with_children_are_put_in_their_places():
    """x above a hidden node above y: with x known, with y known, and with the mean of x given y."""
    weights = np.zeros((3, 3))
    weights[0, 2], weights[2, 1] = 3.0, -2.5
    biases, rho = np.array([0.3, 0.5, -1.0]), np.array([1.5, 2.0, 3.0])
    post = handmade(weights, biases, rho, NONLINEAR)
    a = np.log(ROWS / (1 - ROWS))
    slope = -np.log(ROWS * (1 - ROWS))
    log_x = norm.logpdf(a[:, 0], biases[0], rho[0] ** -0.5)

    def log_y_given(x):  # (rows, ...) by quadrature over the hidden activation
        hidden = norm.logpdf(GRID, biases[2] + 3.0 * np.asarray(x)[..., None], rho[2] ** -0.5) + np.log(STEP)
        below = norm.logpdf(a[:, 1].reshape(-1, *[1] * np.ndim(x)), biases[1] - 2.5 * expit(GRID), rho[1] ** -0.5)
        return logsumexp(hidden + below, axis=-1)

    conditional = log_y_given(ROWS[:, 0])
    found = post.log_density(ROWS, given={"x": ROWS[:, 0]}, n_pool=20_000, random_seed=1)
    assert np.abs(found - conditional - slope[:, 1]).max() < 5 * found.attrs["mcse"]
    found = post.log_density(ROWS, n_pool=20_000, random_seed=2)
    assert np.abs(found - conditional - log_x - slope.sum(1)).max() < 5 * found.attrs["mcse"]
    points = np.linspace(-6, 6, 241)
    prior = norm.logpdf(points, biases[0], rho[0] ** -0.5) + np.log(points[1] - points[0])
    each = np.array([log_y_given(expit(np.full(len(ROWS), p))) for p in points]).T + prior
    found = post.log_density(gapped(0), n_pool=20_000, random_seed=3)
    assert np.abs(found - logsumexp(each, axis=1) - slope[:, 1]).max() < 5 * found.attrs["mcse"]
    share = np.exp(each - logsumexp(each, axis=1, keepdims=True))
    mean = post.predict(gapped(0), "x", n_pool=20_000, random_seed=4)
    assert (np.abs(mean - share @ expit(points)) < 5 * mean.attrs["mcse"]).all()
    tables = post.impute(gapped(0), 2_000, random_seed=5, n_pool=20_000)
    x = np.array([t["x"] for t in tables])
    error = x.std(0) * np.sqrt(1 / 2_000 + 1 / tables[0].attrs["draws_after_weighting"])
    assert (np.abs(x.mean(0) - share @ expit(points)) < 5 * error).all()
    # the mistake: y without a say in what x was
    assert (np.abs(mean - np.exp(prior) @ expit(points)) > 10 * mean.attrs["mcse"]).any()


def test_linear_answers_are_those_of_the_normal():
    weights = np.zeros((4, 4))
    weights[0, 1], weights[3, 0], weights[3, 2] = 0.5, -1.0, 2.0
    post = of_networks([[(weights, [0.1, 0.2, -0.4, 0.3], [1.0, 2.0, 3.0, 0.5])]], LINEAR, ("x", "y", "z"))
    inverse = np.linalg.inv(np.eye(4) - weights.T)
    mean = (inverse @ [0.1, 0.2, -0.4, 0.3])[:3]
    cov = (inverse @ np.diag([1.0, 0.5, 1 / 3, 2.0]) @ inverse.T)[:3, :3]
    rows = np.array([[0.3, np.nan, 1.0], [np.nan, -0.5, np.nan], [np.nan] * 3, [0.1, 0.2, 0.3]])
    want = []
    for row in rows:
        seen = ~np.isnan(row)
        want.append(multivariate_normal.logpdf(row[seen], mean[seen], cov[np.ix_(seen, seen)]) if seen.any() else 0.0)
    found = post.log_density(rows)
    np.testing.assert_allclose(found, want, atol=1e-6)  # parameters are recorded in single precision
    assert found.attrs["mcse"] == 0.0 and found.attrs["exactness"] == "exact given the draws"
    given = post.log_density(rows[3:], given={"x": 0.1, "z": 0.3})
    marginal = multivariate_normal.logpdf([0.1, 0.3], mean[[0, 2]], cov[np.ix_([0, 2], [0, 2])])
    assert given.item() == pytest.approx(want[3] - marginal, abs=1e-6)
    slope = np.linalg.solve(cov[np.ix_([0, 2], [0, 2])], cov[[0, 2], 1])
    centre = mean[1] + slope @ (rows[0, [0, 2]] - mean[[0, 2]])
    predicted = post.predict(rows[:1], "y")
    assert (
        predicted.item() == pytest.approx(centre, abs=1e-6) and predicted.attrs["exactness"] == "exact given the draws"
    )
    tables = post.impute(rows, 4_000, random_seed=1)
    assert tables[0].attrs["exactness"] == "exact simulation given the draws"
    y = np.array([t.to_numpy()[0, 1] for t in tables])
    sd = np.sqrt(cov[1, 1] - slope @ cov[[0, 2], 1])
    assert abs(y.mean() - centre) < 5 * sd / np.sqrt(4_000) and y.std() == pytest.approx(sd, rel=0.06)
    both = np.array([t.to_numpy()[1, [0, 2]] for t in tables])
    part = cov[np.ix_([0, 2], [0, 2])] - np.outer(cov[[0, 2], 1], cov[[0, 2], 1]) / cov[1, 1]
    np.testing.assert_allclose(np.cov(both.T), part, atol=0.35)  # gaps of a row are drawn together
    assert abs(np.corrcoef(both.T)[0, 1] - part[0, 1] / np.sqrt(part[0, 0] * part[1, 1])) < 0.06


@pytest.mark.parametrize(
    "given", ["x == 0.25", {"x": slice(0.25, 0.25)}, "x == 0.25 and x < 1", {"x": 0.25, "y": pd.NA}]
)
def test_a_text_or_an_interval_of_one_value_says_what_a_number_says(given):
    post = of_networks(TWO, NONLINEAR)
    X = pd.DataFrame(ROWS, columns=["x", "y"])[["y"]]
    want = post.log_density(X, given={"x": 0.25}, n_pool=50, random_seed=1)
    np.testing.assert_array_equal(post.log_density(X, given=given, n_pool=50, random_seed=1), want)
    assert not np.array_equal(want, post.log_density(X, given={"x": 0.3}, n_pool=50, random_seed=1))
    if isinstance(given, str):
        assert (post.sample(3, given=given, n_pool=50, random_seed=1)["x"] == 0.25).all()


@pytest.mark.parametrize("given", ["x > 0", {"x": {1}}, {"x": pd.Interval(0.5, 2)}, "x == 1", {"x": True}])
def test_a_set_of_one_level_is_its_value(given):
    weights = np.zeros((3, 3))
    weights[2, :2] = 1.5, -2.0
    post = handmade(weights, [0.1, 0.2, 0.3], [1.0, 1.0, 1.0], SIGMOID)
    Y = pd.DataFrame({"y": [0.0, 1.0]})
    found = post.log_density(Y, given=given, n_pool=50, random_seed=1)
    np.testing.assert_array_equal(found, post.log_density(Y, given={"x": 1.0}, n_pool=50, random_seed=1))
    nothing = post.log_density(Y.assign(x=np.nan), given={"x": {0, 1}}, n_pool=50, random_seed=1)
    np.testing.assert_array_equal(nothing, post.log_density(Y.assign(x=np.nan), n_pool=50, random_seed=1))


def test_sigmoid_answers_are_those_of_enumeration():
    weights = np.zeros((3, 3))
    weights[2, :2] = 1.5, -2.0
    post = handmade(weights, [0.1, 0.2, 0.3], [1.0, 1.0, 1.0], SIGMOID)
    joint = np.zeros((2, 2))
    for h, p in ((0, 1 - expit(0.3)), (1, expit(0.3))):
        px, py = expit(0.1 + 1.5 * h), expit(0.2 - 2.0 * h)
        joint += p * np.outer([1 - px, px], [1 - py, py])
    rows = np.array([[0.0, np.nan], [1.0, np.nan]])
    want = joint / joint.sum(1, keepdims=True)
    found = post.predict(rows, "y", n_pool=20_000, random_seed=1)
    assert found.values.tolist() == want.argmax(1).tolist()
    assert (np.abs(found.attrs["probability"] - want.max(1)) < 5 * found.attrs["mcse"]).all()
    found = post.log_density(rows, n_pool=20_000, random_seed=1)
    assert np.abs(found - np.log(joint.sum(1))).max() < 5 * found.attrs["mcse"]
    tables = post.impute(rows, 2_000, random_seed=2, n_pool=20_000)
    share = np.mean([t["y"] for t in tables], axis=0)
    assert (np.abs(share - want[:, 1]) < 5 * np.sqrt(0.25 / 2_000)).all()


def test_answers_are_in_the_units_of_the_data():
    X = ring(30)
    scaling = ps.indian_chefs.UnitScaling.from_data(X)
    own = of_networks(TWO, NONLINEAR, scaling=scaling)
    unit = of_networks(TWO, NONLINEAR)
    rows = scaling.transform(X)
    there = unit.log_density(rows, {"x": rows["x"]}, n_pool=100, random_seed=1)
    here = own.log_density(X, {"x": X["x"]}, n_pool=100, random_seed=1)
    np.testing.assert_allclose(here, there + np.log(scaling.slope[1]), rtol=1e-9)
    here, there = own.predict(X, "y", random_seed=1), unit.predict(rows, "y", random_seed=1)
    np.testing.assert_allclose(scaling.transform(X.assign(y=here))["y"], there, rtol=1e-9)
    for mark in ("mcse", "mcse_chain"):
        np.testing.assert_allclose(here.attrs[mark] * scaling.slope[1], there.attrs[mark], rtol=1e-9)
    gap = X.assign(y=np.nan)[["y", "x"]]
    done = own.impute(gap, random_seed=1)
    assert list(done) == ["y", "x"] and (done["x"] == X["x"]).all() and done["y"].between(-3, 3).all()


def test_bad_rows_and_conditions_are_refused():
    post = of_networks(TWO, NONLINEAR)
    X = pd.DataFrame(ROWS, columns=["x", "y"])
    for given, error, match in (
        ({"z": 1.0}, ValueError, r"given names 'z'; the columns are \['x', 'y'\]"),
        ("x > 0.5", TypeError, r"given: column 'x' must have one value in a row, got within \(0\.5, inf\)"),
        ({"x": (0.1, 0.5)}, TypeError, r"given: column 'x' must have one value in a row, got within \(0\.1, 0\.5\)"),
        ({"x": {0.1, 0.5}}, ValueError, "given: column 'x' is continuous"),
        ("z == 0.5", ValueError, "given.*'z'"),
        (0.5, TypeError, "given must map column names to numbers, or be a DataFrame of them or a text; got 0.5"),
        ({"x": [0.1, 0.5]}, ValueError, "given: column 'x' must be a number or 3 numbers"),
        ({"x": 0.1}, ValueError, "given must agree with X where both have a cell: column 'x', row 0 is 0.2 in X"),
        ({"x": X["x"].iloc[::-1]}, ValueError, "must have the row labels of X, in their order"),
        ({"x": np.inf}, ValueError, "given: column 'x' must be finite"),
    ):
        with pytest.raises(error, match=match):
            post.log_density(X, given)
    with pytest.raises(
        ValueError, match=r"given must lie inside the support of the network: column 'x', row 0 is 1\.5"
    ):
        post.log_density(X[["y"]], {"x": 1.5})
    with pytest.raises(ValueError, match="df must lie inside the support of the network: column 'x', row 1 is 2;"):
        post.predict(X.assign(x=[0.1, 2.0, 0.2]), "y")
    with pytest.raises(ValueError, match=r"target must be one of \['x', 'y'\]; got 'z'"):
        post.predict(X, "z")
    with pytest.raises(ValueError, match="X must have a column of 'x', 'y', got 'z'"):
        post.log_density(X[["x"]].set_axis(["z"], axis=1))
    with pytest.warns(UserWarning, match="ignored: 'z'"):
        one = post.log_density(X[["x"]].assign(z=1), random_seed=1)
    np.testing.assert_array_equal(one, post.log_density(X.assign(y=np.nan), random_seed=1))
    with pytest.raises(ValueError, match="df must be finite: row 0, column 'x' is inf"):
        post.predict(X.assign(x=np.inf), "y")
    with pytest.raises(ValueError, match="n must be an integer of at least 0"):
        post.impute(X, -1)
    assert post.impute(X, 0) == []


# ---- gaps in the data that a network learns from


@pytest.mark.parametrize("listens", [True, False], ids=["as it is", "children without a say"])
def test_a_gap_above_a_node_is_drawn_given_its_children(listens):
    """x above y, x missing in 400 rows: moments of what is drawn against quadrature."""
    n = 400
    c = NetworkChain(np.full((n, 2), 0.8), np.array([0.6, 0.2]), np.zeros(2, bool), 4, None, None, 8, 5)
    c.put_graph(np.array([[0, 1], [0, 0]], np.uint8), np.array([0.6, 0.2]))
    c.network.weights[0, 1], c.network.biases[:2], c.network.precisions[:2] = 4.0, (0.5, -2.0), (0.8, 3.0)
    c.set_data(np.full((n, 2), 0.8))
    gaps = Gaps(np.column_stack([np.ones(n, bool), np.zeros(n, bool)]), 8)
    if not listens:
        c.network.parents[0, 1] = 0
    rng, seen = np.random.default_rng(1), []
    for t in range(300):
        gaps.redraw(rng, 2, c.network, c.work.heat)
        if t >= 20 and t % 7 == 0:
            seen.append(c.network.activations[0].copy())
    log_law = norm.logpdf(GRID, 0.5, 0.8**-0.5) + norm.logpdf(0.8, -2.0 + 4.0 * expit(GRID), 3.0**-0.5)
    law = np.exp(log_law - logsumexp(log_law))
    drawn = np.array(seen)
    error = drawn.mean(0).std() / np.sqrt(n)  # rows are independent
    assert (abs(drawn.mean() - law @ GRID) < 5 * error) == listens
    if listens:
        assert residual_error(c) < 1e-9
        np.testing.assert_allclose(c.network.outputs[0], expit(c.network.activations[0]), atol=1e-12)


@pytest.fixture(scope="module")
def with_gaps():
    X = ring(60)
    X.loc[[3, 10, 17], "y"] = np.nan
    X.loc[5, "x"] = np.nan
    X.loc[8] = np.nan
    with pm.Model() as model:
        ps.NLGBN("data", graph(), observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
    return X, model, sampled_runs.draw(model, 20, 10)


def test_a_table_with_gaps_is_learned_from_and_completed(with_gaps, tmp_path):
    X, _, idata = with_gaps
    assert np.isnan(idata["observed_data"]["data"]).sum() == X.isna().sum().sum()
    post = ps.NLGBNPosterior.from_idata(idata)
    logs = post.log_density(X, random_seed=1)
    assert np.isfinite(logs).all() and logs[8] == 0.0
    done = post.impute(X, random_seed=1)
    assert done.notna().all(axis=None) and done.where(X.notna()).equals(X)
    post.save(tmp_path / "post.nc")
    np.testing.assert_array_equal(ps.load(tmp_path / "post.nc").impute(X, random_seed=1), done)


def test_gaps_are_drawn_after_a_warm_up():
    X = ring(40)
    X.loc[[3, 10, 17], "y"] = np.nan
    with pm.Model() as model:
        ps.NLGBN("data", graph(), observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
        step = ps.steps.NLGBNStep(start="warm_up", race=((2, 5, 50), (1, 10, 50)))
    idata = sampled_runs.draw(model, 4, 2, chains=1, step=[step])
    assert np.isfinite(idata["posterior"]["g_log_joint"]).all()
    drawn = step.chain.network.activations[1, step.chain.gaps.rows[1]]
    assert not np.isin(drawn, step.chain.data[:, 1]).any()  # no longer where the chain began
