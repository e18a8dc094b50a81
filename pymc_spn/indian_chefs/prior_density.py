"""Log density of the Indian chefs process, its gradient, and the pieces that moves are made of.

For alpha, gamma, phi and a graph whose nodes k have m_k children and a_k nodes strictly below, with base measure B
of the reputations (Lebesgue measure in the paper),

    log p = -alpha gamma S
        + sum over hidden k of    log(alpha gamma) + lgamma(m) + lgamma(alpha + a - m) - lgamma(alpha + a)
        + sum over observed k of  lgamma(phi + m) - lgamma(phi) + lgamma(alpha + a - m) - lgamma(alpha)
                                  - lgamma(alpha + phi + a) + lgamma(alpha + phi)
        + sum over free nodes of  log b(theta),
    S = integral of digamma(alpha + N(t-)) - digamma(alpha) over B(dt),

N(t-) the nodes strictly below t. It is the density over hidden nodes as a set (their sorted reputations) and labelled
observed nodes. The factor 1/K! of the published equation (9) belongs to another reference measure.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.indian_chefs.graph_state import is_admissible
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel
from pymc_spn.numerics.read_only_views import read_only_view


class GraphPrior(NamedTuple):
    """Hyperparameters and the base measure of the reputations.

    Parameters
    ----------
    alpha, gamma, phi : float
        Positive.
    uniform : float
        Mass of the uniform part of the base measure; 1 in the paper.
    levels, masses : (L,) float64
        Its atoms, ascending.
    """

    alpha: float
    gamma: float
    phi: float
    uniform: float
    levels: np.ndarray
    masses: np.ndarray


def make_prior(alpha: float, gamma: float, phi: float, base: Any = None) -> GraphPrior:
    """`GraphPrior` of numbers; ``base`` is (uniform mass, levels, masses), the uniform measure by default."""
    uniform, levels, masses = (1.0, (), ()) if base is None else base
    numbers = float(alpha), float(gamma), float(phi), float(uniform)
    return GraphPrior(*numbers, *(read_only_view(np.array(a, np.float64)) for a in (levels, masses)))


@bare_kernel
def digamma_gap(n, alpha):
    """digamma(alpha + n) - digamma(alpha)."""
    out = 0.0
    for j in range(n):
        out += 1.0 / (alpha + j)
    return out


@bare_kernel
def log_base(prior, theta):
    """Log density of the base measure at a reputation, with respect to Lebesgue measure plus counting of its atoms."""
    for j in range(prior.levels.size):
        if prior.levels[j] == theta:
            return math.log(prior.masses[j])
    return math.log(prior.uniform) if prior.uniform > 0.0 else -np.inf


@bare_kernel
def base_mass(prior, low, high):
    """Mass of the base measure in the open interval, which may reach beyond 0 and 1."""
    out = prior.uniform * max(min(high, 1.0) - max(low, 0.0), 0.0)
    for j in range(prior.levels.size):
        if low < prior.levels[j] < high:
            out += prior.masses[j]
    return out


@bare_called_kernel
def draw_base(rng, prior, low, high):
    """A reputation from the base measure cut to the open interval (0 and 1 included if these are its ends -1 and 2).

    Its mass must not be zero.
    """
    u = rng.random() * base_mass(prior, low, high)
    for j in range(prior.levels.size):
        if low < prior.levels[j] < high:
            if u < prior.masses[j]:
                return prior.levels[j]
            u -= prior.masses[j]
    return max(low, 0.0) + rng.random() * (min(high, 1.0) - max(low, 0.0))


@bare_kernel
def rate_integrals(state, prior):
    """S, the integral of digamma(alpha + N(t-)) - digamma(alpha) over the base measure, and its derivative by alpha."""
    n = state.count[0]
    gap = slope = out = slopes = at = 0.0
    atom = 0
    for j in range(n + 1):
        until = state.reputations[state.order[j]] if j < n else 1.0
        while atom < prior.levels.size and prior.levels[atom] <= until:
            out += prior.masses[atom] * gap
            slopes += prior.masses[atom] * slope
            atom += 1
        out += prior.uniform * (until - at) * gap
        slopes += prior.uniform * (until - at) * slope
        at = until
        rise = 1.0 / (prior.alpha + j)
        gap += rise
        slope -= rise * rise
    return out, slopes


@bare_kernel
def node_factor(prior, is_observed, n_below, n_children):
    """Log factor of one node, its reputation's base density left out."""
    a, alpha, phi = n_below, prior.alpha, prior.phi
    shared = math.lgamma(alpha + a - n_children)
    if is_observed:
        chosen = math.lgamma(phi + n_children) - math.lgamma(phi) - math.lgamma(alpha)
        return shared + chosen + math.lgamma(alpha + phi) - math.lgamma(alpha + phi + a)
    return shared + math.log(alpha * prior.gamma) + math.lgamma(n_children) - math.lgamma(alpha + a)


@bare_kernel
def log_density(state, prior):
    """Log density of a graph in nats, -inf where an edge points upwards or a hidden node has no child.

    Source: Dallaire et al. (2020), The Indian chefs process, equation (9), corrected.
    """
    if not is_admissible(state):
        return -np.inf
    out = -prior.alpha * prior.gamma * rate_integrals(state, prior)[0]
    for k in range(state.count[0]):
        is_observed = k < state.fixed.size
        out += node_factor(prior, is_observed, state.n_below[k], state.n_children[k])
        if not is_observed or not state.fixed[k]:
            out += log_base(prior, state.reputations[k])
    return out


@bare_called_kernel
def _rise(x, k):
    """Gamma(x + k) / Gamma(x) for a small integer k."""
    out = 1.0
    for j in range(k):
        out *= x + j
    for j in range(-k):
        out /= x - 1 - j
    return out


@bare_kernel
def log_density_ratio(state, before, hole, prior):
    """Log density of a graph minus that before a move, without the factor of a node that was born or died.

    Without its base density too, since most births draw from it. Reputations of others may be exchanged.

    Parameters
    ----------
    state, before : GraphState
    hole : int
        Slot that a deleted node had, into which the last one moved; -1 without a death.

    Returns
    -------
    float
        -inf where a hidden node has lost its last child.
    """
    alpha, n, n_before = prior.alpha, state.count[0], before.count[0]
    out = (n - n_before) * math.log(alpha * prior.gamma)
    out -= alpha * prior.gamma * (rate_integrals(state, prior)[0] - rate_integrals(before, prior)[0])
    for i in range(min(n, n_before)):
        old = n_before - 1 if i == hole else i
        a, m = before.n_below[old], before.n_children[old]
        more_below, more_children = state.n_below[i] - a, state.n_children[i] - m
        if more_below == 0 and more_children == 0:
            continue
        is_observed = i < state.fixed.size
        if not is_observed and state.n_children[i] == 0:
            return -np.inf
        shift = prior.phi if is_observed else 0.0
        ratio = _rise(shift + m, more_children) * _rise(alpha + a - m, more_below - more_children)
        out += math.log(ratio / _rise(alpha + shift + a, more_below))
    return out


@bare_called_kernel
def log_ties(state, prior):
    """Log of the number of orders of hidden nodes that share an atom: what a list has beyond a set."""
    out = 0.0
    for j in range(prior.levels.size):
        tied = 0
        for k in range(state.fixed.size, state.count[0]):
            tied += state.reputations[k] == prior.levels[j]
        out += math.lgamma(1.0 + tied)
    return out


@bare_kernel
def log_density_gradient(state, prior, out):
    """Derivatives of `log_density` with respect to alpha, gamma and phi.

    Parameters
    ----------
    out : (3,) float64
    """
    alpha, gamma, phi = prior.alpha, prior.gamma, prior.phi
    n, n_observed = state.count[0], state.fixed.size
    integral, slope = rate_integrals(state, prior)
    n_hidden = n - n_observed
    out[0] = -gamma * integral - alpha * gamma * slope + n_hidden / alpha
    out[1] = n_hidden / gamma - alpha * integral
    out[2] = 0.0
    for k in range(n):
        a, m = state.n_below[k], state.n_children[k]
        out[0] += digamma(alpha + a - m)
        if k < n_observed:
            shared = digamma(alpha + phi) - digamma(alpha + phi + a)
            out[0] += shared - digamma(alpha)
            out[2] += shared + digamma(phi + m) - digamma(phi)
        else:
            out[0] -= digamma(alpha + a)


@bare_kernel
def edge_odds(state, prior, k, i):
    """Odds of the edge k -> i given the rest of the graph, by the prior alone (equation 13).

    Returns
    -------
    float
        0 where the order forbids it; inf where hidden node k has no other child, so that the edge must stay.
    """
    if state.reputations[k] <= state.reputations[i]:
        return 0.0
    m = state.n_children[k] - state.parents[k, i]
    weight = m + prior.phi if k < state.fixed.size else np.float64(m)
    if weight == 0.0:
        return np.inf
    return weight / (prior.alpha + state.n_below[k] - 1 - m)
