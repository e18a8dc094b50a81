"""The result of a variational fit as data: active tree, expected statistics, hyperparameters, bounds."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_spn.gibbs.palette import CompiledPalette, log_jacobian, with_spread_values
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.gibbs.starts import MIN_ROWS, among_kinds, cluster_regions, entries_of_zeros, zeros_apart
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.networks.variational.active_tree import ActiveTree, Statistics, active_tree, edges_of, tree_of_digits
from pymc_spn.networks.variational.coordinate_ascent import Ascent, ascend, base_logs
from pymc_spn.networks.variational.joint_starts import with_joint_leaves
from pymc_spn.numerics.progress_bars import ProgressBar


@dataclass(frozen=True, eq=False)
class VariationalFit:
    """What a posterior needs of a fit, and how it was found.

    Parameters
    ----------
    region, node, option : (E,) int64
        Edges of the active tree: region, number of the edge above within its region, and its kind: split or leaf over
        several columns, of leaves over one the palette entry.
    count : (E,) float64
        Expected number of rows on each edge.
    s1, s2 : (L,) float64
        Expected sums of the values and of their squares in each leaf, in coded units.
    levels : (K,) float64
        Expected number of rows on each level of the leaves of discrete columns.
    sums, products : float64
        Expected sums of the rows and of their products in each leaf over several columns (`ActiveTree`), about the
        centre of its prior.
    hyperparameters : dict of float64 arrays
        Concentration (2,), the others (D,) each; keys in the order of `HYPERPARAMETERS`.
    bounds : list of (n_steps + 1,) float64
        For each restart the bound plus the log prior of the learned hyperparameters, from the start on, in nats.
    log_prior : float
        Log prior density of the learned hyperparameters' logs (of the shape, its excess over 1) at their estimates.
    converged : (n_restarts,) bool
    """

    region: np.ndarray
    node: np.ndarray
    option: np.ndarray
    count: np.ndarray
    s1: np.ndarray
    s2: np.ndarray
    levels: np.ndarray
    sums: np.ndarray
    products: np.ndarray
    hyperparameters: dict[str, np.ndarray]
    bounds: list[np.ndarray]
    log_prior: float
    converged: np.ndarray

    def tree(self, structure: Any, compiled: Any) -> ActiveTree:
        """The active tree."""
        ends = np.searchsorted(self.region, np.arange(structure.n_regions + 1))
        edges = [(self.node[a:b], self.option[a:b]) for a, b in pairwise(ends)]
        return active_tree(structure, compiled, edges)

    @property
    def is_converged(self) -> bool:
        """Whether the restart that was kept, the one with the highest bound, gained next to nothing in the end."""
        return bool(self.converged[int(np.argmax([b[-1] for b in self.bounds]))])

    @property
    def statistics(self) -> Statistics:
        """The expected statistics."""
        return Statistics(self.count, self.s1, self.s2, self.levels, self.sums, self.products)


def fit_by_ascent(
    schema: Any,
    values: np.ndarray,
    hyperparameters: dict[str, np.ndarray],
    learned: np.ndarray,
    priors: np.ndarray,
    max_children: int,
    n_restarts: int,
    max_steps: int,
    tolerance: float,
    rng: np.random.Generator,
    progressbar: bool,
) -> VariationalFit:
    """Coordinate ascent from several k-means starts; the restart with the highest bound is kept.

    Parameters
    ----------
    schema : NetworkSchema
    values : (N, D) float64
        The table in its own units, NaN where missing.
    hyperparameters : dict
        Values, or where to start.
    learned, priors, max_steps, tolerance
        As in `ascend`.
    max_children : int
        Children with which a sum node starts at most.
    n_restarts : int
    rng : numpy.random.Generator
    progressbar : bool
    """
    structure, compiled = schema.structure, schema.compiled
    coded = schema.code(values)
    placed = place_columns(structure, coded)
    spread = spread_palette(schema)
    factorials = base_logs(structure, compiled, values)
    jacobian = log_jacobian(compiled, values)
    runs = []
    own = tuple(hyperparameters[k] for k in HYPERPARAMETERS)
    fixed = learned, priors, max_steps, tolerance
    with ProgressBar("Variational ascent", n_restarts * max_steps, progressbar) as bar:
        for number, generator in enumerate(rng.spawn(n_restarts), 1):
            has_joints = spread.is_joint.any()
            width = max(max_children // 2, 1) if has_joints and number % 3 == 0 else max_children
            start = clustered_tree(structure, spread, coded, width, generator)
            if has_joints:
                tree, paths = start
                start = with_joint_leaves(structure, spread, placed, factorials, tree, paths, own, number % 3 != 2)
            runs.append(
                ascend(structure, spread, placed, factorials, jacobian, start, own, *fixed, stepped=bar.advance)
            )
            bar.advance(number * max_steps - bar.done)
    return fit_of(runs)


def spread_palette(schema: Any) -> CompiledPalette:
    """The palette of the fits of a network: values that stand for cells are spread over them."""
    widths = np.zeros(len(schema.columns))
    widths[schema.rounded_columns] = schema.cell_widths[schema.rounded_columns]
    return with_spread_values(schema.compiled, widths)


def fit_of(runs: list[Ascent]) -> VariationalFit:
    """The run with the highest bound, and the bounds of all."""
    best = max(runs, key=lambda run: run.bounds[-1])
    edges = edges_of(best.tree)
    return VariationalFit(
        region=np.repeat(np.arange(len(edges)), [node.size for node, _ in edges]),
        node=np.concatenate([node for node, _ in edges]),
        option=best.tree.option,
        count=best.statistics.edge_count,
        s1=best.statistics.s1,
        s2=best.statistics.s2,
        levels=best.statistics.levels,
        sums=best.statistics.sums,
        products=best.statistics.products,
        hyperparameters=dict(zip(HYPERPARAMETERS, best.hyperparameters, strict=True)),
        bounds=[run.bounds for run in runs],
        log_prior=best.log_prior,
        converged=np.array([run.converged for run in runs]),
    )


def clustered_tree(structure, compiled, coded, max_children, rng):
    """Active tree and each row's edges (N, R): every sum node's rows are clustered on the node's columns.

    Ascent can only empty children and never opens one, so it starts with all that it may need. Each node that holds
    enough rows has up to `max_children` of them (up to its width if that is less). The more rows the table
    has, the more a node needs: fits that begin with many small groups end at lower bounds, and later. Columns of levels
    get one leaf in a node, since a mixture of such leaves is one leaf, unless their palette has several entries.
    """
    n_entries = np.diff(compiled.entry_ptr)[structure.leaf_column]
    n_options = structure.n_options(np.diff(compiled.entry_ptr))
    at_most = np.maximum(max_children, n_options)
    copies = np.where(
        structure.n_children > 0, np.minimum(np.maximum(structure.n_children, n_options), at_most), at_most
    )
    one_leaf = (compiled.family[compiled.entry_ptr[structure.leaf_column]] == CATEGORICAL) & (n_entries == 1)
    copies[structure.leaf_region[one_leaf]] = 1
    min_rows = max(MIN_ROWS, math.isqrt(len(coded)))
    stride = np.ones(structure.n_regions, np.int64)
    apart = entries_of_zeros(structure, compiled)[structure.leaf_region] >= 0
    stride[structure.leaf_region[apart]] = n_entries[apart]
    copies[structure.leaf_region[apart]] = np.maximum(copies[structure.leaf_region[apart]] // n_entries[apart], 1)
    room = structure.n_children[0] - copies[0] if structure.n_children[0] > 0 else max_children
    digits = cluster_regions(structure, compiled, coded, copies, stride, rng, min_rows, room)
    digits = zeros_apart(structure, compiled, coded, digits)
    return tree_of_digits(structure, compiled, among_kinds(structure, compiled, digits))
