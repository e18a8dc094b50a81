"""Posteriors of networks with leaves over several columns: records, and all questions against their circuits."""

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.events.events import Interval
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.joint_leaves import joint_regions
from pymc_spn.gibbs.statistics import log_joint, slopes_of_log_joint
from pymc_spn.laws.law import Law
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.recorded_rows import LeavesOfOneInRows
from pymc_spn.networks.records.record import read_record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.numerics.marks import GIVEN_DRAWS
from tests.networks.joint_tables import QUESTIONS, table
from tests.sampled_runs import assert_same, draw, model_of


@cache
def sampled():
    model = model_of(observed=table(), joint_leaves=ps.leaves.MultivariateGaussian())
    return draw(model, draws=6, tune=30, chains=2)


@cache
def posterior():
    return ps.SPNPosterior.from_idata(sampled().isel(draw=[1, 5]))


@cache
def circuit():
    return posterior().as_circuit()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_the_answer_of_the_circuit(question):
    ours, theirs = (QUESTIONS[question](one) for one in (posterior(), circuit()))
    stated = 5.0 * np.hypot(*(one.attrs["mcse"] for one in (ours, theirs))) if "mcse" in ours.attrs else 0.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8 + stated)


def test_the_circuit_has_leaves_over_several_columns():
    assert any(name.startswith("multivariate_student_t") for name in circuit().circuit.families)


def test_a_record_holds_the_whole_state():
    states = RecordedStates(read_record(sampled()))
    log_joints = sampled().posterior["x_log_joint"].values.ravel()
    for s in range(states.n_draws):
        sampler = states.load(s)
        sampler.jacobian = states.schema.log_jacobians(states.record.table).sum()
        assert sampler.statistics()[0] == pytest.approx(log_joints[s], abs=1e-8)


def test_the_log_joint_has_the_slope_that_it_states():
    states = RecordedStates(read_record(sampled()))
    sampler = states.load(3)
    state, compiled = sampler.statistics(), states.schema.compiled
    h, n = [np.array(v) for v in sampler.hyperparameters], len(states.schema.columns)
    gradient = np.empty(2 + 4 * n)
    slopes_of_log_joint(state, compiled, *h, gradient)
    for d in states.schema.joint_columns:
        step, ends = 1e-5 * h[4][d], []
        for sign in (1.0, -1.0):
            moved = h[4].copy()
            moved[d] += sign * step
            ends.append(log_joint(state, compiled, *h[:4], moved))
        assert gradient[2 + 3 * n + d] == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-5, abs=1e-6)


def test_a_chain_forgets_the_cells_that_the_one_before_drew():
    """Rows in products have no cells drawn: at a start, where all are in such leaves, none may be lacking."""
    schema = read_record(sampled()).schema
    chain, runs = Chain(schema, read_record(sampled()).table), []
    for _ in range(2):
        rng = np.random.default_rng(1)
        chain.start(rng, [np.ones(2), *np.full((4, 4), 0.3)], 0)
        assert np.isfinite(chain.sampler.net.joints.sums).all()
        for _ in range(4):
            chain.sweep(rng)
        runs.append(chain.sampler.statistics()[0])
        assert np.isnan(chain.sampler.filled).any()
    assert runs[0] == runs[1]


def test_scales_of_columns_that_follow_from_others_do_not_fall_to_nothing():
    """Their density has no bound: 24 sweeps took a scale to 1e-263, and the next slice update did not end."""
    z = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame({"a": z[:, 0], "b": z[:, 0], "c": z[:, 0] + 0.3 * z[:, 1]})
    model = model_of(observed=frame)
    idata = draw(model, draws=20, tune=40)
    assert idata.posterior["x_covariance_scale"].values.min() > 1e-16
    assert np.isfinite(ps.SPNPosterior.from_idata(idata).log_density(frame)).all()


@pytest.mark.parametrize("events", [{}, {0: Interval(0.0, 2.0)}, {0: Interval(0.0, 2.0), 1: Interval(-1.0, 1.0)}])
def test_rows_together_are_answered_as_one_by_one(events):
    """Densities of rows with gaps and far away, and probabilities of all leaves that hold a column."""
    states = posterior()._first.states
    values = np.random.default_rng(3).normal(scale=3.0, size=(70, 4))
    values[:, 3] = values[:, 3] > 0.0
    values[np.random.default_rng(4).random(values.shape) < 0.3] = np.nan
    values[::9, 2] *= 1e7
    values[:, list(events)] = np.nan

    def asked(values):
        rows, law = np.where(np.arange(4) == 2, np.nan, values), RecordedLaw(states, evidence=events)
        logs, *shares = LeavesOfOneInRows(law, 2, rows).all_shares(slice(0, len(rows)))
        return states.log_densities(values, events), logs, *(share.T for share in shares)

    together = asked(values)
    for m in (0, 9, 35, 69):
        for ours, alone in zip(together, asked(values[m : m + 1]), strict=True):
            np.testing.assert_allclose(ours[:, m], alone[:, 0], rtol=1e-11, atol=1e-11)


def test_densities_of_many_columns_that_follow_from_others_do_not_overflow():
    """Two leaves over 60 columns each are together e^1000 above the product of their columns."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(90, 2)).repeat(60, axis=1)
    values = common * rng.uniform(0.5, 2.0, 120) + 1e-5 * rng.normal(size=common.shape)
    frame = pd.DataFrame(values, columns=[f"x{d}" for d in range(120)])
    fit = ps.fit_variational(frame[:70], random_seed=1)
    rows = frame[70:].mask(rng.random((20, 120)) < 0.1)
    rows.iloc[0, 7] = 30.0
    theirs = fit.as_circuit()
    expected = theirs.log_density(rows)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(fit.log_density(rows), expected, rtol=1e-9)
    np.testing.assert_allclose(fit.predict(rows, "x3"), theirs.predict(rows, "x3"), rtol=1e-9)
    surprise = theirs.anomaly(rows)["surprise"]
    np.testing.assert_allclose(fit.anomaly(rows)["surprise"], surprise, rtol=1e-6, atol=1e-6)
    assert fit.impute(rows, random_seed=1).notna().all(axis=None)


@pytest.mark.parametrize("events", [{}, {3: frozenset({1})}, {0: Interval(0.0, 2.0)}])
def test_densities_without_a_column_are_those_of_rows_without_it(events):
    law = RecordedLaw(posterior()._first.states, evidence=events)
    rows = np.random.default_rng(5).normal(scale=2.0, size=(30, 4))
    rows[:, 3] = 1.0
    rows[np.random.default_rng(6).random(rows.shape) < 0.3] = np.nan
    rows[::7, 1] *= 1e6
    rows[::5, list(events)] = 1.0
    (logs, ours), (_, theirs), seen = (
        law.log_density_left_out(rows),
        Law.log_density_left_out(law, rows),
        ~np.isnan(rows),
    )
    np.testing.assert_allclose(logs, law.log_density(rows), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ours[:, seen], theirs[:, seen], rtol=1e-10, atol=1e-10)


# ---- intervals of columns in such leaves


@pytest.mark.parametrize("given", [{}, {"a": 0.3}, {"a": 0.3, "b": -0.2}, {"g": "0"}, {"c": 1.5, "g": "1"}])
def test_pairs_of_columns_are_those_of_rows_with_two_cells(given):
    law = posterior()._known(given).law
    rng, used = np.random.default_rng(1), np.array([0, 3])
    rows = law.draw(11, rng), law.draw(11, rng)
    for found, exact in zip(
        law.log_density_of_pairs(used)(*rows), Law.log_density_of_pairs(law, used)(*rows), strict=True
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


def test_moments_given_an_interval_are_averages_over_its_points():
    nodes, weights = np.polynomial.legendre.leggauss(24)
    x, w = 1.0 + nodes, weights  # the interval (0, 2)
    density = np.exp(posterior().marginal("a").log_density(pd.DataFrame({"a": x})).values)
    share = w * density / (w * density).sum()
    each = [posterior().mean({"a": float(v)}).sel(column=["b", "c"]).values for v in x]
    found = posterior().mean({"a": (0.0, 2.0)})
    np.testing.assert_allclose(found.sel(column=["b", "c"]), share @ np.array(each), rtol=1e-6)
    assert float(found.sel(column="a")) == pytest.approx(share @ x, rel=1e-6)


def test_information_given_an_interval_is_that_of_the_density_within():
    """Of two columns, by quadrature. Weights of leaves that did not know of the interval gave less than half."""
    x, w = np.polynomial.legendre.leggauss(60)
    t = np.linspace(-10.0, 10.0, 1601)
    points = np.stack(np.meshgrid(1.0 + x, np.sinh(t), indexing="ij"), axis=-1).reshape(-1, 2)
    density = posterior().marginal(["a", "b"]).log_density(pd.DataFrame(points, columns=["a", "b"])).values
    mass = np.exp(density).reshape(x.size, -1) * w[:, None] * np.cosh(t)
    mass /= mass.sum()
    expected = np.sum(mass * np.log(mass / mass.sum(axis=1, keepdims=True) / mass.sum(axis=0)))
    found = posterior().condition({"a": (0.0, 2.0)}).mutual_information("a", "b", n=16_000, random_seed=1)
    assert abs(float(found) - expected) < 5.0 * found.attrs["mcse"] < 0.018


@pytest.mark.parametrize(
    ("event", "tolerance"), [({"a": (0.0, 2.0)}, 1e-5), ({"a": (0.0, 2.0), "b": (-1.0, 1.0)}, 2e-3)]
)
def test_a_column_given_intervals_is_a_ratio_of_probabilities(event, tolerance):
    given = posterior().condition(event)
    whole = float(posterior().probability(event))
    for x in (-1.0, 0.5, 2.0):
        below = float(posterior().probability({**event, "c": (-np.inf, x)}))
        assert float(given.cdf(x, "c")) == pytest.approx(below / whole, abs=tolerance)
    row = pd.DataFrame({"c": [0.5], "g": ["1"]})
    asked = "b" if "b" not in event else "c"
    row = row.drop(columns=asked, errors="ignore")
    points = {name: row.iloc[0][name] for name in row}
    of_row = float(posterior().probability({**event, asked: (-np.inf, 0.7)}, given=points))
    own = given.predict_cdf(row.assign(**{name: np.nan for name in event}), asked, 0.7)
    assert float(own.squeeze()) == pytest.approx(
        of_row / float(posterior().probability(event, given=points)), abs=tolerance
    )


def test_columns_that_follow_closely_keep_their_tolerances():
    """Twice another column: with as few nodes as for others, a law is a row of spikes (0.008 off, a quantile 0.03)."""
    x = np.random.default_rng(5).normal(size=60)
    model = model_of(observed=pd.DataFrame({"a": x, "b": 2.0 * x}), joint_leaves=ps.leaves.MultivariateGaussian())
    post = ps.SPNPosterior.from_idata(draw(model, draws=3, tune=20, random_seed=1))
    for event, tolerance in (({"a": (-1.0, 1.0)}, 2e-4), ({"a": (-1.0, 1.0), "b": (-1.0, 1.0)}, 2e-3)):
        whole, low = float(post.probability(event)), -1.0 if "b" in event else -np.inf
        for x in (-0.3, 0.5):
            below = float(post.probability({**event, "b": (low, x)}))
            assert float(post.cdf(x, "b", given=event)) == pytest.approx(below / whole, abs=tolerance)
        q = float(post.quantile(0.9, "b", given=event))
        assert float(post.probability({**event, "b": (low, q)})) / whole == pytest.approx(0.9, abs=2 * tolerance)


def test_marks_say_what_intervals_of_such_columns_make_numerical():
    post, one, two = posterior(), {"a": (0.0, 2.0)}, {"a": (0.0, 2.0), "b": (-1.0, 1.0)}
    assert post.probability(one).attrs["exactness"] == post.cdf(0.5, "c").attrs["exactness"] == "exact" + GIVEN_DRAWS
    assert post.mean({"a": 0.3}).attrs["exactness"] == "exact" + GIVEN_DRAWS
    assert post.probability(two).attrs["tolerance"] == pytest.approx(1e-4)
    for known, tolerance in ((one, 2e-4), (two, 2e-3)):
        for answer in (post.condition(known).cdf(0.5, "c"), post.cdf(0.5, "c", given=known), post.mean(known)):
            assert answer.attrs["exactness"].startswith("numerical")
            assert answer.attrs["tolerance"] == pytest.approx(tolerance)


def test_draws_given_intervals_have_their_moments():
    """Means of 1,000 draws within 4 standard errors, tails of the distribution function by a KS test at 1e-4."""
    given = posterior().condition({"a": (0.0, 2.0), "b": (-1.0, 1.0)})
    drawn = given.sample(1_000, random_seed=1)
    assert drawn["a"].between(0.0, 2.0).all() and drawn["b"].between(-1.0, 1.0).all()
    mean = given.mean()
    for name in "abc":
        error = drawn[name].std() / np.sqrt(len(drawn))
        assert abs(drawn[name].mean() - float(mean.sel(column=name))) < 4.0 * error + 2e-3
    assert stats.kstest(drawn["c"], lambda x: given.cdf(x, "c").values).pvalue > 1e-4


def test_drawn_circuits_have_the_predictive_on_average():
    """Densities of 300 drawn circuits of one draw: their mean within 5 standard errors of the predictive."""
    one = ps.SPNPosterior.from_idata(sampled().isel(chain=[0], draw=[2]))
    drawn = one.draw_circuits(300, random_seed=1)
    rows = pd.DataFrame({"a": [0.5], "b": [0.3], "c": [1.0], "g": ["1"]})
    densities = np.exp([float(each.log_density(rows).squeeze()) for each in drawn])
    error = densities.std() / np.sqrt(densities.size)
    assert abs(densities.mean() - np.exp(float(one.log_density(rows).squeeze()))) < 5.0 * error


def test_an_interval_says_nothing_more_of_a_known_value():
    """p(row | event) = p(row) / p(event) where the row has a value within the event; so does what follows from it."""
    rows = pd.DataFrame({"a": [0.5, 2.0], "b": [0.3, 1.0], "c": [1.0, 0.0], "g": ["0", "1"]})
    one = ps.SPNPosterior.from_idata(sampled().isel(chain=[0], draw=[2]))
    for event in ({"a": (-3.0, 3.0)}, {"a": (-3.0, 3.0), "b": (-2.0, 2.0)}):
        given = one.condition(event)
        expected = one.log_density(rows).values - float(one.log_probability(event))
        np.testing.assert_allclose(given.log_density(rows).values, expected, atol=1e-4)
        np.testing.assert_allclose(given.predict(rows, "c").values, one.predict(rows, "c").values, rtol=1e-9)


# ---- the most probable row


def test_the_most_probable_row_is_that_of_the_circuit():
    """Given nothing, points and events, and of a marginal; `tests/maxima` has ascents over circuits."""
    for ask in (
        lambda p: p.mpe(),
        lambda p: p.mpe({"b": 1.0}),
        lambda p: p.mpe({"a": 0.5, "c": -1.0}),
        lambda p: p.mpe({"a": (1.5, 3.0)}),
        lambda p: p.mpe({"a": (1.5, 3.0), "b": (None, 0.0)}),
        lambda p: p.marginal(["a", "c"]).mpe(),
        lambda p: p.marginal(["b", "g"]).mpe({"g": "0"}),
    ):
        ours, theirs = (ask(one) for one in (posterior(), circuit()))
        assert float(ours.log_density) == pytest.approx(float(theirs.log_density), abs=2e-6)


def test_the_row_of_a_union_is_the_best_of_its_parts():
    events = [{"a": (1.5, 3.0)}, {"a": (-2.0, 0.0), "b": (0.0, 2.0)}]
    union = posterior().condition(events)
    found, logs = union.mpe(), [posterior().log_probability(event) for event in events]
    total = np.logaddexp(*map(float, logs))
    each = [float(posterior().mpe(e).log_density) + float(log) - total for e, log in zip(events, logs, strict=True)]
    assert float(found.log_density) == pytest.approx(max(each), abs=1e-6)


def test_the_row_given_an_interval_of_a_column_that_is_summed_out():
    asked = posterior().condition({"a": (1.0, 2.5)}).marginal(["b", "g"])
    found = asked.mpe()
    b = np.linspace(-4.0, 8.0, 1201)
    grid = pd.concat([pd.DataFrame({"b": b, "g": g}) for g in ("0", "1")])
    best = asked.log_density(grid).values.max()
    assert -2e-5 <= float(found.log_density) - best < 1e-3


def test_a_saved_posterior_has_the_cells_that_were_drawn(tmp_path):
    post = posterior()
    post.save(tmp_path / "x.nc")
    again = ps.load(tmp_path / "x.nc")
    assert np.isfinite(again._states.record.filled).any()
    np.testing.assert_array_equal(again._states.record.filled, post._states.record.filled)
    for question in ("log_density", "mean given"):
        np.testing.assert_array_equal(QUESTIONS[question](again), QUESTIONS[question](post))
    np.testing.assert_array_equal(again.log_likelihood()["x"], post.log_likelihood()["x"])


def test_leaf_types_count_the_rows_of_leaves_over_several_columns():
    post, observed = posterior(), table()["a"].notna().to_numpy()
    states = RecordedStates(read_record(sampled().isel(draw=[1, 5])))
    for s in range(states.n_draws):
        sampler = states.load(s)
        tree, edges, joints = sampler.structure, sampler.net.edges, sampler.net.joints
        inside = np.zeros(60, np.bool_)
        for r in np.flatnonzero(joints.split >= 0):
            if 0 in tree.order[tree.begin[r] : tree.end[r]]:
                slot = np.maximum(sampler.slots[:, r], 0)
                inside |= (sampler.slots[:, r] >= 0) & (edges.split[edges.begin[r] + slot] == joints.split[r])
        share = post.leaf_types("a").stack(draws=("chain", "draw")).isel(draws=s)
        assert float(share.sel(family="multivariate_gaussian")) == pytest.approx(inside[observed].mean())
        assert float(share.sum()) == pytest.approx(1.0) and share.sizes["family"] == 2
    by_entry = post.leaf_types("b", by_entry=True)
    assert by_entry["family"].values.tolist() == ["gaussian", "multivariate_gaussian"]
    assert post.leaf_types("g")["family"].values.tolist() == ["categorical"]


# ---- the default
def chosen(observed, structure=None, **options):
    """Names of the columns that may be in leaves over several columns."""
    with pm.Model():
        rv = ps.SPN("x", structure, observed=observed, **options)
    return NetworkSchema.from_vector(rv.owner.op.schema).joint


def test_by_default_leaves_are_over_several_columns_where_they_can_be(caplog):
    caplog.set_level("INFO", logger="pymc")
    assert chosen(table()) == ("a", "b", "c")
    assert caplog.messages[-1].endswith("multivariate leaves over 3 columns. Change with structure= or joint_leaves=")
    assert chosen(table()[["a", "b"]]) == ("a", "b")
    assert caplog.messages[-1] == "Leaves of 'x': multivariate leaves over 2 columns. Change with joint_leaves="
    assert "multivariate leaves over 3 columns" in repr(posterior())
    caplog.clear()
    assert chosen(table(), joint_leaves=ps.leaves.MultivariateGaussian()) == ("a", "b", "c")
    assert not any("joint_leaves" in m for m in caplog.messages)  # as they were asked for
    positive = ps.Table.from_frame(table()[["a", "b"]].abs() + 0.1, kinds={"a": "positive"})
    assert chosen(positive) == ("a", "b")
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 65)), columns=[f"x{i}" for i in range(65)])
    with pm.Model():  # no region of 65 columns, but those of 33 and 32
        rv = ps.SPN("x", ps.circuits.complete_tree(list(wide)), observed=wide)
    schema = NetworkSchema.from_vector(rv.owner.op.schema)
    assert not joint_regions(schema.structure, schema.compiled.is_joint)[0] and len(schema.joint_columns) == 65


def test_by_default_there_are_no_such_leaves_where_they_cannot_be(caplog):
    caplog.set_level("INFO", logger="pymc")
    whole = {"leaves": {"n": ps.leaves.Gaussian()}, "rounded": ["n"]}
    positive = ps.Table.from_frame(table()[["a", "b"]].abs() + 0.1, kinds={"a": "positive"})
    assert chosen(table(), joint_leaves=None) == ()
    assert chosen(table()[["a", "g"]]) == ()
    assert chosen(table(), ps.circuits.complete_tree(list("abcg"), 2)) == ()
    assert chosen(table(), missing="draw") == ()
    assert chosen(table().assign(n=np.arange(60) % 23), **whole) == ()
    assert chosen(positive, leaves={"a": ps.leaves.LogNormal()}) == ()
    assert not any("multivariate leaves" in m for m in caplog.messages)


def test_a_table_without_such_leaves_is_as_with_none():
    """Bit by bit, the learned splits included."""
    frame = table()[["a", "g"]].assign(h=table()["g"], k=np.arange(60) % 3)
    runs = []
    for options in ({}, {"joint_leaves": None}):
        model = model_of(observed=frame, **options)
        runs.append(draw(model, draws=3, tune=3))
        assert "x_covariance_scale" not in model.named_vars
    assert_same(*runs)


def test_chains_that_go_on_keep_the_leaves_of_the_posterior(caplog):
    frame = table()
    caplog.set_level("INFO", logger="pymc")
    for options, names in (({}, ("a", "b", "c")), ({"joint_leaves": None}, ())):
        model = model_of(observed=frame[:40], **options)
        post = ps.SPNPosterior.from_idata(draw(model, draws=3, tune=3, chains=1))
        caplog.clear()
        with pm.Model() as model:
            rv = ps.SPN("x", observed=frame, start=post)
        assert NetworkSchema.from_vector(rv.owner.op.schema).joint == names
        assert not any("Change with" in m and "leaves" in m for m in caplog.messages)
        again = ps.SPNPosterior.from_idata(draw(model, draws=2, tune=1, chains=1))
        assert ("multivariate leaves over 3 columns" in repr(again)) == bool(names)
    with pm.Model(), pytest.raises(ValueError, match="start: joint_leaves must be as in the posterior"):
        ps.SPN("x", observed=frame, start=post, joint_leaves=ps.leaves.MultivariateGaussian())


# ---- what does not go together
def test_by_default_columns_with_a_value_of_many_rows_are_left_out():
    """Of 400 rows 160 have no rain; the learned splits put the other columns apart from it."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((400, 2)), columns=["a", "b"])
    data["rain"] = np.where(np.arange(400) < 160, 0.0, np.round(rng.gamma(1.0, size=400), 2))
    names = {}
    for columns in (None, ["a", "rain"]):
        with pm.Model():
            rv = ps.SPN("x", observed=data, joint_leaves=ps.leaves.MultivariateGaussian(columns))
        names[columns is None] = NetworkSchema.from_vector(rv.owner.op.schema).joint
    assert names == {True: ("a", "b"), False: ("a", "rain")}
    with pytest.raises(ValueError, match="apart names the column 'z'"):
        ps.circuits.learn_tree(data, apart=["z"])


def test_leaves_over_several_columns_refuse_what_they_have_not():
    wide = ps.leaves.MultivariateGaussian
    with pm.Model():
        with pytest.raises(ValueError, match='joint_leaves needs missing="marginal"'):
            ps.SPN("x", observed=table(), joint_leaves=wide(), missing="draw")
        counts = table().assign(n=np.arange(len(table())) % 23)
        leaves = {"n": [ps.leaves.Gaussian(), ps.leaves.Poisson()]}
        with pytest.raises(ValueError, match=r"together with joint_leaves; leave out \['n'\]"):
            ps.SPN("x", observed=counts, joint_leaves=wide(), leaves=leaves, rounded=["n"])
        with pytest.raises(ValueError, match="column 'g' must be of real or positive numbers"):
            ps.SPN("x", observed=table(), joint_leaves=wide(columns=["a", "g"]))
        with pytest.raises(ValueError, match="names the column 'z'"):
            ps.SPN("x", observed=table(), joint_leaves=wide(columns=["a", "z"]))
        with pytest.raises(TypeError, match="joint_leaves must be"):
            ps.SPN("x", observed=table(), joint_leaves=True)
        with pytest.raises(ValueError, match="joint_leaves needs a region of 2 to 64"):
            ps.SPN("x", observed=table()[["a", "g"]], joint_leaves=wide())
        with pytest.raises(ValueError, match="joint_leaves needs a region of 2 to 64"):
            ps.SPN("x", ps.circuits.complete_tree(list("abcg"), 2), observed=table(), joint_leaves=wide())
    with pm.Model():
        ps.SPN("x", observed=table(), joint_leaves=wide())
        with pytest.raises(ValueError, match='kernel must be "exact" with multivariate leaves'):
            ps.steps.TopDownSPNStep(kernel="published")
    with pytest.raises(TypeError, match="columns must be a list of names"):
        wide(columns="ab")
