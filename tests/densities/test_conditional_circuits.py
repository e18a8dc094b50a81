"""`CircuitDensity` with parameters of each row's own: rows against the circuit under their own."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import expit

import pymc_spn as ps
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.evaluation.rowwise_parameters import rows_and_gradient_given, rows_given
from pymc_spn.densities.circuit_ops import circuit_rows
from tests.densities.density_problems import problem
from tests.modes import PLAIN, REWRITTEN
from tests.shared_circuits import APART, APART_PARAMETERS, build, random_parameters

LEAF = build([("leaf", 0, "gaussian")], ["a"], ("gaussian",))
MIXTURE = build([("sum", (1, 2)), *[("leaf", 0, "gaussian")] * 2], ["a"], ("gaussian",))
REAL = ("gaussian", "gamma", "student_t", "log_normal")
HALF = np.float64(0.5)  # of a Python float PyTensor takes the log in single precision
ROUNDING = {"rtol": 1e-12, "atol": 1e-12}


def conditional(families, n_rows=40):
    """A circuit with shared nodes, (log weights, parameters, flat parameters) of each row, its layout, rows with gaps.

    One row is far off, one has density zero, and one has no cell.
    """
    circuit, _, _, _, packed, values = problem(families, n_rows=n_rows)
    rng = np.random.default_rng(3)
    given = [random_parameters(circuit, rng) for _ in range(n_rows)]
    given = [(*own, flatten(circuit, own[1]).theta) for own in given]
    values[2], values[3], values[4] = (1e4 if families == REAL else 60.0), np.inf, np.nan
    return circuit, given, packed, values


@pytest.mark.parametrize("families", [REAL, ("poisson", "categorical")], ids=lambda families: families[0])
def test_each_row_has_the_density_and_gradient_of_its_own_parameters(families):
    """Also where weights or leaves alone are each row's own: then the gradient in the others is a sum over rows."""
    circuit, given, packed, values = conditional(families)
    weights, theta = np.stack([w for w, _, _ in given]), np.stack([t for _, _, t in given])
    cotangent = np.random.default_rng(1).normal(size=len(values))
    for of_rows in [(True, True), (True, False), (False, True)]:
        w = weights if of_rows[0] else weights[0]
        t = theta if of_rows[1] else theta[0]
        of = [(given[n * of_rows[0]], given[n * of_rows[1]]) for n in range(len(values))]
        expected = [
            circuit.with_parameters(a[0], b[1]).log_density(values[[n]]).values[0] for n, (a, b) in enumerate(of)
        ]
        rows, grad_weights, grad_theta, grad_values = rows_and_gradient_given(packed, values, w, t, cotangent)
        np.testing.assert_allclose(rows, expected, **ROUNDING)
        np.testing.assert_array_equal(rows_given(packed, values, w, t), rows)
        assert np.isneginf(rows[3]) and rows[4] == pytest.approx(0.0, abs=1e-12) and np.isfinite(rows).sum() == 39
        _, *alone = zip(
            *(rows_and_gradient_of(packed, values[[n]], a[0], b[2], cotangent[[n]]) for n, (a, b) in enumerate(of)),
            strict=True,
        )
        assert np.abs(alone[0]).max() > 0.1 and np.abs(alone[1]).max() > 0.1
        np.testing.assert_allclose(grad_weights, np.sum(alone[0], axis=0) if w.ndim == 1 else alone[0], **ROUNDING)
        np.testing.assert_allclose(grad_theta, np.sum(alone[1], axis=0) if t.ndim == 1 else alone[1], **ROUNDING)
        np.testing.assert_allclose(grad_values, np.vstack(alone[2]), **ROUNDING)


def test_rows_that_linear_space_would_lose_run_in_logs():
    """Each of three rows has moved components; the second is lost with those of all rows, too."""
    log_weights, parameters = APART_PARAMETERS
    leaves = np.stack([parameters["gaussian"] + [[move, 0.0]] for move in (0.0, 1.0, -2.0)])
    values = np.array([[-40.0, -39.5], [-40.0, 40.0], [np.nan, 0.5]])
    packed = pack(compile_circuit(APART).layout, 2, np.array([0]), np.array([2]))
    arguments = values, np.tile(log_weights, (3, 1)), leaves.reshape(3, -1), np.array([1.0, 2.0, 0.5])
    found = rows_and_gradient_given(packed, *arguments)
    assert found[0][1] < -1_000.0
    for n in range(3):
        alone = rows_and_gradient_of(packed, *(a[n] if a.ndim == 2 and a is not values else a[[n]] for a in arguments))
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(one[n], other.reshape(one[n].shape), **ROUNDING)
        assert found[0][n] == pytest.approx(
            APART.with_parameters(log_weights, {"gaussian": leaves[n]}).log_density(values[[n]]).values[0]
        )


def test_invalid_parameters_of_a_row_take_its_density_alone():
    _, given, packed, values = conditional(REAL)
    weights, theta = np.stack([w for w, _, _ in given]), np.stack([t for _, _, t in given])
    expected = rows_and_gradient_given(packed, values, weights, theta, np.ones(40))
    weights[0] += 1e-3
    theta[7, 1] = -1.0  # scale of a Gaussian leaf
    weights[8, 0] = np.nan
    lost, kept = [0, 7, 8], np.setdiff1d(np.arange(40), [0, 7, 8])
    rows, *gradients = rows_and_gradient_given(packed, values, weights, theta, np.ones(40))
    assert np.isneginf(rows[lost]).all() and not any(g[lost].any() for g in gradients)
    for found, other in zip([rows, *gradients], expected, strict=True):
        np.testing.assert_array_equal(found[kept], other[kept])
    np.testing.assert_array_equal(rows_given(packed, values, weights, theta), rows)
    assert rows_given(packed, values[:0], weights[:0], theta[:0]).shape == (0,)
    of_all = theta[7]
    assert np.isneginf(rows_given(packed, values, weights, of_all)).all()


def test_a_model_takes_numbers_and_tensors_of_each_row_beside_those_of_all():
    circuit, given, _, values = conditional(REAL)
    leaves = {f: np.stack([own[1][f] for own in given]) for f in circuit.families} | {"gamma": given[0][1]["gamma"]}
    weights = np.stack([w for w, _, _ in given])
    expected = [circuit.with_parameters(own[0], own[1] | {"gamma": leaves["gamma"]}).log_density(values[[n]]).values[0]
                for n, own in enumerate(given)]  # fmt: skip
    with pm.Model() as model:
        of_student = leaves["student_t"]
        tensors = leaves | {"student_t": pytensor.shared(of_student, shape=(None, *of_student.shape[1:]))}
        ps.CircuitDensity("numbers", circuit, weights, leaves, observed=values)
        ps.CircuitDensity("tensors", circuit, pt.as_tensor(weights), tensors, observed=pytensor.shared(values))
    for found in model.compile_logp(sum=False, mode=PLAIN)({}):
        np.testing.assert_allclose(found, expected, **ROUNDING)
    assert list(model.coords["numbers_row"]) == list(range(40))


def gated(x, weight, slope):
    """Log weights (N, 2) of a gating network, locations (N, 2), and leaf parameters (N, 2, 2)."""
    score = x @ weight
    log_weights = -pt.softplus(pt.stack([-score, score], axis=1))
    location = pt.tanh(x @ slope)
    return log_weights, location, pt.stack([location, pt.full_like(location, 0.5)], axis=2)


def test_a_gating_network_is_the_mixture_of_pymc():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 1))
    found = []
    for build_likelihood in (
        lambda w, mu, leaves: ps.CircuitDensity("y", MIXTURE, w, {"gaussian": leaves}, observed=y),
        lambda w, mu, leaves: pm.Mixture("y", pt.exp(w), pm.Normal.dist(mu, HALF), observed=y[:, 0]),
    ):
        with pm.Model() as model:
            build_likelihood(*gated(x, pm.Normal("weight", shape=3), pm.Normal("slope", shape=(3, 2))))
        point = {"weight": np.array([0.3, -1.0, 2.0]), "slope": np.arange(6.0).reshape(3, 2) - 2.5}
        found.append((model.compile_logp(mode=PLAIN)(point), model.compile_dlogp(mode=REWRITTEN)(point)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-10)


def regression(x, y):
    """One Gaussian leaf, its location linear in covariates, with a standard deviation of 0.5."""
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        location = pm.Data("covariates", x) @ beta
        leaves = pt.stack([location, pt.full_like(location, 0.5)], axis=1)[:, None, :]
        ps.CircuitDensity("y", LEAF, [], {"gaussian": leaves}, observed=y)
    return model


def test_nuts_finds_the_posterior_of_a_linear_regression_and_predicts_new_rows():
    """Against the conjugate normal posterior, five standard errors by the effective number of draws, at least 500."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(25, 2))
    y = (x @ [0.7, -1.2] + 0.5 * rng.normal(size=25))[:, None]
    new = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])
    cov = np.linalg.inv(np.eye(2) + x.T @ x / 0.25)
    mean = cov @ x.T @ y[:, 0] / 0.25
    fast = {"random_seed": 1, "progressbar": False, "compile_kwargs": {"mode": PLAIN}}
    with regression(x, y):
        idata = pm.sample(700, tune=300, chains=2, cores=1, nuts_sampler="pymc", **fast)
        pm.set_data({"covariates": new})
        drawn = pm.sample_posterior_predictive(idata, predictions=True, **fast).predictions["y"]
    beta = idata.posterior["beta"].values
    for k in range(2):
        ess = float(az.ess(beta[..., k], chain_axis=0, draw_axis=1))
        assert ess > 500
        assert abs(beta[..., k].mean() - mean[k]) < 5.0 * np.sqrt(cov[k, k] / ess)
        assert beta[..., k].std() == pytest.approx(np.sqrt(cov[k, k]), rel=5.0 / np.sqrt(2 * 500))
    assert drawn.dims == ("chain", "draw", "y_row", "y_column") and drawn.shape == (2, 700, 3, 1)
    deviation = np.sqrt(np.einsum("nd,de,ne->n", new, cov, new) + 0.25)
    errors = drawn.values[..., 0].mean((0, 1)) - new @ mean
    assert (np.abs(errors) < 5.0 * deviation / np.sqrt(500)).all()
    np.testing.assert_allclose(drawn.values[..., 0].std((0, 1)), deviation, rtol=5.0 / np.sqrt(2 * 500))


def test_each_row_is_drawn_from_its_own_parameters():
    x = np.array([[-2.0], [0.0], [1.0], [3.0]])
    score, slope = np.array([0.8]), np.array([[1.0, -2.0]])
    expected = expit(x @ score) * np.tanh(x)[:, 0] + expit(-x @ score) * np.tanh(-2.0 * x)[:, 0]
    with pm.Model():
        log_weights, _, leaves = gated(pm.Data("x", x[:2]), score, slope)
        ps.CircuitDensity("y", MIXTURE, log_weights, {"gaussian": leaves}, observed=np.zeros((2, 1)))
        free = ps.CircuitDensity("free", MIXTURE, log_weights, {"gaussian": leaves})
        pm.set_data({"x": x})
        drawn = pm.sample_prior_predictive(2_000, random_seed=1, compile_kwargs={"mode": PLAIN})
    for draws in (drawn.prior_predictive["y"].values[0], drawn.prior["free"].values[0]):
        assert draws.shape == (2_000, 4, 1)
        errors = draws[..., 0].mean(0) - expected
        assert (np.abs(errors) < 5.0 * draws[..., 0].std(0) / np.sqrt(2_000)).all()
    assert free.type.shape == (None, 1)


def test_rows_that_are_not_observed_start_at_their_own_means_and_have_a_gradient():
    nodes = [("product", (1, 2)), ("leaf", 0, "gaussian"), ("leaf", 1, "gamma")]
    circuit = build(nodes, ["a", "b"], ("gaussian", "gamma"))
    leaves = {"gaussian": [[[1.0, 1.0]], [[-3.0, 2.0]]], "gamma": [[4.0, 2.0]]}
    for shape in (None, (2, 2)):
        with pm.Model() as model:
            ps.CircuitDensity("x", circuit, [], leaves, shape=shape)
        point = model.initial_point()
        np.testing.assert_allclose(point["x_log_columns__"], [[1.0, np.log(2.0)], [-3.0, np.log(2.0)]])
        gradient = model.compile_dlogp(mode=PLAIN)(point).reshape(2, 2)  # 0 at the mean; of log x: shape - rate x = 0
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
        gradient = model.compile_dlogp(mode=PLAIN)({"x_log_columns__": np.ones((2, 2))})
        np.testing.assert_allclose(gradient, [0.0, 4.0 - 2.0 * np.e, -1.0, 4.0 - 2.0 * np.e], atol=1e-12)


def test_batches_bring_their_covariates():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(6, 1)), rng.normal(size=(6, 1))
    with pm.Model() as model:
        covariates, rows = pm.Minibatch(x, y, batch_size=2)
        leaves = pt.stack([covariates, pt.full_like(covariates, 0.5)], axis=2)
        ps.CircuitDensity("y", LEAF, [], {"gaussian": leaves}, observed=rows, total_size=6)
    logs = -0.5 * ((y - x) / 0.5) ** 2 - np.log(0.5) - 0.5 * np.log(2 * np.pi)
    possible = (3.0 * (logs + logs.T)).ravel()  # two rows count for six
    logp = model.compile_logp(mode=PLAIN)
    found = [np.abs(possible - logp({})).argmin() for _ in range(10)]
    assert len(set(found)) > 3
    assert min(np.abs(possible - logp({}))) < 1e-12


def leaves_of(*shape):
    return np.broadcast_to([0.0, 1.0], (*shape, 2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"log_weights": np.log([[0.5, 0.5]] * 2 + [[0.5, 0.4]])}, "got 0.9 at sum 0; these are .* of row 2"),
        ({"leaf_parameters": {"gaussian": [leaves_of(2), -leaves_of(2), leaves_of(2)]}}, "at row 0, .* of row 1"),
        ({"leaf_parameters": {"gaussian": leaves_of(3, 4)}}, r"must have shape \(2, p\), got \(4, 2\); .* of row 0"),
        ({"leaf_parameters": {"gaussian": pt.zeros((3, 4, 2))}}, r"or \(rows, 2, 2\), .* got \(3, 4, 2\)"),
        ({"log_weights": pt.zeros((3, 4))}, r"must have shape \(2,\) or \(rows, 2\), got \(3, 4\)"),
        ({"leaf_parameters": {"gaussian": leaves_of(5, 2)}}, r"\] must have as many rows as observed, 3, got 5"),
        ({"observed": None, "shape": (4, 1)}, "log_weights must have as many rows as shape, 4, got 3"),
        ({"observed": None, "shape": (3, 1, 1)}, r"shape must be \(rows, 1\) where .* got \(3, 1, 1\)"),
        ({"log_weights": np.log([[0.5, 0.5]]), "observed": pt.dmatrix()}, "log_weights must not have one row"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(changed, message):
    given = {"log_weights": np.log([[0.5, 0.5]] * 3), "leaf_parameters": {"gaussian": leaves_of(2)}}
    given = given | {"observed": np.zeros((3, 1))} | changed
    with pm.Model(), pytest.raises(ValueError, match=message):
        ps.CircuitDensity("x", MIXTURE, **given)


def test_rows_that_no_parameters_are_given_for_are_refused_when_it_runs():
    packed = conditional(REAL)[2]
    values, weights, theta = pt.dmatrix(), pt.dmatrix(), pt.dvector()
    n_weights, n_parameters = (conditional(REAL)[1][0][i].size for i in (0, 2))
    run = pytensor.function([values, weights, theta], circuit_rows(packed, values, weights, theta), mode=PLAIN)
    with pytest.raises(ValueError, match="log_weights must have one row for each of the 5 of a CircuitDensity, got 4"):
        run(np.zeros((5, 3)), np.zeros((4, n_weights)), np.zeros(n_parameters))


def test_a_frame_of_weights_is_read_by_its_rows_and_no_rows_are_refused():
    half = np.full((3, 2), np.log(0.5))
    leaves = {"gaussian": [[0.0, 1.0], [1.0, 1.0]]}
    with pm.Model():
        rows = ps.CircuitDensity("rows", MIXTURE, pd.DataFrame(half), leaves, observed=np.zeros((3, 1)))
        same = ps.CircuitDensity("same", MIXTURE, half, leaves, observed=np.zeros((3, 1)))
        with pytest.raises(ValueError, match="must be those of at least one row, got none"):
            ps.CircuitDensity("none", MIXTURE, np.zeros((0, 2)), leaves, shape=(0, 1))
        with pytest.raises(ValueError, match=r"shape must end in the number of columns, 1, got \(\)"):
            ps.CircuitDensity("bare", MIXTURE, half[0], leaves, shape=())
    zeros = np.zeros((3, 1))
    np.testing.assert_array_equal(*(pm.logp(rv, zeros).eval(mode=PLAIN) for rv in (rows, same)))
