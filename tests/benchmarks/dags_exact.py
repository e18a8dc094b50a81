"""Speed of order posteriors: exact sums and queries.

Simulated data: Erdős-Rényi graphs of 2d expected edges, standard normal weights, noise variance 0.1, 100 rows. Times
are CPU seconds of the process after compilation (two threads count double), medians of repeats; the pass that the
exact posterior is compared with runs in the same loop.

    python -m tests.benchmarks.dags_exact exact queries
"""

import argparse
import resource
import time

import numpy as np
import pandas as pd

import pymc_spn as ps
from pymc_spn.dags import zeta_kernels
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.threads import for_each
from tests.benchmarks.dags_problem import simulated
from tests.benchmarks.report import machine, markdown_table


# A pass of d 2^d additions in three forms, each in two halves, which run side by side where the exact posterior does.
@kernel
def plain_half(d, table, upward):
    """Sums over subsets or supersets as anyone writes them: in place, bit by bit, d 2^(d-1) additions."""
    for bit in range(d):
        half = 1 << bit
        for low in range(0, table.size, 2 * half):
            for m in range(low, low + half):
                if upward:
                    table[m] += table[m + half]
                else:
                    table[m + half] += table[m]


@kernel
def gathering_half(d, source, out, upper):
    """In one sweep, to each of half the entries all those that differ from it in one bit: d 2^(d-1) additions."""
    start = source.size // 2 * upper
    for s in range(start, start + source.size // 2):
        total = 0.0
        for i in range(d):
            total += source[s ^ (1 << i)]
        out[s] = total


def passes(d):
    """By name, functions that make d 2^d additions."""
    tables, out = (np.zeros(1 << d), np.zeros(1 << d)), np.empty(1 << d)
    halves = {
        "plain": lambda k: plain_half(d, tables[k], k == 1),
        "gathering": lambda k: gathering_half(d, tables[0], out, k),
        "blocked": lambda k: zeta_kernels.superset_sums(tables[k]),
    }
    return {name: lambda half=half: for_each(half, range(2)) for name, half in halves.items()}


def seconds(task):
    wall, cpu = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - wall, time.process_time() - cpu


def everything(scores):
    """Log Z, all edges, the parent sets of every variable."""
    post = ps.OrderSPN.exact(scores)
    post.edge_probabilities()
    for i in range(scores.d):
        post._passes.parent_sets(i)
    return post


def exact_times(d, repeats):
    """(wall, CPU) seconds of each part, by name, one entry a repeat."""
    df = pd.DataFrame(simulated(d, 0).train, columns=[f"v{i}" for i in range(d)])
    scores = ps.LocalScores.from_data(df, max_candidates=d - 1)
    tasks = {
        "scores": lambda: ps.LocalScores.from_data(df, max_candidates=d - 1),
        "log Z": lambda: ps.OrderSPN.exact(scores),
        "edges": lambda: ps.OrderSPN.exact(scores).edge_probabilities(),
        "all": lambda: everything(scores),
        **passes(d),
    }
    for task in tasks.values():
        task()
    rounds = np.array([[seconds(task) for task in tasks.values()] for _ in range(repeats)])  # interleaved
    return {name: rounds[:, k] for k, name in enumerate(tasks)}


def exact(sizes, repeats):
    times_of, ratios = [], []
    for d in sizes:
        times = exact_times(d, repeats)
        wall = {name: 1e3 * float(np.median(t[:, 0])) for name, t in times.items()}
        cpu = {name: 1e3 * float(np.median(t[:, 1])) for name, t in times.items()}
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        parts = ("scores", "log Z", "edges", "all", "plain", "gathering", "blocked")
        times_of += [[d, "CPU", *(cpu[n] for n in parts), rss], [d, "wall", *(wall[n] for n in parts), None]]
        for clock, k in (("CPU", 1), ("wall", 0)):
            values = [
                float(np.median(times[what][:, k] / times[unit][:, k]))
                for what in ("edges", "all")
                for unit in ("plain", "gathering", "blocked")
            ]
            ratios.append([d, clock, *values])
    print("### Exact\n")
    names = ["scores ms", "log Z ms", "+ edges ms", "+ all parent sets ms", "plain pass ms", "gathering", "blocked"]
    print(markdown_table(["d", "clock", *names, "peak GB"], times_of) + "\n")
    units = ["plain", "gathering", "blocked"]
    heads = [f"log Z and edges / {u}" for u in units] + [f"all / {u}" for u in units]
    print(markdown_table(["d", "clock", *heads], ratios))


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
        times = [seconds(lambda a=a, fresh=fresh: fresh.probability(present=a))[1] for a in asked]
        values = [float(fresh.probability(present=a)) for a in asked]
        rows.append([n, 1e3 * float(np.median(times)), float(np.mean(np.array(values) > 0))])
    effects = float(np.median([seconds(post.causal_effects)[1] for _ in range(3)]))
    rows.append(["all effects", 1e3 * effects, None])
    rows.append(["1,000 draws", 1e3 * seconds(lambda: post.sample(1000, random_seed=0))[1], None])
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
