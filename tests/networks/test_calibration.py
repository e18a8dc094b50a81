"""Simulation-based calibration on a small table: ranks of the truth among posterior draws are uniform.

Talts et al. (2018), arXiv:1804.06788. Truth and data come from the joint distribution of the reference; a chain of the
sampler starts afresh from the prior start. simuk drives whole PyMC models and redraws observed data through
`pm.sample_prior_predictive` alone, so the assignments' truth, which the log joint needs, would be lost: by hand.
"""

import numpy as np
import pytest
from scipy import stats

from pymc_spn.gibbs.chain import Chain
from tests.networks.hyperparameter_chains import (
    LOG_NAMES,
    OWNED,
    PRIOR_TABLE,
    draw_hyperparameters,
    draw_joint,
    fixed_schema,
    logs,
    plant_missing_jacobian,
)

OBSERVED = np.ones((8, 4), bool)
OBSERVED[[2, 5, 5], [1, 0, 1]] = False
DRAWS, THIN, BINS = 15, 6, 8  # sweeps to the next draw, and five times as many before the first
RUNS, FULL = 80, 600


def quantities(chain, h, digits):
    """Log hyperparameters, the log joint, and the prior weight with which a new row would join row 0 at the root."""
    n, width = len(OBSERVED), chain.schema.structure.n_children[0]
    spread = h[0][0] / width if width else 0.0
    weight = ((digits[:, 0] == digits[0, 0]).sum() + spread) / (n + h[0][0])
    return [*logs(h), chain.sampler.statistics()[0], weight]


NAMES = [*LOG_NAMES, "log joint", "weight of row 0's component"]


def ranks(width, runs, kind=Chain, kernel="exact", seed=1, thin=THIN):
    """Ranks (runs, quantities) of the truth among the draws; ties at random."""
    schema, rng = fixed_schema(width), np.random.default_rng(seed)
    found = np.empty((runs, len(NAMES)), int)
    for run in range(runs):
        h, table, digits = draw_joint(schema, OBSERVED, rng)
        chain = kind(schema, table, kernel)  # anew: the explicit samplers keep the table in a form of their own
        chain.set_hyperparameters(h)
        chain.set_digits(digits.astype(np.int32))
        truth = np.array(quantities(chain, h, digits))
        chain.start(rng, draw_hyperparameters(rng))
        draws = []
        for i in range(5 * thin + DRAWS * thin):
            chain.sweep(rng)
            h = chain.update_hyperparameters(rng, OWNED, PRIOR_TABLE)
            if i >= 5 * thin and i % thin == thin - 1:
                draws.append(quantities(chain, h, chain.sampler.digits()))
        below = (np.array(draws) < truth).sum(axis=0)
        found[run] = below + rng.integers(0, (np.array(draws) == truth).sum(axis=0) + 1)
    return found


def p_values(found, names=tuple(NAMES)):
    """Chi-square of uniform ranks in eight bins, by quantity."""
    counts = [np.bincount(r * BINS // (DRAWS + 1), minlength=BINS) for r in found.T]
    return dict(zip(names, (stats.chisquare(c).pvalue for c in counts), strict=True))


def test_ranks_are_uniform():
    found = p_values(ranks("infinite", RUNS))
    assert min(found.values()) > 1e-4, found


@pytest.mark.full
@pytest.mark.parametrize("kernel", ["exact", "published", "bottom_up"])
def test_ranks_are_uniform_in_many_runs(kernel):
    """Ranks of hyperparameters and log joint in 600 runs of each kernel, thinned by 20. Some twenty minutes."""
    for width in [3, "infinite"] if kernel == "exact" else [3]:
        found = p_values(ranks(width, FULL, kernel=kernel, seed=2, thin=20))
        assert min(found.values()) > 1e-4, (width, found)


# The power of the short form: p is below 2e-9, more than six standard deviations of a normal score.
def test_a_missing_jacobian_is_noticed(monkeypatch):
    plant_missing_jacobian(monkeypatch)
    found = p_values(ranks("infinite", RUNS))
    assert sum(found[name] < 1e-9 for name in LOG_NAMES) >= 3, found
