"""Where `fit_em` begins: at what the user gives, else at random weights and leaves near rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.leaf_updates import IN_PART, Pooled, needs_a_start, possible
from pymc_spn.circuits.evaluation.parameters import checked_family, checked_weights, families_in_use
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.numerics.quoted_values import quoted


def checked_start(
    circuit: Circuit, start: Any, learn_ends: bool = False
) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
    """What the user gives: log weights or None, and leaf parameters of some families.

    Among these are those that rows do not tell. Of these, uniform leaves whose ends are learned may be left out.
    """
    if start is None:
        start = None, {}
    if not isinstance(start, tuple) or len(start) != 2 or not isinstance(start[1], Mapping):
        raise TypeError(f"start must be a tuple of log_weights and leaf_parameters, a dict; got {quoted(start)}")
    log_weights, given = start
    used = families_in_use(circuit)
    for name in given:
        if name not in used:
            raise ValueError(f"start: leaf_parameters must be of {tuple(used)}, got {quoted(name)}")
    for name in used:
        if needs_a_start(name) and name not in given and not (name == "uniform" and learn_ends):
            what = f"of which fit_em keeps {IN_PART[name]}" if name in IN_PART else "which fit_em keeps"
            raise ValueError(
                f"start must give leaf_parameters[{name!r}], {what}: start=(None, "
                f"{{{name!r}: rows}}) leaves the others to chance"
                f"{', and learn_ends=True learns the ends' if name == 'uniform' else ''}"
            )
    return (
        None if log_weights is None else checked_weights(circuit, log_weights),
        {name: checked_family(circuit, name, own) for name, own in given.items()},
    )


def random_start(
    circuit: Circuit,
    values: np.ndarray,
    pooled: dict[str, Pooled],
    given: tuple[np.ndarray | None, dict[str, np.ndarray]],
    rng: np.random.Generator,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Log weights and leaf parameters where none are given; the i-th leaves of all columns look at the same row."""
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
    log_weights, own = given
    near = {name: _near(name, cell[circuit.leaves_of(name)], at) for name, at in pooled.items() if name not in own}
    begin = np.log(weights / total[circuit.edge_sum]) if log_weights is None else log_weights, near | own
    if "uniform" in near:
        whole = np.column_stack(pooled["uniform"][:2])
        is_first = np.isin(circuit.leaves_of("uniform"), leaves[rank == 0])
        near["uniform"][is_first] = whole[is_first]
        begin = begin[0], near | own
        if np.any(np.isneginf(Parameterised(circuit, *begin).log_density(values))):
            begin = begin[0], near | own | {"uniform": whole}
    return begin


def _near(family: str, cell: np.ndarray, pooled: Pooled) -> np.ndarray:
    """Leaves (n, p) between the columns' averages and these cells; at the averages where there is no possible cell."""
    usable = possible(family, cell)
    fit = EXPLICIT[family].fit
    if fit is None:
        at_cell = np.arange(pooled.levels.shape[1]) == np.where(usable, cell, 0)[:, None]
        return np.where(usable[:, None], 0.5 * (pooled.levels + at_cell), pooled.levels)
    return fit.near(cell, usable, pooled.mean, pooled.variance)
