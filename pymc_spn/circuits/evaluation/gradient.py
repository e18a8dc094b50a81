"""Log densities of rows, and their gradient: values of all nodes up, flows from the root down."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.flows import send_flows, values_of_block, weighted_moments
from pymc_spn.circuits.evaluation.leaf_forms import (
    GAUSSIAN,
    LOG_NORMAL,
    add_parameter_gradient,
    read_values,
    value_derivative,
)
from pymc_spn.circuits.evaluation.node_values import NOWHERE, node_coefficients
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel


@inner_kernel
def log_densities_of_rows(layout, log_weights, theta, family_begin, family_width, values, block, out):
    """Log densities (N,) of all rows."""
    coefficients, table = node_coefficients(layout, theta, family_begin, family_width)
    weight = np.exp(log_weights)
    n_inputs = layout.input_column.size
    nodes = np.empty((layout.kind.size, block))
    u, base, present = np.empty((n_inputs, block)), np.empty((n_inputs, block)), np.empty((n_inputs, block))
    shift, scratch, roots = np.empty((values.shape[1], block)), np.empty((2, block)), np.empty(block)
    peak = np.zeros(layout.node_of_leaf.size)
    for first in range(0, values.shape[0], block):
        read_values(values, first, layout.input_column, layout.input_reading, u, base, present)
        values_of_block(
            layout, log_weights, weight, coefficients, table, (u, base, present), peak, nodes, shift, scratch, roots
        )
        for i in range(min(block, values.shape[0] - first)):
            out[first + i] = roots[i] if roots[i] > NOWHERE else -math.inf


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
    weight = np.exp(log_weights)
    n_nodes, n_inputs = layout.kind.size, layout.input_column.size
    nodes, flow = np.empty((n_nodes, block)), np.empty((n_nodes, block))
    u, base, present = np.empty((n_inputs, block)), np.empty((n_inputs, block)), np.empty((n_inputs, block))
    shift, scratch, roots = np.empty((values.shape[1], block)), np.empty((2, block)), np.empty(block)
    peak = np.zeros(layout.node_of_leaf.size)
    for first in range(0, values.shape[0], block):
        n = min(block, values.shape[0] - first)
        read_values(values, first, layout.input_column, layout.input_reading, u, base, present)
        is_linear = values_of_block(
            layout, log_weights, weight, coefficients, table, (u, base, present), peak, nodes, shift, scratch, roots
        )
        flow[:] = 0.0
        for i in range(n):
            is_possible = roots[i] > NOWHERE
            out[first + i] = roots[i] if is_possible else -math.inf
            flow[0, i] = cotangent[first + i] if is_possible else 0.0
        send_flows(layout, log_weights, weight, nodes, is_linear, flow, scratch, grad_weights)
        for k in range(layout.node_of_leaf.size):
            add_leaf_gradient(
                layout, k, theta, family_begin, family_width,
                values, first, n, u, present, flow[layout.node_of_leaf[k]], with_values, grad_theta, grad_values,
            )  # fmt: skip


@bare_inner_kernel
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
        mass, drift, spread = weighted_moments(own[0], 1.0 / own[1], u[j], present[j], flow)
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
