"""Three ways to the scale of the leaves under one CPU budget: sampled, tuned empirical priors, and variational Bayes.

    python -m tests.benchmarks.circuits_variational DATA --tables wine abalone --budget 4 --seeds 0 1 2 3

Needs Optuna for the second. Each table is split 8:1:1 by ``np.random.default_rng(seed)``; numeric columns are
dequantised on their recording grid by the script, levels are scored as mass. Mean log density of the test rows, in
nats a row:

* ``sampled``: the default sampler, all hyperparameters learned, draws after a fifth of the budget;
* ``tuned``: half of the budget for TPE on validation rows (a trial is a variational fit), the other half for the
  sampler with the priors found, leaf scale 1, all other hyperparameters learned as in ``sampled``;
* ``variational``: coordinate ascent with all hyperparameters estimated, restarted until the budget is used up.
"""

import argparse
import time

import numpy as np

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.palette import choose_coding, complete_palette
from pymc_spn.networks.hyperparameter_inputs import PRIORS
from pymc_spn.networks.learners import STARTS, fit_variational
from pymc_spn.networks.posterior import SPNPosterior
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.record import Record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.networks.tuning import tune_leaf_priors
from pymc_spn.tables import Table
from tests.benchmarks.table_rules import dequantised, parted

KEPT = 60  # draws that are averaged at most
WARM_UP = 0.2  # share of the budget


def read_splits(data, name, seed):
    """Training, validation and test table of dequantised rows."""
    whole = dequantised(data, name)
    order = np.random.default_rng(seed).permutation(len(whole.train.values))
    return parted(whole, np.split(order, [int(0.8 * len(order)), int(0.9 * len(order))]))[:3]


def sampled(train, structure, budget, seed, leaves=None, leaf_scale=None, sweeps=None):
    """Posterior from one chain of the default sampler; with palettes, all but their leaf scale is learned.

    With a number of sweeps in the place of the budget it is the state after them alone.
    """
    palette, grids = complete_palette(train.columns, train.values, leaves, 0.0)
    centre, scale = choose_coding(palette, train.values, train.columns)
    schema = NetworkSchema(
        "x", structure, tuple(train.columns), tuple(map(tuple, palette)), tuple(grids.tolist()),
        tuple(centre.tolist()), tuple(scale.tolist()), {g: {"fixed": []} for g in HYPERPARAMETERS},
    )  # fmt: skip
    n_columns = len(train.columns)
    values = [np.full(2 if g == "concentration" else n_columns, STARTS[g]) for g in HYPERPARAMETERS]
    owned = np.zeros((4, max(2, n_columns)), np.bool_)
    owned[0, :2] = True
    owned[2:, schema.gaussian_columns] = True
    if leaf_scale is None:
        owned[1, :n_columns] = True
    else:
        values[1][:] = leaf_scale
    priors = np.array([PRIORS[g] for g in HYPERPARAMETERS], np.float64)
    rng = np.random.default_rng(seed)
    chain = Chain(schema, train.values)
    begin = time.process_time()
    chain.start(rng, tuple(values))
    draws, n_sweeps = [], 0
    while (time.process_time() - begin < budget or not draws) if sweeps is None else n_sweeps < sweeps:
        chain.sweep(rng)
        chain.set_hyperparameters(chain.update_hyperparameters(rng, owned, priors))
        n_sweeps += 1
        if n_sweeps == sweeps or (sweeps is None and time.process_time() - begin > WARM_UP * budget):
            draws.append((chain.sampler.digits(), [np.array(h) for h in chain.sampler.hyperparameters]))
    draws = [draws[i] for i in np.unique(np.linspace(0, len(draws) - 1, min(KEPT, len(draws))).astype(int))]
    digits = np.stack([d for d, _ in draws])[None]
    own = {g: np.stack([h[i] for _, h in draws])[None] for i, g in enumerate(HYPERPARAMETERS)}
    one = np.zeros(1, np.int64)
    runs = np.zeros((1, len(draws)), np.int64)
    labels = np.arange(len(train.values)), digits, one, np.arange(len(draws))
    record = Record(schema, train.values, *labels, own, {}, runs)
    return SPNPosterior(RecordedLaw(RecordedStates(record))), f"{n_sweeps} sweeps"


def tuned(train, validation, structure, budget, seed):
    """Empirical priors by as many trials as half of the budget holds, then the sampler."""
    begin = time.process_time()
    trial = time.process_time()
    tune_leaf_priors(train, structure, validation, n_trials=1, resolution=0.0, random_seed=seed)
    seconds = time.process_time() - trial
    n_trials = max(1, int((0.5 * budget - seconds) / seconds))
    found = tune_leaf_priors(train, structure, validation, n_trials=n_trials, resolution=0.0, random_seed=seed)
    left = max(budget - (time.process_time() - begin), 0.1 * budget)
    post, sweeps = sampled(train, structure, left, seed, found.leaves, 1.0)
    return post, f"{n_trials} trials, {sweeps}"


def variational(train, structure, budget, seed):
    """The restart with the highest bound among as many as the budget holds."""
    begin, best, restarts = time.process_time(), None, 0
    while best is None or (time.process_time() - begin) * (1.0 + 1.0 / restarts) < budget:
        post = fit_variational(
            train, structure, joint_leaves=None, resolution=0.0, restarts=1, random_seed=1000 * seed + restarts
        )
        restarts += 1
        value = float(post.trace().max())
        best = (value, post) if best is None or value > best[0] else best
    return best[1], f"{restarts} restarts"


def runs(train, validation, structure, budget, seed):
    """The three ways, one after the other."""
    yield sampled(train, structure, budget, seed)
    yield tuned(train, validation, structure, budget, seed)
    yield variational(train, structure, budget, seed)


def main():
    """Print one row for each table: differences to `sampled`, paired over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--tables", nargs="+", default=["wine", "abalone"])
    parser.add_argument("--budget", type=float, default=4.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--children", default="infinite")
    options = parser.parse_args()
    width = options.children if options.children == "infinite" else int(options.children)
    print("| table | rows x columns | sampled | tuned - sampled | variational - sampled | work |")
    print("|---|---|--:|--:|--:|---|", flush=True)
    for name in options.tables:
        results = []
        for seed in options.seeds:
            train, validation, test = read_splits(options.data, name, seed)
            structure = complete_tree(train.columns, n_children=width)
            if seed == options.seeds[0]:  # compile everything before the clock runs
                small = [Table(t.columns, t.values[:40], t.index[:40]) for t in (train, validation)]
                for warm, _ in runs(*small, structure, 0.01, seed):
                    warm.log_density(test)
            found = list(runs(train, validation, structure, options.budget, seed))
            results.append([float(post.log_density(test).mean()) for post, _ in found])
            work = "; ".join(done for _, done in found)
        results = np.array(results)
        differences = results[:, 1:] - results[:, :1]
        error = differences.std(axis=0, ddof=1) / np.sqrt(len(results)) if len(results) > 1 else [np.nan] * 2
        paired = " | ".join(f"{m:+.2f} ± {e:.2f}" for m, e in zip(differences.mean(axis=0), error, strict=True))
        size = f"{len(train.values)} x {len(train.columns)}"
        print(f"| {name} | {size} | {results[:, 0].mean():.2f} | {paired} | {work} |", flush=True)


if __name__ == "__main__":
    main()
