"""Moves of a graph of layers under the cascading Indian buffets and any other terms of a model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.indian_chefs.cascading_kernels import CascadePrior, draw_layered_edge, propose_dish, propose_dish_death
from pymc_spn.indian_chefs.graph_state import GraphState
from pymc_spn.indian_chefs.rest_moves import RestMoves
from pymc_spn.indian_chefs.sweeps import random_order


class CascadeMoves(RestMoves):
    """Metropolis-Hastings moves of one graph of layers.

    Parameters
    ----------
    state : GraphState
        Changed in place.
    log_rest : callable
        Log density of the rest of the model at a state, in nats.
    """

    def __init__(self, state: GraphState, log_rest: Callable[[GraphState], float]) -> None:
        super().__init__(state, log_rest, 0)
        self.layers = np.zeros(state.order.size, np.int64)

    def sweep(self, rng: Any, prior: CascadePrior, repeats: int, tally: np.ndarray) -> None:  # type: ignore[override]
        """Edges of every node, then ``repeats`` births or deaths of hidden units without parents.

        Parameters
        ----------
        tally : (5, 3) int64
            Of `sweeps.new_tally`; added to.
        """
        self.value = self.log_rest(self.state)  # other steps may have moved what it depends on
        n, n_observed = self.state.count[0], self.state.fixed.size
        self._hold()
        for i in random_order(rng, n):
            for k in random_order(rng, n):
                if k < n_observed or k == i:
                    continue
                if draw_layered_edge(rng, self.state, prior, self.layers, k, i) and self._decide(rng, 0.0):
                    self._hold()
        for _ in range(repeats):
            self._birth_or_death(rng, prior, tally, self._birth, self._death)

    def _birth(self, rng, state, prior, children):
        return propose_dish(rng, state, prior, self.layers, children)

    def _death(self, rng, state, prior):
        return propose_dish_death(rng, state, prior, self.layers)
