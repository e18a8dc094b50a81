"""Flags, ratings and years as pandas reads them from a file: what their values refute has no probability."""

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gamma, kv

import pymc_spn as ps
from pymc_spn.gibbs.leaf_kernels import log_predictive, log_predictive_without, refresh_leaf
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.raw_moments import raw_moments
from pymc_spn.leaves.family_codes import GAUSSIAN, ROUNDED_COUNT, ROUNDED_GAUSSIAN
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.leaf_predictives import Leaves, draw_in_event, leaf_moments, log_event
from pymc_spn.networks.schema import NetworkSchema
from tests.called_kernels import called
from tests.sampled_runs import draw, model_of, schema_of_model

log_predictive, log_predictive_without = map(called, (log_predictive, log_predictive_without))
refresh_leaf = called(refresh_leaf)

rng = np.random.default_rng(1)
N = 500
SURVIVED = (rng.random(N) < 0.4).astype(int)
FRAME = pd.DataFrame(
    {
        "survived": SURVIVED,
        "rating": np.clip(rng.integers(1, 6, N) + SURVIVED, 1, 5),
        "year": rng.integers(1990, 2021, N),
    }
)
LEVELS = np.arange(1.0, 6.0)


@cache
def posteriors():
    """A fit, draws, and the fit given an event and a union of events."""
    fit = ps.fit_variational(
        FRAME,
        ps.circuits.complete_tree(list(FRAME), n_children=2),
        restarts=1,
        max_steps=30,
        random_seed=1,
        progressbar=False,
    )
    idata = draw(model_of(observed=FRAME), draws=15, tune=25, chains=2, random_seed=1)
    drawn = ps.SPNPosterior.from_idata(idata)
    union = drawn.condition("rating <= 2 and survived == 1 or rating == 4 and year > 2000")
    return {"fit": fit, "drawn": drawn, "given": fit.condition({"rating": (2, 4.5)}), "union": union}


NAMES = ("fit", "drawn", "given", "union")


@pytest.mark.parametrize("name", ["fit", "drawn"])
def test_what_no_row_can_be_has_no_probability(name):
    post = posteriors()[name]
    assert [c.kind for c in post.columns] == ["binary", "ordinal", "integer"]
    assert float(post.probability("survived >= 2")) == 0.0
    assert float(post.probability({"rating": (1, 5)})) == pytest.approx(1.0, abs=1e-12)
    assert float(post.probability({"year": (1990, 2020)})) >= 0.95
    assert float(post.probability({"year": (2000.2, 2000.8)})) == 0.0
    by_cells = post.probability({"year": set(range(1990, 2021))})
    assert float(post.probability("1990 <= year <= 2020")) == pytest.approx(float(by_cells), rel=1e-9)
    rows = FRAME.drop(columns="survived").head(3)
    np.testing.assert_allclose(post.predict_proba(rows, target="survived").sum("level"), 1.0, atol=1e-12)


def masses(post):
    return np.array([float(post.probability({"rating": int(k)})) for k in LEVELS])


@pytest.mark.parametrize("name", NAMES)
def test_answers_about_a_rating_are_numbers(name):
    """All of them follow from the probabilities of its five values."""
    post = posteriors()[name]
    p = masses(post)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    mean = float(post.mean().sel(column="rating"))
    assert mean == pytest.approx(p @ LEVELS, abs=1e-10)
    variance = float(post.cov().sel(column="rating", other="rating"))
    assert variance == pytest.approx(p @ LEVELS**2 - mean**2, abs=1e-10)
    at = [0.9, 1.0, 2.5, 4.0, 5.0]
    np.testing.assert_allclose(post.cdf(at, "rating"), [p[LEVELS <= x].sum() for x in at], atol=1e-12)
    q = [0.0, 0.1, 0.5, 0.93, 1.0]
    possible = LEVELS[p > 0.0]
    expected = [possible[min(np.searchsorted(np.cumsum(p[p > 0.0]), v - 1e-12), possible.size - 1)] for v in q]
    np.testing.assert_array_equal(post.quantile(q, "rating"), expected)
    for text, inside in (
        ("rating >= 4", LEVELS >= 4),
        ("rating**2 < 5", LEVELS < 2.3),
        ("not 2 <= rating < 4", (LEVELS < 2) | (LEVELS >= 4)),
        ("rating in [1, 5]", np.isin(LEVELS, [1, 5])),
        ("rating != 3", LEVELS != 3),
        ({"rating": (2, 4)}, (LEVELS >= 2) & (LEVELS <= 4)),
        ({"rating": (None, 2)}, LEVELS <= 2),
        ({"rating": [(0, 1.5), (3.5, 9)]}, np.isin(LEVELS, [1, 4, 5])),
        ({"rating": (5.5, 9)}, LEVELS > 5),
        ({"rating": (0, 9)}, LEVELS > 0),
    ):
        assert float(post.probability(text)) == pytest.approx(p[inside].sum(), abs=1e-12), text
    with pytest.raises(ValueError, match="rating"):
        post.probability({"rating": 6})


@pytest.mark.parametrize("name", NAMES)
def test_predictions_of_a_rating_are_numbers(name):
    post = posteriors()[name]
    rows = FRAME[FRAME["survived"] == 1].drop(columns="rating").head(4)  # within the union
    proba = post.predict_proba(rows, target="rating")
    np.testing.assert_array_equal(proba["level"], LEVELS)
    mean = proba.values @ LEVELS
    np.testing.assert_allclose(post.predict(rows, target="rating"), mean, atol=1e-10)
    sd = np.sqrt(proba.values @ LEVELS**2 - mean**2)
    np.testing.assert_allclose(post.predict_sd(rows, target="rating"), sd, atol=1e-10)
    np.testing.assert_allclose(
        post.predict_cdf(rows, "rating", [2.0, 4.0]), np.cumsum(proba.values, axis=1)[:, [1, 3]], atol=1e-10
    )
    half = LEVELS[(np.cumsum(proba.values, axis=1) < 0.5).sum(axis=1)]
    np.testing.assert_array_equal(post.predict_quantile(rows, "rating", 0.5), half)


def test_rows_of_ratings_are_whole_again():
    post = posteriors()["fit"]
    drawn = post.sample(200, random_seed=1)
    assert (drawn.dtypes == FRAME.dtypes).all()
    assert drawn["rating"].between(1, 5).all() and drawn["survived"].isin([0, 1]).all()
    gaps = FRAME.head(3).astype("Int64")
    gaps.loc[1, "rating"] = pd.NA
    assert 1 <= post.impute(gaps, random_seed=1)["rating"].iloc[1] <= 5
    with pytest.raises(ValueError, match=r"column 'rating', row 0 .*unseen level \(known levels: 1 to 5"):
        post.log_density(FRAME.head(1).assign(rating=7))
    tails = post.cell_p_value(FRAME.head(20))
    assert np.all((tails >= 0.0) & (tails <= 1.0))


def test_a_circuit_of_ratings_answers_in_numbers():
    fit = posteriors()["fit"]
    circuit = fit.marginal(["survived", "rating"]).as_circuit()
    p = masses(fit)
    assert float(circuit.probability({"rating": (2, 4)})) == pytest.approx(p[1:4].sum(), abs=1e-10)
    several = {"rating": (np.array([1.0, 4.0]), np.array([1.5, 9.0]))}
    ends = circuit.log_probability_of_rows(several)
    np.testing.assert_allclose(np.exp(ends), [p[0], p[3:].sum()], atol=1e-10)
    assert float(circuit.quantile(0.5, "rating")) == float(fit.quantile(0.5, "rating"))
    np.testing.assert_allclose(circuit.cdf([1.0, 3.0], "rating"), fit.cdf([1.0, 3.0], "rating"), atol=1e-10)
    moments = circuit.moments(np.full((1, 2), np.nan))
    assert moments["mean"].values[0, 1] == pytest.approx(float(fit.mean().sel(column="rating")), abs=1e-10)
    assert moments["covariance"].values[0, 1, 1] == pytest.approx(float(fit.cov().sel(column="rating", other="rating")))


# ---- Gaussian leaves of whole numbers


def sampler_of(values, leaves=None):
    schema = schema_of_model(
        model_of(observed=ps.Table.from_frame({"n": values}, {"n": "integer"}), leaves=leaves, name="s")
    )
    return schema, Sampler(schema.structure, schema.compiled, schema.code(np.array(values, float)[:, None]))


def log_normal(x, mean, tau):
    return 0.5 * np.log(tau / (2.0 * np.pi)) - 0.5 * tau * (x - mean) ** 2


def test_a_leaf_of_whole_numbers_is_the_integral_of_mean_log_densities():
    values = [3.0, 3.0, 4.0]
    schema, sampler = sampler_of([3, 3, 4])
    sampler.set_hyperparameters(np.ones(2), np.full(1, 0.3), np.full(1, 1.5), np.full(1, 0.05))
    sampler.set_digits(np.zeros((3, 1), np.int32))
    net = sampler.net
    mu0, rho0, a0, b0 = net.palette.prior[0]
    centre = schema.centre[0]

    log_tau, z = np.linspace(-40.0, 10.0, 1501)[:, None], np.linspace(-9.0, 9.0, 901)
    tau = np.exp(log_tau)

    def evidence(x):
        """Of whole numbers, each by its mean log density over the cell; on a grid of both parameters."""
        x = np.array(x) - centre
        at, width = (rho0 * mu0 + x.sum()) / (rho0 + x.size), 1.0 / np.sqrt((rho0 + x.size) * tau)
        mu = at + width * z
        logs = stats.gamma(a0, scale=1.0 / b0).logpdf(tau) + log_tau + log_normal(mu, mu0, rho0 * tau)
        logs = logs + sum(log_normal(v, mu, tau) - tau / 24.0 for v in x)
        inner = np.trapezoid(np.exp(logs) * width, z, axis=1)
        return np.trapezoid(inner, log_tau[:, 0])

    slot = int(net.edges.begin[0]) + int(sampler.slots[0, 0])
    assert net.palette.family[net.leaves.entry[slot]] == GAUSSIAN and net.edges.n_data[slot] == 3
    both = evidence(values)
    for x in (3.0, 6.0):
        expected = np.log(evidence([*values, x]) / both)
        assert log_predictive(net.palette, net.leaves, 0, slot, x - centre) == pytest.approx(expected, abs=1e-6)
    expected = np.log(both / evidence(values[1:]))
    assert log_predictive_without(net.palette, net.leaves, 0, slot, 3.0 - centre) == pytest.approx(expected, abs=1e-6)


def test_counts_have_leaves_that_are_narrower_than_poisson_ones():
    counts = np.random.default_rng(2).poisson(40.0, 50)
    with pm.Model():
        x = ps.SPN("s", observed=pd.DataFrame({"n": counts}))
    schema = NetworkSchema.from_vector(x.owner.op.schema)
    assert [type(e) for e in schema.palette[0]] == [ps.leaves.Poisson, ps.leaves.Gaussian]
    assert not schema.compiled.is_density[0] and schema.compiled.cell_variance[0] == pytest.approx(1.0 / 12.0)
    with pm.Model():  # what is drawn has to be a count
        x = ps.SPN("s", observed=pd.DataFrame({"n": [*counts, pd.NA]}, dtype="Int64"), missing="draw")
    assert [type(e) for e in NetworkSchema.from_vector(x.owner.op.schema).palette[0]] == [ps.leaves.Poisson]
    with pm.Model(), pytest.raises(ValueError, match=r"column 'n' is count and has missing cells.*not whole numbers"):
        frame = pd.DataFrame({"n": [*counts, pd.NA]}, dtype="Int64")
        ps.SPN("s", observed=frame, missing="draw", leaves={"n": [ps.leaves.Gaussian()]})
    gaps = pd.DataFrame({"n": [*range(-20, 20), 0, pd.NA]}, dtype="Int64")
    message = r"column 'n' is integer and has missing cells.*kinds={'n': 'real'}"
    with pm.Model(), pytest.raises(ValueError, match=message):
        ps.SPN("s", observed=gaps, missing="draw")
    with pm.Model():
        ps.SPN("s", observed=gaps, missing="draw", kinds={"n": "real"})


@pytest.mark.parametrize("k", [0, 1, 6])
def test_no_count_is_negative(k):
    """The cell of 0 holds all that a Gaussian leaf has below 1/2."""
    leaf = Leaves(np.array([ROUNDED_COUNT]), np.array([[0.5, 4.0, 3.0, 6.0]]))
    t = stats.t(6.0, 0.5, np.sqrt(1.25 * 2.0))
    below = t.cdf(k - 0.5) if k else 0.0
    for event in (Interval(k, k), frozenset({float(k)})):
        assert np.exp(log_event(leaf, event)[0]) == pytest.approx(t.cdf(k + 0.5) - below, rel=1e-9)
    assert np.exp(log_event(leaf, Interval(-3.0, k + 0.2))[0]) == pytest.approx(t.cdf(k + 0.5), rel=1e-9)
    assert log_event(leaf, Interval(-9.0, -1.0))[0] < -1e100
    law = ColumnLaw(leaf, np.ones(1), np.zeros(1, np.int64))
    np.testing.assert_allclose(law.cdf(np.array([-1.0, k]))[0], [0.0, t.cdf(k + 0.5)], rtol=1e-12)
    assert law.quantile(np.array([0.0, 1e-6]))[1] == 0.0
    several = Leaves(np.full(2_000, ROUNDED_COUNT), np.tile(leaf.parameters, (2_000, 1)))
    drawn = draw_in_event(several, Interval(-np.inf, 3.0), np.random.default_rng(k))
    assert set(np.unique(drawn)) == {0.0, 1.0, 2.0, 3.0}
    share = t.cdf(0.5) / t.cdf(3.5)
    assert abs((drawn == 0.0).mean() - share) < 5.0 * np.sqrt(share * (1.0 - share) / 2_000)


def test_kinds_go_where_the_columns_are_made():
    tree = ps.circuits.complete_tree(ps.Table.from_frame(FRAME).columns)
    with pm.Model(), pytest.raises(ValueError, match="kinds: the columns of the structure have their kinds"):
        ps.SPN("s", tree, observed=FRAME, kinds={"year": "real"})
    with pytest.raises(ValueError, match="kinds: the columns of the structure have their kinds"):
        ps.fit_variational(FRAME, tree, kinds={"year": "real"})


# ---- rows and conditions take the masses of unit cells


@cache
def of_counts():
    """Counts, many of them 0, and numbers below 0: a fit, and draws."""
    rng = np.random.default_rng(3)
    kind = rng.random(80) < 0.5
    frame = pd.DataFrame(
        {
            "visits": np.where(kind, rng.poisson(0.6, 80), 30 + rng.poisson(40, 80)),
            "change": np.where(kind, rng.integers(-4, 3, 80), rng.integers(3, 40, 80)),
        }
    )
    kinds = {"visits": "count", "change": "integer"}
    tree = ps.circuits.complete_tree(ps.Table.from_frame(frame, kinds).columns, n_children=2)
    fit = ps.fit_variational(frame, tree, restarts=1, max_steps=20, random_seed=1, progressbar=False)
    idata = draw(model_of(observed=frame, kinds=kinds), draws=8, tune=20, chains=2, random_seed=1)
    rounded = draw(model_of(observed=frame, kinds=kinds, rounded=True), draws=8, tune=20, chains=2, random_seed=1)
    drawn, rounded = ps.SPNPosterior.from_idata(idata), ps.SPNPosterior.from_idata(rounded)
    return frame, {"fit": fit, "drawn": drawn, "rounded": rounded}


@pytest.mark.parametrize("name", ["fit", "drawn", "rounded"])
def test_a_row_has_the_mass_of_its_cells(name):
    """Sets go by the distribution functions of the leaves, rows by quadrature."""
    frame, posteriors = of_counts()
    post = posteriors[name]
    more = pd.DataFrame({"visits": [0, 0, 900, 5, 2], "change": [-40, 0, 5, 2_000, 10**12]})
    asked = pd.concat([frame.head(6), more], ignore_index=True)
    logs = post.log_density(asked)
    mark = "numerical given" if name == "rounded" else "exact given"
    assert logs.attrs["exactness"].startswith(mark) and "whole_numbers" not in logs.attrs
    cells = [{k: {v} for k, v in row.items()} for row in asked.to_dict("records")]
    expected = np.log([float(post.probability(c)) for c in cells])
    np.testing.assert_allclose(logs[:-1], expected[:-1], rtol=1e-10)
    assert logs[-1] == pytest.approx(expected[-1], rel=1e-5)  # differences of distribution functions so far out
    negative = [float(post.probability({"visits": (None, -1)})), float(post.cdf(-1, "visits"))]
    assert negative == [0.0, 0.0] and post.sample(500, random_seed=1)["visits"].min() >= 0


@pytest.mark.parametrize("name", ["fit", "drawn", "rounded"])
def test_a_known_whole_number_counts_by_its_mass(name):
    post = of_counts()[1][name]
    for visits in (0, 1, 66):
        point, cell = {"visits": visits}, {"visits": {visits}}
        for question in (
            lambda given: post.mean(given=given).sel(column="change"),
            lambda given: post.probability({"change": (-2, 9)}, given=given),
            lambda given: post.cdf([0.0, 12.0], "change", given=given),
        ):
            np.testing.assert_allclose(question(point), question(cell), rtol=1e-9)
        predicted = post.predict(pd.DataFrame({"visits": [visits]}), target="change")
        np.testing.assert_allclose(predicted[0], post.mean(given=cell).sel(column="change"), rtol=1e-9)
        circuit = post.condition(point).as_circuit()
        at = post.condition(cell).probability({"change": (-2, 9)})
        np.testing.assert_allclose(circuit.probability({"change": (-2.5, 9.5)}), at, rtol=1e-9)
    given = {"visits": {0, 66}, "change": (0, 30)}
    circuit = post.condition(given).as_circuit()
    at = post.probability({"change": (4, 5)}, given=given)
    np.testing.assert_allclose(circuit.probability({"change": (3.5, 5.5)}), at, rtol=1e-9)
    assert circuit.attrs["whole_numbers"] == ["visits", "change"]  # it has densities there


def test_a_row_that_is_left_out_has_the_mass_of_its_cell():
    """One leaf, whose Student t given the other rows is known."""
    values = np.array([3, 3, 4, 9, -2])
    columns = ps.Table.from_frame(pd.DataFrame({"n": values}), {"n": "integer"}).columns
    fixed = {"concentration": 1.0, "leaf_scale": 0.3, "leaf_shape": 1.5, "precision_ratio": 0.05}
    with pm.Model():
        x = ps.SPN("s", ps.circuits.complete_tree(columns, n_children=1), observed=pd.DataFrame({"n": values}), **fixed)
        idata = pm.sample(draws=2, tune=0, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
    schema = NetworkSchema.from_vector(x.owner.op.schema)
    sampler = Sampler(schema.structure, schema.compiled, schema.code(values[:, None]))
    sampler.set_hyperparameters(np.ones(2), np.full(1, 0.3), np.full(1, 1.5), np.full(1, 0.05))
    mu0, rho0, a0, b0 = sampler.net.palette.prior[0]
    logs = []
    for i, value in enumerate(values - schema.centre[0]):
        rest = np.delete(values, i) - schema.centre[0]
        n, mean = rest.size, rest.mean()
        spread = ((rest - mean) ** 2).sum() + n / 12.0 + rho0 * n / (rho0 + n) * (mean - mu0) ** 2
        rho, a, b = rho0 + n, a0 + 0.5 * n, b0 + 0.5 * spread
        t = stats.t(2.0 * a, (rho0 * mu0 + n * mean) / rho, np.sqrt((rho + 1.0) / rho * b / a))
        logs.append(np.log(t.cdf(value + 0.5) - t.cdf(value - 0.5)))
    found = ps.SPNPosterior.from_idata(idata).log_likelihood()
    np.testing.assert_allclose(np.squeeze(found["s"].values if "s" in found else found.values)[0], logs, rtol=1e-9)


@pytest.mark.parametrize("name", ["fit", "drawn", "rounded"])
@pytest.mark.parametrize("known", [{}, {"change": -3}, {"change": (5, 9)}, {"visits": (1, 80)}])
def test_the_most_probable_whole_numbers_are_those_of_largest_mass(name, known):
    post = of_counts()[1][name]
    found = post.mpe(given=known)
    low, high = known.get("visits", (0, 90))
    first, last = np.ravel([known.get("change", (-6, 45))])[[0, -1]]
    rows = pd.MultiIndex.from_product([range(low, high + 1), range(first, last + 1)], names=["visits", "change"])
    rows = rows.to_frame(index=False)
    logs = post.log_density(rows).values
    at = rows.iloc[[int(logs.argmax())]].reset_index(drop=True)
    pd.testing.assert_frame_equal(found.value, at[found.value.columns.to_list()], check_dtype=False)
    rest = np.log(float(post.probability(known))) if known else 0.0
    assert float(found.log_density) == pytest.approx(logs.max() - rest, abs=1e-6)


# ---- moments are sums over whole numbers


def rounded_leaf(mu, scale, dof, code):
    """One leaf whose Student t is known."""
    return Leaves(np.array([code]), np.array([[mu, 2.0, 0.5 * dof, scale**2 * dof / 3.0]]))


def sums_over_cells(mu, scale, dof, code, low, high, order):
    """Mean and central moments by the distribution function of the t at each whole number."""
    reach = 3_000.0 * scale + 40.0
    first, last = (v if np.isfinite(v) else np.round(mu + np.sign(v) * reach) for v in (low, high))
    k = np.arange(max(first, 0.0) if code == ROUNDED_COUNT else first, last + 1.0)
    t, below, above = stats.t(dof), (k - 0.5 - mu) / scale, (k + 0.5 - mu) / scale
    below = np.where((k == 0.0) & (code == ROUNDED_COUNT), -np.inf, below)
    p = np.where(below > 0.0, t.sf(below) - t.sf(above), t.cdf(above) - t.cdf(below))
    p = p / p.sum()
    near = min(max(round(mu), k[0]), k[-1])
    mean = p @ (k - near)
    return near + mean, [p @ (k - near - mean) ** m for m in range(order + 1)]


@pytest.mark.parametrize("code", [ROUNDED_GAUSSIAN, ROUNDED_COUNT])
@pytest.mark.parametrize("scale", [0.05, 0.4, 2.3, 6.0, 40.0])
@pytest.mark.parametrize("mu", [0.37, -1.2, 8.5, 2004.3])
def test_moments_of_a_leaf_are_sums_over_its_masses(code, scale, mu):
    for dof in (9.0, 60.0):
        leaf = rounded_leaf(mu, scale, dof, code)
        for low, high in ((-np.inf, np.inf), (0.0, 3.0), (mu - 0.2, mu + 9.0), (mu // 1 + 1.0, np.inf)):
            if high < 0.0 and code == ROUNDED_COUNT:
                continue
            whole = np.ceil(max(low, 0.0) if code == ROUNDED_COUNT and np.isfinite(low) else low)
            mean, central = sums_over_cells(mu, scale, dof, code, whole, np.floor(high), 4)
            event = None if np.isinf(low) and np.isinf(high) else Interval(low, high)
            if not np.isfinite(log_event(leaf, event or Interval(low, high))[0]) or np.isnan(mean):
                continue
            found, variance = leaf_moments(leaf, event)
            spread = max(np.sqrt(central[2]), 1e-9 * (1.0 + abs(mean)))
            assert found[0] == pytest.approx(mean, abs=1e-9 * spread)
            assert variance[0] == pytest.approx(central[2], rel=1e-8, abs=1e-18)
            about = raw_moments(leaf, mean, 4, event)[0]
            np.testing.assert_allclose(about[2:], central[2:], rtol=1e-7, atol=1e-9 * spread**3)


@pytest.mark.parametrize("dof", [2.3, 3.0, 12.0])
def test_means_and_variances_by_the_series_of_the_rounding_error(dof):
    """K - X is a sum of sines; its mean is one of values of the characteristic function, by quadrature."""
    mu = np.array([0.0, 0.31, 0.5, 7.8, -3.1])
    for scale in (0.3, 1.1, 3.0, 5.0):
        leaves = [rounded_leaf(m, scale, dof, ROUNDED_GAUSSIAN) for m in mu]
        found = np.array([leaf_moments(one)[0][0] for one in leaves])
        j = np.arange(1, 60)[:, None]
        x = np.sqrt(dof) * 2.0 * np.pi * j * scale
        flat = kv(0.5 * dof, x) * x ** (0.5 * dof) / (gamma(0.5 * dof) * 2.0 ** (0.5 * dof - 1.0))
        expected = mu + ((-1.0) ** j / (np.pi * j) * np.sin(2.0 * np.pi * j * mu) * flat).sum(axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_moments_that_a_rounded_leaf_does_not_have():
    leaf = rounded_leaf(3.3, 2.0, 2.0, ROUNDED_GAUSSIAN)
    assert leaf_moments(leaf)[1][0] == np.inf and np.isfinite(leaf_moments(leaf)[0][0])
    assert leaf_moments(leaf, Interval(-np.inf, 4.0))[1][0] == np.inf
    assert np.isfinite(leaf_moments(rounded_leaf(3.3, 2.0, 2.0, ROUNDED_COUNT), Interval(-np.inf, 4.0))[1][0])
    assert leaf_moments(rounded_leaf(3.3, 2.0, 0.9, ROUNDED_GAUSSIAN))[0][0] == 3.3  # its principal value
    assert leaf_moments(rounded_leaf(3.3, 2.0, 0.9, ROUNDED_GAUSSIAN), Interval(2.0, np.inf))[0][0] == np.inf
    assert np.isinf(raw_moments(leaf, 0.0, 4)[0][[2, 4]]).all() and np.isnan(raw_moments(leaf, 0.0, 3)[0][3])
    for event in (Interval(2.1, 2.9), Interval(5.0, 4.0)):  # no whole number
        for code in (ROUNDED_GAUSSIAN, ROUNDED_COUNT):
            mean, variance = leaf_moments(rounded_leaf(2.5, 1.0, 5.0, code), event)
            assert mean[0] == 0.0 and variance[0] == 0.0
    far = raw_moments(rounded_leaf(0.2, 0.5, 4.1, ROUNDED_GAUSSIAN), 0.0, 4)[0][4]  # its tail holds nearly all of it
    k = np.arange(-2_000_000.0, 2_000_001.0)
    p = np.diff(stats.t.cdf(np.append(k - 0.5, k[-1] + 0.5), 4.1, 0.2, 0.5)[: k.size // 2 + 1])
    low = k[: k.size // 2]
    constant = p[0] * np.abs(low[0] - 0.2) ** 5.1  # the tail is a power
    rest = constant * 2_000_000.5**-0.1 / 0.1
    right = stats.t.sf(-low[1:] - 0.5, 4.1, 0.2, 0.5) - stats.t.sf(-low[1:] + 0.5, 4.1, 0.2, 0.5)
    assert far == pytest.approx(p @ low**4 + right @ low[1:] ** 4 + 2.0 * rest, rel=1e-5)


@cache
def masses_of(name, column, known):
    """Whole numbers and their probabilities given what is known, by sets."""
    post = of_counts()[1][name]
    if known:
        post = post.condition(known)
    k = np.arange(0 if column == "visits" else -3_000, 3_001)
    p = np.diff(np.append(0.0, post.cdf(k.astype(float), column).values))
    p[0] = float(post.probability({column: {int(k[0])}}))
    return k, p, post


@pytest.mark.parametrize("name", ["fit", "drawn", "rounded"])
@pytest.mark.parametrize(
    "known",
    [
        "",
        "0 <= visits <= 40 and -4 <= change <= 12",
        "visits <= 1 and 0 <= change <= 9 or 30 <= visits <= 80 and -3 <= change <= 40",
    ],
)
def test_moments_of_counts_are_sums_over_their_probabilities(name, known):
    for column in ("visits", "change"):
        k, p, post = masses_of(name, column, known)
        if not known:  # heavy tails: compare what an interval holds, and the whole by halves
            post = post.condition({column: (int(k[0]), 3_000)})
            p = p / p.sum()
            if column == "visits":
                assert float(post.mean().sel(column=column)) > 0.0
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
        mean = p @ k
        spread = np.sqrt(p @ (k - mean) ** 2)
        assert float(post.mean().sel(column=column)) == pytest.approx(mean, abs=1e-7 * spread)
        assert float(post.cov().sel(column=column, other=column)) == pytest.approx(spread**2, rel=1e-6)
        for order in range(1, 5):
            found = float(post.moment(order).sel(column=column))
            assert found == pytest.approx(p @ k.astype(float) ** order, rel=1e-5, abs=1e-7 * spread**order)
            central = float(post.moment(order, central=True).sel(column=column))
            expected = p @ (k - mean) ** order
            assert central == pytest.approx(expected, rel=1e-5, abs=1e-6 * spread**order)


@pytest.mark.parametrize("name", ["fit", "drawn", "rounded"])
def test_predictions_of_counts_are_sums_over_their_probabilities(name):
    frame, posteriors = of_counts()
    post = posteriors[name].condition({"visits": (0, 200)})
    rows = frame[["change"]].head(3)
    k = np.arange(0.0, 201.0)
    p = np.diff(post.predict_cdf(rows, "visits", k).values, axis=1, prepend=0.0)
    mean = p @ k
    np.testing.assert_allclose(post.predict(rows, "visits"), mean, rtol=1e-7)
    sd = np.sqrt((p * (k - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(post.predict_sd(rows, "visits"), sd, rtol=1e-7)
