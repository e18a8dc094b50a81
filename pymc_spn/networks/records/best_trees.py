"""Best induced trees of recorded draws: where a search for the densest row begins, and a bound on what it finds."""

from typing import Any

import numpy as np

from pymc_spn.laws.law import BestTrees
from pymc_spn.maxima.row_boxes import RowBox
from pymc_spn.networks.records.draw_laws import shares_of
from pymc_spn.networks.records.joint_events import logs_of_leaves
from pymc_spn.networks.records.predictive_kernels import evaluate_row
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.numerics.draw_averages import even_choice

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
    joints = [_peaks_of_joints(states, r, row, rest, asked) for r in regions]
    coded = states.coded_rows(row[None])[0]
    values, trees = np.full(states.n_draws, -np.inf), {}
    counted = np.flatnonzero(log_weights > -np.inf)

    def known(s: int) -> tuple[Any, Any, Any, Any]:
        """Network, row, events and modes in leaf slots of a draw, as kernels read them."""
        net = states.network(s)
        flags, logs = states.event_logs(s, net, rest)
        modes = np.zeros(logs.size)
        leaves, k = states.column_leaves(s, net)
        for d, ends in zip(asked, within, strict=True):
            flags[net.palette.source == d] = True
            slots, (x, log) = leaves.slots(k, d), leaves.largest(k, d, ends)
            modes[slots], logs[slots] = x, log
        of_slots = np.zeros(net.joints.log_scale.size if joints else 0)
        for r, found, _, log in joints:
            own = slice(int(found.begin[s]), int(found.begin[s + 1]))
            of_slots[net.joints.slot_begin[r] + found.slots[own]] = log[own]
        return net, np.concatenate([coded, of_slots]), (flags, logs), modes

    for s in counted.tolist():
        net, y, given, _ = known(s)
        values[s] = evaluate_row(*net.of_columns, y, *given, net.joints)[0] + log_weights[s]
    some = np.argsort(-values, kind="stable")[:TREES].tolist()
    some += counted[even_choice(counted.size, TREES)].tolist()
    for s in dict.fromkeys(some):
        if values[s] > -np.inf:
            net, y, given, modes = known(s)
            trees[s] = _tree_of(states, s, net, shares_of(net, y, *given), modes, joints, len(row))[list(asked)]
    rows = np.array(list(trees.values())).reshape(-1, len(asked))
    jacobian = float(states.log_jacobian(row[None])[0])
    top = values.max()
    bound = top + np.log(np.exp(values - top).sum()) + jacobian if top > -np.inf else np.inf
    return BestTrees(rows, [np.zeros(0) for _ in asked], float(bound))


def _tree_of(
    states: RecordedStates, s: int, net: Any, shares: list[np.ndarray], modes: np.ndarray, joints: list[Any], n: int
) -> np.ndarray:
    """Row (n,) of the modes of the leaves below the likeliest child of each sum node."""
    out = np.full(n, np.nan)
    tree, waiting = net.tree, [(0, 0)]
    of_region = {r: (found, modes_of) for r, found, modes_of, _ in joints}
    while waiting:
        r, node = waiting.pop()
        child, begin = int(np.argmax(shares[r][node])), int(net.edges.begin[r])
        d = int(tree.column[r])
        if d >= 0:
            out[net.palette.source[d]] = modes[begin + child]
            continue
        is_last = child == net.edges.top[r]
        split = 0 if is_last or tree.n_splits[r] == 1 else int(net.edges.split[begin + child])
        if r in of_region and not is_last and split == net.joints.split[r]:
            found, of_leaves = of_region[r]
            own = slice(int(found.begin[s]), int(found.begin[s + 1]))
            at = np.flatnonzero(found.slots[own] == child)
            if at.size:
                out[found.columns] = of_leaves[own][at[0]]
                continue
        parts = tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]]
        waiting += [(int(q), child) for q in parts if tree.split[q] == split]
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
