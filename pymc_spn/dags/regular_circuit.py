"""A regular order sum-product network as an explicit `Circuit` with its parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.regular_tree import RegularTree
from pymc_spn.numerics.memory_limits import refuse_memory


@dataclass(frozen=True, eq=False)
class TreeCircuit:
    """A circuit over orders, or over orders and graphs, and its parameters.

    Column ``before_<name>`` holds the number of the set of variables that stand before a variable; the last level
    stands for every set that the tree does not hold. Column ``parents_<name>`` holds the number of its parent set, a
    subset index of `LocalScores`.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to array
        As `Circuit.with_parameters` wants them.
    prefixes : tuple of (k,) int64 arrays
        By variable: the sets behind the levels of its column, as bits.
    """

    circuit: Circuit
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]
    prefixes: tuple[np.ndarray, ...]

    def code_orders(self, orders: Any) -> np.ndarray:
        """(n, d) float64 values of the columns ``before_<name>`` for orders, rows of variable numbers."""
        orders = np.asarray(orders, np.int64)
        out = np.empty(orders.shape)
        before = np.zeros(len(orders), np.int64)
        for p in range(orders.shape[1]):
            for s, i in enumerate(orders[:, p]):
                known = self.prefixes[i]
                place = int(np.searchsorted(known, before[s]))
                out[s, i] = place if place < known.size and known[place] == before[s] else known.size
            before |= np.left_shift(np.int64(1), orders[:, p])
        return out

    def code_graphs(self, graphs: Any, scores: LocalScores) -> np.ndarray:
        """(n, d) float64 values of the columns ``parents_<name>`` for graphs, (n, d, d) bool, parents by children."""
        graphs = np.asarray(graphs, bool)
        masks = (graphs.astype(np.int64) * (1 << np.arange(scores.d))[:, None]).sum(axis=1)
        return np.array([[scores.index_of_parents(i, int(m)) for i, m in enumerate(row)] for row in masks], float)


def tree_circuit(tree: RegularTree, scores: LocalScores, parents: bool, max_gigabytes: float) -> TreeCircuit:
    """See `RegularTree.to_circuit`; equal leaves are shared."""
    d = len(tree.names)
    log_weights = tree.log_weights(scores)
    if not np.isfinite(log_weights).all():
        raise ValueError("some splits of the tree have no weight under these scores; a circuit needs them all")
    inner = np.diff(tree.ptr) > 0
    leaf_nodes = np.flatnonzero(~inner)
    variable = np.bitwise_count((tree.scope[leaf_nodes] - 1).view(np.uint64) & ~tree.scope[leaf_nodes].view(np.uint64))
    keys = np.column_stack([variable.astype(np.int64), tree.before[leaf_nodes]])
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.ravel()
    level_of, prefixes = np.empty(len(distinct), np.int64), []
    for i in range(d):
        mine = np.flatnonzero(distinct[:, 0] == i)
        level_of[mine] = np.arange(mine.size)  # rows of one variable are sorted by prefix
        prefixes.append(distinct[mine, 1])
    n_levels = 1 + max(p.size for p in prefixes)
    width = max(n_levels, int(np.left_shift(1, scores.n_candidates.max()))) if parents else n_levels
    n_leaves = len(distinct) * (2 if parents else 1)
    advice = "keep the OrderSPN, which shares tables"
    refuse_memory(f"the circuit with {n_leaves:,} leaves", 16.0 * n_leaves * width, advice, max_gigabytes)
    depth = _depths(tree)
    owner = np.repeat(np.arange(tree.before.size), np.diff(tree.ptr))
    sums = np.flatnonzero(inner)
    rank = np.argsort(np.concatenate([2 * depth[sums], 2 * depth[owner] + 1]), kind="stable")
    number = np.empty(rank.size, np.int64)
    number[rank] = np.arange(rank.size)
    sum_number = np.full(tree.before.size, -1)
    sum_number[sums] = number[: sums.size]
    product_number = number[sums.size :]
    first_leaf = rank.size
    leaf_number = np.full(tree.before.size, -1)
    leaf_number[leaf_nodes] = first_leaf + which * (2 if parents else 1)
    children: list[list[int]] = [[] for _ in range(first_leaf + n_leaves)]
    for t in sums:
        children[sum_number[t]] = product_number[tree.ptr[t] : tree.ptr[t + 1]].tolist()
    for part in range(1, tree.before.size):
        leaves = [leaf_number[part], leaf_number[part] + 1][: 2 if parents else 1]
        below = [sum_number[part]] if inner[part] else leaves
        children[product_number[(part - 1) // 2]] += [int(b) for b in below]
    kind = np.full(len(children), LEAF)
    kind[sum_number[sums]], kind[product_number] = SUM, PRODUCT
    column, family = np.full(len(children), -1), np.full(len(children), -1)
    family[first_leaf:] = 0
    table = np.zeros((n_leaves, width))
    support: list[int | None] = []
    for q, (leaf_variable, before) in enumerate(distinct.tolist()):
        at = q * (2 if parents else 1)
        column[first_leaf + at] = leaf_variable
        table[at, level_of[q]] = 1.0
        support.append(1 << int(level_of[q]))
        if parents:
            column[first_leaf + at + 1] = d + leaf_variable
            chances = _parent_sets(scores, leaf_variable, before)
            table[at + 1, : chances.size] = chances
            support.append(None)
    names = [f"before_{n}" for n in tree.names] + ([f"parents_{n}" for n in tree.names] if parents else [])
    circuit = Circuit(
        kind,
        np.concatenate([[0], np.cumsum([len(c) for c in children])]),
        np.array([b for c in children for b in c], np.int64),
        column,
        family,
        ("categorical",),
        tuple(names),
        tuple(support),
    )
    ordered = np.argsort(sum_number[owner], kind="stable")  # products of a sum stay in their order
    return TreeCircuit(circuit, log_weights[ordered], {"categorical": table}, tuple(prefixes))


def _depths(tree: RegularTree) -> np.ndarray:
    depth = np.zeros(tree.before.size, np.int64)
    for t in range(tree.before.size):
        depth[2 * tree.ptr[t] + 1 : 2 * tree.ptr[t + 1] + 1] = depth[t] + 1
    return depth


def _parent_sets(scores: LocalScores, i: int, before: int) -> np.ndarray:
    """(2^k,) probability of every parent set of a variable behind a prefix."""
    inside = scores.index_of_parents(i, before & scores.candidate_sets[i])
    logs = scores.log_scores[scores.offsets[i] : scores.offsets[i + 1]]
    logs = np.where(np.arange(logs.size) & ~inside == 0, logs, -np.inf)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
