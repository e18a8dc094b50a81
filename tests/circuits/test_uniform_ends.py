"""Ends of uniform leaves by `fit_em`: against all pairs of values, planted ones, and never a step down."""

import warnings

import numpy as np
import pytest

import pymc_spn as ps
from pymc_spn.circuits.estimation.fit_ends import best_ends
from tests.shared_circuits import build, mixture, reference_log_density

ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 2.0]])


def log_objective(circuit, rows, log_weights, parameters, prior_rows):
    """Log likelihood node by node, and `prior_rows` times -log l - r / l for each uniform leaf; no prior of weights."""
    total = sum(reference_log_density(circuit, row, log_weights, parameters) for row in rows)
    for leaf, (low, high) in zip(circuit.leaves_of("uniform"), parameters["uniform"], strict=True):
        whole = np.ptp(rows[:, circuit.leaf_column[leaf]][~np.isnan(rows[:, circuit.leaf_column[leaf]])])
        total -= prior_rows * (np.log(high - low) + whole / (high - low))
    return total


def planted(rng, n):
    """Two boxes that overlap in the first column, one of them within the other in the second; a tenth is missing."""
    first = rng.random(n) < 0.4
    rows = np.column_stack(
        [
            np.where(first, rng.uniform(0, 3, n), rng.uniform(2, 10, n)),
            np.where(first, rng.uniform(5, 6, n), rng.uniform(-1, 8, n)),
        ]
    )
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_ends_of_a_leaf_are_the_best_of_all_pairs_of_values(seed):
    """Twelve values, a cluster among them, beside a Gaussian leaf; 66 pairs."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.concatenate([rng.normal(0, 4, 7), rng.uniform(1, 2, 5)]))
    flow, rest = rng.uniform(0.05, 0.9, (1, 12)), rng.uniform(0.05, 0.5, 12)
    found = best_ends(x, flow, rest, np.array([[x[0], x[-1]]]), 1.5)

    def objective(low, high):
        inside = (x >= low) & (x <= high)
        length = high - low
        return np.log(rest + inside * flow[0] * (x[-1] - x[0]) / length).sum() - 1.5 * (
            np.log(length) + (x[-1] - x[0]) / length
        )

    pairs = [(a, b) for i, a in enumerate(x) for b in x[i + 1 :]]
    assert tuple(found[0]) == max(pairs, key=lambda pair: objective(*pair))
    assert objective(*found[0]) > objective(x[0], x[-1])  # it moved


def test_planted_boxes_come_back_and_no_pair_of_values_is_better():
    """Four standard deviations of the smallest of the 160 values in a box are below 4 % of its length."""
    rows = planted(np.random.default_rng(0), 400)
    circuit = mixture(("uniform", "uniform"))
    fit = ps.fit_em(circuit, rows, learn_ends=True, edge_prior_rows=0.0, random_seed=1)
    ends = fit.leaf_parameters["uniform"]
    order = [2, 3, 0, 1] if ends[0, 1] > ends[2, 1] else [0, 1, 2, 3]
    exact = np.array([[0, 3], [5, 6], [2, 10], [-1, 8]])
    assert np.all(np.abs(ends[order] - exact) < 0.04 * (exact[:, 1:] - exact[:, :1]))
    assert np.exp(fit.log_weights[np.argmin(ends[::2, 1])]) == pytest.approx(0.4, abs=0.1)  # four standard deviations
    assert np.diff(fit.objective).min() >= -1e-9 * np.abs(fit.objective).max() and fit.converged
    few = rows[:25]
    fit = ps.fit_em(circuit, few, learn_ends=True, edge_prior_rows=0.0, restarts=2, tolerance=1e-12, random_seed=1)
    best = log_objective(circuit, few, fit.log_weights, fit.leaf_parameters, 1.0)
    assert best == pytest.approx(fit.objective[-1], abs=1e-9)
    for leaf in range(2):
        x = np.unique(few[:, leaf][~np.isnan(few[:, leaf])])
        for step in (1, 2, 4, 8):
            low, high = np.searchsorted(x, fit.leaf_parameters["uniform"][leaf])
            for a, b in ((low - step, high), (low + step, high), (low, high - step), (low, high + step)):
                if 0 <= a < b < x.size:
                    moved = {"uniform": fit.leaf_parameters["uniform"].copy()}
                    moved["uniform"][leaf] = x[a], x[b]
                    assert log_objective(circuit, few, fit.log_weights, moved, 1.0) < best + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_no_step_goes_down_beside_other_leaves(seed):
    """Three leaves a column of two families, other columns beside; the ends are values of the column."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([planted(rng, 40), rng.normal(size=40)])[:, [0, 2, 1]]
    circuit = mixture(("uniform", "gaussian", "uniform"), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = ps.fit_em(circuit, rows, learn_ends=True, leaf_prior_rows=0.5, restarts=1, random_seed=seed, max_steps=30)
    assert np.diff(fit.objective).min() >= -1e-9 * np.abs(fit.objective).max()
    columns = circuit.leaf_column[circuit.leaves_of("uniform")]
    ends = fit.leaf_parameters["uniform"]
    assert all(np.isin(own, rows[:, d]).all() for d, own in zip(columns, ends, strict=True))
    assert np.ptp(ends, axis=1).min() > 0.5 / 40  # no leaf on a single point


def test_one_leaf_holds_its_column_and_a_start_may_be_wider():
    x = np.random.default_rng(2).uniform(-3.0, 5.0, (30, 1))
    circuit = build([("leaf", 0, "uniform")], ["x"], ("uniform",))
    fit = ps.fit_em(circuit, x, learn_ends=True, restarts=1)
    assert fit.leaf_parameters["uniform"].tolist() == [[x.min(), x.max()]]
    start = (None, {"uniform": [[-4.0, 7.0]]})
    from_start = ps.fit_em(circuit, x, start=start, learn_ends=True)
    assert np.array_equal(from_start.leaf_parameters["uniform"], fit.leaf_parameters["uniform"])
    assert ps.fit_em(circuit, x, start=start).leaf_parameters["uniform"].tolist() == [[-4.0, 7.0]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"learn_ends": 1}, TypeError, "learn_ends must be True or False, got 1"),
        ({"circuit": mixture(("gaussian", "gaussian"))}, ValueError, "learn_ends must be False where"),
        ({"batch_size": 2}, ValueError, "batch_size must be None with uniform leaves, which need all rows"),
        ({"leaf_prior_rows": 0.0}, ValueError, "leaf_prior_rows must be positive for uniform, gaussian leaves"),
        ({"observed": ROWS * [0, 1]}, ValueError, "column 'x0' has least value 0 and largest value 0, from which no u"),
        ({"learn_ends": False}, ValueError, r"\['uniform'\], which fit_em keeps: .*learn_ends=True learns the ends"),
        ({"start": (None, {"uniform": [[0, 0.7]] * 2})}, ValueError, "no leaf of column 'x0' can take 1"),
    ],
)
def test_what_does_not_go_with_ends_is_named(change, error, message):
    arguments = {"circuit": mixture(("uniform", "gaussian")), "observed": ROWS, "learn_ends": True, **change}
    with pytest.raises(error, match=message):
        ps.fit_em(**arguments)
