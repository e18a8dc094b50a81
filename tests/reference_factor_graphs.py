"""Brute force for factor graphs: every configuration, one at a time. Shares no code with the package."""

import itertools
import math

import numpy as np


def all_configurations(cards):
    return list(itertools.product(*(range(k) for k in cards)))


def log_values(cards, factors, codes=None, soft=None):
    """Log of the product of all factors at every configuration; -inf against the evidence.

    ``factors`` are (scope, log table); ``codes`` gives a state or None for each variable; ``soft`` maps variables to
    log likelihoods.
    """
    result = []
    for x in all_configurations(cards):
        value = 0.0
        for scope, table in factors:
            value += float(np.asarray(table)[tuple(x[v] for v in scope)])
        for v, state in enumerate(codes or ()):
            if state is not None and x[v] != state:
                value = -math.inf
        for v, logs in (soft or {}).items():
            value += logs[x[v]]
        result.append(value)
    return np.array(result)


def log_sum(values):
    top = max(values)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def probabilities(values):
    total = log_sum(values)
    return np.array([math.exp(v - total) if v > -math.inf else 0.0 for v in values])


def joint(cards, p, variables):
    """Joint probabilities of some variables, one axis each."""
    out = np.zeros([cards[v] for v in variables])
    for x, mass in zip(all_configurations(cards), p, strict=True):
        out[tuple(x[v] for v in variables)] += mass
    return out


def hmm_log_likelihood(log_initial, log_transition, log_emission):
    """Forward recursion in logs, loop by loop; ``log_emission`` (T, K), ``log_transition`` (K, K) or (T - 1, K, K)."""
    alpha = [float(a + e) for a, e in zip(log_initial, log_emission[0], strict=True)]
    for t in range(1, len(log_emission)):
        step = log_transition if np.ndim(log_transition) == 2 else log_transition[t - 1]
        alpha = [
            log_sum([alpha[i] + float(step[i][j]) for i in range(len(alpha))]) + float(log_emission[t][j])
            for j in range(len(alpha))
        ]
    return log_sum(alpha)
