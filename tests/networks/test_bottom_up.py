"""Bottom-up blocked Gibbs against exact enumeration, and its block evaluation against the scalar one."""

import numpy as np
import pytest

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.bottom_up import BottomUpSampler, draw_tree, draw_tree_by_logs
from pymc_spn.gibbs.bottom_up_parameters import redraw_parameters
from pymc_spn.gibbs.bottom_up_values import (
    BLOCK,
    evaluate_block,
    evaluate_row_by_logs,
    fast_exp2,
    tabulate_column,
)
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
    draws = draw_digits(tiny_chain(BottomUpSampler, problem), seed=1, draws=SHORT)
    assert variation_ratio(draws, problem, enumerate_states(problem)) < 1.3


@pytest.mark.full
@pytest.mark.parametrize("name", FINITE)
def test_four_long_chains_reach_the_enumerated_posterior(name):
    assert mean_variation_ratio(BottomUpSampler, PROBLEMS[name]) < 1.3


def test_a_concentration_a_tenth_off_is_noticed():
    problem = PROBLEMS["missing"]
    sampler = tiny_chain(BottomUpSampler, problem)
    sampler.set_priors(1.1 * np.array([problem.alpha_inner, problem.alpha_leaf]), sampler.parameters.prior.copy())
    assert variation_ratio(draw_digits(sampler, seed=1), problem, enumerate_states(problem)) > 1.5


def test_a_leaf_prior_at_double_scale_is_noticed():
    problem = PROBLEMS["mixed"]
    sampler = tiny_chain(BottomUpSampler, problem)
    prior = sampler.parameters.prior.copy()
    prior[0, 3] *= 2.0  # b0 of one of the four palette entries
    sampler.set_priors(np.array([problem.alpha_inner, problem.alpha_leaf]), prior)
    assert variation_ratio(draw_digits(sampler, seed=1), problem, enumerate_states(problem)) > 1.5


def evaluated(sampler, first, seed=4):
    """Fresh parameters, and the values of all sum nodes for the block of rows from ``first`` on."""
    s = sampler
    redraw_parameters(np.random.default_rng(seed), s.parameters, s.layout, s.placed, s.points.y, s.digits())
    for d in np.flatnonzero(s.points.tabulated):
        tabulate_column(s.parameters, s.layout, s.placed, s.points, d)
    evaluate_block(s.parameters, s.layout, s.placed, s.points, s.value, s.layout.missing, first)
    return s.value


# 200 rows tabulate the columns with few distinct values, 40 rows only the discrete ones.
@pytest.mark.parametrize(("n_rows", "n_parts", "n_children"), [(200, 2, 3), (40, 3, 2), (40, 2, 1)])
def test_blocks_and_scalar_logs_agree(n_rows, n_parts, n_children):
    s = family_chain(BottomUpSampler, n_rows, n_parts=n_parts, n_children=n_children)
    for first in range(0, n_rows, BLOCK):
        value = evaluated(s, first)
        for n in range(first, min(first + BLOCK, n_rows)):
            evaluate_row_by_logs(s.parameters, s.layout, s.placed, s.points, s.value_bits, n)
            # bits may be lost below 2^-1020, the smallest leaf term; sums of logs round at 1e-12
            np.testing.assert_allclose(value[:, n - first], np.exp2(s.value_bits[:, 0]), rtol=1e-10, atol=1e-300)


def test_linear_and_log_draws_are_the_same():
    s = family_chain(BottomUpSampler, 100)
    child = np.empty(s.layout.parent.size, np.int64)
    value = evaluated(s, 64)
    for n in range(64, 96):
        drawn = []
        for by_logs in (False, True):
            digits = s.digits()
            rng = np.random.default_rng(n)
            arguments = (rng, s.parameters, s.layout, s.placed, s.points)
            if by_logs:
                evaluate_row_by_logs(s.parameters, s.layout, s.placed, s.points, s.value_bits, n)
                draw_tree_by_logs(*arguments, s.value_bits, n, child, digits)
            else:
                draw_tree(*arguments, value, n - 64, n, child, digits)
            drawn.append(digits)
        np.testing.assert_array_equal(*drawn)


def test_rows_that_underflow_are_drawn_in_logs():
    s = family_chain(BottomUpSampler, 40)
    n = int(np.flatnonzero(~s.layout.missing[:, s.layout.leaf_region[0]])[0])
    own = s.layout.missing.copy()
    s.layout.missing[n] = True  # the row is taken out of the statistics, so that no leaf lies near it
    s.set_digits(s.digits())
    s.points.y[0, n] = 1e6
    value = evaluated(s, 0)
    s.layout.missing[:] = own
    evaluate_block(s.parameters, s.layout, s.placed, s.points, value, own, 0)
    assert value[s.layout.node_begin[0], n] < 1e-280


def test_power_of_two_is_accurate():
    x = np.concatenate([np.linspace(-1019.0, 60.0, 100_001), np.arange(-1020.0, 60.0, 0.5)])
    found = np.array([fast_exp2(v) for v in x])
    np.testing.assert_allclose(found, np.exp2(x), rtol=3e-13)
    assert fast_exp2(-1e9) == 2.0**-1020


def test_same_seed_same_draws():
    first, again, other = (draw_digits(family_chain(BottomUpSampler, 50), seed, draws=3, thin=1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_wholly_missing_regions_have_no_digit():
    s = family_chain(BottomUpSampler, 50)
    moved = s.sweep(np.random.default_rng(0))
    np.testing.assert_array_equal(s.digits() < 0, s.layout.missing)
    assert s.layout.missing[3].all() and 0.0 < moved < 1.0


def test_a_single_column_is_a_mixture():
    _, compiled, coded = family_table(30, n_children=150)
    one = complete_tree(["height"], n_children=150)
    column = compiled._replace(
        entry_ptr=compiled.entry_ptr[:2], column_kind=compiled.column_kind[:1], n_levels=compiled.n_levels[:1]
    )
    sampler = BottomUpSampler(one, column, np.ascontiguousarray(coded[:, :1]))
    sampler.set_priors(np.array([1.0, 50.0]), np.tile([0.0, 0.1, 1.5, 0.3], (compiled.family.size, 1)))
    sampler.set_digits(np.zeros((30, 1), np.int32))
    assert sampler.sweep(np.random.default_rng(0)) > 0.3  # mass 50 against 30 rows: about half move away
    assert np.unique(sampler.digits()).size > 5


def test_infinite_width_is_refused():
    structure, compiled, coded = family_table(20, n_children="infinite")
    with pytest.raises(ValueError, match=r"'bottom_up' .* finite n_children; region 0 \(height, "):
        BottomUpSampler(structure, compiled, coded)
