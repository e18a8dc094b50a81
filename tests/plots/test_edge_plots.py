"""Drawings of graphs: what is on the axes."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.patches import FancyArrowPatch, Rectangle

import pymc_spn as ps
from pymc_spn.plots.edge_plots import plot_edge_probabilities, plot_graph

GRAPH = ps.DAG.from_edges("abcd", [("a", "c"), ("b", "c"), ("c", "d")])


def test_edge_probabilities_are_shown_as_they_are():
    values = np.arange(16.0).reshape(4, 4) / 15
    ax = plot_edge_probabilities(
        xr.DataArray(values, {"parent": list("abcd"), "child": list("abcd")}), truth=GRAPH, title="t"
    )
    shown = ax.images[0].get_array()
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_array_equal(shown[off], values[off])
    assert shown.mask[~off].all()
    assert [t.get_text() for t in ax.get_xticklabels()] == list("abcd")
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("child", "parent", "t")
    frames = {(p.get_y() + 0.5, p.get_x() + 0.5) for p in ax.patches if isinstance(p, Rectangle)}
    assert frames == {(0, 2), (1, 2), (2, 3)}


def test_cells_and_frames_are_found_by_name():
    values = np.arange(16.0).reshape(4, 4) / 15
    edges = xr.DataArray(values, {"parent": list("abcd"), "child": list("abcd")})
    some = edges.sel(parent=["b", "c"], child=["c", "d", "b"])
    ax = plot_edge_probabilities(some.T, truth=ps.DAG.from_edges("dcba", GRAPH.edges))
    shown = ax.images[0].get_array()
    np.testing.assert_array_equal(
        shown.filled(-1.0), [[values[1, 2], values[1, 3], -1], [-1, values[2, 3], values[2, 1]]]
    )
    assert {(p.get_y() + 0.5, p.get_x() + 0.5) for p in ax.patches} == {(0, 0), (1, 1)}
    with pytest.raises(ValueError, match="edges must have the dimensions parent and child, got"):
        plot_edge_probabilities(edges.expand_dims("draw"))
    with pytest.raises(ValueError, match="positions name 'z', which is not a variable"):
        plot_graph(GRAPH, positions={"z": (0.0, 0.0)})
    with pytest.raises(TypeError, match="edges must be a DataArray with the names of its nodes; got ndarray"):
        plot_edge_probabilities(values)
    with pytest.raises(TypeError, match=r"graph must be a ps\.DAG or ps\.CPDAG; got dict"):
        plot_graph({"a": ["b"]})


def test_edges_are_as_wide_as_they_are_probable():
    values = np.zeros((4, 4))
    values[0, 2], values[1, 2], values[2, 1], values[2, 3] = 0.9, 0.5, 0.25, 1.0
    chance = xr.DataArray(values, {"parent": list("abcd"), "child": list("abcd")})
    ax = plot_graph(GRAPH, probabilities=chance.T)
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    np.testing.assert_allclose([a.get_linewidth() for a in arrows], [3.2, 2.0, 3.5])
    assert [t.get_text() for t in ax.texts] == ["0.90", "0.50", "1.00", *"abcd"]
    ax = plot_graph(ps.DAG.from_edges("bc", [("b", "c")]).cpdag(), probabilities=chance)
    assert ax.texts[0].get_text() == "0.75"
    with pytest.raises(ValueError, match="probabilities must name every variable of the graph; 'a' is missing"):
        plot_graph(GRAPH, probabilities=chance.sel(parent=["b", "c", "d"]))


def test_nothing_is_cut_off_or_drawn_in_the_colour_of_the_paper():
    names = ["a rather long name", "a", "b"]
    edges = xr.DataArray(np.eye(3), {"parent": names, "child": names}, ("parent", "child"))
    graph = ps.DAG.from_edges(["a", *names[::2]], [("a", "b")])  # the long name at the right
    for ax in (plot_edge_probabilities(edges), plot_graph(graph)):
        ax.figure.draw_without_rendering()
        page = ax.figure.bbox
        for text in [*ax.get_xticklabels(), *ax.get_yticklabels()] if ax.axison else ax.texts:
            box = text.get_window_extent()
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0, text.get_text()
    with plt.style.context("dark_background"):
        ax = plot_graph(graph)
        assert {p.get_edgecolor() for p in ax.patches if isinstance(p, FancyArrowPatch)} == {(1.0, 1.0, 1.0, 1.0)}


def test_arrows_and_lines():
    def kinds(ax):
        return sorted(type(p.get_arrowstyle()).__name__ for p in ax.patches if isinstance(p, FancyArrowPatch))

    assert kinds(plot_graph(GRAPH)) == ["CurveFilledB"] * 3
    chain = ps.DAG.from_edges("abc", [("a", "b"), ("b", "c")]).cpdag()
    _, ax = plt.subplots()
    assert plot_graph(chain, ax, positions={"a": (0.0, 5.0)}) is ax
    assert kinds(ax) == ["Curve"] * 2
    assert {t.get_text(): t.get_position() for t in ax.texts}["a"] == (0.0, 5.0)


def test_variables_with_the_names_of_arguments_have_positions():
    graph = ps.DAG.from_edges(["graph", "title", "ax"], [("graph", "title"), ("title", "ax")])
    at = {"graph": (0.0, 2.0), "title": np.array([1.0, 1.0]), "ax": (3.0, 0.0)}
    ax = plot_graph(graph, positions=at)
    assert {t.get_text(): tuple(t.get_position()) for t in ax.texts} == {n: tuple(p) for n, p in at.items()}
    for wrong in ((0.0,), (0.0, np.nan)):
        with pytest.raises(ValueError, match=r"positions must be pairs .* of finite numbers; 'graph' has"):
            plot_graph(graph, positions={"graph": wrong})
    with pytest.raises(TypeError, match="positions must be a mapping from names"):
        plot_graph(graph, positions=[(0.0, 1.0)])


def test_many_variables_stand_in_layers_below_their_parents():
    names = [f"x{i}" for i in range(20)]
    edges = [(names[i], names[i + 3]) for i in range(0, 12)] + [("x0", "x9")]
    graph = ps.DAG.from_edges(names, edges)
    place = {t.get_text(): t.get_position() for t in plot_graph(graph).texts}
    assert len(set(place.values())) == 20
    assert all(place[parent][1] > place[child][1] for parent, child in edges)
    alone = {place[name][1] for name in names[15:]}
    assert max(alone) < min(place[name][1] for name in names[:15])
    ring = {t.get_text(): t.get_position() for t in plot_graph(graph.cpdag()).texts}
    np.testing.assert_allclose(np.hypot(*np.array(list(ring.values())).T), 20 / 12)
    plot_graph(ps.DAG(tuple(names), np.zeros((20, 20), bool)))
