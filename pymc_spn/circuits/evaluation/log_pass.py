"""The same tape in log space, for the rows that linear space would lose."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import form_at, read_values
from pymc_spn.circuits.evaluation.tape import ADD, MULTIPLY
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, TABLE
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import bare_inner_kernel, kernel

NOWHERE = 0.5 * IMPOSSIBLE  # logs below it stand for a density of zero


@kernel
def log_densities(tape, coefficients, log_operand, table, values, which, slots, total, u, base, present, out):
    """Log densities of the rows ``which`` of the table, by log-sum-exp at every sum.

    Parameters
    ----------
    log_operand : (n_operands,) float64
        Logs of the operands' weights.
    slots : (n_slots, B) float64
    total, u, base, present : scratch, the last three (I, B)
    """
    block = slots.shape[1]
    gathered = np.empty((block, values.shape[1]))
    top, mass = total[0], total[1]
    for first in range(0, which.size, block):
        n = min(block, which.size - first)
        for i in range(block):
            gathered[i] = values[which[first + min(i, n - 1)]]
        read_values(gathered, 0, tape.input_column, tape.input_reading, u, base, present)
        run_tape_by_logs(tape, coefficients, log_operand, table, u, present, base, slots, top, mass)
        for i in range(n):
            found = slots[tape.root, i]
            out[which[first + i]] = found if found > NOWHERE else -math.inf


@bare_inner_kernel
def run_tape_by_logs(tape, coefficients, log_operand, table, u, present, base, slots, top, mass):
    log_weight, lead, a, b, c = coefficients
    for op in range(tape.code.size):
        code, begin, end = tape.code[op], tape.begin[op], tape.end[op]
        out = slots[tape.out[op]]
        if code == MULTIPLY:
            if tape.fresh[op]:
                out[:] = 0.0
            for j in range(begin, end):
                add_logs(slots[tape.operand[j]], out)
            continue
        top[:] = IMPOSSIBLE
        if not tape.fresh[op]:
            raise_top(0.0, out, top)
        if code == ADD:
            for j in range(begin, end):
                raise_top(log_operand[j], slots[tape.operand[j]], top)
        else:
            k = tape.leaf_input[begin]
            for i in range(begin, end):
                raise_top_by_leaf(
                    tape.leaf_form[i], log_weight[i], lead[i], a[i], b[i], c[i], table, u[k], present[k], base[k], top
                )
        mass[:] = 0.0
        if not tape.fresh[op]:
            add_mass(0.0, out, top, mass)
        if code == ADD:
            for j in range(begin, end):
                add_mass(log_operand[j], slots[tape.operand[j]], top, mass)
        else:
            k = tape.leaf_input[begin]
            for i in range(begin, end):
                add_leaf_mass(
                    tape.leaf_form[i],
                    log_weight[i],
                    lead[i],
                    a[i],
                    b[i],
                    c[i],
                    table,
                    u[k],
                    present[k],
                    base[k],
                    top,
                    mass,
                )
        take_logs(top, mass, out)


@bare_inner_kernel
def add_logs(v, out):
    for i in range(out.size):
        out[i] += v[i]


@bare_inner_kernel
def raise_top(log_weight, v, top):
    for i in range(top.size):
        top[i] = max(top[i], log_weight + v[i])


@bare_inner_kernel
def add_mass(log_weight, v, top, mass):
    for i in range(top.size):
        mass[i] += fast_exp(log_weight + v[i] - top[i])


@bare_inner_kernel
def take_logs(top, mass, out):
    for i in range(out.size):
        out[i] = top[i] + fast_log(mass[i])


@bare_inner_kernel
def raise_top_by_leaf(form, log_weight, lead, a, b, c, table, u, present, base, top):
    if form == 0:
        for i in range(top.size):
            t = (u[i] - a) * b
            top[i] = max(top[i], log_weight + (present[i] * (lead - t * t) + base[i]))
        return
    own = table[int(a) :] if form == TABLE else table
    for i in range(top.size):
        value = form_at(form, lead, a, b, c, own, u[i]) if present[i] != 0.0 else 0.0
        top[i] = max(top[i], log_weight + (value + base[i]))


@bare_inner_kernel
def add_leaf_mass(form, log_weight, lead, a, b, c, table, u, present, base, top, mass):
    if form == 0:
        for i in range(top.size):
            t = (u[i] - a) * b
            mass[i] += fast_exp(log_weight + (present[i] * (lead - t * t) + base[i]) - top[i])
        return
    own = table[int(a) :] if form == TABLE else table
    for i in range(top.size):
        value = form_at(form, lead, a, b, c, own, u[i]) if present[i] != 0.0 else 0.0
        mass[i] += fast_exp(log_weight + (value + base[i]) - top[i])
