"""Named tuples that kernels take by address: the same answers as from plain named tuples, from whatever arrays."""

import copy
import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@array_group
class Inner(NamedTuple):
    """Another group's field."""

    flags: np.ndarray
    weights: np.ndarray


@array_group
class Outer(NamedTuple):
    """Fields of every kind."""

    matrix: np.ndarray
    n: int
    inner: Inner
    counts: np.ndarray
    absent: Inner | None = None


@inner_kernel
def weigh(inner, k):
    return inner.weights[k] if inner.flags[k] else 0.0


@inner_kernel
def weight_of(inner, k):
    return 0.0 if inner is None else inner.weights[k]


@kernel
def total(outer, first):
    """Sum over a strided matrix, and what groups within it say; counts what it has read."""
    found = 0.0
    for i in range(outer.matrix.shape[0]):
        for j in range(outer.matrix.shape[1]):
            found += outer.matrix[i, j] * weigh(outer.inner, j)
            outer.counts[j] += 1
    return found + weight_of(outer.absent, first) + outer.n


def example(matrix, absent=None):
    inner = Inner(np.array([True, False, True]), np.array([1.0, 10.0, 100.0]))
    return Outer(matrix, 1000, inner, np.zeros(3, np.int32), absent)


def contiguous():
    return np.arange(6.0).reshape(2, 3)


def strided():
    return np.arange(24.0).reshape(4, 6)[::2, ::-2]


def fortran():
    return np.asfortranarray(contiguous())


def read_only():
    out = contiguous()
    out.flags.writeable = False
    return out


@pytest.mark.parametrize("build", [contiguous, strided, fortran, read_only])
def test_kernels_read_and_write_the_arrays_of_the_tuple(build):
    group = example(build())
    expected = float((build() * [1.0, 0.0, 100.0]).sum()) + 1000
    for k in (1, 2):  # with the address that was kept, too
        assert total(group, 0) == expected
        assert group.counts.tolist() == [2 * k] * 3


def test_a_group_may_be_absent():
    group = example(contiguous())
    assert total(group._replace(absent=group.inner), 1) == total(group, 1) + 10.0


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_have_addresses_of_their_own(again):
    group = example(contiguous())
    expected = total(group, 0)
    other = again(group)
    assert type(other) is Outer and other._address != group._address
    assert total(other, 0) == expected
    changed = group._replace(matrix=2 * group.matrix)
    assert total(changed, 0) - 1000 == 2 * (expected - 1000)


def test_other_fields_are_refused():
    @kernel
    def read(group):
        return group.missing

    with pytest.raises(TypingError, match="missing"):
        read(example(contiguous()))
    with pytest.raises(
        TypeError, match=r"Outer\.n: a group holds arrays, whole numbers, other groups or None; got 0\.5"
    ):
        total(example(contiguous())._replace(n=0.5), 0)
    with pytest.raises(TypeError, match=r"Outer\.n: .* got True"):
        total(example(contiguous())._replace(n=True), 0)


def test_without_compilation_it_is_a_named_tuple():
    code = "from tests.numerics.test_array_groups import *; print(total(example(contiguous()), 0))"
    found = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert found.stdout.split() == [str(total(example(contiguous()), 0))], found.stderr
