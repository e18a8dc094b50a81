"""Pieces of one answer over threads: kernels release the interpreter, so plain threads run them side by side."""

import os
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from pymc_spn.numerics.answer_steps import current_bar


def n_threads() -> int:
    """Threads that one answer may use: the processors of this process, and no more than Numba is told to use."""
    from numba import config

    available = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    return max(1, min(available, config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]


def for_each[Piece](call: Callable[[Piece], None], pieces: Iterable[Piece], several: bool = True) -> None:
    """Call a function with each of some pieces of work, in several threads at once.

    The calling thread works, too. What the function writes must be of its piece alone: the answer is then the same
    whatever the number of threads.

    Parameters
    ----------
    call : callable
        Spends its time in kernels. After an exception, Ctrl-C among them, no further piece begins; pieces are thus to
        be short, some 0.1 seconds at most.
    pieces : iterable
    several : bool
        Whether it is worth the start of threads, some 0.1 milliseconds.
    """
    bar, waiting, lock = current_bar(), iter(pieces), Lock()
    if isinstance(pieces, Sized):
        bar.expect(len(pieces))
    is_stopped = False

    def take() -> Iterator[Piece]:
        while not is_stopped:
            with lock:
                try:
                    piece = next(waiting)
                except StopIteration:
                    return
            yield piece

    def work() -> None:
        nonlocal is_stopped
        try:
            for piece in take():
                call(piece)
                bar.advance()
        except BaseException:
            is_stopped = True
            raise

    others = n_threads() - 1 if several else 0
    if not others:
        work()
        return
    with ThreadPoolExecutor(others, "pymc_spn") as pool:
        running = [pool.submit(work) for _ in range(others)]
        work()
        for one in running:
            one.result()
