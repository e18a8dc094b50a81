"""The score of conditional Gaussian networks, for tables with numeric and discrete columns."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_spn.dags.mixed_rows import MixedRows
from pymc_spn.dags.scores import LEVELS, BDeu, BDeuScorer, BGe, BGeScorer
from pymc_spn.tables import Table


@dataclass(frozen=True)
class ConditionalGaussian:
    """Score of conditional Gaussian networks: discrete columns have discrete parents only.

    A numeric column is linear Gaussian in its numeric parents, with coefficients and variance of its own for every
    configuration of its discrete parents. Its score is a sum of BGe scores, one for the rows of each configuration,
    with independent priors of the same constants. A discrete column is scored by BDeu; sets with a numeric parent are
    impossible. Turning an edge between two columns of one type that have the same other parents leaves the score as it
    is.

    Parameters
    ----------
    bge : BGe
        For the numeric columns; its ``alpha_w`` and ``prior_scale`` default to those of the numeric columns alone.
    bdeu : BDeu

    Examples
    --------
    >>> dag = ps.DagPosterior.from_data(full, ps.ConditionalGaussian(), standardize=True)
    >>> dag.names
    ('age', 'income', 'job')

    References
    ----------
    Lauritzen and Wermuth (1989), doi:10.1214/aos/1176347003, for the family; Bøttcher (2001), AISTATS, for scores of
    this form.
    """

    bge: BGe = field(default_factory=BGe)
    bdeu: BDeu = field(default_factory=BDeu)

    name = "conditional Gaussian"

    def scorer(self, table: Table, intervened: np.ndarray) -> "MixedScorer":
        """Prepare the scores of a table.

        Examples
        --------
        >>> nobody = np.zeros(full.shape, bool)  # True where an experimenter set the cell
        >>> found = ps.ConditionalGaussian().scorer(ps.Table.from_frame(full), nobody)
        >>> alone, with_job = found.table(0, [], [2])  # scores of "age"
        >>> bool(with_job > alone)
        True
        """
        return MixedScorer(table, intervened, self.bge, self.bdeu)


class MixedScorer:
    """Scores of a conditional Gaussian network; one BGe scorer for the rows of each configuration."""

    gaussian = None

    def __init__(self, table: Table, intervened: np.ndarray, bge: BGe, bdeu: BDeu):
        discrete = [i for i, c in enumerate(table.columns) if c.kind in LEVELS]
        numeric = [i for i in range(len(table.columns)) if i not in discrete]
        self.names, self.intervened, self.discrete = table.names, intervened, set(discrete)
        self.numeric_place = {i: k for k, i in enumerate(numeric)}
        self.level_place = {i: k for k, i in enumerate(discrete)}
        self.bdeu: BDeuScorer | None = None
        if discrete:
            levels = Table(tuple(table.columns[i] for i in discrete), table.values[:, discrete], table.index)
            self.bdeu = bdeu.scorer(levels, intervened[:, discrete])
        self.constants: tuple[Any, ...] = ()
        if numeric:
            numbers = Table(tuple(table.columns[i] for i in numeric), table.values[:, numeric], table.index)
            bge.scorer(numbers, intervened[:, numeric])  # its refusals and messages
            self.constants = bge.resolve(len(numeric))
        ess = 1.0 if self.bdeu is None else self.bdeu.counts.ess
        self.counts = MixedRows.of_rows(table, intervened, numeric, ess, self.constants)
        self.known: dict[tuple[int, tuple[int, ...]], list[BGeScorer]] = {}

    def table(self, child: int, base: Iterable[int], candidates: Iterable[int]) -> np.ndarray:
        """(2^k,) log marginal likelihoods, as in every scorer."""
        candidates, base = list(candidates), list(base)
        levels = [(k, j) for k, j in enumerate(candidates) if j in self.discrete]
        numbers = [(k, j) for k, j in enumerate(candidates) if j not in self.discrete]
        base_levels = [j for j in base if j in self.discrete]
        base_numbers = [j for j in base if j not in self.discrete]
        level_bits, number_bits = _spread([k for k, _ in levels]), _spread([k for k, _ in numbers])
        out = np.full(1 << len(candidates), -math.inf)
        if child in self.discrete:
            if not base_numbers:
                place = self.level_place
                own = [place[j] for j in base_levels], [place[j] for _, j in levels]
                assert self.bdeu is not None
                out[level_bits] = self.bdeu.table(place[child], *own)
            return out
        place = self.numeric_place
        own = [place[j] for j in base_numbers], [place[j] for _, j in numbers]
        for m, bits in enumerate(level_bits):
            chosen = sorted([*base_levels, *(j for r, (_, j) in enumerate(levels) if m >> r & 1)])
            parts = [s.table(place[child], *own) for s in self._configurations(child, tuple(chosen))]
            out[bits + number_bits] = np.sum(parts, axis=0)
        return out

    def _configurations(self, child: int, levels: tuple[int, ...]) -> list[BGeScorer]:
        """One scorer for the rows of each configuration that occurs, rows that set the child left out."""
        key = (child if self.intervened[:, child].any() else -1, levels)
        if key not in self.known:
            names = [self.names[i] for i in self.numeric_place]
            alpha_mu, alpha_w, t = self.constants
            self.known[key] = [
                BGeScorer(rows, np.zeros(rows.shape, bool), alpha_mu, alpha_w, t, names)
                for _, rows in self.counts.configurations(child, levels)
            ]
        return self.known[key]


def _spread(bits: list[int]) -> np.ndarray:
    """(2^k,) indices in the whole table of all subsets of some of its bits."""
    out = np.zeros(1, np.int64)
    for k in bits:
        out = np.concatenate([out, out + (1 << k)])
    return out
