"""Progress bars: when they show, that every builder counts all of its steps, and that counting changes nothing."""

import copy
import functools
import pickle
import threading
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.networks.records import draw_blocks
from pymc_spn.numerics import progress_bars
from pymc_spn.numerics.answer_steps import current_bar
from pymc_spn.numerics.progress_bars import ProgressBar
from tests.hand_made_records import sampled_tree

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 5)), columns=list("abcde"))


class Recorder:
    """Stands for PyMC's progress."""

    made: ClassVar[list] = []

    def __init__(self, progressbar):
        assert progressbar
        self.made.append(self)
        self.count, self.open = None, False

    def __enter__(self):
        self.open = True

    def __exit__(self, *error):
        self.open = False

    def add_task(self, description, completed, total):
        self.description, self.count, self.total = description, completed, total
        return 7

    def advance(self, task, advance=1):
        assert task == 7 and self.open
        self.count += advance

    def update(self, task, total):
        assert task == 7 and self.open
        self.total = total


@pytest.fixture
def bars(monkeypatch):
    import pymc.progress_bar

    monkeypatch.setattr(pymc.progress_bar, "create_simple_progress", Recorder)
    monkeypatch.setattr(Recorder, "made", [])
    return Recorder.made


def test_a_bar_shows_when_patience_is_over_and_is_full_at_the_end(bars, monkeypatch):
    with ProgressBar("work", 10, True) as bar:
        bar.advance()
        assert not bars
        monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
        bar.advance(3)
        assert (bars[0].description, bars[0].count, bars[0].total) == ("work", 4, 10)
        bar.advance()
        assert bars[0].count == 5
    assert bars[0].count == 10 and not bars[0].open and len(bars) == 1
    bar.advance()  # after the end: nothing
    assert len(bars) == 1
    with pytest.raises(TypeError, match="progressbar must be True or False, got 1"):
        ProgressBar("work", 10, 1)


def test_none_shows_where_none_is_wanted_or_all_is_done(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
    with ProgressBar("work", 2, False) as bar:
        bar.advance()
    with ProgressBar("work", 1, True) as bar:
        bar.advance()
    assert not bars


def test_an_error_closes_it_where_it_stands(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
    with pytest.raises(ZeroDivisionError), ProgressBar("work", 4, True) as bar:
        bar.advance()
        raise ZeroDivisionError
    assert bars[0].count == 1 and not bars[0].open


def test_several_threads_lose_no_step(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
    with ProgressBar("work", 401, True) as bar:
        threads = [threading.Thread(target=lambda: [bar.advance() for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bar.done == bars[0].count == 400


@pytest.mark.parametrize("again", [copy.deepcopy, lambda built: pickle.loads(pickle.dumps(built))])
def test_what_was_built_can_be_copied_with_its_bar(again):
    post = ps.OrderSPN.exact(scores())
    assert b"ProgressBar" in pickle.dumps(post)  # that of the builder
    np.testing.assert_array_equal(again(post).edge_probabilities(), post.edge_probabilities())
    assert not again(ProgressBar("work", 3, True)).show


def scores():
    return ps.LocalScores.from_data(FRAME)


BUILDERS = {
    "Scoring parent sets": lambda **k: ps.LocalScores.from_data(FRAME, max_candidates=2, **k).log_scores,
    "Summing over orders": lambda **k: float(ps.OrderSPN.exact(scores(), **k).log_mass),
    "Searching prefixes": lambda **k: ps.OrderSPN.fit(scores(), 12, random_seed=1, **k).lattice.masks,
    "Drawing Gibbs orders": lambda **k: float(
        ps.OrderSPN.fit(scores(), 12, random_seed=1).coverage(150, random_seed=2, **k)
    ),
    "Growing trees": lambda **k: (
        ps.fit_tree(FRAME, FRAME["a"] > 0, family="binary", particles=8, random_seed=1, **k).predict(FRAME).values
    ),
    "Variational ascent": lambda **k: (
        ps.fit_variational(
            FRAME, ps.circuits.complete_tree(list("abcde"), n_children=2), max_steps=5, random_seed=1, **k
        )
        .log_density(FRAME)
        .values
    ),
}


@pytest.mark.parametrize("description", BUILDERS)
def test_builders_count_all_their_steps(description, monkeypatch):
    closed = []
    leave = ProgressBar.__exit__
    monkeypatch.setattr(ProgressBar, "__exit__", lambda bar, *e: (closed.append(bar), leave(bar, *e))[1])
    silent = BUILDERS[description](progressbar=False)
    shown = BUILDERS[description](progressbar=True)
    np.testing.assert_array_equal(shown, silent)
    mine = [bar for bar in closed if bar.description == description]
    assert len(mine) >= 2 and all(bar.done == bar.total > 1 for bar in mine)


ROWS = pd.DataFrame({"x0": [0.5, 1.5, np.nan], "x1": [0, 1, 1], "x2": [2, np.nan, 7]})
ANSWERS = {
    "mpe": lambda p, **k: float(p.mpe({"x0": 0.5}, **k).log_density),
    "dependence": lambda p, **k: p.dependence(**k)["mutual_information"].values,
    "explain": lambda p, **k: p.explain(ROWS.iloc[0], **k)["shapley"].values,
    "predictive_p_value": lambda p, **k: p.predictive_p_value(ROWS, n=99, random_seed=1, **k)["p_value"].values,
    "cell_p_value": lambda p, **k: p.cell_p_value(ROWS, **k).values,
    "diagnose": lambda p, **k: p.diagnose(**k).to_numpy(),
}


@functools.cache
def posterior():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=20))


@pytest.mark.parametrize("question", ANSWERS)
def test_answers_that_last_count_their_steps(question, bars, monkeypatch):
    post, ask = posterior(), ANSWERS[question]
    monkeypatch.setattr(draw_blocks, "ROWS", 2)  # of a piece: few rows are several pieces
    silent = ask(post, progressbar=False)
    assert not bars
    np.testing.assert_array_equal(ask(post), silent)
    assert not bars  # it is soon done
    monkeypatch.setattr(progress_bars, "PATIENCE", -1.0)
    np.testing.assert_array_equal(ask(post), silent)
    assert len(bars) == 1 and bars[0].count == bars[0].total > 1 and not bars[0].open
    with pytest.raises(TypeError, match="progressbar must be True or False, got 1"):
        ask(post, progressbar=1)


def test_the_bar_of_an_answer_is_that_of_its_thread():
    seen = []
    with progress_bars.counted("work", True) as bar:
        thread = threading.Thread(target=lambda: seen.append(current_bar()))
        thread.start()
        thread.join()
        assert current_bar() is bar and seen[0] is not bar
    assert current_bar() is not bar


def test_orders_drawn_in_parts_are_those_drawn_at_once():
    from pymc_spn.dags.lattice_search import gibbs_orders
    from pymc_spn.dags.order_gibbs_kernels import independent_orders

    s = scores()
    out = np.empty((150, s.d), np.int64)
    independent_orders(np.random.default_rng(3), 4, s.slots, s.offsets, s.log_sums, s.must_precede, out)
    np.testing.assert_array_equal(gibbs_orders(s, 150, np.random.default_rng(3), 4), out)
