"""Circuits with parameters below one sum or product: their nodes one after the other, families and columns by name."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF


class Part(NamedTuple):
    """A circuit with its parameters, in the order in which `ParameterisedCircuit` takes them."""

    circuit: Any
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]


def joined(kind: int, parts: list[Part], columns: tuple[Any, ...], log_shares: np.ndarray) -> Part:
    """A node of this kind above all parts, whose nodes follow each other."""
    circuits = [part.circuit for part in parts]
    names = [column if isinstance(column, str) else column.name for column in columns]
    families = tuple(dict.fromkeys(family for circuit in circuits for family in circuit.families))
    sizes = np.array([circuit.n_nodes for circuit in circuits])
    roots = 1 + np.cumsum(sizes) - sizes
    nodes: dict[str, list[np.ndarray]] = {"kind": [], "degree": [], "column": [], "family": []}
    further: dict[int, list[int]] = {}
    for circuit, root in zip(circuits, roots.tolist(), strict=True):
        is_leaf = circuit.kind == LEAF
        position = np.array([names.index(name) for name in circuit.names])
        further |= {root + v: position[list(own)].tolist() for v, own in circuit.further_columns.items()}
        code = np.array([families.index(family) for family in circuit.families], np.int64)
        nodes["kind"].append(circuit.kind)
        nodes["degree"].append(np.diff(circuit.child_ptr))
        nodes["column"].append(np.where(is_leaf, position[circuit.leaf_column], -1))
        nodes["family"].append(np.where(is_leaf, code[circuit.leaf_family], -1))
    composed = replace(
        circuits[0],
        kind=np.concatenate([[kind], *nodes["kind"]]),
        child_ptr=np.cumsum(np.concatenate([[0, len(parts)], *nodes["degree"]])),
        children=np.concatenate([roots, *(c.children + root for c, root in zip(circuits, roots, strict=True))]),
        leaf_column=np.concatenate([[-1], *nodes["column"]]),
        leaf_family=np.concatenate([[-1], *nodes["family"]]),
        families=families,
        columns=columns,
        further_columns=further,
    )
    # edges of sums and leaves of a family are counted in the order of the nodes: part after part
    log_weights = np.concatenate([log_shares, *(part.log_weights for part in parts)])
    rows = {f: [part.leaf_parameters[f] for part in parts if f in part.leaf_parameters] for f in families}
    leaf_parameters = {f: stacked(own) for f, own in rows.items() if own}
    return Part(composed, log_weights, leaf_parameters)


def stacked(rows: list[np.ndarray]) -> np.ndarray:
    """Rows (n, p) one below the other; probabilities of fewer levels go on with 0."""
    width = max(own.shape[1] for own in rows)
    if all(own.shape[1] == width for own in rows):
        return np.vstack(rows)
    return np.vstack([np.pad(own, ((0, 0), (0, width - own.shape[1]))) for own in rows])
