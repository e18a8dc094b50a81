"""Drawings of decision trees: one tree, importance and inclusion of features, partial dependence, convergence."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.fingerprints import BY_LISTS
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.tree_files import with_sample_dimensions
from pymc_spn.trees.effects import dimension_of
from pymc_spn.trees.leaf_summaries import leaf_words, rule_of
from pymc_spn.trees.posterior import TreePosterior
from pymc_spn.trees.predictives import class_masses

if TYPE_CHECKING:
    import xarray as xr

_CLASSES = "tab10"
_INK = "black"  # on boxes that are light whatever the style


def plot_tree(
    post: TreePosterior, number: int | None = None, *, max_depth: int | None = None, ax: Axes | None = None
) -> Axes:
    """One drawn tree with rules, counts and predictives.

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
    if draws.family["family"] not in ("classes", "binary"):
        return "white"
    counts = draws.nodes.statistics[node] + class_masses(draws)[draws.tree_of_node[node]]
    p = counts / counts.sum()
    k = int(p.argmax())
    rgb = np.array(plt.get_cmap(_CLASSES)(k % 10)[:3])
    strength = 0.15 + 0.5 * (p[k] - 1.0 / len(p)) / max(1.0 - 1.0 / len(p), 1e-9)
    return tuple(1.0 - strength * (1.0 - rgb))


def variable_importance(
    post: TreePosterior,
    X: TableLike | None = None,
    y: npt.ArrayLike | None = None,
    *,
    max_features: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Mean log predictive of submodels that see more and more features; see `TreePosterior.variable_importance`.

    Examples
    --------
    >>> ax = ps.plots.variable_importance(trees)
    """
    table = post.variable_importance(X, y, max_features=max_features)
    ax = _axes(ax, (5.0, 1.0 + 0.3 * len(table)))
    at = np.arange(len(table))
    ax.plot(table["log_predictive"], at, "o-", color="C0", ms=4)
    ax.set_yticks(at, [("+ " if i else "") + f for i, f in enumerate(table["feature"])])
    ax.invert_yaxis()
    ax.set_xlabel("mean log predictive (nats)")
    ax.locator_params(axis="x", nbins=5)
    return ax


def variable_inclusion(post: TreePosterior, *, ax: Axes | None = None) -> Axes:
    """Probability that a feature is used, and its expected share of the splits.

    Examples
    --------
    >>> ax = ps.plots.variable_inclusion(trees)
    """
    table = post.variable_inclusion()
    order = np.argsort(table.sel(statistic="share").values)
    names = table["feature"].values[order]
    ax = _axes(ax, (5.0, 1.0 + 0.28 * len(names)))
    at = np.arange(len(names))
    ax.barh(at + 0.2, table.sel(statistic="probability").values[order], 0.4, label="probability of use", color="C0")
    ax.barh(at - 0.2, table.sel(statistic="share").values[order], 0.4, label="share of splits", color="C1")
    ax.set_yticks(at, names)
    ax.set_xlim(0.0, 1.02)
    ax.set_xlabel("posterior expectation")
    ax.legend(loc="lower right", fontsize=8)
    return ax


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
    """Partial dependence with a band of the curves of drawn trees.

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
    ax = _axes(ax, (5.0, 3.2))
    x, ticks = _positions(mean[dimension_of(feature)].values)
    _refuse_classes("classes", classes, mean)
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


def plot_ice(
    post: TreePosterior,
    feature: str,
    *,
    level: object | None = None,
    grid: npt.ArrayLike | None = None,
    X: TableLike | None = None,
    n_rows: int = 50,
    random_seed: int | np.random.Generator | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Curves of single rows, and their mean.

    Parameters
    ----------
    post : TreePosterior
    feature : str
    level : optional
        For a response of classes: the class whose probability is drawn, by default the last.
    grid, X : optional
        As in `TreePosterior.ice`.
    n_rows : int
        Rows drawn at random whose curves are shown; all where there are not so many.
    random_seed : int or Generator, optional
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        For what `TreePosterior.ice` refuses, for a level that the response does not have, and for a negative number
        of rows.

    Examples
    --------
    >>> ax = ps.plots.plot_ice(trees, "age", random_seed=1)
    """
    if not isinstance(n_rows, int | np.integer) or n_rows < 0:
        raise ValueError(f"n_rows must be an integer of at least 0, got {quoted(n_rows)}")
    curves = post.ice(feature, grid, X)
    _refuse_classes("level", level, curves)
    if "level" in curves.dims:
        levels = curves["level"].values.tolist()
        level = levels[-1] if level is None else level
        if level not in levels:
            raise ValueError(f"level must be one of {levels}, got {quoted(level)}")
        curves = curves.sel({"level": level})
    ax = _axes(ax, (5.0, 3.2))
    x, ticks = _positions(curves[dimension_of(feature)].values)
    n = min(n_rows, len(curves))
    rows = np.random.default_rng(random_seed).choice(len(curves), n, replace=False)
    along = np.argsort(x)  # a grid comes in any order
    ax.plot(x[along], curves.values[rows].T[along], marker=_dot(x), color="0.6", lw=0.6, alpha=0.7)
    ax.plot([], [], color="0.6", lw=0.6, label=f"{n} rows")
    ax.plot(x[along], curves.values.mean(0)[along], marker=_dot(x), color="C0", lw=2, label="mean of all rows")
    _ticks(ax, x, ticks)
    ax.set_xlabel(feature)
    ax.set_ylabel("prediction" if level is None else f"probability of {level}")
    ax.legend(fontsize=8)
    return ax


def plot_tree_convergence(idata: "xr.DataTree", name: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Trace of the log joint of each chain of ``pm.sample``.

    Examples
    --------
    >>> ax = ps.plots.plot_tree_convergence(tree_idata)
    """
    from pymc_spn.trees.record import tree_names

    names = tree_names(idata)
    if name is None and len(names) != 1:
        raise ValueError(f"name must be given, one of {quoted(names)}")
    name = names[0] if name is None else name
    if name not in names:
        raise ValueError(f"name must be one of {quoted(names)}, got {quoted(name)}")
    idata = with_sample_dimensions(idata)
    for dim in ("chain", "draw"):
        if dim not in idata["posterior"].dims:
            raise ValueError(f"idata must have the dimension {dim!r}: {BY_LISTS}")
    ax = _axes(ax, (6.0, 2.8))
    values = idata["posterior"].dataset[f"{name}_log_joint"].transpose("chain", "draw")
    for chain, trace in zip(values["chain"].values, values.values, strict=True):
        ax.plot(values["draw"].values, trace, marker=_dot(trace), lw=0.7, label=f"chain {chain}")
    ax.set_xlabel("draw")
    ax.set_ylabel(f"log joint of {name} (nats)")
    ax.legend(fontsize=8, ncols=4)
    return ax


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


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


def _refuse_classes(argument: str, asked: Any, curves: Any) -> None:
    if asked is not None and "level" not in curves.dims:
        raise ValueError(f"{argument} is for a response of classes, this one is of numbers; got {quoted(asked)}")
