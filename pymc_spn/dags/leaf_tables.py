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


class BaseTables:
    """Tables without evidence, shared by an order posterior and all its conditions."""

    def __init__(self, scores: ParentSetScores, ranked: dict[int, np.ndarray] | None = None):
        self.scores = scores
        self.masked: dict[tuple[int, int, int], MaskedLeaf] = {}
        self.ranked = {} if ranked is None else ranked  # parent sets by descending score, of variables asked about
        self.bar = ProgressBar("", 0, False)  # of the builder, while it builds

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        scores = self.scores
        sums, sound = np.empty(scores.log_scores.size), np.empty(scores.d, bool)

        def work(i: int) -> None:
            part = slice(scores.offsets[i], scores.offsets[i + 1])
            sound[i] = zeta_kernels.linear_subset_sums(scores.log_scores[part], scores.tops[i], sums[part])
            self.bar.advance()

        for_each(work, range(scores.d), scores.log_scores.size >= THREADS_FROM)
        return sums, sound

    @property
    def sums(self) -> np.ndarray:
        """Flat sums over subsets of exp(score), in units of each variable's largest score."""
        return self._scaled[0]

    @property
    def log_scale(self) -> np.ndarray:
        """(d,) log of what one unit of each variable's sums stands for: its largest score."""
        return self.scores.tops

    @property
    def sound(self) -> np.ndarray:
        """(d,) whether each variable's linear sums lost nothing."""
        return self._scaled[1]

    @cached_property
    def factors(self) -> np.ndarray:
        """(d,) by which the scaled sums are multiplied, so that a good order has weight one."""
        scores, out = self.scores, np.empty(self.scores.d)
        subset_kernels.greedy_factors(scores.slots, scores.offsets, self.sums, scores.must_precede, out)
        return out

    def leaf(self, i: int, present: int, absent: int) -> "MaskedLeaf":
        """Tables of variable i given parents that are present or absent (bits); the last few are remembered."""
        key = (i, present, absent)
        masked = self.masked
        found = masked.get(key)
        if found is None:
            found = MaskedLeaf.of(self.scores, i, present, absent)
            # replaced as a whole: other threads may be reading it
            self.masked = dict([*masked.items()][1 - _KEPT :]) | {key: found}
        return found


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
    """Tables of all variables given evidence.

    Parameters
    ----------
    base : BaseTables
    present, absent : tuple of int
        By child: parents that are known to be present or absent, as bits.
    """

    def __init__(self, base: BaseTables, present: tuple[int, ...], absent: tuple[int, ...]):
        self.base, self.present, self.absent = base, present, absent
        self.scores = base.scores
        self.touched = [i for i in range(self.scores.d) if present[i] or absent[i] & self.scores.candidate_sets[i]]
        self.leaves = {i: base.leaf(i, present[i], absent[i]) for i in self.touched}

    @cached_property
    def log_scale(self) -> np.ndarray:
        """(d,) log of what one unit of each variable's sums stands for."""
        out = self.base.log_scale.copy()
        for i, leaf in self.leaves.items():
            out[i] = leaf.log_scale
        return out

    @cached_property
    def sound(self) -> bool:
        """Whether linear sums are exact to rounding for every variable."""
        own = [leaf.sound for leaf in self.leaves.values()]
        return all(own) and all(ok for i, ok in enumerate(self.base.sound) if i not in self.leaves)

    @property
    def log_unit(self) -> float:
        """Log of what a scaled total of one stands for."""
        return float(self.log_scale.sum() - np.log(self.base.factors).sum())

    @property
    def possible(self) -> bool:
        """Whether every variable has a parent set left."""
        return all(leaf.log_scale > -np.inf for leaf in self.leaves.values())

    def flat_sums(self) -> np.ndarray:
        """Flat scaled sums."""
        return self._patched(self.base.sums, "sums")

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
        if i not in self.base.ranked:
            self.base.ranked[i] = descending(self.log_scores(i))
        return self.base.ranked[i]

    def _patched(self, flat: np.ndarray, name: str) -> np.ndarray:
        if not self.leaves:
            return flat
        out = flat.copy()
        for i, leaf in self.leaves.items():
            out[self.scores.offsets[i] : self.scores.offsets[i + 1]] = getattr(leaf, name)
        return out
