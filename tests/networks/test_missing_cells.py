"""Missing cells as a variable of the model: exact answers of tiny tables, `pm.sample`.

Power is measured by planted mistakes: cells accepted whatever the rest of the model says, and a leaf that keeps the
statistics of the value that a cell had.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.networks.records import cell_moves
from pymc_spn.networks.records.cell_moves import CellMoves, settle_row
from pymc_spn.networks.records.record import read_record
from tests.network_problems import reference_problem
from tests.networks.gaps import completed, draw_cells, exact_expectations, schema_of, z_scores
from tests.networks.tiny import summary, tiny_sampler
from tests.reference import CATEGORICAL, GAUSSIAN, NARROW, Problem, log_joint, state_from_digits, tiny_problems
from tests.reference_queries import log_predictive
from tests.sampled_runs import assert_same, draw, model_of

pytestmark = pytest.mark.usefixtures("integrated")

nan = np.nan
PAIR = ((0,), (1,))
GRID = np.linspace(-6.0, 8.0, 41)
MIXED = Problem(PAIR, 2, 1.5, 0.8, [[GAUSSIAN], [CATEGORICAL]], np.array([[0.3, 1.0], [nan, 0.0], [2.4, nan]]))
BOTH = Problem(PAIR, "infinite", 1.5, 0.8, [[GAUSSIAN], [NARROW]], np.array([[0.3, 1.1], [nan, nan], [2.4, 0.2]]))
FUNCTIONS = [lambda c: c[0], lambda c: c[0] ** 2, lambda c: c[1], lambda c: c[0] * c[1]]


def regression(cells):
    """Three responses with known coefficients; the first cell pulls away from where the network would put it."""
    mean = np.array([0.9 * cells[0], 1.0 + 1.2 * cells[1], 0.5 * cells[0] - 0.7 * cells[1]])
    return -0.5 * (((np.array([1.8, 2.9, 0.1]) - mean) / np.array([0.7, 0.8, 1.1])) ** 2).sum()


@pytest.fixture(scope="module")
def exact():
    wide = np.linspace(-4.5, 6.5, 23)
    return {
        "mixed": exact_expectations(MIXED, [GRID, np.arange(3.0)], regression, FUNCTIONS),
        "both": exact_expectations(BOTH, [wide, wide], regression, FUNCTIONS),
    }


CASES = {"mixed": (MIXED, [0.5, 1.0]), "both": (BOTH, [0.5, 1.0])}


@pytest.mark.parametrize("name", CASES)
def test_reaches_enumeration_and_quadrature(name, exact):
    problem, start = CASES[name]
    draws = draw_cells(problem, start, regression, FUNCTIONS, 4000, 1)
    assert distances(draws, exact[name]).max() < 0.12
    assert np.abs(z_scores(draws, exact[name])).max() < 4.5


def distances(draws, exact):
    """Distance of the means from the exact ones in standard deviations of the quantity: blind to mixing."""
    return np.abs(draws.mean(0) - exact) / draws[len(draws) // 10 :].std(0)


class Deaf(CellMoves):
    """A mistake: every proposal is accepted."""

    def sweep(self, rng, sampler, missing, log_rest):
        return super().sweep(rng, sampler, missing, lambda cells: 0.0)


def test_a_rest_that_is_ignored_is_noticed(exact):
    problem, start = CASES["both"]
    draws = draw_cells(problem, start, regression, FUNCTIONS, 4000, 1, moves=Deaf)
    assert distances(draws, exact["both"]).max() > 0.3  # 0.55; 0.02 without the mistake


def test_without_a_rest_the_cells_are_the_networks_own():
    """Nothing else uses them: the completed table has the posterior that summing out gives."""
    problem, functions = CASES["mixed"][0], FUNCTIONS[:3]
    exact = exact_expectations(problem, [GRID, np.arange(3.0)], lambda c: 0.0, functions)
    draws = draw_cells(problem, [0.5, 1.0], None, functions, 4000, 3)
    assert np.abs(z_scores(draws, exact)[2:]).max() < 4.5  # tails of the Student t are wider than the grid


def settle_as_if_unchanged(*groups_and_row):
    """Stand-in of `settle_row`: a leaf that the row returns to keeps the statistics of the old value."""
    *groups, y, _, slots, accepted, options = groups_and_row
    settle_row(*groups, y, y, slots, accepted, options)  # as if no cell of the row was missing


NAMES = [
    "palette",
    "missing",
    "infinite_missing",
    "splits",
    "infinite_splits",
    "two_trees",
    "skewed",
    "infinite_skewed",
]


@pytest.mark.parametrize("name", NAMES)
def test_statistics_stay_those_of_the_completed_table(name):
    check_statistics(name)


def test_old_statistics_are_noticed(monkeypatch):
    monkeypatch.setattr(cell_moves, "settle_row", settle_as_if_unchanged)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_statistics("missing")


def check_statistics(name):
    """After every sweep the network is what a rebuild from the cells gives, rows wholly missing included."""
    problem = tiny_problems()[name]
    X = np.tile(problem.X, (4, 1))
    gaps = np.random.default_rng(0).random(X.shape) < 0.4
    gaps[2] = True
    start = np.where(np.isnan(X) | gaps, 1.0, X)
    sampler = tiny_sampler(replace(problem, X=start))
    rows, columns = np.nonzero(gaps)
    schema = schema_of(sampler, X.shape[1])
    moves, missing, rng = CellMoves(schema, rows, columns), np.ones(rows.size), np.random.default_rng(1)
    sampler.hyperparameters = (np.ones(2), *np.ones((4, X.shape[1])))
    for i in range(60):
        sampler.sweep(rng)
        missing, accepted = moves.sweep(rng, sampler, missing, (lambda c: -0.1 * (c**2).sum()) if i % 3 else None)
        assert accepted > 0.0
        before = summary(sampler)
        sampler.compact()
        np.testing.assert_allclose(before, summary(sampler), rtol=1e-9, atol=1e-9)
    places = sampler.structure.leaf_column
    whole = np.where(gaps, 0.0, start)
    whole[rows, columns] = missing
    np.testing.assert_array_equal(sampler.coded, whole[:, places])


# ---- inside pm.sample
TAU, SIGMA = 1.5, 0.5
TABLE = pd.DataFrame({"a": [0.3, nan, 2.4, 1.9], "b": [1.1, 0.8, 0.2, 2.6]})
Y = np.array([0.5, 2.0, 2.2, 2.1])
FIXED = dict(concentration=1.0, leaf_scale=0.6, leaf_shape=2.0, precision_ratio=0.2)


def small_model(y=Y, table=TABLE, width=2, **arguments):
    with pm.Model() as model:
        x = ps.SPN(
            "x", ps.circuits.complete_tree(list(table), width), observed=table, missing="draw", **(FIXED | arguments)
        )
        beta = pm.Normal("beta", 0.0, TAU)
        pm.Normal("y", beta * ps.completed_columns(x)["a"], SIGMA, observed=y)
    return model


@pytest.fixture(scope="module")
def small_run():
    return draw(small_model(), draws=800, tune=300, chains=2)


def test_regression_beside_nuts_against_its_closed_form(small_run):
    """Coefficients integrate out: y is Gaussian given the cell, the cell by quadrature, assignments by enumeration."""
    record = read_record(small_run)
    h = [v[0, 0] for v in record.hyperparameters.values()]
    problem = reference_problem(record.schema, record.table, h)
    grid = np.linspace(-4.0, 6.0, 81)

    def slope(cells):  # posterior mean and variance of the coefficient
        a = completed(problem, cells).X[:, 0]
        precision = 1 / TAU**2 + (a**2).sum() / SIGMA**2
        return (a * Y).sum() / SIGMA**2 / precision, 1 / precision

    def log_rest(cells):
        a = completed(problem, cells).X[:, 0]
        covariance = SIGMA**2 * np.eye(4) + TAU**2 * np.outer(a, a)
        return -0.5 * (np.linalg.slogdet(covariance)[1] + Y @ np.linalg.solve(covariance, Y))

    functions = [
        lambda c: c[0],
        lambda c: c[0] ** 2,
        lambda c: slope(c)[0],
        lambda c: slope(c)[0] ** 2 + slope(c)[1],
        lambda c: c[0] * slope(c)[0],
    ]
    exact = exact_expectations(problem, [grid], log_rest, functions)[:-1]
    cell, beta = small_run.posterior["x_missing"].values[..., 0], small_run.posterior["beta"].values
    drawn = np.stack([cell, cell**2, beta, beta**2, cell * beta], axis=-1)
    pooled = np.concatenate([d[: len(d) // 20 * 20].reshape(20, -1, 5).mean(1) for d in drawn])
    z = (pooled.mean(0) - exact) / (pooled.std(0, ddof=1) / np.sqrt(len(pooled)))
    assert np.abs(z).max() < 4.5


def test_what_is_recorded_is_the_completed_state(small_run, tmp_path):
    small_run = small_run.isel(draw=slice(0, 800, 160))
    post = ps.SPNPosterior.from_idata(small_run)
    post.save(tmp_path / "post.nc")
    again = ps.SPNPosterior.from_idata(tmp_path / "post.nc")
    new = pd.DataFrame({"a": [0.4, nan], "b": [1.0, 0.5]})
    logs = post.log_density(new, per_draw=True).values
    left = post.log_likelihood()["x"].values
    np.testing.assert_array_equal(logs, again.log_density(new, per_draw=True).values)
    np.testing.assert_array_equal(left, again.log_likelihood()["x"].values)
    record = read_record(small_run)
    for i in range(5):
        h = [v[0, i] for v in record.hyperparameters.values()]
        problem = completed(reference_problem(record.schema, record.table, h), record.variables["x_missing"][0, i])
        state = state_from_digits(record.digits[0, i])
        assert small_run.posterior["x_log_joint"].values[0, i] == pytest.approx(log_joint(problem, state), rel=1e-10)
        np.testing.assert_allclose(logs[0, i], log_predictive(problem, state, new.to_numpy()), atol=1e-9)
        for n in range(4):
            others = replace(problem, X=np.delete(problem.X, n, axis=0))
            own = log_predictive(others, state[:n] + state[n + 1 :], TABLE.to_numpy()[[n]])
            assert left[0, i, n] == pytest.approx(own[0], abs=1e-9)


def larger_model():
    """Gaps of every kind; the regression uses some of them, a potential another."""
    rng = np.random.default_rng(3)
    n = 24
    group = rng.integers(0, 2, n)
    data = pd.DataFrame(
        {
            "a": (rng.normal(size=n) + 4.0 * group).round(3),
            "b": np.array(["u", "v", "w"])[rng.integers(0, 3, n)],
            "c": pd.array(rng.poisson(2.0 + 5.0 * group), dtype="Int64"),
            "d": pd.array(rng.random(n) < 0.4, dtype="boolean"),
            "e": rng.exponential(1.0 + group, n).round(4),
        }
    )
    for column in data:
        data.loc[rng.choice(n, 5, replace=False), column] = None
    with pm.Model() as model:
        kinds = {"e": "positive"}
        table = ps.Table.from_frame(data, kinds=kinds)
        leaves = {"e": ps.leaves.Exponential()}
        x = ps.SPN("x", ps.circuits.complete_tree(table.columns), observed=table, missing="draw", leaves=leaves)
        columns = ps.completed_columns(x)
        slope = pm.Normal("slope", 0.0, 2.0, shape=3)
        mean = slope[0] * columns["a"] + slope[1] * columns["c"] + slope[2] * pm.math.eq(columns["b"], 2)
        pm.Normal("y", mean, pm.HalfNormal("sd", 1.0), observed=rng.normal(size=n) + 0.5 * group)
        pm.Potential("short", -0.1 * pm.math.sum(columns["e"]))
        pm.Deterministic("total", pm.math.sum(columns["c"]))
    return model


def test_spawned_processes_draw_the_same():
    """Of one product: PyTensor compiles sums anew in a spawned process, in an order that the hash seed decides."""
    model = small_model()
    assert_same(draw(model, cores=2, mp_ctx="spawn"), draw(model))


def test_forked_processes_draw_the_same_and_seeds_differ():
    model = larger_model()
    one = draw(model)
    assert_same(draw(model), one)
    assert_same(draw(model, cores=2, mp_ctx="fork"), one)
    other = draw(model, random_seed=2)
    cells = one.posterior["x_missing"].values
    assert (cells[0] != cells[1]).any() and (cells != other.posterior["x_missing"].values).any()
    assert np.isfinite(cells).all()
    labels = one.posterior["x_cell"].values
    for kind, possible in {"b": {0, 1, 2}, "d": {0, 1}}.items():
        own = cells[..., [label.endswith(f": {kind}") for label in labels]]
        assert set(np.unique(own)) <= possible and own.std() > 0
    counts = cells[..., [label.endswith(": c") for label in labels]]
    assert (counts == counts.round()).all() and (counts >= 0).all()
    assert 0.0 < one.sample_stats["x_cells_accepted"].values.mean() < 1.0


def test_cells_that_nothing_uses_are_always_accepted():
    model = model_of(ps.circuits.complete_tree(list("ab"), 2), observed=TABLE, missing="draw", **FIXED)
    idata = draw(model, chains=1)
    assert (idata.sample_stats["x_cells_accepted"] == 1.0).all()


def test_completed_columns_hold_the_draws():
    model = small_model()
    columns = ps.completed_columns(model["x"])
    assert list(columns) == ["a", "b"]
    np.testing.assert_array_equal(columns["b"].eval(), TABLE["b"])
    own = model.rvs_to_values[model["x_missing"]]
    found = model.compile_fn(model.replace_rvs_by_values([columns["a"]])[0], inputs=[own], point_fn=False)
    np.testing.assert_array_equal(found(np.array([7.0])), [0.3, 7.0, 2.4, 1.9])


def test_posterior_predictive_of_the_regression(small_run):
    with small_model():
        predictive = pm.sample_posterior_predictive(
            small_run.isel(draw=slice(0, 20)), var_names=["y"], progressbar=False
        )
    assert predictive.posterior_predictive["y"].shape == (2, 20, 4)


# ---- refusals
def test_refusals():
    with pytest.raises(ValueError, match='missing="draw" needs a missing cell'):
        small_model(table=TABLE.fillna(1.0))
    mixed = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [0.1, 0.2, 0.3]})
    with pytest.raises(ValueError, match=r"column 'a' is count and has missing cells, and values drawn"):
        small_model(
            y=Y[:3], table=mixed, leaves={"a": [ps.leaves.Gaussian(), ps.leaves.Poisson()]}, precision_ratio=0.1
        )
    with pytest.raises(TypeError, match=r'ps\.SPN with missing="draw"'):
        ps.completed_columns(pm.Normal.dist())
    with small_model() as model:
        for step in (lambda: ps.steps.TopDownSPNStep(kernel="published"), lambda: ps.steps.BottomUpSPNStep()):
            with pytest.raises(ValueError, match='kernel must be "exact" with missing="draw"'):
                step()
        with pytest.raises(ValueError, match="vars must hold 'x_missing'"):
            ps.steps.TopDownSPNStep([model["x_log_joint"]])
        with pytest.raises(NotImplementedError, match="cells that are drawn"):
            pm.sample_prior_predictive(2, random_seed=1)


def test_impossible_starts_are_refused():
    with small_model() as model:
        step = ps.steps.TopDownSPNStep()
    step.setup_chain(np.random.default_rng(1), 5, 5)
    with pytest.raises(ValueError, match=r"column 'a' \(real\) cannot start at nan"):
        step.step(model.initial_point() | {"x_missing": np.array([nan])})
    data = pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.5], "b": ["u", "v", None, "u"]})
    with pytest.raises(ValueError, match=r"column 'b' \(categorical\) cannot start at 7"):
        draw(small_model(table=data), initvals={"x_missing": np.array([7.0])}, chains=1)
    data["b"] = pd.array([1, 0, None, 3], dtype="Int64")
    model = small_model(table=data, leaves={"b": ps.leaves.Binomial(3)})
    with pytest.raises(ValueError, match=r"column 'b' \(count\) cannot start at 4"):
        draw(model, initvals={"x_missing": np.array([4.0])}, chains=1)


def test_stored_draws_are_not_evaluated(small_run):
    model = small_model()
    idata = draw(model, chains=1)
    with model, pytest.raises(RuntimeError, match="cannot be evaluated from stored draws"):
        pm.compute_log_likelihood(idata, var_names=["x"], progressbar=False)


def test_another_steps_move_is_noticed():
    """The density compares the cells with those that the state was built from."""
    model = small_model()
    with model:
        step = ps.steps.TopDownSPNStep()
    step.setup_chain(np.random.default_rng(1), 5, 5)
    point, _ = step.step(model.initial_point())
    logp = model.compile_logp(vars=[model["x"]])
    assert logp(point) == pytest.approx(float(point["x_log_joint"]))
    with pytest.raises(RuntimeError, match="running chain"):
        logp(point | {"x_missing": point["x_missing"] + 0.1})
    moved, _ = step.step(point | {"x_missing": point["x_missing"] + 0.1})  # our step takes the point as it is
    assert np.isfinite(moved["x_log_joint"])
