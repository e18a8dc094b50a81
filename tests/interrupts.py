"""What comes of Ctrl-C: a task in a process of its own, which sends itself SIGINT while the task runs."""

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from functools import partial

PATIENCE = 240.0  # seconds: not a measure of speed, only of what never reacts; a first run compiles


def outcomes_of_interrupts(task, delays, whole_group=False):
    """Run `task` once for each delay with a SIGINT so many seconds after its begin; how each run ended.

    A run ends in what `task` returns or in the name of its exception, with the seconds that it took to react. The
    process is forked, since a fault may end it: what `task` needs is there, and compiled if it has run before.

    Parameters
    ----------
    task : callable
        Called with a function that begins to wait for the signal: it is to be called once.
    delays : sequence of float
    whole_group : bool
        Whether processes that the task starts get the signal, too, as in a terminal.
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(task, delays, whole_group, send))
    process.start()
    send.close()
    outcomes = []
    try:
        while len(outcomes) < len(delays) and receive.poll(PATIENCE):
            outcomes.append(receive.recv())
    except EOFError:
        process.join()
        raise AssertionError(f"after {outcomes} the process ended with exit code {process.exitcode}") from None
    finally:
        if process.is_alive() and len(outcomes) < len(delays):
            os.kill(process.pid, signal.SIGUSR1)  # its stacks stand in the captured standard error
            time.sleep(1.0)
        process.kill()
        process.join()
    assert len(outcomes) == len(delays), f"no reaction within {PATIENCE} s after {outcomes}"
    return outcomes


def _run(task, delays, whole_group, send):
    os.setsid()
    gc.callbacks.clear()  # an exception in one of these (Hypothesis has one) is ignored: the signal would be lost
    faulthandler.register(signal.SIGUSR1, file=sys.__stderr__)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for delay in delays:
        interrupt = partial(os.killpg, 0) if whole_group else partial(os.kill, os.getpid())
        sent = []

        def begin(delay=delay, interrupt=interrupt, sent=sent):
            timer = threading.Timer(delay, lambda: (sent.append(time.monotonic()), interrupt(signal.SIGINT)))
            timer.start()

        try:
            outcome = task(begin)
        except BaseException as error:
            outcome = type(error).__name__ if isinstance(error, KeyboardInterrupt) else repr(error)
        seconds = time.monotonic() - sent[0] if sent else 0.0
        while not sent:  # the task was done before: the signal must not hit the next one
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                break
        try:
            time.sleep(0.05)
        except KeyboardInterrupt:
            pass
        send.send((outcome, seconds))
    send.close()
