"""Answers of a posterior over trees, from hand-made and small trees: predictions, leaves, features, distances."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import pymc_spn as ps
from pymc_spn.trees.tree import Tree
from tests import reference_trees as ref
from tests.trees.small_trees import FAMILIES, RESPONSES, RULES, STUMP, draws_of, enumerated, mixed_frame, posterior


def stump(family=None, y=(0, 0, 1, 1)):
    """One split between 1 and 3 of x = 0, 1, 3, 4."""
    return posterior(np.array([[0.0], [1.0], [3.0], [4.0]]), list(y), [STUMP], family or ps.leaves.ClassLeaves(1.0))


def test_rows_carry_labels_that_a_file_can_hold(tmp_path):
    rows = pd.DataFrame({"x0": [0.0, 2.0]}, index=pd.date_range("2026-01-01", periods=2, tz="UTC"))
    found = stump().predict_proba(rows)
    assert found["row"].values.tolist() == ["2026-01-01 00:00:00+00:00", "2026-01-02 00:00:00+00:00"]
    found.to_netcdf(tmp_path / "found.nc", engine="h5netcdf")


def test_averages_over_trees_are_given_the_draws():
    x, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0.0, 1.0, 5.0, 6.5])
    groups = [0, 1]
    numbers, levels = (
        posterior(x, values, [STUMP, [STUMP[1]]], family, groups=groups)
        for values, family in ((y, ps.leaves.NormalLeaves()), ([0, 0, 1, 1], ps.leaves.ClassLeaves(1.0)))
    )
    averages = [levels.predict_proba(x), levels.predict(x)]
    ones = [levels.predict_proba(x, per_draw=True), levels.log_joint, numbers.log_likelihood()]
    for post, answers in ((numbers, y), (levels, [0, 0, 1, 1])):
        averages += [post.variable_inclusion(), post.variable_importance(), post.partial_dependence("x0")]
        averages += [post.ice("x0"), post.log_predictive(x, answers)]
        ones += [post.partial_dependence("x0", per_draw=True), post.leaf_posterior()]
    averages += [numbers.predict(x), numbers.predict_sd(x), numbers.predict_cdf(x, y)]
    assert {answer.attrs["exactness"] for answer in averages} == {"exact given the draws"}
    assert {answer.attrs["exactness"] for answer in ones} == {"exact"}
    assert numbers.predict_quantile(x, 0.5).attrs["exactness"] == "numerical given the draws"


def test_the_error_of_a_mean_is_that_of_the_mean():
    """Half the distance of two chains; it was that of the mean square, which grows with the distance from 0."""
    x, y, trees = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0.0, 1.0, 5.0, 6.5]) + 1e6, [STUMP, [STUMP[1]]]
    one, other = (posterior(x, y, [tree], ps.leaves.NormalLeaves()).predict(x) for tree in trees)
    both = posterior(x, y, trees, ps.leaves.NormalLeaves(), groups=[0, 1]).predict(x)
    assert both.attrs["mcse_chain"] == pytest.approx(0.5 * float(abs(one - other).max()), rel=1e-6)


def test_soft_cuts_are_uniform_in_their_gap():
    post = stump()
    x = np.array([[0.0], [1.0], [1.5], [2.0], [2.5], [3.0], [9.0]])
    left, right = 2.5 / 3.0, 0.5 / 3.0  # two rows of class 0 and total mass 1
    share = np.array([1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0])
    np.testing.assert_allclose(post.predict_proba(x).sel({"level": 0}), share * left + (1 - share) * right)
    hard = post.predict_proba(x, soft=False).sel({"level": 0}).values
    np.testing.assert_allclose(hard, np.where(x[:, 0] <= 2.0, left, right))
    assert post.predict(x).values.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert post.predict_proba(x).attrs["exactness"] == "exact given the draws"


def test_missing_values_follow_the_rows_or_the_side_that_was_learned():
    post = stump()
    left = 2.5 / 3.0
    # no training row lacked the feature: both branches, half the rows each
    assert post.predict_proba(np.array([[np.nan]])).values[0, 0] == pytest.approx(0.5)
    x = np.array([[0.0], [1.0], [3.0], [4.0], [np.nan]])
    taught = [[(0, 1, 2, 0), *STUMP[1:]]]
    learned = posterior(x, [0, 0, 1, 1, 0], taught, ps.leaves.ClassLeaves(1.0))
    left = 3.5 / 4.0
    assert learned.predict_proba(np.array([[np.nan]])).values[0, 0] == pytest.approx(left)


def test_levels_of_one_hot_and_subset_splits():
    frame = pd.DataFrame({"c": list("uvwx")})
    one = posterior(frame, [0, 1, 1, 1], [[(0, 0, 0, -1), *STUMP[1:]]], ps.leaves.ClassLeaves(1.0))
    p = one.predict_proba(frame).values[:, 0]
    np.testing.assert_allclose(p, [1.5 / 2.0, 0.5 / 4.0, 0.5 / 4.0, 0.5 / 4.0])
    # the right child splits u+v off, among u, v, w: x is not known there
    inner = [(0, 8, 15, -1), (-1, 0, 0, -1), (0, 3, 7, -1), (-1, 0, 0, -1), (-1, 0, 0, -1)]
    two = posterior(frame, [0, 0, 1, 1], [inner], ps.leaves.ClassLeaves(1.0), categorical="subset")
    p = two.predict_proba(frame).values[:, 0]
    np.testing.assert_allclose(p, [2.5 / 3.0, 2.5 / 3.0, 0.5 / 2.0, 0.5 / 2.0])
    assert "c in {u, v}" in two.rules() and "c = u" in one.rules()
    with pytest.raises(ValueError, match=r"column 'c', row 0 .*unseen level"):
        one.predict_proba(pd.DataFrame({"c": ["z"]}))
    unseen = one.predict_proba(pd.DataFrame({"c": ["z"]}), unseen="missing").values[0, 0]
    assert unseen == pytest.approx(0.25 * 0.75 + 0.75 * 0.125)


@pytest.mark.parametrize("family", FAMILIES)
def test_predictives_are_ratios_of_evidences(family):
    """p(y* | x*, data) of the exact posterior at a training row's features is the ratio with the row doubled."""
    x, y = np.array([[0.0], [1.0], [3.0], [3.5]]), RESPONSES[family][:4]
    made = FAMILIES[family][0]
    if family == "classes":
        made = ps.leaves.ClassLeaves(2.0, levels=(0, 1, 2))
    exact = ps.trees.exact_tree_evidence(x, y, made, **RULES)
    post = exact.posterior(20_000, 1)
    for v in (y[0], y[1]):
        more = ps.trees.exact_tree_evidence(np.vstack([x, x[:1]]), [*y, v], made, **RULES)
        truth = more.log_evidence.item() - exact.log_evidence.item()
        assert post.log_predictive(x[:1], [v]).item() == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("family", ["real", "counts"])
def test_moments_and_densities_of_one_leaf(family):
    y = RESPONSES[family]
    post = posterior(np.arange(5.0)[:, None], y, [[(-1, 0, 0, -1)]], FAMILIES[family][0])
    at = np.array([[0.0]])

    def density(v):
        return float(np.exp(post.log_predictive(at, [v]).values[0]))

    for v in (0.0, 2.0):
        assert density(v) == pytest.approx(ref.predictive(family, list(y), v, **FAMILIES[family][1]), 1e-12)
    if family == "real":
        mean = integrate.quad(lambda v: v * density(v), -np.inf, np.inf)[0]
        square = integrate.quad(lambda v: v * v * density(v), -np.inf, np.inf)[0]
    else:
        p = np.array([density(v) for v in range(200)])
        mean, square = p @ np.arange(200), p @ np.arange(200) ** 2
    assert post.predict(at).item() == pytest.approx(mean, 1e-6)
    assert post.predict_sd(at).item() == pytest.approx(np.sqrt(square - mean**2), 1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_leave_one_out_is_a_ratio_of_leaf_marginals(family):
    from pymc_spn.trees.predictives import log_leave_one_out

    frame, y = mixed_frame(), list(RESPONSES[family])
    post = ps.fit_tree(frame, y, FAMILIES[family][0], exact=True, draws=5, random_seed=2, **RULES)
    draws = draws_of(post)
    from pymc_spn.trees.predictives import training_leaves

    for t in range(5):
        leaf = training_leaves(draws, t)
        for i, value in enumerate(np.exp(log_leave_one_out(draws, t))):
            others = [y[j] for j in range(5) if leaf[j] == leaf[i] and j != i]
            assert value == pytest.approx(ref.predictive(family, others, y[i], **FAMILIES[family][1]), 1e-9)


def test_responses_far_from_all_leaves_have_a_log_predictive():
    """A count of five thousand where two are expected: 1e-600, and no feature is chosen twice."""
    from pymc_spn.trees.predictives import log_predictive_density

    X, at = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 4.0]]), np.array([[0.5, 4.5]])
    post = ps.fit_tree(X, [1, 2, 3], "counts", exact=True, draws=20, random_seed=1)
    draws = draws_of(post)
    found = post.log_predictive(at, [5000]).item()
    single = [log_predictive_density(draws, w, at, True, np.array([5000.0])).item() for w in np.eye(20)]
    assert found == pytest.approx(np.logaddexp.reduce(single) - np.log(20), 1e-12)
    shape, rate = draws.parameters[0]
    of_one_leaf = stats.nbinom(shape + 6.0, (rate + 3.0) / (rate + 4.0)).logpmf(5000)
    stumps = [x for t, x in enumerate(single) if draws.begin[t + 1] - draws.begin[t] == 1]
    assert stumps and stumps == pytest.approx([of_one_leaf] * len(stumps), 1e-12)
    assert found < -720.0
    table = post.variable_importance(at, [5000])
    assert sorted(table["feature"]) == ["(none)", "x0", "x1"] and np.isfinite(table["log_predictive"]).all()
    real = ps.fit_tree(X, [0.0, 1.0, 3.0], "real", exact=True, draws=2, random_seed=1)
    assert np.isfinite(real.log_predictive(at, [1e300])).all()


def test_errors_of_the_spread_and_of_log_densities_are_half_the_distance_of_two_chains():
    x, y, trees = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0.0, 1.0, 5.0, 6.5]), [STUMP, [STUMP[1]]]
    both = posterior(x, y, trees, ps.leaves.NormalLeaves(), groups=[0, 1])
    one, other = (posterior(x, y, [tree], ps.leaves.NormalLeaves()) for tree in trees)
    mean, sd, density = both.predict(x), both.predict_sd(x), both.log_predictive(x, y)
    squares = [p.predict_sd(x) ** 2 + (p.predict(x) - mean) ** 2 for p in (one, other)]
    np.testing.assert_allclose(sd, np.sqrt(0.5 * sum(squares)))
    assert sd.attrs["mcse_chain"] == pytest.approx(float((0.25 * abs(squares[0] - squares[1]) / sd).max()))
    parts = [np.exp(p.log_predictive(x, y)) for p in (one, other)]
    np.testing.assert_allclose(density, np.log(0.5 * sum(parts)))
    relative = abs(parts[0] - parts[1]) / sum(parts)
    assert density.attrs["mcse_chain"] == pytest.approx(float(relative.max()))
    assert "mcse_chain" not in one.predict_sd(x).attrs
    labels = posterior(x, [0, 0, 1, 1], trees, ps.leaves.ClassLeaves(1.0), groups=[0, 1])
    assert labels.predict(x).attrs == labels.predict_proba(x).attrs


@pytest.mark.filterwarnings("error")
def test_standard_deviations_keep_their_digits_where_the_leaves_are_far_apart():
    """As a difference of two mean squares they were off by half, or the root of a negative number."""
    x, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0.0, 3.0, 1e14, 1e14 + 8.0])
    counts = posterior(x, y, [STUMP, STUMP], ps.leaves.CountLeaves(1.0, 1.0)).predict_sd(x)
    shape, rate = 1.0 + np.array([3.0, 2e14 + 8.0]), 3.0
    np.testing.assert_allclose(counts[[0, 3]], np.sqrt(shape / rate + shape / rate**2), rtol=1e-12)
    huge = posterior(x, [0.0, 1e150, 5e150, 6e150], [STUMP, [STUMP[1]]], ps.leaves.NormalLeaves(), groups=[0, 1])
    assert np.isfinite(huge.predict_sd(x)).all() and np.isfinite(huge.predict_sd(x).attrs["mcse_chain"])


def test_standard_deviations_do_not_depend_on_the_origin():
    y, at = np.array([1.0, 1.5, 4.0, 5.0]), np.array([[0.0], [2.0], [4.0]])
    near = stump(ps.leaves.NormalLeaves(0.0, 1.0, 2.0, 0.5), y).predict_sd(at)
    far = stump(ps.leaves.NormalLeaves(1e9, 1.0, 2.0, 0.5), y + 1e9).predict_sd(at)
    np.testing.assert_allclose(far, near, rtol=1e-6)


def test_leaf_posteriors():
    table = stump().leaf_posterior(mass=0.5)
    assert table["rule"].tolist() == ["x0 ≤ 2", "x0 > 2"] and table["rows"].tolist() == [2, 2]
    np.testing.assert_allclose(table["P(0)"], [2.5 / 3, 0.5 / 3])
    assert table["P(0) low"].iloc[0] == pytest.approx(stats.beta(2.5, 0.5).ppf(0.25))
    real = stump(ps.leaves.NormalLeaves(0.0, 1.0, 1.5, 0.5), (1.0, 3.0, 5.0, 9.0)).leaf_posterior()
    assert real["mean"].tolist() == pytest.approx([4.0 / 3.0, 14.0 / 3.0])
    assert (real["mean low"] < real["mean"]).all() and (real["sd low"] < real["sd"]).all()
    counts = stump(ps.leaves.CountLeaves(1.0, 1.0), (1, 3, 5, 9)).leaf_posterior()
    assert counts["rate"].tolist() == pytest.approx([5.0 / 3.0, 15.0 / 3.0])
    binary = stump(ps.leaves.BinaryLeaves(1.0, 1.0), (0, 1, 1, 1)).leaf_posterior()
    assert binary["P(1)"].tolist() == pytest.approx([0.5, 0.75])


def test_weights_groups_and_their_error():
    post = posterior(
        np.array([[0.0], [1.0], [3.0], [4.0]]),
        [0, 0, 1, 1],
        [STUMP, [(-1, 0, 0, -1)]],
        ps.leaves.ClassLeaves(1.0),
        weights=[0.75, 0.25],
        groups=[0, 1],
    )
    p = post.predict_proba(np.array([[0.0]]))
    assert p.values[0, 0] == pytest.approx(0.75 * 2.5 / 3 + 0.25 * 0.5)
    assert p.attrs["mcse_chain"] > 0.0
    each = post.predict_proba(np.array([[0.0]]), per_draw=True)
    assert each.dims == ("tree", "row", "level") and each.values[:, 0, 0].tolist() == pytest.approx([2.5 / 3, 0.5])
    drawn = post.sample_trees(2000, random_seed=1)
    assert sum(t.n_leaves == 2 for t in drawn) == pytest.approx(1500, abs=100)


def test_inclusion_and_importance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = (x[:, 1] > 0).astype(int)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    post = ps.fit_tree(frame, y, ps.leaves.ClassLeaves(1.0), particles=50, islands=1, random_seed=1)
    inclusion = post.variable_inclusion()
    assert inclusion.sel(statistic="probability", feature="b") == pytest.approx(1.0)
    assert inclusion.sel(statistic="share").sum() == pytest.approx(1.0)
    table = post.variable_importance()
    assert table["feature"].tolist()[:2] == ["(none)", "b"]
    full = post.log_predictive(frame, y).mean().item()
    assert table["log_predictive"].iloc[-1] == pytest.approx(full, rel=1e-12)
    share = y.mean()
    blind = share * np.log(share) + (1 - share) * np.log(1 - share)
    assert table["log_predictive"].iloc[0] == pytest.approx(blind, abs=0.02)
    assert len(post.variable_importance(frame, y)) == len(table)


def test_partial_dependence_and_individual_curves():
    post = stump()
    curve = post.partial_dependence("x0", [0.0, 2.0, 4.0])
    np.testing.assert_allclose(curve.sel({"level": 0}), [2.5 / 3, 0.5, 0.5 / 3])
    assert curve.dims == ("x0", "level")
    each = post.ice("x0", [0.0, 4.0])
    assert each.dims == ("row", "x0", "level") and (each.values[0] == each.values[3]).all()
    per_draw = post.partial_dependence("x0", [0.0], per_draw=True)
    assert per_draw.dims == ("tree", "x0", "level")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "c": rng.choice(list("uv"), 60)})
    y = frame["a"] * (frame["c"] == "u")
    real = ps.fit_tree(frame, y, "real", particles=20, islands=1, random_seed=1)
    ice = real.ice("a")
    np.testing.assert_allclose(ice.mean("row"), real.partial_dependence("a"))
    assert real.partial_dependence("c")["c"].values.tolist() == ["u", "v"]
    with pytest.raises(ValueError, match=r"feature must be one of \['a', 'c'\], got 'b'"):
        real.ice("b")
    with pytest.raises(ValueError, match="grid holds"):
        real.ice("c", ["w"])


@pytest.mark.parametrize("name", ["row", "tree", "level"])
def test_features_may_be_called_like_other_dimensions(name):
    frame = pd.DataFrame({name: [0.0, 1.0, 2.0, 3.0]})
    post = ps.fit_tree(frame, [0, 0, 1, 1], exact=True, draws=5, random_seed=1)
    assert post.partial_dependence(name, [0.5, 2.5]).dims == (f"{name}_value", "level")
    assert post.partial_dependence(name, [0.5], per_draw=True).dims == ("tree", f"{name}_value", "level")
    assert post.ice(name, [0.5]).dims == ("row", f"{name}_value", "level")


def test_a_number_names_the_feature_as_its_digits_do():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({0: rng.normal(size=30), 1: rng.choice(list("abc"), 30)})
    few = {"particles": 10, "islands": 1, "random_seed": 1, "progressbar": False}
    post = ps.fit_tree(frame, rng.integers(0, 2, 30), categorical={1: "subset"}, split_weights={0: 2.0, 1: 1.0}, **few)
    assert post.partial_dependence(0).identical(post.partial_dependence("0"))
    assert post.ice(1, ["a"]).identical(post.ice("1", ["a"]))


def test_rhat_tells_chains_apart():
    rng = np.random.default_rng(0)
    x = np.array([[0.0], [1.0], [3.0], [4.0]])
    leaf = [(-1, 0, 0, -1)]
    mixed = [STUMP if rng.random() < 0.5 else leaf for _ in range(200)]
    apart = [STUMP if i < 95 or i > 195 else leaf for i in range(200)]
    groups = [0] * 100 + [1] * 100
    good, trees = (posterior(x, [0, 0, 1, 1], t, ps.leaves.ClassLeaves(1.0), groups=groups) for t in (mixed, apart))
    assert (good.diagnose()["r_hat"] < 1.05).all() and trees.diagnose().loc["log_joint", "r_hat"] > 1.5
    found = trees.diagnose({"P(0)": lambda post: post.predict_proba(x[:2], per_draw=True).isel({"level": 0})})
    assert f"R-hat {found.loc['log_joint', 'r_hat']:.2f}" in repr(trees)
    rows = [f"log_predictive[{i}]" for i in range(4)]
    assert found.index.tolist() == ["log_joint", "log_predictive, mean of rows", *rows, "P(0)[0]", "P(0)[1]"]
    assert found.loc["log_predictive, mean of rows", "r_hat"] > 1.5
    assert found.loc["P(0)[0]", "r_hat"] > 1.5


def test_records_of_trees_are_exact():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    post = ps.fit_tree(x, y, ps.leaves.ClassLeaves(0.5), particles=20, islands=1, random_seed=1)
    for t in post.sample_trees(10, random_seed=2):
        record = t.encode()
        assert Tree.decode(record, len(t.decisions)) == t and record.isascii() and not record.endswith(b"\0")
        assert (t.children[t.children[:, 0] >= 0].ravel() == np.arange(1, len(t.decisions))).all()
    with pytest.raises(ValueError, match="one node more than twice its splits"):
        Tree(np.array([(0, 0, 1, -1)]))


def test_most_probable_tree_of_the_draws():
    frame, y = mixed_frame(), RESPONSES["classes"]
    exact = ps.trees.exact_tree_evidence(frame, y, FAMILIES["classes"][0], **RULES)
    post = exact.posterior(3000, 1)
    tree, value = exact.most_probable()
    assert value == pytest.approx(max(v for _, v in enumerated(frame, y, "classes")), 1e-12)
    assert post.log_joint.values[post.most_probable()] == pytest.approx(value, 1e-12)
    assert post.rules().splitlines()[0] == "all rows [5]"
    assert tree.n_leaves == post.tree(post.most_probable()).n_leaves
