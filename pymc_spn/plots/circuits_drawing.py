"""Drawing of a small explicit circuit, level by level."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from pymc_spn.circuits.structures.circuit import LEAF, SUM, Circuit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NODES = 400
SYMBOL = {0: "+", 1: "×"}
COLOUR = {0: "#4c72b0", 1: "#dd8452", 2: "#ffffff"}


def plot_circuit(circuit: Circuit, log_weights: npt.ArrayLike | None = None, ax: "Axes | None" = None) -> Any:
    """The graph of a circuit: sums blue, products orange, leaves with the name of their column.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) array, optional
        Edges below sums are drawn as thick as their weight.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        If it is no `Circuit`.
    ValueError
        If the circuit has more than 400 nodes, or `log_weights` another shape.

    Examples
    --------
    >>> ax = ps.plots.plot_circuit(law.circuit, law.log_weights)
    """
    if not isinstance(circuit, Circuit):
        has_one = isinstance(getattr(circuit, "circuit", None), Circuit)
        hint = "; draw its .circuit and .log_weights" if has_one else ""
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}{hint}")
    if circuit.n_nodes > MOST_NODES:
        raise ValueError(f"circuit must have at most {MOST_NODES} nodes to be drawn, got {circuit.n_nodes}")
    depth = np.zeros(circuit.n_nodes, np.int64)
    for node in range(circuit.n_nodes):
        below = circuit.children_of(node)
        depth[below] = np.maximum(depth[below], depth[node] + 1)
    x = _across(circuit)
    width = np.full(circuit.n_edges, 0.8)
    if log_weights is not None:
        log_weights = np.asarray(log_weights, float)
        if log_weights.shape != (circuit.n_sum_edges,):
            raise ValueError(f"log_weights must have shape ({circuit.n_sum_edges},), got {log_weights.shape}")
        owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
        width[circuit.kind[owner] == SUM] = 0.3 + 3.5 * np.exp(log_weights)
    n_leaf = circuit.n_leaf
    if ax is None:
        _, ax = plt.subplots(figsize=(min(16, 2 + 0.45 * n_leaf), 1.2 + 0.9 * depth.max()), layout="constrained")
    for node in range(circuit.n_nodes):
        for e in range(circuit.child_ptr[node], circuit.child_ptr[node + 1]):
            child = circuit.children[e]
            ax.plot(x[[node, child]], -depth[[node, child]], color="0.6", lw=width[e], zorder=1)
    for node, kind in enumerate(circuit.kind.tolist()):
        ax.scatter(x[node], -depth[node], s=170, color=COLOUR[kind], edgecolor="0.3", zorder=2)
        if kind != LEAF:
            ax.text(x[node], -depth[node], SYMBOL[kind], ha="center", va="center", color="white", zorder=3)
            continue
        name = ", ".join(circuit.names[d] for d in circuit.columns_of(node))
        ax.text(x[node], -depth[node] - 0.22, name, ha="center", va="top", rotation=90, fontsize="small")
    ax.set_ylim(-depth.max() - 0.6 - 0.09 * max(map(len, circuit.names)), 0.5)
    ax.set_xlim(-0.8, n_leaf - 0.2)
    ax.axis("off")
    return ax


def _across(circuit: Circuit) -> np.ndarray:
    """Leaves side by side in depth-first order, other nodes above the middle of their children."""
    x = np.full(circuit.n_nodes, np.nan)
    following = 0
    stack = [(0, False)]
    while stack:
        node, is_done = stack.pop()
        if circuit.kind[node] == LEAF:
            if np.isnan(x[node]):
                x[node] = following
                following += 1
        elif is_done:
            x[node] = x[circuit.children_of(node)].mean()
        elif np.isnan(x[node]):
            stack.append((node, True))
            stack += [(int(c), False) for c in circuit.children_of(node)[::-1]]
    return x
