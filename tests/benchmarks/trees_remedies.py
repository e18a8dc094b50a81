"""Remedies for the unreliable evidence on real data, alpha learned by NUTS, and the time of a prediction.

    python -m tests.benchmarks.trees_remedies DATA --out RESULTS.jsonl [--seeds 2] [--parts ...]

Particle Gibbs refreshes each island's tree after the filter. Results go to the file that `trees_tables` reads.
"""

import argparse
import time
import warnings

import numpy as np
import pymc as pm

import pymc_spn as ps
from tests.benchmarks.trees_problem import Results, read_problem, score


def remedies(data, results, seeds):
    for name in ("pendigits", "magic04"):
        for seed in range(seeds):
            problem = read_problem(data, name, seed)
            for label, make in METHODS.items():
                results.run(f"remedy/{name}/{label}/{seed}", lambda p=problem, s=seed, f=make: f(p, s))


def filtered(particles):
    def run(problem, seed):
        X, y, X_new, y_new = problem
        begin = time.process_time()
        post = ps.fit_tree(X, y, ps.leaves.ClassLeaves(5.0), particles=4 * particles, weights="equal", random_seed=seed)
        seconds = time.process_time() - begin
        return {
            "seconds": seconds,
            "log_z": float(post.log_evidence),
            "spread": float(post.log_evidence_se.attrs["spread"]),
            "log_joint": float(post.log_joint.max()),
            "log_p": score(post.predict_proba(X_new).values, y_new)[1],
        }

    return run


def refreshed(sweeps):
    """Four chains of particle Gibbs; evidence: mean over sweeps of the log estimates of the conditional filter."""

    def run(problem, seed):
        X, y, X_new, y_new = problem
        with pm.Model():
            ps.TreeResponse("y", ps.DecisionTree("t", X), family=ps.leaves.ClassLeaves(5.0), observed=y)
            begin = time.process_time()
            idata = pm.sample(
                sweeps,
                tune=sweeps,
                chains=4,
                cores=1,
                random_seed=seed,
                progressbar=False,
                quiet=True,
                compute_convergence_checks=False,
                particle_gibbs_tree={"particles": 10},
            )
            seconds = time.process_time() - begin
        post = ps.TreePosterior.from_idata(idata)
        log_z = idata.sample_stats["t_log_evidence"].mean("draw")
        return {
            "seconds": seconds,
            "log_z": float(log_z.mean()),
            "spread": float(log_z.std(ddof=1)),
            "log_joint": float(idata.posterior["t_log_joint"].max()),
            "log_p": score(post.predict_proba(X_new).values, y_new)[1],
        }

    return run


METHODS = {
    "filter, 4 x 100 particles": filtered(100),
    "particle Gibbs, 4 x 10 + 10 sweeps of 10": refreshed(10),
}


def learned(data, results, seeds):
    """alpha ~ Gamma(2, 0.5) by NUTS beside particle Gibbs."""
    for name in ("pendigits", "magic04"):
        for seed in range(seeds):
            problem = read_problem(data, name, seed)
            results.run(f"learned/{name}/{seed}", lambda p=problem, s=seed: learn(p, s))


def learn(problem, seed):
    X, y, X_new, y_new = problem
    with pm.Model():
        alpha = pm.Gamma("alpha", 2, 0.5)
        ps.TreeResponse("y", ps.DecisionTree("t", X), family=ps.leaves.ClassLeaves(alpha), observed=y)
        begin = time.process_time()
        idata = pm.sample(
            50,
            tune=50,
            chains=2,
            cores=1,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
        seconds = time.process_time() - begin
    accuracy, log_p = score(ps.TreePosterior.from_idata(idata).predict_proba(X_new).values, y_new)
    return {
        "seconds": seconds,
        "alpha": float(idata.posterior["alpha"].mean()),
        "alpha_sd": float(idata.posterior["alpha"].std()),
        "log_joint": float(idata.posterior["t_log_joint"].mean()),
        "accuracy": accuracy,
        "log_p": log_p,
    }


def prediction(data, results, seeds):
    """T5: 3498 rows by 100 trees, the first call included."""
    for seed in range(seeds):
        X, y, X_new, _ = read_problem(data, "pendigits", seed)
        ps.fit_tree(X, y, islands=1, particles=2, random_seed=0).predict_proba(X_new[:5])

        def run(seed=seed, X=X, y=y, X_new=X_new):
            post = ps.fit_tree(X, y, islands=1, random_seed=seed)
            seconds = []
            for _ in range(5):
                begin = time.process_time()
                post.predict_proba(X_new)
                seconds.append(time.process_time() - begin)
            return {"first_seconds": seconds[0], "seconds": float(np.median(seconds[1:]))}

        results.run(f"t5/pendigits/{seed}", run)


PARTS = {"prediction": prediction, "learned": learned, "remedies": remedies}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds pendigits.npz and magic04.npz")
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    options = arguments.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    results = Results(options.out)
    for part in options.parts:
        PARTS[part](options.data, results, options.seeds)


if __name__ == "__main__":
    main()
