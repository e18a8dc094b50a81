"""`az.loo` on a model with `CircuitDensity`, against leave-one-out predictives integrated on a grid."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.densities.circuit_density import CircuitDensity
from tests.shared_circuits import build

ROWS = pd.DataFrame(
    {
        "a": [-0.4, 0.3, 3.6, 1.1, 4.8, -1.2, 0.7, 3.1, np.nan, 2.0, -0.1, 7.5],
        "b": [0.2, -0.6, 2.1, 0.4, np.nan, -0.9, 1.3, 2.8, 1.9, -0.3, 0.5, 2.2],
    },
    index=[f"r{i}" for i in range(12)],
)
TWO_PRODUCTS = build(
    [("sum", [1, 2]), ("product", [3, 4]), ("product", [5, 6]), *[("leaf", d, "gaussian") for d in (0, 1, 0, 1)]],
    ["a", "b"],
    ("gaussian",),
)


def exact_leave_one_out(log_prior=np.zeros_like):
    """log p(row | other rows) (12,), without a circuit: the two parameters are integrated on a grid.

    weight ~ Uniform(0, 1) unless `log_prior` is given, and shift ~ N(0, 2); the rows are
    ``weight N(0, 1) N(0, 1) + (1 - weight) N(3 + shift, 1.2) N(2, 0.8)``, a missing cell has density 1.
    """
    weight = (np.arange(400) + 0.5)[:, None, None] / 400
    shift = np.linspace(-12.0, 12.0, 1_201)[None, :, None]
    a, b = ROWS["a"].to_numpy(), ROWS["b"].to_numpy()

    def cells(x, mean, sd):
        return np.where(np.isnan(x), 1.0, stats.norm.pdf(x, mean, sd))

    rows = np.log(
        weight * cells(a, 0.0, 1.0) * cells(b, 0.0, 1.0)
        + (1.0 - weight) * cells(a, 3.0 + shift, 1.2) * cells(b, 2.0, 0.8)
    )
    whole = rows.sum(axis=2, keepdims=True) + stats.norm.logpdf(shift, 0.0, 2.0) + log_prior(weight)
    return logsumexp(whole, axis=(0, 1)) - logsumexp(whole - rows, axis=(0, 1))


def sampled(observed):
    """Draws with the pointwise log likelihood of the circuit's rows."""
    with pm.Model():
        log_weights = ps.circuits.dirichlet_log_weights(TWO_PRODUCTS, 1.0, "w")  # uniform
        shift = pm.Normal("shift", 0.0, 2.0)
        parameters = pt.stack(
            [pt.stack([0.0, 0.0, 3.0 + shift, 2.0]), pt.as_tensor(np.array([1.0, 1.0, 1.2, 0.8]))], axis=1
        )
        CircuitDensity("x", TWO_PRODUCTS, log_weights, {"gaussian": parameters}, observed=observed)
        idata = pm.sample(
            1_500, tune=800, chains=2, cores=1, random_seed=5, progressbar=False, nuts_sampler="pymc",
            compute_convergence_checks=False,
        )  # fmt: skip
        return pm.compute_log_likelihood(idata, progressbar=False)


def test_loo_is_the_leave_one_out_predictive():
    """A row's estimate may be off by four Monte Carlo standard errors and two more for Pareto smoothing.

    The standard error is that of the mean of 1 / p(row | draw), relative to the mean (delta method, effective draws by
    ArviZ). Smoothing replaces the largest 3 sqrt(draws) weights by quantiles of a fitted Pareto distribution; while its
    k stays below 0.5 weights have a variance, and what it changes is within the standard error of what it
    replaces. The same limit holds for the sum over rows. Densities of rows that are not left out, and a Beta(4, 4)
    prior of the weight in place of the uniform one, are outside of it.
    """
    idata = sampled(ROWS)
    found, exact = az.loo(idata, pointwise=True), exact_leave_one_out()
    assert found.n_data_points == len(ROWS) and list(found.elpd_i["x_row"].values) == list(ROWS.index)
    assert float(found.pareto_k.max()) < 0.5
    logs = idata["log_likelihood"]["x"]
    ratios = np.exp(-logs) / np.exp(-logs).mean(["chain", "draw"])
    error, whole_error = standard_error(ratios), float(standard_error(ratios.sum("x_row")))
    difference = found.elpd_i.values - exact
    assert np.all(np.abs(difference) < 6.0 * error)
    assert abs(found.elpd - exact.sum()) < 6.0 * whole_error
    kept_in = np.log(np.exp(logs).mean(["chain", "draw"])).values
    assert np.all(np.abs(kept_in - exact) > 6.0 * error)
    assert abs(kept_in.sum() - exact.sum()) > 6.0 * whole_error
    other_prior = exact_leave_one_out(log_prior=lambda weight: 3.0 * np.log(weight * (1.0 - weight)))
    assert np.abs((other_prior - exact) / error).max() > 6.0


def standard_error(x):
    """Of the mean over chains and draws."""
    ess = az.ess(x.to_dataset(name="x"))["x"]
    return (x.std(["chain", "draw"]) / np.sqrt(ess)).values
