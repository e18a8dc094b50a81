"""Pieces of one answer over threads: kernels release the interpreter, so plain threads run them side by side."""

import os
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import numpy as np

from pymc_spn.numerics.answer_steps import current_bar
from pymc_spn.numerics.interrupts import StoppableThreads
from pymc_spn.numerics.quoted_values import quoted

_n_jobs: ContextVar[int | None] = ContextVar("n_jobs", default=None)


def n_threads() -> int:
    """Threads that one answer may use: by default the processors of this process that Numba may use, too."""
    from numba import config

    available = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    available = max(1, min(available, config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    asked = _n_jobs.get()
    if asked is None:
        return available
    return asked if asked > 0 else max(1, available + 1 + asked)


def parallel_config(n_jobs: int | None) -> AbstractContextManager[None]:
    """Set how many threads answers and fits use within a ``with`` block.

    No answer depends on it, to the last bit.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: so many threads; -1 for all processors, -2 for all but one, and so on. None changes
        nothing. Processors are those that this process may use, and no more than ``NUMBA_NUM_THREADS``.

    Raises
    ------
    ValueError, TypeError
        If it is 0 or no integer.

    See Also
    --------
    joblib.parallel_config : the same for scikit-learn, which may also be called without ``with``.

    Examples
    --------
    >>> with ps.parallel_config(n_jobs=1):
    ...     density = fit.log_density(df)
    """
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer)):
        raise TypeError(f"n_jobs must be an integer or None, got {quoted(n_jobs)}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: a number of threads, -1 for all processors, or None; got 0")
    return _limited(n_jobs)


@contextmanager
def _limited(n_jobs: int | None) -> Iterator[None]:
    token = _n_jobs.set(_n_jobs.get() if n_jobs is None else int(n_jobs))
    try:
        yield
    finally:
        _n_jobs.reset(token)


def for_each[Piece](call: Callable[[Piece], None], pieces: Iterable[Piece], several: bool = True) -> None:
    """Call a function with each of some pieces of work, in several threads at once.

    The calling thread works, too. What the function writes must be of its piece alone: the answer is then the same
    whatever the number of threads. Within a piece there are no further threads.

    Parameters
    ----------
    call : callable
        Spends its time in kernels. After an exception, Ctrl-C among them, no further piece begins, and kernels that ask
        whether they must stop do.
    pieces : iterable
    several : bool
        Whether it is worth the start of threads, some 0.1 milliseconds.
    """
    bar, waiting, lock = current_bar(), iter(pieces), Lock()
    others = n_threads() - 1 if several else 0
    if isinstance(pieces, Sized):
        bar.expect(len(pieces))
        others = min(others, len(pieces) - 1)
    threads, nothing = StoppableThreads(), object()

    def work() -> None:
        while not threads.are_stopped:
            with lock:
                piece: Any = next(waiting, nothing)
            if piece is nothing:
                return
            call(piece)
            bar.advance()

    if others <= 0:
        work()
        return

    def work_beside() -> None:
        with parallel_config(1):
            work()

    try:
        for _ in range(others):
            threads.start(work_beside)
        threads.call(work_beside)
        threads.wait()
    except BaseException:
        threads.stop()
        raise


def parts_of_rows(n_rows: int, rows: int) -> list[slice]:
    """Slices of so many rows each, the last perhaps shorter."""
    return [slice(a, min(a + rows, n_rows)) for a in range(0, n_rows, max(rows, 1))]
