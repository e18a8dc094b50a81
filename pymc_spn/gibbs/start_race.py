"""Several starts at the beginning of the tuning; the best goes on.

Sweeps move single rows, so a chain of some thousand rows stays near the grouping that k-means began with. Groupings
differ by more than what any number of sweeps gains. After some sweeps from each start their log joints tell which
groupings are poor. That works only where bottom-up sweeps, which move all rows at once, settle a small network that
soon. A large one is still growing then, and those that have grown least stand highest. Draws are not touched: the race
is over before the first of them, and chooses a state to begin with.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.chain_runs import ChainState, restore, state_of

MAX_STARTS = 8
MIN_HEAT = 10  # sweeps from a start: after fewer, log joints tell nothing
HEAT = 0.02  # of the sweeps of the tuning
SHARE = 0.16  # of them that all heats may take


class Candidate(NamedTuple):
    """A state at the end of its heat, and what it is judged by."""

    log_joint: float  # mean over the second half of the heat: single states of one grouping differ by as much
    state: ChainState


def race_of(tune: int) -> tuple[int, int]:
    """Number of starts and sweeps from each that suit a tuning of so many sweeps; one start where it is short."""
    heat = max(MIN_HEAT, round(HEAT * tune))
    return min(MAX_STARTS, int(SHARE * tune) // heat), heat


class StartRace:
    """Starts that a chain goes through, and the best state until now.

    Parameters
    ----------
    n_starts : int
        At least 2; the start at which the chain stands is the first.
    heat : int
        Sweeps from each.
    hyperparameters : sequence of vectors
        With which each start begins.
    """

    def __init__(self, n_starts: int, heat: int, hyperparameters: Any) -> None:
        self.n_left, self.heat, self.n_sweeps = n_starts - 1, heat, 0
        self.first = tuple(np.array(h) for h in hyperparameters)
        self.log_joints: list[float] = []
        self.best: Candidate | None = None

    def before_sweep(self, chain: Any, rng: np.random.Generator) -> bool:
        """Go on to the next start where a heat is over; False when the race is, with the best state in place.

        Where the chain makes no bottom-up sweeps after the first heat there is no race, and nothing is lost.
        """
        if self.n_sweeps == self.heat and self.best is None and chain.plan()[1] == 0:
            return False
        if self.n_sweeps > self.heat // 2:
            self.log_joints.append(float(chain.sampler.statistics()[0]))
        if self.n_sweeps == self.heat:
            if self.n_left == 0:
                self.finish(chain)
                return False
            self._compare(chain)
            self.n_left -= 1
            self.n_sweeps, self.log_joints = 0, []
            chain.begin(rng, self.first)
        self.n_sweeps += 1
        return True

    def finish(self, chain: Any) -> None:
        """Put the best of the states into the chain; the present one counts once it is past half of its heat."""
        if self.log_joints or self.best is None:
            self._compare(chain)
        if self.best is not None:
            restore(chain, self.best.state)

    def _compare(self, chain: Any) -> None:
        """Keep the present state of the chain if it is the best."""
        mean = float(np.mean(self.log_joints)) if self.log_joints else -np.inf
        if self.best is None or mean > self.best.log_joint:
            self.best = Candidate(mean, state_of(chain))
