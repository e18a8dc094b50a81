"""Posteriors over imputed tables: averages and conditions by enumeration, standard errors, draws, refusals."""

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute

import pymc_spn as ps

TOLERANCE = 1e-10  # of sums over 25 graphs of a few tables
FAR = 5.0  # standard errors
GIVEN = {"present": [("a", "b")], "absent": [("c", "b")]}


def gappy(n=14, seed=2):
    """Few rows and many gaps, so that tables differ much."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    x[:, 1] += 1.2 * x[:, 0]
    x[:, 2] += 0.8 * x[:, 1]
    return pd.DataFrame(x, columns=list("abc")).mask(rng.random((n, 3)) < 0.3)


def completed(df, n_tables, seed=0):
    rng = np.random.default_rng(seed)
    return [
        df.where(df.notna(), pd.DataFrame(rng.normal(size=df.shape), df.index, df.columns)) for _ in range(n_tables)
    ]


@pytest.fixture(scope="module")
def df():
    return gappy()


@pytest.fixture(scope="module")
def post(df):
    return ps.dags.ImputedDagPosterior.from_data(df, completed(df, 6))


@pytest.fixture(scope="module")
def by_graph(df):
    """(tables, graphs): posterior of each table by enumeration."""
    return np.array([brute.posterior(brute.score_function(table), 3)[1] for table in completed(df, 6)])


def holds(present=(), absent=()):
    graphs, place = brute.all_dags(3), {name: i for i, name in enumerate("abc")}
    ok = np.ones(len(graphs), bool)
    for j, i in present:
        ok &= graphs[:, place[j], place[i]]
    for j, i in absent:
        ok &= ~graphs[:, place[j], place[i]]
    return ok


def mixed(by_graph, evidence):
    """p(G | E) of all graphs: sums over tables before the ratio; and the mistake, a mean of ratios."""
    kept = by_graph * evidence
    return kept.sum(axis=0) / kept.sum(), (kept / kept.sum(axis=1, keepdims=True)).mean(axis=0)


def test_edges_are_means_over_tables(post, by_graph):
    edges = np.tensordot(by_graph.mean(axis=0), brute.all_dags(3), 1)
    np.testing.assert_allclose(post.edge_probabilities(), edges, atol=TOLERANCE)
    of_each = np.tensordot(by_graph, brute.all_dags(3), 1)
    found = post.edge_probabilities().attrs
    np.testing.assert_allclose(found["sd_between_tables"], of_each.std(axis=0, ddof=1), atol=TOLERANCE)
    np.testing.assert_allclose(found["mcse"], of_each.std(axis=0, ddof=1) / np.sqrt(6), atol=TOLERANCE)
    assert found["exactness"] == "exact given the imputed tables" and found["tables"] == 6
    rows = post.edge_table()
    assert (rows["mcse"] > 0.0).all() and len(rows) == 6
    assert set(post.consensus(0.3).edges) <= {(r.parent, r.child) for r in rows.itertuples() if r.probability > 0.3}


def test_conditions_weigh_the_tables_by_what_they_give_the_evidence(post, by_graph):
    evidence, graphs = holds(**GIVEN), brute.all_dags(3)
    p, mistake = mixed(by_graph, evidence)
    edges, wrong = np.tensordot(p, graphs, 1), np.tensordot(mistake, graphs, 1)
    assert np.abs(edges - wrong).max() > 0.01  # equal averages of conditionals would be seen
    told = post.condition(**GIVEN)
    for found in (post.edge_probabilities(GIVEN), told.edge_probabilities()):
        np.testing.assert_allclose(found, edges, atol=TOLERANCE)
    np.testing.assert_allclose(
        post.condition(present=GIVEN["present"]).edge_probabilities({"absent": GIVEN["absent"]}), edges, atol=TOLERANCE
    )
    asked = holds([("b", "c")], [("a", "c")])
    found = post.probability([("b", "c")], [("a", "c")], GIVEN)
    assert float(found) == pytest.approx(p @ asked, abs=TOLERANCE) and found.attrs["mcse"] > 0.0
    assert float(post.probability(**GIVEN)) == pytest.approx(by_graph.mean(axis=0) @ evidence, abs=TOLERANCE)
    weights = (by_graph * evidence).sum(axis=1)
    effective = weights.sum() ** 2 / np.square(weights).sum()
    assert told.edge_probabilities().attrs["tables_after_weighting"] == pytest.approx(effective) and effective < 5.9
    sets = post.parent_set_probabilities("c", None, GIVEN)
    for label, value in zip(sets.parents.values, sets.values, strict=True):
        parents = [] if label == "(none)" else label.split(", ")
        same = (graphs[:, :, 2] == [name in parents for name in "abc"]).all(axis=1)
        assert value == pytest.approx(p @ same, abs=TOLERANCE)


def test_orders_and_effects_are_means_over_tables(post, by_graph):
    weights = (by_graph * holds(**GIVEN)).sum(axis=1)
    weights /= weights.sum()
    for ask in (lambda p: p.before_probabilities(GIVEN), lambda p: p.causal_effects(GIVEN)):
        expected = sum(w * ask(one).values for w, one in zip(weights, post.posteriors, strict=True))
        np.testing.assert_allclose(ask(post), expected, atol=TOLERANCE)
        assert ask(post).attrs["given"] == "a -> b, not c -> b"


def test_standard_errors_are_those_of_other_tables(df):
    """Ten tables drawn again and again from many: deviations of the answers against the errors that they state."""
    posts = ps.dags.ImputedDagPosterior.from_data(df, completed(df, 80, 5)).posteriors
    rng, found, errors = np.random.default_rng(0), [], []
    for _ in range(300):
        some = ps.dags.ImputedDagPosterior([posts[m] for m in rng.integers(len(posts), size=10)])
        answer = some.edge_probabilities(GIVEN)
        found.append(answer.values[1:, 2])
        errors.append(answer.attrs["mcse"][1:, 2])
    ratio = np.std(found, axis=0)[0] / np.sqrt(np.square(errors).mean(axis=0))[0]
    assert 0.85 < ratio < 1.25  # 300 repeats know a deviation to .04; the error of a ratio of ten is low by some .05


def test_draws_follow_the_mixture(post, by_graph):
    graphs = brute.all_dags(3)
    p, _ = mixed(by_graph, holds(**GIVEN))
    n = 4_000
    drawn = post.sample(n, GIVEN, random_seed=1)
    edges = np.tensordot(p, graphs, 1)
    error = np.sqrt(edges * (1 - edges) / n)
    assert (np.abs(drawn.mean("draw").values - edges) <= FAR * error + 1e-12).all()
    place, child, parent = drawn.position.values, *np.nonzero(drawn.values.swapaxes(1, 2))[1:]
    draws = np.nonzero(drawn.values.swapaxes(1, 2))[0]
    assert (place[draws, parent] < place[draws, child]).all()
    weights = (by_graph * holds(**GIVEN)).sum(axis=1)
    shares = np.bincount(drawn.table.values, minlength=6) / n
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=FAR * 0.5 / np.sqrt(n))
    first, second = drawn[: n // 2].table.values.mean(), drawn[n // 2 :].table.values.mean()
    assert abs(first - second) < FAR * 2.0 * drawn.table.values.std() / np.sqrt(n)  # tables are not one after another
    np.testing.assert_array_equal(post.sample(50, random_seed=3), post.sample(50, random_seed=3))
    effects = post.sample_effects(n, GIVEN, random_seed=2)
    difference = (effects.mean("draw") - post.causal_effects(GIVEN)).values
    assert (np.abs(difference) <= FAR * effects.std("draw").values / np.sqrt(n) + 1e-12).all()
    classes = post.equivalence_classes(2_000, GIVEN, random_seed=1)
    assert float(classes.probability.sum()) == pytest.approx(1.0)
    ancestors = post.ancestor_probabilities(2_000, GIVEN, random_seed=1)
    reached = np.tensordot(p, graphs | (graphs[:, :, :, None] & graphs[:, None]).any(axis=2), 1)
    assert (np.abs(ancestors - reached) <= FAR * np.sqrt(reached * (1 - reached) / 2_000) + 1e-12).all()
    assert (ancestors.attrs["mcse"] >= 0.0).all()


def test_sampled_orders_answer_as_all_orders(df, post):
    found = ps.dags.ImputedDagPosterior.from_data(df, completed(df, 6), 1, engine="orders", draws=200)
    np.testing.assert_allclose(found.edge_probabilities(GIVEN), post.edge_probabilities(GIVEN), atol=0.03)
    assert found.engine == "orders" and found.edge_probabilities().attrs["r_hat"] < 1.1
    assert repr(found.condition(**GIVEN)).startswith(
        "ImputedDagPosterior(6 imputed tables, 3 variables, orders, given a -> b"
    )


def test_interventions_and_priors_reach_every_table(df):
    mask = np.zeros(df.shape, bool)
    mask[:7, 1] = True
    tables = completed(df, 3)
    for options in ({"interventions": mask}, {"prior": "learned", "max_indegree": 1}):
        post = ps.dags.ImputedDagPosterior.from_data(df, tables, **options)
        own = [ps.DagPosterior.from_data(table, **options).edge_probabilities().values for table in tables]
        np.testing.assert_allclose(post.edge_probabilities(), np.mean(own, axis=0), atol=TOLERANCE)


def test_levels():
    rng = np.random.default_rng(0)
    x = (rng.random((60, 3)) < 0.4).astype(int)
    x[:, 1] = x[:, 0] ^ (rng.random(60) < 0.2)
    full = pd.DataFrame(x, columns=list("abc"))
    df = full.mask(rng.random(full.shape) < 0.2)
    fill = [pd.DataFrame((rng.random((60, 3)) < 0.5).astype(float), columns=list("abc")) for _ in range(4)]
    post = ps.dags.ImputedDagPosterior.from_data(df, [df.where(df.notna(), other).astype(int) for other in fill])
    assert post.scores.score == "BDeu"
    law = post.probabilities_when_set("b", "a", draws=4_000, random_seed=1)
    expected = np.mean(
        [one.probabilities_when_set("b", "a", draws=4_000, random_seed=2).values for one in post.posteriors], axis=0
    )
    np.testing.assert_allclose(law, expected, atol=0.01)
    drawn = post.sample_when_set("b", "a", 2_000, random_seed=1)
    np.testing.assert_allclose(drawn.mean("draw"), expected, atol=FAR * float(drawn.std("draw").max()) / np.sqrt(2_000))


def test_files_keep_every_bit(df, post, tmp_path):
    certain = [("a", "b"), ("b", "c"), ("a", "c")]
    few = ps.dags.ImputedDagPosterior(post.posteriors[:2])
    for told in (few, few.condition(certain)):
        told.save(tmp_path / "post.nc")
        again = ps.load(tmp_path / "post.nc")
        assert type(again) is ps.dags.ImputedDagPosterior and repr(again) == repr(told)
        np.testing.assert_array_equal(again.edge_probabilities(), told.edge_probabilities())
        np.testing.assert_array_equal(again.sample(20, random_seed=1), told.sample(20, random_seed=1))
    some = ps.dags.ImputedDagPosterior(few.posteriors, np.array([-np.inf, 0.0]))
    some.save(tmp_path / "some.nc")
    again = ps.dags.ImputedDagPosterior.load(tmp_path / "some.nc")
    np.testing.assert_array_equal(again.edge_probabilities(), some.edge_probabilities())
    ps.DagPosterior.from_data(completed(df, 2)[0]).save(tmp_path / "one.nc")
    with pytest.raises(ValueError, match="does not hold an ImputedDagPosterior"):
        ps.dags.ImputedDagPosterior.load(tmp_path / "one.nc")


def test_refusals(df, post):
    make, tables = ps.dags.ImputedDagPosterior.from_data, completed(df, 3)
    with pytest.raises(ValueError, match=r"ps\.dags\.ImputedDagPosterior\.from_data"):
        ps.DagPosterior.from_data(df)
    with pytest.raises(TypeError, match="data must be a DataFrame with gaps, got ndarray"):
        make(df.to_numpy(), tables)
    with pytest.raises(TypeError, match="imputations must be a sequence of completed DataFrames"):
        make(df, tables[0])
    with pytest.raises(ValueError, match="imputations must be at least two tables, got 1"):
        make(df, tables[:1])
    with pytest.raises(TypeError, match=r"imputations\[1\] must be a DataFrame, got ndarray"):
        make(df, [tables[0], tables[1].to_numpy()])
    with pytest.raises(ValueError, match=r"imputations\[1\] must have the rows of data"):
        make(df, [tables[0], tables[1][1:]])
    with pytest.raises(ValueError, match=r"imputations\[1\] must have the columns of data"):
        make(df, [tables[0], tables[1][["b", "a", "c"]]])
    with pytest.raises(ValueError, match=r"imputations\[1\] must be complete: column"):
        make(df, [tables[0], df])
    changed = tables[1].copy()
    row = int(np.flatnonzero(df["b"].notna())[0])
    changed.iloc[row, 1] += 1.0
    with pytest.raises(ValueError, match=rf"must keep what is observed: column 'b', row {row} differs"):
        make(df, [tables[0], changed])
    with pytest.raises(ValueError, match="given has probability zero: "):
        post.edge_probabilities({"present": [("a", "b"), ("b", "a")]})
    assert float(post.probability([("a", "b"), ("b", "a")])) == 0.0
    with pytest.raises(AttributeError, match=r"structure_modular is not answered .* post\.posteriors\[0\]\."):
        post.structure_modular(10)
    assert not hasattr(post, "most_probable")
    posts = list(post.posteriors)
    with pytest.raises(ValueError, match="imputed table 1 has another evidence than table 0"):
        ps.dags.ImputedDagPosterior([posts[0], posts[1].condition([("a", "b")])])
