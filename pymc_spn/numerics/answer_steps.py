"""Where the loops below an answer count their steps: its progress bar, which the answer has opened."""

from collections.abc import Collection, Iterator
from contextvars import ContextVar
from typing import Protocol


class Counter(Protocol):
    """What counts steps."""

    def expect(self, steps: int) -> None: ...

    def advance(self, steps: int = 1) -> None: ...


class NoCounter:
    """Counts nothing."""

    def expect(self, steps: int) -> None:
        """Nothing."""

    def advance(self, steps: int = 1) -> None:
        """Nothing."""


of_the_answer: ContextVar[Counter] = ContextVar("of_the_answer", default=NoCounter())  # noqa: B039  it holds nothing


def current_bar() -> Counter:
    """The bar of the answer that this thread works out; where there is none, what counts nothing."""
    return of_the_answer.get()


def each[Item](items: Collection[Item]) -> Iterator[Item]:
    """The items of a loop, one after the other; each is a step of the answer when its turn is over."""
    bar = current_bar()
    bar.expect(len(items))
    for item in items:
        yield item
        bar.advance()
