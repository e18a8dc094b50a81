"""A circuit's layout as one integer vector, so that compiled code for one circuit serves all; random rows from it."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.circuit_layout import SUM, Layout
from pymc_spn.circuits.evaluation.circuit_passes import descend_at_random, log_densities_of_rows, node_coefficients
from pymc_spn.circuits.evaluation.gradient import log_densities_and_gradient
from pymc_spn.leaves.explicit_leaves import KERNELS
from pymc_spn.leaves.leaf_dispatch import by_family
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.read_only_views import read_only_view

TOLERANCE = 1e-5  # how far weights may be from adding up to 1
HEADER = len(Layout._fields) + 3  # number of columns, number of families, where each array ends


def _no_number(rng, theta):
    return math.nan


def _anything(theta):
    return True


# one random value from a leaf, and whether parameters are those of one
draw_leaf = by_family(
    "draw_leaf",
    "code",
    [(code, kernels.draw) for code, kernels in KERNELS.items()],
    inner_kernel,
    __file__,
    otherwise=_no_number,
)
are_of_leaf = by_family(
    "are_of_leaf",
    "code",
    [(code, kernels.are_valid) for code, kernels in KERNELS.items()],
    bare_inner_kernel,
    __file__,
    otherwise=_anything,
)


def pack(layout: Layout, n_columns: int, begin: np.ndarray, width: np.ndarray) -> np.ndarray:
    """One int64 vector of the layout, then where each family's parameters begin and how wide a row is."""
    arrays = [np.asarray(a, np.int64) for a in layout] + [np.asarray(begin, np.int64), np.asarray(width, np.int64)]
    ends = np.cumsum([a.size for a in arrays])
    return np.concatenate([[n_columns], ends, *arrays])


@inner_kernel
def field(packed, i):
    """Array number i of the vector that `pack` made."""
    first = packed[i] if i > 0 else 0
    return packed[HEADER + first : HEADER + packed[i + 1]]


@inner_kernel
def unpack(packed):
    """The layout, and begin and width of the families' parameters."""
    layout = Layout(
        field(packed, 0), field(packed, 1), field(packed, 2), field(packed, 3), field(packed, 4), field(packed, 5),
        field(packed, 6), field(packed, 7), field(packed, 8), field(packed, 9), field(packed, 10), field(packed, 11),
        field(packed, 12), field(packed, 13), field(packed, 14), field(packed, 15),
    )  # fmt: skip
    return layout, field(packed, 16), field(packed, 17)


@inner_kernel
def is_valid(layout, begin, width, log_weights, theta):
    """Whether weights add up to one at each sum and every leaf's parameters are within their bounds."""
    return are_normalised(layout, np.exp(log_weights)) and are_within_bounds(layout, begin, width, theta)


@bare_inner_kernel
def are_normalised(layout, weight):
    """Whether the weights (n_sum_edges,), not their logs, add up to one at each sum."""
    for v in range(layout.kind.size):
        if layout.kind[v] == SUM:
            total = 0.0
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                total += weight[layout.edge_weight[e]]
            if not abs(total - 1.0) < TOLERANCE:
                return False
    return True


@bare_inner_kernel
def are_within_bounds(layout, begin, width, theta):
    """Whether every leaf's parameters are within their bounds."""
    for k in range(layout.leaf_row.size):
        f = layout.leaf_family[k]
        first = begin[f] + layout.leaf_row[k] * width[f]
        if not are_of_leaf(layout.leaf_code[k], theta[first : first + width[f]]):
            return False
    return True


@register_jitable
def rows_of(packed, values, log_weights, theta):
    """Log densities (N,) of rows (N, D); ``-inf`` for all if the parameters are none of a circuit."""
    return _rows_of(read_only_view(packed), read_only_view(values), read_only_view(log_weights), read_only_view(theta))


@kernel
def _rows_of(packed, values, log_weights, theta):
    layout, begin, width = unpack(packed)
    out = np.full(values.shape[0], -math.inf)
    if not is_valid(layout, begin, width, log_weights, theta):
        return out
    block = LANES * min(4, (values.shape[0] + LANES - 1) // LANES)
    leaves = node_coefficients(layout, theta, begin, width)
    log_densities_of_rows(layout, log_weights, np.exp(log_weights), *leaves, values, block, out)
    return out


@register_jitable
def rows_and_gradient_of(packed, values, log_weights, theta, cotangent):
    """Log densities and the gradient in log weights, leaf parameters and values; zero where `rows_of` is ``-inf``."""
    return _rows_and_gradient_of(
        read_only_view(packed),
        read_only_view(values),
        read_only_view(log_weights),
        read_only_view(theta),
        read_only_view(cotangent),
    )


@kernel
def _rows_and_gradient_of(packed, values, log_weights, theta, cotangent):
    layout, begin, width = unpack(packed)
    out = np.full(values.shape[0], -math.inf)
    grad_weights, grad_theta = np.zeros(log_weights.size), np.zeros(theta.size)
    grad_values = np.zeros(values.shape)
    if not is_valid(layout, begin, width, log_weights, theta):
        return out, grad_weights, grad_theta, grad_values
    block = LANES * min(4, (values.shape[0] + LANES - 1) // LANES)
    log_densities_and_gradient(
        layout, log_weights, theta, begin, width, values, cotangent, block, grad_weights, grad_theta, grad_values,
        out,
    )  # fmt: skip
    return out, grad_weights, grad_theta, grad_values


@register_jitable
def draw_row(rng, packed, log_weights, theta):
    """One random row (D,), from the root down."""
    return _draw_row(rng, read_only_view(packed), read_only_view(log_weights), read_only_view(theta))


@kernel
def _draw_row(rng, packed, log_weights, theta):
    layout, begin, width = unpack(packed)
    out, n_nodes = np.empty(packed[0]), layout.kind.size
    leaf, stack = np.empty(out.size, np.int64), np.empty(n_nodes, np.int64)
    descend_at_random(rng, layout, log_weights, np.exp(log_weights), np.ones((n_nodes, 1)), True, 0, stack, leaf)
    for d in range(out.size):
        k = leaf[d]
        f = layout.leaf_family[k]
        at = begin[f] + layout.leaf_row[k] * width[f]
        out[d] = draw_leaf(layout.leaf_code[k], rng, theta[at : at + width[f]])
    return out
