"""Sweeps over a graph, alone or with terms of a model whose log density can only be evaluated.

No mathematics of its own: the moves are those of `graph_moves`, and the rest of the model is asked once a change.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.indian_chefs.graph_moves import (
    OWN_MOVES,
    PUBLISHED_MOVES,
    accept_or_undo,
    draw_reputation,
    move_work,
    prior_sweep,
    propose,
    published_sweep,
    random_order,
)
from pymc_spn.indian_chefs.graph_state import GraphState, copy_state, set_edge
from pymc_spn.indian_chefs.prior_density import GraphPrior, edge_odds

type LogRest = Callable[[GraphState], float]


def sweep_graph(
    rng: Any,
    state: GraphState,
    prior: GraphPrior,
    log_rest: LogRest | None,
    moves: str,
    repeats: int,
    parent_sets: int,
    tally: np.ndarray,
) -> None:
    """One sweep, as `graph_moves.prior_sweep` or `graph_moves.published_sweep`.

    Parameters
    ----------
    state : GraphState
        Changed in place.
    log_rest : callable or None
        Log density of the rest of the model at a state, in nats.
    moves : {"all", "published"}
    parent_sets : int
        Where there is a rest and all moves are made: parents of a node with at most so many candidates are drawn
        together, from all their sets.
    tally : (>= 2 M, 3) int64
        Of `graph_moves.new_tally`; added to.
    """
    if log_rest is None:
        kernel = prior_sweep if moves == "all" else published_sweep
        kernel(rng, state, prior, repeats, tally)
        return
    rest = RestMoves(state, log_rest, tally)
    if moves == "all":
        for i in random_order(rng, state.count[0]):
            rest.draw_parents(rng, prior, i, parent_sets)
        for i in random_order(rng, state.count[0]):
            rest.draw_reputation(rng, prior, i)
    for _ in range(repeats):
        if moves == "published":
            rest.draw_parents(rng, prior, int(rng.random() * state.count[0]), 0)
        for move in OWN_MOVES if moves == "all" else PUBLISHED_MOVES:
            rest.make(rng, prior, move)


class RestMoves:
    """Moves that the rest of the model accepts.

    Parameters
    ----------
    state : GraphState
        Changed in place.
    log_rest : callable
    tally : (>= 2 M, 3) int64
    """

    def __init__(self, state: GraphState, log_rest: LogRest, tally: np.ndarray) -> None:
        self.state, self.log_rest, self.tally, self.work = state, log_rest, tally, move_work(state)
        self.value = log_rest(state)

    def make(self, rng: Any, prior: GraphPrior, move: int) -> None:
        """One move of `graph_moves`."""
        log_ratio, _, row = propose(rng, move, self.state, prior, self.work, self.tally)
        self._decide(rng, log_ratio, row)

    def draw_reputation(self, rng: Any, prior: GraphPrior, i: int) -> None:
        """A reputation from its conditional under the prior."""
        copy_state(self.state, self.work.held)
        if draw_reputation(rng, self.state, prior, i):
            self._decide(rng, 0.0)

    def _decide(self, rng, log_ratio, row=None):
        value = self.log_rest(self.state) if log_ratio > -np.inf else -np.inf
        tally = self.tally if row is not None else np.zeros((1, 3), np.int64)
        if accept_or_undo(rng, log_ratio + value - self.value, row or 0, self.state, self.work, tally):
            self.value = value

    def draw_parents(self, rng: Any, prior: GraphPrior, i: int, parent_sets: int) -> None:
        """Gibbs draws of the edges to node i, one by one or, of few, together."""
        state = self.state
        # by the rest of the model parents depend on each other, so they must not go by slots, see `graph_moves`
        odds = {k: edge_odds(state, prior, k, i) for k in random_order(rng, state.count[0])}
        free = [k for k, o in odds.items() if 0.0 < o < np.inf]
        for some in [free] if 1 < len(free) <= parent_sets else [[k] for k in free]:
            self._draw_set(rng, i, some, np.log([odds[k] for k in some]))

    def _draw_set(self, rng, i, free, log_odds):
        """Gibbs draw of some edges to node i: given the rest, the prior makes them independent."""
        bits = np.arange(1 << len(free))[:, None] >> np.arange(len(free)) & 1
        current = [int(self.state.parents[k, i]) for k in free]
        values = np.empty(len(bits))
        for code, row in enumerate(bits):
            is_current = row.tolist() == current
            self._set(i, free, row)
            values[code] = self.value if is_current else self.log_rest(self.state)
        log_weights = values + bits @ log_odds
        if log_weights.max() == -np.inf:  # as before the first possible graph
            log_weights = np.where((bits == current).all(1), 0.0, -np.inf)
        total = np.cumsum(np.exp(log_weights - log_weights.max()))
        code = min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(bits) - 1)
        self._set(i, free, bits[code])
        self.value = values[code]

    def _set(self, i, free, row):
        for k, value in zip(free, row, strict=True):
            set_edge(self.state, k, i, value)
