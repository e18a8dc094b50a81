"""Are edge probabilities calibrated under each prior over graphs? What do told interventions and imputed tables gain?

Linear Gaussian networks of ten variables: Erdős-Rényi graphs with 1, 2 and 3 expected edges a variable, weights of
0.3 to 1 either way, noise of variance one, columns in units of their standard deviations. An edge that is stated above
.8 should be in the true graph as often as stated.

Directions inside an equivalence class cannot be learned, so joined pairs, whichever the direction, are judged too.

    python -m tests.benchmarks.dags_priors calibration interventions gaps
"""

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd

import pymc_spn as ps
from tests.benchmarks.dags_problem import area, log_loss
from tests.benchmarks.report import machine, markdown_table

D, SETS = 10, 20
SURE = 0.8  # edges that are stated above this are counted
LEAST = 1e-6  # of a probability, in log losses


@dataclass(frozen=True)
class Simulated:
    """A graph (parent, child), rows, and the cells that were set."""

    graph: np.ndarray
    rows: pd.DataFrame
    is_set: np.ndarray


def simulate(edges_each, n, seed, set_share=0.0):
    """Rows of a random network; in a share of them one variable is set to a standard normal value."""
    rng = np.random.default_rng([edges_each, n, seed])
    graph = np.triu(rng.random((D, D)) < 2 * edges_each / (D - 1), 1)
    weights = np.where(graph, rng.uniform(0.3, 1.0, (D, D)) * rng.choice([-1.0, 1.0], (D, D)), 0.0)
    order = rng.permutation(D)
    is_set = np.zeros((n, D), bool)
    is_set[np.arange(n), rng.integers(D, size=n)] = rng.random(n) < set_share
    x = rng.normal(size=(n, D))
    for i in range(D):  # in the order of the graph, before the columns are shuffled
        x[:, i] += np.where(is_set[:, i], 0.0, x @ weights[:, i])
    graph, x, is_set = graph[order][:, order], x[:, order], is_set[:, order]
    return Simulated(graph, pd.DataFrame((x - x.mean(axis=0)) / x.std(axis=0), columns=list("abcdefghij")), is_set)


def edges_of(problem, prior="fair", scale=None, **knowledge):
    """(parent, child) probabilities, and the prior's name."""
    post = ps.DagPosterior.from_data(problem.rows, ps.BGe(prior_scale=scale), prior, progressbar=False, **knowledge)
    return post.edge_probabilities().values, post.scores.prior


def share(there, sure):
    """Share of what is stated above .8 that is there, of (sets, edges); its standard error is from the data sets."""
    mean = there[sure].mean()
    error = np.sqrt(np.square((sure * (there - mean)).sum(axis=1)).sum()) / sure.sum()
    return f"{mean:.2f} ± {error:.2f}"


def calibration():
    """Rows by number of edges, rows and prior: what is stated above .8 against what is there, and log losses."""
    off, upper = ~np.eye(D, dtype=bool), np.triu(np.ones((D, D), bool), 1)
    lines = []
    for edges_each in (1, 2, 3):
        for n in (100, 1000):
            problems = [simulate(edges_each, n, seed) for seed in range(SETS)]
            for prior, scale in (("fair", None), ("uniform", None), ("learned", None), ("learned", 1.0)):
                found = [edges_of(problem, prior, scale) for problem in problems]
                p = np.array([edges for edges, _ in found])
                truth = np.array([problem.graph for problem in problems])
                edges, there = p[:, off], truth[:, off]
                pairs = np.minimum(p + p.swapaxes(1, 2), 1.0)[:, upper]
                joined = (truth | truth.swapaxes(1, 2))[:, upper]
                learned = ""
                if prior == "learned":
                    low, high = np.percentile([float(name.split()[2].strip(",")) for _, name in found], [10, 90])
                    learned = f"{low:.1f} to {high:.1f}"
                line = [edges_each, f"{n:,}", prior if scale is None else f"{prior}, prior_scale={scale:g}"]
                for stated, true in ((edges, there), (pairs, joined)):
                    sure = stated > SURE
                    line += [int(sure.sum()), f"{stated[sure].mean():.2f}", share(true, sure)]
                    line += [f"{log_loss(stated, true, LEAST):.3f}"]
                lines.append([*line, learned])
    head = ["edges a variable", "rows", "prior", "edges above .8", "stated", "there", "log loss"]
    print(markdown_table([*head, "pairs above .8", "stated", "there", "log loss", "penalty"], lines))


def interventions():
    """Area under the ROC curve and log loss of edges: untold, and told which cells were set."""
    off, lines = ~np.eye(D, dtype=bool), []
    for n in (200, 1000):
        for told in (False, True):
            areas, losses = [], []
            for seed in range(SETS):
                problem = simulate(2, n, seed, set_share=0.5)
                edges, _ = edges_of(problem, interventions=problem.is_set if told else None)
                areas.append(area(edges[off], problem.graph[off]))
                losses.append(log_loss(edges[off], problem.graph[off], LEAST))
            spread = np.std(areas, ddof=1) / np.sqrt(SETS)
            line = [f"{n:,}", "yes" if told else "no", f"{np.mean(areas):.3f} ± {spread:.3f}", f"{np.mean(losses):.3f}"]
            lines.append(line)
    print(markdown_table(["rows", "told", "AUROC of edges", "log loss"], lines))


def gaps():
    """Cells missing at random: complete rows, tables imputed by a fitted network, and nothing missing."""
    off, lines = ~np.eye(D, dtype=bool), []
    for edges_each, n, missing in ((1, 500, 0.1), (2, 300, 0.2)):
        found = {name: [] for name in ("complete rows", "one imputed table", "20 imputed tables", "no cell missing")}
        for seed in range(SETS // 2):
            problem = simulate(edges_each, n, seed)
            df = problem.rows.mask(np.random.default_rng(seed).random(problem.rows.shape) < missing)
            tables = ps.fit_variational(df, random_seed=seed, progressbar=False).impute(df, n=20, random_seed=seed)
            post = ps.dags.ImputedDagPosterior.from_data(df, tables, progressbar=False)
            edges = (
                ps.DagPosterior.from_data(df.dropna(), progressbar=False).edge_probabilities(),
                post.posteriors[0].edge_probabilities(),
                post.edge_probabilities(),
                edges_of(problem)[0],
            )
            truth = problem.graph[off]
            for own, values in zip(found.values(), edges, strict=True):
                p = np.asarray(values)[off]
                own.append((area(p, truth), log_loss(p, truth, LEAST), (p > SURE).sum(), truth[p > SURE].sum()))
        for name, own in found.items():
            areas, losses, sure, there = np.array(own).T
            error = areas.std(ddof=1) / np.sqrt(areas.size)
            line = [edges_each, n, f"{missing:.0%}", name, f"{areas.mean():.3f} ± {error:.3f}", f"{losses.mean():.3f}"]
            lines.append([*line, int(sure.sum()), f"{there.sum() / sure.sum():.2f}"])
    head = ["edges a variable", "rows", "missing", "posterior", "AUROC of edges", "log loss", "edges above .8", "there"]
    print(markdown_table(head, lines))


if __name__ == "__main__":
    parts = {"calibration": calibration, "interventions": interventions, "gaps": gaps}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=list(parts))
    print(machine())
    for part in parser.parse_args().parts:
        parts[part]()
