"""Networks with every constant fixed, so that the priors do not look at the data, and chains over all unknowns.

The joint distribution is drawn with the brute-force reference: hyperparameters from `PRIORS`, assignments from the
Polya urns, parameters of the leaves from their priors, values from the leaves.
"""

from dataclasses import replace
from functools import cache
from types import FunctionType

import numpy as np
from numba import njit

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs import hyperparameters as kernels
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.hyperparameters import GAMMA, LOG_NORMAL_ABOVE_ONE
from pymc_spn.leaves import Binomial, Categorical, Exponential, Gaussian, Geometric, Poisson
from pymc_spn.networks.hyperparameter_inputs import PRIORS
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.tables import Column
from tests.network_problems import HYPERPARAMETERS, reference_problem
from tests.reference import (
    simulate,
)

COLUMNS = (
    Column("size", "real", None, "float64"),
    Column("wait", "positive", None, "float64"),
    Column("visits", "count", None, "int64"),
    Column("colour", "categorical", ("red", "green", "blue"), "str"),
)
PALETTE = (
    (Gaussian(mean=0.5, variance=2.0), Gaussian(mean=-1.0, variance=2.0, relative_scale=0.1)),
    (Exponential(mean=1.5),),
    (Poisson(mean=2.0), Geometric(mean=2.0, relative_scale=0.1)),  # at a scale of 1 counts would reach 1e18
    (Categorical(probabilities=(0.2, 0.5, 0.3)),),
)
# for chains that begin at a draw from the joint: others may begin with counts in leaves that cannot hold them
WITH_TRIALS = (*PALETTE[:2], (*PALETTE[2], Binomial(4, mean=1.5)), PALETTE[3])
GAUSSIAN = np.array([0])
OWNED = np.zeros((4, 4), bool)
OWNED[0, :2], OWNED[1], OWNED[2, GAUSSIAN], OWNED[3, GAUSSIAN] = True, True, True, True
PRIOR_TABLE = np.array([PRIORS[g] for g in HYPERPARAMETERS])
CENTRE, SCALE = (0.3, 0.9, 0.0, 0.0), (1.7, 2.0, 1.0, 1.0)


def fixed_schema(width, palette=PALETTE):
    return NetworkSchema(
        name="x",
        structure=complete_tree([c.name for c in COLUMNS], n_children=width),
        columns=COLUMNS,
        palette=palette,
        resolution=(0.0,) * 4,
        centre=CENTRE,
        scale=SCALE,
        hyperparameters={},
        start="prior",
    )


def draw_hyperparameters(rng):
    """Four vectors from the default priors; shape and ratio of columns without Gaussian leaves stay at one."""
    h = [np.ones(2), np.ones(4), np.ones(4), np.ones(4)]
    for vector, owned, group in zip(h, OWNED, HYPERPARAMETERS, strict=True):
        family, a, b = PRIORS[group]
        n = int(owned.sum())
        drawn = rng.gamma(a, 1 / b, n) if family == GAMMA else rng.lognormal(a, b, n)
        vector[owned[: vector.size]] = drawn + (family == LOG_NORMAL_ABOVE_ONE)
    return h


def draw_joint(schema, observed, rng):
    """(hyperparameters, table, digits) from the joint distribution."""
    h = draw_hyperparameters(rng)
    table, digits = simulate(reference_problem(schema, None, h), len(observed), rng, observed)
    return h, table, digits


def install(chain, table, digits, h):
    """Put a chain into a state."""
    chain.sampler.coded[:] = chain.schema.code(table)
    chain.set_hyperparameters(h)
    chain.set_digits(np.ascontiguousarray(digits, np.int32))


def logs(h):
    """Logs of the hyperparameters that are learned: two concentrations, four scales, one shape less 1, one ratio."""
    own = [v[o[: v.size]] for v, o in zip(h[:4], OWNED, strict=True)]
    return np.log(np.concatenate([*own[:2], own[2] - 1.0, own[3]]))


LOG_NAMES = ["inner", "univariate", *(f"scale of {c.name}" for c in COLUMNS), "shape", "ratio"]


def make_chain(schema, observed, kind=Chain, kernel="exact"):
    return kind(replace(schema), np.where(observed, 1.0, np.nan), kernel)


@njit
def without_jacobian(v, family, a, b):
    """A mistake: the prior density of x where that of log x is due."""
    if family == GAMMA:
        return (a - 1.0) * v - b * np.exp(v)
    z = (v - a) / b
    return -0.5 * z * z - v


@cache
def updates_without_jacobian():
    """The slice updates compiled anew with the wrong prior."""
    names = vars(kernels) | {"log_prior_on_line": without_jacobian}
    for name in ("log_target", "updated", "update_each"):
        names[name] = njit(error_model="numpy")(FunctionType(getattr(kernels, name).py_func.__code__, names))
    return names["update_each"]


def plant_missing_jacobian(monkeypatch):
    """Let chains update by the mistaken kernel."""
    monkeypatch.setattr(kernels, "update_each", updates_without_jacobian())
