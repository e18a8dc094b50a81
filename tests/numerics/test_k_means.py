"""k-means by codes of levels against Lloyd's algorithm on their indicators."""

import numpy as np
import pytest

from pymc_spn.numerics.k_means import join_points, k_means
from tests.reference_k_means import lloyd


def mixed_points(rng, n=200):
    """Points of two columns of numbers and two of levels with gaps, and the same as indicators times their weights."""
    columns, blocks = [], []
    for k, weight in ((0, 1.0), (5, 0.3), (0, 1.0), (3, 2.0)):
        missing = rng.random(n) < 0.2
        if k == 0:
            x = np.where(missing, 0.0, rng.normal(size=n))
            columns.append((x, np.empty(0), weight))
            blocks.append(x[:, None])
            continue
        x = np.where(missing, k, rng.integers(0, k, n))
        shares = np.bincount(x[~missing], minlength=k) / (~missing).sum()
        columns.append((x.astype(float), shares, weight))
        blocks.append(np.where(missing[:, None], shares, x[:, None] == np.arange(k)) * np.sqrt(weight))
    return join_points(columns), blocks


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("columns", [slice(0, 4), slice(1, 2), slice(2, 4)])
def test_clusters_of_some_rows_and_columns_are_those_of_their_indicators(seed, columns):
    points, blocks = mixed_points(np.random.default_rng(seed))
    rows = np.flatnonzero(np.random.default_rng(seed + 50).random(200) < 0.7)
    for rounds in (0, 1, 100):
        found = k_means(np.random.default_rng(seed), points, rows, columns.start, columns.stop, 3, rounds)
        expected = lloyd(np.hstack(blocks[columns])[rows], 3, np.random.default_rng(seed), rounds)
        np.testing.assert_array_equal(found, expected)


def test_rows_that_are_all_alike_are_one_cluster():
    points = join_points([(np.zeros(9), np.empty(0), 1.0), (np.full(9, 1.0), np.array([0.0, 1.0]), 1.0)])
    np.testing.assert_array_equal(k_means(np.random.default_rng(0), points, np.arange(9), 0, 2, 3, 10), 0)
