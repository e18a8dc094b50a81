"""Messages of one row in the log domain: the fallback for what underflows, and everything about maxima.

In the sum semiring a combination is log(e^a + e^b), in the max semiring the larger of the two; the rest is common.
"""

import math

import numpy as np

from pymc_spn.factor_graphs.linear_messages import (
    IMPOSSIBLE,
    PASSED,
    UNDERFLOW,
    add_table_gradient,
    log_tables,
)
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

TIE = 1e-12  # relative difference below which two configurations count as tied


@inner_kernel
def _combine(a, b, is_max):
    if b > a:
        a, b = b, a
    if is_max or b == -np.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@inner_kernel
def load_log_evidence(plan, codes, soft, row, out):
    """Log evidence of one row over the states of all variables."""
    out[:] = 0.0
    if soft.shape[0]:
        out[:] = soft[row % soft.shape[0]]
    if codes.shape[0]:
        given = codes[row % codes.shape[0]]
        for v in range(plan.card.size):
            if given[v] >= 0:
                for s in range(plan.state_start[v], plan.state_start[v + 1]):
                    if s - plan.state_start[v] != given[v]:
                        out[s] = -np.inf


@inner_kernel
def _entry(plan, log_table, own, message, c, s, r):
    """Log value of one entry of a clique: table, evidence and children's messages."""
    n_cols = plan.n_cols[c]
    value = log_table[plan.table_start[plan.table[c]] + s * n_cols + r] + own[plan.own_start[c] + r]
    for i in range(plan.child_ptr[c] + plan.n_simple[c], plan.child_ptr[c + 1]):
        value += message[plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + s * n_cols + r]]
    return value


@inner_kernel
def collect(plan, log_table, evidence, own, message, is_max):
    """Log messages towards the roots; returns the sum (or maximum) over all configurations."""
    total = 0.0
    for c in range(plan.parent.size):
        n_cols, o = plan.n_cols[c], plan.own_start[c]
        for r in range(n_cols):
            value = 0.0
            for k in range(plan.own_ptr[c], plan.own_ptr[c + 1]):
                v = plan.own_variables[k]
                value += evidence[plan.state_start[v] + r // plan.own_stride[v] % plan.card[v]]
            for i in range(plan.child_ptr[c], plan.child_ptr[c] + plan.n_simple[c]):
                value += message[plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + r]]
            own[o + r] = value
        for s in range(plan.n_rows[c]):
            top = -np.inf
            for r in range(n_cols):
                top = max(top, _entry(plan, log_table, own, message, c, s, r))
            value = top
            if not is_max and top > -np.inf:
                rest = 0.0
                for r in range(n_cols):
                    rest += math.exp(_entry(plan, log_table, own, message, c, s, r) - top)
                value = top + math.log(rest)
            message[plan.message_start[c] + s] = value
        if plan.parent[c] < 0:
            total += message[plan.message_start[c]]
    return total


@inner_kernel
def distribute(plan, log_table, own, message, towards, marginal, belief, is_max):
    """Log beliefs from the roots down, after `collect` with a finite total.

    ``marginal`` (states) and, unless empty, ``belief`` (own entries of all cliques, in clique order) are written. They
    are log probabilities. In the max semiring they are the log of the best configuration, relative to the best of all.
    """
    towards[:] = -np.inf
    marginal[:] = -np.inf
    at = np.int64(0)
    for c in range(plan.parent.size):
        at += plan.n_rows[c] * plan.n_cols[c]
    for c in range(plan.parent.size - 1, -1, -1):
        n_rows, n_cols, m = plan.n_rows[c], plan.n_cols[c], plan.message_start[c]
        at -= n_rows * n_cols
        mixed = plan.child_ptr[c] + plan.n_simple[c]
        if plan.parent[c] < 0:
            towards[m] = 0.0
        for s in range(n_rows):
            above = -np.inf
            if towards[m + s] > -np.inf:
                above = towards[m + s] - message[m + s]
            for r in range(n_cols):
                value = _entry(plan, log_table, own, message, c, s, r) + above
                if belief.size:
                    belief[at + s * n_cols + r] = value
                for i in range(plan.child_ptr[c], plan.child_ptr[c + 1]):
                    e = r if i < mixed else s * n_cols + r
                    g = plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + e]
                    towards[g] = _combine(towards[g], value, is_max)
                for k in range(plan.own_ptr[c], plan.own_ptr[c + 1]):
                    v = plan.own_variables[k]
                    g = plan.state_start[v] + r // plan.own_stride[v] % plan.card[v]
                    marginal[g] = _combine(marginal[g], value, is_max)


@kernel
def finish_in_logs(plan, potentials, codes, soft, weights, kept_start, log_z, marginals, gradient, kept, status):
    """Do the rows that `linear_messages.pass_messages` left with ``UNDERFLOW``; arguments as there.

    ``status`` becomes ``PASSED``, or ``IMPOSSIBLE`` where the evidence has probability zero: log_z is -inf then, and
    nothing is added to the other outputs.
    """
    n_rows, n_sets = log_z.size, potentials.shape[0]
    per_set = n_rows // n_sets
    n_entries = plan.table_start[-1]
    n_beliefs = np.sum(plan.n_rows * plan.n_cols)
    log_table, shift = np.empty(n_entries), np.empty(plan.table_start.size - 1)
    table_gradient = np.empty(n_entries)
    evidence, marginal = np.empty(plan.state_start[-1]), np.empty(plan.state_start[-1])
    own = np.empty(plan.own_start[-1])
    message, towards = np.empty(plan.message_start[-1]), np.empty(plan.message_start[-1])
    wants_beliefs = gradient.shape[0] > 0 or kept.shape[1] > 0
    belief = np.empty(n_beliefs if wants_beliefs else 0)
    constant, current = 0.0, -1
    unchecked = np.zeros(1, np.int64)
    for row in range(n_rows):
        if status[row] != UNDERFLOW:
            continue
        if must_stop_after(40 * n_beliefs, unchecked):
            return
        if row // per_set != current:
            current = row // per_set
            constant = log_tables(plan, potentials[current], log_table, shift)
        load_log_evidence(plan, codes, soft, row, evidence)
        total = collect(plan, log_table, evidence, own, message, False)
        log_z[row] = total + constant
        status[row] = PASSED if log_z[row] > -np.inf else IMPOSSIBLE
        if status[row] == IMPOSSIBLE or (marginals.shape[0] == 0 and not wants_beliefs):
            continue
        distribute(plan, log_table, own, message, towards, marginal, belief, False)
        weight = weights[row] if weights.size else 1.0
        if marginals.shape[0]:
            for s in range(marginal.size):
                marginals[row, s] += weight * math.exp(marginal[s])
        if wants_beliefs:
            table_gradient[:] = 0.0
            at = 0
            for c in range(plan.parent.size):
                n = plan.n_rows[c] * plan.n_cols[c]
                t = plan.table_start[plan.table[c]]
                for e in range(n):
                    value = weight * math.exp(belief[at + e])
                    table_gradient[t + e] += value
                    if kept_start[c] >= 0:
                        kept[row, kept_start[c] + e] = value
                at += n
            if gradient.shape[0]:
                add_table_gradient(plan, table_gradient, weight, gradient[current])


@inner_kernel
def _write_states(plan, c, r, states):
    for k in range(plan.own_ptr[c], plan.own_ptr[c + 1]):
        v = plan.own_variables[k]
        states[v] = r // plan.own_stride[v] % plan.card[v]


@inner_kernel
def _descend(plan, c, s, r, separator):
    """Tell the children of a clique which separator state the chosen entry means for them."""
    mixed = plan.child_ptr[c] + plan.n_simple[c]
    for i in range(plan.child_ptr[c], plan.child_ptr[c + 1]):
        e = r if i < mixed else s * plan.n_cols[c] + r
        separator[plan.children[i]] = plan.child_map[plan.map_ptr[i] + e]


@inner_kernel
def maximise(plan, log_table, evidence, own, message, towards, marginal, separator, states):
    """Best configuration of one row by max-sum and backtracking, and max-marginals relative to the best.

    Returns the log value of the best, without the constant; -inf means that no configuration is possible, and then
    only ``message`` is written.
    """
    best = collect(plan, log_table, evidence, own, message, True)
    if best == -np.inf:
        return best
    distribute(plan, log_table, own, message, towards, marginal, np.empty(0), True)
    for c in range(plan.parent.size - 1, -1, -1):
        s = separator[c] if plan.parent[c] >= 0 else 0
        top, chosen = -np.inf, 0
        for r in range(plan.n_cols[c]):
            value = _entry(plan, log_table, own, message, c, s, r)
            if value > top:
                top, chosen = value, r
        _write_states(plan, c, chosen, states)
        _descend(plan, c, s, chosen, separator)
    return best


@inner_kernel
def count_maximisers(plan, log_table, own, message, counts):
    """Number of configurations tied for the maximum (counting semiring), after `collect` with ``is_max``."""
    total = 1.0
    for c in range(plan.parent.size):
        n_cols, m = plan.n_cols[c], plan.message_start[c]
        mixed = plan.child_ptr[c] + plan.n_simple[c]
        for s in range(plan.n_rows[c]):
            top = message[m + s]
            count = 0.0
            for r in range(n_cols):
                value = _entry(plan, log_table, own, message, c, s, r)
                if value > -np.inf and value >= top - TIE * (1.0 + abs(top)):
                    ways = 1.0
                    for i in range(plan.child_ptr[c], plan.child_ptr[c + 1]):
                        e = r if i < mixed else s * n_cols + r
                        ways *= counts[plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + e]]
                    count += ways
            counts[m + s] = count
        if plan.parent[c] < 0:
            total *= counts[m]
    return total


@inner_kernel
def draw_states(plan, log_table, own, message, uniforms, separator, states):
    """Joint draws of one row after `collect` of sums: one uniform number per draw and clique decides its own states."""
    for i in range(states.shape[0]):
        for c in range(plan.parent.size - 1, -1, -1):
            s = separator[c] if plan.parent[c] >= 0 else 0
            total = message[plan.message_start[c] + s]
            left, chosen = uniforms[i, c], -1
            for r in range(plan.n_cols[c]):
                value = _entry(plan, log_table, own, message, c, s, r)
                if value > -np.inf:
                    chosen = r  # rounding may leave a rest: then the last possible state
                    left -= math.exp(value - total)
                    if left < 0.0:
                        break
            _write_states(plan, c, chosen, states[i])
            _descend(plan, c, s, chosen, separator)


@kernel
def draw_rows(plan, potentials, codes, soft, uniforms, states, log_z):
    """Joint draws for all rows; ``uniforms`` (n_rows, n_draws, n_cliques), ``states`` (n_rows, n_draws, n_variables).

    Rows whose ``log_z`` comes out as -inf or NaN have no draws: their states are -1.
    """
    per_set = log_z.size // potentials.shape[0]
    log_table, shift = np.empty(plan.table_start[-1]), np.empty(plan.table_start.size - 1)
    evidence, own = np.empty(plan.state_start[-1]), np.empty(plan.own_start[-1])
    message, separator = np.empty(plan.message_start[-1]), np.zeros(plan.parent.size, np.int64)
    constant = 0.0
    unchecked = np.zeros(1, np.int64)
    n_operations = 20 * np.sum(plan.n_rows * plan.n_cols) + 50 * uniforms.shape[1] * uniforms.shape[2]
    for row in range(log_z.size):
        if must_stop_after(n_operations, unchecked):
            return
        if row % per_set == 0:
            constant = log_tables(plan, potentials[row // per_set], log_table, shift)
        load_log_evidence(plan, codes, soft, row, evidence)
        log_z[row] = constant + collect(plan, log_table, evidence, own, message, False)
        if log_z[row] > -np.inf:
            draw_states(plan, log_table, own, message, uniforms[row], separator, states[row])
        else:
            states[row] = -1
