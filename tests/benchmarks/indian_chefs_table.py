"""The real sets of table 1 of the Indian chefs paper: Hellinger distances under the process.

    python -m tests.benchmarks.indian_chefs_table DATA --out RESULTS.jsonl [--starts 3] [--seconds 15]

Each set is split at random into halves (at most 2,000 rows each), one to fit and one to compare. A start is a warm-up
and exact sweeps as in `indian_chefs_toys`, under the Indian chefs process
(all hyperparameters 1). Columns stand as they are in the files, codes and counts as numbers.

Distances are between Gaussian kernel estimates by Scott's rule, columns standardised: of all columns jointly (on a grid
for two columns, by Monte Carlo over the mean of both estimates for more), and of single columns, averaged. The baseline
is the distance of the fitted half from the other. Fantasy rows come in sets as large as the fitted half, so that all
estimates have like bandwidths; distances are means over sets of at least 2,000 rows in all.

A line of RESULTS is one start; starts that it holds already are not run again.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import gaussian_kde

from pymc_spn.indian_chefs.warm_up import RaceStage
from tests.benchmarks.indian_chefs_fantasy import compile_kernels, distance_to, keep, one_start, resume, rhat
from tests.benchmarks.report import finish, markdown_table

FILES = {
    "geyser": "geyser",
    "iris": "iris",
    "yeast": "yeast",
    "abalone": "abalone",
    "cloud": "cloud",
    "wine": "wine_quality_white",
}
LAYERS = {"geyser": (10, 3), "iris": (10, 3), "yeast": (14, 4), "abalone": (14, 4), "cloud": (14, 4), "wine": (14, 4)}
RACE = (RaceStage(6, 80, 400), RaceStage(2, 150, 1000), RaceStage(1, 400, 1500))
PAPER = {  # distance, baseline
    "geyser": (0.0734, 0.0234),
    "iris": (0.2666, 0.1930),
    "yeast": (0.3817, 0.3059),
    "abalone": (0.1379, 0.1079),
    "cloud": (0.1495, 0.1299),
    "wine": (0.3629, 0.3387),
}
MOST_ROWS, SAMPLE = 2000, 2000


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds geyser.npz and the others")
    arguments.add_argument("--out", required=True, help="file of JSON lines, continued if it is there")
    arguments.add_argument("--json", help="also write all figures to this file")
    arguments.add_argument("--starts", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=15.0, help="CPU seconds of a start, warm-up included")
    arguments.add_argument("--sets", nargs="+", default=list(FILES), choices=list(FILES))
    options = arguments.parse_args()
    done = resume(options.out)
    tasks = [[name, seed, options.seconds] for seed in range(options.starts) for name in options.sets]
    left = [key for key in tasks if not any(d["key"] == key for d in done)]
    if left:
        compile_kernels()
    for key in left:
        done.append({"key": key, **one_row(options, *key[:2])})
        keep(options.out, done[-1])
    figures = {}
    for d in done:
        if d["key"] in tasks:
            figures.setdefault(d["key"][0], []).append(d)
    hidden = ("fantasy", "n_nodes", "log_joint")
    bare = {name: [{k: v for k, v in r.items() if k not in hidden} for r in runs] for name, runs in figures.items()}
    finish(options, sections(figures), bare)


def halves(options, name):
    """Rows to fit and rows to compare."""
    X = np.load(Path(options.data) / f"{FILES[name]}.npz")["X"].astype(float)
    order = np.random.default_rng(0).permutation(len(X))
    half = min(len(X) // 2, MOST_ROWS)
    return X[order[:half]], X[order[half : 2 * half]]


def joint_distance(held_out):
    """Hellinger distance of kernel estimates of all columns."""
    if held_out.shape[1] == 2:
        return distance_to(held_out)
    centre, scale = held_out.mean(0), held_out.std(0)
    reference = gaussian_kde(((held_out - centre) / scale).T)

    def distance(sample):
        kde = gaussian_kde(((sample - centre) / scale).T)
        rng = np.random.default_rng(0)
        points = np.hstack([k.resample(SAMPLE, rng) for k in (kde, reference)])
        # sqrt(p q) over the mean of p and q
        affinity = 1.0 / np.cosh(0.5 * np.clip(kde.logpdf(points) - reference.logpdf(points), -600.0, 600.0))
        return float(np.sqrt(max(0.0, 1.0 - affinity.mean())))

    return distance


def marginal_distance(held_out):
    """Mean over the columns of the Hellinger distance of one column's kernel estimates."""
    centre, scale = held_out.mean(0), held_out.std(0)
    z = (held_out - centre) / scale

    def masses(column, points):
        p = gaussian_kde(column)(points)
        return p / p.sum()

    def distance(sample):
        y = (sample - centre) / scale
        out = 0.0
        for d in range(z.shape[1]):
            points = np.linspace(min(z[:, d].min(), y[:, d].min()) - 1.0, max(z[:, d].max(), y[:, d].max()) + 1.0, 400)
            affinity = np.sqrt(masses(y[:, d], points) * masses(z[:, d], points)).sum()
            out += np.sqrt(max(0.0, 1.0 - affinity))
        return float(out / z.shape[1])

    return distance


def in_sets_of(size, distance):
    """A distance of fantasy rows as the mean over sets of that many rows."""
    return lambda rows: float(np.mean([distance(rows[j : j + size]) for j in range(0, len(rows) - size + 1, size)]))


def one_row(options, name, seed):
    """One start on one set."""
    train, held_out = halves(options, name)
    d = train.shape[1]
    bare = {"joint": joint_distance(held_out), "marginal": marginal_distance(held_out)}
    distances = {k: in_sets_of(len(train), distance) for k, distance in bare.items()}
    rng = np.random.default_rng((seed, 0, *name.encode()))
    found = one_start(rng, train, distances, LAYERS[name], RACE, options.seconds, d + 30)
    return {"baselines": {k: distance(train) for k, distance in bare.items()}, **found}


def sections(figures):
    """The table, and all starts."""
    table, starts = [], []
    for name, runs in figures.items():
        base, (paper, paper_base) = runs[0]["baselines"], PAPER[name]
        median = float(np.median([r["joint"] for r in runs]))
        table.append(
            [
                f"{name} ({len(runs[0]['fantasy'][0])})",
                median,
                base["joint"],
                median / base["joint"],
                paper,
                paper_base,
                paper / paper_base,
                float(np.median([r["marginal"] for r in runs])) / base["marginal"],
                rhat([r["n_nodes"] for r in runs]),
                rhat([r["log_joint"] for r in runs]),
            ]
        )
        for r in runs:
            starts.append(
                [
                    name,
                    r["key"][1],
                    r["after_warm_up"]["joint"] / base["joint"],
                    r["joint"] / base["joint"],
                    r["marginal"] / base["marginal"],
                    r["warm_up_seconds"],
                    r["sweeps"],
                    f"{r['n_nodes'][0]} to {r['n_nodes'][-1]}",
                    r["n_edges"],
                ]
            )
    top = ["set", "distance", "baseline", "ratio", "paper", "paper's baseline", "paper's ratio"]
    header = ["set", "start", "after warm-up", "ratio", "ratio of columns", "warm-up s", "sweeps", "K+", "edges"]
    return [
        (
            "Table 1, medians over starts",
            markdown_table([*top, "ratio of columns", "R-hat K+", "R-hat log joint"], table),
        ),
        ("All starts: ratios to the baseline", markdown_table(header, starts)),
    ]


if __name__ == "__main__":
    main()
