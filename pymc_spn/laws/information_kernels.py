"""Mutual information of two columns whose joint masses are a product of matrices, without the table of these masses."""

import math

import numpy as np

from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel
from pymc_spn.numerics.lane_functions import log2_of
from pymc_spn.numerics.lanes import LANES, add, lane_sum, load, multiply_add, splat, store

LOG_2 = math.log(2.0)


def joint_information(first, second):
    """Mutual information in nats of the masses first.T @ second, scaled to 1; NaN where there are none.

    Their own margins are used, so that it is never negative.

    Parameters
    ----------
    first : (k, X) float64
    second : (k, Y) float64
    """
    padded = np.zeros((len(second), -(-second.shape[1] // LANES) * LANES))
    padded[:, : second.shape[1]] = second
    scratch = np.zeros((2, padded.shape[1]))
    return information_of_product(np.ascontiguousarray(first), padded, scratch)


@bare_kernel
def information_of_product(first, second, scratch):
    """The same; the columns of ``second`` are a multiple of eight, those of the scratch (2, Y) as many."""
    columns = scratch[0]
    row = scratch[1]
    n = columns.size // LANES
    columns[:] = 0.0
    both = 0.0
    rows = 0.0
    total = 0.0
    for x in range(first.shape[1]):
        for g in range(n):
            mass = splat(0.0)
            for k in range(first.shape[0]):
                mass = multiply_add(splat(first[k, x]), load(second[k], g), mass)
            store(row, g, mass)
        own = splat(0.0)
        sums = splat(0.0)
        for g in range(n):
            mass = load(row, g)
            store(columns, g, add(load(columns, g), mass))
            sums = add(sums, mass)
            own = multiply_add(mass, log2_of(mass), own)
        both += lane_sum(own)
        mass_of_row = lane_sum(sums)
        rows += surprise(mass_of_row)
        total += mass_of_row
    if not 0.0 < total < math.inf:
        return math.nan
    others = 0.0
    for y in range(columns.size):
        others += surprise(columns[y])
    value = (both * LOG_2 - rows - others) / total + math.log(total)
    return max(value, 0.0)


@bare_inner_kernel
def surprise(mass):
    return mass * math.log(mass) if mass > 0.0 else 0.0
