"""Leaf predictives of drawn trees, their averages over trees, and what is left when a row is taken out."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from pymc_spn.numerics.threads import for_each, parts_of_rows
from pymc_spn.trees.forest_kernels import average_leaves, leaf_of_rows
from pymc_spn.trees.leaf_kernels import CLASSES, NORMAL, SPREAD
from pymc_spn.trees.leaves import log_marginals, normal_posterior

if TYPE_CHECKING:
    from pymc_spn.trees.draws import TreeDraws

NO_RESPONSE = np.empty(0)
VISITS = 1 << 17  # of trees by rows, that a thread makes at a time: some 10 milliseconds
SMALLEST = 1e-290  # densities below are averaged in logs
LOG_SMALLEST = np.log(SMALLEST)


def class_masses(draws: "TreeDraws") -> np.ndarray:
    """(T, K) prior masses of the classes under each tree's parameters."""
    if draws.family.family == "binary":
        return draws.parameters[:, ::-1]
    n_classes = draws.response.n_statistics
    return np.repeat(draws.parameters[:, :1] / n_classes, n_classes, axis=1)


def normal_terms(draws: "TreeDraws", size: np.ndarray, statistics: np.ndarray, tree: np.ndarray) -> tuple:
    """Posterior mu, kappa, a, b (n,) of normal leaves; mu on the scale of the data."""
    mu, *others = normal_posterior(centred_parameters(draws, tree), size, *mean_and_scatter(size, statistics))
    return mu + draws.centre, *others


def centred_parameters(draws: "TreeDraws", tree: np.ndarray) -> np.ndarray:
    """(4, n) prior of normal leaves for the centred response, under each tree's parameters."""
    return draws.parameters[tree].T - np.array([draws.centre, 0.0, 0.0, 0.0])[:, None]


def mean_and_scatter(size: np.ndarray, statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) means and sums of squares about them of centred real responses, from the sums of these and their squares."""
    mean = statistics[:, 0] / np.maximum(size, 1)
    return mean, np.maximum(statistics[:, 1] - statistics[:, 0] * mean, 0.0)


def node_log_marginals(draws: "TreeDraws") -> np.ndarray:
    """(n,) log marginal likelihood of every node as a leaf, by arrays over all trees."""
    n, s, tree = draws.nodes.size, draws.nodes.statistics, draws.tree_of_node
    if draws.family.kernel == CLASSES:
        parameters = class_masses(draws)[tree]
    elif draws.family.kernel == NORMAL:
        parameters, s = centred_parameters(draws, tree), np.column_stack(mean_and_scatter(n, s))
    else:
        parameters = draws.parameters[tree].T
    return log_marginals(draws.family.kernel, parameters, n, s)


def density_terms(draws: "TreeDraws", size: np.ndarray, statistics: np.ndarray, tree: np.ndarray) -> np.ndarray:
    """(n, 4) terms of `leaf_density` for real values and counts."""
    if draws.family.kernel == NORMAL:
        mu, kappa, a, b = normal_terms(draws, size, statistics, tree)
        scale = np.sqrt(b * (kappa + 1.0) / (a * kappa))
        constant = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(2.0 * a * np.pi) - np.log(scale)
        return np.column_stack([2.0 * a, mu, scale, constant])
    shape, rate = draws.parameters[tree].T
    zeros = np.zeros(len(size))
    return np.column_stack([shape + statistics[:, 0], rate + size, zeros, zeros])


def class_payload(draws: "TreeDraws") -> np.ndarray:
    """(n, K) predictive probabilities of every node."""
    masses = class_masses(draws)[draws.tree_of_node]
    counts = draws.nodes.statistics + masses
    return counts / counts.sum(1, keepdims=True)


def moment_payload(draws: "TreeDraws", origin: float = 0.0) -> np.ndarray:
    """(n, 2) predictive mean of every node about an origin, and variance; infinite where a Student t has none.

    Means are averaged, so an origin amid the responses keeps what a large common part of them would round away.
    """
    n, s, tree = draws.nodes.size, draws.nodes.statistics, draws.tree_of_node
    if draws.levels is not None:  # numbers
        p, levels = class_payload(draws), np.array(draws.levels, np.float64) - origin
        mean = p @ levels
        return np.column_stack([mean, (p * (levels - mean[:, None]) ** 2).sum(axis=1)])
    if draws.family.kernel == NORMAL:
        mu, kappa, a, b = normal_terms(draws, n, s, tree)
        variance = np.where(a > 1.0, b * (kappa + 1.0) / (np.maximum(a - 1.0, 1e-300) * kappa), np.inf)
        return np.column_stack([mu - origin, variance])
    shape, rate = draws.parameters[tree].T
    mean = (shape + s[:, 0]) / (rate + n)
    return np.column_stack([mean - origin, mean + mean / (rate + n)])


def average(
    draws: "TreeDraws",
    weights: np.ndarray,
    values: np.ndarray,
    soft: bool,
    payload: np.ndarray,
    y: np.ndarray = NO_RESPONSE,
    family: int = SPREAD,
) -> np.ndarray:
    """(m, p) average of a payload of the nodes; or (m, 1), of mean squares about (m,) numbers or densities of them."""
    out = np.empty((len(values), 1 if y.size else payload.shape[1]))

    def ask(rows: slice) -> None:
        average_leaves(draws.flat, weights, values[rows], soft, payload, family, y[rows], out[rows])

    for_each(ask, parts_of_rows(len(values), max(VISITS // max(weights.size, 1), 1)))
    return out


def log_predictive_density(
    draws: "TreeDraws", weights: np.ndarray, values: np.ndarray, soft: bool, y: np.ndarray
) -> np.ndarray:
    """(m,) log density or mass of the coded response at new rows, averaged over the trees."""
    if draws.family.kernel == CLASSES:
        probabilities = average(draws, weights, values, soft, class_payload(draws))
        return np.log(probabilities[np.arange(len(y)), y.astype(np.int64)])
    terms = density_terms(draws, draws.nodes.size, draws.nodes.statistics, draws.tree_of_node)
    out = average(draws, weights, values, soft, terms, y.astype(np.float64), draws.family.kernel)
    found = np.log(np.maximum(out[:, 0], SMALLEST))
    for i in np.flatnonzero(out[:, 0] <= SMALLEST):
        found[i] = _log_average(draws, weights, values[i : i + 1], soft, leaf_log_density(draws, terms, y[i]))
    return found


def _log_average(
    draws: "TreeDraws", weights: np.ndarray, row: np.ndarray, soft: bool, log_density: np.ndarray
) -> float:
    """Log of the average of densities that underflow, by the largest of them that belongs to a leaf of the row."""
    left = np.where(draws.decisions[:, 0] < 0, log_density, -np.inf)
    while (top := left.max()) > -np.inf:
        share = average(draws, weights, row, soft, np.exp(left - top)[:, None])[0, 0]
        if share > 0.0:
            return float(np.log(share) + top)
        left = np.where(left < top + LOG_SMALLEST, left, -np.inf)
    return -np.inf


def leaf_log_density(draws: "TreeDraws", terms: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,) logs of `forest_kernels.leaf_density`, by arrays."""
    if draws.family.kernel == NORMAL:
        degrees, location, scale, constant = terms.T
        with np.errstate(divide="ignore"):
            log_square = 2.0 * (np.log(np.abs(y - location)) - np.log(scale))
        return constant - 0.5 * (degrees + 1.0) * np.logaddexp(0.0, log_square - np.log(degrees))
    a, b = terms[:, 0], terms[:, 1]
    return gammaln(a + y) - gammaln(a) - gammaln(y + 1.0) + a * np.log(b / (b + 1.0)) - y * np.log(b + 1.0)


def log_leave_one_out(draws: "TreeDraws", tree: int) -> np.ndarray:
    """(N,) log predictive density of every training row in one tree without that row, the tree given."""
    place = training_leaves(draws, tree)
    size, statistics = draws.nodes.size[place] - 1, draws.nodes.statistics[place].copy()
    rows = np.arange(len(place))
    if draws.family.kernel == CLASSES:
        label = draws.response.label
        statistics[rows, label] -= 1.0
        counts = statistics + class_masses(draws)[tree]
        return np.log(counts[rows, label] / counts.sum(1))
    statistics[:, 0] -= draws.response.first
    statistics[:, 1] -= draws.response.second
    terms = density_terms(draws, size, statistics, np.full(len(place), tree))
    return leaf_log_density(draws, terms, draws.y)


def training_leaves(draws: "TreeDraws", tree: int) -> np.ndarray:
    """(N,) node that holds each training row."""
    out = np.empty(len(draws.y), np.int64)
    leaf_of_rows(draws.flat, tree, draws.features.values, out)
    return out
