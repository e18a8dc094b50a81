"""Numbers and levels when another variable is set, against sums over configurations and graphs, and Wishart draws."""

import itertools

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute
from scipy.stats import wishart

import pymc_spn as ps
from pymc_spn.dags.set_effects import intercept_and_slopes, laws_when_set, means_when_set, posterior_of

NAMES = ["x", "s", "y", "g"]
LEVELS = {1: ["f", "m"], 3: [1, 2, 3]}
NUMERIC = [0, 2]


def mixed_table(n=40):
    """s and g depend on one another, x on both, y on all, its slope in x on g. Units and means are far from 1 and 0."""
    rng = np.random.default_rng(5)
    s = rng.integers(2, size=n)
    g = (s + rng.integers(2, size=n) + rng.integers(2, size=n) * rng.integers(2, size=n)) % 3
    x = 2.0 + 0.8 * s + 0.5 * g + rng.normal(size=n)
    y = np.where(g == 1, 1.0, -0.6) * x + s + 0.7 * rng.normal(size=n)
    levels = {NAMES[i]: pd.Categorical.from_codes(c, LEVELS[i]) for i, c in ((1, s), (3, g))}
    return pd.DataFrame({"x": x, "y": 3.0 * y, **levels})[NAMES]


def scores_of(df, known=None, **options):
    score = ps.ConditionalGaussian(bdeu=ps.BDeu(3.0))
    return ps.LocalScores.from_data(df, score, interventions=known, progressbar=False, **options)


def possible_graphs():
    """Those of four variables without an edge from a number to a level."""
    graphs = brute.all_dags(4)
    return graphs[~graphs[:, NUMERIC][:, :, list(LEVELS)].any(axis=(1, 2))]


def regression(df, known, i, parents, config, units):
    """Intercept and coefficients at their posterior means: dense algebra on the rows of a configuration."""
    numbers, discrete = ([j for j in parents if (j in NUMERIC) is kind] for kind in (True, False))
    u = df[["x", "y"]].to_numpy()
    centre, scale = u.mean(axis=0), np.where(units, u.std(axis=0), 1.0)
    z = (u - centre) / scale
    fits = ~known[:, i]
    for j in discrete:
        fits &= df[NAMES[j]].cat.codes.to_numpy() == config[j]
    z = z[fits]
    n, mean = len(z), z.sum(axis=0) / (1 + len(z))
    gram = z.T @ z - (1 + n) * np.outer(mean, mean) + 0.5 * np.eye(2)  # nu = 0, alpha_mu = 1: completes the square
    k, others = NUMERIC.index(i), [NUMERIC.index(j) for j in numbers]
    b = np.linalg.solve(gram[np.ix_(others, others)], gram[others, k]) if others else np.zeros(0)
    m = mean[k] - b @ mean[others]
    b = b * scale[k] / scale[others]
    return centre[k] + scale[k] * m - b @ centre[others], dict(zip(numbers, b, strict=True))


def probability(df, known, i, parents, config, ess=3.0):
    codes = {j: df[NAMES[j]].cat.codes.to_numpy() for j in LEVELS}
    fits = ~known[:, i]
    for j in parents:
        fits &= codes[j] == config[j]
    cells = np.prod([len(LEVELS[j]) for j in parents], dtype=float)
    hits = fits & (codes[i] == config[i])
    return (hits.sum() + ess / cells / len(LEVELS[i])) / (fits.sum() + ess / cells)


def by_enumeration(df, known, graph, cause, effect, value, units=False, cut=True):
    """E(effect | do(cause = value)): all configurations, numeric means one after the other."""
    total, weight = 0.0, 0.0
    for config in itertools.product(*(range(len(levels)) for levels in LEVELS.values())):
        config = dict(zip(LEVELS, config, strict=True))
        if cause in LEVELS and config[cause] != value:
            continue
        p = 1.0
        for i in LEVELS:
            if i != cause or not cut:
                p *= probability(df, known, i, np.flatnonzero(graph[:, i]), config)
        means = {cause: value} if cause in NUMERIC else {}
        while effect not in means:
            for i in NUMERIC:
                parents = np.flatnonzero(graph[:, i]).tolist()
                if i not in means and all(j in means for j in parents if j in NUMERIC):
                    m, b = regression(df, known, i, parents, config, units)
                    means[i] = m + sum(b[j] * means[j] for j in b)
        total, weight = total + p * means[effect], weight + p
    return total / weight


@pytest.mark.parametrize("case", ["plain", "set", "standardized"])
def test_each_graph_is_summed_over(case):
    df = mixed_table()
    known = np.zeros(df.shape, bool)
    if case == "set":
        known[:9, 2] = known[5:15, 3] = True
    units = case == "standardized"
    rows = scores_of(df, known, standardize=units).counts
    graphs = possible_graphs()[:: 13 if case == "plain" else 40]
    off = 0.0
    for cause, effect in itertools.product(range(4), NUMERIC):
        if cause == effect:
            continue
        found = means_when_set(graphs, rows, cause, effect, None)
        values = [-1.0, 2.0] if cause in NUMERIC else range(len(LEVELS[cause]))
        for k, value in enumerate(values):
            at = found[:, 0] @ [1.0, value] if cause in NUMERIC else found[:, k, 0]
            expected = [by_enumeration(df, known, g, cause, effect, value, units) for g in graphs]
            np.testing.assert_allclose(at, expected, atol=1e-10)
            if case == "plain":
                uncut = by_enumeration(df, known, graphs[-1], cause, effect, value, cut=False)
                off = max(off, np.abs(uncut - expected[-1]))
    assert off > 0.01 or case != "plain"  # to condition is not to set


def test_numbers_do_not_cause_levels():
    rows = scores_of(mixed_table()).counts
    for graph in possible_graphs()[::7]:
        alone = laws_when_set(graph[None], rows, 0, 3, None)[0]
        assert alone.shape == (1, 3)
        both = laws_when_set(graph[None], rows, 1, 3, None)[0]
        assert graph[1, 3] or np.ptp(both, axis=0).max() < 1e-12
        np.testing.assert_allclose(alone.sum(), 1.0)


def test_drawn_coefficients_are_those_of_wishart_matrices():
    """20,000 draws; means within five standard errors, standard deviations within 3 % (four of theirs, 0.6 % each).

    The whole normal-Wishart vector is drawn for each configuration, and the regression taken from its covariance. One
    degree of freedom less there, or a mean without the prior's row, is seen.
    """
    df, n = mixed_table(8).assign(w=np.linspace(-2.0, 2.0, 8) ** 3), 20_000
    known, rng = posterior_of(scores_of(df).counts, (2, 0, 1, 4)), np.random.default_rng(0)
    drawn = np.array([intercept_and_slopes(known, rng) for _ in range(n)])
    z = df[["x", "y", "w"]].to_numpy()
    centre = z.mean(axis=0)

    def off(level, lost=0, alpha_mu=1):
        own = (z - centre)[df["s"].cat.codes == level]
        rows = alpha_mu + len(own)
        mean = own.sum(axis=0) / rows
        scale = own.T @ own - rows * np.outer(mean, mean) + 0.5 * np.eye(3)
        covariance = np.linalg.inv(wishart.rvs(5 + len(own) - lost, np.linalg.inv(scale), n, rng))
        normal = np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), rng.normal(size=(n, 3)))
        mu = centre + mean + normal / np.sqrt(rows)
        b = np.linalg.solve(covariance[:, [0, 2]][:, :, [0, 2]], covariance[:, [0, 2], 1][..., None])[..., 0]
        expected = np.column_stack([mu[:, 1] - (b * mu[:, [0, 2]]).sum(axis=1), b])
        found = drawn[:, level]
        error = np.sqrt((found.var(axis=0) + expected.var(axis=0)) / n)
        of_means = np.abs(found.mean(axis=0) - expected.mean(axis=0)) / error / 5
        return max(of_means.max(), np.abs(found.std(axis=0) / expected.std(axis=0) - 1.0).max() / 0.03)

    for level in (0, 1):
        assert off(level) < 1.0
        assert off(level, lost=1) > 1.0
        assert off(level, alpha_mu=0) > 1.0


def test_the_average_over_graphs_is_that_of_the_posterior():
    """3,000 draws: within five standard errors of the sum over all graphs."""
    df = mixed_table()
    scores = scores_of(df)
    post = ps.OrderSPN.exact(scores)
    _, p = brute.posterior(lambda i, s: scores.of(NAMES[i])[scores.index_of_parents(i, sum(1 << j for j in s))], 4)
    graphs, p = brute.all_dags(4)[p > 0], p[p > 0]

    def within(found, truth):
        assert (np.abs(found - truth) <= 5 * found.attrs["mcse"] + 1e-12).all()

    by_level = np.tensordot(p, means_when_set(graphs, scores.counts, 3, 2, None)[..., 0], 1)
    within(post.mean_when_set("y", "g", draws=3_000, random_seed=0), by_level)
    found = post.mean_when_set("y", "g", 2, 3_000, random_seed=1)
    within(found, by_level - by_level[1])
    assert found.dims == ("set_to",) and list(found.set_to.values) == LEVELS[3] and found[1] == 0.0
    assert found.attrs["exactness"] == "monte-carlo" and found.attrs["given_graph"] == "exact"
    constant, slope = np.tensordot(p, means_when_set(graphs, scores.counts, 0, 2, None), 1)[0]
    at = [-1.0, 0.5, 3.0]
    within(post.mean_when_set("y", "x", None, 3_000, random_seed=2, at=at), constant + slope * np.array(at))
    within(post.mean_when_set("y", "x", 0.5, 3_000, random_seed=3, at=at), slope * (np.array(at) - 0.5))
    drawn = post.sample_when_set("y", "x", 3_000, 0.5, random_seed=4, at=at)
    assert drawn.dims == ("draw", "set_to") and drawn.attrs["exactness"] == "exact simulation"
    error = drawn.std("draw").values / np.sqrt(3_000)
    assert (np.abs(drawn.mean("draw") - slope * (np.array(at) - 0.5)) <= 5 * error + 1e-12).all()
    of_levels = np.tensordot(p, laws_when_set(graphs, scores.counts, 1, 3, None), 1)
    within(post.probabilities_when_set("g", "s", draws=3_000, random_seed=5), of_levels)
    same = post.probabilities_when_set("g", "x", 1.0, 50, random_seed=6, at=[0.0, 2.0])
    assert same.shape == (2, 3) and not same.any()


def test_it_is_bdeu_for_levels_alone_and_bge_for_numbers_alone():
    df = mixed_table()
    both = [ps.DagPosterior.from_data(df[["s", "g"]], score) for score in (ps.ConditionalGaussian(), ps.BDeu())]
    found, expected = (p.probabilities_when_set("g", "s", random_seed=0) for p in both)
    np.testing.assert_array_equal(found, expected)
    both = [ps.DagPosterior.from_data(df[["x", "y"]], score) for score in (ps.ConditionalGaussian(), ps.BGe())]
    slope = both[0].mean_when_set("y", "x", 1.0, 2_000, random_seed=0, at=[2.0])
    exact = both[1].causal_effects().sel(cause="x", effect="y")
    assert np.abs(slope.item() - float(exact)) < 5 * slope.attrs["mcse"].item()


def test_sampled_orders_and_files_answer_too(tmp_path):
    df = mixed_table()
    known = np.zeros(df.shape, bool)
    known[:5, 2] = True
    options = {"score": ps.ConditionalGaussian(), "interventions": known, "standardize": True, "progressbar": False}
    exact = ps.DagPosterior.from_data(df, **options)
    post = ps.DagPosterior.from_data(df, engine="orders", random_seed=1, **options)
    found, reference = (p.mean_when_set("y", "g", None, 2_000, random_seed=0) for p in (post, exact))
    assert found.attrs["exactness"] != reference.attrs["exactness"]
    spread = np.hypot(found.attrs["mcse"], reference.attrs["mcse"])
    assert (np.abs(found.values - reference.values) < 6 * spread + 1e-12).all()
    for one in (exact, post):
        one.save(tmp_path / "post.nc")
        again = ps.load(tmp_path / "post.nc")
        for effect in "yg":
            of_both = (p.sample_when_set(effect, "x", 50, random_seed=0, at=[1.0]) for p in (one, again))
            np.testing.assert_array_equal(*of_both)


def test_questions_that_do_not_fit_are_refused():
    post = ps.DagPosterior.from_data(mixed_table(), ps.ConditionalGaussian())
    for message, ask in (
        ("at must name the values that 'x' is set to", lambda: post.mean_when_set("y", "x")),
        ("at must be finite numbers, got nan", lambda: post.mean_when_set("y", "x", at=[1.0, np.nan])),
        ("at must be finite numbers, got 'one'", lambda: post.mean_when_set("y", "x", at="one")),
        ("at must be finite numbers, got \\[\\]", lambda: post.mean_when_set("y", "x", at=[])),
        ("versus must be finite numbers, got 'f'", lambda: post.sample_when_set("y", "x", 9, "f", at=[1.0])),
        ("at is for numeric causes; 'g' has levels", lambda: post.mean_when_set("y", "g", at=[1])),
        ("versus must be a level of 'g', \\[1, 2, 3\\]; got 7", lambda: post.mean_when_set("y", "g", versus=7)),
        ("effect: 'g' has levels; ask probabilities_when_set", lambda: post.mean_when_set("g", "s")),
        ("effect: 'y' is numeric; ask mean_when_set", lambda: post.probabilities_when_set("y", "s")),
        ("causal effects need BGe scores", lambda: post.sample_effects(5)),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
