"""The real sets of table 1 of the Indian chefs paper: Hellinger distances under the process.

    python -m tests.benchmarks.indian_chefs_table DATA --out RESULTS.jsonl [--starts 3] [--seconds 15]

Each set is split at random into halves (at most 2,000 rows each), one to fit and one to compare. A start is a warm-up
and exact sweeps as in `indian_chefs_toys`, under the Indian chefs process
(all hyperparameters 1). Columns stand as they are in the files, codes and counts as numbers.

Distances are between Gaussian kernel estimates by Scott's rule, columns standardised, of all columns jointly: on a grid
for two columns, by Monte Carlo over the mean of both estimates for more. The baseline is the distance of the fitted
half from the other. Fantasy rows come in sets as large as the fitted half, so that all estimates have like bandwidths;
distances are means over sets of at least 2,000 rows in all.

A line of RESULTS is one start; starts that it holds already are not run again.
"""

from pathlib import Path

import numpy as np
from scipy.stats import gaussian_kde

from pymc_spn.indian_chefs.warm_up import RaceStage
from tests.benchmarks.indian_chefs_fantasy import arguments_of, distance_to, of_starts, one_start, rhat, starts_of
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
    options = arguments_of(__doc__.splitlines()[0], FILES, 3, 15.0).parse_args()
    finish(sections(starts_of(options, one_row)))


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


def in_sets_of(size, distance):
    """A distance of fantasy rows as the mean over sets of that many rows."""
    return lambda rows: float(np.mean([distance(rows[j : j + size]) for j in range(0, len(rows) - size + 1, size)]))


def one_row(options, name, seed):
    """One start on one set."""
    train, held_out = halves(options, name)
    d = train.shape[1]
    bare = joint_distance(held_out)
    rng = np.random.default_rng((seed, 0, *name.encode()))
    distances = {"joint": in_sets_of(len(train), bare)}
    return {"baseline": bare(train), **one_start(rng, train, distances, LAYERS[name], RACE, options.seconds, d + 30)}


def ratio_of(run, found):
    return found["joint"] / run["baseline"]


def sections(figures):
    """The table, and all starts."""
    table = []
    for name, runs in figures.items():
        base, (paper, paper_base) = runs[0]["baseline"], PAPER[name]
        median = float(np.median([r["joint"] for r in runs]))
        row = [f"{name} ({len(runs[0]['fantasy'][0])})", median, base, median / base, paper, paper_base]
        table.append([*row, paper / paper_base, *(rhat([r[key] for r in runs]) for key in ("n_nodes", "log_joint"))])
    top = ["set", "distance", "baseline", "ratio", "paper", "paper's baseline", "paper's ratio"]
    return [
        ("Table 1, medians over starts", markdown_table([*top, "R-hat K+", "R-hat log joint"], table)),
        ("All starts: ratios to the baseline", of_starts(figures, ratio_of)),
    ]


if __name__ == "__main__":
    main()
