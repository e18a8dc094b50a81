"""Every kernel keeps the enumerated posterior of tiny problems, and planted mistakes are seen.

See `transitions`. A right kernel is allowed a score of 4.5, which chance passes in one of 300,000 tests. A planted
mistake must score above 6.
"""

from dataclasses import replace
from types import FunctionType

import numpy as np
import pytest
from numba import njit

from pymc_spn.gibbs import published, redraw
from pymc_spn.gibbs.bottom_up import BottomUpSampler
from pymc_spn.gibbs.leaf_kernels import add_value, evaluate_leaves, log_predictive, refresh_leaf
from pymc_spn.gibbs.published import PublishedSampler
from tests.networks.tiny import tiny_sampler
from tests.networks.transitions import explicit_sampler, z_of_transitions
from tests.reference import (
    BERNOULLI,
    CATEGORICAL,
    EXPONENTIAL,
    GAUSSIAN,
    NARROW,
    POISSON,
    Problem,
    tiny_problems,
)

nan = np.nan
PAIR, HALVES = ((0,), (1,)), (((0,), (1,)), ((2,), (3,)))
MIXED = [[GAUSSIAN, EXPONENTIAL], [EXPONENTIAL, NARROW]]
FOUR = [[GAUSSIAN, EXPONENTIAL], [BERNOULLI], [NARROW], [POISSON, CATEGORICAL]]
TABLE = np.array([[0.3, 1.1], [2.4, 0.2], [2.1, 0.4]])
WIDE = np.array([[0.3, 1.0, 0.9, 2.0], [1.9, nan, nan, nan], [0.5, 0.0, nan, 1.0]])
EDGES = {
    "one_column": Problem((0,), 3, 1.0, 1.7, [[GAUSSIAN, EXPONENTIAL]], np.array([[0.2], [2.5], [0.4], [nan]])),
    "one_column_infinite": Problem((0,), "infinite", 1.0, 0.7, [[GAUSSIAN, POISSON]], np.array([[0.0], [3.0], [1.0]])),
    "constant_column": Problem(
        PAIR, 2, 1.5, 0.8, [[GAUSSIAN], [NARROW]], np.array([[0.7, 1.0], [0.7, 2.0], [0.7, 1.1]])
    ),
    "missing_row": Problem(PAIR, "infinite", 1.5, 0.8, MIXED, np.array([[nan, nan], [0.3, 1.1], [2.4, nan]])),
    "single_row": Problem(PAIR, (3, 4), 1.5, 0.8, MIXED, TABLE[:1]),
    "single_child": Problem(PAIR, (1, 2), 1.5, 0.8, [[GAUSSIAN], [EXPONENTIAL, NARROW]], TABLE),
    "three_parts": Problem(((0,), (1,), (2,)), 2, 0.9, 1.1, FOUR[:3], WIDE[:2, :3]),
    "halves": Problem(HALVES, 2, 0.9, 1.1, FOUR, WIDE[:2]),
    "halves_infinite": Problem(HALVES, "infinite", 0.9, 1.1, FOUR, WIDE),
    # the last row is in neither cluster: in each child one column is 6,000 standard deviations away
    "between_clusters": Problem(
        PAIR,
        (2, 1),
        1.5,
        0.8,
        [[("gaussian", {"mu0": 30.0, "rho0": 1e-7, "a0": 200.0, "b0": 0.02})]] * 2,
        np.array([[0.0, 0.0], [60.0, 60.0], [0.0, 60.03]]),
    ),
}
PROBLEMS = tiny_problems() | EDGES
FINITE = ("mixed", "palette", "missing", "depths", "splits", "two_trees", "skewed")
EXPLICIT = {"published": PublishedSampler, "bottom_up": BottomUpSampler}
DRAWS = {"exact": 2000, "published": 2000, "bottom_up": 400}  # the last one is in NumPy


def score(kernel, problem, draws=None, sampled=None):
    """Score of a kernel that samples one problem against the posterior of another one, or of the same."""
    sampled = sampled or problem
    sampler = tiny_sampler(sampled) if kernel == "exact" else explicit_sampler(EXPLICIT[kernel], sampled)
    return z_of_transitions(problem, sampler, draws or DRAWS[kernel])


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_exact_kernel_keeps_the_posterior(name):
    assert score("exact", PROBLEMS[name]) < 4.5


@pytest.mark.parametrize("name", FINITE)
def test_the_published_kernel_keeps_the_posterior(name):
    assert score("published", PROBLEMS[name]) < 4.5


@pytest.mark.parametrize("name", ["palette", "missing", "splits", "skewed"])
def test_the_bottom_up_kernel_keeps_the_posterior(name):
    assert score("bottom_up", PROBLEMS[name]) < 4.5


@pytest.mark.full
@pytest.mark.parametrize("kernel", DRAWS)
def test_kernels_keep_the_posterior_in_many_transitions(kernel):
    """Sixty times as many transitions on every problem: what is a tenth of a planted mistake. Some ten minutes."""
    for name in PROBLEMS if kernel == "exact" else FINITE:
        assert score(kernel, PROBLEMS[name], 60 * DRAWS[kernel]) < 4.5, name


@pytest.mark.parametrize("kernel", DRAWS)
def test_concentrations_of_four_times_the_size_are_seen(kernel):
    """They score 25, 17 and 10."""
    problem = PROBLEMS["missing"]
    wrong = replace(problem, alpha_inner=4.0 * problem.alpha_inner, alpha_leaf=4.0 * problem.alpha_leaf)
    assert score(kernel, problem, sampled=wrong) > 6.0


# ---- mistakes in the kernels themselves
def with_names(function, **replaced):
    """A kernel compiled anew with other functions or constants under names of its module."""
    source = function.py_func
    return njit(error_model="numpy")(FunctionType(source.__code__, source.__globals__ | replaced))


@njit
def toggle(palette, leaves, d, slot, y, sign):
    """Put a value into a leaf, or take it out again, without telling the sum nodes."""
    leaves.n_data[slot] += np.int32(sign)
    add_value(palette, leaves, d, slot, leaves.n_data[slot], y, sign)
    refresh_leaf(palette, leaves, d, slot, leaves.n_data[slot])


@njit
def evaluate_leaves_with_own(tree, palette, edges, leaves, scratch, y):
    """Stand-in of `evaluate_leaves`: the leaves that the row just left still hold it."""
    for sign in (1.0, -1.0):
        for d in range(y.size):
            r = tree.leaf_region[d]
            slot = edges.begin[r] + scratch.old[r]
            if not scratch.missing[r] and (edges.n_data[slot] > 1 or sign > 0 < edges.n_data[slot]):
                toggle(palette, leaves, d, slot, y[d], sign)
        if sign > 0:
            shift = evaluate_leaves(tree, palette, edges, leaves, scratch, y)
    return shift


def test_a_row_left_in_its_leaf_is_seen(monkeypatch):
    wrong = with_names(redraw.redraw_rows, evaluate_leaves=evaluate_leaves_with_own)
    monkeypatch.setattr("pymc_spn.gibbs.sampler.redraw_rows", wrong)
    assert score("exact", PROBLEMS["palette"]) > 6.0


def test_a_row_left_in_its_leaf_is_seen_of_the_published_kernel(monkeypatch):
    wrong = with_names(published.published_sweep, log_predictive_without=log_predictive)
    monkeypatch.setattr(published, "published_sweep", wrong)
    assert score("published", PROBLEMS["mixed"], 6000) > 6.0


def test_linear_space_would_draw_rows_that_underflow_wrongly(monkeypatch):
    monkeypatch.setattr("pymc_spn.gibbs.sampler.redraw_rows", with_names(redraw.redraw_rows, SAFE=0.0))
    assert score("exact", PROBLEMS["between_clusters"]) > 6.0


def test_values_in_logs_keep_the_posterior_with_several_splits(monkeypatch):
    """No root value is safe from underflow: every row is drawn in logs."""
    monkeypatch.setattr("pymc_spn.gibbs.sampler.redraw_rows", with_names(redraw.redraw_rows, SAFE=np.inf))
    for name in ("splits", "infinite_splits", "two_trees"):
        assert score("exact", PROBLEMS[name]) < 4.5, name
