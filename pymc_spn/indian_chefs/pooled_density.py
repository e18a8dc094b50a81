"""Log density of a whole table given a chain's network, its hidden units integrated out by a pool."""

import math

import numpy as np

from pymc_spn.indian_chefs.network_sweep import descending
from pymc_spn.indian_chefs.pool_kernels import fill_pool, observed_have_children, pooled_weights
from pymc_spn.indian_chefs.regression_kernels import LOG_2PI
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import kernel


@kernel
def pooled_log_density(rng, state, network, is_gap, pool, work):
    """Sum over rows of the log mean density of their activations over fresh draws of the hidden units, in nats.

    Parameters
    ----------
    rng : numpy.random.Generator
    state : GraphState
    network : BeliefNetwork
    is_gap : (N, D) bool
        Cells that are summed out.
    pool : HiddenDraws
        Scratch space; its size is the number of draws.
    work : SweepWork
        Scratch space.

    Returns
    -------
    float
        NaN where an observed node is a parent, which one pool for all rows cannot serve.
    """
    n, n_observed = state.count[0], state.fixed.size
    if observed_have_children(n_observed, n, network.parents):
        return np.nan
    descending(state, work.order)
    fill_pool(
        rng, n_observed, n, work.order, network.parents, network.weights, network.biases, network.precisions, pool
    )
    counts = np.zeros(n_observed)
    unchecked = np.zeros(1, np.int64)
    out = 0.0
    for r in range(network.activations.shape[1]):
        if must_stop_after(pool.weights.size * (n_observed + 5), unchecked):
            return np.nan
        for d in range(n_observed):
            counts[d] = 0.0 if is_gap[r, d] else 1.0
            work.datum[d] = network.activations[d, r]
            out += 0.5 * counts[d] * (math.log(network.precisions[d]) - LOG_2PI)
        everything, top = pooled_weights(work.datum, network.precisions, counts, pool)
        out += top + math.log(everything / pool.weights.size)
    return out
