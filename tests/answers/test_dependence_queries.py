"""Mutual information, entropy and divergence against enumeration, quadrature and closed forms, and identities."""

from functools import cache
from itertools import product

import numpy as np
import pytest

import pymc_spn as ps
from pymc_spn.answers import pair_questions
from pymc_spn.numerics.draw_averages import shortest_interval
from tests.hand_made_records import (
    enumerated_law,
    enumerated_posterior,
    posterior_of,
    problem_of,
    sampled_tree,
    two_groups,
)
from tests.reference import BERNOULLI, CATEGORICAL, NARROW, Problem
from tests.reference_queries import log_posterior_predictive

pytestmark = pytest.mark.usefixtures("integrated")

SIGMAS = 5.0


@cache
def levels_problem():
    """Three discrete columns whose rows hang together, so that there is something to find."""
    X = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, 1.0]])
    leaves = [[BERNOULLI], [CATEGORICAL], [BERNOULLI]]
    return Problem(((0,), ((1,), (2,))), "infinite", 0.8, 0.7, leaves, X)


@cache
def levels_law():
    return enumerated_law(levels_problem())


@cache
def levels_posterior():
    return ps.SPNPosterior(levels_law())


@cache
def joint_of_levels():
    """(2, 3, 2) predictive probabilities by enumeration of all states."""
    rows = np.array(list(product(range(2), range(3), range(2))), float)
    return np.exp(log_posterior_predictive(levels_problem(), rows)).reshape(2, 3, 2)


def information_of(joint):
    """Of a table of masses, its first axis against the second."""
    alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float(np.sum(joint * np.log(joint / alone)))


def entropy_of(p):
    return -float(np.sum(p * np.log(p)))


def test_levels_by_enumeration():
    post, joint = levels_posterior(), joint_of_levels()
    assert joint.sum() == pytest.approx(1.0)
    for a, b, other in [(0, 1, 2), (0, 2, 1), (1, 2, 0)]:
        found = post.mutual_information(f"x{a}", f"x{b}")
        assert float(found) == pytest.approx(information_of(joint.sum(axis=other)), rel=1e-9)
        assert found.attrs["exactness"] == "exact given the draws" and found.attrs["mcse_chain"] >= 0
    groups = post.mutual_information(["x0"], ["x2", "x1"])
    assert float(groups) == pytest.approx(information_of(joint.reshape(2, 6)), rel=1e-9)
    assert float(post.entropy()) == pytest.approx(entropy_of(joint), rel=1e-12)
    assert float(post.entropy("x1")) == pytest.approx(entropy_of(joint.sum(axis=(0, 2))), rel=1e-12)
    given = joint[1] / joint[1].sum()
    assert float(post.mutual_information("x1", "x2", {"x0": 1})) == pytest.approx(information_of(given), rel=1e-9)
    some = joint[:, [0, 2]] / joint[:, [0, 2]].sum()
    within = post.mutual_information("x1", "x0", {"x1": {"a", "c"}})
    assert float(within) == pytest.approx(information_of(some.sum(axis=2)), rel=1e-9)
    p, q = joint.sum(axis=0), joint[1] / joint[1].sum()
    exact = float(np.sum(q * np.log(q / p)))
    assert float(post.condition({"x0": 1}).kl(post, ["x1", "x2"])) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("known", [None, {"x0": (0.2, 1.5)}])
def test_densities_by_quadrature(known):
    """Against sums over a fine grid of the reference's predictive; the grid is cut where a leaf jumps, at 0."""
    post, problem = posterior_of("depths"), problem_of("depths")
    if known:
        a, wa = _panels([0.2, 0.85, 1.5])
    else:
        a, wa = _panels([-400, -40, -8, -2, -0.5, 0, 0.5, 1, 2, 4, 10, 40, 400])
    b, wb = _panels([-60, -12, -4, -1, 0, 0.5, 1, 2, 5, 12, 60])
    rows = np.array(list(product(a, b)))
    joint = np.exp(log_posterior_predictive(problem, rows)).reshape(a.size, b.size)
    mass = joint * wa[:, None] * wb
    total = mass.sum()
    first, second = (joint * wb).sum(axis=1), (joint * wa[:, None]).sum(axis=0)
    exact = np.sum(mass * np.log(joint * total / (first[:, None] * second))) / total
    found = post.mutual_information("x0", "x1", known, n=4_000, random_seed=1)
    assert found.attrs["exactness"] == "monte-carlo given the draws" and found.attrs["mcse"] < 0.1
    assert abs(float(found) - exact) < SIGMAS * found.attrs["mcse"]
    single = -np.sum(second * wb / total * np.log(second / total))
    one = post.entropy("x1", known)
    box = float(post.probability({"x0": (a.min() - 0.1, a.max() + 0.1), "x1": (b.min() - 0.1, b.max() + 0.1)}, known))
    mass_of_known = float(post.probability(known)) if known else 1.0
    cut = 40.0 * (1.0 - box + abs(total / mass_of_known - box))  # what the sums leave out or miss, times its surprise
    assert one.attrs["tolerance"] < 1e-5 and cut < 1e-5
    assert abs(float(one) - single) <= one.attrs["tolerance"] + cut
    whole = -np.sum(mass / total * np.log(joint / total))
    both = post.entropy(given=known, n=4_000, random_seed=1)
    assert abs(float(both) - whole) < SIGMAS * both.attrs["mcse"] + cut


def test_log_normal_columns_are_gaussian_ones_of_their_logs():
    """Entropy changes by the mean log, information not; shapes so small that quantiles are beyond all numbers."""
    prior = {"mu0": 0.2, "rho0": 0.4, "a0": 0.6, "b0": 0.5}
    logs = np.array([[-0.4, 0.3], [0.1, 0.8], [1.9, 2.1], [0.2, np.nan]])
    values = np.column_stack([np.exp(logs[:, 0]), logs[:, 1]])
    posts = [
        enumerated_posterior(Problem(((0,), (1,)), 2, 0.8, 0.7, [[(family, prior)], [NARROW]], X))
        for family, X in (("log_normal", values), ("gaussian", logs))
    ]
    found, exact = (post.dependence(max_draws=None, random_seed=1).mutual_information for post in posts)
    assert float(exact[0, 1]) > 0.005
    assert abs(float(found[0, 1] - exact[0, 1])) < 1e-6 + SIGMAS * np.hypot(
        *(x.attrs["mcse"][0, 1] for x in (found, exact))
    )
    first, second = [[post.condition({"x1": known}) for known in ((1.0, None), (None, 1.0))] for post in posts]
    found, exact = first[0].kl(first[1], "x0"), second[0].kl(second[1], "x0")
    assert float(exact) > 0.03
    assert abs(float(found - exact)) < found.attrs["tolerance"] + exact.attrs["tolerance"] + 1e-6
    for low, high in ((None, None), (0.5, None), (0.5, 3.0)):
        known = [{"x0": tuple(e if e is None else of(e) for e in (low, high))} for of in (float, np.log)]
        if low is high:
            known = [None, None]
        mean = float(posts[1].mean(known[1]).sel(column="x0"))
        found, exact = (post.entropy("x0", given) for post, given in zip(posts, known, strict=True))
        assert abs(float(found - exact) - mean) < found.attrs["tolerance"] + exact.attrs["tolerance"]
        assert found.attrs["tolerance"] < (1e-7 if high == 3.0 else 10.0)


def _panels(cuts):
    t, w = np.polynomial.legendre.leggauss(12)
    cuts = np.array(cuts, float)
    half = 0.5 * np.diff(cuts)
    return (cuts[:-1, None] + half[:, None] * (t + 1)).ravel(), (half[:, None] * w).ravel()


def gaussian_pair(rho):
    name = "multivariate_gaussian[2]"
    return ps.circuits.leaf(("a", "b"), name, (1.0, -2.0, 4.0, 6.0 * rho, 6.0 * rho, 9.0))


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.999])
def test_errors_of_simulated_information_are_those_of_repetitions(rho):
    """Of two Gaussian columns in closed form; the spread of 40 repetitions is the stated error within half of it."""
    exact = -0.5 * np.log1p(-(rho**2))
    pair = gaussian_pair(rho)
    tables = [pair.dependence(n=500, random_seed=seed)["mutual_information"] for seed in range(40)]
    found, error = np.array([(float(t[0, 1]), t.attrs["mcse"][0, 1]) for t in tables]).T
    if rho == 0.0:
        assert np.abs(found).max() < 1e-12
        return
    assert tables[0].attrs["exactness"] == "monte-carlo" and found.min() > 0.0
    assert abs(found.mean() - exact) < SIGMAS * error.mean() / np.sqrt(40)
    assert 0.5 < found.std() / error.mean() < 1.5
    assert error.mean() < 0.25 * np.sqrt(exact / 500) + 0.15 * exact  # dependence that is weak is told from none
    plain = pair.mutual_information("a", "b", n=4_000, random_seed=1)
    assert abs(float(plain) - exact) < SIGMAS * plain.attrs["mcse"]
    whole = pair.entropy(n=4_000, random_seed=1)
    assert abs(float(whole) - np.log(2 * np.pi * np.e * 6.0) + exact) < SIGMAS * whole.attrs["mcse"]


def test_a_planted_mistake_is_found(monkeypatch):
    """Points weighed as if there were half as many."""
    real = pair_questions._terms
    monkeypatch.setattr(
        pair_questions, "_terms", lambda joint, apart, proposal: real(joint, apart, proposal + np.log(2.0))
    )
    table = gaussian_pair(0.9).dependence(n=2_000, random_seed=1)["mutual_information"]
    assert abs(float(table[0, 1]) + 0.5 * np.log1p(-0.81)) > SIGMAS * table.attrs["mcse"][0, 1]


def test_dependence_of_each_draw():
    """Against quadrature of each draw's density, and against the table of their means."""
    post = ps.SPNPosterior.from_idata(sampled_tree("depths", draws=6))
    each = post.dependence(per_draw=True, n=2_000, random_seed=1)
    assert each.dims == ("chain", "draw", "column", "other") and np.isnan(each.values[..., 0, 0]).all()
    a, wa = _panels([-400, -40, -8, -2, -0.5, 0, 0.5, 1, 2, 4, 10, 40, 400])
    b, wb = _panels([-60, -12, -4, -1, 0, 0.5, 1, 2, 5, 12, 60])
    rows = np.array(list(product(a, b)))
    density = np.exp(post._law.log_density(rows)).reshape(-1, a.size, b.size)  # leaves may go on below 0
    exact = np.array([information_of(p * wa[:, None] * wb) for p in density])
    found, error = each[..., 0, 1].values.ravel(), each.attrs["mcse"][..., 0, 1].ravel()
    assert np.abs((found - exact) / error).max() < SIGMAS and (np.ptp(exact) > SIGMAS * error.max())
    pair = post.mutual_information("x0", "x1", per_draw=True, n=2_000, random_seed=2)
    assert np.abs(pair.values - each[..., 0, 1].values).max() < SIGMAS * 2.0 * error.max()
    table = post.dependence(threshold=0.01, n=2_000, random_seed=1)
    mean = float(table.mutual_information[0, 1])
    assert mean == pytest.approx(found.mean(), rel=1e-12) and table.attrs["exactness"] == "monte-carlo given the draws"
    assert abs(mean - exact.mean()) < SIGMAS * table.mutual_information.attrs["mcse"][0, 1]
    assert table.hdi[0, 1].values.tolist() == list(shortest_interval(found, np.full(12, 1 / 12), 0.94))
    assert float(table.p_dependent[0, 1]) == (found > 0.01).mean()
    fewer = post.dependence(max_draws=6, n=100).mutual_information.attrs
    assert fewer["n_draws"] == 6 and fewer["draws"].startswith("6 of ")


def test_dependence_of_levels_is_exact():
    post, joint = levels_posterior(), joint_of_levels()
    each = post.dependence(per_draw=True)
    table = post.dependence(max_draws=None)
    assert table.attrs["exactness"] == "exact given the draws" and "mcse" not in table.mutual_information.attrs
    one = post.mutual_information("x0", "x1", per_draw=True)
    np.testing.assert_allclose(each.sel(column="x0", other="x1"), one, rtol=1e-12)
    p = post.probability({"x0": 1, "x1": "c"}, per_draw=True).values.ravel()
    assert np.ptp(p) > 0.0 and information_of(joint.sum(axis=2)) > 0.0


def test_shortest_interval():
    x = np.array([0.0, 10.0, 1.0, 2.0, 3.0])
    assert shortest_interval(x, np.full(5, 0.2), 0.8) == (0.0, 3.0)
    assert shortest_interval(x, np.array([0.1, 0.6, 0.1, 0.1, 0.1]), 0.6) == (10.0, 10.0)


@pytest.mark.parametrize("sizes", [(3, 197), (74, 126)])
def test_tolerances_hold_where_a_gap_lies_between_two_quantiles(sizes):
    """A group of 1.5 % ends between the quantiles at 0.01 and 0.02, where the panels of the tails meet the bulk's."""
    post = two_groups(sizes)
    far = 15.0 * 1.7 ** np.arange(10)
    x, wx = _panels(np.concatenate([-far[::-1], np.arange(-13.5, 14.0, 1.5), far]))
    for d in range(2):
        rows = np.full((x.size, 2), np.nan)
        rows[:, d] = x
        mass = np.exp(post.log_density(rows)).values * wx
        cut = 40.0 * abs(1.0 - mass.sum())  # what the sums leave out, times its surprise
        found = post.entropy(f"x{d}")
        assert abs(float(found) + np.sum(mass * np.log(mass / wx))) < found.attrs["tolerance"] + cut < 1e-4
