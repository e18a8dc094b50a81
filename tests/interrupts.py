"""What comes of Ctrl-C: a task in a process of its own, which sends itself SIGINT while the task runs."""

import multiprocessing
import os
import signal
import threading
import time
from functools import partial

AGAIN = 20.0  # seconds until the key is pressed once more
PATIENCE = 240.0  # seconds: not a measure of speed, only of what never reacts; a first run compiles


def outcomes_of_interrupts(task, delays, whole_group=False):
    """Run `task` once for each delay with a SIGINT so many seconds after its begin; how each run ended.

    A run ends in what `task` returns or in the name of its exception, with the seconds that it took to react. The
    process is forked, since a fault may end it: what `task` needs is there, and compiled if it has run before.

    Python loses a signal that comes while it finalises an object, and says so on stderr. So the key is pressed again
    after some seconds without a reaction; this may happen once in all runs, and more often is an error.

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
        process.kill()
        process.join()
    assert len(outcomes) == len(delays), f"no reaction within {PATIENCE} s after {outcomes}"
    pressed = [presses for *_, presses in outcomes]
    assert sum(pressed) <= len(delays) + 1, f"signals until each run reacted: {pressed}"
    return [(outcome, seconds) for outcome, seconds, _ in outcomes]


def _run(task, delays, whole_group, send):
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for delay in delays:
        interrupt = partial(os.killpg, 0) if whole_group else partial(os.kill, os.getpid())
        sent, reacted = [], threading.Event()

        def press(delay, interrupt=interrupt, sent=sent, reacted=reacted):
            while not reacted.wait(delay):
                sent.append(time.monotonic())
                interrupt(signal.SIGINT)
                delay = AGAIN

        def begin(delay=delay, press=press):
            threading.Thread(target=press, args=[delay], daemon=True).start()

        try:
            outcome = task(begin)
        except BaseException as error:
            outcome = type(error).__name__ if isinstance(error, KeyboardInterrupt) else repr(error)
        seconds = time.monotonic() - sent[-1] if sent else 0.0
        while not sent:  # the task was done before: the signal must not hit the next one
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                break
        reacted.set()
        try:
            time.sleep(0.05)
        except KeyboardInterrupt:
            pass
        send.send((outcome, seconds, len(sent)))
    send.close()
