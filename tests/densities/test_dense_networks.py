"""Networks as functions of covariates: their formula, the links to leaves, and a regression as the simplest of them."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.densities.dense_networks import dense_network, network_parameters
from pymc_spn.leaves.explicit_leaves import EXPLICIT, SYMBOLS
from tests.modes import PLAIN
from tests.shared_circuits import build, coded

MIXTURE = build([("sum", (1, 2)), *[("leaf", 0, "gaussian")] * 2], ["a"], ("gaussian",))
X = np.random.default_rng(0).normal(size=(7, 2))


def evaluated(tensors, model, **values):
    """Tensors under given values of the model's variables; of the others, at zero."""
    shapes = {rv: model.eval_rv_shapes()[rv.name] for rv in model.free_RVs}
    given = {rv: np.asarray(values.get(rv.name, np.zeros(shape))) for rv, shape in shapes.items()}
    tensors = [pt.as_tensor_variable(t) for t in tensors]
    return [t.eval(given, mode=PLAIN, on_unused_input="ignore") for t in tensors]


@pytest.mark.parametrize(
    "activation, function", [("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0)), (pt.sin, np.sin)]
)
def test_a_network_is_its_formula(activation, function):
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        out = ps.circuits.dense_network("net", pm.Data("x", X), 3, hidden=(4, 5), activation=activation, sigma=2.0)
    shapes = model.eval_rv_shapes()
    values = {rv.name: rng.normal(size=shapes[rv.name]) for rv in model.free_RVs}
    w, b = ([values[f"net_{kind}_{i}"] for i in range(3)] for kind in ("weights", "biases"))
    expected = function(function(X @ w[0] + b[0]) @ w[1] + b[1]) @ w[2] + b[2]
    np.testing.assert_allclose(evaluated([out], model, **values)[0], expected, rtol=1e-12)
    sds = [2.0 / np.sqrt(n) for n in (2, 4, 5)]
    prior = sum(stats.norm.logpdf(w[i], 0, sds[i]).sum() + stats.norm.logpdf(b[i], 0, 2.0).sum() for i in range(3))
    logp = model.compile_logp(mode=PLAIN)(values)
    assert logp == pytest.approx(prior, rel=1e-12)


def table_of(family, rng, n=50):
    """A column that the family can take, with a missing cell."""
    x = {
        "bernoulli": rng.integers(0, 2, n),
        "beta": rng.beta(2.0, 3.0, n),
        "poisson": rng.poisson(4.0, n),
        "geometric": rng.poisson(4.0, n),
        "negative_binomial": rng.poisson(4.0, n),
        "beta_geometric": rng.poisson(4.0, n),
    }.get(family, rng.gamma(3.0, 20.0, n)).astype(float)
    x[3] = np.nan
    return x


@pytest.mark.parametrize("family", sorted(name for name, symbols in SYMBOLS.items() if symbols.link is not None))
def test_every_leaf_is_valid_and_at_its_columns_place_where_outputs_are_zero(family):
    rng = np.random.default_rng(2)
    x = table_of(family, rng)
    circuit = build([("sum", (1, 2, 3)), *[("leaf", 0, family)] * 3], ["a"], (family,))
    with pm.Model() as model:
        made = ps.circuits.network_parameters("net", circuit, X, observed=x[:, None], hidden=(3,))
        unscaled = ps.circuits.network_parameters("other", circuit, X, hidden=())
    shapes = model.eval_rv_shapes()
    random = {rv.name: rng.normal(size=shapes[rv.name]) for rv in model.free_RVs}
    of_leaves = [made["leaf_parameters"][family], unscaled["leaf_parameters"][family]]
    zero, plain, own, _ = *evaluated(of_leaves, model), *evaluated(of_leaves, model, **random)
    assert own.shape[:2] == (7, 3) and EXPLICIT[family].problem(own.reshape(21, -1)) is None
    assert len(np.unique(own[..., 0])) == 21
    seen = x[~np.isnan(x)]
    if family in ("log_normal", "log_student_t"):
        place, expected, at = zero[0, 0, :2], [np.log(seen).mean(), np.log(seen).std()], [0.0, 1.0]
    elif family in ("gaussian", "laplace", "student_t"):
        place, expected, at = zero[0, 0, :2], [seen.mean(), seen.std()], [0.0, 1.0]
    elif family in ("beta", "bernoulli"):
        place, expected, at = EXPLICIT[family].mean(zero[0, 0]), (seen.sum() + 0.5) / (seen.size + 1.0), 0.5
    else:
        place, expected, at = EXPLICIT[family].mean(zero[0, 0]), seen.mean(), 1.0
    np.testing.assert_allclose(place, expected, rtol=1e-12)
    np.testing.assert_allclose(plain[0, 0, :2] if np.ndim(at) else EXPLICIT[family].mean(plain[0, 0]), at, rtol=1e-12)


def test_weights_are_softmaxes_of_their_sums_and_levels_have_their_shares():
    """Sums of one, two and three children, two columns of two and three levels, a family with parameters of its own."""
    nodes = [("sum", (1, 2, 3)), *[("product", (4 + 3 * i, 5 + 3 * i, 6 + 3 * i)) for i in range(3)]]
    nodes += [("sum", (13, 14)), ("leaf", 1, "categorical"), ("leaf", 2, "uniform")]
    nodes += [("sum", (15,)), ("leaf", 1, "categorical"), ("leaf", 2, "uniform")]
    nodes += [("leaf", 0, "categorical"), ("leaf", 1, "categorical"), ("leaf", 2, "uniform")]
    nodes += [("leaf", 0, "categorical")] * 3
    ends = np.tile([0.0, 10.0], (3, 1))
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.integers(0, 2, 30), rng.integers(0, 2, 30), rng.uniform(0, 10, 30)])
    a = pd.Categorical.from_codes(values[:, 0].astype(int), ["p", "q", "r"])
    frame = pd.DataFrame({"a": a, "b": values[:, 1] == 1, "c": values[:, 2]})
    circuit = build(nodes, ps.Table.from_frame(frame).columns, ("categorical", "uniform"))
    with pm.Model() as model:
        made = ps.circuits.network_parameters(
            "net", circuit, X, observed=frame, hidden=(), leaf_parameters={"uniform": ends}
        )
    assert made["leaf_parameters"]["uniform"] is ends
    shapes = model.eval_rv_shapes()
    random = {rv.name: rng.normal(size=shapes[rv.name]) for rv in model.free_RVs}
    tensors = [made["log_weights"], made["leaf_parameters"]["categorical"]]
    (logs, levels), (flat, shares) = evaluated(tensors, model, **random), evaluated(tensors, model)
    outputs = X @ random["net_weights_0"] + random["net_biases_0"]
    several = [0, 1, 2, 3, 4]  # the edge below the sum of one child takes no output
    np.testing.assert_allclose(logs[:, :3], outputs[:, :3] - logsumexp(outputs[:, :3], axis=1, keepdims=True))
    np.testing.assert_allclose(
        logs[:, several[3:]], outputs[:, 3:5] - logsumexp(outputs[:, 3:5], axis=1, keepdims=True)
    )
    np.testing.assert_array_equal(logs[:, 5], 0.0)
    np.testing.assert_allclose(flat[0], np.log([1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2, 1.0]))
    column = circuit.leaf_column[circuit.leaves_of("categorical")]
    counts = [np.bincount(values[:, d].astype(int), minlength=k) + 1 / k for d, k in ((0, 3), (1, 2))]
    np.testing.assert_allclose(shares[0, column == 0][0], counts[0] / 31, rtol=1e-12)
    np.testing.assert_allclose(shares[0, column == 1][0], [*counts[1] / 31, 0.0], rtol=1e-12)
    np.testing.assert_allclose(levels.sum(axis=2), 1.0)
    expected = [
        circuit.with_parameters(logs[n], {"categorical": levels[n], "uniform": ends})
        .log_density(coded(circuit, values[[n]]))
        .values[0]
        for n in range(7)
    ]
    with pm.Model() as model:
        given = {k: pt.as_tensor_variable(v) for k, v in (("w", logs), ("l", levels))}
        rows = ps.CircuitDensity(
            "rows", circuit, given["w"], {"categorical": given["l"], "uniform": ends}, observed=frame[:7]
        )
    np.testing.assert_allclose(pm.logp(rows, values[:7]).eval(mode=PLAIN), expected, rtol=1e-12)


def test_one_linear_layer_below_one_leaf_is_a_regression_of_mean_and_deviation():
    y = 3.0 + 2.0 * np.random.default_rng(4).normal(size=(7, 1))
    leaf = build([("leaf", 0, "gaussian")], ["a"], ("gaussian",))
    with pm.Model() as model:
        ps.CircuitDensity(
            "rows", leaf, **ps.circuits.network_parameters("net", leaf, X, observed=y, hidden=()), observed=y
        )
    start = model.initial_point(random_seed=1)
    assert np.any(start["net_weights_0"] != 0.0)  # so that units do not begin alike
    logp, gradient = model.compile_logp(mode=PLAIN), model.compile_dlogp(mode=PLAIN)
    outputs = X @ start["net_weights_0"] + start["net_biases_0"]
    mean, sd = y.mean() + y.std() * outputs[:, 0], y.std() * np.exp(outputs[:, 1])
    expected = stats.norm.logpdf(y[:, 0], mean, sd).sum()
    expected += stats.norm.logpdf(start["net_weights_0"], 0, 1 / np.sqrt(2)).sum()
    expected += stats.norm.logpdf(start["net_biases_0"]).sum()
    assert logp(start) == pytest.approx(expected, rel=1e-12)
    step = 1e-6 * np.random.default_rng(5).normal(size=(2, 2))
    moved = [logp({**start, "net_weights_0": start["net_weights_0"] + sign * step}) for sign in (1, -1)]
    slope = gradient(start)[: step.size] if model.free_RVs[0].name == "net_weights_0" else gradient(start)[-step.size :]
    assert (moved[0] - moved[1]) / 2 == pytest.approx(slope @ step.ravel(), rel=1e-5)


def test_covariates_of_predictions_and_of_batches_take_the_place_of_those_learned_from():
    y = np.random.default_rng(6).normal(size=(7, 1))
    with pm.Model():
        x = pm.Data("x", X)
        net = ps.circuits.network_parameters("net", MIXTURE, x, observed=y, hidden=(3,))
        ps.CircuitDensity("rows", MIXTURE, **net, observed=y)
        prior = pm.sample_prior_predictive(2, random_seed=1, compile_kwargs={"mode": PLAIN})
        pm.set_data({"x": X[:3]})
        new = pm.sample_posterior_predictive(
            prior.prior, predictions=True, random_seed=2, progressbar=False, compile_kwargs={"mode": PLAIN}
        ).predictions["rows"]
    assert prior.prior_predictive["rows"].shape == (1, 2, 7, 1) and new.shape == (1, 2, 3, 1)
    assert np.all(np.isfinite(new))
    with pm.Model() as model:
        batch = pm.Minibatch(X, y, batch_size=4)
        net = ps.circuits.network_parameters("net", MIXTURE, batch[0], observed=y, hidden=(3,))
        ps.CircuitDensity("rows", MIXTURE, **net, observed=batch[1], total_size=7)
    assert np.isfinite(model.compile_logp(mode=PLAIN)(model.initial_point(random_seed=3)))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: dense_network(1, X, 1), TypeError, "name must be a string, got 1"),
        (lambda: dense_network("n", X[0], 1), ValueError, r"inputs must have shape \(rows, n_inputs\), got 1 dim"),
        (lambda: dense_network("n", [[0.0], [np.inf]], 1), ValueError, "finite, got inf at row 1, column 0"),
        (lambda: dense_network("n", pt.matrix(), 1), ValueError, "inputs must have a known number of columns"),
        (lambda: dense_network("n", X, 0), ValueError, "n_outputs must hold whole numbers of at least 1, got 0"),
        (lambda: dense_network("n", X, 1, hidden=(4, 2.5)), ValueError, "hidden must hold whole .* got 2.5"),
        (lambda: dense_network("n", X, 1, activation="elu"), ValueError, "activation must be among .* got 'elu'"),
        (lambda: dense_network("n", X, 1, sigma=-1.0), ValueError, "sigma must be positive and finite, got -1.0"),
        (lambda: network_parameters("n", "tree", X), TypeError, "circuit must be a ps.Circuit; got str"),
        (
            lambda: network_parameters("n", MIXTURE, X, leaf_parameters={"gamma": []}),
            ValueError, r"among \('gaussian',\), got 'gamma'",
        ),
        (
            lambda: network_parameters("n", build([("leaf", 0, "uniform")], ["a"], ("uniform",)), X),
            ValueError, "leaf_parameters must hold the family 'uniform', which has no link",
        ),
        (
            lambda: network_parameters("n", build([("leaf", 0, "categorical")], ["a"], ("categorical",)), X),
            ValueError, "circuit must tell the levels of column 'a'",
        ),
        (
            lambda: network_parameters(
                "n", build([("leaf", 0, "uniform")], ["a"], ("uniform",)), X, leaf_parameters={"uniform": [[0, 1]]}
            ),
            ValueError, "leaf_parameters must leave something to the network",
        ),
        (lambda: network_parameters("n", MIXTURE, X, observed=X), ValueError, r"observed must have shape"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, message):
    with pm.Model(), pytest.raises(error, match=message):
        call()


def test_a_network_needs_a_model():
    with pytest.raises(TypeError, match="No model on context stack"):
        ps.circuits.dense_network("n", X, 1)
