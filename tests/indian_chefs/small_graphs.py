"""Random graphs and hyperparameter settings that tests of the Indian chefs process share."""

import numpy as np
import pandas as pd

import pymc_spn as ps
from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import GraphState, new_state
from pymc_spn.indian_chefs.prior_density import make_prior

MIXED_BASE = (0.5, [0.0, 0.5, 1.0], [0.1, 0.25, 0.15])
LEVELS = (0.0, [0.25, 0.5, 1.0], [0.3, 0.3, 0.4])

# name: reputations of the observed nodes, NaN where free
CONFIGURATIONS = {
    "one_below": [0.0],
    "three_below": [0.0, 0.0, 0.0],
    "two_free": [np.nan, np.nan],
    "inputs_and_output": [1.0, 1.0, 0.0],
}


def observed(reputations, max_nodes=40):
    """State of observed nodes alone; NaN is free and starts at a half."""
    reputations = np.array(reputations, float)
    free = np.isnan(reputations)
    return new_state(np.where(free, 0.5, reputations), ~free, max_nodes)


def random_state(rng, reputations, prior, max_nodes=40):
    """A draw of the process."""
    state = observed(reputations, max_nodes)
    children = np.zeros(max_nodes, np.uint8)
    while not draw_graph(rng, state, prior, children):
        pass
    return state


def copy(state):
    """Independent copy."""
    return GraphState(*(a.copy() for a in state))


def many_states(n, seed=0, base=None, max_nodes=40):
    """Pairs of prior and a random state, over configurations and hyperparameters."""
    rng = np.random.default_rng(seed)
    for t in range(n):
        alpha, gamma, phi = [(1.0, 1.5, 1.0), (0.4, 2.0, 2.0), (3.0, 1.2, 0.5)][t % 3]
        reputations = list(CONFIGURATIONS.values())[t // 3 % 4]
        prior = make_prior(alpha, gamma, phi, base)
        yield prior, random_state(rng, reputations, prior, max_nodes), rng


def ring(n=40, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, n)
    return pd.DataFrame(np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(n, 2)), columns=["x", "y"])


def graph(nodes=("x", "y"), gamma=1.0, **arguments):
    settings = {"alpha": 1.0, "gamma": gamma, "phi": 1.0, "max_nodes": 10} | arguments
    return ps.IndianChefsProcess("g", observed_nodes=list(nodes), **settings)
