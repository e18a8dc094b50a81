"""One tree in words and as a table of its leaves."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from pymc_spn.trees.predictives import class_masses, normal_terms

if TYPE_CHECKING:
    from pymc_spn.trees.draws import TreeDraws


def rule_of(draws: "TreeDraws", node: int) -> tuple[str, str]:
    """The rule of a split in words, for its left and its right branch; missing values where the split sends them."""
    flat = draws.flat
    feature = int(flat.feature[node])
    column, split = draws.features.columns[feature], draws.features.splits[feature]
    low, high = flat.low[node], flat.high[node]
    name = column.name
    levels = column.levels
    if split == "cut" and levels is not None:
        cut = int(np.floor(low))
        words = f"{name} ≤ {levels[cut]}", f"{name} > {levels[cut]}"
        if len(levels) == 2:
            words = f"{name} = {levels[0]}", f"{name} = {levels[1]}"
    elif split == "cut":
        words = f"{name} ≤ {0.5 * (low + high):.4g}", f"{name} > {0.5 * (low + high):.4g}"
    elif split == "onehot":
        assert levels is not None
        words = f"{name} = {levels[int(low)]}", f"{name} ≠ {levels[int(low)]}"
    else:
        assert levels is not None
        left = [str(v) for k, v in enumerate(levels) if int(low) >> k & 1]
        right = [str(v) for k, v in enumerate(levels) if (int(high) & ~int(low)) >> k & 1]
        words = f"{name} in {{{', '.join(left)}}}", f"{name} in {{{', '.join(right)}}}"
    side = int(flat.side[node])
    return words[0] + (" or missing" if side == 0 else ""), words[1] + (" or missing" if side == 1 else "")


def leaf_words(draws: "TreeDraws", node: int) -> str:
    """What a leaf predicts, shortly."""
    tree = draws.tree_of_node[node]
    n, s = draws.nodes.size[node], draws.nodes.statistics[node]
    if draws.levels is not None:
        counts = s + class_masses(draws)[tree]
        p = counts / counts.sum()
        return f"{draws.levels[int(p.argmax())]}: {p.max():.2f}"
    if draws.family.family == "real":
        mu, kappa, a, b = (v[0] for v in normal_terms(draws, np.array([n]), s[None], np.array([tree])))
        return f"{mu:.4g} ± {np.sqrt(b / a * (1.0 + 1.0 / kappa)):.3g}"
    shape, rate = draws.parameters[tree]
    return f"rate {(shape + s[0]) / (rate + n):.3g}"


def tree_rules(draws: "TreeDraws", number: int) -> str:
    """A tree as indented text."""
    flat, lines = draws.flat, []

    def visit(node, words, depth):
        n = draws.nodes.size[node]
        is_leaf = flat.feature[node] < 0
        says = f" → {leaf_words(draws, node)}" if is_leaf else ""
        lines.append(f"{'  ' * depth}{words} [{n}]{says}")
        if not is_leaf:
            left, right = rule_of(draws, node)
            visit(flat.left[node], left, depth + 1)
            visit(flat.right[node], right, depth + 1)

    visit(draws.begin[number], "all rows", 0)
    return "\n".join(lines)


def leaf_frame(draws: "TreeDraws", number: int, mass: float) -> pd.DataFrame:
    """Leaves with rule, rows and the posterior of their parameters with central intervals."""
    flat, rows = draws.flat, []
    tail = 0.5 * (1.0 - mass)

    def visit(node, path):
        if flat.feature[node] < 0:
            terms = {"node": int(node - draws.begin[number]), "rule": " and ".join(path) or "all rows"}
            rows.append(terms | {"rows": int(draws.nodes.size[node])} | _parameters(draws, node, number, tail))
            return
        left, right = rule_of(draws, node)
        visit(flat.left[node], [*path, left])
        visit(flat.right[node], [*path, right])

    visit(draws.begin[number], [])
    frame = pd.DataFrame(rows).set_index("node")
    frame.attrs["exactness"] = "exact"
    return frame


def _parameters(draws, node, tree, tail):
    n, s = draws.nodes.size[node], draws.nodes.statistics[node]
    if draws.levels is not None:
        counts = s + class_masses(draws)[tree]
        out = {}
        for level, a in zip(draws.levels, counts, strict=True):
            beta = stats.beta(a, counts.sum() - a) if len(counts) > 1 else None
            out[f"P({level})"] = a / counts.sum()
            out[f"P({level}) low"] = beta.ppf(tail) if beta else 1.0
            out[f"P({level}) high"] = beta.ppf(1.0 - tail) if beta else 1.0
        return out
    if draws.family.family == "real":
        mu, kappa, a, b = (v[0] for v in normal_terms(draws, np.array([n]), s[None], np.array([tree])))
        mean, variance = stats.t(2.0 * a, mu, np.sqrt(b / (a * kappa))), stats.invgamma(a, scale=b)
        return {
            "mean": mu,
            "mean low": mean.ppf(tail),
            "mean high": mean.ppf(1.0 - tail),
            "sd": np.sqrt(variance.median()),
            "sd low": np.sqrt(variance.ppf(tail)),
            "sd high": np.sqrt(variance.ppf(1.0 - tail)),
        }
    shape, rate = draws.parameters[tree]
    gamma = stats.gamma(shape + s[0], scale=1.0 / (rate + n))
    return {"rate": gamma.mean(), "rate low": gamma.ppf(tail), "rate high": gamma.ppf(1.0 - tail)}
