"""Log densities of rows and their gradient: values of all nodes up, flows from the root down."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import (
    GAUSSIAN,
    IMPOSSIBLE,
    LOG_NORMAL,
    add_parameter_gradient,
    read_values,
    value_derivative,
)
from pymc_spn.circuits.evaluation.node_values import (
    NOWHERE,
    add_row,
    leaf_logs,
    node_coefficients,
    sum_and_multiply,
)
from pymc_spn.circuits.evaluation.tape import PRODUCT, SUM
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def pass_flow(log_weight, child, parent, flow, below, share):
    """Part of the parent's flow that goes to one child, added to it and left in ``share``."""
    for i in range(flow.size):
        share[i] = flow[i] * fast_exp(log_weight + child[i] - parent[i])
        below[i] += share[i]


@inner_kernel
def send_flows(layout, log_weights, logs, n, flow, share, edge_flow):
    """Flows (V, B) of all nodes from the root's, which is in place; the others hold 0 before.

    A node's flow is the derivative of the log density in its own log value: with a flow of 1 at the root, the
    probability that the row's induced tree goes through it. The n rows' flows along the sums' edges are added to
    ``edge_flow`` (n_sum_edges,).
    """
    for v in range(layout.kind.size):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            for e in range(begin, end):
                add_row(flow[v], flow[layout.children[e]])
        elif layout.kind[v] == SUM:
            for e in range(begin, end):
                c, w = layout.children[e], layout.edge_weight[e]
                pass_flow(max(log_weights[w], IMPOSSIBLE), logs[c], logs[v], flow[v], flow[c], share)
                total = 0.0
                for i in range(n):
                    total += share[i]
                edge_flow[w] += total


@kernel
def log_densities_and_gradient(
    layout,
    log_weights,
    theta,
    family_begin,
    family_width,
    values,
    cotangent,
    block,
    with_values,
    grad_weights,
    grad_theta,
    grad_values,
    out,
):
    """Log densities of all rows and the gradient of their sum, weighted by the cotangents, in one pass up and down.

    Parameters
    ----------
    cotangent : (N,) float64
    block : int
        Rows at a time.
    with_values : bool
        Whether the derivative in the values is wanted.
    grad_weights, grad_theta, grad_values : (n_sum_edges,), (P,), (N, D) float64
        Out, added to. Rows of density zero add nothing.
    out : (N,) float64
        Out: log densities.
    """
    coefficients, table = node_coefficients(layout, theta, family_begin, family_width)
    n_nodes, n_inputs = layout.kind.size, layout.input_column.size
    logs, flow = np.empty((n_nodes, block)), np.empty((n_nodes, block))
    u, base, present = np.empty((n_inputs, block)), np.empty((n_inputs, block)), np.empty((n_inputs, block))
    top, mass = np.empty(block), np.empty(block)
    peak = np.zeros(layout.node_of_leaf.size)
    for first in range(0, values.shape[0], block):
        n = min(block, values.shape[0] - first)
        read_values(values, first, layout.input_column, layout.input_reading, u, base, present)
        leaf_logs(layout, coefficients, table, u, base, present, peak, logs)
        sum_and_multiply(layout, log_weights, logs, top, mass)
        flow[:] = 0.0
        for i in range(n):
            is_possible = logs[0, i] > NOWHERE
            out[first + i] = logs[0, i] if is_possible else -math.inf
            flow[0, i] = cotangent[first + i] if is_possible else 0.0
        send_flows(layout, log_weights, logs, n, flow, mass, grad_weights)
        for k in range(layout.node_of_leaf.size):
            add_leaf_gradient(
                layout, k, theta, family_begin, family_width,
                values, first, n, u, present, flow[layout.node_of_leaf[k]], with_values, grad_theta, grad_values,
            )  # fmt: skip


@inner_kernel
def add_leaf_gradient(
    layout,
    k,
    theta,
    family_begin,
    family_width,
    values,
    first,
    n,
    u,
    present,
    flow,
    with_values,
    grad_theta,
    grad_values,
):
    f, code, j = layout.leaf_family[k], layout.leaf_code[k], layout.leaf_input[k]
    width = family_width[f]
    begin = family_begin[f] + layout.leaf_row[k] * width
    own = theta[begin : begin + width]
    d = layout.leaf_column[k]
    if code == GAUSSIAN or code == LOG_NORMAL:
        mass, drift, spread = 0.0, 0.0, 0.0
        for i in range(n):
            weight = flow[i] * present[j, i]
            z = (u[j, i] - own[0]) / own[1]
            mass += weight
            drift += weight * z
            spread += weight * z * z
        grad_theta[begin] += drift / own[1]
        grad_theta[begin + 1] += (spread - mass) / own[1]
    else:
        for i in range(n):
            if present[j, i] != 0.0 and flow[i] != 0.0:
                part = grad_theta[begin : begin + width]
                add_parameter_gradient(code, own, width, u[j, i], values[first + i, d], flow[i], part)
    if with_values:
        for i in range(n):
            if present[j, i] != 0.0 and flow[i] != 0.0:
                slope = value_derivative(code, own, u[j, i], values[first + i, d])
                grad_values[first + i, d] += flow[i] * slope
