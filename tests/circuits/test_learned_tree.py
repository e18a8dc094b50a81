"""Trees that follow dependence: measures against known values, splits against data with known ones."""

import tracemalloc

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.circuits.structures import dependence as structure_dependence
from pymc_spn.circuits.structures import learned_tree
from pymc_spn.circuits.structures.dependence import MEASURES, mutual_information, randomized_dependence
from pymc_spn.circuits.structures.row_clusters import row_clusters
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.steps.kept_data import kept_data
from tests.reference_k_means import lloyd

N = 4000


def contexts(seed=0, n=1500):
    """Two contexts far apart: in one a goes with b and c with d, in the other a with c and b with d."""
    rng = np.random.default_rng(seed)
    group, z = rng.integers(0, 2, n), rng.normal(size=(n, 2))
    columns = [z[:, 0], np.where(group == 0, z[:, 0], z[:, 1]), np.where(group == 0, z[:, 1], z[:, 0]), z[:, 1]]
    frame = pd.DataFrame(np.stack(columns, 1) + 0.2 * rng.normal(size=(n, 4)) + 12.0 * group[:, None])
    return frame.set_axis(list("abcd"), axis=1)


def scopes(tree, size):
    return {frozenset(tree.scope(r)) for r in np.flatnonzero(tree.size == size)}


def test_a_class_stays_with_the_few_of_many_columns_that_it_depends_on():
    """Five of 40 independent columns say of which class a row is; where all columns depend, no split is added."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 40))
    frame = pd.DataFrame(x, columns=[f"x{d}" for d in range(40)])
    frame["class"] = np.where(x[:, :5].sum(axis=1) > 0.0, "a", "b")
    assert {"class", "x0", "x1", "x2", "x3", "x4"} in scopes(ps.circuits.learn_tree(frame, random_seed=0), 6)
    common = frame.drop(columns="class").add(rng.normal(size=400), axis=0).assign(**{"class": frame["class"]})
    assert ps.circuits.learn_tree(common, random_seed=0).n_splits[0] <= 2


# ---- measures


def test_mutual_information_counts_the_rows_that_both_columns_have(monkeypatch):
    """Against a loop over pairs, also where counts are worked out piece by piece; 1e-13 is rounding."""
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.integers(0, k, 200) for k in (2, 3, 9, 40)] + [np.full(200, 1)]).astype(float)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 0] = np.where(rng.random(200) < 0.7, values[:, 1], values[:, 0])
    values = np.column_stack([values, np.full(200, np.nan)])
    expected = np.zeros((6, 6))
    for d, e in zip(*np.nonzero(~np.eye(6, dtype=bool)), strict=True):
        both = ~np.isnan(values[:, [d, e]]).any(axis=1)
        if both.any():
            p = pd.crosstab(values[both, d], values[both, e]).to_numpy() / both.sum()
            terms = p[p > 0] * np.log((p / np.outer(p.sum(1), p.sum(0)))[p > 0])
            expected[d, e] = max(terms.sum() - (p.shape[0] - 1) * (p.shape[1] - 1) / (2 * both.sum()), 0.0)
    assert expected[0, 1] > 0.1
    for cells in (structure_dependence.CELLS, 60):
        monkeypatch.setattr(structure_dependence, "CELLS", cells)
        found = mutual_information(values, np.full(6, True), None)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-13)
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("gaps", [False, True])
def test_mutual_information_of_numbers_orders_pairs(gaps):
    rng = np.random.default_rng(1)
    x = rng.normal(size=N)
    values = np.stack([x, 0.9 * x + np.sqrt(0.19) * rng.normal(size=N), rng.normal(size=N), rng.integers(0, 3, N)], 1)
    if gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
    found = mutual_information(values, np.array([False, False, False, True]), rng)
    full = -0.5 * np.log(1 - 0.81)  # of the normal pair; eight bins keep most of it
    assert 0.8 * full < found[0, 1] < full
    assert found[[0, 0, 1, 1, 2], [2, 3, 2, 3, 3]].max() < 0.005  # three standard errors of the bias term


def test_randomised_dependence_sees_what_correlation_does_not():
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    values = np.stack([x, x**2, rng.normal(size=1000), (x > 0) + 0.0, np.ones(1000)], 1)
    found = randomized_dependence(values, np.array([False, False, False, True, False]), rng)
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.2
    assert found[0, 1] > 0.95 and found[0, 3] > 0.8
    assert found[0, 2] < 0.25  # twenty random directions on 1000 independent rows: sqrt(20 / 1000) and its spread
    np.testing.assert_allclose(found[4], 0.0, atol=1e-8)  # a constant depends on nothing
    values[::5, 0] = np.nan
    with_gaps = randomized_dependence(values, np.array([False, False, False, True, False]), rng)
    assert with_gaps[0, 1] > 0.95 and with_gaps[0, 2] < 0.3


# ---- clusters
@pytest.mark.parametrize("seed", range(8))
def test_clusters_are_those_of_indicators(seed):
    """Numbers at unit scale, levels as indicators that have it together."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 9, (300, 2)), np.full(300, 4.0)])
    values[rng.random(values.shape) < 0.1] = np.nan
    is_level, blocks = np.array([False, False, True, True, True]), []
    for x, level in zip(values.T, is_level, strict=True):
        seen = ~np.isnan(x)
        block = (x[:, None] == np.unique(x[seen])) + 0.0 if level else x[:, None]
        block = block - block[seen].mean(axis=0)
        blocks.append(np.where(seen[:, None], block / (block[seen].std() or 1.0), 0.0))
    label = lloyd(np.hstack(blocks), 3, np.random.default_rng(seed), 20)
    found = row_clusters(values, is_level, range(5), np.arange(300), 3, np.random.default_rng(seed))
    for k in range(3):
        np.testing.assert_array_equal(found[k], np.flatnonzero(label == k))


def test_a_thousand_levels_take_no_table_of_rows_and_levels():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.integers(0, 1000, 20_000), rng.normal(size=20_000)])
    row_clusters(values, np.array([True, False]), range(2), np.arange(20), 2, rng)  # compiled before memory is counted
    tracemalloc.start()
    try:
        found = row_clusters(values, np.array([True, False]), range(2), np.arange(20_000), 2, rng)
        assert tracemalloc.get_traced_memory()[1] < 2e7  # 3 MB found; the indicators take 160
    finally:
        tracemalloc.stop()
    assert len(found) == 2


# ---- trees
def structure_lines(caplog):
    return [m for m in caplog.messages if m.startswith("Structure of")]


@pytest.fixture
def told(caplog):
    caplog.set_level("INFO", logger="pymc")
    return caplog


def test_the_default_structure_is_learned_and_said(told, tmp_path):
    """One tree however often a model of the table is built; one line for a model, whatever it has of chains."""
    frame = contexts(n=400)
    tree = ps.circuits.learn_tree(frame, random_seed=0)
    few = dict(draws=2, tune=1, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
    models = []
    for _ in range(2):
        with pm.Model() as model:
            ps.SPN("y", observed=frame)
        models.append(model)
    regions = f"({tree.n_regions} regions)"
    wide = "multivariate leaves over 4 columns. Change with structure= or joint_leaves="
    line = f"Structure of 'y': splits learned from the table {regions}, {wide}"
    assert structure_lines(told) == [line] * 2
    text, other = (kept_data(model, "y_schema").astype(np.uint8).tobytes().decode() for model in models)
    schema = NetworkSchema.from_vector(text)
    assert text == other and schema.learned
    assert schema.structure == tree != ps.circuits.complete_tree(tree.columns)
    told.clear()
    with models[0]:
        idata = pm.sample(**few)
        drawn = pm.sample_prior_predictive(2, random_seed=1)
    assert structure_lines(told) == [] and drawn.prior_predictive["y"].shape == (1, 2, 400, 4)
    post = ps.SPNPosterior.from_idata(idata)
    post.save(tmp_path / "y.nc")
    for read in (post, ps.load(tmp_path / "y.nc")):
        assert f"splits learned from the table {regions}" in repr(read)


def test_the_structure_of_a_fit_is_said_with_its_bar(told):
    frame, few = contexts(n=400), {"restarts": 1, "max_steps": 2, "random_seed": 1}
    fit = ps.fit_variational(frame, **few)
    tree = ps.circuits.learn_tree(frame, random_seed=0)
    said = f"splits learned from the table ({tree.n_regions} regions)"
    wide = "multivariate leaves over 4 columns. Change with structure= or joint_leaves="
    assert structure_lines(told) == [f"Structure of 'x': {said}, {wide}"] and said in repr(fit)
    told.clear()
    assert said in repr(ps.fit_variational(frame, progressbar=False, **few))
    estimator = ps.sklearn.SPNDensity(restarts=1, max_steps=2, random_state=7).fit(frame)
    assert estimator.posterior_._states.structure == tree and said in repr(estimator.posterior_)
    for structure, table in ((tree, frame), (None, frame[["a", "b"]])):  # of two columns there is one tree
        assert "learned" not in repr(ps.fit_variational(table, structure, **few))
    assert structure_lines(told) == []


def test_of_many_rows_a_part_is_looked_at():
    assert ps.circuits.learn_tree(contexts(n=60_000), random_seed=1).n_splits[0] == 2


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({c: [float(i)] for i, c in enumerate("abc")}),
        pd.DataFrame(np.ones((9, 3)), columns=list("abc")),
        pd.DataFrame(np.arange(12).reshape(4, 3) % 2 == 0, columns=list("abc")),
        pd.DataFrame({"a": [1.5, 2.5, None, None], "b": [None, None, 3.5, 4.5], "c": list("uvuv")}),
    ],
    ids=["one row", "constants", "truth values", "never seen together"],
)
def test_tables_that_say_nothing_have_a_default_too(frame):
    post = ps.fit_variational(frame, restarts=1, max_steps=2, random_seed=1, progressbar=False)
    assert ps.circuits.learn_tree(frame, random_seed=0).n_regions == 5
    assert np.isfinite(post.log_density(frame)).all()


def test_trees_are_no_deeper_than_recursion_allows(monkeypatch):
    """Columns with more and more noise are taken off one by one; below a depth they are halved."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 1)) + rng.normal(size=(400, 40)) * np.geomspace(0.01, 3.0, 40))
    frame.columns = [f"c{d}" for d in range(40)]

    def depth(tree):
        found = np.zeros(tree.n_regions, int)
        for r in range(1, tree.n_regions):
            found[r] = found[tree.parent[r]] + 1
        return found.max()

    assert depth(ps.circuits.learn_tree(frame, n_clusters=1, random_seed=0)) > 20
    monkeypatch.setattr(learned_tree, "DEEPEST", 5)
    assert depth(ps.circuits.learn_tree(frame, n_clusters=1, random_seed=0)) <= 5 + 6


@pytest.mark.parametrize("dependence", MEASURES)
def test_each_context_gets_its_own_split(dependence):
    tree = ps.circuits.learn_tree(contexts(), dependence=dependence, random_seed=1)
    assert tree.n_splits[0] == 2
    assert scopes(tree, 2) == {frozenset("ab"), frozenset("cd"), frozenset("ac"), frozenset("bd")}
    one = ps.circuits.learn_tree(contexts(), n_clusters=1, random_seed=1)
    assert one.n_splits.max() == 1 and one.n_regions == 7
    shallow = ps.circuits.learn_tree(contexts(), max_depth=0, random_seed=1)
    assert shallow == one
    few = ps.circuits.learn_tree(contexts(n=150), min_rows=100, random_seed=1)
    assert few.n_splits.max() == 1


def test_contexts_that_agree_share_their_split():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(1000, 2)) + 10.0 * rng.integers(0, 2, 1000)[:, None]
    frame = pd.DataFrame(np.repeat(z, 2, axis=1) + 0.1 * rng.normal(size=(1000, 4)), columns=list("abcd"))
    tree = ps.circuits.learn_tree(frame, random_seed=1)
    assert tree.n_splits.max() == 1 and scopes(tree, 2) == {frozenset("ab"), frozenset("cd")}


def test_a_mixed_table_with_gaps_and_a_constant():
    frame = contexts()
    frame["kind"] = np.where(frame["a"] > 6, "v", "u")
    frame["one"] = 1.0
    frame.loc[::7, "a"] = np.nan
    frame.loc[:, "calls"] = pd.array(np.arange(len(frame)) % 5, dtype="Int64")
    tree = ps.circuits.learn_tree(frame, 4, n_clusters=3, min_rows=50, random_seed=1)
    assert tree.names == tuple(frame) and set(tree.n_children.tolist()) == {4}
    assert [c.kind for c in tree.columns] == ["real"] * 4 + ["categorical", "real", "ordinal"]
    again = ps.circuits.learn_tree(ps.Table.from_frame(frame), 4, n_clusters=3, min_rows=50, random_seed=1)
    assert again == tree
    for columns in (["a"], ["a", "one"]):
        assert ps.circuits.learn_tree(frame[columns]).n_regions == 2 * len(columns) - 1
    assert ps.circuits.learn_tree(pd.DataFrame(np.ones((300, 3)), columns=list("xyz"))).n_regions == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1, got 0"),
        ({"min_rows": 1}, "min_rows must be an integer of at least 2, got 1"),
        ({"max_depth": -1}, "max_depth must be an integer of at least 0, got -1"),
        ({"n_children": 0}, "n_children must be an integer of at least 1"),
        ({"n_children": 2, "n_clusters": 3}, "n_children must be at least n_clusters=3, or 'infinite', got 2"),
        ({"dependence": "pearson"}, r"dependence must be one of \['mutual_information', 'rdc'\], got 'pearson'"),
        ({"kinds": {"z": "real"}}, "'z'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, KeyError), match=message):
        ps.circuits.learn_tree(contexts(n=60), **arguments)


def test_kinds_that_name_no_column_are_refused_beside_a_table_too():
    table = ps.Table.from_frame(pd.DataFrame({"a": [0.5, 1.5, 2.0], "b": [1.0, 2.0, 0.5]}))
    with pytest.raises(ValueError, match="zzz"):
        ps.circuits.learn_tree(table, kinds={"zzz": "real"})
