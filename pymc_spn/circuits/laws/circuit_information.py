"""Entropy, mutual information and divergence of explicit circuits by quadrature, and their bounds."""

from itertools import combinations
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.laws.circuit_columns import FINE, CircuitColumn
from pymc_spn.circuits.laws.circuit_entropy_bounds import divergence_between, divergence_of_parts, entropy_between
from pymc_spn.circuits.laws.circuit_parts import mixed_parts
from pymc_spn.circuits.laws.column_mixtures import ColumnMixture
from pymc_spn.laws.column_grids import Grid, beyond_grid, information
from pymc_spn.laws.information_bounds import NO_MASS, largest_tree
from pymc_spn.laws.law import ColumnOfLaw

PAIRED_GRIDS = 1e-6  # error of the grid of one column beside another one
IN_TABLES = 1e-4  # of every pair of a table, and for bounds
MOST_LOST = 1e-4  # mass of which a grid may lose track before nothing is promised any more
MOST_PAIRED = 5_000  # nodes of two circuits of one structure, whose pairs bound their divergence
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
ROWS = 65_536  # at a time
LEAST = 1e-12  # mass of a point that counts where a tolerance is made


def entropy_bounds(law: Any) -> tuple[np.ndarray, float]:
    """Lower and upper bound of the entropy of all columns of a `CircuitLaw`, and their tolerance."""
    grids, fine, lost = _grids(law)
    rough, nested = entropy_between(law.inner, grids), entropy_between(law.inner, fine)
    low, high = nested
    tolerance = float(np.abs(np.subtract(nested, rough)).max()) + lost
    if abs(high - low) <= 1e-9:  # the children of every sum exclude each other
        return np.array([low, high]), tolerance
    columns = range(len(law.columns))
    singles = [entropy_of_column(law.column(d).mixture) for d in columns]
    shared = [_tree_information(law, halved) if len(columns) <= PAIRED else 0.0 for halved in (False, True)]
    of_columns = sum(value for value, _ in singles) - shared[1]
    if of_columns < high:
        high = of_columns
        tolerance = max(tolerance, sum(off for _, off in singles) + abs(shared[1] - shared[0]) + lost)
    # rounding and quadrature may have let them cross where they meet
    return np.array([low, max(low, high)]), max(tolerance, low - high)


def _grids(law: Any) -> tuple[dict[int, Grid], dict[int, Grid], float]:
    """Of all columns for bounds, with halved panels, and what the masses that they lose may add to an entropy."""
    columns = [law.column(d) for d in range(len(law.columns))]
    found = [column.grids(IN_TABLES) for column in columns]
    pairs = zip(columns, found, strict=True)
    allowed = (_allowance(column.mixture, fine, lost) for column, (_, fine, lost) in pairs)
    coarse, fine = {d: one[0] for d, one in enumerate(found)}, {d: one[1] for d, one in enumerate(found)}
    return coarse, fine, float(sum(allowed))


def information_of_pair(law: Any, a: int, b: int, error: float = PAIRED_GRIDS) -> tuple[float, float]:
    """Mutual information of two columns of a `CircuitLaw`, and its tolerance."""
    pair = law.of(sorted((a, b)))
    first, second = (law.column(d).grids(error) for d in sorted((a, b)))
    value = _pair_information(pair, first[1], second[1])
    if first[0] is first[1] and second[0] is second[1]:
        return value, 0.0
    lost = first[2] + second[2]
    if lost > MOST_LOST:
        return value, np.inf
    change = abs(value - _pair_information(pair, first[0], second[0]))
    return value, change + (lost * (1.0 - float(np.log(lost))) if lost > 0.0 else 0.0)


def table_of_informations(law: Any) -> tuple[np.ndarray, float]:
    """Mutual information (1, D (D - 1) / 2) of all pairs of columns, and the largest tolerance."""
    pairs = list(combinations(range(len(law.columns)), 2))
    found = [information_of_pair(law, a, b, IN_TABLES) for a, b in pairs]
    return np.array([[value for value, _ in found]]), max(off for _, off in found)


def divergence_bound(law: Any, other: Any, places: Any) -> tuple[float, float]:
    """Upper bound of the divergence of all columns from those of another `CircuitLaw`, and its tolerance.

    By pairs of nodes that divide the columns alike; of two sets of parameters of one circuit also by the chain rule.
    """
    first, second = law.part, other.of(sorted(places)).part
    is_same = first.circuit == second.circuit
    both, roots = mixed_parts([first, second], np.array([0.5, 0.5]))
    mixed = type(law)(Parameterised(*both), law.columns, law.marks)

    def from_above(grids: dict[int, Grid]) -> float:
        found = [divergence_between(law.inner, Parameterised(*second), grids)] if is_same else []
        if both.circuit.n_nodes <= MOST_PAIRED or not is_same:
            found.append(divergence_of_parts(mixed.inner, grids, *roots))
        return min(found)

    grids, fine, lost = _grids(mixed)
    rough, high = from_above(grids), from_above(fine)
    return high, float(abs(high - rough) + lost) if np.isfinite(high) else 0.0


def _allowance(column: ColumnMixture, grid: Grid, lost: float, is_ratio: bool = False) -> float:
    """Nats that the mass beyond a grid, and what it loses within, may add to an entropy."""
    if grid.ends is None:
        return 0.0
    beyond = beyond_grid(column.cdf, grid, column.mean_log_beyond if column.has_logs and not is_ratio else None)
    if lost > MOST_LOST:
        return np.inf
    logs, mass = _masses(column, grid)
    deepest = float(np.abs(logs[mass > LEAST]).max(initial=0.0))
    return beyond + (lost * (1.0 + abs(float(np.log(lost))) + deepest) if lost > 0.0 else 0.0)


def entropy_of_column(column: ColumnMixture) -> tuple[float, float]:
    """Entropy of one column and its tolerance."""
    coarse, fine, lost = column.grids(FINE)
    values = []
    for grid in (coarse, fine) if fine is not coarse else (fine,):
        logs, mass = _masses(column, grid)
        values.append(-float(mass @ np.where(mass > 0.0, logs, 0.0)))
    return values[-1], abs(values[-1] - values[0]) + _allowance(column, fine, lost)


def _masses(column: ColumnMixture, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Log densities at the points of a grid, and the masses that the points stand for."""
    logs = column.log_density(grid.x)
    with np.errstate(divide="ignore"):
        return logs, np.exp(logs + np.log(grid.weight))


def divergence_of_columns(first: CircuitColumn, second: ColumnOfLaw) -> tuple[float, float]:
    """Divergence of one column and its tolerance; infinite where the other excludes what this has."""
    if not isinstance(second, CircuitColumn):
        raise TypeError("other must be a circuit with parameters: take as_circuit() of a posterior")
    column, other = first.mixture, second.mixture
    if other.excludes(column):
        return np.inf, 0.0
    both = column.beside(other) if column.is_density and other.is_density else column
    coarse, fine, lost = both.grids(FINE, far=True)
    values = []
    for grid in (coarse, fine) if fine is not coarse else (fine,):
        (log_p, mass), log_q = _masses(column, grid), other.log_density(grid.x)
        inside = mass > NO_MASS
        if np.any(log_q[inside] == -np.inf):
            return np.inf, 0.0
        # mass of the other beyond the grid is not scaled away: it is part of the divergence
        values.append(float(mass[inside] @ (log_p[inside] - log_q[inside])))
    tolerance = abs(values[-1] - values[0])
    if column.is_density:
        tolerance += _allowance(column, fine, 2.0 * lost, is_ratio=True)
        tolerance += 20.0 * lost * float(mass[inside] @ np.abs(log_p[inside] - log_q[inside]))
    elif fine.ends is not None:
        steepest = float(np.abs(log_p[inside] - log_q[inside]).max(initial=0.0))
        tolerance += beyond_grid(column.cdf, fine) * (1.0 + steepest)
    return max(values[-1], 0.0), tolerance


def _pair_information(pair: Any, first: Grid, second: Grid) -> float:
    """Mutual information of the two columns on their grids."""
    rows = np.stack(np.meshgrid(first.x, second.x, indexing="ij"), axis=-1).reshape(-1, 2)
    with np.errstate(divide="ignore"):  # in logs: a density at 1e-290 times another one may be beyond all numbers
        log_weight = np.log(first.weight)[:, None] + np.log(second.weight)
    return information(np.exp(_log_density(pair, rows).reshape(first.x.size, -1) + log_weight))


def _log_density(law: Any, rows: np.ndarray) -> np.ndarray:
    """Log densities (n,) of rows."""
    return np.concatenate([law.log_density(rows[k : k + ROWS])[0] for k in range(0, len(rows), ROWS)])


def _tree_information(law: Any, halved: bool) -> float:
    """Along the best tree, on the grids of tables or those with halved panels."""

    def pair(a: int, b: int) -> float:
        a, b = min(a, b), max(a, b)
        on_a, on_b = law.column(a).grids(IN_TABLES), law.column(b).grids(IN_TABLES)
        grids = (on_a[1], on_b[1]) if halved else (on_a[0], on_b[0])
        return _pair_information(law.of([a, b]), *grids)

    return largest_tree(range(len(law.columns)), pair)
