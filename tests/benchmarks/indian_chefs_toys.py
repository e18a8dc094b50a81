"""Fantasy data of nonlinear Gaussian belief networks against held-out data: Hellinger distances on three toy sets.

    python -m tests.benchmarks.indian_chefs_toys DATA --out RESULTS.jsonl [--starts 6] [--seconds 30] [--figure FILE]

For each start: a race of over-complete two-layer networks by gradient ascent on a pooled likelihood (a warm-up, no
sampling), then exact sweeps over graph, parameters and hidden units for the rest of the CPU seconds. Fantasy data come
from the sweeps after the first tenth. The distance is that of two Gaussian kernel estimates (Scott's rule, columns
standardised, a grid of 60 x 60), as a ratio to the distance of the first 2,000 rows, on which the networks are
fitted, from the last.

A line of RESULTS is one start; starts that it holds already are not run again. The starts are reported all; the median
is over all, and "selected" is the start with the best pooled score on its training rows. R-hat is over starts. The
figure shows, for each set, held-out rows beside fantasy rows of the start whose ratio is the lower median.
"""

from pathlib import Path

import numpy as np

from pymc_spn.indian_chefs.warm_up import RaceStage
from tests.benchmarks.indian_chefs_fantasy import arguments_of, distance_to, of_starts, one_start, rhat, starts_of
from tests.benchmarks.report import finish, markdown_table

LAYERS = {"ring": (10, 3), "two_moons": (10, 3), "pinwheel": (16, 4)}
RACE = {
    "ring": (RaceStage(8, 120, 700), RaceStage(3, 300, 1000), RaceStage(1, 1000, 2000)),
    "two_moons": (RaceStage(8, 120, 700), RaceStage(3, 300, 1000), RaceStage(1, 1000, 2000)),
    "pinwheel": (RaceStage(6, 150, 700), RaceStage(2, 400, 1500), RaceStage(1, 2400, 3000)),
}


def main():
    arguments = arguments_of(__doc__.splitlines()[0], LAYERS, 6, 30.0)
    arguments.add_argument("--max-nodes", type=int, default=40)
    arguments.add_argument("--figure", help="also draw held-out and fantasy rows to this file")
    options = arguments.parse_args()
    figures = starts_of(options, one_toy)
    if options.figure:
        draw(options, figures)
    finish(sections(figures))


def toy(options, name):
    """Rows to fit and rows to compare."""
    X = np.load(Path(options.data) / f"toy_{name}.npz")["X"]
    return X[:2000], X[-2000:]


def one_toy(options, name, seed):
    """One start on one set."""
    train, held_out = toy(options, name)
    distance = distance_to(held_out)
    rng = np.random.default_rng((seed, len(name)))
    found = one_start(rng, train, {"hellinger": distance}, LAYERS[name], RACE[name], options.seconds, options.max_nodes)
    return {"baseline": distance(train), **found}


def ratio_of(run, found):
    return found["hellinger"] / run["baseline"]


def sections(figures):
    """The table, and all starts."""
    table = []
    for name, runs in figures.items():
        ratios = np.array([ratio_of(r, r) for r in runs])
        selected = int(np.argmax([r["score_after"] for r in runs]))
        row = [name, runs[0]["baseline"], len(runs), float(np.median(ratios)), float(ratios[selected])]
        table.append([*row, *(rhat([r[key] for r in runs]) for key in ("n_nodes", "log_joint"))])
    top = ["set", "baseline", "starts", "median ratio", "selected", "R-hat K+", "R-hat log joint"]
    return [
        ("Medians over starts", markdown_table(top, table)),
        ("All starts: ratios to the baseline", of_starts(figures, ratio_of)),
    ]


def draw(options, figures):
    """Held-out rows above fantasy rows, one column a set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(figures), figsize=(3.2 * len(figures), 6.4), squeeze=False, layout="constrained")
    for column, (name, runs) in enumerate(figures.items()):
        held_out = toy(options, name)[1][:1000]
        ranked = sorted(runs, key=lambda r: r["hellinger"])
        middle = ranked[(len(ranked) - 1) // 2]
        ratio = middle["hellinger"] / middle["baseline"]
        pairs = (held_out, "held out"), (np.array(middle["fantasy"]), f"fantasy, ratio {ratio:.2f}")
        for axis, (rows, label) in zip(axes[:, column], pairs, strict=True):
            axis.plot(rows[:, 0], rows[:, 1], ".", markersize=2, color="#1f4e79", alpha=0.6)
            axis.set_title(f"{name.replace('_', ' ')}: {label}", fontsize=9)
            axis.tick_params(labelsize=7)
            axis.set_aspect("equal")
        mixed = ", ".join(
            f"{k} {rhat([r[n] for r in runs]):.2f}" for k, n in (("K+", "n_nodes"), ("log joint", "log_joint"))
        )
        axes[1, column].set_xlabel(f"R-hat over {len(runs)} starts: {mixed}", fontsize=7)
        limits = [
            [min(getattr(a, f"get_{z}lim")()[0] for a in axes[:, column]) for z in "xy"],
            [max(getattr(a, f"get_{z}lim")()[1] for a in axes[:, column]) for z in "xy"],
        ]
        for axis in axes[:, column]:
            axis.set(xlim=(limits[0][0], limits[1][0]), ylim=(limits[0][1], limits[1][1]))
    figure.savefig(options.figure, dpi=110)


if __name__ == "__main__":
    main()
