"""Logs of gamma variates and of Dirichlet draws against SciPy's distributions."""

import numpy as np
import pytest
from scipy import stats

from pymc_spn.numerics.gamma_draws import log_dirichlet, log_gamma_draw


# Seeds are fixed; a shape off by a tenth gives a p-value below 1e-3.
@pytest.mark.parametrize("shape", (0.003, 0.25, 0.999, 1.0, 1.5, 40.0))
def test_draws_follow_the_distribution(shape):
    rng = np.random.default_rng(2)
    draws = [log_gamma_draw(rng, shape) for _ in range(20_000)]
    assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue > 0.01
    if shape >= 0.25:
        assert stats.kstest(draws, stats.loggamma(1.1 * shape).cdf).pvalue < 1e-3


def test_dirichlet_draws_follow_the_distribution():
    mass = np.array([0.02, 1.0, 3.5])
    drawn = log_dirichlet(np.random.default_rng(1), np.tile(mass, (20_000, 1)))
    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(np.exp(drawn).sum(axis=1), 1.0, rtol=1e-12)
    for k, a in enumerate(mass):
        assert stats.kstest(np.exp(drawn[:, k]), stats.beta(a, mass.sum() - a).cdf).pvalue > 0.01
