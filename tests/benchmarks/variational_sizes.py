"""Variational Bayes on simulated mixed tables of growing size, and the state of the sampler after some sweeps.

    python -m tests.benchmarks.variational_sizes --rows 2000 20000 200000 --sweeps 40

A table has four correlated numeric, three skewed and three categorical columns from twelve clusters. Both take the
same learned splits. Printed are wall and CPU seconds of the fit without compilation, and the mean log density of 4,000
other rows in nats a row; the truth's is known.
"""

import argparse
import time

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from pymc_spn.circuits.structures.learned_tree import learn_tree
from pymc_spn.networks.learners import fit_variational
from pymc_spn.tables import Table
from tests.benchmarks.table_runs import TimedRun, averaged

CLUSTERS, NUMBERS, LEVELS, TEST_ROWS = 12, 7, (2, 4, 7), 4_000


def simulated(n, seed):
    """Training table, test table, and the mean log density of the test rows under the truth."""
    model, rng = np.random.default_rng(99), np.random.default_rng(1_000 + seed)
    share, centre = model.dirichlet(np.full(CLUSTERS, 3.0)), model.normal(0.0, 2.0, (CLUSTERS, NUMBERS))
    factors = model.normal(0.0, 0.35, (CLUSTERS, NUMBERS, NUMBERS))
    factors[:, np.arange(NUMBERS), np.arange(NUMBERS)] = model.uniform(0.4, 1.0, (CLUSTERS, NUMBERS))
    factors = np.linalg.cholesky(factors @ factors.transpose(0, 2, 1))
    levels = [model.dirichlet(np.full(k, 0.6), CLUSTERS) for k in LEVELS]
    n += TEST_ROWS
    cluster = rng.choice(CLUSTERS, n, p=share)
    numbers = centre[cluster] + np.einsum("nij,nj->ni", factors[cluster], rng.normal(size=(n, NUMBERS)))
    codes = [(rng.random((n, 1)) > p[cluster].cumsum(1)).sum(1).clip(0, p.shape[1] - 1) for p in levels]
    logs = np.empty((n, CLUSTERS))
    for c in range(CLUSTERS):
        z = np.linalg.solve(factors[c], (numbers - centre[c]).T)
        logs[:, c] = np.log(share[c]) - 0.5 * (z**2).sum(0) - np.log(2.0 * np.pi) * NUMBERS / 2.0
        logs[:, c] -= np.log(np.diag(factors[c])).sum()
        logs[:, c] += sum(np.log(p[c, code]) for p, code in zip(levels, codes, strict=True))
    truth = logsumexp(logs, axis=1) - 0.5 * numbers[:, 4:].sum(1) - 3.0 * np.log(0.5)
    frame = pd.DataFrame({f"n{i}": numbers[:, i] if i < 4 else np.exp(0.5 * numbers[:, i]) for i in range(NUMBERS)})
    for i, code in enumerate(codes):
        frame.insert(3 * i + 1, f"c{i}", np.array(list("abcdefg"))[code])
    table = Table.from_frame(frame)
    parts = np.split(table.values, [n - TEST_ROWS])
    return *(Table(table.columns, x, pd.RangeIndex(len(x))) for x in parts), truth[n - TEST_ROWS :].mean()


def report(name, learn, test):
    """One line: seconds and density."""
    wall, cpu = time.perf_counter(), time.process_time()
    density = learn()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"  {name}: {wall:.1f} s, {cpu:.1f} CPU s, {density(test):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="+", type=int, default=[2_000, 20_000])
    parser.add_argument("--sweeps", type=int, default=40, help="of the sampler; 0 leaves it out")
    parser.add_argument("--seed", type=int, default=0)
    own = parser.parse_args()

    def variational(train, tree):
        def learn():
            own_scale = {"joint_leaves": None, "resolution": 0.0}
            fit = fit_variational(train, tree, random_seed=own.seed, progressbar=False, **own_scale)
            return lambda test: float(fit.log_density(test).mean())

        return learn

    def chain(train, tree):
        def learn():
            run = TimedRun(train, tree, "exact", learned=True)
            run.start(own.seed)
            for _ in range(own.sweeps):
                run.sweep()
            return lambda test: averaged(run.densities([run.state()], [test])[0])

        return learn

    small = simulated(100, 0)[0]
    variational(small, learn_tree(small, random_seed=0))()  # compiles
    if own.sweeps:
        chain(small, learn_tree(small, random_seed=0))()
    for n in own.rows:
        train, test, truth = simulated(n, own.seed)
        tree = learn_tree(train, random_seed=0)
        print(f"{n} rows, truth {truth:.3f}")
        report("variational", variational(train, tree), test)
        if own.sweeps:
            report(f"{own.sweeps} sweeps", chain(train, tree), test)


if __name__ == "__main__":
    main()
