"""What expectation maximisation needs of the rows: expected uses of every edge, expected statistics of every leaf."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.flows import make_block, pass_block, weighted_moments
from pymc_spn.leaves.kernel_forms import EXPONENT, QUADRATIC, SIGMOIDS, TABLE
from pymc_spn.numerics.kernel_options import bare_inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view


@kernel
def expected_statistics(
    layout, log_weights, theta, family_begin, family_width, values, block, row_place, edge_flow, moments, level_flow,
    row_flow, out,
):  # fmt: skip
    """Log densities of all rows and the expected statistics of their induced trees, in one pass up and down.

    Parameters
    ----------
    layout : Layout
        The leaves may be of three kinds. The log density of the first is linear in their statistics: Gaussian,
        log-normal, exponential, gamma, beta, Poisson, geometric, Bernoulli and categorical. So is that of the binomial
        with given numbers of trials, and of the negative binomial with given alpha. Laplace and Weibull leaves need all
        rows. Uniform, triangular, hypergeometric and SciPy's leaves are given; the ends of uniform ones can also be
        learned from all rows.
    log_weights : (n_sum_edges,) float64
    theta, family_begin, family_width
        As in `FlatParameters`.
    values : (N, D) float64
        NaN cells are summed out and add to no leaf.
    block : int
        Rows at a time.
    row_place : (L,) int64
        Place in `row_flow` of each leaf, in node order, of which all rows are needed; -1 of the others.
    edge_flow : (n_sum_edges,) float64
        Out, added to: expected number of rows that use the edge.
    moments : (3, L) float64
        Out, added to, for each leaf in node order: expected number of its observed cells, their sum and their sum of
        squares. Of Gaussian leaves, and of log-normal ones in logs, the last two are those of (u - mean) / sd. Of gamma
        leaves they are the sum of the logs and the sum of the values, of beta leaves those of the logs of x and of 1 -
        x.
    level_flow : (P,) float64
        Out, added to: expected number of cells at each level, at the place of its probability in ``theta``.
    row_flow : (n_placed, N) float64
        Out: probability that each row's cell comes from the leaf with this place; 0 where it is missing. Such a leaf
        has no other statistics.
    out : (N,) float64
        Out: log densities; a row of density zero adds nothing else.
    """
    at = make_block(layout, log_weights, theta, family_begin, family_width, block)
    flow, ones = np.empty((layout.kind.size, block)), read_only_view(np.ones(values.shape[0]))
    for first in range(0, values.shape[0], block):
        n, _ = pass_block(layout, log_weights, at, values, first, ones, flow, edge_flow, out)
        for k in range(layout.node_of_leaf.size):
            of_leaf = flow[layout.node_of_leaf[k]]
            if row_place[k] >= 0:
                at_rows = row_flow[row_place[k]]
                for i in range(n):
                    at_rows[first + i] = of_leaf[i] * at.present[layout.leaf_input[k], i]
            else:
                add_leaf_statistics(layout, k, at.coefficients, n, at.u, at.present, of_leaf, moments, level_flow)


@bare_inner_kernel
def add_leaf_statistics(layout, k, coefficients, n, u, present, flow, moments, level_flow):
    j, form = layout.leaf_input[k], layout.leaf_form[k]
    if form == TABLE:
        begin, width = int(coefficients[1, k]), coefficients[0, k]
        for i in range(n):
            if present[j, i] != 0.0 and flow[i] != 0.0 and u[j, i] < width:
                level_flow[begin + int(u[j, i])] += flow[i]
        return
    if form == EXPONENT:
        for i in range(n):
            if present[j, i] != 0.0 and flow[i] != 0.0:
                moments[0, k] += flow[i]
                moments[1, k] += flow[i] * u[j, i]
                moments[2, k] += flow[i] * math.exp(u[j, i])
        return
    if form == SIGMOIDS:
        for i in range(n):
            if present[j, i] != 0.0 and flow[i] != 0.0:
                larger = -math.log1p(math.exp(-abs(u[j, i])))
                moments[0, k] += flow[i]
                moments[1, k] += flow[i] * (min(u[j, i], 0.0) + larger)
                moments[2, k] += flow[i] * (min(-u[j, i], 0.0) + larger)
        return
    centre, scale = 0.0, 1.0
    if form == QUADRATIC:  # about the present mean, so that nothing cancels far from 0
        centre, scale = coefficients[1, k], coefficients[2, k] * math.sqrt(2.0)
    mass, total, squares = weighted_moments(centre, scale, u[j], present[j], flow)
    moments[0, k] += mass
    moments[1, k] += total
    moments[2, k] += squares
