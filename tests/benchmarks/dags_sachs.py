"""Protein signalling (Sachs et al. 2005, doi:10.1126/science.1105809): which arrows do cells show?

The files hold the observational cells (sachs.npz) and all nine conditions (sachs_full.npz), with the consensus network
of the literature, against which direction is judged.

    python -m tests.benchmarks.dags_sachs DATA
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_spn as ps
from tests.benchmarks.dags_problem import area
from tests.benchmarks.report import machine, markdown_table

# What each reagent acts on; the others are general stimuli. Inhibitors change what a protein does more than how much of
# it is measured, so that treating them as settings of the protein is an approximation, made by the original paper too.
TARGETS = {
    "cd3cd28_aktinhib": "Akt",
    "cd3cd28_g0076": "PKC",
    "cd3cd28_psitect": "PIP2",
    "cd3cd28_u0126": "Mek",
    "pma": "PKC",
    "b2camp": "PKA",
}


def read(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def logs(data):
    x = np.log(data["X"])
    return pd.DataFrame((x - x.mean(axis=0)) / x.std(axis=0), columns=[str(c) for c in data["columns"]])


def thirds(data):
    """Three levels of equal size a column, as the original analysis had three levels."""
    frame = pd.DataFrame(data["X"], columns=[str(c) for c in data["columns"]])
    return frame.apply(lambda c: pd.qcut(c, 3, labels=["low", "middle", "high"]))


def judged(name, post, truth):
    p, off = post.edge_probabilities().values, ~np.eye(len(truth), dtype=bool)
    either = p + p.T
    right = (p[truth] / either[truth]).mean()
    skeleton = area(either[off], (truth | truth.T)[off])
    return [name, area(p[off], truth[off]), skeleton, float(right), float(p.sum())]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", type=Path, help="folder that holds sachs.npz and sachs_full.npz")
    chosen = arguments.parse_args()
    observed, everything = read(chosen.data / "sachs.npz"), read(chosen.data / "sachs_full.npz")
    cells = logs(observed)
    known = ps.DAG.from_edges(list(cells), [tuple(map(str, e)) for e in observed["edges"]])
    truth = known.adjacency
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(cells))

    was_set = pd.DataFrame(False, index=range(len(everything["X"])), columns=list(cells))
    for condition, protein in TARGETS.items():
        was_set.loc[everything["condition"] == condition, protein] = True
    rows = [
        judged("853 cells, BGe on logs", post, truth),
        judged("853 cells, BDeu on thirds", ps.OrderSPN.exact(ps.LocalScores.from_data(thirds(observed))), truth),
    ]
    levels = thirds(everything)
    blind = ps.OrderSPN.exact(ps.LocalScores.from_data(levels))
    seeing = ps.OrderSPN.exact(ps.LocalScores.from_data(levels, interventions=was_set))
    rows.append(judged("7,466 cells, BDeu, interventions not told", blind, truth))
    rows.append(judged("7,466 cells, BDeu, interventions told", seeing, truth))
    print(machine() + "\n")
    header = [
        "posterior",
        "AUROC of edges",
        "AUROC of connections",
        "true direction, given a connection",
        "edges expected",
    ]
    print(markdown_table(header, rows))
