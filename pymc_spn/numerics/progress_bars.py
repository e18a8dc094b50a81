"""Progress bars of builders and answers, in the look of PyMC's own; none is drawn for what takes less than a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

from pymc_spn.numerics.answer_steps import Counter, of_the_answer
from pymc_spn.numerics.quoted_values import quoted

PATIENCE = 1.0  # seconds before a bar appears


class ProgressBar:
    """A bar that counts steps; a context manager. PyMC, and rich, are asked for when it first shows.

    Parameters
    ----------
    description : str
    total : int
        Steps.
    show : bool
        False: nothing is ever drawn.

    Raises
    ------
    TypeError
        If `show` is no bool.
    """

    def __init__(self, description: str, total: int, show: bool):
        if not isinstance(show, bool):
            raise TypeError(f"progressbar must be True or False, got {quoted(show)}")
        self.description, self.total, self.show = description, int(total), show
        self.done = 0
        self._begun = time.perf_counter()
        self._drawn: Any = None
        self._task: Any = None
        self._lock = Lock()

    def advance(self, steps: int = 1) -> None:
        """Count steps; safe from several threads."""
        with self._lock:
            steps = min(steps, self.total - self.done)
            self.done += steps
            if self._drawn is not None:
                self._drawn.advance(self._task, steps)
            elif self.show and self.done < self.total and time.perf_counter() - self._begun > PATIENCE:
                from pymc.progress_bar import create_simple_progress

                self._drawn = create_simple_progress(progressbar=True)
                self._drawn.__enter__()
                self._task = self._drawn.add_task(self.description, completed=self.done, total=self.total)

    def expect(self, steps: int) -> None:
        """Add steps to the total, before the first of them is counted."""
        with self._lock:
            self.total += steps
            if self._drawn is not None:
                self._drawn.update(self._task, total=self.total)

    def __reduce__(self) -> Any:
        # what was built may hold its builder's bar: a copy of it, and what is read from a pickle, draws nothing
        return ProgressBar, (self.description, self.total, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.show = False
        if self._drawn is not None:
            if error[0] is None and self.done < self.total:
                self._drawn.advance(self._task, self.total - self.done)
            self._drawn.__exit__(*error)
            self._drawn = None


@contextmanager
def counted(description: str, show: bool) -> Iterator[Counter]:
    """A bar of one answer, whose loops find it by `current_bar` and add their steps to it; of this thread alone.

    An answer that another one asks for has no bar of its own: its steps count in the other's.

    Parameters
    ----------
    description : str
    show : bool
        What the user gave as ``progressbar``.
    """
    with ProgressBar(description, 0, show) as bar:
        if isinstance(of_the_answer.get(), ProgressBar):
            yield of_the_answer.get()
            return
        before = of_the_answer.set(bar)
        try:
            yield bar
        finally:
            of_the_answer.reset(before)
