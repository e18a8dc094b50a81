"""Small drawings of directed graphs and of edge probabilities: positions of nodes, and SVG for notebooks."""

from collections.abc import Sequence
from html import escape

import numpy as np

FEW = 12  # nodes that stand on a circle
MOST_DRAWN = 40  # nodes of a drawing in a notebook
APART = 1.2  # positions between neighbours
MOST_SHADED = 24  # nodes of a graph of edge probabilities; more are a heat map
MOST_LABELLED = 60  # rows of a heat map that have room for their names
PALEST = 0.05  # probability of the palest cells of a heat map
SHADES = 10


def on_a_circle(n: int) -> np.ndarray:
    """(n, 2) positions on a circle that grows with the number of nodes."""
    angles, radius = np.pi / 2 - 2 * np.pi * np.arange(n) / max(n, 1), max(1.0, n / FEW)
    return radius * np.column_stack([np.cos(angles), np.sin(angles)])


def in_layers(adjacency: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Positions of each node one layer below the last of its parents, near the middle of these.

    Parameters
    ----------
    adjacency : (n, n) bool
        Parents by children.
    order : sequence of int
        The nodes, parents before children.

    Returns
    -------
    (n, 2) float64
        Nodes without edges stand in rows at the bottom.
    """
    linked = adjacency.any(axis=0) | adjacency.any(axis=1)
    depth, x = np.zeros(len(adjacency), int), np.zeros(len(adjacency))
    for i in order:
        parents = np.flatnonzero(adjacency[:, i])
        depth[i] = depth[parents].max() + 1 if parents.size else 0
    layers = [np.flatnonzero(linked & (depth == k)) for k in range(depth.max(initial=0) + 1)]
    for layer in layers:
        near = [x[np.flatnonzero(adjacency[:, i])].mean() if depth[i] else 0.0 for i in layer]
        ranked = layer[np.argsort(near, kind="stable")]
        x[ranked] = APART * (np.arange(layer.size) - (layer.size - 1) / 2)
    y = -APART * depth
    alone = np.flatnonzero(~linked)
    per_row = max(*(layer.size for layer in layers), 6)
    x[alone] = APART * (np.arange(alone.size) % per_row - (min(per_row, alone.size) - 1) / 2)
    y[alone] = -APART * (depth.max(initial=0) + 1 + np.arange(alone.size) // per_row)
    return np.column_stack([x, y])


def without_circles(edges: np.ndarray, bound: float) -> np.ndarray:
    """(d, d) bool: edges above a bound, from the largest (d, d) on, without those that would close a cycle."""
    d = len(edges)
    graph, reached = np.zeros((d, d), bool), np.eye(d, dtype=bool)
    for place in np.argsort(-edges, axis=None, kind="stable"):
        parent, child = divmod(int(place), d)
        if edges[parent, child] <= bound:
            break
        if not reached[child, parent]:
            graph[parent, child] = True
            reached |= np.outer(reached[:, parent], reached[child])
    return graph


def svg_of_edges(names: Sequence[str], edges: np.ndarray) -> str:
    """Edge probabilities (d, d), parents by children, as inline SVG: a graph of few nodes, a heat map of many.

    The graph joins the nodes that are linked with a probability above one half, whichever way. An edge has a head if
    its direction alone is that probable.
    """
    if not len(names):
        return ""
    if len(names) > MOST_SHADED:
        return svg_of_matrix(names, edges)
    linked = edges + edges.T > 0.5
    positions = on_a_circle(len(names))
    if len(names) > FEW:
        graph = without_circles(np.where(linked, edges, 0.0), 0.0)
        paths = np.linalg.matrix_power(graph + np.eye(len(graph)), len(graph)) > 0.0
        n_ancestors = paths.sum(axis=0)  # a child has more than its parents
        positions = in_layers(graph, np.argsort(n_ancestors, kind="stable").tolist())
    heads = edges > 0.5
    drawing = svg_of_graph(names, heads | (linked & ~heads & ~heads.T), positions, edges)
    said = "Links of probability above 0.5, darker if more probable; without a head the direction is open."
    return f"{drawing}\n{_caption(said)}"


def svg_of_matrix(names: Sequence[str], edges: np.ndarray) -> str:
    """Edge probabilities (d, d) as a heat map in inline SVG, parents in rows and children in columns."""
    n, labelled = len(names), len(names) <= MOST_LABELLED
    side = 10 if labelled else max(1, 480 // n)
    shown = [_short(name) for name in names] if labelled else []
    left = max((6 * len(name) for name in shown), default=0) + 6
    size = left + n * side + 2, n * side + 2
    shades = np.ceil(np.where(edges >= PALEST, edges, 0.0) * SHADES).astype(int)
    parts = [f'<rect x="{left}" y="1" width="{n * side}" height="{n * side}" fill="none" stroke="currentColor"/>']
    for shade in range(1, SHADES + 1):
        cells = [f"M{left + side * i} {1 + side * j}h{side}v{side}h-{side}z" for j, i in np.argwhere(shades == shade)]
        if cells:
            parts.append(f'<path d="{"".join(cells)}" fill="currentColor" fill-opacity="{shade / SHADES:g}"/>')
    for j, name in enumerate(shown):
        text = f'x="{left - 4}" y="{side * j + 9}" text-anchor="end" font-size="10" fill="currentColor"'
        parts.append(f"<text {text}>{escape(name)}</text>")
    said = f"Probability of each edge: parents down, children across in the same order. Blank: below {PALEST:g}."
    return f"{_svg(size, parts)}\n{_caption(said)}"


def svg_of_graph(
    names: Sequence[str], adjacency: np.ndarray, positions: np.ndarray, probabilities: np.ndarray | None = None
) -> str:
    """A graph as inline SVG, in the colour of the text around it; nothing if it has too many nodes.

    Parameters
    ----------
    names : sequence of str
    adjacency : (n, n) bool
        Parents by children; an edge that is there both ways is a line without head.
    positions : (n, 2) float64
        No two alike. They are spread until no two boxes meet.
    probabilities : (n, n) float64, optional
        Edges are darker if they are more probable, and say how probable under the pointer.
    """
    if not 0 < len(names) <= MOST_DRAWN:
        return ""
    shown = [_short(name) for name in names]
    half = np.array([3.6 * max(len(name), 2) + 6.0 for name in shown])  # widths of the boxes
    scale = np.array([45.0, 45.0])  # pixels
    while _overlap(np.abs(positions[:, None] - positions) * scale, half):
        scale *= [1.2, 1.1]
    at = positions * scale * [1.0, -1.0]
    margin = np.array([half.max() + 4.0, 16.0])
    low = at.min(axis=0) - margin
    size = at.max(axis=0) + margin - low
    at = at - low
    parts = []
    for j, i in np.argwhere(adjacency):
        both = bool(adjacency[i, j])
        if both and i < j:
            continue
        way = at[i] - at[j]
        way = way / max(float(np.hypot(*way)), 1e-9)
        start, end = at[j] + way * _to_border(half[j], way), at[i] - way * _to_border(half[i], way)
        ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        drawn = [f'<line {ends} stroke="currentColor"/>']
        if not both:
            side = np.array([-way[1], way[0]])
            corners = end, end - 8.0 * way + 3.0 * side, end - 8.0 * way - 3.0 * side
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
            drawn.append(f'<polygon points="{points}" fill="currentColor"/>')
        parts += drawn if probabilities is None else _shaded(drawn, names, probabilities, int(j), int(i))
    for name, (x, y), w in zip(shown, at, half, strict=True):
        box = f'x="{x - w:.1f}" y="{y - 11.0:.1f}" width="{2 * w:.1f}" height="22" rx="6"'
        parts.append(f'<rect {box} fill="none" stroke="currentColor"/>')
        text = f'x="{x:.1f}" y="{y + 4.0:.1f}" text-anchor="middle" font-size="12" fill="currentColor"'
        parts.append(f"<text {text}>{escape(name)}</text>")
    return _svg(size, parts)


def _svg(size: Sequence[float] | np.ndarray, parts: Sequence[str]) -> str:
    frame = f'width="{size[0]:.0f}" height="{size[1]:.0f}" viewBox="0 0 {size[0]:.1f} {size[1]:.1f}"'
    style = 'style="max-width:100%;height:auto"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {frame} {style}>', *parts, "</svg>"])


def _caption(words: str) -> str:
    return f'<div style="opacity:0.7;font-size:85%">{escape(words)}</div>'


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:12]}..."


def _shaded(drawn: Sequence[str], names: Sequence[str], probabilities: np.ndarray, j: int, i: int) -> list[str]:
    """An edge from j to i as dark as it is probable, with its probabilities as a title."""
    there, back = float(probabilities[j, i]), float(probabilities[i, j])
    said = f"{names[j]} -> {names[i]}: {there:.3f}; {names[i]} -> {names[j]}: {back:.3f}"
    dark = 0.2 + 0.8 * min(max(2.0 * (there + back) - 1.0, 0.0), 1.0)
    group = f'<g opacity="{dark:.2f}" stroke-width="1.5"><title>{escape(said)}</title>'
    return [group, *drawn, "</g>"]


def _overlap(apart: np.ndarray, half: np.ndarray) -> bool:
    """Whether boxes of these half widths meet whose middles are so far apart (n, n, 2)."""
    meet = (apart[..., 0] < half[:, None] + half + 10.0) & (apart[..., 1] < 30.0)
    return bool(np.triu(meet, 1).any())


def _to_border(half_width: float, way: np.ndarray) -> float:
    """From the middle of a box of this half width to its border, in a direction of length 1."""
    x, y = np.abs(way)
    return float(min(half_width / max(x, 1e-9), 11.0 / max(y, 1e-9)))
