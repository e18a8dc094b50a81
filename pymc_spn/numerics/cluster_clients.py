"""Clients of Dask clusters: checked before work is sent, and their failures in words."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from itertools import cycle, repeat
from typing import Any

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.threads import for_each

PACKAGES = ("pymc-spn", "pymc")


def check_client(client: Any) -> dict[str, str]:
    """Check that this is None, or a synchronous client of a running cluster whose workers have our versions.

    Returns the versions that all have.

    Raises
    ------
    ImportError
        If distributed is not installed, or as `check_workers`.
    TypeError, ValueError
        If it is another object, asynchronous or closed.
    """
    if client is None:
        return {}
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('client needs Dask: install the extra "dask" of pymc_spn') from None
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client, got {quoted(client)}")
    if client.asynchronous:
        raise TypeError(
            f"client {name_of(client)} is asynchronous; make one by distributed.Client(..., asynchronous=False)"
        )
    if client.status != "running":
        raise ValueError(f"client {name_of(client)} is {client.status}; make a new one by distributed.Client(...)")
    return check_workers(client)


def name_of(client: Any) -> str:
    """What messages call a client: its id and the scheduler's address."""
    scheduler = getattr(client.scheduler, "addr", None) or getattr(client.scheduler, "address", None)
    return f"{client.id!r}" if scheduler is None else f"{client.id!r} of {scheduler}"


def installed(package: str) -> str:
    """The version of a package here, or that there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def check_workers(client: Any, packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of packages here, which every worker must have.

    Raises
    ------
    ImportError
        If a worker lacks one, or has another version.
    """
    own = {package: installed(package) for package in packages}
    for package, version in own.items():
        with clear_failures(client):  # a function of Python itself: workers may lack ours
            there = client.run(metadata.version, package, on_error="return")
        for address, found in there.items():
            if isinstance(found, Exception):
                raise ImportError(f"worker {address} lacks {package}; install {package}=={version} there")
            if found != version:
                raise ImportError(
                    f"worker {address} has {package} {found}, the client {version}; install the same on both"
                )
    return own


def places(client: Any) -> Iterator[dict[str, Any]]:
    """Arguments of ``client.submit`` that give one worker after the other a task; it may go to another one.

    Without them all tasks wait where the first one has what they share.
    """
    addresses = sorted(client.ncores())
    if not addresses:
        return repeat({})
    return cycle([{"workers": [address], "allow_other_workers": True} for address in addresses])


def mapped(client: Any, function: Callable[..., Any], tasks: Iterable[Any], *shared: Any) -> Iterator[Any]:
    """Results of a function of single tasks on the workers of a cluster, in order; a lost task runs again.

    What the tasks share is sent once to each worker, and follows the task in each call.
    """
    with clear_failures(client):
        # tasks of their own, not scattered data: these run again where the worker that held them is lost
        sent = [client.submit(_as_it_is, one, pure=False) for one in shared]
        spread = places(client)
        futures: list[Any] = [
            client.submit(function, task, *sent, pure=False, **place)
            for task, place in zip(tasks, spread, strict=False)
        ]
    try:
        with clear_failures(client):
            for i, future in enumerate(futures):
                result = future.result()
                futures[i] = None  # the workers may forget it
                del future
                yield result
    finally:
        left = [future for future in futures if future is not None]
        if left and client.status == "running":
            client.cancel(left)


def worked_out(
    client: Any,
    function: Callable[..., Any],
    tasks: Sequence[Any],
    *shared: Any,
    advance: Callable[[Any], None],
    at_once: int | None = None,
) -> Iterator[Any]:
    """Results of a function of single tasks, in order: by the workers of a cluster, or by threads without one.

    Parameters
    ----------
    client : distributed.Client or None
    function : callable
        Of a task and of what all tasks share. It spends its time in kernels.
    tasks : sequence
    advance : callable
        Told of each task that is done.
    at_once : int, optional
        Tasks whose results threads hold together. All by default.
    """
    if client is not None:
        for task, result in zip(tasks, mapped(client, function, tasks, *shared), strict=True):
            advance(task)
            yield result
        return
    size = at_once or max(len(tasks), 1)
    for begin in range(0, len(tasks), size):
        some = tasks[begin : begin + size]
        out: list[Any] = [None] * len(some)

        def work(i: int, some: Sequence[Any] = some, out: list[Any] = out) -> None:
            out[i] = function(some[i], *shared)
            advance(some[i])

        for_each(work, range(len(some)), len(some) > 1)
        yield from out


def _as_it_is(value: Any) -> Any:
    return value


def check_folder(client: Any, folder: str) -> None:
    """Refuse workers that do not see a folder of this process.

    Raises
    ------
    FileNotFoundError
        If one does not.
    """
    with clear_failures(client):
        seen = client.run(os.path.isdir, folder)
    for address, has in seen.items():
        if not has:
            raise FileNotFoundError(
                f"worker {address} does not see the scratch folder {folder!r}; set TMPDIR to a folder that all "
                "machines of the cluster share"
            )


@contextmanager
def clear_failures(client: Any) -> Iterator[None]:
    """Say in words that the cluster is gone, or that a task ended its workers."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"the worker was lost each time that {error.task} ran, the last at {error.last_worker.address}: look for "
            "the reason in its log, such as a lack of memory"
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise RuntimeError(f"the cluster of client {name_of(client)} is gone: {error}") from error
