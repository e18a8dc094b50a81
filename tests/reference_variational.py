"""Brute-force variational Bayes for the tiny problems: every tree of every row, Kullback-Leibler terms written out.

An *edge* is a region with the labels on the path to it, its own included; a node is the path above. ``active`` is the
set of edges that trees may use. Nothing here is shared with the package.
"""

import math
from collections import Counter, defaultdict

import numpy as np
from scipy import stats
from scipy.special import betaln, digamma, gammaln

from tests.reference_queries import asked_leaf


def edges_of_state(problem, state):
    """Edges that the rows of a state occupy."""
    return {(r.index, path(r, labels)) for labels in state for r in problem.region_list if r.index in labels}


def path(region, labels):
    return tuple(labels[a] for a in (*region.ancestors, region.index))


def trees_of_row(problem, row, active):
    """All dicts region -> label of one row within the active edges."""
    trees = [{}]
    for region in problem.region_list:
        grown = []
        for labels in trees:
            if region.ancestors and region.ancestors[-1] not in labels:
                grown.append(labels)  # the tree does not come here
            elif not problem.draws_in(row, region, labels if region.ancestors else None):
                grown.append(labels)
            else:
                above = tuple(labels[a] for a in region.ancestors)
                children = [p[-1] for r, p in active if r == region.index and p[:-1] == above]
                grown += [{**labels, region.index: c} for c in children]
        trees = grown
    return trees


class Variational:
    """q(trees) of every row, and the optimal q(weights) q(parameters) given it.

    Parameters
    ----------
    problem : Problem
    active : set of (region, path)
    q : list of list of (tree, probability)
    """

    def __init__(self, problem, active, q):
        self.problem, self.active, self.q = problem, active, q
        self.count, self.held = Counter(), defaultdict(list)
        for row, trees in enumerate(q):
            for labels, p in trees:
                for region in problem.region_list:
                    if region.index in labels:
                        edge = (region.index, path(region, labels))
                        self.count[edge] += p
                        if region.column is not None:
                            self.held[edge].append((problem.X[row, region.column], p))

    @classmethod
    def of_state(cls, problem, state):
        return cls(problem, edges_of_state(problem, state), [[(labels, 1.0)] for labels in state])

    def children(self, region, above):
        """Active labels of a node; at infinite width by falling count."""
        labels = sorted(p[-1] for r, p in self.active if r == region.index and p[:-1] == above)
        if self.problem.n_children(region) == math.inf:
            labels.sort(key=lambda c: -self.count[region.index, (*above, c)])
        return labels

    def weights(self, region, above):
        """Active label -> (expected log weight, mean weight); the mean weight left to others; the KL divergence."""
        problem, alpha = self.problem, self.problem.alpha(region)
        labels = self.children(region, above)
        n = [self.count[region.index, (*above, c)] for c in labels]
        width = problem.n_children(region)
        if width != math.inf:
            prior = np.array([problem.child_mass(region, c) for c in range(width)])
            after = prior.copy()
            after[labels] += n
            expected = digamma(after) - digamma(after.sum())
            divergence = gammaln(after.sum()) - gammaln(after).sum() - gammaln(prior.sum()) + gammaln(prior).sum()
            divergence += ((after - prior) * expected).sum()
            found = {c: (expected[c], after[c] / after.sum()) for c in labels}
            return found, {c: prior[c] / after.sum() for c in range(width) if c not in labels}, divergence
        found, logs, mean, divergence = {}, 0.0, 1.0, 0.0
        for k, c in enumerate(labels):
            a, b = 1.0 + n[k], alpha + sum(n[k + 1 :])
            found[c] = logs + digamma(a) - digamma(a + b), mean * a / (a + b)
            logs, mean = logs + digamma(b) - digamma(a + b), mean * b / (a + b)
            divergence += betaln(1.0, alpha) - betaln(a, b) + (a - 1.0) * digamma(a) + (b - alpha) * digamma(b)
            divergence += (1.0 + alpha - a - b) * digamma(a + b) + math.log(problem.n_options(region))
        n_options = problem.n_options(region)
        return found, dict.fromkeys(range(n_options), mean / n_options), divergence

    def leaf(self, region, edge_path):
        """Family, prior and posterior of a leaf, the two as tuples."""
        family, prior = self.problem.palettes[region.column][edge_path[-1] % self.problem.n_options(region)]
        values = self.held[region.index, edge_path]
        n = sum(p for _, p in values)
        if family == "log_normal":
            values = [(math.log(x), p) for x, p in values]
        total = sum(p * x for x, p in values)
        if family in ("gaussian", "log_normal"):
            start = tuple(prior[k] for k in ("mu0", "rho0", "a0", "b0"))
            mu0, rho0, a0, b0 = start
            mean = total / n if n > 0 else 0.0
            within = sum(p * (x - mean) ** 2 for x, p in values)
            b = b0 + 0.5 * within + 0.5 * rho0 * n / (rho0 + n) * (mean - mu0) ** 2
            return family, start, ((rho0 * mu0 + total) / (rho0 + n), rho0 + n, a0 + n / 2, b)
        if family == "geometric":
            start = prior["alpha"], prior["beta"]
            return family, start, (start[0] + n, start[1] + total)
        if family == "binomial":
            start = prior["alpha"], prior["beta"], prior["trials"]
            return family, start, (start[0] + total, start[1] + n * start[2] - total, start[2])
        if family in ("exponential", "poisson"):
            start = prior["alpha"], prior["beta"]
            more = (n, total) if family == "exponential" else (total, n)
            return family, start, (start[0] + more[0], start[1] + more[1])
        start = np.array(prior["alpha"], float)
        return family, start, start + [sum(p for x, p in values if x == k) for k in range(start.size)]

    def bound(self):
        """E_q log p(trees, X) - E_q log q, with every divergence written out."""
        problem, total = self.problem, 0.0
        nodes = {(r, p[:-1]) for r, p in self.active}
        for index, above in nodes:
            total -= self.weights(problem.region_list[index], above)[2]
        for index, edge_path in self.active:
            if problem.region_list[index].column is not None:
                total -= divergence_of_leaf(*self.leaf(problem.region_list[index], edge_path))
        for row, trees in enumerate(self.q):
            for labels, p in trees:
                if p > 0.0:
                    total += p * (self.expected_log(row, labels) - math.log(p))
        return total

    def expected_log(self, row, labels):
        total = 0.0
        for region in self.problem.region_list:
            if region.index in labels:
                at = path(region, labels)
                total += self.weights(region, at[:-1])[0][at[-1]][0]
                if region.column is not None:
                    family, _, after = self.leaf(region, at)
                    total += expected_log_density(family, after, self.problem.X[row, region.column])
        return total

    def step(self):
        """The optimal q(trees) given this q(weights) q(parameters)."""
        q = []
        for row in range(len(self.q)):
            trees = trees_of_row(self.problem, row, self.active)
            logs = np.array([self.expected_log(row, labels) for labels in trees])
            p = np.exp(logs - logs.max())
            q.append(list(zip(trees, p / p.sum(), strict=True)))
        return Variational(self.problem, self.active, q)

    def predictive(self, x, region=None, above=()):
        """E_q of the density of a row; ``above`` None is a node that holds nothing."""
        problem = self.problem
        region = problem.region_list[0] if region is None else region
        if np.isnan([x[d] for d in region.columns]).all():
            return 1.0
        if above is None or not self.children(region, above):
            entries = range(problem.n_options(region))
            return sum(self.fresh(x, region, s) for s in entries) / len(entries)
        found, rest, _ = self.weights(region, above)
        total = sum(mass * self.fresh(x, region, c) for c, mass in rest.items())
        for c, (_, mean) in found.items():
            if region.column is not None:
                family, _, after = self.leaf(region, (*above, c))
                total += mean * self.asked(region, c, family, after, x[region.column])
            else:
                parts = region.splits[c % len(region.splits)]
                total += mean * math.prod(self.predictive(x, problem.region_list[q], (*above, c)) for q in parts)
        return total

    def fresh(self, x, region, label):
        option = label % self.problem.n_options(region)
        if region.column is None:
            return math.prod(self.predictive(x, self.problem.region_list[q], None) for q in region.splits[option])
        family, prior = self.problem.palettes[region.column][option]
        values = tuple(np.array(v, float) if np.ndim(v) else v for v in prior.values())
        return self.asked(region, option, family, values[0] if len(values) == 1 else values, x[region.column])

    def asked(self, region, label, family, after, x):
        """Density of a value in a leaf, or its mass: a Gaussian one has unit cells among leaves with masses."""
        option = label % self.problem.n_options(region)
        if asked_leaf(self.problem, region.column, option)[0] != "rounded" or math.isnan(x):
            return predictive_density(family, after, x)
        m, rho, a, b = after
        t = stats.t(2.0 * a, m, math.sqrt((1.0 + 1.0 / rho) * b / a))
        return t.cdf(x + 0.5) - (t.cdf(x - 0.5) if x > 0 else 0.0)


def divergence_of_leaf(family, prior, after):
    """KL(posterior || prior)."""
    if family in ("geometric", "binomial"):
        (a0, b0), (a, b) = prior[:2], after[:2]
        norm = gammaln(a0) + gammaln(b0) - gammaln(a0 + b0) - gammaln(a) - gammaln(b) + gammaln(a + b)
        return norm + (a - a0) * (digamma(a) - digamma(a + b)) + (b - b0) * (digamma(b) - digamma(a + b))
    if family in ("gaussian", "log_normal"):
        (m0, rho0, a0, b0), (m, rho, a, b) = prior, after
        mean_part = 0.5 * (math.log(rho / rho0) + rho0 / rho - 1.0 + rho0 * a / b * (m - m0) ** 2)
        return mean_part + divergence_of_gamma(a, b, a0, b0)
    if family in ("exponential", "poisson"):
        return divergence_of_gamma(*after, *prior)
    expected = digamma(after) - digamma(after.sum())
    norm = gammaln(after.sum()) - gammaln(after).sum() - gammaln(prior.sum()) + gammaln(prior).sum()
    return norm + ((after - prior) * expected).sum()


def divergence_of_gamma(a, b, a0, b0):
    return (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * math.log(b / b0) + a * (b0 - b) / b


def expected_log_density(family, after, x):
    if family == "log_normal":
        return expected_log_density("gaussian", after, math.log(x)) - math.log(x)
    if family == "geometric":
        a, b = after
        return digamma(a) - digamma(a + b) + x * (digamma(b) - digamma(a + b))
    if family == "binomial":
        a, b, m = after
        expected = x * digamma(a) + (m - x) * digamma(b) - m * digamma(a + b)
        return expected + math.log(math.comb(int(m), int(x)))
    if family == "gaussian":
        m, rho, a, b = after
        return 0.5 * (digamma(a) - math.log(2.0 * math.pi * b) - 1.0 / rho - a / b * (x - m) ** 2)
    if family == "exponential":
        return digamma(after[0]) - math.log(after[1]) - after[0] / after[1] * x
    if family == "poisson":
        return x * (digamma(after[0]) - math.log(after[1])) - after[0] / after[1] - gammaln(x + 1.0)
    return digamma(after[int(x)]) - digamma(after.sum())


def predictive_density(family, after, x):
    if math.isnan(x):
        return 1.0
    if family == "log_normal":
        return predictive_density("gaussian", after, math.log(x)) / x
    if family == "geometric":
        return stats.betanbinom.pmf(x, 1, after[0], after[1])
    if family == "binomial":
        return stats.betabinom.pmf(x, after[2], after[0], after[1])
    if family == "gaussian":
        m, rho, a, b = after
        return stats.t.pdf(x, 2.0 * a, m, math.sqrt((1.0 + 1.0 / rho) * b / a))
    if family == "exponential":
        return stats.lomax.pdf(x, after[0], scale=after[1])
    if family == "poisson":
        return stats.nbinom.pmf(x, after[0], after[1] / (after[1] + 1.0))
    return after[int(x)] / after.sum()
