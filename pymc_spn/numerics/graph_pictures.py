"""Small drawings of directed graphs: positions of nodes, and SVG for notebooks."""

from collections.abc import Sequence
from html import escape

import numpy as np

FEW = 12  # nodes that stand on a circle
MOST_DRAWN = 40  # nodes of a drawing in a notebook
APART = 1.2  # positions between neighbours


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


def svg_of_graph(names: Sequence[str], adjacency: np.ndarray, positions: np.ndarray) -> str:
    """A graph as inline SVG, in the colour of the text around it; nothing if it has too many nodes.

    Parameters
    ----------
    names : sequence of str
    adjacency : (n, n) bool
        Parents by children; an edge that is there both ways is a line without head.
    positions : (n, 2) float64
        No two alike. They are spread until no two boxes meet.
    """
    if not 0 < len(names) <= MOST_DRAWN:
        return ""
    shown = [name if len(name) <= 14 else f"{name[:12]}..." for name in names]
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
        parts.append(f'<line {ends} stroke="currentColor"/>')
        if not both:
            side = np.array([-way[1], way[0]])
            corners = end, end - 8.0 * way + 3.0 * side, end - 8.0 * way - 3.0 * side
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
            parts.append(f'<polygon points="{points}" fill="currentColor"/>')
    for name, (x, y), w in zip(shown, at, half, strict=True):
        box = f'x="{x - w:.1f}" y="{y - 11.0:.1f}" width="{2 * w:.1f}" height="22" rx="6"'
        parts.append(f'<rect {box} fill="none" stroke="currentColor"/>')
        text = f'x="{x:.1f}" y="{y + 4.0:.1f}" text-anchor="middle" font-size="12" fill="currentColor"'
        parts.append(f"<text {text}>{escape(name)}</text>")
    frame = f'width="{size[0]:.0f}" height="{size[1]:.0f}" viewBox="0 0 {size[0]:.1f} {size[1]:.1f}"'
    style = 'style="max-width:100%;height:auto"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {frame} {style}>', *parts, "</svg>"])


def _overlap(apart: np.ndarray, half: np.ndarray) -> bool:
    """Whether boxes of these half widths meet whose middles are so far apart (n, n, 2)."""
    meet = (apart[..., 0] < half[:, None] + half + 10.0) & (apart[..., 1] < 30.0)
    return bool(np.triu(meet, 1).any())


def _to_border(half_width: float, way: np.ndarray) -> float:
    """From the middle of a box of this half width to its border, in a direction of length 1."""
    x, y = np.abs(way)
    return float(min(half_width / max(x, 1e-9), 11.0 / max(y, 1e-9)))
