"""Squares of sums of circuits against mixtures with positive weights: held-out density for the numbers they take.

Rows on a ring and on two half moons. What is squared is a sum of products of Gaussian leaves, or a tree whose sums have
weights of either sign. Squares are fitted by the mode of their posterior density (L-BFGS, the best of several random
starts by that density), mixtures by `fit_em`; densities are those of as many rows that were not fitted, in nats a row.

    python -m tests.benchmarks.circuits_squares --figure squares.png
"""

import argparse
import time
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection
from scipy.optimize import minimize
from sklearn.datasets import make_moons

import pymc_spn as ps
from tests.benchmarks.report import machine, markdown_table

SQUARES = [(1, 2), (1, 4), (2, 4), (2, 6)]
MIXTURES = [2, 4, 8, 16, 32]
SHOWN = ["1 square of 2", "2 squares of 6", "mixture of 4"]
EM = {"leaf_prior_rows": 0.1, "max_steps": 3_000, "progressbar": False}  # of 0.01 to 1 the best prior for 8 or more
PRODUCT = ps.circuits.complete_tree(["a", "b"], n_children=1).circuit({"a": ["gaussian"], "b": ["gaussian"]})
TREE = ps.circuits.complete_tree(["a", "b"], n_children=2).circuit({"a": ["gaussian"], "b": ["gaussian"]})
NO_CHOICE = np.zeros(PRODUCT.n_sum_edges)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=500)
    arguments.add_argument("--starts", type=int, default=8)
    arguments.add_argument("--figure", help="file of a picture of the ring")
    arguments = arguments.parse_args()
    rows, drawn = [], {}
    for name, draw in {"ring": ring, "moons": moons}.items():
        fitted, held_out = (draw(arguments.rows, seed) for seed in (0, 1))
        for n_squares, n_components in SQUARES:
            squares, seconds = fit_squares(fitted, n_squares, n_components, arguments.starts)
            n_numbers = 4 * n_components + n_squares * n_components - n_squares * (n_squares + 1) // 2
            density = squares.log_density(held_out).mean()
            what = f"{n_squares} square{'s' * (n_squares > 1)} of {n_components}"
            rows.append([name, what, n_numbers, density, squares.acceptance_rate, seconds])
            drawn[name, what] = squares.log_density
        squares, seconds = fit_signed_tree(fitted, arguments.starts)
        n_numbers = 2 * TREE.n_leaf + TREE.n_sum_edges - np.unique(TREE.edge_sum).size  # a sum's scale does not matter
        density = squares.log_density(held_out).mean()
        rows.append([name, "square of a signed tree", n_numbers, density, squares.acceptance_rate, seconds])
        for n_components in MIXTURES:
            begin = time.process_time()
            circuit = ps.circuits.complete_tree(["a", "b"], n_children=[n_components, 1])
            circuit = circuit.circuit({"a": ["gaussian"], "b": ["gaussian"]})
            fit = ps.fit_em(circuit, fitted, restarts=arguments.starts, random_seed=1, **EM)
            density = fit.log_density(held_out).values.mean()
            what = f"mixture of {n_components}"
            rows.append([name, what, 5 * n_components - 1, density, 1.0, time.process_time() - begin])
            drawn[name, what] = partial(fit.circuit.log_density, **fit.parameters)
    print(machine() + "\n")
    print(
        markdown_table(["rows", "model", "free numbers", "held out, nats a row", "what cancels leaves", "CPU, s"], rows)
    )
    if arguments.figure:
        picture(arguments.figure, ring(arguments.rows, 0), {what: drawn["ring", what] for what in SHOWN})


def picture(path, rows, log_densities):
    """The rows, and densities of models beside them, all in one colour scale."""
    figure, panels = plt.subplots(1, 1 + len(log_densities), figsize=(10.0, 3.2), sharex=True, sharey=True,
                                  layout="constrained")  # fmt: skip
    grid = np.linspace(-4.5, 4.5, 241)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    densities = {what: np.exp(found(points)).reshape(grid.size, -1) for what, found in log_densities.items()}
    top = max(np.quantile(density, 0.995) for density in densities.values())
    panels[0].plot(*rows.T, ".", markersize=2, color="black")
    panels[0].set_title(f"{len(rows)} rows", fontsize=10)
    for panel, (what, density) in zip(panels[1:], densities.items(), strict=True):
        image = panel.pcolormesh(grid, grid, density, vmin=0.0, vmax=top, cmap="viridis", rasterized=True)
        panel.set_title(what, fontsize=10)
    for panel in panels:
        panel.set_aspect("equal")
    figure.colorbar(image, ax=panels.tolist(), label="density", shrink=0.9, extend="max")
    figure.supxlabel("a", fontsize=10)
    figure.supylabel("b", fontsize=10)
    figure.savefig(path, dpi=110)


def ring(n, seed):
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0.0, 2.0 * np.pi, n), rng.normal(3.0, 0.3, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def moons(n, seed):
    return 2.0 * make_moons(n, noise=0.1, random_state=seed)[0]


def fit_squares(rows, n_squares, n_components, n_starts):
    """The best of several modes, and CPU seconds for all of them."""
    begin = time.process_time()
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", shape=(n_squares, n_components))
        mean = pm.Normal("mean", 0.0, 3.0, shape=(n_components, 2))
        sd = pm.LogNormal("sd", 0.0, 1.0, shape=(n_components, 2))
        leaves = [{"gaussian": pt.stack([mean[k], sd[k]], axis=1)} for k in range(n_components)]
        components = [(PRODUCT, NO_CHOICE, own) for own in leaves]
        ps.circuits.SumOfSquaresDensity("x", components, coefficients, rows)
    points = [
        {
            "coefficients": rng.normal(size=(n_squares, n_components)),
            "mean": rng.normal(0.0, 0.5 if start % 2 else 1.5, (n_components, 2)),
            "sd_log__": rng.normal(0.7, 0.3, (n_components, 2)),
        }
        for start in range(n_starts)
    ]
    best = highest_mode(model, points)
    components = [
        (PRODUCT, NO_CHOICE, {"gaussian": np.column_stack([m, np.exp(s)])})
        for m, s in zip(best["mean"], best["sd_log__"], strict=True)
    ]
    return ps.circuits.SumOfSquares(components, best["coefficients"]), time.process_time() - begin


def fit_signed_tree(rows, n_starts):
    """The square of a tree with weights of either sign at each of its sums: as `fit_squares`."""
    begin = time.process_time()
    rng = np.random.default_rng(0)
    n_leaves = TREE.n_leaf
    with pm.Model() as model:
        weights = pm.Normal("weights", shape=TREE.n_sum_edges)
        mean = pm.Normal("mean", 0.0, 3.0, shape=n_leaves)
        sd = pm.LogNormal("sd", 0.0, 1.0, shape=n_leaves)
        ps.circuits.SumOfSquaresDensity(
            "x", *ps.circuits.monotone_parts(TREE, weights, {"gaussian": pt.stack([mean, sd], axis=1)}), rows
        )
    points = [
        {
            "weights": rng.normal(size=TREE.n_sum_edges),
            "mean": rng.normal(0.0, 0.5 if start % 2 else 1.5, n_leaves),
            "sd_log__": rng.normal(0.7, 0.3, n_leaves),
        }
        for start in range(n_starts)
    ]
    best = highest_mode(model, points)
    leaves = {"gaussian": np.column_stack([best["mean"], np.exp(best["sd_log__"])])}
    squares = ps.circuits.SumOfSquares(*ps.circuits.monotone_parts(TREE, best["weights"], leaves))
    return squares, time.process_time() - begin


def highest_mode(model, points):
    """Values of the model's variables where L-BFGS ends highest, from each of these points."""
    value_and_slope = model.logp_dlogp_function(ravel_inputs=True)
    value_and_slope.set_extra_values({})

    def negative(x):
        value, slope = value_and_slope(x)
        return (-value, -slope) if np.isfinite(value) else (1e10, np.zeros_like(x))

    found = []
    for point in points:
        flat = DictToArrayBijection.map({v.name: point[v.name] for v in model.value_vars if v.name in point})
        end = minimize(negative, flat.data, jac=True, method="L-BFGS-B", options={"maxiter": 3_000, "maxfun": 4_000})
        found.append((end.fun, DictToArrayBijection.rmap(flat._replace(data=end.x))))
    return min(found, key=lambda pair: pair[0])[1]


if __name__ == "__main__":
    main()
