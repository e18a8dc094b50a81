"""Log densities of rows as a function that JAX compiles, differentiates and vectorises.

All in logs, with one array operation for the nodes of a layer. Sums over the same children share the exponentials:
weights times values divided by the largest child are a matrix product (Peharz, R. et al. (2020). Einsum networks.
ICML). Where that underflows, the layer runs edge by edge.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pymc_spn.circuits.evaluation.jax_leaves import (
    ReadValues,
    are_within_bounds,
    leaf_log_densities,
    log_of_zero,
    read,
)
from pymc_spn.circuits.evaluation.layers import Layer, layers_of
from pymc_spn.circuits.evaluation.leaf_forms import READING
from pymc_spn.circuits.evaluation.packed_layout import HEADER, TOLERANCE
from pymc_spn.circuits.evaluation.tape import SUM, Layout


def log_densities_in_jax(packed: np.ndarray) -> Callable[[Any, Any, Any], Any]:
    """Function of values (N, D), log weights (E,) and leaf parameters (P,) that returns log densities (N,).

    As `packed_layout.rows_of`: ``-inf`` for all rows if the parameters are none of a circuit. Such rows, and rows of
    density zero, add no gradient.
    """
    *arrays, begin, width = np.split(packed[HEADER:], packed[1 : HEADER - 1])
    layout = Layout(*arrays)
    blocks, layers = layers_of(layout)

    def log_densities(values: Any, log_weights: Any, theta: Any) -> Any:
        zero = log_of_zero(values.dtype)
        families = []
        is_valid = are_normalised(layout, log_weights)
        for leaves in blocks:
            f = layout.leaf_family[leaves[0]]
            own = theta[begin[f] : begin[f] + leaves.size * width[f]].reshape(leaves.size, width[f])
            is_valid &= are_within_bounds(layout.leaf_code[leaves[0]], own)
            families.append(own[layout.leaf_row[leaves]])
        log_weights = jnp.maximum(jnp.where(is_valid, log_weights, 0.0), zero)
        cells = read_columns(layout, values)
        logs = []
        for leaves, own in zip(blocks, families, strict=True):
            code = layout.leaf_code[leaves[0]]
            own = jnp.where(is_valid, own, np.linspace(0.25, 0.75, own.shape[1]))  # parameters that harm no family
            logs.append(leaf_log_densities(code, own, cells_of(layout, leaves, cells)))
        for layer in layers:
            logs.append(layer_logs(layer, logs, log_weights))
        root = logs[-1][0]
        return jnp.where(is_valid & (root > 0.5 * zero), root, -math.inf)

    return log_densities


def are_normalised(layout: Layout, log_weights: Any) -> Any:
    """Whether the weights of each sum add up to one."""
    owner = np.repeat(np.arange(layout.kind.size), np.diff(layout.child_ptr))
    is_weighted = layout.kind[owner] == SUM
    total = jnp.zeros(layout.kind.size, log_weights.dtype)
    total = total.at[owner[is_weighted]].add(jnp.exp(log_weights[layout.edge_weight[is_weighted]]))
    return (jnp.abs(total[layout.kind == SUM] - 1.0) < TOLERANCE).all()


def read_columns(layout: Layout, values: Any) -> dict[int, ReadValues]:
    """Cells of each reading, in the order of the layout's inputs."""
    x = values.T
    readings = np.unique(layout.input_reading).tolist()
    return {r: read(x[layout.input_column[layout.input_reading == r]], r) for r in readings}


def cells_of(layout: Layout, leaves: np.ndarray, cells: dict[int, ReadValues]) -> ReadValues:
    """Cells (L, N) of leaves of one family."""
    reading = int(READING[layout.leaf_code[leaves[0]]])
    at = np.searchsorted(np.flatnonzero(layout.input_reading == reading), layout.leaf_input[leaves])
    return ReadValues(*(rows_at(a, at) for a in cells[reading]))


def rows_at(x: Any, at: np.ndarray) -> Any:
    """Rows of a matrix; a slice, which costs nothing, where they lie side by side."""
    first = at.flat[0]
    if np.array_equal(at.ravel(), first + np.arange(at.size)):
        return x[first : first + at.size].reshape(*at.shape, x.shape[1])
    return x[at]


def layer_logs(layer: Layer, logs: list[Any], log_weights: Any) -> Any:
    """Logs of a layer's nodes (R S, N) from the blocks below."""
    sources = [logs[s] for s in layer.sources]
    below = rows_at(sources[0] if len(sources) == 1 else jnp.concatenate(sources), layer.child)  # (R, K, N)
    if layer.edge.min() < 0:
        return jnp.where(layer.is_child[:, :, None], below, 0.0).sum(axis=1)
    zero = log_of_zero(below.dtype)
    weights = jnp.where(layer.is_child[:, None, :], log_weights[layer.edge], zero)
    found = by_edges(below, weights) if layer.edge.shape[1] == 1 else by_regions(below, weights)
    return found.reshape(-1, below.shape[2])


def by_edges(below: Any, log_weights: Any) -> Any:
    """Sums (R, S, N) of children (R, K, N) with weights (R, S, K), all in logs: an exponential for each edge."""
    terms = below[:, None] + log_weights[..., None]
    top = jax.lax.stop_gradient(terms.max(axis=2))
    return top + jnp.log(jnp.exp(terms - top[:, :, None]).sum(axis=2))


def by_regions(below: Any, log_weights: Any) -> Any:
    """As `by_edges`, with an exponential for each child."""
    smallest = jnp.finfo(below.dtype).tiny / jnp.finfo(below.dtype).eps  # above it, no term that counts is lost
    top = jax.lax.stop_gradient(below.max(axis=1, keepdims=True))
    mass = jnp.einsum("rsk,rkn->rsn", jnp.exp(log_weights), jnp.exp(below - top), precision=jax.lax.Precision.HIGHEST)
    is_lost = mass < smallest
    mass = jnp.where(is_lost, 1.0, mass)
    # Without `checkpoint` the terms of all edges would be kept for the way back, also where they are not worked out.
    exact = jax.checkpoint(by_edges)
    return jax.lax.cond(is_lost.any(), exact, lambda *_: top + jnp.log(mass), below, log_weights)
