"""`CircuitDensity` of some columns given others: densities and draws against the circuit, learning against a grid."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit

import pymc_spn as ps
from pymc_spn.circuits.evaluation.conditional_draws import draw_targets
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.densities.circuit_ops import CircuitRows, CircuitRowsAndGradient
from tests.densities.density_problems import differences, problem
from tests.modes import BY_PYTHON, PLAIN, REWRITTEN
from tests.shared_circuits import build, coded, random_parameters

ROUNDING = {"rtol": 1e-12, "atol": 1e-12}
MIXED = build(
    [("sum", (1, 2)), ("product", (3, 4, 5)), ("product", (6, 7, 8)),
     *[("leaf", 0, "gaussian"), ("leaf", 1, "categorical"), ("leaf", 2, "poisson")] * 2],
    ["x", "level", "count"], ("gaussian", "categorical", "poisson"),
)  # fmt: skip
MIXED_WEIGHTS = np.log([0.3, 0.7])
MIXED_LEAVES = {
    "gaussian": [[0.0, 1.0], [2.0, 0.5]],
    "categorical": [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]],
    "poisson": [[1.0], [4.0]],
}
OWN_LEAVES = np.array([MIXED_LEAVES["gaussian"], [[-5.0, 1.0], [-3.0, 1.0]]])


def conditional_logs(circuit, values, targets, log_weights, leaf_parameters):
    """Log density (N,) of target columns given the others, as a difference of two of the circuit's."""
    given = values.copy()
    given[:, targets] = np.nan
    joint, alone = (
        circuit.with_parameters(log_weights, leaf_parameters).log_density(coded(circuit, v)).values
        for v in (values, given)
    )
    return np.array([a - b if b > -np.inf else -np.inf for a, b in zip(joint, alone, strict=True)])


def parts(circuit, values, targets):
    """Frames of the targets and of the other columns."""
    frame = pd.DataFrame(values, columns=circuit.names)
    names = [circuit.names[d] for d in targets]
    return frame[names], frame.drop(columns=names)


def row_logs(model, mode=PLAIN):
    (found,) = model.compile_logp(sum=False, mode=mode)({})
    return found


@pytest.mark.parametrize("families", [("gaussian", "gamma", "student_t"), ("poisson", "categorical")])
def test_log_density_is_that_of_the_row_less_that_of_what_is_given(families):
    circuit, log_weights, parameters, _, _, values = problem(families, n_rows=20)
    values[0] = np.nan
    values[1, :2], values[2, 1:] = np.nan, np.nan
    values[3], values[4] = [np.inf, 1.0, 1.0], [1.0, 1.0, np.inf]  # impossible in x0 and x2
    for targets in ([0], [1, 2], [0, 2]):
        observed, given = parts(circuit, values, targets)
        with pm.Model() as model:
            rv = ps.CircuitDensity("y", circuit, log_weights, parameters, observed=observed, given=given)
        found = row_logs(model)
        np.testing.assert_allclose(
            found, conditional_logs(circuit, values, targets, log_weights, parameters), **ROUNDING
        )
        assert np.isneginf(found[[3, 4]]).all() and np.isfinite(found).sum() == 18
        without = np.isnan(values[:, targets]).all(axis=1) & np.isfinite(found)
        assert without.sum() > 1 and np.abs(found[without]).max() < 1e-12
        assert rv.type.shape == (20, len(targets))
        assert list(model.coords["y_column"]) == list(observed.columns) and model.named_vars_to_dims["y"][0] == "y_row"
    assert np.abs(found).max() > 0.5


def test_conditional_densities_add_up_to_one():
    """Masses of a level and a count by their sum, up to a count whose tail is below 1e-16."""
    levels, counts = np.meshgrid(np.arange(3.0), np.arange(50.0), indexing="ij")
    rows = np.column_stack([np.full(150, 0.7), levels.ravel(), counts.ravel()])
    observed, given = parts(MIXED, rows, [1, 2])
    with pm.Model() as model:
        ps.CircuitDensity("y", MIXED, MIXED_WEIGHTS, MIXED_LEAVES, observed=observed, given=given)
    assert np.exp(row_logs(model)).sum() == pytest.approx(1.0, abs=1e-13)


def free_parameters(circuit, log_weights, parameters, values, targets, of_rows=False):
    """A model whose weights and leaf parameters are unbounded variables, and the point where they are as given."""
    observed, given = parts(circuit, values, targets)
    point = {"w": log_weights} | {f: parameters[f] for f in circuit.families}
    if of_rows:
        point["w"] = np.tile(log_weights, (len(values), 1))
    with pm.Model() as model:
        free = {name: pm.Flat(name, shape=np.shape(at)) for name, at in point.items()}
        ps.CircuitDensity("y", circuit, free.pop("w"), free, observed=observed, given=given)
    return model, point


@pytest.mark.parametrize("of_rows", [False, True])
def test_gradients_are_the_differences_of_the_value(of_rows):
    """And they come from one pass for each of the two terms, which give the value as well."""
    circuit, log_weights, parameters, _, _, values = problem(("gaussian", "gamma", "student_t"))
    model, point = free_parameters(circuit, log_weights, parameters, values, [0, 2], of_rows)
    compiled = model.compile_fn([model.logp(), model.dlogp()], mode=REWRITTEN, inputs=model.value_vars)
    _, found = compiled(point)
    at = 0
    for name, x in point.items():

        def value(moved, name=name):
            return float(compiled(point | {name: moved})[0])

        expected = differences(value, np.array(x)).ravel()
        np.testing.assert_allclose(found[at : at + expected.size], expected, rtol=2e-5, atol=2e-6)
        assert np.abs(expected).max() > 0.01
        at += expected.size
    ops = [type(n.op) for n in compiled.f.maker.fgraph.toposort()]
    assert ops.count(CircuitRowsAndGradient) == 2 and CircuitRows not in ops


def test_impossible_given_cells_and_parameters_leave_no_nan():
    circuit, log_weights, parameters, _, _, values = problem(("gaussian", "gamma"))
    values[:] = 1.0
    values[2, 0] = -np.inf
    model, point = free_parameters(circuit, log_weights, parameters, values, [1, 2])
    compiled = model.compile_fn([model.logp(), model.dlogp()], mode=PLAIN, inputs=model.value_vars)
    logp, gradient = compiled(point)
    assert np.isneginf(logp) and np.isfinite(gradient).all() and gradient.any()  # those of the other rows
    logp, gradient = compiled(point | {"w": point["w"] + 1e-3})
    assert np.isneginf(logp) and not gradient.any()


def exact_mixed(given):
    """Share of the second product (N,), given cells with gaps, by SciPy."""
    logs = np.tile(MIXED_WEIGHTS, (len(given), 1))
    for k in range(2):
        x, count = given["x"].to_numpy(), given["count"].to_numpy()
        of_x = stats.norm.logpdf(x, *MIXED_LEAVES["gaussian"][k])
        of_count = stats.poisson.logpmf(count, MIXED_LEAVES["poisson"][k][0])
        logs[:, k] += np.where(np.isnan(x), 0.0, of_x) + np.where(np.isnan(count), 0.0, of_count)
    return expit(logs[:, 1] - logs[:, 0])


def test_draws_have_the_probabilities_of_their_own_given_cells():
    """Of a level: within 4.5 standard errors of the exact share in 4,000 draws; the same draws by Numba and Python."""
    given = pd.DataFrame({"count": [1.0, 2.0, np.nan, 5.0, np.nan, 2.0], "x": [0.9, 1.2, 1.2, np.nan, np.nan, 60.0]})
    with pm.Model():
        observed = np.full((6, 1), np.nan)
        ps.CircuitDensity("y", MIXED, MIXED_WEIGHTS, MIXED_LEAVES, observed=observed, given=given)
        drawn = pm.sample_prior_predictive(4_000, random_seed=1).prior_predictive["y"].values[0, :, :, 0]
        again = pm.sample_prior_predictive(50, random_seed=1, **BY_PYTHON).prior_predictive["y"].values[0, :, :, 0]
    np.testing.assert_array_equal(again, drawn[:50])
    second = exact_mixed(given)
    assert second.min() < 1e-12 and np.ptp(second[:5]) > 0.3  # also of a row that is far off
    p = (1.0 - second)[:, None] * MIXED_LEAVES["categorical"][0] + second[:, None] * MIXED_LEAVES["categorical"][1]
    found = np.stack([(drawn == k).mean(axis=0) for k in range(3)], axis=1)
    error = np.sqrt(p * (1.0 - p) / 4_000)
    assert (np.abs(found - p) < 4.5 * error).all()
    assert (np.abs(found - p[::-1]) > 4.5 * error).any(axis=1).sum() >= 4  # of others' cells they are not


def test_targets_of_a_row_are_drawn_together():
    """Means and covariances of two targets against those of the circuit, of each row's own parameters and cells."""
    circuit, _, _, _, packed, values = problem(("gaussian", "gamma"), n_rows=3)
    rng = np.random.default_rng(5)
    own = [random_parameters(circuit, rng) for _ in range(3)]
    values[0, 1] = np.nan
    exact = [
        circuit.with_parameters(*own[n]).moments(np.where([True, False, True], np.nan, values[[n]])) for n in range(3)
    ]
    n = 20_000
    for i, (log_weights, parameters) in enumerate(own):
        theta, row = flatten(circuit, parameters).theta, np.array([np.nan, values[i, 1], np.nan])
        drawn = np.array([draw_targets(rng, packed, log_weights, theta, row, np.array([0, 2]), i) for _ in range(n)])
        centred = drawn - exact[i]["mean"].values[0, [0, 2]]
        for products in (centred, centred[:, :1] * centred[:, 1:] - exact[i]["covariance"].values[0, 0, 2]):
            assert (np.abs(products.mean(axis=0)) < 4.5 * products.std(axis=0) / np.sqrt(n)).all()
    with pm.Model():
        leaves = {f: np.stack([p[f] for _, p in own]) for f in circuit.families}
        given = {"x1": values[:, 1]}
        ps.CircuitDensity("y", circuit, np.stack([w for w, _ in own]), leaves, observed=values[:, [0, 2]], given=given)
        drawn = pm.sample_prior_predictive(4_000, random_seed=2, **BY_PYTHON).prior_predictive["y"].values[0]
    means = np.stack([e["mean"].values[0, [0, 2]] for e in exact])
    assert (np.abs(drawn.mean(axis=0) - means) < 4.5 * drawn.std(axis=0) / np.sqrt(4_000)).all()


def test_a_sampler_starts_at_the_means_of_the_leaves_beside_levels_that_are_given():
    with pm.Model() as model:
        given = pd.DataFrame({"level": [0.0, 2.0], "count": [1.0, 2.0]})
        ps.CircuitDensity("x", MIXED, MIXED_WEIGHTS, MIXED_LEAVES, given=given)
        own = {f: np.stack([v, np.flip(v, axis=0)]) for f, v in MIXED_LEAVES.items()} | {"gaussian": OWN_LEAVES}
        ps.CircuitDensity("own", MIXED, MIXED_WEIGHTS, own, given=given)
    point = model.initial_point()
    np.testing.assert_allclose(point["x"], [[1.0], [1.0]])
    np.testing.assert_allclose(point["own"], [[1.0], [-4.0]])


def test_targets_that_are_not_observed_have_their_conditional_distribution():
    """NUTS against `ParameterisedCircuit.moments`: five standard errors by the effective number of draws."""
    nodes = [("sum", (1, 2)), ("product", (3, 4)), ("product", (5, 6)),
             *[("leaf", 0, "log_normal"), ("leaf", 1, "poisson")] * 2]  # fmt: skip
    circuit = build(nodes, ["size", "count"], ("log_normal", "poisson"))
    log_weights, leaves = np.log([0.4, 0.6]), {"log_normal": [[0.0, 0.4], [0.5, 0.3]], "poisson": [[1.0], [3.0]]}
    given = pd.DataFrame({"count": [0.0, 3.0, np.nan]}, index=["u", "v", "w"])
    with pm.Model() as model:
        size = ps.CircuitDensity("size", circuit, log_weights, leaves, given=given)
        idata = pm.sample(
            800, tune=400, chains=2, cores=1, random_seed=1, progressbar=False, nuts_sampler="pymc",
            compute_convergence_checks=False, compile_kwargs={"mode": PLAIN},
        )  # fmt: skip
    assert size.type.shape == (3, 1) and list(model.coords["size_row"]) == ["u", "v", "w"]
    assert model.named_vars_to_dims["size"] == ("size_row", "size_column")
    at = np.log([[0.7], [1.2], [2.0]])
    values = np.column_stack([np.exp(at), given["count"]])
    expected = conditional_logs(circuit, values, [0], log_weights, leaves).sum() + at.sum()
    assert model.compile_logp(mode=PLAIN)({"size_log_columns__": at}) == pytest.approx(expected, rel=1e-12)
    exact = circuit.with_parameters(log_weights, leaves).moments(np.column_stack([np.full(3, np.nan), given["count"]]))
    draws = idata.posterior["size"].values[..., 0]
    for n in range(3):
        ess = float(az.ess(draws[..., n], chain_axis=0, draw_axis=1))
        assert ess > 300
        assert abs(draws[..., n].mean() - exact["mean"].values[n, 0]) < 5.0 * np.sqrt(
            exact["covariance"].values[n, 0, 0] / ess
        )


TWO = build(
    [("sum", (1, 2)), ("product", (3, 4)), ("product", (5, 6)),
     *[("leaf", 0, "gaussian"), ("leaf", 1, "bernoulli")] * 2],
    ["x", "y"], ("gaussian", "bernoulli"),
)  # fmt: skip
TWO_LABELS = {"bernoulli": [[0.1], [0.8]]}


def two_leaves(shift):
    """Leaf parameters whose second Gaussian is moved; a number or a variable."""
    mean = pt.stack([pt.constant(0.0), shift])
    return {"gaussian": pt.stack([mean, pt.constant(np.array([1.0, 0.8]))], axis=1)} | TWO_LABELS


def shifted_logs(x, y, shift):
    """Log p(y | x) (N, S) for shifts (S,), without a circuit."""
    of_x = [stats.norm.pdf(x, 0.0, 1.0)[:, None] * 0.5, stats.norm.pdf(x[:, None], shift, 0.8) * 0.5]
    of_y = [np.where(y == 1.0, p, 1.0 - p)[:, None] for p in (0.1, 0.8)]
    return np.log(of_x[0] * of_y[0] + of_x[1] * of_y[1]) - np.log(of_x[0] + of_x[1])


def test_nuts_finds_the_conditional_posterior_and_predicts_for_new_given_cells():
    """A leaf's mean against a grid, five standard errors; new cells by ``pm.set_data``; ``az.loo`` on its terms."""
    rng = np.random.default_rng(2)
    x = rng.normal(0.5, 1.5, 80)
    y = (rng.random(80) < expit(2.0 * x)).astype(float)  # not of the circuit
    fast = {"random_seed": 1, "progressbar": False, "compile_kwargs": {"mode": PLAIN}}
    new = np.array([-3.0, 0.5, 4.0])
    with pm.Model():
        shift = pm.Normal("shift", 0.0, 2.0)
        given = {"x": pm.Data("x", x)}
        ps.CircuitDensity("y", TWO, np.log([0.5, 0.5]), two_leaves(shift), observed=y[:, None], given=given)
        idata = pm.sample(600, tune=300, chains=2, cores=1, nuts_sampler="pymc", **fast)
        pm.compute_log_likelihood(idata, progressbar=False, compile_kwargs={"mode": PLAIN})
        pm.set_data({"x": new})
        drawn = pm.sample_posterior_predictive(idata, predictions=True, **fast).predictions["y"]
    grid = np.linspace(-6.0, 6.0, 2_001)
    logs = shifted_logs(x, y, grid).sum(axis=0) + stats.norm.logpdf(grid, 0.0, 2.0)
    p = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    mean, deviation = p @ grid, np.sqrt(p @ (grid - p @ grid) ** 2)
    draws = idata.posterior["shift"].values
    ess = float(az.ess(draws, chain_axis=0, draw_axis=1))
    assert ess > 250 and abs(draws.mean() - mean) < 5.0 * deviation / np.sqrt(ess)
    joint = shifted_logs(x, y, grid) + np.log(stats.norm.pdf(x)[:, None] + stats.norm.pdf(x[:, None], grid, 0.8))
    of_joint = joint.sum(axis=0) + stats.norm.logpdf(grid, 0.0, 2.0)
    assert abs(grid[of_joint.argmax()] - mean) > 10.0 * deviation / np.sqrt(ess)  # learned jointly it is elsewhere
    pointwise = idata["log_likelihood"]["y"]
    assert pointwise.dims == ("chain", "draw", "y_row")
    np.testing.assert_allclose(pointwise[1, 7], shifted_logs(x, y, draws[1, 7])[:, 0], rtol=1e-10)
    assert np.isfinite(az.loo(idata).elpd)
    assert drawn.dims == ("chain", "draw", "y_row", "y_column") and drawn.shape == (2, 600, 3, 1)
    expected = np.exp(shifted_logs(new, np.ones(3), draws.ravel())).mean(axis=1)
    error = 4.5 * np.sqrt(expected * (1.0 - expected) / 1_200)
    assert (np.abs(drawn.values[..., 0].mean((0, 1)) - expected) < error).all() and np.ptp(expected) > 0.5


def test_the_conditional_fit_is_ahead_of_the_joint_fit_where_the_circuit_is_wrong():
    """A label that follows one column, beside another with two clusters that it does not follow, and two products.

    The joint fit spends both products on the clusters, and its label is left with its entropy of 0.69 nats.
    """
    rng = np.random.default_rng(3)
    n = 300
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice([-8.0, 8.0], n) + rng.normal(size=n)})
    frame["y"] = pd.Categorical(np.where(rng.random(n) < expit(3.0 * frame["a"]), "yes", "no"))
    columns = ps.Table.from_frame(frame).columns
    circuit = ps.circuits.complete_tree(columns, n_children=[2, 1], n_parts=3).circuit(
        {"a": ["gaussian"], "b": ["gaussian"], "y": ["categorical"]}
    )
    joint = ps.fit_em(circuit, frame, restarts=10, random_seed=1, progressbar=False)
    gaussian, label = joint.leaf_parameters["gaussian"], joint.leaf_parameters["categorical"]
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 5.0, shape=4, initval=gaussian[:, 0])
        log_sd = pm.Normal("log_sd", 0.0, 1.0, shape=4, initval=np.log(gaussian[:, 1]))
        levels = pm.Dirichlet("levels", np.ones((2, 2)), initval=label)
        leaves = {"gaussian": pt.stack([mean, pt.exp(log_sd)], axis=1), "categorical": levels}
        given = frame[["b", "a"]]
        ps.CircuitDensity("y", circuit, joint.log_weights, leaves, observed=frame[["y"]], given=given)
        fast = {"progressbar": False, "compile_kwargs": {"mode": PLAIN}}
        idata = pm.find_MAP(jitter=False, return_inferencedata=True, **fast)
    found = {name: v.values[0, 0] for name, v in idata.posterior.items()}
    values = ps.Table.from_frame(frame).values
    own = {"gaussian": np.stack([found["mean"], np.exp(found["log_sd"])], axis=1), "categorical": found["levels"]}
    of_joint = conditional_logs(circuit, values, [2], joint.log_weights, joint.leaf_parameters).mean()
    of_mode = conditional_logs(circuit, values, [2], joint.log_weights, own).mean()
    assert of_joint < -0.65 and of_mode > of_joint + 0.2
    at_start = model.compile_logp([model["y"]], mode=PLAIN)(model.initial_point())
    assert at_start == pytest.approx(n * of_joint, rel=1e-10)


def test_all_ways_to_give_cells_are_one():
    """Frames, tables, arrays, and tensors of codes, in any order of columns; levels as they are or as codes."""
    frame = pd.DataFrame(
        {"x": [0.5, -1.0, np.nan], "level": pd.Categorical(["b", None, "c"], list("abc")), "count": [2, 0, 5]}
    )
    table = ps.Table.from_frame(frame)
    nodes = [("product", (1, 2, 3)), ("leaf", 0, "gaussian"), ("leaf", 1, "categorical"), ("leaf", 2, "poisson")]
    circuit = build(nodes, table.columns, ("gaussian", "categorical", "poisson"))
    leaves = {f: MIXED_LEAVES[f][:1] for f in MIXED_LEAVES}
    x, level, count = (table.values[:, d] for d in range(3))
    ways = [
        frame[["x", "level"]],
        frame[["level", "x"]],
        ps.Table.from_frame(frame[["level", "x"]], schema=[table.columns[1], table.columns[0]]),
        {"x": list(x), "level": frame["level"]},
        {"level": np.array(["b", None, "c"]), "x": pytensor.shared(x)},
        {("level", "x"): pytensor.shared(np.column_stack([level, x]))},
        {"x": pytensor.shared(x[:, None]), "level": pytensor.shared(level)},
    ]
    with pm.Model() as model:
        for i, given in enumerate(ways):
            ps.CircuitDensity(f"y{i}", circuit, [], leaves, observed=frame[["count"]], given=given)
        coded = pytensor.shared(count[:, None])
        ps.CircuitDensity("coded", circuit, [], leaves, observed=coded, given=frame[["x", "level"]])
    expected = stats.poisson.logpmf(count, 1.0)  # one product: independent of what is given
    found = model.compile_logp(sum=False, mode=PLAIN)({})
    assert len(found) == 8
    for logs in found:
        np.testing.assert_allclose(logs, expected, rtol=1e-12, atol=1e-12)
    circuit = build([("sum", (1, 2)), *[("product", (3 + 3 * k, 4 + 3 * k, 5 + 3 * k)) for k in range(2)],
                     *[("leaf", 0, "gaussian"), ("leaf", 1, "categorical"), ("leaf", 2, "poisson")] * 2],
                    table.columns, ("gaussian", "categorical", "poisson"))  # fmt: skip
    with pm.Model() as model:
        for i, given in enumerate(ways):
            ps.CircuitDensity(f"y{i}", circuit, MIXED_WEIGHTS, MIXED_LEAVES, observed=frame[["count"]], given=given)
    expected = conditional_logs(circuit, table.values, [2], MIXED_WEIGHTS, MIXED_LEAVES)
    assert np.abs(expected - stats.poisson.logpmf(count, 1.0)).max() > 0.01
    for logs in model.compile_logp(sum=False, mode=PLAIN)({}):
        np.testing.assert_allclose(logs, expected, rtol=1e-12, atol=1e-12)


def test_batches_bring_their_given_cells():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(6, 1)), (rng.random((6, 1)) < 0.5).astype(float)
    with pm.Model() as model:
        given, rows = pm.Minibatch(x, y, batch_size=2)
        ps.CircuitDensity(
            "y", TWO, np.log([0.5, 0.5]), {"gaussian": [[0.0, 1.0], [1.5, 0.8]]} | TWO_LABELS, observed=rows,
            given={("x",): given}, total_size=6,
        )  # fmt: skip
    logs = shifted_logs(x[:, 0], y[:, 0], np.array([1.5]))
    possible = (3.0 * (logs + logs.T)).ravel()  # two rows count for six
    logp = model.compile_logp(mode=PLAIN)
    found = [np.abs(possible - logp({})) for _ in range(10)]
    assert len({d.argmin() for d in found}) > 3
    assert max(d.min() for d in found) < 1e-10


def test_rows_are_those_of_the_given_cells():
    """Labels of rows are theirs; other numbers of rows are refused when it runs, impossible cells when it draws."""
    leaves = {"gaussian": [[0.0, 1.0], [1.5, 0.8]]} | TWO_LABELS
    named = pd.DataFrame({"x": [0.0, 1.0]}, index=["u", "v"])
    with pm.Model() as model:
        ps.CircuitDensity("named", TWO, np.log([0.5, 0.5]), leaves, observed=[[0.0], [1.0]], given=named)
        data = pm.Data("x", [0.0, 1.0])
        ps.CircuitDensity("y", TWO, np.log([0.5, 0.5]), leaves, observed=[[0.0], [1.0]], given={"x": data})
        logp = model.compile_logp(mode=PLAIN)
        assert np.isfinite(logp({}))
        assert list(model.coords["named_row"]) == ["u", "v"] and model.coords["y_row"] is None
        pm.set_data({"x": [0.0]})
        with pytest.raises(ValueError, match="observed must have as many rows as given"):
            logp({})
        pm.set_data({"x": [0.0, 1.0, np.inf]})
        for how in ({}, BY_PYTHON):
            with pytest.raises(ValueError, match="given: row 2 of a CircuitDensity has density 0"):
                pm.sample_prior_predictive(2, var_names=["y"], **how)


X, Y = np.array([0.0, 1.0, 2.0]), np.array([[0.0], [1.0], [1.0]])
FRAME = pd.DataFrame({"x": X}, index=["u", "v", "w"])


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"given": {"z": X}}, ValueError, r"given must hold columns of the circuit, \['x', 'y'\], got 'z'"),
        ({"given": pd.DataFrame({"x": X, "y": X})}, ValueError,
         r"given must leave a column .* it holds all of \['x', 'y'\]"),
        ({"given": {"x": X, ("x",): X}}, ValueError, r"given must hold a column once, got \('x',\) beside 'x'"),
        ({"given": {("x", "x"): pt.dmatrix()}}, ValueError, "given must hold a column once, got 'x' 2 times"),
        ({"given": pd.DataFrame(np.zeros((3, 2)), columns=["x", "x"])}, ValueError, "a column once, got 'x' 2 times"),
        ({"given": {}}, ValueError, r"given must hold at least one of the circuit's columns \['x', 'y'\], got none"),
        ({"given": FRAME[[]]}, ValueError, "given must hold at least one of the circuit's columns"),
        ({"given": X[:, None]}, TypeError, "given must be a DataFrame, a Table or a mapping .* got ndarray"),
        ({"given": pt.dmatrix()}, TypeError, "given must be .* or a mapping .* got a tensor of 2 dimensions"),
        ({"given": {0.5: X}}, TypeError, "given must map names of columns, or tuples of them, to cells; got the key"),
        ({"given": {"x": FRAME}}, TypeError, r"given\['x'\] must be an array or a tensor; give a table as given=table"),
        ({"given": {"x": X[:, None, None]}}, ValueError, r"given\['x'\] must have shape .* got \(3, 1, 1\)"),
        ({"given": {"x": pt.dmatrix(shape=(None, 2))}}, ValueError, r"given\['x'\] must have shape .* got \(None, 2\)"),
        ({"given": {("x", "y"): pt.dvector()}}, ValueError, r"given must leave a column"),
        ({"given": {"x": X[:2]}}, ValueError, r"observed must have as many rows as given\['x'\], 2, got 3"),
        ({"given": FRAME[:0]}, ValueError, "given must have at least one row; it has none"),
        ({"given": {"x": X[:1]}, "observed": pt.dmatrix()}, ValueError,
         r"given\['x'\] must not have one row where observed may have others: have them in a pm.Data, too"),
        ({"given": FRAME, "observed": pd.DataFrame({"y": Y[:, 0]}, index=["u", "w", "v"])}, ValueError,
         "observed must have the row labels of given, got 'w' for 'v' at row 1"),
        ({"observed": np.zeros((3, 2))}, ValueError, r"observed must have shape \(rows, 1\), got \(3, 2\)"),
        ({"observed": pt.dmatrix(shape=(3, 2))}, ValueError, r"observed must have shape \(rows, 1\), got \(3, 2\)"),
        ({"observed": pd.DataFrame({"x": X})}, ValueError,
         r"observed must have the columns that are not given, \['y'\]"),
        ({"shape": (3, 1)}, ValueError, "shape must not be given where given is: the data have it"),
        ({"observed": None, "shape": (4, 1)}, ValueError, "shape must not be given where given is"),
        ({"observed": None}, ValueError, "needs densities in all columns that are not given, 'y' has a bernoulli leaf"),
        ({"log_weights": np.log(np.full((4, 2), 0.5))}, ValueError,
         r"log_weights must have as many rows as given\['x'\], 3"),
        ({"observed": None, "given": {"y": Y}, "total_size": 9}, ValueError,
         "total_size must be given only where observed"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(changed, error, message):
    fine = {"log_weights": np.log([0.5, 0.5]), "leaf_parameters": {"gaussian": [[0.0, 1.0], [1.5, 0.8]]} | TWO_LABELS}
    with pm.Model(), pytest.raises(error, match=message):
        ps.CircuitDensity("y", TWO, **(fine | {"observed": Y, "given": {"x": X}} | changed))


def test_what_columns_do_not_take_is_named():
    frame = pd.DataFrame({"size": [1.0, 2.0], "level": pd.Categorical(["a", "b"])})
    columns = ps.Table.from_frame(frame, kinds={"size": "positive"}).columns
    nodes = [("product", (1, 2)), ("leaf", 0, "log_normal"), ("leaf", 1, "categorical")]
    circuit = build(nodes, columns, ("log_normal", "categorical"))
    leaves = {"log_normal": [[0.0, 1.0]], "categorical": [[0.5, 0.5]]}
    wrong = frame.assign(size=[1.0, -2.0])[["size"]]
    with pm.Model(), pytest.raises(ValueError, match=r"given: column 'size'.* row 1"):
        ps.CircuitDensity("y", circuit, [], leaves, observed=frame[["level"]], given=wrong)
