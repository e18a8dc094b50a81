"""Pieces of work over threads."""

import threading

import pytest

from pymc_spn.numerics import threads
from pymc_spn.numerics.threads import for_each, n_threads


@pytest.mark.parametrize("several", [False, True])
def test_every_piece_is_worked_on_once(several, monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 4)
    done, lock = [], threading.Lock()

    def work(piece):
        with lock:
            done.append(piece)

    for_each(work, iter(range(200)), several)
    assert sorted(done) == list(range(200))


def test_the_limit_of_numba_holds(monkeypatch):
    from numba import config

    assert n_threads() >= 1
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 1)
    assert n_threads() == 1


def test_an_exception_stops_all_threads(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 3)
    begun = []

    def fail(piece):
        begun.append(piece)
        raise KeyboardInterrupt if piece == 0 else ValueError("later")

    with pytest.raises((KeyboardInterrupt, ValueError)):
        for_each(fail, range(1000))
    assert len(begun) <= 3
