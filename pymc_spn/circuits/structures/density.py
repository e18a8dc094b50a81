"""Plain evaluation of an explicit circuit, level by level in log space, rows in blocks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.leaves.families import FAMILIES
from pymc_spn.circuits.structures.circuit import PRODUCT, SUM, Circuit

BLOCK_VALUES = 2_000_000  # node values held at a time (16 MB)
WEIGHT_TOLERANCE = 1e-6  # how far the weights of a sum may be from adding up to 1


def log_density(
    circuit: Circuit, values: np.ndarray, log_weights: np.ndarray, leaf_parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    """See `Circuit.log_density`."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(circuit.columns):
        raise ValueError(f"values must have shape (rows, {len(circuit.columns)}), got {values.shape}")
    log_weights = _checked_weights(circuit, log_weights)
    parameters = _checked_parameters(circuit, leaf_parameters)
    edge_weight = np.zeros(circuit.n_edges)
    edge_weight[circuit.kind[np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))] == SUM] = log_weights
    result = np.empty(values.shape[0])
    block = max(1, BLOCK_VALUES // circuit.n_nodes)
    for start in range(0, values.shape[0], block):
        rows = slice(start, start + block)
        result[rows] = _evaluate(circuit, values[rows], edge_weight, parameters)
    return result


def _evaluate(
    circuit: Circuit, values: np.ndarray, edge_weight: np.ndarray, parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    out = np.empty((circuit.n_nodes, values.shape[0]))
    for name, given in parameters.items():
        leaves = circuit.leaves_of(name)
        x = values[:, circuit.leaf_column[leaves]].T  # (n_leaves, rows)
        missing = np.isnan(x)
        density = FAMILIES[name].leaf_log_density(given[:, None, :], np.where(missing, 0.0, x))
        out[leaves] = np.where(missing, 0.0, density)
    if circuit.leaf_support is not None:
        _check_support(circuit, values, out)
    for kind, nodes, edges, starts in circuit.steps():
        below = out[circuit.children[edges]]
        if kind == PRODUCT:
            out[nodes] = np.add.reduceat(below, starts, axis=0)
            continue
        below += edge_weight[edges, None]
        top = np.maximum.reduceat(below, starts, axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        degree = np.diff(np.append(starts, edges.size))
        total = np.add.reduceat(np.exp(below - np.repeat(shift, degree, axis=0)), starts, axis=0)
        with np.errstate(divide="ignore"):  # log 0 = -inf is the answer where no child has density
            out[nodes] = shift + np.log(total)
    return out[0]


def _checked_weights(circuit: Circuit, log_weights: np.ndarray) -> np.ndarray:
    log_weights = np.asarray(log_weights, dtype=np.float64)
    if log_weights.shape != (circuit.n_sum_edges,):
        raise ValueError(f"log_weights must have shape ({circuit.n_sum_edges},), got {log_weights.shape}")
    wrong = np.isnan(log_weights) | (log_weights > WEIGHT_TOLERANCE)
    if np.any(wrong):
        e = int(np.argmax(wrong))
        raise ValueError(
            f"log_weights must be at most 0, got {log_weights[e]} at entry {e}, of sum {circuit.edge_sum[e]}"
        )
    total = np.bincount(circuit.edge_sum, weights=np.exp(log_weights), minlength=circuit.n_nodes)
    wrong = (circuit.kind == SUM) & (np.abs(total - 1.0) > WEIGHT_TOLERANCE)
    if np.any(wrong):
        s = int(np.argmax(wrong))
        raise ValueError(f"weights of each sum must add up to 1, got {total[s]} at sum {s}")
    return log_weights


def _checked_parameters(circuit: Circuit, leaf_parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    used = [f for i, f in enumerate(circuit.families) if np.any(circuit.leaf_family == i)]
    for name in leaf_parameters:
        if name not in circuit.families:
            raise ValueError(f"leaf_parameters must be given for {tuple(used)}, got {name!r}")
    result = {}
    for name in used:
        if name not in leaf_parameters:
            raise ValueError(f"leaf_parameters must be given for {tuple(used)}, {name!r} is missing")
        given = np.asarray(leaf_parameters[name], dtype=np.float64)
        leaves = circuit.leaves_of(name)
        if given.ndim != 2 or given.shape[0] != leaves.size:
            raise ValueError(f"leaf_parameters[{name!r}] must have shape ({leaves.size}, p), got {given.shape}")
        problem = FAMILIES[name].parameter_problem(given)
        if problem is not None:
            row, rule = problem
            raise ValueError(
                f"leaf_parameters[{name!r}]: {rule}, got {given[row].tolist()} at row {row}, "
                f"leaf {leaves[row]} of {circuit.names[circuit.leaf_column[leaves[row]]]!r}"
            )
        result[name] = given
    return result


def _check_support(circuit: Circuit, values: np.ndarray, out: np.ndarray) -> None:
    supports: Sequence[Any] = circuit.leaf_support or ()
    for leaf, support in zip(circuit.leaves.tolist(), supports, strict=True):
        if support is None:
            continue
        x = values[:, circuit.leaf_column[leaf]]
        if isinstance(support, int):
            inside = np.array([v >= 0 and v == int(v) and bool(support >> int(v) & 1) for v in np.nan_to_num(x)])
        else:
            inside = (x >= support[0]) & (x <= support[1])
        wrong = ~inside & ~np.isnan(x) & (out[leaf] > -np.inf)
        if np.any(wrong):
            raise ValueError(
                f"leaf_parameters contradict leaf_support: leaf {leaf} of "
                f"{circuit.names[circuit.leaf_column[leaf]]!r} has positive density at "
                f"{x[int(np.argmax(wrong))]}"
            )
