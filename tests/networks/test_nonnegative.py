"""Columns without negative values: distributions that end at 0, zeros that repeat, and what counts as 0."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.integrate import quad

import pymc_spn as ps
from pymc_spn.events.events import Interval
from pymc_spn.gibbs.palette import leaves_near_zero, mass_below_zero
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.fitted_states import FittedStates
from tests.sampled_runs import draw, model_of

N = 300


def passengers():
    rng = np.random.default_rng(2)
    fare = np.round(np.exp(rng.normal(2.5, 0.8, N)) + 3.0, 2)
    fare[:24] = 0.0
    return pd.DataFrame({"age": np.abs(rng.normal(20.0, 15.0, N)), "fare": fare, "height": rng.normal(170.0, 8.0, N)})


@cache
def fitted():
    return ps.fit_variational(passengers(), joint_leaves=None, random_seed=1, progressbar=False)


def uncut():
    """The law of the same fit whose leaves go on below 0."""
    states = fitted()._states
    return RecordedLaw(FittedStates(replace(states.schema, nonnegative={}), states.fit))


def test_which_columns_end_at_zero():
    table = ps.Table.from_frame(passengers())
    leaves, found = leaves_near_zero(table.columns, table.values)
    smallest = passengers().query("fare > 0").fare.min()
    assert found == {"age": 0.0, "fare": smallest / 2, "height": None} and list(leaves) == ["fare"]
    assert leaves_near_zero(table.columns, table.values, {"age": ps.leaves.Gaussian()})[1].keys() == {"fare", "height"}
    assert leaves_near_zero(table.columns, table.values - 1.0)[1].keys() == {"height"}
    clusters = np.concatenate([np.linspace(1.0, 1.9, 50), np.linspace(3.0, 7.0, 100)])
    assert mass_below_zero(clusters) < 1e-3 < mass_below_zero(clusters - 1.0)  # far by the width of the lower one


def test_the_law_is_that_of_the_leaves_given_that_it_is_not_below_zero():
    """Against quadrature of the leaves that go on below 0; the row's fare is summed out, of what counts as a fare."""
    post, base = fitted(), uncut()
    age, fare = (post.columns.index(c) for c in post.columns if c.name in ("age", "fare"))
    of_fare = base.given({fare: Interval(-post._states.schema.nonnegative["fare"], np.inf)})
    rows = np.full((1, 3), np.nan)

    def density(x):
        rows[0, age] = x
        return float(np.exp(of_fare.log_density(rows)[0, 0]))

    above = quad(density, 0.0, 400.0, limit=400)[0]
    found = np.exp(post.marginal(["age"]).log_density(pd.DataFrame({"age": [-1.0, 3.0]})).values)
    np.testing.assert_allclose(found, [0.0, density(3.0) / above], rtol=1e-6)  # of the quadrature
    assert above < 0.999  # not cut, the density is another


def test_zeros_have_a_mass_and_nothing_is_below():
    post, frame = fitted(), passengers()
    ask = lambda event: float(post.probability(event))  # noqa: E731
    share = (frame.fare == 0).mean()
    assert ask("age < 0") == ask("fare < 0") == ask("height < 0") == 0.0
    assert ask("fare <= 0") == pytest.approx(share, abs=2.0 * np.sqrt(share * (1.0 - share) / N))
    assert ask("fare <= 0") + ask("fare > 0") == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(post.cdf([-0.01, 0.0, 0.01], "fare"), [0.0, *[ask("fare <= 0")] * 2], atol=1e-12)
    assert post.quantile([0.001, share / 2], "fare").values.tolist() == [0.0, 0.0]
    assert float(post.quantile(0.001, "age")) > 0.0
    assert post.log_density(frame.assign(age=-1.0)).values.max() == -np.inf
    with pytest.raises(ValueError, match=r"'age' cannot be within .*: no value in the training table is negative"):
        post.condition("age < 0")
    drawn = post.sample(4_000, random_seed=1)
    assert drawn.to_numpy().min() == 0.0 and (drawn.age > 0).all()
    assert (drawn.fare == 0).mean() == pytest.approx(ask("fare <= 0"), abs=5.0 * np.sqrt(share / 4_000))
    gaps = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.3)
    assert post.impute(gaps, random_seed=1, on_grid=False).to_numpy().min() == 0.0


@pytest.mark.parametrize("ask", ["predict", "predict_sd", "predict_quantile", "predict_cdf"])
def test_nothing_is_predicted_from_a_value_below_zero(ask):
    frame = passengers().head(3).assign(age=[-1.0, 30.0, np.nan])
    more = {"predict_quantile": (0.5,), "predict_cdf": (150.0,)}.get(ask, ())
    with pytest.warns(UserWarning, match="the density is zero .* in 1 of 3 rows: 0"):
        found = getattr(fitted(), ask)(frame.drop(columns="height"), "height", *more)
    assert np.isnan(found.values.ravel()).tolist() == [True, False, False]


def test_drawn_cells_are_of_the_law_above_zero():
    """All rows are in one leaf, whose law of a new row is that of the gap."""
    frame = pd.DataFrame(
        {"age": np.abs(np.random.default_rng(1).normal(4.0, 5.0, 60)), "height": np.linspace(1, 9, 60)}
    )
    fixed = {"concentration": 1.0, "leaf_scale": 1.0, "leaf_shape": 2.0, "precision_ratio": 0.2, "joint_leaves": None}

    def run(table, draws, **missing):
        with pm.Model() as model:
            x = ps.SPN("x", ps.circuits.complete_tree(list(frame), 1), observed=table, **missing, **fixed)
            if missing:
                pm.Deterministic("age", ps.completed_columns(x)["age"][0])
            return model, pm.sample(draws=draws, tune=0, chains=1, cores=1, random_seed=1, progressbar=False)

    post = ps.SPNPosterior.from_idata(run(frame[1:], 4)[1])
    model, idata = run(frame.assign(age=frame.age.where(frame.index > 0)), 2_000, missing="draw")
    found = idata.posterior["age"].values.ravel()
    assert found.min() >= 0.0 and float(post.probability("age < 1")) > 0.05
    found = np.unique(found)  # a proposal below 0 leaves the cell as it was
    assert stats.kstest(found, lambda x: post.cdf(x, "age").values).pvalue > 1e-3 and found.size > 1_000
    below, above = (pm.logp(model["x_missing"], np.array([x])).eval() for x in (-1.0, 1.0))
    assert below == -np.inf < above


def test_draws_of_chains_are_not_negative(tmp_path):
    idata = draw(model_of(observed=passengers()), draws=10, tune=20, chains=1, random_seed=1)
    ps.SPNPosterior.from_idata(idata).save(tmp_path / "x.nc")
    post = ps.load(tmp_path / "x.nc")
    assert float(post.posterior_predictive(random_seed=1)["x"].min()) == 0.0
    assert float(post.probability("fare <= 0")) == pytest.approx(0.08, abs=0.04)
    assert float(post.probability("age < 0")) == 0.0 and "given" not in repr(post)
    assert post.sample(500, random_seed=1).to_numpy().min() == 0.0
