"""The tiny problems of the reference in the sampler's own terms."""

import numpy as np

from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.gibbs.network import GENERAL, LEVELS, LOGS, VECTOR
from pymc_spn.gibbs.palette import CompiledPalette
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.leaves.family_codes import BINOMIAL, CATEGORICAL, EXPONENTIAL, GAUSSIAN, GEOMETRIC, LOG_NORMAL, POISSON

CODES = {
    "gaussian": GAUSSIAN,
    "exponential": EXPONENTIAL,
    "log_normal": LOG_NORMAL,
    "poisson": POISSON,
    "geometric": GEOMETRIC,
    "binomial": BINOMIAL,
    "bernoulli": CATEGORICAL,
    "categorical": CATEGORICAL,
}


def region_tree(problem):
    """RegionTree of a reference problem; the columns of its first splits are in preorder."""
    regions = problem.region_list
    order, begin = list(regions[0].columns), [0] * len(regions)
    for r in regions:
        for s, parts in enumerate(r.splits):
            at = begin[r.index] if s == 0 else len(order)
            order += [d for q in parts for d in regions[q].columns] if s > 0 else []
            for q in parts:
                begin[q] = at
                at += len(regions[q].columns)
    at_depth = problem.children if isinstance(problem.children, tuple) else None
    width = [at_depth[r.depth] if at_depth else problem.children for r in regions]
    return RegionTree(
        columns=tuple(f"x{d}" for d in range(len(problem.palettes))),
        order=np.array(order),
        begin=np.array(begin),
        end=np.array([at + len(r.columns) for at, r in zip(begin, regions, strict=True)]),
        parent=np.array([r.ancestors[-1] if r.ancestors else -1 for r in regions]),
        n_children=np.array([0 if w == "infinite" else w for w in width]),
        split=np.array([r.split for r in regions]),
    )


def palette_and_priors(problem):
    """CompiledPalette in the units of the data, and the prior parameters of its entries."""
    family, priors, kinds, n_levels, factors = [], [], [], [], []
    for entries in problem.palettes:
        codes = {CODES[name] for name, _ in entries}
        levels = [len(p["alpha"]) for name, p in entries if CODES[name] == CATEGORICAL]
        n_levels.append(max(levels, default=0))
        if codes <= {GAUSSIAN, EXPONENTIAL, LOG_NORMAL}:
            kinds.append(LOGS if LOG_NORMAL in codes else VECTOR)
        else:
            kinds.append(LEVELS if codes == {CATEGORICAL} and len(entries) == 1 else GENERAL)
        for name, p in entries:
            family.append(CODES[name])
            alpha = p["alpha"] if CODES[name] == CATEGORICAL else [1.0]
            factors.append(np.pad(alpha / np.mean(alpha), (0, 9 - len(alpha))))
            if name in ("gaussian", "log_normal"):
                priors.append((p["mu0"], p["rho0"], p["a0"], p["b0"]))
            elif CODES[name] == CATEGORICAL:
                priors.append((np.mean(p["alpha"]), sum(p["alpha"]), 0.0, 0.0))
            else:
                priors.append((p["alpha"], p["beta"], p.get("trials", 0.0), 0.0))
    d_total = len(problem.palettes)
    compiled = CompiledPalette(
        is_joint=np.zeros(d_total, np.bool_),
        joint_constants=np.zeros((d_total, 3)),
        entry_ptr=np.concatenate([[0], np.cumsum([len(p) for p in problem.palettes])]).astype(np.int64),
        family=np.array(family, np.int64),
        constants=np.column_stack([np.zeros((len(family), 4)), factors]),
        column_kind=np.array(kinds, np.int64),
        n_levels=np.array(n_levels, np.int64),
        centre=np.zeros(d_total),
        scale=np.ones(d_total),
        offset=np.zeros(d_total),
        is_density=np.array([k in (VECTOR, LOGS) for k in kinds]),
        cell_variance=np.zeros(d_total),
        is_count=np.zeros(d_total, np.bool_),
    )
    return compiled, np.array(priors)


def tiny_sampler(problem, digits=None):
    """Sampler of a reference problem, started with all rows on child 0 of everything."""
    structure = region_tree(problem)
    compiled, priors = palette_and_priors(problem)
    sampler = Sampler(structure, compiled, np.ascontiguousarray(problem.X, np.float64))
    sampler.set_priors(np.array([problem.alpha_inner, problem.alpha_leaf]), priors)
    if digits is None:
        digits = np.zeros((len(problem.X), structure.n_regions), np.int32)
    sampler.set_digits(digits)
    return sampler


def summary(sampler):
    """What is known of the leaves and edges, in an order that does not depend on their numbers."""
    net = sampler.net
    state = np.column_stack([net.leaves.s1, net.leaves.s2, net.leaves.centre, net.leaves.log_scale])
    leaves = [
        (*state[net.edges.begin[r] + s], net.edges.n_data[net.edges.begin[r] + s])
        for row in sampler.slots
        for r, s in enumerate(row)
        if s >= 0 and net.tree.column[r] >= 0
    ]
    counts = [net.edges.n_data[net.edges.begin[r] + s] for row in sampler.slots for r, s in enumerate(row) if s >= 0]
    totals = [
        net.leaves.level_count.sum(),
        net.nodes.n_data.sum(),
        net.edges.weight.sum(),
        (net.edges.top - net.edges.n_free).sum(),
    ]
    return np.concatenate([np.ravel(leaves), counts, totals])
