"""Log densities of a few rows, one at a time: what a call costs apart from the circuit itself is kept small.

A kernel that is given the twenty arrays of a tape spends longer on taking them over than on a thousand nodes. Here
they are one array of whole numbers, read from its beginning to its end. Leaves stand in the order of their columns, so
that all with one input and form are worked out together.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import form_at, read_value
from pymc_spn.circuits.evaluation.linear_pass import SMALLEST
from pymc_spn.circuits.evaluation.tape import ADD, LEAVES, MULTIPLY, Tape
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, QUADRATIC, TABLE
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_inner_reduction, kernel

NOWHERE = 0.5 * IMPOSSIBLE  # logs below it stand for a density of zero
HEADER = 3  # numbers of a program before its first operation: slots, the root's slot, most operands of one operation


class RowProgram(NamedTuple):
    """A tape as two arrays, for rows one at a time.

    Parameters
    ----------
    program : (P,) int32
        The header, then the operations one after another. Each begins with its code, whether old values are
        overwritten, and the number n of operands. LEAVES adds the first of their places, which follow each other, and
        the slot that is written. MULTIPLY adds the slot that is written and n slots that are read. ADD adds the number
        m of sums over the same operands, n slots that are read and m that are written.
    runs : (R, 5) int64
        Leaves of one column, reading and form: these three, and the first and last of their places, ordered by column.
    order : (L,) int64
        Position in the tape of the leaf in each place.
    """

    program: np.ndarray
    runs: np.ndarray
    order: np.ndarray


def make_row_program(tape: Tape) -> RowProgram:
    """The tape for rows one at a time."""
    order = tape.by_column
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    kinds = np.stack(
        [
            tape.input_column[tape.leaf_input[order]],
            tape.input_reading[tape.leaf_input[order]],
            tape.leaf_form[order],
        ],
        axis=1,
    )
    first = np.flatnonzero(np.any(np.diff(kinds, axis=0, prepend=-1) != 0, axis=1))
    last = np.append(first[1:], order.size)
    program = np.empty(HEADER + 5 * tape.code.size + tape.operand.size + order.size, np.int32)
    size = write_program(tape, place, program)
    return RowProgram(program[:size].copy(), np.column_stack([kinds[first], first, last]), order)


@kernel
def write_program(tape, place, program):
    """Write the operations; returns how many numbers they take."""
    program[0], program[1], program[2] = tape.n_slots, tape.root, 1
    at, op = HEADER, 0
    while op < tape.code.size:
        code, begin, end = tape.code[op], tape.begin[op], tape.end[op]
        n_out = tape.together[op] if code == ADD else 1
        n = end - begin
        program[at], program[at + 1], program[at + 2] = code, tape.fresh[op], n
        program[2] = max(program[2], n)
        if code == LEAVES:
            program[at + 3], program[at + 4] = place[begin], tape.out[op]
            at += 5
        elif code == MULTIPLY:
            program[at + 3] = tape.out[op]
            program[at + 4 : at + 4 + n] = tape.operand[begin:end]
            at += 4 + n
        else:
            program[at + 3] = n_out
            program[at + 4 : at + 4 + n] = tape.operand[begin:end]
            program[at + 4 + n : at + 4 + n + n_out] = tape.out[op : op + n_out]
            at += 4 + n + n_out
        op += n_out
    return at


@bare_inner_kernel
def quadratic_logs(lead, a, b, u, base, out):
    for i in range(out.size):
        t = (u - a[i]) * b[i]
        out[i] = (lead[i] - t * t) + base


@bare_inner_kernel
def largest(x):
    """Largest of the numbers, four comparisons at a time that do not wait for each other."""
    p = q = r = s = IMPOSSIBLE
    i = 0
    while i + 3 < x.size:
        p, q, r, s = max(p, x[i]), max(q, x[i + 1]), max(r, x[i + 2]), max(s, x[i + 3])
        i += 4
    while i < x.size:
        p = max(p, x[i])
        i += 1
    return max(max(p, q), max(r, s))


@bare_inner_kernel
def exponentiate(log_weight, shift, x):
    for i in range(x.size):
        x[i] += log_weight[i] - shift
    for i in range(x.size):  # a loop of its own, which becomes vector code
        x[i] = fast_exp(x[i])


@bare_inner_reduction
def dot(weight, x):
    total = 0.0
    for j in range(x.size):
        total += weight[j] * x[j]
    return total


@kernel
def log_densities_of_few(program, runs, coefficients, weight, table, values, out):
    """Log densities of rows in linear space; NaN where that would lose them.

    Parameters
    ----------
    program, runs : see `RowProgram`
    coefficients : (5, L) float64
        See `tape_coefficients`, but in the order of the places.
    weight, table : see `tape_coefficients`
    values : (N, D) float64
    out : (N,) float64

    Returns
    -------
    int
        Number of rows that are NaN.
    """
    log_weight, lead, a, b, c = coefficients
    slots, leaf, held = np.empty(program[0]), np.empty(lead.size), np.empty(program[2])
    n_lost = 0
    for n in range(values.shape[0]):
        total, first = 0.0, 0
        top = IMPOSSIBLE
        for r in range(runs.shape[0]):
            d, reading, form, begin, end = runs[r]
            x = values[n, d]
            if math.isnan(x):
                leaf[begin:end] = 0.0
            else:
                u, base = read_value(x, reading)
                if form == QUADRATIC:
                    quadratic_logs(lead[begin:end], a[begin:end], b[begin:end], u, base, leaf[begin:end])
                else:
                    for i in range(begin, end):
                        own = table[int(a[i]) :] if form == TABLE else table
                        leaf[i] = form_at(form, lead[i], a[i], b[i], c[i], own, u) + base
            top = max(top, largest(leaf[begin:end]))
            if r + 1 == runs.shape[0] or runs[r + 1, 0] != d:
                exponentiate(log_weight[first:end], top, leaf[first:end])
                total += top
                top, first = IMPOSSIBLE, end
        root = root_of_program(program, weight, leaf, slots, held)
        if root > SMALLEST and total > NOWHERE:
            out[n] = total + math.log(root)
        else:
            out[n] = math.nan
            n_lost += 1
    return n_lost


@bare_inner_kernel
def root_of_program(program, weight, leaf, slots, held):
    """Value of the root from the values of the leaves, with the weights of their edges."""
    at, w = HEADER, 0
    while at < program.size:
        code, fresh, n, first = program[at], program[at + 1], program[at + 2], program[at + 3]
        at += 4
        if code == LEAVES:
            value = leaf[first]
            for j in range(first + 1, first + n):
                value += leaf[j]
            at += 1
            slots[program[at - 1]] = value if fresh else slots[program[at - 1]] + value
        elif code == MULTIPLY:
            value = 1.0 if fresh else slots[first]
            for j in range(at, at + n):
                value *= slots[program[j]]
            slots[first] = value
            at += n
            w += n
        else:
            for j in range(n):
                held[j] = slots[program[at + j]]
            at += n
            for i in range(at, at + first):
                value = dot(weight[w : w + n], held[:n])
                slots[program[i]] = value if fresh else slots[program[i]] + value
                w += n
            at += first
    return slots[program[1]]
