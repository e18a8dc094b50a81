"""Queries about rows: surprise, explanations, co-clustering, multiple imputation, and what is refused."""

import tracemalloc
from itertools import permutations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.answers import column_questions, row_questions
from pymc_spn.answers.asked_law import joined_errors
from pymc_spn.networks import recorded_law
from pymc_spn.networks.recorded_law import RecordedLaw
from tests.hand_made_records import (
    law_of,
    posterior_of,
    problem_of,
    sampled_tree,
    schema_of,
    tree_of,
    two_groups,
)
from tests.sampled_runs import draw

pytestmark = pytest.mark.usefixtures("integrated")

ROW = {"palette": {"x0": 2, "x1": "b", "x2": 3}, "missing": {"x0": 1.2, "x1": 1, "x2": 3}}


# ---- anomaly
@pytest.mark.parametrize("name", ["palette", "missing"])
def test_surprise_is_minus_the_conditional_log_density(name):
    post = posterior_of(name)
    df = pd.DataFrame([ROW[name], ROW[name]], index=["whole", "gap"])
    df.loc["gap", "x2"] = None
    found = post.anomaly(df)
    np.testing.assert_array_equal(found.log_density, post.log_density(df))
    for label in df.index:
        known = df.loc[label].dropna().to_dict()
        for column in known:
            rest = {c: v for c, v in known.items() if c != column}
            exact = -np.log(float(post.probability({column: known[column]}, rest)))
            assert float(found.surprise.sel(row=label, column=column)) == pytest.approx(exact, rel=1e-9)
    assert np.isnan(found.surprise.sel(row="gap", column="x2"))
    weight = np.exp(law_of(name).log_weights) / np.exp(law_of(name).log_weights).sum()
    each = post.log_density(df, per_draw=True).values[0]
    mean = weight @ each
    np.testing.assert_allclose(found.log_density_sd, np.sqrt(weight @ (each - mean) ** 2), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "known", "column", "bad"),
    [("missing", {"x0": (0.5, 2.0)}, "x0", 7.0), ("palette", {"x0": (0, 9)}, "x2", 99)],
)
def test_an_impossible_cell_is_infinitely_surprising_and_the_others_have_no_surprise(name, known, column, bad):
    """Outside of the condition, and outside of the support of every leaf."""
    post = posterior_of(name).condition(known)
    rows = [ROW[name], ROW[name] | {column: bad}]
    found = post.anomaly(pd.DataFrame(rows))
    assert np.isfinite(found.surprise[0]).all() and np.isfinite(found.log_density_sd[0])
    assert found.log_density[1] == -np.inf and np.isnan(found.log_density_sd[1])
    assert np.isposinf(found.surprise[1].sel(column=column))
    assert np.isnan(found.surprise[1].drop_sel(column=column)).all()
    for rest in set(ROW[name]) - {column}:  # nor has it a probability
        with pytest.raises(ValueError, match="cannot be"):
            post.probability({rest: ROW[name][rest]}, {c: v for c, v in rows[1].items() if c != rest})


# ---- explanations
def shapley_by_orders(post, row, target=None):
    """The average over all orders of what each cell adds, by one query for each set."""
    cells = {c: v for c, v in row.items() if c != target}
    goal = {target: row[target]} if target else {}

    def worth(names):
        known = {c: cells[c] for c in names}
        if target:
            return np.log(float(post.probability(goal, known)))
        return np.log(float(post.probability(known))) if known else 0.0

    total = dict.fromkeys(cells, 0.0)
    orders = list(permutations(cells))
    for order in orders:
        for i, c in enumerate(order):
            total[c] += (worth(order[: i + 1]) - worth(order[:i])) / len(orders)
    ratio = {c: worth(tuple(cells)) - worth(tuple(k for k in cells if k != c)) for c in cells}
    return total, ratio, worth(tuple(cells)), worth(())


@pytest.mark.parametrize("name", ["palette", "missing"])
@pytest.mark.parametrize("target", [None, "x1"])
def test_shapley_values_and_log_ratios(name, target):
    post = posterior_of(name)
    shapley, ratio, total, baseline = shapley_by_orders(post, ROW[name], target)
    found = post.explain(ROW[name], target)
    assert found["column"].values.tolist() == list(shapley)
    np.testing.assert_allclose(found.shapley, list(shapley.values()), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.log_ratio, list(ratio.values()), rtol=1e-8, atol=1e-12)
    assert float(found.total) == pytest.approx(total) and float(found.baseline) == pytest.approx(baseline, abs=1e-12)
    assert float(found.shapley.sum()) == pytest.approx(total - baseline, abs=1e-12)
    assert found.attrs["exactness"] == "exact given the draws" and (found.hdi[:, 0] <= found.hdi[:, 1]).all()
    drawn = post.explain(pd.Series(ROW[name]), target, n_permutations=60, random_seed=3)
    assert drawn.attrs["exactness"] == "monte-carlo given the draws"
    off = np.abs(drawn.shapley - found.shapley)
    assert (off <= 5 * drawn.shapley.attrs["mcse"] + 1e-12).all()
    assert float(drawn.shapley.sum()) == pytest.approx(total - baseline, abs=1e-12)
    again = post.explain(ROW[name], target, n_permutations=60, random_seed=3)
    np.testing.assert_array_equal(drawn.shapley, again.shapley)


def test_orders_of_many_columns_take_little_memory():
    """A coefficient for each order, column and subset would take 150 MB here, and 49 GB of 288 columns."""
    df = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 30)))
    tree = ps.circuits.complete_tree(list(df), n_children=2)
    post = ps.fit_variational(df, tree, restarts=1, max_steps=2, random_seed=0, progressbar=False)
    post.explain(df.iloc[0], n_permutations=2)  # compiled before memory is counted
    tracemalloc.start()
    try:
        found = post.explain(df.iloc[0], n_permutations=100, random_seed=1)
        assert tracemalloc.get_traced_memory()[1] < 4e7
    finally:
        tracemalloc.stop()
    assert float(found.shapley.sum()) == pytest.approx(float(found.total - found.baseline), abs=1e-9)
    without = df.iloc[[0]].copy()
    without.iloc[0, 7] = np.nan
    assert float(found.log_ratio[7]) == pytest.approx(float(found.total - post.log_density(without)[0]), abs=1e-10)


# ---- co-clustering
def two_partitions():
    problem = problem_of("missing")
    digits = np.zeros((1, 4, 3, 5), np.int8)
    digits[0, :, :, 0] = [[0, 1, 1], [0, 1, 1], [0, 0, 1], [1, 0, 0]]
    return tree_of(schema_of(problem), problem.X, digits, np.ones((1, 4, 2)), np.ones((1, 4)))


def test_co_clustering_of_training_rows_counts_draws():
    post = ps.SPNPosterior.from_idata(two_partitions())
    found = post.co_clustering()
    np.testing.assert_allclose(found, [[1, 0.25, 0], [0.25, 1, 0.75], [0, 0.75, 1]])
    assert found["row"].values.tolist() == [10, 11, 12] and "mcse_chain" in found.attrs
    best = post.top_clusters()
    assert best.values.tolist() == [1, 0, 0] and best.attrs["draw"] in (0, 1, 3)


def test_rows_without_an_observed_cell_are_at_no_distance():
    """Against the same digits of the other rows alone."""
    problem = problem_of("missing")
    digits = np.zeros((1, 6, 5, 5), np.int8)
    digits[0, :, :3, 0] = [[0, 1, 1], [0, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]]
    found = []
    for n in (3, 5):
        table = np.vstack([problem.X, np.full((2, 3), np.nan)])[:n]
        tree = tree_of(schema_of(problem), table, digits[:, :, :n], np.ones((1, 6, 2)), np.ones((1, 6)))
        post = ps.SPNPosterior.from_idata(tree)
        found.append(post.top_clusters())
        together = post.co_clustering()
        np.testing.assert_array_equal(np.isnan(together.attrs["mcse_chain"]), np.isnan(together))  # no error of NaN
        assert np.isnan(together).sum() == n * n - 9
    few, whole = found
    assert whole.values.tolist() == [*few.values.tolist(), -1, -1]
    assert whole.attrs["distance"] == pytest.approx(few.attrs["distance"], rel=1e-12) and few.attrs["distance"] > 0


def test_nothing_asked_is_an_empty_answer():
    post = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=5))
    for part in (post, post.condition([{"x0": (0.1, 0.5)}, {"x1": 1}])):
        for found in (
            part.cdf([], "x0"),
            part.quantile([], "x0"),
            part.log_density(pd.DataFrame(columns=["x0", "x1", "x2"])),
        ):
            assert found.shape == (0,) and found.attrs["mcse_chain"].shape == (0,)
        none = pd.DataFrame({"x0": [], "x1": [], "x2": []})
        for found, shape in (
            (part.predict(none, "x1"), (0,)),
            (part.predict_proba(none, "x1"), (0, 2)),
            (part.predict(none, "x0"), (0,)),
            (part.predict_sd(none, "x0"), (0,)),
            (part.predict_quantile(none, "x0", 0.5), (0,)),
            (part.predict_quantile(none, "x0", [0.0, 0.5]), (0, 2)),
        ):
            assert found.shape == found.attrs["mcse_chain"].shape == shape
        assert part.cdf([], "x2", per_draw=True).shape == part.quantile([], "x2", per_draw=True).shape == (2, 5, 0)
    found = post.co_clustering(pd.DataFrame({"x0": [], "x1": [], "x2": []}))
    assert found.shape == (0, 0) and found.attrs["mcse_chain"].shape == (0, 0)
    few = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=3)).cdf([], "x0")
    assert few.shape == (0,) and "3 draws" in few.attrs["mcse_chain_note"]


# ---- multiple imputation
def test_imputed_cells_are_calibrated():
    """Blank cells whose values are known: the rank of the truth among its imputations is uniform.

    Rows are drawn from the predictive itself, so that the law of the truth given the rest is the one that imputes. Of
    some 1,000 ranks in ten bins, those of each column and group of rows apart, chi-square stays below its 1 - 1e-4
    quantile; cells imputed without regard to the rest of their row (planted) exceed it within each group. The groups
    are by the other column where it is observed: by the blank one itself ranks would not be uniform.
    """
    real = ps.SPNPosterior.from_idata(sampled_tree("depths", draws=6, chains=1))
    for source, planted in ((real, False), (two_groups(), False), (two_groups(), True)):
        rng = np.random.default_rng(4)
        # a cell of a positive column may be drawn below 0 by a Gaussian leaf: no table could hold it
        truth = source.condition({"x0": (0, None)} if source is real else {}).sample(2_000, random_seed=rng)
        inside = source.condition({"x0": (0, None)}) if source is real else source
        blank = pd.Series(rng.integers(0, 2, len(truth)), truth.index)
        for column, other in (("x0", "x1"), ("x1", "x0")):
            rows = truth[(blank == (column == "x1"))]
            gaps = rows.assign(**{column: np.nan}) if not planted else rows.assign(x0=np.nan, x1=np.nan)
            copies = np.array([c[column].to_numpy() for c in inside.impute(gaps, n=19, random_seed=rng)])
            rank = (copies < rows[column].to_numpy()).sum(axis=0)
            for side in (rows[other] > rows[other].median(), rows[other] <= rows[other].median()):
                counts = np.bincount(rank[side.to_numpy()] // 2, minlength=10)
                expected = side.sum() / 10
                assert (np.sum((counts - expected) ** 2 / expected) > 33.7) == planted


# ---- refusals
def test_rows_of_density_zero_are_named_in_the_same_words():
    """Whatever is asked of them: more successes than any binomial leaf has trials. The other rows are answered."""
    post = posterior_of("palette")
    frame = pd.DataFrame([ROW["palette"], ROW["palette"] | {"x2": 99}], index=["sound", "beyond"])
    words = r"zero under every draw in 1 of 2 rows: 'beyond' \(the first: column 'x2' is 99\)"
    for ask in (post.co_clustering, lambda df: post.predict(df, "x0")):
        with pytest.warns(UserWarning, match=words):
            found = ask(frame)
        assert np.isnan(found.sel(row="beyond")).all()
        errors = found.attrs["mcse_chain"]
        assert np.isnan(errors[1]).all() and np.isfinite(errors[0]).any()
        alone = ask(frame[:1]).values.ravel()[0]
        assert found.sel(row=["sound"]).values.ravel()[0] == pytest.approx(alone, rel=1e-13)  # sums of other lengths
    with pytest.warns(UserWarning, match=words):
        assert all(len(completed) == 2 for completed in post.impute(frame, n=2))
    with pytest.raises(ValueError, match=r"row: column 'x2' cannot be 99.0, its probability is zero under every draw"):
        post.explain(frame.iloc[1])


@pytest.mark.parametrize("query", ["log_density", "impute", "union"])
def test_rows_are_answered_in_blocks_with_the_same_answers(query, monkeypatch):
    """With a thousand draws of a table of 50,000 rows, per-draw values alone take 400 MB."""
    post = posterior_of("palette")
    df, union = (
        pd.DataFrame([ROW["palette"]] * 40).assign(x0=np.arange(40) % 4),
        post.condition({"x0": [(0, 0), (2, 3)]}),
    )
    gaps = df.astype({"x0": "Int64"}).assign(x0=pd.array([pd.NA] * 40, dtype="Int64"))

    def ask():
        if query == "impute":
            return pd.concat(post.impute(gaps, n=3, random_seed=2)).assign(
                ess=post.impute(gaps).attrs["draws_after_weighting"]
            )
        return (post if query == "log_density" else union).log_density(df)

    whole, most, log_rows = ask(), [], RecordedLaw._log_density
    for module in (row_questions, recorded_law):
        monkeypatch.setattr(module, "BLOCK_VALUES", 7 * law_of("palette").states.n_draws)
    monkeypatch.setattr(RecordedLaw, "_log_density", lambda self, v, *a: most.append(len(v)) or log_rows(self, v, *a))
    again = ask()
    assert max(most) == 7
    if query == "impute":
        pd.testing.assert_frame_equal(again, whole)
    else:
        np.testing.assert_array_equal(again, whole)
        np.testing.assert_array_equal(again.attrs.get("mcse_chain", 0.0), whole.attrs.get("mcse_chain", 0.0))


def test_a_block_of_rows_without_errors_leaves_those_of_others():
    errors = [{"mcse_chain": np.ones((2, 3))}, {"mcse_chain_note": "none"}, {"mcse_chain": np.zeros((1, 3))}]
    joined = joined_errors(errors, 5, 2)["mcse_chain"]
    np.testing.assert_array_equal(joined[:, 0], [1.0, 1.0, np.nan, np.nan, 0.0])
    assert joined_errors([errors[1]] * 2, 3, 2) == errors[1]


def test_covariances_of_many_columns_take_little_memory_beside_those_of_the_draws(monkeypatch):
    df = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 40)))
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(list(df), n_children=2), observed=df)
        idata = pm.sample(draws=48, tune=2, chains=2, cores=1, progressbar=False, compute_convergence_checks=False)
    post = ps.SPNPosterior.from_idata(idata)
    whole, each = post.cov(), post.cov(per_draw=True)
    monkeypatch.setattr(column_questions, "BLOCK_VALUES", 10_000)
    tracemalloc.start()
    try:
        found = post.cov()
        assert tracemalloc.get_traced_memory()[1] < 2 * each.nbytes
    finally:
        tracemalloc.stop()
    xr.testing.assert_identical(found, whole)
    between = np.cov(post.mean(per_draw=True).values.reshape(-1, 40).T, bias=True)
    np.testing.assert_allclose(found, each.mean(("chain", "draw")) + between, rtol=1e-9, atol=1e-12)


def learned_mixture(seed, n):
    """Rows of three groups, apart in two numbers and in the frequencies of levels."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame(
        {
            "a": rng.normal(np.array([-3.0, 0.5, 4.0])[group], np.array([0.7, 1.0, 0.5])[group]),
            "b": rng.normal(np.array([2.0, -2.0, 0.0])[group], 0.8),
            "c": np.array(list("uvw"))[(group + (rng.random(n) < 0.2)) % 3],
        }
    )
    return frame, rng


def coverage_of_learned(n_rows, n_new, draws, tune):
    """Coverage of central intervals of imputed numbers, and how far expected and found levels are apart."""
    frame, rng = learned_mixture(3, n_rows + n_new)
    train, new = frame[:n_rows], frame[n_rows:].reset_index(drop=True)
    with pm.Model() as model:
        ps.SPN("x", ps.circuits.complete_tree(ps.Table.from_frame(train).columns, n_children=4), observed=train)
    post = ps.SPNPosterior.from_idata(draw(model, draws=draws, tune=tune, random_seed=4))
    blank = rng.integers(0, 3, n_new)
    gaps = new.copy()
    for d, name in enumerate(frame):
        gaps[name] = gaps[name].mask(blank == d)
    copies = post.impute(gaps, n=39, random_seed=rng)
    ranks = np.concatenate(
        [
            (np.array([c[k][blank == d] for c in copies]) < new[k][blank == d].to_numpy()).sum(axis=0)
            for d, k in enumerate("ab")
        ]
    )
    covered = (ranks >= 4) & (ranks < 36)  # 32 of 40 places
    at = blank == 2
    share = np.mean([(c["c"][at] == new["c"][at]).to_numpy() for c in copies], axis=0)
    level = new["c"][at].to_numpy()
    proba = post.predict_proba(new[at], "c")
    alone = np.array([float(proba.sel(row=r, level=k)) for r, k in zip(new.index[at], level, strict=True)])
    expected = (proba.values**2).sum(axis=1)  # of the probability of the true level, were the law the learned one
    return covered, share, alone, expected


def within_bound(covered, share, alone, expected, slack):
    """Binomial bound of five standard errors, and what a law learned from finitely many rows may be off."""
    n = covered.size
    assert abs(covered.mean() - 0.8) < 5.0 * np.sqrt(0.8 * 0.2 / n) + slack
    assert abs(share.mean() - alone.mean()) < 5.0 * np.sqrt(0.25 / (39 * share.size))
    assert abs(share.mean() - expected.mean()) < 5.0 * share.std() / np.sqrt(share.size) + slack


def test_imputed_cells_of_a_learned_table_cover_the_truth():
    """Mixed columns of a known mixture: 80 % intervals cover 80 % of some 400 blanked numbers, and levels are found.

    Bounds are five binomial standard errors (0.10 of coverage). Planted: levels found as often as in rows of which
    nothing is known.
    """
    answers = coverage_of_learned(150, 600, 20, 40)
    within_bound(*answers, slack=0.02)
    covered, share, alone, expected = answers
    with pytest.raises(AssertionError):
        within_bound(covered, np.full(share.size, 0.38), alone, expected, slack=0.02)  # the levels' shares alone
