"""What chains of many rows will cost: measured on some of the rows, and said before sampling starts."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

MANY_ROWS, SOME_ROWS = 20_000, 2_000


def some_rows(table: np.ndarray) -> np.ndarray:
    """Rows from all over a table."""
    return table[np.linspace(0, len(table) - 1, SOME_ROWS).astype(np.int64)]


def bytes_of(thing: Any, seen: set[int]) -> int:
    """Bytes of all arrays that an object holds, each counted once."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes if thing.base is None else 0
    if isinstance(thing, dict):
        parts = list(thing.values())
    elif isinstance(thing, list | tuple):
        parts = list(thing)
    else:
        parts = list(getattr(thing, "__dict__", {}).values())
    return sum(bytes_of(part, seen) for part in parts)


def said_of_costs(
    name: str, n_rows: int, sweep: Callable[[], Any], n_sweeps: int, run: Any, record_bytes: float
) -> str:
    """A line about the time of a sweep, of a chain, and about memory.

    Parameters
    ----------
    name : str
    n_rows : int
    sweep : callable
        Makes a sweep of a chain of `some_rows`, and returns the chain.
    n_sweeps : int
        Sweeps of a draw.
    run : arguments of pm.sample
        Its ``draws``, ``tune`` and ``chains``.
    record_bytes : float
        Of one draw.
    """
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        chain = sweep()
        seconds.append(time.perf_counter() - begin)
    share = n_rows / SOME_ROWS
    one, whole = min(seconds) * share, min(seconds) * share * n_sweeps * (run.tune + run.draws)
    time_of_all = f"{whole / 60:,.0f} minutes" if whole >= 60 else f"{whole:.0f} s"
    memory, records = bytes_of(chain, set()) * share, record_bytes * (run.tune + run.draws) * run.chains
    return (
        f"{name}: {n_rows:,} rows take about {one:.2g} s a sweep, {time_of_all} and {memory / 1e6:,.0f} MB a chain, "
        f"and {records / 1e6:,.0f} MB for the recorded draws of all chains. ps.fit_variational takes minutes"
    )
