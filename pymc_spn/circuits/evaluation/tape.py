"""A circuit as a tape of operations on a few reusable value slots.

Children are evaluated before their parents, one branch after the other, so that only the values along a branch are
alive. A tree needs about as many slots as it is deep. Leaves below a sum have no slot of their own; they are added to
the sum with their weight in the exponent. A sum or product with many children is worked off in portions. Sums over the
same children are evaluated together: all of them use a portion while it is at hand, then its slots are free again.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import FORM, READING
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.family_codes import TABULATED
from pymc_spn.leaves.kernel_forms import N_FORMS
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view

SUM, PRODUCT, LEAF = 0, 1, 2
ADD, MULTIPLY, LEAVES = 0, 1, 2  # operations
ALONE, FIRST, COVERED = range(3)  # of sums of which four are evaluated together
PORTION = 16  # children of a node that are held at a time


class Tape(NamedTuple):
    """Operations, and the circuit's leaves and edges in the order in which they are used.

    Operation i works on the entries ``begin[i]:end[i]`` of the operand arrays (ADD, MULTIPLY) or of the leaf arrays
    (LEAVES, whose leaves all have one input and form).
    """

    code: np.ndarray  # (n_ops,)
    out: np.ndarray  # (n_ops,) slot
    fresh: np.ndarray  # (n_ops,) whether the slot's old value is overwritten
    together: np.ndarray  # (n_ops,) operations from this one on that add up the same slots, each with its own weights
    begin: np.ndarray  # (n_ops,)
    end: np.ndarray  # (n_ops,)
    operand: np.ndarray  # slots
    operand_edge: np.ndarray  # index into log_weights, -1 below a product
    leaf: np.ndarray  # (L,) leaf number in tape order
    leaf_edge: np.ndarray  # (L,) index into log_weights, -1 for weight one
    leaf_form: np.ndarray  # (L,)
    leaf_input: np.ndarray  # (L,)
    input_column: np.ndarray  # (I,)
    input_reading: np.ndarray  # (I,)
    column_ptr: np.ndarray  # (D+1,) tape positions of the leaves of column d: by_column[column_ptr[d]:...]
    by_column: np.ndarray  # (L,)
    root: int
    n_slots: int


class Layout(NamedTuple):
    """The circuit itself as the kernels read it, in read-only arrays; leaves are numbered in node order."""

    kind: np.ndarray  # (V,)
    child_ptr: np.ndarray  # (V+1,)
    children: np.ndarray  # (E,)
    edge_weight: np.ndarray  # (E,) index into log_weights, one after the other; -1 below a product
    four: np.ndarray  # (V,) code of `fours_of_sums`
    leaf_of_node: np.ndarray  # (V,) leaf number or -1
    node_of_leaf: np.ndarray  # (L,)
    leaf_column: np.ndarray  # (L,)
    leaf_family: np.ndarray  # (L,) position in `families` of the circuit
    leaf_row: np.ndarray  # (L,) row in the family's parameters
    leaf_code: np.ndarray  # (L,) number of its family
    leaf_form: np.ndarray  # (L,)
    leaf_input: np.ndarray  # (L,)
    input_column: np.ndarray  # (I,) of the table; behind its columns those of logs that NumPy works out, one a leaf
    input_reading: np.ndarray  # (I,)


def make_layout(
    kind: np.ndarray,
    child_ptr: np.ndarray,
    children: np.ndarray,
    leaf_column: np.ndarray,
    leaf_family: np.ndarray,
    families: tuple[str, ...],
) -> Layout:
    """Layout of a checked circuit; leaf arrays have one entry per node, as in `Circuit`."""
    kind = np.asarray(kind, np.int64)
    n_nodes = kind.size
    owner = np.repeat(np.arange(n_nodes), np.diff(child_ptr))
    weighted = kind[owner] == SUM
    edge_weight = np.where(weighted, np.cumsum(weighted) - 1, -1)
    leaves = np.flatnonzero(kind == LEAF)
    leaf_of_node = np.full(n_nodes, -1)
    leaf_of_node[leaves] = np.arange(leaves.size)
    family = leaf_family[leaves]
    row = np.zeros(leaves.size, np.int64)
    for f in range(len(families)):
        row[family == f] = np.arange(np.count_nonzero(family == f))
    code = np.array([LEAF_FAMILIES[name].code for name in families], np.int64)[family]
    reading = READING[code]
    tabulated = np.flatnonzero(code == TABULATED)
    column = leaf_column[leaves].astype(np.int64)
    column[tabulated] = column.max() + 1 + np.arange(tabulated.size)  # what each reads: logs, in a column of its own
    pair = column * len(READING) + reading
    inputs, leaf_input = np.unique(pair, return_inverse=True)
    layout = Layout(
        kind=kind,
        child_ptr=np.asarray(child_ptr, np.int64),
        children=np.asarray(children, np.int64),
        edge_weight=edge_weight,
        four=fours_of_sums(kind, child_ptr, children),
        leaf_of_node=leaf_of_node,
        node_of_leaf=leaves,
        leaf_column=leaf_column[leaves].astype(np.int64),
        leaf_family=family.astype(np.int64),
        leaf_row=row,
        leaf_code=code,
        leaf_form=FORM[code].astype(np.int64),
        leaf_input=leaf_input.astype(np.int64),
        input_column=inputs // len(READING),
        input_reading=inputs % len(READING),
    )
    return Layout(*map(read_only_view, layout))


def fours_of_sums(kind: np.ndarray, child_ptr: np.ndarray, children: np.ndarray) -> np.ndarray:
    """Four neighbouring sums over the same children in the same order: FIRST, then thrice COVERED; ALONE for others."""
    out = np.full(kind.size, ALONE)
    size = np.diff(child_ptr)
    v = 0
    for w in np.flatnonzero((kind[3:] == SUM) & (kind[:-3] == SUM) & (size[3:] == size[:-3])).tolist():
        if w < v:
            continue
        own = [children[child_ptr[i] : child_ptr[i + 1]] for i in range(w, w + 4)]
        if all(kind[i] == SUM and np.array_equal(own[0], other) for i, other in enumerate(own, w)):
            out[w], out[w + 1 : w + 4] = FIRST, COVERED
            v = w + 4
    return out


def make_tape(layout: Layout, n_columns: int) -> Tape:
    """Tape of a circuit; heavier children first, the leaves of a sum last and sorted by input and form."""
    n_nodes = layout.kind.size
    owner = np.repeat(np.arange(n_nodes), np.diff(layout.child_ptr))
    uses = np.bincount(layout.children, minlength=n_nodes)
    need = slots_needed(layout.kind, layout.child_ptr, layout.children)
    child = layout.children
    fused = (layout.kind[child] == LEAF) & (uses[child] == 1) & (layout.kind[owner] == SUM)
    leaf = layout.leaf_of_node[child]
    rank = np.where(fused, layout.leaf_input[leaf] * N_FORMS + layout.leaf_form[leaf], -need[child])
    order = np.lexsort((child, rank, fused, owner))
    recorded = record(
        layout.kind,
        layout.child_ptr,
        child[order],
        layout.edge_weight[order],
        fused[order],
        uses,
        layout.leaf_of_node,
        layout.leaf_input,
        layout.leaf_form,
        *sums_over_the_same(layout.kind, layout.child_ptr, child[order], uses),
    )
    n_ops, n_operands, n_leaves, n_slots, root = recorded[-1]
    code, out, fresh, together, begin, end = (a[:n_ops].copy() for a in recorded[:6])
    tape_leaf = recorded[8][:n_leaves].copy()
    column = layout.leaf_column[tape_leaf]
    input_of = layout.leaf_input[tape_leaf]
    by_column = np.lexsort((layout.leaf_form[tape_leaf], input_of, column))
    return Tape(
        code=code,
        out=out,
        fresh=fresh,
        together=together,
        begin=begin,
        end=end,
        operand=recorded[6][:n_operands].copy(),
        operand_edge=recorded[7][:n_operands].copy(),
        leaf=tape_leaf,
        leaf_edge=recorded[9][:n_leaves].copy(),
        leaf_form=layout.leaf_form[tape_leaf],
        leaf_input=input_of,
        input_column=layout.input_column,
        input_reading=layout.input_reading,
        column_ptr=np.searchsorted(column[by_column], np.arange(n_columns + 1)),
        by_column=by_column,
        root=int(root),
        n_slots=int(n_slots),
    )


def sums_over_the_same(
    kind: np.ndarray, child_ptr: np.ndarray, children: np.ndarray, uses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Next sum over the same children (V,), the first after the last, and how many these are (V,); others are alone."""
    following = np.arange(kind.size)
    least_used = np.zeros(kind.size, np.int64)
    inner = np.flatnonzero(np.diff(child_ptr) > 0)
    if inner.size:
        least_used[inner] = np.minimum.reduceat(uses[children], child_ptr[inner])
    found: dict[bytes, list[int]] = {}
    for v in np.flatnonzero((kind == SUM) & (least_used > 1)).tolist():
        found.setdefault(children[child_ptr[v] : child_ptr[v + 1]].tobytes(), []).append(v)
    size = np.ones(kind.size, np.int64)
    for group in found.values():
        following[group] = group[1:] + group[:1]
        size[group] = len(group)
    return following, size


@kernel
def slots_needed(kind, child_ptr, children):
    """Rough number of slots below each node, by which its children are ordered."""
    need = np.ones(kind.size, np.int64)
    for v in range(kind.size - 1, -1, -1):
        first, second = 0, 0
        for e in range(child_ptr[v], child_ptr[v + 1]):
            c = children[e]
            if kind[c] == LEAF:
                continue
            if need[c] >= first:
                first, second = need[c], first
            elif need[c] > second:
                second = need[c]
        if first > 0:
            need[v] = max(first, second + 1) + (1 if kind[v] == SUM else 0)
    return need


@kernel
def record(
    kind, child_ptr, children, edge_weight, fused, uses, leaf_of_node, leaf_input, leaf_form, following, size
):  # fmt: skip
    """Depth-first walk that writes the operations; children come in the order in which they are to be evaluated.

    Parameters
    ----------
    following, size : (V,) int64
        As `sums_over_the_same`. The first sum of a group that is reached stands for all of them.
    """
    n_nodes, n_edges = kind.size, children.size
    limit = 2 * n_nodes + n_edges + 1
    code = np.empty(limit, np.int64)
    out = np.empty(limit, np.int64)
    fresh = np.empty(limit, np.int64)
    together = np.ones(limit, np.int64)
    begin = np.empty(limit, np.int64)
    end = np.empty(limit, np.int64)
    operand = np.empty(n_edges + 1, np.int64)
    operand_edge = np.empty(n_edges + 1, np.int64)
    leaf = np.empty(n_nodes, np.int64)
    leaf_edge = np.empty(n_nodes, np.int64)
    slot = np.full(n_nodes, -1, np.int64)
    is_done = np.zeros(n_nodes, np.bool_)
    remaining = uses.copy()
    cursor = child_ptr[:-1].copy()
    pending = child_ptr[:-1].copy()  # first child that is evaluated and not yet worked in
    free = np.empty(n_nodes, np.int64)
    n_free, n_slots, n_ops, n_operands, n_leaves = 0, 0, 0, 0, 0
    stack = np.empty(n_nodes, np.int64)
    stack[0], depth = 0, 1
    while depth > 0:
        v = stack[depth - 1]
        at = cursor[v]
        if kind[v] != LEAF and at < child_ptr[v + 1] and not fused[at]:
            c = children[at]
            if not is_done[c]:
                stack[depth] = c
                depth += 1
                continue
            cursor[v] += 1
            at += 1
        is_last = kind[v] == LEAF or at == child_ptr[v + 1] or fused[at]
        if not is_last and at - pending[v] < PORTION:
            continue
        is_fresh, m = slot[v] < 0, v
        for _ in range(size[v] if is_fresh else 0):
            if n_free > 0:
                n_free -= 1
                slot[m] = free[n_free]
            else:
                slot[m] = n_slots
                n_slots += 1
            m = following[m]
        if kind[v] == LEAF:
            code[n_ops], out[n_ops], fresh[n_ops] = LEAF, slot[v], is_fresh
            leaf[n_leaves], leaf_edge[n_leaves] = leaf_of_node[v], -1
            begin[n_ops], end[n_ops] = n_leaves, n_leaves + 1
            n_leaves += 1
            n_ops += 1
            is_fresh = False
        elif at > pending[v]:
            first = pending[v] - child_ptr[v]
            for left in range(size[v], 0, -1):
                code[n_ops], out[n_ops], fresh[n_ops], together[n_ops] = kind[v], slot[m], is_fresh, left
                begin[n_ops] = n_operands
                for e in range(child_ptr[m] + first, child_ptr[m] + at - child_ptr[v]):
                    operand[n_operands], operand_edge[n_operands] = slot[children[e]], edge_weight[e]
                    n_operands += 1
                end[n_ops] = n_operands
                n_ops += 1
                m = following[m]
            for e in range(pending[v], at):
                c = children[e]
                remaining[c] -= size[v]
                if remaining[c] == 0:
                    free[n_free] = slot[c]
                    n_free += 1
            pending[v] = at
            is_fresh = False
        if not is_last:
            continue
        e = at
        while kind[v] == SUM and e < child_ptr[v + 1]:  # runs of leaves with one input and form
            k = leaf_of_node[children[e]]
            code[n_ops], out[n_ops], fresh[n_ops], begin[n_ops] = LEAVES, slot[v], is_fresh, n_leaves
            input_of, form = leaf_input[k], leaf_form[k]
            while e < child_ptr[v + 1] and leaf_input[k] == input_of and leaf_form[k] == form:
                leaf[n_leaves], leaf_edge[n_leaves] = k, edge_weight[e]
                n_leaves += 1
                e += 1
                if e < child_ptr[v + 1]:
                    k = leaf_of_node[children[e]]
            end[n_ops] = n_leaves
            n_ops += 1
            is_fresh = False
        for _ in range(size[v]):
            is_done[m] = True
            m = following[m]
        depth -= 1
    return (
        code, out, fresh, together, begin, end, operand, operand_edge, leaf, leaf_edge,
        (n_ops, n_operands, n_leaves, n_slots, slot[0]),
    )  # fmt: skip
