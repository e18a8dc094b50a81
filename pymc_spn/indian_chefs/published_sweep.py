"""One sweep of a nonlinear Gaussian belief network with the published moves of the graph, for comparisons."""

from pymc_spn.indian_chefs.collapsed_moves import draw_collapsed_parents
from pymc_spn.indian_chefs.graph_state import place_node
from pymc_spn.indian_chefs.network_sweep import (
    EDGES,
    PRIOR,
    count_move,
    exchange_and_sum,
    redraw_parameters_and_units,
    unit_birth,
    unit_death,
)
from pymc_spn.indian_chefs.orphan_moves import propose_singleton, propose_singleton_death
from pymc_spn.indian_chefs.reputation_moves import propose_reputation
from pymc_spn.indian_chefs.sweeps import accepts
from pymc_spn.numerics.kernel_options import kernel


@kernel
def published_network_sweep(rng, state, graph_prior, network, prior, plan, number, work, repeats, tally):
    """One sweep; exact for the joint posterior, as `network_sweep.sweep`.

    Equations 13 to 16 of Dallaire et al. (2020), each ``repeats`` times at a node drawn uniformly. They change the
    edges to it, its reputation, and parents that have no other child and no parents, by birth or death. Births and
    deaths are in the form that goes with a density over reputations. A new unit has parameters and activations from
    their priors, and edges have the weights summed out. Parameters and hidden units, for which the paper refers to
    others, are drawn as in the package's own sweep.

    Parameters
    ----------
    rng, state, graph_prior, network, prior, plan, number, work, tally
        As of `network_sweep.sweep`; of the plan, walks and exchanges count.
    repeats : int
    """
    exchange_and_sum(rng, state, network, plan, number, work, tally)
    for _ in range(repeats):
        i = int(rng.random() * state.count[0])
        tally[EDGES, 0] += 1
        tally[EDGES, 1] += draw_collapsed_parents(rng, i, state, graph_prior, network, work.heat, prior, work.graph)
    redraw_parameters_and_units(rng, state, network, prior, plan, work, tally)
    for _ in range(repeats):
        up = rng.random() < 0.5
        full = state.count[0] == state.order.size
        if up:
            theta, log_ratio = propose_singleton(rng, state, graph_prior, work.graph.newborn.children)
            step = unit_birth(rng, theta, log_ratio, state, network, prior, False, work)
        else:
            unit, log_ratio = propose_singleton_death(rng, state, graph_prior)
            step = unit_death(rng, unit, log_ratio, state, network, prior, False, work)
        count_move(tally, PRIOR, up, full, step)
        i = int(rng.random() * state.count[0])
        theta, log_ratio = propose_reputation(rng, state, graph_prior, i)
        if accepts(rng, log_ratio):
            place_node(state, i, theta)
