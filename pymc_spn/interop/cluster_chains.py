"""Chains of `pm.sample` on the workers of a Dask cluster, with the draws that one machine would have drawn."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import cloudpickle
import numpy as np
import pymc as pm
from pymc.distributions.distribution import _support_point
from pymc.distributions.shape_utils import _change_dist_size
from pymc.logprob.abstract import _logcdf, _logprob
from pymc.stats.convergence import log_warnings, run_convergence_checks
from pymc.step_methods.arraystep import PopulationArrayStepShared
from pymc.util import RandomGeneratorState, get_random_generator, get_state_from_generator, random_generator_from_state
from pytensor.graph.traversal import ancestors

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.cluster_clients import check_client, clear_failures, installed, places
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import distributed
    import xarray as xr

USUAL_TUNE = 1000  # of pm.sample, for steps that ask for no number; of the bar alone
REPORTED = 0.5  # seconds between two reports of a chain
OF_ONE_MACHINE = ("cores", "mp_ctx", "blas_cores", "callback", "trace", "return_inferencedata")
_log = logging.getLogger("pymc")
_one_chain = threading.Lock()  # of a worker process: building and compiling models is not for several threads


class _Task(NamedTuple):
    """What a worker needs for a chain, besides the model."""

    chains: int
    draws: int
    tune: int | None
    state: RandomGeneratorState
    versions: dict[str, str]
    topic: str


def sample_chains(
    model: "pm.Model | Callable[[], pm.Model]",
    chains: int = 4,
    client: "distributed.Client | None" = None,
    *,
    draws: int = 1000,
    tune: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compute_convergence_checks: bool = True,
    **sample_kwargs: Any,
) -> "xr.DataTree":
    """Draw the chains of `pm.sample` on the workers of a Dask cluster.

    The draws are those of ``pm.sample(draws, chains=chains, random_seed=random_seed, nuts_sampler="pymc")`` on one
    machine. Each worker makes this call and continues one of its chains, after one draw of each of the others. If a
    worker is lost, its chain runs again elsewhere. A worker process runs one chain at a time.

    Parameters
    ----------
    model : pm.Model or callable
        A model, or a function without arguments that builds it where it runs. The function should read large data
        itself instead of holding them.
    chains : int
    client : distributed.Client, optional
        Without it the chains run on this machine, by `pm.sample`.
    draws, tune : int
        As in `pm.sample`.
    random_seed : int, Generator or None
        As in `pm.sample`: the same seed gives the same draws, on any number of workers.
    progressbar : bool
        Show a bar, which counts draws of all chains, once it has taken a second.
    compute_convergence_checks : bool
        As in `pm.sample`, for all chains together.
    **sample_kwargs
        Other arguments of `pm.sample`. With a client `cores`, `mp_ctx`, `blas_cores`, `callback`, `trace` and
        `return_inferencedata` are refused.

    Returns
    -------
    DataTree
        All chains in order, as from `pm.sample`. The attribute ``sampling_time`` is in seconds, of all chains
        together.

    Raises
    ------
    TypeError
        If `model` is neither a model nor a function, or `client` is not a synchronous client. If the model cannot be
        sent to workers, or an argument cannot be used on a cluster.
    ValueError
        If an argument is out of range, the client is closed, or a function builds different data on each worker.
    ImportError
        If a worker lacks pymc_spn or PyMC or has another version of them, or cannot import what the model needs.
    RuntimeError
        If the cluster is gone, or several workers were lost while they ran the same chain.

    Examples
    --------
    >>> def build():
    ...     with pm.Model() as model:
    ...         ps.SPN("rows", observed=df)
    ...     return model
    >>> sampled = ps.sample_chains(build, chains=2, draws=3, tune=3, random_seed=1, progressbar=False, cores=1)
    >>> dict(sampled.posterior.sizes)["chain"]
    2

    From a cluster: ``ps.sample_chains(build, client=distributed.Client("tcp://scheduler:8786"))``.
    """
    if not isinstance(model, pm.Model) and not callable(model):
        raise TypeError(f"model must be a pm.Model or a function that builds one, got {quoted(model)}")
    n_chains = checked_count("chains", chains, least=1)
    arguments = sample_kwargs | {"nuts_sampler": sample_kwargs.get("nuts_sampler") or "pymc"}
    if client is None:
        with _built(model):
            return pm.sample(
                draws,
                tune=tune,
                chains=n_chains,
                random_seed=random_seed,
                progressbar=progressbar,
                compute_convergence_checks=compute_convergence_checks,
                **arguments,
            )
    n_draws = checked_count("draws", draws, least=1)
    n_tune = None if tune is None else checked_count("tune", tune)
    _refuse_arguments(arguments)
    versions = check_client(client)
    state = get_state_from_generator(get_random_generator(random_seed))
    sent = bytes_of_model(model, arguments)
    task = _Task(n_chains, n_draws, n_tune, state, versions, f"pymc-spn-chains-{uuid4().hex}")
    total = n_draws + (USUAL_TUNE if n_tune is None else n_tune)
    began = time.perf_counter()
    with ProgressBar(f"Sampling {n_chains} chains", n_chains * total, progressbar) as bar:
        found = _gathered(client, sent, task, bar)
    idata = _joined([found[i][0] for i in range(n_chains)], time.perf_counter() - began)
    if compute_convergence_checks:
        free, deterministics = ([SimpleNamespace(name=name) for name in names] for names in found[0][1:])
        log_warnings(run_convergence_checks(idata, SimpleNamespace(free_RVs=free, deterministics=deterministics)))
    return idata


def _refuse_arguments(arguments: dict[str, Any]) -> None:
    for name in OF_ONE_MACHINE:
        if name in arguments:
            raise TypeError(f"{name} has no place on a cluster, got {quoted(arguments[name])}; leave it out")
    if arguments["nuts_sampler"] != "pymc":
        raise ValueError(f"nuts_sampler must be 'pymc' on a cluster, got {quoted(arguments['nuts_sampler'])}")
    steps = arguments.get("step")
    for step in steps if isinstance(steps, Iterable) else [steps]:
        if any(isinstance(one, PopulationArrayStepShared) for one in (step, *getattr(step, "methods", ()))):
            raise ValueError(f"step {type(step).__name__} moves all chains together, but a cluster runs them apart")


def _gathered(client: Any, sent: bytes, task: _Task, bar: ProgressBar) -> dict[int, Any]:
    """Results by chain. Each is fetched as soon as it is there, so that a worker lost later takes none with it."""
    from distributed import as_completed

    seen = dict.fromkeys(range(task.chains), 0)

    def report(event: Any) -> None:
        _, (chain, n) = event
        if n > seen[chain]:  # a chain that runs again is behind what it was
            bar.advance(n - seen[chain])
            seen[chain] = n

    client.subscribe_topic(task.topic, report)
    # a task of its own, not scattered data: it is held once, and sent again where the worker that had it is lost
    held = client.submit(_held, sent, key=f"{task.topic}-model", pure=False)
    futures = {
        client.submit(_run_chain, held, i, task, key=f"{task.topic}-{i}", pure=False, **place): i
        for i, place in zip(range(task.chains), places(client), strict=False)
    }
    found: dict[int, Any] = {}
    try:
        with clear_failures(client):
            for future in as_completed(futures):
                found[futures[future]] = future.result()
    finally:
        unfinished = [future for future, i in futures.items() if i not in found]
        if client.status == "running":
            client.cancel([*unfinished, held])
            client.unsubscribe_topic(task.topic)
    return found


def _held(sent: bytes) -> bytes:
    return sent


def _run_chain(sent: bytes, chain: int, task: _Task) -> tuple[Any, list[str], list[str]]:
    """On a worker: one chain of the call of `pm.sample`, and the names of the free variables and deterministics."""
    from distributed import get_worker

    worker = get_worker()
    own = {name: installed(name) for name in task.versions}
    if own != task.versions:  # it came after the workers were looked at
        raise ImportError(f"worker {worker.address} has {own}, the client {task.versions}; install the same")
    state = worker.state.tasks.get(worker.get_current_task())
    every = task.draws + (task.tune or 0) <= task.chains  # PyMC keeps most draws: a long chain, or many short ones
    last = [time.monotonic()]

    def follow(trace: Any, draw: Any) -> None:
        if draw.chain != chain:
            if not every:
                raise KeyboardInterrupt  # pm.sample goes on with the next chain
            return
        if time.monotonic() - last[0] > REPORTED:
            last[0] = time.monotonic()
            worker.log_event(task.topic, (chain, draw.draw_idx + 1))
            if getattr(state, "state", "executing") == "cancelled":
                raise KeyboardInterrupt

    with _one_chain:
        try:
            model, arguments = model_of_bytes(sent)
            built = _built(model)
        except ImportError as error:
            raise ImportError(f"worker {worker.address} cannot load the model: {error}; install it there") from error
        with built:
            idata = pm.sample(
                task.draws,
                tune=task.tune,
                chains=task.chains,
                cores=1,
                random_seed=random_generator_from_state(task.state),
                progressbar=False,
                quiet=True,
                compute_convergence_checks=False,
                callback=follow,
                **arguments,
            )
    position = chain if idata.posterior.sizes["chain"] == task.chains else 0  # others are too short to be kept

    def own_chain_of(group: Any) -> Any:
        return group.isel(chain=[position]).assign_coords(chain=[chain]) if "chain" in group.dims else group

    own_chain = idata.map_over_datasets(own_chain_of)
    if own_chain.posterior.sizes["draw"] != task.draws:
        raise RuntimeError(f"chain {chain} was interrupted after {own_chain.posterior.sizes['draw']:,} draws")
    names = [rv.name for rv in built.free_RVs], [variable.name for variable in built.deterministics]
    return own_chain, *names


def _built(model: Any) -> pm.Model:
    built = model if isinstance(model, pm.Model) else model()
    if not isinstance(built, pm.Model):
        raise TypeError(f"the function must return a pm.Model, got {quoted(built)}; end it with `return model`")
    return built


def _joined(parts: "list[xr.DataTree]", seconds: float) -> "xr.DataTree":
    """One result of the results of single chains, which must be about the same data."""
    import xarray as xr

    groups = {}
    for name in parts[0].children:
        datasets = [part[name].to_dataset() for part in parts]
        if "chain" in datasets[0].dims:
            groups[name] = xr.concat(
                datasets, "chain", data_vars="minimal", coords="minimal", compat="equals", join="exact"
            )
            groups[name].attrs = datasets[0].attrs | (
                {"sampling_time": seconds} if "sampling_time" in datasets[0].attrs else {}
            )
            continue
        different = [i for i, one in enumerate(datasets) if not one.equals(datasets[0])]
        if different:
            raise ValueError(
                f"{name} of chain {different[0]} differs from that of chain 0: the function must build the same model "
                "from the same data on each worker, with fixed seeds"
            )
        groups[name] = datasets[0]
    joined = xr.DataTree.from_dict(groups)
    joined.attrs = parts[0].attrs
    return joined


# Functions of PyMC that look up a method by the class of a distribution. `pm.CustomDist` makes a class for each
# variable and enters its methods here. A pickled model leaves them behind: it would start elsewhere, or lack a density.
LOOKED_UP = {"logprob": _logprob, "logcdf": _logcdf, "support_point": _support_point, "size": _change_dist_size}


def bytes_of_model(model: Any, arguments: dict[str, Any]) -> bytes:
    """A model, or the function that builds it, with arguments of `pm.sample`, for `model_of_bytes`.

    Raises
    ------
    TypeError
        If a part of it cannot be pickled.
    """
    try:
        return cloudpickle.dumps((model, arguments, _entered(model) if isinstance(model, pm.Model) else []))
    except Exception as error:
        what, way = "function", "let it open files and connections itself"
        if isinstance(model, pm.Model):
            what, way = "model", "give a function that builds it where it runs"
        raise TypeError(f"the {what} cannot be sent to workers ({type(error).__name__}: {error}); {way}") from error


def model_of_bytes(sent: bytes) -> tuple[Any, dict[str, Any]]:
    """What `bytes_of_model` was given."""
    model, arguments, entered = cloudpickle.loads(sent)
    for name, cls, method in entered:
        LOOKED_UP[name].register(cls, method)
    return model, arguments


def _entered(model: pm.Model) -> list[tuple[str, type, Any]]:
    """Methods of the distributions of a model whose classes other processes cannot import."""
    own, waiting = set(), list(model.basic_RVs)
    while waiting:
        ops = {variable.owner.op for variable in ancestors(waiting) if variable.owner is not None}
        own |= {type(op) for op in ops}
        waiting = [output for op in ops if hasattr(op, "inner_outputs") for output in op.inner_outputs]
    return [
        (name, cls, function.registry[cls])
        for cls in sorted(own, key=lambda one: (one.__module__, one.__qualname__))
        if getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls
        for name, function in LOOKED_UP.items()
        if cls in function.registry
    ]
