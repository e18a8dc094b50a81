"""The smallest number that reaches a condition, against numbers that are known."""

import numpy as np

from pymc_spn.numerics.halving import ordered, smallest_reaching, smallest_whole_reaching


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
