"""Variational Bayes against brute force: every step of the bound, the flows, the predictive, the log evidence."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.gibbs.palette import log_jacobian
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.gibbs.starts import cluster_regions
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.fitted_states import FittedStates
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.networks.variational import assignments, coordinate_ascent
from pymc_spn.networks.variational.active_tree import tree_of_digits
from pymc_spn.networks.variational.fit import fit_of
from pymc_spn.networks.variational.path_kernels import expect_leaves
from pymc_spn.networks.variational.weights import mean_weights
from pymc_spn.networks.variational_posterior import VariationalPosterior
from pymc_spn.numerics import threads
from pymc_spn.tables import Table
from tests.hand_made_records import problem_of, schema_of
from tests.reference import log_evidence, state_from_digits
from tests.reference_variational import Variational, edges_of_state, trees_of_row
from tests.sampled_runs import model_of, schema_of_model

PROBLEMS = ["mixed", "palette", "missing", "depths", "infinite", "infinite_missing", "splits", "infinite_splits"]
PROBLEMS += ["skewed", "infinite_skewed"]
NOTHING_LEARNED = np.zeros((5, 8), np.bool_)
PRIORS = np.ones((5, 3))
ALL_EDGES = assignments.ListSearch(breadth=99, descent=99, enter=1e-30, leave=1e-30)


def hyperparameters_of(problem, schema):
    """Those under which the schema's priors are the problem's."""
    n_columns = len(schema.columns)
    fixed = [schema.hyperparameters.get(k, {}).get("fixed", np.ones(n_columns)) for k in HYPERPARAMETERS[1:]]
    return (np.array([problem.alpha_inner, problem.alpha_leaf]), *(np.array(v, np.float64) for v in fixed))


def start_of(problem, schema, seed):
    """Random digits that give every reached node a child, the active tree, and the reference on the same edges."""
    rng = np.random.default_rng(seed)
    while True:
        digits = np.full((len(problem.X), len(problem.region_list)), -1)
        for row in range(len(problem.X)):
            labels = {}
            for r in problem.region_list:
                if problem.draws_in(row, r, labels):
                    labels[r.index] = digits[row, r.index] = rng.integers(0, min(problem.n_children(r), 3))
        state = state_from_digits(digits)
        active = edges_of_state(problem, state)
        reached = {
            (q, p)
            for r, p in active
            if problem.region_list[r].column is None
            for q in problem.region_list[r].splits[p[-1] % len(problem.region_list[r].splits)]
        }
        if reached <= {(r, p[:-1]) for r, p in active} and len(trees_of_row(problem, 0, active)) > 1:
            break
    schema_tree = tree_of_digits(schema.structure, schema.compiled, digits.astype(np.int32))
    return schema_tree, Variational.of_state(problem, state)


def ascend(problem, schema, start, max_steps=200, tolerance=1e-12, search=ALL_EDGES, n_batches=1):
    compiled, structure = schema.compiled, schema.structure
    return coordinate_ascent.ascend(
        structure,
        compiled,
        place_columns(structure, schema.code(problem.X)),
        coordinate_ascent.base_logs(structure, compiled, problem.X),
        log_jacobian(compiled, problem.X),
        start,
        hyperparameters_of(problem, schema),
        NOTHING_LEARNED[:, : max(2, len(schema.columns))],
        PRIORS,
        max_steps,
        tolerance,
        search=search,
        n_batches=n_batches,
    )


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_step_has_the_bound_of_the_brute_force(name):
    problem = problem_of(name)
    schema = schema_of(problem)
    start, reference = start_of(problem, schema, 0)
    run = ascend(problem, schema, start, max_steps=6)
    expected = [reference.bound()]
    for _ in range(6):
        reference = reference.step()
        expected.append(reference.bound())
    n = run.bounds.size
    np.testing.assert_allclose(run.bounds, expected[:n], rtol=0, atol=1e-9)
    assert n >= 4


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_bound_rises_and_stays_below_the_log_evidence(name):
    problem = problem_of(name)
    schema, evidence = schema_of(problem), log_evidence(problem)
    for seed in range(6):
        run = ascend(problem, schema, start_of(problem, schema, seed)[0])
        assert run.converged
        assert np.diff(run.bounds).min() > -1e-11
        assert run.bounds[-1] < evidence
        assert run.bounds[-1] > run.bounds[0]


def posterior_of(problem, schema, run):
    return VariationalPosterior(RecordedLaw(FittedStates(schema, fit_of([run]))))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_predictive_is_the_expectation_of_the_brute_force(name):
    problem = problem_of(name)
    schema = schema_of(problem)
    start, reference = start_of(problem, schema, 1)
    post = posterior_of(problem, schema, ascend(problem, schema, start, max_steps=3, tolerance=1e-300))
    for _ in range(3):
        reference = reference.step()
    rng = np.random.default_rng(0)
    rows = np.abs(rng.normal(1.0, 1.0, (6, len(schema.columns))))
    for d, column in enumerate(schema.columns):
        if column.kind not in ("real", "positive"):
            rows[:, d] = rng.integers(0, 2 if column.kind == "binary" else 3, len(rows))
    rows[1, 0] = rows[2, -1] = np.nan
    expected = [np.log(reference.predictive(x)) for x in rows]
    table = Table(schema.columns, rows, pd.RangeIndex(len(rows)))
    np.testing.assert_allclose(post.log_density(table).values, expected, rtol=0, atol=1e-10)
    far = rows + np.array([1e3 if c.kind == "real" else 0.0 for c in schema.columns])
    logs = post.log_density(Table(schema.columns, far, table.index)).values
    np.testing.assert_allclose(logs, [np.log(reference.predictive(x)) for x in far], rtol=1e-10)


def log_mean_weights(tree, count, mass):
    """The mistake of plain EM: the log of the mean weight in place of the expected log weight."""
    return np.log(mean_weights(tree, count, mass)[0])


def leaves_with_known_means(tree, count, s1, s2, levels, prior, constants, coefficient, level_log):
    """The mistake of a leaf whose mean has no uncertainty: the term 1 / rho is lost."""
    expect_leaves(tree, count, s1, s2, levels, prior, constants, coefficient, level_log)
    gaussian = tree.leaf_family == GAUSSIAN
    coefficient[gaussian, 0] += 0.5 / (prior[tree.leaf_entry, 1] + count)[gaussian]


@pytest.mark.parametrize(
    ("place", "mistake"), [("expect_weights", log_mean_weights), ("expect_leaves", leaves_with_known_means)]
)
def test_planted_mistakes_leave_the_brute_force(monkeypatch, place, mistake):
    monkeypatch.setattr(assignments, place, mistake)
    problem = problem_of("mixed")
    schema = schema_of(problem)
    start, reference = start_of(problem, schema, 0)
    run = ascend(problem, schema, start, max_steps=4)
    expected = [reference.bound()]
    for _ in range(4):
        reference = reference.step()
        expected.append(reference.bound())
    n = run.bounds.size
    assert run.bounds[0] == pytest.approx(expected[0], abs=1e-9)  # a start has no expectations
    assert np.abs(run.bounds - expected[:n]).max() > 1e-3  # against 1e-9 without the mistake


def ascend_in_pieces(monkeypatch, name, seed, search, n_batches, max_steps=200):
    """A run whose table stands in a piece for each row, of which several make a batch."""
    monkeypatch.setattr(assignments, "ROWS", 1)
    problem = problem_of(name)
    schema = schema_of(problem)
    return ascend(problem, schema, start_of(problem, schema, seed)[0], max_steps, search=search, n_batches=n_batches)


@pytest.mark.parametrize("name", ["mixed", "infinite_missing", "splits", "skewed"])
def test_batches_and_short_lists_keep_the_bound_rising_below_the_evidence(monkeypatch, name):
    evidence = log_evidence(problem_of(name))
    for seed in range(3):
        first = ascend_in_pieces(monkeypatch, name, seed, ALL_EDGES, 1).bounds[0]
        for search in (ALL_EDGES, coordinate_ascent.USUAL, assignments.ListSearch(0, 1, 0.3, 0.2)):
            for n_batches in (1, 2):
                run = ascend_in_pieces(monkeypatch, name, seed, search, n_batches)
                assert np.diff(run.bounds).min() > -1e-11
                assert run.bounds[0] == first
                assert run.bounds[-1] < evidence


@cache
def three_clusters():
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 3, 400)
    a, b = rng.normal(5.0 * cluster, 1.0), rng.normal(cluster == 1, 0.3)
    return pd.DataFrame({"a": a, "b": b, "c": (cluster + rng.integers(0, 2, 400)).astype(str)})


def test_threads_give_equal_bits_and_batches_end_near_the_whole_table(monkeypatch):
    monkeypatch.setattr(assignments, "ROWS", 50)
    fits = {}
    for n in (1, 2, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n: n)
        fits[n] = ps.fit_variational(three_clusters(), max_children=3, random_seed=1, progressbar=False)
        assert np.nanmin(np.diff(fits[n].trace().values)) > -1e-9
        np.testing.assert_array_equal(fits[n].trace().values, fits[1].trace().values)
        np.testing.assert_array_equal(fits[n].log_density(three_clusters()), fits[1].log_density(three_clusters()))
    monkeypatch.setattr(assignments, "ROWS", 400)  # one piece is one batch
    whole = ps.fit_variational(three_clusters(), max_children=3, random_seed=1, progressbar=False)
    assert whole.bound == pytest.approx(fits[1].bound, abs=4.0)
    difference = whole.log_density(three_clusters()) - fits[1].log_density(three_clusters())
    assert float(np.abs(difference).mean()) < 0.02


def test_rows_of_a_rare_level_start_apart():
    rng, rare = np.random.default_rng(0), np.arange(400) < 10
    x = rng.normal(size=(400, 2)) + 4.0 * rng.integers(0, 2, (400, 1))
    df = pd.DataFrame(x, columns=["a", "b"]).assign(y=np.where(rare, "rare", "usual"))
    schema = schema_of_model(model_of(ps.circuits.complete_tree(list(df)), observed=df))
    coded, ones = schema.code(Table.from_frame(df, schema=schema.columns).values), np.ones(5, np.int64)
    for room, own in ((0, {0, 1}), (1, {2})):
        top = cluster_regions(schema.structure, schema.compiled, coded, 2 * ones, ones, rng, room=room)[:, 0]
        assert (set(top[rare]), set(top[~rare])) == (own, {0, 1})
