"""What candidate parents leave out: edge probabilities beside a search over all parents.

Linear Gaussian networks of `dags_problem`. The reference runs Markov chains over pairs of order and graph in which
every variable before another may be its parent, from drawn pairs of the posterior: edges are added, taken away and
exchanged, and variables move to any place that their edges allow. Log losses clip probabilities at 1e-4.

    python -m tests.benchmarks.dags_left_out --sizes 37 64 --rows 100 1000 --seeds 0 1 2 3 4
    python -m tests.benchmarks.dags_left_out --sizes 100 300 --rows 1000 --seeds 0 --no-reference
"""

import argparse
import math
import resource
import time
import warnings

import numba
import numpy as np
import pandas as pd

import pymc_spn as ps
from pymc_spn.dags.order_sample import draw
from pymc_spn.dags.scores import bge_terms
from pymc_spn.dags.structure_prior import prior_terms
from tests.benchmarks.dags_problem import area, log_loss, simulated
from tests.benchmarks.report import machine, markdown_table

PAIRS, SWEEPS, BURN_IN = 200, 40, 15  # of the reference: pairs it starts from, sweeps of each, and those left out
HEADER = [
    "variables, rows", "sets", "true edges at 0, above .05 in the reference", "true edges no candidates",
    "expected edges outside", "reference", "of all", "stated above .98", "there", "log loss", "reference", "AUROC",
    "R-hat", "CPU s", "GB",
]  # fmt: skip


@numba.njit(cache=True)
def family(child, parents, n, matrix, constants, exponents, root):
    """BGe score of a child and n parents, with the prior in the constants."""
    total = 0.0
    for a in range(n + 1):
        i = child if a == n else parents[a]
        for b in range(a + 1):
            value = matrix[i, child if b == n else parents[b]]
            for k in range(b):
                value -= root[a, k] * root[b, k]
            root[a, b] = math.sqrt(value) if a == b else value / root[b, b]
        if a < n:
            total += math.log(root[a, a])
    return constants[n] - total - (2 * exponents[n] + 1) * math.log(root[n, n])


@numba.njit(cache=True)
def over_all_parents(rng, order, graph, matrix, constants, exponents, sweeps, burn_in, counts):
    """Counts of edges along a chain over pairs of order and graph, each with the weight of its graph."""
    d = order.size
    place = np.argsort(order)
    root, parents, now = np.empty((d + 1, d + 1)), np.empty(d, np.int64), np.empty(d)
    for i in range(d):
        n = 0
        for j in range(d):
            if graph[j, i]:
                parents[n] = j
                n += 1
        now[i] = family(i, parents, n, matrix, constants, exponents, root)
    for s in range(sweeps):
        for _ in range(d * d):
            i, u = rng.integers(0, d), rng.integers(0, d)
            if place[u] >= place[i] or rng.random() < 0.5:
                continue
            leaves = -1
            if not graph[u, i] and rng.random() < 0.5:  # u takes the place of a parent: equally likely back
                n = graph[:, i].sum()
                if n == 0:
                    continue
                k = rng.integers(0, n)
                for j in range(d):
                    if graph[j, i]:
                        if k == 0:
                            leaves = j
                        k -= 1
            elif graph[u, i] and rng.random() < 0.5:  # taken away as seldom as it is added
                continue
            n = 0
            for j in range(d):
                if (graph[j, i] and j != u and j != leaves) or (j == u and not graph[u, i]):
                    parents[n] = j
                    n += 1
            value = family(i, parents, n, matrix, constants, exponents, root)
            if math.log(rng.random()) < value - now[i]:
                now[i] = value
                graph[u, i] = not graph[u, i]
                if leaves >= 0:
                    graph[leaves, i] = False
        for _ in range(4 * d):
            x = rng.integers(0, d)
            first, last = 0, d - 1
            for j in range(d):
                if graph[j, x]:
                    first = max(first, place[j] + 1)
                if graph[x, j]:
                    last = min(last, place[j] - 1)
            new = rng.integers(first, last + 1)
            step = 1 if new > place[x] else -1
            while place[x] != new:
                y = order[place[x] + step]
                order[place[x]], order[place[x] + step] = y, x
                place[y], place[x] = place[x], place[x] + step
        if s >= burn_in:
            counts += graph


def reference(post, seed):
    """(d, d) edge probabilities over all parents, and the CPU seconds."""
    start, scores = time.process_time(), post.scores
    rng = np.random.default_rng(seed)
    orders, graphs = draw(post, PAIRS, rng)
    terms = bge_terms(int(scores.gaussian.n_rows[0]), scores.d, 1.0, scores.d + 2.0, 0.5)
    constants = terms[0] + prior_terms("fair", scores.names)[0]
    matrix, counts = np.ascontiguousarray(scores.gaussian.matrices[0]), np.zeros((scores.d, scores.d))
    for order, graph in zip(orders, graphs, strict=True):
        own = order.copy(), graph.copy(), matrix, constants, terms[1]
        over_all_parents(rng, *own, SWEEPS, BURN_IN, counts)
    return counts / (PAIRS * (SWEEPS - BURN_IN)), time.process_time() - start


def figures(d, n, seed, with_reference):
    problem = simulated(d, seed, n)
    truth, apart = problem.graph, ~np.eye(d, dtype=bool)
    frame = pd.DataFrame(problem.train, columns=[f"v{i}" for i in range(d)])
    start = time.process_time()
    post = ps.DagPosterior.from_data(frame, random_seed=seed, progressbar=False)
    edges = post.edge_probabilities().values
    seconds = time.process_time() - start
    outside = apart & (post.scores.slots.T < 0)
    searched = reference(post, seed)[0] if with_reference else np.full((d, d), np.nan)
    sure = apart & (edges > 0.98)
    return [
        float((outside & truth & (edges == 0.0) & (searched > 0.05)).sum()),
        float((outside & truth).sum()),
        edges[outside].sum(),
        searched[outside].sum(),
        edges.sum(),
        sure.sum(),
        truth[sure].mean(),
        log_loss(edges[apart], truth[apart], 1e-4),
        log_loss(searched[apart], truth[apart], 1e-4) if with_reference else np.nan,
        area(edges[apart], truth[apart]),
        post.r_hat,
        seconds,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[37, 64])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--no-reference", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of units, which differ here
    warnings.simplefilter("ignore", ps.ConvergenceWarning)  # R-hat is a column
    rows = []
    figures(25, 100, 0, True)  # compiles
    for d in options.sizes:
        for n in options.rows:
            found = np.array([figures(d, n, seed, not options.no_reference) for seed in options.seeds])
            pooled = (found[:, 5] * found[:, 6]).sum() / max(found[:, 5].sum(), 1)
            mean = found.mean(axis=0)
            mean[0], mean[5], mean[6], mean[10] = found[:, 0].sum(), found[:, 5].sum(), pooled, found[:, 10].max()
            rows.append([f"{d}, {n:,}", str(len(found)), *(f"{v:.3g}" for v in mean)])
            print(rows[-1], flush=True)
    print("\n" + machine() + "\n\n" + markdown_table(HEADER, rows))


if __name__ == "__main__":
    main()
