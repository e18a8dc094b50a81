"""Entropy, mutual information, divergence and distribution functions of circuits with given parameters."""

import numpy as np
import pytest
from scipy import integrate, stats

import pymc_spn as ps
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.laws.log_tails import mean_log_beyond
from tests.hand_made_records import sampled_tree
from tests.random_circuits import column_families, random_circuit


def of_levels(seed, n_columns):
    """A mixture of two over columns of three levels."""
    rng = np.random.default_rng(seed)
    columns = [ps.Column(f"c{d}", "categorical", ("0", "1", "2"), "str") for d in range(n_columns)]
    parts = [[ps.circuits.leaf(c, "categorical", rng.dirichlet(np.ones(3))) for c in columns] for _ in range(2)]
    return ps.circuits.mixture_of([ps.circuits.product_of(leaves) for leaves in parts])


def blob(mean, sd, weight=None):
    return ps.circuits.product_of(
        [ps.circuits.leaf(name, "gaussian", (m, sd)) for name, m in zip("ab", mean, strict=True)]
    )


def test_closed_forms():
    gaussian = ps.circuits.leaf("x", "gaussian", (3.0, 2.0))
    found = gaussian.entropy()
    assert float(found) == pytest.approx(float(stats.norm(3, 2).entropy()), abs=1e-9)
    assert found.attrs["exactness"] == "numerical" and found.attrs["tolerance"] < 1e-8
    for leaf, reference in (
        (ps.circuits.leaf("x", "exponential", (0.5,)), stats.expon(scale=2.0)),
        (ps.circuits.leaf("x", "log_normal", (0.5, 1.2)), stats.lognorm(1.2, scale=np.exp(0.5))),
        (ps.circuits.leaf("x", "poisson", (12.0,)), stats.poisson(12.0)),
        (ps.circuits.leaf("x", stats.skewnorm(4.0)), stats.skewnorm(4.0)),
    ):
        found = leaf.entropy()
        assert abs(float(found) - float(reference.entropy())) < found.attrs["tolerance"] + 1e-6  # CONVERGED
        q = [1e-6, 0.1, 0.5, 0.999]
        np.testing.assert_allclose(leaf.quantile(q, "x"), reference.ppf(q), rtol=1e-8)
        np.testing.assert_allclose(leaf.cdf(reference.ppf(q), "x"), reference.cdf(reference.ppf(q)), rtol=1e-8)
    other = ps.circuits.leaf("x", "gaussian", (0.0, 1.0))
    assert float(gaussian.kl(other)) == pytest.approx(np.log(0.5) + (4.0 + 9.0) / 2.0 - 0.5, abs=1e-9)


@pytest.mark.parametrize(
    "scale, freedom, largest",
    [(0.5, 1.5, 0.2), (1.0, 2.0, 0.02), (0.1, 4.0, 1e-7), (0.3, 5.0, 1e-7), (1.0, 6.0, 1e-7), (3.0, 8.0, 1e-7)],
)
def test_long_tails_of_logs(scale, freedom, largest):
    # of x = exp(y) the entropy is that of y plus E y, here 0; the first two have mass beyond all numbers
    found = ps.circuits.leaf("x", "log_student_t", (0.0, scale, freedom)).entropy()
    assert abs(float(found) - stats.t(freedom, 0.0, scale).entropy()) < found.attrs["tolerance"] < largest


def test_an_entropy_that_does_not_exist_is_not_promised():
    for scale in (0.01, 1.0):
        assert ps.circuits.leaf("x", "log_student_t", (0.0, scale, 1.0)).entropy().attrs["tolerance"] == np.inf
    rare = ps.circuits.mixture_of(
        [ps.circuits.leaf("x", "log_normal", (0.0, 1.0)), ps.circuits.leaf("x", "log_student_t", (0.0, 1.0, 0.9))]
    )
    assert rare.entropy().attrs["tolerance"] == np.inf
    cut = rare.condition({"x": (0.01, 100.0)}).entropy()  # within an interval it exists
    parts = (stats.norm, stats.t(0.9))
    total = sum(part.cdf(np.log(100.0)) - part.cdf(np.log(0.01)) for part in parts)

    def surprise(y):
        p = sum(part.pdf(y) for part in parts) / total
        return p * (y - np.log(p))

    expected = integrate.quad(surprise, np.log(0.01), np.log(100.0), epsabs=1e-12)[0]
    assert abs(float(cut) - expected) < cut.attrs["tolerance"] < 1e-6


@pytest.mark.parametrize("freedom", [1.3, np.inf])
@pytest.mark.parametrize("within", [(0.0, np.inf), (0.01, 1e4)])
def test_mean_of_far_logs(freedom, within):
    law = stats.t(freedom, 0.0, 0.7) if np.isfinite(freedom) else stats.norm(0.0, 0.7)
    low, high = (-np.inf if end == 0.0 else np.log(end) for end in within)
    total = law.cdf(high) - law.cdf(low)
    ends = np.log(0.3), np.log(20.0)
    expected = sum(
        integrate.quad(lambda y: abs(y) * law.pdf(y), *pair)[0] for pair in ((low, ends[0]), (ends[1], high))
    )
    own = tuple(np.array([v]) for v in (0.0, 0.7, freedom))
    found = mean_log_beyond(own, within, np.array([np.log(total)]), tuple(np.exp(ends)))
    if within == (0.0, np.inf):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:  # where a tail is cut off: its mass at the farther end
        assert expected / total * (1.0 - 1e-9) < float(found[0]) < 6.0 * expected / total


def test_a_narrow_leaf_of_small_weight_counts():
    # far apart, so that the entropy is that of the parts and of which one it is
    mixture = ps.circuits.mixture_of(
        [ps.circuits.leaf("x", "gaussian", (0.0, 1.0)), ps.circuits.leaf("x", "gaussian", (50.0, 1e-4))], [0.999, 0.001]
    )
    parts = 0.999 * stats.norm().entropy() + 0.001 * stats.norm(0, 1e-4).entropy()
    found = mixture.entropy()
    assert abs(float(found) - parts - stats.entropy([0.999, 0.001])) < found.attrs["tolerance"] < 1e-6
    many = ps.circuits.mixture_of([ps.circuits.leaf("x", "gaussian", (i, 1e-3)) for i in range(60)]).entropy()
    assert abs(float(many) - stats.norm(0, 1e-3).entropy() - np.log(60)) < many.attrs["tolerance"] < 1e-3


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("gaussian", (0, 1)), ("gaussian", (0, 0.1)), np.log(0.1) + 49.5),  # the other underflows where this has mass
        (("gaussian", (0, 1)), ("gaussian", (40, 1)), 800.0),
        (("exponential", (1,)), ("exponential", (30,)), 29.0 - np.log(30.0)),
        (("poisson", (500,)), ("poisson", (5,)), 500.0 * np.log(100.0) - 495.0),
        (("lomax", (2.5, 1)), ("exponential", (1,)), np.log(2.5) - 3.5 / 2.5 + 1.0 / 1.5),
        (("log_normal", (0, 2)), ("exponential", (1,)), np.exp(2.0) - 0.5 * np.log(2.0 * np.pi * np.e * 4.0)),
        (("gaussian", (0, 1)), (stats.uniform(-8, 16),), np.inf),
        (("poisson", (3,)), ("binomial", (100, 0.03)), np.inf),
        (("poisson", (0.5,)), ("categorical", (0.3, 0.7)), np.inf),
    ],
)
def test_divergence_of_one_column(one, other, expected):
    found = ps.circuits.leaf("x", *one).kl(ps.circuits.leaf("x", *other))
    if np.isinf(expected):
        assert float(found) == np.inf
    else:
        assert abs(float(found) - expected) < found.attrs["tolerance"] + 1e-9 * expected
        assert found.attrs["tolerance"] < 1e-5


def test_divergence_from_masses_that_go_on():
    levels = ps.circuits.leaf("x", "categorical", (0.3, 0.7))
    expected = (
        stats.entropy([0.3, 0.7]) * -1.0 - 0.3 * stats.poisson(0.5).logpmf(0) - 0.7 * stats.poisson(0.5).logpmf(1)
    )
    for method in ("enumeration", "quadrature"):
        assert float(levels.kl(ps.circuits.leaf("x", "poisson", (0.5,)), method=method)) == pytest.approx(
            expected, abs=1e-12
        )


def test_a_column_that_underflows_does_not_make_all_infinite():
    one = ps.circuits.product_of([ps.circuits.leaf("a", "gaussian", (0, 1)), ps.circuits.leaf("b", "gaussian", (0, 1))])
    other = ps.circuits.product_of(
        [ps.circuits.leaf("a", "gaussian", (0, 0.1)), ps.circuits.leaf("b", "gaussian", (0, 1))]
    )
    found = one.kl(other, random_seed=1)
    assert abs(float(found) - np.log(0.1) - 49.5) < 5.0 * found.attrs["mcse"]


def test_mass_that_numbers_cannot_tell_apart_is_not_promised():
    for parameters in ((3.0, 0.02), (0.1, 0.1)):  # most of it, or some, is nearer to 1 than the number next to it
        assert ps.circuits.leaf("x", stats.beta(*parameters)).entropy().attrs["tolerance"] == np.inf
    near_zero = ps.circuits.leaf("x", stats.beta(0.02, 3.0)).entropy()
    assert abs(float(near_zero) - stats.beta(0.02, 3.0).entropy()) < 2.0 * near_zero.attrs["tolerance"] < 1e-2
    ends = ps.circuits.leaf("x", stats.arcsine()).entropy()
    assert abs(float(ends) - stats.arcsine().entropy()) < ends.attrs["tolerance"] < 1e-5


@pytest.mark.parametrize("seed", range(2))
def test_simulation_agrees_with_quadrature_and_closed_forms(seed):
    circuit = ParameterisedCircuit(*random_circuit(np.random.default_rng(seed), 3, mixed=True))
    how = {"method": "monte-carlo", "n": 10_000, "random_seed": seed}

    def agree(found, simulated):
        assert simulated.attrs["exactness"] == "monte-carlo"
        assert abs(float(found) - float(simulated)) < 5.0 * simulated.attrs["mcse"] + 1e-12

    other = ParameterisedCircuit(
        circuit.circuit, np.log(0.3 * np.exp(circuit.log_weights) + 0.7 / _degrees(circuit)), circuit.leaf_parameters
    )
    agree(circuit.entropy("x1"), circuit.entropy("x1", **how))
    agree(circuit.kl(other, "x2"), circuit.kl(other, "x2", **how))
    # of a column from the others: what they have together less what they have alone
    shared = circuit.mutual_information("x1", ["x0", "x2"], n=10_000, random_seed=seed)
    parts = [circuit.entropy(c, **how) for c in ("x1", ["x0", "x2"], None)]
    error = np.sqrt(sum(part.attrs["mcse"] ** 2 for part in parts))
    assert abs(float(shared) - float(parts[0] + parts[1] - parts[2])) < 5.0 * np.hypot(error, shared.attrs["mcse"])
    table = circuit.dependence(n=5_000, random_seed=seed)["mutual_information"]
    pair = circuit.mutual_information("x0", "x2", n=10_000, random_seed=seed)
    error = np.hypot(table.attrs.get("mcse", np.zeros((3, 3)))[0, 2], pair.attrs.get("mcse", 0.0))
    assert abs(float(table[0, 2]) - float(pair)) < 5.0 * error + 1e-12
    assert np.isnan(table.values.diagonal()).all()
    families = column_families(circuit.circuit)
    event = {"x0": {0.0, 1.0}} if families[0] == "categorical" else {"x0": (0.0, 2.0)}
    agree(circuit.entropy("x1", given=event), circuit.entropy("x1", given=event, **how))
    # a law from the one that it is conditioned to: minus the log of the event's probability
    part = circuit.condition(event)
    assert float(part.kl(circuit)) == pytest.approx(-float(circuit.log_probability(event)), rel=1e-9)
    assert float(circuit.kl(part)) == np.inf


def _degrees(circuit):
    edge_sum = circuit.circuit.edge_sum
    return np.bincount(edge_sum)[edge_sum]


def test_events():
    circuit = of_levels(3, 3)
    first, second = {"c0": {"0", "1"}}, [{"c1": "2"}, {"c2": "0"}]
    found = circuit.event_information(first, second)
    assert found.attrs == {"exactness": "exact"}
    p, q = float(circuit.probability(first)), float(circuit.probability(second))
    both = float(circuit.probability(first, given=second)) * q
    cells = np.array([[both, p - both], [q - both, 1.0 - p - q + both]])
    expected = stats.entropy(cells.ravel(), np.outer(cells.sum(axis=1), cells.sum(axis=0)).ravel())
    assert float(found) == pytest.approx(expected, abs=1e-13)
    assert float(circuit.event_information(first, first)) == pytest.approx(stats.entropy([p, 1.0 - p]), abs=1e-13)
    given = {"c2": {"0", "1"}}
    conditioned = circuit.condition(given)
    assert float(circuit.event_information(first, {"c1": "2"}, given)) == pytest.approx(
        float(conditioned.event_information(first, {"c1": "2"})), abs=1e-13
    )
    numbers = blob((0.0, 1.0), 2.0)
    assert float(numbers.event_information("a < 0", "b**2 < 1")) == pytest.approx(0.0, abs=1e-15)
    rare = 1e-14  # of both at once or neither: -p log p + p
    far = ps.circuits.mixture_of([blob((0.0, 0.0), 1.0), blob((50.0, 50.0), 1.0)], [1.0 - rare, rare])
    assert float(far.event_information("a > 25", "b > 25")) == pytest.approx(rare * (1.0 - np.log(rare)), rel=1e-10)
    with pytest.raises(ValueError, match="second: column 'b' cannot be at a point"):
        numbers.event_information({"a": (0, 1)}, {"b": 1.0})
    with pytest.raises(ValueError, match="first: column 'c0' has likelihoods"):
        circuit.event_information({"c0": {"0": 0.5}}, second)
    with pytest.raises(TypeError, match="first must map column names"):
        circuit.event_information(None, second)


def test_events_of_a_posterior_and_of_its_draws():
    post = ps.SPNPosterior.from_idata(sampled_tree("missing"))  # a positive column, a binary one, a count
    first, second, known = {"x0": (None, 1.0)}, {"x1": 1}, {"x2": (0, 2)}
    each = post.event_information(first, second, known, per_draw=True)
    p, q = (post.probability(event, known, per_draw=True).values for event in (first, second))
    both = post.probability({**first, **second}, known, per_draw=True).values
    cells = np.stack([both, p - both, q - both, 1.0 - p - q + both])
    alone = np.stack([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
    np.testing.assert_allclose(each, stats.entropy(cells, alone), atol=1e-12)
    assert post.event_information(first, second, known).attrs["mcse_chain"] > 0.0


COLUMNS = [ps.Column("l", "categorical", tuple(levels), "str") for levels in ("pq", "qp")]
LEVELS = [ps.circuits.leaf(column, "categorical", (0.5, 0.5)) for column in COLUMNS]


@pytest.mark.parametrize(
    ("ask", "message"),  # others stand in `tests/answers`
    [
        (lambda c: c.entropy("k"), "column 'k' takes .* counts, more than the"),
        (lambda c: c.entropy(["a", "c"], method="quadrature"), 'method="quadrature" is for a single column'),
        (lambda c: c.mutual_information("a", ["c", "a"]), "both name 'a'"),
        (lambda c: c.cdf(0.5, "c"), "'c' is categorical: its levels have no order"),
        (lambda c: c.kl(c.marginal("a")), "other must have the column 'c'"),
        (lambda c: LEVELS[0].kl(LEVELS[1]), r"must have the levels \('p', 'q'\) in the column 'l', in this order"),
    ],
)
def test_what_is_refused(ask, message):
    leaves = [("a", "gaussian", (0.0, 1.0)), ("c", "categorical", (0.5, 0.5)), ("k", "poisson", (1e6,))]
    with pytest.raises(ValueError, match=message):
        ask(ps.circuits.product_of([ps.circuits.leaf(*leaf) for leaf in leaves]))
