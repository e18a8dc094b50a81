"""Best induced trees of recorded draws: where a search for the densest row begins, and a bound on what it finds."""

from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, SUM
from pymc_spn.circuits.evaluation.circuit_passes import node_logs_of_row
from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.laws.law import BestTrees
from pymc_spn.maxima.row_boxes import RowBox
from pymc_spn.networks.records.draw_circuit import DrawCircuit, known_rows, leaf_arrays
from pymc_spn.networks.records.multivariate_leaves import logs_of_leaves
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.numerics.draw_averages import even_choice
from pymc_spn.numerics.read_only_views import read_only_view

TREES = 48  # of the draws of largest value, and as many of draws evenly spaced


def best_trees(
    states: RecordedStates,
    row: np.ndarray,
    events: dict[int, Any],
    asked: tuple[int, ...],
    log_weights: np.ndarray,
    box: RowBox,
) -> BestTrees:
    """Trees and bound of the columns that are asked, given points (D,) and events of all columns.

    A leaf of an asked column counts with its largest density within the box. Sums stay sums, so the value of the root
    bounds that of every row. A tree takes the child of largest value at each sum node. Leaves over several columns
    count with the largest density wherever their columns lie.

    Parameters
    ----------
    log_weights : (S,) float64
        Of the draws before what is known.
    box : RowBox
        Of the columns that are asked.
    """
    within = [box.of_column(k) for k in range(len(asked))]
    rest = {d: event for d, event in events.items() if d not in asked}
    regions = states.joint_leaves.regions if states.has_joints else []
    columns, coded = np.arange(row.size), states.schema.code(row[None])
    joints = [_peaks_of_joints(states, r, row, rest, asked) for r in regions]
    values, trees = np.full(states.n_draws, -np.inf), {}
    counted = np.flatnonzero(log_weights > -np.inf)

    def known(s: int) -> tuple[DrawCircuit, np.ndarray, np.ndarray]:
        """Circuit of a draw, logs of its nodes, and the modes (L, n) of its leaves."""
        net, circuit = states.network(s), states.blocks.circuit(s)
        leaves, k = states.column_leaves(s, net)
        modes, logs = np.full((circuit.layout.leaf_column.size, row.size), np.nan), {}
        for d, event in rest.items():
            logs[d] = leaves.log_event(k, d, event)
        for d, ends in zip(asked, within, strict=True):
            modes[circuit.first_leaf[d] : circuit.first_leaf[d + 1], d], logs[d] = leaves.largest(k, d, ends)
        given = known_rows(net.palette, np.where(np.isin(columns, asked), np.nan, coded), None, slice(None))
        of_leaves, at = [np.zeros(0)], int(circuit.first_leaf[-1])
        for _, found, modes_of, log in joints:
            own, size = slice(int(found.begin[s]), int(found.begin[s + 1])), found.columns.size
            stop = at + (own.stop - own.start) * size
            modes[at:stop, found.columns] = np.repeat(modes_of[own], size, axis=0)
            of_leaves.append(log[own])
            at = stop
        layout, coefficients, table = leaf_arrays(net, circuit, given, logs)
        inputs = layout, circuit.log_weights, circuit.weight, coefficients, table
        of_row = read_only_view(np.concatenate([given.table[0], *of_leaves])[None])
        return circuit, node_logs_of_row(*inputs, of_row), modes

    for s in counted.tolist():
        values[s] = known(s)[1][0] + log_weights[s]
    values[values <= 0.1 * EMPTY_LEAF] = -np.inf
    some = np.argsort(-values, kind="stable")[:TREES].tolist()
    some += counted[even_choice(counted.size, TREES)].tolist()
    for s in dict.fromkeys(some):
        if values[s] > -np.inf:
            trees[s] = _tree_of(*known(s))[list(asked)]
    rows = np.array(list(trees.values())).reshape(-1, len(asked))
    jacobian = float(states.log_jacobian(row[None])[0])
    top = values.max()
    bound = top + np.log(np.exp(values - top).sum()) + jacobian if top > -np.inf else np.inf
    return BestTrees(rows, [np.zeros(0) for _ in asked], float(bound))


def _tree_of(circuit: DrawCircuit, logs: np.ndarray, modes: np.ndarray) -> np.ndarray:
    """Row (n,) of the modes of the leaves below the likeliest child of each sum node."""
    layout, out, waiting = circuit.layout, np.full(modes.shape[1], np.nan), [0]
    while waiting:
        v = waiting.pop()
        edges = slice(layout.child_ptr[v], layout.child_ptr[v + 1])
        children = layout.children[edges]
        if layout.kind[v] == LEAF:
            mode = modes[layout.leaf_of_node[v]]
            out = np.where(np.isnan(mode), out, mode)
        elif layout.kind[v] == SUM:
            waiting.append(int(children[np.argmax(circuit.log_weights[layout.edge_weight[edges]] + logs[children])]))
        else:
            waiting += children.tolist()
    return out


def _peaks_of_joints(
    states: RecordedStates, r: int, row: np.ndarray, events: dict[int, Any], asked: tuple[int, ...]
) -> tuple[int, Any, np.ndarray, np.ndarray]:
    """Region, its leaves over several columns, where they are largest (n, d), and their logs (n,) in coded units."""
    found = states.joint_leaves.of(r)
    columns = found.columns
    places = [j for j, d in enumerate(columns.tolist()) if d in asked]
    points = np.tile(row[columns], (found.slots.size, 1))
    modes = points.copy()
    logs = logs_of_leaves(found, states.compiled, row[None], {} if places else events)[:, 0]
    if places and len(points):
        law, own = found.family.columns_of_rows(found.parameters, points, places)
        at = law.mode(own)[:, None] if len(places) == 1 else law.location_and_scale(own)[0]
        modes[:, places] = at
        logs = logs + law.log_density_of_rows(own, at)
    return r, found, modes, logs
