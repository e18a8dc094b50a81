"""Integrals over the columns of a law whose circuits share grids: levels and counts summed, numbers by Gauss points.

A grid is placed by the mixture of a few circuits and refined until an answer stays.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from pymc_spn.events.events import Event
from pymc_spn.events.unions import ends_of, groups_that_meet
from pymc_spn.laws.column_grids import FEW_PANELS, GRID_DRAWS, MISPLACED, Grid, beyond_grid, grid_of, information
from pymc_spn.laws.information_bounds import NO_MASS, largest_tree
from pymc_spn.laws.information_kernels import joint_information
from pymc_spn.laws.law import Integral, Law
from pymc_spn.numerics.draw_averages import relative_weights
from pymc_spn.numerics.threads import for_each

MOST_PANELS = 96
PANELS = 24  # of bounds
CONVERGED = 1e-6  # nats by which halving the panels may change a mutual information
BLOCK_VALUES = 20_000_000  # joint masses held at a time (160 MB)
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
Grids = dict[int, Grid]


class CircuitOnGrids(Protocol):
    """One circuit of a law, integrated over grids of its columns."""

    def masses(self, d: int, grid: Grid) -> Any:
        """What the points of a grid say of a column, for `single` and `pair`."""

    def single(self, d: int, on_d: Any) -> np.ndarray:
        """Masses (X,) of a column on its grid."""

    def pair(self, a: int, b: int, on_a: Any, on_b: Any) -> np.ndarray:
        """Joint masses (X, Y) of two columns on their grids."""

    def factors(self, a: int, b: int, on_a: Any, on_b: Any) -> tuple[np.ndarray, np.ndarray]:
        """Matrices (k, X) and (k, Y): the first one transposed times the second one has the joint masses."""


class GridLaw(Law):
    """A law whose integrals are taken on grids that all circuits share."""

    @abstractmethod
    def on_grids(self, s: int) -> CircuitOnGrids:
        """One circuit, for integrals over one or two columns."""

    def entropy_of_column(self, d: int) -> Integral:
        """See `Law`."""
        return entropy_of_column(self, d)

    def divergence_of_column(self, d: int, other: Law, e: int) -> tuple[Integral, np.ndarray]:
        """See `Law`."""
        return divergence_of_column(self, d, other, e)

    def information_of_pair(self, a: int, b: int) -> Integral:
        """See `Law`."""
        return information_of_pair(self, a, b)

    def informations_of_circuits(self, a: int, b: int) -> tuple[np.ndarray, float]:
        """See `Law`."""
        every = np.arange(self.n_circuits)
        return refined(self, [a, b], lambda grids: tables_of(self, [a, b], every, grids)[0][:, 0])

    def informations(self, used: np.ndarray) -> tuple[np.ndarray, float]:
        """See `Law`."""
        columns = range(len(self.columns))
        grids, fine = nested_grids(self, columns, [(FEW_PANELS, 1), (2 * FEW_PANELS, 1)])
        tables, lost = tables_of(self, columns, used, grids)
        some = np.argsort(-lost, kind="stable")[:2]  # a few draws have placed the grids: of all, those that fit least
        checked = tables_of(self, columns, used[some], fine)[0]
        tolerance = float(np.nanmax(np.abs(checked - tables[some])))
        tolerance += MISPLACED if any(has_panels(self, d) for d in columns) else 0.0
        return tables, tolerance + sum(grid.cut_information for grid in grids.values())

    def entropy_bounds(self) -> tuple[np.ndarray, float]:
        """See `Law`."""
        return entropy_bounds_of(self)


def relative(law: Law) -> np.ndarray:
    """Weights (S,) of the circuits, of mean 1."""
    return relative_weights(law.log_weights)


def has_panels(law: Law, d: int) -> bool:
    """Whether a column's grid depends on how many panels are asked for: levels and counts are summed."""
    return law.columns[d].levels is None and bool(law.is_density[d])


def nested_grids(
    law: Law, columns: Sequence[int], panels: Sequence[tuple[int, int]], beside: Sequence[Event | None] = ()
) -> list[Grids]:
    """For each number of panels in the bulk and in the tails a grid for each column: of one without, the same.

    They are placed by the mixture of a few circuits; panels end where one of several events does, those ``beside``
    among them.
    """
    weight = relative(law)
    ranked = np.argsort(-weight, kind="stable")[: max(GRID_DRAWS, weight.size // 2)]
    few = np.sort(ranked[np.unique(np.linspace(0, ranked.size - 1, GRID_DRAWS).astype(np.int64))])
    grids: list[Grids] = [{} for _ in panels]
    for d in columns:
        of_few = law.column(d).of_circuits(few).mixed(weight[few])
        several = [*(part.known(d) for part in law.parts), *beside]
        jumps = [x for event in several for x in ends_of(event)] if len(several) > 1 else []
        column = law.columns[d]
        for nested, (n, tail) in zip(grids, panels, strict=True):
            if nested is grids[0] or has_panels(law, d):
                n_levels, is_density = len(column.levels or ()), bool(law.is_density[d])
                nested[d] = grid_of(of_few, column.name, n_levels, is_density, n, tail, jumps)
            else:
                nested[d] = grids[0][d]
    return grids


def refined(
    law: Law, columns: Sequence[int], ask: Callable[[Grids], Any], beside: Sequence[Event | None] = ()
) -> tuple[Any, float]:
    """An answer on finer and finer grids until it stays, and its last change with what the panels may misplace.

    Of single columns the panels in the tails are halved as well.
    """

    def grids(n_panels: int, tail_panels: int = 1) -> Grids:
        return nested_grids(law, columns, [(n_panels, tail_panels)], beside)[0]

    whole = [d for d in columns if not has_panels(law, d)] if len(columns) > 1 else []
    if not any(has_panels(law, d) for d in columns):
        value = ask(grids(FEW_PANELS))
        return value, _cut(law, whole)
    n_panels = FEW_PANELS
    value = ask(grids(n_panels))
    while True:
        n_panels *= 2
        finer = ask(grids(n_panels, n_panels // FEW_PANELS if len(columns) == 1 else 1))
        with np.errstate(invalid="ignore"):  # both may be infinite
            change = float(np.max(np.where(finer == value, 0.0, np.abs(finer - value))))
        value = finer
        if change < CONVERGED or n_panels >= MOST_PANELS:
            return value, change + MISPLACED + _cut(law, whole)


def _cut(law: Law, columns: Sequence[int]) -> float:
    """Allowance for the tails of whole numbers that are left out; of single columns `beyond` has one."""
    return sum(grid.cut_information for grid in nested_grids(law, columns, [(FEW_PANELS, 1)])[0].values())


def beyond(law: Law, d: int, grid: Grid, is_ratio: bool = False) -> float:
    """`beyond_grid` of the column under all circuits together."""
    mixed = law.column(d).mixed(relative(law))
    of_logs = mixed.mean_log_beyond if mixed.has_logs and not is_ratio else None
    return beyond_grid(lambda x: mixed.cdf(x)[0], grid, of_logs)


def joint_masses(law: GridLaw, pairs: Sequence[tuple[int, int]], grids: Grids) -> Iterator[np.ndarray]:
    """Joint masses (X, Y) of pairs of columns on their grids under the mixture over circuits, pair by pair.

    Circuits are gone through once for as many pairs as there is room for: what one says of a column serves all.
    """
    weight = relative(law)
    sizes = np.array([grids[a].x.size * grids[b].x.size for a, b in pairs])
    start = 0
    while start < len(pairs):
        n = max(1, int(np.searchsorted(np.cumsum(sizes[start:]), BLOCK_VALUES, side="right")))
        block = pairs[start : start + n]
        totals = [np.zeros((grids[a].x.size, grids[b].x.size)) for a, b in block]
        for s in np.flatnonzero(weight > 0.0).tolist():
            circuit = law.on_grids(s)
            on = {d: circuit.masses(d, grids[d]) for d in dict.fromkeys(d for pair in block for d in pair)}
            for (a, b), total in zip(block, totals, strict=True):
                total += weight[s] * circuit.pair(a, b, on[a], on[b])
        yield from (total / weight.sum() for total in totals)
        start += n


def tables_of(law: GridLaw, columns: Sequence[int], used: np.ndarray, grids: Grids) -> tuple[np.ndarray, np.ndarray]:
    """Mutual information (S, D (D - 1) / 2) of all pairs under some circuits, and the mass (S,) that a grid misplaces.

    Pairs are in the order of `combinations`; the mass is that of the column with the most, NaN where none is.
    """
    pairs = list(combinations(columns, 2))
    out, lost = np.full((used.size, len(pairs)), np.nan), np.full(used.size, np.nan)

    def ask(k: int) -> None:
        if law.log_weights[used[k]] == -np.inf:
            return  # what is known cannot be
        circuit = law.on_grids(int(used[k]))
        on = {d: circuit.masses(d, grids[d]) for d in columns}
        for i, (a, b) in enumerate(pairs):
            out[k, i] = joint_information(*circuit.factors(a, b, on[a], on[b]))
        found = [float(circuit.single(d, on[d]).sum()) for d in columns]
        lost[k] = max(abs(mass - 1.0) for mass in found) if all(found) else np.nan

    for_each(ask, range(used.size))
    return out, lost


def tree_informations(law: GridLaw, columns: Sequence[int], grids: Grids, few: Grids) -> tuple[float, float]:
    """Largest sum of mutual informations along a tree, on grids and on those with fewer panels.

    The sum of the columns' entropies less it bounds the joint entropy (Chow and Liu).
    """
    if len(columns) > PAIRED:
        return 0.0, 0.0
    pairs = list(combinations(columns, 2))
    moved = [pair for pair in pairs if any(has_panels(law, d) for d in pair)]
    found = {pair: information(mass) for pair, mass in zip(pairs, joint_masses(law, pairs, grids), strict=True)}
    again = zip(moved, joint_masses(law, moved, few), strict=True)
    rough = found | {pair: information(mass) for pair, mass in again}
    best, worse = (
        largest_tree(columns, lambda a, b, of=of: of[min(a, b), max(a, b)])  # type: ignore[misc]
        for of in (found, rough)
    )
    return best, worse


def entropy_of_column(law: Law, d: int) -> Integral:
    """Entropy of one column."""
    influence, grid = np.zeros(0), None
    column, weight = law.column(d), relative(law)

    def ask(grids: Grids) -> float:
        nonlocal influence, grid
        grid = grids[d]
        each = column.density(grid.x)
        p = weight @ each / weight.sum()
        surprise = -np.log(np.where(p > 0.0, p, 1.0)) * grid.weight
        value = float(p @ surprise)
        influence = weight * (each @ surprise - value)
        return value

    value, change = refined(law, [d], ask)
    assert grid is not None
    return Integral(value, change + beyond(law, d, grid), influence)


def divergence_of_column(law: Law, d: int, other: Law, e: int) -> tuple[Integral, np.ndarray]:
    """Divergence of one column, and what the circuits (S,) of the other law add to it."""
    influences = np.zeros(0), np.zeros(0)
    last: Grid | None = None
    columns, weights = (law.column(d), other.column(e)), (relative(law), relative(other))

    def ask(grids: Grids) -> float:
        nonlocal influences, last
        grid = last = grids[d]
        each, theirs = (column.density(grid.x) for column in columns)
        p, q = weights[0] @ each / weights[0].sum(), weights[1] @ theirs / weights[1].sum()
        inside = (p > 0.0) & ((q > 0.0) | (grid.weight * p > NO_MASS))
        if np.any(q[inside] <= 0.0):
            influences = np.full(weights[0].size, np.inf), np.zeros(weights[1].size)
            return np.inf
        # mass of the other beyond the grid is not scaled away: it is part of the divergence
        ratio, slope = np.zeros(p.size), np.zeros(p.size)
        ratio[inside] = np.log(p[inside] / q[inside]) * grid.weight[inside]
        slope[inside] = p[inside] / q[inside] * grid.weight[inside]
        value = max(float(p @ ratio), 0.0)
        influences = weights[0] * (each @ ratio - value), weights[1] * (1.0 - theirs @ slope)
        return value

    beside: list[Event | None] = []
    if len(law.parts) + len(other.parts) > 2:
        beside = [part.known(e) for part in other.parts if part.known(e) is not None]
    value, change = refined(law, [d], ask, beside)
    assert last is not None
    tolerance = 0.0 if np.isinf(value) else change + beyond(law, d, last, is_ratio=True)
    return Integral(value, tolerance, influences[0]), influences[1]


def information_of_pair(law: GridLaw, a: int, b: int) -> Integral:
    """Mutual information of two columns."""
    last: Grids = {}

    def ask(grids: Grids) -> float:
        last.update(grids)
        return information(next(joint_masses(law, [(a, b)], grids)))

    value, tolerance = refined(law, [a, b], ask)
    mass = next(joint_masses(law, [(a, b)], last))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(mass / (mass.sum(axis=1, keepdims=True) * mass.sum(axis=0)))
    ratio = np.where(mass > 0.0, ratio, 0.0)
    weight = relative(law)
    own = np.zeros(weight.size)  # first order: each circuit's mean of the mixture's log ratio
    for s in np.flatnonzero(weight > 0.0).tolist():
        circuit = law.on_grids(s)
        own[s] = np.sum(ratio * circuit.pair(a, b, circuit.masses(a, last[a]), circuit.masses(b, last[b])))
    return Integral(value, tolerance, weight * (own - value))


def entropy_bounds_of(law: GridLaw) -> tuple[np.ndarray, float]:
    """Lower and upper bound of the entropy of all columns, and how far they are measured to be off."""
    columns = range(len(law.columns))
    weight = np.exp(np.array([part.log_weights for part in law.parts]) - law.log_weights.max())
    weight = weight / weight.sum()  # of parts and circuits
    panels = [(n, max(n // PANELS, 1)) for n in (PANELS // 2, PANELS, 2 * PANELS)]
    few, grids, fine = nested_grids(law, columns, panels)
    nested = np.zeros((2, 2))  # grids and fine ones; lower and upper
    for j, s in np.argwhere(weight > 0.0).tolist():
        part = law.parts[j]
        assert isinstance(part, GridLaw)
        circuit: Any = part.on_grids(s)
        nested += weight[j, s] * np.array([circuit.entropy_bounds(g) for g in (grids, fine)])
    used = weight[weight > 0.0]
    nested[:, 1] -= float(used @ np.log(used))  # which part and circuit it is
    if len(law.parts) > 1:  # the columns tell parts apart that do not meet in them
        events = [{d: part.known(d) for d in columns} for part in law.parts]
        group = groups_that_meet([{d: e for d, e in one.items() if e is not None} for one in events])
        apart = np.bincount(group, weight.sum(axis=1))
        nested[:, 0] -= float(apart @ np.log(np.where(apart > 0.0, apart, 1.0)))
    tolerance = float(np.abs(nested[1] - nested[0]).max()) + sum(beyond(law, d, fine[d]) for d in columns)
    parts = [entropy_of_column(law, d) for d in columns]
    singles, off = sum(p.value for p in parts), sum(p.tolerance for p in parts)
    # joint densities of pairs are dear: their panels are halved instead
    shared, rough = tree_informations(law, columns, grids, few)
    return np.array([nested[1, 0], min(nested[1, 1], singles - shared)]), float(
        max(tolerance, off + abs(shared - rough))
    )
