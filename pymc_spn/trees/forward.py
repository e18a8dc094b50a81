"""Simulated responses: from the prior, or from a recorded tree at new rows."""

import numpy as np

from pymc_spn.trees.features import Features
from pymc_spn.trees.leaves import normal_posterior
from pymc_spn.trees.schema import TreeSchema

NO_RECORD = (
    "ps.TreeResponse: the trees of the posterior are in the DataTree, not in the model; call "
    "ps.trees.load_trees(idata) in the model's context first, then pm.sample_posterior_predictive"
)


def draw_response(schema_text, rng, ticket, rules, parameters, x, mask, tickets, nodes, leaves):
    """One response at the rows of the containers; ticket 0 draws tree and leaves from the prior."""
    schema = TreeSchema.from_vector(schema_text)
    values = schema.values(x, mask if schema.missing_name is not None else None)
    if schema.missing_name is None and not schema.x_is_int:
        values = np.array(x, np.float64)
    if ticket == 0.0:
        leaf = _prior_leaves(rng, schema, values, float(rules[0]), float(rules[1]))
        statistics = np.zeros((int(leaf.max()) + 1, leaves.shape[1]))
        sizes = np.zeros(len(statistics))
    else:
        found = np.flatnonzero(tickets == ticket)
        if not len(found):
            raise RuntimeError(NO_RECORD)
        # Draws of one log joint can have different trees, as where two features divide the rows alike: any of them, so
        # that the draws together have the law of all their trees.
        mine = nodes[:, 0] == found[rng.integers(len(found))]
        first = int(np.argmax(mine))
        leaf = _route(rng, nodes, first, values)
        statistics, sizes = leaves[mine], nodes[mine, 7]
        leaf = leaf - first
    return _draw(rng, schema.family["family"], parameters, leaf, statistics, sizes)


def _route(rng, nodes, root, values):
    """(m,) leaf of each row; each cut is drawn once from its gap, each missing cell decided by itself."""
    place = np.full(len(values), root)
    waiting = [root]
    while waiting:
        i = waiting.pop()
        _, feature, side, left, right, low, high, size, kind = nodes[i]
        if feature < 0:
            continue
        here = np.flatnonzero(place == i)
        v = values[here, int(feature)]
        missing = np.isnan(v)
        if kind == 0:
            cut = low + rng.random() * (high - low)
            goes = v <= cut
        elif kind == 1:
            goes = v == low
        else:
            code = np.where(missing, 0, v).astype(np.int64)
            goes = (int(low) >> code) & 1 == 1
            missing |= (int(high) >> code) & 1 == 0
        share = nodes[int(left), 7] / size
        if side >= 0:
            known = np.isnan(v)
            goes = np.where(known, side == 0, goes)
            missing &= ~known
        goes = np.where(missing, rng.random(len(v)) < share, goes)
        place[here] = np.where(goes, left, right).astype(np.int64)
        waiting += [int(left), int(right)]
    return place


def _prior_leaves(rng, schema, values, alpha_s, beta_s):
    """(m,) leaf of each row in a tree from the prior."""
    features = Features(schema.column_objects, values, schema.splits, np.asarray(schema.weights))
    leaf, n_leaves = np.zeros(len(values), np.int64), 0
    waiting = [(np.arange(len(values)), 0)]
    while waiting:
        rows, depth = waiting.pop()
        usable = []
        for d in range(values.shape[1]):
            seen = np.unique(values[rows, d][~np.isnan(values[rows, d])])
            if len(seen) > 1 and features.weights[d] > 0.0:
                usable.append((d, seen))
        open_ = len(rows) >= max(schema.min_size, 2) and (schema.max_depth is None or depth < schema.max_depth)
        if not usable or not open_ or rng.random() >= alpha_s * (1.0 + depth) ** -beta_s:
            leaf[rows] = n_leaves
            n_leaves += 1
            continue
        p = features.weights[[d for d, _ in usable]]
        d, seen = usable[rng.choice(len(usable), p=p / p.sum())]
        v = values[rows, d]
        if schema.splits[d] == "cut":
            goes = v <= seen[0] + rng.random() * (seen[-1] - seen[0])
        elif schema.splits[d] == "onehot":
            goes = v == seen[rng.integers(len(seen))]
        else:
            subset = rng.integers(1, 2 ** len(seen) - 1)
            goes = np.isin(v, seen[(subset >> np.arange(len(seen))) & 1 == 1])
        goes = np.where(np.isnan(v), rng.random() < 0.5, goes)
        waiting += [(rows[goes], depth + 1), (rows[~goes], depth + 1)]
    return leaf


def _draw(rng, family, parameters, leaf, statistics, sizes):
    """Parameters of the leaves that are met, then the responses."""
    out = np.empty(len(leaf), np.float64 if family == "real" else np.int64)
    for i in np.unique(leaf):
        here = np.flatnonzero(leaf == i)
        n, s = sizes[i], statistics[i]
        if family == "classes":
            p = rng.dirichlet(s + parameters[0] / len(s))
            out[here] = rng.choice(len(s), len(here), p=p)
        elif family == "binary":
            out[here] = rng.random(len(here)) < rng.beta(parameters[0] + s[1], parameters[1] + s[0])
        elif family == "real":
            mu, kappa, a, b = normal_posterior(parameters, n, *s)
            variance = 1.0 / rng.gamma(a, 1.0 / b)
            mu = rng.normal(mu, np.sqrt(variance / kappa))
            out[here] = rng.normal(mu, np.sqrt(variance), len(here))
        else:
            rate = rng.gamma(parameters[0] + s[0], 1.0 / (parameters[1] + n))
            out[here] = rng.poisson(rate, len(here))
    return out
