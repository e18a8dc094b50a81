"""Speed of order posteriors: exact sums and queries.

Simulated data: Erdős-Rényi graphs of 2d expected edges, standard normal weights, noise variance 0.1, 100 rows. Times
are CPU seconds of the process after compilation (two threads count double), medians of repeats.

    python -m tests.benchmarks.dags_exact exact queries
"""

import argparse
import resource
import time

import numpy as np
import pandas as pd

import pymc_spn as ps
from tests.benchmarks.dags_problem import simulated
from tests.benchmarks.report import machine, markdown_table


def seconds(task):
    begin = time.process_time()
    task()
    return time.process_time() - begin


def exact_times(d, repeats):
    """Median CPU milliseconds of each part."""
    df = pd.DataFrame(simulated(d, 0).train, columns=[f"v{i}" for i in range(d)])
    scores = ps.LocalScores.from_data(df, max_candidates=d - 1)
    tasks = {
        "scores ms": lambda: ps.LocalScores.from_data(df, max_candidates=d - 1),
        "log Z ms": lambda: ps.OrderSPN.exact(scores),
        "+ edges ms": lambda: ps.OrderSPN.exact(scores).edge_probabilities(),
    }
    for task in tasks.values():
        task()
    rounds = [[seconds(task) for task in tasks.values()] for _ in range(repeats)]  # interleaved
    return dict(zip(tasks, 1e3 * np.median(rounds, axis=0), strict=True))


def exact(sizes, repeats):
    rows = []
    for d in sizes:
        times = exact_times(d, repeats)
        rows.append([d, *times.values(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6])
    print("### Exact\n")
    print(markdown_table(["d", *times, "peak GB"], rows))


def queries(d, repeats):
    df = pd.DataFrame(simulated(d, 0).train, columns=[f"v{i}" for i in range(d)])
    scores = ps.LocalScores.from_data(df, max_candidates=16)
    rng = np.random.default_rng(0)
    rows, post = [], ps.OrderSPN.exact(scores)
    draws = post.sample(repeats, random_seed=1).values
    for n in (1, 4, 16):
        asked = []
        for graph in draws:
            present = np.argwhere(graph)
            chosen = rng.permutation(len(present))[:n]
            asked.append([(df.columns[j], df.columns[i]) for j, i in present[chosen]])
        fresh = ps.OrderSPN.exact(scores)
        times = [seconds(lambda a=a, fresh=fresh: fresh.probability(present=a)) for a in asked]
        values = [float(fresh.probability(present=a)) for a in asked]
        rows.append([n, 1e3 * float(np.median(times)), float(np.mean(np.array(values) > 0))])
    effects = float(np.median([seconds(post.causal_effects) for _ in range(3)]))
    rows.append(["all effects", 1e3 * effects, None])
    rows.append(["1,000 draws", 1e3 * seconds(lambda: post.sample(1000, random_seed=0)), None])
    print(f"### Queries, d = {d}\n")
    print(markdown_table(["edges in the question", "CPU ms", "share above zero"], rows))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parts", nargs="+", choices=["exact", "queries"])
    arguments.add_argument("--sizes", type=int, nargs="+", default=[12, 16, 20])
    arguments.add_argument("--repeats", type=int, default=7)
    chosen = arguments.parse_args()
    print(machine() + "\n")
    if "exact" in chosen.parts:
        exact(chosen.sizes, chosen.repeats)
    if "queries" in chosen.parts:
        queries(16, 20)
