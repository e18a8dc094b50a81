"""A regression on covariates with gaps, over many simulated tables: network in the model, complete cases, mean filling.

    python -m tests.benchmarks.spn_regression_with_gaps --sets 100 --processes 2

In the tables a dose is recorded less often where the outcome is high, and a marker rises with it within each of two
groups and falls between them. Error, root mean squared error
and coverage of 90 % intervals against the coefficients that made the data; with the network also the effective draws
and R-hat.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from tests.benchmarks.report import QUIET, markdown_table

TRUTH = np.array([0.0, 1.0, 1.0])
NAMES = ["intercept", "dose", "marker"]
T90 = 1.66  # 95 % point of Student's t at these sizes


def simulate(seed, n=100):
    """Dose and marker (n, 2) with gaps, outcome (n,), dose without gaps (n,)."""
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.5
    middle = np.where(group, 3.0, 1.0)
    dose = rng.normal(middle, 0.6)
    marker = np.where(group, 1.0, 2.5) + 0.5 * (dose - middle) + rng.normal(0.0, 0.5, n)
    y = TRUTH @ [np.ones(n), dose, marker] + rng.normal(0.0, 1.5, n)
    gone = rng.random(n) < 0.9 / (1.0 + np.exp(-3.0 * (y - np.median(y) - 1.0)))
    return np.column_stack([np.where(gone, np.nan, dose), marker]), y, dose


def least_squares(x, y):
    """Coefficients, and the ends of their intervals."""
    design = np.column_stack([np.ones(len(y)), x])
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    residual = y - design @ beta
    sd = np.sqrt(residual @ residual / (len(y) - 3) * np.diag(np.linalg.inv(design.T @ design)))
    return {"estimate": beta, "low": beta - T90 * sd, "high": beta + T90 * sd}


def with_network(x, y, dose, seed, draws, tune, chains):
    """The same of the posterior of network and regression together, and how often the gaps' intervals hold the dose."""
    import arviz as az
    import pandas as pd
    import pymc as pm

    import pymc_spn as ps

    frame = pd.DataFrame(x, columns=NAMES[1:])
    with pm.Model():
        network = ps.SPN("x", ps.circuits.complete_tree(list(frame)), observed=frame, missing="draw")
        columns = ps.completed_columns(network)
        beta = pm.Normal("beta", 0.0, 10.0, shape=3)
        noise = pm.HalfNormal("noise", 3.0)
        pm.Normal("y", beta[0] + beta[1] * columns["dose"] + beta[2] * columns["marker"], noise, observed=y)
        idata = pm.sample(draws, tune=tune, chains=chains, random_seed=seed, quiet=True, **QUIET)
    found = idata.posterior["beta"].stack(sample=("chain", "draw")).to_numpy()
    cells = idata.posterior["x_missing"].stack(sample=("chain", "draw")).to_numpy()
    low, high = np.quantile(found, [0.05, 0.95], axis=1)
    below, above = np.quantile(cells, [0.05, 0.95], axis=1)
    hidden = dose[np.isnan(x[:, 0])]
    summary = az.summary(idata, var_names=["beta", "noise"], round_to="none")
    return {
        "estimate": found.mean(axis=1), "low": low, "high": high, "gaps": int(hidden.size),
        "gaps_held": int(np.sum((below <= hidden) & (hidden <= above))),
        "ess": summary["ess_bulk"].to_numpy(float), "r_hat": summary["r_hat"].to_numpy(float),
    }  # fmt: skip


def one(task):
    """All methods on one simulated table."""
    seed, draws, tune, chains = task
    x, y, dose = simulate(seed)
    keep = ~np.isnan(x).any(axis=1)
    filled = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    return {
        "network and regression": with_network(x, y, dose, seed + 1, draws, tune, chains),
        "complete cases": least_squares(x[keep], y[keep]),
        "mean filled in": least_squares(filled, y),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--tune", type=int, default=300)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    tasks = [(seed, options.draws, options.tune, options.chains) for seed in range(options.sets)]
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        found = list(pool.map(one, tasks))
    rows = []
    for method in found[0]:
        of = [table[method] for table in found]
        error = np.array([f["estimate"] for f in of]) - TRUTH
        held = np.array([(f["low"] <= TRUTH) & (f["high"] >= TRUTH) for f in of])
        for k, name in enumerate(NAMES):
            standard_error = error[:, k].std(ddof=1) / np.sqrt(len(error))
            rows.append([
                method, name, f"{error[:, k].mean():+.3f} ± {standard_error:.3f}",
                f"{np.sqrt(np.square(error[:, k]).mean()):.2f}", f"{held[:, k].mean():.0%}",
            ])  # fmt: skip
    print(
        markdown_table(
            ["method", "coefficient", "error, mean ± standard error", "rmse", "90 % intervals that hold"], rows
        )
    )
    ours = [table["network and regression"] for table in found]
    ess, r_hat = (np.array([f[key] for f in ours]) for key in ("ess", "r_hat"))
    held = sum(f["gaps_held"] for f in ours) / sum(f["gaps"] for f in ours)
    print(f"\n{sum(f['gaps'] for f in ours)} gaps, of which {held:.1%} lie within their 90 % intervals.")
    print("Bulk effective draws, median and smallest over the tables:", end=" ")
    print(", ".join(f"{n} {np.median(e):.0f} / {e.min():.0f}" for n, e in zip([*NAMES, "noise"], ess.T, strict=True)))
    print(f"R-hat, largest of four parameters: median {np.median(r_hat.max(axis=1)):.3f}, largest {r_hat.max():.3f}")


if __name__ == "__main__":
    main()
