"""One sweep of a nonlinear Gaussian belief network whose graph has a cascading Indian buffet as its prior.

Moves of parameters, hidden units and observed data are those of the Indian chefs process. Moves of the graph are made
of the same births and the same evidences, with this prior's proposals and ratios.
"""

import math

import numpy as np

from pymc_spn.indian_chefs.cascading_kernels import (
    cascade_log_density,
    fill_layers,
    propose_dish,
    propose_dish_death,
    put_layers,
)
from pymc_spn.indian_chefs.collapsed_moves import collapsed_birth, collapsed_death, node_evidence
from pymc_spn.indian_chefs.graph_state import set_edge
from pymc_spn.indian_chefs.network_sweep import (
    COLLAPSED,
    EDGES,
    GUIDED,
    PRIOR,
    count_move,
    exchange_and_sum,
    redraw_parameters_and_units,
    unit_birth,
    unit_death,
)
from pymc_spn.indian_chefs.sweeps import random_order
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def draw_cascade_edges(rng, state, cascade, network, heat, prior, work, layers):
    """Gibbs draws of all edges given activations and precisions, in random order; returns the number that changed.

    A changed edge may move its parent, and that unit's ancestors, to other layers: the whole prior is worked out again.
    """
    n, n_observed = state.count[0], state.fixed.size
    changed = 0
    fill_layers(state, cascade, layers)
    log_prior = cascade_log_density(state, cascade, layers, -1)
    for i in random_order(rng, n):
        current = node_evidence(n, i, network, heat, prior, work)
        for k in random_order(rng, n):
            if k < n_observed or k == i:
                continue
            before = state.parents[k, i]
            set_edge(state, k, i, 1 - before)
            if fill_layers(state, cascade, layers):
                other_prior = cascade_log_density(state, cascade, layers, -1)
                other = node_evidence(n, i, network, heat, prior, work)
                log_ratio = other + other_prior - current - log_prior
                if rng.random() < 1.0 / (1.0 + math.exp(-min(max(log_ratio, -700.0), 700.0))):
                    current, log_prior = other, other_prior
                    changed += 1
                    continue
            set_edge(state, k, i, before)
    fill_layers(state, cascade, layers)
    put_layers(state, layers)
    return changed


@kernel
def cascade_sweep(rng, state, cascade, network, prior, plan, number, work, layers, tally):
    """One sweep; exact for the joint posterior of graph, parameters and activations while all heats are 1.

    Parameters
    ----------
    cascade : CascadePrior
    plan : SweepPlan
        Splits, swaps and twins have no meaning here.
    layers : (K,) int64
        Scratch space.
    rng, state, network, prior, number, work, tally
        As of `network_sweep.sweep`.
    """
    moves = work.graph
    exchange_and_sum(rng, state, network, plan, number, work, tally)
    if plan.frozen_graph == 0:
        tally[EDGES, 0] += 1
        tally[EDGES, 1] += draw_cascade_edges(rng, state, cascade, network, work.heat, prior, moves, layers)
        for _ in range(plan.collapsed):
            up = rng.random() < 0.5
            full = state.count[0] == state.order.size
            if up:
                theta, log_ratio = propose_dish(rng, state, cascade, layers, moves.children)
                step = collapsed_birth(rng, theta, log_ratio, state, network, work.heat, prior, moves)
            else:
                unit, log_ratio = propose_dish_death(rng, state, cascade, layers)
                step = collapsed_death(rng, unit, log_ratio, state, network, work.heat, prior, moves)
            count_move(tally, COLLAPSED, up, full, step)
    redraw_parameters_and_units(rng, state, network, prior, plan, work, tally)
    if plan.frozen_graph == 0:
        for kind in (GUIDED, PRIOR):
            for _ in range(plan.guided if kind == GUIDED else plan.prior):
                up = rng.random() < 0.5
                full = state.count[0] == state.order.size
                if up:
                    theta, log_ratio = propose_dish(rng, state, cascade, layers, moves.newborn.children)
                    step = unit_birth(rng, theta, log_ratio, state, network, prior, kind == GUIDED, work)
                else:
                    unit, log_ratio = propose_dish_death(rng, state, cascade, layers)
                    step = unit_death(rng, unit, log_ratio, state, network, prior, kind == GUIDED, work)
                count_move(tally, kind, up, full, step)


def new_layers(n_slots: int) -> np.ndarray:
    """Scratch space of a sweep."""
    return np.zeros(n_slots, np.int64)
