"""Shared by the tests of statistics and leaf kernels: a table of all families, coded, and the same in plain terms."""

import warnings
from dataclasses import dataclass

import numpy as np

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.gibbs.palette import (
    choose_coding,
    code_values,
    compile_palette,
    complete_palette,
    log_jacobian,
)
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.leaves import Bernoulli, Binomial, Categorical, Exponential, Gaussian, Geometric, LogNormal, Poisson
from pymc_spn.tables import Column
from tests.reference import Problem

COLUMNS = (
    Column("height", "real", None, "float64"),
    Column("wait", "positive", None, "float64"),
    Column("grade", "real", None, "float64"),  # repeated values: a recording grid, so a floor of the prior variance
    Column("visits", "count", None, "int64"),
    Column("calls", "count", None, "int64"),
    Column("colour", "categorical", ("red", "green", "blue"), "str"),
    Column("smokes", "binary", (False, True), "bool"),
)
LEAVES = {
    "wait": [Gaussian(), Exponential(), LogNormal(relative_scale=0.2)],
    "calls": [Binomial(70), Gaussian(), Poisson(), Gaussian(relative_scale=0.1)],
    "visits": [Geometric(), Poisson()],
    "colour": [Categorical(), Categorical(relative_scale=0.2)],
    "smokes": Bernoulli(),
}


@dataclass(frozen=True, eq=False)
class CodedTable:
    """A table in the units of the data and in those of the sampler."""

    structure: RegionTree
    palette: list
    resolution: np.ndarray
    compiled: object
    values: np.ndarray
    coded: np.ndarray

    def sampler(self, hyperparameters, digits=None):
        sampler = Sampler(self.structure, self.compiled, self.coded, log_jacobian(self.compiled, self.values))
        sampler.set_hyperparameters(*hyperparameters)
        if digits is None:
            digits = np.zeros((len(self.coded), self.structure.n_regions), np.int32)
        sampler.set_digits(digits)
        return sampler

    def problem(self, hyperparameters):
        """The reference's problem in the units of the data, with leaf priors from the NumPy families."""
        (inner, leaf), *leaf_hyperparameters = hyperparameters[:4]
        palettes = []
        for d, entries in enumerate(self.palette):
            own = [values[d] for values in leaf_hyperparameters]
            palettes.append([reference_entry(e, self.resolution[d], own) for e in entries])
        tree = self.structure
        widths = {int(tree.depth[r]): int(w) or "infinite" for r, w in enumerate(tree.n_children)}
        children = tuple(widths[depth] for depth in range(len(widths)))
        return Problem(region_tuple(tree, 0), children, inner, leaf, palettes, self.values)


def reference_entry(entry, resolution, hyperparameters):
    """Family of a completed entry, and its prior in the units of the data: Yokoi and Sato (2024), Table 8."""
    scale, shape, ratio = hyperparameters
    s, family = scale * entry.relative_scale, entry.family
    if family in ("gaussian", "log_normal"):
        of_logs = family == "log_normal"
        mean, variance = (entry.log_mean, entry.log_variance) if of_logs else (entry.mean, entry.variance)
        floor = (resolution / np.exp(mean) if of_logs else resolution) ** 2 / 12.0  # the variance of rounding
        return family, {"mu0": mean, "rho0": ratio, "a0": shape, "b0": shape * max(s * variance, floor)}
    if family in ("bernoulli", "categorical"):
        return family, {"alpha": len(entry.probabilities) / s * np.array(entry.probabilities)}
    if family == "binomial":
        share, n = entry.mean / entry.n_trials, float(entry.n_trials)
        return family, {"alpha": share / s, "beta": (1.0 - share) / s, "trials": n}
    return family, {"alpha": 1.0 / s, "beta": 1.0 / (s * entry.mean) if family == "poisson" else entry.mean / s}


def region_tuple(tree, r):
    """Nested tuples of the reference for a region of a tree."""
    parts = tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]]
    return tuple(region_tuple(tree, q) for q in parts) or (int(tree.order[tree.begin[r]]),)


def coded_table(n_rows, n_children="infinite", n_parts=2, seed=1, gaps=0.15):
    """Seven columns of all kinds, so that halves and thirds are uneven; two rows are wholly missing if any cell is."""
    rng = np.random.default_rng(seed)
    values = np.column_stack(
        [
            rng.normal(170.0, 9.0, n_rows),
            rng.exponential(3.0, n_rows),
            rng.integers(1, 7, n_rows),
            rng.poisson(4.0, n_rows),
            rng.poisson(30.0, n_rows),
            rng.integers(0, 3, n_rows),
            rng.integers(0, 2, n_rows),
        ]
    ).astype(np.float64)
    if gaps:
        values[rng.random(values.shape) < gaps] = np.nan
        values[[min(3, n_rows - 1), n_rows - 1]] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "values are rounded to coarse steps")  # as "grade" is meant to be
        palette, resolution = complete_palette(COLUMNS, values, LEAVES)
    compiled = compile_palette(COLUMNS, palette, resolution, *choose_coding(palette, values, COLUMNS))
    compiled = compiled._replace(cell_variance=np.zeros(len(COLUMNS)))  # counts are exact, as the families take them
    structure = complete_tree([c.name for c in COLUMNS], n_children=n_children, n_parts=n_parts)
    return CodedTable(structure, palette, resolution, compiled, values, code_values(compiled, values))


def hyperparameters(seed=0):
    """Concentrations (2,), leaf_scale, leaf_shape and precision_ratio (7,) each, all different."""
    rng = np.random.default_rng(seed)
    spread = [middle * np.exp(rng.uniform(-0.7, 0.7, size)) for middle, size in ((1, 2), (0.4, 7), (1.5, 7), (0.1, 7))]
    return tuple(spread)
