"""A leaf of every column for each row, down from the root, at random by the values of all nodes."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.layout import LEAF, PRODUCT
from pymc_spn.circuits.evaluation.node_values import NOWHERE
from pymc_spn.circuits.evaluation.passes import make_block, values_of_block
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def draw_leaves(rng, layout, log_weights, weight, coefficients, table, values, block, leaf, out):
    """Leaf of each column (N, D) on an induced tree of each row, drawn given the observed cells.

    Parameters
    ----------
    block : int
        Rows at a time.
    leaf : (N, D) int64
        Out: leaf numbers in node order; not set for rows of density zero.
    out : (N,) float64
        Out: log density of what is observed.
    """
    at = make_block(layout, weight, coefficients, table, block)
    stack = np.empty(layout.kind.size, np.int64)
    is_prior = False  # what the nodes hold
    for first in range(0, values.shape[0], block):
        n = min(block, values.shape[0] - first)
        is_linear = True
        if not is_blank(values, first, n):
            is_linear, is_prior = values_of_block(layout, log_weights, at, values, first), False
        elif not is_prior:
            at.nodes[:] = 1.0
            at.roots[:] = 0.0
            is_prior = True
        for i in range(n):
            out[first + i] = at.roots[i] if at.roots[i] > NOWHERE else -math.inf
            if at.roots[i] > NOWHERE:
                descend_at_random(
                    rng, layout, log_weights, at.weight, at.nodes, is_linear, i, stack, leaf[first + i]
                )  # fmt: skip


@kernel
def draw_leaves_of_logs(rng, layout, log_weights, logs, leaf):
    """Leaf of each column (N, D) on induced trees drawn by the same logs (V, 1) of all nodes."""
    stack = np.empty(layout.kind.size, np.int64)
    for n in range(leaf.shape[0]):
        descend_at_random(rng, layout, log_weights, log_weights, logs, False, 0, stack, leaf[n])


@inner_kernel
def is_blank(values, first, n):
    """Whether some rows of a table have no observed cell."""
    for i in range(first, first + n):
        for d in range(values.shape[1]):
            if not math.isnan(values[i, d]):
                return False
    return True


@inner_kernel
def descend_at_random(rng, layout, log_weights, weight, nodes, is_linear, i, stack, leaf):
    """Leaves (D,) of the tree that is drawn for row i of a block: at each sum a child by its share in the value.

    Nodes (V, B) hold values, in which ``weight`` are the edges' weights, or their logs.
    """
    stack[0], depth = 0, 1
    while depth > 0:
        depth -= 1
        v = stack[depth]
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == LEAF:
            k = layout.leaf_of_node[v]
            leaf[layout.leaf_column[k]] = k
        elif layout.kind[v] == PRODUCT:
            for e in range(begin, end):
                stack[depth] = layout.children[e]
                depth += 1
        else:
            chosen, left = end - 1, rng.random()
            if is_linear:
                left *= nodes[v, i]
            for e in range(begin, end):
                if is_linear:
                    share = weight[layout.edge_weight[e]] * nodes[layout.children[e], i]
                else:
                    log_weight = max(log_weights[layout.edge_weight[e]], IMPOSSIBLE)
                    share = math.exp(log_weight + nodes[layout.children[e], i] - nodes[v, i])
                if share > 0.0:
                    chosen = e  # rounding may leave the last possible child's share too small
                    left -= share
                    if left < 0.0:
                        break
            stack[depth] = layout.children[chosen]
            depth += 1
