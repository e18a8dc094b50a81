"""Levels that rising functions reach, against SciPy's inverses and numbers that are known."""

import numpy as np
import pytest
from scipy import stats

from pymc_spn.numerics.halving import reach_levels

LEVELS = np.array([1e-12, 0.01, 0.3, 0.5, 0.9, 1.0 - 1e-9])


def found_of(laws, levels, low, high, start, length):
    """Quantiles (M, Q) of frozen distributions, one a row."""
    shape = len(laws), levels.size
    return reach_levels(
        lambda rows, x: np.stack([laws[m].cdf(x[i]) for i, m in enumerate(rows)]),
        lambda rows, x: np.stack([laws[m].pdf(x[i]) for i, m in enumerate(rows)]),
        levels, np.full(shape, low), np.full(shape, high), np.full(shape, start), np.full(len(laws), length),
    )  # fmt: skip


@pytest.mark.parametrize("start", [0.0, 3.0, -200.0])
def test_quantiles_of_bells_and_long_tails(start):
    laws = [stats.norm(1.0, 0.1), stats.t(1.5, 2.0, 30.0), stats.laplace(-5.0, 1e-3)]
    found = found_of(laws, LEVELS, -np.inf, np.inf, start, 1.0)
    for law, x in zip(laws, found, strict=True):
        # near 1 the distribution function itself is known to its rounding alone
        slack = 1e-12 * law.std() if np.isfinite(law.std()) else 1e-10
        reach = 4e-15 * LEVELS / np.maximum(law.pdf(law.ppf(LEVELS)), 1e-300)
        assert (np.abs(x - law.ppf(LEVELS)) <= slack + 4.0 * reach + 1e-13 * np.abs(x)).all()


def test_an_end_stands_where_nothing_before_it_reaches_the_level():
    law = stats.expon()
    assert found_of([law], np.array([1.0 - 1e-12]), 0.0, 2.0, 1.0, 1.0)[0, 0] == 2.0


def test_a_step_is_found_to_the_last_digit():
    """Newton's method has nothing to go by where the function is flat; halving has."""
    at = np.array([[-3.7, 1e-300, 0.1, 1e17]])
    found = reach_levels(
        lambda rows, x: (x >= at).astype(np.float64), lambda rows, x: np.zeros(x.shape),
        np.full(4, 0.5), np.full((1, 4), -np.inf), np.full((1, 4), np.inf), np.zeros((1, 4)), np.ones(1),
    )  # fmt: skip
    np.testing.assert_array_equal(found, at)


def test_what_is_found_is_not_evaluated_again_row_by_row():
    laws, seen = [stats.norm(), stats.norm(50.0, 1e-6)], []

    def cdf(rows, x):
        seen.append(rows.size)
        return np.stack([laws[m].cdf(x[i]) for i, m in enumerate(rows)])

    reach_levels(
        cdf, lambda rows, x: np.stack([laws[m].pdf(x[i]) for i, m in enumerate(rows)]),
        np.array([0.5]), np.full((2, 1), -np.inf), np.full((2, 1), np.inf), np.zeros((2, 1)), np.ones(2),
    )  # fmt: skip
    assert seen[0] == 2 and seen[-1] == 1 and len(seen) < 60
