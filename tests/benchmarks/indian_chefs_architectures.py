"""Convolutional architectures under an Indian chefs process prior: section 4.2 and Figure 5 of the paper, on CPU.

    python -m tests.benchmarks.indian_chefs_architectures --out FOLDER [--chains 3] [--draws 120]

Scikit-learn's digits of 8 x 8 pixels, three classes; two thirds of the rows are fitted, the others are the test set.
The log evidence of a graph is the log likelihood at trained weights from a cold start, equation (21): an
approximation. Chains are saved one by one in FOLDER, and those that it holds already are not run again.

Every figure stands beside the same one for draws from the prior.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

import pymc_spn as ps
from examples.convolutional.architecture import architecture_of
from examples.convolutional.evidence import ArchitectureEvidence
from examples.convolutional.ops import architecture_log_evidence
from tests.benchmarks.report import QUIET, finish, markdown_table

NUMBERS = {"alpha": 1.0, "gamma": 1.5, "phi": 5.0}
NAMES = ("accuracy", "nodes", "degree", "width", "depth")
OF_NODES = ("mean", "sd", "min", "max")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", required=True, help="folder of the chains, continued if it holds some")
    arguments.add_argument("--classes", type=int, nargs="+", default=[1, 2, 3])
    arguments.add_argument("--chains", type=int, default=3)
    arguments.add_argument("--draws", type=int, default=120)
    arguments.add_argument("--tune", type=int, default=20)
    arguments.add_argument("--steps", type=int, default=100, help="training steps of each network")
    arguments.add_argument("--held-out", type=int, default=0, help="training rows that are scored, and not fitted")
    arguments.add_argument("--max-nodes", type=int, default=16)
    options = arguments.parse_args()
    evidence, test = digits(options.classes, options.steps, options.held_out)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    for chain in range(options.chains):
        path = folder / f"chain_{chain}.nc"
        if not path.exists():
            begin, known = time.process_time(), evidence.n_trained
            idata = sample(evidence, chain, options.draws, options.tune, options.max_nodes)
            idata.attrs.update(cpu_seconds=time.process_time() - begin, trained=evidence.n_trained - known)
            idata.to_netcdf(path, engine="h5netcdf")
    idata = merged([folder / f"chain_{chain}.nc" for chain in range(options.chains)])
    draws = ps.GraphDraws.from_idata(idata)
    posterior = evaluated(draws.reputations().values, draws.graphs().values, evidence, *test)
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    prior = evaluated(*prior_draws(n, options.max_nodes), evidence, *test)
    sections = [
        ("Posterior", scalars_table(posterior)),
        ("Prior, as many draws", scalars_table(prior)),
        ("Ensembles", ensemble_table(posterior, prior, np.searchsorted(evidence.classes, test[1]))),
        ("Rank correlations of accuracy", correlation_table(posterior, prior)),
        ("Cold starts", noise_table(draws, evidence)),
        ("Chains", chain_table(idata, evidence)),
    ]
    finish(sections)


def digits(classes, steps, n_held_out=0):
    """Evidence of the digits of these classes on two thirds of their rows, and the other rows as the test set."""
    x, y = load_digits(return_X_y=True)
    kept = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, classes)))
    images, labels = x[kept].reshape(-1, 8, 8) / 16.0, y[kept]
    n = 2 * len(kept) // 3
    fitted = n - n_held_out
    evidence = ArchitectureEvidence(
        images[:fitted],
        labels[:fitted],
        held_out=(images[fitted:n], labels[fitted:n]) if n_held_out else None,
        steps=steps,
        batch_size=64,
        rate=0.03,
    )
    return evidence, (images[n:], labels[n:])


def sample(evidence, chain, draws, tune, max_nodes, **settings):
    """One chain over architectures."""
    with pm.Model():
        g = ps.IndianChefsProcess(
            "g",
            **NUMBERS,
            observed_nodes=["image", "label"],
            reputations={"image": 1.0, "label": 0.0},
            max_nodes=max_nodes,
        )
        pm.Potential("evidence", architecture_log_evidence(g, evidence, "image", "label"))
        step = ps.steps.IndianChefsStep(repeats=3, parent_sets=1)
        return pm.sample(draws, tune=tune, chains=1, step=step, random_seed=[1000 + chain], **QUIET, **settings)


def merged(paths):
    """Chains of several files as one DataTree."""
    trees = []
    for path in paths:
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            trees.append(opened.load())
    groups = {"constant_data": trees[0]["constant_data"].to_dataset()}
    for group in ("posterior", "sample_stats"):
        parts = [t[group].to_dataset().assign_coords(chain=[i]) for i, t in enumerate(trees)]
        groups[group] = xr.concat(parts, "chain", combine_attrs="drop_conflicts")
    out = xr.DataTree.from_dict(groups)
    for name in ("cpu_seconds", "trained"):
        out.attrs[name] = [float(t.attrs[name]) for t in trees]
    return out


def prior_draws(n, max_nodes):
    """Reputations (1, n, K) and parents (1, n, K, K) of forward draws with no more than `max_nodes` nodes."""
    drawn = ps.indian_chefs.sample_indian_chefs(
        *NUMBERS.values(), n_observed=2, reputations=[1.0, 0.0], draws=n + n // 10 + 20, random_seed=1
    )
    drawn = drawn.isel(draw=np.flatnonzero(drawn.n_active.values <= max_nodes)[:n])
    return drawn.reputations.values[None], drawn.parents.transpose("draw", "parent", "child").values[None]


def evaluated(reputations, parents, evidence, images, labels):
    """Dataset (chain, draw) of Figure 5's numbers, the log evidence, and the test set's label probabilities.

    Every different architecture is trained once more, to the same weights.
    """
    n_chains, n_draws = reputations.shape[:2]
    codes, known = np.searchsorted(evidence.classes, labels), {}
    rows = []
    for place in np.ndindex(n_chains, n_draws):
        n = int(np.isfinite(reputations[place]).sum())
        theta = reputations[place][:n]
        architecture = architecture_of(theta, parents[place][:n, :n], 0, 1, evidence.n_bins)
        if architecture.key not in known:
            network = evidence.train(architecture)
            p = evidence.predict_proba(network, images)
            known[architecture.key] = {
                **architecture.statistics(),
                "accuracy": float((p.argmax(1) == codes).mean()),
                "log_evidence": network.log_evidence,
                "probabilities": p,
            }
        row = known[architecture.key] | {"kind": list(known).index(architecture.key)}
        hidden = theta[2:] if n > 2 else np.full(1, np.nan)
        rows.append(row | {k: float(getattr(np, {"sd": "std"}.get(k, k))(hidden)) for k in OF_NODES})
    data = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        data[name] = (
            ("chain", "draw", "row", "class")[: values.ndim + 1],
            values.reshape(n_chains, n_draws, *values.shape[1:]),
        )
    return xr.Dataset(data, {"chain": np.arange(n_chains), "draw": np.arange(n_draws)})


def scalars_table(data):
    """Mean, spread, R-hat and effective draws; those of independent draws are the number of draws."""
    rows = []
    for name in (*NAMES, "log_evidence"):
        x = data[name].values.astype(float)
        several = x.shape[0] > 1 and np.ptp(x) > 0
        rhat, ess = (float(np.asarray(f(x))) if several else np.nan for f in (az.rhat, az.ess))
        rows.append([name, x.mean(), x.std(), x.min(), float(np.median(x)), x.max(), rhat, ess])
    return markdown_table(["", "mean", "sd", "min", "median", "max", "R-hat", "ESS"], rows)


def ensemble_table(posterior, prior, codes):
    """Accuracy of averaged label probabilities beside that of single architectures; the paper's from MNIST."""
    rows = [["paper (MNIST, 4,500 architectures)", 0.95, 0.91, None, 0.99, None]]
    for name, data in (("posterior", posterior), ("prior", prior)):
        p = data["probabilities"].mean(("chain", "draw")).values
        single = data["accuracy"].values
        n_kinds = len(np.unique(data["kind"]))
        rows.append([name, float((p.argmax(1) == codes).mean()), single.mean(), single.min(), single.max(), n_kinds])
    return markdown_table(["", "ensemble", "mean", "lowest", "highest", "different architectures"], rows)


def correlation_table(posterior, prior):
    rows = []
    for name, data in (("posterior", posterior), ("prior", prior)):
        accuracy = data["accuracy"].values.ravel()
        rows.append([name, *(float(spearmanr(data[k].values.ravel(), accuracy)[0]) for k in NAMES[1:])])
    return markdown_table(["", *NAMES[1:]], rows)


def noise_table(draws, evidence, n=20):
    """Spread of the log evidence over cold starts of one architecture, beside its spread over architectures."""
    theta, z = draws.reputations().values, draws.graphs().values
    n = min(n, theta.shape[0] * theta.shape[1])
    places = np.random.default_rng(0).choice(theta.shape[0] * theta.shape[1], n, replace=False)
    others = [replace(evidence, random_seed=seed) for seed in (1, 2, 3)]
    scores = []
    for place in places:
        t, g = (a.reshape(-1, *a.shape[2:])[place] for a in (theta, z))
        k = int(np.isfinite(t).sum())
        scores.append([e.log_evidence(t[:k], g[:k, :k]) for e in (evidence, *others)])
    scores = np.array(scores)
    rows = [["the run's", *spread(scores[:, 0])], ["three other starts", *spread(scores[:, 1:].ravel())]]
    rows.append(
        ["sd over the other starts, median over architectures", None, float(np.median(scores[:, 1:].std(1, ddof=1)))]
    )
    return markdown_table([f"log evidence of {n} posterior architectures", "median", "sd"], rows)


def spread(x):
    return [float(np.median(x)), float(x.std())]


def chain_table(idata, evidence):
    stats = idata["sample_stats"].to_dataset()
    rows = []
    for c in range(stats.sizes["chain"]):
        one = stats.isel(chain=c)
        rows.append(
            [
                str(c),
                idata.attrs["cpu_seconds"][c],
                int(idata.attrs["trained"][c]),
                float(one.g_n_nodes.mean()),
                float(one.g_log_likelihood.mean()),
                float(one.g_births_accepted.sum() / one.g_births_tried.sum()),
                int(one.g_births_refused.sum()),
            ]
        )
    header = [
        "chain",
        "CPU s",
        "networks trained",
        "mean K+",
        "mean log evidence",
        "births and splits accepted",
        "refused",
    ]
    return markdown_table(header, rows)


if __name__ == "__main__":
    main()
