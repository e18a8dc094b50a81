"""The Indian chefs process again, slowly: its density from Beta integrals, two other samplers, and statistics.

Shares no code with the package.
"""

from itertools import pairwise

import numpy as np
from scipy.special import betaln, digamma, gammaln


def log_density(parents, reputations, n_observed, alpha, gamma, phi, fixed=None, base=None):
    """Limit of the density of the model with K candidates, from integrals over reputations and popularities.

    Parameters
    ----------
    parents : (n, n) bool
        [k, i] where k is a parent of i; observed nodes first.
    reputations : (n,)
    fixed : (D,) bool
        All by default.
    base : (float, levels, masses), optional
    """
    parents, theta = np.asarray(parents, bool), np.asarray(reputations, float)
    n = len(theta)
    uniform, levels, masses = (1.0, [], []) if base is None else base
    fixed = np.ones(n_observed, bool) if fixed is None else fixed
    grid = np.unique(np.concatenate([[0.0, 1.0], theta]))
    total = 0.0
    for low, high in pairwise(grid):
        below = (theta <= low).sum()
        total += uniform * (high - low) * (digamma(alpha + below) - digamma(alpha))
    for level, mass in zip(levels, masses, strict=True):
        total += mass * (digamma(alpha + (theta < level).sum()) - digamma(alpha))
    out = -alpha * gamma * total
    for k in range(n):
        m, a = parents[k].sum(), (theta < theta[k]).sum()
        if (theta[parents[k]] >= theta[k]).any() or (k >= n_observed and m == 0):
            return -np.inf
        if k < n_observed:
            out += betaln(phi + m, alpha + a - m) - betaln(phi, alpha)
        else:
            out += np.log(alpha * gamma) + betaln(m, alpha + a - m)
        if k >= n_observed or not fixed[k]:
            at = [mass for level, mass in zip(levels, masses, strict=True) if level == theta[k]]
            out += np.log(at[0] if at else uniform)
    return out


def log_density_finite(parents, reputations, n_observed, alpha, gamma, phi, K):
    """Density with K candidate nodes in all, D of them observed (corrected equation 8), all observed ones fixed."""
    parents, theta = np.asarray(parents, bool), np.asarray(reputations, float)
    n, n_hidden = len(theta), len(theta) - n_observed
    first, second = alpha * gamma / K, alpha * (1.0 - gamma / K)
    grid = np.unique(np.concatenate([[0.0, 1.0], theta]))
    unused = 0.0
    for low, high in pairwise(grid):
        below = (theta <= low).sum()
        unused += (high - low) * np.exp(betaln(first, second + below) - betaln(first, second))
    out = (K - n) * np.log(unused) + gammaln(K - n_observed + 1) - gammaln(K - n_observed - n_hidden + 1)
    for k in range(n):
        m, a = parents[k].sum(), (theta < theta[k]).sum()
        shape = first + phi if k < n_observed else first
        out += betaln(shape + m, second + a - m) - betaln(shape, second)
    return out


def _graph(parents, theta):
    return np.array(parents, bool), np.array(theta, float)


def corrected_chefs(rng, reputations, alpha, gamma, phi, printed=None):
    """Forward draw by a queue of chefs: corrected steps (10) to (12).

    Parameters
    ----------
    reputations : (D,)
        NaN where free.
    printed : {None, "binomial", "whole_map"}
        A published slip to plant: Binomial for Beta-binomial in (10); all chefs of the queue counted in (11).
    """
    theta = [rng.random() if np.isnan(t) else t for t in reputations]
    n_observed = len(theta)
    edges, processed = set(), []
    queue = list(range(n_observed))
    m = [0] * n_observed
    place = 0
    while place < len(queue):
        i = queue[place]
        place += 1
        below = [x for x in processed if theta[x] < theta[i]]
        if i < n_observed:
            p = phi / (alpha + phi) if printed == "binomial" else rng.beta(phi, alpha)
            for x in below:
                if rng.random() < p:
                    edges.add((i, x))
                    m[i] += 1
        for k in [*processed, *(k for k in queue[place:] if k >= n_observed)]:
            if theta[k] > theta[i]:
                shift = phi if k < n_observed else 0.0
                if printed == "whole_map":
                    seen = sum(t < theta[k] for t in theta)
                else:
                    seen = sum(theta[x] < theta[k] for x in [*processed, i])
                if rng.random() < (m[k] + shift) / (alpha + seen - 1 + shift):
                    edges.add((k, i))
                    m[k] += 1
        done = [*processed, i]
        cuts = np.unique([theta[i], 1.0, *(theta[x] for x in done if theta[x] > theta[i])])
        for low, high in pairwise(cuts):
            if low >= theta[i]:
                seen = sum(theta[x] <= low for x in done)
                for _ in range(rng.poisson(alpha * gamma / (alpha + seen - 1) * (high - low))):
                    theta.append(rng.uniform(low, high))
                    m.append(1)
                    edges.add((len(theta) - 1, i))
                    queue.append(len(theta) - 1)
        processed.append(i)
    parents = np.zeros((len(theta), len(theta)), bool)
    for k, i in edges:
        parents[k, i] = True
    return _graph(parents, theta)


def finite_model(rng, reputations, alpha, gamma, phi, K):
    """Draw of the model with K candidates: popularities, edges to active nodes upwards, inactive nodes dropped."""
    n_observed = len(reputations)
    free = rng.random(K)
    theta = np.where(np.arange(K) < n_observed, np.pad(np.nan_to_num(reputations), (0, K - n_observed)), free)
    theta[:n_observed] = np.where(np.isnan(reputations), free[:n_observed], reputations)
    first, second = alpha * gamma / K, alpha * (1.0 - gamma / K)
    popularity = rng.beta(first + phi * (np.arange(K) < n_observed), second)
    order = np.argsort(theta, kind="stable")
    active, children = [], {}
    for k in order[(popularity[order] > 1e-12) | (order < n_observed)]:  # most popularities are 1e-100 and less
        below = [x for x in active if theta[x] < theta[k]]
        mine = [x for x in below if rng.random() < popularity[k]]
        if mine or k < n_observed:
            active.append(k)
            children[k] = mine
    hidden = [k for k in active if k >= n_observed]
    slots = {k: s for s, k in enumerate([*range(n_observed), *hidden])}
    parents = np.zeros((len(slots), len(slots)), bool)
    for k in active:
        for i in children[k]:
            parents[slots[k], slots[i]] = True
    return _graph(parents, [theta[k] for k in slots])


def statistics(parents, theta, n_observed):
    """Nodes, edges, depth, mean in-degree of observed nodes, largest out-degree, orphans, singletons, sum of theta."""
    n = len(theta)
    longest = np.zeros(n)
    for k in np.argsort(theta, kind="stable"):
        below = longest[parents[k]]
        longest[k] = below.max() + 1 if below.size else 0
    hidden = np.arange(n) >= n_observed
    out_degree = parents.sum(1)
    return np.array(
        [
            n,
            parents.sum(),
            longest.max(),
            parents.sum(0)[:n_observed].mean(),
            out_degree.max(),
            (parents.sum(0)[hidden] == 0).sum(),
            (out_degree[hidden] == 1).sum(),
            theta.sum(),
        ],
        float,
    )


def ibp_draw(rng, n_customers, mass, concentration):
    """Two-parameter Indian buffet, customer by customer: (dishes, customers) bool."""
    taken = np.zeros((0, n_customers), bool)
    for n in range(n_customers):
        taken[:, n] = rng.random(len(taken)) < taken.sum(1) / (concentration + n)
        new = np.zeros((rng.poisson(mass * concentration / (concentration + n)), n_customers), bool)
        new[:, n] = True
        taken = np.concatenate([taken, new])
    return taken
