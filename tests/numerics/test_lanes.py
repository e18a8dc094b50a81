"""Vectors of eight: every operation against NumPy, at the edges of float64 too."""

import numpy as np
import pytest
from numba import njit

from pymc_spn.numerics import lanes
from pymc_spn.numerics.lanes import LANES

RNG = np.random.default_rng(0)
TINY = np.finfo(np.float64).tiny  # smallest normal number
A = np.concatenate([RNG.normal(size=LANES), [0.0, -0.0, np.inf, TINY, 1e300, 1.0, -2.0, 0.5]])
B = np.concatenate([RNG.normal(size=LANES), [0.0, 1.0, 2.0, TINY, -1e300, 0.0, 4.0, -0.5]])
POSITIVE = np.array([1.0, 1.5, 2.0, 3.999, TINY, 1e-300, 1e300, 7.0])


def applied(operation, *arrays):
    """The operation on groups of eight of the arrays."""

    @njit
    def two(a, b, out):
        for i in range(a.size // LANES):
            lanes.store(out, i, operation(lanes.load(a, i), lanes.load(b, i)))

    @njit
    def one(a, out):
        for i in range(a.size // LANES):
            lanes.store(out, i, operation(lanes.load(a, i)))

    out = np.full(arrays[0].size, np.nan)
    (one if len(arrays) == 1 else two)(*arrays, out)
    return out


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lanes.mul, lambda a, b: a * b),
        (lanes.add, lambda a, b: a + b),
        (lanes.larger, lambda a, b: np.where(a > b, a, b)),
        (lanes.smaller, lambda a, b: np.where(a < b, a, b)),
        (lanes.ratio, lambda a, b: np.where(b != 0, a / b, 0.0)),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_two_operands_equal_numpy_bit_for_bit(operation, expected):
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(applied(operation, A, B), expected(A, B))


def test_comparisons_take_the_second_operand_where_the_first_is_nan():
    nan = np.full(LANES, np.nan)
    np.testing.assert_array_equal(applied(lanes.larger, nan, A[:LANES]), A[:LANES])
    np.testing.assert_array_equal(applied(lanes.smaller, nan, A[:LANES]), A[:LANES])


def test_multiply_add_rounds_once():
    """(1 + e)(1 - e) - 1 = -e^2 is lost when the product is rounded first."""
    e = 2.0**-30

    @njit
    def fused(a, b, c, out):
        lanes.store(out, 0, lanes.multiply_add(lanes.load(a, 0), lanes.load(b, 0), lanes.splat(c)))

    out = np.empty(LANES)
    fused(np.full(LANES, 1 + e), np.full(LANES, 1 - e), -1.0, out)
    np.testing.assert_array_equal(out, np.full(LANES, -(e**2)))


def test_powers_of_two_below_their_inverses_and_exponents():
    exponent = np.frexp(POSITIVE)[1] - 1.0
    power = applied(lanes.power_below, POSITIVE)
    np.testing.assert_array_equal(power, np.ldexp(1.0, exponent.astype(int)))
    np.testing.assert_array_equal(applied(lanes.inverse_power, power), 1.0 / power)
    np.testing.assert_array_equal(applied(lanes.exponent_sum, A[:LANES], power), A[:LANES] + exponent)
    zeros = lanes.zeros(1)
    np.testing.assert_array_equal(applied(lanes.power_below, zeros), zeros)
    np.testing.assert_array_equal(applied(lanes.inverse_power, zeros), np.full(LANES, 2.0**1023))


@pytest.mark.parametrize(("n_rows", "expected"), [(0, 0), (1, 1), (8, 1), (9, 2)])
def test_groups_hold_all_rows(n_rows, expected):
    assert lanes.groups(n_rows) == expected and lanes.zeros(expected).size >= n_rows
