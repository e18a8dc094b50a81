"""The main job on a real table: learn a joint distribution with gaps, check it, and ask it questions.

The table is scikit-learn's iris data: 150 flowers, four measurements and the species. A fifth of the rows is held out,
a tenth of the training cells is blanked. Run it with ``python examples/quickstart.py``; it prints its
numbers and writes ``quickstart.png`` next to where it is run (``--figure`` chooses another place).
"""

import argparse
import time

import arviz as az
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture

import pymc_spn as ps

SEED = 1
TARGET = "species"


def iris_table():
    """The iris data, in centimetres, as a DataFrame with a categorical column."""
    bunch = load_iris(as_frame=True)
    iris = bunch.data.rename(columns=lambda name: name.removesuffix(" (cm)").replace(" ", "_"))
    return iris.assign(**{TARGET: pd.Categorical.from_codes(bunch.target, bunch.target_names)})


def split_and_blank(table, rng, held_out=0.2, blanked=0.1):
    """Complete training rows, the same rows with blanked cells, the mask of these cells, and the held-out rows."""
    order = rng.permutation(len(table))
    n_test = round(held_out * len(table))
    complete = table.iloc[order[n_test:]].reset_index(drop=True)
    gaps = pd.DataFrame(rng.random(complete.shape) < blanked, columns=complete.columns)
    return complete, complete.mask(gaps), gaps, table.iloc[order[:n_test]].reset_index(drop=True)


def best_mixture(train, rng):
    """Gaussian mixture of any covariance type, up to six components, by BIC."""
    fits = [
        GaussianMixture(k, covariance_type=kind, n_init=5, reg_covar=1e-3, random_state=int(rng.integers(2**31)))
        for kind in ("full", "tied", "diag")
        for k in range(1, 7)
    ]
    scale = train.std()
    best = min((m.fit(train / scale) for m in fits), key=lambda m: m.bic(train / scale))
    return best, lambda df: best.score_samples(df / scale) - np.log(scale).sum()


def main():
    """Model, sample, diagnose, compare, query, impute, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default="quickstart.png", help="where the figure is written")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--tune", type=int, default=500)
    arguments = parser.parse_args()
    rng = np.random.default_rng(SEED)
    complete, train, gaps, test = split_and_blank(iris_table(), rng)
    print(f"{len(train)} training rows with {int(gaps.to_numpy().sum())} blanked cells, {len(test)} held out\n")

    # 1. the model: columns' kinds come from the dtypes, their splits from the rows, missing cells are summed out
    with pm.Model():
        ps.SPN("iris", observed=train)
        begin = time.perf_counter()
        idata = pm.sample(
            arguments.draws,
            tune=arguments.tune,
            chains=4,
            cores=2,
            random_seed=SEED,
            spn={"sweeps": 6},
            progressbar=False,
        )
        print(f"sampling took {time.perf_counter() - begin:.0f} s, compilation included\n")
    print(az.summary(idata, var_names=["iris_log_joint", "iris_concentration"]), "\n")

    # 2. held-out density, against a Gaussian mixture that saw the cells that were blanked for us
    post = ps.SPNPosterior.from_idata(idata)
    numeric = [c for c in train.columns if c != TARGET]
    ours = post.marginal(numeric).log_density(test[numeric])
    mixture, mixture_log_density = best_mixture(complete[numeric], rng)
    theirs = mixture_log_density(test[numeric])
    gain = ours.to_numpy() - theirs
    print("held-out log density, nats a row (4 measurements)")
    print(f"  sum-product network  {float(ours.mean()):8.2f}")
    print(f"  Gaussian mixture     {theirs.mean():8.2f}   ({mixture.n_components} {mixture.covariance_type}, by BIC)")
    print(f"  difference           {gain.mean():8.2f} +- {gain.std(ddof=1) / np.sqrt(len(gain)):.2f}\n")

    # 3. conditional queries: exact for every draw, averaged over the posterior
    event = {"petal_length": (5.0, None)}
    for species in train[TARGET].cat.categories:
        chance = post.probability(event, given={TARGET: {species}})
        print(f"P(petal length >= 5 cm | {species}) = {float(chance):.3f}")
    width = post.mean(given={"petal_length": 5.0}).sel(column="petal_width")
    print(f"E[petal width | petal length = 5 cm] = {float(width):.2f} cm\n")

    # 4. the blanked cells, imputed
    tables = post.impute(train, n=50, random_seed=SEED)
    imputed = np.mean([t[numeric].to_numpy() for t in tables], axis=0)
    hidden = gaps[numeric].to_numpy()
    scale = complete[numeric].std().to_numpy()
    error = ((imputed - complete[numeric].to_numpy()) / scale)[hidden]
    by_mean = ((train[numeric].mean().to_numpy() - complete[numeric].to_numpy()) / scale)[hidden]
    labels = np.array([t[TARGET].astype(str) for t in tables])[:, gaps[TARGET]]
    truth = complete.loc[gaps[TARGET], TARGET].astype(str).to_numpy()
    print("blanked cells, root mean square error in standard deviations of the column")
    print(f"  sum-product network  {np.sqrt((error**2).mean()):.3f}")
    print(f"  column means         {np.sqrt((by_mean**2).mean()):.3f}")
    print(f"blanked species: mean probability of the true one {np.mean(labels == truth):.2f} ({len(truth)} cells)\n")

    draw_figure(post, complete, arguments.figure)
    print(f"figure written to {arguments.figure}")


def draw_figure(post, complete, path):
    """Conditional densities of a column, large enough to be read on a phone."""
    plt.rcParams.update({"font.size": 15})
    figure, axes = plt.subplots(figsize=(6.5, 5), layout="constrained")
    grid = np.linspace(complete["petal_width"].min(), complete["petal_width"].max(), 200)
    for k, species in enumerate(complete[TARGET].cat.categories):
        given = post.condition({TARGET: {species}}).marginal(["petal_width"])
        density, low, high = np.exp(given.log_density(pd.DataFrame({"petal_width": grid}), interval=0.9))
        axes.fill_between(grid, low, high, alpha=0.25, color=f"C{k}")
        axes.plot(grid, density, color=f"C{k}", lw=2, label=species)
        seen = complete.loc[complete[TARGET] == species, "petal_width"]
        axes.plot(seen, np.full(len(seen), -0.15 * (k + 1)), "|", color=f"C{k}", ms=8)
    axes.set(xlabel="petal width (cm)", ylabel="density given the species")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
