"""Do 90 % intervals of total effects hold the truth? Graphs, coefficients and rows are drawn from the score's prior.

* `matched`: uniform orders, parent sets by the fair prior among the variables that stand before, BGe's prior of
  variances, coefficients and means.
* `published`: the simulation of `dags_problem`. Its graphs and coefficients follow another prior than the score's.

An interval runs from the 5 % to the 95 % quantile of draws. The effect is exactly 0 in many draws, and an interval with
that at an end holds more than 90 %. The rank of the truth among the draws has no such excess, with ties broken at
random: it is in the middle 90 % in exactly 90 % of cases if all is right.

    python -m tests.benchmarks.dags_effects --cases matched published --sizes 10 20 37
"""

import argparse
import math
import time
import warnings

import numpy as np
import pandas as pd

import pymc_spn as ps
from tests.benchmarks.dags_problem import simulated
from tests.benchmarks.report import machine, markdown_table

HEADER = ["case", "d", "rows", "engine", "data sets", "rank", "all pairs", "excludes 0", "pairs", "R-hat", "CPU s"]


def prior_graph(rng, d):
    """A graph from the order-modular prior; (parent, child)."""
    graph, before = np.zeros((d, d), bool), []
    for i in rng.permutation(d):
        p = np.array([math.comb(len(before), k) / math.comb(d - 1, k) for k in range(len(before) + 1)])
        k = rng.choice(len(p), p=p / p.sum())
        graph[rng.choice(before, k, replace=False) if k else [], i] = True
        before.append(i)
    return graph


def total_effects(coefficients):
    """Sum over all paths, (cause, effect): exactly zero where none leads, unlike a computed inverse."""
    of_length = total = np.eye(len(coefficients))
    for _ in range(len(coefficients) - 1):
        of_length = of_length @ coefficients
        total = total + of_length
    return total


def prior_rows(rng, graph, n, t=0.5, alpha_mu=1.0):
    """Coefficients and rows from BGe's prior given the graph, alpha_w = d + 2."""
    d = len(graph)
    coefficients, scale = np.zeros((d, d)), np.empty(d)
    for i in range(d):
        parents = np.flatnonzero(graph[:, i])
        variance = t / rng.chisquare(2 + parents.size + 1)
        coefficients[parents, i] = rng.normal(size=parents.size) * np.sqrt(variance / t)
        scale[i] = np.sqrt(variance)
    total = total_effects(coefficients)
    noise = rng.normal(size=(n, d)) + rng.normal(size=d) / np.sqrt(alpha_mu)  # rows, and the mean of all
    return total, noise * scale @ total


def problem(case, d, seed, n):
    """True effects and rows."""
    if case == "published":
        found = simulated(d, seed, n)
        return total_effects(found.weights), found.train
    rng = np.random.default_rng([d, seed, 7])
    return prior_rows(rng, prior_graph(rng, d), n)


def held(case, d, seed, options):
    """By pair: whether the rank is in the middle 90 %, whether the interval holds the truth, whether it excludes 0."""
    truth, rows = problem(case, d, seed, options.rows)
    frame = pd.DataFrame(rows, columns=[f"v{i}" for i in range(d)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = ps.DagPosterior.from_data(frame, ps.BGe(), progressbar=False, random_seed=seed)
        drawn = post.sample_effects(options.draws, random_seed=seed).values
    off = ~np.eye(d, dtype=bool)
    truth, drawn = truth[off], drawn[:, off]
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    rng = np.random.default_rng([seed, 1])
    below, ties = (drawn < truth).sum(axis=0), (drawn == truth).sum(axis=0)
    rank = (below + rng.random(truth.size) * (ties + 1)) / (options.draws + 1)
    inside = (low <= truth) & (truth <= high)
    return (rank > 0.05) & (rank < 0.95), inside, (low > 0) | (high < 0), post


def share(by_set):
    """Percentage over all pairs, with the standard error that data sets make."""
    mean, n = np.concatenate(by_set).mean(), sum(map(len, by_set))
    error = np.sqrt(np.sum([(one - mean).sum() ** 2 for one in by_set])) / n
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["matched", "published"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 20, 37])
    parser.add_argument("--data-sets", type=int, default=30)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--draws", type=int, default=2000)
    options = parser.parse_args()
    table = []
    for case in options.cases:
        for d in options.sizes:
            begin, found = time.process_time(), []
            for seed in range(options.data_sets):
                found.append(held(case, d, seed, options))
            *_, post = found[0]
            mixing = np.max([one[-1].r_hat for one in found])
            shares = [share([one[0] for one in found]), share([one[1] for one in found])]
            shares.append(share([one[1][one[2]] for one in found]))
            n_out = int(sum(one[2].sum() for one in found))
            seconds = (time.process_time() - begin) / len(found)
            table.append([case, d, options.rows, post.engine, len(found), *shares, n_out, mixing, seconds])
            print(table[-1], flush=True)
    print(machine())
    print(markdown_table(HEADER, table))


if __name__ == "__main__":
    main()
