"""Ratios of gamma functions and masses of counts against sixty decimals."""

import numpy as np
import pytest
from numba import njit

from pymc_spn.numerics.gamma_ratios import log_counts, log_negative_binomial, log_rising, stirling_rest
from tests import decimals


@njit
def rising(a, m):
    return log_rising(a, m)


@njit
def negative_binomial(x, a, b):
    return log_negative_binomial(x, a, b, stirling_rest(a))


@njit
def marginal(total, n, a, b):
    return log_counts(total, n, a, b, stirling_rest(a))


@pytest.mark.parametrize("a", [1e-5, 0.7, 15.999, 16.0, 300.0, 1e5, 1e9, 2e13, 1e30])
@pytest.mark.parametrize("m", [0.0, 1e-3, 1.0, 40.0, 1e6, 1e11])
def test_rising_factorials(a, m):
    true = decimals.in_decimals(decimals.log_rising, a, m)
    assert rising(a, m) == pytest.approx(float(true), rel=2e-15, abs=2e-14 + 1e-15 * m * abs(np.log(a + m)))


@pytest.mark.parametrize("a", [0.01, 3.3, 16.0, 1e4, 1e8, 2e13])
@pytest.mark.parametrize("b", [1e-9, 0.3, 1.0, 77.0, 2e4])
def test_masses_of_counts(a, b):
    """Within some standard deviations of the mean, and at counts that have next to no mass."""
    mean, spread = a / b, np.sqrt(a / b * (1.0 + 1.0 / b))
    x = np.unique(np.floor(np.abs(mean + spread * np.array([-5.0, -1.0, -0.1, 0.0, 0.1, 1.0, 5.0]))))
    x = np.concatenate([[0.0, 1.0, 2.0, 15.0, 16.0, 17.0, 1e5, 1e9, 1e11], x[x < 1e12]])  # there are none beyond 1e11
    true = decimals.in_decimals(decimals.negative_binomial, x, a, b)
    found = np.array([negative_binomial(v, a, b) for v in x])
    np.testing.assert_allclose(found, true, rtol=3e-14, atol=1e-9)


@pytest.mark.parametrize("total", [1.0, 40.0, 2e10, 2e13])
@pytest.mark.parametrize("n", [1.0, 30.0, 2e4])
def test_marginals_of_counts(total, n):
    def less_its_largest(total, n, a, b):
        log_p = decimals.log_rising(a, total) + a * (b / (b + n)).ln() - total * (b + n).ln()
        return log_p - (total * (total / n).ln() - total)

    a, b = 3.3 * np.array([[1.0], [1e3], [1e20]]), 3.3e-9 * np.array([1.0, 1e6, 1e9])
    true = decimals.in_decimals(less_its_largest, total, n, a, b)
    found = np.reshape([marginal(total, n, *v) for v in np.broadcast(a, b)], true.shape)
    np.testing.assert_allclose(found, true, rtol=1e-13, atol=1e-11)
