"""Posterior objects of belief networks that are made by hand."""

import numpy as np

from pymc_spn.indian_chefs.belief_network_posterior import BeliefNetworkPosterior, NLGBNPosterior
from pymc_spn.indian_chefs.belief_network_schema import NONLINEAR, BeliefNetworkSchema, pack_parameters


class Labels:
    """What questions about rows read of the graphs."""

    def __init__(self, n_chains, n_draws):
        self.chains, self.draws = np.arange(n_chains), np.arange(n_draws)


def handmade(weights, biases, precisions, kind, max_nodes=5):
    """A posterior object of one network with the columns x and y."""
    return of_networks([[(weights, biases, precisions)]], kind, max_nodes=max_nodes)


def of_networks(chains, kind, columns=("x", "y"), scaling=None, max_nodes=5):
    """A posterior object of networks (weights, biases, precisions), a list of them for each chain."""
    schema = BeliefNetworkSchema("data", "g", kind, columns, {}, scaling, max_nodes)
    record = np.array([[pack_parameters(*map(np.array, network), max_nodes) for network in chain] for chain in chains])
    family = NLGBNPosterior if kind == NONLINEAR else BeliefNetworkPosterior
    return family(schema, record, Labels(*record.shape[:2]), None)
