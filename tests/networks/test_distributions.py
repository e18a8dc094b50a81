"""`ps.SPN` as a PyMC variable: its log density, what it refuses, draws from the prior, and PyMC's own tools."""

import copy
from dataclasses import replace

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pymc.model.fgraph import clone_model
from scipy import stats

import pymc_spn as ps
from pymc_spn.gibbs.chain import Chain
from pymc_spn.networks.schema import NetworkSchema
from tests.modes import PLAIN
from tests.network_problems import mixed_frame, reference_problem
from tests.reference import log_joint, state_from_digits
from tests.sampled_runs import model_of

nan = np.nan
LEAVES = {
    "wait": [ps.leaves.Gaussian(), ps.leaves.Exponential(relative_scale=0.5)],
    "size": ps.leaves.Gaussian(mean=0.4, variance=2.0),
}
KINDS = {"wait": "positive"}


def mixed_model(width="infinite", split="order", repetitions=1, **hyperparameters):
    """Model over the table of every kind; the hyperparameters are called within it."""
    table = ps.Table.from_frame(mixed_frame(), kinds=KINDS)
    with pm.Model() as model:
        given = {k: v() if callable(v) else v for k, v in hyperparameters.items()}
        structure = ps.circuits.complete_tree(table.columns, width, split=split, repetitions=repetitions, random_seed=1)
        ps.SPN(
            "x", structure, observed=mixed_frame(), leaves=LEAVES, resolution={"grade": 0.5}, joint_leaves=None, **given
        )
    return model


def parts(model, name="x"):
    """Schema, the shared state and the table of an SPN in a model."""
    rv = model[name]
    inputs = rv.owner.op.dist_params(rv.owner)
    return NetworkSchema.from_vector(rv.owner.op.schema), inputs[6], inputs[11].get_value()


def install(model, digits, hyperparameters):
    """Make assignments those of the running chain, as the step does; returns the ticket."""
    schema, shared, values = parts(model)
    chain = Chain(schema, values)
    chain.set_hyperparameters(hyperparameters)
    chain.set_digits(digits)
    state = chain.sampler.statistics()
    shared.set_value(state)
    return state[0]


def random_digits(model, rng, labels=3):
    """Labels of every row in every region; -1 where all its cells are missing."""
    schema, _, values = parts(model)
    tree = schema.structure
    width = np.where(tree.n_children > 0, np.minimum(tree.n_children, labels), labels)
    digits = rng.integers(0, width, (len(values), tree.n_regions))
    for r in range(tree.n_regions):
        digits[np.isnan(values[:, tree.order[tree.begin[r] : tree.end[r]]]).all(axis=1), r] = -1
        above = digits[:, tree.parent[r]]
        if r > 0:
            digits[(above < 0) | (above % tree.n_splits[tree.parent[r]] != tree.split[r]), r] = -1
    return digits


def random_hyperparameters(rng, n_columns):
    return [rng.gamma(2.0, 1.0, 2), *np.exp(rng.normal([[-1.0], [0.4], [-2.0]], 0.5, (3, n_columns)))]


# ---- log density
SHAPES = {
    "one child": (1,),
    "infinite": ("infinite",),
    "two trees, a split per product": (2, "per_product", 2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_log_density_is_the_brute_force_log_joint(shape):
    model, rng = mixed_model(*SHAPES[shape]), np.random.default_rng(1)
    schema, _, values = parts(model)
    logp = model.compile_logp(vars=model["x"])
    for _ in range(5):
        digits, h = random_digits(model, rng), random_hyperparameters(rng, 6)
        h[2] = 1.0 + h[2]
        h[2:] = [np.where(np.isin(range(6), schema.gaussian_columns), v, 1.0) for v in h[2:]]
        expected = log_joint(reference_problem(schema, values, h), state_from_digits(digits))
        ticket = install(model, digits, h)
        own = [h[0], h[1], h[2][schema.gaussian_columns], h[3][schema.gaussian_columns]]
        names = ["concentration_log__", "leaf_scale_log__", "leaf_shape_interval__", "precision_ratio_log__"]
        own[2] = own[2] - 1.0  # an excess over 1 is what has a log
        point = {f"x_{k}": np.log(v) for k, v in zip(names, own, strict=True)} | {"x_log_joint": ticket}
        assert ticket == pytest.approx(expected, rel=1e-12)
        assert logp(point) == pytest.approx(expected, rel=1e-12)
        assert model.point_logps(point, round_vals=9)["x"] == pytest.approx(expected, rel=1e-9)


def test_log_density_of_the_model_adds_the_priors():
    model = mixed_model(concentration=1.0, leaf_shape=1.5, precision_ratio=0.05)
    point = model.initial_point()
    scale = np.linspace(0.2, 0.9, 6)
    point["x_leaf_scale_log__"] = np.log(scale)
    prior = stats.norm.logpdf(np.log(scale), np.log(0.3), 1.0).sum()  # the density of the log
    whole, own = (model.compile_logp(vars=v, mode=PLAIN)(point) for v in (None, model["x"]))
    assert whole == pytest.approx(own + prior, rel=1e-12)


def test_the_prior_of_the_leaf_shape_leaves_every_draw_a_covariance():
    model = mixed_model()
    with model:
        drawn = pm.sample_prior_predictive(2000, var_names=["x_leaf_shape"], random_seed=1).prior["x_leaf_shape"]
    excess = drawn.values.ravel() - 1.0
    assert excess.min() > 0.0 and stats.kstest(np.log(excess), stats.norm(np.log(0.5), 1.0).cdf).pvalue > 0.01
    point = model.initial_point()
    assert point["x_leaf_shape_interval__"] == pytest.approx(np.log(0.5))  # of the first sweep: the middle
    point["x_leaf_shape_interval__"] = np.linspace(-2.0, 1.0, point["x_leaf_shape_interval__"].size)
    expected = stats.norm.logpdf(point["x_leaf_shape_interval__"], np.log(0.5), 1.0).sum()
    assert model.compile_logp(vars=model["x_leaf_shape"], mode=PLAIN)(point) == pytest.approx(expected, rel=1e-9)


GAMMAS = {
    "concentration": lambda: pm.Gamma("given", 2.0, 1.0, shape=2),
    "leaf_scale": lambda: pm.Gamma("given", 2.0, 5.0, shape=6),
    "leaf_shape": lambda: pm.Gamma("given", 4.0, 2.0),
    "precision_ratio": lambda: pm.Gamma("given", 2.0, 9.0, shape=4),
}


@pytest.mark.parametrize("which", GAMMAS)
def test_gradient_in_a_users_variable(which):
    model, rng = mixed_model(3, **{which: GAMMAS[which]}), np.random.default_rng(2)
    h = random_hyperparameters(rng, 6)
    ticket = install(model, random_digits(model, rng), h)
    value = model.rvs_to_values[model["given"]]
    point = model.initial_point() | {"x_log_joint": np.asarray(ticket)}
    point[value.name] = np.asarray(rng.normal(-0.5, 0.4, point[value.name].shape))
    slope = model.compile_dlogp(vars=[model["given"]], mode=PLAIN)(point)
    total = model.compile_logp(mode=PLAIN)
    step = 1e-5
    for i in range(slope.size):
        change = np.zeros(slope.size)
        change[i] = step
        ends = [
            point | {value.name: point[value.name] + sign * change.reshape(point[value.name].shape)} for sign in (1, -1)
        ]
        assert slope[i] == pytest.approx((total(ends[0]) - total(ends[1])) / (2 * step), rel=1e-6, abs=1e-6)


def test_a_stored_draw_is_refused_by_the_log_density():
    model = mixed_model()
    ticket = install(model, random_digits(model, np.random.default_rng(3)), [np.ones(2)] + [np.ones(6)] * 3)
    logp, point = model.compile_logp(), model.initial_point()
    assert np.isfinite(logp(point | {"x_log_joint": np.asarray(ticket)}))
    with pytest.raises(RuntimeError, match=r"SPNPosterior\.from_idata"):
        logp(point | {"x_log_joint": np.asarray(np.nextafter(ticket, 0.0))})


def test_columns_may_come_in_another_order():
    frame = mixed_frame()
    values = []
    for columns in (list(frame), list(frame)[::-1]):
        model = model_of(ps.circuits.complete_tree(list(frame)), observed=frame[columns])
        values.append(model.compile_logp(mode=PLAIN)(model.initial_point()))
        assert list(model.coords["x_column"]) == list(frame)
    assert values[0] == values[1]


# ---- what is refused
def spn(columns=("a", "b", "c"), frame=None, **arguments):
    if frame is None:
        frame = pd.DataFrame({"a": [0.25, 1.75, 2.5], "b": [1, 0, 4], "c": ["u", "v", "u"]})
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(list(columns)), observed=frame, **arguments)


FRAME = pd.DataFrame({"a": [0.25, 1.75, 2.5], "b": [1, 0, 4], "c": ["u", "v", "u"]})
COLUMNS = ps.Table.from_frame(FRAME).columns
BAD = {
    "missing column": (dict(frame=FRAME[["a", "b"]]), r"observed .*missing \['c'\], unknown \[\]"),
    "unknown column": (dict(columns="ab"), r"observed .*missing \[\], unknown \['c'\]"),
    "missing column of a schema": (dict(columns=COLUMNS, frame=FRAME[["a", "b"]]), r"missing.*'c'"),
    "no value": (dict(frame=FRAME.assign(a=nan)), r"column 'a': all values are missing"),
    "no value of a schema": (
        dict(columns=COLUMNS, frame=FRAME.assign(a=nan)),
        r"observed: column 'a' has no observed value",
    ),
    "no rows": (dict(frame=FRAME.iloc[:0]), r"row"),
    "no rows of a schema": (dict(columns=COLUMNS, frame=FRAME.iloc[:0]), r"observed .*one row"),
    "leaves of another kind": (
        dict(leaves={"b": ps.leaves.Bernoulli()}),
        r"leaves\['b'\]: Bernoulli leaves need a column of kind binary; 'b' is count",
    ),
    "leaves of a level": (dict(leaves={"c": ps.leaves.Gaussian()}), r"leaves\['c'\]: Gaussian.*'c' is categorical"),
    "leaves of no column": (dict(leaves={"z": ps.leaves.Gaussian()}), r"leaves names the column 'z'"),
    "no leaves": (dict(leaves={"a": []}), r"leaves\['a'\].*empty"),
    "leaves by name": (dict(leaves={"a": "gaussian"}), TypeError, r"leaves\['a'\].*'gaussian'"),
    "leaves without names": (dict(leaves=[ps.leaves.Gaussian()]), TypeError, r"leaves must be a dict"),
    "concentration of zero": (dict(concentration=0.0), r"concentration must be positive.* 0\.0 at 'inner'"),
    "negative concentration": (dict(concentration=[1.0, -2]), r"concentration .*-2\.0 at 'univariate'"),
    "infinite scale": (dict(leaf_scale=[1.0, 1.0, np.inf]), r"leaf_scale .*inf at 'c'"),
    "shape not a number": (dict(leaf_shape=nan), r"leaf_shape .*nan at 'a'"),
    "three concentrations": (dict(concentration=np.ones(3)), r"concentration must be one number or 2; .*\(3,\)"),
    "two scales": (dict(leaf_scale=np.ones(2)), r"leaf_scale must be one number or 3; .*\(2,\)"),
    "matrix": (dict(precision_ratio=np.ones((3, 1))), r"precision_ratio .*\(3, 1\)"),
    "text": (dict(leaf_scale="wide"), TypeError, r"leaf_scale must hold numbers.*'wide'"),
    "text by name": (
        dict(leaf_shape={"a": "wide", "b": 1.0}),
        TypeError,
        r"leaf_shape\['a'\] must hold numbers.*'wide'",
    ),
    "scale without a column": (
        dict(leaf_scale={"a": 1.0, "b": 1.0}),
        r"leaf_scale must name exactly \['a', 'b', 'c'\]; unknown \[\], missing \['c'\]",
    ),
    "shape of levels": (dict(leaf_shape={"a": 1.0, "b": 2.0, "c": 2.0}), r"leaf_shape .*\['a', 'b'\]; unknown \['c'\]"),
    "concentration by another name": (
        dict(concentration={"inner": 1.0, "outer": 2.0}),
        r"concentration .*unknown \['outer'\], missing \['univariate'\]",
    ),
    "rounded": (dict(rounded="yes"), TypeError, 'rounded must be "auto", True, False or a list of .*; got .yes.'),
    "missing": (dict(missing="impute"), r'missing must be "marginal".*\'impute\''),
    "start": (dict(start="warm"), r"start must be.*'warm'"),
    "negative grid": (dict(resolution=-1.0), r"resolution of column 'a'.*-1\.0"),
    "negative grid by name": (dict(resolution={"a": -0.5}), r"resolution of column 'a'.*-0\.5"),
    "grid of no column": (dict(resolution={"z": 1.0}), r"resolution names the column 'z'"),
    "grid by another name": (dict(resolution="fine"), r"resolution must be \"auto\".*'fine'"),
}


SCALES = {
    "large": ([1e200, 3e200, -1e200], r"values of size 3e\+200"),
    "small": ([1e-200, 3e-200, 2e-200], "values of size 3e-200"),
    "subnormal": ([1e-310, 3e-310, 2e-310], "values of size 3e-310"),
    "constant": ([1e-200] * 3, "values of size 1e-200"),
}


@pytest.mark.parametrize("case", SCALES)
def test_a_column_beyond_the_squares_of_floats_is_named(case):
    values, message = SCALES[case]
    refusal = rf"column 'a' must have values .* 1e-140 and 1e\+150.*{message}: rescale it"
    with pytest.raises(ValueError, match=refusal):
        spn(frame=FRAME.assign(a=values))
    with pm.Model(), pytest.raises(ValueError, match=refusal):  # splits are learned, without a warning of NumPy
        ps.SPN("x", observed=FRAME.assign(a=values))


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    arguments, *error, message = BAD[case]
    with pytest.raises(*error or [ValueError], match=message):
        spn(**arguments)


TREE = ps.circuits.complete_tree(list("abc"))
NEGATIVE = pd.DataFrame({"a": [0.25, -0.5, 2.5]}, index=list("uvw"))


def network(**arguments):
    return ps.SPN("x", TREE, observed=FRAME, **arguments)


def steps(make):
    """A step of a network of infinite width."""
    ps.SPN("x", observed=FRAME)
    make()


CALLS = [
    (lambda: ps.SPN(1, TREE, observed=FRAME), TypeError, "name must be a string, got 1"),
    (lambda: ps.SPN("x", ["a", "b"], observed=FRAME), TypeError, r"structure must be a RegionTree .*got "),
    (lambda: ps.SPN("x", FRAME), TypeError, r"got DataFrame\. .* observed: ps\.SPN\('x', observed=df\)"),
    (lambda: ps.SPN("x"), TypeError, r"^Give the table as observed: ps\.SPN\('x', observed=df\)"),
    (lambda: ps.SPN("x", TREE), TypeError, r"^Give the table as observed: ps\.SPN\('x', structure, observed=df\)"),
    (
        lambda: ps.SPN("x", observed=NEGATIVE, kinds={"a": "positive"}, leaves={"a": ps.leaves.Exponential()}),
        "'a'.*'v'.*-0.5|'a'.*-0.5.*'v'",
    ),
    (
        lambda: network(concentration=2 * pm.Gamma("a", 2.0, 1.0)),
        r'concentration must be a number or a named variable.*pm\.Deterministic\("x_concentration"',
    ),
    (lambda: network(leaf_scale=pm.Gamma("s", 2.0, 1.0, shape=2)), "leaf_scale must have length 3; 's' has 2"),
    (lambda: network(leaf_shape=pm.Gamma("q", 2.0, 1.0, shape=5)), "leaf_shape must have length 2 or 3; 'q' has 5"),
    (
        lambda: network(leaf_scale=pm.Gamma("m", 2.0, 1.0, shape=(3, 1))),
        "leaf_scale must be a scalar or a vector; 'm' has 2",
    ),
    (lambda: network(leaf_scale=pm.Data("fixed", np.ones(3))), "leaf_scale must be a number or a named"),
    (
        lambda: steps(lambda: ps.steps.TopDownSPNStep(kernel="gibbs")),
        r"kernel must be one of \['exact', 'published'\]; got 'gibbs'",
    ),
    (lambda: steps(lambda: ps.steps.TopDownSPNStep(sweeps=1.5)), r"sweeps must be an integer .* got 1\.5"),
    (
        lambda: steps(lambda: ps.steps.TopDownSPNStep(record_every=-2)),
        "record_every must be an integer of at least 1, got -2",
    ),
    (lambda: steps(lambda: ps.steps.TopDownSPNStep(kernel="published")), "published.*(finite|infinite)"),
    (lambda: steps(lambda: ps.steps.BottomUpSPNStep()), "bottom.*(finite|infinite)"),
]


@pytest.mark.parametrize("case", CALLS)
def test_bad_calls_stop_before_sampling(case):
    call, *error, message = case
    with pm.Model(), pytest.raises(*error or [ValueError], match=message):
        call()


@pytest.mark.parametrize("make", [dict, ps.Table.from_frame, lambda frame: frame])
def test_without_a_structure_it_is_the_learned_tree(make):
    frame = FRAME.assign(level=pd.Categorical(np.where(np.arange(len(FRAME)) % 2, "u", "v")))
    models = []
    for given in ({}, {"structure": ps.circuits.learn_tree(frame, random_seed=0)}):
        model = model_of(**given, observed=make(frame))
        models.append(model)
    first, second = (NetworkSchema.from_vector(model["x"].owner.op.schema) for model in models)
    assert first.learned and not second.learned
    assert replace(first, learned=False).to_json() == second.to_json()
    with pm.Model(), pytest.raises(TypeError, match=r"get_value\(\) of a pm\.Data variable"):
        ps.SPN("x", observed=pm.Data("d", frame[["a"]]))
    with pm.Model(), pytest.raises(ValueError, match="column 'a': all values are missing"):
        ps.SPN("x", observed=frame.assign(a=np.nan))


def test_steps_need_variables_of_an_spn():
    with pm.Model() as model:
        pm.Normal("y")
        with pytest.raises(ValueError, match=r"vars must be variables of ps\.SPN; got none"):
            ps.steps.TopDownSPNStep()
        ps.SPN("x", ps.circuits.complete_tree(list("abc")), observed=FRAME)
        with pytest.raises(ValueError, match=r"vars must be variables of ps\.SPN; got \['y'\]"):
            ps.steps.TopDownSPNStep(vars=[model["y"]])
        with pytest.raises(ValueError, match=r"vars must hold 'x_log_joint'.*x_leaf_scale"):
            ps.steps.TopDownSPNStep(vars=[model["x_leaf_scale"]])


def test_a_model_inside_a_model_puts_its_name_first():
    with pm.Model() as outer:
        with pm.Model(name="inside"):
            ps.SPN("x", ps.circuits.complete_tree(list("abc")), observed=FRAME)
        step = ps.steps.TopDownSPNStep()
    assert {"inside::x", "inside::x_log_joint"} <= set(outer.named_vars)
    assert [v.name for v in outer.data_vars] == ["inside::x_schema"]
    assert step.structure == "inside::x"


# ---- prior draws
def test_prior_predictive_of_a_gaussian_column_is_a_student_t():
    """One Gaussian column at width one: a single leaf, so one cell of each draw is Student t; 1.5e-3 is 1 in 650."""
    a0, rho0, scale, entry = 2.5, 0.4, 0.7, ps.leaves.Gaussian(mean=1.5, variance=4.0)
    frame = pd.DataFrame({"a": [0.25, nan, 2.5]})
    with pm.Model():
        ps.SPN(
            "x",
            ps.circuits.complete_tree(["a"], n_children=1),
            observed=frame,
            leaves={"a": entry},
            resolution=0.0,
            concentration=1.0,
            leaf_scale=scale,
            leaf_shape=a0,
            precision_ratio=rho0,
        )
        idata = pm.sample_prior_predictive(1200, random_seed=1)
        other = pm.sample_prior_predictive(3, random_seed=2)
        again = pm.sample_prior_predictive(3, random_seed=2)
    drawn = idata.prior_predictive["x"].values[0, :, :, 0]
    assert np.isnan(drawn[:, 1]).all()
    spread = np.sqrt((1 + 1 / rho0) * scale * entry.variance)
    assert stats.kstest(drawn[:, 0], stats.t(2 * a0, entry.mean, spread).cdf).pvalue > 1.5e-3
    assert stats.kstest(drawn[:, 0], stats.t(2 * a0, entry.mean, 1.3 * spread).cdf).pvalue < 1.5e-3  # its power
    # rows of one leaf share mean and precision: correlation 1 / (1 + rho0)
    assert stats.pearsonr(np.arctan(drawn[:, 0]), np.arctan(drawn[:, 2])).statistic > 0.5
    np.testing.assert_array_equal(other.prior_predictive["x"].values, again.prior_predictive["x"].values)
    assert len(np.unique(drawn[:, 0])) == 1200


def test_prior_predictive_of_every_kind_stays_in_its_kind():
    with mixed_model():
        drawn = pm.sample_prior_predictive(50, random_seed=1).prior_predictive["x"].values[0]
    gaps = np.isnan(ps.Table.from_frame(mixed_frame()).values)
    assert (np.isnan(drawn) == gaps).all()
    visits, colour, smokes = (drawn[:, ~gaps[:, d], d] for d in (2, 3, 4))
    assert (visits >= 0).all() and (visits == np.floor(visits)).all()
    assert set(np.unique(colour)) == {0, 1, 2} and set(np.unique(smokes)) == {0, 1}


# ---- PyMC's own tools
@pytest.fixture(scope="module")
def sampled():
    model = mixed_model(3)
    with model:
        idata = pm.sample(20, tune=10, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    return model, idata


@pytest.fixture
def state_back(sampled):
    """The shared state as it was, after a test that runs on the sampled model."""
    _, shared, _ = parts(sampled[0])
    before = shared.get_value()
    yield sampled
    shared.set_value(before)


REFUSALS = {
    "log likelihood": lambda idata: pm.compute_log_likelihood(idata, progressbar=False),
    "posterior predictive": lambda idata: pm.sample_posterior_predictive(idata, progressbar=False),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_stored_draws_are_for_the_posterior_object(what, state_back):
    model, idata = state_back
    with model, pytest.raises((RuntimeError, NotImplementedError), match=r"SPNPosterior\.from_idata"):
        REFUSALS[what](idata.copy())


def test_variational_inference_is_refused(sampled):
    with sampled[0], pytest.raises(RuntimeError, match=r"only pm\.sample moves the assignments"):
        pm.fit(10, progressbar=False)


def test_nuts_for_everything_is_refused(sampled):
    with sampled[0], pytest.raises(RuntimeError, match=r"only pm\.sample moves the assignments"):
        pm.NUTS()


def test_debug_finds_nothing(sampled, capsys):
    sampled[0].debug()
    assert "No problems found" in capsys.readouterr().out


COPIES = {
    "cloudpickle": lambda m: cloudpickle.loads(cloudpickle.dumps(m)),
    "deepcopy": copy.deepcopy,
    "clone_model": clone_model,
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_sample_like_the_model(how, sampled):
    model, idata = sampled
    with COPIES[how](model):
        again = pm.sample(20, tune=10, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    for name in idata.posterior.data_vars:
        np.testing.assert_array_equal(again.posterior[name].values, idata.posterior[name].values)


# ---- columns of one value
@pytest.mark.parametrize(("value", "n"), [(2.5, 40), (2.3, 199), (1 / 3, 199)])
def test_a_column_of_one_value_is_warned_of_and_its_scale_is_no_rounding_error(value, n):
    """The mean of 199 times 2.3 is not 2.3: the variance was 8e-31, and steps were 1e14 standard deviations."""
    df = pd.DataFrame({"a": np.full(n, value), "b": np.random.default_rng(0).normal(size=n), "n": 7})
    with pm.Model(), pytest.warns(UserWarning) as found:
        rv = ps.SPN("x", ps.circuits.complete_tree(list(df)), observed=df)
    (warning,) = found
    assert f"columns that hold a single value: 'a' ({value:g})" in str(warning.message)
    assert warning.filename == __file__
    schema = NetworkSchema.from_vector(rv.owner.op.schema)
    assert schema.scale[0] == 1.0 and schema.palette[0][0].variance > 1e-6
    few = df[:8]
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(list(df)), observed=few)
        ps.SPN("y", ps.circuits.complete_tree(list(df)), observed=df, rounded=True, resolution={"a": 0.1, "b": 0.1})


# ---- values that repeat
def test_a_standardised_column_is_told_of_its_step():
    """Its values stand on no multiples of a number, and were said to be "inf times" too frequent."""
    rng = np.random.default_rng(0)
    age = np.round(rng.normal(40.0, 12.0, 200))
    step = 1.0 / age.std()
    half = np.where(rng.random(200) < 0.5, 0.0, rng.normal(size=200))
    df = pd.DataFrame({"age": (age - age.mean()) * step, "half": half})
    with pm.Model(), pytest.warns(UserWarning) as found:
        ps.SPN("x", ps.circuits.complete_tree(list(df)), observed=df, rounded=False)
    (warning,) = found
    said = str(warning.message)
    assert "inf" not in said and f"'age' (its values are {step:.4g} apart" in said
    assert "'half' (its values repeat and have no common step)" in said and f"resolution={{'age': {step:.4g}}}" in said
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(["age"]), observed=df[["age"]], resolution={"age": step}, rounded=False)
    with pm.Model(), pytest.warns(UserWarning) as found:  # by default it is in cells
        ps.SPN("x", ps.circuits.complete_tree(list(df)), observed=df)
    assert "'age'" not in str(found[0].message) and "'half' (its values repeat" in str(found[0].message)


def test_ties_beyond_counting_have_no_figure():
    x = np.where(np.arange(127) < 60, 1.0 + 1e-9, np.random.default_rng(0).normal(size=127).round(9))
    with pm.Model(), pytest.warns(UserWarning, match=r"'x' \(more than 1,000 times\)"):
        ps.SPN("x", ps.circuits.complete_tree(["x"]), observed=pd.DataFrame({"x": x}), rounded=False)


# ---- values in coarse steps
def test_coarse_steps_are_warned_of():
    """Halves of stars are no whole numbers; ages are fine enough, and in cells, the default, steps may be coarse."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"rating": rng.integers(1, 6, 200) / 2.0, "age": np.round(rng.normal(40, 12, 200))})
    df.loc[::20, "rating"] = np.nan
    tree = ps.circuits.complete_tree(list(df))
    with pm.Model(), pytest.warns(UserWarning) as found:
        ps.SPN("x", tree, observed=df, rounded=False)
    (warning,) = found
    said = str(warning.message)
    assert "'rating' (steps of 0.69 standard deviations)" in said and "'age'" not in said
    assert "kinds={'rating': 'ordinal'}" in said and warning.filename == __file__
    with pm.Model():
        ps.SPN("x", tree, observed=df)
    with pm.Model():
        ps.SPN("x", tree, observed=df.assign(rating=2.0 * df["rating"]))
