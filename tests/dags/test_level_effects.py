"""Laws of one variable with levels when another is set, against sums over all configurations and all graphs."""

import itertools

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute

import pymc_spn as ps
from pymc_spn.dags.set_effects import laws_when_set

NAMES = list("abcd")
LEVELS = {"a": ["low", "mid", "high"], "b": ["no", "yes"], "c": [False, True], "d": ["u", "v", "w"]}


def levels_table(n=40):
    """A cause, what it causes, and a common cause of both."""
    rng = np.random.default_rng(3)
    a = rng.integers(3, size=n)
    b = (rng.random(n) < 0.2 + 0.25 * a).astype(int)
    c = rng.random(n) < 0.2 + 0.2 * a + 0.3 * b
    d = (b + rng.integers(2, size=n)) % 3
    columns = {"a": a, "b": b, "c": c.astype(int), "d": d}
    return pd.DataFrame({k: pd.Categorical.from_codes(v, LEVELS[k]) for k, v in columns.items()})


def by_enumeration(graph, codes, weights, ess, cause, effect, cut=True):
    """P(effect | do(cause)) with mean probabilities, summed over all configurations."""
    sizes = [len(levels) for levels in LEVELS.values()]
    law = np.zeros((sizes[cause], sizes[effect]))
    for x in range(sizes[cause]):
        for values in itertools.product(*map(range, sizes)):
            if values[cause] != x:
                continue
            p = 1.0
            for i in range(len(sizes)):
                if i == cause and cut:
                    continue
                parents = np.flatnonzero(graph[:, i])
                fits = (codes[:, parents] == np.array(values)[parents]).all(axis=1) & weights[i].astype(bool)
                cells = np.prod([sizes[j] for j in parents], dtype=float)
                hits = fits & (codes[:, i] == values[i])
                p *= (hits.sum() + ess / cells / sizes[i]) / (fits.sum() + ess / cells)
            law[x, values[effect]] += p
    return law


@pytest.mark.parametrize("is_set", [False, True])
def test_each_graph_is_summed_over(is_set):
    df = levels_table()
    known = np.zeros(df.shape, bool)
    known[:15, 1] = is_set
    scores = ps.LocalScores.from_data(df, ps.BDeu(3.0), interventions=known)
    codes = np.column_stack([df[c].cat.codes for c in df])
    graphs = brute.all_dags(4)[::23]
    off = 0.0
    for cause, effect in itertools.permutations(range(4), 2):
        found = laws_when_set(graphs, scores.counts, cause, effect, None)
        expected = np.array([by_enumeration(g, codes, ~known.T, 3.0, cause, effect) for g in graphs])
        np.testing.assert_allclose(found, expected, atol=1e-12)
        uncut = np.array([by_enumeration(g, codes, ~known.T, 3.0, cause, effect, cut=False) for g in graphs[:3]])
        off = max(off, np.abs(uncut / uncut.sum(axis=2, keepdims=True) - expected[:3]).max())
    assert off > 0.01  # to condition is not to set


def test_the_average_over_graphs_is_that_of_the_posterior():
    """3,000 draws: within five standard errors of the sum over all graphs."""
    df = levels_table()
    scores = ps.LocalScores.from_data(df)
    post = ps.OrderSPN.exact(scores)
    _, p = brute.posterior(lambda i, s: scores.of(NAMES[i])[scores.index_of_parents(i, sum(1 << j for j in s))], 4)
    laws = laws_when_set(brute.all_dags(4), scores.counts, 0, 2, None)
    expected = np.einsum("g,gxy->xy", p, laws)
    for base, versus in ((None, None), (1, "mid")):
        truth = expected if base is None else expected - expected[base]
        found = post.probabilities_when_set("c", "a", versus, 3_000, random_seed=0)
        assert list(found.set_to.values) == LEVELS["a"] and list(found.level.values) == LEVELS["c"]
        assert (np.abs(found - truth) <= 5 * found.attrs["mcse"] + 1e-12).all()
        assert 0 < found.attrs["mcse"].max() < 0.01
        draws = post.sample_when_set("c", "a", 3_000, versus, random_seed=1)
        error = draws.std("draw") / np.sqrt(3_000)
        assert (np.abs(draws.mean("draw") - truth) <= 5 * error + 1e-12).all()
    given = {"absent": [("a", b) for b in "bcd"]}
    none = post.probabilities_when_set("c", "a", "low", 50, given, 0)
    np.testing.assert_allclose(none, 0.0, atol=1e-14)


def test_draws_in_one_graph_are_dirichlet():
    """4,000 draws; five standard errors of a mean, and a variance within a tenth (its standard error is .022)."""
    df = levels_table()
    counts = ps.LocalScores.from_data(df).counts
    graph = ps.DAG.from_edges(NAMES, [("a", "c")]).adjacency
    drawn = laws_when_set(np.broadcast_to(graph, (4_000, 4, 4)), counts, 0, 2, np.random.default_rng(0))
    alpha = counts.dirichlet(2, (0,))
    total = alpha.sum(axis=1, keepdims=True)
    mean, variance = alpha / total, alpha * (total - alpha) / total**2 / (total + 1)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4_000)).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.12)


def test_sampled_orders_and_files_answer_too(tmp_path):
    df = levels_table()
    exact = ps.DagPosterior.from_data(df)
    post = ps.DagPosterior.from_data(df, engine="orders", random_seed=1)
    found, reference = (p.probabilities_when_set("c", "a", None, 2_000, random_seed=0) for p in (post, exact))
    assert found.attrs["exactness"] != reference.attrs["exactness"]
    spread = np.hypot(found.attrs["mcse"], reference.attrs["mcse"])
    assert (np.abs(found.values - reference.values) < 6 * spread + 1e-12).all()
    exact.save(tmp_path / "post.nc")
    again = ps.load(tmp_path / "post.nc").probabilities_when_set("c", "a", None, 2_000, random_seed=0)
    np.testing.assert_array_equal(again, reference)


def test_what_has_no_levels_is_refused():
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(levels_table()))
    with pytest.raises(ValueError, match="effect must be another variable than the cause, got 'a' twice"):
        post.probabilities_when_set("a", "a")
    with pytest.raises(ValueError, match=r"versus must be a level of 'a', \['low', 'mid', 'high'\]; got 'none'"):
        post.sample_when_set("c", "a", 10, "none")
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["x", "y"])
    with pytest.raises(
        ValueError, match="answers when a variable is set need BDeu or ConditionalGaussian scores, these are 'BGe'"
    ):
        ps.OrderSPN.exact(ps.LocalScores.from_data(numbers)).probabilities_when_set("x", "y")
