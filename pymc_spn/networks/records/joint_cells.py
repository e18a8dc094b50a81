"""Leaves over several columns, some of which are recorded in cells: their mass, and what follows for other columns.

The mass of a box under a Student t over several columns has no closed form. Here the column of the widest cell, next to
its spread given the others, is integrated in closed form. A narrow cell counts by the density in its middle times its
width, with a correction of second order. The correction is in (steepness times width) exactly, in curvature to first
order. Wide cells beside the first go by the points of a lattice.
"""

import math

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, is_joint_edge, rows_of_joint
from pymc_spn.leaves.normal_inverse_wishart import (
    column_of_triangle,
    factorise,
    gathered_scatter,
    log_scale_of,
    observed_first,
    solve,
    triangle_size,
)
from pymc_spn.leaves.student_cells import log_student_integral
from pymc_spn.numerics.kernel_options import bare_called_kernel

TOLERANCE = 1e-2  # of the density of a row with several cells in one leaf; tests compare it with quadrature
NARROW = 0.35  # standard deviations given the other columns, up to which a cell is narrow
N_POINTS = 64  # of a lattice
STEPS = np.array([0.5 * (math.sqrt(5.0) - 1.0), *np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0])])


@bare_called_kernel
def solve_back(d, n_first, factor, z):
    """Solve the transposed factored part in place, after `solve`."""
    for j in range(n_first - 1, -1, -1):
        at = column_of_triangle(d, j)
        for i in range(j + 1, n_first):
            z[j] -= factor[at + i - j] * z[i]
        z[j] *= factor[at]


@bare_called_kernel
def diagonal_of_inverse(d, n_first, factor, z, out):
    """Diagonal (n_first,) of the inverse of what the factored part is the factor of; ``z`` is scratch."""
    for j in range(n_first):
        z[:n_first] = 0.0
        z[j] = 1.0
        out[j] = solve(d, n_first, factor, z)


@bare_called_kernel
def log_mass_of_cells(d, n_seen, power, ratio, log_scale, factor, away, width, inverse, pull, z):
    """Log density of a row's points times the mass of its cells under a leaf's predictive, a Student t.

    Parameters
    ----------
    d, n_seen : int
        Columns of the leaf, and of these that are observed; the first of them in all that follows.
    power, ratio : float
        The density of the observed columns is exp(log_scale) (1 + ratio away' Psi^-1 away)^-power.
    log_scale : float
        `normal_inverse_wishart.log_scale_of` of the observed columns.
    factor : (t,) float64
        Of Psi of the observed columns, see `normal_inverse_wishart`.
    away : (d,) float64
        The row less the location, cells by their middles. Changed.
    width : (d,) float64
        Of cells; 0 of points.
    inverse : (d,) float64
        Diagonal of the inverse of Psi of the observed columns.
    pull, z : (d,) float64
        Scratch.
    """
    square = quadratic_form(d, n_seen, factor, away, pull, z)
    widest = -1
    most = 0.0
    for j in range(n_seen):
        if width[j] * math.sqrt(inverse[j]) > most:
            most = width[j] * math.sqrt(inverse[j])
            widest = j
    shift = 0.0
    if is_wide(power, ratio, 1.0 + ratio * square, inverse[widest], width[widest]):
        # the others are expanded where the widest cell has most of its mass
        half = 0.5 * width[widest]
        shift = min(max(-pull[widest] / inverse[widest], -half), half)
        away[widest] += shift
        square = quadratic_form(d, n_seen, factor, away, pull, z)
    base = 1.0 + ratio * square
    n_wide = 0
    for j in range(n_seen):
        if width[j] > 0.0 and j != widest:
            log_scale += math.log(width[j])
            if is_wide(power, ratio, base, inverse[j], width[j]):
                n_wide += 1
            else:
                log_scale += log_of_narrow(power, ratio, base, pull[j], inverse[j], width[j])
    if n_wide == 0:
        return log_scale + log_along(power, ratio, square, pull[widest], inverse[widest], shift, width[widest])
    return log_scale + log_over_lattice(
        d, n_seen, power, ratio, factor, away, width, inverse, pull, z, widest, shift, base
    )


@bare_called_kernel
def is_wide(power, ratio, base, inverse, width):
    """Whether a cell is wide next to the spread of its column given the others."""
    return width * math.sqrt(2.0 * power * ratio * inverse / base) > NARROW


@bare_called_kernel
def quadratic_form(d, n_seen, factor, away, pull, z):
    """away' Psi^-1 away, and ``pull`` = Psi^-1 away."""
    for i in range(d):
        z[i] = away[i] if i < n_seen else 0.0
    square = solve(d, n_seen, factor, z)
    for i in range(n_seen):
        pull[i] = z[i]
    solve_back(d, n_seen, factor, pull)
    return square


@bare_called_kernel
def log_of_narrow(power, ratio, base, pull, inverse, width):
    """Log of the mean density over a narrow cell divided by that in its middle."""
    steep = -2.0 * power * ratio * pull / base
    curved = 2.0 * power * ratio * inverse / base - steep * steep / power
    a = 0.5 * width * abs(steep)
    if a < 1e-3:
        return a * a / 6.0 - curved * width * width / 24.0
    slope = 1.0 / math.tanh(a)
    spread = 0.25 * width * width * (1.0 - 2.0 * slope / a + 2.0 / (a * a))
    return a + math.log(-math.expm1(-2.0 * a) / (2.0 * a)) - 0.5 * curved * spread


@bare_called_kernel
def log_along(power, ratio, square, pull, inverse, shift, width):
    """Log of the integral of (1 + ratio square)^-power over the cell of one column, the others being where they are.

    ``pull`` and ``inverse`` are those of the column, ``shift`` is where it is, from the middle of its cell.
    """
    from_peak = pull / inverse
    least = 1.0 + ratio * max(square - pull * pull / inverse, 0.0)
    root = math.sqrt(ratio * inverse / least)
    low = (from_peak - shift - 0.5 * width) * root
    return (
        log_student_integral(low, (from_peak - shift + 0.5 * width) * root, width * root, power)
        - power * math.log(least)
        - math.log(root)
    )


@bare_called_kernel
def log_over_lattice(d, n_seen, power, ratio, factor, away, width, inverse, pull, z, widest, shift, base):
    """As `log_along`, averaged over points of the other wide cells; ``base`` says which they are."""
    largest = -math.inf
    total = 0.0
    last = 0.0
    for point in range(N_POINTS):
        axis = 0
        for j in range(n_seen):
            if j != widest and is_wide(power, ratio, base, inverse[j], width[j]):
                before = from_middle(point - 1, axis) if point > 0 else 0.0
                away[j] += (from_middle(point, axis) - before) * width[j]
                axis += 1
        square = quadratic_form(d, n_seen, factor, away, pull, z)
        last = log_along(power, ratio, square, pull[widest], inverse[widest], shift, width[widest])
        if last > largest:
            total = total * math.exp(largest - last) + 1.0 if largest > -math.inf else 1.0
            largest = last
        else:
            total += math.exp(last - largest)
    return largest + math.log(total / N_POINTS)


@bare_called_kernel
def from_middle(point, axis):
    """Coordinate of a point of the lattice, from -1/2 to 1/2: even in the first axis, else multiples, folded."""
    if axis == 0:
        return (point + 0.5) / N_POINTS - 0.5
    u = (0.5 + (point + axis // STEPS.size) * STEPS[(axis - 1) % STEPS.size]) % 1.0
    return abs(2.0 * u - 1.0) - 0.5


@bare_called_kernel
def weigh_joint_cells(edges, joints, cells, n, known):
    """Log values of a row with cells in leaves over several columns; coded units."""
    own = joints.scratch
    for r in range(joints.split.size):
        if joints.split[r] < 0:
            continue
        first = joints.column_ptr[r]
        d = joints.column_ptr[r + 1] - first
        for j in range(d):
            c = joints.column[first + j]
            own.x[j] = cells.middle[n, c] - joints.centre[first + j]
        n_seen = observed_first(d, own.x, own.order)
        if n_seen == 0:
            continue
        n_cells = 0
        for j in range(d):
            width = cells.width[n, joints.column[first + own.order[j]]] if j < n_seen else 0.0
            known.width[j] = width
            n_cells += width > 0.0
        for slot in range(edges.top[r]):
            is_held = edges.weight[edges.begin[r] + slot] > 0.0  # in a fit also by no row
            if slot == joints.split[r] or (is_held and is_joint_edge(edges, joints, r, slot)):
                n_rows = rows_of_joint(edges, joints, r, slot)
                of_leaf = log_of_row_with_cells(joints, r, slot, n_rows, n_seen, n_cells, known)
                known.of_joints[joints.slot_begin[r] + slot] = of_leaf


@bare_called_kernel
def log_of_row_with_cells(joints, r, slot, n_rows, n_seen, n_cells, known):
    """`log_mass_of_cells` of the gathered row in a leaf."""
    own = joints.scratch
    first = joints.column_ptr[r]
    d = joints.column_ptr[r + 1] - first
    t = triangle_size(d)
    at = joints.products_begin[r] + slot * t
    from_sums = joints.sums_begin[r] + slot * d
    sums = joints.sums[from_sums : from_sums + d]
    psi0 = joints.psi0[first : first + d]
    k = PRECISION_RATIO + n_rows
    v = d + EXCESS + n_rows
    factor = own.triangle[:t]
    for j in range(d):
        i = own.order[j]
        own.floor[j] = psi0[i]
        known.away[j] = own.x[i] - (sums[i] / k if n_rows > 0.0 else 0.0)
    if n_rows > 0.0 and n_seen == d:
        factor = joints.factor[at : at + t]
        log_scale = joints.log_scale[joints.slot_begin[r] + slot]
    else:
        if n_rows > 0:
            gathered_scatter(d, own.order, k, sums, joints.products[at : at + t], psi0, factor)
        else:
            factor[:] = 0.0
            for j in range(d):
                factor[column_of_triangle(d, j)] = own.floor[j]
        half_log = factorise(d, n_seen, factor, own.floor)
        log_scale = log_scale_of(d, n_seen, k, v, half_log)
    power, ratio = 0.5 * (v - d + 1.0 + n_seen), k / (k + 1.0)
    if n_cells == 0:
        for j in range(d):
            own.z[j] = known.away[j] if j < n_seen else 0.0
        square = solve(d, n_seen, factor, own.z)
        return log_scale - power * math.log1p(square * ratio)
    is_kept = n_rows > 0.0 and n_seen == d
    inverse = known.inverses[from_sums : from_sums + d] if is_kept else known.inverse
    if not is_kept or math.isnan(inverse[0]):
        diagonal_of_inverse(d, n_seen, factor, own.z, inverse)
    away, width, pull = known.away, known.width, known.pull
    return log_mass_of_cells(d, n_seen, power, ratio, log_scale, factor, away, width, inverse, pull, own.z)
