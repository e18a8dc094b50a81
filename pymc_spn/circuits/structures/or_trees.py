"""OR trees: rows divided by the levels of one column after the other, while a score rises; forests at the ends."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from pymc_spn.circuits.structures.level_scores import CountScore, LevelCounter

ROUNDING = 1e-6  # nats; a division by a column on which all others depend alone is worth the same as its forest


@dataclass(frozen=True)
class Divided:
    """An inner node of an OR tree.

    Parameters
    ----------
    column : int
    counts : (n_levels,) float64
        Rows at each level.
    children : tuple of int
        Places in the list of nodes, after this one's, one for each level.
    """

    column: int
    counts: np.ndarray
    children: tuple[int, ...]


@dataclass(frozen=True)
class Forest:
    """An end of an OR tree: a forest over the columns that were not divided by.

    Parameters
    ----------
    parent : dict of int to int or None
        Of each column, None at the roots; children first.
    counts : dict of int to (n_levels,) float64
    pairs : dict of int to (levels of the parent, n_levels) float64
        For each column with a parent.
    """

    parent: dict[int, int | None]
    counts: dict[int, np.ndarray]
    pairs: dict[int, np.ndarray]


@dataclass(frozen=True)
class Growth:
    """When nodes are divided.

    Parameters
    ----------
    score : CountScore
    asks : bool
        Whether a division must raise the score; otherwise the column is drawn.
    max_depth : int or None
        Divisions above a forest at most.
    min_rows : int
        Nodes of fewer rows are not divided.
    n_candidates : int
        Columns drawn at each node among those that have two levels there.
    """

    score: CountScore
    asks: bool
    max_depth: int | None
    min_rows: int
    n_candidates: int


@dataclass(frozen=True)
class _OpenNode:
    """A node that waits: its rows, their counts, the columns that are left, the score of its forest and its edges."""

    place: int
    depth: int
    rows: np.ndarray
    counts: np.ndarray
    columns: np.ndarray
    score: CountScore
    total: float
    edges: np.ndarray


def grow_or_tree(
    counter: LevelCounter, counts: np.ndarray, growth: Growth, rng: np.random.Generator
) -> tuple[list[Divided | Forest], np.ndarray]:
    """Nodes, each before its children, and the score before and after each division.

    Parameters
    ----------
    counter : LevelCounter
    counts : (S, S) float64
        Of all rows.
    growth : Growth
    rng : numpy.random.Generator
        Draws candidates where not all columns are.

    Returns
    -------
    nodes : list of Divided or Forest
    score : (divisions + 1,) float64
        Of the whole network, in nats; where rows miss the column that divides, what is gained on the others is added.
    """
    rows, columns = np.arange(len(counter.codes)), np.arange(counter.n_levels.size)
    total, edges = counter.best_forest(counts, columns, growth.score)
    nodes: list[Divided | Forest | None] = [None]
    path = [total]
    waiting = [_OpenNode(0, 0, rows, counts, columns, growth.score, total, edges)]
    while waiting:
        node = waiting.pop()
        found = _division(counter, node, growth, rng)
        if found is None:
            nodes[node.place] = _forest(counter, node)
            continue
        gain, column, children = found
        path.append(path[-1] + gain)
        places = tuple(range(len(nodes), len(nodes) + len(children)))
        nodes[node.place] = Divided(column, np.array([child.rows.size for child in children], float), places)
        nodes += [None] * len(children)
        waiting += [_OpenNode(**{**vars(child), "place": place}) for place, child in zip(places, children, strict=True)]
    return [node for node in nodes if node is not None], np.array(path)


def _division(
    counter: LevelCounter, node: _OpenNode, growth: Growth, rng: np.random.Generator
) -> tuple[float, int, list[_OpenNode]] | None:
    """Gain, column and children of the best division of a node, or None."""
    if node.rows.size < growth.min_rows or node.depth == growth.max_depth or node.columns.size < 2:
        return None
    own = np.diagonal(node.counts)
    some = [d for d in node.columns.tolist() if np.count_nonzero(own[counter.levels_of(d)]) > 1]
    if len(some) > growth.n_candidates:
        some = np.sort(rng.choice(some, growth.n_candidates, replace=False)).tolist()
    best: tuple[float, int, list[_OpenNode]] | None = None
    for d in some:
        gain, children = _divided(counter, node, d)
        if (best is None or gain > best[0]) and (gain > ROUNDING or not growth.asks):
            best = gain, d, children
    return best


def _divided(counter: LevelCounter, node: _OpenNode, d: int) -> tuple[float, list[_OpenNode]]:
    """What the score gains by dividing the rows that see column d, and the children."""
    groups, tables = counter.divided(node.rows, node.counts, d)
    missing, without = groups.pop(), tables.pop()
    unsplit, counts = node.total, node.counts
    if missing.size:
        counts = counts - without
        unsplit, _ = counter.best_forest(counts, node.columns, node.score)
    rest = node.columns[node.columns != d]
    score = node.score.given_level(len(groups))
    children = []
    for group, table in zip(groups, tables, strict=True):
        total, edges = counter.best_forest(table, rest, score)
        children.append(_OpenNode(-1, node.depth + 1, group, table, rest, score, total, edges))
    gain = float(counter.column_scores(counts, node.score)[d]) + sum(c.total for c in children) - unsplit
    return gain, children


def _forest(counter: LevelCounter, node: _OpenNode) -> Forest:
    parent = rooted_at_centres(node.columns.tolist(), node.edges.tolist())
    at = {d: counter.levels_of(d) for d in parent}
    pairs = {d: node.counts[at[above], at[d]].copy() for d, above in parent.items() if above is not None}
    return Forest(parent, {d: np.diagonal(node.counts)[at[d]].copy() for d in parent}, pairs)


def rooted_at_centres(nodes: list[int], edges: list[list[int]]) -> dict[int, int | None]:
    """Parent of each node of a forest, None at the centre of each tree (of two the smaller); children first."""
    beside: dict[int, list[int]] = {v: [] for v in nodes}
    for v, w in edges:
        beside[v].append(w)
        beside[w].append(v)
    parent: dict[int, int | None] = {}
    reached: set[int] = set()
    for first in nodes:
        if first in reached:
            continue
        tree = _from(first, beside)
        reached.update(tree)
        parent |= dict(reversed(_from(_centre(tree, beside), beside).items()))
    return parent


def _from(root: int, beside: dict[int, list[int]]) -> dict[int, int | None]:
    """Parents in the tree of a node, breadth first."""
    parent: dict[int, int | None] = {root: None}
    waiting = deque([root])
    while waiting:
        v = waiting.popleft()
        for w in beside[v]:
            if w not in parent:
                parent[w] = v
                waiting.append(w)
    return parent


def _centre(tree: dict[int, int | None], beside: dict[int, list[int]]) -> int:
    """What is left of a tree when its ends are taken away again and again."""
    degree = {v: len(beside[v]) for v in tree}
    left, ends = set(tree), [v for v in tree if degree[v] < 2]
    while len(left) > 2:
        left.difference_update(ends)
        after = []
        for v in ends:
            for w in beside[v]:
                degree[w] -= 1
                if w in left and degree[w] == 1:
                    after.append(w)
        ends = after
    return min(left)
