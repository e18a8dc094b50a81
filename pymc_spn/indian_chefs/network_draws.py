"""Ancestral draws of a belief network: parameters and data given a graph, data given parameters."""

import numpy as np

from pymc_spn.indian_chefs.belief_network_schema import NONLINEAR, SIGMOID
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior


def expit(a: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-a)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * a))


def draw_parameters(
    rng: np.random.Generator, kind: str, prior: NetworkPrior, parents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (n, n), biases (n,), precisions (n,) from their priors."""
    n = len(parents)
    weights = np.where(parents, rng.normal(0.0, prior.weight_precision**-0.5, (n, n)), 0.0)
    biases = rng.normal(0.0, prior.bias_precision**-0.5, n)
    precisions = np.ones(n) if kind == SIGMOID else rng.gamma(prior.precision_shape, 1.0 / prior.precision_rate, n)
    return weights, biases, precisions


def draw_nodes(
    rng: np.random.Generator,
    kind: str,
    order: np.ndarray,
    weights: np.ndarray,
    biases: np.ndarray,
    precisions: np.ndarray,
    n_data: int,
) -> np.ndarray:
    """(n, N) outputs of all nodes: sigmoid(a), x, or binary x by the kind of network.

    Parameters
    ----------
    order : (n,) int64
        Parents before children.
    """
    outputs = np.zeros((len(biases), n_data))
    fill_nodes(rng, kind, order, weights, biases, precisions, np.empty(outputs.shape), outputs)
    return outputs


def fill_nodes(
    rng: np.random.Generator,
    kind: str,
    order: np.ndarray,
    weights: np.ndarray,
    biases: np.ndarray,
    precisions: np.ndarray,
    activations: np.ndarray,
    outputs: np.ndarray,
) -> None:
    """`draw_nodes` of the nodes in the order, in place; the others keep their outputs."""
    for i in order:
        mean = biases[i] + weights[:, i] @ outputs
        if kind == SIGMOID:
            outputs[i] = rng.random(len(mean)) < expit(mean)
            continue
        activations[i] = mean + rng.standard_normal(len(mean)) * precisions[i] ** -0.5
        outputs[i] = expit(activations[i]) if kind == NONLINEAR else activations[i]


def draw_data(rng, kind, prior, parents, reputations, n_data, n_observed):
    """(N, D) data of a network whose parameters are drawn from their priors."""
    order = np.argsort(-reputations, kind="stable")
    return draw_nodes(rng, kind, order, *draw_parameters(rng, kind, prior, parents), n_data)[:n_observed].T.copy()


def ancestral_order(weights: np.ndarray) -> np.ndarray:
    """(n,) parents before children, by the edges that have a weight."""
    left = weights != 0.0
    waiting = list(range(len(weights)))
    order = []
    while waiting:
        free = [i for i in waiting if not left[waiting, i].any()]
        order += free
        waiting = [i for i in waiting if i not in free]
    return np.array(order, np.int64)
