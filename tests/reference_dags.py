"""Brute force for the room of DAGs: every graph of up to five variables, every order, dense linear algebra."""

from functools import cache
from itertools import permutations, product

import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp


@cache
def all_dags(d):
    """(n, d, d) bool: every DAG, parents by children."""
    found = []
    pairs = [(i, j) for i in range(d) for j in range(i)]
    for choice in product(range(3), repeat=len(pairs)):
        graph = np.zeros((d, d), bool)
        for (i, j), c in zip(pairs, choice, strict=True):
            if c == 1:
                graph[i, j] = True
            elif c == 2:
                graph[j, i] = True
        if is_acyclic(graph):
            found.append(graph)
    return np.array(found)


def is_acyclic(graph):
    power = graph.astype(int)
    for _ in range(len(graph)):
        if np.trace(power):
            return False
        power = np.minimum(power @ graph, 1)
    return not power.any()


def orders_of(graph, precede=()):
    """Orders in which parents stand before children, and every (before, after) pair holds."""
    d = len(graph)
    kept = []
    for order in permutations(range(d)):
        place = np.argsort(order)
        if all(place[j] < place[i] for j, i in np.argwhere(graph)) and all(place[a] < place[b] for a, b in precede):
            kept.append(order)
    return kept


@cache
def extension_counts(d, precede=()):
    """(n,) number of orders of each graph of `all_dags`."""
    graphs = all_dags(d)
    counts = np.zeros(len(graphs), int)
    for order in permutations(range(d)):
        place = np.argsort(order)
        if all(place[a] < place[b] for a, b in precede):
            late = place[:, None] >= place[None, :]  # an edge from i to j is impossible
            counts += ~(graphs & late).any(axis=(1, 2))
    return counts


def log_weights(score, d, precede=()):
    """Log weight of every DAG under the order-modular posterior; `score(child, frozenset of parents)`."""
    graphs = all_dags(d)
    cached = {
        (i, p): score(i, frozenset(j for j in range(d) if p >> j & 1))
        for i in range(d)
        for p in range(1 << d)
        if not p >> i & 1
    }
    powers = 1 << np.arange(d)
    masks = (graphs * powers[:, None]).sum(axis=1)
    logs = np.array([sum(cached[i, int(row[i])] for i in range(d)) for row in masks])
    with np.errstate(divide="ignore"):
        return logs + np.log(extension_counts(d, precede))


def posterior(score, d, precede=()):
    """Log normaliser and probabilities of all DAGs."""
    logs = log_weights(score, d, precede)
    total = logsumexp(logs)
    return total, np.exp(logs - total)


def bge(data, child, parents, alpha_mu=1.0, alpha_w=None, t=None, centre=None):
    """BGe by dense determinants: Kuipers, Moffa and Heckerman (2014), equations 4 and 18 as a ratio."""
    data = np.asarray(data, float)
    n, d = data.shape
    alpha_w = d + alpha_mu + 1 if alpha_w is None else alpha_w
    t = alpha_mu * (alpha_w - d - 1) / (alpha_mu + 1) if t is None else t
    mean = data.mean(axis=0)
    shift = mean - (mean if centre is None else centre)
    prior = t * np.eye(d)
    posterior_matrix = prior + (data - mean).T @ (data - mean) + n * alpha_mu / (n + alpha_mu) * np.outer(shift, shift)

    def of_set(members):
        members = sorted(members)
        k = len(members)
        if not k:
            return 0.0
        degrees = alpha_w - d + k
        block = np.ix_(members, members)
        steps = np.arange(1, k + 1)
        gamma = gammaln((n + degrees + 1 - steps) / 2).sum() - gammaln((degrees + 1 - steps) / 2).sum()
        return (
            k / 2 * np.log(alpha_mu / (n + alpha_mu))
            - n * k / 2 * np.log(np.pi)
            + gamma
            + degrees / 2 * np.linalg.slogdet(prior[block])[1]
            - (n + degrees) / 2 * np.linalg.slogdet(posterior_matrix[block])[1]
        )

    return of_set({child, *parents}) - of_set(parents)


def bdeu(codes, n_levels, child, parents, ess):
    """BDeu as the product of sequential predictive probabilities, row after row."""
    q = np.prod([n_levels[j] for j in sorted(parents)], dtype=float)
    r = n_levels[child]
    seen, seen_both, total = {}, {}, 0.0
    for row in codes:
        key = tuple(row[j] for j in sorted(parents))
        both = (key, row[child])
        total += np.log((ess / (q * r) + seen_both.get(both, 0)) / (ess / q + seen.get(key, 0)))
        seen[key] = seen.get(key, 0) + 1
        seen_both[both] = seen_both.get(both, 0) + 1
    return total


def fair(d, n):
    from math import comb, log

    return -log(comb(d - 1, n))


class Pairs:
    """All pairs of an order and a graph that fits it, with their posterior: d = 4 or 5, some or all orders."""

    def __init__(self, score, d, orders=None):
        self.d, self.graphs = d, all_dags(d)
        self.orders = np.array(list(permutations(range(d))) if orders is None else orders)
        cached = {}
        logs = np.zeros(len(self.graphs))
        for i in range(d):
            masks = (self.graphs[:, :, i] * (1 << np.arange(d))).sum(axis=1)
            for mask in np.unique(masks):
                cached[i, mask] = score(i, frozenset(j for j in range(d) if mask >> j & 1))
            logs += np.array([cached[i, mask] for mask in masks])
        place = np.argsort(self.orders, axis=1)
        late = place[:, :, None] >= place[:, None, :]
        fits = np.array([~(self.graphs & late_one).any(axis=(1, 2)) for late_one in late])
        self.logs = np.where(fits, logs, -np.inf)  # (orders, graphs)

    def keep(self, present=(), absent=()):
        """Weights with those graphs alone that hold the evidence."""
        ok = np.ones(len(self.graphs), bool)
        for j, i in present:
            ok &= self.graphs[:, j, i]
        for j, i in absent:
            ok &= ~self.graphs[:, j, i]
        return np.where(ok, self.logs, -np.inf)

    def answers(self, present=(), absent=()):
        """Everything an order posterior is asked, by sums over all pairs."""
        logs = self.keep(present, absent)
        log_total = logsumexp(logs)
        p = np.exp(logs - log_total)
        by_graph, by_order = p.sum(axis=0), p.sum(axis=1)
        place = np.argsort(self.orders, axis=1)
        best = np.unravel_index(np.argmax(logs), logs.shape)
        return {
            "log_total": log_total,
            "edges": np.einsum("g,gij->ij", by_graph, self.graphs),
            "orders": by_order,
            "graphs": by_graph,
            "before": np.einsum("o,oij->ij", by_order, place[:, :, None] < place[:, None, :]),
            "best": logs[best] - log_total,
        }

    def parent_sets(self, i, by_graph):
        masks = (self.graphs[:, :, i] * (1 << np.arange(self.d))).sum(axis=1)
        return np.bincount(masks, by_graph, minlength=1 << self.d)

    def effects(self, by_graph, matrices):
        """Mean of (I - B)^-1 with every coefficient at its mean given the graph: they are independent by column."""
        total = np.zeros((self.d, self.d))
        for g, p in zip(self.graphs, by_graph, strict=True):
            if p:
                b = np.zeros((self.d, self.d))
                for i in range(self.d):
                    parents = np.flatnonzero(g[:, i])
                    block = matrices[i][np.ix_(parents, parents)]
                    b[parents, i] = np.linalg.solve(block, matrices[i][parents, i]) if parents.size else []
                total += p * np.linalg.inv(np.eye(self.d) - b)
        return total


def table(d, n=40, seed=1):
    """Correlated Gaussian columns a, b, ..."""
    rng = np.random.default_rng(seed)
    mix = np.eye(d) + np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.6), 1)
    return pd.DataFrame(rng.normal(size=(n, d)) @ mix, columns=list("abcdef")[:d])


def score_function(df):
    """BGe with the fair prior, for the functions above."""
    d = df.shape[1]
    return lambda i, parents: bge(df, i, parents) + fair(d, len(parents))
