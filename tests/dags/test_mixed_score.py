"""Conditional Gaussian scores against dense formulas configuration by configuration."""

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute

import pymc_spn as ps


def mixed(n=70, seed=0):
    rng = np.random.default_rng(seed)
    sex, dose = rng.integers(0, 2, n), rng.integers(0, 3, n)
    a = rng.normal(size=n) + sex
    b = np.where(dose == 1, 1.0, -0.5) * a + rng.normal(size=n)
    return pd.DataFrame({"a": a, "sex": pd.Categorical(sex), "b": b, "dose": pd.Categorical(dose)})


def by_hand(df, child, parents):
    numeric, discrete = ["a", "b"], ["sex", "dose"]
    codes = np.column_stack([df[c].cat.codes for c in discrete])
    if child in discrete:
        if set(parents) & set(numeric):
            return -np.inf
        levels = [2, 3]
        return brute.bdeu(codes, levels, discrete.index(child), [discrete.index(p) for p in parents], 10.0)
    x = df[numeric].to_numpy()
    x = x - x.mean(axis=0)
    groups = (
        df.groupby([p for p in parents if p in discrete], observed=True).indices
        if set(parents) & set(discrete)
        else {0: np.arange(len(df))}
    )
    inside = [numeric.index(p) for p in parents if p in numeric]
    return sum(brute.bge(x[rows], numeric.index(child), inside, centre=np.zeros(2)) for rows in groups.values())


@pytest.mark.parametrize("limit", [3, 2])
def test_scores_by_configuration(limit):
    df = mixed()
    scores = ps.LocalScores.from_data(df, ps.ConditionalGaussian(), prior="uniform", max_candidates=limit)
    for i, child in enumerate(df):
        for m, value in enumerate(scores.of(child)):
            expected = by_hand(df, child, scores.parents_of_index(i, m))
            assert value == pytest.approx(expected, abs=1e-9)


def test_turning_an_edge_between_columns_of_a_type_keeps_the_score():
    scores = ps.LocalScores.from_data(mixed(), ps.ConditionalGaussian(), prior="uniform")
    base = [("sex", "a"), ("dose", "a"), ("sex", "b"), ("dose", "b")]
    for one, other in ((("a", "b"), ("b", "a")), (("sex", "dose"), ("dose", "sex"))):
        graphs = [ps.DAG.from_edges(scores.names, [*base, edge]).adjacency for edge in (one, other)]
        assert scores.log_score(graphs[0]) == pytest.approx(scores.log_score(graphs[1]), abs=1e-9)
    assert ps.OrderSPN.exact(scores).edge_probabilities().sel(parent="a", child="sex") == 0.0


def test_rows_in_which_a_column_was_set_are_left_out():
    df = mixed()
    mask = np.zeros(df.shape, bool)
    mask[:20, 2] = True
    scores = ps.LocalScores.from_data(df, ps.ConditionalGaussian(), prior="uniform", interventions=mask)
    plain = ps.LocalScores.from_data(df, ps.ConditionalGaussian(), prior="uniform")
    np.testing.assert_allclose(scores.of("a"), plain.of("a"), atol=1e-9)
    x = df[["a", "b"]].to_numpy() - df[["a", "b"]].to_numpy().mean(axis=0)
    assert scores.of("b")[0] == pytest.approx(brute.bge(x[20:], 1, [], centre=np.zeros(2)), abs=1e-9)
