"""Whether chains agree: those of one default run, and default runs of two seeds.

    python -m tests.benchmarks.spn_agreement DATA --seconds 120

On tables as they are recorded, gaps included: R-hat of the log joint and of the mean log density of
held-out rows over four chains, and by how much two runs of different seeds differ in the log density of these rows. A
fifth of the rows is held out. ``--seconds`` is the CPU time of a run, all chains together.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes

from tests.benchmarks.report import finish, markdown_table
from tests.benchmarks.table_learners import default_draws
from tests.benchmarks.table_rules import NUMERIC

SIMULATED = {"simulated_150": 150, "simulated_500": 500, "simulated_2000": 2000}
TABLES = ("wine", "diabetes", "breast_cancer", *SIMULATED, "forest_fires", "crx", "german", "abalone")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds wine.npz and the others")
    arguments.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES, help="of default runs")
    arguments.add_argument("--seconds", type=float, default=120.0, help="CPU seconds of a default run")
    arguments.add_argument("--seeds", nargs=2, type=int, default=[0, 1], help="of two default runs")
    options = arguments.parse_args()
    figures = []
    for name in options.tables:
        figures.append({"table": name, **default_runs(recorded_table(options.data, name), options)})
        print(figures[-1], flush=True)
    rows = []
    for f in figures:
        rows.append([f["table"], f["rows"], " / ".join(map(str, f["sweeps"]))])
        rows[-1].append(" / ".join(f"{s:.0f}" for s in f["used"]))
        rows[-1] += [" / ".join(f"{r:.2f}" for r in f[key]) for key in ("joint", "held_out")]
        rows[-1] += [f"{f['mean']:.2f}", f"{f['apart']:+.3f}", f"{f['absolute']:.3f}"]
    header = ["table", "rows to learn from", "draws of a chain", "CPU s", "R-hat, log joint", "R-hat, held-out rows"]
    header += ["held-out, nats a row", "second run − first", "mean absolute difference of a row"]
    title = f"Runs of {options.seconds:g} CPU seconds, seeds {options.seeds}"
    finish([(title, markdown_table(header, rows))])


def default_runs(frame, options):
    """R-hat of each run, and how far the runs are apart on the rows that are held out: every fifth."""
    import pymc_spn as ps

    held_out = np.arange(len(frame)) % 5 == 4
    train, test = frame[~held_out], frame[held_out]
    found, logs = {"rows": len(train), "sweeps": [], "used": [], "joint": [], "held_out": []}, []
    for seed in options.seeds:
        idata, n_sweeps, used = default_draws(train, options.seconds, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # R-hat is what is shown
            post = ps.SPNPosterior.from_idata(idata)
        rhat = post.diagnose(df=test, max_rows=0)["r_hat"]
        logs.append(post.log_density(test).values)
        for key, value in zip(("sweeps", "used", "joint", "held_out"), (n_sweeps, used, *rhat.iloc[:2]), strict=True):
            found[key].append(float(value) if key != "sweeps" else value)
    return {
        **found,
        "mean": float(np.mean(logs[0])),
        "apart": float(np.mean(logs[1] - logs[0])),
        "absolute": float(np.mean(np.abs(logs[1] - logs[0]))),
    }


def recorded_table(data, name):
    """A table as a user has it, in random order; levels as categories."""
    if name in SIMULATED:
        return simulated_table(SIMULATED[name])
    if name == "diabetes":
        frame = load_diabetes(as_frame=True, scaled=False).frame
        frame["sex"] = frame["sex"].astype(int).astype("category")
    elif name == "breast_cancer":
        frame = load_breast_cancer(as_frame=True).frame.iloc[:, [*range(10), -1]]
        frame = frame.assign(target=frame["target"].astype("category"))
    else:
        with np.load(Path(data) / f"{name}.npz") as file:
            frame = pd.DataFrame(file["X"], columns=[str(c) for c in file["columns"]])
            coded = [c for c, kind in zip(frame, file["kinds"], strict=True) if str(kind) not in NUMERIC]
        frame = frame.astype({c: "category" for c in coded})
    return frame.sample(frac=1.0, random_state=0).reset_index(drop=True)


def simulated_table(n):
    """Three groups: numbers that are correlated within them, a skewed one, whole numbers, levels that lean on them."""
    rng = np.random.default_rng(n)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])[group]
    x = x + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances())[group], rng.normal(size=(n, 2)))
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "sum": x.sum(axis=1) + rng.normal(0.0, 0.5, n),
            "noise": rng.normal(size=n),
            "skewed": np.exp(0.5 * rng.normal(size=n) + 0.3 * group),
            "visits": rng.poisson(np.array([2.0, 6.0, 12.0])[group]),
            "colour": pd.Categorical(np.array(["red", "green", "blue"])[leaning(rng, group, 0.8)]),
            "answer": pd.Categorical(np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-x[:, 0])), "yes", "no")),
        }
    )


def covariances():
    return np.array([[[1.0, r], [r, 1.0]] for r in (0.8, -0.6, 0.0)])


def leaning(rng, group, share):
    """The group itself in a share of the rows, any of the three otherwise."""
    return np.where(rng.random(len(group)) < share, group, rng.integers(0, 3, len(group)))


if __name__ == "__main__":
    main()
