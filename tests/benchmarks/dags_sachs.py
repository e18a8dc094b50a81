"""Protein signalling (Sachs et al. 2005, doi:10.1126/science.1105809): which arrows do cells show?

The notebook's steps on real data: score, exact posterior, edge heat map, equivalence class, evidence, interventions,
causal effects, both targets. The files hold the observational cells (sachs.npz) and all nine conditions
(sachs_full.npz), with the consensus network of the literature, against which direction is judged.

    python -m tests.benchmarks.dags_sachs DATA --figures FOLDER
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import pymc_spn as ps
from pymc_spn.plots.edge_plots import plot_edge_probabilities, plot_graph
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


def area_under_curve(p, truth):
    """Probability that a true edge ranks above one that is not, off the diagonal."""
    off = ~np.eye(len(truth), dtype=bool)
    yes, no = p[off & truth], p[off & ~truth]
    return float(((yes[:, None] > no) + 0.5 * (yes[:, None] == no)).mean())


def judged(name, post, truth):
    p = post.edge_probabilities().values
    either = p + p.T
    pairs = truth | truth.T
    right = (p[truth] / either[truth]).mean()
    skeleton = area_under_curve(either, pairs)
    return [name, area_under_curve(p, truth), skeleton, float(right), float(p.sum())]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", type=Path, help="folder that holds sachs.npz and sachs_full.npz")
    arguments.add_argument("--figures", type=Path, help="write the figures to this folder")
    chosen = arguments.parse_args()
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

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

    told = post.condition(present=[("PKC", "PKA")])
    moved = (told.edge_probabilities() - post.edge_probabilities()).stack(edge=("parent", "child"))
    moved = moved[np.argsort(-np.abs(moved.values))][:5]
    print("Told that PKC -> PKA, what moves most (853 cells):\n")
    before, after = post.edge_probabilities(), told.edge_probabilities()
    print(
        markdown_table(
            ["edge", "before", "after"],
            [
                [f"{a} -> {b}", float(before.sel(parent=a, child=b)), float(after.sel(parent=a, child=b))]
                for a, b in moved.edge.values
            ],
        )
    )
    mean = post.causal_effects()
    draws = post.sample_effects(2_000, random_seed=0)
    table = []
    for cause, effect in (("Raf", "Mek"), ("Erk", "Akt"), ("PKC", "P38"), ("PKA", "Raf")):
        low, high = np.quantile(draws.sel(cause=cause, effect=effect), [0.05, 0.95])
        table.append([f"{cause} on {effect}", float(mean.sel(cause=cause, effect=effect)), float(low), float(high)])
    print("Total effects, standard deviations of the log per standard deviation (853 cells):\n")
    print(markdown_table(["effect", "mean, exact", "5 %", "95 %"], table))
    once = post.structure_modular(2_000, random_seed=0)
    difference = float(np.abs(once.edge_probability - post.edge_probabilities()).max())
    print(
        f"Each graph once: effective draws {once.attrs['draws_after_weighting']:.0f} of 2,000, largest difference of "
        f"an edge {difference:.2f}.\n"
    )
    if chosen.figures:
        chosen.figures.mkdir(parents=True, exist_ok=True)
        figure, axes = plt.subplots(1, 2, figsize=(14, 5.5), gridspec_kw={"width_ratios": [1.25, 1]})
        title = "7,466 cells, interventions told (consensus framed)"
        plot_edge_probabilities(seeing.edge_probabilities(), axes[0], truth=known, title=title)
        classes = seeing.equivalence_classes(1_000, random_seed=0)
        likely = ps.CPDAG(known.names, classes.cpdag.values[0])
        plot_graph(likely, axes[1], title=f"Most frequent class, {float(classes.probability[0]):.0%} of draws")
        figure.tight_layout()
        figure.savefig(chosen.figures / "sachs.png", dpi=90)
