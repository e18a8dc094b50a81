"""Figure 2, figure 3 and table 2 of the paper (Wang, Wicker and Kwiatkowska 2022), and its ablation, figure 4.

    python -m tests.benchmarks.dags_paper figures --d 16 --seeds 0 1 2 3 4 5 6 7 8 9 --peers PEERS --out OUT
    python -m tests.benchmarks.dags_paper ablation --d 16 --out OUT

PEERS holds the graphs that `dags_peers` wrote; without it there are our methods only. OUT receives the figures as PNG
(matplotlib) and all numbers as JSON. Times are CPU seconds after compilation, scores not included.
"""

import argparse
import json
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import rankdata

import pymc_spn as ps
from pymc_spn.dags.dag import to_cpdags
from pymc_spn.dags.mcmc_chain import OrderChain, PartitionChain
from tests.benchmarks.dags_problem import QUERY_SIZES, simulated
from tests.benchmarks.report import machine, markdown_table

FACTORS = {16: [64, 16, 6, 2], 32: [32, 8, 2, 6, 2]}  # the paper's
DRAWS, QUERY_DRAWS = 1000, 10_000
TABLE_SIZES, TABLE_QUERIES = (4, 8, 16), 5
METRICS = {  # name: label, whether more is better
    "e_shd": ("expected SHD between CPDAGs", False),
    "mll": ("mean log p(test rows | graph) in nats", True),
    "auroc": ("AUROC of edges", True),
    "mse_ce": ("MSE of causal effects", False),
}


# ---- metrics
def auroc(score, truth):
    """Area under the ROC curve; ties count half."""
    n, positive = truth.size, int(truth.sum())
    if positive in (0, n):
        return np.nan
    ranks = rankdata(score)
    return (ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * (n - positive))


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


def methods(d, scores, seed, prefixes, draws=QUERY_DRAWS):
    found = {}
    if d <= 20:
        found["exact"] = lambda: of_circuit(ps.OrderSPN.exact(scores), seed)
    found["lattice"] = lambda: of_circuit(ps.OrderSPN.fit(scores, prefixes, random_seed=seed), seed)
    found["regular"] = lambda: of_circuit(
        ps.OrderSPN.regular(scores, FACTORS[d], "partition_mcmc", random_seed=seed), seed
    )
    for name, make, sweeps in (("order MCMC", OrderChain, 2), ("partition MCMC", PartitionChain, 2)):

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
        "auroc": auroc(answer["edges"][off], problem.graph[off]),
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
                conditional.append(auroc((answer["edges"] if edges is None else edges)[left], problem.graph[left]))
        out[f"support_{size}"] = np.mean(support)
        if conditional:
            out[f"conditional_{size}"] = np.mean(conditional)
    return out | {k: answer[k] for k in ("log_mass", "r_hat", "cpu") if k in answer}


def peers(folder, d, seed, scores):
    found = {}
    for name in ("sumu", "dibs"):
        path = Path(folder or ".") / f"{name}_{d}_{seed}.npz"
        if folder and path.exists():
            saved = np.load(path)
            found[name] = of_graphs(saved["graphs"], scores) | {"cpu": float(saved["cpu"])}
    return found


def figures(given):
    rows = []
    for seed in given.seeds:
        problem = simulated(given.d, seed)
        frame = pd.DataFrame(problem.train, columns=[f"v{i}" for i in range(given.d)])
        scores = ps.LocalScores.from_data(frame)
        scores.log_sums  # noqa: B018  before the clock
        if seed == given.seeds[0]:
            for run in methods(given.d, scores, seed, 200, draws=40).values():
                run()  # compiles
        answers = {}
        for name, run in methods(given.d, scores, seed, given.prefixes).items():
            begin = time.process_time()
            answers[name] = run()
            answers[name]["cpu"] = time.process_time() - begin
        answers |= peers(given.peers, given.d, seed, scores)
        for name, answer in answers.items():
            rows.append({"seed": seed, "method": name} | {k: float(v) for k, v in judge(answer, problem).items()})
            print(json.dumps(rows[-1]), flush=True)
        keep(rows, given)
    return rows


def keep(rows, given):
    """All numbers so far: long runs may be stopped."""
    (Path(given.out) / f"dags_{given.what}_d{given.d}.json").write_text(json.dumps(rows, indent=1))


def ablation(given):
    """Random or learned splits, equal or closed-form weights (figure 4); metrics by drawing from the tree."""
    rows = []
    for seed in given.seeds:
        problem = simulated(given.d, seed)
        frame = pd.DataFrame(problem.train, columns=[f"v{i}" for i in range(given.d)])
        scores = ps.LocalScores.from_data(frame)
        for oracle, splits in (("random", "random"), ("partition_mcmc", "learned")):
            post = ps.OrderSPN.regular(scores, FACTORS[given.d], oracle, random_seed=seed)
            for weights in ("equal", "closed-form"):
                graphs = post.sample(DRAWS, random_seed=seed).values if weights == "closed-form" else None
                if graphs is None:
                    graphs = draw_equal(post.tree, scores, seed)
                found = judge_draws(graphs, scores, problem)
                rows.append({"seed": seed, "method": f"{splits} splits, {weights} weights"} | found)
        graphs, _ = by_chain(PartitionChain, scores, seed, 2)
        rows.append({"seed": seed, "method": "partition MCMC"} | judge_draws(graphs[::10], scores, problem))
        keep(rows, given)
    return rows


def judge_draws(graphs, scores, problem):
    off = ~np.eye(len(problem.graph), dtype=bool)
    effects = mean_effects(graphs, scores.gaussian.matrices[0])
    return {
        "e_shd": float(expected_shd(graphs, problem.graph)),
        "mll": float(Held(problem.test).mean(graphs)),
        "auroc": float(auroc(graphs.mean(axis=0)[off], problem.graph[off])),
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


# ---- tables and figures
def table(rows, columns):
    names = list(dict.fromkeys(r["method"] for r in rows))
    lines = []
    for name in names:
        line = [name]
        for column in columns:
            values = np.array([r[column] for r in rows if r["method"] == name and column in r])
            error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
            digits = 0 if column == "mll" else 3 if "auroc" in column or "cond" in column else 2
            digits = 4 if column == "mse_ce" else digits
            line.append("–" if not values.size else f"{values.mean():,.{digits}f} ± {error:.{max(digits, 1)}f}")
        lines.append([*line, str(sum(r["method"] == name for r in rows))])
    return markdown_table(["", *columns, "seeds"], lines)


def draw_figures(rows, given):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(r["method"] for r in rows))
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.2), layout="constrained")
    for axis, (metric, (label, more)) in zip(axes, METRICS.items(), strict=True):
        axis.boxplot([[r[metric] for r in rows if r["method"] == n] for n in names], tick_labels=names)
        axis.set_title(f"{label}\n({'higher' if more else 'lower'} is better)", fontsize=10)
        axis.tick_params(axis="x", rotation=60)
    figure.suptitle(f"d = {given.d}, {len(given.seeds)} data sets of 100 rows")
    number = 4 if given.what == "ablation" else 2
    figure.savefig(Path(given.out) / f"dags_figure{number}_d{given.d}.png", dpi=110)
    if given.what == "ablation":
        return
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for mark, name in zip("os^vDXP", names, strict=False):
        means = [np.mean([r[f"support_{k}"] for r in rows if r["method"] == name]) for k in QUERY_SIZES]
        axis.plot(QUERY_SIZES, means, marker=mark, label=name, alpha=0.8)
    axis.set(
        xlabel="true edges in the query", ylabel="queries with positive probability", xscale="log", ylim=(-0.03, 1.05)
    )
    axis.set_xticks(QUERY_SIZES, [str(k) for k in QUERY_SIZES])
    axis.minorticks_off()
    axis.legend()
    axis.set_title(f"d = {given.d}, {len(given.seeds)} data sets, 20 queries each")
    figure.savefig(Path(given.out) / f"dags_figure3_d{given.d}.png", dpi=110)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("what", choices=["figures", "ablation"])
    arguments.add_argument("--d", type=int, default=16, choices=list(FACTORS))
    arguments.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    arguments.add_argument("--prefixes", type=int, default=10_000)
    arguments.add_argument("--peers")
    arguments.add_argument("--out", required=True)
    given = arguments.parse_args()
    Path(given.out).mkdir(parents=True, exist_ok=True)
    rows = (figures if given.what == "figures" else ablation)(given)
    print(machine())
    print(table(rows, list(METRICS) + (["cpu"] if given.what == "figures" else [])))
    if given.what == "figures":
        print(table(rows, [f"support_{k}" for k in QUERY_SIZES]))
        print(table(rows, [f"conditional_{k}" for k in (4, 8, 16)]))
    draw_figures(rows, given)


if __name__ == "__main__":
    main()
