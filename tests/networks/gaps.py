"""Tables whose gaps feed something else: exact answers by enumeration and quadrature, and chains without PyMC."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from scipy.special import logsumexp

from pymc_spn.networks.records.cell_moves import CellMoves
from tests.networks.tiny import tiny_sampler
from tests.reference import all_states, log_likelihood, log_prior, log_relabellings


def completed(problem, cells):
    """The problem with numbers in its gaps, row by row."""
    X = problem.X.copy()
    X[np.isnan(X)] = cells
    return replace(problem, X=X)


def exact_expectations(problem, grids, log_rest, functions):
    """Posterior means of functions of the cells, and the probability that rows 0 and 1 share the root's child.

    Parameters
    ----------
    problem : Problem
        NaN in the gaps.
    grids : list of arrays
        For each gap its levels, or an even grid wide enough for the trapezoidal rule.
    log_rest : callable of the cells
    functions : list of callables of the cells
    """
    points = np.array(list(itertools.product(*grids)))
    logs, together = np.empty(len(points)), np.empty(len(points))
    first = completed(problem, points[0])
    states = all_states(first)  # the same whatever stands in the gaps
    log_priors = np.array([log_prior(first, s) + log_relabellings(first, s) for s in states])
    is_together = np.array([state[0][0] == state[1][0] for state in states])
    for i, cells in enumerate(points):
        whole = completed(problem, cells)
        log_weights = log_priors + [log_likelihood(whole, s) for s in states]
        evidence = logsumexp(log_weights)
        logs[i] = evidence + log_rest(cells)
        together[i] = np.exp(log_weights[is_together] - evidence).sum()
    weights = np.exp(logs - logsumexp(logs))
    return np.array([weights @ [f(c) for c in points] for f in functions] + [weights @ together])


def schema_of(sampler, n):
    """What moves of cells read of the schema of n columns."""
    named = {"columns": range(n), "lowest": np.full(n, -np.inf)}
    return SimpleNamespace(compiled=sampler.compiled, structure=sampler.structure, **named)


def draw_cells(problem, start, log_rest, functions, draws, seed, moves=CellMoves):
    """(draws, n) of the same functions along a chain."""
    rng = np.random.default_rng(seed)
    sampler = tiny_sampler(completed(problem, start))
    rows, columns = np.nonzero(np.isnan(problem.X))
    move, missing = moves(schema_of(sampler, len(problem.palettes)), rows, columns), np.array(start, float)
    out = np.empty((draws, len(functions) + 1))
    for i in range(draws):
        sampler.sweep(rng)
        missing, _ = move.sweep(rng, sampler, missing, log_rest)
        out[i] = *(f(missing) for f in functions), sampler.slots[0, 0] == sampler.slots[1, 0]
    return out


def z_scores(draws, exact, batches=40):
    """Distance of the means from the exact ones in standard errors of batch means."""
    size = len(draws) // batches
    means = draws[: size * batches].reshape(batches, size, -1).mean(1)
    return (means.mean(0) - exact) / (means.std(0, ddof=1) / np.sqrt(batches))
