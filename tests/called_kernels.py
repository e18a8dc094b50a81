"""Inner kernels, which only kernels may call, as functions that tests may call."""

from functools import cache

from numba import njit


@cache
def called(kernel):
    """A kernel that hands its arguments on to an inner one."""

    @njit
    def call(*arguments):
        return kernel(*arguments)

    return call
