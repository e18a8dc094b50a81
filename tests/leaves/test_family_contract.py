"""What `leaf_family` promises, asked of every family and of some that are added here, over one column and several."""

import numpy as np
import pytest
from scipy import stats

from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.leaves.explicit_leaves import EXPLICIT, KERNELS, LEAF_FAMILIES, register
from pymc_spn.leaves.family_codes import IN_CIRCUITS, TABULATED
from pymc_spn.leaves.leaf_dispatch import by_family
from tests.shared_circuits import build
from tests.toy_families import toys

PARAMETERS = {
    "gaussian": (0.5, 2.0), "student_t": (0.5, 2.0, 5.0), "log_student_t": (0.5, 0.4, 5.0), "log_normal": (0.5, 0.4),
    "lomax": (3.0, 2.0), "exponential": (0.7,), "poisson": (3.0,), "negative_binomial": (2.0, 0.5),
    "geometric": (0.3,), "beta_geometric": (3.0, 2.0), "binomial": (7.0, 0.3), "beta_binomial": (7.0, 2.0, 3.0),
    "bernoulli": (0.3,),
    "categorical": (0.2, 0.5, 0.3), "scipy_continuous": stats.skewnorm(4.0), "scipy_discrete": stats.poisson(2.0),
}  # fmt: skip


BLOCK = [1.0, -2.0, 0.25, 1.2, 1.2, 9.0]  # standard deviations 0.5 and 3, correlation 0.8
WIDE = {
    "multivariate_gaussian[2]": BLOCK,
    "multivariate_student_t[3]": [5.0, 1.0, -2.0, 0.5, 0.25, 1.2, 0.1, 1.2, 9.0, -0.4, 0.1, -0.4, 1.0],
}
TOYS = {"rayleigh": [2.0], "joint_table": [0.1, 0.2, 0.05, 0.3, 0.05, 0.3]}


@pytest.fixture
def with_toys():
    """Families that are added here in the registry, and out of it again."""
    with toys():
        yield


def example(name, n):
    """Parameters (n, P) of one leaf, n times."""
    own = (PARAMETERS | WIDE | TOYS)[name]
    if LEAF_FAMILIES[name].holds_objects:
        return np.full((n, 1), own, object)
    return np.tile(np.array(own), (n, 1))


@pytest.mark.parametrize("name", [*PARAMETERS, *WIDE, *TOYS])
def test_every_family_answers_what_the_contract_promises(with_toys, name):
    family, n = LEAF_FAMILIES[name], 400
    p = example(name, n)
    assert family.problem(p) is None
    nothing = np.full((n, family.n_columns), np.nan)
    np.testing.assert_array_equal(family.log_density_of_rows(p, nothing), 0.0)
    rows = family.draw_missing(p, nothing, np.random.default_rng(1))
    logs = family.log_density_of_rows(p, rows)
    assert rows.shape == nothing.shape and np.all(np.isfinite(logs))
    for column in range(family.n_columns):  # the density of a row is that of its other columns times this one's
        others = rows.copy()
        others[:, column] = np.nan
        law, own = family.column_of_rows(p, others, column)
        rest = family.log_density_of_rows(p, others)
        np.testing.assert_allclose(law.log_density(own, rows[:, column]) + rest, logs, rtol=1e-10)
        below = np.exp(law.log_interval(own, np.full(n, -1e6), rows[:, column]))
        at = np.exp(law.log_interval(own, rows[:, column], rows[:, column]))
        u = below - at * np.random.default_rng(2).random(n)  # uniform whether or not there are masses
        assert stats.kstest(u, "uniform").pvalue > 1e-4
        seen = rows.copy()
        seen[::2, column] = np.nan
        drawn = family.draw_missing(p, seen, np.random.default_rng(3))
        np.testing.assert_array_equal(drawn[~np.isnan(seen)], seen[~np.isnan(seen)])
    low, high = np.full((2, family.n_columns), -1e6), np.full((2, family.n_columns), 1e6)
    high[1, 0] = np.median(rows[:, 0])
    whole, part = np.exp(family.log_probability_of_boxes(p[:2], low, high))
    assert whole == pytest.approx(1.0, abs=1e-6)
    assert part == pytest.approx((rows[:, 0] <= high[1, 0]).mean(), abs=0.13)  # five standard errors
    mean, covariance = family.moments_of_rows(p)
    assert mean.shape == (n, family.n_columns) and covariance.shape == (n, family.n_columns, family.n_columns)
    if np.all(np.isfinite(covariance[0])):
        error = 5.0 * np.sqrt(np.diag(covariance[0]) / n)
        assert np.all(np.abs(rows.mean(axis=0) - mean[0]) < error)


def test_correlated_gaps_are_drawn_given_what_is_seen():
    family = LEAF_FAMILIES["multivariate_gaussian[2]"]
    p = example("multivariate_gaussian[2]", 4000)
    rows = np.full((4000, 2), np.nan)
    rows[:, 0] = 1.6
    drawn = family.draw_missing(p, rows, np.random.default_rng(4))
    law = stats.norm(-2.0 + 0.8 * 3.0 * 0.6 / 0.5, 3.0 * 0.6)
    assert stats.kstest(drawn[:, 1], law.cdf).pvalue > 1e-4
    assert family.problem(np.array([[0.0, 0.0, 1.0, 1.5, 1.5, 1.0]])) == (
        0,
        "covariance must be symmetric and positive definite",
    )


def test_a_circuit_takes_a_family_that_was_added(with_toys):
    """Without a kernel of its own: densities, gaps, events, draws, moments and conditions."""
    circuit = build(
        [("sum", [1, 2]), ("product", [3, 4]), ("product", [5, 6]),
         ("leaf", 0, "rayleigh"), ("leaf", 1, "gaussian"), ("leaf", 0, "rayleigh"), ("leaf", 1, "gaussian")],
        ["x", "y"], ("rayleigh", "gaussian"),
    )  # fmt: skip
    weights = np.log([0.3, 0.7])
    parameters = {"rayleigh": [[1.0], [4.0]], "gaussian": [[-1.0, 1.0], [2.0, 0.5]]}
    rows = np.array([[0.5, 0.0], [3.0, np.nan], [np.nan, 1.0], [-1.0, 0.0]])
    by_hand = np.zeros(4)
    for w, (s,), (m, sd) in zip([0.3, 0.7], parameters["rayleigh"], parameters["gaussian"], strict=True):
        x, y = stats.rayleigh.pdf(rows[:, 0], scale=s), stats.norm.pdf(rows[:, 1], m, sd)
        by_hand += w * np.where(np.isnan(x), 1.0, x) * np.where(np.isnan(y), 1.0, y)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            circuit.with_parameters(weights, parameters).log_density(rows).values, np.log(by_hand), rtol=1e-12
        )
    model = ParameterisedCircuit(circuit, weights, parameters)
    shares = 0.3 * stats.rayleigh.cdf(2.0), 0.7 * stats.rayleigh.cdf(2.0, scale=4.0)
    assert float(model.probability({"x": (0.0, 2.0)})) == pytest.approx(sum(shares), rel=1e-12)
    drawn = circuit.with_parameters(weights, parameters).impute(np.full((3000, 2), np.nan), random_seed=5).to_numpy()
    cdf = lambda x: 0.3 * stats.rayleigh.cdf(x) + 0.7 * stats.rayleigh.cdf(x, scale=4.0)  # noqa: E731
    assert stats.kstest(drawn[:, 0], cdf).pvalue > 1e-4
    mean = circuit.with_parameters(weights, parameters).moments(np.full((1, 2), np.nan))["mean"].values[0]
    assert mean[0] == pytest.approx((0.3 * 1.0 + 0.7 * 4.0) * np.sqrt(np.pi / 2.0), rel=1e-12)
    given = model.condition({"x": (0.0, 2.0)})
    assert float(given.probability({"y": (-np.inf, 0.5)})) == pytest.approx(
        (shares[0] * stats.norm.cdf(0.5, -1.0, 1.0) + shares[1] * stats.norm.cdf(0.5, 2.0, 0.5)) / sum(shares),
        rel=1e-9,
    )


def test_the_registry_has_each_family_once():
    wide = {name.partition("[")[0] for name in WIDE}
    assert set(EXPLICIT) == set(PARAMETERS) == set(IN_CIRCUITS) - wide
    assert wide == {name for name, family in LEAF_FAMILIES.items() if family.n_columns == 0}
    assert set(KERNELS) == set(range(TABULATED))
    with pytest.raises(ValueError, match="family must have a name of its own, 'lomax' is known"):
        register(EXPLICIT["lomax"])


def test_branches_keep_their_own_names():
    """Two pieces with one name for different things of their modules and for their own numbers."""

    def first(x):
        inner = x + 1.0
        return inner

    def second(x):
        inner = 10.0 * x
        return inner

    chosen = by_family("chosen", "code", [(3, first), (4, first), (7, second)], lambda f: f, __file__)
    assert [chosen(code, 2.0) for code in (3, 4, 7, 99)] == [3.0, 3.0, 20.0, 20.0]
    with pytest.raises(TypeError, match=r"must take \['x'\], takes \['y'\]"):
        by_family("wrong", "code", [(1, first), (2, lambda y: y)], lambda f: f, __file__)
