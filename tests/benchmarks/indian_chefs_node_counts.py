"""Whether the number of nodes of a nonlinear Gaussian belief network moves: its moves on a toy set.

    python -m tests.benchmarks.indian_chefs_node_counts DATA --out RESULTS.jsonl [--rows 2000] [--starts 4]

Every start is warmed up once. From there chains of each kind go on for the same CPU seconds, with the same prior.
Effective draws and R-hat are of the second halves of the chains, over the starts; a
line of RESULTS is one start of one kind, and is not run again.
"""

import argparse
import time

import numpy as np

from pymc_spn.indian_chefs.graph_moves import ORPHANS, ROOTED, SPLITS, SWAPS
from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_sweep import SweepPlan, move_times, sweep_plan
from pymc_spn.indian_chefs.warm_up import race
from tests.benchmarks.indian_chefs_fantasy import (
    ICP,
    compile_kernels,
    distance_to,
    ess,
    fantasy_rows,
    keep,
    logits,
    named_counts,
    resume,
    rhat,
    size_moves,
)
from tests.benchmarks.indian_chefs_toys import LAYERS, RACE, toy
from tests.benchmarks.report import finish, markdown_table

FEW = {ORPHANS: 2, SPLITS: 2, SWAPS: 2}
KINDS = {
    "orphans and links": SweepPlan(move_times(FEW)),
    "and units with parents": SweepPlan(move_times(FEW | {ROOTED: 2})),
    "default: more of each": sweep_plan(),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds toy_ring.npz and the others")
    arguments.add_argument("--out", required=True, help="file of JSON lines, continued if it is there")
    arguments.add_argument("--json", help="also write all figures to this file")
    arguments.add_argument("--starts", type=int, default=4)
    arguments.add_argument("--seconds", type=float, default=15.0, help="CPU seconds of a chain after the warm-up")
    arguments.add_argument("--set", default="ring", choices=list(LAYERS))
    arguments.add_argument("--rows", type=int, default=2000, help="of the training rows")
    arguments.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    options = arguments.parse_args()
    done = resume(options.out)
    settings = [options.set, options.rows, options.seconds]
    tasks = [[*settings, seed, kind] for seed in range(options.starts) for kind in options.kinds]
    if any(key not in [d["key"] for d in done] for key in tasks):
        compile_kernels()
    for seed in range(options.starts):
        left = [k for k in options.kinds if not any(d["key"] == [*settings, seed, k] for d in done)]
        if left:
            train = toy(options, options.set)[0][: options.rows]
            start = race(np.random.default_rng(seed), logits(train)[1], *LAYERS[options.set], stages=RACE[options.set])
        for kind in left:
            done.append({"key": [*settings, seed, kind], **one_chain(options, seed, kind, train, start)})
            keep(options.out, done[-1])
    figures = {
        kind: [d for s in range(options.starts) for d in done if d["key"] == [*settings, s, kind]]
        for kind in options.kinds
    }
    bare = {
        k: [{x: y for x, y in r.items() if x not in ("n_nodes", "log_joint")} for r in v] for k, v in figures.items()
    }
    finish(options, sections(figures), bare)


def one_chain(options, seed, kind, train, start):
    """One chain from one start."""
    rng = np.random.default_rng((seed, list(KINDS).index(kind)))
    scaling, data = logits(train)
    whole, held_out = toy(options, options.set)
    begin = time.process_time()
    chain = NetworkChain(data, np.zeros(2), np.ones(2, bool), 40, plan=KINDS[kind])
    chain.start_from(rng, start)
    nodes, joint, nets = [chain.n_nodes], [], []
    while time.process_time() - begin < options.seconds:
        chain.sweep(rng, ICP)
        nodes.append(chain.n_nodes)
        if len(nodes) % 5 == 0:
            nets.append(chain.parameters())
            joint.append(chain.log_joint(ICP))
    distance = distance_to(held_out)
    return {
        "ratio": distance(fantasy_rows(rng, nets, scaling)) / distance(whole),
        "sweeps": len(nodes) - 1,
        "n_nodes": nodes,
        "log_joint": joint,
        "tally": named_counts(chain.tally),
    }


def sections(figures):
    """One row a kind of chain, and the accepted moves of each kind."""
    rows, moves = [], []
    for kind, runs in figures.items():
        if not runs:
            continue
        rounds, seconds = sum(r["sweeps"] for r in runs), sum(r["key"][2] for r in runs)
        changes = sum(size_moves(r)[0] for r in runs)
        nodes = [r["n_nodes"] for r in runs]
        rows.append(
            [
                kind,
                rounds / seconds,
                changes / rounds,
                ess(nodes) / (seconds / 2),
                rhat(nodes),
                rhat([r["log_joint"] for r in runs]),
                " ".join(f"{np.mean(n[len(n) // 2 :]):.1f}" for n in nodes),
                float(np.median([r["ratio"] for r in runs])),
            ]
        )
        cell = [kind]
        for name in ("orphans", "rooted", "splits"):
            a, t = (sum(r["tally"][name][column] for r in runs) for column in (1, 0))
            cell.append(f"{a:,} of {t:,}" if t else "–")
        moves.append(cell)
    header = ["chains", "sweeps/s", "changes a sweep", "ESS(K+)/s", "R-hat K+", "R-hat log joint", "mean K+ by start"]
    kinds = ["without parents", "with parents", "splits"]
    return [
        ("Movement of the number of nodes", markdown_table([*header, "median ratio"], rows)),
        ("Accepted moves", markdown_table(["chains", *kinds], moves)),
    ]


if __name__ == "__main__":
    main()
