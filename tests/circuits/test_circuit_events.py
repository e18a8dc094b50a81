"""Probabilities of events under explicit circuits: against SciPy, sums, quadrature, and the posterior as sampled."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

from pymc_spn.leaves.leaf_events import log_interval
from tests.hand_made_records import posterior_of
from tests.shared_circuits import (
    DENSITIES,
    PARAMETERS,
    SCIPY,
    WITH_A_FORMULA,
    crossed_circuit,
    mixed_circuit,
    random_parameters,
)


def brute_force(real, count, level):
    """Probability by Gauss panels over intervals of the first column and sums over codes of the others."""
    circuit, *parameters = mixed_circuit()
    x, w = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for low, high in real:
        for a, b in zip(np.linspace(low, high, 21)[:-1], np.linspace(low, high, 21)[1:], strict=True):
            nodes = 0.5 * (a + b) + 0.5 * (b - a) * x
            rows = np.array(list(product(nodes, count, level)), float)
            p = np.exp(circuit.with_parameters(*parameters).log_density(rows).values).reshape(x.size, -1).sum(axis=1)
            total += 0.5 * (b - a) * w @ p
    return total


@pytest.mark.parametrize("family", WITH_A_FORMULA)
def test_intervals_of_leaves(family):
    """Random intervals, open ends, one point, and the empty interval, by SciPy's distribution functions."""
    rng = np.random.default_rng(3)
    for theta in PARAMETERS[family](rng, 4, 3):
        ends = np.sort(np.exp(rng.normal(0.5, 1.0, (12, 2))) * (1 if family != "gaussian" else rng.choice([-1, 1])))
        ends = np.concatenate([np.sort(ends), [[-np.inf, 1.5], [0.5, np.inf], [-np.inf, np.inf], [2, 2], [3, 2.5]]])
        got = np.exp(log_interval(family, theta, ends[:, 0], ends[:, 1]))
        if family == "log_student_t":
            with np.errstate(divide="ignore"):
                cdf, below = stats.t(theta[2], theta[0], theta[1]).cdf, np.log(np.maximum(ends, 0.0))
        else:
            cdf, below = SCIPY[family](theta).cdf, ends
        low = below[:, 0] if family in DENSITIES else np.ceil(below[:, 0]) - 1.0  # a mass at the lower end counts
        high = below[:, 1] if family in DENSITIES else np.floor(below[:, 1])  # SciPy has NaN at parts of some counts
        expected = np.where(ends[:, 0] > ends[:, 1], 0.0, cdf(high) - cdf(low))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-13)


def test_far_tails_and_narrow_intervals_keep_their_digits():
    one = np.array([[0.0, 1.0]])
    assert log_interval("gaussian", one, 40.0, np.inf)[0] == pytest.approx(stats.norm.logsf(40.0), rel=1e-13)
    assert log_interval("gaussian", one, -50.0, -40.0)[0] == pytest.approx(stats.norm.logsf(40.0), rel=1e-13)
    narrow = log_interval("gaussian", one, 3.0, 3.0 + 1e-9)[0]
    assert narrow == pytest.approx(stats.norm.logpdf(3.0) + np.log(1e-9), abs=1e-6)
    for rate, low, high in ((3.0, 400, 700), (900.0, 0, 50), (3.0, 400, np.inf), (900.0, -np.inf, 50.5)):
        k = np.arange(max(low, 0), min(np.floor(high), 3000) + 1)
        exact = logsumexp(stats.poisson.logpmf(k, rate))
        assert log_interval("poisson", np.array([[rate]]), low, high)[0] == pytest.approx(exact, rel=1e-12)
    exact = -900.0 * 0.5 + np.log1p(-np.exp(-0.5))
    assert log_interval("exponential", np.array([[0.5]]), 900.0, 901.0)[0] == pytest.approx(exact, rel=1e-14)
    assert log_interval("geometric", np.array([[0.5]]), 4000, 4000)[0] == pytest.approx(4001 * np.log(0.5), rel=1e-14)


def log_sum(terms):
    """Log of a sum of fractions, exact until the logarithm."""
    total = sum(terms, Fraction(0))
    return math.log(total.numerator) - math.log(total.denominator)


@pytest.mark.parametrize(
    ("family", "parameters", "law"),
    [
        ("gaussian", (0.0, 0.7), stats.norm(0.0, 0.7)),
        ("log_normal", (5.0, 0.01), stats.lognorm(0.01, scale=np.exp(5.0))),
        ("student_t", (0.0, 0.7, 3.0), stats.t(3.0, 0.0, 0.7)),
        ("log_student_t", (2.0, 0.01, 1.5), stats.t(1.5, 2.0, 0.01)),
    ],
)
def test_intervals_of_a_few_floats_are_density_times_width(family, parameters, law):
    """Ends that were scaled, or taken to logarithms, may be the same number: the event had probability 0."""
    for point in law.ppf([0.1, 0.6, 0.9]):
        low, log_density = point, law.logpdf(point)
        if family == "log_student_t":
            low, log_density = np.exp(point), log_density - point
        for high in (np.nextafter(low, np.inf), low + 1e-10 * abs(low)):
            mass = log_density + np.log(high - low)
            assert log_interval(family, np.array([parameters]), low, high) == pytest.approx(mass, abs=1e-7)


def test_far_intervals_of_a_heavy_tail_are_many_scales_wide_and_narrow_all_the_same():
    """Two distribution functions that are nearly the same number: P(x < X <= x + w) = w f(x) for w = 1e-8 x."""
    for low, high in ((1.4e8, 1.4e8 + 1.4), (-1.4e8 - 1.4, -1.4e8)):
        exact = stats.t(3.0).logpdf(0.5 * (low + high)) + np.log(high - low)
        assert log_interval("student_t", np.array([[0.0, 1.0, 3.0]]), low, high) == pytest.approx(exact, abs=1e-12)


def test_tails_of_binomial_leaves():
    """Counts in fractions."""
    share, theta = Fraction(3, 8), np.array([200.0, 0.375])
    mass = [math.comb(200, k) * share**k * (1 - share) ** (200 - k) for k in range(201)]
    for low, high in ((150, 160), (150.5, np.inf), (0, 3), (-np.inf, 2), (75, 76), (199, 300), (70, 70)):
        inside = [m for k, m in enumerate(mass) if low <= k <= high]
        assert log_interval("binomial", theta, low, high) == pytest.approx(log_sum(inside), rel=1e-12)
    assert log_interval("binomial", theta, 201, 300) == -np.inf == log_interval("binomial", theta, 3.2, 3.8)


EVENTS = {
    "interval": ({"real": (0.2, 1.4)}, ([(0.2, 1.4)], range(60), range(3))),
    "open": ({"real": (None, 1.4), "count": (None, 3)}, ([(-8.0, 0.0), (0.0, 1.4)], range(4), range(3))),
    "union": ({"real": [(1.5, 2), (-1, -0.5)]}, ([(-1, -0.5), (1.5, 2)], range(60), range(3))),
    "overlapping": ({"real": [(0.5, 1.2), (1, 2), (2, 2.5)]}, ([(0.5, 2.5)], range(60), range(3))),
    "counts": ({"count": [(1.5, 4.2), (7, 8)]}, ([(-8.0, 0.0), (0.0, 40.0)], [2, 3, 4, 7, 8], range(3))),
    "touching": ({"count": [(0, 3), (3, 5)]}, ([(-8.0, 0.0), (0.0, 40.0)], range(6), range(3))),
    "set": ({"real": (0, 2), "count": {0, 3}, "level": {0, 2}}, ([(0, 2)], [0, 3], [0, 2])),
    "mass": ({"real": (0, 2), "count": 4, "level": 1}, ([(0, 2)], [4], [1])),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_by_quadrature_and_sums(name):
    circuit, *parameters = mixed_circuit()
    event, pieces = EVENTS[name]
    found = circuit.with_parameters(*parameters).probability(event)
    assert found.dims == () and float(found) == pytest.approx(brute_force(*pieces), rel=1e-9)
    log_found = circuit.with_parameters(*parameters).log_probability(event)
    assert float(log_found) == pytest.approx(np.log(found.item()), abs=1e-13) and log_found.attrs == found.attrs


def test_conditionals_points_and_clashes():
    circuit, *parameters = mixed_circuit()
    ask = lambda event, given=None: float(circuit.with_parameters(*parameters).probability(event, given))  # noqa: E731
    low, high = {"real": (0, 1)}, {"count": (2, None)}
    assert ask(low, high) * ask(high) == pytest.approx(ask(low | high), rel=1e-13)
    assert ask({"real": 0.4}) == pytest.approx(
        np.exp(circuit.with_parameters(*parameters).log_density([[0.4, np.nan, np.nan]]).values[0])
    )
    expected = ask({"real": 0.4, "level": {0, 2}}) / ask({"real": 0.4})
    assert ask({"level": {0, 2}}, {"real": 0.4}) == pytest.approx(expected, rel=1e-13)
    assert ask({"real": (0, 1)}, {"real": (0.5, 2)}) == pytest.approx(ask({"real": (0.5, 1)}) / ask({"real": (0.5, 2)}))
    assert ask({"real": [(0, 1), (2, 3)]}, {"real": [(0.5, 2.5)]}) == pytest.approx(
        ask({"real": [(0.5, 1), (2, 2.5)]}) / ask({"real": (0.5, 2.5)})
    )
    assert ask({"count": 3}, {"count": {2, 3}}) == pytest.approx(ask({"count": 3}) / ask({"count": {2, 3}}))
    for event, given in (
        ({"real": (0, 1)}, {"real": (2, 3)}),
        ({"count": 3}, {"count": 4}),
        ({"count": 3}, {"count": {4, 5}}),
        ({"level": {1}}, {"level": 2}),
        ({"real": (0, 1), "count": -2}, None),
    ):
        assert (
            ask(event, given) == 0.0 and circuit.with_parameters(*parameters).log_probability(event, given) == -np.inf
        )
    assert ask({"real": 0.5}, {"real": 0.5}) == 1.0
    assert ask({}) == 1.0 and ask({"real": None, "level": {0, 1, 2}}) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("n", [1, 5, 300])
def test_rows_at_once_are_rows_one_by_one(n):
    """Arrays of ends and of points with gaps, more rows than a block."""
    circuit, *parameters = mixed_circuit()
    rng = np.random.default_rng(1)
    low = rng.normal(0, 1, n)
    high, counts = low + rng.gamma(2, 1, n), rng.poisson(3.0, n).astype(float)
    counts[::3] = np.nan
    event, given = {"real": (low, high), "level": {0, 1}}, {"count": counts, "real": (-1.0, None)}
    held = circuit.with_parameters(*parameters)
    together = np.exp(held.log_probability_of_rows(event, given))
    assert together.dims == ("row",) and together.shape == (n,)
    for i in range(0, n, max(1, n // 7)):
        alone = held.probability(
            {"real": (low[i], high[i]), "level": {0, 1}}, given={"count": counts[i], "real": (-1.0, None)}
        )
        assert together.values[i] == pytest.approx(float(alone), rel=1e-13)
    points = held.log_probability_of_rows({"real": low, "count": counts})
    rows = np.column_stack([low, counts, np.full(n, np.nan)])
    np.testing.assert_allclose(np.exp(points), np.exp(held.log_density(rows)), rtol=1e-12)
    assert held.log_probability_of_rows({"real": (None, low)}, {"level": 1}).shape == (n,)
    with pytest.raises(ValueError, match="event: column 'count' has the missing value nan; leave the column out"):
        held.log_probability_of_rows({"real": low, "count": np.nan})
    with pytest.raises(ValueError, match="must hold an array of values or ends; of one event ask log_probability"):
        held.log_probability_of_rows({"real": 0.5})


@pytest.mark.parametrize(
    ("event", "given", "error", "message"),
    [
        ({"real": (0, 1)}, {"age": 1}, ValueError, "given names column 'age'"),
        ({"real": [1.0]}, None, ValueError, "column 'real' is continuous, a set of values has probability zero"),
        ({"real": [1.0, (0, 1)]}, None, TypeError, "a list holds intervals .* column 'real' has 1.0"),
        ({"count": pd.Series([1, {1.5, "a"}])}, None, TypeError, "event in row 1: column 'count' cannot be 'a'"),
        ({"real": ([0, 1], [1, 0.5])}, None, ValueError, r"column 'real' has \(1.0, 0.5\) in row 1"),
        ({"real": ([0, 1], [1, 2, 3])}, None, ValueError, "column 'real' has 2 lower and 3 upper ends"),
        ({"real": (np.zeros((2, 2)), 1)}, None, ValueError, r"must be one for each row, got \(2, 2\)"),
        ({"real": np.zeros((2, 2))}, None, ValueError, r"must be one for each row, got \(2, 2\)"),
        ({"real": ([0, 1], 2)}, {"count": np.arange(3.0)}, ValueError, r"arrays of one length, got \[2, 3\]"),
        (
            {"real": (["0", "1"], 2)},
            None,
            TypeError,
            r"event: ends .* are numbers or None, column 'real' has \['0', '1'\]",
        ),
        ({"real": ([0, 1], pd.NA)}, None, TypeError, "event: ends of an interval are numbers or None, column 'real'"),
        ({"real": ([True, False], 2)}, None, TypeError, "event: ends of an interval are numbers or None"),
        ({"real": (0, 1)}, {"count": np.array(["a"])}, TypeError, "given: column 'count': kind 'real' needs numbers"),
        ({"real": (0, 1)}, {"count": -1}, ValueError, "given: .* has density zero under the circuit"),
        ({"real": (0, 1)}, {"count": np.array([1.0, 2.5])}, ValueError, "density zero under the circuit in row 1"),
    ],
)
def test_bad_events_are_refused(event, given, error, message):
    circuit, *parameters = mixed_circuit()
    with pytest.raises(error, match=message):
        circuit.with_parameters(*parameters).log_probability_of_rows(event, given=given)


def test_arrays_of_pandas_are_values_of_rows():
    circuit, *parameters = mixed_circuit()
    ask = circuit.with_parameters(*parameters).log_probability_of_rows
    counts = pd.array([1, None, 3], dtype="Int64")
    expected = ask({"real": (0, 1), "count": np.array([1.0, np.nan, 3.0])})
    for values in (counts, pd.Series(counts), pd.Index(counts)):
        np.testing.assert_array_equal(ask({"real": (0, 1), "count": values}), expected)
    np.testing.assert_array_equal(ask({"real": (pd.array([0, 1]), None)}), ask({"real": (np.array([0.0, 1.0]), None)}))
    learned = posterior_of("missing").as_circuit()
    levels = [0, 1, None]
    found = np.exp(learned.log_probability_of_rows({"x1": pd.Categorical(levels)}))
    np.testing.assert_allclose(found, [float(learned.probability({"x1": level})) for level in levels], rtol=1e-14)


def test_cells_are_intervals_and_sets_of_their_rows():
    """As pandas has them: what cut makes, frames of events, and what holds in all rows beside."""
    circuit, *parameters = mixed_circuit()
    held = circuit.with_parameters(*parameters)
    real = pd.cut(np.random.default_rng(0).normal(size=7), 3)
    count = [1.0, {1, 2}, None, pd.Interval(0, 2), slice(1, None), [(0, 1), slice(3, 5)], [2, 4]]
    events, known = pd.DataFrame({"real": real, "count": count}), {"level": [0, 1]}
    found = held.log_probability_of_rows(events, pd.Series(known)).values
    alone = [held.log_probability(event, known).item() for event in events.to_dict("records")]
    np.testing.assert_allclose(found, alone, rtol=1e-13)
    ends = np.arange(3.0)
    for ours, same in ((pd.Interval(0, 1, "both"), (0, 1)), (slice(0, 1), (0, 1)), (slice(None, ends), (None, ends))):
        found, expected = (held.log_probability_of_rows({"real": e, "count": ends}, known) for e in (ours, same))
        np.testing.assert_array_equal(found, expected)


def test_nodes_without_an_asked_column_count_as_when_they_are_summed_out():
    """Weights add up to 1 to within their tolerance: the density of some columns is that with the others missing."""
    circuit = crossed_circuit(5, 3, 4)
    rng = np.random.default_rng(0)
    log_weights, parameters = random_parameters(circuit, rng)
    log_weights -= 5e-7
    for asked in ([2], [0, 4]):
        row = np.full((1, 5), np.nan)
        row[0, asked] = 0.3
        expected = circuit.with_parameters(log_weights, parameters).log_density(row).values[0]
        found = circuit.with_parameters(log_weights, parameters).log_probability({f"x{d}": 0.3 for d in asked})
        assert float(found) == pytest.approx(expected, abs=1e-13)  # 0 for the others would be off by 1e-6
