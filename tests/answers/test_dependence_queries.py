"""Mutual information, entropy and divergence against enumeration and quadrature of all states, and identities."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st

import pymc_spn as ps
from pymc_spn.laws import grid_law
from pymc_spn.laws.column_grids import MISPLACED, information
from pymc_spn.laws.grid_law import joint_masses, nested_grids, tables_of
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.numerics.weighted_intervals import shortest_interval
from tests.hand_made_records import (
    enumerated_law,
    enumerated_posterior,
    posterior_of,
    problem_of,
    sampled_tree,
    states_of,
    two_groups,
    weighted_posterior,
)
from tests.reference import BERNOULLI, CATEGORICAL, NARROW, Problem
from tests.reference_queries import log_posterior_predictive

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


def test_bounds_enclose_what_is_enumerated():
    weights = levels_law().log_weights
    likely = np.where(weights >= np.sort(weights)[-12], weights, -np.inf)
    post = weighted_posterior(levels_law().states, likely)
    for columns in (None, "x1", ["x0", "x2"]):
        low, high = post.entropy(columns, method="bounds").values
        assert low <= float(post.entropy(columns)) <= high + 1e-9
    # a sum of entropies alone would not do: the upper bound has earned a part of the dependence
    singles = sum(float(post.entropy(f"x{d}")) for d in range(3))
    assert post.entropy(method="bounds").values[1] < singles - 5e-4
    given = post.condition({"x0": 1})
    low, high = given.kl(post, ["x1", "x2"], method="bounds").values
    assert 0 <= low <= float(given.kl(post, ["x1", "x2"])) <= high
    narrower = post.condition({"x1": {"a", "c"}})
    low, high = np.ravel(narrower.kl(post, method="bounds"))[[0, -1]]  # one number where they meet
    assert low - 1e-12 <= float(narrower.kl(post)) <= high + 1e-12 < np.inf
    assert np.ravel(post.kl(narrower, method="bounds"))[-1] == np.inf
    assert float(post.kl(narrower)) == np.inf


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
    found = post.mutual_information("x0", "x1", known)
    assert float(found) == pytest.approx(exact, abs=2e-5) and float(found) > 3e-4
    assert found.attrs["exactness"] == "numerical given the draws" and found.attrs["tolerance"] < 1e-5
    single = -np.sum(second * wb / total * np.log(second / total))
    one = post.entropy("x1", known)
    box = float(post.probability({"x0": (a.min() - 0.1, a.max() + 0.1), "x1": (b.min() - 0.1, b.max() + 0.1)}, known))
    mass_of_known = float(post.probability(known)) if known else 1.0
    cut = 40.0 * (1.0 - box + abs(total / mass_of_known - box))  # what the sums leave out or miss, times its surprise
    assert one.attrs["tolerance"] < 1e-5 and cut < 1e-5
    assert abs(float(one) - single) <= one.attrs["tolerance"] + cut
    if known:
        return
    whole = -np.sum(mass / total * np.log(joint / total))
    bounds = post.entropy()
    off = bounds.attrs["tolerance"] + cut
    assert bounds[0] - off <= whole <= bounds[1] + off and off < 1e-5


def test_tolerances_of_bounds_are_what_finer_grids_change(monkeypatch):
    """Grids of three times the panels move no bound by more than was stated, and the statement is no constant."""
    stated = {}
    for panels in (grid_law.PANELS, 3 * grid_law.PANELS):
        monkeypatch.setattr(grid_law, "PANELS", panels)
        post = two_groups()
        given = post.condition({"x0": (-5.0, 9.0)})
        for name, found in (("entropy", post.entropy()), ("kl", given.kl(post, ["x0", "x1"]))):
            stated.setdefault(name, []).append((found.values, found.attrs["tolerance"]))
    for (rough, tolerance), (fine, _) in stated.values():
        assert np.abs(rough - fine).max() <= tolerance < 1e-4
    assert stated["entropy"][0][1] != stated["kl"][0][1]
    assert stated["entropy"][1][1] < stated["entropy"][0][1]


@pytest.mark.parametrize("shape", [0.6, 0.75, 2.0])
def test_log_normal_columns_are_gaussian_ones_of_their_logs(shape):
    """Information does not change, entropy by the mean log; shapes so small that quantiles are beyond all numbers."""
    prior = {"mu0": 0.2, "rho0": 0.4, "a0": shape, "b0": 0.5}
    logs = np.array([[-0.4, 0.3], [0.1, 0.8], [1.9, 2.1], [0.2, np.nan]])
    values = np.column_stack([np.exp(logs[:, 0]), logs[:, 1]])
    posts = [
        enumerated_posterior(Problem(((0,), (1,)), 2, 0.8, 0.7, [[(family, prior)], [NARROW]], X))
        for family, X in (("log_normal", values), ("gaussian", logs))
    ]
    halves = [[post.condition({"x1": known}) for known in ((1.0, None), (None, 1.0))] for post in posts]
    for answers, least in (
        ([post.mutual_information("x0", "x1") for post in posts], 0.01),
        ([post.dependence(max_draws=None).mutual_information[0, 1] for post in posts], 0.005),
        ([first.kl(second, "x0") for first, second in halves], 0.03),
    ):
        found, exact = answers
        assert float(exact) > least
        assert abs(float(found - exact)) < found.attrs["tolerance"] + exact.attrs["tolerance"] + 1e-6
        assert found.attrs["tolerance"] < (1e-5 if found.name == "mutual_information" else 1.0)
    for low, high in ((None, None), (0.5, None), (None, 2.0), (0.5, 3.0)):
        known = [{"x0": tuple(e if e is None else of(e) for e in (low, high))} for of in (float, np.log)]
        if low is high:
            known = [None, None]
        mean = float(posts[1].mean(known[1]).sel(column="x0"))
        found, exact = (post.entropy("x0", given) for post, given in zip(posts, known, strict=True))
        assert abs(float(found - exact) - mean) < found.attrs["tolerance"] + exact.attrs["tolerance"]
        assert found.attrs["tolerance"] < (1e-7 if high == 3.0 else 10.0)
        found, exact = (post.mutual_information("x0", "x1", g) for post, g in zip(posts, known, strict=True))
        assert abs(float(found - exact)) < found.attrs["tolerance"] + exact.attrs["tolerance"] + 1e-6
    mean = float(posts[1].mean().sel(column="x0"))
    found, exact = (post.entropy() for post in posts)
    assert np.abs(found.values - exact.values - mean).max() < found.attrs["tolerance"] + exact.attrs["tolerance"]


def _panels(cuts):
    t, w = np.polynomial.legendre.leggauss(12)
    cuts = np.array(cuts, float)
    half = 0.5 * np.diff(cuts)
    return (cuts[:-1, None] + half[:, None] * (t + 1)).ravel(), (half[:, None] * w).ravel()


def test_information_does_not_change_with_units_in_which_densities_overflow():
    # the log-normal column has density 1e280 near 0, the other one, in its units of 1e-30, one of 1e30 everywhere
    problem, laws = problem_of("skewed"), []
    for unit in (1.0, 1e-30):
        leaves = [
            ("log_normal", {"mu0": 0.2, "rho0": 0.4, "a0": 0.6, "b0": 0.5}),
            ("gaussian", {"mu0": 0.0, "rho0": 0.4, "a0": 2.0, "b0": unit**2}),
        ]
        scaled = replace(problem, palettes=[[leaf] for leaf in leaves], X=problem.X * [1.0, unit])
        laws.append(enumerated_law(scaled))
    found = [ps.SPNPosterior(law) for law in laws]
    ours, theirs = (post.mutual_information("x0", "x1") for post in found)
    assert float(ours) > 1e-3
    np.testing.assert_allclose(theirs, ours, rtol=1e-9)
    assert theirs.attrs["tolerance"] - MISPLACED < 1e-9
    law = laws[0]
    finest = information(next(joint_masses(law, [(0, 1)], nested_grids(law, [0, 1], [(384, 1)])[0])))
    assert abs(float(ours) - finest) < ours.attrs["tolerance"]
    assert theirs.attrs["mcse_chain"] == pytest.approx(ours.attrs["mcse_chain"])
    tables = [post.dependence()["mutual_information"] for post in found]
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["missing", "infinite_splits"])
def test_simulation_agrees_with_quadrature(name):
    post = ps.SPNPosterior.from_idata(sampled_tree(name, draws=10, chains=2))
    for ask in (
        lambda **o: post.mutual_information("x0", "x2", {"x1": 1}, **o),
        lambda **o: post.entropy("x2", **o),
        lambda **o: post.condition({"x1": 1}).kl(post, "x0", **o),
    ):
        exact, drawn = ask(), ask(method="monte-carlo", n=3_000, random_seed=1)
        assert drawn.attrs["exactness"] == "monte-carlo given the draws"
        assert abs(float(exact - drawn)) < SIGMAS * drawn.attrs["mcse"] + 1e-9
        assert float(ask(method="monte-carlo", n=50, random_seed=1)) == float(
            ask(method="monte-carlo", n=50, random_seed=1)
        )
        assert float(ask(method="monte-carlo", n=50, random_seed=1)) != float(
            ask(method="monte-carlo", n=50, random_seed=2)
        )
    low, high = post.entropy().values
    drawn = post.entropy(method="monte-carlo", n=3_000, random_seed=1)
    assert low - SIGMAS * drawn.attrs["mcse"] <= float(drawn) <= high + SIGMAS * drawn.attrs["mcse"]
    given = post.condition({"x1": 1})
    low, high = given.kl(post, ["x0", "x2"]).values
    drawn = given.kl(post, ["x0", "x2"], method="monte-carlo", n=3_000, random_seed=1)
    assert low - SIGMAS * drawn.attrs["mcse"] <= float(drawn) <= high + SIGMAS * drawn.attrs["mcse"]
    again = ps.SPNPosterior.from_idata(sampled_tree(name, draws=5, chains=2))  # another sampling: no bound from above
    simulated = post.kl(again, ["x0", "x2"], n=500, random_seed=1)
    assert simulated.attrs["exactness"] == "monte-carlo given the draws" and np.isfinite(float(simulated))
    low, high = post.kl(again, ["x0", "x2"], method="bounds").values
    assert low - SIGMAS * simulated.attrs["mcse"] <= float(simulated) and high == np.inf
    groups = post.mutual_information(["x0", "x2"], ["x1"], n=500, random_seed=1)
    assert groups.attrs["exactness"] == "monte-carlo given the draws"


@property_of(seed=st.integers(0, 1000), known=st.sampled_from([None, {"x1": {"a", "b"}}, {"x2": 1}]))
@settings(max_examples=10, deadline=None)
def test_information_identities(seed, known):
    """MI >= 0, symmetric, H(a) + H(b) - H(a, b), chain rule; whatever the weights of the draws."""
    weights = np.random.default_rng(seed).normal(size=levels_law().states.n_draws)
    post = weighted_posterior(levels_law().states, weights)
    free = ["x0", "x1"]
    mi = float(post.mutual_information(*free, known))
    assert mi >= 0 and mi == pytest.approx(float(post.mutual_information(*free[::-1], known)), abs=1e-14)
    parts = [float(post.entropy(c, known)) for c in ("x0", "x1", ["x0", "x1"])]
    assert mi == pytest.approx(parts[0] + parts[1] - parts[2], abs=1e-12)
    if known is None:
        by_level = sum(
            float(post.probability({"x2": k})) * float(post.mutual_information("x0", "x1", {"x2": k})) for k in (0, 1)
        )
        both = float(post.mutual_information(["x0"], ["x1", "x2"]))
        assert both == pytest.approx(float(post.mutual_information("x0", "x2")) + by_level, abs=1e-12)
    assert float(post.kl(post)) == 0.0


def test_bounds_of_entropy_go_through_the_draws_once_for_all_pairs(monkeypatch):
    """Once for bounds of the network, once for the pairs; with room for one pair alike."""
    post = levels_posterior()
    asked, on_grids = [], RecordedLaw.on_grids
    monkeypatch.setattr(RecordedLaw, "on_grids", lambda self, s: asked.append(s) or on_grids(self, s))
    whole = post.entropy(method="bounds")
    assert len(asked) <= 2 * levels_law().states.n_draws
    monkeypatch.setattr(grid_law, "BLOCK_VALUES", 1)
    assert post.entropy(method="bounds").equals(whole)


def test_dependence_is_the_table_of_pairs():
    post = ps.SPNPosterior.from_idata(sampled_tree("infinite_missing"))
    table = post.dependence(threshold=1e-4)
    each = post.dependence(per_draw=True)
    assert each.dims == ("chain", "draw", "column", "other")
    np.testing.assert_allclose(each, np.swapaxes(each, -1, -2))
    assert np.isnan(np.diag(table.mutual_information)).all()
    pair = post.mutual_information("x0", "x2", per_draw=True)
    np.testing.assert_allclose(each.sel(column="x0", other="x2"), pair, atol=1e-4)
    mean = table.mutual_information.sel(column="x0", other="x2")
    assert float(mean) == pytest.approx(float(each.sel(column="x0", other="x2").mean()), rel=1e-12)
    low, high = table.hdi.sel(column="x0", other="x2").values
    inside = ((pair >= low - 1e-4) & (pair <= high + 1e-4)).mean()
    assert low <= float(mean) <= high and inside >= 0.93
    assert float(table.p_dependent.sel(column="x0", other="x2")) == float(
        (each.sel(column="x0", other="x2") > 1e-4).mean()
    )
    assert (
        table.attrs["exactness"] == "numerical given the draws" and table.mutual_information.attrs["tolerance"] < 1e-4
    )
    fewer = post.dependence(max_draws=6).mutual_information.attrs
    assert fewer["n_draws"] == 6 and fewer["draws"].startswith("6 of ")


def test_tolerance_of_dependence_is_that_of_the_draws_which_the_grids_fit_least():
    law = RecordedLaw(states_of(sampled_tree("depths", draws=60)))
    found = ps.SPNPosterior(law).dependence(per_draw=True)
    each = tables_of(law, [0, 1], np.arange(120), nested_grids(law, [0, 1], [(36, 1)])[0])[0]
    off = np.abs(found[:, :, 0, 1].values.ravel() - each[:, 0]).max()
    assert 1e-8 < off < found.attrs["tolerance"] < 1e-6


def test_shortest_interval():
    x = np.array([0.0, 10.0, 1.0, 2.0, 3.0])
    assert shortest_interval(x, np.full(5, 0.2), 0.8) == (0.0, 3.0)
    assert shortest_interval(x, np.array([0.1, 0.6, 0.1, 0.1, 0.1]), 0.6) == (10.0, 10.0)


def test_two_far_groups_share_the_information_of_the_group():
    post = two_groups()
    groups = 0.5 * 2 * np.log(2.0)  # two halves
    assert 0.5 * groups < float(post.mutual_information("x0", "x1")) < 1.3 * groups
    low, high = post.entropy().values
    singles = float(post.entropy("x0") + post.entropy("x1"))
    drawn = post.entropy(method="monte-carlo", n=4_000, random_seed=1)
    assert low - 4 * drawn.attrs["mcse"] < float(drawn) < high + 4 * drawn.attrs["mcse"]
    assert high < singles - 0.4 and high - low < 0.25


@pytest.mark.parametrize("sizes", [(3, 197), (74, 126)])
def test_tolerances_hold_where_a_gap_lies_between_two_quantiles(sizes):
    """A group of 1.5 % ends between the quantiles at 0.01 and 0.02, where the panels of the tails meet the bulk's."""
    post = two_groups(sizes)
    far = 15.0 * 1.7 ** np.arange(10)
    (x, wx), (y, wy) = (_panels(np.concatenate([-far[::-1], np.arange(-13.5, 14.0, 1.5), far])),) * 2
    density = np.exp(post.log_density(np.array(list(product(x, y))))).values.reshape(x.size, y.size)
    mass = density * wx[:, None] * wy
    first, second = mass.sum(axis=1), mass.sum(axis=0)
    cut = 40.0 * abs(1.0 - mass.sum())  # what the sums leave out, times its surprise
    assert cut < 1e-4
    entropies = [-np.sum(p * np.log(p / w)) for p, w in ((first, wx), (second, wy))]
    shared = np.sum(mass * np.log(mass / np.outer(first, second)))
    both = -np.sum(mass * np.log(density))
    for found, exact in (
        (post.entropy("x0"), entropies[0]),
        (post.entropy("x1"), entropies[1]),
        (post.mutual_information("x0", "x1"), shared),
        (post.dependence()["mutual_information"][0, 1], shared),
    ):
        assert abs(float(found) - exact) < found.attrs["tolerance"] + cut
        assert found.attrs["tolerance"] < 1e-6
    bounds = post.entropy()
    off = bounds.attrs["tolerance"] + cut
    assert bounds[0] - off < both < bounds[1] + off and off < 1e-6


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.mutual_information("x0", "x0"), "first and second must differ, both name 'x0'"),
        (lambda p: p.mutual_information("x0", "z"), "second must name one of the columns"),
        (lambda p: p.mutual_information("x0", []), "second must name at least one column"),
        (lambda p: p.mutual_information("x0", "x1", method="exact"), "method must be one of"),
        (lambda p: p.mutual_information("x0", "x1", {"x0": 1}), "column 'x0' is given at a value"),
        (lambda p: p.mutual_information("x0", "x2", method="enumeration"), "needs binary or categorical columns"),
        (lambda p: p.mutual_information(["x0", "x2"], "x1", method="quadrature"), "is for two single columns"),
        (lambda p: p.mutual_information(["x0", "x2"], "x1", per_draw=True), "per_draw=True is for two single columns"),
        (lambda p: p.mutual_information("x0", "x2", method="monte-carlo", n=1), "n must be an integer of at least 2"),
        (lambda p: p.dependence(prob=1.0), "prob must be within 0 and 1"),
        (lambda p: p.dependence(threshold=-1), "threshold must be at least 0"),
        (lambda p: p.dependence(max_draws=0), "max_draws must be an integer of at least 1"),
        (lambda p: p.marginal(["x0"]).dependence(), "at least two columns"),
        (lambda p: p.entropy(method="quadrature"), "is for a single column"),
        (lambda p: p.entropy([]), "at least one column"),
        (lambda p: p.kl(levels_posterior()), "other must have masses in the column 'x0' where this has, or densities"),
    ],
)
def test_bad_questions_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(posterior_of("missing"))
    with pytest.raises(TypeError, match="other must be a posterior, a fit or a circuit"):
        posterior_of("missing").kl(3)


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        (lambda p: p.mutual_information({"x0": (0.0, 1.0)}, "x1"), "first"),
        (lambda p: p.mutual_information("x0", {"x1": {"a"}}), "second"),
        (lambda p: p.entropy({"x0": (0.0, 1.0)}), "columns"),
        (lambda p: p.marginal({"x0": (0.0, 1.0)}), "columns"),
        (lambda p: p.entropy(3.5), "columns"),
    ],
)
def test_events_are_not_taken_for_the_names_of_their_columns(ask, argument):
    with pytest.raises(TypeError, match=f"{argument} must be a list of names, got .*; what is known goes into given="):
        ask(posterior_of("missing"))
