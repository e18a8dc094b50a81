"""What step methods share whose structure owns free variables of a model: one step for each structure.

Imported with the package, so it loads neither Numba nor kernels.
"""

import hashlib
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
from pymc.sampling.mcmc import sample
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort

from pymc_spn.numerics.interrupts import hold_back_interrupts
from pymc_spn.tables.fingerprints import data_digest, without_kind_of_table

type Variables = Variable | Sequence[Variable] | None
"""Variables of a step; None for all that it may sample."""


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


def refuse_likelihood_of_draws(remedy: str) -> None:
    """Refuse a ``pm.sample`` that would evaluate stored draws after the last of them, and then lose them all.

    Raises
    ------
    ValueError
        If it was called with ``idata_kwargs={"log_likelihood": True}``.
    """
    running = running_sample()
    if running and (running.idata_kwargs or {}).get("log_likelihood") is True:
        raise ValueError(
            'idata_kwargs={"log_likelihood": True}: stored draws have no log density here, and PyMC would ask for it '
            f"after the last draw and lose the run; leave it out, {remedy}"
        )


class OwnerStep(BlockedStep):
    """One step for each structure whose variables are given; a subclass says which these are by `_grouped`."""

    _shown: ClassVar[dict[str, tuple[str, str]]]  # statistics in PyMC's progress bar: title and format
    _likelihood: ClassVar[str] = ""  # where what is observed has no log density given stored draws: what has

    def __new__(cls, vars: Variables = None, *, model: pm.Model | None = None, **kwargs: Any) -> Any:
        model = pm.modelcontext(model)
        if cls._likelihood:
            refuse_likelihood_of_draws(cls._likelihood)
        kwargs.pop("blocked", None)
        groups = cls._grouped(vars, model)
        steps = []
        for group in groups.values():
            step = super().__new__(cls, group, model=model, blocked=True, **kwargs)
            if len(groups) > 1:
                step.__init__(group, model=model, **kwargs)
            steps.append(step)
        return steps[0] if len(steps) == 1 else CompoundStep(steps)

    @classmethod
    def _grouped(cls, vars: Any, model: Any) -> dict[str, list]:
        """Value variables by the name of their structure."""
        raise NotImplementedError

    @classmethod
    def _progressbar_config(cls, n_chains=1):
        from rich.progress import TextColumn
        from rich.table import Column

        columns = [
            TextColumn(f"{{task.fields[{statistic}]{form}}}", table_column=Column(title, ratio=1))
            for statistic, (title, form) in cls._shown.items()
        ]
        return columns, {statistic: [0.0] * n_chains for statistic in cls._shown}

    @classmethod
    def _make_progressbar_update_functions(cls):
        def update(stats):
            return {short: next(v for k, v in stats.items() if k.endswith(f"_{short}")) for short in cls._shown}

        return (update,)


def model_digest(model: Any) -> int:
    """A number below 2**32 for all that a model was given: data, and kinds and constants of its terms.

    Two models that differ in it have other posteriors. Values of random starts are left out: the constants of our own
    operations, which their schemas describe, and observed variables with the tag ``is_start``.
    """
    parts = {f"data {name}": data_digest([], value) for name, value in _given(model).items()}
    lines = [f"{name}: {digest}" for name, digest in parts.items()]
    for node in toposort([*model.basic_RVs, *model.potentials]):
        kind = type(node.op)
        constants = [] if kind.__module__.startswith("pymc_spn.") else [_number(v) for v in node.inputs]
        lines.append(f"{kind.__name__}{[data_digest([], x) for x in constants if x is not None]}")
    # sorted: PyTensor promises no order of nodes
    return int.from_bytes(hashlib.sha256("\n".join(sorted(lines)).encode()).digest()[:4], "little")


def _given(model: Any) -> dict[str, np.ndarray]:
    """Values of the data containers and of the observed variables of a model."""
    found = {v.name: v for v in model.data_vars if not getattr(v.tag, "is_described", False)}
    found |= {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs if not getattr(rv.tag, "is_start", False)}
    values = {n: v.get_value() if hasattr(v, "get_value") else v.eval() for n, v in found.items()}
    numbers = {n: np.asarray(x) for n, x in values.items() if np.asarray(x).dtype.kind in "biuf"}
    return {n: without_kind_of_table(x) if n.endswith("_schema") and x.ndim == 1 else x for n, x in numbers.items()}


def _number(variable: Any) -> np.ndarray | None:
    """Numbers of a constant; None for everything else."""
    data = np.asarray(variable.data) if isinstance(variable, Constant) and variable.data is not None else None
    return data if data is not None and data.dtype.kind in "biuf" else None


def variable_with_parameters(name: str, model: Any) -> tuple[Any, Any]:
    """A random variable by its name, and what it was made of.

    Raises
    ------
    ValueError
        If `pm.do` has put a constant in its place.
    """
    rv = model[name]
    if rv not in model.rvs_to_values:
        raise ValueError(
            f"{name!r} is held fixed, as by pm.do, so that nothing is learned from its data; pm.do is for the "
            "hyperparameters"
        )
    return rv, rv.owner.op.dist_params(rv.owner)


def compile_of_the_point(model: Any, outputs: Any, compile_kwargs: Any) -> Any:
    """Compiled function of all value variables, in the order of the model; Ctrl-C waits until it has returned."""
    inputs = list(model.value_vars)
    compiled = pm.pytensorf.compile(inputs, outputs, on_unused_input="ignore", **(compile_kwargs or {}))
    compiled.trust_input = True
    return partial(hold_back_interrupts, compiled)


def grouped_by_owner(vars: Any, model: Any, owner: Any, public: str, none: str) -> dict[str, list]:
    """Value variables by the structure that owns them.

    Parameters
    ----------
    vars : variable, sequence of variables or None
        None: all that have an owner.
    model : Model
    owner : callable
        From a random variable to the name of its structure, None if it has none.
    public : str
        What makes such variables, for the message.
    none : str
        What a model without any lacks, for the message.

    Raises
    ------
    ValueError
        If there are none, or others among them.
    """
    mine = {v: owner(rv) for rv, v in model.rvs_to_values.items() if owner(rv) is not None}
    chosen = list(mine) if vars is None else list(vars) if isinstance(vars, list | tuple) else [vars]
    chosen = [model.rvs_to_values.get(v, v) for v in chosen]
    foreign = [v.name for v in chosen if v not in mine]
    if foreign or not chosen:
        raise ValueError(f"vars must be variables of {public}; got {foreign or f'none, and the model has {none}'}")
    groups: dict[str, list] = {}
    for v in chosen:
        groups.setdefault(mine[v], []).append(v)
    return groups


def refuse_incomplete(name: str, needed: Any, group: list, model: Any) -> None:
    """Refuse the value variables of a structure without all that its step writes.

    Parameters
    ----------
    name : str
        The structure.
    needed : iterable of str
        Names of the random variables that its step writes.
    group : list of variables
        Value variables of the structure.
    model : Model

    Raises
    ------
    ValueError
        If one is missing: it was not given, or `pm.do` or `pm.observe` has fixed it.
    """
    lacking = sorted(set(needed) - {model.values_to_rvs[v].name for v in group})
    fixed = [n for n in lacking if model[n] not in model.free_RVs]
    if fixed:
        raise ValueError(
            f"{fixed[0]!r} is held fixed, as by pm.do or pm.observe, and the step of {name!r} writes it: leave it free"
        )
    if lacking:
        raise ValueError(
            f"vars must hold {', '.join(map(repr, lacking))} together with other variables of {name!r}; "
            f"got {[v.name for v in group]}"
        )
