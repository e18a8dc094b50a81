"""Distribution functions of Student t's, eight at a time: the continued fraction of the incomplete beta function."""

import numpy as np

from pymc_spn.numerics.kernel_options import bare_inner_kernel
from pymc_spn.numerics.lane_functions import choose, log2_of_1_plus, power_of_2, sub
from pymc_spn.numerics.lanes import add, mul, multiply_add, ratio, splat

FREEDOM, TERMS = np.array([10.0, 50.0, 400.0, 3e4]), np.array([32, 48, 64, 96, 160])


def n_terms(freedom):
    """Terms (n,) of the continued fraction for degrees of freedom (n,): errors stay below some 1e-13."""
    return TERMS[np.searchsorted(FREEDOM, freedom)]


@bare_inner_kernel
def student_density(z, log2_scale, power):
    """2^log2_scale (1 + z^2)^-power."""
    return power_of_2(sub(log2_scale, mul(power, log2_of_1_plus(mul(z, z)))))


@bare_inner_kernel
def student_below(z, density, power, root, n):
    """P(Z <= z) of the law whose density at z, (1 + z^2)^-power over its integral, times ``root`` is given.

    The tail is I_x(a, 1/2) / 2 with x = 1 / (1 + z^2) and a = power - 1/2 (DLMF 8.17). It is found by n terms of the
    continued fraction 8.17.22 of it or, where that converges better, of I_{1-x}(1/2, a). Multiplied through by (a + k)
    / (a + n / 2) it needs no division but the last.
    """
    one = splat(1.0)
    half = splat(0.5)
    square = mul(z, z)
    a_own = sub(power, half)
    near = ratio(one, add(one, square))
    # the tail itself where x < (a + 1) / (a + b + 2)
    left = add(a_own, splat(2.5))
    right = mul(add(a_own, one), add(one, square))
    a = choose(left, right, a_own, half)
    b = choose(left, right, half, a_own)
    x = choose(left, right, near, mul(square, near))
    per = ratio(one, add(a, splat(0.5 * n)))
    scaled = mul(x, mul(per, per))
    sum_ab = add(a, b)
    # the first term, whose divisor lacks a factor a
    grown = mul(add(a, one), per)
    term = mul(mul(splat(-1.0), sum_ab), mul(x, per))
    bottom = add(grown, term)
    top_before = one
    top = grown
    bottom_before = one
    for m in range(1, n // 2):
        whole = splat(float(m))
        term = mul(mul(whole, sub(b, whole)), scaled)
        grown = mul(add(a, splat(2.0 * m)), per)
        next_top = multiply_add(grown, top, mul(term, top_before))
        next_bottom = multiply_add(grown, bottom, mul(term, bottom_before))
        term = mul(mul(add(a, whole), add(sum_ab, whole)), scaled)
        grown = mul(add(a, splat(2.0 * m + 1.0)), per)
        top_before = next_top
        bottom_before = next_bottom
        top = sub(mul(grown, next_top), mul(term, top))
        bottom = sub(mul(grown, next_bottom), mul(term, bottom))
    minus = sub(splat(0.0), z)
    size = choose(z, splat(0.0), minus, z)
    part = mul(half, ratio(mul(mul(size, density), top), mul(mul(root, a), bottom)))
    upper = choose(left, right, part, sub(half, part))  # of |z| and beyond
    return choose(z, splat(0.0), upper, sub(one, upper))
