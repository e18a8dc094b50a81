"""p-values of rows by their density: against sums over all rows, and by their distribution over rows of the model."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.answers import sums
from tests.answers.variational_fits import fitted
from tests.hand_made_records import law_of, posterior_of, posterior_on_a_grid
from tests.rounded_networks import narrow_leaves

N = 20_000
SD = 5.0  # Monte Carlo standard errors that an estimate may be off


def assert_near(found, exact):
    """Within the Monte Carlo error, which is that of the exact value."""
    exact = np.minimum(exact, 1.0)
    assert (np.abs(found.p_value - exact) <= SD * np.sqrt(exact * (1.0 - exact) / N) + 2.0 / N).all()


@pytest.mark.parametrize("name", ["palette", "missing"])
def test_p_values_are_sums_over_all_rows_that_are_no_denser(name):
    """Of whole rows and of rows with each of the gaps."""
    post = posterior_of(name).marginal(["x1", "x2"])
    levels = {c.name: c.levels or range(400) for c in post.columns}
    whole = pd.DataFrame([{n: v[k % len(v)] for n, v in levels.items()} for k in (0, 2, 5, 9)])
    for kept in product([True, False], repeat=len(levels)):
        names = [n for n, keep in zip(levels, kept, strict=True) if keep]
        rows = whole.assign(**{n: None for n in levels if n not in names})
        found = post.predictive_p_value(rows, n=N, random_seed=1)
        if not names:
            assert (found.p_value == 1.0).all() and not found.log_density.any()
            continue
        cells = pd.DataFrame(list(product(*(levels[n] for n in names))), columns=names)
        logs = post.marginal(names).log_density(cells).values
        assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-5)
        assert_near(found, [np.exp(logs[logs <= own + 1e-9]).sum() for own in found.log_density.values])
        assert found.attrs["exactness"] == found.p_value.attrs["exactness"] == "monte-carlo given the draws"


@pytest.mark.parametrize("width", [0.0, 0.5, 2.0])
def test_numbers_are_compared_with_recorded_numbers(width):
    """Mass of the cells whose recorded value is no denser. Power: exact values in their place are off by 0.03."""
    post = posterior_on_a_grid(width)
    rows = pd.DataFrame({"x0": None, "x1": [0.0, 2.0, -2.0, 4.0, 8.0, -40.0]})
    found = post.predictive_p_value(rows, n=N, random_seed=2)
    step = width or 1e-3
    points = step * np.arange(-np.floor(200.0 / step), np.floor(200.0 / step) + 1)
    mass = np.diff(post.cdf(np.append(points - step / 2.0, points[-1] + step / 2.0), "x1"))
    logs = post.marginal(["x1"]).log_density(pd.DataFrame({"x1": points})).values
    exact = [1.0 - mass[logs > own + 1e-9].sum() for own in found.log_density.values]
    assert_near(found, exact)
    if width == 2.0:
        assert (
            np.abs(posterior_on_a_grid(0.0).predictive_p_value(rows, n=N, random_seed=2).p_value - exact).max() > 0.03
        )


def test_rounded_rows_are_compared_by_the_masses_of_their_cells():
    post = ps.SPNPosterior(narrow_leaves()[0])
    rows = pd.DataFrame({"x0": [2.0, 1.0, 3.0, 7.0], "x1": None, "x2": None})
    found = post.predictive_p_value(rows, n=N, random_seed=3)
    cells = np.arange(-2000.0, 2001.0)
    mass = np.exp(post.marginal(["x0"]).log_density(pd.DataFrame({"x0": cells})).values)  # cells have the width 1
    exact = [1.0 - mass[mass > np.exp(own) * (1.0 + 1e-9)].sum() for own in found.log_density.values]
    assert_near(found, exact)


def test_rows_of_the_model_have_uniform_p_values_whatever_they_lack():
    post = fitted()
    rng = np.random.default_rng(4)
    rows = post.sample(3000, random_seed=4)
    lacking = np.column_stack([np.zeros(3000, bool), *(rng.random((3, 3000)) < 0.5)])
    gaps = rows.astype({"n": "Int64"}).mask(lacking)
    found = post.predictive_p_value(gaps, n=4000, level=0.05, random_seed=5)
    for some in product([False, True], repeat=3):
        chosen = (lacking[:, 1:] == some).all(axis=1)
        assert chosen.sum() > 300 and stats.kstest(found.p_value.values[chosen], "uniform").pvalue > 1e-3
    below = (found.log_density < found.threshold).values
    np.testing.assert_array_equal(below, found.p_value <= 0.05)
    assert abs(below.mean() - 0.05) < SD * np.sqrt(0.05 * 0.95 * (1 / 3000 + 1 / 4000))
    # a log density alone does not say it: rows that lack more have more of it
    by_gaps = [found.log_density.values[lacking[:, 1] == some].mean() for some in (False, True)]
    assert by_gaps[1] > by_gaps[0] + 0.5
    # the threshold's error is that of a quantile: beside thresholds of other seeds
    again = [post.predictive_p_value(gaps[:5], n=400, level=0.05, random_seed=s).threshold for s in range(30)]
    assert np.std(again, axis=0, ddof=1) == pytest.approx(again[0].attrs["mcse"], rel=0.6)


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_what_is_known_holds_of_the_rows_compared_with(width):
    """A grid that would leave an interval is no grid there."""
    post = posterior_on_a_grid(width).condition({"x1": (0.3, 1.4), "x0": 1.7})
    rows = pd.DataFrame({"x1": [0.5, 1.0, 1.35, 2.0]})
    found = post.predictive_p_value(rows, n=N, random_seed=6)
    assert float(found.p_value[3]) == 1.0 / (N + 1) and found.log_density[3] == -np.inf
    edges = np.linspace(0.3, 1.4, 2201)
    middle = 0.5 * (edges[1:] + edges[:-1])
    mass = np.diff(post.cdf(edges, "x1"))
    recorded = np.round(middle / width) * width if width else middle
    recorded = np.where((recorded >= 0.3) & (recorded <= 1.4), recorded, middle)
    logs = post.log_density(pd.DataFrame({"x1": recorded})).values
    exact = [mass[logs <= own + 1e-9].sum() for own in found.log_density.values[:3]]
    assert_near(found.isel(row=slice(3)), exact)
    assert "draws_after_weighting" in found.p_value.attrs


def test_a_seed_decides_whatever_else_is_asked(monkeypatch):
    post = posterior_of("missing")
    rows = pd.DataFrame({"x0": [0.7, None, 3.0], "x1": [1, 0, None], "x2": [2, 1, 5]}, index=list("abc"))
    whole = post.predictive_p_value(rows, n=200, random_seed=7)
    assert whole["row"].values.tolist() == list("abc")
    np.testing.assert_array_equal(whole.log_density, post.log_density(rows))
    monkeypatch.setattr(sums, "BLOCK_VALUES", 7 * law_of("missing").states.n_draws)
    for label in "abc":
        one = post.predictive_p_value(rows.loc[[label]], n=200, random_seed=7)
        for name in ("p_value", "threshold"):
            assert float(one[name][0]) == pytest.approx(float(whole[name].sel(row=label)), rel=1e-12)
    assert not whole.p_value.identical(post.predictive_p_value(rows, n=200, random_seed=8).p_value)
    assert post.predictive_p_value(rows[:0], n=10, level=0.5).sizes == {"row": 0}
