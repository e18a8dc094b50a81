"""Simulated networks of the paper's experiments, and the true answers. NumPy only: peers read it as well."""

from dataclasses import dataclass

import numpy as np

TEST_ROWS = 1000
QUERY_SIZES = (1, 2, 4, 8, 16)
QUERIES = 20


@dataclass(frozen=True)
class Problem:
    """A linear Gaussian network and rows drawn from it; (parent, child) matrices."""

    graph: np.ndarray
    weights: np.ndarray
    train: np.ndarray
    test: np.ndarray
    queries: dict

    @property
    def effects(self):
        """True total effects, (cause, effect)."""
        return np.linalg.inv(np.eye(len(self.graph)) - self.weights)


def simulated(d, seed, n=100):
    """Erdős-Rényi graph with 2d expected edges, standard normal weights, noise variance 0.1 (appendix F)."""
    rng = np.random.default_rng([d, seed])
    graph = np.triu(rng.random((d, d)) < 4 / (d - 1), 1)
    weights = np.where(graph, rng.normal(size=(d, d)), 0.0)
    order = rng.permutation(d)
    graph, weights = graph[order][:, order], weights[order][:, order]
    rows = np.sqrt(0.1) * rng.normal(size=(n + TEST_ROWS, d)) @ np.linalg.inv(np.eye(d) - weights)
    edges = np.argwhere(graph)
    queries = {
        k: [edges[rng.choice(len(edges), min(k, len(edges)), replace=False)] for _ in range(QUERIES)]
        for k in QUERY_SIZES
    }
    return Problem(graph, weights, rows[:n], rows[n:], queries)
