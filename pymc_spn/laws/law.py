"""The contract of a tractable law: S weighted circuits over D columns, asked together.

A posterior has one circuit for each recorded draw, a fit and an explicit circuit have one. Answers that are averages
over the circuits are made by `pymc_spn.answers`, once for all laws. Columns have numbers 0..D-1 in the order of
`Law.columns`; values are codes, as in `Table.values`. Whatever is known stays with the law: densities, probabilities
and moments are given it, circuit by circuit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from pymc_spn.events.events import Event, Events, describe, holds
from pymc_spn.laws.column_of_rows import ColumnOfRows
from pymc_spn.numerics.draw_averages import log_average
from pymc_spn.tables import Column


class Marks(NamedTuple):
    """What answers say of where the circuits come from.

    Parameters
    ----------
    scope : str
        What the exactness of an answer is limited to, one of `numerics.marks`; empty for a circuit of its own.
    learner : str, optional
        The attribute ``learner``.
    chains, draws : (n_chains,) and (n_draws,) arrays
        Labels of the circuits, which are ordered chain by chain.
    has_error : bool
        Whether the circuits are draws, so that averages over them have a standard error.
    everywhere : str
        What messages call all circuits together.
    used : str, optional
        The attribute ``draws``, where the circuits stand for more: how many they are, and of how many.
    converged : int, optional
        The attribute ``converged``: 0 where a limit ended what learned the circuits.
    """

    scope: str = ""
    learner: str | None = None
    chains: Any = np.zeros(1, np.int64)
    draws: Any = np.zeros(1, np.int64)
    has_error: bool = False
    everywhere: str = "under the circuit"
    used: str | None = None
    converged: int | None = None


class Completed(NamedTuple):
    """Completed copies of rows.

    Parameters
    ----------
    values : (n, M, D) float64
        Rows that are impossible keep their gaps.
    impossible : (M,) bool
        Rows of density zero under every circuit.
    effective : float
        Circuits that count for the row for which the fewest do.
    """

    values: np.ndarray
    impossible: np.ndarray
    effective: float


class Integral(NamedTuple):
    """An integral over a column of the mixture over circuits.

    Parameters
    ----------
    value : float
        In nats.
    tolerance : float
        How far it may be off.
    influence : (S,) float64
        What each circuit adds to it, about its mean; of the errors over draws.
    """

    value: float
    tolerance: float
    influence: np.ndarray = np.zeros(1)


class PairLogs(NamedTuple):
    """Log densities of C columns in M pairs of rows, under S circuits.

    Parameters
    ----------
    first, second : (S, M, C) float64
        Of single columns in both rows.
    both : (S, M, C (C - 1) / 2) float64
        Of pairs of columns.
    """

    first: np.ndarray
    second: np.ndarray
    both: np.ndarray


class BestTrees(NamedTuple):
    """Where a search for the densest row begins.

    Parameters
    ----------
    rows : (K, D) float64
        Modes of induced trees of large value.
    places : list of (k,) float64
        Values at which the density of each column may have a kink, or a largest value of a leaf.
    upper_bound : float
        Of the log density of any row: the value of the mixture with each leaf at its largest; infinite where some leaf
        has no largest value that is known.
    """

    rows: np.ndarray
    places: list[np.ndarray]
    upper_bound: float


class ColumnOfLaw(Protocol):
    """The law of one column under each of S circuits: a mixture of leaves."""

    @property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses."""

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (S, X) at points (X,)."""

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (S, X) at points (X,)."""

    def raw_moments(self, about: float, order: int) -> np.ndarray:
        """E[(X - about)^k] (S, order + 1) for k = 0..order; infinite or NaN where there is none."""

    def bracket(self) -> tuple[float, float]:
        """A point in the bulk and a width that holds most of it."""

    def mixed(self, weights: np.ndarray) -> Any:
        """One law (S = 1) that mixes all circuits with these weights (S,); it has quantiles."""

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """Smallest x (Q,) with P(X <= x) >= q, of a law with S = 1."""

    def quantiles_of_circuits(self, q: np.ndarray) -> np.ndarray:
        """Smallest x (S, Q) with P(X <= x) >= q under each circuit."""


class Law(ABC):
    """S weighted circuits over D columns, given what is known.

    Attributes
    ----------
    columns : tuple of Column (D,)
        Those summed out, or known to be at a value, are not among them.
    is_density : (D,) bool
        Columns in which single values have probability zero.
    resolution : (D,) float64
        Steps in which a table records the columns; 0 for exact values.
    grid_points : (D,) float64
        A point of each grid.
    log_weights : (S,) float64
        Log weight of each circuit given what is known, up to a constant; ``-inf`` for those that exclude it.
    marks : Marks
    is_weighted : bool
        Whether the weights differ by what is known, or were chosen.
    cell_tolerance : float or None
        Error of densities of rows whose values stand for cells of rounding; None where all are points.
    known_tolerance : float
        How far answers may be off because of what is known; 0 where they are in closed form.
    takes_likelihoods : bool
        Whether `given` takes soft evidence.
    """

    columns: tuple[Column, ...]
    is_density: np.ndarray
    resolution: np.ndarray
    grid_points: np.ndarray
    marks: Marks
    is_weighted: bool
    cell_tolerance: float | None = None
    known_tolerance: float = 0.0
    takes_likelihoods = False

    # ---- circuits and columns

    @property
    def zero_width(self) -> np.ndarray:
        """(D,) float64: how far from 0 values count as 0, in columns without negative values; NaN of others."""
        return np.full(len(self.columns), np.nan)

    def at_zero(self, d: int, x: np.ndarray) -> np.ndarray:
        """Values of a column with those that count as 0 at 0."""
        return np.where(x <= self.zero_width[d], 0.0, x)

    def through_zero(self, d: int, x: np.ndarray) -> np.ndarray:
        """Points of a distribution function with what counts as 0 on one side of them: below them from 0 on."""
        width = self.zero_width[d]
        return x if np.isnan(width) else np.where(x < 0.0, -np.inf, np.where(np.isnan(x), x, np.maximum(x, width)))

    @cached_property
    @abstractmethod
    def log_weights(self) -> np.ndarray:
        """See `Law`."""

    @property
    def n_circuits(self) -> int:
        """S."""
        return len(self.marks.chains) * len(self.marks.draws)

    @property
    def has_density(self) -> np.ndarray:
        """(D,) bool, columns in which a single value has a density, perhaps in addition to a mass."""
        return self.is_density

    @property
    def parts(self) -> "tuple[Law, ...]":
        """Laws of the same circuits, given disjoint events: the law itself, or what it mixes."""
        return (self,)

    @abstractmethod
    def known(self, d: int) -> Event | None:
        """The interval or set in which a column is known to be."""

    @abstractmethod
    def in_words(self) -> str:
        """What is known, for messages; empty if nothing is."""

    def is_same(self, other: "Law") -> bool:
        """Whether the circuits are the same draws, under other conditions."""
        return False

    # ---- new laws

    @abstractmethod
    def given(self, event: Events) -> "Law":
        """The law given an event as well; columns at a value leave it, weights count its probability.

        Raises
        ------
        ValueError
            If it has probability zero under every circuit.
        """

    @abstractmethod
    def of(self, columns: Sequence[int]) -> "Law":
        """The law of some columns, ascending; the others are summed out."""

    @abstractmethod
    def mixed(self, parts: "Sequence[Law]") -> "Law":
        """The mixture of laws made of this one by `given`, of disjoint events."""

    @abstractmethod
    def fewer(self, n: int) -> "Law":
        """At most n circuits that stand for all: the others have the log weight ``-inf``."""

    # ---- densities and probabilities

    @abstractmethod
    def log_density(self, rows: np.ndarray, cells: bool = False) -> np.ndarray:
        """Log density (S, M) of rows (M, D), NaN summed out; ``-inf`` outside of what is known.

        With ``cells`` recorded values of rounded columns count as their cells, by log(mass / width).
        """

    def log_density_left_out(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `log_density` with cells, and (S, M, D) without each column of the row."""
        logs = self.log_density(rows, cells=True)
        without = np.repeat(logs[:, :, None], rows.shape[1], axis=2)
        for d in range(rows.shape[1]):
            seen = ~np.isnan(rows[:, d])
            rest = rows[seen].copy()
            rest[:, d] = np.nan
            without[:, seen, d] = self.log_density(rest, cells=True)
        return logs, without

    def log_density_of_pairs(self, used: np.ndarray) -> Callable[[np.ndarray, np.ndarray], PairLogs]:
        """A function that gives log densities of all pairs of columns under some circuits (S,), of two rows each.

        Its rows (M, D) are within what is known, without gaps. The cell of a pair's first column is in the first row.
        """

        def ask(first: np.ndarray, second: np.ndarray) -> PairLogs:
            n_rows, n_columns = first.shape
            singles = np.empty((2, used.size, n_rows, n_columns))
            both = np.empty((used.size, n_rows, n_columns * (n_columns - 1) // 2))
            for out, rows in zip(singles, (first, second), strict=True):
                for d in range(n_columns):
                    own = np.full(rows.shape, np.nan)
                    own[:, d] = rows[:, d]
                    out[:, :, d] = self.log_density(own)[used]
            for k, (a, b) in enumerate(combinations(range(n_columns), 2)):
                own = np.full(first.shape, np.nan)
                own[:, a], own[:, b] = first[:, a], second[:, b]
                both[:, :, k] = self.log_density(own)[used]
            return PairLogs(singles[0], singles[1], both)

        return ask

    @abstractmethod
    def log_event(self, event: Events) -> np.ndarray:
        """Log probability (S,) of an event, density in the columns that are at a point of one."""

    def event_tolerance(self, event: Events) -> float:
        """How far the probability of an event may be off: 0 where it is in closed form."""
        return 0.0

    def possible(self, rows: np.ndarray, cells: bool = True) -> np.ndarray:
        """Whether each row (M,) is within what is known; a cell is where a part of it is."""
        out = np.ones(len(rows), np.bool_)
        for d in range(len(self.columns)):
            event = self.known(d)
            if event is not None:
                out &= holds(event, rows[:, d])
        return out

    # ---- columns

    @abstractmethod
    def column(self, d: int) -> ColumnOfLaw:
        """The law of one column."""

    @abstractmethod
    def column_of_rows(self, d: int, rows: np.ndarray) -> ColumnOfRows:
        """The law of one column in each of rows (M, D), given the other cells: arrays over S circuits and M rows.

        Cells of the column itself are NaN, other NaN are summed out. Rows are asked in blocks, and nothing of the size
        of circuits, rows and leaves is held. Rounded columns count as their cells.
        """

    @abstractmethod
    def moments(self, columns: Sequence[int], covariance: bool) -> tuple[np.ndarray, np.ndarray]:
        """Means (S, k) and covariances (S, k, k), or none, of columns of numbers, in their units."""

    def moment_tolerance(self, columns: Sequence[int]) -> float:
        """Error of the moments of columns: 0 where all are in closed form."""
        return 0.0

    def centred(self, columns: Sequence[int], every: bool = False) -> list[str]:
        """Names of columns for whose mean a principal value stands in a circuit that counts; with ``every`` in any."""
        return []

    # ---- integrals

    @abstractmethod
    def entropy_of_column(self, d: int) -> Integral:
        """Entropy of one column."""

    @abstractmethod
    def divergence_of_column(self, d: int, other: "Law", e: int) -> tuple[Integral, np.ndarray]:
        """Divergence of a column from one of another law, and what the circuits of that one add to it."""

    # ---- rows

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows (n, D) from the mixture over circuits."""

    @abstractmethod
    def complete(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Completed:
        """Completed copies of rows (M, D): missing cells drawn given the observed ones, from the mixture."""

    # ---- the densest row

    @property
    def n_levels(self) -> np.ndarray:
        """(D,) int, levels of each column that has nothing else, 0 of others."""
        return np.array([len(c.levels or ()) for c in self.columns])

    @property
    def grows_at_zero(self) -> np.ndarray:
        """(D,) bool, columns whose density has no bound towards 0."""
        return np.zeros(len(self.columns), np.bool_)

    def best_trees(self, box: Any) -> BestTrees:
        """Best induced trees within a `RowBox`, of laws that are no mixture of others."""
        raise NotImplementedError

    def log_of_completions(self, rows: np.ndarray) -> np.ndarray:
        """Log density (M,) of complete rows (M, D) that are within what is known, under the mixture over circuits."""
        with np.errstate(divide="ignore"):
            logs = log_average(self.log_weights, self.log_density(rows))
        return logs - log_average(self.log_weights, np.zeros(self.log_weights.size))

    def thinned(self, n: int) -> "Law":
        """A law of some n circuits that stand for all where these are many; by default all."""
        return self

    # ---- refusals

    def refuse(self, where: str, event: Events) -> NoReturn:
        """Name the column that makes an event impossible."""
        d = self.impossible_column(event)
        if d is not None:
            column = self.columns[d]
            raise ValueError(
                f"{where}: column {column.name!r} cannot be {describe(column, event[d])}, "
                f"its probability is zero {self.marks.everywhere}"
            )
        words = [f"{self.columns[d].name!r} {describe(self.columns[d], e)}" for d, e in event.items()]
        words = [self.in_words()] * bool(self.in_words()) + words
        raise ValueError(f"{where}: {', '.join(words)} cannot occur together")

    def refuse_row(self, where: str, row: np.ndarray) -> NoReturn:
        """Name the column that makes a row (D,) impossible."""
        self.refuse(where, {d: float(x) for d, x in enumerate(row) if not np.isnan(x)})

    def impossible_column(self, event: Events) -> int | None:
        """The first column that alone makes an event impossible under every circuit; None if none does."""
        return next((d for d, e in event.items() if self.log_event({d: e}).max() == -np.inf), None)
