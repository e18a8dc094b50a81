"""The most probable completion of a row by an explicit circuit: best induced trees and what they are worth."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, SUM
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.parameters import families_in_use
from pymc_spn.laws.law import BestTrees
from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.leaf_peaks import ColumnRange, largest_of_leaves

TREES = 64  # below the best children of the root
RANDOM_TREES = 32
DRAWS = 8  # of leaves whose modes are not known, from which the densest is taken


def best_trees_of(given: Parameterised, row: np.ndarray, within: Sequence[ColumnRange | None]) -> BestTrees:
    """Induced trees of a circuit given the points of a row (D,), and a bound on the log density with them.

    A leaf counts with its largest density. Sums stay sums, so the value of the root bounds that of every completion.
    There is no bound if some leaf's mode is not known. A tree is the best one below a child of the root, or takes
    children at random by their values.

    Parameters
    ----------
    within : sequence of ColumnRange or None
        Of each column that is asked; None of columns with a point.
    """
    circuit = given.circuit
    value, modes, is_bound = _largest_leaves(given, row, within)
    edge = np.cumsum(np.where(circuit.kind == SUM, np.diff(circuit.child_ptr), 0))

    def weighed(i: int, children: np.ndarray) -> np.ndarray:
        return value[children] + given.log_weights[edge[i] - children.size : edge[i]]

    for i in np.flatnonzero(circuit.kind != LEAF)[::-1].tolist():
        children = circuit.children_of(i)
        value[i] = np.logaddexp.reduce(weighed(i, children)) if circuit.kind[i] == SUM else value[children].sum()

    def tree(top: int, rng: np.random.Generator | None) -> np.ndarray:
        out, waiting = row.copy(), [top]
        while waiting:
            i = waiting.pop()
            children = circuit.children_of(i)
            if circuit.kind[i] == LEAF:
                out[list(circuit.columns_of(i))] = modes[i]
            elif circuit.kind[i] == SUM:
                logs = weighed(i, children)
                logs = logs if rng is None else logs + rng.gumbel(size=logs.size)
                waiting.append(int(children[np.argmax(logs)]))
            else:
                waiting += children.tolist()
        return out

    tops = np.zeros(1, np.int64)
    if circuit.kind[0] == SUM:
        children = circuit.children_of(0)
        tops = children[np.argsort(-weighed(0, children), kind="stable")]
    rng = np.random.default_rng(0)  # the same for everyone
    rows = [tree(int(top), None) for top in tops[:TREES]] + [tree(0, rng) for _ in range(RANDOM_TREES)]
    return BestTrees(np.array(rows), _places(given, modes), float(value[0]) if is_bound else np.inf)


def _largest_leaves(
    given: Parameterised, row: np.ndarray, within: Sequence[ColumnRange | None]
) -> tuple[np.ndarray, dict[int, np.ndarray], bool]:
    """Log values (n_nodes,) of the leaves, their modes by node, and whether no leaf can have a larger value."""
    circuit, is_bound, rng = given.circuit, True, np.random.default_rng(0)
    value, modes = np.zeros(circuit.n_nodes), dict[int, np.ndarray]()
    for name in families_in_use(circuit):
        leaves, family = circuit.leaves_of(name), LEAF_FAMILIES[name]
        columns = np.array([circuit.columns_of(int(i)) for i in leaves]).reshape(leaves.size, -1)
        for own in np.unique(columns, axis=0):
            which = np.flatnonzero((columns == own).all(axis=1))
            parameters, rows = given.parameters[name][which], np.tile(row[own], (which.size, 1))
            asked = np.flatnonzero(np.isnan(row[own])).tolist()
            if asked and isinstance(family, EllipticalFamily):
                law: Any
                law, conditional = family.columns_of_rows(parameters, rows, asked)
                at = law.location_and_scale(conditional)[0] if len(asked) > 1 else law.mode(conditional)[:, None]
                rows[:, asked] = at
                logs = family.log_density_of_rows(parameters, rows)
            elif asked and name in EXPLICIT and not family.holds_objects:
                rows[:, 0], logs = largest_of_leaves(EXPLICIT[name], parameters, within[own[0]])
            elif asked:
                rows, is_bound = _dense_rows(family, parameters, rows, [within[d] for d in own], rng), False
                logs = family.log_density_of_rows(parameters, rows)
            else:
                logs = family.log_density_of_rows(parameters, rows)
            value[leaves[which]] = logs
            modes |= dict(zip(leaves[which].tolist(), rows, strict=True))
    return value, modes, is_bound


def _dense_rows(
    family: Any, parameters: np.ndarray, rows: np.ndarray, within: list[Any], rng: np.random.Generator
) -> np.ndarray:
    """The densest of some completions of rows (n, d) by leaves whose modes are not known."""
    best, logs = rows.copy(), np.full(len(rows), -np.inf)
    for draw in range(DRAWS):
        tried = rows.copy()
        if len(within) > 1:
            tried = family.draw_missing(parameters, rows, rng)
        else:
            mean = family.mean(parameters) if draw == 0 else np.full(len(rows), np.nan)
            tried[:, 0] = np.where(np.isfinite(mean), mean, family.draw(parameters, rng))
            tried = tried if family.is_density else np.round(tried)
        for j, own in enumerate(within):
            if own is not None:
                tried[:, j] = np.clip(tried[:, j], own.low, own.high)
        found = family.log_density_of_rows(parameters, tried)
        is_better = (found > logs) | (draw == 0)
        best[is_better], logs[is_better] = tried[is_better], found[is_better]
    return best


def _places(given: Parameterised, modes: dict[int, np.ndarray]) -> list[np.ndarray]:
    """Modes of the leaves of each column, all levels, and the ends of leaves that may jump there."""
    circuit = given.circuit
    out: list[list[Any]] = [[] for _ in circuit.columns]
    for i, at in modes.items():
        for d, x in zip(circuit.columns_of(i), at.tolist(), strict=True):
            out[d].append(x)
    for name in families_in_use(circuit):
        family, leaves = EXPLICIT.get(name), circuit.leaves_of(name)
        if family is None:
            continue
        for d in np.unique(circuit.leaf_column[leaves]).tolist():
            parameters = given.parameters[name][circuit.leaf_column[leaves] == d]
            if family.probabilities is not None:
                out[d] += range(family.probabilities(parameters).shape[1])
            elif family.ends is not None:
                out[d] += [x for end in family.ends(parameters) for x in end.tolist() if np.isfinite(x)]
    return [np.unique(np.array(own, np.float64)) for own in out]


def levels_of(given: Parameterised) -> np.ndarray:
    """(D,) int, levels of each column whose leaves are all on levels, 0 of others."""
    circuit = given.circuit
    out, is_other = np.zeros(len(circuit.columns), np.int64), np.zeros(len(circuit.columns), np.bool_)
    for name in families_in_use(circuit):
        leaves, family = circuit.leaves_of(name), EXPLICIT.get(name)
        if family is None or family.probabilities is None:
            is_other[[d for i in leaves.tolist() for d in circuit.columns_of(i)]] = True
        else:
            columns = circuit.leaf_column[leaves]
            out[columns] = np.maximum(out[columns], family.probabilities(given.parameters[name][:1]).shape[1])
    return np.where(is_other, 0, out)
