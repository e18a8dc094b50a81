"""Slow, obvious decision trees: enumeration and quadrature that share no code with the package.

A tree is None (a leaf) or (feature, rule, left, right); rows are lists of row numbers. Features are columns of numbers;
a column is cut ("cut") or split by level ("onehot", "subset"); NaN is missing.
"""

import math
from itertools import combinations, pairwise

import numpy as np
from scipy import integrate, stats


def log_marginal(family, y, **p):
    """Log marginal likelihood of the responses of one leaf, by the chain rule of predictives."""
    total, seen = 0.0, []
    for v in y:
        total += math.log(predictive(family, seen, v, **p))
        seen.append(v)
    return total


def predictive(family, seen, v, **p):
    """Posterior predictive density or mass of ``v`` after the responses ``seen``."""
    n = len(seen)
    if family == "classes":
        a = p["alpha"] / p["K"]
        return (seen.count(v) + a) / (n + p["alpha"])
    if family == "binary":
        a, b = p["a"], p["b"]
        one = (sum(seen) + a) / (n + a + b)
        return one if v else 1.0 - one
    if family == "real":
        mu, kappa, a, b = p["mu0"], p["kappa0"], p["a0"], p["b0"]
        for x in seen:  # conjugate updates one by one
            b += 0.5 * kappa * (x - mu) ** 2 / (kappa + 1.0)
            mu = (kappa * mu + x) / (kappa + 1.0)
            kappa += 1.0
            a += 0.5
        return float(stats.t.pdf(v, 2 * a, mu, math.sqrt(b * (kappa + 1) / (a * kappa))))
    shape, rate = p["shape"] + sum(seen), p["rate"] + n
    return float(stats.nbinom.pmf(v, shape, rate / (rate + 1.0)))


def splits(X, kinds, weights, rows):
    """Every (feature, rule, prior probability, left rows, right rows) of a node that splits."""
    usable = []
    for d, kind in enumerate(kinds):
        seen = sorted({X[r][d] for r in rows if not math.isnan(X[r][d])})
        if len(seen) > 1 and weights[d] > 0:
            usable.append((d, kind, seen))
    total = sum(weights[d] for d, *_ in usable)
    out = []
    for d, kind, seen in usable:
        if kind == "cut":
            span = seen[-1] - seen[0]
            rules = [((a, b), (b - a) / span, {v for v in seen if v <= a}) for a, b in pairwise(seen)]
        elif kind == "onehot":
            rules = [((v,), 1.0 / len(seen), {v}) for v in seen]
        else:
            chosen = [set(c) for k in range(1, len(seen)) for c in combinations(seen, k)]
            rules = [(tuple(sorted(c)), 1.0 / len(chosen), c) for c in chosen]
        gaps = [r for r in rows if math.isnan(X[r][d])]
        for rule, mass, left_values in rules:
            left = [r for r in rows if X[r][d] in left_values]
            right = [r for r in rows if r not in left and r not in gaps]
            share = weights[d] / total * mass
            if gaps:
                out.append((d, (*rule, "left"), 0.5 * share, sorted(left + gaps), right))
                out.append((d, (*rule, "right"), 0.5 * share, left, sorted(right + gaps)))
            else:
                out.append((d, rule, share, left, right))
    return out


def all_trees(X, y, kinds, weights, alpha_s, beta_s, log_leaf, max_depth=99, min_size=2, rows=None, depth=0):
    """Every tree with the log of prior times likelihood: a list of (tree, log joint). For a handful of rows."""
    rows = list(range(len(X))) if rows is None else rows
    own = log_leaf([y[r] for r in rows])
    options = splits(X, kinds, weights, rows)
    if not options or depth >= max_depth or len(rows) < min_size:
        return [(None, own)]
    p = alpha_s * (1 + depth) ** -beta_s
    out = [(None, math.log(1 - p) + own)]
    more = (X, y, kinds, weights, alpha_s, beta_s, log_leaf, max_depth, min_size)
    for d, rule, mass, left, right in options:
        lefts, rights = all_trees(*more, left, depth + 1), all_trees(*more, right, depth + 1)
        for a, log_a in lefts:
            for b, log_b in rights:
                out.append(((d, rule, a, b), math.log(p * mass) + log_a + log_b))
    return out


def log_evidence(trees):
    values = np.array([v for _, v in trees])
    return float(values.max() + np.log(np.exp(values - values.max()).sum()))


def breadth_first(tree):
    """Decisions (feature, rule) or None of the nodes in breadth-first order, as a hashable tuple."""
    queue, out = [tree], []
    for node in queue:
        out.append(None if node is None else node[:2])
        if node is not None:
            queue += [node[2], node[3]]
    return tuple(out)


def evidence_by_quadrature(x, y, alpha_s, beta_s, log_leaf, depth=0):
    """Evidence of one feature with cut points as real numbers, by integration over the first cut; two splits deep."""
    own = math.exp(log_leaf(list(y)))
    if len(set(x)) < 2 or depth == 2:
        return own
    p = alpha_s * (1 + depth) ** -beta_s
    low, high = min(x), max(x)

    def below(cut):
        left = [i for i in range(len(x)) if x[i] <= cut]
        right = [i for i in range(len(x)) if x[i] > cut]
        value = 1.0
        for part in (left, right):
            value *= evidence_by_quadrature(
                [x[i] for i in part], [y[i] for i in part], alpha_s, beta_s, log_leaf, depth + 1
            )
        return value

    inner = integrate.quad(below, low, high, points=sorted(set(x))[1:-1] or None, limit=200)[0]
    return (1 - p) * own + p * inner / (high - low)
