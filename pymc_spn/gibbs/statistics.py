"""Sufficient statistics of a state in one flat vector, and the collapsed log joint with its gradient.

The vector is what the observed variable of `SPN` takes as input, so its log density costs the occupied nodes only.

=============  =======================================================================================
offset         content
=============  =======================================================================================
0              ticket: the log joint as the sampler left it
1 .. 4         numbers of sum nodes V, edges G, leaves L, level cells K
5              log Jacobian of the coding, in nats: added to the log joint
6              number of leaves over several columns J
HEAD ..        leaves of column d, at all its places: leaf_ptr[d] .. leaf_ptr[d+1], D + 1 numbers
then           V x (class, count): class 0 for several columns, 1 for one
then           G x (class, factor, count): mass of the edge = factor * concentration; factor < 0 marks a child of an
               infinite node, whose prior weight is concentration * (-factor)
then           L x (entry, count, s1, s2, first level cell)
then           K level counts
then           of each of the J leaves: number of columns d, count, columns (d,), sums (d,), products (d (d + 1) / 2,)
end            the missing cells that the step drew (``missing="draw"``), row by row
=============  =======================================================================================
"""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from pymc_spn.gibbs.family_kernels import (
    add_log_marginal,
    add_slopes,
    is_located,
    is_of_logs,
    is_of_probabilities,
    prior_of,
)
from pymc_spn.gibbs.joint_statistics import (
    joint_numbers,
    joint_scratch,
    log_of_joint_leaves,
    slopes_of_joint_leaves,
)
from pymc_spn.gibbs.network import region_of_slots
from pymc_spn.leaves.families import CONJUGATES
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.gamma_ratios import log_rising, log_rising_from
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

HEAD = 7
NODE, EDGE, LEAF = 2, 3, 5  # numbers for each


class LeafPriors(NamedTuple):
    """What the log joint needs of a palette, read-only."""

    family: np.ndarray  # (E,) family codes
    constants: np.ndarray  # (E, 4 + K)
    n_levels: np.ndarray  # (D,)
    joint_constants: np.ndarray  # (D, 3)


@register_jitable
def leaf_priors(palette):
    """Of a `CompiledPalette`, or of priors with arrays of any kind."""
    return LeafPriors(
        read_only_view(palette.family),
        read_only_view(palette.constants),
        read_only_view(palette.n_levels),
        read_only_view(palette.joint_constants),
    )


def pack_statistics(net, log_jacobian):
    """Statistics vector of a `Network`'s current state; the ticket is 0.

    ``log_jacobian`` is the log density of the coded table relative to the original one, summed over all density-valued
    cells.
    """
    tree, palette, edges, nodes, leaves = net.tree, net.palette, net.edges, net.nodes, net.leaves
    node = np.flatnonzero(nodes.n_data)
    is_leaf_node = tree.column[np.searchsorted(nodes.begin, node, side="right") - 1] >= 0
    slot = np.flatnonzero(edges.n_data)
    region = region_of_slots(edges)[slot]
    n_leaves = int(np.searchsorted(slot, leaves.entry.size))  # univariate regions come first
    inner, leaf, place = region[n_leaves:], slot[:n_leaves], tree.column[region[:n_leaves]]
    copies, width = palette.copies[leaves.entry[leaf]], tree.width[inner]
    factor = np.concatenate(
        [
            np.where(copies > 0, 1.0 / np.maximum(copies, 1), -1.0) / np.diff(palette.entry_ptr)[place],
            np.where(width > 0, 1.0 / np.maximum(width, 1), -1.0 / tree.n_splits[inner]),
        ]
    )
    n_levels = palette.n_levels[place]
    level_ptr = np.concatenate([[0], np.cumsum(n_levels)])
    level = np.arange(level_ptr[-1]) - np.repeat(level_ptr[:-1], n_levels)
    cell = np.repeat(leaves.level_begin[place] + leaf, n_levels) + level * np.repeat(leaves.capacity[place], n_levels)
    n_columns = palette.place_ptr.size - 1
    n_joint, joints = (0, []) if net.joints is None else joint_numbers(net, slot[n_leaves:], inner)
    leaf_at = HEAD + n_columns + 1 + NODE * node.size + EDGE * slot.size
    held = [
        palette.entry_source[leaves.entry[leaf]],
        edges.n_data[leaf],
        leaves.s1[leaf],
        leaves.s2[leaf],
        leaf_at + LEAF * n_leaves + level_ptr[:-1],
    ]
    return np.concatenate(
        [
            [0.0, node.size, slot.size, n_leaves, cell.size, log_jacobian, n_joint],
            np.searchsorted(palette.source[place], np.arange(n_columns + 1)),
            np.column_stack([is_leaf_node, nodes.n_data[node]]).ravel(),
            np.column_stack([np.arange(slot.size) < n_leaves, factor, edges.n_data[slot]]).ravel(),
            np.column_stack(held).ravel(),
            leaves.level_count[cell],
            *joints,
        ]
    )


@bare_called_kernel
def log_assignments(state, n_columns, which, mass):
    """Log probability of the assignments at one class of sum nodes.

    Dirichlet-multinomial at finite nodes (labelled children), Chinese restaurant at infinite ones (unlabelled).
    """
    node_at = HEAD + n_columns + 1
    edge_at = node_at + NODE * int(state[1])
    log_p = 0.0
    at_mass = math.lgamma(mass)
    for i in range(node_at, edge_at, NODE):
        if state[i] == which:
            log_p -= log_rising_from(mass, state[i + 1], at_mass)
    for i in range(edge_at, edge_at + EDGE * int(state[2]), EDGE):
        if state[i] == which:
            factor = state[i + 1]
            n = state[i + 2]
            log_p += math.log(-factor * mass) + math.lgamma(n) if factor < 0.0 else log_rising(factor * mass, n)
    return log_p


@bare_called_kernel
def slope_of_assignments(state, n_columns, which, mass):
    """Derivative of `log_assignments` in the concentration."""
    node_at = HEAD + n_columns + 1
    edge_at = node_at + NODE * int(state[1])
    slope = 0.0
    at_mass = digamma(mass)
    for i in range(node_at, edge_at, NODE):
        if state[i] == which:
            slope += at_mass - digamma(mass + state[i + 1])
    for i in range(edge_at, edge_at + EDGE * int(state[2]), EDGE):
        if state[i] == which:
            factor = state[i + 1]
            share = factor * mass
            slope += 1.0 / mass if factor < 0.0 else factor * (digamma(share + state[i + 2]) - digamma(share))
    return slope


@bare_called_kernel
def entry_prior(family, constants, n_levels, leaf_scale, leaf_shape, precision_ratio):
    """Prior parameters of a palette entry in coded units.

    ``constants`` is (mean, variance, floor of the prior variance, relative scale), see `PaletteEntry.coded_constants`.
    """
    scale = leaf_scale * constants[3]
    return prior_of(
        family, constants[0], constants[1], constants[2], scale, float(n_levels), leaf_shape, precision_ratio
    )


def entry_priors(palette, leaf_scale, leaf_shape, precision_ratio):
    """Prior parameters (E, 4) of every palette entry from the hyperparameters of its column, (D,) each."""
    column = np.repeat(np.arange(palette.n_levels.size), np.diff(palette.entry_ptr)).tolist()
    scale = (leaf_scale[column] * palette.constants[:, 3]).tolist()
    rows = zip(palette.family.tolist(), palette.constants[:, :3].tolist(), scale, column, strict=True)
    return np.array(
        [
            CONJUGATES[code].prior(*own, a, float(palette.n_levels[d]), float(leaf_shape[d]), float(precision_ratio[d]))
            for code, own, a, d in rows
        ]
    ).reshape(-1, 4)


@bare_kernel
def log_column(state, d, palette, leaf_scale, leaf_shape, precision_ratio):
    """Log marginal likelihood of a column given its leaves, in coded units."""
    n_columns = palette.n_levels.size
    n_levels = palette.n_levels[d]
    constants = palette.constants
    first_leaf = HEAD + n_columns + 1 + NODE * int(state[1]) + EDGE * int(state[2])
    log_p = 0.0
    known = -1
    p0 = p1 = p2 = p3 = 0.0
    c0 = c1 = 0.0
    for leaf in range(int(state[HEAD + d]), int(state[HEAD + d + 1])):
        at = first_leaf + LEAF * leaf
        e = int(state[at])
        n = state[at + 1]
        code = palette.family[e]
        if e != known:
            p0, p1, p2, p3 = entry_prior(code, constants[e], n_levels, leaf_scale, leaf_shape, precision_ratio)
            known = e
            c0 = math.lgamma(p2 if is_located(code) else p0)
            other = p3 if is_located(code) else p1
            c1 = math.lgamma(other) if is_of_probabilities(code) else math.log(other)
        if code == CATEGORICAL:
            log_p -= log_rising_from(p1, n, c1)
            cell = int(state[at + 4])
            for level in range(n_levels):
                if state[cell + level] > 0.0:
                    log_p += log_rising(p0 * constants[e, 4 + level], state[cell + level])
            continue
        log_p = add_log_marginal(code, log_p, n, state[at + 2], state[at + 3], p0, p1, p2, p3, c0, c1)
        if is_of_logs(code):
            log_p -= state[at + 2]  # the Jacobian of every value
    return log_p


@bare_called_kernel
def slopes_of_column(state, d, palette, leaf_scale, leaf_shape, precision_ratio, slopes):
    """Derivatives (3,) of `log_column` in (leaf_scale, leaf_shape, precision_ratio)."""
    n_columns = palette.n_levels.size
    n_levels = palette.n_levels[d]
    constants = palette.constants
    first_leaf = HEAD + n_columns + 1 + NODE * int(state[1]) + EDGE * int(state[2])
    slopes[:] = 0.0
    for leaf in range(int(state[HEAD + d]), int(state[HEAD + d + 1])):
        at = first_leaf + LEAF * leaf
        e = int(state[at])
        n = state[at + 1]
        code = palette.family[e]
        p0, p1, p2, p3 = entry_prior(code, constants[e], n_levels, leaf_scale, leaf_shape, precision_ratio)
        s0 = digamma(p2 if is_located(code) else p0)
        other = p3 if is_located(code) else p1
        by_sum = is_of_probabilities(code)
        s1 = digamma(other) if by_sum else 0.0
        if code == CATEGORICAL:
            by_alpha = n_levels * (s1 - digamma(p1 + n))
            cell = int(state[at + 4])
            for level in range(n_levels):
                if state[cell + level] > 0.0:
                    factor = constants[e, 4 + level]
                    by_alpha += factor * (digamma(p0 * factor + state[cell + level]) - digamma(p0 * factor))
            slopes[0] -= by_alpha / (leaf_scale * constants[e, 3] * leaf_scale)
            continue
        c1 = math.lgamma(other) if by_sum else math.log(other)
        add_slopes(code, slopes, n, state[at + 2], state[at + 3], p0, p1, p2, p3, s0, s1, constants[e], leaf_scale, c1)


@register_jitable
def log_joint(state, palette, concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale):
    """Log p(data, assignments | hyperparameters) in the units of the data, in nats.

    Parameters
    ----------
    state : (n,) float64
        From `pack_statistics`.
    palette : CompiledPalette or LeafPriors
    concentration : (2,) float64
        Total mass of sum nodes over several columns and over one.
    leaf_scale, leaf_shape, precision_ratio, covariance_scale : (D,) float64
    """
    return _log_joint(
        read_only_view(state),
        leaf_priors(palette),
        read_only_view(concentration),
        read_only_view(leaf_scale),
        read_only_view(leaf_shape),
        read_only_view(precision_ratio),
        read_only_view(covariance_scale),
        joint_scratch(leaf_scale.size),
    )


@bare_kernel
def _log_joint(state, palette, concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale, scratch):
    n_columns = leaf_scale.size
    total = state[5]
    for which in range(2):
        total += log_assignments(state, n_columns, which, concentration[which])
    for d in range(n_columns):
        total += log_column(state, d, palette, leaf_scale[d], leaf_shape[d], precision_ratio[d])
    return total + log_of_joint_leaves(state, n_columns, palette.joint_constants, covariance_scale, scratch)


@register_jitable
def slopes_of_log_joint(
    state, palette, concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale, gradient
):
    """Write the derivatives (2 + 4 D,) of `log_joint` in its five last arguments, in this order."""
    _slopes_of_log_joint(
        read_only_view(state),
        leaf_priors(palette),
        read_only_view(concentration),
        read_only_view(leaf_scale),
        read_only_view(leaf_shape),
        read_only_view(precision_ratio),
        read_only_view(covariance_scale),
        joint_scratch(leaf_scale.size),
        gradient,
    )


@kernel
def _slopes_of_log_joint(
    state, palette, concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale, scratch, gradient
):
    n_columns = leaf_scale.size
    for which in range(2):
        gradient[which] = slope_of_assignments(state, n_columns, which, concentration[which])
    slopes = np.empty(3)
    for d in range(n_columns):
        slopes_of_column(state, d, palette, leaf_scale[d], leaf_shape[d], precision_ratio[d], slopes)
        for k in range(slopes.size):
            gradient[2 + k * n_columns + d] = slopes[k]
    by_scale = gradient[2 + 3 * n_columns :]
    slopes_of_joint_leaves(state, n_columns, palette.joint_constants, covariance_scale, scratch, by_scale)


@kernel
def is_stale(ticket, state, missing):
    """Whether the state is another than that of the ticket and of the drawn cells; ticket 0 is a start."""
    if ticket == 0.0:
        return False
    stale = ticket != state[0]
    for k in range(missing.size):
        stale |= missing[k] != state[state.size - missing.size + k]
    return stale
