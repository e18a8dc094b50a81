"""Numba options shared by every kernel of the package."""

from typing import Any

from numba import njit

from pymc_spn.numerics.elementary import VECTOR_MATH

# Division by zero gives inf as in NumPy: the check that Python's model asks for is a branch, and a branch stops
# vectorisation. `nogil` lets whole sweeps run beside other threads.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": VECTOR_MATH}

kernel = njit(**_OPTIONS)

# Without reference counts, and inlined. Handing a tuple of sixty arrays from one function to the next costs two
# atomic operations for each array otherwise: 40 of 45 microseconds a row in the exact sampler. The caller owns every
# array, so such a kernel may slice but neither allocate nor return arrays; Numba refuses to compile one that does.
_BARE: dict[str, Any] = _OPTIONS | {"_nrt": False, "forceinline": True}
bare_kernel = njit(**_BARE)
