"""Drawings of decision trees: one tree, and partial dependence."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees.effects import dimension_of
from pymc_spn.trees.leaf_summaries import leaf_words, rule_of
from pymc_spn.trees.posterior import TreePosterior
from pymc_spn.trees.predictives import class_masses

_CLASSES = "tab10"
_INK = "black"  # on boxes that are light whatever the style


def plot_tree(
    post: TreePosterior, number: int | None = None, *, max_depth: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw one tree with its rules, counts and predictions.

    Parameters
    ----------
    post : TreePosterior
    number : int, optional
        The most probable of the drawn trees by default.
    max_depth : int, optional
        Nodes below are left out; the counts stay.
    ax : Axes, optional

    Examples
    --------
    >>> ax = ps.plots.plot_tree(trees)
    """
    draws = post._draws
    number = post._number(number)
    flat = draws.flat
    place, depth, shown = {}, {}, []
    n_leaves = 0

    def visit(node, level):
        nonlocal n_leaves
        depth[node] = level
        is_end = flat.feature[node] < 0 or (max_depth is not None and level >= max_depth)
        if is_end:
            place[node] = float(n_leaves)
            n_leaves += 1
        else:
            a, b = int(flat.left[node]), int(flat.right[node])
            visit(a, level + 1)
            visit(b, level + 1)
            place[node] = 0.5 * (place[a] + place[b])
        shown.append((node, is_end))

    visit(int(draws.begin[number]), 0)
    deepest = max(depth.values())
    if ax is None:
        _, ax = plt.subplots(figsize=(max(5.0, 1.45 * n_leaves), 1.4 + 1.45 * deepest), layout="constrained")
    for node, is_end in shown:
        x, y = place[node], -float(depth[node])
        n = int(draws.nodes.size[node])
        if not is_end:
            words = rule_of(draws, node)
            for child, text in ((int(flat.left[node]), words[0]), (int(flat.right[node]), words[1])):
                cx, cy = place[child], -float(depth[child])
                ax.plot([x, cx], [y, cy], color="0.6", lw=0.6 + 3.0 * draws.nodes.size[child] / len(draws.y), zorder=1)
                box = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85}
                at = x + 0.62 * (cx - x), y + 0.62 * (cy - y)
                ax.text(*at, _wrapped(text), ha="center", va="center", fontsize=7, color=_INK, bbox=box, zorder=2)
            label, colour = f"n = {n}", "0.93"
        else:
            cut_off = flat.feature[node] >= 0
            label = f"n = {n}\n…" if cut_off else f"n = {n}\n{leaf_words(draws, node)}"
            colour = _leaf_colour(draws, node)
        box = {"boxstyle": "round,pad=0.3", "fc": colour, "ec": "0.4"}
        ax.text(x, y, label, ha="center", va="center", fontsize=8, color=_INK, bbox=box, zorder=3)
    ax.set_xlim(-0.6, max(n_leaves - 0.4, 0.6))
    ax.set_ylim(-deepest - 0.4, 0.4)
    ax.set_axis_off()
    ax.set_title(f"tree {number}: {n_leaves} leaves shown, log joint {draws.log_joint[number]:.1f}", fontsize=9)
    return ax


def _wrapped(text: str) -> str:
    """Feature, relation and value on lines of their own, long names broken at a blank."""
    for sign in (" ≤ ", " > ", " = ", " ≠ ", " in "):
        name, found, value = text.partition(sign)
        if found:
            return f"{fill(name, 14)}\n{sign.strip()} {fill(value, 20)}"
    return text


def _leaf_colour(draws: Any, node: int) -> Any:
    """The colour of the leaf's class, paler where it is less sure; white for numbers."""
    if draws.levels is None:
        return "white"
    counts = draws.nodes.statistics[node] + class_masses(draws)[draws.tree_of_node[node]]
    p = counts / counts.sum()
    k = int(p.argmax())
    rgb = np.array(plt.get_cmap(_CLASSES)(k % 10)[:3])
    strength = 0.15 + 0.5 * (p[k] - 1.0 / len(p)) / max(1.0 - 1.0 / len(p), 1e-9)
    return tuple(1.0 - strength * (1.0 - rgb))


def plot_pdp(
    post: TreePosterior,
    feature: str,
    *,
    grid: npt.ArrayLike | None = None,
    X: TableLike | None = None,
    classes: Sequence[object] | None = None,
    mass: float = 0.9,
    n_draws: int = 100,
    random_seed: int | np.random.Generator | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw partial dependence with a band of the curves of drawn trees.

    Parameters
    ----------
    post : TreePosterior
    feature : str
    grid, X : optional
        As in `TreePosterior.partial_dependence`.
    classes : sequence, optional
        Which classes to draw, for a response of classes; all by default.
    mass : float
        Of the central band over drawn trees.
    n_draws : int
        Trees drawn by weight for the band.
    random_seed : int or Generator, optional
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        For what `TreePosterior.partial_dependence` refuses, for classes that the response does not have, and for a
        mass or number of draws out of range.

    Examples
    --------
    >>> ax = ps.plots.plot_pdp(trees, "age", random_seed=1)
    """
    if isinstance(classes, str) or (classes is not None and not len(classes)):
        raise ValueError(f"classes must be a sequence of classes, got {quoted(classes)}")
    if not 0.0 < mass < 1.0:
        raise ValueError(f"mass must lie in (0, 1), got {quoted(mass)}")
    if not isinstance(n_draws, int | np.integer) or n_draws < 1:
        raise ValueError(f"n_draws must be an integer of at least 1, got {quoted(n_draws)}")
    rng = np.random.default_rng(random_seed)
    mean = post.partial_dependence(feature, grid, X)
    curves = post.partial_dependence(feature, grid, X, per_draw=True)
    chosen = rng.choice(len(post.weights), n_draws, p=post.weights.values)
    low, high = np.quantile(curves.values[chosen], [0.5 - mass / 2, 0.5 + mass / 2], axis=0)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    x, ticks = _positions(mean[dimension_of(feature)].values)
    if classes is not None and "level" not in mean.dims:
        raise ValueError(f"classes is for a response of classes, this one is of numbers; got {quoted(classes)}")
    if "level" in mean.dims:
        levels = mean["level"].values.tolist()
        unknown = [level for level in ([] if classes is None else classes) if level not in levels]
        if unknown:
            raise ValueError(f"classes must be among {levels}, got {quoted(unknown[0])}")
        for k, level in enumerate(levels):
            if classes is None or level in classes:
                _curve(ax, x, mean.values[:, k], low[:, k], high[:, k], f"C{k % 10}", str(level), ticks is not None)
        ax.legend(title="class", fontsize=8)
        ax.set_ylabel("mean probability")
        ax.set_ylim(-0.02, 1.02)
    else:
        _curve(ax, x, mean.values, low, high, "C0", None, ticks is not None)
        ax.set_ylabel("mean prediction")
    _ticks(ax, x, ticks)
    ax.set_xlabel(feature)
    return ax


def _positions(grid: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Places on the axis, and labels where the grid is one of levels."""
    if np.issubdtype(grid.dtype, np.number) and grid.dtype != np.bool_:
        return grid, None
    return np.arange(len(grid)), [str(v) for v in grid]


def _curve(ax, x, mean, low, high, colour, label, is_levels):
    if is_levels:
        ax.errorbar(
            x, mean, [mean - np.minimum(low, mean), np.maximum(high, mean) - mean], fmt="o", color=colour, label=label
        )
    else:
        along = np.argsort(x)  # a grid comes in any order
        ax.fill_between(x[along], low[along], high[along], color=colour, alpha=0.2, lw=0)
        ax.plot(x[along], mean[along], marker=_dot(x), color=colour, label=label)


def _dot(x: np.ndarray) -> str | None:
    """A marker where one point would be a line without length."""
    return "o" if len(x) == 1 else None


def _ticks(ax: Axes, x: np.ndarray, labels: list[str] | None) -> None:
    """Levels below the axis, aslant where they would run into each other."""
    if labels is not None:
        is_long = sum(map(len, labels)) > 40
        ax.set_xticks(x, labels, rotation=45 if is_long else 0, ha="right" if is_long else "center")
