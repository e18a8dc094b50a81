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
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
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


@kernel
def digamma_gap(n, alpha):
    """digamma(alpha + n) - digamma(alpha)."""
    out = 0.0
    for j in range(n):
        out += 1.0 / (alpha + j)
    return out


@kernel
def log_base(prior, theta):
    """Log density of the base measure at a reputation, with respect to Lebesgue measure plus counting of its atoms."""
    for j in range(prior.levels.size):
        if prior.levels[j] == theta:
            return math.log(prior.masses[j])
    return math.log(prior.uniform) if prior.uniform > 0.0 else -np.inf


@kernel
def base_mass(prior, low, high):
    """Mass of the base measure in the open interval, which may reach beyond 0 and 1."""
    out = prior.uniform * max(min(high, 1.0) - max(low, 0.0), 0.0)
    for j in range(prior.levels.size):
        if low < prior.levels[j] < high:
            out += prior.masses[j]
    return out


@inner_kernel
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


@kernel
def rate_integral(state, prior):
    """S: the integral of digamma(alpha + N(t-)) - digamma(alpha) over the base measure."""
    n = state.count[0]
    gap = out = at = 0.0
    atom = 0
    for j in range(n + 1):
        until = state.reputations[state.order[j]] if j < n else 1.0
        while atom < prior.levels.size and prior.levels[atom] <= until:
            out += prior.masses[atom] * gap
            atom += 1
        out += prior.uniform * (until - at) * gap
        at = until
        gap += 1.0 / (prior.alpha + j)
    return out


@kernel
def node_factor(prior, is_observed, n_below, n_children):
    """Log factor of one node, its reputation's base density left out."""
    a, alpha, phi = n_below, prior.alpha, prior.phi
    shared = math.lgamma(alpha + a - n_children)
    if is_observed:
        chosen = math.lgamma(phi + n_children) - math.lgamma(phi) - math.lgamma(alpha)
        return shared + chosen + math.lgamma(alpha + phi) - math.lgamma(alpha + phi + a)
    return shared + math.log(alpha * prior.gamma) + math.lgamma(n_children) - math.lgamma(alpha + a)


@kernel
def log_density(state, prior):
    """Log density of a graph in nats, -inf where an edge points upwards or a hidden node has no child.

    Source: Dallaire et al. (2020), The Indian chefs process, equation (9), corrected.
    """
    if not is_admissible(state):
        return -np.inf
    out = -prior.alpha * prior.gamma * rate_integral(state, prior)
    for k in range(state.count[0]):
        is_observed = k < state.fixed.size
        out += node_factor(prior, is_observed, state.n_below[k], state.n_children[k])
        if not is_observed or not state.fixed[k]:
            out += log_base(prior, state.reputations[k])
    return out


@inner_kernel
def log_ties(state, prior):
    """Log of the number of orders of hidden nodes that share an atom: what a list has beyond a set."""
    out = 0.0
    for j in range(prior.levels.size):
        tied = 0
        for k in range(state.fixed.size, state.count[0]):
            tied += state.reputations[k] == prior.levels[j]
        out += math.lgamma(1.0 + tied)
    return out


@kernel
def log_density_gradient(state, prior, out):
    """Derivatives of `log_density` with respect to alpha, gamma and phi.

    Parameters
    ----------
    out : (3,) float64
    """
    alpha, gamma, phi = prior.alpha, prior.gamma, prior.phi
    n, n_observed = state.count[0], state.fixed.size
    gap = slope = integral = integral_slope = at = 0.0
    atom = 0
    for j in range(n + 1):
        until = state.reputations[state.order[j]] if j < n else 1.0
        while atom < prior.levels.size and prior.levels[atom] <= until:
            integral += prior.masses[atom] * gap
            integral_slope += prior.masses[atom] * slope
            atom += 1
        integral += prior.uniform * (until - at) * gap
        integral_slope += prior.uniform * (until - at) * slope
        at = until
        gap += 1.0 / (alpha + j)
        slope -= 1.0 / (alpha + j) ** 2
    n_hidden = n - n_observed
    out[0] = -gamma * integral - alpha * gamma * integral_slope + n_hidden / alpha
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


@kernel
def edge_log_odds(state, prior, k, i):
    """Log odds of the edge k -> i given the rest of the graph, by the prior alone (equation 13).

    Returns
    -------
    float
        -inf where the order forbids it; inf where hidden node k has no other child, so that the edge must stay.
    """
    if state.reputations[k] <= state.reputations[i]:
        return -np.inf
    m = state.n_children[k] - state.parents[k, i]
    weight = m + prior.phi if k < state.fixed.size else np.float64(m)
    if weight == 0.0:
        return np.inf
    return math.log(weight / (prior.alpha + state.n_below[k] - 1 - m))


@kernel
def insertion_log_ratio(state, prior, theta, without):
    """What a new hidden node at ``theta`` changes in the density apart from its own node factor and base density.

    The nodes above it have one node more below them, and the exponent grows.

    Parameters
    ----------
    without : int
        A node that is taken not to be there (for the reverse of an insertion), or -1.
    """
    n = state.count[0]
    out = 0.0
    exponent = 0.0
    at = theta
    seen = 0
    atom = 0
    while atom < prior.levels.size and prior.levels[atom] <= theta:
        atom += 1
    for j in range(n + 1):
        x = state.order[j] if j < n else -1
        if x >= 0 and x == without:
            continue
        until = state.reputations[x] if x >= 0 else 1.0
        while atom < prior.levels.size and prior.levels[atom] <= until:
            exponent += prior.masses[atom] / (prior.alpha + seen)
            atom += 1
        if until > at:
            exponent += prior.uniform * (until - at) / (prior.alpha + seen)
            at = until
        if x >= 0:
            seen += 1
            if until > theta:
                below = state.n_below[x]
                if without >= 0 and state.reputations[without] < until:
                    below -= 1
                top = prior.alpha + below - state.n_children[x]
                out += math.log(top / (prior.alpha + below + (prior.phi if x < state.fixed.size else 0.0)))
    return out - prior.alpha * prior.gamma * exponent
