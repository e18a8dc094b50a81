"""Probabilities of some leaves given rows: that the row's induced tree goes through them."""

import numpy as np

from pymc_spn.circuits.evaluation.passes import make_block, pass_block
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view


@kernel
def shares_of_rows(layout, log_weights, weight, coefficients, table, values, leaves, block, shares, out):
    """Probabilities of leaves given what is observed of rows, 0 in rows of density 0.

    Parameters
    ----------
    leaves : (n,) int64
        Numbers in the layout.
    block : int
        Rows at a time.
    shares : (N, n) float64
        Out.
    out : (N,) float64
        Out: log densities of what is observed.
    """
    at = make_block(layout, weight, coefficients, table, block)
    flow, edge_flow = np.empty((layout.kind.size, block)), np.empty(log_weights.size)
    ones = read_only_view(np.ones(values.shape[0]))
    for first in range(0, values.shape[0], block):
        n, _ = pass_block(layout, log_weights, at, values, first, ones, flow, edge_flow, out)
        for j in range(leaves.size):
            row = flow[layout.node_of_leaf[leaves[j]]]
            for i in range(n):
                shares[first + i, j] = row[i]
