"""Exact values of columns in cells whose row is in a leaf over several columns, drawn once a sweep.

Mean and precision matrix of the leaf are drawn from their posterior, as parameters of leaves over one column are. Given
these, one exact value after the other is drawn given the rest of its row: a normal within the cell. The parameters are
forgotten afterwards.
"""

import math

import numpy as np

from pymc_spn.gibbs.integrated_cells import on_lattice
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, is_joint_edge
from pymc_spn.leaves.normal_cells import draw_normal
from pymc_spn.leaves.normal_inverse_wishart import column_of_triangle, triangle_size
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def inner_product(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@inner_kernel
def draw_joint_parameters(rng, joints, r, slot, n, mean, precision):
    """Mean (d,), from the centre of the prior, and precision matrix (d, d) of a leaf from its posterior.

    With Psi = L L' the precision is B B', where L' B = A and A is the factor of a standard Wishart matrix (Bartlett).
    """
    d = mean.size
    at = joints.products_begin[r] + slot * triangle_size(d)
    sums = joints.sums_begin[r] + slot * d
    k = PRECISION_RATIO + n
    a = np.zeros((d, d))
    for i in range(d):
        a[i, i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (d + EXCESS + n - i)))
        for j in range(i):
            a[i, j] = rng.standard_normal()
    away = np.empty(d)
    for i in range(d - 1, -1, -1):  # A' away = a standard normal draw
        away[i] = rng.standard_normal()
        for j in range(i + 1, d):
            away[i] -= a[j, i] * away[j]
        away[i] /= a[i, i]
    b = a
    for j in range(d):
        for i in range(d - 1, -1, -1):
            own = at + column_of_triangle(d, i)
            for m in range(i + 1, d):
                b[i, j] -= joints.factor[own + m - i] * b[m, j]
            b[i, j] *= joints.factor[own]
    for i in range(d):
        for j in range(d):
            precision[i, j] = inner_product(b[i], b[j])
        mean[i] = joints.sums[sums + i] / k
    for j in range(d):
        own = at + column_of_triangle(d, j)
        step = away[j] / math.sqrt(k)
        mean[j] += step / joints.factor[own]
        for i in range(j + 1, d):
            mean[i] += step * joints.factor[own + i - j]


@kernel
def draw_exact_in_joints(rng, palette, edges, joints, y, table, filled, slots, distinct):
    """Redraw exact values in leaves over several columns given the parameters of these, drawn from their posterior.

    Parameters
    ----------
    rng, palette, edges, joints, y, table, filled, slots
        As in `redraw_rows`; the values are written into all three tables. Sums of the leaves are not touched.
    distinct : DistinctCells
    """
    which = np.full(joints.scratch.row.size, -1)
    for k in range(distinct.columns.size):
        which[distinct.columns[k]] = k
    for r in range(joints.split.size):
        if joints.split[r] < 0:
            continue
        first = joints.column_ptr[r]
        d = joints.column_ptr[r + 1] - first
        mean = np.empty((edges.top[r], d))
        precision = np.empty((edges.top[r], d, d))
        away = np.empty(d)
        pull = np.empty(d)
        for slot in range(edges.top[r]):
            n = edges.n_data[edges.begin[r] + slot]
            if n > 0 and is_joint_edge(edges, joints, r, slot):
                draw_joint_parameters(rng, joints, r, slot, n, mean[slot], precision[slot])
        for n in range(slots.shape[0]):
            slot = slots[n, r]
            if slot < 0 or not is_joint_edge(edges, joints, r, slot):
                continue
            own = precision[slot]
            for j in range(d):
                away[j] = filled[n, joints.column[first + j]] - joints.centre[first + j] - mean[slot, j]
            for j in range(d):
                pull[j] = inner_product(own[j], away)
            for j in range(d):
                c = joints.column[first + j]
                v = distinct.which[n, which[c]] if which[c] >= 0 else -1
                if v < 0:
                    continue
                now = filled[n, c]
                low = distinct.low[v]
                high = distinct.high[v]
                x = draw_normal(rng, low, high, now - pull[j] / own[j, j], math.sqrt(own[j, j]))
                x = on_lattice(x, low, high, distinct.offset[which[c]])
                for i in range(d):
                    pull[i] += own[j, i] * (x - now)
                for place in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                    y[n, place] = x
                table[n, c] = x
                filled[n, c] = x
