"""The paper's order sum-product network: a tree of splits of the variables into an earlier and a later part."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags import regular_kernels
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.mcmc_chain import OrderChain, ranked_sets, short_chains
from pymc_spn.dags.prefix_lattice import PrefixLattice, whole_set
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES, CoverageWarning


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
        If the arrays are not such a tree, or a sum is not deterministic. Then a split occurs twice in it, or one of its
        splits is part of another, so that some order belongs to both.

    References
    ----------
    Wang, Wicker and Kwiatkowska (2022), arXiv:2204.14170, definition 1. The rule for splits of different sizes is ours.
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
        sizes = np.bitwise_count(self.scope.view(np.uint64)).astype(np.int64)
        wrong = (np.diff(self.ptr) > 0) != (sizes > 1)
        if wrong.any():
            t = int(np.argmax(wrong))
            raise ValueError(
                f"node {t} orders {self._words(self.scope[t])} and has {self.ptr[t + 1] - self.ptr[t]} splits"
            )
        self.check_deterministic()

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
        """Splits of a sum must be distinct and none part of another.

        Raises
        ------
        ValueError
            Naming the node and two splits.
        """
        for t in np.flatnonzero(np.diff(self.ptr) > 1):
            splits = self.splits[self.ptr[t] : self.ptr[t + 1]]
            sizes = np.bitwise_count(splits.view(np.uint64))
            values, counts = np.unique(splits, return_counts=True)
            if counts.max() > 1:
                twice = self._words(values[np.argmax(counts)])
                raise ValueError(f"node {t} has the split {twice} twice: its orders would count twice")
            if sizes.min() == sizes.max():
                continue
            part = (splits[:, None] & ~splits[None, :]) == 0
            np.fill_diagonal(part, False)
            if part.any():
                a, b = np.argwhere(part)[0]
                raise ValueError(
                    f"splits of node {t} must be an antichain: {self._words(splits[a])} is part of "
                    f"{self._words(splits[b])}, and orders that begin with one and go on to the other count twice"
                )

    def _words(self, mask: Any) -> str:
        return "{" + ", ".join(n for i, n in enumerate(self.names) if int(mask) >> i & 1) + "}"

    # ---- sizes

    @property
    def n_products(self) -> int:
        """Number of products."""
        return int(self.ptr[-1])

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(np.diff(self.ptr) == 0))

    @property
    def n_edges(self) -> int:
        """Number of edges of the network: below sums and below products."""
        return 3 * self.n_products

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
        return (
            f"RegularTree({len(self.names)} variables, {self.n_products:,} products, {self.n_leaves:,} leaves, "
            f"{float(self.n_orders()):.3g} orders)"
        )

    # ---- other forms

    def holds(self, orders: Any) -> np.ndarray:
        """Whether each order, a row of variable numbers, lies in the support."""
        orders = np.asarray(orders, np.int64)
        prefixes = np.hstack([np.zeros((len(orders), 1), np.int64), np.cumsum(np.int64(1) << orders, axis=1)])
        return np.array([self._holds(own) for own in prefixes], bool)

    def _holds(self, prefixes: np.ndarray) -> bool:
        """Whether the prefixes of one order run through the tree."""
        splits, sizes = self.splits, np.bitwise_count(self.splits.view(np.uint64))
        waiting = [(0, 0)]  # nodes, and the place of their first variable in the order
        while waiting:
            t, begin = waiting.pop()
            own = slice(self.ptr[t], self.ptr[t + 1])
            if own.start == own.stop:
                continue
            fits = np.flatnonzero(prefixes[begin + sizes[own]] & ~prefixes[begin] == splits[own])
            if not fits.size:
                return False
            p = own.start + int(fits[0])
            waiting += [(2 * p + 1, begin), (2 * p + 2, begin + int(sizes[p]))]
        return True

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

    def holds(self, orders: Any) -> np.ndarray:
        """Whether each order, a row of variable numbers, lies in the tree."""
        return self.tree.holds(orders)

    def __repr__(self) -> str:
        return repr(self.tree)


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
    ranked = ranked_sets(scores)
    before, scope = np.zeros(1, np.int64), np.array([whole_set(d)])
    all_splits, all_counts = [], []
    with ProgressBar("Splitting variables", len(factors), progressbar) as bar:
        for factor in factors:
            counts, splits = np.empty(before.size, np.int64), np.zeros((before.size, factor), np.int64)
            regular_kernels.split_level(
                rng, before, scope, factor, ORACLES[oracle], _ENUMERATED, scores.candidates, scores.slots,
                scores.lookup, scores.offsets, scores.log_sums, ranked, scores.log_scores, scores.must_precede,
                scores.precede_sets, counts, splits,
            )  # fmt: skip
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
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
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
        warnings.warn(
            f"the support of this OrderSPN holds {share:.3f} ± {error:.3f} of the posterior over orders. Its answers "
            "can be far from the posterior's, and too certain: take larger expansion_factors, or use ps.DagOrder and "
            "pm.sample, which can reach all orders",
            CoverageWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return post
