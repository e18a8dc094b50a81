"""The runs of the chains: whether they have met, and how much each counts.

Runs of different kinds (`gibbs.chain_runs.kinds_of_runs`) have different leaves over several columns, so they do not
meet. Kinds count by how well their draws predict each row given the others, and so do runs where those of a kind have
not met. What a draw knows of a row that is left out is no more than how the others are grouped. Importance weights
would take that away, too, but of a dozen draws of a run they are so uneven that runs are weighed worse for it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from pymc_spn.gibbs.chain_runs import kinds_of_runs
from pymc_spn.numerics.chain_mixing import Mixing
from pymc_spn.numerics.draw_averages import even_choice, stack

if TYPE_CHECKING:
    from pymc_spn.networks.records.recorded_states import RecordedStates

FEWEST = 4  # draws of a run
MOST_DRAWS = 400  # of all runs together, whose rows are left out one after another
MOST_ROWS = 1_000  # that are left out


@dataclass(frozen=True)
class FoundOfRuns:
    """What the draws of runs say of training rows that are left out.

    Parameters
    ----------
    of_draws : (K, S, N) float64
        Log predictive of some rows given the others, by S draws of each run, in nats.
    kinds : (K,) integers
        Of the runs.
    units : str
        What runs are called where they are chains.
    """

    of_draws: np.ndarray
    kinds: np.ndarray
    units: str = "runs"

    @cached_property
    def left_out(self) -> np.ndarray:
        """Log predictive (K, N) by each run."""
        return logsumexp(self.of_draws, axis=1) - np.log(self.of_draws.shape[1])

    def weights_of(self, groups: np.ndarray) -> np.ndarray:
        """Share (K,) of each run where those of a group (K,) count alike.

        Groups have the shares in the mixture that predicts rows best, with a prior of one row's worth each.
        """
        names, place, size = np.unique(groups, return_inverse=True, return_counts=True)
        logs = np.array([logsumexp(self.left_out[groups == g], axis=0) for g in names]) - np.log(size)[:, None]
        return (stack(np.exp(logs - logs.max(axis=0)).T) / size)[place]

    @cached_property
    def heaviest(self) -> np.ndarray:
        """(K,) bool, the runs of the kind that counts most; all where it has one, which says nothing of meeting."""
        shares = np.bincount(self.kinds, self.weights_of(self.kinds))
        found = self.kinds == np.argmax(shares)
        return found if found.sum() > 1 else found | True

    @cached_property
    def mixing(self) -> Mixing:
        """Of the mean over rows of the log predictive of a row given the others, over runs of that kind."""
        return Mixing.of(self.of_draws[self.heaviest].mean(axis=2), "log density of rows", self.units)

    def weights(self) -> np.ndarray:
        """Share (K,) of each run: those of a kind count alike if they have met."""
        return self.weights_of(self.kinds if self.mixing.has_met else np.arange(self.kinds.size))

    def gain(self, weights: np.ndarray) -> tuple[float, float]:
        """Log predictive of a row left out by weighted runs less that by equal ones, in nats, and its error."""
        logs = self.left_out
        of_rows = logsumexp(logs, axis=0, b=weights[:, None] * len(weights)) - logsumexp(logs, axis=0)
        return float(of_rows.mean()), float(of_rows.std() / np.sqrt(of_rows.size))


def members(runs: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    """Draws of each run, by chain and run, of the runs (chain, record) of all draws."""
    places = np.arange(runs.size).reshape(runs.shape)
    return {(k, int(r)): places[k, own == r] for k, own in enumerate(runs) for r in np.unique(own)}


def by_run(values: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Numbers (chain, draw, ...) as (run, draw, ...), evenly fewer of runs that are longer than others.

    Draws after one that is recorded, if all are here, are of its run.
    """
    step = -(-values.shape[1] // runs.shape[1])
    found = members(np.repeat(runs, step, axis=1)[:, : values.shape[1]]).values()
    length, flat = min(map(len, found)), np.concatenate(values)
    return np.stack([flat[own[even_choice(len(own), length)]] for own in found])


def found_of_runs(states: "RecordedStates") -> FoundOfRuns | None:
    """What the runs say of rows left out; None where there is one run, or draws are too few to say."""
    record, found = states.record, members(states.record.runs)
    seen = np.flatnonzero(~np.isnan(record.table).all(axis=1))
    if len(found) < 2 or min(map(len, found.values())) < FEWEST or not seen.size:
        return None
    rows = seen[even_choice(seen.size, MOST_ROWS)]
    length = min(max(MOST_DRAWS // len(found), FEWEST), *map(len, found.values()))
    logs = [states.leave_one_out(own[even_choice(len(own), length)], rows) for own in found.values()]
    n_kinds = len(kinds_of_runs(states.schema, record.table))  # they take turns
    kinds = np.array([run % n_kinds for _, run in found])
    return FoundOfRuns(np.array(logs), kinds, record.units)
