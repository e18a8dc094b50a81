"""The graph in a PyMC model: its log density, its step beside NUTS, black-box terms, the record, refusals."""

import logging
import tracemalloc
from dataclasses import replace
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy.integrate import quad_vec
from scipy.stats import gamma as gamma_law
from scipy.stats import multivariate_normal, norm

import pymc_spn as ps
from pymc_spn.indian_chefs.packed_graphs import pack, packed_length, room_of, unpack_graph, unpack_parts
from pymc_spn.indian_chefs.prior_density import log_density
from pymc_spn.indian_chefs.process import GraphSchema
from tests import reference_indian_chefs as reference
from tests.indian_chefs.small_graphs import MIXED_BASE, many_states, observed

QUIET = {"progressbar": False, "compute_convergence_checks": False}


@pytest.mark.parametrize("room", [40, 60])
def test_a_packed_graph_is_the_graph_in_canonical_order(room):
    for prior, state, _ in many_states(60, seed=1, base=MIXED_BASE, max_nodes=room):
        packed = np.empty(packed_length(room))
        pack(state, packed)
        assert room_of(len(packed)) == room
        again = observed(np.where(state.fixed, state.reputations[: state.fixed.size], np.nan), room)
        assert unpack_graph(packed, again)
        assert log_density(again, prior) == pytest.approx(log_density(state, prior), abs=1e-10)
        n, theta, parents = unpack_parts(packed, room)
        d = state.fixed.size
        assert n == state.count[0] and (np.diff(theta[d:n]) >= 0).all()
        np.testing.assert_array_equal(parents.sum(1)[:d], state.n_children[:d])
        assert sorted(parents.sum(1)[d:n]) == sorted(state.n_children[d:n])


def test_the_log_density_of_the_variable_is_that_of_the_reference():
    numbers = {"alpha": 0.7, "gamma": 1.4, "phi": 0.8}
    with pm.Model():
        g = ps.IndianChefsProcess("g", **numbers, observed_nodes=3, reputations=[0.0, None, 0.4], max_nodes=24).packed
    draws = pm.draw(g, 30, random_seed=1)
    value = g.type()
    evaluate = pm.compile([value], pm.logp(g, value))
    for packed in draws:
        n, theta, parents = unpack_parts(packed, 24)
        expected = reference.log_density(parents[:n, :n], theta[:n], 3, *numbers.values(), [True, False, True])
        assert evaluate(packed) == pytest.approx(expected, abs=1e-10)
    wrong = draws[0].copy()
    wrong[1] = 0.1  # a fixed reputation
    assert evaluate(wrong) == -np.inf
    wrong = draws[0].copy()
    wrong[1 + 24] = 1.0  # a node that is its own parent
    assert evaluate(wrong) == -np.inf
    assert not (pm.draw(g, 5, random_seed=2) == draws[:5]).all()
    np.testing.assert_array_equal(pm.draw(g, 5, random_seed=1), draws[:5])


@pytest.fixture(scope="module")
def hyperparameter_run():
    with pm.Model() as model:
        gamma = pm.Gamma("gamma", 3, 3)
        ps.IndianChefsProcess(
            "g",
            alpha=pm.Gamma.dist(3, 2),
            gamma=gamma,
            phi=pm.Gamma.dist(2, 2),
            observed_nodes=["a", "b"],
            max_nodes=48,
        )
        idata = pm.sample(1500, tune=300, chains=2, cores=1, random_seed=1, **QUIET)
    return model, idata


def test_hyperparameters_return_to_their_prior(hyperparameter_run):
    """gamma by NUTS, alpha and phi by slices; first two moments, standard errors by effective draws."""
    import arviz as az

    _, idata = hyperparameter_run
    for name, shape, rate in (("gamma", 3, 3), ("g_alpha", 3, 2), ("g_phi", 2, 2)):
        x = idata.posterior[name]
        for power, moment in ((1, shape / rate), (2, shape * (shape + 1) / rate**2)):
            values = x**power
            ess = float(np.asarray(az.ess(values.values)))
            assert ess > 200
            assert abs(float(values.mean()) - moment) < 5 * float(values.std()) / np.sqrt(ess)


def test_scalars_and_record_are_of_the_same_graphs(hyperparameter_run):
    _, idata = hyperparameter_run
    draws = ps.GraphDraws.from_idata(idata)
    graphs, theta = draws.graphs(), draws.reputations()
    np.testing.assert_array_equal(graphs.sum(("parent", "child")), idata.sample_stats.g_n_edges)
    np.testing.assert_array_equal(theta.notnull().sum("node"), idata.sample_stats.g_n_nodes)
    np.testing.assert_array_equal(draws.n_nodes(), idata.sample_stats.g_n_nodes)
    for place in ((0, 3), (1, 700)):
        one = draws.to_networkx(*place)
        n = one.number_of_nodes()
        z = graphs.values[place][:n, :n]
        expected = reference.statistics(z, theta.values[place][:n], 2)
        held = idata.sample_stats.isel(chain=place[0], draw=place[1])
        found = [held[f"g_{k}"] for k in ("n_nodes", "n_edges", "depth", "max_out_degree", "n_orphans")]
        np.testing.assert_array_equal(found, expected[[0, 1, 2, 4, 5]])
        assert all(one.nodes[k]["reputation"] > one.nodes[i]["reputation"] for k, i in one.edges)
    assert set(idata.posterior.data_vars) == {"g_log_joint", "gamma", "g_alpha", "g_phi"}
    table = draws.summary()
    assert "n_nodes" in table.index and np.isfinite(table.loc["n_nodes"].astype(float)).all()
    assert float(draws.node_count_probabilities().sum()) == pytest.approx(1.0)
    assert float(draws.edge_probabilities().sum()) == 0.0  # both at 0
    assert "common_ancestor_probabilities" in draws.edge_probabilities().attrs["links"]
    shared = draws.common_ancestor_probabilities()
    assert 0.0 < float(shared.sel(node="a", other="b")) < float(shared.sel(node="a", other="a"))
    popular = draws.popularities(random_seed=1)
    without_gamma = replace(draws, hyperparameters={a: draws.hyperparameters[a] for a in ("alpha", "phi")})
    xr.testing.assert_identical(popular, without_gamma.popularities(random_seed=1))
    assert (popular.notnull() == theta.notnull()).all() and float(popular.max()) <= 1.0


def test_paths_are_those_of_networkx_and_take_little_memory():
    """Unions over all middle nodes took K^3 bytes a draw: gigabytes with room for a hundred nodes."""
    names, room = ("a", "b", "c"), 60
    made = ps.indian_chefs.sample_indian_chefs(1.0, 1.5, 1.0, names, [0.0, 0.4, 0.8], draws=400, random_seed=1)
    n = made.sizes["node"]
    parents, theta = np.zeros((1, 400, room, room), bool), np.full((1, 400, room), np.nan)
    parents[0, :, :n, :n], theta[0, :, :n] = made["parents"], made["reputations"]
    schema = GraphSchema("g", names, (0.0, 0.4, 0.8), room, (1.0, (), ()), {})
    counts = made["n_active"].values[None]
    draws = ps.GraphDraws(schema, counts, theta, parents, xr.Dataset(), {}, np.arange(1), np.arange(400))
    tracemalloc.start()
    shared = draws.common_ancestor_probabilities()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7
    closed = [nx.transitive_closure(draws.to_networkx(0, t)) for t in range(400)]
    for u in names:
        for v in names:
            common = [any(c.has_edge(h, u) and c.has_edge(h, v) for h in set(c) - set(names)) for c in closed]
            assert float(shared.sel(node=u, other=v)) == np.mean(common)


def test_draws_unpack_save_and_load_with_the_same_answers(hyperparameter_run, tmp_path):
    _, idata = hyperparameter_run
    first, before = ps.GraphDraws.from_idata(idata), idata.copy(deep=True)
    unpacked = ps.unpack(idata)
    xr.testing.assert_identical(idata, before)
    xr.testing.assert_identical(ps.unpack(unpacked, "g"), unpacked)
    assert "g_graph" not in unpacked["sample_stats"] and "g_graph_dim_0" not in unpacked["sample_stats"].dims
    xr.testing.assert_identical(unpacked["g"].to_dataset(), first._saved()["g"].to_dataset())
    for c, d in ((0, 3), (1, 700)):  # the raw record, read one vector at a time
        n, theta, parents = unpack_parts(idata["sample_stats"]["g_graph"].values[c, d], 48)
        held = unpacked["g"].to_dataset().isel(chain=c, draw=d)
        np.testing.assert_array_equal(held["graphs"], parents)
        np.testing.assert_array_equal(held["reputations"].values, np.where(np.arange(48) < n, theta, np.nan))
    unpacked.to_netcdf(tmp_path / "unpacked.nc", engine="h5netcdf")
    first.save(tmp_path / "draws.nc")
    for file in ("unpacked.nc", "draws.nc"):
        again = ps.load(tmp_path / file)
        assert type(again) is ps.GraphDraws
        xr.testing.assert_identical(first.graphs(), again.graphs())
        xr.testing.assert_identical(first.popularities(random_seed=2), again.popularities(random_seed=2))
        xr.testing.assert_equal(first.scalars, again.scalars)


@pytest.mark.parametrize("dimension", ["chain", "draw"])
def test_draws_selected_by_one_number_are_one_chain_or_draw(hyperparameter_run, dimension):
    _, idata = hyperparameter_run
    for tree in (idata, ps.unpack(idata)):
        one, listed = (ps.GraphDraws.from_idata(tree.isel({dimension: place})) for place in (1, [1]))
        xr.testing.assert_identical(one.reputations(), listed.reputations())
        xr.testing.assert_equal(one.scalars, listed.scalars)
        with pytest.raises(ValueError, match=r"(chain|draw).* not with drop=True"):
            ps.GraphDraws.from_idata(tree.isel({dimension: 0}, drop=True))


def test_too_few_draws_have_no_standard_error(hyperparameter_run):
    _, idata = hyperparameter_run
    few = ps.GraphDraws.from_idata(idata.isel(draw=slice(3)))
    assert np.isnan(few.node_count_probabilities().attrs["mcse"])
    assert ps.GraphDraws.from_idata(idata).node_count_probabilities().attrs["mcse"] > 0.0


def test_stored_draws_are_not_evaluated(hyperparameter_run):
    model, idata = hyperparameter_run
    with model, pytest.raises(Exception, match=r"GraphDraws\.from_idata"):
        pm.sample_posterior_predictive(idata, progressbar=False)


def test_functions_of_the_graph_are_recorded_in_the_process_of_the_chain_alone():
    with pm.Model():
        g = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=1, max_nodes=30)
        pm.Deterministic("n", g.n_nodes)
        idata = pm.sample(20, tune=5, chains=2, cores=1, random_seed=1, **QUIET)
        np.testing.assert_array_equal(idata.posterior["n"], idata.sample_stats["g_n_nodes"])
        with pytest.raises(RuntimeError, match="when chains run in processes of their own"):
            pm.sample(20, tune=5, chains=2, cores=2, random_seed=1, **QUIET)


def exact_count_law(y):
    """p(n | y) where y_j = mu + n + noise, mu and noise standard normal, gamma ~ Gamma(3, 3), two free nodes."""

    def prior(gamma):
        return ps.indian_chefs.node_count_pmf(1.0, gamma, 2, 12, None).values * gamma_law.pdf(gamma, 3, scale=1 / 3)

    law = quad_vec(prior, 0.0, 12.0, epsrel=1e-6)[0]
    cov = np.eye(len(y)) + 1.0
    law *= [multivariate_normal.pdf(y - n, np.zeros(len(y)), cov) for n in range(13)]
    return law / law.sum()


@pytest.fixture(scope="module")
def regression_run():
    y = np.array([3.0, 5.0])
    with pm.Model() as model:
        g = ps.IndianChefsProcess(
            "g", alpha=1.0, gamma=pm.Gamma.dist(3, 3), phi=1.0, observed_nodes=2, reputations=None, max_nodes=12
        )
        mu = pm.Normal("mu")
        pm.Normal("y", mu + pt.cast(g.n_nodes, "float64"), 1.0, observed=y)
        idata = pm.sample(1500, tune=100, chains=2, cores=1, random_seed=2, **QUIET)
    return model, idata, y


def test_terms_that_depend_on_the_graph_make_a_posterior(regression_run):
    import arviz as az

    _, idata, y = regression_run
    law = exact_count_law(y)
    n = idata.sample_stats.g_n_nodes
    for k in (2, 3, 4):
        hits = (n == k).values.astype(float)
        ess = float(np.asarray(az.ess(hits)))
        assert ess > 100
        assert abs(hits.mean() - law[k]) < 5 * np.sqrt(law[k] * (1 - law[k]) / ess)
    with (
        pytest.warns(UserWarning, match="births were refused")
        if idata.sample_stats.g_births_refused.any()
        else nothing()
    ):
        ps.GraphDraws.from_idata(idata)


def test_a_term_of_the_graph_and_of_a_hyperparameter_that_it_owns():
    """p(alpha, n | y) on a grid: the slice over alpha reads the graph as the sweep left it."""
    import arviz as az

    with pm.Model() as model:
        g = ps.IndianChefsProcess("g", alpha=pm.Gamma.dist(3, 2), gamma=1.0, phi=1.0, observed_nodes=1, max_nodes=8)
        pm.Normal("y", model["g_alpha"] * pt.cast(g.n_nodes, "float64"), 1.0, observed=4.0)
        idata = pm.sample(800, tune=50, chains=2, cores=1, random_seed=1, **QUIET)
    alphas, n = np.linspace(0.05, 6, 60), np.arange(9)
    law = np.array([ps.indian_chefs.node_count_pmf(a, 1.0, 1, 8).values * norm.pdf(4.0 - a * n) for a in alphas])
    weights = law.sum(1) * gamma_law.pdf(alphas, 3, scale=0.5)
    draws = idata.posterior["g_alpha"].values
    error = draws.std() / np.sqrt(float(np.asarray(az.ess(draws))))
    assert error < 0.06 and abs(draws.mean() - weights @ alphas / weights.sum()) < 4 * error


@pytest.mark.filterwarnings("ignore:g. .* births were refused")
def test_stored_graphs_are_lent_to_the_model(regression_run):
    """Predictions and log likelihoods are those given each draw's own graph."""
    model, idata, y = regression_run
    some = idata.isel(draw=slice(0, 300))
    with model:
        with pytest.raises(Exception, match=r"ps\.indian_chefs\.load_graphs\(idata\)"):
            pm.sample_posterior_predictive(some, progressbar=False)
        ps.indian_chefs.load_graphs(ps.unpack(some))
        predicted = pm.sample_posterior_predictive(some, random_seed=1, progressbar=False).posterior_predictive
        likelihood = pm.compute_log_likelihood(some, var_names=["y"], extend_inferencedata=False, progressbar=False)
        np.testing.assert_array_equal(predicted["g"], some.sample_stats["g_graph"])
        mean = some.posterior["mu"].values + some.sample_stats["g_n_nodes"].values
        noise = predicted["y"].values - mean[..., None]
        assert abs(noise.mean()) < 5 / np.sqrt(noise.size) and abs(noise.std() - 1.0) < 5 / np.sqrt(2 * noise.size)
        np.testing.assert_allclose(likelihood["y"], norm.logpdf(y, mean[..., None]), atol=1e-12)
        again = pm.sample(5, tune=2, chains=1, cores=1, random_seed=2, **QUIET)  # one row again
    assert again.sample_stats["g_graph"].sizes["draw"] == 5
    twin = some.copy(deep=True)
    twin["posterior"]["g_log_joint"].values[:] = -3.0
    with model, pytest.raises(ValueError, match="different graphs with the same log joint, -3"):
        ps.indian_chefs.load_graphs(twin)
    with small_model(), pytest.raises(ValueError, match="'g' of the model must have max_nodes = 12"):
        ps.indian_chefs.load_graphs(some)


class nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def small_model(**settings):
    defaults = {"alpha": 1.0, "gamma": 1.5, "phi": 1.0, "observed_nodes": ["a", "b"], "max_nodes": 20}
    with pm.Model() as model:
        ps.IndianChefsProcess("g", **(defaults | settings))
    return model


def test_draws_do_not_depend_on_how_chains_run():
    with small_model(gamma=pm.Gamma.dist(3, 3)):
        one = pm.sample(40, tune=20, chains=2, cores=1, random_seed=3, **QUIET)
        fork = pm.sample(40, tune=20, chains=2, cores=2, mp_ctx="fork", random_seed=3, **QUIET)
        other = pm.sample(40, tune=20, chains=2, cores=1, random_seed=4, **QUIET)
    np.testing.assert_array_equal(one.sample_stats.g_graph, fork.sample_stats.g_graph)
    np.testing.assert_array_equal(one.posterior.g_log_joint, fork.posterior.g_log_joint)
    assert not np.array_equal(one.sample_stats.g_graph, other.sample_stats.g_graph)
    assert not np.array_equal(one.sample_stats.g_graph[0], one.sample_stats.g_graph[1])


def test_refused_births_are_counted_and_warned_of(caplog):
    with small_model(max_nodes=3), caplog.at_level(logging.WARNING, logger="pymc"):
        idata = pm.sample(50, tune=5, chains=1, cores=1, random_seed=1, step=ps.steps.IndianChefsStep(), **QUIET)
    assert "births were refused" in caplog.text
    assert int(idata.sample_stats.g_births_refused.sum()) > 0
    assert int(idata.sample_stats.g_n_nodes.max()) == 3
    with pytest.warns(UserWarning, match="may have max_nodes = 3 nodes"):
        ps.GraphDraws.from_idata(idata)


def test_published_moves_are_those_of_the_step_too():
    with small_model():
        step = ps.steps.IndianChefsStep(moves="published", repeats=10)
        idata = pm.sample(400, tune=50, chains=2, cores=1, random_seed=5, step=step, **QUIET)
    n = idata.sample_stats.g_n_nodes
    assert abs(float(n.mean()) - 4.7748) < 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"reputations": 1.0}, "leave no structure"),
        ({"max_nodes": 1}, "max_nodes must be at least the number of observed nodes, 2; got 1"),
        ({"observed_nodes": []}, "at least one node"),
        ({"start": "middle"}, "start must be"),
        ({"start": (np.zeros((2, 2)), np.array([0.0, 0.5]))}, "leave 'b' at its reputation 0"),
        (
            {"start": (np.eye(3, k=1), np.array([0.0, 0.0, 0.5])), "reputations": None},
            "parent 'a' at 0 is not above 'b' at 0",
        ),
        ({"start": (np.zeros((3, 3)), np.array([0.0, 0.0, 0.5]))}, "'hidden_1' without a child"),
        ({"start": (np.zeros((1, 2)), np.zeros(2))}, "got shapes"),
    ],
)
def test_bad_input_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        small_model(**settings)


def test_expressions_need_a_name_and_steps_a_graph():
    with pm.Model():
        a = pm.Gamma("a", 1, 1)
        with pytest.raises(ValueError, match="alpha must be a number or a named variable"):
            ps.IndianChefsProcess("g", alpha=2.0 * a, gamma=1.0, phi=1.0, observed_nodes=1)
    with pm.Model():
        pm.Normal("x")
        with pytest.raises(ValueError, match="the model has none"):
            ps.steps.IndianChefsStep()
    with small_model():
        for settings in ({"moves": "some"}, {"repeats": 0}, {"sweeps": True}, {"parent_sets": -1}):
            with pytest.raises(ValueError, match=next(iter(settings))):
                ps.steps.IndianChefsStep(**settings)


def test_hyperparameters_of_a_graph_have_the_width_of_floatx():
    with pytensor.config.change_flags(floatX="float32"):
        with small_model(alpha=pm.Gamma.dist(3, 3), gamma=pm.Gamma.dist(3, 3)):
            idata = pm.sample(5, tune=5, chains=1, cores=1, random_seed=3, **QUIET)  # a TypeError of PyTensor
    assert all(len(np.unique(idata.posterior[name])) == 5 for name in ("g_alpha", "g_gamma"))


def test_graphs_held_fixed_are_refused_unless_all_that_belongs_to_them_is():
    with pm.Model() as model:
        gamma = pm.Gamma("gamma", 3, 3)
        g = ps.IndianChefsProcess("g", alpha=1.0, gamma=gamma, phi=1.0, observed_nodes=2, max_nodes=8)
        pm.Poisson("y", gamma * pt.cast(g.n_nodes, "float64"), observed=[4, 6, 5])
    three = pm.draw(model["g"]).copy()
    three[0] = 3.0
    for change in (pm.do, pm.observe):  # gamma was sampled given the graph of the start
        with pytest.raises(ValueError, match=r"'g_log_joint' is held fixed, as by pm.do or pm.observe.*leave it free"):
            change(model, {"g_log_joint": 0.0}).logp()
    sample = partial(pm.sample, 400, tune=400, chains=2, cores=1, random_seed=1, **QUIET)
    with pytest.raises(ValueError, match=r"'g' is held fixed, as by pm.do, .* fix \['g_log_joint'\] too"):
        sample(model=pm.do(model, {"g": three}))  # AttributeError of None
    with pytest.raises(ValueError, match=r"the graph 'g' was replaced, as by pm.observe, .* give .* start="):
        sample(model=pm.observe(model, {"g": three}))  # the other graph was left aside without a word
    idata = sample(model=pm.do(model, {"g": three, "g_log_joint": 0.0}))
    exact = (3 + 15) / (3 + 3 * 3)  # Gamma(3, 3) with 15 events at three graphs of three nodes
    assert float(idata.posterior.gamma.mean()) == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("tune", [0, 3])
def test_a_chain_that_finds_no_possible_graph_ends(tune):
    """Draws at graphs without a density would be those of nothing; while it tunes, a chain may look for one."""
    for least in (3, 9):
        with pm.Model():
            g = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=1, max_nodes=5)
            pm.Potential("large", pt.switch(g.n_nodes >= least, 0.0, -np.inf))
            sample = partial(pm.sample, 5, tune=tune, chains=1, cores=1, random_seed=1, **QUIET)
            if least == 3:
                assert (sample().sample_stats.g_n_nodes >= 3).all()
            else:
                with pytest.raises(ValueError, match=r"'g': the terms .* had no density at any graph.*give start="):
                    sample()


def test_one_variable_for_two_hyperparameters_has_no_conjugate_law():
    with pm.Model() as model:
        one = pm.Gamma.dist(3, 3)
        ps.IndianChefsProcess("g", alpha=1.0, gamma=one, phi=one, observed_nodes=1, max_nodes=8)
        ps.IndianChefsProcess("h", alpha=1.0, gamma=pm.Gamma.dist(3, 3), phi=1.0, observed_nodes=1, max_nodes=8)
        shared, own = (
            ps.steps.IndianChefsStep([model[f"{g}_log_joint"], model[f"{g}_gamma"]]).hyperparameters for g in "gh"
        )
    assert shared.conjugate is None and [name for name, _ in shared.sliced] == ["g_gamma_log__"]
    assert own.conjugate[0] == "h_gamma_log__" and own.sliced == []


def test_nodes_are_named_by_columns_and_reputations_by_a_series():
    names = pd.DataFrame(columns=["a", "b"]).columns
    for nodes in (names, pd.Series(names), names.to_numpy()):
        with pm.Model():
            g = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=nodes)
        assert g.observed_nodes == ("a", "b")
    with pm.Model():
        places = pd.Series({"b": 0.25, "a": 0.0})
        g = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=names, reputations=places)
    assert (g.observed_nodes, g.schema.reputations) == (("a", "b"), (0.0, 0.25))


def test_hyperparameters_outside_their_range_have_no_density_and_no_draws():
    with pm.Model():
        alpha, gamma = pm.Flat("alpha"), pm.Flat("gamma")
        g = ps.IndianChefsProcess("g", alpha=alpha, gamma=gamma, phi=1.0, observed_nodes=1, max_nodes=4).packed
    value = pm.draw(g, givens={alpha: 1.0, gamma: 1.0}, random_seed=1)
    evaluate = pm.compile([alpha, gamma], pm.logp(g, value))
    assert np.isfinite(evaluate(1.0, 1.0))
    for a, c in ((-0.5, -1.0), (-0.5, 1.0), (1.0, 0.0), (np.nan, 1.0)):
        assert evaluate(a, c) == -np.inf
    with pytest.raises(ValueError, match=r"gamma must be positive and finite; got .*-1"):
        pm.draw(g, givens={alpha: 1.0, gamma: -1.0})


def test_a_log_density_with_a_gradient():
    with small_model(alpha=pm.Gamma.dist(2, 1), gamma=pm.Gamma.dist(2, 1), phi=pm.Gamma.dist(2, 1)) as model:
        free = [v for v in model.value_vars if "log_joint" not in v.name]
        point = model.initial_point() | {v.name: np.array(0.3) for v in free}
        gradient = model.compile_dlogp([model.values_to_rvs[v] for v in free])(point)
        log_p = model.compile_logp()
        for j, v in enumerate(free):
            up, down = (log_p(point | {v.name: point[v.name] + h}) for h in (1e-5, -1e-5))
            assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=1e-6)
