"""The flat statistics of a state: log joint against the brute-force reference, gradient, drift, growth, digits."""

import numpy as np
import pytest
from numba import njit

from pymc_spn.gibbs.exact import evaluate_regions
from pymc_spn.gibbs.leaf_kernels import add_value, evaluate_leaves
from pymc_spn.gibbs.occupancy import mark_missing
from pymc_spn.gibbs.palette import log_jacobian
from pymc_spn.gibbs.statistics import log_joint, slopes_of_log_joint
from pymc_spn.leaves.gaussian import gaussian_posterior
from tests.called_kernels import on_network
from tests.networks.coded_tables import coded_table, hyperparameters
from tests.networks.tiny import summary
from tests.reference import canonical, state_from_digits
from tests.reference import log_joint as reference_log_joint

mark_missing, evaluate_leaves, evaluate_regions = map(on_network, (mark_missing, evaluate_leaves, evaluate_regions))

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


# ---- growth
def anew(sampler, table):
    """Statistics, sizes and values of some rows, and the same of a network built anew from the assignments."""
    found = []
    for one in (sampler, table.sampler(sampler.hyperparameters, sampler.digits())):
        net, values = one.net, []
        for n in range(0, len(one.coded), 7):
            mark_missing(net, one.coded[n])
            shift = evaluate_leaves(net, one.coded[n])
            evaluate_regions(net)
            values.append([shift, net.scratch.node_value[0]])
        found.append([np.sort(one.statistics()), summary(one), np.array(values)])
    return found


def assert_as_anew(sampler, table):
    for held, built in zip(*anew(sampler, table), strict=True):
        np.testing.assert_allclose(held, built, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [("infinite", 2), (4, 3), ((3, 6, 2, 5), 2)])
def test_a_network_that_grows_stays_consistent(width):
    """All rows start on one path, so that every region runs full several times in the middle of a sweep."""
    table = coded_table(150, *width)
    sampler = table.sampler((np.array([40.0, 30.0]), *hyperparameters()[1:]))
    small, rng = sampler.net.edges.capacity.sum(), np.random.default_rng(0)
    for _ in range(8):
        for _ in range(3):
            sampler.sweep(rng)
        assert_as_anew(sampler, table)
    assert sampler.net.edges.capacity.sum() > 2 * small
    expected = reference_log_joint(table.problem(sampler.hyperparameters), state_from_digits(sampler.digits()))
    assert sampler.statistics()[0] == pytest.approx(expected, rel=1e-11)


def test_a_network_that_shrinks_stays_consistent():
    """From a state with every row on its own path to few paths; freed slots are used again before a rebuild."""
    table = coded_table(120)
    apart = np.tile(np.arange(120, dtype=np.int32)[:, None] * 6, (1, table.structure.n_regions))
    sampler = table.sampler((np.array([0.01, 0.01]), *hyperparameters()[1:]), apart)
    rng, largest = np.random.default_rng(0), sampler.net.edges.capacity.sum()
    for _ in range(12):
        sampler.sweep(rng)
        assert_as_anew(sampler, table)
    sampler.compact()
    assert sampler.net.edges.capacity.sum() < largest


def test_a_stale_predictive_a_lost_count_and_a_lost_edge_are_noticed():
    table = coded_table(60)
    sampler = table.sampler(hyperparameters(), random_digits(table, 0))
    assert_as_anew(sampler, table)
    net, r = sampler.net, sampler.structure.leaf_region[0]
    slot = net.edges.begin[r] + sampler.slots[0, r]
    for array in (net.leaves.log_scale, net.edges.n_data, net.leaves.s1, net.edges.weight, net.edges.node):
        array[slot] += 1
        with pytest.raises(AssertionError):
            assert_as_anew(sampler, table)
        array[slot] -= 1
