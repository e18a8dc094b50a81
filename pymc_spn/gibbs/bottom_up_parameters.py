"""Weights and leaf parameters of the bottom-up sampler, drawn given all trees, and the leaf terms from them.

A leaf term is the log of (weight of the leaf's edge) x (density of the leaf) x (constant of its column), in bits
(log2). For leaves of numbers it is ``lead - (u - centre)^2 curvature + u slope`` plus the log base measure;
`leaves.conjugate_pieces` has the pieces. For discrete leaves it is a table over levels. The constant of a column makes
the densest leaf's peak 1; each induced tree has one leaf in each column, so it changes no probability.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.explicit_layout import node_below
from pymc_spn.gibbs.family_kernels import (
    growth_of,
    has_peaks,
    is_located,
    is_of_logs,
    peak_of,
    takes_two_variates,
    terms_of,
)
from pymc_spn.leaves.conjugate_pieces import BETA_PRIOR, LOG2_E, NORMAL_GAMMA_PRIOR
from pymc_spn.leaves.families import CONJUGATES
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.student_t import gaussian_posterior
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.gamma_draws import log_gamma_draws
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
# by code: families of which the second parameter is the shape of a gamma variate too, and those with a precision
TWO_VARIATES = [code for code, part in CONJUGATES.items() if part.prior_form == BETA_PRIOR]
LOCATED = [code for code, part in CONJUGATES.items() if part.prior_form == NORMAL_GAMMA_PRIOR]


@array_group
class Parameters(NamedTuple):
    """Priors, statistics and current parameters; E edges of which L lead to leaves, K level cells.

    The gamma variates behind all parameters stand in one row. E of them are for the weights, K for the level
    probabilities, and L for precisions and rates (unused where the leaf is discrete). Where some leaf has a probability
    there are L more, since that takes two.
    """

    prior: np.ndarray  # (P, 4) prior parameters of the palette entries
    prior_shape: np.ndarray  # (E+K+L or E+K+2L,) shapes of the gamma variates without data
    shape: np.ndarray  # (same) with the data of the current trees
    log_gamma: np.ndarray  # (same)
    scratch: np.ndarray  # (3, same)
    n_data: np.ndarray  # (L,) data in the leaf
    s1: np.ndarray  # (L,) their sum
    s2: np.ndarray  # (L,) and sum of squares
    log_norm: np.ndarray  # (S,)
    weight: np.ndarray  # (E,) weights of the edges
    log_weight: np.ndarray  # (E,) in nats
    entry: np.ndarray  # (L,) palette entry of the leaf
    cell_begin: np.ndarray  # (D,) level v of leaf l of column d: cell_begin[d] + l n_levels[d] + v, l within d
    lead: np.ndarray  # (L,)
    centre: np.ndarray  # (L,)
    curvature: np.ndarray  # (L,)
    slope: np.ndarray  # (L,)
    level_term: np.ndarray  # (K,) leaf terms of discrete leaves
    level_value: np.ndarray  # (K,) two to the power of these


def make_parameters(layout, palette):
    """Parameters with room for all edges, leaves and levels; priors are installed by `install_priors`."""
    entry, cell_begin, n_cells = [], [], 0
    for d, r in enumerate(layout.leaf_region):
        first, last = palette.entry_ptr[d : d + 2]
        entry.append(np.tile(first + np.arange(layout.width[r]) % (last - first), layout.n_nodes[r]))
        cell_begin.append(n_cells)
        n_cells += palette.n_levels[d] * entry[-1].size
    entry = np.concatenate(entry)
    n_leaves = entry.size
    n_edges = int((layout.n_nodes * layout.width).sum())
    n_variates = n_edges + n_cells + n_leaves * (2 if np.any(np.isin(palette.family, TWO_VARIATES)) else 1)
    leaf = ("n_data", "s1", "s2", "lead", "centre", "curvature", "slope")
    return Parameters(
        prior=np.zeros((palette.family.size, 4)),
        prior_shape=np.ones(n_variates),
        shape=np.ones(n_variates),
        log_gamma=np.zeros(n_variates),
        scratch=np.zeros((3, n_variates)),
        log_norm=np.zeros(int(layout.n_nodes.sum())),
        weight=np.zeros(n_edges),
        log_weight=np.zeros(n_edges),
        entry=entry,
        cell_begin=np.array(cell_begin, np.int64),
        level_term=np.zeros(n_cells),
        level_value=np.zeros(n_cells),
        **{name: np.zeros(n_leaves) for name in leaf},
    )


def install_priors(parameters, layout, palette, shares, prior):
    """Copy the priors of the palette entries and the child masses into the shapes of the gamma variates."""
    parameters.prior[:] = prior
    n_edges, n_cells = parameters.weight.size, parameters.level_term.size
    for r, share in enumerate(shares):
        begin = layout.edge_begin[r]
        parameters.prior_shape[begin : begin + layout.n_nodes[r] * share.size] = np.tile(share, layout.n_nodes[r])
    for d, r in enumerate(layout.leaf_region):
        begin, n = layout.edge_begin[r], layout.n_nodes[r] * layout.width[r]
        entry, n_levels = parameters.entry[begin : begin + n], palette.n_levels[d]
        family = palette.family[entry]
        lead = np.where(np.isin(family, LOCATED), prior[entry, 2], prior[entry, 0])
        discrete = family == CATEGORICAL
        parameters.prior_shape[n_edges + n_cells + begin :][:n] = np.where(discrete, 1.0, lead)
        two = np.isin(family, TWO_VARIATES)
        if np.any(two):
            second = n_edges + n_cells + parameters.entry.size
            parameters.prior_shape[second + begin :][:n] = np.where(two, prior[entry, 1], 1.0)
        cells = n_edges + parameters.cell_begin[d]
        parameters.prior_shape[cells : cells + n * n_levels] = np.repeat(np.where(discrete, lead, 1.0), n_levels)


@kernel
def redraw_parameters(rng, par, layout, palette, y, digits):
    """Draw all weights and leaf parameters given the trees, and work out the leaf terms.

    Parameters
    ----------
    rng : numpy.random.Generator
    par : Parameters
    layout : ExplicitLayout
    palette : CompiledPalette
    y : (D, N) float64
        Coded table, transposed.
    digits : (N, R) int32
    """
    gather_statistics(par, layout, palette, y, digits)
    log_gamma_draws(rng, par.shape, par.log_gamma, par.scratch[0], par.scratch[1], par.scratch[2])
    normalise_weights(par, layout)
    for d in range(layout.leaf_region.size):
        draw_leaves(rng, par, layout, palette, d)
    for c in range(layout.place_ptr.size - 1):
        peak = -math.inf
        for d in range(layout.place_ptr[c], layout.place_ptr[c + 1]):
            peak = max(peak, highest_term(par, layout, palette, d))
        for d in range(layout.place_ptr[c], layout.place_ptr[c + 1]):
            add_weights(par, layout, palette, d, peak)


@inner_kernel
def gather_statistics(par, layout, palette, y, digits):
    """Counts and sums of every edge and leaf from the trees: always fresh, so nothing drifts."""
    n_edges = par.weight.size
    first_leaf = n_edges + par.level_term.size
    par.shape[:] = par.prior_shape
    par.n_data[:] = 0.0
    par.s1[:] = 0.0
    par.s2[:] = 0.0
    child = np.empty(digits.shape[1], np.int64)
    for n in range(digits.shape[0]):
        for r in range(digits.shape[1]):
            if digits[n, r] < 0:
                continue
            node = node_below(layout, r, child[layout.parent[r]]) if r > 0 else 0
            child[r] = node * layout.width[r] + digits[n, r]
            e = layout.edge_begin[r] + child[r]
            par.shape[e] += 1.0
            d = layout.column[r]
            if d < 0:
                continue
            family = palette.family[par.entry[e]]
            if family == CATEGORICAL:
                par.shape[n_edges + par.cell_begin[d] + child[r] * palette.n_levels[d] + int(y[d, n])] += 1.0
                continue
            x = y[d, n]
            if is_of_logs(family):
                x = math.log(x + palette.offset[d])
            elif not is_located(family):
                x += palette.offset[d]
            par.n_data[e] += 1.0
            par.s1[e] += x
            par.s2[e] += x * x + palette.cell_variance[d]
            first, second = growth_of(family, x, par.prior[par.entry[e], 2])
            par.shape[first_leaf + e] += first
            if takes_two_variates(family):
                par.shape[first_leaf + par.entry.size + e] += second


@inner_kernel
def normalise_weights(par, layout):
    """Dirichlet weights from the logs of their gamma variates; the largest of a node is divided out first."""
    log_weight = par.log_weight
    for r in range(layout.width.size):
        width = layout.width[r]
        for k in range(layout.n_nodes[r]):
            e = layout.edge_begin[r] + k * width
            largest = par.log_gamma[e]
            for c in range(1, width):
                largest = max(largest, par.log_gamma[e + c])
            for c in range(width):
                log_weight[e + c] = par.log_gamma[e + c] - largest
    for e in range(log_weight.size):
        par.weight[e] = fast_exp(log_weight[e])
    for r in range(layout.width.size):
        width = layout.width[r]
        for k in range(layout.n_nodes[r]):
            e = layout.edge_begin[r] + k * width
            total = 0.0
            for c in range(width):
                total += par.weight[e + c]
            par.log_norm[layout.node_begin[r] + k] = total
    for s in range(par.log_norm.size):
        par.log_norm[s] = fast_log(par.log_norm[s])
    for r in range(layout.width.size):
        width = layout.width[r]
        for k in range(layout.n_nodes[r]):
            e = layout.edge_begin[r] + k * width
            log_norm = par.log_norm[layout.node_begin[r] + k]
            scale = math.exp(-log_norm) if layout.column[r] < 0 else 1.0  # leaves take their weight in logs
            for c in range(width):
                log_weight[e + c] -= log_norm
                par.weight[e + c] *= scale


@inner_kernel
def draw_leaves(rng, par, layout, palette, d):
    """Parameters of the leaves of a column from their posteriors, as leaf terms."""
    r = layout.leaf_region[d]
    begin = layout.edge_begin[r]
    end = begin + layout.n_nodes[r] * layout.width[r]
    first_variate = par.weight.size + par.level_term.size
    for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
        family = palette.family[e]
        if is_located(family):
            normal = par.scratch[0, begin:end]
            for i in range(normal.size):
                normal[i] = rng.standard_normal()
            draw_gaussians(
                normal,
                par.log_gamma[first_variate + begin : first_variate + end],
                par.entry[begin:end] == e,
                par.prior[e],
                palette.cell_variance[d],
                par.n_data[begin:end],
                par.s1[begin:end],
                par.s2[begin:end],
                par.lead[begin:end],
                par.centre[begin:end],
                par.curvature[begin:end],
                par.slope[begin:end],
            )
        elif family == CATEGORICAL:
            draw_levels(par, d, begin, end, e, palette.n_levels[d])
        else:
            draw_terms(par, begin, end, e, family, palette.offset[d], par.log_gamma[first_variate:])


@inner_kernel
def draw_gaussians(normal, log_gamma, own, prior, cell, count, s1, s2, lead, centre, curvature, slope):
    """Normal-gamma draws: precision = gamma variate / b, then the mean; leaves not ``own`` are kept."""
    mu0, rho0, a0, b0 = prior[0], prior[1], prior[2], prior[3]
    for i in range(own.size):
        mean, rho, _, b = gaussian_posterior(count[i], s1[i], s2[i], mu0, rho0, a0, b0)
        log_precision = log_gamma[i] - fast_log(b)
        precision = fast_exp(log_precision)
        mean += normal[i] / math.sqrt(rho * precision)
        term = 0.5 * (log_precision - precision * cell) - HALF_LOG_2PI
        lead[i] = LOG2_E * term if own[i] else lead[i]
        centre[i] = mean if own[i] else centre[i]
        curvature[i] = 0.5 * LOG2_E * precision if own[i] else curvature[i]
        slope[i] = 0.0 if own[i] else slope[i]


@inner_kernel
def draw_terms(par, begin, end, entry, family, offset, log_gamma):
    """Rates or probabilities of leaves, from their one or two gamma variates; all see y + offset."""
    prior = par.prior[entry]
    second = par.entry.size if takes_two_variates(family) else 0
    for i in range(begin, end):
        if par.entry[i] != entry:
            continue
        par.lead[i], par.centre[i], par.curvature[i], par.slope[i] = terms_of(
            family,
            log_gamma[i],
            log_gamma[second + i],
            par.n_data[i],
            par.s1[i],
            prior[0],
            prior[1],
            prior[2],
            prior[3],
            offset,
        )


@inner_kernel
def draw_levels(par, d, begin, end, entry, n_levels):
    """Level probabilities of discrete leaves from their gamma variates."""
    log_gamma = par.log_gamma[par.weight.size + par.cell_begin[d] :]
    term = par.level_term[par.cell_begin[d] :]
    for i in range(begin, end):
        if par.entry[i] != entry:
            continue
        cell = (i - begin) * n_levels
        largest = log_gamma[cell]
        for v in range(1, n_levels):
            largest = max(largest, log_gamma[cell + v])
        total = 0.0
        for v in range(n_levels):
            total += math.exp(log_gamma[cell + v] - largest)
        log_norm = largest + math.log(total)
        for v in range(n_levels):
            term[cell + v] = LOG2_E * (log_gamma[cell + v] - log_norm)


@inner_kernel
def highest_term(par, layout, palette, d):
    """Bound on the leaf terms of a place before weights are added: the highest peak of its leaves' densities."""
    begin = layout.edge_begin[layout.leaf_region[d]]
    end = begin + layout.n_nodes[layout.leaf_region[d]] * layout.width[layout.leaf_region[d]]
    peak = -math.inf
    for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
        family = palette.family[e]
        if not has_peaks(family):
            peak = max(peak, 0.0)  # a probability is at most 1
            continue
        for i in range(begin, end):
            if par.entry[i] == e:
                own = peak_of(family, par.lead[i], par.centre[i], par.curvature[i], par.slope[i], palette.offset[d])
                peak = max(peak, own)
    return peak


@inner_kernel
def add_weights(par, layout, palette, d, peak):
    """Put the edges' weights and the constant of the column (``peak``, the same at all its places) into the terms."""
    begin = layout.edge_begin[layout.leaf_region[d]]
    end = begin + layout.n_nodes[layout.leaf_region[d]] * layout.width[layout.leaf_region[d]]
    n_levels = palette.n_levels[d]
    lead = par.lead[begin:end]
    log_weight = par.log_weight[begin:end]
    for i in range(lead.size):
        lead[i] += LOG2_E * log_weight[i] - peak
    cells = par.cell_begin[d]
    for i in range(log_weight.size if n_levels > 0 else 0):
        for v in range(cells + i * n_levels, cells + (i + 1) * n_levels):
            par.level_term[v] += LOG2_E * log_weight[i] - peak
            par.level_value[v] = math.exp(par.level_term[v] / LOG2_E)
