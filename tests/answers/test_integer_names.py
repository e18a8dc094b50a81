"""Columns that have integers for names: every query answers as under their digits."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps

N = 40


@cache
def frame():
    rng = np.random.default_rng(1)
    return pd.DataFrame({0: rng.normal(size=N), 1: rng.choice(list("xyz"), N), np.int64(2): rng.poisson(3, N)})


@cache
def posterior():
    tree = ps.circuits.complete_tree(frame().columns, split=[2, 0, 1])
    options = {"leaves": {0: ps.leaves.Gaussian()}, "resolution": {0: 0.0}, "leaf_scale": {0: 0.3, 1: 0.3, "2": 0.3}}
    return ps.fit_variational(frame(), tree, **options, restarts=1, max_steps=5, random_seed=1, progressbar=False)


@pytest.mark.parametrize(
    ("by_number", "by_text"),
    [
        (lambda p, df: p.log_density(df), lambda p, df: p.log_density(df)),
        (
            lambda p, df: p.probability({2: [(0, 1), (3, 4)]}, [{1: "x"}, {np.int8(2): 3}]),
            lambda p, df: p.probability({"2": [(0, 1), (3, 4)]}, [{"1": "x"}, {"2": 3}]),
        ),
        (lambda p, df: p.condition({0: 1.0}).mean(), lambda p, df: p.condition({"0": 1.0}).mean()),
        (lambda p, df: p.marginal([0, 2]).cov(), lambda p, df: p.marginal(["0", "2"]).cov()),
        (lambda p, df: p.quantile(0.5, 2), lambda p, df: p.quantile(0.5, "2")),
        (lambda p, df: p.predict_proba(df, target=1), lambda p, df: p.predict_proba(df, target="1")),
        (lambda p, df: p.entropy(1), lambda p, df: p.entropy("1")),
        (lambda p, df: p.leaf_types(0), lambda p, df: p.leaf_types("0")),
        (
            lambda p, df: p.as_circuit().probability({0: (0, 1)}),
            lambda p, df: p.as_circuit().probability({"0": (0, 1)}),
        ),
    ],
)
def test_a_number_names_the_column_as_its_digits_do(by_number, by_text):
    named = frame().rename(columns=str)
    np.testing.assert_array_equal(by_number(posterior(), frame()), by_text(posterior(), named))


def test_other_answers_and_circuits_of_integers():
    post = posterior()
    assert post.explain(frame()[:1], target=0).attrs["target"] == "0"
    assert post.impute(frame().where(frame()[0] > 0), random_seed=1).shape == (N, 3)
    circuit = ps.circuits.complete_tree([0, 2], n_children=2).circuit({0: ["gaussian"], 2: ["poisson"]})
    assert circuit.names == ("0", "2")
    with pytest.raises(ValueError, match="event names column '0' twice, by a number and by text"):
        post.probability({0: (0, 1), "0": (0, 2)})
    for label in (True, 1.5, ("a", 1)):
        with pytest.raises(ValueError, match="columns must hold names or objects with a string name, got"):
            ps.circuits.complete_tree([label, "b"])
    with pytest.raises(ValueError, match="columns must have distinct names, got '0' at positions 0 and 1"):
        ps.circuits.complete_tree([0, "0"])
