"""Log densities of rows, and their gradient: values of all nodes up, flows from the root down."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT
from pymc_spn.circuits.evaluation.circuit_passes import (
    NOWHERE,
    SMALLEST,
    make_block,
    node_coefficients,
    pass_block,
    weighted_moments,
)
from pymc_spn.circuits.evaluation.leaf_forms import add_parameter_gradient, value_derivative
from pymc_spn.leaves.family_codes import BERNOULLI, CATEGORICAL, GAUSSIAN, LOG_NORMAL
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel


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
    coefficients, table = node_coefficients(layout, theta, family_begin, family_width)
    at = make_block(layout, np.exp(log_weights), coefficients, table, block)
    flow = np.empty((layout.kind.size, block))
    for first in range(0, values.shape[0], block):
        n, is_linear = pass_block(layout, log_weights, at, values, first, cotangent, flow, grad_weights, out)
        has_lost = False
        for k in range(layout.node_of_leaf.size):
            has_lost |= add_leaf_gradient(
                layout, k, theta, family_begin, family_width,
                values, first, n, at.u, at.present, flow[layout.node_of_leaf[k]], grad_theta, grad_values,
            )  # fmt: skip
        if has_lost:
            add_lost_levels(layout, log_weights, at, is_linear, theta, family_begin, family_width, n, flow, grad_theta)


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
    """Add one leaf's part of the gradient; whether there are cells that need `add_lost_levels`."""
    has_lost = False
    f, code, j = layout.leaf_family[k], layout.leaf_code[k], layout.leaf_input[k]
    width = family_width[f]
    begin = family_begin[f] + layout.leaf_row[k] * width
    own = theta[begin : begin + width]
    d = layout.input_column[j]  # the leaf's own, or that of its logs
    if code == GAUSSIAN or code == LOG_NORMAL:
        mass, drift, spread = weighted_moments(own[0], 1.0 / own[1], u[j], present[j], flow)
        grad_theta[begin] += drift / own[1]
        grad_theta[begin + 1] += (spread - mass) / own[1]
    else:
        on_levels = code == BERNOULLI or code == CATEGORICAL
        for i in range(n):
            if on_levels and present[j, i] != 0.0 and level_probability(code, own, u[j, i]) < SMALLEST:
                has_lost = True
            elif present[j, i] != 0.0 and flow[i] != 0.0:
                part = grad_theta[begin : begin + width]
                add_parameter_gradient(code, own, width, u[j, i], values[first + i, d], flow[i], part)
    for i in range(n):
        if present[j, i] != 0.0 and flow[i] != 0.0:
            slope = value_derivative(code, own, u[j, i], values[first + i, d])
            grad_values[first + i, d] += flow[i] * slope
    return has_lost


@inner_kernel
def level_probability(code, theta, u):
    """Probability of a level under a leaf on levels; 1, and nothing to be learned, where it has no parameter for it."""
    if code == BERNOULLI:
        return theta[0] if u == 1.0 else 1.0 - theta[0] if u == 0.0 else 1.0
    return theta[int(u)] if u < theta.size else 1.0


@inner_kernel
def add_lost_levels(layout, log_weights, block, is_linear, theta, family_begin, family_width, n, flow, grad_theta):
    """Add to the gradient in probabilities that are 0, or all but, of the levels which the n rows of a block have.

    A log density may rise from there at a finite rate, and the flow to such a leaf, divided by the probability, does
    not tell it. The row's density without the leaf's own factor does, from one more pass down.

    Parameters
    ----------
    block : Block
        After the pass up.
    flow : (V, B) float64
        Of which the root's are read: 0 where a row adds nothing.
    """
    down, n_parts = np.empty(flow.shape), 0
    for v in range(layout.kind.size):
        n_parts = max(n_parts, layout.child_ptr[v + 1] - layout.child_ptr[v])
    pass_derivatives(layout, log_weights, block, is_linear, np.empty((n_parts, flow.shape[1])), down)
    for k in range(layout.node_of_leaf.size):
        f, code, j = layout.leaf_family[k], layout.leaf_code[k], layout.leaf_input[k]
        if not (code == BERNOULLI or code == CATEGORICAL):
            continue
        begin, of_leaf = family_begin[f] + layout.leaf_row[k] * family_width[f], layout.node_of_leaf[k]
        for i in range(n):
            u = block.u[j, i]
            if flow[0, i] == 0.0 or block.present[j, i] == 0.0 or block.base[j, i] < NOWHERE:
                continue
            if level_probability(code, theta[begin : begin + family_width[f]], u) < SMALLEST:
                if is_linear:
                    slope = down[of_leaf, i] * math.exp(-block.shift[layout.leaf_column[k], i])
                else:
                    slope = math.exp(down[of_leaf, i])
                if code == CATEGORICAL:
                    grad_theta[begin + int(u)] += flow[0, i] * slope
                else:
                    grad_theta[begin] += flow[0, i] * (slope if u == 1.0 else -slope)


@bare_inner_kernel
def pass_derivatives(layout, log_weights, block, is_linear, part, down):
    """Derivatives (V, B) of the log densities in the values of all nodes, or their logs where values are logs.

    ``part`` (n, B), for the children of any product, is scratch. Nothing is divided by a value, which may be 0.
    """
    weight, values, others = block.weight, block.nodes, block.scratch[0]
    down[:] = 0.0 if is_linear else IMPOSSIBLE
    for i in range(others.size):
        down[0, i] = 1.0 / values[0, i] if is_linear else -values[0, i]
    for v in range(layout.kind.size):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:  # the factors before each child, then those behind it
            copy_values(down[v], others)
            for e in range(begin, end):
                copy_values(others, part[e - begin])
                multiply_by(values[layout.children[e]], is_linear, others)
            others[:] = 1.0 if is_linear else 0.0
            for e in range(end - 1, begin - 1, -1):
                c = layout.children[e]
                multiply_by(others, is_linear, part[e - begin])
                add_scaled(1.0 if is_linear else 0.0, part[e - begin], is_linear, down[c])
                multiply_by(values[c], is_linear, others)
        elif layout.kind[v] != LEAF:
            for e in range(begin, end):
                w = layout.edge_weight[e]
                of_edge = weight[w] if is_linear else max(log_weights[w], IMPOSSIBLE)
                add_scaled(of_edge, down[v], is_linear, down[layout.children[e]])


@bare_inner_kernel
def copy_values(a, out):
    for i in range(out.size):
        out[i] = a[i]


@bare_inner_kernel
def multiply_by(a, is_linear, out):
    """Numbers, or what their logs are of."""
    if is_linear:
        for i in range(out.size):
            out[i] *= a[i]
    else:
        for i in range(out.size):
            out[i] += a[i]


@bare_inner_kernel
def add_scaled(scale, a, is_linear, out):
    """As `multiply_by`."""
    if is_linear:
        for i in range(out.size):
            out[i] += scale * a[i]
    else:
        for i in range(out.size):
            one, other = scale + a[i], out[i]
            top = max(one, other)
            out[i] = top + math.log1p(math.exp(min(one, other) - top)) if top > NOWHERE else top
