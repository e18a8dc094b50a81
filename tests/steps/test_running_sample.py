"""What a step reads of the `pm.sample` that makes it; a failure here says what PyMC has changed."""

import inspect

import pymc as pm
import pytest
from pymc.step_methods.compound import BlockedStep

from pymc_spn.steps.owned_variables import USUAL_ARGUMENTS, SampleArguments, running_sample

GIVEN = {"vars", "model", "initial_point", "compile_kwargs"}
ADVICE = "PyMC has changed; look at pymc_spn/steps/owned_variables.py: "


class Made(Exception):
    """What a step has read, and what it was given."""


class ReadingStep(pm.Metropolis):
    def __init__(self, *_, **given):
        raise Made(running_sample(), set(given))


def made_by(monkeypatch, **arguments):
    monkeypatch.setattr("pymc.sampling.mcmc.STEP_METHODS", [ReadingStep])
    with pm.Model(), pytest.raises(Made) as made:
        pm.Normal("x")
        pm.sample(**arguments, progressbar=False)
    return made.value.args


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"draws": 7, "tune": 0, "chains": 3, "cores": 1}, SampleArguments(7, 0, 3)),
        ({"draws": 7, "chains": 3, "cores": 2}, SampleArguments(7, USUAL_ARGUMENTS.tune, 3)),
        (
            {"chains": 1, "idata_kwargs": {"log_likelihood": True}},
            SampleArguments(1000, 1000, 1, {"log_likelihood": True}),
        ),
    ],
)
def test_the_arguments_of_the_running_call_are_read(monkeypatch, arguments, expected):
    found, _ = made_by(monkeypatch, **arguments)
    assert found == expected, ADVICE + "its call is no longer read"


def test_outside_of_a_call_there_are_none():
    assert running_sample() is None


def test_pymc_gives_a_step_no_more_than_it_did(monkeypatch):
    _, given = made_by(monkeypatch)
    assert given == GIVEN, ADVICE + "if a step is now told of draws and chains, nothing need be read"
    told = list(inspect.signature(BlockedStep.setup_chain).parameters)
    assert told == ["self", "rng", "tune", "draws"], ADVICE + "if a step is told of chains, and before the allocation"


def test_the_usual_arguments_are_those_of_pymc():
    parameters = inspect.signature(pm.sample).parameters
    assert parameters.keys() >= set(SampleArguments._fields), ADVICE + "an argument has another name"
    assert parameters["draws"].default == USUAL_ARGUMENTS.draws, ADVICE + "its default of draws is another"
    with pm.Model():
        x = pm.Normal("x")
        idata = pm.sample(1, chains=1, step=pm.Metropolis([x]), progressbar=False, compute_convergence_checks=False)
    assert idata["posterior"].attrs["tuning_steps"] == USUAL_ARGUMENTS.tune, ADVICE + "its default of tune is another"
