"""Variational Bayes for a sum-product network by coordinate ascent, weights and leaf parameters kept as posteriors.

The variational distribution is q(trees) q(weights) q(leaf parameters). One step sets q(weights, parameters) to its
optimum given the expected statistics of q(trees), moves the hyperparameters that are learned, and sets q(trees) to
its optimum: with q(trees) optimised out, this is the fixed point ``beta = alpha + flow`` of collapsed variational
Bayes (Zhao, Adel, Gordon and Amos 2016), without gradients and step sizes. Each part raises the bound

    log p(X) >= entropy of q(trees) + log of the integrals over weights and leaf parameters given its statistics,

which needs no Kullback-Leibler divergences and is a sum of a few closed forms.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.kernel_forms import FACTORIAL, LOGARITHM
from pymc_spn.networks.gibbs.sampler import place_columns
from pymc_spn.networks.gibbs.statistics import entry_priors
from pymc_spn.networks.variational.active_tree import ActiveTree, Statistics, pruned
from pymc_spn.networks.variational.flow_kernels import assign_softly, expect_leaves
from pymc_spn.networks.variational.hyperparameter_ascent import climb_hyperparameters, leaf_vector, log_leaf_integrals
from pymc_spn.networks.variational.weight_kernels import expect_weights, log_weight_integral
from pymc_spn.numerics.read_only_views import read_only_view

EMPTY = 1e-3  # rows: an edge that holds less may be dropped, together with all that is below it
WORTH = 0.1  # share of all edges that must be empty before they are dropped


class Ascent(NamedTuple):
    """Where one run of coordinate ascent ended.

    ``bounds`` holds the bound plus the log prior of the learned hyperparameters after every step, in nats; the first is
    that of the start. ``log_prior`` is the last one's second part.
    """

    tree: ActiveTree
    statistics: Statistics
    hyperparameters: tuple
    bounds: np.ndarray
    log_prior: float
    converged: bool


def base_logs(structure: Any, compiled: Any, values: np.ndarray) -> np.ndarray:
    """log x! (N, P) of columns with leaves on counts, log of the coded values with log-normal ones, else 0."""
    from scipy.special import gammaln

    out = np.zeros((len(values), len(structure.columns)))
    for d in range(len(structure.columns)):
        families = compiled.family[compiled.entry_ptr[d] : compiled.entry_ptr[d + 1]]
        if np.isin(families, families_with(FACTORIAL)).any():
            out[:, d] = np.nan_to_num(gammaln(values[:, d] + 1.0))
        elif np.isin(families, families_with(LOGARITHM)).any():
            out[:, d] = np.nan_to_num(np.log(values[:, d] / compiled.scale[d]))
    return place_columns(structure, out)


def ascend(
    structure: Any,
    compiled: Any,
    coded: np.ndarray,
    base_log: np.ndarray,
    jacobian: float,
    start: tuple[ActiveTree, Statistics],
    hyperparameters: tuple,
    learned: np.ndarray,
    priors: np.ndarray,
    max_steps: int,
    tolerance: float,
    stepped: Callable[[], None] = lambda: None,
) -> Ascent:
    """Raise the bound until a step gains less than ``tolerance`` nats a row.

    Parameters
    ----------
    structure : RegionTree
    compiled : CompiledPalette
    coded, base_log : (N, P) float64
        Coded table with a column for each place; `base_logs`.
    jacobian : float
        Log density of the coded table relative to the original one, in nats.
    start : (ActiveTree, Statistics)
    hyperparameters : concentration (2,), leaf_scale, leaf_shape, precision_ratio (D,) each
    learned : (4, max(2, D)) bool
    priors : (4, 3) float64
        Family code and two parameters for each group of hyperparameters.
    max_steps : int
    tolerance : float
    stepped : callable
        Called after every step.
    """
    tree, statistics = start
    hyper = tuple(np.array(h, np.float64) for h in hyperparameters)
    entropy, bounds, converged = 0.0, [], False
    bound, log_prior, hyper = _set_parameters(tree, statistics, compiled, hyper, learned, priors)
    bounds.append(bound + entropy + jacobian)
    for _ in range(max_steps):
        after: Any = None
        keep = _worth_keeping(tree, statistics.edge_count)
        if keep.sum() < (1.0 - WORTH) * keep.size:
            smaller = pruned(tree, statistics, structure, compiled, keep)
            after = _step(smaller[0], smaller[1], compiled, coded, base_log, hyper, learned, priors)
            # dropping edges costs what they held; the rare step that gains less is taken again with all edges
            after = after if after[2] + jacobian >= bounds[-1] else None
        if after is None:
            after = _step(tree, statistics, compiled, coded, base_log, hyper, learned, priors)
        tree, statistics, bound, log_prior, hyper = after
        bounds.append(bound + jacobian)
        stepped()
        if bounds[-1] - bounds[-2] < tolerance * len(coded):
            converged = True
            break
    return Ascent(tree, statistics, hyper, np.array(bounds), log_prior, converged)


def _step(tree, statistics, compiled, coded, base_log, hyper, learned, priors):
    """New assignments, then weights, parameters and hyperparameters; with the bound, without the Jacobian."""
    statistics, entropy, _ = assign(tree, statistics, compiled, coded, base_log, hyper)
    bound, log_prior, hyper = _set_parameters(tree, statistics, compiled, hyper, learned, priors)
    return tree, statistics, bound + entropy, log_prior, hyper


def assign(tree, statistics, compiled, coded, base_log, hyper):
    """Best assignments given the parameters that fit the statistics: their statistics, entropy and log value."""
    concentration, *leaf_hyperparameters = hyper
    prior = entry_priors(compiled, *leaf_hyperparameters)
    log_weight = np.empty(tree.option.size)
    expect_weights(tree, statistics.edge_count, concentration, log_weight)
    coefficient, level_log = np.empty((tree.leaf_family.size, 4)), np.empty(int(tree.level_ptr[-1]))
    leaf_count = statistics.edge_count[tree.leaf >= 0]
    expect_leaves(tree, leaf_count, statistics.s1, statistics.s2, statistics.levels, prior, coefficient, level_log)
    out = Statistics(*(np.empty(x.size) for x in statistics))
    entropy, log_value = assign_softly(tree, coded, base_log, log_weight, coefficient, level_log, *out)
    return out, entropy, log_value


def _set_parameters(tree, statistics, compiled, hyper, learned, priors):
    """Integrals over weights and parameters plus log prior, after the hyperparameters have moved uphill."""
    hyper = tuple(h.copy() for h in hyper)
    state = leaf_vector(tree, statistics, hyper[1].size)
    log_prior = climb_hyperparameters(
        tree, statistics.edge_count, state, compiled, read_only_view(learned), priors, *hyper
    )
    bound = log_leaf_integrals(state, compiled, *hyper[1:]) + log_prior
    for which in range(2):
        bound += log_weight_integral(tree, statistics.edge_count, hyper[0], which)
    return bound, log_prior, hyper


def _worth_keeping(tree, count):
    """Edges that hold something, and the fullest of each sum node."""
    sizes = np.diff(tree.node_ptr)
    begin = tree.node_ptr[:-1][sizes > 0]
    most = np.maximum.reduceat(count, begin) if begin.size else np.zeros(0)
    fullest = count == np.repeat(most, sizes[sizes > 0])
    return (count >= EMPTY) | fullest
