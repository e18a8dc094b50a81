"""Drawings of posteriors over graphs: edge probabilities and equivalence classes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.dags.dag import CPDAG, DAG
from pymc_spn.numerics.graph_pictures import FEW
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import by_name

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_INK = "#1f2933"
_FILL = "#e8eef4"
_LABEL = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}


def plot_edge_probabilities(
    edges: "xr.DataArray", ax: "Axes | None" = None, truth: DAG | None = None, title: str | None = None
) -> "Axes":
    """Heat map of edge probabilities, parents in rows, children in columns.

    Parameters
    ----------
    edges : DataArray
        (parent, child), as from `OrderSPN.edge_probabilities`, or some of its rows and columns.
    ax : matplotlib axes, optional
    truth : DAG, optional
        Its edges are framed, where both ends are shown.
    title : str, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    TypeError
        If `edges` is not a DataArray.
    ValueError
        If `edges` has other dimensions.

    Examples
    --------
    >>> ax = ps.plots.plot_edge_probabilities(dags.edge_probabilities())
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    edges = _by_parent("edges", edges)
    parents, children = list(edges.parent.values), list(edges.child.values)
    if ax is None:
        beside, below = (max(len(str(name)) for name in names) for names in (parents, children))  # letters
        size = 1.7 + 0.55 * len(children) + 0.08 * beside, 0.8 + 0.5 * len(parents) + 0.06 * below
        _, ax = plt.subplots(figsize=size, layout="constrained")
    values = np.where(np.equal.outer(edges.parent.values, edges.child.values), np.nan, edges.values)
    picture = ax.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0)
    ax.set_xticks(range(len(children)), children, rotation=45, ha="right")
    ax.set_yticks(range(len(parents)), parents)
    ax.set_xlabel("child")
    ax.set_ylabel("parent")
    ax.figure.colorbar(picture, ax=ax, label="probability of the edge", shrink=0.85)
    if truth is not None:
        for parent, child in truth.edges:
            if parent in parents and child in children:
                corner = children.index(child) - 0.5, parents.index(parent) - 0.5
                ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#d64545", linewidth=1.8))
    if title:
        ax.set_title(title)
    return ax


def plot_graph(
    graph: DAG | CPDAG,
    ax: "Axes | None" = None,
    title: str | None = None,
    positions: Mapping[str, tuple[float, float]] | None = None,
    probabilities: "xr.DataArray | None" = None,
) -> "Axes":
    """Drawing of a graph or of an equivalence class: arrows are directed, lines may point either way.

    Parameters
    ----------
    graph : DAG or CPDAG
    ax : matplotlib axes, optional
    title : str, optional
    positions : mapping, optional
        (x, y) by variable name, as from a layout of networkx. Variables that it leaves out stand on a circle or, of a
        `DAG` with more than 12, in layers below their parents, those without edges in rows at the bottom.
    probabilities : DataArray, optional
        (parent, child), as from `OrderSPN.edge_probabilities`: edges are as wide as they are probable, and say how
        probable. A line that may point either way has the probability of both directions together.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    TypeError
        If it is not a DAG or CPDAG, `positions` is not a mapping, or `probabilities` is not a DataArray.
    ValueError
        If a position names no variable of the graph, or is not a pair of finite numbers, or `probabilities` has other
        dimensions or lacks a variable.

    Examples
    --------
    >>> ax = ps.plots.plot_graph(dags.consensus(threshold=0.3))
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch

    if not isinstance(graph, DAG | CPDAG):
        raise TypeError(f"graph must be a ps.DAG or ps.CPDAG; got {type(graph).__name__}")
    if not isinstance(positions, Mapping | None):
        raise TypeError(f"positions must be a mapping from names to (x, y); got {quoted(positions)}")
    given = by_name("positions", positions or {})
    for name, at in given.items():
        if name not in graph.names:
            raise ValueError(f"positions name {name!r}, which is not a variable; they are {quoted(list(graph.names))}")
        if np.shape(at) != (2,) or not np.isfinite(np.asarray(at, float)).all():
            raise ValueError(f"positions must be pairs (x, y) of finite numbers; {name!r} has {at!r}")
    chance = None if probabilities is None else _by_parent("probabilities", probabilities)
    if chance is not None:
        known = set(chance.parent.values) & set(chance.child.values)
        if lacking := [name for name in graph.names if name not in known]:
            raise ValueError(f"probabilities must name every variable of the graph; {lacking[0]!r} is missing")
    n = len(graph.names)
    places = zip(graph.names, graph._positions().tolist(), strict=True)
    place = {name: (x, y) for name, (x, y) in places} | given
    if ax is None:
        size = np.ptp(np.array(list(place.values())), axis=0) if n > FEW else np.full(2, 4.0)
        _, ax = plt.subplots(figsize=tuple(np.maximum(size + 1.0, 5.0)), layout="constrained")
    for pairs, style in ((graph.directed, "-|>"), (graph.undirected, "-")):
        for parent, child in pairs:
            width = 1.0
            if chance is not None:
                p = float(chance.loc[parent, child] + (chance.loc[child, parent] if style == "-" else 0.0))
                width = 0.5 + 3.0 * p
                x, y = (0.6 * np.asarray(place[parent]) + 0.4 * np.asarray(place[child])).tolist()  # clear of the head
                ax.text(x, y, f"{p:.2f}", ha="center", va="center", fontsize="small", color=_INK, bbox=_LABEL, zorder=3)
            away = np.subtract(place[child], place[parent])
            room = [_half_box(name, away) for name in (parent, child)]
            arrow = FancyArrowPatch(
                place[parent], place[child], arrowstyle=style, mutation_scale=16, shrinkA=room[0], shrinkB=room[1],
                color=plt.rcParams["text.color"], linewidth=width,
            )  # fmt: skip
            ax.add_patch(arrow)
    for name, (x, y) in place.items():
        ax.text(
            x, y, name, ha="center", va="center", color=_INK,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": _FILL, "edgecolor": _INK},
        )  # fmt: skip
    xs, ys = zip(*place.values(), strict=True)
    ax.set_xlim(min(xs) - 0.3, max(xs) + 0.3)
    ax.set_ylim(min(ys) - 0.25, max(ys) + 0.25)
    ax.set_aspect("equal")
    ax.axis("off")
    if title:
        ax.set_title(title)
    return ax


def _by_parent(argument: str, edges: "xr.DataArray") -> "xr.DataArray":
    """Edge probabilities, parents first."""
    if not hasattr(edges, "dims"):
        raise TypeError(f"{argument} must be a DataArray with the names of its nodes; got {type(edges).__name__}")
    if set(edges.dims) != {"parent", "child"}:
        raise ValueError(f"{argument} must have the dimensions parent and child, got {edges.dims}")
    return edges.transpose("parent", "child")


def _half_box(name: str, direction: np.ndarray) -> float:
    """Points from the middle of a name's box to its border in some direction."""
    width, height = 3.2 * len(name) + 6.0, 11.0
    x, y = np.abs(direction) / max(np.hypot(*direction), 1e-9)
    return float(min(width / max(x, 1e-9), height / max(y, 1e-9))) + 2.0
