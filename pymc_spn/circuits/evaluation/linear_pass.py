"""Densities of blocks of rows in linear space, one logarithm at the root.

Every induced tree has exactly one leaf for each column, so dividing a column's leaves by the largest of them (for
each row) multiplies the root by a known factor. Rows whose root comes out too small for that to be exact to rounding
are left to `log_pass`.
"""

import math

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import form_at, leaf_coefficients, read_values
from pymc_spn.circuits.evaluation.tape import ADD, MULTIPLY
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, LINEAR, QUADRATIC
from pymc_spn.numerics.elementary import exponential, fast_log
from pymc_spn.numerics.kernel_options import bare_inner_kernel, kernel

SMALLEST = 1e-280  # a root above it has lost less than 1e-27 of itself below each product of an induced tree
TINY = 1e-307  # products below it are 0: numbers smaller than the normal ones take the processor many times as long
SMALLEST_32, TINY_32 = np.float32(1e-26), np.float32(1e-34)


@kernel
def tape_coefficients(tape, layout, log_weights, theta, family_begin, family_width, coefficients, weight, table):
    """Coefficients of the leaves and weights of the operands in tape order, from the circuit's parameters.

    Parameters
    ----------
    coefficients : (5, L) float64
        Out: log weight, lead, a, b, c.
    weight : (n_operands,) float64
        Out.
    table : (P,) float64
        Out: logs of `theta` where it holds probabilities of levels.
    """
    one = np.zeros(4)
    for i in range(tape.leaf.size):
        k = tape.leaf[i]
        f = layout.leaf_family[k]
        begin = family_begin[f] + layout.leaf_row[k] * family_width[f]
        width = family_width[f]
        one[:] = 0.0
        leaf_coefficients(layout.leaf_code[k], theta[begin : begin + width], width, one)
        coefficients[0, i] = max(log_weights[tape.leaf_edge[i]], IMPOSSIBLE) if tape.leaf_edge[i] >= 0 else 0.0
        coefficients[1:, i] = one
        if layout.leaf_form[k] == 3:
            coefficients[2, i] = begin
            for v in range(begin, begin + width):
                table[v] = math.log(theta[v]) if theta[v] > 0.0 else IMPOSSIBLE
    for i in range(tape.operand.size):
        weight[i] = math.exp(log_weights[tape.operand_edge[i]]) if tape.operand_edge[i] >= 0 else 1.0


@bare_inner_kernel
def quadratic_peak(lead, a, b, u, present, base, out):
    for i in range(out.size):
        t = (u[i] - a) * b
        out[i] = max(out[i], present[i] * (lead - t * t) + base[i])


@bare_inner_kernel
def quadratic_peak_pair(lead, a, b, lead2, a2, b2, u, present, base, out):
    for i in range(out.size):
        t = (u[i] - a) * b
        s = (u[i] - a2) * b2
        out[i] = max(out[i], present[i] * max(lead - t * t, lead2 - s * s) + base[i])


@bare_inner_kernel
def linear_peak(lead, a, u, present, base, out):
    for i in range(out.size):
        out[i] = max(out[i], present[i] * (lead + a * u[i]) + base[i])


@bare_inner_kernel
def set_quadratic(log_weight, lead, a, b, u, present, base, out):
    for i in range(out.size):
        t = (u[i] - a) * b
        out[i] = exponential(present[i] * (lead - t * t) + (log_weight + base[i]))


@bare_inner_kernel
def add_quadratic(log_weight, lead, a, b, u, present, base, out):
    for i in range(out.size):
        t = (u[i] - a) * b
        out[i] += exponential(present[i] * (lead - t * t) + (log_weight + base[i]))


@bare_inner_kernel
def set_quadratic_pair(log_weight, lead, a, b, log_weight2, lead2, a2, b2, u, present, base, out):
    for i in range(out.size):
        t = (u[i] - a) * b
        s = (u[i] - a2) * b2
        first = exponential(present[i] * (lead - t * t) + (log_weight + base[i]))
        out[i] = first + exponential(present[i] * (lead2 - s * s) + (log_weight2 + base[i]))


@bare_inner_kernel
def add_quadratic_pair(log_weight, lead, a, b, log_weight2, lead2, a2, b2, u, present, base, out):
    for i in range(out.size):
        t = (u[i] - a) * b
        s = (u[i] - a2) * b2
        first = exponential(present[i] * (lead - t * t) + (log_weight + base[i]))
        out[i] += first + exponential(present[i] * (lead2 - s * s) + (log_weight2 + base[i]))


@bare_inner_kernel
def add_linear(log_weight, lead, a, u, present, base, out):
    for i in range(out.size):
        out[i] += exponential(present[i] * (lead + a * u[i]) + (log_weight + base[i]))


@bare_inner_kernel
def add_other(form, log_weight, lead, a, b, c, table, u, present, base, out):
    for i in range(out.size):
        value = form_at(form, lead, a, b, c, table, u[i]) if present[i] != 0.0 else 0.0
        out[i] += exponential(log_weight + (value + base[i]))


@bare_inner_kernel
def other_peak(form, lead, a, b, c, table, u, present, base, out):
    for i in range(out.size):
        value = form_at(form, lead, a, b, c, table, u[i]) if present[i] != 0.0 else 0.0
        out[i] = max(out[i], value + base[i])


@bare_inner_kernel
def find_shifts(tape, coefficients, table, u, present, base, shift):
    """Largest leaf log density (D, B) of each column, and base minus that in place of base (I, B)."""
    _, lead, a, b, c = coefficients
    for d in range(shift.shape[0]):
        top = shift[d]
        top[:] = IMPOSSIBLE
        j = tape.column_ptr[d]
        last = tape.column_ptr[d + 1]
        while j < last:
            i = tape.by_column[j]
            k, form = tape.leaf_input[i], tape.leaf_form[i]
            j += 1
            if form == QUADRATIC:
                i2 = tape.by_column[j] if j < last else i
                if i2 != i and tape.leaf_form[i2] == QUADRATIC and tape.leaf_input[i2] == k:
                    j += 1
                    quadratic_peak_pair(lead[i], a[i], b[i], lead[i2], a[i2], b[i2], u[k], present[k], base[k], top)
                else:
                    quadratic_peak(lead[i], a[i], b[i], u[k], present[k], base[k], top)
            elif form == LINEAR:
                linear_peak(lead[i], a[i], u[k], present[k], base[k], top)
            else:
                other_peak(
                    form,
                    lead[i],
                    a[i],
                    b[i],
                    c[i],
                    table[int(a[i]) :] if form == 3 else table,
                    u[k],
                    present[k],
                    base[k],
                    top,
                )
    for k in range(tape.input_column.size):
        d = tape.input_column[k]
        for i in range(shift.shape[1]):
            base[k, i] -= shift[d, i]


@bare_inner_kernel
def run_tape(tape, coefficients, weight, table, u, present, base, tiny, slots):
    """Values of the root, in its slot, for a block of rows; ``base`` as `find_shifts` leaves it."""
    log_weight, lead, a, b, c = coefficients
    op = -1
    while op + 1 < tape.code.size:
        op += 1
        code, begin, end = tape.code[op], tape.begin[op], tape.end[op]
        out = slots[tape.out[op]]
        if code == ADD and tape.together[op] >= 4:
            add_to_four(
                tape.operand[begin:end],
                weight[begin:],
                weight[tape.begin[op + 1] :],
                weight[tape.begin[op + 2] :],
                weight[tape.begin[op + 3] :],
                slots,
                tape.fresh[op],
                out,
                slots[tape.out[op + 1]],
                slots[tape.out[op + 2]],
                slots[tape.out[op + 3]],
            )
            op += 3
        elif code == ADD:
            if tape.fresh[op]:
                out[:] = 0.0
            add_weighted(tape.operand[begin:end], weight[begin:end], slots, out)
        elif code == MULTIPLY:
            multiply(tape.operand[begin:end], slots, tiny, out, tape.fresh[op])
        else:
            form, k = tape.leaf_form[begin], tape.leaf_input[begin]
            x, seen, offset = u[k], present[k], base[k]
            i = begin
            if form == QUADRATIC:
                if tape.fresh[op] and i + 1 < end:
                    j = i + 1
                    set_quadratic_pair(
                        log_weight[i], lead[i], a[i], b[i], log_weight[j], lead[j], a[j], b[j], x, seen, offset, out
                    )
                    i += 2
                elif tape.fresh[op]:
                    set_quadratic(log_weight[i], lead[i], a[i], b[i], x, seen, offset, out)
                    i += 1
                while i + 1 < end:
                    j = i + 1
                    add_quadratic_pair(
                        log_weight[i], lead[i], a[i], b[i], log_weight[j], lead[j], a[j], b[j], x, seen, offset, out
                    )
                    i += 2
                if i < end:
                    add_quadratic(log_weight[i], lead[i], a[i], b[i], x, seen, offset, out)
                continue
            if tape.fresh[op]:
                out[:] = 0.0
            for i in range(begin, end):
                if form == LINEAR:
                    add_linear(log_weight[i], lead[i], a[i], x, seen, offset, out)
                else:
                    add_other(
                        form,
                        log_weight[i],
                        lead[i],
                        a[i],
                        b[i],
                        c[i],
                        table[int(a[i]) :] if form == 3 else table,
                        x,
                        seen,
                        offset,
                        out,
                    )


@bare_inner_kernel
def add_weighted(operand, weight, slots, out):
    """out += sum of weight x slot, four operands at a time so that `out` is loaded and stored less often."""
    j = 0
    while j + 3 < operand.size:
        add_four(
            weight[j], slots[operand[j]], weight[j + 1], slots[operand[j + 1]],
            weight[j + 2], slots[operand[j + 2]], weight[j + 3], slots[operand[j + 3]], out,
        )  # fmt: skip
        j += 4
    while j < operand.size:
        add_one(weight[j], slots[operand[j]], out)
        j += 1


@bare_inner_kernel
def add_four(w0, v0, w1, v1, w2, v2, w3, v3, out):
    for i in range(out.size):
        out[i] += (w0 * v0[i] + w1 * v1[i]) + (w2 * v2[i] + w3 * v3[i])


@bare_inner_kernel
def add_one(w, v, out):
    for i in range(out.size):
        out[i] += w * v[i]


@bare_inner_kernel
def add_to_four(operand, w, x, y, z, slots, is_fresh, first, second, third, fourth):
    """Four sums of the same slots: what is loaded of them serves all four, four operands at a time."""
    if is_fresh:
        for i in range(first.size):
            first[i] = second[i] = third[i] = fourth[i] = 0.0
    j = 0
    while j + 3 < operand.size:
        add_four_by_four(
            w[j], w[j + 1], w[j + 2], w[j + 3], x[j], x[j + 1], x[j + 2], x[j + 3],
            y[j], y[j + 1], y[j + 2], y[j + 3], z[j], z[j + 1], z[j + 2], z[j + 3],
            slots[operand[j]], slots[operand[j + 1]], slots[operand[j + 2]], slots[operand[j + 3]],
            first, second, third, fourth,
        )  # fmt: skip
        j += 4
    while j < operand.size:
        v = slots[operand[j]]
        add_one(w[j], v, first)
        add_one(x[j], v, second)
        add_one(y[j], v, third)
        add_one(z[j], v, fourth)
        j += 1


@bare_inner_kernel
def add_four_by_four(
    w0, w1, w2, w3, x0, x1, x2, x3, y0, y1, y2, y3, z0, z1, z2, z3, v0, v1, v2, v3, first, second, third, fourth
):
    for i in range(first.size):
        a, b, c, d = v0[i], v1[i], v2[i], v3[i]
        first[i] += (w0 * a + w1 * b) + (w2 * c + w3 * d)
        second[i] += (x0 * a + x1 * b) + (x2 * c + x3 * d)
        third[i] += (y0 * a + y1 * b) + (y2 * c + y3 * d)
        fourth[i] += (z0 * a + z1 * b) + (z2 * c + z3 * d)


@bare_inner_kernel
def multiply(operand, slots, tiny, out, is_fresh):
    j = 0
    if is_fresh and operand.size > 1:
        multiply_pair(slots[operand[0]], slots[operand[1]], tiny, out)
        j = 2
    elif is_fresh:
        copy_values(slots[operand[0]], out)
        j = 1
    while j < operand.size:
        multiply_one(slots[operand[j]], tiny, out)
        j += 1


@bare_inner_kernel
def copy_values(v, out):
    for i in range(out.size):
        out[i] = v[i]


@bare_inner_kernel
def multiply_pair(v, w, tiny, out):
    for i in range(out.size):
        x = v[i] * w[i]
        out[i] = out.dtype.type(0.0) if x < tiny else x


@bare_inner_kernel
def multiply_one(v, tiny, out):
    for i in range(out.size):
        x = out[i] * v[i]
        out[i] = out.dtype.type(0.0) if x < tiny else x


@kernel
def linear_log_densities(tape, coefficients, weight, table, values, limits, slots, u, present, base, shift, out):
    """Log densities of all rows; NaN where the root is below the first of the limits or a shift is impossible.

    The type of `slots` and of the limits, `SMALLEST` and `TINY`, decides in which precision the circuit runs.
    """
    smallest, tiny = limits
    block = u.shape[1]
    root = slots[tape.root]
    for first in range(0, values.shape[0], block):
        n = min(block, values.shape[0] - first)
        read_values(values, first, tape.input_column, tape.input_reading, u, base, present)
        find_shifts(tape, coefficients, table, u, present, base, shift)
        run_tape(tape, coefficients, weight, table, u, present, base, tiny, slots)
        for i in range(n):
            total = 0.0
            for d in range(shift.shape[0]):
                total += shift[d, i]
            fine = root[i] > smallest and total > 0.5 * IMPOSSIBLE
            out[first + i] = total + fast_log(float(root[i])) if fine else np.nan
