"""Log densities of rows, and their gradient, where weights or leaf parameters are each row's own.

The passes of `flows` over blocks of one row: all arrays are made once, and each row puts its own parameters into them.
"""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.flows import make_block, pass_block, values_of_block
from pymc_spn.circuits.evaluation.gradient import add_leaf_gradient
from pymc_spn.circuits.evaluation.node_values import NOWHERE, fill_coefficients
from pymc_spn.circuits.evaluation.packed_layout import (
    are_normalised,
    are_within_bounds,
    rows_and_gradient_of,
    rows_of,
    unpack,
)
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view


@register_jitable
def rows_given(packed, values, log_weights, theta):
    """Log densities (N,) of rows (N, D) given parameters of all rows or of each row's own.

    Parameters
    ----------
    log_weights : (n_sum_edges,) or (N, n_sum_edges) float64
    theta : (P,) or (N, P) float64
        As `packed_layout.pack` was told where each family's parameters begin.

    Returns
    -------
    (N,) float64
        In nats; ``-inf`` where the parameters are none of a circuit: for all rows if they are those of all.
    """
    if log_weights.ndim == 1 and theta.ndim == 1:
        return rows_of(packed, values, log_weights, theta)
    check_rows(values, log_weights, theta)
    return _rows_given(
        read_only_view(packed),
        read_only_view(values),
        read_only_view(as_table(log_weights)),
        read_only_view(as_table(theta)),
    )


@register_jitable
def rows_and_gradient_given(packed, values, log_weights, theta, cotangent):
    """Log densities as `rows_given`, and the gradient of their sum weighted by a cotangent (N,).

    Returns
    -------
    rows, grad_weights, grad_theta, grad_values
        The gradients have the shapes of what they are gradients in. Rows of ``-inf`` add nothing.
    """
    if log_weights.ndim == 1 and theta.ndim == 1:
        return rows_and_gradient_of(packed, values, log_weights, theta, cotangent)
    check_rows(values, log_weights, theta)
    rows, grad_weights, grad_theta, grad_values = _rows_and_gradient_given(
        read_only_view(packed),
        read_only_view(values),
        read_only_view(as_table(log_weights)),
        read_only_view(as_table(theta)),
        read_only_view(cotangent),
    )
    return rows, grad_weights.reshape(log_weights.shape), grad_theta.reshape(theta.shape), grad_values


@register_jitable
def as_table(parameters):
    """Parameters (M, n), M = 1 where they are those of all rows."""
    return parameters.reshape((parameters.shape[0] if parameters.ndim == 2 else 1, parameters.shape[-1]))


@register_jitable
def check_rows(values, log_weights, theta):
    """Refuse parameters of each row's own unless there are as many rows of them as of values."""
    n = values.shape[0]
    if log_weights.ndim == 2 and log_weights.shape[0] != n:
        raise ValueError(f"log_weights must have one row for each of the {n} of a CircuitDensity, got {log_weights.shape[0]}")
    if theta.ndim == 2 and theta.shape[0] != n:
        raise ValueError(f"leaf_parameters must have one row for each of the {n} of a CircuitDensity, got {theta.shape[0]}")


@kernel
def _rows_given(packed, values, log_weights, theta):
    layout, begin, width = unpack(packed)
    out = np.full(values.shape[0], -math.inf)
    if values.shape[0] == 0:
        return out
    at = make_block(layout, log_weights[0], theta[0], begin, width, values.shape[1], 1)
    one = np.empty(4)
    for n in range(values.shape[0]):
        if not load_parameters(layout, begin, width, log_weights, theta, n, one, at):
            continue
        values_of_block(layout, log_weights[row_at(log_weights, n)], at, values, n)
        if at.roots[0] > NOWHERE:
            out[n] = at.roots[0]
    return out


@kernel
def _rows_and_gradient_given(packed, values, log_weights, theta, cotangent):
    layout, begin, width = unpack(packed)
    out = np.full(values.shape[0], -math.inf)
    grad_weights, grad_theta = np.zeros(log_weights.shape), np.zeros(theta.shape)
    grad_values = np.zeros(values.shape)
    if values.shape[0] == 0:
        return out, grad_weights, grad_theta, grad_values
    at = make_block(layout, log_weights[0], theta[0], begin, width, values.shape[1], 1)
    flow, one = np.empty((layout.kind.size, 1)), np.empty(4)
    for n in range(values.shape[0]):
        if not load_parameters(layout, begin, width, log_weights, theta, n, one, at):
            continue
        w, t = row_at(log_weights, n), row_at(theta, n)
        pass_block(layout, log_weights[w], at, values, n, cotangent, flow, grad_weights[w], out)
        for k in range(layout.node_of_leaf.size):
            add_leaf_gradient(
                layout, k, theta[t], begin, width,
                values, n, 1, at.u, at.present, flow[layout.node_of_leaf[k]], grad_theta[t], grad_values,
            )  # fmt: skip
    return out, grad_weights, grad_theta, grad_values


@inner_kernel
def row_at(parameters, n):
    """Where row n of the table has its parameters: in the only row if they are those of all."""
    return n if parameters.shape[0] > 1 else 0


@inner_kernel
def load_parameters(layout, begin, width, log_weights, theta, n, one, block):
    """Put the parameters of row n into the block, which was made with those of row 0; False if they are invalid."""
    if n > 0 and log_weights.shape[0] > 1:
        for e in range(block.weight.size):
            block.weight[e] = math.exp(log_weights[n, e])
    own = theta[row_at(theta, n)]
    if not (are_normalised(layout, block.weight) and are_within_bounds(layout, begin, width, own)):
        return False
    if n > 0 and theta.shape[0] > 1:
        fill_coefficients(layout, own, begin, width, one, block.coefficients, block.table)
    return True
