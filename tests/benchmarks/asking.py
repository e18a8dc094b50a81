"""What questions cost under recorded draws, warm, in CPU seconds of one thread: medians of three, of long ones one.

    python -m tests.benchmarks.asking

The posterior is the default of 405 rows and 14 columns, 2 chains of 300 draws, all used.
"""

import sys
import time

import numpy as np
import pandas as pd
import pymc as pm

import pymc_spn as ps
from tests.benchmarks.report import QUIET, machine, markdown_table

LONG = 5.0  # seconds of a question that is asked once


def main():
    with ps.parallel_config(1):
        figures = of_table()
    print(machine() + "\n")
    print(markdown_table(["question", "CPU s"], [[q, s] for q, s in figures.items()]))


def table(n=405):
    """Thirteen numbers of two groups, of which some follow from others and some are skewed, and a class."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, n)
    z = rng.normal(size=(n, 13)) + 2.0 * group[:, None] * (np.arange(13) % 3 == 0)
    z[:, 6:] += 0.8 * z[:, :7]
    z[:, 10:] = np.exp(0.5 * z[:, 10:])
    return pd.DataFrame(z, columns=[f"x{d}" for d in range(13)]).assign(group=np.array(["a", "b"])[group])


def of_table():
    frame = table()
    with pm.Model():
        ps.SPN("x", observed=frame)
        idata = pm.sample(300, tune=500, chains=2, random_seed=1, **QUIET, spn={"record_every": 1})
    post = ps.SPNPosterior.from_idata(idata, max_draws=None)
    rows = frame.sample(1000, replace=True, random_state=1, ignore_index=True)
    gaps = rows.mask(np.random.default_rng(2).random(rows.shape) < 0.2)
    rest = rows.drop(columns="x0")
    questions = {
        "log_density, 1,000 rows": lambda: post.log_density(rows),
        "log_density, one row": lambda: post.log_density(rows[:1]),
        "predict, a number": lambda: post.predict(rest, "x0"),
        "predict_quantile, 4 levels": lambda: post.predict_quantile(rest, "x0", [0.05, 0.25, 0.75, 0.95]),
        "anomaly": lambda: post.anomaly(rows),
        "probability, given": lambda: post.probability({"x0": (None, 0.0)}, given={"group": "a"}),
        "mean, given": lambda: post.mean(given={"x0": (None, 0.0)}),
        "impute": lambda: post.impute(gaps, random_seed=1),
        "dependence, 14 columns": lambda: post.dependence(progressbar=False),
        "log_likelihood": lambda: post.log_likelihood(),
    }
    return {q: seconds(q, ask) for q, ask in questions.items()}


def seconds(question, ask):
    """Median CPU seconds, after a call that compiles; printed at once, since all of them take long."""
    found = []
    while len(found) < 2 or (len(found) < 4 and found[-1] < LONG):
        begin = time.process_time()
        ask()
        found.append(time.process_time() - begin)
    print(f"{question}: {np.median(found[1:]):.3g}", file=sys.stderr, flush=True)
    return float(np.median(found[1:]))


if __name__ == "__main__":
    main()
