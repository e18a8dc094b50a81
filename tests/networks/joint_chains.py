"""Networks with leaves over several columns and every constant fixed: their joint distribution, and wrong samplers.

Tables with assignments come from `Chain.draw_prior_table`. Values given assignments and hyperparameters are written out
here once more, from the definition in the documentation.
"""

from functools import cache

import numpy as np

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.hyperparameters import GAMMA, LOG_NORMAL_ABOVE_ONE
from pymc_spn.leaves import Gaussian
from pymc_spn.networks.hyperparameter_inputs import PRIORS
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.tables import Column

NAMES = "abc"
D = len(NAMES)
MEAN, VARIANCE = np.array([0.5, -1.0, 0.0]), np.array([2.0, 1.0, 0.5])
OWNED = np.ones((5, D), bool)
OWNED[0, 2] = False
PRIOR_TABLE = np.array([PRIORS[group] for group in HYPERPARAMETERS])
LOG_NAMES = [
    "inner",
    "univariate",
    *(f"{group} of {c}" for group in ("scale", "shape", "ratio", "covariance scale") for c in NAMES),
]


@cache
def schema():
    """Of three real columns: leaves over all of them, and over two of them below products."""
    return NetworkSchema(
        name="x",
        structure=complete_tree(list(NAMES)),
        columns=tuple(Column(c, "real", None, "float64") for c in NAMES),
        palette=tuple((Gaussian(mean=m, variance=v),) for m, v in zip(MEAN, VARIANCE, strict=True)),
        resolution=(0.0,) * D,
        centre=(0.3, -0.9, 0.0),
        scale=(1.7, 1.0, 2.0),
        hyperparameters={},
        start="prior",
        joint=tuple(NAMES),
    )


def draw_hyperparameters(rng):
    """Five vectors from the default priors."""
    out = []
    for group, owned in zip(HYPERPARAMETERS, OWNED, strict=True):
        family, a, b = PRIORS[group]
        n = int(owned.sum())
        drawn = rng.gamma(a, 1 / b, n) if family == GAMMA else rng.lognormal(a, b, n)
        out.append(drawn + (family == LOG_NORMAL_ABOVE_ONE))
    return out


def logs(h):
    """Logs of the hyperparameters, of the shapes less 1; see `LOG_NAMES`."""
    return np.log(np.concatenate([*h[:2], h[2] - 1.0, *h[3:]]))


def make_chain(observed, kind=Chain):
    """A chain whose `draw_prior_table` keeps the cells of gaps that leaves over several columns have drawn."""
    chain = kind(schema(), np.where(observed, 1.0, np.nan), "exact")
    chain.values = np.ones(observed.shape)
    return chain


def draw_joint(chain, rng):
    """(hyperparameters, completed table, digits) from the joint distribution."""
    h = draw_hyperparameters(rng)
    table = chain.draw_prior_table(rng, h)
    return h, table, chain.sampler.digits()


def is_joint(chain):
    """(N, R) bool: whether a row's child of a region is a leaf over all its columns."""
    net, slots = chain.sampler.net, chain.sampler.slots
    own = np.where(slots >= 0, net.edges.split[net.edges.begin + np.maximum(slots, 0)], -1)
    return (net.joints.split >= 0) & (own == net.joints.split)


def draw_table(chain, h, rng, degrees=2.0):
    """Completed table given the chain's assignments; the covariance matrices have d + 2 degrees of freedom."""
    sampler, tree = chain.sampler, chain.schema.structure
    joint, table = is_joint(chain), np.full(chain.values.shape, np.nan)
    for r in range(tree.n_regions):
        columns = np.sort(tree.order[tree.begin[r] : tree.end[r]])
        for slot in np.unique(sampler.slots[sampler.slots[:, r] >= 0, r]):
            rows, d = np.flatnonzero(sampler.slots[:, r] == slot), columns.size
            if d == 1:
                b = h[2][columns] * h[1][columns] * VARIANCE[columns]
                tau = rng.gamma(h[2][columns], 1.0 / b)
                mean = rng.normal(MEAN[columns], 1.0 / np.sqrt(h[3][columns] * tau))
                table[rows, columns[0]] = rng.normal(mean, 1.0 / np.sqrt(tau), rows.size)
            elif joint[rows[0], r]:
                z = rng.normal(size=(int(d + degrees), d)) / np.sqrt(h[4][columns] * VARIANCE[columns])
                covariance = np.linalg.inv(z.T @ z)
                mean = rng.multivariate_normal(MEAN[columns], covariance / 0.05)
                table[np.ix_(rows, columns)] = rng.multivariate_normal(mean, covariance, rows.size)
    return table


def install(chain, observed, completed, digits, h):
    """Put a chain into a state."""
    sampler, coded = chain.sampler, chain.schema.code(completed)
    sampler.coded[:] = np.where(observed, coded, np.nan)
    sampler.filled[:] = np.where(np.isnan(coded), 0.0, coded)
    chain.set_hyperparameters(h)
    chain.set_digits(np.ascontiguousarray(digits, np.int32))


def completed(chain, observed):
    """The table with the cells that leaves over several columns have drawn, NaN in other gaps."""
    compiled = chain.schema.compiled
    joint, tree = is_joint(chain), chain.schema.structure
    held = np.array(observed)
    for r in range(tree.n_regions):
        held[np.ix_(joint[:, r], tree.order[tree.begin[r] : tree.end[r]])] = True
    return np.where(held, chain.sampler.filled * compiled.scale + compiled.centre, np.nan)
