"""Draws and moments of many rows at once: with different gaps, lost to linear space."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from tests.shared_circuits import build

MEAN = np.array([[0.0, 0.0, -2.0, 1.0], [60.0, 60.0, 3.0, 1.5], [30.0, 200.0, 7.0, -4.0]])  # of three components
SD = np.array([[1.0, 1.0, 0.5, 2.0], [1.0, 1.0, 1.5, 0.1], [0.8, 1.0, 1.0, 1.0]])
LOG_WEIGHTS = np.log([0.2, 0.3, 0.5])


def mixture_of_products():
    nodes = [("sum", [1, 2, 3]), *(("product", [4 + 4 * k + d for d in range(4)]) for k in range(3))]
    nodes += [("leaf", d, "gaussian") for _ in range(3) for d in range(4)]
    circuit = build(nodes, ["a", "b", "c", "d"], ("gaussian",))
    return circuit, {"gaussian": np.stack([MEAN, SD], axis=2).reshape(12, 2)}


def by_components(row):
    """Log density, mean and covariance of one row's missing cells from the components, in logs."""
    seen = ~np.isnan(row)
    logs = LOG_WEIGHTS + norm.logpdf(row[seen], MEAN[:, seen], SD[:, seen]).sum(axis=1)
    share = np.exp(logs - logsumexp(logs))
    mean = share @ MEAN
    cov = ((MEAN - mean).T * share) @ (MEAN - mean) + np.diag(share @ SD**2)
    mean[seen] = row[seen]
    cov[seen] = cov[:, seen] = 0.0
    return share, mean, cov


@pytest.mark.parametrize("lost", [False, True])
def test_moments_of_rows_with_different_gaps(lost):
    """A row between the components, of which no one has more than exp(-700), sends its block through logs."""
    circuit, parameters = mixture_of_products()
    rng = np.random.default_rng(3)
    component = rng.integers(0, 3, 70)
    values = rng.normal(MEAN[component], SD[component])
    values[rng.random(values.shape) < 0.4] = np.nan
    values[5] = np.nan
    if lost:
        values[[11, 40]] = [[0.0, 59.99, np.nan, np.nan], [60.0, np.nan, -120.0, np.nan]]
    got = circuit.with_parameters(LOG_WEIGHTS, parameters).moments(values)
    for n, row in enumerate(values):
        _, mean, cov = by_components(row)
        np.testing.assert_allclose(got["mean"].values[n], mean, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(got["covariance"].values[n], cov, rtol=1e-10, atol=1e-9)
    np.testing.assert_array_equal(got["covariance"], np.swapaxes(got["covariance"].values, 1, 2))


def test_draws_of_a_row_that_linear_space_loses():
    circuit, parameters = mixture_of_products()
    row = np.array([0.0, 59.99, np.nan, np.nan])  # the columns' largest leaves are of different components
    share, _, _ = by_components(row)
    assert 0.3 < share[0] < 0.7 and share[2] == 0.0
    n = 20_000
    drawn = circuit.with_parameters(LOG_WEIGHTS, parameters).impute(np.tile(row, (n, 1)), random_seed=1).to_numpy()
    first = (drawn[:, 2] < 0.0).mean()  # but for 2e-2 of the second component
    expected = share[:2] @ norm.cdf(0.0, MEAN[:2, 2], SD[:2, 2])
    assert abs(first - expected) < 4.5 * np.sqrt(expected * (1.0 - expected) / n)
