"""The step methods inside `pm.sample`: the same draws wherever chains run, every kernel and source of hyperparameters.

Whether the draws are the right ones is the matter of `test_kernels`, `test_geweke` and `test_hyperparameters`.
"""

import logging

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.networks.records.record import read_record
from tests.network_problems import mixed_frame, reference_problem
from tests.reference import log_joint, state_from_digits
from tests.sampled_runs import assert_same, bits_of_every_process, draw, model_of, recorded

nan = np.nan


def frame(n_rows=30, seed=0):
    """Two groups of rows, a count, a level and a few gaps."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n_rows)
    data = pd.DataFrame(
        {
            "a": (rng.normal(size=n_rows) + 5.0 * group).round(3),
            "b": (rng.normal(size=n_rows) - 4.0 * group).round(3),
            "c": rng.poisson(2.0 + 6.0 * group),
            "d": np.array(["u", "v", "w"])[rng.integers(0, 3, n_rows)],
        }
    )
    data.loc[[1, 4], "a"] = nan
    data.loc[1, "b"] = nan
    return data


def own(width=3, **arguments):
    model = model_of(ps.circuits.complete_tree(list("abcd"), n_children=width), observed=frame(), **arguments)
    return model


def fixed(width=3):
    return own(
        width, concentration=1.0, leaf_scale=0.3, leaf_shape=1.5, precision_ratio={"a": 0.05, "b": 0.1, "c": 0.05}
    )


def splits():
    """Two trees below the root, each product with a split of its own."""
    structure = ps.circuits.complete_tree(list("abcd"), 2, split="per_product", repetitions=2, random_seed=1)
    model = model_of(structure, observed=frame())
    return model


def hierarchical():
    """A user's vector under a user's scalar, both by NUTS; concentrations and shapes by our step."""
    with pm.Model(coords={"col": list("abcd")}) as model:
        middle = pm.Normal("middle", -1.0, 1.0)
        scale = pm.LogNormal("scale", middle, 0.5, dims="col")
        ps.SPN("x", ps.circuits.complete_tree(list("abcd")), observed=frame(), leaf_scale=scale, joint_leaves=None)
    return model


def shared():
    """Two networks with one concentration, and a quantity of the user's beside them."""
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 2.0, 1.0)
        x = frame()[["a", "b"]]
        ps.SPN("x", ps.circuits.complete_tree(list("ab")), observed=x, concentration=alpha, joint_leaves=None)
        ps.SPN(
            "y",
            ps.circuits.complete_tree(list("bcd"), n_children=2),
            observed=frame(20, 1)[["b", "c", "d"]],
            concentration=alpha,
            leaf_scale=pm.Gamma.dist(2.0, 5.0, shape=3),
        )
        pm.Deterministic("log_alpha", np.log(alpha))
    return model


def default():
    """Learned splits, leaves over several columns, and gaps that are drawn in them."""
    model = model_of(observed=frame())
    return model


MODELS = {
    "own": own, "fixed": fixed, "splits": splits, "hierarchical": hierarchical, "shared": shared, "default": default,
}  # fmt: skip


# ---- seeds, chains, processes
@pytest.fixture(scope="module", autouse=True)
def same_bits():
    with bits_of_every_process():
        yield


class Runs(dict):
    """Every model that is asked for, once, and its run in one process."""

    def __missing__(self, name):
        model = MODELS[name]()
        self[name] = model, draw(model)
        return self[name]


@pytest.fixture(scope="module")
def runs():
    return Runs()


# fixed and learned hyperparameters, several splits, NUTS beside our step, multivariate leaves with drawn gaps
ESSENTIAL = ["splits", "shared", "default"]


@pytest.mark.parametrize("name", ESSENTIAL)
def test_forked_processes_draw_the_same(name, runs):
    model, idata = runs[name]
    assert_same(draw(model, cores=2, mp_ctx="fork"), idata)


@pytest.mark.parametrize("name", ["shared", "default"])
def test_spawned_processes_draw_the_same(name, runs):
    """Everything at once: two networks, a shared variable by NUTS, hyperparameters of our own; and the default."""
    model, idata = runs[name]
    assert_same(draw(model, cores=2, mp_ctx="spawn"), idata)


@pytest.mark.full
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
@pytest.mark.parametrize("name", MODELS)
def test_processes_of_every_kind_draw_the_same(name, context, runs):
    model, idata = runs[name]
    assert_same(draw(model, cores=2, mp_ctx=context), idata)


@pytest.mark.parametrize("name", ESSENTIAL)
def test_sampling_again_draws_the_same(name, runs):
    """The last state of the first run must not reach the second, nor chain 0 the first moves of chain 1."""
    model, idata = runs[name]
    assert_same(draw(model), idata)
    assert_same(draw(MODELS[name]()), idata)


@pytest.mark.parametrize("name", ESSENTIAL)
def test_another_seed_draws_others_and_chains_differ(name, runs):
    model, idata = runs[name]
    other = draw(model, random_seed=2)
    for variable in ("x_log_joint", "x_moved"):
        values = idata.sample_stats[variable].values
        assert (values != other.sample_stats[variable].values).any()
        assert (values[0] != values[1]).any()


def test_a_chain_alone_is_the_first_of_several(runs):
    """Chain 0 must not depend on what else runs."""
    model, idata = runs["hierarchical"]
    alone = draw(model, chains=1)
    for name, values in recorded(alone).items():
        np.testing.assert_array_equal(values[0], recorded(idata)[name][0], err_msg=name)


def test_the_step_is_picked_by_itself(runs):
    _, idata = runs["shared"]
    assert {"x_digits", "y_digits", "x_moved", "y_occupied_nodes"} <= set(idata.sample_stats.data_vars)
    assert {"step_size", "diverging"} <= set(idata.sample_stats.data_vars)  # NUTS beside it
    step = ps.steps.TopDownSPNStep(model=shared())
    assert [s.structure for s in step.methods] == ["x", "y"]


@pytest.mark.parametrize("name", MODELS)
def test_no_variable_is_constant_or_nan(name, runs):
    for variable, values in runs[name][1].posterior.data_vars.items():
        assert np.isfinite(values).all(), variable
        assert (values.std(("chain", "draw")) > 0).all(), variable


# ---- what is recorded is the state
def assert_log_joint(idata, name="x", every=5):
    """The recorded log joint is the brute-force one of the recorded assignments and hyperparameters."""
    record = read_record(idata, name)
    log_p = idata.posterior[f"{name}_log_joint"].sel(draw=record.draws).values
    for chain in range(log_p.shape[0]):
        for i in range(0, log_p.shape[1], every):
            h = [v[chain, i] for v in record.hyperparameters.values()]
            problem = reference_problem(record.schema, record.table, h)
            expected = log_joint(problem, state_from_digits(record.digits[chain, i]))
            assert log_p[chain, i] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["own", "fixed", "splits"])
def test_log_joint_of_recorded_states(name, runs):
    assert_log_joint(runs[name][1])


def test_log_joint_beside_nuts_is_at_the_hyperparameters_before_it(runs):
    """NUTS moves first, so that the ticket is written at what the draw records."""
    assert_log_joint(runs["hierarchical"][1])
    assert_log_joint(runs["shared"][1], "x")
    assert_log_joint(runs["shared"][1], "y")


@pytest.mark.parametrize(("kernel", "how"), [("exact", "option"), ("published", "step")])
def test_every_kernel_through_pm_sample(kernel, how):
    model = fixed()
    with model:
        step = {"step": ps.steps.TopDownSPNStep(kernel=kernel)} if how == "step" else {"spn": {"kernel": kernel}}
    idata = draw(model, chains=1, **step)
    assert_log_joint(idata)
    assert idata.sample_stats["x_moved"].values.mean() > 0


def test_bottom_up_step():
    model = own()
    with model:
        idata = draw(model, step=[ps.steps.BottomUpSPNStep()])
    assert_log_joint(idata)
    assert {"x_concentration", "x_leaf_scale"} <= set(idata.posterior.data_vars)


def test_options_of_two_networks():
    model = shared()
    idata = draw(model, spn={"sweeps": 2, "record_every": 3})
    assert ps.unpack(idata, "x")["x"].sizes["record"] == 4
    with model:
        steps = [
            ps.steps.TopDownSPNStep(
                vars=[v for v in model.free_RVs if getattr(v.tag, "spn_owner", None) == name], sweeps=sweeps
            )
            for name, sweeps in (("x", 1), ("y", 2))
        ]
    idata = draw(model, step=steps)  # NUTS follows, so the tickets are those before its move
    assert {"x_digits", "y_digits"} <= set(idata.sample_stats.data_vars)


# ---- hyperparameters
SOURCES = {
    "number": lambda: 0.7,
    "numbers": None,
    "variable": lambda: pm.Gamma("given", 2.0, 2.0),
    "dist": lambda: pm.Gamma.dist(2.0, 2.0),
}
GROUPS = {"concentration": 2, "leaf_scale": 4, "leaf_shape": 3, "precision_ratio": 3}


@pytest.mark.parametrize(
    ("group", "source"),
    [
        ("concentration", "numbers"),
        ("leaf_scale", "number"),
        ("leaf_scale", "dist"),
        ("leaf_shape", "variable"),
        ("precision_ratio", "numbers"),
    ],
)
def test_sources_of_a_hyperparameter(group, source):
    full = 2 if group == "concentration" else 4
    with pm.Model() as model:
        value = np.linspace(0.5, 1.0, full) if source == "numbers" else SOURCES[source]()
        tree = ps.circuits.complete_tree(list("abcd"))
        ps.SPN("x", tree, observed=frame(), joint_leaves=None, **{group: value})
    idata = draw(model, chains=1)
    own_groups = {f"x_{g}" for g in GROUPS if g != group} | {"x_log_joint"}
    extra = {"variable": {"given"}, "dist": {f"x_{group}"}}.get(source, set())
    assert set(idata.posterior.data_vars) == own_groups | extra
    assert ("step_size" in idata.sample_stats) == bool(extra)  # NUTS for what is not ours
    assert_log_joint(idata)
    where = read_record(idata).schema.hyperparameters[group]
    assert where == ({"variable": extra.pop()} if extra else {"fixed": np.broadcast_to(value, full).tolist()})


@pytest.mark.parametrize("group", ["concentration", "leaf_shape"])
def test_a_vector_gets_the_dims_of_its_group(group):
    length = GROUPS[group]
    model = model_of(
        ps.circuits.complete_tree(list("abcd")),
        observed=frame(),
        joint_leaves=None,
        **{group: pm.LogNormal.dist(-1.0, 0.5, shape=length)},
    )
    dims = {"concentration": "x_sum_node", "leaf_scale": "x_column"}.get(group, "x_gaussian_column")
    assert model.named_vars_to_dims[f"x_{group}"] == (dims,)
    assert_log_joint(draw(model, chains=1))


def test_a_deterministic_may_be_a_hyperparameter():
    with pm.Model() as model:
        z = pm.Normal("z", shape=4)
        ps.SPN(
            "x",
            ps.circuits.complete_tree(list("abcd")),
            observed=frame(),
            joint_leaves=None,
            leaf_scale=pm.Deterministic("scale", pm.math.exp(z - 1.0)),
        )
    assert_log_joint(draw(model, chains=1))


def test_a_slice_step_of_pymc_may_move_a_users_variable():
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 2.0, 1.0)
        ps.SPN("x", ps.circuits.complete_tree(list("abcd")), observed=frame(), concentration=alpha)
        idata = draw(model, chains=1, step=[pm.Slice([alpha])])
    assert "step_size" not in idata.sample_stats
    # the slice moves before or after our step: the ticket belongs to one of the two
    assert idata.posterior["alpha"].std() > 0


def test_numbers_by_name():
    model = model_of(
        ps.circuits.complete_tree(list("abcd")),
        observed=frame(),
        concentration={"univariate": 0.5, "inner": 2.0},
        leaf_scale={"d": 4.0, "a": 1.0, "c": 3.0, "b": 2.0},
        leaf_shape={"b": 2.5, "c": 1.2, "a": 1.5},
    )
    h = read_record(draw(model, chains=1)).hyperparameters
    assert h["concentration"][0, 0].tolist() == [2.0, 0.5]
    assert h["leaf_scale"][0, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert h["leaf_shape"][0, 0, :3].tolist() == [1.5, 2.5, 1.2]


# ---- thinning, interruption
@pytest.mark.parametrize("every", [2, 5, 100_000])
def test_thinned_records_are_those_draws(every):
    model = own()
    whole = ps.unpack(draw(model, draws=21, chains=2))["x"]["digits"]
    idata = draw(model, draws=21, chains=2, spn={"record_every": every})
    if every > 21:
        with pytest.raises(ValueError, match="no complete record"):
            ps.unpack(idata)
        return
    found = ps.unpack(idata)["x"]["digits"]
    step = int(found["draw"][1] - found["draw"][0])
    assert step <= every and found.sizes["record"] == 21 // step
    np.testing.assert_array_equal(found.values, whole.values[:, : 21 // step * step : step])
    assert_log_joint(idata, every=2)


def test_large_records_are_thinned_and_it_is_said(caplog, monkeypatch):
    """A step made by hand assumes four chains of 1000 draws and as many of tuning, one of a run with its own."""
    monkeypatch.setattr("pymc_spn.networks.step_methods.MAX_RECORD_BYTES", 4e5)
    step_model = own()
    with caplog.at_level(logging.INFO), step_model:
        step = ps.steps.TopDownSPNStep()
    assert step.record_every > 3
    assert step.chunk * 8000 <= 4e5 * 1.1
    assert (
        f"one draw in {step.record_every} is recorded with its assignments. pm.sample(spn={{'record_every': 1}})"
        in caplog.text
    )
    with step_model, pytest.raises(ValueError, match=rf"one state in {step.record_every} draws.* only 3 draws"):
        pm.sample(draws=3, tune=0, chains=1, step=step, progressbar=False)
    caplog.clear()
    monkeypatch.setattr("pymc_spn.networks.step_methods.MAX_RECORD_BYTES", 3e3)
    with caplog.at_level(logging.INFO), own():
        idata = pm.sample(draws=12, tune=8, chains=2, cores=1, progressbar=False, compute_convergence_checks=False)
    chunks = idata["sample_stats"]["x_digits"]
    assert chunks.nbytes * 20 / 12 <= 3e3 * 1.1
    found = ps.unpack(idata)["x"].sizes["record"]
    assert 1 < found < 12
    assert f"one draw in {12 // found} is recorded with its assignments, {found} in each chain" in caplog.text
    monkeypatch.setattr("pymc_spn.networks.step_methods.MAX_RECORD_BYTES", 1.0)
    with own():
        idata = pm.sample(draws=7, tune=0, chains=2, cores=1, progressbar=False, compute_convergence_checks=False)
    assert ps.unpack(idata)["x"].sizes["record"] == 1  # of no run nothing is kept


def test_an_interrupted_run_is_usable():
    seen = []

    def stop(trace, draw):
        seen.append(draw.draw_idx)
        if len(seen) == 8 + 8:  # the eighth kept draw
            raise KeyboardInterrupt

    model = own()
    idata = draw(model, chains=1, callback=stop, spn={"record_every": 3})
    whole = draw(model, chains=1, spn={"record_every": 3})
    n = idata.posterior.sizes["draw"]
    assert 6 <= n < 12
    digits = ps.unpack(idata)["x"]["digits"].values
    assert digits.shape[1] == n // 3
    np.testing.assert_array_equal(digits, ps.unpack(whole)["x"]["digits"].values[:, : n // 3])
    assert_log_joint(idata, every=1)


# ---- tables
TABLES = {
    "one column": pd.DataFrame({"a": [0.25, 1.75, 2.5, 9.0]}),
    "one row": pd.DataFrame({"a": [0.25], "b": [3]}),
    "a constant column": pd.DataFrame({"a": [1.0] * 6, "b": [0.5, 1.5, 2.25, 4.0, 3.0, 0.125]}),
    "zeros": pd.DataFrame({"a": [0.0] * 6, "b": [0, 0, 0, 0, 0, 0], "c": [False] * 6}),
    "one level": pd.DataFrame({"a": ["u"] * 5, "b": [True, False, True, True, False]}),
    "counts": pd.DataFrame({"a": [0, 100_000, 3], "b": [1, 2, 1]}),
    "far from zero": pd.DataFrame({"a": [1e9 + 1, 1e9 + 2.5, 1e9 + 7], "b": [1e-9, 2e-9, 7e-9]}),
    "every kind with gaps": mixed_frame(),
}


@pytest.mark.parametrize(("name", "start"), [*((name, "kmeans") for name in TABLES), ("every kind with gaps", "prior")])
def test_tables_at_the_edge(name, start):
    table = TABLES[name]
    model = model_of(ps.circuits.complete_tree(list(table)), observed=table, start=start, joint_leaves=None)
    assert_log_joint(draw(model, chains=1))
    model = model_of(observed=table, start=start)
    assert np.isfinite(ps.SPNPosterior.from_idata(draw(model, chains=1)).log_density(table)).all()


@pytest.mark.parametrize("width", [2, "infinite"])
def test_palettes(width):
    table = ps.Table.from_frame(mixed_frame(), kinds={"wait": "positive"})
    leaves = {
        "wait": [ps.leaves.Gaussian(), ps.leaves.Exponential(), ps.leaves.Exponential(relative_scale=0.2)],
        "visits": [ps.leaves.Poisson(), ps.leaves.Gaussian()],
        "colour": [ps.leaves.Categorical(), ps.leaves.Categorical(relative_scale=5.0)],
    }
    with pm.Model() as model:
        structure = ps.circuits.complete_tree(table.columns, n_children=width)
        ps.SPN("x", structure, observed=table, leaves=leaves, joint_leaves=None)
    assert_log_joint(draw(model, chains=1))


# ---- progress


@pytest.mark.parametrize("style", [True, "split+stats", "combined"])
def test_runs_with_a_progress_bar(style, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    model = shared()
    quiet = draw(model)
    assert_same(draw(model, progressbar=style, quiet=False), quiet)
    shown = capsys.readouterr().out
    if style == "split+stats":
        assert "Log joint" in shown and "Moved" in shown


def test_what_is_integrated_is_settled_when_tuning_ends(monkeypatch):
    """The choice follows the state while tuning and not afterwards."""
    model, seen = fixed(), []
    with model:
        step = ps.steps.TopDownSPNStep()
    monkeypatch.setattr(step.chain, "plan", lambda: seen.append(step.tune))
    draw(model, draws=6, tune=4, chains=1, step=[step])
    assert seen == [True] * 4 + [False]


def test_a_likelihood_that_would_lose_the_draws_is_refused_before_them():
    """PyMC evaluates stored draws after the last one, and an error there takes all of them."""
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(list("abcd")), observed=frame())
        with pytest.raises(ValueError, match=r"idata_kwargs=.*leave it out, and take that of ps\.SPNPosterior"):
            pm.sample(2, tune=2, chains=1, progressbar=False, idata_kwargs={"log_likelihood": True})
        idata = pm.sample(2, tune=2, chains=1, progressbar=False, random_seed=1, compute_convergence_checks=False)
    assert ps.SPNPosterior.from_idata(idata).log_likelihood()["x"].shape == (1, 2, 30)
    X = np.arange(12.0).reshape(6, 2)
    with pm.Model():
        ps.TreeResponse("y", ps.DecisionTree("t", X), family=ps.leaves.NormalLeaves(), observed=X[:, 0])
        with pytest.raises(ValueError, match=r"leave it out, and take that of ps\.TreePosterior"):
            pm.sample(2, tune=2, chains=1, progressbar=False, idata_kwargs={"log_likelihood": True})
