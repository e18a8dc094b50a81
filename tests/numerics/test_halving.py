"""The smallest number that reaches a condition, against numbers that are known."""

import numpy as np
import pytest
from scipy.special import ndtr

from pymc_spn.numerics.halving import ordered, smallest_at_levels, smallest_reaching, smallest_whole_reaching


def test_integers_are_in_the_order_of_the_numbers():
    x = np.array([-np.inf, -1e300, -2.0, -5e-324, 0.0, 5e-324, 1.0, np.nextafter(1.0, 2.0), np.inf])
    integers = ordered(x)
    assert np.all(np.diff(integers) > 0)
    assert integers[7] - integers[6] == 1
    assert np.array_equal(ordered(integers).view(np.float64), x)


def test_the_last_digit_is_found_whatever_the_size():
    wanted = np.array([-1e300, -3.7, -5e-324, 0.0, 1e-320, 0.1, 2.0, 1e17])
    found = smallest_reaching(lambda x: x < wanted, np.full(8, -np.inf), np.full(8, np.inf))
    assert np.array_equal(found, wanted)
    assert not np.signbit(found[3])


def test_the_upper_end_stands_where_the_condition_holds_before_it():
    low, high = np.array([0.0, 1.0]), np.array([3.0, np.inf])
    assert np.array_equal(smallest_reaching(lambda x: np.ones(2, np.bool_), low, high), high)
    assert np.array_equal(smallest_reaching(lambda x: np.zeros(2, np.bool_), low, high), np.nextafter(low, np.inf))


def test_whole_numbers_are_found_from_any_guess():
    wanted = np.array([-1000.0, -1.0, 0.0, 1.0, 7.0, 1e9])
    for low, high in ((-1.0, 0.0), (-5e3, -4e3), (3.0, 4.0), (2e9, 3e9)):
        ends = np.full(6, low), np.full(6, high)
        found = smallest_whole_reaching(lambda x: x < wanted, *ends, -np.inf, 1e12)
        np.testing.assert_array_equal(found, wanted)
    counts = smallest_whole_reaching(lambda x: x < 0.0, np.array([3.0]), np.array([9.0]), -1.0, 1e12)
    assert counts[0] == 0.0  # below it nothing is looked for


SHAPES = {
    "smooth": lambda x: ndtr(x - 0.3),
    "narrow": lambda x: ndtr((x - 1e6) / 1e-3),
    "small": lambda x: -np.expm1(-np.maximum(x, 0.0) / 1e-200),
    "steps": lambda x: np.searchsorted(np.arange(-3.5, 4.0), x, side="right") / 8.0,
    "flat at levels": lambda x: 0.5 * np.clip(x, 0.0, 1.0) + 0.5 * np.clip(x - 2.0, 0.0, 1.0),
    "never": lambda x: np.zeros(x.size),
    "always": lambda x: np.ones(x.size),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_are_reached_where_halving_finds_them(shape):
    level = np.concatenate([[1e-300, 1e-12], np.linspace(0.005, 0.995, 199), [1.0 - 1e-12]])
    low, high = np.full(level.size, -np.inf), np.full(level.size, np.inf)
    n_values = 0

    def rise(x):
        nonlocal n_values
        n_values += x.size
        return SHAPES[shape](x)

    found = smallest_at_levels(rise, level, low, high)
    # where the values of neighbouring numbers go up and down by their rounding, either finds one of the crossings
    halved = smallest_reaching(lambda x: SHAPES[shape](x) < level, low, high)
    np.testing.assert_allclose(found, halved, rtol=2e-15, atol=0.0)
    assert n_values < (20 if shape in ("smooth", "narrow", "small", "flat at levels") else 64) * level.size


def test_whole_numbers_reach_levels():
    level = np.linspace(0.01, 0.99, 50)
    low, high = np.full(50, -(2.0**40)), np.full(50, 2.0**40)
    for rise in (lambda x: ndtr((x - 1e7) / 1e3), lambda x: ndtr(x - 0.3)):
        found = smallest_at_levels(rise, level, low, high, whole=True)
        assert np.array_equal(found, np.floor(found))
        assert np.all(rise(found) >= level)
        assert np.all(rise(found - 1.0) < level)
