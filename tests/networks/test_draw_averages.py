"""Standard errors over the chains: those of ArviZ, however many they are."""

import tracemalloc

import numpy as np
from arviz_stats.base import array_stats

from pymc_spn.numerics.draw_averages import chain_error


def test_errors_are_the_spread_over_the_root_of_the_effective_size():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(60, 3, 5)).cumsum(axis=0)
    values[4, 1, 2], values[:, 0, 1] = np.inf, 2.0
    found = chain_error(values, 2)["mcse_chain"]
    others = np.where(np.isfinite(values), values, 0.0)
    sizes = array_stats.ess(others.reshape(2, 30, 3, 5), chain_axis=0, draw_axis=1, method="mean")
    expected = others.std(axis=0, ddof=1) / np.sqrt(sizes)
    expected[1, 2], expected[0, 1] = np.nan, 0.0
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_errors_of_many_values_take_less_memory_than_the_values():
    values = np.random.default_rng(2).normal(size=(400, 25_000))
    tracemalloc.start()
    chain_error(values, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes
