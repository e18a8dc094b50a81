"""Region trees from data: columns are set apart where they depend least, rows are clustered between."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.structures.dependence import MEASURES, strength_of_pairs
from pymc_spn.circuits.structures.regions import RegionTree, region_tree_of
from pymc_spn.circuits.structures.row_clusters import row_clusters
from pymc_spn.circuits.structures.tree_arguments import one_width
from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import read_table
from pymc_spn.tables.column import LEVEL_KINDS
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.resolution import are_clumped, resolution

MAX_ROWS = 20_000  # that are looked at
WIDE = 20  # columns of a table in which averages over columns hide what few of them say of levels
SHUFFLES = 4  # of each column, which say how strong chance makes a dependence
DEEPEST = 300  # splits above one another that the data decide; halves below, since Python limits recursion


class _Region(NamedTuple):
    """A region as `region_tree_of` takes it; equal ones are one."""

    columns: tuple[int, ...]
    n_children: int
    splits: tuple[tuple["_Region", ...], ...]


def learn_tree(
    data: TableLike,
    n_children: int | str = "infinite",
    *,
    n_clusters: int = 2,
    dependence: str = "mutual_information",
    min_rows: int = 100,
    max_depth: int = 3,
    apart: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> RegionTree:
    """Learn a region tree whose splits follow the dependence in the data.

    At each region the rows are clustered (k-means). In every cluster the columns are divided in two where they depend
    least (average linkage on the pairwise dependence). The parts are divided further, with the rows of their cluster.
    Clusters that are divided in the same way all the way down share one split; the others each get their own. Only the
    splits are kept: the sampler finds which rows use which split.

    In tables of 20 columns or more, the root has one more split if some columns depend neither on any column of levels
    nor on what such columns depend on. This split separates them from all others.

    The splits are chosen from the data that the network will then be fitted to. They carry no probability, so the
    posterior is conditional on the structure and does not account for this choice.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow, Table, dict or array
        What ``ps.SPN(observed=)`` takes.
    n_children : int or "infinite"
        Children of every sum node; at least `n_clusters` if finite.
    n_clusters : int
        Largest number of splits of a region; 1 gives one split everywhere.
    dependence : {"mutual_information", "rdc"}
        Binned mutual information, or the randomised dependence coefficient.
    min_rows : int
        A cluster with fewer rows is not examined by itself. Of more than 20,000 rows, only a random part is clustered.
        Of more than 1,000 in a cluster, only a random part is used to measure how columns depend on each other.
    max_depth : int
        Regions at this depth and below have one split.
    apart : sequence of str, optional
        Columns that one more split of the root puts apart from all others, so that multivariate leaves
        (``ps.leaves.MultivariateGaussian``) can stand there.
    kinds : dict, optional
        As in `Table.from_frame`.
    random_seed : int, Generator or None
        Seed of the clustering and of the random features.

    Returns
    -------
    RegionTree
        Over columns with their schema, so that it can be given to ``ps.SPN``.

    Raises
    ------
    ValueError
        If an argument is out of range, or `Table.from_frame` refuses the data.

    Examples
    --------
    >>> ps.circuits.learn_tree(df, random_seed=1).names
    ('age', 'income', 'job')

    References
    ----------
    Gens and Domingos (2013), Learning the structure of sum-product networks, ICML, Algorithm 1.
    """
    width = one_width(n_children, "")
    for name, value, least in (("n_clusters", n_clusters, 1), ("min_rows", min_rows, 2), ("max_depth", max_depth, 0)):
        if not is_int(value) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {quoted(value)}")
    if 0 < width < n_clusters:
        raise ValueError(
            f"n_children must be at least n_clusters={n_clusters}, or 'infinite', got {quoted(n_children)}"
        )
    if not isinstance(dependence, str) or dependence not in MEASURES:
        raise ValueError(f"dependence must be one of {sorted(MEASURES)}, got {quoted(dependence)}")
    table = read_table(data, kinds)
    rng = np.random.default_rng(random_seed)
    is_level = np.array([c.kind in LEVEL_KINDS for c in table.columns])
    learner = _Learner(table.values, is_level, MEASURES[dependence], width, n_clusters, min_rows, max_depth, rng)
    if apart is not None:
        unknown = [name for name in apart if name not in table.names]
        if unknown:
            raise ValueError(f"apart names the column {unknown[0]!r}, which is not in the table")
        able = np.isin(table.names, list(apart))
        grids = [resolution(x) if is_able else 0.0 for x, is_able in zip(table.values.T, able, strict=True)]
        learner.apart = [able, able & ~are_clumped(table.values, grids)]
    return region_tree_of(table.columns, learner.root())


class _Learner:
    """Rows, columns and the rules by which they are divided."""

    def __init__(
        self,
        values: np.ndarray,
        is_level: np.ndarray,
        measure: Any,
        width: int,
        n_clusters: int,
        min_rows: int,
        max_depth: int,
        rng: np.random.Generator,
    ) -> None:
        self.values, self.is_level, self.measure, self.width = values, is_level, measure, width
        self.n_clusters, self.min_rows, self.max_depth, self.rng = n_clusters, min_rows, max_depth, rng
        self.apart: list[np.ndarray] = []  # (D,) bool: columns that the root has a split for

    def root(self) -> _Region:
        """The region of all columns with all that is below it."""
        n_rows, n_columns = self.values.shape
        rows = np.arange(n_rows)
        if n_rows > MAX_ROWS:
            rows = np.sort(self.rng.choice(n_rows, MAX_ROWS, replace=False))
        return self.arranged(tuple(range(n_columns)), rows, 0)

    def arranged(
        self, columns: tuple[int, ...], rows: np.ndarray, depth: int, strength: np.ndarray | None = None
    ) -> _Region:
        """The region of these columns with all its splits; ``strength`` is their dependence in these rows, if known."""
        if len(columns) == 1:
            return _Region(columns, self.width, ())
        clusters, held = [rows], np.sort(columns)
        if len(columns) > 2 and depth < self.max_depth and self.n_clusters > 1 and rows.size >= 2 * self.min_rows:
            found = row_clusters(self.values, self.is_level, columns, rows, self.n_clusters, self.rng)
            clusters = [c for c in found if c.size >= self.min_rows] or [rows]
        splits = []
        for members in clusters:
            if strength is None or members is not rows:
                strength = strength_of_pairs(self.values, self.is_level, held, members, self.measure, self.rng)
            parts = self.divided(held, strength, depth)
            among = [np.searchsorted(held, np.sort(part)) for part in parts]
            below = [
                self.arranged(part, members, depth + 1, strength[np.ix_(at, at)])
                for part, at in zip(parts, among, strict=True)
            ]
            splits.append(tuple(below))
        for apart in self.apart if depth == 0 else []:
            splits += self.densities_and_others(columns, rows, apart)
        if depth == 0 and held.size >= WIDE and self.is_level.any():
            splits = self.levels_and_others(held, rows) + splits
        distinct = tuple(dict.fromkeys(splits))
        return _Region(tuple(d for part in distinct[0] for d in part.columns), self.width, distinct)

    def levels_and_others(self, held: np.ndarray, rows: np.ndarray) -> list[tuple[_Region, ...]]:
        """The split into levels with all that depends on them, through others too, and the rest; none without a rest.

        It is the first one, with which starts of one cluster begin: in a cluster of rows a level may be constant.
        """
        from scipy.sparse.csgraph import connected_components

        is_level, own, rule = self.is_level[held], self.values[rows], (self.measure, self.rng)
        strength = strength_of_pairs(own, self.is_level, held, np.arange(rows.size), *rule)
        chance = np.zeros(held.size)
        for _ in range(SHUFFLES):
            shuffled = self.rng.permuted(own, axis=0)
            found = strength_of_pairs(shuffled, self.is_level, held, np.arange(rows.size), *rule)
            chance = np.maximum(chance, found[:, ~is_level].max(axis=1, initial=0.0))
        least = np.maximum(chance, chance[:, None])
        least[:, is_level] = chance[is_level]
        least[is_level] = least[:, is_level].T
        group = connected_components(strength > least, directed=False)[1]
        kept = np.isin(group, group[is_level]) & (np.bincount(group)[group] > 1)
        parts = [tuple(held[some].tolist()) for some in (kept, ~kept)]
        parts.sort(key=lambda part: (-len(part), part))
        return [tuple(self.arranged(part, rows, 1) for part in parts)] if all(parts) else []

    def densities_and_others(
        self, columns: tuple[int, ...], rows: np.ndarray, apart: np.ndarray
    ) -> list[tuple[_Region, ...]]:
        """The split into columns of densities and others, if both are there and of the former two at least."""
        parts = [tuple(d for d in columns if apart[d] == is_density) for is_density in (True, False)]
        if len(parts[0]) < 2 or not parts[1]:
            return []
        parts.sort(key=lambda part: (-len(part), part))
        return [tuple(self.arranged(part, rows, 1) for part in parts)]

    def divided(self, held: np.ndarray, strength: np.ndarray, depth: int) -> list[tuple[int, ...]]:
        """Two parts between which the columns depend least, the larger first, else the one with the first column."""
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform

        if held.size == 2:
            return [(int(held[0]),), (int(held[1]),)]
        label = np.ones(held.size, np.int64)
        if depth < DEEPEST:
            distance = strength.max() - strength
            np.fill_diagonal(distance, 0.0)
            label = fcluster(linkage(squareform(distance, checks=False), "average"), 2, "maxclust")
        if label.max() == 1:  # all pairs alike or the tree deep: nothing to go by
            label = 1 + (np.arange(held.size) >= math.ceil(held.size / 2))
        parts = [tuple(held[label == k].tolist()) for k in (1, 2)]
        return sorted(parts, key=lambda part: (-len(part), part))
