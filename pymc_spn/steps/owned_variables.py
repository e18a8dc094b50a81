"""The step method of all families: a structure owns free variables of a model, and one step moves them.

Imported with the package, so it loads neither Numba nor kernels.
"""

import hashlib
import sys
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, ClassVar, NamedTuple, TypedDict

import numpy as np
import pymc as pm
from pymc.blocking import PointType, StatsType
from pymc.sampling.mcmc import sample
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence, CompoundStep, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort

from pymc_spn.numerics.interrupts import hold_back_interrupts
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.fingerprints import FINGERPRINT, data_digest, without_kind_of_table
from pymc_spn.tables.inputs import Seed

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


class StepArguments(TypedDict, total=False):
    """What ``pm.sample`` gives to each step that it makes."""

    model: pm.Model | None
    initial_point: PointType | None
    compile_kwargs: Mapping[str, object] | None
    rng: Seed | None
    blocked: bool


@dataclass_state
class StructureStepState(StepMethodState):
    """What PyMC carries from one chain to the next, and what a restart needs."""

    tune: bool
    begun: bool


class StructureStep(BlockedStep):
    """One step for each structure: start, sweep, pack.

    A subclass says which structure owns a variable (`_owner`), and which of its variables the step writes (`_written`).
    `_set_up` reads the model, `_reset` forgets the last chain, `_start` begins one, and `_draw` makes one draw: it
    writes into the point and returns statistics. The time and the fingerprint of a draw are added here.
    """

    _state_class = StructureStepState
    _shown: ClassVar[dict[str, tuple[str, str]]]  # statistics in PyMC's progress bar: title and format
    _likelihood: ClassVar[str] = ""  # where what is observed has no log density given stored draws: what has
    _made_by: ClassVar[str]  # public name of the distribution
    structure: str  # name of the one whose variables are the step's
    fingerprint: int

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

    def _make(self, vars: Variables, made_by: StepArguments) -> None:
        """Find the structure, read the model, and declare what is recorded of a draw."""
        model = pm.modelcontext(made_by.get("model"))
        ((self.structure, self.vars),) = self._grouped(vars, model).items()
        types = self._set_up(model, made_by.get("compile_kwargs"))
        types |= {self.structure + FINGERPRINT: np.int64, f"{self.structure}_seconds": np.float64}
        shapes: dict[str, Any] = {key: (t, None if t is object else []) for key, t in types.items()}
        self.stats_dtypes_shapes = shapes
        self.stats_dtypes = [types]
        self.rng = get_random_generator(made_by.get("rng"))
        self.tune, self.begun, self.warned = True, False, False

    # ---- what a family declares

    @classmethod
    @abstractmethod
    def _owner(cls, rv: Any) -> str | None:
        """Name of the structure whose variable this step moves; None for other variables."""

    @classmethod
    def _written(cls, name: str) -> list[str]:
        """Variables of a structure that the step must be given."""
        return [f"{name}_log_joint"]

    @abstractmethod
    def _set_up(self, model: Any, compile_kwargs: Any) -> dict[str, Any]:
        """Read the model; returns the types of the statistics."""

    def _reset(self, tune: int, draws: int) -> None:
        """Forget the last chain; other steps may move first, and must not see its state."""

    def _start(self, point: PointType) -> None:
        """Begin a chain."""

    @abstractmethod
    def _draw(self, point: dict[str, np.ndarray]) -> dict[str, Any]:
        """One draw, written into the point; returns its statistics."""

    # ---- what follows

    @classmethod
    def _grouped(cls, vars: Any, model: Any) -> dict[str, list]:
        """Value variables by the name of their structure."""
        groups = grouped_by_owner(vars, model, cls._owner, cls._made_by, "none")
        for name, group in groups.items():
            refuse_incomplete(name, cls._written(name), group, model)
        return groups

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Per-chain state: PyMC may run several chains through one object."""
        super().setup_chain(rng, tune, draws)
        self.tune, self.begun, self.warned = tune > 0, False, False
        self._reset(tune, draws)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """One draw of the structure given the rest of the point."""
        begin, new = time.perf_counter(), point.copy()
        if not self.begun:
            self._start(point)
        stats = self._draw(new)
        self.begun = True
        stats |= {
            self.structure + FINGERPRINT: self.fingerprint,
            f"{self.structure}_seconds": time.perf_counter() - begin,
        }
        return new, [stats]

    @classmethod
    def competence(cls, var: Variable, has_grad: bool) -> Competence:
        """The free variables of its distribution and nothing else."""
        return Competence.IDEAL if cls._owner(var) is not None else Competence.INCOMPATIBLE

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


def offer(*steps: Any) -> None:
    """Let ``pm.sample`` pick these step methods by itself."""
    for step in steps:
        if step not in STEP_METHODS:
            STEP_METHODS.insert(0, step)


def named(structure: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of a structure by their full names."""
    return {f"{structure}_{key}": value for key, value in numbers.items()}


def asked_option(argument: str, value: Any, allowed: Iterable[str]) -> str:
    """An argument that is one of some words; ValueError if it is not."""
    if value not in (words := list(allowed)):
        raise ValueError(f"{argument} must be one of {words}; got {quoted(value)}")
    return value


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
