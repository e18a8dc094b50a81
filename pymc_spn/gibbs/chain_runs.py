"""Several runs in one chain, each from a start of its own.

If the data choose the number of components, the posterior has modes that no sweep joins. Then one more start tells more
about it than more sweeps from the same one. So the tuning is divided among several starts, and the draws among the
states that it ends with, in blocks, each of which goes on from one of them. No start is preferred. Sweeps are as many
as in one run, and the draws of a chain are spread over as many modes as it has runs.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import joint_regions
from pymc_spn.tables.resolution import are_clumped

MOST_RUNS = 4
FEWEST_SWEEPS = 125  # of the tuning of a run: after fewer it still is on its way


def kinds_of_runs(schema: Any, values: np.ndarray) -> list[np.ndarray]:
    """Regions ((R,) bool) where leaves over several columns are open, of each kind of run.

    In some runs these leaves hold no column whose values come again and again, in others any, in others there are none.
    None of the kinds is best on all tables, a few hundred sweeps do not lead from one to another, and even where all is
    open the others are hardly found. So runs take turns, and are weighed by what they predict.
    """
    able = schema.compiled.is_joint
    even = able & ~are_clumped(values, schema.resolution)
    kinds = [joint_regions(schema.structure, own) for own in (even, able, able & False)]
    return [kind for i, kind in enumerate(kinds) if not any(np.array_equal(kind, k) for k in kinds[:i])]


class ChainState(NamedTuple):
    """All that a chain needs to go on from where it stood."""

    digits: np.ndarray
    table: np.ndarray  # with the exact values of what is recorded in cells
    filled: np.ndarray  # with the missing cells that are part of the state
    hyperparameters: tuple[np.ndarray, ...]


def state_of(chain: Any) -> ChainState:
    """The present state of a chain."""
    sampler = chain.sampler
    hyper = tuple(np.array(h) for h in sampler.hyperparameters)
    return ChainState(sampler.digits(), sampler.coded.copy(), sampler.filled.copy(), hyper)


def restore(chain: Any, state: ChainState) -> None:
    """Put a state into its chain."""
    chain.set_hyperparameters(state.hyperparameters)
    chain.sampler.set_filled_rows(state.filled)
    chain.set_table(state.table)
    chain.set_digits(state.digits)


def n_runs_of(tune: int, draws: int) -> int:
    """Runs into which a chain with so many sweeps for tuning and for draws is divided."""
    return max(1, min(MOST_RUNS, tune // FEWEST_SWEEPS, draws))


class ChainRuns:
    """The runs of a chain, the present one and the states at which the others stand.

    Parameters
    ----------
    n_runs : int
        At least 2; the start at which the chain stands is the first.
    tune, draws : int
        Sweeps of the whole chain.
    hyperparameters : sequence of vectors
        With which each run begins.
    """

    def __init__(self, n_runs: int, tune: int, draws: int, hyperparameters: Any) -> None:
        self.n_runs, self.tune, self.draws, self.n_sweeps, self.present = n_runs, tune, draws, 0, 0
        self.first = tuple(np.array(h) for h in hyperparameters)
        self.states: list[ChainState] = []
        self.is_drawing = False

    def before_sweep(self, chain: Any, rng: np.random.Generator) -> None:
        """Go on to the next run where the share of the present one is used up."""
        n_sweeps = self.draws if self.is_drawing else self.tune
        run = self.n_sweeps * self.n_runs // n_sweeps
        self.present = min(run, self.n_runs - 1)
        if 0 < run < self.n_runs and (self.n_sweeps - 1) * self.n_runs // n_sweeps < run:
            if self.is_drawing:
                if run < len(self.states):
                    restore(chain, self.states[run])
                    chain.open_joints(run)
                    chain.plan()
            else:
                self.states.append(state_of(chain))
                chain.begin(rng, self.first, len(self.states))
        self.n_sweeps += 1

    def begin_draws(self, chain: Any) -> None:
        """End the tuning: the draws begin where the first run stands."""
        if not self.is_drawing:
            self.states.append(state_of(chain))
            restore(chain, self.states[0])
            chain.open_joints(0)
            self.is_drawing, self.n_sweeps, self.present = True, 0, 0
