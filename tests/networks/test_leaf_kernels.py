"""Compiled leaves against the NumPy families: predictive, predictive without a value, marginal likelihood."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.leaf_kernels import (
    evaluate_leaves,
    log_predictive,
    log_predictive_without,
    logs_of_levels,
)
from pymc_spn.gibbs.network import EMPTY_LEAF, LEVELS, VECTOR
from pymc_spn.gibbs.occupancy import mark_missing, n_prior_slots
from pymc_spn.gibbs.palette import choose_coding, code_values, compile_palette, complete_palette
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.gibbs.statistics import entry_priors, log_column
from pymc_spn.leaves import Binomial, Geometric, Poisson
from pymc_spn.leaves.families import FAMILIES, PREDICTIVES
from pymc_spn.leaves.family_codes import CATEGORICAL, CODE
from pymc_spn.leaves.gaussian import gaussian_posterior
from pymc_spn.tables import Column
from tests import decimals
from tests.called_kernels import on_network
from tests.networks.coded_tables import COLUMNS, coded_table, hyperparameters, reference_entry
from tests.reference import log_marginal

mark_missing, n_prior_slots = map(on_network, (mark_missing, n_prior_slots))
evaluate_leaves, log_predictive, log_predictive_without, logs_of_levels = map(
    on_network, (evaluate_leaves, log_predictive, log_predictive_without, logs_of_levels)
)

TOLERANCE = {"rtol": 1e-11, "atol": 1e-11}


@pytest.fixture(scope="module")
def grown():
    """Table, hyperparameters and a sampler after some sweeps: leaves of all sizes, and freed slots between them."""
    table, hyper = coded_table(150), hyperparameters(4)
    sampler = table.sampler((np.array([3.0, 5.0]), *hyper[1:]))
    rng = np.random.default_rng(0)
    for _ in range(3):
        sampler.sweep(rng)
    return table, hyper, sampler


def leaves(sampler):
    """(column, palette entry within the column, global slot, rows) of every occupied leaf."""
    net = sampler.net
    for d in range(sampler.coded.shape[1]):
        r = net.tree.leaf_region[d]
        for slot in np.unique(sampler.slots[:, r]):
            if slot >= 0:
                i = net.edges.begin[r] + slot
                yield d, net.leaves.entry[i] - net.palette.entry_ptr[d], i, np.flatnonzero(sampler.slots[:, r] == slot)


def entry_and_density(table, hyper, d, e):
    """Family of a palette entry and its prior in the units of the data; log of the coding's density."""
    entry = reference_entry(table.palette[d][e], table.resolution[d], [values[d] for values in hyper[1:]])
    return *entry, np.log(table.compiled.scale[d])


def numpy_log_predictive(table, hyper, d, e, rows, x):
    """Log predictive in coded units of a leaf that holds the column's values in these rows."""
    family, prior, log_scale = entry_and_density(table, hyper, d, e)
    part = PREDICTIVES[CATEGORICAL if "alpha" in prior and np.ndim(prior["alpha"]) else CODE[family]]
    row = part.leaf_rows(posterior(family, prior, table.values[rows, d])[None])[0]
    return np.maximum(part.leaves.log_density(row, x) + log_scale, EMPTY_LEAF)  # the kernels stay finite


def posterior(family, prior, x):
    """Parameters of the posterior of a leaf that holds the values x (n,)."""
    n, total = x.size, x.sum()
    if family in ("gaussian", "log_normal"):
        (mu, rho, a, b), u = prior.values(), np.log(x) if family == "log_normal" else x
        mean = u.mean() if n else mu
        b = b + 0.5 * np.sum((u - mean) ** 2) + 0.5 * rho * n / (rho + n) * (mean - mu) ** 2
        return np.array([mu + n * (mean - mu) / (rho + n), rho + n, a + 0.5 * n, b])
    if family in ("bernoulli", "categorical"):
        return prior["alpha"] + np.bincount(x.astype(int), minlength=prior["alpha"].size)
    alpha, beta = prior["alpha"], prior["beta"]
    if family == "binomial":
        return np.array([alpha + total, beta + n * prior["trials"] - total, prior["trials"], 0.0])
    return np.array([alpha + total, beta + n] if family == "poisson" else [alpha + n, beta + total])


def probes(table, d):
    """Values to evaluate a column's leaves at, tails included; levels only where there are levels."""
    column = table.values[:, d]
    column = column[~np.isnan(column)]
    if COLUMNS[d].levels:
        return np.unique(column)
    if COLUMNS[d].kind == "count":
        return np.array([0.0, 1.0, 5.0, 30.0, 200.0, 5000.0])
    far = column.mean() + column.std() * np.array([0.0, 1.0, 40.0, 1e4])
    return np.concatenate([far, [column.min()], [0.0] if COLUMNS[d].kind == "positive" else [-1e3]])


def code(table, d, x):
    return (x - table.compiled.centre[d]) / table.compiled.scale[d]


def test_the_table_has_leaves_of_every_family_and_size(grown):
    table, _, sampler = grown
    found = [(table.palette[d][e].family, len(rows)) for d, e, _, rows in leaves(sampler)]
    assert {name for name, _ in found} == set(FAMILIES)
    for family in FAMILIES:
        sizes = [n for name, n in found if name == family]
        assert min(sizes) == 1 and max(sizes) > 2


def test_predictives_equal_the_families(grown):
    table, hyper, sampler = grown
    for d, e, i, rows in leaves(sampler):
        x = probes(table, d)
        found = [log_predictive(sampler.net, d, i, y) for y in code(table, d, x)]
        np.testing.assert_allclose(found, numpy_log_predictive(table, hyper, d, e, rows, x), **TOLERANCE)


def test_prior_slots_equal_the_families(grown):
    table, hyper, sampler = grown
    for d, entries in enumerate(table.palette):
        begin, x = sampler.net.edges.begin[sampler.net.tree.leaf_region[d]], probes(table, d)
        for e in range(len(entries)):
            found = [log_predictive(sampler.net, d, begin + e, y) for y in code(table, d, x)]
            np.testing.assert_allclose(found, numpy_log_predictive(table, hyper, d, e, [], x), **TOLERANCE)


def test_predictives_without_a_value_equal_the_families(grown):
    table, hyper, sampler = grown
    for d, e, i, rows in leaves(sampler):
        for n in rows[:4]:
            found = log_predictive_without(sampler.net, d, i, sampler.coded[n, d])
            others = rows[rows != n]
            expected = numpy_log_predictive(table, hyper, d, e, others, table.values[n, d])
            np.testing.assert_allclose(found, expected, **TOLERANCE)


def leaf_of_counts(entry, x):
    """A sampler of one column whose rows (N,) are in one leaf, and the rows as floats."""
    columns, values = [Column("x", "count", None, "int64")], np.asarray(x, np.float64)[:, None]
    palette, resolution = complete_palette(columns, values, {"x": [entry]})
    compiled = compile_palette(columns, palette, resolution, *choose_coding(palette, values, columns))
    structure = complete_tree(["x"])
    sampler = Sampler(structure, compiled, code_values(compiled, values), 0.0)
    sampler.set_hyperparameters(np.ones(2), np.array([0.3]), np.array([1.5]), np.array([0.1]))
    sampler.set_digits(np.zeros((len(values), structure.n_regions), np.int32))
    return sampler, values[:, 0]


@pytest.mark.parametrize("mean", [1e4, 1e6, 1e9])
@pytest.mark.parametrize(
    ("leaf", "mass"), [(Poisson, decimals.negative_binomial), (Geometric, decimals.beta_geometric)]
)
def test_large_counts_keep_their_digits(mean, leaf, mass):
    """Twenty thousand rows, whose sums have log gammas of up to 6e14, in one leaf; and the leaf without data."""
    sampler, x = leaf_of_counts(leaf(), np.random.default_rng(0).poisson(mean, 20_000))
    net, offset = sampler.net, sampler.net.palette.offset[0]
    n, total = float(x.size), float(x.sum())
    a, b = net.palette.prior[0, :2]
    i = net.edges.begin[0] + sampler.slots[0, 0]
    at = np.concatenate([x[:3], [0.0, 12.0, np.round(0.5 * mean), np.round(3.0 * mean)]])
    full, rest = (a + total, b + n), (a + total - at, b + n - 1.0)
    if leaf is Geometric:
        full, rest = (a + n, b + total), (a + n - 1.0, b + total - at)
    found = [log_predictive(net, 0, i, v - offset) for v in at]
    true = decimals.in_decimals(mass, at, *full)
    np.testing.assert_allclose(found, true, rtol=1e-13, atol=2e-9)
    found = [log_predictive(net, 0, net.edges.begin[0], v - offset) for v in at]
    np.testing.assert_allclose(found, decimals.in_decimals(mass, at, a, b), rtol=1e-13, atol=2e-9)
    found = [log_predictive_without(net, 0, i, v - offset) for v in at]
    np.testing.assert_allclose(found, decimals.in_decimals(mass, at, *rest), rtol=1e-13, atol=2e-9)


def test_binomial_leaves_of_many_trials_keep_their_digits():
    trials = 1_000_000
    sampler, x = leaf_of_counts(Binomial(trials), np.random.default_rng(0).binomial(trials, 0.3, 20_000))
    net, (a, b) = sampler.net, sampler.net.palette.prior[0, :2]
    i, total, at = net.edges.begin[0] + sampler.slots[0, 0], x.sum(), np.append(x[:3], [0.0, 12.0, trials])
    found = [log_predictive(net, 0, i, v - net.palette.offset[0]) for v in at]
    full = a + total, b + float(x.size * trials - total)
    np.testing.assert_allclose(
        found, decimals.in_decimals(decimals.beta_binomial, at, trials, *full), rtol=1e-14, atol=1e-8
    )
    found = [log_predictive_without(net, 0, i, v - net.palette.offset[0]) for v in at]
    rest = full[0] - at, full[1] - (trials - at)
    np.testing.assert_allclose(
        found, decimals.in_decimals(decimals.beta_binomial, at, trials, *rest), rtol=1e-14, atol=1e-8
    )


@pytest.mark.parametrize("leaf", [Poisson, Geometric])
def test_the_joint_of_large_counts_is_smooth_in_the_prior(leaf):
    """What slice sampling asks of it: differences between scales, although the joint itself is of the size of 1e14."""
    sampler, x = leaf_of_counts(leaf(), np.random.default_rng(0).poisson(1e9, 20_000))
    n, total = float(x.size), float(x.sum())

    def log_marginal(a, b):
        if leaf is Poisson:
            return decimals.log_rising(a, Decimal(total)) + a * b.ln() - (a + Decimal(total)) * (b + Decimal(n)).ln()
        every = Decimal(n) + Decimal(total)
        first = decimals.log_rising(a, Decimal(n)) + decimals.log_rising(b, Decimal(total))
        return first - decimals.log_rising(a + b, every)

    found, exact = [], []
    for scale in (0.3, 0.300001, 0.31, 0.5, 3.0, 1e-4):
        hyper = np.array([scale]), np.array([1.5]), np.array([0.1])
        found.append(log_column(sampler.statistics(), 0, sampler.compiled, *(v[0] for v in hyper)))
        prior = entry_priors(sampler.compiled, *hyper)[0, :2]
        with localcontext() as context:
            context.prec = decimals.PRECISION
            exact.append(log_marginal(*map(Decimal, map(float, prior))))
    differences = [float(v - exact[0]) for v in exact]
    np.testing.assert_allclose(np.array(found) - found[0], differences, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("leaf_scale", [0.3, 1e-4, 1e-6, 1e-9])
def test_the_joint_of_zeros_is_finite_under_any_prior(leaf_scale):
    """Slice sampling tries small scales, whose gamma priors are worth more events than the data."""
    sampler, x = leaf_of_counts(Poisson(mean=2.0), np.zeros(30))
    hyper = np.array([leaf_scale]), np.array([1.5]), np.array([0.1])
    found = log_column(sampler.statistics(), 0, sampler.compiled, *(v[0] for v in hyper))
    a, b = entry_priors(sampler.compiled, *hyper)[0, :2]
    assert found == pytest.approx(-a * np.log1p(x.size / b), rel=1e-12)


def test_freed_slots_are_worth_nothing_at_any_value():
    """Counts of zero are where gamma functions of a freed slot's parameters, which are 0, would be infinite."""
    table, (_, *leaf) = coded_table(150, gaps=0), hyperparameters(4)
    sampler, rng = table.sampler((np.array([40.0, 60.0]), *leaf)), np.random.default_rng(0)
    for concentration in (60.0, 60.0, 0.1):
        sampler.set_hyperparameters(np.full(2, concentration), *leaf)
        sampler.sweep(rng)
    net, freed = sampler.net, set()
    for d, column in enumerate(COLUMNS):
        r, entries = net.tree.leaf_region[d], net.palette.entry_ptr[d + 1] - net.palette.entry_ptr[d]
        for i in range(net.edges.begin[r] + entries, net.edges.begin[r] + net.edges.top[r]):
            if net.edges.n_data[i] == 0 and not column.levels:
                freed.add(table.palette[d][net.leaves.entry[i] - net.palette.entry_ptr[d]].family)
                x = table.values[0, d] if column.kind == "real" else np.array([0.0, 1.0, 30.0])
                assert all(log_predictive(net, d, i, y) == EMPTY_LEAF for y in np.atleast_1d(code(table, d, x)))
    assert {"poisson", "geometric", "binomial"} <= freed
    y = table.coded[0].copy()
    y[3:5] = [code(table, d, 0.0) for d in (3, 4)]
    mark_missing(net, y)
    found = evaluate_leaves(net, y)
    sampler.compact()
    mark_missing(sampler.net, y)
    assert found == pytest.approx(
        evaluate_leaves(sampler.net, y),
        rel=1e-12,
    )


def column_marginals(sampler, table, hyper):
    state = sampler.statistics()
    return np.array(
        [
            log_column(state, d, table.compiled, *(values[d] for values in hyper[1:]))
            for d in range(table.coded.shape[1])
        ]
    )


def test_marginals_equal_the_families(grown):
    table, hyper, sampler = grown
    expected = np.zeros(table.coded.shape[1])
    for d, e, _, rows in leaves(sampler):
        family, prior, log_scale = entry_and_density(table, hyper, d, e)
        expected[d] += log_marginal(family, prior, table.values[rows, d]) + len(rows) * log_scale
    np.testing.assert_allclose(column_marginals(sampler, table, hyper), expected, rtol=1e-12)


def test_all_leaves_of_a_row_at_once(grown):
    """`evaluate_leaves`: values as of one leaf, the column's largest shifted to one, freed slots worth nothing."""
    table, _, sampler = grown
    net = sampler.net
    kinds = set(net.palette.column_kind)
    assert {VECTOR, LEVELS} < kinds
    for y in table.coded[:20]:
        mark_missing(net, y)
        shift = evaluate_leaves(net, y)
        logs_of_levels(net, y)
        expected = 0.0
        for d in np.flatnonzero(~np.isnan(y)):
            r = net.tree.leaf_region[d]
            slots = net.edges.begin[r] + np.arange(net.edges.top[r])
            alive = (net.edges.n_data[slots] > 0) | (slots < net.edges.begin[r] + n_prior_slots(net, d))
            logs = np.array([log_predictive(net, d, i, y[d]) for i in slots[alive]])
            np.testing.assert_allclose(net.scratch.log_value[slots[alive]], logs, **TOLERANCE)
            largest = net.scratch.log_value[slots].max()
            expected += largest
            if net.palette.column_kind[d] == VECTOR:
                assert (net.scratch.log_value[slots[~alive]] <= 0.99 * EMPTY_LEAF).all()
            values = np.exp(np.maximum(net.scratch.log_value[slots] - largest, -708.0))
            np.testing.assert_allclose(net.scratch.edge_value[slots], values, rtol=1e-14)
        assert shift == pytest.approx(expected, rel=1e-13)


def test_rounding_never_takes_the_scale_below_its_prior():
    """A constant column far from the prior mean: the sums of squares cancel to noise of either sign."""
    rng = np.random.default_rng(0)
    for y in rng.normal(0.0, 1e3, 200):
        n = rng.integers(2, 1000)
        *_, b = gaussian_posterior(n, n * y, n * y * y, y, 0.1, 1.5, 1e-9)
        assert 1e-9 <= b < 1e-3
