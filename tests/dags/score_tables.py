"""Tables, scores over few variables, and how far drawn graphs are from their probabilities."""

import numpy as np
import pandas as pd
import reference_dags as brute

import pymc_spn as ps
from pymc_spn.dags.mcmc_chain import ranked_sets


def gaussian_table(d, n=60, seed=0):
    rng = np.random.default_rng(seed)
    mix = np.eye(d) + np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5), 1)
    return pd.DataFrame(rng.normal(size=(n, d)) @ mix, columns=[f"v{i}" for i in range(d)])


def rough_scores(d, spread=3.0, seed=0, **knowledge):
    """Random scores with a few impossible sets; much spread makes differences of sums cancel."""
    rng = np.random.default_rng(seed)
    names = [f"v{i}" for i in range(d)]
    table = {}
    for name in names:
        others = [n for n in names if n != name]
        table[name] = {
            tuple(p for k, p in enumerate(others) if m >> k & 1): float(rng.normal() * spread)
            if m == 0 or rng.random() < 0.9
            else -np.inf
            for m in range(1 << len(others))
        }
    return listed_scores(table, **knowledge)


def listed_scores(listed, **knowledge):
    """Scores of parent sets that are listed by child; others are impossible."""
    used = {child: {p for parents in sets for p in parents} for child, sets in listed.items()}
    unused = [(p, child) for child in listed for p in listed if p != child and p not in used[child]]
    known = {(child, frozenset(parents)): x for child, sets in listed.items() for parents, x in sets.items()}
    rows = pd.DataFrame(np.zeros((len(listed), len(listed))), columns=list(listed))
    return ps.LocalScores.from_data(
        rows, lambda child, parents: known.get((child, frozenset(parents)), -np.inf), "uniform", forbidden=unused,
        **knowledge,
    )  # fmt: skip


def arrays(scores):
    return scores.lookup, scores.offsets, scores.log_sums, ranked_sets(scores), scores.log_scores


def level_of(graph):
    """Block number of each variable of a graph, by longest paths."""
    d = len(graph)
    level = np.zeros(d, int)
    for _ in range(d):
        for i in range(d):
            level[i] = max([level[j] + 1 for j in np.flatnonzero(graph[:, i])], default=0)
    return tuple(level)


def weights_by_level(scores):
    """Sum of exp(score) over the graphs of every ordered partition, and the log total."""
    graphs = brute.all_dags(scores.d)
    logs = np.array([scores.log_score(g) for g in graphs])
    top = logs.max()
    found = {}
    for graph, value in zip(graphs, logs, strict=True):
        key = level_of(graph)
        found[key] = found.get(key, 0.0) + np.exp(value - top)
    total = top + np.log(sum(found.values()))
    return {k: top + np.log(v) for k, v in found.items() if v > 0}, total, graphs, logs - total


def total_variation(masks, graphs, p):
    d = graphs.shape[1]
    place = 1 << (d * np.arange(d))
    keys = ((graphs * (1 << np.arange(d))[:, None]).sum(axis=1) * place).sum(axis=1)
    found, counts = np.unique((masks * place).sum(axis=1), return_counts=True)
    q = dict(zip(found.tolist(), (counts / len(masks)).tolist(), strict=True))
    return 0.5 * sum(abs(q.pop(int(k), 0.0) - x) for k, x in zip(keys, p, strict=True)) + 0.5 * sum(q.values())


def expected_total_variation(p, n):
    """Mean over independent draws: 0.5 sum of sqrt(2 p (1 - p) / (pi n))."""
    return 0.5 * np.sqrt(2 * p * (1 - p) / (np.pi * n)).sum()


def linear_table(d, n, seed):
    """Columns that depend on some of those before them."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for i in range(d):
        weights = np.where(rng.random(i) < 0.4, rng.normal(size=i), 0.0)
        x[:, i] = x[:, :i] @ weights + rng.normal(size=n)
    return pd.DataFrame((x - x.mean(axis=0)) / x.std(axis=0), columns=list("abcdefghijklmno"[:d]))
