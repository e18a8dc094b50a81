"""Progress bars of builders, in the look of PyMC's own; nothing is drawn for what is done within a second."""

import time
from threading import Lock
from typing import Any, Self

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
            self.done = min(self.done + steps, self.total)
            if self._drawn is not None:
                self._drawn.advance(self._task, steps)
            elif self.show and self.done < self.total and time.perf_counter() - self._begun > PATIENCE:
                from pymc.progress_bar import create_simple_progress

                self._drawn = create_simple_progress(progressbar=True)
                self._drawn.__enter__()
                self._task = self._drawn.add_task(self.description, completed=self.done, total=self.total)

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
