"""`fit_em` of Laplace leaves, by weighted medians, and of leaves that are given in part or as a whole."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pymc_spn as ps
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.leaf_updates import pool
from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of
from pymc_spn.leaves.laplace import best_leaf as laplace_leaf
from tests.shared_circuits import mixture

FAMILIES = ("laplace", "binomial", "uniform", "negative_binomial", "gaussian")


def drawn_rows(rng, n, gaps=0.0):
    """Two kinds of rows, by location, successes out of 12, half of an interval and mean count; noise comes last."""
    kind = rng.random(n) < 0.4
    rows = np.column_stack(
        [
            rng.laplace(np.where(kind, 4.0, -1.0), np.where(kind, 0.5, 1.5)),
            rng.binomial(12, np.where(kind, 0.8, 0.25)),
            rng.uniform(np.where(kind, 1.0, 0.0), np.where(kind, 3.0, 2.0)),
            rng.poisson(rng.gamma(3.0, np.where(kind, 4.0, 1.0), n)),
            rng.normal(size=n),
        ]
    )
    rows[rng.random(rows.shape) < gaps] = np.nan
    return rows


GIVEN_LEAVES = {
    "binomial": np.array([[12.0, 0.4], [12.0, 0.6]]),
    "uniform": np.array([[0.0, 2.0], [1.0, 3.0]]),
    "negative_binomial": np.array([[3.0, 0.9], [3.0, 0.3]]),
}


@given(
    st.lists(st.tuples(st.integers(-6, 6), st.floats(0.0, 3.0)), min_size=1, max_size=9),
    st.floats(0.0, 2.0),
)
def test_a_laplace_leaf_is_the_best_of_all_places(cells, distance):
    """Weighted median and mean distance against all places that hold a cell; ties and weights of 0 among them."""
    cells.append((0, 1.0))
    x, weight = np.array(sorted(cells), float).T

    def log_density(location, scale):
        return -(weight * (np.log(2.0 * scale) + np.abs(x - location) / scale)).sum() - distance / scale

    location, scale = laplace_leaf(x, weight, distance + 0.1)
    distance += 0.1
    others = [(weight @ np.abs(x - m) + distance) / weight.sum() for m in x]
    best = max(log_density(m, b) for m, b in zip(x, others, strict=True))
    assert log_density(location, scale) == pytest.approx(best, rel=1e-12)
    assert all(log_density(location, f * scale) < log_density(location, scale) for f in (0.99, 1.01))


def test_a_mixture_of_two_laplace_leaves_follows_the_textbook():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.laplace(-2.0, 1.0, 30), rng.laplace(2.0, 0.5, 41)])
    circuit = mixture(("laplace",))
    start = np.log([0.5, 0.5]), {"laplace": np.array([[-1.0, 1.0], [1.0, 1.0]])}
    rows = np.append(x, np.nan)[:, None]  # of which the last says nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = ps.fit_em(
            circuit, rows, edge_prior_rows=0.5, leaf_prior_rows=2.0, start=start, max_steps=6, tolerance=1e-300
        )
    w, (m, b) = np.array([0.5, 0.5]), start[1]["laplace"].T
    median = np.median(x)
    spread = np.abs(x - median).mean()
    places = np.append(x, median)
    for _ in range(6):
        density = w * np.exp(-np.abs(x[:, None] - m) / b) / b
        share = density / density.sum(axis=1, keepdims=True)
        n = share.sum(axis=0)
        distances = np.abs(places[:, None] - x) @ share + 2.0 * np.abs(places - median)[:, None]
        missing = w  # the row without a cell is of each kind with its probability
        w = (n + missing + 0.5) / (x.size + 1 + 1.0)
        m, b = places[distances.argmin(axis=0)], (distances.min(axis=0) + 2.0 * spread) / (n + 2.0)
    np.testing.assert_allclose(np.exp(fit.log_weights), w, rtol=1e-12)
    np.testing.assert_allclose(fit.leaf_parameters["laplace"], np.column_stack([m, b]), rtol=1e-12)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]))
def test_no_step_goes_down_and_what_is_given_stays(seed, gaps):
    rng = np.random.default_rng(seed)
    rows = drawn_rows(rng, 20, gaps)
    rows[:2] = drawn_rows(rng, 2)
    rows[:2, 1], rows[:2, 3] = (3.0, 7.0), (1.0, 9.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = ps.fit_em(mixture(FAMILIES), rows, start=(None, GIVEN_LEAVES), restarts=1, max_steps=25, random_seed=seed)
    assert np.diff(fit.objective).min() >= -1e-9 * np.abs(fit.objective).max()  # rounding of sums over 20 rows
    np.testing.assert_array_equal(fit.leaf_parameters["uniform"], GIVEN_LEAVES["uniform"])
    for name in ("binomial", "negative_binomial"):
        np.testing.assert_array_equal(fit.leaf_parameters[name][:, 0], GIVEN_LEAVES[name][:, 0])


@pytest.mark.parametrize("batch_size", [None, 20])
def test_the_gradient_of_the_log_posterior_is_zero_at_the_end(batch_size):
    """By the kernel that NUTS uses; at a Laplace leaf's location, where it jumps, it changes its sign."""
    families = FAMILIES if batch_size is None else FAMILIES[1:]
    rows = drawn_rows(np.random.default_rng(4), 80, 0.1)[:, len(FAMILIES) - len(families) :].copy()
    circuit = mixture(families)
    fit = ps.fit_em(
        circuit,
        rows,
        start=(None, GIVEN_LEAVES),
        tolerance=1e-14,
        max_steps=5_000,
        random_seed=0,
        batch_size=batch_size,
    )
    pooled = pool(circuit, rows, {name: GIVEN_LEAVES[name][:, 0] for name in ("binomial", "negative_binomial")})

    def gradient(parameters):
        at = Parameterised(circuit, fit.log_weights, parameters)
        packed = pack(at.layout, len(families), at.flat.begin, at.flat.width)
        _, of_weights, of_theta, _ = rows_and_gradient_of(packed, rows, at.log_weights, at.flat.theta, np.ones(80))
        own = {f: slice(at.flat.begin[i], at.flat.begin[i] + 4) for i, f in enumerate(families)}
        return of_weights, {f: of_theta[s].reshape(2, 2) for f, s in own.items()}

    of_weights, of_leaves = gradient(fit.leaf_parameters)
    per_weight = (of_weights + 0.1) / np.exp(fit.log_weights)  # Lagrange's condition: the same for all edges of a sum
    assert per_weight[0] == pytest.approx(per_weight[1], rel=1e-5)
    trials, p = fit.leaf_parameters["binomial"].T
    mean = pooled["binomial"].mean
    np.testing.assert_allclose(of_leaves["binomial"][:, 1] + mean / p - (trials - mean) / (1 - p), 0.0, atol=1e-3)
    alpha, beta = fit.leaf_parameters["negative_binomial"].T
    of_prior = alpha / (beta * (1.0 + beta)) - pooled["negative_binomial"].mean / (1.0 + beta)
    np.testing.assert_allclose(of_leaves["negative_binomial"][:, 1] + of_prior, 0.0, atol=1e-3)
    if batch_size is not None:
        return
    location, scale = fit.leaf_parameters["laplace"].T
    away = pooled["laplace"].variance + np.abs(location - pooled["laplace"].mean)
    np.testing.assert_allclose(of_leaves["laplace"][:, 1] + (away / scale - 1.0) / scale, 0.0, atol=1e-3)
    for step in (-1e-9, 1e-9):
        moved = {**fit.leaf_parameters, "laplace": np.column_stack([location + step, scale])}
        prior = -np.sign(location + step - pooled["laplace"].mean) / scale
        assert np.all((gradient(moved)[1]["laplace"][:, 0] + prior) * np.sign(step) < 1e-6)


def test_parameters_of_drawn_rows_are_found():
    """Within five standard errors, of about 0.03 with 3,000 rows of two kinds that are far apart."""
    rows = drawn_rows(np.random.default_rng(9), 3_000)
    fit = ps.fit_em(mixture(FAMILIES), rows, start=(None, GIVEN_LEAVES), restarts=2, random_seed=1)
    assert fit.of_restarts.size == 2 and fit.converged
    np.testing.assert_allclose(np.exp(fit.log_weights), [0.6, 0.4], atol=0.05)
    np.testing.assert_allclose(fit.leaf_parameters["laplace"], [[-1.0, 1.5], [4.0, 0.5]], atol=0.15)
    np.testing.assert_allclose(fit.leaf_parameters["binomial"][:, 1], [0.25, 0.8], atol=0.03)
    np.testing.assert_allclose(fit.leaf_parameters["negative_binomial"][:, 1], [1.0, 0.25], atol=0.1)


def test_leaves_of_other_numbers_of_trials_take_what_they_can():
    """Each leaf's prior is made of the cells that it can take; one of 3 trials stays out of rows above."""
    rows = np.array([[0.0], [1.0], [2.0], [9.0], [8.0], [7.0]])
    circuit = mixture(("binomial",))
    trials = np.array([3.0, 10.0])
    pooled = pool(circuit, rows, {"binomial": trials})["binomial"]
    np.testing.assert_allclose(pooled.mean, [1.0, 4.5])
    fit = ps.fit_em(circuit, rows, start=(None, {"binomial": np.column_stack([trials, [0.5, 0.5]])}), restarts=1)
    assert fit.leaf_parameters["binomial"][0, 1] == pytest.approx(1 / 3, abs=0.02)
    assert fit.leaf_parameters["binomial"][1, 1] > 0.6
    with pytest.raises(ValueError, match="column 'x0' has no value that its binomial leaves can take"):
        ps.fit_em(circuit, rows + 4.0, start=(None, {"binomial": [[3.0, 0.5], [20.0, 0.5]]}))


def test_a_start_in_part_is_filled_at_random():
    rows = drawn_rows(np.random.default_rng(2), 60)
    circuit = mixture(FAMILIES)
    whole = ps.fit_em(circuit, rows, start=(None, GIVEN_LEAVES), restarts=2, random_seed=3)
    again = ps.fit_em(circuit, rows, start=(np.log([0.3, 0.7]), GIVEN_LEAVES), restarts=2, random_seed=3)
    assert whole.of_restarts.size == again.of_restarts.size == 2 and whole.objective[0] != again.objective[0]
    once = ps.fit_em(circuit, rows, start=(whole.log_weights, whole.leaf_parameters), restarts=2)
    assert once.of_restarts.size == 1


def test_weights_around_uniform_leaves_are_the_shares_of_a_histogram():
    circuit = mixture(("uniform",), 3)
    edges = np.array([0.0, 1.0, 1.5, 4.0])
    rows = np.array([0.1, 0.3, 0.8, 1.2, 2.0, 2.5])[:, None]
    leaves = {"uniform": np.column_stack([edges[:-1], edges[1:]])}
    fit = ps.fit_em(circuit, rows, start=(None, leaves), edge_prior_rows=0.0, leaf_prior_rows=0.0)
    np.testing.assert_allclose(np.exp(fit.log_weights), [3 / 6, 1 / 6, 2 / 6], rtol=1e-12)


def test_weights_around_hypergeometric_leaves_are_the_shares_of_the_rows_that_only_one_can_take():
    rows = np.array([0.0, 1.0, 5.0, 5.0, 6.0])[:, None]
    leaves = {"hypergeometric": np.array([[10.0, 2.0, 3.0], [10.0, 8.0, 7.0]])}  # of 0 to 2, and of 5 to 7
    fit = ps.fit_em(mixture(("hypergeometric",)), rows, start=(None, leaves), edge_prior_rows=0.0, leaf_prior_rows=0.0)
    np.testing.assert_allclose(np.exp(fit.log_weights), [0.4, 0.6], rtol=1e-12)
    np.testing.assert_array_equal(fit.leaf_parameters["hypergeometric"], leaves["hypergeometric"])
