"""Figure 4 of Yokoi and Sato (2024) made anew from the store of `spn_tables`: test density over CPU seconds, paired.

python -m tests.benchmarks.table_figure STORE IMAGE
"""

import argparse

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from tests.benchmarks.paper_tables import SETS
from tests.benchmarks.report import Store
from tests.benchmarks.spn_tables import KEY
from tests.benchmarks.table_report import RIVALS, chosen, seeds_of
from tests.benchmarks.table_runs import MOMENTS

STYLES = {  # black and colours of the Okabe-Ito palette
    "auto": ("default", "black", "o"),
    "bottom_up": ("bottom-up", "#D55E00", "s"),
    "induced_tree": ("induced tree", "#0072B2", "^"),
    "published": ("published", "#009E73", "v"),
    "variational": ("variational", "#CC79A7", "d"),
}
MARGIN = 0.6  # nats below the lowest final value down to which a panel shows


def panel(axis, runs, name):
    """Mean difference from where the default ends on the same split, with its standard error over the splits.

    Splits differ more than samplers do: their densities themselves would hide all but the largest differences.
    """
    finals = []
    own = {s: runs[name, "auto", s]["test"] for s in seeds_of(runs, name, "auto")}
    for k in ("auto", *RIVALS):
        seeds = seeds_of(runs, name, "auto", k)
        if not seeds:
            continue
        label, colour, marker = STYLES[k]
        curves = np.array([runs[name, k, s]["curve"] for s in seeds], np.float64)  # None becomes NaN
        seconds = np.array(MOMENTS) * runs[name, k, seeds[0]]["seconds"]
        curves -= np.array([own[s] for s in seeds])[:, None]
        seen = ~np.isnan(curves).any(axis=0)
        mean, error = curves[:, seen].mean(0), curves[:, seen].std(0) / np.sqrt(max(len(seeds) - 1, 1))
        axis.errorbar(seconds[seen], mean, error, label=label, color=colour, marker=marker, markersize=3.5, lw=1.0)
        finals += [mean[-1]] if seen.any() else []
    axis.set_xscale("log")
    axis.set_xticks(seconds, [f"{t:g}" for t in seconds])
    n_seeds = len(seeds_of(runs, name, "auto"))
    axis.set_title(f"{name.replace('_', ' ')} ({n_seeds} seed{'s' * (n_seeds > 1)})", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.minorticks_off()
    low, high = min(finals), max(finals)
    reach = max(MARGIN, 1.5 * (high - low))
    axis.set_ylim(max(low - reach, axis.get_ylim()[0]), high + 0.25 * reach)


def figure(store, n_children):
    """One panel for each set that has runs of the default and of another sampler."""
    runs = chosen(list(store.records.values()), str(n_children), SETS)
    names = [n for n in SETS if any(seeds_of(runs, n, "auto", k) for k in RIVALS)]
    n_rows = -(-len(names) // 4)
    fig, axes = plt.subplots(n_rows, 4, figsize=(11, 2.2 * n_rows + 0.6), squeeze=False, layout="constrained")
    for axis, name in zip(axes.flat, names, strict=False):
        panel(axis, runs, name)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    handles = {}
    for axis in axes.flat:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    fig.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), fontsize=8)
    fig.supxlabel("CPU seconds", fontsize=8)
    fig.supylabel("log density of the test rows less the default's at the end, nats a row", fontsize=8)
    return fig


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("store")
    arguments.add_argument("image")
    arguments.add_argument("--children", type=int, default=4)
    options = arguments.parse_args()
    figure(Store(options.store, KEY), options.children).savefig(options.image, dpi=110)


if __name__ == "__main__":
    main()
