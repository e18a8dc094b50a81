"""Rows of an explicit circuit drawn given an event: distribution functions of leaves, probabilities of the rest."""

import numpy as np
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.leaves.leaf_events import log_interval
from tests.shared_circuits import DENSITIES, PARAMETERS, WITH_A_FORMULA

N = 2_000
Z = 4.5  # standard errors of a share of N rows: one in 100,000 by chance


def is_share(found, exact):
    """Whether shares of N draws agree with probabilities within their binomial errors."""
    return np.all(np.abs(found - exact) <= Z * np.sqrt(exact * (1.0 - exact) / N) + 1e-12)


@pytest.mark.parametrize("family", WITH_A_FORMULA)
def test_a_leaf_is_drawn_within_its_interval(family):
    row = PARAMETERS[family](np.random.default_rng(3), 1, 4)
    one = ps.circuits.leaf("x", family, row[0])
    if family in ("bernoulli", "categorical"):  # of which the circuit knows that they are levels
        low, high = 0.0, 1.0
    else:
        low, high = 1.0, 6.0
    is_levels = family in ("bernoulli", "categorical")
    x = one.sample(N, random_seed=1, given={"x": {0, 1} if is_levels else (low, high)}).to_numpy()[:, 0]
    assert x.min() >= low
    assert x.max() <= high
    total = log_interval(family, row, low, high)
    if family in DENSITIES:
        test = stats.kstest(x, lambda t: np.exp(log_interval(family, row, low, t) - total))
        assert test.pvalue > 1e-4
    else:
        assert np.array_equal(x, np.round(x))
        values = np.arange(low, high + 1.0)
        exact = np.exp(log_interval(family, row, values, values) - total)
        assert is_share((x[:, None] == values).mean(axis=0), exact)


@pytest.fixture(scope="module")
def weather():
    """Two products of a wind, with masses none, and a number of turns; leaves of the package and of SciPy."""
    calm = ps.circuits.product_of(
        [ps.circuits.leaf("wind", stats.rice(2.0, scale=2.5)), ps.circuits.leaf("turns", "poisson", (0.5,))]
    )
    storm = ps.circuits.product_of(
        [ps.circuits.leaf("wind", "gaussian", (18.0, 3.0)), ps.circuits.leaf("turns", stats.nbinom(2.0, 0.4))]
    )
    return ps.circuits.mixture_of([calm, storm], [0.8, 0.2])


@pytest.mark.parametrize(
    "given",
    [
        {"wind": (8, None)},
        {"wind": [(0, 1), (14, 15)], "turns": {1, 3}},
        {"wind": 9.5},
        {"turns": 2},
        {"turns": {1: 0.5, 4: 0.1}, "wind": (None, 12)},
        [{"wind": (15, None)}, {"turns": (2, None)}],
        [{"wind": (6, 12)}, {"wind": (10, 20), "turns": {0}}, {"turns": {0, 5}}],
        "wind**2 < 9 or turns == 4",
    ],
)
def test_draws_have_the_probabilities_given_the_event(weather, given):
    rows = weather.sample(N, random_seed=5, given=given).to_numpy()
    for event, inside in (
        ({"turns": (1, None)}, rows[:, 1] >= 1.0),
        ({"turns": 1}, rows[:, 1] == 1.0),
        ({"wind": (None, 7)}, rows[:, 0] <= 7.0),
        ({"wind": (11, None)}, rows[:, 0] >= 11.0),
        ({"wind": (None, 2), "turns": {1, 4}}, (rows[:, 0] <= 2.0) & np.isin(rows[:, 1], (1.0, 4.0))),
    ):
        exact = weather.probability(event, given=given)
        assert is_share(inside.mean(), float(exact)), (event, inside.mean(), exact)


def test_far_tails_are_reached(weather):
    """Of the storm's wind beyond 60, fourteen standard deviations out, the excess is nearly exponential: mean 0.21."""
    rows = weather.sample(N, random_seed=6, given={"wind": (60, None)}).to_numpy()
    excess = rows[:, 0] - 60.0
    exact = stats.truncnorm(14.0, np.inf, 18.0, 3.0)
    assert excess.min() > 0.0
    assert abs(excess.mean() - (exact.mean() - 60.0)) < Z * exact.std() / np.sqrt(N)


def test_scipy_leaves_where_probabilities_underflow():
    one = ps.circuits.leaf("x", stats.gumbel_r(18.0, 3.0))
    assert stats.gumbel_r(18.0, 3.0).cdf(-3.0) == 0.0
    x = one.sample(300, random_seed=7, given={"x": (-5, -3)}).to_numpy()[:, 0]
    total = stats.gumbel_r(18.0, 3.0).logcdf(-3.0)  # beside it that of -5 is nothing: exp(-1,000)
    assert stats.kstest(x, lambda t: np.exp(stats.gumbel_r(18.0, 3.0).logcdf(t) - total)).pvalue > 1e-4


def test_bad_events_are_refused(weather):
    for given, error, message in (
        (
            {"wind": np.arange(3.0)},
            ValueError,
            "given: column 'wind' is continuous, a set of values has probability zero",
        ),
        ({"gust": (1, 2)}, ValueError, "given names column 'gust'"),
        ({"turns": 0.5}, ValueError, "given: column 'turns' cannot be 0.5.*is zero under the circuit"),
        ([], ValueError, "the list of events is empty"),
        (3, TypeError, "given must map column names"),
        ("wind > 3 and wind < 2", ValueError, "holds for no values"),
    ):
        with pytest.raises(error, match=message):
            weather.sample(2, given=given)
    assert weather.sample(0, given={"turns": 1}).to_numpy().shape == (0, 2)
