"""What a sweep of each kernel costs, from counts alone, and when bottom-up sweeps take turns with collapsed ones.

A collapsed draw depends on the rows before it, so its vectors run over a row's few leaves. Bottom-up Gibbs draws
weights and leaf parameters first; given these, rows are independent and fill vectors. Where the whole network is small
its sweep therefore costs less, and over thousands of rows it loses little by having parameters to draw. Where the
network is large it is out of the question. Collapsed sweeps open unoccupied nodes, which have no data to draw
parameters from, much more easily; so the two take turns.
"""

import numpy as np

from pymc_spn.circuits.gibbs.network import DISCRETE, EXPONENTIAL, GAUSSIAN, POISSON

MOST_TURNS = 3  # bottom-up sweeps to one collapsed sweep
WORTH_IT = 2.0  # how many times cheaper they must be before "auto" makes them
BLOCKED_FAMILIES = (GAUSSIAN, EXPONENTIAL, POISSON, DISCRETE)
# Nanoseconds, measured on wine, abalone and cpu_small: their ratios matter, and carry over better than their size.
EXACT_COLUMN, EXACT_LEAF, FRONTIER_COLUMN = 110.0, 6.4, 500.0
BLOCKED_COLUMN, BLOCKED_NODE, PARAMETER = 55.0, 0.22, 60.0


def bottom_up_nodes(structure, compiled):
    """Nodes of the whole network; infinite where bottom-up sweeps are impossible."""
    if np.any(structure.n_children == 0) or not np.isin(compiled.family, BLOCKED_FAMILIES).all():
        return np.inf
    return float(structure.n_nodes(dict(zip(structure.names, np.diff(compiled.entry_ptr).tolist(), strict=True))))


def turns(n_rows, n_columns, n_leaves, n_nodes):
    """How many times cheaper a bottom-up sweep is than the cheaper collapsed one, as estimated from counts.

    Parameters
    ----------
    n_rows, n_columns : int
    n_leaves : int
        Occupied leaves.
    n_nodes : float
        From `bottom_up_nodes`.
    """
    collapsed = n_rows * min(EXACT_COLUMN * n_columns + EXACT_LEAF * n_leaves, FRONTIER_COLUMN * n_columns)
    return collapsed / (n_rows * (BLOCKED_COLUMN * n_columns + BLOCKED_NODE * n_nodes) + PARAMETER * n_nodes)


def bottom_up_turn(rng, sampler, blocked):
    """One sweep of the uncollapsed sampler from a collapsed sampler's state; returns the fraction of rows that moved.

    Weights and leaf parameters are drawn anew and forgotten afterwards. What remains is the partition of the rows at
    each node, and renaming children beforehand changes no probability, so the collapsed posterior is kept.

    Parameters
    ----------
    rng : numpy.random.Generator
    sampler : Sampler
        Its state is replaced.
    blocked : BottomUpSampler
        Of the same network and table, at the same priors.
    """
    blocked.set_digits(sampler.digits())
    moved = blocked.sweep(rng)
    sampler.set_digits(blocked.digits())
    return moved
