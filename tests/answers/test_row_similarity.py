"""Rows that are like others: shares of clusters by hand and by the sampler's own slots, neighbours by sorting."""

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.networks import row_similarity
from pymc_spn.networks.records.predictive_kernels import evaluate_row
from tests.answers.variational_fits import fitted, table
from tests.hand_made_records import problem_of, sampled_tree, schema_of, states_of, tree_of, with_scratch

NEW = pd.DataFrame({"x0": [1.2, 0.3, np.nan], "x1": [1, 0, None], "x2": [3, np.nan, 2]}, index=["a", "b", "c"])
EMPTY = 2  # position of a training row without a cell


def tree(n=9, draws=12):
    """Draws over rows of which one has no observed cell and one no value of x1."""
    problem, rng = problem_of("missing"), np.random.default_rng(0)
    X = np.column_stack([rng.gamma(2.0, 0.5, n), rng.integers(0, 2, n), rng.integers(0, 4, n)]).astype(float)
    X[EMPTY], X[4, 1] = np.nan, np.nan
    schema = schema_of(problem)
    digits = rng.integers(0, 2, (2, draws, n, schema.structure.n_regions)).astype(np.int8)
    return tree_of(schema, X, digits, np.ones((2, draws, 2)), np.ones((2, draws)))


def posterior(**options):
    return ps.SPNPosterior.from_idata(tree(**options))


def children_of_rows(states, s, values):
    """Probability of each child of the top sum node in rows of one draw, one child's weight after the other."""
    net = with_scratch(states.network(s))
    begin, top = int(net.edges.begin[0]), int(net.edges.top[0])
    out = np.empty((len(values), top))
    for m, row in enumerate(states.coded_rows(values)):
        assert not evaluate_row(*net.of_columns, row)[1]
        value = np.ones(top) if np.isnan(row).all() else net.scratch.edge_value[begin : begin + top]
        whole = 1.0 if np.isnan(row).all() else net.scratch.node_value[0]
        out[m] = net.edges.weight[begin : begin + top] * value / whole
    return out / (net.nodes.n_data[0] + net.masses.total[0])


def test_training_rows_are_as_co_clustering_has_them():
    post = posterior()
    every, asked = post.co_clustering(), [17, 10, 12]
    found = post.row_similarity(asked)
    np.testing.assert_allclose(found, every.sel(row=asked), rtol=1e-14)
    assert found["row"].values.tolist() == asked and found["other"].values.tolist() == list(range(10, 19))
    np.testing.assert_allclose(found.attrs["mcse_chain"], every.attrs["mcse_chain"][[7, 0, 2]], rtol=1e-12)
    assert np.isnan(found.sel(row=12)).all() and np.isnan(found.sel(other=12)).all()
    assert post.row_similarity([]).shape == (0, 9)


def test_new_rows_share_the_children_of_training_rows():
    """By the children on which the sampler itself puts the training rows when it loads a draw."""
    post, states = posterior(), states_of(tree())
    expected, together = np.zeros((3, 9)), np.zeros((3, 3))
    for s in range(states.n_draws):
        slots = np.array(states.load(s).slots[:, 0])
        shares = children_of_rows(states, s, NEW.to_numpy(float))
        expected += np.where(slots < 0, np.nan, shares[:, np.maximum(slots, 0)]) / states.n_draws
        together += np.where(np.eye(3), 1.0, shares @ shares.T) / states.n_draws
    found = post.row_similarity(NEW)
    np.testing.assert_allclose(post.co_clustering(NEW), together, rtol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.attrs["mcse_chain"].shape == (3, 9) and found["row"].values.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(post.row_similarity(ps.Table.from_frame(NEW, schema=post.columns)), found)


def test_a_column_compares_leaves():
    """Two rows are alike where the sampler has them on one leaf of the column; a gap has no leaf."""
    post, states = posterior(), states_of(tree())
    for d, column in enumerate(["x0", "x1", "x2"]):
        (region,) = states.structure.leaf_region[states.structure.leaf_column == d]
        slots = np.array([states.load(s).slots[:, region] for s in range(states.n_draws)])
        expected = (slots[:, :, None] == slots[:, None, :]).mean(axis=0)
        gaps = slots[0] < 0
        expected[gaps] = expected[:, gaps] = np.nan
        found = post.row_similarity(list(range(10, 19)), column=column)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert np.isnan(found.sel(row=14)).all() == (column == "x1")
        assert (found.fillna(0.0) <= post.co_clustering().fillna(0.0) + 1e-12).all()


@pytest.mark.parametrize("rows", ["labels", "new"])
def test_the_nearest_rows_are_the_most_similar(rows, monkeypatch):
    post, asked = posterior(), {"labels": [18, 10], "new": NEW}[rows]
    table = post.row_similarity(asked)
    found = post.nearest_rows(asked, k=4)
    for label in table["row"].values.tolist():
        others = table.sel(row=label).to_series().drop([label] if rows == "labels" else [])
        expected = others.sort_values(ascending=False, kind="stable")[:4]
        assert found.neighbour.sel(row=label).values.tolist() == expected.index.tolist()
        np.testing.assert_allclose(found.similarity.sel(row=label), expected)
        places = [table["other"].values.tolist().index(i) for i in expected.index]
        errors = found.similarity.attrs["mcse_chain"][table["row"].values.tolist().index(label)]
        own = table.attrs["mcse_chain"][table["row"].values.tolist().index(label), places]
        np.testing.assert_allclose(errors, own, rtol=1e-10, atol=1e-15)
    assert found["rank"].values.tolist() == [1, 2, 3, 4] and 12 not in found.neighbour.values
    frame = found.to_dataframe()
    assert frame.index.names == ["row", "rank"] and list(frame) == ["neighbour", "similarity"]
    assert post.nearest_rows(asked, k=7).sizes["rank"] == 7  # all others that have a cell
    monkeypatch.setattr(row_similarity, "BLOCK_PAIRS", 1)  # one row at a time
    again = post.nearest_rows(asked, k=4)
    np.testing.assert_array_equal(again.neighbour, found.neighbour)
    np.testing.assert_allclose(again.similarity, found.similarity, rtol=1e-14)


def test_labels_of_several_rows_and_weights_of_chains():
    """A label that stands twice asks for both rows, and stacked chains weigh."""
    made = tree(draws=40)
    made["observed_data"] = made["observed_data"].dataset.assign_coords(x_row=["u", "v", "e", "v", *"wxyzt"])
    post = ps.SPNPosterior.from_idata(made)
    assert post.row_similarity(["v"]).shape == (2, 9)
    assert post.nearest_rows(pd.Index(["v", "t"]), k=2).neighbour.shape == (3, 2)
    weighed = post.stacked()
    np.testing.assert_allclose(weighed.row_similarity(["u"])[0], weighed.co_clustering()[0], rtol=1e-12)


def test_a_fit_compares_rows_that_it_is_given():
    post, rows, others = fitted(), table()[:5], table()[5:20]
    whole = post.co_clustering(table()[:20])
    found = post.row_similarity(rows, others)
    np.testing.assert_allclose(found, whole[:5, 5:], rtol=1e-12)
    assert not any(k.startswith("mcse") for k in found.attrs)
    near = post.nearest_rows(rows, others, k=3)
    for label in rows.index:
        expected = found.sel(row=label).to_series().sort_values(ascending=False, kind="stable")[:3]
        np.testing.assert_array_equal(near.neighbour.sel(row=label), expected.index)
    with pytest.raises(ValueError, match="k must be at most 15, the number of other rows to choose from, got 16"):
        post.nearest_rows(rows, others, k=16)


def test_memory_of_neighbours_goes_with_rows_times_k():
    """3,000 rows against 3,000 would be a table of 72 MB."""
    import tracemalloc

    post = posterior(n=3_000, draws=4)
    asked = [i for i in range(10, 3_010) if i != 10 + EMPTY]
    post.nearest_rows(asked[:5], k=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_similarity, "BLOCK_PAIRS", 100_000)
        tracemalloc.start()
        found = post.nearest_rows(asked, k=3)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found.neighbour.shape == (2_999, 3) and peak < 12e6


@pytest.mark.parametrize(
    "case",
    [
        (lambda p: p.row_similarity([99]), "rows names 99, which is not the label of a training row"),
        (lambda p: p.row_similarity("ab"), TypeError, r"rows must be a list of labels.*of a single row \[label\]"),
        (lambda p: p.nearest_rows(10), TypeError, "rows must be a list of labels of training rows or a table"),
        (lambda p: p.nearest_rows(NEW.loc["a"]), TypeError, r"or df\.loc\[\[label\]\]"),
        (lambda p: p.row_similarity([10], column="z"), "column must name one of the columns"),
        (lambda p: p.row_similarity(NEW, column="x0"), "column must be None for new rows"),
        (lambda p: p.row_similarity(NEW.add_prefix("y")), "must have a column of"),
        (lambda p: p.nearest_rows([10], k=0), "k must be an integer of at least 1, got 0"),
        (lambda p: p.nearest_rows([10], k=8), "k must be at most 7, the number of other rows"),
        (lambda p: p.nearest_rows([12]), "rows: training row 12 has no observed cell"),
        (lambda p: p.nearest_rows([14], column="x1"), "row 14 has no value of 'x1'"),
        (lambda p: p.condition({"x1": 1}).row_similarity([10]), "row_similarity needs the posterior as"),
        (lambda p: p.marginal(["x0"]).nearest_rows([10]), "nearest_rows needs the posterior as sampled"),
    ],
)
def test_bad_questions_are_refused(case):
    ask, *error, message = case
    with pytest.raises(*error or [ValueError], match=message):
        ask(posterior())


def test_rows_of_density_zero_are_like_no_row():
    post = ps.SPNPosterior.from_idata(sampled_tree("palette", draws=6))
    rows = pd.DataFrame({"x0": [2, 2], "x1": ["b", "b"], "x2": [3, 99]}, index=["sound", "beyond"])
    with pytest.warns(UserWarning, match="zero under every draw in 1 of 2 rows: 'beyond'"):
        found = post.row_similarity(rows)
    assert np.isnan(found.sel(row="beyond")).all() and np.isfinite(found.sel(row="sound")).all()
    with pytest.raises(ValueError, match="row 'beyond': column 'x2' cannot be 99"):
        post.nearest_rows(rows, k=1)
