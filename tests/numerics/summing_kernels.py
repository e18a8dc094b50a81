"""A kernel, and an inner kernel that it calls."""

from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def total(x):
    s = 0.0
    for v in x:
        s += v
    return s


@kernel
def mean(x):
    return total(x) / x.size
