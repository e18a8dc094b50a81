"""What a sweep of each kernel costs, from counts alone, and when bottom-up sweeps take turns with collapsed ones.

A collapsed draw depends on the rows before it, so its vectors run over a row's few leaves. Bottom-up Gibbs draws
weights and leaf parameters first; given these, rows are independent and fill vectors. Where the whole network is small
its sweep therefore costs less, and over thousands of rows it loses little by having parameters to draw. Where the
network is large it is out of the question. Collapsed sweeps open unoccupied nodes, which have no data to draw
parameters from, much more easily; so the two take turns.
"""

import numpy as np

from pymc_spn.gibbs.bottom_up import BottomUpSampler

TURNS = 3  # bottom-up sweeps to one collapsed sweep, times how much cheaper they are
WORTH_IT = 1.6  # how many times cheaper they must be before "auto" makes them
# Nanoseconds a row and a sweep, fitted to the sixteen tables of the benchmarks at 2 and 4 children a sum node; their
# ratios matter, and carry over better than their size. What a bottom-up sweep costs for each column includes that its
# state becomes a collapsed one. Its arithmetic on nodes takes 0.35 to 0.6 ns on machines where the collapsed kernels,
# which wait more than they calculate, take the same time.
EXACT_SWEEP, EXACT_COLUMN, EXACT_LEAF, FRONTIER_COLUMN = 3e4, 140.0, 5.5, 1800.0
BLOCKED_SWEEP, BLOCKED_COLUMN, BLOCKED_NODE = 8e4, 105.0, 0.5
PARAMETER = 60.0  # nanoseconds a node and sweep, whatever the number of rows


def bottom_up_nodes(structure, compiled):
    """Nodes of the whole network; infinite where bottom-up sweeps are impossible."""
    if np.any(structure.n_children == 0):
        return np.inf
    return float(structure.n_nodes(dict(zip(structure.names, np.diff(compiled.entry_ptr).tolist(), strict=True))))


def how_much_cheaper(n_rows, n_columns, n_leaves, n_nodes):
    """How many times cheaper a bottom-up sweep is than the collapsed one, as estimated from counts.

    Parameters
    ----------
    n_rows, n_columns : int
    n_leaves : int
        Occupied leaves.
    n_nodes : float
        From `bottom_up_nodes`.
    """
    collapsed = min(EXACT_COLUMN * n_columns + EXACT_LEAF * n_leaves, FRONTIER_COLUMN * n_columns)
    blocked = BLOCKED_COLUMN * n_columns + BLOCKED_NODE * n_nodes
    return (EXACT_SWEEP + n_rows * collapsed) / (BLOCKED_SWEEP + n_rows * blocked + PARAMETER * n_nodes)


def n_turns(cheaper):
    """Bottom-up sweeps to each collapsed one: three, or as many as take three quarters of the time."""
    return max(TURNS, round(TURNS * cheaper))


class Turns:
    """A bottom-up sampler that moves the state of a collapsed one now and then.

    Weights and leaf parameters are drawn again at each sweep and forgotten. What remains is the partition of the rows
    at each node, and renaming children beforehand changes no probability, so the collapsed posterior is kept.

    Parameters
    ----------
    structure : RegionTree
        Of finite width.
    compiled : CompiledPalette
    coded : (N, D) float64
    moving : sequence of int
        Places of the columns whose values change between the sweeps of the collapsed sampler.
    """

    def __init__(self, structure, compiled, coded, moving=()):
        self.sampler = BottomUpSampler(structure, compiled, coded, moving)
        self.priors = None
        self.is_behind = True  # the collapsed state has been changed since the last sweep

    def sweep(self, rng, collapsed):
        """One sweep from the state of ``collapsed``, a `Sampler`, or from that of the last sweep.

        Returns the fraction of rows that moved. The new state is in ``self.sampler``.
        """
        priors = collapsed.hyperparameters[:4]  # there are no leaves over several columns in such networks
        if self.priors is None or not all(map(np.array_equal, priors, self.priors)):
            self.sampler.set_hyperparameters(*priors)
            self.priors = [np.array(p) for p in priors]
        if self.is_behind:
            self.sampler.set_table(collapsed.coded)
            self.sampler.set_digits(collapsed.digits())
            self.is_behind = False
        return self.sampler.sweep(rng)
