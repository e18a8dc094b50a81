"""Effective sample sizes of many averages at once are those of ArviZ, which takes one after the other."""

import tracemalloc

import numpy as np
import pytest
from arviz_stats.base import array_stats

from pymc_spn.numerics.effective_sizes import effective_sizes, mean_errors


def chains(n_chains, n_draws, n_values, rng):
    """Autoregressive chains, some of them far apart, in steps, constant, of any size, rare, trending, alternating."""
    values = rng.normal(size=(n_chains, n_draws, n_values))
    slope = rng.uniform(-0.95, 1.0, n_values)
    for t in range(1, n_draws):
        values[:, t] += slope * values[:, t - 1]
    values[..., ::7] += 20.0 * rng.normal(size=(n_chains, 1, len(range(0, n_values, 7))))
    values[..., 1::11] = np.round(values[..., 1::11])
    values[..., 2::13] = values[..., 2::13] > 2.0
    values[..., 5] = 3.0
    values[..., 6:9] *= [1e-20, 1e-13, 1e200]
    values[..., 9] = np.arange(n_draws) == 1
    values[..., 10] = np.arange(n_draws)
    values[..., 11] = np.arange(n_draws) % 2
    return values


@pytest.mark.parametrize("n_draws", [4, 5, 6, 7, 8, 9, 31, 100])
@pytest.mark.parametrize("n_chains", [1, 2, 3])
def test_effective_sizes_are_those_of_arviz(n_chains, n_draws):
    values = chains(n_chains, n_draws, 40, np.random.default_rng(n_draws))
    with np.errstate(all="ignore"):
        expected = array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean")
    np.testing.assert_allclose(effective_sizes(values), expected, rtol=1e-9)


def test_errors_of_means_are_those_of_arviz():
    values = np.random.default_rng(3).normal(size=(2, 40, 3, 4)).cumsum(axis=1)
    expected = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
    np.testing.assert_allclose(mean_errors(values), expected, rtol=1e-9)


def test_errors_of_many_events_take_less_memory_than_their_numbers():
    events = np.random.default_rng(4).random((4, 100, 25_000)) < 0.3
    tracemalloc.start()
    mean_errors(events)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * events.nbytes
