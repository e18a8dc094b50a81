"""What questions cost under recorded draws, warm, in CPU seconds of one thread: medians of three, of long ones one.

    python -m tests.benchmarks.asking

The posterior is the default of 405 rows and 14 columns, 2 chains of 300 draws, all used; then one whose leaves are over
80 columns, with 40 draws. Figures of the engine with two forms of a circuit, which was before, stand beside them.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm

import pymc_spn as ps
from tests.benchmarks.report import QUIET, machine, markdown_table, verdict

LEAVES = 300  # for which limits hold
LONG = 5.0  # seconds of a question that is asked once


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--json", help="also write all figures to this file")
    arguments.add_argument("--before", help="figures of an older version, from --json")
    arguments = arguments.parse_args()
    before = json.loads(Path(arguments.before).read_text()) if arguments.before else {}
    with ps.parallel_config(1):
        figures = of_table() | of_wide_leaves()
    print(machine() + "\n")
    print(markdown_table(["question", "CPU s", "before"], [[q, s, before.get(q)] for q, s in figures.items()]))
    density = figures["log_density, 1,000 rows"]
    limits = [
        ("log_density for each 300 leaves", density * LEAVES / figures["leaves of a draw"], 0.45),
        ("gaps / log_density", figures["log_density, gaps"] / density, 2.0),
        ("predict / log_density", figures["predict"] / density, 1.2),
        ("predict_quantile / log_density", figures["predict_quantile, 4 levels"] / density, 4.0),
        ("log_likelihood / log_density", figures["log_likelihood"] / density, 3.0),
        ("stacked / log_density", figures["stacked"] / density, 3.0),
        ("dependence, s", figures["dependence, 14 columns"], 10.0),
        ("posterior_predictive of 14 columns, s", figures["posterior_predictive, all columns"], 2.0),
        ("leaves over 80 columns, s", figures["log_density, leaves over 80 columns"], 60.0),
    ]
    rows = [verdict(*limit, at_least=False) for limit in limits]
    print(markdown_table(["demand", "measured", "demanded", "verdict"], rows))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2), encoding="utf-8")


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
        "log_density, gaps": lambda: post.log_density(gaps),
        "log_density, one row": lambda: post.log_density(rows[:1]),
        "predict": lambda: post.predict(rest, "x0"),
        "predict_quantile, 4 levels": lambda: post.predict_quantile(rest, "x0", [0.05, 0.25, 0.75, 0.95]),
        "anomaly": lambda: post.anomaly(rows),
        "probability, given": lambda: post.probability({"x0": (None, 0.0)}, given={"group": "a"}),
        "mean, given": lambda: post.mean(given={"x0": (None, 0.0)}),
        "impute": lambda: post.impute(gaps, random_seed=1),
        "dependence, 14 columns": lambda: post.dependence(progressbar=False),
        "log_likelihood": lambda: post.log_likelihood(),
        "stacked": lambda: post.stacked(),
        "posterior_predictive, all columns": lambda: post.posterior_predictive(random_seed=1),
    }
    states = post._law.states
    n_leaves = sum(states.leaves(s, d).family.size for s in range(states.n_draws) for d in range(frame.shape[1]))
    return {"leaves of a draw": n_leaves / states.n_draws} | {q: seconds(q, ask) for q, ask in questions.items()}


def of_wide_leaves():
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 80))
    frame = pd.DataFrame(factors + rng.normal(size=factors.shape), columns=[f"x{d}" for d in range(80)])
    with pm.Model():
        ps.SPN("x", observed=frame)
        idata = pm.sample(20, tune=40, chains=2, random_seed=1, **QUIET, spn={"record_every": 1})
    post = ps.SPNPosterior.from_idata(idata, max_draws=None)
    rows = frame.sample(1000, replace=True, random_state=1, ignore_index=True)
    gaps = rows.mask(rng.random(rows.shape) < 0.2)
    name = "log_density, leaves over 80 columns"
    return {name: seconds(name, lambda: post.log_density(gaps))}


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
