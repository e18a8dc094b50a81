"""Weights of islands: by evidence, equal, or by stacking of their leave-one-out predictives."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.numerics.stacking import stack
from pymc_spn.trees.predictives import log_leave_one_out

if TYPE_CHECKING:
    from pymc_spn.trees.draws import TreeDraws


def effective_number(shares: np.ndarray) -> float:
    """1 / sum of squares of weights that sum to one."""
    return float(1.0 / (shares**2).sum())


def island_weights(draws: "TreeDraws", weights: str) -> np.ndarray:
    """(islands,) weights that sum to one."""
    log_evidence = np.asarray(draws.notes["log_evidence"])
    if weights == "equal":
        return np.full(len(log_evidence), 1.0 / len(log_evidence))
    if weights == "evidence":
        sizes = np.asarray(draws.notes["island_particles"])
        shares = sizes * np.exp(log_evidence - log_evidence.max())
        return shares / shares.sum()
    return stack(island_predictives(draws))


def island_predictives(draws: "TreeDraws") -> np.ndarray:
    """(N, islands) leave-one-out predictive density of the training rows by each island, its trees given."""
    n_islands = len(draws.notes["log_evidence"])
    out = np.zeros((len(draws.y), n_islands))
    for i in range(n_islands):
        mine = draws.group == i
        total = draws.weights[mine].sum()
        for t in np.flatnonzero(mine & (draws.weights > 1e-12 * draws.weights[mine].max())):
            out[:, i] += draws.weights[t] / total * np.exp(log_leave_one_out(draws, int(t)))
    return out
