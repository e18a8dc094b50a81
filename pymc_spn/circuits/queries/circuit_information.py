"""Entropy, mutual information and divergence of explicit circuits: by enumeration, quadrature, bounds or simulation."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.composition import mixture_of
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.queries.circuit_entropy_bounds import divergence_between, divergence_of_parts, entropy_between
from pymc_spn.circuits.queries.circuit_parts import Part, part_of
from pymc_spn.circuits.queries.column_mixtures import ColumnMixture
from pymc_spn.circuits.queries.draw_laws import Grid, beyond_grid, divergence, information
from pymc_spn.circuits.queries.information_bounds import NO_MASS, largest_tree

FEW_PANELS, MOST_PANELS = 12, 96
CONVERGED, IN_TABLES = 1e-6, 1e-4  # nats by which halving the panels may change an answer, and one of a table of pairs
FEW_LEAVES = 12  # of a column, whose own quantiles are ends of panels beside another column's
MOST_STATES = 20_000  # combinations of levels that are enumerated
MOST_PAIRED = 5_000  # nodes of two circuits of one structure, whose pairs bound their divergence
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
ROWS = 65_536  # at a time


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
        self._grids: dict[tuple[int, int], Grid] = {}

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

    def grid(self, d: int, n_panels: int) -> Grid:
        """Of a column beside another one, see `ColumnMixture.grid`."""
        if (d, n_panels) not in self._grids:
            column = self.column(self.names[d])
            self._grids[d, n_panels] = column.grid(n_panels, own_cuts=column.n_leaves <= FEW_LEAVES)
        return self._grids[d, n_panels]

    def grids(self, n_panels: int) -> dict[int, Grid]:
        """Of all columns."""
        return {d: self.grid(d, n_panels) for d in range(len(self.names))}

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
        return self.part.circuit.sample(n, self.part.log_weights, self.part.leaf_parameters, random_seed)


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
        return _simulated(-law.log_density(law.simulated(n, random_seed)))
    grids, fine = law.grids(2 * FEW_PANELS), law.grids(4 * FEW_PANELS)
    rough, nested = entropy_between(law.given, grids), entropy_between(law.given, fine)
    singles = [_entropy_of_column(law.column(name)) for name in law.names]
    off = sum(tolerance for _, tolerance in singles)
    low, high = nested
    tolerance = float(np.abs(np.subtract(nested, rough)).max()) + off
    if high - low > CONVERGED:
        shared = [0.0, 0.0]
        if len(law.names) <= PAIRED:
            shared = [_tree_information(law, k) for k in (FEW_PANELS, 2 * FEW_PANELS)]
        of_columns = sum(value for value, _ in singles) - shared[1]
        if of_columns < high:
            high, tolerance = of_columns, max(tolerance, off + abs(shared[1] - shared[0]))
    if high - low < 1e-9:  # the children of every sum exclude each other
        return Answer(0.5 * (low + high), _numerical(law, tolerance))
    return Answer(np.array([low, max(low, high)]), {"exactness": "bound", "tolerance": tolerance})


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
        value, tolerance = _refined(lambda k: _pair_information(law, law.grid(0, k), law.grid(1, k)))
        return Answer(value, _numerical(law, tolerance))
    rows, p = law.states() if method == "enumeration" else (law.simulated(n, random_seed), np.zeros(0))
    logs = law.log_density(rows)
    for part in parts:
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
        found, last = _refined(lambda k: _pair_information(pair, law.grid(a, k), law.grid(b, k)), IN_TABLES)  # noqa: B023
        table[a, b] = table[b, a] = found
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
    both = mixture_of([tuple(law.part), tuple(other.part)])
    of_both = Parameterised(both.circuit, both.log_weights, both.leaf_parameters)
    is_same = law.part.circuit == other.part.circuit
    grids, fine = law.grids(2 * FEW_PANELS), law.grids(4 * FEW_PANELS)

    def from_above(grids: dict[int, Grid]) -> float:
        found = [divergence_between(law.given, other.given, grids)] if is_same else []
        if both.circuit.n_nodes <= MOST_PAIRED or not is_same:
            found.append(divergence_of_parts(of_both, grids, *both.part_roots))
        return min(found)

    rough, high = from_above(grids), from_above(fine)
    if np.isfinite(high):
        beyond = sum(beyond_grid(law.column(c).cdf, fine[d], long_logs=False) for d, c in enumerate(law.names))
        tolerance = max(tolerance, float(abs(high - rough) + beyond))
    if high - low < 1e-9:
        return Answer(low, _numerical(law, tolerance))
    return Answer(np.array([low, high]), {"exactness": "bound", "tolerance": tolerance})


def _method(method: str, law: Law, known: Sequence[str]) -> str:
    if method not in ("auto", *known):
        raise ValueError(f"method must be one of {('auto', *known)}, got {method!r}")
    if method == "auto":
        return "enumeration" if law.n_states <= MOST_STATES else "quadrature" if len(law.names) == 1 else "bounds"
    if method == "enumeration" and law.n_states > MOST_STATES:
        raise ValueError(
            f'method="enumeration" needs binary or categorical columns with at most {MOST_STATES} combinations'
        )
    if method == "quadrature" and len(law.names) > 1 and "bounds" in known:
        raise ValueError('method="quadrature" is for a single column')
    return method


def _numerical(law: Law, tolerance: float) -> dict[str, Any]:
    return {"exactness": "exact"} if all(law.sizes) else {"exactness": "numerical", "tolerance": float(tolerance)}


def _simulated(values: np.ndarray) -> Answer:
    """Mean over simulated rows."""
    if np.any(np.isinf(values)):  # what was drawn has density zero under the other: the divergence is infinite
        return Answer(np.inf, {"exactness": "monte-carlo", "mcse": 0.0})
    mcse = float(values.std(ddof=1) / np.sqrt(values.size))
    return Answer(float(values.mean()), {"exactness": "monte-carlo", "mcse": mcse})


def _refined(ask: Any, enough: float = CONVERGED) -> tuple[float, float]:
    """An answer with more and more panels until it stays, and its last change."""
    n_panels = FEW_PANELS
    value = ask(n_panels)
    while True:
        n_panels *= 2
        finer = ask(n_panels)
        change = 0.0 if finer == value else abs(finer - value)
        value = finer
        if change < enough or n_panels >= MOST_PANELS:
            return value, change


def _entropy_of_column(column: ColumnMixture) -> tuple[float, float]:
    """Entropy of one column and its tolerance."""
    grids: list[Grid] = []

    def ask(n_panels: int) -> float:
        grids.append(column.grid(n_panels, own_cuts=True))
        p = column.density(grids[-1].x)
        return -float((grids[-1].weight * p) @ np.log(np.where(p > 0.0, p, 1.0)))

    value, change = _refined(ask)
    return value, 0.0 if column.n_levels else change + beyond_grid(column.cdf, grids[-1], column.has_logs)


def _divergence_of_column(column: ColumnMixture, other: ColumnMixture) -> tuple[float, float]:
    """Divergence of one column and its tolerance."""
    grids: list[Grid] = []

    def ask(n_panels: int) -> float:
        grids.append(column.grid(n_panels, own_cuts=True))
        x, weight, _ = grids[-1]
        p, q = column.density(x), other.density(x)
        inside = (p > 0.0) & ((q > 0.0) | (weight * p > NO_MASS))
        if np.any(q[inside] <= 0.0):
            return np.inf
        # mass of the other beyond the grid is not scaled away: it is part of the divergence
        return max(float((weight * p)[inside] @ np.log(p[inside] / q[inside])), 0.0)

    if column.n_levels:
        x = np.arange(float(max(column.n_levels, other.n_levels)))
        return divergence(column.density(x), other.density(x)), 0.0
    value, change = _refined(ask)
    return value, 0.0 if np.isinf(value) else change + beyond_grid(column.cdf, grids[-1], long_logs=False)


def _pair_information(pair: Law, first: Grid, second: Grid) -> float:
    """Mutual information of the two columns on their grids."""
    rows = np.stack(np.meshgrid(first.x, second.x, indexing="ij"), axis=-1).reshape(-1, 2)
    return information(np.exp(pair.log_density(rows)).reshape(first.x.size, -1), first, second)


def _tree_information(law: Law, n_panels: int) -> float:
    def pair(a: int, b: int) -> float:
        a, b = min(a, b), max(a, b)
        return _pair_information(law.of([law.names[a], law.names[b]]), law.grid(a, n_panels), law.grid(b, n_panels))

    return largest_tree(range(len(law.names)), pair)
