"""Data, peers and one resumable file of results for the benchmarks of the decision trees."""

import time
import warnings
from pathlib import Path

import numpy as np

import pymc_spn as ps
from tests.benchmarks.report import Store

PAPER = {"alpha": 5.0, "alpha_s": 0.95, "beta_s": 0.5}


def read_problem(folder, name, seed):
    """Training and test rows: the official split of pendigits, a random 70/30 of magic04 by the seed."""
    stored = np.load(Path(folder) / f"{name}.npz")
    X, y = stored["X"], stored["target"].astype(int)
    if "train" in stored.files:
        train = stored["train"].astype(bool)
    else:
        order = np.random.default_rng(seed).permutation(len(X))
        train = np.zeros(len(X), bool)
        train[order[: int(0.7 * len(X))]] = True
    return X[train], y[train], X[~train], y[~train]


def score(probabilities, y):
    """Accuracy and mean log predictive."""
    p = np.asarray(probabilities)
    return float((p.argmax(1) == y).mean()), float(np.log(p[np.arange(len(y)), y]).mean())


def fit(problem, seed, *, alpha=5.0, alpha_s=0.95, beta_s=0.5, weights="evidence", **settings):
    """CPU seconds of the fit and of the prediction, accuracy, log predictive, log evidence."""
    X, y, X_new, y_new = problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        begin = time.process_time()
        post = ps.fit_tree(
            X,
            y,
            ps.leaves.ClassLeaves(alpha),
            alpha_s=alpha_s,
            beta_s=beta_s,
            weights=weights,
            random_seed=seed,
            **settings,
        )
        seconds = time.process_time() - begin
    begin = time.process_time()
    accuracy, log_p = score(post.predict_proba(X_new).values, y_new)
    return {
        "seconds": seconds,
        "predict_seconds": time.process_time() - begin,
        "accuracy": accuracy,
        "log_p": log_p,
        "log_z": float(post.log_evidence),
        "spread": float(post.log_evidence_se.attrs["spread"]),
        "trees": len(post.weights),
    }


def smoothed(tree, X, y, X_new, n_classes):
    """Class probabilities of a fitted scikit-learn tree, 0.1 added to each class count of a leaf."""
    counts = np.full((tree.tree_.node_count, n_classes), 0.1)
    np.add.at(counts, (tree.apply(X), y), 1.0)
    place = tree.apply(X_new)
    return counts[place] / counts[place].sum(1, keepdims=True)


class Results(Store):
    """Cells by their keys; one that is there is not run again."""

    def __init__(self, path):
        super().__init__(path, ("key",))

    @property
    def cells(self):
        return {key: cell for (key,), cell in self.records.items()}

    def run(self, key, make):
        if (key,) not in self:
            self.add((key,), make())
        return self.records[key,]

    def mean(self, keys, field):
        """Mean and standard deviation of a field over the cells that are there; None where there is none."""
        values = [c[field] for k, c in self.cells.items() if k in set(keys) and c[field] is not None]
        return (float(np.mean(values)), float(np.std(values)), len(values)) if values else None
