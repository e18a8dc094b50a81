"""What leaves over several columns are worth in variational fits: held-out density and CPU seconds, without and with.

    python -m tests.benchmarks.variational_joints DATA --tables breast_cancer wine abalone --seeds 0 1 2

``breast_cancer`` (10 means and the class) and ``wine`` (with the class) are scikit-learn's, four fifths of the rows to
learn from; all others are read from DATA and split as in `table_rules`. Numbers are dequantised, and values are exact
in both fits. One line for each table and seed, nats a row; seconds are CPU seconds after compilation.
"""

import argparse
import time
import zlib

import numpy as np
import pandas as pd
from sklearn import datasets

import pymc_spn as ps
from pymc_spn.tables import Table
from pymc_spn.tables.resolution import resolution
from tests.benchmarks.table_rules import prepare

OF_SCIKIT_LEARN = {"breast_cancer": (datasets.load_breast_cancer, 10), "wine": (datasets.load_wine, 13)}


def tables(data, name, seed):
    """Rows to learn from and test rows."""
    if name not in OF_SCIKIT_LEARN:
        prepared = prepare(data, name, seed)
        return prepared.learning, prepared.test
    load, n_columns = OF_SCIKIT_LEARN[name]
    x, y = load(return_X_y=True)
    x = x[:, :n_columns]
    noise = np.random.default_rng(zlib.crc32(name.encode())).random(x.shape)
    x = x + np.array([resolution(column) for column in x.T]) * (noise - 0.5)
    frame = pd.DataFrame(x, columns=[f"x{d}" for d in range(n_columns)]).assign(label=y.astype(str))
    table = Table.from_frame(frame, kinds={name: "real" for name in frame.columns[:-1]})
    order, cut = np.random.default_rng(seed).permutation(len(x)), int(0.8 * len(x))
    return (Table(table.columns, table.values[r], pd.RangeIndex(r.size)) for r in (order[:cut], order[cut:]))


def fitted(rows, joint, seed, **settings):
    """A fit and its CPU seconds."""
    leaves, start = ps.leaves.MultivariateGaussian() if joint else None, time.process_time()
    post = ps.fit_variational(rows, joint_leaves=leaves, rounded=False, random_seed=seed, progressbar=False, **settings)
    return post, time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--tables", nargs="+", default=["breast_cancer", "wine", "abalone"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    rows, _ = tables(args.data, "wine", 0)
    for joint in (False, True):  # compiles
        fitted(rows, joint, 0, max_steps=2, restarts=1)
    print("table seed | density without, with | bound without, with | CPU s without, with")
    for name in args.tables:
        for seed in args.seeds:
            learning, test = tables(args.data, name, seed)
            found = [fitted(learning, joint, seed) for joint in (False, True)]
            density = " ".join(f"{float(post.log_density(test).mean()):.3f}" for post, _ in found)
            bound = " ".join(f"{post.bound:.0f}" for post, _ in found)
            seconds = " ".join(f"{spent:.1f}" for _, spent in found)
            print(f"{name} {seed} | {density} | {bound} | {seconds}", flush=True)


if __name__ == "__main__":
    main()
