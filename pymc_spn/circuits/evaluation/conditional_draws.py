"""Random cells of one row given others, from a circuit's packed layout."""

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.leaf_forms import read_values
from pymc_spn.circuits.evaluation.node_values import NOWHERE, leaf_logs, node_coefficients, sum_and_multiply
from pymc_spn.circuits.evaluation.packed_layout import draw_leaf, unpack
from pymc_spn.circuits.evaluation.row_draws import descend_at_random
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
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
    return _draw_targets(
        rng, read_only_view(packed), read_only_view(log_weights), read_only_view(theta), read_only_view(row),
        read_only_view(targets), number,
    )  # fmt: skip


@kernel  # with the message, which takes seconds to compile and would with every model
def _draw_targets(rng, packed, log_weights, theta, row, targets, number):
    layout, begin, width = unpack(packed)
    leaf = drawn_leaves(rng, layout, log_weights, theta, begin, width, row, number)
    out = np.empty(targets.size)
    for i in range(targets.size):
        k = leaf[targets[i]]
        f = layout.leaf_family[k]
        first = begin[f] + layout.leaf_row[k] * width[f]
        out[i] = draw_leaf(layout.leaf_code[k], rng, theta[first : first + width[f]])
    return out


@inner_kernel
def drawn_leaves(rng, layout, log_weights, theta, begin, width, row, number):
    """Leaf of each column, drawn given what is observed of the row; without a number of the row that is nothing."""
    logs = logs_of_row(layout, log_weights, theta, begin, width, row)
    if not logs[0, 0] > NOWHERE:  # also NaN, of parameters out of their bounds
        if number < 0:
            raise ValueError("nothing can be drawn from a CircuitDensity whose parameters are out of their bounds")
        raise ValueError(
            f"given: row {number} of a CircuitDensity has density 0 under the parameters of a draw, "
            "and nothing can be drawn given it"
        )
    leaf = np.empty(row.size, np.int64)
    stack = np.empty(layout.kind.size, np.int64)
    descend_at_random(rng, layout, log_weights, log_weights, logs, False, 0, stack, leaf)
    return leaf


@inner_kernel
def logs_of_row(layout, log_weights, theta, begin, width, row):
    """Log values (V, 1) of all nodes.

    Never in linear space as `flows.values_of_block`: that is for many rows, and code which each model compiles again.
    """
    coefficients, table = node_coefficients(layout, theta, begin, width)
    n_inputs = layout.input_column.size
    u, base, present = np.empty((n_inputs, 1)), np.empty((n_inputs, 1)), np.empty((n_inputs, 1))
    logs = np.empty((layout.kind.size, 1))
    read_values(row.reshape((1, row.size)), 0, layout.input_column, layout.input_reading, u, base, present)
    leaf_logs(layout, coefficients, table, u, base, present, np.zeros(layout.leaf_row.size), logs)
    sum_and_multiply(layout, log_weights, logs, np.empty(1), np.empty(1))
    return logs
