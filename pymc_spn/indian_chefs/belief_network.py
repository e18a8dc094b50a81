"""The parameters and activations of a belief network, to go with the arrays of its graph."""

from typing import NamedTuple

import numpy as np


class BeliefNetwork(NamedTuple):
    """State of one nonlinear Gaussian belief network; a row for each node slot, observed nodes first.

    Parameters
    ----------
    parents : (K, K) uint8
        ``parents[k, i]`` is 1 where k is a parent of i; the array of the graph's state itself.
    weights : (K, K) float64
        Like `parents`; 0 where there is no edge.
    biases, precisions : (K,) float64
    activations, outputs, residuals : (K, N) float64
        a, sigmoid(a), and a minus its mean given the parents.
    """

    parents: np.ndarray
    weights: np.ndarray
    biases: np.ndarray
    precisions: np.ndarray
    activations: np.ndarray
    outputs: np.ndarray
    residuals: np.ndarray


def empty_network(parents: np.ndarray, n_data: int) -> BeliefNetwork:
    """A network without weights round the parents of a graph's state."""
    k = len(parents)
    return BeliefNetwork(parents, np.zeros((k, k)), np.zeros(k), np.ones(k), *(np.zeros((k, n_data)) for _ in range(3)))
