"""Gaussian and Student t leaves over several columns in compiled code: their logs, gradient, draws.

The passes know leaves over one column alone and read what parts of wider ones have of their logs behind the table
(`wide_leaves`). Here these columns are worked out from parameters that a model holds, and what the passes say of them
goes back to means, scale matrices and values. A leaf keeps one Cholesky factor from row to row until the gaps or the
parameters change.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.circuit_passes import descend_at_random
from pymc_spn.circuits.evaluation.packed_layout import (
    HEADER,
    draw_leaf,
    is_valid,
    rows_and_gradient_of,
    rows_of,
    unpack,
)
from pymc_spn.leaves.elliptical_kernels import invert
from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.family_codes import TABULATED
from pymc_spn.leaves.kernel_forms import HALF_LOG_2PI
from pymc_spn.numerics.elementary import digamma, half_step_log_gamma
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

EPSILON = float(np.finfo(np.float64).eps)
ASYMMETRY = 1e-9  # of correlations, as `elliptical_leaves.are_positive_definite` allows


class EllipticalParts(NamedTuple):
    """Leaves over several columns as kernels read them; what their parts have of their logs stands behind the table."""

    first: np.ndarray  # (W + 1,) number of the first part of each leaf
    column: np.ndarray  # (K,) of each part
    begin: np.ndarray  # (W,) where the leaf's parameters begin
    has_dof: np.ndarray  # (W,) 1 for Student t leaves, whose first parameter are degrees of freedom


def elliptical_families(circuit: Any) -> list[str]:
    """Names of the Gaussian and Student t families over several columns among those of a circuit."""
    return [name for name in circuit.families if isinstance(LEAF_FAMILIES[name], EllipticalFamily)]


def with_parts(packed: np.ndarray, circuit: Any, begin: np.ndarray, width: np.ndarray) -> np.ndarray:
    """What `packed_layout.pack` made, and behind it the leaves over several columns, if there are some."""
    wide = list(circuit.further_columns)
    if not wide:
        return packed
    columns = [circuit.columns_of(v) for v in wide]
    family = circuit.leaf_family[wide]
    own = [LEAF_FAMILIES[circuit.families[f]] for f in family]
    first = np.cumsum([0, *map(len, columns)])
    at = begin[family] + circuit.leaf_row[wide] * width[family]
    has_dof = [len(f.first_names) for f in own if isinstance(f, EllipticalFamily)]
    return np.concatenate([packed, [len(wide)], first, np.concatenate(columns), at, has_dof]).astype(np.int64)


@inner_kernel
def parts_of(packed):
    """`EllipticalParts` from the end of the vector that `with_parts` made."""
    behind = packed[HEADER + packed[HEADER - 1] :]
    n = behind[0]
    n_parts = behind[n + 1]
    at = n + 2 + n_parts
    return EllipticalParts(behind[1 : n + 2], behind[n + 2 : at], behind[at : at + n], behind[at + n : at + 2 * n])


@bare_inner_kernel
def order_cells(row, column, n_before, order, new):
    """Places (d,) of the columns, observed ones first; their number, and whether any of this has changed.

    ``new`` (d,) is scratch.
    """
    n_seen = 0
    for j in range(column.size):
        if not math.isnan(row[column[j]]):
            new[n_seen] = j
            n_seen += 1
    at = n_seen
    for j in range(column.size):
        if math.isnan(row[column[j]]):
            new[at] = j
            at += 1
    has_changed = n_seen != n_before
    for j in range(order.size):
        has_changed |= order[j] != new[j]
        order[j] = new[j]
    return n_seen, has_changed


@bare_inner_kernel
def factor_leaf(own, has_dof, order, factor):
    """Cholesky factor (d, d) of a leaf's scale matrix, columns in this order; False if the parameters are invalid."""
    d = order.size
    for i in range(has_dof + d):
        if not abs(own[i]) < math.inf:
            return False
    if has_dof == 1 and not own[0] > 0.0:
        return False
    scale = own[has_dof + d :]
    for i in range(d):
        a = order[i]
        for j in range(i + 1):
            b = order[j]
            x = scale[a * d + b]
            size = math.sqrt(scale[a * d + a]) * math.sqrt(scale[b * d + b])  # NaN below 0
            if not abs(x - scale[b * d + a]) <= ASYMMETRY * size:
                return False
            for m in range(j):
                x -= factor[i, m] * factor[j, m]
            if i > j:
                factor[i, j] = x / factor[j, j]
            elif d * (d + 1) * EPSILON * size < x < math.inf:
                factor[i, i] = math.sqrt(x)
            else:
                return False
    return True


@bare_inner_kernel
def solve_cells(row, column, order, n_seen, location, factor, z):
    """Put the observed cells' independent coordinates (n_seen,) into ``z``; returns their sum of squares."""
    square = 0.0
    for i in range(n_seen):
        x = row[column[order[i]]] - location[order[i]]
        for m in range(i):
            x -= factor[i, m] * z[m]
        z[i] = x / factor[i, i]
        square += z[i] * z[i]
    return square


@bare_inner_kernel
def log_lead(own, has_dof, n_seen, factor):
    """Log density of the observed cells at their location."""
    lead = 0.0
    for i in range(n_seen):
        lead -= math.log(factor[i, i])
        if has_dof == 1:
            lead += half_step_log_gamma(0.5 * (own[0] + i)) - 0.5 * math.log(math.pi * own[0])
        else:
            lead -= HALF_LOG_2PI
    return lead


@kernel
def table_with_parts(packed, values, theta):
    """Rows, behind them the share of each leaf's parts; ``-inf`` throughout where parameters are those of no leaf.

    Parameters
    ----------
    values : (N, D) float64
    theta : (P,) float64

    Returns
    -------
    (N, D + W) float64
        Of a leaf over d columns one d-th of its log density; NaN where all of its cells are missing.
    """
    parts, n_columns = parts_of(packed), values.shape[1]
    out = np.full((values.shape[0], n_columns + parts.begin.size), math.nan)
    out[:, :n_columns] = values
    is_valid = np.full(values.shape[0], True)
    for w in range(parts.begin.size):
        has_dof = parts.has_dof[w]
        column = parts.column[parts.first[w] : parts.first[w + 1]]
        d = column.size
        order, new, z, factor = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d), np.empty((d, d))
        own = theta[parts.begin[w] : parts.begin[w] + has_dof + d + d * d]
        lead, is_leaf, n_seen = 0.0, True, -1
        for n in range(values.shape[0]):
            n_seen, has_changed = order_cells(values[n], column, n_seen, order, new)
            if has_changed:
                is_leaf = factor_leaf(own, has_dof, order, factor)
                if is_leaf:
                    lead = log_lead(own, has_dof, n_seen, factor)
            is_valid[n] &= is_leaf
            if n_seen == 0 or not is_leaf:
                continue
            square = solve_cells(values[n], column, order, n_seen, own[has_dof:], factor, z)
            if has_dof == 1:
                log = lead - 0.5 * (own[0] + n_seen) * math.log1p(square / own[0])
            else:
                log = lead - 0.5 * square
            out[n, n_columns + w] = log / d if square < math.inf else -math.inf
    for n in range(values.shape[0]):
        if not is_valid[n]:
            out[n] = -math.inf
    return out


@kernel
def add_gradient_of_parts(packed, values, theta, grad_parts, grad_theta, grad_values):
    """Add the gradient in leaf parameters and values that comes through the logs of the parts.

    Parameters
    ----------
    grad_parts : (N, W) float64
        In what the parts of each leaf have of its log, together; 0 in rows of density zero.
    grad_theta, grad_values : (P,), (N, D) float64
        Out, added to.
    """
    parts = parts_of(packed)
    for w in range(parts.begin.size):
        has_dof = parts.has_dof[w]
        column = parts.column[parts.first[w] : parts.first[w + 1]]
        d = column.size
        order, new, z, away = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d), np.empty(d)
        factor, inverse, precision = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
        begin = parts.begin[w]
        own = theta[begin : begin + has_dof + d + d * d]
        is_leaf, of_dof, n_seen = True, 0.0, -1
        for n in range(values.shape[0]):
            n_seen, has_changed = order_cells(values[n], column, n_seen, order, new)
            if has_changed:
                is_leaf = factor_leaf(own, has_dof, order, factor)
                if is_leaf:
                    invert(n_seen, 0, factor, inverse, precision)
                    if has_dof == 1:
                        half = 0.5 * own[0]
                        of_dof = digamma(half + 0.5 * n_seen) - digamma(half) - n_seen / own[0]
            if n_seen == 0 or not is_leaf:
                continue
            flow = grad_parts[n, w] / d
            if flow == 0.0:
                continue
            square = solve_cells(values[n], column, order, n_seen, own[has_dof:], factor, z)
            pull = flow
            if has_dof == 1:
                dof = own[0]
                pull *= (dof + n_seen) / (dof + square)
                part = of_dof - math.log1p(square / dof) + (dof + n_seen) * (square / (dof + square)) / dof
                grad_theta[begin] += 0.5 * flow * part
            for i in range(n_seen):
                away[i] = 0.0
                for m in range(i, n_seen):
                    away[i] += inverse[m, i] * z[m]
                grad_theta[begin + has_dof + order[i]] += pull * away[i]
                grad_values[n, column[order[i]]] -= pull * away[i]
            for i in range(n_seen):
                for j in range(n_seen):
                    slope = 0.5 * (pull * away[i] * away[j] - flow * precision[i, j])
                    grad_theta[begin + has_dof + d + order[i] * d + order[j]] += slope


@register_jitable
def wide_rows_of(packed, values, log_weights, theta):
    """As `packed_layout.rows_of`, of a circuit with leaves over several columns."""
    return rows_of(packed, _table(packed, values, theta), log_weights, theta)


@register_jitable
def wide_rows_and_gradient_of(packed, values, log_weights, theta, cotangent):
    """As `packed_layout.rows_and_gradient_of`, of a circuit with leaves over several columns."""
    table = _table(packed, values, theta)
    rows, grad_weights, grad_theta, grad_table = rows_and_gradient_of(packed, table, log_weights, theta, cotangent)
    n_columns = values.shape[1]
    grad_values = grad_table[:, :n_columns].copy()
    add_gradient_of_parts(
        read_only_view(packed), read_only_view(values), read_only_view(theta),
        read_only_view(grad_table[:, n_columns:]), grad_theta, grad_values,
    )  # fmt: skip
    return rows, grad_weights, grad_theta, grad_values


@register_jitable
def _table(packed, values, theta):
    return table_with_parts(read_only_view(packed), read_only_view(values), read_only_view(theta))


@register_jitable
def draw_wide_row(rng, packed, log_weights, theta):
    """As `packed_layout.draw_row`, of a circuit with leaves over several columns.

    Raises
    ------
    ValueError
        If the parameters are none of a circuit.
    """
    return _draw_wide_row(rng, read_only_view(packed), read_only_view(log_weights), read_only_view(theta))


@kernel  # with the message, which takes seconds to compile and would with every model
def _draw_wide_row(rng, packed, log_weights, theta):
    layout, begin, width = unpack(packed)
    parts = parts_of(packed)
    out = np.full(packed[0], math.nan)
    table = table_with_parts(packed, read_only_view(out.reshape((1, out.size))), theta)
    if table[0, 0] == -math.inf or not is_valid(layout, begin, width, log_weights, theta):
        raise ValueError("nothing can be drawn from a CircuitDensity whose parameters are out of their bounds")
    n_nodes = layout.kind.size
    leaf, stack = np.empty(out.size, np.int64), np.empty(n_nodes, np.int64)
    descend_at_random(rng, layout, log_weights, np.exp(log_weights), np.ones((n_nodes, 1)), True, 0, stack, leaf)
    for d in range(out.size):
        k = leaf[d]
        f = layout.leaf_family[k]
        first = begin[f] + layout.leaf_row[k] * width[f]
        own = theta[first : first + width[f]]
        if layout.leaf_code[k] != TABULATED:
            out[d] = draw_leaf(layout.leaf_code[k], rng, own)
        elif math.isnan(out[d]):
            part = k - (layout.leaf_code.size - parts.column.size)
            w = np.searchsorted(parts.first, part, side="right") - 1
            draw_cells(rng, own, parts.has_dof[w], parts.column[parts.first[w] : parts.first[w + 1]], out)
    return out


@inner_kernel
def draw_cells(rng, own, has_dof, column, row):
    """Draw what a row lacks of the columns of a leaf given the others, in place."""
    d = column.size
    order, z, factor = np.empty(d, np.int64), np.empty(d), np.empty((d, d))
    n_seen, _ = order_cells(row, column, -1, order, np.empty(d, np.int64))
    factor_leaf(own, has_dof, order, factor)
    width, square = 1.0, solve_cells(row, column, order, n_seen, own[has_dof:], factor, z)
    if has_dof == 1:
        width = math.sqrt((own[0] + square) / (2.0 * rng.standard_gamma(0.5 * (own[0] + n_seen))))
    for i in range(n_seen, d):
        z[i] = width * rng.standard_normal()
        x = own[has_dof + order[i]]
        for m in range(i + 1):
            x += factor[i, m] * z[m]
        row[column[order[i]]] = x
