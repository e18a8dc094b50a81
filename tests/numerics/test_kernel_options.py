"""Kernels for kernels only: compiled code calls them, Python is told that it may not."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.numerics.summing_kernels import mean, total


def test_only_kernels_call_an_inner_kernel():
    x = np.array([1.0, 2.0, 6.0])
    for _ in range(2):  # before and after it is compiled: from then on the call would end the process
        with pytest.raises(TypeError, match=r"summing_kernels\.total: only kernels may call an inner kernel"):
            total(x)
        assert mean(x) == 3.0


def test_without_compilation_they_are_plain_functions():
    code = "from tests.numerics.summing_kernels import mean, total; print(total([1.0, 2.0]), callable(mean))"
    found = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert found.stdout.split() == ["3.0", "True"], found.stderr
