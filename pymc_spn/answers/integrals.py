"""Sums and integrals over the columns of a law: levels enumerated, numbers on grids that are refined until it stays."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.answers.asked_law import relative
from pymc_spn.events.events import Event
from pymc_spn.events.unions import ends_of
from pymc_spn.laws.draw_laws import FEW_PANELS, GRID_DRAWS, MISPLACED, Grid, beyond_grid, grid_of, information
from pymc_spn.laws.information_bounds import largest_tree
from pymc_spn.laws.information_kernels import joint_information
from pymc_spn.laws.law import Law
from pymc_spn.numerics.draw_averages import log_average, relative_weights
from pymc_spn.numerics.threads import for_each

MOST_PANELS = 96
CONVERGED = 1e-6  # nats by which halving the panels may change a mutual information
MOST_STATES = 20_000  # combinations of levels that are enumerated
BLOCK_VALUES = 20_000_000  # joint masses, or per-circuit log densities, held at a time (160 MB)
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
Grids = dict[int, Grid]


class States(NamedTuple):
    """Probabilities of all combinations of levels.

    Parameters
    ----------
    p : (M,) float64
        Of the mixture.
    each : (S, M) float64
        Of each circuit.
    weight : (S,) float64
        Of the circuits, of mean 1.
    """

    p: np.ndarray
    each: np.ndarray
    weight: np.ndarray


def n_states(law: Law) -> int:
    """Combinations of levels, or more than are enumerated where a column is a number."""
    n = 1
    for column in law.columns:
        n *= MOST_STATES + 1 if column.levels is None else len(column.levels)
    return n


def states_of(law: Law, columns: Sequence[int]) -> States:
    """All combinations of levels of the columns, in this order."""
    sizes = [len(law.columns[d].levels or ()) for d in columns]
    codes = np.meshgrid(*(np.arange(float(k)) for k in sizes), indexing="ij")
    levels = np.stack(codes, axis=-1).reshape(-1, len(columns))
    rows = np.full((len(levels), len(law.columns)), np.nan)
    rows[:, list(columns)] = levels
    each = np.exp(law.log_density(rows))
    total = each.sum(axis=1, keepdims=True)
    each = each / np.where(total > 0.0, total, 1.0)
    weight = relative(law)
    return States(weight @ each / weight.sum(), each, weight)


# ---- grids


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


# ---- pairs of columns


def joint_masses(law: Law, pairs: Sequence[tuple[int, int]], grids: Grids) -> Iterator[np.ndarray]:
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


def tables_of(law: Law, columns: Sequence[int], used: np.ndarray, grids: Grids) -> tuple[np.ndarray, np.ndarray]:
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


def tree_informations(law: Law, columns: Sequence[int], grids: Grids, few: Grids) -> tuple[float, float]:
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


# ---- simulated rows


def log_mixture(law: Law, rows: np.ndarray) -> np.ndarray:
    """Log density (M,) of the mixture over circuits at rows (M, D)."""
    out = np.empty(len(rows))
    step = max(1, BLOCK_VALUES // law.n_circuits)
    for start in range(0, len(rows), step):
        out[start : start + step] = log_average(law.log_weights, law.log_density(rows[start : start + step]))
    return out - log_average(law.log_weights, np.zeros(law.n_circuits))


def with_columns(rows: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Rows (M, D) that hold only some columns."""
    out = np.full(rows.shape, np.nan)
    out[:, list(columns)] = rows[:, list(columns)]
    return out


def simulated(law: Law, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, D) from the mixture; of counts none below 0, where Gaussian leaves beside masses have some."""
    rows = law.draw(n, rng)
    counts = np.array([column.kind == "count" for column in law.columns])
    rows[:, counts] = np.maximum(rows[:, counts], 0.0)
    return rows


def influence(law: Law, rows: np.ndarray, f: np.ndarray) -> np.ndarray:
    """What each circuit (S,) adds to the mean of f (M,) over rows simulated from the mixture, about that mean.

    The mean of f under one circuit is that over the same rows weighted by its density over the mixture's.
    """
    return _shares(law, rows, f - f.mean())


def shares_of_circuits(law: Law, rows: np.ndarray) -> np.ndarray:
    """Each circuit's (S,) weight times its density over the mixture's, averaged over rows of another law, about 1."""
    return _shares(law, rows, np.ones(len(rows))) - relative(law)


def _shares(law: Law, rows: np.ndarray, f: np.ndarray) -> np.ndarray:
    total = np.zeros(law.n_circuits)
    step = max(1, BLOCK_VALUES // total.size)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        # with the circuit's weight: its density among the circuits' together
        total += relative_weights(law.log_density(rows[part]) + law.log_weights[:, None]) @ f[part]
    return total / len(rows)
