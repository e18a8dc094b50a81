"""Columns in cells within leaves over several columns: the sampler against enumeration, rows against quadrature."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.events.events import Interval
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.leaves import normal_inverse_wishart
from pymc_spn.leaves.elliptical_cells import TOLERANCE
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_student_t import predictive_leaves
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.recorded_rows import LeavesOfOneInRows
from pymc_spn.networks.records.multivariate_leaves import RowsByGaps, log_values, logs_left_out, logs_of_leaves
from pymc_spn.networks.records.rounded_cells import RoundedCells, RoundedSweeps
from pymc_spn.networks.schema import NetworkSchema
from tests.called_kernels import all_called
from tests.hand_made_records import with_scratch
from tests.networks import joint_tables as plain
from tests.rounded_networks import densities_of_cells
from tests.sampled_runs import draw, model_of

niw = all_called(normal_inverse_wishart)
WIDTHS = np.array([0.5, 0.8])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
TABLES = {
    "cells": (np.array([[0.5, 0.8], [-1.0, -0.8], [1.0, 0.8]]), ["a", "b"]),
    "a cell beside a point": (np.array([[0.5, 0.3], [-1.0, -0.8], [1.0, 0.9]]), ["a"]),
    "a gap": (np.array([[0.5, 0.8], [-1.0, np.nan], [1.0, 0.8]]), ["a", "b"]),
}


def schema_of(y, rounded):
    """Schema of two real columns in leaves over both, in units in which coded values are those of the table."""
    leaves = {name: ps.leaves.Gaussian(mean=0.0, variance=1.0) for name in "ab"}
    with pm.Model():
        rv = ps.SPN(
            "x", ps.circuits.complete_tree(ps.Table.from_frame(pd.DataFrame(y, columns=["a", "b"])).columns),
            observed=pd.DataFrame(y, columns=["a", "b"]), leaves=leaves, rounded=rounded,
            resolution=dict(zip("ab", WIDTHS, strict=True)), joint_leaves=ps.leaves.MultivariateGaussian(),
        )  # fmt: skip
    schema = NetworkSchema.from_vector(rv.owner.op.schema)
    grids = WIDTHS * np.isin(["a", "b"], rounded)
    return replace(schema, centre=(0.0, 0.0), scale=(1.0, 1.0), resolution=tuple(grids))


def over_cells(log_evidence, rows, rounded):
    """Log of an evidence integrated over the cells of rows."""
    is_cell = ~np.isnan(rows) & rounded
    at, ends = np.nonzero(is_cell), (WIDTHS * np.ones(rows.shape))[is_cell]
    logs = []
    for nodes in itertools.product(range(NODES.size), repeat=ends.size):
        exact, k = np.array(rows), list(nodes)
        exact[at] += 0.5 * ends * NODES[k]
        logs.append(log_evidence(exact) + np.log(0.5 * ends * WEIGHTS[k]).sum())
    return logsumexp(logs)


def exact_posterior(monkeypatch, y, rounded):
    """Probabilities of all states, from `enumerated` with evidence over cells."""
    is_cell = np.isin(["a", "b"], rounded)
    of_joint, of_one = plain.log_joint_leaf, plain.log_normal_gamma

    @cache
    def joint(key):
        return over_cells(of_joint, np.array(key), is_cell)

    @cache
    def one(key, d):
        rows = np.full((len(key), 2), np.nan)
        rows[:, d] = key
        return over_cells(lambda exact: of_one(exact[:, d]), rows, is_cell)

    parts = [part for n in (1, 2, 3) for part in itertools.permutations(range(3), n)]
    places = {tuple(y[list(part), d]): d for d in range(2) for part in parts}
    with monkeypatch.context() as patch:
        patch.setattr(plain, "log_joint_leaf", lambda rows: joint(tuple(map(tuple, rows))))
        patch.setattr(plain, "log_normal_gamma", lambda held: one(tuple(held), places[tuple(held)]))
        logs = plain.enumerated(y)
    values = np.array(list(logs.values()))
    return dict(zip(logs, np.exp(values - logsumexp(values)), strict=True))


def excess(posterior, y, rounded, n_draws, covariance_scale=plain.JOINT, kind=RoundedSweeps):
    """As `plain.excess_of_distance`, of sweeps over states and exact values."""
    schema = schema_of(y, rounded)
    cells, ones = RoundedCells(schema, y), np.ones(2)
    sampler, sweeps = Sampler(schema.structure, schema.compiled, cells.exact()), kind(cells)
    priors = plain.SCALE * ones, plain.SHAPE * ones, plain.RATIO * ones, covariance_scale * ones
    sampler.set_hyperparameters(np.array(plain.MASS), *priors)
    sampler.set_digits(np.zeros((len(y), schema.structure.n_regions), np.int32))
    assert not sweeps.integrated.any()
    rng, states = np.random.default_rng(1), []
    for _ in range(n_draws):
        sweeps.sweep(rng, sampler)
        states.append(plain.state_of(sampler))
    return plain.ratio_of_distance(states, posterior)


@pytest.mark.parametrize("name", TABLES)
def test_states_have_the_frequencies_of_their_enumeration(name, monkeypatch):
    """1.5 times the distance of independent draws: exact values make states more autocorrelated than they are alone.

    At 200,000 draws the three tables are at 1.05 to 1.21.
    """
    y, rounded = TABLES[name]
    assert excess(exact_posterior(monkeypatch, y, rounded), y, rounded, 12_000) < 1.5


class Recorded(RoundedSweeps):
    """The mistake: exact values stay in the middles of their cells."""

    def _draw_exact(self, rng, sampler, given):
        pass


def test_exact_values_that_stay_are_seen(monkeypatch):
    """3.7 when this was written."""
    y, rounded = TABLES["cells"]
    assert excess(exact_posterior(monkeypatch, y, rounded), y, rounded, 40_000, kind=Recorded) > 2.5


# ---- rows
def leaf_with_rows(seed, d=4, n=12):
    """Statistics of a leaf with some rows that depend on each other, and its factor."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) @ (np.eye(d) + 0.8 * np.tri(d, k=-1))
    sums, products, psi0 = np.zeros(d), np.zeros(niw.triangle_size(d)), np.full(d, 0.3)
    for row in rows:
        niw.add_row(d, row, 1.0, sums, products)
    return rows, sums, products, psi0


def log_mass(x, width, sums, products, psi0, n_rows):
    """Log value of a row whose cells have their middles in x; NaN where missing."""
    d, width = x.size, np.where(np.isnan(x), 0.0, width)
    posterior = NormalInverseWishart.after([n_rows], sums[None], products[None], psi0, PRECISION_RATIO, d + EXCESS)
    parameters = predictive_leaves(posterior)
    log_ratio = log_gamma_ratio(0.5 * parameters[:, :1], 0.5 * np.arange(d + 1.0))
    return log_values(parameters, log_ratio, RowsByGaps.of(x[None], width[None]))[0].item()


def by_quadrature(x, width, *leaf, nodes=12):
    """The same from densities of points."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    at = np.flatnonzero((width > 0.0) & ~np.isnan(x))
    logs = []
    for chosen in itertools.product(range(nodes), repeat=at.size):
        k, y = list(chosen), np.array(x)
        y[at] += 0.5 * width[at] * points[k]
        logs.append(log_density(y, *leaf) + np.log(0.5 * width[at] * weights[k]).sum())
    return logsumexp(logs)


def log_density(x, sums, products, psi0, n_rows):
    """Log predictive of the observed columns of a row."""
    d = x.size
    order, k, v = np.zeros(d, np.int64), PRECISION_RATIO + n_rows, d + EXCESS + n_rows
    n_seen = niw.observed_first(d, x, order)
    scratch = np.zeros(niw.triangle_size(d)), np.zeros(d), np.zeros(d)
    return niw.log_predictive_of_observed(d, n_seen, order, k, v, sums, products, psi0, x, *scratch)


WIDE_CELLS = {  # widths, and the largest error of a log density: in steps of the spread given the others
    "one": ([0.0, 2.0, 0.0, 0.0], 1e-10),
    "narrow": ([0.1, 0.1, 0.1, 0.1], 2e-4),
    "moderate": ([0.3, 0.3, 0.0, 0.3], 2e-3),
    "one wide": ([3.0, 0.2, 0.2, 0.0], TOLERANCE),
    "two wide": ([1.5, 1.5, 0.0, 0.2], TOLERANCE),
}


@pytest.mark.parametrize("name", WIDE_CELLS)
def test_masses_of_cells_in_a_leaf_are_those_of_quadrature(name):
    """Rows of the leaf, one far out, and one with a gap."""
    steps, tolerance = WIDE_CELLS[name]
    rows, *leaf = leaf_with_rows(3)
    leaf = *leaf, len(rows)
    covariance = np.cov(rows.T) + 0.1 * np.eye(4)
    spread = 1.0 / np.sqrt(np.diagonal(np.linalg.inv(covariance)))
    width, worst = np.array(steps) * spread, 0.0
    for x in (*rows[:4], 3.0 * rows[0], np.where(np.arange(4) == 2, np.nan, rows[5])):
        worst = max(worst, abs(log_mass(x, width, *leaf) - by_quadrature(x, width, *leaf)))
    assert worst < tolerance


@pytest.fixture(scope="module", params=["sampled", "variational"])
def learned(request):
    """A table whose first two columns are in cells half as wide as their spread, in one cloud across them."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, 3)) @ np.array([[1.0, 0.7, 0.8], [0.0, 0.4, 0.3], [0.0, 0.0, 0.4]])
    table = pd.DataFrame(np.column_stack([np.round(x[:, :2] / 0.2) * 0.2, x[:, 2]]), columns=list("abc"))
    choices = {
        "kinds": dict.fromkeys("abc", "real"), "rounded": ["a", "b"], "resolution": {"a": 0.2, "b": 0.2, "c": 0.0},
        "joint_leaves": ps.leaves.MultivariateGaussian(),
    }  # fmt: skip
    if request.param == "variational":
        post = ps.fit_variational(table[:50], **choices, random_seed=1, progressbar=False)
    else:
        model = model_of(observed=table[:50], **choices)
        post = ps.SPNPosterior.from_idata(draw(model, draws=4, tune=60, random_seed=3))
    return post, table[50:].reset_index(drop=True)


def over_nodes(post, rows, nodes=6):
    """Log density of rows, averaged over their cells of a and b."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    logs = []
    for i, j in itertools.product(range(nodes), repeat=2):
        exact = rows.assign(a=rows["a"] + 0.1 * points[i], b=rows["b"] + 0.1 * points[j])
        logs.append(post.log_density(exact, cells=False).values + np.log(0.25 * weights[i] * weights[j]))
    return logsumexp(logs, axis=0)


@pytest.mark.parametrize("learned", ["sampled"], indirect=True)
def test_rows_are_cells_in_every_question(learned):
    """Densities against quadrature; what follows for a column by sums over a grid of densities.

    Draws have four standard errors.
    """
    post, rows = learned
    found = post.log_density(rows)
    assert found.attrs["tolerance"] == TOLERANCE and found.attrs["exactness"].startswith("numerical")
    assert post.predict_quantile(rows[:2], "c", 0.3).attrs["tolerance"] == TOLERANCE  # not of Newton's method alone
    np.testing.assert_allclose(found.values, over_nodes(post, rows), atol=TOLERANCE)
    given = post.condition({"c": (-3.0, 3.0)})
    gaps = rows[:3].assign(c=np.nan)
    np.testing.assert_allclose(given.log_density(gaps).values, over_nodes(given, gaps), atol=TOLERANCE)
    of_row = rows[:2]
    grid = np.linspace(-9.0, 9.0, 1_201)
    on_grid = of_row.loc[np.tile(of_row.index, grid.size)].assign(c=np.repeat(grid, len(of_row)))
    density = np.exp(over_nodes(post, on_grid.reset_index(drop=True), 3)).reshape(grid.size, -1)
    density /= density.sum(axis=0)
    mean = density.T @ grid
    sd = np.sqrt((density * (grid[:, None] - mean) ** 2).sum(axis=0))
    gap = of_row.assign(c=np.nan)
    np.testing.assert_allclose(post.predict(gap, "c").values, mean, atol=0.02 * sd.min())
    for q in (0.2, 0.9):
        at = [np.interp(q, own.cumsum(), grid) for own in density.T]
        np.testing.assert_allclose(post.predict_quantile(gap, "c", q).values, at, atol=0.03 * sd.min())
    drawn = np.array([one["c"] for one in post.impute(gap, 2_000, random_seed=1)])
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4.0 * drawn.std(axis=0) / np.sqrt(2_000))


@pytest.mark.parametrize("learned", ["sampled"], indirect=True)
@pytest.mark.parametrize("event", [{}, {2: Interval(-1.0, 2.0)}])
def test_passes_weigh_cells_as_the_kernel_of_single_rows(learned, event):
    """With gaps, so that some leaves have no column of a row, and far away."""
    post, rows = learned
    states, rng = post._law.states, np.random.default_rng(2)
    values = np.concatenate([rows.to_numpy(), 40.0 * rows.to_numpy()[:3]])
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, list(event)] = np.nan
    values[0] = np.nan

    cells = states.cells_of(values, (), event)
    found = states.log_densities(values, event, cells)
    if not event:
        for s, logs in enumerate(found):
            net = with_scratch(states.network(s))
            np.testing.assert_allclose(logs, densities_of_cells(cells, net), rtol=1e-10, atol=1e-10)
    rows = np.where(np.arange(3) == 1, np.nan, values)
    _, *shares = LeavesOfOneInRows(RecordedLaw(states, evidence=event), 1, rows).all_shares(slice(0, len(values)))
    np.testing.assert_allclose(sum(share.sum(axis=1) for share in shares), states.n_draws, rtol=1e-9)


@pytest.mark.parametrize("width", [0.2, 0.01, 0.0])
def test_a_column_is_left_out_as_if_it_were_missing(learned, width):
    """Of rows with wide cells, narrow ones and points; far away, where differences of quadratic forms lose digits."""
    states = learned[0]._law.states
    values = np.concatenate([learned[1].to_numpy(), [[0.2, 30.0, 0.1], [1e4, 0.0, 0.2], [0.4, np.nan, np.nan]]])
    cells = RoundedCells(states.schema, values, () if width else (0, 1))
    cells.ends = tuple(values[:, cells.columns] + sign * 0.5 * width for sign in (-1.0, 1.0))
    joints, compiled = states.joint_leaves, states.compiled
    for r in joints.regions:
        found = joints.of(r)

        def logs_of(values, width, found=found):
            rows, widths = values[:, found.columns], width[:, found.columns]
            by_gaps = RowsByGaps.of(rows, np.where(np.isnan(rows), 0.0, widths))
            return by_gaps, logs_of_leaves(found, compiled, values, {}, by_gaps)

        by_gaps, logs = logs_of(values, cells.widths)
        whole, without = logs_left_out(found, compiled, by_gaps)
        np.testing.assert_allclose(whole, logs, rtol=1e-9, atol=1e-9)
        without = without.reshape(logs.shape[0], -1, len(values))
        for j, d in enumerate(found.columns.tolist()):
            rest = np.where(np.arange(3) == d, np.nan, values)
            np.testing.assert_allclose(without[:, j], logs_of(rest, cells.widths)[1], rtol=1e-9, atol=1e-9)


def test_surprises_are_those_of_rows_without_the_cell(learned):
    post, rows = learned
    gaps = rows.assign(c=rows["c"].where(rows.index % 3 > 0))
    found = post.anomaly(gaps)
    for name in "abc":
        rest = post.log_density(gaps.assign(**{name: np.nan})).values
        expected = np.where(np.isnan(gaps[name]), np.nan, rest - post.log_density(gaps).values)
        np.testing.assert_allclose(found["surprise"].sel(column=name), expected, atol=1e-9)


def test_cells_of_leaves_over_one_column_count_in_a_fit_as_well():
    """Wide cells, of rows in products as of rows in leaves over several columns: the mean density at points of each."""
    rng = np.random.default_rng(2)
    across = np.array([[1.0, 0.9, 0.5], [0.0, 0.2, 0.1], [0.0, 0.0, 0.3]])
    table = pd.DataFrame(rng.standard_normal((100, 3)) @ across, columns=["a", "b", "c"])
    table[["b", "c"]] = np.round(2.0 * table[["b", "c"]]) / 2.0
    joint = ps.leaves.MultivariateGaussian(columns=["b", "c"])
    post = ps.fit_variational(table, rounded=["b", "c"], joint_leaves=joint, random_seed=1, progressbar=False)
    shares = [post.leaf_types(name).sel(family="gaussian").item() for name in ("a", "b")]
    assert shares[0] == 1.0 and 0.2 < shares[1] < 0.8
    rows, points = table.iloc[:6], (np.arange(20) + 0.5) / 40.0 - 0.25
    b, c = (part.ravel() for part in np.meshgrid(points, points))
    for found, (_, row) in zip(post.log_density(rows).values, rows.iterrows(), strict=True):
        within = pd.DataFrame({"a": row["a"], "b": row["b"] + b, "c": row["c"] + c})
        density = np.exp(post.log_density(within, cells=False).values)
        assert found == pytest.approx(np.log(density.mean()), abs=TOLERANCE)

    # draws of a row given its cells go one row at a time: `a` within five standard errors of its mean given them
    asked, n = rows.assign(a=np.nan), 2000
    means = post.predict(asked, "a").values
    drawn = np.array([filled["a"] for filled in post.impute(asked, n, random_seed=3)])
    assert (abs(drawn.mean(axis=0) - means) < 5.0 * drawn.std(axis=0) / np.sqrt(n)).all()


def test_training_rows_are_likelier_with_than_without_them(learned):
    """A row is taken out, weighed by its cells and put back; the state is as before."""
    post, _ = learned
    if isinstance(post, ps.VariationalPosterior):
        pytest.skip("fits have no rows to take out")
    states = post._law.states
    left_out = states.leave_one_out()
    assert np.isfinite(left_out).all()
    np.testing.assert_array_equal(left_out, states.leave_one_out())
    again = states.log_densities(states.record.table[:5], {}, states.cells_of(states.record.table[:5], (), {}))
    assert np.all(again > left_out[:, :5])  # a row that is learned from is likelier
