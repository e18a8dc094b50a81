"""Log densities of rows, and their gradient: values of all nodes up, flows from the root down."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.flows import make_block, pass_block, values_of_block, weighted_moments
from pymc_spn.circuits.evaluation.leaf_forms import (
    GAUSSIAN,
    LOG_NORMAL,
    add_parameter_gradient,
    value_derivative,
)
from pymc_spn.circuits.evaluation.node_values import NOWHERE
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel


@inner_kernel
def log_densities_of_rows(layout, log_weights, theta, family_begin, family_width, values, block, out):
    """Log densities (N,) of all rows."""
    at = make_block(layout, log_weights, theta, family_begin, family_width, block)
    for first in range(0, values.shape[0], block):
        values_of_block(layout, log_weights, at, values, first)
        for i in range(min(block, values.shape[0] - first)):
            out[first + i] = at.roots[i] if at.roots[i] > NOWHERE else -math.inf


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
    grad_weights, grad_theta, grad_values : (n_sum_edges,), (P,), (N, D) float64
        Out, added to. Rows of density zero add nothing.
    out : (N,) float64
        Out: log densities.
    """
    at = make_block(layout, log_weights, theta, family_begin, family_width, block)
    flow = np.empty((layout.kind.size, block))
    for first in range(0, values.shape[0], block):
        n, _ = pass_block(layout, log_weights, at, values, first, cotangent, flow, grad_weights, out)
        for k in range(layout.node_of_leaf.size):
            add_leaf_gradient(
                layout, k, theta, family_begin, family_width,
                values, first, n, at.u, at.present, flow[layout.node_of_leaf[k]], grad_theta, grad_values,
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
    for i in range(n):
        if present[j, i] != 0.0 and flow[i] != 0.0:
            slope = value_derivative(code, own, u[j, i], values[first + i, d])
            grad_values[first + i, d] += flow[i] * slope
