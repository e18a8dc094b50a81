"""Graphs of unknown size, the curves of the paper's Figure 3 from exact laws, and fantasy data against data."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column
from pymc_spn.tables.frame_kinds import pandas_frame

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.axes import Axes

_INK, _FILL = "#1f2933", "#cbd5e1"


def plot_chefs_graph(graph: "nx.DiGraph", ax: "Axes | None" = None, title: str | None = None) -> "Axes":
    """One graph with reputations on the vertical axis; observed nodes are filled.

    Parameters
    ----------
    graph : networkx.DiGraph
        As from `GraphDraws.to_networkx`: nodes have ``reputation`` and ``observed``.
    ax : matplotlib axes, optional
    title : str, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    TypeError
        If it is not a graph of networkx.
    ValueError
        If a node has no reputation.

    Examples
    --------
    >>> ax = ps.plots.plot_chefs_graph(graphs.to_networkx())
    """
    import matplotlib.pyplot as plt
    import networkx as nx
    from matplotlib.patches import FancyArrowPatch

    if not isinstance(graph, nx.Graph):
        raise TypeError(
            f"graph must be one of networkx, as from GraphDraws.to_networkx(chain, draw); got {type(graph).__name__}"
        )
    lacking = [n for n, data in graph.nodes(data=True) if "reputation" not in data]
    if lacking:
        raise ValueError(f"graph must have a reputation for every node; {lacking[0]!r} has none")
    if ax is None:
        _, ax = plt.subplots(figsize=(5, 5), layout="constrained")
    places = _places(graph)
    for parent, child in graph.edges:
        (x0, y0), (x1, y1) = places[parent], places[child]
        # level neighbours and edges along one column would run through nodes
        bend = 0.25 if abs(x0 - x1) < 1e-9 else 0.06
        ax.add_patch(
            FancyArrowPatch(
                (x0, y0),
                (x1, y1),
                arrowstyle="-|>",
                mutation_scale=12,
                shrinkA=9,
                shrinkB=9,
                color=plt.rcParams["text.color"],
                linewidth=0.9,
                connectionstyle=f"arc3,rad={bend}",
            )
        )
    for node, (x, y) in places.items():
        is_observed = graph.nodes[node].get("observed", False)
        face = _FILL if is_observed else "white"
        ax.plot(x, y, "o", markersize=15, markerfacecolor=face, markeredgecolor=_INK, zorder=3)
        text = str(node) if is_observed else str(node).removeprefix("hidden_")
        ax.annotate(text, (x, y), ha="center", va="center", fontsize=7, zorder=4, color=_INK)
    ax.set_ylim(-0.08, 1.08)
    ax.set_xlim(-0.12, 1.12)
    ax.set_xticks([])
    ax.set_ylabel("reputation")
    if title:
        ax.set_title(title)
    return ax


def _places(graph):
    """Observed nodes side by side, hidden ones above the mean of their children and apart from their neighbours."""
    observed = [n for n, data in graph.nodes(data=True) if data.get("observed", False)]
    x = {n: (i + 0.5) / len(observed) for i, n in enumerate(observed)}
    height = {n: graph.nodes[n]["reputation"] for n in graph.nodes}
    hidden = sorted((n for n in graph.nodes if n not in x), key=lambda n: height[n])
    for n in hidden:
        below = [x[c] for c in graph.successors(n) if c in x]
        wanted = float(np.mean(below)) if below else 0.5
        offsets = sorted(np.linspace(-0.5, 0.5, 21), key=abs)
        free = [wanted + o for o in offsets if 0.0 <= wanted + o <= 1.0]
        near = [m for m in x if abs(height[m] - height[n]) < 0.09]
        x[n] = next((f for f in free if all(abs(x[m] - f) > 0.11 for m in near)), wanted)
    return {n: (x[n], height[n]) for n in graph.nodes}


def plot_expected_nodes(
    alphas: npt.ArrayLike,
    gammas: npt.ArrayLike,
    n_observed: int = 1,
    levels: Sequence[float] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Level curves of the expected number of nodes over alpha and gamma: Figure 3(a), from the exact distribution.

    Parameters
    ----------
    alphas, gammas : sequence of float
        Positive; at least two of each.
    n_observed : int
        Observed nodes, at reputation 0.
    levels : sequence of float, optional
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        Arguments out of range, or expectations beyond the range that is computed.

    Examples
    --------
    >>> values = np.linspace(0.5, 2.0, 4)
    >>> ax = ps.plots.plot_expected_nodes(alphas=values, gammas=values)
    """
    import matplotlib.pyplot as plt

    from pymc_spn.indian_chefs.node_law import expected_graph

    alphas, gammas = np.asarray(alphas, float), np.asarray(gammas, float)
    if min(alphas.size, gammas.size) < 2:
        raise ValueError(f"alphas and gammas must have at least two values; got {alphas.size} and {gammas.size}")
    values = [[float(expected_graph(a, g, 1.0, n_observed).nodes) for a in alphas] for g in gammas]
    if ax is None:
        _, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    curves = ax.contour(alphas, gammas, np.array(values), levels=levels, cmap="viridis")
    ax.clabel(curves, fmt="%g", fontsize=8)
    ax.set_xlabel("alpha")
    ax.set_ylabel("gamma")
    ax.set_title(f"expected number of nodes,\n{n_observed} observed at reputation 0")
    return ax


def plot_expected_edges(
    alphas: Sequence[float],
    expected_nodes: Sequence[float] = (3.0, 5.0, 8.0),
    n_observed: int = 1,
    ax: "Axes | None" = None,
) -> "Axes":
    """Expected number of edges over alpha, for fixed expected numbers of nodes: Figure 3(b), from the exact
    distribution.

    gamma follows from alpha and the expected number of nodes, see `gamma_for_nodes`.

    Parameters
    ----------
    alphas : sequence of float
        Positive; drawn on a logarithmic axis.
    expected_nodes : sequence of float
        Hidden and observed ones; a curve for each.
    n_observed : int
        Observed nodes, at reputation 0.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> ax = ps.plots.plot_expected_edges(np.linspace(0.5, 2.0, 4))
    """
    import matplotlib.pyplot as plt

    from pymc_spn.indian_chefs.node_law import expected_graph, gamma_for_nodes

    if ax is None:
        _, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    for nodes in expected_nodes:
        gammas = [gamma_for_nodes(nodes, a, n_observed) for a in alphas]
        edges = [expected_graph(a, g, 1.0, n_observed).hidden_edges for a, g in zip(alphas, gammas, strict=True)]
        ax.plot(list(alphas), [float(e) for e in edges], marker="o", markersize=3, label=f"{nodes:g} nodes")
    ax.set_xscale("log")
    ax.set_xlabel("alpha")
    ax.set_ylabel("expected number of edges")
    ax.set_title(f"{n_observed} observed at reputation 0")
    ax.legend(title="expected")
    return ax


def plot_expected_hidden(
    n_observed: Sequence[int],
    alphas: Sequence[float] = (0.1, 1.0, 10.0),
    gamma: float = 1.0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Expected number of hidden nodes over the number of observed ones: Figure 3(c), from the exact distribution.

    Parameters
    ----------
    n_observed : sequence of int
    alphas : sequence of float
    gamma : float
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> ax = ps.plots.plot_expected_hidden([1, 2, 3])
    """
    import matplotlib.pyplot as plt

    from pymc_spn.indian_chefs.node_law import expected_graph

    if ax is None:
        _, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    for alpha in alphas:
        hidden = [float(expected_graph(alpha, gamma, 1.0, d).nodes) - d for d in n_observed]
        ax.plot(list(n_observed), hidden, marker="o", markersize=3, label=f"alpha = {alpha:g}")
    ax.set_xlabel("observed nodes")
    ax.set_ylabel("expected hidden nodes")
    ax.set_title(f"gamma = {gamma:g}")
    ax.legend()
    return ax


def plot_fantasies(
    data: "pd.DataFrame",
    fantasies: "pd.DataFrame",
    columns: Iterable[str | int | Column] | None = None,
    axes: "Sequence[Axes] | np.ndarray | None" = None,
    max_rows: int = 2000,
) -> Any:
    """Two columns of the data and of fantasy data side by side, on the same axes: Figure 4.

    `plot_pairs` overlays both and takes more columns.

    Parameters
    ----------
    data, fantasies : DataFrame
        In the same units, as held-out rows and `BeliefNetworkPosterior.sample`.
    columns : (str, str), optional
        By default the columns of `data`, where it has two.
    axes : two matplotlib Axes, optional
    max_rows : int
        Rows of each that are drawn, the first ones.

    Returns
    -------
    (2,) array of Axes
        Of data and of fantasies. Limits are the range of the data and a fifth more on each side; the title says how
        many of the fantasies that are drawn lie outside.

    Raises
    ------
    TypeError
        If one of the tables is not a frame.
    ValueError
        If there are not two columns, or one is missing.

    Examples
    --------
    >>> axes = ps.plots.plot_fantasies(numbers[["age", "income"]], network.sample(100, random_seed=1))
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    data, fantasies = pandas_frame(data), pandas_frame(fantasies, "fantasies")
    for argument, table in (("data", data), ("fantasies", fantasies)):
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"{argument} must be a DataFrame; got {type(table).__name__}")
    if columns is None:
        columns = data.columns
    names = [columns] if isinstance(columns, str) else list(columns)
    if len(names) != 2:
        raise ValueError(f"columns must name two columns, got {quoted(names)}; plot_pairs draws more")
    for name in names:
        if name not in data or name not in fantasies:
            raise ValueError(f"columns names {name!r}, which data and fantasies must both have")
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
    axes = np.asarray(axes)
    if axes.shape != (2,):
        raise ValueError(f"axes must be two, got shape {axes.shape}")
    tables = [frame[names].to_numpy(float, na_value=np.nan) for frame in (data, fantasies)]
    shown = [table[:max_rows] for table in tables]
    complete = tables[0][~np.isnan(tables[0]).any(1)]  # a row with a gap is nowhere in the plane
    if not len(complete):
        raise ValueError("data must have a row without a gap")
    low, high = complete.min(0), complete.max(0)
    margin = 0.2 * np.where(high > low, high - low, 1.0)
    low, high = low - margin, high + margin
    outside = int(((shown[1] < low) | (shown[1] > high)).any(1).sum())
    titles = ["data", f"fantasy data, {outside} of {len(shown[1])} outside" if outside else "fantasy data"]
    for ax, values, title in zip(axes, shown, titles, strict=True):
        ax.plot(values[:, 0], values[:, 1], ".", markersize=3, alpha=0.5, color=plt.rcParams["text.color"])
        ax.set_xlim(low[0], high[0])
        ax.set_ylim(low[1], high[1])
        ax.set_xlabel(str(names[0]))
        ax.set_title(title)
    axes[0].set_ylabel(str(names[1]))
    return axes
