"""Logs of the leaves and of all nodes of a circuit for a block of rows.

They serve where linear space would lose a row (`passes`), and where some nodes alone are asked for.
"""

import math

import numpy as np

from pymc_spn.circuits.evaluation.layout import LEAF, PRODUCT
from pymc_spn.circuits.evaluation.leaf_forms import form_at, leaf_coefficients
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, QUADRATIC, TABLE
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_inner_kernel, inner_kernel, kernel
from pymc_spn.numerics.lane_functions import sub
from pymc_spn.numerics.lanes import LANES, add, load, mul, splat, store

NOWHERE = 0.5 * IMPOSSIBLE


@kernel
def node_coefficients(layout, theta, family_begin, family_width):
    """(4, L) coefficients of the leaves in node order, and logs of `theta` where it holds level probabilities."""
    out = np.zeros((4, layout.leaf_row.size))
    table = np.zeros(theta.size)
    fill_coefficients(layout, theta, family_begin, family_width, np.zeros(4), out, table)
    return out, table


@bare_inner_kernel
def fill_coefficients(layout, theta, family_begin, family_width, one, out, table):
    """As `node_coefficients`, in place; ``one`` (4,) is scratch."""
    for k in range(layout.leaf_row.size):
        f = layout.leaf_family[k]
        width = family_width[f]
        begin = family_begin[f] + layout.leaf_row[k] * width
        for i in range(4):
            one[i] = 0.0
        leaf_coefficients(layout.leaf_code[k], theta[begin : begin + width], width, one)
        for i in range(4):
            out[i, k] = one[i]
        if layout.leaf_form[k] == TABLE:
            out[1, k] = begin
            for v in range(begin, begin + width):
                table[v] = math.log(theta[v]) if theta[v] > 0.0 else IMPOSSIBLE


@bare_called_kernel
def leaf_logs(layout, leaves, coefficients, table, u, base, present, out):
    """Log densities (V, B) of some leaves; 0 where a cell is missing."""
    for k in leaves:
        j, form = layout.leaf_input[k], layout.leaf_form[k]
        lead, a, b, c = coefficients[0, k], coefficients[1, k], coefficients[2, k], coefficients[3, k]
        row = out[layout.node_of_leaf[k]]
        if form == QUADRATIC:
            for g in range(row.size // LANES):
                t = mul(sub(load(u[j], g), splat(a)), splat(b))
                log = mul(load(present[j], g), sub(splat(lead), mul(t, t)))
                store(row, g, add(log, load(base[j], g)))
            continue
        own = table[int(a) :] if form == TABLE else table
        for i in range(row.size):
            inside = form_at(form, lead, a, b, c, own, u[j, i]) if present[j, i] != 0.0 else 0.0
            row[i] = inside + base[j, i]


@kernel
def sum_and_multiply(layout, log_weights, values, top, mass):
    """Inner nodes' logs (V, B) from the leaves'."""
    for v in range(layout.kind.size - 1, -1, -1):
        if layout.kind[v] == PRODUCT:
            values[v, :] = 0.0
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                add_row(values[layout.children[e]], values[v])
        elif layout.kind[v] != LEAF:
            add_up_logs(layout, log_weights, v, values, top, mass)


@inner_kernel
def add_up_logs(layout, log_weights, v, values, top, mass):
    """Logs of one sum from its children's."""
    row, begin, end = values[v], layout.child_ptr[v], layout.child_ptr[v + 1]
    top[:] = IMPOSSIBLE
    for e in range(begin, end):
        raise_row(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], top)
    mass[:] = 0.0
    for e in range(begin, end):
        add_exponentials(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], top, mass)
    for i in range(row.size):
        row[i] = top[i] + fast_log(mass[i])


@inner_kernel
def add_row(v, out):
    for i in range(out.size):
        out[i] += v[i]


@inner_kernel
def raise_row(log_weight, v, top):
    for i in range(top.size):
        top[i] = max(top[i], log_weight + v[i])


@inner_kernel
def add_exponentials(log_weight, v, top, mass):
    for i in range(mass.size):
        mass[i] += fast_exp(log_weight + v[i] - top[i])
