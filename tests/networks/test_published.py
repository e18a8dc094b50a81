"""The published top-down sampler against exact enumeration, with its negative control."""

from types import FunctionType

import numpy as np
import pytest
from numba import njit

from pymc_spn.gibbs import published
from pymc_spn.gibbs.leaf_kernels import log_predictive
from pymc_spn.gibbs.published import PublishedSampler, rebuild_leaves
from tests.networks.explicit_chains import (
    SHORT,
    draw_digits,
    family_chain,
    family_table,
    mean_variation_ratio,
    tiny_chain,
    variation_ratio,
)
from tests.reference import enumerate_states, tiny_problems

PROBLEMS = tiny_problems()
FINITE = ("mixed", "palette", "missing", "depths", "splits", "two_trees", "skewed")


@pytest.mark.parametrize("name", FINITE)
def test_reaches_the_enumerated_posterior(name):
    problem = PROBLEMS[name]
    draws = draw_digits(tiny_chain(PublishedSampler, problem), seed=1, draws=SHORT)
    assert variation_ratio(draws, problem, enumerate_states(problem)) < 1.3


@pytest.mark.full
@pytest.mark.parametrize("name", FINITE)
def test_four_long_chains_reach_the_enumerated_posterior(name):
    assert mean_variation_ratio(PublishedSampler, PROBLEMS[name]) < 1.3


def test_a_row_left_in_its_leaf_is_noticed(monkeypatch):
    """Negative control: the current leaf's predictive still holds the row, which biases towards staying."""
    mistaken = {
        "log_predictive_without": log_predictive,
        "GAUSSIAN": -1,
    }  # -1: no short cut for Gaussian leaves
    source = published.published_sweep.py_func
    sweep = njit(error_model="numpy")(FunctionType(source.__code__, source.__globals__ | mistaken))
    monkeypatch.setattr(published, "published_sweep", sweep)
    problem = PROBLEMS["mixed"]
    draws = draw_digits(tiny_chain(PublishedSampler, problem), seed=1)
    assert variation_ratio(draws, problem, enumerate_states(problem)) > 2.0


def recounted(s):
    """Cumulative weights (as in `States.bound`) from the states of all rows."""
    bound = s.states.prior_bound.copy()
    for g, width in enumerate(s.states.group_width):
        first, last = s.states.group_ptr[g : g + 2]
        for c in range(width - 1):
            begin = s.states.bound_begin[g] + c * (last - first)
            bound[begin : begin + last - first] += (s.states.digit[:, first:last] <= c).sum(axis=0)
    return bound


def test_counts_and_statistics_follow_the_states():
    s = family_chain(PublishedSampler, 150)
    rng = np.random.default_rng(1)
    for _ in range(20):
        s.sweep(rng)
    s.set_hyperparameters(np.array([2.1, 0.3]), *(np.full(7, v) for v in (0.5, 2.0, 0.1)))
    for _ in range(20):
        s.sweep(rng)
    np.testing.assert_allclose(s.states.bound, recounted(s), rtol=1e-13)
    np.testing.assert_allclose(s.states.group_mass, [2.1, *[0.3] * (s.states.group_mass.size - 1)])
    kept = [a.copy() for a in (s.leaves.n_data, s.leaves.s1, s.leaves.log_scale, s.leaves.level_count)]
    rebuild_leaves(s.palette, s.leaves, s.layout, s.coded, s.states.digit, s.states.place)
    for before, after in zip(
        kept, (s.leaves.n_data, s.leaves.s1, s.leaves.log_scale, s.leaves.level_count), strict=True
    ):
        np.testing.assert_allclose(before, after, rtol=1e-9, atol=1e-11)


def test_states_off_the_trees_start_from_weights_given_the_trees():
    """A node that no tree reaches gets its weights from the prior, so its states are far from uniform."""
    structure, compiled, coded = family_table(400, n_children=2)
    s = PublishedSampler(structure, compiled, coded)
    s.set_hyperparameters(np.array([0.2, 0.2]), *(np.full(7, v) for v in (0.5, 2.0, 0.1)))
    s.set_digits(np.zeros((400, structure.n_regions), np.int32))
    s.sweep(np.random.default_rng(0))
    d = int(compiled.n_levels.argmax()) + 1  # smokes: two leaves at every node
    r = s.layout.leaf_region[d]
    share = (s.states.digit[:, s.states.place[r] + 1 : s.states.place[r] + s.layout.n_nodes[r]] == 0).mean(axis=0)
    assert (np.abs(share - 0.5) > 0.4).mean() > 0.3  # Beta(0.1, 0.1) puts 0.65 there, uniform states nothing


def test_digits_are_kept_until_the_first_sweep():
    s = family_chain(PublishedSampler, 50)
    digits = s.digits()
    np.testing.assert_array_equal(digits < 0, s.layout.missing)
    other = np.where(digits >= 0, 0, -1)
    s.set_digits(other)
    np.testing.assert_array_equal(s.digits(), other)
    s.sweep(np.random.default_rng(0))
    np.testing.assert_array_equal(s.digits() < 0, s.layout.missing)


def test_same_seed_same_draws():
    first, again, other = (draw_digits(family_chain(PublishedSampler, 50), seed, draws=5, thin=3) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_wide_nodes_take_two_bytes():
    s = family_chain(PublishedSampler, 40, n_children=(2, 2, 150, 2))
    assert s.states.digit.dtype == np.int16
    assert family_chain(PublishedSampler, 40, n_children=2).states.digit.dtype == np.int8
    s.sweep(np.random.default_rng(0))
    assert s.digits().max() > 2


def test_infinite_width_and_too_much_memory_are_refused():
    structure, compiled, coded = family_table(20, n_children="infinite")
    with pytest.raises(ValueError, match=r"'published' .* finite n_children; region 0 \(height, "):
        PublishedSampler(structure, compiled, coded)
    structure, compiled, coded = family_table(20, n_children=4)
    with pytest.raises(ValueError, match=r"20 rows at 457 sum nodes, which takes 9,140 bytes; memory_limit is 5,000"):
        PublishedSampler(structure, compiled, coded, memory_limit=5000)
