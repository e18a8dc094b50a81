"""Empirical leaf priors: closed forms maximise the marginal likelihood, floors hold, TPE finds what is preferred."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import pymc_spn as ps
from tests.reference import log_marginal


def frame(n=80):
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "height": rng.normal(170.0, 8.0, n),
            "wait": rng.exponential(3.0, n),
            "visits": rng.poisson(4.0, n),
            "colour": rng.choice(["red", "blue"], n),
        }
    )


def tree(n_children=3):
    return ps.circuits.complete_tree(
        ps.Table.from_frame(frame(), kinds={"wait": "positive"}).columns, n_children=n_children
    )


def table():
    return ps.Table.from_frame(frame(), kinds={"wait": "positive"})


LEAVES = {"wait": ps.leaves.Exponential()}


@pytest.mark.parametrize(("ones", "rows"), [(20, 100), (41, 294), (68, 74)])
def test_levels_of_a_column_apart_keep_their_frequency(ones, rows):
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"a": rng.permutation(np.arange(rows) < ones), "b": rng.normal(size=rows)})
    fit = ps.fit_variational(df, restarts=1, random_seed=1, progressbar=False)
    assert float(fit.probability({"a": True})) == pytest.approx(ones / rows, abs=0.01)


def test_centres_of_levels_are_the_frequencies_or_given():
    df = pd.DataFrame({"a": pd.Categorical(["u"] * 3 + ["v", None], ["u", "v", "w"]), "b": [0.1, 2.0, 1.3, 4.1, 3.3]})
    options = {"restarts": 1, "max_steps": 20, "random_seed": 1, "progressbar": False, "leaf_scale": 1e-9}
    given = {"leaves": {"a": ps.leaves.Categorical(probabilities=[0.2, 0.3, 0.5])}}
    for more, centre in (({}, (np.array([3.0, 1.0, 0.0]) + 3**0.5) / (4.0 + 27**0.5)), (given, [0.2, 0.3, 0.5])):
        fit = ps.fit_variational(df, **options, **more)  # with a mass that no row can move
        found = [float(fit.probability({"a": level})) for level in "uvw"]
        np.testing.assert_allclose(found, centre, rtol=1e-6)
    with pytest.raises(ValueError, match=r"leaves\['a'\]: .* probabilities must be of the 3 levels, got 2"):
        ps.fit_variational(df, leaves={"a": ps.leaves.Categorical(probabilities=[0.5, 0.5])})


def test_at_ratio_one_the_closed_forms_maximise_the_marginal_likelihood():
    found = ps.leaves.empirical_leaf_priors(table(), tree(), 1.0, leaves=LEAVES, resolution=0.0, random_seed=1)
    x = frame()
    a0, rho0, alpha = 1.5, 0.05, 2.0

    def best(negative, start):
        result = minimize(
            negative, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
        )
        return result.x

    gaussian = found["height"][0]

    def height(p):
        prior = {"mu0": p[0], "rho0": rho0, "a0": a0, "b0": np.exp(p[1])}
        return -log_marginal("gaussian", prior, x.height)

    mu0, log_b0 = best(height, [165.0, 3.0])
    assert gaussian.mean == pytest.approx(mu0, abs=1e-4)
    assert a0 * gaussian.variance == pytest.approx(np.exp(log_b0), rel=1e-5)
    (log_beta,) = best(lambda p: -log_marginal("exponential", {"alpha": alpha, "beta": np.exp(p[0])}, x.wait), [1.0])
    assert alpha * found["wait"][0].mean == pytest.approx(np.exp(log_beta), rel=1e-5)
    (log_beta,) = best(lambda p: -log_marginal("poisson", {"alpha": alpha, "beta": np.exp(p[0])}, x.visits), [1.0])
    assert alpha / found["visits"][0].mean == pytest.approx(np.exp(log_beta), rel=1e-5)
    assert found["height"] == [gaussian] * 3  # all of the column: all alike
    assert found["colour"] == [ps.leaves.Categorical()]
    (trials, *_) = ps.leaves.empirical_leaf_priors(table(), tree(), 1.0, leaves={"visits": ps.leaves.Binomial(20)})[
        "visits"
    ]
    assert trials == ps.leaves.Binomial(20, mean=x.visits.mean())


def test_smaller_ratios_make_entries_differ_more():
    def spread(ratio):
        found = ps.leaves.empirical_leaf_priors(table(), tree(), ratio, n_entries=200, random_seed=1)
        return np.std([e.mean for e in found["height"]])

    by_ratio = [spread(r) for r in (0.5, 0.1, 0.03)]
    n, sd = 80, frame().height.std(ddof=1)
    expected = [sd * np.sqrt((1.0 - k / n) / k) for k in (40, 8, 2)]  # without replacement
    np.testing.assert_allclose(by_ratio, expected, rtol=0.2)


def test_entries_follow_the_structure_and_the_columns():
    by_column = {"height": 0.1, "wait": 0.5, "visits": 1.0, "colour": 1.0}
    found = ps.leaves.empirical_leaf_priors(
        table(), tree(4), by_column, leaves={"wait": [ps.leaves.Gaussian(), ps.leaves.Exponential()]}
    )
    assert [len(found[c]) for c in found] == [4, 4, 4, 1]
    assert [e.family for e in found["wait"]] == ["gaussian", "exponential"] * 2
    assert len(ps.leaves.empirical_leaf_priors(table(), tree("infinite"), 0.1)["height"]) == 4
    visits = found["visits"]
    assert [e.family for e in visits] == ["poisson", "gaussian"] * 2 and visits[0] == visits[2]
    assert len(set(found["height"])) == 4
    one = ps.leaves.empirical_leaf_priors(table(), tree(), 0.1, random_seed=3)
    assert one == ps.leaves.empirical_leaf_priors(table(), tree(), 0.1, random_seed=3)
    assert one != ps.leaves.empirical_leaf_priors(table(), tree(), 0.1, random_seed=4)


def test_a_floor_keeps_constant_subsamples_from_infinite_density():
    values = np.array([1.0] * 60 + [5.0] * 4)
    structure = ps.circuits.complete_tree(["a"], n_children=8)
    found = ps.leaves.empirical_leaf_priors(pd.DataFrame({"a": values}), structure, 0.05, floor=1e-3, resolution=0.0)[
        "a"
    ]
    assert min(e.variance for e in found) == pytest.approx(1e-3 * values.var())
    on_grid = ps.leaves.empirical_leaf_priors(pd.DataFrame({"a": values}), structure, 0.05, floor=1e-3, resolution=2.0)[
        "a"
    ]
    assert min(e.variance for e in on_grid) == pytest.approx(4.0 / 12.0)
    zeros = ps.Table.from_frame({"a": [0] * 20}, kinds={"a": "count"})
    (entry, *_) = ps.leaves.empirical_leaf_priors(zeros, structure, 0.5)["a"]
    assert entry.mean == pytest.approx(1.0 / 11.0)


def test_a_fit_takes_the_priors():
    found = ps.leaves.empirical_leaf_priors(table(), tree(2), 0.1, random_seed=1)
    post = ps.fit_variational(table(), tree(2), leaves=found, leaf_scale=1.0, restarts=1, random_seed=1)
    assert np.isfinite(post.log_density(table())).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratio": 0.0}, r"ratio must be in \(0, 1\], got 0\.0 for column 'height'"),
        ({"ratio": {"height": 0.5}}, "ratio must have an entry for every column, got none for 'wait'"),
        ({"ratio": {"x": 0.5}}, "ratio names the column 'x'"),
        ({"floor": 0.0}, r"floor must be positive and finite, got 0\.0"),
        ({"n_entries": 0}, "n_entries must be an integer of at least 1, got 0"),
        ({"leaves": {"x": ps.leaves.Gaussian()}}, "leaves names the column 'x'"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        ps.leaves.empirical_leaf_priors(table(), tree(), **({"ratio": 0.5} | change))


def test_tuning_without_optuna_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match='tune_leaf_priors needs Optuna: install the extra "tune"'):
        ps.leaves.tune_leaf_priors(table(), tree(), frame())


class Scorer:
    """Stands for a posterior: prefers Gaussian entries whose means scatter by 2."""

    def __init__(self, leaves):
        self.value = -abs(np.std([e.mean for e in leaves["height"]]) - 2.0)

    def log_density(self, df):
        return np.full(len(df.values), self.value)


def test_tuning_finds_the_ratio_that_validation_rows_prefer():
    known = table()
    validation = known.to_frame().iloc[:7]
    arguments = {"n_trials": 40, "n_entries": 100, "fit": Scorer, "random_seed": 2}
    found = ps.leaves.tune_leaf_priors(known, tree(), validation, **arguments)
    assert found.score == found.scores.max() > -0.3 and found.scores.size == 40
    assert found.scores[20:].mean() > found.scores[:10].mean()
    assert found.ratio["height"] == pytest.approx(1.0 / (1.0 / 80.0 + (2.0 / 8.0) ** 2) / 80.0, rel=0.6)
    assert Scorer(found.leaves).value == found.score
    again = ps.leaves.tune_leaf_priors(known, tree(), validation, **arguments)
    np.testing.assert_array_equal(again.scores, found.scores)
    usual = ps.leaves.tune_leaf_priors(known, tree(2), validation, n_trials=2, random_seed=1)
    assert np.isfinite(usual.scores).all()
    with pytest.raises(ValueError, match="n_trials must be an integer of at least 1, got 0"):
        ps.leaves.tune_leaf_priors(known, tree(), validation, n_trials=0)
