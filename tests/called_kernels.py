"""Inner kernels, which only kernels may call, as functions that tests may call."""

from functools import cache
from types import SimpleNamespace

from numba import njit

from pymc_spn.numerics.kernel_options import InnerDispatcher


@cache
def called(kernel):
    """A kernel that hands its arguments on to an inner one; others can be called as they are."""
    if not isinstance(kernel, InnerDispatcher):
        return kernel

    @njit
    def call(*arguments):
        return kernel(*arguments)

    return call


def all_called(module):
    """The kernels of a module as functions that tests may call."""
    return SimpleNamespace(**{n: called(k) for n, k in vars(module).items() if hasattr(k, "py_func")})
