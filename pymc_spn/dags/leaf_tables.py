"""Weights of parent sets under evidence on edges: what the leaves of an order sum-product network know."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_spn.dags import subset_kernels, zeta_kernels
from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.threads import for_each

THREADS_FROM = 1 << 20  # table entries
_KEPT = 64  # masked tables that are remembered


def descending(log_scores: np.ndarray) -> np.ndarray:
    """(2^k,) int32: parent sets by descending score."""
    return np.argsort(-log_scores, kind="stable").astype(np.int32)


@dataclass(frozen=True, eq=False)
class MaskedLeaf:
    """Log scores of one variable given evidence, with their sums over subsets.

    Parameters
    ----------
    log_scores : (2^k,) float64
        -inf for sets that the evidence rules out.
    sums : (2^k,) float64
        Linear sums over subsets, in units of the largest score that is left.
    log_scale : float
        That score, -inf if no set is left.
    sound : bool
        Whether the linear sums lost nothing.
    """

    log_scores: np.ndarray
    sums: np.ndarray
    log_scale: float
    sound: bool

    @classmethod
    def of(cls, scores: ParentSetScores, i: int, present: int, absent: int) -> "MaskedLeaf":
        part = scores.log_scores[scores.offsets[i] : scores.offsets[i + 1]]
        must = scores.index_of_parents(i, present)  # -1, which no set holds, with a parent that is no candidate
        gone, index = scores.index_of_parents(i, absent & scores.candidate_sets[i]), np.arange(part.size)
        table = np.where((index & must == must) & (index & gone == 0), part, -np.inf)
        table.flags.writeable = False
        sums = np.empty(table.size)
        top = float(table.max())
        return cls(table, sums, top, zeta_kernels.linear_subset_sums(table, top, sums))

    @cached_property
    def log_sums(self) -> np.ndarray:
        """(2^k,) logs of the sums over subsets, not scaled."""
        out = np.empty(self.log_scores.size)
        zeta_kernels.log_sums_of(self.log_scores, out)
        return out

    @cached_property
    def ranked(self) -> np.ndarray:
        """(2^k,) int32: parent sets by descending score."""
        return descending(self.log_scores)


class LeafTables:
    """Tables of all variables, perhaps given evidence.

    Parameters
    ----------
    scores : ParentSetScores
    ranked : dict, optional
        Parent sets by descending score, of variables of which they are known.
    base : LeafTables, optional
        Those without evidence, which all conditions share; None for these themselves.
    evidence : pair of tuples of int, optional
        By child: parents that are present, and absent, as bits.
    """

    def __init__(
        self,
        scores: ParentSetScores,
        ranked: dict[int, np.ndarray] | None = None,
        base: "LeafTables | None" = None,
        evidence: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    ):
        self.scores, self._base = scores, base
        self.known = {} if ranked is None else ranked
        self._masked: dict[tuple[int, int, int], MaskedLeaf] = {}
        self.bar = ProgressBar("", 0, False)  # of the builder, while it builds
        self.present, self.absent = ((0,) * scores.d, (0,) * scores.d) if evidence is None else evidence
        both = zip(self.present, self.absent, scores.candidate_sets, strict=True)
        touched = [i for i, (here, gone, possible) in enumerate(both) if here or gone & possible]
        self.leaves = {i: self.base._leaf(i, self.present[i], self.absent[i]) for i in touched}

    @property
    def base(self) -> "LeafTables":
        """The tables without evidence."""
        return self if self._base is None else self._base

    def given(self, present: tuple[int, ...], absent: tuple[int, ...]) -> "LeafTables":
        """These tables, without evidence, given some."""
        return LeafTables(self.scores, None, self, (present, absent))

    def _leaf(self, i: int, present: int, absent: int) -> MaskedLeaf:
        """Tables of variable i given parents that are present or absent (bits); the last few are remembered."""
        key = (i, present, absent)
        masked = self._masked
        found = masked.get(key)
        if found is None:
            found = MaskedLeaf.of(self.scores, i, present, absent)
            # replaced as a whole: other threads may be reading it
            self._masked = dict([*masked.items()][1 - _KEPT :]) | {key: found}
        return found

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """Flat sums of the base, and (d,) whether those of each variable lost nothing."""
        scores = self.scores
        sums, sound = np.empty(scores.log_scores.size), np.empty(scores.d, bool)

        def work(i: int) -> None:
            part = slice(scores.offsets[i], scores.offsets[i + 1])
            sound[i] = zeta_kernels.linear_subset_sums(scores.log_scores[part], scores.tops[i], sums[part])
            self.bar.advance()

        for_each(work, range(scores.d), scores.log_scores.size >= THREADS_FROM)
        return sums, sound

    @cached_property
    def factors(self) -> np.ndarray:
        """(d,) by which the scaled sums of the base are multiplied, so that a good order has weight one."""
        scores, out = self.scores, np.empty(self.scores.d)
        subset_kernels.greedy_factors(scores.slots, scores.offsets, self.flat_sums(), scores.must_precede, out)
        return out

    @cached_property
    def log_scale(self) -> np.ndarray:
        """(d,) log of what one unit of each variable's sums stands for: its largest score."""
        return np.array(
            [self.leaves[i].log_scale if i in self.leaves else top for i, top in enumerate(self.scores.tops)]
        )

    @cached_property
    def sound(self) -> bool:
        """Whether linear sums are exact to rounding for every variable."""
        sound = self.base._scaled[1]
        return all(self.leaves[i].sound if i in self.leaves else sound[i] for i in range(self.scores.d))

    @property
    def log_unit(self) -> float:
        """Log of what a scaled total of one stands for."""
        return float(self.log_scale.sum() - np.log(self.base.factors).sum())

    @property
    def possible(self) -> bool:
        """Whether every variable has a parent set left."""
        return all(leaf.log_scale > -np.inf for leaf in self.leaves.values())

    def flat_sums(self) -> np.ndarray:
        """Flat sums over subsets of exp(score), scaled."""
        return self._patched(self.base._scaled[0], "sums")

    def flat_log_sums(self) -> np.ndarray:
        """Flat log sums, not scaled."""
        return read_only_view(self._patched(self.scores.log_sums, "log_sums"))

    def flat_maxima(self) -> np.ndarray:
        """Flat like the log scores: entry m of a variable is its largest log score over all subsets of m."""
        out = np.empty(self.scores.log_scores.size)
        for i in range(self.scores.d):
            part = out[self.scores.offsets[i] : self.scores.offsets[i + 1]]
            part[:] = self.log_scores(i)
            for k in range(self.scores.n_candidates[i]):
                halves = part.reshape(-1, 2, 1 << k)
                np.maximum(halves[:, 0], halves[:, 1], out=halves[:, 1])
        return read_only_view(out)

    def log_scores(self, i: int) -> np.ndarray:
        """(2^k,) log scores of one variable."""
        if i in self.leaves:
            return self.leaves[i].log_scores
        return self.scores.log_scores[self.scores.offsets[i] : self.scores.offsets[i + 1]]

    def ranked(self, i: int) -> np.ndarray:
        """(2^k,) int32: parent sets of one variable by descending score."""
        if i in self.leaves:
            return self.leaves[i].ranked
        known = self.base.known
        if i not in known:
            known[i] = descending(self.log_scores(i))
        return known[i]

    def _patched(self, flat: np.ndarray, name: str) -> np.ndarray:
        if not self.leaves:
            return flat
        out = flat.copy()
        for i, leaf in self.leaves.items():
            out[self.scores.offsets[i] : self.scores.offsets[i + 1]] = getattr(leaf, name)
        return out
