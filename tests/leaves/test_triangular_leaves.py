"""Triangular leaves where they differ from smooth ones: corners, jumps, tips of no mass, and knots that they share."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of, rows_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_inner_products import log_inner_products
from tests.random_circuits import random_mixture
from tests.shared_circuits import build

LEAF = build([("leaf", 0, "triangular")], ["a"], ("triangular",))
FAMILIES = ("triangular", "gaussian")
SHAPES = ([-1.0, 0.5, 3.0], [-1.0, -1.0, 3.0], [-1.0, 3.0, 3.0])


def density(row, x):
    """In fractions, both ends included."""
    lower, mode, upper = map(Fraction, row)
    if not lower <= x <= upper:
        return Fraction(0)
    if x == mode:
        return 2 / (upper - lower)
    share = (x - lower) / (mode - lower) if x < mode else (upper - x) / (upper - mode)
    return 2 * share / (upper - lower)


def log_fraction(x):
    if x > 1e-300:
        return math.log(x)
    return math.log(x.numerator) - math.log(x.denominator) if x else -math.inf


@pytest.mark.parametrize("row", SHAPES)
def test_corners_belong_to_the_leaf_where_its_mode_is(row):
    """One by one and in blocks, against fractions; a distance of 1e-310 from 0 is no normal float any more."""
    x = np.array([-1.0, np.nextafter(-1.0, 0), 0.0, 0.5, np.nextafter(0.5, 1), 2.9, 3.0, np.nextafter(3.0, 4), -9.0])
    expected = [log_fraction(density(row, Fraction(v))) for v in x]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(EXPLICIT["triangular"].log_density(np.array(row), x), expected, rtol=1e-15)
    for rows in (x[:, None], np.tile(x, 2)[:, None]):
        found = LEAF.with_parameters(np.zeros(0), {"triangular": [row]}).log_density(rows).values
        np.testing.assert_allclose(found, np.resize(expected, len(rows)), rtol=1e-14)
    tip = LEAF.with_parameters(np.zeros(0), {"triangular": [[0.0, 1.0, 2.0]]}).log_density([[1e-310]]).values
    assert tip[0] == pytest.approx(math.log(1e-310), rel=1e-14)


@pytest.mark.parametrize("row", SHAPES)
def test_gradients_on_both_sides_of_the_mode_and_at_it(row):
    """Against differences; at the mode the log density is largest in the mode, where its derivative jumps through 0."""
    flat = flatten(LEAF, {"triangular": np.array([row])})
    packed = pack(compile_circuit(LEAF).layout, 1, flat.begin, flat.width)
    own, step = flat.theta, 1e-6
    free = [i for i in range(3) if i == 1 or own[i] != own[1]] if 0.5 in row else [2 if own[1] < 0 else 0]
    for x in (-0.4, 2.2):
        value = np.array([[x]])
        _, _, of_theta, of_value = rows_and_gradient_of(packed, value, np.zeros(0), own, np.ones(1))
        for i in free:
            moved = np.eye(3)[i] * step
            ends = [rows_of(packed, value, np.zeros(0), own + s * moved)[0] for s in (1.0, -1.0)]
            assert of_theta[i] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-8)
        ends = [rows_of(packed, value + s * step, np.zeros(0), own)[0] for s in (1.0, -1.0)]
        assert of_value[0, 0] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    _, _, of_theta, of_value = rows_and_gradient_of(packed, np.array([[row[1]]]), np.zeros(0), own, np.ones(1))
    np.testing.assert_allclose(of_theta, [0.25, 0.0, -0.25], rtol=1e-15)
    assert of_value[0, 0] == 0.0
    for outside in (-1.5, 3.5):
        rows, *gradients = rows_and_gradient_of(packed, np.array([[outside]]), np.zeros(0), own, np.ones(1))
        assert np.isneginf(rows[0]) and not any(g.any() for g in gradients)


def test_intervals_keep_their_digits_at_the_tips():
    """Against fractions, also where the probability is below the smallest float."""

    def below(row, x):
        lower, mode, upper = map(Fraction, row)
        x = min(max(Fraction(x), lower), upper)
        left = (min(x, mode) - lower) ** 2 / (mode - lower) if mode > lower else Fraction(0)
        if x <= mode:
            return left / (upper - lower)
        return 1 - (upper - x) ** 2 / ((upper - mode) * (upper - lower))

    pairs = [
        (-2.0, -1.0 + 1e-9),
        (-0.999, -0.99),
        (0.4, 0.6),
        (2.999999, 9.0),
        (3.0, 5.0),
        (0.5, 0.5),
        (1.0, 1 + 1e-12),
    ]
    for row in SHAPES:
        for low, high in pairs:
            exact = below(row, high) - below(row, low)
            found = log_interval("triangular", np.array(row), low, high)
            assert found == pytest.approx(log_fraction(exact), rel=1e-13, abs=1e-13)
        assert log_interval("triangular", np.array(row), -np.inf, np.inf) == pytest.approx(0.0, abs=1e-15)
    tip = log_interval("triangular", np.array([0.0, 1.0, 2.0]), 0.0, 1e-200)
    assert tip == pytest.approx(-400 * math.log(10) - math.log(2), rel=1e-15)
    # the distribution function, and an event that cuts the leaf on both sides
    ask = lambda *event: LEAF.with_parameters(np.zeros(0), {"triangular": [SHAPES[0]]}).probability({"a": event})  # noqa: E731
    assert ask(None, 1.0) == pytest.approx(stats.triang(0.375, -1, 4).cdf(1.0), rel=1e-14)
    assert ask(0.0, 2.0) == pytest.approx(float(below(SHAPES[0], 2) - below(SHAPES[0], 0)), rel=1e-14)


@pytest.mark.parametrize("row", SHAPES)
def test_draws_and_moments(row):
    """Kolmogorov-Smirnov; 1e-4 is the probability of a false alarm. Nothing is drawn where the density is 0."""
    exact = stats.triang((row[1] + 1.0) / 4.0, -1.0, 4.0)
    parameters = {"triangular": np.array([row])}
    x = LEAF.with_parameters(np.zeros(0), parameters).sample(20_000, random_seed=1).to_numpy()
    assert stats.kstest(x[:, 0], exact.cdf).pvalue > 1e-4 > stats.kstest(x[:, 0] + 0.1, exact.cdf).pvalue
    assert np.isfinite(LEAF.with_parameters(np.zeros(0), parameters).log_density(x).values).all()
    found = LEAF.with_parameters(np.zeros(0), parameters).moments([[np.nan]])
    np.testing.assert_allclose(
        [found["mean"].values[0, 0], found["covariance"].values[0, 0, 0]], [exact.mean(), exact.var()], rtol=1e-14
    )


def exact_product(p, q):
    """Between all corners the product is a parabola: Milne's open rule, exact in fractions."""
    cuts = sorted({*map(Fraction, p), *map(Fraction, q)})
    total = Fraction(0)
    for a, b in pairwise(cuts):
        at = [density(p, x) * density(q, x) for x in ((3 * a + b) / 4, (a + b) / 2, (a + 3 * b) / 4)]
        total += (b - a) / 3 * (2 * at[0] - at[1] + 2 * at[2])
    return total


def test_inner_products_of_two_against_fractions():
    """Scales from 1e-8 to 1e5, far from 0, one-sided and with common corners; 1e-12 is some hundred roundings."""
    rng = np.random.default_rng(0)
    n_positive = 0
    for i in range(300):
        offset, scales = rng.choice([0.0, 1.0, 1e3, -1e9]), 10.0 ** rng.integers(-8, 6, 2)
        p, q = (np.sort(offset + s * rng.normal(size=3)) for s in scales)
        p[1] = p[rng.integers(0, 3)]
        q[i % 3] = p[i // 3 % 3] if i % 2 else q[i % 3]
        q = np.sort(q)
        if p[0] == p[2] or q[0] == q[2]:
            continue
        found = log_inner_products("triangular", p[None], "triangular", q[None])[0][0, 0]
        exact = log_fraction(exact_product(p, q))
        n_positive += exact > -np.inf
        assert found == pytest.approx(exact, rel=1e-12, abs=1e-12)
    assert n_positive > 150


NEXT = 1e4 + 1e-5
RATIO = (NEXT - 1e4) / 1e-3  # of the width of a leaf that only rises and the scale of a Laplace leaf far below


@pytest.mark.parametrize(
    ("family", "own", "row", "exact"),
    [
        ("exponential", [2.0], [0.0, 1.0, 1.0], np.log1p(-3 * np.exp(-2.0))),
        ("exponential", [1e9], [0.0, 1.0, 1.0], np.log(2e-9)),
        ("exponential", [1e3], [2.0, 3.0, 3.0], -2e3 + np.log(2e-3)),
        (
            "laplace",
            [9999.0, 1e-3],
            [1e4, NEXT, NEXT],
            -1e3 + np.log(1e3 / RATIO**2 * (1 - (1 + RATIO) / np.exp(RATIO))),
        ),
        ("gaussian", [7.0, 1e4], [7.0 - 1e-6, 7.0, 7.0 + 1e-6], np.log(stats.norm.pdf(0.0) * 1e-4)),
        ("lomax", [1.0, 1.0], [0.0, 0.0, 1.0], np.log(2.0 - 2.0 * np.log(2.0))),
        ("log_normal", [-3.0, 2.0], [-2.0, -1.0, 0.0], -np.inf),
    ],
)
def test_inner_products_with_others(family, own, row, exact):
    """Where closed forms are short: at the tip of a leaf, far below one, narrow far from 0; where they do not meet."""
    found, error = log_inner_products(family, np.array([own]), "triangular", np.array([row]))
    assert found[0, 0] == pytest.approx(exact, rel=0, abs=1e-10) and error < 1e-8


@pytest.mark.parametrize(
    ("own", "row", "exact", "most"),  # closed forms in 80 digits
    [
        ([1e3, 0.1], [1e3 + 7, 1e3 + 8, 1e3 + 9], -2461.719125918462735, 1e-9),
        ([0.0, 1.0], [1e4, 1e4 + 1e-3, 1e4 + 2e-3], -50000005.52419955146, 1e-7),
        ([1e6, 1e-2], [1e6 + 1, 1e6 + 2, 1e6 + 3], -5014.734748986237675, 1e-5),
        ([1e5, 1e-3], [1e5 + 0.5, 1e5 + 0.5 + 2.0**-20, 1e5 + 1], -125005.9762229667101, 1e-4),
    ],
)
def test_errors_in_tails_are_within_the_claim(own, row, exact, most):
    """A rounded position costs the more, the steeper the other leaf is there."""
    found, error = log_inner_products("gaussian", np.array([own]), "triangular", np.array([row]))
    assert abs(found[0, 0] - exact) < error < most


def test_products_with_triangular_leaves_are_no_leaves():
    leaf = (LEAF, np.zeros(0), {"triangular": [SHAPES[0]]})
    with pytest.raises(ValueError, match="product of triangular and triangular leaves in column 'a' is not a leaf"):
        ps.circuits.multiply(leaf, leaf)


@pytest.mark.parametrize("end", [-1.0, 1.0])
@pytest.mark.parametrize("bell", [0.3, 2.0])
def test_a_bell_whose_mode_is_at_an_end(end, bell):
    """The largest value is near the end, inside: bounds from slopes at that face must take those of the inside."""
    circuit = build([("sum", [1, 2]), ("leaf", 0, "triangular"), ("leaf", 0, "gaussian")], ["a"], FAMILIES)
    parameters = {"triangular": [[-1.0, 0.0, 1.0]], "gaussian": [[end, bell]]}
    found = circuit.with_parameters(np.log([0.4, 0.6]), parameters).mpe()
    x = found.value["a"].item()
    fine = np.concatenate([np.linspace(-1.5, 1.5, 3001), x + np.linspace(-1e-3, 1e-3, 2001)])[:, None]
    largest = circuit.with_parameters(np.log([0.4, 0.6]), parameters).log_density(fine).values.max()
    assert found.certified and largest - 1e-6 <= float(found.log_density) <= float(found.upper_bound)
    assert largest <= float(found.upper_bound)


@pytest.mark.parametrize("seed", range(8))
def test_maxima_where_corners_fall_together(seed):
    """Triangles and bells whose corners and modes are whole numbers, beside leaves that jump there."""
    rng = np.random.default_rng(seed)
    circuit, log_weights, parameters = random_mixture(rng, [FAMILIES], 6)
    for row in parameters.get("triangular", ()):
        row[:] = np.sort(rng.choice(np.arange(-3.0, 5.0), 3, replace=False))[[0, rng.integers(0, 3), 2]]
    for row in parameters.get("gaussian", ()):
        row[0] = rng.integers(-3, 5)
    found = circuit.with_parameters(log_weights, parameters).mpe()
    x = np.linspace(-4.0, 5.0, 9001)[:, None]
    assert found.certified
    assert (
        circuit.with_parameters(log_weights, parameters).log_density(x).values.max() <= float(found.upper_bound) + 1e-10
    )
