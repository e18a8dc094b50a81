"""Moves of a graph whose remaining log density is a function that can only be evaluated.

The prior's ratio is worked out first; the rest of the model is asked once for each change. No mathematics of its own:
the changes are those of the prior's chain.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.indian_chefs.graph_state import GraphState, copy_state, delete_node, insert_node, place_node, set_edge
from pymc_spn.indian_chefs.orphan_moves import (
    propose_orphan,
    propose_orphan_death,
    propose_singleton,
    propose_singleton_death,
)
from pymc_spn.indian_chefs.prior_density import GraphPrior, edge_log_odds
from pymc_spn.indian_chefs.reputation_moves import draw_reputation, propose_reputation
from pymc_spn.indian_chefs.split_moves import (
    apply_merge,
    apply_split,
    apply_swap,
    propose_merge,
    propose_split,
    propose_swap,
)
from pymc_spn.indian_chefs.sweeps import ACCEPTED, BIRTH, DEATH, MERGE, REFUSED, SPLIT, SWAP, TRIED, random_order


class RestMoves:
    """Metropolis-Hastings moves of one graph.

    Parameters
    ----------
    state : GraphState
        Changed in place.
    log_rest : callable
        Log density of the rest of the model at a state, in nats.
    parent_sets : int
        Parents of a node with at most so many candidates are drawn together, from all their sets.
    """

    def __init__(self, state: GraphState, log_rest: Callable[[GraphState], float], parent_sets: int) -> None:
        self.state, self.log_rest, self.parent_sets = state, log_rest, parent_sets
        self.held = GraphState(*(a.copy() for a in state))
        self.children = np.zeros(state.order.size, np.uint8)
        self.value = log_rest(state)

    def sweep(self, rng: Any, prior: GraphPrior, repeats: int, tally: np.ndarray) -> None:
        """Edges and reputations of every node, then ``repeats`` births or deaths, splits or merges, swaps.

        Parameters
        ----------
        tally : (5, 3) int64
            Of `sweeps.new_tally`; added to.
        """
        self.value = self.log_rest(self.state)  # other steps may have moved what it depends on
        for i in random_order(rng, self.state.count[0]):
            self._parents(rng, prior, i)
        for i in random_order(rng, self.state.count[0]):
            self._hold()
            if draw_reputation(rng, self.state, prior, i):
                self._decide(rng, 0.0)
        for _ in range(repeats):
            self._birth_or_death(rng, prior, tally)
            self._split_or_merge(rng, prior, tally)
            self._swap(rng, prior, tally)

    def published_sweep(self, rng: Any, prior: GraphPrior, repeats: int, tally: np.ndarray) -> None:
        """The published moves, each ``repeats`` times at a node drawn uniformly: equations 13, 14 or 15, and 16.

        Parameters
        ----------
        tally : (5, 3) int64
            As of `sweep`.
        """
        state = self.state
        self.value = self.log_rest(state)
        for _ in range(repeats):
            i = int(rng.random() * state.count[0])
            for k in random_order(rng, state.count[0]):
                self._edge(rng, prior, k, i)
            self._birth_or_death(rng, prior, tally, propose_singleton, propose_singleton_death)
            i = int(rng.random() * state.count[0])
            theta, log_ratio = propose_reputation(rng, state, prior, i)
            if log_ratio > -np.inf:
                self._hold()
                place_node(state, i, theta)
                self._decide(rng, log_ratio)

    def _edge(self, rng, prior, k, i):
        """Gibbs draw of one edge given the rest of the model."""
        log_odds = edge_log_odds(self.state, prior, k, i)
        if not math.isfinite(log_odds):
            return
        before = self.state.parents[k, i]
        set_edge(self.state, k, i, 1 - before)
        other = self.log_rest(self.state)
        log_ratio = other - self.value + (-log_odds if before else log_odds)
        if rng.random() < 1.0 / (1.0 + math.exp(-min(max(log_ratio, -700.0), 700.0))):
            self.value = other
        else:
            set_edge(self.state, k, i, before)

    def _hold(self):
        copy_state(self.state, self.held)

    def _decide(self, rng, log_ratio):
        """Keep the change with the probability of Metropolis and Hastings, or undo it."""
        value = self.log_rest(self.state)
        if log_ratio + value - self.value > -rng.standard_exponential():
            self.value = value
            return True
        copy_state(self.held, self.state)
        return False

    def _parents(self, rng, prior, i):
        state = self.state
        # by the rest of the model parents depend on each other, so they must not go by slots, see `random_order`
        odds = {k: edge_log_odds(state, prior, k, i) for k in random_order(rng, state.count[0])}
        odds = {k: o for k, o in odds.items() if math.isfinite(o)}
        if 1 < len(odds) <= self.parent_sets:
            self._parent_set(rng, i, odds)
            return
        for k, log_odds in odds.items():
            self._hold()
            value = 1 - state.parents[k, i]
            set_edge(state, k, i, value)
            self._decide(rng, log_odds if value else -log_odds)

    def _parent_set(self, rng, i, odds):
        """Gibbs draw of all free parents of node i: given the rest, the prior makes them independent."""
        state, free = self.state, list(odds)
        values, weights = [], []
        for code in range(1 << len(free)):
            for b, k in enumerate(free):
                set_edge(state, k, i, code >> b & 1)
            values.append(self.log_rest(state))
            weights.append(values[-1] + sum(odds[k] for b, k in enumerate(free) if code >> b & 1))
        weights = np.exp(np.array(weights) - max(weights))
        total = np.cumsum(weights)
        code = min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(values) - 1)
        for b, k in enumerate(free):
            set_edge(state, k, i, code >> b & 1)
        self.value = values[code]

    def _birth_or_death(self, rng, prior, tally, birth=propose_orphan, death=propose_orphan_death):
        state = self.state
        is_birth = rng.random() < 0.5
        row = BIRTH if is_birth else DEATH
        tally[row, TRIED] += 1
        if is_birth:
            tally[row, REFUSED] += state.count[0] == state.order.size
            theta, log_ratio = birth(rng, state, prior, self.children)
        else:
            k, log_ratio = death(rng, state, prior)
        if log_ratio == -np.inf:
            return
        self._hold()
        if is_birth:
            insert_node(state, theta, self.children)
        else:
            delete_node(state, k)
        tally[row, ACCEPTED] += self._decide(rng, log_ratio)

    def _split_or_merge(self, rng, prior, tally):
        state = self.state
        is_split = rng.random() < 0.5
        row = SPLIT if is_split else MERGE
        tally[row, TRIED] += 1
        if is_split:
            tally[row, REFUSED] += state.count[0] == state.order.size
            k, i, theta, log_ratio = propose_split(rng, state, prior, self.children)
        else:
            h, log_ratio = propose_merge(rng, state, prior)
        if log_ratio == -np.inf:
            return
        self._hold()
        if is_split:
            apply_split(state, k, i, theta, self.children)
        else:
            apply_merge(state, h)
        tally[row, ACCEPTED] += self._decide(rng, log_ratio)

    def _swap(self, rng, prior, tally):
        tally[SWAP, TRIED] += 1
        low, high, log_ratio = propose_swap(rng, self.state, prior)
        if log_ratio > -np.inf:
            self._hold()
            apply_swap(self.state, low, high)
            tally[SWAP, ACCEPTED] += self._decide(rng, log_ratio)
