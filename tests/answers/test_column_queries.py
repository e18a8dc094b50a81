"""Queries about single columns: against enumeration and quadrature of all states, and identities."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st
from scipy import integrate, stats

import pymc_spn as ps
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.raw_moments import raw_moments
from pymc_spn.leaves.family_codes import BINOMIAL, EXPONENTIAL, GAUSSIAN, GEOMETRIC, LOG_NORMAL, POISSON
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.leaf_predictives import Leaves, leaf_moments
from tests import reference_queries
from tests.hand_made_records import posterior_of, problem_of, sampled_tree, schema_of, tree_of

pytestmark = pytest.mark.usefixtures("integrated")

PROBLEMS = ["missing", "infinite_splits", "skewed"]
NEAR = [0.0, 0.4, 1.0, 2.5]


def test_cdf_within_a_set_and_of_a_binary_column():
    post = posterior_of("missing")
    counts = post.condition({"x2": {1, 3}})
    share = float(post.probability({"x2": 1})) / float(post.probability({"x2": {1, 3}}))
    np.testing.assert_allclose(counts.cdf([0, 1, 2, 3], "x2"), [0.0, share, share, 1.0], rtol=1e-12)
    assert counts.quantile([0.9 * share, 1.1 * share], "x2").values.tolist() == [1.0, 3.0]
    low = float(post.probability({"x1": 0}))
    np.testing.assert_allclose(post.cdf([-1, 0, 1], "x1"), [0.0, low, 1.0], rtol=1e-12)


@property_of(
    q=st.floats(0.001, 0.999), low=st.floats(0.0, 1.0), name=st.sampled_from(["missing", "depths", "infinite_missing"])
)
@settings(max_examples=8, deadline=None)
def test_a_quantile_is_where_the_cdf_reaches_its_level(q, low, name):
    post = posterior_of(name)
    known = {"x0": (low, low + 1.0)}
    x = float(post.quantile(q, "x0", known))
    assert low <= x <= low + 1.0
    assert float(post.cdf(x, "x0", known)) == pytest.approx(q, abs=1e-9)
    if name != "depths":
        count = float(post.quantile(q, "x2", known))
        assert float(post.cdf(count, "x2", known)) >= q > float(post.cdf(count - 1, "x2", known))


def test_quantiles_have_marks_shapes_and_ends():
    post = posterior_of("depths")
    found = post.quantile([0.0, 0.5, 1.0], "x1")
    assert (
        found.values[[0, 2]].tolist() == [-np.inf, np.inf] and found.attrs["exactness"] == "numerical given the draws"
    )
    assert post.quantile(1.0, "x0", {"x0": (0.5, 2.0)}) == 2.0
    each = post.quantile(0.5, "x1", per_draw=True)
    assert each.dims == ("chain", "draw")
    assert post.cdf(float(each[0, 3]), "x1", per_draw=True)[0, 3] == pytest.approx(0.5, abs=1e-9)
    chains = ps.SPNPosterior.from_idata(sampled_tree("depths"))
    error = chains.quantile(0.5, "x1").attrs["mcse_chain"]
    np.testing.assert_array_equal(chains.quantile([0.0, 0.5, 1.0], "x1").attrs["mcse_chain"], [np.nan, error, np.nan])
    # delta method: error of the cdf over the density, here by a difference
    x = float(chains.quantile(0.5, "x1"))
    slope = float(chains.cdf(x + 1e-4, "x1") - chains.cdf(x - 1e-4, "x1")) / 2e-4
    assert error == pytest.approx(chains.cdf(x, "x1").attrs["mcse_chain"] / slope, rel=1e-4)


def test_quantiles_stay_within_levels_and_sets():
    post = posterior_of("missing")
    assert post.quantile([0.0, 1.0], "x1").values.tolist() == [0.0, 1.0]
    assert post.quantile([0.0, 0.5, 1.0], "x1", {"x1": {1}}).values.tolist() == [1.0, 1.0, 1.0]
    assert post.quantile([0.0, 1.0], "x2", {"x2": {1, 4}}).values.tolist() == [1.0, 4.0]
    parts = post.condition([{"x2": {2}}, {"x2": (4, 6)}])
    assert parts.quantile([0.0, 1.0], "x2").values.tolist() == [2.0, 6.0]
    assert parts.quantile([0.0, 1.0], "x1").values.tolist() == [0.0, 1.0]


def one_leaf(code, parameters, event=None):
    return ColumnLaw(Leaves(np.array([code]), np.array([parameters])), np.ones(1), np.zeros(1, np.int64), event)


@pytest.mark.parametrize(
    ("code", "parameters", "levels"),
    [
        (LOG_NORMAL, [0.5, 0.4, 1.05, 0.01], [1e-6, 1e-3, 0.5, 0.999, 1 - 1e-6]),
        (GAUSSIAN, [1e6, 3.0, 2.0, 1e-8], [1e-300, 1e-100, 1e-6, 0.5, 1 - 1e-9]),
        (EXPONENTIAL, [0.3, 1e-5], [1e-18, 1e-9, 0.5, 1 - 1e-9]),
    ],
)
def test_quantiles_of_any_size_are_found_to_the_last_digits(code, parameters, levels):
    law = one_leaf(code, parameters)
    x = law.quantile(np.array(levels))
    assert (law.cdf(x)[0] >= levels).all()
    assert (law.cdf(np.nextafter(x, -np.inf))[0] < levels).all()
    assert one_leaf(LOG_NORMAL, [0.0, 0.4, 0.01, 2.0]).quantile(np.array([0.999]))[0] == np.inf  # beyond all floats


# ---- moments
@pytest.mark.parametrize(("name", "known"), [("missing", None), ("missing", (0.2, 1.5)), ("infinite_splits", None)])
def test_moments_are_those_of_all_states(name, known):
    post, problem = posterior_of(name), problem_of(name)
    given, ref = ({"x0": known}, {0: known}) if known else (None, {})
    total = reference_queries.expectation(problem, ref)
    for order in (1, 2, 3):
        found = post.moment(order, given)
        for d in (0, 1, 2) if known else (1, 2):
            exact = reference_queries.expectation(problem, ref, {d: order}) / total
            assert float(found[d]) == pytest.approx(exact, rel=1e-7)
    np.testing.assert_allclose(post.moment(1, given), post.mean(given), rtol=1e-8)
    np.testing.assert_allclose(post.moment(2, given, central=True), np.diag(post.cov(given)), rtol=1e-7)
    np.testing.assert_allclose(post.moment(1, given, central=True), 0.0, atol=1e-10)


def t_law(p):
    return stats.t(2 * p[2], loc=p[0], scale=np.sqrt((1 + 1 / p[1]) * p[3] / p[2]))


LAWS = {  # the predictive of a leaf with these parameters; of a log-normal one that of the logs
    GAUSSIAN: t_law,
    LOG_NORMAL: t_law,
    EXPONENTIAL: lambda p: stats.lomax(p[0], scale=p[1]),
    POISSON: lambda p: stats.nbinom(p[0], p[1] / (1 + p[1])),
    GEOMETRIC: lambda p: stats.betanbinom(1, *p[:2]),
    BINOMIAL: lambda p: stats.betabinom(p[2], *p[:2]),
}
T = [[0.5, 0.4, 3.5, 2.0], [-3.0, 7.0, 40.0, 9.0]]
RATES = [[5.5, 1.5, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]]
COUNTS = [[2.0, 0.05, 0.0, 0.0], [900.0, 3.0, 0.0, 0.0]]
ODDS = [[12.5, 3.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]]
TRIALS = [[0.4, 0.7, 9.0, 0.0], [70.0, 20.0, 300.0, 0.0]]
EVENTS = {
    GAUSSIAN: (T, [None, (-1.0, 2.0), (5.0, np.inf), (-1e5, 1e5)]),
    LOG_NORMAL: (T, [None, (1e-9, 0.9), (1.0, np.inf)]),
    EXPONENTIAL: (RATES, [None, (-1.0, 0.3), (2.0, np.inf)]),
    POISSON: (COUNTS, [None, (3.5, 20.0), (250.0, np.inf)]),
    GEOMETRIC: (ODDS, [None, (100.0, 900.0), (6.0, np.inf)]),
    BINOMIAL: (TRIALS, [None, (-1.0, 5.0), (3.0, np.inf)]),
}


def moments_by_law(code, law, low, high):
    """Moments of orders 0 to 4 about 0.3 given an interval, by quadrature or sums over SciPy's law."""
    if code in (POISSON, GEOMETRIC, BINOMIAL):
        x = np.arange(max(np.ceil(low), 0), min(high, 20_000) + 1)
        whole = [np.sum(law.pmf(x) * (x - 0.3) ** k) for k in range(5)]
    else:
        of = np.exp if code == LOG_NORMAL else float
        if code == LOG_NORMAL:
            low, high = np.log(low), np.log(high)
        low = max(low, law.support()[0])
        bulk = [*law.ppf([1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9]), -1e3, 1e3, 0.99, 1.01]
        bulk += [low + d for d in (0.01, 0.1, 0.3, 1.0, 3.0)] + [high - d for d in (0.1, 0.3, 1.0, 3.0)]
        cuts = [low, *sorted({c for c in bulk if low < c < high}), high]
        whole = [integral(lambda u, k=k: law.pdf(u) * (of(u) - 0.3) ** k, cuts) for k in range(5)]
    return np.array(whole) / whole[0]


def integral(function, cuts):
    return sum(integrate.quad(function, a, b, epsabs=0.0, epsrel=1e-11, limit=300)[0] for a, b in pairwise(cuts))


@pytest.mark.parametrize(("code", "event"), [(code, event) for code, (_, events) in EVENTS.items() for event in events])
def test_leaves_within_an_interval(code, event):
    """Moments, mean and variance by SciPy's law; `circuits/test_event_draws` has the draws."""
    table, within = np.array(EVENTS[code][0]), None if event is None else Interval(*event)
    leaves = Leaves(np.full(2, code), table)
    found, (mean, variance) = raw_moments(leaves, 0.3, 4, within), leaf_moments(leaves, within)
    for i, p in enumerate(table):
        law, (low, high) = LAWS[code](p), event or (-np.inf, np.inf)
        if code == LOG_NORMAL and np.isinf(high):
            assert (found[i, 1:] == np.inf).all() and mean[i] == np.inf
            continue
        exact = moments_by_law(code, law, low, high)
        np.testing.assert_allclose(found[i], exact, rtol=1e-7)
        assert mean[i] - 0.3 == pytest.approx(exact[1], rel=1e-8)
        assert variance[i] + (mean[i] - 0.3) ** 2 == pytest.approx(exact[2], rel=2e-7) and variance[i] >= 0


@pytest.mark.parametrize("shape", [1.1, 1.5, 4.0])
def test_heavy_tails_are_not_cut_off(shape):
    """Means above an end in closed form: of a t law by its density there, of a Lomax law by its memory."""
    student = Leaves(np.full(1, GAUSSIAN), np.array([[1.0, 2.0, 0.5 * shape, 3.0]]))
    law = stats.t(shape, loc=1.0, scale=np.sqrt(1.5 * 3.0 / (0.5 * shape)))
    for low in (0.0, 2.5, 1e6):
        z = (low - 1.0) / law.kwds["scale"]
        above = (shape + z * z) / (shape - 1.0) * stats.t.pdf(z, shape) / stats.t.sf(z, shape)
        found = raw_moments(student, 0.0, 1, Interval(low, np.inf))[0]
        np.testing.assert_allclose(found, [1.0, 1.0 + law.kwds["scale"] * above], rtol=1e-9)
        mirrored = raw_moments(student, 2.0, 1, Interval(-np.inf, 2.0 - low))[0]
        np.testing.assert_allclose(mirrored, [1.0, -1.0 - law.kwds["scale"] * above], rtol=1e-9)
    lomax = Leaves(np.full(1, EXPONENTIAL), np.array([[shape, 2.0, 0.0, 0.0]]))
    for low in (0.0, 3.0, 1e9):
        found = raw_moments(lomax, 0.0, 1, Interval(low, np.inf))[0]
        np.testing.assert_allclose(found, [1.0, low + (2.0 + low) / (shape - 1.0)], rtol=1e-9)
    far = raw_moments(student, 0.0, 1, Interval(1e19, 1e20))[0, 1]  # a power law there
    a, b = (x ** (1 - shape) for x in (1e19, 1e20))
    expected = shape / (shape - 1.0) * (a - b) / (1e19**-shape - 1e20**-shape)
    assert far == pytest.approx(expected, rel=1e-9)
    assert raw_moments(lomax, 0.0, 1, Interval(1e19, 1e20))[0, 1] == pytest.approx(expected, rel=1e-9)
    assert raw_moments(lomax, 0.0, 1, Interval(-np.inf, 3.0))[0, 1] < 3.0


def test_moments_that_do_not_exist():
    leaves = Leaves(np.full(1, GAUSSIAN), np.array([[1.0, 1.0, 1.5, 1.0]]))  # three degrees of freedom
    found = raw_moments(leaves, 0.0, 4)[0]
    assert np.isfinite(found[:3]).all() and np.isnan(found[3]) and found[4] == np.inf
    post = posterior_of("depths")
    assert post.moment(8).attrs["no_moment"] == ["x0", "x1"]


# ---- families
def test_leaf_types_count_the_rows_of_each_family():
    schema = schema_of(problem_of("missing"))
    infinite = replace(schema.structure, n_children=0 * schema.structure.n_children)
    schema = replace(schema, structure=infinite)  # with digits beyond the number of entries
    digits = np.zeros((1, 3, 3, 5), np.int8)
    region = schema.structure.leaf_region
    digits[0, :, :, region[0]] = [[0, 0, 1], [0, 1, 1], [2, 3, 3]]  # even: Gaussian, odd: Exponential
    digits[0, :, 1, region[0]] = -1  # missing in the second row
    post = ps.SPNPosterior.from_idata(
        tree_of(schema, problem_of("missing").X, digits, np.ones((1, 3, 2)), np.ones((1, 3)))
    )
    found = post.leaf_types("x0")
    assert found["family"].values.tolist() == ["gaussian", "exponential"]
    np.testing.assert_array_equal(found[0], [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert post.leaf_types("x1").values.ravel().tolist() == [1.0, 1.0, 1.0]


# ---- refusals
