"""Standard deviations, distribution functions and quantiles given rows: against the same questions row by row."""

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.answers import asked_rows
from pymc_spn.numerics import memory_limits
from tests.answers.rows_with_gaps import others, rows_of
from tests.hand_made_records import posterior_of, problem_of, sampled_posterior, schema_of, tree_of

pytestmark = pytest.mark.usefixtures("integrated")

LEVELS = [0.0, 1e-4, 0.1, 0.5, 0.95, 0.9999, 1.0]
PROBLEMS = ["palette", "missing", "infinite_splits"]


@pytest.mark.parametrize("name", PROBLEMS)
def test_answers_are_those_given_each_row(name):
    post = posterior_of(name)
    df, x = rows_of(post), [-1.0, 0.5, 2.0, np.inf]
    for target in [c.name for c in post.columns if c.levels is None]:
        sd, found = post.predict_sd(df, target), post.predict_quantile(df, target, LEVELS)
        below, own = post.predict_cdf(df, target, x), post.predict_cdf(df, target)
        assert below.dims == ("row", "x") and own.dims == ("row",) and below["x"].values.tolist() == x
        assert sd.dims == ("row",) and found.dims == ("row", "quantile") and found["row"].values.tolist() == list("abc")
        for m, label in enumerate(df.index):
            given = others(df, label, target)
            variance = float(post.moment(2, given, central=True).sel(column=target))
            heavy = not np.isfinite(variance)  # no second moment, and so no central one
            assert np.isinf(sd[m]) if heavy else float(sd[m]) == pytest.approx(np.sqrt(variance), rel=1e-10)
            exact = post.quantile(LEVELS, target, given)
            np.testing.assert_allclose(found[m], exact, rtol=1e-10, atol=1e-10)
            for key in exact.attrs.keys() & {"mcse_chain"}:
                np.testing.assert_allclose(found.attrs[key][m], exact.attrs[key], rtol=1e-6)
            np.testing.assert_allclose(below[m], post.cdf(x, target, given), rtol=1e-12, atol=1e-15)
            at = df.loc[label, target]
            wanted = np.nan if pd.isna(at) else float(post.cdf(at, target, given))
            assert float(own[m]) == pytest.approx(wanted, rel=1e-12, nan_ok=True)
        # the target's own cells change nothing, and one level is a number for each row
        np.testing.assert_array_equal(post.predict_quantile(df.drop(columns=target), target, LEVELS), found)
        np.testing.assert_array_equal(post.predict_cdf(df.drop(columns=target), target, x), below)
        one = post.predict_quantile(df, target, 0.5)
        assert one.dims == ("row",) and float(one["quantile"]) == 0.5
        np.testing.assert_array_equal(one, found.sel(quantile=0.5))


def test_errors_are_those_of_the_same_questions_row_by_row():
    post = sampled_posterior()
    df = pd.DataFrame({"x0": [0.4, np.nan, 2.0], "x1": [1, 0, None], "x2": [3, 2, np.nan]})
    sd = post.predict_sd(df, "x2")
    found, below = post.predict_quantile(df, "x0", [0.1, 0.6]), post.predict_cdf(df, "x0", [0.3, 1.5])
    for m in range(3):
        moment = post.moment(2, others(df, m, "x2"), central=True)
        error = moment.attrs["mcse_chain"][moment["column"].values.tolist().index("x2")] / (2.0 * float(sd[m]))
        assert sd.attrs["mcse_chain"][m] == pytest.approx(error, rel=1e-6)
        exact = post.quantile([0.1, 0.6], "x0", others(df, m, "x0"))
        np.testing.assert_allclose(found.attrs["mcse_chain"][m], exact.attrs["mcse_chain"], rtol=1e-6)
        assert found.attrs["draws_after_weighting"][m] == pytest.approx(exact.attrs.get("draws_after_weighting", 60.0))
        exact = post.cdf([0.3, 1.5], "x0", others(df, m, "x0"))
        np.testing.assert_allclose(below.attrs["mcse_chain"][m], exact.attrs["mcse_chain"], rtol=1e-6)
        assert sd.attrs["draws_after_weighting"][m] == pytest.approx(moment.attrs["draws_after_weighting"])
    stacked = post.stacked()
    exact = stacked.quantile([0.1, 0.6], "x0", others(df, 0, "x0"))
    np.testing.assert_allclose(stacked.predict_quantile(df, "x0", [0.1, 0.6])[0], exact, rtol=1e-9)
    shares = ", ".join(f"{w:.2f}" for w in sorted(stacked.run_weights.values.ravel(), reverse=True))
    assert f"weighted by {shares}" in repr(stacked) and "weighted" not in repr(post)


def test_more_answers_than_fit_into_memory_are_refused(monkeypatch):
    post, df = posterior_of("missing"), pd.DataFrame([{"x0": 1.2, "x1": 1, "x2": 3}] * 9)
    monkeypatch.setattr(memory_limits, "memory_limit", lambda: 1e5)
    for ask in (post.predict_quantile, post.predict_cdf):
        with pytest.raises(ValueError, match="of 500 numbers for 9 rows needs"):
            ask(df, "x0", np.linspace(0.1, 0.9, 500))


def test_blocks_of_rows_change_nothing(monkeypatch):
    post = sampled_posterior()
    df = post.sample(40, random_seed=1).query("x0 > 0")[:18]
    whole = post.predict_quantile(df, "x0", [0.1, 0.6]), post.predict_sd(df, "x2")
    assert len(df) == 18
    monkeypatch.setattr(asked_rows, "BLOCK_VALUES", 2_500)  # some rows at a time
    parts = post.predict_quantile(df, "x0", [0.1, 0.6]), post.predict_sd(df, "x2")
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        np.testing.assert_allclose(one.attrs["mcse_chain"], other.attrs["mcse_chain"], rtol=1e-8)


def test_tails_without_a_variance_are_named():
    problem = problem_of("depths")
    schema = schema_of(problem)
    schema.hyperparameters["leaf_shape"] = {"fixed": [0.9, 1.4]}
    digits = np.zeros((1, 5, 3, 3), np.int8)
    post = ps.SPNPosterior.from_idata(tree_of(schema, problem.X, digits, np.ones((1, 5, 2)), np.ones((1, 5))))
    rows = pd.DataFrame({"x0": [1.0], "x1": [1.0]})
    found = post.predict_sd(rows, "x0")
    assert np.isinf(found).all() and found.attrs["infinite_variance"] == ["x0"]
    assert np.isfinite(post.predict_sd(rows, "x1")).all()
    assert np.isfinite(post.condition({"x0": (0, 9)}).predict_sd(rows.drop(columns="x0"), "x0")).all()
    assert np.isfinite(post.predict_quantile(rows, "x0", [1e-6, 0.5])).all()


def test_a_row_too_far_out_has_no_answer_and_the_others_have_theirs():
    """One such cell failed the whole batch."""
    post = posterior_of("missing")
    df = pd.DataFrame({"x0": [1.0, 5e307, np.nan], "x1": [0, 1, None], "x2": [1, 2, None]}, index=["a", "b", "c"])
    df = df.astype({"x1": "Int64"})
    good = df.loc[["a", "c"]]
    questions = {
        "predict": lambda rows: post.predict(rows, "x2"),
        "level": lambda rows: post.predict(rows, "x1"),
        "proba": lambda rows: post.predict_proba(rows, "x1"),
        "per draw": lambda rows: post.predict_proba(rows, "x1", per_draw=True),
        "sd": lambda rows: post.predict_sd(rows, "x2"),
        "quantile": lambda rows: post.predict_quantile(rows, "x2", [0.1, 0.5]),
        "cdf": lambda rows: post.predict_cdf(rows, "x2", [1.0, 2.0]),
    }
    assert post.log_density(df)[1] == -np.inf
    for name, ask in questions.items():
        with pytest.warns(UserWarning, match=r"zero under every draw in 1 of 3 rows: 'b' .*column 'x0' is .*e\+"):
            found = ask(df)
        assert pd.isna(found.sel(row="b").values).all(), name
        expected = ask(good)  # warns of nothing
        assert found.dims == expected.dims
        np.testing.assert_array_equal(found.sel(row=["a", "c"]).values, expected.values)
    gaps = df.assign(x2=None)
    with pytest.warns(UserWarning, match=r"1 of 3 rows: 'b' .*Their gaps are not filled in"):
        first, second = post.impute(gaps, n=2, random_seed=1)
    assert first["x2"].isna().tolist() == [False, True, False] and second.loc["b", "x0"] == 5e307


@pytest.mark.parametrize(("target", "event"), [("x0", (0.2, 1.5)), ("x2", {1, 3, 4}), ("x2", (2, 9))])
def test_what_is_known_of_the_target_itself_holds(target, event):
    post = posterior_of("missing").condition({target: event})
    rest = next(n for n in ("x0", "x2") if n != target)
    df = pd.DataFrame({rest: [1.0, np.nan]})
    found = post.marginal(["x0", "x2"]).predict_quantile(df, target, [0.0, 0.3, 0.8, 1.0])
    sd = post.marginal(["x0", "x2"]).predict_sd(df, target)
    for m, given in enumerate([{rest: 1.0}, None]):
        np.testing.assert_allclose(found[m], post.quantile([0.0, 0.3, 0.8, 1.0], target, given), rtol=1e-9)
        assert float(sd[m]) ** 2 == pytest.approx(
            float(post.moment(2, given, central=True).sel(column=target)), rel=1e-7
        )
    assert sd.attrs["exactness"] == (
        "numerical given the draws" if isinstance(event, tuple) else "exact given the draws"
    )
    alone = post.condition({"x1": 1}).marginal(["x0", "x2"]).predict_quantile(df, target, 0.3)
    assert float(alone[0]) == pytest.approx(float(post.quantile(0.3, target, {"x1": 1, rest: 1.0})), rel=1e-9)


def test_intervals_of_drawn_rows_hold_their_share_of_them():
    """Calibration by construction: rows of the predictive itself; 0.03 is 3 standard errors of 1,600 rows' share."""
    post = sampled_posterior()
    df = post.sample(1_600, random_seed=5)
    low, high = post.predict_quantile(df, "x0", [0.1, 0.9]).values.T
    assert abs(np.mean((df["x0"] >= low) & (df["x0"] <= high)) - 0.8) < 0.03
