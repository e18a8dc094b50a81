"""Random cells of one row given others, from a circuit's packed layout."""

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.flows import make_block, values_of_block
from pymc_spn.circuits.evaluation.node_values import NOWHERE
from pymc_spn.circuits.evaluation.packed_layout import draw_leaf, unpack
from pymc_spn.circuits.evaluation.row_draws import descend_at_random
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view


@register_jitable
def draw_targets(rng, packed, log_weights, theta, row, targets, number):
    """Target cells (T,) drawn given the others of a row.

    Parameters
    ----------
    packed : (s,) int64
        As `packed_layout.pack` made it.
    log_weights : (n_sum_edges,) float64
    theta : (P,) float64
    row : (D,) float64
        NaN in targets, and where nothing is given.
    targets : (T,) int64
        Their columns.
    number : int
        Of the row, for the message.

    Raises
    ------
    ValueError
        If the given cells have density zero, or the parameters are none of a circuit.
    """
    out = np.empty(targets.size)
    if not _draw_targets(
        rng, read_only_view(packed), read_only_view(log_weights), read_only_view(theta), read_only_view(row),
        read_only_view(targets), out,
    ):  # fmt: skip
        raise ValueError(
            f"given: row {number} of a CircuitDensity has density 0 under the parameters of a draw, "
            "and nothing can be drawn given it"
        )
    return out


@kernel
def _draw_targets(rng, packed, log_weights, theta, row, targets, out):
    layout, begin, width = unpack(packed)
    at = make_block(layout, log_weights, theta, begin, width, 1)
    is_linear = values_of_block(layout, log_weights, at, row.reshape((1, row.size)), 0)
    if not at.roots[0] > NOWHERE:  # also NaN, of parameters out of their bounds
        return False
    leaf = np.empty(row.size, np.int64)
    stack = np.empty(layout.kind.size, np.int64)
    descend_at_random(rng, layout, log_weights, at.weight, at.nodes, is_linear, 0, stack, leaf)
    for i in range(targets.size):
        k = leaf[targets[i]]
        f = layout.leaf_family[k]
        first = begin[f] + layout.leaf_row[k] * width[f]
        out[i] = draw_leaf(rng, layout.leaf_code[k], theta[first : first + width[f]])
    return True
