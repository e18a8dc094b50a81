"""Ctrl-C while compiled code runs: held back until the code has returned to Python.

Python handles a signal before its next instruction. Numba runs a few instructions of Python when it takes a
`Generator` and when it gives back arrays or named tuples, and does not check whether they raised. A KeyboardInterrupt
from there becomes a SystemError, or the process dies of a segmentation fault. So while compiled code runs, the handler
of SIGINT only takes a note; the usual handler is called afterwards. Kernels that may run for seconds ask now and then
whether there is a note (`numerics.interrupt_checks`).
"""

import gc
import logging
import threading
import time
from _signal import getsignal, signal  # those of the module `signal` convert enumerations: 2 microseconds a call
from _thread import start_new_thread
from collections.abc import Callable
from multiprocessing import current_process
from signal import SIGINT
from typing import Any

_SIGINT = int(SIGINT)
_log = logging.getLogger("pymc")  # shown and silenced as what pm.sample reports

SILENT = 2.0  # seconds of one compilation before a line says what the wait is
APART = 60.0  # seconds between two compilations of which each has a line


class _Note:
    """What the main thread, which alone handles signals, knows of a Ctrl-C in compiled code."""

    handler: Any = None  # the usual one, while another stands in its place
    waits = False  # the signal came
    seen = False  # a kernel was told so, and left its work undone


_told: set[int] = set()  # threads whose kernels are to leave their work undone


class _Announced:
    """Compilations that take long: whether one is going on, and the end of the last."""

    now = False
    at = float("-inf")


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
        If the usual handler of SIGINT raises it, or a kernel left its work undone; in a thread that is to stop, too.
    """
    handler = getsignal(_SIGINT)
    if not _in_main_thread():
        result = call(*arguments, **named)
        if threading.get_ident() in _told:
            raise KeyboardInterrupt  # the kernel may have left its work undone
        return result
    if handler is _take_note or not callable(handler):
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


def compile_beside(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return ``call(*arguments, **named)``, made in a thread of its own, and handle SIGINT at once meanwhile.

    For the compiler, which is in one function of LLVM for many seconds, and there Python sees no signal. After a
    KeyboardInterrupt it goes on in its thread, and a later call waits for what it makes. Where it takes seconds, a
    line says so, once for compilations that follow each other.
    """
    line = threading.Timer(SILENT, _announce)
    line.daemon = True
    line.start()
    collects = gc.isenabled()
    try:
        gc.disable()  # the compiler makes millions of objects that stay: looking for cycles took an eighth of its time
        if getsignal(_SIGINT) is not _take_note:
            return call(*arguments, **named)
        return call_beside(call, *arguments, **named)
    finally:
        if collects:
            gc.enable()
        line.cancel()
        if _Announced.now:
            _Announced.now, _Announced.at = False, time.monotonic()


def _announce() -> None:
    """Say it in one of the processes that do the same: of pm.sample's worker_chain_0, worker_chain_1 ... the first."""
    is_first = current_process().name.rpartition("_")[2] in ("MainProcess", "0")
    if is_first and time.monotonic() > _Announced.at + APART:
        _log.info("Compiling functions, once on this machine. Later runs load them")
    _Announced.now = True


def call_beside(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return ``call(*arguments, **named)``, made in a thread of its own, and handle SIGINT at once meanwhile.

    For what would lose a KeyboardInterrupt, as libraries do that run Python code when objects are deleted, or notice it
    late. After a KeyboardInterrupt it goes on in its thread, so it must change nothing that others see. This is the
    plain call in other threads than the main one.
    """
    if not _in_main_thread():
        return call(*arguments, **named)
    found: list[Any] = []

    def make() -> None:
        try:
            found.append((call(*arguments, **named), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=make)
    thread.start()
    is_held = getsignal(_SIGINT) is _take_note
    if is_held:
        signal(_SIGINT, _Note.handler)
    try:
        _handle()
        thread.join()
    finally:
        if is_held:
            signal(_SIGINT, _take_note)
    result, error = found[0]
    if error is not None:
        raise error
    return result


def interrupt_is_waiting() -> int:
    """1 if Ctrl-C was pressed since a kernel began, or its thread is to stop, else 0; the kernel then returns."""
    if _Note.waits and _in_main_thread():
        _Note.seen = True
        return 1
    return int(threading.get_ident() in _told)


class StoppableThreads:
    """Threads that work on one answer, whose kernels leave their work undone once one of them has failed.

    They are plain ones of the interpreter: those of `threading` and of pools run Python code when they are deleted, and
    a KeyboardInterrupt within such code is lost.
    """

    def __init__(self) -> None:
        self.are_stopped = False
        self._idents: set[int] = set()
        self._lock = threading.Lock()
        self._running: list[Any] = []
        self._errors: list[BaseException] = []

    def start(self, work: Callable[[], None]) -> None:
        """Call a function in a thread of its own."""
        ended = threading.Lock()
        ended.acquire()
        self._running.append(ended)
        start_new_thread(self._run, (work, ended))

    def _run(self, work: Callable[[], None], ended: Any) -> None:
        try:
            self.call(work)
        except BaseException as error:
            self._errors.append(error)
            self.stop()
        finally:
            ended.release()

    def call(self, work: Callable[[], None]) -> None:
        """Call a function in this thread as one of them; the main thread is not told to stop, but by Ctrl-C."""
        if _in_main_thread():
            work()
            return
        ident = threading.get_ident()
        with self._lock:
            self._idents.add(ident)
            if self.are_stopped:
                _told.add(ident)
        try:
            work()
        finally:
            with self._lock:
                self._idents.discard(ident)
                _told.discard(ident)

    def wait(self) -> None:
        """Wait for all of them, and raise what one of them has raised."""
        for ended in self._running:
            ended.acquire()
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        """Have their kernels return and their work end, without waiting for it."""
        with self._lock:
            self.are_stopped = True
            _told.update(self._idents)
