"""Ctrl-C while a kernel runs."""

import signal
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from interrupts import outcomes_of_interrupts

from pymc_spn.numerics import interrupts
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.interrupts import hold_back_interrupts, interrupt_is_waiting
from pymc_spn.numerics.kernel_options import kernel


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


@kernel
def arrays_of(rng, n):
    total = 0.0
    for _ in range(n):
        total += rng.random()
    return np.full(3, total), np.zeros(2, np.int64)


@kernel
def pair_of(n):
    total = 0.0
    for i in range(n):
        total += np.sqrt(i)
    return Pair(np.full(3, total), np.ones(2))


@kernel
def checking(rng, n):
    unchecked = np.zeros(1, np.int64)
    total = 0.0
    for _ in range(n):
        total += rng.random()
        if must_stop_after(10, unchecked):
            break
    return np.full(3, total), unchecked


def test_ctrl_c_in_a_kernel_is_a_keyboard_interrupt():
    """Numba's own way from and to Python makes a SystemError of it, or ends the process."""
    rng = np.random.default_rng(1)
    calls = {"short": lambda: arrays_of(rng, 10), "long": lambda: arrays_of(rng, 10**7), "pair": lambda: pair_of(10**7)}

    def again_and_again(call, begin):
        begin()
        while True:
            call()

    for name, call in calls.items():
        call()
        delays = np.linspace(0.001, 0.05, 15)
        found = Counter(o for o, _ in outcomes_of_interrupts(lambda begin, c=call: again_and_again(c, begin), delays))
        assert found == {"KeyboardInterrupt": len(delays)}, name


@kernel
def compiled_when_called(x):
    return np.sort(np.cumsum(x[::-1])), np.searchsorted(x, x), np.argsort(x)


def test_ctrl_c_while_a_kernel_is_compiled():
    def task(begin):
        begin()
        compiled_when_called(np.arange(4.0))
        time.sleep(60.0)

    assert [o for o, _ in outcomes_of_interrupts(task, [0.01, 0.2, 1.0])] == ["KeyboardInterrupt"] * 3
    np.testing.assert_array_equal(compiled_when_called(np.arange(4.0))[1], np.arange(4))


def test_one_line_says_that_kernels_are_compiled(monkeypatch, caplog, usual_handler):
    monkeypatch.setattr(interrupts, "SILENT", 0.0)
    monkeypatch.setattr(interrupts._Announced, "at", -np.inf)
    caplog.set_level("INFO", "pymc")
    kernels = [kernel(lambda x, k=k: np.sort(x) + k) for k in range(4)]
    for one in kernels[:2]:
        one(np.arange(3.0))
    assert [r.getMessage()[:9] for r in caplog.records] == ["Compiling"]
    monkeypatch.setattr(interrupts, "APART", -1.0)
    for name, said in (("worker_chain_1", 1), ("worker_chain_0", 2)):
        monkeypatch.setattr(interrupts, "current_process", lambda name=name: SimpleNamespace(name=name))
        kernels[1 + said](np.arange(3.0))
        assert len(caplog.records) == said


def test_a_kernel_that_checks_stops_at_once():
    checking(np.random.default_rng(1), 10)

    def task(begin):
        begin()
        return checking(np.random.default_rng(1), 10**12)

    handled = []

    def without_raising(begin):
        """What the kernel returns after it was stopped is no result, even where the handler lets the program go on."""
        signal.signal(signal.SIGINT, lambda *_: handled.append(1))
        try:
            return task(begin)
        finally:
            assert handled

    for each in (task, without_raising):
        assert [o for o, _ in outcomes_of_interrupts(each, [0.05])] == ["KeyboardInterrupt"]


@pytest.fixture
def usual_handler():
    """That of an interactive Python: where a shell starts it in the background, SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_handlers_are_put_back(usual_handler):
    def raises():
        assert signal.getsignal(signal.SIGINT) is not before
        signal.raise_signal(signal.SIGINT)
        raise ZeroDivisionError

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        hold_back_interrupts(raises)
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert signal.getsignal(signal.SIGINT) is before and interrupt_is_waiting() == 0
    for handler in (signal.SIG_IGN, signal.SIG_DFL):
        signal.signal(signal.SIGINT, handler)
        try:
            assert hold_back_interrupts(signal.getsignal, signal.SIGINT) == handler
        finally:
            signal.signal(signal.SIGINT, before)


def test_other_threads_and_inner_calls_are_plain_calls(usual_handler):
    found = []
    thread = threading.Thread(target=lambda: found.append(hold_back_interrupts(signal.getsignal, signal.SIGINT)))
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]
    inner = hold_back_interrupts(lambda: hold_back_interrupts(signal.getsignal, signal.SIGINT))
    assert inner is not found[0]
    assert hold_back_interrupts(dict, a=1) == {"a": 1}
