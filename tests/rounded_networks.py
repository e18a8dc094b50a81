"""Networks of rounded values, two recorded draws by hand and a sampled one, and what their cells weigh."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
from scipy import stats

import pymc_spn as ps
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.multivariate_leaves import logs_without_rows
from pymc_spn.networks.records.predictive_kernels import leave_one_out
from pymc_spn.networks.records.rounded_cells import LATTICE
from pymc_spn.networks.schema import NetworkSchema
from tests.hand_made_records import in_cells, schema_of, states_of, tree_of
from tests.reference import (
    LOG_NORMAL,
    Problem,
)
from tests.reference_queries import network_value

nan = np.nan
LEVELS = ("categorical", {"alpha": [0.7, 0.7, 0.7]})
THREE = Problem(
    ((0,), (1,), (2,)),
    2,
    1.3,
    0.9,
    [[("gaussian", {"mu0": 0.0, "rho0": 1e-4, "a0": 2.0, "b0": 2e-5})], [LOG_NORMAL], [LEVELS]],
    np.array([[2.0, 0.5, 0.0], [2.0, 0.5, 0.0], [2.0, 2.0, 2.0], [2.0, 2.5, 2.0], [nan, 1.0, 1.0]]),
)
ROWS = pd.DataFrame({"x0": [2.0, 2.0, nan], "x1": [0.5, nan, 2.5], "x2": ["a", None, "c"]})


@cache
def narrow_leaves():
    """Two draws whose leaves of x0 are a hundredth of a cell wide, one group's in the middle of it, the other's not.

    The cell round 2 holds both, so that it says little of the group; the density at 2 says a lot, and is wrong.
    """
    schema = in_cells(schema_of(THREE), (1.0, 0.5, 0.0))
    digits = np.zeros((1, 2, 5, 4), np.int8)
    digits[0, 0, :, 0] = [0, 0, 1, 1, 1]
    digits[0, 1, :, 0] = [0, 0, 1, 1, 0]
    digits[0, 1, :, 2] = [0, 0, 1, 0, 0]
    digits[:, :, 4, 1] = -1
    x0 = np.array([0.10, 0.12, 0.505, 0.51, 0.0])
    codes = np.stack([x0, [0.4, 0.5, 0.6, 0.7, 0.2]], axis=1) * LATTICE
    mass = [[[1.3, 0.9], [1.3, 0.9]]]
    states = states_of(tree_of(schema, THREE.X, digits, mass, np.ones((1, 2)), exact=[[codes, codes + 300]]))
    held = []
    for s in range(2):
        sampler = states.load(s)
        first = [int(np.flatnonzero(schema.structure.leaf_column == d)[0]) for d in range(3)]
        held.append(sampler.coded[:, first] * schema.scale + schema.centre)
    return RecordedLaw(states), digits[0], held


def leaf_mass(family, prior, held, event):
    """Probability of an interval or a level in a leaf that holds some values, by scipy's Student t."""
    if family == "categorical":
        alpha = np.array(prior["alpha"]) + np.bincount(held.astype(int), minlength=3)
        return alpha[event] / alpha.sum()
    if family == "log_normal":
        held, event = np.log(held), np.log(event)
    n, mean = len(held), held.mean() if len(held) else 0.0
    rho = prior["rho0"] + n
    centre = (prior["rho0"] * prior["mu0"] + n * mean) / rho
    b = prior["b0"] + 0.5 * np.sum((held - mean) ** 2) + 0.5 * prior["rho0"] * n / rho * (mean - prior["mu0"]) ** 2
    a = prior["a0"] + 0.5 * n
    return np.diff(stats.t.cdf(event, 2.0 * a, centre, np.sqrt(b / a * (1.0 + 1.0 / rho))))[0]


def share_of(events):
    """Probability of intervals and levels by column (None is anything), average over the two draws."""
    _, digits, held = narrow_leaves()
    total = 0.0
    for s in range(2):

        def leaf_value(column, entry, rows, held=held[s]):
            if events[column] is None:
                return np.ones(1)
            return np.atleast_1d(leaf_mass(*THREE.palettes[column][entry], held[list(rows), column], events[column]))

        state = [{r: int(k) for r, k in enumerate(row) if k >= 0} for row in digits[s]]
        total += network_value(replace(THREE, X=held[s]), state, leaf_value)[0] / 2.0
    return total


rng = np.random.default_rng(0)
N = np.where(rng.random(120) < 0.5, rng.poisson(3.0, 120), np.round(rng.normal(12.0, 3.0, 120)).clip(0)).astype(int)
TABLE = ps.Table.from_frame(pd.DataFrame({"n": N, "x": rng.normal(size=120) + 0.2 * N}))


@cache
def rounded():
    leaves = {"n": [ps.leaves.Poisson(), ps.leaves.Gaussian()]}
    with pm.Model():
        x = ps.SPN(
            "s",
            ps.circuits.complete_tree(TABLE.columns),
            observed=TABLE,
            leaves=leaves,
            rounded=True,
            resolution={"x": 0.1},
        )
        idata = pm.sample(
            draws=10, tune=30, chains=2, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    return NetworkSchema.from_vector(x.owner.op.schema), idata


def densities_of_cells(cells, net, held=None):
    """Log densities (N,) of rows with cells under a network by the kernel of single rows; of those that it holds
    (``held``: exact values, completed rows, slots, options) each is left out."""
    nothing, out = np.zeros((0, 0), np.int32), np.empty(len(cells.seen))
    y, filled, *seats = held or (cells.seen, cells.seen, nothing, nothing)
    of_joints = None
    if net.joints is not None:
        rows = cells.middles, cells.widths, {}, filled, seats[0]
        of_joints = logs_without_rows(net, cells.schema.compiled, *rows)
    leave_one_out(*net, y, filled, cells.seen, *seats, cells.at_places, of_joints, out)
    return out + cells.log_jacobians.sum(axis=1)
