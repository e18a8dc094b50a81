"""Heat maps of edge probabilities: what is on the axes."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
import xarray as xr
from matplotlib.patches import Rectangle

import pymc_spn as ps
from pymc_spn.plots.edge_plots import plot_edge_probabilities

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
    with pytest.raises(TypeError, match="edges must be a DataArray with the names of its nodes; got ndarray"):
        plot_edge_probabilities(values)


def test_nothing_is_cut_off():
    names = ["a rather long name", "a", "b"]
    edges = xr.DataArray(np.eye(3), {"parent": names, "child": names}, ("parent", "child"))
    ax = plot_edge_probabilities(edges)
    ax.figure.draw_without_rendering()
    page = ax.figure.bbox
    for text in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
        box = text.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0, text.get_text()
