"""Quantiles of a response given rows: closed forms of one leaf, integrals of the predictive density, sums of masses."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.trees import predictive_quantiles
from tests.trees.small_trees import STUMP, posterior

LEVELS = np.array([1e-6, 0.05, 0.5, 0.9, 1.0 - 1e-6])
X = np.array([[0.0], [1.0], [3.0], [4.0]])
ONE_LEAF = [STUMP[1]]


NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def share_below(post, row, x):
    """P(response <= x) by quadrature of the predictive density: Gauss-Legendre in 60 pieces of t."""
    t = (np.arange(60)[:, None] + 0.5 + 0.5 * NODES).ravel() / 60
    y = x - t / (1.0 - t)
    density = np.exp(post.log_predictive(np.repeat(row, t.size, axis=0), y).values) / (1.0 - t) ** 2
    return float(density @ np.tile(WEIGHTS, 60)) / 120


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_one_leaf_has_the_quantiles_of_its_predictive(offset):
    y = np.array([0.0, 1.0, 5.0, 6.5]) + offset
    family = ps.leaves.NormalLeaves(mu0=offset + 1.0, kappa0=0.5, a0=1.5, b0=2.0)
    found = posterior(X, y, [ONE_LEAF], family).predict_quantile(X[:2], LEVELS)
    kappa, mean = 4.5, (0.5 * 1.0 + 12.5) / 4.5
    spread = np.sum((y - y.mean()) ** 2)
    b = 2.0 + 0.5 * spread + 0.5 * 0.5 * 4.0 * (3.125 - 1.0) ** 2 / kappa
    law = stats.t(7.0, offset + mean, np.sqrt(b * (kappa + 1.0) / (3.5 * kappa)))
    np.testing.assert_allclose(found, np.tile(law.ppf(LEVELS), (2, 1)), rtol=1e-12, atol=1e-9)
    assert found.dims == ("row", "quantile") and found.attrs["exactness"] == "numerical given the draws"
    counts = np.array([0.0, 2.0, 1.0, 3.0])
    post = posterior(X, counts, [ONE_LEAF], ps.leaves.CountLeaves(shape=2.0, rate=0.5))
    found = post.predict_quantile(X, [0.0, 0.05, 0.5, 0.999, 1.0])
    exact = stats.nbinom(2.0 + counts.sum(), 4.5 / 5.5).ppf([0.05, 0.5, 0.999])
    np.testing.assert_array_equal(found, np.tile([0.0, *exact, np.inf], (4, 1)))
    assert found.attrs["exactness"] == "exact given the draws" and "mcse_chain" not in found.attrs


@pytest.mark.parametrize("row", [0.5, 2.4, np.nan])
def test_mixtures_of_leaves_and_trees(row):
    y = np.array([0.0, 1.0, 5.0, 6.5])
    post = posterior(X, y, [STUMP, ONE_LEAF], ps.leaves.NormalLeaves(kappa0=0.2, b0=0.3), weights=[0.7, 0.3])
    found = post.predict_quantile(np.array([[row]]), [0.0, 0.05, 0.6, 1.0])
    assert found.values[0, [0, 3]].tolist() == [-np.inf, np.inf]
    for x, q in zip(found.values[0, 1:3], (0.05, 0.6), strict=True):
        assert share_below(post, np.array([[row]]), x) == pytest.approx(q, abs=1e-8)
    one = post.predict_quantile(np.array([[row]]), 0.6)
    assert one.dims == ("row",) and float(one[0]) == found.values[0, 2]
    hard = post.predict_quantile(np.array([[2.4]]), [0.5], soft=False)
    assert share_below_hard(post, hard.item()) == pytest.approx(0.5, abs=1e-8)


def share_below_hard(post, x):
    """The same of a row at 2.4 whose cut is at the middle of its gap: that of a row beyond the gap."""
    return share_below(post, np.array([[3.5]]), x)


def test_counts_in_mixtures_by_sums():
    counts = np.array([0.0, 1.0, 40.0, 60.0])
    post = posterior(X, counts, [STUMP, ONE_LEAF], ps.leaves.CountLeaves(shape=1.0, rate=0.1), weights=[0.9, 0.1])
    rows = np.array([[0.0], [2.0], [np.nan], [5.0]])
    levels = [0.01, 0.4, 0.6, 0.99]
    found = post.predict_quantile(rows, levels)
    values = np.arange(400)
    for m, row in enumerate(rows):
        mass = np.exp(post.log_predictive(np.repeat([row], values.size, axis=0), values))
        np.testing.assert_array_equal(found[m], values[np.searchsorted(np.cumsum(mass), levels)])


def test_the_error_is_that_of_the_distribution_functions_over_the_density():
    y, trees = np.array([0.0, 1.0, 5.0, 6.5]), [STUMP, ONE_LEAF]
    family, row = ps.leaves.NormalLeaves(kappa0=0.2, b0=0.3), np.array([[0.5]])
    both = posterior(X, y, trees, family, groups=[0, 1])
    found = both.predict_quantile(row, 0.4)
    x = float(found[0])
    one, other = (share_below(posterior(X, y, [tree], family), row, x) for tree in trees)
    density = float(np.exp(both.log_predictive(row, [x])[0]))
    assert found.attrs["mcse_chain"] == pytest.approx(0.5 * abs(one - other) / density, rel=1e-6)
    assert "mcse_chain" not in posterior(X, y, trees, family).predict_quantile(row, 0.4).attrs


@pytest.mark.parametrize("row", [0.5, 2.4, np.nan])
def test_distribution_functions_are_integrals_of_the_density(row):
    y, trees = np.array([0.0, 1.0, 5.0, 6.5]), [STUMP, ONE_LEAF]
    family, rows = ps.leaves.NormalLeaves(kappa0=0.2, b0=0.3), np.array([[row], [row], [3.5]])
    post = posterior(X, y, trees, family, weights=[0.7, 0.3])
    found = post.predict_cdf(rows, [-1.0, 4.0, 6.0])
    for m, x in enumerate((-1.0, 4.0, 6.0)):
        assert float(found[m]) == pytest.approx(share_below(post, rows[m : m + 1], x), abs=1e-8)
    assert found.dims == ("row",) and found.attrs["exactness"] == "exact given the draws"
    both = posterior(X, y, trees, family, groups=[0, 1]).predict_cdf(rows[:1], [4.0])
    one, other = (share_below(posterior(X, y, [tree], family), rows[:1], 4.0) for tree in trees)
    assert both.attrs["mcse_chain"] == pytest.approx(0.5 * abs(one - other), rel=1e-6, abs=1e-9)
    counts = posterior(X, [0, 1, 40, 60], trees, ps.leaves.CountLeaves(shape=1.0, rate=0.1), weights=[0.9, 0.1])
    mass = np.exp(counts.log_predictive(np.repeat(rows[:1], 21, axis=0), np.arange(21)))
    assert float(counts.predict_cdf(rows[:1], [20])[0]) == pytest.approx(float(mass.sum()), rel=1e-10)


def test_blocks_of_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)}, index=[f"r{i}" for i in range(60)])
    y = X["a"] * 2.0 + rng.normal(size=60)
    post = ps.fit_tree(X, y, family="real", particles=20, islands=2, random_seed=1)
    whole = post.predict_quantile(X, [0.1, 0.5])
    monkeypatch.setattr(predictive_quantiles, "BLOCK_VALUES", 400)
    parts = post.predict_quantile(X, [0.1, 0.5])
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-12)
    assert parts["row"].values.tolist() == list(X.index)
    assert parts.attrs["mcse_chain"] == pytest.approx(whole.attrs["mcse_chain"])
    at_quantile = post.predict_cdf(X, whole[:, 1].values)
    np.testing.assert_allclose(at_quantile, 0.5, rtol=0, atol=1e-10)
    assert at_quantile["row"].values.tolist() == list(X.index)
    assert post.predict_quantile(X[:0], [0.1, 0.5]).shape == (0, 2)
    assert post.predict_quantile(X, []).shape == (60, 0)
    held = float(np.mean((y >= parts[:, 0]) & (y <= post.predict_quantile(X, 0.9))))
    assert 0.7 < held < 0.97  # of training rows, at 80 %


def test_what_has_no_quantiles_is_refused():
    classes = posterior(X, list("aabb"), [STUMP], ps.leaves.ClassLeaves(1.0))
    with pytest.raises(ValueError, match="predict_quantile is for responses that are numbers; use predict_proba"):
        classes.predict_quantile(X, 0.5)
    real = posterior(X, np.array([0.0, 1.0, 5.0, 6.5]), [STUMP], ps.leaves.NormalLeaves())
    with pytest.raises(ValueError, match="q must be a number or a sequence of numbers within 0 and 1"):
        real.predict_quantile(X, 1.5)
    with pytest.raises(ValueError, match="predict_cdf is for responses that are numbers; use predict_proba"):
        classes.predict_cdf(X, list("aabb"))
    with pytest.raises(ValueError, match="same"):
        real.predict_cdf(X, [1.0])
    with pytest.raises(TypeError, match="q must be a number"):
        real.predict_quantile(X, "0.5")


def test_classes_of_whole_numbers_are_numbers():
    """Ratings: all answers follow from the probabilities of the classes."""
    y = np.array([1, 3, 5, 5])
    post = posterior(X, y, [STUMP, ONE_LEAF], ps.leaves.ClassLeaves(1.0), weights=[0.7, 0.3])
    numbers, p = np.array([1.0, 3.0, 5.0]), post.predict_proba(X).values
    mean = p @ numbers
    np.testing.assert_allclose(post.predict_sd(X), np.sqrt(p @ numbers**2 - mean**2), rtol=1e-12)
    np.testing.assert_allclose(post.predict_cdf(X, [0.5, 1.0, 4.0, 9.0]), [0.0, p[1, 0], p[2, :2].sum(), 1.0])
    found = post.predict_quantile(X, [0.0, 0.3, 1.0])
    inner = numbers[(np.cumsum(p, axis=1) < 0.3).sum(axis=1)]
    np.testing.assert_array_equal(found, np.stack([np.full(4, 1.0), inner, np.full(4, 5.0)], axis=1))
    assert found.attrs["exactness"] == "exact given the draws"
    assert post.predict_quantile(X, 0.5).dims == ("row",)
