"""The paper's order sum-product network: a tree of splits of the variables into an earlier and a later part."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags import regular_kernels
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.prefix_lattice import PrefixLattice, whole_set
from pymc_spn.numerics.quoted_values import quoted


@dataclass(frozen=True, eq=False, repr=False)
class RegularTree:
    """Sums over splits, products of an earlier and a later part, leaves of one variable each.

    Nodes (sums and leaves) are numbered level by level from the root 0. Product p has the children 2 p + 1 (earlier)
    and 2 p + 2 (later); the products of sum t are ``ptr[t]:ptr[t + 1]``, none for a leaf.

    Parameters
    ----------
    names : tuple of str
        The d variables.
    before : (n,) int64
        Variables that stand before those of the node, as bits.
    scope : (n,) int64
        Variables that the node orders.
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
    before: np.ndarray
    scope: np.ndarray
    ptr: np.ndarray

    def __post_init__(self) -> None:
        for name in ("before", "scope", "ptr"):
            array = np.array(getattr(self, name), np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        n = self.before.size
        if self.scope.size != n or self.ptr.size != n + 1 or n != 2 * int(self.ptr[-1]) + 1 or self.ptr[0] != 0:
            raise ValueError(
                f"before, scope and ptr must have n, n and n + 1 entries with n = 2 products + 1; got {n}, "
                f"{self.scope.size}, {self.ptr.size} and {int(self.ptr[-1])} products"
            )
        if self.before[0] != 0 or self.scope[0] != whole_set(len(self.names)):
            raise ValueError("the root must order all variables, with none before it")
        sizes = np.bitwise_count(self.scope.view(np.uint64)).astype(np.int64)
        wrong = (np.diff(self.ptr) > 0) != (sizes > 1)
        if wrong.any():
            t = int(np.argmax(wrong))
            raise ValueError(
                f"node {t} orders {self._words(self.scope[t])} and has {self.ptr[t + 1] - self.ptr[t]} splits"
            )
        self._check_products()
        self.check_deterministic()

    def _check_products(self) -> None:
        owner = np.repeat(np.arange(self.before.size), np.diff(self.ptr))
        first, second = self.scope[1::2], self.scope[2::2]
        fits = (first | second) == self.scope[owner]
        fits &= (first & second) == 0
        fits &= (first != 0) & (second != 0)
        fits &= self.before[1::2] == self.before[owner]
        fits &= self.before[2::2] == (self.before[owner] | first)
        if not fits.all():
            p = int(np.argmin(fits))
            raise ValueError(
                f"product {p} of node {owner[p]} must split {self._words(self.scope[owner[p]])} into an earlier and a "
                f"later part; got {self._words(first[p])} and {self._words(second[p])}"
            )

    def check_deterministic(self) -> None:
        """Splits of a sum must be distinct and none part of another.

        Raises
        ------
        ValueError
            Naming the node and two splits.
        """
        for t in np.flatnonzero(np.diff(self.ptr) > 1):
            splits = self.scope[1::2][self.ptr[t] : self.ptr[t + 1]]
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

    # ---- weights

    def log_weights(self, scores: LocalScores) -> np.ndarray:
        """(n_products,) log weights of the children of sums that maximise the evidence lower bound, in closed form.

        They are each child's share of its sum's weight, and need no optimisation; the bound is then `log_mass`.
        """
        return self._weigh(scores)[1]

    def log_mass(self, scores: LocalScores) -> float:
        """Log of the summed weight of all pairs of order and graph in the support: the largest lower bound."""
        return float(self._weigh(scores)[0][0])

    def _weigh(self, scores: LocalScores) -> tuple[np.ndarray, np.ndarray]:
        if scores.names != self.names:
            raise ValueError(
                f"scores must be of the tree's variables {quoted(list(self.names))}, got {quoted(list(scores.names))}"
            )
        values, log_weights = np.empty(self.before.size), np.empty(self.n_products)
        arrays = scores.lookup, scores.offsets, scores.log_sums
        regular_kernels.node_log_weights(self.before, self.scope, self.ptr, *arrays, values, log_weights)
        return values, log_weights

    # ---- other forms

    def holds(self, orders: Any) -> np.ndarray:
        """Whether each order, a row of variable numbers, lies in the support."""
        orders = np.ascontiguousarray(orders, np.int64)
        out = np.empty(len(orders), bool)
        regular_kernels.orders_inside_tree(orders, self.scope, self.ptr, out)
        return out

    @cached_property
    def paths(self) -> "TreePaths":
        """The tree as a graph of prefixes in context, with the tree's orders and no other."""
        return TreePaths.of(self)

    @classmethod
    def from_splits(cls, names: Any, splits: Any, ptr: Any) -> "RegularTree":
        """Tree from the earlier part of every product, in the order of the products."""
        names = tuple(names)
        ptr = np.asarray(ptr, np.int64)
        before, scope = np.zeros(ptr.size - 1, np.int64), np.zeros(ptr.size - 1, np.int64)
        scope[0] = whole_set(len(names))
        for t in range(before.size):
            for p in range(ptr[t], ptr[t + 1]):
                before[2 * p + 1], scope[2 * p + 1] = before[t], splits[p]
                before[2 * p + 2], scope[2 * p + 2] = before[t] | splits[p], scope[t] & ~splits[p]
        return cls(names, before, scope, ptr)


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
