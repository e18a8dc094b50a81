"""Marginal and conditioned circuits against the answers of the circuit that they are parts of."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

import pymc_spn as ps
from pymc_spn.circuits.structures.composition import leaf
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.laws.truncated_leaves import leaf_on, leaf_within
from tests.random_circuits import column_families, random_circuit
from tests.shared_circuits import crossed_circuit


def some_event(circuit, families, row, other):
    """Two intervals around values of the first two columns, or a set of levels."""
    out = {}
    for d, name in enumerate(circuit.names[:2]):
        if families[d] == "categorical":
            out[name] = {0.0, 2.0}
        else:
            low, high = sorted((float(row[d]), float(other[d]) + 0.5))
            out[name] = [(low - 0.5, low + 0.25), (high + 1.0, None)]
    return out


@pytest.mark.parametrize("seed", range(8))
def test_parts_have_the_densities_of_the_whole(seed):
    circuit, log_weights, parameters = random_circuit(np.random.default_rng(seed), 4, mixed=True)
    whole = ParameterisedCircuit(circuit, log_weights, parameters)
    rows = whole.sample(6, random_seed=seed).to_numpy(float)
    families = column_families(circuit)
    alone = whole.marginal(["x3", "x1"])
    assert alone.circuit.names == ("x1", "x3")
    gaps = rows.copy()
    gaps[:, [0, 2]] = np.nan
    np.testing.assert_allclose(alone.log_density(rows[:, [1, 3]]), whole.log_density(gaps), atol=1e-12)
    event = some_event(circuit, families, rows[0], rows[1]) | {"x3": float(rows[0, 3])}
    part = whole.condition(event)
    assert part.circuit.names == ("x0", "x1", "x2")
    drawn = part.sample(20, random_seed=seed).to_numpy(float)
    full = np.column_stack([drawn, np.full(20, rows[0, 3])])
    # rounding of logs within 1e3, and of truncated leaves
    np.testing.assert_allclose(
        part.log_density(drawn), whole.log_density(full) - whole.log_probability(event), atol=1e-10
    )
    inside = {"x2": (None, float(np.median(drawn[:, 2])))} if families[2] != "categorical" else {"x2": {1.0}}
    assert float(part.probability(inside)) == pytest.approx(float(whole.probability(inside, given=event)), abs=1e-10)
    outside = drawn[:1].copy()
    outside[0, 0] = rows[0, 0] - 100.0 if families[0] != "categorical" else 1.0
    assert part.log_density(outside)[0] == -np.inf


@pytest.mark.parametrize("seed", range(4))
def test_given_a_union_the_part_is_a_mixture_over_exclusive_events(seed):
    whole = ParameterisedCircuit(*random_circuit(np.random.default_rng(seed), 3, mixed=True))
    families = column_families(whole.circuit)
    rows = whole.sample(2, random_seed=seed).to_numpy(float)
    both = some_event(whole.circuit, families, rows[0], rows[1])
    union = [{"x0": both["x0"]}, {"x1": both["x1"]}, both]
    part = whole.condition(union)
    drawn = part.sample(50, random_seed=seed).to_numpy(float)
    np.testing.assert_allclose(
        part.log_density(drawn), whole.log_density(drawn) - whole.log_probability(union), atol=1e-9
    )
    other = {"x2": {0.0, 1.0}} if families[2] == "categorical" else {"x2": (float(rows[0, 2]), None)}
    assert float(part.probability(other)) == pytest.approx(float(whole.probability(other, given=union)), abs=1e-9)


def test_what_is_no_longer_needed_is_left_out():
    parts = [
        ps.circuits.product_of([ps.circuits.leaf("a", "gaussian", (m, 1.0)), ps.circuits.leaf("b", "bernoulli", (p,))])
        for m, p in ((0, 0.0), (9, 1.0))
    ]
    both = ps.circuits.mixture_of(parts, [0.25, 0.75])
    assert repr(both.condition({"b": 1}).circuit) == "Circuit(1 columns, 0 sums, 0 products, 1 leaves, 0 edges)"
    assert both.marginal("b").circuit.n_nodes == 3
    shared = ps.circuits.mixture_of([parts[0], parts[0]]).marginal(
        "a"
    )  # equal leaves stay two: they have parameters of their own
    assert shared.circuit.n_leaf == 2
    crossed = crossed_circuit(4, 3, 2)
    rng = np.random.default_rng(0)
    degree = np.unique(crossed.edge_sum, return_counts=True)[1]
    log_weights = np.log(np.concatenate([rng.dirichlet(np.ones(k)) for k in degree]))
    own = {f: np.column_stack([rng.normal(size=n), rng.gamma(2.0, size=n)]) for f, n in (("gaussian", crossed.n_leaf),)}
    alone = ParameterisedCircuit(crossed, log_weights, own).marginal("x0")
    assert alone.circuit.n_product == 0  # products that the same child is left of count together
    assert alone.circuit.n_leaf == 2
    x = rng.normal(size=(9, 1))
    gaps = np.column_stack([x, np.full((9, 3), np.nan)])
    np.testing.assert_allclose(
        alone.log_density(x), crossed.with_parameters(log_weights, own).log_density(gaps).values, atol=1e-13
    )


def test_levels_counts_and_soft_evidence():
    circuit = ps.circuits.mixture_of(
        [
            ps.circuits.product_of(
                [leaf("k", "poisson", (r,)), leaf("c", "categorical", p), leaf("u", stats.uniform(0.0, w))]
            )
            for r, p, w in ((2.0, (0.2, 0.3, 0.5), 1.0), (9.0, (0.6, 0.1, 0.3), 4.0))
        ]
    )  # fmt: skip
    for event in ({"k": {1, 4, 6}}, {"k": (2, 5)}, {"k": [(0, 1), (7, None)]}, {"c": {0, 2}}, {"u": (0.5, 2.0)}):
        part = circuit.condition(event)
        assert part.circuit.names == ("k", "c", "u")
        for asked in ({"k": 4}, {"c": 2}, {"u": (0.0, 0.75)}, {"k": {1, 5}, "c": {0}}):
            expected = float(circuit.probability(asked, given=event))
            assert float(part.probability(asked)) == pytest.approx(expected, abs=1e-13)
        frame = part.sample(4_000, random_seed=1).to_numpy(float)
        expected = part.moments(np.full((1, 3), np.nan))["mean"].values[0, 0]
        spread = np.sqrt(part.moments(np.full((1, 3), np.nan))["covariance"].values[0, 0, 0] / 4_000)
        assert abs(frame[:, 0].mean() - expected) < 4.5 * spread + 1e-12
    soft = circuit.condition({"c": {0: 0.5, 2: 0.1}, "k": {3: 1.0, 4: 2.0}})
    p = circuit.probability({"c": {0: 0.5, 2: 0.1}, "k": {3: 1.0, 4: 2.0}})
    row = np.array([[4.0, 2.0, 0.5]])
    ratio = np.exp(float(soft.log_density(row)[0]) - float(circuit.log_density(row)[0]))
    assert ratio == pytest.approx(0.2 / float(p), rel=1e-12)


CASES = [
    ("gaussian", (1.0, 2.0), 1.5, 4.0),
    ("gaussian", (1.0, 2.0), 21.0, np.inf),
    ("exponential", (0.5,), -1.0, 3.0),
    ("log_normal", (0.0, 1.0), 1.0, np.inf),
    ("student_t", (0.0, 1.0, 3.5), 1.0, np.inf),
    ("lomax", (3.5, 2.0), 1.0, np.inf),
]


@pytest.mark.parametrize(("family", "parameters", "low", "high"), CASES)
def test_leaves_within_intervals(family, parameters, low, high):
    found = leaf_within(family, np.array(parameters), low, high)
    density = ps.circuits.leaf("x", family, parameters)
    total = float(density.probability({"x": (low, high)}))
    start, end = found.support()
    cut = [found.ppf(q) for q in (0.01, 0.5, 0.99, 1.0 - 1e-6, 1.0 - 1e-11)]

    def integral(f):
        def weighted(x):
            return f(x) * np.exp(density.log_density([[x]]).values[0]) / total

        return sum(integrate.quad(weighted, *ends, limit=200, epsabs=1e-12)[0] for ends in pairwise([start, *cut, end]))

    mean = integral(lambda x: x)
    assert found.mean() == pytest.approx(mean, rel=2e-6)  # quad's error in the far tail of the heavy ones
    assert found.var() == pytest.approx(integral(lambda x: (x - mean) ** 2), rel=2e-4)
    np.testing.assert_allclose(found.cdf(found.ppf([1e-6, 0.3, 0.999])), [1e-6, 0.3, 0.999], rtol=1e-7)  # logs near -50
    np.testing.assert_allclose(found.sf(found.ppf(0.9)), 0.1, rtol=1e-9)
    copied = pickle.loads(pickle.dumps(found))
    assert copied.logpdf(cut[1]) == found.logpdf(cut[1])
    assert found.logpdf(low - 1.0) == -np.inf
    drawn = found.rvs(size=2_000, random_state=np.random.default_rng(0))
    assert stats.kstest(drawn, found.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("family", "parameters", "low", "high"),
    [
        ("poisson", (7.0,), 3, 9),
        ("poisson", (1e7,), 1e7, np.inf),
        ("geometric", (1e-4,), 2e4, np.inf),
        ("beta_binomial", (12.0, 1.0, 2.0), 2, 20),
        ("negative_binomial", (2.0, 0.5), 1, 9),
    ],
)
def test_counts_within_intervals(family, parameters, low, high):
    found = leaf_within(family, np.array(parameters), low, high)
    x = np.arange(low, min(high, low + 6e5) + 1.0)
    mass = np.exp(ps.circuits.leaf("x", family, parameters).log_density(x[:, None]).values)
    mass = mass / mass.sum()
    assert found.mean() == pytest.approx(mass @ x, rel=1e-9)
    assert found.var() == pytest.approx(mass @ (x - mass @ x) ** 2, rel=1e-6)
    np.testing.assert_allclose(found.pmf(x[:5]), mass[:5], rtol=1e-7)
    np.testing.assert_allclose(found.cdf(x[:5]), np.cumsum(mass)[:5], rtol=1e-6)
    assert found.rvs(size=3, random_state=np.random.default_rng(0)).min() >= low


def raw(moment, low, high):
    """Mean and variance from E[X^k; low < X < high], k = 0, 1, 2."""
    total, first, second = (moment(k, high) - moment(k, low) for k in range(3))
    return first / total, second / total - (first / total) ** 2


def gamma_moment(shape):
    return lambda k, x: special.gammainc(shape + k, x) * special.poch(shape, k)


def weibull_moment(shape):
    return lambda k, x: special.gammainc(1.0 + k / shape, x**shape) * special.gamma(1.0 + k / shape)


def by_pieces(edges, lines):
    """Of a density that between edges is slope x + height."""

    def moment(k, x):
        ends = [(min(a, x), min(b, x), c) for (a, b), c in zip(pairwise(edges), lines, strict=True)]
        return sum(
            slope * (b ** (k + 2) - a ** (k + 2)) / (k + 2) + height * (b ** (k + 1) - a ** (k + 1)) / (k + 1)
            for a, b, (slope, height) in ends
        )

    return moment


@pytest.mark.parametrize(
    ("distribution", "low", "high", "moment"),
    [
        (stats.gamma(0.05), 1e-30, 2.0, gamma_moment(0.05)),
        (stats.weibull_min(0.3), 0.0, 1.0, weibull_moment(0.3)),
        (stats.triang(0.3), 0.1, 0.9, by_pieces((0.0, 0.3, 1.0), ((1 / 0.3, 0.0), (-1 / 0.7, 1 / 0.7)))),
        (
            stats.trapezoid(0.2, 0.21),
            0.1,
            1.0,
            by_pieces((0.0, 0.2, 0.21, 1.0), ((5.0, 0.0), (0.0, 1.0), (-1 / 0.79, 1 / 0.79))),
        ),
        (
            stats.rv_histogram((np.array([1.0, 5.0, 2.0, 9.0]), np.array([0.0, 1.0, 2.0, 4.0, 5.0])), density=True),
            0.5,
            4.3,
            by_pieces((0.0, 1.0, 2.0, 4.0, 5.0), ((0.0, 1.0), (0.0, 5.0), (0.0, 2.0), (0.0, 9.0))),
        ),
    ],
)
def test_moments_within_intervals_where_the_density_is_infinite_or_has_kinks(distribution, low, high, moment):
    own = np.empty(1, object)
    own[0] = distribution() if isinstance(distribution, stats.rv_histogram) else distribution
    found = leaf_within("scipy_continuous", own, low, high)
    # the references lose four digits at most in E[X^2] - E[X]^2
    np.testing.assert_allclose(found.stats("mv"), raw(moment, low, high), rtol=1e-11)


def test_far_counts_keep_their_variance():
    gaps = np.full((1, 1), np.nan)
    for p, low in ((0.3, 1e7), (1e-3, 1e12), (1e-5, 1e12)):  # what exceeds the count that is reached is geometric again
        found = ps.circuits.leaf("x", "geometric", (p,)).condition({"x": (low, None)}).moments(gaps)
        assert found["mean"].values[0, 0] - low == pytest.approx(
            (1.0 - p) / p, rel=1e-4 if low > 1e11 else 1e-8
        )  # of 1e12
        assert found["covariance"].values[0, 0, 0] == pytest.approx((1.0 - p) / p**2, rel=1e-11)
    for family, parameters, low in (
        ("negative_binomial", (2.0, 1.0), 1e6),
        ("negative_binomial", (0.05, 1.0), 1e6),
        ("negative_binomial", (30.0, 0.5), 1e5),
        ("poisson", (3.0,), 200.0),
    ):
        k = low + np.arange(400.0)
        a, b = (*parameters, 0.0)[:2]
        ratio = a / (k + 1.0) if family == "poisson" else (a + k) / ((k + 1.0) * (1.0 + b))
        mass = np.cumprod(np.append(1.0, ratio))
        away = np.arange(401.0)
        mean = mass @ away / mass.sum()
        found = ps.circuits.leaf("x", family, parameters).condition({"x": (low, None)}).moments(gaps)
        assert found["mean"].values[0, 0] == pytest.approx(low + mean, rel=1e-14)
        # Poisson masses are differences of logs near 200
        assert found["covariance"].values[0, 0, 0] == pytest.approx(mass @ (away - mean) ** 2 / mass.sum(), rel=1e-11)


def test_the_farthest_intervals_have_moments_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = leaf_within("student_t", np.array([0.0, 1.0, 3.0]), 1e150, 1e160)
        assert found.mean() == pytest.approx(1.5e150, rel=1e-9)  # of a density as x^-4
        assert found.var() == pytest.approx(0.75e300, rel=1e-8)
        found.logpdf(1e155)


def test_leaves_on_some_numbers():
    found = leaf_on(np.array([1.0, 4.0]), np.log([0.2, 0.6]))
    np.testing.assert_allclose(found.pmf([1, 2, 4]), [0.25, 0.0, 0.75])


def test_what_is_refused():
    circuit = ps.circuits.product_of(
        [ps.circuits.leaf("a", "gaussian", (0.0, 1.0)), ps.circuits.leaf("b", "bernoulli", (0.0,))]
    )
    with pytest.raises(ValueError, match="column 'b' cannot be 1, its probability is zero under the circuit"):
        circuit.condition({"b": 1})
    with pytest.raises(ValueError, match="its probability is zero under the circuit"):
        circuit.condition([{"b": 1}, {"b": {1}, "a": (0, 1)}])
    with pytest.raises(ValueError, match="given must leave a column"):
        circuit.condition({"a": 0.0, "b": 0})
