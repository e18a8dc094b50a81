"""Log evidence as an operation: its value, its gradient, and NUTS over hyperparameters against a grid."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from reference_dags import table

import pymc_spn as ps

CASES = {
    "t": (lambda x: ps.BGe(prior_scale=x), lambda x: "fair", table(4)),
    "penalty": (lambda x: ps.BGe(), lambda x: ps.dags.EdgePenalty(x), table(4)),
    "ess": (
        lambda x: ps.BDeu(x),
        lambda x: "uniform",
        pd.DataFrame({c: pd.Categorical((table(4)[c] > 0).astype(int) + (table(4)[c] > 1)) for c in "abcd"}),
    ),
}


def direct(df, score, prior, **options):
    """The same by building both posteriors: with the data, and of the prior alone."""
    total = ps.OrderSPN.exact(ps.LocalScores.from_data(df, score, prior, **options)).log_mass
    nothing = ps.LocalScores.from_data(df, lambda child, parents: 0.0, prior, **options)
    return float(total - ps.OrderSPN.exact(nothing).log_mass)


@pytest.mark.parametrize(("name", "mode"), [("t", "NUMBA"), ("penalty", "FAST_COMPILE"), ("ess", "FAST_COMPILE")])
def test_value_and_gradient(name, mode):
    score, prior, df = CASES[name]
    x = pt.dscalar("x")
    options = {"required": [("a", "b")], "forbidden": [("c", "d")]}
    value = ps.dags.dag_log_evidence(df, score(x), prior(x), **options)
    both = pytensor.function([x], [value, pytensor.grad(value, x)], mode=mode)
    for at in (0.4, 1.7):
        log_evidence, slope = both(at)
        assert log_evidence == pytest.approx(direct(df, score(at), prior(at), **options), abs=1e-9)
        step = 1e-5
        difference = (both(at + step)[0] - both(at - step)[0]) / (2 * step)
        assert slope == pytest.approx(difference, rel=1e-6, abs=1e-7)


def test_a_large_equivalent_sample_size_draws_no_chain_away():
    """Evidence and slope in log ess: a chain that met 1e15 found a mode there, which was rounding."""
    _, _, df = CASES["ess"]
    x = pt.dscalar("x")
    value = ps.dags.dag_log_evidence(df, ps.BDeu(pt.exp(x)), "uniform")
    both = pytensor.function([x], [value, pytensor.grad(value, x)], mode="FAST_COMPILE")
    limit = -df.size * np.log(3.0)
    for at in (30.0, 40.0, 70.0, 600.0):
        assert both(at)[0] == pytest.approx(limit, abs=1e-6) and abs(both(at)[1]) < 1e-6


def test_interventions_and_tiers_are_kept():
    df = table(4)
    mask = np.zeros(df.shape, bool)
    mask[:15, 2] = True
    options = {"interventions": mask, "tiers": [["a", "b"], ["c", "d"]]}
    value = ps.dags.dag_log_evidence(df, ps.BGe(), **options).eval()
    total = ps.OrderSPN.exact(ps.LocalScores.from_data(df, **options)).log_mass
    plain = {"tiers": options["tiers"]}
    nothing = ps.LocalScores.from_data(df, lambda child, parents: 0.0, **plain)
    assert value == pytest.approx(float(total - ps.OrderSPN.exact(nothing).log_mass), abs=1e-9)


def grid_means(df, ts, penalties, log_prior):
    x = pt.dvector("x")
    log_p = pytensor.function([x], ps.dags.dag_log_evidence(df, ps.BGe(prior_scale=x[0]), ps.dags.EdgePenalty(x[1])))
    logs = np.array([[log_p([t, k]) + log_prior(t, k) for k in penalties] for t in ts])
    p = np.exp(logs - logs.max())
    p /= p.sum()
    assert p[[0, -1]].sum() + p[:, [0, -1]].sum() < 1e-3  # the grid holds the posterior
    mean = np.array([(p.sum(axis=1) * np.log(ts)).sum(), (p.sum(axis=0) * penalties).sum()])
    second = np.array([(p.sum(axis=1) * np.log(ts) ** 2).sum(), (p.sum(axis=0) * penalties**2).sum()])
    return mean, np.sqrt(second - mean**2)


def test_nuts_learns_the_prior_scale_and_the_edge_penalty():
    """Eight variables: means of log t and of the penalty against a grid, five standard errors."""
    df = ps_table(8)
    with pm.Model():
        log_t = pm.Normal("log_t", 0.0, 1.0)
        penalty = pm.Normal("penalty", 0.0, 1.0)
        pm.Potential(
            "data", ps.dags.dag_log_evidence(df, ps.BGe(prior_scale=pm.math.exp(log_t)), ps.dags.EdgePenalty(penalty))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few draws
            idata = pm.sample(250, tune=250, chains=2, cores=1, random_seed=1, progressbar=False)
    ts, penalties = np.exp(np.linspace(-4.0, 1.5, 28)), np.linspace(-2.0, 5.0, 28)
    mean, sd = grid_means(df, ts, penalties, lambda t, k: -0.5 * np.log(t) ** 2 - 0.5 * k**2)
    import arviz as az

    summary = az.summary(idata, round_to="none")
    drawn = np.array([summary.loc[name, "mean"] for name in ("log_t", "penalty")])
    ess = np.array([summary.loc[name, "ess_bulk"] for name in ("log_t", "penalty")], float)
    assert (ess > 80).all()
    assert np.all(np.abs(drawn - mean) < 5 * sd / np.sqrt(ess))
    assert (sd < 0.8).all()  # against one of the prior: the data say something about both


def ps_table(d):
    rng = np.random.default_rng(5)
    mix = np.eye(d) + np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.4), 1)
    return pd.DataFrame(0.5 * rng.normal(size=(50, d)) @ mix, columns=[f"v{i}" for i in range(d)])


def test_refusals():
    wide = np.random.default_rng(0).normal(size=(40, 21))
    with pytest.raises(ValueError, match="sums over all 2\\^d prefixes: at most 20 variables, got 21"):
        ps.dags.dag_log_evidence(wide)
    with pytest.raises(TypeError, match="score must be a BGe or a BDeu, got 'bge'"):
        ps.dags.dag_log_evidence(table(4), "bge")
    for value in (True, "x", pt.dvector()):
        with pytest.raises(TypeError, match="BGe: prior_scale must be a number or a scalar tensor, got"):
            ps.dags.dag_log_evidence(table(4), ps.BGe(prior_scale=value))
        with pytest.raises(TypeError, match="EdgePenalty: penalty must be a number or a scalar tensor, got"):
            ps.dags.dag_log_evidence(table(4), prior=ps.dags.EdgePenalty(value))
    with pytest.raises(ValueError, match="EdgePenalty needs a finite number of nats, got nan"):
        ps.dags.dag_log_evidence(table(4), prior=ps.dags.EdgePenalty(np.nan))
    with pytest.raises(TypeError, match="BGe: prior_scale must be a number here"):
        ps.LocalScores.from_data(table(4), ps.BGe(prior_scale=pt.dscalar()))


@pytest.mark.full
def test_nuts_learns_the_equivalent_sample_size():
    """Eight discrete columns: the mean of log ess against a grid, five standard errors."""
    df = ps_table(8)
    levels = pd.DataFrame({c: pd.Categorical((df[c] > df[c].median()).astype(int)) for c in df})
    with pm.Model():
        log_ess = pm.Normal("log_ess", 0.0, 1.5)
        pm.Potential("data", ps.dags.dag_log_evidence(levels, ps.BDeu(pm.math.exp(log_ess))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few draws
            idata = pm.sample(300, tune=300, chains=2, cores=1, random_seed=1, progressbar=False)
    x = pt.dscalar("x")
    log_p = pytensor.function([x], ps.dags.dag_log_evidence(levels, ps.BDeu(pt.exp(x))))
    grid = np.linspace(-6.0, 6.0, 121)
    logs = np.array([log_p(at) for at in grid]) - 0.5 * (grid / 1.5) ** 2
    p = np.exp(logs - logs.max())
    p /= p.sum()
    mean = (p * grid).sum()
    sd = np.sqrt((p * grid**2).sum() - mean**2)
    import arviz as az

    row = az.summary(idata, round_to="none").loc["log_ess"]
    assert sd < 1.2  # the data say something
    assert abs(float(row["mean"]) - mean) < 5 * sd / np.sqrt(float(row["ess_bulk"]))
