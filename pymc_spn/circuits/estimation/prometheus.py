"""`prometheus`: clusters of rows, each with all decompositions along the spanning tree of its columns, as a circuit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.estimation.assigned_rows import ASSIGNED, average_leaves, leaves_of_rows
from pymc_spn.circuits.estimation.chow_liu import positive
from pymc_spn.circuits.estimation.fit_steps import ExpectationMaximisation
from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.leaf_updates import pool, possible
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM
from pymc_spn.circuits.structures.circuit_builders import Growing, check_at_least, leaf_palettes
from pymc_spn.circuits.structures.dependence import MEASURES, strength_of_pairs
from pymc_spn.circuits.structures.row_clusters import row_clusters
from pymc_spn.circuits.structures.spanning_decompositions import spanning_decompositions
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table, read_table
from pymc_spn.tables.column import LEVEL_KINDS
from pymc_spn.tables.inputs import Palettes, TableLike


def prometheus(
    data: TableLike,
    leaves: Palettes | None = None,
    *,
    n_clusters: int = 2,
    dependence: str = "mutual_information",
    min_rows: int = 100,
    max_depth: int = 3,
    max_decompositions: int | None = None,
    leaf_prior_rows: float = 1.0,
    kinds: Mapping[str, str] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> CircuitFit:
    """Circuit whose sums weigh many decompositions of the columns, learned from clusters of rows: Prometheus.

    The rows of a region, first all rows and columns, are clustered (k-means). In each cluster the columns are joined by
    the spanning tree of largest pairwise dependence, whose edges are taken away from the weakest to the strongest. So D
    columns have D - 1 decompositions, from two parts to single columns. There is no threshold of dependence to choose.
    Each is a product, and one sum weighs the products of all clusters. A part is made once and is shared by all
    decompositions of its cluster that have it; parts of several columns are regions again, with the rows of the
    cluster. Regions whose rows are not clustered further are products of single columns: all their decompositions would
    be that product.

    The result is a start for `fit_em`, which learns how much each decomposition counts. The weights are the shares of
    the rows, spread evenly over the decompositions of a cluster. Each leaf is the estimate of `fit_em` from the rows of
    its cluster.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow, Table, dict or array
        What ``ps.SPN(observed=)`` takes; missing cells are left out of what they would say.
    leaves : mapping of str to str or sequence, optional
        For each column a family or several; every univariate distribution weighs all of them. By default by
        kind, as in `rat_spn`. Families that `fit_em` estimates without given parameters.
    n_clusters : int
        Clusters of a region at most, at least 2.
    dependence : {"mutual_information", "rdc"}
        As in `learn_tree`; of more than 1,000 rows a random part is looked at.
    min_rows : int
        Regions of fewer than twice this many rows are not clustered.
    max_depth : int
        Times that rows are clustered on the way to a leaf, at most; 1 gives one mixture of independent columns, 0 no
        sum at all.
    max_decompositions : int, optional
        Decompositions of a cluster at most, those into the fewest parts; all by default. A region of D columns has up
        to D - 2 regions below each of its clusters, so that many columns need this or a small `max_depth`.
    leaf_prior_rows : float
        As in `fit_em`. Positive.
    kinds : dict, optional
        As in `Table.from_frame`.
    random_seed : int, Generator or None
        Of the clustering, of rows that are looked at and of the random features of "rdc".

    Returns
    -------
    CircuitFit
        Not converged, and with the log likelihood as its objective: no step has been taken.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, leaves of other families, and data that `Table.from_frame` refuses or that give no
        valid leaf (a constant column has no scale). For a cell that no leaf of its column can take, and more than
        `circuit_builders.MAX_EDGES` edges.

    Examples
    --------
    >>> found = ps.circuits.prometheus(rows, random_seed=1)
    >>> found.mean().dims
    ('column',)

    References
    ----------
    Jaini, Ghose and Poupart (2018), Prometheus: directly learning acyclic directed graph structures for sum-product
    networks, PGM, PMLR 72. The three limits on size and the estimates of the leaves are this package's.
    """
    for name, value, least in (("n_clusters", n_clusters, 2), ("min_rows", min_rows, 1), ("max_depth", max_depth, 0)):
        check_at_least(name, value, least)
    if max_decompositions is not None:
        check_at_least("max_decompositions", max_decompositions, 1)
    if not isinstance(dependence, str) or dependence not in MEASURES:
        raise ValueError(f"dependence must be one of {sorted(MEASURES)}, got {quoted(dependence)}")
    prior_rows = positive("leaf_prior_rows", leaf_prior_rows)
    table = read_table(data, kinds)
    palettes = leaf_palettes(table.columns, leaves)
    _check_leaves(table, palettes)
    learner = _GrowingNetwork(
        table, palettes, MEASURES[dependence], (n_clusters, min_rows, max_depth, max_decompositions),
        np.random.default_rng(random_seed),
    )  # fmt: skip
    learner.region(tuple(range(len(table.columns))), np.arange(len(table.values)), 0, {})
    return learner.fit(prior_rows)


def _check_leaves(table: Table, palettes: list[list[str]]) -> None:
    """Refuse families that rows do not tell, cells without a leaf, and columns for which no leaf can be made."""
    for d, (name, palette) in enumerate(zip(table.names, palettes, strict=True)):
        for family in palette:
            if family not in ASSIGNED:
                raise ValueError(f"leaves must be among {ASSIGNED}, got {quoted(family)} for {name!r}")
        if len(set(palette)) < len(palette):
            raise ValueError(f"leaves must name each family of a column once, got {palette} for {name!r}")
        x = table.values[:, d]
        lost = ~np.isnan(x) & ~np.any([possible(family, x) for family in palette], axis=0)
        if np.any(lost):
            n = int(np.argmax(lost))
            raise ValueError(
                f"data: column {name!r} has the value {x[n]:g} at row {table.index[n]!r}, which its leaves "
                f"({', '.join(palette)}) cannot take"
            )
    for i in range(max(map(len, palettes))):  # before anything is learned; the i-th leaves, in turn
        independent = Growing(table.columns, palettes)
        independent.factorised(range(len(palettes)), i)
        try:
            pool(independent.circuit(), table.values)
        except ValueError as error:
            raise ValueError(str(error).replace("observed:", "data:", 1)) from None


class _GrowingNetwork:
    """The circuit in the making: its nodes, the rows of its leaves and the uses of its sums' edges."""

    def __init__(
        self,
        table: Table,
        palettes: list[list[str]],
        measure: Any,
        limits: tuple[int, int, int, int | None],
        rng: np.random.Generator,
    ) -> None:
        self.table, self.palettes, self.measure, self.rng = table, palettes, measure, rng
        self.n_clusters, self.min_rows, self.max_depth, self.max_decompositions = limits
        self.is_level = np.array([c.kind in LEVEL_KINDS for c in table.columns])
        self.grown = Growing(table.columns, palettes)
        self.rows_of: dict[int, np.ndarray] = {}  # of each leaf
        self.shares: dict[int, np.ndarray] = {}  # weights of each sum

    def region(self, columns: tuple[int, ...], rows: np.ndarray, depth: int, made: dict[int, int]) -> int:
        """Node of some columns and rows.

        Parameters
        ----------
        columns : tuple of int
        rows : (n,) int64
        depth : int
            Times that rows have been clustered above.
        made : dict of int to int
            Node of each single column with these rows; new ones are added.
        """
        clusters = [rows]
        if len(columns) > 1 and self.is_clustered(rows, depth):
            clusters = row_clusters(self.table.values, self.is_level, columns, rows, self.n_clusters, self.rng)
        if len(clusters) == 1:
            below = [self.univariate(d, rows, made) for d in columns]
            return below[0] if len(below) == 1 else self.grown.add(PRODUCT, below)
        products, uses = [], []
        for cluster in clusters:
            found = self.products(columns, cluster, depth + 1)
            products += found
            uses += [cluster.size / len(found)] * len(found)
        return self.sum(products, np.array(uses))

    def products(self, columns: tuple[int, ...], rows: np.ndarray, depth: int) -> list[int]:
        """Products of a cluster, one for each decomposition of the columns."""
        made: dict[int, int] = {}
        if not self.is_clustered(rows, depth):
            return [self.region(columns, rows, depth, made)]
        strength = strength_of_pairs(self.table.values, self.is_level, np.array(columns), rows, self.measure, self.rng)
        nodes: dict[tuple[int, ...], int] = {}
        found: list[int] = []
        for decomposition in spanning_decompositions(strength):
            for part in decomposition:
                if part not in nodes:
                    nodes[part] = self.region(tuple(columns[i] for i in part), rows, depth, made)
            found.append(self.grown.add(PRODUCT, [nodes[part] for part in decomposition]))
            if len(found) == self.max_decompositions:
                break
        return found

    def is_clustered(self, rows: np.ndarray, depth: int) -> bool:
        """Whether rows at this depth are divided further."""
        return depth < self.max_depth and rows.size >= 2 * self.min_rows

    def univariate(self, column: int, rows: np.ndarray, made: dict[int, int]) -> int:
        """Leaf of a column and some rows; of several families a sum of one leaf each."""
        if column not in made:
            found = [self.grown.leaf(column, i) for i in range(len(self.palettes[column]))]
            self.rows_of |= dict.fromkeys(found, rows)
            made[column] = found[0] if len(found) == 1 else self.sum(found, np.ones(len(found)))
        return made[column]

    def sum(self, below: Sequence[int], uses: np.ndarray) -> int:
        """A sum whose weights are shares of these uses."""
        (node,) = self.grown.sums(below, 1)
        self.shares[node] = uses / uses.sum()
        return node

    def fit(self, leaf_prior_rows: float) -> CircuitFit:
        """The circuit with its weights, and with leaves estimated from their rows."""
        circuit, values = self.grown.circuit(), self.table.values
        # the circuit counts nodes and children from the other end
        order = range(len(self.grown.kind) - 1, -1, -1)
        shares = [self.shares[v][::-1] for v in order if self.grown.kind[v] == SUM]
        pooled = pool(circuit, values)
        start = Parameterised(circuit, np.log(np.concatenate([*shares, np.zeros(0)])), average_leaves(pooled))
        ascent = ExpectationMaximisation(circuit, values, self.table.index, pooled, 0.0, leaf_prior_rows)
        rows_of = [self.rows_of[v] for v in order if self.grown.kind[v] == LEAF]
        parameters = leaves_of_rows(ascent, start, rows_of)
        found = float(Parameterised(circuit, start.log_weights, parameters).log_density(values).sum())
        path = np.array([found])
        return CircuitFit(circuit, start.log_weights, parameters, found, path, False, path)
