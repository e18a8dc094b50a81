"""Best configurations of every row: the maximiser that comes first in declared order, their number, the k best."""

import numpy as np

from pymc_spn.factor_graphs.linear_messages import log_tables
from pymc_spn.factor_graphs.log_messages import TIE, count_maximisers, load_log_evidence, maximise
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def _first_tied(plan, marginal, best, v):
    """(smallest state of a variable that belongs to a maximiser, how many such states there are)."""
    first, n_tied = -1, 0
    for s in range(plan.state_start[v], plan.state_start[v + 1]):
        if marginal[s] >= -TIE * (1.0 + abs(best)):
            if first < 0:
                first = s - plan.state_start[v]
            n_tied += 1
    return first, n_tied


@inner_kernel
def _only(plan, evidence, v, state):
    for s in range(plan.state_start[v], plan.state_start[v + 1]):
        if s - plan.state_start[v] != state:
            evidence[s] = -np.inf


@kernel
def maximise_rows(plan, potentials, codes, soft, value, states, n_maximisers, max_marginal):
    """Most probable configurations.

    Parameters
    ----------
    plan, potentials, codes, soft
        As for `linear_messages.pass_messages`.
    value : (n_rows,) float64
        Log value of the best configuration; -inf where none is possible, and then ``states`` is -1.
    states : (n_rows, n_variables) int32
        The lexicographically first maximiser in declared order. Each tied variable costs one more pass.
    n_maximisers : (n_rows,) float64
    max_marginal : (n_rows, n_states) float64
        Log value of the best configuration with each state.
    """
    per_set = value.size // potentials.shape[0]
    log_table, shift = np.empty(plan.table_start[-1]), np.empty(plan.table_start.size - 1)
    evidence, marginal = np.empty(plan.state_start[-1]), np.empty(plan.state_start[-1])
    own = np.empty(plan.own_start[-1])
    message, towards = np.empty(plan.message_start[-1]), np.empty(plan.message_start[-1])
    counts, separator = np.empty(plan.message_start[-1]), np.zeros(plan.parent.size, np.int64)
    constant = 0.0
    n_operations, unchecked = 10 * np.sum(plan.n_rows * plan.n_cols), np.zeros(1, np.int64)
    for row in range(value.size):
        if row % per_set == 0:
            constant = log_tables(plan, potentials[row // per_set], log_table, shift)
        load_log_evidence(plan, codes, soft, row, evidence)
        if must_stop_after(n_operations, unchecked):
            return
        best = maximise(plan, log_table, evidence, own, message, towards, marginal, separator, states[row])
        value[row] = best + constant
        if value[row] == -np.inf:
            states[row] = -1
            n_maximisers[row] = 0.0
            max_marginal[row] = -np.inf
            continue
        max_marginal[row] = marginal + value[row]
        n_maximisers[row] = count_maximisers(plan, log_table, own, message, counts)
        if n_maximisers[row] > 1.0:
            for v in range(plan.card.size):
                first, n_tied = _first_tied(plan, marginal, best, v)
                states[row, v] = first
                if n_tied > 1:
                    if must_stop_after(n_operations, unchecked):
                        return
                    _only(plan, evidence, v, first)
                    maximise(plan, log_table, evidence, own, message, towards, marginal, separator, states[row])


@inner_kernel
def _runner_up(plan, marginal, states):
    """(log value relative to the best, variable, state) of the best state outside a configuration."""
    top, variable, state = -np.inf, -1, -1
    for v in range(plan.card.size):
        for s in range(plan.state_start[v], plan.state_start[v + 1]):
            if s - plan.state_start[v] != states[v] and marginal[s] > top:
                top, variable, state = marginal[s], v, s - plan.state_start[v]
    return top, variable, state


@kernel
def k_best_rows(plan, potentials, codes, soft, first, value, states):
    """The best configurations of every row, best first, by partitioning (Nilsson 1998, doi:10.1023/A:1008990218483).

    Every part of the space keeps its own best configuration; its second best differs from that in some variable, so
    the max-marginals tell its value and where to split. Two passes for each configuration.

    Parameters
    ----------
    plan, potentials, codes, soft
        As for `linear_messages.pass_messages`.
    first : (n_rows, n_variables) int32
        Maximisers.
    value, states : (n_rows, k) and (n_rows, k, n_variables)
        Written; -inf and -1 beyond the number of possible configurations.
    """
    n_rows, k = value.shape
    per_set = n_rows // potentials.shape[0]
    log_table, shift = np.empty(plan.table_start[-1]), np.empty(plan.table_start.size - 1)
    parts, second = np.empty((k, plan.state_start[-1])), np.empty(k)
    split_variable, split_state = np.zeros(k, np.int64), np.zeros(k, np.int64)
    own, separator = np.empty(plan.own_start[-1]), np.zeros(plan.parent.size, np.int64)
    message, towards = np.empty(plan.message_start[-1]), np.empty(plan.message_start[-1])
    marginal, scratch = np.empty(plan.state_start[-1]), np.empty(plan.card.size, np.int32)
    constant = 0.0
    n_operations, unchecked = 10 * np.sum(plan.n_rows * plan.n_cols), np.zeros(1, np.int64)
    value[:] = -np.inf
    states[:] = -1
    for row in range(n_rows):
        if must_stop_after(n_operations * k, unchecked):
            return
        if row % per_set == 0:
            constant = log_tables(plan, potentials[row // per_set], log_table, shift)
        best, found = value[row], states[row]
        load_log_evidence(plan, codes, soft, row, parts[0])
        best[0] = maximise(plan, log_table, parts[0], own, message, towards, marginal, separator, scratch)
        found[0] = first[row]
        top, split_variable[0], split_state[0] = _runner_up(plan, marginal, found[0])
        second[0] = best[0] + top
        for rank in range(1, k):
            p = np.argmax(second[:rank])
            if second[p] == -np.inf:
                break
            v, s = split_variable[p], split_state[p]
            parts[rank] = parts[p]
            _only(plan, parts[rank], v, s)
            parts[p, plan.state_start[v] + s] = -np.inf
            best[rank] = maximise(plan, log_table, parts[rank], own, message, towards, marginal, separator, found[rank])
            top, split_variable[rank], split_state[rank] = _runner_up(plan, marginal, found[rank])
            second[rank] = best[rank] + top
            best_of_rest = maximise(plan, log_table, parts[p], own, message, towards, marginal, separator, scratch)
            top, split_variable[p], split_state[p] = _runner_up(plan, marginal, found[p])
            second[p] = best_of_rest + top
        best += constant
