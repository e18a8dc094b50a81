"""The exact recursion against enumeration of all trees and against quadrature over cut points."""

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from tests import reference_trees as ref
from tests.reference import total_variation
from tests.trees.small_trees import (
    FAMILIES,
    RESPONSES,
    RULES,
    draws_of,
    enumerated,
    frequencies,
    log_leaf,
    mixed_frame,
    probabilities,
    words,
)


@pytest.mark.parametrize("categorical", ["onehot", "subset"])
@pytest.mark.parametrize("family", FAMILIES)
def test_evidence_is_the_sum_over_all_trees(family, categorical):
    frame, y = mixed_frame(), RESPONSES[family]
    exact = ps.trees.exact_tree_evidence(frame, y, FAMILIES[family][0], categorical=categorical, **RULES)
    assert exact.log_evidence.item() == pytest.approx(
        ref.log_evidence(enumerated(frame, y, family, categorical)), 1e-12
    )
    assert exact.log_evidence.attrs["exactness"] == "exact"


@pytest.mark.parametrize(
    "settings", [{"max_depth": 0}, {"max_depth": 1}, {"max_depth": 2}, {"min_size": 3}, {"beta_s": 0.0}]
)
@pytest.mark.parametrize("columns", [["a", "b"], ["a"]])
def test_stopping_rules(settings, columns):
    frame = pd.DataFrame({"a": [0.0, 1.0, 1.0, 2.5, 4.0], "b": [3.0, 1.0, 2.0, 2.0, 0.0]})[columns]
    y = RESPONSES["classes"]
    trees = enumerated(frame, y, "classes", **settings)
    exact = ps.trees.exact_tree_evidence(frame, y, FAMILIES["classes"][0], **(RULES | settings))
    assert exact.log_evidence.item() == pytest.approx(ref.log_evidence(trees), 1e-12)
    tree, value = exact.most_probable()
    assert value == pytest.approx(max(v for _, v in trees), 1e-12)
    post = exact.posterior(200, 1)
    assert words(tree.decisions, draws_of(post).features) in probabilities(trees)


def test_a_weight_of_the_features_is_their_prior():
    frame = pd.DataFrame({"a": [0.0, 1.0, 1.0, 2.5], "b": [3.0, 1.0, 2.0, 2.0], "c": [1.0, 2.0, 3.0, 4.0]})
    y = [0, 1, 2, 1]
    exact = ps.trees.exact_tree_evidence(frame, y, FAMILIES["classes"][0], split_weights={"a": 3.0, "c": 0.0}, **RULES)
    trees = enumerated(frame, y, "classes", weights=[3.0, 1.0, 0.0])
    assert exact.log_evidence.item() == pytest.approx(ref.log_evidence(trees), 1e-12)
    assert "c" not in set(exact.root_splits()["feature"])


def test_collapsed_cuts_are_the_integral_over_cut_points():
    x, y = [0.0, 0.3, 1.0, 1.1, 2.0], RESPONSES["classes"]
    exact = ps.trees.exact_tree_evidence(np.array(x)[:, None], y, FAMILIES["classes"][0], max_depth=2, **RULES)
    value = ref.evidence_by_quadrature(x, y, RULES["alpha_s"], RULES["beta_s"], log_leaf("classes"))
    assert exact.log_evidence.item() == pytest.approx(np.log(value), abs=1e-9)


def test_root_splits_and_draws_have_the_enumerated_probabilities():
    frame, y = mixed_frame(), RESPONSES["classes"]
    exact = ps.trees.exact_tree_evidence(frame, y, FAMILIES["classes"][0], **RULES)
    truth = probabilities(enumerated(frame, y, "classes"))
    roots = {}
    for key, p in truth.items():
        roots[key[0]] = roots.get(key[0], 0.0) + p
    table = exact.root_splits()
    assert table["probability"].iloc[0] == pytest.approx(roots[None], 1e-10)
    assert sorted(table["probability"]) == pytest.approx(sorted(roots.values()), 1e-10)
    drawn = frequencies(exact.posterior(20_000, 5))
    # 20,000 independent draws of 195 trees are 0.032 away on average, and 0.029 to 0.034 over seeds 1-6
    assert total_variation(drawn, truth) < 0.041


def test_shifting_and_scaling_features_changes_nothing_but_a_monotone_transform_does():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9, 1)), rng.integers(0, 2, 9)
    family = ps.leaves.ClassLeaves(2.0)
    value = ps.trees.exact_tree_evidence(x, y, family).log_evidence.item()
    assert ps.trees.exact_tree_evidence(5.0 - 0.1 * x, y, family).log_evidence.item() == pytest.approx(value, 1e-12)
    assert ps.trees.exact_tree_evidence(np.exp(x), y, family).log_evidence.item() != pytest.approx(value, 1e-6)


@pytest.mark.filterwarnings("ignore:X. constant columns")
def test_single_row_and_single_class():
    same = np.array([[1.0, 2.0], [1.0, 2.0]])
    assert ps.trees.exact_tree_evidence(same, [0, 0], ps.leaves.ClassLeaves(1.0, levels=[0])).log_evidence.item() == 0.0
    one = ps.trees.exact_tree_evidence(same[:1], [1], ps.leaves.ClassLeaves(1.0, levels=[0, 1]))
    assert one.log_evidence.item() == pytest.approx(np.log(0.5), 1e-14)


def test_too_large_a_recursion_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"needs more than max_states = 50 row sets"):
        ps.trees.exact_tree_evidence(rng.normal(size=(8, 2)), [0, 1] * 4, max_states=50)
