"""Speed and mass of order posteriors: exact sums, queries, beams, certificates.

Simulated data: Erdős-Rényi graphs of 2d expected edges, standard normal weights, noise variance 0.1, 100 rows. Times
are CPU seconds of the process after compilation (two threads count double), medians of repeats; the pass that the
exact posterior is compared with runs in the same loop.

    python -m tests.benchmarks.dags_exact_and_lattice exact lattice large
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
from tests.benchmarks.report import machine, markdown_table


def simulated(d, seed, n=100):
    rng = np.random.default_rng(seed)
    graph = np.triu(rng.random((d, d)) < 4 / (d - 1), 1)
    weights = np.where(graph, rng.normal(size=(d, d)), 0.0)
    order = rng.permutation(d)
    weights = weights[order][:, order]
    x = (np.sqrt(0.1) * rng.normal(size=(n, d))) @ np.linalg.inv(np.eye(d) - weights)
    return pd.DataFrame(x, columns=[f"v{i}" for i in range(d)])


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
    blocked = zeta_kernels.subset_sums, zeta_kernels.superset_sums
    halves = {
        "plain": lambda k: plain_half(d, tables[k], k == 1),
        "gathering": lambda k: gathering_half(d, tables[0], out, k),
        "blocked": lambda k: blocked[k](tables[k]),
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
    df = simulated(d, 0)
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
    df = simulated(d, 0)
    scores = ps.LocalScores.from_data(df, max_candidates=16)
    rng = np.random.default_rng(0)
    rows = []
    for name, post in (("exact", ps.OrderSPN.exact(scores)), ("lattice", ps.OrderSPN.fit(scores, random_seed=0))):
        draws = post.sample(repeats, random_seed=1).values
        for n in (1, 4, 16):
            asked = []
            for graph in draws:
                present = np.argwhere(graph)
                chosen = rng.permutation(len(present))[:n]
                asked.append([(df.columns[j], df.columns[i]) for j, i in present[chosen]])
            fresh = ps.OrderSPN(scores, post._lattice, post.kind)
            fresh.log_mass  # noqa: B018
            times = [seconds(lambda a=a, fresh=fresh: fresh.probability(present=a))[1] for a in asked]
            values = [float(fresh.probability(present=a)) for a in asked]
            rows.append([name, n, 1e3 * float(np.median(times)), float(np.mean(np.array(values) > 0))])
        effects = float(np.median([seconds(post.causal_effects)[1] for _ in range(3)]))
        sample = seconds(lambda post=post: post.sample(1000, random_seed=0))[1]
        rows.append([name, "all effects", 1e3 * effects, None])
        rows.append([name, "1,000 draws", 1e3 * sample, None])
    print(f"### Queries, d = {d}\n")
    print(markdown_table(["posterior", "edges in the question", "CPU ms", "share above zero"], rows))


def small_lattice(seeds, orders):
    rows = []
    for seed in range(seeds):
        scores = ps.LocalScores.from_data(simulated(16, seed))
        truth = ps.OrderSPN.exact(scores)
        for label, options in (
            ("beam alone", {"beam_factor": 1.0, "refine": 0}),
            ("default", {}),
        ):
            post = None

            def build(options=options, scores=scores, seed=seed):
                nonlocal post
                post = ps.OrderSPN.fit(scores, 10_400, random_seed=seed, **options)
                post.log_mass  # noqa: B018

            cpu = seconds(build)[1]
            mass = float(np.exp(post.log_mass - truth.log_mass))
            found = post.coverage(orders, random_seed=seed)
            z = (float(found) - mass) / found.attrs["mcse"]
            error = float(np.abs(post.edge_probabilities() - truth.edge_probabilities()).max())
            rows.append([seed, label, post.lattice.n_prefixes, mass, float(found), float(z), error, cpu])
    names = ["seed", "search", "prefixes", "mass", "coverage", "coverage − mass, s.e.", "largest edge error", "CPU s"]
    print("### Lattice, d = 16\n")
    print(markdown_table(names, rows))


def large_lattice(seeds, orders):
    rows = []
    for seed in range(seeds):
        df = simulated(32, seed)
        candidates = seconds(lambda df=df: ps.LocalScores.from_data(df, max_candidates=16))[1]
        scores = ps.LocalScores.from_data(df, max_candidates=16)
        scores.log_sums  # noqa: B018
        found = []
        for size, options in ((240_000, {"refine": 0}), (2_300_000, {"refine": 0})):
            post = None

            def build(size=size, options=options, scores=scores, seed=seed):
                nonlocal post
                post = ps.OrderSPN.fit(scores, size, beam_factor=1.0, random_seed=seed, **options)
                post.log_mass  # noqa: B018

            cpu = seconds(build)[1]
            found.append((post.lattice.n_prefixes, float(post.log_mass), cpu))
        estimate = post.estimate_log_evidence(orders, random_seed=seed)
        z, error = float(estimate), float(estimate.attrs["mcse"])
        for n, mass, cpu in found:
            rows.append([seed, candidates, n, z - mass, error, float(np.exp(mass - z)), cpu])
    names = ["seed", "scores CPU s", "prefixes", "gap, nats", "s.e. of log Z", "mass", "CPU s"]
    print(f"### Lattice, d = 32, log Z from {orders:,} independent Gibbs orders\n")
    print(markdown_table(names, rows))
    gaps = np.array([row[3] for row in rows]).reshape(-1, 2)
    print(f"Median gaps: {np.median(gaps[:, 0]):.2f} and {np.median(gaps[:, 1]):.2f} nats.\n")


def widest(seed=0):
    df = simulated(64, seed)
    scores = ps.LocalScores.from_data(df, max_candidates=16)
    cpu = {}
    post = None

    def build():
        nonlocal post
        post = ps.OrderSPN.fit(scores, 200_000, beam_factor=1.0, refine=0, random_seed=0)
        post.log_mass  # noqa: B018

    cpu["fit"] = seconds(build)[1]
    found = post.coverage(1_000, random_seed=0)
    edges = post.edge_probabilities()
    beside = post.order_edge_probabilities(1_000, random_seed=0)
    difference = np.abs(edges - beside)
    print("### Lattice, d = 64\n")
    error = beside.attrs["mcse"].max()
    print(
        f"200,000 prefixes in {cpu['fit']:.1f} CPU s; coverage {float(found):.4f} ± {found.attrs['mcse']:.4f}; edges "
        f"of the lattice against those of 1,000 Gibbs orders: mean difference {float(difference.mean()):.4f}, largest "
        f"{float(difference.max()):.2f}, where the standard error of the latter is at most {error:.3f}.\n"
    )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parts", nargs="+", choices=["exact", "queries", "lattice", "large", "widest"])
    arguments.add_argument("--sizes", type=int, nargs="+", default=[12, 16, 20])
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--orders", type=int, default=10_000)
    chosen = arguments.parse_args()
    print(machine() + "\n")
    if "exact" in chosen.parts:
        exact(chosen.sizes, chosen.repeats)
    if "queries" in chosen.parts:
        queries(16, 20)
    if "lattice" in chosen.parts:
        small_lattice(chosen.seeds, chosen.orders)
    if "large" in chosen.parts:
        large_lattice(chosen.seeds, chosen.orders)
    if "widest" in chosen.parts:
        widest()
