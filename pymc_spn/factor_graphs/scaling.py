"""Scaling of messages by powers of two, and a bound on what they have lost to underflow.

The bound is 0 while no product has left the normal numbers, and 0 again where it is negligible in every entry of a
message. What has a small relative error in every entry keeps it, since nothing is subtracted further on.
"""

from pymc_spn.numerics.kernel_options import inner_kernel
from pymc_spn.numerics.lanes import (
    add,
    inverse_power,
    load,
    mul,
    power_below,
    smaller,
    smaller_positive,
    splat,
    store,
    unless_below,
)

LOST = 1e-300  # more than a sum over a clique's states loses to terms below the smallest normal number
NEGLIGIBLE = 1e-30  # share of an entry that may be lost


@inner_kernel
def scaled(values, begin, n, top, lost):
    """Divide ``n`` entries by the power of two below their maximum ``top``.

    Returns (the power, its inverse, the smallest positive entry, what each may have lost, 0 where that is negligible).
    """
    power = power_below(top)
    inverse = inverse_power(power)
    least, positive = splat(2.0), splat(2.0)
    for k in range(begin, begin + n):
        x = mul(load(values, k), inverse)
        store(values, k, x)
        least, positive = smaller(x, least), smaller_positive(x, positive)
    lost = unless_below(mul(lost, inverse), mul(least, splat(NEGLIGIBLE)))
    return power, inverse, positive, lost


@inner_kernel
def lost_by(product, n_factors, lost):
    """Bound on what products of messages lose, given one below their positive values and the sum of the bounds.

    A factor is below 2, so each but one may double what is lost of another, and what underflows on the way.
    """
    power = 2.0 ** max(n_factors - 1, 0)
    underflow = unless_below(splat(LOST), mul(product, splat(0.5 / power)))
    return mul(add(lost, underflow), splat(power))
