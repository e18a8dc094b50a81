"""The spiral of Yokoi and Sato (2024), Figure 3 (right): what a network of each width makes of two dependent columns.

    python -m tests.benchmarks.spn_spiral docs/images/spn_spiral.png --seconds 4

Two columns, so each child of the root is a product of two mixtures of as many Gaussian leaves: a sum of soft
rectangles. Default kernel, all hyperparameters learned, k-means start; the density is that of the posterior
predictive, averaged over the states of the second half. The held-out density is that of as many new points.
"""

import argparse

import matplotlib
import numpy as np
import pandas as pd

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.tables import Table
from tests.benchmarks.report import markdown_table
from tests.benchmarks.table_runs import TimedRun, averaged

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import PowerNorm

WIDTHS = (2, 4, 8, 16, "infinite")
TURNS, NOISE = 2.0, 0.08
REACH = 2.6  # half the width of the picture
AVERAGED = 20  # states


def spiral(n, seed):
    """Points (n, 2) around an Archimedean spiral, uniform along its length, with Gaussian noise."""
    rng = np.random.default_rng(seed)
    angle = 2.0 * np.pi * TURNS * np.sqrt(rng.random(n))  # length grows with the square of the angle
    radius = 2.0 * angle / (2.0 * np.pi * TURNS)
    points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return points + NOISE * rng.standard_normal(points.shape)


def as_table(points):
    return Table.from_frame(pd.DataFrame(points, columns=["x", "y"]), kinds={"x": "real", "y": "real"})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("figure", help="file of the picture")
    arguments.add_argument("--rows", type=int, default=1000)
    arguments.add_argument("--seconds", type=float, default=4.0, help="CPU seconds a width")
    arguments.add_argument("--grid", type=int, default=120, help="points along each axis of the picture")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    train, test = as_table(spiral(options.rows, options.seed)), as_table(spiral(options.rows, options.seed + 1))
    axis = np.linspace(-REACH, REACH, options.grid)
    mesh = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    figure, panels = plt.subplots(2, 3, figsize=(9.6, 6.6), sharex=True, sharey=True, layout="constrained")
    panels = panels.ravel()
    panels[0].plot(*train.values.T, ".", markersize=1.5, color="black")
    panels[0].set_title(f"{options.rows:,} points")
    rows, drawings = [], []
    for panel, width in zip(panels[1:], WIDTHS, strict=True):
        run = TimedRun(train, complete_tree(train.columns, n_children=width), "exact", learned=True)
        states, _ = run.run(options.seed, options.seconds)
        states = [s for s in states if s[0] > 0.5 * options.seconds][-AVERAGED:] or states[-1:]
        held_out, drawn = run.densities(states, (test, as_table(mesh)))
        density = np.exp(drawn).mean(axis=0).reshape(options.grid, options.grid)
        drawings.append((panel, density))
        label = "infinite" if width == "infinite" else f"C = {width}"
        panel.set_title(f"{label}: {averaged(held_out):.2f} nats a held-out row", fontsize=10)
        _, nodes, _, leaves = run.statistics()
        rows.append([str(width), averaged(held_out), 1e3 * run.seconds / run.n_sweeps, run.n_sweeps])
        rows[-1] += [int(nodes), int(leaves), float(density.sum() * (axis[1] - axis[0]) ** 2)]
    highest = max(np.quantile(density, 0.999) for _, density in drawings)  # one scale for all, without single peaks
    for panel, density in drawings:
        image = panel.imshow(
            density, origin="lower", extent=(-REACH, REACH, -REACH, REACH), cmap="magma_r",
            norm=PowerNorm(0.5, 0.0, highest),
        )  # fmt: skip
    figure.colorbar(image, ax=panels.tolist(), label="predictive density", shrink=0.8, extend="max")
    figure.supxlabel("x", fontsize=10)
    figure.supylabel("y", fontsize=10)
    for panel in panels:
        panel.set_aspect("equal")
    figure.savefig(options.figure, dpi=110)
    header = ["children", "held-out, nats a row", "ms/sweep", "sweeps", "occupied nodes", "occupied leaves"]
    print(markdown_table([*header, "mass within the picture"], rows))


if __name__ == "__main__":
    main()
