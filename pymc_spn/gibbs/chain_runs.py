"""Several runs in one chain, each from a start of its own.

If the data choose the number of components, the posterior has modes that no sweep joins. Then one more start tells more
about it than more sweeps from the same one. So the tuning is divided among several starts, and the draws among the
states that it ends with, in blocks, each of which goes on from one of them. No start is preferred. Sweeps are as many
as in one run, and the draws of a chain are spread over as many modes as it has runs.

Runs are of several kinds, in turn. Each chain begins with another kind, so that short chains have all kinds together.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import joint_regions
from pymc_spn.tables.resolution import are_clumped

MOST_RUNS = 4
FEWEST_SWEEPS = 250  # of the tuning of a run: after fewer it still is on its way, and other chains have other kinds


def kinds_of_runs(schema: Any, values: np.ndarray) -> list[np.ndarray]:
    """Regions ((R,) bool) where leaves over several columns are open, of each kind of run.

    In some runs these leaves hold any column, in others no column whose values come again and again, in others there
    are none. None of the kinds is best on all tables, a few hundred sweeps do not lead from one to another, and even
    where all is open the others are hardly found. So runs take turns, and are weighed by what they predict.
    """
    able = schema.compiled.is_joint
    even = able & ~are_clumped(values, schema.resolution)
    kinds = [joint_regions(schema.structure, own) for own in (able, even, able & False)]
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


def number_of(rng: np.random.Generator) -> int:
    """A number that differs by one from chain to chain: PyMC spawns their generators, and from these those of steps."""
    return sum(rng.bit_generator.seed_seq.spawn_key)  # type: ignore[attr-defined]


class ChainRuns:
    """The runs of a chain, the present one and the states at which the others stand.

    A run is called by a number (`present`). This number modulo the number of kinds is its kind.

    Parameters
    ----------
    kinds : list of (R,) bool
        See `kinds_of_runs`.
    number : int
        Of the chain, from which the kind of its first run follows.
    tune, draws : int
        Sweeps of the whole chain.
    hyperparameters : sequence of vectors
        With which each run begins.
    """

    def __init__(self, kinds: list[np.ndarray], number: int, tune: int, draws: int, hyperparameters: Any) -> None:
        self.kinds, self.tune, self.draws, self.n_sweeps = kinds, tune, draws, 0
        self.n_runs, self.present = n_runs_of(tune, draws), number % len(kinds)
        self.first, self.hyperparameters = self.present, tuple(np.array(h) for h in hyperparameters)
        self.states: list[ChainState] = []
        self.is_drawing = False

    @property
    def is_open(self) -> np.ndarray:
        """Where the present run has leaves over several columns."""
        return self.kinds[self.present % len(self.kinds)]

    def before_sweep(self, chain: Any, rng: np.random.Generator) -> None:
        """Go on to the next run where the share of the present one is used up."""
        n_sweeps = self.draws if self.is_drawing else self.tune
        run = self.n_sweeps * self.n_runs // n_sweeps
        self.present = self.first + min(run, self.n_runs - 1)
        if 0 < run < self.n_runs and (self.n_sweeps - 1) * self.n_runs // n_sweeps < run:
            if self.is_drawing:
                if run < len(self.states):
                    restore(chain, self.states[run])
                    chain.sampler.open_joints(self.is_open)
                    chain.plan()
            else:
                self.states.append(state_of(chain))
                chain.begin(rng, self.hyperparameters)
        self.n_sweeps += 1

    def begin_draws(self, chain: Any) -> None:
        """End the tuning: the draws begin where the first run stands."""
        if not self.is_drawing:
            self.states.append(state_of(chain))
            self.is_drawing, self.n_sweeps, self.present = True, 0, self.first
            restore(chain, self.states[0])
            chain.sampler.open_joints(self.is_open)
