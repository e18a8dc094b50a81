"""Rows of a table with levels, perhaps with numbers: what scores and effects of such tables are made from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_spn.tables import Table


def _no_numbers() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Distinct rows of a table with levels, and how often each counts; with numbers, those of every row.

    Parameters
    ----------
    codes : (n, d) int64
        Distinct rows, levels as codes from 0; a numeric column has one level.
    weights : (d, n) int64
        By child: how often each row occurs where the child was not set by an experimenter.
    levels : tuple of tuples
        The values that codes stand for, by variable.
    ess : float or scalar tensor
        Equivalent sample size of the prior.
    cell : (rows,) int64
        Which of `codes` each row has.
    numeric : (k,) int64
        The numeric variables, ascending.
    numbers : (rows, k) float64
        Their values less `centres`, in `units`.
    is_set : (rows, k) bool
        Values that an experimenter set.
    centres, units : (k,) float64
        ``centres + units * numbers`` are the data.
    alpha_mu, alpha_w, prior_scale : float
        Constants of the BGe score of each configuration, `prior_scale` in squared `units`; 1 if nothing is numeric.
    """

    codes: np.ndarray
    weights: np.ndarray
    levels: tuple[tuple[Any, ...], ...]
    ess: Any
    cell: np.ndarray = field(default_factory=_no_numbers)
    numeric: np.ndarray = field(default_factory=_no_numbers)
    numbers: np.ndarray = field(default_factory=_no_numbers)
    is_set: np.ndarray = field(default_factory=_no_numbers)
    centres: np.ndarray = field(default_factory=_no_numbers)
    units: np.ndarray = field(default_factory=_no_numbers)
    alpha_mu: float = 1.0
    alpha_w: float = 1.0
    prior_scale: float = 1.0

    @classmethod
    def of(
        cls,
        table: Table,
        intervened: np.ndarray,
        ess: Any,
        numeric: Sequence[int] = (),
        constants: tuple[float, ...] = (),
    ) -> "LevelCounts":
        """Read a table.

        Parameters
        ----------
        table : Table
            No gaps.
        intervened : (rows, d) bool
            Cells that an experimenter set.
        ess : float or scalar tensor
            Equivalent sample size of the columns with levels.
        numeric : list of int
            Numbers of the numeric columns.
        constants : tuple of float
            ``alpha_mu``, ``alpha_w`` and ``prior_scale``.
        """
        codes = np.where(np.isin(np.arange(len(table.columns)), numeric), 0.0, table.values).astype(np.int64)
        codes, cell = np.unique(codes, axis=0, return_inverse=True)
        cell = cell.reshape(-1)
        weights = np.stack([np.bincount(cell[~cells], minlength=len(codes)) for cells in intervened.T])
        levels = tuple((None,) if i in numeric else c.levels or (None,) for i, c in enumerate(table.columns))
        if not numeric:
            return cls(codes, weights, levels, ess)
        x = table.values[:, numeric]
        centres = x.mean(axis=0) if x.size else np.zeros(len(numeric))
        own = np.array(numeric, np.int64), x - centres, intervened[:, numeric], centres, np.ones(len(numeric))
        return cls(codes, weights, levels, ess, cell, *own, *constants)

    def times(self, units: np.ndarray) -> "LevelCounts":
        """The same rows in other units: each numeric column times its number, (d,)."""
        own = units[self.numeric.astype(np.int64)]
        return replace(self, units=self.units * own, centres=self.centres * own)

    @property
    def n_levels(self) -> np.ndarray:
        """(d,) int64: number of levels of each variable."""
        return np.array([len(levels) for levels in self.levels], np.int64)

    def dirichlet(self, child: int, parents: tuple[int, ...]) -> np.ndarray:
        """Parameters of the posterior of a child's probabilities, an axis for each parent and the last for the child.

        Heckerman, Geiger and Chickering (1995), equation 28: ess / (number of cells) plus the counts.
        """
        axes = [*parents, child]
        shape = tuple(int(n) for n in self.n_levels[axes])
        cell = np.ravel_multi_index(tuple(self.codes[:, axes].T), shape)
        counts = np.bincount(cell, self.weights[child], minlength=int(np.prod(shape)))
        return (counts + self.ess / counts.size).reshape(shape)

    def places(self, variables: tuple[int, ...]) -> list[int]:
        """Columns of numeric variables in `numbers`."""
        return np.searchsorted(self.numeric, variables).tolist()

    def configurations(self, child: int, levels: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """Configurations of variables with levels, and the numbers of their rows, without rows that set the child.

        Parameters
        ----------
        child : int
            A numeric variable.
        levels : tuple of int
            Variables with levels.

        Yields
        ------
        configuration : tuple of int
            Codes of `levels`. Each that occurs comes once.
        rows : (n, k) float64
            Some of `numbers`.
        """
        free = ~self.is_set[:, self.places((child,))[0]]
        rows = self.numbers[free]
        if not levels:
            yield (), rows
            return
        found, group = np.unique(self.codes[:, list(levels)], axis=0, return_inverse=True)
        group = group.reshape(-1)[self.cell[free]]
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(found)))
        for configuration, part in zip(found.tolist(), np.split(order, ends[:-1]), strict=True):
            if part.size:
                yield tuple(configuration), rows[part]
