"""Tables of a few rows, their posteriors by enumeration, and frequencies of drawn trees."""

from collections import Counter
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import pymc_spn as ps
from pymc_spn.tables.tree_files import reading
from pymc_spn.trees.draws import TreeDraws
from pymc_spn.trees.features import make_features
from pymc_spn.trees.leaves import numbers_of_family
from tests import reference_trees as ref

nan = np.nan
RULES = {"alpha_s": 0.9, "beta_s": 0.7}


def mixed_frame():
    """Ties, gaps, and levels."""
    return pd.DataFrame({"a": [0.0, 1.0, nan, 2.5, nan], "c": list("uvwuv")})


RESPONSES = {
    "classes": [0, 1, 2, 1, 0],
    "binary": [0, 1, 1, 1, 0],
    "real": [0.3, -1.2, 2.0, -0.7, 0.4],
    "counts": [0, 3, 1, 5, 0],
}
FAMILIES = {
    "classes": (ps.leaves.ClassLeaves(2.0), {"alpha": 2.0, "K": 3}),
    "binary": (ps.leaves.BinaryLeaves(0.5, 1.5), {"a": 0.5, "b": 1.5}),
    "real": (ps.leaves.NormalLeaves(0.1, 0.2, 1.3, 0.8), {"mu0": 0.1, "kappa0": 0.2, "a0": 1.3, "b0": 0.8}),
    "counts": (ps.leaves.CountLeaves(1.2, 0.7), {"shape": 1.2, "rate": 0.7}),
}


def log_leaf(family):
    return lambda y: ref.log_marginal(family, [v if family == "real" else int(v) for v in y], **FAMILIES[family][1])


def coded(frame):
    """Rows as lists of numbers, levels as codes in sorted order."""
    columns = [frame[c] if frame[c].dtype == float else pd.Categorical(frame[c]).codes.astype(float) for c in frame]
    return np.column_stack(columns).tolist()


def enumerated(frame, y, family, categorical="onehot", weights=None, **more):
    """All trees with their log joint densities."""
    kinds = ["cut" if frame[c].dtype == float else categorical for c in frame]
    rules = {**RULES, **{k: more.pop(k) for k in list(more) if k in RULES}}
    weights = weights or [1.0] * len(kinds)
    return ref.all_trees(coded(frame), y, kinds, weights, rules["alpha_s"], rules["beta_s"], log_leaf(family), **more)


def probabilities(trees):
    """Posterior probability of each tree, by its decisions."""
    z = ref.log_evidence(trees)
    out = Counter()
    for tree, value in trees:
        out[ref.breadth_first(tree)] += np.exp(value - z)
    return out


def words(decisions, features):
    """Decisions of the package in the words of the reference."""
    out = []
    for feature, low, high, side in decisions:
        if feature < 0:
            out.append(None)
            continue
        values = features.distinct[feature]
        split = features.splits[feature]
        if split == "cut":
            rule = (values[low], values[high])
        elif split == "onehot":
            rule = (float(low),)
        else:
            rule = tuple(float(k) for k in range(len(values)) if low >> k & 1)
        if side >= 0:
            rule = (*rule, "left" if side == 0 else "right")
        out.append((int(feature), rule))
    return tuple(out)


def draws_of(post):
    """The draws that a posterior object saves."""
    with TemporaryDirectory() as folder:
        post.save(f"{folder}/trees.nc")
        with reading(f"{folder}/trees.nc") as tree:
            return TreeDraws.from_tree(tree)


def frequencies(post):
    """Weighted frequencies of the trees of a posterior."""
    draws, out = draws_of(post), Counter()
    for t, w in enumerate(post.weights.values):
        out[words(draws.tree(t).decisions, draws.features)] += w
    return out


STUMP = [(0, 1, 2, -1), (-1, 0, 0, -1), (-1, 0, 0, -1)]


def posterior(X, y, trees, family, weights=None, categorical="onehot", groups=None):
    """A posterior of the trees given as lists of decisions."""
    features = make_features(X, categorical)
    coded, family = family.code(y)
    n = len(trees)
    return ps.TreePosterior(
        TreeDraws(
            name="tree",
            features=features,
            y=coded,
            family=family,
            decisions=np.concatenate([np.array(t, np.int32) for t in trees]),
            begin=np.cumsum([0] + [len(t) for t in trees]).astype(np.int64),
            weights=np.full(n, 1.0 / n) if weights is None else np.array(weights),
            group=np.zeros(n, np.int64) if groups is None else np.array(groups),
            draw=np.arange(n),
            parameters=np.tile(numbers_of_family(family), (n, 1)),
            rules=np.tile([0.9, 0.7], (n, 1)),
            max_depth=-1,
            min_size=2,
        )
    )
