"""Rows whose value underflows at every tree are drawn in logs, and still from the exact conditional.

Two clusters 6,000 standard deviations apart, and rows that belong to one in the even columns and to the other in the
odd ones: each column has a leaf close by, but no tree has more than half of them.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp

from pymc_spn.gibbs.exact import (
    SAFE,
    draw_subtree,
    evaluate_regions,
    evaluate_regions_by_logs,
)
from pymc_spn.gibbs.leaf_kernels import evaluate_leaves
from pymc_spn.gibbs.occupancy import attach, detach, mark_missing
from pymc_spn.gibbs.redraw import SWEEP, redraw_rows
from tests.called_kernels import called, on_network
from tests.networks.tiny import tiny_sampler
from tests.reference import Problem, log_marginal

attach, detach, mark_missing = map(on_network, (attach, detach, mark_missing))
evaluate_leaves, evaluate_regions = map(on_network, (evaluate_leaves, evaluate_regions))
evaluate_regions_by_logs, draw_subtree = on_network(evaluate_regions_by_logs), called(draw_subtree)

FAR, N = 60.0, 800
HALVES = ((((0,), (1,)), ((2,), (3,))), (((4,), (5,)), ((6,), (7,))))
LEAF = ("gaussian", {"mu0": FAR / 2, "rho0": 0.05, "a0": 45.0, "b0": 45e-4})
OTHER = ("gaussian", {"mu0": FAR / 2 + 0.2, "rho0": 0.05, "a0": 45.0, "b0": 40e-4})
PALETTE = [LEAF, OTHER]  # labels 0 and 1 are one each
FRESH = -2  # label of an unoccupied child; of palette entry e, FRESH - e
WIDTHS = {"occupied": (2, 2, 1, 2), "infinite": "infinite"}  # two labels are in use


def two_clusters(children):
    """Problem with digits: clusters part below the root; row 0 lies between the clusters.

    Labels are the bits of the row number, so that equal leaves hold equally many rows: one row more at a far leaf
    is worth several nats.
    """
    rng = np.random.default_rng(0)
    bits = np.arange(N)[:, None] >> np.arange(4) & 1
    X = FAR * bits[:, [1]] + rng.normal(0.0, 0.01, (N, 8))
    X[0] = [0.0, FAR] * 4
    X[64:80, 3] = X[0, 7] = X[16:32, 4:6] = np.nan
    problem = Problem(HALVES, children, 1.0, 2.0, [PALETTE] * 8, X)
    regions = problem.region_list
    digits = np.zeros((N, len(regions)), np.int32)
    for r in regions:
        digits[:, r.index] = 0 if r.depth == 2 else bits[:, r.depth if r.depth < 2 else 2 + r.column % 2]
        digits[np.isnan(X[:, list(r.columns)]).all(axis=1), r.index] = -1
    # a first column such that neither cluster is out of the question for row 0
    X[0, 0] = brentq(lambda x: odds(problem, digits, x), 0.0, FAR, xtol=1e-14)
    return problem, digits


def odds(problem, digits, x):
    problem.X[0, 0] = x
    edges, _ = conditional(problem, digits, 0)
    return edges[1, (0,)][0] - edges[1, (0,)][1] + 1.0


def conditional(problem, digits, row):
    """Log conditional of a row's labels at every sum node, and log value of the root; plain recursion.

    Returns
    -------
    edges : dict
        (region, labels above) to {label: log probability}.
    log_value : float
    """
    x, edges = problem.X[row], {}
    everyone = np.flatnonzero(np.arange(len(problem.X)) != row)

    def leaf(column, members, entry):
        family, prior = PALETTE[entry]
        seen = problem.X[members, column]
        return log_marginal(family, prior, [*seen, x[column]]) - log_marginal(family, prior, seen)

    def empty(region):
        seen = [d for d in region.columns if not np.isnan(x[d])]
        return sum(logsumexp([leaf(d, [], e) for e in (0, 1)]) - math.log(2) for d in seen)

    def value(region, path, members):
        labels = digits[members, region.index]
        members, labels = members[labels >= 0], labels[labels >= 0]
        if not problem.draws_in(row, region):
            return 0.0
        alpha, width = problem.alpha(region), problem.n_children(region)
        finite, occupied = width < math.inf, np.unique(labels).tolist()
        terms = {}
        for e in range(problem.palette_size(region)):
            if finite:
                copies = range(e, width, problem.palette_size(region))
                free = sum(problem.child_mass(region, c) for c in copies if c not in occupied)
            else:
                free = alpha / problem.palette_size(region)
            if free > 0.0:
                own = empty(region) if region.column is None else leaf(region.column, [], e)
                terms[FRESH - e] = math.log(free) + own
        for c in occupied:
            inside = members[labels == c]
            below = [value(problem.region_list[q], (*path, c), inside) for q in region.parts]
            own = leaf(region.column, inside, c % 2) if region.column is not None else sum(below)
            terms[c] = math.log(len(inside) + (problem.child_mass(region, c) if finite else 0.0)) + own
        total = logsumexp(list(terms.values()))
        edges[region.index, path] = {c: t - total for c, t in terms.items()}
        return total - math.log(len(members) + alpha)

    return edges, value(problem.region_list[0], (), everyone)


def edge_probabilities(problem, edges):
    """Probability that the row takes each edge: conditionals multiplied along the path."""
    found = {}
    for (index, path), terms in edges.items():
        above = problem.region_list[index].ancestors
        log_path = sum(edges[a, path[:i]][path[i]] for i, a in enumerate(above))
        found |= {(index, *path, c): math.exp(log_path + t) for c, t in terms.items()}
    return found


def labels_of(sampler, problem, row):
    """Labels of the row's edges; FRESH where it is alone, and everywhere below."""
    net, labels = sampler.net, {}
    for r in problem.region_list:
        slot = sampler.slots[row, r.index]
        if slot >= 0:
            i = net.edges.begin[r.index] + slot
            entry = net.leaves.entry[i] - net.palette.entry_ptr[r.column] if r.column is not None else 0
            labels[r.index] = FRESH - int(entry) if net.edges.n_data[i] == 1 else int(net.edges.label[i])
    return labels


def frequencies(sampler, problem, row, move, draws):
    counts, batches = {}, 20
    for _ in range(50):
        move()
    for i in range(draws):
        move()
        labels = labels_of(sampler, problem, row)
        for r in problem.region_list:
            path = tuple(labels[a] for a in r.ancestors)
            if r.index in labels and FRESH not in path:
                key = (r.index, *path, labels[r.index])
                counts.setdefault(key, np.zeros(batches))[i * batches // draws] += batches / draws
    return counts


def largest_deviation(found, exact, draws):
    """Largest distance of an edge's frequency from its probability, in standard errors from batches."""
    assert set(found) <= {k for k, p in exact.items() if p > 1e-9}
    scores = []
    for key, p in exact.items():
        share = found.get(key, np.zeros(20))
        error = max(share.std(ddof=1) / math.sqrt(20), math.sqrt(p * (1 - p) / draws))
        if p * draws > 5:
            scores.append(abs(share.mean() - p) / error)
    return max(scores)


@pytest.fixture(scope="module", params=WIDTHS)
def network(request):
    problem, digits = two_clusters(WIDTHS[request.param])
    edges, log_value = conditional(problem, digits, 0)
    exact = edge_probabilities(problem, edges)
    assert sum(0.05 < p < 0.95 for p in exact.values()) >= 8
    return problem, digits, exact, log_value


def without(sampler, row):
    """Take a row out and evaluate all leaves for it."""
    mark_missing(sampler.net, sampler.coded[row])
    sampler.net.scratch.old[:] = sampler.slots[row]
    detach(sampler.net, sampler.coded[row], sampler.slots[row])
    return evaluate_leaves(sampler.net, sampler.coded[row])


def test_the_row_between_the_clusters_underflows(network):
    problem, digits, _, log_value = network
    sampler = tiny_sampler(problem, digits)
    shift = without(sampler, 0)
    evaluate_regions(sampler.net)
    assert sampler.net.scratch.node_value[0] <= SAFE
    assert log_value - shift < math.log(SAFE)


def test_value_in_logs_equals_the_direct_computation(network):
    problem, digits, _, log_value = network
    sampler = tiny_sampler(problem, digits)
    without(sampler, 0)
    evaluate_regions_by_logs(sampler.net)
    assert sampler.net.scratch.node_value[0] == pytest.approx(log_value, rel=1e-11)


def test_values_of_ordinary_rows_agree_in_both_spaces_and_directly(network):
    problem, digits, *_ = network
    sampler = tiny_sampler(problem, digits)
    for row in range(1, 30):
        shift = without(sampler, row)
        evaluate_regions(sampler.net)
        assert sampler.net.scratch.node_value[0] > SAFE
        linear = math.log(sampler.net.scratch.node_value[0]) + shift
        evaluate_regions_by_logs(sampler.net)
        direct = conditional(problem, digits, row)[1]
        np.testing.assert_allclose([linear, sampler.net.scratch.node_value[0]], direct, rtol=1e-11)
        attach(sampler.net, sampler.coded[row], sampler.slots[row])


def test_exact_draws_follow_the_direct_conditional(network):
    problem, digits, exact, _ = network
    sampler, rng, draws = tiny_sampler(problem, digits), np.random.default_rng(1), 2000
    tables = sampler.coded, sampler.table, sampler.filled, sampler.slots
    row = 0, 1
    found = frequencies(
        sampler, problem, 0, lambda: redraw_rows(rng, *sampler.net, None, None, None, *tables, SWEEP, *row), draws
    )
    assert largest_deviation(found, exact, draws) < 4.5  # about a hundred edges


def test_linear_space_would_draw_something_else(network):
    """Negative control: the same draw from values that underflowed."""
    problem, digits, exact, _ = network
    sampler, rng, draws = tiny_sampler(problem, digits), np.random.default_rng(1), 500

    def move():
        without(sampler, 0)
        evaluate_regions(sampler.net)
        draw_subtree(rng, *sampler.net.of_columns, sampler.slots[0], 0, False)
        attach(sampler.net, sampler.coded[0], sampler.slots[0])

    found = frequencies(sampler, problem, 0, move, draws)
    impossible = [k for k in found if exact.get(k, 0.0) < 1e-9]
    assert impossible or largest_deviation(found, exact, draws) > 10


def test_a_whole_sweep_of_far_rows_keeps_the_state_finite():
    """Outliers at forty standard deviations and beyond in every column, all children occupied."""
    problem, digits = two_clusters(WIDTHS["occupied"])
    problem.X[:20] *= np.geomspace(1.0, 1e6, 20)[:, None]
    sampler, rng = tiny_sampler(problem, digits), np.random.default_rng(0)
    for _ in range(3):
        sampler.sweep(rng)
    written = sampler.digits()
    np.testing.assert_array_equal(written < 0, digits < 0)
    assert (written.max(axis=0) < np.array([2, *[2] * 14])).all()
    assert np.isfinite(sampler.net.leaves.log_scale).all() and np.isfinite(sampler.net.leaves.centre).all()
