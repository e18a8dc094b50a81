"""Averages of partitions and distances from them, by all pairs of rows."""

import tracemalloc

import numpy as np
import pytest

from pymc_spn.networks import partitions
from pymc_spn.networks.partitions import average_togetherness, losses_of_partitions


@pytest.mark.parametrize(("n_draws", "n_rows"), [(9, 5), (4, 30), (1, 6), (6, 1), (3, 0)])
def test_losses_are_sums_over_pairs(n_draws, n_rows):
    rng = np.random.default_rng(n_rows)
    labels = rng.choice([0, 2, 7, 40], (n_draws, n_rows))
    weight = rng.dirichlet(np.ones(n_draws))
    together = labels[:, :, None] == labels[:, None, :]
    average = np.tensordot(weight, together, 1)
    expected = ((together - average) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(losses_of_partitions(labels, weight), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tile_values", [1, 40, 250_000])
def test_togetherness_is_a_sum_over_partitions(monkeypatch, tile_values):
    monkeypatch.setattr(partitions, "TILE_VALUES", tile_values)
    rng = np.random.default_rng(2)
    labels = rng.integers(-1, 5, (7, 33)).astype(np.int16)
    weight = rng.dirichlet(np.ones(7))
    expected = np.zeros((33, 33))
    for w, label in zip(weight, labels, strict=True):
        expected += w * (label[:, None] == label[None, :])
    assert np.array_equal(average_togetherness(labels, weight), expected)
    assert average_togetherness(labels[:, :0], weight).shape == (0, 0)


def test_togetherness_holds_no_second_table_of_pairs():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, (5, 1_500)).astype(np.int16)
    average_togetherness(labels[:, :2], np.full(5, 0.2))  # compiled
    tracemalloc.start()
    together = average_togetherness(labels, np.full(5, 0.2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * together.nbytes


def test_long_tables_need_no_matrix_of_pairs():
    """40,000 rows of 20 partitions: pairs of rows would take 13 GB."""
    rng = np.random.default_rng(0)
    side = rng.integers(0, 3, 40_000)
    labels = np.where(rng.random((20, side.size)) < np.linspace(0.02, 0.4, 20)[:, None], 3, side)
    losses = losses_of_partitions(labels, np.full(20, 0.05))
    assert losses.argmax() == 19
    some = rng.choice(side.size, 400, replace=False)
    few = losses_of_partitions(labels[:, some], np.full(20, 0.05))
    np.testing.assert_allclose(losses / side.size**2, few / 400**2, atol=0.02)
