"""The flat statistics of a state: log joint against the brute-force reference, gradient, drift, growth, digits."""

import numpy as np
import pytest
from numba import njit
from scipy.special import comb, gammaln

from pymc_spn.gibbs.leaf_kernels import add_value, refresh_leaf
from pymc_spn.gibbs.network import EMPTY_LEAF, level_counts
from pymc_spn.gibbs.occupancy import n_prior_slots
from pymc_spn.gibbs.palette import log_jacobian
from pymc_spn.gibbs.statistics import HEAD, log_joint, slopes_of_log_joint
from pymc_spn.leaves.family_codes import BINOMIAL, CATEGORICAL, GAUSSIAN, LOG_NORMAL, POISSON
from pymc_spn.leaves.gaussian import gaussian_posterior
from tests.called_kernels import called
from tests.networks.coded_tables import coded_table, hyperparameters
from tests.networks.tiny import tiny_sampler
from tests.reference import canonical, log_likelihood, simulate, state_from_digits, tiny_problems
from tests.reference import log_joint as reference_log_joint

n_prior_slots, refresh_leaf = map(called, (n_prior_slots, refresh_leaf))

WIDTHS = ("infinite", 3, (2, 1, 4, 5))


def random_digits(table, seed):
    """Uniform digits below the width of each sum node, five at infinite width; -1 where nothing is observed."""
    tree = table.structure
    widths = np.where(tree.n_children > 0, tree.n_children, 5)
    digits = np.random.default_rng(seed).integers(0, widths, (len(table.values), tree.n_regions)).astype(np.int32)
    for r in range(tree.n_regions):
        inside = tree.order[tree.begin[r] : tree.end[r]]
        digits[np.isnan(table.values[:, inside]).all(axis=1), r] = -1
    return digits


# ---- log joint
@pytest.mark.parametrize("n_children", WIDTHS)
@pytest.mark.parametrize("seed", [0, 1])
def test_log_joint_equals_the_reference_in_the_units_of_the_data(n_children, seed):
    table, hyper = coded_table(25, n_children, seed=seed), hyperparameters(seed)
    sampler = table.sampler(hyper, random_digits(table, seed))
    problem = table.problem(hyper)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        sampler.sweep(rng)
        expected = reference_log_joint(problem, state_from_digits(sampler.digits()))
        assert sampler.statistics()[0] == pytest.approx(expected, rel=1e-12)


def test_jacobian_is_all_that_separates_coded_and_original_units():
    table, hyper = coded_table(25), hyperparameters()
    sampler = table.sampler(hyper, random_digits(table, 0))
    state = sampler.statistics()
    assert state[5] == log_jacobian(table.compiled, table.values)
    scaled = [0, 1, 2]  # the columns whose leaves are all densities
    units = np.log(np.nanstd(table.values[:, scaled], axis=0))
    units[1] = np.nanmean(np.log(table.values[:, 1]))  # log-normal leaves: the geometric mean
    by_hand = -(~np.isnan(table.values[:, scaled])).sum(axis=0) @ units
    assert state[5] == pytest.approx(by_hand, rel=1e-12)
    sampler.jacobian = 0.0
    assert state[0] - sampler.statistics()[0] == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("name", tiny_problems())
def test_states_of_tiny_problems_differ_as_the_reference_says(name):
    """Uneven copies of palette entries at finite width, and shared counts: concentrations alone."""
    problem = tiny_problems()[name]
    sampler, rng, found = tiny_sampler(problem), np.random.default_rng(0), []
    d = len(problem.palettes)
    for _ in range(5):
        sampler.sweep(rng)
        sampler.hyperparameters = (np.array([problem.alpha_inner, problem.alpha_leaf]), *np.ones((4, d)))
        digits = sampler.digits()
        expected = reference_log_joint(problem, state_from_digits(digits))
        found.append(prior_part(sampler) + likelihood_part(problem, digits) - expected)
    np.testing.assert_allclose(found, 0.0, atol=1e-12)


def prior_part(sampler):
    """Log joint of the same assignments with every leaf's data taken away."""
    state = sampler.statistics()
    n_columns = len(sampler.structure.columns)
    state[HEAD : HEAD + n_columns + 1] = 0.0  # no column has leaves
    return log_joint(state, sampler.compiled, *sampler.hyperparameters)


def likelihood_part(problem, digits):
    return log_likelihood(problem, state_from_digits(digits))


def numerical_gradient(state, compiled, hyper, h=1e-5):
    flat = np.concatenate(hyper)
    splits = np.cumsum([len(v) for v in hyper])[:-1]

    def at(x):
        return log_joint(state, compiled, *np.split(x, splits), np.ones(7))

    slopes = np.empty(flat.size)
    for i in range(flat.size):
        step = h * flat[i] * (np.arange(flat.size) == i)
        # fourth order: central differences at h and 2h
        slopes[i] = (8 * (at(flat + step) - at(flat - step)) - at(flat + 2 * step) + at(flat - 2 * step)) / (
            12 * h * flat[i]
        )
    return slopes


@pytest.mark.parametrize("n_children", WIDTHS)
def test_gradient_equals_finite_differences(n_children):
    table, hyper = coded_table(60, n_children), hyperparameters(3)
    sampler = table.sampler(hyper, random_digits(table, 0))
    sampler.sweep(np.random.default_rng(0))
    state = sampler.statistics()
    gradient = np.full(2 + 4 * 7, np.nan)
    slopes_of_log_joint(state, table.compiled, *hyper, np.ones(7), gradient)
    numerical = numerical_gradient(state, table.compiled, hyper)
    np.testing.assert_allclose(gradient[:23], numerical, rtol=1e-6, atol=1e-6)
    used = np.array([1] * 9 + [1, 1, 1, 0, 1, 0, 0] * 2, bool)  # shape and ratio belong to Gaussian leaves
    used = np.append(used, np.zeros(7, bool))  # no leaf is over several columns
    assert (gradient[used] != 0).all() and (gradient[~used] == 0).all()


def test_gradient_at_the_floor_of_the_prior_variance():
    """Below the floor the scale of a Gaussian leaf stops to matter, its shape still does."""
    table, hyper = coded_table(60), hyperparameters(3)
    grade = 2
    floor = table.resolution[grade] ** 2 / 12 / np.nanvar(table.values[:, grade])
    assert floor > 0
    hyper[1][grade] = 0.9 * floor
    sampler = table.sampler(hyper, random_digits(table, 0))
    state, gradient = sampler.statistics(), np.empty(30)
    slopes_of_log_joint(state, table.compiled, *hyper, np.ones(7), gradient)
    np.testing.assert_allclose(gradient[:23], numerical_gradient(state, table.compiled, hyper), rtol=1e-6, atol=1e-6)
    assert gradient[2 + grade] == 0.0 and gradient[9 + grade] != 0.0
    expected = reference_log_joint(table.problem(hyper), state_from_digits(sampler.digits()))
    assert state[0] == pytest.approx(expected, rel=1e-12)


# ---- drift
@njit
def exchange(rng, palette, leaves, d, first, y, leaf, counts, n_updates):
    """Move random values between the leaves of a column, as the kernels do it."""
    for _ in range(n_updates // 2):
        n = rng.integers(0, y.size)
        old = leaf[n]
        counts[old] -= 1
        add_value(palette, leaves, d, first + old, counts[old], y[n], -1.0)
        new = rng.integers(0, counts.size)
        leaf[n] = new
        counts[new] += 1
        add_value(palette, leaves, d, first + new, counts[new], y[n], 1.0)


@pytest.mark.parametrize("centre", [0.0, 520.0])
def test_statistics_do_not_drift(centre):
    """Relative error of b_N after ten million updates of four leaves: on centred data nothing, on others too much."""
    table = coded_table(1000, gaps=0)
    sampler = table.sampler(hyperparameters())
    y, net, d = sampler.coded[:, 0] + centre, sampler.net, 0
    leaf, counts = np.zeros(1000, np.int64), np.array([1000, 0, 0, 0])
    first = net.edges.begin[net.tree.leaf_region[d]] + 1
    net.leaves.entry[first : first + 4] = 0
    net.leaves.s1[first], net.leaves.s2[first] = y.sum(), (y**2).sum()
    exchange(np.random.default_rng(0), net.palette, net.leaves, d, first, y, leaf, counts, 10_000_000)
    errors = []
    for k in range(4):
        own = y[leaf == k]
        prior = (centre, 0.1, 1.5, 1e-3)
        _, rho, _, b = gaussian_posterior(counts[k], net.leaves.s1[first + k], net.leaves.s2[first + k], *prior)
        ssd = ((own - own.mean()) ** 2).sum()
        exact = 1e-3 + 0.5 * (ssd + 0.1 * len(own) / rho * (own.mean() - centre) ** 2)
        errors.append(abs(b / exact - 1))
    if centre == 0.0:
        assert max(errors) < 1e-11  # 8e-14 found
    else:
        assert max(errors) > 1e-9  # what centring is for: 6e-8 found


def test_an_emptied_leaf_is_exactly_empty_and_a_rebuild_exact():
    table = coded_table(200)
    sampler, rng = table.sampler(hyperparameters()), np.random.default_rng(0)
    for _ in range(12):
        sampler.sweep(rng)
    drifted = sampler.statistics()
    sampler.compact()
    restored = sampler.statistics()
    np.testing.assert_allclose(np.sort(drifted), np.sort(restored), rtol=1e-12, atol=1e-12)
    again = table.sampler(hyperparameters(), sampler.digits())
    np.testing.assert_array_equal(again.statistics(), restored)  # bit by bit: all from the data alone


# ---- digits
@pytest.mark.parametrize("n_children", WIDTHS)
def test_digits_make_a_round_trip(n_children):
    table = coded_table(40, n_children)
    digits = random_digits(table, 5)
    sampler = table.sampler(hyperparameters(), digits)
    written = sampler.digits()
    problem = table.problem(hyperparameters())
    assert canonical(written, problem) == canonical(digits, problem)
    sampler.set_digits(written)
    np.testing.assert_array_equal(sampler.digits(), written)
    assert sampler.digits(np.int16).dtype == np.int16
    np.testing.assert_array_equal(written < 0, digits < 0)


def test_digits_of_simulated_states_are_kept():
    rng = np.random.default_rng(0)
    for problem in tiny_problems().values():
        _, digits = simulate(problem, len(problem.X), rng, ~np.isnan(problem.X))
        found = tiny_sampler(problem, digits).digits()
        assert canonical(found, problem) == canonical(digits, problem)


# ---- growth
def recount(sampler, table):
    """Everything the network stores, counted again from slots and data by NumPy; asserts that it agrees."""
    net, slots, tree, y = sampler.net, sampler.slots, sampler.structure, sampler.coded
    seen = ~np.isnan(y)
    for r in range(tree.n_regions):
        inside = tree.order[tree.begin[r] : tree.end[r]]
        rows = seen[:, inside].any(axis=1)
        np.testing.assert_array_equal(slots[:, r] >= 0, rows)
        own = slots[rows, r]
        above = slots[rows, tree.parent[r]] if r else np.zeros(len(own), np.int64)
        d, begin, top, capacity = net.tree.column[r], net.edges.begin[r], net.edges.top[r], net.edges.capacity[r]
        n_prior = n_prior_slots(net.palette, d) if d >= 0 else 0
        assert len(own) == 0 or n_prior <= own.min() <= own.max() < top <= capacity
        edges = slice(begin, begin + top)
        count = np.bincount(own, minlength=top)
        np.testing.assert_array_equal(net.edges.n_data[edges], count)
        node = np.zeros(top, np.int64)
        node[own] = above
        np.testing.assert_array_equal(node[own], above)  # an edge belongs to one sum node
        used = np.flatnonzero(count)
        np.testing.assert_array_equal(net.edges.node[begin + used], node[used])
        freed = net.edges.free[begin : begin + net.edges.n_free[r]]
        np.testing.assert_array_equal(np.sort(np.concatenate([freed, used])), np.arange(n_prior, top))
        n_nodes = net.edges.top[tree.parent[r]] if r else 1
        nodes = slice(net.nodes.begin[r], net.nodes.begin[r] + n_nodes)
        np.testing.assert_array_equal(net.nodes.n_data[nodes], np.bincount(above, minlength=n_nodes))
        np.testing.assert_array_equal(net.nodes.n_edges[nodes], np.bincount(node[used], minlength=n_nodes))
        for k in range(n_nodes):
            linked, previous, slot = [], -1, net.nodes.first[net.nodes.begin[r] + k]
            while slot >= 0:
                assert net.edges.preceding[begin + slot] == previous
                linked.append(slot)
                previous, slot = slot, net.edges.following[begin + slot]
            np.testing.assert_array_equal(np.sort(linked), used[node[used] == k])
            assert net.tree.width[r] == 0 or len(linked) <= net.tree.width[r]
        share = net.masses.entry_share[net.leaves.entry[begin + used]] if d >= 0 else net.masses.share[r]
        weight = np.zeros(top)
        weight[used] = count[used] + share
        np.testing.assert_allclose(net.edges.weight[edges], weight, rtol=1e-13, atol=0)
        if d >= 0:
            recount_leaves(net, d, begin, top, n_prior, used, node, own, y[rows, d], n_nodes)


def recount_leaves(net, d, begin, top, n_prior, used, node, own, y, n_nodes):
    first = net.palette.entry_ptr[d]
    np.testing.assert_array_equal(net.leaves.entry[begin : begin + n_prior], first + np.arange(n_prior))
    entry = net.leaves.entry[begin + used]
    occupied = np.zeros((n_nodes, n_prior), np.int64)
    np.add.at(occupied, (node[used], entry - first), 1)
    cells = net.nodes.occupied[net.nodes.occupied_begin[d] : net.nodes.occupied_begin[d] + n_nodes * n_prior]
    np.testing.assert_array_equal(cells.reshape(n_nodes, n_prior), occupied)
    finite = net.palette.copies[first : first + n_prior]
    assert (finite == 0).all() or (occupied <= finite).all()
    if net.palette.n_levels[d]:
        levels = np.zeros((net.palette.n_levels[d], net.edges.capacity[net.tree.leaf_region[d]]))
        np.add.at(levels, (y.astype(int), own), 1.0)
        np.testing.assert_array_equal(level_counts(net, d), levels)
    for slot, e in zip(used, entry, strict=True):
        family, x = net.palette.family[e], y[own == slot]
        if family == CATEGORICAL:
            continue
        x = x if family == GAUSSIAN else x + net.palette.offset[d]
        x = np.log(x) if family == LOG_NORMAL else x
        s2 = {GAUSSIAN: (x**2).sum(), LOG_NORMAL: (x**2).sum(), POISSON: gammaln(x + 1).sum()}.get(family, 0.0)
        if family == BINOMIAL:
            s2 = -np.log(comb(net.palette.prior[e, 2], x)).sum()
        np.testing.assert_allclose(
            [net.leaves.s1[begin + slot], net.leaves.s2[begin + slot]], [x.sum(), s2], rtol=1e-12, atol=1e-12
        )
        kept = predictive(net, begin + slot)
        refresh_leaf(net.palette, net.leaves, d, begin + slot, net.edges.n_data[begin + slot])
        np.testing.assert_allclose(kept, predictive(net, begin + slot), rtol=1e-9, atol=1e-12)
    unused = np.setdiff1d(np.arange(n_prior, top), used)
    assert (net.leaves.log_scale[begin + unused] == EMPTY_LEAF).all()
    assert (net.edges.n_data[begin : begin + n_prior] == 0).all()


def predictive(net, i):
    return [
        a[i]
        for a in (net.leaves.log_scale, net.leaves.power, net.leaves.centre, net.leaves.curvature, net.leaves.slope)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_network_that_grows_stays_consistent(seed):
    """All rows start on one path, so that every region runs full several times in the middle of a sweep."""
    width, n_parts = (("infinite", 2), (4, 3), ((3, 6, 2, 5), 2))[seed % 3]
    table = coded_table(150, width, n_parts, seed=seed)
    (_, _), *leaf = hyperparameters(seed)
    sampler = table.sampler((np.array([40.0, 30.0]), *leaf))
    small, rng = sampler.net.edges.capacity.sum(), np.random.default_rng(seed)
    recount(sampler, table)
    for i in range(24):
        sampler.sweep(rng)
        if i % 3 == 0:
            recount(sampler, table)
    assert sampler.net.edges.capacity.sum() > 2 * small
    recount(sampler, table)
    expected = reference_log_joint(table.problem(sampler.hyperparameters), state_from_digits(sampler.digits()))
    assert sampler.statistics()[0] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("seed", range(2))
def test_a_network_that_shrinks_stays_consistent(seed):
    """From a state with every row on its own path to few paths; freed slots are used again before a rebuild."""
    table = coded_table(120, "infinite", seed=seed)
    apart = np.tile(np.arange(120, dtype=np.int32)[:, None] * 6, (1, table.structure.n_regions))
    sampler = table.sampler((np.array([0.01, 0.01]), *hyperparameters()[1:]), apart)
    rng, largest = np.random.default_rng(seed), sampler.net.edges.capacity.sum()
    for _ in range(12):
        sampler.sweep(rng)
        recount(sampler, table)
    sampler.compact()
    assert sampler.net.edges.capacity.sum() < largest
    recount(sampler, table)


def test_the_recount_notices_a_stale_predictive_and_a_lost_count():
    table = coded_table(60)
    sampler = table.sampler(hyperparameters(), random_digits(table, 0))
    recount(sampler, table)
    r = sampler.structure.leaf_region[0]
    slot = sampler.net.edges.begin[r] + sampler.slots[0, r]
    for array in (
        sampler.net.leaves.log_scale,
        sampler.net.edges.n_data,
        sampler.net.leaves.s1,
        sampler.net.edges.weight,
    ):
        kept = array[slot]
        array[slot] += 1
        with pytest.raises(AssertionError):
            recount(sampler, table)
        array[slot] = kept
        if array is sampler.net.leaves.log_scale:
            sampler.compact()
            slot = sampler.net.edges.begin[r] + sampler.slots[0, r]
