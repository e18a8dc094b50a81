"""Log densities of rows, and their gradient, where weights or leaf parameters are each row's own.

All arrays are made once, for a block of one row, and each row puts its own parameters into them. The recursion is that
of `flows` with numbers in place of rows of a block: loops over one row took twice the time. Rows that linear space
would lose run in `flows` itself, by logs.
"""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.flows import make_block, send_flows, values_of_block
from pymc_spn.circuits.evaluation.gradient import add_leaf_gradient, add_lost_levels
from pymc_spn.circuits.evaluation.leaf_forms import read_values
from pymc_spn.circuits.evaluation.linear_pass import SMALLEST
from pymc_spn.circuits.evaluation.node_values import NOWHERE, fill_coefficients, leaf_logs
from pymc_spn.circuits.evaluation.packed_layout import (
    are_normalised,
    are_within_bounds,
    rows_and_gradient_of,
    rows_of,
    unpack,
)
from pymc_spn.circuits.evaluation.tape import PRODUCT, SUM
from pymc_spn.numerics.elementary import exp_or_zero, fast_exp
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel
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
    out, none = np.full(values.shape[0], -math.inf), np.empty((1, 0))
    pass_rows(
        read_only_view(packed), read_only_view(values), read_only_view(as_table(log_weights)),
        read_only_view(as_table(theta)), read_only_view(none[0]), none, none, none, out,
    )  # fmt: skip
    return out


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
    weights, leaves = as_table(log_weights), as_table(theta)
    grad_weights, grad_theta, grad_values = np.zeros(weights.shape), np.zeros(leaves.shape), np.zeros(values.shape)
    out = np.full(values.shape[0], -math.inf)
    pass_rows(
        read_only_view(packed), read_only_view(values), read_only_view(weights), read_only_view(leaves),
        read_only_view(cotangent), grad_weights, grad_theta, grad_values, out,
    )  # fmt: skip
    return out, grad_weights.reshape(log_weights.shape), grad_theta.reshape(theta.shape), grad_values


@register_jitable
def as_table(parameters):
    """Parameters (M, n), M = 1 where they are those of all rows."""
    return parameters.reshape((parameters.shape[0] if parameters.ndim == 2 else 1, parameters.shape[-1]))


@register_jitable
def check_rows(values, log_weights, theta):
    """Refuse parameters of each row's own unless there are as many rows of them as of values."""
    n = values.shape[0]
    if log_weights.ndim == 2 and log_weights.shape[0] != n:
        raise ValueError(
            f"log_weights must have one row for each of the {n} of a CircuitDensity, got {log_weights.shape[0]}"
        )
    if theta.ndim == 2 and theta.shape[0] != n:
        raise ValueError(
            f"leaf_parameters must have one row for each of the {n} of a CircuitDensity, got {theta.shape[0]}"
        )


@kernel
def pass_rows(packed, values, log_weights, theta, cotangent, grad_weights, grad_theta, grad_values, out):
    """Log densities of all rows into ``out`` (N,), and the gradients added to theirs unless the cotangent is empty."""
    layout, begin, width = unpack(packed)
    if values.shape[0] == 0:
        return
    at = make_block(layout, log_weights[0], theta[0], begin, width, 1)
    flow, one = np.empty((layout.kind.size, 1)), np.empty(4)
    value, below, shift = at.nodes.reshape(layout.kind.size), flow.reshape(layout.kind.size), at.shift.reshape(-1)
    for n in range(values.shape[0]):
        if not load_parameters(layout, begin, width, log_weights, theta, n, one, at):
            continue
        w, t = row_at(log_weights, n), row_at(theta, n)
        read_values(values, n, layout.input_column, layout.input_reading, at.u, at.base, at.present)
        leaf_logs(layout, at.coefficients, at.table, at.u, at.base, at.present, at.peak, at.nodes)
        out[n] = value_of_row(layout, at.weight, value, shift)
        is_linear = out[n] > -math.inf
        if not is_linear:
            values_of_block(layout, log_weights[w], at, values, n)
            if at.roots[0] > NOWHERE:
                out[n] = at.roots[0]
        if cotangent.size == 0 or out[n] == -math.inf:
            continue
        below[:] = 0.0
        below[0] = cotangent[n]
        if is_linear:
            send_flows_of_row(layout, at.weight, value, below, grad_weights[w])
        else:
            send_flows(layout, log_weights[w], at, False, flow, grad_weights[w])
        has_lost = False
        for k in range(layout.node_of_leaf.size):
            has_lost |= add_leaf_gradient(
                layout, k, theta[t], begin, width,
                values, n, 1, at.u, at.present, flow[layout.node_of_leaf[k]], grad_theta[t], grad_values,
            )  # fmt: skip
        if has_lost:
            add_lost_levels(layout, log_weights[w], at, is_linear, theta[t], begin, width, 1, flow, grad_theta[t])


@bare_inner_kernel
def value_of_row(layout, weight, value, shift):
    """Log density of one row from its leaves' logs, as `flows.values_of_block`; ``-inf`` where that needs logs."""
    shift[:] = -math.inf
    for k in range(layout.node_of_leaf.size):
        d = layout.leaf_column[k]
        shift[d] = max(shift[d], value[layout.node_of_leaf[k]])
    for k in range(layout.node_of_leaf.size):
        v = layout.node_of_leaf[k]
        value[v] = exp_or_zero(value[v] - shift[layout.leaf_column[k]])
    for v in range(layout.kind.size - 1, -1, -1):
        first, last = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            found = 1.0
            for e in range(first, last):
                found *= value[layout.children[e]]
            value[v] = found
        elif layout.kind[v] == SUM:
            found = 0.0
            for e in range(first, last):
                found += weight[layout.edge_weight[e]] * value[layout.children[e]]
            value[v] = found
    if not value[0] >= SMALLEST:
        return -math.inf
    total = math.log(value[0])
    for d in range(shift.size):
        total += shift[d]
    return total if total > NOWHERE else -math.inf


@bare_inner_kernel
def send_flows_of_row(layout, weight, value, flow, edge_flow):
    """As `flows.send_flows`, in linear space."""
    for v in range(layout.kind.size):
        first, last = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            for e in range(first, last):
                flow[layout.children[e]] += flow[v]
        elif layout.kind[v] == SUM and value[v] > 0.0:
            rate = flow[v] / value[v]
            for e in range(first, last):
                c, w = layout.children[e], layout.edge_weight[e]
                share = weight[w] * value[c] * rate
                flow[c] += share
                edge_flow[w] += share


@inner_kernel
def row_at(parameters, n):
    """Where row n of the table has its parameters: in the only row if they are those of all."""
    return n if parameters.shape[0] > 1 else 0


@bare_inner_kernel
def load_parameters(layout, begin, width, log_weights, theta, n, one, block):
    """Put the parameters of row n into the block, which was made with those of row 0; False if they are invalid.

    ``one`` (4,) is scratch.
    """
    if n > 0 and log_weights.shape[0] > 1:
        exponentiate(log_weights[n], block.weight)
    own = theta[row_at(theta, n)]
    if not (are_normalised(layout, block.weight) and are_within_bounds(layout, begin, width, own)):
        return False
    if n > 0 and theta.shape[0] > 1:
        fill_coefficients(layout, own, begin, width, one, block.coefficients, block.table)
    return True


@bare_inner_kernel
def exponentiate(log_weights, weight):
    """Weights from their logs; those above 1 come out too small, but no less than 1, and NaN stays."""
    for e in range(weight.size):
        x = log_weights[e]
        weight[e] = 0.0 if x < -708.0 else fast_exp(min(x, 1.0)) + (x - x)
