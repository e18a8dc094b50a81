"""One type for the inputs of kernels, whoever calls."""

import numpy as np
import pytest

from pymc_spn.numerics.kernel_options import inner_kernel, inner_kernel_by_constants, kernel
from pymc_spn.numerics.read_only_views import read_only_view


@kernel
def largest(x):
    return x.max()


@kernel
def largest_of_both(x, y):
    return max(largest(read_only_view(x)), largest(read_only_view(y)))


@inner_kernel
def shifted(x, at, by, is_wanted):
    return x[at] + by if is_wanted else x[at]


@kernel
def total_by_places(x, places):
    total, k = 0.0, 0
    for place in places:
        total += shifted(x, place, k, True)
        k += 1
    return total + shifted(x, 2, 0, True)


@inner_kernel_by_constants
def multiple(kind, x):
    return kind * x


@kernel
def multiples(kinds, x):
    return multiple(kinds[0], x) + multiple(3, x)


@inner_kernel
def highest_bit(mask):
    return mask >> np.uint64(63)


@kernel
def highest_bits(masks):
    return highest_bit(masks[0])


@pytest.fixture(autouse=True, scope="module")
def compiled_anew():
    """What a run before has stored would be loaded whole, without a look at the kernels inside."""
    for made in (largest, largest_of_both, shifted, total_by_places, multiple, multiples, highest_bit, highest_bits):
        made._cache.flush()


def test_a_view_is_read_only_and_the_array_stays_as_it_is():
    x = np.arange(6.0)
    view = read_only_view(x)
    assert np.shares_memory(view, x) and x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    x[0] = 7.0
    assert view[0] == 7.0
    strided = read_only_view(x[::2])
    assert strided.flags.c_contiguous and not strided.flags.writeable and strided.tolist() == [7.0, 2.0, 4.0]


def test_a_kernel_is_compiled_once_for_arrays_of_all_kinds():
    x = np.array([3.0, 1.0, 4.0])
    frozen = x.copy()
    frozen.flags.writeable = False
    assert largest(read_only_view(x)) == largest(read_only_view(frozen)) == 4.0
    for a, b in ((x, frozen), (frozen, x[::-1]), (x[::2], x)):  # compiled code calls as Python does
        assert largest_of_both(a, b) == 4.0
    assert len(largest.signatures) == 1 and len(largest_of_both.signatures) == 3
    assert x.flags.writeable


def test_kernels_pass_whole_numbers_under_one_type():
    """Constants, counters that start at one, and elements of narrow arrays; a constant truth value stays one."""
    x = np.array([3.0, 1.0, 4.0])
    for dtype in (np.int8, np.int32, np.int64):
        assert total_by_places(x, np.array([2, 0, 1], dtype)) == 4.0 + (3.0 + 1.0) + (1.0 + 2.0) + 4.0
    ((_, at, by, is_wanted),) = shifted.signatures
    assert (str(at), str(by), str(is_wanted)) == ("int64", "int64", "Literal[bool](True)")


def test_some_kernels_keep_constants():
    assert multiples(np.array([2], np.int8), 1.5) == multiples(np.array([2]), 1.5) == 7.5
    assert [str(signature[0]) for signature in multiple.signatures] == ["int64", "Literal[int](3)"]


def test_unsigned_numbers_keep_their_type():
    assert highest_bits(np.array([2**64 - 1], np.uint64)) == 1
    assert str(highest_bit.signatures) == "[(uint64,)]"
