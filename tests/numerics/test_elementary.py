"""Branch-free elementary functions against forty-digit decimals, in loops as the kernels run them."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numba import njit
from scipy import special

from pymc_spn.numerics.elementary import (
    VECTOR_MATH,
    digamma,
    exp_or_zero,
    fast_exp,
    fast_log,
    fast_log1p,
    half_step_log_gamma,
)
from tests.decimals import log_gamma

TINY = np.finfo(np.float64).tiny  # smallest normal number
HUGE = np.finfo(np.float64).max


def over_arrays(function):
    @njit(error_model="numpy", fastmath=VECTOR_MATH)
    def loop(x):
        out = np.empty_like(x)
        for i in range(x.size):
            out[i] = function(x[i])
        return out

    return lambda x: loop(np.asarray(x, np.float64))


exps, logs, logs1p = over_arrays(fast_exp), over_arrays(fast_log), over_arrays(fast_log1p)
half_steps, digammas = over_arrays(half_step_log_gamma), over_arrays(digamma)


def exact(function, x):
    """Values in decimal arithmetic; each float argument is converted exactly."""
    with localcontext() as context:
        context.prec = 40
        return [function(Decimal(float(v))) for v in x]


def ulps(found, true):
    """Largest error in units of the spacing of floats at the true value."""
    return max(abs(Decimal(float(f)) - t) / Decimal(math.ulp(float(t))) for f, t in zip(found, true, strict=True))


def spread(rng, low, high, n=1500):
    return np.exp(rng.uniform(math.log(low), math.log(high), n))


def test_exponential():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            rng.uniform(-708, 700, 1500),
            rng.uniform(-1, 1, 1500),
            np.arange(-1021, 1010) * math.log(2) / 2,
            spread(rng, 1e-20, 1, 200),
            [0.0, -0.0, 700.0, -708.0],
        ]
    )
    x = x[(x >= -708) & (x <= 700)]
    assert ulps(exps(x), exact(Decimal.exp, x)) < 2.5  # 2.25 found; the polynomial alone is off by 0.8


def test_exponential_is_flat_far_below():
    below = exps([-708.0, -708.1, -745.0, -1e5, -1e300, -math.inf])
    np.testing.assert_array_equal(below, below[0])
    assert TINY < below[0] < 3.4e-308  # a normal number: flushing subnormals to zero changes nothing


def test_an_exponential_that_would_be_subnormal_is_zero():
    x = np.array([-707.9, -708.0, -745.0, -1e300, -math.inf, math.nan])
    assert over_arrays(exp_or_zero)(x).tolist() == [exps(x[:1])[0], 0.0, 0.0, 0.0, 0.0, 0.0]


def test_logarithm():
    rng = np.random.default_rng(2)
    edges = np.sqrt(0.5) * 2.0 ** np.arange(-30, 30)  # where the binary exponent is split off
    x = np.concatenate(
        [
            spread(rng, TINY, HUGE / 2),
            rng.uniform(0.5, 2.0, 1500),
            1 + np.concatenate([spread(rng, 1e-16, 0.1, 300), -spread(rng, 1e-16, 0.1, 300)]),
            np.nextafter(edges, 0),
            np.nextafter(edges, np.inf),
            [TINY, HUGE, 2.0, 0.5],
        ]
    )
    x = x[x != 1.0]
    assert ulps(logs(x), exact(Decimal.ln, x)) < 2.0
    assert logs([1.0])[0] == 0.0


def test_logarithm_of_one_plus_small():
    rng = np.random.default_rng(3)
    negative = -np.concatenate([spread(rng, 1e-20, 0.5), rng.uniform(0.5, 0.9999, 500)])
    t = np.concatenate(
        [spread(rng, TINY, 1e-10), spread(rng, 1e-10, 10.0), spread(rng, 10.0, HUGE / 2), [1.0, HUGE, TINY], negative]
    )

    def log1p(d):
        with localcontext() as context:
            context.prec = 400  # 1 + t keeps every digit of t
            u = 1 + d
        return u.ln() if abs(d) > Decimal("1e-15") else d * (1 - d / 2 + d * d / 3)

    assert ulps(logs1p(t), exact(log1p, t)) < 3.0
    assert logs1p([0.0])[0] == 0.0


@pytest.mark.parametrize(("low", "high", "bound"), [(1e-6, 13.0, 1e-14), (13.0, 50.0, 2.5e-15), (50.0, 1e6, 1e-15)])
def test_half_step_of_log_gamma(low, high, bound):
    a = np.concatenate([spread(np.random.default_rng(4), low, high, 400), [low, high]])
    half = Decimal("0.5")
    true = exact(lambda d: log_gamma(d + half) - log_gamma(d), a)
    assert np.abs(half_steps(a) - np.array(true, np.float64)).max() < bound


def test_half_step_is_smooth_where_the_series_takes_over():
    below, above = half_steps([np.nextafter(12.0, 0), 12.0])
    assert abs(below - above) < 1e-14


def test_half_step_tends_to_half_a_logarithm():
    a = np.array([1e9, 1e15, 1e100])
    np.testing.assert_allclose(half_steps(a), 0.5 * np.log(a), rtol=1e-10)


@pytest.mark.parametrize(
    ("low", "high", "relative", "absolute"),
    [(1e-300, 0.1, 2e-15, 0), (0.1, 9.0, 0, 2e-14), (9.0, 50.0, 0, 5e-15), (50.0, 1e16, 5e-16, 0)],
)
def test_digamma(low, high, relative, absolute):
    """Relative bounds where the root at 1.46 is far; from 8 on the series' first dropped term is 2e-14."""
    x = np.concatenate([spread(np.random.default_rng(5), low, high), [low, high]])
    np.testing.assert_allclose(digammas(x), special.digamma(x), rtol=relative, atol=absolute)


def test_a_wrong_last_digit_is_noticed():
    x = np.random.default_rng(6).uniform(0.5, 2.0, 500)
    assert ulps(np.log(x) * (1 + 2e-15), exact(Decimal.ln, x)) > 4.0
