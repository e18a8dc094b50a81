"""Numba options shared by every kernel of the package."""

from numba import njit

from pymc_spn.numerics.elementary import VECTOR_MATH

# Division by zero gives inf as in NumPy: the check that Python's model asks for is a branch, and a branch stops
# vectorisation. `nogil` lets whole sweeps run beside other threads.
kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTOR_MATH)

# Without reference counts. Handing a tuple of sixty arrays from one function to the next costs two atomic operations
# for each array otherwise: 40 of 45 microseconds a row in the exact sampler. The caller owns every array, so such a
# kernel may slice but neither allocate nor return arrays; Numba refuses to compile one that allocates.
bare_kernel = njit(
    _nrt=False, forceinline=True, cache=True, nogil=True, error_model="numpy", fastmath=VECTOR_MATH
)
