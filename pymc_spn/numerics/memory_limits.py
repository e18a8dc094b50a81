"""How much memory a size may ask for: checked before anything is allocated."""

import os
from typing import NoReturn

WITHOUT_ANSWER = 2**34  # bytes that a machine is taken to have if the system does not say
SHARE = 0.5  # of the machine's memory: an answer has temporary arrays of its own size beside it


def memory_limit() -> float:
    """Bytes that one request may take: half of the memory of this machine."""
    try:
        return SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return SHARE * WITHOUT_ANSWER


def refuse_memory(what: str, n_bytes: float, advice: str, max_gigabytes: float | None = None) -> None:
    """Raise if something would need more memory than it may take.

    Parameters
    ----------
    what : str
        What needs the memory, with the sizes that the user gave: the message begins with it.
    n_bytes : int or float
        Memory that would be needed.
    advice : str
        What to do instead.
    max_gigabytes : float, optional
        Limit that the user sets, in units of 1e9 bytes. By default it is `memory_limit`.

    Raises
    ------
    ValueError
        It says how much would be needed and what the limit is.

    Examples
    --------
    >>> refuse_memory("a table over pairs of 5 rows", 8 * 5 * 5, "give fewer rows")
    """
    limit = memory_limit() if max_gigabytes is None else 1e9 * max_gigabytes
    if n_bytes > limit:
        refuse_size(what, n_bytes, advice, max_gigabytes)


def refuse_count(argument: str, n: int, bytes_each: float, advice: str = "ask for fewer at once") -> None:
    """Raise as `refuse_memory` does if so many of something, of so many bytes each, need too much."""
    if n * bytes_each > memory_limit():
        shown = f"{n:,}" if n < 10**18 else "10^18 or more"
        refuse_size(f"{argument} = {shown}", n * bytes_each, advice)


def refuse_size(what: str, n_bytes: float, advice: str, max_gigabytes: float | None = None) -> NoReturn:
    """Raise as `refuse_memory` does, whatever the limit; ``n_bytes`` may be a lower bound."""
    if max_gigabytes is None:
        rule = f"more than half of this machine's memory ({_gigabytes(memory_limit())})"
    else:
        rule = f"more than max_gigabytes = {max_gigabytes:g}"
    raise ValueError(f"{what} needs {_gigabytes(n_bytes)} of memory, {rule}; {advice}")


def _gigabytes(n_bytes: float) -> str:
    """Bytes in gigabytes for a message."""
    if n_bytes >= 1e300:  # an integer may be larger than any float
        return "over 1e+291 gigabytes"
    number = n_bytes / 1e9
    return f"{number:,.0f} gigabytes" if 999.5 <= number < 1e9 else f"{number:.3g} gigabytes"
