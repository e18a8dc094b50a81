"""Ctrl-C while compiled code runs: held back until the code has returned to Python.

Python handles a signal before its next instruction. Numba runs a few instructions of Python when it takes a
`Generator` and when it gives back arrays or named tuples, and does not check whether they raised. A KeyboardInterrupt
from there becomes a SystemError, or the process dies of a segmentation fault. So while compiled code runs, the handler
of SIGINT only takes a note; the usual handler is called afterwards. Kernels that may run for seconds ask now and then
whether there is a note (`numerics.interrupt_checks`).
"""

import threading
from _signal import getsignal, signal  # those of the module `signal` convert enumerations: 2 microseconds a call
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT
from typing import Any

_SIGINT = int(SIGINT)


class _Note:
    """What the main thread, which alone handles signals, knows of a Ctrl-C in compiled code."""

    handler: Any = None  # the usual one, while another stands in its place
    waits = False  # the signal came
    seen = False  # a kernel was told so, and left its work undone


def _take_note(number: int, frame: Any) -> None:
    _Note.waits = True


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def hold_back_interrupts(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return ``call(*arguments, **named)``, and handle SIGINT only when it has returned.

    This is the plain call in other threads than the main one, within another such call, and where Python has no
    handler for SIGINT.

    Raises
    ------
    KeyboardInterrupt
        If the usual handler of SIGINT raises it, or a kernel left its work undone.
    """
    handler = getsignal(_SIGINT)
    if handler is _take_note or not callable(handler) or not _in_main_thread():
        return call(*arguments, **named)
    before, _Note.handler = _Note.handler, handler
    signal(_SIGINT, _take_note)
    try:
        return call(*arguments, **named)
    finally:
        signal(_SIGINT, handler)
        _Note.handler = before
        _handle()


def _handle() -> None:
    if not _Note.waits:
        return
    seen, _Note.waits, _Note.seen = _Note.seen, False, False
    getsignal(_SIGINT)(_SIGINT, None)
    if seen:
        raise KeyboardInterrupt


@contextmanager
def interrupts_let_through() -> Iterator[None]:
    """Handle SIGINT at once in here, within `hold_back_interrupts`: a first call compiles for many seconds.

    Numba may swallow a KeyboardInterrupt that comes in a callback of the compiler, or raise another error for it.
    """
    handler = _Note.handler
    if handler is None or not _in_main_thread():
        yield
        return

    def handle_at_once(number: int, frame: Any) -> None:
        _Note.seen = True
        handler(number, frame)
        _Note.seen = False  # the handler lets the program go on

    signal(_SIGINT, handle_at_once)
    try:
        _handle()
        yield
    finally:
        signal(_SIGINT, _take_note)
        if _Note.seen:
            _Note.seen = False
            raise KeyboardInterrupt


def interrupt_is_waiting() -> int:
    """1 if Ctrl-C was pressed since a kernel began, else 0; asked by the kernel, which then returns."""
    if _Note.waits and _in_main_thread():
        _Note.seen = True
        return 1
    return 0
