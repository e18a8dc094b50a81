"""Expectation maximisation of given circuits: statistics by enumerated trees, maxima in closed form, no step down."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import digamma

import pymc_spn as ps
from pymc_spn.circuits.estimation.fit_starts import random_start
from pymc_spn.circuits.estimation.fit_steps import ExpectationMaximisation
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.expected_statistics import expected_statistics
from pymc_spn.circuits.evaluation.leaf_updates import pool
from pymc_spn.leaves.gamma import gamma_shape
from tests.shared_circuits import (
    build,
    crossed_circuit,
    leaf_log_density,
    mixture,
    random_parameters,
    reference_log_density,
)

FAMILIES = (
    "gaussian", "log_normal", "laplace", "exponential", "gamma", "poisson", "geometric", "bernoulli", "categorical",
)  # fmt: skip


def mixed_rows(rng, families, n, gaps=0.0):
    draw = {
        "gaussian": lambda: rng.normal(rng.choice([-2.0, 3.0], n), 1.0),
        "log_normal": lambda: np.exp(rng.normal(rng.choice([-1.0, 1.0], n), 0.3)),
        "laplace": lambda: rng.laplace(rng.choice([-2.0, 3.0], n), 1.0),
        "exponential": lambda: rng.exponential(rng.choice([0.3, 4.0], n)),
        "gamma": lambda: rng.gamma(3.0, rng.choice([0.2, 2.0], n)),
        "poisson": lambda: rng.poisson(rng.choice([1.0, 8.0], n)).astype(float),
        "geometric": lambda: rng.geometric(rng.choice([0.2, 0.8], n)) - 1.0,
        "bernoulli": lambda: rng.integers(0, 2, n).astype(float),
        "categorical": lambda: rng.integers(0, 3, n).astype(float),
    }
    rows = np.column_stack([draw[f]() for f in families])
    rows[rng.random(rows.shape) < gaps] = np.nan
    return rows


def induced_trees(circuit, log_weights, node=0):
    """(log weight, edges, leaves) of every induced tree below a node."""
    below = circuit.children_of(node)
    if below.size == 0:
        return [(0.0, (), (int(node),))]
    if circuit.kind[node] == 0:
        edges = np.flatnonzero(circuit.edge_sum == node)
        return [
            (log_weights[e] + lw, (int(e), *used), leaves)
            for e, c in zip(edges, below, strict=True)
            for lw, used, leaves in induced_trees(circuit, log_weights, c)
        ]
    return [
        (sum(t[0] for t in parts), sum((t[1] for t in parts), ()), sum((t[2] for t in parts), ()))
        for parts in itertools.product(*(induced_trees(circuit, log_weights, c) for c in below))
    ]


def test_expected_statistics_are_those_of_the_enumerated_trees():
    families = ("gaussian", "exponential", "categorical")
    rng = np.random.default_rng(0)
    circuit = build(
        [
            ("sum", (1, 2, 3)), ("product", (4, 6)), ("product", (5, 6)), ("product", (5, 7)),
            ("sum", (8, 9)), ("sum", (9, 10)), ("product", (11, 13)), ("product", (12, 13)),
            ("leaf", 0, "gaussian"), ("leaf", 0, "gaussian"), ("leaf", 0, "exponential"),
            ("leaf", 1, "categorical"), ("leaf", 1, "categorical"), ("leaf", 2, "gaussian"),
        ],
        ["a", "b", "c"], families,
    )  # fmt: skip
    log_weights, parameters = random_parameters(circuit, rng)
    rows = np.array([[0.4, 2.0, 1.0], [1.9, np.nan, -3.0], [np.nan, 0.0, 0.2], [-0.5, 1.0, np.nan]])
    edge, leaf_mass = np.zeros(circuit.n_sum_edges), np.zeros(circuit.n_nodes)
    first, second = np.zeros(circuit.n_nodes), np.zeros(circuit.n_nodes)
    level = np.zeros((circuit.n_nodes, 3))
    row_of = {int(v): (f, r) for f in families for r, v in enumerate(circuit.leaves_of(f))}
    for row in rows:
        trees = induced_trees(circuit, log_weights)
        logs = []
        for log_weight, _, leaves in trees:
            terms = [
                leaf_log_density(row_of[v][0], parameters[row_of[v][0]][row_of[v][1]], row[circuit.leaf_column[v]])
                for v in leaves
                if not math.isnan(row[circuit.leaf_column[v]])
            ]
            logs.append(log_weight + sum(terms))
        share = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
        for p, (_, edges, leaves) in zip(share, trees, strict=True):
            edge[list(edges)] += p
            for v in leaves:
                x, (family, r) = row[circuit.leaf_column[v]], row_of[v]
                if math.isnan(x):
                    continue
                if family == "categorical":
                    level[v, int(x)] += p
                    continue
                mean, sd = parameters[family][r] if family == "gaussian" else (0.0, 1.0)
                leaf_mass[v] += p
                first[v] += p * (x - mean) / sd
                second[v] += p * ((x - mean) / sd) ** 2
    ascent = ExpectationMaximisation(circuit, rows, range(4), {}, 0.0, 0.0)
    at = Parameterised(circuit, log_weights, parameters)
    total, (edge_flow, moments, level_flow, _) = ascent.expectation(at)
    expected = sum(reference_log_density(circuit, row, log_weights, parameters) for row in rows)
    np.testing.assert_allclose(total, expected, rtol=1e-12)
    np.testing.assert_allclose(edge_flow, edge, rtol=1e-12)
    numbers = [v for v in circuit.leaves if row_of[int(v)][0] != "categorical"]
    here = np.isin(circuit.leaves, numbers)
    np.testing.assert_allclose(moments[:, here], [leaf_mass[numbers], first[numbers], second[numbers]], rtol=1e-11)
    begin = at.flat.begin[families.index("categorical")]
    np.testing.assert_allclose(level_flow[begin : begin + 6].reshape(2, 3), level[circuit.leaves_of("categorical")])


def test_a_mixture_of_two_gaussians_follows_the_textbook_to_the_last_digits():
    x = np.random.default_rng(1).normal([[-2.0], [2.0]], [[1.0], [0.5]], (2, 40)).ravel()
    circuit = build([("sum", (1, 2)), ("leaf", 0, "gaussian"), ("leaf", 0, "gaussian")], ["x"], ("gaussian",))
    start = np.log([0.5, 0.5]), {"gaussian": np.array([[-1.0, 1.0], [1.0, 1.0]])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = ps.fit_em(
            circuit, x[:, None], edge_prior_rows=0.5, leaf_prior_rows=2.0, start=start, max_steps=7, tolerance=1e-300
        )
    w, mean, sd = np.array([0.5, 0.5]), np.array([-1.0, 1.0]), np.array([1.0, 1.0])
    for _ in range(7):
        density = w * np.exp(-0.5 * ((x[:, None] - mean) / sd) ** 2) / sd
        share = density / density.sum(axis=1, keepdims=True)
        n = share.sum(axis=0)
        w = (n + 0.5) / (len(x) + 1.0)
        mean = (share.T @ x + 2.0 * x.mean()) / (n + 2.0)
        spread = (share * (x[:, None] - mean) ** 2).sum(axis=0) + 2.0 * (x.var() + (x.mean() - mean) ** 2)
        sd = np.sqrt(spread / (n + 2.0))
    np.testing.assert_allclose(np.exp(fit.log_weights), w, rtol=1e-12)
    np.testing.assert_allclose(fit.leaf_parameters["gaussian"], np.column_stack([mean, sd]), rtol=1e-12)
    assert fit.objective.shape == (8,) and not fit.converged


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.5]))
def test_no_step_goes_down_whatever_the_leaves(seed, edge_rows, gaps):
    rng = np.random.default_rng(seed)
    families = tuple(rng.choice(FAMILIES, 3))
    rows = mixed_rows(rng, families, 25, gaps)
    rows[0] = mixed_rows(rng, families, 1)
    rows[1] = rows[0] + np.isin(np.arange(3), np.flatnonzero(rows[0] >= 0)[:1])  # no column is constant
    rows[1, [f in ("bernoulli", "categorical") for f in families]] = 0.0
    circuit = mixture(families, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            fit = ps.fit_em(circuit, rows, edge_prior_rows=edge_rows, restarts=1, max_steps=30, random_seed=seed)
        except ValueError as error:
            assert "from which no" in str(error)  # a column of few cells may be constant
            return
    gains = np.diff(fit.objective)
    assert gains.min() >= -1e-9 * max(1.0, np.abs(fit.objective).max())  # rounding of sums over 25 rows


def test_the_end_is_a_maximum_in_every_direction():
    """No small change of weights or leaves raises the objective: differences of second order in the step, 1e-4."""
    rng = np.random.default_rng(3)
    rows = mixed_rows(rng, FAMILIES, 60, gaps=0.1)
    circuit = mixture(FAMILIES)
    fit = ps.fit_em(circuit, rows, restarts=2, tolerance=1e-13, max_steps=5_000, random_seed=0)
    ascent = ExpectationMaximisation(circuit, rows, range(60), pool(circuit, rows), 0.1, 1.0)

    def objective(log_weights, parameters):
        at = Parameterised(circuit, log_weights, parameters)
        return ascent.expectation(at)[0] + ascent.log_prior(at)

    best = objective(fit.log_weights, fit.leaf_parameters)
    assert best == pytest.approx(fit.objective[-1], abs=1e-9)
    for step in (-1e-4, 1e-4):
        weights = np.exp(fit.log_weights) * np.exp(step * np.array([1.0, -1.0]))
        assert objective(np.log(weights / weights.sum()), fit.leaf_parameters) < best
        for family, own in fit.leaf_parameters.items():
            for at in np.ndindex(own.shape):
                moved = {f: p.copy() for f, p in fit.leaf_parameters.items()}
                if family == "categorical":
                    moved[family][at] *= math.exp(step)
                    moved[family][at[0]] /= moved[family][at[0]].sum()
                else:
                    moved[family][at] *= math.exp(step)
                assert objective(fit.log_weights, moved) < best + 1e-10, (family, at)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_leaf_is_its_column_at_once(family):
    """Rows and prior agree about a single leaf: the maximum is the column's average, of levels nearly so."""
    x = mixed_rows(np.random.default_rng(5), (family,), 50, gaps=0.1)
    circuit = build([("leaf", 0, family)], ["x"], (family,))
    fit = ps.fit_em(circuit, x, restarts=1, random_seed=0)
    seen = x[~np.isnan(x)]
    u = np.log(seen) if family == "log_normal" else seen
    if family in ("gaussian", "log_normal"):
        expected = [u.mean(), u.std()]
    elif family == "laplace":
        expected = [np.median(u), np.abs(u - np.median(u)).mean()]
    elif family == "gamma":
        shape = optimize.brentq(lambda a: np.log(a) - digamma(a) - np.log(u.mean()) + np.log(u).mean(), 0.1, 50.0)
        expected = [shape, shape / u.mean()]
    elif family == "categorical":
        own = np.array([np.mean(seen == k) for k in range(3)])
        expected = with_one_row_spread_over(own, seen.size)
    elif family == "bernoulli":
        expected = with_one_row_spread_over(np.array([1.0 - seen.mean(), seen.mean()]), seen.size)[1:]
    else:
        expected = [{"exponential": 1.0 / u.mean(), "geometric": 1.0 / (1.0 + u.mean())}.get(family, u.mean())]
    np.testing.assert_allclose(fit.leaf_parameters[family], [expected], rtol=1e-10)
    assert fit.converged and fit.objective.size == 3


def test_gamma_shapes():
    """log a - digamma(a) is the gap, which is 1 / (2 a) for large shapes a and 1 / a for small ones."""
    gaps = np.array([1e-3, 0.03, 0.5, 2.0, 40.0])
    shapes = gamma_shape(gaps)
    np.testing.assert_allclose(np.log(shapes) - digamma(shapes), gaps, rtol=1e-11)
    assert gamma_shape(np.array([1e-9]))[0] == pytest.approx(0.5e9, rel=1e-6)
    assert np.isinf(gamma_shape(np.zeros(1)))[0]


def with_one_row_spread_over(shares, n):
    """Shares of n rows and of one of the prior, which has the shares of those rows and of one over all levels."""
    prior = (n * shares + 1.0 / shares.size) / (n + 1.0)
    return (n * shares + prior) / (n + 1.0)


def test_levels_that_no_row_has_stay_possible_and_others_do_not_appear():
    """Three levels declared and two seen; a column beside it has four."""
    df = pd.DataFrame({"g": pd.Categorical(["u", "v"] * 20, ["u", "v", "w"]), "h": pd.Categorical(list("abcd") * 10)})
    circuit = ps.circuits.hidden_chow_liu_tree(df, 2)
    fit = ps.fit_em(circuit, df, random_seed=0)
    p = fit.leaf_parameters["categorical"]
    of_g = circuit.leaf_column[circuit.leaves_of("categorical")] == 0
    assert np.all(p[of_g, 2] > 0.0) and np.all(p[of_g, 3] == 0.0) and np.all(p[~of_g] > 0.0)
    without = ps.fit_em(circuit, df, random_seed=0, leaf_prior_rows=0.0)
    assert np.all(without.leaf_parameters["categorical"][of_g, 2] == 0.0)


def test_without_prior_a_circuit_that_holds_every_table_gives_the_shares_of_the_rows():
    """A mixture of the four joint levels; the maximum of the likelihood is the table of shares."""
    rows = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [5, 3, 2], axis=0)
    circuit = mixture(("bernoulli", "bernoulli"), 4)
    corners = np.array(list(itertools.product((0.01, 0.99), repeat=2))).reshape(-1, 1)
    start = np.log(np.full(4, 0.25)), {"bernoulli": corners}
    fit = ps.fit_em(
        circuit, rows, edge_prior_rows=0.0, leaf_prior_rows=0.0, start=start, max_steps=5_000, tolerance=1e-14
    )
    cells = np.array(list(itertools.product((0.0, 1.0), repeat=2)))
    found = np.exp(circuit.with_parameters(**fit.parameters).log_density(cells).values)
    np.testing.assert_allclose(found, [0.5, 0.3, 0.0, 0.2], atol=1e-6)  # from a likelihood within 1e-13 nats
    assert fit.log_likelihood == pytest.approx(5 * math.log(0.5) + 3 * math.log(0.3) + 2 * math.log(0.2), abs=1e-6)


def test_levels_and_names_come_from_the_data_frame():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"x": rng.normal(size=60), "g": pd.Categorical(rng.choice(["u", "v"], 60), ["u", "v", "w"])})
    df.loc[3, "x"] = np.nan
    columns = ps.Table.from_frame(df).columns
    circuit = ps.circuits.rat_spn(columns, depth=1, repetitions=1, n_leaves=2, random_seed=0)
    fit = ps.fit_em(circuit, df, random_seed=4)
    assert fit.leaf_parameters["categorical"].shape == (2, 3)  # an unused level keeps its place
    again = ps.fit_em(circuit, df.sample(frac=1.0, random_state=1), start=(fit.log_weights, fit.leaf_parameters))
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-3)
    with pytest.raises(ValueError, match="'g'"):
        ps.fit_em(circuit, df.assign(g="z"))


def test_one_seed_gives_one_fit_and_the_best_restart_is_kept():
    rows = mixed_rows(np.random.default_rng(8), ("gaussian", "gaussian"), 60)
    circuit = crossed_circuit(2, 2, 3)
    fits = [ps.fit_em(circuit, rows, restarts=3, random_seed=7) for _ in range(2)]
    assert np.array_equal(fits[0].log_weights, fits[1].log_weights)
    assert fits[0].of_restarts.shape == (3,) and fits[0].objective[-1] == fits[0].of_restarts.max()
    assert ps.fit_em(circuit, rows, restarts=1, random_seed=8).objective[0] != fits[0].objective[0]
    assert "converged after" in repr(fits[0]) and "best of 3" in repr(fits[0])


def ascent_of(families, n, seed, gaps=0.1):
    """Rows of a mixture of two, and a start."""
    rng = np.random.default_rng(seed)
    rows = mixed_rows(rng, families, n, gaps)
    circuit = mixture(families)
    ascent = ExpectationMaximisation(circuit, rows, range(n), pool(circuit, rows), 0.1, 1.0)
    return ascent, Parameterised(circuit, *random_start(circuit, rows, ascent.pooled, (None, {}), rng))


def test_a_batch_of_all_rows_and_a_step_of_size_one_make_a_step_over_all_rows():
    families = tuple(f for f in FAMILIES if f != "laplace")
    ascent, at = ascent_of(families, 40, 0)
    _, expected = ascent.expectation(at)
    step = ascent.maximum(at, expected)
    order = np.random.default_rng(1).permutation(40)
    anything = expected._replace(moments=expected.moments + 3.0, edge_flow=expected.edge_flow + 1.0)
    batch, running = ascent.step_of_batch(at, anything, ascent.expectation(at, order)[1], 1.0, 40)
    np.testing.assert_allclose(np.exp(batch.log_weights), np.exp(step.log_weights), rtol=1e-12)
    for family in families:  # gamma shapes are the digits that Newton's method leaves
        np.testing.assert_allclose(batch.parameters[family], step.parameters[family], rtol=1e-10)
    for found, wanted in zip(running, ascent.recentred(expected, at, step), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_running_statistics_are_those_about_the_new_leaves():
    """Moments about other means and scales by a change of variable; the flows are the same."""
    ascent, at = ascent_of(("gaussian", "log_normal", "poisson"), 30, 2)
    _, expected = ascent.expectation(at)
    after = ascent.maximum(at, expected)
    moved = ascent.recentred(expected, at, after).moments
    for family in ("gaussian", "log_normal"):
        here = ascent.layout.leaf_family == ascent.circuit.families.index(family)
        sums = []
        for (mass, total, squares), (mean, sd) in (
            (expected.moments[:, here], at.parameters[family].T),
            (moved[:, here], after.parameters[family].T),
        ):
            sums.append([mass, mass * mean + sd * total, sd**2 * squares + 2 * sd * mean * total + mass * mean**2])
        np.testing.assert_allclose(sums[1], sums[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("families", [("gaussian", "categorical", "gamma"), ("log_normal", "poisson", "bernoulli")])
def test_batches_end_at_a_maximum_on_all_rows(families):
    """A step over all rows from the end gains less than the tolerance, and the end is as high as without batches."""
    rows = mixed_rows(np.random.default_rng(6), families, 300, gaps=0.1)
    circuit = mixture(families, 2)
    arguments = {"restarts": 3, "random_seed": 2, "tolerance": 1e-7, "max_steps": 3_000}
    fit = ps.fit_em(circuit, rows, batch_size=20, **arguments)
    assert fit.converged and 1 < fit.epochs <= 10 and f"steps and {fit.epochs} epochs" in repr(fit)
    assert np.diff(fit.objective[1:]).min() >= -1e-9 * np.abs(fit.objective).max()
    again = ps.fit_em(circuit, rows, start=(fit.log_weights, fit.leaf_parameters), tolerance=1e-7)
    assert again.objective[0] == pytest.approx(fit.objective[-1], abs=1e-9)
    assert again.objective.size == 2 and 0.0 <= np.diff(again.objective)[0] < 1e-7 * 300
    whole = ps.fit_em(circuit, rows, **arguments)
    assert fit.objective[-1] > whole.objective[-1] - 1e-3 * 300
    same = ps.fit_em(circuit, rows, batch_size=20, **arguments)
    assert np.array_equal(same.objective, fit.objective)


def test_a_batch_that_no_leaf_can_take_is_named_by_its_row():
    rows = np.array([[1.0], [2.0], [-3.0], [4.0]])
    ascent = ExpectationMaximisation(mixture(("exponential",)), rows, list("abcd"), {}, 0.1, 1.0)
    at = Parameterised(ascent.circuit, np.log([0.5, 0.5]), {"exponential": [[1.0], [2.0]]})
    with pytest.raises(ValueError, match="row 'c' has density 0"):
        ascent.expectation(at, np.array([3, 2]))


def test_a_fit_that_still_climbs_says_so():
    rows = mixed_rows(np.random.default_rng(8), ("gaussian", "gaussian"), 60)
    with pytest.warns(UserWarning, match="still gained .* nats a row.*raise max_steps"):
        fit = ps.fit_em(crossed_circuit(2, 2, 3), rows, max_steps=1, random_seed=7)
    assert not fit.converged and np.isfinite(fit.log_likelihood)


def test_a_step_that_loses_is_the_last_and_is_taken_back(monkeypatch):
    """The fourth step is spoilt: the parameters before it are returned, to the bit those of three steps."""
    rows = mixed_rows(np.random.default_rng(8), ("gaussian", "gaussian"), 60)
    circuit = crossed_circuit(2, 2, 3)
    with pytest.warns(UserWarning, match="still gained"):
        three = ps.fit_em(circuit, rows, restarts=1, max_steps=3, random_seed=7)
    maximum, steps = ExpectationMaximisation.maximum, []

    def spoilt(self, at, expected):
        steps.append(at)
        found = maximum(self, at, expected)
        if len(steps) % 4 == 0:
            found = Parameterised(circuit, found.log_weights, {"gaussian": found.parameters["gaussian"] + [3.0, 0.0]})
        return found

    monkeypatch.setattr(ExpectationMaximisation, "maximum", spoilt)
    with pytest.warns(UserWarning, match="last step ended .* nats a row below the best one, which is returned"):
        fit = ps.fit_em(circuit, rows, restarts=1, random_seed=7)
    assert len(steps) == 4 and not fit.converged
    assert np.array_equal(fit.objective[:-1], three.objective) and fit.objective[-1] < three.objective[-1] - 1.0
    assert fit.log_likelihood == three.log_likelihood and fit.of_restarts.tolist() == [three.objective[-1]]
    assert np.array_equal(fit.log_weights, three.log_weights)
    assert np.array_equal(fit.leaf_parameters["gaussian"], three.leaf_parameters["gaussian"])


ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 2.0]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"circuit": "a tree"}, TypeError, "circuit must be a ps.Circuit; got str"),
        ({"observed": ROWS[:, :1]}, ValueError, "observed must have shape"),
        ({"observed": ROWS * [1, 0]}, ValueError, "column 'x1' has mean 0 and variance 0, from which no gaussian"),
        ({"observed": ROWS * [1, 0] + [0, 0.3]}, ValueError, "column 'x1' has mean 0.3 and variance 0, from which no"),
        ({"observed": ROWS * [1.0, np.nan]}, ValueError, "column 'x1' has no value that its gaussian leaves can take"),
        ({"circuit": mixture(("lomax", "gaussian"))}, ValueError, "circuit has lomax leaves; expectation maxim"),
        (
            {"circuit": mixture(("laplace", "gaussian")), "observed": ROWS * [0, 1]},
            ValueError,
            "column 'x0' has median 0 and mean distance 0 from it, from which no laplace leaf can be made",
        ),
        (
            {"circuit": mixture(("laplace", "gaussian")), "batch_size": 2},
            ValueError,
            "batch_size must be None with laplace leaves, which need all rows at once; got 2",
        ),
        (
            {"circuit": mixture(("binomial", "gaussian"))},
            ValueError,
            r"start must give leaf_parameters\['binomial'\], of which fit_em keeps the numbers of trials",
        ),
        (
            {"circuit": mixture(("negative_binomial", "gaussian"))},
            ValueError,
            r"start must give leaf_parameters\['negative_binomial'\], of which fit_em keeps alpha: start",
        ),
        (
            {
                "circuit": mixture(("negative_binomial", "gaussian")),
                "observed": np.round(ROWS) * [0, 1],
                "start": (None, {"negative_binomial": [[5, 0.5], [5, 0.1]]}),
            },
            ValueError,
            "column 'x0' has mean 0 under alpha 5, from which no negative_binomial leaf can be made",
        ),
        ({"circuit": mixture(("uniform", "gaussian"))}, ValueError, r"\['uniform'\], which fit_em keeps: start"),
        (
            {
                "circuit": mixture(("binomial", "gaussian")),
                "observed": np.round(ROWS) * [0, 1],
                "start": (None, {"binomial": [[5, 0.5], [5, 0.1]]}),
            },
            ValueError,
            "column 'x0' has mean 0 of 5 trials, from which no binomial leaf can be made",
        ),
        (
            {"start": (None, {"poisson": [[1.0]]})},
            ValueError,
            "start: leaf_parameters must be of .'gaussian',., got 'p",
        ),
        (
            {"circuit": mixture(("gamma", "gaussian")), "observed": ROWS * [0, 1] + [0.3, 0]},
            ValueError,
            "column 'x0' has mean 0.3 and mean log -1.2",
        ),
        ({"leaf_prior_rows": 0.0}, ValueError, "leaf_prior_rows must be positive for gaussian leaves"),
        ({"edge_prior_rows": -1.0}, ValueError, "edge_prior_rows must be a finite number of at least 0, got -1.0"),
        ({"restarts": 0}, ValueError, "restarts must be an integer of at least 1, got 0"),
        ({"max_steps": 2.0}, ValueError, "max_steps must be an integer"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be positive"),
        ({"tolerance": "a"}, ValueError, "tolerance must be a finite number of at least 0, got 'a'"),
        ({"leaf_prior_rows": True}, ValueError, "leaf_prior_rows must be a finite number of at least 0, got True"),
        ({"edge_prior_rows": np.ones(2)}, ValueError, "edge_prior_rows must be a finite number of at least 0"),
        ({"batch_size": 4}, ValueError, "batch_size must be an integer from 1 to the 3 rows, or None; got 4"),
        ({"batch_size": 0}, ValueError, "batch_size must be an integer from 1"),
        ({"batch_size": 2, "batch_epochs": 0}, ValueError, "batch_epochs must be an integer of at least 1, got 0"),
        ({"batch_size": 2, "step_decay": 0.5}, ValueError, "step_decay must be a number above 0.5 and at most 1"),
        ({"start": np.zeros(4)}, TypeError, "start must be a tuple of log_weights and leaf_parameters"),
        ({"start": (np.zeros(3), {})}, ValueError, "log_weights must have shape"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    arguments = {"circuit": mixture(("gaussian", "gaussian")), "observed": ROWS, **change}
    with pytest.raises(error, match=message):
        ps.fit_em(**arguments)


def test_leaves_without_a_closed_form_and_declared_supports_are_refused():
    with pytest.raises(ValueError, match="circuit has student_t leaves"):
        ps.fit_em(mixture(("student_t",)), ROWS[:, :1])
    circuit = mixture(("bernoulli",))
    declared = ps.Circuit(
        circuit.kind, circuit.child_ptr, circuit.children, circuit.leaf_column, circuit.leaf_family,
        circuit.families, circuit.columns, (1, 2),
    )  # fmt: skip
    with pytest.raises(ValueError, match="leaf_support"):
        ps.fit_em(declared, np.array([[0.0], [1.0]]))


def test_a_start_has_the_levels_of_the_columns():
    circuit, rows = mixture(("categorical",)), np.array([[0.0], [2.0], [1.0]])
    start = np.log([0.5, 0.5]), {"categorical": [[0.5, 0.5], [0.5, 0.5]]}
    with pytest.raises(ValueError, match=r"start: leaf_parameters\['categorical'\] must have 3 levels, .* got 2"):
        ps.fit_em(circuit, rows, start=start)


def test_the_kernel_counts_no_level_beyond_the_leaf():
    """An impossible leaf has a flow of 1e-308 and not 0; its place for the level lies behind the array."""
    circuit = build(
        [("sum", (1, 2)), ("leaf", 0, "categorical"), ("leaf", 0, "poisson")], ["x"], ("categorical", "poisson")
    )
    at = Parameterised(circuit, np.log([0.5, 0.5]), {"categorical": [[0.5, 0.5]], "poisson": [[2.0]]})
    padded = np.zeros(64)
    edge_flow, moments, logs = np.zeros(2), np.zeros((3, 2)), np.empty(2)
    expected_statistics(
        compile_circuit(circuit).layout, at.log_weights, *at.flat, np.array([[1.0], [40.0]]), 2, np.full(2, -1),
        edge_flow, moments, padded[:3], np.empty((0, 0)), logs,
    )  # fmt: skip
    assert np.all(padded[3:] == 0.0) and 0.0 < padded[1] < 1.0 and np.all(np.isfinite(logs))


def test_a_sum_that_no_row_reaches_keeps_its_weights_where_there_is_no_prior():
    circuit = build(
        [("sum", (1, 2)), ("sum", (3, 4)), ("sum", (4, 5)), *[("leaf", 0, "bernoulli")] * 3], ["x"], ("bernoulli",)
    )
    start = np.log([1.0, 1e-300, 0.5, 0.5, 0.3, 0.7]), {"bernoulli": [[0.2], [0.6], [0.9]]}
    start[0][1] = -np.inf
    start[0][0] = 0.0
    fit = ps.fit_em(
        circuit, np.array([[0.0], [1.0], [1.0]]), start=start, edge_prior_rows=0.0, leaf_prior_rows=0.0, max_steps=2_000
    )
    np.testing.assert_array_equal(np.exp(fit.log_weights[[0, 1, 4, 5]]).round(12), [1.0, 0.0, 0.3, 0.7])


def test_a_table_is_read_by_the_circuits_levels():
    df = pd.DataFrame({"g": ["u", "u", "u", "v"]})
    orders = [pd.Categorical(df["g"], categories) for categories in (["u", "v"], ["v", "u"])]
    circuit = ps.circuits.rat_spn(ps.Table.from_frame(df.assign(g=orders[0])).columns, n_leaves=1)
    fits = [ps.fit_em(circuit, ps.Table.from_frame(df.assign(g=g))) for g in orders]
    np.testing.assert_array_equal(*(f.leaf_parameters["categorical"] for f in fits))
    numbers = ps.circuits.rat_spn(["g"], {"g": "bernoulli"}, n_leaves=1)  # a column that is a name holds codes
    assert ps.fit_em(numbers, ps.Table.from_frame(df)).leaf_parameters["bernoulli"][0, 0] == pytest.approx(0.26)


def test_what_no_leaf_can_be_made_of_is_named():
    with pytest.raises(ValueError, match=r"observed: row 'b' has density 0 under the start, .* 'x0' can take -1"):
        ps.fit_em(mixture(("exponential",)), pd.DataFrame({"x0": [1.0, -1.0, 2.0]}, index=list("abc")))
    with pytest.raises(ValueError, match=r"leaf_prior_rows=1e-17 is too small for the geometric leaves of column 'x0'"):
        start = np.log([0.5, 0.5]), {"geometric": [[0.9], [0.02]]}
        ps.fit_em(mixture(("geometric",)), np.array([[0.0], [0.0], [50.0]]), leaf_prior_rows=1e-17, start=start)
    with pytest.raises(ValueError, match=r"'x0' has categorical leaves and must hold codes of levels below 100000"):
        ps.fit_em(mixture(("categorical",)), np.array([[0.0], [1e11]]))
    with pytest.raises(ValueError, match="row 1 has density 0 under the start, no leaf of column 'x0' can take inf"):
        ps.fit_em(mixture(("categorical",)), np.array([[0.0], [np.inf], [1.0]]))
