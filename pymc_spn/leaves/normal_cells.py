"""The mass of a normal distribution over a cell, and draws within it."""

import math

from pymc_spn.leaves.student_cells import FEW_NODES, FEW_WEIGHTS, FLAT
from pymc_spn.numerics.kernel_options import bare_inner_kernel

LOG_2PI = math.log(2.0 * math.pi)
ROOT_HALF = math.sqrt(0.5)
FAR = 25.0  # standard deviations from which six terms of the asymptotic series have an error of 1e-13
WIDE = 2.5  # standard deviations: cells above hold most of the distribution, or of its half
ALL = 8.5  # standard deviations beyond which there is less than 1e-17
NOTHING = 40.0  # nats below which what is beyond a cell is less than 1e-17 of what is in it and beyond
TRIES = 1000  # of rejections that accept a third or more


@bare_inner_kernel
def mills_ratio(z):
    """Upper tail of the standard normal divided by its density, far out."""
    t = 1.0 / (z * z)
    return (1.0 - t * (1.0 - 3.0 * t * (1.0 - 5.0 * t * (1.0 - 7.0 * t * (1.0 - 9.0 * t))))) / z


@bare_inner_kernel
def log_normal_mass(low, high, length):
    """Log mass of the standard normal from low to high; far out ``length`` has digits that their difference lacks."""
    if low < 0.0 < high:
        if low < -ALL and high > ALL:
            return 0.0
        return math.log(0.5 * (math.erf(high * ROOT_HALF) + math.erf(-low * ROOT_HALF)))
    a = max(low, -high)
    drop = (a + 0.5 * length) * length  # of the log density over the cell
    if drop < FLAT:
        total = 0.0
        for k in range(4):
            z = FEW_NODES[k] * length
            total += FEW_WEIGHTS[k] * math.exp(-(a + 0.5 * z) * z)
        return math.log(total * length) - 0.5 * (a * a + LOG_2PI)
    if a < FAR:
        beyond = math.erfc((a + length) * ROOT_HALF) if drop < NOTHING else 0.0
        return math.log(0.5 * (math.erfc(a * ROOT_HALF) - beyond))
    beyond = math.exp(-drop) * mills_ratio(a + length) if drop < NOTHING else 0.0
    return math.log(mills_ratio(a) - beyond) - 0.5 * (a * a + LOG_2PI)


@bare_inner_kernel
def draw_normal(rng, low, high, mean, root):
    """A draw from the normal with a mean and root of the precision, given that it lies between low and high.

    By rejection: from the whole distribution or its half where the cell is wide, from an exponential one in steep
    tails, else from the uniform one. Which one does not depend on the draws.
    """
    z = (low - mean) * root
    length = (high - low) * root
    nearest = max(z, -(high - mean) * root)
    straddles = nearest < 0.0
    nearest = max(nearest, 0.0)
    above = z >= 0.0
    for _ in range(TRIES):
        if length > WIDE and straddles:
            x = mean + rng.standard_normal() / root
            if low <= x <= high:
                return x
        elif length > WIDE and nearest < 0.5:
            far = abs(rng.standard_normal()) - nearest
            if 0.0 <= far <= length:
                return low + far / root if above else high - far / root
        elif nearest * length > 1.0:
            far = -math.log1p(rng.random() * math.expm1(-nearest * length)) / nearest
            if rng.random() < math.exp(-0.5 * far * far):
                return low + far / root if above else high - far / root
        else:
            share = rng.random()
            at = z + share * length
            fall = 0.5 * (at * at - nearest * nearest)
            u = rng.random()
            if u <= 1.0 - fall or u < math.exp(-fall):  # the first is below the second
                return low + share * (high - low)
    return min(max(mean, low), high)
