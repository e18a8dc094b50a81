"""Simulation-based calibration on a small table: ranks of the truth among posterior draws are uniform.

Talts et al. (2018), arXiv:1804.06788. Truth and data come from the joint distribution of the reference; a chain of the
sampler starts afresh from the prior start. simuk drives whole PyMC models and redraws observed data through
`pm.sample_prior_predictive` alone, so the assignments' truth, which the log joint needs, would be lost: by hand.
"""

import numpy as np
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.gibbs.chain import Chain
from pymc_spn.leaves.multivariate_student_t import predictive_leaves
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records import joint_predictives
from pymc_spn.networks.records.record import Record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import HYPERPARAMETERS
from tests.networks import joint_chains
from tests.networks.hyperparameter_chains import (
    LOG_NAMES,
    OWNED,
    PRIOR_TABLE,
    DeafChain,
    draw_hyperparameters,
    draw_joint,
    fixed_schema,
    logs,
    plant_missing_jacobian,
)

OBSERVED = np.ones((8, 4), bool)
OBSERVED[[2, 5, 5], [1, 0, 1]] = False
DRAWS, THIN, BINS = 15, 6, 8  # sweeps to the next draw, and five times as many before the first
RUNS, FULL = 200, 600


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


@pytest.mark.parametrize("width", ["infinite"])
def test_ranks_are_uniform(width):
    found = p_values(ranks(width, RUNS))
    assert min(found.values()) > 1e-4, found


@pytest.mark.full
@pytest.mark.parametrize("kernel", ["exact", "frontier", "induced_tree", "published", "bottom_up"])
def test_ranks_are_uniform_in_many_runs(kernel):
    widths = [3] if kernel in ("published", "bottom_up") else [3, "infinite"]
    for width in widths:
        found = p_values(ranks(width, FULL, kernel=kernel, seed=2, thin=20))
        assert min(found.values()) > 1e-4, (width, found)


# The power of the short form: in half as many runs p is below 2e-7 on each of the eight hyperparameters.
def test_a_missing_jacobian_is_noticed(monkeypatch):
    plant_missing_jacobian(monkeypatch)
    found = p_values(ranks("infinite", RUNS // 3))
    assert sum(found[name] < 1e-4 for name in LOG_NAMES) >= 5, found


@pytest.mark.full  # the short form misses it: ranks of the log joint at p = 0.004
def test_hyperparameters_that_do_not_reach_the_sweep_are_noticed():
    found = p_values(ranks("infinite", FULL, DeafChain, thin=20))
    assert found["log joint"] < 1e-6, found


# ---- leaves over several columns, with gaps: the hyperparameters, and what is stated of fresh rows
GAPS = np.ones((10, 3), bool)
GAPS[[2, 4, 4, 5, 8], [1, 0, 1, 2, 0]] = False
AND_FRESH = np.concatenate([GAPS, np.ones((1, 3), bool)])
JOINT_RUNS, FRESH_RUNS, JOINT_THIN = 120, 160, 4
FIXED = [np.full(2, 0.3), np.full(3, 0.3), np.full(3, 1.5), np.full(3, 0.05), np.full(3, 0.3)]


def ranks_with_joints(runs, seed=1, degrees=2.0):
    """Ranks (runs, quantities) of the hyperparameters; ``degrees`` are those of `joint_chains.draw_table`."""
    rng, prior = np.random.default_rng(seed), joint_chains.make_chain(GAPS)
    found = np.empty((runs, len(joint_chains.LOG_NAMES)), int)
    for run in range(runs):
        truth, whole, _ = joint_chains.draw_joint(prior, rng)
        if degrees != 2.0:
            whole = joint_chains.draw_table(prior, truth, rng, degrees)
        chain, draws = Chain(prior.schema, np.where(GAPS, whole, np.nan), "exact"), []
        chain.start(rng, joint_chains.draw_hyperparameters(rng))
        for i in range((5 + DRAWS) * JOINT_THIN):
            chain.sweep(rng)
            h = chain.update_hyperparameters(rng, joint_chains.OWNED, joint_chains.PRIOR_TABLE)
            if i >= 5 * JOINT_THIN and i % JOINT_THIN == JOINT_THIN - 1:
                draws.append(joint_chains.logs(h))
        found[run] = (np.array(draws) < joint_chains.logs(truth)).sum(axis=0)
    return p_values(found, joint_chains.LOG_NAMES)


@pytest.mark.parametrize("runs", [JOINT_RUNS, pytest.param(FULL, marks=pytest.mark.full)])
def test_ranks_are_uniform_with_leaves_over_several_columns(runs):
    found = ranks_with_joints(runs)
    assert min(found.values()) > 1e-4, found


# The power of the short form: three degrees of freedom too many and cells of thrice the scale below p = 1e-6.
def test_wrong_degrees_of_freedom_are_noticed():
    assert min(ranks_with_joints(JOINT_RUNS, degrees=5.0).values()) < 1e-6


def test_missing_cells_of_a_wrong_scale_are_noticed(monkeypatch):
    joint_chains.plant_wrong_cells(monkeypatch)
    assert min(ranks_with_joints(JOINT_RUNS).values()) < 1e-5


def posterior_of(chain, table, states):
    """The posterior object of states, each of digits (N, R) and drawn cells (m,), at the fixed hyperparameters."""
    record = Record(
        schema=chain.schema,
        table=table,
        rows=np.arange(len(table)),
        digits=np.array([digits for digits, _ in states])[None],
        chains=np.arange(1),
        draws=np.arange(len(states)),
        hyperparameters={g: np.array([[v] * len(states)]) for g, v in zip(HYPERPARAMETERS, FIXED, strict=True)},
        variables={},
        filled=np.array([cells for _, cells in states], np.float32)[None],
    )
    return ps.SPNPosterior(RecordedLaw(RecordedStates(record)))


def stated_of_fresh_rows(runs, seed=3):
    """Probability (runs,) that a cell of a fresh row is below its true value: one other is known, one missing."""
    rng, prior, found = np.random.default_rng(seed), joint_chains.make_chain(AND_FRESH), np.empty(runs)
    for run in range(runs):
        whole = prior.draw_prior_table(rng, FIXED)
        table, fresh = np.where(GAPS, whole[:-1], np.nan), whole[-1]
        chain, states = Chain(prior.schema, table, "exact"), []
        chain.start(rng, FIXED)
        for i in range((5 + DRAWS) * JOINT_THIN):
            chain.sweep(rng)
            if i >= 5 * JOINT_THIN and i % JOINT_THIN == JOINT_THIN - 1:
                states.append((chain.sampler.digits(), chain.sampler.filled[chain.sampler.filled_at]))
        row = {"a": [fresh[0]], "c": [np.nan]}
        found[run] = posterior_of(chain, table, states).predict_cdf(row, "b", float(fresh[1])).squeeze()
    return found


@pytest.mark.parametrize("runs", [FRESH_RUNS, pytest.param(FULL, marks=pytest.mark.full)])
def test_probabilities_of_cells_of_fresh_rows_are_uniform(runs):
    assert stats.kstest(stated_of_fresh_rows(runs), "uniform").pvalue > 1e-3


# The power of the short form: p = 2e-4; of right predictives 0.02
def test_predictives_of_a_wrong_scale_are_noticed(monkeypatch):
    def too_narrow(posterior):
        leaves, d = predictive_leaves(posterior), posterior.mu.shape[1]
        return np.column_stack([leaves[:, : 1 + d], leaves[:, 1 + d :] / 9.0])

    monkeypatch.setattr(joint_predictives, "predictive_leaves", too_narrow)
    assert stats.kstest(stated_of_fresh_rows(FRESH_RUNS), "uniform").pvalue < 1e-3
