"""Where `fit_em` begins: random weights, and leaves near rows."""

import numpy as np

from pymc_spn.circuits.evaluation.leaf_updates import WITH_A_SCALE, Pooled, of_mean, possible
from pymc_spn.circuits.structures.circuit import Circuit


def random_start(
    circuit: Circuit, values: np.ndarray, pooled: dict[str, Pooled], rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Log weights and leaf parameters; the i-th leaves of all columns look at the same row."""
    weights = rng.standard_exponential(circuit.n_sum_edges)
    total = np.bincount(circuit.edge_sum, weights=weights, minlength=circuit.n_nodes)
    rows = rng.permutation(len(values))
    leaves = circuit.leaves
    order = np.argsort(circuit.leaf_column[leaves], kind="stable")
    of_column = np.bincount(circuit.leaf_column[leaves], minlength=len(circuit.columns))
    rank = np.empty(leaves.size, np.int64)
    rank[order] = np.concatenate([np.arange(n) for n in of_column])
    cell = np.full(circuit.n_nodes, np.nan)
    cell[leaves] = values[rows[rank % len(values)], circuit.leaf_column[leaves]]
    parameters = {name: _near(name, cell[circuit.leaves_of(name)], at) for name, at in pooled.items()}
    return np.log(weights / total[circuit.edge_sum]), parameters


def _near(family: str, cell: np.ndarray, pooled: Pooled) -> np.ndarray:
    """Leaves (n, p) between the columns' averages and these cells; at the averages where there is no possible cell."""
    usable = possible(family, cell)
    if family == "categorical":
        at_cell = np.arange(pooled.levels.shape[1]) == np.where(usable, cell, 0)[:, None]
        return np.where(usable[:, None], 0.5 * (pooled.levels + at_cell), pooled.levels)
    if family in WITH_A_SCALE:
        u = np.log(np.where(usable, cell, 1.0)) if family == "log_normal" else cell
        return of_mean(family, np.where(usable, u, pooled.mean), pooled.variance)
    mean = np.where(usable, 0.5 * (pooled.mean + cell), pooled.mean)
    if family == "gamma":  # at the column's shape
        shape = of_mean(family, pooled.mean, pooled.variance)[:, 0]
        return np.column_stack([shape, shape / mean])
    return of_mean(family, mean, pooled.variance)
