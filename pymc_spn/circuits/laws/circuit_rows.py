"""One column in each of many rows under an explicit circuit: what its leaves are worth, and their laws side by side."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_passes import shares_of_rows
from pymc_spn.circuits.evaluation.completion import ROWS, Parameterised
from pymc_spn.circuits.laws.column_mixtures import LeavesWithin, grouped
from pymc_spn.laws.column_of_rows import LeavesInRows, finite_part
from pymc_spn.laws.student_mixtures import StudentLaws
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_family import LeafFamily, UnivariateFamily
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.halving import smallest_reaching
from pymc_spn.numerics.row_mixtures import RowMixtures
from pymc_spn.numerics.threads import for_each

PIECE = 4_000_000  # values of nodes that one thread evaluates at a time, some 0.1 seconds
QUARTERS = np.log([0.25, 0.5, 0.75])
STUDENTS = {"student_t": False, "log_student_t": True}  # whether of logs


class ExplicitLaws(NamedTuple):
    """Leaves of one column with explicit parameters, see `LeafLaws`.

    Parameters
    ----------
    groups : list of (LeavesWithin, (k,) int64)
        Leaves of one family within one interval, and their numbers.
    n : int
    """

    groups: list[tuple[LeavesWithin, np.ndarray]]
    n: int

    @property
    def is_discrete(self) -> bool:
        """See `LeafLaws`."""
        return not any(EXPLICIT[leaves.family].is_density for leaves, _ in self.groups)

    def leaf_cdf(self, x: np.ndarray) -> np.ndarray:
        """See `LeafLaws`."""
        return self.leaf_within(np.full(x.shape, -np.inf), x)

    def leaf_log_density(self, x: np.ndarray) -> np.ndarray:
        """See `LeafLaws`."""
        out = np.empty((self.n, x.shape[-1]))
        for leaves, which in self.groups:
            out[which] = leaves.log_density(_own(x, which))
        return out

    def leaf_within(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """See `LeafLaws`."""
        out = np.empty((self.n, low.shape[-1]))
        for leaves, which in self.groups:
            out[which] = np.exp(leaves.log_mass(_own(low, which), _own(high, which)))
        return out

    def leaf_support(self) -> tuple[np.ndarray, np.ndarray]:
        """See `LeafLaws`."""
        low, high = np.empty((2, self.n))
        for leaves, which in self.groups:
            low[which], high[which] = leaves.support
        return low, high

    def leaf_bulk(self) -> tuple[np.ndarray, np.ndarray]:
        """See `LeafLaws`: mean and standard deviation, or the median and what lies between the quartiles."""
        centre, width = np.empty((2, self.n))
        for leaves, which in self.groups:
            family, is_whole = EXPLICIT[leaves.family], np.isinf(leaves.low) and np.isinf(leaves.high)
            mean, variance = np.full((2, which.size), np.nan)
            if is_whole and not family.holds_objects:
                mean, variance = family.mean(leaves.parameters), family.variance(leaves.parameters)
            some = np.flatnonzero(~(np.isfinite(mean) & np.isfinite(variance)))
            quarters = _quarters(leaves.some(some))
            mean[some], variance[some] = quarters[1], (quarters[2] - quarters[0]) ** 2
            centre[which], width[which] = mean, np.sqrt(variance)
        return centre, width


def _own(x: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Points of some leaves: the same (X,) for all, or (k, X) of (n, X)."""
    return x if x.ndim == 1 else x[which]


def _quarters(leaves: LeavesWithin) -> np.ndarray:
    """Quartiles (3, n) of leaves, by halving."""
    out = np.empty((3, leaves.share.size))
    if not out.size:
        return out
    ends = np.full(leaves.share.size, -np.inf), np.full(leaves.share.size, np.inf)
    for row, level in zip(out, QUARTERS, strict=True):

        def is_short(x: np.ndarray, level: float = level) -> np.ndarray:
            within = np.full(x.shape, leaves.low), np.minimum(x, leaves.high)
            return log_interval(leaves.family, leaves.parameters, *within) - leaves.log_total < level

        row[:] = np.clip(smallest_reaching(is_short, *ends), -1e300, 1e300)
    return out


class PartOfLeaf(NamedTuple):
    """What a leaf over several columns is of one of them.

    Parameters
    ----------
    family : LeafFamily
    parameters : (1, P) float64
    columns : (d,) int64
    place : int
        Of the column among these.
    """

    family: LeafFamily
    parameters: np.ndarray
    columns: np.ndarray
    place: int

    def given(self, rows: np.ndarray) -> tuple[UnivariateFamily, np.ndarray]:
        """Law of the column given the other cells of rows (n, D): a family and parameters (n, p)."""
        return self.family.column_of_rows(self.parameters, rows[:, self.columns], self.place)


class CircuitLeaves:
    """Leaves of a column of a circuit, see `LeavesOfColumn`.

    Parameters
    ----------
    given : Parameterised
    d : int
    rows : (M, D) float64
        By which leaves over several columns tell what they are of this one.
    """

    def __init__(self, given: Parameterised, d: int, rows: np.ndarray) -> None:
        layout, wide = given.layout, given.wide
        self._rows = rows
        self.numbers = np.flatnonzero(layout.leaf_column == d)
        self.circuit = np.zeros(self.numbers.size, np.int64)
        self.groups: list[tuple[LeavesWithin, np.ndarray]] = []
        self.parts: dict[int, PartOfLeaf] = {}
        for f, name in enumerate(given.circuit.families):
            own = np.flatnonzero(layout.leaf_family[self.numbers] == f)
            rows_of = layout.leaf_row[self.numbers[own]]
            if own.size and name in EXPLICIT:
                self.groups += [
                    (leaves, own[which]) for leaves, which in grouped(name, given.parameters[name][rows_of])
                ]
                continue
            for i, row in zip(own.tolist(), rows_of.tolist(), strict=True):
                k = int(self.numbers[i])
                columns, place = wide.columns[wide.number[k]], int(wide.place[k])
                self.parts[i] = PartOfLeaf(LEAF_FAMILIES[name], given.parameters[name][row : row + 1], columns, place)
        self._group, self._place = np.full((2, self.numbers.size), -1)
        for g, (_, which) in enumerate(self.groups):
            self._group[which], self._place[which] = g, np.arange(which.size)

    @property
    def is_discrete(self) -> bool:
        """See `LeavesOfColumn`."""
        laws = [part.family.column_families[part.place] for part in self.parts.values()]
        return not any(law.is_density for law in [*laws, *(EXPLICIT[leaves.family] for leaves, _ in self.groups)])

    def all(self) -> ExplicitLaws | None:
        """See `LeavesOfColumn`."""
        return None if self.parts else ExplicitLaws(self.groups, self.numbers.size)

    def of_pairs(self, row: np.ndarray, leaf: np.ndarray) -> tuple[ExplicitLaws, np.ndarray]:
        """See `LeavesOfColumn`."""
        found = []
        for g, (leaves, _) in enumerate(self.groups):
            at = np.flatnonzero(self._group[leaf] == g)
            if at.size:
                found.append((leaves.some(self._place[leaf[at]]), at))
        for i, part in self.parts.items():
            at = np.flatnonzero(leaf == i)
            if at.size:
                family, own = part.given(self._rows[row[at]])
                none = np.zeros(at.size)
                found.append((LeavesWithin(family.name, own, none, -np.inf, np.inf, none), at))
        return ExplicitLaws(found, leaf.size), np.ones((leaf.size, 1))

    @property
    def students(self) -> StudentLaws | None:
        """See `LeavesOfColumn`."""
        families = {leaves.family for leaves, _ in self.groups}
        if self.parts or len(families) > 1 or not families <= STUDENTS.keys():
            return None
        if any(np.isfinite(leaves.low) or np.isfinite(leaves.high) for leaves, _ in self.groups):
            return None
        ((leaves, _),) = self.groups
        location, scale, freedom = leaves.parameters.T
        return StudentLaws(location, scale, freedom, STUDENTS[leaves.family])


class ExplicitLeavesInRows(LeavesInRows):
    """A column in rows under one circuit (S = 1).

    Parameters
    ----------
    given : Parameterised
    d : int
    rows : (M, D) float64
        Without the column.
    """

    def __init__(self, given: Parameterised, d: int, rows: np.ndarray) -> None:
        self._given, self._rows = given, given.values(rows)
        self.leaves: CircuitLeaves = CircuitLeaves(given, d, self._rows)

    @cached_property
    def _moments(self) -> np.ndarray:
        """Mean and variance (n, 2) of each leaf over the column alone."""
        return np.stack([self._given.of_leaves(name)[self.leaves.numbers] for name in ("mean", "variance")], axis=1)

    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        values, numbers = self._rows[rows], self.leaves.numbers
        logs, shares = np.empty(len(values)), np.empty((len(values), numbers.size))
        nodes = self._given.layout.node_of_leaf[numbers]

        def ask(part: slice) -> None:
            shares_of_rows(*self._given.inputs(values[part]), nodes, ROWS, shares[part], logs[part])

        step = ROWS * max(1, PIECE // (ROWS * self._given.layout.kind.size))
        parts = [slice(start, start + step) for start in range(0, len(values), step)]
        for_each(ask, parts, len(parts) > 1)
        return logs[None], shares

    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, shares = self.shares(rows)
        codes, laws = np.arange(float(n_levels)), self.leaves.all()
        if laws is not None:
            return logs, (shares @ np.exp(laws.leaf_log_density(codes)))[None]
        row, leaf = np.nonzero(shares)
        each = np.exp(self.leaves.of_pairs(rows.start + row, leaf)[0].leaf_log_density(codes))
        return logs, RowMixtures(row, leaf, shares[row, leaf], len(shares)).sums(each)[None]

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `LeavesInRows`: the variance is that within leaves and that between them."""
        logs, shares = self.shares(rows)
        numbers, mended = finite_part(self._moments)
        found, of_rows = shares @ numbers, np.zeros((len(self.leaves.parts), 2, len(shares)))
        for own, (i, part) in zip(of_rows, self.leaves.parts.items(), strict=True):
            some = np.flatnonzero(shares[:, i])
            family, parameters = part.given(self._rows[rows][some])
            own[:, some] = family.mean(parameters), family.variance(parameters)
            found[:, :2] += (shares[:, i] * own).T
        found = mended(found)
        mean, spread = found[:, 0], np.zeros(len(found))
        if variance:
            centre = np.where(np.isfinite(mean), mean, 0.0)
            away = numbers[:, 0] - centre[:, None]
            for own, i in zip(of_rows, self.leaves.parts, strict=True):
                away[:, i] = own[0] - centre
            spread = found[:, 1] + weighted(shares, np.square(away)).sum(axis=1)
        return logs, mean[None], spread[None]
