"""Effective draws of the log joint a CPU second, and whether the kernels agree on its distribution.

Hyperparameters are fixed; every chain starts from k-means with its own seed and runs for the same CPU seconds, of which
the first half is discarded. Recording the log joint is never timed.

    python -m tests.benchmarks.spn_mixing DATA
"""

import arviz as az
import numpy as np

from tests.benchmarks.report import finish, markdown_table, parser, verdict
from tests.benchmarks.spn_problem import TimedChain, read_table
from tests.benchmarks.table_rules import prepare

RECORD_SECONDS = 1e-3  # of faster sweeps only every few are recorded: recording takes as long as they do
COMPARED = 500  # draws of each chain when chains of several kernels, of unequal length, are compared


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--table", default="wine")
    arguments.add_argument("--children", type=int, nargs="+", default=[2, 4, 6])
    arguments.add_argument("--budget", type=float, default=4.0, help="CPU seconds a chain")
    arguments.add_argument("--chains", type=int, default=5)
    arguments.add_argument("--leaf-scale", type=float, default=1.0)
    arguments.add_argument("--prepared", action="store_true", help="training rows under the rules of spn_tables")
    arguments.add_argument(
        "--kernels", nargs="+", default=["auto", "frontier:7", "induced_tree", "published", "bottom_up"]
    )
    options = arguments.parse_args()
    if options.prepared:
        table = prepare(options.data, options.table, 0).train
    else:
        table = read_table(options.data, options.table)
    sections, figures, demands = [], {}, []
    for n_children in options.children:
        results = {}
        for kernel in options.kernels:
            runs = [run_chain(table, n_children, kernel, seed, options) for seed in range(options.chains)]
            results[kernel] = summary(runs, options.budget)
        figures[str(n_children)] = {
            kernel: {k: v for k, v in r.items() if k != "traces"} for kernel, r in results.items()
        }
        title = f"{options.table}, C = {n_children}, {options.chains} chains of {options.budget:g} CPU seconds"
        sections.append((title, mixing_table(results)))
        sections.append(
            (f"{options.table}, C = {n_children}: R-hat of the log joint between kernels", agreement(results))
        )
        for rival, demand in (("published", 3.0), ("bottom_up", 1.0)):
            if options.table == "wine" and "auto" in results and rival in results:
                for name, key in (("all chains", "ess_per_second"), ("mean of chains", "chain_ess_per_second")):
                    ratio = results["auto"][key] / results[rival][key]
                    what = f"{options.table}, C = {n_children}: ESS/s of auto / {rival} ({name})"
                    demands.append(verdict(what, ratio, demand))
    if demands:
        sections.append(("Demands", markdown_table(["what", "demand", "measured", "verdict"], demands)))
    finish(options, sections, figures)


def run_chain(table, n_children, kernel, seed, options):
    """Times and log joints of one chain, its sweeps and the kernels that "auto" chose."""
    run = TimedChain(table, n_children, kernel, options.leaf_scale)
    run.start(seed)
    run.compile()
    run.start(seed)
    for _ in range(5):
        run.sweep()
    every = max(1, round(RECORD_SECONDS / (run.seconds / 5)))
    seconds, log_joint, chosen = [], [], set()
    while run.seconds < options.budget:
        if run.seconds > options.budget / 2:
            run.chain.settle()
        for _ in range(every):
            run.sweep()
        chosen.add(run.chain.chosen_kernel())
        seconds.append(run.seconds)
        log_joint.append(run.log_joint())
    return {
        "seconds": np.array(seconds),
        "log_joint": np.array(log_joint),
        "sweeps": run.n_sweeps,
        "moved": run.moved / run.n_sweeps,
        "chosen": chosen,
    }


def summary(runs, budget):
    """Diagnostics of one kernel's chains; the second half of the budget counts."""
    kept = [r["log_joint"][r["seconds"] > budget / 2] for r in runs]
    shortest = min(map(len, kept))
    traces = np.array([k[-shortest:] for k in kept])
    sampled = budget / 2 * len(runs)
    chain_ess = float(np.mean([az.ess(k[None]) for k in kept]))
    return {
        "traces": kept,
        "ms": 1e3 * budget / np.mean([r["sweeps"] for r in runs]),
        "moved": float(np.mean([r["moved"] for r in runs])),
        "draws": shortest,
        "ess_per_second": float(az.ess(traces)) / sampled,
        "chain_ess_per_second": chain_ess / (budget / 2),
        "rhat": float(az.rhat(traces)),
        "mean": float(np.mean([k.mean() for k in kept])),
        "chain_means": [float(k.mean()) for k in kept],
        "chosen": sorted(set.union(*(r["chosen"] for r in runs))),
    }


def mixing_table(results):
    header = ["kernel", "ms/sweep", "moved", "draws a chain", "ESS/s, all chains", "ESS/s, mean of chains", "R-hat"]
    header += ["mean log joint", "lowest chain", "highest chain"]
    rows = []
    for kernel, r in results.items():
        label = f"{kernel} ({', '.join(r['chosen'])})" if kernel == "auto" else kernel
        means = r["chain_means"]
        rows.append([label, r["ms"], r["moved"], r["draws"], r["ess_per_second"], r["chain_ess_per_second"]])
        rows[-1] += [f"{r['rhat']:.3f}", r["mean"], min(means), max(means)]
    return markdown_table(header, rows)


def agreement(results):
    """R-hat over the chains of each pair of kernels together, and over all."""
    thinned = {k: np.array([thin(t) for t in r["traces"]]) for k, r in results.items()}
    names = list(results)
    rows = []
    for i, a in enumerate(names):
        pairs = [f"{between(thinned[a], thinned[b]):.3f}" for b in names[:i]]
        rows.append([a, *pairs, *["–"] * (len(names) - i)])
    rows.append(["all", f"{between(*thinned.values()):.3f}", *["–"] * (len(names) - 1)])
    return markdown_table(["chains of both", *names], rows)


def between(*chains):
    return float(az.rhat(np.concatenate(chains)))


def thin(trace):
    """As many draws of every trace, equally spaced; a shorter one repeats some."""
    return trace[np.linspace(0, len(trace) - 1, COMPARED).round().astype(int)]


if __name__ == "__main__":
    main()
