"""Several starts in the tuning: how many, which of them goes on, and when there is none."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_array_equal

import pymc_spn as ps
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.start_race import MAX_STARTS, MIN_HEAT, SHARE, race_of
from tests.networks.hyperparameter_chains import chain_of

HYPERPARAMETERS = tuple(np.full(2 if i == 0 else 4, v) for i, v in enumerate((1.0, 0.1, 1.5, 0.05)))


def in_race(tune=500, seed=0):
    """A chain at its first start, and its generator; with so many leaves it makes bottom-up sweeps."""
    chain = chain_of("auto", 2000, 2)
    chain.sampler.n_occupied_leaves = lambda: 60
    chain.schema = replace(chain.schema, start="kmeans")
    chain.start(np.random.default_rng(seed), HYPERPARAMETERS, tune)
    return chain, np.random.default_rng(seed + 1)


def test_number_of_starts():
    assert race_of(0)[0] == 0 and race_of(124)[0] == 1
    assert race_of(125) == (2, MIN_HEAT) and race_of(1000) == (MAX_STARTS, 20)
    for tune in range(0, 5000, 37):
        n_starts, heat = race_of(tune)
        assert n_starts * heat <= SHARE * tune and n_starts <= MAX_STARTS


def log_joint(chain):
    return float(chain.sampler.statistics()[0])


def test_the_best_start_goes_on():
    """By the mean log joint over the second half of its heat."""
    chain, rng = in_race()
    n_starts, heat = race_of(500)
    means, ends, states = [], [], []
    for _ in range(n_starts):
        found = []
        for _ in range(heat):
            chain.sweep(rng)
            found.append(log_joint(chain))
        means.append(np.mean(found[heat // 2 :]))
        ends.append(found[-1])
        states.append(chain.sampler.digits())
    assert chain.race is not None and len({s.tobytes() for s in states}) == n_starts
    assert not chain.race.before_sweep(chain, rng)
    best = int(np.argmax(means))
    assert_array_equal(chain.sampler.digits(), states[best])
    assert log_joint(chain) == pytest.approx(ends[best], abs=1e-9)
    chain.sweep(rng)
    assert chain.race is None


@pytest.mark.parametrize("more", [1, 8])
def test_the_end_of_the_tuning_ends_the_race(more):
    """In the middle of a heat; the state present counts once it is past the first half."""
    chain, rng = in_race()
    heat = race_of(500)[1]
    for n in range(heat + more):
        chain.sweep(rng)
        if n + 1 == heat:
            first = chain.sampler.digits()
    last, best = chain.sampler.digits(), chain.race.best.log_joint
    present = np.mean([*chain.race.log_joints]) if chain.race.log_joints else -np.inf
    assert (more > heat // 2) == (present > -np.inf)
    chain.settle()
    assert chain.race is None
    assert_array_equal(chain.sampler.digits(), last if present > best else first)


def test_hyperparameters_go_with_their_state():
    chain, rng = in_race()
    owned = np.zeros((4, 4), np.bool_)
    owned[0, :2] = owned[1] = True
    priors = np.array([[0.0, 1.0]] * 4)
    while chain.race.n_left > 0:
        chain.sweep(rng)
        chain.update_hyperparameters(rng, owned, priors)
    best = chain.race.best
    chain.settle()
    for one, other in zip(chain.sampler.hyperparameters, best.state.hyperparameters, strict=True):
        assert_array_equal(one, other)
    assert_array_equal(chain.sampler.digits(), best.state.digits)


def races(tune=150, start="kmeans", kernel=None, **spn):
    """Whether a step is in a race after the first heat, which is of ten sweeps."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"]).round(1)
    with pm.Model() as model:
        if spn.get("leaf_scale") == "modelled":
            spn["leaf_scale"] = pm.HalfNormal("scale", 1.0)
        ps.SPN("x", ps.circuits.complete_tree(frame.columns, n_children=2), observed=frame, start=start, **spn)
        names = [v for v in model.value_vars if v.name.startswith("x_")]
        step = ps.steps.TopDownSPNStep(names, kernel=kernel, rng=0)
    step.setup_chain(0, tune, 10)
    point = model.initial_point(0)
    for _ in range(MIN_HEAT + 1):
        point, _ = step.step(point)
    return step.chain.race is not None


def test_when_there_is_a_race(monkeypatch):
    assert not races()  # no bottom-up sweeps on so few rows, and without them early log joints mislead
    monkeypatch.setattr(Chain, "plan", lambda self: ("exact", 5))
    assert races() and races(leaf_scale=0.1)
    assert not races(tune=100)
    assert not races(tune=0)
    assert not races(start="prior")
    assert not races(kernel="exact")
    assert not races(leaf_scale="modelled")  # log joints at two values of it are not comparable
    assert races(rounded=True)
