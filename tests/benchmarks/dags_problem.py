"""Simulated networks of the paper's experiments, and the true answers. NumPy only: peers read it as well."""

import json
from dataclasses import dataclass
from pathlib import Path

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


def discrete(folder, name, n=1000, seed=0):
    """Names, levels, (n, d) numbers of levels, and the graph, of the network bn_<name>.json in a folder."""
    network = json.loads((Path(folder) / f"bn_{name}.json").read_text(encoding="utf-8"))
    rng, rows, names = np.random.default_rng(seed), {}, list(network["states"])
    left = list(names)
    while left:
        child = next(v for v in left if all(p in rows for p in network["parents"][v]))
        table = np.array(network["cpt"][child])[tuple(rows[p] for p in network["parents"][child])]
        table = np.broadcast_to(table, (n, table.shape[-1]))
        rows[child] = np.minimum((rng.random((n, 1)) > table.cumsum(axis=1)).sum(axis=1), table.shape[1] - 1)
        left.remove(child)
    graph = np.array([[parent in network["parents"][child] for child in names] for parent in names])
    return names, network["states"], np.column_stack([rows[v] for v in names]), graph


def area(p, truth):
    """Area under the ROC curve: the share of pairs of an edge and none in which the edge is the more probable one."""
    there, none = p[truth], p[~truth]
    if not there.size or not none.size:
        return np.nan
    return float((there[:, None] > none).mean() + (there[:, None] == none).mean() * 0.5)


def log_loss(p, truth, least):
    """Mean nats, of probabilities that are at least as far from 0 and 1."""
    p = np.clip(p, least, 1.0 - least)
    return float(-np.where(truth, np.log(p), np.log1p(-p)).mean())
