"""Trees inside `pm.sample`: the same draws wherever chains run, records, hyperparameters by NUTS, new rows."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_spn as ps
from pymc_spn.trees.record import TREES, trees_of_record
from tests import reference_trees as ref
from tests.modes import BY_PYTHON, PLAIN
from tests.sampled_runs import assert_same, draw, recorded
from tests.trees.small_trees import (
    FAMILIES,
    RESPONSES,
    RULES,
    draws_of,
    enumerated,
    frequencies,
    mixed_frame,
    probabilities,
    words,
)


def sample(model, draws=15, tune=10, chains=2, **arguments):
    return draw(model, draws, tune, chains=chains, **arguments)


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": rng.choice(list("uvw"), n)})
    frame.loc[3, "a"] = np.nan
    return frame, np.where(frame["a"] > 0, "p", np.where(frame["c"] == "u", "q", "r"))


def fixed():
    frame, y = table()
    with pm.Model() as model:
        ps.TreeResponse("y", ps.DecisionTree("t", frame), observed=y)
    return model


def learned():
    frame, y = table()
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 2.0, 0.5)
        t = ps.DecisionTree("t", frame, alpha_s=pm.Beta("s", 2, 2), beta_s=pm.Exponential.dist(2.0))
        ps.TreeResponse("y", t, family=ps.leaves.ClassLeaves(alpha), observed=y)
    return model


def several():
    """Two trees with one alpha, a third with real leaves."""
    frame, y = table()
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 2.0, 0.5)
        for name, part in (("t", frame), ("u", frame[["c"]])):
            ps.TreeResponse(f"y_{name}", ps.DecisionTree(name, part), family=ps.leaves.ClassLeaves(alpha), observed=y)
        real = ps.DecisionTree("v", frame[["a"]], max_depth=2)
        ps.TreeResponse(
            "z", real, family=ps.leaves.NormalLeaves(0.0, 0.1, 1.5, pm.Gamma("b", 2, 2)), observed=np.arange(40.0)
        )
    return model


MODELS = {"fixed": fixed, "learned": learned, "several": several}
# compiled by Numba, the gradient of several responses rounds otherwise once PyTensor's cache has it
HOW = {"fixed": {}, "learned": {}, "several": BY_PYTHON}


@pytest.fixture(scope="module")
def runs():
    found = {}
    for name, make in MODELS.items():
        model = make()
        found[name] = model, sample(model, **HOW[name])
    return found


@pytest.mark.parametrize("name", MODELS)
def test_forked_processes_and_repetition_draw_the_same(name, runs):
    assert_same(sample(MODELS[name](), cores=2, mp_ctx="fork", **HOW[name]), runs[name][1])


def test_spawned_processes_draw_the_same(runs):
    """One response: a new process may find the gradient of several in PyTensor's cache."""
    model, idata = runs["learned"]
    assert_same(sample(model, cores=2, mp_ctx="spawn"), idata)


@pytest.mark.parametrize("name", MODELS)
def test_other_seeds_and_chains_differ(name, runs):
    model, idata = runs[name]
    one, other = recorded(idata), recorded(sample(model, random_seed=2, **HOW[name]))
    key = "posterior/t_log_joint"
    assert (one[key] != other[key]).any() and (one[key][0] != one[key][1]).any()


@pytest.mark.parametrize("name", MODELS)
def test_the_recorded_log_joint_is_that_of_the_recorded_tree(name, runs):
    _, idata = runs[name]
    for tree in ("t", "u", "v") if name == "several" else ("t",):
        post = ps.TreePosterior.from_idata(idata, tree)
        np.testing.assert_allclose(post.log_joint, np.ravel(idata.posterior[f"{tree}_log_joint"]), rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_joint_of_trees_is_the_enumerated_one(family):
    frame, y = mixed_frame(), RESPONSES[family]
    truth = {ref.breadth_first(t): v for t, v in enumerated(frame, y, family, "subset")}
    post = ps.fit_tree(
        frame, y, FAMILIES[family][0], categorical="subset", exact=True, draws=50, random_seed=1, **RULES
    )
    features = draws_of(post).features
    for t in range(50):
        expected = truth[words(post.tree(t).decisions, features)]
        assert post.log_joint.values[t] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_models_density_and_gradient(family):
    """The log density that NUTS sees is the log joint of the tree at any hyperparameters."""
    frame, y = mixed_frame(), RESPONSES[family]
    made = type(FAMILIES[family][0])
    names = made.parameters
    with pm.Model() as model:
        given = {n: pm.LogNormal(n, 0.0, 0.5) for n in names if n != "mu0"}
        if "mu0" in names:
            given["mu0"] = pm.Normal("mu0")
        t = ps.DecisionTree("t", frame, alpha_s=pm.Uniform("split"), beta_s=pm.Exponential("decay", 1.0))
        rv = ps.TreeResponse("y", t, family=made(**given), observed=y)
        step = ps.steps.ParticleGibbsTreeStep(model=model)
    rng = np.random.default_rng(3)
    step.setup_chain(rng, 0, 1)
    point = model.initial_point()
    point, _ = step.step(point)
    term = model.logp(vars=[rv], sum=True)
    value = model.compile_fn(term, mode=PLAIN)(point)
    assert value == pytest.approx(float(point["t_log_joint"]), rel=1e-11)
    free = [v for v in model.value_vars if v.name != "t_log_joint"]
    rvs = [model.values_to_rvs[v] for v in free]
    gradient = model.compile_dlogp(vars=rvs, mode=PLAIN)(point)
    log_p = model.compile_logp(mode=PLAIN)
    numeric = []
    for v in free:
        up, down = dict(point), dict(point)
        up[v.name] = point[v.name] + 1e-6
        down[v.name] = point[v.name] - 1e-6
        numeric.append((log_p(up) - log_p(down)) / 2e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_trees_and_hyperparameters_together_against_a_grid():
    """alpha has an Exponential prior; its posterior, and that of the root, by enumeration on a grid."""
    frame, y = mixed_frame(), RESPONSES["classes"]
    with pm.Model() as model:
        alpha = pm.Exponential("alpha", 0.5)
        t = ps.DecisionTree("t", frame, **RULES)
        ps.TreeResponse("y", t, family=ps.leaves.ClassLeaves(alpha), observed=y)
        idata = sample(model, 1200, 300, 2, random_seed=4)
    grid = np.exp(np.linspace(np.log(1e-3), np.log(60.0), 60))
    values, leaf = [], []
    for a in grid:
        trees = ref.all_trees(
            [[0.0, 0], [1.0, 1], [np.nan, 2], [2.5, 0], [np.nan, 1]],
            y,
            ["cut", "onehot"],
            [1, 1],
            RULES["alpha_s"],
            RULES["beta_s"],
            lambda v, a=a: ref.log_marginal("classes", v, alpha=a, K=3),
        )
        z = ref.log_evidence(trees)
        values.append(z + stats.expon.logpdf(a, scale=2.0) + np.log(a))
        leaf.append(np.exp(next(v for tree, v in trees if tree is None) - z))
    p = np.exp(np.array(values) - max(values))
    p /= p.sum()
    import arviz as az

    log_alpha = np.log(idata.posterior["alpha"])
    single = (idata.sample_stats["t_leaves"] == 1).astype(float)
    for drawn, exact in ((log_alpha, p @ np.log(grid)), (single, p @ np.array(leaf))):
        ess = float(az.ess(drawn.values))
        assert ess > 150
        assert abs(float(drawn.mean()) - exact) < 5.0 * float(drawn.std()) / np.sqrt(ess)


def test_draws_have_the_enumerated_posterior():
    frame, y = mixed_frame(), RESPONSES["real"]
    with pm.Model() as model:
        ps.TreeResponse("y", ps.DecisionTree("t", frame, **RULES), family=FAMILIES["real"][0], observed=y)
        idata = sample(model, 1000, 50, 2)
    truth = probabilities(enumerated(frame, y, "real"))
    drawn = frequencies(ps.TreePosterior.from_idata(idata))
    root = {k: sum(p for t, p in truth.items() if (t[0] is None) == k) for k in (True, False)}
    assert sum(p for t, p in drawn.items() if t[0] is None) == pytest.approx(root[True], abs=0.06)


# ---- storage


# ---- new rows
def test_posterior_predictive_at_new_rows(runs):
    model, idata = MODELS["learned"](), sample(MODELS["learned"](), 150, 50)
    frame, _ = table(6, seed=9)
    frame.loc[0, "a"] = np.nan
    post = ps.TreePosterior.from_idata(idata)
    with model:
        mask = frame.isna().to_numpy()
        codes = np.column_stack([frame["a"].fillna(0.0), pd.Categorical(frame["c"], list("uvw")).codes])
        pm.set_data({"t_X": codes.astype(float), "t_missing": mask.astype("int8")})
        with pytest.raises(Exception, match=r"call ps\.trees\.load_trees"):
            pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
        ps.trees.load_trees(idata)
        drawn = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False, predictions=True)
    values = drawn["predictions"]["y"].values.reshape(-1, 6)
    assert values.shape == (300, 6)
    expected = post.predict_proba(frame).values
    for k in range(3):
        error = np.sqrt(expected[:, k] * (1.0 - expected[:, k]) / 300)
        assert (np.abs((values == k).mean(0) - expected[:, k]) < 5.0 * error + 0.01).all()


@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")  # PyTensor compares the masks, 0 by 0
def test_trees_know_the_data_that_they_were_drawn_given():
    """PyMC puts the model's data of now into the result that it extends; as many new rows would be read as training."""
    frame, y = table()
    with pm.Model():
        t = ps.DecisionTree("t", frame)
        ps.TreeResponse("y", t, observed=y)
        idata = pm.sample(4, tune=2, chains=2, cores=1, random_seed=1, progressbar=False)
        pm.set_data(t.data(table(40, seed=9)[0]))
        ps.trees.load_trees(idata)
        kept, replaced = idata.copy(), idata.copy()
        options = {"extend_inferencedata": True, "progressbar": False}
        pm.sample_posterior_predictive(kept, predictions=True, **options)
        pm.sample_posterior_predictive(replaced, **options)
    new = table(6, seed=3)[0]
    expected = ps.TreePosterior.from_idata(idata).predict_proba(new)
    assert ps.TreePosterior.from_idata(kept).predict_proba(new).identical(expected)
    assert ps.TreePosterior.from_idata(ps.unpack(kept)).predict_proba(new).identical(expected)
    for read in (ps.TreePosterior.from_idata, ps.unpack):
        with pytest.raises(ValueError, match=r"'t'.* and others stand there; .*predictions=True"):
            read(replaced)
    del kept["observed_data"]
    with pytest.raises(ValueError, match="the observed_data group lacks 'y', the response of the tree 't'"):
        ps.TreePosterior.from_idata(kept)


def test_posterior_predictive_of_trees_with_equal_log_joints():
    """Two features that divide the training rows alike have trees of one log joint, and differ at new rows."""
    x = np.arange(40.0) % 4
    with pm.Model() as model:
        t = ps.DecisionTree("t", pd.DataFrame({"a": x, "b": x}), alpha_s=0.8, max_depth=1)
        ps.TreeResponse("y", t, family=ps.leaves.BinaryLeaves(1.0, 1.0), observed=(x > 1.5).astype(int))
    idata = sample(model, 200, 50)
    new = pd.DataFrame({"a": [0.0, 3.0], "b": [3.0, 0.0]})
    expected = ps.TreePosterior.from_idata(idata).predict_proba(new).sel({"level": 1}).values
    with model:
        pm.set_data(t.data(new))
        ps.trees.load_trees(idata)
        drawn = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False, predictions=True)
    np.testing.assert_allclose(drawn["predictions"]["y"].mean(("chain", "draw")), expected, atol=0.1)


def test_handle_codes_new_rows():
    frame, y = table()
    with pm.Model():
        t = ps.DecisionTree("t", frame)
        ps.TreeResponse("y", t, observed=y)
        pm.set_data(t.data(frame.iloc[:4]))
    data = t.data(frame.iloc[:4])
    assert data["t_missing"].tolist() == [[0, 0], [0, 0], [0, 0], [1, 0]]
    with pytest.raises(ValueError, match="unseen level"):
        t.data(frame.assign(c="z"))
    assert t.data(frame.assign(c="z"), unseen="missing")["t_missing"][:, 1].all()


def test_an_integer_container_holds_minus_one_for_missing():
    codes = np.array([[0, 1], [1, -1], [2, 0], [-1, 1], [3, 1]])
    y = RESPONSES["classes"]
    with pm.Model() as model:
        X = pm.Data("X", codes)
        Y = pm.Data("Y", np.array(y))
        t = ps.DecisionTree("t", X, **RULES)
        ps.TreeResponse("y", t, family=ps.leaves.ClassLeaves(2.0), observed=Y)
        idata = sample(model, 500, 50)
    assert np.isnan(trees_of_record(TREES.read(idata)).features.values).sum() == 2
    assert t.data(np.array([[1.0, np.nan]]))["X"].tolist() == [[1, -1]]
    raw = np.where(codes < 0, np.nan, codes).astype(float)
    exact = ps.trees.exact_tree_evidence(raw, y, ps.leaves.ClassLeaves(2.0), **RULES)
    leaf = exact.root_splits()["probability"].iloc[0]
    assert (idata.sample_stats["t_leaves"] == 1).mean() == pytest.approx(leaf, abs=0.08)


def test_data_may_change_before_sampling():
    x = np.arange(8.0)[:, None]
    with pm.Model() as model:
        X, Y = pm.Data("X", x), pm.Data("Y", np.array([0, 0, 0, 0, 1, 1, 1, 1]))
        ps.TreeResponse("y", ps.DecisionTree("t", X), family=ps.leaves.ClassLeaves(0.1), observed=Y)
        pm.set_data({"X": np.vstack([x, x + 0.5]), "Y": np.tile([0, 1], 8)})
        idata = sample(model)
    assert len(trees_of_record(TREES.read(idata)).y) == 16
    with model:
        pm.set_data({"X": x})
        with pytest.raises(ValueError, match="'X' has 8 rows and 'y' 16"):
            sample(model)


def test_prior_predictive_draws_trees():
    frame, y = table()
    with pm.Model():
        ps.TreeResponse("y", ps.DecisionTree("t", frame), family=ps.leaves.ClassLeaves(0.01), observed=y)
        prior = pm.sample_prior_predictive(400, random_seed=1)
    values = prior["prior_predictive"]["y"].values[0]
    first, second = values[:, 0], values[:, 1]
    # rows share a leaf or not: with nearly pure leaves they agree as often as they share, and a third of the rest
    assert 0.35 < (first == second).mean() < 0.95
    assert np.bincount(first).tolist() == pytest.approx([133] * 3, abs=50)


def test_stored_draws_have_no_log_density(runs):
    model, idata = runs["learned"]
    with model, pytest.raises(RuntimeError, match="needs the tree of the running chain"):
        pm.compute_log_likelihood(idata, progressbar=False)
    with model, pytest.raises(RuntimeError, match=r"only pm\.sample moves the tree"):
        pm.NUTS()


@pytest.mark.parametrize("fix", [pm.do, pm.observe])
def test_parameters_that_pymc_fixes_are_read_from_where_they_stand(runs, fix):
    model, _ = runs["learned"]
    idata = sample(fix(model, {"alpha": np.array(2.5), "s": np.array(0.75)}), 3, 2)
    draws = trees_of_record(TREES.read(idata))
    assert np.all(draws.parameters[:, 0] == 2.5) and np.all(draws.rules[:, 0] == 0.75)
    assert np.ptp(draws.rules[:, 1]) > 0.0


@pytest.mark.parametrize("change", [pm.do, pm.observe])
def test_a_fixed_log_joint_is_refused(runs, change):
    """Without the variable that calls our step NUTS sampled the parameters given the tree of the start."""
    model, _ = runs["learned"]
    with pytest.raises(ValueError, match=r"'t_log_joint' is held fixed, as by pm.do or pm.observe.*leave it free"):
        sample(change(model, {"t_log_joint": 0.0}))


def test_chains_in_another_order_keep_their_names_and_single_draws_are_read(runs):
    _, idata = runs["learned"]
    expected = ps.TreePosterior.from_idata(idata).log_likelihood()
    found = ps.TreePosterior.from_idata(idata.isel(chain=[1, 0])).log_likelihood()
    xr.testing.assert_equal(found.sel(chain=expected["chain"]), expected)
    for dim in ("chain", "draw"):
        with pytest.raises(
            ValueError, match=r"'t_record' must have the dimensions chain and draw, .* not with drop=True"
        ):
            ps.TreePosterior.from_idata(idata.isel({dim: 0}, drop=True))
        one, listed = (ps.TreePosterior.from_idata(idata.isel({dim: place})).log_likelihood() for place in (0, [0]))
        xr.testing.assert_identical(one, listed)


@pytest.mark.parametrize("place", [{"draw": slice(2, None)}, {"draw": slice(None, None, -1)}, {"chain": [1, 0]}])
def test_hyperparameters_of_other_draws_are_refused(place, runs):
    model, idata = runs["learned"]
    groups = {name: node.to_dataset() for name, node in idata.children.items()}
    other = xr.DataTree.from_dict(groups | {"posterior": groups["posterior"].isel(place)})
    for read in (ps.TreePosterior.from_idata, lambda d: ps.trees.load_trees(d, model)):
        with pytest.raises(ValueError, match=r"'.*' must have the labels of dimension '(draw|chain)'"):
            read(other)


def test_trees_are_lent_to_the_model_that_has_them(runs):
    idata = runs["learned"][1]
    with pm.Model(), pytest.raises(ValueError, match="the model has no response 'y' of 't', whose draws idata holds"):
        ps.trees.load_trees(idata)
    groups = {name: node.to_dataset() for name, node in idata.children.items()}
    groups["posterior"] = groups["posterior"].drop_vars("t_log_joint")
    with pytest.raises(ValueError, match="lacks 't_log_joint'; sample with it among var_names"):
        ps.trees.load_trees(xr.DataTree.from_dict(groups), runs["learned"][0])


def test_leave_one_out_for_loo():
    import arviz as az

    frame, y = table()
    with pm.Model() as model:
        ps.TreeResponse("y", ps.DecisionTree("t", frame), family=ps.leaves.ClassLeaves(2.0), observed=y)
        idata = sample(model, 200, 100)
    values = ps.TreePosterior.from_idata(idata).log_likelihood()
    assert values.dims == ("chain", "draw", "row") and values.shape == (2, 200, 40)
    idata["log_likelihood"] = xr.DataTree(values.to_dataset(name="y"))
    with pytest.warns(
        UserWarning, match="Estimated shape parameter"
    ):  # pure leaves of few rows: few draws without a row
        assert np.isfinite(az.loo(idata).elpd)


def test_options_reach_the_steps():
    model = fixed()
    idata = sample(model, particle_gibbs_tree={"particles": 3, "proposal": "prior", "expansion": "layer"})
    assert np.isfinite(idata.sample_stats["t_log_evidence"]).all()
    assert sample(model, cores=2, mp_ctx="fork", step=None).posterior["t_log_joint"].shape == (2, 15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.steps.ParticleGibbsTreeStep(particles=1), "particles must be an integer of at least 2"),
        (lambda: ps.steps.ParticleGibbsTreeStep(proposal="best"), "proposal must be one of"),
        (lambda: ps.steps.ParticleGibbsTreeStep(ess_threshold=2.0), r"ess_threshold must lie in \[0, 1\]"),
    ],
)
def test_steps_refuse(make, message):
    with fixed(), pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda f, y: ps.DecisionTree("t", f, alpha_s=1.0), ValueError, r"alpha_s must lie in \(0, 1\).*got 1.0"),
        (lambda f, y: ps.DecisionTree("t", pm.Normal("z", shape=(3, 2))), TypeError, "pm.Data container"),
        (lambda f, y: ps.TreeResponse("y", f, observed=y), TypeError, "tree must come from ps.DecisionTree"),
        (
            lambda f, y: ps.TreeResponse("y", ps.DecisionTree("t", f), observed=y[:5]),
            ValueError,
            "X and observed must have the same length, X has 40 rows and observed 5",
        ),
        (
            lambda f, y: ps.TreeResponse(
                "y", ps.DecisionTree("t", f), family=ps.leaves.ClassLeaves(2 * pm.Normal("z")), observed=y
            ),
            ValueError,
            "alpha must be a number or a named variable",
        ),
        (lambda f, y: ps.DecisionTree("t", f).shape, AttributeError, "no attribute .shape.: tree .t. is no tensor"),
        (
            lambda f, y: ps.steps.ParticleGibbsTreeStep(vars=[pm.Normal("z")]),
            ValueError,
            "must be variables of ps.DecisionTree",
        ),
        (
            lambda f, y: (ps.DecisionTree("t", f), ps.steps.ParticleGibbsTreeStep()),
            ValueError,
            "the tree 't' has no response",
        ),
    ],
)
def test_models_refuse(make, kind, message):
    frame, y = table()
    with pm.Model(), pytest.raises(kind, match=message):
        make(frame, y)


def test_a_tree_has_one_response():
    frame, y = table()
    with pm.Model():
        t = ps.DecisionTree("t", frame)
        ps.TreeResponse("y", t, observed=y)
        with pytest.raises(ValueError, match="has a response already"):
            ps.TreeResponse("z", t, observed=y)


def test_names_of_several_trees_are_asked_for(runs):
    _, idata = runs["several"]
    with pytest.raises(ValueError, match=r"several decision trees. Choose one with name=, one of \['t', 'u', 'v'\]"):
        ps.TreePosterior.from_idata(idata)
    with pytest.raises(ValueError, match="name must be one of"):
        ps.TreePosterior.from_idata(idata, "w")
    with pytest.raises(ValueError, match=r"holds no draws of a ps.DecisionTree"):
        ps.TreePosterior.from_idata(xr.DataTree())
