"""Do chains over orders and partitions meet? Problems on which they have stuck, through `pm.sample` as it is.

R-hat is the largest of all edges (of what is known given an order where there are orders), errors are against exact
answers for the same target in standard errors, where there are any: sums over all prefixes, or independent draws of
sums over all ordered partitions. DATA holds bn_sachs.json.

    python -m tests.benchmarks.dags_mixing DATA --cases tiers sachs linear10 linear37
"""

import argparse
import json
import time
import warnings

import numpy as np
import pandas as pd
import pymc as pm

import pymc_spn as ps
from tests.benchmarks.dags_problem import discrete, simulated
from tests.benchmarks.report import machine, markdown_table

HEADER = ["problem", "variable", "R-hat", "effective draws", "largest error", "in standard errors", "CPU s"]
EXACT_DRAWS = 20_000
KNOWN = 0.005  # of an edge's probability from 0 and 1, below which its error has no say


def tiers(_):
    """60 rows of four columns of levels in two tiers, drawn from tables of few likely levels."""
    rng = np.random.default_rng(73)
    n_levels, shape = rng.integers(2, 5), rng.choice([0.05, 0.1, 0.3])
    x = np.zeros((60, 4), int)
    for j in range(4):
        of_parents, n_cells = np.zeros(60, int), 1
        for i in range(j):
            if rng.random() < 0.7:
                of_parents, n_cells = of_parents * n_levels + x[:, i], n_cells * n_levels
        table = rng.dirichlet(np.full(n_levels, shape if n_cells > 1 else 1.0), size=n_cells)
        x[:, j] = [rng.choice(n_levels, p=table[cell]) for cell in of_parents]
    frame = pd.DataFrame(x[:, rng.permutation(4)] if rng.random() >= 0.5 else x, columns=list("abcd")).astype(str)
    return ps.LocalScores.from_data(frame, score=ps.BDeu(1.0), tiers=[["a", "b"], ["c", "d"]], progressbar=False)


def sachs(folder):
    """1,000 rows of the discrete network."""
    names, states, rows, _ = discrete(folder, "sachs")
    frame = pd.DataFrame({name: np.array(states[name])[codes] for name, codes in zip(names, rows.T, strict=True)})
    return ps.LocalScores.from_data(frame, score=ps.BDeu(1.0), progressbar=False)


def linear(d, n):
    frame = pd.DataFrame(simulated(d, 0, n).train, columns=[f"v{i}" for i in range(d)])
    return ps.LocalScores.from_data(frame, max_candidates=min(d - 1, 16), progressbar=False)


CASES = {
    "tiers": tiers,
    "sachs": sachs,
    "linear10": lambda _: linear(10, 1000),
    "linear37": lambda _: linear(37, 100),
}


def exact_edges(scores, kind):
    """Edge probabilities and their standard errors, or None."""
    if scores.d > 11:
        return None
    if kind == "DagOrder":
        found = ps.DagPosterior.from_scores(scores, "exact").edge_probabilities().values
        return found, np.zeros_like(found)
    edges = ps.OrderSPN.exact(scores).structure_modular(EXACT_DRAWS, random_seed=1).edge_probability
    return edges.values, edges.attrs["mcse"]


def sampled(scores, kind, draws, **options):
    begin = time.process_time()
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(ps, kind)("dag", scores)
        if options:
            options = {"step": getattr(ps.steps, f"{kind}Step")(**options)}
        idata = pm.sample(draws, tune=draws, chains=4, cores=1, random_seed=1, progressbar=False, quiet=True, **options)
        seconds = time.process_time() - begin
        post = ps.DagDraws.from_idata(idata)
        edges = post.edge_diagnostics(*([scores] if kind == "DagOrder" else []))
    return edges, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--kinds", nargs="+", default=["DagOrder", "DagPartition"])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--options", type=json.loads, default={}, help="of the step, as JSON")
    options = parser.parse_args()
    rows = []
    for case in options.cases:
        scores = CASES[case](options.data)
        for kind in options.kinds:
            sampled(scores, kind, 2, **options.options)  # compiles
            edges, seconds = sampled(scores, kind, options.draws, **options.options)
            p, size, r_hat = (edges[name].values for name in ("probability", "ess", "r_hat"))
            counts = (p > KNOWN) & (p < 1.0 - KNOWN)
            row = [case, kind, np.nanmax(r_hat[counts], initial=1.0), np.nanmin(size[counts], initial=np.inf)]
            known = exact_edges(scores, kind)
            if known is None:
                row += [None, None]
            else:
                error = np.abs(p - known[0])
                row += [error.max(), np.nanmax((error / np.hypot(edges["mcse"].values, known[1]))[counts])]
            rows.append([*row, seconds])
            print(rows[-1], flush=True)
    print(machine())
    print(markdown_table(HEADER, rows))


if __name__ == "__main__":
    main()
