"""Particle filtering, MCMC and peers on pendigits and magic04: every cell of the tables, resumable.

    python -m tests.benchmarks.trees_runs DATA --out RESULTS.jsonl [--seeds 5] [--parts figures islands ...]

`python -m tests.benchmarks.trees_tables RESULTS.jsonl` prints the tables.
"""

import argparse
import time

import numpy as np

import pymc_spn as ps
from pymc_spn.trees.chipman_kernels import chipman_sweep
from pymc_spn.trees.features import make_features, make_rules
from pymc_spn.trees.leaves import make_leaf_prior, make_response
from pymc_spn.trees.weighting import island_weights
from tests.benchmarks.trees_problem import PAPER, Results, fit, read_problem, score, smoothed

PARTICLES = (10, 100, 1000, 2000)
VARIANTS = {
    "paper": PAPER,
    "alpha_s .8": PAPER | {"alpha_s": 0.8},
    "beta_s .2": PAPER | {"beta_s": 0.2},
    "both": PAPER | {"alpha_s": 0.8, "beta_s": 0.2},
    "alpha 1": PAPER | {"alpha": 1.0},
}
CHECKPOINTS = (0.3, 1.0, 3.0)  # CPU seconds of MCMC


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
        weighed = ps.TreePosterior(post._draws, island_weights(post._draws, weights))
        extra = time.process_time() - begin
        accuracy, log_p = score(weighed.predict_proba(X_new).values, y_new)
        out[weights] = {"seconds": seconds + extra, "accuracy": accuracy, "log_p": log_p, **fixed}
    return out


def hyperparameters(data, results, seeds):
    """Figures 4 to 7, node-wise, with MCMC beside it."""
    for name in ("pendigits", "magic04"):
        for seed in range(seeds):
            problem = read_problem(data, name, seed)
            for label, variant in VARIANTS.items():
                for proposal in ("optimal", "prior"):
                    for m in PARTICLES if proposal == "prior" else PARTICLES[:2]:
                        key = f"hyper/{name}/{label}/{proposal}/{m}/{seed}"
                        settings = {"particles": m, "islands": 1, "proposal": proposal, **variant}
                        results.run(key, lambda p=problem, s=seed, a=settings: fit(p, s, **a))
                for seconds in CHECKPOINTS:
                    if f"mcmc/{name}/{label}/{seconds}/{seed}" not in results.cells:
                        chains = mcmc(problem, seed, variant)
                        for at, cell in chains.items():
                            results.run(f"mcmc/{name}/{label}/{at}/{seed}", lambda c=cell: c)
                        break


def mcmc(problem, seed, variant):
    """One chain of grow, prune, change and swap; the average of its second half at each checkpoint."""
    X, y, X_new, y_new = problem
    features = make_features(X)
    coded, family = ps.leaves.ClassLeaves(variant["alpha"]).code(y)
    response = make_response(family, coded)
    n_classes = len(family.levels)
    leaf = make_leaf_prior("classes", np.array([variant["alpha"]]), n_classes, len(y), 0.0)
    rules = make_rules(variant["alpha_s"], variant["beta_s"], None, 2)
    rng, tree = np.random.default_rng(seed), np.array([[-1, 0, 0, -1]], np.int32)
    chipman_sweep(rng, features.codes, response, leaf, rules, tree, 1, 1.0)
    kept, out, spent, moves = [], {}, 0.0, 0
    for at in CHECKPOINTS:
        while spent < at:
            begin = time.process_time()
            tree, *_ = chipman_sweep(rng, features.codes, response, leaf, rules, tree, 50, 1.0)
            spent += time.process_time() - begin
            moves += 50
            kept.append(tree)
        half = kept[len(kept) // 2 :]
        chosen = [half[i] for i in np.unique(np.linspace(0, len(half) - 1, 50).astype(int))]
        post = posterior_of(chosen, features, coded, family, variant)
        accuracy, log_p = score(post.predict_proba(X_new).values, y_new)
        joint = post.log_joint.values
        out[at] = {
            "seconds": spent,
            "accuracy": accuracy,
            "log_p": log_p,
            "moves": moves,
            "log_joint": float(joint[-1]),
        }
    return out


def posterior_of(trees, features, coded, family, variant):
    """Equal weights on trees."""
    from pymc_spn.trees.draws import TreeDraws
    from pymc_spn.trees.leaves import family_to_json

    n = len(trees)
    return ps.TreePosterior(
        TreeDraws(
            name="tree",
            features=features,
            y=coded,
            family=family_to_json(family),
            decisions=np.concatenate(trees),
            begin=np.cumsum([0] + [len(t) for t in trees]).astype(np.int64),
            weights=np.full(n, 1.0 / n),
            group=np.zeros(n, np.int64),
            draw=np.arange(n),
            parameters=np.full((n, 1), variant["alpha"]),
            rules=np.tile([variant["alpha_s"], variant["beta_s"]], (n, 1)),
            max_depth=-1,
            min_size=2,
            notes={},
        )
    )


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
