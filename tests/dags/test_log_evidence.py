"""Log evidence as an operation: its value and its gradient."""

import numpy as np
import pandas as pd
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
