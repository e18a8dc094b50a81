"""`CircuitDensity` in PyTensor's JAX mode: value and gradient against the Numba kernels, and NUTS by NumPyro."""

import subprocess
import sys

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.layers import layers_of
from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.densities.circuit_ops import circuit_rows, circuit_rows_and_gradient
from tests.densities.density_problems import problem
from tests.modes import PLAIN
from tests.random_circuits import random_circuit
from tests.shared_circuits import DENSITIES, WITH_A_FORMULA, build, crossed_circuit

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

ROUNDING = {"rtol": 1e-10, "atol": 1e-11}  # of either pass, and of two ways to write the gamma functions
COUNTS = ("poisson", "geometric", "negative_binomial", "beta_geometric", "binomial")
GROUPS = (DENSITIES, COUNTS, ("hypergeometric", "beta_binomial"), ("bernoulli",), ("categorical",))
OUTSIDE = {
    DENSITIES: [(1, -0.1), (2, np.nan), (3, np.inf), (-1, -100.0)],  # the last parameter is a beta leaf's
    COUNTS: [(0, 0.0), (0, np.nan), (-2, 4.5), (-1, 1.0)],  # the last two are the number and the probability of trials
    ("hypergeometric", "beta_binomial"): [(0, 0.0), (0, 3.5), (1, -1.0), (2, 1e6), (-1, np.nan), (-2, 0.0), (-3, 4.5)],
    ("bernoulli",): [(0, -0.1), (0, 1.1), (0, np.nan)],
    ("categorical",): [(0, -0.1), (1, np.inf)],
}


def in_jax(packed):
    """Values, log weights, leaf parameters and a cotangent to rows and their gradient, compiled by PyTensor for JAX."""
    inputs = [pt.dmatrix("values"), pt.dvector("log_weights"), pt.dvector("theta"), pt.dvector("cotangent")]
    return pytensor.function(inputs, circuit_rows_and_gradient(packed, *inputs), mode="JAX", trust_input=True)


def assert_agree(found, expected, **allowed):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **(allowed or ROUNDING))


def test_every_family_is_in_a_group():
    assert sorted(f for group in GROUPS for f in group) == sorted(WITH_A_FORMULA)


def test_leaves_over_several_columns_are_refused():
    pair = ps.circuits.leaf(("a", "b"), "multivariate_gaussian[2]", [0.0, 0.0, 1.0, 0.5, 0.5, 2.0])
    given = ps.circuits.mixture_of([pair], weights=[1.0])
    with pm.Model() as model:
        ps.CircuitDensity("x", given.circuit, given.log_weights, given.leaf_parameters)
    with pytest.raises(NotImplementedError, match="leaves over several columns does not run in JAX"):
        model.compile_logp(mode="JAX")


@pytest.mark.parametrize("families", GROUPS, ids=lambda families: families[0])
def test_value_and_gradient_are_those_of_the_kernels(families):
    """With gaps, outliers, rows of density zero, weights of zero, and parameters out of their bounds."""
    circuit, log_weights, _, flat, packed, values = problem(families, n_rows=12)
    values[0] = np.nan
    if families == DENSITIES:
        values[1] = [60.0, 0.5, 1e-9]  # 40 standard deviations and more
        values[2] = [-60.0, 1e4, 2.0]
        values[3] = np.inf
    elif families[0] in ("hypergeometric", COUNTS[0]):
        values[1] = [300.0, 0.0, 2.0]
        values[2] = [0.5, 1.0, 1.0]
    else:
        values[1] = [3.0, 0.0, 0.0]
    cotangent = np.random.default_rng(1).normal(size=len(values))
    run = in_jax(packed)
    expected = rows_and_gradient_of(packed, values, log_weights, flat.theta, cotangent)
    found = run(values, log_weights, flat.theta, cotangent)
    assert_agree(found, expected)
    assert np.isneginf(found[0]).any() and np.isfinite(found[0]).sum() >= 10

    certain = np.where(circuit.edge_sum == 0, -np.inf, log_weights)
    certain[1] = 0.0
    arguments = values, certain, flat.theta, cotangent
    assert_agree(run(*arguments), rows_and_gradient_of(packed, *arguments))

    rows, *gradients = run(values, log_weights + 1e-3, flat.theta, cotangent)
    assert np.isneginf(rows).all() and not any(g.any() for g in gradients)
    for at, value in OUTSIDE[families]:
        theta = flat.theta.copy()
        theta[at] = value
        rows, *gradients = run(values, log_weights, theta, cotangent)
        assert np.isneginf(rows).all() and not any(g.any() for g in gradients)
        assert_agree([rows, *gradients], rows_and_gradient_of(packed, values, log_weights, theta, cotangent))


def test_a_random_tree_agrees():
    rng = np.random.default_rng(1)
    circuit, log_weights, parameters = random_circuit(rng, 5, mixed=True)
    flat = flatten(circuit, parameters)
    packed = pack(compile_circuit(circuit).layout, 5, flat.begin, flat.width)
    values = circuit.with_parameters(log_weights, parameters).sample(20, random_seed=1).to_numpy(copy=True)
    values[rng.random(values.shape) < 0.2] = np.nan
    arguments = values, log_weights, flat.theta, rng.normal(size=20)
    assert_agree(in_jax(packed)(*arguments), rows_and_gradient_of(packed, *arguments))


@pytest.mark.parametrize(
    ("family", "row"),
    [
        ("laplace", [0.5, 2.0]),
        ("triangular", [0.5, 1.0, 3.0]),
        ("triangular", [0.5, 0.5, 1.0]),
        ("triangular", [0, 1, 1]),
    ],
)
def test_one_leaf_is_a_circuit(family, row):
    """At and between its corners, too, and beyond."""
    circuit = build([("leaf", 0, family)], ["a"], (family,))
    flat = flatten(circuit, {family: np.array([row], float)})
    packed = pack(compile_circuit(circuit).layout, 1, flat.begin, flat.width)
    values = np.array([[1.0], [np.nan], [0.5], [0.7], [2.0], [3.0], [-1.0]])
    arguments = values, np.empty(0), flat.theta, np.ones(len(values))
    assert_agree(in_jax(packed)(*arguments), rows_and_gradient_of(packed, *arguments))


def test_children_of_a_tree_lie_side_by_side():
    """And sums over the same children in one region, whatever the order of the children."""
    tree = complete_tree(["a", "b", "c", "d"], n_children=3).circuit({d: ["gaussian"] for d in "abcd"})
    layers = layers_of(compile_circuit(tree).layout).layers
    assert len(layers) == 5 and sum(layer.child.size for layer in layers) == tree.n_nodes - 1
    for layer in layers:
        np.testing.assert_array_equal(layer.child.ravel(), np.arange(layer.child.size))
    shared = build(
        [("sum", (1, 2)), ("product", (3, 5)), ("product", (4, 6)), ("sum", (7, 8)), ("sum", (8, 7)), ("sum", (9, 10)),
         ("leaf", 1, "gaussian"), *[("leaf", 0, "gaussian")] * 2, *[("leaf", 1, "gaussian")] * 2],
        ["a", "b"], ("gaussian",),
    )  # fmt: skip
    edges = [layer.edge.shape for layer in layers_of(compile_circuit(shared).layout).layers if layer.edge.min() >= 0]
    assert sorted(edges) == [(1, 1, 2), (1, 1, 2), (1, 2, 2)]
    assert len(layers_of(compile_circuit(crossed_circuit(4, 3, 3)).layout).layers) == 4


def test_sums_that_underflow_run_edge_by_edge():
    """The largest child has no weight in the second sum: divided by it, the other one is exp(-900)."""
    from pymc_spn.circuits.evaluation.jax_pass import by_edges, by_regions

    below = jnp.array([[[0.0, -3.0], [-900.0, -2.0]]])
    log_weights = jnp.log(jnp.array([[[0.3, 0.7], [0.0, 1.0]]])).clip(-1e300)

    def value_and_gradient(f):
        return f(below, log_weights), jax.grad(lambda b: f(b, log_weights)[0, 1].sum())(below)

    found, expected = value_and_gradient(by_regions), value_and_gradient(by_edges)
    assert_agree(found, expected)
    assert found[0][0, 1, 0] == -900.0
    np.testing.assert_allclose(found[1], [[[0.0, 0.0], [1.0, 1.0]]], rtol=0, atol=1e-15)
    both = jax.vmap(by_regions)(jnp.stack([below, below]), jnp.stack([log_weights, log_weights]))  # runs both ways
    np.testing.assert_array_equal(both[1], found[0])


def test_single_precision():
    """What JAX makes of it without its 64 bits: 24 of them, and terms of up to a thousand that cancel."""
    from pymc_spn.circuits.evaluation.jax_pass import log_densities_in_jax

    _, log_weights, _, flat, packed, values = problem(("gaussian", "exponential"))
    values[2, 0] = -60.0
    values[3] = np.inf
    expected = rows_and_gradient_of(packed, values, log_weights, flat.theta, np.ones(len(values)))
    with jax.enable_x64(False):
        rows, pull_back = jax.vjp(jax.jit(log_densities_in_jax(packed)), values, log_weights, flat.theta)
        grad_values, grad_weights, grad_theta = pull_back(jnp.ones_like(rows))
    assert rows.dtype == np.float32
    assert_agree([rows, grad_weights, grad_theta, grad_values], expected, rtol=1e-4, atol=1e-4)


def test_the_layout_must_be_a_constant():
    packed, values = pt.lvector("packed"), pt.dmatrix("values")
    with pytest.raises(ValueError, match="the packed layout of a circuit must be a constant of the graph, got packed"):
        pytensor.function([packed, values], circuit_rows(packed, values, np.empty(0), np.zeros(2)), mode="JAX")


@pytest.fixture(scope="module")
def mixture():
    """Two known Gaussians with an unknown weight, 40 rows: the model, and the weight's mean and deviation on a grid."""
    x = np.random.default_rng(0).normal(size=(40, 1)) + 2.0 * (np.arange(40) < 12)[:, None]
    x[5] = np.nan
    circuit = build([("sum", (1, 2)), *[("leaf", 0, "gaussian")] * 2], ["a"], ("gaussian",))
    with pm.Model() as model:
        log_weights = ps.circuits.dirichlet_log_weights(circuit, 1.0, "w")
        ps.CircuitDensity("x", circuit, log_weights, {"gaussian": [[0.0, 1.0], [2.0, 1.0]]}, observed=x)
    w = (np.arange(20_000) + 0.5) / 20_000
    first, second = (stats.norm.logpdf(np.delete(x, 5, axis=0), m, 1.0) for m in (0.0, 2.0))
    logs = np.logaddexp(np.log(w) + first, np.log1p(-w) + second).sum(axis=0)
    p = np.exp(logs - logs.max())
    mean = p @ w / p.sum()
    return model, mean, np.sqrt(p @ (w - mean) ** 2 / p.sum())


def test_a_model_has_the_same_log_density_in_both_modes(mixture):
    model, *_ = mixture
    point = {k: v + 0.3 for k, v in model.initial_point().items()}
    for compile_one in (model.compile_logp, model.compile_dlogp):
        np.testing.assert_allclose(compile_one(mode="JAX")(point), compile_one(mode=PLAIN)(point), **ROUNDING)


def test_nuts_of_numpyro_finds_the_exact_posterior(mixture):
    pytest.importorskip("numpyro")
    model, mean, deviation = mixture
    with model:
        idata = pm.sample(
            1_000, tune=500, chains=1, nuts_sampler="numpyro", random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    w = idata.posterior["w"].values[..., 0, 0]
    error = deviation / np.sqrt(float(az.ess(w, chain_axis=0, draw_axis=1)))
    assert error < 0.1 * deviation
    assert abs(w.mean() - mean) < 4.5 * error  # a normal score exceeds it once in 150,000 runs
    assert w.std() == pytest.approx(deviation, rel=0.2)


def test_default_mode_does_not_load_jax():
    code = (
        "import sys, numpy as np, pymc as pm, pymc_spn as ps\n"
        "circuit = ps.circuits.complete_tree(['a'], n_children=2).circuit({'a': ['gaussian']})\n"
        "with pm.Model() as model:\n"
        "    parameters = {'gaussian': np.ones((2, 2))}\n"
        "    log_weights = ps.circuits.dirichlet_log_weights(circuit)\n"
        "    ps.CircuitDensity('x', circuit, log_weights, parameters, observed=np.zeros((1, 1)))\n"
        f"model.compile_logp(mode={PLAIN!r})(model.initial_point())\n"
        "assert not any(m == 'jax' or m.startswith('jax.') for m in sys.modules)\n"
        "model.compile_logp(mode='JAX')\n"
        "assert 'jax' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
