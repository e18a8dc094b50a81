"""Entropy, mutual information and divergence of explicit circuits: by enumeration, quadrature, bounds or simulation."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.answers.circuit_queries import sample_rows
from pymc_spn.circuits.algebra.composition import mixture_of
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.laws.circuit_entropy_bounds import divergence_between, divergence_of_parts, entropy_between
from pymc_spn.laws.circuit_parts import Part, part_of
from pymc_spn.laws.column_mixtures import ColumnMixture
from pymc_spn.laws.draw_laws import Grid, beyond_grid, information
from pymc_spn.laws.information_bounds import NO_MASS, largest_tree
from pymc_spn.numerics.quoted_values import quoted

FINE, PAIRED_GRIDS = 1e-9, 1e-6  # errors of the grid of one column, and beside another one
IN_TABLES = 1e-4  # of every pair of a table, and for bounds
MOST_LOST = 1e-4  # mass of which a grid may lose track before nothing is promised any more
MOST_STATES = 20_000  # combinations of levels that are enumerated
MOST_PAIRED = 5_000  # nodes of two circuits of one structure, whose pairs bound their divergence
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
ROWS = 65_536  # at a time
LEAST = 1e-12  # mass of a point that counts where a tolerance is made


class Answer(NamedTuple):
    """A number, or a lower and an upper bound, and what is said about it."""

    value: Any
    attrs: dict[str, Any]


class Law:
    """The law of some columns, all others summed out and the evidence taken in.

    Parameters
    ----------
    part : Part
    """

    def __init__(self, part: Part) -> None:
        self.part, self.names = part, part.circuit.names
        self.given = Parameterised(*part)
        self._columns: dict[str, ColumnMixture] = {}
        self._grids: dict[tuple[int, float], tuple[Grid, Grid, float]] = {}

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log densities (n,) of rows in the order of the names."""
        parts = [self.given.log_density(rows[k : k + ROWS]) for k in range(0, len(rows), ROWS)]
        return np.concatenate([*parts, np.zeros(0)])

    def of(self, names: Sequence[str]) -> "Law":
        """The law of some of the columns, in the order of this one."""
        kept = [d for d, name in enumerate(self.names) if name in names]
        return self if len(kept) == len(self.names) else Law(part_of(self.given, {}, kept))

    def column(self, name: str) -> ColumnMixture:
        """The law of one column."""
        if name not in self._columns:
            self._columns[name] = ColumnMixture(self.of([name]).part)
        return self._columns[name]

    def grid(self, d: int, error: float) -> tuple[Grid, Grid, float]:
        """Of a column, see `ColumnMixture.grids`."""
        if (d, error) not in self._grids:
            self._grids[d, error] = self.column(self.names[d]).grids(error)
        return self._grids[d, error]

    def grids(self) -> tuple[dict[int, Grid], dict[int, Grid], float]:
        """Of all columns for bounds, with halved panels, and what the masses that they lose may add to an entropy."""
        found = [self.grid(d, IN_TABLES) for d in range(len(self.names))]
        allowed = (
            _allowance(self.column(name), fine, lost) for name, (_, fine, lost) in zip(self.names, found, strict=True)
        )
        coarse, fine = {d: one[0] for d, one in enumerate(found)}, {d: one[1] for d, one in enumerate(found)}
        return coarse, fine, float(sum(allowed))

    @property
    def sizes(self) -> list[int]:
        """Numbers of levels of the columns, 0 where one has numbers."""
        return [self.column(name).n_levels for name in self.names]

    @property
    def n_states(self) -> int:
        """Combinations of levels, or more than are enumerated where a column is a number."""
        sizes = self.sizes
        return int(np.prod(sizes, dtype=np.float64)) if all(sizes) else MOST_STATES + 1

    def states(self) -> tuple[np.ndarray, np.ndarray]:
        """All combinations of levels (M, D), and their probabilities (M,)."""
        codes = np.meshgrid(*(np.arange(float(k)) for k in self.sizes), indexing="ij")
        rows = np.stack(codes, axis=-1).reshape(-1, len(self.names))
        p = np.exp(self.log_density(rows))
        return rows, p / p.sum()

    def simulated(self, n: int, random_seed: Any) -> np.ndarray:
        """Rows (n, D)."""
        return sample_rows(self.given, n, random_seed, None)


def entropy(law: Law, method: str, n: int, random_seed: Any) -> Answer:
    """See `ParameterisedCircuit.entropy`."""
    method = _method(method, law, ("enumeration", "quadrature", "bounds", "monte-carlo"))
    if method == "enumeration":
        p = law.states()[1]
        return Answer(-float(p @ np.log(np.where(p > 0.0, p, 1.0))), {"exactness": "exact"})
    if method == "quadrature":
        value, tolerance = _entropy_of_column(law.column(law.names[0]))
        return Answer(value, _numerical(law, tolerance))
    if method == "monte-carlo":
        return _simulated(-law.log_density(law.simulated(n, random_seed)), is_ratio=False)
    grids, fine, lost = law.grids()
    rough, nested = entropy_between(law.given, grids), entropy_between(law.given, fine)
    low, high = nested
    tolerance = float(np.abs(np.subtract(nested, rough)).max()) + lost
    if abs(high - low) <= 1e-9 + tolerance and all(law.sizes):
        return Answer(0.5 * (low + high), {"exactness": "exact"})
    if abs(high - low) <= 1e-9:  # the children of every sum exclude each other
        return Answer(low, _numerical(law, tolerance))
    singles = [_entropy_of_column(law.column(name)) for name in law.names]
    shared = [_tree_information(law, halved) if len(law.names) <= PAIRED else 0.0 for halved in (False, True)]
    of_columns = sum(value for value, _ in singles) - shared[1]
    if of_columns < high:
        high = of_columns
        tolerance = max(tolerance, sum(off for _, off in singles) + abs(shared[1] - shared[0]) + lost)
    return _bounds(low, high, tolerance)


def mutual_information(law: Law, groups: Sequence[Sequence[str]], method: str, n: int, random_seed: Any) -> Answer:
    """See `ParameterisedCircuit.mutual_information`."""
    single = len(groups[0]) == len(groups[1]) == 1
    if method == "auto":
        method = "enumeration" if law.n_states <= MOST_STATES else "quadrature" if single else "monte-carlo"
    if method == "quadrature" and not single:
        raise ValueError('method="quadrature" is for two single columns; give one name each')
    method = _method(method, law, ("enumeration", "quadrature", "monte-carlo"))
    parts = [law.of(group) for group in groups]
    if method == "quadrature":
        value, tolerance = _refined_pair(law, law, PAIRED_GRIDS)
        return Answer(value, _numerical(law, tolerance))
    rows, p = law.states() if method == "enumeration" else (law.simulated(n, random_seed), np.zeros(0))
    logs = law.log_density(rows)
    for part in parts:
        with np.errstate(invalid="ignore"):  # of a row that rounding has moved to an end, which is left out
            logs = logs - part.log_density(rows[:, [law.names.index(name) for name in part.names]])
    if method == "enumeration":
        return Answer(max(float(p @ np.where(p > 0.0, logs, 0.0)), 0.0), {"exactness": "exact"})
    return _simulated(logs)


def dependence(law: Law) -> Answer:
    """See `ParameterisedCircuit.dependence`."""
    n, change = len(law.names), 0.0
    table = np.full((n, n), np.nan)
    for a, b in combinations(range(n), 2):
        pair = law.of([law.names[a], law.names[b]])
        table[a, b], last = _refined_pair(pair, law, IN_TABLES)
        table[b, a] = table[a, b]
        change = max(change, last)
    return Answer(table, _numerical(law, change))


def kl(law: Law, other: Law, method: str, n: int, random_seed: Any) -> Answer:
    """See `ParameterisedCircuit.kl`; both laws are of columns of the same names."""
    place = [law.names.index(name) for name in other.names]
    if method == "auto":
        method = "enumeration" if law.n_states <= MOST_STATES else "quadrature" if len(law.names) == 1 else "bounds"
        if method == "bounds":
            found = _divergence_bounds(law, other)
            is_open = np.ndim(found.value) == 1 and np.isinf(found.value[1])  # the circuits divide columns otherwise
            return kl(law, other, "monte-carlo", n, random_seed) if is_open else found
    method = _method(method, law, ("enumeration", "quadrature", "bounds", "monte-carlo"))
    if method == "enumeration":
        rows, p = law.states()
        with np.errstate(divide="ignore"):
            logs = np.log(p) - other.log_density(rows[:, place])
        return Answer(max(float(p[p > 0.0] @ logs[p > 0.0]), 0.0), {"exactness": "exact"})
    if method == "quadrature":
        value, tolerance = _divergence_of_column(law.column(law.names[0]), other.column(law.names[0]))
        return Answer(value, _numerical(law, tolerance))
    if method == "monte-carlo":
        rows = law.simulated(n, random_seed)
        return _simulated(law.log_density(rows) - other.log_density(rows[:, place]))
    return _divergence_bounds(law, other)


def _divergence_bounds(law: Law, other: Law) -> Answer:
    """From below by the columns, from above by pairs of nodes and, of one circuit, by the chain rule."""
    low, tolerance = max(_divergence_of_column(law.column(name), other.column(name)) for name in law.names)
    if np.isinf(low):
        return Answer(np.inf, _numerical(law, 0.0))
    both = mixture_of([law.part, other.part])
    mixed = Law(Part(both.circuit, both.log_weights, both.leaf_parameters))
    is_same = law.part.circuit == other.part.circuit

    def from_above(grids: dict[int, Grid]) -> float:
        found = [divergence_between(law.given, other.given, grids)] if is_same else []
        if both.circuit.n_nodes <= MOST_PAIRED or not is_same:
            found.append(divergence_of_parts(mixed.given, grids, *both.part_roots))
        return min(found)

    grids, fine, lost = mixed.grids()
    rough, high = from_above(grids), from_above(fine)
    if np.isfinite(high):
        tolerance = max(tolerance, float(abs(high - rough) + lost))
    if abs(high - low) < 1e-9:
        return Answer(low, _numerical(law, tolerance))
    return _bounds(low, high, tolerance)


def _method(method: str, law: Law, known: Sequence[str]) -> str:
    if method not in ("auto", *known):
        raise ValueError(f"method must be one of {('auto', *known)}, got {quoted(method)}")
    if method == "auto":
        return "enumeration" if law.n_states <= MOST_STATES else "quadrature" if len(law.names) == 1 else "bounds"
    if method == "enumeration" and law.n_states > MOST_STATES:
        raise ValueError(
            f'method="enumeration" needs binary or categorical columns with at most {MOST_STATES} combinations'
        )
    if method == "quadrature" and len(law.names) > 1 and "bounds" in known:
        raise ValueError('method="quadrature" is for a single column')
    return method


def _bounds(low: float, high: float, tolerance: float) -> Answer:
    """Bounds, which rounding and quadrature may have let cross where they meet."""
    return Answer(np.array([low, max(low, high)]), {"exactness": "bound", "tolerance": max(tolerance, low - high)})


def _numerical(law: Law, tolerance: float) -> dict[str, Any]:
    return {"exactness": "exact"} if all(law.sizes) else {"exactness": "numerical", "tolerance": float(tolerance)}


def _simulated(values: np.ndarray, is_ratio: bool = True) -> Answer:
    """Mean over simulated rows.

    A log ratio that is infinite says that the divergence is; a row of density zero is one that rounding has moved to an
    end, and is left out.
    """
    if is_ratio and np.any(np.isposinf(values)):
        return Answer(np.inf, {"exactness": "monte-carlo", "mcse": 0.0})
    some = values[np.isfinite(values)]
    mark: dict[str, Any] = {"exactness": "monte-carlo", "mcse": float(some.std(ddof=1) / np.sqrt(some.size))}
    if some.size < values.size:
        mark["left_out"] = int(values.size - some.size)
    return Answer(float(some.mean()), mark)


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


def _entropy_of_column(column: ColumnMixture) -> tuple[float, float]:
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


def _divergence_of_column(column: ColumnMixture, other: ColumnMixture) -> tuple[float, float]:
    """Divergence of one column and its tolerance; infinite where the other excludes what this has."""
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


def _refined_pair(pair: Law, whole: Law, error: float) -> tuple[float, float]:
    """Mutual information of two columns of a law, and its tolerance."""
    first, second = (whole.grid(whole.names.index(name), error) for name in pair.names)
    value = _pair_information(pair, first[1], second[1])
    if first[0] is first[1] and second[0] is second[1]:
        return value, 0.0
    lost = first[2] + second[2]
    if lost > MOST_LOST:
        return value, np.inf
    change = abs(value - _pair_information(pair, first[0], second[0]))
    return value, change + (lost * (1.0 - float(np.log(lost))) if lost > 0.0 else 0.0)


def _pair_information(pair: Law, first: Grid, second: Grid) -> float:
    """Mutual information of the two columns on their grids."""
    rows = np.stack(np.meshgrid(first.x, second.x, indexing="ij"), axis=-1).reshape(-1, 2)
    with np.errstate(divide="ignore"):  # in logs: a density at 1e-290 times another one may be beyond all numbers
        log_weight = np.log(first.weight)[:, None] + np.log(second.weight)
    return information(np.exp(pair.log_density(rows).reshape(first.x.size, -1) + log_weight))


def _tree_information(law: Law, halved: bool) -> float:
    """Along the best tree, on the grids of tables or those with halved panels."""

    def pair(a: int, b: int) -> float:
        a, b = min(a, b), max(a, b)
        on_a, on_b = law.grid(a, IN_TABLES), law.grid(b, IN_TABLES)
        grids = (on_a[1], on_b[1]) if halved else (on_a[0], on_b[0])
        return _pair_information(law.of([law.names[a], law.names[b]]), *grids)

    return largest_tree(range(len(law.names)), pair)
