"""Scores of columns of levels from their pairwise counts, and the forest over them whose score is largest."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln, xlogy

BLOCK = 65_536  # rows counted at a time, in single precision: whole numbers are exact in it up to 2 ** 24


class CountScore(Protocol):
    """Score of a distribution over levels from its counts: one term for each cell and one for their total."""

    def of_cells(self, counts: np.ndarray, n_cells: np.ndarray) -> np.ndarray:
        """Terms of cells, each one of `n_cells`."""
        ...

    def of_totals(self, totals: np.ndarray, n_cells: np.ndarray) -> np.ndarray:
        """Terms of distributions with `n_cells` cells."""
        ...

    def given_level(self, n_levels: int) -> "CountScore":
        """The score of the rows at one level of a column."""
        ...


@dataclass(frozen=True)
class DirichletEvidence:
    """Log marginal likelihood in nats, under a Dirichlet prior worth so many rows spread evenly over all joint levels.

    Independent of which of two columns is called the parent, and of whether a column is divided by or is a parent of
    all others. The prior rows at one level are as many fewer as there are levels. Known as BDeu.

    References
    ----------
    Heckerman, Geiger and Chickering (1995), doi:10.1007/BF00994016.
    """

    equivalent_sample_size: float

    def of_cells(self, counts: np.ndarray, n_cells: np.ndarray) -> np.ndarray:
        """Log of the rising factorial of the prior rows of a cell."""
        prior = self.equivalent_sample_size / n_cells
        return gammaln(counts + prior) - gammaln(prior)

    def of_totals(self, totals: np.ndarray, n_cells: np.ndarray) -> np.ndarray:
        """Less that of all prior rows."""
        return gammaln(self.equivalent_sample_size) - gammaln(self.equivalent_sample_size + totals)

    def given_level(self, n_levels: int) -> "DirichletEvidence":
        """With the prior rows that are at the level."""
        return DirichletEvidence(self.equivalent_sample_size / n_levels)


@dataclass(frozen=True)
class BayesianInformation:
    """Largest log likelihood in nats, less half the log of the number of all rows for each free parameter.

    References
    ----------
    Schwarz (1978), doi:10.1214/aos/1176344136; for networks of this kind Di Mauro, Vergari and Esposito (2015).
    """

    log_rows: float

    def of_cells(self, counts: np.ndarray, n_cells: np.ndarray) -> np.ndarray:
        """Count times its log."""
        return xlogy(counts, counts)

    def of_totals(self, totals: np.ndarray, n_cells: np.ndarray) -> np.ndarray:
        """Less the total times its log, and less the penalty."""
        return -xlogy(totals, totals) - 0.5 * self.log_rows * (n_cells - 1)

    def given_level(self, n_levels: int) -> "BayesianInformation":
        """The same: rows are counted once for the whole network."""
        return self


@dataclass(frozen=True)
class LevelCounter:
    """Counts rows at pairs of levels. Made by `LevelCounter.of`.

    Parameters
    ----------
    codes : (N, D) int64
        Levels, -1 where missing.
    n_levels, start : (D,) int64
        Levels of column d have the places ``start[d] + np.arange(n_levels[d])``.
    column : (S,) int64
        Of each place.
    is_at : (N, S) bool
        Whether a row is at a level; all False within a missing cell.
    """

    codes: np.ndarray
    n_levels: np.ndarray
    start: np.ndarray
    column: np.ndarray
    is_at: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, n_levels: list[int]) -> "LevelCounter":
        """Of coded rows (N, D), NaN where missing."""
        sizes = np.array(n_levels, np.int64)
        start = np.cumsum(sizes) - sizes
        codes = np.where(np.isnan(values), -1.0, values).astype(np.int64)
        is_at = np.zeros((len(values), int(sizes.sum())), np.bool_)
        rows, columns = np.nonzero(codes >= 0)
        is_at[rows, start[columns] + codes[rows, columns]] = True
        return cls(codes, sizes, start, np.repeat(np.arange(sizes.size), sizes), is_at)

    def pairs(self, rows: np.ndarray) -> np.ndarray:
        """(S, S) float64, how many of the rows are at both of two levels; single levels stand on the diagonal."""
        counts = np.zeros((self.column.size, self.column.size))
        for first in range(0, rows.size, BLOCK):
            block = self.is_at[rows[first : first + BLOCK]].astype(np.float32)
            counts += block.T @ block
        return counts

    def levels_of(self, d: int) -> slice:
        """Places of the levels of a column."""
        return slice(int(self.start[d]), int(self.start[d] + self.n_levels[d]))

    def divided(self, rows: np.ndarray, counts: np.ndarray, d: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Rows at each level of column d, and their counts; at the end the rows that miss it.

        All groups but the largest are counted, and that one is what is left of `counts`.
        """
        level = self.codes[rows, d]
        groups = [rows[level == k] for k in [*range(self.n_levels[d]), -1]]
        largest = int(np.argmax([group.size for group in groups]))
        tables = [self.pairs(group) if g != largest else np.zeros(0) for g, group in enumerate(groups)]
        tables[largest] = counts - sum(table for g, table in enumerate(tables) if g != largest)
        return groups, tables

    def column_scores(self, counts: np.ndarray, score: CountScore) -> np.ndarray:
        """(D,) score of each column alone."""
        own = np.diagonal(counts)
        return np.add.reduceat(score.of_cells(own, self.n_levels[self.column]), self.start) + score.of_totals(
            np.add.reduceat(own, self.start), self.n_levels
        )

    def pair_gains(self, counts: np.ndarray, score: CountScore) -> np.ndarray:
        """(D, D) score of each pair of columns together, less those of the two alone on the rows that see both."""
        n_joint = self.n_levels[:, None] * self.n_levels
        cells = score.of_cells(counts, n_joint[self.column][:, self.column])
        seen = np.add.reduceat(counts, self.start, axis=1)  # (S, D): at a level, and seeing another column
        both = np.add.reduceat(seen, self.start, axis=0)
        joint = self._over_pairs(cells) + score.of_totals(both, n_joint)
        alone = np.add.reduceat(score.of_cells(seen, self.n_levels[self.column][:, None]), self.start, axis=0)
        alone += score.of_totals(both, self.n_levels[:, None])  # (D, D): of a column, on the rows that see another
        return joint - alone - alone.T

    def _over_pairs(self, cells: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(cells, self.start, axis=0), self.start, axis=1)

    def best_forest(self, counts: np.ndarray, columns: np.ndarray, score: CountScore) -> tuple[float, np.ndarray]:
        """Largest score of a forest over some of the columns, and its edges (n, 2); edges that lose are left out."""
        gains = np.maximum(self.pair_gains(counts, score)[np.ix_(columns, columns)], 0.0)
        edges = heaviest_tree(gains)
        gained = gains[edges[:, 0], edges[:, 1]]
        total = float(self.column_scores(counts, score)[columns].sum() + gained.sum())
        return total, columns[edges[gained > 0.0]]


def heaviest_tree(weights: np.ndarray) -> np.ndarray:
    """Edges (n - 1, 2) of a spanning tree of largest total weight, from symmetric weights (n, n) that are not negative.

    Prim's algorithm (1957), O(n^2): a node at a time, along the heaviest edge to those so far.
    """
    n = len(weights)
    outside = np.ones(n, np.bool_)
    best, nearest = np.full(n, -1.0), np.zeros(n, np.int64)
    edges = np.zeros((max(n - 1, 0), 2), np.int64)
    last = 0
    for e in range(n - 1):
        outside[last] = False
        better = outside & (weights[last] > best)
        best[better], nearest[better] = weights[last, better], last
        last = int(np.argmax(np.where(outside, best, -2.0)))
        edges[e] = nearest[last], last
    return edges
