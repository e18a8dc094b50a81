"""The recording grid of numeric columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_spn.tables import resolution
from pymc_spn.tables.resolution import are_clumped


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.mark.parametrize("grid", [0.5, 0.001, 0.005, 0.25, 0.0254, 1.0, 5.0, 7.0, 50.0, 1000.0, 2e-9, 3e14])
@pytest.mark.parametrize("sign", [0, -1])
def test_grid_is_found(rng, grid, sign):
    values = grid * rng.integers(sign * 400, 400, 500)
    assert resolution(values) == pytest.approx(grid, rel=1e-12)


def test_printed_decimals_give_the_exact_float(rng):
    assert resolution(rng.normal(size=500).round(3)) == 0.001
    assert resolution(rng.integers(0, 30, 500)) == 1.0


def test_continuous_values_have_none(rng):
    for values in (
        rng.normal(size=1000),
        rng.normal(size=20),
        rng.gamma(0.1, size=1000),
        1e9 * rng.normal(size=1000),
        rng.normal(size=1000).astype("float32"),
        np.exp(20 * rng.normal(size=1000)),
    ):
        assert resolution(values) == 0.0


def test_noise_of_storage_is_tolerated(rng):
    values = rng.integers(1, 900, 500)
    assert resolution(values * 0.1 * 3 / 3 + 1e-17) == 0.1
    assert resolution((values / 1000).astype("float32")) == 0.001
    assert resolution(np.cumsum(np.full(500, 0.1))) == 0.1
    assert resolution(values + 1e-3 * rng.random(500)) == 0.0  # within a thousandth, but not noise


@pytest.mark.parametrize(("strays", "expected"), [(9, 5.0), (30, 1.0)])
def test_two_per_cent_may_lie_off_the_grid(rng, strays, expected):
    values = 5 * rng.integers(1, 200, 500)
    values[:strays] += 1
    assert resolution(values) == expected
    assert resolution(np.append(values, np.pi)) == expected


@pytest.mark.parametrize(("strays", "expected"), [(9, 0.5), (30, 0.0)])
def test_continuous_strays(rng, strays, expected):
    values = 0.5 * rng.integers(1, 200, 500)
    values[:strays] = rng.normal(size=strays)
    assert resolution(values) == expected


def test_zeros_have_no_say(rng):
    values = np.zeros(1000)
    values[:10] = rng.normal(size=10)  # 99 % on any grid
    assert resolution(values) == 0.0
    values[:10] = 0.25 * np.arange(3, 13)
    assert resolution(values) == 0.25


def test_few_values():
    assert resolution([]) == 0.0
    assert resolution([np.nan, np.nan]) == 0.0
    assert resolution(np.zeros(4)) == 1.0
    assert resolution([7.3, 7.3]) == 0.1
    assert resolution([50, 50]) == 1.0
    assert resolution([np.pi, np.pi]) == 0.0
    assert resolution([0, 50, np.nan]) == 50.0
    assert resolution(np.repeat([7.3, 7.4], [999, 1])) == 0.1  # not 7.3
    assert isinstance(resolution(np.array([1, 2], dtype="uint8")), float)


def test_small_values():
    assert resolution([2e-300, 3e-300]) == pytest.approx(1e-300)
    assert resolution([2e-310, 3e-310]) == 0.0  # subnormal: too few digits for a grid
    assert resolution([5e-324]) == 0.0


def test_infinite_values_are_refused():
    with pytest.raises(ValueError, match="values must be finite or NaN, got -inf"):
        resolution([1.0, -np.inf])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-5000, 5000), min_size=2, max_size=60),
    st.integers(1, 999),
    st.integers(0, 6),
    st.booleans(),
)
def test_values_lie_on_the_grid_found(integers, step, decimals, negate):
    values = np.array([step * k for k in integers]) / 10.0**decimals
    grid = resolution(values)
    assert grid > 0
    if np.unique(values).size > 1:
        multiples = values / grid
        assert np.mean(np.abs(multiples - np.rint(multiples)) < 1e-6) >= 0.98
        assert grid >= step / 10.0**decimals * (1 - 1e-9)
    assert resolution(-values if negate else values[::-1]) == grid


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), max_size=20))
def test_any_values_are_answered(values):
    assert 0.0 <= resolution(values) < np.inf


@pytest.mark.parametrize("offset", [50.0, 101_325.0, 1.7e9])
def test_small_differences_on_a_large_offset_are_no_noise(offset):
    """Not a grid as wide as the offset, whatever the offset; nor with two offsets, of which each is a multiple."""
    rng = np.random.default_rng(0)
    one = offset + 1e-3 * rng.normal(size=200)
    assert resolution(one) < 1e-4
    assert resolution(np.concatenate([one, 2.0 * offset + 1e-3 * rng.normal(size=200)])) < 1e-4
    assert resolution(offset + rng.integers(0, 50, 200)) == 1.0


def test_values_that_come_again_are_told_from_smooth_ones_on_a_grid(rng):
    """Normal values, these on a fine and on a coarse grid, 25 values that repeat with and without noise, huge ones."""
    x = rng.normal(size=500)
    again = rng.normal(size=25)[rng.integers(0, 25, 500)]
    columns = [x, np.round(x, 2), np.round(2.0 * x) / 2.0, again, again + rng.normal(0.0, 1e-4, 500), 1e200 * x]
    gaps = np.where(rng.random((500, 6)) < 0.1, np.nan, np.stack(columns, axis=1))
    expected = [False, False, False, True, True, False]
    np.testing.assert_array_equal(are_clumped(gaps, [0.0, 0.01, 0.5, 0.0, 0.0, 0.0]), expected)
