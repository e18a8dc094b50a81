"""Cascading Indian buffets in a PyMC model: enumerated laws, the prior from its step, networks, records, refusals."""

import subprocess
import sys
from functools import cache
from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import gammaln
from scipy.stats import gamma as gamma_law
from scipy.stats import kstest, norm

import pymc_spn as ps
from pymc_spn.indian_chefs.cascading_kernels import dish_exposure, layered_log_density, make_cascade
from pymc_spn.indian_chefs.graph_laws import CascadeLaw
from pymc_spn.indian_chefs.graph_state import new_state, refresh
from pymc_spn.indian_chefs.packed_graphs import pack_arrays, unpack_arrays
from tests.indian_chefs.small_graphs import ring
from tests.sampled_runs import recorded

pytestmark = pytest.mark.filterwarnings("ignore:g. .* births were refused")

Buffet = ps.indian_chefs.CascadingIndianBuffet
FAMILIES = {False: ps.indian_chefs.CascadingIBP, True: ps.indian_chefs.ExtendedCascadingIBP}
QUIET = {"progressbar": False, "compute_convergence_checks": False}
MASS, BETA = 0.7, 1.5


def layers_of(parents):
    """(n,) int64: one more than the highest layer among the children; None for a cycle."""
    layers = np.zeros(len(parents), int)
    for _ in range(len(parents) + 1):
        above = np.array([max((layers[i] + 1 for i in np.flatnonzero(row)), default=0) for row in parents])
        if (above == layers).all():
            return layers
        layers = above
    return None


@cache
def every_graph(passes_layers, mass=MASS, beta=BETA, room=4):
    """Packed lists of up to two hidden units over two nodes, their number of nodes and edges, their probabilities.

    The probability is that of `CascadingIBP.log_density`, which counts lists that differ in their order alone once.
    """
    prior, found = FAMILIES[passes_layers](mass, beta, 2), []
    for n in range(2, room + 1):
        for bits in product((0, 1), repeat=(n - 2) * n):
            parents = np.zeros((n, n), int)
            parents[2:] = np.reshape(bits, (n - 2, n))
            layers = layers_of(parents) if parents[2:].any(1).all() else None
            if layers is None or (np.diff(layers) < 0).any():
                continue
            log_p = prior.log_density(parents, layers)
            if log_p == -np.inf:
                continue
            _, alike = np.unique(np.column_stack([parents[2:], layers[2:]]), axis=0, return_counts=True)
            log_p += gammaln(alike + 1.0).sum() - gammaln(np.bincount(layers[2:], minlength=1) + 1.0).sum()
            theta, whole = np.zeros(room), np.zeros((room, room), bool)
            theta[:n], whole[:n, :n] = layers / (1.0 + layers), parents
            found.append((pack_arrays(np.array(n), theta, whole), n, parents.sum(), np.exp(log_p)))
    packed, nodes, edges, p = (np.array(x) for x in zip(*found, strict=True))
    return packed, nodes, edges, p


def z_of(draws, mean, variance):
    """Standard errors from an exact mean, by the effective size of the draws (chain, draw)."""
    return (draws.mean() - mean) / np.sqrt(variance / float(np.asarray(az.ess(draws.astype(float)))))


@pytest.mark.parametrize("passes_layers", [False, True])
def test_log_density_is_that_of_enumerated_lists_and_draws_have_it(passes_layers):
    packed, nodes, _, p = every_graph(passes_layers)
    g = Buffet.dist(mass=MASS, concentration=BETA, observed_nodes=2, passes_layers=passes_layers, max_nodes=4)
    value = g.type()
    evaluate = pm.compile([value], pm.logp(g, value))
    np.testing.assert_allclose([evaluate(one) for one in packed], np.log(p), rtol=1e-10)
    free = FAMILIES[passes_layers](MASS, BETA, 2).sample(20_000, random_seed=1).n_active.values
    assert abs((free <= 4).mean() - p.sum()) < 4 * np.sqrt(p.sum() * (1 - p.sum()) / 20_000)
    draws = pm.draw(g, 4_000, random_seed=2)
    places = {one.tobytes(): j for j, one in enumerate(packed)}
    counts = np.bincount([places[one.tobytes()] for one in draws], minlength=len(packed))
    law = p / p.sum()
    # 4.5 standard errors for the tens of graphs that are expected five times or more
    often = law * 4_000 > 5
    assert often.sum() > 8
    assert (np.abs(counts - 4_000 * law)[often] < 4.5 * np.sqrt(4_000 * law * (1 - law))[often]).all()
    wrong = packed[nodes == 4][0].copy()
    wrong[3] = 0.4  # a reputation of no layer
    assert evaluate(wrong) == -np.inf


@pytest.mark.parametrize("passes_layers", [False, True])
def test_gradient_by_hyperparameters_is_that_of_differences(passes_layers):
    numbers = pt.dvector("numbers")
    g = Buffet.dist(
        mass=[numbers[0], numbers[1]],
        concentration=[numbers[2], 0.7, numbers[3]],
        observed_nodes=2,
        passes_layers=passes_layers,
        max_nodes=30,
    )
    value, at = g.type(), np.array([1.2, 0.8, 2.0, 0.6])
    log_p = pm.logp(g, value)
    evaluate, slope = (pm.compile([value, numbers], out) for out in (log_p, pt.grad(log_p, numbers)))
    draws = pm.draw(g, 30, givens={numbers: at}, random_seed=4)
    assert draws[:, 0].max() > 8
    for one in draws:
        for j in range(4):
            up, down = (evaluate(one, at + h * np.eye(4)[j]) for h in (1e-5, -1e-5))
            assert slope(one, at)[j] == pytest.approx((up - down) / 2e-5, abs=1e-5)
    assert evaluate(draws[0], np.array([1.2, -0.8, 2.0, 0.6])) == -np.inf


def prior_run(passes_layers, mass=MASS, y=None, draws=2_000):
    """n_nodes and n_edges (chain, draw) of the step with room for four nodes, and a term of the edges if y is given."""
    with pm.Model():
        g = Buffet(
            "g", mass=mass, concentration=BETA, observed_nodes=["a", "b"], passes_layers=passes_layers, max_nodes=4
        )
        if y is not None:
            pm.Normal("y", pt.cast(g.parents.sum(), "float64"), 1.0, observed=y)
        stats = pm.sample(draws, tune=50, chains=2, cores=1, random_seed=3, **QUIET).sample_stats
    return stats["g_n_nodes"].values, stats["g_n_edges"].values


def z_of_run(nodes, edges, passes_layers, weights=1.0):
    """Largest distance of mean counts and of one event from the enumerated law, in standard errors."""
    _, n, e, p = every_graph(passes_layers)
    law = p * weights / (p * weights).sum()
    pairs = [(nodes, n), (edges, e), (edges == 2, e == 2), (nodes == 4, n == 4)]
    found = [z_of(draws, law @ x, law @ x**2 - (law @ x) ** 2) for draws, x in ((d, 1.0 * x) for d, x in pairs)]
    return max(map(abs, found))


@pytest.mark.parametrize("passes_layers", [False, True])
def test_step_has_the_enumerated_prior(passes_layers):
    assert z_of_run(*prior_run(passes_layers), passes_layers) < 4


def test_a_planted_mistake_in_the_mass_is_seen():
    assert z_of_run(*prior_run(True, mass=0.5 * MASS), True) > 6


@pytest.mark.parametrize("passes_layers", [False, True])
def test_terms_of_the_graph_make_the_enumerated_posterior(passes_layers):
    _, _, edges, _ = every_graph(passes_layers)
    run = prior_run(passes_layers, y=3.0)
    assert z_of_run(*run, passes_layers, norm.pdf(3.0, edges)) < 4
    assert z_of_run(*run, passes_layers) > 6  # of the prior


def hyperparameter_run(named):
    with pm.Model() as model:
        mass, beta = pm.Gamma.dist(8, 24), pm.Gamma.dist(6, 6)
        if named:
            mass, beta = pm.Gamma("g_mass", 8, 24), pm.Gamma("g_concentration", 6, 6)
        Buffet("g", mass=mass, concentration=beta, observed_nodes=2, passes_layers=True, max_nodes=40)
        return model, pm.sample(2_000, tune=200, chains=2, cores=1, random_seed=6, **QUIET)


def z_of_hyperparameters(idata):
    """Distance of first and second moments from those of their priors, in standard errors."""
    found = []
    for name, law in (("g_mass", gamma_law(8, scale=1 / 24)), ("g_concentration", gamma_law(6, scale=1 / 6))):
        draws = idata.posterior[name].values
        for power in (1, 2):
            mean = law.moment(power)
            found.append(z_of(draws**power, mean, law.moment(2 * power) - mean**2))
    return max(map(abs, found))


@pytest.mark.parametrize("named", [False, True], ids=["own", "nuts"])
def test_hyperparameters_keep_their_prior_and_graphs_that_of_forward_draws(named):
    model, idata = hyperparameter_run(named)
    assert z_of_hyperparameters(idata) < 4
    with model:
        prior = ps.GraphDraws.from_prior(pm.sample_prior_predictive(3_000, random_seed=1))
    found = ps.GraphDraws.from_idata(idata)
    assert set(found.hyperparameters) == {"mass", "concentration"} == set(prior.hyperparameters)
    counts, edges = (lambda draws: draws.counts), (lambda draws: draws.parents.sum((-1, -2)))
    for of, most in ((counts, 3), (counts, 6), (edges, 6)):  # bounded: the number of nodes has a long tail
        a, b = (np.minimum(of(draws), most).astype(float) for draws in (found, prior))
        error = a.var() / float(np.asarray(az.ess(a))) + b.var() / b.size
        assert abs(a.mean() - b.mean()) < 4 * np.sqrt(error)


def test_a_planted_mistake_in_the_conjugate_draw_is_seen(monkeypatch):
    monkeypatch.setattr(CascadeLaw, "exposure", lambda law, state, prior: 1.5 * dish_exposure(state, prior))
    _, idata = hyperparameter_run(named=False)
    assert z_of_hyperparameters(idata) > 6


def test_mass_is_drawn_from_its_conditional_and_others_are_sliced():
    start = np.eye(5, k=-2, dtype=int)
    with pm.Model() as model:
        Buffet("g", mass=pm.Gamma.dist(3, 2), concentration=BETA, observed_nodes=2, start=start)
        many = {"mass": [pm.Gamma.dist(3, 2), 1.0], "concentration": pm.Gamma.dist(3, 2)}
        Buffet("h", **many, observed_nodes=2)
        own, layered = (
            ps.steps.CascadingIndianBuffetStep([v for v in model.value_vars if v.name.startswith(g)]) for g in "gh"
        )
        point = model.initial_point()
    assert layered.hyperparameters.conjugate is None
    assert [name for name, _ in layered.hyperparameters.sliced] == ["h_mass_1_log__", "h_concentration_log__"]
    rng, state, draws = np.random.default_rng(1), own.access.empty(), np.empty(2_000)
    for s in range(len(draws)):
        own.hyperparameters.update(rng, point, state)
        draws[s] = np.exp(point["g_mass_log__"])
    # the observed nodes are two customers, each of two layers of two has two, of one has one; a last one has one
    exposure = BETA * (2 * (1 / BETA + 1 / (1 + BETA)) + 1 / BETA)
    assert int(state.count[0]) == 5 and sorted(state.reputations[:5]) == [0.0, 0.0, 0.5, 0.5, 2 / 3]
    assert kstest(draws, gamma_law(3 + 3, scale=1 / (2 + exposure)).cdf).pvalue > 1e-3


def network_run(passes_layers=False, rows=40, **arguments):
    X = ring(rows)
    with pm.Model() as model:
        g = Buffet(
            "g",
            mass=pm.Gamma.dist(2, 2),
            concentration=pm.Gamma("beta", 3, 3),
            observed_nodes=list(X),
            passes_layers=passes_layers,
            max_nodes=12,
        )
        ps.NLGBN("data", g, observed=X, scaling=ps.indian_chefs.UnitScaling.from_data(X))
        steps = [ps.steps.NLGBNStep(**arguments)] if arguments else None
        settings = {"tune": 10, "chains": 2, "cores": 1, "random_seed": 1, "step": steps} | QUIET
    return model, settings


@pytest.fixture(scope="module")
def network():
    model, settings = network_run()
    return model, pm.sample(25, model=model, **settings)


def test_networks_record_graphs_of_layers_with_their_log_density(network):
    model, idata = network
    with model:
        steps = pm.sampling.mcmc.instantiate_steppers(model, *pm.sampling.mcmc.assign_step_methods(model))
    assert {type(s).__name__ for s in steps} == {"NLGBNStep", "NUTS"}
    stats, draws = idata.sample_stats, ps.GraphDraws.from_idata(idata)
    total = stats["g_log_prior"] + stats["g_log_likelihood"]
    np.testing.assert_allclose(idata.posterior["g_log_joint"], total, rtol=1e-10)
    assert stats["g_n_nodes"].max() > 2
    for c, s in np.ndindex(draws.counts.shape):
        n, masses = draws.counts[c, s], [draws.hyperparameters["mass"][c, s]]
        state = new_state(np.zeros(2), np.ones(2, bool), 12)
        layers = layers_of(draws.parents[c, s, :n, :n])
        np.testing.assert_array_equal(draws.places[c, s, :n], layers / (1.0 + layers))
        state.parents[:n, :n], state.count[0] = draws.parents[c, s, :n, :n], n
        refresh(state)
        # NUTS moves beta after the network's step has recorded its log density: the step read the draw before
        if s:
            betas = [idata.posterior["beta"].values[c, s - 1]], [idata.posterior["beta"].values[c, s]]
            found = [layered_log_density(state, make_cascade(masses, beta, False)) for beta in betas]
            assert min(abs(f - stats["g_log_prior"].values[c, s]) for f in found) < 1e-9
    post = ps.NLGBNPosterior.from_idata(idata)
    assert post.sample(7, random_seed=1).shape == (7, 2)
    assert np.isfinite(post.log_density(ring(4, seed=3) * 0.8, n_pool=50, random_seed=1)).all()


def test_a_result_reloaded_in_a_new_process_has_the_same_graphs(network, tmp_path):
    _, idata = network
    draws = ps.GraphDraws.from_idata(idata)
    draws.save(tmp_path / "graphs.nc")
    idata.to_netcdf(tmp_path / "idata.nc", engine="h5netcdf")
    code = (
        "import pymc_spn as ps, sys\n"
        "for g in (ps.load(sys.argv[1] + '/graphs.nc'), ps.load(sys.argv[1] + '/idata.nc').graphs):\n"
        "    print(g.schema.prior, g.parents.sum(), g.counts.sum(), float(g.hyperparameters['mass'].sum()).hex())\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    mass = float(idata.posterior["g_mass"].values.sum()).hex()
    want = f"cascading IBP {draws.parents.sum()} {draws.counts.sum()} {mass}"
    assert out.stdout.split("\n")[:2] == [want] * 2


@pytest.mark.parametrize("passes_layers", [False, True])
def test_a_warm_up_starts_from_layers(passes_layers):
    race = ((2, 5, 50), (1, 10, 50))
    model, settings = network_run(passes_layers, start="warm_up", hidden_layers=(4, 2), race=race, births=1)
    idata = pm.sample(2, model=model, **settings | {"tune": 0})
    parents = ps.GraphDraws.from_idata(idata).parents[:, 0]
    layers = [layers_of(one) for one in parents]
    drop = [at[k] - at[i] for one, at in zip(parents, layers, strict=True) for k, i in np.argwhere(one)]
    assert parents.sum() > 10 and (max(drop) > 1) == passes_layers


def test_powers_exchange_states_under_a_cascade():
    model, settings = network_run(True, start="process", powers=(1.0, 0.8))
    idata = pm.sample(8, model=model, **settings)
    assert (idata.sample_stats["data_powers_exchanged"] >= 0).any()
    assert np.isfinite(idata.posterior["g_log_joint"]).all()


def test_one_and_two_processes_agree(network):
    model, settings = network_run()
    two = pm.sample(25, model=model, **settings | {"cores": 2, "mp_ctx": "fork"})
    one, other = recorded(network[1]), recorded(two)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_chains_start_where_they_are_told_and_each_graph_has_its_step():
    start = np.eye(4, k=-2, dtype=bool)
    with pm.Model() as model:
        Buffet("g", mass=0.5, concentration=1.0, observed_nodes=["a", "b"], start=start)
        ps.IndianChefsProcess("h", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
        steps = pm.sampling.mcmc.instantiate_steppers(model, *pm.sampling.mcmc.assign_step_methods(model))
        found = {s.graph_name: type(s).__name__ for s in steps}
        with pytest.raises(ValueError, match="'g' is a cascading IBP, which this step does not move"):
            ps.steps.IndianChefsStep([model["g_log_joint"]])
    assert found == {"g": "CascadingIndianBuffetStep", "h": "IndianChefsStep"}
    count, theta, parents = unpack_arrays(model["g"].owner.op.dist_params(model["g"].owner)[-2].eval(), 32)
    assert count == 4 and (theta[2:4] == 0.5).all() and (parents[:4, :4] == start).all()


BAD = [
    ({"mass": 0.0}, ValueError, "mass must be positive and finite; got 0.0"),
    ({"mass": "1"}, TypeError, "mass must be a positive number"),
    ({"concentration": [1.0, -2.0]}, ValueError, "concentration_2 must be positive and finite; got -2.0"),
    ({"concentration": []}, ValueError, "concentration must hold at least one number"),
    ({"passes_layers": 1}, TypeError, "passes_layers must be True or False; got 1"),
    ({"max_nodes": 1}, ValueError, "max_nodes must be at least the number of observed nodes, 2; got 1"),
    ({"observed_nodes": []}, ValueError, "at least one node"),
    ({"start": "middle"}, ValueError, 'start must be "prior", "empty" or the parents of a graph'),
    ({"start": np.zeros((2, 3))}, ValueError, r"start must be parents \(n, n\) with 2 <= n <= 32; got the shape"),
    ({"start": np.zeros((3, 3))}, ValueError, "start must be a graph of layers: .* a child for each hidden unit"),
    ({"start": np.tri(4, k=-1) * [[0], [0], [1], [1]]}, ValueError, "all children of a unit in one layer"),
    ({"start": 0.5 * np.eye(2)}, ValueError, "start must have parents of 0 and 1"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD)
def test_bad_input_is_refused(settings, error, message):
    defaults = {"mass": 1.0, "concentration": 1.0, "observed_nodes": ["a", "b"]}
    with pm.Model(), pytest.raises(error, match=message):
        Buffet("g", **(defaults | settings))


def test_what_has_no_meaning_is_refused():
    with pm.Model() as model:
        mass = pm.Gamma("mass", 2, 2)
        with pytest.raises(ValueError, match="mass must be a number or a named variable"):
            Buffet("f", mass=2.0 * mass, concentration=1.0, observed_nodes=2)
        with pytest.raises(ValueError, match="mass must be a scalar; 'masses' has 1 dimensions"):
            Buffet("f", mass=pm.Gamma("masses", 2, 2, shape=2), concentration=1.0, observed_nodes=2)
        g = Buffet("g", mass=mass, concentration=1.0, observed_nodes=2)
        for network, observed in ((ps.LinearGaussianNetwork, [[0.1, 2.0]]), (ps.SigmoidBeliefNetwork, [[0, 1]])):
            with pytest.raises(ValueError, match=r"'g' is a cascading IBP, under which ps\.NLGBN alone has moves"):
                network("x", g, observed=np.array(observed))
        ps.NLGBN("x", g, observed=np.array([[0.1, 0.2], [0.4, 0.3]]))
        with pytest.raises(ValueError, match='moves must be "all" under a cascading IBP'):
            ps.steps.NLGBNStep(moves="published")
    for change in (pm.do, pm.observe):
        with pytest.raises(ValueError, match="'g_log_joint' is held fixed"):
            change(model, {"g_log_joint": 0.0}).logp()
    with pm.Model(), pytest.raises(ValueError, match="the model has no graph"):
        ps.steps.CascadingIndianBuffetStep()
    with pm.Model():
        Buffet("g", mass=1.0, concentration=1.0, observed_nodes=2)
        for settings in ({"repeats": 0}, {"sweeps": True}):
            with pytest.raises(ValueError, match=next(iter(settings))):
                ps.steps.CascadingIndianBuffetStep(**settings)
    with pytest.raises(ValueError, match=r"max_nodes = 3 is too small: 10,000 draws with mass = \[9.0\]"):
        pm.draw(Buffet.dist(mass=9.0, concentration=9.0, observed_nodes=2, max_nodes=3), random_seed=1)


def test_popularities_are_of_chefs_and_full_graphs_are_warned_of():
    with pm.Model():
        Buffet("g", mass=1.5, concentration=1.0, observed_nodes=2, max_nodes=3)
        idata = pm.sample(40, tune=5, chains=1, cores=1, random_seed=1, **QUIET)
    assert int(idata.sample_stats["g_n_nodes"].max()) == 3
    with pytest.warns(UserWarning, match="room for max_nodes = 3"):
        draws = ps.GraphDraws.from_idata(idata)
    with pytest.raises(ValueError, match="belong to the Indian chefs process, not to a cascading IBP"):
        draws.popularities()
