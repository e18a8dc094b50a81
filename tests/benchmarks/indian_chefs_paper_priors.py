"""The real sets of table 1 of the Indian chefs paper under its hyperpriors, through `pm.sample`.

    python -m tests.benchmarks.indian_chefs_paper_priors DATA --out RESULTS.jsonl [--sets geyser iris] [--chains 3]

gamma, 1/alpha and phi are Gamma(0.5, 0.5), owned by the graph; precisions Gamma(0.5, 0.5), weights, biases N(0, 1).
Halves, distances, warm-up and room are those of `indian_chefs_table`; chains have the draws of `RUNS`, so results do
not depend on the machine. A line of RESULTS is one set; sets that it holds already are not run again.
"""

import argparse
import time
import warnings
from dataclasses import astuple

import numpy as np
import pymc as pm

import pymc_spn as ps
from tests.benchmarks.indian_chefs_fantasy import keep, resume
from tests.benchmarks.indian_chefs_table import (
    FILES,
    LAYERS,
    PAPER,
    RACE,
    halves,
    in_sets_of,
    joint_distance,
)
from tests.benchmarks.report import QUIET, finish, markdown_table

RUNS = {  # tuning draws, draws, sweeps for each
    "geyser": (200, 600, 4),
    "iris": (200, 600, 4),
    "yeast": (60, 160, 4),
    "abalone": (40, 80, 4),
    "cloud": (60, 160, 4),
    "wine": (40, 80, 4),
}
FANTASY = 2000


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds geyser.npz and the others")
    arguments.add_argument("--out", required=True, help="file of JSON lines, continued if it is there")
    arguments.add_argument("--chains", type=int, default=3)
    arguments.add_argument("--sets", nargs="+", default=list(FILES), choices=list(FILES))
    options = arguments.parse_args()
    done = {d["key"]: d for d in resume(options.out)}
    for name in options.sets:
        if name not in done:
            done[name] = {"key": name, **one_set(options, name)}
            keep(options.out, done[name])
    figures = {name: done[name] for name in FILES if name in done}
    finish([("Table 1 under the paper's hyperpriors", table(figures))])


def one_set(options, name):
    """One run of `pm.sample`, and what came of it."""
    train, held_out = halves(options, name)
    d = train.shape[1]
    tune, draws, sweeps = RUNS[name]
    bare = joint_distance(held_out)
    begin = time.process_time()
    with pm.Model():
        g = ps.IndianChefsProcess(
            "g",
            alpha=pm.InverseGamma.dist(0.5, 0.5),
            gamma=pm.Gamma.dist(0.5, 0.5),
            phi=pm.Gamma.dist(0.5, 0.5),
            observed_nodes=d,
            max_nodes=d + 30,
        )
        ps.NLGBN("data", g, observed=train, scaling=ps.indian_chefs.UnitScaling.from_data(train))
        step = ps.steps.NLGBNStep(
            start="warm_up", hidden_layers=LAYERS[name], race=[astuple(stage) for stage in RACE], sweeps=sweeps
        )
        idata = pm.sample(draws, tune=tune, chains=options.chains, random_seed=1, step=[step], **QUIET)
    seconds = time.process_time() - begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of R-hat and of refused births, which the table shows
        post = ps.NLGBNPosterior.from_idata(idata)
    rows = post.sample(FANTASY, random_seed=1).to_numpy()
    numbers = {"nodes": lambda post: post.graphs.n_nodes()}
    found = post.diagnose(numbers)
    hyperparameters = {k: np.median(v).item() for k, v in post.graphs.hyperparameters.items()}
    return {
        "seconds": seconds,
        "joint": in_sets_of(len(train), bare)(rows),
        "baseline": bare(train),
        "columns": d,
        "nodes": found.loc["nodes", "mean"],
        "hyperparameters": hyperparameters,
        "r_hat": {k: found.loc[k, "r_hat"] for k in ("nodes", "log_joint", "log density of the data")},
    }


def table(figures):
    """A line for each set."""
    header = ["set", "distance", "baseline", "ratio", "paper's ratio", "K+", "alpha", "gamma"]
    header += ["R-hat K+", "R-hat log joint", "R-hat log density", "CPU s"]
    lines = []
    for name, d in figures.items():
        numbers = [d["hyperparameters"][k] for k in ("alpha", "gamma")]
        r_hat = [d["r_hat"][k] for k in ("nodes", "log_joint", "log density of the data")]
        ratios = [d["joint"] / d["baseline"], PAPER[name][0] / PAPER[name][1]]
        lines.append([f"{name} ({d['columns']})", d["joint"], d["baseline"], *ratios, d["nodes"], *numbers])
        lines[-1] += [*r_hat, d["seconds"]]
    return markdown_table(header, lines)


if __name__ == "__main__":
    main()
