"""Learned hyperparameters: slice updates against grids, and NUTS in `pm.sample` against enumeration.

Quartiles are compared: the fraction of draws below each exact quartile may be off by five standard errors, from the
effective sample size.
"""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import pymc_spn as ps
from pymc_spn.gibbs.hyperparameters import GAMMA
from pymc_spn.networks.hyperparameter_inputs import PRIORS
from pymc_spn.networks.records.record import read_record
from tests.network_problems import HYPERPARAMETERS, reference_problem
from tests.networks.hyperparameter_chains import (
    LOG_NAMES,
    OWNED,
    PALETTE,
    PRIOR_TABLE,
    WITH_TRIALS,
    draw_hyperparameters,
    draw_joint,
    fixed_schema,
    install,
    logs,
    make_chain,
    plant_missing_jacobian,
)
from tests.reference import (
    all_states,
    group_rows,
    log_joint,
    log_likelihood,
    log_prior,
    log_relabellings,
    state_from_digits,
)

nan = np.nan


def log_prior_of_log(group, v):
    """Log density of the log of a hyperparameter, of the shape of its excess over 1."""
    family, a, b = PRIORS[group]
    return stats.gamma.logpdf(np.exp(v), a, scale=1 / b) + v if family == GAMMA else stats.norm.logpdf(v, a, b)


def quartiles(v, log_density):
    """Exact quartiles from a density on a fine grid."""
    p = np.exp(log_density - log_density.max())
    cdf = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2)])
    return np.interp([0.25, 0.5, 0.75], cdf / cdf[-1], v)


def quartile_scores(draws, exact):
    """Standard errors between the fractions of draws (chain, draw) below the exact quartiles and 1/4, 1/2, 3/4."""
    found = []
    for at, fraction in zip(exact, (0.25, 0.5, 0.75), strict=True):
        below = (draws < at).astype(float)
        found.append((below.mean() - fraction) / np.sqrt(0.25 / min(float(az.ess(below, method="mean")), below.size)))
    return np.array(found)


# ---- slice updates at fixed assignments
OBSERVED = np.ones((9, 4), bool)
OBSERVED[2, 0] = OBSERVED[5, 2] = False


def log_gaussian_leaves(schema, state, table, scale, shape, ratio):
    """Log marginal of the Gaussian column, vectorised over its hyperparameters."""
    tree = schema.structure
    r = int(tree.leaf_region[0])
    path = [a for a in range(r + 1) if tree.begin[a] <= tree.begin[r] and tree.end[a] >= tree.end[r]]
    total = 0.0
    for labels, rows in group_rows(state, path).items():
        x, entry = table[rows, 0], PALETTE[0][labels[-1] % 2]
        a, rho = shape + x.size / 2, ratio + x.size
        b0 = shape * scale * entry.relative_scale * entry.variance
        b = b0 + ((x - x.mean()) ** 2).sum() / 2 + ratio * x.size * (x.mean() - entry.mean) ** 2 / (2 * rho)
        total = total + gammaln(a) - gammaln(shape) + shape * np.log(b0) - a * np.log(b) + np.log(ratio / rho) / 2
    return total


def exact_quartiles(schema, state, table):
    """Quartiles of each log hyperparameter given assignments and data."""
    found, h = {}, draw_hyperparameters(np.random.default_rng(0))
    grid = np.linspace(-9.0, 5.0, 250)
    one = {"inner": (0, 0), "univariate": (0, 1), **{f"scale of {schema.columns[d].name}": (1, d) for d in (1, 2, 3)}}
    for name, (group, place) in one.items():
        log_p = log_prior_of_log(HYPERPARAMETERS[group], grid)
        for i, v in enumerate(grid):
            h[group][place] = np.exp(v)
            log_p[i] += log_joint(reference_problem(schema, table, h), state)
        found[name] = quartiles(grid, log_p)
    middles = [PRIORS[g][1:] for g in HYPERPARAMETERS[1:]]
    axes = [np.linspace(m - 6 * s, m + 6 * s, 70) for m, s in middles]
    v = np.meshgrid(*axes, indexing="ij")
    log_p = log_gaussian_leaves(schema, state, table, np.exp(v[0]), 1.0 + np.exp(v[1]), np.exp(v[2]))
    log_p = log_p + sum(log_prior_of_log(g, x) for g, x in zip(HYPERPARAMETERS[1:], v, strict=True))
    for i, name in enumerate(("scale of size", "shape", "ratio")):
        found[name] = quartiles(axes[i], logsumexp(log_p, axis=tuple({0, 1, 2} - {i})))
    return found


def slice_draws(schema, state_of, draws, seed=3):
    h, table, digits = state_of
    chain, rng = make_chain(schema, OBSERVED), np.random.default_rng(seed)
    install(chain, table, digits, h)
    return np.array([logs(chain.update_hyperparameters(rng, OWNED, PRIOR_TABLE)) for _ in range(draws)])


def slice_scores(width, draws):
    schema = fixed_schema(width, WITH_TRIALS)
    state_of = draw_joint(schema, OBSERVED, np.random.default_rng(4))
    exact = exact_quartiles(schema, state_from_digits(state_of[2]), state_of[1])
    drawn = slice_draws(schema, state_of, draws)
    return {name: np.abs(quartile_scores(drawn[None, :, i], exact[name])).max() for i, name in enumerate(LOG_NAMES)}


def test_a_posterior_that_is_no_number_stops_the_slices():
    schema = fixed_schema(2)
    h, table, digits = draw_joint(schema, OBSERVED, np.random.default_rng(4))
    chain = make_chain(schema, OBSERVED)
    install(chain, table, digits, h)
    with pytest.raises(FloatingPointError, match="hyperparameter of the network is not a finite number"):
        chain.update_hyperparameters(np.random.default_rng(0), OWNED, PRIOR_TABLE * nan)


def test_slices_from_far_below_the_peak_stay_where_they_come_back_from():
    """4,000 close values under a variance 1e12 times theirs: after a shape of exactly 1 the next update had no end."""
    n = 4_000
    schema, observed, rng = fixed_schema(2), np.ones((n, 4), bool), np.random.default_rng(0)
    table = np.stack([rng.normal(0.5, 1e-6, n), rng.exponential(1.5, n), rng.poisson(2.0, n), np.zeros(n)], axis=1)
    start = [np.ones(2), np.full(4, 0.3), np.full(4, 1.5), np.full(4, 0.05)]
    chain, drawn = make_chain(schema, observed), []
    install(chain, table, np.zeros((n, schema.structure.n_regions)), start)
    for seed in range(200):
        chain.set_hyperparameters([h.copy() for h in start])
        drawn.append(logs(chain.update_hyperparameters(np.random.default_rng(seed), OWNED, PRIOR_TABLE)))
    shape = np.array(drawn)[:, LOG_NAMES.index("shape")]
    assert np.isfinite(drawn).all() and shape.min() < -30
    for _ in range(30):
        h = chain.update_hyperparameters(rng, OWNED, PRIOR_TABLE)
    np.testing.assert_allclose(np.log(h[1][0]), np.log(1e-12), atol=5.0)


@pytest.mark.parametrize("width", [2, "infinite"])
def test_slices_reach_the_conditional_posterior(width):
    found = slice_scores(width, 3_000)
    assert max(found.values()) < 5, found


def test_a_missing_jacobian_is_noticed(monkeypatch):
    plant_missing_jacobian(monkeypatch)
    assert min(slice_scores(2, 3_000).values()) > 8


def test_what_is_not_owned_stays():
    schema, owned = fixed_schema(2), OWNED.copy()
    owned[[0, 1], [1, 2]] = False
    h, table, digits = draw_joint(schema, OBSERVED, np.random.default_rng(4))
    chain = make_chain(schema, OBSERVED)
    install(chain, table, digits, h)
    after = chain.update_hyperparameters(np.random.default_rng(1), owned, PRIOR_TABLE)
    for before, now, moved in zip(h, after[:4], owned, strict=True):
        np.testing.assert_array_equal(before != now, moved[: before.size])
    assert (
        chain.update_hyperparameters(np.random.default_rng(1), np.zeros((4, 4), bool), PRIOR_TABLE)[0] is not after[0]
    )


@pytest.mark.parametrize("group", range(4))
def test_hyperparameters_of_any_size_have_a_limit(group):
    """NUTS tries them all in its first steps; differences of lgamma once were off by 1e29 at 1e-29, and it stayed."""
    schema = fixed_schema(2)
    h, table, digits = draw_joint(schema, OBSERVED, np.random.default_rng(4))
    chain = make_chain(schema, OBSERVED)
    install(chain, table, digits, h)
    places = np.flatnonzero(OWNED[group])
    for place in places[places > 0] if group == 1 else places:  # scales of Gaussian leaves have no limit
        values = []
        for size in (1e9, 1e12, 1e16, 1e30, 1e100):
            other = [v.copy() for v in h]
            other[group][place] = 1 / size if group in (1, 3) else size
            chain.set_hyperparameters(other)
            values.append(chain.sampler.statistics()[0])
        if group == 3:  # the ratio's limit is that of log(rho)
            entries = len(group_rows(state_from_digits(digits), leaf_path(schema)))
            values = values + 0.5 * entries * np.log([1e9, 1e12, 1e16, 1e30, 1e100])
        np.testing.assert_allclose(values, values[1], rtol=0, atol=1e-5)


def leaf_path(schema):
    tree = schema.structure
    r = int(tree.leaf_region[0])
    return [a for a in range(r + 1) if tree.begin[a] <= tree.begin[r] and tree.end[a] >= tree.end[r]]


# ---- pm.sample against all states of five rows and a grid over two hyperparameters
FIVE = pd.DataFrame({"a": [0.3, 0.5, 2.4, nan, 1.9]})
ENTRY = ps.leaves.Gaussian(mean=1.0, variance=1.0)


def five_rows():
    """One column, so that concentration and leaf scale are single numbers, of NUTS."""
    with pm.Model() as model:
        ps.SPN(
            "x",
            ps.circuits.complete_tree(["a"], n_children=2),
            observed=FIVE,
            leaves={"a": ENTRY},
            resolution=0.0,
            leaf_shape=1.5,
            precision_ratio=0.1,
            concentration=pm.Gamma("alpha", 2.0, 1.0),
            leaf_scale=pm.LogNormal("scale", np.log(0.3), 1.0),
        )
    return model


def exact_five_rows(schema, table):
    """Quartiles of both logs and P(row 0 and row 1 share a leaf)."""
    grid_a, grid_s = np.linspace(-5.0, 3.0, 120), np.linspace(-6.0, 4.0, 120)
    ones = [np.ones(2), np.ones(1), np.full(1, 1.5), np.full(1, 0.1)]
    at = [reference_problem(schema, table, [np.exp([v, v]), *ones[1:]]) for v in grid_a]
    of = [reference_problem(schema, table, [ones[0], np.exp([v]), *ones[2:]]) for v in grid_s]
    states = all_states(at[0])
    by_a = np.array([[log_prior(p, s) + log_relabellings(p, s) for s in states] for p in at])
    by_a += log_prior_of_log("concentration", grid_a)[:, None]
    by_s = np.array([[log_likelihood(p, s) for s in states] for p in of])
    by_s += log_prior_of_log("leaf_scale", grid_s)[:, None]
    weight = logsumexp(by_a, axis=0) + logsumexp(by_s, axis=0)
    together = np.array([s[0][0] == s[1][0] for s in states])
    p = np.exp(weight - logsumexp(weight))
    return (
        quartiles(grid_a, logsumexp(by_a + logsumexp(by_s, axis=0), axis=1)),
        quartiles(grid_s, logsumexp(by_s + logsumexp(by_a, axis=0), axis=1)),
        p[together].sum(),
    )


def test_five_rows_reach_the_enumerated_posterior():
    with five_rows():
        idata = pm.sample(1000, tune=400, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    record = read_record(idata)
    alpha, scale, together = exact_five_rows(record.schema, record.table)
    h = record.hyperparameters
    assert np.abs(quartile_scores(np.log(h["concentration"][..., 1]), alpha)).max() < 5
    assert np.abs(quartile_scores(np.log(h["leaf_scale"][..., 0]), scale)).max() < 5
    found = (record.digits[:, :, 0, 0] == record.digits[:, :, 1, 0]).astype(float)
    error = np.sqrt(together * (1 - together) / float(az.ess(found, method="mean")))
    assert abs(found.mean() - together) < 5 * error
    # the power: the posterior is far enough from the prior to be told apart
    assert (
        np.abs(quartile_scores(np.log(h["leaf_scale"][..., 0]), np.log(0.3) + stats.norm.ppf([0.25, 0.5, 0.75]))).max()
        > 8
    )
