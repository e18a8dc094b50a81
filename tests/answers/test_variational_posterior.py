"""`fit_variational` and what it returns: errors, hyperparameters, restarts, the protocol of a posterior, saving."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from tests.answers.variational_fits import fitted, states_of_fit, table
from tests.network_problems import mixed_frame


@pytest.mark.parametrize("n_children", [2, "infinite"])
def test_every_restart_rises_and_the_highest_is_kept(n_children):
    post = fitted(n_children)
    trace = post.trace()
    assert trace.dims == ("restart", "step") and trace.attrs["exactness"] == "bound"
    for run in trace.values:
        assert np.diff(run[~np.isnan(run)]).min() > -1e-9
    ends = [run[~np.isnan(run)][-1] for run in trace.values]
    prior = states_of_fit(post).fit.log_prior
    assert post.bound == pytest.approx(max(ends) - prior, abs=1e-12)
    assert prior != 0.0 and post.converged


def test_draws_have_the_moments_and_imputations_keep_what_is_known():
    post = fitted()
    drawn = post.sample(20_000, random_seed=2)
    bounded = {"a": (-5.0, 12.0)}  # Student t tails have no useful standard errors
    mean = float(post.mean(given=bounded).sel(column="a"))
    sd = float(np.sqrt(post.cov(given=bounded).sel(column="a", other="a")))
    kept = drawn.a[drawn.a.between(-5.0, 12.0)]
    assert abs(kept.mean() - mean) < 5.0 * sd / np.sqrt(len(kept))
    assert kept.std() == pytest.approx(sd, rel=0.03)
    share = float(post.probability({"c": "1"}))
    assert abs((drawn.c == "1").mean() - share) < 5.0 * np.sqrt(share * (1.0 - share) / len(drawn))
    completed = post.impute(table(), n=1, random_seed=3)
    assert not completed.isna().any().any()
    known = table().notna().to_numpy()
    assert (completed.to_numpy()[known] == table().to_numpy()[known]).all()
    again = post.impute(table(), n=1, random_seed=3)
    other = post.impute(table(), n=1, random_seed=4)
    assert completed.equals(again) and not completed.equals(other)


def test_what_is_drawn_is_recorded_on_the_grid_of_the_table():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"mm": np.round(rng.normal(200.0, 14.0, 60), 1), "x": rng.normal(size=60)})
    post, gaps = ps.fit_variational(frame, random_seed=1, progressbar=False), frame.mask(rng.random((60, 2)) < 0.2)
    for drawn in (post.sample(40, random_seed=1), post.impute(gaps, random_seed=1)):
        np.testing.assert_allclose(drawn["mm"], drawn["mm"].round(1), rtol=0, atol=1e-9)
        assert drawn["x"].nunique() == len(drawn)
    filled = post.impute(gaps, random_seed=1, on_grid=False)
    assert np.all(np.where(gaps["mm"].isna(), (filled["mm"] - filled["mm"].round(1)).abs() > 1e-9, True))
    assert filled["mm"].round(1).equals(post.impute(gaps, random_seed=1)["mm"].round(1))
    assert (post.sample(9, {"mm": (200.01, 200.04)}, random_seed=1)["mm"] > 200.0).all()  # no point of the grid in it


@pytest.mark.parametrize("n_children", [2, "infinite"])
def test_the_fit_as_a_circuit_has_its_density(n_children):
    rows = pd.concat([table(), pd.DataFrame({"a": [40.0], "b": [0.0], "n": [2], "c": ["1"]})])
    post = fitted(n_children)
    found = post.as_circuit()
    np.testing.assert_allclose(found.log_density(rows), post.log_density(rows), rtol=0, atol=1e-10)
    assert found.draws.tolist() == [0]
    some = post.marginal(["b", "c"])
    logs = some.as_circuit().log_density(rows[["b", "c"]])
    np.testing.assert_allclose(logs, some.log_density(rows[["b", "c"]]), rtol=0, atol=1e-10)
    given = post.condition({"c": "1"})
    left = [c.name for c in given.columns]
    logs = given.as_circuit().log_density(rows[left])
    np.testing.assert_allclose(logs, given.log_density(rows[left]), rtol=0, atol=1e-10)


def test_several_splits_as_a_circuit():
    frame = mixed_frame()
    structure = ps.circuits.complete_tree(
        ps.Table.from_frame(frame).columns, n_children=3, split="random", repetitions=2, random_seed=1
    )
    post = ps.fit_variational(frame, structure, leaves={"visits": ps.leaves.Poisson()}, restarts=1, random_seed=0)
    np.testing.assert_allclose(post.as_circuit().log_density(frame), post.log_density(frame), rtol=0, atol=1e-10)
    observed = frame.notna().sum()
    rows = [states_of_fit(post).rows_on_entries(d).sum() for d in range(len(observed))]
    np.testing.assert_allclose(rows, observed, rtol=1e-9)  # each row at one of a column's two places


def test_leaf_types_are_expected_shares_of_the_observed_cells():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"bell": rng.normal(30.0, 2.0, 150), "wait": rng.exponential(3.0, 150)})
    frame.loc[:9, "bell"] = np.nan
    both = [ps.leaves.Gaussian(), ps.leaves.Exponential()]
    data = ps.Table.from_frame(frame, kinds={"bell": "positive", "wait": "positive"})
    structure = ps.circuits.complete_tree(data.columns, n_children=4)
    post = ps.fit_variational(data, structure, leaves={"bell": both, "wait": both}, random_seed=3)
    bell, wait = post.leaf_types("bell"), post.leaf_types("wait")
    assert bell.dims == ("chain", "draw", "family") and bell.sizes["draw"] == 1
    assert bell["family"].values.tolist() == ["gaussian", "exponential"]
    assert bell.sel(family="exponential").item() < 0.05 and wait.sel(family="exponential").item() > 0.6
    assert float(bell.sum()) == pytest.approx(1.0) and float(wait.sum()) == pytest.approx(1.0)
    states = states_of_fit(post)
    assert states.rows_on_entries(0).sum() == pytest.approx(140.0, rel=1e-9)  # gaps have no leaf
    fit = states.fit  # four children of a node: entries 0 and 2 are Gaussian, 1 and 3 Exponential, or one of each
    region = structure.leaf_region[structure.leaf_column == 1]
    here = np.isin(fit.region, region)
    families = [states.schema.palette[1][e].family for e in fit.option[here]]
    by_hand = sum(n for n, f in zip(fit.count[here], families, strict=True) if f == "gaussian") / 150
    assert wait.sel(family="gaussian").item() == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("n_children", [3, "infinite"])
def test_co_clustering_is_that_of_the_children_of_the_top_sum(n_children):
    """By the circuit with one child of the root at a time; the last child stands for those without rows."""
    post, rows = fitted(n_children), table().iloc[:12]
    found = post.co_clustering(rows)
    learned = post.as_circuit()
    top = int((learned.circuit.edge_sum == 0).sum())
    logs = np.empty((top, len(rows)))
    for k in range(top):
        one = learned.log_weights.copy()
        one[:top] = np.where(np.arange(top) == k, 0.0, -np.inf)
        of_child = learned.circuit.with_parameters(one, learned.leaf_parameters)
        logs[k] = of_child.log_density(rows).values + learned.log_weights[k]
    share = np.exp(logs - post.log_density(rows).values)
    n_edges = int((states_of_fit(post).fit.region == 0).sum())
    assert n_edges in (top, top - 1)
    expected = share[:n_edges].T @ share[:n_edges]
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.dims == ("row", "other") and not any(k.startswith("mcse") for k in found.attrs)
    cluster = rows["b"].to_numpy() < -2.0
    known = ~rows["b"].isna().to_numpy()
    assert found.values[np.ix_(known & cluster, known & ~cluster)].max() < 0.01


def test_answers_say_what_they_are():
    answer = fitted().log_density(table())
    assert answer.attrs["exactness"] == "exact given the fit" and "one mode" in answer.attrs["learner"]
    assert not any(k.startswith("mcse") for k in answer.attrs)
    assert fitted().log_density(table(), per_draw=True).sizes["draw"] == 1
    h = fitted().hyperparameters()
    assert h["leaf_scale"].sizes == {"column": 4} and float(h["leaf_scale"].min()) > 0
    assert repr(fitted().condition({"c": "1"})).endswith("given 'c' '1')")


def test_a_seed_repeats_a_fit():
    again = fitted.__wrapped__()
    np.testing.assert_array_equal(again.trace(), fitted().trace())
    other = fitted(seed=2).trace().values[:, 0]
    assert not np.array_equal(other, fitted().trace().values[:, 0])


def test_a_structure_of_names_gives_the_same_fit():
    """Counts keep their log x! where the structure knows names only, no kinds: palettes mix them with densities."""
    leaves = {"n": [ps.leaves.Gaussian(), ps.leaves.Poisson()]}
    options = {"leaves": leaves, "random_seed": 1, "restarts": 1, "max_steps": 20}
    by_kind, by_name = (
        ps.fit_variational(table(), ps.circuits.complete_tree(columns, n_children=2), **options)
        for columns in (ps.Table.from_frame(table()).columns, list(table()))
    )
    np.testing.assert_array_equal(by_name.trace(), by_kind.trace())


def test_without_a_structure_it_is_the_learned_tree():
    options = {"leaves": {"n": ps.leaves.Poisson()}, "random_seed": 1, "restarts": 1, "max_steps": 20}
    given = ps.circuits.learn_tree(table(), random_seed=0, apart=["a", "b"])
    one, other = ps.fit_variational(table(), **options), ps.fit_variational(table(), given, **options)
    np.testing.assert_array_equal(one.trace(), other.trace())
    with pytest.raises(TypeError, match=r"got RegionTree. .* second: fit_variational\(df, structure\)"):
        ps.fit_variational(given, table())


def test_given_hyperparameters_stay_and_estimates_do_better():
    structure = ps.circuits.complete_tree(ps.Table.from_frame(table()).columns)
    fixed = {"concentration": [1.5, 0.7], "leaf_scale": 0.3, "leaf_shape": 1.5, "precision_ratio": 0.05}
    fixed["covariance_scale"] = 0.2
    held = ps.fit_variational(table(), structure, **fixed, random_seed=1)
    h = held.hyperparameters()
    assert h.concentration.values.tolist() == [1.5, 0.7] and set(h.leaf_scale.values) == {0.3}
    assert states_of_fit(held).fit.log_prior == 0.0
    free = ps.fit_variational(table(), structure, **(fixed | {"leaf_scale": None}), random_seed=1)
    assert free.bound > held.bound + 1.0


@pytest.mark.parametrize("width", [2, 5, "infinite"])
def test_gaps_splits_and_single_columns_are_fitted(width):
    frame = mixed_frame()
    columns = ps.Table.from_frame(frame).columns
    two_trees = ps.circuits.complete_tree(columns, n_children=width, split="random", repetitions=2, random_seed=1)
    for structure in (two_trees, ps.circuits.skewed_tree(columns, n_children=width)):
        post = ps.fit_variational(frame, structure, restarts=2, random_seed=0)
        logs = post.log_density(frame)
        assert np.isfinite(logs).all() and logs.values[6] > logs.values[3]  # one cell against five
        levels = np.exp(post.marginal(["colour"]).log_density({"colour": ["red", "blue", "green"]}))
        assert float(levels.sum()) == pytest.approx(1.0, abs=1e-12)
        rises = np.diff(post.trace().values)
        assert np.nanmin(rises) > -1e-9
    one = ps.circuits.complete_tree(["size"], n_children=width)
    assert np.isfinite(ps.fit_variational(frame[["size"]], one, random_seed=0).log_density(frame[["size"]])).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_children": 0}, "max_children must be an integer of at least 1, got 0"),
        ({"restarts": 1.5}, r"restarts must be an integer of at least 1, got 1\.5"),
        ({"max_steps": True}, "max_steps must be an integer of at least 1, got True"),
        ({"tolerance": 0.0}, r"tolerance must be positive and finite, got 0\.0"),
        ({"leaf_scale": -1.0}, r"leaf_scale must be positive and finite; it is -1\.0 at 'a'"),
        ({"leaves": {"zzz": ps.leaves.Gaussian()}}, "leaves names the column 'zzz'"),
    ],
)
def test_bad_arguments_are_named(change, message):
    structure = ps.circuits.complete_tree(ps.Table.from_frame(table()).columns)
    with pytest.raises(ValueError, match=message):
        ps.fit_variational(table(), structure, **change)
    with pytest.raises(TypeError, match="name must be a string, got 1"):
        ps.fit_variational(table(), structure, name=1)


def test_what_a_fit_cannot_answer_is_refused(tmp_path):
    with pytest.raises(TypeError, match="structure must be a RegionTree"):
        ps.fit_variational(table(), ["a"])
    with pytest.raises(TypeError, match="leaves must be a dict"):
        ps.fit_variational(table()[["a"]], ps.circuits.complete_tree(["a"]), leaves=[ps.leaves.Gaussian()])
    for ask in (fitted().log_likelihood, fitted().co_clustering):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'df'"):
            ask()
    missing = {"draw_circuits", "top_clusters", "diagnose", "stacked", "run_weights"}
    missing |= {"posterior_predictive", "predictive_check"}
    assert missing == {name for name in dir(ps.SPNPosterior) if not name.startswith("_")} - set(dir(fitted()))
    with pytest.raises(ValueError, match="holds no assignments"):
        states_of_fit(fitted()).leave_one_out()
    with pytest.raises(ValueError, match="the file holds no variational fit"):
        ps.VariationalPosterior.from_idata(xr.DataTree())


def test_a_limit_that_ends_a_fit_is_said_everywhere(tmp_path):
    frame, options = mixed_frame(), {"restarts": 1, "random_seed": 0, "progressbar": False}
    with pytest.warns(UserWarning, match=r"max_steps=2 ended the fit while its bound still gained") as found:
        post = ps.fit_variational(frame, max_steps=2, **options)
    assert len(found) == 1 and found[0].filename == __file__
    post.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="name must be 'x'"):
        ps.VariationalPosterior.from_idata(tmp_path / "fit.nc", name="y")
    for one in (post, ps.load(tmp_path / "fit.nc"), post.condition({"colour": "red"})):
        assert "not converged" in repr(one) and one.mean().attrs["converged"] == 0
    whole = ps.fit_variational(frame, **options)
    assert whole.converged and "converged" not in repr(whole) and "converged" not in whole.mean().attrs


def test_columns_whose_values_repeat_are_named(tmp_path):
    rng, options = np.random.default_rng(0), {"restarts": 1, "random_seed": 0, "progressbar": False}
    days = rng.choice(rng.normal(size=15), (300, 5)) + rng.normal(0.0, 1e-4, (300, 5))
    frame = pd.DataFrame(days, columns=[f"day{i}" for i in range(5)])
    frame["rain"], frame["cents"] = rng.gamma(2.0, 1.0, 300).round(2), rng.normal(size=300).round(1)
    frame.loc[::12, "rain"] = 0.0
    ps.fit_variational(frame, **options).save(tmp_path / "fit.nc")
    said = ": chains fit better (2 to 20 nats a row in tests)"
    post = ps.load(tmp_path / "fit.nc")
    for shown in (repr(post), post._repr_html_()):
        assert f"day0, day1, ..., day3, day4 repeat values{said}" in shown
    assert f"day1 repeats values{said}" in repr(post.marginal(["day1", "rain"]))
    assert said not in repr(post.marginal(["cents", "rain"])) and said not in repr(fitted())


def test_a_level_of_one_row_in_five_hundred_is_learned():
    rng, n = np.random.default_rng(0), 8_000
    y, group = rng.random(n) < 2e-3, rng.integers(0, 3, n)
    x = rng.normal(size=(n, 3)) + np.array([[0.0, 0, 0], [2, -1, 1], [-2, 1, 1.5]])[group]
    x[y] = rng.normal(5.0, 0.5, (y.sum(), 3))
    df = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=np.where(y, "rare", "usual"))
    fit = ps.fit_variational(df, restarts=1, random_seed=0, progressbar=False)
    assert fit.converged
    there = pd.DataFrame({"a": [5.0, 0.0], "b": 5.0, "c": [5.0, 0.0]})  # densities of 1e-3 against 1e-9 at the first
    assert fit.predict_proba(there, "y").sel(level="rare").values[0] > 0.9
