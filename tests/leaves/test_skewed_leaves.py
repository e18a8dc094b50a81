"""Log-normal, geometric and binomial leaves in the sampled network: what the tests of all families do not reach.

Densities, events, conditions, draws, circuits and samplers of these leaves stand in the tests of the other leaves, on
the problems "skewed" and "infinite_skewed", for binomial ones also on "palette" and "splits".
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate, stats

import pymc_spn as ps
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.palette import choose_coding, code_values, compile_palette, complete_palette
from pymc_spn.leaves import beta_geometric, log_student_t
from pymc_spn.leaves.families import BetaProbability, BetaTrials, NormalGamma
from pymc_spn.leaves.family_codes import LOG_STUDENT_T
from pymc_spn.maxima.box_leaves import derivative_ranges, leaf_log_range
from pymc_spn.maxima.circuit_packer import CircuitPacker, rooted
from pymc_spn.tables import Column
from tests import reference_queries
from tests.hand_made_records import (
    enumerated_posterior,
    enumerated_tree,
    posterior_of,
    problem_of,
    sampled_tree,
    schema_of,
)
from tests.reference import BINOMIAL, GEOMETRIC, LOG_NORMAL, Problem


# ---- queries
def test_means_are_infinite_until_the_column_is_bounded():
    post, problem = posterior_of("skewed"), problem_of("skewed")
    whole = post.mean()
    assert whole.values[0] == np.inf and np.isfinite(whole.values[1]) and whole.attrs["infinite_mean"] == ["x0"]
    spread = post.cov()
    assert np.isnan(spread.values[0]).all() and np.isfinite(spread.values[1, 1])
    known, ref = {"x0": (0.2, 5.0), "x1": (0, 6)}, {0: (0.2, 5.0), 1: (0, 6)}
    mean, cov = post.mean(known), post.cov(known)
    np.testing.assert_allclose(mean, reference_queries.mean(problem, ref), rtol=1e-7)
    np.testing.assert_allclose(cov, reference_queries.covariance(problem, ref), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(post.moment(1, known, central=True), 0.0, atol=1e-9)
    np.testing.assert_allclose(post.moment(2, known, central=True), np.diag(cov), rtol=1e-7)
    exact = reference_queries.mean(problem, {0: (0.2, 5.0)})[1]
    assert float(post.mean({"x0": (0.2, 5.0)})[1]) == pytest.approx(exact, rel=1e-7)


def test_moments_over_long_ranges():
    """Many orders of magnitude: log-normal against draws' logs in closed form, counts against a plain sum."""
    wide = NormalGamma(np.array([1.0]), np.array([3e5]), np.array([3e5]), np.array([3e5 * 4.0]))  # all but normal, sd 2
    found = log_student_t.about_within(wide, 1e-8, 1e8, np.zeros(1), 2)[0]
    a, b = (np.log(1e-8) - 1.0) / 2.0, (np.log(1e8) - 1.0) / 2.0
    for k in (1, 2):
        tilted = np.diff(stats.norm.cdf([a - 2.0 * k, b - 2.0 * k]))[0] / np.diff(stats.norm.cdf([a, b]))[0]
        assert found[k] == pytest.approx(np.exp(k + 2.0 * k**2) * tilted, rel=2e-3)  # a Student t is not quite normal
    odds = BetaProbability(np.array([1.5]), np.array([40.0]))
    x = np.arange(10.0, 3_000_001.0)
    mass = stats.betanbinom.pmf(x, 1, 1.5, 40.0)
    exact = [(mass * (x - 2.0) ** k).sum() / mass.sum() for k in range(3)]
    np.testing.assert_allclose(beta_geometric.about_within(odds, 10.0, 3e6, np.full(1, 2.0), 2)[0], exact, rtol=1e-7)


@pytest.mark.parametrize("name", ["skewed", "infinite_skewed"])
def test_the_most_probable_row_is_above_the_spike_at_zero(name):
    post = posterior_of(name)
    found = post.mpe()
    assert found.certified
    grid = pd.DataFrame(
        [(x, k) for x in np.exp(np.linspace(np.log(float(post.quantile(1e-3, "x0"))), 2.0, 200)) for k in range(6)],
        columns=["x0", "x1"],
    )
    best = float(post.log_density(grid).max())
    assert float(found.log_density) - 1e-2 < best <= float(found.upper_bound) + 1e-9
    assert float(post.log_density(found.value)[0]) == pytest.approx(float(found.log_density), abs=1e-9)
    inside = post.mpe({"x0": (0.6, 0.9)})
    assert inside.certified and 0.6 <= float(inside.value["x0"].iloc[0]) <= 0.9
    assert float(post.log_density(pd.DataFrame({"x0": [1e-250], "x1": [0]}))[0]) > float(found.log_density)


def test_ranges_of_a_log_student_leaf_hold():
    """Value and two derivatives at points of random intervals, the derivatives by central differences."""
    rng, out = np.random.default_rng(6), np.empty(4)
    for _ in range(200):
        m, s, v = rng.normal(), np.exp(rng.normal(-0.5, 0.8)), np.exp(rng.normal(1.5, 1.0))
        p = np.array([m, s, v, stats.t.logpdf(0.0, v) - np.log(s)])
        low, high = np.sort(np.exp(m + 4 * s * rng.normal(size=2)))
        shift = rng.normal()
        builder = CircuitPacker()
        packed = rooted(builder, builder.add(LOG_STUDENT_T, (), (), 0, tuple(p)))
        least, most = leaf_log_range(packed, 0, low, high)
        derivative_ranges(LOG_STUDENT_T, p, low, high, shift, out)
        x = np.exp(np.linspace(np.log(low), np.log(high), 60))[1:-1]
        h = 1e-4 * x

        def density(x, m=m, s=s, v=v, shift=shift):
            return np.exp(stats.t.logpdf(np.log(x), v, m, s) - np.log(x) - shift)

        logs = np.log(density(x)) + shift
        assert least - 1e-9 <= logs.min() and logs.max() <= most + 1e-9
        first = (density(x + h) - density(x - h)) / (2 * h)
        second = (density(x + h) - 2 * density(x) + density(x - h)) / h**2
        room = 1e-4 * max(np.abs(out).max(), 1e-12)
        assert out[0] - room <= first.min() and first.max() <= out[1] + room
        assert out[2] - room <= second.min() and second.max() <= out[3] + room


def test_dependence_and_entropy():
    post = ps.SPNPosterior.from_idata(sampled_tree("skewed", draws=2, chains=1))
    log_grid, step = np.linspace(-14.0, 14.0, 701, retstep=True)
    grid = np.exp(log_grid)
    joint = np.array([np.exp(post.log_density(pd.DataFrame({"x0": grid, "x1": k}))) for k in range(50)]) * grid * step
    assert joint.sum() == pytest.approx(1.0, abs=1e-3)
    joint = joint / joint.sum()
    product = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    exact = float(np.sum(joint * np.log(joint / product)))
    assert float(post.mutual_information("x0", "x1")) == pytest.approx(exact, abs=2e-3 * exact + 2e-4)
    margin = joint.sum(axis=0)
    entropy = -float(np.sum(margin * np.log(margin / (grid * step))))
    one = post.marginal(["x0"]).entropy()
    fine = np.linspace(-300.0, 300.0, 60_001)  # in logs the column is a Student t: its tails are long
    logs = post.marginal(["x0"]).log_density(pd.DataFrame({"x0": np.exp(fine)})).values
    mass = np.exp(logs + fine) * (fine[1] - fine[0])
    assert abs(mass.sum() - 1.0) < 1e-8 and abs(-float(mass @ logs) - entropy) < 5e-3
    assert abs(float(one) + float(mass @ logs)) <= one.attrs["tolerance"] < 1e-3


@pytest.mark.parametrize(("shape", "rate", "exists"), [(0.4378, 3000.0, False), (0.5, 0.5, False), (0.6, 0.5, True)])
def test_an_entropy_is_promised_where_it_exists(shape, rate, exists):
    # E abs(log x) of the prior's leaf is infinite for 2 leaf_shape <= 1, however small the leaf's share
    problem = problem_of("skewed")
    own = {"a0": shape, "b0": rate}
    palettes = [[(f, prior | own if "a0" in prior else prior) for f, prior in p] for p in problem.palettes]
    post = ps.SPNPosterior.from_idata(enumerated_tree(replace(problem, palettes=palettes))[0]).marginal(["x0"])
    assert np.isfinite(post.entropy().attrs["tolerance"]) == exists
    assert np.isfinite(post.entropy(given={"x0": (0.01, None)}).attrs["tolerance"]) == exists
    within = post.entropy(given={"x0": (0.01, 50.0)})  # without the tails it always does
    y, step = np.linspace(np.log(0.01), np.log(50.0), 20_001, retstep=True)
    logs = post.log_density(pd.DataFrame({"x0": np.exp(y)})).values
    p = np.exp(logs + y)
    total = integrate.simpson(p, dx=step)
    expected = integrate.simpson(-p * logs, dx=step) / total + np.log(total)
    assert abs(float(within) - expected) < 1e-7 and within.attrs["tolerance"] < 1e-7


def test_draws_stay_in_their_supports_and_follow_the_cdf():
    post = ps.SPNPosterior.from_idata(sampled_tree("skewed", draws=60))
    drawn = post.sample(4000, random_seed=2)
    assert (drawn["x0"] > 0).all() and (drawn["x1"] >= 0).all() and (drawn["x1"] == np.round(drawn["x1"])).all()
    for q in (0.1, 0.5, 0.9):
        x = float(post.quantile(q, "x0"))
        assert abs((drawn["x0"] <= x).mean() - q) < 5 * np.sqrt(q * (1 - q) / 4000)
    k = 2.0
    share = float(post.cdf(k, "x1"))
    assert abs((drawn["x1"] <= k).mean() - share) < 5 * np.sqrt(share * (1 - share) / 4000)


def test_counts_beyond_all_integers_stay_counts():
    """Geometric leaves whose probability of stopping is often below 1e-19."""
    rare = ("geometric", {"alpha": 0.02, "beta": 1.0})
    post = enumerated_posterior(Problem(((0,), (1,)), 2, 1.0, 9.0, [[LOG_NORMAL], [rare]], np.array([[1.3, 2.0]])))
    drawn = post.sample(200, random_seed=1)["x1"]
    assert drawn.min() >= 0 and drawn.max() == beta_geometric.LARGEST_COUNT


def test_prior_tables_follow_the_prior_predictives():
    """One row: its values are draws from the prior predictives, ranks by the distribution functions uniform."""
    leaves = [[LOG_NORMAL], [GEOMETRIC], [BINOMIAL]]
    problem = Problem(((0,), ((1,), (2,))), 2, 1.0, 1.0, leaves, np.array([[1.3, 2.0, 1.0]]))
    schema, rng = schema_of(problem), np.random.default_rng(7)
    chain = Chain(schema, problem.X)
    fixed = [np.array(schema.hyperparameters[k]["fixed"]) for k in ("leaf_shape", "precision_ratio")]
    drawn = np.array([chain.draw_prior_table(rng, [np.ones(2), np.ones(3), *fixed])[0] for _ in range(400)])
    x, k, successes = drawn.T
    located = NormalGamma(*(LOG_NORMAL[1][key] for key in ("mu0", "rho0", "a0", "b0")))
    assert stats.kstest(ps.leaves.LogNormal.predictive_cdf(located, x), "uniform").pvalue > 1e-4
    odds = BetaProbability(GEOMETRIC[1]["alpha"], GEOMETRIC[1]["beta"])
    below, upto = ps.leaves.Geometric.predictive_cdf(odds, k - 1.0), ps.leaves.Geometric.predictive_cdf(odds, k)
    assert stats.kstest(below + rng.random(k.size) * (upto - below), "uniform").pvalue > 1e-4
    assert (k == np.round(k)).all() and (x > 0).all()
    trials = BetaTrials(*(BINOMIAL[1][key] for key in ("alpha", "beta", "trials")))
    expected = 400 * np.exp(ps.leaves.Binomial.predictive_log_density(trials, np.arange(6.0)))
    assert stats.chisquare(np.bincount(successes.astype(int), minlength=6), expected).pvalue > 1e-4


def test_a_saved_posterior_answers_the_same(tmp_path):
    post = ps.SPNPosterior.from_idata(sampled_tree("infinite_skewed", draws=4))
    rows = pd.DataFrame({"x0": [0.4, 2.0, np.nan], "x1": [0, 3, 1]})
    post.save(tmp_path / "post.nc")
    again = ps.load(tmp_path / "post.nc")
    np.testing.assert_array_equal(again.log_density(rows), post.log_density(rows))
    assert again.leaf_types("x0").family.values.tolist() == ["log_normal"]


def test_no_more_successes_than_trials():
    """Entries of five and nine trials: all answers end at nine."""
    post = posterior_of("palette")
    rows = pd.DataFrame({"x0": [1, 1], "x1": ["a", "b"], "x2": [9, 10]})
    assert np.isfinite(post.log_density(rows)[0]) and post.log_density(rows)[1] == -np.inf
    assert float(post.probability({"x2": (10, None)})) == 0.0
    assert float(post.cdf(9, "x2")) == pytest.approx(1.0, abs=1e-14)
    low, middle, high = post.quantile([0.0, 0.5, 1.0], "x2").values
    assert (low, high) == (0.0, 9.0) and 0.0 < middle < 9.0
    assert float(post.quantile(1.0, "x2", {"x2": (1.5, 4.5)})) == 4.0
    assert post.sample(2000, random_seed=1)["x2"].between(0, 9).all()


# ---- the palette
def test_a_wide_column_keeps_its_digits():
    """Twelve orders of magnitude: logs of the coded values are those of the data less the geometric mean."""
    x = np.exp(np.random.default_rng(1).normal(0.0, 7.0, 200))[:, None]
    columns = (Column("x", "positive", None, "float64"),)
    palette, grids = complete_palette(columns, x, {"x": ps.leaves.LogNormal()})
    centre, scale = choose_coding(palette, x, columns)
    compiled = compile_palette(columns, palette, grids, centre, scale)
    logs = np.log(code_values(compiled, x) + compiled.offset)
    np.testing.assert_allclose(logs, np.log(x) - np.log(x).mean(), rtol=1e-12, atol=1e-12)
    assert compiled.constants[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert compiled.constants[0, 1] == pytest.approx(np.log(x).var())


@pytest.mark.parametrize(
    ("kind", "leaves", "message"),
    [
        ("real", ps.leaves.LogNormal(), "LogNormal leaves need a column of kind positive"),
        ("positive", ps.leaves.Geometric(), "Geometric leaves need a column of kind count"),
        ("real", ps.leaves.Binomial(3), "Binomial leaves need a column of kind count"),
        (
            "count",
            [ps.leaves.Poisson(), ps.leaves.Binomial(3)],
            "n_trials=3 need counts of at most 3; .*'x' has 4 at position 1",
        ),
        (
            "count",
            [ps.leaves.Poisson(), ps.leaves.Geometric()],
            r"counts must be at most 1e\+11 under Poisson leaves, .*; column 'x' has 1099511627776. Declare it integer",
        ),
    ],
)
def test_kinds_and_counts_that_do_not_fit(kind, leaves, message):
    values = [1.0, 2.0**40] if "at most 1e" in message else [1.0, 4.0]
    table = ps.Table.from_frame(pd.DataFrame({"x": values}), kinds={"x": kind})
    with pm.Model(), pytest.raises(ValueError, match=message):
        ps.SPN("x", ps.circuits.complete_tree(table.columns), observed=table, leaves={"x": leaves})


# ---- families found again
@cache
def known_families():
    """Chains on columns drawn from known families, under palettes that leave several open."""
    rng = np.random.default_rng(4)
    n = 120
    df = pd.DataFrame(
        {
            "skew": np.exp(rng.normal(1.0, 0.9, n)),
            "bell": rng.normal(30.0, 2.0, n),
            "wait": rng.exponential(3.0, n),
            "tries": rng.geometric(0.12, n) - 1,
            "calls": rng.poisson(7.0, n),
            "scales": np.where(rng.random(n) < 0.5, rng.normal(0.0, 0.05, n), rng.normal(0.0, 1.0, n)),
        }
    )
    table = ps.Table.from_frame(df, kinds=dict.fromkeys(["skew", "bell", "wait"], "positive"))
    reals, counts = (
        [ps.leaves.LogNormal(), ps.leaves.Gaussian(), ps.leaves.Exponential()],
        [ps.leaves.Geometric(), ps.leaves.Poisson()],
    )
    leaves = {"skew": reals, "bell": reals[1:], "wait": reals, "tries": counts, "calls": counts}
    leaves["scales"] = [ps.leaves.Gaussian(relative_scale=0.01), ps.leaves.Gaussian()]
    with pm.Model():
        ps.SPN(
            "x", ps.circuits.complete_tree(table.columns, n_children=6), observed=table, leaves=leaves, leaf_scale=0.5
        )
        idata = pm.sample(
            80, tune=80, chains=2, cores=1, random_seed=3, progressbar=False, compute_convergence_checks=False
        )
    return df, ps.SPNPosterior.from_idata(idata)


def test_leaf_types_find_the_families_that_made_the_data():
    df, post = known_families()
    share = {c: post.leaf_types(c).mean(("chain", "draw")) for c in df}
    assert share["skew"].sel(family="log_normal") > 0.6
    assert share["bell"].sel(family="gaussian") > 0.9
    assert share["wait"].sel(family="exponential") > 0.5
    assert share["tries"].sel(family="geometric") > 0.8
    assert share["calls"].sel(family="poisson") > 0.8


def test_two_scales_of_one_family_share_the_rows():
    """Half of the column comes from each scale; the two differ by the square root of their ratio in width."""
    df, post = known_families()
    share = post.leaf_types("scales", by_entry=True)
    assert share.dims == ("chain", "draw", "entry") and share["family"].values.tolist() == ["gaussian", "gaussian"]
    assert share["relative_scale"].values.tolist() == [0.01, 1.0]
    narrow = float(share.sel(entry=0).mean())
    assert 0.25 < narrow < 0.75
    np.testing.assert_allclose(share.sum("entry"), 1.0)
    assert post.leaf_types("scales").values.ravel().tolist() == [1.0] * 160
    # the mixture of scales beats what one Gaussian can do
    log = post.marginal(["scales"]).log_density(df[["scales"]])
    assert float(log.mean()) > stats.norm.logpdf(df["scales"], 0.0, df["scales"].std()).mean() + 0.2


def test_the_most_probable_value_is_above_the_spike_where_other_leaves_reach_below_zero():
    """Gaussian leaves beside log-normal ones put the column's own quantile below 0, which cuts nothing off."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"skew": np.exp(rng.normal(rng.integers(0, 2, 80), 0.5))})
    table = ps.Table.from_frame(df, kinds={"skew": "positive"})
    with pm.Model():
        palette = {"skew": [ps.leaves.LogNormal(), ps.leaves.Gaussian()]}
        ps.SPN("x", ps.circuits.complete_tree(table.columns), observed=table, leaves=palette, leaf_scale=0.5)
        idata = pm.sample(
            30, tune=30, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    post = ps.SPNPosterior.from_idata(idata)
    below = float(post.cdf(0.0, "skew"))
    least = float(post.quantile(below + 1e-3 * (1.0 - below), "skew"))
    assert float(post.quantile(1e-3, "skew")) < 0.0 < least
    found = post.mpe()
    grid = pd.DataFrame({"skew": np.exp(np.linspace(np.log(least), 3.0, 4000))})
    best = float(post.log_density(grid).max())
    assert best - 1e-9 <= float(found.log_density) < best + 1e-3 and float(found.value["skew"].iloc[0]) >= least
    held = post.as_circuit()
    alone = held.mpe()
    assert float(alone.log_density) == pytest.approx(float(found.log_density), abs=1e-5)
