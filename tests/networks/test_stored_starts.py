"""Chains that go on from recorded draws with more rows: placed by exact conditionals, and the posterior is the same."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.gibbs.occupancy import MISSING
from pymc_spn.gibbs.redraw import PRIOR
from pymc_spn.networks.records.record import read_record
from tests.networks.tiny import tiny_sampler
from tests.reference import (
    canonical,
    count_keys,
    digits_from_state,
    independent_total_variation,
    tiny_problems,
    total_variation,
    weighted_states,
)
from tests.sampled_runs import assert_same, draw


# ---- placed rows against enumeration
def problem_with_one_more(name):
    """A problem, the digits of a state of all rows but the last, and the exact law of whole states given it."""
    problem = tiny_problems()[name]
    before = replace(problem, X=problem.X[:-1])
    states, weights, _ = weighted_states(before)
    digits = digits_from_state(before, states[int(np.argsort(weights)[-2])])
    key, given = canonical(digits, before), {}
    for state, weight in zip(*weighted_states(problem)[:2], strict=True):
        whole = digits_from_state(problem, state)
        if canonical(whole[:-1], before) == key:
            given[canonical(whole, problem)] = float(weight)
    total = sum(given.values())
    return problem, digits, {k: w / total for k, w in given.items()}


def seat_by_prior(sampler, rng, digits):
    """Planted: the new row joins a component by its size alone."""
    whole = np.full(sampler.slots.shape, MISSING, np.int32)
    whole[: len(digits)] = digits
    sampler.set_digits(whole)
    sampler.redraw(rng, PRIOR, len(digits))


def ratio_of_placed(name, seat, draws=2500):
    problem, digits, exact = problem_with_one_more(name)
    sampler, rng = tiny_sampler(problem), np.random.default_rng(3)
    found = np.empty((draws, *sampler.slots.shape), np.int32)
    for i in range(draws):
        seat(sampler, rng, digits)
        found[i] = sampler.digits()
    independent = [independent_total_variation(exact, draws, rng) for _ in range(200)]
    return total_variation(count_keys(found, problem), exact) / np.mean(independent)


@pytest.mark.parametrize("name", ["mixed", "palette", "missing", "infinite", "infinite_splits", "skewed"])
def test_a_new_row_is_placed_by_its_exact_conditional(name):
    """Total variation in units of as many independent draws; placing by the prior scores 2 and more."""
    assert ratio_of_placed(name, lambda sampler, rng, digits: sampler.seat(rng, digits)) < 1.7
    if name in ("mixed", "infinite", "skewed"):
        assert ratio_of_placed(name, seat_by_prior) > 2.0


def test_old_rows_keep_their_components_while_the_network_grows():
    """Three hundred rows on two clusters, and as many new ones of a third: regions run full on the way."""
    rng = np.random.default_rng(0)
    problem = tiny_problems()["infinite"]
    X = np.abs(rng.normal(np.repeat([[1.0], [4.0], [40.0]], 200, axis=0), 0.1, (600, 2)))
    sampler = tiny_sampler(replace(problem, X=X))
    digits = np.zeros((400, sampler.slots.shape[1]), np.int32)
    digits[200:, 0] = 1
    sampler.seat(rng, digits)
    np.testing.assert_array_equal(sampler.digits()[:400], digits)
    assert (sampler.slots >= 0).all() and not np.isnan(sampler.coded).any()
    before = sampler.digits()
    sampler.compact()
    np.testing.assert_array_equal(sampler.digits(), before)
    assert sampler.net.nodes.n_data[0] == 600
    assert len(np.unique(sampler.digits()[400:, 0])) < 60 and sampler.digits()[400:, 0].min() > 1


# ---- whole runs
def table(n=90):
    rng = np.random.default_rng(2)
    group = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "a": rng.normal(5.0 * group, 1.0),
            "b": rng.normal(-4.0 * group, 0.7),
            "c": np.array(list("uv"))[group],
        },
        index=[f"r{i}" for i in range(n)],
    )
    frame.loc["r3", "a"] = np.nan
    frame.loc["r7", "c"] = None
    return frame


def model_of(frame, **options):
    with pm.Model() as model:
        ps.SPN("x", observed=frame, **options)
    return model


@pytest.fixture(scope="module")
def stored():
    return ps.SPNPosterior.from_idata(draw(model_of(table()[:60]), draws=30, tune=60))


def test_a_run_goes_on_with_more_rows(stored, tmp_path):
    stored.save(tmp_path / "stored.nc")
    again = ps.SPNPosterior.from_idata(tmp_path / "stored.nc")
    model = model_of(table(), start=again)
    idata = draw(model, draws=4, tune=1)
    post = ps.SPNPosterior.from_idata(idata)
    assert "splits learned" in repr(post) and post.co_clustering().shape == (90, 90)
    old, new = read_record(stored_tree(stored, tmp_path)), read_record(idata)
    assert old.schema.structure.to_json() == new.schema.structure.to_json() and new.schema.start == "posterior"
    together = post.co_clustering()[:60, :60]
    assert float(np.abs(together - stored.co_clustering()).mean()) < 0.15  # after five sweeps
    assert_same(idata, draw(model_of(table(), start=again), draws=4, tune=1))
    assert_same(idata, draw(model, draws=4, tune=1, cores=2))
    assert_same(
        draw(model_of(table()[:60], start=stored), draws=2, tune=0),
        draw(copy.deepcopy(model_of(table()[:60], start=stored)), draws=2, tune=0),
    )


def stored_tree(post, folder):
    post.save(folder / "tree.nc")
    import xarray as xr

    with xr.open_datatree(folder / "tree.nc") as tree:
        return tree.load()


def test_the_first_state_is_a_recorded_one(stored):
    """Without a sweep: assignments of the old rows and learned hyperparameters are those of one recorded draw."""
    from pymc_spn.steps import TopDownSPNStep

    model = model_of(table(), start=stored)
    with model:
        step = TopDownSPNStep()
    kept, seen = step.stored, set()
    assert kept.digits.shape[1] == 60 and kept.weight.size == 32 and kept.weight.sum() == pytest.approx(1.0)
    for seed in range(8):
        given = [np.full(2, 9.0), *(np.full(3, 9.0) for _ in range(4))]
        digits, hyperparameters = kept.choose(np.random.default_rng(seed), given, step.owned)
        step.chain.start_at(np.random.default_rng(seed), hyperparameters, digits)
        np.testing.assert_array_equal(step.chain.sampler.digits()[:60], digits)
        assert hyperparameters[0].max() < 9.0 and hyperparameters[2][2] == 9.0  # levels have no shape to learn
        seen.add(digits.tobytes() + hyperparameters[0].tobytes())
    assert len(seen) > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda post: {"start": "stored"}, 'start must be "kmeans", "prior" or an SPNPosterior; got \'stored\''),
        (lambda post: {"start": post.marginal(["a"])}, "start needs the posterior as sampled"),
        (lambda post: {"observed": table()[:50]}, "must hold the 60 rows of the posterior, and may hold more; got 50"),
        (lambda post: {"observed": table()[::-1]}, r"in their order, and row 'r89' \(position 0\) has"),
        (lambda post: {"observed": table().assign(c="u")}, "in column 'c', where the posterior has"),
        (
            lambda post: {"observed": table().fillna({"a": 1.0})},
            "has 1 in column 'a', where the posterior has no value",
        ),
        (lambda post: {"observed": table().replace({"c": {"v": "w"}})}, "'w'"),
        (lambda post: {"observed": table().drop(columns="c")}, "missing from the data"),
        (lambda post: {"structure": ps.circuits.complete_tree(["a", "b", "c"])}, "structure must be that of the post"),
        (lambda post: {"structure": ps.circuits.complete_tree(["b", "a", "c"])}, "must have the posterior's columns"),
        (lambda post: {"leaves": {"a": [ps.leaves.Gaussian()] * 2}}, "leaves of column 'a' must be those of the"),
        (lambda post: {"missing": "draw"}, 'can only be continued with missing="marginal"'),
    ],
)
def test_what_does_not_fit_the_posterior_is_refused(options, message, stored):
    arguments = {"observed": table(), "start": stored} | options(stored)
    with pm.Model(), pytest.raises(ValueError, match=message):
        ps.SPN("x", **arguments)


def test_kinds_and_objects_that_are_none_are_refused(stored):
    names = [c.name for c in stored.columns]
    with pm.Model(), pytest.raises(TypeError, match=r"start must be .* or an SPNPosterior; got 3"):
        ps.SPN("x", observed=table(), start=3)
    codes = table().assign(c=(table()["c"] == "u").astype(int))
    with pm.Model(), pytest.raises(ValueError, match=r"structure must be|column 'c' must be as in the posterior"):
        ps.SPN("x", replace(stored._first.schema.structure, columns=tuple(names)), observed=codes, start=stored)


def test_rounded_values_go_on(stored):
    """Exact values begin anew in their cells; the old rows' components do not."""
    frame = table().round(1)
    post = ps.SPNPosterior.from_idata(draw(model_of(frame[:60], rounded=True), draws=4, tune=10, chains=1))
    again = ps.SPNPosterior.from_idata(draw(model_of(frame, rounded=True, start=post), draws=4, tune=1, chains=1))
    assert again.co_clustering().shape == (90, 90) and np.isfinite(again.log_density(frame)).all()


def test_digits_of_other_kinds_of_children_are_refused(stored):
    """With leaves over several columns a digit stands for another kind of child."""
    from dataclasses import replace

    from pymc_spn.networks.stored_starts import stored_start

    assert stored._first.schema.joint == ("a", "b")
    schema = replace(stored._first.schema, joint=())
    with pytest.raises(ValueError, match="start: joint_leaves must be as in the posterior"):
        stored_start(stored, schema, ps.Table.from_frame(table(), schema=stored._schema))
