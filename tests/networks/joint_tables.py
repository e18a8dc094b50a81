"""Tables for leaves over several columns: tiny ones with all their states, and one with questions about it."""

import math
from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import gammaln

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.leaves import normal_inverse_wishart
from tests.called_kernels import all_called
from tests.reference import independent_total_variation, log_marginal, set_partitions, total_variation

niw = all_called(normal_inverse_wishart)

SCALE, SHAPE, RATIO, JOINT = 0.4, 1.5, 0.05, 0.3
PRIOR = {"mu0": 0.0, "rho0": RATIO, "a0": SHAPE, "b0": SHAPE * SCALE}
MASS = 1.3, 0.7  # of sum nodes over several columns and over one


def log_restaurant(sizes, mass):
    """Log probability of a partition under a Chinese restaurant."""
    n = sum(sizes)
    return len(sizes) * math.log(mass) + gammaln(sizes).sum() + gammaln(mass) - gammaln(mass + n)


def log_normal_gamma(y):
    """Log evidence of coded values: mean 0, variance 1 in the column."""
    return log_marginal("gaussian", PRIOR, y[~np.isnan(y)])


def log_joint_leaf(rows):
    """Log evidence of rows of which one at most has gaps: that of the others, and the predictive of what it has."""
    gapped = np.isnan(rows).any(axis=1)
    d = rows.shape[1]
    whole, psi0 = rows[~gapped], np.full(d, JOINT * (EXCESS - 1.0))
    sums, products = np.zeros(d), np.zeros(niw.triangle_size(d))
    for row in whole:
        niw.add_row(d, row, 1.0, sums, products)
    v0 = d + EXCESS
    scratch = [np.zeros(niw.triangle_size(d)), np.zeros(d), np.zeros(d)]
    log_p = niw.log_evidence(d, len(whole), PRECISION_RATIO, v0, sums, products, psi0, scratch[0])
    for row in rows[gapped]:
        order = np.zeros(d, np.int64)
        n_seen = niw.observed_first(d, row, order)
        k, v = PRECISION_RATIO + len(whole), v0 + len(whole)
        log_p += niw.log_predictive_of_observed(d, n_seen, order, k, v, sums, products, psi0, row, *scratch)
    return log_p


def enumerated(y):
    """Log weights of all states of rows with two columns: blocks of rows, each a leaf over both or a product of two."""
    found = {}
    for blocks in set_partitions(list(range(len(y)))):
        root = log_restaurant(np.array([len(b) for b in blocks]), MASS[0])
        options = []
        for block in blocks:
            own = [(("joint", frozenset(block)), math.log(0.5) + log_joint_leaf(y[block]))]
            split = []
            for d in range(2):
                seen = [n for n in block if not np.isnan(y[n, d])]
                split.append(
                    [
                        (
                            frozenset(map(frozenset, part)),
                            (log_restaurant(np.array([len(p) for p in part]), MASS[1]) if part else 0.0)
                            + sum(log_normal_gamma(y[p, d]) for p in part),
                        )
                        for part in set_partitions(seen)
                    ]
                )
            for (a, log_a), (b, log_b) in product(*split):
                own.append((("split", frozenset(block), a, b), math.log(0.5) + log_a + log_b))
            options.append(own)
        for chosen in product(*options):
            found[frozenset(name for name, _ in chosen)] = root + sum(log for _, log in chosen)
    return found


def enumerated_above(y):
    """Log weights of rows with three columns: each block a leaf over all, or a region of two beside the last."""
    found = {}
    for blocks in set_partitions(list(range(len(y)))):
        root = log_restaurant(np.array([len(b) for b in blocks]), MASS[0])
        options = []
        for block in blocks:
            own = [(("joint", frozenset(block)), math.log(0.5) + log_joint_leaf(y[block]))]
            for part in set_partitions(block):
                log_a = log_restaurant(np.array([len(p) for p in part]), MASS[1])
                log_a += sum(log_normal_gamma(y[p, 2]) for p in part)
                for state, log_b in enumerated(y[block][:, :2]).items():
                    below = frozenset(named(name, block) for name in state)
                    split = "split", frozenset(block), below, frozenset(map(frozenset, part))
                    own.append((split, math.log(0.5) + log_a + log_b))
            options.append(own)
        for chosen in product(*options):
            found[frozenset(name for name, _ in chosen)] = root + sum(log for _, log in chosen)
    return found


def named(name, block):
    """A state of `enumerated` with the rows of a block in place of their numbers."""
    rows = [
        frozenset(block[n] for n in name[1]),
        *(frozenset(frozenset(block[n] for n in p) for p in parts) for parts in name[2:]),
    ]
    return name[0], *rows


def state_of(sampler, region=0, reached=None):
    """Blocks of rows as in `enumerated`, or in `enumerated_above`."""
    tree, edges, joints, slots = sampler.structure, sampler.net.edges, sampler.net.joints, sampler.slots
    names = []
    for slot in np.unique(slots[:, region]) if reached is None else {slots[n, region] for n in reached}:
        block = [n for n in range(len(slots)) if slots[n, region] == slot]
        if edges.split[edges.begin[region] + slot] == joints.split[region]:
            names.append(("joint", frozenset(block)))
            continue
        below = []
        for r in tree.parts[tree.part_ptr[region] : tree.part_ptr[region + 1]]:
            own = [n for n in block if slots[n, r] >= 0]
            if tree.size[r] > 1:
                below.append(state_of(sampler, r, own))
                continue
            below.append(frozenset(frozenset(n for n in own if slots[n, r] == s) for s in {slots[n, r] for n in own}))
        names.append(("split", frozenset(block), *below))
    return frozenset(names)


def ratio_of_distance(states, posterior):
    """Total variation between the states of a chain and their probabilities, over that of as many independent draws."""
    rng = np.random.default_rng(2)
    usual = np.mean([independent_total_variation(posterior, len(states), rng) for _ in range(200)])
    return total_variation(Counter(states), posterior) / usual


TABLES = {
    "whole": np.array([[0.3, 0.4], [-1.0, -0.8], [1.2, 0.9]]),
    "gap": np.array([[0.3, 0.4], [-1.0, np.nan], [1.2, 0.9]]),
    "three columns": np.array([[0.3, 0.4, 0.5], [-0.2, -0.8, 0.7]]),
    "three columns, a gap": np.array([[0.3, 0.4, 0.5], [-0.2, np.nan, 0.7]]),
}


@cache
def table():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 60)
    x = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + 3.0 * group[:, None]
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["g"] = np.where(rng.random(60) < 0.8, group, 1 - group).astype(str)
    return frame.mask(rng.random(frame.shape) < 0.06)


ROWS = pd.DataFrame({"a": [0.5, np.nan, 2.0], "b": [np.nan, 0.3, 1.0], "c": [1.0, np.nan, 0.0], "g": ["0", "1", None]})
QUESTIONS = {
    "log_density": lambda p: p.log_density(ROWS),
    "anomaly": lambda p: p.anomaly(ROWS)["surprise"],
    "cell_p_value": lambda p: p.cell_p_value(ROWS),
    "explain": lambda p: p.explain(ROWS.iloc[0])["shapley"],
    "predict": lambda p: p.predict(ROWS, "a"),
    "predict_sd": lambda p: p.predict_sd(ROWS, "b"),
    "predict_quantile": lambda p: p.predict_quantile(ROWS, "c", [0.02, 0.5, 0.9]),
    "predict_cdf": lambda p: p.predict_cdf(ROWS, "a", [0.4, 0.9]),
    "predict_proba": lambda p: p.predict_proba(ROWS, "g"),
    "mean": lambda p: p.mean(),
    "mean given": lambda p: p.mean({"a": 0.3, "g": "1"}),
    "cov": lambda p: p.cov(),
    "cov given": lambda p: p.cov({"b": 0.3}),
    "moment": lambda p: p.moment(2),
    "quantile": lambda p: p.quantile([0.2, 0.8], "a"),
    "quantile given": lambda p: p.quantile([0.2, 0.8], "a", given={"b": 0.3}),
    "cdf given": lambda p: p.cdf([0.2, 0.8], "c", given={"b": 0.3, "g": "0"}),
    "probability of an interval": lambda p: p.probability({"a": (0.0, 2.0)}),
    "probability given points": lambda p: p.probability({"a": (0.0, 2.0), "g": "1"}, given={"b": 1.0}),
    "entropy": lambda p: p.entropy("a"),
    "mutual_information": lambda p: p.mutual_information("a", "b", n=2_000, random_seed=1),
}
