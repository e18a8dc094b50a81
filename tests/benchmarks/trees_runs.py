"""Particle filtering and peers on pendigits and magic04: every cell of the tables, resumable.

    python -m tests.benchmarks.trees_runs DATA --out RESULTS.jsonl [--seeds 5] [--parts figures islands ...]

`python -m tests.benchmarks.trees_tables RESULTS.jsonl` prints the tables.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

import pymc_spn as ps
from pymc_spn.trees.fit import island_weights
from tests.benchmarks.trees_problem import PAPER, Results, fit, read_problem, score, smoothed

PARTICLES = (10, 100, 1000, 2000)
VARIANTS = {
    "paper": PAPER,
    "alpha_s .8": PAPER | {"alpha_s": 0.8},
    "beta_s .2": PAPER | {"beta_s": 0.2},
    "both": PAPER | {"alpha_s": 0.8, "beta_s": 0.2},
    "alpha 1": PAPER | {"alpha": 1.0},
}


def figures(data, results, seeds):
    """Figures 1 and 3: proposals and expansions."""
    for name in ("pendigits", "magic04"):
        for seed in range(seeds):
            problem = read_problem(data, name, seed)
            for proposal in ("optimal", "prior", "empirical"):
                for expansion in ("node", "layer"):
                    for m in PARTICLES:
                        if proposal == "empirical" and m >= 1000:
                            continue
                        key = f"fig1/{name}/{proposal}/{expansion}/{m}/{seed}"
                        settings = {"particles": m, "islands": 1, "proposal": proposal, "expansion": expansion}
                        results.run(key, lambda p=problem, s=seed, a=settings: fit(p, s, **a))


def islands(data, results, seeds):
    """Figure 2: 2,000 particles cut into islands, three ways to weigh them."""
    for name in ("magic04", "pendigits"):
        for seed in range(seeds):
            for n in (1, 5, 20, 100):
                if f"islands/{name}/{n}/evidence/{seed}" in results.cells:
                    continue
                for weights, cell in weighings(read_problem(data, name, seed), seed, n).items():
                    results.run(f"islands/{name}/{n}/{weights}/{seed}", lambda c=cell: c)


def weighings(problem, seed, n):
    """One fit, its islands weighed in three ways."""
    X, y, X_new, y_new = problem
    begin = time.process_time()
    post = ps.fit_tree(X, y, ps.leaves.ClassLeaves(5.0), particles=2000, islands=n, weights="equal", random_seed=seed)
    seconds = time.process_time() - begin
    fixed = {"log_z": float(post.log_evidence), "spread": float(post.log_evidence_se.attrs["spread"])}
    out = {}
    for weights in ("evidence", "equal", "stacking") if n > 1 else ("evidence",):
        begin = time.process_time()
        shares = island_weights(post._draws, weights)[post._draws.group]
        weighed = ps.TreePosterior(replace(post._draws, weights=post._draws.weights * shares))
        extra = time.process_time() - begin
        accuracy, log_p = score(weighed.predict_proba(X_new).values, y_new)
        out[weights] = {"seconds": seconds + extra, "accuracy": accuracy, "log_p": log_p, **fixed}
    return out


def hyperparameters(data, results, seeds):
    """Figures 4 to 7, node-wise."""
    for name in ("pendigits", "magic04"):
        for seed in range(seeds):
            problem = read_problem(data, name, seed)
            for label, variant in VARIANTS.items():
                for proposal in ("optimal", "prior"):
                    for m in PARTICLES if proposal == "prior" else PARTICLES[:2]:
                        key = f"hyper/{name}/{label}/{proposal}/{m}/{seed}"
                        settings = {"particles": m, "islands": 1, "proposal": proposal, **variant}
                        results.run(key, lambda p=problem, s=seed, a=settings: fit(p, s, **a))


def peers(data, results, seeds):
    """CART, CART tuned by cross-validation, random forest; and the targets' own cells, interleaved with them."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    for name in ("pendigits", "magic04"):
        for seed in range(seeds):
            problem = read_problem(data, name, seed)
            X, y, X_new, y_new = problem
            n_classes = int(y.max()) + 1

            def cart(X=X, y=y, X_new=X_new, y_new=y_new, seed=seed, n_classes=n_classes):
                begin = time.process_time()
                tree = DecisionTreeClassifier(random_state=seed).fit(X, y)
                seconds = time.process_time() - begin
                accuracy, log_p = score(smoothed(tree, X, y, X_new, n_classes), y_new)
                with np.errstate(divide="ignore"):
                    p = np.clip(tree.predict_proba(X_new), 1e-15, 1.0)
                return {"seconds": seconds, "accuracy": accuracy, "log_p": log_p, "log_p_raw": score(p, y_new)[1]}

            def tuned(X=X, y=y, X_new=X_new, y_new=y_new, seed=seed, n_classes=n_classes):
                begin = time.process_time()
                grid = {"ccp_alpha": np.geomspace(1e-5, 1e-2, 8), "min_samples_leaf": [1, 5, 20]}
                search = GridSearchCV(DecisionTreeClassifier(random_state=seed), grid, scoring="neg_log_loss", cv=5)
                tree = search.fit(X, y).best_estimator_
                seconds = time.process_time() - begin
                accuracy, log_p = score(smoothed(tree, X, y, X_new, n_classes), y_new)
                return {"seconds": seconds, "accuracy": accuracy, "log_p": log_p}

            def forest(X=X, y=y, X_new=X_new, y_new=y_new, seed=seed):
                begin = time.process_time()
                wood = RandomForestClassifier(100, random_state=seed, n_jobs=1).fit(X, y)
                seconds = time.process_time() - begin
                accuracy, log_p = score(np.clip(wood.predict_proba(X_new), 1e-3, 1.0), y_new)
                return {"seconds": seconds, "accuracy": accuracy, "log_p": log_p}

            results.run(f"peer/{name}/CART/{seed}", cart)
            for m in (10, 100):
                settings = {"particles": m, "islands": 1}
                results.run(f"target/{name}/optimal {m}/{seed}", lambda p=problem, s=seed, a=settings: fit(p, s, **a))
            results.run(f"peer/{name}/forest/{seed}", forest)
            results.run(f"target/{name}/50 trees/{seed}", lambda p=problem, s=seed: fifty(p, s))
            results.run(f"peer/{name}/CART tuned/{seed}", tuned)


def fifty(problem, seed):
    """Fifty single-tree posteriors with equal weights: 50 islands of two particles."""
    return fit(problem, seed, particles=100, islands=50, weights="equal")


PARTS = {"peers": peers, "figures": figures, "islands": islands, "hyperparameters": hyperparameters}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds pendigits.npz and magic04.npz")
    arguments.add_argument("--out", required=True, help="file of results, one line a cell; continued if it exists")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    options = arguments.parse_args()
    results = Results(options.out)
    X = np.random.default_rng(0).normal(size=(50, 2))
    fit((X, (X[:, 0] > 0).astype(int), X, (X[:, 0] > 0).astype(int)), 0, particles=4, islands=1)  # compile
    for part in options.parts:
        PARTS[part](options.data, results, options.seeds)


if __name__ == "__main__":
    main()
