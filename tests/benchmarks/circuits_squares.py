"""Squares of sums of circuits against mixtures with positive weights: held-out density for the numbers they take.

Rows on a ring and on two half moons. Components are products of Gaussian leaves. Squares are fitted by the mode of
their posterior density (L-BFGS, the best of several random starts by that density), mixtures by `fit_em`; densities are
those of as many rows that were not fitted, in nats a row.

    python -m tests.benchmarks.circuits_squares
"""

import argparse
import time

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
PRODUCT = ps.complete_tree(["a", "b"], n_children=1).circuit({"a": ["gaussian"], "b": ["gaussian"]})
NO_CHOICE = np.zeros(PRODUCT.n_sum_edges)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=500)
    arguments.add_argument("--starts", type=int, default=8)
    arguments = arguments.parse_args()
    rows = []
    for name, draw in {"ring": ring, "moons": moons}.items():
        fitted, held_out = (draw(arguments.rows, seed) for seed in (0, 1))
        for n_squares, n_components in SQUARES:
            squares, seconds = fit_squares(fitted, n_squares, n_components, arguments.starts)
            n_numbers = 4 * n_components + n_squares * n_components - n_squares * (n_squares + 1) // 2
            density = squares.log_density(held_out).mean()
            what = f"{n_squares} of {n_components}"
            rows.append([name, what, n_numbers, density, squares.acceptance_rate, seconds])
        for n_components in MIXTURES:
            begin = time.process_time()
            circuit = ps.complete_tree(["a", "b"], n_children=[n_components, 1])
            circuit = circuit.circuit({"a": ["gaussian"], "b": ["gaussian"]})
            fit = ps.fit_em(
                circuit, fitted, restarts=arguments.starts, max_steps=3_000, random_seed=1, progressbar=False
            )
            density = fit.circuit.log_density(held_out, **fit.parameters).mean()
            what = f"mixture of {n_components}"
            rows.append([name, what, 5 * n_components - 1, density, 1.0, time.process_time() - begin])
    print(machine() + "\n")
    print(
        markdown_table(["rows", "model", "free numbers", "held out, nats a row", "what cancels leaves", "CPU, s"], rows)
    )


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
        ps.SumOfSquaresDensity("x", components, coefficients, rows)
    value_and_slope = model.logp_dlogp_function(ravel_inputs=True)
    value_and_slope.set_extra_values({})
    found = []
    for start in range(n_starts):
        point = {
            "coefficients": rng.normal(size=(n_squares, n_components)),
            "mean": rng.normal(0.0, 0.5 if start % 2 else 1.5, (n_components, 2)),
            "sd_log__": rng.normal(0.7, 0.3, (n_components, 2)),
        }
        flat = DictToArrayBijection.map({v.name: point[v.name] for v in model.value_vars if v.name in point})

        def negative(x):
            value, slope = value_and_slope(x)
            return (-value, -slope) if np.isfinite(value) else (1e10, np.zeros_like(x))

        end = minimize(negative, flat.data, jac=True, method="L-BFGS-B", options={"maxiter": 3_000, "maxfun": 4_000})
        found.append((end.fun, DictToArrayBijection.rmap(flat._replace(data=end.x))))
    best = min(found, key=lambda pair: pair[0])[1]
    components = [
        (PRODUCT, NO_CHOICE, {"gaussian": np.column_stack([m, np.exp(s)])})
        for m, s in zip(best["mean"], best["sd_log__"], strict=True)
    ]
    return ps.SumOfSquares(components, best["coefficients"]), time.process_time() - begin


if __name__ == "__main__":
    main()
