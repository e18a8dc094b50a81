"""Numba options shared by every kernel of the package."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.registry import CPUDispatcher

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


class InnerDispatcher(CPUDispatcher):
    """A kernel without a way in from Python: calling one without this check would end the process."""

    def __call__(self, *arguments: Any, **named: Any) -> None:
        raise TypeError(f"{self.py_func.__module__}.{self.py_func.__qualname__}: only kernels may call an inner kernel")


def _inner(options: dict[str, Any]) -> Callable[[Callable], Any]:
    decorate = njit(**options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})

    def compile_without_wrappers(function: Callable) -> Any:
        dispatcher: Any = decorate(function)
        if isinstance(dispatcher, CPUDispatcher):  # with NUMBA_DISABLE_JIT=1 it is the function itself
            dispatcher.__class__ = InnerDispatcher
        return dispatcher

    return compile_without_wrappers


# Kernels that only kernels call. The ways in from Python and C, which unpack every array of a tuple, took half of the
# time of compiling the samplers.
inner_kernel = _inner(_OPTIONS)
bare_inner_kernel = _inner(_BARE)

# Sums over the rows of a block. One after the other, as they stand, they take four cycles a row; here
# the compiler may add several at a time, in an order of its own, the same in every run. Kernels of `elementary` are
# inlined with the caller's options, and `fast_exp` rounds by adding a large number and taking it off: never in here.
bare_inner_reduction = _inner(_BARE | {"fastmath": VECTOR_MATH | {"reassoc"}})
