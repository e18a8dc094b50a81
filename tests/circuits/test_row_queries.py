"""Queries about rows: surprise, explanations, co-clustering, multiple imputation, and what is refused."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st

import pymc_spn as ps
from tests.circuits.hand_made_records import schema_of, tree_of
from tests.circuits.test_posterior import posterior_of, problem_of, sampled_tree

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
    weight = np.exp(post._log_weights) / np.exp(post._log_weights).sum()
    each = post.log_density(df, per_draw=True).values[0]
    mean = weight @ each
    np.testing.assert_allclose(found.log_density_sd, np.sqrt(weight @ (each - mean) ** 2), rtol=1e-9)


def test_a_row_outside_the_condition_is_infinitely_surprising():
    found = (
        posterior_of("missing")
        .condition({"x0": (0.5, 2.0)})
        .anomaly(pd.DataFrame([ROW["missing"], ROW["missing"] | {"x0": 7.0}]))
    )
    assert np.isfinite(found.surprise[0]).all() and np.isposinf(found.surprise[1]).all()
    assert found.log_density[1] == -np.inf


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
    assert found.attrs["exactness"] == "exact" and (found.hdi[:, 0] <= found.hdi[:, 1]).all()
    drawn = post.explain(pd.Series(ROW[name]), target, n_permutations=60, random_seed=3)
    assert drawn.attrs["exactness"] == "monte-carlo"
    off = np.abs(drawn.shapley - found.shapley)
    assert (off <= 5 * drawn.shapley.attrs["mcse"] + 1e-12).all()
    assert float(drawn.shapley.sum()) == pytest.approx(total - baseline, abs=1e-12)
    again = post.explain(ROW[name], target, n_permutations=60, random_seed=3)
    np.testing.assert_array_equal(drawn.shapley, again.shapley)


@property_of(x0=st.floats(0.05, 5.0), x1=st.integers(0, 1), x2=st.one_of(st.none(), st.integers(0, 9)))
@settings(max_examples=15, deadline=None)
def test_contributions_add_up(x0, x1, x2):
    post = posterior_of("infinite_missing")
    row = {"x0": [x0], "x1": [x1], "x2": [np.nan if x2 is None else x2]}
    found = post.explain(pd.DataFrame(row))
    log = float(post.log_density(row)[0])
    assert float(found.shapley.sum()) == pytest.approx(log, abs=1e-10) and float(found.total) == pytest.approx(log)
    if x2 is not None:
        about = post.explain(pd.DataFrame(row), target="x1")
        gain = float(np.log(post.predict_proba(row, "x1")[0, x1]) - np.log(post.probability({"x1": x1})))
        assert float(about.shapley.sum()) == pytest.approx(gain, abs=1e-10)


# ---- co-clustering
def two_partitions():
    problem = problem_of("missing")
    digits = np.zeros((1, 4, 3, 5), np.int8)
    digits[0, :, :, 0] = [[0, 1, 1], [0, 1, 1], [0, 0, 1], [1, 0, 0]]
    return ps.SPNPosterior.from_idata(
        tree_of(schema_of(problem), problem.X, digits, np.ones((1, 4, 2)), np.ones((1, 4)))
    )


def test_co_clustering_of_training_rows_counts_draws():
    post = two_partitions()
    found = post.co_clustering()
    np.testing.assert_allclose(found, [[1, 0.25, 0], [0.25, 1, 0.75], [0, 0.75, 1]])
    assert found["row"].values.tolist() == [10, 11, 12] and "mcse_chain" in found.attrs
    best = post.top_clusters()
    assert best.values.tolist() == [1, 0, 0] and best.attrs["draw"] in (0, 1, 3)


def test_co_clustering_of_new_rows_is_by_their_own_probabilities():
    """Of one draw by hand: children weighted by their rows and by the density of the row in them."""
    post = two_partitions()
    df = pd.DataFrame([ROW["missing"], {"x0": 0.3, "x1": 0, "x2": 1}, {"x0": np.nan, "x1": None, "x2": np.nan}])
    found = post.co_clustering(df)
    states = post._states
    together = np.zeros((3, 3))
    for s in range(4):
        net = states.network(s)
        rows, names = [], ["x0", "x1", "x2"]
        for _, row in df.iterrows():
            known = {c: row[c] for c in names if not pd.isna(row[c])}
            values = np.array([[known.get(c, np.nan) for c in names]], float)
            logs = states.log_densities(values, {})[s, 0] + 0.0
            whole = np.exp(logs - states.log_jacobian(values)[0])
            slots = np.flatnonzero(net.edge_count[net.begin[0] : net.begin[0] + net.top[0]])
            weight = net.weight[net.begin[0] + slots] / (net.node_count[0] + net.mass[0])
            value = np.exp(_child_logs(states, s, values)[slots])
            rows.append(weight * value / whole)
        same = np.array(rows) @ np.array(rows).T
        np.fill_diagonal(same, 1.0)
        together += same / 4
    np.testing.assert_allclose(found, together, rtol=1e-9)
    assert found.values[0, 1] < 1.0


def _child_logs(states, s, values):
    """Log value of each child of the top sum node, by networks that have that child alone."""
    from pymc_spn.circuits.gibbs.exact import evaluate_regions_by_logs
    from pymc_spn.circuits.queries import predictive_kernels

    net = states.network(s)
    coded = states.schema.code(values)[0]
    no = np.zeros(values.shape[1], np.bool_)
    total, logs = predictive_kernels.evaluate_row(net, coded, no, np.zeros(net.entry.size))
    if net.missing[0]:
        return np.zeros(int(net.top[0]))
    linear = net.value[net.begin[0] : net.begin[0] + net.top[0]].copy()
    shift = total - np.log(net.node_value[0]) if not logs else 0.0
    assert not logs and evaluate_regions_by_logs is not None
    with np.errstate(divide="ignore"):
        return np.log(linear) + shift


# ---- multiple imputation
def test_imputed_cells_are_calibrated():
    """Blank cells whose values are known: the rank of the truth among its imputations is uniform.

    Rows are drawn from the predictive itself, so the law of the truth given the rest is the one that imputes. Of
    2,000 ranks in ten bins chi-square stays below its 1 - 1e-4 quantile; cells imputed without regard to the rest
    of their row (planted) exceed it.
    """
    post = ps.SPNPosterior.from_idata(sampled_tree("depths", draws=6, chains=1))
    wide = two_groups()
    for source, planted in ((post, False), (wide, False), (wide, True)):
        rng = np.random.default_rng(4)
        truth = source.sample(1_000, random_seed=rng)
        truth = truth.where(truth["x0"] > 0, 1.0) if source is post else truth
        blank = truth.copy()
        gap = rng.random(truth.shape) < 0.5
        gap[gap.all(axis=1), 0] = False
        blank = blank.mask(gap)
        if planted:
            blank = blank.mask(~gap)  # the observed cells are hidden from the imputation
            blank.iloc[:, 0] = np.nan
        copies = np.array([c.to_numpy(float) for c in source.impute(blank, n=19, random_seed=rng)])
        cells = gap.copy()
        if source is post:
            cells[:, 0] = False  # rows of a positive column were made positive by hand
        rank = (copies < truth.to_numpy(float)[None]).sum(axis=0)[cells]
        by_group = rank[(truth["x1"].to_numpy() > 0)[np.nonzero(cells)[0]]] if source is wide else rank
        counts = np.bincount(by_group // 2, minlength=10)
        expected = by_group.size / 10
        chi_square = np.sum((counts - expected) ** 2 / expected)
        if source is wide and not planted:
            # within a group of rows ranks of the imputed cells stay uniform only if the row was looked at
            other = cells & (np.arange(2) == 0)
            rank = (copies < truth.to_numpy(float)[None]).sum(axis=0)[other]
            side = (truth["x1"].to_numpy() > 0)[np.nonzero(other)[0]]
            counts = np.bincount(rank[side] // 2, minlength=10)
            expected = side.sum() / 10
            chi_square = np.sum((counts - expected) ** 2 / expected)
        assert (chi_square > 33.7) == planted


def two_groups():
    """One draw in which two columns hang together by two far groups of rows."""
    from tests.reference import Problem

    rng = np.random.default_rng(0)
    side = np.repeat([-1.0, 1.0], 10)[:, None]
    X = side * [6.0, 4.0] + rng.normal(size=(20, 2))
    leaf = ("gaussian", {"mu0": 0.0, "rho0": 0.01, "a0": 3.0, "b0": 3.0})
    problem = Problem(((0,), (1,)), 2, 1.0, 0.5, [[leaf], [leaf]], X)
    digits = np.zeros((1, 1, 20, 3), np.int8)
    digits[0, 0, :, 0] = side[:, 0] > 0
    return ps.SPNPosterior.from_idata(tree_of(schema_of(problem), X, digits, np.ones((1, 1, 2)), np.ones((1, 1))))


# ---- refusals
def test_interventions_are_refused_with_the_reason():
    with pytest.raises(
        NotImplementedError, match="model of the joint distribution and says nothing of what would happen"
    ):
        posterior_of("missing").do(x0=3)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.explain(ROW["missing"], target="z"), "target must name one of the columns"),
        (
            lambda p: p.explain({"x0": 1.0, "x1": None, "x2": 1}, target="x1"),
            "row must hold a value of the target 'x1'",
        ),
        (lambda p: p.explain({"x0": None, "x1": None, "x2": None}), "at least one observed cell"),
        (lambda p: p.explain(pd.DataFrame([ROW["missing"]] * 2)), "row must hold one row, got 2"),
        (lambda p: p.explain(ROW["missing"], prob=0.0), "prob must be within 0 and 1"),
        (lambda p: p.explain(ROW["missing"], n_permutations=1), "n_permutations must be an integer of at least 2"),
        (lambda p: p.condition({"x1": 1}).co_clustering(), "needs the posterior as sampled"),
        (lambda p: p.marginal(["x0"]).top_clusters(), "needs the posterior as sampled"),
    ],
)
def test_bad_questions_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(posterior_of("missing"))
    with pytest.raises(TypeError, match="row must be a mapping"):
        posterior_of("missing").explain(3)
