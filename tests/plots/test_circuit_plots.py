"""Pictures of sum-product networks: what they show, and what they refuse. Someone also looks at them."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn import plots
from tests.hand_made_records import sampled_tree

mpl.use("Agg")


def test_plots_load_on_first_use():
    assert ps.plots is plots and set(dir(plots)) >= set(plots.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'plot_nothing'"):
        _ = plots.plot_nothing


def test_dependence_shows_means_above_and_widths_below():
    post = ps.SPNPosterior.from_idata(sampled_tree("infinite_missing"))
    table = post.dependence()
    ax = plots.plot_dependence(table)
    shown = ax.images[0].get_array().filled(np.nan)
    assert shown[0, 2] == table.mutual_information.values[0, 2]
    assert shown[2, 0] == pytest.approx(np.diff(table.hdi.values[2, 0])[0])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x0", "x1", "x2"] and len(ax.texts) == 6
    assert plots.plot_dependence(table, ax=ax, annotate=False) is ax
    with pytest.raises(ValueError, match=r"must be what SPNPosterior\.dependence returns"):
        plots.plot_dependence(table.drop_vars("hdi"))


def test_clusters_of_columns_stand_side_by_side():
    """Two groups of columns, mixed up: they come together, and the tree joins each before it joins both."""
    table = np.full((4, 4), 0.01)
    table[0, 2] = table[2, 0] = 0.9
    table[1, 3] = table[3, 1] = 0.5
    np.fill_diagonal(table, np.nan)
    names = ["a", "b", "c", "d"]
    given = xr.Dataset(
        {
            "mutual_information": (("column", "other"), table),
            "hdi": (("column", "other", "bound"), np.zeros((4, 4, 2))),
        },
        {"column": names, "other": names},
    )
    ax = plots.plot_dependence(given, cluster=True)
    order = [t.get_text() for t in ax.get_xticklabels()]
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset("ac"), frozenset("bd")}
    assert [t.get_text() for t in ax.get_yticklabels()] == order and len(ax.texts) == 12
    shown = ax.images[0].get_array().filled(np.nan)
    places = [names.index(name) for name in order]
    np.testing.assert_array_equal(shown, table[np.ix_(places, places)])
    (tree,) = ax.child_axes
    heights = sorted(line.get_ydata().max() for line in tree.lines)
    np.testing.assert_allclose(heights, 1.0 - np.sqrt(1.0 - np.exp(-2.0 * np.array([0.9, 0.5, 0.01]))))
    assert tree.get_xlim() == ax.get_xlim() and tree.get_title().startswith("Mean mutual information")
    one = next(line for line in tree.lines if line.get_ydata().max() == heights[0])
    assert {order[int(x)] for x in one.get_xdata()} == {"a", "c"}
    with pytest.raises(TypeError, match="cluster must be True or False, got 'rows'"):
        plots.plot_dependence(given, cluster="rows")


def test_cells_show_the_most_extreme_rows_first():
    post = ps.SPNPosterior.from_idata(sampled_tree("missing"))
    data = pd.DataFrame({"x0": [0.5, 40.0, None], "x1": [1, 0, None], "x2": [2, 2, 90]}, index=["a", "b", "c"])
    cells = post.cell_p_value(data)
    assert float(cells.sel(row="c", column="x2")) < float(cells.sel(row="b", column="x0")) < 0.01
    ax = plots.plot_cells(cells, data)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["c", "b", "a"]
    shown = ax.images[0].get_array()
    np.testing.assert_array_equal(shown.mask, np.isnan(cells.values[::-1][[0, 1, 2]]))
    np.testing.assert_allclose(shown.compressed(), np.minimum(-np.log10(cells.values[::-1][~shown.mask]), 6.0))
    assert [t.get_text() for t in ax.texts] == ["90", "40", "0", "2", "0.5", "1", "2"]
    first = plots.plot_cells(cells, n_rows=1)
    assert first.images[0].get_array().shape == (1, 3) and first.texts[0].get_text() == f"{float(cells[2, 2]):.2g}"
    assert plots.plot_cells(cells, ax=ax, annotate=False) is ax
    for bad, message in (
        ({"cells": cells.T}, "over row and column"),
        ({"n_rows": 0}, "n_rows must be an integer of at least 1, got 0"),
        ({"data": data[:2]}, "data must have the 3 rows"),
        ({"data": data.drop(columns="x1")}, r"no \['x1'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            plots.plot_cells(**({"cells": cells} | bad))


def test_pairs_of_data_and_draws():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.normal(size=30), "b": rng.choice(["x", "y"], 30)}).mask(rng.random((30, 2)) < 0.1)
    axes = plots.plot_pairs(data, data.sample(20, random_state=1))
    assert axes.shape == (2, 2) and not axes[0, 1].get_visible()
    points = axes[1, 0].lines
    assert [line.get_label() for line in points] == ["data", "draws"]
    assert len(points[0].get_xdata()) == data.dropna().shape[0]
    with pytest.raises(ValueError, match="columns names 'z'"):
        plots.plot_pairs(data, data, columns=["z"])
    with pytest.raises(ValueError, match=r"axes must have shape \(2, 2\)"):
        plots.plot_pairs(data, data, axes=axes[0])


def test_levels_that_only_draws_have_keep_their_share():
    data = pd.DataFrame({"a": ["x", "y"] * 4, "b": pd.Categorical(["u"] * 8)})
    drawn = pd.DataFrame({"a": ["x", "y", "w", "w"], "b": ["u", "u", "u", "t"]})
    axes = plots.plot_pairs(data, drawn)
    assert [bar.get_height() for bar in axes[0, 0].patches] == [0.0, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert [bar.get_height() for bar in axes[1, 1].patches] == [1.0, 0.0, 0.75, 0.25]
    assert len(axes[1, 0].lines[1].get_xdata()) == 4
    many = pd.DataFrame({"a": [f"level {i}" for i in range(20)]})
    assert len(plots.plot_pairs(many, many)[0, 0].get_xticks()) == 7


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: plots.plot_pairs(d.to_numpy(), d), TypeError, "data must be a DataFrame; got ndarray"),
        (lambda d: plots.plot_pairs(d, d, columns="ab"), ValueError, "columns must be a sequence of names, got 'ab'"),
        (lambda d: plots.plot_pairs(d, d, columns=[]), ValueError, r"columns must be a sequence of names, got \[\]"),
        (lambda d: plots.plot_pairs(d * np.nan, d), ValueError, "in every column that is drawn; 'a' has none"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(pd.DataFrame({"a": [1.0, 2.0]}))
