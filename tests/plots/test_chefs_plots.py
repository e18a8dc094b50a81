"""Drawings of graphs of unknown size: reputations are heights, and level curves are those of the exact law."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn import plots


def graph():
    out = nx.DiGraph()
    for name, theta, seen in (("a", 0.0, True), ("b", 0.0, True), ("hidden_1", 0.4, False), ("hidden_2", 0.7, False)):
        out.add_node(name, reputation=theta, observed=seen)
    out.add_edges_from([("hidden_1", "a"), ("hidden_1", "b"), ("hidden_2", "hidden_1")])
    return out


def test_heights_are_reputations_and_arrows_edges():
    ax = plots.plot_chefs_graph(graph(), title="a draw")
    heights = sorted(float(line.get_ydata()[0]) for line in ax.lines)
    np.testing.assert_allclose(heights, [0.0, 0.0, 0.4, 0.7])
    assert len(ax.patches) == 3
    assert {t.get_text() for t in ax.texts} == {"a", "b", "1", "2"}
    assert ax.get_ylabel() == "reputation" and ax.get_title() == "a draw"
    plt.close("all")


def test_a_graph_without_reputations_is_refused():
    with pytest.raises(ValueError, match="'a' has none"):
        plots.plot_chefs_graph(nx.DiGraph([("a", "b")]))
    with pytest.raises(TypeError, match=r"graph must be one of networkx, as from GraphDraws\.to_networkx.*; got list"):
        plots.plot_chefs_graph([("a", "b")])


def test_level_curves_have_the_exact_expectation():
    ax = plots.plot_expected_nodes(np.linspace(0.5, 2.0, 7), np.linspace(1.0, 2.0, 6), levels=[3.0])
    points = np.concatenate([p.vertices for p in ax.collections[0].get_paths()])
    assert len(points) > 4
    for alpha, gamma in points:
        assert float(ps.indian_chefs.expected_graph(alpha, gamma, 1.0, 1).nodes) == pytest.approx(
            3.0, abs=0.03
        )  # linear in between
    with pytest.raises(ValueError, match="at least two values"):
        plots.plot_expected_nodes([1.0], [1.0, 2.0])
    plt.close("all")


def test_edges_for_given_numbers_of_nodes():
    """By forward draws at the gamma that was found: 4 standard errors."""
    ax = plots.plot_expected_edges([0.5, 2.0], [4.0])
    edges = ax.lines[0].get_ydata()
    assert edges[0] > edges[1]  # smaller alpha, denser graphs
    for alpha, expected in zip([0.5, 2.0], edges, strict=True):
        gamma = ps.indian_chefs.gamma_for_nodes(4.0, alpha, 1)
        drawn = ps.indian_chefs.sample_indian_chefs(alpha, gamma, 1.0, 1, draws=4000, random_seed=1)
        for found, want in ((drawn.n_active, 4.0), (drawn.parents.sum(("parent", "child")), expected)):
            assert abs(float(found.mean()) - want) < 4 * float(found.std()) / np.sqrt(4000)
    plt.close("all")


def test_fantasies_stand_beside_data():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.uniform(size=(50, 3)), columns=list("xyz"))
    fantasies = data.iloc[:30].copy()
    fantasies.loc[0, "x"] = 9.0
    axes = plots.plot_fantasies(data, fantasies, ["x", "y"])
    np.testing.assert_array_equal(axes[0].lines[0].get_xydata(), data[["x", "y"]])
    np.testing.assert_array_equal(axes[1].lines[0].get_xydata(), fantasies[["x", "y"]])
    assert axes[1].get_title() == "fantasy data, 1 of 30 outside" and axes[0].get_xlim() == axes[1].get_xlim()
    assert len(plots.plot_fantasies(data, data, ["x", "z"], max_rows=7)[0].lines[0].get_xdata()) == 7
    with pytest.raises(ValueError, match="two columns"):
        plots.plot_fantasies(data, data)
    with pytest.raises(ValueError, match="'w'"):
        plots.plot_fantasies(data, data, ["x", "w"])
    with pytest.raises(ValueError, match=r"columns must name two columns, got \['xy'\]"):
        plots.plot_fantasies(data, data, "xy")
    for tables, match in (((data.to_numpy(), data), "data"), ((data, data.to_numpy()), "fantasies")):
        with pytest.raises(TypeError, match=f"{match} must be a DataFrame; got ndarray"):
            plots.plot_fantasies(*tables)
    gaps = data.mask(np.arange(len(data))[:, None] == [0, 1, 2])
    limits = plots.plot_fantasies(gaps, data, ["x", "y"])[0].get_xlim()
    assert limits == plots.plot_fantasies(data.iloc[2:], data, ["x", "y"])[0].get_xlim()
    with pytest.raises(ValueError, match="data must have a row without a gap"):
        plots.plot_fantasies(data * np.nan, data, ["x", "y"])
    plt.close("all")


def test_ink_shows_on_dark_paper():
    data = pd.DataFrame({"x": [0.0, 1.0], "y": [1.0, 0.0]})
    graph = nx.DiGraph([("h", "x")])
    nx.set_node_attributes(graph, {"h": 0.5, "x": 0.0}, "reputation")
    with plt.style.context("dark_background"):
        assert plots.plot_fantasies(data, data)[0].lines[0].get_color() == "white"
        assert plots.plot_chefs_graph(graph).patches[0].get_edgecolor() == (1.0, 1.0, 1.0, 1.0)


def test_hidden_nodes_over_observed_ones():
    ax = plots.plot_expected_hidden([1, 2, 3], alphas=[1.0], gamma=1.5)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [2.0518, 2.7748, 3.2239], atol=1e-4)
    plt.close("all")
