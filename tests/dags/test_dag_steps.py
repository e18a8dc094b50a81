"""`DagOrder` and `DagPartition` inside `pm.sample`: agreement with enumeration, processes, records, refusals."""

import numpy as np
import pymc as pm
import pytest
import reference_dags as brute
import xarray as xr

import pymc_spn as ps
from pymc_spn.dags.mcmc_posterior import DAGS
from pymc_spn.dags.schema import DagSchema
from pymc_spn.numerics import chain_mixing
from pymc_spn.steps.kept_data import kept_data
from tests import sampled_runs
from tests.dags.score_tables import expected_total_variation, gaussian_table, total_variation, weights_by_level
from tests.modes import BY_PYTHON, PLAIN
from tests.sampled_runs import assert_same, recorded

FAMILIES = {"order": ps.DagOrder, "partition": ps.DagPartition}


def draw(model, draws=40, tune=10, **arguments):
    return sampled_runs.draw(model, draws, tune, **arguments)


def model_of(family, scores=None):
    with pm.Model() as model:
        FAMILIES[family]("g", ps.LocalScores.from_data(gaussian_table(5)) if scores is None else scores)
    return model


@pytest.fixture(scope="module")
def runs():
    models = {f: model_of(f) for f in FAMILIES}
    return {f: (m, draw(m)) for f, m in models.items()}


# ---- the posterior
@pytest.fixture(scope="module")
def long_runs():
    """Six variables for orders, four for partitions: enough draws for every edge and graph."""
    six = ps.LocalScores.from_data(gaussian_table(6, n=40, seed=2))
    four = ps.LocalScores.from_data(gaussian_table(4, n=30, seed=5))
    settings = {"draws": 3000, "tune": 200, "chains": 4, "random_seed": 3}
    return {
        "order": (six, draw(model_of("order", six), **settings)),
        "partition": (four, draw(model_of("partition", four), **settings)),
    }


def test_order_agrees_with_exact_at_six_variables(long_runs):
    """Total variation of the order's last variable and of every variable's parent sets, and all edges."""
    scores, idata = long_runs["order"]
    exact = ps.OrderSPN.exact(scores)
    draws = ps.DagDraws.from_idata(idata)
    sets = sets_of_parents(draws)
    n = len(sets)
    for i, name in enumerate(scores.names):
        p = _by_index(exact.parent_set_probabilities(name, most=None), scores, i)
        q = np.zeros(p.size)
        for mask, count in zip(*np.unique(sets[:, i], return_counts=True), strict=True):
            q[scores.index_of_parents(i, int(mask))] = count / n
        assert 0.5 * np.abs(q - p).sum() < 2.5 * expected_total_variation(p, n)
    edges = exact.edge_probabilities().values
    for given in (None, scores):
        found = draws.edge_diagnostics(given)
        known = np.isfinite(found["mcse"].values)
        z = (found["probability"].values - edges)[known] / found["mcse"].values[known]
        assert np.abs(z).max() < 4
        assert np.abs(found["probability"].values - edges)[~known].max(initial=0) < 1e-3
        assert np.nanmax(found["r_hat"].values) < 1.01


def sets_of_parents(draws):
    """(draw, d) parents of each variable as bits."""
    d = len(draws.names)
    return (draws.edges << np.arange(d)[:, None]).sum(axis=2).reshape(-1, d)


def _by_index(p, scores, i):
    """Parent-set probabilities in the order of the score table."""
    out = np.zeros(1 << scores.n_candidates[i])
    for label, value in zip(p["parents"].values, p.values, strict=True):
        parents = [] if label == "(none)" else label.split(", ")
        out[scores.index_of_parents(i, sum(1 << scores.position(x) for x in parents))] = value
    return out


def test_partition_agrees_with_enumeration(long_runs):
    scores, idata = long_runs["partition"]
    _, _, graphs, logs = weights_by_level(scores)
    p = np.exp(logs)
    draws = ps.DagDraws.from_idata(idata)
    flat = sets_of_parents(draws)
    assert total_variation(flat, graphs, p) < 2 * expected_total_variation(p, len(flat))
    exact = np.tensordot(p, graphs, 1)
    found = draws.edge_diagnostics()
    error = np.abs(found["probability"].values - exact)
    assert (error <= 4 * np.nan_to_num(found["mcse"].values) + 1e-3).all()
    assert np.nanmax(found["r_hat"].values) < 1.01
    # the same draws against the posterior with order bias: further away than any Monte Carlo error
    biased = p * brute.extension_counts(4)
    biased = np.tensordot(biased / biased.sum(), graphs, 1)
    assert (np.abs(found["probability"].values - biased) / found["mcse"].values)[~np.eye(4, dtype=bool)].max() > 8


def test_edges_as_a_table_and_as_one_graph(long_runs):
    """What the questions of order posteriors say, of the frequencies of the draws or of edges given the orders."""
    for family, (scores, idata) in long_runs.items():
        draws = ps.DagDraws.from_idata(idata)
        for given in (None, scores) if family == "order" else (None,):
            found, rows = draws.edge_diagnostics(given), draws.edge_table(0.05, given)
            kept = found.probability.values >= 0.05
            assert len(rows) == kept.sum() and (np.diff(rows["probability"]) <= 0.0).all()
            for row in rows.itertuples():
                at = {"parent": row.parent, "child": row.child}
                assert row.probability == found.probability.sel(at) and row.reversed == found.probability.sel(
                    parent=row.child, child=row.parent
                )
                np.testing.assert_array_equal(row.mcse, found.mcse.sel(at))
            graph = draws.consensus(0.05, given).adjacency
            assert brute.is_acyclic(graph) and not brute.is_acyclic(kept)  # the mistake: all edges above the threshold
            for j, i in np.argwhere(kept & ~graph):
                stronger = graph & (found.probability.values >= found.probability.values[j, i])
                stronger[j, i] = True
                assert not brute.is_acyclic(stronger)
    with pytest.raises(ValueError, match="threshold must be a number from 0 to 1, got 2"):
        draws.consensus(2)
    with pytest.raises(ValueError, match="have an order to condition on"):
        draws.edge_table(scores=scores)


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_scalars_belong_to_the_recorded_state(family, long_runs):
    scores, idata = long_runs[family]
    model = model_of(family, scores)
    logp = model.compile_logp()
    draws = ps.DagDraws.from_idata(idata)
    graphs = draws.graphs().values
    for s in range(0, 3000, 500):
        point = {"g": draws.state[1, s], "g_log_score": np.array(0.0), "g_n_edges": np.array(0)}
        assert idata.posterior["g_log_score"].values[1, s] == pytest.approx(float(logp(point)), abs=1e-9)
        assert idata.posterior["g_n_edges"].values[1, s] == graphs[1, s].sum()
        assert brute.is_acyclic(graphs[1, s])
        recorded_score = idata.sample_stats["g_graph_log_score"].values[1, s]
        assert recorded_score == pytest.approx(scores.log_score(graphs[1, s]), abs=1e-9)
        j, i = np.nonzero(graphs[1, s])
        assert (draws.state[1, s][j] < draws.state[1, s][i]).all()


# ---- seeds, chains, processes
@pytest.mark.parametrize("family", FAMILIES)
def test_forked_processes_and_repeats_draw_the_same(family, runs):
    model, idata = runs[family]
    assert_same(draw(model, cores=2, mp_ctx="fork"), idata)
    assert_same(draw(model), idata)
    alone = recorded(draw(model, chains=1))
    for name, values in alone.items():
        np.testing.assert_array_equal(values[0], recorded(idata)[name][0], err_msg=name)


def test_several_variables_in_one_model():
    scores = ps.LocalScores.from_data(gaussian_table(4))
    with pm.Model() as model:
        ps.DagOrder("a", scores)
        ps.DagOrder("b", scores)
        ps.DagPartition("c", scores)
    idata = draw(model)
    assert sorted(DAGS.names(idata)) == ["a", "b", "c"]
    assert (idata.posterior["a"].values != idata.posterior["b"].values).any()
    with pytest.raises(ValueError, match=r"several sampled graphs. Choose one with name=, one of \['a', 'b', 'c'\]"):
        ps.DagDraws.from_idata(idata)
    with pytest.raises(ValueError, match=r"name must be one of \['a', 'b', 'c'\], got 'd'"):
        ps.DagDraws.from_idata(idata, "d")


@pytest.mark.parametrize("family", FAMILIES)
def test_another_seed_draws_others_and_chains_differ(family, runs):
    model, idata = runs[family]
    other = draw(model, random_seed=2)
    for name in ("g_log_score", "g_graph_log_score"):
        values = idata.sample_stats[name].values
        assert (values != other.sample_stats[name].values).any()
        assert (values[0] != values[1]).any()


def test_chains_start_apart():
    """The first state after one sweep still differs between chains; all begin at the point's state otherwise."""
    model = model_of("partition", ps.LocalScores.from_data(gaussian_table(12, seed=3)))
    idata = draw(model, draws=5, tune=0, chains=4)
    first = idata.posterior["g_log_score"].values[:, 0]
    assert len(set(first)) == 4


def test_no_variable_is_constant_or_nan(runs):
    for _, idata in runs.values():
        for name, values in idata.posterior.data_vars.items():
            assert np.isfinite(values).all(), name
            assert (values.std(("chain", "draw")) > 0).all(), name


def test_convergence_checks_read_scalars_and_places(runs):
    model, _ = runs["order"]
    assert {v.name for v in model.free_RVs} == {"g", "g_log_score", "g_n_edges"}
    draw(model, draws=120, chains=4, compute_convergence_checks=True)


def test_sweeps_and_steps_by_hand(runs):
    model, idata = runs["order"]
    one = draw(model, dag_order={"sweeps": 3})
    with model:
        other = draw(model, step=[ps.steps.DagOrderStep(sweeps=3)])
    assert_same(one, other)
    assert (one.posterior["g"].values != idata.posterior["g"].values).any()
    with model, pytest.raises(ValueError, match="sweeps must be an integer of at least 1, got 0"):
        ps.steps.DagOrderStep(sweeps=0)
    with model, pytest.raises(ValueError, match=r"vars must be variables of ps.DagPartition; got none"):
        ps.steps.DagPartitionStep()
    with model, pytest.raises(ValueError, match=r"vars must hold 'g_log_score', 'g_n_edges' together with other"):
        ps.steps.DagOrderStep(vars=[model["g"]])
    for change in (pm.do, pm.observe):
        with pytest.raises(ValueError, match=r"'g_log_score' is held fixed, as by pm.do or pm.observe"):
            draw(change(model, {"g_log_score": 0.0}))


# ---- records
@pytest.mark.parametrize("family", FAMILIES)
def test_saved_and_read_again(family, runs, tmp_path):
    _, idata = runs[family]
    idata.to_netcdf(tmp_path / "run.nc")
    one, other = ps.DagDraws.from_idata(idata), ps.DagDraws.from_idata(tmp_path / "run.nc")
    np.testing.assert_array_equal(one.graphs(), other.graphs())
    assert one.graphs().dims == ("chain", "draw", "parent", "child")
    assert one.schema == other.schema and one.edge_diagnostics().equals(other.edge_diagnostics())
    assert one.schema.target == ("order-modular" if family == "order" else "structure-modular")
    tree = idata.copy()
    tree["g"] = other.to_group()
    tree.to_netcdf(tmp_path / "again.nc")
    assert ps.DagDraws.from_idata(tmp_path / "again.nc").graphs().equals(one.graphs())


@pytest.mark.parametrize("dimension", ["chain", "draw"])
def test_draws_selected_by_one_number_are_one_chain_or_draw(runs, dimension):
    idata = runs["order"][1]
    for tree in (idata, ps.unpack(idata)):
        one, listed = (ps.DagDraws.from_idata(tree.isel({dimension: place})).graphs() for place in (1, [1]))
        xr.testing.assert_identical(one, listed)
        with pytest.raises(ValueError, match=r"(chain|draw).* not with drop=True"):
            ps.DagDraws.from_idata(tree.isel({dimension: 0}, drop=True))


def test_rows_in_another_order_are_the_same_data_and_other_scores_are_refused(runs):
    """Graphs have no rows: scores of a permuted table differ by rounding alone."""
    table = gaussian_table(5)
    tables = table, table[::-1], table + (np.arange(60) == 3)[:, None]
    one, turned, other = (kept_data(model_of("order", ps.LocalScores.from_data(t)), "g_schema") for t in tables)
    assert np.array_equal(one, turned) and not np.array_equal(one, other)
    draws = ps.DagDraws.from_idata(runs["order"][1])
    draws.edge_probabilities(ps.LocalScores.from_data(table[::-1]))
    with pytest.raises(ValueError, match="scores must be the LocalScores of the model, and their values are others"):
        draws.edge_probabilities(ps.LocalScores.from_data(gaussian_table(5, seed=8)))


def test_edges_that_never_change_have_no_error(runs):
    scores = ps.LocalScores.from_data(gaussian_table(4), required=[("v0", "v3")], forbidden=[("v1", "v2")])
    found = ps.DagDraws.from_idata(draw(model_of("order", scores))).edge_diagnostics()
    assert found["probability"].sel(parent="v0", child="v3") == 1.0
    assert found["probability"].sel(parent="v1", child="v2") == 0.0
    assert np.isnan(found["mcse"].sel(parent="v0", child="v3")) and np.isnan(
        found["r_hat"].sel(parent="v1", child="v2")
    )
    mean = ps.DagDraws.from_idata(runs["order"][1]).edge_probabilities()
    assert mean.attrs["exactness"] == "monte-carlo" and mean.attrs["mcse"] > 0 and mean.attrs["candidates"] == "all"
    short = runs["order"][1].isel(draw=slice(3))
    assert np.isnan(ps.DagDraws.from_idata(short).edge_probabilities().attrs["mcse"])
    few = ps.LocalScores.from_data(
        gaussian_table(4), max_candidates=2, required=[("v0", "v3")], forbidden=[("v1", "v3")]
    )
    draws = ps.DagDraws.from_idata(draw(model_of("order", few)))
    for answer in (draws.edge_probabilities(), draws.edge_diagnostics(), draws.graphs()):
        assert answer.attrs["candidates"] == "restricted for v1, v2"


def test_chains_apart_are_warned_of(runs, monkeypatch, tmp_path):
    idata = runs["order"][1].copy(deep=True)
    assert "; log score: R-hat " in repr(ps.DagDraws.from_idata(idata))
    idata["sample_stats"]["g_log_score"] += 50.0 * xr.DataArray([0.0, 1.0], dims="chain")
    monkeypatch.setattr(chain_mixing, "FEWEST_DRAWS", 40)
    with pytest.warns(ps.ConvergenceWarning, match="R-hat of the log score.*Tune longer") as seen:
        draws = ps.DagDraws.from_idata(idata)
    draws.save(tmp_path / "draws.nc")
    with pytest.warns(ps.ConvergenceWarning):
        assert repr(ps.load(tmp_path / "draws.nc")) == repr(draws)
    assert len(seen) == 1 and "log score: R-hat" in repr(draws)


def test_pinned_places_are_allowed():
    """Tiers that leave one order only: nothing moves but the graph."""
    scores = ps.LocalScores.from_data(gaussian_table(3), tiers=[["v1"], ["v0"], ["v2"]])
    idata = draw(model_of("order", scores))
    assert (idata.posterior["g"].values == [1, 0, 2]).all()
    assert idata.posterior["g_n_edges"].values.std() > 0


# ---- refusals
def test_what_is_refused(runs):
    scores = ps.LocalScores.from_data(gaussian_table(3))
    with pm.Model():
        with pytest.raises(TypeError, match="scores must be a LocalScores; got DataFrame"):
            ps.DagOrder("g", gaussian_table(3))
        with pytest.raises(ValueError, match="scores must have at least two variables"):
            ps.DagPartition("g", ps.LocalScores.from_data(gaussian_table(1)))
    with pm.Model() as model:
        g = ps.DagOrder("g", scores)
        pm.Normal("y", g[0], 1.0, observed=0.0)
        with pytest.raises(ValueError, match="'y' depends on 'g'"):
            pm.sample(1, progressbar=False)
    draws = ps.DagDraws.from_idata(runs["partition"][1])
    with pytest.raises(ValueError, match=r"only draws of ps.DagOrder have an order"):
        draws.edge_probabilities(scores)
    with pytest.raises(ValueError, match="scores must be the LocalScores of the model"):
        ps.DagDraws.from_idata(runs["order"][1]).edge_probabilities(scores)
    model = runs["order"][0]
    with model, pytest.raises(RuntimeError, match="orders and partitions are discrete"):
        pm.find_MAP(progressbar=False, return_inferencedata=True, jitter=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_samplers_that_write_no_score_are_refused(family, runs):
    """They took score and number of edges for variables of their own, and recorded those of no graph."""
    model, idata = runs[family]
    fast = BY_PYTHON | {"progressbar": False, "compute_convergence_checks": False}
    with (
        model,
        pytest.raises(RuntimeError, match=r"pm.sample_smc do not apply; independent draws .* are ps.DagPosterior"),
    ):
        pm.sample_smc(20, chains=1, cores=1, random_seed=1, **fast)
    log_p = model.compile_logp(mode=PLAIN)
    draws = idata.posterior.isel(chain=0)
    for i in range(3):
        point = {name: draws[name].values[i] for name in ("g", "g_log_score", "g_n_edges")}
        assert log_p(point) == pytest.approx(float(point["g_log_score"]), rel=1e-12)
        with pytest.raises(RuntimeError, match="the log score is not that of the order or partition"):
            log_p(point | {"g_log_score": point["g_log_score"] + 0.1})


def test_trees_without_graphs_are_refused(runs):
    _, idata = runs["order"]
    with pytest.raises(ValueError, match=r"holds no draws of a ps.DagOrder or ps.DagPartition"):
        ps.DagDraws.from_idata(idata.drop_nodes("constant_data"))
    with pytest.raises(ValueError, match="with draws <name>_parents"):
        ps.DagDraws.from_idata(idata.drop_nodes("sample_stats"))
    schema = DagSchema.from_vector(idata.constant_data["g_schema"].values)
    assert DagSchema.from_vector(schema.to_vector()) == schema
    with pytest.raises(ValueError, match="has a format other than 2: use the version that wrote it, or fit again"):
        text = bytes(idata.constant_data["g_schema"].values.astype(np.uint8)).replace(b'"format": 2', b'"format": 9')
        DagSchema.from_vector(np.frombuffer(text, np.uint8))
