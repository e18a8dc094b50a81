"""The paper's order sum-product network: a tree of splits of the variables into an earlier and a later part."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags import regular_kernels
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.mcmc_chain import OrderChain, ranked_sets, short_chains
from pymc_spn.dags.prefix_lattice import PrefixLattice, whole_set
from pymc_spn.dags.scores import warn
from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import CoverageWarning


@dataclass(frozen=True, eq=False, repr=False)
class RegularTree:
    """Sums over splits, products of an earlier and a later part, leaves of one variable each.

    Nodes (sums and leaves) are numbered level by level from the root 0. Product p has the children 2 p + 1 (earlier)
    and 2 p + 2 (later); the products of sum t are ``ptr[t]:ptr[t + 1]``, none for a leaf.

    Parameters
    ----------
    names : tuple of str
        The d variables.
    splits : (n_products,) int64
        The earlier part of each product, as bits.
    ptr : (n + 1,) int64

    Raises
    ------
    ValueError
        If the arrays are not such a tree, or the splits of a sum are not distinct halves of it: some order could belong
        to two.

    References
    ----------
    Wang, Wicker and Kwiatkowska (2022), arXiv:2204.14170, definition 1.
    """

    names: tuple[str, ...]
    splits: np.ndarray
    ptr: np.ndarray

    def __post_init__(self) -> None:
        for name in ("splits", "ptr"):
            array = np.array(getattr(self, name), np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        n, n_products = self.ptr.size - 1, self.splits.size
        if n != 2 * n_products + 1 or self.ptr[0] != 0 or self.ptr[-1] != n_products:
            raise ValueError(
                f"ptr must rise from 0 to {n_products}, the number of splits, in {2 * n_products + 2} entries"
            )
        wrong = (self.scope[1::2] != self.splits) | (self.splits == 0) | (self.scope[2::2] == 0)
        if wrong.any():
            p = int(np.argmax(wrong))
            raise ValueError(f"split {p} must be a part of what its node orders, got {self._words(self.splits[p])}")
        wrong = (np.diff(self.ptr) > 0) != (self._sizes > 1)
        if wrong.any():
            t = int(np.argmax(wrong))
            raise ValueError(
                f"node {t} orders {self._words(self.scope[t])} and has {self.ptr[t + 1] - self.ptr[t]} splits"
            )
        self.check_deterministic()

    @property
    def _sizes(self) -> np.ndarray:
        """(n,) numbers of variables that nodes order."""
        return np.bitwise_count(self.scope.view(np.uint64)).astype(np.int64)

    @cached_property
    def _intervals(self) -> tuple[np.ndarray, np.ndarray]:
        before, scope = np.zeros((2, self.ptr.size - 1), np.int64)
        scope[0] = whole_set(len(self.names))
        start, stop = 0, 1
        while start < stop:  # a level
            own = slice(self.ptr[start], self.ptr[stop])
            owner, splits = np.repeat(np.arange(start, stop), np.diff(self.ptr[start : stop + 1])), self.splits[own]
            first, last = 2 * own.start + 1, 2 * own.stop + 1
            before[first:last:2], scope[first:last:2] = before[owner], splits & scope[owner]
            before[first + 1 : last : 2], scope[first + 1 : last : 2] = before[owner] | splits, scope[owner] & ~splits
            start, stop = stop, last
        return before, scope

    @property
    def before(self) -> np.ndarray:
        """(n,) int64: variables that stand before those of each node, as bits."""
        return self._intervals[0]

    @property
    def scope(self) -> np.ndarray:
        """(n,) int64: variables that each node orders, as bits."""
        return self._intervals[1]

    def check_deterministic(self) -> None:
        """Splits of a sum must be distinct, and halves: then none is part of another.

        Raises
        ------
        ValueError
            Naming the node and a split.
        """
        owner = np.repeat(np.arange(self.ptr.size - 1), np.diff(self.ptr))
        by_split = np.lexsort((self.splits, owner))
        twice = (np.diff(owner[by_split]) == 0) & (np.diff(self.splits[by_split]) == 0)
        uneven = self._sizes[1::2] != self._sizes[owner] // 2
        for wrong, why in ((np.flatnonzero(uneven), "which is no half of it"), (by_split[1:][twice], "twice")):
            if wrong.size:
                t, split = owner[wrong[0]], self._words(self.splits[wrong[0]])
                raise ValueError(f"node {t} has the split {split} {why}: its orders could count twice")

    def _words(self, mask: Any) -> str:
        return "{" + ", ".join(n for i, n in enumerate(self.names) if int(mask) >> i & 1) + "}"

    # ---- sizes

    def n_orders(self) -> int:
        """Number of orders in the support, exactly.

        For d a power of two and expansion factors K_0, K_1, ... it is the product of K_j^(2^j) (proposition 6).
        """
        counts = [1] * self.before.size
        ptr = self.ptr.tolist()
        for t in range(self.before.size - 1, -1, -1):
            if ptr[t] < ptr[t + 1]:
                counts[t] = sum(counts[2 * p + 1] * counts[2 * p + 2] for p in range(ptr[t], ptr[t + 1]))
        return counts[0]

    def __repr__(self) -> str:
        sizes = f"{self.splits.size:,} products, {np.count_nonzero(np.diff(self.ptr) == 0):,} leaves"
        return f"RegularTree({len(self.names)} variables, {sizes}, {float(self.n_orders()):.3g} orders)"

    # ---- other forms

    @cached_property
    def paths(self) -> "TreePaths":
        """The tree as a graph of prefixes in context, with the tree's orders and no other."""
        return TreePaths.of(self)


@dataclass(frozen=True, eq=False, repr=False)
class TreePaths(PrefixLattice):
    """A tree with its nodes in series and its splits side by side: the same prefix occurs once for each context.

    The tree has what a lattice has, but prefixes repeat. A prefix that is reached in two ways is two entries, so that
    orders which the tree does not hold find no path.
    """

    tree: RegularTree

    @classmethod
    def of(cls, tree: RegularTree) -> "TreePaths":
        """Every product is one place, between its earlier and its later part; every leaf is one edge."""
        n, d = tree.before.size, len(tree.names)
        middle = tree.before[2::2]
        masks = np.concatenate([[0], middle, [whole_set(d)]]).astype(np.int64)
        begin, end = np.zeros(n, np.int64), np.zeros(n, np.int64)
        end[0] = masks.size - 1
        for t in range(n):
            a, b = tree.ptr[t], tree.ptr[t + 1]
            if a < b:
                places = 1 + np.arange(a, b)
                begin[2 * a + 1 : 2 * b + 1 : 2], end[2 * a + 1 : 2 * b + 1 : 2] = begin[t], places
                begin[2 * a + 2 : 2 * b + 2 : 2], end[2 * a + 2 : 2 * b + 2 : 2] = places, end[t]
        ranked = np.argsort(masks.view(np.uint64), kind="stable")
        rank = np.empty(masks.size, np.int64)
        rank[ranked] = np.arange(masks.size)
        leaves = np.flatnonzero(np.diff(tree.ptr) == 0)
        target = rank[end[leaves]]
        by_target = np.argsort(target, kind="stable")
        variable = np.bitwise_count((tree.scope[leaves] - 1).view(np.uint64) & ~tree.scope[leaves].view(np.uint64))
        ptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=masks.size))]).astype(np.int64)
        source = rank[begin[leaves]][by_target].astype(np.int32)
        return cls(d, masks[ranked], ptr, source, variable[by_target].astype(np.int16), tree)


ORACLES = {
    "random": regular_kernels.RANDOM,
    "order_mcmc": regular_kernels.ORDER_MCMC,
    "partition_mcmc": regular_kernels.PARTITION_MCMC,
}
MOST_NODES = 50_000_000
_ENUMERATED = 4  # scopes up to this size are enumerated, as in the paper
CHAINS, SETTLE, STATES, THIN = 40, 48, 5, 4  # of the Gibbs orders that measure every support


def grow(
    scores: LocalScores,
    expansion_factors: Sequence[int],
    oracle: str,
    rng: np.random.Generator,
    progressbar: bool = False,
) -> RegularTree:
    """A tree with given numbers of splits; see `OrderSPN.regular`."""
    d = scores.d
    if oracle not in ORACLES:
        raise ValueError(f"oracle must be one of {list(ORACLES)}, got {quoted(oracle)}")
    factors = _factors(expansion_factors, d)
    OrderChain(scores).start(rng)  # refuses scores without any graph, before an oracle meets them
    tables = scores.lookup, scores.offsets, scores.log_sums, ranked_sets(scores), scores.log_scores
    arrays = scores.candidates, scores.slots, *tables, scores.must_precede, scores.precede_sets
    before, scope = np.zeros(1, np.int64), np.array([whole_set(d)])
    all_splits, all_counts = [], []
    with ProgressBar("Splitting variables", len(factors), progressbar) as bar:
        for factor in factors:
            counts, splits = np.empty(before.size, np.int64), np.zeros((before.size, factor), np.int64)
            how = factor, ORACLES[oracle], _ENUMERATED
            regular_kernels.split_level(rng, before, scope, *how, arrays, counts, splits)
            bar.advance()
            all_counts.append(counts)
            owner = np.repeat(np.arange(before.size), counts)
            chosen = splits[np.arange(factor) < counts[:, None]]
            before, scope = (
                np.column_stack([before[owner], before[owner] | chosen]).ravel(),
                np.column_stack([chosen, scope[owner] & ~chosen]).ravel(),
            )
            all_splits.append(chosen)
    all_counts.append(np.zeros(before.size, np.int64))
    ptr = np.concatenate([[0], np.cumsum(np.concatenate(all_counts))])
    return RegularTree(scores.names, np.concatenate(all_splits), ptr)


def _factors(expansion_factors: Any, d: int) -> list[int]:
    """One factor for each level of halving."""
    levels = max(d - 1, 0).bit_length()
    if isinstance(expansion_factors, str) or not isinstance(expansion_factors, Sequence | np.ndarray):
        raise TypeError(f"expansion_factors must be a sequence of integers, got {quoted(expansion_factors)}")
    factors = list(expansion_factors)
    for place, k in enumerate(factors):
        if not is_int(k) or k < 1:
            raise ValueError(f"expansion_factors[{place}] must be an integer of at least 1, got {quoted(k)}")
    if d < 2 or len(factors) != levels:
        raise ValueError(
            f"expansion_factors must have one entry for each of the {levels} levels of {d} variables, got {factors}"
        )
    nodes = 1.0
    for k in factors:
        nodes *= 2 * float(k)
    if nodes > MOST_NODES:
        raise ValueError(
            f"expansion_factors {factors} give up to {nodes:.3g} nodes, more than {MOST_NODES:,}; use smaller factors"
        )
    return [int(k) for k in factors]


def measure[P: Any](post: P, rng: np.random.Generator) -> P:
    """The posterior with the coverage of its support, and a warning where that is below one half.

    Coverage is the share of Gibbs orders inside: chains of their own, some states of each. The error is that between
    chains, at least that of independent orders, and never zero.
    """
    orders = short_chains(post.scores, rng, CHAINS, SETTLE, STATES, THIN)
    inside = post._holds(orders.reshape(-1, post.scores.d)).reshape(CHAINS, STATES).mean(axis=1)
    share = float(inside.mean())
    smoothed = (CHAINS * share + 0.5) / (CHAINS + 1) if share in (0.0, 1.0) else share
    n = CHAINS if share in (0.0, 1.0) else CHAINS * STATES
    error = max(float(inside.std(ddof=1)) / math.sqrt(CHAINS), math.sqrt(smoothed * (1.0 - smoothed) / n))
    post._measured = share, error
    if share < 0.5:
        warn(
            f"the support of this OrderSPN holds {share:.3f} ± {error:.3f} of the posterior over orders. Its answers "
            "can be far from the posterior's, and too certain: take larger expansion_factors, or use ps.DagOrder and "
            "pm.sample, which can reach all orders",
            CoverageWarning,
        )
    return post
