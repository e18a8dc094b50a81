"""What the `pm.sample` that is making a step was called with, read in this one place."""

import sys
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from pymc.sampling.mcmc import sample


class SampleArguments(NamedTuple):
    """Arguments of `pm.sample` that a step needs before its first draw."""

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    idata_kwargs: dict[str, Any] | None = None


USUAL_ARGUMENTS = SampleArguments()


def running_sample() -> SampleArguments | None:
    """Return what the `pm.sample` that is making a step was called with.

    When a step is made, it says the shape of what it records, and PyMC allocates the draws of all chains. That shape
    depends on the number of draws and chains. PyMC 6.4 gives a step its variables, the model, the initial point and
    `compile_kwargs`. It tells it the draws in `setup_chain`, after the allocation, and the number of chains never. An
    argument that loses the whole run must be refused here, too. So the local variables of PyMC's call are read.

    `tests/steps/test_running_sample.py` says when PyMC has changed what this relies on.

    Returns
    -------
    SampleArguments or None
        None for a step that is made outside of `pm.sample`, and where its call cannot be read.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not getattr(sample, "__code__", None):
        frame = frame.f_back
    if frame is None:
        return None
    given = frame.f_locals
    draws, tune, chains = given.get("draws"), given.get("tune"), given.get("chains")
    if tune is None:  # PyMC asks its steps for a number once they are made; ours leave it at the usual one
        tune = USUAL_ARGUMENTS.tune
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in (draws, tune, chains)) or not draws or not chains:
        return None
    return SampleArguments(draws, tune, chains, given.get("idata_kwargs"))
