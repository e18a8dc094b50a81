"""Belief networks inside `pm.sample`: steps, records, posterior objects in a new process, refusals."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.special import expit

import pymc_spn as ps
from pymc_spn.indian_chefs.belief_network_schema import BeliefNetworkSchema, pack_parameters, unpack_parameters
from pymc_spn.indian_chefs.unit_scaling import table_of
from pymc_spn.numerics import chain_mixing
from pymc_spn.steps.kept_data import kept_data
from tests import sampled_runs
from tests.indian_chefs.handmade_networks import handmade
from tests.indian_chefs.small_graphs import graph, ring
from tests.sampled_runs import bits_of_every_process, recorded


def nonlinear():
    X = ring()
    with pm.Model() as model:
        gamma = pm.Gamma("gamma", 2, 2)
        ps.NLGBN("data", graph(gamma=gamma), observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
    return model


def linear():
    with pm.Model() as model:
        ps.LinearGaussianNetwork("data", graph(), observed=ring())
    return model


def sigmoid():
    with pm.Model() as model:
        ps.SigmoidBeliefNetwork("data", graph(), observed=(ring() > 0).astype(int))
    return model


def draw(model, draws=12, tune=6, **arguments):
    return sampled_runs.draw(model, draws, tune, **arguments)


@pytest.fixture(scope="module")
def drawn():
    return {make.__name__: draw(make()) for make in (nonlinear, linear, sigmoid)}


def test_the_log_joint_is_that_of_the_recorded_network(drawn):
    """Prior of the graph plus log density of the network; hidden units are not recorded, so only bounds hold for it."""
    for kind, idata in drawn.items():
        stats = idata["sample_stats"].dataset
        joint = idata["posterior"]["g_log_joint"]
        total = stats["g_log_prior"] + stats["g_log_likelihood"]
        np.testing.assert_allclose(joint, total, rtol=1e-10, err_msg=kind)
        assert np.isfinite(joint).all() and np.ptp(joint.values) > 0


def test_chains_apart_are_warned_of(drawn, monkeypatch, tmp_path):
    """Of a network once, though its graph would warn as well."""
    idata = drawn["nonlinear"].copy(deep=True)
    post = ps.BeliefNetworkPosterior.from_idata(idata)
    found = post.diagnose({"nodes": lambda post: post.graphs.n_nodes()}, ring(3, seed=5), n_pool=50)
    assert {"log_joint", "log_density, mean of rows", "log_density[2]", "nodes"} <= set(found.index)
    assert found.index[0] == "log density of the data"
    size = found.loc["log density of the data", "ess_bulk"]
    assert "log density of the data: R-hat" in repr(post) and f"effective size {size:.0f}" in repr(post)
    for variable in ("g_log_likelihood", "data_log_density"):
        idata["sample_stats"][variable] += 1e4 * idata["sample_stats"]["chain"]
    monkeypatch.setattr(chain_mixing, "FEWEST_DRAWS", 4)
    for read, of in (
        (ps.BeliefNetworkPosterior.from_idata, "'data': R-hat of the log density of the data"),
        (ps.GraphDraws.from_idata, "'g': R-hat of the log joint"),
    ):
        with pytest.warns(ps.ConvergenceWarning, match=of) as seen:
            post = read(idata)
        assert len(seen) == 1 and seen[0].filename == __file__
        post.save(tmp_path / "post.nc")
        with pytest.warns(ps.ConvergenceWarning):
            assert repr(ps.load(tmp_path / "post.nc")) == repr(post)
    # where it was not recorded, the log joint stands for it
    gone = idata.copy()
    gone["sample_stats"] = xr.DataTree(gone["sample_stats"].to_dataset().drop_vars("data_log_density"))
    with pytest.warns(ps.ConvergenceWarning, match="'data': R-hat of the log joint"):
        assert ps.BeliefNetworkPosterior.from_idata(gone).log_data is None


def test_parameters_stand_by_their_nodes_where_nodes_share_a_reputation():
    """A deletion moves the last slot elsewhere, so that nodes of one level do not stand by their slots."""
    with pm.Model() as model:
        levels = {0.25: 0.5, 0.75: 0.5}
        ps.LinearGaussianNetwork("data", graph(gamma=3.0, base=levels, max_nodes=20), observed=ring())
    idata = draw(model, draws=150, tune=10)
    records = idata["sample_stats"]["data_parameters"].values
    draws = ps.GraphDraws.from_idata(idata)
    assert (draws.counts > 4).mean() > 0.2
    for place in np.ndindex(draws.counts.shape):
        n = draws.counts[place]
        weights = unpack_parameters(records[place], 20)[0]
        np.testing.assert_array_equal(weights != 0.0, draws.parents[place][:n, :n])


def test_same_seed_same_draws_and_other_seed_others():
    one, again, other = (recorded(draw(nonlinear(), random_seed=s)) for s in (3, 3, 4))
    for name, value in one.items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
    assert not np.array_equal(one["posterior/g_log_joint"], other["posterior/g_log_joint"])
    assert not np.array_equal(one["posterior/g_log_joint"][0], one["posterior/g_log_joint"][1])


def test_spawned_processes_draw_the_same():
    """Steps, graph, record and head are pickled; gamma by NUTS reads the graph that the step moves there."""
    with bits_of_every_process():
        one, two = (recorded(draw(nonlinear(), **run)) for run in ({}, {"cores": 2, "mp_ctx": "spawn"}))
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def test_steps_are_chosen_and_nuts_has_the_rest():
    with nonlinear() as model:
        steps = pm.sampling.mcmc.instantiate_steppers(model, *pm.sampling.mcmc.assign_step_methods(model))
    names = {type(s).__name__ for s in (steps if isinstance(steps, list) else steps.methods)}
    assert names == {"NLGBNStep", "NUTS"}


def test_warm_up_start_is_over_complete_and_the_process_start_is_not():
    model = nonlinear()
    with model:
        step = ps.steps.NLGBNStep(start="warm_up", hidden_layers=(5, 2), race=((2, 5, 50), (1, 10, 50)), births=1)
    idata = draw(model, draws=2, tune=0, chains=1, step=[step])
    assert int(idata["sample_stats"]["g_n_nodes"][0, 0]) >= 7
    with model:
        step = ps.steps.NLGBNStep(tempered=0.5)
    assert step.start_kind == "process"
    heats = draw(model, draws=3, tune=8, chains=1, step=[step], discard_tuned_samples=False)
    assert (heats["sample_stats"]["data_heat"] == 1.0).all()
    warm = heats["warmup_sample_stats"]["data_heat"].values[0]
    assert warm[0] == pytest.approx(0.02) and np.all(np.diff(warm[:5]) > 0) and np.all(warm[4:] == 1.0)


def test_a_start_that_was_given_is_where_chains_start():
    unit = ps.indian_chefs.UnitScaling.from_data(ring(120)).transform(ring(120))
    one = np.eye(3, k=-2), np.array([0.0, 0.0, 0.5])
    for start, kind in ((one, "process"), ("empty", "process"), ("prior", "warm_up")):
        with pm.Model():
            ps.NLGBN("data", graph(start=start), observed=unit)
            ps.IndianChefsProcess("other", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=1)
            assert ps.steps.NLGBNStep().start_kind == kind
            assert ps.steps.IndianChefsStep().structure == "other"  # the graph of a likelihood is left to its own step


@pytest.mark.parametrize("kind", ["nonlinear", "linear", "sigmoid"])
def test_runs_unpack_with_the_same_answers(kind, drawn, tmp_path):
    idata = drawn[kind]
    before, post = idata.copy(deep=True), ps.BeliefNetworkPosterior.from_idata(idata)
    assert (type(post) is ps.NLGBNPosterior) == (kind == "nonlinear")
    unpacked = ps.unpack(idata)
    xr.testing.assert_identical(idata, before)
    xr.testing.assert_identical(ps.unpack(idata, "data"), unpacked)  # a network brings its graph along
    xr.testing.assert_identical(ps.unpack(unpacked), unpacked)
    assert not {"g_graph", "data_parameters"} & set(unpacked["sample_stats"].data_vars)
    group, graphs = unpacked["data"].dataset, unpacked["g"].dataset
    assert group["weights"].where(graphs["graphs"], 0.0).equals(group["weights"])  # none without an edge
    assert (group["biases"].notnull().sum("node") == graphs["n_nodes"]).all()
    weights, biases, precisions = unpack_parameters(idata["sample_stats"]["data_parameters"].values[1, 5], 10)
    n, here = len(biases), group.isel(chain=1, draw=5)
    np.testing.assert_array_equal(here["weights"].values[:n, :n], weights)
    np.testing.assert_array_equal(here["precisions"].values[:n], precisions)
    np.testing.assert_array_equal(here["biases"].values[:n], biases)
    again = ps.BeliefNetworkPosterior.from_idata(unpacked)
    np.testing.assert_array_equal(again.sample(5, random_seed=2), post.sample(5, random_seed=2))
    again.save(tmp_path / "saved.nc")
    assert type(ps.load(tmp_path / "saved.nc")) is type(post)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("nonlinear gaussian", [0.2, 0.9], [[0.2, 1.0], [0.0, 0.4], [1.4, 0.5], [0.5, -3.0]]),
        ("sigmoid", [1.0, 0.0], [[1.0, 0.5], [2.0, 0.0], [-1.0, 1.0]]),
        ("linear gaussian", [0.3, 7.0], [[1e200, 0.0], [1e308, -1e308]]),  # their densities are below every float
    ],
)
def test_rows_outside_the_support_have_no_density_and_leave_the_others_theirs(kind, inside, outside):
    weights = np.zeros((3, 3))
    weights[2, :2] = 1.5, -2.0
    post = handmade(weights, [0.1, 0.2, 0.3], [1.0, 2.0, 1e4], kind)
    found = post.log_density(np.array([inside, *outside]), random_seed=1)
    alone = post.log_density(np.array([inside]), random_seed=1)
    assert found[0] == alone[0] and np.isfinite(alone[0]) and (found[1:] == -np.inf).all()
    assert found.attrs == alone.attrs
    none = post.log_density(np.array(outside), random_seed=1)
    assert (none == -np.inf).all() and none.attrs["mcse"] == 0.0


def test_fantasy_data_have_the_law_of_the_network():
    weights = np.zeros((3, 3))
    weights[2, 0] = 4.0
    post = handmade(weights, [-2.0, 0.5, 0.0], [4.0, 1.0, 0.1], "nonlinear gaussian")
    frame = post.sample(20_000, random_seed=1)
    a = np.log(frame / (1 - frame))
    assert list(frame) == ["x", "y"]
    assert abs(a["y"].mean() - 0.5) < 5 / np.sqrt(20_000)
    assert a["x"].var() == pytest.approx(
        0.25 + 16 * np.var(expit(np.random.default_rng(0).normal(0, 10**0.5, 10**5))), rel=0.03
    )


def test_counts_of_draws_are_checked():
    post = handmade(np.zeros((2, 2)), [0.0, 0.0], [1.0, 1.0], "nonlinear gaussian")
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match=f"n must be an integer of at least 1, got {n}"):
            post.sample(n)
        for argument in ("n_pool", "max_draws"):
            with pytest.raises(ValueError, match=f"{argument} must be an integer of at least 1, got {n}"):
                post.log_density(np.array([[0.5, 0.5]]), **{argument: n})


def test_parameters_survive_packing():
    rng = np.random.default_rng(0)
    weights, biases, precisions = rng.normal(size=(3, 3)), rng.normal(size=3), rng.gamma(1.0, size=3)
    for a, b in zip(
        unpack_parameters(pack_parameters(weights, biases, precisions, 6), 6),
        (weights, biases, precisions),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    precisions[2] = 1e-200  # below single precision, yet a node
    assert len(unpack_parameters(pack_parameters(weights, biases, precisions, 6), 6)[1]) == 3


def test_prior_predictive_draws():
    with nonlinear():
        prior = pm.sample_prior_predictive(7, random_seed=1)
    values = prior["prior_predictive"]["data"].values
    assert values.shape[-3:] == (7, 40, 2) and ((values >= 0) & (values <= 1)).all()


def test_scaling_maps_the_training_range_and_comes_back():
    X = ring()
    scaling = ps.indian_chefs.UnitScaling.from_data(X)
    unit = scaling.transform(X)
    np.testing.assert_allclose([unit.min(), unit.max()], [[0.1, 0.1], [0.9, 0.9]])
    np.testing.assert_allclose(scaling.inverse(unit), X)
    assert "x: [" in repr(scaling) and "-> [0.1, 0.9]" in repr(scaling)


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (["1", "2", "3"], "str"),
        (pd.Categorical([1, 2, 3]), "category"),
        (pd.date_range("2020", periods=3), "datetime64"),
        ([1j, 2.0, 3.0], "complex128"),
    ],
)
def test_what_is_no_number_is_not_made_one(column, dtype):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": column})
    with pytest.raises(TypeError, match=f"data must hold numbers; its dtypes are .*{dtype}"):
        ps.indian_chefs.UnitScaling.from_data(frame)
    if dtype != "category":  # whose cells are numbers
        with pytest.raises(TypeError, match="data must hold numbers; its dtypes are"):
            ps.indian_chefs.UnitScaling.from_data(frame.to_numpy())


def test_containers_and_mappings_are_refused_by_their_type():
    """The message told the shape of a tensor, "Shape.0"."""
    with pm.Model():
        g = graph()
        for observed in (pm.Data("table", ring().to_numpy()), dict(ring())):
            with pytest.raises(TypeError, match=rf"must be a DataFrame or a 2-D array, got {type(observed).__name__}"):
                ps.LinearGaussianNetwork("d", g, observed=observed)


@pytest.mark.parametrize("dtype", ["bool", "boolean", "bool[pyarrow]", "Int64", "double[pyarrow]"])
def test_nullable_columns_are_numbers_whatever_backs_them(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": pd.array([True, False, True], dtype=dtype)})
    _, values = table_of(frame, "observed")
    np.testing.assert_array_equal(values, [[1.0], [0.0], [1.0]])


def test_what_an_array_masks_is_a_gap():
    masked = np.ma.masked_equal([[0.0, 1.0], [2.0, -999.0]], -999.0)
    with pm.Model(), pytest.raises(ValueError, match="must be complete and finite: row 1, column 'y' is nan"):
        ps.LinearGaussianNetwork("d", graph(), observed=masked)
    with pytest.raises(ValueError, match=r"must vary in every column; 'x2' is 1\.0 throughout"):
        ps.indian_chefs.UnitScaling.from_data(masked)


def test_numbers_of_any_dtype_are_read():
    frame = pd.DataFrame({"x": pd.array([1, 2, 3], "Int64"), "y": [True, False, True]})
    expected = ps.indian_chefs.UnitScaling(("x", "y"), (1.0, 0.0), (3.0, 1.0))
    assert (
        ps.indian_chefs.UnitScaling.from_data(frame)
        == ps.indian_chefs.UnitScaling.from_data(frame.astype(object))
        == expected
    )
    assert ps.indian_chefs.UnitScaling.from_data(frame.to_numpy()).maximum == (3.0, 1.0)
    with pytest.raises(ValueError, match=r"data must have distinct columns, got \['x', 'x'\]"):
        ps.indian_chefs.UnitScaling.from_data(frame.set_axis(["x", "x"], axis=1))


def test_named_columns_are_never_taken_by_position(drawn):
    """Arrays of xarray, and tables of Arrow and Polars, have columns by name, which NumPy drops."""
    post = ps.BeliefNetworkPosterior.from_idata(drawn["linear"])
    turned = pd.DataFrame({"y": [0.2, 0.5], "x": [0.1, 0.3]})
    for table in (turned.to_xarray().to_dataarray("column").T, turned.to_xarray(), turned.to_dict("list")):
        for read in (ps.indian_chefs.UnitScaling.from_data, post.log_density):
            with pytest.raises(TypeError, match=r"must be a DataFrame or a 2-D array, got .*; convert with to_frame"):
                read(table)


@pytest.mark.parametrize("fix", [pm.do, pm.observe])
def test_hyperparameters_that_pymc_fixes_are_read_from_where_they_stand(fix, tmp_path):
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 2, 1)
        g = ps.IndianChefsProcess("g", alpha=alpha, gamma=1.0, phi=1.0, observed_nodes=["x", "y"], max_nodes=12)
        ps.LinearGaussianNetwork("d", g, observed=ring(20))
    fixed = draw(fix(model, {"alpha" if fix is pm.do else alpha: 1.5}), draws=5, tune=2)
    post = ps.BeliefNetworkPosterior.from_idata(fixed)
    post.save(tmp_path / "d.nc")
    for graphs in (post.graphs, ps.GraphDraws.from_idata(ps.unpack(fixed)), ps.load(tmp_path / "d.nc").graphs):
        np.testing.assert_array_equal(graphs.hyperparameters["alpha"], np.full((2, 5), 1.5))
        assert graphs.popularities(random_seed=1).sizes["node"] == 12


def test_an_array_is_scaled_by_the_scaling_of_an_array():
    X = ring()
    named = ps.indian_chefs.UnitScaling.from_data(X)
    with pm.Model() as model:
        ps.NLGBN("d", graph(), observed=X.to_numpy(), scaling=ps.indian_chefs.UnitScaling.from_data(X.to_numpy()))
    np.testing.assert_array_equal(model["d"].tag.observations.data, named.transform(X))
    schema = BeliefNetworkSchema.from_vector(kept_data(model, "d_network_schema"))
    assert schema.columns == ("x", "y") and schema.scaling == named


def test_a_scaling_with_the_columns_in_another_order_scales_by_name():
    """Columns of arrays are those of the nodes, in data and in questions, whatever order the scaling has."""
    X = ring()
    named, turned = ps.indian_chefs.UnitScaling.from_data(X), ps.indian_chefs.UnitScaling.from_data(X[["y", "x"]])
    for observed in (X, X.to_numpy()):
        with pm.Model() as model:
            ps.NLGBN("d", graph(X.columns), observed=observed, scaling=turned)
        np.testing.assert_array_equal(model["d"].tag.observations.data, named.transform(X))
        assert BeliefNetworkSchema.from_vector(kept_data(model, "d_network_schema")).scaling == named


@pytest.mark.parametrize(("network", "shape"), [(ps.NLGBN, 0.05), (ps.LinearGaussianNetwork, 0.1)])
def test_vague_priors_of_precisions_leave_numbers(network, shape):
    """Their draws reach below what single precision holds, and a start from them left nothing of the digits."""
    with pm.Model() as model:
        network(
            "d",
            graph(),
            observed=ps.indian_chefs.UnitScaling.from_data(ring()).transform(ring()),
            precision=(shape, shape),
        )
    idata = draw(model, draws=40)
    assert np.isfinite(idata["posterior"]["g_log_joint"]).all()
    counts = ps.unpack(idata)["d"].dataset["precisions"].notnull().sum("node")
    np.testing.assert_array_equal(counts, idata["sample_stats"]["g_n_nodes"])


def refused(make, error, match):
    with pm.Model(), pytest.raises(error, match=match):
        make()


def test_refusals():
    X, wide = ring(), ring() * 3
    gap = X.copy()
    gap.loc[3, "y"] = np.nan
    unit = ps.indian_chefs.UnitScaling.from_data(X).transform(X)
    refused(lambda: ps.NLGBN("d", graph(), observed=X), ValueError, r"strictly between 0 and 1: row \d+, column 'x'")
    linear = ps.LinearGaussianNetwork
    refused(lambda: linear("d", graph(), observed=gap), ValueError, "row 3, column 'y' is nan; of belief networks only")
    none = unit.assign(y=np.nan)
    refused(lambda: ps.NLGBN("d", graph(), observed=none), ValueError, "a value in every column; 'y' has none")
    refused(lambda: ps.NLGBN("d", graph(), observed=unit, dims="row"), ValueError, "2 dims but 1 dim labels")
    with (
        pm.Model(coords={"column": list(X.columns)[::-1]}),
        pytest.raises(ValueError, match="coordinate 'column' must have the columns in the order"),
    ):
        ps.NLGBN("d", graph(), observed=unit, dims=("row", "column"))
    refused(
        lambda: ps.NLGBN("d", graph(), observed=wide, scaling=ps.indian_chefs.UnitScaling.from_data(X)),
        ValueError,
        "between 0 and 1",
    )
    refused(lambda: ps.NLGBN("d", graph(), observed=unit[["x"]]), ValueError, "'y' is missing")
    refused(lambda: ps.NLGBN("d", graph(), observed=unit.to_numpy()[:, :1]), ValueError, "each of the graph's 2 nodes")
    refused(lambda: ps.NLGBN("d", "g", observed=unit), TypeError, "graph must come from")
    refused(lambda: ps.NLGBN("d", graph(), observed=unit, weight_sd=0.0), ValueError, "weight_sd must be positive")
    refused(lambda: ps.NLGBN("d", graph(), observed=unit, precision=2.0), TypeError, "precision must be a pair")
    refused(
        lambda: ps.NLGBN("d", graph(), observed=unit, precision=(0.001, 0.001)),
        ValueError,
        r"precision = \(0.001, 0.001\) gives a probability of 0.52 to precisions below 1e-280",
    )
    refused(
        lambda: ps.LinearGaussianNetwork("d", graph(), observed=X * 1e19),
        ValueError,
        r"observed must lie within 1e\+18 of 0.*row 0, column 'x' is",
    )
    refused(
        lambda: ps.NLGBN("d", graph(), observed=unit, scaling=2.0),
        TypeError,
        "scaling must be a ps.indian_chefs.UnitScaling",
    )
    refused(lambda: ps.SigmoidBeliefNetwork("d", graph(), observed=X), ValueError, "observed must be 0 or 1: row 0")
    with pm.Model(), pytest.raises(ValueError, match="one graph has one likelihood"):
        g = graph()
        ps.NLGBN("d", g, observed=unit)
        ps.NLGBN("e", g, observed=unit)
    with pytest.raises(ValueError, match="vary in every column; 'y'"):
        ps.indian_chefs.UnitScaling.from_data(X.assign(y=1.0))
    with pytest.raises(ValueError, match="low and high"):
        ps.indian_chefs.UnitScaling.from_data(X, low=0.0)
    with nonlinear() as model:
        for arguments, match in (
            ({"start": "random"}, "start must be"),
            ({"tempered": 2.0}, "tempered must be"),
            ({"hidden_layers": (8, 3)}, "hidden_layers must be"),
            ({"hidden_layers": 5}, "hidden_layers must be"),
            ({"hidden_layers": (2.5, 1)}, "hidden_layers must be"),
            ({"race": ((1, 2),)}, "race must hold"),
            ({"race": (8, 120, 700)}, "race must hold"),
            ({"sweeps": 0}, "sweeps must be"),
        ):
            with pytest.raises(ValueError, match=match):
                ps.steps.NLGBNStep(**arguments)
        with pytest.raises(ValueError, match="vars must be variables"):
            ps.steps.NLGBNStep([model["gamma"]])
        with pytest.raises(ValueError, match="the graph 'g' is moved by the step of its likelihood 'data'"):
            ps.steps.IndianChefsStep()
    with pm.Model():
        g = graph()
        ps.NLGBN("d", g, observed=unit)
        pm.Potential("fewer", -g.n_nodes.astype("float64"))
        with pytest.raises(ValueError, match="'fewer' depends on the graph"):
            ps.steps.NLGBNStep()


def test_a_network_of_another_kind_is_named(drawn):
    with pytest.raises(ValueError, match=r"linear gaussian network; read it by ps\.BeliefNetworkPosterior"):
        ps.NLGBNPosterior.from_idata(drawn["linear"])
    for kind in ("linear", "sigmoid"):
        post = ps.BeliefNetworkPosterior.from_idata(drawn[kind])
        assert post.sample(6, random_seed=1).shape == (6, 2)
        assert np.isfinite(post.log_density((ring(4) > 0).astype(float), random_seed=1)).all()
    with pytest.raises(ValueError, match=r"holds no draws of a ps\.NLGBN"):
        ps.NLGBNPosterior.from_idata(drawn["linear"].filter(lambda node: False))
