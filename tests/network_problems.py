"""A table of every kind, and the network of a schema in the terms of the brute-force reference.

The priors of the leaves are written out here once more, from the definition in the documentation of `families`.
"""

from functools import cache

import numpy as np
import pandas as pd

from tests.reference import Problem, Splits

nan = np.nan
HYPERPARAMETERS = ("concentration", "leaf_scale", "leaf_shape", "precision_ratio")


def mixed_frame():
    """Eight rows of six kinds, with gaps; one row has a single cell."""
    return pd.DataFrame(
        {
            "size": [0.31, -1.27, nan, 2.05, 0.44, 3.9, nan, -0.62],
            "wait": [1.2, 0.3, 2.25, nan, 0.07, 4.4, nan, 0.9],
            "visits": pd.array([3, 0, 1, pd.NA, 7, 2, pd.NA, 1], dtype="Int64"),
            "colour": ["red", "blue", None, "red", "green", "blue", None, "red"],
            "smokes": pd.array([True, False, True, None, False, True, None, False], dtype="boolean"),
            "grade": [2.0, 2.5, 2.0, nan, 3.0, 3.5, 2.0, 2.5],
        }
    )


@cache
def regions_of(structure):
    """The nested tuples of a reference problem."""

    def nested(r):
        below = np.flatnonzero(structure.parent == r)
        if not below.size:
            return (int(structure.order[structure.begin[r]]),)
        splits = [tuple(map(nested, below[structure.split[below] == s])) for s in range(structure.n_splits[r])]
        return Splits(splits) if len(splits) > 1 else splits[0]

    return nested(0)


def entry_prior(entry, n_levels, grid, leaf_scale, leaf_shape, precision_ratio):
    """(family, prior) of a completed palette entry, in the units of the data."""
    s = leaf_scale * entry.relative_scale
    if entry.family == "gaussian":
        b0 = leaf_shape * max(s * entry.variance, grid**2 / 12)
        return "gaussian", {"mu0": entry.mean, "rho0": precision_ratio, "a0": leaf_shape, "b0": b0}
    if entry.family == "log_normal":
        grid = grid / np.exp(entry.log_mean)
        b0 = leaf_shape * max(s * entry.log_variance, grid**2 / 12)
        return "log_normal", {"mu0": entry.log_mean, "rho0": precision_ratio, "a0": leaf_shape, "b0": b0}
    if entry.family in ("exponential", "geometric"):
        return entry.family, {"alpha": 1 / s, "beta": entry.mean / s}
    if entry.family == "binomial":
        share = entry.mean / entry.n_trials
        return "binomial", {"alpha": share / s, "beta": (1 - share) / s, "trials": entry.n_trials}
    if entry.family == "poisson":
        return "poisson", {"alpha": 1 / s, "beta": 1 / (s * entry.mean)}
    return "categorical", {"alpha": [n_levels / s * p for p in entry.probabilities]}


def reference_problem(schema, values, hyperparameters):
    """Problem of the reference with the priors that the first four vectors of hyperparameters give."""
    (inner, univariate), scale, shape, ratio = hyperparameters[:4]
    palettes = []
    for d, (column, entries) in enumerate(zip(schema.columns, schema.palette, strict=True)):
        n_levels = 2 if column.kind == "binary" else len(column.levels or ())
        own = (schema.resolution[d], scale[d], shape[d], ratio[d])
        palettes.append([entry_prior(entry, n_levels, *own) for entry in entries])
        if column.kind in ("count", "integer") and schema.resolution[d] > 0 and column.name not in schema.rounded:
            for family, prior in palettes[-1]:
                if family == "gaussian":
                    prior["cell"] = 1.0 / 12.0  # variance of a uniform variable in the unit cell
    by_depth = dict(zip(schema.structure.depth.tolist(), schema.structure.n_children.tolist(), strict=True))
    width = tuple(by_depth[depth] or "infinite" for depth in range(len(by_depth)))
    return Problem(regions_of(schema.structure), width, float(inner), float(univariate), palettes, values)
