"""Graphs from peers on the problems of `dags_paper`, each run in an environment of its own.

    python dags_peers.py sumu OUT --d 16 --seeds 0 1 2     # pip install sumu
    python dags_peers.py dibs OUT --d 16 --seeds 0         # pip install dibs-lib

Writes ``OUT/<peer>_<d>_<seed>.npz`` with graphs (n, d, d), parents by children, and CPU and wall seconds; what is there
already is not run again. sumu runs with the paper's settings for GADGET (16 coupled chains, 320,000 iterations, 10,000
graphs); DiBS with 30 particles and 3000 steps. Needs NumPy and the peer only.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from dags_problem import simulated


def with_sumu(problem, seed):
    import sumu

    np.random.seed(seed)  # noqa: NPY002  sumu draws from the global generator
    d = problem.graph.shape[0]
    k = min(d - 2, 16)
    gadget = sumu.Gadget(
        data=sumu.Data(problem.train, discrete=False),
        scoref="bge",
        ess=10,
        max_id=-1,
        K=k,
        d=3,
        cp_algo="greedy-lite",
        mc3_chains=16,
        burn_in=160_000,
        iterations=160_000,
        thinning=16,
        tolerance=2**-32,
    )
    drawn = gadget.sample()
    dags = drawn[0] if isinstance(drawn, tuple) else drawn
    graphs = np.zeros((len(dags), d, d), bool)
    for s, dag in enumerate(dags):
        for family in dag:
            child, parents = family[0], family[1] if len(family) > 1 else ()
            for parent in parents:
                graphs[s, parent, child] = True
    return graphs


def with_dibs(problem, seed):
    from dibs.inference import MarginalDiBS
    from dibs.models import BGe, ErdosReniDAGDistribution
    from jax import random

    d = problem.graph.shape[0]
    x = problem.train - problem.train.mean(axis=0)
    model = MarginalDiBS(
        x=x.astype(np.float32), graph_model=ErdosReniDAGDistribution(n_vars=d), likelihood_model=BGe(n_vars=d)
    )
    graphs = np.asarray(model.sample(key=random.PRNGKey(seed), n_particles=30, steps=3000)).astype(bool)
    acyclic = [not np.linalg.matrix_power(g.astype(float) + np.eye(d), d).trace() > d for g in graphs]
    return graphs[acyclic]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("peer", choices=["sumu", "dibs"])
    arguments.add_argument("out")
    arguments.add_argument("--d", type=int, default=16)
    arguments.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    given = arguments.parse_args()
    folder = Path(given.out)
    folder.mkdir(parents=True, exist_ok=True)
    run = {"sumu": with_sumu, "dibs": with_dibs}[given.peer]
    for seed in given.seeds:
        path = folder / f"{given.peer}_{given.d}_{seed}.npz"
        if path.exists():
            continue
        problem = simulated(given.d, seed)
        wall, cpu = time.perf_counter(), time.process_time()
        graphs = run(problem, seed)
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        part = path.with_suffix(".part.npz")  # renamed when whole: an interruption leaves no half of a file behind
        np.savez(part, graphs=graphs, **spent)
        part.rename(path)
        print(given.peer, given.d, seed, graphs.shape, {k: round(v, 1) for k, v in spent.items()}, flush=True)


if __name__ == "__main__":
    main()
