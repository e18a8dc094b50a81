"""Random rows from squares of sums of circuits, by rejection from the products that are added."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.packed_layout import draw_row, rows_of
from pymc_spn.numerics.kernel_options import kernel

MOST_PROPOSALS = 10_000_000


def bundle(packed: list[np.ndarray], n_weights: list[int], n_parameters: list[int]) -> np.ndarray:
    """One int64 vector of several packed circuits: how many, where layouts, weights and parameters end, the layouts.

    The parameters of all stand in another vector: log weights and leaf parameters of the first, then of the second.
    """
    ends = [np.cumsum([p.size for p in packed]), np.cumsum(n_weights), np.cumsum(n_parameters)]
    return np.concatenate([[len(packed)], *ends, *packed]).astype(np.int64)


@kernel
def part_of(bundled, theta, i):
    """Packed layout, log weights and leaf parameters of the i-th circuit."""
    n = bundled[0]
    layout, weights, leaves = 0, 0, 0
    if i > 0:
        layout, weights, leaves = bundled[i], bundled[n + i], bundled[2 * n + i]
    first = 1 + 3 * n
    begin, middle = weights + leaves, bundled[1 + n + i] + leaves
    packed = bundled[first + layout : first + bundled[1 + i]]
    return packed, theta[begin:middle], theta[middle : bundled[1 + n + i] + bundled[1 + 2 * n + i]]


@kernel
def draw_row_of_squares(rng, coefficients, circuits, theta, signed, products, theta_of_products):
    """One random row (D,).

    Parameters
    ----------
    coefficients : (J, K) float64
    circuits, products : int64
        Bundles of the K circuits, and of their normalised products: first with first, first with second, and so on.
    theta, theta_of_products : float64
        Their parameters.
    signed : (K (K + 1) / 2,) float64
        Weights of the products; some are negative.

    Raises
    ------
    RuntimeError
        If no proposal of very many is accepted, as where parameters do not belong to a circuit, or weights are not
        numbers.
    """
    n = circuits[0]
    added = 0.0
    for m in range(signed.size):
        added += max(signed[m], 0.0)
    if not signed.sum() < math.inf:  # nothing is left of the coefficients, or an integral is infinite
        raise RuntimeError(
            "a sum of squares of circuits: nothing can be drawn, its integral is 0, infinite or not a number"
        )
    logs = np.empty(n)
    for _ in range(MOST_PROPOSALS):
        left, chosen = rng.random() * added, 0
        for m in range(signed.size):
            if signed[m] > 0.0:
                chosen = m  # what rounding leaves goes to the last
                left -= signed[m]
                if left < 0.0:
                    break
        packed, log_weights, leaves = part_of(products, theta_of_products, chosen)
        x = draw_row(rng, packed, log_weights, leaves).reshape(1, -1)
        for k in range(n):
            packed, log_weights, leaves = part_of(circuits, theta, k)
            logs[k] = rows_of(packed, x, log_weights, leaves)[0]
        top = logs.max()
        total, positive = 0.0, 0.0
        for k in range(n):
            for m in range(k, n):
                term = 0.0
                for j in range(coefficients.shape[0]):
                    term += coefficients[j, k] * coefficients[j, m]
                term *= math.exp(logs[k] - top) * math.exp(logs[m] - top) * (1.0 if k == m else 2.0)
                total += term
                positive += max(term, 0.0)
        if rng.random() * positive < total:
            return x[0]
    raise RuntimeError(
        "a sum of squares of circuits: no proposal was accepted, since its coefficients nearly cancel each other"
    )
