"""Variational Bayes for a sum-product network by coordinate ascent, weights and leaf parameters kept as posteriors.

The variational distribution is q(trees) q(weights) q(leaf parameters). One step sets q(weights, parameters) to its
optimum given the expected statistics of q(trees), and moves the hyperparameters that are learned. Then it sets q(trees)
to its optimum. With q(trees) optimised out, this is the fixed point ``beta = alpha + flow`` of collapsed variational
Bayes (Zhao, Adel, Gordon and Amos 2016), without gradients and step sizes. Each part raises the bound

    log p(X) >= entropy of q(trees) + log of the integrals over weights and leaf parameters given its statistics,

which needs no Kullback-Leibler divergences and is a sum of a few closed forms.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.hyperparameters import update_hyperparameters
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.gibbs.statistics import log_joint
from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.kernel_forms import FACTORIAL, LOGARITHM
from pymc_spn.networks.variational.active_tree import ActiveTree, Statistics, pruned, statistics_of_kept
from pymc_spn.networks.variational.assignments import (
    ListSearch,
    RowsInMemory,
    expected_logs,
    pieces_of,
    total_of,
)
from pymc_spn.networks.variational.fit_statistics import log_prior_of, pack_fit
from pymc_spn.networks.variational.summaries import no_summaries, summaries_of

# Searches take few steps: trying all children in every step takes ten times as long and ends no higher.
USUAL = ListSearch(breadth=2, descent=1, enter=1e-3, leave=1e-4)
CAREFUL = USUAL._replace(leave=1e-15)  # drops what is below rounding of the bound
BATCHES = 4  # of a table, one after the other: a step then gains two to three times as much
SEARCHES, SEARCH_EVERY = 4, 10  # first steps, and of the later ones one of so many
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
    pieces: list[Any]


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
    start: tuple[ActiveTree, np.ndarray],
    *settings: Any,
    **options: Any,
) -> Ascent:
    """`climb` from rows in memory that each stand wholly on one edge of every region.

    Parameters
    ----------
    structure, compiled, jacobian
        As in `climb`.
    coded, base_log : (N, P) float64
        Coded table with a column for each place; `base_logs`.
    start : ActiveTree, (N, R) int32
        The tree and every row's edges in it, -1 where it has none.
    *settings, **options
        What `climb` takes after `jacobian`.
    """
    tree, paths = start

    def first_pieces(hyper: tuple) -> list[Any]:
        return pieces_of(tree, coded, base_log, paths, compiled, hyper)

    return climb(structure, compiled, tree, first_pieces, len(coded), jacobian, *settings, **options)


def climb(
    structure: Any,
    compiled: Any,
    tree: ActiveTree,
    first_pieces: Callable[[tuple], list[Any]],
    n_rows: int,
    jacobian: float,
    hyperparameters: tuple,
    learned: np.ndarray,
    priors: np.ndarray,
    max_steps: int,
    tolerance: float,
    stepped: Callable[[], None] = lambda: None,
    search: ListSearch = USUAL,
    n_batches: int = BATCHES,
    rows: Any = RowsInMemory,
    searches: int = SEARCHES,
) -> Ascent:
    """Raise the bound until a step gains less than ``tolerance`` nats a row, wherever the rows are.

    Parameters
    ----------
    structure : RegionTree
    compiled : CompiledPalette
    tree : ActiveTree
    first_pieces : callable
        Given the hyperparameters, the pieces of all rows with their assignments.
    n_rows : int
        Rows of all pieces.
    jacobian : float
        Log density of the coded table relative to the original one, in nats.
    hyperparameters : concentration (2,), leaf_scale, leaf_shape, precision_ratio, covariance_scale (D,) each
    learned : (5, max(2, D)) bool
    priors : (5, 3) float64
        Family code and two parameters for each group of hyperparameters.
    max_steps : int
    tolerance : float
    stepped : callable
        Called after every step.
    search : ListSearch
    n_batches : int
        Parts of the table. After each part a step sets weights and parameters again. Fewer where the table is small.
    rows : RowsInMemory or PartitionedRows
        Where they are.
    searches : int
        Of the first steps, so many search.
    """
    hyper = tuple(np.array(h, np.float64) for h in hyperparameters)
    fixed = structure, compiled, learned, priors, n_batches, rows
    state = _AscentState(tree, first_pieces(hyper), hyper, 0.0, 0.0)
    state = _with_parameters(state, compiled, learned, priors)
    bounds, converged = [state.bound + jacobian], False
    stands = False  # whether the last step, one without a search, gained next to nothing
    for number in range(max_steps):
        seeks = stands or number < searches or number % SEARCH_EVERY == 0
        now = search if seeks else search._replace(breadth=0)
        after = _step(state, now, *fixed)
        if after.bound < state.bound:
            # what leaves a list costs what it held: the step that gains less is taken again and drops next to nothing
            after, seeks = _step(state, CAREFUL, *fixed), True
        state = after
        rows.settle(state.pieces)
        bounds.append(state.bound + jacobian)
        stepped()
        stands = bounds[-1] - bounds[-2] < tolerance * n_rows
        if stands and seeks:
            converged = True
            break
    return Ascent(
        state.tree, total_of(state.pieces), state.hyper, np.array(bounds), state.log_prior, converged, state.pieces
    )


class _AscentState(NamedTuple):
    tree: ActiveTree
    pieces: list[Any]
    hyper: tuple
    bound: float  # without the Jacobian
    log_prior: float


def _step(state, search, structure, compiled, learned, priors, n_batches, rows):
    """New assignments of one batch of rows after the other, then new hyperparameters."""
    tree, pieces = state.tree, state.pieces
    statistics = total_of(pieces)
    keep = _worth_keeping(tree, statistics.edge_count)
    if search is not CAREFUL and keep.sum() < (1.0 - WORTH) * keep.size:
        smaller, number = pruned(tree, structure, compiled, keep)
        pieces, statistics = rows.kept(tree, pieces, number), statistics_of_kept(tree, statistics, number)
        tree = smaller
    seeks = search.breadth > 0
    summaries = summaries_of(tree, structure, compiled, statistics) if seeks else no_summaries(tree)
    pieces = list(pieces)
    n_batches = min(n_batches, len(pieces))
    for a, b in pairwise(np.arange(n_batches + 1) * len(pieces) // n_batches):
        statistics = statistics if a == 0 else total_of(pieces)
        logs = expected_logs(tree, statistics, summaries, compiled, state.hyper)
        pieces[a:b] = rows.assigned(tree, summaries, logs, pieces[a:b], search)
    return _with_parameters(_AscentState(tree, pieces, state.hyper, 0.0, 0.0), compiled, learned, priors)


def _with_parameters(state, compiled, learned, priors):
    """The state with hyperparameters moved uphill, and its bound: entropy, integrals and log prior."""
    hyper = tuple(h.copy() for h in state.hyper)
    vector = pack_fit(state.tree, total_of(state.pieces), hyper[1].size)
    if learned.any():
        update_hyperparameters(None, vector, compiled, learned, priors, hyper)
    log_prior = log_prior_of(hyper, priors, learned)
    bound = log_joint(vector, compiled, *hyper) + log_prior + sum(piece.entropy for piece in state.pieces)
    return state._replace(hyper=hyper, bound=bound, log_prior=log_prior)


def _worth_keeping(tree, count):
    """Edges that hold something, and the fullest of each sum node."""
    sizes = np.diff(tree.node_ptr)
    begin = tree.node_ptr[:-1][sizes > 0]
    most = np.maximum.reduceat(count, begin) if begin.size else np.zeros(0)
    fullest = np.flatnonzero(count == np.repeat(most, sizes[sizes > 0]))
    keep = count >= EMPTY
    keep[fullest[np.unique(tree.node_of_edge[fullest], return_index=True)[1]]] = True  # of equals the first
    return keep
