"""The runs of the chains: whether they have met, and how much each counts where they have not.

A run counts by how well its draws predict each row given the others. What a draw knows of a row that is left out is
no more than how the others are grouped. Importance weights would take that away, too, but of a dozen draws of a run
they are so uneven that runs are weighed worse for it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from pymc_spn.numerics.chain_mixing import Mixing
from pymc_spn.numerics.draw_averages import even_choice, stack

if TYPE_CHECKING:
    from pymc_spn.networks.records.recorded_states import RecordedStates

FEWEST = 4  # draws of a run
MOST_DRAWS = 200  # of all runs together, whose rows are left out one after another
MOST_ROWS = 2_000  # that are left out
MOST_DENSITIES = 400_000  # of rows left out, by fewer draws of each run where rows or runs are many


@dataclass(frozen=True)
class FoundOfRuns:
    """What the draws of runs say of training rows that are left out.

    Parameters
    ----------
    left_out : (K, N) float64
        Log predictive of some rows given the others, by each run, in nats.
    mixing : Mixing
        Of the mean over rows of the log predictive of a row given the others, over runs.
    """

    left_out: np.ndarray
    mixing: Mixing

    def weights(self) -> np.ndarray:
        """Share (K,) of each run in the mixture that predicts rows best, with a prior of one row's worth a run."""
        return stack(np.exp(self.left_out - self.left_out.max(axis=0)).T)

    def gain(self, weights: np.ndarray) -> tuple[float, float]:
        """Log predictive of a row left out by weighted runs less that by equal ones, in nats, and its error."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[:, None]
        of_rows = (
            logsumexp(self.left_out + log_weights, axis=0) - logsumexp(self.left_out, axis=0) + np.log(len(weights))
        )
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
    length = min(map(len, found))
    flat = values.reshape(-1, *values.shape[2:])
    return np.stack([flat[own[even_choice(len(own), length)]] for own in found])


def found_of_runs(states: "RecordedStates") -> FoundOfRuns | None:
    """What the runs say of rows left out; None where there is one run, or draws are too few to say."""
    record, found = states.record, list(members(states.record.runs).values())
    seen = np.flatnonzero(~np.isnan(record.table).all(axis=1))
    if len(found) < 2 or min(map(len, found)) < FEWEST or not seen.size:
        return None
    rows = seen[even_choice(seen.size, MOST_ROWS)]
    most = min(MOST_DRAWS, MOST_DENSITIES // rows.size) // len(found)
    length = min(max(most, FEWEST), *map(len, found))
    logs = np.array([states.leave_one_out(own[even_choice(len(own), length)], rows) for own in found])
    return FoundOfRuns(
        logsumexp(logs, axis=1) - np.log(length), Mixing.of(logs.mean(axis=2), "log density of rows", "runs")
    )
