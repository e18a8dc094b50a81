"""A posterior as a weighted mean of others: what each counts for, means, their errors, draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.numerics.answer_steps import each


@dataclass(frozen=True, eq=False)
class WeightedParts:
    """Posteriors of which another is the mean: stretches of chains over orders, or one for each imputed table.

    Parameters
    ----------
    posteriors : sequence of OrderSPN
        None of a sum over orders, whose answers have no Monte Carlo error.
    log_shares : (n,) float64
        Log of what each counts for, not normalised.
    are_tables : bool
        Whether they are all that there is. Then an answer is the mean of theirs; else they say its error alone.
    """

    posteriors: Sequence[Any]
    log_shares: np.ndarray
    are_tables: bool = False

    @cached_property
    def shares(self) -> np.ndarray:
        """(n,) what each counts for; zeros if none does."""
        top = self.log_shares.max(initial=-np.inf)
        weights = np.exp(self.log_shares - top) if top > -np.inf else np.zeros(self.log_shares.size)
        return weights / max(weights.sum(), 1.0)

    @property
    def n_effective(self) -> float:
        """Effective number of parts."""
        return float(1.0 / np.square(self.shares).sum())

    @property
    def that_count(self) -> np.ndarray:
        """Numbers of the parts with a share."""
        return np.flatnonzero(self.shares)

    def n_of_each(self, draws: int) -> int:
        """How many of so many draws each part has, at least one."""
        return max(1, draws // max(1, self.that_count.size))

    def ask(self, question: Callable[[Any], Any]) -> list[Any]:
        """Answers of the parts that count."""
        return [question(self.posteriors[m]) for m in each(self.that_count)]

    def mean(self, values: Sequence[Any]) -> np.ndarray:
        """Of the answers of the parts that count."""
        shares = self.shares[self.that_count]
        return np.asarray(sum(share * value for share, value in zip(shares, values, strict=True)))

    def errors(self, values: Sequence[Any], mean: Any, log_weights: Any = 0.0) -> dict[str, Any]:
        """Standard error of a ratio of means over parts; of tables also the standard deviation between them.

        Parameters
        ----------
        values : sequence of float64 arrays
            Answers of the parts that count.
        mean : float64 array
            The answer to which they belong.
        log_weights : (n,) float64, optional
            Log of what multiplies the share of each of them.

        Returns
        -------
        dict
            Arrays of the shape of `mean`, NaN if fewer than two parts count; empty if there are no parts.
        """
        n = len(self.posteriors)
        if not n:
            return {}
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares[self.that_count]) + log_weights
        shares = np.exp(logs - np.logaddexp.reduce(logs, initial=-np.inf)) if logs.size > 1 else np.full(1, np.nan)
        squares = [np.square(np.asarray(value) - mean) for value in values]
        error = np.asarray(sum(share**2 * square for share, square in zip(shares, squares, strict=False)))
        found = {"mcse": np.sqrt(error * n / max(n - 1, 1))}
        if self.are_tables:
            between = np.asarray(sum(share * square for share, square in zip(shares, squares, strict=False)))
            found["sd_between_tables"] = np.sqrt(between / (1.0 - np.square(shares).sum()))
        return found

    def draw(
        self, n: int, rng: np.random.Generator, ask: Callable[[Any, int], tuple[np.ndarray, ...]]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """What ``ask(part, how many)`` draws of all parts by their shares, in random order, and the part of each."""
        which = rng.choice(len(self.posteriors), n, p=self.shares)
        found = [ask(self.posteriors[m], int((which == m).sum())) for m in each(np.unique(which))]
        place = np.argsort(np.argsort(which, kind="stable"))
        return [np.concatenate(arrays)[place] for arrays in zip(*found, strict=True)], which
