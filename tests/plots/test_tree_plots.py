"""What the drawings of trees show, read back from their axes."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn import plots


@pytest.fixture(scope="module")
def post():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "c": rng.choice(list("uvw"), 80)})
    y = np.where(frame["a"] > 0, "p", np.where(frame["c"] == "u", "q", "r"))
    return ps.fit_tree(frame, y, ps.leaves.ClassLeaves(1.0), particles=20, islands=1, random_seed=1)


def texts(ax):
    return [t.get_text() for t in ax.texts]


def test_a_tree_shows_rules_counts_and_predictives(post):
    ax = plots.plot_tree(post)
    shown = texts(ax)
    counts = [int(s.split("n = ")[1].split("\n")[0]) for s in shown if s.startswith("n = ")]
    tree = post.tree(post.most_probable())
    assert max(counts) == 80 and len(counts) == len(tree.decisions)
    leaves = [s for s in shown if s.startswith("n = ") and "\n" in s]
    assert len(leaves) == tree.n_leaves and all(": " in s for s in leaves)
    assert sum(int(s.split("n = ")[1].split("\n")[0]) for s in leaves) == 80
    assert len([s for s in shown if not s.startswith("n = ")]) == len(tree.decisions) - 1
    assert "…" in "".join(texts(plots.plot_tree(post, max_depth=1)))


def test_axes_in_axes_out(post):
    _, ax = plt.subplots()
    for draw in (
        lambda: plots.plot_tree(post, 0, ax=ax),
        lambda: plots.plot_pdp(post, "a", ax=ax, n_draws=10, random_seed=1),
    ):
        assert draw() is ax


def test_labels_and_curves(post):
    ax = plots.plot_pdp(post, "a", n_draws=20, random_seed=1)
    assert ax.get_xlabel() == "a" and ax.get_ylabel() == "mean probability"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["p", "q", "r"]
    curve = post.partial_dependence("a")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), curve.values[:, 0])
    levels = plots.plot_pdp(post, "c", classes=["q"], n_draws=20, random_seed=1)
    assert [t.get_text() for t in levels.get_xticklabels()] == ["u", "v", "w"]
    for arguments, message in (
        ({"mass": 2.0}, r"mass must lie in \(0, 1\)"),
        ({"n_draws": 0}, "n_draws must be an integer of at least 1"),
        ({"classes": ["p", "z"]}, r"classes must be among \['p', 'q', 'r'\], got 'z'"),
    ):
        with pytest.raises(ValueError, match=message):
            plots.plot_pdp(post, "a", **arguments)


def test_grids_in_any_order_and_classes_where_there_are_none(post):
    values = [1.0, -1.0, 0.0]
    ax = plots.plot_pdp(post, "a", grid=values, n_draws=5, random_seed=1)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), sorted(values))
    expected = post.partial_dependence("a", values).values[[1, 2, 0], 0]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), expected)
    one = plots.plot_pdp(post, "a", grid=[0.0], n_draws=5, random_seed=1)
    assert {line.get_marker() for line in one.lines if len(line.get_xdata())} == {"o"}
    x = np.arange(8.0)
    numbers = ps.fit_tree(pd.DataFrame({"a": x}), x, "real", particles=2, islands=1, random_seed=1)
    for call, message in (
        (lambda: plots.plot_pdp(numbers, "a", classes=["q"]), r"classes is for a response of classes, .* got \['q'\]"),
        (lambda: plots.plot_pdp(post, "a", classes="pq"), "classes must be a sequence of classes, got 'pq'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_words_on_light_boxes_are_dark(post):
    with plt.style.context("dark_background"):
        assert {t.get_color() for t in plots.plot_tree(post).texts} == {"black"}


def test_unknown_drawing():
    with pytest.raises(AttributeError, match="has no attribute 'plot_bush'"):
        _ = plots.plot_bush
    assert "plot_tree" in dir(plots)
    assert ps.plots is plots and "plots" in dir(ps)
