"""pymc-bart on the same tables, in an environment of its own that holds pymc-bart and scikit-learn.

    PYTHONPATH=. python tests/benchmarks/trees_bart.py DATA --out RESULTS.jsonl [--seeds 1] [--rows 2000]

A latent sum of 20 trees for each class through a softmax; this is a forest and no single tree.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pymc as pm
import pymc_bart as pmb
from pymc_bart.bart import _get_posterior_sampler
from pymc_bart.utils import _sample_posterior


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data")
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--rows", type=int, default=2000, help="training rows, the first after a shuffle")
    arguments.add_argument("--draws", type=int, default=100)
    options = arguments.parse_args()
    for name in ("magic04", "pendigits"):
        for seed in range(options.seeds):
            cell = run(options, name, seed)
            with Path(options.out).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": f"bart/{name}/{seed}", **cell}, default=float) + "\n")


def run(options, name, seed):
    stored = np.load(Path(options.data) / f"{name}.npz")
    X, y = stored["X"], stored["target"].astype(int)
    order = np.random.default_rng(seed).permutation(len(X))
    train = (
        stored["train"].astype(bool)
        if "train" in stored.files
        else np.isin(np.arange(len(X)), order[: int(0.7 * len(X))])
    )
    rows = order[train[order]][: options.rows]
    n_classes = int(y.max()) + 1
    n_latent = 1 if n_classes == 2 else n_classes
    with pm.Model():
        data = pm.Data("data", X[rows])
        if n_latent == 1:
            mu = pmb.BART("mu", data, y[rows].astype(float), m=20)
            pm.Bernoulli("y", logit_p=mu, observed=y[rows], shape=mu.shape)
        else:
            mu = pmb.BART("mu", data, y[rows].astype(float), m=20, shape=(n_classes, len(rows)))
            pm.Categorical("y", p=pm.math.softmax(mu, axis=0).T, observed=y[rows])
        begin = time.process_time()
        pm.sample(
            options.draws,
            tune=options.draws,
            chains=1,
            cores=1,
            random_seed=seed,
            compute_convergence_checks=False,
            progressbar=False,
        )
        seconds = time.process_time() - begin
        sampler = _get_posterior_sampler(mu.owner.op)
        latent = np.asarray(
            _sample_posterior(sampler, X[~train], rng=np.random.default_rng(seed), size=options.draws)
        )  # (draws, rows, outputs)
        if n_latent == 1:
            latent = np.concatenate([np.zeros_like(latent), latent], axis=2)
        e = np.exp(latent - latent.max(-1, keepdims=True))
        p = (e / e.sum(-1, keepdims=True)).mean(0)
    target = y[~train]
    return {
        "seconds": seconds,
        "accuracy": float((p.argmax(1) == target).mean()),
        "log_p": float(np.log(np.maximum(p[np.arange(len(target)), target], 1e-12)).mean()),
        "rows": len(rows),
    }


if __name__ == "__main__":
    main()
