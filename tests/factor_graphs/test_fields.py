"""Fields inside PyMC models: log density and gradient against loops, sampling, recovery, refusals."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.model.fgraph import clone_model

import pymc_spn as ps
from pymc_spn.factor_graphs.ops import LogPartition, LogPartitionGradient
from tests.factor_graphs.hidden_chains import INITIAL, hmm_model, log_emission, simulate
from tests.modes import BY_PYTHON, PLAIN, REWRITTEN
from tests.reference_factor_graphs import hmm_log_likelihood, joint, log_values, probabilities

RNG = np.random.default_rng(0)
_, DATA = simulate(RNG, 3, 12)


@pytest.fixture(scope="module")
def model():
    return hmm_model(DATA)


def test_log_density_has_one_term_a_row_and_equals_the_forward_loop(model):
    point = model.initial_point()
    (rv,) = model.observed_RVs
    found = model.compile_logp(vars=[rv], sum=False, mode=PLAIN)(point)[0]
    transition = np.full((3, 3), 1 / 3)
    expected = [hmm_log_likelihood(INITIAL, np.log(transition), log_emission(row, point["mu"])) for row in DATA]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_gradient_equals_central_differences_and_reads_log_z_off_its_own_pass(model):
    f = model.logp_dlogp_function(ravel_inputs=True, mode=REWRITTEN)
    f.set_extra_values({})
    start = pm.blocking.DictToArrayBijection.map(model.initial_point()).data
    x = start + 0.3 * np.random.default_rng(1).normal(size=start.size)
    value, gradient = f(x)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = 1e-5
        assert gradient[i] == pytest.approx((f(x + step)[0] - f(x - step)[0]) / 2e-5, rel=1e-6, abs=1e-6)
    both = model.compile_fn([model.logp(), model.dlogp()], mode=REWRITTEN).f
    ops = [type(n.op) for n in both.maker.fgraph.apply_nodes]
    assert LogPartitionGradient in ops and LogPartition not in ops
    assert np.isfinite(value)


def loopy_gradient(mode):
    """log Z of weighted rows on a loopy graph, its gradient by the Op and by central differences."""
    fg = ps.FactorGraph({"a": 2, "b": 3, "c": 2, "d": 2})
    rng = np.random.default_rng(4)
    scopes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b",), ()]
    for s in scopes:
        fg.add_factor(s, rng.normal(size=[int(fg.card[fg.number[v]]) for v in s]))
    from pymc_spn.factor_graphs.ops import log_partition, plan_inputs

    tree = fg.compile()
    theta, soft, weights = pt.dvector(), pt.dmatrix(), np.array([0.5, 2.0, -1.0])
    codes = np.full((3, 4), -1, np.int32)
    codes[1, 2] = 1
    total = pt.sum(weights * log_partition(theta, codes, soft, np.zeros(3), *plan_inputs(tree.plan.arrays)))
    f = pytensor.function([theta, soft], [total, *pytensor.grad(total, [theta, soft])], mode=mode)
    return f, fg.potentials(), rng.normal(size=(3, 9))


def test_weighted_rows_on_a_loopy_graph():
    f, theta, soft = loopy_gradient(PLAIN)
    _, for_theta, for_soft = f(theta, soft)
    for x, g in ((theta, for_theta), (soft, for_soft)):
        flat = x.ravel()
        for i in range(flat.size):
            kept = flat[i]
            flat[i] = kept + 1e-5
            up = f(theta, soft)[0]
            flat[i] = kept - 1e-5
            down = f(theta, soft)[0]
            flat[i] = kept
            assert g.ravel()[i] == pytest.approx((up - down) / 2e-5, abs=1e-8)


def test_second_derivatives_are_refused():
    from pymc_spn.factor_graphs.ops import log_partition, plan_inputs

    arrays = ps.FactorGraph.ising(3, 1.0).compile().plan.arrays
    theta = pt.dvector()
    none = np.empty((0, 3), np.int32), np.empty((0, 6))
    first = pytensor.grad(log_partition(theta, *none, np.zeros(1), *plan_inputs(arrays))[0], theta)
    with pytest.raises(NotImplementedError, match="second derivatives"):
        pytensor.grad(first.sum(), theta)


def test_a_chain_of_ten_thousand_steps_has_finite_value_and_gradient():
    _, data = simulate(np.random.default_rng(2), 1, 10_000)
    model = hmm_model(data[0])
    f = model.logp_dlogp_function(ravel_inputs=True, mode=REWRITTEN)
    f.set_extra_values({})
    point = model.initial_point()
    value, gradient = f(pm.blocking.DictToArrayBijection.map(point).data)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))
    transition = np.log(np.full((3, 3), 1 / 3))
    expected = hmm_log_likelihood(INITIAL, transition, log_emission(data[0], point["mu"]))
    (rv,) = model.observed_RVs
    assert model.compile_logp(vars=[rv], mode=PLAIN)(point) == pytest.approx(expected, rel=1e-11)


def test_discrete_data_with_gaps_learn_a_conditional_table():
    """A Bayesian network with an unknown table: log p equals enumeration over what is missing."""
    rows = {"rain": ["no", "yes", None, "yes"], "wet": [0, np.nan, 1, 1]}
    with pm.Model() as model:
        p = pm.Beta("p", 2, 2, shape=2)
        fg = ps.FactorGraph({"rain": ["no", "yes"], "wet": 2})
        fg.add_factor(("rain",), np.log([0.7, 0.3]))
        fg.add_factor(("rain", "wet"), pt.log(pt.stack([1 - p, p], axis=1)))
        ps.FieldEmission("data", ps.DiscreteField("z", fg), observed=rows)
    point = {"p_logodds__": np.array([-1.0, 0.5])}
    q = 1 / (1 + np.exp(-point["p_logodds__"]))
    wet = np.array([[1 - q[0], q[0]], [1 - q[1], q[1]]])
    expected = np.log([0.7 * wet[0, 0], 0.3, 0.7 * wet[0, 1] + 0.3 * wet[1, 1], 0.3 * wet[1, 1]])
    (rv,) = model.observed_RVs
    np.testing.assert_allclose(model.compile_logp(vars=[rv], sum=False, mode=PLAIN)(point)[0], expected, rtol=1e-13)


def test_what_an_array_masks_is_missing():
    def log_p(data, **components):
        fg = ps.FactorGraph({"rain": ["no", "yes"], "wet": 2})
        fg.add_factor(("rain", "wet"), np.log([[0.5, 0.2], [0.1, 0.2]]))
        with pm.Model() as model:
            ps.FieldEmission("data", ps.DiscreteField("z", fg), observed=data, components=components or None)
        return model.compile_logp(sum=False, mode=PLAIN)({})[0]

    masked = {"wet": np.ma.array([0, 1, 1], mask=[0, 1, 0]), "rain": np.ma.array(["no", "yes", "-"], mask=[0, 0, 1])}
    np.testing.assert_array_equal(log_p(masked), log_p({"wet": [0, None, 1], "rain": ["no", "yes", None]}))
    np.testing.assert_allclose(log_p(masked), np.log([0.5, 0.3, 0.4]), rtol=1e-13)
    normal = pm.Normal.dist(np.array([0.0, 1.0]), 1.0)
    data = np.array([[0.3, -999.0], [1.0, 2.0]])
    gaps = np.where(data == -999.0, np.nan, data)
    masked = np.ma.masked_equal(data, -999.0)
    np.testing.assert_array_equal(log_p({"v": masked}, v=normal), log_p({"v": gaps}, v=normal))


def test_unnormalised_fields_are_divided_by_their_own_partition_function():
    """Potts field with learned coupling: log p(y | beta) = log Z(beta, y) - log Z(beta)."""
    y = np.array([0.1, 1.2, 0.9, -0.3])
    with pm.Model() as model:
        beta = pm.Normal("beta")
        z = ps.DiscreteField("z", ps.FactorGraph.potts((2, 2), 2, beta))
        ps.FieldEmission("y", z, components={"v": pm.Normal.dist(np.array([0.0, 1.0]), 1.0)}, observed={"v": y})
    emission = log_emission(y, np.array([0.0, 1.0]))
    (rv,) = model.observed_RVs
    logp = model.compile_logp(vars=[rv], mode=PLAIN)
    for b in (-0.7, 0.0, 1.3):
        factors = [(s, b * np.eye(2)) for s in [(0, 1), (2, 3), (0, 2), (1, 3)]]
        prior = log_values((2,) * 4, factors)
        posterior = log_values((2,) * 4, factors, soft=dict(enumerate(emission)))
        expected = np.logaddexp.reduce(posterior) - np.logaddexp.reduce(prior)
        assert logp({"beta": b}) == pytest.approx(expected, rel=1e-12)


def test_a_component_for_each_site_and_several_components_add_up():
    rng = np.random.default_rng(6)
    counts, level = np.array([3.0, np.nan]), rng.normal(size=3)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1, shape=2)
        mu = rng.normal(size=(3, 2))
        fg = ps.FactorGraph.tree([("a", "b"), ("b", "c")], 2, rng.normal(size=(2, 2, 2)))
        z = ps.DiscreteField("z", fg)
        ps.FieldEmission(
            "y",
            z,
            components={"level": pm.Normal.dist(mu, np.full((3, 1), 0.5)), "count": pm.Poisson.dist(rate)},
            observed={"level": level, "count": counts, "c": 1},
            sites={"count": ["c", "a"]},
        )
    point = {"rate_log__": np.log([0.5, 4.0])}
    poisson = lambda n: np.array([n * np.log(r) - r - np.log(6.0) for r in (0.5, 4.0)])  # noqa: E731 (3! = 6)
    soft = {v: log_emission(level[[v]], mu[v], 0.5)[0] for v in range(3)}
    soft[2] = soft[2] + poisson(3)
    factors = [(s, fg.log_table(i)) for i, s in enumerate([(0, 1), (1, 2)])]
    expected = np.logaddexp.reduce(log_values((2,) * 3, factors, (None, None, 1), soft)) - np.logaddexp.reduce(
        log_values((2,) * 3, factors)
    )
    (rv,) = model.observed_RVs
    assert model.compile_logp(vars=[rv], mode=PLAIN)(point) == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def sampled(model):
    with model:
        return pm.sample(
            150, tune=300, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )


def test_nuts_samples_and_loo_sees_one_term_a_row(model, sampled):
    assert set(sampled.posterior.data_vars) == {"mu", "P"}
    with model:
        pm.compute_log_likelihood(sampled, progressbar=False)
    assert sampled.log_likelihood["y"].shape == (2, 150, 3)


def test_recovered_states_are_those_of_each_draw(model, sampled):
    some = sampled.isel(draw=slice(0, 4))
    out = ps.factor_graphs.recover_discrete(some, model=model, random_seed=1)
    assert out["z_marginals"].dims == ("chain", "draw", "y_row", "time", "z_state")
    assert out["z_map"].shape == out["z_samples"].shape == (2, 4, 3, 12)
    assert out["z_map"].attrs["exactness"] == "exact" and out["z_samples"].attrs["exactness"] == "exact simulation"
    assert out["z_marginals"].attrs["exactness"] == "exact"
    short = DATA[:, :5]
    small = ps.factor_graphs.recover_discrete(some, model=hmm_model(short), what=["marginals", "map"])
    for c in range(2):
        for d in range(4):
            mu, transition = (some.posterior[n].values[c, d] for n in ("mu", "P"))
            for row in range(3):
                emission = dict(enumerate(log_emission(short[row], mu)))
                factors = [((0,), INITIAL), *(((t, t + 1), np.log(transition)) for t in range(4))]
                values = log_values((3,) * 5, factors, soft=emission)
                p = probabilities(values)
                for t in range(5):
                    np.testing.assert_allclose(
                        small["z_marginals"].values[c, d, row, t], joint((3,) * 5, p, [t]), atol=1e-12
                    )
                best = int(np.argmax(values))
                assert small["z_map"].values[c, d, row] @ (81, 27, 9, 3, 1) == best
                assert float(small["z_map_log_probability"][c, d, row]) == pytest.approx(np.log(p[best]), abs=1e-10)


def test_recovered_samples_have_the_marginals_and_depend_on_the_seed_alone(model, sampled):
    a, b, c = (ps.factor_graphs.recover_discrete(sampled, model=model, random_seed=s) for s in (1, 1, 2))
    assert a.equals(b) and not a["z_samples"].equals(c["z_samples"])
    frequency = (a["z_samples"] == 2).mean(("chain", "draw")).values
    probability = a["z_marginals"].sel(z_state=2).mean(("chain", "draw")).values
    # 300 independent uniform numbers a cell: five standard errors
    assert np.all(np.abs(frequency - probability) < 5 * np.sqrt(probability * (1 - probability) / 300) + 0.01)


def test_posterior_predictive_draws_new_fields_and_data(model, sampled):
    with model:
        drawn = pm.sample_posterior_predictive(sampled, random_seed=3, progressbar=False, **BY_PYTHON)
        drawn = drawn.posterior_predictive["y"]
    assert drawn.shape == (2, 150, 3, 12)
    assert np.all(np.isfinite(drawn)) and 1.0 < float(drawn.std()) < 4.0


def test_draws_are_equal_in_one_and_in_two_processes(model, sampled):
    with model:
        other = pm.sample(
            150, tune=300, chains=2, cores=2, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    np.testing.assert_array_equal(other.posterior["mu"], sampled.posterior["mu"])


def test_a_field_is_no_tensor():
    with pm.Model():
        mu = pm.Normal("mu", shape=2)
        z = ps.DiscreteField("z", ps.FactorGraph.ising(3, 1.0))
        for use in (lambda: mu[z], lambda: np.zeros(2)[z], lambda: z + 1, lambda: z == 0, lambda: pt.as_tensor(z)):
            with pytest.raises(TypeError, match=r"discrete field 'z' is summed out.*ps.FieldEmission"):
                use()


def refused(**changes):
    arguments = {"components": {"v": pm.Normal.dist(np.zeros(2), 1)}, "observed": {"v": np.zeros(3)}} | changes
    with pm.Model():
        z = ps.DiscreteField("z", ps.FactorGraph.ising(3, 1.0))
        ps.FieldEmission("y", z, **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"observed": {"v": np.zeros(4)}}, ValueError, r"observed\['v'\] must have shape \(3,\) or \(rows, 3\)"),
        ({"observed": {"v": [0, np.inf, 0]}}, ValueError, "must be finite or NaN, got inf"),
        (
            {"observed": {"v": np.array([1, 2, 3], "M8[D]")}},
            TypeError,
            r"observed\['v'\] must .*datetime64\[D\] is not num",
        ),
        ({"observed": {"v": pd.to_timedelta([1, 2, 3])}}, TypeError, r"timedelta64.* is not numeric; .*, 'D'\)"),
        (
            {"observed": {"v": pd.date_range("2026", periods=3, tz="UTC")}},
            TypeError,
            r"observed\['v'\] must be rows of",
        ),
        ({"observed": {"v": ["1", "2", "3"]}}, TypeError, r"observed\['v'\] must be rows of numbers, .*: text is no"),
        ({"observed": {}}, ValueError, "'v' is missing"),
        ({"observed": {"v": np.zeros(3), "w": [1]}}, ValueError, "neither a component .* nor a variable of the field"),
        ({"observed": {"v": np.zeros(3), "x1": 5}}, ValueError, r"given\['x1'\] must be a state"),
        ({"observed": {"v": np.zeros((2, 3)), "x1": [1, 1, 1]}}, ValueError, "equal numbers of rows"),
        ({"observed": np.zeros(3)}, TypeError, "observed must be a mapping"),
        ({"components": {"v": pm.Normal.dist(np.zeros(3), 1)}}, ValueError, "must have the 2 states on its last axis"),
        ({"components": {"v": 3.0}}, TypeError, "must be an unregistered distribution"),
        ({"sites": {"w": ["x1"]}}, ValueError, "sites names 'w', which is not a component"),
        ({"sites": {"v": ["x9"]}}, ValueError, "unknown variable 'x9'"),
        (
            {"components": {"v": pm.Poisson.dist(np.ones(2))}, "observed": {"v": [0.5, 1, 1]}},
            ValueError,
            "must hold integers",
        ),
        ({"observed": {"v": pt.zeros(3)}}, TypeError, r"observed\['v'\] must hold numbers, got the tensor"),
        ({"dims": "day"}, ValueError, "dims must be left out where the data have no rows, got 'day'"),
        (
            {"observed": {"v": np.zeros((2, 3))}, "dims": ("day", "site")},
            ValueError,
            r"dims must name only the dimension of rows, got \('day', 'site'\)",
        ),
        ({"observed": {"v": np.zeros((0, 3))}}, ValueError, r"observed\['v'\] must have at least one row"),
    ],
)
def test_bad_emissions_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        refused(**changes)


def test_a_second_emission_is_refused():
    with pm.Model():
        z = ps.DiscreteField("z", ps.FactorGraph.ising(3, 1.0))
        arguments = {"components": {"v": pm.Normal.dist(np.zeros(2), 1)}, "observed": {"v": np.zeros(3)}}
        ps.FieldEmission("y", z, **arguments)
        with pytest.raises(ValueError, match="field 'z' already has the emission 'y'"):
            ps.FieldEmission("y2", z, **arguments)


def test_tables_without_gradients_are_refused():
    with pm.Model():
        beta = pm.Normal("beta")
        fg = ps.FactorGraph({"a": 2})
        fg.add_factor(("a",), pt.stack([0.0, 1.0]) * pt.gt(beta, 0.0))
        with pytest.raises(TypeError, match=r"log_table of factor \('a',\).*without gradient"):
            ps.DiscreteField("z", fg)

        class NoGradient(pytensor.graph.op.Op):
            __props__ = ()
            itypes, otypes = (pt.dvector,), (pt.dvector,)

            def perform(self, node, inputs, outputs):
                outputs[0][0] = inputs[0]

        fg = ps.FactorGraph({"a": 2})
        fg.add_factor(("a",), NoGradient()(pt.stack([0.0, beta])))
        with pytest.raises(TypeError, match=r"log_table of factor \('a',\) has no gradient"):
            ps.DiscreteField("z2", fg)


def test_symbolic_graphs_have_no_numbers_of_their_own():
    fg = ps.FactorGraph({"a": 2})
    fg.add_factor(("a",), pt.dvector("table"))
    with pytest.raises(ValueError, match="is a tensor, so the graph has no numbers of its own"):
        fg.compile().infer()
    with pytest.raises(ValueError, match="must have shape"):
        fg.add_factor(("a",), pt.dmatrix())


def test_models_that_pymc_makes_of_others_recover_from_their_own_variables(model, sampled):
    """`pm.do`, `pm.observe` and clones hold other variables than those from which the field was built."""
    draws = sampled.isel(draw=slice(0, 3))
    mu = draws["posterior"]["mu"].values[0, 1]
    expected = ps.factor_graphs.recover_discrete(draws, model=model, what=["marginals"]).z_marginals
    cloned = ps.factor_graphs.recover_discrete(draws, model=clone_model(model), what=["marginals"]).z_marginals
    np.testing.assert_array_equal(cloned, expected)
    for fixed in (pm.do(model, {"mu": mu}), pm.observe(model, {"mu": mu})):
        found = ps.factor_graphs.recover_discrete(draws, model=fixed, what=["marginals"]).z_marginals
        np.testing.assert_allclose(found[0, 1], expected[0, 1], atol=1e-12)
        assert np.abs(found - expected)[0, 0].max() > 1e-6


def test_recovery_reads_the_data_of_its_model_and_parameters_by_their_labels():
    """States of the data that `pm.observe` had replaced were given; parameters were read by position alone."""
    with pm.Model(coords={"state": ["low", "high"]}) as model:
        mu = pm.Normal("mu", 0.0, 3.0, dims="state")
        fg = ps.FactorGraph({"a": 2, "b": 2})
        fg.add_factor(("a", "b"), np.log([[0.4, 0.1], [0.1, 0.4]]))
        components, data = {"y": pm.Normal.dist(mu, 1.0)}, np.array([[-3.0, -2.0], [2.5, np.nan]])
        ps.FieldEmission("y", ps.DiscreteField("z", fg), components=components, observed={"y": data})

    def best(model, mu, labels):
        draws = xr.DataArray([[mu]], dims=("chain", "draw", "state"), coords={"state": labels})
        idata = xr.DataTree.from_dict({"posterior": xr.Dataset({"mu": draws})})
        return ps.factor_graphs.recover_discrete(idata, model=model, what=["map"]).z_map[0, 0].values.tolist()

    assert best(model, [-2.0, 2.0], ["low", "high"]) == [[0, 0], [1, 1]]
    assert best(model, [2.0, -2.0], ["high", "low"]) == [[0, 0], [1, 1]]
    assert best(pm.observe(model, {"y": -data}), [-2.0, 2.0], ["low", "high"]) == [[1, 1], [0, 0]]
    with pytest.raises(ValueError, match=r"'mu' .* labels of dimension 'state', .*; got \['low', 'top'\]"):
        best(model, [-2.0, 2.0], ["low", "top"])


def test_recovery_reads_dimensions_by_name_and_results_from_files(model, sampled, tmp_path):
    some = sampled.isel(draw=slice(0, 3))
    expected = ps.factor_graphs.recover_discrete(some, model=model, what=["marginals"])
    turned = some.map_over_datasets(lambda d: d.transpose("P_dim_1", "draw", ..., "chain", missing_dims="ignore"))
    assert turned.posterior["P"].dims == ("P_dim_1", "draw", "P_dim_0", "chain")
    some.to_netcdf(tmp_path / "some.nc", engine="h5netcdf")
    for idata in (turned, tmp_path / "some.nc"):
        assert ps.factor_graphs.recover_discrete(idata, model=model, what=["marginals"]).equals(expected)


def test_recovery_refuses_draws_that_are_missing(model, sampled):
    """States of parameters that are no numbers were given, as None, beside marginals that are numbers."""
    ragged = [sampled.isel(chain=[0], draw=slice(0, 3)), sampled.isel(chain=[1], draw=slice(0, 2))]
    padded = xr.concat(ragged, dim="chain", data_vars="all", join="outer")
    with pytest.raises(ValueError, match=r"must be a number in every draw, and is missing in chain 1, draw 2"):
        ps.factor_graphs.recover_discrete(padded, model=model)
    with pytest.raises(ValueError, match="at least one draw of one chain, got no chain"):
        ps.factor_graphs.recover_discrete(sampled.sel(chain=[]), model=model)
    with pytest.raises(ValueError, match="idata must have the group 'posterior', got the groups"):
        ps.factor_graphs.recover_discrete(xr.DataTree(), model=model)
    with pytest.raises(TypeError, match=r"idata must be the DataTree that pm\.sample returned"):
        ps.factor_graphs.recover_discrete(sampled["posterior"].to_dataset(), model=model)


def test_recovery_refuses_what_it_cannot_do(model, sampled):
    with pytest.raises(ValueError, match="what must be among"):
        ps.factor_graphs.recover_discrete(sampled, model=model, what=["mean"])
    with pytest.raises(TypeError, match="the single string 'map'"):
        ps.factor_graphs.recover_discrete(sampled, model=model, what="map")
    with pytest.raises(ValueError, match="must have the dimension 'draw'"):
        ps.factor_graphs.recover_discrete(sampled.isel(draw=0, drop=True), model=model)
    one = ps.factor_graphs.recover_discrete(sampled.isel(draw=0, chain=1), model=model, what=["marginals"])
    assert one.equals(
        ps.factor_graphs.recover_discrete(sampled.isel(draw=[0], chain=[1]), model=model, what=["marginals"])
    )
    with pm.Model() as other:
        pm.Normal("x")
    with pytest.raises(ValueError, match=r"no ps\.FieldEmission"):
        ps.factor_graphs.recover_discrete(sampled, model=other)


def test_nutpie_draws_from_the_same_posterior(model, sampled):
    import arviz as az
    import nutpie

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = nutpie.sample(nutpie.compile_pymc_model(model), draws=300, tune=300, chains=2, seed=1, progress_bar=False)
    mine, theirs = sampled.posterior["mu"], out.posterior["mu"]
    for state in range(3):
        a, b = (np.asarray(d)[..., state] for d in (mine, theirs))
        error = np.sqrt(a.var() / float(az.ess(a)) + b.var() / float(az.ess(b)))
        assert abs(a.mean() - b.mean()) < 5.0 * error < 0.5
