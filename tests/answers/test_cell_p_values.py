"""P-values of cells: against single queries, sums, and by their distribution."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.answers import asked_rows
from tests.answers.rows_with_gaps import others, rows_of
from tests.answers.variational_fits import fitted
from tests.hand_made_records import posterior_of, posterior_on_a_grid, sampled_posterior
from tests.rounded_networks import narrow_leaves, share_of

PROBLEMS = ["palette", "missing", "skewed"]


def test_errors_are_those_of_the_same_questions_row_by_row(monkeypatch):
    post = sampled_posterior()
    df = pd.DataFrame({"x0": [0.4, np.nan, 2.0], "x1": [1, 0, None], "x2": [3, 2, np.nan]})
    cells = post.cell_p_value(df)
    error = cells.attrs["mcse_chain"]
    np.testing.assert_array_equal(np.isnan(error), df.isna())
    lower = post.cdf(0.4, "x0", others(df, 0, "x0"))
    assert 2.0 * float(lower) < 1.0  # the smaller tail
    assert error[0, 0] == pytest.approx(2.0 * lower.attrs["mcse_chain"], rel=1e-6)
    proba = post.predict_proba(df, "x1")
    for m in (0, 1):
        p, own = proba.values[m], int(df.loc[m, "x1"])
        expected = 0.0 if p[own] >= p[1 - own] else proba.attrs["mcse_chain"][m, own]
        assert error[m, 1] == pytest.approx(expected, rel=1e-6, abs=1e-12)
    monkeypatch.setattr(asked_rows, "BLOCK_VALUES", 500)  # a row at a time
    parts = post.cell_p_value(df)
    np.testing.assert_allclose(parts, cells, rtol=1e-12)
    np.testing.assert_allclose(parts.attrs["mcse_chain"], error, rtol=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_cells_have_the_tails_of_their_conditionals(name):
    post = posterior_of(name)
    df = rows_of(post)
    found = post.cell_p_value(df)
    assert found.dims == ("row", "column") and found["row"].values.tolist() == list("abc")
    np.testing.assert_array_equal(np.isnan(found), df.isna())
    for c in post.columns:
        for label in df.index[df[c.name].notna()]:
            given, x = others(df, label, c.name), df.loc[label, c.name]
            if c.levels is not None:
                p = {level: float(post.probability({c.name: {level}}, given)) for level in c.levels}
                exact = sum(v for v in p.values() if v <= p[x] * (1.0 + 1e-9))
            else:
                step = 1.0 if c.kind == "count" else 0.0
                lower, below = post.cdf([x, x - step], c.name, given).values
                exact = min(1.0, 2.0 * min(lower, 1.0 - below))
            assert float(found.sel(row=label, column=c.name)) == pytest.approx(exact, rel=1e-9), (c.name, label)


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_recorded_numbers_have_the_tails_of_their_cells(width):
    post = posterior_on_a_grid(width)
    found = post.cell_p_value(pd.DataFrame({"x0": [1.7], "x1": [2.0]}))
    lower = float(post.cdf(2.0 + width / 2.0, "x1", {"x0": 1.7}))
    upper = 1.0 - float(post.cdf(2.0 - width / 2.0, "x1", {"x0": 1.7}))
    assert float(found.sel(column="x1")[0]) == pytest.approx(min(1.0, 2.0 * min(lower, upper)), rel=1e-9)


@pytest.mark.parametrize("given", [{}, {"a": (-2e7, 1e9), "n": (1, None)}, {"n": {1, 2, 400}}])
def test_far_tails_have_digits_on_both_sides(given):
    """They are below what is left of 1 by rounding, and below the leaves that distribution functions leave out."""
    post = fitted().condition(given) if given else fitted()
    df = pd.DataFrame({"a": [1e7, -1e7, 300.0], "b": -4.0, "n": [2, 2, 400], "c": "0"})
    found = post.cell_p_value(df)
    for m, name, event in [(0, "a", (1e7, None)), (1, "a", (None, -1e7)), (2, "n", (400, None))]:
        exact = 2.0 * float(post.probability({name: event}, given=others(df, m, name)))
        assert 1e-300 < exact < 1e-15
        assert float(found.sel(row=m, column=name)) == pytest.approx(exact, rel=1e-9, abs=0.0)


def test_counts_with_gaussian_leaves_alone_are_recorded_as_whole_numbers():
    df = pd.DataFrame({"n": np.arange(40) % 9, "x": np.arange(40) / 7.0})
    structure = ps.circuits.complete_tree(ps.Table.from_frame(df).columns, n_children=2)
    post = ps.fit_variational(df, structure, leaves={"n": [ps.leaves.Gaussian()]}, random_seed=1)
    found = post.cell_p_value({"n": [1], "x": [2.5]}).sel(column="n")
    assert float(found[0]) == pytest.approx(2.0 * float(post.cdf(1.5, "n", {"x": 2.5})), rel=1e-9)


def test_rounded_rows_are_cells():
    post = ps.SPNPosterior(narrow_leaves()[0])
    found = post.cell_p_value(pd.DataFrame({"x0": [2.0], "x1": [0.5], "x2": ["a"]}))
    whole = share_of(((1.5, 2.5), None, 0))
    lower = share_of(((1.5, 2.5), (1e-300, 0.75), 0)) / whole
    upper = share_of(((1.5, 2.5), (0.25, 1e9), 0)) / whole
    assert float(found.sel(column="x1")[0]) == pytest.approx(min(1.0, 2.0 * min(lower, upper)), abs=1e-7)
    assert found.attrs["exactness"] == "numerical given the draws" and found.attrs["tolerance"] == 1e-9


def test_cells_beside_an_impossible_one_have_no_p_value():
    post = posterior_of("missing").condition({"x0": (0.5, 2.0)})
    found = post.cell_p_value(pd.DataFrame({"x0": [7.0, 1.0], "x1": [1, 1], "x2": [3, 3]}))
    assert float(found[0, 0]) == 0.0 and np.isnan(found[0, 1:]).all() and np.isfinite(found[1]).all()
    only = post.marginal(["x0"])  # nothing else is known
    exact = 2.0 * min(float(only.cdf(1.0, "x0")), 1.0 - float(only.cdf(1.0, "x0")))
    assert float(only.cell_p_value({"x0": [1.0]})[0, 0]) == pytest.approx(exact, rel=1e-9)
    assert post.cell_p_value({"x0": [], "x1": [], "x2": []}).shape == (0, 3)


def test_cells_of_the_model_are_uniform_and_a_wrong_one_stands_out():
    post = fitted()
    rows = post.sample(2000, random_seed=4)
    found = post.cell_p_value(rows)
    for name in ("a", "b"):
        assert stats.kstest(found.sel(column=name).values, "uniform").pvalue > 1e-3
        assert stats.kstest(post.predict_cdf(rows, name).values, "uniform").pvalue > 1e-3
    for u in (0.01, 0.1, 0.3):  # those of counts and levels are no smaller
        share = (found <= u).mean("row")
        assert (share < u + 5.0 * np.sqrt(u * (1.0 - u) / 2000)).all()
    spoiled = rows[:20].assign(b=rows["b"][:20] + 40.0)
    assert (post.cell_p_value(spoiled).sel(column="b") < 1e-3).all()
