"""What must come first in a process that compiles."""

from functools import cache

from numba import njit


@cache
def begin_numba() -> None:
    """Compile an empty function before anything is loaded, once in a process.

    Numba tries all ways to index that it knows, in the order in which it imported them. Where a process begins by
    loading compiled code, or by importing what PyTensor has for Numba, characters, lists and dictionaries come before
    arrays: that took a third of the time of compiling. Where it begins by compiling, arrays come first.
    """
    njit(lambda: None)()
