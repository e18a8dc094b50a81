"""Sum-product on a junction tree in scaled linear arithmetic, eight rows of evidence at a time.

Tables and messages are scaled to a maximum near one by powers of two, which cost no logarithm and no rounding. What
underflows may come to weigh more than the rest, since that may shrink by 1e-200 at every clique further on. So each
message carries a bound on what its entries have lost (`scaling`). A row whose roots could have lost more than is
negligible, or in which some message falls below `SMALLEST`, is left to the log domain.
"""

import math

import numpy as np

from pymc_spn.factor_graphs.scaling import NEGLIGIBLE, lost_by, scaled
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.lanes import (
    LANES,
    add,
    exponent_sum,
    larger,
    load,
    mul,
    multiply_add,
    ratio,
    smaller,
    splat,
    store,
)

SMALLEST = 1e-200
LOG_SMALLEST_NORMAL = -708.0
MOST_FACTORS = 64  # messages, each in [1, 2), that are multiplied before their product is scaled
PASSED, IMPOSSIBLE, UNDERFLOW, NOT_A_NUMBER = 0, 1, 2, 3


@kernel
def log_tables(plan, potentials, out, shift):
    """Log of every clique table for one vector of log potentials, with its largest entry apart.

    ``out`` (n_entries,) and ``shift`` (n_tables,) are written; returns the constant of factors without variables.
    """
    for t in range(shift.size):
        begin = plan.table_start[t]
        n = plan.table_start[t + 1] - begin
        for e in range(n):
            out[begin + e] = 0.0
        for i in range(plan.term_ptr[t], plan.term_ptr[t + 1]):
            offset, at = plan.term_offset[i], plan.term_map_ptr[i]
            for e in range(n):
                out[begin + e] += potentials[offset + plan.term_map[at + e]]
        top = -np.inf
        for e in range(n):
            if out[begin + e] > top or out[begin + e] != out[begin + e]:
                top = out[begin + e]
        shift[t] = top
    constant = 0.0
    for offset in plan.constants:
        constant += potentials[offset]
    return constant


@inner_kernel
def _exponentiate(plan, log_table, shift, table, least, row_sum):
    """Tables with a largest entry of one; ``least`` (n_tables,) is the smallest positive entry of each, 0 if that
    underflows, ``row_sum`` (n_tables,) the largest sum of a row."""
    for t in range(shift.size):
        top = shift[t] if shift[t] > -np.inf else 0.0
        least[t] = 1.0
        for e in range(plan.table_start[t], plan.table_start[t + 1]):
            x = log_table[e] - top
            table[e] = fast_exp(x) if x > LOG_SMALLEST_NORMAL else 0.0
            if x > -np.inf:
                least[t] = min(least[t], table[e])
    row_sum[:] = 0.0
    for c in range(plan.parent.size):
        t = plan.table[c]
        if row_sum[t] == 0.0:
            for s in range(plan.n_rows[c]):
                begin = plan.table_start[t] + s * plan.n_cols[c]
                row_sum[t] = max(row_sum[t], np.sum(table[begin : begin + plan.n_cols[c]]))


@inner_kernel
def _load_evidence(plan, codes, soft, row, n_lanes, evidence, least, offset, status):
    """Evidence of rows ``row``.. as factors on states, largest one; its logs go to ``offset`` (LANES,).

    ``least`` (n_variables * LANES,) is the smallest positive one of each variable, 0 if that underflows.
    """
    for v in range(plan.card.size):
        store(least, v, splat(1.0))
    if soft.shape[0] == 0:
        for s in range(plan.state_start[-1]):
            store(evidence, s, splat(1.0))
    else:
        for lane in range(LANES):
            given = soft[(row + min(lane, n_lanes - 1)) % soft.shape[0]]
            for v in range(plan.card.size):
                top = -np.inf
                for s in range(plan.state_start[v], plan.state_start[v + 1]):
                    top = max(top, given[s])
                    if given[s] != given[s] or given[s] == np.inf:
                        status[lane] = NOT_A_NUMBER
                offset[lane] += top if top > -np.inf else 0.0
                base = top if top > -np.inf else 0.0
                bottom = 0.0
                for s in range(plan.state_start[v], plan.state_start[v + 1]):
                    x = given[s] - base
                    evidence[s * LANES + lane] = fast_exp(x) if x > LOG_SMALLEST_NORMAL else 0.0
                    bottom = min(bottom, x if x > -np.inf else 0.0)
                least[v * LANES + lane] = fast_exp(bottom) if bottom > LOG_SMALLEST_NORMAL else 0.0
    if codes.shape[0] == 0:
        return
    for lane in range(n_lanes):
        given = codes[(row + lane) % codes.shape[0]]
        for v in range(plan.card.size):
            if given[v] >= 0:
                for s in range(plan.state_start[v], plan.state_start[v + 1]):
                    if s - plan.state_start[v] != given[v]:
                        evidence[s * LANES + lane] = 0.0


@inner_kernel
def _weighted_sums(table, begin, n_sums, n_terms, x, x_begin, out, out_begin, factor, is_down):
    """Table (n_sums, n_terms) times ``n_terms`` groups of ``x``, into ``out``; returns the largest.

    On the way down, the table (n_terms, n_sums) is transposed, and each sum is multiplied by the factor at its place.
    """
    if is_down:
        step, step_in_sum = 1, n_sums
    else:
        step, step_in_sum = n_terms, 1
    top = splat(0.0)
    i = 0
    while i + 4 <= n_sums:  # four sums at a time hide the latency of the additions
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        at, place = begin + i * step, out_begin + i
        for j in range(n_terms):
            term = load(x, x_begin + j)
            a = multiply_add(splat(table[at]), term, a)
            b = multiply_add(splat(table[at + step]), term, b)
            c = multiply_add(splat(table[at + 2 * step]), term, c)
            d = multiply_add(splat(table[at + 3 * step]), term, d)
            at += step_in_sum
        if is_down:
            a, b = mul(a, load(factor, place)), mul(b, load(factor, place + 1))
            c, d = mul(c, load(factor, place + 2)), mul(d, load(factor, place + 3))
        else:
            top = larger(larger(a, b), larger(larger(c, d), top))
        store(out, place, a)
        store(out, place + 1, b)
        store(out, place + 2, c)
        store(out, place + 3, d)
        i += 4
    while i < n_sums:
        a = splat(0.0)
        at = begin + i * step
        for j in range(n_terms):
            a = multiply_add(splat(table[at]), load(x, x_begin + j), a)
            at += step_in_sum
        if is_down:
            a = mul(a, load(factor, out_begin + i))
        else:
            top = larger(a, top)
        store(out, out_begin + i, a)
        i += 1
    return top


@inner_kernel
def _collect(plan, table, table_least, row_sum, evidence, evidence_least, own, message, unscale, least, lost):
    """Messages towards the roots, scaled.

    ``least`` and ``lost`` (n_cliques * LANES,) are written: the smallest positive entry of each message, and a bound on
    what its entries have lost. Returns (sum of log2 of scales, smallest maximum of a message, what the roots lost).
    """
    exponents = splat(0.0)
    low = splat(1.0)
    at_roots = splat(0.0)
    for c in range(plan.parent.size):
        n_rows, n_cols = plan.n_rows[c], plan.n_cols[c]
        t, o, m = plan.table_start[plan.table[c]], plan.own_start[c], plan.message_start[c]
        first = plan.own_ptr[c]
        product, lost_here, n_factors = splat(1.0), splat(0.0), 0
        for k in range(first, plan.own_ptr[c + 1]):
            v = plan.own_variables[k]
            product = mul(product, load(evidence_least, v))
            start, stride, card = plan.state_start[v], plan.own_stride[v], plan.card[v]
            if k == first:
                if card == n_cols:
                    for r in range(n_cols):
                        store(own, o + r, load(evidence, start + r))
                else:
                    for r in range(n_cols):
                        store(own, o + r, load(evidence, start + r // stride % card))
            else:
                for r in range(n_cols):
                    store(own, o + r, mul(load(own, o + r), load(evidence, start + r // stride % card)))
        mixed = plan.child_ptr[c] + plan.n_simple[c]
        for i in range(plan.child_ptr[c], mixed):
            below, at = plan.message_start[plan.children[i]], plan.map_ptr[i]
            for r in range(n_cols):
                store(own, o + r, mul(load(own, o + r), load(message, below + plan.child_map[at + r])))
            product = mul(product, load(least, plan.children[i]))
            lost_here = add(lost_here, load(lost, plan.children[i]))
            n_factors += 1
            if n_factors == MOST_FACTORS:
                top = splat(0.0)
                for r in range(n_cols):
                    top = larger(load(own, o + r), top)
                lost_here = lost_by(product, n_factors, lost_here)
                power, _, product, lost_here = scaled(own, o, n_cols, top, lost_here)
                exponents = exponent_sum(exponents, power)
                low = smaller(top, low)
                n_factors = 0
        top = splat(0.0)
        if mixed == plan.child_ptr[c + 1]:
            top = _weighted_sums(table, t, n_rows, n_cols, own, o, message, m, own, False)
        else:
            entry = 0
            for s in range(n_rows):
                a = splat(0.0)
                for r in range(n_cols):
                    x = mul(splat(table[t + entry]), load(own, o + r))
                    for i in range(mixed, plan.child_ptr[c + 1]):
                        at = plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + entry]
                        x = mul(x, load(message, at))
                    a = add(a, x)
                    entry += 1
                store(message, m + s, a)
                top = larger(a, top)
        for i in range(mixed, plan.child_ptr[c + 1]):
            product = mul(product, load(least, plan.children[i]))
            lost_here = add(lost_here, load(lost, plan.children[i]))
        n_factors += plan.child_ptr[c + 1] - mixed
        lost_here = lost_by(mul(product, splat(table_least[plan.table[c]])), n_factors, lost_here)
        lost_here = mul(lost_here, splat(max(row_sum[plan.table[c]], 1.0)))
        power, inverse, product, lost_here = scaled(message, m, n_rows, top, lost_here)
        store(least, c, product)
        store(lost, c, lost_here)
        store(unscale, c, inverse)
        exponents = exponent_sum(exponents, power)
        low = smaller(top, low)
        if plan.parent[c] < 0:
            at_roots = add(at_roots, lost_here)
    return exponents, low, at_roots


@inner_kernel
def _distribute(plan, table, own, message, unscale, weight, towards, belief, gradient, kept_start, kept):
    """Beliefs from the roots down, times each row's weight.

    ``towards`` and ``belief`` (own states of each clique) are written; unless empty, ``gradient`` (entries) gains
    beliefs divided by the table, and ``kept`` receives the beliefs of cliques with ``kept_start`` >= 0.
    """
    wants_gradient = gradient.size > 0
    for g in range(plan.message_start[-1]):
        store(towards, g, splat(0.0))
    for c in range(plan.parent.size - 1, -1, -1):
        n_rows, n_cols = plan.n_rows[c], plan.n_cols[c]
        t, o, m = plan.table_start[plan.table[c]], plan.own_start[c], plan.message_start[c]
        inverse = load(unscale, c)
        if plan.parent[c] < 0:
            store(towards, m, load(weight, 0))
        for s in range(n_rows):
            store(towards, m + s, mul(ratio(load(towards, m + s), load(message, m + s)), inverse))
        mixed = plan.child_ptr[c] + plan.n_simple[c]
        keeps = kept_start[c] >= 0
        if mixed == plan.child_ptr[c + 1] and not keeps:
            _weighted_sums(table, t, n_cols, n_rows, towards, m, belief, o, own, True)
            if wants_gradient:
                for s in range(n_rows):
                    x = load(towards, m + s)
                    at = t + s * n_cols
                    for r in range(n_cols):
                        store(gradient, at + r, multiply_add(x, load(own, o + r), load(gradient, at + r)))
        else:
            for r in range(n_cols):
                store(belief, o + r, splat(0.0))
            entry = 0
            for s in range(n_rows):
                above = load(towards, m + s)
                for r in range(n_cols):
                    x = mul(above, load(own, o + r))
                    for i in range(mixed, plan.child_ptr[c + 1]):
                        at = plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + entry]
                        x = mul(x, load(message, at))
                    if wants_gradient:
                        store(gradient, t + entry, add(load(gradient, t + entry), x))
                    x = mul(x, splat(table[t + entry]))
                    store(belief, o + r, add(load(belief, o + r), x))
                    for i in range(mixed, plan.child_ptr[c + 1]):
                        at = plan.message_start[plan.children[i]] + plan.child_map[plan.map_ptr[i] + entry]
                        store(towards, at, add(load(towards, at), x))
                    if keeps:
                        store(kept, kept_start[c] + entry, x)
                    entry += 1
        for i in range(plan.child_ptr[c], mixed):
            below, at = plan.message_start[plan.children[i]], plan.map_ptr[i]
            for r in range(n_cols):
                g = below + plan.child_map[at + r]
                store(towards, g, add(load(towards, g), load(belief, o + r)))


@inner_kernel
def _add_marginals(plan, belief, row, n_lanes, out):
    for v in range(plan.card.size):
        c = plan.own_clique[v]
        start, stride, card, o = plan.state_start[v], plan.own_stride[v], plan.card[v], plan.own_start[c]
        for r in range(plan.n_cols[c]):
            s = start + r // stride % card
            for lane in range(n_lanes):
                out[row + lane, s] += belief[(o + r) * LANES + lane]


@inner_kernel
def _copy_beliefs(kept, row, n_lanes, out):
    for lane in range(n_lanes):
        for e in range(out.shape[1]):
            out[row + lane, e] = kept[e * LANES + lane]


@inner_kernel
def add_table_gradient(plan, table_gradient, total_weight, out):
    """Gradient with respect to log potentials: add that of every table entry to its factors' entries."""
    for offset in plan.constants:
        out[offset] += total_weight
    for t in range(plan.table_start.size - 1):
        begin = plan.table_start[t]
        n = plan.table_start[t + 1] - begin
        for i in range(plan.term_ptr[t], plan.term_ptr[t + 1]):
            offset, at = plan.term_offset[i], plan.term_map_ptr[i]
            for e in range(n):
                out[offset + plan.term_map[at + e]] += table_gradient[begin + e]


@kernel
def pass_messages(plan, potentials, codes, soft, weights, kept_start, log_z, marginals, gradient, kept, status):
    """Log partition functions of all rows, and what else has room: marginals, gradient, beliefs of cliques.

    Parameters
    ----------
    plan : PlanArrays
    potentials : (n_sets, n_potentials) float64
        Log potentials; consecutive ``n_rows / n_sets`` rows belong to each set.
    codes : (k, n_variables) int32
        Observed states, -1 where unobserved; k is 0 (nothing observed) or divides the number of rows: row i reads
        i modulo k.
    soft : (k, n_states) float64
        Log evidence on the states of all variables, read likewise.
    weights : (n_rows,) or (0,) float64
        Factor on everything but ``log_z``; one where empty.
    kept_start : (n_cliques,) int64
        Where a clique's beliefs go in ``kept``, or -1.
    log_z : (n_rows,) float64
    marginals : (n_rows or 0, n_states) float64, zero on entry
    gradient : (n_sets or 0, n_potentials) float64, zero on entry
    kept : (n_rows, n_kept) float64
    status : (n_rows,) int8
        On return ``UNDERFLOW`` where a row must be done in the log domain, with nothing added to the other outputs.
    """
    n_rows = log_z.size
    n_sets = potentials.shape[0]
    per_set = n_rows // n_sets
    n_entries = plan.table_start[-1]
    n_cliques = plan.parent.size
    log_table, shift, table = np.empty(n_entries), np.empty(plan.table_start.size - 1), np.empty(n_entries)
    table_least, row_sum = np.empty(shift.size), np.empty(shift.size)
    evidence, evidence_least = np.empty(plan.state_start[-1] * LANES), np.empty(plan.card.size * LANES)
    own, belief = np.empty(plan.own_start[-1] * LANES), np.empty(plan.own_start[-1] * LANES)
    message, towards = np.empty(plan.message_start[-1] * LANES), np.empty(plan.message_start[-1] * LANES)
    unscale, least, lost = np.empty(n_cliques * LANES), np.empty(n_cliques * LANES), np.empty(n_cliques * LANES)
    kept_lanes = np.empty(kept.shape[1] * LANES)
    lane_gradient = np.empty(n_entries * LANES if gradient.shape[0] else 0)
    out, low, weight, offset = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lost_at_roots = np.empty(LANES)
    lane_status = np.empty(LANES, np.int8)
    n_operations, unchecked = 4 * LANES * np.sum(plan.n_rows * plan.n_cols), np.zeros(1, np.int64)
    for j in range(n_sets):
        constant = log_tables(plan, potentials[j], log_table, shift)
        for c in range(n_cliques):
            constant += shift[plan.table[c]]
        if constant != constant or constant == np.inf:
            log_z[j * per_set : (j + 1) * per_set] = np.nan
            status[j * per_set : (j + 1) * per_set] = NOT_A_NUMBER
            continue
        _exponentiate(plan, log_table, shift, table, table_least, row_sum)
        lane_gradient[:] = 0.0
        total_weight = 0.0
        for row in range(j * per_set, (j + 1) * per_set, LANES):
            if must_stop_after(n_operations, unchecked):
                return
            n_lanes = min(LANES, (j + 1) * per_set - row)
            offset[:] = constant
            lane_status[:] = PASSED
            _load_evidence(plan, codes, soft, row, n_lanes, evidence, evidence_least, offset, lane_status)
            exponents, smallest, at_roots = _collect(
                plan, table, table_least, row_sum, evidence, evidence_least, own, message, unscale, least, lost
            )
            store(out, 0, exponents)
            store(low, 0, smallest)
            store(lost_at_roots, 0, at_roots)
            for lane in range(n_lanes):
                if lane_status[lane] == NOT_A_NUMBER:
                    log_z[row + lane] = np.nan
                elif not (low[lane] >= SMALLEST and lost_at_roots[lane] <= NEGLIGIBLE) or constant == -np.inf:
                    lane_status[lane] = UNDERFLOW
                else:
                    total = 1.0
                    rest = 0.0
                    for c in range(n_cliques):
                        if plan.parent[c] < 0:
                            total *= message[plan.message_start[c] * LANES + lane]  # in [1, 2)
                            if total > 1e200:
                                rest += math.log(total)
                                total = 1.0
                    log_z[row + lane] = offset[lane] + (out[lane] * math.log(2.0) + (rest + math.log(total)))
                status[row + lane] = lane_status[lane]
            if marginals.shape[0] == 0 and gradient.shape[0] == 0 and kept.shape[1] == 0:
                continue
            for lane in range(LANES):
                weight[lane] = 0.0
                if lane < n_lanes and lane_status[lane] == PASSED:
                    weight[lane] = weights[row + lane] if weights.size else 1.0
                total_weight += weight[lane]
            _distribute(
                plan, table, own, message, unscale, weight, towards, belief, lane_gradient, kept_start, kept_lanes
            )
            if marginals.shape[0]:
                _add_marginals(plan, belief, row, n_lanes, marginals)
            if kept.shape[1]:
                _copy_beliefs(kept_lanes, row, n_lanes, kept)
        if gradient.shape[0]:
            for e in range(n_entries):
                total = 0.0
                for lane in range(LANES):
                    total += lane_gradient[e * LANES + lane]
                log_table[e] = total * table[e]
            add_table_gradient(plan, log_table, total_weight, gradient[j])
