"""Figure 2, figure 3 and table 2 of the paper (Wang, Wicker and Kwiatkowska 2022), and its ablation, figure 4.

    python -m tests.benchmarks.dags_paper figures RESULTS --d 16 --seeds 0 1 2 3 4 5 6 7 8 9 --peers PEERS
    python -m tests.benchmarks.dags_paper ablation RESULTS --d 16
    python -m tests.benchmarks.dags_paper report RESULTS

RESULTS is a file of JSON lines, one for each data set and method, written as soon as it is known.
What stands there is not run again, so a run may be stopped at any time and started anew with the same command. PEERS
holds the graphs that `dags_peers` wrote; without it there are our methods only. ``report`` prints the tables of all
that RESULTS holds. Times are CPU seconds after compilation, scores not included.
"""

import argparse
import time
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammaln

import pymc_spn as ps
from pymc_spn.dags.dag import to_cpdags
from pymc_spn.dags.mcmc_chain import OrderChain, PartitionChain
from tests.benchmarks.dags_paper_report import PEERS, TABLE_SIZES, report
from tests.benchmarks.dags_problem import QUERY_SIZES, area, simulated
from tests.benchmarks.report import Store

FACTORS = {16: [64, 16, 6, 2], 32: [32, 8, 2, 6, 2]}  # the paper's
DRAWS, QUERY_DRAWS = 1000, 10_000
TABLE_QUERIES = 5
SWEEPS = 2  # of a chain between two graphs
METHODS = "exact", "regular", "order MCMC", "partition MCMC"  # ours, in the order in which they run
ABLATION = {"random": "random", "learned": "partition_mcmc"}  # splits: oracle


# ---- metrics
def expected_shd(graphs, truth):
    """Mean number of pairs of variables whose edge differs between the classes of the graphs and that of the truth."""
    classes, true = to_cpdags(graphs), to_cpdags(truth[None])
    differs = classes != true
    differs |= differs.transpose(0, 2, 1)
    return differs.sum(axis=(1, 2)).mean() / 2


class Held:
    """Log marginal likelihood of rows under graphs: BGe of the rows alone, as in the paper."""

    def __init__(self, rows):
        n, d = rows.shape
        centred = rows - rows.mean(axis=0)
        self.n, self.d = n, d
        self.matrix = 0.5 * np.eye(d) + centred.T @ centred
        self.local = cache(self.local)

    def local(self, i, parents):
        k, n, a = len(parents), self.n, 2
        inner = self.matrix[np.ix_(parents, parents)]
        outer = self.matrix[np.ix_((i, *parents), (i, *parents))]
        return (
            -0.5 * np.log(n + 1)
            - n / 2 * np.log(np.pi)
            + gammaln((n + a + k + 1) / 2)
            - gammaln((a + k + 1) / 2)
            + ((a + k + 1) * (k + 1) - (a + k) * k) / 2 * np.log(0.5)
            - (n + a + k + 1) / 2 * np.linalg.slogdet(outer)[1]
            + (n + a + k) / 2 * (np.linalg.slogdet(inner)[1] if k else 0.0)
        )

    def mean(self, graphs):
        total = 0.0
        for graph in graphs:
            total += sum(self.local(i, tuple(np.flatnonzero(graph[:, i]).tolist())) for i in range(self.d))
        return total / len(graphs)


def mean_effects(graphs, matrix):
    """Mean over graphs of the posterior mean of all total effects given the graph."""
    d = graphs.shape[1]
    total = np.zeros((d, d))

    @cache
    def coefficients(i, parents):
        return np.linalg.solve(matrix[np.ix_(parents, parents)], matrix[list(parents), i])

    for graph in graphs:
        b = np.zeros((d, d))
        for i in range(d):
            parents = tuple(np.flatnonzero(graph[:, i]).tolist())
            if parents:
                b[list(parents), i] = coefficients(i, parents)
        total += np.linalg.inv(np.eye(d) - b)
    return total / len(graphs)


# ---- methods: each gives a dict with graphs, edges, effects and a function from evidence to (probability, edges)
def of_circuit(post, seed):
    names = post.names

    def query(pairs, all_edges):
        edges = [(names[j], names[i]) for j, i in pairs]
        p = float(post.probability(present=edges))
        return p, post.edge_probabilities({"present": edges}).values if p > 0 and all_edges else None

    return {
        "graphs": post.sample(DRAWS, random_seed=seed).values,
        "edges": post.edge_probabilities().values,
        "effects": post.causal_effects().values,
        "query": query,
        "log_mass": float(post.log_mass),
    }


def of_graphs(graphs, scores, n_metric=DRAWS):
    edges = graphs.mean(axis=0)

    def query(pairs, all_edges):
        holds = graphs[:, pairs[:, 0], pairs[:, 1]].all(axis=1)
        return holds.mean(), graphs[holds].mean(axis=0) if holds.any() else None

    some = graphs[:: max(1, len(graphs) // n_metric)][:n_metric]
    return {
        "graphs": some,
        "edges": edges,
        "effects": mean_effects(some, scores.gaussian.matrices[0]),
        "query": query,
    }


def by_chain(make, scores, seed, sweeps, n=QUERY_DRAWS, chains=4):
    """Graphs from independent chains: a tenth of the draws as burn-in, a few sweeps between draws."""
    d = scores.d
    rng = np.random.default_rng(seed)
    masks = np.empty((n, d), np.int64)
    logs = np.empty((chains, n // chains))
    for c in range(chains):
        chain = make(scores)
        chain.start(rng)
        for _ in range(n // chains // 10 * sweeps):
            chain.sweep(rng)
        for s in range(n // chains):
            for _ in range(sweeps):
                chain.sweep(rng)
            logs[c, s] = chain.draw_graph(rng)
            masks[c * (n // chains) + s] = chain.parents
    graphs = (masks[:, None, :] >> np.arange(d)[:, None] & 1).astype(bool)
    within = logs.var(axis=1, ddof=1).mean()
    r_hat = np.sqrt(1 - chains / n + logs.mean(axis=1).var(ddof=1) / within)
    return graphs, float(r_hat)


def methods(d, scores, seed, draws=QUERY_DRAWS):
    found = {}
    if d <= 20:
        found["exact"] = lambda: of_circuit(ps.OrderSPN.exact(scores), seed)
    found["regular"] = lambda: of_circuit(
        ps.OrderSPN.regular(scores, FACTORS[d], "partition_mcmc", random_seed=seed), seed
    )
    for name, make, sweeps in (("order MCMC", OrderChain, SWEEPS), ("partition MCMC", PartitionChain, SWEEPS)):

        def run(make=make, sweeps=sweeps):
            graphs, r_hat = by_chain(make, scores, seed, sweeps, draws)
            return of_graphs(graphs, scores) | {"r_hat": r_hat}

        found[name] = run
    return found


def judge(answer, problem):
    """All numbers of one method on one problem."""
    off = ~np.eye(len(problem.graph), dtype=bool)
    out = {
        "e_shd": expected_shd(answer["graphs"], problem.graph),
        "mll": Held(problem.test).mean(answer["graphs"]),
        "auroc": area(answer["edges"][off], problem.graph[off]),
        "mse_ce": np.mean((answer["effects"] - problem.effects)[off] ** 2),
    }
    for size in QUERY_SIZES:
        support, conditional = [], []
        for number, pairs in enumerate(problem.queries[size]):
            p, edges = answer["query"](pairs, size in TABLE_SIZES and number < TABLE_QUERIES)
            support.append(p > 0)
            if size in TABLE_SIZES and number < TABLE_QUERIES:
                left = off.copy()
                left[pairs[:, 0], pairs[:, 1]] = False
                conditional.append(area((answer["edges"] if edges is None else edges)[left], problem.graph[left]))
        out[f"support_{size}"] = np.mean(support)
        if conditional:
            out[f"conditional_{size}"] = np.mean(conditional)
    return out | {k: answer[k] for k in ("log_mass", "r_hat", "cpu") if k in answer}


def peer(folder, name, d, seed, scores):
    saved = np.load(Path(folder) / f"{name}_{d}_{seed}.npz")
    return of_graphs(saved["graphs"], scores) | {"cpu": float(saved["cpu"])}


# ---- runs: one line for each data set and method
def problem_of(d, seed):
    problem = simulated(d, seed)
    frame = pd.DataFrame(problem.train, columns=[f"v{i}" for i in range(d)])
    scores = ps.LocalScores.from_data(frame, max_candidates=16)
    scores.log_sums  # noqa: B018  before the clock
    return problem, scores


def figures(given, results):
    compiled = set()
    for seed in given.seeds:
        keys = {name: ("figures", given.d, seed, name) for name in METHODS if name != "exact" or given.d <= 20}
        for name in PEERS:
            if (Path(given.peers or "") / f"{name}_{given.d}_{seed}.npz").exists() and given.peers:
                keys[name] = "figures", given.d, seed, name
        left = [name for name, key in keys.items() if key not in results]
        if not left:
            continue
        problem, scores = problem_of(given.d, seed)
        runs = methods(given.d, scores, seed)
        small = methods(given.d, scores, seed, draws=40)
        for name in left:
            wall = time.perf_counter()
            if name in PEERS:
                answer = peer(given.peers, name, given.d, seed, scores)
            else:
                if name not in compiled:
                    small[name]()
                    compiled.add(name)
                begin = time.process_time()
                answer = runs[name]()
                answer["cpu"] = time.process_time() - begin
            found = {k: float(v) for k, v in judge(answer, problem).items()}
            results.add(keys[name], found | {"wall_with_judging": round(time.perf_counter() - wall, 1)})


def ablation(given, results):
    """Random or learned splits, equal or closed-form weights (figure 4); metrics by drawing from the tree."""
    for seed in given.seeds:
        keys = {
            (splits, weights): ("ablation", given.d, seed, f"{splits} splits, {weights} weights" if weights else splits)
            for splits, weights in [*product(ABLATION, ("equal", "closed-form")), ("partition MCMC", None)]
        }
        left = {case: key for case, key in keys.items() if key not in results}
        if not left:
            continue
        problem, scores = problem_of(given.d, seed)
        for splits, oracle in ABLATION.items():
            if any(case[0] == splits for case in left):
                begin = time.process_time()
                post = ps.OrderSPN.regular(scores, FACTORS[given.d], oracle, random_seed=seed)
                grown = {"log_mass": float(post.log_mass), "cpu": time.process_time() - begin}
            if (splits, "equal") in left:
                found = judge_draws(draw_equal(post.tree, scores, seed), scores, problem)
                results.add(keys[splits, "equal"], found)
            if (splits, "closed-form") in left:
                found = judge_draws(post.sample(DRAWS, random_seed=seed).values, scores, problem)
                results.add(keys[splits, "closed-form"], found | grown)
        if ("partition MCMC", None) in left:
            graphs, r_hat = by_chain(PartitionChain, scores, seed, SWEEPS)
            found = judge_draws(graphs[:: QUERY_DRAWS // DRAWS], scores, problem)
            results.add(keys["partition MCMC", None], found | {"r_hat": r_hat})


def judge_draws(graphs, scores, problem):
    off = ~np.eye(len(problem.graph), dtype=bool)
    effects = mean_effects(graphs, scores.gaussian.matrices[0])
    return {
        "e_shd": float(expected_shd(graphs, problem.graph)),
        "mll": float(Held(problem.test).mean(graphs)),
        "auroc": float(area(graphs.mean(axis=0)[off], problem.graph[off])),
        "mse_ce": float(np.mean((effects - problem.effects)[off] ** 2)),
    }


def draw_equal(tree, scores, seed):
    """Graphs from the tree with equal weights: a split at random in each sum, then parents given the order."""
    rng = np.random.default_rng(seed)
    chain = OrderChain(scores)
    graphs = np.empty((DRAWS, scores.d, scores.d), bool)
    for s in range(DRAWS):
        order, waiting = [], [0]
        while waiting:
            t = waiting.pop()
            if tree.ptr[t] == tree.ptr[t + 1]:
                order.append(int(tree.scope[t]).bit_length() - 1)
                continue
            p = rng.integers(tree.ptr[t], tree.ptr[t + 1])
            waiting += [2 * p + 2, 2 * p + 1]
        chain.order = np.array(order)
        chain.draw_graph(rng)
        graphs[s] = chain.parents >> np.arange(scores.d)[:, None] & 1
    return graphs


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["figures", "ablation", "report"])
    arguments.add_argument("results", help="file of JSON lines, added to")
    arguments.add_argument("--d", type=int, default=16, choices=list(FACTORS))
    arguments.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    arguments.add_argument("--peers", help="folder of dags_peers")
    given = arguments.parse_args()
    results = Store(given.results, ("what", "d", "seed", "method"))
    if given.what == "report":
        report(results)
    else:
        {"figures": figures, "ablation": ablation}[given.what](given, results)


if __name__ == "__main__":
    main()
