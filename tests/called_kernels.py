"""Inner kernels, which only kernels may call, as functions that tests may call."""

from functools import cache
from inspect import signature
from types import SimpleNamespace

from numba import njit

from pymc_spn.gibbs.network import Network
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


def on_network(kernel):
    """A kernel as a function of a network, from which it takes its groups, and of what follows these."""
    groups = [name for name in signature(kernel.py_func).parameters if name in Network._fields and name != "joints"]
    call = called(kernel)
    return lambda net, *others: call(*(getattr(net, group) for group in groups), *others)
