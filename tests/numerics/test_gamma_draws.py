"""Logs of gamma variates against SciPy's distribution."""

import numpy as np
import pytest
from scipy import stats

from pymc_spn.numerics.gamma_draws import log_gamma_draw, log_gamma_draws

SHAPES = (0.003, 0.25, 0.999, 1.0, 1.5, 40.0)


def draw_many(rng, shape):
    out, *scratch = (np.empty(shape.size) for _ in range(4))
    log_gamma_draws(rng, shape, out, *scratch)
    return out


# Seeds are fixed; a shape off by 2% gives p-values below 1e-3 at these sizes (tried at 0.25 and 40).
@pytest.mark.parametrize("shape", SHAPES)
def test_many_draws_follow_the_distribution(shape):
    draws = draw_many(np.random.default_rng(1), np.full(100_000, shape))
    assert np.isfinite(draws).all()
    assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue > 0.01


@pytest.mark.parametrize("shape", SHAPES)
def test_single_draws_follow_the_distribution(shape):
    rng = np.random.default_rng(2)
    draws = [log_gamma_draw(rng, shape) for _ in range(20_000)]
    assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue > 0.01


def test_each_variate_has_its_own_shape():
    shape = np.tile([0.2, 1.7, 300.0], 20_000)
    draws = draw_many(np.random.default_rng(3), shape).reshape(-1, 3)
    for column, a in zip(draws.T, shape[:3], strict=True):
        assert stats.kstest(column, stats.loggamma(a).cdf).pvalue > 0.01


def test_a_wrong_shape_is_noticed():
    for shape in (0.25, 40.0):
        draws = draw_many(np.random.default_rng(1), np.full(100_000, 1.02 * shape))
        assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue < 1e-3


def test_draws_come_from_the_generator():
    shape = np.linspace(0.1, 3.0, 50)
    first, again, other = (draw_many(np.random.default_rng(seed), shape) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).any()
