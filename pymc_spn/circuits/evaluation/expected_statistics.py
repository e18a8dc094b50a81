"""What expectation maximisation needs of the rows: expected uses of every edge, expected statistics of every leaf."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.gradient import send_flows
from pymc_spn.circuits.evaluation.leaf_forms import QUADRATIC, TABLE, read_values
from pymc_spn.circuits.evaluation.node_values import NOWHERE, leaf_logs, node_coefficients, sum_and_multiply
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def expected_statistics(
    layout, log_weights, theta, family_begin, family_width, values, block, edge_flow, moments, level_flow, out
):
    """Log densities of all rows and the expected statistics of their induced trees, in one pass up and down.

    Parameters
    ----------
    layout : Layout
        With leaves whose log density is linear in their statistics: Gaussian, log-normal, exponential, Poisson,
        geometric, Bernoulli and categorical.
    log_weights : (n_sum_edges,) float64
    theta, family_begin, family_width
        As in `FlatParameters`.
    values : (N, D) float64
        NaN cells are summed out and add to no leaf.
    block : int
        Rows at a time.
    edge_flow : (n_sum_edges,) float64
        Out, added to: expected number of rows that use the edge.
    moments : (3, L) float64
        Out, added to, for each leaf in node order: expected number of its observed cells, their sum and their sum of
        squares. Of Gaussian leaves, and of log-normal ones in logs, the last two are those of (u - mean) / sd.
    level_flow : (P,) float64
        Out, added to: expected number of cells at each level, at the place of its probability in ``theta``.
    out : (N,) float64
        Out: log densities; a row of density zero adds nothing else.
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
            flow[0, i] = 1.0 if is_possible else 0.0
        send_flows(layout, log_weights, logs, n, flow, mass, edge_flow)
        for k in range(layout.node_of_leaf.size):
            add_leaf_statistics(
                layout, k, coefficients, n, u, present, flow[layout.node_of_leaf[k]], moments, level_flow
            )


@inner_kernel
def add_leaf_statistics(layout, k, coefficients, n, u, present, flow, moments, level_flow):
    j, form = layout.leaf_input[k], layout.leaf_form[k]
    if form == TABLE:
        begin = int(coefficients[1, k])
        for i in range(n):
            if present[j, i] != 0.0 and flow[i] != 0.0:
                level_flow[begin + int(u[j, i])] += flow[i]
        return
    centre, scale = 0.0, 1.0
    if form == QUADRATIC:  # about the present mean, so that nothing cancels far from 0
        centre, scale = coefficients[1, k], coefficients[2, k] * math.sqrt(2.0)
    mass, total, squares = 0.0, 0.0, 0.0
    for i in range(n):
        weight = flow[i] * present[j, i]
        z = (u[j, i] - centre) * scale
        mass += weight
        total += weight * z
        squares += weight * z * z
    moments[0, k] += mass
    moments[1, k] += total
    moments[2, k] += squares
