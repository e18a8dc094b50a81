"""``rounded=True``: masses of cells, draws within them, the sampler against enumeration and quadrature, `pm.sample`.

Enumeration sums over all assignments and integrates the exact values of all rows over their cells by a product of
Gauss rules, leaf by leaf; a Poisson leaf beside a Gaussian one holds the counts themselves. Power: chains that take the
recorded values for exact ones score 6 where right ones score 1.
"""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.gibbs.cell_masses import draw_in_cell, log_cell
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.leaves.leaf_predictives import by_family
from pymc_spn.leaves.normal_cells import draw_normal, log_normal_mass
from pymc_spn.networks.records.cell_moves import CellMoves
from pymc_spn.networks.records.column_leaves import leaves_at
from pymc_spn.networks.records.rounded_cells import LATTICE, RoundedCells, RoundedSweeps
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.networks.variational import fit as variational_fit
from pymc_spn.networks.variational.fit import fit_by_ascent
from tests.called_kernels import called
from tests.hand_made_records import in_cells, schema_of, states_of
from tests.reference import (
    EXPONENTIAL,
    GAUSSIAN,
    LOG_NORMAL,
    POISSON,
    Problem,
    Splits,
    all_states,
    canonical,
    count_keys,
    digits_from_state,
    group_rows,
    independent_total_variation,
    log_leaf_predictive,
    log_marginal,
    log_prior,
    log_relabellings,
    state_from_digits,
    total_variation,
)
from tests.reference_queries import network_value
from tests.rounded_networks import ROWS, densities_of_cells, nan, narrow_leaves, share_of
from tests.sampled_runs import draw

pytestmark = pytest.mark.usefixtures("integrated")

draw_in_cell, log_cell, draw_normal, log_normal_mass = map(
    called, (draw_in_cell, log_cell, draw_normal, log_normal_mass)
)

PAIR = ((0,), (1,))
GRID = (1.0, 0.5)
TIGHT = ("gaussian", {"mu0": 0.5, "rho0": 0.2, "a0": 2.0, "b0": 0.1})  # a quarter of a cell wide
X = np.array([[0.0, 0.5], [1.0, 1.5], [1.0, 0.5]])


def narrow(mean):
    return "gaussian", {"mu0": mean, "rho0": 0.2, "a0": 2.0, "b0": 1e-5}


PROBLEMS = {
    "finite": Problem(PAIR, 2, 1.3, 0.9, [[TIGHT], [LOG_NORMAL, EXPONENTIAL]], X),
    "infinite": Problem(PAIR, "infinite", 1.3, 0.9, [[GAUSSIAN], [LOG_NORMAL]], np.where(X == 1.5, nan, X)),
    "gaussians": Problem(PAIR, 2, 1.3, 0.9, [[TIGHT], [TIGHT]], np.tile([[1.0, 0.5]], (3, 1))),
    "narrow": Problem(PAIR, 2, 1.3, 0.9, [[narrow(1.0)], [narrow(0.5)]], np.tile([[1.0, 0.5]], (3, 1))),
    "drawn": Problem(PAIR, 2, 1.3, 0.9, [[TIGHT], [GAUSSIAN]], np.where(X == 1.5, nan, X)),  # only x0 is in cells
    "counts": Problem(PAIR, 2, 1.3, 0.9, [[TIGHT, POISSON], [LOG_NORMAL]], X),
    "splits": Problem(Splits([((0,), (1,)), ((1,), (0,))]), 2, 1.3, 0.9, [[TIGHT], [LOG_NORMAL]], X),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def rounded_schema(problem):
    return in_cells(schema_of(problem), GRID)


def fixed_sampler(problem, schema, cells):
    sampler = Sampler(schema.structure, schema.compiled, cells.exact())
    shape, ratio = (np.array(schema.hyperparameters[k]["fixed"]) for k in ("leaf_shape", "precision_ratio"))
    sampler.set_hyperparameters(np.array([problem.alpha_inner, problem.alpha_leaf]), np.ones(2), shape, ratio)
    sampler.set_digits(np.zeros(sampler.slots.shape, np.int32))
    return sampler


# ---- leaves
def probes():
    """A sampler of one column of each family with some data, and cells from narrow to wide, in bulk and tails."""
    problem = Problem(PAIR, 1, 1.0, 1.0, [[GAUSSIAN], [LOG_NORMAL, EXPONENTIAL]], X)
    schema = rounded_schema(problem)
    sampler = fixed_sampler(problem, schema, RoundedCells(schema, X))
    ends = [(0.0, 1e-6), (0.4, 1.4), (-3.0, 4.0), (30.0, 31.0), (1e4, 1e5), (-40.0, -8.0), (1e-6, 3e-6), (50.0, 50.1)]
    return schema, sampler, ends


def test_masses_of_cells_are_those_of_the_families():
    schema, sampler, ends = probes()
    net, c = sampler.net, schema.compiled
    for d in range(2):
        leaves = leaves_at(net, c, d)
        for family, which, p in by_family(leaves):
            for low, high in ends:
                if d == 1:
                    low, high = max(low, 1e-12), max(high, 1e-3)
                coded = (low - c.centre[d]) / c.scale[d], (high - c.centre[d]) / c.scale[d]
                found = [
                    log_cell(net.palette, net.leaves, d, net.edges.begin[net.tree.leaf_region[d]] + i, *coded)
                    for i in np.flatnonzero(which)
                ]
                exact = family.log_interval(p, low, high)
                np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


def test_draws_within_cells_follow_the_predictive():
    """Rejection from both proposals, and inversion in steep tails."""
    schema, sampler, ends = probes()
    net, c, rng = sampler.net, schema.compiled, np.random.default_rng(3)
    for d in range(2):
        leaves = leaves_at(net, c, d)
        for family, which, p in by_family(leaves):
            i = int(np.flatnonzero(which)[-1])
            for low, high in ends[1:6]:
                if d == 1:
                    low, high = max(low, 1e-3), max(high, 0.1)
                coded = (low - c.centre[d]) / c.scale[d], (high - c.centre[d]) / c.scale[d]
                slot = net.edges.begin[net.tree.leaf_region[d]] + i
                x = np.array([draw_in_cell(rng, net.palette, net.leaves, d, slot, *coded) for _ in range(300)])
                x = np.clip(x * c.scale[d] + c.centre[d], low, high)
                share = np.exp(family.log_interval(p[-1], low, x) - family.log_interval(p[-1], low, high))
                assert stats.kstest(share, "uniform").pvalue > 1e-4


def test_masses_of_cells_of_normals_and_draws_within_them():
    """Against scipy, by tails where these are smaller; draws by each of the four proposals, and from the middle out."""
    ends = [(-0.3, 0.2), (-4.0, 3.0), (0.1, 6.0), (1e-3, 2e-3), (3.0, 3.4), (3.0, 9.0), (-31.0, -30.0), (24.9, 25.2)]
    rng = np.random.default_rng(1)
    for low, high in [*ends, (26.0, 80.0), (400.0, 400.001)]:
        near, far = (low, high) if low + high > 0.0 else (-high, -low)
        exact = stats.norm.logsf(near) + np.log1p(-np.exp(stats.norm.logsf(far) - stats.norm.logsf(near)))
        if high - low < 0.01:
            x = low + (high - low) * (NODES + 1.0) / 2.0
            exact = logsumexp(stats.norm.logpdf(x), b=WEIGHTS * (high - low) / 2.0)
        assert log_normal_mass(low, high, high - low) == pytest.approx(exact, rel=1e-12, abs=1e-12)
    for low, high in ends:
        x = np.array([draw_normal(rng, 2.0 + low / 3.0, 2.0 + high / 3.0, 2.0, 3.0) for _ in range(300)])
        z = np.clip((x - 2.0) * 3.0, low, high)
        whole = log_normal_mass(low, high, high - low)
        share = [np.exp(log_normal_mass(low, a, a - low) - whole) if a > low else 0.0 for a in z]
        assert stats.kstest(share, "uniform").pvalue > 1e-4


# ---- enumeration
def cell_integral(problem, column, entry, rows, power_of=None):
    """Integral over the cells of the rows that share a leaf of their joint marginal, times one row's value if asked."""
    ends = [
        (max(x - h, 0.0) if column == 1 else x - h, x + h)
        for x in problem.X[list(rows), column]
        for h in [GRID[column] / 2]
    ]
    family, prior = problem.palettes[column][entry]
    if family == "poisson" or (problem is PROBLEMS["drawn"] and column == 1):
        held = problem.X[list(rows), column]
        return np.exp(log_marginal(family, prior, held)) * (1.0 if power_of is None else problem.X[power_of, column])
    total = 0.0
    for nodes in itertools.product(range(NODES.size), repeat=len(ends)):
        x = [a + (b - a) * (NODES[k] + 1) / 2 for (a, b), k in zip(ends, nodes, strict=True)]
        weight = np.prod([(b - a) / 2 * WEIGHTS[k] for (a, b), k in zip(ends, nodes, strict=True)])
        total += (
            weight * np.exp(log_marginal(family, prior, x)) * (1.0 if power_of is None else x[rows.index(power_of)])
        )
    return total


@cache
def exact_posterior(name):
    """Posterior of every canonical key, the posterior mean of row 1's exact value in column 0, the log evidence."""
    problem = PROBLEMS[name]
    integral = cache(lambda *leaf: cell_integral(problem, *leaf))
    logs, means, keys = [], [], []
    for state in all_states(problem):
        log, mean = log_prior(problem, state) + log_relabellings(problem, state), 0.0
        for region in problem.region_list:
            if region.column is None:
                continue
            for path, rows in group_rows(state, (*region.ancestors, region.index)).items():
                leaf = region.column, path[-1] % problem.n_options(region), tuple(rows)
                log += np.log(integral(*leaf))
                if region.column == 0 and 1 in rows:
                    mean = integral(*leaf, 1) / integral(*leaf)
        logs.append(log)
        means.append(mean)
        keys.append(canonical(digits_from_state(problem, state), problem))
    evidence = logsumexp(logs)
    p = np.exp(logs - evidence)
    return dict(zip(keys, p.tolist(), strict=True)), float(p @ means), float(evidence)


FORMS = {"integrated": [True, True], "given": [False, False], "mixed": [True, False]}  # the rounded columns
CHAINS = [("finite", form) for form in (*FORMS, "published")]
CHAINS += [("infinite", "integrated"), ("infinite", "given"), ("counts", "integrated"), ("splits", "given")]


def sweeps_of(cells, form, kind=RoundedSweeps):
    """Sweeps of a form; columns with masses beside densities have one alone."""
    sweeps = kind(cells)
    sweeps.integrated = sweeps.has_masses | FORMS[form]
    return sweeps


def published_chain(name, draws, seed, thin):
    """As `chain_of`, of a `Chain` by the published kernel, which is given all exact values."""
    problem, rng = PROBLEMS[name], np.random.default_rng(seed)
    schema = rounded_schema(problem)
    rounding = RoundedSweeps(RoundedCells(schema, problem.X), "published")
    chain = Chain(schema, problem.X, "published", rounding=rounding)
    shape, ratio = (np.array(schema.hyperparameters[k]["fixed"]) for k in ("leaf_shape", "precision_ratio"))
    chain.begin(rng, (np.array([problem.alpha_inner, problem.alpha_leaf]), np.ones(2), shape, ratio))
    digits, values = np.empty((draws, *chain.sampler.slots.shape), np.int8), np.empty(draws)
    for i in range(draws):
        for _ in range(thin):
            chain.sweep(rng)
        digits[i] = chain.sampler.digits()
        values[i] = chain.sampler.coded[1, 0] * schema.scale[0] + schema.centre[0]
    assert not chain.rounding.integrated.any()
    return digits, values


def chain_of(name, draws, seed, thin=4, form="integrated", kind=RoundedSweeps):
    """Digits along a chain, and the exact values of row 1 in column 0."""
    if form == "published":
        return published_chain(name, draws, seed, thin)
    problem, rng = PROBLEMS[name], np.random.default_rng(seed)
    schema = rounded_schema(problem)
    cells = RoundedCells(schema, problem.X)
    sampler = fixed_sampler(problem, schema, cells)
    sweeps = sweeps_of(cells, form, kind) if form else None
    digits, values = np.empty((draws, *sampler.slots.shape), np.int8), np.empty(draws)
    for i in range(draws):
        for _ in range(thin):
            if sweeps is None:  # recorded values taken for exact
                sampler.sweep(rng)
            else:
                sweeps.sweep(rng, sampler)
        digits[i] = sampler.digits()
        values[i] = sampler.coded[1, 0] * schema.scale[0] + schema.centre[0]
    return digits, values


def variation(name, draws, chains, form="integrated", thin=4, kind=RoundedSweeps):
    problem, (posterior, mean, _) = PROBLEMS[name], exact_posterior(name)
    found = [chain_of(name, draws, seed, thin, form, kind) for seed in range(chains)]
    score = np.mean([total_variation(count_keys(digits, problem), posterior) for digits, _ in found])
    rng = np.random.default_rng(0)
    independent = np.mean([independent_total_variation(posterior, draws, rng) for _ in range(200)])
    values = np.concatenate([v for _, v in found])
    error = values.std() / np.sqrt(values.size / 4.0)
    return score / independent, (values.mean() - mean) / error if error > 0.0 else np.inf


@pytest.mark.parametrize(("name", "form"), CHAINS)
def test_reaches_enumeration_with_cells_by_quadrature(name, form):
    ratio, z = variation(name, 2500, 2, form)
    assert ratio < 1.35 and abs(z) < 5


class Unconditional(RoundedSweeps):
    """The mistake: exact values anywhere in their cells, whatever the other values of their leaves."""

    def _draw_exact(self, rng, sampler, given):
        super()._draw_exact(rng, sampler, given)
        sampler.coded = self.cells.exact(rng.integers(0, LATTICE, self.cells.low.shape))
        sampler.compact()


def test_exact_values_drawn_without_the_others_of_their_leaves_are_noticed():
    assert abs(variation("finite", 2500, 2, "given", kind=Unconditional)[1]) > 10.0


def test_recorded_values_taken_for_exact_are_noticed():
    assert variation("finite", 2500, 2, form=None)[0] > 3.0


def test_drawn_gaps_and_cells_reach_enumeration_together():
    """The gap is in the exact column; without it the digits are those of the posterior that sums it out."""
    problem, (posterior, mean, _) = PROBLEMS["drawn"], exact_posterior("drawn")
    schema = replace(in_cells(schema_of(problem), (1.0, 0.0)), missing="draw")
    gaps = np.nonzero(np.isnan(problem.X))
    table = np.where(np.isnan(problem.X), 0.4, problem.X)
    shape, ratio = (np.array(schema.hyperparameters[k]["fixed"]) for k in ("leaf_shape", "precision_ratio"))
    scores, values = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        chain = Chain(schema, table, "exact", rounding=RoundedSweeps(RoundedCells(schema, table)))
        chain.begin(rng, (np.array([problem.alpha_inner, problem.alpha_leaf]), np.ones(2), shape, ratio))
        moves, missing = CellMoves(schema, *gaps), np.full(1, 0.4)
        chain.set_cells(*gaps, missing)
        digits = np.empty((2500, *chain.sampler.slots.shape), np.int8)
        for one in digits:
            for _ in range(4):
                chain.sweep(rng)
                missing, _ = moves.sweep(rng, chain.sampler, missing, None)
            one[:] = chain.sampler.digits()
            values.append(chain.sampler.coded[1, 0] * schema.scale[0] + schema.centre[0])
        digits[:, gaps[0], schema.structure.leaf_region[1]] = -1
        scores.append(total_variation(count_keys(digits, problem), posterior))
    rng = np.random.default_rng(0)
    independent = np.mean([independent_total_variation(posterior, 2500, rng) for _ in range(200)])
    error = np.std(values) / np.sqrt(len(values) / 4.0)
    assert np.mean(scores) < 1.35 * independent and abs(np.mean(values) - mean) < 5.0 * error


# ---- variational fits
def bound_of(name):
    """Bound of a fit with the problem's hyperparameters, in nats; cells count by mass over width."""
    problem = PROBLEMS[name]
    schema = rounded_schema(problem)
    fixed = (np.array(schema.hyperparameters[k]["fixed"]) for k in ("leaf_shape", "precision_ratio"))
    values = (np.array([problem.alpha_inner, problem.alpha_leaf]), np.ones(2), *fixed, np.ones(2))
    given = dict(zip(HYPERPARAMETERS, values, strict=True))
    learned, priors = np.zeros((5, 2), np.bool_), np.ones((5, 3))
    fit = fit_by_ascent(schema, problem.X, given, learned, priors, 2, 5, 300, 1e-10, np.random.default_rng(2), False)
    assert all(np.diff(bounds).min() > -1e-10 for bounds in fit.bounds)
    return max(bounds[-1] for bounds in fit.bounds)


def test_the_bound_of_a_fit_is_one_on_the_evidence_of_cells(monkeypatch):
    """Values taken for exact ones, the mistake, pass what no probability of cells can."""
    ceiling = -np.log(np.broadcast_to(GRID, X.shape)).sum()
    evidence = exact_posterior("gaussians")[2] + ceiling
    assert evidence - 8.0 < bound_of("gaussians") < evidence < ceiling
    assert bound_of("narrow") < ceiling
    monkeypatch.setattr(variational_fit, "with_spread_values", lambda compiled, widths: compiled)
    assert bound_of("narrow") > ceiling + 0.5


def test_columns_with_leaves_narrower_than_cells_are_integrated():
    """By counts of rows; columns that have leaves with masses always are, and every start is planned anew."""
    rng = np.random.default_rng(7)
    x = np.stack([np.round(rng.normal(size=200), 2), rng.integers(0, 3, 200) * 1.0], axis=1)
    problem = Problem(
        PAIR, 4, 1.0, 1.0, [[GAUSSIAN], [("gaussian", {"mu0": 0.0, "rho0": 0.1, "a0": 2.0, "b0": 1e-3})]], x
    )
    schema = in_cells(schema_of(problem), (0.01, 1.0))
    chain = Chain(schema, x, "exact", rounding=RoundedSweeps(RoundedCells(schema, x)))
    chain.begin(
        rng,
        (
            np.ones(2),
            np.ones(2),
            *(np.array(schema.hyperparameters[k]["fixed"]) for k in ("leaf_shape", "precision_ratio")),
        ),
    )
    for _ in range(5):
        chain.sweep(rng)
    chain.settle()
    assert chain.rounding.integrated.tolist() == [False, True]
    counts = rounded_schema(PROBLEMS["counts"])
    sweeps = RoundedSweeps(RoundedCells(counts, X))
    sweeps.plan(fixed_sampler(PROBLEMS["counts"], counts, sweeps.cells))
    assert sweeps.integrated[0]


# ---- answers of one state, by brute force
@pytest.mark.parametrize("name", ["infinite", "counts"])
def test_densities_of_cells_and_leave_one_out_of_a_state(name):
    problem = PROBLEMS[name]
    schema, rng = rounded_schema(problem), np.random.default_rng(5)
    cells = RoundedCells(schema, problem.X)
    sampler = fixed_sampler(problem, schema, cells)
    for _ in range(7):
        RoundedSweeps(cells).sweep(rng, sampler)
    codes = cells.codes(sampler)
    np.testing.assert_allclose(cells.exact(codes), sampler.coded, rtol=0, atol=1e-15)
    exact = replace(problem, X=sampler.coded * schema.scale + schema.centre)
    state = state_from_digits(sampler.digits())
    assert np.nanmax(np.abs(exact.X - problem.X) - np.array(GRID) / 2) < 0

    def density(held, state, row):
        def leaf_value(column, entry, rows):
            if np.isnan(row[column]):
                return np.ones(1)
            family, prior = problem.palettes[column][entry]
            if family == "poisson":
                return np.atleast_1d(np.exp(log_leaf_predictive(family, prior, held[list(rows), column], row[column])))
            h = GRID[column] / 2
            x = row[column] + h * NODES
            logs = np.array([log_marginal(family, prior, [*held[list(rows), column], v]) for v in x])
            return np.atleast_1d(WEIGHTS @ np.exp(logs - log_marginal(family, prior, held[list(rows), column])) / 2)

        return np.log(network_value(replace(problem, X=held), state, leaf_value))[0]

    rows = np.array([[1.0, 0.5], [3.0, nan], [nan, 2.0]])
    new = RoundedCells(schema, rows)
    found = densities_of_cells(new, sampler.net)
    np.testing.assert_allclose(found, [density(exact.X, state, row) for row in rows], rtol=1e-7)
    tables = sampler.coded, sampler.filled, sampler.slots, sampler.options
    without = densities_of_cells(cells, sampler.net, tables)
    for n in range(3):
        rest = [s for i, s in enumerate(state) if i != n]
        assert without[n] == pytest.approx(density(np.delete(exact.X, n, axis=0), rest, problem.X[n]), rel=1e-7)
    np.testing.assert_array_equal(sampler.coded * schema.scale + schema.centre, exact.X)


# ---- queries about rows, by brute force


CELLS = {0: (1.5, 2.5), 1: (0.25, 0.75)}


def test_rows_are_cells_in_every_query_about_rows():
    """Against sums of leaf masses. Power: at the recorded values alone the level is off by more than 0.2."""
    post = ps.SPNPosterior(narrow_leaves()[0])
    by_hand = np.array([share_of((CELLS[0], CELLS[1], k)) for k in range(3)])
    found = post.predict_proba(ROWS, "x2")
    np.testing.assert_allclose(found[0], by_hand / by_hand.sum(), rtol=1e-7)
    assert found.attrs["exactness"] == "numerical given the draws" and found.attrs["tolerance"] == 1e-9
    at_middle = [float(post.probability({"x2": k}, {"x0": 2.0, "x1": 0.5})) for k in "abc"]
    only = np.array([share_of((CELLS[0], None, k)) for k in range(3)])
    np.testing.assert_allclose(found[1], only / only.sum(), rtol=1e-7)
    assert np.abs(found[0] - at_middle).max() > 0.2
    logs = post.log_density(ROWS)
    assert float(logs[0]) == pytest.approx(np.log(by_hand[0] / (1.0 * 0.5)), abs=1e-7)
    assert logs.attrs["exactness"] == "numerical given the draws" and logs.attrs["tolerance"] == 1e-9
    assert post.log_density(ROWS, cells=False).attrs["exactness"] == "exact given the draws"
    odd = post.anomaly(ROWS)
    np.testing.assert_array_equal(odd.log_density, logs)
    rest = share_of((None, CELLS[1], 0))
    assert float(odd.surprise[0, 0]) == pytest.approx(np.log(rest / by_hand[0] * 1.0), abs=1e-7)
    why = post.explain(ROWS[:1])
    assert float(why.total) == pytest.approx(float(logs[0]), abs=1e-12)
    assert float(why.shapley.sum()) == pytest.approx(float(logs[0]), abs=1e-10)
    np.testing.assert_allclose(
        post.as_circuit().log_density(ROWS), post.log_density(ROWS, cells=False), rtol=0, atol=1e-10
    )
    for known in (
        {"x0": (1.7, 2.6)},
        {"x0": 2.0},
        {"x2": {"a", "b"}, "x1": (None, 2.0)},
    ):  # evidence is of exact values
        given = post.condition(known)
        rows = ROWS[[c.name for c in given.columns]]
        np.testing.assert_allclose(
            np.exp(given.as_circuit().log_density(rows)), np.exp(given.log_density(rows, cells=False)), rtol=1e-8
        )
    # clusters of rows on narrow leaves of the two groups: by the levels, though both are recorded as 2
    apart = pd.DataFrame({"x0": [2.0, 2.0], "x1": [0.5, 2.5], "x2": ["a", "c"]})
    joint = post.co_clustering(apart)
    assert joint.attrs["tolerance"] == 1e-9 and float(joint[0, 1]) < 0.2
    best = post.predict(ROWS, "x2")
    assert best.values.tolist()[:2] == ["abc"[int(by_hand.argmax())], "abc"[int(only.argmax())]]
    np.testing.assert_array_equal(best.attrs["probability"], found.max("level"))
    row = ROWS[:1].drop(columns="x1")  # quantiles of exact values of x1, the others cells
    below = post.predict_quantile(row, "x1", [0.1, 0.7])
    whole = share_of((CELLS[0], None, 0))
    for x, q in zip(below.values[0], (0.1, 0.7), strict=True):
        assert share_of((CELLS[0], (1e-300, x), 0)) / whole == pytest.approx(q, abs=1e-7)
    assert below.attrs["exactness"] == "numerical given the draws"


def test_a_condition_cuts_the_cells_it_crosses_and_leaves_its_points_exact():
    post = ps.SPNPosterior(narrow_leaves()[0])
    half = post.condition({"x0": (1.0, 1.7)})
    whole = share_of(((1.0, 1.7), None, None))
    part = share_of(((1.5, 1.7), CELLS[1], 0))
    row = pd.DataFrame({"x0": [2.0, 3.0], "x1": [0.5, 0.5], "x2": ["a", "a"]})
    found = half.log_density(row)
    assert float(found[0]) == pytest.approx(np.log(part / 0.5 / whole), abs=1e-7) and found[1] == -np.inf
    proba = np.array([share_of(((1.5, 1.7), CELLS[1], k)) for k in range(3)])
    np.testing.assert_allclose(half.predict_proba(row[:1], "x2")[0], proba / proba.sum(), rtol=1e-7)
    with pytest.raises(ValueError, match=r"row 1: column 'x0' cannot be within \(2.5, 3.5\): .* within \(1, 1.7\)"):
        half.predict_proba(row, "x2")
    levels = pd.DataFrame({"x2": ["a"]})
    given = post.condition({"x0": 1.62, "x1": 0.6})
    exact = float(post.probability({"x2": "a"}, {"x0": 1.62, "x1": 0.6}))
    assert float(given.log_density(levels)[0]) == pytest.approx(np.log(exact), abs=1e-12)


def test_imputation_given_cells():
    """4,000 draws of each gap: frequencies within five standard errors; observed cells as they were."""
    post, n = ps.SPNPosterior(narrow_leaves()[0]), 4_000
    gaps = pd.DataFrame({"x0": [2.0, nan], "x1": [0.5, 0.5], "x2": [None, "a"]})
    table = pd.concat([gaps] * (n // 8), ignore_index=True)
    copies = post.impute(table, n=8, random_seed=3, on_grid=False)
    levels = np.concatenate([c["x2"][::2] for c in copies])
    x0 = np.concatenate([c["x0"][1::2] for c in copies]).astype(float)
    assert all((c["x0"][::2] == 2.0).all() and (c["x1"] == 0.5).all() for c in copies)
    whole = [share_of((CELLS[0], CELLS[1], k)) for k in range(3)]
    for k, level in enumerate("abc"):
        p = whole[k] / sum(whole)
        assert abs((levels == level).mean() - p) < 5.0 * np.sqrt(p * (1.0 - p) / n)
    p = share_of(((1.5, 1.62), CELLS[1], 0)) / share_of((None, CELLS[1], 0))
    assert 0.05 < p < 0.95
    assert abs(((x0 > 1.5) & (x0 < 1.62)).mean() - p) < 5.0 * np.sqrt(p * (1.0 - p) / n)


# ---- pm.sample
def repeated(n=60):
    """A smooth column on a coarse grid, with every value many times, and one of levels."""
    rng = np.random.default_rng(2)
    side = rng.integers(0, 2, n)
    return pd.DataFrame({"x": np.round(rng.normal(4.0 * side, 1.0) * 2) / 2, "side": np.where(side, "b", "a")})


@cache
def sampled(rounded):
    df = repeated()
    grid = {"x": 0.5 if rounded else 0.0}
    with pm.Model() as model:
        tree = ps.circuits.complete_tree(list(df), n_children=4)
        ps.SPN("x", tree, observed=df, leaf_scale=1e-8, resolution=grid, rounded=rounded)
    return df, draw(model, draws=40, tune=40, random_seed=4)


@pytest.mark.filterwarnings("ignore:equal values are far more frequent")
def test_equal_values_earn_no_density(tmp_path):
    """With the floor all but gone, recorded values taken for exact pass the ceiling of cells; rounded ones do not."""
    df, idata = sampled(True)
    ceiling = -np.log(0.5)
    post = ps.SPNPosterior.from_idata(idata)
    rounded = post.log_density(df[["x"]].assign(side=None))
    assert (rounded.values <= ceiling + 1e-9).all()
    smooth = 0.5 * stats.norm.pdf(df["x"]) + 0.5 * stats.norm.pdf(df["x"], 4.0)
    assert abs(float(rounded.mean()) - np.log(smooth).mean()) < 0.35
    spiky = ps.SPNPosterior.from_idata(sampled(False)[1]).log_density(df[["x"]].assign(side=None))
    assert float(spiky.mean()) > ceiling + 2.0


def test_the_record_gives_the_state_back(tmp_path):
    df, idata = sampled(True)
    post = ps.SPNPosterior.from_idata(idata)
    unpacked = ps.unpack(idata)
    assert unpacked["x"]["exact"].dims == ("chain", "record", "x_row", "x_rounded_column")
    assert "x_exact" not in unpacked["sample_stats"].data_vars
    ticket = idata["posterior"]["x_log_joint"].values.ravel()
    states = states_of(idata)
    for s in (0, 41, 79):
        sampler = states.load(s)
        sampler.jacobian = states.log_jacobian(df.assign(side=0.0).to_numpy(float)).sum()
        assert sampler.statistics()[0] == pytest.approx(ticket[s], rel=1e-9)
    exact = (unpacked["x"]["exact"].values + 0.5) / LATTICE
    assert 0.45 < exact.mean() < 0.55 and exact.std() > 0.2
    path = tmp_path / "post.nc"
    post.save(path)
    again = ps.load(path)
    np.testing.assert_array_equal(again.log_density(df), post.log_density(df))
    cells = post.log_density(df)
    assert not np.allclose(cells, post.log_density(df, cells=False), atol=1e-3)
    side = df["side"].iloc[0]
    x = float(df["x"].iloc[0])
    mass = float(post.probability({"x": (x - 0.25, x + 0.25), "side": {side}}))
    assert np.log(mass / 0.5) == pytest.approx(float(cells[0]), abs=1e-7)
    loo = post.log_likelihood()["x"]
    assert loo.shape == (2, 40, 60) and (loo <= -np.log(0.5) + 1e-9).all()


def test_same_seed_same_draws_and_kernels_that_cannot():
    df, idata = sampled(True)
    again = sampled.__wrapped__(True)[1]
    np.testing.assert_array_equal(again["sample_stats"]["x_exact"], idata["sample_stats"]["x_exact"])
    table = ps.Table.from_frame(df)
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(table.columns, n_children=2), observed=table, rounded=True)
        ps.steps.TopDownSPNStep(kernel="published")
    with pm.Model(), pytest.raises(ValueError, match="needs a column with continuous leaves and a recording grid"):
        ps.SPN("x", ps.circuits.complete_tree(table.columns), observed=table, rounded=True, resolution=0.0)
