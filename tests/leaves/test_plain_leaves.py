"""Leaves of `plain_leaves` and beta-binomial ones in the search for the most probable value.

With kinks, jumps and poles.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

from pymc_spn.circuits.laws.packed_circuits import packed_from_circuit
from pymc_spn.maxima.box_kernels import leaf_shifts, log_bounds, taylor_ranges
from pymc_spn.maxima.box_leaves import NOTHING, leaf_log_range
from tests.random_circuits import DRAW, random_mixture
from tests.shared_circuits import build

TOLERANCE = 1e-6
CONTINUOUS = ("gaussian", "laplace", "gamma", "uniform", "triangular", "beta", "weibull")


def places(parameters, d_range=(-7.0, 9.0), n=161):
    """A grid with every kink, end and mode of the leaves."""
    special = [np.linspace(*d_range, n)]
    if "laplace" in parameters:
        special.append(parameters["laplace"][:, 0])
    if "uniform" in parameters:
        special.append(parameters["uniform"].ravel())
    if "triangular" in parameters:
        special.append(parameters["triangular"].ravel())
    if "gamma" in parameters:
        special.append((parameters["gamma"][:, 0] - 1.0) / parameters["gamma"][:, 1])
    if "weibull" in parameters:
        shape, scale = parameters["weibull"].T
        special.append(scale * (1.0 - 1.0 / shape) ** (1.0 / shape))
    if "beta" in parameters:
        special += [
            (parameters["beta"][:, 0] - 1.0) / (parameters["beta"].sum(axis=1) - 2.0),
            np.linspace(0.0, 1.0, 41),
        ]
    return np.unique(np.concatenate(special))


@pytest.mark.parametrize("seed", range(16))
def test_random_mixtures_are_certified(seed):
    """Leaves of all seven families share the columns; against a grid that holds their corners."""
    rng = np.random.default_rng(seed)
    circuit, *parameters = random_mixture(rng, [CONTINUOUS] * (1 + seed % 2))
    found = circuit.with_parameters(*parameters).mpe()
    value = found.value.to_numpy(float)
    x = places(parameters[1])
    grid = np.array(list(product(x, repeat=value.size)))
    assert found.certified and 0 <= float(found.upper_bound - found.log_density) <= TOLERANCE
    assert circuit.with_parameters(*parameters).log_density(value).values[0] == pytest.approx(
        float(found.log_density), abs=1e-10
    )
    assert circuit.with_parameters(*parameters).log_density(grid).values.max() <= float(found.upper_bound) + 1e-10


def test_two_uniforms_that_touch_have_their_maximum_at_one_point():
    """Both ends belong to a uniform leaf: at 1 the densities add up, and nowhere else."""
    circuit = build([("sum", [1, 2]), ("leaf", 0, "uniform"), ("leaf", 0, "uniform")], ["x"], ("uniform",))
    parameters = {"uniform": np.array([[0.0, 1.0], [1.0, 3.0]])}
    found = circuit.with_parameters(np.log([0.5, 0.5]), parameters).mpe()
    assert found.certified and found.value["x"].item() == 1.0
    assert float(found.log_density) == pytest.approx(np.log(0.5 + 0.25), abs=1e-12)


def test_a_histogram_beside_a_bell():
    """Bars as uniform leaves; the maximum is where the bell stands highest within the highest bars."""
    edges = np.array([0.0, 1.0, 1.5, 2.5, 4.0])
    n = edges.size - 1
    nodes = [("sum", range(1, n + 2)), *[("leaf", 0, "uniform")] * n, ("leaf", 0, "gaussian")]
    circuit = build(nodes, ["x"], ("uniform", "gaussian"))
    parameters = {"uniform": np.column_stack([edges[:-1], edges[1:]]), "gaussian": np.array([[1.7, 0.8]])}
    weights = np.log([0.1, 0.3, 0.2, 0.1, 0.3])
    found = circuit.with_parameters(weights, parameters).mpe()
    inside = 0.3 / 0.5 + 0.2 / 1.0 + 0.3 * stats.norm(1.7, 0.8).pdf(1.5)  # at 1.5, where two bars meet
    assert found.certified and found.value["x"].item() == 1.5
    assert float(found.log_density) == pytest.approx(np.log(inside), abs=1e-12)
    given = circuit.with_parameters(weights, parameters).mpe({"x": (1.6, 2.4)})
    assert given.value["x"].item() == pytest.approx(1.7, abs=1e-6)
    bell = stats.norm(1.7, 0.8)
    log_known = np.log(0.2 * 0.8 + 0.3 * (bell.cdf(2.4) - bell.cdf(1.6)))
    expected = np.log(0.2 + 0.3 * stats.norm(0, 0.8).pdf(0)) - log_known
    assert float(given.log_density) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("family", ["binomial", "hypergeometric", "beta_binomial"])
def test_counts_of_plain_and_other_leaves_by_enumeration(family):
    rng = np.random.default_rng(4)
    nodes = [("sum", [1, 4, 7])]
    for first in (1, 4, 7):
        nodes += [("product", (first + 1, first + 2)), ("leaf", 0, family), ("leaf", 1, "poisson")]
    circuit = build(nodes, ["a", "b"], (family, "poisson"))
    for _ in range(5):
        parameters = {
            family: np.array([DRAW[family](rng) for _ in range(3)], float),
            "poisson": rng.gamma(3, 2, (3, 1)),
        }
        weights = np.log(rng.dirichlet(np.ones(3)))
        rows = np.array(list(product(range(14), range(40))), float)
        logs = circuit.with_parameters(weights, parameters).log_density(rows).values
        found = circuit.with_parameters(weights, parameters).mpe()
        assert found.certified and float(found.log_density) == pytest.approx(logs.max(), abs=1e-10)
        np.testing.assert_array_equal(found.value.to_numpy(float)[0], rows[np.argmax(logs)])
        inside = (rows[:, 0] >= 2) & (rows[:, 0] <= 7)
        found = circuit.with_parameters(weights, parameters).mpe({"a": (2, 7)})
        expected = logs[inside].max() - float(
            circuit.with_parameters(weights, parameters).log_probability({"a": (2, 7)})
        )
        assert found.certified and float(found.log_density) == pytest.approx(expected, abs=1e-9)


@property_of(st.floats(0.05, 5.0), st.floats(0.05, 5.0), st.integers(1, 12), st.integers(0, 14), st.integers(0, 14))
@settings(deadline=None)
def test_ranges_of_a_beta_binomial_leaf_are_those_of_its_counts(alpha, beta, trials, low, length):
    """One peak, two or a slope; nothing beyond the trials."""
    circuit = build([("leaf", 0, "beta_binomial")], ["a"], ("beta_binomial",))
    packed = packed_from_circuit(circuit, np.zeros(0), {"beta_binomial": np.array([[trials, alpha, beta]])}, {})
    x = np.arange(low, low + length + 1.0)
    logs = np.maximum(stats.betabinom.logpmf(x, trials, alpha, beta), NOTHING)
    least, most = leaf_log_range(packed, 0, float(low), float(low + length))
    np.testing.assert_allclose([least, most], [logs.min(), logs.max()], atol=1e-10)


@property_of(seed=st.integers(0, 10_000), n=st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_bounds_hold_over_boxes(seed, n):
    """Value and, away from kinks and jumps, derivatives at points of a box lie within the ranges over it."""
    rng = np.random.default_rng(seed)
    circuit, log_weights, parameters = random_mixture(rng, [CONTINUOUS] * n, 3)
    packed = packed_from_circuit(circuit, log_weights, parameters, {})
    centre, half = rng.normal(0.5, 2, n), np.exp(rng.normal(-1, 1.5, n))
    low, high = (centre - half)[None], (centre + half)[None]
    if np.any((low < 0) & (high > 0)):
        low = np.where((low < 0) & (high > 0), 0.0, low)  # as the search cuts its first boxes
    shift = leaf_shifts(packed, low, high)
    lower, upper = taylor_ranges(packed, low, high, np.arange(n), shift)
    top = log_bounds(packed, low, high)[0]
    for x in rng.uniform(low[0], high[0], (20, n)):
        here, _ = taylor_ranges(packed, x[None], x[None], np.arange(n), shift)
        slack = 1e-9 * (1.0 + np.abs(here[0]))
        within = (here[0] >= lower[0] - slack) & (here[0] <= upper[0] + slack)
        assert within[~np.isnan(lower[0]) & ~np.isnan(upper[0])].all()
        log = circuit.with_parameters(log_weights, parameters).log_density(x[None]).values[0]
        assert log <= top + 1e-9
        if log > -600:
            assert np.exp(log - shift.sum()) == pytest.approx(here[0, 0], rel=1e-9, abs=1e-290)
        ends = [parameters[f].ravel() for f in ("uniform", "triangular") if f in parameters]
        corners = np.concatenate([parameters.get("laplace", np.zeros((0, 2)))[:, 0], *ends])
        for d in range(n):
            if np.abs(corners - x[d]).min(initial=1.0) < 2e-5 or abs(x[d]) < 1e-3:
                continue
            step = np.zeros(n)
            step[d] = 1e-5
            f = np.exp(
                circuit.with_parameters(log_weights, parameters).log_density(np.array([x + step, x - step])).values
                - shift.sum()
            )
            scale = np.abs(here[0]).max() + 1e-200
            assert here[0, 1 + d] == pytest.approx((f[0] - f[1]) / 2e-5, abs=2e-3 * scale)


def test_a_gamma_leaf_that_does_not_fall_towards_zero_has_no_mode():
    circuit = build(
        [("product", [1, 2]), ("leaf", 0, "gamma"), ("leaf", 1, "gaussian")], ["a", "b"], ("gamma", "gaussian")
    )
    parameters = {"gamma": np.array([[0.7, 1.0]]), "gaussian": np.array([[0.0, 1.0]])}
    message = r"leaf_parameters\['gamma'\] must have shapes above 1 .* got 0.7 at row 0, leaf 1 of 'a'"
    with pytest.raises(ValueError, match=message):
        circuit.with_parameters(np.zeros(0), parameters).mpe()
    with pytest.raises(ValueError, match=message):
        circuit.with_parameters(np.zeros(0), parameters).mpe({"b": 1.0})
    best = circuit.with_parameters(np.zeros(0), parameters).mpe({"a": 0.3})
    assert best.value.to_numpy()[0].tolist() == pytest.approx([0.3, 0.0])


@pytest.mark.parametrize(
    ("family", "row", "rule"),
    [
        ("laplace", [0.0, -1.0], "location must be finite, scale positive and finite"),
        ("laplace", [np.nan, 1.0], "location must be finite"),
        ("gamma", [0.0, 1.0], "shape and rate must be positive and finite"),
        ("weibull", [1.0, 0.0], "shape and scale must be positive and finite"),
        ("beta", [0.0, 1.0], "alpha and beta must be positive and finite"),
        ("uniform", [2.0, 2.0], "low and high must be finite, low below high"),
        ("uniform", [-np.inf, 2.0], "low and high must be finite"),
        ("triangular", [0.0, 1.0], r"rows must be \(lower, mode, upper\)"),
        ("triangular", [1.0, 1.0, 1.0], "lower, mode and upper must be finite, lower below upper"),
        ("triangular", [0.0, 3.0, 2.0], "mode neither below lower nor above upper"),
        ("triangular", [0.5, 0.0, 2.0], "mode neither below lower nor above upper"),
        ("triangular", [0.0, 1.0, np.inf], "lower, mode and upper must be finite"),
        ("binomial", [2.5, 0.3], r"number of trials must be a whole number from 1 to 2\^53"),
        ("binomial", [2.0**54, 0.3], r"number of trials must be a whole number from 1 to 2\^53"),
        ("binomial", [4.0, 1.0], "probability above 0 and below 1"),
        ("hypergeometric", [10.0, 3.5, 2.0], "population must be a whole number from 1 to 999999999, successes and"),
        ("hypergeometric", [10.0, 11.0, 2.0], "successes and draws from 0 to the population"),
        ("hypergeometric", [1e9, 3.0, 2.0], "population must be a whole number from 1 to 999999999"),
        ("hypergeometric", [10.0, 3.0], r"rows must be \(population, successes, draws\)"),
        ("binomial", [4.0], r"rows must be \(number of trials, probability\)"),
        ("beta_binomial", [2.5, 1.0, 1.0], r"number of trials must be a whole number from 1 to 2\^53"),
        ("beta_binomial", [1e20, 1.0, 1.0], r"number of trials must be a whole number from 1 to 2\^53"),
        ("beta_binomial", [4.0, 1.0, 0.0], "alpha and beta positive"),
    ],
)
def test_wrong_parameters(family, row, rule):
    circuit = build([("leaf", 0, family)], ["a"], (family,))
    with pytest.raises(ValueError, match=rf"leaf_parameters\['{family}'\]: .*{rule}"):
        circuit.with_parameters(np.zeros(0), {family: [row]}).log_density([[1.0]])
