"""Inner products of circuits against enumeration, quadrature and closed forms."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import betabinom, norm

import pymc_spn as ps
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_inner_products import log_inner_products
from tests.random_circuits import random_circuit
from tests.shared_circuits import DENSITIES, LEAVES_BY_FAMILY, PARAMETERS, build, crossed_circuit, random_parameters

MASSES = tuple(f for f in PARAMETERS if f not in DENSITIES)
CLOSED = {
    ("gaussian", "gaussian"), ("log_normal", "log_normal"), ("exponential", "exponential"), ("gamma", "gamma"),
    ("exponential", "gamma"), ("gaussian", "exponential"), ("laplace", "laplace"),
    ("triangular", "triangular"), ("beta", "beta"),
}  # fmt: skip


def log_integral(family, p, other, q):
    """By 20 Gauss points on each of hundreds of pieces, in log x where values are positive."""
    positive = 0.0 in (EXPLICIT[family].lowest, EXPLICIT[other].lowest)
    bends = np.array(
        [v for row in (p, q) for v in row]
    )  # where Laplace and triangular leaves have kinks, uniform ones jumps
    far = 60.0 * 1.2 ** np.arange(60) if not positive else np.linspace(60.0, 300.0, 60)
    cuts = [np.arange(-60.0, 60.0, 0.1), far, -far, np.log(bends[bends > 0.0]) if positive else bends]
    cuts = np.unique(np.concatenate(cuts))
    node, weight = np.polynomial.legendre.leggauss(20)
    half = 0.5 * np.diff(cuts)[:, None]
    t = cuts[:-1, None] + half * (1.0 + node)
    x = np.exp(t) if positive else t
    with np.errstate(over="ignore"):
        logs = sum(EXPLICIT[f].log_density(np.asarray(row, float), x) for f, row in ((family, p), (other, q)))
    return logsumexp(logs + positive * t, b=half * weight)


@pytest.mark.parametrize(("family", "other"), list(combinations_with_replacement(DENSITIES, 2)))
def test_pairs_of_densities(family, other):
    """Against Gauss points on many short pieces; 1e-10 is what these and the leaves' logs lose to rounding."""
    found, error = log_inner_products(
        family, np.array(LEAVES_BY_FAMILY[family]), other, np.array(LEAVES_BY_FAMILY[other])
    )
    swapped, _ = log_inner_products(
        other, np.array(LEAVES_BY_FAMILY[other]), family, np.array(LEAVES_BY_FAMILY[family])
    )
    np.testing.assert_allclose(swapped.T, found, rtol=0, atol=1e-11)
    is_closed = bool({(family, other), (other, family)} & CLOSED) or "uniform" in (family, other)
    if family == other == "log_student_t":
        assert np.all(np.isposinf(found))
        return
    assert (error == 0.0) == is_closed and error < 1e-10
    for i, j in ((0, 0), (0, 1), (2, 0)):
        if np.isfinite(found[i, j]):
            assert found[i, j] == pytest.approx(
                log_integral(family, LEAVES_BY_FAMILY[family][i], other, LEAVES_BY_FAMILY[other][j]),
                rel=1e-10,
                abs=1e-10,
            )
        elif found[i, j] < 0.0:
            assert {"uniform", "triangular"} & {family, other}
        else:
            assert {"gamma", "weibull", "beta"} & {family, other}


@pytest.mark.parametrize(
    ("family", "p", "other", "q"),
    [
        ("student_t", [-1.72, 6.66, 24.21], "log_normal", [1.58, 1.17]),
        ("student_t", [-0.4, 6.16, 17.65], "gamma", [5.81, 0.6]),
        ("gaussian", [0.82, 0.36], "student_t", [-0.95, 0.3, 2.82]),
        ("laplace", [-1.2, 0.69], "gamma", [5.06, 2.52]),
    ],
)
def test_estimated_errors_are_not_too_small(family, p, other, q):
    """Pairs at which a rule with few points is off by 1e-8 to 1e-7 and takes itself to be right to 1e-13."""
    found, error = log_inner_products(family, np.array([p]), other, np.array([q]))
    assert found[0, 0] == pytest.approx(log_integral(family, p, other, q), rel=0, abs=1e-12) and error == 1e-11


@pytest.mark.parametrize(("family", "other"), list(combinations_with_replacement(MASSES, 2)))
def test_pairs_of_masses(family, other):
    """Against plain sums over so many counts that nothing is left."""
    rng = np.random.default_rng(7)
    p, q = PARAMETERS[family](rng, 2, 3), PARAMETERS[other](rng, 3, 4)
    found, error = log_inner_products(family, p, other, q)
    k = np.arange(20_000.0)
    terms = EXPLICIT[family].log_density(p[:, None, None], k) + EXPLICIT[other].log_density(q[None, :, None], k)
    np.testing.assert_allclose(found, logsumexp(terms, axis=2), rtol=0, atol=1e-12)
    assert error == 0.0


def test_sums_wait_for_masses_that_rise_again():
    """Beta-binomial leaves of 2,000 trials that are largest at both ends, and more so at the far one of the pair."""
    p = np.array([[2000.0, 0.3, 0.5], [2000.0, 0.5, 0.02]])
    found, _ = log_inner_products("beta_binomial", p, "beta_binomial", p)
    logs = betabinom.logpmf(np.arange(2001.0), *p.T[:, :, None])
    np.testing.assert_allclose(found, logsumexp(logs[:, None] + logs[None], axis=2), rtol=0, atol=1e-9)


def test_sums_with_a_rest_say_how_large_it_is():
    """Beta-geometric leaves of alpha 0.2 and 0.1: the sum over 300,000 counts, the rest by the power law."""
    p, q = np.array([[0.2, 3.0]]), np.array([[0.1, 2.0]])
    found, error = log_inner_products("beta_geometric", p, "beta_geometric", q)
    k = np.arange(3e5)
    terms = np.exp(EXPLICIT["beta_geometric"].log_density(p, k) + EXPLICIT["beta_geometric"].log_density(q, k))
    total = terms.sum() + terms[-1] * k[-1] / 1.3  # terms fall like k^-(0.2 + 0.1 + 2)
    assert 1e-9 < error < 1e-4
    assert abs(found[0, 0] - np.log(total)) < error
    with pytest.raises(
        ValueError, match="negative_binomial and negative_binomial leaves spread over more than 131,072"
    ):
        log_inner_products("negative_binomial", np.array([[2.0, 1e-7]]), "negative_binomial", np.array([[1.0, 1e-7]]))


@pytest.mark.parametrize(
    ("family", "p", "q", "exact"),
    [
        ("gamma", [1e12, 1e10], [1.5e12, 1.5000001e10], 8.03465573365029),
        ("gamma", [0.5, 0.01], [1e10, 2e8], -5.330961538557819),
        ("beta", [1e12, 2e12], [1.5e12, 3.0000003e12], 13.940504082443319),
        ("beta", [2e12, 100.0], [1e12, 60.0], 23.939129736214756),
        ("beta", [20.0, 1.7e7], [19.0, 1.7e7], 13.904415776767124),
    ],
)
def test_pairs_of_large_shapes(family, p, q, exact):
    """Logs of gamma functions lost 0.04 nats of what was said to be exact. By Stirling's series in 60 digits."""
    assert log_inner_products(family, np.array([p]), family, np.array([q]))[0][0, 0] == pytest.approx(exact, abs=1e-10)


def test_far_apart_and_nearly_equal():
    """Logs where the values underflow, and Laplace scales that differ in the last digits."""

    def value(family, p, other, q):
        return log_inner_products(family, np.array([p]), other, np.array([q]))[0][0, 0]

    assert value("gaussian", [0, 1], "gaussian", [2e3, 1]) == pytest.approx(-1e6 - 0.5 * np.log(4 * np.pi), rel=1e-15)
    assert value("laplace", [0, 1], "laplace", [2e3, 1]) == pytest.approx(-2000 + np.log(2001 / 4), rel=1e-15)
    k = np.arange(400.0)
    terms = EXPLICIT["poisson"].log_density(np.array([1e-3]), k) + EXPLICIT["poisson"].log_density(np.array([1e6]), k)
    assert value("poisson", [1e-3], "poisson", [1e6]) == pytest.approx(logsumexp(terms), rel=1e-14)
    near = value("laplace", [0, 1], "laplace", [3, 1 + 1e-13])
    assert near == pytest.approx(value("laplace", [0, 1], "laplace", [3, 1]), abs=1e-12)
    x = np.linspace(-30, 400, 200_001)  # the trapezoidal rule on smooth functions that vanish at the ends
    for family, p, other, q in (
        ("gaussian", [0.0, 1.0], "student_t", [300.0, 1.0, 5.0]),
        ("gaussian", [0.0, 1.0], "gaussian", [300.0, 5.0]),
        ("gamma", [900.0, 3.0], "gaussian", [5.0, 1.0]),
    ):
        logs = EXPLICIT[family].log_density(np.array(p), x) + EXPLICIT[other].log_density(np.array(q), x)
        found = value(family, p, other, q)
        assert found == pytest.approx(logsumexp(logs) + np.log(x[1] - x[0]), abs=1e-9)
    # weights, too, below the smallest float
    circuit = build([("sum", [1, 2]), ("leaf", 0, "gaussian"), ("leaf", 0, "gaussian")], ["a"], ("gaussian",))
    first = (circuit, np.array([np.log1p(-1e-300), -900.0]), {"gaussian": [[0.0, 1.0], [1e5, 1.0]]})
    second = (build([("leaf", 0, "gaussian")], ["a"], ("gaussian",)), np.zeros(0), {"gaussian": [[1e5, 1.0]]})
    assert float(ps.circuits.log_inner_product(first, second)) == pytest.approx(
        -900 - 0.5 * np.log(4 * np.pi), rel=1e-15
    )


def enumerated(first, second, levels):
    """Log of the sum over all rows of the product of two circuits' masses."""
    rows = np.array(list(product(range(levels), repeat=len(first[0].columns))), float)
    order = [first[0].names.index(name) for name in second[0].names]
    logs = first[0].with_parameters(*first[1:]).log_density(rows) + second[0].with_parameters(*second[1:]).log_density(
        rows[:, order]
    )
    return logsumexp(logs)


def circuits_of_levels(seed=0):
    """Two tensorised circuits of one random division, of different widths, and with columns in another order."""
    columns = ["a", "b", "c", "d", "e"]
    families = {c: ["categorical", "bernoulli"] if c == "b" else "categorical" for c in columns}
    rng = np.random.default_rng(seed)
    found = []
    for n_sums, n_leaves in ((3, 2), (2, 4)):
        circuit = ps.circuits.rat_spn(columns, families, repetitions=1, n_sums=n_sums, n_leaves=n_leaves, random_seed=4)
        found.append((circuit, *random_parameters(circuit, rng)))
    return found


def reordered(operand):
    """The same circuit with its columns the other way round."""
    circuit, log_weights, parameters = operand
    d = len(circuit.columns)
    turned = np.where(circuit.leaf_column >= 0, d - 1 - circuit.leaf_column, -1)
    arrays = (circuit.kind, circuit.child_ptr, circuit.children, turned, circuit.leaf_family)
    return ps.Circuit(*arrays, circuit.families, circuit.columns[::-1]), log_weights, parameters


def test_circuits_of_levels():
    first, second = circuits_of_levels()
    expected = enumerated(first, second, 3)
    found = ps.circuits.log_inner_product(first, second)
    assert found.attrs == {"exactness": "exact"} and found.name == "log_inner_product"
    assert float(found) == pytest.approx(expected, abs=1e-12)
    assert float(ps.circuits.log_inner_product(reordered(second), first)) == pytest.approx(expected, abs=1e-12)
    assert float(ps.circuits.renyi_entropy(second)) == pytest.approx(-enumerated(second, second, 3), abs=1e-12)


def test_circuit_over_a_mixed_table():
    """Gaussian mixtures on a grid beside levels: the trapezoidal rule is exact to rounding on them."""
    rng = np.random.default_rng(2)
    columns = {"x": "gaussian", "y": "gaussian", "c": "categorical"}
    circuit = ps.circuits.complete_tree(list(columns), n_children=3).circuit({c: [f] for c, f in columns.items()})
    first, second = ((circuit, *random_parameters(circuit, rng)) for _ in range(2))
    for _, _, parameters in (first, second):
        parameters["gaussian"][:, 1] += 0.3
    x = np.linspace(-25, 25, 251)
    rows = np.array(list(product(x, x, range(3))))
    logs = circuit.with_parameters(*first[1:]).log_density(rows) + circuit.with_parameters(*second[1:]).log_density(
        rows
    )
    expected = logsumexp(logs) + 2.0 * np.log(x[1] - x[0])
    assert float(ps.circuits.log_inner_product(first, second)) == pytest.approx(expected, abs=1e-9)


def test_factorised_circuits_are_products_of_their_leaves():
    families = ("gaussian", "poisson", "bernoulli", "student_t")
    circuit = build(
        [("product", [1, 2, 3, 4]), *(("leaf", d, f) for d, f in enumerate(families))], ["a", "b", "c", "d"], families
    )
    rng = np.random.default_rng(5)
    (_, p), (_, q) = (random_parameters(circuit, rng) for _ in range(2))
    found = ps.circuits.log_inner_product((circuit, [], p), (circuit, [], q))
    each = [log_inner_products(f, p[f], f, q[f])[0][0, 0] for f in families]
    assert float(found) == pytest.approx(sum(each), abs=1e-12)
    assert found.attrs["exactness"] == "numerical" and 0.0 < found.attrs["tolerance"] < 1e-9


LEVEL = "categorical"
COARSE = build(
    [("sum", [1, 2]), ("product", [3, 5]), ("product", [4, 6]), ("sum", [7, 8]), ("sum", [7, 8]),
     ("leaf", 2, LEVEL), ("leaf", 2, LEVEL), ("product", [9, 11]), ("product", [10, 12]),
     *(("leaf", d, LEVEL) for d in (0, 0, 1, 1))],
    ["a", "b", "c"], (LEVEL,),
)  # fmt: skip
FINE = build(  # with a sum below a sum, a product of one child and a node with two parents
    [("sum", [1, 3]), ("sum", [2, 3]), ("product", [5, 7, 9]), ("product", [4]), ("product", [6, 8, 10]),
     *(("leaf", d, LEVEL) for d in (0, 0, 1, 1, 2, 2))],
    ["a", "b", "c"], (LEVEL,),
)  # fmt: skip
NESTED = build(
    [("product", [1, 2]), ("leaf", 0, LEVEL), ("sum", [3, 4]), ("product", [5, 7]), ("product", [6, 8]),
     *(("leaf", d, LEVEL) for d in (1, 1, 2, 2))],
    ["a", "b", "c"], (LEVEL,),
)  # fmt: skip


@pytest.mark.parametrize("pair", [(COARSE, FINE), (FINE, FINE), (NESTED, FINE)])
def test_products_of_more_factors_against_fewer(pair):
    rng = np.random.default_rng(8)
    first, second = ((circuit, *random_parameters(circuit, rng)) for circuit in pair)
    expected = enumerated(first, second, 3)
    assert float(ps.circuits.log_inner_product(first, second)) == pytest.approx(expected, abs=1e-13)
    assert float(ps.circuits.log_inner_product(second, first)) == pytest.approx(expected, abs=1e-13)


def test_edges_of_weight_zero_do_not_count():
    """Products that divide their columns crosswise may stand below edges that are not there."""
    both = build(
        [("sum", [1, 2]), ("product", [3, 5]), ("product", [4, 6]), ("sum", [7]), ("sum", [8]),
         ("leaf", 0, LEVEL), ("leaf", 2, LEVEL), ("product", [9, 10]), ("product", [11, 12]),
         *(("leaf", d, LEVEL) for d in (1, 2, 0, 1))],
        ["a", "b", "c"], (LEVEL,),
    )  # fmt: skip
    _, parameters = random_parameters(both, np.random.default_rng(1))
    only = (both, [0.0, -np.inf, 0.0, 0.0], parameters)
    assert float(ps.circuits.renyi_entropy(only)) == pytest.approx(-enumerated(only, only, 3), abs=1e-13)
    with pytest.raises(ValueError, match=r"not compatible: product 1 of the first circuit, \('b', 'c'\) x \('a',\),"):
        ps.circuits.renyi_entropy((both, np.log([0.5, 0.5, 1.0, 1.0]), parameters))


def test_two_gaussians_by_hand():
    circuit = build([("leaf", 0, "gaussian")], ["a"], ("gaussian",))
    first, second = ((circuit, np.zeros(0), {"gaussian": [p]}) for p in ([1.0, 0.5], [2.0, 1.2]))
    both = norm(1.0, np.hypot(0.5, 1.2)).pdf(2.0)
    own, theirs = 0.5 / np.sqrt(np.pi) / 0.5, 0.5 / np.sqrt(np.pi) / 1.2
    assert float(ps.circuits.log_inner_product(first, second)) == pytest.approx(np.log(both), abs=1e-15)
    assert float(ps.circuits.renyi_entropy(first)) == pytest.approx(-np.log(own), abs=1e-15)
    assert float(ps.circuits.squared_l2_distance(first, second)) == pytest.approx(own + theirs - 2 * both, abs=1e-15)
    expected = -np.log(both / np.sqrt(own * theirs))
    assert float(ps.circuits.cauchy_schwarz_divergence(first, second)) == pytest.approx(expected, abs=1e-15)
    narrow = (circuit, np.zeros(0), {"gaussian": [[0.0, 1e-309]]})
    assert float(ps.circuits.squared_l2_distance(first, narrow)) == np.inf


def test_supports_that_do_not_meet():
    circuit = build([("leaf", 0, "uniform")], ["a"], ("uniform",))
    first, second = ((circuit, np.zeros(0), {"uniform": [p]}) for p in ([0.0, 1.0], [1.0, 3.0]))
    assert float(ps.circuits.log_inner_product(first, second)) == -np.inf
    assert float(ps.circuits.cauchy_schwarz_divergence(first, second)) == np.inf
    assert float(ps.circuits.squared_l2_distance(first, second)) == pytest.approx(1.5, abs=1e-15)


@settings(max_examples=15)
@property_of(seed=st.integers(0, 2**31))
def test_cauchy_and_schwarz(seed):
    """Symmetric; at most the root of the circuits' own; the angle of a circuit with itself is 0."""
    rng = np.random.default_rng(seed)
    first, second = random_circuit(rng, 2, mixed=False), random_circuit(rng, 2, mixed=False)
    both = float(ps.circuits.log_inner_product(first, second))
    assert both == pytest.approx(float(ps.circuits.log_inner_product(second, first)), rel=1e-12)
    assert both <= -0.5 * float(ps.circuits.renyi_entropy(first) + ps.circuits.renyi_entropy(second)) + 1e-12
    divergence = ps.circuits.cauchy_schwarz_divergence(first, second)
    assert (
        0.0
        <= float(divergence)
        == pytest.approx(float(ps.circuits.cauchy_schwarz_divergence(second, first)), abs=1e-12)
    )
    assert (
        float(ps.circuits.cauchy_schwarz_divergence(first, first))
        == 0.0
        == float(ps.circuits.squared_l2_distance(second, second))
    )
    assert float(ps.circuits.squared_l2_distance(first, second)) >= 0.0


def test_circuits_with_their_parameters_inside():
    first, second = circuits_of_levels()
    fit = ps.circuits.CircuitFit(*first, 0.0, np.zeros(1), True, np.zeros(1))
    assert float(ps.circuits.log_inner_product(fit, second)) == float(ps.circuits.log_inner_product(first, second))


LEAF = {f: build([("leaf", 0, f)], ["a"], (f,)) for f in ("gaussian", "poisson", "gamma", "log_student_t")}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (("gaussian", [[0, 1]]), ("poisson", [[2]]), "column 'a' must have densities in both circuits"),
        (("gamma", [[0.5, 1]]), ("gamma", [[0.4, 1]]), r"leaf 0 \(gamma, \[0.5, 1.0\]\) and leaf 0 .* 'a' is infinite"),
        (("log_student_t", [[0, 1, 3]]), ("gamma", [[0.4, 1]]), "densities grow too quickly towards 0"),
        (("gaussian", [[0, -1]]), ("gaussian", [[0, 1]]), "standard deviation positive"),
    ],
)  # fmt: skip
def test_refused_leaves(first, second, message):
    operands = [(LEAF[f], np.zeros(0), {f: rows}) for f, rows in (first, second)]
    with pytest.raises(ValueError, match=message):
        ps.circuits.log_inner_product(*operands)


def test_refused_circuits():
    rng = np.random.default_rng(1)
    circuit = crossed_circuit(2, 2, 2)
    good = (circuit, *random_parameters(circuit, rng))
    with pytest.raises(TypeError, match=r"second must have a circuit, log_weights and leaf_parameters, .* got Circuit"):
        ps.circuits.log_inner_product(good, circuit)
    with pytest.raises(ValueError, match="the same columns, 'x0' is only in the first"):
        ps.circuits.log_inner_product(good, (LEAF["gaussian"], np.zeros(0), {"gaussian": [[0, 1]]}))
    levels = [
        build([("leaf", 0, LEVEL)], [ps.Column("a", "categorical", tuple(names), "str")], (LEVEL,))
        for names in ("xy", "xz")
    ]
    with pytest.raises(ValueError, match="column 'a' must be of the same kind and levels"):
        ps.circuits.log_inner_product(*((c, np.zeros(0), {LEVEL: [[0.5, 0.5]]}) for c in levels))
    with pytest.raises(ValueError, match="log_weights must have shape"):
        ps.circuits.renyi_entropy((circuit, np.zeros(1), good[2]))
    split = random_circuit(np.random.default_rng(0), 4, mixed=False)
    with pytest.raises(ValueError, match=r"circuits are not compatible: product .* divide their columns crosswise"):
        ps.circuits.renyi_entropy(split)


# -- products --------------------------------------------------------------------------------------------------------

MEETING = [
    ("gaussian", "gaussian"), ("log_normal", "log_normal"), ("exponential", "exponential"), ("gamma", "gamma"),
    ("exponential", "gamma"), ("gamma", "exponential"), ("uniform", "uniform"), ("geometric", "geometric"),
    ("bernoulli", "bernoulli"), ("bernoulli", "categorical"), ("categorical", "bernoulli"),
    ("categorical", "categorical"),
]  # fmt: skip


def check_product(first, second, rows):
    """Densities are those of the two, multiplied and divided by the inner product."""
    found = ps.circuits.multiply(first, second)
    assert found.log_normaliser == float(ps.circuits.log_inner_product(first, second))
    order = [first[0].names.index(name) for name in second[0].names]
    whole = Parameterised(found.circuit, found.log_weights, found.leaf_parameters)
    logs = Parameterised(*first).log_density(rows) + Parameterised(*second).log_density(rows[:, order])
    assert np.isfinite(logs).any()  # of codes of no level they are not
    np.testing.assert_allclose(whole.log_density(rows), logs - found.log_normaliser, rtol=1e-12, atol=1e-11)
    return found


@pytest.mark.parametrize("pair", MEETING)
def test_products_of_leaves(pair):
    """Mixtures of two leaves each, at values inside and outside their supports."""
    rng = np.random.default_rng(4)
    first, second = (
        (c := build([("sum", [1, 2]), ("leaf", 0, f), ("leaf", 0, f)], ["a"], (f,)), *random_parameters(c, rng, 3 + i))
        for i, f in enumerate(pair)
    )
    rows = np.array([[-1.5], [0.0], [0.3], [1.0], [2.0], [3.0], [4.5], [9.0], [14.0]])
    found = check_product(first, second, rows)
    assert found.circuit.n_leaf == 4 and f"log normaliser {found.log_normaliser:.6g} nats" in repr(found)


@pytest.mark.parametrize("pair", [(COARSE, FINE), (FINE, FINE), (NESTED, FINE)])
def test_products_of_circuits_with_different_factors(pair):
    rng = np.random.default_rng(9)
    first, second = ((circuit, *random_parameters(circuit, rng)) for circuit in pair)
    found = check_product(first, second, np.array(list(product(range(3), repeat=3)), float))
    every = np.array(list(product(range(3), repeat=3)), float)
    assert logsumexp(found.log_density(every).values) == pytest.approx(0.0, abs=1e-12)


def test_products_of_wider_circuits():
    """Shared nodes, columns in another order; multiplied once more, and far from each other."""
    first, second = circuits_of_levels()
    rows = np.random.default_rng(1).integers(0, 3, (40, 5)).astype(float)
    rows[:, 1] = np.minimum(rows[:, 1], 1.0)
    found = check_product(first, reordered(second), rows)
    cube = ps.circuits.multiply(found, first)
    logs = 2.0 * first[0].with_parameters(*first[1:]).log_density(rows) + second[0].with_parameters(
        *second[1:]
    ).log_density(rows)
    expected = logs - found.log_normaliser - cube.log_normaliser
    np.testing.assert_allclose(cube.log_density(rows).values, expected, rtol=0, atol=1e-11)
    circuit = ps.circuits.complete_tree(["x", "y"], n_children=2).circuit({"x": ["gaussian"], "y": ["exponential"]})
    near, far = ((circuit, *random_parameters(circuit, np.random.default_rng(k))) for k in (1, 2))
    far[2]["gaussian"][:, 0] += 1e4
    found = check_product(near, far, np.array([[0.0, 1.0], [5e3, 2.0], [1e4, 0.1]]))
    assert found.log_normaliser < -1e5 and found.log_weights.min() < -1e6


def test_pairs_without_a_product_are_left_out():
    circuit = build([("sum", [1, 2]), ("leaf", 0, "uniform"), ("leaf", 0, "uniform")], ["a"], ("uniform",))
    first, second = (
        (circuit, np.log([0.4, 0.6]), {"uniform": rows}) for rows in ([[0, 1], [2, 4]], [[0.5, 3.0], [8, 9]])
    )
    found = check_product(first, second, np.array([[0.2], [0.7], [2.5], [3.5], [8.5]]))
    assert found.circuit.n_leaf == 2 and found.leaf_parameters["uniform"].tolist() == [[0.5, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("first", "second", "exact"),  # reference values with 40 digits
    [
        (("gaussian", [49.998856511189146, 0.004999885651118915]), ("gamma", [408638157.84746045, 8172176.099247261]),
         3.9096376338984715),
        (("log_normal", [-3.6249558968465143, 1e-4]), ("gamma", [26902505.53966079, 1009465000.7527529]),
         11.140755844618088),
        (("gaussian", [0.06296500842151069, 6.296500842151068e-08]),
         ("log_normal", [-2.765176586501189, 1.2463204635986518e-06]), 15.152024467019704),
    ],
)  # fmt: skip
def test_errors_of_narrow_leaves_far_from_0_are_within_the_claim(first, second, exact):
    """Terms that nearly cancel lose digits, of which no quadrature knows."""
    leaf = LEAF | {"log_normal": build([("leaf", 0, "log_normal")], ["a"], ("log_normal",))}
    found = ps.circuits.log_inner_product(*((leaf[f], np.zeros(0), {f: [row]}) for f, row in (first, second)))
    assert 1e-12 < abs(float(found) - exact) < found.attrs["tolerance"] < 1e-5


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            ("gaussian", [[0, 1]]),
            ("gamma", [[2, 1]]),
            "product of gaussian and gamma leaves in column 'a' is not a leaf",
        ),
        (("poisson", [[1]]), ("poisson", [[2]]), "product of poisson and poisson leaves in column 'a' is not a leaf"),
        (("uniform", [[0, 1]]), ("uniform", [[1, 2]]), "supports that meet"),
    ],
)
def test_refused_products(first, second, message):
    leaf = LEAF | {"uniform": build([("leaf", 0, "uniform")], ["a"], ("uniform",))}
    with pytest.raises(ValueError, match=message):
        ps.circuits.multiply(*((leaf[f], np.zeros(0), {f: rows}) for f, rows in (first, second)))
