"""Values of all sum nodes of the explicit network for a block of rows, from the leaves up.

Values are linear, with each column divided by its densest leaf's peak; rows whose root underflows all the
same are worked out again in logs. Leaf terms are in bits, since two to a power costs less than e to a power.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_spn.gibbs.explicit_layout import node_below
from pymc_spn.gibbs.family_kernels import has_base, is_located, is_of_logs, takes_factorials, with_base
from pymc_spn.leaves.conjugate_pieces import LOG2_E
from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.kernel_forms import FACTORIAL, LOGARITHM
from pymc_spn.numerics.elementary import VECTOR_MATH, bits_float, float_bits
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

BLOCK = 32  # rows at a time: four registers of eight, enough independent work to hide an exponential's latency
# A column with at most so many distinct values gets its univariate nodes tabulated once per sweep.
TABLE_VALUES, TABLE_CELLS = 256, 1 << 18
_ROUND = 6755399441055744.0  # 1.5 * 2**52, low bits zero: adding it rounds to an integer held in the low bits


class Points(NamedTuple):
    """The coded table as the evaluation reads it; rows are padded to whole blocks."""

    y: np.ndarray  # (D, padded N) 0 where missing
    logs: np.ndarray  # (D, padded N) log2 x! with leaves on counts, log(y + offset) with log-normal ones, else 0
    tabulated: np.ndarray  # (D,) bool
    value_index: np.ndarray  # (D, padded N) which distinct value; the one past the last means missing
    n_values: np.ndarray  # (D,) distinct values of a tabulated column, missing included
    values: np.ndarray  # (D, V) the distinct values, padded with 0
    values_logs: np.ndarray  # (D, V)
    table_begin: np.ndarray  # (D,) node k at value v: table[table_begin[d] + k stride[d] + v]
    stride: np.ndarray  # (D,)
    table: np.ndarray


def make_points(layout, palette, coded, moving=()):
    """Padded copy of the table, and the distinct values of the columns that are worth tabulating, none that moves."""
    n_rows, n_columns = coded.shape
    padded = -(-max(n_rows, 1) // BLOCK) * BLOCK
    y = np.zeros((n_columns, padded))
    y[:, :n_rows] = np.nan_to_num(coded.T, nan=0.0)
    index = np.zeros((n_columns, padded), np.int64)
    tabulated = np.zeros(n_columns, np.bool_)
    levels = []
    for d, r in enumerate(layout.leaf_region):
        found, inverse = np.unique(y[d, :n_rows], return_inverse=True)
        few = found.size <= min(TABLE_VALUES, n_rows // 4) and layout.n_nodes[r] * found.size <= TABLE_CELLS
        few &= d not in moving
        tabulated[d] = few or palette.n_levels[d] > 0
        levels.append(found if tabulated[d] else found[:0])
        if tabulated[d]:
            index[d, :n_rows] = np.where(np.isnan(coded[:, d]), found.size, inverse)
    n_values = np.array([v.size + 1 for v in levels])
    stride = np.where(tabulated, -(-n_values // 8) * 8, 0)
    values = np.zeros((n_columns, max(int(stride.max(initial=0)), 8)))
    for d, found in enumerate(levels):
        values[d, : found.size] = found
    cells = stride * layout.n_nodes[layout.leaf_region]
    return Points(
        y=y,
        logs=_logs(palette, y, range(n_columns)),
        tabulated=tabulated,
        value_index=index,
        n_values=n_values,
        values=values,
        values_logs=_logs(palette, values, range(n_columns)),
        table_begin=np.cumsum(cells) - cells,
        stride=stride,
        table=np.ones(int(cells.sum())),
    )


def move_points(points, palette, coded, moving):
    """Put values of some columns into the points, in place."""
    points.y[moving, : len(coded)] = np.nan_to_num(coded[:, moving].T, nan=0.0)
    points.logs[moving] = _logs(palette, points.y, moving)[moving]


def _logs(palette, y, places):
    """What `Points.logs` holds in some places; at padding and missing cells it is not used."""
    out = np.zeros_like(y)
    for d in places:
        families = palette.family[palette.entry_ptr[d] : palette.entry_ptr[d + 1]]
        if np.isin(families, families_with(LOGARITHM)).any():
            out[d] = np.log(np.maximum(y[d] + palette.offset[d], np.finfo(np.float64).tiny))
        if np.isin(families, families_with(FACTORIAL)).any():
            out[d] = [LOG2_E * math.lgamma(max(x, 0.0) + 1.0) for x in y[d] + palette.offset[d]]
    return out


@njit(inline="always", fastmath=VECTOR_MATH)
def fast_exp2(x):
    """2**x to a relative error of 1.5e-13 for x < 1023; below -1020 it gives 2**-1020.

    A third fewer operations than `fast_exp`: no reduction by ln 2, four terms less (relative minimax on
    [-1/2, 1/2]), the power of two added to the exponent bits.
    """
    x = max(x, -1020.0)
    shifted = x + _ROUND
    f = x - (shifted - _ROUND)
    p = 9.172041440219063e-08
    p = p * f + 1.3253671107997304e-06
    p = p * f + 1.525825187730843e-05
    p = p * f + 1.5403462029927855e-04
    p = p * f + 1.3333548238234324e-03
    p = p * f + 9.61812915253636e-03
    p = p * f + 5.550410872989436e-02
    p = p * f + 2.4022650695831457e-01
    p = p * f + 6.931471805588089e-01
    p = p * f + 1.0
    return bits_float(float_bits(p) + (float_bits(shifted) << 52))


@kernel
def tabulate_column(par, layout, palette, points, d):
    """Values of the univariate nodes of a column at each of its distinct values."""
    r = layout.leaf_region[d]
    stride = points.stride[d]
    begin = points.table_begin[d]
    table = points.table[begin : begin + stride * layout.n_nodes[r]].reshape((layout.n_nodes[r], stride))
    n_values = points.n_values[d] - 1
    mix_leaves(par, layout, palette, d, points.values[d, :stride], points.values_logs[d, :stride], table)
    n_levels = palette.n_levels[d]
    if n_levels > 0:
        for k in range(layout.n_nodes[r]):
            for c in range(layout.width[r]):
                i = k * layout.width[r] + c
                if palette.family[par.entry[layout.edge_begin[r] + i]] != CATEGORICAL:
                    continue
                cell = par.cell_begin[d] + i * n_levels
                for v in range(n_values):
                    table[k, v] += par.level_value[cell + int(points.values[d, v])]
    for k in range(layout.n_nodes[r]):
        table[k, n_values] = 1.0  # missing: the mixture integrates to one


@inner_kernel
def mix_leaves(par, layout, palette, d, y, logs, out):
    """Values of all univariate nodes of a column at the given points, its discrete leaves left out.

    Parameters
    ----------
    y, logs : (n,) float64
    out : (nodes, n) float64
    """
    r = layout.leaf_region[d]
    first = layout.edge_begin[r]
    last = first + layout.n_nodes[r] * layout.width[r]
    lead = par.lead[first:last]
    only = palette.family[palette.entry_ptr[d]]
    if palette.entry_ptr[d + 1] - palette.entry_ptr[d] == 1 and is_located(only) and not is_of_logs(only):
        mix_gaussians(lead, par.centre[first:last], par.curvature[first:last], layout.width[r], y, out)
    else:
        family = palette.family[par.entry[first:last]]
        mix_families(
            family,
            lead,
            par.centre[first:last],
            par.curvature[first:last],
            par.slope[first:last],
            y,
            logs,
            out,
        )


@inner_kernel
def mix_gaussians(lead, centre, curvature, width, y, out):
    """Nodes with Gaussian leaves only, two leaves at a time.

    Arrays are passed one by one: a tuple of many arrays is copied at each call.
    """
    for k in range(out.shape[0]):
        i = k * width
        a, m, h = lead[i], centre[i], curvature[i]
        if width % 2 == 1:
            for j in range(y.size):
                t = y[j] - m
                out[k, j] = fast_exp2(a - t * t * h)
        else:
            a2, m2, h2 = lead[i + 1], centre[i + 1], curvature[i + 1]
            for j in range(y.size):
                t = y[j] - m
                u = y[j] - m2
                out[k, j] = fast_exp2(a - t * t * h) + fast_exp2(a2 - u * u * h2)
        for c in range(i + 2 - width % 2, i + width, 2):
            a, m, h = lead[c], centre[c], curvature[c]
            a2, m2, h2 = lead[c + 1], centre[c + 1], curvature[c + 1]
            for j in range(y.size):
                t = y[j] - m
                u = y[j] - m2
                out[k, j] += fast_exp2(a - t * t * h) + fast_exp2(a2 - u * u * h2)


@inner_kernel
def mix_families(family, lead, centre, curvature, slope, y, logs, out):
    """Nodes with leaves of any families; discrete leaves are left out."""
    width = family.size // out.shape[0]
    for k in range(out.shape[0]):
        for j in range(y.size):
            out[k, j] = 0.0
        for i in range(k * width, (k + 1) * width):
            if family[i] == CATEGORICAL:
                continue
            a, m, h, b = lead[i], centre[i], curvature[i], slope[i]
            if is_of_logs(family[i]):
                for j in range(y.size):
                    t = logs[j] - m
                    out[k, j] += fast_exp2(a - t * t * h - LOG2_E * logs[j])
                continue
            if has_base(family[i]):
                for j in range(y.size):
                    term = family_term(family[i], a, m, h, b, y[j], logs[j])
                    if term > -math.inf:
                        out[k, j] += fast_exp2(term)
                continue
            counts = 1.0 if takes_factorials(family[i]) else 0.0
            for j in range(y.size):
                t = y[j] - m
                out[k, j] += fast_exp2(a - t * t * h + y[j] * b - counts * logs[j])


@kernel
def evaluate_block(par, layout, palette, points, value, missing, first):
    """Values (S, BLOCK) of all sum nodes for the rows ``first .. first + BLOCK - 1``."""
    for d in range(layout.leaf_region.size):
        r = layout.leaf_region[d]
        begin = layout.node_begin[r]
        end = begin + layout.n_nodes[r]
        if points.tabulated[d]:
            table = points.table[points.table_begin[d] : points.table_begin[d] + points.stride[d] * (end - begin)]
            index = points.value_index[d, first : first + BLOCK]
            read_table(table.reshape((end - begin, points.stride[d])), index, value[begin:end])
            continue
        y = points.y[d, first : first + BLOCK]
        logs = points.logs[d, first : first + BLOCK]
        mix_leaves(par, layout, palette, d, y, logs, value[begin:end])
        for n in range(first, min(first + BLOCK, missing.shape[0])):
            if missing[n, r]:
                value[begin:end, n - first] = 1.0
    for r in range(layout.parent.size - 1, -1, -1):
        if layout.n_splits[r] > 1:
            mix_split_products(par.weight[layout.edge_begin[r] :], layout, r, value)
        elif layout.column[r] < 0:
            begin = layout.node_begin[r]
            parts = layout.node_begin[layout.parts[layout.part_ptr[r] : layout.part_ptr[r + 1]]]
            weight = par.weight[layout.edge_begin[r] :]
            mix_products(weight, layout.width[r], parts, value, value[begin : begin + layout.n_nodes[r]])


@inner_kernel
def read_table(table, index, out):
    for k in range(out.shape[0]):
        for j in range(BLOCK):
            out[k, j] = table[k, index[j]]


@inner_kernel
def mix_products(weight, width, parts, value, out):
    """Values of the sum nodes of an inner region from those of its parts, whose first nodes are ``parts``."""
    left = parts[0]
    right = parts[1]
    for k in range(out.shape[0]):
        for j in range(BLOCK):
            out[k, j] = 0.0
        for i in range(k * width, (k + 1) * width):
            w = weight[i]
            if parts.size == 2:
                for j in range(BLOCK):
                    out[k, j] += w * value[left + i, j] * value[right + i, j]
                continue
            for j in range(BLOCK):
                product = w
                for p in range(parts.size):
                    product *= value[parts[p] + i, j]
                out[k, j] += product


@inner_kernel
def mix_split_products(weight, layout, r, value):
    """`mix_products` where the parts of a product are those of its split."""
    width = layout.width[r]
    product = np.empty(value.shape[1])
    for k in range(layout.n_nodes[r]):
        out = value[layout.node_begin[r] + k]
        out[:] = 0.0
        for i in range(k * width, (k + 1) * width):
            product[:] = weight[i]
            for p in range(layout.part_ptr[r], layout.part_ptr[r + 1]):
                below = node_below(layout, layout.parts[p], i)
                if below >= 0:
                    for j in range(product.size):
                        product[j] *= value[layout.node_begin[layout.parts[p]] + below, j]
            for j in range(product.size):
                out[j] += product[j]


@inner_kernel
def leaf_term(par, palette, points, d, i, n):
    """Term of one leaf (its edge's number ``i``) for a row, in bits."""
    family, y, logs = palette.family[par.entry[i]], points.y[d, n], points.logs[d, n]
    return family_term(family, par.lead[i], par.centre[i], par.curvature[i], par.slope[i], y, logs)


@inner_kernel
def family_term(family, lead, centre, curvature, slope, y, logs):
    """`leaf_term` from numbers alone: where it is called for every child, tuples of arrays would be copied each time.

    Parameters
    ----------
    logs : float
        Of the value, as in `Points`.
    """
    x = logs if is_of_logs(family) else y
    t = x - centre
    term = lead - t * t * curvature + x * slope
    if is_of_logs(family):
        return term - LOG2_E * x
    if takes_factorials(family):
        term -= logs
    return with_base(family, term, x, centre)


@inner_kernel
def level_cell(par, layout, palette, points, d, i, n):
    first = layout.edge_begin[layout.leaf_region[d]]
    return par.cell_begin[d] + (i - first) * palette.n_levels[d] + int(points.y[d, n])


@kernel
def evaluate_row_by_logs(par, layout, palette, points, value, n):
    """Logs in bits of the values (S, 1) of all sum nodes for one row: slow, cannot underflow."""
    for r in range(layout.parent.size - 1, -1, -1):
        d = layout.column[r]
        width = layout.width[r]
        for k in range(layout.n_nodes[r]):
            total = -math.inf
            for i in range(k * width, (k + 1) * width):
                total = add_bits(total, edge_bits(par, layout, palette, points, value, r, d, i, n))
            value[layout.node_begin[r] + k, 0] = 0.0 if layout.missing[n, r] else total


@inner_kernel
def add_bits(a, b):
    if a < b:
        a, b = b, a
    return a + LOG2_E * math.log1p(math.exp((b - a) / LOG2_E)) if b > -math.inf else a


@inner_kernel
def edge_bits(par, layout, palette, points, value, r, d, i, n):
    """Log in bits of weight times value of the child of one edge; ``i`` numbers it within the region."""
    e = layout.edge_begin[r] + i
    if d >= 0:
        if palette.family[par.entry[e]] == CATEGORICAL:
            return par.level_term[level_cell(par, layout, palette, points, d, e, n)]
        return leaf_term(par, palette, points, d, e, n)
    bits = LOG2_E * par.log_weight[e]
    for p in range(layout.part_ptr[r], layout.part_ptr[r + 1]):
        below = node_below(layout, layout.parts[p], i)
        bits += value[layout.node_begin[layout.parts[p]] + below, 0] if below >= 0 else 0.0
    return bits
